"""`--cluster WHERE`: the units of a command are distributed to workers, each of which runs the command with --shard.

This module has the parts that depend on commands.  It repacks the typed command line, without the options that concern only this process
and with its files.  It also checks the shards that the workers return.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import TYPE_CHECKING

import click

from herdcli import artifacts
from herdcli.artifacts.atomic_output import scratch_file
from herdcli.artifacts.sealed import checkpoints, provenance
from herdcli.cli.frame.history.request import OUTPUT, USE, recordable_names, recorded_options
from herdcli.cli.frame.options.declaration import OUTPUT as OUTPUT_GROUP
from herdcli.cluster import distributed_rounds
from herdcli.cluster.packed_commands import PackedCommand
from herdcli.cluster.scheduling import ShardScheduling, choose_shard_count
from herdcli.cluster.startup import WorkerSize
from herdcli.cluster.worker_pool import WorkerPool, start_worker_pool
from herdcli.errors import DataError
from herdcli.shards import Shard, join_shards

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.cluster.cluster_spec import ClusterOptions
    from herdcli.numerics.block_statistics import BlockSource

PROGRAM = "herdcli.cli.main:cli"
HERE = {
    *("cluster", "cluster_options", "retries", "mixed", "shard", "checkpoint", "every", "resume", "dry_run", "trace_file"),
    *("output", "no_clobber", "safe_csv", "lock", "options_file", "quiet", "verbose", "debug", "threads"),
}


def run_on_workers(session: Session, options: ClusterOptions, count: int, what: str) -> list[object]:
    """Return the results of all units in their order, computed by workers."""
    threads = threads_per_worker(session, options)
    words = pack_command_for_workers(session, threads)
    with _start_workers(session, options, WorkerSize(threads, session.max_memory)) as farm:
        words.make_files_available(farm)
        dealing = ShardScheduling(choose_shard_count(count, len(farm.workers())), farm, PROGRAM, words, options.retries)
        made = session.run(dealing, label=what, part=checkpoints.DEALT)
    session.told = list(dict.fromkeys(dealing.warned))
    parts: list[object] = join_shards(
        [_open_shard(session, content, number, len(made), count) for number, content in enumerate(made)]
    ).parts
    return parts


def distribute_blocks(session: Session, options: ClusterOptions, source: BlockSource, *, passing: bool) -> BlockSource:
    """Return the blocks of a source, kept by workers until the command ends."""
    size = WorkerSize(threads_per_worker(session, options), session.max_memory)
    return distributed_rounds.distribute_blocks(
        source, session.enter_until_command_ends(_start_workers(session, options, size)), options.retries, transient=passing
    )


def _start_workers(session: Session, options: ClusterOptions, size: WorkerSize) -> AbstractContextManager[WorkerPool]:
    console = session.console
    return start_worker_pool(options, size, report=console.note, warn=console.warn, exact=session.exact)


def threads_per_worker(session: Session, options: ClusterOptions) -> int:
    """Return the threads of one worker: those of -j, else this machine's cores divided among local workers, or one."""
    if "threads" in session.given:
        return session.threads
    return max(1, session.threads // (options.where.count or 1)) if options.where.kind == "local" else 1


def pack_command_for_workers(session: Session, threads: int) -> PackedCommand:
    """Return the typed command line for workers that compute with `threads` threads each, without the options that only this process needs.

    Workers return a shard, so they need no option for outputs that a record cannot have: other files, pictures, formats.
    """
    context = click.get_current_context()
    command, shown = context.command, recorded_options(session.request)
    outputs = _output_option_names(command, session)
    values, _, _ = command.make_parser(context).parse_args(args=list(context.meta["herd.typed"]))
    found = PackedCommand([session.command])
    for param in command.params:
        name = str(param.name)
        value = values.get(name)
        if isinstance(param, click.Argument) and not isinstance(value, (str, list, tuple)):
            value = context.params[name]  # the argument was not typed
        if value is None or name in HERE or name in outputs:
            continue
        of_place = hasattr(session.request, name) and shown.get(name) != value and not isinstance(param.type, click.Choice)
        for each in _spell_option(param, value):
            if of_place:
                found.add(each, session.spooled)
            else:
                found.words.append(each)
    if any(param.name == "threads" for param in command.params):
        found.words += ["--threads", str(threads)]
    return found


def _output_option_names(command: click.Command, session: Session) -> set[str]:
    """Return the options of a request for outputs, except those that a record can have."""
    written = {each.name for each in fields(session.request) if each.metadata.get(USE) == OUTPUT}
    grouped = {str(param.name) for param in command.params if getattr(param, "group", None) == OUTPUT_GROUP}
    return written | (grouped - recordable_names(type(session.request)))


def _spell_option(param: click.Parameter, value: object) -> Iterator[str]:
    """Yield the words of an option or argument as they are typed."""
    if isinstance(param, click.Argument):
        yield from _option_texts(value)
        return
    long = max(param.opts, key=len)
    if isinstance(param, click.Option) and param.is_flag:
        yield long if value else max(param.secondary_opts, key=len)
        return
    for each in value if param.multiple and isinstance(value, (list, tuple)) else [value]:
        yield long
        yield from _option_texts(each)


def _option_texts(value: object) -> Iterator[str]:
    yield from map(str, value) if isinstance(value, (list, tuple)) else [str(value)]


def _open_shard(session: Session, content: bytes, number: int, shard_count: int, count: int) -> Shard:
    """Return the shard in these bytes.  Raises DataError if it does not belong to this run."""
    with scratch_file(named=True) as path:
        path.write_bytes(content)
        found = artifacts.load(str(path), kinds=None)
    made: Shard = found.value
    place = made.place
    if (place.index, place.count, made.units) != (number + 1, shard_count, count) or not found.history:
        raise DataError(
            f"a worker returned {place.name} of a run of {made.units} parts instead of shard {number + 1}/{shard_count} of {count}"
        )
    if provenance.record_digest(found.history[-1]) != provenance.record_digest(session.record()):
        raise DataError("the input changed during the run", hint="run it again")
    return made
