"""Declarations of the arrays in the dataclasses that become artifacts: named dimensions whose lengths must agree.

    @dataclass(frozen=True)
    class Rows:
        X: Array = array("n d", "real rows")
        y: Array | None = array("n", "labels", kind="i", optional=True)

`check_arrays(rows)` then raises an error for a `y` whose length is not that of `X`.  The codec uses the same
declaration, and the documentation of the format is generated from it.  Fields without `array` are
scalars (attributes), strings, lists of strings, nested dataclasses (groups) or lists of those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import Field, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from herdcli.errors import DataError
from herdcli.records import dataclass

Array = NDArray[Any]
DType: TypeAlias = np.dtype[Any]
T = TypeVar("T")

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    CSRMatrix: TypeAlias = csr_matrix
    Matrix: TypeAlias = Array | csr_matrix  # rows (n, d): dense or CSR, in memory or read from a file when they are accessed
else:
    CSRMatrix = Matrix = Any  # the fields of artifacts are typed by `array`, and SciPy takes long to import
TRUTHS = ("False", "True")  # the levels of columns of truth values

LARGEST = 1e100  # the largest value to learn from: squares occur in all sums, fourth powers relative to a column's scale

INVALID_WEIGHTS = "the weights of rows must be finite, not negative and not all 0"

LARGEST_INTEGER = 2**53  # the largest count or setting: a sum of a thousand of them fits in 64 bits, and each is an exact float
SEED = "seed"  # the only number that may use all 64 bits

KIND_NAMES = {"f": "float", "i": "signed integer", "u": "unsigned integer", "b": "boolean", "U": "string"}


def is_sparse(rows: object) -> TypeGuard[CSRMatrix]:
    """Return whether rows are a CSR matrix."""
    return hasattr(rows, "indptr")


@dataclass(frozen=True)
class ArraySpec:
    """The declaration of an array: names of dimensions, allowed dtype kinds, and a sentence that describes it."""

    dims: tuple[str, ...]
    kinds: str
    doc: str
    sparse: bool = False
    finite: bool = False
    low: float | None = None
    high: float | None = None
    dtype: str = ""


def array(
    dims: str,
    doc: str,
    *,
    kind: str = "fiub",
    optional: bool = False,
    sparse: bool = False,
    finite: bool = False,
    low: float | None = None,
    high: float | None = None,
    dtype: str = "",
) -> Any:
    """Return a dataclass field that holds an array.

    dims    names separated by blanks, "C D K"; a digit is a fixed length, "2".
    kind    NumPy dtype kinds allowed.  sparse  a scipy CSR matrix is accepted in its place.
    finite  no NaN, no infinity.        low, high  least and largest value allowed; NaN is refused as well.
    dtype   the type that the program computes in; numbers of another size in a file are converted to it.
    """
    metadata = {"array": ArraySpec(tuple(dims.split()), kind, doc, sparse, finite, low, high, dtype)}
    return field(default=None, metadata=metadata) if optional else field(metadata=metadata)


def convert_to_declared(declared: Field[Any], item: Any) -> Any:
    """Convert a value read from a file to the type that the program uses for the field."""
    spec = array_spec_of_field(declared)
    if spec is None or not spec.dtype or not isinstance(item, np.ndarray) or item.dtype.kind not in spec.kinds:
        return item
    return item.astype(spec.dtype, copy=False)


def array_spec_of_field(declared: Field[Any]) -> ArraySpec | None:
    """Return the array declaration of a dataclass field, or None for other fields."""
    return declared.metadata.get("array")


def join_records(parts: Sequence[T], *dims: str) -> T:
    """Join several dataclasses of one class along some dimensions: arrays that have one of these dimensions are concatenated.

    Nested dataclasses are joined too.  An array that one of the parts lacks is left out.  Everything else is taken from the first part.
    """
    first: Any = parts[0]
    found: dict[str, Any] = {}
    for declared in fields(first):
        items, spec = [getattr(part, declared.name) for part in parts], array_spec_of_field(declared)
        axis = next((axis for axis, dim in enumerate(spec.dims) if dim in dims), None) if spec else None
        if axis is not None:
            found[declared.name] = None if any(item is None for item in items) else np.concatenate(items, axis=axis)
        elif is_dataclass(items[0]):
            found[declared.name] = join_records(items, *dims)
    result: T = replace(first, **found)
    return result


def check_arrays(value: Any, *, where: str | None = None, path: str = "") -> None:
    """Raise DataError unless every declared array has its rank, dtype kind, agreeing lengths, and values as declared.

    Dimension names are shared inside one dataclass, not with those nested in it.  A dataclass checks further conditions on its
    values in its own method `validate`.
    """
    lengths: dict[str, tuple[int, str]] = {}
    for declared in fields(value):
        item = getattr(value, declared.name)
        spec = array_spec_of_field(declared)
        if item is None:
            if spec and declared.default is not None:
                raise DataError(f"dataset '{declared.name}' is missing", where=where)
            continue
        if spec:
            _check_array(declared.name, item, spec, lengths, where)
            _check_values(f"{path}/{declared.name}", item, spec, where)
        elif type(item) is int and abs(item) > LARGEST_INTEGER and declared.name != SEED:
            raise DataError(f"{path}/{declared.name} has {item}, but at most 2^53 is allowed", where=where)
        elif is_dataclass(item):
            check_arrays(item, where=where, path=f"{path}/{declared.name}")
        elif isinstance(item, (list, tuple)):
            records = any(map(is_dataclass, set(map(type, item))))  # most lists are of texts or numbers, and some are long
            for index, part in enumerate(item) if records else ():
                if is_dataclass(part):
                    check_arrays(part, where=where, path=f"{path}/{declared.name}/{index}")
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
            raise DataError(
                f"dataset '{name}' has {length:,} entries along {dim} but '{source}' has {expected:,}".replace(",", " "), where=where
            )


def _check_values(name: str, item: Any, spec: ArraySpec, where: str | None) -> None:
    values = item.data if hasattr(item, "indptr") else item
    if not values.size or (not spec.finite and spec.low is None and spec.high is None):
        return
    if spec.finite and values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError(f"{name} has values that are not finite", where=where)
    low, high = values.min(), values.max()
    if not ((spec.low is None or low >= spec.low) and (spec.high is None or high <= spec.high)):
        lowest, highest = (f"{end:g}" if end is not None else "" for end in (spec.low, spec.high))
        allowed = f"{lowest} … {highest}" if lowest and highest else f"≥ {lowest}" if lowest else f"≤ {highest}"
        raise DataError(
            f"{name} has {low if spec.low is not None and not low >= spec.low else high}, but the allowed values are {allowed}", where=where
        )


def require_valid_indices(name: str, values: Array | None, count: int, indexed_name: str, *, low: int = 0) -> None:
    """Raise DataError unless all integers are in `low` … count − 1, the range of indices of `indexed_name`."""
    if values is not None and values.size and not low <= values.min() <= values.max() < count:
        raise DataError(f"{name} must hold {low} … {count - 1}, {indexed_name}")


def require_image_shape(shape: Array | None, count: int, name: str = "image_shape", pixel_noun: str = "columns") -> None:
    """Raise DataError unless an image (or lattice) of this height and width has `count` pixels (or sites)."""
    if shape is not None and int(shape[0]) * int(shape[1]) != count:
        raise DataError(f"{name} is {shape[0]}×{shape[1]}, which does not match the {count} {pixel_noun}")


def require_offsets(name: str, offset: Array, count: int, what: str) -> None:
    """Raise DataError unless offsets rise from 0 to `count`, the length of the array that they divide."""
    ends = offset.astype(np.int64, copy=False)  # differences of unsigned numbers would overflow
    if not ends.size or ends[0] != 0 or ends[-1] != count or (ends[1:] < ends[:-1]).any():
        raise DataError(f"dataset '{name}' does not divide '{what}' into consecutive parts")


def require_equal_lengths(parts: Sequence[Any], dims: Collection[str] = (), fields_present: Collection[str] = ()) -> None:
    """Raise DataError unless all parts have equal lengths along some dimensions, and each of some fields is in all parts or in none.

    dims  dimension names that the arrays of the parts declare.  fields_present  names of fields that may be None.
    """
    first: dict[str, object] = {}
    for part in parts:
        for declared in fields(part):
            item, spec = getattr(part, declared.name), array_spec_of_field(declared)
            found: dict[str, object] = {}
            if spec is not None and item is not None:
                found = {f"along {dim}": length for dim, length in zip(spec.dims, item.shape, strict=True) if dim in dims}
            if declared.name in fields_present:
                found[f"with or without '{declared.name}'"] = item is not None
            for what, value in found.items():
                if first.setdefault(what, value) != value:
                    raise DataError(f"the arrays of its parts differ {what}", hint="make the shards again")


def check_same_shapes(value: Any, model: Any, *, where: str | None = None, path: str = "") -> None:
    """Raise DataError unless the arrays, lists and dataclasses of `value` have the types and shapes of those of `model`.

    Empty arrays, first axes, and fields that the class lists in `grows` may be longer in `value` than in `model`.  The axes of a field
    listed in `free_axes` may have any length.  A field may be None in one of the two and present in the other.
    """
    free_axes: Mapping[str, tuple[int, ...]] = getattr(model, "free_axes", {})
    for declared in fields(model):
        ours, theirs, name = getattr(model, declared.name), getattr(value, declared.name), f"{path}/{declared.name}"
        if ours is None or theirs is None or declared.name in getattr(model, "grows", ()):
            continue
        if isinstance(ours, np.ndarray):
            _check_same_shape(name, theirs, ours, where, free_axes.get(declared.name, ()))
        elif is_dataclass(ours):
            check_same_shapes(theirs, ours, where=where, path=name)
        elif isinstance(ours, (list, tuple)) and ours:
            if len(ours) != len(theirs):
                raise DataError(f"{name} has {len(theirs)} parts, but this run has {len(ours)}", where=where)
            for index, (part, other) in enumerate(zip(ours, theirs, strict=True)):
                if is_dataclass(part):
                    check_same_shapes(other, part, where=where, path=f"{name}/{index}")


def _check_same_shape(name: str, item: Array, model: Array, where: str | None, free: Collection[int]) -> None:
    fits = item.ndim == model.ndim and all(
        a == b or b == 0 or (axis == 0 and a > b) or axis in free for axis, (a, b) in enumerate(zip(item.shape, model.shape, strict=True))
    )
    if not fits or item.dtype.kind != model.dtype.kind:
        raise DataError(f"{name} is {item.dtype} {item.shape}, but this run has {model.dtype} {model.shape}", where=where)


TRUTHS = ("False", "True")  # names of the classes of boolean labels


def class_index(name: str, classes: Sequence[str]) -> int | None:
    """Return the index of a class by its name; None for another class.  False and True are also 0 and 1, as older models call them."""
    if name in classes:
        return list(classes).index(name)
    other = dict(zip((*TRUTHS, "0", "1"), ("0", "1", *TRUTHS), strict=True)).get(name)
    fits = other is not None and set(classes) in ({"0", "1"}, set(TRUTHS))
    return list(classes).index(other) if fits and other is not None else None


def boolean_level_index(text: str, levels: Sequence[str]) -> int | None:
    """Return the index of a word, in any case, if the levels are true and false; return None for other words and levels."""
    folded = [level.casefold() for level in levels]
    return folded.index(text.casefold()) if sorted(folded) == ["false", "true"] and text.casefold() in folded else None


def require_valid_weights(weight: Array | None, *, some_positive: bool = True, where: str | None = None) -> None:
    """Raise DataError unless the weights (n,) of rows are finite, not negative and, with `some_positive`, not all 0."""
    if weight is None or (np.isfinite(weight).all() and (weight >= 0).all() and (not some_positive or weight.any())):
        return
    raise DataError(INVALID_WEIGHTS, where=where)
