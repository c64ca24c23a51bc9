"""`--cluster WHERE`: the units of a command dealt to workers, each of which runs the command under --shard.

Here is what the cluster must know of commands: the line that was typed, without what is of this process alone and with its files, and
what the shards that come back have to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from herdcli import artifacts
from herdcli.artifacts import checkpoints, provenance
from herdcli.artifacts.streams import scratch_file
from herdcli.cli.frame.request import recorded
from herdcli.cluster import rounds
from herdcli.cluster.begun import Size
from herdcli.cluster.dealing import Dealing, shards
from herdcli.cluster.farm import Farm, hired
from herdcli.cluster.files import Words
from herdcli.errors import DataError
from herdcli.shards import Shard, joined

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session
    from herdcli.cluster.where import Asked
    from herdcli.numerics.blocks import Source

PROGRAM = "herdcli.cli.main:cli"
HERE = {
    *("cluster", "cluster_options", "retries", "mixed", "shard", "checkpoint", "every", "resume", "dry_run", "trace_file"),
    *("output", "no_clobber", "lock", "quiet", "verbose", "debug", "threads"),
}


def dealt(session: Session, asked: Asked, count: int, what: str) -> list[object]:
    """What all units made, in their order, by workers."""
    threads = worker_threads(session, asked)
    words = typed(session, threads)
    with _hired(session, asked, Size(threads, session.max_memory)) as farm:
        words.place(farm)
        dealing = Dealing(shards(count, len(farm.workers())), farm, PROGRAM, words, asked.retries)
        made = session.run(dealing, label=what, part=checkpoints.DEALT)
    session.told = list(dict.fromkeys(dealing.warned))
    parts: list[object] = joined([_opened(session, content, number, len(made), count) for number, content in enumerate(made)]).parts
    return parts


def spread(session: Session, asked: Asked, source: Source, *, passing: bool) -> Source:
    """The blocks of a source with workers until the command ends."""
    size = Size(worker_threads(session, asked), session.max_memory)
    return rounds.spread(source, session.hold(_hired(session, asked, size)), asked.retries, passing=passing)


def _hired(session: Session, asked: Asked, size: Size) -> AbstractContextManager[Farm]:
    console = session.console
    return hired(asked, size, note=console.note, warn=console.warn, exact=session.exact)


def worker_threads(session: Session, asked: Asked) -> int:
    """Threads of one worker: those of -j, else this machine's cores shared among the workers, or one."""
    if "threads" in session.given:
        return session.threads
    return max(1, session.threads // (asked.where.count or 1)) if asked.where.kind == "local" else 1


def typed(session: Session, threads: int) -> Words:
    """What was typed, for workers that compute with so many threads each."""
    context = click.get_current_context()
    command, shown = context.command, recorded(session.request)
    values, _, _ = command.make_parser(context).parse_args(args=list(context.meta["herd.typed"]))
    found = Words([session.command])
    for param in command.params:
        name = str(param.name)
        value = values.get(name)
        if isinstance(param, click.Argument) and not isinstance(value, (str, list, tuple)):
            value = context.params[name]  # nothing was typed
        if value is None or name in HERE:
            continue
        of_place = hasattr(session.request, name) and shown.get(name) != value and not isinstance(param.type, click.Choice)
        for each in _spelled(param, value):
            if of_place:
                found.add(each, session.spooled)
            else:
                found.words.append(each)
    if any(param.name == "threads" for param in command.params):
        found.words += ["--threads", str(threads)]
    return found


def _spelled(param: click.Parameter, value: object) -> Iterator[str]:
    """An option or argument as it is typed."""
    if isinstance(param, click.Argument):
        yield from _texts(value)
        return
    long = max(param.opts, key=len)
    if isinstance(param, click.Option) and param.is_flag:
        yield long if value else max(param.secondary_opts, key=len)
        return
    for each in value if param.multiple and isinstance(value, (list, tuple)) else [value]:
        yield long
        yield from _texts(each)


def _texts(value: object) -> Iterator[str]:
    yield from map(str, value) if isinstance(value, (list, tuple)) else [str(value)]


def _opened(session: Session, content: bytes, number: int, dealt: int, count: int) -> Shard:
    """The shard in these bytes, which must be of this run."""
    with scratch_file(named=True) as path:
        path.write_bytes(content)
        found = artifacts.load(str(path), kinds=None)
    made: Shard = found.value
    place = made.place
    if (place.index, place.count, made.units) != (number + 1, dealt, count) or not found.history:
        raise DataError(f"a worker made {place.name} of {made.units} units in the place of shard {number + 1} of {dealt} of {count}")
    if provenance.digest(found.history[-1]) != provenance.digest(session.record()):
        raise DataError("the input changed while the run was going on", hint="run it again")
    return made
