"""The conversion of a history's record to options, with each value as the command line would have parsed it.

Anyone who can write a file can write any history into it and seal it again.  So every value passes through the type of its option, with its
range and its choices, and a value that no command line makes is refused.  The only files used are those that were matched by their digests.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING

import click

from herdcli import dialect
from herdcli.artifacts.tables.column_roles import LABELS
from herdcli.cli.frame.history.request import (
    ALLOWED,
    FILE,
    OUTPUT,
    USE,
    can_name_file,
    file_named_by_value,
    is_recordable,
    lists_to_tuples,
    request_type_for_record,
    value_if_absent,
)
from herdcli.cli.frame.options.declaration import declarations, refuse_contradicting_options
from herdcli.cli.frame.run.session import COLUMN_OPTIONS
from herdcli.errors import BadUsage, DataError, HerdError, is_unicode

if TYPE_CHECKING:
    from dataclasses import Field

    from _typeshed import DataclassInstance

OF_SESSION = ("missing", "layer", "categorical", *COLUMN_OPTIONS)  # recorded in addition to a request's own options
OF_READING = {  # recorded if the input was read in another way than by earlier versions; these are the only values
    "column_roles": "declared",
    "split_rule": "rows",
}
LABEL_COLUMN = "label_column"  # the column, with a usual name, that the labels came from; recorded if it is not y
SHOWN = 60  # number of characters shown of a value
NUMBERS = {"inf": math.inf, "-inf": -math.inf}  # JSON stores these numbers as text


class UnrepresentableValue(Exception):
    """The error for a value that no command line makes; its text says why."""


def recorded_request_as_typed(
    command: click.Command, parameters: Mapping[str, object], what: str, where: str
) -> tuple[type[DataclassInstance], dict[str, object], dict[str, object]]:
    """Return the type of the request that a record belongs to, its fields as typed, and the options of the session.

    what  the stage, in words.
    Raises DataError for values and options that no command line makes.
    """
    for name, only in OF_READING.items():
        if parameters.get(name, only) != only:
            raise DataError(f"{what} has a value of '{name}' in its history that is not '{only}'", where=where)
    if str(parameters.get(LABEL_COLUMN, LABELS[0])).lower() not in LABELS:
        raise DataError(f"{what} has a value of '{LABEL_COLUMN}' in its history that is none of {', '.join(LABELS)}", where=where)
    parameters = {name: value for name, value in parameters.items() if name not in (*OF_READING, LABEL_COLUMN)}
    beside = {*OF_SESSION, *dialect.RECORDED}
    kind = request_type_for_record(vars(command.callback)["request"], parameters.keys() - beside)
    declared = {each.name: each for each in fields(kind)}
    params = {str(param.name): param for param in command.params}
    off: Collection[str] = getattr(kind, "unset_options", lambda parameters: ())(parameters)
    unknown = sorted(name for name in parameters if name not in declared and not (name in beside and name in params))
    if unknown:
        raise DataError(f"{what} was made with '{unknown[0]}', which this version does not know", where=where)
    found: dict[str, object] = {}
    for name, value in parameters.items():
        known = declared.get(name)
        try:
            found[name] = _field_value_as_typed(known, params.get(name), value, off=name in off)
        except UnrepresentableValue as error:
            shown = _shorten(json.dumps(value, ensure_ascii=False), SHOWN)
            raise DataError(f"{what} has '{name}' as {shown} in its history: {_shorten(str(error), 4 * SHOWN)}", where=where) from None
    dialect.dialect_from_history(parameters, where=where)
    own = {name: found.pop(name) for name in OF_SESSION if name in found and name not in declared}
    return kind, {name: value for name, value in found.items() if name in declared}, own


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _field_value_as_typed(declared: Field[object] | None, param: click.Parameter | None, value: object, *, off: bool) -> object:
    """Return a recorded value as typed.  off: whether zero stands for an option that was not used."""
    if declared is not None:
        if value == FILE and can_name_file(declared):
            return value
        if value is None and declared.metadata.get(USE) is not None and _can_be_recorded(declared, value):
            return None
        if not _can_be_recorded(declared, value):
            raise UnrepresentableValue("no command writes that")
        if off and value in (None, 0):
            return value
        if (allowed := declared.metadata.get(ALLOWED)) is not None:
            if not allowed(value):
                raise UnrepresentableValue("no command writes that")
            return lists_to_tuples(value)
    if param is None:
        raise UnrepresentableValue("no option is called so")
    return recorded_value_as_typed(param, value)


def _can_be_recorded(declared: Field[object], value: object) -> bool:
    """Whether a record can hold the value; False for a value that the field's own function cannot read."""
    try:
        return is_recordable(declared, value)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False


