"""Herding of units of which one is high: against a plain search over the states that text columns can have."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.herding import class_runs, dynamics, maximisers, visible_herding
from herdcli.herding.binary_features import split_pairwise_weights
from herdcli.herding.categorical_variables import CategoricalVariables, ascend, find_variables

# Units 0, 1, 2 are one variable, 4 and 5 another; unit 3 is free.
VARIABLES = CategoricalVariables(np.array([0, 1, 2, 4, 5]), np.array([0, 3]))
STATES = np.array([[*np.eye(3)[i], free, *np.eye(2)[j]] for i, free, j in itertools.product(range(3), (0, 1), range(2))], dtype=np.int64)


def as_units(on: np.ndarray, representation: str) -> np.ndarray:
    return np.where(on > 0, 1, -1 if representation == "spin" else 0)


@pytest.mark.parametrize("representation", ["spin", "binary"])
def test_maximisers_find_the_best_state_of_the_variables(representation: str) -> None:
    random = np.random.default_rng(0)
    states = as_units(STATES, representation)
    for _ in range(40):
        w = random.integers(-50, 50, 21)
        b, J = split_pairwise_weights(w, 6)
        scores = states @ b + 0.5 * np.einsum("ni,ij,nj->n", states, J, states)
        found = maximisers.maximise_by_enumeration(w, 6, "x,xx", representation, VARIABLES).astype(np.int64)
        assert found @ b + 0.5 * found @ J @ found == scores.max()
        linear = maximisers.maximise_by_sign(w[:6], representation, VARIABLES).astype(np.int64)
        assert linear @ w[:6] == (states @ w[:6]).max()
        start = states[random.integers(len(states))]
        local = maximisers.maximise_by_coordinates(w, start, "x,xx", representation, VARIABLES).astype(np.int64)
        assert (local == states).all(axis=1).any()
        # No state that differs in one variable or the free unit is better.
        parts = [[0, 1, 2], [3], [4, 5]]
        near = [s for s in states if sum((s[part] != local[part]).any() for part in parts) <= 1]
        assert local @ b + 0.5 * local @ J @ local == max(s @ b + 0.5 * s @ J @ s for s in near)


@pytest.mark.parametrize("low", [-1, 0])
def test_ascent_ends_where_neither_layer_can_be_improved(low: int) -> None:
    random = np.random.default_rng(1)
    states = np.where(STATES > 0, 1, low)
    for _ in range(30):
        M, b, c = random.integers(-9, 9, (6, 4)), random.integers(-9, 9, 6), random.integers(-9, 9, 4)
        x, z = states[random.integers(len(states))].astype(np.int8), np.ones(4, dtype=np.int8)
        sweeps = ascend(M, b, c, x, z, low, 0, VARIABLES)
        assert sweeps >= 1
        assert (x == states).all(axis=1).any()
        np.testing.assert_array_equal(z, np.where(x.astype(int) @ M + c >= 0, 1, low))
        fields = M @ z.astype(int) + b
        assert x.astype(int) @ fields == (states @ fields).max()


def test_equal_fields_leave_the_present_unit_high() -> None:
    present = np.array([0, 0, 1, 0, 0, 1], dtype=np.int8)
    np.testing.assert_array_equal(VARIABLES.choose_states(np.zeros(6), present, 0), [0, 0, 1, 1, 0, 1])
    np.testing.assert_array_equal(VARIABLES.choose_states(np.zeros(6), np.zeros(6, dtype=np.int8), 0), [1, 0, 0, 1, 1, 0])


def rows(count: int = 90) -> np.ndarray:
    random = np.random.default_rng(2)
    return STATES[random.choice(len(STATES), count, p=random.dirichlet(np.ones(len(STATES))))] > 0


@pytest.mark.parametrize("representation", ["spin", "binary"])
@pytest.mark.parametrize("variant", ["local", "safe"])
def test_pseudo_samples_are_states_of_the_variables_and_moments_are_matched(representation: str, variant: str) -> None:
    truth = rows()
    groups = class_runs.prepare_class_groups(truth, np.zeros(90, int), np.zeros(90, int), ["all"], per_class=False)
    settings = dynamics.HiddenHerdingSettings(
        hidden=5, iterations=3000, burn_in=0, representation=representation, flip=False, variant=variant
    )
    problem = class_runs.make_hidden_problem(groups, settings, VARIABLES)
    made = class_runs.assemble_hidden_herding(problem, run_algorithm(dynamics.HiddenHerding(problem)))
    kept = made.kept_samples(0)[0]
    assert (np.add.reduceat(kept[:, VARIABLES.units] > 0, VARIABLES.starts, axis=1) == 1).all()
    # Proposition 1: |⟨x⟩ − mean| = |w_T − w_0| / T, with w_0 = 0.
    expected = as_units(truth, representation).mean(axis=0)
    np.testing.assert_allclose(np.abs(kept.mean(axis=0) - expected), np.abs(made.b[0] / made.n[0]) / 3000, atol=1e-12)
    assert np.abs(kept.mean(axis=0) - expected).max() < 0.1


def test_pairwise_moments_of_the_variables_are_matched() -> None:
    truth = rows()
    groups = class_runs.prepare_class_groups(truth, np.zeros(90, int), np.zeros(90, int), ["all"], per_class=False)
    for maximiser in ("enumerate", "coordinates"):
        settings = visible_herding.VisibleHerdingSettings(features="x,xx", maximiser=maximiser, iterations=2000, burn_in=0)
        problem = class_runs.make_visible_problem(groups, settings, VARIABLES)
        made = class_runs.assemble_visible_herding(problem, run_algorithm(visible_herding.VisibleHerding(problem)))
        kept = made.kept_samples(0)[0]
        assert (np.add.reduceat(kept[:, VARIABLES.units] > 0, VARIABLES.starts, axis=1) == 1).all()
        spins = as_units(truth, "spin")
        gap = kept.T.astype(float) @ kept / len(kept) - spins.T @ spins / len(spins)
        assert np.abs(gap).max() < 0.01, maximiser


def test_variables_are_found_among_the_units_that_vary() -> None:
    names, columns = ["n", "u=a", "u=b", "u=c", "v=x", "v=y", "w=s", "w=t"], [["u=a", "u=b", "u=c"], ["v=x", "v=y"], ["w=s", "q=t"]]
    found = find_variables(names, columns, np.array([0, 1, 3, 4, 6, 7]))
    assert found is not None
    np.testing.assert_array_equal(found.units, [1, 2])  # u=b is constant, of v only v=x is left, and w lacks a column
    np.testing.assert_array_equal(found.starts, [0])
    assert find_variables(names, [["z=a"]], np.arange(8)) is None
