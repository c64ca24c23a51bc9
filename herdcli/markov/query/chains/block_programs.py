"""Blocks of variables as arrays for the loops of `fast.draw_block`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from herdcli import fast
from herdcli.markov.query.chains.chain_samples import VariableBlock
from herdcli.records import dataclass
from herdcli.schema import Array

LANES = 8  # chains that are sampled together
RANGE = 575.0  # nats, 10^250: later factors must not amplify values that underflowed


@dataclass(frozen=True)
class BlockProgram:
    """A block in the form that `fast.draw_block` takes.

    arrays  the first arguments of `fast.draw_block`.
    logs    the log tables, scaled to maximum 0.
    narrow  True if the factors that follow a clique's message span less than the range of float64.
    """

    arrays: tuple[Array, ...]
    logs: Array
    count: int
    messages: Array
    own: Array
    narrow: bool

    @property
    def bytes(self) -> int:
        """The bytes of all arrays."""
        return sum(each.nbytes for each in (*self.arrays, self.logs, self.messages, self.own))

    def tables(self, power: float) -> Array:
        """Return the factors raised to a power."""
        return np.exp(self.logs if power == 1.0 else power * self.logs)

    def draw_states(self, x: Array, uniform: Array, shares: Array, tables: Array) -> bool:
        """Sample the block in x (N, 8) from these tables; return False if float64 underflows, and x is then invalid."""
        steps, near, parts, held, children, inside, place = self.arrays
        loops = (steps, near, parts, held, children, inside, place, tables, x, uniform, self.messages, self.own, shares)
        return self.narrow and fast.draw_block(*loops) == 0

    def marginals(self, shares: Array) -> None:
        """Compute the marginals (Σ card, 8) of all states given the variables outside the block, after the last `draw`."""
        steps, near, parts, held, children, inside, place = self.arrays
        loops = (steps, near, parts, held, children, inside, place, self.messages, self.own, np.empty(self.messages.shape), shares)
        fast.block_marginals(*loops)


def compile_block(block: VariableBlock, states: Sequence[int], first: Array) -> BlockProgram:
    """Compile a block.

    first  (N + 1,) the start of each variable's states in `shares`.
    """
    place = {i: k for k, i in enumerate(block.order)}
    steps: list[list[int]] = []
    near: list[list[int]] = []
    parts: list[list[int]] = []
    held: list[list[int]] = []
    children: list[list[int]] = []
    inside: list[Array] = []
    places: list[Array] = []
    logs: list[Array] = []
    at = dict.fromkeys(("inside", "place", "logs", "message", "own"), 0)
    waiting: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in block.order]

    def put(what: str, to: list[Array], array: Array) -> int:
        to.append(array.reshape(-1))
        at[what] += array.size
        return at[what] - array.size

    for k, i in enumerate(block.order):
        free = {j for part in block.parts[k] for j in part.free}
        scope = tuple(sorted(free.union({i}, *(scope for _, scope in waiting[k])), key=place.__getitem__))
        mine = tuple(j for j in scope if j in free)
        cells = math.prod(states[j] for j in mine) if block.parts[k] else 0
        where = put("place", places, map_cells_to_inner(mine, scope, states)) if cells else -1
        rest = math.prod(states[j] for j in scope[1:])
        steps.append([i, states[i], rest, len(near), len(parts), len(children), at["message"], cells, at["own"], where, int(first[i])])
        stride = rest
        for j in scope[1:]:
            stride //= states[j]
            near.append([j, stride])
        for part in block.parts[k]:
            whole = math.prod(states[j] for j in part.free)
            start = put("logs", logs, part.logs - (part.logs.max() if part.logs.max() > -np.inf else 0.0))
            parts.append([start, len(held), put("inside", inside, map_cells_to_inner(part.free, mine, states))])
            for j in reversed(part.held):
                held.append([j, whole])
                whole *= states[j]
        children += [[sent, put("place", places, map_cells_to_inner(seen, scope, states))] for sent, seen in waiting[k]]
        if len(scope) > 1:
            waiting[place[scope[1]]].append((at["message"], scope[1:]))
        at["message"] += rest
        at["own"] += cells
    steps.append([0, 0, 0, len(near), len(parts), len(children), at["message"], 0, at["own"], 0, 0])
    parts.append([0, len(held), 0])
    tables = ((steps, 11), (near, 2), (parts, 3), (held, 2), (children, 2))
    arrays: list[Array] = [np.array(rows, dtype=np.int64).reshape(-1, width) for rows, width in tables]
    arrays += [np.concatenate([np.empty(0), *made]).astype(np.int32) for made in (inside, places)]
    messages, own = np.empty((at["message"], LANES)), np.empty((at["own"], LANES))
    return BlockProgram(
        tuple(arrays), np.concatenate([np.empty(0), *logs]), len(block.order), messages, own, _has_small_range(block, arrays)
    )


def map_cells_to_inner(inner: Sequence[int], outer: Sequence[int], states: Sequence[int]) -> Array:
    """Return, for each cell of a table over `outer`, the cell of a table over `inner`, which is a part of these variables."""
    return _cell_map_by_axes(tuple(outer.index(j) for j in inner), tuple(states[j] for j in outer))


@lru_cache(maxsize=4096)
def _cell_map_by_axes(axes: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Return the same map by axes of the larger table; the results are cached, because few kinds occur."""
    found = np.zeros([1] * len(shape), dtype=np.int64)
    stride = 1
    for axis in reversed(axes):
        along = [1] * len(shape)
        along[axis] = shape[axis]
        found = found + stride * np.arange(shape[axis]).reshape(along)
        stride *= shape[axis]
    made = np.broadcast_to(found, shape).copy()
    made.flags.writeable = False
    return made


def _has_small_range(block: VariableBlock, arrays: list[Array]) -> bool:
    """Return True if the factors that follow can change a message by less than RANGE nats, in any case."""
    steps, near = arrays[0], arrays[1]
    later: dict[int, list[tuple[int, float]]] = {i: [] for i in block.order}
    for k, parts in enumerate(block.parts):
        for part in parts:
            possible = part.logs[part.logs > -np.inf]
            spans = float(possible.max() - possible.min()) if possible.size else 0.0
            for j in part.free:
                later[j].append((k, spans))
    for k in range(len(block.order)):
        variables = near[steps[k, 3] : steps[k + 1, 3], 0].tolist()
        if sum(spans for j in variables for home, spans in later[j] if home > k) > RANGE:
            return False
    return True
