"""Scores of families of a Bayesian network: the contribution of a variable with its parents to the score of a structure.

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
from scipy.special import gammaln, xlogy

from herdcli import fast
from herdcli.markov.learning.bayesian_networks import WeightedCases, count_cases, max_family_log_likelihood
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_CELLS = 1 << 24  # largest table of a family
LARGEST_GROUP = 256  # joint states of variables that are counted in one pass over the rows
JOINT_CELLS = 1 << 14  # largest table of a group and a family, which fits into the processor's cache


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
    # log Γ(α_uk + N_uk)/Γ(α_uk) is 0 for cells without rows, and log Γ(α_u)/Γ(α_u + N_u) for states of the parents without rows.
    cells = gammaln(alpha + inside).sum() - len(inside) * gammaln(alpha)
    return float(cells + len(counts) * gammaln(states * alpha) - gammaln(states * alpha + counts.sum(axis=1)).sum())


class FamilyScores:
    """Scores of families that differ in one parent; all scores are cached.

    The variables are packed into groups, and a group is counted in one pass over the rows.
    """

    def __init__(self, cases: WeightedCases, score: FamilyScore) -> None:
        self.cases, self.score = cases, score
        self.complete, self.total = cases.complete, float(cases.weight.sum())
        self.columns = np.ascontiguousarray(cases.x.T, dtype=np.int32)
        self.weight = np.empty(0) if (cases.weight == 1).all() else cases.weight
        self.known: dict[tuple[int, tuple[int, ...]], float] = {}
        self.added: dict[tuple[int, tuple[int, ...]], Array] = {}
        self.groups: dict[int, _Groups] = {}
        self.states: list[int] = cases.cardinality.tolist()

    def score_of_family(self, i: int, parents: tuple[int, ...]) -> float:
        """Return the score of a family with its parents in ascending order."""
        found = self.known.get((i, parents))
        if found is None:
            for k in parents:
                scores = self.added.get((i, tuple(j for j in parents if j != k)))
                if scores is not None and not math.isnan(scores[k]):
                    found = float(scores[k])
                    break
            else:
                found = self._count_and_score_family(i, parents) if self.complete else score_family(self.score, self.cases, i, parents)
            self.known[i, parents] = found
        return found

    def score_added_parents(self, i: int, parents: tuple[int, ...], others: Array) -> Array:
        """Return the scores (K,) with one more parent each, from others (K,); they are counted together if no value is missing."""
        found = self.added.get((i, parents))
        if found is None:
            found = self.added[i, parents] = np.full(len(self.columns), np.nan)
        missing = others[np.isnan(found[others])]
        if self.complete and len(missing):
            self._score_in_groups(i, parents, missing, found)
            missing = missing[np.isnan(found[missing])]
        for k in missing.tolist():
            found[k] = self.score_of_family(i, tuple(sorted((*parents, k))))
        return found[others]

    def _count_and_score_family(self, i: int, parents: tuple[int, ...]) -> float:
        """Count and score one family."""
        scope = (*parents, i)
        cells = math.prod(self.states[j] for j in scope)
        if cells > MOST_CELLS:
            return -math.inf
        tables = np.bincount(self._joint_code(scope), self.weight if len(self.weight) else None, cells).astype(np.float64)
        rows = np.array([cells // self.states[i]])
        return float(score_stacked_tables(self.score, tables, rows, self.states[i], self.total)[0])

    def _joint_code(self, scope: Sequence[int]) -> Array:
        """Return the joint state of some variables in each row, (n,) int32; the last one varies fastest."""
        code: Array = self.columns[scope[0]]
        for k, j in enumerate(scope[1:]):
            code = code * self.states[j] if k == 0 else np.multiply(code, self.states[j], out=code)
            code += self.columns[j]
        return code

    def _score_in_groups(self, i: int, parents: tuple[int, ...], others: Array, out: Array) -> None:
        """Count and score the families with each of the other variables; those of more than LARGEST_GROUP states are left out."""
        scope = (*parents, i)
        shared = math.prod(self.states[j] for j in scope)
        if shared > MOST_CELLS:
            out[others] = -math.inf
            return
        groups = self._choose_groups(shared)
        wanted = np.zeros(len(self.columns), dtype=bool)
        wanted[others] = True
        wanted = wanted[groups.members]
        if shared * LARGEST_GROUP > MOST_CELLS:
            wanted &= groups.states * shared <= MOST_CELLS
        sizes = groups.states * wanted * shared
        ends = sizes.cumsum()
        tables = np.zeros(int(ends[-1]) if len(ends) else 0)
        if not len(tables):
            return
        start = np.where(wanted, ends - sizes, -1)
        fast.count_added_variables(self._joint_code(scope), shared, groups.packed, groups.first, groups.states, start, self.weight, tables)
        rows = groups.states[wanted] * (shared // self.states[i])
        out[groups.members[wanted]] = score_stacked_tables(self.score, tables, rows, self.states[i], self.total)

    def _choose_groups(self, shared: int) -> _Groups:
        """Return groups of so few states that counting them with the shared variables takes less time than reading the rows."""
        size = 1
        while size < LARGEST_GROUP and 4 * size * shared <= min(JOINT_CELLS, self.columns.shape[1]):
            size *= 4
        if size not in self.groups:
            self.groups[size] = _pack_variables(self.columns, self.cases.cardinality, size)
        return self.groups[size]


@dataclass(frozen=True)
class _Groups:
    """Groups of variables; see `fast.count_added_variables`.

    members  the variable of each member.
    """

    packed: Array
    first: Array
    states: Array
    members: Array


def _pack_variables(columns: Array, cardinality: Array, size: int) -> _Groups:
    """Return groups of at most `size` joint states each, or of one variable."""
    groups: list[list[int]] = []
    joint: list[int] = []
    for i in np.argsort(-cardinality, kind="stable").tolist():
        states = int(cardinality[i])
        if states > LARGEST_GROUP:
            continue
        at = next((g for g, own in enumerate(joint) if own * states <= size), None)
        if at is None:
            groups.append([i])
            joint.append(states)
        else:
            groups[at].append(i)
            joint[at] *= states
    packed = np.zeros((len(groups), columns.shape[1]), dtype=np.uint8)
    for row, group in zip(packed, groups, strict=True):
        for k, i in enumerate(group):
            if k:
                row *= np.uint8(cardinality[i])
            row += columns[i].astype(np.uint8)
    members = np.array([i for group in groups for i in group], dtype=np.int64)
    first = np.cumsum([0, *map(len, groups)], dtype=np.int64)
    return _Groups(packed, first, np.ascontiguousarray(cardinality[members], dtype=np.int64), members)


def score_stacked_tables(score: FamilyScore, tables: Array, rows: Array, states: int, total: float) -> Array:
    """Return the scores (K,) of K tables, one after the other: rows (K,) of each, of as many cells as the child has states.

    total  the weight of all rows of data.
    """
    alpha = _pseudo_counts(score, rows, states)
    scratch = np.empty(len(tables) + len(tables) // states)
    found, made = scratch[: fast.gather_arguments(tables, rows, states, alpha, scratch)], np.empty(len(rows))
    # The same two formulas, on the terms N_uk and N_u (BIC) or α + N (BDeu, K2) that are not constants.
    if score.kind == "bic":
        zero = np.zeros(len(rows))
        fast.sum_terms(tables, rows, states, xlogy(found, found), zero, zero, made)
        return np.asarray(made - 0.5 * math.log(total) * rows * (states - 1))
    fast.sum_terms(tables, rows, states, gammaln(found), gammaln(alpha), gammaln(alpha * states), made)
    return made


def _pseudo_counts(score: FamilyScore, rows: Array, states: int) -> Array:
    """Return α of the cells of each table."""
    if score.kind == "bdeu":
        return np.asarray(score.equivalent_rows / (rows * states))
    return np.full(len(rows), 1.0 if score.kind == "k2" else 0.0)
