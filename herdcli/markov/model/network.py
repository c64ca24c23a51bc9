"""The `network` artifact: discrete variables and factors, stored flat, with observed marginals.

P(x) = (1/Z) Π_a f_a(x_a).  Tables are in C order: the last variable of a scope varies fastest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.errors import DataError, NegativeResult
from herdcli.markov.model.fit import FitRecord
from herdcli.records import dataclass
from herdcli.schema import Array, array, require_image_shape, require_offsets, require_valid_indices

Factor = tuple[tuple[int, ...], Array]
MOST_STATES = 2**31 - 1  # largest number of states of all variables together
MOST_AXES = 60  # NumPy arrays have at most 64
SOME = 1 << 17  # number of factors that are checked at a time
FEW_CELLS = 8  # factors that all have this many values or fewer are reduced value by value


@dataclass(frozen=True)
class Network:
    """A network of variables 0 … N−1 and F factors.

    Factor a has the scope scope[scope_offset[a]:scope_offset[a+1]]; its table is stored in the same way.

    observed           variables whose marginals are given (generalised inference).
    observed_marginal  those marginals, concatenated.
    directed           True if each factor a is P(last of its scope | the others).
    auxiliary          how many of the last variables are auxiliary: they divide the table of a noisy-max and are not the user's.
    """

    cardinality: Array = array("N", "number of states of each variable", kind="iu", dtype="i8")
    scope: Array = array("S", "variables of all factors, factor by factor", kind="iu", dtype="i8")
    scope_offset: Array = array("A", "where each factor's scope begins, and the end", kind="iu", dtype="i8")
    table: Array = array("T", "values of all factors, last variable of a scope fastest", kind="f", dtype="f8")
    table_offset: Array = array("A", "where each factor's table begins, and the end", kind="iu", dtype="i8")
    observed: Array | None = array("V", "variables with a given marginal", kind="iu", dtype="i8", optional=True)
    observed_marginal: Array | None = array("O", "those marginals, one after the other", kind="f", dtype="f8", optional=True)
    shape: Array | None = array("2", "rows and columns of a lattice", kind="iu", dtype="i8", optional=True)
    names: list[str] | None = None
    states: list[str] | None = None  # names of all states, variable by variable
    directed: bool = False
    fit: FitRecord | None = None  # the record of how it was learned
    auxiliary: int = 0

    def validate(self) -> None:
        """Raise DataError if the network is invalid."""
        validate_network(self)

    @property
    def count(self) -> int:
        """Number of variables, auxiliary ones included."""
        return len(self.cardinality)

    @property
    def listed_count(self) -> int:
        """Number of variables without the auxiliary ones, which come last."""
        return self.count - self.auxiliary

    @property
    def listed_names(self) -> list[str] | None:
        """The names of all variables that are not auxiliary."""
        return None if self.names is None else self.names[: self.listed_count]

    @property
    def factor_count(self) -> int:
        """Number of factors."""
        return len(self.scope_offset) - 1

    def factor_scope(self, a: int) -> tuple[int, ...]:
        """Return the variables of factor a."""
        return tuple(self.scope[self.scope_offset[a] : self.scope_offset[a + 1]].tolist())

    def factors(self) -> Iterator[Factor]:
        """Iterate over the scope and table of every factor; the table has one axis per variable."""
        scope, starts = self.scope.tolist(), self.scope_offset.tolist()
        cardinality, cells = self.cardinality.tolist(), self.table_offset.tolist()
        for a in range(self.factor_count):
            variables = tuple(scope[starts[a] : starts[a + 1]])
            yield variables, self.table[cells[a] : cells[a + 1]].reshape([cardinality[i] for i in variables])

    def name(self, i: int) -> str:
        """Return the name of a variable, or x and its number if it has none."""
        return self.names[i] if self.names else f"x{i}"

    def states_of(self, i: int) -> list[str]:
        """Return the names of the states of a variable, empty if they have none."""
        if self.states is None:
            return []
        first = int(self.cardinality[:i].sum())
        return self.states[first : first + int(self.cardinality[i])]

    def state_name(self, i: int, state: int) -> str:
        """Return the name of a state, or its number if it has none."""
        own = self.states_of(i)
        return own[state] if own else str(state)

    def describe_factor(self, a: int) -> str:
        """Return a description of a factor for messages.

        It is the table of a variable, the factor over named variables, or the factor's number.
        """
        scope = self.factor_scope(a)
        if self.directed and scope:
            return f"the table of {self.name(scope[-1])}"
        if self.names and scope:
            return f"the factor over {', '.join(map(self.name, scope[:6]))}{' …' if len(scope) > 6 else ''}"
        return f"factor {a}"

    def stored_marginals(self) -> dict[int, Array]:
        """Return the marginals that are stored with the network."""
        if self.observed is None or self.observed_marginal is None:
            return {}
        ends = np.cumsum(self.cardinality[self.observed])
        parts = np.split(self.observed_marginal, ends[:-1])
        return dict(zip(self.observed.tolist(), parts, strict=True))


@dataclass(frozen=True, kw_only=True)
class ConditionedNetwork(Network):
    """A network conditioned on evidence.

    cardinality_before  (N,) the numbers of states without evidence; scopes are the same with and without it.
    before              the network without evidence.
    """

    cardinality_before: Array
    before: Network | None = None


def cardinality_without_evidence(network: Network) -> Array:
    """Return the number of states of each variable without evidence."""
    return network.cardinality_before if isinstance(network, ConditionedNetwork) else network.cardinality


def build_network(cardinality: Sequence[int] | Array, factors: Iterable[Factor], **more: Any) -> Network:
    """Build a network from scopes and tables (any shape with the right number of values, C order)."""
    factors = list(factors)
    lengths = [len(scope) for scope, _ in factors]
    sizes = [np.size(table) for _, table in factors]
    scope = np.array([i for scope, _ in factors for i in scope], dtype=np.int64)
    table = np.concatenate([np.ravel(table) for _, table in factors]) if factors else np.empty(0)
    return Network(
        np.asarray(cardinality, dtype=np.int64),
        scope,
        np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        table.astype(np.float64),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        **more,
    )


def validate_network(network: Network) -> Network:
    """Return the network after checking it.  Raises DataError with the factor's name if it is invalid."""
    n, cardinality = network.count, network.cardinality
    if n == 0:
        raise DataError("the network has no variables")
    if (bad := np.flatnonzero(cardinality < 1)).size:
        raise DataError(f"variable {bad[0]} has {cardinality[bad[0]]} states, but needs 1 or more")
    if (states := float(cardinality.astype(np.float64).sum())) > MOST_STATES:
        raise DataError(f"the variables have {states:.6g} states in total, but herd handles at most {MOST_STATES}")
    for what, flat, offset in (("scope", network.scope, network.scope_offset), ("table", network.table, network.table_offset)):
        require_offsets(f"{what}_offset", offset, len(flat), what)
    if len(network.scope) and (network.scope.min() < 0 or network.scope.max() >= n):
        at = int(np.flatnonzero((network.scope < 0) | (network.scope >= n))[0])
        a = int(np.searchsorted(network.scope_offset, at, side="right")) - 1
        raise DataError(f"factor {a} contains variable {network.scope[at]}, but the {n} variables are numbered 0 to {n - 1}")
    for a in np.flatnonzero(_invalid_factor_mask(network)).tolist():
        _require_valid_factor(network, a)
    _require_valid_metadata(network)
    for i, marginal in network.stored_marginals().items():
        validate_marginal(network, i, marginal)
    return network


