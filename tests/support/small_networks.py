"""Small networks with zeros and several states, and everything about them by a loop over all states."""

from __future__ import annotations

import itertools
import math

import numpy as np

from herdcli.markov.model import network


def random_network(seed: int, zeros: bool = False, variables: int = 8):
    """Factors of up to four variables with one to three states, one variable in no factor; a fifth of the cells zero if asked."""
    random = np.random.default_rng(seed)
    cardinality = random.integers(1, 4, variables)
    factors = []
    for _ in range(variables):
        scope = tuple(random.choice(variables - 1, random.integers(0, 5), replace=False).tolist())
        table = np.asarray(np.exp(2 * random.standard_normal(cardinality[list(scope)])))
        if zeros:
            table = np.asarray(table * (random.random(table.shape) < 0.8))
            table.flat[0] = 1.0
        factors.append((scope, table))
    return network.build_network(cardinality, factors)


def weights(given) -> dict[tuple[int, ...], float]:
    """Π f of every state."""
    every = itertools.product(*map(range, given.cardinality.tolist()))
    return {x: math.prod(float(table[tuple(x[i] for i in scope)]) for scope, table in given.factors()) for x in every}


def summed(given, names) -> dict[tuple[int, ...], float]:
    """Σ Π f of every state of some variables."""
    found: dict[tuple[int, ...], float] = {}
    for x, value in weights(given).items():
        key = tuple(x[i] for i in names)
        found[key] = found.get(key, 0.0) + value
    return found


def brute_force(given):
    """Marginals and log Z."""
    truth = weights(given)
    marginals = [np.zeros(count) for count in given.cardinality]
    for x, value in truth.items():
        for p, state in zip(marginals, x, strict=True):
            p[state] += value
    total = sum(truth.values())
    return [p / total for p in marginals], math.log(total)
