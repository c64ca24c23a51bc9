"""k-means against scikit-learn, and its bounds against none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from herdcli.algorithm import run_algorithm
from herdcli.artifacts import load_checkpoint, save_checkpoint
from herdcli.em import driver
from herdcli.em.mixture import cluster_initialization, gmm, kmeans
from herdcli.errors import DataError
from herdcli.numerics import block_statistics


def data(n: int = 10_000, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, 4)) + 3.0 * random.normal(size=(12, 4))[random.integers(12, size=n)]


def fit(X: np.ndarray, K: int, iterations: int = 100, weight=None, restarts: int = 1, **options) -> driver.EMFit:
    source = block_statistics.RowBlocks(block_statistics.ArrayRows(X, weight=weight))
    return driver.run_em(
        driver.EM(kmeans.prepare_kmeans(source, K, **options), source, driver.EMSettings(iterations, 0.0, restarts=restarts))
    )


def test_sum_of_squares_is_scikit_learn_s_from_the_same_start() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    X = data()
    given = X[:20].copy()
    for iterations in (1, 3, 10, 300):
        rival = cluster.KMeans(20, init=given, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd").fit(X)
        found = fit(X, 20, iterations, start_centres=given)
        centre = found.parameters["centre"]
        assert np.square(cdist(X, centre)).min(axis=1).sum() == pytest.approx(rival.inertia_, rel=1e-9)
        assert -found.log_likelihood * len(X) == pytest.approx(rival.inertia_, rel=1e-9)


def test_bounds_save_distances_and_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    X, done = data(), [0]
    original = kmeans.nearest_centres_with_bounds

    def counted(Z, centre):
        done[0] += len(Z)
        return original(Z, centre)

    monkeypatch.setattr(kmeans, "nearest_centres_with_bounds", counted)
    bounded = fit(X, 12, 30, start_centres=X[:12])
    few, done[0] = done[0], 0
    plain = fit(X, 12, 30, start_centres=X[:12], bounded=False)
    assert bounded.parameters["centre"].tobytes() == plain.parameters["centre"].tobytes()
    assert bounded.ledger.free_energy.tobytes() == plain.ledger.free_energy.tobytes()
    assert few < 0.7 * done[0]


def test_it_ends_and_its_ledger_never_rises() -> None:
    found = fit(data(), 8)
    assert found.converged.all()
    assert found.ledger.largest_rise < 1e-12
    assert found.ledger.kl.min() > -1e-12  # what assigning anew gains


def test_it_is_the_limit_of_the_mixture() -> None:
    X = data(500)
    centre = X[:5]
    given = {"weight": np.arange(1.0, 6.0) / 15, "mean": centre, "covariance": np.repeat(np.eye(4)[None] * 1e-6, 5, axis=0)}
    r, _ = gmm.prepare_gmm(block_statistics.RowBlocks(block_statistics.ArrayRows(X)), 5, start=given).responsibilities(given, X)
    assert np.array_equal(r, np.eye(5)[kmeans.nearest_centres_with_bounds(X, centre)[0]])


def test_nearest_is_the_nearest_and_ties_go_to_the_lowest() -> None:
    X, centre = data(3000) + 1e4, data(40, 1) + 1e4
    nearest, upper, lower = kmeans.nearest_centres_with_bounds(X, centre)
    distances = np.sort(cdist(X, centre), axis=1)
    assert np.array_equal(nearest, cdist(X, centre).argmin(axis=1))
    assert (upper >= distances[:, 0]).all()
    assert (lower <= distances[:, 1]).all()
    for dtype in (np.float64, np.float32):  # a file may hold either
        assert kmeans.nearest_centres_with_bounds(np.zeros((2, 1)), np.array([[1.0], [-1.0], [1.0]], dtype=dtype))[0].tolist() == [0, 0]


def test_weights_are_repeats_and_empty_clusters_stay() -> None:
    X = data(300)
    weight = np.where(np.arange(300) % 3 == 0, 2.0, 1.0)
    a, b = fit(X, 4, 20, weight=weight, start_centres=X[:4]), fit(np.concatenate([X, X[::3]]), 4, 20, start_centres=X[:4])
    assert a.parameters["centre"] == pytest.approx(b.parameters["centre"], abs=1e-10)
    far = np.concatenate([X[:3], [[1e6] * 4]])
    assert fit(X, 4, 5, start_centres=far).parameters["centre"][3].tolist() == [1e6] * 4


def test_rows_it_cannot_use_are_refused() -> None:
    with pytest.raises(DataError, match="1 values are missing"):
        fit(np.array([[1.0], [np.nan], [2.0]]), 1)
    with pytest.raises(DataError, match="2 rows are too few for 3 clusters"):
        fit(np.ones((2, 2)), 3)
    assert fit(np.ones((9, 2)), 3).log_likelihood == 0.0


def test_greedy_start_is_better_than_rows_drawn() -> None:
    X = data(2000)
    drawn = [fit(X, 12, 0, init="random", seed=seed).log_likelihood for seed in range(8)]
    greedy = [fit(X, 12, 0, seed=seed).log_likelihood for seed in range(8)]
    assert np.mean(greedy) > np.mean(drawn)


def batched(X: np.ndarray, start: np.ndarray, batches: int) -> kmeans.MiniBatch:
    source = block_statistics.RowBlocks(block_statistics.ArrayRows(X))
    return kmeans.MiniBatch(source.rows, kmeans.prepare_kmeans(source, len(start), start_centres=start), batches)


def test_minibatches_come_near_to_lloyd() -> None:
    X = data()
    start = fit(X, 12, 0).parameters["centre"]
    found = run_algorithm(batched(X, start, 60))
    after = -found.log_likelihood
    lloyd, before = -fit(X, 12, start_centres=start).log_likelihood, -fit(X, 12, 0, start_centres=start).log_likelihood
    assert after == -fit(X, 12, 0, start_centres=found.parameters["centre"]).log_likelihood
    assert after < before
    assert after < 1.03 * lloyd


@pytest.mark.parametrize("stop", [3, 61, 62])
def test_minibatches_and_the_pass_that_judges_them_go_on_from_a_checkpoint(tmp_path, stop: int) -> None:
    """After 60 batches the pass over 140,000 rows has 35 blocks, 16 a step."""
    X = data(140_000)
    whole = batched(X, X[:12], 60)
    expected = run_algorithm(whole)
    state = whole.init()
    for _ in range(stop):
        state = whole.step(state)
    assert not whole.done(state)
    path = str(tmp_path / "c.h5")
    save_checkpoint(path, state, "digest")
    afresh = batched(X, X[:12], 60)
    state = load_checkpoint(path, afresh.state, "digest", template=afresh.state_template)
    while not afresh.done(state):
        state = afresh.step(state)
    found = afresh.result(state)
    assert state.step == afresh.progress(state).bound == 63
    np.testing.assert_array_equal(found.parameters["centre"], expected.parameters["centre"])
    assert found.log_likelihood == expected.log_likelihood


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_float32_products_do_not_decide_which_centre_is_nearest(scale: float, shift: float) -> None:
    """Pairs of centres that differ by less than float32 can tell, and rows beside their midplanes."""
    random = np.random.default_rng(4)
    centre = shift + random.normal(size=(12, 6))
    centre = np.concatenate([centre, centre + 1e-7 * random.normal(size=centre.shape)]) * scale
    X = np.concatenate([centre + 1e-7 * scale * random.normal(size=centre.shape), scale * (shift + random.normal(size=(2000, 6)))])
    nearest, upper, lower = kmeans.nearest_centres_with_bounds(X, centre)
    distances = np.sqrt(np.square(X[:, None] - centre).sum(axis=2))
    assert np.array_equal(distances[np.arange(len(X)), nearest], distances.min(axis=1))
    ordered = np.sort(distances, axis=1)
    assert (upper >= ordered[:, 0]).all()
    assert (lower <= ordered[:, 1]).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [1, 7, 40])
def test_greedy_centres_are_those_of_all_distances_in_float64(columns: int, weighted: bool) -> None:
    X = 1e3 + data(700)[:, np.arange(columns) % 4] + np.random.default_rng(1).normal(size=(700, columns))
    w = np.random.default_rng(2).integers(3, size=700).astype(float) if weighted else np.ones(700)
    random = np.random.default_rng(5)
    chosen = [int(random.choice(700, p=w / w.sum()))]
    nearest = np.square(X - X[chosen[0]]).sum(axis=1)
    while len(chosen) < 25:
        mass = np.cumsum(w * nearest)
        drawn = np.searchsorted(mass, random.random(5) * mass[-1])
        after = [np.minimum(np.square(X - X[i]).sum(axis=1), nearest) for i in drawn]
        best = int(np.argmin([a @ w for a in after]))
        chosen.append(int(drawn[best]))
        nearest = after[best]
    found = cluster_initialization.greedy_kmeans_pp(X, 25, np.random.default_rng(5), w if weighted else None)
    assert found.tolist() == chosen
