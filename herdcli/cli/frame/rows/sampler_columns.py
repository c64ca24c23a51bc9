"""The columns that samplers write beside their draws, such as the number of the chain, which are not coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from herdcli.schema import Array

CHAINS = ("chain", ".chain")  # columns of chain numbers: in ArviZ and herd, and in R's package posterior
DIVERGENT = ("divergent__", "diverging")
STATISTICS = ("lp__", "accept_stat__", "stepsize__", "treedepth__", "n_leapfrog__", "divergent__", "energy__")
OWN = (*CHAINS, ".iteration", ".draw", *STATISTICS)  # columns of samplers, as are all others that end in __


def is_sampler_column(name: str) -> bool:
    """Return whether a column belongs to the sampler and is not a coordinate."""
    return name in OWN or name.endswith("__")


def coordinate_columns(
    X: Array, names: Sequence[str] | None, exempt: Sequence[str | None] = ()
) -> tuple[Array, list[str] | None, list[str]]:
    """Return the columns of X (n, d) that are coordinates, their names, and the names of the sampler's columns.

    exempt  columns that the options name.  If no other column is left, all are coordinates.
    """
    if names is None:
        return X, None, []
    own = [name for name in names if is_sampler_column(name) and name not in exempt]
    if not own or len(own) == len(names):
        return X, list(names), []
    kept = [k for k, name in enumerate(names) if name not in own]
    return np.ascontiguousarray(X[:, kept]), [names[k] for k in kept], own


def left_out_message(names: Sequence[str]) -> str:
    """Return the message about columns that are not coordinates."""
    return f"not coordinates: {', '.join(names)}"


def chain_column(names: Sequence[str]) -> str | None:
    """Return the name of the column of chain numbers, or None."""
    return next((name for name in CHAINS if name in names), None)
