"""`herd fit-rbm` of rows that are read in shuffled blocks, and models that know the digest of their held-out rows alone."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.artifacts import load
from herdcli.artifacts.rows import lazy_matrix
from herdcli.numerics import streamed_rows
from herdcli.numerics.streamed_rows import ShuffledOrder, StreamedRows
from herdcli.rbm import heldout_rows
from herdcli.rbm.learning.parallel_fits import LearningProblem, RBMLearning, Settings
from herdcli.rng import Stream, generator

RANDOM = np.random.default_rng(3)
X = (RANDOM.random((400, 12)) < RANDOM.random(12)).astype(np.uint8)
SPLIT = np.tile([0, 0, 0, 1, 2], 80).astype(np.uint8)
FIT = ("--hidden", 4, "--epochs", 2, "--batch-size", 15, "-q")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of eight rows of twelve bytes, three of them in a window."""
    monkeypatch.setattr(streamed_rows, "BLOCK_BYTES", 96)
    monkeypatch.setattr(streamed_rows, "WINDOW", 3)


def made(name="in.h5", X=X, **options):
    with h5py.File(name, "w") as file:
        file.create_dataset("X", data=X, **options)
        file["split"] = SPLIT
    return name


def model(path):
    return load(path).value


def draws(part):
    return generator(7, Stream.SHUFFLE, step=2, part=part)


def test_the_order_takes_every_row_once_and_a_window_at_a_time():
    rows = StreamedRows(X, SPLIT, 0)
    order = ShuffledOrder(rows.starts, draws)
    whole = order[:]
    np.testing.assert_array_equal(np.sort(whole), np.arange(240))
    pieces = np.concatenate([order[start : start + 11] for start in range(0, 240, 11)])
    np.testing.assert_array_equal(pieces, whole)
    drawn = draws(0).permutation(50)
    start = 0
    for first in range(0, 50, 3):  # a window has all rows of its three blocks, and no others
        own = np.flatnonzero(np.isin(np.searchsorted(rows.starts, np.arange(240), side="right") - 1, drawn[first : first + 3]))
        np.testing.assert_array_equal(np.sort(whole[start : start + len(own)]), own)
        assert not np.array_equal(whole[start : start + len(own)], own)
        start += len(own)


def test_another_epoch_has_another_order():
    rows = StreamedRows(X, SPLIT, 0)
    other = ShuffledOrder(rows.starts, lambda part: generator(7, Stream.SHUFFLE, step=3, part=part))
    assert not np.array_equal(other[:], ShuffledOrder(rows.starts, draws)[:])


def test_rows_are_those_of_the_matrix_however_they_are_asked_for():
    rows, own = StreamedRows(X, SPLIT, 0), X[SPLIT == 0]
    assert rows.shape == own.shape
    assert rows.dtype == np.uint8
    np.testing.assert_array_equal(rows[:], own)
    np.testing.assert_array_equal(rows[5:100:7], own[5:100:7])
    for _ in range(30):
        numbers = RANDOM.integers(0, 240, 40)
        np.testing.assert_array_equal(rows[numbers], own[numbers])
    assert rows.memory == 2 * 3 * 96
    chosen = RANDOM.random(240) < 0.3
    np.testing.assert_array_equal(rows.select_among(chosen)[:], own[chosen])
    np.testing.assert_array_equal(rows.map_values(np.sqrt)[3:9], np.sqrt(own[3:9]))


def test_learning_that_goes_on_from_a_state_takes_the_rows_of_one_that_never_ended():
    settings = Settings(hidden=4, epochs=3, batch_size=13)

    def algorithm():
        return RBMLearning(LearningProblem([StreamedRows(X.astype(np.int8), SPLIT, 0)], settings))

    whole, first = run_algorithm(algorithm()), algorithm()
    state = first.init()
    for _ in range(29):  # into the second epoch
        state = first.step(state)
    np.testing.assert_array_equal(run_algorithm(algorithm(), deepcopy(state)).W, whole.W)


def test_the_bytes_are_those_of_any_number_of_threads(run):
    made()
    for threads in (1, 2):
        assert run("fit-rbm", "in.h5", "--on-disk", *FIT, "--batch-size", 120, "-j", threads, "-o", f"{threads}.h5").code == 0
    assert Path("1.h5").read_bytes() == Path("2.h5").read_bytes()


