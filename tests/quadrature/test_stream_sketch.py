"""Rows seen once: the sketch is that of all rows, the candidates a uniform sample of them, and a resumed run is the same."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from herdcli import artifacts
from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.quadrature import selection, selection_problem
from herdcli.quadrature.embeddings import stream_sketch
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel
from herdcli.quadrature.rules import sequential_rules

KERNEL = GaussianKernel(1.5)


class Given:
    """Blocks of rows that are all in memory; the proof is the number of the block."""

    def __init__(self, X, weights, size):
        self.X, self.weights, self.size, self.at = X, weights, size, 0

    def block(self, step, proof):
        self.at = step + 1
        rows = slice(step * self.size, (step + 1) * self.size)
        return (self.X[rows], self.weights[rows]) if len(self.X[rows]) else None

    def proof(self):
        return np.full(32, self.at, dtype=np.uint8)


def made(X, weights, *, kept=50, size=64, landmarks=30, seed=0):
    sketch = stream_sketch.make_landmark_sums(KERNEL, X[:size], weights[:size], landmarks, seed)
    return stream_sketch.StreamSketching(sketch, Given(X, weights, size), kept, seed)


@pytest.fixture
def data():
    """300 rows that drift, and weights of which some are 0."""
    random = np.random.default_rng(0)
    weights = random.exponential(size=300)
    weights[::11] = 0.0
    return random.standard_normal((300, 2)) + np.linspace(0, 6, 300)[:, None], weights


def test_atoms_are_within_the_bound_though_rows_drift(data, mmd):
    X, weights = data
    whole = made(X, weights)
    state = run_algorithm(whole)
    group, numbers = stream_sketch.make_group_from_stream(whole.sketch, state, 15)
    np.testing.assert_array_equal(group.points, X[numbers])
    assert len(set(numbers.tolist())) == 50
    assert weights[numbers].all()
    settings = selection_problem.SelectionSettings(sequential_rules.RuleSettings())
    found = run_algorithm(selection.AtomSelection(selection_problem.SelectionProblem(KERNEL, (group,), settings))).done[0]
    truth = mmd(KERNEL, X, weights / weights.sum(), found.atoms, found.weight)
    assert 0 < abs(truth - found.mmd[-1]) <= found.added.distance < 0.6
    np.testing.assert_allclose(state.spread, [weights.sum(), weights.sum()])


def test_candidates_are_a_uniform_sample():
    """Of 40 rows 10 stay: each is kept in a quarter of 400 seeds, within five standard errors; fewer rows stay all."""
    X, counts = np.arange(40.0)[:, None], np.zeros(40)
    for seed in range(400):
        whole = made(X, np.ones(40), kept=10, size=7, landmarks=3, seed=seed)
        state = whole.init()
        for step in range(6):
            whole._update_candidates(state, *whole.source.block(step, state.proof))
            state.rows, state.step = state.rows + len(X[step * 7 : step * 7 + 7]), step + 1
        counts[state.number] += 1
        np.testing.assert_array_equal(state.points[:, 0], state.number)
    assert abs(counts - 100).max() < 5 * np.sqrt(400 * 0.25 * 0.75)
    state = run_algorithm(made(X, np.ones(40), kept=64, size=7, landmarks=3))
    assert np.sort(state.number[state.key < 1]).tolist() == list(range(40))


def test_a_resumed_run_ends_alike(data):
    whole = run_algorithm(made(*data))
    state = made(*data).init()
    while not state.ended:
        state = made(*data).step(copy.deepcopy(state))
    for name in ("sums", "points", "key", "number", "spread"):
        np.testing.assert_array_equal(getattr(state, name), getattr(whole, name))
    assert (state.rows, state.step) == (300, 5)


def test_rows_without_weight_are_refused(data):
    whole = made(*data)
    with pytest.raises(DataError, match="not all 0"):
        whole.result(whole.init())


def test_a_checkpoint_of_a_stream_is_read_again(data, tmp_path):
    whole = made(*data)
    state = whole.step(whole.step(whole.init()))
    artifacts.save_checkpoint(str(tmp_path / "ck"), state, "digest")
    read = artifacts.load_checkpoint(str(tmp_path / "ck"), stream_sketch.StreamState, "digest", template=whole.init)
    for name in ("sums", "points", "key", "number", "spread", "proof", "rows", "step"):
        np.testing.assert_array_equal(getattr(read, name), getattr(state, name))
