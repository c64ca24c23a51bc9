"""What the scripts of claims in words share: one row a claim, set and quantity, with the interval that its verdict is read from.

`low` and `high` are the mean less and plus twice its standard error over runs; of one run, or of what is no sample, the value itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from shared.figure_pipeline import Row, read_csv, write_csv
from shared.real_data import path

from herdcli import artifacts
from herdcli.schema import Array

Claim = Callable[[bool], Iterable[Row]]
SETS = ("eights8x8.h5", "usps_all.h5", "mnist.h5")  # digits by other hands, sizes and shades


def told(claim: str, where: str, quantity: str, values: float | Sequence[float] | Array) -> Row:
    """The row of some runs' values."""
    found = np.atleast_1d(np.asarray(values, dtype=np.float64))
    error = float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else 0.0
    mean = float(found.mean())
    return {
        "claim": claim,
        "set": where,
        "quantity": quantity,
        "runs": len(found),
        "mean": mean,
        "se": error,
        "low": mean - 2 * error,
        "high": mean + 2 * error,
    }


def bits(name: str, columns: int, rows: int = 1000, seed: int = 0) -> Array:
    """±1 (rows, columns): so many pixels of a set of pictures, those that are on nearest to half of the time, at most so many rows."""
    data = artifacts.load(str(path(name)), kinds={"dataset"}).value
    chosen = np.random.default_rng(seed).permutation(len(data.X))[:rows]
    x = np.where(np.asarray(data.X[np.sort(chosen)], dtype=np.float64) > 0.3 * float(data.value_range[1]), 1, -1)
    varied = np.sort(np.argsort(np.abs(x.mean(axis=0)), kind="stable")[:columns])
    return x[:, varied].astype(np.int64)


def write(name: str, claims: dict[str, Claim]) -> None:
    """`SCRIPT FOLDER [--quick] [--only CLAIM …]`: FOLDER/NAME.csv; with --only the rows of other claims stay as they are there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer runs, seconds")
    parser.add_argument("--only", action="append", choices=list(claims))
    asked = parser.parse_args()
    target = asked.folder / f"{name}.csv"
    rows = read_csv(target) if asked.only else []
    for claim in asked.only or claims:
        made = list(claims[claim](asked.quick))
        for row in made:
            print(f"{row['claim']:22} {row['set']:28} {row['quantity']:44} {row['mean']:12.5g} ± {row['se']:.2g}", flush=True)
        own = {row["claim"] for row in made}
        rows = [row for row in rows if row["claim"] not in own] + made
        write_csv(target, rows)
