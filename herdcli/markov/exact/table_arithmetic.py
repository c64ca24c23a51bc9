"""Products and sums of clique tables, in slabs: of numbers, of their logarithms, and of truth values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from herdcli.markov.exact.junction_tree import log_sum_exp
from herdcli.records import dataclass
from herdcli.schema import Array

SLAB = 1 << 18  # largest number of table cells of a slab
SLABS = 16 * SLAB  # largest number of entries of slabs and their sums in memory at once
FEW = 1 << 8  # table cells that are folded at once
SMALL = 1 << 12  # table cells of factors that are multiplied together beforehand


@dataclass(frozen=True)
class LinearArithmetic:
    """Arithmetic on non-negative numbers; underflow and overflow raise FloatingPointError."""

    one: float = 1.0
    none: float = 0.0
    dtype: type = np.float64

    def error_handling(self) -> np.errstate:
        """Return NumPy's error handling, to be set in the thread that computes."""
        return np.errstate(under="raise", over="raise")

    def multiply(self, left: Array, right: Array, out: Array | None = None) -> Array:
        """Return the product."""
        made: Array = np.multiply(left, right, out=out)
        return made

    def sum_axes(self, table: Array, axes: tuple[int, ...]) -> Array:
        """Return the sum over some axes."""
        return sum_over_axes(table, axes)

    def plus(self, left: Array, right: Array) -> Array:
        """Return the sum."""
        made: Array = left + right
        return made

    def divide(self, numerator: Array, denominator: Array) -> Array:
        """Return the quotient of a sum and one of its factors, with 0/0 = 0."""
        # If the divisor is 0, the dividend is 0 too: 0/1 gives 0 without a mask, which is slow in NumPy.
        made: Array = np.add(denominator, denominator == 0)
        return np.divide(numerator, made, out=made)

    def scale_to_maximum(self, table: Array) -> tuple[Array, float]:
        """Scale the table to maximum 1, in place; return it and the logarithm of the divisor."""
        top = float(table.max())
        if top == 0:
            return table, -math.inf
        table /= top
        return table, math.log(top)

    def normalise(self, table: Array) -> Array:
        """Return probabilities."""
        made: Array = table / table.sum()
        return made

    def convert_factor_table(self, table: Array) -> Array:
        """Return the values of a factor."""
        return table.copy()

    def add_at_cells(self, sums: Array, cell: Array, table: Array) -> None:
        """Add each number to its cell."""
        np.add.at(sums, cell, table)


@dataclass(frozen=True)
class LogArithmetic:
    """The same arithmetic on logarithms."""

    one: float = 0.0
    none: float = -math.inf
    dtype: type = np.float64

    def error_handling(self) -> np.errstate:
        """Return NumPy's error handling: values much smaller than the largest become 0."""
        return np.errstate(under="ignore", divide="ignore")

    def multiply(self, left: Array, right: Array, out: Array | None = None) -> Array:
        """Return the logarithm of the product."""
        made: Array = np.add(left, right, out=out)
        return made

    def sum_axes(self, table: Array, axes: tuple[int, ...]) -> Array:
        """Compute log Σ exp over some axes."""
        return log_sum_exp(table, axes)

    def plus(self, left: Array, right: Array) -> Array:
        """Return the log of the sum of two numbers."""
        made: Array = np.logaddexp(left, right)
        return made

    def divide(self, numerator: Array, denominator: Array) -> Array:
        """Return the logarithm of the quotient, with 0/0 = 0."""
        return numerator - np.where(denominator == -np.inf, 0.0, denominator)

    def scale_to_maximum(self, table: Array) -> tuple[Array, float]:
        """Shift the table to maximum 0, in place; return it and the subtracted maximum."""
        top = float(table.max())
        if top > -math.inf:
            table -= top
        return table, top

    def normalise(self, table: Array) -> Array:
        """Return probabilities."""
        p = np.exp(table - table.max())
        made: Array = p / p.sum()
        return made

    def convert_factor_table(self, table: Array) -> Array:
        """Return the logarithms of a factor."""
        with np.errstate(divide="ignore"):
            return np.log(table)

    def add_at_cells(self, sums: Array, cell: Array, table: Array) -> None:
        """Add each number, as a logarithm, to its cell."""
        np.logaddexp.at(sums, cell, table)


