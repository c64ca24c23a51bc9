"""Deep belief networks: harmoniums learned layer by layer, and the bound on their likelihood.

Layer l + 1 learns from hidden states of layer l sampled given its rows.  If its hidden units have the same family as layer l's
visible ones and are at least as many, it starts with layer l's weights transposed and further units without weights.  Then its
distribution of layer l's hidden units is the same as layer l's, and the bound starts at layer l's log-likelihood.

    log p(v) ≥ −F_1(v) + Σ_l E_q[F'_l(h_l) − F_{l+1}(h_l)] − log Z_L,       q(h_l | h_{l−1}) of harmonium l,

F_l is the free energy of harmonium l's visible units and F'_l that of its hidden units; the Z of all but the last cancel.
Source: Hinton, Osindero & Teh (2006), sec. 4; Salakhutdinov & Murray (2008), sec. 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, field, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, HasStateShapes, Map, RunProgress
from herdcli.errors import BadUsage
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.likelihood.row_likelihood import row_blocks, rows_per_block
from herdcli.rbm.model import RBM, Harmonium, LearningCurves
from herdcli.rbm.settings import Settings
from herdcli.rbm.units import unit_family
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array


@dataclass
class FinishedLayer:
    """A layer that has been learned."""

    W: Array = array("D K", "pair weights", kind="f", finite=True)
    b: Array = array("D", "visible biases", kind="f", finite=True)
    c: Array = array("K", "hidden biases", kind="f", finite=True)
    trace: Array = array("E", "reconstruction error of each epoch", kind="f")


@dataclass
class StackingState:
    """The layer that is being learned, and the finished ones."""

    grows: ClassVar[tuple[str, ...]] = ("current",)  # each layer has its own shapes
    step: int
    current: parallel_fits.LearningState
    finished: list[FinishedLayer] = field(default_factory=list)


@dataclass(frozen=True)
class StackingProblem:
    """Rows (n, D) in unit values, the numbers of hidden units of the layers to learn, and their common settings.

    below  finished layers below these, the lowest first.
    """

    rows: Array
    sizes: tuple[int, ...]
    settings: Settings
    below: tuple[Harmonium, ...] = ()
    _layers: dict[int, parallel_fits.LearningProblem] = field(default_factory=dict, init=False, repr=False, compare=False)

    def layer_settings(self, index: int) -> Settings:
        """Return the settings of one layer to learn."""
        first = self.settings.visible_units if not self.below else self.below[-1].hidden.name
        return replace(self.settings, hidden=self.sizes[index], visible_units=self.settings.hidden_units if index else first)

    def layer_problem(self, finished: Sequence[FinishedLayer]) -> parallel_fits.LearningProblem:
        """Return the learning problem above the finished layers; it is cached while it is used."""
        index = len(finished)
        if index not in self._layers:
            self._layers.clear()
            settings = self.layer_settings(index)
            models = [*self.below, *(self.harmonium(part, number) for number, part in enumerate(finished))]
            rows = sample_top_hidden_states(models, self.rows, settings.seed)
            start = transposed_initial_weights(models[-1], settings) if models else None
            self._layers[index] = parallel_fits.LearningProblem([rows], settings, start=start)
        return self._layers[index]

    def harmonium(self, finished_layer: FinishedLayer, index: int) -> Harmonium:
        """Return a finished layer in float64."""
        settings = self.layer_settings(index)
        W, b, c = (np.asarray(values, dtype=np.float64) for values in (finished_layer.W, finished_layer.b, finished_layer.c))
        return Harmonium(W, b, c, unit_family(settings.visible_units), unit_family(settings.hidden_units))


def sample_top_hidden_states(models: Sequence[Harmonium], rows: Array, seed: int, first_row: int = 0) -> Array:
    """Sample hidden states (n, K) of the last model given rows (n, D) of the first, in the dtype that learning uses.

    first_row  number of rows before these, a multiple of the block size.
    """
    for depth, h in enumerate(models):
        hidden = np.empty((len(rows), len(h.c)), dtype=np.int8 if h.hidden.two_state else np.float32)
        W, c, units = np.ascontiguousarray(h.W, dtype=np.float32), h.c.astype(np.float32), h.hidden.layer()
        for number, block in enumerate(row_blocks(len(rows), sum(h.W.shape)), first_row // rows_per_block(sum(h.W.shape))):
            natural = exact_arithmetic.matrix_product(np.asarray(rows[block], dtype=np.float32), W)
            states = np.empty_like(natural)
            units.sample(natural, c, states, generator(seed, Stream.DEEP, unit=depth, step=number))
            hidden[block] = states
        rows = hidden
    return rows


def sample_next_layer_rows(models: Sequence[Harmonium], rows: Array, seed: int, first_row: int = 0) -> Array:
    """Return `sample_top_hidden_states` of rows (n, D) with counts of rate units as proportions: (n, K)."""
    states = sample_top_hidden_states(models, rows, seed, first_row)
    return states if models[-1].hidden.two_state else states / np.float32(models[-1].hidden.scale)


def transposed_initial_weights(h: Harmonium, settings: Settings) -> tuple[Array, Array, Array] | None:
    """Return initial parameters W (K, D'), b (K,), c (D',) of the layer above whose visible distribution is that of h's hidden units.

    Returns None if the shapes do not allow it.  Units beyond h's visible ones have weights of 0, which leaves the distribution unchanged,
    and different biases, so that they learn different things.
    """
    D, K = h.W.shape
    if settings.hidden < D or settings.hidden_units != h.visible.name:
        return None
    W, c = np.zeros((K, settings.hidden)), np.zeros(settings.hidden)
    # With W' above, visible biases c and hidden biases b, the layer above has h's own marginal.  The bound is tight at the start, and
    # learning the layer can only raise it (Makin, sec. 6.8.3; Hinton, Osindero & Teh 2006).
    W[:, :D], c[:D] = h.W.T, h.b
    c[D:] = generator(settings.seed, Stream.INITIAL, step=1).standard_normal(settings.hidden - D)
    return W, h.c, c


@dataclass(frozen=True)
class LayerwiseLearning(FixedLengthAlgorithm[StackingState], HasStateShapes[StackingState]):
    """The algorithm that learns the layers one after the other; its result is their models, without rows.

    map  as in `parallel_fits.RBMLearning`.
    """

    problem: StackingProblem
    map: Map = map
    state = StackingState  # the type of its states

    def _layer_learning(self, finished: Sequence[FinishedLayer]) -> parallel_fits.RBMLearning:
        return parallel_fits.RBMLearning(self.problem.layer_problem(finished), self.map)

    @property
    def steps(self) -> int:
        """The number of minibatches of all layers, which have the same number of rows."""
        updates = self.problem.settings.updates(len(self.problem.rows))
        return len(self.problem.sizes) * updates

    def memory(self) -> int:
        """The memory of the first layer's learning in bytes."""
        return self._layer_learning([]).memory()

    def state_template(self) -> StackingState:
        """Return the state of the first layer without initial parameters."""
        return StackingState(0, self._layer_learning([]).state_template())

    def init(self) -> StackingState:
        """Return the initial state of the first layer.  Raises BadUsage if there is no layer to learn."""
        if not self.problem.sizes:
            raise BadUsage("there is no layer to learn: give the number of hidden units of each layer")
        return StackingState(0, self._layer_learning([]).init())

    def step(self, state: StackingState) -> StackingState:
        """Run one minibatch of the current layer; after its last one, start the next layer."""
        now = self._layer_learning(state.finished)
        state.current = now.step(state.current)
        state.step += 1
        if now.done(state.current) and len(state.finished) < len(self.problem.sizes) - 1:
            state.finished.append(_extract_finished_layer(state.current))
            state.current = self._layer_learning(state.finished).init()
        return state

    def progress(self, state: StackingState) -> RunProgress:
        """Return the progress with the number of the current layer and its reconstruction error."""
        layer = f"layer {len(state.finished) + 1} of {len(self.problem.sizes)}"
        inside = self._layer_learning(state.finished).progress(state.current).figure
        return RunProgress(state.step, self.steps, f"{layer}, {inside}" if inside else layer, self._completed_fraction(state.step))

    def _completed_fraction(self, step: int) -> float:
        """Return the share of the total work that is done: the cost of a minibatch is proportional to the layer's number of weights."""
        sizes = [self.problem.rows.shape[1], *self.problem.sizes]
        weights = np.cumsum([0, *(below * above for below, above in pairwise(sizes))])
        return float(np.interp(step, np.linspace(0, self.steps, len(weights)), weights / weights[-1]))

    def result(self, state: StackingState) -> list[RBM]:
        """Return the rbm of every learned layer."""
        parts = [*state.finished, _extract_finished_layer(state.current)]
        models = []
        for index, part in enumerate(parts):
            chosen = asdict(self.problem.layer_settings(index))
            del chosen["hidden"]
            models.append(RBM(W=part.W[None], b=part.b[None], c=part.c[None], trace=LearningCurves(part.trace[:, None]), **chosen))
        return models


