"""`herd convert` for images: --subsample, --mask and --equalize, in this order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
import numpy as np

from herdcli.artifacts import Artifact, Dataset
from herdcli.cli.convert.request import is_ellipse
from herdcli.errors import DataError
from herdcli.rows import image_normalization
from herdcli.schema import Array

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session

SHAPE_HINT = "set the attribute image_shape of /X to the height and width"


def normalize_images(session: Session, artifact: Artifact, subsample: int | None, mask: str | None, equalize: bool) -> Dataset:
    """Return the data set with its images normalised by the options; unchanged without any."""
    data: Dataset = artifact.value
    subsample, mask, equalize = subsample, mask, equalize
    if not (subsample or mask or equalize):
        return data
    if data.is_sparse:
        raise DataError("/X is sparse, but images must be dense", where=artifact.name)
    session.require_memory(data.X.size * 12, f"{data.X.shape[0]} images of {data.X.shape[1]} pixels")
    lowest = float(data.X.min() if data.value_range is None else data.value_range[0])
    if subsample:
        shape = _image_shape(data, artifact.name, "--subsample")
        X = image_normalization.downsample_images(data.X, shape, subsample)
        data = replace(data, X=X, image_shape=np.array(shape) // subsample, feature_names=None, units="real")
    inside = np.ones(data.X.shape[1], dtype=bool)
    if mask:
        inside = _pixel_mask(session, data, mask, artifact.name)
        data = replace(data, X=image_normalization.mask_pixels(data.X, inside, lowest))
    if equalize:
        data = replace(data, X=image_normalization.equalize_histograms(data.X, inside), units="real")
    session.console.note(f"{int(inside.sum())} of {inside.size} pixels lie inside the mask" if mask else f"{inside.size} pixels")
    return data


def _image_shape(data: Dataset, where: str, option: str) -> tuple[int, int]:
    """Return height and width.  Raises DataError if the data set does not declare its rows as images."""
    if data.image_shape is None:
        raise DataError(f"has no image_shape, which {option} needs", where=where, hint=SHAPE_HINT)
    return int(data.image_shape[0]), int(data.image_shape[1])


def _pixel_mask(session: Session, data: Dataset, text: str, where: str) -> Array:
    """Return the mask (D,) bool of the pixels to keep."""
    if is_ellipse(text):
        across, down = _ellipse_axes(text)
        return image_normalization.ellipse_mask(_image_shape(data, where, "--mask ellipse"), across, down)
    found = session.load(text, "mask", kinds={"dataset"})
    values = np.asarray(found.value.X.toarray() if found.value.is_sparse else found.value.X)
    if values.size != data.X.shape[1]:
        raise DataError(f"has {values.size} entries, but the images have {data.X.shape[1]} pixels", where=found.name)
    if not values.any():
        raise DataError("the mask is 0 everywhere, so no pixels are left", where=found.name)
    inside: Array = values.ravel() != 0
    return inside


def _ellipse_axes(text: str) -> tuple[float, float]:
    """Return the axes of `ellipse:ACROSS,DOWN`, each a fraction of the image in (0, 1]."""
    try:
        shares = [float(part) for part in text.partition(":")[2].split(",")] if ":" in text else [1.0, 1.0]
    except ValueError:
        shares = []
    if len(shares) != 2 or not all(0 < share <= 1 for share in shares):
        raise click.BadParameter(f"'{text}' is not of the form ellipse:ACROSS,DOWN with shares above 0 up to 1", param_hint="'--mask'")
    return shares[0], shares[1]
