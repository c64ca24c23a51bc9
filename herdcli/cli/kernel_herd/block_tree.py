"""`herd kernel-herd FILE --block-rows N`: blocks of a file's rows, divided among shards, and a tree that merges their atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.message_numbers import group_digits, shorten_decimals
from herdcli.cli.frame.run import shards
from herdcli.cli.kernel_herd import block_sketches, embedding_choice, indexed_rows, inputs, results
from herdcli.errors import DataError
from herdcli.records import dataclass
from herdcli.schema import INVALID_WEIGHTS

if TYPE_CHECKING:
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.kernel_herd.indexed_rows import IndexedRows
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.kernels.kernel_functions import Kernel
    from herdcli.quadrature.rules.merge_tree import BlocksShard, TreeLayout, TreeNode
    from herdcli.quadrature.selection_problem import SelectionSettings
    from herdcli.schema import Array
    from herdcli.shards import Shard


def uses_block_tree(block_rows: int | None, target: str) -> bool:
    """Return whether atoms are chosen in blocks of rows and then merged in a tree."""
    return block_rows is not None and target == "rows"


def select_from_own_blocks(session: Session, request: Request) -> None:
    """Choose atoms from this run's blocks, and save an artifact of kind `samples` or a shard of one."""
    from herdcli.quadrature.rules.merge_tree import BlocksShard

    with indexed_rows.open_rows(session, request) as rows:
        layout = _tree_layout(request.atoms_per_block, request.block_rows, rows.count)
        if not session.place.unit_numbers(layout.unit_count):
            _save_empty_shard(session, request, rows, layout)
            return
        basis, kernel = _scaled_sample_and_kernel(session, request, rows)
        if block_sketches.uses_sketch(session, request.embedding, request.block_atoms, request.count, kernel, rows.count, basis.shape[1]):
            sketch = block_sketches.sketch_blocks(session, request.seed, request.embedding, request.count, rows, basis, kernel, layout)
            shards.save_units_or_shard(session, sketch, "blocks of rows", block_sketches.save_all_units, rows.history, request)
            return
        units = shards.unit_numbers_of_run(session, layout.unit_count, "blocks of rows")
        parts = _build_nodes(session, request, rows, units, kernel) if units else []
    made = BlocksShard(
        place=session.place,
        units=layout.unit_count,
        parts=parts,
        rows=rows.count,
        kernel=kernel.text(),
        scale=rows.scale,
        feature_names=rows.names,
    )
    shards.save_units_or_shard(session, made, "blocks of rows", save_all_units, rows.history, request)


def _save_empty_shard(session: Session, request: Request, rows: IndexedRows, layout: TreeLayout) -> None:
    """Save a shard without blocks, for which no scales or lengths are computed."""
    from herdcli.quadrature.embeddings.block_sketches import SketchShard
    from herdcli.quadrature.kernels.kernel_parsing import parse_kernel
    from herdcli.quadrature.rules.merge_tree import BlocksShard

    shards.unit_numbers_of_run(session, layout.unit_count, "blocks of rows")
    place, count, one = session.place, rows.count, np.ones(1)
    made: Shard = BlocksShard(place=place, units=layout.unit_count, parts=[], rows=count, kernel="", scale=one)
    if block_sketches.uses_sketch(
        session, request.embedding, request.block_atoms, request.count, parse_kernel(request.kernel), count, rows.columns
    ):
        made = SketchShard(place=place, units=layout.unit_count, parts=[], rows=count, kernel="", scale=one, landmarks=one[:, None])
    shards.save_units_or_shard(session, made, "blocks of rows", save_all_units, rows.history, request)


def _tree_layout(atoms_per_block: int, block_rows: int | None, rows: int) -> TreeLayout:
    from herdcli.quadrature.rules.merge_tree import TreeLayout

    return TreeLayout(rows, int(block_rows or 0), atoms_per_block)


def _build_nodes(session: Session, request: Request, rows: IndexedRows, units: range, kernel: Kernel) -> list[TreeNode]:
    """Return the tree nodes of these units."""
    from herdcli.quadrature.rules import merge_tree

    layout = _tree_layout(request.atoms_per_block, request.block_rows, rows.count)
    tasks = [task for unit in units for task in layout.tasks(layout.level, unit)]
    leaves = RowLeaves(rows, layout.block)
    climb = merge_tree.TreeHerding(
        kernel, _block_settings(session, request, kernel, rows.count, len(rows.scale)), layout, leaves, tasks, len(rows.scale), session.map
    )
    return session.run(climb, label="herding", memory="herding")


