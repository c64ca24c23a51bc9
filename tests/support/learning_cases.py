"""Small learning problems, and proportional fitting written once more, cell by cell."""

from __future__ import annotations

import numpy as np

from herdcli import iterate
from herdcli.markov.exact import enumeration
from herdcli.markov.learning import learners as learning
from herdcli.markov.model import constraints
from herdcli.markov.model.constraints import LearningProblem, StateRows

CARDINALITY = np.array([2, 3, 2, 2, 2, 3])
LOOPS = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5), (5, 2), (1, 4, 5)]


def sample(rows: int, seed: int, cardinality=CARDINALITY) -> StateRows:
    """Dependent rows: each column follows the one before, or a coin."""
    random = np.random.default_rng(seed)
    x = random.integers(0, cardinality, (rows, len(cardinality)))
    for i in range(1, len(cardinality)):
        follow = random.random(rows) < 0.6
        x[follow, i] = x[follow, i - 1] % cardinality[i]
    return StateRows(x, np.full(rows, 1 / rows))


def problem(seed: int = 0, scopes=LOOPS, smoothing: float = 1.0, cardinality=CARDINALITY, rows: int = 120, **more) -> LearningProblem:
    """Marginals of rows over some scopes."""
    found = sample(rows, seed, cardinality)
    return LearningProblem(cardinality, constraints.make_clusters(found, cardinality, scopes, smoothing), rows=found, **more)


def fit(given: LearningProblem, algorithm: str = "ups-jt", **settings):
    """Last state and what was learned."""
    learner = learning.make_learner(given, learning.LearningSettings(algorithm=algorithm, **settings))
    state = iterate.run_steps(learner.step, learner.init(), until=learner.done)
    return state, learner.result(state)


def joint(given: LearningProblem, factors) -> np.ndarray:
    """The joint table of what was learned."""
    return enumeration.initial_joint(given.network(factors)).joint


def fitted_by_hand(given: LearningProblem, sweeps: int = 3000) -> np.ndarray:
    """The nearest distribution to the base, by scaling the joint table."""
    p = np.ones(given.cardinality) if given.base is None else enumeration.initial_joint(given.base).joint.copy()
    p /= p.sum()
    for _ in range(sweeps):
        for cluster in given.clusters:
            order = sorted(range(len(cluster.scope)), key=lambda k: cluster.scope[k])
            kept = [cluster.scope[k] for k in order]
            target = cluster.target.transpose(order)
            present = p.sum(axis=tuple(i for i in range(p.ndim) if i not in kept))
            shape = [p.shape[i] if i in kept else 1 for i in range(p.ndim)]
            p = p * np.divide(target, present, out=np.zeros_like(target), where=present > 0).reshape(shape)
    return p
