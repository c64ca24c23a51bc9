"""Text and gaps in columns: levels and means are learned from training rows, kept with the model, and used again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from herdcli.artifacts import load

ROWS = 40
HEAD = "age,colour,y"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """40 rows: numbers with two gaps, two colours that decide the label, and a third one among the last rows alone."""
    lines = [f"{row % 7}.5,{'red' if row % 2 else 'blue'},{'yes' if row % 2 else 'no'}" for row in range(ROWS)]
    lines[3], lines[8] = ",red,yes", "NA,blue,no"
    path = tmp_path / "table.csv"
    path.write_text("\n".join([HEAD, *lines]) + "\n")
    return path


def _split(path: Path, train: int) -> Path:
    """The same rows with a column split: so many training rows, the rest to test."""
    head, *lines = path.read_text().splitlines()
    parts = ["train"] * train + ["test"] * (len(lines) - train)
    path.write_text("\n".join([f"{head},split", *(f"{line},{part}" for line, part in zip(lines, parts, strict=True))]) + "\n")
    return path


def test_gaps_are_refused_with_the_options_that_help(herd, table, tmp_path):
    ended = herd("regress", str(table), "-o", "m.h5")
    assert ended.code == 65
    assert ended.err.endswith(
        "column 'age' has 2 missing values (first: line 5)\n"
        "hint: --missing drop leaves such rows out, --missing mean fills in the column's mean\n"
    )


def test_hints_at_gaps_name_what_the_options_do_for_this_column(herd, tmp_path):
    """Text has no mean, and targets and weights are never filled in."""
    cells = [f"{'rgb'[i % 3]},{i % 5},{'no' if i % 2 else 'yes'},1" for i in range(30)]
    drop = "hint: --missing drop leaves such rows out"
    for changed, column, options, hint in (
        (",2,yes,1", "colour", (), f"{drop}, --missing mean sets their one-hot columns to 0"),
        ("r,2,,1", "bought", ("--missing", "mean"), f"{drop}; --missing mean fills in features only"),
        ("r,2,yes,", "w", ("--missing", "mean"), f"{drop}; --missing mean fills in features only"),
    ):
        (tmp_path / "t.csv").write_text("\n".join(["colour,a,bought,w", *cells[:2], changed, *cells[3:]]) + "\n")
        ended = herd("regress", "t.csv", "--target", "bought", "--weights", "w", *options, "-o", "m.h5")
        assert (ended.code, ended.err.splitlines()[-2:]) == (
            65,
            [f"herd regress: t.csv: column '{column}' has 1 missing value (first: line 4)", hint],
        )


def test_means_are_of_training_rows_and_are_used_by_apply(herd, table, tmp_path):
    _split(table, 30)
    ended = herd("regress", str(table), "--missing", "mean", "--l2", "0.1", "-o", "m.h5")
    assert ended.code == 0
    assert "table.csv: text columns one-hot encoded: colour (2 levels)\n" in ended.err
    assert "table.csv: 2 missing values filled with column means\n" in ended.err
    ages = np.array([row % 7 + 0.5 for row in range(30) if row not in (3, 8)])
    model = load(str(tmp_path / "m.h5"))
    assert model.recoding.means == {"age": pytest.approx(ages.mean())}
    assert model.recoding.levels == {"colour": ("blue", "red")}
    assert model.value.feature_names == ["age", "colour=blue", "colour=red"]
    (tmp_path / "gap.csv").write_text("colour,age\nred,\n")
    (tmp_path / "full.csv").write_text(f"age,colour\n{float(ages.mean())!r},red\n")
    told = [herd("apply", "m.h5", name, "-o", f"{name}.h5") for name in ("gap.csv", "full.csv")]
    assert [ended.code for ended in told] == [0, 0]
    assert "gap.csv: 1 missing value filled with column means" in told[0].err
    filled, full = (load(str(tmp_path / f"{name}.h5")).value.X for name in ("gap.csv", "full.csv"))
    np.testing.assert_allclose(filled, full, rtol=1e-6)


def test_rows_with_gaps_are_dropped(herd, table, tmp_path):
    ended = herd("convert", str(table), "--missing", "drop", "-o", "rows.h5")
    assert (ended.code, "dropped 2 of 40 rows, because of missing values" in ended.err) == (0, True)
    assert load(str(tmp_path / "rows.h5")).value.X.shape == (38, 3)


def test_unseen_levels_are_told(herd, table, tmp_path):
    assert herd("regress", str(table), "--missing", "mean", "--l2", "0.1", "-o", "m.h5").code == 0
    (tmp_path / "new.csv").write_text("age,colour,shoe\n1,purple,9\n2,red,9\n")
    ended = herd("apply", "m.h5", "new.csv", "-o", "p.h5")
    assert ended.code == 0
    assert (
        "warning: new.csv: column 'colour' has 'purple' in 1 row, but in no training row: all its one-hot columns there are 0\n"
        in ended.err
    )
    assert "new.csv: left out shoe because the model does not know them\n" in ended.err


def test_levels_travel_with_a_data_set(herd, table, tmp_path):
    """A sealed data set's levels and means go on into the model that is learned from it, HDF5 or Parquet."""
    (tmp_path / "new.csv").write_text("colour,age\nred,\nblue,1\n")
    for name in ("rows.h5", "rows.parquet"):
        assert herd("convert", str(table), "--missing", "mean", "-o", name).code == 0
        assert herd("regress", name, "--l2", "0.1", "-o", "m.h5").code == 0
        assert herd("apply", "m.h5", "new.csv", "-o", "p.h5").code == 0
        assert load(str(tmp_path / "p.h5")).value.X.shape[0] == 2


