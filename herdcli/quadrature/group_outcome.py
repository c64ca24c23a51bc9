"""The results of a group: the embedding from its sums, the result of the rule, and ‖μ‖² if it is estimated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.embeddings import closed_form_embeddings
from herdcli.quadrature.kernels.point_sums import depends_on_moments, embedding_from_moments, make_point_evaluator
from herdcli.quadrature.kernels.stein_kernels import ScoreTarget
from herdcli.quadrature.rules import sequential_rules
from herdcli.quadrature.rules.candidate_space import CandidateSpace, prefix_mmds
from herdcli.quadrature.rules.rule import Rule
from herdcli.quadrature.samples import Continuation
from herdcli.quadrature.selection_problem import (
    GroupResult,
    SelectionGroup,
    SelectionProblem,
    SelectionState,
    is_norm_estimated,
    sample_norm_rows,
)
from herdcli.quadrature.targets import MomentTarget, RowTarget
from herdcli.schema import Array


def group_embedding(
    problem: SelectionProblem, group: SelectionGroup, state: SelectionState
) -> tuple[Array, float, Callable[[Array], Array]]:
    """Return μ (N,) at the candidates, ‖μ‖², and μ as a function.

    If ‖μ‖² will be estimated, its upper bound E k(x, x) is returned instead.
    """
    kernel, target, points = problem.kernel, group.target, group.points
    if not isinstance(target, RowTarget):
        function, norm = closed_form_embeddings.closed_form_embedding(kernel, target)
        return function(points) if len(points) else np.zeros(0), norm, function
    total = target.weights.sum()
    X, weights = target.X, target.weights / total
    if depends_on_moments(kernel):
        first, second = RowTarget(X, weights).moments()
        mean, norm = embedding_from_moments(kernel, points, first, second)
        return mean, norm, lambda x: embedding_from_moments(kernel, x, first, second)[0]
    if group.start is not None:
        mean, norm = group.start.embedding, group.start.norm
    elif is_norm_estimated(group, problem.settings.norm):
        mean, norm = state.sums[0].sums / total, float(exact_arithmetic.matrix_product(weights, kernel.diagonal(X)))
    else:
        mean, norm = state.sums[0].sums / total, float(exact_arithmetic.matrix_product(weights, state.sums[-1].sums)) / float(total)
    return mean, norm, lambda x: exact_arithmetic.matrix_product(kernel.matrix(x, X), weights)


def group_result(space: CandidateSpace, group: SelectionGroup, state: SelectionState, rule: Rule) -> GroupResult:
    """Return the atoms, weights and traces of the rule that ran."""
    if state.sequence is not None:
        return _sequence_result(space, group, state, state.sequence, rule)
    own = getattr(state, rule.field)
    found = rule.selected_atoms(own)
    return GroupResult(
        ended=found.ended if len(found.index) < group.count else "",
        norm=space.norm,
        spread=_expected_squared_distance(space, group),
        index=found.index,
        atoms=space.candidates[found.index],
        weight=found.weight,
        embedding=space.embedding[found.index],
        mmd=found.mmd,
        gap=found.gap,
        state=_make_continuation(space, own, rule),
    )


def _make_continuation(space: CandidateSpace, rule_state: Any, rule: Rule) -> Continuation | None:
    """Return the state that a later run continues from; None for rules that cannot be continued."""
    return replace(Continuation(space.embedding, space.norm), **{rule.field: rule_state}) if rule.kept else None


def _sequence_result(
    space: CandidateSpace, group: SelectionGroup, state: SelectionState, run: sequential_rules.SequenceState, rule: Rule
) -> GroupResult:
    kept, spread = _make_continuation(space, run, rule), _expected_squared_distance(space, group)
    weight = np.full(run.step, 1.0 / run.step) if rule.equal else sequential_rules.sequence_weights(run)
    if state.swap is None:
        return GroupResult("", space.norm, spread, run.index, run.atoms, weight, run.embedding, run.mmd, run.gap, run.rate, None, kept)
    found = state.swap
    mmd = prefix_mmds(space, found.atoms, found.embedding)
    gap = np.full(len(mmd), np.nan)
    return GroupResult("", space.norm, spread, found.index, found.atoms, weight, found.embedding, mmd, gap, None, found.mmd, kept)


def estimate_embedding_norm(problem: SelectionProblem, group: SelectionGroup, state: SelectionState, result: GroupResult) -> None:
    """Estimate ‖μ‖² from samples x_s, and update the figures that depend on it.

    With g = Σ_u w_u k(x_u, ·) of the atoms, ‖μ‖² = E μ(x) = E (μ − g)(x) + Σ_u w_u μ(x_u), in which the last sum is known.
    If the atoms are good, μ − g is small, and so is the error of its mean over samples (a control variate; Owen 2013, sec. 8.9).
    """
    target = group.target
    if not isinstance(target, RowTarget):
        raise TypeError(target.name)
    drawn = target.X[sample_norm_rows(problem, target, problem.global_number(state.group))]
    left = state.sums[-1].sums / target.weights.sum()
    left -= make_point_evaluator(problem.kernel, drawn).weighted_kernel_sums(result.atoms, result.weight)
    norm, bound = float(left.mean() + exact_arithmetic.matrix_product(result.weight, result.embedding)), result.norm
    result.norm, result.spread, result.norm_error = norm, result.spread + bound - norm, float(left.std(ddof=1) / math.sqrt(len(left)))
    # MMD² = ⟨g, g⟩ − 2⟨g, μ⟩ + ‖μ‖², with the bound in place of the last term so far.
    result.mmd = np.sqrt(np.maximum(0.0, np.square(result.mmd) - bound + norm))
    if result.passes is not None:
        result.passes = np.sqrt(np.maximum(0.0, np.square(result.passes) - bound + norm))


def _expected_squared_distance(space: CandidateSpace, group: SelectionGroup) -> float:
    """Compute E k(x, x) − ‖μ‖² under the target; NaN for a closed form under which k(x, x) varies."""
    target = group.target
    if isinstance(target, RowTarget):
        own = space.diagonal if group.candidates is None else space.kernel.diagonal(target.X)
        return float(exact_arithmetic.matrix_product(target.weights, own) / target.weights.sum()) - space.norm
    if isinstance(target, ScoreTarget):  # the rows are approximately samples of the target
        return float(space.diagonal.mean())
    low, high = target.bounding_box()
    if isinstance(target, MomentTarget):  # of ±1 units, for which feature kernels have a constant k(x, x)
        return float(space.kernel.diagonal(high[None])[0]) - space.norm
    ends = space.kernel.diagonal(np.stack([low, high, 0.3 * low + 0.7 * high]))
    return float(ends[0]) - space.norm if np.ptp(ends) <= 1e-12 * np.abs(ends).max() else math.nan
