"""`load` and `save`: the two doors between files and values that every command uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from herdcli.artifacts import guard, hdf5, memory, people, seal
from herdcli.artifacts.dataset import Dataset, validate
from herdcli.artifacts.inputs import Source, open_source
from herdcli.artifacts.kinds import CHECKPOINT, kind_of
from herdcli.artifacts.streams import publish
from herdcli.errors import DataError

Note = Callable[[str], None]


@dataclass(frozen=True)
class Artifact:
    """What was read: the value, the records of the commands that made it, and the identity of its bytes.

    sha256  the seal's digest, or that of the (uncompressed) bytes of an unsealed file.
    """

    kind: str
    value: Any
    history: list[dict[str, Any]]
    sha256: str
    name: str
    size: int
    sealed: bool


@dataclass(frozen=True)
class Written:
    """What was written: the artifact's kind and its size in bytes."""

    kind: str
    size: int


def load(
    path: str,
    *,
    kinds: Collection[str] | None = None,
    input_format: str | None = None,
    max_memory: int | None = None,
    note: Note | None = None,
    label: str | None = None,
) -> Artifact:
    """Read an artifact or a data set of any known format; "-" is stdin.

    kinds       the kinds the caller can use; others are refused.
    max_memory  bytes the input may declare; default half of what is available.
    note        called with one line for what was ignored or assumed.
    label       column or dataset that holds the labels.
    Raises NoInput (66), DataError (65), BadUsage (2).
    """
    limit = memory.default_limit() if max_memory is None else max_memory
    with open_source(path, limit=limit) as source:
        artifact = _read(source, limit, note or (lambda line: None), label)
    if kinds is not None and artifact.kind not in kinds:
        wanted = " or ".join(sorted(kinds))
        raise DataError(f"is a {artifact.kind} artifact, expected {wanted}", where=artifact.name)
    if isinstance(artifact.value, Dataset):
        validate(artifact.value, where=artifact.name)
    return artifact


def _read(source: Source, limit: int, note: Note, label: str | None) -> Artifact:
    stated = seal.parse(source.head, where=source.name)
    if stated is None:
        with source.file() as path, guard.opened(path, where=source.name) as file:
            value = people.read(file, source.name, limit=limit, note=note, label=label)
        return Artifact("dataset", value, [], source.sha256, source.name, source.size, False)
    with source.file() as path:
        seal.verify(stated, source.size, source.sha256, where=source.name)
        if stated.kind == CHECKPOINT:
            raise DataError(
                "is a checkpoint", where=source.name, hint="pass it with --checkpoint FILE --resume to the command that wrote it"
            )
        with guard.opened(path, where=source.name) as file:
            value, history = hdf5.read(file, stated.kind, limit=limit, where=source.name)
    return Artifact(stated.kind, value, history, stated.sha256, source.name, source.size, True)


def save(path: str, value: Any, history: list[dict[str, Any]], *, format: str | None = None, clobber: bool = True) -> Written:
    """Write a value as an artifact; "-" is stdout.  The format follows the suffix, else HDF5."""
    kind = kind_of(value)
    with publish(path, clobber=clobber) as temporary:
        hdf5.write(temporary, kind.name, kind.version, value, history)
        size = os.stat(temporary).st_size
    return Written(kind.name, size)