def _require_valid_metadata(network: Network) -> None:
    """Raise DataError unless names, states, lattice and observed variables fit the variables."""
    if not 0 <= network.auxiliary < network.count:
        raise DataError(f"auxiliary is {network.auxiliary}, but there are {network.count} variables")
    if network.names is not None and len(network.names) != network.count:
        raise DataError(f"/names has {len(network.names)} names, but there are {network.count} variables")
    if network.states is not None and len(network.states) != int(network.cardinality.sum()):
        raise DataError(f"/states has {len(network.states)} names, but there are {int(network.cardinality.sum())} states")
    require_image_shape(network.shape, network.count, "shape", "variables")
    if (network.observed is None) != (network.observed_marginal is None):
        raise DataError("only one of /observed and /observed_marginal is there, but the file needs both or neither")
    if network.observed is None or network.observed_marginal is None:
        return
    require_valid_indices("/observed", network.observed, network.count, "a variable")
    if int(network.cardinality[network.observed].sum()) != len(network.observed_marginal):
        raise DataError(
            f"/observed_marginal has {len(network.observed_marginal)} values, which is not the number of states of the observed variables"
        )


def _invalid_factor_mask(network: Network) -> Array:
    """Return a mask (F,) of invalid factors, computed for many factors at a time; the caller explains each of them."""
    wrong = np.zeros(network.factor_count, dtype=bool)
    for first in range(0, network.factor_count, SOME):
        some = slice(first, first + SOME)
        ends, cell_ends = (offset[first : first + SOME + 1] for offset in (network.scope_offset, network.table_offset))
        scope, table = network.scope[ends[0] : ends[-1]], network.table[cell_ends[0] : cell_ends[-1]]
        starts, cell_starts = ends - ends[0], cell_ends - cell_ends[0]
        widths = np.diff(starts)
        sizes = _reduce_segments(np.multiply, network.cardinality[scope].astype(np.float64), starts, 1.0)
        wrong[some] = (widths > MOST_AXES) | (np.diff(cell_starts) != sizes)
        # Comparisons with NaN are False, and both extremes of a table that contains NaN are NaN.
        wrong[some] |= ~(_reduce_segments(np.minimum, table, cell_starts, np.nan) >= 0)
        largest = _reduce_segments(np.maximum, table, cell_starts, np.nan)
        wrong[some] |= ~((largest > 0) & (largest < np.inf))
        wrong[first + _factors_repeating_variables(scope, starts, widths)] = True
    return wrong


