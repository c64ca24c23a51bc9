"""Checkpoints: a sealed `State`, which only its own run can resume."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from herdcli import schema
from herdcli.artifacts import hdf5_guard, memory_budget
from herdcli.artifacts.atomic_output import atomic_file, check_destination
from herdcli.artifacts.byte_sources import open_source
from herdcli.artifacts.sealed import codec, seal_header, sealed_hdf5
from herdcli.errors import BadUsage, CannotCreate, DataError
from herdcli.kinds import CHECKPOINT
from herdcli.records import dataclass

if TYPE_CHECKING:
    import h5py

State = TypeVar("State")
VERSION = 1
DEALT = "dealt"  # in place of a shard: the state of units that workers compute
STAGE = "stage:"  # prefix, in place of a shard, for an algorithm that follows others in the same run


class CheckpointOfOtherStage(BadUsage):
    """The checkpoint belongs to this run, but to another of its successive algorithms."""


def check_checkpoint(path: str) -> None:
    """Raise the errors that `save_checkpoint` would raise later: for use before the work.  Raises CannotCreate (73)."""
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        raise CannotCreate("is not a regular file, so it cannot hold a checkpoint", where=path, hint="give a file name: --checkpoint FILE")
    check_destination(path)
    _refuse_non_checkpoint(path)


def save_checkpoint(path: str, state: Any, digest: str) -> None:
    """Save a state atomically.  digest: of the configuration, `provenance.record_digest(record)`."""
    _refuse_non_checkpoint(path)
    with atomic_file(path) as temporary:
        sealed_hdf5.write_sealed(temporary, CHECKPOINT, VERSION, state, [], configuration=digest)


@dataclass(frozen=True)
class ExtendedRun(Generic[State]):
    """The means to recognise and continue a state of the same run with fewer steps.

    They are the digest of the shorter run, and the conversion of its state to this one.
    """

    digest: Callable[[State], str]
    grown: Callable[[State], State]


def load_checkpoint(
    path: str,
    state_type: type[State],
    digest: str,
    *,
    template: Callable[[], State] | None = None,
    extended_run: ExtendedRun[State] | None = None,
) -> State | None:
    """Return the state saved at `path`, or None if there is no file.

    template    makes a state of the same run; the loaded state must have its types and shapes.
    extended_run  accepts states of a shorter run.

    Raises BadUsage (2) if it was saved under another configuration, DataError (65) if it is damaged
    or no checkpoint, CheckpointOfOtherStage if it belongs to another stage of this run.
    """
    if not os.path.exists(path):
        return None
    with open_source(path, limit=0) as source:
        stated = seal_header.parse_seal(source.head, where=path)
        if stated is None or stated.kind != CHECKPOINT:
            what = "not a checkpoint" if stated is None else f"a {stated.kind} artifact, not a checkpoint"
            raise DataError(f"is {what}", where=path, hint="give the file that the run wrote with --checkpoint")
        with source.file_path() as name:
            seal_header.verify_seal(stated, source.size, source.sha256, where=path)
            with hdf5_guard.open_guarded(name, where=path) as file:
                attributes = sealed_hdf5.read_root_attributes(file, CHECKPOINT, where=path)
                if int(attributes["kind-version"]) > VERSION:
                    raise DataError(
                        "the checkpoint was saved by a newer herd",
                        where=path,
                        hint="continue with the version of herd that started the run",
                    )
                saved = str(attributes.get("configuration"))
                if extended_run is None:
                    _refuse_other_configuration(saved, digest, path)
                hdf5_guard.check_readable(hdf5_guard.walk_datasets(file, where=path), limit=memory_budget.available_memory(), where=path)
                state: State = _read_state(file, state_type, path, saved, digest)
        schema.check_arrays(state, where=path)
        if extended_run is not None and saved != digest:
            _refuse_other_configuration(saved, extended_run.digest(state), path)
            state = extended_run.grown(state)
        if template is not None:
            schema.check_same_shapes(state, template(), where=path)
        return state


def _read_state(file: h5py.File, state_type: type[State], path: str, saved: str, digest: str) -> State:
    """Read the state; a state of another type belongs to a run with other options if the digests differ."""
    try:
        state: State = codec.read_fields(file, state_type, where=path)
    except DataError:
        _refuse_other_configuration(saved, digest, path)
        raise
    return state


def _refuse_other_configuration(saved: str, expected: str, path: str) -> None:
    """Raise BadUsage unless two configurations (a digest and perhaps a shard) are equal."""
    run, _, shard = saved.partition(" ")
    wanted_run, _, wanted_shard = expected.partition(" ")
    if run != wanted_run:
        hint = "use the options and inputs of the original run, or start again without --resume"
        raise BadUsage("the checkpoint belongs to a run with other options or inputs", where=path, hint=hint)
    if shard != wanted_shard and any(each.startswith(STAGE) for each in (shard, wanted_shard)):
        raise CheckpointOfOtherStage("the checkpoint belongs to another stage of this run", where=path)
    if DEALT in (shard, wanted_shard) and shard != wanted_shard:
        saved_by, this_is = ("a run with --cluster", "a run without it") if shard == DEALT else ("a run without --cluster", "a run with it")
        raise BadUsage(
            f"the checkpoint belongs to {saved_by}, but this is {this_is}",
            where=path,
            hint="continue with the command that began the run, or start again without --resume",
        )
    if shard != wanted_shard:
        is_of, this_is = (f"--shard {name}" if name else "a run without --shard" for name in (shard, wanted_shard))
        hint = "give each shard its own checkpoint, for example --checkpoint run-2.state with --shard 2/4"
        raise BadUsage(f"the checkpoint belongs to {is_of}, but this is {this_is}", where=path, hint=hint)


def remove_checkpoint(path: str) -> None:
    """Remove a checkpoint once its run has succeeded; no error if it is gone."""
    _refuse_non_checkpoint(path)
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _refuse_non_checkpoint(path: str) -> None:
    """Refuse to overwrite or remove a file that is not a checkpoint."""
    try:
        with open(path, "rb") as file:
            head = file.read(seal_header.BLOCK)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotCreate(f"cannot be used for checkpoints ({error.strerror})", where=path) from error
    if head and not head.startswith(f"herd-artifact 1 kind={CHECKPOINT} ".encode()):
        raise CannotCreate("is an existing file that is not a checkpoint", where=path, hint="give another file name to --checkpoint")
