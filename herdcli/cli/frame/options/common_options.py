"""The option groups that have the same meaning in every command, and `command_with_request`, which turns them into a session.

    @click.command("fit-rbm", cls=Command)
    @input_argument
    @click.option("--hidden", ...)
    @stage(Request, seed_option, threads_option)
    def command(session: Session, request: Request) -> None: ...

`command_with_request` adds the output, verbosity and memory options to a command.  It turns them into a session, and the command's own
options into its request.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from herdcli.cli.frame.history.request import recorded_options
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    Never,
    OptionGroup,
    check_declared_options,
    check_request_options,
    click_options,
    option_name_as_typed,
    shared_option_decorator,
)
from herdcli.cli.frame.options.help_pages import option_sort_key
from herdcli.cli.frame.options.session_options import DECLARED, SessionOptions, own_shard_option, session_option_group
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

Command = Callable[..., Any]  # the function that click decorates
Decorator = Callable[[Command], Command]


INTERVAL = shared_options.INTERVAL.click_type
PENALTY = shared_options.PENALTY.click_type


def input_argument(command: Command) -> Command:
    """Add the optional argument INPUT to a command; the default is stdin."""
    return click.argument("source", metavar="[INPUT]", default="-", required=False)(command)


def seed_option(command: Command) -> Command:
    """Add --seed to a command; the seed is stored with the result."""
    return shared_option_decorator("seed", shared_options.seed_option())(command)


column_options = session_option_group(
    "read_columns", "drop_columns", "split_column"
)  # the columns to read, and the column that holds the split
cleaning_options = session_option_group(  # how missing values, text and the numbers in text are read
    *("thousands", "decimal", "percent", "currency", "encoding"),
    *("missing", "categorical", "layer", "read_columns", "drop_columns", "split_column"),
)
weights_option = session_option_group(
    "weights_column"
)  # for commands that learn from weighted rows and whose request has no field for the weights
threads_option = session_option_group("threads")
checkpoint_options = session_option_group("checkpoint", "every", "resume", "trace_file", "dry_run")  # for long runs
cluster_options = session_option_group("cluster", "cluster_options", "retries", "mixed")  # for work that other processes can share
output_options = session_option_group("output", "no_clobber", "lock")
csv_output_options = session_option_group("output", "no_clobber", "safe_csv", "lock")  # of commands that write CSV
common_options = session_option_group("options_file", "quiet", "verbose", "debug", "max_memory")


def refused_shard_option(why: str, hint: str) -> OptionGroup:
    """Return a hidden --shard for commands whose work cannot be divided into independent parts: it is refused, with `why` and a hint."""
    return own_shard_option("Refused: shards cannot divide this.", only=Never(f"--shard: {why}", hint), hidden=True)


ITERATED, WORKERS = (
    "every iteration needs all rows, so the run cannot be divided into shards",
    "use --cluster WHERE, which distributes the rows over workers",
)
IN_ROUNDS = refused_shard_option(ITERATED, WORKERS)


def default_threads() -> int:
    """Return the number of threads from HERD_THREADS or SLURM_CPUS_PER_TASK, else the number of cores that this process may use."""
    for variable in ("HERD_THREADS", "SLURM_CPUS_PER_TASK"):
        text = os.environ.get(variable, "").strip()
        if text:
            if not text.isdecimal() or int(text) < 1:
                raise click.UsageError(f"{variable}='{text}' is not a number of threads")
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _session_options(options: dict[str, Any]) -> SessionOptions:
    """Remove the session options from the options of a command and return them; an option that the command lacks has its default."""
    return SessionOptions(**{name: options.pop(name, declaration.default) for name, declaration in DECLARED.items()})


def _require_unicode(request: type, parameters: Mapping[str, object]) -> None:
    """Raise BadUsage for a text that a history cannot hold because it is not valid Unicode."""
    for name, value in parameters.items():
        several = value if isinstance(value, (tuple, list)) else (value,)
        if not all(is_unicode(each) for each in several if isinstance(each, str)):
            raise BadUsage(
                f"{option_name_as_typed(request, name)}: holds bytes that are not UTF-8", hint="set a UTF-8 locale, or type it again"
            )


def parse_options(ctx: click.Context, kind: type[R], options: dict[str, Any]) -> tuple[Session, R]:
    """Return the session and the request for the typed options.

    Raises click.BadParameter for nan, which click accepts within any range.
    """
    from herdcli.cli.frame.run.session import Session

    for param in ctx.command.params:
        value = options.get(param.name or "")
        if any(each != each for each in (value if isinstance(value, tuple) else (value,))):
            raise click.BadParameter("nan is not a number", ctx=ctx, param=param)
    command = ctx.info_name or ""
    given = {name for name in ctx.params if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE}
    shared = _session_options(options)
    asked = kind(**options)
    if hasattr(asked, "resolve_options"):
        asked = asked.resolve_options(frozenset(given))
    _require_unicode(kind, recorded_options(asked) | {name: getattr(shared, name) for name in ("missing", "categorical", "layer")})
    console = Console(command, -1 if shared.quiet else int(shared.verbose))
    if isinstance(ctx.obj, list):
        console.warned = ctx.obj  # the list of a caller in this process
    for advice in ctx.meta.get("herd.advice", ()):
        console.warn(advice)
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
        safe_csv=shared.safe_csv,
        savable="checkpoint" in ctx.params,
        trace_file=shared.trace_file,
    )
    return session, asked


def command_with_request(request: type[DataclassInstance], *groups: Decorator) -> Decorator:
    """Return a decorator that adds option groups and the common options to a command, which then receives a `Session` and its request.

    request  the frozen dataclass whose fields are the command's own options; its method `resolve_options`, if there is one, fills in the
    defaults
             that depend on other options.
    """

    shared = [each for group in (*groups, common_options) if isinstance(group, OptionGroup) for each in group.declared.items()]

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def wrapped(**options: object) -> object:
            from herdcli.cli.frame.run import file_registry

            context = click.get_current_context()
            session, asked = parse_options(context, request, options)
            common = {name: context.params.get(name) for name in (*file_registry.OF_EVERY_RUN, "options_file")}
            file_registry.refuse_conflicts(file_registry.register_files(context.command, asked, common))
            with session:
                check_declared_options(shared, session, session)
                check_request_options(asked, session)
                return function(session, asked)

        vars(wrapped)["request"] = request  # used when a stage of a history is run again
        command: Command = wrapped
        decorators: list[Decorator] = [*click_options(request), *groups, common_options]
        for group in reversed(decorators):
            command = group(command)
        vars(command)["__click_params__"].sort(key=lambda param: -option_sort_key(param))  # click reads them from the last to the first
        return command

    return decorate


NETWORK_FORMATS = shared_options.NETWORK_FORMATS
