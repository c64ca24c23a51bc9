"""Expectation–maximisation for the tables of a Bayesian network, from rows with missing values and hidden variables.

The expected number of rows in each state of a family is Σ_rows P(family | observed values of the row), and the tables are computed from
these numbers.  Rows without missing values are counted, for any treewidth.  With smoothing the sum of log-likelihood and log prior never
decreases, without it the log-likelihood.
Source: Lauritzen (1995), "The EM algorithm for graphical association models with missing data"; Dempster, Laird & Rubin (1977).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.errors import DataError
from herdcli.markov.exact import cliques, elimination
from herdcli.markov.exact.row_propagation import ImpossibleEvidence, propagate_rows
from herdcli.markov.learning.bayesian_networks import WeightedCases, count_cases, make_bayesian_network, normalise_to_conditional
from herdcli.markov.model.graphs.dag import Parents
from herdcli.markov.model.network import MOST_AXES, Network
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

BLOCK = 1 << 20  # table cells of the rows that are processed at a time


@dataclass
class BayesianNetworkEMState:
    """All tables, concatenated, and the log-likelihood (with the log prior) before each step."""

    tables: Array
    objective: Array
    log_likelihood: float
    step: int


class ExpectationMaximisation:
    """The EM algorithm; each step is one sweep over the rows."""

    state = BayesianNetworkEMState

    def __init__(
        self, cases: WeightedCases, parents: Parents, *, smoothing: float, tolerance: float, iterations: int, orders: int = 4, seed: int = 0
    ) -> None:
        self.cases, self.parents, self.smoothing = cases, parents, smoothing
        self.tolerance, self.steps, self.seed = tolerance, iterations, seed
        self.scopes = [(*of, i) for i, of in enumerate(parents)]
        self.shapes = [tuple(int(cases.cardinality[i]) for i in scope) for scope in self.scopes]
        self.x, self.weight = (cases.x, cases.weight) if cases.complete else _weighted_distinct_rows(cases)
        self.search: elimination.OrderSearch | None = None
        if not cases.complete:
            self._choose_order_and_blocks(seed, orders)  # rows with missing values are completed on a junction tree

    def _choose_order_and_blocks(self, seed: int, orders: int) -> None:
        """Find an elimination order and the number of rows per block; raise DataError if no tree is small enough."""
        self.search = cliques.search_elimination_orders(self._make_network([np.ones(shape) for shape in self.shapes]), seed, orders)
        if not self.search.complete or self.search.width + 2 > MOST_AXES:
            raise DataError(
                f"the structure has treewidth {self.search.width}, which is too large for EM", hint="limit the parents: --max-parents 3"
            )
        self.rows = max(1, min(len(self.x), int(BLOCK / max(1.0, self.search.cells))))

    def _make_network(self, tables: Sequence[Array]) -> Network:
        return make_bayesian_network(self.parents, tables, self.cases.cardinality, None, None)

    def init(self) -> BayesianNetworkEMState:
        """Return tables from the rows that observe a whole family; random ones if a variable of the family is hidden."""
        hidden: Array = np.all(self.cases.x < 0, axis=0)
        made = []
        for i, scope in enumerate(self.scopes):
            found = count_cases(self.cases, scope) + 1.0
            if hidden[list(scope)].any():
                found = generator(self.seed, Stream.EM_START, unit=i).gamma(2.0, size=self.shapes[i])
            made.append(normalise_to_conditional(found, 0.0).ravel())
        return BayesianNetworkEMState(np.concatenate(made), np.empty(0), -np.inf, 0)

    def split_into_tables(self, flat: Array) -> list[Array]:
        """Return the table of each family."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), self.shapes, strict=True)]

    def step(self, state: BayesianNetworkEMState) -> BayesianNetworkEMState:
        """Compute expected counts under the tables, then the tables of these counts."""
        tables = self.split_into_tables(state.tables)
        # E step: expected counts of each family.  M step: counts with the smoothing added, normalised over the states of the child.
        expected, likelihood = self.compute_expected_counts(tables)
        prior = sum(float((self.smoothing / part.size * np.log(part)).sum()) for part in tables) if self.smoothing else 0.0
        new = [normalise_to_conditional(found, self.smoothing) for found in expected]
        return BayesianNetworkEMState(
            np.concatenate([part.ravel() for part in new]), np.append(state.objective, likelihood + prior), likelihood, state.step + 1
        )

    def compute_expected_counts(self, tables: Sequence[Array]) -> tuple[list[Array], float]:
        """Return the expected counts of each family, and the log-likelihood of all rows."""
        if self.search is None:
            return self._count_complete_rows(tables)
        given = self._make_network(tables)
        found = [np.zeros(shape) for shape in self.shapes]
        total = 0.0
        for start in range(0, len(self.x), self.rows):
            total += self._add_block_counts(given, slice(start, start + self.rows), found)
        return found, total

    def _count_complete_rows(self, tables: Sequence[Array]) -> tuple[list[Array], float]:
        """Return the counts and the log-likelihood for rows without missing values."""
        found = [count_cases(self.cases, scope) for scope in self.scopes]
        if any((part[many > 0] == 0).any() for part, many in zip(tables, found, strict=True)):
            raise DataError("the initial tables give a training row probability 0", hint="use --smoothing 1")
        return found, sum(float(many[many > 0] @ np.log(part[many > 0])) for part, many in zip(tables, found, strict=True))

    def _add_block_counts(self, network: Network, rows: slice, counts: list[Array]) -> float:
        """Add the expected counts of a block of rows to `counts`; return its log-likelihood.

        The row number is one more variable, in every clique; the joint marginal of a family and the row variable has the results of all
        rows.
        """
        assert self.search is not None
        x, weight = self.x[rows], self.weight[rows]
        # Evidence as a table (states, rows) for each variable: one state for an observed value, all for a missing one.
        allowed = [(x[:, i] == np.arange(states)[:, None]) | (x[:, i] < 0) for i, states in enumerate(network.cardinality.tolist())]
        try:
            made = propagate_rows(network, self.search.order, allowed, factors_instead=True)
        except ImpossibleEvidence:
            raise DataError("the initial tables give a training row probability 0", hint="use --smoothing 1") from None
        for expected, p in zip(counts, made.marginals, strict=True):
            expected += (p @ weight).reshape(expected.shape)  # Σ_r w_r P(family | row r)
        return float(weight @ made.log_z)

    def meets_criterion(self, state: BayesianNetworkEMState) -> bool:
        """Return True if the gain of the last step, per row, was at most the tolerance."""
        gain = np.diff(state.objective[-2:])
        return bool(len(gain) and gain[0] <= self.tolerance * self.weight.sum())

    def done(self, state: BayesianNetworkEMState) -> bool:
        """Return True if no step is left, or the last one gained too little."""
        return state.step >= self.steps or self.meets_criterion(state)

    def memory(self) -> int:
        """Return the bytes of the tables of a block of rows."""
        return 8 * self.cases.x.size if self.search is None else int(40 * self.search.cells * self.rows)

    def progress(self, state: BayesianNetworkEMState) -> RunProgress:
        """The log-likelihood so far."""
        return RunProgress(state.step, self.steps, f"log-likelihood {state.log_likelihood:.6g}" if state.step else "")

    def result(self, state: BayesianNetworkEMState) -> BayesianNetworkEMState:
        """Return the state."""
        return state


def _weighted_distinct_rows(cases: WeightedCases) -> tuple[Array, Array]:
    """Return the distinct rows, with the total weight of each."""
    rows, place = np.unique(cases.x, axis=0, return_inverse=True)
    return rows, np.bincount(place.ravel(), cases.weight)
