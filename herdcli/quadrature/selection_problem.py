"""The selection problem: groups of candidates with their targets, the results of each group, and the state of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.quadrature.embeddings import nystrom, random_fourier
from herdcli.quadrature.embeddings.approximation import EmbeddingApproximation, EmbeddingErrorBounds
from herdcli.quadrature.kernels import kernel_sums
from herdcli.quadrature.kernels.kernel_functions import Kernel
from herdcli.quadrature.kernels.kernel_sums import EmbeddingState
from herdcli.quadrature.kernels.point_sums import depends_on_moments
from herdcli.quadrature.rules import (
    active_set,
    facility_location,
    kernel_thinning,
    min_norm_point,
    pivoted_cholesky,
    sequential_rules,
    support_points,
    swap_refinement,
)
from herdcli.quadrature.rules.local_search import SearchBox
from herdcli.quadrature.rules.rule import load_rule
from herdcli.quadrature.samples import Continuation, Samples
from herdcli.quadrature.targets import RowTarget, Target
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array


@dataclass(frozen=True)
class SelectionSettings:
    """The settings of a selection: the rule and its settings (sequential_rules.RuleSettings), swap passes, precision of the embedding.

    norm       number of rows from which ‖μ‖² is estimated if the candidates are not the rows; 0: from all pairs.
    embedding  approximation of μ for large groups of rows; None: always exact.
    """

    rule: sequential_rules.RuleSettings = field(default_factory=sequential_rules.RuleSettings)
    refine: int = 0
    precision: str = "float64"
    norm: int = 0
    embedding: EmbeddingApproximation | None = None


@dataclass(frozen=True)
class SelectionGroup:
    """One target, its candidates (N, d) (None: the target's rows), the number of atoms, and a state to continue from."""

    target: Target
    candidates: Array | None
    count: int
    polish: SearchBox | None = None
    start: Continuation | None = None

    @property
    def points(self) -> Array:
        """The candidates (N, d)."""
        if self.candidates is not None:
            return self.candidates
        return self.target.X if isinstance(self.target, RowTarget) else np.zeros((0, self.target.dimension))


@dataclass(frozen=True)
class SelectionProblem:
    """The groups of a selection under one kernel.

    numbers  the numbers of these groups among all groups; they determine the random numbers.  None: these are all groups.
    """

    kernel: Kernel
    groups: tuple[SelectionGroup, ...]
    settings: SelectionSettings
    numbers: Sequence[int] | None = None

    def global_number(self, g: int) -> int:
        """Return the number of group g among all groups, including those of other shards."""
        return g if self.numbers is None else self.numbers[g]

    def part(self, groups: Sequence[int]) -> SelectionProblem:
        """Return the problem of some of the groups, whose atoms are the same as among all."""
        if len(groups) == len(self.groups):
            return self
        return replace(self, groups=tuple(self.groups[g] for g in groups), numbers=[self.global_number(g) for g in groups])

    @property
    def group_count(self) -> int:
        """The number of groups to process."""
        return len(self.groups)


@dataclass
class GroupResult:
    """The result of one group: atoms (m, d) with index, weight by the rule, μ and traces; and its state."""

    ended: str
    norm: float
    spread: float  # E k(x,x) − ‖μ‖²
    index: Array = array("m", "candidate or −1", kind="i")
    atoms: Array = array("m d", "points", kind="f")
    weight: Array = array("m", "the rule's weights", kind="f")
    embedding: Array = array("m", "μ at the atoms", kind="f")
    mmd: Array = array("m", "trace", kind="f")
    gap: Array = array("m", "trace", kind="f")
    rate: Array | None = array("m", "step sizes", kind="f", optional=True)
    passes: Array | None = array("q", "MMD before and after each swap pass", kind="f", optional=True)
    state: Continuation | None = None
    norm_error: float | None = None  # standard error of an estimated ‖μ‖²
    added: EmbeddingErrorBounds | None = None  # error bounds of an approximate embedding


@dataclass
class SelectionState:
    """The state of a selection.

    `step` counts steps of all phases of all groups; `phase` is one of PHASES and began at step `begun`.
    """

    step: int
    group: int
    phase: str
    begun: int
    sums: list[EmbeddingState]
    sequence: sequential_rules.SequenceState | None
    active: active_set.ActiveSetState | None
    hull: min_norm_point.MinNormPointState | None
    swap: swap_refinement.SwapState | None
    done: list[GroupResult]
    thinned: kernel_thinning.ThinningState | None = None
    pivoted: pivoted_cholesky.CholeskyState | None = None
    supported: support_points.SupportState | None = None
    located: facility_location.FacilityState | None = None
    # fields that differ from group to group
    grows: ClassVar[tuple[str, ...]] = ("sums", "sequence", "active", "hull", "swap", "done", "thinned", "pivoted", "supported", "located")

    def validate(self) -> None:
        """Raise DataError for an unknown phase."""
        if self.phase not in PHASES or self.group < 0 or not 0 <= self.begun <= self.step:
            raise DataError(
                f"is damaged: phase '{self.phase}' of group {self.group} begins at step {self.begun}, but the run is at step {self.step}"
            )


def final_mmd_bound(result: GroupResult) -> float:
    """Return the MMD of a group's atoms plus the bound of an approximate embedding's error."""
    found = float(result.mmd[-1] if result.passes is None else result.passes[-1])
    return found if result.added is None else found + result.added.mmd_error_bound(found, result.weight)


def resume_groups(
    groups: list[SelectionGroup], earlier: Samples, rule: str, kernel: str, scale: Array, norm: int = 0
) -> list[SelectionGroup]:
    """Return groups that continue from earlier samples, in columns divided by scale (d,).

    Raises BadUsage unless the samples have the same rule, kernel, scale and candidates.
    """
    states = earlier.state
    if not states:
        raise BadUsage(
            "the samples cannot be continued, because the file has no saved state",
            hint="make them again without --no-state and without --block-rows",
        )
    if (earlier.rule, earlier.kernel) != (rule, kernel):
        raise BadUsage(
            f"the samples were made with {earlier.rule} and {earlier.kernel}, not with {rule} and {kernel}",
            hint="use the --rule and --kernel with which they were made",
        )
    if earlier.summary is not None and (earlier.summary.norm_error is None) == any(is_norm_estimated(group, norm) for group in groups):
        raise BadUsage(
            "the samples were made with another --norm, so ‖μ‖² would be exact for one part and estimated for the other",
            hint="use the --norm with which they were made",
        )
    if len(states) != len(groups):
        raise BadUsage(f"the samples have {len(states)} groups, but the rows have {len(groups)}")
    found = []
    for number, (group, state) in enumerate(zip(groups, states, strict=True)):
        if len(state.embedding) != len(group.points):
            raise BadUsage(f"the samples were chosen from {len(state.embedding)} candidates, but now there are {len(group.points)}")
        saved = state.sequence
        if saved is not None:
            chosen = np.flatnonzero(saved.index[: saved.step] >= 0)
            if not np.array_equal(group.points[saved.index[chosen]], saved.atoms[chosen]):
                raise BadUsage(f"the atoms of group {number} are not among the candidates", hint="give the rows from which they were made")
        elif not _are_same(earlier.x[earlier.group_positions(number)], group.points[_active_candidate_indices(state), : len(scale)], scale):
            raise BadUsage(f"the atoms of group {number} are not among the candidates", hint="give the rows from which they were made")
        found.append(replace(group, start=state))
    return found


def _are_same(atoms: Array, points: Array, scale: Array) -> bool:
    """Whether atoms are these scaled points; in artifacts of earlier versions they are the points times scale, up to rounding."""
    return np.array_equal(atoms / scale, points) or np.array_equal(atoms, points * scale)


def _active_candidate_indices(state: Continuation) -> Array:
    """Return the candidates in use in a saved active set."""
    if state.hull is not None:
        return state.hull.hull.ids[: state.hull.hull.size]
    return np.zeros(0, np.int64) if state.active is None else state.active.index[: state.active.size]


PHASES = ("embedding", "rule", "swap")


def phase_lengths(problem: SelectionProblem, group: SelectionGroup) -> tuple[int, int, int]:
    """Return the number of steps of each phase of a group."""
    sums = sum(steps for steps, _ in embedding_step_costs(problem, group))
    own, count = load_rule(problem.settings.rule.rule), group.count
    return sums, own.steps(len(group.points), count), own.count_swap_passes(problem.settings.refine) * count


def group_approximation(problem: SelectionProblem, group: SelectionGroup) -> EmbeddingApproximation | None:
    """Return the approximation of a group's embedding; None if it is exact.

    It is exact for few pairs, closed forms, moments, and a saved state.
    """
    chosen, target = problem.settings.embedding, group.target
    if chosen is None or not isinstance(target, RowTarget) or depends_on_moments(problem.kernel) or group.start is not None:
        return None
    return chosen if chosen.is_suitable(len(group.points), *target.X.shape) else None


def embedding_step_costs(problem: SelectionProblem, group: SelectionGroup) -> list[tuple[int, int]]:
    """Return (steps, kernel values or the equivalent cost) of the sums of a group's embedding in sequence."""
    chosen, kernel = group_approximation(problem, group), problem.kernel
    if chosen is None or not isinstance(group.target, RowTarget):
        return [(kernel_sums.count_steps(kernel, *pair), pair[0] * pair[1]) for pair in kernel_sum_sizes(problem, group)]
    points, rows, size = len(group.points), len(group.target.X), chosen.size
    if chosen.kind == "fourier":
        return [(random_fourier.count_steps(size, count), 4 * count * size) for count in (rows, points)]
    if chosen.kind == "nystrom":
        own = min(size, int(np.count_nonzero(group.target.weights)))
        first = nystrom.count_steps(own, rows), rows * (own + nystrom.rows_per_block(own) // 2)
        return [first, (kernel_sums.count_steps(kernel, points, own), points * own)]
    return [(kernel_sums.count_steps(kernel, count, size), count * size) for count in (points, size)]


def is_norm_estimated(group: SelectionGroup, norm: int) -> bool:
    """Whether ‖μ‖² of a group is estimated."""
    return norm > 0 and group.candidates is not None and isinstance(group.target, RowTarget)


def kernel_sum_sizes(problem: SelectionProblem, group: SelectionGroup) -> list[tuple[int, int]]:
    """Return the sizes (points, rows) of the sums of k: at the candidates, and for ‖μ‖² at all or some of the rows.

    The second is needed only if the candidates are not the rows.
    """
    target = group.target
    if not isinstance(target, RowTarget) or depends_on_moments(problem.kernel):
        return []
    n, norm = len(target.X), problem.settings.norm
    at = [] if group.start is not None else [(len(group.points), n)]
    if is_norm_estimated(group, norm):
        return [*at, (norm, n)]
    return at if group.candidates is None or not at else [*at, (n, n)]


def kernel_sum_inputs(problem: SelectionProblem, group: SelectionGroup, number: int) -> list[tuple[Array, Array]]:
    """Return the points (n, d) and rows (N, d) of `kernel_sum_sizes`."""
    target = group.target
    if not isinstance(target, RowTarget):
        raise TypeError(target.name)
    points = [group.points] if group.start is None else []
    if is_norm_estimated(group, problem.settings.norm):
        points.append(target.X[sample_norm_rows(problem, target, number)])
    elif group.candidates is not None:
        points.append(target.X)
    return [(at, target.X) for at in points]


def sample_norm_rows(problem: SelectionProblem, target: RowTarget, number: int) -> Array:
    """Sample the rows (norm,) from which ‖μ‖² is estimated, by their weights."""
    return target.draw(generator(problem.settings.rule.seed, Stream.NORM, unit=number), problem.settings.norm)
