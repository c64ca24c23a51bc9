"""`herd apply` with an RBM or a deep belief network: converts rows to features, states, energies or class probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.tables import column_roles
from herdcli.cli.apply.inputs import RowMap
from herdcli.cli.apply.inputs import load_rows as new_rows
from herdcli.cli.frame.rows.dataset_rows import rows_for_model
from herdcli.cli.frame.run import exact_mode
from herdcli.errors import BadUsage
from herdcli.rbm import feature_transform
from herdcli.rbm.layers import model_layers
from herdcli.rbm.likelihood.row_likelihood import rows_per_block

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.rbm.model import RBM
    from herdcli.schema import Array

    Function = Callable[[Array, int], Array]


def apply_rbm(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return the result for the rows of a data set from an `rbm` or the layers of a `dbn`, and a summary."""
    found = make_row_map(session, fitted, request)
    return found.make(slice(0, found.count)), found.said


def make_row_map(session: Session, fitted: Artifact, request: Request) -> RowMap:
    """Return a map that computes the result of `apply_rbm` for any range of the rows, which may be in a file."""
    exact_mode.refuse_units_when_exact(
        session, *(units for layer in model_layers(fitted.value) for units in (layer.visible_units, layer.hidden_units))
    )
    data = new_rows(session, request.source, request.input_format, request.label, missing=request.want == "completed")
    if model_layers(fitted.value)[0].labels is not None:
        return _label_probability_map(session, fitted, data, request)
    if request.want == "completed":
        return _imputation_map(session, fitted, data, request)
    if request.want == "rows":
        raise BadUsage(
            "--want rows is for ica models: it turns filter outputs back into rows", hint="use --want features, energies or classes"
        )
    layers = model_layers(fitted.value)
    model = layers[0]
    if request.want == "energies" and len(layers) > 1:
        raise BadUsage(
            "a deep belief network (dbn) has no energies, only a bound on its likelihood",
            hint="use --want features or states; for the bound: herd eval MODEL --data FILE",
        )
    want = request.want or ("features" if model.scores is None else "classes")
    if want == "classes" and model.scores is None:
        raise BadUsage("--want classes needs a model with one rbm for each class", hint="fit one: herd fit-rbm --per-class")
    rows = rows_for_model(session, model, data, request, default=0.5, sparse=len(layers) == 1 and want != "states")
    function, width, unit = _make_row_function(session, layers, want, request.seed)
    kept, names = data.value, model.classes if want in ("energies", "classes") else None
    limits = feature_transform.hidden_mean_range(layers[-1]) if want in ("features", "states") else None

    def make(part: slice) -> Dataset:
        X = function(rows.X if part == slice(0, rows.X.shape[0]) else rows.X[part], part.start)
        y = X.argmax(axis=1) if want == "classes" else _slice_if_present(kept.y, part)
        class_names = model.classes if want == "classes" else kept.class_names
        title = column_roles.prediction_column_name(column_roles.model_target_column(fitted) or "y") if want == "classes" else None
        split = _slice_if_present(kept.split, part)
        return Dataset(X, y=y, split=split, feature_names=names, class_names=class_names, value_range=limits, label_name=title)

    what = want if want != "classes" else "class probabilities"
    return RowMap(rows.X.shape[0], unit, make, f"{rows.X.shape[0]} rows × {width} {what}")


def _slice_if_present(values: Array | None, part: slice) -> Array | None:
    return None if values is None else values[part]


def _make_row_function(session: Session, layers: Sequence[RBM], want: str, seed: int) -> tuple[Function, int, int]:
    """Return a function from rows (r, D) and the index of the first of them to values (r, K); also K and the function's rows per block."""
    model, K = layers[0], int(layers[-1].c.size)
    if want == "states" or len(layers) > 1:
        from herdcli.rbm.learning import layerwise_learning

        models = [part.harmonium() for part in layers]
        if model.count > 1:
            raise BadUsage("--want states needs a single model, but the file has one for each class", hint="use --want features")
        if want == "states":
            unit = math.lcm(*(rows_per_block(sum(h.W.shape)) for h in models))
            return lambda rows, first: layerwise_learning.sample_next_layer_rows(models, rows, seed, first), K, unit
        return (
            lambda rows, first: layerwise_learning.top_hidden_means(models, rows, session.map),
            K,
            rows_per_block(sum(sum(h.W.shape) for h in models)),
        )
    unit = rows_per_block(sum(model.W.shape[1:]))
    if want == "features":
        return lambda rows, first: feature_transform.hidden_unit_means(model, rows, session.map), K, unit
    single = model.harmoniums()
    if want == "energies" or model.scores is None:
        return lambda rows, first: feature_transform.free_energies_by_model(single, rows, session.map), len(single), unit
    from herdcli.evaluation.baselines.energy_classification import calibrate_energies
    from herdcli.evaluation.evaluation_settings import EvaluationSettings

    probabilities = calibrate_energies(model.scores, EvaluationSettings(seed=seed)).probabilities
    return lambda rows, first: probabilities(feature_transform.free_energies_by_model(single, rows, session.map)), len(single), unit


