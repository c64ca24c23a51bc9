"""Maximum of the approximate entropy Σ_R H(P_R) + Σ_r c_r H(P_r) under given marginals, by a double loop that always converges.

The regions are those of the cluster variation method (all intersections of the outer regions, counting numbers 6.25), or a
junction graph (separators with c = −1), for which the solution is that of loopy iterative scaling.  Outer loop: the convex part
c_r H(P_r), c_r < 0, is replaced by its tangent at the present P_r, a lower bound.  Inner loop: the rest is concave, and
is maximised one region or cluster at a time.  If each inner loop is run to convergence, the approximate entropy never decreases from
one outer iteration to the next.  Source: Teh (2003), sec. 6.5; Yuille (2002); Heskes, Albers & Kappen (2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from herdcli import fast
from herdcli.errors import BadUsage
from herdcli.markov.exact import cliques
from herdcli.markov.exact.cliques import ScalingLayout, Scope
from herdcli.markov.learning.ipf import assemble_scaled_factors, impossible_cluster_error
from herdcli.markov.learning.junction_graphs import choose_cliques, multiply_base_into_cliques
from herdcli.markov.learning.learners import LearnedFactors, LearningSettings, SizedLearner, empty_residual
from herdcli.markov.method import ToTolerance
from herdcli.markov.model.constraints import LearningProblem, maximal_scopes
from herdcli.records import dataclass
from herdcli.schema import Array

INNER_SHARE = 0.1  # tolerance of the inner loop, relative to the last residual
INNER_SWEEPS = 1000
MOST_REGIONS = 20_000


@dataclass
class CVMState:
    """Tables of outer regions, λ of every link, values of clusters and inner regions, and the tangent points `old`.

    residual, entropy  one entry per outer iteration.
    counts             numbers of scalings and of agreement updates.
    """

    tables: Array
    multiplier: Array
    values: Array
    old: Array
    residual: Array
    entropy: Array
    counts: Array
    step: int


def find_kikuchi_regions(outer: Sequence[Scope]) -> list[tuple[Scope, list[int], int]]:
    """Return all intersections of outer regions with nonzero counting numbers: (region, the outer regions that contain it, c)."""
    members = [frozenset(scope) for scope in outer]
    found: set[frozenset[int]] = set()
    fresh = set(members)
    while fresh:
        holding: dict[int, list[frozenset[int]]] = {}
        for region in [*members, *found]:
            for i in region:
                holding.setdefault(i, []).append(region)
        near = {(a, b) for a in fresh for i in a for b in holding[i] if a != b}
        fresh = {a & b for a, b in near} - found - set(members)
        found |= fresh
        if len(found) > MOST_REGIONS:
            raise BadUsage(
                f"the outer regions have more than {MOST_REGIONS} intersections, too many for cvm",
                hint="use --algorithm loopy-is, or a smaller --max-clique",
            )
    number: dict[frozenset[int], int] = dict.fromkeys(members, 1)
    result = []
    for region in sorted(found, key=lambda region: (-len(region), sorted(region))):
        # Equation 6.25, larger regions first, because the number of a region depends on those of the larger ones.  Every variable is
        # counted once: Σ c_r = 1 over the regions that contain it.
        number[region] = 1 - sum(c for other, c in number.items() if region < other)
        if number[region]:
            around = [k for k, other in enumerate(members) if region <= other]
            result.append((tuple(sorted(region)), around, number[region]))
    return result


def find_lattice_plaquettes(problem: LearningProblem) -> list[Scope] | None:
    """Return the squares of a lattice, if every cluster is inside one; otherwise None."""
    if problem.shape is None or problem.base_factors or min(problem.shape.tolist()) < 2:
        return None
    at = np.arange(int(np.prod(problem.shape))).reshape(problem.shape)
    squares = np.stack([at[:-1, :-1], at[:-1, 1:], at[1:, :-1], at[1:, 1:]], axis=-1).reshape(-1, 4)
    pairs = {pair for square in squares.tolist() for pair in combinations(square, 2)}
    inside = all(len(c.scope) == 1 or tuple(sorted(c.scope)) in pairs for c in problem.clusters)
    return [tuple(square) for square in squares.tolist()] if inside else None


class ClusterVariation(SizedLearner, ToTolerance[CVMState, LearningSettings]):
    """The algorithm `cvm`, and `loopy-is` with --double-loop; each step is an outer iteration."""

    state = CVMState

    def __init__(self, problem: LearningProblem, settings: LearningSettings) -> None:
        self.problem, self.settings, self.steps = problem, settings, settings.iterations
        self.scopes = [cluster.scope for cluster in problem.clusters]
        squares = (
            find_lattice_plaquettes(problem) if settings.algorithm == "cvm" and not (settings.max_clique or settings.regions) else None
        )
        wanted = (
            squares
            if squares is not None
            else choose_cliques(problem, settings.regions, settings.max_clique, settings.seed, settings.orders)
        )
        if settings.algorithm == "loopy-is":
            graph = cliques.build_junction_graph(wanted)
            self.outer, inner = graph.cliques, [(scope, around, -1) for scope, around in graph.inner()]
        else:
            self.outer = maximal_scopes(wanted)
            inner = find_kikuchi_regions(self.outer)
        self.inner = [(scope, around) for scope, around, _ in inner]
        self.weight = np.array([c for _, _, c in inner], dtype=np.float64)
        widest = max(len(region) for region in self.outer)
        self.note = f"{len(self.outer)} outer regions of at most {widest} variables, {len(self.inner)} inner ones"

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes of the regions' tables, and their purpose in words."""
        return cliques.clique_table_bytes(self.outer, self.inner, self.problem.cardinality, self.scopes), "the regions"

    @cached_property
    def layout(self) -> ScalingLayout:
        """Clusters and inner regions in flat arrays."""
        return cliques.build_scaling_layout(
            self.outer, self.inner, self.problem.cardinality, self.scopes, [c.target for c in self.problem.clusters]
        )

    @cached_property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """A sweep, the first link of each inner region, the start of each link's λ, and work space."""
        made = self.layout
        count = [len(around) for _, around in self.inner]
        first = made.clusters + np.concatenate(([0], np.cumsum(count))).astype(np.int64)
        sizes = np.diff(made.links[5])[made.links[2][made.clusters :]]
        offset = np.concatenate((np.zeros(made.clusters), [0], np.cumsum(sizes))).astype(np.int64)
        program = np.array([*(-1 - r for r in range(len(self.inner))), *range(made.clusters)], dtype=np.int32)
        cells = np.diff(made.links[5])
        largest = max([2 * int(cells.max()), *((n + 1) * int(cells[made.clusters + r]) for r, n in enumerate(count))])
        return program, first, offset, np.empty(largest)

    def init(self) -> CVMState:
        """Return uniform regions, times the factors of the base."""
        made = self.layout
        tables, values = made.uniform_tables(), made.uniform_values()
        multiply_base_into_cliques(made, tables, self.problem)
        multiplier = np.ones(max(1, int(self.arrays[2][-1])))
        return CVMState(tables, multiplier, values, values.copy(), empty_residual(), empty_residual(), np.zeros(2, dtype=np.int64), 0)

    def step(self, state: CVMState) -> CVMState:
        """Maximise under the tangents, then move them."""
        made = self.layout
        program, first, offset, scratch = self.arrays
        last = float(state.residual[-1]) if len(state.residual) else 1.0
        inner = max(0.1 * self.settings.tolerance, INNER_SHARE * min(last, 0.1))
        for _ in range(INNER_SWEEPS):
            # Inner sweep: agreement of the outer regions around each inner one, then the scaling 6.18 of each cluster.
            far, apart, bad = fast.region_updates(
                program,
                first,
                self.weight,
                state.tables,
                state.multiplier,
                offset,
                state.values,
                state.old,
                made.target,
                made.links,
                scratch,
            )
            state.counts += np.array([made.clusters, len(self.inner)])
            if bad >= 0:
                raise impossible_cluster_error(self.problem, int(program[bad]))
            if max(far, apart) <= inner:
                break
        # For c_r < 0, c_r H(P) is convex, and its tangent at P_old, −c_r Σ P log P_old, is a lower bound that is equal to it at P_old.  So
        # maximising with the tangent in its place does not lower the entropy; P_old then moves to the maximum (6.27; Yuille 2002).
        regions = slice(made.scope_cells(made.clusters).start if self.inner else len(state.values), len(state.values))
        change = float(np.abs(state.values[regions] - state.old[regions]).max(initial=0.0))
        state.old[regions] = state.values[regions]
        residual = np.append(state.residual, max(far, apart, change))
        entropy = np.append(state.entropy, self._kikuchi_entropy(state))
        return CVMState(
            state.tables, state.multiplier, state.values, state.old, residual, entropy, state.counts, state.step + 1
        )  # fmt: skip

    def _kikuchi_entropy(self, state: CVMState) -> float:
        """Compute Σ H(P_R) + Σ c_r H(P_r)."""
        made = self.layout
        start = made.scope_cells(made.clusters).start if self.inner else len(state.values)
        sizes = np.diff(made.links[5])[made.clusters :]
        terms = _negative_entropy_terms(state.values[start:]) * np.repeat(self.weight, sizes)
        return -float(_negative_entropy_terms(state.tables).sum()) - float(terms.sum())

    def result(self, state: CVMState) -> LearnedFactors:
        """Return the factors."""
        return assemble_scaled_factors(self.problem, self.layout, state, self.meets_criterion(state))


def _negative_entropy_terms(p: Array) -> Array:
    result: Array = p * np.log(np.where(p > 0, p, 1.0))
    return result
