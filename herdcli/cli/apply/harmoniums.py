"""`herd apply` with an RBM or a deep belief network: rows to features, states, energies or class probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.artifacts.dataset import Dataset
from herdcli.cli.apply.inputs import rows as new_rows
from herdcli.cli.frame import exact
from herdcli.cli.frame.rows import rows_of
from herdcli.errors import BadUsage
from herdcli.rbm import transform
from herdcli.rbm.layers import layers_of

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.session import Session


def applied(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """The rows of a data set as an `rbm`, or the layers of a `dbn`, see them, and what was made of them in words."""
    exact.refuse_units(session, *(units for layer in layers_of(fitted.value) for units in (layer.visible_units, layer.hidden_units)))
    data = new_rows(session, request, missing=request.want == "completed")
    if fitted.kind == "rbm" and fitted.value.labels is not None:
        return _by_labels(session, fitted, data, request)
    if request.want == "completed":
        return _completed(session, fitted, data, request)
    if request.want == "rows":
        raise BadUsage("--want rows is for ica models: it turns filter outputs back into rows", hint="--want features, energies or classes")
    layers = layers_of(fitted.value)
    model = layers[0]
    if request.want == "energies" and len(layers) > 1:
        raise BadUsage("a dbn has no energies, only a bound on its likelihood", hint="--want features or states; herd eval --data FILE")
    want = request.want or ("features" if model.scores is None else "classes")
    if want == "classes" and model.scores is None:
        raise BadUsage("--want classes needs a model of classes", hint="fit-rbm --per-class makes one")
    rows = rows_of(session, model, data, request, default=0.5, sparse=len(layers) == 1 and want != "states")
    names, y = None, data.value.y
    if want == "states" or len(layers) > 1:
        from herdcli.rbm import stack

        models = [part.harmonium() for part in layers]
        if model.count > 1:
            raise BadUsage("--want states needs a single model; this one has several", hint="--want features")
        X = stack.shown_states(models, rows.X, request.seed) if want == "states" else stack.features(models, rows.X, session.map)
    elif want == "features":
        X, names = transform.features(model, rows.X, session.map), None
    else:
        X, names = transform.energies(model.harmoniums(), rows.X, session.map), model.classes
    if want == "classes" and model.scores is not None:
        from herdcli.evaluation.classes import class_probabilities
        from herdcli.evaluation.settings import EvaluationSettings

        X = class_probabilities(model.scores, X, EvaluationSettings(seed=request.seed))
        y = X.argmax(axis=1)
    limits = transform.feature_range(layers[-1]) if want in ("features", "states") else None
    class_names = model.classes if want == "classes" else data.value.class_names
    result = Dataset(X, y=y, split=data.value.split, feature_names=names, class_names=class_names, value_range=limits)
    return result, f"{X.shape[0]} rows × {X.shape[1]} {want if want != 'classes' else 'class probabilities'}"


def _by_labels(session: Session, fitted: Artifact, data: Artifact, request: Request) -> tuple[Dataset, str]:
    """Probabilities of labels, or hidden means, of rows through a model of rows with labels."""
    from herdcli.numerics import real
    from herdcli.rbm import labels

    want, model = request.want or "classes", fitted.value
    if want not in ("classes", "features"):
        raise BadUsage(f"--want {want} has no meaning with a model of rows with labels", hint="--want classes or features")
    rows, h = rows_of(session, model, data, request, default=0.5, labels=False), model.harmonium()
    kept = {"split": data.value.split}
    if want == "features":
        X = labels.features(h, rows.X, map=session.map) / h.hidden.scale
        limits = transform.feature_range(model)
        return Dataset(
            X, y=data.value.y, class_names=data.value.class_names, value_range=limits, **kept
        ), f"{len(X)} rows × {X.shape[1]} features"
    X = real.exp(labels.log_posterior(h, rows.X, map=session.map))
    made = Dataset(X, y=X.argmax(axis=1), feature_names=model.labels, class_names=model.labels, **kept)
    return made, f"{len(X)} rows × {X.shape[1]} class probabilities"


def _completed(session: Session, fitted: Artifact, data: Artifact, request: Request) -> tuple[Dataset, str]:
    """The rows with missing entries at their expectations given the others, and how many there were."""
    import numpy as np

    from herdcli.cli.frame.rows import with_gaps
    from herdcli.rbm.conditionals import completed
    from herdcli.rbm.units import family

    layers = layers_of(fitted.value)
    model, units = layers[0], family(layers[0].visible_units)
    if len(layers) > 1 or model.count > 1:
        what = "a dbn" if len(layers) > 1 else f"{model.count} models, one for each class"
        raise BadUsage(f"--want completed needs a single rbm; this is {what}", hint="fit-rbm without --per-class and --layers")
    rows, known = with_gaps(session, model, data, request)
    X = model.restored(completed(model.harmonium(), rows.X, known, seed=request.seed, map=session.map))
    limits = None if units.range is None or model.column_mean is not None else np.array(units.range) / units.scale
    result = Dataset(
        X,
        y=data.value.y,
        split=data.value.split,
        feature_names=model.feature_names,
        class_names=data.value.class_names,
        value_range=limits,
        image_shape=model.image_shape,
    )
    return result, f"{X.shape[0]} rows × {X.shape[1]} columns, {int((~known).sum())} entries filled in"
