"""`herd kernel-herd FILE --block-rows N`: blocks of a file's rows as units, of which a shard reads its own, and a tree of their unions."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import ranges
from herdcli.artifacts.wording import grouped, rounded
from herdcli.cli.frame import shards
from herdcli.cli.kernel_herd import embedding, inputs, results, sketched
from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herdcli.artifacts import Artifact
    from herdcli.artifacts.ranges import Ranges
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.kernels import Kernel
    from herdcli.quadrature.problems import Settings
    from herdcli.quadrature.tree import BlocksShard, Layout, Node
    from herdcli.schema import Array

BASIS_ROWS, STRETCHES = 1 << 16, 16  # rows that lengths and scales are told from, and into how many stretches they are spread


def wanted(request: Request) -> bool:
    """Whether rows are herded in blocks and then as a tree."""
    return request.block_rows is not None and request.target == "rows"


def run(session: Session, request: Request) -> None:
    """Choose atoms of this run's blocks, and save `samples` or a shard of them."""
    from herdcli.quadrature.tree import BlocksShard

    request.refuse()
    request.warn_of_ignored(session)
    with _opened(session, request) as rows:
        basis, kernel = _told(session, request, rows)
        layout = _layout(request, rows.count)
        if sketched.wanted(session, request, kernel, rows.count):
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


def _layout(request: Request, rows: int) -> Layout:
    from herdcli.quadrature.tree import Layout

    return Layout(rows, int(request.block_rows or 0), request.of_each_block)


def _made(session: Session, request: Request, rows: Rows, units: range, kernel: Kernel) -> list[Node]:
    """The nodes of these units."""
    from herdcli.quadrature import tree

    layout = _layout(request, rows.count)
    tasks = [task for unit in units for task in layout.tasks(layout.level, unit)]
    leaves = Blocks(rows, layout.block)
    climb = tree.Climb(kernel, _settings(session, request, kernel, rows.count), layout, leaves, tasks, len(rows.scale), session.map)
    return session.run(climb, label="herding", memory="herding")


def _settings(session: Session, request: Request, kernel: Kernel, rows: int) -> Settings:
    block = min(int(request.block_rows or 0), rows)
    return inputs.settings(session, request, 0, embedding.of_sizes(session, request, kernel, [(block, block)]))


def finish(session: Session, whole: BlocksShard, history: History, request: Request) -> None:
    """Herd the atoms of all blocks, and save those that are chosen of them."""
    from herdcli.quadrature import assemble, problems, selection, tree
    from herdcli.quadrature.kernel_names import parse
    from herdcli.quadrature.targets import Rows

    kernel, layout = parse(whole.kernel), _layout(request, whole.rows)
    if layout.units != len(whole.parts):
        raise DataError(f"has {len(whole.parts)} blocks of rows instead of {layout.units}")
    settings = _settings(session, request, kernel, whole.rows)
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


@dataclass
class Rows:
    """Rows of a file or in memory, by their numbers, with weights."""

    count: int
    names: list[str] | None
    ranges: Ranges | None
    request: Request
    X: Array | None = None
    weights: Array | None = None
    scale: Array = field(default_factory=lambda: np.ones(1))
    history: Artifact | None = None

    def read(self, start: int, stop: int) -> tuple[Array, Array]:
        """Rows [start, stop) (n, d) and their weights (n,)."""
        if self.ranges is None:
            if self.X is None or self.weights is None:
                raise ValueError("there are no rows")
            return self.X[start:stop], self.weights[start:stop]
        data = self.ranges.read(start, stop)
        X, weights = np.ascontiguousarray(data.X, dtype=np.float64), data.weight
        column = self.request.row_weight
        if column and column != "weight":
            X, _, weights = inputs.without(X, data.feature_names, column, "--row-weight", self.ranges.artifact.name)
        elif column and weights is None:
            raise DataError("has no weights", where=self.ranges.artifact.name)
        own = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
        if not np.isfinite(own).all() or (own < 0).any():
            raise DataError("weights of rows must be finite, not negative and not all 0", where=self.ranges.artifact.name)
        return X, own


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


@contextmanager
def _opened(session: Session, request: Request) -> Iterator[Rows]:
    """The rows of INPUT: of files where they are, of everything else in memory."""
    whole = session.missing is not None or "categorical" in session.given or request.source == "-"
    with (
        ranges.opened(request.source, input_format=request.input_format, note=session.console.note, verified=session.shard is None)
        if not whole
        else _nothing() as found
    ):
        if found is None:
            yield _in_memory(session, request)
            return
        session.inputs["data"] = artifact = found.artifact
        if found.count < 2:
            raise DataError("needs at least two rows and has one", where=artifact.name)
        session.console.detail(f"{artifact.name}: {grouped(found.count)} rows, sha256 {artifact.sha256[:12]}")
        names, column = found.names, request.row_weight
        if names is not None and column and column != "weight":
            names = [name for name in names if name != column]
        yield Rows(found.count, names, found, request, history=artifact)


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def _in_memory(session: Session, request: Request) -> Rows:
    data = inputs.input_rows(session, request)
    history = replace(data.artifact, value=None)
    return Rows(len(data.rows.X), data.feature_names, None, request, data.rows.X, data.rows.given, history=history)


def _told(session: Session, request: Request, rows: Rows) -> tuple[Array, Kernel]:
    """Rows (n, d) in scaled columns, and the kernel with its length, told from all rows or from stretches evenly spread over many."""
    from herdcli.quadrature.kernel_names import choose, parse
    from herdcli.quadrature.kernels import check_definite

    kernel = parse(request.kernel)
    inputs.refuse_inexact(session, request, kernel)
    X = _spread(rows)
    rows.scale = scale = inputs.scale_of(session, request, X, rows.names)
    X = X / scale
    kernel = choose(kernel, X, request.bandwidth, request.seed)
    kernel.check(X)
    check_definite(kernel, X)
    if len(X) < rows.count:
        session.console.note(f"lengths and scales are those of {grouped(len(X))} of {grouped(rows.count)} rows: {kernel.text()}")
    return X, kernel


def _spread(rows: Rows) -> Array:
    """All rows (n, d), or 16 stretches of 4,096 spread over them."""
    if rows.count <= BASIS_ROWS:
        return rows.read(0, rows.count)[0]
    size = BASIS_ROWS // STRETCHES
    starts = [place * (rows.count - size) // (STRETCHES - 1) for place in range(STRETCHES)]
    return np.concatenate([rows.read(start, start + size)[0] for start in starts])
