"""Energies against finite differences and identities; the region where Student products have a finite integral; leapfrog and HMC."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from herdcli.ica import energy_gradients, hmc
from herdcli.ica.energy import (
    LinearExperts,
    ManifoldEnergy,
    TopographicEnergy,
    make_energy,
    normalisable_weight_floor,
    raise_weights_to_normalisable,
    take_leapfrog_steps,
)
from herdcli.ica.experts import EXPERTS
from herdcli.ica.problem import pooling_weights

SMOOTH = ("student", "logistic", "laplace-smooth", "gaussian-cdf")


def energies(D=3, M=5):
    random = np.random.default_rng(D * 10 + M)
    J, gamma = random.standard_normal((M, D)), random.uniform(0.6, 2.0, M)
    yield from (LinearExperts(J, gamma, EXPERTS[name]) for name in SMOOTH)
    yield TopographicEnergy(J, gamma[:4], random.uniform(0, 1, (4, M)))
    yield from (ManifoldEnergy(J, gamma, EXPERTS[name]) for name in ("logistic", "student"))


EACH = pytest.mark.parametrize(
    "energy", list(energies()), ids=lambda e: f"{type(e).__name__}-{getattr(getattr(e, 'expert', None), 'name', '')}"
)


def numeric(function, point, width=1e-5):
    """Central differences of a scalar function of an array."""
    result = np.empty(point.shape)
    for index in np.ndindex(point.shape):
        step = np.zeros(point.shape)
        step[index] = width
        result[index] = (function(point + step) - function(point - step)) / (2 * width)
    return result


@EACH
def test_gradient_and_laplacian_in_the_row(energy):
    z = np.random.default_rng(1).standard_normal((4, 3))
    gradient = energy.gradient(z)
    for row, found in zip(z, gradient, strict=True):
        np.testing.assert_allclose(found, numeric(lambda x: energy.energy(x[None])[0], row), rtol=1e-6, atol=1e-8)
    trace = [np.trace([numeric(lambda x, d=d: energy.gradient(x[None])[0, d], row) for d in range(3)]) for row in z]
    np.testing.assert_allclose(energy.laplacian(z), trace, rtol=1e-4, atol=1e-6)


@EACH
def test_gradient_in_filters_and_weights(energy):
    z = np.random.default_rng(2).standard_normal((6, 3))
    by_J, by_gamma = energy.parameters(z)
    np.testing.assert_allclose(by_J, numeric(lambda J: replace(energy, J=J).energy(z).sum(), energy.J), rtol=1e-5, atol=1e-7)
    if isinstance(energy, TopographicEnergy) or (isinstance(energy, LinearExperts) and energy.expert.learns_gamma):
        exact = numeric(lambda gamma: replace(energy, gamma=gamma).energy(z).sum(), energy.gamma)
        np.testing.assert_allclose(by_gamma, exact, rtol=1e-6)


@pytest.mark.parametrize("name", ["logistic", "student", "laplace", "laplace-smooth", "gaussian-cdf", "bimodal"])
@pytest.mark.parametrize("weight", [1.0, 1.7, 2.0])
def test_experts_are_densities_that_their_samples_follow(name, weight):
    if (name, weight) == ("student", 1.0):
        weight = 1.3  # Cauchy tails are not on the grid
    expert, gamma = EXPERTS[name], np.array([weight])
    grid = np.linspace(-400, 400, 400001)
    p = np.exp(-weight * expert.energy(grid) - expert.log_z(gamma)[0])
    assert np.trapezoid(p, grid) == pytest.approx(1, abs=2e-4)
    samples = np.sort(expert.sample(np.random.default_rng(3), 4000, gamma)[:, 0])
    cdf = np.interp(samples, grid, np.concatenate([[0], np.cumsum((p[1:] + p[:-1]) / 2)]) * (grid[1] - grid[0]))
    assert ks(cdf) < 1.63 / np.sqrt(4000)  # the 1 % point


def ks(uniforms):
    """Kolmogorov's distance of a sample from the uniform distribution."""
    ordered, n = np.sort(uniforms), len(uniforms)
    return max((np.arange(1, n + 1) / n - ordered).max(), (ordered - np.arange(n) / n).max())


