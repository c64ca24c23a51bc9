"""Commands that pass over rows leave them on disk where memory has no room for them, and learn what they learn from rows in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from herdcli.artifacts import process_limits
from herdcli.artifacts.rows import lazy_matrix, row_groups
from herdcli.cli.frame.rows import streamed_rows
from herdcli.cli.nherd_train import heldout_scores, row_sources
from herdcli.numerics import class_baselines
from herdcli.numerics.row_selection import SelectedRows

SMALL = """import os, resource, sys
child = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])
print(child, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""
ROWS, COLUMNS = 900, 4
RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((ROWS, COLUMNS)) + 2.0 * (np.arange(ROWS) % 3 == 0)[:, None]
SCORE = X @ np.array([1.0, -0.5, 0.25, 0.0]) + RANDOM.standard_normal(ROWS)
BASE = {f"c{j}": X[:, j] for j in range(COLUMNS)}
CLASSES = np.where(SCORE > 0.5, "red", np.where(SCORE > -0.5, "green", "blue"))
WEIGHT = RANDOM.integers(0, 3, ROWS).astype(np.float64)
SPLIT = (np.arange(ROWS) % 5 // 3).astype(np.uint8)
GAPS = pa.array(X[:, 0], mask=RANDOM.random(ROWS) < 0.1)
CASES = {
    "mixture": (["em", "--components", "2", "--iterations", "3"], BASE),
    "mixture of classes": (["em", "--per-class", "--label", "kind", "--iterations", "3"], BASE | {"kind": CLASSES}),
    "mixture with weights and gaps": (["em", "--components", "2", "--iterations", "3"], BASE | {"c0": GAPS, "weight": WEIGHT}),
    "mixture by another column of weights": (["em", "--components", "2", "--iterations", "3", "--weights", "w"], BASE | {"w": WEIGHT}),
    "k-means": (["em", "--model", "kmeans", "--components", "3"], BASE | {"split": SPLIT}),
    "factors": (["em", "--model", "fa", "--components", "1"], BASE),
    "least squares": (["regress", "--target", "t"], BASE | {"t": SCORE}),
    "least squares far from 0": (["regress", "--target", "t"], BASE | {"c1": X[:, 1] + 1e7, "t": SCORE, "y": X[:, 0] * X[:, 1]}),
    "logistic with weights": (["regress", "--weights", "w", "--l2", ".1"], BASE | {"y": (SCORE > 0).astype(np.int64), "w": WEIGHT}),
    "softmax": (["regress", "--family", "softmax", "--target", "kind"], BASE | {"kind": CLASSES}),
    "counts": (["regress", "--target", "n", "--exposure", "w"], BASE | {"n": RANDOM.poisson(2, ROWS), "w": WEIGHT + 1}),
    "classifier": (["nherd-train", "--passes", "2", "--algorithm", "arow"], BASE | {"y": CLASSES}),
    "shuffled classifier": (["nherd-train", "--passes", "2", "--shuffle", "--split", "1,0,0"], BASE | {"y": CLASSES, "weight": WEIGHT}),
    "sorted classifier": (["nherd-train", "--passes", "2"], {"c0": np.sort(SCORE), "y": np.sort(SCORE) > 0}),
    "classifier by label": (["nherd-train", "--passes", "1", "--label", "kind"], BASE | {"kind": CLASSES, "split": SPLIT}),
    "herding": (["herd", "--hidden", "3", "--iterations", "5", "--threshold", ".5", "--range=-9,9"], BASE | {"weight": WEIGHT}),
    "herding of classes": (
        ["herd", "--per-class", "--label", "kind", "--hidden", "3", "--iterations", "5", "--threshold", ".5", "--range=-9,9"],
        BASE | {"kind": CLASSES},
    ),
    "visible herding": (
        ["herd", "--features", "x,xx", "--model", "mrf", "--iterations", "5", "--threshold", ".5", "--range=-9,9"],
        BASE | {"split": SPLIT},
    ),
    "harmonium": (["fit-rbm", "--on-disk", "--units", "gaussian", "--standardize", "--epochs", "1", "--hidden", "2"], BASE),
}
OPENED = streamed_rows.open_streamed_dataset


@pytest.fixture
def on_disk(monkeypatch):
    """Counts the inputs whose rows stay on disk, once `start` is called: from then on memory has room for none.

    Baselines are fitted to fewer rows than there are, and fewer of the held-out rows are scored.
    """
    kept: list[bool] = []
    monkeypatch.setattr(class_baselines, "MOST_ROWS", 200)
    monkeypatch.setattr(heldout_scores, "HELD", 50)

    def counted(*words, **options):
        found = OPENED(*words, **options)
        kept.append(found is not None)
        return found

    def start() -> None:
        monkeypatch.setattr(lazy_matrix, "LEAST", 1)
        monkeypatch.setattr(lazy_matrix, "STRETCH", 256)
        monkeypatch.setattr(row_groups, "LARGE_GROUP", 1)
        monkeypatch.setattr(row_groups, "BATCH_BYTES", 4096)
        monkeypatch.setattr(streamed_rows, "_exceeds_memory", lambda *words: True)
        monkeypatch.setattr(streamed_rows, "open_streamed_dataset", counted)

    return kept, start


@pytest.mark.parametrize("name", CASES)
def test_rows_of_parquet_on_disk_give_the_same_bytes(run, on_disk, name):
    (command, *options), columns = CASES[name]
    pq.write_table(pa.table(columns), "rows.parquet", row_group_size=500)
    kept, start = on_disk
    whole = run(command, "rows.parquet", *options, "-o", "memory.h5")
    assert whole.code == 0, whole.err
    start()
    ended = run(command, "rows.parquet", *options, "-o", "disk.h5")
    assert ended.code == 0, ended.err
    assert kept == [True]
    assert Path("memory.h5").read_bytes() == Path("disk.h5").read_bytes()
    notes = [[line for line in told.err.splitlines() if " s → " not in line] for told in (whole, ended)]
    assert notes[0] == notes[1]


@pytest.mark.parametrize("name", ["mixture", "least squares", "shuffled classifier"])
def test_rows_of_hdf5_and_csv_on_disk_give_the_same_bytes(run, on_disk, name):
    (command, *options), columns = CASES[name]
    with h5py.File("rows.h5", "w") as file:
        file["X"], file["feature_names"] = X, list(BASE)
        for key in set(columns) - set(BASE):
            file[key] = columns[key].astype("S") if columns[key].dtype.kind == "U" else columns[key]
    order = [*columns]
    lines = [",".join(order), *(",".join(str(columns[key][i]) for key in order) for i in range(ROWS))]
    Path("rows.csv").write_text("\n".join(lines) + "\n")
    inputs = ["rows.h5"] if columns.get("y") is CLASSES else ["rows.h5", "rows.csv"]  # text in CSV is read whole
    for path in inputs:
        whole = run(command, path, *options, "-o", f"memory.{path}.h5")
        assert whole.code == 0, whole.err
    kept, start = on_disk
    start()
    for path in inputs:
        ended = run(command, path, *options, "-o", f"disk.{path}.h5")
        assert ended.code == 0, ended.err
        assert Path(f"memory.{path}.h5").read_bytes() == Path(f"disk.{path}.h5").read_bytes()
    assert kept == [True] * len(inputs)


def test_a_missing_value_is_refused_in_one_line(run, on_disk):
    first = pa.array(X[:, 0], mask=np.arange(ROWS) == 300)
    pq.write_table(pa.table(BASE | {"c0": first, "y": (SCORE > 0).astype(np.int64)}), "rows.parquet")
    on_disk[1]()
    ended = run("nherd-train", "rows.parquet", "-o", "out.h5")
    told = "rows.parquet: column 'c0' has 1 missing value (first: row 300)\nhint: remove the rows or fill them in\n"
    assert (ended.code, ended.err) == (65, f"herd nherd-train: {told}")


LARGE = {
    "nherd-train": [],
    "regress": ["--iterations", "3"],
    "em": ["--components", "2", "--iterations", "1"],
    "em of k-means": ["--model", "kmeans", "--components", "4", "--iterations", "1"],
    "em of factors": ["--model", "fa", "--components", "2", "--iterations", "1"],
    "fit-rbm": ["--units", "gaussian", "--standardize", "--hidden", "4", "--epochs", "1", "--batch-size", "1000", "--split", ".9,.05,.05"],
    "kernel-herd": ["-m", "4", "--block-rows", "5000", "--embedding", "exact"],
}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """300,000 rows of 50 columns in one row group: at what these commands take in memory, 200 to 560 MB."""
    path = tmp_path_factory.mktemp("large") / "rows.parquet"
    rows = RANDOM.standard_normal((300_000, 50)).astype(np.float32)
    columns = {f"c{j}": rows[:, j] for j in range(50)} | {"y": (rows[:, 0] > rows[:, 1]).astype(np.int64)}
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
@pytest.mark.parametrize("name", LARGE)
def test_the_peak_of_a_large_parquet_file_stays_under_the_bound(tmp_path, herd_command, herd_environment, large, name):
    words = [name.split()[0], str(large), *LARGE[name], "-q", "--max-memory", str(process_limits.SHARE), "-o", "out.h5"]
    small = [sys.executable, "-Sc", SMALL, str(herd_command), *words]  # a child's peak is never told as less than its parent's size
    ended = subprocess.run(small, cwd=tmp_path, env=herd_environment(), capture_output=True, text=True, check=True)
    code, peak = map(int, ended.stdout.split())
    assert code == 0, ended.stderr
    assert 1024 * peak <= process_limits.SHARE


@pytest.mark.parametrize(("command", "stays"), [("least squares", True), ("mixture", False)])
def test_rows_of_a_regression_stay_on_disk_from_a_gibibyte_on(run, monkeypatch, command, stays):
    """Its result is the same in any case; of a mixture, fewer held-out rows would be kept."""
    (name, *options), columns = CASES[command]
    kept: list[bool] = []
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    monkeypatch.setattr(
        streamed_rows, "open_streamed_dataset", lambda *words, **more: kept.append(found := OPENED(*words, **more)) or found
    )
    pq.write_table(pa.table(columns), "rows.parquet")
    assert run(name, "rows.parquet", *options, "-o", "memory.h5").code == 0
    monkeypatch.setattr(streamed_rows, "IN_MEMORY", 10_000)
    assert run(name, "rows.parquet", *options, "-o", "disk.h5").code == 0
    assert [each is not None for each in kept] == [False, stays]
    assert Path("memory.h5").read_bytes() == Path("disk.h5").read_bytes()


@pytest.mark.parametrize("options", [["--split", "1,0,0"], ["--split", ".6,.2,.2", "--shuffle"], ["--passes", "3", "--weights", "w"]])
def test_many_rows_are_learned_without_a_copy_and_with_the_same_bytes(run, monkeypatch, options):
    with h5py.File("rows.h5", "w") as file:
        file["X"], file["y"], file["w"], file["split"] = X.astype(np.float32), (SCORE > 0).astype(np.int64), WEIGHT, SPLIT
    selected: list[object] = []
    monkeypatch.setattr(row_sources, "SelectedRows", lambda *words: selected.append(words) or SelectedRows(*words))
    for large, name in ((1 << 26, "copied.h5"), (0, "chosen.h5")):
        monkeypatch.setattr(row_sources, "LARGE", large)
        ended = run("nherd-train", "rows.h5", *options, "-o", name)
        assert ended.code == 0, ended.err
    assert len(selected) == (options != ["--split", "1,0,0"])
    assert Path("copied.h5").read_bytes() == Path("chosen.h5").read_bytes()


def test_a_large_group_is_never_decoded_with_all_columns_at_once(run, monkeypatch):
    monkeypatch.setattr(row_groups, "LARGE_GROUP", 1)
    pq.write_table(pa.table(BASE | {"split": SPLIT}), "rows.parquet")
    decoded: list[list[str]] = []
    read = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda file, **how: decoded.append(how["columns"]) or read(file, **how))
    assert run("em", "rows.parquet", "--components", "2", "--on-disk", "-o", "m.h5").code == 0
    assert {name for names in decoded for name in names} == {*BASE, "split"}
    assert {len(names) for names in decoded} == {1}
