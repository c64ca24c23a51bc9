"""Random patches of pictures and segments of signals, at positions that are a function of (seed, stream)."""

from __future__ import annotations

from numpy.lib.stride_tricks import sliding_window_view

from herdcli.errors import BadUsage
from herdcli.rng import Stream, generator
from herdcli.schema import Array


def cut_patches(X: Array, image_shape: tuple[int, int], size: int, count: int, *, seed: int) -> tuple[Array, Array]:
    """Return square patches of pictures (count, size²), row by row, and the index (count,) of the picture of each.

    X (n, height·width) pictures.  Picture and position are uniform and independent of each other; positions may repeat.
    Raises BadUsage for a square larger than the pictures.
    """
    height, width = image_shape
    if size > min(height, width):
        raise BadUsage(f"patches of {size}×{size} do not fit into images of {height}×{width}")
    windows = sliding_window_view(X.reshape(len(X), height, width), (size, size), axis=(1, 2))
    picture, top, left = _draw_positions(windows.shape[:3], count, seed)
    return windows[picture, top, left].reshape(count, size * size), picture


def cut_segments(X: Array, length: int, count: int, *, seed: int) -> tuple[Array, Array]:
    """Return segments of signals (count, length), and the column (count,) of each.

    X (time, signals).  Signal and beginning are uniform and independent of each other; positions may repeat.
    Raises BadUsage for segments longer than the signals.
    """
    if length > len(X):
        raise BadUsage(f"segments of {length} samples do not fit into signals of {len(X)}")
    windows = sliding_window_view(X, length, axis=0)
    start, signal = _draw_positions(windows.shape[:2], count, seed)
    return windows[start, signal], signal


def _draw_positions(lengths: tuple[int, ...], count: int, seed: int) -> list[Array]:
    """Return uniform random indices (count,) below each length."""
    random = generator(seed, Stream.PATCHES)
    return [random.integers(0, length, count) for length in lengths]
