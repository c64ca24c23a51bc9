"""What `herd convert` does with splits: --keep a column, --hold-out a condition, --split the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.artifacts import Dataset, holdout, preparation

if TYPE_CHECKING:
    from herdcli.cli.convert.request import Request


def partitioned(data: Dataset, request: Request) -> Dataset:
    """The data set with the split that the options ask for."""
    split, seed = request.split, request.seed
    if request.hold_outs:
        return holdout.held_out(data, list(request.hold_outs), split, seed)
    return holdout.used(replace(data, split=preparation.split_rows(data, split, seed))) if split else data
