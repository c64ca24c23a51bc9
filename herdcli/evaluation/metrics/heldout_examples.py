"""The choice of held-out rows for online models: test rows, or the last examples predicted before they were learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from herdcli.schema import Array

CALIBRATION, TEST = 1, 2
Judged = TypeVar("Judged")


def evaluation_part_and_mask(heldout: Any) -> tuple[str, Array]:
    """Return `test` or `calibration`, and the mask (n,) bool of these held-out rows."""
    tested = heldout.split == TEST
    return ("test", tested) if tested.any() else ("calibration", heldout.split == CALIBRATION)


def evaluate_heldout(value: Any, make_statistics: Callable[..., Judged]) -> Judged | None:
    """Evaluate the held-out rows of a model; None if it has none.

    judged(model, on=...)  creates the statistics to which blocks are added.
    """
    if value.holdout is None:
        return None
    on, chosen = evaluation_part_and_mask(value.holdout)
    found: Any = make_statistics(value, on=on)
    baselines = getattr(value.holdout, "baselines", None)
    more = [] if baselines is None else [baselines[chosen]]
    found.add(value.holdout.score[chosen], value.holdout.variance[chosen], value.holdout.y[chosen], *more)
    made: Judged = found
    return made
