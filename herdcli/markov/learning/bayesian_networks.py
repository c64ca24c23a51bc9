"""Bayesian networks from rows: tables of families with Dirichlet smoothing, their likelihood, and trees.

    P(x_i = k | parents in state u) = (N_uk + α_uk)/(N_u + α_u),    α_uk = S/(q r)

with r states of the child, q of its parents, and S pseudo-rows of the uniform distribution (BDeu's equivalent sample size).
Source: Heckerman, Geiger & Chickering (1995), eq. 28; Chow & Liu (1968) for trees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from herdcli.markov.model.fit import FitRecord
from herdcli.markov.model.graphs.dag import Parents, find_cycle
from herdcli.markov.model.graphs.structure_selection import Pair, chow_liu_edges
from herdcli.markov.model.network import Network, build_network
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class WeightedCases:
    """Rows of states (n, N), −1 where a value is missing, with weights (n,) that sum to the number of rows."""

    x: Array
    weight: Array
    cardinality: Array

    @property
    def complete(self) -> bool:
        """True if no value is missing."""
        return bool((self.x >= 0).all())


def count_cases(cases: WeightedCases, scope: Sequence[int]) -> Array:
    """Return the weighted number of rows in each state of some variables, over the rows in which none of them is missing."""
    shape = [int(cases.cardinality[i]) for i in scope]
    cell, weight = np.zeros(len(cases.x), dtype=np.int64), cases.weight
    known = np.ones(len(cases.x), dtype=bool)
    for i, states in zip(scope, shape, strict=True):
        column = cases.x[:, i]
        if column.min(initial=0) < 0:
            known &= column >= 0
        cell = cell * states + column
    if not known.all():
        cell, weight = cell[known], weight[known]
    found: Array = np.bincount(cell, weight, math.prod(shape)).reshape(shape)
    return found


def normalise_to_conditional(counts: Array, smoothing: float) -> Array:
    """Return P(child | parents) from counts with the child last; uniform where there is neither a row nor smoothing."""
    raised = counts + smoothing / counts.size
    total = raised.sum(axis=-1, keepdims=True)
    uniform = np.full_like(raised, 1.0 / raised.shape[-1])
    made: Array = np.divide(raised, total, out=uniform, where=total > 0)
    return made


def make_bayesian_network(
    parents: Parents, tables: Sequence[Array], cardinality: Array, names: list[str] | None, states: list[str] | None
) -> Network:
    """Return the network of the factors P(child | parents), in the order of the children."""
    factors = [((*of, i), part) for i, (of, part) in enumerate(zip(parents, tables, strict=True))]
    return build_network(cardinality, factors, names=names, states=states, directed=True)


def max_family_log_likelihood(counts: Array) -> float:
    """Return Σ N_uk log(N_uk/N_u), the largest log-likelihood of a family."""
    total = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)
    # 0 log 0 = 0: states without rows contribute nothing.
    on = counts > 0
    return float((counts[on] * np.log(counts[on] / total[on])).sum())


def orient_tree(tree: Sequence[Pair], nodes: int) -> Parents:
    """Return the parents of each variable if a tree's edges are directed away from its first variable."""
    near: list[list[int]] = [[] for _ in range(nodes)]
    for i, j in tree:
        near[i].append(j)
        near[j].append(i)
    parent: list[tuple[int, ...]] = [()] * nodes
    seen: set[int] = set()
    for root in range(nodes):
        if root in seen:
            continue
        seen.add(root)
        stack = [root]
        while stack:
            i = stack.pop()
            for j in near[i]:
                if j not in seen:
                    seen.add(j)
                    parent[j] = (i,)
                    stack.append(j)
    return tuple(parent)


def is_acyclic(parents: Sequence[Sequence[int]]) -> bool:
    """Return True if the variables can be ordered such that parents precede children."""
    return not find_cycle(dict(enumerate(parents)))


def fit_chow_liu_tree(cases: WeightedCases) -> Parents:
    """Return the most probable tree, directed away from its first variable; pairs that no row observes together count as independent."""
    nodes = len(cases.cardinality)
    information = np.zeros((nodes, nodes))
    for i in range(nodes):
        for j in range(i):
            p = count_cases(cases, (i, j))
            if p.any():
                p /= p.sum()
                outer = p.sum(axis=1)[:, None] * p.sum(axis=0)
                on = p > 0
                information[i, j] = information[j, i] = float((p[on] * np.log(p[on] / outer[on])).sum())
    return orient_tree(chow_liu_edges(information), nodes)


def mean_complete_log_likelihood(cases: WeightedCases, scopes: Sequence[tuple[int, ...]], tables: Sequence[Array]) -> float:
    """Return the mean log-likelihood of the rows without missing values; NaN if there are none."""
    whole = (cases.x >= 0).all(axis=1)
    if not whole.any():
        return math.nan
    x, weight = cases.x[whole], cases.weight[whole]
    with np.errstate(divide="ignore"):
        rows = sum(np.log(part[tuple(x[:, i] for i in scope)]) for scope, part in zip(scopes, tables, strict=True))
    return float(weight @ rows / weight.sum())


def make_fit_record(
    cases: WeightedCases, scopes: Sequence[tuple[int, ...]], expected: Sequence[Array], *, steps: int, converged: bool, trace: Array,
    log_likelihood: float, smoothing: float, holdout: tuple[Array, Array],
) -> FitRecord:  # fmt: skip
    """Return the record of the fit; its target marginals are the (expected) shares of rows in each state of a family."""
    rows, split = holdout
    total = float(cases.weight.sum())
    return FitRecord(
        np.array([i for scope in scopes for i in scope], dtype=np.int64),
        np.concatenate(([0], np.cumsum([len(scope) for scope in scopes]))).astype(np.int64),
        np.concatenate([found.ravel() / total for found in expected]),
        np.concatenate(([0], np.cumsum([found.size for found in expected]))).astype(np.int64),
        np.asarray(trace, dtype=np.float64),
        rows.astype(np.uint8) if len(rows) else None,
        split.astype(np.uint8) if len(rows) else None,
        algorithm="bayes", converged=converged, iterations=steps, residual=float(trace[-1]) if len(trace) else 0.0,
        log_likelihood=log_likelihood, rows=len(cases.x), smoothing=smoothing,
    )  # fmt: skip