def _label_probability_map(session: Session, fitted: Artifact, data: Artifact, request: Request) -> RowMap:
    """Return the map from rows to label probabilities, or to hidden means, for a model of rows with labels."""
    from herdcli.numerics import exact_arithmetic
    from herdcli.rbm import classification_rbm

    want, model = request.want or "classes", fitted.value
    if want not in ("classes", "features"):
        raise BadUsage(f"--want {want} is not available for a model that was learned with --labels", hint="use --want classes or features")
    rows, h = rows_for_model(session, model, data, request, default=0.5, labels=False), model.harmonium()
    kept = data.value

    def features(part: slice) -> Dataset:
        X = classification_rbm.label_marginalised_features(h, rows.X[part], map=session.map) / h.hidden.scale
        y, limits = _slice_if_present(kept.y, part), feature_transform.hidden_mean_range(model)
        return Dataset(X, y=y, split=_slice_if_present(kept.split, part), class_names=kept.class_names, value_range=limits)

    def classes(part: slice) -> Dataset:
        X = exact_arithmetic.exp(classification_rbm.label_log_posterior(h, rows.X[part], map=session.map))
        names, title = model.labels, column_roles.prediction_column_name(column_roles.model_target_column(fitted) or "y")
        return Dataset(
            X, y=X.argmax(axis=1), split=_slice_if_present(kept.split, part), feature_names=names, class_names=names, label_name=title
        )

    count, unit = rows.X.shape[0], rows_per_block(h.W.shape[1] * classification_rbm.label_count(h))
    if want == "features":
        return RowMap(count, unit, features, f"{count} rows × {h.W.shape[1]} features")
    return RowMap(count, unit, classes, f"{count} rows × {len(model.labels)} class probabilities")


def _imputation_map(session: Session, fitted: Artifact, data: Artifact, request: Request) -> RowMap:
    """Return the map that replaces missing entries by their expectations given the others; its summary counts these entries."""
    import numpy as np

    from herdcli.artifacts.rows.lazy_matrix import LazyMatrix
    from herdcli.cli.frame.rows.dataset_rows import file_rows_and_known_mask, rows_and_known_mask
    from herdcli.numerics.row_selection import iterate_row_slices
    from herdcli.rbm.sampling.imputation import PART, impute_rows
    from herdcli.rbm.units import unit_family

    layers = model_layers(fitted.value)
    model, units = layers[0], unit_family(layers[0].visible_units)
    if len(layers) > 1 or model.count > 1:
        what = "a dbn" if len(layers) > 1 else f"{model.count} models, one for each class"
        raise BadUsage(
            f"--want completed needs a single rbm; this is {what}", hint="fit one: herd fit-rbm without --per-class and --layers"
        )
    read = file_rows_and_known_mask if isinstance(data.value.X, LazyMatrix) else rows_and_known_mask
    rows, known = read(session, model, data, request)
    limits = None if units.range is None or model.column_mean is not None else np.array(units.range) / units.scale
    kept, h = data.value, model.harmonium()
    y = None if kept.y is None or ((kept.y < 0).any() and kept.class_names) else kept.y  # named labels are dropped if some are missing

    def make(part: slice) -> Dataset:
        X = model.to_original(impute_rows(h, rows.X[part], known[part], seed=request.seed, first_row=part.start, map=session.map))
        return Dataset(
            X,
            y=_slice_if_present(y, part),
            split=_slice_if_present(kept.split, part),
            feature_names=model.feature_names,
            class_names=None if y is None else kept.class_names,
            value_range=limits,
            image_shape=model.image_shape,
        )

    gaps = sum(int(np.count_nonzero(~known[block])) for block in iterate_row_slices(known))
    return RowMap(len(known), PART, make, f"{len(known)} rows × {model.columns} columns, {gaps} entries filled in")
