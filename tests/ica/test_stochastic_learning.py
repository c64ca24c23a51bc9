"""Minibatch learning: gradients of InfoMax, EQUIL and contrastive divergence, what resuming and threads leave alone, what fails how."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest

from herdcli.errors import BadUsage, Diverged
from herdcli.ica import energy_gradients, maximum_likelihood, stochastic_learning, whitening
from herdcli.ica.energy import LinearExperts, take_leapfrog_steps
from herdcli.ica.experts import EXPERTS
from herdcli.ica.filters.amari_distance import amari_distance
from herdcli.ica.stochastic_learning import ChainsCollapsed, LearningProblem, LearningSettings
from herdcli.rng import Stream, generator


def mixed(n=4000, D=4, seed=0, sources="laplace"):
    """Whitened mixtures Z (n, D) of D sources of a density, and forward @ mixing."""
    random = np.random.default_rng(seed)
    A = random.standard_normal((D, D))
    X = EXPERTS[sources].sample(random, n, np.ones(D)) @ A.T
    fitted = whitening.fit_whitening(X, method="zca")
    return fitted.apply(X), fitted.forward @ A


def run(problem, until=None, **options):
    state = stochastic_learning.StochasticGradient(problem).init()
    while state.step < (until or problem.settings.updates):
        state = stochastic_learning.StochasticGradient(problem, **options).step(state)
    return state


def log_likelihood(J, Z, expert):
    return np.linalg.slogdet(J)[1] - (expert.energy(Z @ J.T) + expert.log_z(np.ones(len(J)))).sum(axis=1).mean()


@pytest.mark.parametrize("density", ["logistic", "student", "laplace-smooth"])
def test_exact_gradient_is_that_of_the_likelihood(density):
    Z, _ = mixed(60, 3)
    settings = LearningSettings(algorithm="infomax", density=density, natural=False, rates=((1.0, 1),), momentum=0.0, batch_size=60)
    problem = LearningProblem(Z, settings)
    before = stochastic_learning.StochasticGradient(problem).init().J
    moved = run(problem).J - before
    expert, numeric = EXPERTS[density], np.empty((3, 3))
    for index in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[index] = 1e-6
        numeric[index] = (log_likelihood(before + step, Z, expert) - log_likelihood(before - step, Z, expert)) / 2e-6
    np.testing.assert_allclose(moved, numeric, rtol=1e-5, atol=1e-7)
    natural = LearningProblem(Z, LearningSettings(algorithm="infomax", density=density, rates=((1.0, 1),), momentum=0.0, batch_size=60))
    np.testing.assert_allclose(run(natural).J - before, moved @ before.T @ before, rtol=1e-9)


def test_overcomplete_infomax_climbs_its_entropy():
    Z, _ = mixed(2000, 3)
    problem = LearningProblem(Z, LearningSettings(algorithm="infomax", filters=6, natural=False, rates=((0.05, 100),), batch_size=50))
    state = run(problem)
    known = state.objective[~np.isnan(state.objective)]
    assert stochastic_learning.objective_name(problem) == "entropy"
    assert known[-20:].mean() > known[:5].mean() + 0.3


def test_equil_is_the_exact_gradient_in_the_mean():
    random = np.random.default_rng(1)
    J = random.standard_normal((3, 3))
    energy = LinearExperts(J, np.ones(3), EXPERTS["logistic"])
    n = 200_000
    samples = energy_gradients.sample_square_model(energy, random, n)
    slopes = energy.slope(samples)[1]
    mean = slopes.T @ samples / n
    error = np.sqrt(((slopes**2).T @ samples**2 / n - mean**2) / n)
    assert (np.abs(mean - np.linalg.inv(J).T) < 4 * error).all()


@pytest.mark.parametrize(("algorithm", "expert"), [("ebm", "logistic"), ("ebm", "laplace-smooth"), ("equil", "logistic")])
def test_square_models_end_where_infomax_ends(algorithm, expert):
    Z, product = mixed(4000, 3, sources=expert)
    kind = np.float32 if algorithm == "ebm" else np.float64
    rates = ((0.02, 300), (0.005, 400), (0.002, 500))
    settings = LearningSettings(
        algorithm=algorithm, expert=expert, rates=rates, average=500, initial_scale=0.5, leapfrog=10, step_size=0.3, step_gain=0.02
    )
    J, _ = stochastic_learning.final_filters(
        LearningProblem(Z.astype(kind), settings, product), run(LearningProblem(Z.astype(kind), settings, product))
    )
    exact = maximum_likelihood.MaximumLikelihoodProblem(Z, expert)
    best = maximum_likelihood.MaximumLikelihood(exact).init()
    while not best.done:
        best = maximum_likelihood.MaximumLikelihood(exact).step(best)
    assert amari_distance(J @ np.linalg.inv(best.J)) < 0.5
    assert log_likelihood(J, Z, EXPERTS[expert]) == pytest.approx(-best.loss, abs=5e-3)


def test_square_infomax_as_an_energy_ends_there_too():
    """Eq. 4.27: the energy of the manifold, by contrastive divergence."""
    Z, product = mixed(2000, 2)
    rates = ((0.1, 60), (0.02, 60))
    settings = LearningSettings(
        algorithm="ebm", expert="infomax", rates=rates, average=40, initial_scale=0.5, leapfrog=4, step_size=0.5, batch_size=64
    )
    problem = LearningProblem(Z.astype(np.float32), settings, product)
    J, _ = stochastic_learning.final_filters(problem, run(problem))
    assert amari_distance(J @ product) < 0.6


def test_natural_gradients_do_not_depend_on_the_mixing():
    """J of rows Z A', started at J A⁻¹, goes through J A⁻¹ for ever."""
    Z, _ = mixed(500, 3)
    A = np.random.default_rng(2).standard_normal((3, 3))
    settings = LearningSettings(algorithm="infomax", rates=((0.02, 100),))
    one, other = LearningProblem(Z, settings), LearningProblem(Z @ A.T, settings)
    states = [stochastic_learning.StochasticGradient(one).init(), stochastic_learning.StochasticGradient(other).init()]
    states[1].J = states[0].J @ np.linalg.inv(A)
    for _ in range(100):
        states = [stochastic_learning.StochasticGradient(problem).step(state) for problem, state in zip((one, other), states, strict=True)]
    np.testing.assert_allclose(states[1].J @ A, states[0].J, rtol=1e-6, atol=1e-8)


