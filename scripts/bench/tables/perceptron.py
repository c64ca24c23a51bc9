"""The page results/perceptron.md: `herd regress --hidden` beside scikit-learn and PyTorch on MNIST, and on ten tables; threads.

    python scripts bench/tables/perceptron [--part PART …] [--runs 5] [--torch PYTHON] [-o results/perceptron.md]

mnist    784 columns, 100 rectified units, ten classes; Adam at .001, batches of 200, 10 epochs, no penalty, no early stopping, one thread.
         Programs run in turn, each in a process of its own.  Seconds of the processor and the most memory are those of the whole process:
         imports, reading and predictions included, of herd also its linear model and other baselines.  --torch names a Python that has it.
tables   `--hidden 64,32` without other options; log-likelihoods of held-out rows (nats per row) and the verdict.
threads  seconds of one and of two threads, for several sizes of layers and batches.

All three parts by default; -o writes the whole page, or the sections of the parts that are named.
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


def log_likelihoods(family: str, y: np.ndarray, eta: np.ndarray, dispersion: float) -> np.ndarray:
    """Of rows (n,), from predictors η (n, K)."""
    if family == "softmax":
        return np.asarray(eta[np.arange(len(y)), y.astype(int)] - np.logaddexp.reduce(eta, axis=1))
    if family == "bernoulli":
        return np.asarray(y * eta[:, 0] - np.logaddexp(0, eta[:, 0]))
    return np.asarray(-0.5 * np.log(2 * np.pi * dispersion) - (y - eta[:, 0]) ** 2 / (2 * dispersion))


def sklearn_log_likelihoods(family: str, X: np.ndarray, y: np.ndarray, split: np.ndarray) -> np.ndarray:
    """Of test rows by scikit-learn's perceptron with standardised columns and, of numbers, a standardised target.

    It is fitted to the training rows; validation rows give the variance of numbers, as in herd.
    """
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, valid, test = (split == part for part in range(3))
    if family == "gaussian":
        layers = make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(64, 32), random_state=0))
        numbers = TransformedTargetRegressor(layers, transformer=StandardScaler()).fit(X[train], y[train])
        variance = float(np.mean((y[valid] - numbers.predict(X[valid])) ** 2))
        return log_likelihoods(family, y[test], numbers.predict(X[test])[:, None], variance)
    classes = make_pipeline(StandardScaler(), MLPClassifier(hidden_layer_sizes=(64, 32), random_state=0)).fit(X[train], y[train])
    p = classes.predict_proba(X[test])
    return np.asarray(np.log(np.maximum(p[np.arange(test.sum()), np.searchsorted(classes.classes_, y[test])], np.finfo(float).tiny)))


def ten_tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Five tables that ship with scikit-learn, three of them also with another target, and two of a seed."""
    from sklearn import datasets

    loaded = {name: getattr(datasets, f"load_{name}")() for name in ("iris", "wine", "breast_cancer", "digits", "diabetes")}
    chosen = {name: (data.data, data.target.astype(float if name == "diabetes" else str)) for name, data in loaded.items()}
    for name, column in (("iris", 2), ("wine", 0), ("breast_cancer", 3)):
        X = loaded[name].data
        chosen[f"{name}: {loaded[name].feature_names[column]}"] = (np.delete(X, column, axis=1), X[:, column])
    chosen["friedman1"] = datasets.make_friedman1(400, random_state=0)
    chosen["moons"] = (lambda X, y: (X, y.astype(str)))(*datasets.make_moons(400, noise=0.3, random_state=0))
    return chosen


