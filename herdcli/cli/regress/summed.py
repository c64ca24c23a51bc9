"""`herd regress --one-pass`: least squares from sums of blocks of rows, which are units; a shard sums up its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import preparation
from herdcli.artifacts.dataset import Dataset
from herdcli.cli.frame import shards, streamed
from herdcli.cli.frame.options import ITERATED, WORKERS
from herdcli.cli.regress import inputs, runs
from herdcli.cli.regress.trials_and_exposure import columns_of
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.numerics.blocks import BLOCK, InMemory
from herdcli.numerics.units import Layout
from herdcli.records import dataclass
from herdcli.regression.summing import Block, kept

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.ranges import Ranges
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.cli.regress.request import Request
    from herdcli.regression.summing import RegressionShard
    from herdcli.schema import Array

ROUNDS = f"{WORKERS}; of --family gaussian shards make sums, with --one-pass"


def check(session: Session, request: Request) -> None:
    """Refuse what sums of one pass do not give."""
    if not request.one_pass:
        if session.shard is not None:
            raise BadUsage(f"--shard: {ITERATED}", hint=ROUNDS)
        return
    if request.family not in (None, "gaussian"):
        raise BadUsage(f"--one-pass is of --family gaussian, not {request.family}", hint="--cluster WHERE keeps the rows with workers")
    if request.weight_kind in ("trials", "exposure") or columns_of(request) or request.penalty:
        raise BadUsage("--one-pass is of least squares", hint="leave out --trials, --failures, --exposure, --weight-kind and --penalty")
    if request.gls is not None:
        raise BadUsage("--one-pass makes sums, and --gls needs the rows", hint="leave one of them out")


@dataclass(frozen=True)
class Stretches:
    """Rows of files, which are read when their blocks are.  split, kept  (n,)."""

    found: Ranges
    request: Request
    split: Array
    kept: Array

    def take(self, first: int, last: int) -> Iterator[Block]:
        """Blocks first … last − 1, read together."""
        begin, where = first * BLOCK, self.found.artifact.name
        stretch = self.found.read(begin, min(last * BLOCK, self.found.count))
        data, given, _ = inputs.parted(stretch, self.request, where, lambda text: None)
        y, offset, weight = given.y, given.offset, given.weight
        X = preparation.dense(data, np.float64)
        for at in range(0, len(y), BLOCK):
            own, place = slice(at, at + BLOCK), slice(begin + at, begin + at + BLOCK)
            weights = None if weight is None else weight[own]
            yield Block(begin + at, X[own], y[own], offset[own], weights, self.split[place], self.kept[place])


@dataclass(frozen=True)
class Rows:
    """Rows that are to be summed up, and what is known of them before."""

    source: InMemory | Stretches
    split: Array
    kept: Array
    columns: int
    names: list[str] | None
    weighted: bool
    history: Artifact


def run(session: Session, request: Request) -> None:
    """Sum up this run's blocks, and save a `regression` or a shard of the sums."""
    request = replace(request, family="gaussian")
    with _opened(session, request) as found:
        rows = None if found is None else _in_stretches(session, request, found)
        try:
            _summed(session, request, rows or _in_memory(session, request))
        except DataError as error:
            error.where = error.where or session.inputs["data"].name
            raise


def _summed(session: Session, request: Request, rows: Rows) -> None:
    from herdcli.regression import summing

    layout = Layout(len(rows.split), rows.columns, streamed.at_once(rows.columns))
    held = int(rows.kept.sum())
    if held < (beside := int(((rows.split == 1) | (rows.split == 2)).sum())):
        session.console.note(f"{held} of {beside} rows beside the training rows, evenly spread, stay with the model")
    units = shards.units(session, layout.units, "blocks of rows")
    pilot, parts = summing.Pilot.none(rows.columns), list[summing.Part]()
    if units or session.dealt is not None:
        pilot = summing.pilot(next(iter(rows.source.take(0, 1))))
    if units:
        run = session.run if session.shard else session.aside
        parts = run(summing.Summing(layout, units, rows.source, pilot, session.map, request.weight_kind or "precision"), label="summing up")
        if layout.columns > summing.ROBUST:
            session.console.note(f"sums of more than {summing.ROBUST} columns give no robust errors")
    made = summing.RegressionShard(
        place=session.place,
        units=layout.units,
        parts=parts,
        target=request.target or inputs.LABELS,
        weighted=rows.weighted,
        centre=pilot.centre,
        pilot=pilot.theta,
        names=rows.names,
        weight_kind=request.weight_kind or "precision",
    )
    shards.close(session, made, "blocks of rows", finish, rows.history, request)


