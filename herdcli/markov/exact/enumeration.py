"""Exact inference over all joint states: the reference for all other algorithms, and exact generalised inference on small networks.

With observed marginals the result is the distribution closest to P in KL(Q‖P) among those that have them, computed by
iterative proportional fitting on the joint table.  Source: Teh (2003), sec. 5.4; Deming & Stephan (1940).
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.errors import DataError, NegativeResult
from herdcli.markov.model.network import Factor, Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_STATES = 1 << 26


@dataclass
class EnumerationState:
    """The joint distribution over all variables in order, and the residuals so far (largest marginal error before a sweep)."""

    joint: Array
    residual: Array
    step: int


def joint_shape(network: Network) -> tuple[int, ...]:
    """Return the shape of the joint table: one axis for each variable of two states or more."""
    return tuple(states for states in network.cardinality.tolist() if states > 1)


def compute_log_joint(network: Network) -> Array:
    """Compute log Π f_a(x) with one axis per variable.  Raises DataError above 2^26 states."""
    states = math.prod(network.cardinality.tolist())
    wide = int((network.cardinality > 1).sum())
    if states > MOST_STATES:
        hint = "use --algorithm junction-tree"
        raise DataError(
            f"--algorithm enumerate handles at most 2^26 joint states, but {wide} variables have 2^{math.log2(states):.1f}", hint=hint
        )
    kept = [i for i in range(network.count) if network.cardinality[i] > 1]
    axis = {i: k for k, i in enumerate(kept)}
    table = np.zeros(joint_shape(network))
    for scope, values in network.factors():
        inside = [i for i in scope if i in axis]
        with np.errstate(divide="ignore"):
            logs = np.log(values).reshape([values.shape[k] for k, i in enumerate(scope) if i in axis])
        order = sorted(range(len(inside)), key=lambda k: axis[inside[k]])
        table += logs.transpose(order).reshape([int(network.cardinality[i]) if i in inside else 1 for i in kept])
    return table


def initial_joint(network: Network) -> EnumerationState:
    """Return the distribution P.  Raises NegativeResult if no state has a probability."""
    table = compute_log_joint(network)
    top = table.max()
    if top == -np.inf:
        raise NegativeResult(IMPOSSIBLE)
    joint = np.exp(table - top)
    return EnumerationState(joint / joint.sum(), np.empty(0), 0)


def proportional_fitting_sweep(network: Network, state: EnumerationState) -> EnumerationState:
    """Do one sweep of proportional fitting over the observed marginals, in order."""
    largest = 0.0
    for i, target in network.stored_marginals().items():
        present = marginal_of_joint(network, state.joint, (i,))
        if (target[present == 0] > 0).any():
            raise NegativeResult(
                f"the observed marginal of {network.name(i)} gives a positive probability to a state that the network excludes"
            )
        largest = max(largest, float(np.abs(present - target).max()))
        ratio = np.divide(target, present, out=np.zeros_like(target), where=present > 0)
        if network.cardinality[i] > 1:
            # 5.16 on the joint table: among all distributions with this marginal, Q ô_i/Q_i is closest to Q in KL, which only depends on
            # how x_i is distributed.
            state.joint *= ratio.reshape([-1 if k == i else 1 for k in _variable_axes(network)])
    return EnumerationState(state.joint, np.append(state.residual, largest), state.step + 1)


def _variable_axes(network: Network) -> list[int]:
    return [i for i in range(network.count) if network.cardinality[i] > 1]


def marginal_of_joint(network: Network, joint: Array, scope: tuple[int, ...]) -> Array:
    """Return the marginal over some variables, with axes in the order of `scope`."""
    axes = _variable_axes(network)
    kept = [i for i in axes if i in scope]
    p = joint.sum(axis=tuple(k for k, i in enumerate(axes) if i not in scope))
    wide = [i for i in scope if i in kept]
    result: Array = p.transpose([kept.index(i) for i in wide]).reshape([int(network.cardinality[i]) for i in scope])
    return result


def joint_marginals_and_log_z(network: Network, state: EnumerationState) -> tuple[list[Array], list[Factor], float]:
    """Return the marginals of variables and factors, and −min Σ Q log(Q/Π f), which is log Z without observed marginals."""
    nodes = [marginal_of_joint(network, state.joint, (i,)) for i in range(network.count)]
    cliques = [(scope, marginal_of_joint(network, state.joint, scope)) for scope, _ in network.factors() if scope]
    energy = compute_log_joint(network)
    on = state.joint > 0
    q = state.joint[on]
    # −KL(Q‖Π f) = Σ Q log Π f − Σ Q log Q, which is log Z at Q = Π f / Z; states with Q = 0 add 0.
    return nodes, cliques, float(q @ (energy[on] - np.log(q)))
