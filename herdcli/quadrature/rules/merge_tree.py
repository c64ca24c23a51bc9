"""Herding of any number of rows block by block: the atoms of blocks are merged and herded again until one union of them fits.

Blocks are counted from row 0.  Node j of level l + 1 represents the nodes j·F … (j + 1)·F − 1 of level l.  F is the largest number for
which the union of their atoms stays below `UNION`; if all blocks' atoms fit into one union, there is no level in between.  A unit of work
is a node of a level with 48 to 48·F nodes.  It is thus a function of the number of rows and the options alone, whichever process computes
it.

    ‖g − μ‖ ≤ ‖g − u‖ + ‖u − μ‖,   u = Σ_c p_c g_c,   ‖u − μ‖ ≤ Σ_c p_c ‖g_c − μ_c‖:

By the triangle inequality at a node with children c of weights p_c, this bounds the MMD between every node's atoms and its rows.
Source: Bentley & Saxe (1980) for merging by powers; Chen, Welling & Smola (2010), sec. 5, for herding of herded samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from herdcli.algorithm import Map, RunProgress
from herdcli.errors import DataError
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature import selection, selection_problem
from herdcli.quadrature.kernels.kernel_functions import Kernel
from herdcli.quadrature.targets import RowTarget
from herdcli.records import dataclass
from herdcli.schema import Array, array
from herdcli.shards import Shard

UNION = 1 << 15  # atoms that are herded together
UNITS = 48  # least number of nodes that the work is divided into, if there are enough


@dataclass(frozen=True)
class TreeNode:
    """Atoms that represent consecutive rows; no atoms if those rows have no weight."""

    mass: float  # Σ of the rows' weights
    error: float  # bound on the MMD between atoms and rows
    x: Array = array("m d", "atoms, in scaled columns", kind="f", finite=True)
    index: Array = array("m", "row of the input, −1 for a point that is none", kind="i", low=-1)
    weight: Array = array("m", "weights of sum 1", kind="f", finite=True)
    embedding: str | None = None  # the approximation of μ in some block, as typed
    ended: str = ""

    def validate(self) -> None:
        """Raise DataError for an invalid weight or bound."""
        if not (0 <= self.mass < np.inf and 0 <= self.error < np.inf) or (self.mass > 0) != (len(self.x) > 0):
            raise DataError(
                f"is damaged: {len(self.x)} atoms stand for rows with the total weight {self.mass:g} and the error {self.error:g}"
            )


@dataclass(frozen=True, kw_only=True)
class BlocksShard(Shard):
    """Nodes of some of the units, and the settings that all shards of a run share."""

    parts: list[TreeNode]
    rows: int
    kernel: str
    scale: Array = array("d", "what the columns were divided by", kind="f", finite=True)
    feature_names: list[str] | None = None

    def validate(self) -> None:
        """Raise DataError for an impossible shard, and for atoms with other columns than the shard's."""
        super().validate()
        for part in self.parts:
            if part.x.shape[1] != len(self.scale):
                raise DataError(f"is damaged: its atoms have {part.x.shape[1]} columns, but the shard has {len(self.scale)}")


