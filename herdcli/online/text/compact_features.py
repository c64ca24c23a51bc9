"""Compact tables of hashed features: one row per feature that occurred, in order of occurrence, instead of 2^bits columns.

Neighbours in text are neighbours in the table, and common words, which come first, stay in the cache.  Sums run over the entries of an
example in their order, whatever the numbers of features, so the weights are those of a complete table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.online.example_blocks import ExampleBlock
from herdcli.online.learner_state import LearnerState
from herdcli.schema import Array, CSRMatrix

if TYPE_CHECKING:
    pass

LEAST = 1 << 16  # a table is compact if there are more columns than this


def begin_bias_table(state: LearnerState, columns: int) -> None:
    """Initialise a table of the bias alone, for `columns` columns."""
    state.columns, state.place = np.zeros(1, dtype=np.int32), np.full(columns, -1, dtype=np.int32)
    state.place[0] = 0


def number_by_table_row(state: LearnerState, block: ExampleBlock) -> ExampleBlock:
    """Return the block with features numbered by rows of the table; new features get new rows at the end."""
    assert state.columns is not None
    assert state.place is not None
    index = state.place[block.index]
    new = index < 0
    if new.any():
        found, at = np.unique(block.index[new], return_index=True)
        found = found[np.argsort(at)]
        state.place[found] = np.arange(len(state.columns), len(state.columns) + len(found), dtype=np.int32)
        state.columns = np.concatenate([state.columns, found.astype(np.int32)])
        index = state.place[block.index]
    return replace(block, index=index)


def columns_from_table_rows(state: LearnerState, rows: Array) -> Array:
    """Return rows (≥ K, C) of the table as columns (C, K), in the order of their columns."""
    assert state.columns is not None
    order = np.argsort(state.columns)
    made = np.empty((rows.shape[1], len(order)))
    for z in range(len(made)):
        made[z] = rows[order, z]
    return made


def scatter_columns(state: LearnerState, rows: Array, fill: float) -> Array:
    """Return (C, D) from rows (K, C) of the table: each in its column, and `fill` in all others."""
    assert state.columns is not None
    assert state.place is not None
    count = min(len(rows), len(state.columns))
    made = np.full((rows.shape[1], len(state.place)), fill) if fill else np.zeros((rows.shape[1], len(state.place)))
    made[:, state.columns[:count]] = rows[:count].T
    return made


def find_learned_columns(X: CSRMatrix, covariance: str, kernel: str) -> Array | None:
    """Return the columns of rows X (n, d) CSR that occur, in rising order, if the others need no weights; None if all are learned."""
    if X.shape[1] <= LEAST or covariance == "full" or kernel != "none":
        return None
    return np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]))


def select_columns(X: CSRMatrix, columns: Array) -> CSRMatrix:
    """Return the columns (k,) of rows X (n, d) CSR, in rising order, where all other columns are empty: the same entries, renumbered."""
    from scipy.sparse import csr_matrix

    place = np.zeros(X.shape[1], dtype=X.indices.dtype)
    place[columns] = np.arange(len(columns), dtype=place.dtype)
    return csr_matrix((X.data, place[X.indices], X.indptr), shape=(X.shape[0], len(columns)))
