"""Measures of how well a recurrent temporal RBM explains sequences, and its prediction of the next row.

log p(v_t | r_{t−1}) of every step is exact if a layer can be enumerated; otherwise log Z is annealed at some of the steps.  The expected
row E[v_t | r_{t−1}] is exact if moments can be enumerated, otherwise a mean over Gibbs chains that start at the row before.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.rbm.recurrent.exact_sums import NEAR, enumeration_cost, log_z_per_step, smaller_layer_log2_states, step_expectations
from herdcli.rbm.recurrent.gibbs_chains import gibbs_sweeps
from herdcli.rbm.recurrent.model import RecurrentModel, SequenceHistory, StepHarmoniums, TimeOrder
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

MOST_OPERATIONS, LEAST_STEPS = 3e8, 50  # operations of an evaluation on held-out sequences, and its least number of steps
MOST_MOMENTS = 3e9  # most operations for the moments of expected rows
LOOKED_AT = 200  # rows whose expectations are sampled
CHAINS, SWEEPS, WARM = 20, 50, 20  # for a prediction: number of chains, of sweeps in total, and of first sweeps that are left out
ROWS = 2000  # rows whose chains run in parallel


@dataclass(frozen=True)
class EvaluationSequences:
    """Sequences for evaluation: rows v (n, D) in unit values, the start of each (S + 1,), and which rows count (n,) bool.

    Rows before those that count only determine the recurrent state.  before  the history of each sequence.
    """

    v: Array
    offsets: Array
    counted: Array
    before: SequenceHistory | None = None

    def step_harmoniums(self, model: RecurrentModel) -> StepHarmoniums:
        """Return the harmoniums of all steps."""
        steps = TimeOrder.from_offsets(self.offsets)
        before = self.before or SequenceHistory.empty(steps.count, model.p.c.size)
        return model.step_harmoniums(self.v, steps, before)

    @property
    def previous_row(self) -> Array:
        """The index (n,) of the row before each row in its sequence, −1 if there is none."""
        found = np.arange(len(self.v)) - 1
        found[self.offsets[:-1]] = -1
        return found


def select_steps(harmoniums: StepHarmoniums, step_indices: Array) -> StepHarmoniums:
    """Select some of the steps (k,)."""
    return StepHarmoniums(harmoniums.r[step_indices], harmoniums.b[step_indices], harmoniums.c[step_indices])


def row_log_likelihoods(model: RecurrentModel, v: Array, harmoniums: StepHarmoniums, *, map: Map = map) -> Array:
    """Compute log p(v_t | r_{t−1}) (n,) in nats of rows v (n, D), by enumeration.  Raises BadUsage if both layers are too large for it."""
    return model.unnormalised_log_probability(v, harmoniums) - log_z_per_step(model, harmoniums, map=map)


def validation_criterion(model: RecurrentModel, heldout: EvaluationSequences, seed: int, *, map: Map = map) -> float:
    """Compute the criterion to maximise: the log-likelihood in nats per row of the rows that count, or of as many as can be summed.

    If it cannot be enumerated, the criterion is the pseudo-likelihood.  For units without finitely many values, it is minus the mean
    squared error of the expected rows.
    """
    driven, chosen = heldout.step_harmoniums(model), np.flatnonzero(heldout.counted)
    if smaller_layer_log2_states(model) <= NEAR:
        chosen = select_evenly_spaced(chosen, max(LEAST_STEPS, int(MOST_OPERATIONS / enumeration_cost(model, 1))))
        return float(row_log_likelihoods(model, heldout.v[chosen], select_steps(driven, chosen), map=map).mean())
    if model.visible.has_finite_values:
        chosen = select_evenly_spaced(
            chosen, max(LEAST_STEPS, int(MOST_OPERATIONS / _values_per_unit(model.visible) / 10 / model.p.W.size))
        )
        rows = model.visible.round_to_states(heldout.v[chosen].astype(np.float64))
        return float(row_pseudo_log_likelihoods(model, rows, select_steps(driven, chosen)).mean())
    chosen = select_evenly_spaced(chosen, LOOKED_AT)
    expected = expected_next_rows(model, heldout, driven, chosen, seed, map=map)
    return -float(np.square(heldout.v[chosen] - expected).mean())


def _values_per_unit(units: UnitFamily) -> int:
    """Return the number of values of a unit, of the largest if units differ."""
    return units.group if units.support is None else len(units.support)


def row_pseudo_log_likelihoods(model: RecurrentModel, v: Array, harmoniums: StepHarmoniums) -> Array:
    """Compute Σ_j log p(v_j | all other units of v, r_{t−1}) (n,) in nats of rows v (n, D) in values that units can take."""
    units, W = model.visible, model.p.W
    natural, total = v @ W + harmoniums.c, np.zeros(len(v))
    here = model.hidden.summed_log_partition(natural.copy())
    for unit in range(units.count_units(W.shape[0])):
        own = units.unit_columns(unit)
        b, values, others = harmoniums.b[:, own], v[:, own], np.full(len(v), -np.inf)
        for state in units.unit_values(unit):
            # With unit j at s in place of v_j, W'v changes by (s − v_j) W_j: log of e^{b_j s} base(s) Π_k e^{A_k}.
            moved = model.hidden.summed_log_partition(natural + (state - values) @ W[own])
            others = np.logaddexp(others, moved + b @ state + units.log_base_measure(state))
        total += here + (b * values).sum(axis=1) + units.log_base_measure(values) - others
    return total


def select_evenly_spaced(indices: Array, limit: int) -> Array:
    """Return at most `limit` of the rows (k,), evenly spread."""
    return indices if len(indices) <= limit else indices[np.linspace(0, len(indices) - 1, limit).astype(int)]


def uses_exact_expectations(model: RecurrentModel, steps: int) -> bool:
    """Whether the expected rows of `steps` steps are summed over all states rather than sampled."""
    return smaller_layer_log2_states(model) <= NEAR and enumeration_cost(model, steps) <= MOST_MOMENTS


def expected_next_rows(
    model: RecurrentModel, heldout: EvaluationSequences, harmoniums: StepHarmoniums, row_indices: Array, seed: int, *, map: Map = map
) -> Array:
    """Compute E[v_t | r_{t−1}] (k, D) of the chosen rows (k,), each given the rows before it."""
    own = select_steps(harmoniums, row_indices)
    if uses_exact_expectations(model, len(row_indices)):
        return step_expectations(model, own, map=map).visible
    previous = heldout.previous_row[row_indices]
    start = np.where((previous >= 0)[:, None], heldout.v[previous], model.visible.mean(own.b))
    return estimate_expected_rows(model, own, start, seed, map=map)


def estimate_expected_rows(model: RecurrentModel, harmoniums: StepHarmoniums, start: Array, seed: int, *, map: Map = map) -> Array:
    """Estimate the expected rows of steps (n,) as means over Gibbs chains that start at rows (n, D)."""

    W, layers = model.p.W.astype(np.float32), (model.visible.layer(), model.hidden.layer())

    def block(first: int) -> Array:
        rows = slice(first, first + ROWS)
        draws = generator(seed, Stream.EXPECTED, unit=first)
        b, c, v = (np.repeat(part[rows], CHAINS, axis=0).astype(np.float32) for part in (harmoniums.b, harmoniums.c, start))
        total = np.zeros(v.shape)
        for sweep, (_, means) in enumerate(gibbs_sweeps(W, b, c, v, layers, SWEEPS, draws)):
            if sweep >= WARM:
                total += means
        return np.asarray(total.reshape(-1, CHAINS, v.shape[1]).mean(axis=1) / (SWEEPS - WARM))

    return np.concatenate([np.empty((0, model.p.b.size)), *map(block, range(0, len(start), ROWS))])
