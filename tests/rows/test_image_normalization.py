"""Block means, masks and histogram equalisation of images against straightforward loops."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.rows.image_normalization import downsample_images, ellipse_mask, equalize_histograms, mask_pixels

EVERYWHERE = np.ones(24, dtype=bool)


@pytest.fixture
def rows():
    return np.random.default_rng(1).integers(0, 256, size=(5, 24), dtype=np.uint8)


def test_block_means_are_those_of_the_pixels(rows):
    found = downsample_images(rows, (4, 6), 2)
    image = rows[3].reshape(4, 6).astype(float)
    expected = [[image[i : i + 2, j : j + 2].mean() for j in (0, 2, 4)] for i in (0, 2)]
    np.testing.assert_allclose(found[3].reshape(2, 3), expected)
    assert found.dtype == np.float32


def test_blocks_that_do_not_fit_are_refused(rows):
    with pytest.raises(DataError, match=r"^images of 4×6 pixels cannot be cut into blocks of 4×4$"):
        downsample_images(rows, (4, 6), 4)


def test_ellipse_has_its_area_and_both_symmetries():
    inside = ellipse_mask((200, 100), 0.8, 0.9).reshape(200, 100)
    assert inside.mean() == pytest.approx(np.pi / 4 * 0.8 * 0.9, abs=0.005)
    np.testing.assert_array_equal(inside, inside[::-1])
    np.testing.assert_array_equal(inside, inside[:, ::-1])
    assert not inside[:9].any()
    assert not inside[:, :9].any()
    assert inside[100, 11:89].all()


def test_pixels_outside_the_mask_get_one_value(rows):
    inside = ellipse_mask((4, 6))
    found = mask_pixels(rows, inside, 7)
    assert (found[:, ~inside] == 7).all()
    assert found.dtype == rows.dtype
    np.testing.assert_array_equal(found[:, inside], rows[:, inside])


def test_without_ties_all_images_get_one_histogram_and_keep_the_order_of_their_pixels():
    rows = np.random.default_rng(0).normal(size=(6, 24)) * np.arange(1, 7)[:, None]
    found = equalize_histograms(rows, EVERYWHERE)
    for before, after in zip(rows, found, strict=True):
        np.testing.assert_array_equal(np.argsort(before), np.argsort(after))
        np.testing.assert_allclose(np.sort(after), np.sort(found[0]), rtol=1e-6)
    np.testing.assert_allclose(np.sort(found[0]), np.sort(rows, axis=None).reshape(24, 6).mean(axis=1), rtol=1e-6)


def test_equal_pixels_stay_equal_and_the_mean_of_all_images_is_kept(rows):
    rows[:, ::3] = rows[:, :1]
    found = equalize_histograms(rows, EVERYWHERE)
    for before, after in zip(rows, found, strict=True):
        for level in np.unique(before):
            assert len(np.unique(after[before == level])) == 1
        assert after.mean() == pytest.approx(rows.mean(), rel=1e-6)


def test_one_image_alone_is_its_own_histogram(rows):
    np.testing.assert_allclose(equalize_histograms(rows[:1], EVERYWHERE), rows[:1])


def test_contrast_and_brightness_of_an_image_do_not_matter(rows):
    changed = rows.astype(float)
    changed[2] = 3 * changed[2] + 40
    order = [equalize_histograms(part, EVERYWHERE)[2].argsort(kind="stable") for part in (rows, changed)]
    np.testing.assert_array_equal(*order)
    one = equalize_histograms(np.stack([rows[2], rows[2]]), EVERYWHERE)
    np.testing.assert_allclose(one[0], rows[2])


def test_pixels_outside_the_mask_take_no_part(rows):
    inside = ellipse_mask((4, 6))
    other = rows.copy()
    other[:, ~inside] = 0
    np.testing.assert_array_equal(equalize_histograms(rows, inside)[:, inside], equalize_histograms(other, inside)[:, inside])
    np.testing.assert_array_equal(equalize_histograms(rows, inside)[:, ~inside], rows[:, ~inside])
