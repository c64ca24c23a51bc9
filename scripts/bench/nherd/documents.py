"""`herd nherd-train --text` beside scikit-learn's TfidfVectorizer and LinearSVC on documents: test error, CPU time and memory.

    python scripts bench/nherd/documents --sklearn PYTHON [--data FOLDER] [--rounds 5]

FOLDER holds newsgroups20_text.parquet (default $HERD_DATA, else ../shared/data): posts to 20 newsgroups, divided by date.  PYTHON is an
interpreter with scikit-learn and pyarrow.  Whole processes in turn, both without options; times are the least of the rounds, of the user
and the system together.  Ours also digests its input (SHA-256), chooses the number of passes on held-out posts, and writes a model with the
words; scikit-learn's writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as they are where herd is installed

from bench.nherd.vw import MEASURE
from shared.real_data import FOLDER

HERD = str(Path(sys.executable).with_name("herd"))
THEIRS = """
import sys
import pyarrow.parquet as pq
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC
table = pq.ParquetFile(sys.argv[1]).read().to_pydict()
parts = {}
for part in ("train", "test"):
    rows = [k for k, own in enumerate(table["part"]) if own == part]
    parts[part] = [table["text"][k] for k in rows], [table["topic"][k] for k in rows]
words = TfidfVectorizer()
model = LinearSVC().fit(words.fit_transform(parts["train"][0]), parts["train"][1])
print(f"error {1 - model.score(words.transform(parts['test'][0]), parts['test'][1]):.4f}", file=sys.stderr)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--sklearn", required=True, metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    data = str(asked.data / "newsgroups20_text.parquet")
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/m.h5"
        commands = {
            "herd": [HERD, "nherd-train", "-q", data, "--text", "text", "-o", model],
            "scikit-learn": [asked.sklearn, "-c", THEIRS, data],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        megabytes, errors = dict.fromkeys(commands, 0.0), dict[str, str]()
        for _ in range(asked.rounds):
            for name, command in commands.items():
                done = subprocess.run([sys.executable, "-c", MEASURE, *command], check=True, capture_output=True, text=True)
                used, kilobytes = map(float, done.stdout.splitlines()[-1].split())
                seconds[name].append(used)
                megabytes[name] = max(megabytes[name], kilobytes / 1e3)
                errors[name] = done.stderr.strip().removeprefix("error ")
        judged = subprocess.run([HERD, "eval", model, "--format", "json"], check=True, capture_output=True, text=True)
        errors["herd"] = f"{json.loads(judged.stdout)[0]['error']:.4f}"
        size = Path(model).stat().st_size / 1e6
    base = min(seconds["scikit-learn"])
    for name, used in seconds.items():
        share = "" if name == "scikit-learn" else f", {min(used) / base:.2f} × scikit-learn's; model {size:.0f} MB"
        print(f"{name:>12}: error {errors[name]}, CPU {min(used):.2f} s, {megabytes[name]:.0f} MB{share}")


if __name__ == "__main__":
    main()
