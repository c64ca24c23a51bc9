"""The options of a run that do not belong to its request, each declared once; `common_options` groups them.

If a command lacks an option, the field of `SessionOptions` has its default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.options.declaration import (
    INPUT,
    LONG,
    OUTPUT,
    Condition,
    OptionGroup,
    choice_kind,
    custom_syntax_kind,
    declarations,
    find_declaration,
    flag,
    integer_kind,
    option,
    path_kind,
    repeated_option,
    text_kind,
)
from herdcli.cli.frame.options.shared_options import COLUMNS, SIZE
from herdcli.cluster.cluster_spec import FORMS, parse_cluster, parse_setting
from herdcli.dialect import DECIMAL, THOUSANDS
from herdcli.records import dataclass
from herdcli.shards import parse_shard

if TYPE_CHECKING:
    from herdcli.cluster.cluster_spec import ClusterAddress
    from herdcli.shards import ShardPlace

SHARD = custom_syntax_kind("i/n", parse_shard)
CLUSTER = custom_syntax_kind("where", parse_cluster)
SETTING = custom_syntax_kind("key=value", parse_setting, "=".join)
WITH_CHECKPOINT = Condition("checkpoint", why="without --checkpoint")  # the session has these properties
WITH_WORKERS = Condition("cluster", why="without --cluster")
UNDIVIDED = Condition("is_undivided", refusal="--cluster makes all shards, --shard one of them", hint="leave out one of them")


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """The options of a run other than those of its request."""

    weights_column: str | None = option(text_kind(), "--weights", metavar="COLUMN", help="Column with the row weights; none: no weights.")
    thousands: str | None = option(
        choice_kind(*THOUSANDS, "\u2019"),
        metavar="MARK",
        help="Thousands separator in numbers: , . ' or ' ' for any blank.  [default: none]",
    )
    decimal: str | None = option(choice_kind(*DECIMAL), metavar="MARK", help="Decimal separator in numbers: . or ,  [default: detected]")
    percent: bool = flag(help="Read 12 % as 0.12.")
    currency: bool = flag(help="Read $1.50 as 1.5, and (1.50) as -1.5.")
    encoding: str | None = option(
        text_kind(), metavar="NAME", help="Encoding of text, such as latin-1 or utf-16.  [default: utf-8, or guessed]"
    )
    missing: str | None = option(
        choice_kind("drop", "mean"),
        group=INPUT,
        help="Drop rows with missing values, or fill in column means.  [default: stop with an error, unless the model allows them]",
    )
    categorical: str = option(
        choice_kind("auto", "none"),
        default="auto",
        group=INPUT,
        help="Text columns: convert each to 0/1 columns, one per value (auto), or leave them out (none).",
    )
    layer: str | None = option(text_kind(), metavar="NAME", group=INPUT, help="AnnData files: read this layer instead of X.")
    read_columns: tuple[str, ...] | None = option(
        COLUMNS, "--columns", metavar="NAME,…", help="Read only these columns: names, patterns (x*), ranges (a:f), positions from 1 (3:7)."
    )
    drop_columns: tuple[str, ...] | None = option(
        COLUMNS, "--drop", metavar="NAME,…", help="Leave out these columns: names, patterns (x*), ranges (a:f), positions from 1 (3:7)."
    )
    split_column: str | None = option(
        text_kind(),
        metavar="COLUMN",
        help="Column that assigns each row to train, valid or test (or 0, 1 or 2); none: ignore such columns.",
    )
    threads: int | None = option(integer_kind(1), "-j", "--threads", group=LONG, help="Number of threads; it does not change the result.")
    shard: ShardPlace | None = option(
        SHARD,
        metavar="I/N",
        group=LONG,
        only=UNDIVIDED,
        help="Do only part I of N of the work, and write a partial result (shard); herd merge joins all N.",
    )
    cluster: ClusterAddress | None = option(
        CLUSTER, metavar="WHERE", group=LONG, help=f"Distribute the work over worker processes: {FORMS}.  The result is the same."
    )
    cluster_options: tuple[tuple[str, str], ...] = repeated_option(
        SETTING,
        "--cluster-option",
        metavar="KEY=VALUE",
        group=LONG,
        only=WITH_WORKERS,
        help="With --cluster: a setting of the cluster, such as queue=long or tls-ca-file=ca.pem; repeatable.",
    )
    retries: int = option(
        integer_kind(0), default=3, group=LONG, only=WITH_WORKERS, help="With --cluster: how often to retry a unit of work that failed."
    )
    mixed: bool = flag(
        group=LONG,
        only=WITH_WORKERS,
        help="With --cluster: accept workers whose processors compute differently (another BLAS kernel); last digits of the result may "
        "change.",
    )
    checkpoint: str | None = option(path_kind(), metavar="FILE", group=LONG, help="Save the state to this file every minute, for --resume.")
    every: int | None = option(
        integer_kind(1),
        metavar="N",
        group=LONG,
        only=WITH_CHECKPOINT,
        help="With --checkpoint: save every N steps (updates or iterations).  [default: every 60 s]",
    )
    resume: bool = flag(group=LONG, only=WITH_CHECKPOINT, help="Continue from the --checkpoint file, if it exists.")
    trace_file: str | None = option(
        path_kind(),
        "--trace",
        metavar="FILE.jsonl",
        group=LONG,
        help="Write the progress (likelihood, error, …) of every step to this file, one JSON object per line.",
    )
    dry_run: bool = flag(group=LONG, help="Only check the input and estimate time and memory.")
    output: str = option(
        text_kind(),
        "-o",
        "--output",
        default="-",
        shown=False,
        metavar="FILE",
        group=OUTPUT,
        help="File for the result.  [default: stdout]",
    )
    no_clobber: bool = flag("-n", "--no-clobber", group=OUTPUT, help="Do not replace an existing output; exit with code 73.")
    safe_csv: bool = flag(group=OUTPUT, help="CSV and TSV: write ' before names and texts that spreadsheets take for formulas (= + - @).")
    lock: str | None = option(
        path_kind(), metavar="FILE", group=LONG, help="Lock file, for cron: exit at once with code 75 if another run holds it."
    )
    options_file: str | None = option(
        path_kind(),
        "--options",
        metavar="FILE.toml",
        group=INPUT,
        help="Read options from this file, with lines such as seed = 1; those below [fit-rbm] are for that command alone.  Typed options "
        "replace them.",
    )
    quiet: bool = flag("-q", "--quiet", group=OUTPUT, help="Print only errors.")
    verbose: bool = flag("-v", "--verbose", group=OUTPUT, help="Print more on stderr.")
    debug: bool = flag(group=OUTPUT, help="Show a traceback with an error.")
    max_memory: int | None = option(
        SIZE,
        metavar="SIZE",
        group=LONG,
        help="Memory that the command may use, such as 2G; larger inputs are refused or stay on disk.  [default: half of the free memory, "
        "for inputs only]",
    )


DECLARED = dict(declarations(SessionOptions))


def session_option_group(*names: str) -> OptionGroup:
    """Return the decorator that adds these options."""
    return OptionGroup({name: DECLARED[name] for name in names})


def own_shard_option(help: str, *, only: tuple[Condition, ...] | Condition = (), hidden: bool = False) -> OptionGroup:
    """Return a --shard with another meaning than shards of units of work."""
    declared = option(SHARD, metavar="I/N", group=LONG, only=only, hidden=hidden, help=help)
    return OptionGroup({"shard": find_declaration(declared)})
