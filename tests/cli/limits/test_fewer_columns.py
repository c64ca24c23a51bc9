"""Fits that need all rows in memory name a way to less memory when they refuse an input, and that way works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

HINT = "make a smaller file: herd convert INPUT --columns NAME,… -o FILE.h5; or raise --max-memory if the machine has it"
SIZES = {"gls": (200, 800)}  # its covariances take 24 bytes for each pair of rows
SIZE = (1000, 160)  # rows and columns, 1.3 MB
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


def write_table(path: Path, rows: int, columns: int, *, binary: bool = False) -> None:
    """Columns x0, x1, … of noise, and t, which x0 predicts."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, columns))
    target = X[:, 0] + random.normal(size=rows)
    if binary:
        X, target = (X > 0).astype(float), (target > 0).astype(np.int64)
    pq.write_table(pa.table({f"x{column}": X[:, column] for column in range(columns)} | {"t": target}), path)


@pytest.mark.parametrize("name", [*REAL, *BINARY])
def test_a_refused_input_names_a_way_that_works(herd: Callable, tmp_path: Path, name: str) -> None:
    source, smaller = tmp_path / "wide.parquet", tmp_path / "smaller.h5"
    write_table(source, *SIZES.get(name, SIZE), binary=name in BINARY)
    command, *options = (REAL | BINARY)[name]
    refused = herd(command, source, *options, "--max-memory", "1M", "-o", tmp_path / "model.h5")
    assert refused.code == 65
    lines = refused.err.splitlines()
    size = re.escape(f"herd {command}: {source}: needs ") + r"1\.\d+ MB of memory, more than the 1 MB allowed"
    assert re.fullmatch(size, lines[-2])
    label = ["--label", "t"] if name == "fit-rbm" else []  # a sealed file has the labels that it was written with
    assert lines[-1] == f"hint: {HINT}".replace(" -o", " ".join(["", *label, "-o"]))
    kept = "x0:x2" if name in ("hmm", "lds", "fit-mrf") else "x0:x2,t"
    assert herd("convert", source, "--columns", kept, *label, "-o", smaller).code == 0
    assert herd(command, smaller, *options, "--max-memory", "1M", "-o", tmp_path / "model.h5").code == 0


def test_columns_that_are_not_read_take_no_memory(herd: Callable, tmp_path: Path) -> None:
    write_table(tmp_path / "wide.parquet", *SIZE)
    few = herd(
        "convert", tmp_path / "wide.parquet", "--columns", "x1,3,t", "--split", "1,0,0", "--max-memory", "1M", "-o", tmp_path / "few.csv"
    )
    assert few.code == 0, few.err
    random = np.random.default_rng(0).normal(size=SIZE)
    header, *lines = (tmp_path / "few.csv").read_text().splitlines()
    assert header == "x1,x2,t,split"
    np.testing.assert_array_equal([[float(cell) for cell in line.split(",")[:2]] for line in lines], random[:, 1:3])
    named = herd("convert", tmp_path / "wide.parquet", "--drop", "x5:t", "--max-memory", "1M", "-o", tmp_path / "few.parquet")
    assert named.code == 0, named.err
    assert pq.read_table(tmp_path / "few.parquet").column_names == ["x0", "x1", "x2", "x3", "x4"]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_a_refused_conversion_names_what_is_converted_in_parts(herd: Callable, tmp_path: Path, name: str) -> None:
    write_table(tmp_path / "rows.parquet", *SIZE)
    assert herd("convert", tmp_path / "rows.parquet", "-o", tmp_path / "rows.csv").code == 0
    refused = herd("convert", tmp_path / name, "--max-memory", "1M", "-o", tmp_path / "rows.npz")
    in_parts = "only HDF5 and Parquet files with unchanged rows are converted in parts, to HDF5, Parquet or CSV"
    fewer = "make a smaller file: herd convert INPUT --columns NAME,… -o FILE.h5"  # which the test above does
    assert refused.code == 65
    assert refused.err.endswith(f"hint: {fewer if name == 'rows.parquet' else in_parts}; or {RAISED}\n"), refused.err


SEQUENCES = "--sequence COLUMN with shorter sequences, --columns NAME,… or fewer --components"
RAISED = "raise --max-memory if the machine has it"


@pytest.mark.parametrize(
    ("options", "bound", "what", "smaller"),
    [
        ("--model hmm --components 30", 8, "states of a block of sequences would take 11.1 MB", "--components 4"),
        ("--model hmm --components 4", 4, "states of a block of sequences would take 6.6 MB", "--columns x0:x4"),
        ("--model lds --components 6", 2, "the moments of the states would take 6.19 MB", "--components 2"),
    ],
)
def test_a_refused_fit_of_sequences_names_what_takes_less(
    herd: Callable, tmp_path: Path, options: str, bound: int, what: str, smaller: str
) -> None:
    write_table(tmp_path / "rows.parquet", 2500, 20)
    words = ["em", tmp_path / "rows.parquet", *options.split(), "--iterations", "1", "-o", tmp_path / "model.h5", "--max-memory"]
    refused = herd(*words, f"{bound}M")
    assert refused.code == 65
    says = f"herd em: {tmp_path}/rows.parquet: {what}, more than the {bound} MB allowed\nhint: {SEQUENCES}; or {RAISED}\n"
    assert refused.err.endswith(says), refused.err
    assert herd(*words, f"{bound}M", *smaller.split()).code == 0


BAYES = ["--algorithm", "bayes", "--label", "none", "--structure", "hill-climb", "--smoothing", "1", "--on-nonconvergence", "warn"]


@pytest.mark.parametrize(
    ("gaps", "hint", "smaller"),
    [
        (False, "make a smaller file: herd convert INPUT --columns NAME,… -o FILE.h5", ["--columns", "x0:x3"]),
        (True, "use --structure chow-liu or a smaller --max-parents, which need smaller tables", ["--max-parents", "1"]),
    ],
)
def test_a_refused_bayesian_network_names_what_takes_less(
    herd: Callable, tmp_path: Path, gaps: bool, hint: str, smaller: list[str]
) -> None:
    random, rows = np.random.default_rng(0), 400 if gaps else 4000
    x = random.integers(0, 2, size=(rows, 12))
    for column in range(3, 12):  # the sum of three earlier columns decides, in nine rows of ten
        x[:, column] = (x[:, column - 3 : column].sum(axis=1) > 1) ^ (random.random(rows) < 0.1)
    columns = {f"x{j}": pa.array(x[:, j].astype(np.uint8), mask=gaps & (random.random(rows) < 0.02)) for j in range(12)}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    bound = "700000" if gaps else "200000"
    words = ["fit-mrf", tmp_path / "rows.parquet", *BAYES, "--iterations", "2", "--max-memory", bound, "-o", tmp_path / "model.h5"]
    refused = herd(*words)
    assert refused.code == 65
    assert "the junction tree over the rows would take" in refused.err, refused.err
    assert refused.err.endswith(f"hint: {hint}; or {RAISED}\n")
    assert herd(*words, *smaller).code == 0
