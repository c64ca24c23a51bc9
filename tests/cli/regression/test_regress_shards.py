"""`herd regress --one-pass`: the bytes of one run from any number of shards, one regression from any storage, and refusals."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import row_storages as stored
from row_storages import shards

from herdcli import artifacts
from herdcli.artifacts.rows import lazy_matrix
from herdcli.cli.regress import one_pass
from herdcli.regression import block_sums

ROWS = 61  # blocks of eight below, the last one short
RANDOM = np.random.default_rng(11)
X = RANDOM.normal(size=(ROWS, 3)).round(3)
MORE = {"price": (X @ [1.0, -2.0, 0.5] + RANDOM.normal(size=ROWS)).round(3), "away": RANDOM.normal(size=ROWS).round(3)}
WEIGHTS = RANDOM.uniform(0.5, 2.0, ROWS).round(3)
SPLIT = np.arange(ROWS) % 5 % 3
LINE = ["--target", "price", "--one-pass"]


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    stored.few_rows(monkeypatch)


@pytest.fixture
def storages(tmp_path):
    """storages(**columns) writes rows as HDF5, text, Parquet and several Parquet files, and returns their names."""

    def write(**more):
        os.chdir(tmp_path)
        return stored.write(X, ["a", "b", "c"], MORE | more)

    return write


def numbers(path):
    """All of a regression, as bytes."""
    value = artifacts.load(path).value
    found = vars(value) | {f"holdout {name}": item for name, item in vars(value.holdout).items()}
    return {name: item.tobytes() if isinstance(item, np.ndarray) else repr(item) for name, item in found.items() if name != "holdout"}


@pytest.mark.parametrize(
    ("columns", "words"),
    [({"split": SPLIT}, []), ({"weight": WEIGHTS}, ["--l1", "0.05"]), ({"w": WEIGHTS}, ["--weights", "w", "--l2", "0.1"])],
    ids=["a split", "weights", "weights by name"],
)
def test_shards_and_storages_make_one_regression(run, storages, columns, words):
    made = []
    for path in storages(**columns):
        line = ["regress", path, *LINE, "--offset", "away", *words]
        assert run(*line, "-o", "whole.h5").code == 0
        for count in (1, 2, 16):
            assert run("merge", *reversed(shards(run, line, count)), "-o", "merged.h5").code == 0
            assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes(), (path, count)
        made.append(numbers("whole.h5"))
    assert made[1:] == made[:-1]


def test_one_pass_says_what_many_do(run, storages):
    storages()
    assert run("regress", "rows.csv", *LINE, "-o", "one.h5").code == 0
    assert run("regress", "rows.csv", "--target", "price", "--family", "gaussian", "-o", "many.h5").code == 0
    one, many = (artifacts.load(name).value for name in ("one.h5", "many.h5"))
    for name in ("coefficients", "intercept", "standard_error", "robust_error", "deviance", "log_likelihood", "null_deviance"):
        np.testing.assert_allclose(getattr(one, name), getattr(many, name), rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(one.holdout.predictor, many.holdout.predictor, rtol=1e-9)


def test_rows_stay_in_large_files(run, storages, monkeypatch):
    """The same bytes, and no more than some blocks in memory."""
    path = storages()[0]
    assert run("regress", path, *LINE, "-o", "held.h5").code == 0
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    monkeypatch.setattr(one_pass, "_rows_in_memory", None)
    assert run("regress", path, *LINE, "-o", "read.h5").code == 0
    assert Path("read.h5").read_bytes() == Path("held.h5").read_bytes()


def test_merged_shards_are_a_table_too(run, storages):
    storages()
    line = ["regress", "rows.csv", *LINE]
    assert run(*line, "-o", "whole.csv").code == 0
    assert run("merge", *shards(run, line, 2), "-o", "merged.csv").code == 0
    assert Path("merged.csv").read_bytes() == Path("whole.csv").read_bytes()


def test_what_all_rows_must_be_seen_for_is_read_whole_by_every_shard(run, storages):
    """Columns of text, whose levels all rows say."""
    storages(kind=np.array(["x", "y", "z"])[np.arange(ROWS) % 3])
    line = ["regress", "rows.csv", *LINE]
    assert run(*line, "-o", "whole.h5").code == 0
    assert run("merge", *shards(run, line, 3), "-o", "merged.h5").code == 0
    assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes()
    assert artifacts.load("whole.h5").value.feature_names == ["a", "b", "c", "away", "kind=y", "kind=z"]


def test_few_whole_numbers_are_numbers(run, tmp_path):
    Path("rows.csv").write_text("a,y\n" + "".join(f"{n * n % 7},{n % 4}\n" for n in range(40)))
    line = ["regress", "rows.csv", "--one-pass"]
    ended = run(*line, "-q", "-o", "whole.h5")
    assert (ended.code, ended.err) == (0, "")
    assert run("merge", *shards(run, line, 2), "-o", "merged.h5").code == 0
    assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes()


@pytest.mark.parametrize(
    ("columns", "words"),
    [({"kind": np.array(["x", "y", "z"])[np.arange(ROWS) % 3]}, []), ({}, ["--keep", "away"]), ({"y": np.arange(ROWS) % 4}, [])],
    ids=["columns of text", "a further column", "labels"],
)
def test_data_sets_of_herd_with_more_than_numbers(run, storages, columns, words):
    storages(**columns)
    assert run("convert", "rows.csv", *words, "-q", "-o", "sealed.h5").code == 0
    line = ["regress", "sealed.h5", *LINE, *(["--offset", "away"] if words else [])]
    ended = run(*line, "-q", "-o", "whole.h5")
    assert ended.code == 0, ended.err
    assert run("merge", *shards(run, line, 2), "-o", "merged.h5").code == 0
    assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--target", "kind"], 65, "rows.h5: the target 'kind' holds class names, but --one-pass needs numbers"),
        (["--target", "price", "--weights", "weight"], 2, None),
    ],
    ids=["numbers of names", "a name with a meaning"],
)
def test_names_in_a_file_mean_to_a_shard_what_they_mean_to_all(run, storages, words, code, told):
    storages(weight=WEIGHTS)
    with h5py.File("rows.h5", "a") as file:
        file["kind"], file["kind_names"] = np.arange(ROWS) % 2, ["no", "yes"]
    ended = [run("regress", "rows.h5", *words, "--one-pass", *shard, "-q", "-o", "out.h5") for shard in ([], ["--shard", "1/2"])]
    assert [each.code for each in ended] == [code, code]
    assert ended[0].err == ended[1].err
    assert told is None or ended[0].err.startswith(f"herd regress: {told}\n")


def test_more_rows_than_are_kept_for_evaluation(run, storages, monkeypatch):
    storages()
    monkeypatch.setattr(block_sums, "HELD", 5)
    ended = run("regress", "rows.csv", *LINE, "-o", "whole.h5")
    assert "5 of 24 held-out rows, evenly spaced, are stored in the model for herd eval" in ended.err
    assert len(artifacts.load("whole.h5").value.holdout.y) == 5


REFUSED = {
    "rounds": (
        ["--target", "price", "--shard", "1/2"],
        "--shard: every iteration needs all rows, so the run cannot be divided into shards\n"
        "hint: use --cluster WHERE, which distributes the rows over workers; --shard works with --family gaussian --one-pass",
    ),
    "another family": (
        [*LINE, "--family", "poisson"],
        "--one-pass works only with --family gaussian, not poisson\nhint: use --cluster WHERE, which distributes the rows over workers",
    ),
    "errors that are not alike": (
        [*LINE, "--gls", "ar1"],
        "--one-pass keeps only sums, but --gls needs the rows\nhint: leave one of them out",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_sums_do_not_give(run, storages, name):
    storages()
    words, told = REFUSED[name]
    ended = run("regress", "rows.csv", *words, "-q", "-o", "out.h5")
    assert (ended.code, ended.err) == (2, f"herd regress: {told}\n")
    assert not Path("out.h5").exists()


@pytest.mark.parametrize("shard", [[], ["--shard", "1/2"]], ids=["one run", "a shard"])
def test_targets_that_are_names(run, tmp_path, shard):
    Path("rows.csv").write_text("a,kind\n" + "1,x\n2,y\n" * 20)
    ended = run("regress", "rows.csv", "--target", "kind", "--one-pass", *shard, "-q", "-o", "out.h5")
    told = "rows.csv: the target 'kind' holds class names, but --one-pass needs numbers\nhint: use --family softmax, without --one-pass\n"
    assert (ended.code, ended.err) == (65, f"herd regress: {told}")


@pytest.mark.parametrize("shard", [[], ["--shard", "2/2"]], ids=["one run", "a shard"])
def test_weights_that_cannot_be(run, storages, shard):
    weights = np.where(np.arange(ROWS) == 13, -1.0, 1.0)
    storages(w=weights)
    ended = run("regress", "rows.csv", *LINE, "--weights", "w", *shard, "-q", "-o", "out.h5")
    assert (ended.code, ended.err) == (65, "herd regress: rows.csv: the weights of rows must be finite, not negative and not all 0\n")


def test_shards_that_do_not_belong_together(run, storages):
    storages()
    one, two = shards(run, ["regress", "rows.csv", *LINE], 2)
    assert run("regress", "rows.csv", *LINE, "--l2", "0.5", "--shard", "2/2", "-q", "-o", "other.h5").code == 0
    assert run("regress", "rows.parquet", *LINE, "--shard", "2/2", "-q", "-o", "foreign.h5").code == 0
    for names, code, told in (
        ([one], 66, "shard 2 of 2 is missing\nhint: --shard 2/2 makes it\n"),
        ([one, one], 65, f"{one}: is shard 1 of 2, but so is {one}\nhint: name each shard once\n"),
        ([one, "other.h5"], 65, f"other.h5: was made with --l2 0.5, but {one} was made with --l2 0\n"),
        ([one, "foreign.h5"], 65, f"foreign.h5: was made from other inputs than {one}\n"),
    ):
        ended = run("merge", *names, "-q", "-o", "out.h5")
        assert (ended.code, ended.err) == (code, f"herd merge: {told}")
    assert run("merge", two, one, "-q", "-o", "out.h5").code == 0
