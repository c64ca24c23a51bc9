"""Rank errors of face recognition: how often the n most similar gallery images all show another person."""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.schema import Array

RANKS = (1, 2, 4, 8, 16)


def count_wrong_before_match(similarity: Array, probe_persons: Array, gallery_persons: Array) -> Array:
    """Return the number of wrong gallery images ranked above the first right one (P,), for similarities (P, G) and labels (P,), (G,).

    A wrong image that is as similar as the best right one ranks above it, so that a constant similarity recognises nobody.
    Raises DataError for a probe of a person who is not in the gallery.
    """
    same = probe_persons[:, None] == gallery_persons
    if not same.any(axis=1).all():
        person = probe_persons[np.argmin(same.any(axis=1))]
        raise DataError(
            f"person {person} has probe images but no image in the gallery",
            hint="put at least one image of each person into the training part",
        )
    best = np.where(same, similarity, -np.inf).max(axis=1)
    ahead: Array = np.count_nonzero(~same & (similarity >= best[:, None]), axis=1)
    return ahead


def rank_errors(wrong_before_match: Array, ranks: tuple[int, ...] = RANKS) -> dict[int, float]:
    """Return rank-n error rates: the share of probes (P,) with n or more wrong images before the first right one.

    Source: Teh (2003), caption of fig. 3.9.
    """
    return {rank: float(np.mean(wrong_before_match >= rank)) for rank in ranks}


def nearest_gallery_images(similarity: Array, count: int) -> Array:
    """Return the indices (P, count) of the most similar gallery images, best first; the earlier of equal ones first."""
    order: Array = np.argsort(-similarity, axis=1, kind="stable")[:, :count]
    return order