def test_a_row_too_far_out_for_the_manifolds_matrix_has_no_slope_and_leaves_the_others_theirs():
    """Outputs 0, 40 and −40: slopes of the logistic function are 1 to e^−40, and the 2 × 2 matrix is of rank one to rounding."""
    J = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    energy = ManifoldEnergy(J, np.ones(3, dtype=np.float32), EXPERTS["logistic"])
    z = np.array([[0.3, -0.2], [40.0, -40.0]], dtype=np.float32)
    assert np.isfinite(energy.energy(z)[0])
    slope = energy.gradient(z)
    np.testing.assert_array_equal(slope[:1], energy.gradient(z[:1]))
    assert np.isnan(slope[1]).all()


def test_a_square_manifold_is_the_product_of_its_densities():
    """Eq. 4.28 in the square case: the volume is 1, and −E of eq. 4.27 is the log-likelihood."""
    random = np.random.default_rng(4)
    J, z = random.standard_normal((3, 3)), random.standard_normal((10, 3))
    for name in ("logistic", "laplace-smooth"):
        expert = EXPERTS[name]
        log_p = np.linalg.slogdet(J)[1] - (expert.energy(z @ J.T) + expert.log_z(np.ones(3))).sum(axis=1)
        np.testing.assert_allclose(ManifoldEnergy(J, np.ones(3), expert).energy(z), -log_p, rtol=1e-10)
        assert ManifoldEnergy(J, np.ones(3), expert).parameters(z)[0] == pytest.approx(
            LinearExperts(J, np.ones(3), expert).parameters(z)[0] - 10 * np.linalg.inv(J).T
        )


def test_information_is_minus_divergence_plus_log_volume():
    """Eq. 4.28 for two logistic filters of one dimension: the manifold is a curve in the unit square, and its length is Z."""
    J = np.array([[1.0], [2.5]])
    energy = ManifoldEnergy(J, np.ones(2), EXPERTS["logistic"])
    x = np.linspace(-40, 40, 20001)
    y = 1 / (1 + np.exp(-x[:, None] * J[:, 0]))
    length = np.sqrt((np.diff(y, axis=0) ** 2).sum(axis=1)).sum()
    volume = np.exp(-energy.energy(x[:, None]))
    assert np.trapezoid(volume, x) == pytest.approx(length, rel=1e-6)
    p0 = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    entropy_of_y = np.trapezoid(p0 * (0.5 * x**2 + 0.5 * np.log(2 * np.pi) + np.log(volume)), x)
    divergence = np.trapezoid(p0 * (-0.5 * x**2 - 0.5 * np.log(2 * np.pi) - np.log(volume / length)), x)
    assert entropy_of_y == pytest.approx(-divergence + np.log(length), rel=1e-9)


def test_a_topography_without_neighbours_is_a_student_product():
    random = np.random.default_rng(5)
    J, gamma, z = random.standard_normal((6, 4)), random.uniform(1, 2, 6), random.standard_normal((7, 4))
    alone = make_energy(J, gamma, "student", topography=pooling_weights((2, 3), 1))
    np.testing.assert_allclose(alone.energy(z), make_energy(J, gamma, "student").energy(z))
    np.testing.assert_allclose(alone.gradient(z), make_energy(J, gamma, "student").gradient(z))


def test_pooling_is_a_mean_over_squares_of_a_torus():
    P = pooling_weights((4, 5), 3)
    assert P.sum(axis=1) == pytest.approx(np.ones(20))
    assert np.flatnonzero(P[0]).tolist() == [0, 1, 4, 5, 6, 9, 15, 16, 19]


