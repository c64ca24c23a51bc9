"""Updates of models with many visible units of which few are on, at a cost proportional to the active units.

Units that are on neither in the rows nor in the chains of a minibatch get no gradient except that of centring, which has rank one.  Their
weights w and last changes v follow  v ← μ v − ε λ w − ε r_i g,  w ← w + v  with the mean r_i of the unit and g = G_c.  They are brought up
to date when they are needed, by two sums and the tables of `LaggedWeights`, which are the same for all units that were last updated
together.  After WINDOW updates, and at the end of every epoch, all weights are brought up to date.

Sampling is exact although weights lag.  For two-state visible units, a uniform number u turns unit i on if u < logistic(x_i).  The product
of hidden states with the old weights, and the bound |Δw·h| ≤ |Δw| |h| on the change, give an upper bound of x_i; only if u is below the
logistic of this bound is x_i computed.  Words are proposed with probabilities ∝ e^u_j, u_j ≥ x_j, and accepted with probability
e^(x_j − u_j) (von Neumann 1951).  u_j is b_j plus the largest w_j·h of any hidden states, with one table for a minibatch.  If that is far
above x_j, as it is when weights grow, u_j is the product and its bound for each row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from herdcli import fast
from herdcli.algorithm import Map
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import SelectedRows, as_dense, select_rows
from herdcli.rbm.learning.gradient_step import MEAN_SHARE, StepRates
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.learning.learning_state import LaggedWeights, LearningState
from herdcli.rbm.learning.minibatch_statistics import BatchBlock, map_in_order, split_minibatch
from herdcli.rbm.learning.phases import squared_distance_in_place
from herdcli.rbm.units.words import MultinomialLayer
from herdcli.rng import Stream, generator
from herdcli.schema import Array, Matrix, is_sparse

WINDOW = 32  # all weights are brought up to date after this many updates
TOGETHER = 1024  # number of rows of weights that are brought up to date together
ROUNDING = 1e-4  # bound on the rounding of sums over hidden units, relative to |w| |h|
WORTH = 6  # with fewer columns per proposed word than this, a product with all weights is cheaper


class ActiveUnitList(NamedTuple):
    """The units that are on in each row, those of row i from starts[i] on, and their values."""

    starts: Array
    units: Array
    values: Array


def allocate_lagged_weights(M: int, D: int, K: int) -> LaggedWeights:
    """Return the tables for weights that are all up to date; `apply_pending_updates` must still process them."""
    P = np.zeros((M, WINDOW + 1, 4))
    P[:, 0, ::3] = 1.0
    lag, now = np.zeros((M, D), np.int32), np.zeros(M, np.int64)
    return LaggedWeights(lag, now, P, np.zeros((M, WINDOW + 1, 2, K)), np.zeros((M, 3, D), np.float32), np.full(M, np.inf))


class ProposalTable(NamedTuple):
    """A table that words are proposed from.

    `upper` (D,), running sums of its exponentials, a guide into these sums, and the logarithm of the last sum.
    """

    upper: Array
    sums: Array
    guide: Array
    log_sum: float


class LaggingModel:
    """The state of one model with lagging weights during one update."""

    def __init__(self, problem: LearningProblem, state: LearningState, m: int, lag: LaggedWeights) -> None:
        self.problem, self.m = problem, m
        self.W, self.V, self.b, self.c = state.W[m], state.W_velocity[m], state.b[m], state.c[m]
        self.lag, self.now, self.extents = lag.rows[m], int(lag.now[m]), lag.extents[m]
        self.P, self.Q = lag.P[m, : self.now + 1].astype(np.float32), lag.Q[m, : self.now + 1].astype(np.float32)
        self.constant = problem.constant_columns(m)
        self.mean = np.where(self.constant, np.float32(0.0), problem.visible_mean(m))
        if not problem.settings.centering:
            self.mean = np.zeros_like(self.mean)
        # A weight w with last change v is by now P₀ w + P₁ v − r Q₀, so |Δw| ≤ |1 − P₀| |w| + |P₁| |v| + r |Q₀|.
        far = np.stack(
            (np.abs(1.0 - self.P[:, 0]) + ROUNDING, np.abs(self.P[:, 1]) * (1.0 + ROUNDING), np.sqrt(np.square(self.Q[:, 0]).sum(axis=1))),
            axis=1,
        )
        self.slack = np.empty_like(self.b)  # bound on the change of b + w·h for each unit of |h|, rounding included
        fast.lag_slacks(self.lag, far.astype(np.float32), self.extents, self.mean, self.b, self.slack)

    def multiply_rows(self, active_units: ActiveUnitList, out: Array) -> None:
        """Multiply rows of active units by the current weights, into out (n, K)."""
        fast.shown_product(self.W, self.V, self.lag, self.P, self.Q, self.mean, *active_units, out)

    def fast_loop_arguments(self, h: Array) -> tuple[Array, Array, Array, Array, Array, Array, Array, Array]:
        """Return the arguments of `fast.natural_at` and `fast.draw_words` for hidden states h (n, K)."""
        return (
            self.W,
            self.V,
            self.lag,
            self.P,
            np.ascontiguousarray(exact_arithmetic.matrix_product(h, self.Q[:, 0].T)),
            self.b,
            self.mean,
            h,
        )

    def hidden_norms(self, h: Array) -> Array:
        """Compute |h| of each row, plus a margin for the rounding at |h| = 0: (n,) float32."""
        found: Array = np.sqrt(np.square(h).sum(axis=1)) * np.float32(1.001) + np.float32(1.0)
        return found


def apply_pending_updates(problem: LearningProblem, state: LearningState, m: int, lag: LaggedWeights) -> None:
    """Bring all weights of model m up to date."""
    own, D = LaggingModel(problem, state, m, lag), len(state.W[m])
    low, high = problem.hidden.range or (0.0, 0.0)
    W, V = (np.empty((min(TOGETHER, D), own.W.shape[1]), np.float32) for _ in range(2))
    other = np.empty(len(W), np.float32)
    for start in range(0, D, TOGETHER):
        units = slice(start, min(start + TOGETHER, D))
        n = units.stop - start
        fast.current_rows(own.W, own.V, np.arange(start, units.stop), own.lag, own.P, own.Q, own.mean, W[:n], V[:n])
        own.W[units], own.V[units], own.lag[units] = W[:n], V[:n], 0
        fast.row_extents(W[:n], low, high, own.extents[0, units], own.extents[2, units])
        fast.row_extents(V[:n], low, high, own.extents[1, units], other[:n])
    lag.now[m] = 0
    lag.P[m, 0], lag.Q[m, 0] = (1.0, 0.0, 0.0, 1.0), 0.0


def run_sparse_minibatch(
    problem: LearningProblem, state: LearningState, m: int, lag: LaggedWeights, order: Array, step: int, map: Map
) -> tuple[float, list[float]]:
    """Run one minibatch of model m, the rows in `order` (n,), by CD.

    Returns the squared error of the reconstruction (0 except in the first minibatch of an epoch), and the largest values of the updated W,
    b and c.
    """
    own, n, batch = LaggingModel(problem, state, m, lag), len(order), step % problem.batches(m)
    data = _list_active_units(problem.rows[m], order)
    draws = generator(problem.settings.seed, Stream.GIBBS, unit=problem.global_number(m), step=step)
    hidden = problem.hidden.layer()
    h, states = np.empty((2 * n, len(own.c)), np.float32), np.empty((n, len(own.c)), np.float32)
    # Positive phase at the rows' active units alone, then CD sweeps, with the current values of the weights that are used.
    own.multiply_rows(data, h[:n])
    hidden.sample(h[:n], own.c, states, draws, scale=1.0 / n)
    error = 0.0 if batch else _reconstruction_error(own, states, problem.rows[m][order])
    sweeps = problem.settings.sweeps(step / problem.updates(m))
    for sweep in range(sweeps):
        # Visible states with the distribution of up-to-date weights, by the bounds of the module's head.
        shown = _sample_visible(own, states, data, step, sweep, map, lag)
        own.multiply_rows(shown, h[n:])
        if sweep < sweeps - 1:
            hidden.sample(h[n:], own.c, states, draws)
        else:
            hidden.means(h[n:], own.c, scale=-1.0 / n)
    largest = _apply_weight_step(problem, state, own, lag, step, (data, shown), h)
    if lag.now[m] == WINDOW or batch == problem.batches(m) - 1:
        apply_pending_updates(problem, state, m, lag)
    if batch == problem.batches(m) - 1:
        lag.tries[m] = np.inf  # an epoch starts like a run that continues from it
    return error, largest


def _list_active_units(rows: Matrix, order: Array) -> ActiveUnitList:
    """Return the active units of some of the rows (n, D), dense or CSR."""
    if isinstance(rows, SelectedRows) and is_sparse(rows.base):
        base, chosen = rows.base, rows.index[order]
        first = base.indptr[chosen]
        starts = np.concatenate([[0], np.cumsum(base.indptr[chosen + 1] - first)]).astype(np.int32)
        entries = np.arange(starts[-1]) + np.repeat(first - starts[:-1], np.diff(starts))
        return ActiveUnitList(starts, base.indices[entries].astype(np.int32), base.data[entries].astype(np.float32))
    taken = as_dense(select_rows(rows, order))
    row, unit = np.nonzero(taken)
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(taken)))])
    return ActiveUnitList(starts.astype(np.int32), unit.astype(np.int32), taken[row, unit].astype(np.float32))


def _reconstruction_error(model: LaggingModel, states: Array, rows: Array) -> float:
    """Compute the squared distance of rows from E[v | h] before the first minibatch of an epoch, when all weights are up to date."""
    means, v, visible = exact_arithmetic.matrix_product(states, model.W.T), rows.astype(np.float32), model.problem.visible.layer()
    if model.problem.visible.multinomial:
        visible = MultinomialLayer(v.sum(axis=1))
    visible.means(means, model.b)
    return squared_distance_in_place(means, v)


def _sample_visible(
    model: LaggingModel, states: Array, data: ActiveUnitList, step: int, sweep: int, map: Map, lag: LaggedWeights
) -> ActiveUnitList:
    """Sample visible units given hidden states (n, K), in blocks of rows with random numbers of their own."""
    parts = [part for group in split_minibatch(len(states), len(states)) for part in group]
    problem = model.problem
    words = problem.visible.multinomial
    lengths = np.rint(np.add.reduceat(data.values, data.starts[:-1])).astype(np.int64) if words else None
    by_columns = lengths is not None and lag.tries[model.m] * lengths.mean() <= len(model.b) / WORTH
    table = _make_proposal_table(model.b + model.extents[2] + model.slack * model.hidden_norms(states).max()) if words else None

    def part(block: BatchBlock) -> tuple[ActiveUnitList, float]:
        draws = generator(
            problem.settings.seed, Stream.GIBBS, unit=problem.global_number(model.m), step=step, part=1 + sweep * len(parts) + block.number
        )
        h = states[block.rows]
        if lengths is None or table is None:
            return _sample_two_state_visible(model, h, draws), 0.0
        return (_sample_words_from_table if by_columns else _sample_words_per_row)(model, h, lengths[block.rows], table, draws)

    found, tries = zip(*map_in_order(map, part, parts), strict=True)
    if lengths is not None:
        lag.tries[model.m] = sum(tries) / max(1, lengths.sum())
    ends = np.cumsum([0] + [shown.starts[-1] for shown in found])
    starts = np.concatenate([[0], *(shown.starts[1:] + end for shown, end in zip(found, ends[:-1], strict=True))]).astype(np.int32)
    return ActiveUnitList(starts, *(np.concatenate([getattr(shown, name) for shown in found]) for name in ("units", "values")))


def _sample_two_state_visible(model: LaggingModel, h: Array, draws: np.random.Generator) -> ActiveUnitList:
    """Sample two-state visible units given hidden states h (n, K); returns those that are on."""
    n, D = len(h), len(model.b)
    room, total = model.problem.scratch(), n * (D + 1)
    raw = room.v.reshape(-1)[: 2 * -(-total // 4)].view(np.uint64)
    fast.fill_words(int(draws.bit_generator.random_raw()), raw)
    words, natural = raw.view(np.uint16)[:total].reshape(n, D + 1), room.visible[:n]
    exact_arithmetic.matrix_product(h, model.W.T, out=natural)
    starts, listed = np.empty(n + 1, np.int32), room.difference[:n].reshape(-1).view(np.int32)
    # Natural parameters can have grown by up to this bound, so that units that are not listed are off.
    count = fast.list_below(natural, model.b + model.slack * model.hidden_norms(h).max() + np.float32(ROUNDING), words, starts, listed)
    listed = listed[:count].copy()
    p = np.empty(count, np.float32)
    # Only listed units need their exact natural parameter; the rest are off whatever it is.
    fast.natural_at(*model.fast_loop_arguments(h), starts, listed, p)
    fast.logistic(p)
    row = np.repeat(np.arange(n), np.diff(starts))
    on = words[row, listed] < p * np.float32(2.0**16) - words[row, D] * np.float32(2.0**-16)  # the same rule as in `fast.two_state_sample`
    starts = np.concatenate([[0], np.cumsum(np.bincount(row[on], minlength=n))]).astype(np.int32)
    return ActiveUnitList(starts, listed[on], np.ones(int(on.sum()), np.float32))


def _make_proposal_table(upper_bounds: Array) -> ProposalTable:
    """Make the table of upper bounds (D,) float32 of the natural parameters."""
    highest = upper_bounds.max()
    sums, guide = np.empty((1, len(upper_bounds))), np.empty(len(upper_bounds), np.int32)
    fast.running_sums(exact_arithmetic.exp(upper_bounds - highest)[None], sums)
    fast.guide_table(sums[0], guide)
    return ProposalTable(upper_bounds, sums[0], guide, float(highest) + float(exact_arithmetic.log(sums[0, -1])))


def _sample_words_from_table(
    model: LaggingModel, h: Array, lengths: Array, table: ProposalTable, draws: np.random.Generator
) -> tuple[ActiveUnitList, float]:
    """Sample words of rows with hidden states h (n, K), proposed from one table; also returns the number of proposals."""
    drawn, seeds = np.empty(int(lengths.sum()), np.int32), draws.bit_generator.random_raw(len(h))
    tries = fast.draw_words(*model.fast_loop_arguments(h), model.slack, model.hidden_norms(h), *table[:3], lengths, seeds, drawn)
    return ActiveUnitList(np.concatenate([[0], np.cumsum(lengths)]), drawn, np.ones(len(drawn), np.float32)), float(tries)


def _sample_words_per_row(
    model: LaggingModel, h: Array, lengths: Array, table: ProposalTable, draws: np.random.Generator
) -> tuple[ActiveUnitList, float]:
    """Sample words with a table for each row; also returns the number of proposals that the common table would have needed."""
    natural = model.problem.scratch().visible[: len(h)]
    exact_arithmetic.matrix_product(h, model.W.T, out=natural)
    # Bounds of each row: the product with the old weights and the slack of their change, |Δw| |h|.
    natural += model.b
    shown, tries = [], 0.0
    for row, (reach, length) in enumerate(zip(model.hidden_norms(h), lengths, strict=True)):
        near = _make_proposal_table(natural[row] + model.slack * reach)
        shown.append(_sample_words_from_table(model, h[row : row + 1], lengths[row : row + 1], near, draws)[0])
        tries += float(length) * float(exact_arithmetic.exp(min(table.log_sum - near.log_sum, 100.0)))
    units, values = (np.concatenate([getattr(part, name) for part in shown]) for name in ("units", "values"))
    return ActiveUnitList(np.concatenate([[0], np.cumsum(lengths)]), units, values), tries


def _apply_weight_step(
    problem: LearningProblem,
    state: LearningState,
    model: LaggingModel,
    lag: LaggedWeights,
    step: int,
    phases: tuple[ActiveUnitList, ActiveUnitList],
    h: Array,
) -> list[float]:
    """Apply the step along the statistics as in `gradient_step`: momentum, decay, centring.  Returns the largest updated W, b and c.

    phases  active units of rows and chains; h (2n, K) hidden means of both times 1/n, negative for the chains.
    """
    settings, m, n, K = problem.settings, model.m, len(h) // 2, h.shape[1]
    rates = StepRates.from_problem(problem, m, step)
    signs = np.repeat(np.array([1.0, -1.0], np.float32) / np.float32(n), n)
    c = np.zeros_like(model.c) if problem.visible.multinomial else h.sum(axis=0)  # for words, shared weights replace it
    b, above, gradient = np.zeros_like(model.b), np.zeros(K, np.float32), np.zeros(K, np.float32)
    if state.hidden_mean is not None:
        state.hidden_mean[m] += np.float32(MEAN_SHARE) * (h[:n].sum(axis=0) - state.hidden_mean[m])
        if settings.centering:
            above, gradient = state.hidden_mean[m], c.copy()
    entries = ActiveUnitList(*(np.concatenate([getattr(part, name) for part in phases]) for name in ("starts", "units", "values")))
    rows = np.repeat(np.arange(2 * n, dtype=np.int32), np.concatenate([np.diff(part.starts) for part in phases]))
    order, units, heads = (np.empty(len(rows) + more, kind) for more, kind in ((0, np.int32), (0, np.int64), (1, np.int32)))
    count = fast.by_unit(entries.units, np.empty(len(model.b), np.int32), order, units, heads)
    units, heads = units[:count], heads[: count + 1]
    (statistics, dots), (follows, room) = np.empty((2, count), np.float32), np.zeros((2, K), np.float32)
    tables = (model.W, model.V, model.lag, model.P, model.Q, model.mean)
    decay = settings.weight_decay * problem.visible.scale * problem.hidden.scale
    largest = fast.move_units(
        *tables,
        *(units, heads, rows[order], entries.values[order], h, signs, above, gradient, model.constant.view(np.uint8)),
        *(rates.W, settings.momentum, decay, *(problem.hidden.range or (0.0, 0.0)), model.extents),
        *(statistics, dots, follows, room),
    )
    # For units that are not updated G_W is −μ_i G_c' alone.  Biases follow a change of W (see `uncentre_gradient`).
    share, mean = np.float32(rates.share / problem.hidden.scale), model.mean[units]
    b += share * exact_arithmetic.dot(gradient, above) * model.mean
    b[units] = statistics - share * dots
    c -= np.float32(rates.share) * (
        follows - np.float32(exact_arithmetic.dot(model.mean, model.mean) - exact_arithmetic.dot(mean, mean)) * gradient
    )
    _record_pending_update(lag, m, rates.W, settings.momentum, decay, gradient)
    model.lag[units] = lag.now[m]
    return [
        largest,
        fast.momentum_step(model.b, state.b_velocity[m], b, rates.b, settings.momentum, 0.0),
        fast.momentum_step(model.c, state.c_velocity[m], c, rates.c, settings.momentum, 0.0),
    ]


def _record_pending_update(lag: LaggedWeights, m: int, rate: float, momentum: float, decay: float, gradient: Array) -> None:
    """Add the effect of an update without a gradient except −r_i g, g (K,), to the tables, which then have one more entry."""
    now = int(lag.now[m]) + 1
    kept, lost = 1.0 - rate * decay, -rate * decay
    for table, more in ((lag.P[m, :now].reshape(now, 2, 2), 0.0), (lag.Q[m, :now], rate * gradient.astype(np.float64))):
        w, v = table[:, 0], momentum * table[:, 1] + more
        table[:, 1] = lost * w + v
        table[:, 0] = kept * w + v
    lag.P[m, now], lag.Q[m, now] = (1.0, 0.0, 0.0, 1.0), 0.0
    lag.now[m] = now
