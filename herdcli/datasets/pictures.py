"""Pictures as rows of pixels, decoded by Pillow (extra `image`)."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from herdcli.schema import Array


def decode_grey(content: bytes) -> Array:
    """Return the grey pixels (height, width) uint8 of an image file."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as picture:
        return np.asarray(picture.convert("L"))


def decode_netpbm(content: bytes) -> Array:
    """Return the pixels (height, width) uint8 of a binary PGM file (P5) with at most 256 levels."""
    fields: list[bytes] = []
    position = 0
    while len(fields) < 4:
        line = content.index(b"\n", position)
        fields += content[position:line].partition(b"#")[0].split()
        position = line + 1
    width, height = int(fields[1]), int(fields[2])
    return np.frombuffer(content, np.uint8, width * height, position).reshape(height, width)


def columns_to_rows(pixels: Any, shape: tuple[int, int]) -> Array:
    """Return pictures (n, height·width) in row-major order, from pixels that are stored column by column, as in MATLAB."""
    height, width = shape
    return np.ascontiguousarray(pixels.reshape(-1, width, height).transpose(0, 2, 1).reshape(len(pixels), -1))
