"""Independent draws of harmoniums against enumeration, for every family of units, rows with gaps among them."""

from __future__ import annotations

import copy
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from herdcli import iterate
from herdcli.algorithm import run_algorithm
from herdcli.rbm.likelihood.enumeration import exact_log_partition, iterate_hidden_states, joint_precision
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling import gibbs_samples, independent_sampling
from herdcli.rbm.units import unit_family
from herdcli.rbm.units.words import WordCountUnits

COUNT = 4000
WIDTHS = {"softmax:3": 3, "binary+softmax:2": 4}
FINITE = ("binary", "spin", "rate:2", "softmax:3")
SIX = ("binary", "spin", "rate:2", "gaussian", "poisson", "softmax:3")


def model(visible: str, hidden: str, shape: tuple[int, int] | None = None, scale: float = 0.6) -> Harmonium:
    D, K = shape or (WIDTHS.get(visible, 2), WIDTHS.get(hidden, 2))
    random = np.random.default_rng(7)
    if "poisson" in (visible, hidden) or visible == hidden == "gaussian":
        scale = 0.3
    W = random.normal(0, scale, (D, K))
    W = -np.abs(W) if visible == "poisson" or hidden == "poisson" else W
    return Harmonium(W, random.normal(0, 0.5, D), random.normal(0, 0.5, K), unit_family(visible), unit_family(hidden))


def drawn(problem: gibbs_samples.SamplingProblem) -> list[np.ndarray]:
    parts = independent_sampling.plan_enumerations(problem)
    assert parts is not None
    return run_algorithm(independent_sampling.IndependentSampling(problem, parts)).rows


def agrees(rows: np.ndarray, states: np.ndarray, p: np.ndarray) -> None:
    """Rows (n, D) are at states (S, D) with probabilities p (S,): no share is 5.5 standard errors off, and all of them are there."""
    seen = np.array([np.isclose(rows, state, atol=1e-4).all(axis=1).mean() for state in states])
    assert seen.sum() == pytest.approx(1.0)
    assert (np.abs(seen - p) < 5.5 * np.sqrt(p * (1 - p) / len(rows)) + 1e-9).all()


def all_rows(h: Harmonium) -> np.ndarray:
    """Every row of units of finitely many values."""
    if h.visible.name == "binary+softmax:2":
        return np.array([(*v, *y) for v in itertools.product((0.0, 1.0), repeat=2) for y in ((1.0, 0.0), (0.0, 1.0))])
    support, units = h.visible.support, len(h.b) // h.visible.group
    return np.array([np.concatenate(row) for row in itertools.product(support, repeat=units)])


def of_hidden(h: Harmonium) -> tuple[np.ndarray, np.ndarray]:
    """Every hidden state and its probability."""
    blocks = list(iterate_hidden_states(h))
    log_weight = np.concatenate([block.log_weight for block in blocks])
    weight = np.exp(log_weight - log_weight.max())
    return np.concatenate([block.hidden for block in blocks]), weight / weight.sum()


@pytest.mark.parametrize("visible", [*FINITE, "binary+softmax:2"])
@pytest.mark.parametrize("hidden", SIX)
def test_rows_have_the_models_distribution(visible: str, hidden: str) -> None:
    h = model(visible, hidden)
    problem = gibbs_samples.SamplingProblem((h,), COUNT)
    if independent_sampling.plan_enumerations(problem) is None:  # rows with labels are not weighed, their hidden layer has to be
        assert (visible, hidden) in {("binary+softmax:2", "gaussian"), ("binary+softmax:2", "poisson")}
        return
    v = all_rows(h)
    agrees(drawn(problem)[0], v, np.exp(row_log_likelihood(h, v, exact_log_partition(h))))


