"""`herd kernel-herd FILE --block-rows N` of many rows: a sketch of each block, which adds up, and atoms among a sample of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.artifacts.wording import rounded
from herdcli.cli.frame import exact, shards
from herdcli.cli.kernel_herd import inputs, results
from herdcli.cli.kernel_herd.embedding import KEPT, KEPT_VALUES, LANDMARKS, MOST_LANDMARKS
from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.cli.kernel_herd.by_number import Rows
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.kernels import Kernel
    from herdcli.quadrature.sketches import SketchShard
    from herdcli.quadrature.tree import Layout
    from herdcli.schema import Array


def wanted(session: Session, request: Request, kernel: Kernel, rows: int, columns: int) -> bool:
    """Whether all rows go into one sketch: where nystrom is asked for, and by default where all pairs of rows would cost more."""
    from herdcli.quadrature.approximation import Approximation
    from herdcli.quadrature.points import by_moments

    if by_moments(kernel):
        return False
    if request.embedding is not None:
        return request.embedding.startswith("nystrom")
    own = Approximation("nystrom", min(max(LANDMARKS, request.count), MOST_LANDMARKS), by_cost=True)
    return own.suits(rows, rows, columns) and not session.exact and not request.block_atoms


def run(session: Session, request: Request, rows: Rows, basis: Array, kernel: Kernel, layout: Layout) -> SketchShard:
    """The sketches of this run's units.  basis (n, d): rows in scaled columns that landmarks are drawn from."""
    import numpy as np

    from herdcli.quadrature import sketches, stream
    from herdcli.quadrature.approximation import parse

    session.ignored("block_atoms", "with a sketch of all rows, which are not merged and reduced")
    session.ignored("precision", "with a sketch, whose bound takes float64")
    exact.refuse(session, f"--embedding {request.embedding}", hint="--embedding exact")
    found = parse(request.embedding or f"nystrom:{min(max(LANDMARKS, request.count), MOST_LANDMARKS)}")
    sketch = stream.sketch(kernel, basis, np.ones(len(basis)), min(found.size, len(basis)) if found else 0, request.seed)
    units = shards.units(session, layout.units, "blocks of rows")
    tasks = [(unit, task.node) for unit in units for task in layout.tasks(layout.level, unit) if not task.level]
    kept = max(20 * request.count, min(KEPT, KEPT_VALUES // basis.shape[1]))
    sketching = sketches.Sketching(sketch, Blocks(rows, layout.block), tasks, kept / rows.count, request.seed, session.map)
    return sketches.SketchShard(
        place=session.place,
        units=layout.units,
        parts=session.run(sketching, label="reading", memory="the sketch of the rows") if units else [],
        rows=rows.count,
        kernel=kernel.text(),
        scale=rows.scale,
        landmarks=sketch.landmarks,
        feature_names=rows.names,
    )


@dataclass(frozen=True)
class Blocks:
    """`sketches.Blocks` of rows."""

    rows: Rows
    size: int

    def block(self, number: int) -> tuple[Array, Array, int]:
        """A block's rows in scaled columns, with weights."""
        first = number * self.size
        X, weights = self.rows.read(first, min(first + self.size, self.rows.count))
        return X / self.rows.scale, weights, first


def finish(session: Session, whole: SketchShard, history: History, request: Request) -> None:
    """Choose atoms for the sum of all sketches, and save them."""
    from herdcli.quadrature import assemble, nystrom, selection, sketches
    from herdcli.quadrature.approximation import Approximation
    from herdcli.quadrature.kernel_names import parse
    from herdcli.quadrature.problems import Problem

    if sum(part.rows for part in whole.parts) != whole.rows:
        raise DataError(f"has sketches of {sum(part.rows for part in whole.parts)} rows instead of {whole.rows}")
    kernel = parse(whole.kernel)
    sketch = nystrom.Nystrom(kernel, whole.landmarks, whole.landmarks[:0], whole.scale[:0])
    group, numbers, spread = sketches.group(sketch, whole.parts, request.count, session.map)
    problem = Problem(kernel, (group,), inputs.settings(session, request, 0, Approximation("nystrom", len(whole.landmarks))))
    value = assemble.samples(
        problem,
        session.aside(selection.Selection(problem, session.map), label="herding"),
        [numbers],
        kind=request.weights,
        projected=request.trace_projected,
        scale=whole.scale,
        feature_names=whole.feature_names,
        keep_state=False,
    )
    value = assemble.of_more_rows(value, whole.rows, float(spread[1] / spread[0]))
    results.tell(session, value, request.count)
    results.save(session, value, f"{len(value.index)} atoms, {rounded(value.kernel)}", history)
