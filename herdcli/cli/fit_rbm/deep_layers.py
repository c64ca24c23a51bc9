"""`herd fit-rbm --layers` and `--below`: RBMs learned layer by layer; the learning is in herdcli.rbm.learning.layerwise_learning."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from herdcli.cli.fit_rbm.messages import warn_of_training_rows
from herdcli.cli.fit_rbm.model_runs import largest_moment
from herdcli.cli.fit_rbm.text_units import resolve_text_units
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows.column_order import warn_of_unused_weights
from herdcli.errors import DataError
from herdcli.kinds import kinds_with
from herdcli.splits import TRAIN

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.fit_rbm.request import Request
    from herdcli.cli.frame.rows.dataset_rows import PreparedRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.rbm.model import RBM
    from herdcli.rbm.settings import Settings


def fit_dbn(session: Session, request: Request, settings: Settings) -> None:
    """Learn the layers and save them as an artifact of kind `dbn`."""
    from herdcli.rbm.class_models import replace_evaluation_rows
    from herdcli.rbm.layers import DBN
    from herdcli.rbm.learning import layerwise_learning

    outputs.check_artifact_output(session, "dbn")
    below = _load_lower_layers(session, request.below)
    data = session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label)
    warn_of_unused_weights(session, data.value)
    if not below:
        settings = replace(settings, visible_units=resolve_text_units(session, settings.visible_units, data))
    rows = _rows_of_lowest_layer(session, request, data, below, settings.visible_units)
    data = replace(data, value=None)
    training = rows.split == TRAIN
    if not training.any():
        raise DataError("there are no training rows", where=data.name, hint="make a new split: --split .8,.1,.1")
    if below:
        kind = below[-1].hidden_units
        settings = replace(settings, visible_units=kind, hidden_units=request.hidden_units or kind)
    request = request.resolve_for_columns(rows.X.shape[1], settings.visible_units)
    settings = replace(settings, algorithm=request.algorithm)
    settings = request.settings_for_row_count(settings, int(training.sum()), partial(largest_moment, rows, settings))
    session.request = replace(request, **settings.data_dependent_settings())
    sizes = request.layers or (settings.hidden,)
    problem = layerwise_learning.StackingProblem(rows.X[training], sizes, settings, tuple(part.harmonium() for part in below))
    algorithm = layerwise_learning.LayerwiseLearning(problem, session.map)
    session.require_memory(algorithm.memory(), f"learning {rows.X.shape[1]} × {' × '.join(map(str, sizes))} weights")
    warn_of_training_rows(session, problem.layer_problem([]))
    label = f"learning by {settings.algorithm}" if session.dry_run else "learning"
    first, *others = [*below, *session.run(algorithm, label=label)]
    first = replace_evaluation_rows(first, rows.X, rows.split, None, map=session.map)
    if not below:
        first = replace(first, **rows.reading_record())
    made = DBN([first, *others])
    outputs.write_artifact(session, made, f"layers of {', '.join(str(part.W.shape[2]) for part in made.layers)} hidden units", history=data)


def _load_lower_layers(session: Session, path: str | None) -> list[RBM]:
    """Return the layers of the model of --below, or an empty list without the option."""
    if path is None:
        return []
    from herdcli.rbm.layers import model_layers

    found = session.load(path, "below", kinds=set(kinds_with("harmonium")))
    layers: list[RBM] = list(model_layers(found.value))
    if layers[0].labels is not None:
        raise DataError("is a model of rows with labels, which cannot be a layer", where=found.name)
    if layers[0].count > 1:
        raise DataError("has one model for each class, but a layer is a single model", where=found.name)
    return [replace(part, holdout=None, scores=None) for part in layers]


def _rows_of_lowest_layer(session: Session, request: Request, data: Artifact, lower_layers: list[RBM], visible_units: str) -> PreparedRows:
    """Return the rows in the units of the lowest layer, which is the first layer of --below or the first to be learned."""
    from herdcli.cli.frame.rows.dataset_rows import OF_MODELS, RowReading, rows_for_model, rows_in_units
    from herdcli.rbm.units import unit_family

    if not lower_layers:
        return rows_in_units(session, data, unit_family(visible_units), RowReading.from_request(request, default=OF_MODELS))
    return rows_for_model(session, lower_layers[0], data, request)
