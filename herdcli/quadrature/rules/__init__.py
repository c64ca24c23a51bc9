"""Rules that choose points: kernel herding, conditional gradients, thinning and others."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return the state class of the sequential rules under the path in pickles of earlier versions."""
    if name != "State":
        raise AttributeError(f"herdcli.quadrature.rules has no {name!r}")
    from herdcli.quadrature.rules.sequential_rules import SequenceState

    return SequenceState
