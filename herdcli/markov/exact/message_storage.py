"""Storage of the messages of a junction tree: all of them, or those at the ends of contiguous parts (stretches) of the collecting pass.

The cliques are visited child before parent, depth first, the branch that needs most memory first (Sethi & Ullman 1970), so that few
messages wait for their parents at any time.  If the pass is cut into stretches, only the messages that wait at the ends of stretches
are kept, and the backward pass recomputes the rest of each stretch.  This costs one more collecting pass, and a chain of n cliques
needs 2√n messages in place of n (as in the sweeps of hidden Markov models over long sequences; Griewank & Walther 2000).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from herdcli.markov.exact.junction_tree import JunctionTreeLayout
from herdcli.markov.exact.separator_states import PossibleColumns
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array


class MessageStore(Protocol):
    """A store of numbered arrays."""

    def put(self, k: int, message: Array) -> None:
        """Store an array, in place of an earlier one with this number."""
        ...

    def get(self, k: int) -> Array:
        """Return a stored array."""
        ...

    def drop(self, k: int) -> None:
        """Delete a stored array."""
        ...


class MemoryMessageStore:
    """A store in memory."""

    def __init__(self) -> None:
        self.of: dict[int, Array] = {}

    def put(self, k: int, message: Array) -> None:
        """Store an array."""
        self.of[k] = message

    def get(self, k: int) -> Array:
        """Return a stored array."""
        return self.of[k]

    def drop(self, k: int) -> None:
        """Delete a stored array."""
        del self.of[k]


@dataclass(frozen=True)
class MessageSchedule:
    """A schedule of the collecting pass.

    sequence  cliques in the order of the pass.
    cuts      starts of its stretches, and the end.
    most      the largest number of entries stored at once.
    largest   entries that one clique needs at once: its own message, its children's, and their new ones.
    """

    sequence: list[int]
    cuts: list[int]
    most: int
    largest: int


Among = Sequence[PossibleColumns | None]  # the possible states of each message; None for a message that contains all states


def separator_sizes(tree: JunctionTreeLayout, network: Network, possible_columns: Among | None = None) -> list[int]:
    """Return the number of entries in the message of each clique to its parent."""
    states = network.cardinality.tolist()
    sizes = [math.prod(states[i] for i in scope[1:]) for scope in tree.scopes]
    if possible_columns is None:
        return sizes
    return [size if columns is None else columns.memory_in_float64s for size, columns in zip(sizes, possible_columns, strict=True)]


def single_stretch_schedule(tree: JunctionTreeLayout, network: Network, possible_columns: Among | None = None) -> MessageSchedule:
    """Return the schedule with one stretch."""
    sizes = separator_sizes(tree, network, possible_columns)
    # The numbers that the messages need, and those that the marginals need.
    most = sum(sizes) + _largest_children_total(tree, sizes) + 2 * largest_expanded_messages(tree, possible_columns)
    return MessageSchedule(list(range(len(sizes))), [0, len(sizes)], most, _largest_working_set(tree, sizes, possible_columns))


def least_memory_schedule(tree: JunctionTreeLayout, network: Network, possible_columns: Among | None = None) -> MessageSchedule:
    """Return the schedule with the number of stretches that needs least memory at once."""
    sizes = separator_sizes(tree, network, possible_columns)
    sequence = _post_order(tree, sizes)
    best: MessageSchedule | None = None
    count, extra = 1, _largest_children_total(tree, sizes) + 2 * largest_expanded_messages(tree, possible_columns)
    while count <= len(sequence):
        cuts = _stretch_boundaries(sequence, sizes, count)
        most = _largest_waiting_total(tree, sizes, sequence, cuts) + extra
        if best is None or most < best.most:
            best = MessageSchedule(sequence, cuts, most, _largest_working_set(tree, sizes, possible_columns))
        count = max(count + 1, count * 5 // 4)
    assert best is not None
    return best


def largest_expanded_messages(tree: JunctionTreeLayout, possible_columns: Among | None) -> int:
    """Return the largest number of entries that a clique needs to expand its children's messages.

    A clique with all its states expands the messages of children that contain only possible states.
    """
    found = [0] * len(tree.parent)
    for p, columns in zip(tree.parent, possible_columns or (), strict=False):
        if p >= 0 and columns is not None and possible_columns is not None and possible_columns[p] is None:
            found[p] += columns.size + columns.count
    return max(found, default=0)


def _clique_children(tree: JunctionTreeLayout) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in tree.parent]
    for k, p in enumerate(tree.parent):
        if p >= 0:
            found[p].append(k)
    return found


def _largest_children_total(tree: JunctionTreeLayout, sizes: Sequence[int]) -> int:
    """Return the largest total size of the messages to the children of one clique."""
    told = [0] * len(sizes)
    for k, p in enumerate(tree.parent):
        if p >= 0:
            told[p] += sizes[k]
    return max(told, default=0)


def _largest_working_set(tree: JunctionTreeLayout, sizes: Sequence[int], possible_columns: Among | None) -> int:
    """Return the largest number of entries that one clique needs.

    These are its message, its children's and their new ones, temporary arrays for one of these, and the bits of all possible columns.
    """
    bits = sum(2 * len(columns.words) for columns in possible_columns or () if columns is not None)
    told, widest = list(sizes), [0] * len(sizes)
    for k, p in enumerate(tree.parent):
        if p >= 0:
            told[p] += 2 * sizes[k]
            widest[p] = max(widest[p], sizes[k])
    return (
        bits
        + 2 * largest_expanded_messages(tree, possible_columns)
        + max((a + 2 * b for a, b in zip(told, widest, strict=True)), default=0)
    )


def _post_order(tree: JunctionTreeLayout, sizes: Sequence[int]) -> list[int]:
    """Order children before parents; among children, first the one whose computation needs most more than its result."""
    children = _clique_children(tree)
    peak = [0] * len(sizes)
    for k, below in enumerate(children):
        below.sort(key=lambda c: (sizes[c] - peak[c], c))
        waiting, most = 0, 0
        for c in below:
            most = max(most, waiting + peak[c])
            waiting += sizes[c]
        peak[k] = max(most, waiting + sizes[k])
    sequence: list[int] = []
    for root in (k for k, p in enumerate(tree.parent) if p < 0):
        stack = [(root, iter(children[root]))]
        while stack:
            k, more = stack[-1]
            c = next(more, -1)
            if c >= 0:
                stack.append((c, iter(children[c])))
            else:
                sequence.append(k)
                stack.pop()
    return sequence


def _stretch_boundaries(sequence: Sequence[int], sizes: Sequence[int], count: int) -> list[int]:
    """Return the starts of stretches that produce about the same number of entries each."""
    made = np.cumsum([sizes[k] for k in sequence], dtype=np.float64)
    inner = np.searchsorted(made, made[-1] * np.arange(1, count) / count) + 1
    return sorted({0, *np.minimum(inner, len(sequence)).tolist(), len(sequence)})


def waiting_cliques_by_stretch(tree: JunctionTreeLayout, sequence: Sequence[int], cuts: Sequence[int]) -> list[list[int]]:
    """Return, for each stretch, its cliques whose parents come after it."""
    place = {k: t for t, k in enumerate(sequence)}
    return [
        [k for k in sequence[low:high] if tree.parent[k] >= 0 and place[tree.parent[k]] >= high] for low, high in itertools.pairwise(cuts)
    ]


def _largest_waiting_total(tree: JunctionTreeLayout, sizes: Sequence[int], sequence: Sequence[int], cuts: Sequence[int]) -> int:
    """Return the largest number of entries that wait at the ends of earlier stretches plus all of the current stretch."""
    waiting = waiting_cliques_by_stretch(tree, sequence, cuts)
    before, most = 0, 0
    for (low, high), left in zip(itertools.pairwise(cuts), waiting, strict=True):
        most = max(most, before + sum(sizes[k] for k in sequence[low:high]))
        before += sum(sizes[k] for k in left)
    return most


def plan_collect_pass(tree: JunctionTreeLayout, network: Network, possible_columns: Among | None = None) -> tuple[list[int], int, int]:
    """Plan one pass towards the root: the cliques in order, the largest number of entries that wait, and the number one clique needs."""
    sizes = separator_sizes(tree, network, possible_columns)
    sequence = _post_order(tree, sizes)
    children, waiting, most = _clique_children(tree), 0, 0
    for k in sequence:
        waiting += sizes[k]
        most = max(most, waiting)
        waiting -= sum(sizes[c] for c in children[k])
    most += largest_expanded_messages(tree, possible_columns)
    return sequence, most, min(most, _largest_working_set(tree, sizes, possible_columns))
