"""Likelihoods of harmoniums against sums over every state, and annealing against enumeration."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import numpy as np
import pytest

from herdcli import fast, iterate
from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.rbm.likelihood import annealed_importance, enumeration, row_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family

DIGITS = files("herdcli.data") / "digits.h5"
FAMILIES = ("binary", "spin")
MIXES = list(itertools.product(FAMILIES, FAMILIES))


def model(visible: str, hidden: str, shape: tuple[int, int], *, scale: float = 1.0, seed: int = 0) -> Harmonium:
    random = np.random.default_rng(seed)
    D, K = shape
    W, b, c = random.normal(0, scale, (D, K)), random.normal(0, 1, D), random.normal(0, 1, K)
    return Harmonium(W, b, c, unit_family(visible), unit_family(hidden))


def states(name: str, count: int) -> np.ndarray:
    return np.array(list(itertools.product(unit_family(name).states, repeat=count)), dtype=np.float64)


def joint(h: Harmonium) -> tuple[np.ndarray, np.ndarray]:
    """All visible states (2^D, D), and −E of each with each hidden state (2^D, 2^K), from the definition of the energy."""
    v, z = states(h.visible.name, len(h.b)), states(h.hidden.name, len(h.c))
    return v, np.array([[row @ h.b + unit @ h.c + row @ h.W @ unit for unit in z] for row in v])


def run(problem: annealed_importance.AnnealingProblem, **options) -> annealed_importance.AnnealingState:
    algorithm = annealed_importance.AnnealedImportanceSampling(problem, **options)
    return iterate.run_steps(algorithm.step, algorithm.init(), until=algorithm.done)


@pytest.mark.parametrize(("visible", "hidden"), MIXES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 6), (1, 1)])
def test_exact_likelihood_is_the_sum_over_all_states(visible, hidden, shape):
    h = model(visible, hidden, shape)
    v, negative_energy = joint(h)
    log_z = np.logaddexp.reduce(negative_energy.ravel())
    assert enumeration.exact_log_partition(h) == pytest.approx(log_z, abs=1e-12)
    found = row_likelihood.row_log_likelihood(h, v, log_z)
    np.testing.assert_allclose(found, np.logaddexp.reduce(negative_energy, axis=1) - log_z, atol=1e-12)
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("visible", "hidden"), MIXES)
def test_exact_partition_over_many_blocks_and_threads(visible, hidden, monkeypatch):
    h = model(visible, hidden, (9, 7))
    whole = enumeration.exact_log_partition(h)
    monkeypatch.setattr(enumeration, "BLOCK", 40)  # blocks of 4 states
    with ThreadPoolExecutor(2) as pool:
        threaded = enumeration.exact_log_partition(h, map=pool.map)
    assert threaded == enumeration.exact_log_partition(h)
    assert threaded == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("visible", ["binary", "spin", "rate:3"])
@pytest.mark.parametrize("hidden", ["binary", "spin", "softmax:3"])
def test_products_of_exponentials_are_sums_of_logarithms(visible, hidden, monkeypatch):
    """The two ways to enumerate, where a block's product would leave float64 several times over."""
    h = model(visible, hidden, (300, 9), scale=5.0)
    monkeypatch.setattr(enumeration, "NEAR", 40)  # several blocks
    products = enumeration.HiddenStateSums.from_model(h)
    assert products is not None
    one_by_one = np.logaddexp.reduce([enumeration._log_sum_exp(block.log_weight) for block in enumeration.iterate_hidden_states(h)])
    assert one_by_one > 750  # e^750 is no float64
    assert enumeration.exact_log_partition(h) == pytest.approx(one_by_one, rel=1e-14)


def test_weights_too_large_for_products_are_summed_by_logarithms():
    h = model("binary", "binary", (4, 3), scale=500.0)
    assert enumeration.HiddenStateSums.from_model(h) is None
    assert enumeration.exact_log_partition(h) == pytest.approx(np.logaddexp.reduce(joint(h)[1].ravel()), rel=1e-14)


