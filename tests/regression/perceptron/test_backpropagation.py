"""Gradients and Hessian products of perceptrons, beside finite differences and complex steps of loops that say what a network is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import loggamma

from herdcli.numerics.block_statistics import BLOCK, ArrayRows, RowBlock
from herdcli.regression.families import family_by_name
from herdcli.regression.perceptron.activations import BY_NAME
from herdcli.regression.perceptron.architecture import Architecture
from herdcli.regression.perceptron.choices import ACTIVATIONS
from herdcli.regression.perceptron.problem import LossSums, PerceptronGradient, PerceptronHessianProduct, PerceptronProblem
from herdcli.regression.perceptron.scaling import FitScaling
from herdcli.regression.sparse_rows import SparseBlocks, SparseRows

FAMILIES = ("gaussian", "bernoulli", "softmax", "poisson", "gamma", "gamma-shape")
CANONICAL = ("gaussian", "bernoulli", "softmax", "poisson")
CLASSES, COLUMNS, ROWS = 3, 4, 7


def targets(family: str, random: np.random.Generator) -> np.ndarray:
    """Values that a family has."""
    return {
        "gaussian": random.normal(size=ROWS),
        "bernoulli": random.integers(0, 2, ROWS).astype(float),
        "softmax": np.arange(ROWS) % CLASSES * 1.0,
        "poisson": random.poisson(2.0, ROWS).astype(float),
        "gamma": random.gamma(2.0, size=ROWS),
        "gamma-shape": random.gamma(2.0, size=ROWS),
    }[family]


def made(name: str, activation: str, seed: int = 0) -> tuple[PerceptronProblem, RowBlock, np.ndarray]:
    """A problem with weights and offsets, its rows as one block, and parameters."""
    random = np.random.default_rng(seed)
    family = family_by_name(name, classes=CLASSES, symmetric=True, scale=1.5)
    shape = Architecture((COLUMNS, 5, 3, CLASSES if name == "softmax" else 1), activation)
    weight = random.uniform(0.5, 2.0, ROWS)
    table = ArrayRows(
        np.column_stack([random.normal(size=(ROWS, COLUMNS)), targets(name, random), 0.3 * random.normal(size=ROWS)]), weight=weight
    )
    problem = PerceptronProblem(table, family, shape.widths[-1], COLUMNS, architecture=shape)
    return problem, table.read(0, ROWS), 0.7 * random.normal(size=(1, shape.parameters))


def one_loss(family: str, eta: list, y: float):
    """−log p(y | η) of one row, without what η is not in."""
    k = np.exp(eta[0])
    return {
        "gaussian": lambda: 0.5 * (y - eta[0]) ** 2,
        "bernoulli": lambda: -(y * np.log(k / (1 + k)) + (1 - y) * np.log(1 / (1 + k))),
        "softmax": lambda: -np.log(np.exp(eta[int(y)]) / sum(np.exp(value) for value in eta)),
        "poisson": lambda: k - y * eta[0],
        "gamma": lambda: eta[0] + y / k,
        "gamma-shape": lambda: loggamma(k + 0j) + k * np.log(1.5) - k * np.log(y),
    }[family]()


def by_loops(problem: PerceptronProblem, block: RowBlock, theta: np.ndarray):
    """Σ w ℓ at θ (q,), real or complex: units one by one, losses as textbooks have them."""
    shape, total = problem.architecture, 0.0
    functions = {
        "tanh": np.tanh,
        "relu": lambda a: a if a.real > 0 else 0.0 * a,
        "logistic": lambda a: 1 / (1 + np.exp(-a)),
        "softplus": lambda a: np.log(1 + np.exp(a)),
    }
    for row, weight in zip(block.X, block.weight, strict=True):
        x, y, offset, place = list(row[:COLUMNS]), row[-2], row[-1], 0
        for layer in range(len(shape.widths) - 1):
            low, high = shape.widths[layer : layer + 2]
            W, b = theta[place : place + low * high], theta[place + low * high : place + low * high + high]
            place += high * (low + 1)
            a = [b[unit] + sum(W[unit * low + j] * x[j] for j in range(low)) for unit in range(high)]
            x = a if layer == len(shape.widths) - 2 else [functions[shape.activation](value) for value in a]
        total = total + weight * one_loss(problem.family.name, [value + offset for value in x], y)
    return total


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_complex_steps_and_finite_differences(family, activation):
    """A complex step of 1e-30 has no rounding of differences (Squire & Trapp 1998)."""
    problem, block, theta = made(family, activation)
    sums = PerceptronGradient(problem, theta)(block)
    assert np.isclose(sums["loss"][0], np.real(by_loops(problem, block, theta[0])), rtol=1e-12)
    steps = 1e-30j * np.eye(theta.size)
    exact = np.array([np.imag(by_loops(problem, block, theta[0] + step)) / 1e-30 for step in steps])
    assert np.abs(sums["gradient"][0] - exact).max() <= 1e-11 * np.abs(exact).max()
    change = 1e-4

    def loss(moved):
        return LossSums(problem, moved)(block)["loss"][0]

    # Richardson's extrapolation of central differences, whose error is h⁴
    finite = np.array(
        [
            (8 * (loss(theta + step) - loss(theta - step)) - (loss(theta + 2 * step) - loss(theta - 2 * step))) / (12 * change)
            for step in change * np.eye(theta.size)
        ]
    )
    assert np.abs(sums["gradient"][0] - finite).max() <= 1e-7 * np.abs(finite).max()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("family", CANONICAL)
def test_hessian_products_are_slopes_of_the_gradient(family, activation):
    problem, block, theta = made(family, activation, seed=1)
    v = np.random.default_rng(2).normal(size=theta.shape)

    def gradient(moved):
        return PerceptronGradient(problem, moved)(block)["gradient"]

    change = 1e-4
    finite = (8 * (gradient(theta + change * v) - gradient(theta - change * v)) - gradient(theta + 2 * change * v)) / (12 * change)
    finite += gradient(theta - 2 * change * v) / (12 * change)
    found = PerceptronHessianProduct(problem, theta, v)(block)["product"]
    assert np.abs(found - finite).max() <= 1e-7 * np.abs(finite).max()


@pytest.mark.parametrize("family", ["gamma", "gamma-shape"])
def test_expected_curvature_of_other_links_gives_a_symmetric_product(family):
    problem, block, theta = made(family, "tanh", seed=1)
    units = np.eye(theta.size)
    H = np.array([PerceptronHessianProduct(problem, theta, unit[None])(block)["product"][0] for unit in units])
    assert np.abs(H - H.T).max() <= 1e-12 * np.abs(H).max()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_derivatives_of_activations(activation):
    found, a, h = BY_NAME[activation], np.array([-30.0, -2.0, -0.3, 0.4, 1.5, 30.0]), 1e-5
    value = found.value(a)
    assert np.allclose(found.slope(a, value), (found.value(a + h) - found.value(a - h)) / (2 * h), atol=1e-9)
    second = (found.slope(a + h, found.value(a + h)) - found.slope(a - h, found.value(a - h))) / (2 * h)
    assert np.allclose(found.curvature(a, value), second, atol=1e-9)
    single = a.astype(np.float32)
    assert found.value(single).dtype == found.slope(single, found.value(single)).dtype == np.float32


def test_the_penalty_is_of_weights_alone():
    problem, _, theta = made("gaussian", "tanh")
    weights = np.concatenate([W.ravel() for W, _ in problem.architecture.layers(theta[0])])
    assert np.isclose(
        PerceptronProblem(problem.rows, problem.family, 1, COLUMNS, l2=0.2, architecture=problem.architecture).penalty(theta),
        0.1 * weights @ weights,
    )
    assert problem.penalty_mask.sum() == len(weights)
    assert ROWS < BLOCK


@pytest.mark.parametrize("family", ["gaussian", "softmax"])
def test_sparse_rows_have_the_sums_of_dense_ones(family):
    """CSR rows are not scaled: the first layer is."""
    problem, block, theta = made(family, "tanh", seed=1)
    random = np.random.default_rng(3)
    X = random.normal(1.0, 2.0, size=(ROWS, COLUMNS)) * (random.uniform(size=(ROWS, COLUMNS)) < 0.4)
    scaling, v = FitScaling(random.normal(size=COLUMNS), random.uniform(0.5, 2.0, COLUMNS), 0.0, 1.0), random.normal(size=theta.shape)
    y, offset = block.X[:, -2], block.X[:, -1]
    dense = RowBlock(0, np.column_stack([scaling.scale_columns(X), y, offset]), None, block.weight)
    rows = SparseRows.from_columns(csr_array(X), y, offset, block.weight)
    (sparse,) = SparseBlocks.from_rows(rows).take(0, 1)
    scaled = replace(problem, rows=rows, scaling=scaling)
    for statistics in (
        lambda p: LossSums(p, theta),
        lambda p: PerceptronGradient(p, theta),
        lambda p: PerceptronHessianProduct(p, theta, v),
    ):
        wanted, found = statistics(problem)(dense), statistics(scaled)(sparse)
        assert wanted.keys() == found.keys()
        assert all(np.allclose(wanted[name], found[name], rtol=1e-11, atol=1e-11) for name in wanted)
