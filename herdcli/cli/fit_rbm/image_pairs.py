"""`herd fit-rbm --pairs`: one model of all ordered pairs of images of the same person; the pairs are in herdcli.rbm.pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.fit_rbm.messages import warn_of_image_pairs
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows.column_order import warn_of_unused_weights
from herdcli.errors import DataError
from herdcli.splits import TRAIN

if TYPE_CHECKING:
    from herdcli.cli.fit_rbm.request import Request
    from herdcli.cli.frame.run.session import Session


def fit_image_pairs(session: Session, request: Request) -> None:
    """Learn a model of pairs and save it as an artifact of kind `rbm-pairs`."""
    from herdcli.cli.frame.rows.dataset_rows import OF_MODELS, RowReading, rows_in_units
    from herdcli.rbm import pairs
    from herdcli.rbm.units import unit_family

    settings = request.pair_settings()
    outputs.check_artifact_output(session, "rbm-pairs")
    data = session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label)
    warn_of_unused_weights(session, data.value)
    rows = rows_in_units(session, data, unit_family(settings.visible_units), RowReading.from_request(request, default=OF_MODELS))
    persons, names = rows.labels_and_class_names(data.name, "--pairs")
    found = pairs.same_person_pairs(persons, (rows.split == TRAIN).nonzero()[0], names)
    if not len(found):
        raise DataError("there are no training rows", where=data.name, hint="make a new split: --split .8,.1,.1")
    if not request.epochs:
        settings = replace(settings, epochs=pairs.default_epochs(len(found), settings.batch_size))
    session.request = request.with_chosen_settings(settings)
    size = f"{len(found)} pairs of {rows.X.shape[1]} pixels"
    session.require_memory(len(found) * rows.X.shape[1] * 2 * rows.X.dtype.itemsize, size)
    problem, varies = pairs.make_pair_problem(rows.X, found, settings)
    algorithm = pairs.PairLearning(problem, session.map)
    session.require_memory(algorithm.memory(), f"learning {problem.rows[0].shape[1]} × {settings.hidden} weights")
    warn_of_image_pairs(session, settings.hidden, settings.batch_size, varies, len(found))
    state = session.run(algorithm, label="learning pairs")
    model = pairs.assemble_pair_rbm(problem, state, varies, rows.X, found, rows.split)
    model = replace(model, **{name: getattr(rows, name) for name in ("image_shape", "threshold", "value_range", "feature_names")})
    outputs.write_artifact(session, model, f"{size}, {settings.hidden} hidden, {settings.epochs} epochs", history=data)
