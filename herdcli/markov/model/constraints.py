"""The constraints that a model is fitted to: clusters of variables with their marginals, or with expectations of features.

The solution is the distribution of largest entropy, or closest to a base network P0, that satisfies them:

    P(x) ∝ P0(x) exp(Σ_a λ_a(x_a)),  or with features  P(x) ∝ P0(x) exp(Σ_a θ_a·f_a(x_a)),

which is also the maximum likelihood fit if the constraints were computed from rows.  Source: Teh (2003), sec. 6.2 and 6.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import pairwise

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.markov.model.network import Factor, Network, build_network
from herdcli.markov.model.row_counts import Counts
from herdcli.records import dataclass
from herdcli.schema import Array

ONE_HOT = 1 << 24  # entries that are processed at a time


@dataclass(frozen=True)
class Cluster:
    """A set of variables with their given marginal or expectations.

    target    the given marginal, one axis per variable; with features, their d expectations.
    features  (d, one axis per variable) the features; None if the whole marginal is given.
    """

    scope: tuple[int, ...]
    target: Array
    features: Array | None = None


@dataclass(frozen=True)
class LearningProblem:
    """Clusters over variables.

    base  fixed factors of P0, over the same variables.
    """

    cardinality: Array
    clusters: list[Cluster]
    base: Network | None = None
    names: list[str] | None = None
    shape: Array | None = None
    rows: StateRows | Counts | None = None

    @property
    def base_factors(self) -> list[Factor]:
        """The factors of P0."""
        return [] if self.base is None else [(scope, table) for scope, table in self.base.factors() if scope]

    def structure_network(self) -> Network:
        """Return a network with the scopes of the clusters and of the base, and tables of ones.

        The cost of inference depends on nothing else.
        """
        return self.network([np.ones(self.scope_shape(cluster.scope)) for cluster in self.clusters])

    def scope_shape(self, scope: tuple[int, ...]) -> list[int]:
        """The number of states of each variable of a scope."""
        return [int(self.cardinality[i]) for i in scope]

    def network(self, factors: Sequence[Array]) -> Network:
        """Return the network of P0 and one factor per cluster."""
        own = [(cluster.scope, table) for cluster, table in zip(self.clusters, factors, strict=True)]
        return build_network(self.cardinality, [*self.base_factors, *own], names=self.names, shape=self.shape)

    def has_features(self) -> bool:
        """Return True if a constraint is an expectation of features."""
        return any(cluster.features is not None for cluster in self.clusters)


@dataclass(frozen=True)
class StateRows:
    """States x (n, N) of training rows, with weights (n,) that sum to one."""

    x: Array
    weight: Array

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.x)

    def empirical_pair_table(self, cardinality: Array) -> Array:
        """Return the probabilities (Σ card, Σ card) of all pairs of states."""
        offset = np.concatenate(([0], np.cumsum(cardinality)))
        size = int(offset[-1])
        table, step = np.zeros((size, size)), max(1, ONE_HOT // size)
        for start in range(0, len(self.x), step):
            x = self.x[start : start + step]
            hot = np.zeros((len(x), size))
            hot[np.arange(len(x))[:, None], x + offset[:-1]] = 1.0
            table += (hot * self.weight[start : start + step, None]).T @ hot
        return table

    def empirical_marginal(self, scope: tuple[int, ...], shape: Sequence[int], smoothing: float = 0.0) -> Array:
        """Return the empirical marginal, mixed with a uniform distribution that counts as `smoothing` rows."""
        index = np.ravel_multi_index([self.x[:, i] for i in scope], list(shape))
        p = np.bincount(index, self.weight, int(np.prod(shape)))
        share = smoothing / (len(self.x) + smoothing)
        mixed: Array = ((1 - share) * p + share / len(p)).reshape(shape)
        return mixed


@dataclass(frozen=True)
class PairTables:
    """The joint tables of all pairs of variables: in table (Σ card, Σ card), block (i, j) is P(x_i, x_j)."""

    cardinality: Array
    table: Array
    offset: Array = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", np.concatenate(([0], np.cumsum(self.cardinality))))

    def variable_marginals(self) -> Array:
        """Return the marginals of all variables, flat (Σ card,)."""
        return np.diag(self.table).copy()

    def pair_marginal(self, i: int, j: int) -> Array:
        """Return P(x_i, x_j)."""
        block: Array = self.table[self.offset[i] : self.offset[i + 1], self.offset[j] : self.offset[j + 1]].copy()
        return block

    def mutual_informations(self) -> Array:
        """Return the mutual informations (N, N) in nats, 0 on the diagonal."""
        p = self.variable_marginals()
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(self.table > 0, self.table * np.log(self.table / np.outer(p, p)), 0.0)
        return self.sum_over_pair_blocks(terms)

    def sum_over_pair_blocks(self, terms: Array) -> Array:
        """Return the sums (N, N) of `terms` over the blocks, 0 on the diagonal."""
        starts = self.offset[:-1]
        found: Array = np.maximum(np.add.reduceat(np.add.reduceat(terms, starts, axis=0), starts, axis=1), 0.0)
        np.fill_diagonal(found, 0.0)
        return found


def compute_pair_tables(rows: StateRows | Counts, cardinality: Array, smoothing: float = 0.0) -> PairTables:
    """Compute the marginals of all pairs of variables from rows."""
    offset, table = np.concatenate(([0], np.cumsum(cardinality))), rows.empirical_pair_table(cardinality)
    share = smoothing / (rows.count + smoothing)
    # A uniform distribution has 1/(k_i k_j) in the blocks of pairs; block (i, i) is P(x_i = x, x_i = y), on the diagonal only.
    flat = np.outer(1 / np.repeat(cardinality, cardinality), 1 / np.repeat(cardinality, cardinality))
    for i, (first, last) in enumerate(pairwise(offset.tolist())):
        flat[first:last, first:last] = np.eye(last - first) / cardinality[i]
    return PairTables(np.asarray(cardinality), (1 - share) * table + share * flat)


def make_clusters(
    rows: StateRows | Counts, cardinality: Array, scopes: Iterable[tuple[int, ...]], smoothing: float, pair_tables: PairTables | None = None
) -> list[Cluster]:
    """Return clusters with the marginals of rows: the maximal scopes, and each variable that is in no scope.

    pair_tables  marginals of all pairs with the same smoothing, so that the rows need not be counted for each pair.
    """
    kept = maximal_scopes(scopes)
    covered = {i for scope in kept for i in scope}
    kept += [(i,) for i in range(len(cardinality)) if i not in covered]
    states = cardinality.tolist()
    return [
        Cluster(
            scope,
            pair_tables.pair_marginal(*scope)
            if pair_tables and len(scope) == 2
            else rows.empirical_marginal(scope, [states[i] for i in scope], smoothing),
        )
        for scope in kept
    ]


def maximal_scopes(scopes: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the scopes that are not contained in another one, each once and in the order given."""
    unique = {frozenset(scope): scope for scope in reversed(list(scopes))}
    owners: dict[int, list[frozenset[int]]] = {}
    for members in unique:
        for i in members:
            owners.setdefault(i, []).append(members)
    rarest = {members: min((owners[i] for i in members), key=len, default=[]) for members in unique}
    kept = [scope for members, scope in unique.items() if not any(members < other for other in rarest[members])]
    return kept[::-1]