@pytest.mark.parametrize("command", ["fit-rbm", "em", "ica", "nherd-train", "kernel-herd", "herd"])
def test_every_learner_reads_text(herd, table, command, tmp_path):
    more = {
        "fit-rbm": ["--visible-units", "gaussian", "--standardize", "--hidden", "2"],
        "kernel-herd": ["-m", "3", "--kernel", "gaussian"],
    }
    more["em"] = ["--components", "2"]
    more["herd"] = ["--range", "0,7", "--iterations", "20", "--hidden", "2"]
    more["ica"] = ["--components", "2"]
    more["nherd-train"] = []
    rest = ["--drop", "y"] if command == "kernel-herd" else ["--label", "y"]
    ended = herd(command, str(table), "--missing", "mean", *rest, *more[command], "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert "text columns one-hot encoded: colour (2 levels)" in ended.err
    assert load(str(tmp_path / "m.h5")).recoding.levels == {"colour": ("blue", "red")}


def test_text_can_be_left_out(herd, table, tmp_path):
    ended = herd("convert", str(table), "--missing", "drop", "--categorical", "none", "-o", "rows.h5")
    assert (ended.code, "3 columns: 1 feature, labels 'y'; not used: colour" in ended.err) == (0, True)
    assert load(str(tmp_path / "rows.h5")).value.X.shape == (38, 1)
    assert json.loads(json.dumps(load(str(tmp_path / "rows.h5")).history[-1]["parameters"]))["missing"] == "drop"


def test_dates_are_refused_with_a_hint(herd, tmp_path):
    (tmp_path / "dates.csv").write_text("a,day\n1,2024-01-01\n2,2024-01-02\n")
    ended = herd("convert", "dates.csv", "-o", "rows.h5")
    assert ended.code == 65
    assert ended.err == (
        "herd convert: dates.csv: column 'day' holds dates or times\n"
        "hint: turn them into numbers (days since a start, the month, the hour), or remove the column\n"
    )


@pytest.mark.parametrize("name", ["y", "when"])
def test_dates_that_python_has_none_for_are_refused_as_all_dates(herd, tmp_path, name):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    days = pa.array([2**31 - 1, 0, 5], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], name: days}), tmp_path / "far.parquet")
    for command in ("info", "convert"):
        ended = herd(command, "far.parquet")
        assert ended.code == 65
        assert "dates or times" in ended.err.splitlines()[0]


