"""The inputs of `herd herd`: data, feature vectors, moments or rates, each as a herding problem and a function that makes the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from herdcli.cli.frame.history.request import settings_from_request
from herdcli.cli.frame.rows.column_order import drop_zero_weights, nonzero_weight_indices, warn_of_unused_weights
from herdcli.errors import DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.herd.request import Request
    from herdcli.herding import dynamics, visible_herding
    from herdcli.herding.categorical_variables import CategoricalVariables
    from herdcli.herding.model import Herding
    from herdcli.herding.parallel_runs import HerdingRuns
    from herdcli.schema import Array

    Problem = dynamics.HiddenHerdingProblem | visible_herding.VisibleHerdingProblem

DEFAULT_THRESHOLD = 0.2


@dataclass(frozen=True)
class HerdingInputs:
    """A herding problem, its algorithm, and the function that assembles an artifact from a part of the problem and its final state."""

    problem: Problem
    algorithm: type[HerdingRuns[Any, Any]]
    finish: Callable[[Any, Any], Herding]
    history: Artifact
    image_shape: Array | None = None  # (2,) if rows are images


def read_inputs(session: Session, request: Request) -> HerdingInputs:
    """Return the inputs that the options ask for."""
    if request.rates:
        return _inputs_to_continue_rates(session, request.rates, request)
    if request.moments:
        return _inputs_from_feature_means(_load_dataset(session, request.input_format, request.label, request.source), request)
    if request.features == "rows":
        return _inputs_from_feature_vectors(_load_dataset(session, request.input_format, request.label, request.source), request)
    return _inputs_from_binary_rows(session, request)


def _load_dataset(session: Session, input_format: str | None, label: str | None, source: str, *, can_stay: bool = False) -> Artifact:
    """Load the data set without rows of weight 0.  can_stay  whether its rows may stay in their file, if they exceed --max-memory."""
    from herdcli.artifacts.dataset import take_rows
    from herdcli.cli.frame.rows import streamed_rows

    read: dict[str, Any] = {"input_format": input_format, "label": label}
    data = None
    if can_stay:
        data = streamed_rows.open_streamed_dataset(session, source, is_requested=False, unit_bytes=1, same=True, **read)
    if data is None:
        data = drop_zero_weights(session, session.load(source, "data", kinds={"dataset"}, **read))
    elif (kept := nonzero_weight_indices(session, data.value.weight)) is not None:
        data = replace(data, value=take_rows(data.value, kept))
    warn_of_unused_weights(session, data.value)
    return data


def _visible_settings(request: Request, units: int) -> visible_herding.VisibleHerdingSettings:
    from herdcli.herding.maximisers import ENUMERABLE
    from herdcli.herding.visible_herding import VisibleHerdingSettings

    features = request.features or "x"
    exact = {"x": "exact", "rows": "rows"}.get(features, "enumerate" if units <= ENUMERABLE else "coordinates")
    return settings_from_request(
        VisibleHerdingSettings, request, burn_in=request.first_kept_iteration, features=features, maximiser=request.maximiser or exact
    )


def _inputs_from_binary_rows(session: Session, request: Request) -> HerdingInputs:
    """Return the inputs for binary rows: one run, or one per class."""
    from herdcli.cli.frame.rows.dataset_rows import RowReading, binary_rows
    from herdcli.cli.frame.rows.streamed_rows import read_converted_rows
    from herdcli.herding import class_runs, dynamics, visible_herding

    data = _load_dataset(
        session, request.input_format, request.label, request.source, can_stay=True
    )  # loaded here so that no caller keeps its rows in memory
    rows = binary_rows(session, data, (0, 1), RowReading.from_request(request, default=DEFAULT_THRESHOLD))
    data = replace(data, value=None)  # frees memory: binary rows replace the data set, and packed rows replace them
    y, names = rows.labels_and_class_names(data.name, "--per-class") if request.per_class else rows.single_class_labels()
    scored = request.per_class
    groups = class_runs.prepare_class_groups(
        read_converted_rows(rows.X).view(bool), y, rows.split, names, per_class=scored, score_training=scored and request.score_training
    )
    labels, nearest = groups.labels, None
    if scored:
        nearest = class_runs.nearest_training_classes(groups, session.place.unit_numbers(len(names)), session.map)
    hidden = not request.is_fully_visible
    problem: Problem
    variables = _text_variables(session, rows.feature_names, labels.units)
    if hidden:
        problem = class_runs.make_hidden_problem(groups, _hidden_settings(session, request, variables), variables)
    else:
        problem = class_runs.make_visible_problem(groups, _visible_settings(request, len(labels.units)), variables)
    _warn_of_pruned_units(session, len(labels.units), labels.all_units)
    seen: dict[str, Any] = {name: getattr(rows, name) for name in ("image_shape", "threshold", "value_range", "feature_names")}
    del groups, rows

    def finish(own: Any, state: Any) -> Herding:
        value = (class_runs.assemble_hidden_herding if hidden else class_runs.assemble_visible_herding)(own, state)
        known: dict[str, Any] = {"units": labels.units, "all_units": labels.all_units, "classes": names if scored else None}
        return replace(
            value, **seen, **known, scores=class_runs.assemble_class_scores(labels, nearest, state) if nearest is not None else None
        )

    algorithm = dynamics.HiddenHerding if hidden else visible_herding.VisibleHerding
    return HerdingInputs(problem, algorithm, finish, data, seen["image_shape"])


def _text_variables(session: Session, names: list[str] | None, units: Array) -> CategoricalVariables | None:
    """Return the units of text columns: of each column's levels, one unit is high in every state; None without text columns.

    units  (D,) indices of the columns that are units.
    """
    from herdcli.artifacts.recoding import one_hot_column_names
    from herdcli.herding.categorical_variables import find_variables

    recoding = session.recoding
    if recoding is None or recoding.codes or not recoding.levels or names is None:
        return None
    return find_variables(names, [one_hot_column_names(name, recoding) for name in recoding.levels], units)


def _hidden_settings(
    session: Session, request: Request, variables: CategoricalVariables | None, **inherited: object
) -> dynamics.HiddenHerdingSettings:
    """Return the settings of herding with hidden units; flipping all spins would leave the states that text columns can have."""
    from herdcli.herding.dynamics import HiddenHerdingSettings

    if variables is not None:
        session.warn_of_ignored_option("flip", "with text columns")
        inherited["flip"] = False
    return settings_from_request(HiddenHerdingSettings, request, burn_in=request.first_kept_iteration, **inherited)


def _warn_of_pruned_units(session: Session, kept_units: int, count: int) -> None:
    if kept_units < count:
        session.console.warn(f"{count - kept_units} of {count} units are constant in all training rows and were left out")


def _inputs_from_feature_vectors(data: Artifact, request: Request) -> HerdingInputs:
    """Return the inputs for rows that are real feature vectors."""
    from herdcli.herding import class_runs, visible_herding

    source = visible_herding.source_from_vectors(_dense_rows(data))
    problem = visible_herding.VisibleHerdingProblem((source,), _visible_settings(request, source.units))
    names = data.value.feature_names
    algorithm = visible_herding.VisibleHerding
    return HerdingInputs(
        problem, algorithm, lambda own, state: replace(class_runs.assemble_visible_herding(own, state), feature_names=names), data
    )


def _inputs_from_feature_means(data: Artifact, request: Request) -> HerdingInputs:
    """Return the inputs for --from-moments: one row of feature means."""
    from herdcli.herding import class_runs, visible_herding
    from herdcli.herding.binary_features import units_from_feature_count

    X = _dense_rows(data)
    if len(X) != 1:
        raise DataError(f"/X has {len(X)} rows, but --from-moments needs one row of means", where=data.name)
    features = request.features or "x"
    units = units_from_feature_count(X.shape[1], features)
    source = visible_herding.source_from_moments(X[0], units, features, request.representation)
    problem = visible_herding.VisibleHerdingProblem((source,), _visible_settings(request, units))
    return HerdingInputs(problem, visible_herding.VisibleHerding, class_runs.assemble_visible_herding, data)


def _inputs_to_continue_rates(session: Session, path: str, request: Request) -> HerdingInputs:
    """Return the inputs for the driving rates of an earlier run, which continues from its last weights."""
    import numpy as np

    from herdcli.herding import class_runs, dynamics
    from herdcli.herding.driving_rates import make_driving_terms

    earlier = session.load(path, "rates", kinds={"herding"})
    learned: Herding = earlier.value
    drives = tuple(make_driving_terms(learned, run) for run in range(learned.count))
    inherited = {"representation": learned.representation, "hidden_bias": learned.hidden_bias, "hidden": drives[0].M.shape[1]}
    for name in inherited:
        if name in session.given and getattr(request, name) != inherited[name]:
            raise DataError(f"was made with --{name.replace('_', '-')} {inherited[name]}, not {getattr(request, name)}", where=earlier.name)
    units = np.arange(learned.b.shape[1]) if learned.units is None else learned.units
    variables = _text_variables(session, learned.feature_names, units)
    problem = dynamics.HiddenHerdingProblem(drives, _hidden_settings(session, request, variables, **inherited), variables=variables)
    kept = {
        name: getattr(learned, name)
        for name in ("units", "all_units", "classes", "image_shape", "threshold", "value_range", "feature_names")
    }
    return HerdingInputs(
        problem, dynamics.HiddenHerding, lambda own, state: replace(class_runs.assemble_hidden_herding(own, state), **kept), earlier
    )


def _dense_rows(data: Artifact) -> Array:
    X = data.value.X
    found: Array = X.toarray() if hasattr(X, "indptr") else X
    return found
