"""Rows that several computations share: blocks, sums and selections of dense and sparse matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from herdcli.errors import DataError
from herdcli.numerics import block_statistics, nearest_neighbours, row_selection
from herdcli.numerics.scores import Scores


def test_blocks_have_about_so_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    assert row_selection.BLOCK == 1 << 18
    monkeypatch.setattr(row_selection, "BLOCK", 100)
    for columns, width, step in ((10, 0, 10), (10, 15, 4), (0, 0, 100), (101, 0, 1), (60, 41, 1)):
        found = list(row_selection.iterate_row_slices(np.zeros((25, columns)), width))
        assert found == [slice(start, min(start + step, 25)) for start in range(0, 25, step)]
    assert list(row_selection.iterate_row_slices(np.zeros((0, 3)))) == []


@pytest.mark.parametrize("kind", [np.int8, np.uint8, bool, np.float32])
def test_sums_of_columns_are_exact_over_blocks(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_selection, "BLOCK", 30)
    X = (np.random.default_rng(0).integers(0, 2, (40, 7)) * (1 if kind is bool else 100)).astype(kind)
    expected = X.astype(np.int64).sum(axis=0)
    chosen = np.array([3, 5, 5, 39])
    for given, total in (
        (X, expected),
        (csr_array(X), expected),
        (row_selection.SelectedRows(X, chosen), X[chosen].astype(np.int64).sum(axis=0)),
    ):
        found = row_selection.column_sums(given)
        np.testing.assert_array_equal(found, total)
        assert found.dtype == (np.float64 if kind is np.float32 else np.int64)


def test_selected_rows_are_gathered_when_asked_for() -> None:
    X = np.arange(30).reshape(10, 3)
    for base in (X, csr_array(X)):
        some = row_selection.SelectedRows(base, np.array([7, 1, 1]))
        assert (some.shape, len(some), some.dtype) == ((3, 3), 3, X.dtype)
        np.testing.assert_array_equal(some[:], X[[7, 1, 1]])
        np.testing.assert_array_equal(some[np.array([2, 0])], X[[1, 7]])
        assert row_selection.is_sparse(row_selection.select_rows(some, slice(0, 2))) == (base is not X)
        np.testing.assert_array_equal(row_selection.as_dense(row_selection.select_rows(base, slice(2, 4))), X[2:4])


def test_scores_are_of_the_classes_that_there_are() -> None:
    good = Scores(np.zeros((2, 3)), np.array([0, 2]), np.array([0, 2]), np.array([-1, 2]), 2)
    good.require_classes(3)
    Scores(np.zeros((2, 1)), good.y, good.split, good.nearest, 0).require_classes(3, runs=1)
    with pytest.raises(DataError, match="/scores/energy has 3 columns, but there are 2 models"):
        good.require_classes(3, runs=2)
    for majority in (-1, 3):
        with pytest.raises(DataError, match=f"/scores/majority is {majority}, but the 3 models are numbered 0 to 2"):
            Scores(good.energy, good.y, good.split, good.nearest, majority).require_classes(3)
    for wrong in (-1, 3):
        with pytest.raises(DataError, match="/scores/y"):
            Scores(good.energy, np.array([0, wrong]), good.split, good.nearest).require_classes(3)
        with pytest.raises(DataError, match="/scores/nearest"):
            Scores(good.energy, good.y, good.split, np.array([0, wrong - (wrong < 0)])).require_classes(3)


def test_parts_of_rows_are_of_512_at_most_twice() -> None:
    """`map` is handed ⌊n/512⌋ parts, at least one, of nearly the same length, in their order."""
    references = np.eye(3, dtype=bool)
    for count, lengths in ((0, [0]), (511, [511]), (1023, [1023]), (1024, [512, 512]), (1537, [512, 512, 513])):
        seen: list[int] = []

        def through(work: object, parts: list[slice], seen: list[int] = seen) -> list[np.ndarray]:
            seen += [part.stop - part.start for part in parts]
            return [work(part) for part in parts]

        index = np.arange(count) % 3
        np.testing.assert_array_equal(nearest_neighbours.nearest_rows_parallel(references[index], references, through), index)
        assert seen == lengths


def test_the_first_of_equally_near_rows_is_taken_over_blocks_of_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_neighbours, "REFERENCES", 2)
    references = np.array([[5.0, 0], [3, 0], [1, 0], [1, 0], [-1, 0], [0, 1]])
    found = nearest_neighbours.nearest_rows_euclidean(np.array([[0.0, 0.0], [4.0, 0.0], [-3.0, 0.0]]), references)
    np.testing.assert_array_equal(found, [2, 0, 4])


# statistics over fixed blocks ---------------------------------------------------------------------


def test_moments_of_weighted_rows_with_gaps() -> None:
    X = np.array([[1.0, np.nan], [3.0, 4.0], [np.nan, 8.0], [7.0, 0.0]])
    weight = np.array([1.0, 2.0, 3.0, 1.0])
    found = block_statistics.row_moments(block_statistics.RowBlocks(block_statistics.ArrayRows(X, weight=weight)))
    assert (found.rows, found.mass, found.missing) == (4, 7.0, 2)
    first, second = np.average([1, 3, 7], weights=[1, 2, 1]), np.average([4, 8, 0], weights=[2, 3, 1])
    np.testing.assert_allclose(found.mean, [first, second])
    left, right = np.array([1, 3, 7]) - first, np.array([4, 8, 0]) - second
    expected = [np.average(left**2, weights=[1, 2, 1]), np.average(right**2, weights=[2, 3, 1])]
    np.testing.assert_allclose(found.covariance, np.diag(expected))
    np.testing.assert_allclose(found.variance, expected)
    assert block_statistics.RowBlock(0, X, weight=weight).mass == 7.0
    assert block_statistics.RowBlock(0, X).mass == 4.0


def test_chosen_rows_have_labels_and_weights_of_their_own() -> None:
    X = np.arange(12.0).reshape(6, 2)
    table = block_statistics.ArrayRows(X, np.array([7, 8, 9]), np.array([0.5, 1.0, 2.0]), np.array([0, 3, 5]))
    assert (table.count, table.columns) == (3, 2)
    part = table.read(1, 3)
    assert part.first == 1
    np.testing.assert_array_equal(part.X, X[[3, 5]])
    assert (part.labels.tolist(), part.weight.tolist()) == ([8, 9], [1.0, 2.0])
    with pytest.raises(DataError, match="there are no rows"):
        block_statistics.ArrayRows(X, chosen=np.zeros(0, dtype=int))
    for wrong in ([0.0, 0.0], [np.nan, 1.0], [-1.0, 3.0]):
        with pytest.raises(DataError, match="the weights of rows must be finite, not negative and not all 0"):
            block_statistics.ArrayRows(X[:2], weight=np.array(wrong))
    late = np.zeros((5000, 1))
    late[4999] = np.inf
    with pytest.raises(DataError, match="infinite values"):
        block_statistics.ArrayRows(late)


def test_samples_are_all_rows_of_weight_or_some_in_their_order() -> None:
    n = 9000
    X, weight = np.arange(float(n))[:, None], np.where(np.arange(n) % 3, 1.0, 0.0)
    source = block_statistics.RowBlocks(block_statistics.ArrayRows(X, np.arange(n), weight))
    whole = block_statistics.sample_rows(source, np.random.default_rng(0), n)
    np.testing.assert_array_equal(whole.X[:, 0], np.flatnonzero(weight))
    np.testing.assert_array_equal(whole.labels, np.flatnonzero(weight))
    assert (whole.weight == 1).all()
    some = block_statistics.sample_rows(source, np.random.default_rng(0), n, 600)
    expected = np.sort(np.random.default_rng(0).choice(n, 600, replace=False))
    np.testing.assert_array_equal(some.X[:, 0], expected[weight[expected] > 0])
    assert (
        len(block_statistics.sample_rows(block_statistics.RowBlocks(block_statistics.ArrayRows(X)), np.random.default_rng(0), n, n).X) == n
    )


def test_a_tree_without_blocks_has_no_sum() -> None:
    tree = block_statistics.SumTree()
    assert tree.blocks == 0
    with pytest.raises(ValueError, match="there are no blocks"):
        tree.total_sums()
    with pytest.raises(ValueError, match="3 blocks after 0 are not a node"):
        tree.add_block_sums({"x": np.ones(1)}, 3)
    tree.add_block_sums({"x": np.ones(1)}, 2)
    assert tree.blocks == 2
    with pytest.raises(ValueError, match="4 blocks after 2"):
        tree.add_block_sums({"x": np.ones(1)}, 4)
    assert [block_statistics.RowBlocks(block_statistics.ArrayRows(np.zeros((n, 1)))).count for n in (1, 4096, 4097, 8192)] == [1, 1, 2, 2]


def test_margins_are_the_means_and_variances_of_the_moments() -> None:
    random = np.random.default_rng(4)
    X, weight = random.normal(size=(9000, 3)) + np.array([1e6, 0.0, -5.0]), random.random(9000)
    for given in (None, weight):
        source = block_statistics.RowBlocks(block_statistics.ArrayRows(X, weight=given))
        found, whole = block_statistics.marginal_moments(source), block_statistics.row_moments(source)
        mass = 9000.0 if given is None else weight.sum()
        assert (found.rows, found.mass, found.missing) == (9000, pytest.approx(mass), 0)
        mean = np.average(X, axis=0, weights=given)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-13)
        np.testing.assert_allclose(found.variance, np.average((X - mean) ** 2, axis=0, weights=given), rtol=1e-9)
        np.testing.assert_allclose(found.variance, whole.variance, rtol=1e-9)
    X[[3, 8000], 1] = np.nan
    gaps = block_statistics.marginal_moments(block_statistics.RowBlocks(block_statistics.ArrayRows(X)))
    assert gaps.missing == 2
    assert np.isnan([gaps.mean[1], gaps.variance[1]]).all()
    assert np.isfinite([*gaps.mean[[0, 2]], *gaps.variance[[0, 2]]]).all()
    assert (
        block_statistics.marginal_moments(block_statistics.RowBlocks(block_statistics.ArrayRows(np.full((7, 2), 0.1)))).variance == 0
    ).all()


def test_a_sample_begins_at_row_0_whatever_it_was_drawn_from() -> None:
    X = np.arange(10.0)[:, None]
    for weight, most in ((None, 10), (np.ones(10), 10), (None, 4)):
        found = block_statistics.sample_rows(
            block_statistics.RowBlocks(block_statistics.ArrayRows(X, np.arange(10), weight)), np.random.default_rng(0), 10, most
        )
        assert found.first == 0
        assert len(found.X) == most
        np.testing.assert_array_equal(found.X[:, 0], found.labels)


def test_small_variances_about_large_means_are_kept() -> None:
    X = np.column_stack([1.0 + 1e-9 * (np.arange(8) % 2), np.full(8, 3.7)])
    found = block_statistics.row_moments(block_statistics.RowBlocks(block_statistics.ArrayRows(X)))
    assert found.variance[0] == pytest.approx(0.25e-18, rel=1e-6)
    assert found.variance[1] == 0.0


def test_values_with_many_gaps_keep_their_digits() -> None:
    X = np.full((5000, 1), np.nan)
    X[3], X[4500] = 1e8, 1e8 + 1.0
    found = block_statistics.row_moments(block_statistics.RowBlocks(block_statistics.ArrayRows(X)))
    assert (found.mean[0], found.variance[0], found.missing) == (1e8 + 0.5, 0.25, 4998)


def test_all_rows_are_no_draw() -> None:
    random = np.random.default_rng(7)
    block_statistics.sample_rows(block_statistics.RowBlocks(block_statistics.ArrayRows(np.zeros((9, 1)), weight=np.ones(9))), random, 9, 9)
    assert random.random() == np.random.default_rng(7).random()
