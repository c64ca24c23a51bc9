"""A block of variables drawn at once, eight chains side by side, in NumPy.  The twin of `_blocks.pyx`.

A block is eliminated variable by variable, given what is held, and drawn on the way back.  `steps` (n + 1, 11) has a row a variable, in
elimination order, and one more with the ends: the variable; its states K; R cells of the rest of its clique; the first of its rows of
`near` (variable, stride in the rest), of `parts` and of `children`; where its message of R cells begins; how many cells the product of
its own factors has, and where it begins; where the places of these in the K·R cells of the clique begin; where its shares begin.
`parts` (p + 1, 3): where a factor's table begins in `tables`, the first of its rows of `held` (variable, stride), where its cells begin
in `inside`.  `children` (c, 2): where a message begins, and its places in the clique.  Tables have maximum 1.
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

VARIABLE, STATES, REST, NEAR, PARTS, CHILDREN, MESSAGE, OWN, OWN_AT, PLACE, SHARE = range(11)
Operand = tuple[Array, Array]  # numbers (cells, 8), and which of them each cell of the clique takes


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
    """Draw the variables of a block in x (N, 8); `shares` (Σ card, 8) of their states are the chances that each was drawn with.

    uniform  (n, 8) in [0, 1), by elimination order.  messages, own  scratch.
    Returns how many sums were too small for a float64: the draw then means nothing.
    """
    if x.shape[1] != 8:
        raise ValueError("blocks are drawn for eight chains")
    count, chains = len(steps) - 1, np.arange(8)
    with np.errstate(over="ignore", under="ignore"):
        for k in range(count):
            step, after = steps[k], steps[k + 1]
            _own(step, after, parts, held, inside, tables, x, own)
            sums = _sums(step, _operands(step, after, children, place, messages, own))
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
    """`shares` (Σ card, 8) of the variables of a block given what is held, after `draw_block` has filled `messages` and `own`.

    What is above a message divided by the message times the product of its step's operands is the marginal of that clique, up to a factor;
    summed over what a child does not see it is what is above that one's message.  down  scratch, a cell a message.
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


def _own(step: Array, after: Array, parts: Array, held: Array, inside: Array, tables: Array, x: Array, own: Array) -> None:
    """The product of the own factors of a step, given what is held."""
    cells = int(step[OWN])
    for p in range(step[PARTS], after[PARTS]):
        at = np.full(8, parts[p, 0])
        for i, stride in held[parts[p, 1] : parts[p + 1, 1]]:
            at += stride * x[i]
        value = tables[at + inside[parts[p, 2] : parts[p, 2] + cells, None]]
        here = own[step[OWN_AT] : step[OWN_AT] + cells]
        here[...] = here * value if p > step[PARTS] else value


def _operands(step: Array, after: Array, children: Array, place: Array, messages: Array, own: Array) -> list[Operand]:
    """Its own factors, then what its children sent."""
    cells = int(step[STATES] * step[REST])
    made = []
    if step[OWN]:
        made.append((own[step[OWN_AT] :], place[step[PLACE] : step[PLACE] + cells]))
    for first, places in children[step[CHILDREN] : after[CHILDREN]]:
        made.append((messages[first:], place[places : places + cells]))
    return made


def _sums(step: Array, operands: list[Operand]) -> Array:
    """(R, 8) the sum over the states of the variable of the product of the operands."""
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
    """Exchange what differs between chains a and b of x (N, chains), each connected part of it or not, by the coin of its first variable.

    first (N + 1,), near  the neighbours of each variable.  coins (N,) in [0, 1): below a half the part is exchanged.
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
