"""The expansion of log Z in the weights: its slopes, its order, its fixed points, and learning by it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.learning.parallel_fits import LearningProblem, Settings
from herdcli.rbm.likelihood import enumeration, tap
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family

PAIRS = [
    ("binary", "binary"),
    ("spin", "binary"),
    ("rate:3", "spin"),
    ("gaussian", "binary"),
    ("binary", "gaussian"),
    ("poisson", "binary"),
]


def model(visible: str, hidden: str, scale: float, change: tuple[str, tuple[int, ...], float] | None = None) -> Harmonium:
    random = np.random.default_rng(2)
    parts = {"W": scale * random.normal(size=(4, 3)), "b": random.normal(0, 0.5, 4), "c": random.normal(0, 0.5, 3)}
    if change:
        parts[change[0]][change[1]] += change[2]
    return Harmonium(parts["W"], parts["b"], parts["c"], unit_family(visible), unit_family(hidden))


def at(h: Harmonium) -> tap.TAPFixedPoints:
    return tap.find_fixed_point(h, h.hidden.mean(h.c)[None])


@pytest.mark.parametrize(("visible", "hidden"), PAIRS)
def test_the_gradient_is_the_slope_of_the_expansion_at_its_fixed_point(visible: str, hidden: str) -> None:
    h = model(visible, hidden, 0.2)
    found, step = at(h), 1e-5
    slopes = {"W": tap.tap_log_z_gradient(h.W, found), "b": found.visible.m[0], "c": found.hidden.m[0]}
    for name, slope in slopes.items():
        for index in itertools.islice(np.ndindex(slope.shape), 5):
            above, below = (model(visible, hidden, 0.2, (name, index, sign * step)) for sign in (1, -1))
            difference = (tap.tap_log_partition(above, at(above)) - tap.tap_log_partition(below, at(below)))[0] / (2 * step)
            assert slope[index] == pytest.approx(difference, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize(("visible", "hidden"), PAIRS)
def test_what_the_expansion_leaves_out_is_of_fourth_order(visible: str, hidden: str) -> None:
    errors = []
    for scale in (0.1, 0.05):
        h = model(visible, hidden, scale)
        errors.append(abs(float(tap.tap_log_partition(h, at(h))[0]) - enumeration.exact_log_partition(h)))
    assert errors[0] < 0.02
    assert errors[0] > 9 * errors[1]  # 2⁴ in the end; a term of third order left out would make it 2³


def test_learning_by_it_raises_the_exact_likelihood_of_a_weakly_coupled_model() -> None:
    random = np.random.default_rng(0)
    rows = (np.repeat(random.random((500, 2)) < 0.5, 4, axis=1) ^ (random.random((500, 8)) < 0.2)).astype(np.int8)
    figures = {}
    for algorithm in ("tap", "exact"):
        settings = Settings(4, algorithm, epochs=40, steps=3, learning_rate=0.05, centering=True)
        problem = LearningProblem([rows], settings)
        state = run_algorithm(parallel_fits.RBMLearning(problem))
        h = Harmonium(*(np.asarray(part[0], dtype=np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)
        figures[algorithm] = row_log_likelihood(h, rows, enumeration.exact_log_partition(h)).mean()
    p = rows.mean(axis=0)
    independent = (rows * np.log(p) + (1 - rows) * np.log(1 - p)).sum(axis=1).mean()
    assert independent + 0.3 < figures["tap"] < figures["exact"] + 0.01


def test_units_of_several_columns_are_refused() -> None:
    with pytest.raises(BadUsage, match="--algorithm tap needs units with one column"):
        Settings(4, "tap", visible_units="softmax:3")
