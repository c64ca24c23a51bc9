"""The options of `herd kernel-herd`."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from herdcli.cli.frame.history.request import (
    field_recorded_as,
    field_recorded_as_file,
    field_recorded_if_changed,
    field_recorded_if_given,
    input_file_field,
    output_file_field,
)
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    OUTPUT,
    Condition,
    Excludes,
    Needs,
    OneOf,
    When,
    choice_kind,
    flag,
    integer_kind,
    option,
    text_kind,
)
from herdcli.cli.frame.rows.target_files import scores_for_record, target_for_record
from herdcli.cli.kernel_herd.values import BANDWIDTH, EMBEDDING, NORM, SCALE
from herdcli.errors import BadUsage
from herdcli.quadrature.rules.rule_table import TABLE, join_with_conjunction, rules_reading_option
from herdcli.records import dataclass

MADE = ("grid", "sobol", "sample", "cube")  # candidates that are generated, not read from a file
DRAWING = [name for name, rule in TABLE.items() if rule.draws]


def _rule_condition(name: str, refusal: str = "", hint: str | None = None) -> OneOf:
    """Return the condition for options that only some rules use."""
    return OneOf("rule", *rules_reading_option(name), refusal=refusal, hint=hint)


def _rows_target_condition(refusal: str, hint: str | None = None) -> OneOf:
    """Return the condition for options that need the rows as the target."""
    return OneOf("target", "rows", refusal=refusal, hint=hint)


WITH_STEIN, SCORES_REFUSE = (
    "with --kernel {kernel}",
    "{option} does not work with a Stein kernel, whose target is the distribution with these scores",
)
STEIN, DENSITY = Condition("uses_scores", why=WITH_STEIN), Condition("has_density", refusal=SCORES_REFUSE)
APART = "{option} does not work with {other}"
RULE = (
    When(
        _rule_condition("rates"),
        Condition("rates", refusal="--rule {rule} needs step sizes", hint="use --step constant:0.1, or --step FILE"),
    ),
    When(
        STEIN,
        OneOf(
            "rule",
            *(*rules_reading_option("scores"), *DRAWING),
            refusal="--rule {rule} represents the rows, but a Stein kernel represents the distribution of their scores",
            hint="use --rule greedy",
        ),
    ),
    When(
        STEIN,
        OneOf(
            "rule",
            *(name for name in TABLE if name not in DRAWING),
            refusal="--rule {rule} samples from the target, but a Stein kernel knows only its scores",
            hint="use --rule greedy",
        ),
    ),
)
SWAPPED = Needs(
    _rule_condition("refine"),
    "--refine needs atoms of equal weight, but --rule {rule} gives other weights",
    hint=f"use {join_with_conjunction(rules_reading_option('refine'), 'or')}",
)
NOT_UNIQUE = "--unique does not work with --rule {rule}"
UNIQUE = (
    OneOf(
        "rule",
        *(*rules_reading_option("unique"), *(name for name, rule in TABLE.items() if not rule.repeats)),
        refusal=NOT_UNIQUE,
        hint="use greedy, support-points or facility-location",
    ),
    _rule_condition("unique", NOT_UNIQUE, "rules with an active set and rpcholesky never take a candidate twice anyway"),
)
OF_OWN_ROWS, OTHERS = (
    "--rule {rule} chooses among the rows themselves, so it does not work with ",
    "herding, line-search, min-norm-point and rpcholesky",
)
TARGET = (
    Needs(_rule_condition("target"), f"{OF_OWN_ROWS}--distribution", hint=f"{OTHERS} take others"),
    Needs(DENSITY, SCORES_REFUSE),
)
CANDIDATES = (_rule_condition("candidates", f"{OF_OWN_ROWS}--candidates", f"{OTHERS} take others"), DENSITY)
POLISHED = f"--polish works with {join_with_conjunction(rules_reading_option('polish'), 'and')}, without --unique"
POLISH = (
    _rule_condition("polish", POLISHED),
    Excludes("unique", refusal=POLISHED),
    Condition(
        "bounds_all_points",
        refusal="--polish does not work with --embedding fourier, whose bound holds only for the candidates",
        hint="nystrom:R",
    ),
    DENSITY,
)
BLOCK_ROWS = (
    Excludes("by", "candidates", "extend", "polish", refusal=APART),
    _rows_target_condition("--block-rows works only with --distribution rows"),
    _rule_condition(
        "block_rows",
        "--block-rows needs weights that are not negative, but --rule {rule} can give negative ones",
        hint="use --rule herding",
    ),
    DENSITY,
)
LABEL = (
    Excludes("candidates", refusal=APART),
    _rows_target_condition("--label does not work with --distribution"),
    Excludes("block_rows", "polish", refusal=APART),
    Condition("keeps_labels", refusal="--label does not work with --by {by}"),
    DENSITY,
)
CHAINS = Condition(
    "has_one_grouping",
    refusal="--thin-by-chain means --by chain, so --by {by} is not possible",
    hint="leave out --by {by}, or --thin-by-chain",
)
NO_ROWS, LEAVE_OUT = "--thinning-report compares atoms with rows, but the target has no rows", "leave it out"
IN_ONE_RUN, REPORT_HINT = (
    "--thinning-report needs all rows in memory, in one run",
    "leave out --block-rows and --shard, or --thinning-report",
)
REPORT = (
    _rows_target_condition(NO_ROWS, LEAVE_OUT),
    Condition("has_density", refusal=NO_ROWS, hint=LEAVE_OUT),
    Excludes("block_rows", refusal=IN_ONE_RUN, hint=REPORT_HINT),
)
EXACT = (
    shared_options.excludes_exact("trace_projected", "polish"),
    _rows_target_condition("--exact does not work with --distribution", shared_options.WITHOUT_EXACT),
    OneOf("simd", None, refusal="--exact does not work with HERD_SIMD={simd}, which rounds otherwise", hint=shared_options.WITHOUT_EXACT),
)


def _rates_for_record(text: str | None) -> str | None:
    return text if text is None or text.partition(":")[0] == "constant" else "file"


def _candidates_for_record(text: str | None) -> str | None:
    return text if text is None or text.partition(":")[0] in MADE else "file"


IN_SMALL_BLOCKS = "use --block-rows 5000 --embedding exact, which read 5,000 rows at a time"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd kernel-herd`; names and meanings are those of its --help."""

    source: str = input_file_field()
    count: int = option(
        integer_kind(1), "-m", "--count", required=True, help="Number of atoms (points to choose); with --by, in each group."
    )
    rule: str = option(
        choice_kind(*TABLE),
        default="herding",
        shown=False,
        only=RULE,
        help="How atoms are chosen, see Rules above.  herding: equal weights, and the first atoms alone are a good choice too; "
        "min-norm-point: smallest error; others: docs/kernel-herd.md.  "
        "[default: herding; greedy with Stein kernels]",
    )
    init: Literal["nearest", "zero", "mean"] | None = option(
        choice_kind("nearest", "zero", "mean"),
        group=LEARNING,
        only=_rule_condition("init"),
        help="First atom: the candidate nearest to the mean embedding, or the first candidate (zero).  mean: start from the mean embedding "
        "instead of 0, for grids over wide boxes.  [default: nearest for rows, else zero]",
    )
    rates: str | None = option(
        text_kind(),
        "--step",
        metavar="constant:ρ|FILE",
        group=LEARNING,
        record=field_recorded_as(_rates_for_record),
        only=_rule_condition("rates"),
        help="Step sizes of --rule step, from 0 to 1: the constant ρ, or a file with one for each atom.",
    )
    refine: int = option(
        integer_kind(0),
        default=0,
        group=LEARNING,
        only=SWAPPED,
        help="Passes that replace each atom by the candidate that lowers the error most (rules with equal weights).  Try 10 for a small "
        "error with --count equally weighted atoms.",
    )
    unique: bool = flag(only=UNIQUE, help="Choose each row (or candidate) at most once.")
    weights: str = option(
        choice_kind("rule", "uniform", "simplex", "affine", "free"),
        "--atom-weights",
        default="rule",
        group=INPUT,
        help="Weights of the atoms: as --rule computes them (rule), all equal (uniform), or those with the smallest error, which are "
        "non-negative with sum 1 (simplex), have sum 1 (affine), or are unrestricted (free).",
    )
    kernel: str = option(
        text_kind(),
        default="gaussian",
        metavar="NAME[:PARAMETER]",
        help="Kernel: how similar two points are, see Kernels above.  A number after the colon is its length scale, such as gaussian:1.",
    )
    scores: str | None = option(
        text_kind(),
        metavar="FILE|PREFIX",
        record=field_recorded_if_changed(None, scores_for_record),
        only=STEIN,
        help="Gradients of the log density at each row, for Stein kernels: a file, or columns with this prefix.",
    )
    bandwidth: float | Literal["median"] = option(
        BANDWIDTH,
        default="median",
        help="Length scale of the kernel, unless --kernel has one: a number, or the median distance between rows.  Points much closer than "
        "this count as similar.",
    )
    scale: str | tuple[float, ...] = option(
        SCALE,
        default="none",
        help="Divide each column by its standard deviation (std), its range, or a number, S1,S2,….  Use std if columns have different "
        "units.",
    )
    target: str = option(
        text_kind(),
        "--distribution",
        default="rows",
        metavar="rows|NAME[:…]",
        group=INPUT,
        record=field_recorded_as(target_for_record),
        only=TARGET,
        help="What the atoms represent: the rows of INPUT, or without INPUT a distribution: uniform[:LO,HI], gaussian[:MEAN,SD|FILE], "
        "mixture:FILE (of Gaussians), trigonometric:FILE (on [0,1]), signs:FILE (the signs of a Gaussian vector), or moments:FILE "
        "(only mean and second moments); docs/kernel-herd.md says what a FILE holds.",
    )
    dimension: int | None = option(
        integer_kind(1), help="Number of columns of a uniform or gaussian target.  [default: as many as the candidates have, else 1]"
    )
    candidates: str | None = option(
        text_kind(),
        metavar="FILE|grid:N|sobol:N|sample:N|cube:D",
        record=field_recorded_as(_candidates_for_record),
        only=CANDIDATES,
        help="Points that atoms are chosen from: a file, a grid of N values per column, N Sobol points, N draws from the target (sample), "
        "or all states of D two-valued variables (cube).  [default: the rows]",
    )
    norm: str | None = option(
        NORM,
        only=Condition("has_separate_candidates", why="without --candidates and rows"),
        help="With --candidates: how to compute the constant part of the error (the squared norm of the mean embedding), from all pairs "
        "of rows or estimate it from N rows.  [default: exact up to 10,000 rows, then sample:2000]",
    )
    polish: bool = flag(
        group=LEARNING,
        only=POLISH,
        help="Move each chosen point to the best position near it, within the range of the target.",
    )
    label: str | None = option(
        text_kind(),
        metavar="COLUMN[:KERNEL]",
        group=INPUT,
        record=field_recorded_if_changed(None),
        only=LABEL,
        help="Represent the rows together with this label column: --kernel is multiplied by KERNEL, which compares "
        "labels.  [default kernel: hamming for whole numbers and names, else gaussian]",
    )
    by: str | None = option(
        text_kind(),
        metavar="COLUMN",
        group=INPUT,
        help="Choose atoms separately for each value of this column; the kernel's length scale is the same for all.",
    )
    thin_by_chain: bool = flag(
        record=field_recorded_if_changed(False),
        only=CHAINS,
        help="Choose atoms separately for each chain of a sampler: by the column chain, or one file per chain such as 'chain-*.csv'.",
    )
    report: str | None = option(
        text_kind(),
        "--thinning-report",
        metavar="FILE",
        group=OUTPUT,
        record=output_file_field(stdout=True),
        only=REPORT,
        help="Write mean, standard deviation and quantiles of each column to FILE (.csv, or text; -: stdout), for all rows and for the "
        "atoms.",
    )
    row_weight: str | None = option(
        text_kind(),
        metavar="COLUMN",
        group=INPUT,
        only=DENSITY,
        help="Column with the weights of the rows.  [default: weight, if there is one]",
    )
    precision: str = option(
        choice_kind("float64", "float32"),
        default="float64",
        help="Floating-point type for the sums of the mean embedding; float64 is more precise.",
    )
    embedding: str | None = option(
        EMBEDDING,
        record=field_recorded_if_given(),
        only=(Condition("has_density", why=WITH_STEIN), OneOf("target", "rows", why="without rows as the target")),
        help="Mean embedding of the rows: from all pairs (exact), or for many rows approximated by N random rows (sample), R landmark "
        "rows (nystrom) or R random frequencies (fourier).  [default: exact, or nystrom if that is faster]",
    )
    block_rows: int | None = option(
        integer_kind(2),
        group=INPUT,
        only=BLOCK_ROWS,
        help="Read N rows at a time, for more rows than fit into memory; a pipe is read once.",
    )
    block_atoms: int | None = option(
        integer_kind(1),
        only=Condition("block_rows", why="without --block-rows"),
        help="Number of atoms to choose from each block, before the final choice.  [default: 4 times --count]",
    )
    trace_projected: bool = flag(
        help="Also store the error under the best non-negative weights for 1 to --count atoms (about eight numbers per power of ten), for "
        "herd eval --curve.",
    )
    extend: str | None = option(
        text_kind(),
        metavar="ARTIFACT",
        group=INPUT,
        record=field_recorded_as_file(),
        only=_rule_condition("extend", "--rule {rule} cannot continue earlier samples", "choose all --count atoms at once, or use herding"),
        help="Add atoms to the result of an earlier run, up to --count.",
    )
    no_state: bool = flag(group=OUTPUT, help="Leave out the state that --extend needs, for a smaller file.")
    input_format: str | None = shared_options.input_format_option()
    seed: int = shared_options.seed_option()
    exact: bool = shared_options.exact_option(EXACT)
    simd: str | None = field_recorded_if_given(lambda value: value == "avx2+fma")

    def resolve_options(self, typed_options: frozenset[str]) -> Request:
        """Set the rule for Stein kernels, --by chain for --thin-by-chain, and the instruction set if it changes the last bits of sums."""
        from herdcli import fast

        ours = replace(self, rule="greedy") if self.uses_scores and "rule" not in typed_options else self
        ours = replace(ours, by="chain", thin_by_chain=False) if ours.thin_by_chain and ours.by is None else ours
        return replace(ours, simd="avx2+fma") if fast.instruction_set() == "avx2+fma" else ours

    @property
    def has_blocks(self) -> bool:
        """Whether rows of a file could be read in small blocks, but are not."""
        others = (self.by, self.candidates, self.extend, self.polish, self.label, self.report, self.scores)
        able = self.target == "rows" and not any(others) and self.rule != "rpcholesky" and not self.uses_scores
        return self.source != "-" and able and not (self.block_rows and self.embedding == "exact")

    @property
    def roles_recognised_by_name(self) -> frozenset[str]:
        """The column roles that are recognised by their usual names."""
        from herdcli.artifacts.tables.column_roles import ROLES

        if self.label or self.by:
            return ROLES
        return frozenset({"weight"} if self.row_weight == "weight" else ())

    @property
    def uses_scores(self) -> bool:
        """Whether the kernel is a Stein kernel, which needs the scores of the rows."""
        return self.kernel.strip().lower().startswith("stein")

    @property
    def has_density(self) -> bool:
        """Whether more is known of the target than its scores."""
        return not self.uses_scores

    @property
    def has_separate_candidates(self) -> bool:
        """Whether the target is the rows and the atoms are chosen from other points."""
        return self.target == "rows" and bool(self.candidates)

    @property
    def bounds_all_points(self) -> bool:
        """Whether the error bound of an approximate mean embedding also holds at points that are not candidates."""
        return not (self.embedding or "").startswith("fourier")

    @property
    def keeps_labels(self) -> bool:
        """Whether --by, if given, names another column than the labels."""
        return self.by is None or self.by != self.label_column

    @property
    def has_one_grouping(self) -> bool:
        """Whether --by and --thin-by-chain agree: `resolve_options` has replaced --thin-by-chain by --by if only it was given."""
        return not self.thin_by_chain

    @property
    def label_column(self) -> str | None:
        """The column of --label."""
        return None if self.label is None else self.label.partition(":")[0]

    @property
    def label_kernel(self) -> str | None:
        """The kernel that --label names after its column, if any."""
        return None if self.label is None else self.label.partition(":")[2] or None

    @property
    def candidate_kind(self) -> str:
        """The kind of generated candidates (one of MADE), "" for candidates from a file and for rows."""
        kind = (self.candidates or "").partition(":")[0]
        return kind if kind in MADE else ""

    @property
    def candidate_count(self) -> int:
        """The number N of --candidates KIND:N.  Raises BadUsage for other values."""
        text = (self.candidates or "").partition(":")[2]
        if not text.isdecimal() or int(text) < 1:
            raise BadUsage(f"--candidates {self.candidates} needs a number above 0")
        return int(text)

    @property
    def reads_rows(self) -> bool:
        """Whether INPUT is read, as the target or as candidates for a closed-form target."""
        return self.target == "rows" or not (self.candidates or TABLE[self.rule].draws)

    @property
    def atoms_per_block(self) -> int:
        """The number of atoms per block with --block-rows, else per group."""
        return min(self.block_atoms or 4 * self.count, self.block_rows) if self.block_rows else self.count
