"""Scores of families of a Bayesian network: what a variable with its parents adds to the score of a structure.

    BIC    Σ N_uk log(N_uk/N_u) − ½ log n · q (r − 1)
    BDeu   Σ_u log Γ(α_u)/Γ(α_u + N_u) + Σ_uk log Γ(α_uk + N_uk)/Γ(α_uk)      α_uk = S/(q r), with S equivalent rows
    K2     the same with α_uk = 1

with r states of the child and q of its parents.  Source: Schwarz (1978); Heckerman, Geiger & Chickering (1995), eq. 28; Cooper &
Herskovits (1992).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from herdcli.markov.learning.directed import Cases, counts, family_likelihood
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_CELLS = 1 << 24  # of the table of a family


@dataclass(frozen=True)
class Score:
    """kind  one of `table.SCORES`.  equivalent_rows  S of BDeu."""

    kind: str = "bic"
    equivalent_rows: float = 1.0


def family(score: Score, cases: Cases, i: int, parents: Sequence[int]) -> float:
    """The score of one family; rows that lack a value of it are made up for by the others."""
    if math.prod(int(cases.cardinality[j]) for j in (*parents, i)) > MOST_CELLS:
        return -math.inf
    return of_counts(score, counts(cases, [*parents, i]), float(cases.weight.sum()))


def of_counts(score: Score, found: Array, total: float) -> float:
    """The score of counts with the child last.  total  the weight of all rows."""
    rows, states = float(found.sum()), found.shape[-1]
    if rows == 0:
        return -math.inf
    found = found.reshape(-1, states)
    if score.kind == "bic":
        return float(family_likelihood(found) * total / rows - 0.5 * math.log(total) * len(found) * (states - 1))
    alpha = 1.0 if score.kind == "k2" else score.equivalent_rows / found.size
    found = found[found.any(axis=1)] * (total / rows)  # states of the parents without rows add nothing
    inside = found[found > 0]
    cells = gammaln(alpha + inside).sum() - len(inside) * gammaln(alpha)
    return float(cells + len(found) * gammaln(states * alpha) - gammaln(states * alpha + found.sum(axis=1)).sum())


class Families:
    """Scores of families that differ in one parent, with the rows of what they share coded once; all are remembered."""

    def __init__(self, cases: Cases, score: Score) -> None:
        self.cases, self.score = cases, score
        self.complete, self.total = cases.complete, float(cases.weight.sum())
        self.columns = np.ascontiguousarray(cases.x.T)
        self.weight = None if (cases.weight == 1).all() else cases.weight
        self.known: dict[tuple[int, tuple[int, ...]], float] = {}

    def of(self, i: int, parents: tuple[int, ...]) -> float:
        """The score of a family with its parents in ascending order."""
        if (i, parents) not in self.known:
            self.known[i, parents] = family(self.score, self.cases, i, parents)
        return self.known[i, parents]

    def extended(self, i: int, parents: tuple[int, ...], others: Sequence[int]) -> list[float]:
        """The scores with one more parent each, counted together where no value is missing."""
        missing = [k for k in others if (i, _with(parents, k)) not in self.known]
        if missing and self.complete:
            self._count(i, parents, missing)
        return [self.of(i, _with(parents, k)) for k in others]

    def _count(self, i: int, parents: tuple[int, ...], others: Sequence[int]) -> None:
        states = [int(self.cases.cardinality[j]) for j in (*parents, i)]
        shared = math.prod(states)
        code = np.zeros(self.columns.shape[1], dtype=np.int64)
        for j, count in zip((*parents, i), states, strict=True):
            code = code * count + self.columns[j]
        for k in others:
            more = int(self.cases.cardinality[k])
            if shared * more > MOST_CELLS:
                self.known[i, _with(parents, k)] = -math.inf
                continue
            found = np.bincount(code + shared * self.columns[k], self.weight, shared * more).reshape(-1, states[-1])
            self.known[i, _with(parents, k)] = of_counts(self.score, found.astype(np.float64), self.total)


def _with(parents: tuple[int, ...], k: int) -> tuple[int, ...]:
    return tuple(sorted((*parents, k)))
