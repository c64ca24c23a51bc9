"""From rows to artifacts: criteria, baselines and what is known of a model, each against its formula; searches and their ends."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from herdcli.algorithm import RunProgress, run_algorithm
from herdcli.em import artifacts, fitting
from herdcli.em.driver import EM, EMSettings, EMState, ObjectiveHistory, RestartState
from herdcli.em.mixture import cluster_initialization, gmm, kmeans
from herdcli.em.mixture.component_search import ComponentSearch, SearchState
from herdcli.errors import BadUsage, DataError, Diverged
from herdcli.numerics.block_statistics import ArrayRows, RowBlock, RowBlocks, RowMoments


def rows(n=90, seed=0):
    """Three clusters in three columns."""
    random = np.random.default_rng(seed)
    return random.normal(size=(n, 3)) + np.array([[0, 0, 0], [6, 0, 1], [0, 5, 2]])[np.arange(n) % 3]


def made(model, sizes, X=None, weight=None, labels=None, valid=None, iterations=4, **asked):
    training = ArrayRows(rows() if X is None else X, labels, weight)
    given = fitting.FitRows(training=training, valid=None if valid is None else ArrayRows(valid), holdout=rows(5, 9))
    ready = fitting.prepare_fit(given, fitting.FitOptions(model=model, sizes=sizes, **asked), EMSettings(iterations, 0.0))
    return ready, ready.artifact_from_search(run_algorithm(ready.search))


def log_joint(value, X):
    """(n, K)."""
    each = zip(value.weight, value.mean, value.covariance, strict=True)
    return np.column_stack([np.log(w) + multivariate_normal(m, S).logpdf(X) for w, m, S in each])


@pytest.mark.parametrize("family", gmm.COVARIANCES)
def test_criteria_and_baselines_of_mixtures_are_their_formulas(family):
    X, valid, w = rows(), rows(40, 3), np.random.default_rng(1).uniform(0.5, 2, 90)
    labels = np.where(np.arange(90) < 10, 0, -1)
    _, value = made("gmm", (2,), weight=w, labels=labels, valid=valid, covariance=family)
    known = value.known
    joint = log_joint(value, X)
    r = np.exp(joint - logsumexp(joint, axis=1)[:, None])
    entropy = -w[10:] @ (r * np.log(np.where(r > 0, r, 1.0))).sum(axis=1)[10:]
    likelihood = w @ np.where(labels == 0, joint[:, 0], logsumexp(joint, axis=1))
    p = {"full": 1 + 6 + 12, "tied": 1 + 6 + 6, "diagonal": 1 + 6 + 6, "spherical": 1 + 6 + 2}[family]
    assert value.free_parameters == p
    assert known.entropy == pytest.approx(entropy, rel=1e-9)
    found = fitting.information_criteria(value, known.entropy)
    assert found["aic"] == pytest.approx(2 * p - 2 * likelihood)
    assert found["bic"] == pytest.approx(p * np.log(w.sum()) - 2 * likelihood)
    assert found["icl"] == pytest.approx(found["bic"] + 2 * entropy)
    mean, covariance = np.average(X, axis=0, weights=w), np.cov(X.T, aweights=w, ddof=0)
    shaped = {"full": covariance, "tied": covariance, "diagonal": np.diag(np.diag(covariance))}
    base = shaped.get(family, np.trace(covariance) / 3 * np.eye(3))
    np.testing.assert_allclose(known.base_covariance, base, rtol=1e-9)
    assert known.base_valid == pytest.approx(multivariate_normal(mean, base).logpdf(valid).mean())
    assert known.valid == pytest.approx(logsumexp(log_joint(value, valid), axis=1).mean())
    assert (known.rows, known.missing, known.sizes, known.scores, known.criterion) == (90, 0, None, None, None)
    assert (value.occupied_components, value.mass) == (2, pytest.approx(w.sum()))


def test_baselines_of_clusters_and_factors_are_one_centre_and_independent_columns():
    X, valid = rows(), rows(40, 3)
    valid[0, 1] = np.nan
    _, clusters = made("kmeans", (3,), valid=valid[1:])
    assert clusters.known.base_valid == pytest.approx(-np.square(valid[1:] - X.mean(axis=0)).sum(axis=1).mean())
    nearest = np.square(valid[1:, None] - clusters.centre).sum(axis=2).min(axis=1)
    assert clusters.known.valid == pytest.approx(-nearest.mean())
    assert fitting.information_criteria(clusters, 0.0) == {}
    _, factors = made("fa", (1,), valid=valid)
    each = np.nansum(norm(X.mean(axis=0), X.std(axis=0)).logpdf(valid), axis=1)
    assert factors.known.base_valid == pytest.approx(each.mean())
    found = fitting.information_criteria(factors, 5.0)
    S = factors.loading @ factors.loading.T + np.diag(factors.noise)
    likelihood = multivariate_normal(factors.mean, S).logpdf(X).sum()
    assert factors.free_parameters == 3 + 3 + 3
    assert set(found) == {"aic", "bic"}
    assert found["bic"] == pytest.approx(9 * np.log(90) - 2 * likelihood)
    _, plane = made("pca", (2,), valid=valid)
    assert plane.known.base_valid == pytest.approx(-np.nansum(np.square(valid - X.mean(axis=0)), axis=1).mean())
    assert fitting.information_criteria(plane, 0.0) == {}


@pytest.mark.parametrize("criterion", ["aic", "bic", "icl", "valid"])
def test_the_size_of_the_smallest_criterion_is_kept(criterion):
    valid = rows(40, 3)
    _, value = made("gmm", (1, 2, 3, 4), valid=valid, criterion=criterion, iterations=6)
    scores = []
    for size in (1, 2, 3, 4):
        _, one = made("gmm", (size,), valid=valid, iterations=6)
        scores.append(-one.known.valid if criterion == "valid" else fitting.information_criteria(one, one.known.entropy)[criterion])
    np.testing.assert_allclose(value.known.scores, scores)
    assert (value.known.sizes.tolist(), value.known.criterion) == ([1, 2, 3, 4], criterion)
    assert len(value.weight) == 1 + int(np.argmin(scores)) > 1
    with pytest.raises(DataError, match="has no validation rows, which --criterion valid needs"):
        made("gmm", (1, 2), criterion="valid")
    with pytest.raises(DataError, match="90 rows are too few for 91 components"):
        made("gmm", (2, 91))


def test_a_bound_judges_sizes_by_itself():
    _, value = made("gmm", (1, 2), bayes=True)
    ends = [made("gmm", (size,), bayes=True)[1].ledger.free_energy[-1] for size in (1, 2)]
    np.testing.assert_allclose(value.known.scores, ends)
    assert value.known.criterion == "bound"
    assert fitting.information_criteria(value, 0.0) == {}
    assert value.occupied_components == 2


class Scripted:
    """A run whose candidate ends after so many steps; its result is its number."""

    def __init__(self, number, steps):
        self.number, self.steps = number, steps

    def init(self):
        return SimpleNamespace(done=0, number=self.number)

    def step(self, state):
        return SimpleNamespace(done=state.done + 1, number=self.number)

    def done(self, state):
        return state.done >= self.steps

    def result(self, state):
        return state.number

    def progress(self, state):
        return RunProgress(state.done, 10 * self.steps, f"at {state.done}")

    def memory(self):
        return self.steps


@pytest.mark.parametrize(
    ("scores", "patience", "tried", "kept"),
    [
        ([3.0, 1.0, 2.0, 0.5], None, 4, 3),
        ([3.0, 1.0, 2.0, 0.5], 1, 3, 1),
        ([3.0, 1.0, 2.0, 0.5], 2, 4, 3),
        ([1.0, 1.0, 2.0, 3.0], 2, 3, 0),
        ([np.inf, np.inf, 2.0, 3.0], None, 4, 2),
    ],
)
def test_a_search_ends_by_its_patience_and_keeps_the_first_of_equals(scores, patience, tried, kept):
    runs = tuple(Scripted(number, number + 1) for number in range(4))
    search = ComponentSearch((2, 4, 6, 8), runs, lambda size, fit: scores[size // 2 - 1], patience)
    state = search.init()
    figures = []
    while not search.done(state):
        state = search.step(state)
        figures.append(search.progress(state))
    found = search.result(state)
    assert (found.fit, found.size, found.scores) == (kept, 2 * kept + 2, tuple(scores[:tried]))
    assert state.step == sum(range(1, tried + 1)) == len(figures)
    assert (figures[0].step, figures[0].bound, figures[0].figure) == (1, 100, "4 components, at 0")
    assert figures[1].figure == "4 components, at 1"
    assert search.memory() == 4
    assert ComponentSearch((2,), runs[:1]).progress(SearchState(0, runs[0].init(), runs[0].init())).figure == "at 0"


class Falling:
    """A model whose log-likelihood in pass t is given; parameters count the M steps."""

    def __init__(self, *values):
        self.values = values

    def start(self, restart):
        return {"at": np.array([0.0]), "restart": np.array([float(restart)])}

    def expect(self, parameters):
        value = self.values[int(parameters["restart"][0])][int(parameters["at"][0])]
        return lambda block: {"mass": np.array([2.0]), "log_likelihood": np.array([value])}

    def complete_statistics(self, parameters, sums):
        return sums

    def expected_log_likelihood(self, parameters, sums):
        return 0.25 * float(parameters["at"][0])

    def maximise(self, parameters, sums):
        return parameters | {"at": parameters["at"] + 1}, 7

    def penalty(self, parameters):
        return -0.5

    def memory(self):
        return 10


def run_of(model, **settings):
    algorithm = EM(model, RowBlocks(ArrayRows(np.zeros((3, 1)))), EMSettings(**settings))
    state = algorithm.init()
    while not algorithm.done(state):
        state = algorithm.step(state)
    return algorithm, state, algorithm.result(state)


def test_the_ledger_of_a_run_by_hand():
    """Mass 2, penalty −½, Q + ¼ at each M step: F = (½ − log L)/2 after E steps, (¼ − log L)/2 after M steps."""
    _, state, fit = run_of(Falling([-8.0, -4.0, -3.0]), iterations=2, tolerance=0.0)
    assert fit.ledger.log_likelihood.tolist() == [-4, -2, -2, -1.5, -1.5]
    assert fit.ledger.free_energy.tolist() == [4.25, 4.125, 2.25, 2.125, 1.75]
    assert fit.ledger.kl.tolist() == [0, 1.875, 0, 0.375, 0]
    assert fit.ledger.floors.tolist() == [0, 7, 0, 7, 0]
    assert (fit.mass, fit.iterations.tolist(), fit.converged.tolist(), fit.best) == (2.0, [2], [False], 0)
    assert (fit.objectives.tolist(), fit.log_likelihood, fit.parameters["at"].tolist()) == ([-1.75], -1.5, [2.0])
    assert state.step == 3


def test_a_restart_ends_after_as_many_quiet_iterations_as_patience_says():
    """Gains of F are ½ of those of log L: 1, 0.01, 0.5, 0.01, 0.01; quiet is at most the tolerance."""
    values = np.cumsum([-9.0, 2.0, 0.02, 1.0, 0.02, 0.02, 5.0])
    for patience, iterations in ((1, 2), (2, 5)):
        _, _, fit = run_of(Falling(values), iterations=6, tolerance=0.02, patience=patience)
        assert (fit.iterations.tolist(), fit.converged.tolist()) == ([iterations], [True])
    _, _, fit = run_of(Falling(values), iterations=6, tolerance=0.005, patience=1)
    assert (fit.iterations.tolist(), fit.converged.tolist()) == ([6], [False])
    _, _, fit = run_of(Falling([-1.0, -0.5, -0.25]), iterations=2, tolerance=0.25, patience=1)
    assert fit.iterations.tolist() == [1]  # a gain of the tolerance itself is quiet


def test_restarts_are_counted_and_the_best_is_kept():
    algorithm, state, fit = run_of(Falling([-8.0, -4.0], [-8.0, -1.0], [-8.0, -1.0]), iterations=1, tolerance=0.0, restarts=3)
    assert (fit.best, fit.objectives.tolist(), fit.iterations.tolist()) == (1, [-2.25, -0.75, -0.75], [1, 1, 1])
    assert algorithm.progress(state).bound == 6
    state = algorithm.step(algorithm.init())
    assert (algorithm.progress(state).step, algorithm.progress(state).figure) == (1, "restart 1, log-likelihood -4")
    state = algorithm.step(state)
    assert algorithm.progress(state).figure == ""  # the second restart has begun
    state = algorithm.step(state)
    assert algorithm.progress(state).figure == "restart 2, log-likelihood -4"
    assert RestartState({}, np.empty((0, 4))).objective == -np.inf
    like = algorithm.state_template()
    assert (like.step, like.now.values.shape, like.best.iterations, like.now.parameters) == (0, (0, 4), 0, {})
    assert isinstance(like, EMState)


def test_a_run_without_a_likelihood_is_told_and_settings_have_their_least():
    with pytest.raises(Diverged, match="the log-likelihood is nan after 1 iterations"):
        run_of(Falling([-1.0, np.nan]), iterations=3)
    assert EMSettings(iterations=0, tolerance=0.0, patience=1, restarts=1).patience == 1
    for wrong in ({"iterations": -1}, {"tolerance": -1e-9}, {"patience": 0}, {"restarts": 0}):
        with pytest.raises(BadUsage, match="iterations and tolerance must not be negative; patience and restarts must be at least 1"):
            EMSettings(**wrong)
    flat = ObjectiveHistory(np.zeros(3), np.array([3.0, 1.0, 2.5]), np.zeros(3), np.zeros(3, dtype=int))
    assert flat.largest_rise == 1.5
    assert replace(flat, free_energy=np.array([3.0, 2.0, 1.0])).largest_rise == 0.0


# starts


def test_moments_of_the_rows_nearest_to_a_centre():
    """Three centres of two columns: one with five rows, one with two (too few for a covariance of its own), one without any."""
    X = np.array([[0.0, 0], [1, 0], [0, 2], [-1, 0], [0, -2], [9, 1], [11, 1]])
    w = np.array([1.0, 2, 1, 2, 1, 3, 1])
    centre, scale = np.array([[0.2, 0.1], [10.0, 1.0], [0.0, 50.0]]), np.array([1.0, 2.0])
    found = cluster_initialization.moments_by_nearest_centre(RowBlock(0, X, None, w), centre, scale)
    assert found["weight"] == pytest.approx(np.array([8.0, 5.0, 1.0]) / 14)
    np.testing.assert_allclose(found["mean"], [[0, 0], [9.5, 1], [0, 50]])
    own = np.cov(X[:5].T, aweights=w[:5], ddof=0)
    both = (7 * own + 4 * np.cov(X[5:].T, aweights=w[5:], ddof=0)) / 11
    np.testing.assert_allclose(found["covariance"], [own, both, both])
    labelled = cluster_initialization.moments_by_nearest_centre(RowBlock(0, X, np.array([2, -1, -1, -1, -1, -1, -1]), w), centre, scale)
    np.testing.assert_allclose(labelled["mean"][2], X[0])
    tied = cluster_initialization.moments_by_nearest_centre(
        RowBlock(0, np.array([[0.0, 8.0]]), None, None), np.array([[5.0, 8.0], [0.0, 0.0]]), np.array([1.0, 2.0])
    )
    assert tied["weight"] == pytest.approx([1 / 3, 2 / 3])  # at 5 of the first and at 4 of the second, in units of the columns


def test_greedy_centres_are_drawn_by_squared_distance_and_the_best_of_a_few_is_taken():
    """Three heaps far apart: each gets one; rows without weight are no centres; fewer rows than centres are repeated."""
    X = np.repeat([[0.0, 0.0], [100.0, 0.0], [0.0, 300.0], [7e3, 7e3]], 25, axis=0) + 0.1 * rows(100)[:, :2]
    w = np.where(np.arange(100) < 75, 1.0, 0.0)
    for seed in range(5):
        chosen = cluster_initialization.greedy_kmeans_pp(X, 3, np.random.default_rng(seed), w)
        assert sorted((chosen // 25).tolist()) == [0, 1, 2]
        assert set((cluster_initialization.greedy_kmeans_pp(X, 4, np.random.default_rng(seed)) // 25).tolist()) == {0, 1, 2, 3}
    few = cluster_initialization.greedy_kmeans_pp(np.ones((3, 2)), 5, np.random.default_rng(0), np.array([1.0, 0.0, 1.0]))
    assert set(few.tolist()) <= {0, 2}
    assert len(few) == 5


class Listed:
    """Stands for a generator whose draws are given."""

    def __init__(self, first, draws):
        self.first, self.draws, self.asked = first, iter(draws), []

    def choice(self, n, p):
        return self.first

    def random(self, count):
        self.asked.append(count)
        return np.array(next(self.draws))


def test_candidates_of_a_next_centre_by_hand():
    """From 0 the squared distances of 0, 1, 3, 10 are 0, 1, 9, 100; a share of their sum falls in a row's part.

    Of 1, 3 and 10 as a second centre 10 leaves 1 + 9, 3 leaves 1 + 49, 1 leaves 4 + 81.
    """
    X = np.array([[0.0], [1.0], [3.0], [10.0]])
    random = Listed(0, [[0.5 / 110, 5 / 110, 0.999], [0.05, 0.95, 0.5]])
    assert cluster_initialization.greedy_kmeans_pp(X, 3, random).tolist() == [
        0,
        3,
        2,
    ]  # 2 + log 3 = 3 trials; then 3 leaves 1, and 1 leaves 4
    assert random.asked == [3, 3]
    assert cluster_initialization.greedy_kmeans_pp(X, 2, Listed(0, [[0.5 / 110, 5 / 110]])).tolist() == [0, 2]


def test_rows_are_drawn_once_where_there_are_enough_with_a_weight():
    X, random = np.arange(6.0)[:, None], np.random.default_rng(0)
    w = np.array([1.0, 0, 2, 0, 0, 1])
    assert sorted(cluster_initialization.draw_rows(RowBlock(0, X, None, w), 3, random).tolist()) == [0, 2, 5]
    assert set(cluster_initialization.draw_rows(RowBlock(0, X, None, w), 4, random).tolist()) <= {0, 2, 5}
    assert sorted(cluster_initialization.draw_rows(RowBlock(0, X, None, None), 6, random).tolist()) == [0, 1, 2, 3, 4, 5]
    assert len(cluster_initialization.draw_rows(RowBlock(0, X, None, None), 7, random)) == 7


def test_starts_of_labels_are_their_means_and_gaps_those_of_columns():
    X, labels = rows(9), np.array([0, 0, 1, 1, -1, -1, -1, 1, -1])
    found = cluster_initialization.initial_centres(RowBlock(0, X, labels, None), 3, "random", np.random.default_rng(0), np.ones(3))
    np.testing.assert_allclose(found[:2], [X[:2].mean(axis=0), X[[2, 3, 7]].mean(axis=0)])
    assert (found[2] == X).all(axis=1).any()
    with pytest.raises(DataError, match="label 1 is out of range: there are 1 components, 0 to 0"):
        cluster_initialization.initial_centres(RowBlock(0, X, labels, None), 1, "random", np.random.default_rng(0), np.ones(3))
    holes = X.copy()
    holes[4, 1] = np.nan
    moments = RowMoments(9, 9.0, np.array([7.0, 8.0, 9.0]), np.eye(3), 1)
    assert cluster_initialization.fill_with_means(RowBlock(0, holes, None, None), moments).X[4].tolist() == [X[4, 0], 8.0, X[4, 2]]


# mixtures and clusters


def test_the_floor_of_a_mixture_is_a_millionth_of_the_mean_variance_or_of_the_size_of_rows():
    X = rows()
    assert gmm.prepare_gmm(RowBlocks(ArrayRows(X)), 2).floor == pytest.approx(1e-6 * X.var(axis=0).mean())
    assert gmm.prepare_gmm(RowBlocks(ArrayRows(np.full((4, 2), 3.0))), 2).floor == pytest.approx(1e-12 * 10)
    assert gmm.prepare_gmm(RowBlocks(ArrayRows(X)), 2, floor=0.0).floor == 0.0
    for wrong in ({"components": 0}, {"components": 2, "floor": -1.0}):
        with pytest.raises(BadUsage, match="the number of components must be at least 1, and the variance floor must not be negative"):
            gmm.prepare_gmm(RowBlocks(ArrayRows(X)), **wrong)
    with pytest.raises(DataError, match=r"the initial model has means of shape \(2, 2\), expected \(2, 3\)"):
        gmm.prepare_gmm(RowBlocks(ArrayRows(X)), 2, start={"mean": np.zeros((2, 2))})


def test_a_mixture_begins_with_the_rows_nearest_to_its_centres_and_again_from_means_that_are_given():
    X = rows()
    model = gmm.prepare_gmm(RowBlocks(ArrayRows(X)), 3)
    centre = np.array([[0.0, 0, 0], [6, 0, 1], [0, 5, 2]])
    scaled = (X[:, None] - centre) / X.std(axis=0)
    nearest = np.square(scaled).sum(axis=2).argmin(axis=1)
    given = model.start_from_means(centre).given
    for k in range(3):
        np.testing.assert_allclose(given["mean"][k], X[nearest == k].mean(axis=0))
        np.testing.assert_allclose(given["covariance"][k], np.cov(X[nearest == k].T, ddof=0))
    assert given["weight"] == pytest.approx((np.bincount(nearest) + 1) / 93)
    begun = model.start(0)
    assert {"weight", "mean", "covariance"} == set(begun)
    assert (begun["mean"] != model.start(1)["mean"]).any()


def test_minibatches_by_hand():
    """Runs of 64 neighbouring rows; every centre is the mean of all rows that it has taken in, by their weights."""
    X = rows(70)
    w = np.random.default_rng(1).uniform(0.5, 2, 70)
    source = RowBlocks(ArrayRows(X, weight=w))
    task = kmeans.MiniBatch(source.rows, kmeans.prepare_kmeans(source, 3, seed=5, start_centres=X[:3]), 2)
    state, centre, taken = task.init(), X[:3].copy(), np.zeros(3)
    like = task.state_template()
    assert (like.step, like.centre.shape, like.taken.shape) == (0, (3, 3), (3,))
    assert (task.progress(state).step, task.progress(state).bound) == (0, 3)
    for step in range(2):
        at = kmeans.generator(5, kmeans.Stream.MINIBATCH, step=step).integers(7, size=32)
        own = (at[:, None] + np.arange(64)).ravel()
        squares = np.square(X[own][:, None] - centre).sum(axis=2)
        nearest, error = squares.argmin(axis=1), np.average(squares.min(axis=1), weights=w[own])
        for k in range(3):
            mass = w[own[nearest == k]].sum()
            if mass:
                taken[k] += mass
                centre[k] += (w[own[nearest == k]] @ X[own[nearest == k]] - mass * centre[k]) / taken[k]
        state = task.step(state)
        assert not task.done(state)
        assert state.error == pytest.approx(error, rel=1e-6)
        assert task.progress(state).figure == f"squared error {state.error:.5g}"
        np.testing.assert_allclose(state.centre, centre)
        np.testing.assert_allclose(state.taken, taken)
    state = task.step(state)
    assert task.done(state)
    fit = task.result(state)
    squares = np.square(X[:, None] - centre).sum(axis=2).min(axis=1)
    assert fit.log_likelihood == pytest.approx(-w @ squares / w.sum()) == fit.objectives[0] == -fit.ledger.free_energy[0]
    assert (fit.iterations.tolist(), fit.converged.tolist(), fit.best, fit.mass) == ([0], [True], 0, pytest.approx(w.sum()))
    few = RowBlocks(ArrayRows(X[:10]))
    short = kmeans.MiniBatch(few.rows, kmeans.prepare_kmeans(few, 1, start_centres=X[:1]), 1)
    np.testing.assert_allclose(short.step(short.init()).centre, [X[:10].mean(axis=0)])


def test_fitting_with_minibatches_is_of_k_means_where_they_are_asked_for():
    task = made("kmeans", (3,), batches=3)[0].minibatch()
    assert (task.batches, task.init().centre.shape) == (3, (3, 3))
    assert made("kmeans", (3,))[0].minibatch() is None


def test_values_at_their_limits_are_models():
    _, value = made("gmm", (2,), bayes=True)
    one = replace(value, freedom=np.full(2, 2.001))
    one.validate()
    assert (
        replace(one, freedom=None, precision=None, concentration=None, weight=np.array([0.999, 0.001]), mass=1000.0).occupied_components
        == 2
    )
    assert (
        replace(one, freedom=None, precision=None, concentration=None, weight=np.array([0.9991, 0.0009]), mass=1000.0).occupied_components
        == 1
    )
    assert replace(one, freedom=np.array([4.0, 3.99])).occupied_components == 1
    for changes, message in (
        ({"freedom": np.full(2, 2.0)}, "/freedom must be above the number of columns minus one"),
        ({"freedom": None}, "/concentration, /precision and /freedom must be all present or all absent"),
        ({"weight": np.array([1.1, -0.1])}, "/weight does not hold probabilities, which are at least 0 and sum to 1"),
        ({"mass": 0.0}, "/mass is 0, but it is the weight of all training rows and must be above 0"),
        ({"mass": np.inf}, "/mass is inf, but it is the weight of all training rows and must be above 0"),
    ):
        with pytest.raises(DataError, match=message):
            replace(value, **changes).validate()
    for best in (-1, 1):
        with pytest.raises(DataError, match=f"/restarts/best is {best}, but there are only 1 restarts"):
            replace(value.restarts, best=best).validate()
    _, factors = made("ppca", (1,))
    for changes in ({"noise": np.array([0.0, 1.0, 1.0])}, {"noise": -factors.noise}, {"model": "pca"}):
        with pytest.raises(DataError, match="/noise must be 0 for pca and above 0 for the other models"):
            replace(factors, **changes).validate()
    replace(factors, model="pca", noise=np.zeros(3)).validate()
    assert isinstance(factors, artifacts.FactorModel)
