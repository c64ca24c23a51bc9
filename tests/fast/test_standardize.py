"""Features about their running means: compiled against NumPy, and against the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from herdcli.fast import numpy_standardize as twin

compiled = pytest.importorskip("herdcli.fast._standardize")


def rows(seed: int, count: int = 80, width: int = 30, share: float = 0.5, offset: float = 0.0):
    """CSR rows with a bias in front, whose features are there with different shares."""
    random = np.random.default_rng(seed)
    there = random.random((count, width)) < np.linspace(0.02, 1.0, width) ** (1 / max(share, 0.01) - 1)
    pointer, index, value = [0], [], []
    for row in there:
        at = np.flatnonzero(row) + 1
        index += [0, *at]
        value += [1.0, *(random.normal(size=len(at)) + offset)]
        pointer.append(len(index))
    return np.array(pointer, dtype=np.int64), np.array(index, dtype=np.int32), np.array(value)


@pytest.mark.parametrize("offset", [0.0, 3.0, 1e6])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_twins_give_the_same_bits_whatever_the_blocks(share, offset):
    pointer, index, value = rows(1, share=share, offset=offset)
    frozen = (np.random.default_rng(2).random(80) < 0.2).astype(np.uint8)
    results = []
    for side, cuts in ((compiled, [0, 80]), (compiled, [0, 1, 7, 80]), (twin, [0, 80]), (twin, [0, 33, 80])):
        scales, parts = np.zeros((31, 5)), []
        for low, high in itertools.pairwise(cuts):
            part = slice(pointer[low], pointer[high])
            parts.append(side.standardize(scales, pointer[low : high + 1] - pointer[low], index[part], value[part], frozen[low:high]))
        lengths = np.concatenate([np.diff(found[0]) for found in parts])
        results.append((scales, lengths, *(np.concatenate([found[k] for found in parts]) for k in (1, 2))))
    for ours in results[1:]:
        for mine, first in zip(ours, results[0], strict=True):
            assert np.array_equal(mine, first)
    assert (results[0][0][1:, 4] > 0).any()


@pytest.mark.parametrize("side", [compiled, twin])
def test_a_feature_of_all_rows_is_taken_about_its_mean_and_divided_by_its_deviation(side):
    x = np.random.default_rng(3).normal(size=200) + 1e6
    index, value = np.tile(np.array([0, 1], dtype=np.int32), 200), np.stack([np.ones(200), x], axis=1).ravel()
    scales = np.zeros((2, 5))
    _, _, out = side.standardize(scales, np.arange(0, 401, 2), index, value)
    means = np.cumsum(x) / np.arange(1, 201)
    about = x - means
    sizes = np.cumsum(np.abs(about))[1:] / np.arange(1, 200)
    assert out[1] == 0
    assert out[3::2] == pytest.approx(about[1:] / sizes, rel=1e-4, abs=1e-4)
    assert np.allclose(scales[1, 2], x.mean(), rtol=1e-14)
    assert np.array_equal(out[::2], np.ones(200))


@pytest.mark.parametrize("side", [compiled, twin])
def test_a_feature_that_most_rows_lack_is_divided_by_the_size_of_its_values(side):
    """Two rows of five have it: never more than ¾ of them."""
    pointer = np.array([0, 1, 2, 4, 5, 7])
    index, value = np.array([0, 0, 0, 1, 0, 0, 1], dtype=np.int32), np.array([1.0, 1, 1, 4, 1, 1, 8])
    scales = np.zeros((2, 5))
    _, made, out = side.standardize(scales, pointer, index, value)
    assert made.tolist() == index.tolist()
    assert out.tolist() == [1, 1, 1, 4 / 4, 1, 1, 8 * 2 / 12]
    assert scales.tolist() == [[5, 5, 5, 0, 0], [2, 12, 12, 0, 0]]


@pytest.mark.parametrize("side", [compiled, twin])
def test_a_constant_becomes_nothing_and_rows_get_the_entries_they_lack(side):
    pointer = np.array([0, 2, 4, 5, 7])
    index, value = np.array([0, 1, 0, 1, 0, 0, 1], dtype=np.int32), np.array([1.0, 0.1, 1, 0.1, 1, 1, 0.1])
    scales = np.zeros((2, 5))
    lengths, made, out = side.standardize(scales, pointer, index, value)
    assert out[[1, 3]].tolist() == [0, 0]
    assert (made.tolist(), lengths.tolist()) == ([0, 1, 0, 1, 0, 1, 0, 1], [0, 2, 4, 6, 8])
    assert out[5] == pytest.approx(-2)  # −mean over mean · 1/2: three rows, of which the first counts as none
    assert out[7] == pytest.approx(3 * (0.1 - 0.075) / (0.2 / 3 + 0.025))


@pytest.mark.parametrize("side", [compiled, twin])
def test_a_feature_that_becomes_rare_is_no_longer_centred(side):
    pointer = np.concatenate([[0], np.cumsum([2, 2] + [1] * 6)])
    index, value = np.array([0, 1, 0, 1] + [0] * 6, dtype=np.int32), np.array([1.0, 3, 1, 5] + [1] * 6)
    scales = np.zeros((2, 5))
    lengths, _, _ = side.standardize(scales, pointer, index, value)
    assert np.diff(lengths).tolist() == [2, 2, 2, 1, 1, 1, 1, 1]  # 2 of 4 rows are fewer than ⅝
    assert scales[1] == pytest.approx([2, 8, 8, 0, 0])


@pytest.mark.parametrize("side", [compiled, twin])
def test_what_does_not_fit_is_refused(side):
    rows = (np.array([0, 1]), np.array([3], dtype=np.int32), np.ones(1))
    with pytest.raises(ValueError, match="outside its table"):
        side.standardize(np.zeros((3, 5)), *rows)
    with pytest.raises(ValueError, match="five columns"):
        side.standardize(np.zeros((4, 2)), *rows)
    with pytest.raises(ValueError, match="do not fit"):
        side.standardize(np.zeros((4, 5)), np.array([0, 2]), *rows[1:])
