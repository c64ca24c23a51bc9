"""Joint sampling of a block of variables in eight chains at a time, in NumPy.  The twin of `_blocks.pyx`.

The variables of a block are eliminated one by one given the variables held fixed, and sampled in reverse order.

steps     (n + 1, 11): one row per variable in elimination order, and a last row with the end positions.  The columns are: the variable;
          its number of states K; the number R of cells of the rest of its clique; the first of its rows in `near`, in `parts` and in
          `children`; the position of its message of R cells; the number of cells of the product of its own factors, and their position;
          the position of the indices of these cells for the K·R cells of the clique; the position of its probabilities.
near      rows (variable, stride) of the rest of a clique.
parts     (p + 1, 3): the position of a factor's table in `tables`, the first of its rows (variable, stride) in `held`, and the position
          of its cells in `inside`.
children  (c, 2): the position of a child's message, and of the indices of its cells for the cells of the clique.

Tables are scaled to a maximum of 1.
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

VARIABLE, STATES, REST, NEAR, PARTS, CHILDREN, MESSAGE, OWN, OWN_AT, PLACE, SHARE = range(11)
Operand = tuple[Array, Array]  # numbers (cells, 8), and the index of the number for each cell of the clique


def draw_block(
    steps: Array,
    near: Array,
    parts: Array,
    held: Array,
    children: Array,
    inside: Array,
    place: Array,
    tables: Array,
    x: Array,
    uniform: Array,
    messages: Array,
    own: Array,
    shares: Array,
) -> int:
    """Sample the variables of a block in x (N, 8), and write into `shares` (Σ card, 8) the probabilities they were sampled with.

    uniform  (n, 8) in [0, 1), by elimination order.  messages, own  scratch.
    Returns the number of sums that were too small for a float64; unless it is 0, the sample is meaningless.
    """
    if x.shape[1] != 8:
        raise ValueError("blocks are drawn for eight chains")
    count, chains = len(steps) - 1, np.arange(8)
    with np.errstate(over="ignore", under="ignore"):
        for k in range(count):
            step, after = steps[k], steps[k + 1]
            _write_own_product(step, after, parts, held, inside, tables, x, own)
            sums = _sum_out_variable(step, _operands(step, after, children, place, messages, own))
            top = sums.max(axis=0)
            out = (top > 0) & ((top < 1e-30) | (top > 1e30))
            if out.any():
                sums *= np.where(out, 1 / np.where(out, top, 1.0), 1.0)
            messages[step[MESSAGE] : step[MESSAGE] + step[REST]] = sums
        lost = 0
        for k in range(count - 1, -1, -1):
            step, after = steps[k], steps[k + 1]
            rest = np.zeros(8, dtype=np.int64)
            for i, stride in near[step[NEAR] : after[NEAR]]:
                rest += stride * x[i]
            value = np.ones((int(step[STATES]), 8))
            cells = np.arange(step[STATES])[:, None] * step[REST] + rest
            for o, (numbers, places) in enumerate(_operands(step, after, children, place, messages, own)):
                value = numbers[places[cells], chains] * value if o else numbers[places[cells], chains]
            below = value.cumsum(axis=0)
            total = below[-1]
            small = ~(total > 1e-250)
            lost += int(small.sum())
            total = np.where(small, 1.0, total)
            x[step[VARIABLE]] = (below[:-1] < uniform[k] * total).sum(axis=0)
            shares[step[SHARE] : step[SHARE] + step[STATES]] = value / total
    return lost


def block_marginals(
    steps: Array,
    near: Array,
    parts: Array,
    held: Array,
    children: Array,
    inside: Array,
    place: Array,
    messages: Array,
    own: Array,
    down: Array,
    shares: Array,
) -> None:
    """Write the marginals of a block's variables given those held into `shares` (Σ card, 8), using the results of `draw_block`.

    `draw_block` must have filled `messages` and `own`.  down  scratch, one cell per cell of `messages`.
    The marginal of a clique is proportional to the downward message divided by the upward message, times the product of its operands.
    Summed over the variables that a child's message does not have, it is the child's downward message.
    """
    if messages.shape[1] != 8:
        raise ValueError("blocks are drawn for eight chains")
    count = len(steps) - 1
    down[: steps[count, MESSAGE]] = 0
    with np.errstate(over="ignore", under="ignore"):
        for k in range(count - 1, -1, -1):
            step, after = steps[k], steps[k + 1]
            states, rest = int(step[STATES]), int(step[REST])
            here, sent = (part[step[MESSAGE] : step[MESSAGE] + rest] for part in (down, messages))
            whole = here.cumsum(axis=0)[-1]
            above = np.divide(here, whole, out=np.ones(here.shape), where=whole > 0)
            value = np.tile(np.divide(above, sent, out=np.zeros(here.shape), where=sent > 0), (states, 1))
            for numbers, places in _operands(step, after, children, place, messages, own):
                value *= numbers[places]
            for first, places in children[step[CHILDREN] : after[CHILDREN]]:
                np.add.at(down, first + place[places : places + states * rest].astype(np.int64), value)
            chance = value.reshape(states, rest, 8).cumsum(axis=1)[:, -1]
            shares[step[SHARE] : step[SHARE] + states] = chance / chance.cumsum(axis=0)[-1]


def _write_own_product(step: Array, after: Array, parts: Array, held: Array, inside: Array, tables: Array, x: Array, own: Array) -> None:
    """Write the product of the own factors of a step, given the variables held, into `own`."""
    cells = int(step[OWN])
    for p in range(step[PARTS], after[PARTS]):
        at = np.full(8, parts[p, 0])
        for i, stride in held[parts[p, 1] : parts[p + 1, 1]]:
            at += stride * x[i]
        value = tables[at + inside[parts[p, 2] : parts[p, 2] + cells, None]]
        here = own[step[OWN_AT] : step[OWN_AT] + cells]
        here[...] = here * value if p > step[PARTS] else value


def _operands(step: Array, after: Array, children: Array, place: Array, messages: Array, own: Array) -> list[Operand]:
    """Return the operands of a step: the product of its own factors, then the messages of its children."""
    cells = int(step[STATES] * step[REST])
    made = []
    if step[OWN]:
        made.append((own[step[OWN_AT] :], place[step[PLACE] : step[PLACE] + cells]))
    for first, places in children[step[CHILDREN] : after[CHILDREN]]:
        made.append((messages[first:], place[places : places + cells]))
    return made


def _sum_out_variable(step: Array, operands: list[Operand]) -> Array:
    """Return the product of the operands summed over the states of the variable, (R, 8)."""
    states, rest = int(step[STATES]), int(step[REST])
    if not operands:
        return np.full((rest, 8), float(states))
    total = np.zeros((rest, 8))
    for v in range(states):
        part = slice(v * rest, (v + 1) * rest)
        value: Array = operands[0][0][operands[0][1][part]]
        for numbers, places in operands[1:]:
            value = value * numbers[places[part]]
        total += value
    return total


def exchange(first: Array, near: Array, x: Array, a: int, b: int, coins: Array) -> None:
    """Exchange the differing variables of chains a and b of x (N, chains): each connected part with probability ½.

    first (N + 1,), near  the neighbours of each variable.
    coins  (N,) in [0, 1): a part is exchanged if the coin of its first variable is below ½.
    """
    apart = {int(i) for i in np.flatnonzero(x[:, a] != x[:, b])}
    for i in sorted(apart):
        if i not in apart:
            continue
        part, waiting = [], [i]
        apart.discard(i)
        while waiting:
            j = waiting.pop()
            part.append(j)
            found = [k for k in near[first[j] : first[j + 1]].tolist() if k in apart]
            apart.difference_update(found)
            waiting += found
        if coins[i] < 0.5:
            x[part, a], x[part, b] = x[part, b].copy(), x[part, a].copy()
