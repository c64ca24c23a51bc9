"""What `herd ica --algorithm ml` takes in memory of rows that stay in their file: no more of many more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

COLUMNS = 32
CHILD = """
import sys
from herdcli.artifacts import lazy
from herdcli.cli.main import main
lazy.LEAST = 1
sys.argv = ["herd", *sys.argv[1:]]
try:
    main()
except SystemExit as error:
    assert not error.code, error.code
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def peak(folder: Path, rows: int) -> int:
    """Bytes that learning so many rows of doubles had at most."""
    random = np.random.default_rng(0)
    mixing = random.standard_normal((COLUMNS, COLUMNS))
    with h5py.File(folder / f"{rows}.h5", "w") as file:
        X = file.create_dataset("X", (rows, COLUMNS), dtype="f8", chunks=(4096, COLUMNS))
        for start in range(0, rows, 4096):
            X[start : start + 4096] = random.laplace(size=(min(4096, rows - start), COLUMNS)) @ mixing
    line = [sys.executable, "-c", CHILD, "ica", f"{rows}.h5", "--algorithm", "ml", "--iterations", "3", "-q", "-o", f"{rows}.ica.h5"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return 1024 * int(done.stdout.split()[-1])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
def test_rows_that_stay_in_their_file_do_not_add_to_the_peak(tmp_path: Path) -> None:
    few, many = 150_000, 400_000  # above what held-out rows, of which no more than so many are kept, and blocks take
    grown = peak(tmp_path, many) - peak(tmp_path, few)
    assert grown < 0.2 * (many - few) * COLUMNS * 8
