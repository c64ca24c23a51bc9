"""Maximisers of a fully visible model: they return the state x of highest score w·Φ(x).

The hidden-variable model's block ascent is a compiled loop, `fast.ascend`.
Source: Bach, Lacoste-Julien & Obozinski (2012), sec. 5.2.
"""

from __future__ import annotations

import numpy as np

from herdcli.herding.binary_features import REPRESENTATIONS, split_pairwise_weights, to_unit_values
from herdcli.herding.categorical_variables import CategoricalVariables
from herdcli.schema import Array

ENUMERABLE = 20  # units up to which all states are enumerated


def enumerate_scores(weights: Array, units: int, features: str, representation: str) -> Array:
    """Compute the scores w·Φ (2^D,) of all states; state s has unit i high if bit i of s is 1.

    The states over i + 1 units are those over i units with unit i low, then high:
        score(x, x_i) = score(x) + x_i (b_i + Σ_{j<i} J_ij x_j),
    and the inner sum over all states doubles in the same way, so each state costs two additions.
    """
    low, high = REPRESENTATIONS[representation]
    coupled = features != "x"
    b, J = split_pairwise_weights(weights, units) if coupled else (weights, weights)
    score = np.zeros(1, dtype=weights.dtype)
    for i in range(units):
        field = b[i : i + 1]
        for j in range(i if coupled else 0):
            field = np.concatenate([field + low * J[i, j], field + high * J[i, j]])
        score = np.concatenate([score + low * field, score + high * field])
    return score


def enumerate_states(units: int, representation: str) -> Array:
    """Return all states (2^D, D) int8 in the order of `enumerate_scores`."""
    index = np.arange(1 << units)
    return to_unit_values((index[:, None] >> np.arange(units)) & 1 == 1, representation)


def maximise_by_enumeration(
    weights: Array, units: int, features: str, representation: str, variables: CategoricalVariables | None = None
) -> Array:
    """Return the state (D,) of highest score among all 2^D, or among those with one high unit of each variable; the first on ties."""
    score = enumerate_scores(weights, units, features, representation)
    if variables is None:
        best = int(score.argmax())
    else:
        valid = variables.valid_states(units)
        best = int(valid[score[valid].argmax()])
    return to_unit_values((best >> np.arange(units)) & 1 == 1, representation)


def maximise_by_sign(weights: Array, representation: str, variables: CategoricalVariables | None = None) -> Array:
    """Return the maximiser (D,) of w·x: each unit by the sign of its weight, high at w_i = 0; of each variable the first largest."""
    # w·x is largest where each unit has the sign of its weight (Bach et al. 2012, sec. 5.2).
    if variables is not None:
        low = REPRESENTATIONS[representation][0]
        return variables.choose_states(weights, np.full(len(weights), low, dtype=np.int8), low)
    return to_unit_values(weights >= 0, representation)


def score_rows(weights: Array, rows: Array, features: str) -> Array:
    """Compute the scores w·Φ (n,) of rows (n, D) of unit values, in float64.

    Integer weights give exact integers below 2^53.
    """
    exact = rows.astype(np.float64)
    if features == "x":
        linear: Array = exact @ weights.astype(np.float64)
        return linear
    b, J = split_pairwise_weights(weights.astype(np.float64), rows.shape[1])
    # Twice b·x + ½ x'Jx is computed, and halved at the end: no half is rounded, because x'Jx of integers is even.
    twice: Array = 2.0 * (exact @ b) + ((exact @ J) * exact).sum(axis=1)
    return twice / 2.0


def maximise_by_coordinates(
    weights: Array, start: Array, features: str, representation: str, variables: CategoricalVariables | None = None
) -> Array:
    """Return a local maximiser (D,): starting at `start`, flip the unit that gains most until no flip gains.

    Flipping unit i gains (other value − x_i)(b_i + Σ_j J_ij x_j); the fields are updated after each flip.  In a variable, the high unit
    and another one change together.
    """
    if features == "x":
        return maximise_by_sign(weights, representation, variables)
    if variables is not None:
        return _maximise_by_changes(weights, start, representation, variables)
    total = sum(REPRESENTATIONS[representation])
    b, J = split_pairwise_weights(weights, len(start))
    x = start.astype(J.dtype)
    field = b + J @ x
    while True:
        # The score is b·x + ½ x'Jx, linear in x_i as J_ii = 0: flipping unit i changes it by (low + high − 2x_i)(b_i + Σ_j J_ij x_j).
        gain = (total - 2 * x) * field
        best = int(gain.argmax())
        if gain[best] <= 0:
            return x.astype(np.int8)
        change = total - 2 * x[best]
        x[best] += change
        field += change * J[best]


def _maximise_by_changes(weights: Array, start: Array, representation: str, variables: CategoricalVariables) -> Array:
    """Return a local maximiser (D,) by flips of units outside of variables and changes of the state of a variable."""
    low, high = REPRESENTATIONS[representation]
    gap, variable_of = high - low, variables.variable_of_unit
    b, J = split_pairwise_weights(weights, len(start))
    x = start.astype(J.dtype)
    field = b + J @ x
    while True:
        gain = (low + high - 2 * x) * field
        own = x[variables.units] > 0
        present = variables.units[own][variable_of]  # the high unit of each unit's own variable
        # From unit i to unit j, g = high − low: −g f_i + g f_j − g² J_ij, since x_i falls while x_j rises.
        change = gap * (field[variables.units] - field[present]) - gap * gap * J[variables.units, present]
        gain[variables.units] = np.where(own, 0, change)
        best = int(gain.argmax())
        if gain[best] <= 0:
            return x.astype(np.int8)
        moved = [best]
        place = np.flatnonzero(variables.units == best)
        if len(place):
            moved.append(int(present[place[0]]))
        for unit in moved:
            difference = low + high - 2 * x[unit]
            x[unit] += difference
            field += difference * J[unit]
