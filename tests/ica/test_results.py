"""What algorithms hand over and when they stop: line searches, limits, traces and remarks, with numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import quad

from herdcli.errors import BadUsage, DataError
from herdcli.ica import external_libraries, results, sobi, sparse_coding, stochastic_learning, whitening
from herdcli.ica import maximum_likelihood as ml
from herdcli.ica.energy import make_energy, normalisable_weight_floor
from herdcli.ica.experts import EXPERTS, fit_output_scale
from herdcli.ica.filters import filter_convention
from herdcli.ica.model import ICA


def laplace(n=300, D=3, seed=0):
    """Whitened rows (n, D)."""
    X = np.random.default_rng(seed).laplace(size=(n, D))
    return whitening.fit_whitening(X, method="zca").apply(X)


def walked(algorithm, steps):
    """The state after so many steps."""
    state = algorithm.init()
    for _ in range(steps):
        state = algorithm.step(state)
    return state


# maximum likelihood


@pytest.mark.parametrize(("rows", "stage"), [(199, 1), (200, 0)])
def test_twice_as_many_rows_as_the_thinned_ones_are_thinned(rows, stage, monkeypatch):
    monkeypatch.setattr(ml, "THINNED", 100)
    Z = laplace(rows)
    problem = ml.MaximumLikelihoodProblem(Z, "logistic", gamma=1.3, initial=2.0 * np.eye(3))
    state = ml.MaximumLikelihood(problem).init()
    used = Z if stage else Z[::2]
    expert = EXPERTS["logistic"]
    loss = 1.3 * expert.energy(2 * used).sum(axis=1).mean() + 3 * expert.log_z(np.array([1.3]))[0] - 3 * np.log(2)
    assert (state.step, state.stage, state.done, state.signs) == (0, stage, False, None)
    assert state.loss == pytest.approx(loss, rel=1e-12) == -state.trace[0]
    assert (len(state.trace), len(state.moves), len(state.changes)) == (1, 0, 0)
    assert (2 * np.eye(3) == state.J).all()


def test_thinned_rows_are_left_where_their_gradient_is_below_ten_over_their_number(monkeypatch):
    monkeypatch.setattr(ml, "THINNED", 100)
    algorithm = ml.MaximumLikelihood(ml.MaximumLikelihoodProblem(laplace(200), "logistic"))
    for size, stage in ((0.101, 0), (0.099, 1)):
        state = algorithm.init()
        state.G = np.zeros((3, 3))
        state.G[0, 1] = size
        state = algorithm.step(state)
        assert (state.step, state.stage, len(state.trace)) == (1, stage, 2)
        assert len(state.moves) == 1 - stage
    every = ml.evaluate_stage(algorithm.problem, 1, state.J)  # all rows anew
    assert state.loss == every.loss == -state.trace[-1]
    np.testing.assert_array_equal(state.G, every.G)


def test_signs_are_looked_at_after_each_of_ten_steps_then_every_five_and_at_the_end(monkeypatch):
    looked = []
    monkeypatch.setattr(ml, "_choose_densities", lambda problem, state: bool(looked.append(state.step)))
    monkeypatch.setattr(ml, "_line_search", lambda problem, state, map: state.step != 23)
    algorithm = ml.MaximumLikelihood(ml.MaximumLikelihoodProblem(laplace(), tolerance=0.0))
    state = walked(algorithm, 23)
    assert looked == [*range(1, 11), 15, 20, 23]
    assert state.done
    assert algorithm.done(state)
    bounded = ml.MaximumLikelihood(ml.MaximumLikelihoodProblem(laplace(), tolerance=0.0, iterations=2))
    assert [bounded.done(walked(bounded, steps)) for steps in (1, 2)] == [False, True]


def test_a_density_changes_at_most_ten_times():
    Z = np.random.default_rng(0).uniform(-1, 1, (400, 3))
    problem = ml.MaximumLikelihoodProblem(whitening.fit_whitening(Z, method="zca").apply(Z))
    state = ml.MaximumLikelihood(problem).init()
    assert state.signs.tolist() == [-1, -1, -1]
    state.signs, state.switched = np.array([1, 1, -1]), np.array([9, 10, 3])
    assert ml._choose_densities(problem, state)
    assert (state.signs.tolist(), state.switched.tolist()) == ([-1, 1, -1], [10, 10, 3])
    assert not ml._choose_densities(problem, state)


def searched(monkeypatch, losses, history=0):
    """A state after `_take_m_step` where the loss takes these values, whether it moved, and the J that were tried."""
    tried, left = [], iter(losses)

    def evaluate(problem, stage, J, signs=None, map=map):
        tried.append(J)
        return ml.LikelihoodEvaluation(next(left), 0.5 * G, h)

    G, h = np.array([[0.3, -0.1], [0.2, 0.4]]), np.full((2, 2), 3.0)
    monkeypatch.setattr(ml, "evaluate_stage", evaluate)
    none = np.zeros((history, 2, 2))
    state = ml.MaximumLikelihoodState(0, 1, False, 1.0, np.diag([2.0, 3.0]), G, h, none, none, np.zeros(1))
    return state, ml._line_search(SimpleNamespace(), state, map), tried, ml._solve_pair_blocks(h, G)


def test_a_step_is_halved_until_the_loss_falls_by_a_share_of_its_slope(monkeypatch):
    first, J = np.array([[0.3, -0.1], [0.2, 0.4]]), np.diag([2.0, 3.0])
    slope = -(ml._solve_pair_blocks(np.full((2, 2), 3.0), first) * first).sum()
    too_little, enough = 1.0 + 0.9e-4 * 0.5 * slope, 1.0 + 1.1e-4 * 0.25 * slope
    state, moved, tried, solved = searched(monkeypatch, [2.0, too_little, enough])
    assert moved
    for size, at in zip((1.0, 0.5, 0.25), tried, strict=True):
        np.testing.assert_allclose(at, J - size * solved @ J)
    np.testing.assert_allclose(state.moves, [-0.25 * solved])
    np.testing.assert_allclose(state.changes, [-0.5 * first])
    assert (state.loss, state.J is tried[2]) == (enough, True)
    assert len(searched(monkeypatch, [0.0], history=ml.MEMORY)[0].moves) == ml.MEMORY


def test_a_step_may_have_to_be_halved_often(monkeypatch):
    """Of digits, whose corners are 0 in nearly all rows, ten halvings ended at 62.13 nats of 58.99, and a gradient of .89."""
    state, moved, tried, _ = searched(monkeypatch, [2.0] * 20 + [0.5])
    assert moved
    assert len(tried) == 21
    assert state.loss == 0.5


def test_neither_direction_is_halved_for_ever(monkeypatch):
    state, moved, tried, _ = searched(monkeypatch, [2.0] * 2 * ml.HALVINGS)
    assert not moved
    assert len(tried) == 2 * ml.HALVINGS == 50
    assert (np.diag([2.0, 3.0]) == state.J).all()


def test_the_fit_of_maximum_likelihood_tells_how_it_ended():
    algorithm = ml.MaximumLikelihood(ml.MaximumLikelihoodProblem(laplace(), "student", gamma=1.5, iterations=60))
    state = walked(algorithm, 2)
    largest = np.abs(state.G).max()
    fit = algorithm.result(state)
    assert fit.unconverged == f"the largest entry of the gradient is {largest:.2g}"
    assert algorithm.progress(state).figure == f"log likelihood {-state.loss:.4f}, gradient {largest:.1e}"
    assert (algorithm.progress(state).step, algorithm.progress(state).bound) == (2, 60)
    assert (fit.gamma.tolist(), fit.iterations, fit.chosen, fit.objective) == ([1.5] * 3, 2, False, "log_likelihood")
    assert (fit.trace.iteration.tolist(), fit.trace.objective[-1]) == ([0, 1, 2], -state.loss)
    while not algorithm.done(state):
        state = algorithm.step(state)
    assert algorithm.result(state).unconverged == ""
    begun, like = algorithm.init(), algorithm.state_template()
    assert (like.J.shape, like.G.shape, like.h.shape, like.moves.shape) == (begun.J.shape, begun.G.shape, begun.h.shape, (0, 3, 3))
    auto = ml.MaximumLikelihood(ml.MaximumLikelihoodProblem(laplace()))
    assert (auto.state_template().signs.shape, auto.state_template().switched.shape, like.signs) == ((3,), (3,), None)
    assert auto.result(auto.init()).chosen


# sobi


def sobi_of(autocorrelations, n=20_000, **options):
    """An algorithm, and a state with these autocorrelations (D, L) of its outputs."""
    Z = np.linalg.qr(np.random.default_rng(0).standard_normal((n, len(autocorrelations))))[0] * np.sqrt(n)
    C = np.array([np.diag(row) for row in np.transpose(autocorrelations)])
    D = len(autocorrelations)
    algorithm = sobi.JointDiagonalisation(sobi.SOBIProblem(Z, lags=C.shape[0], **options))
    return algorithm, sobi.SOBIState(3, 0.5, np.eye(D), C, np.array([0.4, 0.3, 0.2, 0.1]))


def test_outputs_are_alike_within_four_standard_errors_at_every_lag():
    error = np.sqrt(2 / 20_000)
    algorithm, state = sobi_of([[0.5, 0.2], [0.5 + 3.9 * error, 0.2], [0.5, 0.2 - 4.1 * error], [0.5 + 4.1 * error, 0.2 - 8.2 * error]])
    assert sobi.find_indistinguishable_pairs(algorithm.problem, state) == [(0, 1)]
    fit = algorithm.result(state)
    assert fit.notes == ("1 pairs of outputs have the same autocorrelations: their rotation is not identifiable",)
    assert fit.unconverged == "the last sweep turned by 0.5"
    assert (fit.trace.iteration.tolist(), fit.trace.objective.tolist()) == ([0, 1, 2, 3], [-0.4, -0.3, -0.2, -0.1])
    assert (fit.iterations, fit.gamma.tolist(), fit.chosen) == (3, [1.0] * 4, True)


def test_sweeps_end_at_the_tolerance_or_the_last_iteration():
    algorithm, state = sobi_of([[0.5], [0.2]], tolerance=0.5)
    assert algorithm.result(state).unconverged == ""
    assert algorithm.result(state).notes == ()
    assert algorithm.done(state)
    state.turned = 0.51
    assert not algorithm.done(state)
    bounded, state = sobi_of([[0.5], [0.2]], iterations=3)
    assert bounded.done(state)
    state.step = 2
    assert not bounded.done(state)
    assert (bounded.progress(state).bound, bounded.progress(state).figure) == (3, "turned by 5.0e-01")
    like = bounded.state_template()
    assert (like.C.shape, like.J.tolist(), like.step) == ((1, 2, 2), np.eye(2).tolist(), 0)
    assert not bounded.done(like)


def test_what_is_off_the_diagonals_is_a_mean_over_lags():
    Z, lags = laplace(50), 4
    begun = sobi.JointDiagonalisation(sobi.SOBIProblem(Z, lags=lags)).init()
    off = [sum(C[p, q] ** 2 for p in range(3) for q in range(3) if p != q) for C in sobi.lagged_covariances(Z, lags)]
    assert begun.trace == pytest.approx([np.mean(off)])
    assert (begun.step, begun.turned, begun.J.tolist()) == (0, np.inf, np.eye(3).tolist())
    assert sobi.SOBIProblem(Z, lags=49).lags == 49


# outputs that look Gaussian, and remarks


def test_standard_errors_of_log_cosh_are_those_of_the_integrals():
    """log cosh u less its regression on u² − 1, whose slope is Cov(log cosh u, u²) / Var u²; E u² is 1 in every sample."""

    def mean(f):
        return quad(lambda u: f(u) * np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi), -12, 12, epsabs=1e-12)[0]

    centre = mean(lambda u: np.log(np.cosh(u)))
    slope = mean(lambda u: (np.log(np.cosh(u)) - centre) * (u * u - 1)) / 2
    deviation = np.sqrt(mean(lambda u: (np.log(np.cosh(u)) - centre - slope * (u * u - 1)) ** 2))
    n = 10_000
    assert filter_convention.kurtosis_standard_error(n) == pytest.approx(np.sqrt(24 / n))
    sides = np.array([-4.01, -3.99, 3.99, 4.01])
    for kurtosis, log_cosh in ((sides * np.sqrt(24 / n), np.full(4, centre)), (np.zeros(4), centre + sides * deviation / np.sqrt(n))):
        found = filter_convention.OutputMoments(np.ones(4), kurtosis, log_cosh)
        assert filter_convention.looks_gaussian(found, n).tolist() == [False, True, True, False]


def model(experts, kurtosis, M=3, **more):
    """An artifact of square filters with these experts and kurtoses, and the moments of its outputs."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    fitted = whitening.fit_whitening(X, method="zca")
    value = ICA(
        **{"algorithm": "ml", "objective": "log_likelihood", "J": np.eye(M, 3), "gamma": np.ones(M), "power": np.ones(M), "seed": 0}
        | {"kurtosis": np.array(kurtosis), "whitening": fitted, "trace": None, "rows": 2400, "iterations": 1, "experts": experts}
        | more
    )
    return value, filter_convention.OutputMoments(np.ones(M), np.array(kurtosis), np.full(M, 0.3745672))


