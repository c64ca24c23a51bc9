"""The options of `herd ups-infer`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from herdcli.cli.frame.history.request import (
    field_recorded_as,
    field_recorded_as_file,
    field_recorded_if_changed,
    input_file_field,
    unrecorded_field,
)
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    Condition,
    Excludes,
    Needs,
    OneOf,
    When,
    choice_kind,
    flag,
    integer_kind,
    number_kind,
    option,
    repeated_option,
    text_kind,
)
from herdcli.cli.ups_infer.values import QUERY, SECONDS, SHARES, SLICES
from herdcli.errors import BadUsage, is_unicode
from herdcli.markov.algorithms.table import ITERATED, OPTIONS, TABLE, algorithms_reading_option
from herdcli.markov.query.query_parsing import FORMS, parse_query
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session

AUTO, JUNCTION_TREE = "auto", "junction-tree"
FORMATS = ("hdf5", "mar", "pr", "map", "csv", "parquet")
REGIONS = ("auto", "edges", "plaquettes")
CLAMPS = ("auto", "rows", "columns", "rows-columns")
OF_AUTO = {  # options that auto reads
    *("orders", "message_passing", "schedule", "damping", "damping_kind", "damping_schedule", "clamp", "regions", "sweeps", "chains"),
    *("effort", "time", "tolerance", "iterations", "on_nonconvergence"),
}
USERS = {option: (*((AUTO,) if option in OF_AUTO else ()), *algorithms_reading_option(option)) for option in OPTIONS}
ONLY = {name: OneOf("algorithm", *users) for name, users in USERS.items()}  # the algorithms that read an option
MARGINALS = Condition("asks_marginals")
BY_TREE = OneOf("algorithm", AUTO, JUNCTION_TREE)
ANY_DIRECTION = OneOf("schedule", "auto", "residual", "sequential", "parallel")
ONE_QUESTION = "--query {query_kind} asks one question, so it does not work with --evidence-rows, --restarts and --shard"
WITHOUT_SLICES = Excludes("slices")
NO_SLICES = Excludes("slices", refusal="--slices does not work with --checkpoint and --shard")
QUESTIONS = (NO_SLICES, Condition("asks_marginals", refusal=ONE_QUESTION))  # conditions under which shards divide the work
RESUMED = (
    NO_SLICES,
    Condition(
        "can_be_resumed", refusal="--algorithm auto does not work with --checkpoint", hint="choose an algorithm, such as --algorithm gibbs"
    ),
)
ALGORITHM = (
    Needs(
        When(MARGINALS, OneOf("algorithm", AUTO, *TABLE)),
        "--algorithm max-product finds the most probable states, not marginals",
        hint="use --query mpe",
    ),
    Needs(
        When(Condition("asks_log_z"), BY_TREE),
        "--query log-z is exact, but --algorithm {algorithm} is not",
        hint="--algorithm {algorithm} --format pr gives its log Z",
    ),
    Needs(Condition("answers_query"), "--query {query_kind} does not work with --algorithm {algorithm}", hint="leave it at auto"),
)
SCHEDULE = (
    ONLY["schedule"],
    Needs(
        When(OneOf("algorithm", "loopy-is"), ANY_DIRECTION),
        "--schedule checkerboard works only with --algorithm bp",
        hint="use --schedule residual",
    ),
)
UNDAMPED = Needs(
    When(ONLY["schedule"], OneOf("schedule", "auto", "sequential", "parallel")),
    "--schedule {schedule} does not work with damping",
    hint="use --schedule sequential or parallel",
)
EVIDENCE_ROWS = (
    Needs(When(WITHOUT_SLICES, MARGINALS), ONE_QUESTION),
    Needs(When(WITHOUT_SLICES, BY_TREE), "--evidence-rows works only with a junction tree, not with --algorithm {algorithm}"),
)
SLICE_ROWS = (
    Needs(Condition("evidence_rows"), "--slices needs the rows of the slices", hint="use --evidence-rows FILE, a row for each slice"),
    Needs(BY_TREE, "--slices works only with junction trees, not with --algorithm {algorithm}"),
    Needs(
        Condition("has_only_row_evidence"),
        "--slices does not work with --query, --evidence, --observe and --soft-evidence",
        hint="write evidence into --evidence-rows",
    ),
)


def _is_list_of_assignments(value: object) -> bool:
    """Return whether a recorded value is a list of NAME=STATE."""
    return isinstance(value, list) and all(isinstance(each, str) and "=" in each and is_unicode(each) for each in value)


def _clamp_for_record(value: str) -> str:
    """Return the record of --clamp: "file" for a file, whose content is recorded among the inputs."""
    return value if value in CLAMPS else "file"


def _regions_for_record(value: str) -> str:
    """Return the record of --regions: "file" for a file, whose content is recorded among the inputs.

    Old records say `edges` instead of `auto`, from when there was no other choice.
    """
    return value if value in REGIONS or value.startswith("cliques:") else "file"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd ups-infer`; names and meanings are those of its --help."""

    source: str = input_file_field()
    format: str | None = shared_options.output_format_option(*FORMATS)
    algorithm: str = option(
        choice_kind(AUTO, *TABLE, "max-product"),
        default=AUTO,
        group=LEARNING,
        only=ALGORITHM,
        help="Inference algorithm.  auto: exact if that fits into memory; else gbp, bp, tree-ep, tempered-gibbs and ups are run, and the "
        "result that agrees best with the others is kept.  Exact: junction-tree, frontier, enumerate; "
        "sampling: gibbs, tempered-gibbs; most probable states: max-product.  The page "
        "docs/ups.md explains each.",
    )
    tolerance: float = option(
        number_kind(0, open_low=True),
        default=1e-9,
        group=LEARNING,
        only=ONLY["tolerance"],
        help="Converged: no message or marginal changes by more than this in an iteration.",
    )
    orders: int = option(
        integer_kind(1),
        default=8,
        only=ONLY["orders"],
        help="Number of elimination orders that junction-tree tries; up to eight times as many if its tables are large.",
    )
    message_passing: str = option(
        choice_kind("hugin", "shafer-shenoy"),
        default="hugin",
        only=ONLY["message_passing"],
        help="How junction-tree passes messages: multiply them into the clique tables and divide them out again (hugin), or "
        "store them separately (shafer-shenoy).",
    )
    schedule: str = option(
        choice_kind("auto", "residual", "sequential", "parallel", "checkerboard"),
        default="auto",
        group=LEARNING,
        only=SCHEDULE,
        help="Order of the updates of bp and loopy-is; auto: residual (largest change first), sequential for many messages, checkerboard "
        "for large grids.",
    )
    damping: float = option(
        number_kind(0, 1, open_high=True),
        default=0.0,
        group=LEARNING,
        only=(ONLY["damping"], Needs(Excludes("damping_schedule"), "--damping and --damping-schedule exclude each other"), UNDAMPED),
        help="Weight of the old message in each update, from 0 to 1; try 0.5 if the iteration does not converge.",
    )
    damping_schedule: tuple[float, ...] | None = option(
        SHARES,
        metavar="D,D…",
        group=LEARNING,
        only=(ONLY["damping_schedule"], UNDAMPED),
        help="Increase the damping of bp and loopy-is until they converge: each of these values for an equal part of --iterations.",
    )
    damping_kind: str = option(
        choice_kind("geometric", "linear"),
        default="geometric",
        group=LEARNING,
        only=(ONLY["damping_kind"], Condition("is_damped", why="without --damping")),
        help="With --damping: how old and new messages are averaged.",
    )
    clamp: str = option(
        text_kind(),
        default="auto",
        metavar="auto|rows|columns|rows-columns|FILE",
        record=field_recorded_as(_clamp_for_record),
        only=ONLY["clamp"],
        help="Sets of variables that ups clamps in turn, each of which must leave a forest.  auto: chosen by herd, with Newton steps in "
        "between; FILE: one set per line; all but auto run the plain algorithm of the paper.",
    )
    restarts: int = option(
        integer_kind(0),
        default=0,
        group=LEARNING,
        only=(
            ONLY["restarts"],
            Needs(MARGINALS, ONE_QUESTION),
            Needs(ANY_DIRECTION, "--schedule checkerboard does not work with --restarts", hint="use --schedule residual"),
        ),
        help="Number of further runs from random starts.  The run with the lowest free energy is the result; it also lists the free "
        "energies of all fixed points found.",
    )
    linear_response: bool = flag(
        only=ONLY["linear_response"], help="Also compute covariances by linear response (bp, ups, belief-optimization, mean-field, tap)."
    )
    regions: str = option(
        text_kind(),
        default="auto",
        metavar="auto|edges|plaquettes|cliques:K|FILE",
        group=INPUT,
        record=field_recorded_as(_regions_for_record),
        only=ONLY["regions"],
        help="Regions of double-loop and gbp; larger ones are more accurate and slower.  edges: the factors; plaquettes: also loops of "
        "three and four variables; cliques:K: parts of a junction tree of at most K variables; FILE: one region per line.  auto: "
        "plaquettes with --algorithm auto, else edges.",
    )
    time: float | None = option(
        SECONDS,
        metavar="20s",
        record=unrecorded_field(),
        only=ONLY["time"],
        help="Time that auto may spend, instead of --effort; the result records the --effort that reproduces it.",
    )
    effort: float = option(
        number_kind(0),
        default=500.0,
        metavar="N",
        record=field_recorded_if_changed(500.0),
        only=ONLY["effort"],
        help="Work that auto may spend on approximations, in millions of visited table cells, so that results are the same on every "
        "machine.  It also limits branch and bound: to N for --query mpe, 10 N for mmap.",
    )
    iterations: int = shared_options.iterations_option(only=ONLY["iterations"])
    on_nonconvergence: str = shared_options.nonconvergence_option(only=ONLY["on_nonconvergence"])
    sweeps: int = option(
        integer_kind(2),
        default=10_000,
        group=LEARNING,
        only=ONLY["sweeps"],
        help="gibbs and tempered-gibbs: number of sweeps to average over, after --burn-in.",
    )
    burn_in: int = option(
        integer_kind(0),
        default=1000,
        group=LEARNING,
        only=ONLY["burn_in"],
        help="gibbs and tempered-gibbs: number of first sweeps to discard.",
    )
    annealing: int = option(
        integer_kind(0),
        default=0,
        group=LEARNING,
        only=ONLY["annealing"],
        help="Number of burn-in sweeps during which gibbs cools to temperature 1, to leave local modes.",
    )
    chains: int = option(
        integer_kind(2),
        default=8,
        group=LEARNING,
        only=ONLY["chains"],
        help="Number of Gibbs chains; tempered-gibbs rounds it up to an even number.",
    )
    query: str = option(
        QUERY,
        default="marginals",
        metavar="QUERY",
        record=field_recorded_if_changed("marginals"),
        help=f"Question to answer: {FORMS}.  mpe: the most probable states of all variables (MAP in UAI); mmap: those of some "
        "variables, with the others summed out; joint: joint table of some variables; bounds: lower and upper bound on log Z; "
        "sensitivity: derivatives of P(A=STATE) by every cell of every factor; dsep: does the graph separate A and B given C; "
        "independent: all variables that it separates from A.",
    )
    search_steps: int = option(
        integer_kind(0),
        default=50,
        record=field_recorded_if_changed(50),
        only=Condition("searches_states", why="with --query {query_kind}"),
        help="Number of local search steps of max-product from the best states it has found.",
    )
    bucket_cells: int = option(
        integer_kind(1),
        default=4096,
        record=field_recorded_if_changed(4096),
        only=Condition("asks_bounds", why="with --query {query_kind}"),
        help="Largest table of --query bounds, in cells (mini-bucket elimination); larger ones give tighter bounds.",
    )
    solver: str = option(
        choice_kind("herd", "toulbar2"),
        default="herd",
        record=field_recorded_if_changed("herd"),
        only=Condition("asks_most_probable_states", why="without --query mpe"),
        help="Solver of --query mpe; toulbar2 needs pytoulbar2 (pip install 'herdcli[toulbar2]') and stops after --time.",
    )
    evidence_rows: str | None = option(
        text_kind(),
        metavar="FILE",
        group=INPUT,
        record=field_recorded_as_file(),
        only=EVIDENCE_ROWS,
        help="Table with a row of evidence for each query and a column for each variable: states or their names; −1 or empty if unknown.  "
        "The result is a table of marginals.",
    )
    slices: str | None = option(
        SLICES,
        metavar="filtering|prediction:K|lag:L|smoothing",
        record=field_recorded_if_changed(None),
        only=SLICE_ROWS,
        help="For dynamic Bayesian networks (templates of two slices, variables X_0 and X_t): marginals of each slice, of which "
        "--evidence-rows has one row each, given the rows so far (filtering), of the slice K later (prediction), given L more rows (lag), "
        "or given all rows (smoothing).",
    )
    evidence: str | tuple[str, ...] | None = repeated_option(  # as typed: files and states; once resolved: the file
        text_kind(),
        metavar="FILE|NAME=STATE",
        group=INPUT,
        record=field_recorded_as_file(),
        help="Observed state of a variable, such as rain=yes, or a file of them: one NAME=STATE per line, UAI evidence, JSON or CSV.  May "
        "be repeated.",
    )
    evidence_states: tuple[str, ...] = field_recorded_if_changed((), allowed=lambda value: _is_list_of_assignments(value))
    observe: tuple[str, ...] = repeated_option(
        text_kind(),
        metavar="X=P,P…",
        group=INPUT,
        help="Fix the marginal of a variable: one probability per state, such as x3=0.2,0.8.  May be repeated.",
    )
    likelihood: tuple[str, ...] = repeated_option(
        text_kind(),
        "--soft-evidence",
        metavar="X=L,L…",
        help="Uncertain observation of a variable: one likelihood per state, such as x3=1,4 if it is four times as likely in state 1 as "
        "in state 0.  May be repeated.",
    )
    ignore_observed: bool = flag(help="Ignore the observed marginals that are stored with the network.")
    output_marginals: str = option(
        choice_kind("all", "nodes"),
        default="all",
        record=field_recorded_if_changed("all"),
        help="Marginals to store: of variables and cliques (all), or of variables alone (nodes), a much smaller file for large networks.",
    )
    input_format: str | None = shared_options.network_format_option()
    missing_rows: str = shared_options.missing_rows_option()
    seed: int = shared_options.seed_option()

    def resolve_options(self, typed_options: frozenset[str]) -> Request:
        """Separate the file of --evidence from the arguments NAME=STATE.  Raises BadUsage for a second file."""
        typed = self.evidence if isinstance(self.evidence, tuple) else ()
        states = tuple(text for text in typed if "=" in text and not Path(text).exists())
        files = [text for text in typed if text not in states]
        if len(files) > 1:
            raise BadUsage(f"--evidence names two files, {files[0]} and {files[1]}", hint="give one file; NAME=STATE may be repeated")
        return replace(self, evidence=files[0] if files else None, evidence_states=states)

    @property
    def query_kind(self) -> str:
        """The kind of the query, without the variables that it names."""
        return parse_query(self.query).kind

    @property
    def asks_marginals(self) -> bool:
        """Whether the query is for marginals, the default."""
        return self.query == "marginals"

    @property
    def asks_most_probable_states(self) -> bool:
        """Whether the query is for the most probable states of all variables."""
        return self.query == "mpe"

    @property
    def asks_log_z(self) -> bool:
        """Whether the query is for log Z alone."""
        return self.query == "log-z"

    @property
    def asks_bounds(self) -> bool:
        """Whether the query is for bounds on log Z."""
        return self.query == "bounds"

    @property
    def searches_states(self) -> bool:
        """Whether the query is for most probable states of all or some variables."""
        return self.query_kind in ("mpe", "mmap")

    @property
    def answers_query(self) -> bool:
        """Whether the algorithm can answer the query."""
        return (
            self.asks_marginals
            or self.algorithm in (AUTO, JUNCTION_TREE)
            or (self.asks_most_probable_states and self.algorithm == "max-product")
        )

    @property
    def can_be_resumed(self) -> bool:
        """Whether no algorithm is chosen during the run."""
        return self.algorithm != AUTO or not self.asks_marginals or self.evidence_rows is not None

    @property
    def is_damped(self) -> bool:
        """Whether messages are damped."""
        return self.damping != 0 or bool(self.damping_schedule)

    @property
    def has_only_row_evidence(self) -> bool:
        """Whether the query is for marginals, and rows are the only evidence."""
        return self.asks_marginals and not (self.evidence or self.evidence_states or self.observe or self.likelihood)

    def warn_of_exact_tree(self, session: Session, observed: bool) -> None:
        """Warn that limits on iterations have no effect with a junction tree, unless there are observed marginals."""
        for name in ITERATED if self.algorithm == JUNCTION_TREE and not observed else ():
            session.warn_of_ignored_option(name, f"with --algorithm {self.algorithm}")
