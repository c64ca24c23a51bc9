"""MNIST with 500 hidden units: log-likelihood of the test rows against the processor time of learning.

    python scripts/mnist_rbm.py --epochs 3,12,60 [--algorithm pcd] [--seeds 1] [--track] [--likelihood auto] > curve.tsv

Rows are those of HERD_DATA/mnist.h5 (default ../shared/data), drawn once as bits by `herd convert --binarize stochastic`.  Every number of
epochs is a run of its own, whose rate falls to 0 by its end; `cpu_seconds` is what fit-rbm took of one core.  The likelihood is that of
`herd eval`, with what it says of log Z beside it: published is −86.3 for CD-25 (Salakhutdinov & Murray 2008), on bits of their own.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

COLUMNS = (
    "log_likelihood",
    "log_likelihood_se",
    "log_z",
    "log_likelihood_conservative",
    "log_likelihood_tracked",
    "log_likelihood_tracked_se",
)


def herd(*arguments: object) -> tuple[str, float]:
    """What a command prints, and the processor seconds it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run([sys.executable, "-m", "herdcli", *map(str, arguments)], check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return said, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """A line for each number of epochs and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", default="3,12,60")
    parser.add_argument("--algorithm", default="pcd")
    parser.add_argument("--steps", default="1")
    parser.add_argument("--learning-rate", default=".05")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--track", action="store_true")
    parser.add_argument("--likelihood", default="auto")
    asked = parser.parse_args()
    source = Path(os.environ.get("HERD_DATA", Path(__file__).parents[2] / "shared" / "data")) / "mnist.h5"
    print("epochs", "seed", "cpu_seconds", *COLUMNS, sep="\t", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows, model = f"{folder}/rows.h5", f"{folder}/model.h5"
        herd("convert", source, "--binarize", "stochastic", "-q", "-o", rows)
        how = ("--hidden", 500, "--algorithm", asked.algorithm, "--steps", asked.steps, "--batch-size", 100, "--momentum", 0.5)
        how += ("--learning-rate", asked.learning_rate, *(["--track-likelihood"] if asked.track else []), "-j", 1, "-q")
        for epochs in asked.epochs.split(","):
            for seed in range(asked.seeds):
                _, seconds = herd("fit-rbm", rows, *how, "--epochs", epochs, "--seed", seed, "-o", model)
                told = herd("eval", model, "--likelihood", asked.likelihood)[0]
                found = dict(zip(*(line.split("\t") for line in told.splitlines()), strict=True))
                print(epochs, seed, f"{seconds:.0f}", *(found.get(name, "")[:7] for name in COLUMNS), sep="\t", flush=True)


if __name__ == "__main__":
    main()
