"""Gaussian mixtures against closed forms, scikit-learn and plain formulas."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from herdcli.em import driver
from herdcli.em.mixture import gaussian_densities, gmm
from herdcli.errors import BadUsage, DataError, Diverged
from herdcli.numerics import block_statistics

FAMILIES = {"full": "full", "tied": "tied", "diagonal": "diag", "spherical": "spherical"}


def data(n: int = 600, columns: int = 3, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    mean, root = random.normal(size=(3, columns)) * 3.0, random.normal(size=(3, columns, columns))
    which = random.integers(3, size=n)
    return mean[which] + np.einsum("nij,nj->ni", root[which], random.normal(size=(n, columns)))


def start(X: np.ndarray, K: int, seed: int = 0) -> dict[str, np.ndarray]:
    chosen = np.random.default_rng(seed).choice(len(X), K, replace=False)
    variance = np.nanvar(X, axis=0).mean()
    return {"weight": np.full(K, 1 / K), "mean": X[chosen].copy(), "covariance": np.repeat(variance * np.eye(X.shape[1])[None], K, axis=0)}


def fit(
    X: np.ndarray, K: int, iterations: int = 50, labels=None, weight=None, restarts: int = 1, tolerance: float = 0.0, **options
) -> tuple:
    source = block_statistics.RowBlocks(block_statistics.ArrayRows(X, labels, weight))
    model = gmm.prepare_gmm(source, K, **options)
    return driver.run_em(driver.EM(model, source, driver.EMSettings(iterations, tolerance, restarts=restarts))), model


def log_joint(X: np.ndarray, parameters: dict) -> np.ndarray:
    """(n, K) by the formula, one component at a time."""
    found = []
    for weight, mean, covariance in zip(parameters["weight"], parameters["mean"], parameters["covariance"], strict=True):
        z = X - mean
        squares = np.einsum("nd,nd->n", z, np.linalg.solve(covariance, z.T).T)
        found.append(np.log(weight) - 0.5 * (squares + np.linalg.slogdet(2 * np.pi * covariance)[1]))
    return np.array(found).T


@pytest.mark.parametrize("family", FAMILIES)
def test_log_likelihood_is_scikit_learn_s_after_every_iteration(family: str) -> None:
    mixture = pytest.importorskip("sklearn.mixture")
    X, K = data(), 4
    given = start(X, K)
    found, _ = fit(X, K, 20, covariance=family, floor=0.0, start=given)
    precision = np.linalg.inv(given["covariance"])
    shape = {"full": precision, "tied": precision[0], "diagonal": np.diagonal(precision, axis1=1, axis2=2), "spherical": precision[:, 0, 0]}
    for iterations in (1, 2, 5, 10, 20):
        rival = mixture.GaussianMixture(
            K,
            covariance_type=FAMILIES[family],
            reg_covar=0,
            max_iter=iterations,
            tol=0,
            weights_init=given["weight"],
            means_init=given["mean"],
            precisions_init=shape[family],
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rival.fit(X)
        assert found.ledger.log_likelihood[2 * iterations] == pytest.approx(rival.score(X), abs=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["full", "tied"])
def test_moments_of_the_mixture_are_those_of_the_sample_after_every_m_step(family: str, weighted: bool) -> None:
    X = data()
    w = np.random.default_rng(3).random(len(X)) if weighted else np.ones(len(X))
    for iterations in (1, 2, 7):
        p = fit(X, 4, iterations, covariance=family, floor=0.0, start=start(X, 4), weight=w if weighted else None)[0].parameters
        mean = p["weight"] @ p["mean"]
        second = np.einsum("k,kij->ij", p["weight"], p["covariance"] + p["mean"][:, :, None] * p["mean"][:, None, :])
        assert mean == pytest.approx(np.average(X, axis=0, weights=w), abs=1e-12)
        assert second - np.outer(mean, mean) == pytest.approx(np.cov(X.T, aweights=w, ddof=0), abs=1e-12)


def test_one_component_is_the_closed_form() -> None:
    X = data()
    found, _ = fit(X, 1, 2)
    covariance = np.cov(X.T, ddof=0)
    assert found.parameters["mean"][0] == pytest.approx(X.mean(axis=0), abs=1e-12)
    assert found.parameters["covariance"][0] == pytest.approx(covariance, abs=1e-12)
    expected = -0.5 * (X.shape[1] + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert found.log_likelihood == pytest.approx(expected, abs=1e-12)


def test_free_energy_is_the_expected_energy_less_the_entropy_at_each_half_step() -> None:
    """The bits-back identity, with responsibilities and entropy taken from the formula and not from the ledger."""
    X = data()
    given = start(X, 3)
    ledger = fit(X, 3, 1, floor=0.0, start=given)[0].ledger
    after = fit(X, 3, 1, floor=0.0, start=given)[0].parameters
    a, b = log_joint(X, given), log_joint(X, after)
    r = np.exp(a - logsumexp(a, axis=1)[:, None])
    entropy = -np.sum(r * np.log(np.where(r > 0, r, 1.0)), axis=1)
    log_posterior = b - logsumexp(b, axis=1)[:, None]
    kl = np.sum(r * (np.log(np.where(r > 0, r, 1.0)) - log_posterior), axis=1)
    assert ledger.log_likelihood[:2] == pytest.approx([logsumexp(a, axis=1).mean(), logsumexp(b, axis=1).mean()], abs=1e-12)
    assert ledger.free_energy[:2] == pytest.approx(
        [np.mean(-(r * a).sum(axis=1) - entropy), np.mean(-(r * b).sum(axis=1) - entropy)], abs=1e-12
    )
    assert ledger.kl[:2] == pytest.approx([0.0, kl.mean()], abs=1e-12)
    assert kl.mean() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["plain", "weights", "labels", "missing", "floor"])
def test_free_energy_never_rises(family: str, kind: str) -> None:
    X, random, options = data(300), np.random.default_rng(5), {}
    if kind == "missing":
        X[random.random(X.shape) < 0.2] = np.nan
    elif kind == "weights":
        options["weight"] = random.random(len(X))
    elif kind == "labels":
        options["labels"] = random.integers(-1, 3, len(X))
    elif kind == "floor":
        options["floor"] = 2.0
    ledger = fit(X, 4, 30, covariance=family, seed=1, **options)[0].ledger
    assert ledger.largest_rise < 1e-12
    assert ledger.free_energy[-1] < ledger.free_energy[0] - 1e-3
    assert np.isfinite(ledger.kl).all()
    assert ledger.kl.min() > -1e-12
    assert (ledger.floors.sum() > 0) == (kind == "floor")


def test_labelled_rows_are_the_supervised_case() -> None:
    X = data()
    labels = np.random.default_rng(2).integers(0, 2, len(X))
    p = fit(X, 2, 1, labels=labels)[0].parameters
    for k in (0, 1):
        assert p["weight"][k] == pytest.approx(np.mean(labels == k))
        assert p["mean"][k] == pytest.approx(X[labels == k].mean(axis=0), abs=1e-12)
        assert p["covariance"][k] == pytest.approx(np.cov(X[labels == k].T, ddof=0), abs=1e-11)


def test_a_weight_of_two_is_a_row_twice() -> None:
    X = data(200)
    given, twice = start(X, 3), np.where(np.arange(200) < 50, 2.0, 1.0)
    a = fit(X, 3, 10, weight=twice, start=given)[0]
    b = fit(np.concatenate([X, X[:50]]), 3, 10, start=given)[0]
    assert a.log_likelihood == pytest.approx(b.log_likelihood, abs=1e-10)
    assert a.parameters["mean"] == pytest.approx(b.parameters["mean"], abs=1e-8)


def test_missing_values_of_one_component_are_those_of_a_gaussian() -> None:
    """The log-likelihood of what is there is that of the marginals, and its gradient by the mean vanishes at the end."""
    X = data(120)
    X[np.random.default_rng(4).random(X.shape) < 0.3] = np.nan
    X = X[~np.isnan(X).all(axis=1)]
    found, _ = fit(X, 1, 1000, floor=0.0)
    mean, covariance = found.parameters["mean"][0], found.parameters["covariance"][0]
    total, gradient = 0.0, np.zeros(3)
    for row in X:
        o = ~np.isnan(row)
        inverse = np.linalg.inv(covariance[np.ix_(o, o)])
        z = row[o] - mean[o]
        total += -0.5 * (z @ inverse @ z + np.linalg.slogdet(2 * np.pi * covariance[np.ix_(o, o)])[1])
        gradient[o] += inverse @ z
    assert found.log_likelihood == pytest.approx(total / len(X), abs=1e-12)
    assert gradient == pytest.approx(np.zeros(3), abs=1e-6)


def test_responsibilities_of_rows_with_gaps() -> None:
    X = data(100)
    found, model = fit(X, 3, 5)
    broken = X.copy()
    broken[::2, 1] = np.nan
    r, evidence = model.responsibilities(found.parameters, broken)
    part = {
        k: v[..., [0, 2]] if k == "mean" else v[:, [0, 2]][:, :, [0, 2]] if k == "covariance" else v for k, v in found.parameters.items()
    }
    for rows, joint in ((slice(1, None, 2), log_joint(X, found.parameters)), (slice(0, None, 2), log_joint(X[:, [0, 2]], part))):
        assert evidence[rows] == pytest.approx(logsumexp(joint, axis=1)[rows], abs=1e-11)
        assert r[rows] == pytest.approx(np.exp(joint - logsumexp(joint, axis=1)[:, None])[rows], abs=1e-11)


def test_narrow_components_lose_no_digits() -> None:
    """Components a millionth as wide as they are apart; by the expansion alone ten digits would be gone."""
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(size=(200, 2)) * 1e-6 + at for at in (-1.0, 1.0)])
    given = {
        "weight": np.full(2, 0.5),
        "mean": np.array([[-1.0, -1.0], [1.0, 1.0]]),
        "covariance": np.repeat(1e-12 * np.eye(2)[None], 2, axis=0),
    }
    found, model = fit(X, 2, 3, floor=0.0, start=given)
    assert model._prepared_gaussians(found.parameters).narrow.all()
    assert found.log_likelihood == pytest.approx(logsumexp(log_joint(X, found.parameters), axis=1).mean(), abs=1e-8)
    for k, part in enumerate((X[:200], X[200:])):
        assert found.parameters["covariance"][k] == pytest.approx(np.cov(part.T, ddof=0), rel=1e-8, abs=1e-20)


def test_features_are_the_density() -> None:
    random = np.random.default_rng(0)
    X, mean = random.normal(size=(7, 4)), random.normal(size=(2, 4))
    root = np.tril(random.normal(size=(2, 4, 4))) + 3 * np.eye(4)
    found = gaussian_densities.prepare_gaussians(np.log([0.3, 0.7]), mean, root, X.mean(axis=0), 1.0, diagonal=False)
    covariance = np.linalg.inv(root.transpose(0, 2, 1) @ root)
    expected = log_joint(X, {"weight": [0.3, 0.7], "mean": mean, "covariance": covariance})
    assert pytest.approx(expected, abs=1e-11) == found.log_joint(gaussian_densities.quadratic_features(X - found.centre, False), X).T


def test_duplicates_are_floored_and_told() -> None:
    X = np.concatenate([np.zeros((30, 2)), data(100, 2)])
    found, model = fit(
        X, 2, 30, start=start(X, 2) | {"mean": np.array([[0.0, 0.0], X[40]]), "covariance": np.array([1e-3 * np.eye(2), 9 * np.eye(2)])}
    )
    assert found.ledger.floors.max() >= 2
    assert np.linalg.eigvalsh(found.parameters["covariance"] / np.outer(model.scale, model.scale)).min() >= model.floor * (1 - 1e-9)
    with pytest.raises(Diverged, match="component 0 is singular") as caught:
        fit(np.zeros((10, 2)), 1, floor=0.0)
    assert "--floor" in (caught.value.hint or "")


def test_rows_all_alike_and_constant_columns_are_fitted_with_the_floor() -> None:
    assert fit(np.ones((10, 2)), 2, 3)[0].ledger.largest_rise < 1e-9
    X = np.column_stack([np.full(200, 3.0), data(200, 2)])
    found, model = fit(X, 2, 10)
    assert found.ledger.floors[1] == 2
    assert found.parameters["covariance"][:, 0, 0] == pytest.approx(model.floor)


def test_bad_settings_are_one_line() -> None:
    with pytest.raises(DataError, match="2 rows are too few for 3 components"):
        fit(data(2), 3)
    with pytest.raises(BadUsage, match="unknown covariance 'round'"):
        fit(data(9), 2, covariance="round")
    with pytest.raises(BadUsage, match="unknown init 'best'"):
        fit(data(9), 2, init="best")
    with pytest.raises(DataError, match="label 2 is out of range: there are 2 components, 0 to 1"):
        fit(data(9), 2, labels=np.full(9, 2))


def test_the_best_restart_is_kept_and_all_are_told() -> None:
    found, _ = fit(data(300), 4, 40, restarts=5, init="random", tolerance=1e-7)
    assert len(found.objectives) == len(found.iterations) == len(found.converged) == 5
    assert found.objectives[found.best] == max(found.objectives) == pytest.approx(found.log_likelihood)
    assert len(set(found.objectives)) > 1
    assert len(found.ledger.free_energy) == 2 * found.iterations[found.best] + 1


def test_criteria_are_scikit_learn_s() -> None:
    mixture = pytest.importorskip("sklearn.mixture")
    X = data()
    for family, name in FAMILIES.items():
        rival = mixture.GaussianMixture(3, covariance_type=name, random_state=0).fit(X)
        mine = gmm.information_criteria(rival.score(X) * len(X), len(X), gmm.parameter_count(3, X.shape[1], family))
        assert (mine["aic"], mine["bic"]) == (pytest.approx(rival.aic(X)), pytest.approx(rival.bic(X)))


@pytest.mark.parametrize("columns", [6, 40])
def test_wide_rows_are_whitened_to_the_same_statistics_as_features_give(columns, monkeypatch):
    random = np.random.default_rng(1)
    X = random.normal(size=(300, columns)) + 3.0 * random.integers(2, size=(300, 1))
    weight = random.uniform(size=300)
    source = block_statistics.RowBlocks(block_statistics.ArrayRows(X, weight=weight))
    found = []
    for limits in ((0, 0), (1000, 1000)):
        monkeypatch.setattr("herdcli.em.mixture.gaussian_densities.WIDE", limits)
        model = gmm.prepare_gmm(source, 3)
        parameters = model.start(0)
        (block,) = source.take(0, 1)
        sums = model.complete_statistics(parameters, model.expect(parameters)(block))
        found.append((sums["log_likelihood"], *model.maximise(parameters, sums)[0].values(), model.responsibilities(parameters, X)[0]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_several_components_of_each_class_are_mixtures_of_their_own_rows() -> None:
    """With all labels known the classes do not meet: each is the mixture that its own rows make, from the same start."""
    random = np.random.default_rng(7)
    X = random.normal(size=(400, 2)) + 4.0 * random.integers(0, 3, size=(400, 1))
    y = random.integers(0, 2, size=400)
    X[y == 1, 0] *= 2.0
    whole = gmm.prepare_gmm(block_statistics.RowBlocks(block_statistics.ArrayRows(X, labels=y)), 4)
    whole = replace(whole, per_class=2)
    begun = whole.start(0)
    given = replace(whole, given=begun)
    found = driver.run_em(
        driver.EM(
            given, block_statistics.RowBlocks(block_statistics.ArrayRows(X, labels=y)), driver.EMSettings(iterations=30, tolerance=0.0)
        )
    )
    assert found.ledger.largest_rise < 1e-12
    for label in (0, 1):
        own = slice(2 * label, 2 * label + 2)
        start = {name: item[own] for name, item in begun.items()}
        start["weight"] = start["weight"] / start["weight"].sum()
        rows = block_statistics.RowBlocks(block_statistics.ArrayRows(X[y == label]))
        alone = driver.run_em(
            driver.EM(gmm.prepare_gmm(rows, 2, start=start), rows, driver.EMSettings(iterations=30, tolerance=0.0))
        ).parameters
        assert found.parameters["mean"][own] == pytest.approx(alone["mean"], rel=1e-7)
        assert found.parameters["covariance"][own] == pytest.approx(alone["covariance"], rel=1e-7)
        assert found.parameters["weight"][own] == pytest.approx(alone["weight"] * (y == label).mean(), rel=1e-7)


def test_half_labelled_rows_share_out_the_others_and_the_energy_never_rises() -> None:
    random = np.random.default_rng(8)
    X = random.normal(size=(300, 2)) + 6.0 * random.integers(0, 4, size=(300, 1))
    y = np.where(random.random(300) < 0.5, (X[:, 0] > 9).astype(int), -1)
    model = replace(gmm.prepare_gmm(block_statistics.RowBlocks(block_statistics.ArrayRows(X, labels=y)), 4), per_class=2)
    found = driver.run_em(
        driver.EM(model, block_statistics.RowBlocks(block_statistics.ArrayRows(X, labels=y)), driver.EMSettings(iterations=60))
    )
    assert found.ledger.largest_rise < 1e-9
    r = gmm.mixture_posteriors(found.parameters, X)[0]
    classes = r.reshape(300, 2, 2).sum(axis=2).argmax(axis=1)
    assert (classes == (X[:, 0] > 9)).mean() > 0.95


@pytest.mark.parametrize(("least", "expected"), [(0.5, False), (1.0, False), (1.0 + 1e-12, False), (1.001, True), (np.nan, False)])
def test_covariances_are_clear_of_the_floor_only_where_no_eigenvalue_is_at_it(least: float, expected: bool) -> None:
    turned = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
    covariance = np.stack([9.0 * np.eye(4), turned @ np.diag([3.0, 2.0, least, 7.0]) @ turned.T])
    assert gaussian_densities.are_eigenvalues_above_floor(covariance, 1.0) is expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_a_covariance_without_a_root_is_told_by_its_component(bad: float) -> None:
    covariance = np.repeat(np.eye(3)[None], 2, axis=0)
    covariance[1, 0, 0] = bad
    with pytest.raises(Diverged, match="the covariance of component 1 is singular"):
        gaussian_densities.precision_roots(covariance)
