"""What `auto` takes where nothing exact fits: against exact marginals, and what it says of what it tried."""

from __future__ import annotations

import numpy as np
import pytest
from inference import mean_error

from herdcli.algorithm import run_algorithm
from herdcli.markov import algorithms
from herdcli.markov.algorithms import automatic
from herdcli.markov.algorithms.automatic import AutomaticChoice
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks
from herdcli.markov.model.graphs import region_graphs


def choose(given, settings=None, effort=1e8, sampled=True):
    """The names that were tried, the result, its name and the words about it."""
    choice = AutomaticChoice(given, settings or InferenceSettings(algorithm="auto", tolerance=1e-6), "as it is too large", effort, sampled)
    tried = []
    for attempt in choice.attempts():
        tried.append(attempt.name)
        method = attempt.method or algorithms.make_inference_method(given, attempt.settings)
        found = run_algorithm(method)
        choice.add(attempt, found, found.attributes["iterations"])
    return tried, *choice.select_best_result()


@pytest.mark.parametrize("seed", [2, pytest.param(0, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.slow)])
def test_strong_couplings_on_a_lattice_are_for_regions(seed):
    given = random_networks.generate_random_network("grid", rows=10, columns=10, sigma_w=5.0, sigma_b=1.0, seed=seed)
    exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings()))
    tried, found, name, told = choose(given, InferenceSettings(algorithm="auto", tolerance=1e-5, iterations=200), sampled=False)
    assert (tried, name) == (["gbp", "bp"], "gbp")  # chains are of no use to who asks for log Z
    assert told.startswith("the answer is that of gbp; ")
    assert told.endswith("(not converged)")
    assert mean_error(found, exact) < 0.01


def test_chains_that_have_mixed_are_the_answer_where_regions_and_propagation_disagree():
    given = random_networks.generate_random_network("random", nodes=14, degree=12.0, sigma_w=1.0, sigma_b=0.5, seed=1)
    exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="enumerate")))
    asked = InferenceSettings(algorithm="auto", tolerance=1e-6, sweeps=3000)
    tried, found, name, told = choose(given, asked)
    assert (tried, name) == (["gbp", "bp", "tree-ep", "tempered-gibbs", "tempered-gibbs"], "tempered-gibbs"), told
    assert mean_error(found, exact) < 0.005
    assert np.isfinite(found.attributes["log_z"])
    assert choose(given, asked, sampled=False)[0] == ["gbp", "bp", "tree-ep"]


def test_a_candidate_that_fails_is_charged_and_the_next_one_answers():
    given = random_networks.generate_random_network("grid", rows=6, columns=6)
    choice = AutomaticChoice(given, InferenceSettings(algorithm="auto", tolerance=1e-6), "as it is too large", 1e8)
    turn = choice.attempts()
    first = next(turn)
    choice.add(first, None, 7)
    assert choice.left == 1e8 - first.cost(7)
    tried = [(first.name, first.settings.damping)]
    for attempt in turn:
        tried.append((attempt.name, attempt.settings.damping))
        failed = attempt.name == "gbp"
        found = None if failed else run_algorithm(attempt.method or algorithms.make_inference_method(given, attempt.settings))
        choice.add(attempt, found, 1)
    assert tried[:3] == [("gbp", 0.5), ("gbp", 0.75), ("bp", 0.0)]
    assert choice.select_best_result()[1] in choice.found
    assert "gbp" not in choice.found
    assert mean_error(choice.select_best_result()[0], run_algorithm(algorithms.make_inference_method(given, InferenceSettings()))) < 0.05


def test_without_effort_it_is_propagation_and_then_ups():
    strong = random_networks.generate_random_network("grid", rows=10, columns=10, sigma_w=5.0, sigma_b=1.0, seed=2)
    tried, _, name, _ = choose(strong, InferenceSettings(algorithm="auto", tolerance=1e-6, iterations=40), effort=0)
    assert (tried, name) == (["bp", "ups"], "ups")
    weak = random_networks.generate_random_network("grid", rows=5, columns=5)
    assert choose(weak, effort=0)[0] == ["bp"]


def test_where_regions_and_propagation_agree_no_chains_are_run():
    tree = random_networks.generate_random_network("tree", nodes=12)
    assert choose(tree)[0] == ["gbp", "bp"]


def test_networks_of_several_states_are_for_chains_too():
    random = np.random.default_rng(0)
    edges = [(i, j) for i in range(8) for j in range(i) if random.random() < 0.7]
    given = network.build_network([3] * 8, [((i, j), np.exp(random.standard_normal((3, 3)))) for i, j in edges])
    exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="enumerate")))
    tried, found, name, told = choose(given, InferenceSettings(algorithm="auto", tolerance=1e-6, sweeps=1000))
    assert tried == ["gbp", "bp", "tree-ep", "tempered-gibbs", "tempered-gibbs"]
    assert name == "tempered-gibbs", told
    assert mean_error(found, exact) < 0.01


