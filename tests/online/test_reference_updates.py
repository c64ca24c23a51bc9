"""The closed forms against a generic optimiser, and the identities and inequalities they must keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdcli.online.learners import update_verification
from herdcli.online.learners.reference_updates import diagonal_update, five_diagonal_variances, full_update, update_step
from herdcli.online.model import ALGORITHMS, Settings

seeds = st.integers(0, 10_000)


def example(seed: int, d: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """(μ, Σ, x, C) at random, with margin below 1 for y = +1."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(d) * np.exp(random.uniform(-1, 1))
    factor = random.standard_normal((d, d)) / np.sqrt(d)
    mu = 0.3 * random.standard_normal(d)
    mu = mu if mu @ x < 1 else -mu
    return mu, factor @ factor.T + 0.2 * np.eye(d), x, float(np.exp(random.uniform(-2, 2)))


def test_closed_forms_minimise_the_objective():
    rows = update_verification.verification_rows(5, 4, seed=3)
    assert {(row["covariance"], row["loss"]) for row in rows} == {
        (covariance, loss) for covariance in ("full", "diagonal") for loss in ("squared-hinge", "log", "squared")
    }
    assert all(row["mean_gap"] < 1e-6 and row["covariance_gap"] < 1e-6 for row in rows)


def test_verify_notices_a_wrong_formula(monkeypatch):
    monkeypatch.setattr(update_verification, "CURVATURE", {"squared-hinge": 2.0, "log": 0.25, "squared": 1.0})
    gaps = {(row["covariance"], row["loss"]): row["covariance_gap"] for row in update_verification.verification_rows(2, 3, seed=1)}
    assert gaps["full", "squared-hinge"] > 1e-2
    assert gaps["full", "log"] < 1e-6


@pytest.mark.parametrize("name", ["squared-hinge", "log", "squared"])
def test_the_objective_that_is_minimised_has_the_losses_of_the_paper(name):
    """½ max(0, 1 − m)², log(1 + e^−m) and ½ (1 − m)², and the slopes that differences of them have, on both sides of margin 1."""
    value = {
        "squared-hinge": lambda m: max(0.0, 1 - m) ** 2 / 2,
        "log": lambda m: np.log(1 + np.exp(-m)),
        "squared": lambda m: (1 - m) ** 2 / 2,
    }
    for m in (-1.5, 0.25, 2.0):
        found, slope = update_verification._loss_and_slope(name, m)
        assert found == pytest.approx(value[name](m), rel=1e-14)
        assert slope == pytest.approx((value[name](m + 1e-6) - value[name](m - 1e-6)) / 2e-6, abs=1e-8)


def test_gaps_of_means_below_one_are_absolute(monkeypatch):
    """A closed form whose mean is off by 10⁻³ and whose covariance is off by one in a hundred is told of as that."""

    def wrong(mu, sigma, x, y, settings):
        mean, after = full_update(mu, sigma, x, y, settings)
        assert settings.loss != "squared-hinge" or y * (mu @ x) < 1  # of examples without a loss nothing moves
        means.append(np.abs(mean).max())
        return mean + 1e-3, 1.01 * after

    means: list[float] = []
    monkeypatch.setattr(update_verification, "full_update", wrong)
    rows = [
        row
        for row in update_verification.verification_rows(1, 4, seed=3) + update_verification.verification_rows(1, 4, seed=2)
        if row["covariance"] == "full"
    ]
    for row, largest in zip(rows, means, strict=True):
        assert row["mean_gap"] == pytest.approx(1e-3 / max(1.0, largest), rel=1e-2)
        assert row["covariance_gap"] == pytest.approx(0.01, rel=1e-2)
    assert min(means) < 1.0


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_diagonal_forms_are_ordered(seed):
    mu, sigma, x, C = example(seed)
    s = np.diag(sigma)
    after = {
        (algorithm, form): diagonal_update(mu, s, x, 1.0, Settings(algorithm=algorithm, form=form, C=C))[1]
        for algorithm in ("nherd", "arow")
        for form in ("exact", "project", "drop")
    }
    P, E, D = (after["nherd", form] for form in ("project", "exact", "drop"))
    slack = 1 + 1e-12
    for smaller, larger in ((P, E), (E, D), (D, after["arow", "drop"]), (E, after["arow", "project"])):
        assert (smaller <= larger * slack).all()
    assert np.array_equal(after["arow", "project"], after["arow", "exact"])


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_determinant_and_margin_after_a_full_update(seed):
    mu, sigma, x, C = example(seed)
    m, v = mu @ x, x @ sigma @ x
    for algorithm, power in (("nherd", 2), ("arow", 1)):
        mean, covariance = full_update(mu, sigma, x, 1.0, Settings(algorithm=algorithm, C=C))
        assert np.linalg.det(covariance) / np.linalg.det(sigma) == pytest.approx((1 + C * v) ** -power, rel=1e-8)
        assert x @ covariance @ x == pytest.approx(v / (1 + C * v) ** power, rel=1e-8)
        assert mean @ x == pytest.approx(m + (1 - m) * C * v / (1 + C * v), rel=1e-9)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_full_update_adds_to_the_precision(seed):
    mu, sigma, x, C = example(seed)
    v = x @ sigma @ x
    _, covariance = full_update(mu, sigma, x, 1.0, Settings(C=C))
    assert np.allclose(np.linalg.inv(covariance), np.linalg.inv(sigma) + (2 * C + C * C * v) * np.outer(x, x), rtol=1e-6, atol=1e-6)


