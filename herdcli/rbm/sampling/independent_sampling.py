"""Independent samples from a harmonium: states of one layer by their exact weights, then the other layer given them.

A hidden layer of few enough states has  p(h) ∝ Σ_v e^{−E(v, h)},  and v given h is a layer of independent units; or the roles of the
layers are exchanged.  If entries v_O of a row are given, the free ones and h are the harmonium of the free units with hidden
biases c + W_O' v_O.  Two Gaussian layers are one Gaussian, whose hidden part has the precision I − W'W and the mean (I − W'W)⁻¹ (c + W'b).
No chain is run, so that modes have their exact shares however far apart they are.

States are processed in groups.  Each sample holds one state so far, and replaces it by one of the next group with the probability of that
group among all states so far.  Every state is then held with its exact probability: memory does not grow with the number of states.
Source: Chao (1982), for a sample of size one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from itertools import accumulate

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, Map, RunProgress
from herdcli.numerics import exact_arithmetic, symmetric_matrices
from herdcli.rbm.likelihood.enumeration import (
    has_gaussian_layers,
    hidden_log_weight_blocks,
    log2_state_count,
    max_log2_states,
    orient_for_enumeration,
)
from herdcli.rbm.likelihood.unit_states import count_enumerable_units, count_states, decode_state_indices
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs_samples import SampledRows, SamplingProblem, convert_to_lowest_layer, make_gibbs_sweeper
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

GROUP = 1 << 17  # states that are processed together, at least a block of an enumeration
WORK = float(1 << 32)  # states times units of the other layer, a few seconds, above which chains are run instead
OF_A_ROW, BY_LOGARITHMS = 4, 4  # cost of an additional row, and of a unit whose terms are not multiplied, in units of the other layer


@dataclass(frozen=True)
class EnumerationPart:
    """Rows that share one enumeration.

    side    the harmonium of the free units, transposed if necessary so that its hidden layer is enumerated.
    turned  whether it is transposed.
    free    (D,) mask of the free visible units.  extra  (n, K) contribution of each row to the biases of that layer.
    places  for each of the n rows, the indices of its samples among all samples.
    """

    side: Harmonium
    turned: bool
    free: Array
    extra: Array
    places: tuple[Array, ...]

    @property
    def units(self) -> int:
        """The number of units of the enumerated layer; 0 if it has infinitely many states."""
        return self.side.hidden.count_units(self.side.W.shape[1]) if self.side.hidden.has_finite_values else 0

    @property
    def units_per_group(self) -> int:
        """The number of units of which all states are in one group."""
        return count_enumerable_units(self.side.hidden, self.units, GROUP)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return count_states(self.side.hidden, self.units - self.units_per_group, first=self.units_per_group)

    @property
    def enumeration_cost(self) -> float:
        """The number of states times the units of the other layer, plus the cost of rows; for Gaussian layers that of a factorisation."""
        if not self.units:
            return float(len(self.side.c)) ** 3
        each = 1 if self.side.visible.states is not None else BY_LOGARITHMS
        return float(count_states(self.side.hidden, self.units) * (each * len(self.side.b) + OF_A_ROW * len(self.places)))


def plan_enumerations(problem: SamplingProblem) -> tuple[EnumerationPart, ...] | None:
    """Return the enumerations for the rows of a problem; None if one of them has too many states."""
    found = (
        _plan_model_enumerations(problem)
        if problem.given is None
        else _plan_row_enumerations(problem.models[0], np.asarray(problem.given, dtype=np.float32))
    )
    return None if found is None or sum(part.enumeration_cost for part in found) > WORK else tuple(found)


def _plan_model_enumerations(problem: SamplingProblem) -> list[EnumerationPart] | None:
    found = []
    for m, h in enumerate(problem.models):
        side = h if has_gaussian_layers(h) else orient_for_enumeration(h)
        if side is None:
            return None
        places = (np.arange(m * problem.count, (m + 1) * problem.count),)
        everything = np.ones(h.W.shape[0], dtype=bool)
        found.append(EnumerationPart(side, side is not h, everything, np.zeros((1, side.W.shape[1])), places))
    return found


def _plan_row_enumerations(h: Harmonium, partial_rows: Array) -> list[EnumerationPart] | None:
    """Return the parts for rows (n, D), NaN for free entries: rows with the same free entries share an enumeration of hidden states."""
    alike: dict[bytes, list[int]] = {}
    for i, row in enumerate(partial_rows):
        alike.setdefault(row.tobytes(), []).append(i)
    patterns: dict[bytes, list[list[int]]] = {}
    for places in alike.values():
        patterns.setdefault(np.isnan(partial_rows[places[0]]).tobytes(), []).append(places)
    found = []
    for pattern, rows in patterns.items():
        free = np.frombuffer(pattern, dtype=bool)
        if free.any():
            parts = _plan_pattern_enumerations(h, free, partial_rows[[places[0] for places in rows]], [np.array(places) for places in rows])
            if parts is None:
                return None
            found.extend(parts)
    return found


def _plan_pattern_enumerations(h: Harmonium, free: Array, rows: Array, row_indices: list[Array]) -> list[EnumerationPart] | None:
    """Return the parts for rows (n, D) with the same free units: one enumeration of hidden states, or one of free units for each row."""
    own = Harmonium(h.W[free], h.b[free], h.c, h.visible.select_columns(free), h.hidden)
    extra = exact_arithmetic.matrix_product(rows[:, ~free].astype(np.float64), h.W[~free])
    together = [EnumerationPart(own, False, free, extra, tuple(row_indices))]
    if has_gaussian_layers(h):
        return together
    alone = []
    if log2_state_count(own.visible, int(free.sum())) <= max_log2_states(h.hidden):
        for more, draws in zip(extra, row_indices, strict=True):
            side = Harmonium(own.W, own.b, own.c + more, own.visible, h.hidden).transpose()
            alone.append(EnumerationPart(side, True, free, np.zeros((1, side.W.shape[1])), (draws,)))
    if log2_state_count(h.hidden, h.W.shape[1]) > max_log2_states(h.visible):
        return alone or None
    return min(alone or together, together, key=lambda parts: sum(part.enumeration_cost for part in parts))


@dataclass
class IndependentState:
    """For each row the log of the sum of weights so far, and for each sample the number of the state that it holds."""

    totals: Array = array("n", "log weight of the states so far, nats", kind="f")
    chosen: Array = array("N", "number of the state that is held", kind="iu")
    step: int = 0


@dataclass(frozen=True)
class IndependentSampling(FixedLengthAlgorithm[IndependentState]):
    """Independent sampling as an algorithm; a step is a group of states.

    Its result is that of `gibbs_samples.BlockGibbsSampling`.  map: runs over blocks, and over rows.
    """

    problem: SamplingProblem
    parts: tuple[EnumerationPart, ...]
    map: Map = map
    _made: dict[int, tuple[int, int, Callable[[int], Array]]] = field(default_factory=dict, init=False, repr=False, compare=False)
    state = IndependentState  # the type of its states

    @property
    def draws(self) -> int:
        """The number of samples of all models."""
        return len(self.problem.models) * self.problem.count

    @property
    def steps(self) -> int:
        """The number of groups of all parts."""
        return sum(part.groups for part in self.parts)

    def memory(self) -> int:
        """The size of the rows, and of the weights of a group, in bytes."""
        D, K = self.problem.models[0].W.shape
        return int(self.draws * (8 * D + 20 * K + 16) + 32 * GROUP)

    def init(self) -> IndependentState:
        """Return the state before the first group."""
        return IndependentState(np.full(sum(len(part.places) for part in self.parts), -np.inf), np.zeros(self.draws, dtype=np.int64))

    def step(self, state: IndependentState) -> IndependentState:
        """Process the next group."""
        ends = list(accumulate(part.groups for part in self.parts))
        number = int(np.searchsorted(ends, state.step, side="right"))
        part = self.parts[number]
        if part.units:
            self._process_group(state, number, part, state.step - (ends[number] - part.groups))
        state.step += 1
        return state

    def _process_group(self, state: IndependentState, number: int, part: EnumerationPart, group: int) -> None:
        if number not in self._made:
            self._made.clear()
            self._made[number] = hidden_log_weight_blocks(part.side)
        near, _, weights_of = self._made[number]
        blocks = count_states(part.side.hidden, part.units_per_group - near, first=near)
        weights = np.concatenate(list(self.map(weights_of, range(group * blocks, (group + 1) * blocks))))
        first = sum(len(each.places) for each in self.parts[:number])
        list(self.map(partial(self._update_samples, state, part, weights, group, first), range(len(part.places))))

    def _update_samples(self, state: IndependentState, part: EnumerationPart, weights: Array, group: int, first: int, row: int) -> None:
        """Update the samples of one row by a group's log weights (S,)."""
        hidden = part.side.hidden
        if part.extra[row].any():
            near = decode_state_indices(hidden, part.units_per_group, np.arange(len(weights)))
            far = decode_state_indices(hidden, part.units - part.units_per_group, np.array([group]), first=part.units_per_group)[0]
            columns = near.shape[1]
            weights = (
                weights
                + exact_arithmetic.matrix_product(near, part.extra[row, :columns])
                + exact_arithmetic.matrix_product(far, part.extra[row, columns:])
            )
        top = weights.max()
        sums = np.cumsum(exact_arithmetic.exp(weights - top))
        total = top + exact_arithmetic.log(sums[-1])
        state.totals[first + row] = exact_arithmetic.log_add_exp(state.totals[first + row], total)
        share = exact_arithmetic.exp(total - state.totals[first + row])
        draws = generator(self.problem.seed, Stream.SAMPLE, unit=first + row, step=state.step + 1)
        places = part.places[row]
        moved = places[draws.random(len(places)) < share]
        chosen = np.searchsorted(sums, draws.random(len(moved)) * sums[-1], side="right")
        state.chosen[moved] = group * len(weights) + np.minimum(chosen, len(weights) - 1)

    def progress(self, state: IndependentState) -> RunProgress:
        """Return the progress in groups of states."""
        return RunProgress(state.step, self.steps, "states weighed")

    def result(self, state: IndependentState) -> SampledRows:
        """Return the rows (count, D) of each model, carried down to the lowest layer."""
        problem = self.problem
        rows = np.zeros((self.draws, problem.models[0].W.shape[0]), dtype=np.float32)
        if problem.given is not None:
            known = ~np.isnan(problem.given)
            rows[known] = problem.given[known]
        for number, part in enumerate(self.parts):
            _fill_free_entries(problem, part, number, self.steps + 1, state.chosen, rows)
        return SampledRows(convert_to_lowest_layer(problem, list(rows.reshape(len(problem.models), problem.count, -1))))


