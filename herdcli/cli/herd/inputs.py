"""What `herd herd` reads: data, real rows, moments or rates, each as a problem and the way its result is finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from herdcli.cli.frame.session import Session
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.herding.model import Herding

DEFAULT_THRESHOLD = 0.2


@dataclass(frozen=True)
class Inputs:
    """A problem, the module that steps it, and what makes the artifact of it, or of a part of it, and its last state."""

    problem: Any
    module: ModuleType
    finish: Callable[[Any, Any], Herding]
    history: Artifact


def read(session: Session, source: str, options: dict[str, Any]) -> Inputs:
    """The inputs that the options ask for."""
    if options["rates"]:
        return _rates(session, options)
    data = session.load(source, "data", kinds={"dataset"}, input_format=options["input_format"], label=options["label"])
    if options["moments"]:
        return _moments(data, options)
    if options["features"] == "rows":
        return _vectors(data, options)
    return _rows(session, data, options)


def _settings(kind: type[Any], options: dict[str, Any], **more: Any) -> Any:
    """The settings of a model from the options of the same names."""
    chosen = {name.name: options[name.name] for name in fields(kind) if options.get(name.name) is not None}
    return kind(**chosen | more)


def _visible_settings(options: dict[str, Any], units: int) -> Any:
    from herdcli.herding.ascent import ENUMERABLE
    from herdcli.herding.visible import Settings

    features = options["features"] or "x"
    exact = {"x": "exact", "rows": "rows"}.get(features, "enumerate" if units <= ENUMERABLE else "coordinates")
    return _settings(Settings, options, features=features, maximiser=options["maximiser"] or exact)


def _rows(session: Session, data: Artifact, options: dict[str, Any]) -> Inputs:
    """Two-state rows: one run, or one per class."""
    from herdcli.cli.frame.rows import two_state
    from herdcli.herding import classes, dynamics, visible

    rows = two_state(session, data, (0, 1), options, default=DEFAULT_THRESHOLD)
    data = replace(data, value=None)  # two-state rows take its place in memory, and packed ones theirs
    y, names = rows.labelled(data.name, "--per-class") if options["per_class"] else rows.unlabelled()
    scored = options["per_class"]
    groups = classes.group(rows.X > 0, y, rows.split, names, per_class=scored, score_training=scored and options["score_training"])
    labels, nearest = groups.labels, None
    if scored:
        nearest = classes.nearest_classes(groups, session.map) if session.place.first else classes.unknown_classes(groups)
    hidden = options["model"] == "rbm"
    problem: Any
    if hidden:
        problem = classes.hidden_problem(groups, _settings(dynamics.Settings, options))
    else:
        problem = classes.visible_problem(groups, _visible_settings(options, len(labels.units)))
    _warn_of_pruned(session, len(labels.units), labels.all_units)
    seen: dict[str, Any] = {name: getattr(rows, name) for name in ("image_shape", "threshold", "value_range", "feature_names")}
    del groups, rows

    def finish(own: Any, state: Any) -> Herding:
        value = (classes.assemble_hidden if hidden else classes.assemble_visible)(own, state)
        known: dict[str, Any] = {"units": labels.units, "all_units": labels.all_units, "classes": names if scored else None}
        return replace(value, **seen, **known, scores=classes.scores(labels, nearest, state) if nearest is not None else None)

    return Inputs(problem, dynamics if hidden else visible, finish, data)


def _warn_of_pruned(session: Session, kept: int, count: int) -> None:
    if kept < count:
        session.console.warn(f"{count - kept} of {count} units are the same in all training rows and were pruned")


def _vectors(data: Artifact, options: dict[str, Any]) -> Inputs:
    """Rows that are real feature vectors themselves."""
    from herdcli.herding import classes, visible

    source = visible.from_vectors(_dense(data))
    problem = visible.Problem((source,), _visible_settings(options, source.units))
    names = data.value.feature_names
    return Inputs(problem, visible, lambda own, state: replace(classes.assemble_visible(own, state), feature_names=names), data)


def _moments(data: Artifact, options: dict[str, Any]) -> Inputs:
    """One row of feature means."""
    from herdcli.herding import classes, visible
    from herdcli.herding.features import unit_count

    X = _dense(data)
    if len(X) != 1:
        raise DataError(f"/X has {len(X)} rows; --moments takes one row of means", where=data.name)
    features = options["features"] or "x"
    units = unit_count(X.shape[1], features)
    source = visible.from_moments(X[0], units, features, options["representation"])
    problem = visible.Problem((source,), _visible_settings(options, units))
    return Inputs(problem, visible, classes.assemble_visible, data)


def _rates(session: Session, options: dict[str, Any]) -> Inputs:
    """The rates of an earlier run, which goes on from its last weights."""
    from herdcli.herding import classes, dynamics
    from herdcli.herding.rates import decouple

    earlier = session.load(options["rates"], "rates", kinds={"herding"})
    learned: Herding = earlier.value
    drives = tuple(decouple(learned, run) for run in range(learned.count))
    inherited = {"representation": learned.representation, "hidden_bias": learned.hidden_bias, "hidden": drives[0].M.shape[1]}
    for name in inherited:
        if name in session.given and options[name] != inherited[name]:
            raise DataError(f"was made with --{name.replace('_', '-')} {inherited[name]}, not {options[name]}", where=earlier.name)
    problem = dynamics.Problem(drives, _settings(dynamics.Settings, options, **inherited))
    kept = {
        name: getattr(learned, name)
        for name in ("units", "all_units", "classes", "image_shape", "threshold", "value_range", "feature_names")
    }
    return Inputs(problem, dynamics, lambda own, state: replace(classes.assemble_hidden(own, state), **kept), earlier)


def _dense(data: Artifact) -> Any:
    X = data.value.X
    return X.toarray() if hasattr(X, "indptr") else X
