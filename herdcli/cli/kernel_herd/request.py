"""What a user asks of `herd kernel-herd`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from herdcli.cli.frame.history.request import as_file, as_recorded, input_file, output_file, unrecorded, where_changed, where_given
from herdcli.cli.frame.rows.target_files import recorded_scores, recorded_target
from herdcli.errors import BadUsage
from herdcli.quadrature.rules.rule_table import TABLE, listed, reading
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session

MADE = ("grid", "sobol", "sample", "cube")  # candidates that no file holds


def _recorded_rates(text: str | None) -> str | None:
    return text if text is None or text.partition(":")[0] == "constant" else "file"


def _recorded_candidates(text: str | None) -> str | None:
    return text if text is None or text.partition(":")[0] in MADE else "file"


IN_SMALL_BLOCKS = "--block-rows 5000 --embedding exact reads 5,000 rows at a time"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd kernel-herd`; names and meanings are those of its --help."""

    source: str = input_file()
    input_format: str | None = unrecorded()
    count: int
    rule: str
    init: Literal["nearest", "zero", "mean"] | None
    rates: str | None = as_recorded(_recorded_rates)
    refine: int
    unique: bool
    weights: str
    kernel: str
    bandwidth: float | Literal["median"]
    scale: str | tuple[float, ...]
    target: str = as_recorded(recorded_target)
    dimension: int | None
    candidates: str | None = as_recorded(_recorded_candidates)
    norm: str | None
    polish: bool
    by: str | None
    row_weight: str | None
    precision: str
    block_rows: int | None
    block_atoms: int | None
    trace_projected: bool
    extend: str | None = as_file()
    no_state: bool
    seed: int
    simd: str | None = where_given(lambda value: value == "avx2+fma")
    embedding: str | None = where_given()
    thin_by_chain: bool = where_changed(False)
    scores: str | None = where_changed(None, recorded_scores)
    exact: bool = where_changed(False)
    label: str | None = where_changed(None)
    report: str | None = output_file()

    def resolved(self, given: frozenset[str]) -> Request:
        """With the rule of Stein's kernels, --by of chains, and the instruction set where its sums differ in their last bits."""
        from herdcli import fast

        ours = replace(self, rule="greedy") if self.uses_scores and "rule" not in given else self
        ours = replace(ours, by="chain", thin_by_chain=False) if ours.thin_by_chain and ours.by is None else ours
        return replace(ours, simd="avx2+fma") if fast.instruction_set() == "avx2+fma" else ours

    @property
    def has_blocks(self) -> bool:
        """Whether rows of a file could be herded in small blocks, and are not."""
        others = (self.by, self.candidates, self.extend, self.polish, self.label, self.report, self.scores)
        able = self.target == "rows" and not any(others) and self.rule != "rpcholesky" and not self.uses_scores
        return self.source != "-" and able and not (self.block_rows and self.embedding == "exact")

    @property
    def default_roles(self) -> frozenset[str]:
        """The roles of columns that are recognised by their usual names."""
        from herdcli.artifacts.tables.column_roles import ROLES

        if self.label or self.by:
            return ROLES
        return frozenset({"weight"} if self.row_weight == "weight" else ())

    @property
    def uses_scores(self) -> bool:
        """Whether the kernel is one of Stein's, which takes the rows' scores."""
        return self.kernel.strip().lower().startswith("stein")

    @property
    def label_column(self) -> str | None:
        """The column of --label."""
        return None if self.label is None else self.label.partition(":")[0]

    @property
    def label_kernel(self) -> str | None:
        """The kernel that --label names after its column, if any."""
        return None if self.label is None else self.label.partition(":")[2] or None

    @property
    def made(self) -> str:
        """Which of MADE the candidates are, "" for those of a file and for rows."""
        kind = (self.candidates or "").partition(":")[0]
        return kind if kind in MADE else ""

    @property
    def candidate_count(self) -> int:
        """The number of --candidates KIND:N.  Raises BadUsage for anything else."""
        text = (self.candidates or "").partition(":")[2]
        if not text.isdigit() or int(text) < 1:
            raise BadUsage(f"--candidates {self.candidates} needs a number above 0")
        return int(text)

    @property
    def reads_rows(self) -> bool:
        """Whether INPUT is read: as the target, or as the candidates of a closed form."""
        return self.target == "rows" or not (self.candidates or TABLE[self.rule].draws)

    @property
    def atoms_per_block(self) -> int:
        """Atoms of each block, where there are blocks, else of each group."""
        return min(self.block_atoms or 4 * self.count, self.block_rows) if self.block_rows else self.count

    def refuse(self) -> None:
        """Raise BadUsage for options that contradict each other."""
        if self.thin_by_chain:
            raise BadUsage("--thin-by-chain is --by chain, and --by is given", hint=f"leave out --by {self.by}, or --thin-by-chain")
        rule = TABLE[self.rule]
        if "rates" in rule.reads and not self.rates:
            raise BadUsage(f"--rule {self.rule} needs step sizes", hint="--step constant:0.1, or --step FILE")
        if self.refine and "refine" not in rule.reads:
            hint = f"use {listed(reading('refine'), 'or')}"
            raise BadUsage(f"--refine swaps atoms of equal weight, and those of --rule {self.rule} are not equal", hint=hint)
        if self.polish and ("polish" not in rule.reads or self.unique):
            raise BadUsage(f"--polish works with {listed(reading('polish'), 'and')}, without --unique")
        if self.unique and "unique" not in rule.reads:
            never = "rules with an active set and rpcholesky never take a candidate twice anyway"
            hint = "use greedy, support-points or facility-location" if rule.repeats else never
            raise BadUsage(f"--unique does not work with --rule {self.rule}", hint=hint)
        for option, value in (("by", self.by), ("candidates", self.candidates), ("extend", self.extend), ("polish", self.polish)):
            if self.block_rows and value:
                raise BadUsage(f"--block-rows does not work with --{option}")
        if self.polish and (self.embedding or "").startswith("fourier"):
            raise BadUsage("--polish does not work with --embedding fourier, whose bound is of the candidates alone", hint="nystrom:R")
        if self.block_rows and self.target != "rows":
            raise BadUsage("--block-rows works only with --target rows")
        self._refuse_of_rows()
        if self.label:
            self._refuse_with_labels()
        if self.uses_scores:
            self._refuse_with_scores()

    def _refuse_of_rows(self) -> None:
        """Raise BadUsage for what rules that thin rows, or that have weights of any sign, cannot do."""
        reads = TABLE[self.rule].reads
        for option, value in (("target", self.target != "rows"), ("candidates", self.candidates)):
            if value and option not in reads:
                known = "herding, line-search, min-norm-point and rpcholesky take others"
                raise BadUsage(f"--rule {self.rule} chooses among the rows it stands for, not with --{option}", hint=known)
        if self.extend and "extend" not in reads:
            raise BadUsage(f"--rule {self.rule} cannot be gone on with", hint="choose all --count atoms at once, or use herding")
        if self.block_rows and "block_rows" not in reads:
            raise BadUsage(
                f"--block-rows needs weights that are not negative, and those of --rule {self.rule} may be", hint="--rule herding"
            )
        if self.uses_scores and "scores" not in reads and not TABLE[self.rule].draws:
            raise BadUsage(f"--rule {self.rule} stands for rows, and a Stein kernel for the law of their scores", hint="--rule greedy")

    def _refuse_with_labels(self) -> None:
        """Raise BadUsage for what rows with their labels are not for."""
        others = (
            ("candidates", self.candidates),
            ("target", self.target != "rows"),
            ("block-rows", self.block_rows),
            ("polish", self.polish),
            (f"by {self.by}", self.by == self.label_column),
        )
        for option, value in others:
            if value:
                raise BadUsage(f"--label does not work with --{option}")

    def _refuse_with_scores(self) -> None:
        """Raise BadUsage for what a law known by its scores has not."""
        typed = (
            ("target", self.target != "rows"),
            ("candidates", self.candidates),
            ("block-rows", self.block_rows),
            ("row-weight", self.row_weight),
            ("polish", self.polish),
            ("label", self.label),
        )
        for option, value in typed:
            if value:
                raise BadUsage(f"--{option} does not work with a Stein kernel, whose target is the law of the scores")
        if TABLE[self.rule].draws:
            raise BadUsage(f"--rule {self.rule} draws from the target, of which a Stein kernel knows only the scores", hint="--rule greedy")

    def warn_of_ignored(self, session: Session) -> None:
        """Warnings for options that do nothing here."""
        reads = TABLE[self.rule].reads
        if "rates" not in reads:
            session.ignored("rates", f"with --rule {self.rule}")
        if "init" not in reads:
            session.ignored("init", f"with --rule {self.rule}")
        if self.target != "rows" or not self.candidates:
            session.ignored("norm", "without --candidates and rows")
        if self.target != "rows" or self.uses_scores:
            session.ignored("embedding", "without rows as the target" if not self.uses_scores else f"with --kernel {self.kernel}")
        if not self.uses_scores:
            session.ignored("scores", f"with --kernel {self.kernel}")
        if not self.block_rows:
            session.ignored("block_atoms", "without --block-rows")