def tables() -> str:
    """A line a table."""
    import herdcli
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.tables.dataset_preparation import assign_splits

    warnings.simplefilter("ignore")
    lines = [
        "| table | family | perceptron | linear model | error of the difference | scikit-learn's | error of the difference | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (X, y) in ten_tables().items():
        split = assign_splits(Dataset(X=X), None, 0)  # as every command with this seed
        model = herdcli.regress(X, y, hidden="64,32", seed=0)
        (row,) = herdcli.eval(model)
        held = model.holdout
        kept = held.split == 2
        own = log_likelihoods(model.family, held.y[kept], held.predictor[kept], model.dispersion)
        other = sklearn_log_likelihoods(model.family, X, y, split)
        if not np.array_equal(held.split, split[split > 0]) or abs(own.mean() - row["log_likelihood"]) > 1e-9:
            raise SystemExit(f"{name}: {own.mean():.6f} is not the log-likelihood of herd eval, {row['log_likelihood']:.6f}")
        gain = (own - other).std(ddof=1) / np.sqrt(len(own))
        first = " | ".join(f"{row[key]:.4f}" for key in ("log_likelihood", "log_likelihood_linear", "linear_gain_se"))
        lines.append(f"| {name} | {row['family']} | {first} | {other.mean():.4f} | {gain:.4f} | {row['verdict']} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


THREADS = """
import json, resource, sys, time
import numpy as np, herdcli, warnings
warnings.simplefilter("ignore")
units, batch, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random = np.random.default_rng(0)
X = random.normal(size=(6000, 500)).astype(np.float32)
y = (X[:, 0] * X[:, 1] > 0).astype(str)
options = dict(hidden=units, activation="relu", optimizer="adam", epochs=2, batch_size=batch, patience=0, seed=0)
begin = time.perf_counter()
model = herdcli.regress(X, y, threads=threads, **options)
print(json.dumps([time.perf_counter() - begin, float(sum(np.abs(layer.W).sum() for layer in model.layers))]))
"""


def threads(runs: int) -> str:
    """Seconds by the clock with one and two threads, the least of runs in turn, and whether the models are equal."""
    lines = ["| hidden units | batch | one thread (s) | two threads (s) | ratio | same model |", "|---|---|---|---|---|---|"]
    for units, batch in (("100", 200), ("1000", 200), ("1000,1000", 200), ("1000", 2000)):
        found: dict[int, list[list[float]]] = {1: [], 2: []}
        for _ in range(runs):
            for count, seen in found.items():
                line = [sys.executable, "-c", THREADS, units, str(batch), str(count)]
                ended = subprocess.run(line, capture_output=True, text=True, check=True, env=os.environ | SETTINGS)
                seen.append(json.loads(ended.stdout.splitlines()[-1]))
        one, two = (min(seconds for seconds, _ in found[count]) for count in (1, 2))
        same = len({size for seen in found.values() for _, size in seen}) == 1
        lines.append(f"| {units} | {batch} | {one:.2f} | {two:.2f} | {two / one:.2f} | {'yes' if same else 'no'} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


TEXTS = {
    "mnist": """## MNIST

One hidden layer of 100 rectified units, Adam at .001, batches of 200, 10 epochs, one thread. Each number is the median of {runs} runs in
turn and covers a whole process: imports, reading and predictions, for herd also the linear model and the other baselines.""",
    "tables": """## Ten tables

`--hidden 64,32` and no other option. Log-likelihoods are in nats per row of split 2. scikit-learn's `MLPClassifier((64, 32))` and
`MLPRegressor((64, 32))` have standardised columns and targets and no other option either. They are fitted to the same training rows, and
the variance of numbers is that of the validation rows in both programs. Errors are standard errors of the mean difference from the
perceptron of herd over these rows. The verdict names the tables where the linear model is better by more than that.""",
    "threads": """## Threads

6,000 rows of 500 numbers in two classes, two epochs of Adam in single precision; seconds by the clock, the least of {runs} runs in turn.
Large batches are divided into parts of a fixed number of rows, so the model does not depend on the number of threads. Smaller ones are
computed by one thread.""",
}
PARTS = tuple(TEXTS)


def page(parts: list[str], runs: int, torch: str | None) -> str:
    """The sections of the parts."""
    makers = {"mnist": lambda: mnist(runs, torch), "tables": tables, "threads": lambda: threads(runs)}
    found = ["# Perceptrons: `herd regress --hidden` beside scikit-learn and PyTorch, and beside linear models"]
    for part in parts:
        found += [TEXTS[part].format(runs=runs), makers[part]()]
    if "mnist" in parts and not torch:
        found.append("PyTorch was not measured; `--torch PYTHON` adds it.")
    chosen = "".join(f" --part {part}" for part in parts if len(parts) < len(PARTS))
    command = f"python scripts bench/tables/perceptron{chosen} --runs {runs}{' --torch PYTHON' if torch else ''} -o results/perceptron.md"
    return "\n\n".join([*found, f"`{command}`"]) + "\n"


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--torch", help="a Python that has PyTorch")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    made = page(options.part or list(PARTS), options.runs, options.torch)
    if options.output is None:
        print(made, end="")
    else:
        options.output.write_text(made)


if __name__ == "__main__":
    main()
