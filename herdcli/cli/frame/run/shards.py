"""`--shard I/N`: a command does every N-th of its units of work, and `herd merge` combines all shards into the output of a single run.

A command makes a `Shard` of its units and passes it to `save_units_or_shard`.  Without --shard it does all units, and `finish`, a function
of the
command, makes the artifact.  `herd merge` calls the same function with all units in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from herdcli.cli.frame.history.request import request_from_record
from herdcli.cli.frame.options.session_options import own_shard_option, session_option_group
from herdcli.errors import BadUsage, DataError, NoInput
from herdcli.kinds import KINDS
from herdcli.parts import import_by_path
from herdcli.records import HistoryRecord
from herdcli.shards import Shard, join_shards

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session

Finish = Callable[["Session", Any, Any, Any], None]

shard_option = session_option_group("shard", "cluster", "cluster_options", "retries", "mixed")  # for several independent units of work
row_shard_option = own_shard_option(  # for a command that maps rows to rows: its shards are consecutive, and no merge is needed
    "The I-th of N equal stretches of the rows alone; all N files in quotes, 'rows-*.parquet', are one input."
)


def refuse_shards(session: Session, hint: str) -> None:
    """Raise BadUsage for --shard and --cluster if there is only one unit of work."""
    if session.cluster is not None:
        raise BadUsage("--cluster distributes the parts of a run, but this run has only one part", hint=hint)
    if session.shard is not None:
        raise BadUsage("--shard divides a run into its parts, but this run has only one part", hint=hint)


def unit_numbers_of_run(session: Session, count: int, what: str) -> range:
    """Return the numbers of this run's units.

    A shard beyond the last unit has none, so that an array of jobs of any size succeeds.  With --cluster, workers do all units and none is
    left for this process; `save_units_or_shard` adds their results.
    """
    if session.cluster is not None and not session.dry_run:
        from herdcli.cli.frame.run.cluster_run import run_on_workers

        session.dealt = run_on_workers(session, session.cluster, count, what)
        return range(0)
    found = session.place.unit_numbers(count)
    if not found:
        session.console.note(f"{session.place.name} has nothing to do, because there are only {count} {what}")
        if session.dry_run:
            raise click.exceptions.Exit(0)
    return found


def save_units_or_shard(session: Session, shard: Shard, what: str, finish: Finish, history: HistorySource, options: object) -> None:
    """Save the shard, or without --shard the result of its units."""
    if session.dealt is not None:
        shard = replace(shard, parts=session.dealt)  # type: ignore[call-arg]
        for message in session.told:
            if message not in session.console.warned:
                session.console.warn(message)
    if session.shard is None:
        finish(session, shard, history, options)
        return
    from herdcli.cli.frame.output import outputs

    mine = len(shard.place.unit_numbers(shard.units))
    outputs.write_artifact(session, shard, f"{shard.place.name}: {mine} of {shard.units} {what}", history=history)


def merge_shards(session: Session, shards: Sequence[Artifact]) -> None:
    """Save the result of the units of all shards, as the run without --shard would have done."""
    from herdcli.cli.frame.output import outputs
    from herdcli.schema import check_arrays

    first = shards[0]
    for other in shards[1:]:
        _require_same_run(first, other)
    by_index: dict[int, Artifact] = {}
    for shard in shards:
        place = shard.value.place
        if place.index in by_index:
            raise DataError(f"is {place.name}, but so is {by_index[place.index].name}", where=shard.name, hint="name each shard once")
        by_index[place.index] = shard
    count = first.value.place.count
    working = [shard for shard in shards if shard.value.parts]  # shards beyond the last unit hold nothing of the run
    for shard in working[1:]:
        _require_compatible_shards(working[0], shard)
    missing = [index for index in range(1, count + 1) if index not in by_index]
    if missing:
        _refuse_missing_units(missing, count)
    whole = join_shards([by_index[index].value for index in range(1, count + 1)])
    try:
        check_arrays(whole)
    except DataError as error:  # each shard is valid on its own, but the parts of several may not fit together
        message, hint = f"has parts that do not fit together ({error.message})", "make all shards again and merge them"
        raise DataError(message, where=first.name, hint=hint) from error
    kind = KINDS[first.kind]
    finish: Finish = import_by_path(str(kind.finish))
    finish(session, whole, outputs.RestoredHistory(first), _request_from_shard(first))


def _request_from_shard(shard: Artifact) -> object:
    """Return the request of the run that a shard belongs to, with each option as the command line parses it.  Raises DataError."""
    from herdcli.cli.frame.history import recorded_options
    from herdcli.cli.frame.history.history_stages import find_command

    record = _run_record(shard)
    name = str(record["command"])
    kind, values, _ = recorded_options.recorded_request_as_typed(
        find_command(name, shard.name), record["parameters"], f"the run of {name}", shard.name
    )
    declared = import_by_path(str(KINDS[shard.kind].request))
    if not issubclass(kind, declared):
        raise DataError(
            f"is of kind {shard.kind}, but its history says that it comes from herd {name}, which makes no such shards", where=shard.name
        )
    return request_from_record(kind, values)


def _require_compatible_shards(first: Artifact, other: Artifact) -> None:
    """Raise DataError unless two shards agree in everything that concerns the whole run, which excludes place, parts and rest."""
    from herdcli.artifacts.sealed import artifact_comparison

    own = {name: None for name in ("parts", "rest") if hasattr(first.value, name)} | {"place": first.value.place}
    difference, name = artifact_comparison.largest_difference(*(replace(shard.value, **own) for shard in (other, first)))
    if difference:
        hint = "make all shards again and merge them"
        raise DataError(f"cannot be merged with {first.name}: they differ in '{name.partition('/')[0]}'", where=other.name, hint=hint)


def _refuse_missing_units(missing: list[int], count: int) -> NoReturn:
    names = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
    what = f"shard {names} of {count} is missing" if len(missing) == 1 else f"shards {names} of {count} are missing"
    raise NoInput(what, hint=f"--shard {missing[0]}/{count} makes {'it' if len(missing) == 1 else 'the first of them'}")


def _require_same_run(first: Artifact, other: Artifact) -> None:
    """Raise DataError unless two shards have the same command, options and inputs, and the same number of shards."""
    ours, theirs = first.value.place, other.value.place
    if first.kind != other.kind:
        raise DataError(f"is of kind {other.kind}, but {first.name} is of kind {first.kind}", where=other.name)
    if first.history == other.history:
        if ours.count != theirs.count or first.value.units != other.value.units:
            raise DataError(
                f"is {theirs.name}, but {first.name} is {ours.name}", where=other.name, hint="all shards need the same N of --shard I/N"
            )
        return
    mine, yours = _run_record(first), _run_record(other)
    names = [name for name in mine["parameters"] | yours["parameters"] if mine["parameters"].get(name) != yours["parameters"].get(name)]
    if names and mine["command"] == yours["command"]:
        raise DataError(
            f"was made {_option_as_typed(yours, min(names))}, but {first.name} was made {_option_as_typed(mine, min(names))}",
            where=other.name,
        )
    what = "from other inputs" if mine["inputs"] != yours["inputs"] else "by another version of herd"
    raise DataError(f"was made {what} than {first.name}", where=other.name)


def _run_record(shard: Artifact) -> HistoryRecord:
    """Return the record of the run that a shard belongs to."""
    record = shard.history[-1] if shard.history else {}
    if not {"command", "parameters", "inputs"} <= record.keys():
        raise DataError("has no history, so the run that it belongs to is unknown", where=shard.name)
    return record


def _option_as_typed(record: HistoryRecord, name: str) -> str:
    """Return an option of a run as it is typed."""
    from herdcli.cli.main import COMMANDS

    params = import_module(COMMANDS[record["command"]][0]).command.params if record["command"] in COMMANDS else []
    option = next((param.opts[-1] for param in params if param.name == name), name)
    value = record["parameters"].get(name)
    if value is None or isinstance(value, bool):
        return f"with {option}" if value else f"without {option}"
    values = value if isinstance(value, list) else [value]
    return f"with {option} {','.join(f'{each:g}' if isinstance(each, float) else str(each) for each in values)}"