def test_remarks_name_gaussian_outputs_and_those_of_the_other_sort():
    """Rows 2400: the standard error is 0.1, and four of it are 0.4."""
    value, found = model(["logistic"] * 3, [0.39, -0.39, 3.0])
    told = "2 of 3 outputs look Gaussian (excess kurtosis from -0.39 to 0.39, standard error 0.1): their rotation is not identifiable"
    assert results.kurtosis_warnings(value, found, densities_chosen=True) == [told]
    assert results.kurtosis_warnings(value, found, densities_chosen=False) == [
        f"{told}, or logistic does not fit them: auto chooses one for each"
    ]
    value, found = model(["logistic"] * 3, [-0.41, 0.41, 3.0])
    why = "logistic is a super-Gaussian density and cannot separate them: auto chooses one for each"
    assert results.kurtosis_warnings(value, found, densities_chosen=False) == [
        f"1 of 3 outputs are sub-Gaussian (excess kurtosis from -0.41 to -0.41, standard error 0.1), {why}"
    ]
    assert results.kurtosis_warnings(value, found, densities_chosen=True) == []
    value, found = model(["bimodal"] * 3, [-0.41, 0.41, 3.0])
    assert results.kurtosis_warnings(value, found, densities_chosen=False) == [
        "2 of 3 outputs are super-Gaussian (excess kurtosis from 0.41 to 3.00, standard error 0.1), "
        "bimodal is a sub-Gaussian density and cannot separate them: auto chooses one for each"
    ]
    for quiet in (
        model(["logistic"] * 3, [0.0, 3.0, 3.0]),
        model(["gaussian-cdf"] * 3, [-1.0, 1.0, 3.0]),
        model(["logistic"] * 4, [0.0] * 4, M=4),
        model(["logistic"] * 3, [0.0] * 3, algorithm="sobi"),
        model(["logistic"] * 3, [0.0] * 3, dictionary=np.eye(3)),
    ):
        assert results.kurtosis_warnings(*quiet, densities_chosen=False) == []


