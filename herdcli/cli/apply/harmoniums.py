"""`herd apply` with an RBM or a deep belief network: rows to features, states, energies or class probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from herdcli.artifacts import roles
from herdcli.artifacts.dataset import Dataset
from herdcli.cli.apply.inputs import Mapped
from herdcli.cli.apply.inputs import rows as new_rows
from herdcli.cli.frame import exact
from herdcli.cli.frame.rows import rows_of
from herdcli.errors import BadUsage
from herdcli.rbm import transform
from herdcli.rbm.layers import layers_of
from herdcli.rbm.likelihood import block_size

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.rbm.model import RBM
    from herdcli.schema import Array

    Function = Callable[[Array, int], Array]


def applied(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """The rows of a data set as an `rbm`, or the layers of a `dbn`, see them, and what was made of them in words."""
    found = mapped(session, fitted, request)
    return found.make(slice(0, found.count)), found.said


def mapped(session: Session, fitted: Artifact, request: Request) -> Mapped:
    """The same for any stretch of the rows, which may be in a file."""
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
    function, width, unit = _function(session, layers, want, request)
    kept, names = data.value, model.classes if want in ("energies", "classes") else None
    limits = transform.feature_range(layers[-1]) if want in ("features", "states") else None

    def make(part: slice) -> Dataset:
        X = function(rows.X if part == slice(0, rows.X.shape[0]) else rows.X[part], part.start)
        y = X.argmax(axis=1) if want == "classes" else _of(kept.y, part)
        class_names = model.classes if want == "classes" else kept.class_names
        title = roles.predicted(roles.target_of(fitted) or "y") if want == "classes" else None
        split = _of(kept.split, part)
        return Dataset(X, y=y, split=split, feature_names=names, class_names=class_names, value_range=limits, label_name=title)

    what = want if want != "classes" else "class probabilities"
    return Mapped(rows.X.shape[0], unit, make, f"{rows.X.shape[0]} rows × {width} {what}")


def _of(values: Array | None, part: slice) -> Array | None:
    return None if values is None else values[part]


def _function(session: Session, layers: Sequence[RBM], want: str, request: Request) -> tuple[Function, int, int]:
    """What makes values (r, K) of rows (r, D), which others come before; K; and how many rows it takes together."""
    model, K = layers[0], int(layers[-1].c.size)
    if want == "states" or len(layers) > 1:
        from herdcli.rbm import stack

        models = [part.harmonium() for part in layers]
        if model.count > 1:
            raise BadUsage("--want states needs a single model; this one has several", hint="--want features")
        if want == "states":
            unit = math.lcm(*(block_size(sum(h.W.shape)) for h in models))
            return lambda rows, first: stack.shown_states(models, rows, request.seed, first), K, unit
        return lambda rows, first: stack.features(models, rows, session.map), K, block_size(sum(sum(h.W.shape) for h in models))
    unit = block_size(sum(model.W.shape[1:]))
    if want == "features":
        return lambda rows, first: transform.features(model, rows, session.map), K, unit
    single = model.harmoniums()
    if want == "energies" or model.scores is None:
        return lambda rows, first: transform.energies(single, rows, session.map), len(single), unit
    from herdcli.evaluation.classes import calibrate
    from herdcli.evaluation.settings import EvaluationSettings

    probabilities = calibrate(model.scores, EvaluationSettings(seed=request.seed)).probabilities
    return lambda rows, first: probabilities(transform.energies(single, rows, session.map)), len(single), unit


def _by_labels(session: Session, fitted: Artifact, data: Artifact, request: Request) -> Mapped:
    """Probabilities of labels, or hidden means, of rows through a model of rows with labels."""
    from herdcli.numerics import real
    from herdcli.rbm import labels

    want, model = request.want or "classes", fitted.value
    if want not in ("classes", "features"):
        raise BadUsage(f"--want {want} has no meaning with a model of rows with labels", hint="--want classes or features")
    rows, h = rows_of(session, model, data, request, default=0.5, labels=False), model.harmonium()
    kept = data.value

    def features(part: slice) -> Dataset:
        X = labels.features(h, rows.X[part], map=session.map) / h.hidden.scale
        y, limits = _of(kept.y, part), transform.feature_range(model)
        return Dataset(X, y=y, split=_of(kept.split, part), class_names=kept.class_names, value_range=limits)

    def classes(part: slice) -> Dataset:
        X = real.exp(labels.log_posterior(h, rows.X[part], map=session.map))
        names, title = model.labels, roles.predicted(roles.target_of(fitted) or "y")
        return Dataset(X, y=X.argmax(axis=1), split=_of(kept.split, part), feature_names=names, class_names=names, label_name=title)

    count, unit = rows.X.shape[0], block_size(h.W.shape[1] * labels.classes_of(h))
    if want == "features":
        return Mapped(count, unit, features, f"{count} rows × {h.W.shape[1]} features")
    return Mapped(count, unit, classes, f"{count} rows × {len(model.labels)} class probabilities")


def _completed(session: Session, fitted: Artifact, data: Artifact, request: Request) -> Mapped:
    """The rows with missing entries at their expectations given the others, and how many there were."""
    import numpy as np

    from herdcli.artifacts.lazy import Lazy
    from herdcli.cli.frame.rows import with_gaps, with_gaps_read
    from herdcli.numerics.rows import blocks
    from herdcli.rbm.conditionals import PART, completed
    from herdcli.rbm.units import family

    layers = layers_of(fitted.value)
    model, units = layers[0], family(layers[0].visible_units)
    if len(layers) > 1 or model.count > 1:
        what = "a dbn" if len(layers) > 1 else f"{model.count} models, one for each class"
        raise BadUsage(f"--want completed needs a single rbm; this is {what}", hint="fit-rbm without --per-class and --layers")
    read = with_gaps_read if isinstance(data.value.X, Lazy) else with_gaps
    rows, known = read(session, model, data, request)
    limits = None if units.range is None or model.column_mean is not None else np.array(units.range) / units.scale
    kept, h = data.value, model.harmonium()
    y = None if kept.y is None or ((kept.y < 0).any() and kept.class_names) else kept.y  # names of which some are missing are left out

    def make(part: slice) -> Dataset:
        X = model.restored(completed(h, rows.X[part], known[part], seed=request.seed, first=part.start, map=session.map))
        return Dataset(
            X,
            y=_of(y, part),
            split=_of(kept.split, part),
            feature_names=model.feature_names,
            class_names=None if y is None else kept.class_names,
            value_range=limits,
            image_shape=model.image_shape,
        )

    gaps = sum(int(np.count_nonzero(~known[block])) for block in blocks(known))
    return Mapped(len(known), PART, make, f"{len(known)} rows × {model.columns} columns, {gaps} entries filled in")
