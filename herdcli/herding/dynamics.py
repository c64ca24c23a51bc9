"""Herding with hidden variables: deterministic weight dynamics whose pseudo-samples match the data's moments.

    E(x, z) = −(b·x + c·z + x'W z),   x visible, z hidden, N rows

One iteration, from weights w and state s = (x, z):
    1. z_n = argmax over z of the score of every row x_n        (eq. 9)
    2. s = argmax over s of the score, by block coordinate ascent      (eq. 10)
    3. w ← w + (1/N) Σ_n g(x_n, z_n) − g(s)                     (eq. 11)
Weights are stored as the integers N·w (M, b, c below), so all numbers are exact and the order of summation does not matter.
Source: Welling (2009), sec. 4, 7 and 10; arrangement in docs/design.md.
"""

from __future__ import annotations

import numpy as np

from herdcli import fast
from herdcli.errors import DataError, Diverged
from herdcli.herding.binary_features import EXACT, LANES, REPRESENTATIONS, PackedRows
from herdcli.herding.categorical_variables import ascend as ascend_with_variables
from herdcli.herding.parallel_runs import HerdingRuns
from herdcli.herding.problem import DrivingTerms, HiddenHerdingProblem, HiddenHerdingSettings
from herdcli.numerics.scores import add_standardised_energies
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

__all__ = [
    "DrivingTerms",
    "HiddenHerding",
    "HiddenHerdingProblem",
    "HiddenRunState",
    "HiddenHerdingSettings",
    "HiddenHerdingState",
    "initial_weights",
]

FLOAT32 = 1 << 24  # partial sums below this are exact in float32
INT32 = 1 << 28  # partial sums below this fit into 32 bits, with a margin for one update
INT32_STEP = 1 << 30  # no sum may change by more than this in that update


@dataclass
class HiddenRunState:
    """The state of one run: weights times n, the last pseudo-sample, running sums and traces."""

    M: Array = array("D K", "pair weights times n", kind="i")
    b: Array = array("D", "visible weights times n", kind="i")
    c: Array = array("K", "hidden weights times n", kind="i")
    x: Array = array("D", "visible units of the last pseudo-sample", kind="i", low=-1, high=1)
    z: Array = array("K", "its hidden units", kind="i", low=-1, high=1)
    pair_sum: Array = array("D K", "Σ_t x z' over pseudo-samples", kind="i")
    visible_sum: Array = array("D", "Σ_t x over pseudo-samples", kind="i")
    hidden_sum: Array = array("K", "Σ_t z over pseudo-samples", kind="i")
    hidden_data: Array = array("K", "Σ_t Σ_n z_n over rows", kind="i")
    weight_norm: Array = array("T", "‖w‖ after each iteration", kind="f")
    visible_norm: Array = array("T", "‖b‖ after each iteration, times 1/n", kind="f")
    energy: Array = array("q", "sum of standardised energies of the queried rows", kind="f", finite=True)
    states: Array = array("S P", "kept pseudo-samples: bits of x, then of z, each padded to bytes", kind="u")
    averaged: int = 0  # iterations summed in `energy`
    sweeps: int = 0  # sweeps of block ascent in all iterations
    wide_from: int = 0  # iteration from which float32 would not hold the partial sums; 0: it always would

    def validate(self) -> None:
        """Raise DataError for weights that no run can have: integers would wrap round in the ascent, which might never end."""
        parts = [*_absolute_weight_sums(self.M), self.b, self.c]
        largest = max(max(int(part.max(initial=0)), -int(part.min(initial=0))) for part in parts)
        if largest >= (INT32 if self.M.dtype == np.int32 else EXACT):
            raise DataError(f"has weights up to {largest} in size, which are too large for exact sums of type {self.M.dtype}")


@dataclass
class HiddenHerdingState:
    """The state of all runs after `iteration` iterations."""

    step: int
    iteration: int
    runs: list[HiddenRunState]

    def validate(self) -> None:
        """Raise DataError if the iteration is not possible."""
        if not all(0 <= self.iteration <= len(run.weight_norm) for run in self.runs):
            raise DataError(f"is damaged: it is at iteration {self.iteration}, but its traces have fewer iterations")