# stochastic gradients


def stochastic(**settings):
    given = {"algorithm": "infomax", "density": "logistic", "rates": ((0.01, 600),)} | settings
    Z = laplace()
    return stochastic_learning.StochasticGradient(
        stochastic_learning.LearningProblem(
            Z.astype(np.float32 if given["algorithm"] == "ebm" else np.float64), stochastic_learning.LearningSettings(**given)
        )
    )


def test_rates_are_those_of_the_schedule():
    settings = stochastic_learning.LearningSettings(rates=((0.5, 2), (0.25, 1), (0.125, 3)))
    assert [settings.rate(update) for update in range(6)] == [0.5, 0.5, 0.25, 0.125, 0.125, 0.125]
    assert settings.updates == 6
    with pytest.raises(IndexError):
        settings.rate(6)


@pytest.mark.parametrize(("scale", "lengths"), [(0.0, True), (0.25, False)])
def test_filters_begin_at_random_with_their_length_or_deviation(scale, lengths):
    state = stochastic(initial_scale=scale, filters=400, density="student", gamma=1.25).init()
    norms = np.linalg.norm(state.J, axis=1)
    if lengths:
        np.testing.assert_allclose(norms, 1.0)
    assert state.J.std() == pytest.approx(scale or np.sqrt(1 / 3), rel=0.1)
    assert (state.gamma == 1.25).all()
    assert (state.good_J == state.J).all()
    assert state.epsilon == 0.1


