"""Explanations of metrics in the modules that compute them: the table `EXPLAINED`, so that a new metric takes one file."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from herdcli.kinds import KINDS


@cache
def own_explanations() -> dict[str, tuple[str, str, str]]:
    """Return meaning, formula and source of the columns that the modules of all kinds explain."""
    found: dict[str, tuple[str, str, str]] = {}
    for module in sorted({entry.metrics.rpartition(".")[0] for entry in KINDS.values() if entry.metrics}):
        found |= vars(import_module(module)).get("EXPLAINED", {})
    return found
