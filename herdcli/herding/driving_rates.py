"""Driving rates, the identity of Prop. 1, and herding that is decoupled from its data.

    r_t = (t−1)/t · r_{t−1} + ḡ_t/t,   ḡ_t the mean of the features over the rows at iteration t

so r_T is the plain average.  Decoupled herding updates w ← w + r − g(s).  Times T·N everything is an integer again, so the
dynamics stay exact.  The constant r only approximates the data's response to the weights, so the weights keep growing slowly.
Source: Welling (2009), sec. 5 (Prop. 1) and sec. 9 (eq. 22).
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.herding.binary_features import EXACT, PackedRows
from herdcli.herding.dynamics import HiddenRunState, initial_weights
from herdcli.herding.model import Herding
from herdcli.herding.problem import DrivingTerms, HiddenHerdingProblem
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class DrivingSums:
    """The driving terms of one run, summed over its iterations, in units of 1/scale per iteration and row."""

    pair: Array  # (D, K) int64
    visible: Array  # (D,) int64
    hidden: Array  # (K,) int64
    scale: int  # iterations times n


def compute_driving_sums(problem: HiddenHerdingProblem, run: HiddenRunState, u: int, iterations: int) -> DrivingSums:
    """Compute the driving terms of run u so far: Σ_t Σ_n of x z', x and z over the rows.

    The sum of x z' over rows is not accumulated, because the weights contain it: M_T = M_0 + step (Σ_t X'Z_t − n Σ_t x_t z_t').
    """
    unit = problem.units[u]
    n = unit.count if isinstance(unit, PackedRows) else unit.n
    if isinstance(unit, DrivingTerms):
        return DrivingSums(iterations * unit.M, iterations * unit.b, iterations * unit.c, iterations * n)
    start = initial_weights(problem, u)[0].astype(np.int64)
    # Eq. 14 solved for the driving terms: the weights change by the step times (driving terms − n times the samples' statistics).
    pair = (run.M - start) // problem.settings.step_sizes[0] + n * run.pair_sum.astype(np.int64)
    return DrivingSums(pair, iterations * unit.total, run.hidden_data, iterations * n)


def largest_moment_gaps(driving: DrivingSums, run: HiddenRunState, iterations: int) -> tuple[float, float, float]:
    """Compute the largest |⟨g(s_t)⟩ − ⟨ḡ_t⟩| over the pair, visible and hidden features.

    This equals |w_T − w_0|/T exactly for step size 1, if the feature has the complete update.  In `growthless` and `none` the
    hidden features have another update or none, and their gap is the remaining difference.
    """
    scale = float(driving.scale)
    parts = ((driving.pair, run.pair_sum), (driving.visible, run.visible_sum), (driving.hidden, run.hidden_sum))
    n = driving.scale // iterations
    gaps = [np.abs(n * sampled.astype(np.int64) - given).max() / scale for given, sampled in parts]
    return float(gaps[0]), float(gaps[1]), float(gaps[2])


def make_driving_terms(value: Herding, run: int) -> DrivingTerms:
    """Make driving terms from the rates of a run with hidden variables, to continue from its last weights and state.

    The unit is 1/(T·N): in it the rates are integers, and the weights are T times the stored ones.
    Raises DataError if the artifact has no such rates.
    """
    rates, M, c, z = value.rates, value.M, value.c, value.z
    if M is None or c is None or z is None or rates.pair is None or rates.hidden is None:
        raise DataError(
            f"has no moments of hidden features to continue from (it was made with --model {value.model})",
            hint="make it with `herd herd --model rbm`",
        )
    scale = int(rates.scale[run])
    factor = scale // int(value.n[run])
    if factor * max(int(np.abs(part[run]).max(initial=0)) for part in (M, value.b, c)) >= EXACT:
        raise DataError(
            f"has too many iterations to be continued: its weights times {factor} are too large for exact sums",
            hint="make it again with fewer --iterations",
        )
    start = tuple(np.multiply(part[run], factor, dtype=np.int64) for part in (M, value.b, c))
    return DrivingTerms(
        M=rates.pair[run].astype(np.int64),
        b=rates.visible[run].astype(np.int64),
        c=rates.hidden[run].astype(np.int64),
        n=scale,
        start=(start[0], start[1], start[2], value.x[run].astype(np.int8), z[run].astype(np.int8)),
    )
