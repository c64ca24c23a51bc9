"""A lower bound of log Z by naive mean field, for any network; a cheap baseline for other results.

For every product Q = Π q_i, by Jensen's inequality, log Z = log Σ_x Q(x) Π_a f_a(x_a)/Q(x) ≥ Σ_a E_Q log f_a + Σ_i H(q_i).  The
bound is largest if log q_i(x) = Σ_a E_Q[log f_a | x_i = x] + const.  Source: Wainwright & Jordan (2008), sec. 5.3.
"""

from __future__ import annotations

import math
import string

import numpy as np

from herdcli.markov.model.network import Network
from herdcli.markov.query.neighbourhood_search import PART, NeighbourhoodSearch, improve_states
from herdcli.records import dataclass
from herdcli.schema import Array

SWEEPS = 30
KEPT = 0.5  # share of the old log q, so that variables that are updated together do not oscillate
GAIN = 1e-3  # sweeps end when the bound gains at most this many nats
MOST_CELLS = 1 << 15  # networks with more table cells get no quick baseline
LETTERS = string.ascii_letters.replace("z", "")  # letters that name the axes of a table
FORBIDDEN = -1e3  # replaces log 0 during the optimisation of q
LEAVEN = 0.1  # share of a uniform distribution in the start next to a single state


@dataclass(frozen=True)
class _FactorGroup:
    """Factors with tables of one shape.

    places  positions of the states of their k variables in q, [(G, s_1), …].
    logs    log tables (G, s_1, …, s_k).
    """

    places: list[Array]
    logs: Array

    def expected_logs(self, own: list[Array], logs: Array, *, excluded_axis: int | None = None) -> Array:
        """Compute E_Q of finite logs over all axes (G,), or over all except one (G, s).

        own  q of the variables of each axis, (G, s) each.
        """
        axes = LETTERS[: len(own)]
        used = [axis for axis in range(len(own)) if axis != excluded_axis]
        inputs = ",".join([f"z{axes}", *(f"z{axes[axis]}" for axis in used)])
        made: Array = np.einsum(f"{inputs}->z{'' if excluded_axis is None else axes[excluded_axis]}", logs, *(own[axis] for axis in used))
        return made

    def axis_distributions(self, q: Array) -> list[Array]:
        """Return q of the variables on each axis (G, s)."""
        return [np.asarray(q[place]) for place in self.places]

    def finite_logs(self) -> Array:
        """Return the logs with a finite number in place of log 0."""
        return np.maximum(self.logs, FORBIDDEN)

    def reaches_zero(self, q: Array) -> bool:
        """Return True if a cell with factor value 0 has positive probability under Q."""
        closed = np.isneginf(self.logs)
        if not closed.any():
            return False
        possible = np.ones(self.logs.shape)
        for axis, own in enumerate(self.axis_distributions(q)):
            shape = [len(self.logs)] + [1] * (self.logs.ndim - 1)
            shape[axis + 1] = self.logs.shape[axis + 1]
            possible = possible * (own > 0).reshape(shape)
        return bool((closed & (possible > 0)).any())


def compute_mean_field_bound(network: Network, max_cells: int = MOST_CELLS) -> float | None:
    """Return a lower bound of log Z, natural logarithm; None if no product avoids the states of probability 0.

    The optimisation starts from uniform distributions, and again close to a likely state, whose log weight is itself a lower bound.
    Also returns None for networks of more than `max_cells` table cells, and with observed marginals.
    """
    if len(network.table) > max_cells or network.stored_marginals():
        return None
    start = np.concatenate(([0], np.cumsum(network.cardinality)))
    owner = np.repeat(np.arange(network.count), network.cardinality)
    groups, constant = _group_factors_by_shape(network, start)
    if not np.isfinite(constant):
        return None
    work = [(group, group.finite_logs()) for group in groups]
    uniform = _ascend(work, -np.log(network.cardinality[owner].astype(np.float64)), start, owner)
    modes = _modes(uniform, start)
    state = _one_state(_likely_state(network, modes), start)
    near = np.log((1.0 - LEAVEN) * state + LEAVEN / network.cardinality[owner])
    first, *others = [_variational_bound(groups, q) for q in (uniform, _one_state(modes, start), state, _ascend(work, near, start, owner))]
    higher = max(others)
    best = higher if higher > first + GAIN else first  # an ascent itself ends at such a difference
    return float(best + constant) if np.isfinite(best) else None


