"""A run that went through a checkpoint ends bit for bit where one without ends."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli import iterate
from herdcli.artifacts import load_checkpoint, save_checkpoint
from herdcli.markov import algorithms
from herdcli.markov.algorithms.table import TABLE
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import random_networks

OBSERVED = {"loopy-is", "is-bp", "gis-bp", "enumerate"}
CASES = [(name, {}) for name in TABLE if name != "ups-t"]
CASES += [("bp", {"schedule": "checkerboard"}), ("bp", {"schedule": "parallel", "damping": 0.2}), ("gibbs", {"burn_in": 3})]


@pytest.mark.parametrize(("algorithm", "settings"), CASES, ids=str)
def test_resumed_runs_end_at_the_same_bits(algorithm, settings, tmp_path):
    given = random_networks.generate_random_network(
        "grid", rows=4, columns=4, sigma_w=2.0, observe="border" if algorithm in OBSERVED else None, seed=1
    )
    chosen = InferenceSettings(algorithm=algorithm, **{"sweeps": 20, "burn_in": 0, "tolerance": 1e-300, "iterations": 24} | settings)
    whole, begun, resumed = (algorithms.make_inference_method(given, chosen) for _ in range(3))
    straight = iterate.run_steps(whole.step, whole.init(), steps=min(whole.steps, 8))
    half = iterate.run_steps(begun.step, begun.init(), steps=3)
    path = str(tmp_path / "c")
    save_checkpoint(path, half, "digest")
    read = load_checkpoint(path, type(half), "digest")
    assert read is not None
    assert read.step == 3
    ended = iterate.run_steps(resumed.step, read, steps=min(resumed.steps, 8))
    assert ended.step == straight.step > 3
    ours, theirs = whole.result(straight), resumed.result(ended)
    assert all(np.array_equal(p, q) for p, q in zip(ours.nodes, theirs.nodes, strict=True))
    assert all(np.array_equal(p, q) for (_, p), (_, q) in zip(ours.cliques, theirs.cliques, strict=True))
    assert ours.attributes["iterations"] == theirs.attributes["iterations"]
