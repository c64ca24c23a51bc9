"""`herd convert` with other rows: patches of pictures, segments of signals, the transpose, logarithms of intensities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click
import numpy as np

from herdcli.artifacts import Dataset
from herdcli.cli.frame.session import Session
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.whitening import log_intensities
from herdcli.rows.patches import patches, segments

SHAPE_HINT = "attribute image_shape of /X: height and width"


def row_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--transpose, --patches, --segments, --count and --log; --seed is the command's own."""
    for option in (
        click.option("--log", is_flag=True, help="log(1 + x) in the place of every intensity x."),
        click.option("-m", "--count", type=click.IntRange(1), default=None, help="How many patches or segments.  [default: 10000]"),
        click.option(
            "--segments",
            type=click.IntRange(1),
            default=None,
            metavar="LENGTH",
            help="Cut stretches of so many rows from columns, at random places: rows are moments, columns signals.",
        ),
        click.option(
            "--patches",
            type=click.IntRange(1),
            default=None,
            metavar="SIZE",
            help="Cut squares of SIZE pixels from pictures, at random places.",
        ),
        click.option("--transpose", is_flag=True, help="Rows become columns, before all else."),
    ):
        command = option(command)
    return command


def changed(session: Session, data: Dataset, where: str, options: dict[str, Any]) -> Dataset:
    """The rows that the options ask for: transposed, then cut, then logarithms.  where  names the input in errors."""
    size, length = options["patches"], options["segments"]
    if size and length:
        raise BadUsage("--patches and --segments cut in different ways", hint="ask for one at a time")
    if not (size or length):
        session.ignored("count", "without --patches or --segments")
        if not (options["split"] or options["hold_outs"]):
            session.ignored("seed", "without --patches or --segments, --split or --hold-out")
    if (size or length or options["log"]) and data.is_sparse:
        raise DataError("/X is sparse, pictures and signals are dense", where=where)
    if options["transpose"]:
        data = _transposed(session, data)
    if size or length:
        count = options["count"] or 10_000
        session.require_memory(count * (size * size if size else length) * data.X.dtype.itemsize, f"{count} pieces")
        data = _patches(data, size, count, options["seed"], where) if size else _segments(data, length, count, options["seed"])
    if options["log"]:
        limits = None if data.value_range is None or min(data.value_range) < 0 else np.log1p(data.value_range, dtype=np.float64)
        kind = np.float64 if data.X.dtype.itemsize > 4 else np.float32
        data = replace(data, X=log_intensities(data.X).astype(kind), units="real", value_range=limits)
    return data


def _transposed(session: Session, data: Dataset) -> Dataset:
    if any(item is not None for item in (data.y, data.split, data.weight)):
        session.console.note("labels, splits and weights are of rows: --transpose leaves them behind")
    return _like(data, data.X.T.tocsr() if data.is_sparse else np.ascontiguousarray(data.X.T))


def _patches(data: Dataset, size: int, count: int, seed: int, where: str) -> Dataset:
    """Squares with label, split and weight of the picture they are from; without labels the picture's number is the label."""
    if data.image_shape is None:
        raise DataError("has no image_shape, which --patches needs", where=where, hint=SHAPE_HINT)
    height, width = (int(side) for side in data.image_shape)
    X, picture = patches(data.X, (height, width), size, count, seed=seed)
    kept = {name: item[picture] for name in ("y", "split", "weight") if (item := getattr(data, name)) is not None}
    return _like(data, X, **{"y": picture, **kept}, class_names=data.class_names, image_shape=np.array([size, size]))


def _segments(data: Dataset, length: int, count: int, seed: int) -> Dataset:
    """Stretches of the columns; the label is the column's number."""
    X, signal = segments(data.X, length, count, seed=seed)
    return _like(data, X, y=signal, class_names=data.feature_names)


def _like(data: Dataset, X: Any, **parts: Any) -> Dataset:
    """Other rows of the same kind of values, and nothing else of the data set."""
    return type(data)(X, units=data.units, value_range=data.value_range, source=data.source, licence=data.licence, **parts)
