"""Ratio messages on a binary lattice, updated one colour of the chessboard at a time: the twin of _lattice.pyx.

Cells of colour p in row y are x = 2k + ((y + p) & 1), k < K.  They are stored in arrays (2, R + 2, K + 2) with a border: cell k of row y
is at [p, y + 1, k + 1].

messages  (4, 2, R + 2, K + 2) those that enter a cell from the left, the right, above and below, 1 in the border.
weight    (4, 2, R + 2, K + 2) exp(weight) towards these neighbours, 1 if there is none.
bias      (2, R + 2, K + 2) exp(bias).
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

LEFT, RIGHT, UP, DOWN = range(4)


def lattice_sweep(messages: Array, weight: Array, bias: Array, check: bool) -> float:
    """Update all messages out of the cells of colour 0, then of colour 1: (1 + e^w c)/(1 + c).

    c is the product of the bias and the messages that enter a cell, without the receiver's.  With `check` returns the largest
    |new − old|/old, else 0.
    """
    return lattice_tile(messages, weight, bias, check, 1, 0, bias.shape[1] - 2, 0, 0)


def lattice_tile(
    messages: Array, weight: Array, bias: Array, check: bool, sweeps: int, low: int, high: int, lower: int, upper: int
) -> float:
    """Run several sweeps over some rows: colour s & 1 at stage s, in the rows from low + s lower to below high + s upper.

    A row can be updated at a stage once it and its neighbours have completed the stage before.  Tiles that become narrower (lower 1,
    upper −1, except at the border) are therefore independent of each other.  So are the tiles that fill the gaps between them afterwards
    (low = high, lower −1, upper 1).  With `check` returns the largest |new − old|/old of the last sweep, else 0.
    """
    largest, stages = 0.0, 2 * sweeps
    for s in range(stages):
        change = _update_colour_rows(messages, weight, bias, check and s >= stages - 2, s & 1, low + s * lower, high + s * upper)
        largest = max(largest, change)
    return largest


def _update_colour_rows(messages: Array, weight: Array, bias: Array, check: bool, colour: int, low: int, high: int) -> float:
    """Update all messages out of the cells of one colour in the rows from `low` to below `high`."""
    largest, p = 0.0, colour
    for parity in (0, 1):
        first = low + parity
        lines = slice(1 + first, high + 1, 2)
        shift = (first + p) & 1  # cell k has its right neighbour at k + shift, its left one at k + shift − 1
        inner = slice(1, -1)
        b = bias[p, lines, inner]
        left, right, up, down = (messages[side, p, lines, inner] for side in range(4))
        el, er, eu, ed = (weight[side, p, lines, inner] for side in range(4))
        # A cavity ratio is the bias times three of the four messages that
        # come in (5.4): the products of opposite sides serve two each.
        sideways, upright = b * (up * down), b * (left * right)
        cl, cr, cu, cd = sideways * right, sideways * left, upright * down, upright * up
        width = bias.shape[2]
        other = messages[:, 1 - p]
        across = {RIGHT: (slice(shift, width - 2 + shift), el, cl), LEFT: (slice(1 + shift, width - 1 + shift), er, cr)}
        places = {side: (other[side, lines, columns], e, c) for side, (columns, e, c) in across.items()}
        places[DOWN] = other[DOWN, first : first + 2 * len(b) : 2, inner], eu, cu
        places[UP] = other[UP, first + 2 : first + 2 + 2 * len(b) : 2, inner], ed, cd
        for place, e, c in places.values():
            new = (1 + e * c) / (1 + c)
            if check:
                largest = max(largest, float((np.abs(new - place) / place).max(initial=0.0)))
            place[...] = new
    return largest
