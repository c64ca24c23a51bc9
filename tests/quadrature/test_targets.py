"""Targets: closed-form embeddings against quadrature and sampling, inverse CDFs, orthant probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from herdcli.errors import BadUsage, DataError
from herdcli.quadrature import input_preparation, sobol_sequence
from herdcli.quadrature.embeddings import closed_form_embeddings
from herdcli.quadrature.embeddings.closed_form_embeddings import closed_form_embedding
from herdcli.quadrature.kernels import kernel_parsing
from herdcli.quadrature.targets import MixtureTarget, RowTarget, TrigonometricTarget, UniformTarget, make_sign_target

BOX = UniformTarget(np.array([-0.5]), np.array([1.7]))
UNIT = UniformTarget(np.zeros(1), np.ones(1))
MIXTURE = MixtureTarget(np.array([0.3, 0.7]), np.array([[-1.0], [2.0]]), np.array([[[0.3]], [[1.4]]]))
WAVES = TrigonometricTarget(np.array([0.3, -1.0, 0.4]), np.array([0.5, 0.2, 0.9]))


def density(target):
    """The density and its support, written down independently."""
    if isinstance(target, UniformTarget):
        return lambda y: 1 / float(target.high[0] - target.low[0]), float(target.low[0]), float(target.high[0])
    if isinstance(target, TrigonometricTarget):
        i = np.arange(1, 4)
        norm = 0.5 * (np.sum(target.a**2) + np.sum(target.b**2))
        return lambda y: float(target.a @ np.cos(2 * np.pi * i * y) + target.b @ np.sin(2 * np.pi * i * y)) ** 2 / norm, 0.0, 1.0
    parts = list(zip(target.weights, target.means[:, 0], target.covariances[:, 0, 0], strict=True))
    return lambda y: sum(w * np.exp(-0.5 * (y - m) ** 2 / v) / np.sqrt(2 * np.pi * v) for w, m, v in parts), -9.0, 12.0


PAIRS = [
    *(
        (text, BOX)
        for text in ("gaussian:0.4", "laplace:0.4", "matern12:0.4", "matern32:0.4", "matern52:0.4", "energy", "polynomial:2,0.5")
    ),
    *((text, MIXTURE) for text in ("gaussian:0.4", "laplace:0.4", "matern12:0.4", "energy", "linear", "gaussian:1+0.5*laplace:2")),
    *((f"bernoulli:{order}", target) for order in (1, 2, 3) for target in (WAVES, UNIT)),
]


@pytest.mark.parametrize(("text", "target"), PAIRS, ids=[f"{text}-{target.name}" for text, target in PAIRS])
def test_closed_forms_are_the_integrals(text, target):
    kernel = kernel_parsing.parse_kernel(text)
    mean, norm = closed_form_embedding(kernel, target)
    p, low, high = density(target)
    inside = np.array([low + 0.13, 0.3, 0.9])
    outside = np.array([low - 0.7, high + 0.2]) if text[:5] not in ("berno",) else np.array([])
    for x in [*inside, *outside]:
        exact, _ = quad(
            lambda y, x=x: kernel.matrix(np.array([[x]]), np.array([[y]]))[0, 0] * p(y),
            low,
            high,
            points=[min(max(x, low), high)],
            limit=200,
        )
        assert mean(np.array([[x]]))[0] == pytest.approx(exact, abs=1e-8)
    exact, _ = quad(lambda y: mean(np.array([[y]]))[0] * p(y), low, high, limit=200)
    assert norm == pytest.approx(exact, abs=1e-8)


def test_gaussian_embedding_in_three_columns():
    random = np.random.default_rng(0)
    A = random.standard_normal((3, 3))
    target = MixtureTarget(np.array([0.4, 0.6]), random.standard_normal((2, 3)), np.stack([A @ A.T + np.eye(3), np.eye(3)]))
    mean, norm = closed_form_embedding(kernel_parsing.parse_kernel("gaussian:1.2"), target)
    X = target.sample(random, 20000)
    K = kernel_parsing.parse_kernel("gaussian:1.2").matrix(X[:200], X)
    assert np.abs(mean(X[:200]) - K.mean(axis=1)).max() < 0.02
    assert norm == pytest.approx(mean(X).mean(), abs=0.005)
    np.testing.assert_allclose(X.mean(axis=0), target.moments()[0], atol=0.06)
    np.testing.assert_allclose(X.T @ X / len(X), target.moments()[1], atol=0.15)


def test_what_has_no_closed_form_is_refused():
    wide, mixed = UniformTarget(np.zeros(2), np.ones(2)), MixtureTarget(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    for text, target in [("energy", wide), ("matern12:1", wide), ("matern32:1", wide), ("energy", mixed), ("laplace:1", mixed)]:
        with pytest.raises(BadUsage, match="no closed form"):
            closed_form_embedding(kernel_parsing.parse_kernel(text), target)
    for text, target in [("rational-quadratic:1", BOX), ("matern32:1", MIXTURE), ("gaussian:1*gaussian:2", BOX), ("gaussian:1", WAVES)]:
        with pytest.raises(BadUsage, match="no closed form"):
            closed_form_embedding(kernel_parsing.parse_kernel(text), target)


@pytest.mark.parametrize(
    "target", [BOX, MIXTURE, WAVES, input_preparation.make_independent_gaussian(1.0, 0.8, 1)], ids=lambda target: target.name
)
def test_quantiles_invert_the_distribution_function(target):
    u = np.array([0.01, 0.2, 0.5, 0.77, 0.99])[:, None]
    p, low, _ = density(target)
    for level, x in zip(u[:, 0], target.quantile(u)[:, 0], strict=True):
        assert quad(p, low, x, limit=200)[0] == pytest.approx(level, abs=1e-7)


def test_quantiles_of_weighted_rows():
    target = RowTarget(np.array([[3.0], [1.0], [2.0]]), np.array([0.5, 0.2, 0.3]))
    np.testing.assert_array_equal(target.quantile(np.array([[0.0], [0.19], [0.21], [0.49], [0.51], [0.999]]))[:, 0], [1, 1, 2, 2, 3, 3])


def test_signs_have_orthant_moments():
    """P(x_i = x_j = 1) = 1/4 + asin(ρ)/2π, against ρ = ½, whose orthant mass is 1/3, and draws."""
    target = make_sign_target(np.array([[4.0, 1.0], [1.0, 1.0]]))
    both_positive = 0.25 * (1.0 + target.second[0, 1])
    assert both_positive == pytest.approx(1 / 3, abs=1e-15)
    X = target.sample(np.random.default_rng(0), 40000)
    assert ((X == 1).all(axis=1)).mean() == pytest.approx(1 / 3, abs=0.01)
    with pytest.raises(DataError, match="negative eigenvalue"):
        make_sign_target(np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]))


def test_sobol_is_the_sequence_of_joe_and_kuo():
    qmc = pytest.importorskip("scipy.stats").qmc
    expected = qmc.Sobol(64, scramble=False, bits=52).random(256)
    np.testing.assert_array_equal(sobol_sequence.sobol_points(256, 64), expected)
    np.testing.assert_array_equal(sobol_sequence.sobol_points(56, 64, start=200), expected[200:])
    with pytest.raises(BadUsage, match="64"):
        sobol_sequence.sobol_points(1, 65)


def test_mixture_tables_are_read_by_their_names():
    full = input_preparation.parse_mixture_table(
        np.array([[2.0, 0.0, 1.0, 4.0, 1.0, 1.0, 9.0]]), ["weight", "mean1", "mean2", "cov11", "cov12", "cov21", "cov22"]
    )
    np.testing.assert_array_equal(full.covariances[0], [[4, 1], [1, 9]])
    plain = input_preparation.parse_mixture_table(np.array([[1.0, 0.0, 2.0], [3.0, 1.0, 1.0]]), None)
    np.testing.assert_array_equal(plain.weights, [0.25, 0.75])
    np.testing.assert_array_equal(plain.covariances[:, 0, 0], [4, 1])
    with pytest.raises(DataError, match="above 0"):
        input_preparation.parse_mixture_table(np.array([[1.0, 0.0, 0.0]]), None)


def test_cube_counts_states_by_bits():
    np.testing.assert_array_equal(input_preparation.all_hypercube_states(2), [[-1, -1], [1, -1], [-1, 1], [1, 1]])
    with pytest.raises(BadUsage):
        input_preparation.all_hypercube_states(21)


def test_grid_leaves_out_the_upper_end():
    box = UniformTarget(np.zeros(2), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(input_preparation.make_candidates("grid", 2, box, 0), [[0, 0], [0, 1], [0.5, 0], [0.5, 1]])


def test_a_grid_has_its_number_of_points_a_column_and_a_most():
    box = UniformTarget(np.array([0.0, -1.0]), np.array([1.0, 3.0]))
    found = input_preparation.make_candidates("grid", 4, box, 0)
    np.testing.assert_allclose(found, [[a / 4, -1 + b] for a in range(4) for b in range(4)])
    with pytest.raises(BadUsage) as error:
        input_preparation.make_candidates("grid", 8193, box, 0)
    assert error.value.message == "grid:8193 has 6.71e+07 points in 2 columns, which is too many"
    np.testing.assert_allclose(input_preparation.make_candidates("sobol", 2, box, 0)[1], [0.5, 1.0])


def test_a_trigonometric_density_is_the_squared_sum_and_its_quantiles_are_drawn():
    x = np.linspace(0.0, 1.0, 64, endpoint=False)
    expected = [density(WAVES)[0](point) for point in x]
    np.testing.assert_allclose(WAVES.density(x), expected, rtol=1e-12)
    assert np.mean(WAVES.density(x)) == pytest.approx(1.0, abs=1e-13)  # the rectangle rule is exact for trigonometric sums
    random = np.random.default_rng(2)
    drawn = WAVES.sample(np.random.default_rng(2), 9)
    np.testing.assert_array_equal(drawn, WAVES.quantile(random.random((9, 1))))
    np.testing.assert_allclose(WAVES.cdf(drawn[:, 0]), np.random.default_rng(2).random(9), atol=1e-9)


def test_quantiles_of_signs_have_their_orthant_mass():
    law = make_sign_target(np.array([[1.0, 0.6], [0.6, 2.0]]))
    found = law.quantile(sobol_sequence.sobol_points(4096, 2))
    assert set(found.ravel().tolist()) == {-1.0, 1.0}
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=0.01)
    assert (found[:, 0] * found[:, 1]).mean() == pytest.approx(law.second[0, 1], abs=0.01)
    low, high = law.bounding_box()
    assert (low.tolist(), high.tolist()) == ([-1, -1], [1, 1])


def test_the_mean_of_an_exponential_of_a_distance_is_that_of_both_sides():
    """E e^{−|Z|/ℓ} = e^{s²/2 − zs} Φ(z − s) + e^{s²/2 + zs} Φ(−z − s), z = δ/σ and s = σ/ℓ, on both sides of where erfc is nearly 2."""
    z, s = np.array([0.0, 0.7, -3.0, 6.9, 7.1, 7.3, -7.3, -7.6, 9.0]), 0.1
    expected = np.exp(s**2 / 2 - z * s) * ndtr(z - s) + np.exp(s**2 / 2 + z * s) * ndtr(-z - s)
    np.testing.assert_allclose(closed_form_embeddings._expected_laplace_normal(2.0 * z, np.full(9, 2.0), 20.0), expected, rtol=1e-13)