@pytest.mark.parametrize(("updates", "entries"), [(250, 250), (251, 126), (600, 200)])
def test_a_trace_has_at_most_250_entries_and_the_last_update_one(updates, entries):
    run = stochastic(rates=((0.001, updates),))
    state = walked(run, updates)
    trace = run.result(state).trace
    every = -(-updates // 250)
    assert (len(state.objective), len(trace.iteration)) == (entries, entries)
    assert trace.iteration.tolist() == [*range(every, updates, every), updates]
    assert np.isfinite(trace.objective).all()
    assert (trace.acceptance, trace.step_size, trace.amari) == (None, None, None)
    expert, J, Z = EXPERTS["logistic"], state.J, run.problem.Z
    assert trace.objective[-1] == pytest.approx(np.linalg.slogdet(J)[1] - expert.energy(Z @ J.T).sum(axis=1).mean(), rel=1e-12)
    assert run.progress(state).bound == updates
    half = walked(run, every + every // 2)
    assert run.result(half).trace.iteration.tolist() == ([every, half.step] if every > 1 else [1])


def test_the_log_likelihood_of_a_trace_has_each_experts_own_normaliser():
    for settings in ({"density": "student", "gamma": 1.25}, {"algorithm": "equil", "expert": "laplace-smooth", "gamma": 2.0}):
        run = stochastic(rates=((0.001, 1),), **settings)
        state = walked(run, 1)
        name = settings.get("density", settings.get("expert"))
        problem, gamma = run.problem, settings["gamma"]
        density = -gamma * EXPERTS[name].energy(problem.Z @ state.J.T) - EXPERTS[name].log_z(np.array([gamma]))
        assert state.objective[0] == pytest.approx(np.linalg.slogdet(state.J)[1] + density.sum(axis=1).mean(), rel=1e-9)


def test_two_rows_are_enough_and_one_is_not():
    rows = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])
    assert stochastic_learning.LearningProblem(rows[:2], stochastic_learning.LearningSettings()).updates_per_trace_entry == 40
    assert ml.MaximumLikelihoodProblem(rows[:2], "logistic").density == "logistic"
    for make in (
        lambda Z: stochastic_learning.LearningProblem(Z, stochastic_learning.LearningSettings()),
        lambda Z: ml.MaximumLikelihoodProblem(Z, "logistic"),
    ):
        with pytest.raises(DataError, match="there must be at least two rows"):
            make(rows[:1])
    single, _ = model(["student"], [0.0], M=1)
    assert single.expert == "student"
    assert model(["student", "logistic", "student"], [0.0] * 3)[0].expert == "mixed"


