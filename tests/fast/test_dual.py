"""Dual coordinate ascent: compiled against NumPy, its first pass against PA-II, and its end against the primal problem."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from herdcli.fast import numpy_dual as twin
from herdcli.fast import numpy_online

compiled = pytest.importorskip("herdcli.fast._dual")
PA2 = (7, 1, 0, 0, 0.3, 0.0)


def examples(classes: int, count: int = 60, width: int = 8, seed: int = 1):
    random = np.random.default_rng(seed)
    X = random.normal(size=(count, width))
    label = (X @ random.normal(size=(width, classes)) + random.normal(size=(count, classes))).argmax(1)
    pointer = np.arange(count + 1, dtype=np.int64) * width
    return X, pointer, np.tile(np.arange(width, dtype=np.int32), count), X.ravel().copy(), label.astype(np.int32)


def learned(side, data, classes, passes, rivals=False, weight=None, C=0.3):
    X, pointer, index, value, label = data
    count = 1 if classes == 2 else classes
    weights, multipliers, running = np.zeros((X.shape[1], count)), np.zeros((len(X), count)), np.zeros(2)
    score, squares = np.zeros((len(X), count)), np.zeros(len(X))
    place = np.arange(len(X), dtype=np.int64)
    updates = [
        side.learn_dual(weights, pointer, index, value, label, weight, place, C, rivals, multipliers, running, score, squares)
        for _ in range(passes)
    ]
    return weights, multipliers, running, score, squares, updates


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("classes", "rivals"), [(2, False), (4, False), (4, True)])
def test_twins_give_the_same_bits(classes, rivals, weighted):
    data = examples(classes)
    weight = np.random.default_rng(5).integers(0, 3, 60).astype(float) if weighted else None
    for ours, theirs in zip(*(learned(side, data, classes, 4, rivals, weight) for side in (compiled, twin)), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("side", [compiled, twin])
def test_a_first_pass_is_that_of_pa2(side):
    X, pointer, index, value, label = examples(2)
    table, running, margin, variance = np.zeros((8, 2, 1)), np.zeros(2), np.zeros(60), np.zeros(60)
    table[:, 1] = 1.0
    numpy_online.learn_binary(table, pointer, index, value, label, None, PA2, running, margin, variance)
    weights, _, ours, _, squares, _ = learned(side, (X, pointer, index, value, label), 2, 1)
    assert weights[:, 0] == pytest.approx(table[:, 0, 0])
    assert ours == pytest.approx(running)
    assert squares == pytest.approx(variance)


@pytest.mark.parametrize("side", [compiled, twin])
@pytest.mark.parametrize(("classes", "rivals"), [(2, False), (3, False), (3, True)])
def test_the_passes_come_to_the_weights_of_least_squared_hinge(side, classes, rivals):
    data = examples(classes)
    X, label = data[0], data[-1]
    count = 1 if classes == 2 else classes

    def objective(flat):
        W = flat.reshape(X.shape[1], count)
        s = X @ W
        if classes == 2:
            m = s * np.where(label > 0, 1, -1)[:, None]
        elif rivals:
            m = (s[np.arange(len(X)), label][:, None] - s)[np.arange(classes) != label[:, None]]
        else:
            m = s * np.where(np.arange(classes) == label[:, None], 1, -1)
        return 0.5 * (W**2).sum() + 0.3 * (np.maximum(0, 1 - m) ** 2).sum()

    best = minimize(objective, np.zeros(X.shape[1] * count), method="BFGS", options={"gtol": 1e-7})
    weights = learned(side, data, classes, 300, rivals)[0]
    assert objective(weights.ravel()) == pytest.approx(best.fun, rel=1e-8)
    assert weights.ravel() == pytest.approx(best.x, abs=1e-4)


@pytest.mark.parametrize("side", [compiled, twin])
def test_what_does_not_fit_is_refused(side):
    _X, pointer, index, value, label = examples(2, count=2)
    room = (np.zeros((2, 1)), np.zeros(2), np.zeros((2, 1)), np.zeros(2))
    call = (pointer, index, value, label, None)
    with pytest.raises(ValueError, match="no multipliers"):
        side.learn_dual(np.zeros((8, 1)), *call, np.array([0, 2]), 1.0, False, *room)
    with pytest.raises(ValueError, match="outside its table"):
        side.learn_dual(np.zeros((7, 1)), *call, np.array([0, 1]), 1.0, False, *room)
    with pytest.raises(ValueError, match="outside the classes"):
        side.learn_dual(np.zeros((8, 1)), pointer, index, value, label + 2, None, np.array([0, 1]), 1.0, False, *room)
    with pytest.raises(ValueError, match="do not fit"):
        side.learn_dual(np.zeros((8, 2)), *call, np.array([0, 1]), 1.0, False, *room)
