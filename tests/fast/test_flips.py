"""Clusters that are exchanged for their images: both loops alike, the distribution left as it is, and bad arrays refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_networks import weights

from herdcli import fast
from herdcli.fast import numpy_flips
from herdcli.markov.model import network, random_networks
from herdcli.markov.model.restricted_states import restrict_to_possible_states
from herdcli.markov.query import state_permutations


def pairs_of_three(seed):
    """Four variables of 2 or 3 states in a ring with a chord, one cell of a factor zero."""
    random = np.random.default_rng(seed)
    states = [3, 2, 3, 3]
    factors = [((i, j), np.exp(random.standard_normal((states[i], states[j])))) for i, j in ((0, 1), (2, 1), (2, 3), (3, 0), (0, 2))]
    factors[0][1][2, 1] = 0.0
    return network.build_network(states, [*factors, ((2,), np.array([0.2, 0.5, 0.3]))])


def flipped(loop, made, x, image, seed, power=1.0):
    random, (count, chains) = np.random.default_rng(seed), x.shape
    bonds, coins = random.standard_exponential((len(made.ends), chains)), random.logistic(size=(count, chains))
    loop(
        made.ends, made.tables, made.logs, made.first, made.single, image, power, x, bonds, coins,
        np.empty(count, dtype=np.int64), np.empty(count),
    )  # fmt: skip
    return x


@pytest.mark.parametrize("seed", range(3))
def test_both_loops_flip_the_same_clusters(seed):
    lattice = state_permutations.find_state_permutations(
        restrict_to_possible_states(random_networks.generate_random_network("grid", rows=5, columns=4, sigma_w=2.0, seed=seed))
    )
    for made, most in ((lattice, 2), (state_permutations.find_state_permutations(restrict_to_possible_states(pairs_of_three(seed))), 2)):
        begin = np.random.default_rng(seed).integers(most, size=(len(made.first) - 1, 9))
        for image in made.images:
            here, twin = (flipped(loop, made, begin.copy(), image, 5, 0.7) for loop in (fast.flip_clusters, numpy_flips.flip_clusters))
            assert here.tobytes() == twin.tobytes()
            assert (here != begin).any()


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_flips_leave_the_distribution_as_it_is(power):
    """Pearson's statistic of states that were drawn exactly and then flipped."""
    given = pairs_of_three(1)
    made, truth = state_permutations.find_state_permutations(restrict_to_possible_states(given)), weights(given)
    states = np.array(list(truth))
    p = np.array(list(truth.values())) ** power
    p /= p.sum()
    random, count = np.random.default_rng(0), 6000
    begin = states[random.choice(len(p), size=count, p=p)].T.copy()
    x = begin
    for k, image in enumerate(made.images):
        x = flipped(fast.flip_clusters, made, x.copy(), image, k + 1, power)
    assert (x != begin).any(axis=0).mean() > 0.3
    number = {tuple(state): k for k, state in enumerate(states.tolist())}
    found = np.bincount([number[tuple(state)] for state in x.T.tolist()], minlength=len(p))
    some = p * count > 5
    assert not found[p == 0].any()
    assert ((found - p * count)[some] ** 2 / (p * count)[some]).sum() < some.sum() + 4 * np.sqrt(2 * some.sum())


def test_colours_of_a_part_change_places_and_no_neighbours_become_alike():
    unlike = 1.0 - np.eye(3)
    given = network.build_network([3] * 5, [((i, i + 1), unlike) for i in range(4)])
    made = state_permutations.find_state_permutations(restrict_to_possible_states(given))
    x = flipped(fast.flip_clusters, made, np.tile(np.array([[0], [1], [2], [0], [1]]), 50), made.images[0], 0)
    kinds = {tuple(state) for state in x.T.tolist()}
    assert kinds == {(0, 1, 2, 0, 1), (1, 0, 2, 0, 1), (0, 1, 2, 1, 0), (1, 0, 2, 1, 0)}


def test_what_cannot_be_flipped_has_no_arrays():
    three = network.build_network([2, 2, 2], [((0, 1, 2), np.ones((2, 2, 2)))])
    assert state_permutations.find_state_permutations(restrict_to_possible_states(three)) is None
    assert (
        state_permutations.find_state_permutations(restrict_to_possible_states(network.build_network([1, 1], [((0, 1), np.ones((1, 1)))])))
        is None
    )


def test_arrays_of_other_shapes_are_refused():
    compiled = pytest.importorskip("herdcli.fast._flips", reason="the compiled loops are not built")
    made = state_permutations.find_state_permutations(restrict_to_possible_states(pairs_of_three(0)))
    for count, chains in ((3, 2), (4, 3)):
        with pytest.raises(ValueError, match="arrays of different shapes"):
            compiled.flip_clusters(
                made.ends, made.tables, made.logs, made.first, made.single, made.images[0], 1.0, np.zeros((4, 2), dtype=np.int64),
                np.zeros((5, chains)), np.zeros((count, 2)), np.empty(4, dtype=np.int64), np.empty(4),
            )  # fmt: skip
    fewer = replace(made, tables=made.tables[:4])
    with pytest.raises(ValueError, match="arrays of different shapes"):
        flipped(compiled.flip_clusters, fewer, np.zeros((4, 2), dtype=np.int64), made.images[0], 0)


def test_symmetric_states_are_those_that_a_permutation_of_the_whole_network_exchanges():
    own = np.tile(np.arange(3), 3)
    potts = [((i, j), np.exp(np.eye(3))) for i, j in ((0, 1), (1, 2))]
    made = state_permutations.find_state_permutations(restrict_to_possible_states(network.build_network([3] * 3, potts)))
    assert state_permutations.first_equivalent_states(made, own).tolist() == [0] * 9
    field = state_permutations.find_state_permutations(
        restrict_to_possible_states(network.build_network([3] * 3, [*potts, ((1,), np.array([2.0, 1.0, 2.0]))]))
    )
    assert state_permutations.first_equivalent_states(field, own).tolist() == [0, 1, 0] * 3
    # The same spins as a Boltzmann machine: what pairs say of single units is what biases take back.
    fair = state_permutations.find_state_permutations(
        restrict_to_possible_states(random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=3.0, sigma_b=0.0))
    )
    assert state_permutations.first_equivalent_states(fair, np.tile(np.arange(2), 9)).tolist() == [0] * 18
    biased = state_permutations.find_state_permutations(
        restrict_to_possible_states(random_networks.generate_random_network("grid", rows=3, columns=3, sigma_w=3.0, sigma_b=1e-6))
    )
    assert state_permutations.first_equivalent_states(biased, np.tile(np.arange(2), 9)).tolist() == [0, 1] * 9
