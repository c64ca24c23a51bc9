"""Options that mean the same in every command, and the session they make.

    @click.command("fit-rbm", cls=Command)
    @input_argument
    @click.option("--hidden", ...)
    @stage(Request, seed_option, threads_option)
    def command(session: Session, request: Request) -> None: ...

`stage` adds output, verbosity and memory options to every command and makes a session of them, and the request of its own.
"""

from __future__ import annotations

import csv
import functools
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from herdcli.cli.frame import shared_options
from herdcli.cli.frame.console import Console
from herdcli.cli.frame.declaration import FILE_PATH, ParsedType, check, click_options, shared_option
from herdcli.cli.frame.help_pages import place_of
from herdcli.cli.frame.request import recorded_options
from herdcli.cluster.cluster_spec import FORMS, ClusterOptions, parse_cluster, parse_setting
from herdcli.dialect import DECIMAL, RECORDED, THOUSANDS, dialect_from_options
from herdcli.errors import BadUsage, is_unicode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from herdcli.cli.frame.session import Session

    R = TypeVar("R", bound=DataclassInstance)
else:
    R = TypeVar("R")

Command = Callable[..., Any]  # what click decorates
Decorator = Callable[[Command], Command]


Parsed = ParsedType


def _parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", text.strip())
    if not match:
        raise ValueError("is not a size such as 500M or 2G")
    number, unit, binary = match.groups()
    size = int(float(number) * (1024 if binary else 1000) ** " kMGT".index(unit or " "))
    if size == 0:
        raise ValueError("must be above 0")
    return size


def _parse_columns(text: str) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in next(csv.reader([text], skipinitialspace=True), []) if cell.strip())
    if not names:
        raise ValueError("names no column")
    return names


SIZE = Parsed("size", _parse_size)  # bytes, with an optional unit: 500M, 2G, 1.5GiB
INTERVAL = shared_options.INTERVAL.click_type
COLUMNS = Parsed("columns", _parse_columns)  # separated by commas; those with commas in quotes
PENALTY = shared_options.PENALTY.click_type


def input_argument(command: Command) -> Command:
    """INPUT, default stdin."""
    return click.argument("source", metavar="[INPUT]", default="-", required=False)(command)


def seed_option(command: Command) -> Command:
    """--seed, stored with the result."""
    return shared_option("seed", shared_options.seed())(command)


def threads_option(command: Command) -> Command:
    """-j/--threads: workers; the result does not depend on it."""
    return click.option(
        "-j",
        "--threads",
        type=click.IntRange(1),
        default=None,
        help="Worker threads; any number gives the same result.",
    )(command)


def exact_option(command: Command) -> Command:
    """--exact: arithmetic of one rounding everywhere; the request has the field `exact`."""
    return shared_option("exact", shared_options.exact())(command)


_split_option = shared_option("split", shared_options.split())
_label_option = shared_option("label", shared_options.label())


def column_options(command: Command) -> Command:
    """--columns, --drop and --split-column: which columns are read, and which says what a row is for."""
    for option in (
        click.option(
            "--split-column",
            "split_column",
            metavar="COLUMN",
            default=None,
            help="Column of the table with train, valid and test, or 0, 1 and 2; none: there is none.",
        ),
        click.option(
            "--drop",
            "drop_columns",
            type=COLUMNS,
            default=(),
            metavar="NAME,…",
            help="Leave these columns out: names, patterns (x*), ranges (a:f), places from 1 (3:7).",
        ),
        click.option(
            "--columns",
            "read_columns",
            type=COLUMNS,
            default=(),
            metavar="NAME,…",
            help="Read these columns alone: names, patterns (x*), ranges (a:f), places from 1 (3:7).",
        ),
    ):
        command = option(command)
    return command


def dialect_options(command: Command) -> Command:
    """--thousands, --decimal, --percent, --currency and --encoding: how text and the numbers in it are written."""
    for option in (
        click.option(
            "--encoding", default=None, metavar="NAME", help="Encoding of text, as latin-1 or utf-16.  [default: utf-8, or guessed]"
        ),
        click.option("--currency", is_flag=True, help="Read $1.50 as 1.5, and (1.50) as -1.5."),
        click.option("--percent", is_flag=True, help="Read 12 % as 0.12."),
        click.option(
            "--decimal",
            type=click.Choice(DECIMAL),
            default=None,
            metavar="MARK",
            help="Mark before the fraction: . or ,  [default: as the text looks]",
        ),
        click.option(
            "--thousands",
            type=click.Choice(THOUSANDS),
            default=None,
            metavar="MARK",
            help="Mark between groups of digits: , . ' or ' ' for any blank.  [default: none]",
        ),
    ):
        command = option(command)
    return command