def test_contrastive_divergence_vanishes_at_the_model():
    """Rows drawn from the model itself: the mean update is 0 within its standard error."""
    random = np.random.default_rng(3)
    J = random.standard_normal((3, 3)).astype(np.float32)
    Z = np.linalg.solve(J, random.logistic(size=(3, 20_000))).T.astype(np.float32)
    settings = LearningSettings(
        algorithm="ebm", expert="logistic", rates=((0.1, 40),), batch_size=500, momentum=0.0, step_size=0.3, leapfrog=8
    )
    problem = LearningProblem(Z, settings)

    def errors(start):
        updates = []
        for step in range(40):
            state = stochastic_learning.StochasticGradient(problem).init()
            state.J, state.step = start.copy(), step
            updates.append(stochastic_learning.StochasticGradient(problem).step(state).J_velocity.astype(np.float64))
        return np.abs(np.mean(updates, axis=0)) / (np.std(updates, axis=0) / np.sqrt(40))

    assert (errors(J) < 4.5).all()
    assert (errors(J * np.float32(0.3)) > 10).any()


@pytest.mark.parametrize("filters", [3, 2000])
def test_contrastive_divergence_written_out_proposal_by_proposal(filters):
    """By parts of 50 chains in wide models and at once in narrow ones; the step size moves by the share of all proposals."""
    Z = np.random.default_rng(0).standard_normal((70, 3)).astype(np.float32)
    given = {"algorithm": "ebm", "expert": "student", "filters": filters, "proposals": 3, "leapfrog": 2, "step_size": 0.3}
    problem = LearningProblem(Z, LearningSettings(**given, batch_size=70, rates=((0.01, 5),), gamma_rate=0.5, gamma=1.5, seed=4))
    state = stochastic_learning.StochasticGradient(problem).init()
    state.step = 2
    energy = stochastic_learning.make_current_energy(problem, state)
    by_J, by_gamma, acceptance = energy_gradients.contrastive_divergence_gradients(problem, energy, Z, state, map)
    random = generator(4, Stream.MOMENTA, step=2)
    momenta = random.standard_normal((3, 70, 3), dtype=np.float32)
    uniforms = random.random((3, 70))
    z, moved = Z.astype(np.float64), 0
    plain = LinearExperts(energy.J.astype(np.float64), energy.gamma.astype(np.float64), EXPERTS["student"])
    for momentum, uniform in zip(momenta, uniforms, strict=True):
        there, last = take_leapfrog_steps(plain, z, momentum.astype(np.float64), 0.3, 2)
        rise = plain.energy(there) - plain.energy(z) + 0.5 * (np.square(last).sum(axis=1) - np.square(momentum).sum(axis=1))
        accepted = np.log1p(-uniform) < -rise
        z = np.where(accepted[:, None], there, z)
        moved += accepted.sum()
    after, before = plain.parameters(z), plain.parameters(Z.astype(np.float64))
    np.testing.assert_allclose(by_J, (after[0] - before[0]) / 70, atol=2e-3)
    np.testing.assert_allclose(by_gamma, (after[1] - before[1]) / 70, atol=2e-3)
    assert acceptance == pytest.approx(moved / 210, abs=0.01)
    assert state.epsilon == pytest.approx(0.3 - 0.005 * (0.9 - acceptance))