def test_the_format_of_the_file_changes_no_weight(run):
    made()
    made("pressed.h5", chunks=(100, 12), compression="gzip")
    lines = (",".join(map(str, row)) for row in np.column_stack([X, SPLIT]).tolist())
    Path("in.csv").write_text(",".join([*(f"x{i}" for i in range(12)), "split"]) + "\n" + "\n".join(lines) + "\n")
    for name in ("in.parquet", "sealed.h5"):
        assert run("convert", "in.h5", "-o", name, "-q").code == 0
    files = ("in.h5", "pressed.h5", "in.parquet", "in.csv", "sealed.h5")
    for name in files:
        assert run("fit-rbm", name, "--split-column", "split", "--on-disk", *FIT, "-o", f"of-{name}.h5").code == 0
    models = [model(f"of-{name}.h5") for name in files]
    for other in models[1:]:
        np.testing.assert_array_equal(other.W, models[0].W)
        np.testing.assert_array_equal(other.holdout.X, models[0].holdout.X)


@pytest.mark.parametrize("units", ["binary", "spin", "gaussian", "rate:3", "poisson"])
def test_rows_held_out_and_columns_are_read_as_in_memory(run, units):
    rows = X.astype(np.float64) * 2 if units == "gaussian" else X
    made(X=rows)
    options = [
        "--visible-units",
        units,
        *(["--standardize"] if units == "gaussian" else []),
        *(["--range", "0,1"] if units[0] == "r" else []),
    ]
    for name, how in (("memory.h5", ()), ("disk.h5", ("--on-disk",))):
        assert run("fit-rbm", "in.h5", *FIT, *options, "--learning-rate", 0.01, *how, "-o", name).code == 0
    memory, disk = model("memory.h5"), model("disk.h5")
    np.testing.assert_allclose(disk.holdout.X, memory.holdout.X, rtol=1e-6)
    np.testing.assert_array_equal(disk.holdout.split, memory.holdout.split)
    np.testing.assert_allclose(disk.base_rates, memory.base_rates, rtol=1e-5, atol=1e-6)
    assert disk.holdout.X.dtype == memory.holdout.X.dtype
    assert not np.array_equal(disk.W, memory.W)  # another order of rows


