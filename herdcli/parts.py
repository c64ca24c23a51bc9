"""Parts of the program that describe themselves (unit families, selection rules, algorithms): each is one class and one line in a table.

A table holds dotted paths and imports nothing, so that help and error messages made from it are cheap.  A part is imported when it
is first used, and must be complete: an incomplete part raises an error and is never replaced by another.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any, Protocol, TypeVar

from herdcli.errors import IncompletePart

Part = TypeVar("Part")


class HasClassPath(Protocol):
    """A line of a table."""

    @property
    def path(self) -> str:
        """The dotted path of a class."""
        ...


class LazyParts(Mapping[str, Part]):
    """The parts of a table by name; each is imported and instantiated when it is first used.  All are instances of one class, `base`."""

    def __init__(self, table: Mapping[str, HasClassPath], base: Any) -> None:
        self._table, self._base = table, base
        self._made: dict[str, tuple[HasClassPath, Part]] = {}

    def __getitem__(self, name: str) -> Part:
        entry = self._table[name]
        if self._made.get(name, (None,))[0] is not entry:
            self._made[name] = entry, instantiate_class(entry.path, self._base)
        return self._made[name][1]

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def import_by_path(path: str) -> Any:
    """Import and return the object at a dotted path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def instantiate_class(path: str, base: type[Any], *values: Any) -> Any:
    """Return an instance of the class at a dotted path, made from `values`.

    Raises IncompletePart unless the instance has all that `base` requires.
    """
    found = import_complete_class(path, base)(*values)
    require_attributes(found, base)
    return found


def import_complete_class(path: str, base: type[Any]) -> Any:
    """Return the class at a dotted path.  Raises IncompletePart unless it derives from `base` and has its methods."""
    part = import_by_path(path)
    if not issubclass(part, base):
        raise IncompletePart(f"{path} is not a {base.__name__}", hint=f"derive it from {base.__module__}.{base.__name__}")
    require_all_methods(part)
    return part


def import_class_with_methods(path: str, protocol: type) -> Any:
    """Return the class at a dotted path.  Raises IncompletePart unless it has the methods of a protocol."""
    part = import_by_path(path)
    lacking = sorted(name for name in required_methods(protocol) if not callable(getattr(part, name, None)))
    if lacking:
        raise IncompletePart(f"{path} lacks {', '.join(lacking)}", hint=f"define {lacking[0]} in {part.__module__}")
    return part


def required_methods(protocol: type) -> set[str]:
    """Return the names of the methods that a protocol requires; its properties may be attributes that an object sets itself."""
    found = {name: value for each in reversed(protocol.__mro__) for name, value in vars(each).items()}
    return {name for name, value in found.items() if isinstance(value, FunctionType) and not name.startswith("_")}


def require_all_methods(part: type) -> None:
    """Raise IncompletePart for a class that lacks a method of its base."""
    lacking = sorted(getattr(part, "__abstractmethods__", ()))
    if lacking:
        raise IncompletePart(f"{_class_name(part)} lacks {', '.join(lacking)}", hint=f"define {lacking[0]} in {part.__module__}")


def require_attributes(instance: object, base: type) -> None:
    """Raise IncompletePart for an object that lacks an attribute which `base` declares without a value."""
    lacking = [name for name in required_attributes(base) if not hasattr(instance, name)]
    if lacking:
        part = type(instance)
        raise IncompletePart(f"{_class_name(part)} lacks {', '.join(lacking)}", hint=f"give {lacking[0]} a value in {part.__module__}")


def required_attributes(base: type) -> list[str]:
    """Return the attributes that a base class annotates without a value."""
    return [name for each in base.__mro__ for name in vars(each).get("__annotations__", ()) if not hasattr(base, name)]


def _class_name(part: type) -> str:
    return f"{part.__module__}.{part.__qualname__}"
