"""`herd kernel-herd FILE --block-rows N` for many rows: additive sketches of the blocks, and atoms chosen from a sample of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.artifacts.message_numbers import shorten_decimals
from herdcli.cli.frame.run import exact_mode, shards
from herdcli.cli.kernel_herd import inputs, results
from herdcli.cli.kernel_herd.embedding_choice import KEPT, KEPT_VALUES, LANDMARKS, MOST_LANDMARKS
from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.kernel_herd.indexed_rows import IndexedRows
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.embeddings.block_sketches import SketchShard
    from herdcli.quadrature.kernels.kernel_functions import Kernel
    from herdcli.quadrature.rules.merge_tree import TreeLayout
    from herdcli.schema import Array


def uses_sketch(
    session: Session, embedding: str | None, block_atoms: int | None, count: int, kernel: Kernel, rows: int, columns: int
) -> bool:
    """Return whether one sketch represents all rows: with --embedding nystrom, and by default if all pairs of rows would cost more."""
    from herdcli.quadrature.embeddings.approximation import EmbeddingApproximation
    from herdcli.quadrature.kernels.point_sums import depends_on_moments

    if depends_on_moments(kernel):
        return False
    if embedding is not None:
        return embedding.startswith("nystrom")
    own = EmbeddingApproximation("nystrom", min(max(LANDMARKS, count), MOST_LANDMARKS), by_cost=True)
    return own.is_suitable(rows, rows, columns) and not session.exact and not block_atoms


def sketch_blocks(
    session: Session, seed: int, embedding: str | None, count: int, rows: IndexedRows, basis: Array, kernel: Kernel, layout: TreeLayout
) -> SketchShard:
    """Return the sketches of this run's units.  basis  (n, d) rows in scaled columns from which landmarks are sampled."""
    import numpy as np

    from herdcli.quadrature.embeddings import block_sketches, stream_sketch
    from herdcli.quadrature.embeddings.approximation import parse_embedding_approximation

    session.warn_of_ignored_option("block_atoms", "with a sketch of all rows, which needs no merging")
    session.warn_of_ignored_option("precision", "with a sketch, which always uses float64")
    exact_mode.refuse_exact(session, f"--embedding {embedding}", hint="use --embedding exact")
    found = parse_embedding_approximation(embedding or f"nystrom:{min(max(LANDMARKS, count), MOST_LANDMARKS)}")
    sketch = stream_sketch.make_landmark_sums(kernel, basis, np.ones(len(basis)), min(found.size, len(basis)) if found else 0, seed)
    units = shards.unit_numbers_of_run(session, layout.unit_count, "blocks of rows")
    tasks = [(unit, task.node) for unit in units for task in layout.tasks(layout.level, unit) if not task.level]
    kept = max(20 * count, min(KEPT, KEPT_VALUES // basis.shape[1]))
    sketching = block_sketches.BlockSketching(sketch, RowBlocks(rows, layout.block), tasks, kept / rows.count, seed, session.map)
    return block_sketches.SketchShard(
        place=session.place,
        units=layout.unit_count,
        parts=session.run(sketching, label="reading", memory="the sketch of the rows") if units else [],
        rows=rows.count,
        kernel=kernel.text(),
        scale=rows.scale,
        landmarks=sketch.landmarks,
        feature_names=rows.names,
    )


@dataclass(frozen=True)
class RowBlocks:
    """Rows as a `block_sketches.RowBlockSource`."""

    rows: IndexedRows
    size: int

    def block(self, number: int) -> tuple[Array, Array, int]:
        """Return the rows of a block in scaled columns, their weights, and the number of the first row."""
        first = number * self.size
        X, weights = self.rows.read(first, min(first + self.size, self.rows.count))
        return X / self.rows.scale, weights, first


def save_all_units(session: Session, whole: SketchShard, history: HistorySource, request: Request) -> None:
    """Choose atoms for the sum of all sketches, and save them."""
    from herdcli.quadrature import result_assembly, selection
    from herdcli.quadrature.embeddings import block_sketches, nystrom
    from herdcli.quadrature.embeddings.approximation import EmbeddingApproximation
    from herdcli.quadrature.kernels.kernel_parsing import parse_kernel
    from herdcli.quadrature.selection_problem import SelectionProblem

    if sum(part.rows for part in whole.parts) != whole.rows:
        raise DataError(f"has sketches of {sum(part.rows for part in whole.parts)} rows, but {whole.rows} are expected")
    kernel = parse_kernel(whole.kernel)
    sketch = nystrom.NystromSums(kernel, whole.landmarks, whole.landmarks[:0], whole.scale[:0])
    group, numbers, spread = block_sketches.make_group_from_sketches(sketch, whole.parts, request.count, session.map)
    problem = SelectionProblem(
        kernel, (group,), inputs.selection_settings(session, request, 0, EmbeddingApproximation("nystrom", len(whole.landmarks)))
    )
    value = result_assembly.assemble_samples(
        problem,
        session.run_preparation(selection.AtomSelection(problem, session.map), label="herding"),
        [numbers],
        kind=request.weights,
        projected=request.trace_projected,
        scale=whole.scale,
        feature_names=whole.feature_names,
        keep_state=False,
    )
    value = result_assembly.extend_to_more_rows(value, whole.rows, float(spread[1] / spread[0]))
    results.note_result(session, value, request.count)
    results.save_samples(session, value, f"{len(value.index)} atoms, {shorten_decimals(value.kernel)}", history)
