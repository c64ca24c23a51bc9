"""A request: the options that a user gave to a command, as one frozen dataclass with typed fields, parsed once and recorded.

    @dataclass(frozen=True, kw_only=True)
    class Request:
        source: str = input_file_field()
        hidden: int
        below: str | None = field_recorded_as_file()

The fields have the names of the command's options.  The method `resolve_options`, if a request has one, returns it with the defaults that
depend
on other options filled in; nothing changes it later.  The history holds `recorded_options(request)`, and a shard is finished with the
result of `request_from_record`.
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

D = TypeVar("D")  # the type of a field
USE, INPUT, UPDATED, OUTPUT = "use", "input", "updated", "output"  # how a run uses the file that a field names
STDOUT = "stdout"  # metadata key: whether - as the name of an output is stdout
FILE = "file"  # stands for a file in a record
# Metadata keys: of a field that only some records have, and of the allowed values of a field that is not an option.
SOMETIMES, ALLOWED = "sometimes", "allowed"
_LEFT_OUT = object()


def _always_false(value: object) -> object:
    return _LEFT_OUT


def unrecorded_field() -> Any:
    """Return a field that is not recorded, such as the paths of inputs and outputs, since it cannot change a result."""
    return field(metadata={"record": _always_false})


def input_file_field() -> Any:
    """Return a field that names an input file; it is not recorded because the record has the digest of the file's content."""
    return field(metadata={"record": _always_false, USE: INPUT})


def output_file_field(to_record: Callable[[D], object] = _always_false, *, stdout: bool = False) -> Any:
    """Return a field that names a further output file; it is not recorded, or only as the value that `to_record` returns.

    stdout  whether - is stdout; else the command refuses it.
    """
    return field(metadata={"record": to_record, USE: OUTPUT, STDOUT: stdout})


def derived_field(default: D) -> D:
    """Return a field that is neither an option nor recorded: a value that `resolve_options` computes."""
    return field(default=default, metadata={"record": _always_false})


def record_as_file(value: object) -> str | None:
    """Return `file` as the record of a file, since its content is among the inputs."""
    return None if value is None else FILE


def field_recorded_as_file(*, updated: bool = False) -> Any:
    """Return a field that names a file to read and is recorded as `file`.  updated: the result may go to the same file."""
    return field(metadata={"record": record_as_file, USE: UPDATED if updated else INPUT})


def field_recorded_as(to_record: Callable[[D], object]) -> Any:
    """Return a field that is recorded as the value that `to_record` returns."""
    return field(metadata={"record": to_record})


def field_recorded_if_given(allowed: Callable[[object], bool] | None = None) -> Any:
    """Return a field that is recorded only if it is not None, for options that few runs use.

    allowed  for a field that is not an option: tells whether a record can have a value.
    """
    shown: dict[str, object] = {"record": lambda value: _LEFT_OUT if value is None else value, SOMETIMES: True}
    return field(default=None, metadata=shown if allowed is None else shown | {ALLOWED: allowed})


def field_recorded_if_changed(
    default: D, to_record: Callable[[D], object] = lambda value: value, allowed: Callable[[object], bool] | None = None
) -> D:
    """Return a field that is recorded only if it is not the default, for options of one model among several.

    allowed  as in `field_recorded_if_given`.
    """
    marks: dict[str, object] = {"record": lambda value: _LEFT_OUT if value == default else to_record(value), SOMETIMES: True}
    return field(default=default, metadata=marks if allowed is None else marks | {ALLOWED: allowed})


def recorded_options(request: DataclassInstance) -> dict[str, object]:
    """Return the options by name as the history records them: those that can change the result."""
    found: dict[str, object] = {}
    for each in fields(request):
        value = getattr(request, each.name)
        shown = each.metadata.get("record", _identity)(value)
        if shown is not _LEFT_OUT:
            found[each.name] = shown
    return found


def request_type_for_record(kind: type[T], names: Collection[str]) -> type[T]:
    """Return the type of request whose record has these names: `kind`, or a subclass of it that `resolve_options` may return."""
    kinds = [kind, *kind.__subclasses__()]
    for each in kinds:
        always, sometimes = _recorded_names(each)
        if always <= set(names) <= always | sometimes:
            return each
    return next((each for each in kinds if set(names) <= recordable_names(each)), kind)  # a record of an earlier version


def recordable_names(kind: type[DataclassInstance]) -> set[str]:
    """Return the fields that a record can have."""
    always, sometimes = _recorded_names(kind)
    return always | sometimes


def _recorded_names(kind: type[DataclassInstance]) -> tuple[set[str], set[str]]:
    """Return the fields that every record has, and the fields that some records have."""
    shown = [each for each in fields(kind) if each.metadata.get("record") is not _always_false]
    return {each.name for each in shown if SOMETIMES not in each.metadata}, {each.name for each in shown if SOMETIMES in each.metadata}


def is_recordable(declared: Field[object], value: object) -> bool:
    """Whether a record can hold this value of a field."""
    shown = declared.metadata.get("record", _identity)
    return shown is not _always_false and (
        value == value_if_absent(declared) or bool(shown(value) == value) or ALLOWED in declared.metadata
    )


def file_named_by_value(declared: Field[object], value: object) -> str | None:
    """Return the file that the value of a field names: the whole value, or the part after the name of a form, as in mixture:FILE."""
    if not isinstance(value, str):
        return None
    if declared.metadata.get(USE) is not None:
        return value
    shown = declared.metadata.get("record", _identity)(value)
    if shown == FILE:
        return value
    form = f"{shown}:"
    return value[len(form) :] if isinstance(shown, str) and value.startswith(form) else None


def can_name_file(declared: Field[object]) -> bool:
    """Whether a field can name a file to read."""
    if USE in declared.metadata:
        return bool(declared.metadata[USE] != OUTPUT)
    return file_named_by_value(declared, "\0/") is not None or file_named_by_value(declared, "mixture:\0/") is not None


def _identity(value: object) -> object:
    return value


def request_from_record(kind: type[T], parameters: Mapping[str, object]) -> T:
    """Return the request of a record: lists become tuples, and a field that the record lacks is None or its default."""
    return kind(
        **{each.name: lists_to_tuples(parameters[each.name]) if each.name in parameters else value_if_absent(each) for each in fields(kind)}
    )


def value_if_absent(declared: Field[object]) -> object:
    """Return the value of a field that a record lacks."""
    return None if declared.default is MISSING else declared.default


def lists_to_tuples(value: object) -> object:
    """Return a value of a record with its lists as tuples."""
    return tuple(map(lists_to_tuples, value)) if isinstance(value, list) else value


def settings_from_request(kind: type[T], request: DataclassInstance, **more: object) -> T:
    """Return a topic's settings from the request's fields with the same names; None keeps the default, and `more` takes precedence."""
    asked = {each.name: getattr(request, each.name, None) for each in fields(kind)}
    return kind(**{name: value for name, value in asked.items() if value is not None} | more)
