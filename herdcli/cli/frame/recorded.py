"""A record of a history as options: only what a record can have, each value as the command line would have taken it.

Whoever can write a file can write any history into it and seal it again.  So every value goes through the type of its option, ranges and
choices included, and a value that no command line makes is refused.  Files are those that were matched by their digests, and no others.
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
from herdcli.artifacts.roles import LABELS
from herdcli.cli.frame.request import ALLOWED, FILE, OUTPUT, USE, absent_of, as_tuples, file_in, names_files, of_record, recordable
from herdcli.cli.frame.session import COLUMN_OPTIONS
from herdcli.errors import DataError, HerdError, is_unicode

if TYPE_CHECKING:
    from dataclasses import Field

    from _typeshed import DataclassInstance

OF_SESSION = ("missing", "layer", "categorical", *COLUMN_OPTIONS)  # recorded beside a request's own options
OF_READING = {  # recorded of how an input was read, where that is not how it was read by earlier versions: the only values
    "column_roles": "declared",
    "split_rule": "rows",
}
LABEL_COLUMN = "label_column"  # the column with the usual name that labels came from, recorded where that is not y
SHOWN = 60  # characters of a value
NUMBERS = {"inf": math.inf, "-inf": -math.inf}  # as JSON holds what has no digits


class Refused(Exception):
    """A value that no command line makes; its text says what is wrong."""


def typed(
    command: click.Command, parameters: Mapping[str, object], what: str, where: str
) -> tuple[type[DataclassInstance], dict[str, object], dict[str, object]]:
    """The type of the request that a record is of, its fields as typed, and the options of the session.  Raises DataError.

    what  the stage, in words.
    """
    for name, only in OF_READING.items():
        if parameters.get(name, only) != only:
            raise DataError(f"{what} has '{name}' in its history other than as '{only}'", where=where)
    if str(parameters.get(LABEL_COLUMN, LABELS[0])).lower() not in LABELS:
        raise DataError(f"{what} has '{LABEL_COLUMN}' in its history other than as {', '.join(LABELS)}", where=where)
    parameters = {name: value for name, value in parameters.items() if name not in (*OF_READING, LABEL_COLUMN)}
    beside = {*OF_SESSION, *dialect.RECORDED}
    kind = of_record(vars(command.callback)["request"], parameters.keys() - beside)
    declared = {each.name: each for each in fields(kind)}
    params = {str(param.name): param for param in command.params}
    off: Collection[str] = getattr(kind, "not_asked", lambda parameters: ())(parameters)
    unknown = sorted(name for name in parameters if name not in declared and not (name in beside and name in params))
    if unknown:
        raise DataError(f"{what} was made with '{unknown[0]}', which this version does not know", where=where)
    found: dict[str, object] = {}
    for name, value in parameters.items():
        known = declared.get(name)
        try:
            found[name] = _checked(known, params.get(name), value, off=name in off)
        except Refused as error:
            shown = _shortened(json.dumps(value, ensure_ascii=False), SHOWN)
            raise DataError(f"{what} has '{name}' as {shown} in its history: {_shortened(str(error), 4 * SHOWN)}", where=where) from None
    dialect.revived(parameters, where=where)
    own = {name: found.pop(name) for name in OF_SESSION if name in found and name not in declared}
    return kind, {name: value for name, value in found.items() if name in declared}, own


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _checked(declared: Field[object] | None, param: click.Parameter | None, value: object, *, off: bool) -> object:
    """A recorded value as typed.  off: zero stands for an option that was not asked for."""
    if declared is not None:
        if value == FILE and names_files(declared):
            return value
        if value is None and declared.metadata.get(USE) is not None and _can_hold(declared, value):
            return None
        if not _can_hold(declared, value):
            raise Refused("no command writes that")
        if off and value in (None, 0):
            return value
        if (allowed := declared.metadata.get(ALLOWED)) is not None:
            if not allowed(value):
                raise Refused("no command writes that")
            return as_tuples(value)
    if param is None:
        raise Refused("no option is called so")
    return as_typed(param, value)


def _can_hold(declared: Field[object], value: object) -> bool:
    """Whether a record can hold the value; what a field's own function cannot read no record holds."""
    try:
        return recordable(declared, value)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False


def with_files(
    command: click.Command,
    kind: type[DataclassInstance],
    values: Mapping[str, object],
    placed: Mapping[str, object],
    what: str,
    where: str,
    folder: str,
) -> DataclassInstance:
    """The request of a record with its files: those that were `placed`, by field, and for further outputs files in a folder.

    Raises DataError where a file is named that is no input of the stage.
    """
    params = {str(param.name): param for param in command.params}
    found: dict[str, object] = {}
    for each in fields(kind):
        param, value = params.get(each.name), values.get(each.name)
        if each.metadata.get(USE) == OUTPUT:
            found[each.name] = os.path.join(folder, f"{each.name}.html") if value == FILE else () if param and param.multiple else None
        elif each.name in placed:
            found[each.name] = placed[each.name]
        elif USE in each.metadata and each.name not in values:
            found[each.name] = _unplaced(param, what, where)
        elif each.name in values:
            if value is not None and file_in(each, value) is not None:
                raise DataError(f"{what} reads a file for '{each.name}', which is not among the inputs of its history", where=where)
            found[each.name] = value
    absent = {each.name: _absent(each, params.get(each.name)) for each in fields(kind) if each.name not in found}
    return kind(**found | absent)


