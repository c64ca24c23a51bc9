"""`herd fit-rbm`: one model, or one for each class and fold, of which a shard learns its own; the learning is in herdcli.rbm.learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.fit_rbm.remarks import warn_of_edge, warn_of_rows, warn_of_worse
from herdcli.cli.frame import outputs, shards

if TYPE_CHECKING:
    from herdcli.cli.fit_rbm.request import Request
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.rbm.classes import Groups, Learned, RBMShard
    from herdcli.rbm.learning import Problem, Settings


def fit_models(session: Session, request: Request, settings: Settings) -> None:
    """Learn and save an `rbm`, or a shard of one."""
    from herdcli.cli.frame.rows import OF_MODELS, Reading, in_units
    from herdcli.rbm import classes
    from herdcli.rbm.learning import Learning, Problem
    from herdcli.rbm.units import family

    outputs.check(session, "rbm")
    data = session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label)
    reading = replace(Reading.asked(request, default=OF_MODELS), in_place=True, sparse=True)
    rows = in_units(session, data, family(settings.visible_units), reading)
    data = replace(data, value=None)  # the rows take its place in memory
    y, names = rows.labelled(data.name, "--per-class") if request.per_class else rows.unlabelled()
    settings = request.fitted(settings, classes.largest(y, rows.split))
    session.request = replace(request, learning_rate=settings.learning_rate, centering=settings.centering)
    groups = classes.group(rows.X, y, rows.split, names, folds=request.folds or 0, seed=settings.seed)
    problem = Problem(groups.training_rows(), settings, groups.X[groups.held] if settings.average_scores else None)
    count = len(problem.rows)
    units = shards.units(session, count, "models")
    own = problem if len(units) == count else problem.part(units) if units else None
    if own is not None:
        session.require_memory(Learning(own).memory(), f"learning {len(units)} × {groups.X.shape[1]} × {settings.hidden} weights")
    warn_of_rows(session, problem)
    made = classes.RBMShard(
        place=session.place,
        units=count,
        parts=[] if own is None else _learned(session, groups, own, units, scored=request.per_class),
        rest=classes.frame(groups, settings, scored=request.per_class, **rows.as_seen()) if session.place.first else None,
    )
    shards.close(session, made, "models", finish, data, request)


def _learned(session: Session, groups: Groups, problem: Problem, units: Sequence[int], *, scored: bool) -> list[Learned]:
    """The models of a problem, which have these numbers."""
    from herdcli.rbm import classes
    from herdcli.rbm.learning import Learning

    state = session.run(Learning(problem, session.map), label="learning")
    return classes.learned(groups, state, problem.settings, units, scored=scored, map=session.map)


def finish(session: Session, whole: RBMShard, history: History, request: Request) -> None:
    """Save the models of all units as one artifact."""
    from herdcli.rbm import classes

    assert whole.rest is not None
    model, settings = classes.assemble(whole.parts, whole.rest), whole.rest.settings
    warn_of_edge(session, model)
    models = f"{model.count} models × " if model.count > 1 else ""
    warn_of_worse(session, model)
    outputs.artifact(session, model, f"{models}{settings.hidden} hidden, {settings.epochs} epochs", history=history)