@dataclass(frozen=True)
class BooleanArithmetic:
    """Arithmetic on truth values (possible or not): products are conjunctions, sums disjunctions."""

    one: bool = True
    dtype: type = np.bool_

    def multiply(self, left: Array, right: Array, out: Array | None = None) -> Array:
        """Return the conjunction."""
        made: Array = np.logical_and(left, right, out=out)
        return made


Arithmetic = LinearArithmetic | LogArithmetic


def merge_small_tables(parts: list[Array], arithmetic: Arithmetic | BooleanArithmetic) -> list[Array]:
    """Multiply tables together as long as the product has at most SMALL cells."""
    made: list[Array] = []
    for part in sorted(parts, key=lambda part: part.size):
        if made and np.broadcast(made[-1], part).size <= SMALL:
            made[-1] = arithmetic.multiply(made[-1], part)
        else:
            made.append(part)
    return made


def slab_indices(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the indices, after the first axis, of parts of a table with at most SLAB cells each, or with one step of the last axis."""
    cells, axes = math.prod(shape), 1
    while cells > SLAB and axes < len(shape):
        cells //= shape[axes]
        axes += 1
    yield from product(*(range(size) for size in shape[1:axes]))


def slab_product(parts: list[Array], shape: tuple[int, ...], prefix: tuple[int, ...], arithmetic: Arithmetic | BooleanArithmetic) -> Array:
    """Return the product of tables over the first axis and those after the prefix."""
    made: Array = np.empty((shape[0], *shape[1 + len(prefix) :]), dtype=arithmetic.dtype)
    seen = []
    for part in parts:
        at: tuple[Any, ...] = tuple(i if size > 1 else 0 for i, size in zip(prefix, part.shape[1:], strict=False))
        seen.append(part[(slice(None), *at)])
    if len(seen) < 2:
        made[...] = seen[0] if seen else arithmetic.one
        return made
    arithmetic.multiply(seen[0], seen[1], out=made)
    for part in seen[2:]:
        arithmetic.multiply(made, part, out=made)
    return made


def sum_over_axes(table: Array, axes: tuple[int, ...]) -> Array:
    """Sum over some axes."""
    return reduce_axes(table, axes, np.add)


def reduce_axes(table: Array, axes: tuple[int, ...], ufunc: np.ufunc) -> Array:
    """Fold some axes, adjacent ones together; short last axes are folded slice by slice, because NumPy's loops are slow for these."""
    if table.size <= FEW:
        short: Array = ufunc.reduce(table, axis=axes)
        return short
    shape, gone = table.shape, set(axes)
    kept = tuple(size for axis, size in enumerate(shape) if axis not in gone)
    left, axis = 1, 0
    while axis < len(shape):
        if axis not in gone:
            left *= shape[axis]
            axis += 1
            continue
        size = 1
        while axis < len(shape) and axis in gone:
            size *= shape[axis]
            axis += 1
        right = math.prod(shape[axis:])
        table = table.reshape(left, size, right)
        if right < 16 and size < 16:
            made = table[:, 0].copy()
            for k in range(1, size):
                ufunc(made, table[:, k], out=made)
            table = made
        else:
            table = ufunc.reduce(table, axis=1)
    return table.reshape(kept)


def max_and_argmax(table: Array) -> tuple[Array, Array]:
    """Return the maximum over the first axis, and its position: the first of equal ones, in the smallest integer type."""
    states = table.shape[0]
    at = np.zeros(table.shape[1:], dtype=np.min_scalar_type(max(1, states - 1)))
    top = np.array(table[0])
    for state in range(1, states):
        np.copyto(at, state, where=table[state] > top)
        np.maximum(top, table[state], out=top)
    return top, at
