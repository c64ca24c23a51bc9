"""L-BFGS: minima that are known, and no worse than SciPy's."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, rosen, rosen_der

from herdcli.numerics import lbfgs


def run(function, x, steps):
    now = lbfgs.initial_lbfgs_state(function, x)
    values = [now.value]
    for _ in range(steps):
        if now.stuck or np.abs(now.gradient).max() < 1e-9:
            break
        now = lbfgs.lbfgs_step(function, now)
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
    np.testing.assert_allclose(lbfgs.apply_inverse_hessian(g, moves, changes, lambda q: first @ q), inverse @ g, rtol=1e-10)
    flat = np.vstack([moves, np.eye(6)[0]]), np.vstack([changes, np.eye(6)[1]])  # s·y = 0: passed over too
    np.testing.assert_array_equal(
        lbfgs.apply_inverse_hessian(g, *flat, lambda q: first @ q), lbfgs.apply_inverse_hessian(g, moves, changes, lambda q: first @ q)
    )
    square = [item.reshape(-1, 2, 3) for item in (moves, changes)]
    found = lbfgs.apply_inverse_hessian(g.reshape(2, 3), *square, lambda q: (first @ q.ravel()).reshape(2, 3))
    np.testing.assert_allclose(found.ravel(), inverse @ g, rtol=1e-10)


def test_the_first_step_is_as_long_as_the_gradient_allows():
    """1/Σ|g| along −g, where that is shorter than 1; a step of a quadratic that is long enough is doubled until it bends."""
    for scale, length in ((0.25, 1.0), (10.0, 1 / 20)):
        seen = []

        def linear(x, scale=scale, seen=seen):
            seen.append(x.copy())
            return float(scale * x.sum() + 0.01 * x @ x), scale + 0.02 * x

        now = lbfgs.initial_lbfgs_state(linear, np.zeros(2))
        lbfgs.lbfgs_step(linear, now)
        np.testing.assert_allclose(seen[1], -length * scale, rtol=1e-12)
        np.testing.assert_allclose(seen[2], 2 * seen[1], rtol=1e-12)


def test_steps_meet_the_weak_wolfe_conditions():
    def function(x):
        return float(rosen(x)), rosen_der(x)

    now = lbfgs.initial_lbfgs_state(function, np.array([-1.2, 1.0, 0.5]))
    for _ in range(25):
        then = lbfgs.lbfgs_step(function, now)
        move = then.x - now.x
        assert then.value <= now.value + 1e-4 * move @ now.gradient
        assert move @ then.gradient >= 0.9 * move @ now.gradient
        assert len(then.moves) == min(len(now.moves) + 1, lbfgs.MEMORY)
        np.testing.assert_array_equal(then.moves[-1], move)
        np.testing.assert_array_equal(then.changes[-1], then.gradient - now.gradient)
        now = then


def test_a_line_that_is_too_long_is_halved_between_its_ends():
    """Along a wall: lengths 1, ½, ¼, … until the value falls enough."""
    lengths = []

    def function(x):
        lengths.append(float(-x[0]))
        return (-float(x[0]) if x[0] >= 0 else 0.0) + 1e3 * max(0.0, -float(x[0]) - 0.3) ** 2 + float(x[0]), np.array(
            [1.0 - 2e3 * max(0.0, -float(x[0]) - 0.3)]
        )

    now = lbfgs.lbfgs_step(function, lbfgs.initial_lbfgs_state(function, np.zeros(1)))
    assert lengths[1:4] == [1.0, 0.5, 0.25]
    assert not now.stuck


def test_where_nothing_descends_it_is_stuck():
    """A gradient that points the wrong way: no length lowers the value."""
    begun = lbfgs.LBFGSState(np.zeros(2), 1.0, np.ones(2), np.empty((0, 2)), np.empty((0, 2)))
    now = lbfgs.lbfgs_step(lambda x: (float(x @ x) + 1.0, np.ones(2) - 3 * x), begun)
    assert now.stuck
    np.testing.assert_array_equal(now.x, np.zeros(2))
    assert now.value == 1.0


def along(table):
    """A function on the line whose values and slopes at given places are as written, and where it was asked for."""
    seen = []

    def function(x):
        seen.append(round(float(x[0]), 12))
        value, slope = table.get(seen[-1], (-1.0, 0.0))
        return value, np.array([slope])

    return function, seen


def test_a_fall_of_less_than_a_ten_thousandth_of_the_slope_is_too_little():
    """From 0 at slope 1: of length 1 a fall of 10⁻⁴ is asked for, of ½ half of it, where the line has turned upwards steeply."""
    for first, second, places in ((-0.5e-4, -0.6e-4, [-1.0, -0.5]), (-0.5e-4, -0.4e-4, [-1.0, -0.5, -0.25]), (-1.1e-4, 0.0, [-1.0])):
        function, seen = along({-1.0: (first, -2.0), -0.5: (second, -2.0)})
        lbfgs.lbfgs_step(function, lbfgs.LBFGSState(np.zeros(1), 0.0, np.ones(1), np.empty((0, 1)), np.empty((0, 1))))
        assert seen == places


def test_later_steps_try_newtons_length_first():
    random = np.random.default_rng(1)
    A = np.diag(random.uniform(0.5, 3.0, 5))
    seen = []

    def function(x):
        seen.append(x.copy())
        return 0.5 * float(x @ A @ x), A @ x

    now = lbfgs.lbfgs_step(function, lbfgs.initial_lbfgs_state(function, random.normal(size=5)))
    seen.clear()
    scale = float(now.moves[-1] @ now.changes[-1]) / float(now.changes[-1] @ now.changes[-1])
    expected = now.x - lbfgs.apply_inverse_hessian(now.gradient, now.moves, now.changes, lambda q: scale * q)
    lbfgs.lbfgs_step(function, now)
    np.testing.assert_allclose(seen[0], expected, rtol=1e-12)


def test_where_rounding_raises_the_value_slopes_decide():
    """½ x² about 10⁸, whose falls are smaller than its last digit: the minimum's value comes out a digit too high, and it is found."""
    begun = lbfgs.initial_lbfgs_state(lambda x: (1e8, x.copy()), np.array([1e-5]))
    now = lbfgs.lbfgs_step(lambda x: (float(np.nextafter(1e8, 2e8)), x.copy()), begun)
    assert not now.stuck
    np.testing.assert_array_equal(now.x, [0.0])