def request_with_files(
    command: click.Command,
    kind: type[DataclassInstance],
    values: Mapping[str, object],
    files_by_field: Mapping[str, object],
    what: str,
    where: str,
    folder: str,
) -> DataclassInstance:
    """Return the request of a record with its files: the `files_by_field` ones by field, and files in `folder` for further outputs.

    Raises DataError if a file is named that is not an input of the stage.
    """
    params = {str(param.name): param for param in command.params}
    found: dict[str, object] = {}
    for each in fields(kind):
        param, value = params.get(each.name), values.get(each.name)
        if each.metadata.get(USE) == OUTPUT:
            found[each.name] = os.path.join(folder, f"{each.name}.html") if value == FILE else () if param and param.multiple else None
        elif each.name in files_by_field:
            found[each.name] = files_by_field[each.name]
        elif USE in each.metadata and each.name not in values:
            found[each.name] = _value_of_missing_input(param, what, where)
        elif each.name in values:
            if value is not None and file_named_by_value(each, value) is not None:
                raise DataError(f"{what} reads a file for '{each.name}', which is not among the inputs of its history", where=where)
            found[each.name] = value
    try:
        absent = {each.name: _default_if_absent(each, params.get(each.name)) for each in fields(kind) if each.name not in found}
    except UnrepresentableValue as error:
        raise DataError(f"{what} lacks an option in its history: {error}", where=where) from None
    return kind(**found | absent)


def refuse_contradictions(request: DataclassInstance, what: str, where: str) -> None:
    """Raise DataError if options of a record contradict each other in a way that no command line allows."""
    absent = {each.name: value_if_absent(each) for each in fields(request)}
    asked = [
        (name, declaration)
        for name, declaration in declarations(type(request))
        if getattr(request, name) not in (declaration.default, absent[name])
    ]
    try:
        refuse_contradicting_options(asked, request)
    except BadUsage as error:
        raise DataError(f"{what} cannot be made again: {error.message}", where=where) from None


def _default_if_absent(declared: Field[object], param: click.Parameter | None) -> object:
    """Return the value of a field that the record of an earlier version lacks: the field's own default, or else the option's."""
    if declared.default is not MISSING or param is None or USE in declared.metadata:
        return value_if_absent(declared)
    value = param.default
    return (
        recorded_value_as_typed(param, as_recorded_value(value))
        if isinstance(value, (bool, int, float, str))
        else ()
        if param.multiple
        else None
    )


def _value_of_missing_input(param: click.Parameter | None, what: str, where: str) -> object:
    """Return the value of an input for which a history has no file: None, or the default (stdin, which is empty)."""
    if param is None:
        return None
    if param.required:
        raise DataError(f"{what} reads '{param.name}', which is not among the inputs of its history", where=where)
    return () if param.nargs == -1 or param.multiple else param.default


def recorded_value_as_typed(param: click.Parameter, value: object) -> object:
    """Return the recorded value of an option or argument as typed, with lists as tuples.  Raises UnrepresentableValue."""
    if value is None:
        if param.default is None and not param.required:
            return None
        raise UnrepresentableValue("it cannot be left out")
    if param.multiple:
        return tuple(_recorded_scalar_as_typed(param, each) for each in _as_list(value))
    return _recorded_scalar_as_typed(param, value)


