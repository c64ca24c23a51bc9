"""IDX, the format of MNIST: two zero bytes, a type, a number of dimensions, their lengths, and the values, most significant byte first.

Source: Y. LeCun, C. Cortes, C. J. C. Burges, The MNIST database of handwritten digits.
"""

from __future__ import annotations

import hashlib
import math
import os
from typing import BinaryIO

import numpy as np

from herdcli.artifacts import memory_budget
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.tables.dataset_assembly import assemble_dataset
from herdcli.artifacts.tables.named_arrays import flatten_images
from herdcli.errors import BadUsage, DataError
from herdcli.schema import Array

TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
MOST_DIMENSIONS = 4


def is_idx(head: bytes) -> bool:
    """Return whether bytes begin like IDX, with complete lengths."""
    return len(head) >= 8 and head[:2] == b"\0\0" and head[2] in TYPES and 1 <= head[3] <= MOST_DIMENSIONS


def read_dataset(stream: BinaryIO, *, where: str, options: LoadOptions) -> tuple[Dataset, str | None]:
    """Read the data set of images, with the labels of a file next to it that has MNIST's name; also return that file's digest, or None."""
    if options.keep:
        raise BadUsage(
            "an IDX file holds only one array, so --keep-column does not work",
            where=where,
            hint="save the data as .npz: numpy.savez(FILE, X=X, y=y)",
        )
    X, declared = flatten_images(read_array(stream, where, options.limit))
    beside = find_label_file(where)
    if X.shape[1] == 1 or beside is None:
        return assemble_dataset(X, {}, declared, where=where, note=options.note), None
    from herdcli.artifacts.byte_sources import open_source

    with open_source(beside, limit=options.limit) as source:
        if not is_idx(source.head):
            return assemble_dataset(X, {}, declared, where=where, note=options.note), None
        with source.reader() as labels:
            y = read_array(labels, beside, options.limit)
        digest = source.sha256
    options.note(f"{where}: labels are read from {beside}")
    return assemble_dataset(X, {"y": y}, declared, where=where, note=options.note), digest


def find_label_file(path: str) -> str | None:
    """Return the label file for a file of images, by the names of MNIST: train-images-idx3-ubyte, train-labels-idx1-ubyte."""
    folder, name = os.path.split(path)
    for images, labels in (("images-idx3", "labels-idx1"), ("images.idx3", "labels.idx1"), ("images", "labels")):
        other = os.path.join(folder, name.replace(images, labels))
        for found in (other, other.removesuffix(".gz"), f"{other}.gz"):
            if images in name and found != path and os.path.isfile(found):
                return found
    return None


def joint_digest(first: str, second: str) -> str:
    """Return one digest for two inputs that form one data set."""
    return hashlib.sha256(f"{first} {second}".encode()).hexdigest()


def read_array(stream: BinaryIO, where: str, limit: int) -> Array:
    """Read the array of a file.  Raises DataError if the file is cut short or too long."""
    kind, count = stream.read(4)[2:4]
    raw = stream.read(4 * count)
    shape = tuple(np.frombuffer(raw[: 4 * (len(raw) // 4)], dtype=">u4").astype(int).tolist())
    size = math.prod(shape) * np.dtype(TYPES[kind]).itemsize
    memory_budget.require_memory(size, limit, where=where)
    values = stream.read(size)
    if len(shape) < count or len(values) < size:
        raise DataError("the IDX file is cut short", where=where, hint="download it again")
    if stream.read(1):
        raise DataError(f"the IDX file continues after its {'×'.join(map(str, shape))} values", where=where, hint="download it again")
    found = np.frombuffer(values, dtype=TYPES[kind]).reshape(shape)
    return found.astype(found.dtype.newbyteorder("="))
