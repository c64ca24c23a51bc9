"""Inference as `herd ups-infer` runs it, on networks in memory."""

from __future__ import annotations

import numpy as np

from herdcli import iterate
from herdcli.markov import algorithms
from herdcli.markov.method import InferenceSettings


def run(given, algorithm, **settings):
    """The last state of an algorithm on a network, and its result."""
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings))
    state = iterate.run_steps(method.step, method.init(), until=method.done)
    return state, method.result(state)


def mean_error(a, b):
    """Mean absolute difference of two results' marginals, each variable weighing the same."""
    return float(np.mean([np.abs(p - q).mean() for p, q in zip(a.nodes, b.nodes, strict=True)]))
