"""Options that mean the same in every command, and the session they make.

    @click.command("fit-rbm", cls=Command)
    @input_argument
    @click.option("--hidden", ...)
    @stage(Request, seed_option, threads_option)
    def command(session: Session, request: Request) -> None: ...

`stage` adds output, verbosity and memory options to every command and makes a session of them, and the request of its own.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from herdcli.cli.frame.history.request import recorded_options
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import Never, OptionGroup, check, check_options, click_options, shared_option
from herdcli.cli.frame.options.help_pages import place_of
from herdcli.cli.frame.options.session_options import DECLARED, SessionOptions, option_group, own_shard_option
from herdcli.cli.frame.run.console import Console
from herdcli.cluster.cluster_spec import ClusterOptions
from herdcli.dialect import RECORDED, dialect_from_options
from herdcli.errors import BadUsage, is_unicode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from herdcli.cli.frame.run.session import Session

    R = TypeVar("R", bound=DataclassInstance)
else:
    R = TypeVar("R")

Command = Callable[..., Any]  # what click decorates
Decorator = Callable[[Command], Command]


INTERVAL = shared_options.INTERVAL.click_type
PENALTY = shared_options.PENALTY.click_type


def input_argument(command: Command) -> Command:
    """INPUT, default stdin."""
    return click.argument("source", metavar="[INPUT]", default="-", required=False)(command)


def seed_option(command: Command) -> Command:
    """--seed, stored with the result."""
    return shared_option("seed", shared_options.seed())(command)


column_options = option_group("read_columns", "drop_columns", "split_column")  # which columns are read, and which has the split
cleaning_options = option_group(  # what becomes of gaps and text, and how text and the numbers in it are written
    *("thousands", "decimal", "percent", "currency", "encoding"),
    *("missing", "categorical", "layer", "read_columns", "drop_columns", "split_column"),
)
weights_option = option_group("weights_column")  # of commands that learn from weighted rows, whose request has no field for it
threads_option = option_group("threads")
checkpoint_options = option_group("checkpoint", "every", "resume", "trace_file", "dry_run")  # for long work
cluster_options = option_group("cluster", "cluster_options", "retries", "mixed")  # of work that other processes can share
output_options = option_group("output", "no_clobber", "lock")
common_options = option_group("quiet", "verbose", "debug", "max_memory")


def refuse_shards(why: str, hint: str) -> OptionGroup:
    """--shard of commands whose work does not divide into parts that end by themselves: refused, with what to do in its place."""
    return own_shard_option("Refused: shards cannot divide this.", only=Never(f"--shard: {why}", hint), hidden=True)


ITERATED, WORKERS = "every iteration needs all rows, so that no shard ends by itself", "--cluster WHERE keeps the rows with workers"
IN_ROUNDS = refuse_shards(ITERATED, WORKERS)


def default_threads() -> int:
    """HERD_THREADS, SLURM_CPUS_PER_TASK, else the cores this process may run on."""
    for variable in ("HERD_THREADS", "SLURM_CPUS_PER_TASK"):
        text = os.environ.get(variable, "").strip()
        if text:
            if not text.isdecimal() or int(text) < 1:
                raise click.UsageError(f"{variable}='{text}' is not a number of threads")
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _session_options(options: dict[str, Any]) -> SessionOptions:
    """The options that are no part of the request, taken out of those of a command; the default of each that the command lacks."""
    return SessionOptions(**{name: options.pop(name, declaration.default) for name, declaration in DECLARED.items()})


def _require_unicode(parameters: Mapping[str, object]) -> None:
    """Raise BadUsage for a text that no history can hold."""
    for name, value in parameters.items():
        several = value if isinstance(value, (tuple, list)) else (value,)
        if not all(is_unicode(each) for each in several if isinstance(each, str)):
            raise BadUsage(f"--{name.replace('_', '-')}: holds bytes that are not UTF-8", hint="set a UTF-8 locale, or type it again")


def parse_options(ctx: click.Context, kind: type[R], options: dict[str, Any]) -> tuple[Session, R]:
    """The session and the request of typed options.  Raises click.BadParameter for nan, which is within any range."""
    from herdcli.cli.frame.run.session import Session

    for param in ctx.command.params:
        value = options.get(param.name or "")
        if any(each != each for each in (value if isinstance(value, tuple) else (value,))):
            raise click.BadParameter("nan is not a number", ctx=ctx, param=param)
    command = ctx.info_name or ""
    given = {name for name in ctx.params if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE}
    shared = _session_options(options)
    asked = kind(**options)
    if hasattr(asked, "resolved"):
        asked = asked.resolved(frozenset(given))
    _require_unicode(recorded_options(asked) | {name: getattr(shared, name) for name in ("missing", "categorical", "layer")})
    console = Console(command, -1 if shared.quiet else int(shared.verbose))
    if isinstance(ctx.obj, list):
        console.warned = ctx.obj  # of a caller in this process
    cluster = None
    if shared.cluster is not None:
        cluster = ClusterOptions(shared.cluster, shared.cluster_options, shared.retries, shared.mixed)
    session = Session(
        command=command,
        console=console,
        request=asked,
        given=given,
        output=shared.output,
        clobber=not shared.no_clobber,
        threads=shared.threads or default_threads(),
        max_memory=shared.max_memory,
        checkpoint=shared.checkpoint,
        every=shared.every,
        resume=shared.resume,
        dry_run=shared.dry_run,
        lock=shared.lock,
        shard=shared.shard,
        cluster=cluster,
        missing=shared.missing,
        categorical=shared.categorical if "categorical" in ctx.params else None,
        layer=shared.layer,
        read_columns=shared.read_columns or (),
        drop_columns=shared.drop_columns or (),
        split_column=shared.split_column,
        weights_column=shared.weights_column,
        dialect=dialect_from_options({name: getattr(shared, name) for name in RECORDED}),
        savable="checkpoint" in ctx.params,
        trace_file=shared.trace_file,
    )
    return session, asked


def stage(request: type[DataclassInstance], *groups: Decorator) -> Decorator:
    """Add option groups and the common options to a command, which then gets a `Session` and its request.

    request  the frozen dataclass whose fields are the command's own options; `resolved`, where it has one, fills in what depends on
             other options.
    """

    shared = [each for group in (*groups, common_options) if isinstance(group, OptionGroup) for each in group.declared.items()]

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def wrapped(**options: object) -> object:
            from herdcli.cli.frame.run import file_registry

            context = click.get_current_context()
            session, asked = parse_options(context, request, options)
            common = {name: getattr(session, name) for name in file_registry.OF_EVERY_RUN if name in context.params}
            file_registry.refuse_conflicts(file_registry.register_files(context.command, asked, common))
            with session:
                check_options(shared, session, session)
                check(asked, session)
                return function(session, asked)

        vars(wrapped)["request"] = request  # for whoever makes a stage of a history again
        command: Command = wrapped
        decorators: list[Decorator] = [*click_options(request), *groups, common_options]
        for group in reversed(decorators):
            command = group(command)
        vars(command)["__click_params__"].sort(key=lambda param: -place_of(param))  # click takes them from the last one
        return command

    return decorate


NETWORK_FORMATS = shared_options.NETWORK_FORMATS


def format_option(formats: tuple[str, ...]) -> Decorator:
    """--format of commands that write one of these."""
    return shared_option("format", shared_options.output_format(*formats))
