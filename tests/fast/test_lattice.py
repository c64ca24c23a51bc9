"""Ratio messages on a lattice: the compiled loop gives the bits of the NumPy one."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.fast import numpy_lattice as twin
from herdcli.markov.bethe import lattice_bp

compiled = pytest.importorskip("herdcli.fast._lattice", reason="the compiled loops are not built")


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 2), (2, 1), (3, 15), (4, 16), (5, 17), (6, 31), (7, 33), (2, 70)])
def test_sweeps_give_the_same_bits(rows, columns):
    random = np.random.default_rng([rows, columns])
    right, down = 3 * random.standard_normal((2, rows, columns))
    right[:, -1], down[-1] = 0, 0
    bias = lattice_bp.split_checkerboard(np.exp(random.standard_normal((rows, columns))))
    weight = np.stack(
        [lattice_bp.split_checkerboard(np.exp(w)) for w in (np.roll(right, 1, axis=1), right, np.roll(down, 1, axis=0), down)]
    )
    results = []
    for side in (compiled, twin):
        messages = np.ones_like(weight)
        told = [side.lattice_sweep(messages, weight, bias, check) for check in (False, True, False, True)]
        results.append((messages, told))
    assert np.array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    assert (results[0][1][1] > 0) == (rows * columns > 2)
    assert results[0][1][0] == 0


@pytest.mark.parametrize("side", [compiled, twin])
@pytest.mark.parametrize("sweeps", [1, 2])
def test_tiles_and_the_gaps_between_them_make_the_sweeps(side, sweeps):
    """In any order of the tiles, and then of the gaps; the change is that of the last sweep."""
    random = np.random.default_rng(0)
    bias = lattice_bp.split_checkerboard(np.exp(random.standard_normal((23, 5))))
    weight = np.exp(random.standard_normal((4, *bias.shape)))
    whole, parts = np.ones_like(weight), np.ones_like(weight)
    told = [side.lattice_sweep(whole, weight, bias, True) for _ in range(sweeps)]
    tiles = [(16, 23, 1, 0), (0, 8, 0, -1), (8, 16, 1, -1), (16, 16, -1, 1), (8, 8, -1, 1)]
    changes = [side.lattice_tile(parts, weight, bias, True, sweeps, *tile) for tile in tiles]
    assert np.array_equal(whole, parts)
    assert told[-1] == max(changes)
    assert side.lattice_tile(parts, weight, bias, False, sweeps, 0, 23, 0, 0) == 0


def test_tiles_that_leave_the_lattice_are_refused():
    weight = np.ones((4, 2, 7, 4))
    for tile in ((0, 5, 0, 1), (0, 5, -1, 0), (0, 6, 0, 0), (0, 2, 2, 0), (-1, 3, 0, 0)):
        with pytest.raises(ValueError, match=r"no (tile|rows of the lattice)"):
            compiled.lattice_tile(weight.copy(), weight, weight[0].copy(), False, 1, *tile)
