"""Making an artifact again from its history: each stage's command with the options of its record, on inputs of the digests there.

A history names no files, so inputs are matched by their digests: those that are given, those that ship with herd, and what earlier
stages of the same history make.  Made on another kind of machine, that may have other bytes; it is then taken for the input that it
stands for, and the end is judged by a tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from herdcli import __version__, artifacts, dialect
from herdcli.artifacts import compare
from herdcli.artifacts.identity import digests
from herdcli.artifacts.preparation import SplitRule
from herdcli.cli.frame.console import Console
from herdcli.cli.frame.request import recorded, revived
from herdcli.cli.frame.session import COLUMN_OPTIONS, Session
from herdcli.errors import DataError, HerdError, NegativeResult, NoInput
from herdcli.records import dataclass
from herdcli.scratch import scratch_folder

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from herdcli.artifacts import Artifact

SOURCES = ("data", "network", "weights")  # roles of what a command's first argument names
BY_ROLE = {  # command and role -> options that may have named the input; other roles have the name of their option
    ("merge", "data"): ("data",),
    ("kernel-herd", "extended"): ("extend",),
    ("regress", "covariance"): ("gls",),
    ("fit-mrf", "structure"): ("edges", "clusters", "features"),
    ("ups-infer", "evidence"): ("evidence_rows", "evidence"),
    ("network", "model"): ("source",),
}
OF_SESSION = ("missing", "layer", "categorical", *COLUMN_OPTIONS)  # recorded beside a request's own options
OF_READING = ("column_roles", "split_rule")  # recorded of how an input was read, where that is not how it was read by earlier versions
SHOWN = 12  # digits of a digest


class OfSession(TypedDict):
    """Those options with their types."""

    missing: str | None
    layer: str | None
    categorical: str | None
    read_columns: tuple[str, ...]
    drop_columns: tuple[str, ...]
    split_column: str | None
    weights_column: str | None


@dataclass(frozen=True)
class Input:
    """An input of a stage, as the history has it."""

    role: str
    kind: str
    sha256: str

    def __str__(self) -> str:
        return f"input '{self.role}' ({self.kind}, sha256 {self.sha256[:SHOWN]})"


@dataclass(frozen=True)
class Stage:
    """One command of a history.  number  from 1."""

    number: int
    version: str
    command: str
    parameters: Mapping[str, object]
    inputs: tuple[Input, ...]

    def __str__(self) -> str:
        return f"stage {self.number} ({self.command})"


def known(paths: Iterable[str]) -> dict[str, str]:
    """Files by the digests that a history may have of them, those that ship with herd among them.  Raises NoInput, DataError."""
    from importlib.resources import as_file, files

    found: dict[str, str] = {}
    with as_file(files("herdcli.data")) as folder:
        shipped = sorted(str(path) for path in folder.glob("*.h5"))
    for path in (*shipped, *paths):
        found |= dict.fromkeys(digests(path), path)
    return found


def verdict(session: Session, path: str, given: Mapping[str, str]) -> str:
    """Make the artifact again and say how the two compare.  Raises NegativeResult where they differ, NoInput for a missing input."""
    original = artifacts.load(path, max_memory=session.max_memory)
    stages = stages_of(original)
    versions = sorted({stage.version for stage in stages} - {__version__})
    if versions:
        session.console.warn(f"{original.name}: was made by herd {' and '.join(versions)}, this is {__version__}")
    first = _first(stages, given, original.name)
    with scratch_folder() as folder:
        suffix = "parquet" if Path(path).suffix == ".parquet" else "h5"
        made: str | None = None
        for stage in stages[first:]:
            target = str(Path(folder) / f"{stage.number}.{suffix}")
            _run(session, stage, _placed(stage, given, made, original.name), target, original)
            session.console.detail(f"{stage} of {original.name} was made again")
            made = target
        again = artifacts.load(str(made), max_memory=session.max_memory)
    return _compared(original, again)


def _compared(original: Artifact, again: Artifact) -> str:
    if again.sha256 == original.sha256:
        return f"{original.name}: reproduced: same bytes"
    if again.kind != original.kind:
        raise NegativeResult(f"differs: made again it is of kind {again.kind}, not {original.kind}", where=original.name)
    largest, place = compare.largest_difference(again.value, original.value)
    allowed = compare.tolerance(original.kind)
    if largest > allowed:
        said = "in type, shape or text" if largest == float("inf") else f"by {largest:.1e}, more than {allowed:.0e}"
        raise NegativeResult(f"differs: {place} {said}", where=original.name, hint="herd info shows the history that was followed")
    if largest == 0.0:
        return f"{original.name}: reproduced: same values, other bytes"
    return f"{original.name}: reproduced within {largest:.1e} ({place}), {allowed:.0e} allowed"


def stages_of(artifact: Artifact) -> list[Stage]:
    """The history as stages.  Raises DataError where it does not say how the artifact was made."""
    if not artifact.history:
        raise DataError("holds no history that could be followed", where=artifact.name, hint="herd convert and all that learns write one")
    found = []
    for number, record in enumerate(artifact.history, 1):
        try:
            inputs = tuple(Input(str(each["role"]), str(each["kind"]), str(each["sha256"])) for each in record["inputs"])
            found.append(Stage(number, str(record["version"]), str(record["command"]), dict(record["parameters"]), inputs))
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(f"stage {number} of its history does not say how it was made", where=artifact.name) from error
    return found


def _first(stages: list[Stage], given: Mapping[str, str], where: str) -> int:
    """The index of the last stage whose inputs are all there; those after it follow.  Raises NoInput for what is missing."""
    missing = [[each for each in stage.inputs if each.sha256 not in given] for stage in stages]
    first = next((index for index in reversed(range(len(stages))) if not missing[index]), 0)
    # of every later stage one input may be what the stage before it makes
    wanted = [(stages[first], each) for each in missing[first]]
    for stage, absent in zip(stages[first + 1 :], missing[first + 1 :], strict=True):
        wanted += [(stage, each) for each in absent[1:]]
    if wanted:
        stage, each = wanted[0]
        more = f", and {len(wanted) - 1} more" if len(wanted) > 1 else ""
        raise NoInput(f"{each} of {stage} is not among the files given{more}", where=where, hint="name it: --input FILE")
    return first


def _placed(stage: Stage, given: Mapping[str, str], made: str | None, where: str) -> dict[str, str]:
    """The file of each role."""
    found = {each.role: given[each.sha256] for each in stage.inputs if each.sha256 in given}
    for each in stage.inputs:
        if each.role not in found:
            if made is None:
                raise NoInput(f"{each} of {stage} is not among the files given", where=where, hint="name it: --input FILE")
            found[each.role] = made
    return found


def _run(session: Session, stage: Stage, placed: Mapping[str, str], target: str, original: Artifact) -> None:
    """One stage, its result at `target`."""
    command = command_of(stage.command, original.name)
    request = _request(stage, vars(command.callback)["request"], placed, original.name)
    defaults = {option.name: option.default for option in command.params}
    own: OfSession = {name: _listed(stage.parameters.get(name, defaults.get(name))) for name in OF_SESSION}  # type: ignore[assignment]
    nested = Session(
        command=stage.command,
        console=Console(session.command, -1),
        request=request,
        given={name for name in OF_SESSION if name in stage.parameters},
        output=target,
        clobber=True,
        threads=session.threads,
        max_memory=None,
        checkpoint=None,
        every=None,
        resume=False,
        dry_run=False,
        shard=getattr(original.value, "place", None),
        rule=SplitRule(by_class="split_rule" not in stage.parameters),
        roles_by_name="column_roles" not in stage.parameters,
        dialect=dialect.revived(stage.parameters, where=original.name),
        **own,
    )
    try:
        with nested:
            vars(command.callback)["__wrapped__"](nested, request)
    except HerdError as error:
        error.message = f"{stage} cannot be made again: {error.message}"
        raise
    if not Path(target).exists():
        raise DataError(f"{stage} writes no artifact", where=original.name)


def _listed(value: object) -> object:
    """A recorded value; a list as the tuple that it was."""
    return tuple(value) if isinstance(value, list) else value


def command_of(name: str, where: str) -> click.Command:
    """A command; its callback has the request's type and the function that is called with one, see `options.stage`."""
    from herdcli.cli.main import COMMANDS

    if name not in COMMANDS:
        raise DataError(f"was made by the command '{name}', which this version does not have", where=where)
    found: click.Command = import_module(COMMANDS[name][0]).command
    return found


