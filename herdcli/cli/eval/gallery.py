"""`herd eval --gallery` for a model of pairs: images to recognise, images to compare them with, and the other methods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.sealed import provenance
from herdcli.artifacts.tables import condition_holdout, dataset_preparation
from herdcli.cli.frame.rows.column_order import align_dataset
from herdcli.cli.frame.rows.dataset_rows import RowReading, rows_in_units
from herdcli.errors import DataError
from herdcli.evaluation.figures.gallery import RecognitionTask, SubspaceDimensions
from herdcli.kinds import GALLERY
from herdcli.rbm.units import unit_family
from herdcli.splits import TEST, TRAIN, VALID

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.schema import Array

PARTS = {"test": TEST, "valid": VALID}


def with_gallery(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return a model of pairs with the images of --gallery; unchanged without the option."""
    if request.gallery is None:
        for name in GALLERY:
            session.warn_of_ignored_option(name, "without --gallery")
        return artifact
    model = artifact.value
    wanted = () if request.probe_sets is None else (request.probe_sets,)
    data = session.load(request.gallery, "gallery", kinds={"dataset"}, keep=wanted)
    data = align_dataset(session, data, model.feature_names, len(model.W1))
    if data.value.X.shape[1] != len(model.W1):
        raise DataError(f"/X has {data.value.X.shape[1]} columns, but the model has {len(model.W1)} pixels", where=data.name)
    limits = None if model.value_range is None else tuple(model.value_range)
    reading = RowReading(default=0.5, seed=request.seed, threshold=model.threshold, value_range=limits)
    rows = rows_in_units(session, data, unit_family(model.settings.visible_units), reading)
    persons, names = rows.labels_and_class_names(data.name, "--gallery")
    split = _choose_split(session, artifact, data, rows.split)
    train, probes = (np.flatnonzero(split == part) for part in (TRAIN, PARTS[request.probes]))
    for part, indices in (("training", train), (request.probes, probes)):
        if not len(indices):
            raise DataError(f"there are no {part} rows", where=data.name, hint="draw a new split: herd convert --split")
    count = request.gallery_images
    value = RecognitionTask(
        model=model,
        units=rows.X,
        images=dataset_preparation.dense_copy(data.value, np.float64),
        persons=np.array(names)[persons],
        train=train,
        gallery=train if count is None else condition_holdout.sample_rows_per_person(persons, train, count, request.seed),
        probes=probes,
        sets=_test_set_names(data, request.probe_sets, request.probes)[probes],
        dimensions=SubspaceDimensions(request.drop_first, *request.dimensions),
    )
    return replace(artifact, value=value)


def _choose_split(session: Session, artifact: Artifact, data: Artifact, own_split: Array) -> Array:
    """Return the split that the model was fitted with if these are its data, else the split of the data set itself."""
    learned = provenance.last_record_of_command(artifact.history, "fit-rbm")
    if learned and any(item.get("sha256") == data.sha256 for item in learned["inputs"]):
        parts: Array = artifact.value.split
        return parts
    session.console.note(
        f"{data.name} differs from the training data, so its own split decides which images are gallery and which are probes"
    )
    return own_split


def _test_set_names(data: Artifact, column: str | None, part: str) -> Array:
    """Return the test set (n,) of each row, as text."""
    columns = data.value.columns or {}
    if column is None and condition_holdout.PROBE_SET not in columns:
        return np.full(data.value.X.shape[0], part)
    values = columns[column or condition_holdout.PROBE_SET].astype(np.str_)
    return np.where(values == "", part, values)
