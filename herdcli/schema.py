"""How the dataclasses that become artifacts declare their arrays: named dimensions that must agree.

    @dataclass(frozen=True)
    class Rows:
        X: Array = array("n d", "real rows")
        y: Array | None = array("n", "labels", kind="i", optional=True)

`check(rows)` then refuses a `y` whose length is not `X`'s.  The codec writes from the same
declaration, and the format's documentation is generated from it.  Fields without `array` are
scalars (attributes), strings, lists of strings, nested dataclasses (groups) or lists of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from herdcli.errors import DataError

Array = NDArray[Any]
T = TypeVar("T")

KIND_NAMES = {"f": "float", "i": "signed integer", "u": "unsigned integer", "b": "boolean", "U": "string"}


@dataclass(frozen=True)
class ArraySpec:
    """What a declaration says: dimension names, the dtype kinds allowed, a sentence."""

    dims: tuple[str, ...]
    kinds: str
    doc: str
    sparse: bool = False


def array(dims: str, doc: str, *, kind: str = "fiub", optional: bool = False, sparse: bool = False) -> Any:
    """A dataclass field holding an array.

    dims  names separated by blanks, "C D K"; a digit is a fixed length, "2".
    kind  NumPy dtype kinds allowed.  sparse  a scipy CSR matrix is accepted in its place.
    """
    metadata = {"array": ArraySpec(tuple(dims.split()), kind, doc, sparse)}
    return field(default=None, metadata=metadata) if optional else field(metadata=metadata)


def spec_of(declared: Field[Any]) -> ArraySpec | None:
    """The array declaration of a dataclass field, None for other fields."""
    return declared.metadata.get("array")


def joined(parts: Sequence[T], *dims: str) -> T:
    """One dataclass of several that differ along some dimensions: arrays that have one of them are laid end to end, in dataclasses
    inside too; an array that a part lacks is left out.  Everything else is the first part's."""
    first: Any = parts[0]
    found: dict[str, Any] = {}
    for declared in fields(first):
        items, spec = [getattr(part, declared.name) for part in parts], spec_of(declared)
        axis = next((axis for axis, dim in enumerate(spec.dims) if dim in dims), None) if spec else None
        if axis is not None:
            found[declared.name] = None if any(item is None for item in items) else np.concatenate(items, axis=axis)
        elif is_dataclass(items[0]):
            found[declared.name] = joined(items, *dims)
    result: T = replace(first, **found)
    return result


def check(value: Any, *, where: str | None = None) -> None:
    """Raise DataError unless every declared array has its rank, dtype kind and agreeing lengths.

    Dimension names are shared inside one dataclass, not with those nested in it.  What else must hold of the values
    of a dataclass, it says itself by a method `validate`.
    """
    lengths: dict[str, tuple[int, str]] = {}
    for declared in fields(value):
        item = getattr(value, declared.name)
        spec = spec_of(declared)
        if item is None:
            if spec and declared.default is not None:
                raise DataError(f"dataset '{declared.name}' is missing", where=where)
            continue
        if spec:
            _check_array(declared.name, item, spec, lengths, where)
        elif is_dataclass(item):
            check(item, where=where)
        elif isinstance(item, (list, tuple)):
            for part in item:
                if is_dataclass(part):
                    check(part, where=where)
    if hasattr(value, "validate"):
        try:
            value.validate()
        except DataError as error:
            error.where = error.where or where
            raise


def _check_array(name: str, item: Any, spec: ArraySpec, lengths: dict[str, tuple[int, str]], where: str | None) -> None:
    if not isinstance(item, np.ndarray) and not (spec.sparse and hasattr(item, "indptr")):
        raise DataError(f"dataset '{name}' is not an array", where=where)
    if item.dtype.kind not in spec.kinds:
        allowed = " or ".join(KIND_NAMES[kind] for kind in spec.kinds)
        raise DataError(f"dataset '{name}' has type {item.dtype}, expected {allowed}", where=where)
    if item.ndim != len(spec.dims):
        raise DataError(f"dataset '{name}' has {item.ndim} dimensions, expected {len(spec.dims)} ({', '.join(spec.dims)})", where=where)
    for dim, length in zip(spec.dims, item.shape, strict=True):
        expected, source = (int(dim), "the format") if dim.isdigit() else lengths.setdefault(dim, (length, name))
        if length != expected:
            raise DataError(f"dataset '{name}' has {length:,} along {dim}, '{source}' has {expected:,}".replace(",", " "), where=where)
