"""Perceptrons of `herd regress --hidden` beside scikit-learn's and PyTorch's on MNIST, and beside linear models on ten tables.

    python scripts bench/tables/perceptron mnist [--runs 5] [--torch PYTHON] [-o results/perceptron.md]
    python scripts bench/tables/perceptron tables

mnist   784 columns, 100 rectified units, ten classes; Adam at .001, batches of 200, 10 epochs, no penalty, no early stopping, one thread.
        Programs run in turn, each in a process of its own.  Seconds of the processor and the most memory are those of the whole process:
        imports, reading and predictions included, of herd also its linear model and other baselines.  --torch names a Python that has it.
tables  `--hidden 64,32` without other options; log-likelihoods of held-out rows (nats per row) and the verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from shared import real_data

EPOCHS, BATCH, UNITS, RATE = 10, 200, 100, 0.001
READ = """
import json, resource, sys, h5py, numpy as np
with h5py.File(sys.argv[1]) as file:
    X, y, split = file["X"][:], file["y"][:], file["split"][:]
seed, dtype = int(sys.argv[2]), sys.argv[3]
test, truth = (X[split > 0] / 255).astype(dtype), y[split > 0]
X, y = (X[split == 0] / 255).astype(dtype), y[split == 0]
def show(guess):
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, float(np.mean(guess != truth))]))
"""
SKLEARN = f"""{READ}
import warnings
from sklearn.neural_network import MLPClassifier
warnings.simplefilter("ignore")
settings = dict(batch_size={BATCH}, max_iter={EPOCHS}, learning_rate_init={RATE}, alpha=0.0, n_iter_no_change={EPOCHS})
show(MLPClassifier(({UNITS},), random_state=seed, **settings).fit(X, y).predict(test))
"""
TORCH = f"""{READ}
import torch
torch.set_num_threads(1)
torch.manual_seed(seed)
X, y = torch.from_numpy(X), torch.from_numpy(y.astype(np.int64))
model = torch.nn.Sequential(torch.nn.Linear(784, {UNITS}), torch.nn.ReLU(), torch.nn.Linear({UNITS}, 10))
descent, loss = torch.optim.Adam(model.parameters(), lr={RATE}), torch.nn.CrossEntropyLoss()
for epoch in range({EPOCHS}):
    for chosen in torch.randperm(len(X)).split({BATCH}):
        descent.zero_grad()
        loss(model(X[chosen]), y[chosen]).backward()
        descent.step()
with torch.no_grad():
    show(model(torch.from_numpy(test)).argmax(1).numpy())
"""
HERD = f"""
import json, resource, sys, warnings
import herdcli
warnings.simplefilter("ignore")
options = dict(hidden="{UNITS}", activation="relu", optimizer="adam", epochs={EPOCHS}, batch_size={BATCH}, learning_rate={RATE}, l2=0)
model = herdcli.regress(sys.argv[1], seed=int(sys.argv[2]), dtype=sys.argv[3], patience=0, threads=1, **options)
held = model.holdout
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, float((held.predictor.argmax(axis=1) != held.y).mean())]))
"""
SETTINGS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(python: str, program: str, seed: int, dtype: str) -> list[float]:
    """Seconds, megabytes and test error of one run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.py"
        path.write_text(program)
        line = [python, str(path), str(real_data.path("mnist.h5")), str(seed), dtype]
        ended = subprocess.run(line, capture_output=True, text=True, check=True, env=os.environ | SETTINGS)
    found: list[float] = json.loads(ended.stdout.splitlines()[-1])
    return found


def mnist(runs: int, torch: str | None) -> str:
    """A table of medians over runs in turn."""
    programs = {
        "herd, float32 (default)": (sys.executable, HERD, "float32"),
        "scikit-learn, float64 (default)": (sys.executable, SKLEARN, "float64"),
        "scikit-learn, float32": (sys.executable, SKLEARN, "float32"),
    }
    if torch:
        programs["PyTorch, float32 (default)"] = (torch, TORCH, "float32")
    found: dict[str, list[list[float]]] = {name: [] for name in programs}
    for seed in range(runs):
        for name, (python, program, dtype) in programs.items():
            found[name].append(measure(python, program, seed, dtype))
            print(name, *(f"{value:.4g}" for value in found[name][-1]), sep="\t", file=sys.stderr, flush=True)
    middle = {name: np.median(np.array(each), axis=0) for name, each in found.items()}
    ours = next(iter(middle.values()))
    lines = [
        "| program | processor (s) | memory (MB) | test error | herd's time ÷ this | herd's memory ÷ this |",
        "|---|---|---|---|---|---|",
    ]
    for name, (seconds, memory, error) in middle.items():
        lines.append(f"| {name} | {seconds:.1f} | {memory:.0f} | {error:.4f} | {ours[0] / seconds:.2f} | {ours[1] / memory:.2f} |")
    return "\n".join(lines)


def tables() -> str:
    """A line a table: five that ship with scikit-learn, three of them also with another target, and two of a seed."""
    from sklearn import datasets

    import herdcli

    warnings.simplefilter("ignore")
    loaded = {name: getattr(datasets, f"load_{name}")() for name in ("iris", "wine", "breast_cancer", "digits", "diabetes")}
    chosen = {name: (data.data, data.target.astype(float if name == "diabetes" else str)) for name, data in loaded.items()}
    for name, column in (("iris", 2), ("wine", 0), ("breast_cancer", 3)):
        X = loaded[name].data
        chosen[f"{name}: {loaded[name].feature_names[column]}"] = (np.delete(X, column, axis=1), X[:, column])
    chosen["friedman1"] = datasets.make_friedman1(400, random_state=0)
    chosen["moons"] = (lambda X, y: (X, y.astype(str)))(*datasets.make_moons(400, noise=0.3, random_state=0))
    lines = ["| table | family | perceptron | linear model | error of the difference | verdict |", "|---|---|---|---|---|---|"]
    for name, (X, y) in chosen.items():
        (row,) = herdcli.eval(herdcli.regress(X, y, hidden="64,32"))
        figures = " | ".join(f"{row[key]:.4f}" for key in ("log_likelihood", "log_likelihood_linear", "linear_gain_se"))
        lines.append(f"| {name} | {row['family']} | {figures} | {row['verdict']} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["mnist", "tables"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--torch", help="a Python that has PyTorch")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    made = mnist(options.runs, options.torch) if options.what == "mnist" else tables()
    if options.output is None:
        print(made)
    else:
        options.output.write_text(made + "\n")


if __name__ == "__main__":
    main()
