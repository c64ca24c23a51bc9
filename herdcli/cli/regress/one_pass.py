"""`herd regress --one-pass`: least squares from sums over blocks of rows; blocks are the units, and each shard sums its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.frame.rows import streamed_rows, unit_rows
from herdcli.cli.frame.rows.unit_rows import UnitRows
from herdcli.cli.frame.run import shards
from herdcli.cli.regress import inputs, runs
from herdcli.errors import DataError
from herdcli.regression.block_sums import RegressionBlock, evaluation_mask

if TYPE_CHECKING:
    from herdcli.artifacts.rows.row_ranges import RowRanges
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.regress.request import Request
    from herdcli.regression.block_sums import RegressionShard


def sum_and_fit(session: Session, request: Request) -> None:
    """Sum over this run's blocks, and save a `regression` or a shard of the sums."""
    request = replace(request, family="gaussian")
    with _open_row_ranges(session, request) as found:
        rows = None if found is None else _rows_in_files(session, request, found)
        try:
            _sum_blocks(session, request, rows or _rows_in_memory(session, request))
        except DataError as error:
            error.where = error.where or session.inputs["data"].name
            raise


def _sum_blocks(session: Session, request: Request, rows: UnitRows[RegressionBlock]) -> None:
    from herdcli.regression import block_sums

    layout = rows.layout
    held = int(evaluation_mask(rows.split).sum())
    if held < (beside := int(((rows.split == 1) | (rows.split == 2)).sum())):
        session.console.note(f"{held} of {beside} held-out rows, evenly spaced, are stored in the model for herd eval")
    units = shards.unit_numbers_of_run(session, layout.units, "blocks of rows")
    pilot, parts = block_sums.PilotFit.zeros(layout.columns), list[block_sums.PartialSums]()
    if units or session.dealt is not None:
        pilot = block_sums.fit_pilot(next(iter(rows.source.take(0, 1))))
    if units:
        run = session.run if session.shard else session.run_preparation
        parts = run(
            block_sums.Summation(layout, units, rows.source, pilot, session.map, request.weight_kind or "precision"), label="summing up"
        )
        if layout.columns > block_sums.ROBUST:
            session.console.note(f"robust standard errors are left out because there are more than {block_sums.ROBUST} columns")
    made = block_sums.RegressionShard(
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
    shards.save_units_or_shard(session, made, "blocks of rows", save_all_units, rows.history, request)


def save_all_units(session: Session, whole: RegressionShard, history: HistorySource, request: Request) -> None:
    """Fit the regression to the sums of all blocks, and save it."""
    from herdcli.regression import least_squares_sums
    from herdcli.regression.block_sums import PilotFit
    from herdcli.regression.fit import NewtonDescent
    from herdcli.regression.model import regression_artifact

    found = least_squares_sums.join_partial_sums(whole.parts)
    summed = least_squares_sums.SummedRows(found.second, PilotFit(whole.centre, whole.pilot))
    problem = summed.problem(request.l1, request.ridge, whole.weight_kind)
    fit = session.run(
        NewtonDescent(problem, summed.intercept_only_coefficients(), request.iterations, elsewhere=summed),
        label="fitting",
        memory=f"the curvature of {len(whole.pilot)} coefficients",
    )
    fit, figures = least_squares_sums.uncentred_fit_with_statistics(found, summed, problem, fit, weighted=whole.weighted)
    value = regression_artifact(problem, fit, figures, names=whole.names, classes=None, target=whole.target, seed=request.seed)
    if not value.null_deviance > 0:
        raise runs.constant_target_error(f"{value.null_intercept[0]:g}", getattr(history, "name", ""))
    runs.write_result(session, least_squares_sums.with_heldout_rows(found, value, weighted=whole.weighted), history)
    runs.warn_of_result(session, value, request.on_nonconvergence, request.iterations)


def _open_row_ranges(session: Session, request: Request) -> AbstractContextManager[RowRanges | None]:
    """Open files whose rows can be read in ranges; None for small files and files that must be read whole."""
    return streamed_rows.open_row_ranges(
        session, request.source, input_format=request.input_format, keep=inputs.non_feature_columns(request)
    )


def _rows_in_files(session: Session, request: Request, ranges: RowRanges) -> UnitRows[RegressionBlock] | None:
    """Return rows that stay in their files; None if reading one row requires all of them."""
    head = ranges.read(0, 1)
    needed = {*inputs.non_feature_columns(request)[1:], request.target or inputs.LABELS}
    if not unit_rows.are_ranges_independent(ranges, head, needed):
        return None
    artifact = ranges.artifact
    data, given, classes = inputs.split_response(head, request, artifact.name, session.console.note)
    _require_numbers(classes, inputs.target_name_in_file(session, request.target), artifact.name)
    unit_rows.leave_rows_in_files(session, ranges)
    split = streamed_rows.assign_range_splits(ranges, request.split, request.seed, by_label=False)
    held = evaluation_mask(split)

    def read(start: int, stop: int) -> RegressionBlock:
        found, response, _ = inputs.split_response(ranges.read(start, stop), request, artifact.name, lambda text: None)
        X = dataset_preparation.dense_copy(found, np.float64)
        return RegressionBlock(start, X, response.y, response.offset, response.weight, split[start:stop], held[start:stop])

    return UnitRows(
        source=unit_rows.blocks_in_files(ranges.count, data.X.shape[1], read),
        split=split,
        history=artifact,
        names=data.feature_names,
        weighted=given.weight is not None,
    )


def _rows_in_memory(session: Session, request: Request) -> UnitRows[RegressionBlock]:
    """Return all rows, in memory."""
    rows = inputs.read_inputs(session, request)
    _require_numbers(rows.classes, rows.title, rows.history.name)
    block = RegressionBlock(0, rows.X, rows.y, rows.offset, rows.weight, rows.split, evaluation_mask(rows.split))
    return UnitRows(
        source=unit_rows.blocks_in_memory(block, *rows.X.shape),
        split=rows.split,
        history=rows.history,
        names=rows.names,
        weighted=rows.weight is not None,
    )


def _require_numbers(classes: list[str] | None, target: str, where: str) -> None:
    if classes is not None:
        raise DataError(
            f"the target '{target}' holds class names, but --one-pass needs numbers",
            where=where,
            hint="use --family softmax, without --one-pass",
        )