@given(seeds, st.sampled_from(["nherd", "arow"]))
@settings(max_examples=30, deadline=None)
def test_forms_agree_on_examples_with_one_nonzero(seed, algorithm):
    mu, sigma, x, C = example(seed)
    s, one = np.diag(sigma).copy(), np.zeros_like(x)
    one[2] = abs(x[2]) * (-1 if mu[2] > 0 else 1)
    base = Settings(algorithm=algorithm, C=C)
    found = [diagonal_update(mu, s, one, 1.0, replace(base, form=form)) for form in ("exact", "project", "drop")]
    full_mean, full = full_update(mu, np.diag(s), one, 1.0, base)
    for mean, variance in found:
        assert np.allclose(mean, full_mean, rtol=1e-12)
        assert np.allclose(variance, np.diag(full), rtol=1e-9)


@pytest.mark.parametrize("algorithm", ["nherd", "arow", "pa1", "pa2", "sop"])
def test_scaled_examples_with_scaled_C_give_the_same_predictions(algorithm):
    k, random = 7.0, np.random.default_rng(5)
    X, y = random.standard_normal((50, 6)), random.choice([-1.0, 1.0], 50)
    margins = []
    for scale in (1.0, k):
        base = Settings(algorithm=algorithm, form="drop", C=0.4 / scale**2)
        mu, s, out = np.zeros(6), np.ones(6), []
        for x, label in zip(X * scale, y, strict=True):
            out.append(mu @ x)
            mu, s = diagonal_update(mu, s, x, label, base)
        margins.append(out)
    assert np.allclose(*margins, rtol=1e-9, atol=1e-12)


def test_arow_on_mistakes_alone_is_the_second_order_perceptron():
    """Cesa-Bianchi, Conconi & Gentile (2005): w = (aI + Σ xx')⁻¹ Σ yx over mistakes, a = 1/C up to the scale of w."""
    random, C = np.random.default_rng(6), 0.5
    X, y = random.standard_normal((80, 5)), random.choice([-1.0, 1.0], 80)
    mu, sigma = np.zeros(5), np.eye(5)
    second, v = np.eye(5) / C, np.zeros(5)
    mistakes = 0
    for x, label in zip(X, y, strict=True):
        theirs = np.linalg.solve(second + np.outer(x, x), v) @ x
        assert np.sign(theirs) == np.sign(mu @ x)
        if label * theirs <= 0:
            second, v, mistakes = second + np.outer(x, x), v + label * x, mistakes + 1
        mu, sigma = full_update(mu, sigma, x, label, Settings(algorithm="sop", C=C))
    assert mistakes > 10
    assert np.allclose(mu, np.linalg.solve(second, v))


def test_the_diagonal_second_order_perceptron_is_arow_s_and_not_the_usual_one():
    """The usual one has w = D⁻¹ Σ yx over mistakes, D their aI + diag Σ xx'; ours has its D, and moves w as AROW does."""
    random, C = np.random.default_rng(6), 0.5
    X, y = random.standard_normal((80, 5)), random.choice([-1.0, 1.0], 80)
    mu, s = np.zeros(5), np.ones(5)
    D, differ = np.ones(5), 0.0
    for x, label in zip(X, y, strict=True):
        m, v = label * (mu @ x), float(s @ x**2)
        moved, shrunk = diagonal_update(mu, s, x, label, Settings(algorithm="sop", C=C))
        if m <= 0:
            D += C * x**2
            arow = mu + label * (1 - m) / (v + 1 / C) * s * x
            assert np.allclose(moved, arow)
            usual = (mu / s + C * label * x) * shrunk  # D w grows by C y x
            differ = max(differ, float(np.abs(usual - moved).max()))
        else:
            assert np.array_equal(moved, mu)
        mu, s = moved, shrunk
        assert np.allclose(1 / s, D)
    assert differ > 0.01