def test_products_of_units_with_several_states_reach_as_far_as_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count of up to 4 that is in the far part moves a natural parameter by 4 W; of 600 that a float64 holds, half is left to it."""
    monkeypatch.setattr(enumeration, "NEAR", 5)
    for weight, bias, there in ((70.0, 15.0, True), (70.0, 25.0, False), (80.0, 0.0, False)):
        h = Harmonium(np.array([[0.0, weight]]), np.array([bias]), np.zeros(2), unit_family("binary"), unit_family("rate:4"))
        assert (enumeration.HiddenStateSums.from_model(h) is not None) == there


def test_layers_of_25_units_are_enumerated():
    """The larger side may be of any size; 26 units, 21 below units without products, or 38 beside gaussian ones are not."""
    assert enumeration.is_enumerable(model("binary", "spin", (25, 60)))
    assert not enumeration.is_enumerable(model("binary", "spin", (26, 60)))
    assert enumeration.is_enumerable(model("gaussian", "binary", (3, 37)))
    assert not enumeration.is_enumerable(model("gaussian", "binary", (30, 38)))
    assert enumeration.is_enumerable(model("poisson", "binary", (3, 20)))
    assert not enumeration.is_enumerable(model("poisson", "binary", (30, 21)))


def test_layer_sum_survives_extreme_parameters():
    """With one hidden unit, log Z = Σ_j A(b_j) + … is known even where e^{b} overflows."""
    h = Harmonium(np.zeros((2, 1)), np.array([5000.0, -5000.0]), np.zeros(1), unit_family("binary"), unit_family("binary"))
    assert enumeration.exact_log_partition(h) == pytest.approx(5000.0 + np.log(2.0))
    spins = Harmonium(np.zeros((2, 1)), np.array([5000.0, -5000.0]), np.zeros(1), unit_family("spin"), unit_family("spin"))
    assert enumeration.exact_log_partition(spins) == pytest.approx(10000.0 + np.log(2.0))


def test_large_models_are_not_enumerated():
    h = model("binary", "binary", (26, 27))
    assert not enumeration.is_enumerable(h)
    with pytest.raises(BadUsage, match="at most 25 units, but this model has 26 visible and 27 hidden ones"):
        enumeration.exact_log_partition(h)


def test_free_energy_and_likelihood_agree():
    h = model("spin", "binary", (6, 4))
    v = states("spin", 6)
    np.testing.assert_allclose(row_likelihood.row_log_likelihood(h, v, 0.0), -h.free_energy(v), atol=1e-12)


@pytest.mark.parametrize(("visible", "hidden"), MIXES)
def test_pseudo_likelihood_is_the_product_of_exact_conditionals(visible, hidden):
    h = model(visible, hidden, (5, 4))
    v, negative_energy = joint(h)
    log_p = np.logaddexp.reduce(negative_energy, axis=1)
    index = {tuple(row): i for i, row in enumerate(v)}
    expected = np.zeros(len(v))
    for i, row in enumerate(v):
        for j in range(len(row)):
            flipped = row.copy()
            flipped[j] = sum(h.visible.states) - row[j]
            expected[i] += log_p[i] - np.logaddexp(log_p[i], log_p[index[tuple(flipped)]])
    np.testing.assert_allclose(row_likelihood.log_pseudo_likelihood(h, v), expected, atol=1e-12)


def test_pseudo_likelihood_of_independent_units_is_the_likelihood():
    h = model("binary", "binary", (8, 3), scale=0.0)
    v = states("binary", 8)
    expected = row_likelihood.row_log_likelihood(h, v, enumeration.exact_log_partition(h))
    np.testing.assert_allclose(row_likelihood.log_pseudo_likelihood(h, v), expected, atol=1e-12)


@pytest.mark.parametrize("visible", FAMILIES)
def test_reconstruction_error_by_hand(visible):
    h = model(visible, "binary", (4, 3))
    v = states(visible, 4)
    off, on = unit_family(visible).states
    hidden = 1 / (1 + np.exp(-(v @ h.W + h.c)))
    probability = 1 / (1 + np.exp(-(on - off) * (hidden @ h.W.T + h.b)))
    expected = np.mean(((v - off) / (on - off) - probability) ** 2, axis=1)
    np.testing.assert_allclose(row_likelihood.reconstruction_error(h, v), expected, atol=1e-12)


@pytest.mark.parametrize("figure", [row_likelihood.log_pseudo_likelihood, row_likelihood.reconstruction_error])
def test_row_figures_do_not_depend_on_blocks_or_threads(figure, monkeypatch):
    h = model("binary", "spin", (6, 5))
    v = states("binary", 6).astype(np.uint8)
    whole = figure(h, v)
    monkeypatch.setattr(row_likelihood, "BLOCK", 100)
    with ThreadPoolExecutor(2) as pool:
        np.testing.assert_allclose(figure(h, v, map=pool.map), whole, rtol=1e-13)
    assert figure(h, v[:0]).shape == (0,)


@pytest.mark.parametrize(("visible", "hidden"), MIXES)
def test_annealing_agrees_with_enumeration(visible, hidden):
    h = model(visible, hidden, (12, 10), scale=0.7)
    exact = enumeration.exact_log_partition(h)
    base = h.visible.base_rate_parameters(states(visible, 12)[::37])
    errors = []
    for seed in range(8):
        problem = annealed_importance.AnnealingProblem((h,), (base,), chains=100, temperatures=300, seed=seed)
        (found,) = run_algorithm(annealed_importance.AnnealedImportanceSampling(problem))
        assert 0 < found.standard_error < 0.1
        errors.append((found.log_partition - exact) / found.standard_error)
    assert np.max(np.abs(errors)) < 4
    assert abs(np.mean(errors)) < 3 / np.sqrt(len(errors))  # the mean of 8 has a third of the spread
    assert 0.3 < np.std(errors) < 2.5  # and the stated error is the actual one


def test_annealing_is_unbiased_even_from_a_bad_start_with_few_temperatures():
    h = model("binary", "binary", (5, 4))
    problem = annealed_importance.AnnealingProblem((h,), (np.full(5, 0.5),), chains=50_000, temperatures=3)
    (found,) = run_algorithm(annealed_importance.AnnealedImportanceSampling(problem))
    assert found.standard_error > 0.003
    assert found.log_partition == pytest.approx(enumeration.exact_log_partition(h), abs=3 * found.standard_error)


def test_annealing_of_independent_units_from_their_own_biases_is_exact():
    h = model("spin", "binary", (7, 5), scale=0.0)
    h = Harmonium(h.W, h.b, np.zeros(5), h.visible, h.hidden)
    problem = annealed_importance.AnnealingProblem((h,), (h.b,), chains=3, temperatures=10)
    (found,) = run_algorithm(annealed_importance.AnnealedImportanceSampling(problem))
    assert found.log_partition == pytest.approx(enumeration.exact_log_partition(h), abs=1e-12)
    assert found.standard_error == pytest.approx(0.0, abs=1e-12)


def test_annealed_models_do_not_depend_on_company_beyond_their_index_or_on_threads():
    models = tuple(model("binary", "binary", (6, 30), scale=0.3, seed=seed) for seed in range(3))
    problem = annealed_importance.AnnealingProblem(models, (np.zeros(6),) * 3, chains=5, temperatures=25, seed=3)
    assert annealed_importance.AnnealedImportanceSampling(problem).steps == 3
    alone = annealed_importance.AnnealingProblem(models[:1], problem.bases[:1], chains=5, temperatures=25, seed=3)
    with ThreadPoolExecutor(2) as pool:
        together = run(problem, map=pool.map)
    np.testing.assert_array_equal(together.log_weights[0], run(alone).log_weights[0])
    np.testing.assert_array_equal(together.log_weights, run(problem).log_weights)


def test_annealing_resumes_where_it_stood():
    problem = annealed_importance.AnnealingProblem((model("spin", "spin", (6, 5)),), (np.zeros(6),), chains=4, temperatures=40)
    algorithm = annealed_importance.AnnealedImportanceSampling(problem)
    half = iterate.run_steps(algorithm.step, algorithm.init(), steps=2)
    resumed = annealed_importance.AnnealingState(half.values.copy(), half.log_weights.copy(), half.step)
    final = iterate.run_steps(algorithm.step, resumed, until=algorithm.done)
    whole = run(problem)
    np.testing.assert_array_equal(final.log_weights, whole.log_weights)
    np.testing.assert_array_equal(final.values, whole.values)


@pytest.mark.parametrize("name", FAMILIES)
def test_base_rate_has_the_means_of_the_rows(name):
    units = unit_family(name)
    off, on = units.states
    rows = np.array([[off, on, on], [off, off, on]])
    biases = units.base_rate_parameters(rows)
    np.testing.assert_allclose(1 / (1 + np.exp(-(on - off) * biases)), [1 / 4, 2 / 4, 3 / 4])  # one row in either state added


@pytest.mark.parametrize(("option", "value"), [("chains", 1), ("temperatures", 0)])
def test_annealing_refuses_what_gives_no_estimate(option, value):
    h = model("binary", "binary", (3, 3))
    with pytest.raises(BadUsage, match="needs at least"):
        annealed_importance.AnnealedImportanceSampling(annealed_importance.AnnealingProblem((h,), (h.b,), **{option: value})).init()


def test_digits_with_16_hidden_units_reach_their_likelihood_and_annealing_finds_it():
    """Bars: exact test log-likelihood of at least −18.7 nats (CD-1 with momentum), annealing within 0.1 nats of it."""
    from herdcli.artifacts import load
    from herdcli.rbm.learning import parallel_fits

    digits = load(str(DIGITS)).value
    on = (digits.X >= 0.4 * 16).astype(np.uint8)
    train, valid, test = (on[digits.split == part] for part in range(3))
    problem = parallel_fits.LearningProblem([train], parallel_fits.Settings(hidden=16, epochs=100))
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    W, b, c = (part[0].astype(np.float64) for part in (state.W, state.b, state.c))
    h = Harmonium(W, b, c, unit_family("binary"), unit_family("binary"))
    exact = enumeration.exact_log_partition(h)
    assert row_likelihood.row_log_likelihood(h, test, exact).mean() >= -18.7
    annealed = annealed_importance.AnnealingProblem((h,), (h.visible.base_rate_parameters(valid),))
    (found,) = run_algorithm(annealed_importance.AnnealedImportanceSampling(annealed))
    assert found.log_partition == pytest.approx(exact, abs=0.1)
    assert found.standard_error < 0.1


@pytest.mark.skipif(fast.loops_in_use() == "python", reason="the compiled loops are not in use")
def test_annealing_gives_the_same_bits_on_both_kernels():
    problem = annealed_importance.AnnealingProblem(
        (model("binary", "spin", (17, 23)),), (np.linspace(-2, 2, 17),), chains=7, temperatures=50
    )
    compiled = run(problem)
    try:
        fast.use_loops("python")
        plain = run(problem)
    finally:
        fast.use_loops("cython")
    np.testing.assert_array_equal(plain.values, compiled.values)
    np.testing.assert_array_equal(plain.log_weights, compiled.log_weights)


@pytest.mark.parametrize("known", [None, (np.zeros((1, 3)),)])
def test_estimates_are_the_logarithms_of_mean_weights(known):
    h, a, w = model("binary", "binary", (3, 2)), np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, 6.0])
    problem = annealed_importance.AnnealingProblem((h,), (a,), chains=3, temperatures=7, known=known)
    (found,) = annealed_importance._log_z_estimates(problem, annealed_importance.AnnealingState(np.zeros((1, 3, 3)), np.log(w)[None] + 5.0))
    start = np.log1p(np.exp(a)).sum() + 2 * np.log(2)
    assert found.log_partition == pytest.approx(start + (np.log(3.0) + 5.0) * (-1 if known else 1), rel=1e-13)
    assert found.standard_error == pytest.approx(np.sqrt(7.0) / 3.0 / np.sqrt(3.0), rel=1e-13)  # deviation of the weights √7, mean 3
    assert (found.effective, found.temperatures) == (pytest.approx(81 / 41), 7)
