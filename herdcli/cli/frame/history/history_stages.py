"""The history of an artifact as stages, and the request that each stage made of its command.

A history names no files: inputs have roles, kinds and digests.  Everything in it is checked before it is used, see `recorded_options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.history import recorded_options
from herdcli.cli.frame.history.request import FILE, can_name_file
from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from herdcli.artifacts import Artifact

SOURCES = ("data", "network", "weights")  # roles of the input that a command's first argument names
BY_ROLE = {  # command and role -> options that may have named the input; any other role has the name of its option
    ("merge", "data"): ("data",),
    ("kernel-herd", "extended"): ("extend",),
    ("kernel-herd", "step"): ("rates",),
    ("regress", "covariance"): ("gls",),
    ("fit-mrf", "structure"): ("edges", "clusters", "features"),
    ("ups-infer", "evidence"): ("evidence_rows", "evidence"),
    ("network", "model"): ("source",),
}
SHOWN = 12  # number of digits of a digest


@dataclass(frozen=True)
class StageInput:
    """An input of a stage, as recorded in the history."""

    role: str
    kind: str
    sha256: str

    def __str__(self) -> str:
        return f"input '{self.role}' ({self.kind}, sha256 {self.sha256[:SHOWN]})"


@dataclass(frozen=True)
class Stage:
    """One command of a history.  number: counted from 1."""

    number: int
    version: str
    command: str
    parameters: Mapping[str, object]
    inputs: tuple[StageInput, ...]

    def __str__(self) -> str:
        return f"stage {self.number} ({self.command})"


def history_stages(artifact: Artifact) -> list[Stage]:
    """Return the history as stages.  Raises DataError if it does not say how the artifact was made."""
    if not artifact.history:
        raise DataError(
            "has no history of the commands that made it, so it cannot be made again",
            where=artifact.name,
            hint="use a file that herd wrote as .h5 or .parquet: text files have no history",
        )
    found = []
    for number, record in enumerate(artifact.history, 1):
        try:
            inputs = tuple(StageInput(str(each["role"]), str(each["kind"]), str(each["sha256"])) for each in record["inputs"])
            found.append(Stage(number, str(record["version"]), str(record["command"]), dict(record["parameters"]), inputs))
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(f"the history does not say how stage {number} was made", where=artifact.name) from error
    return found


def find_command(name: str, where: str) -> click.Command:
    """Return a command; its callback holds the type of its request and the function to call with one, see
    `common_options.command_with_request`."""
    from herdcli.cli.main import COMMANDS

    if name not in COMMANDS:
        raise DataError(f"was made by the command '{name}', which this version does not have", where=where)
    found: click.Command = import_module(COMMANDS[name][0]).command
    if "request" not in vars(found.callback):
        raise DataError(f"was made by the command '{name}', which writes no artifact", where=where)
    return found


def stage_request(
    stage: Stage, files_by_role: Mapping[str, str], where: str, folder: str
) -> tuple[click.Command, DataclassInstance, dict[str, object]]:
    """Return the command of a stage, its request, and the options of its session.

    files_by_role  the file of each role.
    folder  the folder for further outputs.
    Raises DataError for a request that no command line can make.
    """
    command = find_command(stage.command, where)
    kind, values, own = recorded_options.recorded_request_as_typed(command, stage.parameters, str(stage), where)
    files = file_fields(stage, kind, values, files_by_role, where)
    request = recorded_options.request_with_files(command, kind, values, files, str(stage), where, folder)
    recorded_options.refuse_contradictions(request, str(stage), where)
    return command, request, own


def file_fields(
    stage: Stage, kind: type[DataclassInstance], values: Mapping[str, object], files_by_role: Mapping[str, str], where: str
) -> dict[str, object]:
    """Return the files of a stage's roles by the fields of its request.  Raises DataError for a role without a field."""
    names = {each.name for each in fields(kind) if can_name_file(each)}
    found: dict[str, object] = {}
    for several, start in (("models", "model "), ("sources", "artifact ")):
        roles = [role for role in files_by_role if role.startswith(start)]
        if several in names and roles:
            found[several] = tuple(files_by_role[role] for role in roles)
    for role, path in files_by_role.items():
        if any(several in found and role.startswith(start) for several, start in (("models", "model "), ("sources", "artifact "))):
            continue
        field = role_field(stage, role, names, where)
        form = values.get(field)
        kept = isinstance(form, str) and form != FILE and field == "target"  # a target is recorded as its form and then a file
        found[field] = f"{form}:{path}" if kept else (path,) if field == "sources" else path
    return found


def role_field(stage: Stage, role: str, names: set[str], where: str) -> str:
    """Return the option or argument that named the input of a role."""
    tried = BY_ROLE.get((stage.command, role)) or (("source", role) if role in SOURCES else (role,))
    options = [name for name in tried if name in names]
    said = [name for name in options if stage.parameters.get(name) is not None]
    if not options:
        raise DataError(f"{stage} had an input '{role}', which this version does not know", where=where)
    return (said or options)[0]
