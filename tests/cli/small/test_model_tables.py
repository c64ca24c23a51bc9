"""Tables of models: `herd info` of RBMs, herding and ICA, and `herd convert MODEL -o TABLE.csv`."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from herdcli import artifacts


@pytest.fixture
def rows(tmp_path):
    """Forty rows of three named columns in rows.csv, with a class, and their signs in signs.csv."""
    X = np.random.default_rng(0).laplace(size=(40, 3)) * [1, 2, 4]
    lines = [",".join(f"{each:.4f}" for each in row) for row in X]
    (tmp_path / "rows.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")
    (tmp_path / "signs.csv").write_text("a,b,c\n" + "\n".join(",".join(str(int(each > 0)) for each in row) for row in X) + "\n")
    (tmp_path / "classes.csv").write_text(
        "a,b,c,y\n" + "".join(f"{line},{'no' if x[0] < 0 else 'yes'}\n" for line, x in zip(lines, X, strict=True))
    )
    return X


@pytest.fixture
def converted(herd, tmp_path):
    def run(name: str) -> list[dict[str, str]]:
        ended = herd("convert", name, "--format", "csv")
        assert ended.code == 0, ended.err
        return list(csv.DictReader(io.StringIO(ended.out.decode())))

    return run


def test_an_rbm_is_its_hidden_units(herd, rows, tmp_path, converted):
    assert herd("fit-rbm", "signs.csv", "--hidden", "2", "--epochs", "3", "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
    model = artifacts.load(str(tmp_path / "m.h5")).value
    shown = herd("info", "m.h5").out.decode()
    assert "\n  hidden units\n    unit" in shown
    assert "float32" not in shown
    assert "float32" in herd("info", "-v", "m.h5").out.decode()
    strongest = int(np.abs(model.W[0, :, 0]).argmax())
    line = next(line for line in shown.partition("hidden units\n")[2].splitlines() if line.startswith("    1 "))
    assert f"{'abc'[strongest]} {model.W[0, strongest, 0]:+.2g}, " in line
    found = converted("m.h5")
    np.testing.assert_allclose([[float(row[name]) for name in "abc"] for row in found], model.W[0].T, rtol=1e-6)
    np.testing.assert_allclose([float(row["bias"]) for row in found], model.c[0], rtol=1e-6)


def test_ica_is_its_filters(herd, rows, tmp_path, converted):
    assert herd("ica", "rows.csv", "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
    model = artifacts.load(str(tmp_path / "m.h5")).value
    shown = herd("info", "m.h5").out.decode()
    outputs = model.features(rows)
    related = np.abs(np.corrcoef(rows.T, outputs.T)[:3, 3])  # of the first output, by the rows themselves
    line = next(line for line in shown.splitlines() if line.startswith("    1 "))
    assert f" {'abc'[int(related.argmax())]} " in line
    found = converted("m.h5")
    W = np.array([[float(row[name]) for name in "abc"] for row in found])
    np.testing.assert_allclose((rows - model.whitening.mean) @ W.T, outputs, rtol=1e-4, atol=1e-4)


def test_herding_is_its_runs(herd, rows, tmp_path, converted):
    assert herd("herd", "signs.csv", "--hidden", "2", "--iterations", "50", "-q", "-o", "m.h5").code in (0, 1)
    gap = artifacts.load(str(tmp_path / "m.h5")).value.gap
    assert "\n  runs: largest gaps of moments, and norm of the weights\n" in herd("info", "m.h5").out.decode()
    (row,) = converted("m.h5")
    assert (float(row["gap_visible"]), float(row["gap_pair"])) == (float(gap.largest_visible[0]), float(gap.largest_pair[0]))


def test_tables_of_other_models_have_all_rows(herd, rows, tmp_path, converted):
    assert herd("nherd-train", "classes.csv", "-q", "-o", "c.h5").code == 0
    classifier = artifacts.load(str(tmp_path / "c.h5")).value
    weights = {row["feature"]: float(row["weight"]) for row in converted("c.h5")}
    first = int(classifier.settings.bias)
    assert weights == {name: pytest.approx(float(each)) for name, each in zip("abc", classifier.mean[0, first:], strict=True) if each}
    assert herd("em", "rows.csv", "--components", "2", "--covariance", "diagonal", "-q", "-o", "e.h5").code == 0
    found = converted("e.h5")
    np.testing.assert_allclose([float(row["weight"]) for row in found], artifacts.load(str(tmp_path / "e.h5")).value.weight)
    assert herd("regress", "rows.csv", "--target", "c", "-q", "-o", "r.h5").code == 0
    assert [row["term"] for row in converted("r.h5")] == ["a", "b", "intercept"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--split", "1,0,0", "-o", "t.csv"), 2, "herd convert: r.h5: these options change rows of data\n"),
        (("-o", "t.npz"), 65, "herd convert: r.h5: is of kind regression, expected dataset\n"),
    ],
)
def test_a_table_of_a_model_is_no_data_set(herd, rows, words, code, says):
    assert herd("regress", "rows.csv", "--target", "c", "-q", "-o", "r.h5").code == 0
    ended = herd("convert", "r.h5", *words)
    assert ended.code == code
    assert ended.err.startswith(says)
