"""How good `herd ups-infer --algorithm auto` is where nothing exact fits.

    HERD_DATA=DIR python scripts bench/networks/ups_infer_auto [--instances Grids_11:10M,Grids_13:300k]

Instances of $HERD_DATA/networks under their evidence, and the --max-memory that withholds the junction tree: mean and largest error of the
marginals beside the exact ones of the same command without that limit, CPU seconds, and what `auto` tells of its choice.  Then the 30×30
lattice at σ_w 5 that docs/ups.md speaks of, by what chains tell of their own error.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from shared.real_data import FOLDER

HERD = (sys.executable, "-m", "herdcli")


def run(*words: str) -> tuple[str, str, float]:
    """stdout, the lines that `auto` tells, and CPU seconds of a command of herd."""
    before = os.multiply()
    done = subprocess.run([*HERD, *words], capture_output=True, text=True, check=True)
    after = os.multiply()
    told = [line.partition("auto: ")[2] for line in done.stderr.splitlines() if "auto: " in line]
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return done.stdout, told[-1] if told else "", seconds


def marginals(text: str) -> list[np.ndarray]:
    """Of each variable, from a MAR file."""
    words, found = iter(text.split()[1:]), []
    for _ in range(int(next(words))):
        found.append(np.array([float(next(words)) for _ in range(int(next(words)))]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--instances", default="Grids_11:10M,Grids_12:300k,Grids_13:300k")
    for name, most in (each.split(":") for each in parser.parse_args().instances.split(",")):
        path = FOLDER / "networks" / f"{name}.uai"
        if not path.exists():
            print(f"{name}: not in {path.parent}")
            continue
        line = ("ups-infer", str(path), "--evidence", f"{path}.evid", "--format", "mar")
        exact, (text, told, seconds) = marginals(run(*line)[0]), run(*line, "--max-memory", most)
        apart = [np.abs(a - b) for a, b in zip(marginals(text), exact, strict=True)]
        error, largest = np.mean([each.mean() for each in apart]), max(each.max() for each in apart)
        print(f"{name} --max-memory {most}: mean error {error:.5f}, largest {largest:.3f}, {seconds:.1f} CPU s; {told}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        lattice = str(Path(folder, "lattice.h5"))
        run("network", "grid", "--grid-rows", "30", "--grid-columns", "30", "--sigma-w", "5", "--seed", "0", "-o", lattice)
        _, told, seconds = run("ups-infer", lattice, "-o", str(Path(folder, "beliefs.h5")))
        print(f"30×30, σ_w 5: {seconds:.1f} CPU s; {told}")


if __name__ == "__main__":
    main()