def test_parameters_are_averaged_over_the_last_updates():
    run = stochastic(rates=((0.01, 9),), average=4)
    state, kept = run.init(), []
    for _ in range(9):
        state = run.step(state)
        kept.append(state.J.copy())
        if state.step < 9:
            np.testing.assert_array_equal(stochastic_learning.final_filters(run.problem, state)[0], state.J)
    J, gamma = stochastic_learning.final_filters(run.problem, state)
    np.testing.assert_allclose(J, np.mean(kept[5:], axis=0), rtol=1e-12)
    np.testing.assert_allclose(gamma, 1.0)


def test_acceptance_of_a_trace_is_a_mean_and_its_step_size_the_last():
    run = stochastic(algorithm="ebm", expert="logistic", rates=((0.01, 502),), leapfrog=2, step_size=0.6, batch_size=20)
    state, accepted = run.init(), []
    for _ in range(7):
        before = state.epsilon
        state = run.step(state)
        accepted.append(0.9 + (state.epsilon - before) / 0.005)  # eq. 4.41 turned round
    assert run.problem.updates_per_trace_entry == 3
    np.testing.assert_allclose(state.acceptance[:2], [np.mean(accepted[:3]), np.mean(accepted[3:6])], atol=1e-6)
    assert state.accepted == pytest.approx(accepted[6], abs=1e-6)
    trace = run.result(state).trace
    assert len(trace.acceptance) == 3
    assert np.isnan(trace.acceptance[2])
    assert trace.step_size[1] != state.epsilon


