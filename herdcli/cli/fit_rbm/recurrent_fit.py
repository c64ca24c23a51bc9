"""`herd fit-rbm --recurrent`: one model of sequences of rows; the learning is in herdcli.rbm.recurrent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.fit_rbm.recurrent_models import sequences_with_history
from herdcli.cli.fit_rbm.text_units import resolve_text_units
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows import sequences
from herdcli.cli.frame.rows.column_order import warn_of_unused_weights
from herdcli.errors import DataError
from herdcli.splits import TEST, TRAIN, VALID

if TYPE_CHECKING:
    from herdcli.cli.fit_rbm.request import SequencesRequest
    from herdcli.cli.frame.rows.dataset_rows import PreparedRows
    from herdcli.cli.frame.rows.sequences import SequenceTable
    from herdcli.cli.frame.run.session import Session
    from herdcli.rbm.recurrent.artifacts import RecurrentRBM
    from herdcli.rbm.recurrent.learning import RecurrentProblem

UNUSED = 3  # a row in none of the three parts


def fit_recurrent(session: Session, request: SequencesRequest) -> None:
    """Learn a recurrent model and save it as an artifact of kind `rtrbm`."""
    from herdcli.rbm.recurrent.artifacts import assemble_recurrent_rbm
    from herdcli.rbm.recurrent.learning import RecurrentLearning, RecurrentProblem

    settings = request.recurrent_settings()
    outputs.check_artifact_output(session, "rtrbm")
    series = sequences.read_sequences(session, request, weights=None, missing=False)
    warn_of_unused_weights(session, series.data)
    if TRAIN not in series.parts:
        raise DataError("has no training sequences", where=series.history.name, hint="make a new split: --split .8,.1,.1")
    table = replace(series.history, value=series.data)
    settings = replace(settings, visible_units=resolve_text_units(session, settings.visible_units, table))
    rows = _rows_in_units(session, series, request, settings.visible_units)
    training = series.parts[TRAIN]
    held = {
        name: sequences_with_history(series.sequences, series.parts[name], rows.X) if name in series.parts else None
        for name in (VALID, TEST)
    }
    problem = RecurrentProblem(rows.X[training.chosen], training.offsets, settings, held[VALID])
    if (np.diff(training.offsets) < 2).all():
        hint = "name the column that groups rows into sequences (--sequence COLUMN), or leave out --recurrent"
        raise DataError("no training sequence has a second row, so there are no transitions to learn", where=series.history.name, hint=hint)
    algorithm = RecurrentLearning(problem, session.map)
    _warn_of_sequences(session, problem)
    state = session.run(algorithm, label="learning", memory=f"learning from {len(problem.rows)} rows in pieces of {settings.window}")
    value = assemble_recurrent_rbm(problem, state, held[TEST], **rows.reading_record())
    outputs.write_artifact(session, value, _summarize(value, problem), history=series.history)


def _rows_in_units(session: Session, series: SequenceTable, request: SequencesRequest, visible_units: str) -> PreparedRows:
    """Return all rows in unit values, standardised by the rows of split 0.  Rows in no part of the split stay but are not used."""
    from herdcli.cli.frame.rows.dataset_rows import OF_MODELS, RowReading, rows_in_units
    from herdcli.rbm.units import unit_family

    split = np.full(len(series.data.X), UNUSED, dtype=np.uint8)
    for name, part in series.parts.items():
        split[part.chosen] = name
    data = replace(series.data, split=split)
    reading = replace(RowReading.from_request(request, default=OF_MODELS), split=None)
    return rows_in_units(session, replace(series.history, value=data), unit_family(visible_units), reading)


def _warn_of_sequences(session: Session, problem: RecurrentProblem) -> None:
    """Warn about constant columns, sequences longer than the window, and a missing validation part."""
    console, settings = session.console, problem.settings
    lengths, constant = np.diff(problem.offsets), int(problem.constant_columns.sum())
    if constant:
        console.warn(f"{constant} of {problem.rows.shape[1]} columns are constant in all training rows: their weights stay 0")
    long = int((lengths > settings.window).sum())
    if long:
        which = f"{long} of {len(lengths)} training sequences {'is' if long == 1 else 'are'} longer than {settings.window} steps"
        console.note(f"{which} (--window), so they are learned in windows: states pass from one window to the next, gradients do not")
    if problem.held is None:
        console.warn("there are no validation sequences, so the model of the last epoch is kept, not the best one")


def _summarize(value: RecurrentRBM, problem: RecurrentProblem) -> str:
    many = f"{value.sequences} sequence{'s' * (value.sequences != 1)}"
    if not value.best_epoch:
        return f"{value.hidden} hidden, {many} of {value.rows} rows, {value.epochs} epoch{'s' * (value.epochs != 1)}"
    return f"{value.hidden} hidden, {many} of {value.rows} rows, epoch {value.best_epoch} of {value.epochs} kept"