@pytest.mark.parametrize("visible", ["gaussian", "poisson"])
@pytest.mark.parametrize("hidden", FINITE)
def test_means_of_real_rows_and_counts_have_the_shares_of_hidden_states(visible: str, hidden: str) -> None:
    h = model(visible, hidden)
    states, p = of_hidden(h)
    agrees(drawn(gibbs_samples.SamplingProblem((h,), COUNT, means=True))[0], h.visible_means(states), p)
    (rows,) = drawn(gibbs_samples.SamplingProblem((h,), COUNT))
    expected = p @ h.visible_means(states)
    np.testing.assert_allclose(rows.mean(axis=0), expected, atol=5.5 * (rows.std(axis=0) / np.sqrt(COUNT)).max())


def test_rows_of_words_have_the_distribution_of_their_length() -> None:
    h = replace(model("gaussian", "binary", (3, 3)), visible=WordCountUnits(4))
    v = np.array([row for row in itertools.product(range(5), repeat=3) if sum(row) == 4], dtype=np.float64)
    agrees(drawn(gibbs_samples.SamplingProblem((h,), COUNT))[0], v, np.exp(row_log_likelihood(h, v, exact_log_partition(h))))


def test_two_gaussian_layers_are_one_gaussian() -> None:
    h = model("gaussian", "gaussian", (3, 2))
    covariance = np.linalg.inv(joint_precision(h))
    mean = covariance @ np.concatenate([h.b, h.c])
    (rows,) = drawn(gibbs_samples.SamplingProblem((h,), 20_000))
    np.testing.assert_allclose(rows.mean(axis=0), mean[:3], atol=0.05)
    np.testing.assert_allclose(np.cov(rows.T), covariance[:3, :3], atol=0.07)
    given = np.tile([1.5, np.nan, np.nan], (20_000, 1)).astype(np.float32)
    (rows,) = drawn(gibbs_samples.SamplingProblem((h,), len(given), given=given))
    S = covariance[:3, :3]
    np.testing.assert_allclose(rows[:, 1:].mean(axis=0), mean[1:3] + S[1:, 0] / S[0, 0] * (1.5 - mean[0]), atol=0.05)
    np.testing.assert_allclose(np.cov(rows[:, 1:].T), S[1:, 1:] - np.outer(S[1:, 0], S[1:, 0]) / S[0, 0], atol=0.07)
    assert (rows[:, 0] == 1.5).all()


@pytest.mark.parametrize("distance", [10.0, 60.0])
def test_clouds_far_apart_have_their_shares(distance: float) -> None:
    # Means 0 and `distance`: A(Wh) = distance²/2 for h = 1, which the bias takes away again and leaves log odds .8/.2.
    c = np.array([np.log(4.0) - distance**2 / 2])
    h = Harmonium(np.array([[distance], [0.0]]), np.zeros(2), c, unit_family("gaussian"), unit_family("binary"))
    (rows,) = drawn(gibbs_samples.SamplingProblem((h,), 10_000))
    far = rows[:, 0] > distance / 2
    assert far.mean() == pytest.approx(0.8, abs=5 * np.sqrt(0.16 / 10_000))
    assert rows[far, 0].mean() == pytest.approx(distance, abs=0.06)
    chains = run_algorithm(gibbs_samples.BlockGibbsSampling(gibbs_samples.SamplingProblem((h,), 100, burn_in=100)))
    assert chains.disagreement is not None
    assert chains.disagreement > 10


@pytest.mark.parametrize(
    ("hidden", "K", "turned"), [("binary", 2, [0, 1]), ("spin", 24, [1, 1, 1]), ("gaussian", 2, [1, 1, 1]), ("softmax:3", 6, [0, 0])]
)
def test_rows_with_gaps_are_drawn_given_what_is_known(hidden: str, K: int, turned: list[int]) -> None:
    h = model("binary", hidden, (4, K), scale=0.9 if K < 20 else 0.3)
    torn = np.array([[1, np.nan, 0, np.nan], [0, np.nan, 1, np.nan], [np.nan, 1, 1, 1], [1, 0, 0, 1]], dtype=np.float32)
    problem = gibbs_samples.SamplingProblem((h,), 4 * COUNT, given=np.repeat(torn, COUNT, axis=0))
    parts = independent_sampling.plan_enumerations(problem)
    assert parts is not None
    assert [part.turned for part in parts] == turned  # two rows share an enumeration of hidden states, or each has its own
    (rows,) = drawn(problem)
    for i, row in enumerate(torn):
        v = all_rows(h)
        v = v[np.isclose(v, row)[:, ~np.isnan(row)].all(axis=1)]
        p = np.exp(-h.free_energy(v) + h.free_energy(v).min())
        agrees(rows[i * COUNT : (i + 1) * COUNT], v, p / p.sum())