def test_labels_of_text_are_the_same_in_every_stretch(run, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = np.array(["pear", "apple", "fig"])[np.arange(400) // 150]
    pq.write_table(pa.table({**{f"x{i}": X[:, i] for i in range(12)}, "y": names}), "in.parquet")
    monkeypatch.setattr(lazy_matrix, "STRETCH", 64)
    drawn = ("--label", "y", "--split", "60,20,20")  # of each class
    assert run("fit-rbm", "in.parquet", *drawn, *FIT, "-o", "memory.h5").code == 0
    assert run("fit-rbm", "in.parquet", *drawn, *FIT, "--on-disk", "-o", "disk.h5").code == 0
    np.testing.assert_array_equal(model("disk.h5").holdout.X, model("memory.h5").holdout.X)


def test_rows_that_would_take_more_than_max_memory_are_read_in_blocks(run, monkeypatch):
    made()
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    assert run("fit-rbm", "in.h5", *FIT, "-o", "plain.h5").code == 0
    assert run("fit-rbm", "in.h5", *FIT, "--max-memory", "100kB", "-o", "fits.h5").code == 0
    assert run("fit-rbm", "in.h5", *FIT, "--max-memory", "4kB", "-o", "less.h5").code == 0
    assert run("fit-rbm", "in.h5", *FIT, "--on-disk", "-o", "asked.h5").code == 0
    assert Path("fits.h5").read_bytes() == Path("plain.h5").read_bytes()
    assert Path("less.h5").read_bytes() == Path("asked.h5").read_bytes() != Path("plain.h5").read_bytes()
    assert load("less.h5").history[-1]["parameters"]["on_disk"] is True
    assert "on_disk" not in load("fits.h5").history[-1]["parameters"]


def test_validation_rows_are_looked_at_and_learning_goes_on(run):
    made()
    assert run("fit-rbm", "in.h5", *FIT, "--on-disk", "--validate-every", 1, "--keep-state", "-o", "a.h5").code == 0
    assert np.isfinite(model("a.h5").trace.log_likelihood).all()
    assert run("fit-rbm", "in.h5", "--on-disk", "--continue", "a.h5", "--epochs", 1, "-q", "-o", "b.h5").code == 0
    assert model("b.h5").epochs == 3


@pytest.mark.parametrize("how", [(), ("--on-disk",)], ids=["memory", "disk"])
@pytest.mark.parametrize("split", [(), ("--split", ".5,.2,.3")], ids=["own", "drawn"])
def test_many_rows_held_out_are_known_by_their_digest(run, monkeypatch, how, split):
    made()
    assert run("fit-rbm", "in.h5", *FIT, *how, *split, "-o", "kept.h5").code == 0
    monkeypatch.setattr(heldout_rows, "LARGE", 100)
    told = run("fit-rbm", "in.h5", *FIT[:-1], *how, *split, "-o", "left.h5")
    count = 160 if not split else 200
    assert f"fit-rbm: the file stores only a hash of its {count} held-out rows: evaluate it with herd eval --data FILE\n" in told.err
    kept, left = model("kept.h5"), model("left.h5")
    assert left.holdout is None
    np.testing.assert_array_equal(left.W, kept.W)
    assert Path("left.h5").stat().st_size < Path("kept.h5").stat().st_size
    told = run("eval", "left.h5", "--format", "json")
    assert "eval: warning: left.h5 stores only a hash of its held-out rows: pass the rows with --data FILE\n" in told.err
    assert json.loads(told.out)[0].get("log_likelihood") is None
    figures = [
        {name: value for name, value in json.loads(run("eval", *words, "--format", "json").out)[0].items() if name != "file"}
        for words in (("kept.h5",), ("left.h5", "--data", "in.h5"))
    ]
    assert figures[0] == figures[1]
    assert figures[0]["log_likelihood"] < 0


def test_the_digest_is_that_of_the_rows_and_of_nothing_else(run):
    from scipy.sparse import csr_matrix

    rows = X.astype(np.int8)
    known = heldout_rows.heldout_digest(rows, SPLIT, None)
    assert heldout_rows.heldout_digest(csr_matrix(rows), SPLIT, None) == known
    assert heldout_rows.heldout_digest(rows, SPLIT, np.zeros(400, dtype=np.int64)) != known
    learned = rows.copy()
    learned[SPLIT == 0] = 1 - learned[SPLIT == 0]
    assert heldout_rows.heldout_digest(learned, SPLIT, None) == known
    for row, column in ((3, 0), (4, 11), (399, 5)):
        other = rows.copy()
        other[row, column] ^= 1
        assert heldout_rows.heldout_digest(other, SPLIT, None) != known


def test_other_rows_than_those_held_out_are_refused(run, monkeypatch):
    made()
    monkeypatch.setattr(heldout_rows, "LARGE", 100)
    assert run("fit-rbm", "in.h5", *FIT, "-o", "left.h5").code == 0
    other = X.copy()
    other[3] = 1 - other[3]
    made("other.h5", X=other)
    refused = run("eval", "left.h5", "--data", "other.h5")
    assert refused.code == 65
    assert refused.err == (
        "herd eval: other.h5: the held-out rows of these data are not the 80 validation and 80 test rows that were held out when the "
        "model was fitted\n"
        "hint: give the data set from which fit-rbm learned the model\n"
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--per-class",), "herd fit-rbm: --on-disk and --per-class exclude each other\nhint: use --on-disk with a single rbm\n"),
        (("--layers", "3,3"), "herd fit-rbm: --on-disk and --layers exclude each other\nhint: use --on-disk with a single rbm\n"),
    ],
)
def test_what_needs_all_rows_at_once_is_refused(run, options, line):
    made()
    refused = run("fit-rbm", "in.h5", "--on-disk", *options, "-q", "-o", "m.h5")
    assert (refused.code, refused.err) == (2, line)


def test_what_cannot_be_read_in_blocks_is_refused(run):
    from scipy.sparse import csr_matrix, save_npz

    save_npz("in.npz", csr_matrix(X))
    refused = run("fit-rbm", "in.npz", "--on-disk", "-q", "-o", "m.h5")
    assert refused.code == 2
    assert refused.err == (
        "herd fit-rbm: --on-disk needs a Parquet, CSV or dense HDF5 file whose rows are numbers\n"
        "hint: make one: herd convert INPUT -o FILE.h5\n"
    )
