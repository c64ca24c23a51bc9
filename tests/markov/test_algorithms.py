"""Every method of inference, every learner and the batch of rows is an algorithm: its state's type is known, its progress has a figure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.markov import algorithms
from herdcli.markov.algorithms.table import TABLE
from herdcli.markov.exact.evidence_batch import EvidenceBatch
from herdcli.markov.learning import algorithm_table, learners
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import constraints, random_networks

SILENT = {"frontier", "gibbs", "linear-response", "tempered-gibbs"}


@pytest.mark.parametrize("name", TABLE)
def test_methods(name):
    observed = "leaves" if TABLE[name].observed == "needed" else None
    network = random_networks.generate_random_network(
        "tree" if observed or name == "ups-t" else "grid", rows=3, columns=3, nodes=9, observe=observed
    )
    method = algorithms.make_inference_method(network, InferenceSettings(algorithm=name, sweeps=4, burn_in=2, iterations=50))
    expected = method.state
    first = state = method.init()
    assert type(first) is expected
    assert (method.progress(first).step, method.progress(first).bound, method.progress(first).figure) == (0, method.steps, "")
    while not method.done(state):
        state = method.step(state)
    told = method.progress(state)
    assert told.step == state.step > 0 or name == "enumerate"
    assert bool(told.figure) == (name not in SILENT and name != "enumerate")
    assert method.meets_criterion(state) or state.step == method.steps
    again = run_algorithm(algorithms.make_inference_method(network, InferenceSettings(algorithm=name, sweeps=4, burn_in=2, iterations=50)))
    assert all(map(np.array_equal, again.nodes, method.result(state).nodes))


@pytest.mark.parametrize("name", TABLE)
def test_factors_times_a_number_move_log_z_alone(name):
    """Times 2^900 each, so that products of two of them leave float64: log Z grows by 900 log 2 a factor, and no belief changes."""
    observed = "leaves" if TABLE[name].observed == "needed" else None
    network = random_networks.generate_random_network(
        "tree" if observed or name == "ups-t" else "grid", rows=2, columns=3, nodes=6, observe=observed
    )
    settings = InferenceSettings(algorithm=name, sweeps=4, burn_in=2, iterations=50)
    plain, large = (
        run_algorithm(algorithms.make_inference_method(replace(network, table=network.table * s), settings)) for s in (1.0, 2.0**900)
    )
    for one, other in zip(plain.nodes, large.nodes, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-9)
    if TABLE[name].log_z:
        gain = 900 * np.log(2) * len(list(network.factors()))
        assert large.attributes["log_z"] - gain == pytest.approx(plain.attributes["log_z"], abs=1e-8)


def test_the_figure_is_the_residual():
    method = algorithms.make_inference_method(
        random_networks.generate_random_network("grid"), InferenceSettings(algorithm="bp", schedule="sequential")
    )
    state = method.step(method.init())
    assert method.progress(state).figure == f"residual {state.residual[-1]:.3g}"


@pytest.mark.parametrize("name", algorithm_table.ALGORITHMS)
def test_learners(name):
    random = np.random.default_rng(1)
    x = random.integers(0, 2, (60, 4)).astype(np.uint8)
    rows, states = constraints.StateRows(x, np.full(60, 1 / 60)), np.full(4, 2)
    scopes = [(i, j) for j in range(4) for i in range(j)]
    problem = constraints.validate_problem(
        constraints.LearningProblem(states, constraints.make_clusters(rows, states, scopes, 1.0), rows=rows)
    )
    learner = learners.make_learner(problem, learners.LearningSettings(algorithm=name, iterations=30))
    state = learner.init()
    assert type(state) is learner.state
    assert learner.progress(state).step == state.step == 0
    assert learner.memory() == learner.bytes_needed()[0] > 0
    while not learner.done(state):
        state = learner.step(state)
    told = learner.progress(state)
    assert (told.step, told.bound) == (state.step, learner.steps)
    assert bool(told.figure) == (name not in SILENT)
    assert learner.meets_criterion(state) or state.step == learner.steps


def test_a_batch_of_rows_and_a_part_of_it():
    network = random_networks.generate_random_network("grid", rows=3, columns=3)
    batch = EvidenceBatch(network, [0], np.array([[0], [1], [-1]]), orders=2, seed=0)
    batch.rows, batch.count = 1, 3
    whole = run_algorithm(batch.part(range(3)))
    assert (len(whole), type(batch.init()), batch.memory() > 0) == (3, batch.state, True)
    last = run_algorithm(batch.part([2]))
    assert len(last) == 1
    assert np.array_equal(last[0].marginals, whole[2].marginals)
    assert whole[0].log_z + np.log1p(np.exp(whole[1].log_z - whole[0].log_z)) == pytest.approx(whole[2].log_z, abs=1e-12)


@pytest.mark.parametrize("name", sorted(set(TABLE) - {"junction-tree", "frontier"}))
def test_what_the_result_takes_is_known_before_the_first_step(name):
    """So that what does not fit is refused before the work; an order has to be found first, and a frontier needs less on its way back."""
    observed = "leaves" if TABLE[name].observed == "needed" else None
    network = random_networks.generate_random_network(
        "tree" if observed or name == "ups-t" else "grid", rows=3, columns=3, nodes=9, observe=observed
    )
    method = algorithms.make_inference_method(network, InferenceSettings(algorithm=name, sweeps=4, burn_in=2, iterations=5))
    before = method.bytes_needed(None)
    assert before[0] > 0
    state = method.init()
    while not method.done(state):
        state = method.step(state)
    assert method.bytes_needed(state) == before