def test_groups_of_states_one_after_the_other_resumed_and_on_threads() -> None:
    h = model("binary", "binary", (30, 19), scale=0.5)
    problem = gibbs_samples.SamplingProblem((h,), 300)
    algorithm = independent_sampling.IndependentSampling(problem, independent_sampling.plan_enumerations(problem))
    assert algorithm.steps == 4
    half = iterate.run_steps(algorithm.step, algorithm.init(), steps=2)
    with ThreadPoolExecutor(2) as pool:
        other = independent_sampling.IndependentSampling(problem, algorithm.parts, pool.map)
        resumed = iterate.run_steps(other.step, copy.deepcopy(half), steps=4)
    whole = iterate.run_steps(algorithm.step, algorithm.init(), steps=4)
    np.testing.assert_array_equal(whole.chosen, resumed.chosen)
    np.testing.assert_array_equal(algorithm.result(whole).rows[0], other.result(resumed).rows[0])
    assert whole.totals[0] == pytest.approx(exact_log_partition(h), abs=1e-9)
    # Each of the four groups fixes the last two units: their states have the shares that enumeration gives them.
    groups = np.bincount(whole.chosen >> 17, minlength=4) / 300
    blocks = [block.log_weight for block in iterate_hidden_states(h)]
    weights = np.exp(np.array([np.logaddexp.reduce(block) for block in blocks]) - exact_log_partition(h)).reshape(4, -1).sum(axis=1)
    assert (np.abs(groups - weights) < 5.5 * np.sqrt(weights * (1 - weights) / 300)).all()


def test_too_many_states_are_left_to_chains() -> None:
    assert independent_sampling.plan_enumerations(gibbs_samples.SamplingProblem((model("binary", "binary", (26, 26)),), 10)) is None
    assert independent_sampling.plan_enumerations(gibbs_samples.SamplingProblem((model("gaussian", "binary", (3, 21)),), 10)) is None
    given = np.full((1, 26), np.nan, dtype=np.float32)
    h = model("binary", "binary", (26, 26))
    assert independent_sampling.plan_enumerations(gibbs_samples.SamplingProblem((h,), 1, given=given)) is None
    given[:, 8:] = 1.0
    assert independent_sampling.plan_enumerations(gibbs_samples.SamplingProblem((h,), 1, given=given)) is not None


def test_chains_that_hold_different_entries_are_not_compared() -> None:
    # Given its first column a unit of this model is certain, and chains of different rows differ as they should.
    h = Harmonium(np.array([[20.0], [0.0]]), np.zeros(2), np.array([-10.0]), unit_family("binary"), unit_family("binary"))
    given = np.array([[0, np.nan], [1, np.nan]], dtype=np.float32)
    found = run_algorithm(
        gibbs_samples.BlockGibbsSampling(gibbs_samples.SamplingProblem((h,), 40, burn_in=100, given=np.repeat(given, 20, axis=0)))
    )
    assert found.disagreement == 1.0


def test_chains_that_mix_agree() -> None:
    found = run_algorithm(
        gibbs_samples.BlockGibbsSampling(gibbs_samples.SamplingProblem((model("binary", "binary", (5, 4)),), 30, burn_in=400))
    )
    assert found.disagreement is not None
    assert found.disagreement < 1.05
