"""Rows with their labels as one layer: the family, p(y | v) by enumeration, the discriminative gradient, hybrid learning."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.rbm import classification_rbm
from herdcli.rbm.learning import gradients, minibatch_statistics, parallel_fits
from herdcli.rbm.learning.parallel_fits import LearningProblem, Settings
from herdcli.rbm.likelihood import enumeration
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units import unit_family
from herdcli.rng import Stream, generator

KINDS = [("binary", "binary"), ("spin", "rate:3"), ("gaussian", "binary"), ("poisson", "spin")]


def model(visible: str, hidden: str, change: tuple[str, tuple[int, ...], float] | None = None) -> Harmonium:
    """Three columns and a label of three values."""
    random = np.random.default_rng(0)
    parts = {"W": random.normal(0, 0.5, (6, 3)), "b": random.normal(0, 0.5, 6), "c": random.normal(0, 0.5, 3)}
    if change:
        parts[change[0]][change[1]] += change[2]
    return Harmonium(parts["W"], parts["b"], parts["c"], unit_family(f"{visible}+softmax:3"), unit_family(hidden))


def sweeper(h: Harmonium) -> GibbsSweeper:
    parts = (part.astype(np.float32) for part in (h.W, h.b, h.c))
    return GibbsSweeper(*parts, h.visible.layer(), h.hidden.layer(), generator(1, Stream.GIBBS))


def rows_of(visible: str, n: int = 9) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return unit_family(visible).layer().sample_unbiased_states((n, 3), random), random.integers(0, 3, n)


@pytest.mark.parametrize(("visible", "hidden"), KINDS)
def test_labels_are_as_probable_as_joint_free_energies_say(visible, hidden):
    h, (v, _) = model(visible, hidden), rows_of(visible)
    joint = np.stack([-h.free_energy(classification_rbm.append_one_hot_labels(v, np.full(len(v), s), 3)) for s in range(3)], axis=1)
    expected = joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)
    np.testing.assert_allclose(classification_rbm.label_log_posterior(h, v), expected, atol=1e-6)
    means = np.stack([h.hidden_means(classification_rbm.append_one_hot_labels(v, np.full(len(v), s), 3)) for s in range(3)], axis=1)
    np.testing.assert_allclose(
        classification_rbm.label_marginalised_features(h, v), (np.exp(expected)[:, :, None] * means).sum(axis=1), atol=1e-6
    )


@pytest.mark.parametrize(("visible", "hidden"), KINDS)
def test_the_discriminative_gradient_is_the_slope_of_the_mean_log_posterior(visible, hidden):
    h, (v, y) = model(visible, hidden), rows_of(visible)
    joined = classification_rbm.append_one_hot_labels(v, y, 3).astype(np.float32)
    found, step = classification_rbm.discriminative_gradient(sweeper(h), h.visible, h.hidden, joined), 1e-5
    for name in ("W", "b", "c"):
        slope = getattr(found, name)
        for index in np.ndindex(slope.shape):
            above, below = (
                classification_rbm.label_log_posterior(model(visible, hidden, (name, index, sign * step)), v)[np.arange(len(y)), y].mean()
                for sign in (1, -1)
            )
            assert slope[index] == pytest.approx((above - below) / (2 * step), rel=1e-3, abs=2e-5)


@pytest.mark.parametrize(("visible", "hidden"), [("binary", "binary"), ("gaussian", "binary"), ("spin", "rate:3")])
def test_the_generative_gradient_is_the_slope_of_the_mean_joint_log_likelihood(visible, hidden):
    h, (v, y) = model(visible, hidden), rows_of(visible)
    joined = classification_rbm.append_one_hot_labels(v, y, 3).astype(np.float32)
    found, step = gradients.exact_likelihood_gradient(sweeper(h), h.visible, h.hidden, joined), 1e-4
    for name, index in (("W", (1, 2)), ("W", (4, 0)), ("b", (0,)), ("b", (5,)), ("c", (1,))):
        above, below = (
            row_log_likelihood(g, joined, enumeration.exact_log_partition(g)).mean()
            for g in (model(visible, hidden, (name, index, sign * step)) for sign in (1, -1))
        )
        assert getattr(found, name)[index] == pytest.approx((above - below) / (2 * step), rel=1e-3, abs=2e-5)


def test_log_z_and_samples_are_those_of_all_states():
    h = model("binary", "binary")
    states = np.array([(*v, *s) for v in itertools.product((0, 1), repeat=3) for s in np.eye(3)])
    assert enumeration.exact_log_partition(h) == pytest.approx(np.logaddexp.reduce(-h.free_energy(states)))
    p = np.exp(-h.free_energy(states) - enumeration.exact_log_partition(h))
    n, one = 20_000, sweeper(h)
    hidden, v = np.zeros((n, 3), dtype=np.float32), np.empty((n, 6), dtype=np.float32)
    for _ in range(30):
        one.update_visible(hidden, np.empty_like(v), v)
        one.update_hidden(v, np.empty_like(hidden), hidden)
    assert (v[:, 3:].sum(axis=1) == 1).all()
    np.testing.assert_allclose(v.mean(axis=0), p @ states, atol=5 * 0.5 / np.sqrt(n))


def test_hybrid_statistics_are_a_sum_of_both():
    random = np.random.default_rng(3)
    X, y = (random.random((40, 5)) < 0.5).astype(np.int8), random.integers(0, 2, 40)
    joined, found = classification_rbm.append_one_hot_labels(X, y, 2), {}
    for joint in ("generative", "discriminative", "hybrid"):
        settings = Settings(4, visible_units="binary+softmax:2", joint=joint, generative_share=0.3, initial_scale=0.4, batch_size=40)
        problem = LearningProblem([joined], settings)
        state = parallel_fits.RBMLearning(problem).init()
        made = minibatch_statistics.batch_statistics(problem, state, 0, np.arange(40), 0, reconstruct=True)
        found[joint] = [made.pair_statistics(slice(None)).copy(), made.b, made.c]
    for one, other, both in zip(found["generative"], found["discriminative"], found["hybrid"], strict=True):
        np.testing.assert_allclose(both, 0.3 * one + other, atol=1e-6)


@pytest.mark.parametrize("joint", ["generative", "discriminative", "hybrid"])
def test_labels_are_learned(joint):
    random = np.random.default_rng(5)
    y = random.integers(0, 3, 300)
    X = ((random.random((3, 8)) < 0.5)[y] ^ (random.random((300, 8)) < 0.05)).astype(np.int8)
    settings = Settings(6, visible_units="binary+softmax:3", joint=joint, epochs=15, centering=True, generative_share=0.1)
    problem = LearningProblem([classification_rbm.append_one_hot_labels(X, y, 3)], settings)
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    h = Harmonium(*(np.asarray(part[0], dtype=np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)
    assert (classification_rbm.label_log_posterior(h, X).argmax(axis=1) == y).mean() > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"joint": "hybrid"}, "a model of rows and labels needs visible units that include the label"),
        ({"visible_units": "binary+softmax:3"}, "a model of rows and labels needs visible units that include the label"),
        (
            {"visible_units": "binary+softmax:3", "joint": "generative", "algorithm": "tap"},
            "--labels and --algorithm tap exclude each other",
        ),
        (
            {"visible_units": "binary+softmax:3", "joint": "hybrid", "optimizer": "natural"},
            "--optimizer natural needs sampled states, but --labels hybrid samples none",
        ),
        ({"visible_units": "rate:3+softmax:3", "joint": "hybrid"}, "unknown units 'rate:3+softmax:3'"),
        ({"learn_variances": True}, "--learn-variances needs gaussian visible units, but these are binary"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message):
    with pytest.raises(BadUsage) as caught:
        Settings(4, **options)
    assert caught.value.message.startswith(message)


def test_rows_without_a_label_are_refused():
    with pytest.raises(DataError, match="columns 0 to 2 of row 1 sum to 0"):
        unit_family("binary+softmax:3").require_valid_block(np.array([[1, 0, 1, 0], [1, 0, 0, 0]], dtype=np.int8))