def _block_settings(session: Session, request: Request, kernel: Kernel, rows: int, columns: int) -> SelectionSettings:
    block = min(int(request.block_rows or 0), rows)
    return inputs.selection_settings(
        session,
        request,
        0,
        embedding_choice.choose_embedding_for_sizes(session, request.embedding, request.count, kernel, [(block, block, columns)]),
    )


def save_all_units(session: Session, whole: BlocksShard, history: HistorySource, request: Request) -> None:
    """Merge the atoms of all blocks, and save those that are chosen from them."""
    from herdcli.quadrature import result_assembly, selection, selection_problem
    from herdcli.quadrature.kernels.kernel_parsing import parse_kernel
    from herdcli.quadrature.rules import merge_tree
    from herdcli.quadrature.targets import RowTarget

    kernel, layout = parse_kernel(whole.kernel), _tree_layout(request.atoms_per_block, request.block_rows, whole.rows)
    if layout.unit_count != len(whole.parts):
        raise DataError(f"has {len(whole.parts)} blocks of rows, but {layout.unit_count} are expected")
    settings = _block_settings(session, request, kernel, whole.rows, len(whole.scale))
    tasks = [task for node in range(layout.count_nodes(layout.top_level)) for task in layout.tasks(layout.top_level, node, layout.level)]
    climb = merge_tree.TreeHerding(kernel, settings, layout, merge_tree.PrecomputedNodes(whole.parts), tasks, len(whole.scale), session.map)
    union = merge_tree.unite_nodes(session.run_preparation(climb, label="merging"))
    if not union.mass > 0:
        raise DataError(INVALID_WEIGHTS)
    group = selection_problem.SelectionGroup(RowTarget(union.x, union.weight), None, request.count)
    problem = selection_problem.SelectionProblem(kernel, (group,), settings, numbers=[layout.count_nodes(0)])
    value = result_assembly.assemble_samples(
        problem,
        session.run_preparation(selection.AtomSelection(problem, session.map), label="herding"),
        [union.index],
        kind=request.weights,
        projected=request.trace_projected,
        scale=whole.scale,
        feature_names=whole.feature_names,
        keep_state=False,
    )
    value = merge_tree.union_artifact(value, whole.rows, union)
    results.note_result(session, value, request.count)
    results.save_samples(session, value, f"{len(value.index)} atoms, {shorten_decimals(value.kernel)}", history)


@dataclass(frozen=True)
class RowLeaves:
    """Rows as a `merge_tree.LeafSource`."""

    rows: IndexedRows
    size: int

    def read_leaf(self, node: int) -> TreeNode | tuple[Array, Array, int]:
        """Return the rows of a block in scaled columns, their weights and first number; a node without atoms if all weights are 0."""
        from herdcli.quadrature.rules.merge_tree import TreeNode

        first = node * self.size
        X, weights = self.rows.read(first, min(first + self.size, self.rows.count))
        if weights.any():
            return X / self.rows.scale, weights, first
        return TreeNode(0.0, 0.0, X[:0], np.zeros(0, dtype=np.int64), weights[:0])


def _scaled_sample_and_kernel(session: Session, request: Request, rows: IndexedRows) -> tuple[Array, Kernel]:
    """Return rows (n, d) in scaled columns and the kernel with its length scale.

    Scales and lengths come from all rows, or from ranges of rows evenly spread over a large file.
    """
    from herdcli.quadrature.kernels.kernel_functions import require_positive_semidefinite
    from herdcli.quadrature.kernels.kernel_parsing import choose_length_scales, parse_kernel

    kernel = parse_kernel(request.kernel)
    inputs.refuse_inexact_kernel(session, kernel)
    X = indexed_rows.sample_row_ranges(rows)
    rows.scale = scale = inputs.choose_column_scale(session, request.scale, X, rows.names)
    X = X / scale
    kernel = choose_length_scales(kernel, X, request.bandwidth, request.seed)
    kernel.check(X)
    require_positive_semidefinite(kernel, X)
    if len(X) < rows.count:
        session.console.note(
            f"length scales and column scales are computed from {group_digits(len(X))} of {group_digits(rows.count)} rows: {kernel.text()}"
        )
    return X, kernel
