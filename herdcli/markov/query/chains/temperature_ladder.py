"""Temperatures of chains that exchange states: which ones, and how often states have come through them.

Neighbouring temperatures that reject an exchange with probability r make a way of Σ r from the hottest to the coldest, however many
there are; round trips are most frequent where all r are equal (Syed, Bouchard-Côté, Deligiannidis & Doucet 2022, and Predescu, Predescu
& Ciobanu 2004 before).  So the first half of the burn-in counts rejections, and the others run at temperatures that share them equally.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.markov.model.network import Network
from herdcli.schema import Array

SPAN = 2.0  # nats that factors span on the average at the hottest temperature, of a network with four neighbours a variable
CLOSER = 4.0  # neighbouring temperatures differ by this over the square root of the number of variables
MOST = 64  # temperatures
REJECTED = 0.6  # exchanges, where fewer temperatures suffice for that


def initial_powers(network: Network) -> Array:
    """β_1 < … < β_K = 1: factors over several variables span SPAN nats on the average at β_1; none but 1 where they do so at 1.

    What a variable hears of more neighbours than four adds up as independent numbers do.
    """
    spans, size = [], 0
    for scope, table in network.factors():
        possible = table[table > 0]
        if len(scope) > 1 and possible.size:
            spans.append(math.log(float(possible.max())) - math.log(float(possible.min())))
            size += len(scope)
    free = int((network.cardinality > 1).sum())
    crowd = max(1.0, math.sqrt(size / (4 * max(1, free))))
    hot = min(1.0, SPAN / max((float(np.mean(spans)) if spans else 0.0) * crowd, SPAN))
    count = min(MOST, math.ceil(-math.log(hot) / math.log1p(CLOSER / math.sqrt(max(1, free)))) + 1)
    return np.geomspace(hot, 1.0, count) if count > 1 else np.ones(1)


def adapt_powers(powers: Array, rejected: Array) -> Array:
    """Powers that share equally what was rejected between these ones, (K − 1,); fewer of them where REJECTED is not reached."""
    way = np.concatenate([[0.0], np.cumsum(np.maximum(rejected, 0.01))])
    count = min(len(powers), max(2, math.ceil(way[-1] / REJECTED) + 1))
    made: Array = np.exp(np.interp(np.linspace(0, way[-1], count), way, np.log(powers)))
    made[0], made[-1] = powers[0], powers[-1]
    return made


def nearest_powers(powers: Array, others: Array) -> Array:
    """Of each of `others` the number of the power that is nearest to it."""
    found: Array = np.abs(np.log(others)[:, None] - np.log(powers)).argmin(axis=1)
    return found


def round_trips(heading: Array) -> int:
    """How many states have come from the hottest temperature to the coldest: a round trip each.

    heading (K, chains) is 1 for states that were at the hottest last, 2 at the coldest, 0 at neither; it is set where they turn.
    """
    heading[0] = 1
    came = int((heading[-1] == 1).sum())
    heading[-1] = 2
    return came
