"""The recurrent temporal RBM: a harmonium for each step, whose biases depend on the hidden means of the step before.

    p(v_t, h_t | r_{t−1}) ∝ exp( b_t·v_t + c_t·h_t + v_t'W h_t ),    b_t = b + r_{t−1}V,   c_t = c + r_{t−1}U,
    r_t = E[h_t | v_t, r_{t−1}] = A'(W'v_t + c_t),

with b_1 = b + b_first and c_1 = c + c_first.  Given the rows before it, a step is an RBM with known biases, so that the
log-likelihood of a sequence is Σ_t log p(v_t | r_{t−1}), each term with a log Z of its own.
Source: Sutskever, Hinton & Taylor (2008); Makin, sec. 3.4.1 and eq. 5.23; V was added here, without it the model is theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from herdcli.errors import BadUsage
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array, array

NAMES = ("W", "U", "V", "b", "c", "b_first", "c_first")


@dataclass
class Parameters:
    """The learned parameters, or arrays of the same shapes: a step along the gradient, or a gradient."""

    W: Array = array("D K", "pair weights", kind="f", finite=True)
    U: Array = array("K K", "what the hidden means of the step before (rows) add to the hidden biases (columns)", kind="f", finite=True)
    V: Array = array("K D", "what they add to the visible biases", kind="f", finite=True)
    b: Array = array("D", "visible biases", kind="f", finite=True)
    c: Array = array("K", "hidden biases", kind="f", finite=True)
    b_first: Array = array("D", "what is added to the visible biases of a sequence's first step", kind="f", finite=True)
    c_first: Array = array("K", "the same of the hidden biases", kind="f", finite=True)

    def map_arrays(self, function: Callable[[Array], Array]) -> Parameters:
        """Apply a function to every array."""
        return Parameters(**{name: function(getattr(self, name)) for name in NAMES})

    def float64(self) -> Parameters:
        """Return the parameters in float64."""
        return self.map_arrays(lambda part: part.astype(np.float64))


@dataclass(frozen=True)
class TimeOrder:
    """Rows of sequences sorted by time: first the first rows of all sequences, the longest sequence first, then all second rows, and so on.

    All rows of one time step are then a slice.
    chosen   (n,) the indices of these rows among the concatenated sequences.      bounds  (T + 1,) the start of each step.
    ranks    (S,) the sequences, the longest first.
    """

    chosen: Array
    bounds: Array
    ranks: Array

    @classmethod
    def from_offsets(cls, offsets: Array) -> TimeOrder:
        """Return the order for sequences whose rows are offsets[s] … offsets[s + 1] − 1, (S + 1,)."""
        lengths = np.diff(offsets)
        ranks = np.argsort(-lengths, kind="stable")
        active = np.searchsorted(np.sort(-lengths), -np.arange(lengths.max()), side="left")
        bounds = np.concatenate([[0], np.cumsum(active)])
        time = np.repeat(np.arange(len(active)), active)
        rank = np.arange(len(time)) - np.repeat(bounds[:-1], active)
        return cls(offsets[:-1][ranks[rank]] + time, bounds, ranks)

    @property
    def count(self) -> int:
        """The number of sequences."""
        return len(self.ranks)

    @cached_property
    def previous_rows(self) -> Array:
        """The index (n − S,) of the row before each row that is not a first one."""
        active = np.diff(self.bounds)[1:]
        shift = np.repeat(self.bounds[:-2] - (self.bounds[1:-1] - self.count), active)
        return np.asarray(np.arange(self.bounds[-1] - self.count) + shift)

    @cached_property
    def last_rows(self) -> Array:
        """The index (S,) of the last row of each sequence, the longest sequence first."""
        lengths = (np.arange(self.count)[None] < np.diff(self.bounds)[:, None]).sum(axis=0)
        return np.asarray(self.bounds[lengths - 1] + np.arange(self.count))

    def to_sequence_order(self, values: Array) -> Array:
        """Return values (n, …) of the rows in the order of the concatenated sequences."""
        found = np.empty_like(values)
        found[self.chosen] = values
        return found


@dataclass(frozen=True)
class SequenceHistory:
    """The history of sequences before their first row: recurrent states (S, K), and which sequences start there, (S,) bool.

    Sequences that start there have no state.
    """

    state: Array
    begins: Array

    @classmethod
    def empty(cls, count: int, hidden: int) -> SequenceHistory:
        """Return the history of sequences that all start at their first row."""
        return cls(np.zeros((count, hidden), dtype=np.float32), np.ones(count, dtype=bool))

    def select(self, ranks: Array) -> SequenceHistory:
        """Return the history of some of the sequences (k,)."""
        return SequenceHistory(self.state[ranks], self.begins[ranks])


@dataclass(frozen=True)
class StepHarmoniums:
    """The harmoniums of all steps, in the order of `TimeOrder`.

    These are recurrent states r (n, K), visible biases b (n, D) and hidden biases c (n, K).
    """

    r: Array
    b: Array
    c: Array


def compute_step_harmoniums(
    p: Parameters, steps: TimeOrder, v: Array, history: SequenceHistory, hidden_mean: Callable[[Array], Array]
) -> StepHarmoniums:
    """Compute the harmoniums of all steps from rows v (n, D) in the order of steps, in the precision of p.

    history  in the order of ranks.  hidden_mean  computes A' of (m, K), which it may overwrite.
    """
    inputs, S = v @ p.W, steps.count
    begins, state = history.begins[:, None], history.state.astype(p.W.dtype)
    r, c, b = np.empty_like(inputs), np.empty_like(inputs), np.empty(v.shape, dtype=p.W.dtype)
    c[:S] = p.c + np.where(begins, p.c_first, state @ p.U)
    b[:S] = p.b + np.where(begins, p.b_first, state @ p.V)
    r[:S] = hidden_mean(inputs[:S] + c[:S])
    for t in range(1, len(steps.bounds) - 1):
        first, end, last = steps.bounds[t - 1], steps.bounds[t], steps.bounds[t + 1]
        np.matmul(r[first : first + last - end], p.U, out=c[end:last])
        c[end:last] += p.c
        r[end:last] = hidden_mean(inputs[end:last] + c[end:last])
    b[S:] = r[steps.previous_rows] @ p.V + p.b
    return StepHarmoniums(r, b, c)


def require_bounded_hidden(hidden: UnitFamily) -> None:
    """Raise BadUsage for hidden units whose means could grow from step to step without bound."""
    if hidden.range is None:
        raise BadUsage(
            f"recurrent hidden units need a bounded range, but {hidden.name} units have none",
            hint="use --hidden-units binary, spin, rate:N or softmax:K",
        )


@dataclass(frozen=True)
class RecurrentModel:
    """A model in float64 with the families of its two layers."""

    p: Parameters
    visible: UnitFamily
    hidden: UnitFamily

    def step_harmoniums(self, v: Array, steps: TimeOrder, history: SequenceHistory) -> StepHarmoniums:
        """Compute the steps' harmoniums for rows v (n, D), all three arrays in the order of the concatenated sequences."""
        found = compute_step_harmoniums(
            self.p, steps, np.asarray(v, dtype=np.float64)[steps.chosen], history.select(steps.ranks), self.hidden.mean
        )
        return StepHarmoniums(steps.to_sequence_order(found.r), steps.to_sequence_order(found.b), steps.to_sequence_order(found.c))

    def unnormalised_log_probability(self, v: Array, harmoniums: StepHarmoniums) -> Array:
        """Compute −F(v_t) (n,) in nats of rows v (n, D) under the harmoniums of their steps."""
        v = np.asarray(v, dtype=np.float64)
        # Σ_h e^{b·v + c·h + v'Wh} = e^{b·v + Σ A(c + W'v)}: the free energy of a harmonium with the step's biases.
        natural = v @ self.p.W + harmoniums.c
        return np.asarray(
            (harmoniums.b * v).sum(axis=1) + self.hidden.log_partition(natural).sum(axis=1) + self.visible.row_log_base_measure(v)
        )
