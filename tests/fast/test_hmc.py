"""Energies, slopes and leapfrog steps: the compiled loops give the bits of the NumPy ones, and the values of plain formulas."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.fast import numpy_hmc as twin
from herdcli.ica.experts import EXPERTS

NAMES = ("student", "logistic", "laplace-smooth")
SHAPES = [(1, 1, 8), (3, 2, 8), (16, 5, 8), (17, 16, 16), (33, 7, 24), (100, 16, 16)]


def drawn(n, D, M):
    random = np.random.default_rng([n, D, M])
    x, k, W = (random.standard_normal(shape).astype(np.float32) for shape in ((n, D), (n, D), (M, D)))
    return x, k, W, random.uniform(0.5, 2, M).astype(np.float32)


def stepped(side, x, k, W, gamma, expert, epsilon, steps):
    a, b = np.full((2, len(x), len(W)), 7, np.float32)
    scratch = np.empty(side.leapfrog_scratch(len(W)), np.float32)
    side.leapfrog(x @ W.T, k @ W.T, W @ W.T, gamma, expert, epsilon, steps, a, b, scratch)
    return a, b


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("expert", range(3))
def test_the_twins_give_the_same_bits(shape, expert):
    compiled = pytest.importorskip("herdcli.fast._hmc", reason="the compiled loops are not built")
    results = []
    for side in (compiled, twin):
        a, b = stepped(side, *drawn(*shape), expert, 0.1, 3)
        u = np.float32(10) ** np.linspace(-12, 12, shape[0] * shape[2], dtype=np.float32).reshape(shape[0], -1)
        u[::2] *= -1
        gamma, energy = drawn(*shape)[3], np.empty(len(u))
        side.expert_energy(u, gamma, expert, energy)
        side.expert_slope(u, gamma, expert)
        results.append((a, b, u, energy))
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("side", ["compiled", "numpy"])
def test_steps_of_the_outputs_are_steps_of_the_chains(side):
    loops = twin if side == "numpy" else pytest.importorskip("herdcli.fast._hmc", reason="the compiled loops are not built")
    x, k, W, gamma = drawn(5, 3, 8)
    a, b = stepped(loops, x, k, W, gamma, 1, 0.1, 6)
    there, momentum = (one.astype(np.float64) for one in (x, k))
    for t in range(7):
        momentum -= (0.1 if 0 < t < 6 else 0.05) * ((gamma * EXPERTS["logistic"].slope(there @ W.T)) @ W)
        if t < 6:
            there += 0.1 * momentum
    np.testing.assert_allclose(x + 0.1 * (6 * k - b @ W), there, atol=2e-6)
    np.testing.assert_allclose(k - a @ W, momentum, atol=2e-6)


@pytest.mark.parametrize("side", ["compiled", "numpy"])
@pytest.mark.parametrize("expert", range(3))
def test_values_are_those_of_the_formulas(side, expert):
    loops = twin if side == "numpy" else pytest.importorskip("herdcli.fast._hmc", reason="the compiled loops are not built")
    formula = EXPERTS[NAMES[expert]]
    u = np.concatenate([np.linspace(-90, 90, 20001), np.logspace(-6, 6, 101)]).astype(np.float32).reshape(-1, 1)
    gamma, energy, exact = np.float32([0.7]), np.empty(len(u)), u.astype(np.float64)[:, 0]
    loops.expert_energy(u, gamma, expert, energy)
    np.testing.assert_allclose(energy, 0.7 * formula.energy(exact), rtol=5e-7, atol=3e-7)
    loops.expert_slope(u, gamma, expert)
    np.testing.assert_allclose(u[:, 0], 0.7 * formula.slope(exact), rtol=5e-7, atol=2e-7)


@pytest.mark.parametrize("side", ["compiled", "numpy"])
def test_chains_that_left_the_numbers_have_no_energy(side):
    loops = twin if side == "numpy" else pytest.importorskip("herdcli.fast._hmc", reason="the compiled loops are not built")
    for expert in range(3):
        energy = np.zeros(3)
        loops.expert_energy(np.float32([[np.nan, 1], [1, np.nan], [0, 1]]), np.ones(2, np.float32), expert, energy)
        assert np.isnan(energy[:2]).all()
        assert np.isfinite(energy[2])


def test_shapes_that_do_not_fit_are_refused():
    compiled = pytest.importorskip("herdcli.fast._hmc", reason="the compiled loops are not built")
    x, k, W, gamma = drawn(3, 2, 8)
    with pytest.raises(ValueError, match="eights"):
        stepped(compiled, x, k, W[:3], gamma[:3], 0, 0.1, 1)
    with pytest.raises(ValueError, match="length"):
        stepped(compiled, x, k[:2], W, gamma, 0, 0.1, 1)
    a, b = np.empty((2, 3, 8), np.float32)
    with pytest.raises(ValueError, match="scratch"):
        compiled.leapfrog(x @ W.T, k @ W.T, W @ W.T, gamma, 0, 0.1, 1, a, b, np.empty(3, np.float32))
