"""`herd sample` from networks, and `herd ups-infer --algorithm gibbs` of any network, as processes."""

from __future__ import annotations

import numpy as np
import pytest

BIF = """network a { }
variable rain { type discrete [ 3 ] { none, some, much }; }
variable wet { type discrete [ 2 ] { yes, no }; }
probability ( rain ) { table 0.5, 0.3, 0.2; }
probability ( wet | rain ) { (none) 0.0, 1.0; (some) 0.9, 0.1; (much) 1.0, 0.0; }
"""


@pytest.fixture
def rain(tmp_path):
    (tmp_path / "rain.bif").write_text(BIF)


def places(path):
    titles, *rows = path.read_text().replace('"', "").splitlines()
    assert titles == "rain,wet"
    known = (("none", "some", "much"), ("yes", "no"))
    return np.array([[names.index(cell) for names, cell in zip(known, row.split(","), strict=True)] for row in rows])


def test_rows_of_a_network(herd, rain, tmp_path):
    ended = herd("sample", "rain.bif", "-m", "3000", "-o", "rows.csv")
    assert ended.code == 0, ended.err
    assert "independent rows" in ended.err
    rows = places(tmp_path / "rows.csv")
    np.testing.assert_allclose(np.bincount(rows[:, 0].astype(int)) / 3000, [0.5, 0.3, 0.2], atol=0.04)
    assert (rows[rows[:, 0] == 0, 1] == 1).all()
    assert (rows[rows[:, 0] == 2, 1] == 0).all()
    learned = herd("fit-mrf", "rows.csv", "--algorithm", "bayes", "--smoothing", "0", "--network", "rain.bif", "--format", "bif")
    assert b"(none) 0.0, 1.0;" in learned.out


def test_known_states_are_kept(herd, rain, tmp_path):
    (tmp_path / "known.csv").write_text("rain,wet\n,0\n2,\n")
    ended = herd("sample", "rain.bif", "--given", "known.csv", "-m", "50", "-o", "rows.csv")
    assert ended.code == 0, ended.err
    rows = places(tmp_path / "rows.csv")
    assert len(rows) == 100
    assert (rows[:50, 1] == 0).all()
    assert (rows[:50, 0] > 0).all()
    assert (rows[50:] == [2, 0]).all()
    (tmp_path / "never.csv").write_text("rain,wet\n0,0\n1,\n")
    ended = herd("sample", "rain.bif", "--given", "never.csv")
    assert ended.code == 1
    assert "the evidence has probability 0: the network excludes rain=none, wet=yes" in ended.err


def test_gibbs_of_a_network_with_zeros_and_several_states(herd, rain):
    ended = herd("ups-infer", "rain.bif", "--algorithm", "gibbs", "--sweeps", "2000", "--burn-in", "10", "--format", "mar")
    assert ended.code == 0, ended.err
    assert "gibbs samples 1 block of variables, the largest with 2" in ended.err
    found = [float(word) for word in ended.out.split()[2:]]
    assert found == pytest.approx([3, 0.5, 0.3, 0.2, 2, 0.47, 0.53], abs=0.02)


def test_lattices_too_wide_are_drawn_by_chains(shell):
    ended = shell("herd network grid --rows 30 --columns 30 | herd sample -m 4 --burn-in 3 -o rows.h5")
    assert ended.code == 0, ended.err
    assert "4 chains of blocked Gibbs sampling, 2 blocks" in ended.err
