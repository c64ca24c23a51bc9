"""Serialization without pickle, for dataclasses of this package, dictionaries, lists, texts, numbers, bytes, and arrays.

A line of JSON describes the value, with import paths and names; the raw bytes of the arrays follow it, each at a multiple of 64 bytes.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from herdcli.schema import Array

ALIGNED = 64


def serialize(value: object) -> bytes:
    """Return the bytes of a value.  Raises TypeError for a value of any other type."""
    arrays: list[Array] = []
    shape = _describe_value(value, arrays)
    sizes = [[array.dtype.str, list(array.shape)] for array in arrays]
    head = json.dumps([shape, sizes]).encode()
    pieces = [f"{len(head):<{ALIGNED - 1}}\n".encode(), head.ljust(_round_up_alignment(len(head)))]
    for array in arrays:
        pieces.append(array.tobytes().ljust(_round_up_alignment(array.nbytes), b"\0"))
    return b"".join(pieces)


def deserialize(content: bytes, *, copy: bool = True) -> Any:
    """Return the value of serialized bytes.  copy  whether its arrays own their memory; otherwise they are read-only views of the bytes."""
    length = int(content[:ALIGNED])
    shape, sizes = json.loads(content[ALIGNED : ALIGNED + length])
    at, arrays = ALIGNED + _round_up_alignment(length), []
    for kind, extent in sizes:
        dtype = np.dtype(kind)
        count = math.prod(extent)
        view = np.frombuffer(content, dtype, count, at).reshape(extent)
        arrays.append(view.copy() if copy else view)
        at += _round_up_alignment(count * dtype.itemsize)
    return _rebuild_value(shape, arrays)


def _round_up_alignment(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _describe_value(value: object, arrays: list[Array]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        arrays.append(np.asarray(value, order="C"))
        return {"array": len(arrays) - 1}
    if isinstance(value, bytes):
        arrays.append(np.frombuffer(value, dtype=np.uint8))
        return {"bytes": len(arrays) - 1}
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith("herdcli."):
        inside = {each.name: _describe_value(getattr(value, each.name), arrays) for each in fields(value)}
        return {"class": f"{type(value).__module__}:{type(value).__qualname__}", "fields": inside}
    if isinstance(value, dict):
        return {"dict": {name: _describe_value(item, arrays) for name, item in value.items()}}
    if isinstance(value, (list, tuple)):
        return {"list": [_describe_value(item, arrays) for item in value], "tuple": isinstance(value, tuple)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"plain": value}
    raise TypeError(f"{type(value).__name__} is not sent")


def _rebuild_value(shape: Any, arrays: list[Array]) -> Any:
    if "array" in shape:
        return arrays[shape["array"]]
    if "bytes" in shape:
        return arrays[shape["bytes"]].tobytes()
    if "class" in shape:
        module, _, name = shape["class"].partition(":")
        if not module.startswith("herdcli."):
            raise TypeError(f"{module} is not of this package")
        kind = getattr(import_module(module), name)
        if not (isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module):
            raise TypeError(f"{module}:{name} is not a dataclass of this package")  # otherwise a function could be called
        return kind(**{field: _rebuild_value(item, arrays) for field, item in shape["fields"].items()})
    if "dict" in shape:
        return {name: _rebuild_value(item, arrays) for name, item in shape["dict"].items()}
    if "list" in shape:
        items = [_rebuild_value(item, arrays) for item in shape["list"]]
        return tuple(items) if shape["tuple"] else items
    return shape["plain"]
