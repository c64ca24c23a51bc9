"""Temperatures of chains that exchange states: their choice, and the number of round trips.

If neighbouring temperatures reject an exchange with probability r, Σ r from the hottest to the coldest does not depend on their
number.  Round trips are most frequent if all r are equal (Syed, Bouchard-Côté, Deligiannidis & Doucet 2022, and Predescu, Predescu
& Ciobanu 2004).  So the first half of the burn-in counts rejections, and the rest of the run uses temperatures that share them equally.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.markov.model.network import Network
from herdcli.schema import Array

SPAN = 2.0  # nats that factors span on average at the hottest temperature, for a network with four neighbours per variable
CLOSER = 4.0  # neighbouring temperatures differ by this divided by the square root of the number of variables
MOST = 64  # largest number of temperatures
REJECTED = 0.6  # rejection rate that is accepted in order to use fewer temperatures


def choose_initial_powers(network: Network) -> Array:
    """Return β_1 < … < β_K = 1 such that factors over several variables span SPAN nats on average at β_1.

    If the factors span no more than SPAN nats at β = 1, the only power is 1.  The effects of more than four neighbours on a variable are
    assumed to add up as independent random numbers do.
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
    """Return powers between which the rejections are equal, from the rejections (K − 1,) between neighbours among the given powers.

    There are fewer powers if the rejection rate then stays below REJECTED.
    """
    way = np.concatenate([[0.0], np.cumsum(np.maximum(rejected, 0.01))])
    count = min(len(powers), max(2, math.ceil(way[-1] / REJECTED) + 1))
    made: Array = np.exp(np.interp(np.linspace(0, way[-1], count), way, np.log(powers)))
    made[0], made[-1] = powers[0], powers[-1]
    return made


def nearest_power_indices(powers: Array, others: Array) -> Array:
    """Return, for each of `others`, the index of the nearest power."""
    found: Array = np.abs(np.log(others)[:, None] - np.log(powers)).argmin(axis=1)
    return found


def count_round_trips(heading: Array) -> int:
    """Count the states that have travelled from the hottest temperature to the coldest; each is a round trip.

    heading  (K, chains) 1 for states that were last at the hottest, 2 at the coldest, 0 at neither; updated at both ends.
    """
    heading[0] = 1
    came = int((heading[-1] == 1).sum())
    heading[-1] = 2
    return came