WIDE = {"algorithm": "ebm", "expert": "student", "filters": 80, "gamma_rate": 0.1, "rates": ((0.01, 6),), "leapfrog": 3, "proposals": 2}


def same(one, other):
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name), equal_nan=f.name not in ("step", "signs")) for f in fields(one))


@pytest.mark.parametrize(
    "settings",
    [
        WIDE,
        {**WIDE, "grid": (8, 10)},
        {"algorithm": "infomax", "rates": ((0.01, 6),)},
        {"algorithm": "equil", "rates": ((0.01, 6),)},
        {"algorithm": "infomax", "density": "auto", "rates": ((0.01, 6),)},
    ],
)
def test_threads_and_resuming_leave_the_bits_alone(settings):
    Z = np.random.default_rng(4).laplace(size=(300, 60)).astype(np.float32 if settings["algorithm"] == "ebm" else np.float64)
    problem = LearningProblem(Z, LearningSettings(**settings, batch_size=120, average=3))
    plain = run(problem)
    half = copy.deepcopy(run(problem, until=3))
    while half.step < 6:
        half = stochastic_learning.StochasticGradient(LearningProblem(Z, problem.settings)).step(half)
    assert same(plain, half)
    with ThreadPoolExecutor(2) as pool:
        assert same(plain, run(problem, map=pool.map))
    assert not np.array_equal(plain.J, stochastic_learning.StochasticGradient(problem).init().J)


def test_gamma_stays_where_the_product_has_an_integral():
    Z, _ = mixed(400, 2)
    problem = LearningProblem(
        Z.astype(np.float32), LearningSettings(algorithm="ebm", expert="student", gamma_rate=0.1, rates=((0.01, 60),), leapfrog=3)
    )
    state = stochastic_learning.StochasticGradient(problem).init()
    state.gamma_velocity[...] = (-0.9, 0.1)
    state = stochastic_learning.StochasticGradient(problem).step(state)
    assert state.raised == 1
    assert state.gamma.min() > 0.5


@pytest.mark.parametrize("cause", [{"step_size": 1e4, "step_gain": 1e-9}, {"weight_decay": 1e30}], ids=["steps", "filters"])
def test_collapse_resets_the_step_once_and_then_ends(cause):
    Z, _ = mixed(200, 2)
    problem = LearningProblem(
        Z.astype(np.float32), LearningSettings(algorithm="ebm", expert="logistic", rates=((0.01, 900),), leapfrog=2, **cause)
    )
    state = stochastic_learning.StochasticGradient(problem).init()
    told = r"acceptance collapsed again at update \d+, after the leapfrog step had been reset"
    with pytest.raises(ChainsCollapsed, match=told) as caught, np.errstate(all="ignore"):
        while state.step < 900:
            state = stochastic_learning.StochasticGradient(problem).step(state)
    assert caught.value.exit_code == 1
    assert caught.value.state.resets == 1
    assert np.isfinite(caught.value.state.J).all()
    assert np.abs(caught.value.state.J).max() < 1e6


def test_divergence_is_told():
    Z, _ = mixed(200, 2)
    with pytest.raises(Diverged, match="filters left the finite range at update"), np.errstate(all="ignore"):
        run(LearningProblem(Z, LearningSettings(algorithm="infomax", rates=((1e150, 50),))))


