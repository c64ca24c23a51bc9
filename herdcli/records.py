"""A `dataclass` decorator that is faster than Python's: comparing, hashing and printing are shared, not compiled for each class.

A command creates some forty classes while it is imported, and half of the time went into these three methods.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"
HistoryRecord: TypeAlias = dict[str, Any]  # one command in a history: software, version, command, parameters, inputs

LONG = 12  # length limits of printed values: entries of a list, tens of characters of a text

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, kw_only=False):
        """Decorate a class as a dataclass whose instances are compared, hashed (if frozen) and printed by their values."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, kw_only=kw_only)
        shared = {
            "__eq__": _records_equal,
            "__hash__": _record_hash if frozen else None,
            "__repr__": _record_repr,
            "_repr_html_": _record_html,
        }
        missing = shared.keys() - vars(cls).keys()
        made = dataclasses.dataclass(cls, frozen=frozen, kw_only=kw_only, eq=False, repr=False)
        for name in missing:
            setattr(made, name, shared[name])
        return made


def _field_values(record: object) -> tuple[object, ...]:
    return tuple(getattr(record, field.name) for field in dataclasses.fields(record) if field.compare)  # type: ignore[arg-type]


def _records_equal(self: object, other: object) -> bool:
    return all(map(_values_equal, _field_values(self), _field_values(other))) if other.__class__ is self.__class__ else NotImplemented


def _values_equal(ours: Any, theirs: Any) -> bool:
    """Return whether two values are equal, including every entry of arrays and sparse matrices."""
    shape = getattr(ours, "shape", None)
    if ours is theirs or shape != getattr(theirs, "shape", None):
        return ours is theirs
    if not shape:
        return bool(ours == theirs)
    unlike = ours != theirs
    return not (unlike.nnz if hasattr(unlike, "nnz") else unlike.any())


def _record_hash(self: object) -> int:
    return hash(_field_values(self))


def _record_repr(self: object) -> str:
    told = (f"{field.name}={short_repr(getattr(self, field.name))}" for field in dataclasses.fields(self) if field.repr)  # type: ignore[arg-type]
    return f"{type(self).__qualname__}({', '.join(told)})"


_notebook_view: Callable[[Any], str] | None = None


def set_notebook_view(view: Callable[[Any], str]) -> None:
    """Set the function that makes the HTML view of every record in notebooks."""
    global _notebook_view
    _notebook_view = view


def _record_html(self: object) -> str | None:
    """Return the HTML that a notebook shows, or None if no view is set: the notebook then shows the text."""
    return None if _notebook_view is None else _notebook_view(self)


def short_repr(value: object) -> str:
    """Return the text of a value as Python prints it; arrays, long texts and long lists are described by type and size."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape and dtype is not None:
        return f"<{'×'.join(map(str, shape))} {dtype}>"
    if isinstance(value, list | tuple | dict) and len(value) > LONG:
        return f"<{type(value).__name__} of {len(value)}>"
    text = repr(value)
    return text if len(text) <= 10 * LONG else f"{text[: 10 * LONG]}…"


__all__ = ["dataclass", "set_notebook_view", "short_repr"]


def former_class_getattr(module: str, **names: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose classes had other names, which pickles of earlier versions hold.

    names  former name -> present name.  Raises AttributeError for other names.
    """

    def find_class(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(sys.modules[module], names[name])

    return find_class
