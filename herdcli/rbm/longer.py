"""The state of a fit that was begun with fewer epochs, in a fit of more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.rbm.settings import Settings
from herdcli.rbm.state import State
from herdcli.schema import Array


def grown(state: State, settings: Settings) -> State:
    """The state with room for the traces of all epochs of the settings; parameters and what they depend on are as they were."""
    state.trace = _longer(state.trace, settings.epochs, 0.0)
    best, track = state.best, state.track
    if best is not None:
        looks = {name: part for name in ("figures", "error", "densities") if (part := getattr(best, name)) is not None}
        state.best = replace(best, **{name: _longer(part, settings.looks, np.nan) for name, part in looks.items()})
    if track is not None:
        state.track = replace(track, figures=_longer(track.figures, settings.epochs, np.nan))
    return state


def _longer(figures: Array, length: int, value: float) -> Array:
    """Figures (E, …) as (length, …), with a value where there are none yet."""
    found = np.full((max(length, len(figures)), *figures.shape[1:]), value, dtype=figures.dtype)
    found[: len(figures)] = figures
    return found