def _reduce_segments(ufunc: np.ufunc, values: Array, offset: Array, empty: float) -> Array:
    """Apply a ufunc to each part of flat values; `empty` is the result for empty parts."""
    length = int(offset[1] - offset[0]) if len(offset) > 1 else 0
    if 0 < length <= FEW_CELLS and (offset[1:] - offset[:-1] == length).all():
        found: Array = values[::length].astype(np.float64)
        with np.errstate(over="ignore"):
            for k in range(1, length):
                ufunc(found, values[k::length], out=found)
        return found
    made = np.full(len(offset) - 1, empty)
    filled = np.flatnonzero(offset[1:] > offset[:-1])
    if len(filled):
        with np.errstate(over="ignore"):
            made[filled] = ufunc.reduceat(values, offset[filled])  # the parts between are empty, so each ends where the next begins
    return made


def _factors_repeating_variables(scope: Array, starts: Array, widths: Array) -> Array:
    """Return the factors that contain a variable twice, given their scopes, concatenated, and the start and width of each."""
    found = [np.empty(0, dtype=np.int64)]
    for width in np.flatnonzero(np.bincount(widths)).tolist():
        if width > 1:
            alike = np.flatnonzero(widths == width)
            first = starts[alike]
            if width == 2:
                found.append(alike[scope[first] == scope[first + 1]])
                continue
            scopes = np.sort(scope[first[:, None] + np.arange(width)], axis=1)
            found.append(alike[(scopes[:, 1:] == scopes[:, :-1]).any(axis=1)])
    return np.concatenate(found)


def _require_valid_factor(network: Network, a: int) -> None:
    scope = network.factor_scope(a)
    if len(set(scope)) != len(scope):
        raise DataError(f"factor {a} contains variable {next(i for i in scope if scope.count(i) > 1)} twice")
    name = network.describe_factor(a)
    if len(scope) > MOST_AXES:
        raise DataError(f"{name} has {len(scope)} variables, but herd handles at most {MOST_AXES}")
    table = network.table[network.table_offset[a] : network.table_offset[a + 1]]
    states = [int(network.cardinality[i]) for i in scope]
    if len(table) != int(np.prod(states, dtype=object)):
        raise DataError(
            f"{name} has {len(table)} values, but its variables have {np.prod(states, dtype=object)} joint states "
            f"({format_product(states)})"
        )
    if not np.isfinite(table).all() or (table < 0).any():
        at = int(np.flatnonzero(~np.isfinite(table) | (table < 0))[0])
        raise DataError(f"{name}: value {at} is {table[at]:g}, but must be finite and not negative")
    if not table.any():
        raise DataError(f"{name} is zero everywhere, so every state has probability 0")


def format_product(states: Sequence[int]) -> str:
    """Return numbers of states as text, such as 2 × 3 × 2; of many, the first few and their number."""
    few = " × ".join(map(str, states[:6])) or "1"
    return few if len(states) <= 8 else f"{few} × … of {len(states)}"


def validate_marginal(network: Network, i: int, marginal: Array) -> Array:
    """Return a marginal of variable i as float64 that sums to one.  Raises DataError if it is invalid."""
    p = np.asarray(marginal, dtype=np.float64)
    states, name = int(network.cardinality[i]), network.name(i)
    if len(p) != states:
        raise DataError(f"the marginal of {name} has {len(p)} values, but the variable has {states} states")
    if not np.isfinite(p).all() or (p < 0).any():
        raise DataError(f"the marginal of {name} has a value that is negative or not finite")
    if abs(p.sum() - 1) > 1e-6:
        raise DataError(f"the marginal of {name} sums to {p.sum():.6g}, not to 1")
    normalised: Array = p / p.sum()
    return normalised


