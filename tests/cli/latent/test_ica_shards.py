"""`herd ica --one-pass`: the bytes of one run from any number of shards, one model from any storage, and refusals."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import row_storages as stored
from row_storages import shards

from herdcli import artifacts
from herdcli.artifacts.rows import lazy_matrix
from herdcli.cli.ica import one_pass
from herdcli.ica import block_moments

ROWS = 61  # blocks of eight below, the last one short
RANDOM = np.random.default_rng(12)
X = (RANDOM.laplace(size=(ROWS, 3)) @ RANDOM.normal(size=(3, 3)) + 9.0).round(3)
SPLIT = np.arange(ROWS) % 5 % 3
LINE = ["--one-pass", "--iterations", "5"]
FIT = ["J", "power", "kurtosis", "whitening.mean", "whitening.forward", "whitening.variance", "holdout"]


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    stored.few_rows(monkeypatch)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(block_moments, "LEARNED", 10)
    monkeypatch.setattr(block_moments, "HELD", 4)


@pytest.fixture
def storages(tmp_path):
    """storages(**columns) writes rows as HDF5, text, Parquet and several Parquet files, and returns their names."""

    def write(**columns):
        os.chdir(tmp_path)
        return stored.write(X, ["a", "b", "c"], columns)

    return write


def numbers(path):
    """What was learned, as bytes."""
    value = artifacts.load(path).value
    fields = vars(value) | {f"whitening.{name}": item for name, item in vars(value.whitening).items()}
    return {name: fields[name].tobytes() for name in FIT if fields[name] is not None} | {"names": value.feature_names}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, ["--split", "1,0,0"]),
        ({"split": SPLIT}, ["--split-column", "split", "--whiten", "centre"]),
        ({"y": np.arange(ROWS) % 2}, ["--label", "y", "--log", "--split", ".8,.1,.1", "--components", "2"]),
    ],
    ids=["rows", "a split", "logarithms and a split that is drawn"],
)
def test_shards_and_storages_make_one_model(run, storages, few, columns, words):
    made = []
    for path in storages(**columns):
        line = ["ica", path, *LINE, *words]
        assert run(*line, "-o", "whole.h5").code == 0
        for count in (1, 2, 16) if path.endswith(".h5") and not columns else (3,):
            assert run("merge", *reversed(shards(run, line, count)), "-q", "-o", "merged.h5").code == 0
            assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes(), (path, count)
        made.append(numbers("whole.h5"))
    assert made[1:] == made[:-1]


@pytest.mark.parametrize("words", [[], ["--log"], ["--whiten", "fa", "--components", "1"], ["--algorithm", "infomax", "--rates", "0.01x9"]])
def test_few_rows_are_learned_from_as_without_one_pass(run, storages, words):
    """To the last bit: all of them are kept, and sums are the same."""
    path = storages()[0]
    asked = ["--split", "1,0,0", *(words if "infomax" in words else [*words, "--iterations", "5"])]
    assert run("ica", path, *asked, "--one-pass", "-o", "one.h5").code == 0
    assert run("ica", path, *asked, "-o", "many.h5").code == 0
    assert numbers("one.h5") == numbers("many.h5")


def test_fewer_rows_than_columns(run, tmp_path):
    Path("wide.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in RANDOM.normal(size=(5, 9)).round(3).tolist()))
    line = ["ica", "wide.csv", *LINE, "--components", "2"]
    assert run(*line, "-o", "whole.h5").code == 0
    assert run(*line[:2], *line[3:], "-o", "many.h5").code == 0
    assert numbers("whole.h5") == numbers("many.h5")
    assert run("merge", *shards(run, line, 2), "-q", "-o", "merged.h5").code == 0
    assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes()


def test_all_rows_whiten_and_some_are_learned_from(run, storages, few):
    path = storages(split=SPLIT)[1]
    ended = run("ica", path, *LINE, "--split-column", "split", "-o", "one.h5")
    assert "the whitening uses 25 rows; the filters are learned from 10 of them, evenly spaced" in ended.err
    assert "4 of 12 test rows, evenly spaced, are stored in the model for herd eval" in ended.err
    value = artifacts.load("one.h5").value
    np.testing.assert_allclose(value.whitening.mean, X[SPLIT == 0].mean(axis=0), rtol=1e-12)
    assert (value.rows, value.holdout.shape) == (10, (4, 3))
    places = np.flatnonzero(SPLIT == 2)
    np.testing.assert_allclose(value.holdout, value.whitening.apply(X[places[np.arange(4) * 12 // 4]]), rtol=1e-6)


def test_rows_stay_in_large_files(run, storages, few, monkeypatch):
    """The same bytes, and no more than some blocks in memory."""
    path = storages()[0]
    assert run("ica", path, *LINE, "-o", "held.h5").code == 0
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    monkeypatch.setattr(one_pass, "_rows_in_memory", None)
    assert run("ica", path, *LINE, "-o", "read.h5").code == 0
    assert Path("read.h5").read_bytes() == Path("held.h5").read_bytes()


def test_columns_of_text_and_a_known_mixing(run, storages):
    """Levels, which all rows say: every shard reads all of them."""
    storages(kind=np.array(["x", "y", "z"])[np.arange(ROWS) % 3])
    Path("mixing.csv").write_text("1,0\n" * 6)
    line = ["ica", "rows.csv", *LINE, "--components", "4", "--mixing", "mixing.csv"]
    assert run(*line, "-o", "whole.h5").code == 0
    assert run("merge", *shards(run, line, 2), "-q", "-o", "merged.h5").code == 0
    assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes()
    assert artifacts.load("merged.h5").value.mixing.shape == (6, 2)


def test_constant_columns_are_told(run, storages):
    storages(d=np.full(ROWS, 0.1))
    ended = run("ica", "rows.parquet", *LINE, "-o", "out.h5")
    assert ended.code == 0
    assert "1 of 4 columns are constant (first: column 'd')" in ended.err
    assert "rows vary in 3 of 4 directions: 1 component was dropped" in ended.err


REFUSED = {
    "rounds": (
        ["--shard", "1/2"],
        2,
        "--shard: every iteration needs all rows, so the run cannot be divided into shards\n"
        "hint: use --cluster WHERE, which distributes the rows over workers; --shard works with --one-pass",
    ),
    "rows in time": (
        ["--one-pass", "--algorithm", "sobi"],
        2,
        "--algorithm sobi needs consecutive rows, but --one-pass keeps rows that are far apart\nhint: use --algorithm ml",
    ),
    "sources": (
        ["--one-pass", "--mix", "random"],
        2,
        "--one-pass and --mix exclude each other\nhint: leave one of them out",
    ),
    "negative logarithms": (
        ["--one-pass", "--log", "--split", "1,0,0"],
        65,
        "rows.csv: /X has negative values, first in line 15, but log(1 + x) needs values of 0 or more",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_moments_do_not_give(run, storages, monkeypatch, name):
    far = X.copy()
    far[13, 1] = -2.0
    monkeypatch.setitem(globals(), "X", far)
    storages()
    words, code, told = REFUSED[name]
    ended = run("ica", "rows.csv", *words, "-q", "-o", "out.h5")
    assert (ended.code, ended.err) == (code, f"herd ica: {told}\n")
    assert not Path("out.h5").exists()


def test_too_few_rows_are_told_by_merge_as_by_one_run(run, tmp_path):
    Path("rows.csv").write_text("1,2,3\n2,1,5\n")
    line = ["ica", "rows.csv", *LINE, "--split", "1,0,0"]
    ended = run(*line, "-q", "-o", "out.h5")
    told = "/X has only 2 training rows, too few for 3 columns\nhint: use --components 1, or more rows\n"
    assert (ended.code, ended.err) == (65, f"herd ica: rows.csv: {told}")
    ended = run("merge", *shards(run, line, 2), "-q", "-o", "out.h5")
    assert (ended.code, ended.err.endswith(told)) == (65, True)
