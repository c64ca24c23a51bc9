"""The metrics of `herd eval` for `samples`: their MMD, also to another target, moments, and for ±1 states their distribution.

Source: Bach, Lacoste-Julien & Obozinski (2012), sec. 5: figures 3–5 plot the MMD for each number of atoms, figures 6
and 7 the distance of the empirical distribution from that of maximum entropy and the error of the moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from herdcli import iterate
from herdcli.algorithm import Map, ProgressCallback
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.table import Row
from herdcli.herding import sample_entropy
from herdcli.quadrature.embeddings import closed_form_embeddings
from herdcli.quadrature.kernels import kernel_sums
from herdcli.quadrature.kernels.kernel_functions import Kernel
from herdcli.quadrature.kernels.point_sums import depends_on_moments, embedding_from_moments, make_point_evaluator
from herdcli.quadrature.kernels.stein_kernels import ScoreTarget
from herdcli.quadrature.samples import GroupSummaries, Samples
from herdcli.quadrature.targets import RowTarget, Target, TrigonometricTarget
from herdcli.records import dataclass
from herdcli.schema import Array

PER_DECADE = 20


@dataclass(frozen=True)
class TargetReference:
    """A target in the columns of a kernel: μ as a function of points (n, d), ‖μ‖², the first two moments if known, and its rows."""

    mean: Callable[[Array], Array]
    norm: float
    moments: tuple[Array, Array | None] | None
    rows: Array | None = None


@dataclass(frozen=True)
class EvaluatedSamples:
    """Samples, or the rows of a data set, for comparison with a target.

    samples  None for a data set.  atoms (m, d), weight (m,)  in the columns of the kernel; the weights sum to 1.
    target, kernel  None without a comparison.  traced  compute metrics for each of log-spaced numbers of atoms.
    image_shape  (2,) of atoms that are images.
    """

    samples: Samples | None
    atoms: Array
    weight: Array
    target: TargetReference | None
    kernel: Kernel | None
    traced: bool = False
    feature_names: list[str] | None = None
    image_shape: Array | None = None

    def rows(self) -> Row | list[Row]:
        """Return the columns of the samples, with those of the comparison with the target, or the trace."""
        if self.traced and self.samples is not None:
            return trace_rows(self.samples, self.target, self.kernel)
        own = {} if self.samples is None else stored_metric_columns(self.samples)
        return own | (target_comparison_columns(self.kernel, self.atoms, self.weight, self.target) if self.target and self.kernel else {})


def normalized_weights(weight: Array | None, rows: int, groups: int | None) -> Array:
    """Return weights (m,) that sum to 1: those of samples, which sum to 1 in each of `groups`, or of a data set, by default equal."""
    known = np.ones(rows) if weight is None else np.asarray(weight, dtype=np.float64)
    return known / (known.sum() if groups is None else groups)


def metrics(
    value: Samples | EvaluatedSamples, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None
) -> Row | list[Row]:
    """Return the columns of samples, or of their comparison with a target."""
    return value.rows() if isinstance(value, EvaluatedSamples) else stored_metric_columns(value)


def stored_metric_columns(value: Samples) -> Row:
    """Return the metrics stored in the artifact; means over groups.

    mmd_error       its standard error, if ‖μ‖² is estimated.
    embedding_error  the largest error of the MMD due to an approximate embedding of the rows, over all groups.
    mmd             that of the stored weights.      mmd_random  that of as many random rows.
    sampling_floor  MMD of as many independent draws as the target has rows; of a closed form or a Stein kernel, as there are atoms.
    rule_mmd        that of the rule's own weights.  projected_mmd   that of simplex weights, with --trace-projected.
    reduce_error    merge-and-reduce: an upper bound of the distance between the union of the blocks' atoms and all rows.
    law_distance, law_entropy  for ±1 states under feature kernels: distance of the weighted atoms' distribution from that of
                    maximum entropy with the target's moments, and its entropy in bits.
    """
    result: Row = {"atoms": len(value.index), "groups": value.groups}
    summary = value.summary
    if summary is not None:
        result |= {
            "mmd": float(summary.mmd.mean()),
            "mmd_random": _finite_or_none(expected_random_mmd(value, summary).mean()),
            "sampling_floor": _finite_or_none(summary.floor.mean()),
        }
        if summary.norm_error is not None:
            result["mmd_error"] = _finite_or_none(mmd_standard_error(summary).mean())
        if summary.embedding_error is not None:
            result["embedding_error"] = float(summary.embedding_error.max())
        result["effective_size"] = float(summary.effective.mean())
        result["smallest_weight"] = float(summary.smallest.min())
        result["condition"] = _finite_or_none(summary.condition.max())
        result["reduce_error"] = None if summary.extra is None else float(summary.extra[0])
    last = [value.group_positions(g)[-1] for g in range(value.groups)]
    result["rule_mmd"] = float(value.mmd[last].mean())
    if value.projected is not None:
        ends = [value.projected.mmd[value.projected.group == g][-1] for g in range(value.groups)]
        result["projected_mmd"] = float(np.mean(ends))
    return result | _state_distribution_columns(value, value.weight)


def expected_random_mmd(value: Samples, summary: GroupSummaries) -> Array:
    """Return the expected MMD (G,) of m random rows, one for each atom: √((E k(x,x) − ‖μ‖²)/m), computed from the floor of all rows."""
    atoms = np.array([len(value.group_positions(g)) for g in range(value.groups)], dtype=np.float64)
    return np.asarray(summary.floor * np.sqrt(np.where(summary.rows > 0, summary.rows, atoms) / atoms))


def mmd_standard_error(summary: GroupSummaries) -> Array:
    """Return the standard error (G,) of the MMD: the smaller of e/(2 MMD) and √e, where e is the standard error of MMD²."""
    error = np.zeros(len(summary.mmd)) if summary.norm_error is None else summary.norm_error
    # d√s = ds/(2√s).  Near s = 0, where this is unbounded, an error e of s changes √s by at most √e.
    return np.asarray(np.minimum(error / np.maximum(2.0 * summary.mmd, np.finfo(float).tiny), np.sqrt(error)))


def _state_distribution_columns(value: Samples, weight: Array) -> Row:
    """Return distance from maximum entropy and entropy of the distribution of weighted ±1 atoms, if moments are stored."""
    laws = _StateDistributions.from_samples(value)
    return {} if laws is None else laws.metric_columns(np.bincount(laws.states, weights=weight, minlength=laws.count))


@dataclass(frozen=True)
class _StateDistributions:
    """The states of the atoms as numbers, and the maximum-entropy distribution."""

    states: Array
    count: int
    fitted: Array | None

    @staticmethod
    def from_samples(value: Samples) -> _StateDistributions | None:
        """Return the state distributions, or None unless the atoms are ±1 states of few units under a feature kernel, in one group."""
        d = value.x.shape[1]
        features = {"features:x": "x", "features:x+xx": "x,xx"}.get(value.kernel)
        if value.moment is None or features is None or d > sample_entropy.MOST_STATES[features] or value.groups > 1:
            return None
        if not (np.abs(value.x) == 1).all():
            return None
        fitted = sample_entropy.fit_max_entropy(value.moment, d, features, "spin")
        return _StateDistributions((value.x > 0) @ (1 << np.arange(d)), 1 << d, fitted)

    def metric_columns(self, distribution: Array) -> Row:
        """Return the columns of one distribution (2^d,)."""
        positive = distribution[distribution > 0]
        distance = None if self.fitted is None else float(np.linalg.norm(distribution - self.fitted))
        return {"law_distance": distance, "law_entropy": float(-(positive @ np.log2(positive)))}


def target_reference(kernel: Kernel, target: Target, *, map: Map = map) -> TargetReference:
    """Return a target under a kernel; for rows, ‖μ‖² is a sum over all pairs."""
    if not isinstance(target, RowTarget):
        mean, norm = closed_form_embeddings.closed_form_embedding(kernel, target)
        return TargetReference(mean, norm, None if isinstance(target, (TrigonometricTarget, ScoreTarget)) else target.moments())
    X, weights = target.X, target.weights
    if depends_on_moments(kernel):
        first, second = target.moments()
        norm = embedding_from_moments(kernel, X[:1], first, second)[1]
        return TargetReference(lambda x: embedding_from_moments(kernel, x, first, second)[0], norm, (first, second), X)
    sums = weighted_kernel_sums(kernel, X, X, weights, map=map)
    return TargetReference(lambda x: weighted_kernel_sums(kernel, x, X, weights, map=map), float(weights @ sums), target.moments(), X)


def weighted_kernel_sums(kernel: Kernel, points: Array, rows: Array, weights: Array, *, map: Map = map) -> Array:
    """Return (n,) Σ_j w_j k(points_i, rows_j)."""
    problem = kernel_sums.make_embedding_problem(kernel, points, rows, weights)
    state = kernel_sums.initial_state(problem)
    return iterate.run_steps(
        lambda now: kernel_sums.embedding_step(problem, now, map=map), state, steps=kernel_sums.total_steps(problem)
    ).sums


def target_comparison_columns(kernel: Kernel, atoms: Array, weight: Array, target: TargetReference) -> Row:
    """Compare weighted atoms (m, d) with a target.

    target_mmd  ‖Σ w Φ − μ‖.      mean_error  ‖Σ w x − E x‖ divided by the target's total standard deviation.
    second_error  ‖Σ w xx' − E xx'‖ divided by ‖E xx'‖ (Frobenius).
    """
    quadratic = float(weight @ weighted_kernel_sums(kernel, atoms, atoms, weight))
    linear = float(weight @ target.mean(atoms))
    # ‖Σ w Φ − μ‖² = w'Kw − 2 Σ w μ(x) + ‖μ‖²; rounding may make it negative for atoms that equal the target.
    result: Row = {"target_mmd": float(np.sqrt(max(0.0, quadratic - 2.0 * linear + target.norm)))}
    if target.moments is None:
        return result
    first, second = target.moments
    off = weight @ atoms - first
    if second is not None:
        spread = float(np.sqrt(max(np.trace(second) - first @ first, np.finfo(float).tiny)))
        result["mean_error"] = float(np.linalg.norm(off)) / spread
        result["second_error"] = float(np.linalg.norm((atoms * weight[:, None]).T @ atoms - second) / np.linalg.norm(second))
    return result


def trace_rows(value: Samples, target: TargetReference | None, kernel: Kernel | None) -> list[Row]:
    """Return one row for each log-spaced number t of atoms (of the first group): mmd, gap, and further columns.

    If the weights for every t are known (rules that add one atom at a time), these are target_mmd, law_distance and law_entropy.
    """
    members = value.group_positions(0)
    m = len(members)
    counts = np.unique(np.round(np.logspace(0, np.log10(max(m, 1)), int(PER_DECADE * np.log10(max(m, 2))) + 2)).astype(int))
    rows: dict[int, Row] = {
        int(t): {"t": int(t), "mmd": _finite_or_none(value.mmd[t - 1]), "gap": _finite_or_none(value.gap[t - 1])} for t in counts
    }
    if value.projected is not None:
        own = value.projected.group == 0
        for t, mmd in zip(value.projected.count[own], value.projected.mmd[own], strict=True):
            rows.setdefault(int(t), {"t": int(t), "mmd": _finite_or_none(value.mmd[t - 1])})["projected_mmd"] = float(mmd)
    if value.rate is not None:
        rates = value.rate[members]
        if target is not None and kernel is not None:
            scaled = value.x[members] if value.scale is None else value.x[members] / value.scale
            for t, mmd in _target_trace(kernel, scaled, rates, target, set(rows)):
                rows[t]["target_mmd"] = mmd
        laws = _StateDistributions.from_samples(value)
        if laws is not None:
            for t, figures in _state_distribution_trace(laws, rates, set(rows)):
                rows[t] |= figures
    return [rows[t] for t in sorted(rows)]


def _finite_or_none(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _target_trace(
    kernel: Kernel, atoms: Array, rates: Array, target: TargetReference, atom_counts: set[int]
) -> Iterable[tuple[int, float]]:
    """Yield ‖g_t − μ‖ for the wanted t, g_t ← (1−ρ_t) g_t + ρ_t Φ(x_t)."""
    points = make_point_evaluator(kernel, atoms)
    own, z = kernel.diagonal(atoms), target.mean(atoms)
    running, quadratic, linear = np.zeros(len(atoms)), 0.0, 0.0
    for t, rate in enumerate(rates):
        # ⟨g, g⟩ of g ← (1 − ρ) g + ρ Φ(x), with ⟨g, Φ(x)⟩ = g(x), and likewise ⟨g, μ⟩: a step costs one row of k.
        quadratic = (1 - rate) ** 2 * quadratic + 2 * rate * (1 - rate) * float(running[t]) + rate**2 * float(own[t])
        linear = (1 - rate) * linear + rate * float(z[t])
        running *= 1 - rate
        running += rate * points.values(atoms[t])
        if t + 1 in atom_counts:
            yield t + 1, float(np.sqrt(max(0.0, quadratic - 2 * linear + target.norm)))


def _state_distribution_trace(distributions: _StateDistributions, rates: Array, atom_counts: set[int]) -> Iterable[tuple[int, Row]]:
    law = np.zeros(distributions.count)
    for t, rate in enumerate(rates):
        law *= 1 - rate
        law[distributions.states[t]] += rate
        if t + 1 in atom_counts:
            yield t + 1, distributions.metric_columns(law)
