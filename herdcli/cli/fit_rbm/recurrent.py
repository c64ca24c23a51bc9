"""`herd fit-rbm --recurrent`: one model of sequences of rows; the learning is in herdcli.rbm.recurrent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.fit_rbm.in_time import led_up
from herdcli.cli.frame import outputs, sequences
from herdcli.cli.frame.columns import warn_of_weights
from herdcli.errors import DataError
from herdcli.splits import TEST, TRAIN, VALID

if TYPE_CHECKING:
    from herdcli.cli.fit_rbm.request import OfSequences
    from herdcli.cli.frame.rows import Prepared
    from herdcli.cli.frame.sequences import Series
    from herdcli.cli.frame.session import Session
    from herdcli.rbm.recurrent.artifacts import RecurrentRBM
    from herdcli.rbm.recurrent.learning import Problem
    from herdcli.rbm.recurrent.settings import Settings

UNUSED = 3  # a row in none of the three parts


def fit_recurrent(session: Session, request: OfSequences) -> None:
    """Learn and save an `rtrbm`."""
    from herdcli.rbm.recurrent.artifacts import made
    from herdcli.rbm.recurrent.learning import Learning, Problem

    settings = request.asked()
    outputs.check(session, "rtrbm")
    series = sequences.read(session, request, weights=None, missing=False)
    warn_of_weights(session, series.data)
    if TRAIN not in series.parts:
        raise DataError("has no sequences in split 0 to learn from", where=series.history.name)
    rows = _in_units(session, series, request, settings)
    training = series.parts[TRAIN]
    held = {name: led_up(series.sequences, series.parts[name], rows.X) if name in series.parts else None for name in (VALID, TEST)}
    problem = Problem(rows.X[training.chosen], training.offsets, settings, held[VALID])
    if (np.diff(training.offsets) < 2).all():
        hint = "--sequence names the column that groups rows; without --recurrent rows are learned one by one"
        raise DataError("no training sequence has a second row: there is nothing to recur", where=series.history.name, hint=hint)
    algorithm = Learning(problem, session.map)
    _warn_of_sequences(session, problem)
    state = session.run(algorithm, label="learning", memory=f"learning from {len(problem.rows)} rows in pieces of {settings.window}")
    value = made(problem, state, held[TEST], **rows.as_seen())
    outputs.artifact(session, value, _summary(value, problem), history=series.history)


def _in_units(session: Session, series: Series, request: OfSequences, settings: Settings) -> Prepared:
    """All rows in unit values, which those of split 0 standardise.  Rows of none of the parts stay, and are not looked at."""
    from herdcli.cli.frame.rows import OF_MODELS, Reading, in_units
    from herdcli.rbm.units import family

    split = np.full(len(series.data.X), UNUSED, dtype=np.uint8)
    for name, part in series.parts.items():
        split[part.chosen] = name
    data = replace(series.data, split=split)
    reading = replace(Reading.asked(request, default=OF_MODELS), split=None)
    return in_units(session, replace(series.history, value=data), family(settings.visible_units), reading)


def _warn_of_sequences(session: Session, problem: Problem) -> None:
    """Say what can hardly be learned from these sequences."""
    console, settings = session.console, problem.settings
    lengths, constant = np.diff(problem.offsets), int(problem.constant.sum())
    if constant:
        console.warn(f"{constant} of {problem.rows.shape[1]} columns are constant in all training rows: their weights stay 0")
    long = int((lengths > settings.window).sum())
    if long:
        which = f"{long} of {len(lengths)} training sequences {'is' if long == 1 else 'are'} longer than {settings.window} steps"
        console.note(f"{which}: learned in pieces (--window), between which states are handed on and gradients are not")
    if problem.held is None:
        console.warn("there are no sequences in split 1: the last epoch's model is kept, not the best one's")


def _summary(value: RecurrentRBM, problem: Problem) -> str:
    many = f"{value.sequences} sequence{'s' * (value.sequences != 1)}"
    if not value.best_epoch:
        return f"{value.hidden} hidden, {many} of {value.rows} rows, {value.epochs} epoch{'s' * (value.epochs != 1)}"
    return f"{value.hidden} hidden, {many} of {value.rows} rows, epoch {value.best_epoch} of {value.epochs} kept"
