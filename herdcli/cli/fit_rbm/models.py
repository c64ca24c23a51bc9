"""`herd fit-rbm`: one model, or one for each class and fold, of which a shard learns its own; the learning is in herdcli.rbm.learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from herdcli.artifacts.preparation import split_rule
from herdcli.cli.fit_rbm import in_rounds, sizes, torn
from herdcli.cli.fit_rbm.labelled import beside_labels, joined
from herdcli.cli.fit_rbm.remarks import note_best, note_left, warn_of_edge, warn_of_rows
from herdcli.cli.frame import exact, outputs, shards
from herdcli.cli.frame.columns import warn_of_weights, without_absent
from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.fit_rbm.request import Request
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.rows import Prepared
    from herdcli.cli.frame.session import Session
    from herdcli.numerics.rows import Selected
    from herdcli.numerics.streamed import Streamed
    from herdcli.rbm.classes import Learned, RBMShard
    from herdcli.rbm.groups import Groups
    from herdcli.rbm.learning import Problem, Settings
    from herdcli.rbm.minibatch import Away
    from herdcli.rbm.model import RBM
    from herdcli.rbm.state import State
    from herdcli.schema import Array


REAL_UNIT = 20  # bytes of an entry besides the stored ones that reading and learning real values in memory take


@dataclass(frozen=True)
class Inputs:
    """Rows with the class (n,) of each among `names`, the settings to learn them with, and the models that are gone on with."""

    rows: Prepared
    y: Array
    names: list[str]
    settings: Settings
    scored: bool  # whether there is one model for each class
    history: Artifact
    earlier: RBM | None = None
    labels: list[str] | None = None  # of rows whose labels are their last visible unit
    known: Array | None = None  # which entries of the rows are, (n, D) bool; None: all


def fit_models(session: Session, request: Request) -> None:
    """Learn and save an `rbm`, or a shard of one."""
    from herdcli.rbm import classes
    from herdcli.rbm.groups import group
    from herdcli.rbm.learning import Learning, Problem
    from herdcli.rbm.validation import MOST

    outputs.check(session, "rbm")
    if request.draw_missing:
        torn.refuse(session, request)
    if request.hidden == "auto":
        sizes.refuse(session)
    given = _continued(session, request) if request.model else _afresh(session, request)
    rows, settings = given.rows, given.settings
    exact.refuse_units(session, settings.visible_units, settings.hidden_units)
    groups = group(rows.X, given.y, rows.split, given.names, folds=request.folds or 0, seed=settings.seed)
    problem = Problem(
        groups.training_rows(),
        settings,
        groups.X[groups.held] if settings.average_scores else None,
        valid=_held(groups, settings, needed=request.hidden == "auto"),
        told=groups.told_rows(MOST) if settings.every and given.scored else None,
        begun=None if given.earlier is None else classes.begun(given.earlier),
        known=torn.of_models(groups, given.known),
    )
    count = len(problem.rows)
    away = in_rounds.away(session, problem) if count == 1 and not request.per_class else None
    units = range(1) if away is not None else shards.units(session, count, "models")
    own = problem if len(units) == count else problem.part(units) if units else None
    if own is not None:
        session.require_memory(Learning(own).memory(), f"learning {len(units)} × {rows.X.shape[1]} × {settings.hidden} weights")
    warn_of_rows(session, problem)
    parts: list[Learned] = []
    learned: dict[str, object] = rows.as_seen()
    if own is not None:
        parts, more = _learned(session, request, groups, own, units, given, away)
        learned |= more
    seen = beside_labels(learned, given.labels)
    made = classes.RBMShard(
        place=session.place,
        units=count,
        parts=parts,
        rest=classes.frame(
            groups, settings, scored=given.scored, parts=request.split, label=request.label, by_class=split_rule().by_class, **seen
        )
        if session.place.first
        else None,
    )
    shards.close(session, made, "models", finish, given.history, request)


def _held(groups: Groups, settings: Settings, *, needed: bool) -> Sequence[Selected | Streamed] | None:
    """The validation rows of each model where they are looked at; where the tracked likelihood alone would show them, if there are any."""
    if settings.every or needed:
        return groups.validation_rows()
    try:
        return groups.validation_rows() if settings.track_likelihood else None
    except DataError:
        return None


def _afresh(session: Session, request: Request) -> Inputs:
    """The inputs of models that begin at random weights."""
    from herdcli.cli.frame.rows import OF_MODELS, Reading, in_units
    from herdcli.cli.frame.streamed import way_out
    from herdcli.rbm.groups import largest
    from herdcli.rbm.units import family

    settings = request.settings()
    data, known = torn.read(session, request) if request.draw_missing else (_data(session, request, settings), None)
    data = without_absent(session, data) if known is None else data
    warn_of_weights(session, data.value)
    _require_levels(session, settings.visible_units, data.name)
    reading = replace(Reading.asked(request, default=OF_MODELS), in_place=True, sparse=not request.labels)
    on_disk = "--on-disk --split 1,0,0 reads rows in shuffled blocks and keeps none with the model"
    with way_out(on_disk, lambda: request.source != "-" and not request.unstreamed(), request.source):
        rows = in_units(session, data, family(settings.visible_units), reading)
    request = request.sized(rows.X.shape[1], settings.visible_units)
    settings = replace(settings, algorithm=request.algorithm)
    data = replace(data, value=None)  # the rows take its place in memory
    if known is not None:
        rows, known = torn.whole_where_held(session, rows, known)
    y, names = rows.labelled(data.name, "--per-class") if request.per_class else rows.unlabelled()
    if request.per_class and len(names) == 1:
        raise DataError(f"has one label, {names[0]}: there is nothing to tell apart", where=data.name)
    if request.labels:
        rows, labels, settings = joined(request, rows, data.name, settings)
        settings = request.fitted(settings, largest(y, rows.split), partial(moment, rows, settings))
        session.request = replace(request, **settings.of_data())
        return Inputs(rows, y, names, settings, False, data, labels=labels, known=torn.beside_labels(known, len(labels)))
    settings = request.fitted(settings, largest(y, rows.split), partial(moment, rows, settings))
    session.request = replace(_as_read(request, rows), **settings.of_data())
    return Inputs(rows, y, names, settings, request.per_class, data, known=known)


def _require_levels(session: Session, units: str, where: str) -> None:
    """Raise DataError where a column of text has another number of levels than softmax units have states."""
    kind, _, states = units.partition(":")
    recoding = session.recoding
    if kind != "softmax" or recoding is None or recoding.codes:
        return
    for name, levels in recoding.levels.items():
        if len(levels) != int(states):
            raise DataError(
                f"column '{name}' has {len(levels)} levels, {units} units have {states} states each",
                where=where,
                hint="--columns chooses columns with one number of levels; herd fit-mrf learns columns with any",
            )


def moment(rows: Prepared, settings: Settings) -> float:
    """What bounds the rate of the training rows: their largest moment, of counts of words what their numbers come to."""
    import numpy as np

    from herdcli.numerics.rows import Selected, is_sparse
    from herdcli.numerics.streamed import Streamed
    from herdcli.rbm.curvature import largest_moment, shift, squared_length
    from herdcli.rbm.units import family
    from herdcli.splits import TRAIN

    if family(settings.visible_units).multinomial:
        return (shift if settings.by_length else squared_length)(rows.X[np.flatnonzero(rows.split == TRAIN)])
    if isinstance(rows.X, np.ndarray) or is_sparse(rows.X):
        return largest_moment(Selected(rows.X, np.flatnonzero(rows.split == TRAIN)))
    return largest_moment(Streamed(rows.X, rows.split, TRAIN))


def _data(session: Session, request: Request, settings: Settings) -> Artifact:
    """The data set: its rows left where they are, if that is asked for or if they are too many for memory, or read."""
    from herdcli.cli.frame import streamed
    from herdcli.rbm.units import family

    if not request.unstreamed():
        unit_bytes = 1 if family(settings.visible_units).two_state else REAL_UNIT
        found = streamed.opened(
            session,
            request.source,
            label=request.label,
            input_format=request.input_format,
            asked=bool(request.on_disk),
            unit_bytes=unit_bytes,
        )
        if found is not None:
            return found
    return session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label)


def _as_read(request: Request, rows: Prepared) -> Request:
    """The request, for the record: rows that are read in blocks are shuffled in blocks."""
    import numpy as np

    return request if isinstance(rows.X, np.ndarray) or hasattr(rows.X, "indptr") else replace(request, on_disk=True)


def _continued(session: Session, request: Request) -> Inputs:
    """The inputs of models that learning goes on from, whose rows are read as theirs were."""
    from herdcli.cli.frame.rows import classes_of, rows_of

    earlier: RBM = session.load(str(request.model), "model", kinds={"rbm"}).value
    settings = request.continued(session, earlier)
    request = replace(request, seed=settings.seed)
    data = _data(session, request, settings)
    warn_of_weights(session, data.value)
    rows = rows_of(session, earlier, data, request, sparse=True, in_place=True)
    data = replace(data, value=None)
    y = classes_of(earlier, rows, data.name)
    if earlier.kept is None:
        session.console.note(f"{request.model} has no saved state: momentum, chains and rates start afresh (--keep-state keeps them)")
    session.request = replace(_as_read(request, rows).learned_by(settings), epochs=request.epochs)
    names = earlier.classes or rows.unlabelled()[1]
    return Inputs(rows, rows.unlabelled()[0] if y is None else y, names, settings, y is not None, data, earlier, earlier.labels)


def _learned(
    session: Session, request: Request, groups: Groups, problem: Problem, units: Sequence[int], given: Inputs, away: Away | None
) -> tuple[list[Learned], dict[str, object]]:
    """The models of a problem, which have these numbers, and what else was learned: the numbers of hidden units that were tried, and what
    columns were freed of."""
    from herdcli.rbm import classes
    from herdcli.rbm.learning import Learning

    more: dict[str, object] = {}
    if request.hidden == "auto":
        found = sizes.chosen(session, problem, len(groups.names))
        state, more["sizes"] = found.state, found.sizes
    else:
        going_on = partial(_shorter, session, request, given), partial(_gone_on, session, problem)
        longer = None if problem.settings.average_scores else going_on
        label = f"learning by {problem.settings.algorithm}" if session.dry_run else "learning"
        state = session.run(Learning(problem, session.map, away), label=label, longer=longer)
    if state.log_scale is not None:
        more |= classes.rescaled(groups, state, given.rows.column_mean, given.rows.column_scale, len(given.labels or ()))
    made = classes.learned(groups, state, problem.settings, units, scored=given.scored, keep=bool(request.keep_state), map=session.map)
    if problem.known is not None:
        made = [replace(one, training_energy=None) for one in made]  # what is there of a row has another free energy than the row
    return made, more


def _shorter(session: Session, request: Request, given: Inputs, state: State) -> Request:
    """The request of the run of fewer epochs that a state is of: with its epochs, and with the rate that was chosen for them."""
    from herdcli.rbm.groups import largest

    fewer = given.settings.epochs - len(state.trace)
    asked: Request = session.request  # type: ignore[assignment]
    if fewer <= 0:
        return asked
    if not request.model:
        fewer_epochs = replace(given.settings, epochs=len(state.trace))
        chosen = request.fitted(fewer_epochs, largest(given.y, given.rows.split), partial(moment, given.rows, given.settings))
        asked = replace(asked, learning_rate=chosen.learning_rate)
    return replace(asked, epochs=request.epochs - fewer)


def _gone_on(session: Session, problem: Problem, state: State) -> State:
    """The state in the run of more epochs, of which the user is told."""
    from herdcli.rbm.longer import grown

    settings = problem.settings
    falls = "" if settings.rate_decay == "none" else ": the rate falls over all of them"
    session.console.note(f"the checkpoint is of a run of {len(state.trace)} epochs, which goes on to {settings.epochs}{falls}")
    return grown(state, settings)


def finish(session: Session, whole: RBMShard, history: History, request: Request) -> None:
    """Save the models of all units as one artifact."""
    from herdcli.rbm import classes

    assert whole.rest is not None
    model, settings = classes.assemble(whole.parts, whole.rest), whole.rest.settings
    note_best(session, model)
    note_left(session, model)
    warn_of_edge(session, model)
    models = f"{model.count} models × " if model.count > 1 else ""
    outputs.artifact(
        session,
        model,
        f"{models}{model.W.shape[2]} hidden, {'at most ' if settings.patience else ''}{settings.epochs} epochs",
        history=history,
    )