def _recorded_scalar_as_typed(param: click.Parameter, value: object) -> object:
    if isinstance(param, click.Option) and param.is_flag:
        if not isinstance(value, bool):
            raise UnrepresentableValue("it is neither true nor false")
        return value
    if isinstance(param.type, click.Tuple):
        parts = _as_list(value)
        if len(parts) != len(param.type.types):
            raise UnrepresentableValue(f"it has {len(parts)} parts, not {len(param.type.types)}")
        return tuple(_convert(kind, part, param) for kind, part in zip(param.type.types, parts, strict=True))
    if param.nargs > 1:
        parts = _as_list(value)
        if len(parts) != param.nargs:
            raise UnrepresentableValue(f"it has {len(parts)} parts, not {param.nargs}")
        return tuple(_convert(param.type, part, param) for part in parts)
    return _convert(param.type, value, param)


def _as_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise UnrepresentableValue("it is not a list")
    return value


def _convert(kind: click.ParamType[object], value: object, param: click.Parameter) -> object:
    """Convert a value with the type of its option; it must already have that type and lie within its range."""
    if isinstance(kind, (click.types.IntParamType,)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise UnrepresentableValue("it is not a whole number")
        return _parse_with(kind, value, param)
    if isinstance(kind, click.types.FloatParamType):
        number = NUMBERS.get(value, value) if isinstance(value, str) else value
        if not isinstance(number, (int, float)) or isinstance(number, bool) or number != number:
            raise UnrepresentableValue("it is not a number")
        return _parse_with(kind, float(number), param)
    if isinstance(kind, (click.Choice, click.types.StringParamType, click.Path)):
        value = spell_value(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value  # of an earlier version
        if not isinstance(value, str) or "\0" in value or not is_unicode(value):
            raise UnrepresentableValue("it is not a text")
        return _parse_with(kind, value, param)
    for word in possible_spellings(value, kind):
        found = _parse_with(kind, word, param, silent=True)
        if found is not None and (as_recorded_value(found) == as_recorded_value(value) or str(found) == value):
            return found
    raise UnrepresentableValue(f"it is not of the form {kind.name}")


def _parse_with(kind: click.ParamType[object], value: object, param: click.Parameter, *, silent: bool = False) -> object:
    try:
        return kind.convert(value, param, None)
    except (click.ClickException, HerdError, ValueError, OverflowError) as error:
        if silent:
            return None
        raise UnrepresentableValue(getattr(error, "message", str(error))) from None


def possible_spellings(value: object, kind: click.ParamType[object]) -> Iterator[str]:
    """Yield ways in which a value may have been typed: directly, in parts, or as a word that the type's name lists (n|all)."""
    yield from _possible_words(value)
    yield from (word for word in kind.name.split("|") if word.isalpha() and word.islower())


def _possible_words(value: object) -> Iterator[str]:
    if not isinstance(value, list):
        yield spell_value(value)
        if isinstance(value, float):
            yield f"{100 * value:g}%"
        return
    flat = [spell_value(each) for each in value if not isinstance(each, list)]
    if flat:
        yield flat[0]
    yield ",".join(flat)
    yield ",".join('"{}"'.format(word.replace('"', '""')) for word in flat)
    for between in ("x", "-", ":", "/"):
        yield between.join(flat)
    yield ",".join("x".join(map(spell_value, each)) if isinstance(each, list) else spell_value(each) for each in value)
    yield ",".join("=".join(map(spell_value, each)) if isinstance(each, list) else spell_value(each) for each in value)


def spell_value(value: object) -> str:
    """Return the text of a single value as it is typed."""
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def as_recorded_value(value: object) -> object:
    """Return a value as a record holds it, with tuples as lists."""
    return [as_recorded_value(each) for each in value] if isinstance(value, (tuple, list)) else value
