"""herd's commands beside other programs in one run: quality, seconds and memory on the same rows of real sets, over several draws.

    python scripts leagues/pairs FOLDER [--seeds 3] [--only TASK …] [--rows N]       (makes league-sides.csv)

A task is a set and what is asked of it; draw s of its rows is seed s: two thirds are learned from, a third is judged.  Every contender is a
process of its own on one thread and reads the same file: seconds are those of the processor from its start to the end of learning, memory
is the most that it held.  herd's commands have no options but those that name the model, its size or its data; rivals' settings are in
leagues/peer_programs.py.  `herd eval` judges herd's models, by the measures that that script works out for the others: errors of classes,
squared errors and minus nats a row (exact), Amari distances; lower is better.  Models of classes that need rows to calibrate on take a
quarter of those that are learned from.  Programs that are missing are left out; one that ends with an error has no numbers.  A row is a
task, contender and draw, and those that are in the table already are not run again.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

from shared.figure_pipeline import HERD, Row, read_csv, write_csv
from shared.real_data import FOLDER
from shared.script_paths import ROOT, script

# A process's resources, by a parent so small that its own memory is not counted as its child's.
MEASURE = """
import os, sys
pid = os.fork()
if pid == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execv(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
FAILED = dict.fromkeys(("quality", "seconds", "mb"), float("nan"))
WHITE = {"digits": 16.0, "usps": 255.0, "mnist": 255.0}
VW = {"Vowpal Wabbit": "", "Vowpal Wabbit, 5 passes": "--passes 5 -k --holdout_off --cache_file x.cache"}


@dataclass(frozen=True)
class Task:
    """What is asked: of which sets, of which commands, and against whom."""

    asked: str  # what the quality is
    sets: tuple[str, ...]
    ours: tuple[str, ...]  # herd's command lines
    figure: str  # of `herd eval`; a minus before it where more is better
    rivals: tuple[str, ...]


TASKS = {
    "pictures": Task(
        "test error",
        ("digits", "usps", "mnist"),
        ("herd --per-class --keep-last 0", "fit-rbm --per-class", "nherd-train", "regress"),
        "error",
        ("logistic regression", "nearest neighbour", "SVC", "BernoulliRBM + logistic", *VW),
    ),
    "online": Task("test error", ("spambase", "a9a", "phoneme"), ("nherd-train",), "error", ("SGDClassifier", "logistic regression", *VW)),
    "logistic": Task("minus nats a row", ("spambase", "a9a"), ("regress",), "-log_likelihood", ("LogisticRegression", "GLM", "glum")),
    "rbm": Task(
        "minus nats a row",
        ("digits-bits", "usps-bits", "words"),
        ("fit-rbm --hidden 16",),
        "-log_likelihood",
        ("BernoulliRBM", "BernoulliRBM, 100 passes"),
    ),
    "gmm": Task("minus nats a row", ("speech", "music", "spambase"), ("em --components 10",), "-log_likelihood", ("GaussianMixture",)),
    "fa": Task("minus nats a row", ("speech", "phoneme"), ("em --model fa --components 20",), "-log_likelihood", ("FactorAnalysis",)),
    "ppca": Task("minus nats a row", ("speech", "phoneme"), ("em --model ppca --components 20",), "-log_likelihood", ("PCA",)),
    "hmm": Task("minus nats a row", ("music",), ("em --model hmm --components 8 --iterations 100",), "-log_likelihood", ("GaussianHMM",)),
    "lds": Task(
        "minus nats a row",
        ("music-long",),
        ("em --model lds --components 8",),
        "-log_likelihood",
        ("KalmanFilter", "KalmanFilter, 50 iterations", "DynamicFactorMQ"),
    ),
    "network": Task(
        "minus nats a row",
        ("eights", "words"),
        ("fit-mrf --smoothing 1", "fit-mrf --algorithm bayes --structure hill-climb --smoothing 1"),
        "-log_likelihood",
        ("pyAgrum", "pyAgrum, hill climbing", "TreeSearch"),
    ),
    "dictionary": Task(
        "½|z − As|² + .01 |s|₁ a row",
        ("patches",),
        ("ica --algorithm sparse-coding --whiten centre --filters 128",),
        "dictionary",
        ("SPAMS", "MiniBatchDictionaryLearning"),
    ),
    "kmeans": Task(
        "squared error a row",
        ("usps", "phoneme", "speech"),
        ("em --model kmeans --components 50",),
        "squared_error",
        ("KMeans", "MiniBatchKMeans"),
    ),
    "ica": Task("Amari distance", ("music-mixed", "speech-mixed"), ("ica",), "amari", ("picard", "FastICA", "extended infomax")),
}
SOURCES = {  # set: file, most rows
    "digits": ("data/digits.h5", 0),
    "digits-bits": ("data/digits.h5", 0),
    "usps": ("usps_all.h5", 0),
    "usps-bits": ("usps_all.h5", 0),
    "mnist": ("mnist.h5", 6_000),
    "spambase": ("spambase.h5", 0),
    "phoneme": ("phoneme.h5", 0),
    "a9a": ("a9a", 0),
    "words": ("news_w100.h5", 0),
    "speech": ("speech_segments.h5", 12_000),
    "music": ("music16_long.h5", 30_000),
    "music-long": ("music16_long.h5", 3_000),
    "eights": ("eights8x8.h5", 0),
    "patches": ("patches16.h5", 9_000),
    "music-mixed": ("music16_long.h5", 0),
    "speech-mixed": ("speech_segments.h5", 0),
}


def prepare(name: str, seed: int, most: int, folder: Path) -> None:
    """x.h5 of one draw of a set and validated.h5 with rows to calibrate on; mixing.h5 of mixed sources; train.vw and test.vw of classes."""
    import h5py
    import numpy as np

    file, rows = SOURCES[name]
    place = ROOT / file if file.startswith("data/") else FOLDER / file
    random = np.random.default_rng([seed, 24])
    extra: dict[str, np.ndarray] = {}
    attributes: dict[str, object] = {}
    if file == "a9a":
        X, y = svmlight(place)
    else:
        with h5py.File(place) as source:
            X, y = source["X"][:], source["y"][:] if "y" in source else None
            attributes = {key: source["X"].attrs[key] for key in ("image_shape", "value_range") if key in source["X"].attrs}
            if name.partition("-")[0] in WHITE:
                attributes["value_range"] = np.array([0.0, WHITE[name.partition("-")[0]]])
    limit = min(most or len(X), rows or len(X), len(X))
    if name.endswith("-mixed"):
        S = X.astype(np.float64) if X.shape[1] == 16 else X.astype(np.float64)[: len(X) // 8 * 8].reshape(8, -1).T
        S = (S - S.mean(axis=0)) / S.std(axis=0)
        A = random.standard_normal((S.shape[1], S.shape[1]))
        with h5py.File(folder / "mixing.h5", "w") as target:
            target["X"] = A
        X, y, split = S[: most or len(S)] @ A.T, None, np.zeros(min(most or len(S), len(S)), dtype=np.uint8)
    elif name == "music-long":  # one sequence to learn from, and the next one to judge by
        start = int(random.integers(len(X) - limit))
        X, split = X[start : start + limit], np.where(np.arange(limit) < limit * 2 // 3, 0, 2).astype(np.uint8)
        extra["sequence"] = (split > 0).astype(int)
    elif name == "music":  # 250 rows in a row are a sequence
        start = int(random.integers(len(X) - limit))
        X, sequence = X[start : start + limit], np.arange(limit) // 250
        extra["sequence"], split = sequence, np.where(random.random(sequence.max() + 1)[sequence] < 1 / 3, 2, 0).astype(np.uint8)
    else:
        chosen = random.permutation(len(X))[:limit]
        X, y = X[chosen], None if y is None else y[chosen]
        split = np.where(np.arange(limit) < limit * 2 // 3, 0, 2).astype(np.uint8)
    if name == "patches":  # of 8 × 8 pixels, whitened by the rows that are learned from
        X = X.reshape(-1, 16, 16)[:, :8, :8].reshape(-1, 64).astype(np.float64)
        value, vectors = np.linalg.eigh(np.cov(X[split == 0].T))
        X, attributes = (X - X[split == 0].mean(axis=0)) @ (vectors / np.sqrt(value)) @ vectors.T, {}
    if name.endswith("-bits"):
        X, attributes = np.greater_equal(X, 0.3 * float(np.ravel(attributes["value_range"])[1])).astype(np.uint8), {}
    validated = np.where((split == 0) & (np.arange(len(X)) % 4 == 3), 1, split).astype(np.uint8)
    for file, parts in (("x.h5", split), ("validated.h5", validated)):
        with h5py.File(folder / file, "w") as target:
            target["X"], target["split"] = X, parts
            target["X"].attrs.update(attributes)
            for key, column in extra.items():
                target[key] = column
            if y is not None:
                target["y"] = y
    if y is not None:
        vowpal(np.asarray(X, dtype=np.float64), np.unique(y, return_inverse=True)[1], split, folder)


def svmlight(place: Path) -> tuple[object, object]:
    """Dense rows and 0 or 1 labels of text whose indices begin at 1."""
    import numpy as np

    lines = place.read_text(encoding="utf-8").splitlines()
    X, y = np.zeros((len(lines), 123), dtype=np.float32), np.zeros(len(lines), dtype=np.int32)
    for k, line in enumerate(lines):
        first, *pairs = line.split()
        y[k] = float(first) > 0
        for pair in pairs:
            X[k, int(pair.partition(":")[0]) - 1] = float(pair.partition(":")[2])
    return X, y


def vowpal(X: object, y: object, split: object, folder: Path) -> None:
    """The same rows as lines; of two classes −1 and 1, else from 1."""
    import numpy as np

    X, y, split = np.asarray(X), np.asarray(y), np.asarray(split)
    label = 2 * y - 1 if y.max() == 1 else y + 1
    for part, number in (("train", 0), ("test", 2)):
        lines = []
        for row, first in zip(X[split == number], label[split == number], strict=True):
            places = np.flatnonzero(row)
            lines.append(
                f"{first} |" + "".join(f" {k}:{value:.6g}" for k, value in zip(places.tolist(), row[places].tolist(), strict=True))
            )
        (folder / f"{part}.vw").write_text("\n".join(lines) + "\n", encoding="utf-8")


def measured(line: list[str], folder: Path) -> tuple[float, float]:
    """Seconds of the processor and MB of a process; ends the program where it fails."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, *line], cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    code, seconds, peak = (float(word) for word in done.stdout.split())
    if code:
        sys.exit(f"failed with exit code {code:g}: {' '.join(line)}")
    return seconds, peak


def ours(line: str, figure: str, seed: int, folder: Path) -> Row:
    """One of herd's commands."""
    mixing = ["--mixing", "mixing.h5"] if (folder / "mixing.h5").exists() else []
    command, *rest = line.split()
    data = "validated.h5" if "--per-class" in rest else "x.h5"
    alone = [] if command in ("nherd-train", "fit-mrf") else ["-j", "1"]  # which have one thread
    seconds, peak = measured([*HERD, command, data, *rest, *mixing, *alone, "--seed", str(seed), "-q", "-o", "model.h5"], folder)
    if figure == "dictionary":
        return theirs("herd's dictionary", seed, folder) | {"seconds": seconds, "mb": peak}
    # Errors are read alone here: no log Z is annealed for them.
    less = ["--likelihood", "ais", "--chains", "2", "--temperatures", "2"] if (command, figure) == ("fit-rbm", "error") else []
    judging = [*HERD, "eval", "model.h5", "--format", "json", "-q", *less]
    judge = subprocess.run(judging, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    value = float(json.loads(judge.stdout)[0][figure.lstrip("-")])
    return {"quality": -value if figure.startswith("-") else value, "seconds": seconds, "mb": peak}


def theirs(name: str, seed: int, folder: Path) -> Row:
    """One of the others."""
    if name not in VW:
        line = [sys.executable, str(Path(__file__).with_name("peer_programs.py")), name, "x.h5", str(seed)]
        done = subprocess.run(line, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
        return FAILED if done.returncode else dict(json.loads(done.stdout.splitlines()[-1]))
    labels = [line.split(" ", 1)[0] for line in (folder / "test.vw").read_text(encoding="utf-8").splitlines()]
    binary = set(labels) <= {"-1", "1"}
    program = [sys.executable, "-m", "vowpalwabbit", "--quiet"]
    kind = ["--loss_function", "logistic"] if binary else ["--oaa", str(max(int(label) for label in labels)), "--loss_function", "logistic"]
    seconds, peak = measured([*program, *kind, *VW[name].split(), "-d", "train.vw", "-f", "model.vw"], folder)
    measured([*program, "-t", "-i", "model.vw", "-d", "test.vw", "-p", "guesses"], folder)
    guesses = [float(line.split()[0]) for line in (folder / "guesses").read_text(encoding="utf-8").splitlines()]
    wrong = [
        (1 if guess > 0 else -1) != int(label) if binary else guess != int(label) for guess, label in zip(guesses, labels, strict=True)
    ]
    return {"quality": sum(wrong) / len(wrong), "seconds": seconds, "mb": peak}


@functools.cache
def herd_version() -> str:
    """Of the herd that runs, installed or not: the second word of `herd --version`."""
    return subprocess.run([*HERD, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1]


def package(name: str) -> tuple[str, str, str] | None:
    """Name, version and settings of a rival, or nothing where it is not installed."""
    from leagues.peer_programs import PROGRAMS

    distribution, told = ("vowpalwabbit", "logistic loss") if name in VW else PROGRAMS[name][1:]
    try:
        return distribution, importlib.metadata.version(distribution), told
    except importlib.metadata.PackageNotFoundError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=0, help="of each set at most")
    parser.add_argument("--only", action="append", choices=list(TASKS))
    parser.add_argument("--prepare", nargs=2, metavar=("SET", "SEED"), help="in FOLDER, and nothing else")
    asked = parser.parse_args()
    if asked.prepare:
        prepare(asked.prepare[0], int(asked.prepare[1]), asked.rows, asked.folder)
        return
    table = asked.folder / "league-sides.csv"
    rows = read_csv(table)
    for title in asked.only or TASKS:
        task = TASKS[title]
        rivals = {name: found for name in task.rivals if (found := package(name))}
        for name in task.sets:
            for seed in range(asked.seeds):
                done = {(row["contender"]) for row in rows if (row["task"], row["set"], int(row["draw"])) == (title, name, seed)}
                folder = asked.folder / f"{name}-{seed}"
                folder.mkdir(parents=True, exist_ok=True)
                if not (folder / "x.h5").exists():
                    own = ["--rows", str(asked.rows), "--prepare", name, str(seed)]
                    line = [sys.executable, *script("leagues/pairs"), str(folder.resolve()), *own]
                    subprocess.run(line, check=True)
                for contender in (*(f"herd {line}" for line in task.ours), *rivals):
                    if contender in done:
                        continue
                    own = contender not in rivals
                    found = ours(contender.removeprefix("herd "), task.figure, seed, folder) if own else theirs(contender, seed, folder)
                    distribution, version, told = ("herdcli", herd_version(), "") if own else rivals[contender]
                    rows.append(
                        {"task": title, "asked": task.asked, "set": name, "draw": seed, "contender": contender, "package": distribution}
                        | {"version": version, "settings": told, "quality": float(found["quality"]), "seconds": float(found["seconds"])}
                        | {"mb": float(found["mb"])}
                    )
                    write_csv(table, rows)
                    told = f"{found['quality']:12.5g} {found['seconds']:8.2f} s {found['mb']:6.0f} MB"
                    print(f"{title:9} {name:13} {seed} {contender:40} {told}", flush=True)


if __name__ == "__main__":
    main()
