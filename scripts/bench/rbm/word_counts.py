"""Counts of words: whether what is learned without options loses to independent words, and whether intervals of their likelihoods hold.

    HERD_DATA=DIR python scripts bench/rbm/word_counts [--sets r8_bow,w8a] [--seeds 3] [--out results/rbm_words.tsv]
    HERD_DATA=DIR python scripts bench/rbm/word_counts --coverage [--models 40] [--minutes 20] [--out results/words_coverage.tsv]

Sets: R8, twenty newsgroups, four kinds of reviews, the words that postings have of a hundred (news_w100), the attributes of web pages (w8a)
and the grey levels of digits, each counted as a word, which the rates of pt were chosen on with one seed; attributes of persons (a9a) and
pixels of eights, which they were not: 3000 rows of the 5000 commonest words, a third held out.
The first way has `herd fit-rbm rows.h5 --visible-units words --hidden K --epochs 20 --seed S | herd eval` by pt, the default,
and by cd: mean nats of held-out rows, summed over all hidden states (K = 12) or annealed (K = 50), and processor seconds of the fit.
Exit code 1 if a default is below independent words and not said to be.
--coverage: models of 4 to 14 hidden units, by cd and pt at several rates, whose log Z are summed, annealed as if they could not be; exit
code 1 if the reliable intervals hold fewer than 93 % of the exact values, more than 10 % are not reliable or the median width is above .5.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
from scipy import sparse

from herdcli import artifacts
from herdcli.algorithm import run_algorithm
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.likelihood import length_annealing, word_counts
from herdcli.rbm.likelihood.log_z_estimates import STUDENT
from herdcli.rbm.likelihood.repeated_annealing import MOST_TEMPERATURES
from herdcli.rbm.model import Harmonium
from herdcli.rng import Stream, generator

HERD = (sys.executable, "-m", "herdcli.cli.main")
SETS = ("r8_bow", "newsgroups20_bow", "sentiment4_bow", "news_w100", "w8a", "digits8x8", "a9a", "eights8x8")
MOST_ROWS, MOST_WORDS = 3000, 5000
WAYS = (("auto", 12), ("cd", 12), ("auto", 50))


def rows_of(name: str) -> sparse.csr_array | None:
    """Counts (n, D) of rows in a fixed random order, rows without words left out; None where the file is not there."""
    path = next((p for p in (Path(os.environ.get("HERD_DATA", "")) / end for end in (f"{name}.h5", name)) if p.is_file()), None)
    if path is None:
        return None
    X = sparse.csr_array(artifacts.load(str(path)).value.X, dtype=np.float32)
    X = X[generator(0, Stream.SPLIT).permutation(X.shape[0])[:MOST_ROWS]]
    X = X[:, np.sort(np.argsort(-X.sum(axis=0), kind="stable")[:MOST_WORDS])]
    return sparse.csr_array(X[np.flatnonzero(X.sum(axis=1) > 0)])


def written(X: sparse.csr_array, path: Path) -> None:
    """Rows as `herd` reads them, the last third of them to judge by."""
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["shape"] = X.shape
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(X, part).astype(np.uint16 if part == "data" else np.int64)
        file["split"] = np.where(np.arange(X.shape[0]) < X.shape[0] * 2 // 3, 0, 2).astype(np.uint8)


def judged(path: Path, algorithm: str, hidden: int, seed: int) -> tuple[dict[str, float], float]:
    """What `herd eval` says of a model, and processor seconds of its fit."""
    model = path.with_name("model.h5")
    options = ["--visible-units", "words", "--algorithm", algorithm, "--hidden", str(hidden), "--epochs", "20", "--seed", str(seed)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*HERD, "fit-rbm", str(path), *options, "-o", str(model)], check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run([*HERD, "eval", str(model), "--format", "json"], check=True, capture_output=True, text=True).stdout
    return json.loads(said)[0], after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def defaults(sets: list[str], seeds: int, out: Path | None) -> int:
    head = ("set", "algorithm", "hidden", "seed", "independent", "likelihood", "half_width", "log_z", "verdict", "seconds")
    lines, lost = ["\t".join(head)], 0
    with tempfile.TemporaryDirectory() as folder:
        for name in sets:
            X = rows_of(name)
            if X is None:
                continue
            path = Path(folder) / f"{name}.h5"
            written(X, path)
            for algorithm, hidden in WAYS:
                for seed in range(seeds):
                    found, seconds = judged(path, algorithm, hidden, seed)
                    half = (found["log_likelihood_high"] - found["log_likelihood_low"]) / 2
                    figures = (
                        f"{found['independent']:.2f}",
                        f"{found['log_likelihood']:.2f}",
                        f"{half:.2f}",
                        found["log_z_method"],
                        found["verdict"],
                    )
                    lines.append("\t".join(map(str, (name, algorithm, hidden, seed, *figures, f"{seconds:.1f}"))))
                    print(lines[-1], flush=True)
                    lost += algorithm == "auto" and found["log_likelihood"] < found["independent"] and found["verdict"] == "ok"
    if out:
        out.write_text("\n".join(lines) + "\n")
    return int(lost > 0)


def trained(train: sparse.csr_array, hidden: int, algorithm: str, rate: float, seed: int) -> Harmonium:
    chosen = parallel_fits.Settings(hidden, algorithm, visible_units="words", epochs=6, learning_rate=rate, seed=seed)
    problem = parallel_fits.LearningProblem([parallel_fits.SelectedRows(train, np.arange(train.shape[0]))], chosen)
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    return Harmonium(*(np.asarray(part[0], dtype=np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)


def coverage(sets: list[str], models: int, minutes: float, out: Path | None) -> int:
    head = ("set", "hidden", "algorithm", "rate", "seed", "log_z", "error", "half_width", "effective", "sweeps", "reliable")
    began, lines, found = time.monotonic(), ["\t".join(head)], []
    known = {name: X for name in sets if (X := rows_of(name)) is not None}
    for number in range(models):
        if time.monotonic() - began > 60 * minutes:
            break
        (name, X), turn = list(known.items())[number % len(known)], number // len(known)
        hidden, algorithm, rate = (12, 8, 14, 4)[turn % 4], ("pt", "cd")[turn % 2], (0.003, 0.0001, 0.01, 0.0003)[(turn // 2) % 4]
        cut = X.shape[0] * 2 // 3
        h = trained(X[:cut], hidden, algorithm, rate, turn)
        lengths, counts = np.unique(word_counts.count_words_per_row(X[cut:]), return_counts=True)
        exact = float(word_counts.exact_log_partitions(h, lengths) @ counts / counts.sum())
        mean = length_annealing.anneal_log_partitions(h, lengths, counts, chains=100, max_sweeps=MOST_TEMPERATURES, seed=turn).mean
        error, half = mean.log_partition - exact, STUDENT * mean.standard_error
        found.append((abs(error) <= half, half, mean.reliable))
        figures = (f"{exact:.3f}", f"{error:+.4f}", f"{half:.4f}", f"{mean.effective:.1f}", mean.temperatures, int(mean.reliable))
        lines.append("\t".join(map(str, (name, hidden, algorithm, rate, turn, *figures))))
        print(lines[-1], flush=True)
    if out:
        out.write_text("\n".join(lines) + "\n")
    covered, half, reliable = (np.array(part) for part in zip(*found, strict=True))
    share, doubtful, width = covered[reliable].mean(), 1 - reliable.mean(), 2 * np.median(half[reliable])
    print(f"{len(found)} models; covered {share:.1%}; not reliable {doubtful:.1%}; median width {width:.3f} nats")
    return 0 if share >= 0.93 and doubtful <= 0.1 and width <= 0.5 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sets = given.sets.split(",")
    return coverage(sets, given.models, given.minutes, given.out) if given.coverage else defaults(sets, given.seeds, given.out)


if __name__ == "__main__":
    sys.exit(main())