def test_the_names_of_rows_are_left_out(herd, tmp_path):
    for head in (",a,b", "Unnamed: 0,a,b"):
        (tmp_path / "index.csv").write_text(f"{head}\n0,1,2\n1,3,5\n")
        ended = herd("convert", "index.csv", "-o", "rows.csv")
        assert f"left out column '{head.split(',')[0]}' because it holds the names of the rows" in ended.err
        assert (tmp_path / "rows.csv").read_text() == '"a","b"\n1,2\n3,5\n'.replace('"', "")


def test_gaps_in_text_are_counted(herd, tmp_path):
    """Under --missing mean, where they become rows of zeros."""
    (tmp_path / "gap.csv").write_text("a,city\n1,Oslo\n2,\n3,Rome\n4,Oslo\n5,Rome\n6,NA\n")
    ended = herd("convert", "gap.csv", "--missing", "mean", "-o", "whole.csv")
    assert ended.code == 0
    assert "gap.csv: 2 missing values of column 'city': their one-hot columns are 0\n" in ended.err
    assert (tmp_path / "whole.csv").read_text().splitlines()[2] == "2,0,0"
    dropped = herd("convert", "gap.csv", "--missing", "drop", "-o", "fewer.csv")
    assert "gap.csv: dropped 2 of 6 rows, because of missing values\n" in dropped.err


def test_a_table_with_gaps_in_the_place_of_the_model_is_told(herd, tmp_path):
    (tmp_path / "gap.csv").write_text("a,city\n1,Oslo\n,Rome\n")
    ended = herd("apply", "gap.csv", "gap.csv", "-o", "out.csv")
    assert (ended.code, ended.err.splitlines()[-1]) == (65, "hint: change the order: herd apply MODEL DATA")
    assert "gap.csv: is a data set, but the first argument must be the model" in ended.err


def test_a_target_of_one_class_is_refused(herd, tmp_path):
    (tmp_path / "one.csv").write_text("a,y\n1,u\n2,u\n3,u\n4,u\n5,u\n")
    ended = herd("regress", "one.csv", "-o", "m.h5")
    assert (ended.code, ended.err) == (
        65,
        "herd regress: one.csv: every row has the target 'u', so there is nothing to predict\nhint: name another column: --target COLUMN\n",
    )


def test_a_column_that_decides_alone_is_told(herd, tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 1.0, 1000.0]
    np.savetxt(tmp_path / "wide.csv", rows, delimiter=",", header="a,b,income", comments="")
    ended = herd("kernel-herd", "wide.csv", "-m", "3", "-o", "three.csv")
    assert ended.code == 0
    told = (
        "warning: column 'income' has 100.0 % of the variance, so it dominates all distances between rows; "
        "--scale std equalizes the columns\n"
    )
    assert told in ended.err
    assert "%" not in herd("kernel-herd", "wide.csv", "-m", "3", "--scale", "std", "-o", "three.csv").err
    assert len(ended.err.splitlines()[-1].split("gaussian:")[1].split(",")[0]) < 8, "a bandwidth of few digits"


def test_a_missing_option_says_what_it_is(herd, table):
    ended = herd("kernel-herd", str(table))
    assert (ended.code, ended.err) == (
        2,
        "herd kernel-herd: Missing option '-m' / '--count'.\nhint: -m N: number of atoms (points to choose); with --by, in each group\n",
    )