def test_good_parameters_are_kept_at_every_hundredth_update_of_wanted_acceptance():
    run = stochastic(algorithm="ebm", expert="logistic")
    state = run.init()
    first = state.J.copy()
    for step, acceptance, kept in ((99, 0.9, False), (100, 0.49, False), (100, 0.5, True)):
        state.step = step
        state.J[...] = first + 1.0
        stochastic_learning._restore_after_collapse(run.problem, state, acceptance)
        assert (state.good_J == first + 1.0).all() == kept
        assert (state.good_J == first).all() != kept
    state.J[...], state.J_velocity[...], state.low = 7.0, 3.0, 98
    stochastic_learning._restore_after_collapse(run.problem, state, 0.05)
    assert (state.low, state.resets) == (0, 0)
    state.low = 98
    stochastic_learning._restore_after_collapse(run.problem, state, 0.049)
    assert (state.low, state.resets) == (99, 0)
    stochastic_learning._restore_after_collapse(run.problem, state, 0.049)
    assert (state.low, state.resets, state.epsilon) == (0, 1, pytest.approx(0.01))
    assert (first + 1.0 == state.J).all()
    assert not state.J_velocity.any()


def test_filters_that_lose_a_nat_a_dimension_go_back():
    run = stochastic()
    state = run.init()
    now = stochastic_learning.compute_objective(run.problem, stochastic_learning.make_current_energy(run.problem, state), state)
    assert stochastic_learning._save_or_describe_decline(run.problem, state) == ""
    assert state.good_objective == now
    state.good_objective = now + 2.99
    assert stochastic_learning._save_or_describe_decline(run.problem, state) == ""
    assert state.good_objective == now + 2.99
    state.good_objective = now + 3.01
    assert stochastic_learning._save_or_describe_decline(run.problem, state) == "lost what they had learned"


def test_weight_decay_and_momentum_of_a_step_by_hand():
    """Δ ← μ Δ + ε (G − λ J) in both precisions; γ goes without decay, at a rate of its own."""
    settings = stochastic_learning.LearningSettings(
        momentum=0.5, weight_decay=0.25, rates=((0.125, 4), (0.5, 4)), gamma_rate=0.25, expert="logistic"
    )
    for kind in (np.float32, np.float64):
        J, gamma = np.array([[2.0, -4.0]], kind), np.array([3.0], kind)
        state = SimpleNamespace(J=J, gamma=gamma, step=4, raised=0)
        state.J_velocity, state.gamma_velocity = np.array([[1.0, 0.5]], kind), np.array([-1.0], kind)
        largest = stochastic_learning._apply_momentum_steps(
            settings, state, np.array([[1.0, 3.0]], kind), np.array([2.0], kind), rate_factor=0.5
        )
        # rate 0.5 · 0.5: Δ = ½ (1, ½) + ¼ (1 − ½, 3 + 1)
        assert state.J_velocity.tolist() == [[0.625, 1.25]]
        assert state.J.tolist() == [[2.625, -2.75]]
        assert (state.gamma_velocity.tolist(), state.gamma.tolist()) == ([-0.5 + 0.0625 * 2], [2.625])
        assert largest == 2.75


def test_objectives_are_named_by_what_they_are():
    def name(**settings):
        return stochastic_learning.objective_name(stochastic(**settings).problem)

    assert name() == "log_likelihood"
    assert name(filters=4) == "entropy"
    assert name(algorithm="ebm", expert="infomax") == "log_likelihood"
    assert name(algorithm="ebm", expert="infomax", filters=4) == "entropy"
    assert name(algorithm="ebm", expert="student") == "log_likelihood"
    assert name(algorithm="ebm", expert="student", filters=6) == "energy"
    assert name(algorithm="ebm", expert="student", filters=9, grid=(3, 3)) == "energy"


def test_notes_say_what_happened_on_the_way():
    run = stochastic()
    state = run.init()
    assert run.result(state).notes == ()
    state.resets, state.raised = 2, 3
    halved = "rates were halved 2×: each time filters had broken down, and the last good ones were taken"
    border = "γ left the normalisable region 3 times and was set back to its border"
    assert run.result(state).notes == (halved, border)
    chains = stochastic(algorithm="ebm", expert="gaussian-cdf")
    state = chains.init()
    state.resets = 1
    assert chains.result(state).notes == (
        "the acceptance collapsed once: the last good filters and a small leapfrog step were taken instead",
        "a Gaussian density decorrelates and no more: which rotation is found means nothing",
    )


