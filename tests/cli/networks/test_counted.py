"""`herd fit-mrf` of counted rows: the bytes of one run from any number of shards, one network from any storage, and refusals."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
import row_storages as stored
from pyarrow import parquet
from row_storages import shards

from herdcli import artifacts
from herdcli.artifacts.rows import lazy_matrix
from herdcli.artifacts.sealed import seal_header
from herdcli.cli.fit_mrf import row_readers

ROWS = 61  # blocks of eight below, the last one short
RANDOM = np.random.default_rng(7)
NAMES = ["a", "b", "c", "d"]
STATES = RANDOM.integers(0, 3, (ROWS, 4)) * np.array([1, 1, 0, 1]) + (RANDOM.random((ROWS, 4)) < 0.3)
STATES[:40, 1] = np.minimum(STATES[:40, 1], 1)  # later blocks have states more
SPLIT = np.arange(ROWS) % 5 % 3
LABELS = RANDOM.integers(0, 2, ROWS)
WEIGHTS = RANDOM.random(ROWS).round(3)
GREY = np.where(np.arange(ROWS)[:, None] % 7 == 0, 9.0, RANDOM.integers(0, 10, (ROWS, 4)).astype(float))


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    stored.few_rows(monkeypatch, row_readers)


def table(X, **more):
    return pa.table({name: X[:, i] for i, name in enumerate(NAMES)} | more)


def text(X, path, **more):
    columns = [*X.T, *more.values()]
    lines = [",".join([*NAMES, *more]), *(",".join(f"{value:g}" for value in row) for row in zip(*columns, strict=True))]
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.fixture
def storages(tmp_path):
    """storages(X, **columns) writes rows as text, HDF5, Parquet and several Parquet files, and returns their names."""

    def write(X, **more):
        os.chdir(tmp_path)
        return stored.write(X, NAMES, more, "{:g}".format)

    return write


def numbers(path):
    """All of a network and of its fit, as bytes."""
    found = artifacts.load(path).value
    values = vars(found) | {f"fit {name}": value for name, value in vars(found.fit).items()}
    return {name: value.tobytes() if isinstance(value, np.ndarray) else repr(value) for name, value in values.items() if name != "fit"}


@pytest.mark.parametrize(
    ("columns", "roles"),
    [
        ({"split": SPLIT}, ["--split-column", "split"]),
        ({"y": LABELS, "weight": WEIGHTS}, ["--label", "y", "--weights", "weight"]),
    ],
    ids=["rows with a split", "rows with labels and weights"],
)
def test_shards_and_storages_make_one_network(run, storages, columns, roles):
    made = []
    for path in storages(STATES, **columns):
        line = ["fit-mrf", path, *roles]
        assert run(*line, "-o", "whole.h5").code == 0
        for count in (1, 2, 16):
            assert run("merge", *reversed(shards(run, line, count)), "-o", "merged.h5").code == 0
            assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes(), (path, count)
        made.append(numbers("whole.h5"))
    assert made[1:] == made[:-1]


FORMS = {
    "clusters of three": ["--clusters", "three.txt", "--smoothing", "1"],
    "pairs": ["--edges", "edges.txt"],
    "near another network": ["--base", "base.h5", "--structure", "independent", "--smoothing", ".5"],
    "regions": ["--algorithm", "loopy-is", "--clusters", "three.txt", "--regions", "regions.txt", "--smoothing", "1"],
    "cliques of the largest information": ["--algorithm", "cvm", "--max-clique", "3", "--smoothing", "1"],
    "induced pairs": ["--structure", "independent", "--induce", "2", "--smoothing", "1"],
    "a gradient": ["--algorithm", "gradient", "--iterations", "30", "--smoothing", "1"],
    "all pairs": ["--structure", "full", "--smoothing", "1"],
    "another split": ["--split", ".5,.2,.3", "--seed", "4", "--smoothing", "2"],
    "without rows that are kept": ["--split", "1,0,0"],
}


@pytest.mark.parametrize("name", FORMS)
def test_merged_shards_are_the_bytes_of_one_run(run, storages, name):
    storages(STATES, y=LABELS)
    Path("three.txt").write_text("a b d\nb c\n")
    Path("edges.txt").write_text("a b\nc d\n")
    Path("regions.txt").write_text("a b d\nb c d\n")
    plain = ["fit-mrf", "rows.csv", "--label", "y"]
    assert run(*plain, "--clusters", "three.txt", "--smoothing", "1", "-q", "-o", "base.h5").code == 0
    line = [*plain, *FORMS[name]]
    assert run(*line, "-o", "whole.h5").code == 0
    merged = run("merge", *shards(run, line, 3), "-o", "merged.h5")
    assert merged.code == 0, merged.err
    assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes()


@pytest.mark.parametrize("words", [["--range", "0,9"], ["--range", "0,9", "--threshold", ".7"]], ids=["a range", "a threshold"])
def test_grey_rows_of_a_range_are_read_by_parts(run, storages, words):
    for path in storages(GREY):
        line = ["fit-mrf", path, "--smoothing", "1", *words]
        assert run(*line, "-o", "whole.h5").code == 0
        assert run("merge", *shards(run, line, 2), "-q", "-o", "merged.h5").code == 0
        assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes()


@pytest.mark.parametrize("form", ["h5", "parquet"])
def test_what_a_data_set_of_herd_declares_is_heeded_by_shards(run, tmp_path, form):
    assert run("data", "digits", "-q", "-o", f"digits.{form}").code == 0
    line = ["fit-mrf", f"digits.{form}", "--structure", "grid", "--smoothing", "1", "--algorithm", "loopy-is", "--iterations", "2"]
    assert run(*line, "-q", "-o", "whole.h5").code == 0
    assert run("merge", *shards(run, line, 2), "-q", "-o", "merged.h5").code == 0
    assert (tmp_path / "merged.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()
    assert artifacts.load("merged.h5").value.shape.tolist() == [8, 8]


@pytest.mark.parametrize("split", [np.arange(ROWS) // 31, np.array(["train", "valid"])[np.arange(ROWS) % 3 % 2]], ids=["0 and 1", "names"])
def test_what_parts_mean_is_said_by_all_rows(run, storages, tmp_path, split):
    """A column of 0 and 1 alone means train and test, of which a stretch may have one kind only; names mean what they say."""
    rows = np.column_stack([STATES.astype(object), split])
    parquet.write_table(table(STATES, split=split), tmp_path / "rows.parquet", row_group_size=13)
    (tmp_path / "rows.csv").write_text("\n".join([",".join([*NAMES, "split"]), *(",".join(map(str, row)) for row in rows)]) + "\n")
    for path in ("rows.csv", "rows.parquet"):
        line = ["fit-mrf", path, "--split-column", "split", "--smoothing", "1"]
        assert run(*line, "-q", "-o", "whole.h5").code == 0
        assert set(artifacts.load("whole.h5").value.fit.holdout_split.tolist()) == ({2} if split.dtype.kind == "i" else {1})
        assert run("merge", *shards(run, line, 3), "-q", "-o", "merged.h5").code == 0
        assert (tmp_path / "merged.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def test_columns_of_text_are_read_whole_by_each_shard(run, tmp_path):
    rows = [f"{'red' if row % 3 else 'blue'},{row % 2}" for row in range(40)]
    (tmp_path / "colours.csv").write_text("\n".join(["colour,on", *rows]) + "\n")
    line = ["fit-mrf", "colours.csv", "--smoothing", "1"]
    assert run(*line, "-q", "-o", "whole.h5").code == 0
    assert run("merge", *shards(run, line, 3), "-q", "-o", "merged.h5").code == 0
    assert (tmp_path / "merged.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def test_large_files_are_counted_where_they_are(run, storages, monkeypatch):
    storages(STATES, y=LABELS)
    assert run("fit-mrf", "rows.h5", "-q", "-o", "whole.h5").code == 0
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    monkeypatch.setattr(row_readers, "rows_in_memory", None)
    assert run("fit-mrf", "rows.h5", "-q", "-o", "counted.h5").code == 0
    assert Path("counted.h5").read_bytes() == Path("whole.h5").read_bytes()


def test_large_files_whose_values_all_rows_decide_are_read_whole(run, storages, monkeypatch):
    storages(np.where(STATES > 1, 5, 2))
    assert run("fit-mrf", "rows.h5", "--values", "two", "-q", "-o", "whole.h5").code == 0
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    assert run("fit-mrf", "rows.h5", "--values", "two", "-q", "-o", "counted.h5").code == 0
    assert Path("counted.h5").read_bytes() == Path("whole.h5").read_bytes()


UNCLEAR = "which is ambiguous if only a part of the rows is read"


@pytest.mark.parametrize(
    ("X", "words", "code", "told"),
    [
        (
            GREY + 0.5,
            [],
            65,
            f"rows.csv: column 0 has 9.5 in line 2, {UNCLEAR}\n"
            "hint: decide for all rows: --values states, or --values two with --range LO,HI\n",
        ),
        (
            GREY + 0.5,
            ["--values", "states"],
            65,
            "rows.csv: column 0 has 9.5 in line 2, which is ambiguous if only a part of the rows is read\n"
            "hint: write states as 0 to 63, or leave out --shard and --cluster to use other codes\n",
        ),
        (
            GREY,
            ["--range", "0,5"],
            65,
            "rows.csv: /X has values from 0 to 9, outside the value range 0 to 5\nhint: declare another one: --range 0,9\n",
        ),
    ],
    ids=["grey", "states", "outside the range"],
)
def test_values_that_shards_cannot_read(run, storages, X, words, code, told):
    storages(X)
    ended = run("fit-mrf", "rows.csv", *words, "--shard", "1/2", "-q", "-o", "shard.h5")
    assert (ended.code, ended.err) == (code, f"herd fit-mrf: {told}")


def test_two_values_that_all_rows_together_read_otherwise(run, storages):
    storages(np.where(STATES > 1, 3.0, 1.0))
    line = ["fit-mrf", "rows.csv", "--range", "0,9"]
    ended = run("merge", *shards(run, line, 2), "-q", "-o", "merged.h5")
    assert (ended.code, ended.err) == (
        65,
        f"herd merge: shard-2.h5: has no other values than 1 and 3, {UNCLEAR}\nhint: use --threshold F\n",
    )


BY_ROWS = {
    "--algorithm bayes": "shards and workers exchange only counts of rows, which do not suffice for --moments, --feature-clusters, "
    "--structure l1, --algorithm bayes and sampled gradients",
    "--algorithm pseudo-likelihood": "use --cluster WHERE, which works with pseudo-likelihood",
}


@pytest.mark.parametrize("words", BY_ROWS)
def test_what_is_learned_from_rows_has_no_shards(run, storages, words):
    storages(STATES)
    ended = run("fit-mrf", "rows.csv", *words.split(), "--shard", "1/2", "-q", "-o", "shard.h5")
    told = "herd fit-mrf: --shard divides a run into its parts, but this run has only one part\n"
    assert (ended.code, ended.err) == (2, f"{told}hint: {BY_ROWS[words]}\n")


def test_a_shard_resumes_and_has_an_estimate(run, storages):
    storages(STATES)
    line = ["fit-mrf", "rows.csv", "--shard", "1/2"]
    assert run(*line, "-q", "-o", "shard.h5").code == 0
    assert run(*line, "-q", "-o", "again.h5", "--checkpoint", "state", "--resume", "--every", "1").code == 0
    assert Path("again.h5").read_bytes() == Path("shard.h5").read_bytes()
    assert run(*line, "--dry-run").out.startswith("counting: 4 steps, about ")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("holdout", 9, "is damaged: a held-out row has a state number that is out of range"),
        ("holdout_split", 3, "holdout_split has 3, but the allowed values are 1 … 2"),
    ],
)
def test_shards_with_held_out_rows_that_no_variable_has(run, storages, name, value, told):
    """A file that somebody has changed and sealed."""
    shards(run, ["fit-mrf", storages(STATES, split=SPLIT)[0], "--smoothing", "1"], 2)
    with h5py.File("shard-1.h5", "r+") as file:
        file[f"parts/0/{name}"][...] = value
    seal_header.write_seal("shard-1.h5", "network-shard")
    ended = run("merge", "shard-1.h5", "shard-2.h5", "-o", "out.h5")
    assert ended.code == 65, ended.err
    assert told in ended.err
