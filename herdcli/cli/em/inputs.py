"""The inputs of `herd em`: rows with their splits, labels and weights, and the initial model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import take_rows
from herdcli.artifacts.rows.lazy_matrix import LazyMatrix
from herdcli.cli.em import on_disk
from herdcli.cli.em.request import SIZES, WORSE
from herdcli.cli.frame.rows import streamed_rows
from herdcli.cli.frame.rows.column_order import nonzero_weight_indices
from herdcli.em.model_table import TABLE
from herdcli.errors import DataError, HerdError
from herdcli.numerics.row_selection import iterate_row_slices
from herdcli.records import dataclass
from herdcli.schema import require_valid_weights
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact, Dataset
    from herdcli.cli.em.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.driver import Parameters
    from herdcli.em.fitting import FitOptions, FitRows
    from herdcli.schema import Array


COPIED = 16  # bytes per entry that reading and fitting in memory need in addition to the stored ones


@dataclass(frozen=True)
class EMInputs:
    """The rows, the options of the fit, and the artifact that the rows came from."""

    rows: FitRows
    asked: FitOptions
    history: Artifact


def read_inputs(session: Session, request: Request) -> EMInputs:
    """Read the rows and, with --init FILE, the initial values."""
    if request.on_disk:
        data, rows = on_disk.read_rows(session, request.source, request.weights, request.split, request.seed, request.label)
    else:
        data = _load_dataset(session, request.weights, request.input_format, request.label, request.source)
        try:
            rows = _split_rows(session, data, request)
        except HerdError as error:
            error.where = error.where or data.name
            raise
    given = _initial_values(session, request.initial_file, request.model, data) if request.initial_file else None
    return EMInputs(rows, _fit_options(request, data.value, rows, given), replace(data, value=None))


def _load_dataset(session: Session, weights: str | None, input_format: str | None, label: str | None, source: str) -> Artifact:
    """Read a data set as a dense matrix in memory, or with its rows on disk if they need more than --max-memory."""
    keep = (weights,) if weights and weights != "weight" else ()
    form, label = input_format, label
    found = streamed_rows.open_streamed_dataset(
        session, source, label=label, input_format=form, is_requested=False, unit_bytes=COPIED, missing=True, keep=keep
    )
    data = found or session.load(source, "data", kinds={"dataset"}, input_format=form, label=label, keep=keep, missing=True)
    value: Dataset = data.value
    if value.is_sparse:
        rows, columns = value.X.shape
        session.require_memory(4 * rows * columns, f"{rows} × {columns} values")
        value = replace(value, X=value.X.toarray().astype(np.float32))
    kept = nonzero_weight_indices(session, _row_weights(value, weights))
    return replace(data, value=value if kept is None else take_rows(value, kept))


def _row_weights(data: Dataset, name: str | None) -> Array | None:
    if name is None or name == "weight":
        return data.weight
    found = (data.columns or {})[name]
    if found.dtype.kind not in "fiub":
        raise DataError(f"column '{name}' holds no numbers, which --weights needs")
    return np.asarray(found, dtype=np.float64)


def _split_rows(session: Session, artifact: Artifact, request: Request) -> FitRows:
    """Split a data set: split 0 for training, 1 for the choice of the number of components, 2 for evaluation."""
    from herdcli.artifacts.tables.dataset_preparation import assign_splits
    from herdcli.em.fitting import FitRows
    from herdcli.numerics.block_statistics import ArrayRows
    from herdcli.numerics.block_statistics import RowReader as Numbered

    data: Dataset = artifact.value
    weight, y, names = _row_weights(data, request.weights), *requested_labels(data, request.per_class)
    known = y if request.per_class else None
    split = assign_splits(replace(data, weight=weight), request.split, request.seed)

    def table(part: int, given: Array | None) -> Numbered | None:
        chosen = np.flatnonzero(split == part)
        own, w = (None if item is None else item[chosen] for item in (given, weight))
        if not len(chosen) or not (w is None or w.any()):
            return None
        if isinstance(data.X, LazyMatrix):
            require_valid_weights(w)
            return streamed_rows.matrix_rows(data.X.select_rows(chosen), own, weight=w)
        return ArrayRows(data.X, own, w, chosen)

    test = np.flatnonzero(split == TEST)
    if isinstance(data.X, LazyMatrix):
        test = on_disk.choose_heldout_rows(session, test, data.X.shape[1])
    holdout = _copy_rows(data.X, test) if len(test) else None  # read first; the others use the memory left
    training = table(0, known)
    if training is None:
        raise DataError("has no training rows", hint="make a new split: --split .8,.1,.1")
    return FitRows(
        training=training,
        valid=table(1, None),
        holdout=holdout,
        holdout_y=y[test] if y is not None and len(test) else None,
        feature_names=data.feature_names,
        class_names=names if y is not None else None,
        image_shape=data.image_shape,
    )


def _copy_rows(X: Array, chosen: Array) -> Array:
    """Return some rows of a matrix (n, D) in float64, read in blocks."""
    found = np.empty((len(chosen), X.shape[1]))
    for rows in iterate_row_slices(found):
        found[rows] = X[chosen[rows]]
    return found


def requested_labels(data: Dataset, per_class: bool) -> tuple[Array | None, list[str] | None]:
    """Return labels and class names as `dataset_labels` does.  Raises DataError if --per-class finds no labels."""
    if data.y is None and per_class:
        raise DataError("there are no labels, which --per-class needs", hint="name the column of labels: --label COLUMN")
    return dataset_labels(data)


def dataset_labels(data: Dataset) -> tuple[Array | None, list[str] | None]:
    """Return the labels (n,) counted from 0, with −1 for rows without a label, and the names of the classes.

    If −1 and +1 are the only labels, they are two classes.
    """
    if data.y is None:
        return None, None
    if data.class_names:
        return data.y.astype(np.int64), data.class_names
    known = np.unique(data.y)
    unlabelled = known[0] == -1 and len(known) > 1 and known.tolist() != [-1, 1]
    found = known[1:] if unlabelled else known
    return np.where(data.y == -1, -1, np.searchsorted(found, data.y)) if unlabelled else np.searchsorted(found, data.y), [
        str(label) for label in found
    ]


def _fit_options(request: Request, data: Dataset, rows: FitRows, start: Parameters | Array | None) -> FitOptions:
    """Return the options of the fit, with a default range of component counts if --components is not given."""
    from herdcli.em.fitting import FitOptions

    first, last = request.components or _default_component_counts(request.per_class, request.bayes, request.model, rows, start)
    return FitOptions(
        model=request.model,
        sizes=tuple(range(first, last + 1)),
        covariance=request.covariance,
        criterion=request.criterion,
        patience=WORSE if request.components is None else None,
        floor=request.floor,
        init=request.init_method,
        seed=request.seed,
        given=start,
        supervised=request.per_class,
        rotation=request.rotation,
        batches=request.minibatch,
        bayes=request.bayes,
        concentration=request.concentration,
        solver=request.solver,
        shrinkage=request.shrinkage,
        classes=len(rows.class_names or ()) if request.per_class and request.components else None,
    )


def _default_component_counts(per_class: bool, bayes: bool, model: str, rows: FitRows, start: Parameters | Array | None) -> tuple[int, int]:
    count, columns = rows.training.count, rows.training.columns
    if start is not None:
        size = len(start) if isinstance(start, np.ndarray) else len(start["weight"]) if "weight" in start else start["loading"].shape[1]
        return size, size
    if per_class:
        size = len(rows.class_names or ())
        return size, size
    if model == "pca":
        most = max(1, min(columns, count - 1))  # further axes have no variance
        return most, most
    if bayes:
        return (min(SIZES[1], count),) * 2
    most = count if model == "gmm" else max(1, columns - 1)
    return SIZES[0], min(SIZES[1], most)


def _initial_values(session: Session, initial_file: str | None, model: str, data: Artifact) -> Parameters | Array:
    """Return the parameters of the earlier model that --init names, or rows of a data set as centres."""
    from herdcli.cli.frame.rows import column_order

    kind = TABLE[model].kind
    path = str(initial_file)
    begun = session.load(path, "init", kinds={"dataset", kind} - ({"dataset"} if kind == "factors" else set()))
    value = begun.value
    width = data.value.X.shape[1]
    if begun.kind == "dataset":
        X = column_order.align_dataset(session, begun, data.value.feature_names, width).value.X
        if X.shape[1] != width:
            raise DataError(f"has {X.shape[1]} columns, but the rows have {width}", where=begun.name)
        return np.asarray(X.toarray() if hasattr(X, "indptr") else X, dtype=np.float64)
    centre = value.centre if kind == "kmeans" else value.mean
    if centre.shape[-1] != width:
        raise DataError(f"has {centre.shape[-1]} columns, but the rows have {width}", where=begun.name)
    if kind == "factors" and value.model != model:
        raise DataError(f"was made with --model {value.model}, not {model}", where=begun.name)
    begin: Parameters | Array = centre if kind == "kmeans" else value.parameters
    return begin
