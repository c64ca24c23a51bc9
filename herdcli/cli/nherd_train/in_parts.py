"""`herd nherd-train --parts P`: the rows of a data set learned in parts, of which a shard learns its own, and merged by precision.

Under --rounds R the parts go on from what they have made together, R times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame import examples, outputs, shards, spreading
from herdcli.cli.frame.examples import Rows
from herdcli.cli.nherd_train import runs
from herdcli.cli.nherd_train.order import mixed
from herdcli.errors import BadUsage, DataError
from herdcli.online import parts, rounds
from herdcli.online.calibration import settled
from herdcli.online.coverage import Coverage
from herdcli.online.learner import Learner
from herdcli.online.race import EXAMPLES, Replay, race, told
from herdcli.splits import VALID

if TYPE_CHECKING:
    from herdcli.cli.frame.examples import Examples
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.model import Classifier, Race, Settings
    from herdcli.online.parts import ClassifierShard, Held
    from herdcli.schema import Array


def run(session: Session, request: Request) -> None:
    """Learn this run's parts, and save a `classifier` or a shard of it."""
    outputs.check(session, "classifier")
    if request.rounds > 1 and session.shard is not None:
        raise BadUsage("--rounds needs all parts in each round, and a shard has some", hint="--cluster WHERE keeps the parts with workers")
    if request.model:
        raise BadUsage("--parts learns each part from nothing, not with --continue", hint="herd merge joins a model with another")
    settings = runs.settings_of(session, request, None)
    form, label = request.input_format, request.label
    with examples.opened(
        session, request.source, role="data", passes=settings.passes, input_format=form, label=label, lazily=runs.lazily(request, settings)
    ) as given:
        if given.data is None:
            raise BadUsage(
                "--parts divides the rows of a data set, and text is learned as it arrives", hint="herd convert makes a data set"
            )
        try:
            rows, settings = mixed(session, runs.rows_of(session, given.data, request, None), settings, request)
            if request.coverage is not None and not (rows.split == VALID).any():
                why = "--coverage of parts is calibrated by validation rows, which no part learns, and there are none"
                raise BadUsage(why, hint="--split .6,.2,.2 draws some")
            if request.rounds > 1:
                _in_rounds(session, rows, settings, request, given)
                return
            made = _learned(session, rows, settings, request, given.name)
        except DataError as error:
            error.where = error.where or given.name
            raise
        shards.close(session, made, "parts", finish, given.data, request)


def _in_rounds(session: Session, rows: Rows, settings: Settings, request: Request, given: Examples) -> None:
    """Learn all parts in every round, and save a `classifier`."""
    train, chosen = _dealt(session, rows, settings, request, given.name)
    settings, table = _raced(session, rows, train, settings, request)
    source = rounds.Parts(rows.X, rows.y, rows.weight, [train[part] for part in chosen])
    columns, size = rows.X.shape[1] + 1, runs.block_rows(settings)
    algorithm = rounds.Rounds(spreading.spread(session, source), settings, columns, list(rows.names), request.rounds, size)
    made = session.run(algorithm, label="learning", memory="the weights of the parts")
    if request.coverage is not None:
        made = replace(made, coverage=Coverage(level=request.coverage, alpha=1.0 - request.coverage))
    made = settled(runs.with_holdout(replace(made, feature_names=rows.feature_names, race=table), rows))
    _save(session, made, f"{request.rounds} rounds of {request.parts} parts", given.data)


def _dealt(session: Session, rows: Rows, settings: Settings, request: Request, name: str) -> tuple[Array, list[Array]]:
    """The training rows, and which of them each part has."""
    train = np.flatnonzero(runs.training(session, rows, name))
    if request.parts > len(train):
        raise BadUsage(f"--parts {request.parts} of {len(train)} training rows", hint="ask for fewer")
    return train, parts.rows_of(len(train), request.parts, settings.seed, shuffle=settings.shuffle)


def _learned(session: Session, rows: Rows, settings: Settings, request: Request, name: str) -> ClassifierShard:
    train, chosen = _dealt(session, rows, settings, request, name)
    units = shards.units(session, request.parts, "parts")
    settings, table = _raced(session, rows, train, settings, request) if units or session.place.first else (settings, None)
    learners = [_learner(session, rows, train[chosen[unit]], settings, request) for unit in units]
    learning = parts.Parts(learners)
    made = session.run(learning, label="learning", memory="the weights of all parts") if units else []
    return parts.ClassifierShard(
        place=session.place,
        units=request.parts,
        parts=[replace(part, feature_names=rows.feature_names) for part in made],
        rest=_held(rows, table) if session.place.first else None,
    )


def _learner(session: Session, rows: Rows, chosen: Array, settings: Settings, request: Request) -> Learner:
    source = runs.source_of(session, rows, chosen, settings)
    return Learner(settings, source, len(rows.names) or 2, rows.X.shape[1] + 1, rows, coverage=request.covering(None))


def _raced(session: Session, rows: Rows, train: Array, settings: Settings, request: Request) -> tuple[Settings, Race | None]:
    """The algorithm and C of all parts: those that a race over the first examples of all rows chose."""
    if not request.racers:
        return settings, None
    first = Replay(runs.source_of(session, rows, train, settings)).first(EXAMPLES)
    settings, table = race(settings, first, len(rows.names), request.racers, request.forms)
    head, *others = told(settings, table)
    session.console.note(head)
    for line in others:
        session.console.detail(line)
    return settings, table


def _held(rows: Rows, table: Race | None) -> Held:
    """The rows that judge the whole."""
    held = runs.held_out(rows)
    return parts.Held(rows.X[held], rows.y[held].astype(np.int64), rows.split[held].astype(np.uint8), table)


def finish(session: Session, whole: ClassifierShard, history: History, request: Request) -> None:
    """Merge the parts, judge the whole, and save it."""
    held, model = whole.rest, parts.whole(whole.parts, whole.rest)
    if held is not None and len(held.y):
        rows = Rows(held.X, held.y, held.split, list(model.classes), None, model.feature_names)
        model = settled(runs.with_holdout(model, rows))
    _save(session, model, f"{len(whole.parts)} parts", history)


def _save(session: Session, model: Classifier, what: str, history: History) -> None:
    running = model.running
    judged = f", progressive error of the parts {running.wrong / running.seen:.4g}" if running.seen else ""
    outputs.artifact(session, model, f"{what}, {running.examples} examples{judged}", history=history)