@pytest.mark.parametrize("algorithm", ["infomax", "equil"])
def test_filters_that_became_dependent_go_back_at_half_the_rate_and_in_the_end_are_told(algorithm):
    Z, _ = mixed(200, 2)
    problem = LearningProblem(Z, LearningSettings(algorithm=algorithm, rates=((0.01, 5),)))
    state = stochastic_learning.StochasticGradient(problem).init()
    first = state.J.copy()
    state.J[:] = 1.0
    state = stochastic_learning.StochasticGradient(problem).step(state)
    assert (state.step, state.resets) == (1, 1)
    np.testing.assert_array_equal(state.J, first)
    full = stochastic_learning.StochasticGradient(problem).step(stochastic_learning.StochasticGradient(problem).init())
    state.step = 0
    state = stochastic_learning.StochasticGradient(problem).step(state)
    np.testing.assert_allclose(state.J - first, (full.J - first) / 2, rtol=1e-9)
    state.J[:], state.resets = 1.0, stochastic_learning.RETREATS
    with pytest.raises(Diverged, match="filters became linearly dependent at update 2, at 1/256 of the rate"):
        stochastic_learning.StochasticGradient(problem).step(state)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"filters": 2}, "2 filters are fewer than the 3 dimensions of the whitened rows"),
        (
            {"algorithm": "equil", "filters": 4},
            "--algorithm equil needs as many filters as dimensions, but there are 4 filters for 3 dimensions",
        ),
        ({"algorithm": "ebm", "expert": "student", "gamma": 0.4}, "gamma 0.4 is not above ½: the Student density has no finite integral"),
        ({"rates": ((0.0, 4),)}, "learning rates must be above 0, and each must hold for at least one update"),
        ({"average": 20_000}, "cannot average the last 20000 of 10000 updates"),
        ({"grid": (2, 2)}, "a topographic map needs the algorithm ebm, the expert student, and as many cells as filters"),
        ({"algorithm": "sgd"}, "unknown algorithm 'sgd', expected infomax, ebm or equil"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(BadUsage) as caught:
        LearningProblem(np.zeros((5, 3)), LearningSettings(**settings))
    assert caught.value.message == message


def test_all_updates_may_be_averaged():
    assert LearningSettings(rates=((0.1, 3), (0.01, 4)), average=7).updates == 7


def test_every_epoch_sees_every_row_once():
    problem = LearningProblem(np.arange(20.0).reshape(10, 2), LearningSettings(algorithm="infomax", batch_size=5))
    for epoch in range(3):
        rows = np.concatenate([problem.batch(2 * epoch + part) for part in range(2)])
        assert sorted(rows[:, 0].tolist()) == list(range(0, 20, 2))
    assert not np.array_equal(problem.batch(0), problem.batch(2))


@pytest.mark.parametrize("algorithm", ["ebm", "infomax"])
def test_progress_shows_the_objective_and_only_of_ebm_the_acceptance(algorithm):
    Z, _ = mixed(200, 2)
    kind = np.float32 if algorithm == "ebm" else np.float64
    problem = LearningProblem(Z.astype(kind), LearningSettings(algorithm=algorithm, expert="logistic", rates=((0.01, 20),), leapfrog=2))
    running, state = stochastic_learning.StochasticGradient(problem), run(problem)
    told = running.progress(state).figure
    objective, acceptance = (trace[state.step // problem.updates_per_trace_entry - 1] for trace in (state.objective, state.acceptance))
    expected = f"{stochastic_learning.objective_name(problem).replace('_', ' ')} {objective:.4f}"
    assert told == (f"{expected}, acceptance {acceptance:.2f}" if algorithm == "ebm" else expected)
    assert running.progress(running.init()).figure == ""


def test_filters_are_looked_at_after_so_many_updates_and_kept_where_they_are_better(monkeypatch):
    monkeypatch.setattr(stochastic_learning, "PATIENCE", 3)
    Z = np.random.default_rng(0).laplace(size=(400, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    algorithm = stochastic_learning.StochasticGradient(
        LearningProblem(Z, LearningSettings(algorithm="infomax", batch_size=400, rates=((0.05, 9),)))
    )
    state = algorithm.init()
    first = state.good_J.copy()
    for step in range(1, 4):
        state = algorithm.step(state)
        np.testing.assert_array_equal(state.good_J, state.J if step == 3 else first)