def test_the_fit_of_stochastic_gradients_has_the_density_and_the_map_it_was_made_with():
    wide = stochastic(filters=4, density="student")
    assert wide.result(wide.init()).more == {"experts": ["infomax"] * 4, "density": "student"}
    mapped = stochastic(algorithm="ebm", expert="student", filters=9, grid=(3, 3))
    more = mapped.result(mapped.init()).more
    assert (more["grid"].tolist(), more["topography"].tolist()) == ([3, 3], np.full((9, 9), 1 / 9).tolist())
    auto = stochastic(density="auto")
    fit = auto.result(auto.init())
    assert (fit.chosen, fit.more, fit.iterations) == (True, {"experts": ["laplace"] * 3}, 0)
    assert not wide.result(wide.init()).chosen


def test_a_pooling_square_fits_the_smaller_side_of_the_grid():
    assert stochastic_learning.pooling_weights((3, 5), 3).sum() == pytest.approx(15)
    for side in (2, 5):
        with pytest.raises(BadUsage, match=f"a neighbourhood of {side} does not fit a grid of 3×5: its side must be odd and at most 3"):
            stochastic_learning.pooling_weights((3, 5), side)


# sparse coding


def test_a_dictionary_moves_along_its_pull_and_keeps_its_length():
    Z = laplace(40)
    settings = stochastic_learning.LearningSettings(filters=4, expert="student", gamma=1.5, rates=((0.2, 1), (0.1, 1)), batch_size=40)
    task = sparse_coding.SparseCodingProblem(stochastic_learning.LearningProblem(Z, settings), 0.3, "variational")
    run = sparse_coding.DictionaryLearning(task)
    state = run.init()
    assert (run.progress(state).figure, np.isnan(state.objective).all()) == ("", True)
    for rate in (0.2, 0.1):
        before = state.A.copy()
        found = task.model(before).infer_sources(Z)
        state = run.step(state)
        moved = before + rate * found.pull / 40
        np.testing.assert_allclose(state.A, moved / np.linalg.norm(moved, axis=0), rtol=1e-9)
        assert state.objective[state.step - 1] == pytest.approx(found.objective.mean())
        assert run.progress(state).figure == f"bound {state.objective[state.step - 1]:.3f}"
    assert (run.progress(state).step, run.progress(state).bound) == (2, 2)
    fit = run.result(state)
    np.testing.assert_allclose(fit.J @ state.A @ fit.J, fit.J, atol=1e-12)
    assert (fit.gamma.tolist(), fit.iterations, fit.objective, fit.trace.iteration.tolist()) == ([1.5] * 4, 2, "bound", [1, 2])
    assert (fit.more["noise"], fit.more["posterior"], fit.more["experts"]) == (0.3, "variational", ["student"] * 4)
    assert replace(run, task=replace(task, posterior="laplace")).objective == "log_joint"
    with pytest.raises(DataError, match="the noise's standard deviation is below 0"):
        replace(task, noise=-0.1)


def test_log_joints_are_those_of_the_prior_and_the_noise():
    A, Z, S = np.array([[1.0, 0.6], [0.0, 0.8]]), np.array([[1.0, -2.0]]), np.array([[0.5, -1.5]])
    prior = -1.5 * np.log1p(S**2).sum() - 2 * EXPERTS["student"].log_z(np.array([1.5]))[0]
    e = Z[0] - A @ S[0]
    noise = -(e @ e) / (2 * 0.09) - np.log(2 * np.pi * 0.09)
    assert sparse_coding.SparseCodingModel(A, "student", 1.5, 0.3, "map").log_joint(Z, S) == pytest.approx([prior + noise])
    assert sparse_coding.SparseCodingModel(A, "student", 1.5, 0.0, "map").log_joint(Z, S) == pytest.approx([prior])


# parts that all of them share


def test_weights_sum_over_subspaces_at_the_border_of_the_integral():
    """2 Σ γ = (1 + margin) k is inside: for M = D = 1 the least γ is half of it."""
    assert normalisable_weight_floor(np.array([0.5005]), 1) == -np.inf
    assert normalisable_weight_floor(np.array([0.5004]), 1) == pytest.approx(0.5005)
    assert normalisable_weight_floor(np.array([0.55]), 1, margin=0.2) == pytest.approx(0.6)