def _fill_free_entries(problem: SamplingProblem, part: EnumerationPart, number: int, step: int, state_numbers: Array, rows: Array) -> None:
    """Sample the free entries of a part's rows given the chosen states (N,), in place."""
    draws = generator(problem.seed, Stream.SAMPLE, unit=number, step=step)
    places, means = np.concatenate(part.places), problem.means and not problem.below
    if part.units:
        found = decode_state_indices(part.side.hidden, part.units, state_numbers[places]).astype(np.float32)
    else:
        found = _sample_gaussian_states(part, draws)
    sweeper = make_gibbs_sweeper(part.side.transpose() if part.turned else part.side, draws)
    if part.turned and means:
        hidden = np.empty((len(found), len(sweeper.c)), dtype=np.float32)
        sweeper.update_hidden(found, np.empty_like(hidden), hidden)
        sweeper.update_visible(hidden, found)
    elif not part.turned:
        hidden, found = found, np.empty((len(found), len(sweeper.b)), dtype=np.float32)
        sweeper.update_visible(hidden, found if means else np.empty_like(found), None if means else found)
    rows[np.ix_(places, np.flatnonzero(part.free))] = found


def _sample_gaussian_states(part: EnumerationPart, draws: np.random.Generator) -> Array:
    """Sample hidden states (N, K) float32 of two Gaussian layers."""
    h = part.side
    # With the visible units summed out, h has the exponent (c + W'b)·h + |W h|²/2 − |h|²/2.
    L = symmetric_matrices.cholesky(np.eye(len(h.c)) - exact_arithmetic.matrix_product(h.W.T, h.W))
    linear_part = part.extra + h.c + exact_arithmetic.matrix_product(h.b, h.W)
    means = symmetric_matrices.solve_lower(L, symmetric_matrices.solve_lower(L, linear_part.T), transposed=True).T
    noise = exact_arithmetic.standard_normals(draws, (sum(len(places) for places in part.places), len(h.c)))
    # L'⁻¹ z has the covariance (L L')⁻¹.
    spread = symmetric_matrices.solve_lower(L, noise.T, transposed=True).T
    return (np.repeat(means, [len(places) for places in part.places], axis=0) + spread).astype(np.float32)