@pytest.mark.parametrize("gamma", [(0.4, 2.0), (0.1, 0.1, 0.1), (0.6, 0.2, 3.0, 0.05), (0.3, 0.3, 0.3, 0.3, 5.0), (0.5, 0.5)])
@pytest.mark.parametrize("D", [1, 2])
def test_weights_are_raised_just_as_far_as_the_integral_needs(gamma, D):
    gamma = np.array(gamma)

    def inside(g, slack):
        ordered = np.sort(g)
        return all(2 * ordered[: len(g) - D + k].sum() >= k * (1 + slack) - 1e-12 for k in range(1, D + 1))

    raised, count = raise_weights_to_normalisable(gamma, D)
    assert inside(raised, 1e-3)
    assert count == (raised > gamma).sum()
    floor = normalisable_weight_floor(gamma, D)
    if inside(gamma, 1e-3):
        assert count == 0
        assert floor == -np.inf
    else:
        assert not inside(np.maximum(gamma, floor - 1e-6), 1e-3)


def test_the_region_is_where_the_integral_is_finite():
    """γ = (0.4, 2) has 2 Σ γ > D, and still its integral grows without bound: along the second filter's null direction."""

    def mass(gamma, radius):
        x = np.sinh(np.linspace(-np.arcsinh(radius), np.arcsinh(radius), 4001))
        return np.prod([np.trapezoid(np.exp(-g * np.log1p(x * x)), x) for g in gamma])

    assert mass((0.4, 2.0), 1e8) > 10 * mass((0.4, 2.0), 1e2)
    raised = raise_weights_to_normalisable(np.array([0.4, 2.0]), 2)[0] + 0.1
    assert mass(raised, 1e8) < 2.5 * mass(raised, 1e2)


@EACH
def test_leapfrog_is_reversible_and_keeps_volume(energy):
    random = np.random.default_rng(6)
    z, k = random.standard_normal((2, 5, 3))
    there, momentum = take_leapfrog_steps(energy, z, k, 0.05, 7)
    back, reversed_momentum = take_leapfrog_steps(energy, there, -momentum, 0.05, 7)
    np.testing.assert_allclose(back, z, atol=1e-11)
    np.testing.assert_allclose(reversed_momentum, -k, atol=1e-11)
    assert not np.allclose(there, z, atol=0.01)

    def flow(point):
        x, p = take_leapfrog_steps(energy, point[None, :3], point[None, 3:], 0.05, 7)
        return np.concatenate([x[0], p[0]])

    at = np.concatenate([z[0], k[0]])
    jacobian = np.array([(flow(at + 1e-5 * e) - flow(at - 1e-5 * e)) / 2e-5 for e in np.eye(6)])
    assert np.linalg.det(jacobian) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("shape", [(5, 7), (70, 75)], ids=["narrow", "wide"])
@pytest.mark.parametrize("name", ["student", "logistic", "laplace-smooth"])
def test_fast_trajectories_are_those_of_the_plain_ones(name, shape):
    D, M = shape
    random = np.random.default_rng(7)
    J = random.standard_normal((M, D)) / np.sqrt(D)
    z, k = random.standard_normal((2, 20, D))
    gamma = random.uniform(0.6, 1.5, M)
    plain = take_leapfrog_steps(LinearExperts(J, gamma, EXPERTS[name]), z, k, 0.05, 10)
    single = LinearExperts(J.astype(np.float32), gamma.astype(np.float32), EXPERTS[name])
    fast = single.leapfrog_trajectory(z.astype(np.float32), k.astype(np.float32), 0.05, 10)
    for one, other in zip(fast, plain, strict=True):
        np.testing.assert_allclose(one, other, atol=5e-5)
    np.testing.assert_allclose(single.energy(z.astype(np.float32)), LinearExperts(J, gamma, EXPERTS[name]).energy(z), rtol=1e-5)