def cleaning_options(command: Command) -> Command:
    """Options of columns; --missing, --categorical and --layer: what becomes of gaps and text, and which layer of AnnData is read."""
    for option in (
        column_options,
        click.option("--layer", default=None, metavar="NAME", help="AnnData: read this layer instead of X."),
        click.option(
            "--categorical",
            type=click.Choice(["auto", "none"]),
            default="auto",
            show_default=True,
            help="Text columns: a 0/1 column for each value (auto), or leave them out (none).",
        ),
        click.option(
            "--missing",
            type=click.Choice(["drop", "mean"]),
            default=None,
            help="Rows with missing values: drop them, or fill the gaps with the training rows' column means.",
        ),
        dialect_options,
    ):
        command = option(command)
    return command


def weights_option(command: Command) -> Command:
    """--weights of commands that learn from weighted rows, whose request knows nothing of it."""
    return click.option(
        "--weights",
        "weights_column",
        metavar="COLUMN",
        default=None,
        help="Column of the table with the rows' weights; none: no weights.",
    )(command)


def table_options(command: Command) -> Command:
    """How rows of real numbers are read: their format, their labels, their split."""
    for option in (_split_option, _label_option, cleaning_options, input_format_option):
        command = option(command)
    return command


def data_options(command: Command) -> Command:
    """How a data set is read: its format, its labels, its split, and grey values made two-valued."""
    for option in (
        _split_option,
        shared_option("threshold", shared_options.threshold()),
        shared_option("value_range", shared_options.value_range()),
        _label_option,
        cleaning_options,
        input_format_option,
    ):
        command = option(command)
    return command


def input_format_option(command: Command) -> Command:
    """--input-format, where content and suffix do not tell."""
    return shared_option("input_format", shared_options.input_format())(command)


