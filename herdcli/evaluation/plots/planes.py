"""The plane that rows are drawn on: two columns themselves, or two principal axes, and what stands beside its axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from herdcli.schema import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TERMS = 3  # columns that are named beside an axis
LEAST = 0.2  # the coefficient of a unit vector from which its column is named
ORDINALS = ("first", "second")
MOST_TEXT = 60  # characters of the terms beside an axis


def principal_axes(X: Array, weight: Array | None = None) -> tuple[Array, Array, Array]:
    """Return the two axes (D, 2) along which rows (n, D) vary most, the mean (D,) of the rows, and the shares (2,) of variance.

    The largest entry of each axis is positive.  The axes are computed from the smaller of the two Gram matrices, (n, n) or (D, D).
    """
    X = np.asarray(X, dtype=np.float64)
    share = np.full(len(X), 1.0 / len(X)) if weight is None else weight
    mean = share @ X
    Z = (X - mean) * np.sqrt(np.abs(share))[:, None]
    if len(Z) < Z.shape[1]:
        values, left = np.linalg.eigh(Z @ Z.T)
        vectors = Z.T @ left
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=0), 1e-300)
    else:
        values, vectors = np.linalg.eigh(Z.T @ Z)
    axes, size = vectors[:, ::-1][:, :2], np.maximum(values[::-1], 0.0)
    if axes.shape[1] < 2:
        axes, size = np.concatenate([axes, np.zeros((len(axes), 1))], axis=1), np.append(size, 0.0)
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]])
    return axes * np.where(signs == 0, 1.0, signs), mean, size[:2] / max(float(size.sum()), 1e-300)


def plane_of_columns(axes: Array) -> Array:
    """Return axes (D, 2) that are the columns themselves where there are only two of them (or one), else unchanged."""
    return np.eye(2)[: len(axes)] if len(axes) <= 2 else axes


def label_plane(panel: Axes, axes: Array, names: Sequence[str] | None, *, share: Array | None = None, image: bool = False) -> None:
    """Write beside both axes of a panel what they are: a column, or the columns with the largest coefficients.

    axes   (D, 2) unit vectors.
    share  (2,) of the variance of the rows.
    image  whether columns are pixels, whose names say nothing.
    """
    set_labels: tuple[Callable[[str], object], ...] = panel.set_xlabel, panel.set_ylabel
    for k, set_label in enumerate(set_labels):
        set_label(axis_label(axes[:, k], names, k, share=None if share is None else float(share[k]), image=image))
    if len(axes) == 1:
        panel.set_yticks([])


def axis_label(direction: Array, names: Sequence[str] | None, number: int, *, share: float | None = None, image: bool = False) -> str:
    """Return the label of an axis (D,): the name of its column, else `0.86 petal + 0.36 sepal …` and its share of the variance."""
    known = names if names is not None else [f"x{j}" for j in range(len(direction))]
    order = np.argsort(-np.abs(direction), kind="stable")
    if not np.any(direction):
        return ""
    if np.count_nonzero(direction) == 1 and direction[order[0]] == 1.0:
        return str(known[order[0]])
    of = "" if share is None else f", {100 * share:.0f} % of the variance"
    title = f"{ORDINALS[number]} principal axis{of}"
    if image:
        return title
    terms = ""
    for j in order[:TERMS]:
        if abs(direction[j]) < LEAST:
            break
        sign = "−" if direction[j] < 0 else "+"
        lead = f" {sign} " if terms else "−" if direction[j] < 0 else ""
        longer = f"{terms}{lead}{abs(direction[j]):.2f} {known[j]}"
        if len(longer) > MOST_TEXT:
            break
        terms = longer
    rest = " …" if np.count_nonzero(np.abs(direction) > 1e-12) > TERMS else ""
    return f"{title}: {terms}{rest}" if terms else title