@dataclass(frozen=True)
class TreeLayout:
    """The tree in which `rows` rows are herded in blocks of `block`, to `atoms` atoms each."""

    rows: int
    block: int
    atoms: int

    @property
    def children_per_node(self) -> int:
        """The number of children F of a node."""
        return max(2, UNION // self.atoms)

    def count_nodes(self, level: int) -> int:
        """Return the number of nodes of a level; those of level 0 are the blocks."""
        found = -(-self.rows // self.block)
        for _ in range(level):
            found = -(-found // self.children_per_node)
        return found

    @property
    def top_level(self) -> int:
        """The level whose nodes' atoms form the last union."""
        return next(level for level in range(64) if self.count_nodes(level) <= self.children_per_node)

    @property
    def level(self) -> int:
        """The level of the units of work."""
        return next((level for level in range(self.top_level, 0, -1) if self.count_nodes(level) >= UNITS), 0)

    @property
    def unit_count(self) -> int:
        """The number of units of work."""
        return self.count_nodes(self.level)

    def node_number(self, level: int, node: int) -> int:
        """Return the number of a node among all nodes, which determines its random numbers; blocks and the last union come first."""
        return node if level == 0 else 1 + node + sum(self.count_nodes(below) for below in range(level))

    def tasks(self, level: int, node: int, leaves: int = 0) -> Iterator[NodeTask]:
        """Yield the tasks that make a node from the nodes of level `leaves`: children before parents, left before right."""
        children = (
            range(node * self.children_per_node, min((node + 1) * self.children_per_node, self.count_nodes(level - 1)))
            if level > leaves
            else range(0)
        )
        for child in children:
            yield from self.tasks(level - 1, child, leaves)
        yield NodeTask(level, node, len(children))


@dataclass(frozen=True)
class NodeTask:
    """The making of a leaf, or of a node from the last `children` nodes."""

    level: int
    node: int
    children: int


class LeafSource(Protocol):
    """A source of the nodes of the lowest level."""

    def read_leaf(self, node: int) -> TreeNode | tuple[Array, Array, int]:
        """Return the node, or its rows (n, d) in scaled columns, their weights (n,), not all 0, and the number of the first row."""


@dataclass
class TreeState:
    """The state after `task` tasks: `stack` holds the nodes they left, and `inner` is the state of the next node's selection."""

    step: int
    task: int
    stack: list[TreeNode] = field(default_factory=list)
    inner: selection_problem.SelectionState | None = None
    grows: ClassVar[tuple[str, ...]] = ("stack", "inner")

    def validate(self) -> None:
        """Raise DataError for an impossible position."""
        if not 0 <= self.task <= self.step or len(self.stack) > self.task:
            raise DataError(f"is damaged: it has {len(self.stack)} nodes of the merge tree after {self.task} tasks")


@dataclass
class _CachedData:
    task: int = -1
    mass: float = 0.0
    error: float = 0.0
    index: Array | None = None
    embedding: str | None = None
    chosen: selection.AtomSelection | None = None


@dataclass(frozen=True)
class TreeHerding:
    """The herding of the nodes of a tree, as an algorithm."""

    kernel: Kernel
    settings: selection_problem.SelectionSettings
    layout: TreeLayout
    leaves: LeafSource
    tasks: Sequence[NodeTask]
    columns: int
    map: Map = map
    _made: _CachedData = field(default_factory=_CachedData, init=False, repr=False, compare=False)
    state = TreeState  # the type of its states

    def init(self) -> TreeState:
        """Return the state before the first task."""
        return TreeState(0, 0)

    def step(self, state: TreeState) -> TreeState:
        """Run one step of the selection of a node's atoms, or make a node that needs no selection."""
        state.step += 1
        known = self._start_task(state)
        if known is not None:
            return self._push_node(state, known)
        chosen = self._made.chosen
        if chosen is None:
            raise ValueError("no choice was begun")
        state.inner = chosen.step(state.inner or chosen.init())
        return self._push_node(state, self._selection_node(state.inner)) if chosen.done(state.inner) else state

    def _push_node(self, state: TreeState, node: TreeNode) -> TreeState:
        children = self.tasks[state.task].children
        state.stack = [*state.stack[: len(state.stack) - children], node]
        state.inner, state.task, self._made.task = None, state.task + 1, -1
        return state

    def _start_task(self, state: TreeState) -> TreeNode | None:
        """Start the state's task; returns its node if it needs no selection, else None."""
        made, task = self._made, self.tasks[state.task]
        if made.task == state.task:
            return None
        if task.children:
            # An inner node herds the union u = Σ_c p_c g_c of its children's atoms, each weighted by its share of the rows' weight.
            union = unite_nodes(state.stack[len(state.stack) - task.children :])
            if len(union.x) <= self.layout.atoms:
                return union
            made.mass, made.error, made.index, made.embedding = union.mass, union.error, union.index, union.embedding
            group = selection_problem.SelectionGroup(RowTarget(union.x, union.weight), None, self.layout.atoms)
        else:
            found = self.leaves.read_leaf(task.node)
            if isinstance(found, TreeNode):
                return found
            # A leaf herds the rows of its block.
            X, weights, first = found
            self.kernel.check(X)
            made.mass, made.error, made.index, made.embedding = float(weights.sum()), 0.0, first + np.arange(len(X)), None
            group = selection_problem.SelectionGroup(RowTarget(X, weights / weights.sum()), None, self.layout.atoms)
        number = self.layout.node_number(task.level, task.node)
        made.chosen = selection.AtomSelection(
            selection_problem.SelectionProblem(self.kernel, (group,), self.settings, numbers=[number]), self.map
        )
        made.task = state.task
        return None

    def _selection_node(self, state: selection_problem.SelectionState) -> TreeNode:
        """Return the node of a finished selection."""
        made, result = self._made, state.done[0]
        if made.index is None:
            raise ValueError("no choice was begun")
        index = np.where(result.index >= 0, made.index[np.maximum(result.index, 0)], -1).astype(np.int64)
        approximate = self.settings.embedding.text() if self.settings.embedding is not None and result.added is not None else None
        # Triangle inequality of the module's head: the error of the union, and what this selection adds to it.
        return TreeNode(
            made.mass,
            made.error + selection_problem.final_mmd_bound(result),
            np.ascontiguousarray(result.atoms),
            index,
            result.weight,
            made.embedding or approximate,
            result.ended,
        )

    def done(self, state: TreeState) -> bool:
        """Whether all nodes are made."""
        return state.task >= len(self.tasks)

    def memory(self) -> int:
        """The memory of a selection among a block's rows, or among the largest union, in bytes."""
        rows = max(min(self.layout.block, self.layout.rows), min(UNION, self.layout.children_per_node * self.layout.atoms))
        blank = np.broadcast_to(0.0, (rows, self.columns))
        group = selection_problem.SelectionGroup(RowTarget(blank, np.broadcast_to(1.0, rows)), None, self.layout.atoms)
        kept = len(self.tasks) * self.layout.atoms * 8 * (self.columns + 2)
        return kept + selection.AtomSelection(selection_problem.SelectionProblem(self.kernel, (group,), self.settings)).memory()

    def progress(self, state: TreeState) -> RunProgress:
        """Return the progress with the number of finished blocks and unions, and the largest bound so far."""
        worst = max((node.error for node in state.stack), default=0.0)
        figure = f"{state.task} of {len(self.tasks)} blocks and unions" + (f", MMD {worst:.3g}" if worst else "")
        return RunProgress(state.step, None, figure, state.task / max(1, len(self.tasks)))

    def result(self, state: TreeState) -> list[TreeNode]:
        """Return the nodes."""
        return state.stack


def unite_nodes(nodes: Sequence[TreeNode]) -> TreeNode:
    """Make the union of nodes, each with its share of the weight.  Raises DataError if none has any."""
    there = [node for node in nodes if node.mass > 0]
    if not there:
        return nodes[0]
    mass = sum(node.mass for node in there)
    shares = np.array([node.mass for node in there])
    weight = np.concatenate([node.mass * node.weight for node in there])
    errors = np.array([node.error for node in there])
    # Convexity: ‖u − μ‖ ≤ Σ_c p_c ‖g_c − μ_c‖.
    return TreeNode(
        mass,
        float(exact_arithmetic.matrix_product(shares, errors) / shares.sum()),
        np.concatenate([node.x for node in there]),
        np.concatenate([node.index for node in there]),
        weight / weight.sum(),
        next((node.embedding for node in there if node.embedding), None),
        next((node.ended for node in there if node.ended), ""),
    )


@dataclass(frozen=True)
class PrecomputedNodes:
    """Nodes that were made by other processes."""

    nodes: Sequence[TreeNode]

    def read_leaf(self, node: int) -> TreeNode:
        """Return one of the nodes."""
        return self.nodes[node]


def union_artifact(value: Any, rows: int, union: TreeNode) -> Any:
    """Return the artifact of the last union's atoms as that of all rows, with the bound of the blocks' error."""
    if value.summary is None:
        return value
    summary, whole = value.summary, np.array([rows], dtype=np.int64)
    floor = summary.floor * np.sqrt(len(union.x) / rows)  # for the number of all rows instead of the union's
    embedding = value.embedding or union.embedding
    error = summary.embedding_error if summary.embedding_error is not None or embedding is None else np.zeros(1)
    summary = replace(summary, rows=whole, floor=floor, extra=np.array([union.error]), embedding_error=error)
    return replace(value, summary=summary, embedding=embedding)
