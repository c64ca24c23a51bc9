"""`herd convert` with transformed rows: patches of images, segments of signals, transpose, logarithms of intensities, bits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.artifacts import Dataset
from herdcli.artifacts.tables.dataset_preparation import require_value_range
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.ica.whitening import log1p_nonnegative
from herdcli.rows.binarization import balanced_thresholds, sample_binary_rows, threshold_rows
from herdcli.rows.patches import cut_patches, cut_segments
from herdcli.schema import Array
from herdcli.splits import TRAIN

if TYPE_CHECKING:
    from herdcli.cli.convert.request import Request
    from herdcli.cli.frame.run.session import Session

SHAPE_HINT = "set the attribute image_shape of /X to the height and width"


def transform_rows(session: Session, data: Dataset, where: str, request: Request) -> Dataset:
    """Return the rows with the requested changes: first transposed, then cut, then logarithms.  where: names the input in errors."""
    size, length = request.patches, request.segments
    if not (size or length):
        session.warn_of_ignored_option("count", "without --patches or --segments")
        if not (request.split or request.hold_outs or request.binarize == "stochastic"):
            session.warn_of_ignored_option("seed", "without --patches, --segments, --split, --hold-out or --binarize stochastic")
    if (size or length or request.log) and data.is_sparse:
        raise DataError("/X is sparse, but images and signals must be dense", where=where)
    if request.transpose:
        data = _transpose(session, data)
    if size or length:
        count = request.count or 10_000
        session.require_memory(count * (size * size if size else length or 0) * data.X.dtype.itemsize, f"{count} pieces")
        data = _cut_patches(data, size, count, request.seed, where) if size else _cut_segments(data, length or 0, count, request.seed)
    if request.log:
        limits = None if data.value_range is None or min(data.value_range) < 0 else log1p_nonnegative(np.array([data.value_range]))[0]
        kind = np.float64 if data.X.dtype.itemsize > 4 else np.float32
        data = replace(data, X=log1p_nonnegative(data.X).astype(kind), units="real", value_range=limits)
    return _draw_bits(session, data, where, request.seed) if request.binarize == "stochastic" else data


def binarize_at_median(session: Session, data: Dataset, where: str) -> Dataset:
    """Return rows of zeros and ones, with a cut in each column that divides its training rows most nearly into halves."""
    _require_memory_for_bits(session, data, where)
    training = slice(None) if data.split is None else data.split == TRAIN
    rows = data.X[training]
    if not len(rows):
        raise DataError("has no training rows, but --binarize median computes the medians from them", where=where)
    on = threshold_rows(data.X, balanced_thresholds(rows))
    if constant := int((on == on[0]).all(axis=0).sum()):
        session.console.note(f"{constant} of {on.shape[1]} columns are constant")
    return _dataset_of_bits(data, on)


def _draw_bits(session: Session, data: Dataset, where: str, seed: int) -> Dataset:
    """Return sampled rows of zeros and ones; the probability of a one is the value as a fraction of the value range."""
    _require_memory_for_bits(session, data, where)
    try:
        limits = require_value_range(data, data.value_range)
    except HerdError as error:
        error.where = error.where or where
        error.hint = "set the attribute value_range of the data set" if isinstance(error, BadUsage) else error.hint
        raise
    return _dataset_of_bits(data, sample_binary_rows(data.X, limits, seed))


def _require_memory_for_bits(session: Session, data: Dataset, where: str) -> None:
    if data.is_sparse:
        raise DataError(
            "/X is sparse, but --binarize needs dense rows", where=where, hint="use herd fit-rbm --threshold, which binarizes sparse rows"
        )
    session.require_memory(data.X.size, f"{data.X.shape[0]} × {data.X.shape[1]} zeros and ones")


def _dataset_of_bits(data: Dataset, bits: Array) -> Dataset:
    return replace(data, X=bits, units="binary", value_range=np.array([0, 1]))


def _transpose(session: Session, data: Dataset) -> Dataset:
    if any(item is not None for item in (data.y, data.split, data.weight)):
        session.console.note("--transpose drops labels, splits and weights because they belong to rows")
    return _dataset_with_units_and_source(data, data.X.T.tocsr() if data.is_sparse else np.ascontiguousarray(data.X.T))


def _cut_patches(data: Dataset, size: int, count: int, seed: int, where: str) -> Dataset:
    """Return patches with the label, split and weight of their image; without labels, the image's number is the label."""
    if data.image_shape is None:
        raise DataError("has no image_shape, which --patches needs", where=where, hint=SHAPE_HINT)
    height, width = (int(side) for side in data.image_shape)
    X, picture = cut_patches(data.X, (height, width), size, count, seed=seed)
    kept = {name: item[picture] for name in ("y", "split", "weight") if (item := getattr(data, name)) is not None}
    return _dataset_with_units_and_source(
        data, X, **{"y": picture, **kept}, class_names=data.class_names, image_shape=np.array([size, size])
    )


def _cut_segments(data: Dataset, length: int, count: int, seed: int) -> Dataset:
    """Return segments of the columns; the label is the column's number."""
    X, signal = cut_segments(data.X, length, count, seed=seed)
    return _dataset_with_units_and_source(data, X, y=signal, class_names=data.feature_names)


def _dataset_with_units_and_source(data: Dataset, X: Array, **parts: Any) -> Dataset:
    """Return a data set of other rows with the same units, value range, source and licence, and nothing else."""
    return type(data)(X, units=data.units, value_range=data.value_range, source=data.source, licence=data.licence, **parts)
