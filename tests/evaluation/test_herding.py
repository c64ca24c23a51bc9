"""Metrics of herding artifacts: against enumeration and closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from herdcli.algorithm import run_algorithm
from herdcli.evaluation import table
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.herding import COLUMNS, metrics
from herdcli.herding import class_runs, dynamics, maximisers, sample_entropy, visible_herding
from herdcli.herding.binary_features import pack_rows, to_unit_values


def visible_artifact(source, **options):
    problem = visible_herding.VisibleHerdingProblem((source,), visible_herding.VisibleHerdingSettings(burn_in=0, **options))
    return class_runs.assemble_visible_herding(problem, run_algorithm(visible_herding.VisibleHerding(problem)))


def test_independent_bits_converge_to_maximum_entropy_and_pairs_do_not():
    """Bach et al. (2012), sec. 5.3: irrational means converge, rational ones and pair features do not."""
    irrational = np.array([np.sqrt(2) - 1, np.sqrt(3) - 1.5, np.sqrt(5) - 2.1, np.pi - 3])
    found = [
        metrics(visible_artifact(visible_herding.source_from_moments(irrational, 4, "x", "spin"), iterations=T), EvaluationSettings())[
            "max_entropy_distance"
        ]
        for T in (500, 50_000)
    ]
    assert found[1] < 0.003 < found[0]
    rational = metrics(
        visible_artifact(visible_herding.source_from_moments(np.array([1, 2, 4, 5]) / 3 - 1, 4, "x", "spin"), iterations=6000),
        EvaluationSettings(),
    )
    assert rational["max_entropy_distance"] > 0.05
    assert rational["moment_gap"] < 1e-9
    w = np.concatenate([np.zeros(5), np.full(10, 0.3)])
    score = np.exp(maximisers.enumerate_scores(w, 5, "x,xx", "spin"))
    states = maximisers.enumerate_states(5, "spin").astype(float)
    i, j = np.triu_indices(5, 1)
    mean = score / score.sum() @ np.concatenate([states, states[:, i] * states[:, j]], axis=1)
    value = visible_artifact(
        visible_herding.source_from_moments(mean, 5, "x,xx", "spin"), features="x,xx", maximiser="enumerate", iterations=20_000
    )
    row = metrics(value, EvaluationSettings())
    assert row["moment_gap"] < 1e-3
    assert row["moment_gap_times_t"] < 10
    assert row["max_entropy_distance"] > 0.02


@pytest.mark.parametrize("representation", ["spin", "binary"])
def test_maximum_entropy_fit_equals_a_generic_optimiser(representation):
    rows = to_unit_values(np.random.default_rng(0).random((60, 4)) < 0.4, representation).astype(float)
    i, j = np.triu_indices(4, 1)
    mean = np.concatenate([rows, rows[:, i] * rows[:, j]], axis=1).mean(axis=0)
    states = maximisers.enumerate_states(4, representation).astype(float)
    features = np.concatenate([states, states[:, i] * states[:, j]], axis=1)
    generic = minimize(lambda w: np.log(np.exp(features @ w).sum()) - w @ mean, np.zeros(10), method="BFGS", options={"gtol": 1e-8})
    expected = np.exp(features @ generic.x)
    found = sample_entropy.fit_max_entropy(mean, 4, "x,xx", representation)
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-6)
    np.testing.assert_allclose(found @ features, mean, atol=1e-9)


def test_moments_outside_every_positive_distribution_have_no_fit():
    assert sample_entropy.fit_max_entropy(np.array([0.0, 0.0, 1.5]), 2, "x,xx", "spin") is None


def test_entropies_of_known_distributions():
    np.testing.assert_allclose(sample_entropy.unit_entropy_bits(np.array([0.0, 1.0, -1.0, 0.5]), "spin"), [1, 0, 0, 0.8112781244591328])
    np.testing.assert_allclose(sample_entropy.unit_entropy_bits(np.array([0.5, 0.25]), "binary"), [1, 0.8112781244591328])
    np.testing.assert_allclose(sample_entropy.effective_state_count(np.array([[1, 2], [1, 2], [3, 4], [3, 4]], dtype=np.uint8)), 2)
    np.testing.assert_allclose(sample_entropy.effective_state_count(np.arange(5, dtype=np.uint8)[:, None]), 5)
    np.testing.assert_allclose(sample_entropy.state_frequencies(np.array([[1, -1], [1, 1], [1, -1], [-1, -1]])), [0.25, 0.5, 0, 0.25])


def test_classes_are_told_with_baselines_beside():
    draws = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 60)
    on = (draws.random((3, 60)) < 0.5)[y] ^ (draws.random((180, 60)) < 0.2)
    split = np.tile(np.repeat([0, 1, 2], 20), 3)
    groups = class_runs.prepare_class_groups(on, y, split, ["a", "b", "c"], per_class=True, score_training=True)
    problem = class_runs.make_hidden_problem(groups, dynamics.HiddenHerdingSettings(hidden=10, iterations=200, burn_in=100))
    state = run_algorithm(dynamics.HiddenHerding(problem))
    value = replace(
        class_runs.assemble_hidden_herding(problem, state),
        scores=class_runs.assemble_class_scores(
            groups.labels, class_runs.nearest_training_classes(groups, range(len(groups.labels.names))), state
        ),
        classes=groups.labels.names,
    )
    row = metrics(value, EvaluationSettings())
    assert tuple(row) == COLUMNS
    assert row["error"] < 0.1
    assert row["error_train"] < 0.1
    assert row["error_1nn"] < 0.2
    np.testing.assert_allclose(row["error_majority"], 2 / 3)
    assert 0 < row["hidden_entropy"] <= 1
    assert table.import_metrics_function("herding") is metrics


def test_models_without_classes_or_hidden_units_leave_their_columns_empty():
    on = np.random.default_rng(1).random((30, 8)) < 0.5
    problem = dynamics.HiddenHerdingProblem((pack_rows(on, "spin"),), dynamics.HiddenHerdingSettings(hidden=5, iterations=50, burn_in=25))
    row = metrics(class_runs.assemble_hidden_herding(problem, run_algorithm(dynamics.HiddenHerding(problem))), EvaluationSettings())
    assert row["error"] is None
    assert row["max_entropy_distance"] is None
    assert row["effective_states"] > 1
    assert (
        metrics(visible_artifact(visible_herding.source_from_rows(to_unit_values(on, "spin"), "x"), iterations=50), EvaluationSettings())[
            "hidden_entropy"
        ]
        is None
    )