def test_energies_are_of_the_experts_that_are_named():
    J, gamma, z = np.eye(2), np.ones(2), np.array([[0.7, -1.3]])
    assert make_energy(J, gamma, ["student", "logistic"]).energy(z) == pytest.approx([np.log(1 + 0.49) + 2 * np.log(2 * np.cosh(0.65))])
    manifold = make_energy(J, gamma, "infomax", density="student")
    assert manifold.energy(z) == pytest.approx([np.log1p(z**2).sum() + EXPERTS["student"].log_z(gamma).sum()])
    standard = make_energy(J, gamma, ["infomax"] * 2)
    assert standard.energy(z) == pytest.approx([EXPERTS["logistic"].energy(z).sum()])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_scale_is_where_the_slope_of_the_likelihood_is_nought(size):
    u = size * np.random.default_rng(3).laplace(size=500)
    for name in ("student", "laplace-smooth", "bimodal"):
        v = fit_output_scale(EXPERTS[name], u) * u
        assert np.mean(v * EXPERTS[name].slope(v)) == pytest.approx(1.0, abs=1e-9)


def test_a_library_is_one_step(monkeypatch):
    Z = laplace()
    rotation = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
    monkeypatch.setattr(external_libraries, "run_fastica", lambda Z, initial, tolerance, iterations: (rotation, 17, False))
    monkeypatch.setattr(external_libraries, "run_picard", lambda Z, initial, tolerance, iterations: (rotation, 5, True))
    for name, count, scaled, told in (("fastica", 17, False, "its own tolerance was not reached"), ("picard", 5, True, "")):
        run = external_libraries.LibraryRun(name, Z, 1e-6)
        state = run.init()
        np.testing.assert_allclose(state.J @ state.J.T, np.eye(3), atol=1e-12)
        assert (state.step, state.iterations, run.done(state), run.progress(state).bound) == (0, 0, False, 1)
        state = run.step(state)
        assert run.done(state)
        fit = run.result(state)
        scale = [fit_output_scale(EXPERTS[one], Z @ row) if scaled else 1.0 for one, row in zip(fit.more["experts"], rotation, strict=True)]
        np.testing.assert_allclose(fit.J, np.array(scale)[:, None] * rotation)
        assert (fit.iterations, fit.trace.iteration.tolist(), fit.gamma.tolist()) == (count, [count], [1.0] * 3)
        assert (fit.unconverged, fit.chosen, fit.objective) == (told, True, "none")


def test_filters_belong_to_their_whitening_their_mixing_and_their_experts():
    good, _ = model(["logistic"] * 3, [0.0] * 3)
    good.validate()
    replace(good, mixing=np.ones((3, 5))).validate()
    replace(good, experts=["infomax"] * 3).validate()
    for change, message in (
        ({"algorithm": "pca"}, "algorithm is 'pca', expected one of infomax, ml"),
        ({"J": np.ones((3, 2))}, "/J has 2 columns, but the whitening keeps 3 components"),
        ({"mixing": np.ones((4, 3))}, "/mixing has 4 rows, but the whitening was fitted to 3 columns"),
        ({"mixing": np.ones((3, 0))}, "/mixing has no columns, so it describes no sources"),
        ({"experts": ["logistic"] * 2}, "there are 2 experts for 3 filters"),
        ({"experts": ["logistic", "cosh", "cosh"]}, "expert is 'cosh', expected one of"),
        ({"experts": ["logistic", "infomax", "logistic"]}, "the expert infomax must apply to all outputs or to none"),
    ):
        with pytest.raises(DataError, match=message):
            replace(good, **change).validate()


def test_a_gradient_that_rounding_leaves_is_an_end_and_a_larger_one_is_told():
    algorithm = ml.MaximumLikelihood(ml.MaximumLikelihoodProblem(laplace(), "laplace-smooth"))
    state = walked(algorithm, 30)
    state.G = np.full_like(state.G, 3e-7)
    assert algorithm.result(state).unconverged == ""
    state.G = np.full_like(state.G, 3e-5)
    assert algorithm.result(state).unconverged == "the largest entry of the gradient is 3e-05"