def test_confidence_weighted_step_meets_its_constraint():
    """After a CW step the margin is right with probability η: m' = φ √v'."""
    random = np.random.default_rng(7)
    for _ in range(20):
        mu, sigma, x, _ = example(int(random.integers(10_000)))
        mean, covariance = full_update(mu, sigma, x, 1.0, Settings(algorithm="cw", confidence=0.9))
        phi = 1.2815515655446004
        assert mean @ x >= phi * np.sqrt(x @ covariance @ x) - 1e-9
        if mu @ x < phi * np.sqrt(x @ sigma @ x):
            assert mean @ x == pytest.approx(phi * np.sqrt(x @ covariance @ x), rel=1e-9)


def test_soft_confidence_weighted_steps_are_bounded_or_soft():
    base = Settings(algorithm="scw1", C=0.1, confidence=0.9)
    assert update_step(base, -5.0, 1.0)[0] == 0.1
    large = update_step(replace(base, algorithm="scw2", C=1e12), -1.0, 1.0)[0]
    assert large == pytest.approx(update_step(replace(base, algorithm="cw"), -1.0, 1.0)[0], rel=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_empty_example_changes_nothing(algorithm):
    mu, s = np.array([0.5, -1.0]), np.array([1.0, 0.25])
    for after, before in zip(diagonal_update(mu, s, np.zeros(2), 1.0, Settings(algorithm=algorithm, C=1.0)), (mu, s), strict=True):
        assert np.array_equal(after, before)


def test_figure_2_has_the_papers_order_of_areas():
    area = {name: np.pi * np.sqrt(s.prod()) for name, s in five_diagonal_variances(np.array([1.0, 2.0]), 1.0).items()}
    assert sorted(area, key=area.get) == ["NHERD_P", "NHERD_E", "AROW_P", "NHERD_D", "AROW_D"]
    assert area["NHERD_E"] == pytest.approx(np.pi * np.sqrt(1 / (2**2 * 5**2)))


def test_passive_aggressive_agrees_with_scikit_learn():
    pytest.importorskip("sklearn", minversion="1.8")  # earlier ones take these learning rates and compute something else
    from sklearn import linear_model

    random = np.random.default_rng(8)
    X, y = random.standard_normal((40, 5)), random.choice([-1.0, 1.0], 40)
    for algorithm in ("pa1", "pa2"):
        theirs = linear_model.SGDClassifier(
            loss="hinge", penalty=None, learning_rate=algorithm, eta0=0.3, shuffle=False, fit_intercept=False, random_state=0
        )
        theirs.partial_fit(X, y, classes=[-1, 1])
        mu, s = np.zeros(5), np.ones(5)
        for x, label in zip(X, y, strict=True):
            mu, s = diagonal_update(mu, s, x, label, Settings(algorithm=algorithm, C=0.3))
        assert np.allclose(mu, theirs.coef_[0], rtol=1e-9)


def test_a_multiclass_update_counts_the_variances_of_both_classes():
    """arow by hand: Δ has x for the true class and −x for its rival, so v = x'(Σ_y + Σ_z)x and both means move by (1 − m)/(v + 1/C) Σ x."""
    from herdcli import fast
    from herdcli.online.learners.reference_updates import settings_as_codes

    table = np.zeros((2, 2, 3))
    table[1] = [[0.2, 0.3, -1.0], [0.5, 0.9, 0.7]]
    x, C, label = 2.0, 1.5, np.array([0], dtype=np.int32)
    row = (np.array([0, 1]), np.array([1], dtype=np.int32), np.array([x]), label, None)
    rule = settings_as_codes(Settings(algorithm="arow", C=C))
    fast.learn_multiclass(table, *row, rule, True, np.zeros(2), np.zeros((1, 3)), np.zeros((1, 3)))
    margin, v = x * (0.2 - 0.3), x * x * (0.5 + 0.9)
    alpha, s = (1 - margin) / (v + 1 / C), np.array([0.5, 0.9])
    assert np.allclose(table[1, 0], [0.2 + alpha * 0.5 * x, 0.3 - alpha * 0.9 * x, -1.0])
    assert np.allclose(table[1, 1], [*(s / (1 + C * x * x * s)), 0.7])
