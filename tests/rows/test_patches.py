"""Patches and segments: what is cut is where it says, everywhere, and the same again."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import BadUsage
from herdcli.rows.patches import cut_patches, cut_segments

HEIGHT, WIDTH = 5, 7
PICTURES = np.arange(3 * HEIGHT * WIDTH).reshape(3, HEIGHT * WIDTH)


def test_patches_are_squares_of_the_picture_they_name():
    rows, picture = cut_patches(PICTURES, (HEIGHT, WIDTH), 2, 500, seed=1)
    corner = rows[:, 0]
    assert np.array_equal(rows, corner[:, None] + [0, 1, WIDTH, WIDTH + 1])
    assert np.array_equal(corner // (HEIGHT * WIDTH), picture)
    places = set(corner.tolist())
    assert places == {p * 35 + top * 7 + left for p in range(3) for top in range(4) for left in range(6)}  # every place, none outside


def test_segments_are_consecutive_rows_of_one_column():
    signals = np.arange(40).reshape(20, 2)
    rows, signal = cut_segments(signals, 5, 300, seed=1)
    assert np.array_equal(rows, rows[:, :1] + 2 * np.arange(5))
    assert np.array_equal(rows[:, 0] % 2, signal)
    assert set(rows[:, 0].tolist()) == set(range(32))


def test_places_depend_on_the_seed_alone():
    one, again, other = (cut_patches(PICTURES, (HEIGHT, WIDTH), 3, 20, seed=seed)[0] for seed in (4, 4, 5))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_pieces_as_large_as_the_whole():
    assert np.array_equal(cut_patches(PICTURES[:1, :25], (5, 5), 5, 2, seed=0)[0], np.repeat(PICTURES[:1, :25], 2, axis=0))
    assert np.array_equal(cut_segments(PICTURES[:, :1], 3, 1, seed=0)[0], PICTURES[:, :1].T)


def test_pieces_that_do_not_fit_are_refused():
    with pytest.raises(BadUsage, match=r"^patches of 6×6 do not fit into images of 5×7$"):
        cut_patches(PICTURES, (HEIGHT, WIDTH), 6, 1, seed=0)
    with pytest.raises(BadUsage, match=r"^segments of 4 samples do not fit into signals of 3$"):
        cut_segments(PICTURES, 4, 1, seed=0)
