"""`herd em --on-disk` on Parquet files that grow: peak memory of the process, and rows a second beside reading the file alone.

    python scripts bench/tables/em_on_disk [--rows 1e6,1e7] [--iterations 10] [--folder DIR]

A mixture of ten Gaussians in ten columns is learned under --max-memory 1G; the peak is the child's VmHWM.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS, COMPONENTS, GROUP = 10, 10, 1_000_000


def written(path: Path, rows: int) -> None:
    """Clusters of ten columns, a row group of a million rows at a time."""
    random = np.random.default_rng(0)
    centres = 4.0 * random.normal(size=(COMPONENTS, COLUMNS))
    schema = pa.schema([(f"c{j}", pa.float32()) for j in range(COLUMNS)])
    with pq.ParquetWriter(path, schema, compression="none") as file:
        for start in range(0, rows, GROUP):
            count = min(GROUP, rows - start)
            X = (random.normal(size=(count, COLUMNS)) + centres[random.integers(COMPONENTS, size=count)]).astype(np.float32)
            file.write_table(pa.Table.from_arrays([pa.array(column) for column in X.T], schema=schema))


def read_alone(path: Path) -> tuple[float, float]:
    """Seconds to read all batches, by the clock and of the processor."""
    start, used = time.perf_counter(), time.process_time()
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=1 << 16, use_threads=False):
            np.column_stack([column.to_numpy() for column in batch.columns])
    return time.perf_counter() - start, time.process_time() - used


def learned(path: Path, iterations: int, threads: int, folder: Path) -> tuple[float, float, int]:
    """Seconds by the clock and of the processor, and the peak of resident memory in bytes, of one run."""
    line = [sys.executable, "-m", "herdcli", "em", str(path), "--on-disk", "--max-memory", "1G", "--components", str(COMPONENTS)]
    line += ["--iterations", str(iterations), "--tolerance", "0", "-j", str(threads), "-q", "-o", str(folder / "model.h5")]
    start, peak, before = time.perf_counter(), 0, resource.getrusage(resource.RUSAGE_CHILDREN)
    child = subprocess.Popen(line, env={**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"})
    while child.poll() is None:  # ru_maxrss would count what this process had when it forked
        with contextlib.suppress(OSError, StopIteration):
            text = Path(f"/proc/{child.pid}/status").read_text()
            peak = max(peak, next(int(row.split()[1]) for row in text.splitlines() if row.startswith("VmHWM:")))
        time.sleep(0.02)
    if child.returncode:
        raise SystemExit(f"herd em ended with status {child.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used, peak * 1024


def main() -> None:
    """One line for each number of rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="1e6,1e7")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", default=None, help="for the rows twice, in Parquet and in $TMPDIR of the run: 126 bytes a row")
    asked = parser.parse_args()
    print("rows\tfile_MB\tread_s\tread_cpu_s\tem_s\tem_cpu_s\tpeak_MB\trows_per_s_a_pass\tread_rows_per_s\tcpu_a_pass_to_reading")
    for text in asked.rows.split(","):
        rows = int(float(text))
        with tempfile.TemporaryDirectory(dir=asked.folder) as name:
            folder = Path(name)
            path = folder / "rows.parquet"
            written(path, rows)
            alone, alone_cpu = read_alone(path)
            took, used, peak = learned(path, asked.iterations, asked.threads, folder)
            passes = asked.iterations + 3  # moments, an E step after the last M step, and the entropy of the responsibilities
            figures = (path.stat().st_size / 1e6, alone, alone_cpu, took, used, peak / 1e6, rows * passes / took, rows / alone)
            figures = (*figures, used / passes / alone_cpu)
            print("\t".join([f"{rows:.0e}", *(f"{figure:.4g}" for figure in figures)]), flush=True)


if __name__ == "__main__":
    main()
