"""What a user asked of a command, as one frozen dataclass with typed fields: parsed once and recorded.

    @dataclass(frozen=True, kw_only=True)
    class Request:
        source: str = input_file()
        hidden: int
        below: str | None = as_file()

The fields have the names of the command's options.  `resolved`, where a request has one, returns it with the defaults that depend on
other options filled in; nothing rewrites it later.  The history holds `recorded_options(request)`, a shard is finished with
`request_from_record` of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")

D = TypeVar("D")  # of a field
USE, INPUT, UPDATED, OUTPUT = "use", "input", "updated", "output"  # what a run does with the file that a field names
FILE = "file"  # a file in a record
SOMETIMES, ALLOWED = "sometimes", "allowed"  # marks of a field that only some records have, and of one that is no option
_LEFT_OUT = object()


def _always_false(value: object) -> object:
    return _LEFT_OUT


def unrecorded() -> Any:
    """A field that is not part of the record: where inputs lie and outputs go, which cannot change a result."""
    return field(metadata={"record": _always_false})


def input_file() -> Any:
    """A field that names what is read and is not part of the record, whose inputs have the digest of the content."""
    return field(metadata={"record": _always_false, USE: INPUT})


def output_file(shown: Callable[[D], object] = _always_false) -> Any:
    """A field that names what is written besides the result; the record has nothing of it, or what `shown` makes of it."""
    return field(metadata={"record": shown, USE: OUTPUT})


def derived(default: D) -> D:
    """A field that is no option and not part of the record: what `resolved` has seen."""
    return field(default=default, metadata={"record": _always_false})


def record_as_file(value: object) -> str | None:
    """The record of a file: `file`, since its content is among the inputs."""
    return None if value is None else FILE


def as_file(*, updated: bool = False) -> Any:
    """A field that names a file to read: the record says `file`.  updated: the result may go to the same file."""
    return field(metadata={"record": record_as_file, USE: UPDATED if updated else INPUT})


def as_recorded(shown: Callable[[D], object]) -> Any:
    """A field whose record is what `shown` makes of the value."""
    return field(metadata={"record": shown})


def where_given(allowed: Callable[[object], bool] | None = None) -> Any:
    """A field that the record has only where it is not None: what most runs know nothing of.

    allowed  of a field that is no option: which values a record can have.
    """
    shown: dict[str, object] = {"record": lambda value: _LEFT_OUT if value is None else value, SOMETIMES: True}
    return field(default=None, metadata=shown if allowed is None else shown | {ALLOWED: allowed})


def where_changed(default: D, shown: Callable[[D], object] = lambda value: value, allowed: Callable[[object], bool] | None = None) -> D:
    """A field that the record has only where it is not the default: options of one model among several.  allowed  as of `where_given`."""
    marks: dict[str, object] = {"record": lambda value: _LEFT_OUT if value == default else shown(value), SOMETIMES: True}
    return field(default=default, metadata=marks if allowed is None else marks | {ALLOWED: allowed})


def recorded_options(request: DataclassInstance) -> dict[str, object]:
    """Options by name as the history has them: those that can change the result."""
    found: dict[str, object] = {}
    for each in fields(request):
        value = getattr(request, each.name)
        shown = each.metadata.get("record", _identity)(value)
        if shown is not _LEFT_OUT:
            found[each.name] = shown
    return found


def request_type_of_record(kind: type[T], names: Collection[str]) -> type[T]:
    """The request that a record of these names is of: where `resolved` makes one of another type, which records other names, that type."""
    kinds = [kind, *kind.__subclasses__()]
    for each in kinds:
        always, sometimes = _recorded_names(each)
        if always <= set(names) <= always | sometimes:
            return each
    return next((each for each in kinds if set(names) <= recordable_names(each)), kind)  # a record of an earlier version


def recordable_names(kind: type[DataclassInstance]) -> set[str]:
    """The fields that a record can have."""
    always, sometimes = _recorded_names(kind)
    return always | sometimes


def _recorded_names(kind: type[DataclassInstance]) -> tuple[set[str], set[str]]:
    """The fields that every record has, and those that some have."""
    shown = [each for each in fields(kind) if each.metadata.get("record") is not _always_false]
    return {each.name for each in shown if SOMETIMES not in each.metadata}, {each.name for each in shown if SOMETIMES in each.metadata}


def recordable(declared: Field[object], value: object) -> bool:
    """Whether a record can hold this value of a field."""
    shown = declared.metadata.get("record", _identity)
    return shown is not _always_false and (value == absent_value(declared) or bool(shown(value) == value) or ALLOWED in declared.metadata)


def named_file(declared: Field[object], value: object) -> str | None:
    """The file that the value of a field names: all of it, or what follows the name of a form, as in mixture:FILE."""
    if not isinstance(value, str):
        return None
    if declared.metadata.get(USE) is not None:
        return value
    shown = declared.metadata.get("record", _identity)(value)
    if shown == FILE:
        return value
    form = f"{shown}:"
    return value[len(form) :] if isinstance(shown, str) and value.startswith(form) else None


def names_files(declared: Field[object]) -> bool:
    """Whether a field can name a file to read."""
    if USE in declared.metadata:
        return bool(declared.metadata[USE] != OUTPUT)
    return named_file(declared, "\0/") is not None or named_file(declared, "mixture:\0/") is not None


def _identity(value: object) -> object:
    return value


def request_from_record(kind: type[T], parameters: Mapping[str, object]) -> T:
    """The request of a record: lists are tuples again, what was left out or is newer than the record is None or its default."""
    return kind(**{each.name: as_tuples(parameters[each.name]) if each.name in parameters else absent_value(each) for each in fields(kind)})


def absent_value(declared: Field[object]) -> object:
    """What a field is where a record has nothing of it."""
    return None if declared.default is MISSING else declared.default


def as_tuples(value: object) -> object:
    """A value of a record: its lists are tuples again."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def topic_settings(kind: type[T], request: DataclassInstance, **more: object) -> T:
    """The settings of a topic from the request's fields of the same names, None where the topic's default holds; `more` goes first."""
    asked = {each.name: getattr(request, each.name, None) for each in fields(kind)}
    return kind(**{name: value for name, value in asked.items() if value is not None} | more)
