"""Extension of a saved fit to more epochs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.rbm.learning.learning_state import LearningState
from herdcli.schema import Array


def extend_state_traces(state: LearningState, epochs: int, evaluation_count: int) -> LearningState:
    """Return the state with traces long enough for all epochs of the settings; parameters and everything they depend on are unchanged."""
    state.trace = _pad_first_axis(state.trace, epochs, 0.0)
    best, track = state.best, state.track
    if best is not None:
        looks = {name: part for name in ("figures", "error", "densities") if (part := getattr(best, name)) is not None}
        state.best = replace(best, **{name: _pad_first_axis(part, evaluation_count, np.nan) for name, part in looks.items()})
    if track is not None:
        state.track = replace(track, figures=_pad_first_axis(track.figures, epochs, np.nan))
    return state


def _pad_first_axis(figures: Array, length: int, value: float) -> Array:
    """Extend figures (E, …) to (length, …), with `value` for the missing entries."""
    found = np.full((max(length, len(figures)), *figures.shape[1:]), value, dtype=figures.dtype)
    found[: len(figures)] = figures
    return found
