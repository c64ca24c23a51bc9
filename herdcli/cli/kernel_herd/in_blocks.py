"""`herd kernel-herd FILE --block-rows N`: blocks of a file's rows as units, of which a shard reads its own, and a tree of their unions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.wording import grouped, rounded
from herdcli.cli.frame import shards
from herdcli.cli.kernel_herd import by_number, embedding, inputs, results, sketched
from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.cli.kernel_herd.by_number import Rows
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.kernels import Kernel
    from herdcli.quadrature.problems import Settings
    from herdcli.quadrature.tree import BlocksShard, Layout, Node
    from herdcli.schema import Array
    from herdcli.shards import Shard


def wanted(request: Request) -> bool:
    """Whether rows are herded in blocks and then as a tree."""
    return request.block_rows is not None and request.target == "rows"


def run(session: Session, request: Request) -> None:
    """Choose atoms of this run's blocks, and save `samples` or a shard of them."""
    from herdcli.quadrature.tree import BlocksShard

    request.refuse()
    request.warn_of_ignored(session)
    with by_number.opened(session, request) as rows:
        layout = _layout(request, rows.count)
        if not session.place.of(layout.units):
            _nothing(session, request, rows, layout)
            return
        basis, kernel = _told(session, request, rows)
        if sketched.wanted(session, request, kernel, rows.count, basis.shape[1]):
            sketch = sketched.run(session, request, rows, basis, kernel, layout)
            shards.close(session, sketch, "blocks of rows", sketched.finish, rows.history, request)
            return
        units = shards.units(session, layout.units, "blocks of rows")
        parts = _made(session, request, rows, units, kernel) if units else []
    made = BlocksShard(
        place=session.place,
        units=layout.units,
        parts=parts,
        rows=rows.count,
        kernel=kernel.text(),
        scale=rows.scale,
        feature_names=rows.names,
    )
    shards.close(session, made, "blocks of rows", finish, rows.history, request)


def _nothing(session: Session, request: Request, rows: Rows, layout: Layout) -> None:
    """A shard without blocks, which nothing is told from."""
    from herdcli.quadrature.kernel_names import parse
    from herdcli.quadrature.sketches import SketchShard
    from herdcli.quadrature.tree import BlocksShard

    shards.units(session, layout.units, "blocks of rows")
    place, count, one = session.place, rows.count, np.ones(1)
    made: Shard = BlocksShard(place=place, units=layout.units, parts=[], rows=count, kernel="", scale=one)
    if sketched.wanted(session, request, parse(request.kernel), count, rows.columns):
        made = SketchShard(place=place, units=layout.units, parts=[], rows=count, kernel="", scale=one, landmarks=one[:, None])
    shards.close(session, made, "blocks of rows", finish, rows.history, request)


def _layout(request: Request, rows: int) -> Layout:
    from herdcli.quadrature.tree import Layout

    return Layout(rows, int(request.block_rows or 0), request.of_each_block)


def _made(session: Session, request: Request, rows: Rows, units: range, kernel: Kernel) -> list[Node]:
    """The nodes of these units."""
    from herdcli.quadrature import tree

    layout = _layout(request, rows.count)
    tasks = [task for unit in units for task in layout.tasks(layout.level, unit)]
    leaves = Blocks(rows, layout.block)
    climb = tree.Climb(
        kernel, _settings(session, request, kernel, rows.count, len(rows.scale)), layout, leaves, tasks, len(rows.scale), session.map
    )
    return session.run(climb, label="herding", memory="herding")


def _settings(session: Session, request: Request, kernel: Kernel, rows: int, columns: int) -> Settings:
    block = min(int(request.block_rows or 0), rows)
    return inputs.settings(session, request, 0, embedding.of_sizes(session, request, kernel, [(block, block, columns)]))


def finish(session: Session, whole: BlocksShard, history: History, request: Request) -> None:
    """Herd the atoms of all blocks, and save those that are chosen of them."""
    from herdcli.quadrature import assemble, problems, selection, tree
    from herdcli.quadrature.kernel_names import parse
    from herdcli.quadrature.targets import Rows

    kernel, layout = parse(whole.kernel), _layout(request, whole.rows)
    if layout.units != len(whole.parts):
        raise DataError(f"has {len(whole.parts)} blocks of rows instead of {layout.units}")
    settings = _settings(session, request, kernel, whole.rows, len(whole.scale))
    tasks = [task for node in range(layout.nodes(layout.top)) for task in layout.tasks(layout.top, node, layout.level)]
    climb = tree.Climb(kernel, settings, layout, tree.Given(whole.parts), tasks, len(whole.scale), session.map)
    union = tree.united(session.aside(climb, label="merging"))
    if not union.mass > 0:
        raise DataError("weights of rows must be finite, not negative and not all 0")
    group = problems.Group(Rows(union.x, union.weight), None, request.count)
    problem = problems.Problem(kernel, (group,), settings, numbers=[layout.nodes(0)])
    value = assemble.samples(
        problem,
        session.aside(selection.Selection(problem, session.map), label="herding"),
        [union.index],
        kind=request.weights,
        projected=request.trace_projected,
        scale=whole.scale,
        feature_names=whole.feature_names,
        keep_state=False,
    )
    value = tree.of_union(value, whole.rows, union)
    results.tell(session, value, request.count)
    results.save(session, value, f"{len(value.index)} atoms, {rounded(value.kernel)}", history)


@dataclass(frozen=True)
class Blocks:
    """`tree.Leaves` of rows."""

    rows: Rows
    size: int

    def leaf(self, node: int) -> Node | tuple[Array, Array, int]:
        """A block's rows in scaled columns; a node without atoms where they have no weight."""
        from herdcli.quadrature.tree import Node

        first = node * self.size
        X, weights = self.rows.read(first, min(first + self.size, self.rows.count))
        if weights.any():
            return X / self.rows.scale, weights, first
        return Node(0.0, 0.0, X[:0], np.zeros(0, dtype=np.int64), weights[:0])


def _told(session: Session, request: Request, rows: Rows) -> tuple[Array, Kernel]:
    """Rows (n, d) in scaled columns, and the kernel with its length, told from all rows or from stretches evenly spread over many."""
    from herdcli.quadrature.kernel_names import choose, parse
    from herdcli.quadrature.kernels import check_definite

    kernel = parse(request.kernel)
    inputs.refuse_inexact(session, request, kernel)
    X = by_number.spread(rows)
    rows.scale = scale = inputs.scale_of(session, request, X, rows.names)
    X = X / scale
    kernel = choose(kernel, X, request.bandwidth, request.seed)
    kernel.check(X)
    check_definite(kernel, X)
    if len(X) < rows.count:
        session.console.note(f"lengths and scales are those of {grouped(len(X))} of {grouped(rows.count)} rows: {kernel.text()}")
    return X, kernel