@pytest.mark.parametrize(
    ("cells", "wrong", "hint"),
    [
        (("10%", "25.5%"), "'10%' in line 2", "--percent reads it as 0.1"),
        (("$10", "$1,000"), "'$10' in line 2", "--thousands , --currency reads $1,000 as 1000, --decimal , --currency as 1"),
        (("1 000", "20 000"), "'1 000' in line 2", "--thousands ' ' reads it as 1000"),
        (
            ("\u22121.5", "2,5"),
            "'2,5' in line 3",
            "--decimal , reads it as 2.5, but not '\u22121.5' in line 2: correct that cell, or remove the column",
        ),
    ],
)
def test_numbers_as_people_write_them_are_refused_with_the_options_that_read_them(herd, tmp_path, cells, wrong, hint):
    (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"{cells[row % 2]};1.5\n" for row in range(8)))
    ended = herd("convert", "t.csv", "-o", "t.h5")
    assert (ended.code, ended.err) == (65, f"herd convert: t.csv: column 'a' has {wrong}, which is not a number\nhint: {hint}\n")


def test_the_options_read_numbers_as_people_write_them(herd, tmp_path):
    (tmp_path / "t.csv").write_text("a;b;y\n1.234,5;12 %;l\n(2.000);7 %;r\n")
    ended = herd("convert", "t.csv", "--thousands", ".", "--percent", "--currency", "-o", "t.csv.gz")
    assert ended.code == 0
    assert gzip.decompress((tmp_path / "t.csv.gz").read_bytes()) == b'a,b,y\n1234.5,0.12,"l"\n-2000,0.07,"r"\n'
    assert "read numbers with --thousands . --percent --currency (for example 1.234,5 is 1234.5 in 'a', 12 % is 0.12 in 'b')\n" in ended.err
    same = herd("convert", "t.csv", "--thousands", ",", "--decimal", ",", "-o", "u.h5")
    assert (same.code, same.err.splitlines()[0]) == (2, "herd convert: --thousands and --decimal must be different characters")
    unknown = herd("convert", "t.csv", "--encoding", "klingon", "-o", "u.h5")
    assert (unknown.code, unknown.err.splitlines()[0]) == (2, "herd convert: --encoding: 'klingon' is not an encoding of text")


@pytest.mark.parametrize("mark", ["'", "\u2019"], ids=["straight", "curly"])
@pytest.mark.parametrize("typed", ["'", "\u2019"], ids=["typed straight", "typed curly"])
def test_both_apostrophes_separate_thousands(herd, tmp_path, mark, typed):
    (tmp_path / "t.csv").write_text(f"a,b\n1{mark}234.5,1\n12{mark}345{mark}678,2\n", encoding="utf-8")
    done = herd("convert", "t.csv", "--thousands", typed, "-o", "t.h5")
    assert done.code == 0, done.err
    found = load(str(tmp_path / "t.h5"))
    assert found.value.X[:, 0].tolist() == [1234.5, 12345678.0]
    assert found.history[-1]["parameters"]["thousands"] == "'"


def test_the_history_tells_how_numbers_were_read_and_is_followed(herd, tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1.234,5;3\n2.000;4\n")
    assert herd("convert", "t.csv", "--thousands", ".", "-o", "t.h5").code == 0
    assert load(str(tmp_path / "t.h5")).history[-1]["parameters"]["thousands"] == "."
    again = herd("check", "--rerun", "t.h5", "--input", "t.csv")
    assert (again.code, "reproduced" in again.out.decode() + again.err) == (0, True)


def test_the_line_at_the_end_of_reading_names_what_was_not_used(herd, tmp_path):
    rows = "".join(f"{row},{'uv'[row % 2]},n{row},{'lr'[row % 2]}\n" for row in range(12))
    (tmp_path / "t.csv").write_text("a,colour,name,y\n" + rows)
    line = "t.csv: 13 lines, 12 rows, 4 columns: 3 features, labels 'y'; not used: name\n"
    assert line in herd("convert", "t.csv", "-o", "t.h5").err
    (tmp_path / "u.csv").write_text("a,y\n1,l\n2,r\n")
    assert "columns:" not in herd("convert", "u.csv", "-o", "u.h5").err
    assert "u.csv: 3 lines, 2 rows, 2 columns: 1 feature, labels 'y'\n" in herd("convert", "-v", "u.csv", "-o", "u.h5").err
