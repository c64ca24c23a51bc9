"""`herd convert` for splits: --hold-out for conditions, and --split for the other rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.artifacts import Dataset
from herdcli.artifacts.tables import condition_holdout, dataset_preparation

if TYPE_CHECKING:
    from herdcli.cli.convert.request import Request


def assign_splits(data: Dataset, request: Request) -> Dataset:
    """Return the data set with the requested split."""
    split, seed = request.split, request.seed
    if request.hold_outs:
        return condition_holdout.apply_holdouts(data, list(request.hold_outs), split, seed)
    return (
        condition_holdout.drop_rows_without_split(replace(data, split=dataset_preparation.assign_splits(data, split, seed)))
        if split
        else data
    )
