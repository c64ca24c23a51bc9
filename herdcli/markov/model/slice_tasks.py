"""Tasks of inference in a template of slices, parsed from text: filtering, prediction:K, lag:L, smoothing."""

from __future__ import annotations

from herdcli.records import dataclass


@dataclass(frozen=True)
class SliceTask:
    """A task: filtering, prediction of a number of steps ahead, smoothing with a fixed lag, or smoothing by all rows."""

    kind: str
    steps: int = 0


def parse_task(text: str) -> SliceTask:
    """Parse a task.  Raises ValueError for an invalid text."""
    kind, colon, number = text.partition(":")
    if kind in ("filtering", "smoothing") and not colon:
        return SliceTask(kind)
    if kind in ("prediction", "lag") and number.isdecimal() and int(number) > 0:
        return SliceTask(kind, int(number))
    raise ValueError("is none of filtering, prediction:K, lag:L, smoothing, with K and L from 1")
