"""The registry of a run's files: every path that it reads or writes, compared before any work is done.

An output must differ from every input and every other output, whatever their names.  Existing files are compared by device and inode, so
that links and /dev/stdin are recognised; other files are compared by folder and name.  Only a file that the request declares as such may be
updated in place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from glob import escape, glob
from pathlib import Path
from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.history.request import INPUT, OUTPUT, STDOUT, UPDATED, USE, file_named_by_value
from herdcli.errors import BadUsage, CannotCreate, NoInput
from herdcli.records import dataclass

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OF_EVERY_RUN = ("output", "trace_file", "checkpoint", "lock")  # options that name outputs and are not fields of a request
ALL = "all"  # the name that stands for all pictures
NOUNS = {"--checkpoint": "the checkpoint", "--cache": "the cache"}
NAMED_ONLY = ("--trace", "--lock", "--checkpoint")  # outputs that stdout cannot take

Identity = tuple[object, ...]
STREAM: Identity = ("stdout",)  # stdout that is not a file


@dataclass(frozen=True)
class NamedFile:
    """A file of a run.  label: the option or argument that names it; use: INPUT, UPDATED or OUTPUT; stdout: whether - is stdout."""

    label: str
    path: str
    use: str
    stdout: bool = False


def register_files(command: click.Command, request: DataclassInstance, session_paths: Mapping[str, str | None]) -> list[NamedFile]:
    """Return every file that a run reads or writes.  session: the paths of options that are not fields of it;
    those of OF_EVERY_RUN are outputs."""
    labels = {param.name: _parameter_label(param) for param in command.params}
    found = [
        NamedFile(labels.get(name, name), path, OUTPUT if name in OF_EVERY_RUN else INPUT, stdout=name == "output")
        for name, path in session_paths.items()
        if path is not None
    ]
    for each in fields(request):
        use = each.metadata.get(USE, INPUT)
        value = getattr(request, each.name)
        typed = ("-",) if each.name == "sources" and not value else _option_values(value)
        paths = [path for one in typed if (path := file_named_by_value(each, one)) is not None]
        found += [NamedFile(labels.get(each.name, each.name), path, use, each.metadata.get(STDOUT, False)) for path in paths]
    return found


def refuse_conflicts(files: Sequence[NamedFile]) -> None:
    """Raise BadUsage if an output would replace an input, two outputs are the same file, or - stands where a file needs a name."""
    _require_working_directory(files)
    for each in files:
        if each.path in ("-", "") and each.label in NAMED_ONLY:
            hint = f"{each.label} FILE" + ("; ./- is a file that is called -" if each.path else "")
            raise BadUsage(f"{each.label} needs the name of a file", hint=hint)
    inputs: dict[Identity, NamedFile] = {}
    folders: dict[Identity, NamedFile] = {}
    for each in files:
        if each.use != OUTPUT:
            for path in _companion_inputs(each.path):
                place = folders if os.path.isdir(path) else inputs
                if (identity := _existing_identity(path, written=False)) is not None:
                    place.setdefault(identity, each)
    outputs: dict[Identity, NamedFile] = {}
    for each in files:
        if each.use != OUTPUT:
            continue
        for path in _companion_outputs(each):
            _refuse_overwriting_input(each, path, inputs, folders)
        if each.path == "-" and not each.stdout:
            continue  # the command refuses it
        for path in _companion_outputs(each):
            identity = _existing_identity(path, written=True, streams=True) or (STREAM if path == "-" else _missing_identity(path))
            if identity is None:
                break  # a device, or a missing folder
            if (other := outputs.setdefault(identity, each)) is each:
                continue
            hint = f"give {NOUNS.get(each.label, each.label)} a name of its own"
            by = f"twice by {each.label}" if each.label == other.label else f"by both {other.label} and {each.label}"
            raise BadUsage(f"this file is named {by}", where=_display_name(other), hint=hint)


def _require_working_directory(files: Sequence[NamedFile]) -> None:
    """Raise NoInput or CannotCreate for a relative path if the working directory was deleted."""
    try:
        os.getcwd()
    except OSError as error:
        for each in files:
            if each.path != "-" and not os.path.isabs(each.path):
                kind = CannotCreate if each.use == OUTPUT else NoInput
                hint = "go to another directory with cd, or give absolute paths"
                raise kind("the working directory does not exist any more", where=each.path, hint=hint) from error


def _refuse_overwriting_input(
    output: NamedFile, path: str, inputs: Mapping[Identity, NamedFile], folders: Mapping[Identity, NamedFile]
) -> None:
    identity = _existing_identity(path, written=True)
    if identity is None:
        return
    found = inputs.get(identity) or next((folders[parent] for parent in _parent_identities(path) if parent in folders), None)
    if found is None or (found.use == UPDATED and output.label == "-o"):
        return
    read, written = _display_name(found), _display_name(output)
    which = "this input" if read == written else f"the input {read}"
    raise BadUsage(f"{output.label} would overwrite {which}", where=written, hint=f"name another file: {output.label} FILE")


def _parameter_label(param: click.Parameter) -> str:
    """Return the name of a parameter in messages."""
    if isinstance(param, click.Option):
        return "-o" if "-o" in param.opts else max(param.opts, key=len)
    return (param.metavar or str(param.name).upper()).strip("[].")


def _option_values(value: object) -> Iterator[object]:
    """Yield a value, or the values of a repeatable option.

    Of a pair of a name and a file it yields the file, and of a pair for all pictures the existing files.
    """
    if not isinstance(value, tuple):
        yield value
        return
    for each in value:
        if not isinstance(each, tuple):
            yield each
        elif len(each) == 2 and each[0] == ALL:
            stem, suffix = os.path.splitext(str(each[1]))
            yield from glob(f"{escape(stem)}-*{escape(suffix)}") if "\0" not in stem else ()
        else:
            yield each[-1]


def _companion_inputs(path: str) -> Iterator[str]:
    """Yield the files that are read with a named one: those that match a pattern, and the file of labels next to pictures."""
    from herdcli.artifacts.formats.idx import find_label_file

    if path == "-":
        yield path
        return
    if "\0" in path:
        return
    several = [] if os.path.lexists(path) or not any(mark in path for mark in "*?[") else glob(path)
    for each in several or [path]:
        yield each
        if (beside := find_label_file(each)) is not None:
            yield beside


def _companion_outputs(output: NamedFile) -> Iterator[str]:
    """Yield the files that writing an output replaces: the output itself, and the temporary and lock files next to it."""
    from herdcli.artifacts import file_locks

    yield output.path
    if output.path != "-" and "\0" not in output.path:
        for suffix in ("herd-tmp", "herd-lock") if output.label == "--checkpoint" else ("herd-tmp",):
            yield str(file_locks.lock_path(os.path.realpath(output.path), suffix))


def _existing_identity(path: str, *, written: bool, streams: bool = False) -> Identity | None:
    """Return device and inode of an existing file or folder.  streams: whether to include pipes."""
    try:
        found = os.fstat(int(written)) if path == "-" else os.stat(path)
    except (OSError, ValueError):
        return None
    wanted = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) or (streams and stat.S_ISFIFO(found.st_mode))
    return (found.st_dev, found.st_ino) if wanted else None


def _missing_identity(path: str) -> Identity | None:
    """Return the folder and name of a file that does not exist yet; None for devices and for a missing folder."""
    if path == "-" or "\0" in path or os.path.exists(path):
        return None
    folder, name = os.path.split(os.path.realpath(path))
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino, name


def _parent_identities(path: str) -> Iterator[Identity]:
    """Yield the folders that contain a file, the nearest first."""
    if path == "-":
        return
    for folder in Path(os.path.realpath(path)).parents:
        if (identity := _existing_identity(str(folder), written=False)) is not None:
            yield identity


def _display_name(file: NamedFile) -> str:
    """Return the name of a file in messages."""
    return file.path if file.path != "-" else "stdout" if file.use == OUTPUT else "stdin"