@pytest.mark.parametrize("seed", range(2))
def test_on_lattices_with_strong_couplings_chains_judge_regions(seed):
    given = random_networks.generate_random_network("grid", rows=9, columns=9, sigma_w=5.0, sigma_b=1.0, seed=seed)
    exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings()))
    tried, found, name, told = choose(given, InferenceSettings(algorithm="auto", tolerance=1e-5, sweeps=1500))
    assert tried == ["gbp", "bp", "tempered-gibbs", "tempered-gibbs"]
    assert name in ("gbp", "tempered-gibbs"), told  # as good as each other for the first seed
    assert mean_error(found, exact) < 0.003
    assert region_graphs.make_region_graph(given, "plaquettes").is_balanced()


def test_on_lattices_that_propagation_is_nearly_right_on_regions_need_no_chains():
    given = random_networks.generate_random_network("grid", rows=9, columns=9, sigma_w=2.0, sigma_b=1.0, seed=0)
    tried, _, name, told = choose(given, InferenceSettings(algorithm="auto", tolerance=1e-5))
    assert (tried, name) == (["gbp", "bp"], "gbp"), told


def test_regions_within_the_errors_of_chains_are_borne_out_and_chains_that_did_not_mix_are_no_reason_for_ups():
    """Couplings so strong that a few sweeps at one temperature leave every chain in a mode of its own: Grids_12 of UAI 2014 is alike."""
    random = np.random.default_rng(3)
    pairs = [(i, i + 1) for i in range(81) if i % 9 < 8] + [(i, i + 9) for i in range(72)]
    coupling = random.uniform(-10, 10, len(pairs))
    factors = [((i,), np.exp(h * np.array([-1.0, 1.0]))) for i, h in enumerate(random.uniform(-1, 1, 81))]
    factors += [(pair, np.exp(J * np.array([[1.0, -1.0], [-1.0, 1.0]]))) for pair, J in zip(pairs, coupling, strict=True)]
    given = network.build_network([2] * 81, factors)
    exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings()))
    tried, found, name, told = choose(given, InferenceSettings(algorithm="auto", tolerance=1e-5, iterations=200, sweeps=600))
    assert tried[-2:] == ["tempered-gibbs", "tempered-gibbs"]
    assert "ups" not in tried, told
    error = np.concatenate(found.attributes["standard_error"]).mean()
    assert mean_error(found, exact) < min(0.06, 3 * error), (name, told)


@pytest.mark.parametrize("nodes", [20, 40])
def test_counts_are_balanced_where_no_loop_is_missed_or_counted_twice(nodes):
    sparse = random_networks.generate_random_network("random", nodes=nodes, degree=3.0, seed=1)
    dense = random_networks.generate_random_network("random", nodes=12, degree=10.0, seed=1)
    tree = random_networks.generate_random_network("tree", nodes=nodes)
    apart = network.build_network([2] * 6, [((0, 1), np.ones((2, 2))), ((3, 4), np.ones((2, 2)))])
    told = [region_graphs.make_region_graph(given, "plaquettes").is_balanced() for given in (sparse, dense, tree, apart)]
    assert told == [False, False, True, True]


@pytest.mark.parametrize("seed", range(3))
def test_on_sparse_random_graphs_tree_ep_is_believed_where_propagation_bears_it_out(seed):
    """Plaquettes miss most loops there, and propagation over them is further off than propagation itself."""
    given = random_networks.generate_random_network("random", nodes=40, degree=3.0, sigma_w=1.0, sigma_b=0.5, seed=seed)
    exact = run_algorithm(algorithms.make_inference_method(given, InferenceSettings()))
    tried, found, name, told = choose(given, InferenceSettings(algorithm="auto", tolerance=1e-6), sampled=False)
    if "tree-ep" in tried:
        assert name == "tree-ep", told
    assert mean_error(found, exact) < 5e-4


def test_effort_that_was_reached_under_time_asks_tree_ep_again():
    """It is charged whole, so that the same is left for chains however soon it converged."""
    given = random_networks.generate_random_network("random", nodes=14, degree=12.0, sigma_w=1.0, sigma_b=0.5, seed=1)
    asked = InferenceSettings(algorithm="auto", tolerance=1e-6, sweeps=200)
    timed = AutomaticChoice(given, asked, "", float("inf"), True, lambda method: 500)
    spent = 0.0
    for attempt in timed.attempts():
        found = run_algorithm(attempt.method or algorithms.make_inference_method(given, attempt.settings))
        spent += attempt.cost(found.attributes["iterations"])
        timed.add(attempt, found, found.attributes["iterations"])
    again = choose(given, asked, spent)
    assert again[0][:-1] == list(timed.found) == ["gbp", "bp", "tree-ep", "tempered-gibbs"]
    ours, theirs = again[1].nodes, timed.select_best_result()[0].nodes
    assert all(map(np.array_equal, ours, theirs))