def test_hmc_leaves_the_model_as_it_is():
    """Chains that start in a square logistic model stay in it; coarse steps, so that the rejections matter."""
    random = np.random.default_rng(8)
    J = random.standard_normal((3, 3)).astype(np.float32)
    energy = LinearExperts(J, np.ones(3, np.float32), EXPERTS["logistic"])
    z = np.linalg.solve(J, random.logistic(size=(3, 4000))).T.astype(np.float32)
    moved, acceptance = hmc.run_hmc_chains(energy, z, random, 0.7, 4, proposals=3)
    assert 0.3 < acceptance < 0.9
    assert np.abs(moved - z).max(axis=1).mean() > 0.5
    outputs = moved @ J.T
    for u in outputs.T:
        assert ks(1 / (1 + np.exp(-u))) < 1.63 / np.sqrt(4000)
    never_rejected, _ = energy.leapfrog_trajectory(z, random.standard_normal(z.shape).astype(np.float32), 1.2, 4)
    assert max(ks(1 / (1 + np.exp(-u))) for u in (never_rejected @ J.T).T) > 1.63 / np.sqrt(4000)  # the test would see it


def test_proposals_without_an_energy_are_rejected():
    energy = LinearExperts(np.eye(2, dtype=np.float32) * np.float32(1e30), np.ones(2, np.float32), EXPERTS["student"])
    z = np.float32([[1.0, 2.0]])
    moved, now, accepted = hmc.run_hmc_proposal(energy, z, energy.energy(z), np.float32([[1e30, 1.0]]), np.array([0.5]), 1e10, 2)
    assert np.array_equal(now, energy.energy(z), equal_nan=True)
    assert not accepted.any()
    assert np.array_equal(moved, z)


def test_step_size_moves_towards_the_wanted_acceptance():
    assert hmc.adapt_step_size(0.1, 1.0, 0.9, 0.005) == pytest.approx(0.1005)
    assert hmc.adapt_step_size(0.1, 0.0, 0.9, 0.005) == pytest.approx(0.0955)
    assert hmc.adapt_step_size(1e-4, 0.0, 0.9, 0.005) == hmc.SMALLEST_STEP


@pytest.mark.parametrize("shape", [(3, 3), (5, 3)])
def test_gradients_of_infomax_are_means_over_rows(shape):
    """Rows repeated change nothing; −E's slopes, and of square filters those of log |det J| besides."""
    random = np.random.default_rng(6)
    J, gamma, z = random.standard_normal(shape), random.uniform(1, 2, shape[0]), random.standard_normal((7, shape[1]))
    square = shape[0] == shape[1]
    energy = (LinearExperts if square else ManifoldEnergy)(J, gamma, EXPERTS["student"])
    problem = SimpleNamespace(settings=SimpleNamespace(algorithm="infomax"))
    by_J, by_gamma = energy_gradients.exact_model_gradients(problem, energy, z, 0)
    for ours, theirs in zip((by_J, by_gamma), energy_gradients.exact_model_gradients(problem, energy, np.tile(z, (3, 1)), 0), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    if square:
        slope = numeric(lambda J: np.linalg.slogdet(J)[1] - replace(energy, J=J).energy(z).mean(), J)
        np.testing.assert_allclose(by_J, slope, rtol=1e-5)
        np.testing.assert_allclose(by_gamma, numeric(lambda gamma: -replace(energy, gamma=gamma).energy(z).mean(), gamma), rtol=1e-5)


def test_gamma_that_other_experts_outweigh_is_not_below_0():
    gamma = np.concatenate([[-0.46], np.full(200, 5.0)])
    assert normalisable_weight_floor(gamma, 100) == -np.inf
    raised, count = raise_weights_to_normalisable(gamma, 100)
    assert (raised[0], count) == (0.0, 1)
    np.testing.assert_array_equal(raised[1:], gamma[1:])
