"""What `herd herd` reads: data, real rows, moments or rates, each as a problem and the way its result is finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from herdcli.cli.frame.columns import warn_of_weights, without_absent
from herdcli.cli.frame.request import settings
from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.session import Session
    from herdcli.cli.herd.request import Request
    from herdcli.herding import dynamics, visible
    from herdcli.herding.blocks import Blocks
    from herdcli.herding.model import Herding
    from herdcli.schema import Array

    Problem = dynamics.Problem | visible.Problem

DEFAULT_THRESHOLD = 0.2


@dataclass(frozen=True)
class Inputs:
    """A problem, the algorithm that herds it or a part of it, and what makes the artifact of such a part and its last state."""

    problem: Problem
    algorithm: type[Blocks[Any, Any]]
    finish: Callable[[Any, Any], Herding]
    history: Artifact


def read(session: Session, request: Request) -> Inputs:
    """The inputs that the options ask for."""
    if request.rates:
        return _rates(session, request.rates, request)
    data = session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label)
    data = without_absent(session, data)
    warn_of_weights(session, data.value)
    if request.moments:
        return _moments(data, request)
    if request.features == "rows":
        return _vectors(data, request)
    return _rows(session, data, request)


def _visible_settings(request: Request, units: int) -> visible.Settings:
    from herdcli.herding.ascent import ENUMERABLE
    from herdcli.herding.visible import Settings

    features = request.features or "x"
    exact = {"x": "exact", "rows": "rows"}.get(features, "enumerate" if units <= ENUMERABLE else "coordinates")
    return settings(Settings, request, burn_in=request.kept_from, features=features, maximiser=request.maximiser or exact)


def _rows(session: Session, data: Artifact, request: Request) -> Inputs:
    """Two-state rows: one run, or one per class."""
    from herdcli.cli.frame.rows import Reading, two_state
    from herdcli.herding import classes, dynamics, visible

    rows = two_state(session, data, (0, 1), Reading.asked(request, default=DEFAULT_THRESHOLD))
    data = replace(data, value=None)  # two-state rows take its place in memory, and packed ones theirs
    y, names = rows.labelled(data.name, "--per-class") if request.per_class else rows.unlabelled()
    scored = request.per_class
    groups = classes.group(rows.X > 0, y, rows.split, names, per_class=scored, score_training=scored and request.score_training)
    labels, nearest = groups.labels, None
    if scored:
        nearest = classes.nearest_classes(groups, session.place.of(len(names)), session.map)
    hidden = not request.visible
    problem: Problem
    if hidden:
        problem = classes.hidden_problem(groups, settings(dynamics.Settings, request, burn_in=request.kept_from))
    else:
        problem = classes.visible_problem(groups, _visible_settings(request, len(labels.units)))
    _warn_of_pruned(session, len(labels.units), labels.all_units)
    seen: dict[str, Any] = {name: getattr(rows, name) for name in ("image_shape", "threshold", "value_range", "feature_names")}
    del groups, rows

    def finish(own: Any, state: Any) -> Herding:
        value = (classes.assemble_hidden if hidden else classes.assemble_visible)(own, state)
        known: dict[str, Any] = {"units": labels.units, "all_units": labels.all_units, "classes": names if scored else None}
        return replace(value, **seen, **known, scores=classes.scores(labels, nearest, state) if nearest is not None else None)

    return Inputs(problem, dynamics.HiddenHerding if hidden else visible.VisibleHerding, finish, data)


def _warn_of_pruned(session: Session, kept: int, count: int) -> None:
    if kept < count:
        session.console.warn(f"{count - kept} of {count} units are the same in all training rows and were pruned")


def _vectors(data: Artifact, request: Request) -> Inputs:
    """Rows that are real feature vectors themselves."""
    from herdcli.herding import classes, visible

    source = visible.from_vectors(_dense(data))
    problem = visible.Problem((source,), _visible_settings(request, source.units))
    names = data.value.feature_names
    algorithm = visible.VisibleHerding
    return Inputs(problem, algorithm, lambda own, state: replace(classes.assemble_visible(own, state), feature_names=names), data)


def _moments(data: Artifact, request: Request) -> Inputs:
    """One row of feature means."""
    from herdcli.herding import classes, visible
    from herdcli.herding.features import unit_count

    X = _dense(data)
    if len(X) != 1:
        raise DataError(f"/X has {len(X)} rows; --moments takes one row of means", where=data.name)
    features = request.features or "x"
    units = unit_count(X.shape[1], features)
    source = visible.from_moments(X[0], units, features, request.representation)
    problem = visible.Problem((source,), _visible_settings(request, units))
    return Inputs(problem, visible.VisibleHerding, classes.assemble_visible, data)


def _rates(session: Session, path: str, request: Request) -> Inputs:
    """The rates of an earlier run, which goes on from its last weights."""
    from herdcli.herding import classes, dynamics
    from herdcli.herding.rates import decouple

    earlier = session.load(path, "rates", kinds={"herding"})
    learned: Herding = earlier.value
    drives = tuple(decouple(learned, run) for run in range(learned.count))
    inherited = {"representation": learned.representation, "hidden_bias": learned.hidden_bias, "hidden": drives[0].M.shape[1]}
    for name in inherited:
        if name in session.given and getattr(request, name) != inherited[name]:
            raise DataError(f"was made with --{name.replace('_', '-')} {inherited[name]}, not {getattr(request, name)}", where=earlier.name)
    problem = dynamics.Problem(drives, settings(dynamics.Settings, request, burn_in=request.kept_from, **inherited))
    kept = {
        name: getattr(learned, name)
        for name in ("units", "all_units", "classes", "image_shape", "threshold", "value_range", "feature_names")
    }
    return Inputs(problem, dynamics.HiddenHerding, lambda own, state: replace(classes.assemble_hidden(own, state), **kept), earlier)


def _dense(data: Artifact) -> Array:
    X = data.value.X
    found: Array = X.toarray() if hasattr(X, "indptr") else X
    return found