def finish(session: Session, whole: RegressionShard, history: History, request: Request) -> None:
    """Fit the sums of all blocks, and save the regression."""
    from herdcli.regression import sums
    from herdcli.regression.fit import Regression
    from herdcli.regression.model import stated
    from herdcli.regression.summing import Pilot

    found = sums.whole(whole.parts)
    summed = sums.Summed(found.second, Pilot(whole.centre, whole.pilot))
    problem = summed.problem(request.l1, request.l2, whole.weight_kind)
    fit = session.run(
        Regression(problem, summed.start(), request.iterations, elsewhere=summed),
        label="fitting",
        memory=f"the curvature of {len(whole.pilot)} coefficients",
    )
    fit, figures = sums.closed(found, summed, problem, fit, weighted=whole.weighted)
    value = stated(problem, fit, figures, names=whole.names, classes=None, target=whole.target, seed=request.seed)
    if not value.null_deviance > 0:
        raise runs.nothing_to_predict(f"{value.null_intercept[0]:g}", getattr(history, "name", ""))
    runs.write(session, sums.held_out(found, value, weighted=whole.weighted), history)
    runs.warn(session, value, request)


def _opened(session: Session, request: Request) -> AbstractContextManager[Ranges | None]:
    """Files whose rows are read by parts; None for what is small, and what can only be read whole."""
    return streamed.by_parts(session, request.source, input_format=request.input_format, keep=inputs.wanted(request))


def _in_stretches(session: Session, request: Request, found: Ranges) -> Rows | None:
    """Rows that stay in their files; None where all of them must be seen to read one."""
    head, artifact = found.read(0, 1), found.artifact
    named = {*(head.columns or {}), *(head.feature_names or []), *(["y"] if head.y is not None else [])}
    others = any(getattr(reader, "others", False) for _, reader, _ in found.parts)
    if artifact.recoding or others or not {*inputs.wanted(request)[1:], request.target or inputs.LABELS} <= named:
        return None
    data, given, classes = inputs.parted(head, request, artifact.name, session.console.note)
    _require_numbers(classes, request, artifact.name)
    session.inputs["data"] = artifact
    session.account_for(found)
    session.console.detail(f"{artifact.name}: {found.count} rows, sha256 {artifact.sha256[:12]}")
    own = found.split() if request.split is None else None
    rows = Dataset(np.broadcast_to(np.uint8(0), (found.count, data.X.shape[1])), split=own)
    try:
        split = preparation.split_rows(rows, request.split, request.seed)
    except HerdError as error:
        error.where = error.where or artifact.name
        raise
    held = kept(split)
    return Rows(
        Stretches(found, request, split, held), split, held, data.X.shape[1], data.feature_names, given.weight is not None, artifact
    )


def _in_memory(session: Session, request: Request) -> Rows:
    """All rows."""
    rows = inputs.read(session, request)
    _require_numbers(rows.classes, request, rows.history.name)
    held = kept(rows.split)
    return Rows(_blocks(rows, held), rows.split, held, rows.X.shape[1], rows.names, rows.weight is not None, rows.history)


def _blocks(rows: inputs.Inputs, kept: Array) -> InMemory:
    """All rows, which a block takes its own of."""

    def cut(own: slice) -> Block:
        weight = None if rows.weight is None else rows.weight[own]
        return Block(own.start, rows.X[own], rows.y[own], rows.offset[own], weight, rows.split[own], kept[own])

    return InMemory(len(rows.y), cut)


def _require_numbers(classes: list[str] | None, request: Request, where: str) -> None:
    if classes is not None:
        raise DataError(
            f"the target '{request.target or inputs.LABELS}' holds names of classes, --one-pass takes numbers",
            where=where,
            hint="--family softmax, without --one-pass",
        )
