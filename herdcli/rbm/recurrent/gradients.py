"""The gradient of Σ_t log p(v_t | r_{t−1}): the statistics of each step, then backpropagation through time.

The statistics of the two phases of step t are g^b_t = v_t − ⟨v⟩, g^c_t = r_t − ⟨h⟩ and v_t r_t' − ⟨v h'⟩.  Here ⟨·⟩ is an expectation of
the step's harmonium or the end of a Gibbs chain from the row (contrastive divergence).  Source: Makin, eq. 5.20 to 5.24.
"""

from __future__ import annotations

import numpy as np

from herdcli.rbm.recurrent.exact_sums import step_expectations
from herdcli.rbm.recurrent.gibbs_chains import gibbs_sweeps
from herdcli.rbm.recurrent.model import Parameters, RecurrentModel, SequenceHistory, StepHarmoniums, TimeOrder
from herdcli.rbm.units.base import Layer, UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class PhaseDifferences:
    """The differences of the two phases, b (n, D), c (n, K) and W (D, K) summed over the steps, with the reconstruction error.

    The error is the summed squared distance of the rows from E[v | h].
    """

    b: Array
    c: Array
    W: Array
    error: float


def contrastive_phase_differences(
    p: Parameters, harmoniums: StepHarmoniums, v: Array, layers: tuple[Layer, Layer], k: int, draws: np.random.Generator
) -> PhaseDifferences:
    """Compute CD-k of rows v (n, D), with all steps in parallel, since recurrent states depend on the rows alone.  Float32.

    layers  the visible and the hidden one.
    """
    fantasy, error = v.copy(), 0.0
    for sweep, (_, means) in enumerate(gibbs_sweeps(p.W, harmoniums.b, harmoniums.c, fantasy, layers, k, draws)):
        if sweep == 0:
            error = float(np.square(means - v).sum(dtype=np.float64))
    natural = fantasy @ p.W
    natural += harmoniums.c
    layers[1].means(natural, np.zeros_like(p.c))
    return PhaseDifferences(v - fantasy, harmoniums.r - natural, v.T @ harmoniums.r - fantasy.T @ natural, error)


def exact_phase_differences(model: RecurrentModel, harmoniums: StepHarmoniums, v: Array) -> PhaseDifferences:
    """Compute the same differences with exact expectations of the harmoniums, for rows v (n, D) in float64."""
    found = step_expectations(model, harmoniums)
    error = float(np.square(v - model.visible.mean(harmoniums.r @ model.p.W.T + harmoniums.b)).sum())
    return PhaseDifferences(v - found.visible, harmoniums.r - found.hidden, v.T @ harmoniums.r - found.pairs, error)


def backpropagate_through_time(
    p: Parameters,
    steps: TimeOrder,
    v: Array,
    history: SequenceHistory,
    harmoniums: StepHarmoniums,
    phases: PhaseDifferences,
    hidden: UnitFamily,
) -> Parameters:
    """Compute the gradient of the mean over rows v (n, D), all in the order of steps.

    For parameters of first steps only, the mean is over first steps.  history  in the order of ranks; its states are constants.
    """
    n, S = len(v), steps.count
    # r_{t−1} affects step t through the biases, and all later steps through r_t.  The derivatives of all later terms by the hidden biases
    # are e_t = g^c_t + A''(a_t) d_t, and by the states d_{t−1} = U e_t + V g^b_t, d_T = 0 (eq. 5.24); r_t = A'(a_t), a_t = W'v_t + c_t.
    far = phases.b @ p.V.T
    e, d = phases.c.copy(), np.zeros_like(phases.c)
    for t in range(len(steps.bounds) - 2, -1, -1):
        end, last = steps.bounds[t], steps.bounds[t + 1]
        e[end:last] += hidden.mean_change(harmoniums.r[end:last], d[end:last])
        if t:
            first = steps.bounds[t - 1]
            d[first : first + last - end] = e[end:last] @ p.U.T + far[end:last]
    r, on = harmoniums.r[steps.previous_rows], ~history.begins
    state = history.state[on].astype(v.dtype)
    firsts = max(1, int(history.begins.sum()))
    return Parameters(
        W=(phases.W + v.T @ (e - phases.c)) / n,
        U=(r.T @ e[S:] + state.T @ e[:S][on]) / n,
        V=(r.T @ phases.b[S:] + state.T @ phases.b[:S][on]) / n,
        b=phases.b.mean(axis=0),
        c=e.mean(axis=0),
        b_first=phases.b[:S][history.begins].sum(axis=0) / firsts,
        c_first=e[:S][history.begins].sum(axis=0) / firsts,
    )
