"""Nearest neighbours against every distance in turn."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from herdcli.numerics import nearest_neighbours


def brute_force(rows, references):
    return np.array([np.abs(references.astype(int) - row.astype(int)).sum(axis=1).argmin() for row in rows])


@pytest.mark.parametrize("kind", ["binary", "bool", "spin"])
@pytest.mark.parametrize(("block", "at_once"), [(1 << 21, 1 << 12), (50, 1 << 12), (50, 7), (1 << 21, 1)])
def test_nearest_is_the_first_row_of_least_manhattan_distance(kind, block, at_once, monkeypatch):
    monkeypatch.setattr(nearest_neighbours, "BLOCK", block)
    monkeypatch.setattr(nearest_neighbours, "REFERENCES", at_once)
    random = np.random.default_rng(0)
    rows, references = random.integers(0, 2, (40, 5)), random.integers(0, 2, (23, 5))  # 32 patterns: ties abound
    if kind == "bool":
        rows, references = rows.astype(bool), references.astype(bool)
    if kind == "spin":
        rows, references = (2 * rows - 1).astype(np.int8), (2 * references - 1).astype(np.int8)
    expected = brute_force(rows, references)
    np.testing.assert_array_equal(nearest_neighbours.nearest_rows_manhattan(rows, references), expected)


def test_a_row_is_nearest_to_itself():
    references = np.eye(6, dtype=np.uint8)
    np.testing.assert_array_equal(nearest_neighbours.nearest_rows_manhattan(references[::-1], references), np.arange(6)[::-1])


def test_memory_does_not_grow_with_the_references():
    rows, few, many = (np.zeros((n, 500), dtype=np.uint8) for n in (10, 5000, 50_000))
    peaks = []
    for references in (few, many):
        tracemalloc.start()
        nearest_neighbours.nearest_rows_manhattan(rows, references)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]


def test_no_references():
    with pytest.raises(ValueError, match="no reference rows"):
        nearest_neighbours.nearest_rows_manhattan(np.ones((2, 3)), np.ones((0, 3)))
    assert nearest_neighbours.nearest_rows_manhattan(np.ones((0, 3)), np.ones((2, 3))).shape == (0,)


def test_rows_in_parts_have_the_same_nearest_row():
    draws = np.random.default_rng(0)
    rows, references = (draws.random((count, 12)) < 0.5 for count in (2 * nearest_neighbours.PART + 3, 40))
    np.testing.assert_array_equal(
        nearest_neighbours.nearest_rows_parallel(rows, references), nearest_neighbours.nearest_rows_manhattan(rows, references)
    )
    assert len(nearest_neighbours.nearest_rows_parallel(rows[:0], references)) == 0


@pytest.mark.parametrize("block", [1 << 21, 50])
def test_nearest_euclidean_is_the_row_of_least_distance(block, monkeypatch):
    monkeypatch.setattr(nearest_neighbours, "BLOCK", block)
    random = np.random.default_rng(1)
    rows, references = random.normal(size=(40, 3)), random.normal(size=(23, 3))
    expected = np.linalg.norm(rows[:, None] - references, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest_neighbours.nearest_rows_euclidean(rows, references), expected)
    assert nearest_neighbours.nearest_rows_euclidean(rows[:0], references).shape == (0,)
    with pytest.raises(ValueError, match="no reference rows"):
        nearest_neighbours.nearest_rows_euclidean(rows, references[:0])