def condition_network(network: Network, evidence: Mapping[int, int]) -> Network:
    """Return the network with some variables fixed at one state; they keep their number and have cardinality 1.

    log Z of the result is log P(evidence) + log Z.  Raises NegativeResult if a factor is then zero everywhere.
    """
    if not evidence:
        return network
    cardinality = network.cardinality.copy()
    for i, state in evidence.items():
        require_state(network, i, state)
        cardinality[i] = 1
    factors: list[Factor] = []
    for scope, table in network.factors():
        if not evidence.keys().isdisjoint(scope):
            table = table[tuple(slice(evidence[i], evidence[i] + 1) if i in evidence else slice(None) for i in scope)]
            if not table.any():
                held = ", ".join(f"{network.name(i)}={network.state_name(i, evidence[i])}" for i in scope if i in evidence)
                raise NegativeResult(f"the evidence has probability 0: the network excludes {held}")
        factors.append((scope, table))
    flat = build_network(cardinality, factors)
    made = ConditionedNetwork(
        cardinality, flat.scope, flat.scope_offset, flat.table, flat.table_offset,
        names=network.names, shape=network.shape, auxiliary=network.auxiliary, cardinality_before=cardinality_without_evidence(network),
        before=network.before if isinstance(network, ConditionedNetwork) else network,
    )  # fmt: skip
    kept = {i: p for i, p in network.stored_marginals().items() if i not in evidence}
    return with_observed_marginals(made, kept)


def drop_single_state_variables(network: Network, factor: Factor) -> Factor:
    """Return a factor without its variables of one state, which are constants."""
    scope, table = factor
    free = tuple(i for i in scope if network.cardinality[i] > 1)
    return free, table.reshape([int(network.cardinality[i]) for i in free])


def reorder_variables(network: Network, order: Sequence[int]) -> Network:
    """Return the same distribution with variable order[j] as variable j, without the record of a fit.

    order  a permutation.
    """
    place = np.argsort(np.asarray(order, dtype=np.int64))
    ends = np.concatenate(([0], np.cumsum(network.cardinality)))
    states, names = network.states, network.names
    return replace(
        network,
        cardinality=network.cardinality[list(order)],
        scope=place[network.scope],
        observed=None if network.observed is None else place[network.observed],
        names=None if names is None else [names[i] for i in order],
        states=None if states is None else [name for i in order for name in states[ends[i] : ends[i + 1]]],
        shape=None,
        fit=None,
    )


def require_state(network: Network, i: int, state: int) -> None:
    """Raise DataError unless variable i exists and has this state."""
    if not 0 <= i < network.count:
        raise DataError(f"the evidence contains variable {i}, but the {network.count} variables are numbered 0 to {network.count - 1}")
    if not 0 <= state < network.cardinality[i]:
        raise DataError(f"the evidence gives {network.name(i)} the state {state}, but its states are 0 to {network.cardinality[i] - 1}")


def with_observed_marginals(network: Network, marginals: Mapping[int, Array]) -> Network:
    """Return the network with these observed marginals in place of its own."""
    if not marginals:
        return replace(network, observed=None, observed_marginal=None)
    order = sorted(marginals)
    flat = np.concatenate([validate_marginal(network, i, marginals[i]) for i in order])
    return replace(network, observed=np.array(order, dtype=np.int64), observed_marginal=flat)


def with_likelihoods(network: Network, likelihoods: Mapping[int, Array]) -> Network:
    """Return the network with one more factor for each variable that has likelihood ("virtual", soft) evidence."""
    extra: list[Factor] = [((i,), np.asarray(values, dtype=np.float64)) for i, values in sorted(likelihoods.items())]
    if not extra:
        return network
    for (i,), values in extra:
        if not np.isfinite(values).all() or (values < 0).any() or not values.any():
            raise DataError(f"the likelihoods of {network.name(i)} must be finite, not negative and not all zero")
    made = build_network(network.cardinality, [*network.factors(), *extra], names=network.names, states=network.states, shape=network.shape)
    made = replace(made, observed=network.observed, observed_marginal=network.observed_marginal, auxiliary=network.auxiliary)
    return validate_network(made)
