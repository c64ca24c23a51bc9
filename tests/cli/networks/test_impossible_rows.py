"""Rows of evidence that nothing fits: −∞ and NaN there, and answers everywhere else."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.artifacts import load

BIF = """network n {}
variable a { type discrete [ 2 ] { yes, no }; }
variable b { type discrete [ 2 ] { yes, no }; }
variable c { type discrete [ 3 ] { x, y, z }; }
probability ( a ) { table .3 .7; }
probability ( b | a ) { (yes) 1 0; (no) .25 .75; }
probability ( c | b ) { (yes) .5 .5 0; (no) 0 .2 .8; }
"""
ROWS = ["a,b,c", "yes,no,", ",yes,", ",yes,z", "no,,", "yes,,z", ",,"]
LOG_Z = np.log([0, 0.475, 0, 0.7, 0, 1])


@pytest.fixture
def files(tmp_path):
    (tmp_path / "n.bif").write_text(BIF)
    (tmp_path / "rows.csv").write_text("\n".join([*ROWS, ""]))


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("out", ["out.csv", "out.h5", "out.parquet"])
def test_the_other_rows_are_answered(herd, files, tmp_path, out):
    ended = herd("ups-infer", "n.bif", "--evidence-rows", "rows.csv", "-o", out)
    assert ended.code == 0, ended.err
    assert "warning: 3 rows have probability 0 (line 2, 4, 6): log_z is −inf there and the marginals are NaN\n" in ended.err
    assert "6 rows × 3 variables, 3 impossible" in ended.err
    found = load(str(tmp_path / out), missing=True).value
    names = found.feature_names
    np.testing.assert_allclose(found.X[:, names.index("log_z")], LOG_Z, atol=1e-12)
    marginals = np.delete(found.X, names.index("log_z"), axis=1)
    assert np.isnan(marginals[[0, 2, 4]]).all()
    expected = [0.3 / 0.475, 0, 0.3]
    np.testing.assert_allclose(found.X[[1, 3, 5], names.index("a=yes")], expected, atol=1e-12)


def test_evidence_beside_rows_may_make_one_impossible(herd, files, tmp_path):
    (tmp_path / "rows.csv").write_text("b,c\nno,\nyes,x\n")
    ended = herd("ups-infer", "n.bif", "--evidence", "a=yes", "--evidence-rows", "rows.csv", "-o", "out.csv")
    assert ended.code == 0, ended.err
    assert "warning: 1 row has probability 0 (line 2): " in ended.err
    found = load(str(tmp_path / "out.csv"), missing=True).value
    assert np.isnan(found.X[0, :-1]).all()
    np.testing.assert_allclose(found.X[1, -1], np.log(0.15), atol=1e-12)


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_many_rows_of_blocks_and_small_numbers(herd, tmp_path):
    """Rows beside one another, one of them far below float64: each is what it is alone."""
    (tmp_path / "n.uai").write_text("MARKOV\n3\n2 2 2\n2\n2 0 1\n2 1 2\n4\n1e-200 0 1 1\n4\n1e-200 1 0 1\n")
    (tmp_path / "rows.csv").write_text("x0,x1,x2\n0,0,0\n0,1,\n1,1,0\n1,0,1\n")
    ended = herd("ups-infer", "n.uai", "--evidence-rows", "rows.csv", "-o", "out.csv")
    assert ended.code == 0, ended.err
    found = load(str(tmp_path / "out.csv"), missing=True).value
    np.testing.assert_allclose(found.X[:, -1], [2 * np.log(1e-200), -np.inf, -np.inf, 0], rtol=1e-12, atol=1e-12)