def _absent(declared: Field[object], param: click.Parameter | None) -> object:
    """What a field is that a record lacks, as those of earlier versions do: its own default, or that of the option."""
    if declared.default is not MISSING or param is None or USE in declared.metadata:
        return absent_of(declared)
    value = param.default
    return as_typed(param, as_json(value)) if isinstance(value, (bool, int, float, str)) else () if param.multiple else None


def _unplaced(param: click.Parameter | None, what: str, where: str) -> object:
    """What is read where a history has no input for it: nothing, or stdin, which is empty."""
    if param is None:
        return None
    if param.required:
        raise DataError(f"{what} reads '{param.name}', which is not among the inputs of its history", where=where)
    return () if param.nargs == -1 or param.multiple else param.default


def as_typed(param: click.Parameter, value: object) -> object:
    """The value of an option or argument that a record has, with lists as tuples.  Raises Refused."""
    if value is None:
        if param.default is None and not param.required:
            return None
        raise Refused("it cannot be left out")
    if param.multiple:
        return tuple(_one(param, each) for each in _list(value))
    return _one(param, value)


def _one(param: click.Parameter, value: object) -> object:
    if isinstance(param, click.Option) and param.is_flag:
        if not isinstance(value, bool):
            raise Refused("it is neither true nor false")
        return value
    if isinstance(param.type, click.Tuple):
        parts = _list(value)
        if len(parts) != len(param.type.types):
            raise Refused(f"it has {len(parts)} parts, not {len(param.type.types)}")
        return tuple(_converted(kind, part, param) for kind, part in zip(param.type.types, parts, strict=True))
    if param.nargs > 1:
        parts = _list(value)
        if len(parts) != param.nargs:
            raise Refused(f"it has {len(parts)} parts, not {param.nargs}")
        return tuple(_converted(param.type, part, param) for part in parts)
    return _converted(param.type, value, param)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise Refused("it is no list")
    return value


def _converted(kind: click.ParamType[object], value: object, param: click.Parameter) -> object:
    """A value through the type of its option: of the same type before and after, and within its range."""
    if isinstance(kind, (click.types.IntParamType,)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise Refused("it is no whole number")
        return _through(kind, value, param)
    if isinstance(kind, click.types.FloatParamType):
        number = NUMBERS.get(value, value) if isinstance(value, str) else value
        if not isinstance(number, (int, float)) or isinstance(number, bool) or number != number:
            raise Refused("it is no number")
        return _through(kind, float(number), param)
    if isinstance(kind, (click.Choice, click.types.StringParamType, click.Path)):
        value = as_word(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value  # of an earlier version
        if not isinstance(value, str) or "\0" in value or not is_unicode(value):
            raise Refused("it is no text")
        return _through(kind, value, param)
    for word in possible_words(value, kind):
        found = _through(kind, word, param, silent=True)
        if found is not None and (as_json(found) == as_json(value) or str(found) == value):
            return found
    raise Refused(f"it is not of the form {kind.name}")


def _through(kind: click.ParamType[object], value: object, param: click.Parameter, *, silent: bool = False) -> object:
    try:
        return kind.convert(value, param, None)
    except (click.ClickException, HerdError, ValueError, OverflowError) as error:
        if silent:
            return None
        raise Refused(getattr(error, "message", str(error))) from None


def possible_words(value: object, kind: click.ParamType[object]) -> Iterator[str]:
    """Ways in which a value of a type may have been typed: as it is, in parts, or as a word that the type's name lists (n|all)."""
    yield from _possible_words(value)
    yield from (word for word in kind.name.split("|") if word.isalpha() and word.islower())


def _possible_words(value: object) -> Iterator[str]:
    if not isinstance(value, list):
        yield as_word(value)
        if isinstance(value, float):
            yield f"{100 * value:g}%"
        return
    flat = [as_word(each) for each in value if not isinstance(each, list)]
    if flat:
        yield flat[0]
    yield ",".join(flat)
    yield ",".join('"{}"'.format(word.replace('"', '""')) for word in flat)
    for between in ("x", "-", ":", "/"):
        yield between.join(flat)
    yield ",".join("x".join(map(as_word, each)) if isinstance(each, list) else as_word(each) for each in value)
    yield ",".join("=".join(map(as_word, each)) if isinstance(each, list) else as_word(each) for each in value)


def as_word(value: object) -> str:
    """A single value as it is typed."""
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def as_json(value: object) -> object:
    """As a record holds it: tuples are lists."""
    return [as_json(each) for each in value] if isinstance(value, (tuple, list)) else value
