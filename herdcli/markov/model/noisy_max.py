"""Noisy-or and noisy-max: an effect is the strongest of what each cause brings about by itself, and of a leak.

With states ordered from the strongest (0) to the weakest (r − 1) the effect is the least index, so that

    P(X ≥ k | a) = P(leak ≥ k) Π_i P(Z_i ≥ k | a_i).

Source: Pearl (1988), sec. 4.3.2, for noisy-or; Díez (1993) for noisy-max; Olesen et al. (1989) for parents that are divorced.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array

MOST_CELLS = 1 << 12  # of a table that is written out


@dataclass(frozen=True)
class NoisyMax:
    """causes  of each parent (its states, r): P(Z_i | a_i).  leak  (r,).  States of the effect from the strongest on, unless `rising`."""

    causes: Sequence[Array]
    leak: Array
    rising: bool = False


def expand_table(model: NoisyMax) -> Array:
    """P(effect | parents), with an axis a parent and the effect last."""
    made = _order_states(model.leak, model)
    for k, cause in enumerate(model.causes):
        own = _order_states(cause, model)
        made = minimum_distribution(made[..., None, :], own.reshape((1,) * k + own.shape))
    return _order_states(made, model)


def divorce_parents(model: NoisyMax) -> list[Array]:
    """Tables of n − 1 variables for n ≥ 3 parents, the last of them the effect; all have the states of the effect.

    The first is given parents 0 and 1; each other one is given the variable before it and the next parent.
    """
    first = minimum_distribution(_order_states(model.leak, model), _order_states(model.causes[0], model))
    made = [_order_states(minimum_distribution(first[:, None], _order_states(model.causes[1], model)[None]), model)]
    for cause in model.causes[2:]:
        table = minimum_distribution(np.eye(len(model.leak))[:, None], _order_states(cause, model)[None])
        made.append(table[::-1, :, ::-1] if model.rising else table)
    return [np.ascontiguousarray(table) for table in made]


def minimum_distribution(p: Array, q: Array) -> Array:
    """The distribution of the lesser of two independent indices, over the last axis; sums of products that are not negative."""
    above = np.cumsum(q[..., ::-1], axis=-1)[..., ::-1]
    beyond = np.concatenate([np.cumsum(p[..., ::-1], axis=-1)[..., ::-1][..., 1:], np.zeros((*p.shape[:-1], 1))], axis=-1)
    found: Array = p * above + beyond * q
    return found


def _order_states(table: Array, model: NoisyMax) -> Array:
    """A table with the strongest state of the effect first, or in the order of the file again."""
    return table[..., ::-1] if model.rising else table
