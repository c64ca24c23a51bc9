"""Kernels: definite, symmetric, written and read back, with the values of their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.quadrature.kernels import kernel_functions, kernel_parsing

REAL = [
    "gaussian:0.7",
    "laplace:1.3",
    "matern12:0.5",
    "matern32:0.5",
    "matern52:2",
    "inverse-multiquadric:1.5",
    "rational-quadratic:0.8,2",
    "energy",
    "linear",
    "polynomial:3,1",
    "features:x",
    "features:x+xx",
    "hamming",
    "hamming:2",
    "gaussian:1+0.5*linear",
    "gaussian:1*laplace:2",
    "laplace:1+energy+linear",
]


@pytest.mark.parametrize("text", [*REAL, "bernoulli:1", "bernoulli:2", "bernoulli:3"])
def test_kernels_are_definite_and_agree_with_their_diagonal(text):
    X = np.random.default_rng(0).random((40, 2))
    if "hamming" in text:
        X = np.round(2 * X)
    kernel = kernel_parsing.parse_kernel(text)
    K = kernel.matrix(X, X)
    np.testing.assert_allclose(K, K.T, atol=1e-14)
    np.testing.assert_allclose(np.diag(K), kernel.diagonal(X), atol=1e-14)
    assert np.linalg.eigvalsh(K)[0] > -1e-12 * np.abs(K).max()
    kernel_functions.require_positive_semidefinite(kernel, X)
    assert kernel_parsing.parse_kernel(kernel.text()) == kernel


def test_values_of_the_definitions():
    x, y = np.array([[0.2, 0.5]]), np.array([[0.9, 0.1]])
    r = np.linalg.norm(x - y)
    expected = {
        "gaussian:0.7": np.exp(-(r**2) / (2 * 0.49)),
        "laplace:2": np.exp(-1.1 / 2),
        "matern12:2": np.exp(-r / 2),
        "matern32:2": (1 + 3**0.5 * r / 2) * np.exp(-(3**0.5) * r / 2),
        "matern52:2": (1 + 5**0.5 * r / 2 + 5 * r**2 / 12) * np.exp(-(5**0.5) * r / 2),
        "inverse-multiquadric:2": (1 + r**2 / 4) ** -0.5,
        "rational-quadratic:2,3": (1 + r**2 / 24) ** -3.0,
        "energy": 0.5 * (np.linalg.norm(x) + np.linalg.norm(y) - r),
        "polynomial:2,0.5": (x[0] @ y[0] + 0.5) ** 2,
        "features:x+xx": x[0] @ y[0] + x[0, 0] * x[0, 1] * y[0, 0] * y[0, 1],
        "hamming:2": np.exp(-1.0),
        "hamming": 0.0,
    }
    for text, value in expected.items():
        assert kernel_parsing.parse_kernel(text).matrix(x, y)[0, 0] == pytest.approx(value, abs=1e-15), text


@pytest.mark.parametrize("order", [1, 2, 3])
def test_bernoulli_is_its_fourier_series_and_invariant_to_translation(order):
    kernel = kernel_functions.BernoulliKernel(order)
    x, y = np.random.default_rng(0).random((2, 5, 1))
    k = np.arange(1, 20001)
    series = [[(2 * (2 * np.pi * k) ** (-2.0 * order) * np.cos(2 * np.pi * k * (a - b))).sum() for b in y[:, 0]] for a in x[:, 0]]
    np.testing.assert_allclose(kernel.matrix(x, y), series, atol=3e-6 if order == 1 else 1e-13)
    moved = kernel.matrix((x + 0.375) % 1.0, (y + 0.375) % 1.0)
    np.testing.assert_allclose(moved, kernel.matrix(x, y), atol=1e-16)


@pytest.mark.parametrize(
    "text", ["gauss", "gaussian:-1", "gaussian:1,2", "gaussian:nan", "bernoulli:4", "features:xx", "polynomial", "a*b", ""]
)
def test_what_is_no_kernel_is_refused_with_the_list(text):
    with pytest.raises(BadUsage) as caught:
        kernel_parsing.parse_kernel(text)
    assert "matern32" in (caught.value.hint or "")


def test_an_indefinite_combination_is_refused():
    X = np.random.default_rng(0).random((40, 2))
    with pytest.raises(DataError, match="indefinite"):
        kernel_functions.require_positive_semidefinite(kernel_parsing.parse_kernel("gaussian:1+-1*gaussian:0.2"), X)


def test_median_bandwidth():
    X = np.random.default_rng(0).random((50, 2))
    distances = [np.linalg.norm(a - b) for i, a in enumerate(X) for b in X[:i]]
    chosen = kernel_parsing.choose_length_scales(kernel_parsing.parse_kernel("gaussian+laplace:2"), X, "median", 0)
    assert chosen.parts[0].bandwidth == pytest.approx(np.median(distances), rel=1e-15)
    assert chosen.parts[1] == kernel_functions.LaplaceKernel(2.0)
    assert kernel_parsing.choose_length_scales(kernel_functions.GaussianKernel(), X, 0.25, 0) == kernel_functions.GaussianKernel(0.25)
    with pytest.raises(DataError, match="bandwidth would be 0"):
        kernel_parsing.choose_length_scales(kernel_functions.GaussianKernel(), np.ones((5, 2)), "median", 0)
    many_equal = np.vstack([np.zeros((8, 1)), [[1.0], [2.0]]])
    assert kernel_parsing.choose_length_scales(
        kernel_functions.GaussianKernel(), many_equal, "median", 0
    ) == kernel_functions.GaussianKernel(1.0)


def test_points_outside_the_unit_interval_are_refused_for_bernoulli():
    with pytest.raises(DataError, match=r"2 rows lie outside \[0, 1\] \(first: row 1\)"):
        kernel_functions.BernoulliKernel(1).check(np.array([[0.5], [1.5], [-0.1]]))


def test_a_plus_behind_a_name_that_ends_in_e_joins_terms_and_one_in_an_exponent_does_not() -> None:
    assert kernel_parsing.parse_kernel("laplace+energy").text() == "laplace+energy"
    assert kernel_parsing.parse_kernel("1e+2*laplace+linear").text() == "100*laplace+linear"
    assert kernel_parsing.parse_kernel("gaussian:2.e+1").text() == "gaussian:20"
