"""Fits that need all rows in memory name a way to less memory when they refuse an input, and that way works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS, COLUMNS = 100, 1600
HINT = "herd convert INPUT --columns NAME,… -o FILE.h5 makes a smaller file; or raise --max-memory if the machine has it"
REAL = {
    "hmm": ["em", "--model", "hmm", "--components", "2", "--iterations", "2"],
    "lds": ["em", "--model", "lds", "--components", "1", "--iterations", "2"],
    "gls": ["regress", "--target", "t", "--gls", "ar1"],
    "hidden": ["regress", "--target", "t", "--hidden", "2", "--iterations", "2"],
    "nherd-train": ["nherd-train", "--task", "regression", "--label", "t", "--passes", "1"],
}
BINARY = {
    "fit-rbm": ["fit-rbm", "--per-class", "--label", "t", "--hidden", "2", "--epochs", "1"],
    "fit-mrf": ["fit-mrf", "--algorithm", "bayes", "--label", "none"],
}


@pytest.mark.parametrize("name", [*REAL, *BINARY])
def test_a_refused_input_names_a_way_that_works(herd: Callable, tmp_path: Path, name: str) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, COLUMNS))
    target = X[:, 0] + random.normal(size=ROWS)
    if name in BINARY:
        X, target = (X > 0).astype(float), (target > 0).astype(np.int64)
    source, smaller = tmp_path / "wide.parquet", tmp_path / "smaller.h5"
    pq.write_table(pa.table({f"x{column}": X[:, column] for column in range(COLUMNS)} | {"t": target}), source)
    command, *options = (REAL | BINARY)[name]
    refused = herd(command, source, *options, "--max-memory", "1M", "-o", tmp_path / "model.h5")
    assert refused.code == 65
    lines = refused.err.splitlines()
    size = re.escape(f"herd {command}: {source}: declares ") + r"1\.\d+ MB, more than the 1 MB allowed"
    assert re.fullmatch(size, lines[-2])
    label = ["--label", "t"] if name == "fit-rbm" else []  # a sealed file has the labels that it was written with
    assert lines[-1] == f"hint: {HINT}".replace(" -o", " ".join(["", *label, "-o"]))
    kept = "x0:x2" if name in ("hmm", "lds", "fit-mrf") else "x0:x2,t"
    assert herd("convert", source, "--columns", kept, *label, "-o", smaller).code == 0
    assert herd(command, smaller, *options, "--max-memory", "1M", "-o", tmp_path / "model.h5").code == 0
