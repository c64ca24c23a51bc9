"""--max-memory is a budget for commands that read rows in stretches: fewer rows at a time, the same bytes; others say which way does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli.artifacts import process_limits
from herdcli.artifacts.rows import lazy_matrix, row_ranges, split_files
from herdcli.cli.fit_mrf import row_readers
from herdcli.cli.frame.rows import unit_rows
from herdcli.ica import whitening
from herdcli.numerics import block_statistics

ROWS, COLUMNS, BLOCK = 700, 3, 8  # 88 blocks, two of which are a unit
RANDOM = np.random.default_rng(4)
X = RANDOM.laplace(size=(ROWS, COLUMNS)) @ RANDOM.normal(size=(COLUMNS, COLUMNS))
RUNS = {
    "fit-mrf": ["--range", "-40,40", "--threshold", ".5", "--structure", "independent", "--split", "1,0,0"],
    "regress": ["--one-pass", "--split", "1,0,0"],
    "ica": ["--components", "1", "--iterations", "3", "--split", "1,0,0"],
    "ica --one-pass": ["--one-pass", "--iterations", "3"],
    "em": ["--on-disk", "--model", "ppca", "--components", "1", "--iterations", "2"],
}


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """A file that counts as large, in blocks of eight rows."""
    for module in (block_statistics, unit_rows, row_readers, whitening):
        monkeypatch.setattr(module, "BLOCK", BLOCK)
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = X, X[:, 0]


@pytest.mark.parametrize("name", RUNS)
def test_less_room_is_fewer_rows_at_a_time_and_the_same_bytes(run, rows, monkeypatch, name):
    read: list[int] = []

    def spied(real):
        def take(self, start, stop):
            read.append(stop - start)
            return real(self, start, stop)

        return take

    monkeypatch.setattr(row_ranges.RowRanges, "read", spied(row_ranges.RowRanges.read))
    monkeypatch.setattr(split_files.SpilledRows, "read", spied(split_files.SpilledRows.read))
    line, most = [name.split()[0], "rows.h5", *RUNS[name], "-q"], []
    for room, out in ((sys.maxsize, "free.h5"), (process_limits.COPIES * 8 * COLUMNS * BLOCK, "bound.h5")):
        monkeypatch.setattr(process_limits, "allocatable_bytes", lambda room=room: room)
        read.clear()
        ended = run(*line, "-o", out)
        assert ended.code == 0, ended.err
        most.append(max(read))
    assert most[0] > BLOCK == most[1]
    assert Path("free.h5").read_bytes() == Path("bound.h5").read_bytes()


WAYS = {
    "regress": (["--target", "y"], "for least squares use --one-pass, which reads some rows at a time; or raise"),
    "regress of counts": (["--target", "y", "--family", "poisson"], "raise"),
    "ica": (["--algorithm", "infomax"], "use --one-pass, which reads some rows at a time; or raise"),
    "ica in time": (["--algorithm", "sobi"], "raise"),
    "em": ([], "use --on-disk, which reads some rows at a time; or raise"),
    "kernel-herd": (["-m", "3"], "use --block-rows 5000 --embedding exact, which read 5,000 rows at a time; or raise"),
    "kernel-herd of groups": (["-m", "3", "--by", "y"], "raise"),
}


@pytest.mark.parametrize("name", WAYS)
def test_what_reads_rows_whole_says_the_way_that_does_not(run, tmp_path, name):
    with h5py.File("rows.h5", "w") as file:
        file.create_dataset("X", (200_000, 100), "f8")
        file["y"] = np.zeros(200_000, np.uint8)
    words, hint = WAYS[name]
    ended = run(name.split()[0], "rows.h5", *words, "--max-memory", "100M", "-q", "-o", "out.h5")
    told = f"rows.h5: /X: needs 160 MB of memory, more than the 100 MB allowed\nhint: {hint} --max-memory if the machine has it\n"
    assert (ended.code, ended.err) == (65, f"herd {name.split()[0]}: {told}")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
@pytest.mark.parametrize("name", ["regress", "ica", "em"])
def test_the_peak_stays_under_the_budget(tmp_path, name):
    """Of 200 MB of rows in wide columns, of which sixteen blocks together take all."""
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        wide = file.create_dataset("X", (50_000, 500), "f8", chunks=(160, 500))
        for start in range(0, 50_000, 5000):
            wide[start : start + 5000] = RANDOM.normal(size=(5000, 500))
        file["y"] = np.zeros(50_000)
    made = []
    for limit in ("200M", "2G"):
        words = [name, "rows.h5", *RUNS[name], "-j", "1", "-q", "--max-memory", limit, "-o", f"{limit}.h5"]
        line = [str(Path(sys.executable).with_name("herd")), *words]
        child = subprocess.Popen(line, cwd=tmp_path, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        made.append(((tmp_path / f"{limit}.h5").read_bytes(), 1024 * usage.ru_maxrss))
    assert made[0][0] == made[1][0]
    assert made[0][1] <= process_limits.SHARE
