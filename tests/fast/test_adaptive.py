"""Scaled rows and updates of parameters: their formulas, and the same bytes by both kinds of loops on every instruction set."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from herdcli.fast import numpy_adaptive

compiled = pytest.importorskip("herdcli.fast._adaptive")


def arrays(dtype: str, count: int) -> tuple[np.ndarray, ...]:
    """Parameters, both moments and a gradient, of many sizes, some 0."""
    random = np.random.default_rng(count)
    theta, first, second, gradient = random.normal(size=(4, count)) * 10.0 ** random.uniform(-12, 3, (4, count))
    gradient[::7], second[::7] = 0.0, 0.0
    return tuple(each.astype(dtype) for each in (theta, first, np.abs(second), gradient))


@pytest.mark.parametrize("name", compiled.instruction_sets())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, 7, 1001])
def test_both_loops_give_the_same_bytes(name: str, dtype: str, count: int) -> None:
    before = compiled.instruction_set()
    compiled.use_instruction_set(name)
    try:
        mine, other = arrays(dtype, count), arrays(dtype, count)
        for step in range(3):
            numpy_adaptive.adam_update(*mine[:3], mine[3].copy(), 0.01 / (step + 1), 0.9, 0.999, 1e-8)
            compiled.adam_update(*other[:3], other[3].copy(), 0.01 / (step + 1), 0.9, 0.999, 1e-8)
        numpy_adaptive.momentum_update(*mine[:2], mine[3].copy(), 0.03, 0.8)
        compiled.momentum_update(*other[:2], other[3].copy(), 0.03, 0.8)
    finally:
        compiled.use_instruction_set(before)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(mine[:3], other[:3], strict=True))


@pytest.mark.parametrize("loops", ["numpy_adaptive", "_adaptive"])
def test_updates_are_their_formulas(loops: str) -> None:
    module = importlib.import_module(f"herdcli.fast.{loops}")
    theta, m, v, g = (np.array([each]) for each in (1.0, 0.5, 0.04, 0.2))
    module.adam_update(theta, m, v, g.copy(), 0.1, 0.9, 0.99, 0.01)
    assert np.allclose([m[0], v[0]], [0.47, 0.04])
    assert np.allclose(theta, 1 - 0.1 * 0.47 / 0.21)
    module.momentum_update(theta, m, g.copy(), 0.1, 0.5)
    assert np.allclose([m[0], theta[0]], [0.215, 1 - 0.1 * 0.47 / 0.21 + 0.215])


@pytest.mark.parametrize("loops", ["numpy_adaptive", "_adaptive"])
def test_arrays_that_differ_are_refused(loops: str) -> None:
    module = importlib.import_module(f"herdcli.fast.{loops}")
    with pytest.raises(ValueError, match="one length and one type"):
        module.adam_update(*np.ones((3, 4)), np.ones(5), 0.1, 0.9, 0.99, 1e-8)
    with pytest.raises(ValueError, match="one length and one type"):
        module.momentum_update(*np.ones((2, 4)), np.ones(4, np.float32), 0.1, 0.9)


@pytest.mark.parametrize("name", compiled.instruction_sets())
@pytest.mark.parametrize("stored", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scaled_rows_are_the_same_bytes(name: str, stored: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    X = random.integers(0, 256, (50, 37)).astype(stored)
    if stored != "uint8":
        X += random.normal(size=X.shape).astype(stored)
    scale = dtype if stored == "uint8" else "float64"
    mean, factor, chosen = X.mean(axis=0).astype(scale), random.uniform(size=37).astype(scale), random.permutation(50)[:20]
    before = compiled.instruction_set()
    compiled.use_instruction_set(name)
    try:
        mine, other = np.empty((20, 37), dtype), np.empty((20, 37), dtype)
        compiled.scaled_rows(X, chosen, mean, factor, mine)
        numpy_adaptive.scaled_rows(X, chosen, mean, factor, other)
    finally:
        compiled.use_instruction_set(before)
    assert mine.tobytes() == other.tobytes()
    assert np.allclose(mine, (X[chosen].astype(float) - mean) * factor, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("loops", ["numpy_adaptive", "_adaptive"])
def test_scaled_rows_refuse_arrays_that_do_not_fit(loops: str) -> None:
    module = importlib.import_module(f"herdcli.fast.{loops}")
    X, scale, chosen, out = np.ones((5, 3)), np.ones(3), np.array([0, 4]), np.empty((2, 3))
    for index in (5, -1):
        with pytest.raises(ValueError, match="an index is outside the rows"):
            module.scaled_rows(X, np.array([0, index]), scale, scale, out)
    for bad in ((X, chosen, np.ones(4), scale, out), (X, chosen, scale, scale, np.empty((1, 3)))):
        with pytest.raises(ValueError, match="one number of columns"):
            module.scaled_rows(*bad)
    for rows in (X.astype(np.int32), np.asfortranarray(X)):
        with pytest.raises(ValueError, match="rows are of uint8, float32 or float64 in C order"):
            module.scaled_rows(rows, chosen, scale, scale, out)
    module.scaled_rows(np.ones((5, 0)), chosen, np.ones(0), np.ones(0), np.empty((2, 0)))