def test_regions_that_did_not_converge_are_tried_with_more_damping():
    """Forty iterations are too few with either damping, and the one that came nearer is kept; with enough the second is not needed."""
    given = random_networks.generate_random_network("grid", rows=8, columns=8, sigma_w=5.0, sigma_b=1.0, seed=0)
    short = InferenceSettings(algorithm="auto", tolerance=1e-9, iterations=60)
    choice = AutomaticChoice(given, short, "", 1e8, False)
    residuals = {}
    for attempt in choice.attempts():
        found = run_algorithm(attempt.method or algorithms.make_inference_method(given, attempt.settings))
        if attempt.name == "gbp":
            residuals[attempt.settings.damping] = found.attributes["residual"]
        choice.add(attempt, found, found.attributes["iterations"])
    assert list(residuals) == [0.5, 0.75]
    assert choice.found["gbp"].attributes["residual"] == min(residuals.values())
    assert choose(given, InferenceSettings(algorithm="auto", tolerance=1e-5), sampled=False)[0] == ["gbp", "bp"]


def test_a_tree_of_a_large_network_is_given_up_after_one_long_run(monkeypatch):
    """A lattice of 700 × 700 took more than a hundred seconds to be refused: two runs of the elimination to 2^48 cells each."""
    from herdcli.markov.exact import elimination
    from herdcli.markov.exact.exact_algorithms import JunctionTree

    net = random_networks.generate_random_network("grid", rows=12, columns=12)
    tree = JunctionTree(net, InferenceSettings())
    assert elimination.try_more_orders(net, tree.graph, 0, elimination.initial_order_search(net)).complete
    for name, less in (("MUCH", 1000), ("FAR", 2.0**8), ("LONGEST", 100)):
        monkeypatch.setattr(elimination, name, less)
    given_up = elimination.try_more_orders(net, tree.graph, 0, elimination.initial_order_search(net))
    assert not given_up.complete
    assert given_up.cells < 2**16
    assert tree.meets_criterion(given_up)
    assert tree.bytes_needed(given_up)[0] >= 2**52  # however far the run came
    monkeypatch.setattr(elimination, "LONGEST", 1000)
    assert not tree.meets_criterion(given_up)


def test_no_sweep_is_prepared_over_a_lattice_too_wide_for_any(monkeypatch):
    from herdcli.markov.exact import frontier

    def found(network):
        raise AssertionError("the factors were read")

    wide = random_networks.generate_random_network("grid", rows=40, columns=50)
    monkeypatch.setattr(frontier, "find_swept_lattice", found)
    assert algorithms._choose_frontier_over_tree(wide, InferenceSettings(), 1 << 60, 1 << 39) is None
    with pytest.raises(AssertionError, match="were read"):
        algorithms._choose_frontier_over_tree(wide, InferenceSettings(), 1 << 60, 1 << 41)


def test_propagation_that_comes_no_nearer_is_given_up_beside_regions_that_are_trusted():
    """10×10 with strong couplings: 200 steps in place of 1,000; where regions are not trusted it may be the answer and goes on."""
    given = random_networks.generate_random_network("grid", rows=10, columns=10, sigma_w=5.0, sigma_b=1.0, seed=2)
    for trusted in (True, False):
        settings = InferenceSettings(algorithm="auto", tolerance=1e-6, iterations=1000 if trusted else 300)
        choice = AutomaticChoice(given, settings, "as it is too large", 1e8, False)
        for attempt in choice.attempts():
            if attempt.name == "gbp" and not trusted:
                choice.add(attempt, None, 1)
                continue
            found = run_algorithm(attempt.method or algorithms.make_inference_method(given, attempt.settings))
            choice.add(attempt, found, found.attributes["iterations"])
            if attempt.name == "bp":
                assert (found.attributes["iterations"], found.attributes["converged"]) == (200 if trusted else 300, False)
                break


@pytest.mark.parametrize(
    ("residual", "given_up"),
    [
        (np.full(199, 0.9), False),
        (np.full(200, 0.9), True),
        (np.full(200, 0.09), False),
        (np.geomspace(1, 0.3, 200), True),
        (np.geomspace(1, 0.11, 200), False),
        (np.full(200, np.nan), False),
    ],
)
def test_what_is_hopeless(residual, given_up):
    assert automatic.is_propagation_hopeless(residual) == given_up


def test_tree_ep_is_given_up_once_it_will_not_converge():
    """Where the residual falls too slowly for the iterations it has; where it falls fast it goes on to the tolerance."""
    took = {}
    for sigma, seed in ((4.0, 0), (2.0, 0)):
        given = random_networks.generate_random_network("random", nodes=40, degree=3.0, sigma_w=sigma, sigma_b=0.5, seed=seed)
        choice = AutomaticChoice(given, InferenceSettings(algorithm="auto", tolerance=1e-6, iterations=60), "", 1e8, False)
        for attempt in choice.attempts():
            found = run_algorithm(attempt.method or algorithms.make_inference_method(given, attempt.settings))
            choice.add(attempt, found, found.attributes["iterations"])
            took[sigma, attempt.name] = found.attributes["iterations"], found.attributes["converged"]
    assert took[4.0, "tree-ep"] == (automatic.SOON, False)
    iterations, converged = took[2.0, "tree-ep"]
    assert automatic.SOON < iterations < automatic.THIRD
    assert converged
