"""Models that share the rows of one matrix learn as if each had its own, and no row is copied for them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.rbm import feature_transform
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.learning.class_rows import assign_class_folds
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family


def test_shared_rows_learn_what_copied_rows_learn() -> None:
    random = np.random.default_rng(0)
    base = random.integers(0, 2, (60, 5)).astype(np.int8)
    chosen = [np.flatnonzero(random.random(60) < share) for share in (0.5, 0.9)]
    settings = parallel_fits.Settings(hidden=3, epochs=4, batch_size=7)
    found = []
    for rows in ([base[index] for index in chosen], [parallel_fits.SelectedRows(base, index) for index in chosen]):
        problem = parallel_fits.LearningProblem(rows, settings)
        state = run_algorithm(parallel_fits.RBMLearning(problem))
        found.append(state)
    for name in ("W", "b", "c", "trace"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))


@pytest.mark.parametrize(("rows", "says"), [([], "there are no rows to learn from"), ([np.zeros((0, 2), np.int8)], "there are no rows")])
def test_no_rows_are_refused_as_such_when_scores_are_averaged_too(rows: list[np.ndarray], says: str) -> None:
    with pytest.raises(DataError, match=says):
        parallel_fits.LearningProblem(rows, parallel_fits.Settings(batch_size=0, average_scores=1), np.zeros((1, 2), np.int8))


def test_folds_hold_indices_not_rows() -> None:
    n, wide = 2000, 1000
    random = np.random.default_rng(0)
    X, y = random.integers(0, 2, (n, wide), dtype=np.int8), np.arange(n) % 2
    groups = assign_class_folds(X, y, np.zeros(n, dtype=np.uint8), ["a", "b"], folds=5, seed=0)
    tracemalloc.start()
    rows = groups.training_rows()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(map(len, rows)) == 5 * n  # all, and for each of five folds four fifths of them
    assert held < 0.1 * X.nbytes
    for model, part in enumerate(rows[:2]):
        np.testing.assert_array_equal(part[:], X[y == model])


def test_energies_are_taken_block_by_block() -> None:
    random = np.random.default_rng(0)
    base = random.integers(0, 2, (9000, 200), dtype=np.int8)
    models = [
        Harmonium(random.normal(size=(200, 3)), random.normal(size=200), np.zeros(3), unit_family("binary"), unit_family("binary"))
        for _ in "ab"
    ]
    rows = np.flatnonzero(random.random(9000) < 0.8)
    tracemalloc.start()
    found = feature_transform.free_energies_by_model(models, parallel_fits.SelectedRows(base, rows))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_allclose(found, np.stack([h.free_energy(base[rows]) for h in models], axis=1), atol=1e-11)
    assert peak < 3e6  # all rows at once are 1.4 MB as they are and 11.5 MB in float64