def _extract_finished_layer(state: parallel_fits.LearningState) -> FinishedLayer:
    return FinishedLayer(state.W[0], state.b[0], state.c[0], state.trace[:, 0])


def top_hidden_means(models: Sequence[Harmonium], rows: Array, map: Map = map) -> Array:
    """Compute the hidden means (n, K) float32 of the last model, each layer's given the means of the layer below.

    Rate units enter as proportions.
    """
    result = np.empty((len(rows), len(models[-1].c)), dtype=np.float32)

    def fill(block: slice) -> None:
        means = np.asarray(rows[block], dtype=np.float64)
        for h in models:
            means = h.hidden_means(means)
        result[block] = means / models[-1].hidden.scale

    list(map(fill, row_blocks(len(rows), sum(sum(h.W.shape) for h in models))))
    return result


def reconstruct_rows(models: Sequence[Harmonium], rows: Array, map: Map = map) -> Array:
    """Reconstruct rows (n, D): means up to the last model's hidden units and down again, (n, D) float64, in unit values."""
    means = top_hidden_means(models, rows, map).astype(np.float64) * models[-1].hidden.scale
    for h in reversed(models):
        means = h.visible_means(means)
    return means


def sample_likelihood_bounds(models: Sequence[Harmonium], rows: Array, log_partition: float, *, samples: int = 20, seed: int = 0) -> Array:
    """Sample the lower bound of log p(v) for rows (n, D): (samples, n) in nats, whose mean over the first axis estimates the bound."""
    total = np.tile(-models[0].free_energy(rows) - log_partition, (samples, 1))
    for draw in range(samples):
        values = rows
        for depth, (h, above) in enumerate(pairwise(models)):
            natural = exact_arithmetic.matrix_product(np.asarray(values, dtype=np.float64), h.W).astype(np.float32)
            states = np.empty_like(natural)
            h.hidden.layer().sample(natural, h.c.astype(np.float32), states, generator(seed, Stream.BOUND, unit=depth, step=draw))
            values = states.astype(np.float64)
            # log p(v) ≥ −F₀(v) − log Z₀ + E_{h|v}[log p_above(h) − log p₀(h)].  Both terms of the mean are −F − log Z with h as visible
            # units.  Z₀ of a layer equals the Z of its transpose, so that in a chain of layers only the last log Z remains.
            total[draw] += h.transpose().free_energy(values) - above.free_energy(values)
    return total
