"""Deep belief networks: the bound against enumeration, where it starts, and layers learned one on the other."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.rbm.layers import DBN
from herdcli.rbm.learning import layerwise_learning
from herdcli.rbm.learning.layerwise_learning import StackingProblem, StackingState
from herdcli.rbm.likelihood import enumeration, row_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.settings import Settings
from herdcli.rbm.units import unit_family


def model(visible: str, hidden: str, shape: tuple[int, int], seed: int = 0) -> Harmonium:
    random = np.random.default_rng(seed)
    D, K = shape
    return Harmonium(
        random.normal(0, 0.8, shape), random.normal(0, 0.5, D), random.normal(0, 0.5, K), unit_family(visible), unit_family(hidden)
    )


def states(name: str, count: int) -> np.ndarray:
    values = range(unit_family(name).scale + 1) if name.startswith("rate") else unit_family(name).states
    return np.array(list(itertools.product(values, repeat=count)), dtype=np.float64)


def conditional(h: Harmonium, v: np.ndarray, z: np.ndarray) -> np.ndarray:
    """log p(h | v) of every hidden state z (S, K) for rows v (n, D): (n, S)."""
    return (v @ h.W + h.c) @ z.T + h.hidden.log_base_measure(z) - h.hidden.log_partition(v @ h.W + h.c).sum(axis=1)[:, None]


@pytest.mark.parametrize("hidden", ["binary", "spin", "rate:2"])
def test_the_bound_is_its_expectation_and_lies_below_the_likelihood(hidden: str) -> None:
    """log p(v) = log Σ_h p(v | h) p_top(h);  the bound is Σ_h q(h | v) (log p(v | h) + log p_top(h) − log q(h | v))."""
    first, top = model("binary", hidden, (4, 3)), model(hidden, "binary", (3, 2), seed=1)
    v, z = states("binary", 4), states(hidden, 3)
    log_z = enumeration.exact_log_partition(top)
    prior = -top.free_energy(z) - log_z
    down = conditional(first.transpose(), z, v).T  # log p(v | h)
    q = conditional(first, v, z)
    truth = np.logaddexp.reduce(down + prior, axis=1)
    expected = (np.exp(q) * (down + prior - q)).sum(axis=1)
    drawn = layerwise_learning.sample_likelihood_bounds([first, top], v, log_z, samples=4000)
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - expected) < 5 * error + 1e-9).all()
    assert (expected < truth).all()
    assert (truth - expected).max() > 0.01


@pytest.mark.parametrize("size", [4, 7])
@pytest.mark.parametrize(("visible", "hidden"), [("binary", "binary"), ("binary", "spin"), ("rate:2", "binary")])
def test_the_bound_begins_at_the_likelihood_of_the_layer_below(visible: str, hidden: str, size: int) -> None:
    first = model(visible, hidden, (4, 3))
    start = layerwise_learning.transposed_initial_weights(first, Settings(size, visible_units=hidden, hidden_units=visible))
    assert start is not None
    top = Harmonium(*start, first.hidden, first.visible)
    v = states(visible, 4)
    below = row_likelihood.row_log_likelihood(first, v, enumeration.exact_log_partition(first))
    found = layerwise_learning.sample_likelihood_bounds([first, top], v, enumeration.exact_log_partition(top), samples=3)
    np.testing.assert_allclose(found, np.tile(below, (3, 1)), atol=1e-9)
    drawn = [
        layerwise_learning.sample_likelihood_bounds([first, model(hidden, visible, (3, 2))], v, 0.0, samples=2, **seed)
        for seed in ({}, {"seed": 0}, {"seed": 1})
    ]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()
    assert layerwise_learning.sample_likelihood_bounds([first, top], v, 0.0).shape == (20, len(v))
    if size > 4:
        assert len(np.unique(start[2][4:])) == size - 4  # units without weights, told apart by their biases


def test_other_shapes_begin_at_random() -> None:
    first = model("binary", "spin", (4, 3))
    assert layerwise_learning.transposed_initial_weights(first, Settings(3, visible_units="spin", hidden_units="binary")) is None
    assert layerwise_learning.transposed_initial_weights(first, Settings(4, visible_units="spin", hidden_units="spin")) is None


ROWS = (np.random.default_rng(0).random((60, 6)) < 0.4).astype(np.int8)
SETTINGS = Settings(0 + 1, epochs=3, batch_size=20, hidden_units="rate:3")


def fit(problem: StackingProblem, state: StackingState | None = None, until: int | None = None) -> StackingState:
    state = layerwise_learning.LayerwiseLearning(problem).init() if state is None else state
    while state.step < (layerwise_learning.LayerwiseLearning(problem).steps if until is None else until):
        state = layerwise_learning.LayerwiseLearning(problem).step(state)
    return state


def test_layers_are_those_learned_alone_from_the_states_below() -> None:
    problem = StackingProblem(ROWS, (5, 4), SETTINGS)
    layers = run_algorithm(layerwise_learning.LayerwiseLearning(problem))
    assert [part.W.shape for part in layers] == [(1, 6, 5), (1, 5, 4)]
    assert [(part.visible_units, part.hidden_units) for part in layers] == [("binary", "rate:3"), ("rate:3", "rate:3")]
    DBN(layers).validate()
    first = layers[0].harmonium()
    alone = StackingProblem(ROWS, (4,), SETTINGS, below=(first,))
    np.testing.assert_array_equal(run_algorithm(layerwise_learning.LayerwiseLearning(alone))[0].W, layers[1].W)
    above = layerwise_learning.sample_top_hidden_states([first], ROWS, 0)
    unit_family("rate:3").require_valid_block(above)
    np.testing.assert_allclose(layerwise_learning.sample_next_layer_rows([first], ROWS, 0), above / 3)
    np.testing.assert_allclose(layerwise_learning.top_hidden_means([first], ROWS), first.hidden_means(ROWS.astype(float)) / 3, rtol=1e-6)
    big = np.tile(ROWS[:1], (40_000, 1))
    np.testing.assert_allclose(
        layerwise_learning.sample_top_hidden_states([first], big, 0).mean(axis=0), first.hidden_means(ROWS[:1])[0], atol=0.03
    )


@pytest.mark.parametrize("cut", [1, 8, 9, 10, 14])
def test_a_stack_resumes_where_it_stood(cut: int) -> None:
    whole = fit(StackingProblem(ROWS, (5, 4), SETTINGS))
    saved = copy.deepcopy(fit(StackingProblem(ROWS, (5, 4), SETTINGS), until=cut))
    resumed = fit(StackingProblem(ROWS, (5, 4), SETTINGS), saved)
    assert resumed.step == whole.step == 18
    np.testing.assert_array_equal(resumed.current.W, whole.current.W)
    np.testing.assert_array_equal(resumed.finished[0].trace, whole.finished[0].trace)


def test_features_are_means_of_means() -> None:
    first, second = model("binary", "rate:2", (6, 4)), model("rate:2", "binary", (4, 3), seed=1)
    expected = second.hidden_means(first.hidden_means(ROWS.astype(np.float64)))
    np.testing.assert_allclose(layerwise_learning.top_hidden_means([first, second], ROWS), expected, atol=1e-6)
    np.testing.assert_allclose(layerwise_learning.top_hidden_means([first], ROWS), first.hidden_means(ROWS) / 2, atol=1e-6)


def test_layers_that_do_not_fit_are_refused() -> None:
    first, other = (run_algorithm(layerwise_learning.LayerwiseLearning(StackingProblem(ROWS, (hidden,), SETTINGS)))[0] for hidden in (5, 4))
    with pytest.raises(DataError) as caught:
        DBN([first, other]).validate()
    assert caught.value.message == "/layers/1 has 6 binary visible units, but the layer below has 5 rate:3 hidden units"
    with pytest.raises(DataError, match="/layers is empty"):
        DBN([]).validate()
