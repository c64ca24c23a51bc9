"""The `samples` artifact of a finished run: new weights if requested, figures of each group, projected traces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.quadrature.atom_weights import AtomWeightReport, compute_atom_weights, make_weight_report, simplex_mmd_trace
from herdcli.quadrature.kernels.kernel_functions import FeatureKernel
from herdcli.quadrature.kernels.point_sums import make_point_evaluator
from herdcli.quadrature.kernels.stein_kernels import drop_scores
from herdcli.quadrature.rules.candidate_space import CandidateSpace
from herdcli.quadrature.samples import GroupSummaries, Samples, SimplexMMDTraces
from herdcli.quadrature.selection_problem import GroupResult, SelectionProblem, SelectionState
from herdcli.quadrature.targets import RowTarget
from herdcli.records import dataclass
from herdcli.schema import Array, join_records
from herdcli.shards import Shard

MOST_UNITS = 20  # most units for which moments are stored


def assemble_samples(
    problem: SelectionProblem,
    state: SelectionState,
    rows: Sequence[Array | None],
    *,
    kind: str,
    projected: bool,
    scale: Array,
    names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    keep_state: bool = True,
    originals: Callable[[Array], Array] | None = None,
) -> Samples:
    """Make the artifact of a state whose groups are all finished.

    rows   for each group the input's row (N,) of each of its candidates, None if candidates are not rows of the input.
    kind   the kind of weights: `rule` keeps the weights of the rule; see `quadrature.atom_weights` for the others.
    scale  (d,) divisors of the columns.
    names  the names of the groups, if there are several.
    originals  returns the rows of the input with these numbers, as they were before scaling; None: atoms times scale, up to rounding.
    """
    results = state.done
    indices = [_atom_rows(result.index, known) for result, known in zip(results, rows, strict=True)]
    spaces = [_atom_space(problem, result) for result in results]
    found = [_final_weights(kind, space, result) for space, result in zip(spaces, results, strict=True)]
    several, index = names is not None, np.concatenate(indices)
    x = drop_scores(problem.kernel, np.concatenate([result.atoms for result in results])) * scale
    if originals is not None and (scale != 1).any():
        x[index >= 0] = originals(index[index >= 0])
    return Samples(
        x=x,
        index=index,
        weight=np.concatenate(found),
        mmd=np.concatenate([result.mmd for result in results]),
        gap=np.concatenate([result.gap for result in results]),
        rate=None if any(result.rate is None for result in results) else np.concatenate([r.rate for r in results if r.rate is not None]),
        group=np.repeat(np.arange(len(results)), [len(result.index) for result in results]) if several else None,
        summary=_group_summary(problem, state, results, spaces, found),
        projected=_simplex_mmd_traces(results, spaces) if projected else None,
        moment=_mean_features(problem),
        passes=results[0].passes,
        rule=problem.settings.rule.rule,
        weights=kind,
        kernel=problem.kernel.text(),
        scale=None if (scale == 1).all() else scale,
        target=problem.groups[0].target.name,
        ended=next((result.ended for result in results if result.ended), ""),
        embedding=_approximation_text(problem, state),
        group_names=list(names) if names is not None else None,
        feature_names=list(feature_names) if feature_names is not None else None,
        state=([result.state for result in results if result.state is not None] or None) if keep_state else None,
    )


def extend_to_more_rows(value: Samples, rows: int, mean_diagonal: float) -> Samples:
    """Return the artifact for atoms that represent more rows than there were candidates; own  E k(x, x) over all of them."""
    if value.summary is None:
        return value
    floor = np.sqrt(np.maximum(mean_diagonal - value.summary.norm, 0.0) / rows)
    return replace(value, summary=replace(value.summary, rows=np.array([rows], dtype=np.int64), floor=floor))


@dataclass(frozen=True, kw_only=True)
class SamplesShard(Shard):
    """A shard with the atoms of some groups, each an artifact of its own."""

    parts: list[Samples]


def assemble_group_samples(
    problem: SelectionProblem, state: SelectionState, rows: Sequence[Array | None], names: Sequence[str] | None, **more: Any
) -> list[Samples]:
    """Make a separate artifact for each group; without names of groups there is one group.

    rows  as in `assemble_samples`, (N,) of each group.  more  see `assemble_samples`.
    """
    if names is None:
        return [assemble_samples(problem, state, rows, **more)]
    return [
        assemble_samples(problem.part([g]), replace(state, done=[result]), [rows[g]], names=[names[g]], **more)
        for g, result in enumerate(state.done)
    ]


def join_group_samples(parts: Sequence[Samples]) -> Samples:
    """Join the artifacts of all groups in their order."""
    made = join_records(parts, "m", "G", "p")
    if made.group is None:
        return made
    traces = [0 if part.projected is None else len(part.projected.count) for part in parts]
    return replace(
        made,
        group=np.repeat(np.arange(len(parts)), [len(part.index) for part in parts]),
        projected=None if made.projected is None else replace(made.projected, group=np.repeat(np.arange(len(parts)), traces)),
        ended=next((part.ended for part in parts if part.ended), ""),
        group_names=[name for part in parts for name in part.group_names or ()],
        state=None if made.state is None else [state for part in parts for state in part.state or ()],
    )


def _mean_features(problem: SelectionProblem) -> Array | None:
    """Compute E Φ of a feature kernel in one group of few columns: the mean, then E x_i x_j for i < j."""
    kernel, target = problem.kernel, problem.groups[0].target
    several = len(problem.groups) > 1 or problem.numbers is not None
    if not isinstance(kernel, FeatureKernel) or several or target.dimension > MOST_UNITS:
        return None
    mean, second = target.moments()
    if not kernel.pairs or second is None:
        return mean
    return np.concatenate([mean, second[np.triu_indices(len(mean), 1)]])


def _atom_rows(index: Array, rows: Array | None) -> Array:
    return np.asarray(np.where(index >= 0, index if rows is None else rows[np.maximum(index, 0)], -1), dtype=np.int64)


def _atom_space(problem: SelectionProblem, result: GroupResult) -> CandidateSpace:
    """Return the space of the atoms alone, which is sufficient to compute weights."""
    own = problem.kernel.diagonal(result.atoms)
    points = make_point_evaluator(problem.kernel, result.atoms)
    return CandidateSpace(problem.kernel, result.atoms, result.embedding, result.norm, own, points, lambda x: np.zeros(len(x)))


def _final_weights(kind: str, space: CandidateSpace, result: GroupResult) -> Array:
    return result.weight if kind == "rule" else compute_atom_weights(kind, space, result.atoms, result.embedding)


def _group_summary(
    problem: SelectionProblem, state: SelectionState, results: list[GroupResult], spaces: list[CandidateSpace], final_weights: list[Array]
) -> GroupSummaries:
    reports = [
        make_weight_report(space, result.atoms, result.embedding, w)
        for space, result, w in zip(spaces, results, final_weights, strict=True)
    ]
    targets = [group.target for group in problem.groups]
    counts = [len(target.X) if isinstance(target, RowTarget) else 0 for target in targets]
    return GroupSummaries(
        mmd=np.array([r.mmd for r in reports]),
        # E ‖(1/n) Σ Φ(X_i) − μ‖² = (E k(X, X) − ‖μ‖²)/n for independent draws X_i: the variance of a mean.
        floor=np.array([math.sqrt(max(r.spread, 0.0) / (n or len(r.index))) for r, n in zip(results, counts, strict=True)]),
        norm=np.array([result.norm for result in results]),
        rows=np.array(counts, dtype=np.int64),
        condition=np.array([r.condition for r in reports]),
        smallest=np.array([r.smallest for r in reports]),
        effective=np.array([r.effective for r in reports]),
        embedding_error=_embedding_error_bounds(results, reports, final_weights),
        norm_error=None if results[0].norm_error is None else np.array([result.norm_error for result in results], dtype=np.float64),
    )


def _approximation_text(problem: SelectionProblem, state: SelectionState) -> str | None:
    """Return the approximation of some group's embedding as it is typed; None if all are exact."""
    chosen = problem.settings.embedding
    return None if chosen is None or all(result.added is None for result in state.done) else chosen.text()


def _embedding_error_bounds(results: list[GroupResult], reports: list[AtomWeightReport], final_weights: list[Array]) -> Array | None:
    """Return the bound (G,) of the contribution of an approximate embedding to each group's MMD; None if all are exact."""
    if all(result.added is None for result in results):
        return None
    pairs = zip(results, reports, final_weights, strict=True)
    return np.array([0.0 if result.added is None else result.added.mmd_error_bound(r.mmd, w) for result, r, w in pairs])


def _simplex_mmd_traces(results: list[GroupResult], spaces: list[CandidateSpace]) -> SimplexMMDTraces:
    traces = [simplex_mmd_trace(space, result.atoms, result.embedding) for space, result in zip(spaces, results, strict=True)]
    return SimplexMMDTraces(
        group=np.repeat(np.arange(len(traces)), [len(counts) for counts, _ in traces]),
        count=np.concatenate([counts for counts, _ in traces]),
        mmd=np.concatenate([mmd for _, mmd in traces]),
    )
