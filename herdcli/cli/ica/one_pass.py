"""`herd ica --one-pass`: whitening from the moments of blocks of rows; blocks are the units, and each shard reads its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.message_numbers import group_digits
from herdcli.cli.frame.rows import streamed_rows, unit_rows
from herdcli.cli.frame.rows.unit_rows import UnitRows
from herdcli.cli.frame.run import shards
from herdcli.errors import DataError
from herdcli.ica import block_moments
from herdcli.ica.block_moments import MomentBlock
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts.rows.row_ranges import RowRanges
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.ica.request import Request
    from herdcli.ica.block_moments import ICAShard


def sum_moments_and_learn(session: Session, request: Request) -> None:
    """Compute the moments of this run's blocks, and save an artifact of kind `ica` or a shard of the moments."""
    with streamed_rows.open_row_ranges(session, request.source, input_format=request.input_format, label=request.label) as found:
        rows = None if found is None else _rows_in_files(session, request.split, request.algorithm, request.seed, found)
        try:
            _sum_blocks(session, request, rows or _rows_in_memory(session, request))
        except DataError as error:
            error.where = error.where or session.inputs["data"].name
            raise


def _rows_in_files(session: Session, split: str | None, algorithm: str, seed: int, ranges: RowRanges) -> UnitRows[MomentBlock] | None:
    """Return rows that stay in their files; None if reading one row requires all of them."""
    from herdcli.cli.frame.rows.column_order import warn_of_unused_weights
    from herdcli.cli.ica import inputs

    head = ranges.read(0, 1)
    drawn = split is not None or ranges.read_split_column() is None
    if not unit_rows.are_ranges_independent(ranges, head) or (drawn and unit_rows.has_text_labels(ranges, head)):
        return None
    artifact = unit_rows.leave_rows_in_files(session, ranges)
    warn_of_unused_weights(session, head)
    whole = inputs.has_no_heldout_rows(split, algorithm, ranges.read_split_column() is not None)
    parts = np.zeros(ranges.count, dtype=np.uint8) if whole else streamed_rows.assign_range_splits(ranges, split, seed)
    use = block_moments.split_to_row_uses(parts)

    def read(start: int, stop: int) -> MomentBlock:
        return MomentBlock(start, ranges.read(start, stop).X, use[start:stop])

    return UnitRows(
        source=unit_rows.blocks_in_files(ranges.count, head.X.shape[1], read),
        split=parts,
        history=artifact,
        names=unit_rows.declared_names(ranges),
        image_shape=unit_rows.declared_image_shape(ranges),
    )


def _rows_in_memory(session: Session, request: Request) -> UnitRows[MomentBlock]:
    """Return all rows, in memory."""
    from herdcli.cli.ica import inputs

    artifact, data = inputs.load_data(session, request.source, request.input_format, request.label)
    split = inputs.assign_splits(data, request)
    block = MomentBlock(0, data.X, block_moments.split_to_row_uses(split))
    return UnitRows(
        source=unit_rows.blocks_in_memory(block, *data.X.shape),
        split=split,
        history=replace(artifact, value=None),
        names=data.feature_names,
        image_shape=data.image_shape,
    )


def _sum_blocks(session: Session, request: Request, rows: UnitRows[MomentBlock]) -> None:
    from herdcli.cli.ica import inputs

    layout, columns = rows.layout, rows.layout.columns
    _, mixing = inputs.mix_sources(session, np.broadcast_to(np.uint8(0), (layout.rows, layout.columns)), request)
    inputs.note_omitted_heldout_rows(session, int((rows.split == TEST).sum()))
    units = shards.unit_numbers_of_run(session, layout.units, "blocks of rows")
    about, parts = block_moments.MomentCentre(np.zeros(columns), request.log), list[block_moments.PartialMoments]()
    if units or session.dealt is not None:
        about = block_moments.choose_moment_centre(next(iter(rows.source.take(0, 1))), log=request.log)
    if units:
        run = session.run if session.shard else session.run_preparation
        kept = -(-min(layout.rows, block_moments.LEARNED + block_moments.HELD) // session.place.count)
        parts = run(block_moments.MomentSummation(layout, units, rows.source, about, kept, session.map), label="summing up")
    made = block_moments.ICAShard(
        place=session.place,
        units=layout.units,
        parts=parts,
        centre=about.centre,
        mixing=mixing,
        image_shape=None if mixing is not None else rows.image_shape,
        names=rows.names,
    )
    shards.save_units_or_shard(session, made, "blocks of rows", save_all_units, rows.history, request)


def save_all_units(session: Session, whole: ICAShard, history: HistorySource, request: Request) -> None:
    """Whiten by the moments of all blocks, learn from the stored rows, and save the filters."""
    from herdcli.cli.ica import inputs, runs

    total = block_moments.sum_partial_moments(whole.parts)
    inputs.require_enough_rows(total.rows, len(whole.centre), request.component_count, request.variance_fraction)
    all_kept = total.rows < len(whole.centre)
    fitted = inputs.fit_whitening(total.X if all_kept else total.moments(whole.centre), request)
    inputs.report_and_check_whitening(
        session,
        fitted,
        total.constant_columns if fitted.dropped else np.empty(0),
        request.whiten,
        request.components,
        request.component_count,
        request.variance_fraction,
    )
    if len(total.X) < total.rows:
        session.console.note(
            f"the whitening uses {group_digits(total.rows)} rows; "
            f"the filters are learned from {group_digits(len(total.X))} of them, evenly spaced"
        )
    session.require_memory(8 * 2 * len(total.X) * len(fitted.forward), f"{len(total.X)} × {len(fitted.forward)} whitened numbers")
    Z, holdout = fitted.apply(total.X), inputs.heldout_rows_for_model(total.held, fitted)
    runs.learn_filters(session, inputs.WhitenedRows(Z, holdout, fitted, whole.mixing, whole.image_shape, whole.names, history), request)