def initial_weights(problem: HiddenHerdingProblem, u: int) -> tuple[Array, Array, Array, Array, Array]:
    """Return (M, b, c, x, z) before the first iteration of run u.

    M holds even integers from N(0, (n/10)²): with M = 0 all hidden units would stay identical for ever.  x is one of the rows.
    """
    unit, settings = problem.units[u], problem.settings
    D, K = problem.visible, settings.hidden
    if isinstance(unit, DrivingTerms):
        M, b, c, x, z = (part.copy() for part in unit.start)
        return M, b, c, x, z
    draws = generator(settings.seed, Stream.HERDING, unit=problem.global_number(u))
    drawn = draws.normal(0.0, max(0.05 * unit.count, 2.0), (D, K))
    M = np.rint(drawn, out=drawn).astype(np.int32)
    M *= 2
    x = unit.row(int(draws.integers(unit.count)), settings.representation)
    return M, np.zeros(D, dtype=np.int64), np.zeros(K, dtype=np.int64), x, np.ones(K, dtype=np.int8)


def _initial_state(problem: HiddenHerdingProblem) -> HiddenHerdingState:
    """Return the state of every run before its first iteration."""
    settings, D = problem.settings, problem.visible
    K, T = settings.hidden, settings.iterations
    queried = 0 if problem.queries is None else len(problem.queries)
    runs = []
    for u, unit in enumerate(problem.units):
        M, b, c, x, z = initial_weights(problem, u)
        runs.append(
            HiddenRunState(
                M=M,
                b=b,
                c=c,
                x=x,
                z=z,
                pair_sum=np.zeros((D, K), dtype=np.int32),
                visible_sum=np.zeros(D, dtype=np.int64),
                hidden_sum=np.zeros(K, dtype=np.int64),
                hidden_data=np.zeros(K, dtype=np.int64),
                weight_norm=np.zeros(T),
                visible_norm=np.zeros(T),
                energy=np.zeros(queried),
                states=np.zeros((settings.kept_state_count, -(-D // 8) - (-K // 8)), dtype=np.uint8),
            )
        )
        _check_overflow(runs[-1], *_absolute_weight_sums(M), iteration=1, too_large=problem.largest_update(unit) >= INT32_STEP)
    return HiddenHerdingState(0, 0, runs)


@dataclass(frozen=True)
class HiddenHerding(HerdingRuns[HiddenHerdingProblem, HiddenHerdingState]):
    """Herding with hidden units, as an algorithm (Welling 2009, eq. 9 to 11, with the step sizes of eq. 16)."""

    @property
    def state(self) -> type[HiddenHerdingState]:
        return HiddenHerdingState

    def init(self) -> HiddenHerdingState:
        return _initial_state(self.problem)

    def run_iterations(self, state: HiddenHerdingState, count: int, u: int) -> None:
        """Run `count` iterations of run u, in place."""
        _advance_run(self.problem, state, count, u)

    def memory(self) -> int:
        problem, settings = self.problem, self.problem.settings
        D, K = problem.visible, settings.hidden
        queried = 0 if problem.queries is None else len(problem.queries)
        n = max(unit.count if isinstance(unit, PackedRows) else 0 for unit in problem.units)
        wide = any(
            isinstance(unit, DrivingTerms) for unit in problem.units
        )  # weights of 64 bits, and the temporary arrays of `_update_int64_weights`
        runs = (12 if wide else 8) * D * K + 8 * queried + 16 * settings.iterations + settings.kept_state_count * (-(-D // 8) - (-K // 8))
        passed = 16 * n + 8 * -(-n // 64) * -(-K // LANES) * LANES + fast.herding_scratch(-(-D // 64), D, K).nbytes
        if fast.loops_in_use() == "python":  # NumPy's loops copy the weights and their absolute values to a floating type, and unpack rows
            passed += 20 * D * K + min(n, 1024) * (14 * D + 12 * K)
        # The largest memory may be needed at the start: initial weights are drawn as float64, and their absolute values are summed.
        return problem.count * runs + max((40 if wide else 12) * D * K, passed)


@dataclass(frozen=True)
class _RunScratch:
    """Scratch memory of one run in one step, and the results of a pass over its rows."""

    scratch: Array
    energy: Array  # (n,) int64
    signs: Array  # (ceil(n/64), K padded) uint64
    queried: Array  # (q,) int64
    sums: tuple[Array, Array, Array]  # Σ_n z_n (K,), Σ_j |M_jk| (K,), Σ_k |M_jk| (D,)


def _advance_run(problem: HiddenHerdingProblem, state: HiddenHerdingState, count: int, u: int) -> None:
    """Run `count` iterations of run u."""
    unit, run, settings = problem.units[u], state.runs[u], problem.settings
    D, K = run.M.shape
    n = unit.count if isinstance(unit, PackedRows) else 0
    work = _RunScratch(
        fast.herding_scratch(-(-D // 64), D, K),
        np.empty(n, dtype=np.int64),
        np.zeros((-(-n // 64), -(-K // LANES) * LANES), dtype=np.uint64),
        np.empty(len(run.energy), dtype=np.int64),
        (np.zeros(K, dtype=np.int64), np.zeros(K, dtype=np.int64), np.zeros(D, dtype=np.int64)),
    )
    for t in range(state.iteration + 1, state.iteration + count + 1):
        start = run.x
        if isinstance(unit, PackedRows):
            fast.hidden_pass(unit.rows, run.M, run.b, run.c, settings.uses_spins, work.energy, work.signs, work.scratch)
            if problem.queries is not None and t > settings.burn_in and (t - settings.burn_in - 1) % settings.energy_every == 0:
                fast.hidden_pass(problem.queries, run.M, run.b, run.c, settings.uses_spins, work.queried, None, work.scratch)
                add_standardised_energies(run.energy, work.queried, work.energy)
                run.averaged += 1
            if settings.variant == "safe":
                # Ascent from the row of lowest energy ends at E(s) ≤ min_n E_n ≤ mean E_n, so that w·∇ℓ₀ = E(s) − mean E_n ≤ 0: the weights
                # are pulled inwards (Welling 2009, prop. 3).
                start = unit.row(int(work.energy.argmin()), settings.representation)
        run.x[...] = start
        if problem.variables is not None:
            low = REPRESENTATIONS[settings.representation][0]
            run.sweeps += ascend_with_variables(run.M, run.b, run.c, run.x, run.z, low, settings.sweeps, problem.variables)
        else:
            run.sweeps += fast.ascend(
                run.M, run.b, run.c, run.x, run.z, settings.uses_spins, settings.can_flip_spins, settings.sweeps, work.scratch
            )
        squares = _update_weights(unit, run, settings, work)
        _record_trace(run, settings, squares, t, n if isinstance(unit, PackedRows) else unit.n)
        _check_overflow(run, *work.sums[1:], iteration=t + 1)


def _update_weights(unit: PackedRows | DrivingTerms, run: HiddenRunState, settings: HiddenHerdingSettings, work: _RunScratch) -> float:
    """Apply step 3 to all weights.  Returns ΣM² and leaves the sums of |M| in `work`."""
    pair_step, visible_step, hidden_step = settings.step_sizes
    hidden_data, column, row = work.sums
    x, z = run.x, run.z
    squares: float
    if isinstance(unit, PackedRows):
        n, visible_data = unit.count, unit.total
        if run.M.dtype == np.int32:
            squares = fast.herding_update(
                run.M, run.pair_sum, unit.columns, work.signs, n, settings.uses_spins, pair_step, x, z, hidden_data, column, row
            )
        else:
            statistic, unused = np.zeros(run.M.shape, dtype=np.int32), np.zeros(run.M.shape, dtype=np.int32)
            still = np.zeros_like(x), np.zeros_like(z)
            fast.herding_update(statistic, unused, unit.columns, work.signs, n, settings.uses_spins, 1, *still, hidden_data, column, row)
            squares = _update_int64_weights(run, pair_step, statistic, n, column, row)
        run.hidden_data += hidden_data
    else:
        n, visible_data = unit.n, unit.b
        hidden_data[...] = unit.c
        squares = _update_int64_weights(run, pair_step, unit.M, n, column, row)
    # w ← w + η (the data's sum of the statistic − n times its value at the state where the ascent ended): step 3, eq. 11 of Welling (2009),
    # with the step size of eq. 16.  All weights are stored times n, so that every number here is an integer.
    run.b += visible_step * (visible_data - n * x.astype(np.int64))
    # Without the data's sum, the "growth", c falls if a hidden unit of s is on and rises if it is off.  It settles where the unit is on
    # half of the time (sec. 10).
    if settings.hidden_bias == "full":
        run.c += hidden_step * (hidden_data - n * z.astype(np.int64))
    elif settings.hidden_bias == "growthless":
        run.c -= hidden_step * n * z.astype(np.int64)
    run.visible_sum += x
    run.hidden_sum += z
    return squares


def _update_int64_weights(run: HiddenRunState, step: int, statistic: Array, n: int, column: Array, row: Array) -> float:
    """Compute `fast.herding_update` in 64 bits, with X'Z given."""
    product = np.multiply.outer(run.x.astype(np.int32), run.z.astype(np.int32))
    run.M += step * (statistic - n * product.astype(np.int64))
    run.pair_sum += product
    size = np.abs(run.M)
    column[...], row[...] = size.sum(axis=0), size.sum(axis=1)
    return float(np.square(run.M.astype(np.float64)).sum())


def _record_trace(run: HiddenRunState, settings: HiddenHerdingSettings, squares: float, t: int, n: int) -> None:
    """Write the traces, and the kept state, after iteration t."""
    visible = float(np.square(run.b.astype(np.float64)).sum())
    hidden = float(np.square(run.c.astype(np.float64)).sum())
    run.visible_norm[t - 1] = visible**0.5 / n
    run.weight_norm[t - 1] = (float(squares) + visible + hidden) ** 0.5 / n
    place = t - 1 - (settings.iterations - settings.kept_state_count)
    if place >= 0:
        bits = [np.packbits(part > 0, bitorder="little") for part in (run.x, run.z)]
        run.states[place] = np.concatenate(bits)


def _absolute_weight_sums(M: Array) -> tuple[Array, Array]:
    """Compute Σ_j |M_jk| (K,) and Σ_k |M_jk| (D,), in float64, so that sums too large to be exact do not wrap round."""
    size = np.abs(M)
    return size.sum(axis=0, dtype=np.float64), size.sum(axis=1, dtype=np.float64)


def _check_overflow(run: HiddenRunState, column: Array, row: Array, *, iteration: int, too_large: bool = False) -> None:
    """Record when sums exceed float32, and change to 64 bits before 32 are too few.  Raises Diverged beyond float64.

    column (K,), row (D,)  Σ_j |M_jk| and Σ_k |M_jk|.  With the bias they bound every partial sum at a unit.  The square of the
    largest, times the size of the smaller layer, bounds ΣM².
    """
    bound = int(max((column + np.abs(run.c)).max(), (row + np.abs(run.b)).max()))
    if bound >= EXACT:
        raise Diverged(
            f"herding diverged: at iteration {iteration} the weights became too large for exact arithmetic",
            hint="use --variant safe, more --sweeps, or fewer --iterations",
        )
    if run.wide_from == 0 and bound >= FLOAT32:
        run.wide_from = iteration
    if run.M.dtype == np.int32 and (too_large or bound >= INT32 or bound * bound * min(run.M.shape) >= 1 << 62):
        run.M = run.M.astype(np.int64)
