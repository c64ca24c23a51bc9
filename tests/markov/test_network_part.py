"""Parts of large networks: what is outside stands in their factors as the answer for the whole has it."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.evaluation import verdicts
from herdcli.markov import algorithms
from herdcli.markov.method import InferenceResult, InferenceSettings
from herdcli.markov.model import beliefs, network, random_networks
from herdcli.markov.query import network_part, reliability


def infer(given, algorithm):
    return run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm)))


def strong_tree(count, seed):
    """A tree of variables of two and three states; some pairs have two factors, some scopes are not in order."""
    rng = np.random.default_rng(seed)
    states = rng.choice([2, 3], count)
    factors = [((i,), np.exp(rng.normal(size=states[i]))) for i in range(0, count, 3)]
    for i in range(1, count):
        j = int(rng.integers(max(0, i - 40), i))
        scope = (i, j) if rng.random() < 0.5 else (j, i)
        factors += [(scope, np.exp(2 * rng.normal(size=states[list(scope)])))] * (1 + int(rng.random() < 0.2))
    return network.build_network(states, factors)


@pytest.mark.parametrize("seed", range(3))
def test_of_a_tree_every_part_has_the_marginals_of_the_whole(seed):
    given = strong_tree(700, seed)
    whole = infer(given, "bp")
    part = network_part.extract_part(given, whole, 350 + seed, 120, 1.0)
    assert part is not None
    assert len(part.variables) == 120
    assert 0 < part.inner.sum() < 120
    for i, p in zip(part.variables.tolist(), infer(part.network, "junction-tree").nodes, strict=True):
        np.testing.assert_allclose(p, whole.nodes[i], atol=1e-7)


def test_variables_outside_of_factors_of_several_are_summed_by_their_marginals():
    """Mean field has no messages: what crosses the edge is the mean by the product of marginals."""
    rng = np.random.default_rng(0)
    states = [2, 3, 2, 2, 2]
    tables = [np.exp(rng.normal(size=shape)) for shape in ((2, 3), (2, 2, 2), (3, 2))]
    given = network.build_network(states, [((0, 1), tables[0]), ((3, 2, 4), tables[1]), ((1, 2), tables[2])])
    nodes = [rng.dirichlet(np.ones(count)) for count in states]
    assert network_part.extract_part(given, InferenceResult(nodes, []), 0, 2, 1.0) is None  # no variable is two steps from the edge
    assert network_part.extract_part(given, InferenceResult(nodes, []), 0, 5, 1.0).inner.all()
    chain = network.build_network([2] * 6, [((i, i + 1), np.exp(rng.normal(size=(2, 2)))) for i in range(4)] + [((5, 3, 4), tables[1])])
    nodes = [rng.dirichlet(np.ones(2)) for _ in range(6)]
    part = network_part.extract_part(chain, InferenceResult(nodes, []), 0, 4, 1.0)
    assert part.variables.tolist() == [0, 1, 2, 3]
    assert part.inner.tolist() == [True, True, False, False]
    found = dict(part.network.factors())
    expected = np.einsum("abc,a,c->b", tables[1], nodes[5], nodes[4])
    pair = np.einsum("bc,c->b", dict(chain.factors())[(3, 4)], nodes[4])
    crossing = [table for scope, table in part.network.factors() if scope == (3,)]
    assert len(crossing) == 2
    np.testing.assert_allclose(np.prod(crossing, axis=0), expected * pair, rtol=1e-12)
    assert (0, 1) in found


def test_growth_that_costs_too_much_gives_no_part():
    given = strong_tree(700, 0)
    assert network_part.extract_part(given, infer(given, "bp"), 0, 120, 1e-7) is None


@pytest.mark.parametrize("kind", ["grid", "random"])
def test_of_thousands_of_variables_chains_of_a_part_tell_mean_field_from_propagation(kind):
    size = {"rows": 10, "columns": 170} if kind == "grid" else {"nodes": 1800, "degree": 2.5}
    given = random_networks.generate_random_network(kind, sigma_w=1.5, seed=2, **size)
    for algorithm in ("bp", "mean-field"):
        found = infer(given, algorithm)
        known = reliability.compute_reference(given, int(found.attributes["iterations"]), answer=found, allow_exact=False)
        told = reliability.assess_answer(found, algorithm, known)
        assert told.marginal_error_by == "short chains of 400 variables"
        assert (told.marginal_error > reliability.INACCURATE) == (algorithm == "mean-field")
        assert bool(told.warnings) == (algorithm == "mean-field")


def test_marginals_of_a_large_network_with_zeros_are_called_unchecked():
    factors = [((i, i + 1), np.array([[2.0, 1.0], [float(i != 400), 2.0]])) for i in range(999)]
    given = network.build_network([2] * 1000, factors)
    found = infer(given, "bp")
    known = reliability.compute_reference(given, 20, answer=found, allow_exact=False)
    for chosen, by, verdict in ((False, reliability.UNCHECKED, "marginals not checked"), (True, None, "ok")):
        told = reliability.assess_answer(found, "bp", known, confirmed=chosen).attributes()
        assert (told["estimated_by"], told["estimated_error"], told["warnings"]) == (by, None, None)
        made = beliefs.assemble_beliefs(given, {}, found.nodes, [], algorithm="bp", **found.attributes | told)
        assert verdicts.verdict_text("beliefs", {"converged": True}, made) == verdict