def checkpoint_options(command: Command) -> Command:
    """For long work: --checkpoint, --every, --resume (a killed run goes on to the same bytes), --dry-run."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Check the input, print the time and memory needed, and stop."),
        click.option(
            "--trace",
            "trace_file",
            type=FILE_PATH,
            default=None,
            metavar="FILE.jsonl",
            help="Write the figures of every step to this file, one JSON object per line.",
        ),
        click.option("--resume", is_flag=True, help="Resume from the checkpoint, if there is one."),
        click.option("--every", type=click.IntRange(1), default=None, metavar="N", help="Save every N steps.  [default: every 60 s]"),
        click.option(
            "--checkpoint",
            type=FILE_PATH,
            default=None,
            metavar="FILE",
            help="Save the state here every minute, and when interrupted.",
        ),
    ):
        command = option(command)
    return command


def cluster_options(command: Command) -> Command:
    """--cluster, --cluster-option, --retries and --mixed, of commands whose work can be dealt to other processes."""
    for option in (
        click.option("--mixed", is_flag=True, help="--cluster: take workers whose BLAS differs, as may the last digits."),
        click.option(
            "--retries",
            type=click.IntRange(0),
            default=3,
            show_default=True,
            help="--cluster: how often a unit that failed is tried again.",
        ),
        click.option(
            "--cluster-option",
            "cluster_options",
            type=Parsed("key=value", parse_setting),
            multiple=True,
            metavar="KEY=VALUE",
            help="--cluster: a setting of the cluster, as queue=long or tls-ca-file=ca.pem; repeatable.",
        ),
        click.option(
            "--cluster",
            type=Parsed("where", parse_cluster),
            default=None,
            metavar="WHERE",
            help=f"Deal the work to Dask workers: {FORMS}.  The output is that of one run.",
        ),
    ):
        command = option(command)
    return command


def refuse_shards(why: str, hint: str) -> Decorator:
    """--shard of commands whose work does not divide into parts that end by themselves: refused, with what to do in its place."""

    def refuse(context: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise BadUsage(f"--shard: {why}", hint=hint)

    return click.option(
        "--shard", hidden=True, expose_value=False, callback=refuse, metavar="I/N", help="Refused: shards cannot divide this."
    )


ITERATED, WORKERS = "every iteration needs all rows, so that no shard ends by itself", "--cluster WHERE keeps the rows with workers"
IN_ROUNDS = refuse_shards(ITERATED, WORKERS)


def output_options(command: Command) -> Command:
    """-o, -n and --lock."""
    for option in (
        click.option(
            "--lock",
            type=FILE_PATH,
            default=None,
            metavar="FILE",
            help="Exit with 75 at once if another run holds FILE: for cron.",
        ),
        click.option("-n", "--no-clobber", is_flag=True, help="Refuse to replace an existing output (exit 73)."),
        click.option("-o", "--output", default="-", metavar="FILE", help="Where the result goes.  [default: stdout]"),
    ):
        command = option(command)
    return command


def common_options(command: Command) -> Command:
    """-q, -v, --debug, --max-memory."""
    for option in (
        click.option(
            "--max-memory",
            type=SIZE,
            default=None,
            metavar="SIZE",
            help="Most that may be resident, as 2G, and declared by what is read whole.  [default: half of what is free may be declared]",
        ),
        click.option("--debug", is_flag=True, help="Show a traceback with an error."),
        click.option("-v", "--verbose", is_flag=True, help="Print more on stderr."),
        click.option("-q", "--quiet", is_flag=True, help="Print only errors."),
    ):
        command = option(command)
    return command


def default_threads() -> int:
    """HERD_THREADS, SLURM_CPUS_PER_TASK, else the cores this process may run on."""
    for variable in ("HERD_THREADS", "SLURM_CPUS_PER_TASK"):
        text = os.environ.get(variable, "").strip()
        if text:
            if not text.isdecimal() or int(text) < 1:
                raise click.UsageError(f"{variable}='{text}' is not a number of threads")
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _cluster_options(options: dict[str, Any]) -> ClusterOptions | None:
    """The workers that were asked for, of commands that have the option."""
    where, more = options.pop("cluster", None), options.pop("cluster_options", ())
    retries, mixed = options.pop("retries", 3), options.pop("mixed", False)
    if where is None:
        return None
    return ClusterOptions(where, more, retries, mixed)


def _require_unicode(parameters: Mapping[str, object]) -> None:
    """Raise BadUsage for a text that no history can hold."""
    for name, value in parameters.items():
        several = value if isinstance(value, (tuple, list)) else (value,)
        if not all(is_unicode(each) for each in several if isinstance(each, str)):
            raise BadUsage(f"--{name.replace('_', '-')}: holds bytes that are not UTF-8", hint="set a UTF-8 locale, or type it anew")


def parse_options(ctx: click.Context, kind: type[R], options: dict[str, Any]) -> tuple[Session, R]:
    """The session and the request of typed options.  Raises click.BadParameter for nan, which is within any range."""
    from herdcli.cli.frame.session import Session

    for param in ctx.command.params:
        value = options.get(param.name or "")
        if any(each != each for each in (value if isinstance(value, tuple) else (value,))):
            raise click.BadParameter("nan is no number", ctx=ctx, param=param)
    command = ctx.info_name or ""
    given = {name for name in ctx.params if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE}
    quiet, verbose = options.pop("quiet"), options.pop("verbose")
    options.pop("debug")
    common = {
        "output": options.pop("output", "-"),
        "clobber": not options.pop("no_clobber", False),
        "threads": options.pop("threads", None) or default_threads(),
        "max_memory": options.pop("max_memory"),
        "checkpoint": options.pop("checkpoint", None),
        "every": options.pop("every", None),
        "resume": options.pop("resume", False),
        "dry_run": options.pop("dry_run", False),
        "lock": options.pop("lock", None),
        "shard": options.pop("shard", None),
        "cluster": _cluster_options(options),
        "missing": options.pop("missing", None),
        "categorical": options.pop("categorical", None),
        "layer": options.pop("layer", None),
        "read_columns": options.pop("read_columns", None) or (),
        "drop_columns": options.pop("drop_columns", None) or (),
        "split_column": options.pop("split_column", None),
        "weights_column": options.pop("weights_column", None),
        "dialect": dialect_from_options({name: options.pop(name, None) for name in RECORDED}),
        "savable": "checkpoint" in ctx.params,
        "trace_file": options.pop("trace_file", None),
    }
    asked = kind(**options)
    if hasattr(asked, "resolved"):
        asked = asked.resolved(frozenset(given))
    _require_unicode(recorded_options(asked) | {name: common[name] for name in ("missing", "categorical", "layer")})
    console = Console(command, -1 if quiet else int(verbose))
    if isinstance(ctx.obj, list):
        console.warned = ctx.obj  # of a caller in this process
    return Session(command=command, console=console, request=asked, given=given, **common), asked


def stage(request: type[DataclassInstance], *groups: Decorator) -> Decorator:
    """Add option groups and the common options to a command, which then gets a `Session` and its request.

    request  the frozen dataclass whose fields are the command's own options; `resolved`, where it has one, fills in what depends on
             other options.
    """

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def wrapped(**options: object) -> object:
            from herdcli.cli.frame import file_registry

            context = click.get_current_context()
            session, asked = parse_options(context, request, options)
            common = {name: getattr(session, name) for name in file_registry.OF_EVERY_RUN if name in context.params}
            file_registry.refuse_conflicts(file_registry.register_files(context.command, asked, common))
            with session:
                check(asked, session)
                return function(session, asked)

        vars(wrapped)["request"] = request  # for whoever makes a stage of a history again
        command: Command = wrapped
        for group in (common_options, *reversed(groups), *reversed(click_options(request))):
            command = group(command)
        vars(command)["__click_params__"].sort(key=lambda param: -place_of(param))  # click takes them from the last one
        return command

    return decorate


NETWORK_FORMATS = shared_options.NETWORK_FORMATS


def network_format_option(command: Command) -> Command:
    """--input-format of commands that read networks."""
    return shared_option("input_format", shared_options.network_format())(command)


def missing_rows_option(command: Command) -> Command:
    """--missing-rows of commands that read networks."""
    return shared_option("missing_rows", shared_options.missing_rows())(command)


def format_option(formats: tuple[str, ...]) -> Decorator:
    """--format of commands that write one of these."""
    return shared_option("format", shared_options.output_format(*formats))
