"""Filter and smoother against one large Gaussian that is conditioned on what was seen."""

from __future__ import annotations

import numpy as np
import pytest
from linear_dynamics import dense, system

from herdcli.em.factor.factor_analysis import factor_posterior
from herdcli.em.sequence.kalman import filter_sequences, smooth_sequences
from herdcli.errors import Diverged
from herdcli.online.learners.reference_updates import full_update
from herdcli.online.model import Settings

CLOSE = {"rtol": 0, "atol": 1e-12}


@pytest.mark.parametrize(("states", "columns", "controls"), [(1, 1, 0), (2, 1, 1), (3, 5, 2), (5, 2, 0), (4, 9, 1)])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_moments_are_those_of_conditioning(states, columns, controls, missing):
    random, steps = np.random.default_rng(states), 8
    p = system(states, columns, controls)
    Y, U = random.standard_normal((steps, columns)), random.standard_normal((steps, controls))
    Y[random.random(Y.shape) < missing] = np.nan
    if missing:
        Y[3] = np.nan
    offsets = np.array([0, steps])
    filtered = filter_sequences(p, Y, offsets, U)
    smoothed = smooth_sequences(p, filtered, offsets)
    evidence, mean, joint = dense(p, Y, U)
    blocks = joint.reshape(steps, states, steps, states).transpose(0, 2, 1, 3)
    assert filtered.log_likelihood.sum() == pytest.approx(evidence, abs=1e-12 * max(1.0, abs(evidence)))
    np.testing.assert_allclose(smoothed.mean, mean, **CLOSE)
    np.testing.assert_allclose(smoothed.covariance, blocks[np.arange(steps), np.arange(steps)], **CLOSE)
    np.testing.assert_allclose(smoothed.lag_one_covariance[:-1], blocks[np.arange(1, steps), np.arange(steps - 1)], **CLOSE)
    for t in (0, 4, 7):  # the filter is the last row of a shorter sequence
        _, short, joint = dense(p, Y[: t + 1], U)
        np.testing.assert_allclose(filtered.mean[t], short[t], **CLOSE)
        np.testing.assert_allclose(filtered.covariance[t], joint[-states:, -states:], **CLOSE)


def test_sequences_do_not_touch_each_other():
    random, p = np.random.default_rng(0), system(3, 2)
    Y = random.standard_normal((12, 2))
    together = filter_sequences(p, Y, np.array([0, 1, 5, 12]))
    for begin, end in ((0, 1), (1, 5), (5, 12)):
        alone = filter_sequences(p, Y[begin:end], np.array([0, end - begin]))
        np.testing.assert_allclose(together.mean[begin:end], alone.mean, **CLOSE)
        np.testing.assert_allclose(together.log_likelihood[begin:end], alone.log_likelihood, **CLOSE)


def test_without_dynamics_it_is_factor_analysis():
    random = np.random.default_rng(1)
    K, D, n = 2, 5, 20
    C, c, psi = random.standard_normal((D, K)), random.standard_normal(D), random.uniform(0.2, 1, D)
    p = system(K, D) | {"transition": np.zeros((K, K)), "drift": np.zeros(K), "process": np.eye(K), "start_mean": np.zeros(K)}
    p |= {"start_covariance": np.eye(K), "loading": C, "mean": c, "noise": np.diag(psi)}
    Y = random.standard_normal((n, D))
    Y[random.random(Y.shape) < 0.2] = np.nan
    found = filter_sequences(p, Y, np.array([0, n]))
    scores, log_density = factor_posterior({"loading": C, "mean": c, "noise": psi}, Y)
    np.testing.assert_allclose(smooth_sequences(p, found, np.array([0, n])).mean, scores, **CLOSE)
    np.testing.assert_allclose(found.log_likelihood, log_density, **CLOSE)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_arow_is_the_kalman_update_and_nherd_its_joseph_form_without_noise(sign):
    """A label is an observation of μ·x with variance 1/C.  Joseph: (I − g x')Σ(I − g x')' + g g'/C, without its last term NHERD's."""
    random = np.random.default_rng(3)
    d, C = 5, 0.7
    p = system(d, 1)
    x, mu, sigma = p["loading"][0], p["start_mean"], p["start_covariance"]
    mu = -mu if sign * (mu @ x) > 1 else mu
    p |= {"start_mean": mu, "mean": np.zeros(1), "noise": np.eye(1) / C}
    found = filter_sequences(p, np.array([[sign], [random.standard_normal()]]), np.array([0, 2]))
    mean, covariance = full_update(mu, sigma, x, sign, Settings(algorithm="arow", covariance="full", C=C))
    np.testing.assert_allclose(found.mean[0], mean, rtol=0, atol=4e-15)
    np.testing.assert_allclose(found.covariance[0], covariance, rtol=0, atol=4e-15)
    gain = (found.mean[0] - mu) / (sign - mu @ x)
    rest = np.eye(d) - np.outer(gain, x)
    mean, covariance = full_update(mu, sigma, x, sign, Settings(algorithm="nherd", covariance="full", C=C))
    np.testing.assert_allclose(found.mean[0], mean, rtol=0, atol=4e-15)
    np.testing.assert_allclose(rest @ sigma @ rest.T, covariance, rtol=0, atol=4e-15)


def test_noise_of_a_singular_process_is_no_harm():
    """A trend without noise: Q = 0 in one direction, P = 0 in the other."""
    p = system(2, 1) | {"transition": np.array([[1.0, 1.0], [0.0, 1.0]]), "drift": np.zeros(2), "process": np.diag([0.1, 0.0])}
    p |= {"start_covariance": np.diag([0.0, 1.0])}
    Y = np.random.default_rng(0).standard_normal((7, 1))
    found = filter_sequences(p, Y, np.array([0, 7]))
    smoothed = smooth_sequences(p, found, np.array([0, 7]))
    evidence, mean, joint = dense(p, Y)
    assert found.log_likelihood.sum() == pytest.approx(evidence, abs=1e-12)
    np.testing.assert_allclose(smoothed.mean, mean, **CLOSE)
    np.testing.assert_allclose(smoothed.covariance[3], joint[6:8, 6:8], **CLOSE)


def test_covariances_stay_sound_where_differences_would_not():
    """Noise 10¹⁰ times smaller than the states: P − K S K' would be indefinite; a square never is."""
    p = system(3, 3) | {"noise": 1e-10 * np.eye(3), "start_covariance": 1e6 * np.eye(3)}
    found = filter_sequences(p, np.random.default_rng(0).standard_normal((200, 3)), np.array([0, 200]))
    smoothed = smooth_sequences(p, found, np.array([0, 200]))
    assert np.linalg.eigvalsh(found.covariance).min() > 0
    assert np.linalg.eigvalsh(smoothed.covariance).min() > 0
    assert (smoothed.covariance == smoothed.covariance.transpose(0, 2, 1)).all()


def test_an_unstable_system_is_filtered_while_it_is_seen_and_told_when_it_overflows():
    p = system(2, 2, radius=1.5)
    Y = np.random.default_rng(0).standard_normal((3000, 2))
    assert np.isfinite(filter_sequences(p, Y, np.array([0, 3000])).log_likelihood).all()
    Y[10:2900] = np.nan
    with pytest.raises(Diverged, match="the states overflow at row"):
        filter_sequences(p, Y, np.array([0, 3000]))
