"""Scores of families of a Bayesian network: the contribution of a variable with its parents to the score of a structure.

    BIC    Σ N_uk log(N_uk/N_u) − ½ log n · q (r − 1)
    BDeu   Σ_u log Γ(α_u)/Γ(α_u + N_u) + Σ_uk log Γ(α_uk + N_uk)/Γ(α_uk)      α_uk = S/(q r), with S equivalent rows
    K2     the same with α_uk = 1

with r states of the child and q of its parents.  Source: Schwarz (1978); Heckerman, Geiger & Chickering (1995), eq. 28; Cooper &
Herskovits (1992).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import gammaln, xlogy

from herdcli.markov.learning.bayesian_networks import WeightedCases, count_cases, max_family_log_likelihood
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_CELLS = 1 << 24  # largest table of a family
TOGETHER = 1 << 16  # rows and cells of families that are counted together


@dataclass(frozen=True)
class FamilyScore:
    """The settings of a score.

    kind             one of `algorithm_table.SCORES`.
    equivalent_rows  S of BDeu.
    """

    kind: str = "bic"
    equivalent_rows: float = 1.0


def score_family(score: FamilyScore, cases: WeightedCases, i: int, parents: Sequence[int]) -> float:
    """Return the score of one family; rows with missing values of it are compensated by scaling up the others."""
    if math.prod(int(cases.cardinality[j]) for j in (*parents, i)) > MOST_CELLS:
        return -math.inf
    return score_counts(score, count_cases(cases, [*parents, i]), float(cases.weight.sum()))


def score_counts(score: FamilyScore, counts: Array, total: float) -> float:
    """Return the score of counts with the child last.

    total  the weight of all rows.
    """
    rows, states = float(counts.sum()), counts.shape[-1]
    if rows == 0:
        return -math.inf
    counts = counts.reshape(-1, states)
    if score.kind == "bic":
        return float(max_family_log_likelihood(counts) * total / rows - 0.5 * math.log(total) * len(counts) * (states - 1))
    alpha = 1.0 if score.kind == "k2" else score.equivalent_rows / counts.size
    counts = counts[counts.any(axis=1)] * (total / rows)  # states of the parents without rows contribute nothing
    inside = counts[counts > 0]
    cells = gammaln(alpha + inside).sum() - len(inside) * gammaln(alpha)
    return float(cells + len(counts) * gammaln(states * alpha) - gammaln(states * alpha + counts.sum(axis=1)).sum())


def score_stacked_tables(score: FamilyScore, counts: Array, rows: Array, total: float) -> Array:
    """Return the scores (K,) of K tables, stacked vertically: found (Σ rows, states of the child), rows (K,) of each.

    total  the weight of all rows of data.
    """
    states, count = counts.shape[1], len(rows)
    table = np.repeat(np.arange(count), rows)
    sums = counts.sum(axis=1)
    used = np.flatnonzero(sums)
    cells, owner = counts[used], table[used]
    if score.kind == "bic":
        each = xlogy(cells, cells).sum(axis=1) - xlogy(sums[used], sums[used])
        made = np.bincount(owner, each, count) - 0.5 * math.log(total) * rows * (states - 1)
        return np.asarray(made)
    alpha = np.ones(count) if score.kind == "k2" else score.equivalent_rows / (rows * states)
    own = np.repeat(owner, states)[inside := np.flatnonzero(cells)]
    each = gammaln(alpha[own] + cells.reshape(-1)[inside]) - gammaln(alpha)[own]
    whole = alpha * states
    made = np.bincount(owner, gammaln(whole)[owner] - gammaln(whole[owner] + sums[used]), count) + np.bincount(own, each, count)
    return np.asarray(made)


class FamilyScores:
    """Scores of families that differ in one parent, with the rows of shared variables encoded once; all scores are cached."""

    def __init__(self, cases: WeightedCases, score: FamilyScore) -> None:
        self.cases, self.score = cases, score
        self.complete, self.total = cases.complete, float(cases.weight.sum())
        self.columns = np.ascontiguousarray(cases.x.T)
        self.weight = None if (cases.weight == 1).all() else cases.weight
        self.known: dict[tuple[int, tuple[int, ...]], float] = {}

    def of(self, i: int, parents: tuple[int, ...]) -> float:
        """Return the score of a family with its parents in ascending order."""
        if (i, parents) not in self.known:
            self.known[i, parents] = score_family(self.score, self.cases, i, parents)
        return self.known[i, parents]

    def score_added_parents(self, i: int, parents: tuple[int, ...], others: Sequence[int]) -> list[float]:
        """Return the scores with one more parent each, counted together if no value is missing."""
        families = [_add_parent(parents, k) for k in others]
        if self.complete:
            missing = {k: (i, family) for k, family in zip(others, families, strict=True) if (i, family) not in self.known}
            self._count(i, parents, missing)
        return [self.of(i, family) for family in families]

    def _count(self, i: int, parents: tuple[int, ...], others: dict[int, tuple[int, tuple[int, ...]]]) -> None:
        """Count and score the families with each of the other variables, in groups that fit into the processor's cache."""
        if not others:
            return
        states = [int(self.cases.cardinality[j]) for j in (*parents, i)]
        shared, rows = math.prod(states), self.columns.shape[1]
        code = np.zeros(rows, dtype=np.int64)
        for j, count in zip((*parents, i), states, strict=True):
            code = code * count + self.columns[j]
        small = [k for k in others if shared * int(self.cases.cardinality[k]) <= MOST_CELLS]
        self.known.update({others[k]: -math.inf for k in others.keys() - set(small)})
        for part in self._parts(small, rows, shared):
            more = self.cases.cardinality[part]
            start = np.concatenate([[0], np.cumsum(more * shared)])
            cell = self.columns[part]
            cell *= shared
            cell += code
            cell += start[:-1, None]
            weight = None if self.weight is None else np.tile(self.weight, len(part))
            found = np.bincount(cell.reshape(-1), weight, int(start[-1])).reshape(-1, states[-1])
            values = score_stacked_tables(self.score, found, more * (shared // states[-1]), self.total)
            self.known.update(zip([others[k] for k in part], values.tolist(), strict=True))

    def _parts(self, others: list[int], rows: int, shared: int) -> Iterator[list[int]]:
        """Yield the variables in groups whose rows and cells are few enough."""
        part: list[int] = []
        size = 0
        for k in others:
            own = rows + shared * int(self.cases.cardinality[k])
            if part and size + own > TOGETHER:
                yield part
                part, size = [], 0
            part.append(k)
            size += own
        if part:
            yield part


def _add_parent(parents: tuple[int, ...], k: int) -> tuple[int, ...]:
    return tuple(sorted((*parents, k)))
