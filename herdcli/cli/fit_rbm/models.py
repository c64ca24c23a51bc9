"""`herd fit-rbm`: one model, or one for each class and fold, of which a shard learns its own; the learning is in herdcli.rbm.learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.cli.fit_rbm.options import fitted_to, warn_of_edge, warn_of_rows, warn_of_worse
from herdcli.cli.frame import shards
from herdcli.cli.frame.session import Session
from herdcli.splits import TRAIN

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.rbm.classes import Groups, Learned, RBMShard
    from herdcli.rbm.learning import Problem, Settings


def fit_models(session: Session, source: str, options: dict[str, Any], settings: Settings, *, default: float) -> None:
    """Learn and save an `rbm`, or a shard of one.  default  the threshold of two-state units."""
    from herdcli.cli.frame.rows import Reading, in_units
    from herdcli.rbm import classes, learning
    from herdcli.rbm.units import family

    session.check_output("rbm")
    data = session.load(source, "data", kinds={"dataset"}, input_format=options["input_format"], label=options["label"])
    rows = in_units(session, data, family(settings.visible_units), Reading.asked(options, default=default))
    data = replace(data, value=None)  # the rows take its place in memory
    y, names = rows.labelled(data.name, "--per-class") if options["per_class"] else rows.unlabelled()
    most = int(np.bincount(y[rows.split == TRAIN], minlength=1).max())
    settings = fitted_to(session, settings, max(1, most))
    groups = classes.group(rows.X, y, rows.split, names, folds=options["folds"] or 0, seed=settings.seed)
    problem = learning.Problem(groups.training_rows(), settings, groups.X[groups.held] if settings.average_scores else None)
    count = len(problem.rows)
    units = shards.units(session, count, "models")
    own = problem if len(units) == count else problem.part(units) if units else None
    if own is not None:
        session.require_memory(learning.memory(own), f"learning {len(units)} × {groups.X.shape[1]} × {settings.hidden} weights")
    warn_of_rows(session, problem)
    made = classes.RBMShard(
        place=session.place,
        units=count,
        parts=[] if own is None else _learned(session, groups, own, units, scored=options["per_class"]),
        rest=classes.frame(groups, settings, scored=options["per_class"], map=session.map, **rows.as_seen())
        if session.place.first
        else None,
    )
    shards.close(session, made, "models", finish, data, options)


def _learned(session: Session, groups: Groups, problem: Problem, units: Sequence[int], *, scored: bool) -> list[Learned]:
    """The models of a problem, which have these numbers."""
    from herdcli.rbm import classes, learning

    state = session.iterate(
        lambda now: learning.step(problem, now, map=session.map),
        lambda: learning.init(problem),
        steps=learning.total_steps(problem),
        label="learning",
    )
    return classes.learned(groups, state, problem.settings, units, scored=scored, map=session.map)


def finish(session: Session, whole: RBMShard, history: Artifact, options: Mapping[str, Any]) -> None:
    """Save the models of all units as one artifact."""
    from herdcli.rbm import classes

    assert whole.rest is not None
    model, settings = classes.assemble(whole.parts, whole.rest), whole.rest.settings
    warn_of_edge(session, model)
    models = f"{model.count} models × " if model.count > 1 else ""
    warn_of_worse(session, model)
    session.save(model, f"{models}{settings.hidden} hidden, {settings.epochs} epochs", history=history)
