"""Least squares from sums against that of the rows: estimates, errors and figures, rows far from 0, and sums that no shard can have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import ArrayRows
from herdcli.regression import block_sums, fit, least_squares_sums, model
from herdcli.regression.families import Gaussian
from herdcli.shards import ShardPlace

RANDOM = np.random.default_rng(3)
ROWS = 300
X = RANDOM.normal(size=(ROWS, 3)) * [1.0, 5.0, 0.2] + [0.0, 20.0, 3.0]
OFFSET = RANDOM.normal(size=ROWS)
Y = X @ [1.0, -0.3, 4.0] + 2.0 + OFFSET + RANDOM.normal(size=ROWS) * (0.2 + abs(X[:, 0]))
WEIGHT = RANDOM.uniform(0.5, 2.0, ROWS)
SPLIT = (np.arange(ROWS) % 5 == 4).astype(np.uint8)
FIGURES = ["coefficients", "intercept", "standard_error", "robust_error", "null_intercept", "aliased", "mass", "rows"]
FIGURES += ["deviance", "dispersion", "null_deviance", "null_dispersion", "log_likelihood", "l1", "l2", "converged"]


def blocks(X, y=Y, weight=None, size=64):
    kept = block_sums.evaluation_mask(SPLIT)
    for first in range(0, ROWS, size):
        own = slice(first, first + size)
        yield block_sums.RegressionBlock(first, X[own], y[own], OFFSET[own], None if weight is None else weight[own], SPLIT[own], kept[own])


def summed(X, y=Y, weight=None, l1=0.0, l2=0.0):
    pilot = block_sums.fit_pilot(next(blocks(X, y, weight)))
    whole = least_squares_sums.join_partial_sums([block_sums.sum_block(block, pilot) for block in blocks(X, y, weight)])
    found = least_squares_sums.SummedRows(whole.second, pilot)
    problem = found.problem(l1, l2)
    ended, figures = least_squares_sums.uncentred_fit_with_statistics(
        whole, found, problem, run_algorithm(fit.NewtonDescent(problem, found.intercept_only_coefficients(), elsewhere=found))
    )
    value = model.regression_artifact(problem, ended, figures, names=None, classes=None, target="y", seed=0)
    return least_squares_sums.with_heldout_rows(whole, value, weighted=weight is not None)


def of_rows(X, y=Y, weight=None, l1=0.0, l2=0.0):
    train = SPLIT == 0
    table = ArrayRows(np.column_stack([X, y, OFFSET])[train], weight=None if weight is None else weight[train])
    problem = fit.RegressionProblem(table, Gaussian(), 1, X.shape[1], l1, l2)
    return model.assemble_regression(
        problem,
        run_algorithm(fit.NewtonDescent(problem, model.initial_coefficients(problem))),
        names=None,
        classes=None,
        target="y",
        seed=0,
    )


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["rows", "weighted rows"])
@pytest.mark.parametrize("penalty", [{}, {"l2": 0.1}, {"l1": 0.2}], ids=["least squares", "ridge", "lasso"])
def test_sums_say_what_the_rows_do(weight, penalty):
    ours, theirs = summed(X, weight=weight, **penalty), of_rows(X, weight=weight, **penalty)
    for name in FIGURES:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, err_msg=name)
    held = ours.holdout
    assert held is not None
    np.testing.assert_allclose(held.predictor, theirs.predictor(X[SPLIT == 1], OFFSET[SPLIT == 1]), rtol=1e-9)
    assert held.y.tolist() == Y[SPLIT == 1].tolist()
    assert (held.weight is None) == (weight is None)


def test_sums_lose_no_digits_far_from_zero_and_close_to_the_target():
    """Columns a million times further from 0 than they vary, and residuals a millionth of the target: products of such rows say neither."""
    far = X + np.array([1e6, 0.0, 0.0])
    near, noise = X @ [1.0, -0.3, 4.0] + OFFSET, RANDOM.normal(size=ROWS)
    for y in (Y, near + 1e-6 * noise):
        ours, theirs = summed(far, y), of_rows(X, y)
        for name in ("coefficients", "standard_error", "robust_error", "deviance", "log_likelihood"):
            a, b = (np.atleast_2d(getattr(value, name)) for value in (ours, theirs))
            if name.endswith("error"):
                a, b = a[:, :-1], b[:, :-1]  # the intercept is that of other columns
            np.testing.assert_allclose(a, b, rtol=1e-4, err_msg=name)
        assert not ours.aliased.any()


def test_columns_that_say_nothing_new_are_told():
    made = np.column_stack([X, X[:, 1], np.full(ROWS, 7.3)])
    ours, theirs = summed(made), of_rows(made)
    assert ours.aliased.tolist() == theirs.aliased.tolist() == [False, True, False, True, True]
    assert ours.coefficients[0, -1] == 0.0
    np.testing.assert_allclose(ours.coefficients[0, 1], ours.coefficients[0, 3], rtol=1e-9)
    assert np.isnan(ours.standard_error[0, ours.aliased.nonzero()[0]]).all()
    np.testing.assert_allclose(ours.deviance, theirs.deviance, rtol=1e-9)


def test_robust_errors_are_those_of_few_columns(monkeypatch):
    monkeypatch.setattr(block_sums, "ROBUST", 3)
    assert np.isfinite(summed(X).robust_error).all()
    monkeypatch.setattr(block_sums, "ROBUST", 2)
    ours, theirs = summed(X), of_rows(X)
    assert np.isnan(ours.robust_error).all()
    np.testing.assert_allclose(ours.standard_error, theirs.standard_error, rtol=1e-9)


def test_few_rows_have_no_pilot_but_their_means():
    head = next(blocks(X, size=7))
    assert block_sums.fit_pilot(head).theta.tolist() == [0.0, 0.0, 0.0, float((head.y - head.offset).mean())]
    assert block_sums.fit_pilot(next(blocks(X, size=8))).theta[0] != 0.0


def test_rows_that_are_kept_are_spread_evenly(monkeypatch):
    split = np.array([0, 1, 2, 3, 1, 1, 2, 0, 2])
    assert block_sums.evaluation_mask(split).nonzero()[0].tolist() == [1, 2, 4, 5, 6, 8]
    monkeypatch.setattr(block_sums, "HELD", 3)
    assert block_sums.evaluation_mask(split).nonzero()[0].tolist() == [1, 4, 6]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"y": np.where(np.arange(64) == 5, np.nan, 0.0)}, "the target has nan in row 5, but it must be finite"),
        ({"weight": np.full(64, -1.0)}, "the weights of rows must be finite, not negative and not all 0"),
        ({"weight": np.full(64, np.inf)}, "the weights of rows must be finite, not negative and not all 0"),
    ],
)
def test_rows_that_cannot_be_summed_up(change, told):
    head = next(blocks(X))
    with pytest.raises(DataError) as error:
        block_sums.sum_block(replace(head, **change), block_sums.fit_pilot(head))
    assert error.value.message == told


def test_rows_without_weight_are_no_rows():
    head = next(blocks(X))
    weight = np.where(np.arange(64) < 30, 0.0, 1.0)
    made = block_sums.sum_block(replace(head, weight=weight), block_sums.fit_pilot(head))
    alone = block_sums.sum_block(replace(head, weight=None, split=np.where(weight > 0, head.split, 3)), block_sums.fit_pilot(head))
    np.testing.assert_allclose(made.second, alone.second, rtol=1e-12, atol=1e-9)
    assert made.rows == alone.rows == ((head.split == 0) & (weight > 0)).sum()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"split": np.full(64, 2)}, "there are no training rows"),
        ({"weight": np.zeros(64)}, "there are no training rows"),
    ],
)
def test_sums_of_nothing(change, told):
    head = next(blocks(X))
    with pytest.raises(DataError) as error:
        least_squares_sums.join_partial_sums([block_sums.sum_block(replace(head, **change), block_sums.fit_pilot(head))])
    assert error.value.message == told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"centre": np.zeros(2)}, "has coefficients for 3 columns, but centres for 2"),
        ({"names": ["a"]}, "has coefficients for 3 columns, but centres for 3"),
        ({"part": {"rows": -1}}, "has sums over an impossible number of rows, -1"),
        ({"part": {"X": np.zeros((12, 2))}}, "has sums with 5 and 15 entries, expected 5 and 15 for 3 columns"),
        ({"centre": np.zeros(4), "pilot": np.zeros(5)}, "has sums with 5 and 15 entries, expected 6 and 21 for 4 columns"),
    ],
)
def test_shards_that_cannot_be(change, told):
    head = next(blocks(X))
    pilot = block_sums.fit_pilot(head)
    made = block_sums.RegressionShard(
        place=ShardPlace(),
        units=1,
        parts=[block_sums.sum_block(head, pilot)],
        target="y",
        weighted=False,
        centre=pilot.centre,
        pilot=pilot.theta,
    )
    made.validate()
    changed = dict(change)
    if "part" in changed:
        changed["parts"] = [replace(made.parts[0], **changed.pop("part"))]
    with pytest.raises(DataError) as error:
        replace(made, **changed).validate()
    assert error.value.message == told
