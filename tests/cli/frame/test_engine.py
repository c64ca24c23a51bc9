"""herdcli from Python: each function gives the arrays that its command writes, from arrays, tables, artifacts and paths."""

from __future__ import annotations

import copy
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import herdcli
from herdcli.artifacts import Dataset, load
from herdcli.artifacts.sealed.artifact_comparison import largest_difference
from herdcli.cli.main import COMMANDS
from herdcli.errors import BadUsage, DataError, NoInput

pytestmark = pytest.mark.filterwarnings("ignore:herd ")

ROWS = {
    "fit_rbm": {"hidden": 4, "epochs": 2, "batch_size": 5},
    "herd": {"hidden": 4, "iterations": 5},
    "kernel_herd": {"count": 4, "rule": "line-search"},
    "nherd_train": {"C": 1.0, "bias": False},
    "em": {"components": 2, "covariance": "diagonal", "floor": 0.1},
    "regress": {"l2": 0.1},
    "ica": {"algorithm": "infomax", "rates": "0.01x3"},
    "fit_mrf": {"smoothing": 1.0},
    "convert": {"split": (10, 5, 5), "seed": 3},
}


def line(options):
    """Keywords as they are typed, written down here once more."""
    typed = []
    for name, value in options.items():
        if value is False:
            typed.append(f"--no-{name}")
        else:
            typed += [f"--{name.replace('_', '-')}", ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return typed


def same(value, path):
    return largest_difference(value, load(str(path)).value)[0] == 0.0


@pytest.mark.parametrize("name", ROWS)
def test_rows_give_what_the_command_gives(herd, small, rows, tmp_path, name):
    assert set(ROWS) == set(herdcli.LEARNING)
    assert herd(name.replace("_", "-"), "small.h5", *line(ROWS[name]), "-o", "out.h5", "-q").code == 0
    made = getattr(herdcli, name)
    assert same(made(small, **ROWS[name]), tmp_path / "out.h5")
    value = Dataset(**rows)
    assert same(made(value, **ROWS[name]), tmp_path / "out.h5")
    assert same(made(rows["X"], rows["y"], row_split=rows["split"], **ROWS[name]), tmp_path / "out.h5")


def test_what_is_made_goes_into_the_next_function(herd, small, rows, model, tmp_path):
    rbm = herdcli.load(model)
    for command, value in (
        ("apply model.h5 small.h5 --want energies", herdcli.apply(rbm, Dataset(**rows), want="energies")),
        ("sample model.h5 --count 3", herdcli.sample(rbm, count=3)),
        ("network grid --grid-rows 3 --grid-columns 3 --seed 2", grid := herdcli.network("grid", rows=3, columns=3, seed=2)),
        ("data digits", herdcli.data("digits")),
    ):
        assert herd(*command.split(), "-q", "-o", "out.h5").code == 0
        assert same(value, tmp_path / "out.h5"), command
    herdcli.save(tmp_path / "grid.h5", grid)
    herdcli.check(tmp_path / "grid.h5", model)
    assert herd("ups-infer", "grid.h5", "-q", "-o", "out.h5").code == 0
    beliefs = herdcli.ups_infer(grid)
    assert same(beliefs, tmp_path / "out.h5")
    figures = herdcli.eval(beliefs, reference=beliefs)
    assert (len(figures), figures[0]["kind"]) == (1, "beliefs")
    halves = [herdcli.nherd_train(small, C=C, bias=False) for C in (0.5, 1.0)]
    for half, value in enumerate(halves):
        herdcli.save(tmp_path / f"{half}.h5", value)
    assert herd("merge", "0.h5", "1.h5", "-q", "-o", "out.h5").code == 0
    assert same(herdcli.merge(*halves), tmp_path / "out.h5")


def test_tables_and_sparse_rows(rows):
    from scipy.sparse import csc_array

    y = rows["X"] @ np.arange(6.0) + 0.5
    table = pa.table({name: rows["X"][:, column].astype(float) for column, name in enumerate("abcdef")} | {"y": y})
    fit = herdcli.regress(table, l2=0.1)
    assert (fit.family, fit.feature_names) == ("gaussian", list("abcdef"))
    assert largest_difference(herdcli.regress(rows["X"].astype(float), y, feature_names="abcdef", l2=0.1), fit)[0] < 1e-12
    sparse = herdcli.fit_rbm(csc_array(rows["X"].astype(float)), hidden=2, epochs=1)
    assert largest_difference(sparse.W, herdcli.fit_rbm(rows["X"].astype(float), hidden=2, epochs=1).W)[0] < 1e-6


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_pandas_and_polars(rows, library):
    """Columns of numbers, of text with gaps, of categories: all as the Parquet file of the same table."""
    frames = pytest.importorskip(library)
    colour = np.where(rows["X"][:, 0] > 0, "red", "blue")
    columns = {name: rows["X"][:, column].astype(float) for column, name in enumerate("abcdef")}
    plain = pa.table(columns | {"colour": colour, "y": rows["y"]})
    kind = "category" if library == "pandas" else frames.Categorical
    for as_text in (True, False):
        frame = frames.DataFrame(columns | {"colour": colour, "y": rows["y"]})
        if not as_text:
            frame = frame.astype({"colour": kind}) if library == "pandas" else frame.with_columns(frames.col("colour").cast(kind))
        made = herdcli.nherd_train(frame, C=1.0)
        assert made.feature_names == [*"abcdef", "colour=blue", "colour=red"]
        assert largest_difference(made, herdcli.nherd_train(plain, C=1.0))[0] == 0.0
        assert largest_difference(herdcli.apply(made, frame), herdcli.apply(made, plain))[0] == 0.0


def test_gaps_are_nan_as_they_are_empty_cells_of_files(herd, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[5, 1] = np.nan
    np.savetxt(tmp_path / "gaps.csv", X, delimiter=",", header="a,b,c", comments="")
    (tmp_path / "gaps.csv").write_text((tmp_path / "gaps.csv").read_text().replace("nan", ""))
    assert herd("em", "gaps.csv", "--components", 2, "-o", "out.h5", "-q").code == 0
    assert same(herdcli.em(Dataset(X, feature_names=list("abc")), components=2), tmp_path / "out.h5")
    assert herdcli.em(X, components=2).mean.shape == (2, 3)
    with pytest.raises(DataError, match=r"^X has 1 NaN row \(first: row 5\)\nhint: --missing drop leaves such rows out, "):
        herdcli.ica(X)


def test_labels_of_text_are_the_names_of_classes(rows):
    names = np.array(["cat", "dog"])[rows["y"]]
    assert herdcli.nherd_train(rows["X"], names, C=1.0).classes == ["cat", "dog"]


def test_what_a_masked_array_hides_and_labels_that_are_none_are_missing(rows):
    """A fill value is no number, and neither None nor NaN the name of a class."""
    X = np.array([[1.0, 2.0], [3.0, -9999.0], [5.0, 6.0], [7.0, 9.0]])
    made = herdcli.em(np.ma.masked_equal(X, -9999.0), components=1, split=(4, 0, 0))
    np.testing.assert_allclose(made.mean[0, 0], 4.0)
    assert made.mean[0, 1] > 2
    with pytest.raises(DataError, match="1 NaN row"):
        herdcli.convert(np.ma.masked_equal(X, -9999.0))
    for nothing in (None, np.nan):
        with pytest.raises(DataError, match=r"^y has the label -1 in row 1, but /class_names has only 2 names"):
            herdcli.nherd_train(X, np.array(["a", nothing, "b", "a"], dtype=object))


def test_a_vector_is_one_column_as_of_a_file(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(5.0))
    assert herdcli.convert(np.arange(5.0)).X.tolist() == herdcli.convert(str(tmp_path / "x.npy")).X.tolist() == [[0], [1], [2], [3], [4]]


def test_what_is_wrong_is_an_exception_and_names_no_folder(small, rows, tmp_path):
    with pytest.raises(TypeError, match=r"^fit_rbm\(\) has no option 'hiden'; did you mean 'hidden'\?$"):
        herdcli.fit_rbm(small, hiden=3)
    with pytest.raises(TypeError, match=r"^kernel_herd\(\) has no option 'm'; did you mean 'count'\?$"):
        herdcli.kernel_herd(small, m=3)
    with pytest.raises(BadUsage, match=r"^Invalid value for '--hidden': -3 is not in the range x>=1\.$"):
        herdcli.fit_rbm(small, hidden=-3)
    with pytest.raises(DataError, match=r"^X has 1 NaN row"):
        herdcli.fit_rbm(np.where(np.arange(6) == 2, np.nan, rows["X"])[:1])
    with pytest.raises(NoInput, match=r"there is no such file$"):
        herdcli.fit_rbm(tmp_path / "none.h5")
    with pytest.raises(TypeError, match=r"^X is a set; it should be an array, a table of pandas, polars or pyarrow, a list of rows, "):
        herdcli.fit_rbm({1, 0})
    with pytest.raises(TypeError, match="come beside arrays and tables"):
        herdcli.fit_rbm(small, rows["y"])
    with pytest.raises(DataError, match=r"^model: is of kind network, but must be of kind "):
        herdcli.apply(herdcli.network("grid", rows=2, columns=2), small)
    with pytest.raises(AttributeError, match=r"^herdcli has no 'fit_rmb'; did you mean 'fit_rbm'\?  its functions: fit_rbm, "):
        herdcli.fit_rmb  # noqa: B018


def test_warnings_are_python_s(rows):
    constant = rows["X"] * (np.arange(6) != 1)
    with pytest.warns(UserWarning, match=r"^herd fit-rbm: 1 of 6 columns are constant") as told:
        herdcli.fit_rbm(constant, hidden=2, epochs=1)
    assert {warning.filename for warning in told} == {__file__}


def test_every_command_that_makes_something_has_a_function_and_help():
    without = {"cv", "info", "seal", "selftest", "completion"}
    assert {name.replace("-", "_") for name in COMMANDS} - without == {*herdcli.LEARNING, *herdcli.COMPUTING, "check"}
    assert herdcli.fit_rbm.__name__ == "fit_rbm"
    assert "learning_rate" in herdcli.fit_rbm.__doc__


def test_packages_with_the_name_of_a_command_are_both(rows):
    import herdcli.em.driver
    import herdcli.ica

    assert herdcli.em.driver.EM
    assert herdcli.em(rows["X"].astype(float), components=1, floor=0.1).mean.shape == (1, 6)
    assert herdcli.ica.__name__ == "herdcli.ica"


def test_arrays_are_printed_by_what_they_are(model):
    """Of results without tables; those with tables show them."""
    text = repr(herdcli.load(Path(__file__).parents[2] / "data" / "ica-shard-1.h5"))
    assert "centre=<2 float64>" in text
    assert len(text) < 2000
    assert "<1×6×4 float32>" not in repr(herdcli.load(model))


ARCHIVE = sorted(path for path in (Path(__file__).parents[2] / "data").glob("*-[0-9].h5") if "shard" not in path.name)


@pytest.mark.parametrize("path", ARCHIVE, ids=lambda path: path.stem)
def test_a_notebook_shows_shapes_and_settings_and_no_numbers(path):
    html = herdcli.load(path)._repr_html_()
    root = ElementTree.fromstring(html)  # every element is closed, every text escaped
    assert root.tag == "table"
    cells = [[("".join(cell.itertext())) for cell in row] for row in root.iter("tr")]
    assert cells
    assert all(len(row) == 3 and all(len(cell) < 400 for cell in row) for row in cells)
    assert ("verdict" in dict(row[:2] for row in cells)) == (path.stem[:-2] not in ("dataset", "report")), cells[0]


def test_a_notebook_shows_names_of_data_and_does_not_obey_them(rows):
    value = Dataset(**rows, source="<script>alert(1)</script>\x1b[2J")
    assert "<script" not in value._repr_html_()
    assert "\x1b" not in value._repr_html_()
    assert "&lt;script&gt;" in value._repr_html_()
    assert "<td>ok</td>" in herdcli.kernel_herd(rows["X"], count=5)._repr_html_()


def test_nothing_is_imported_before_it_is_asked_for():
    script = "import sys, herdcli; assert 'numpy' not in sys.modules and 'click' not in sys.modules; print(herdcli.__version__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, cwd="/")
    assert done.stdout.strip() == herdcli.__version__


def test_what_a_model_learned_of_its_columns_goes_with_it(herd, tmp_path):
    """Offsets are named by the history of a regression, levels of text by what it learned of them: both are needed for new rows."""
    rng = np.random.default_rng(3)
    x, exposure, colour = rng.normal(size=80), rng.uniform(1, 5, 80), rng.choice(["red", "blue"], 80)
    y = rng.poisson(exposure * np.exp(0.3 * x + (colour == "red"))).astype(float)
    table = pa.table({"x": x, "log_e": np.log(exposure), "colour": colour, "y": y})
    pq.write_table(table, tmp_path / "t.parquet")
    options = ("--family", "poisson", "--offset", "log_e")
    assert herd("regress", "t.parquet", *options, "-o", "fit.h5", "-q").code == 0
    assert herd("apply", "fit.h5", "t.parquet", "-o", "means.h5", "-q").code == 0
    fit = herdcli.regress(table, family="poisson", offset="log_e")
    assert same(herdcli.apply(fit, table), tmp_path / "means.h5")
    herdcli.save(tmp_path / "again.h5", fit)
    assert [stage["command"] for stage in load(str(tmp_path / "again.h5")).history] == ["regress"]
    assert same(herdcli.apply(tmp_path / "again.h5", table), tmp_path / "means.h5")
    assert herd("eval", "fit.h5", "--data", "t.parquet", "--format", "json", "-o", "figures.json", "-q").code == 0
    told, ours = json.loads((tmp_path / "figures.json").read_text())[0], herdcli.eval(fit, data=table)[0]
    assert {name: told[name] for name in told if name != "file"} == {name: ours[name] for name in told if name != "file"}
    assert ours["file"] == "artifacts[0]"
    assert same(herdcli.apply(copy.deepcopy(fit), table), tmp_path / "means.h5")


def test_a_history_begins_with_python_and_holds_digests_of_arrays(rows, tmp_path):
    histories = []
    for name in ("once.h5", "again.h5"):
        herdcli.save(tmp_path / name, herdcli.fit_rbm(rows["X"].copy(), hidden=2, epochs=1))
        histories.append(load(str(tmp_path / name)).history)
    assert histories[0] == histories[1]
    assert [stage["command"] for stage in histories[0]] == ["python", "fit-rbm"]
    herdcli.save(tmp_path / "edited.h5", dataclasses.replace(herdcli.load(tmp_path / "once.h5"), seed=5))
    assert [stage["command"] for stage in load(str(tmp_path / "edited.h5")).history] == ["python"]
