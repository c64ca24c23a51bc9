"""Counts and scores of families of a Bayesian network that differ in one parent: the twin of `_families.pyx`."""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


def count_added_variables(
    code: Array, shared: int, packed: Array, first: Array, states: Array, start: Array, weight: Array, out: Array
) -> None:
    """Add to `out` the number of rows in each state of one variable and of the shared variables together, for many variables.

    code (n,) int32  the joint state of the shared variables in each row, below `shared`.  packed (G, n) uint8  the joint state of each
    group of variables, the last one varying fastest.  first (G + 1,) int64  the members of each group.  states (M,) int64  the number of
    states of each member.  start (M,) int64  the place of its table in `out`, or −1 if it is not wanted; the cell of state s and
    shared state c is s · shared + c.  weight (n,) float64  of each row, or (0,) for rows that count once.

    A group is counted jointly, in one pass over the rows, and summed over its other members.
    """
    for g in range(len(packed)):
        own = states[first[g] : first[g + 1]].tolist()
        places = start[first[g] : first[g + 1]].tolist()
        if max(places, default=-1) < 0:
            continue
        cell = packed[g].astype(np.int64) * shared + code
        joint = np.bincount(cell, weight if len(weight) else None, int(np.prod(own)) * shared).reshape(*own, shared)
        for m, place in enumerate(places):
            if place >= 0:
                table = joint.sum(axis=tuple(k for k in range(len(own)) if k != m))
                out[place : place + table.size] += table.reshape(-1)


def gather_arguments(tables: Array, rows: Array, states: int, alpha: Array, out: Array) -> int:
    """Write n + α of each cell with n > 0 to `out`, after N + r α of each row with N > 0; return the number of arguments.

    tables  one after the other, with rows (K,) int64 rows of r = `states` cells.  alpha (K,)  of each table.
    out     at least one for each row and each cell.
    """
    both, alphas, _ = _rows_and_cells(tables, rows, states, alpha)
    alphas[:, 0] *= states
    found = (both + alphas)[both > 0]
    out[: len(found)] = found
    return len(found)


def sum_terms(tables: Array, rows: Array, states: int, values: Array, cell_base: Array, row_base: Array, out: Array) -> None:
    """Set out (K,) to Σ (f(N) base − f(N + r α)) over the rows plus Σ (f(n + α) − f(n) base) over the cells of each table.

    values     f of what `gather_arguments` returned.
    cell_base, row_base (K,)  f(α) and f(r α) of each table.
    """
    both, bases, owner = _rows_and_cells(tables, rows, states, cell_base)
    used = both > 0
    term = np.zeros_like(both)
    term[used] = values
    heads = used[:, 0]
    of_rows = np.bincount(owner[heads], row_base[owner[heads]] - term[heads, 0], len(rows))
    inside = used[:, 1:]
    of_cells = np.bincount(np.repeat(owner, inside.sum(axis=1)), (term - bases)[:, 1:][inside], len(rows))
    out[...] = of_rows + of_cells


def best_change(
    edge: Array, add: Array, away: Array, below: Array, allowed: Array, required: Array, recent: Array, most: int, needed: float,
    equal: float,
) -> tuple[int, int, int, float]:  # fmt: skip
    """Return the best change of a graph and its gain: 0, 1 or 2 (i → j is added, removed or reversed), i and j.

    If no change is allowed, the gain is −∞.  Of changes whose gains differ from the largest by at most `equal`, the first is returned,
    in the order of the kinds and then of i and j.

    edge, below (N, N) bool  the edges, and which variables can be reached from which.
    add, away (N, N)  the gains of adding and removing i → j.
    allowed, required (N, N) bool  edges that may and that must exist.
    recent (T, 2) int64  pairs that only change for a gain above `needed`, in either direction.
    most  the largest number of parents.
    """
    full = edge.sum(axis=0) >= most
    # Reversed, j → i closes a cycle if a path other than the edge leads from i to j.
    others = (edge.astype(np.float32) @ below.astype(np.float32)) > 0
    reversible = edge & ~required & allowed.T & ~others & ~full[:, None]
    changes = [
        np.where(edge | below.T | ~allowed | full[None, :], -np.inf, add),
        np.where(edge & ~required, away, -np.inf),
        np.where(reversible, away + add.T, -np.inf),
    ]
    if len(recent):
        tabu = np.zeros_like(edge)
        tabu[recent[:, 0], recent[:, 1]] = True
        tabu |= tabu.T
        for worth in changes:
            worth[tabu & (worth <= needed)] = -np.inf
    tops = [float(worth.max()) for worth in changes]
    gain = max(tops)
    kind = next(k for k, top in enumerate(tops) if top >= gain - equal)
    i, j = np.unravel_index(int((changes[kind] >= gain - equal).argmax()), edge.shape)
    return kind, int(i), int(j), gain


def _rows_and_cells(tables: Array, rows: Array, states: int, base: Array) -> tuple[Array, Array, Array]:
    """Return the total and the cells of each row, (R, 1 + r), the base of its table in the same shape, and the table of each row."""
    cells = tables[: int(rows.sum()) * states].reshape(-1, states)
    both = np.column_stack([cells.sum(axis=1), cells])
    owner = np.repeat(np.arange(len(rows)), rows)
    return both, np.repeat(base[owner][:, None], states + 1, axis=1), owner
