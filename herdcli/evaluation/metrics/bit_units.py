"""Conversion of metrics from nats to bits."""

from __future__ import annotations

from collections.abc import Mapping

from herdcli.evaluation.table import Value

NATS = (
    "log_likelihood",
    "pseudo_likelihood",
    "independent",
    "gain_se",
    "bound",
    "code_length",
    "bits_back",
    "free_energy",
    "rise",
    "log_z",
)
BITS = 1.0 / 0.6931471805599453


def convert_unit(row: Mapping[str, Value], unit: str) -> dict[str, Value]:
    """Return a row of metrics with its columns of nats converted to bits; rows of squared errors are unchanged."""
    if unit == "nats" or "squared_error" in row:
        return dict(row)
    return {name: item * BITS if isinstance(item, float) and name.startswith(NATS) else item for name, item in row.items()}
