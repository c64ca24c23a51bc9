"""Do sets of `herd nherd-train --coverage 0.9` hold the truth of nine examples of ten: along the stream, and of test rows.

    python scripts bench/nherd/coverage [--data FOLDER] [--only NAME …]

Test error, share of sets that hold the truth and classes in a set, of the stream's examples before each is learned, and of the test rows by
`herd eval`.  Data sets are learned shuffled, with their own split or one drawn; a9a as text in its order, with its own test rows.  Whether
probabilities are right, beside Vowpal Wabbit's and scikit-learn's calibrators: scripts/bench/nherd/calibration.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from bench.nherd.defaults import HERD
from shared.real_data import FOLDER

LEVEL = "0.9"
SETS = {
    "a9a": ("a9a", "a9a.t"),
    "spambase": ("spambase.h5",),
    "USPS": ("usps_all.h5",),
    "R8": ("r8_bow.h5",),
    "phoneme": ("phoneme.h5",),
    "MNIST": ("mnist.h5",),
    "20 newsgroups, by date": ("newsgroups20_bow.h5",),
}


def judged(folder: Path, files: tuple[str, ...]) -> dict[str, float]:
    """The row of `herd eval`."""
    train, *test = (str(folder / name) for name in files)
    with tempfile.TemporaryDirectory() as place:
        model = str(Path(place) / "m.h5")
        way = ["--input-format", "svmlight"] if test else ["--shuffle"]
        subprocess.run([HERD, "nherd-train", "-q", train, *way, "--coverage", LEVEL, "-o", model], check=True)
        if test:  # by its lines, whatever its name
            link = Path(place) / "test.svm"
            link.symlink_to(Path(test[0]).resolve())
            test = ["--data", str(link)]
        told = subprocess.run([HERD, "eval", model, *test, "--format", "json"], check=True, capture_output=True)
    row: dict[str, float] = json.loads(told.stdout)[0]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--only", action="append", help="may be repeated")
    options = parser.parse_args()
    print("| set | test rows | error | stream: coverage, size | test rows: coverage, size |\n|---|---|---|---|---|")
    for name, files in SETS.items():
        if (options.only and name not in options.only) or not all((options.data / each).exists() for each in files):
            continue
        row = judged(options.data, files)
        stream = f"{row['progressive_coverage']:.3f}, {row['progressive_set_size']:.2f}"
        print(f"| {name} | {row['rows']:,} | {row['error']:.3f} | {stream} | {row['coverage']:.3f}, {row['set_size']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
