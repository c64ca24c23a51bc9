"""L-BFGS: minima that are known, and no worse than SciPy's."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, rosen, rosen_der

from herdcli.numerics import lbfgs


def run(function, x, steps):
    now = lbfgs.begin(function, x)
    values = [now.value]
    for _ in range(steps):
        if now.stuck or np.abs(now.gradient).max() < 1e-9:
            break
        now = lbfgs.descend(function, now)
        values.append(now.value)
    return now, values


def test_quadratics():
    random = np.random.default_rng(0)
    A = random.standard_normal((20, 20))
    A, b = A @ A.T + np.eye(20), random.standard_normal(20)
    now, values = run(lambda x: (0.5 * float(x @ A @ x) - float(b @ x), A @ x - b), np.zeros(20), 200)
    assert np.abs(now.x - np.linalg.solve(A, b)).max() < 1e-8
    assert (np.diff(values) <= 1e-14 * np.abs(values[1:])).all()


def test_rosenbrock():
    start = np.tile([-1.2, 1.0], 5)
    evaluations = []

    def function(x):
        evaluations.append(1)
        return float(rosen(x)), rosen_der(x)

    now, _ = run(function, start, 500)
    assert np.abs(now.x - 1).max() < 1e-8
    assert len(evaluations) < 3 * minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 0}).nfev


def test_the_two_loops_are_the_product_of_the_updates():
    """H⁻¹ ← (I − s y'/s·y) H⁻¹ (I − y s'/s·y) + s s'/s·y from the oldest pair on, as matrices, of gradients of either shape."""
    random = np.random.default_rng(3)
    curvature = random.standard_normal((6, 6))
    curvature = curvature @ curvature.T + np.eye(6)
    first = np.diag(random.uniform(0.5, 2.0, 6))
    moves = random.standard_normal((4, 6))
    changes = moves @ curvature
    changes[1] *= -1.0  # no slope that grows: passed over
    inverse = first
    for s, y in zip(moves, changes, strict=True):
        if s @ y > 0:
            left = np.eye(6) - np.outer(s, y) / (s @ y)
            inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
    g = random.standard_normal(6)
    np.testing.assert_allclose(lbfgs.apply_inverse(g, moves, changes, lambda q: first @ q), inverse @ g, rtol=1e-10)
    square = [item.reshape(-1, 2, 3) for item in (moves, changes)]
    found = lbfgs.apply_inverse(g.reshape(2, 3), *square, lambda q: (first @ q.ravel()).reshape(2, 3))
    np.testing.assert_allclose(found.ravel(), inverse @ g, rtol=1e-10)