def _ascend(work: list[tuple[_FactorGroup, Array]], log_q: Array, start: Array, owner: Array) -> Array:
    """Update log q until the bound gains little, and return q."""
    q, best = np.exp(log_q), -math.inf
    for _ in range(SWEEPS):
        field, found = np.zeros(len(q)), _total_entropy(q)
        for group, soft in work:
            own = group.axis_distributions(q)
            for axis, place in enumerate(group.places):
                expected = group.expected_logs(own, soft, excluded_axis=axis)
                if axis == 0:  # E_Q log f_a = Σ_x q_i(x) E_Q[log f_a | x_i = x], for any variable i of the factor
                    found += float((own[0] * expected).sum())
                field += np.bincount(place.ravel(), expected.ravel(), len(q))
        if found <= best + GAIN:
            break
        best = found
        log_q = _normalise_logs(KEPT * log_q + (1.0 - KEPT) * _normalise_logs(field, start, owner), start, owner)
        q = np.exp(log_q)
    return q


def _likely_state(network: Network, modes: Array) -> Array:
    """Return the states of all variables (n,) from a search: one at a time, and in small networks also many together."""
    search = NeighbourhoodSearch(network, 0)
    found = search.coordinate_ascent(modes.copy())
    return improve_states(search, found, 0) if network.count <= PART else found


def _group_factors_by_shape(network: Network, start: Array) -> tuple[list[_FactorGroup], float]:
    """Group the factors by shape, with axes sorted by number of states; return also the sum of the logs of factors without variables."""
    found: dict[tuple[int, ...], list[tuple[list[int], Array]]] = {}
    constant = 0.0
    with np.errstate(divide="ignore"):
        for scope, table in network.factors():
            if scope:
                axes = sorted(range(len(scope)), key=table.shape.__getitem__)
                single = table.shape.count(1)  # axes of one state come first, and have no effect
                if single == len(axes):
                    constant += float(np.log(table).sum())
                    continue
                logs = np.log(table).transpose(axes).reshape([table.shape[axis] for axis in axes[single:]])
                axes = axes[single:]
                found.setdefault(logs.shape, []).append(([int(start[scope[axis]]) for axis in axes], logs))
            else:
                constant += float(np.log(table).sum())
    made = []
    for part in found.values():
        logs, first = np.stack([table for _, table in part]), np.array([at for at, _ in part])
        made.append(_FactorGroup([first[:, axis, None] + np.arange(size) for axis, size in enumerate(logs.shape[1:])], logs))
    return made, constant


def _normalise_logs(logs: Array, start: Array, owner: Array) -> Array:
    """Normalise logarithms to distributions over the states of each variable."""
    above = logs - np.maximum.reduceat(logs, start[:-1])[owner]
    return np.asarray(above - np.log(np.add.reduceat(np.exp(above), start[:-1]))[owner])


def _modes(q: Array, start: Array) -> Array:
    """Return the most probable state of each variable (n,)."""
    return np.array([int(q[low:high].argmax()) for low, high in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)])


def _one_state(states: Array, start: Array) -> Array:
    """Return the q in which all mass of every variable is on one state."""
    made = np.zeros(int(start[-1]))
    made[start[:-1] + states] = 1.0
    return made


def _total_entropy(q: Array) -> float:
    """Compute Σ_i H(q_i)."""
    some = q > 0
    return -float((q[some] * np.log(q[some])).sum())


def _variational_bound(groups: list[_FactorGroup], q: Array) -> float:
    """Compute Σ_a E_Q log f_a + Σ_i H(q_i); −∞ if Q allows a forbidden state."""
    if any(group.reaches_zero(q) for group in groups):
        return -math.inf
    return _total_entropy(q) + sum(float(group.expected_logs(group.axis_distributions(q), group.finite_logs()).sum()) for group in groups)
