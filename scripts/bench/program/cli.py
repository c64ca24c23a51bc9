"""What the command line itself costs: start-up, a pipe against a file, the memory of a fit.

    python scripts bench/program/cli

start-up   wall time of `herd --help` (best of 9), and that NumPy was not imported.         bar: 0.15 s, no
pipe       CPU time (user + system, both processes) of `convert A | info` against
           `convert A -o B; info B` on a 100 MB artifact: the ratio of the least times
           of 9 runs each, taken in turns (what is above the least is other load).          bar: 1.2
memory     peak resident memory of a fit, less that of a fit of 100 rows, over the size
           of the rows as they are stored: 0/1 bytes, and float64.                          bar: 3

Exits 1 when a bar is missed.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from herdcli.artifacts import Dataset, save

HERD = [sys.executable, "-m", "herdcli"]


def start_up() -> tuple[float, bool]:
    """Best wall time of `herd --help`, and whether it imports NumPy."""
    times = []
    for _ in range(9):
        started = time.perf_counter()
        subprocess.run([*HERD, "--help"], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    code = "import sys\nfrom herdcli.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: print('numpy' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return min(times), printed.splitlines()[-1] == "True"


def cpu_time(command: str) -> float:
    """User and system seconds of a shell pipeline."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pipe_ratio(folder: Path) -> float:
    """CPU time of a pipe over that of a file between the same two commands."""
    big, between, herd = folder / "big.h5", folder / "between.h5", " ".join(HERD)
    save(str(big), Dataset(np.random.default_rng(0).standard_normal((50_000, 250))), [])
    piped, filed = [], []
    for _ in range(9):
        piped.append(cpu_time(f"{herd} convert -q {big} | {herd} info > {folder}/shown"))
        filed.append(cpu_time(f"{herd} convert -q {big} -o {between}; {herd} info {between} > {folder}/shown"))
    return min(piped) / min(filed)


def peak_memory(path: Path) -> int:
    """Peak resident bytes of a one-epoch fit of a file."""
    code = (
        "from herdcli.cli.main import main\n"
        f"try: main(['fit-rbm', '-q', {str(path)!r}, '--epochs', '1', '--hidden', '20', '-o', '/dev/null'])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(open('/proc/self/status').read())"  # VmHWM begins anew with the process, ru_maxrss does not
    )
    status = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


def memory_ratio(folder: Path, dtype: str) -> float:
    """Peak memory of a fit beyond that of a tiny fit, in sizes of the rows."""
    peaks = {}
    for rows in (100, 400_000 if dtype == "uint8" else 50_000):
        X = np.random.default_rng(0).integers(0, 2, (rows, 256)).astype(dtype)
        save(str(folder / "rows.h5"), Dataset(X), [])
        peaks[rows] = (peak_memory(folder / "rows.h5"), X.nbytes)
    (small, _), (large, size) = peaks.values()
    return (large - small) / size


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds, numpy_imported = start_up()
        figures = {
            "herd --help, s": (seconds, 0.15),
            "herd --help imports NumPy": (float(numpy_imported), 0.0),
            "pipe / file, CPU time": (pipe_ratio(folder), 1.2),
            "memory of a fit / uint8 rows": (memory_ratio(folder, "uint8"), 3.0),
            "memory of a fit / float64 rows": (memory_ratio(folder, "float64"), 3.0),
        }
    for label, (value, bar) in figures.items():
        print(f"{label:32} {value:7.3f}   bar {bar:g}   {'met' if value <= bar else 'MISSED'}")
    print(json.dumps({"cpus": len(os.sched_getaffinity(0)), "python": sys.version.split()[0]}))
    sys.exit(any(value > bar for value, bar in figures.values()))


if __name__ == "__main__":
    main()
