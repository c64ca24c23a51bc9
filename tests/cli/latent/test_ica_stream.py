"""`herd ica` of rows that stay in their file: the bytes of rows in memory, whatever the format, and what it says of bad ones."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.artifacts.rows import lazy_matrix
from herdcli.cli.ica import inputs
from herdcli.ica import block_moments, maximum_likelihood

ROWS = 20_000  # five blocks of 4,096, the last one short
RANDOM = np.random.default_rng(5)
X = np.abs(RANDOM.laplace(size=(ROWS, 4)) @ RANDOM.standard_normal((4, 4)) + 3.0).astype(np.float32)
SPLIT = np.tile([0, 0, 0, 1, 2], ROWS // 5).astype(np.uint8)


def unsealed(run):
    with h5py.File("in.h5", "w") as file:
        file["X"] = X
        file["split"] = SPLIT
        file.attrs["image_shape"] = [2, 2]
    return "in.h5"


def pressed(run):
    """Chunks, compressed, and columns with names."""
    with h5py.File("in.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(999, 4), compression="gzip", compression_opts=1)
        file["feature_names"] = ["a", "b", "c", "d"]
    return "in.h5"


def converted(name, of=unsealed):
    def make(run):
        assert run("convert", of(run), "-o", f"made{name}").code == 0
        return f"made{name}"

    make.__name__ = name.strip(".")
    return make


def numbers(run):
    """Text with splits and labels as numbers."""
    rows = (",".join(map(repr, row)) for row in np.column_stack([X.astype(float), SPLIT, np.arange(ROWS) % 3]).tolist())
    Path("in.csv").write_text("a,b,c,d,split,y\n" + "\n".join(rows) + "\n")
    return "in.csv"


@pytest.fixture
def streaming(monkeypatch):
    """Files of any size stay where they are."""

    def begin():
        monkeypatch.setattr(lazy_matrix, "LEAST", 1)
        real = inputs._whitened_rows

        def told(session, train, fitted):
            assert not isinstance(train, np.ndarray)
            return real(session, train, fitted)

        monkeypatch.setattr(inputs, "_whitened_rows", told)

    return begin


CASES = [
    (unsealed, ()),
    (unsealed, ("--log", "--components", "80%")),
    (unsealed, ("--whiten", "fa", "--components", 1)),
    (pressed, ("--density", "logistic")),
    (converted(".h5"), ("--split", "8000,0,2000", "--seed", 3)),
    (converted(".parquet", pressed), ("--split", "8000,0,2000")),
    (converted(".csv", pressed), ("--whiten", "centre")),
    (numbers, ()),
]


@pytest.mark.parametrize(("make", "line"), CASES, ids=lambda item: item.__name__ if callable(item) else "-".join(map(str, item)) or "plain")
def test_rows_that_stay_in_their_file_give_the_bytes_of_rows_in_memory(run, streaming, tmp_path, make, line):
    name = make(run)
    made = run("ica", name, *line, "-j", 1, "-o", "held.h5")
    assert made.code == 0, made.err
    streaming()
    again = run("ica", name, *line, "-j", 2, "-o", "read.h5")
    assert again.code == 0, again.err
    assert Path("held.h5").read_bytes() == Path("read.h5").read_bytes()
    assert again.err.splitlines()[:-1] == made.err.splitlines()[:-1]
    if make is unsealed:
        value = load("read.h5").value
        assert value.rows == 12_000
        assert value.holdout.shape[0] == 4000
        assert value.image_shape.tolist() == [2, 2]


def test_held_out_rows_are_kept_up_to_a_bound(run, monkeypatch):
    monkeypatch.setattr(block_moments, "HELD", 100)
    made = run("ica", unsealed(run), "--iterations", 2, "-o", "a.h5")
    assert made.code == 0
    assert "100 of 4 000 test rows, evenly spaced, are stored in the model for herd eval" in made.err
    assert load("a.h5").value.holdout.shape == (100, 4)


@pytest.mark.parametrize(
    ("value", "line", "message"),
    [
        (np.nan, (), "bad.h5: /X has 1 NaN row (first: row 9000)"),
        (np.inf, (), "bad.h5: /X has 1 infinite row (first: row 9000)"),
        (-2.0, ("--log",), "bad.h5: /X has negative values, first in row 9000, but log(1 + x) needs values of 0 or more"),
        (1e200, (), "bad.h5: /X has the value 1e+200, but absolute values above 1e+100 are too large for sums of squares"),
    ],
)
def test_rows_that_cannot_be_learned_from_are_named(run, streaming, value, line, message):
    bad = X.astype(np.float64)
    bad[9000, 2] = value
    with h5py.File("bad.h5", "w") as file:
        file["X"] = bad
    streaming()
    ended = run("ica", "bad.h5", *line, "--split", "1,0,0", "-o", "a.h5")
    assert ended.code == 65
    assert ended.err.startswith(f"herd ica: {message}"), ended.err
    assert not Path("a.h5").exists()


def test_constant_columns_are_told_of_rows_in_a_file(run, streaming):
    with h5py.File("in.h5", "w") as file:
        file["X"] = np.column_stack([X, np.full(ROWS, 0.1, np.float32)])
    streaming()
    made = run("ica", "in.h5", "--iterations", 2, "-o", "a.h5")
    assert made.code == 0
    assert "1 of 5 columns are constant (first: column 4)" in made.err
    assert "rows vary in 4 of 5 directions: 1 component was dropped" in made.err


def test_a_run_of_rows_in_a_file_is_resumed_to_the_same_bytes(run, streaming):
    name = unsealed(run)
    streaming()
    assert run("ica", name, "-o", "plain.h5").code == 0
    assert run("ica", name, "--max-memory", "1G", "--checkpoint", "c", "-o", "again.h5").code == 0
    assert Path("plain.h5").read_bytes() == Path("again.h5").read_bytes()


def test_what_must_be_in_memory_is_read_into_it(run, monkeypatch):
    """Other algorithms, sources that are mixed first, rows whose gaps are filled, and MATLAB's matrices, which lie across."""
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    name = unsealed(run)
    for line in (("--algorithm", "sobi", "--lags", 2), ("--mix", "random"), ("--missing", "mean")):
        made = run("ica", name, *line, "-o", "a.h5")
        assert made.code == 0, made.err
    with h5py.File("across.h5", "w") as file:
        file["X"] = X[:100].T
        file["X"].attrs["MATLAB_class"] = b"single"
    assert run("ica", "across.h5", "-o", "a.h5").code == 0
    assert load("a.h5").value.rows == 60


def test_a_file_that_changes_between_two_passes_is_told(run, streaming, tmp_path, monkeypatch):
    """With workers or without: a pass over other rows than those of the pass before would fit neither."""
    unsealed(run)
    streaming()
    before = maximum_likelihood.MaximumLikelihood.step

    def changed(self, state):
        with open("in.h5", "r+b") as file:
            file.seek(-1, 2)
            file.write(b"\0")
        os.utime("in.h5", ns=(1, 1))
        return before(self, state)

    monkeypatch.setattr(maximum_likelihood.MaximumLikelihood, "step", changed)
    ended = run("ica", "in.h5", "-q", "-o", "out.h5")
    assert (ended.code, ended.err) == (65, "herd ica: in.h5: the file changed during the run\nhint: run it again\n")
    assert not (tmp_path / "out.h5").exists()
