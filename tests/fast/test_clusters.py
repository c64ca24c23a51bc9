"""The two nearest centres: both loops against a sort, and against each other."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli import fast
from herdcli.fast import numpy_clusters


@pytest.mark.parametrize(("centres", "rows"), [(1, 5), (2, 1), (7, 33), (100, 1024)])
def test_nearest_two_is_what_sorting_finds(centres: int, rows: int) -> None:
    random = np.random.default_rng(centres)
    scores, offsets = random.integers(20, size=(centres, rows)) * 0.1, random.integers(3, size=centres) * 0.1  # with ties
    here, twin = np.full((3, rows), np.nan), np.full((3, rows), np.nan)
    fast.nearest_two(scores, offsets, *here)
    numpy_clusters.nearest_two(scores, offsets, *twin)
    whole = scores + offsets[:, None]
    ordered = np.vstack([np.sort(whole, axis=0), np.full(rows, np.inf)])
    assert here.tobytes() == twin.tobytes()
    assert np.array_equal(here[0], whole.argmin(axis=0))
    assert np.array_equal(here[1:], ordered[:2])


@pytest.mark.parametrize("short", range(5))
def test_arrays_of_other_lengths_are_refused(short):
    arrays = [np.zeros((3, 8)), np.zeros(3), *np.zeros((3, 8))]
    arrays[short] = arrays[short][:-1].copy()
    compiled = pytest.importorskip("herdcli.fast._clusters", reason="the compiled loops are not built")
    with pytest.raises(ValueError, match="arrays of different shapes"):
        compiled.nearest_two(*arrays)


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (2, 37), (5, 512)])
def test_products_of_pairs_of_columns(columns: int, rows: int) -> None:
    X = np.random.default_rng(rows).normal(size=(columns, rows))
    here, twin = np.full((2, columns * (columns + 1) // 2, rows), np.nan)
    fast.pair_products(X, here)
    numpy_clusters.pair_products(X, twin)
    i, j = np.triu_indices(columns)
    assert here.tobytes() == twin.tobytes() == (X[i] * X[j]).tobytes()


@pytest.mark.parametrize("shape", [(5, 8), (6, 7)])
def test_products_of_pairs_in_an_array_of_another_shape_are_refused(shape: tuple[int, int]) -> None:
    compiled = pytest.importorskip("herdcli.fast._clusters", reason="the compiled loops are not built")
    with pytest.raises(ValueError, match="arrays of different shapes"):
        compiled.pair_products(np.zeros((3, 8)), np.zeros(shape))
