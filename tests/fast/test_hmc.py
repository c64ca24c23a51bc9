"""Energies, slopes and leapfrog steps: the compiled loops give the bits of the NumPy ones, and the values of plain formulas."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.fast import numpy_hmc as twin
from herdcli.ica.experts import EXPERTS

NAMES = ("student", "logistic", "laplace-smooth")
SHAPES = [(1, 1, 4), (3, 2, 4), (16, 5, 8), (17, 16, 16), (33, 7, 20), (100, 16, 16)]


def drawn(n, D, M):
    random = np.random.default_rng([n, D, M])
    return [random.standard_normal(shape).astype(np.float32) for shape in ((n, D), (n, D), (M, D))] + [
        random.uniform(0.5, 2, M).astype(np.float32)
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("expert", range(3))
def test_the_twins_give_the_same_bits(shape, expert):
    compiled = pytest.importorskip("herdcli.fast._hmc", reason="the compiled loops are not built")
    results = []
    for side in (compiled, twin):
        x, k, W, gamma = drawn(*shape)
        side.leapfrog(x, k, W, gamma, expert, 0.1, 3, np.empty(side.leapfrog_scratch(shape[1]), np.float32))
        u = np.float32(10) ** np.linspace(-12, 12, shape[0] * shape[2], dtype=np.float32).reshape(shape[0], -1)
        u[::2] *= -1
        energy = np.empty(len(u))
        side.expert_energy(u, gamma, expert, energy)
        side.expert_slope(u, gamma, expert)
        results.append((x, k, u, energy))
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other, equal_nan=True)


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
    x, k, W, gamma = drawn(3, 2, 4)
    scratch = np.empty(compiled.leapfrog_scratch(2), np.float32)
    with pytest.raises(ValueError, match="fours"):
        compiled.leapfrog(x, k, W[:3], gamma[:3], 0, 0.1, 1, scratch)
    with pytest.raises(ValueError, match="scratch"):
        compiled.leapfrog(x, k, W, gamma, 0, 0.1, 1, scratch[1:])
    with pytest.raises(ValueError, match="length"):
        compiled.leapfrog(x, k[:, :1].copy(), W, gamma, 0, 0.1, 1, scratch)
