"""A stream learned in parts: what the parts are, that they are learned apart, and that their evidence adds up."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.online.block_sources import MemorySource
from herdcli.online.learner import OnlineLearner
from herdcli.online.learners import partitioned_learning
from herdcli.online.model import Settings

RANDOM = np.random.default_rng(2)
X = RANDOM.standard_normal((90, 4))
Y = (X @ [1.0, -2.0, 0.5, 0.0] > 0).astype(np.int64)
SETTINGS = Settings(algorithm="arow", C=1.0, scaling="none")


def learner(rows, settings=SETTINGS):
    return OnlineLearner(settings, MemorySource(X[rows], Y[rows], rows=7), 2, 5)


def test_parts_are_all_rows_once_in_their_order_or_in_one_drawn():
    dealt = partitioned_learning.partition_rows(10, 3, 0, shuffle=False)
    assert [part.tolist() for part in dealt] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    mixed = partitioned_learning.partition_rows(90, 4, 7, shuffle=True)
    assert sorted(np.concatenate(mixed)) == list(range(90))
    assert [len(part) for part in mixed] == [23, 23, 22, 22]
    assert mixed[0].tolist() == partitioned_learning.partition_rows(90, 4, 7, shuffle=True)[0].tolist() != sorted(mixed[0])
    assert mixed[0].tolist() != partitioned_learning.partition_rows(90, 4, 8, shuffle=True)[0].tolist()


def test_each_part_is_learned_from_nothing():
    dealt = partitioned_learning.partition_rows(90, 3, 0, shuffle=False)
    made = run_algorithm(partitioned_learning.PartLearning([learner(part) for part in dealt]))
    for one, part in zip(made, dealt, strict=True):
        alone = run_algorithm(learner(part))
        np.testing.assert_array_equal(one.mean, alone.mean)
        np.testing.assert_array_equal(one.variance, alone.variance)
        assert one.running == alone.running


def test_squared_losses_of_parts_make_the_least_squares_of_all_rows():
    """With the squared loss each part is exact: Σ⁻¹ = I + C X'X and Σ⁻¹μ = C X'y, and precisions and their means add up."""
    settings = Settings(algorithm="arow", loss="squared", covariance="full", C=0.7, scaling="none", bias=False)
    made = partitioned_learning.merge_parts(
        run_algorithm(
            partitioned_learning.PartLearning(
                [learner(part, settings) for part in partitioned_learning.partition_rows(90, 3, 0, shuffle=False)]
            )
        ),
        None,
    )
    precision = np.eye(4) + 0.7 * X.T @ X
    np.testing.assert_allclose(np.linalg.inv(made.covariance[0]), precision, rtol=1e-8)
    np.testing.assert_allclose(made.mean[0], np.linalg.solve(precision, 0.7 * X.T @ np.where(Y > 0, 1.0, -1.0)), rtol=1e-8)
    assert made.running.examples == 90


def test_a_part_of_one_class_is_a_part_all_the_same():
    order = np.argsort(Y, kind="stable")
    dealt = np.array_split(order, 3)
    made = partitioned_learning.merge_parts(run_algorithm(partitioned_learning.PartLearning([learner(part) for part in dealt])), None)
    assert np.mean((X @ made.mean[0] > 0) == Y) > 0.8
    with pytest.raises(DataError, match="every example has label"):
        run_algorithm(learner(dealt[0]))


def test_a_run_resumed_after_any_block_ends_alike():
    def algorithm():
        return partitioned_learning.PartLearning([learner(part) for part in partitioned_learning.partition_rows(90, 4, 0, shuffle=False)])

    state, whole = algorithm().init(), run_algorithm(algorithm())
    while not algorithm().done(state):
        state = algorithm().step(copy.deepcopy(state))
        assert algorithm().progress(state).bound == 16
    for one, other in zip(state.done, whole, strict=True):
        np.testing.assert_array_equal(one.mean, other.mean)
