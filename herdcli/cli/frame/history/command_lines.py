"""Command lines that make an artifact again, reconstructed from its history: the shortest ones that leave the same record.

A history names no files.  An input is written as the placeholder KIND-DIGEST, with the first digits of its digest.  The output of one
stage, which the next stage reads, is step-N.h5.  Each line is parsed as the command itself would parse it, and is shown only if its record
equals the one in the history.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import fields
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import click

from herdcli.artifacts.sealed import provenance
from herdcli.cli.frame.history.history_stages import SHOWN, Stage, find_command, history_stages, role_field
from herdcli.cli.frame.history.recorded_options import OF_READING, as_recorded_value, possible_spellings, spell_value
from herdcli.cli.frame.options.common_options import parse_options
from herdcli.errors import HerdError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact


def command_lines(artifact: Artifact) -> list[str]:
    """Return a command line for each stage, the last one with the artifact's name as output; [] if one of them cannot be reconstructed."""
    try:
        stages = history_stages(artifact)
        return [_command_line(stages, index, artifact) for index in range(len(stages))]
    except (HerdError, click.ClickException, _NotExpressible):
        return []


class _NotExpressible(Exception):
    """The error for a stage that cannot be written as a command line."""


def _command_line(stages: list[Stage], index: int, artifact: Artifact) -> str:
    stage = stages[index]
    command = find_command(stage.command, artifact.name)
    placed = _files_by_role(stages, index)
    fixed, free = _parameter_words(command, stage, placed, artifact)
    typed = {name: text for name, text in free if text is not None}
    if _record_of_command_line(command, stage, fixed, typed) != stage.parameters:
        raise _NotExpressible
    # Leave out options that the record does not need.  Pairs of options are tried as well, since the default of one may depend on
    # whether the other was typed.
    for names in (*((name,) for name in typed), *combinations(list(typed), 2)):
        fewer = {name: text for name, text in typed.items() if name not in names}
        if len(fewer) < len(typed) and _record_of_command_line(command, stage, fixed, fewer) == stage.parameters:
            typed = fewer
    last = index == len(stages) - 1
    out = Path(artifact.name).name if last and artifact.name != "stdin" else f"step-{stage.number}.h5"
    out = f"./{out}" if out.startswith("-") else out
    words = ["herd", stage.command, *fixed[0], *(word for words in typed.values() for word in words), *fixed[1], "-o", out]
    return shlex.join(words)


def _files_by_role(stages: list[Stage], index: int) -> dict[str, str]:
    """Return the file of each role: a placeholder, or the output of the stage before for the first input that is not known yet."""
    stage, before = stages[index], {each.sha256 for earlier in stages[:index] for each in earlier.inputs}
    names = {each.role: input_placeholder(each.kind, each.sha256) for each in stage.inputs}
    new = [each.role for each in stage.inputs if each.sha256 not in before]
    if index and not new:
        raise _NotExpressible
    return names | ({new[0]: f"step-{stages[index - 1].number}.h5"} if index else {})


def input_placeholder(kind: str, sha256: str) -> str:
    """Return the placeholder of an input."""
    return f"{kind.upper()}-{sha256[:SHOWN]}"


def with_file_names(lines: list[str], artifacts: Iterable[Artifact]) -> list[str]:
    """Return command lines with the names of files that were read in place of their placeholders."""
    for artifact in artifacts:
        name = f"./{artifact.name}" if artifact.name.startswith("-") else artifact.name
        if name != "stdin":
            lines = [line.replace(input_placeholder(artifact.kind, artifact.sha256), shlex.quote(name)) for line in lines]
    return lines


FixedWords = tuple[list[str], list[str]]  # arguments before the options; options that name files, after them


def _parameter_words(
    command: click.Command, stage: Stage, files_by_role: Mapping[str, str], artifact: Artifact
) -> tuple[FixedWords, list[tuple[str, list[str] | None]]]:
    """Return the words that name files, and the candidate words for every other recorded parameter."""
    kind = vars(command.callback)["request"]
    names = {each.name for each in fields(kind)}
    by_name = {param.name: param for param in command.params}
    first: list[str] = []
    files: list[str] = []
    with_files: set[str] = set()
    for role, path in files_by_role.items():
        field = "models" if role.startswith("model ") and "models" in names else role_field(stage, role, names, artifact.name)
        param = by_name.get(field)
        with_files.add(field)
        if isinstance(param, click.Argument):
            first.append(path)
        elif isinstance(param, click.Option):
            recorded = stage.parameters.get(field)
            form = f"{recorded}:" if field == "target" and isinstance(recorded, str) and recorded != "file" else ""
            files += [_long_option(param), form + path]
        elif isinstance(by_name.get("sources"), click.Argument) and field in ("models", "source", "data"):
            first.append(path)
        else:
            raise _NotExpressible
    free = [
        (name, _option_words(by_name[name], value))
        for name, value in stage.parameters.items()
        if name in by_name and name not in with_files
    ]
    place = getattr(artifact.value, "place", None)
    if place is not None:
        files += ["--shard", str(place)]
    arguments = [words for name, words in free if words and isinstance(by_name[name], click.Argument)]
    return ([*(word for words in arguments for word in words), *first], files), [
        (name, words) for name, words in free if not isinstance(by_name[name], click.Argument)
    ]


def _long_option(option: click.Parameter) -> str:
    return max((text for text in option.opts), key=len)


def _option_words(param: click.Parameter, value: object) -> list[str] | None:
    """Return the words that stand for a recorded value; None if the value means that the option is absent."""
    if value is None or value == [] or value == "file":
        return None
    if isinstance(param, click.Argument):
        return [str(value)]
    if isinstance(value, bool):
        text = _long_option(param) if value else next(iter(param.secondary_opts), None)
        return [text] if text else None
    if param.multiple:
        values = value if isinstance(value, list) else [value]
        return [
            word
            for each in values
            for word in (_long_option(param), *(map(spell_value, each) if isinstance(each, list) else (spell_value(each),)))
        ]
    if param.nargs > 1 and isinstance(value, list):
        return [_long_option(param), *map(spell_value, value)]
    return next(
        (
            [_long_option(param), text]
            for text in possible_spellings(value, param.type)
            if _parse_word(param, text) == as_recorded_value(value)
        ),
        None,
    )


def _parse_word(param: click.Parameter, text: str) -> object:
    try:
        return as_recorded_value(param.type.convert(text, param, None))
    except (click.ClickException, ValueError, HerdError):
        return None


def _record_of_command_line(
    command: click.Command, stage: Stage, fixed: FixedWords, typed: Mapping[str, list[str]]
) -> Mapping[str, object] | None:
    """Return the parameters that the history would record for a command line; None if the command line would be refused."""
    words = [*fixed[0], *(word for each in typed.values() for word in each), *fixed[1]]
    try:
        with command.make_context(stage.command, words) as context:
            session, _ = parse_options(context, vars(command.callback)["request"], dict(context.params))
            session.inputs.clear()
            read = {name: stage.parameters[name] for name in OF_READING if name in stage.parameters}  # these come from the inputs
            return dict(provenance.make_history_record(stage.command, session.record()["parameters"], {})["parameters"]) | read
    except (HerdError, click.ClickException, OSError):
        return None
