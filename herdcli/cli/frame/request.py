"""What a user asked of a command, as one frozen dataclass with typed fields: parsed once, seen by the whole wing, and recorded.

    @dataclass(frozen=True, kw_only=True)
    class Request:
        source: str = unrecorded()
        hidden: int
        below: str | None = as_file()

The fields have the names of the command's options.  `resolved`, where a request has one, returns it with the defaults that depend on
other options filled in; nothing rewrites it later.  The history holds `recorded(request)`, a shard is finished with `revived` of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")

D = TypeVar("D")  # of a field
_LEFT_OUT = object()


class Resolvable(Protocol):
    """A request whose defaults depend on what else was typed."""

    def resolved(self, given: frozenset[str]) -> Any:
        """The request as it is run.  given: names of the options that the user typed."""
        ...


def unrecorded() -> Any:
    """A field that is not part of the record: where inputs lie and outputs go, which cannot change a result."""
    return field(metadata={"record": lambda value: _LEFT_OUT})


def noted(default: D) -> D:
    """A field that is no option and not part of the record: what `resolved` has seen."""
    return field(default=default, metadata={"record": lambda value: _LEFT_OUT})


def as_file() -> Any:
    """A field that names a file: the record says `file`, since its content is among the inputs."""
    return field(metadata={"record": lambda value: None if value is None else "file"})


def as_recorded(shown: Callable[[Any], object]) -> Any:
    """A field whose record is what `shown` makes of the value."""
    return field(metadata={"record": shown})


def where_given() -> Any:
    """A field that the record has only where it is not None: what most runs know nothing of."""
    return field(default=None, metadata={"record": lambda value: _LEFT_OUT if value is None else value})


def where_changed(default: D, shown: Callable[[D], object] = lambda value: value) -> D:
    """A field that the record has only where it is not the default: options of one model among several."""
    return field(default=default, metadata={"record": lambda value: _LEFT_OUT if value == default else shown(value)})


def recorded(request: DataclassInstance) -> dict[str, object]:
    """Options by name as the history has them: those that can change the result."""
    found: dict[str, object] = {}
    for each in fields(request):
        value = getattr(request, each.name)
        shown = each.metadata.get("record", _itself)(value)
        if shown is not _LEFT_OUT:
            found[each.name] = shown
    return found


def _itself(value: object) -> object:
    return value


def revived(kind: type[T], parameters: Mapping[str, object]) -> T:
    """The request of a record: lists are tuples again, what was left out or is newer than the record is None or its default."""
    return kind(**{each.name: _tuples(parameters[each.name]) if each.name in parameters else _absent(each) for each in fields(kind)})


def _absent(declared: Field[object]) -> object:
    return None if declared.default is MISSING else declared.default


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def settings(kind: type[T], request: DataclassInstance, **more: object) -> T:
    """The settings of a topic from the request's fields of the same names, None where the topic's default holds; `more` goes first."""
    asked = {each.name: getattr(request, each.name, None) for each in fields(kind)}
    return kind(**{name: value for name, value in asked.items() if value is not None} | more)
