"""Splits drawn from a seed, class by class; grey levels turned into on and off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from herdcli.artifacts import Dataset
from herdcli.artifacts.tables import dataset_preparation
from herdcli.artifacts.tables.dataset_preparation import (
    UNUSED,
    SplitRule,
    assign_splits,
    binarise,
    column_means_and_deviations,
    use_split_rule,
)
from herdcli.errors import BadUsage, DataError


def labelled(counts: Sequence[int]) -> Dataset:
    y = np.random.default_rng(1).permutation(np.repeat(np.arange(len(counts)), counts))
    return Dataset(X=np.zeros((len(y), 1)), y=y)


def table(data: Dataset, split: np.ndarray) -> list[list[int]]:
    return [np.bincount(split[data.y == label], minlength=4).tolist() for label in np.unique(data.y)]


def test_counts_are_per_class_and_the_rest_is_unused() -> None:
    data = labelled([50, 60])
    split = assign_splits(data, "30,10,5", 0)
    assert split.dtype == np.uint8
    assert table(data, split) == [[30, 10, 5, 5], [30, 10, 5, 15]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9)))
def test_fractions_use_every_row_and_stay_within_one_row(counts: list[int], weights: tuple[int, int, int]) -> None:
    fractions = [weight / sum(weights) for weight in weights]
    data = labelled(counts)
    split = assign_splits(data, ",".join(map(repr, fractions)), 3)
    assert not (split == UNUSED).any()
    sizes = np.bincount(split, minlength=3)
    assert all(abs(size - fraction * sum(counts)) < 1 for size, fraction in zip(sizes, fractions, strict=True))


def test_the_seed_decides_and_labels_do_not() -> None:
    data = labelled([40, 40])
    assert np.array_equal(assign_splits(data, None, 7), assign_splits(data, None, 7))
    assert not np.array_equal(assign_splits(data, None, 7), assign_splits(data, None, 8))
    assert np.array_equal(assign_splits(data, None, 7), assign_splits(Dataset(X=data.X), None, 7))


def test_classes_do_not_disturb_each_other() -> None:
    data = labelled([40, 40])
    alone = Dataset(X=data.X[data.y == 0], y=data.y[data.y == 0])
    assert np.array_equal(assign_splits(data, "20,10,5", 7)[data.y == 0], assign_splits(alone, "20,10,5", 7))
    with use_split_rule(SplitRule(by_class=True)):
        assert np.array_equal(assign_splits(data, None, 7)[data.y == 0], assign_splits(alone, None, 7))


def test_the_data_set_s_own_split_is_the_default() -> None:
    own = np.array([2, 0, 1, 0], dtype=np.int64)
    data = Dataset(X=np.zeros((4, 1)), split=own)
    assert assign_splits(data, None, 5).tolist() == own.tolist()
    assert sorted(assign_splits(data, "2,1,1", 5).tolist()) == [0, 0, 1, 2]


@pytest.mark.parametrize("spec", ["", "1", "1,2", "a,b,c", "0.5,0.6,0.7", "1.5,2,3", "-1,1,1", "0,0.5,0.5", "nan,0,0", "1,2,3,4"])
def test_splits_that_mean_nothing_are_refused(spec: str) -> None:
    with pytest.raises(BadUsage, match=r"does not describe a split|neither fractions"):
        assign_splits(labelled([9]), spec, 0)


def test_a_class_with_too_few_rows_is_named() -> None:
    with pytest.raises(DataError, match="asks for 30 rows, but class 1 has only 20"):
        assign_splits(labelled([40, 20]), "10,10,10", 0)


@pytest.mark.parametrize("dtype", ["u1", "i8", "f4", "f8"])
@pytest.mark.parametrize("sparse", [False, True])
def test_on_means_at_least_the_threshold_s_share_of_the_range(dtype: str, sparse: bool) -> None:
    grey = np.random.default_rng(0).integers(0, 17, (500, 30)).astype(dtype)
    data = Dataset(X=csr_matrix(grey) if sparse else grey, value_range=np.array([0, 16]))
    on, used = binarise(data, None, 0.4)
    assert used == 0.4
    assert on.dtype == bool
    assert np.array_equal(on, grey >= 0.4 * 16)
    on, used = binarise(data, 0.25, 0.4, value_range=(-4.0, 28.0))
    assert np.array_equal(on, grey >= 4)


def test_values_outside_the_range_are_refused() -> None:
    grey = Dataset(X=np.arange(17).reshape(1, 17), value_range=np.array([0, 15]))
    with pytest.raises(DataError, match="outside the value range 0 to 15"):
        binarise(grey, None, 0.4)
    assert binarise(grey, None, 0.4, value_range=(0, 16))[0].sum() == 10


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (3, 7)])
def test_two_values_need_no_threshold(low: int, high: int) -> None:
    X = np.array([[low, high], [high, high]])
    on, used = binarise(Dataset(X=X, value_range=np.array([0, 255])), None, 0.4)
    assert used is None
    assert on.tolist() == [[False, True], [True, True]]


def test_one_value_is_on_if_it_is_positive() -> None:
    assert not binarise(Dataset(X=np.zeros((2, 2))), None, 0.4)[0].any()
    assert binarise(Dataset(X=np.ones((2, 2), dtype=bool)), None, 0.4)[0].all()


def test_grey_values_without_a_range_name_the_option() -> None:
    with pytest.raises(BadUsage) as caught:
        binarise(Dataset(X=np.arange(6.0).reshape(2, 3)), None, 0.4)
    assert caught.value.hint == "declare the lowest and highest possible value; those seen are --range 0,5"
    for threshold in (-0.1, 1.1, float("nan")):
        with pytest.raises(BadUsage, match="not a fraction"):
            binarise(Dataset(X=np.arange(6.0).reshape(2, 3)), threshold, 0.4)


def test_sparse_counts_are_on_above_zero_and_stay_sparse() -> None:
    from scipy.sparse import csr_matrix

    counts = np.array([[0, 3, 1], [2, 0, 0]], dtype=np.uint16)
    data = Dataset(X=csr_matrix(counts))
    dense, used = binarise(data, None, 0.4)
    kept, _ = binarise(data, None, 0.4, sparse=True)
    assert used is None
    np.testing.assert_array_equal(dense, counts > 0)
    np.testing.assert_array_equal(kept.toarray(), counts > 0)
    assert kept.nnz == 3
    shown, used = binarise(data, 0.5, 0.4, value_range=(0, 4), sparse=True)
    np.testing.assert_array_equal(shown.toarray(), counts >= 2)
    assert used == 0.5


def test_sparse_values_whose_zeros_are_on_become_dense() -> None:
    from scipy.sparse import csr_matrix

    data = Dataset(X=csr_matrix(np.array([[0, -1], [-1, 0]], dtype=np.int8)))
    on, _ = binarise(data, None, 0.4, sparse=True)
    np.testing.assert_array_equal(on, [[True, False], [False, True]])


@pytest.mark.parametrize("columns", [1, 2, 7, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_of_blocks_are_those_of_the_whole(monkeypatch, columns, dtype) -> None:
    random = np.random.default_rng(0)
    X, chosen = (random.standard_normal((3000, columns)) * 3 + 50).astype(dtype), random.random(3000) < 0.7
    mean, deviation = column_means_and_deviations(X, chosen)
    rows = X[chosen]
    assert mean.tobytes() == rows.mean(axis=0, dtype=np.float64).astype(np.float32).tobytes()
    assert deviation.tobytes() == rows.std(axis=0, dtype=np.float64).astype(np.float32).tobytes()
    monkeypatch.setattr(dataset_preparation, "_row_blocks", lambda X: ((slice(s, s + 77), X[s : s + 77]) for s in range(0, len(X), 77)))
    again = column_means_and_deviations(X, chosen)
    assert [part.tobytes() for part in again] == [mean.tobytes(), deviation.tobytes()]


def test_a_constant_column_has_deviation_1() -> None:
    assert column_means_and_deviations(np.full((9, 2), 3.0), np.arange(9) < 5)[1].tolist() == [1.0, 1.0]
