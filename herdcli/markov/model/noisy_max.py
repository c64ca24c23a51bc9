"""Noisy-or and noisy-max: the effect is the strongest of the effects of each single cause and of a leak.

If states are ordered from the strongest (0) to the weakest (r − 1), the effect is the smallest index, so that

    P(X ≥ k | a) = P(leak ≥ k) Π_i P(Z_i ≥ k | a_i).

Source: Pearl (1988), sec. 4.3.2, for noisy-or; Díez (1993) for noisy-max; Olesen et al. (1989) for divorced parents.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array

MOST_CELLS = 1 << 12  # largest number of cells of a table that is expanded


@dataclass(frozen=True)
class NoisyMax:
    """The parameters of a noisy-max model.

    causes  for each parent (its states, r): P(Z_i | a_i).
    leak    (r,).
    rising  False if states of the effect are ordered from the strongest to the weakest, True for the reverse order.
    """

    causes: Sequence[Array]
    leak: Array
    rising: bool = False


def noisy_max_table(model: NoisyMax) -> Array:
    """Return P(effect | parents), with one axis per parent and the effect last."""
    made = _reverse_if_rising(model.leak, model)
    for k, cause in enumerate(model.causes):
        own = _reverse_if_rising(cause, model)
        made = distribution_of_minimum(made[..., None, :], own.reshape((1,) * k + own.shape))
    return _reverse_if_rising(made, model)


def divorce_parents(model: NoisyMax) -> list[Array]:
    """Return n − 1 tables, one for each variable of a chain that replaces the effect with its n ≥ 3 parents.

    The last variable of the chain is the effect; the others have the same states as the effect.  The first table is conditional on
    parents 0 and 1, each later one on the previous variable of the chain and on the next parent.
    """
    first = distribution_of_minimum(_reverse_if_rising(model.leak, model), _reverse_if_rising(model.causes[0], model))
    made = [_reverse_if_rising(distribution_of_minimum(first[:, None], _reverse_if_rising(model.causes[1], model)[None]), model)]
    for cause in model.causes[2:]:
        table = distribution_of_minimum(np.eye(len(model.leak))[:, None], _reverse_if_rising(cause, model)[None])
        made.append(table[::-1, :, ::-1] if model.rising else table)
    return [np.ascontiguousarray(table) for table in made]


def distribution_of_minimum(p: Array, q: Array) -> Array:
    """Return the distribution of the smaller of two independent indices, over the last axis, by sums of non-negative products."""
    above = np.cumsum(q[..., ::-1], axis=-1)[..., ::-1]
    beyond = np.concatenate([np.cumsum(p[..., ::-1], axis=-1)[..., ::-1][..., 1:], np.zeros((*p.shape[:-1], 1))], axis=-1)
    found: Array = p * above + beyond * q
    return found


def _reverse_if_rising(table: Array, model: NoisyMax) -> Array:
    """Reverse the states of the effect if the model is `rising`, so that the strongest is first, or back to the order of the file."""
    return table[..., ::-1] if model.rising else table
