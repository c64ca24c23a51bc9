"""The two nearest centres: both loops against a sort, and against each other."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli import fast
from herdcli.fast import numpy_clusters


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("centres", "rows"), [(1, 5), (2, 1), (7, 33), (100, 1024)])
def test_nearest_two_is_what_sorting_finds(centres: int, rows: int, dtype: type[np.float64 | np.float32]) -> None:
    random = np.random.default_rng(centres)
    scores = (random.integers(20, size=(centres, rows)) * 0.1).astype(dtype)  # with ties
    offsets = (random.integers(3, size=centres) * 0.1).astype(dtype)
    here, twin = np.full((3, rows), np.nan, dtype=dtype), np.full((3, rows), np.nan, dtype=dtype)
    fast.nearest_two(scores, offsets, *here)
    numpy_clusters.nearest_two(scores, offsets, *twin)
    whole = scores + offsets[:, None]
    ordered = np.vstack([np.sort(whole, axis=0), np.full(rows, np.inf, dtype=dtype)])
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


@pytest.mark.parametrize(("n", "D"), [(0, 3), (1, 1), (50, 8), (200, 19)])
def test_rows_are_added_to_their_clusters(n: int, D: int) -> None:
    random = np.random.default_rng(n)
    rows, nearest, weights = random.normal(size=(n, D)), random.integers(4, size=n), random.random(n)
    counts, totals = np.ones((2, 4)), np.ones((2, 4, D))
    here = fast.add_cluster_rows(rows, nearest, weights, counts[0], totals[0])
    twin = numpy_clusters.add_cluster_rows(rows, nearest, weights, counts[1], totals[1])
    assert here == twin
    assert counts[0].tobytes() == counts[1].tobytes()
    assert totals[0].tobytes() == totals[1].tobytes()
    assert here == pytest.approx(float(weights @ np.square(rows).sum(axis=1)))
    for k in range(4):
        assert counts[0, k] == pytest.approx(1 + weights[nearest == k].sum())
        assert totals[0, k] == pytest.approx(1 + weights[nearest == k] @ rows[nearest == k])


def test_a_row_of_a_cluster_that_does_not_exist_is_refused() -> None:
    compiled = pytest.importorskip("herdcli.fast._clusters", reason="the compiled loops are not built")
    with pytest.raises(IndexError, match="cluster 2 of 2"):
        compiled.add_cluster_rows(np.zeros((1, 3)), np.array([2]), np.ones(1), np.zeros(2), np.zeros((2, 3)))


def test_costs_of_candidates_are_those_of_the_lower_distances() -> None:
    random = np.random.default_rng(0)
    blocks, candidates = random.normal(size=(5, 7, 32)).astype(np.float32), random.normal(size=(3, 7)).astype(np.float32)
    norms, own = np.square(blocks).sum(axis=1), np.square(candidates).sum(axis=1)
    limits, weights = random.uniform(5, 20, size=(5, 32)).astype(np.float32), random.random((5, 32))
    costs, closer = np.ones((2, 3)), np.zeros((2, 3, 5, 32), dtype=np.uint8)
    fast.candidate_costs(blocks, candidates, own, norms, limits, weights, 1e-5, closer[0], costs[0])
    numpy_clusters.candidate_costs(blocks, candidates, own, norms, limits, weights, 1e-5, closer[1], costs[1])
    assert costs[0].tobytes() == costs[1].tobytes()
    assert closer[0].tobytes() == closer[1].tobytes()
    distances = np.square(blocks[None].astype(float) - candidates[:, None, :, None]).sum(axis=2)
    assert costs[0] == pytest.approx(1 + (np.minimum(distances, limits) * weights).sum(axis=(1, 2)), rel=1e-5)
    certain = np.abs(distances - limits) > 1e-3
    assert np.array_equal(closer[0].astype(bool)[certain], (distances < limits)[certain])


def test_costs_of_candidates_in_arrays_of_other_shapes_are_refused() -> None:
    compiled = pytest.importorskip("herdcli.fast._clusters", reason="the compiled loops are not built")
    arrays = [np.zeros((5, 7, 32), np.float32), np.zeros((3, 7), np.float32), np.zeros(3, np.float32)]
    flat = [np.zeros((5, 32), np.float32), np.zeros((5, 31), np.float32), np.zeros((5, 32))]
    with pytest.raises(ValueError, match="arrays of different shapes"):
        compiled.candidate_costs(*arrays, *flat, 1e-5, np.zeros((3, 5, 32), np.uint8), np.zeros(3))
