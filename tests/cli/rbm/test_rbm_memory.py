"""What fit-rbm takes in memory beside its rows: a child's peak over that of the same command on few rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli.numerics.row_selection import SelectedRows

WIDE = 1000
CHILD = """
import sys
from herdcli.cli.main import main
sys.argv = ["herd", *sys.argv[1:]]
try:
    main()
except SystemExit as error:
    assert not error.code, error.code
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def peak(folder: Path, *arguments: str) -> int:
    """Bytes of memory that a command had at most."""
    done = subprocess.run([sys.executable, "-c", CHILD, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return 1024 * int(done.stdout.split()[-1])


def rows_file(path: Path, rows: int) -> int:
    """A data set of uint8 rows, a tenth of them held out; returns their bytes."""
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        X = file.create_dataset("X", (rows, WIDE), dtype="u1")
        for start in range(0, rows, 1000):
            X[start : start + 1000] = random.integers(0, 2, (min(1000, rows - start), WIDE), dtype=np.uint8)
        file["y"] = np.arange(rows) % 2
    return rows * WIDE


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
@pytest.mark.parametrize("options", [(), ("--per-class",), ("--per-class", "--folds", "2")], ids=" ".join)
def test_rows_of_one_byte_are_in_memory_once(tmp_path: Path, options: tuple[str, ...]) -> None:
    size, few = rows_file(tmp_path / "many.h5", 50000), rows_file(tmp_path / "few.h5", 1500)
    fit = ("--hidden", "1", "--epochs", "1", "--batch-size", "20", "--split", "300,0,300", "--range", "0,1")
    taken = [peak(tmp_path, "fit-rbm", f"{name}.h5", *fit, *options, "-o", f"{name}.rbm.h5") for name in ("many", "few")]
    assert taken[0] - taken[1] <= 1.1 * (size - few)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
def test_rows_held_out_are_written_from_where_they_stand(tmp_path: Path) -> None:
    size, few = rows_file(tmp_path / "many.h5", 100000), rows_file(tmp_path / "few.h5", 1500)
    fit = ("--hidden", "1", "--epochs", "1", "--batch-size", "5000", "--split", ".5,0,.5")
    taken = [peak(tmp_path, "fit-rbm", f"{name}.h5", *fit, "-o", f"{name}.rbm.h5") for name in ("many", "few")]
    assert taken[0] - taken[1] <= 1.1 * (size - few)


def test_chosen_rows_of_a_sparse_matrix_are_dense_when_asked_for() -> None:
    from scipy.sparse import csr_matrix

    X = np.random.default_rng(0).integers(0, 3, (20, 7), dtype=np.uint8)
    rows = SelectedRows(csr_matrix(X), np.array([3, 1, 19]))
    assert rows.shape == (3, 7)
    np.testing.assert_array_equal(rows[:], X[[3, 1, 19]])
    np.testing.assert_array_equal(rows[np.array([2, 0])], X[[19, 3]])
    np.testing.assert_array_equal(rows.read_stored_rows(slice(1, 3)).toarray(), X[[1, 19]])
