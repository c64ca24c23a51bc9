"""Counts of rows against the rows themselves: marginals, pairs, likelihoods, however the rows are divided."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.markov.learning import fit_summary
from herdcli.markov.model.constraints import StateRows, compute_pair_tables
from herdcli.markov.model.network import build_network
from herdcli.markov.model.row_counts import StateBlock, count_block_rows, join_counts, sum_tallies, widen_tally_states
from herdcli.numerics.block_units import UnitLayout

RANDOM = np.random.default_rng(2)
X = np.stack([RANDOM.integers(0, 2, 90), RANDOM.integers(0, 4, 90), RANDOM.integers(0, 3, 90)], axis=1)
X[:50, 1] = np.minimum(X[:50, 1], 1)
SPLIT = (np.arange(90) % 4 == 3).astype(np.uint8)
WEIGHT = RANDOM.integers(1, 5, 90) / 4  # whose sums are exact
SCOPES = ((2, 0, 1),)
STATES = np.array([2, 4, 3])


def parts(size, weight):
    return [
        count_block_rows(StateBlock(X[at : at + size], SPLIT[at : at + size], None if weight is None else weight[at : at + size]), SCOPES)
        for at in range(0, len(X), size)
    ]


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["rows", "weighted rows"])
@pytest.mark.parametrize("size", [1, 7, 90])
def test_counts_are_those_of_the_rows(size, weight):
    train = SPLIT == 0
    own = np.ones(90) if weight is None else weight
    rows = StateRows(X[train], own[train] / own[train].sum())
    found, whole = join_counts(parts(size, weight), SCOPES)
    assert found.count == train.sum()
    assert found.cardinality.tolist() == STATES.tolist()
    for smoothing in (0.0, 1.5):
        for scope in ((1,), (0, 2), (2, 1), (1, 0, 2), (2, 0, 1)):
            shape = STATES[list(scope)].tolist()
            np.testing.assert_allclose(
                found.empirical_marginal(scope, shape, smoothing), rows.empirical_marginal(scope, shape, smoothing), atol=1e-15
            )
        np.testing.assert_allclose(
            compute_pair_tables(found, STATES, smoothing).table, compute_pair_tables(rows, STATES, smoothing).table, atol=1e-15
        )
    assert np.array_equal(whole.holdout, X[~train])
    assert np.array_equal(whole.holdout_split, SPLIT[~train])


def test_the_likelihood_of_counts_is_that_of_the_rows():
    network = build_network(
        STATES, [((0, 1, 2), RANDOM.random((2, 4, 3)) + 0.1), ((1,), RANDOM.random(4)), ((2, 0), RANDOM.random((3, 2)))]
    )
    train = SPLIT == 0
    rows = StateRows(X[train], WEIGHT[train] / WEIGHT[train].sum())
    found, _ = join_counts(parts(9, WEIGHT), SCOPES)
    assert fit_summary.mean_log_likelihood(network, found, 1e9) == pytest.approx(
        fit_summary.mean_log_likelihood(network, rows, 1e9), abs=1e-12
    )


@pytest.mark.parametrize(("seen", "expected"), [(1, -np.inf), (0, np.log(0.5))], ids=["of a row", "of no row"])
def test_a_factor_of_zero_counts_where_a_row_is(seen, expected):
    block = StateBlock(np.array([[0], [seen]], dtype=np.uint8), np.zeros(2, dtype=np.uint8))
    found, _ = join_counts([count_block_rows(block, ())], ())
    assert found.mean_log_potential(build_network([2], [((0,), np.array([0.5, 0.0]))])) == pytest.approx(expected)


def test_growing_moves_no_count():
    part = widen_tally_states(parts(50, None)[0], STATES, SCOPES)
    assert part.table.shape == (9, 9)
    assert np.array_equal(np.diag(part.table)[2:6], [*np.bincount(X[:50, 1][SPLIT[:50] == 0]), 0, 0])
    assert part.table.sum() == 9 * part.rows
    assert part.cells.sum() == part.rows


def test_sums_do_not_depend_on_how_many_parts_come_at_a_time():
    weight = RANDOM.random(90)
    whole = sum_tallies(parts(8, weight), SCOPES)
    tables = sum_tallies(iter(parts(8, weight)), SCOPES)
    assert np.array_equal(whole.table, tables.table)
    assert np.array_equal(whole.cells, tables.cells)


@pytest.mark.parametrize(
    ("rows", "columns", "size", "units"), [(1, 3, 1, 1), (64 * 4096, 256, 1, 64), (64 * 4096 + 1, 9, 2, 33), (10**7, 784, 256, 10)]
)
def test_units_are_few(rows, columns, size, units):
    layout = UnitLayout(rows, columns)
    assert (layout.size, layout.units) == (size, units)


def test_nothing_to_learn_from_is_told():
    block = StateBlock(X[:5], np.ones(5, dtype=np.uint8))
    with pytest.raises(DataError, match="there are no training rows"):
        join_counts([count_block_rows(block, ())], ())
    with pytest.raises(DataError, match="all training rows have weight 0"):
        join_counts([count_block_rows(StateBlock(X[:5], np.zeros(5, dtype=np.uint8), np.zeros(5)), ())], ())