def _request(stage: Stage, kind: type[DataclassInstance], placed: Mapping[str, str], where: str) -> DataclassInstance:
    """What was asked of the stage, with its files in the places of those it had."""
    names = {each.name for each in fields(kind)}
    unknown = sorted(set(stage.parameters) - names - {*OF_SESSION, *OF_READING, *dialect.RECORDED})
    if unknown:
        raise DataError(f"{stage} was made with '{unknown[0]}', which this version does not know", where=where)
    numbers = {"inf": float("inf"), "-inf": -float("inf"), "nan": float("nan")}
    parameters = {
        name: numbers.get(value, value) if isinstance(value, str) else value for name, value in stage.parameters.items() if name in names
    }
    found = _as_it_was(kind, parameters)
    several = [placed[role] for role in placed if role.startswith("model ")]
    changes: dict[str, object] = {"models": tuple(several)} if several and "models" in names else {}
    for role, path in placed.items():
        if role.startswith("model ") and several:
            continue
        field = field_of(stage, role, names, where)
        recorded = stage.parameters.get(field)
        kept = isinstance(recorded, str) and recorded != "file" and field == "target"  # target: its form, then a file
        changes[field] = f"{recorded}:{path}" if kept else path
    return replace(found, **changes)


def _as_it_was(kind: type[DataclassInstance], parameters: Mapping[str, object]) -> DataclassInstance:
    """The request of a record; where `resolved` has made it one of another type, which records other names, of that."""
    made = [revived(each, parameters) for each in (kind, *kind.__subclasses__())]
    return next((found for found in made if recorded(found).keys() == parameters.keys()), made[0])


def field_of(stage: Stage, role: str, names: set[str], where: str) -> str:
    """The option, or the argument, that named the input of a role."""
    tried = BY_ROLE.get((stage.command, role)) or (("source", role) if role in SOURCES else (role,))
    options = [name for name in tried if name in names]
    said = [name for name in options if stage.parameters.get(name) is not None]
    if not options:
        raise DataError(f"{stage} had an input '{role}', for which this version has no place", where=where)
    return (said or options)[0]