def validate_problem(problem: LearningProblem) -> LearningProblem:
    """Return the problem after checking it.

    Raises DataError for invalid scopes, marginals or features, BadUsage for a base with other variables.
    """
    n = len(problem.cardinality)
    if problem.base is not None and not np.array_equal(problem.base.cardinality, problem.cardinality):
        raise BadUsage(
            f"--base must have the {n} variables of the data, with as many states, but has {problem.base.count} variables or other "
            "numbers of states"
        )
    for a, cluster in enumerate(problem.clusters):
        for i in cluster.scope:
            if not 0 <= i < n:
                raise DataError(f"cluster {a} contains variable {i}, but the {n} variables are numbered 0 to {n - 1}")
        if len(set(cluster.scope)) != len(cluster.scope):
            raise DataError(f"cluster {a} contains a variable twice")
        _validate_target(a, cluster, problem.scope_shape(cluster.scope))
    _require_consistent_marginals(problem)
    return problem


def _validate_target(a: int, cluster: Cluster, shape: list[int]) -> None:
    if cluster.features is not None:
        low, high = (side.reshape(len(side), -1) for side in (cluster.features, cluster.features))
        if list(cluster.features.shape[1:]) != shape or len(cluster.target) != len(cluster.features):
            raise DataError(
                f"cluster {a}: each feature needs {int(np.prod(shape))} values, one for each joint state of the variables, and an "
                "expectation"
            )
        outside = (cluster.target < low.min(axis=1)) | (cluster.target > high.max(axis=1))
        if outside.any():
            d = int(np.argmax(outside))
            raise DataError(
                f"cluster {a}: the expectation {cluster.target[d]:g} of feature {d} is outside the range of its values "
                f"{low[d].min():g} to {high[d].max():g}"
            )
        return
    p = cluster.target
    if list(p.shape) != shape:
        raise DataError(f"the marginal of cluster {a} has {p.size} values, but its variables have {int(np.prod(shape))} joint states")
    if not np.isfinite(p).all() or (p < 0).any():
        raise DataError(f"the marginal of cluster {a} has a value that is negative or not finite")
    if abs(p.sum() - 1) > 1e-6:
        raise DataError(f"the marginal of cluster {a} sums to {p.sum():.6g}, not to 1")


def _require_consistent_marginals(problem: LearningProblem) -> None:
    """Raise DataError if two clusters have different marginals of the same variable."""
    known: dict[int, tuple[int, Array]] = {}
    for a, cluster in enumerate(problem.clusters):
        for axis, i in enumerate(cluster.scope if cluster.features is None else ()):
            p = cluster.target.sum(axis=tuple(k for k in range(cluster.target.ndim) if k != axis))
            first, q = known.setdefault(i, (a, p))
            if np.abs(p - q).max() > 1e-6:
                name = problem.names[i] if problem.names else f"x{i}"
                raise DataError(
                    f"clusters {first} and {a} contradict each other: their marginals of {name} differ by {np.abs(p - q).max():.3g}"
                )
