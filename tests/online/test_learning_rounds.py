"""Parts that go on from what they have made together: rounds of evidence that adds up, and what is sent to other processes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from herdcli.algorithm import run_algorithm
from herdcli.cluster import serialization
from herdcli.online.block_sources import MemorySource
from herdcli.online.learner import OnlineLearner
from herdcli.online.learners import learning_rounds, partitioned_learning
from herdcli.online.learners.model_merging import merge_models
from herdcli.online.model import Settings

RANDOM = np.random.default_rng(2)
X = RANDOM.standard_normal((90, 4))
Y = (X @ [1.0, -2.0, 0.5, 0.0] > 0).astype(np.int64)
THREE = partitioned_learning.partition_rows(90, 3, 0, shuffle=False)


def made(count, settings, chosen=THREE, X=X, names=("a", "b")):
    return run_algorithm(learning_rounds.RoundLearning(learning_rounds.PartSource(X, Y, None, chosen), settings, 5, list(names), count, 7))


def test_squared_losses_of_rounds_make_the_least_squares_of_repeated_rows():
    """Of the squared loss each round adds C X'X and C X'y, as a further copy of all rows would; here each part has columns of its own."""
    settings = Settings(algorithm="arow", loss="squared", covariance="full", C=0.7, scaling="none", bias=False)
    apart = X.copy()
    for number, part in enumerate(THREE):
        apart[np.ix_(part, np.setdiff1d(np.arange(4), [number, 3] if number == 2 else [number]))] = 0.0
    found = made(3, settings, X=apart)
    precision = np.eye(4) + 3 * 0.7 * apart.T @ apart
    np.testing.assert_allclose(np.linalg.inv(found.covariance[0]), precision, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.mean[0], np.linalg.solve(precision, 3 * 0.7 * apart.T @ np.where(Y > 0, 1.0, -1.0)), rtol=1e-7)
    assert found.running.examples == 270


@pytest.mark.parametrize("algorithm", ["arow", "nherd", "pa1"])
@pytest.mark.parametrize("scaling", ["none", "online"])
def test_rounds_of_one_part_are_passes(algorithm, scaling):
    settings = Settings(algorithm=algorithm, C=1.0, scaling=scaling)
    found = made(3, settings, [np.arange(90)])
    alone = run_algorithm(
        OnlineLearner(Settings(algorithm=algorithm, C=1.0, scaling=scaling, passes=3), MemorySource(X, Y, rows=7, passes=3), 2, 5)
    )
    np.testing.assert_allclose(found.mean, alone.mean, rtol=1e-9, atol=1e-12)
    if algorithm != "pa1":
        np.testing.assert_allclose(found.variance, alone.variance, rtol=1e-9)
    if scaling == "online":
        np.testing.assert_allclose(found.size, alone.size, rtol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
def test_the_first_round_is_the_merge_by_evidence(bias):
    settings = Settings(algorithm="arow", C=1.0, scaling="online", bias=bias)
    apart = [OnlineLearner(settings, MemorySource(X[part], Y[part], rows=7), 2, 5) for part in THREE]
    merged = merge_models(run_algorithm(partitioned_learning.PartLearning(apart)), "evidence")
    found = made(1, settings)
    for name in ("mean", "variance", "seen", "size"):
        np.testing.assert_allclose(getattr(found, name), getattr(merged, name), rtol=1e-10)
    assert (found.running.examples, found.running.wrong) == (merged.running.examples, merged.running.wrong)


def test_rounds_of_sparse_rows_are_those_of_dense_ones():
    settings = Settings(algorithm="nherd", C=1.0)
    thin = np.where(np.abs(X) > 0.5, X, 0.0)
    np.testing.assert_array_equal(made(2, settings, X=thin).mean, made(2, settings, X=csr_array(thin)).mean)


def test_a_part_and_what_it_is_taught_can_be_sent():
    settings = Settings(algorithm="arow", C=1.0)
    taught = learning_rounds.PartContribution(settings, 5, made(1, settings), 7)
    (part,) = learning_rounds.PartSource(X, Y, None, THREE).take(1, 2)
    there = serialization.deserialize(serialization.serialize(taught))(
        serialization.deserialize(serialization.serialize([part]), copy=False)[0]
    )
    assert serialization.serialize(there) == serialization.serialize(taught(part))
