"""How fast and how good online learning is, beside scikit-learn in one run, one thread; whole processes are in bench/nherd/vw.py.

    python scripts bench/nherd/online_learning [--data FOLDER]

FOLDER holds newsgroups20_bow.h5, usps_all.h5 and mnist.h5 (default $HERD_DATA, else ../shared/data).  What is not there is left
out.  Times are the best of several in CPU seconds, so that a busy machine disturbs them less.  What was measured, what made the
difference and what was tried without gain is in docs/nherd.md.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import h5py
import numpy as np
from scipy.sparse import csr_matrix
from shared.real_data import FOLDER

from herdcli import algorithm, fast
from herdcli.artifacts.text import svmlight
from herdcli.online import learner
from herdcli.online.block_sources import MemorySource
from herdcli.online.learners.full_covariance import complete_both_triangles, learn_with_full_covariance
from herdcli.online.learners.reference_updates import settings_as_codes
from herdcli.online.model import Settings
from herdcli.online.normal_distribution import normal_cdf
from herdcli.online.predictions.prediction import make_scorer, predict_classes
from herdcli.online.text.text_parser import BlockReader

# The learner that is measured: no race for C, features and their number as they are
PLAIN = ["--algorithm", "nherd", "--C", "running", "--scale", "none", "--no-bias"]


def best(work: Callable[[], object], repeats: int = 5) -> float:
    """CPU seconds of the fastest run."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def tell(name: str, value: str, bar: str = "") -> None:
    print(f"{name:<58} {value:>16}   {bar}", flush=True)


def newsgroups(folder: Path) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
    """Bag of words scaled to length 1, comp.* against the rest, 1 for test rows; rows in a random order."""
    with h5py.File(folder / "newsgroups20_bow.h5") as file:
        X = csr_matrix(
            (file["X/data"][:].astype(float), file["X/indices"][:], file["X/indptr"][:]),
            shape=tuple(file["X"].attrs.get("shape", file.attrs.get("shape"))),
        )
        names = file["class_names"].asstr()[:]
        y = np.array([name.startswith("comp.") for name in names])[file["y"][:]]
        split = file["split"][:]
    order = np.random.default_rng(0).permutation(len(y))
    norm = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)))
    X = csr_matrix((X.data / np.repeat(np.asarray(norm).ravel(), np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape)
    return X[order], y[order].astype(np.int32), split[order]


def as_text(X: csr_matrix, y: np.ndarray) -> list[tuple[int, str]]:
    """Label and pairs index:value of each row, six digits of each value."""
    rows = [slice(X.indptr[row], X.indptr[row + 1]) for row in range(X.shape[0])]
    pairs = [" ".join(f"{i + 1}:{v:.6g}" for i, v in zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)) for part in rows]
    return list(zip(np.where(y, 1, -1).tolist(), pairs, strict=True))


def in_memory(X: csr_matrix, y: np.ndarray) -> None:
    pointer, index, value = X.indptr.astype(np.int64), X.indices.astype(np.int32) + 1, X.data
    rows, outcome = X.shape[0], np.zeros((2, X.shape[0]))
    rule = settings_as_codes(Settings())
    table, running = np.zeros((X.shape[1] + 1, 2, 1)), np.zeros(2)

    def one_pass(fresh: bool) -> Callable[[], object]:
        def run() -> None:
            if fresh:
                table[:, 0], table[:, 1], running[:] = 0.0, 1.0, 0.0
            fast.learn_binary(table, pointer, index, value, y, None, rule, running, *outcome)

        return run

    for label, fresh in (("first pass", True), ("later passes", False)):
        seconds = best(one_pass(fresh), 7)
        per_nonzero = f"{seconds / X.nnz * 1e9:.2f} ns a nonzero"
        tell(f"diagonal NHERD, 20 newsgroups, {label}", f"{rows / seconds / 1e6:.2f} M examples/s", f"{per_nonzero}; ≥ 4, ≈ 1.5 ns")
    ours = best(one_pass(True), 7)
    theirs = sgd_epoch(X, y)
    if theirs:
        tell("  time of an epoch of SGDClassifier(hinge, pa1) over ours", f"{theirs / ours:.2f} ×", "> 1")
    kernels = fast.loops_in_use()
    fast.use_loops("python")
    few = slice(0, 2001)
    part = pointer[few]
    table[:, 0], table[:, 1], running[:] = 0.0, 1.0, 0.0
    run = (table, part, index, value, y[:2000], None, rule, running, outcome[0, :2000], outcome[1, :2000])
    seconds = best(lambda: fast.learn_binary(*run), 3)
    text = "".join(f"{label} {pairs}\n" for label, pairs in as_text(X[:2000], y[:2000])).encode()
    reading = best(lambda: [None for _ in BlockReader("x", False).blocks([text])], 3)
    fast.use_loops(kernels)
    tell("NumPy twin, the same rows in memory", f"{2000 / seconds:,.0f} examples/s", "≥ 100,000")
    tell("  reading them from svmlight text", f"{2000 / reading:,.0f} lines/s", f"{len(text) / reading / 1e6:.0f} MB/s")


def sgd_epoch(X: csr_matrix, y: np.ndarray) -> float | None:
    try:
        from sklearn.linear_model import SGDClassifier
    except ImportError:
        return None

    def epoch() -> None:
        SGDClassifier(loss="hinge", penalty=None, learning_rate="pa1", eta0=1.0, shuffle=False).partial_fit(X, y, classes=[0, 1])

    return best(epoch, 7)


def large_table() -> None:
    random, rows, width = np.random.default_rng(1), 20_000, 130
    index = np.sort(random.integers(1, 1 << 24, (rows, width), dtype=np.int32), axis=1)
    index[:, 1:] += index[:, 1:] == index[:, :-1]
    pointer = np.arange(rows + 1, dtype=np.int64) * width
    value, y = random.standard_normal(rows * width) / np.sqrt(width), random.integers(0, 2, rows).astype(np.int32)
    table, running, outcome = np.zeros(((1 << 24) + 2, 2, 1)), np.zeros(2), np.zeros((2, rows))
    table[:, 1] = 1.0
    run = (table, pointer, index.ravel(), value, y, None, settings_as_codes(Settings()), running, *outcome)
    seconds = best(lambda: fast.learn_binary(*run), 3)
    tell("diagonal NHERD, table of 2^24, random indices", f"{seconds / index.size * 1e9:.2f} ns a nonzero", "≤ 6")


def full_covariance() -> None:
    random, d, rows = np.random.default_rng(2), 784, 600
    X, y = random.standard_normal((rows, d)) / np.sqrt(d), random.integers(0, 2, rows)
    mean, sigma = np.zeros((1, d)), np.eye(d)[None].copy()
    rule, running, outcome = settings_as_codes(Settings(C=1.0)), np.zeros(2), np.zeros((2, rows, 1))
    updates = 0

    def run() -> None:
        nonlocal updates
        updates = learn_with_full_covariance(mean, sigma, X, y, None, rule, False, running, *outcome)

    seconds = best(run, 3)
    tell(f"full covariance, d = {d}", f"{updates / seconds:,.0f} updates/s", f"{updates} updates; ≥ 8,000")
    mean, sigma = np.zeros((1, d)), np.eye(d)[None].copy()
    learn_with_full_covariance(mean, sigma, 100 * X, y, None, rule, False, running, *outcome)
    tell(
        "  smallest eigenvalue of Σ after 600 updates at C|x|² = 10⁴",
        f"{np.linalg.eigvalsh(complete_both_triangles(sigma)[0])[0]:.2e}",
        "> 0",
    )


def error(settings: Settings, X: object, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Test error in % after one pass over the training rows in a random order."""
    source = MemorySource(X[train], y[train], shuffle=True, rows=10_000 if settings.kernel == "none" else 500)
    score = make_scorer(algorithm.run_algorithm(learner.OnlineLearner(settings, source, 2, X.shape[1] + 1)))
    held = MemorySource(X[test], y[test], rows=500)
    scores = np.concatenate([score(held.block(k).block)[0] for k in range(held.steps)])
    return float(100 * np.mean(predict_classes(scores) != y[test]))


def with_products(images: np.ndarray) -> np.ndarray:
    """Half of each pixel and the products of pixels at most two apart in rows and columns, rows of length 1."""
    row, column = np.divmod(np.arange(256), 16)
    near = (abs(row[:, None] - row) <= 2) & (abs(column[:, None] - column) <= 2)
    i, j = np.nonzero(np.triu(near))
    made = np.hstack([images / 2, images[:, i] * images[:, j]])
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def errors(folder: Path, X: csr_matrix, y: np.ndarray, split: np.ndarray) -> None:
    tenth = len(y) // 10
    parts = {
        "dated split": (np.flatnonzero(split == 0), np.flatnonzero(split == 1)),
        "a tenth held out": (np.arange(tenth, len(y)), np.arange(tenth)),
    }
    for name, (train, test) in parts.items():
        for noise, bar in ((0.0, 5.0), (0.3, 9.5)):
            found = [error(Settings(label_noise=noise, C=C), X, y, train, test) for C in (0.0, 1.0)]
            tell(
                f"20NG comp.* against the rest, {name}, noise {noise:.0%}",
                f"{found[0]:.2f} %, {found[1]:.2f} %",
                f"C auto, C = 1; ≤ {bar} %",
            )
    if not (folder / "usps_all.h5").exists():
        return
    with h5py.File(folder / "usps_all.h5") as file:
        images, digit = file["X"][:] / 255.0, file["y"][:] % 2
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    order = np.random.default_rng(3).permutation(len(digit))
    train, test = order[:8000], order[8000:]
    kernel = Settings(kernel="gaussian", width=0.6, covariance="full")
    forms = {  # C without noise and with
        "diagonal": (Settings(), images, train, (0.0, 0.0)),
        "full": (Settings(covariance="full"), images, train, (0.0, 0.0)),
        "products of near pixels": (Settings(), with_products(images), train, (1.0, 0.03)),
        "gaussian kernel, 3000 rows": (kernel, images, train[:3000], (0.0, 0.1)),
    }
    for name, (settings, features, rows, Cs) in forms.items():
        for noise, bar, C in zip((0.0, 0.3), (7.2, 10.0), Cs, strict=True):
            found = error(replace(settings, label_noise=noise, C=C), features, digit, rows, test)
            tell(f"USPS even against odd, {name}, noise {noise:.0%}", f"{found:.2f} %", f"≤ {bar} %")


def children_seconds(commands: dict[str, list[str]], rounds: int = 5) -> dict[str, tuple[float, float]]:
    """(wall, CPU) seconds of processes run in turn, the best of several rounds."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for name, command in [*commands.items()] * rounds:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        found[name].append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return {name: (min(wall for wall, _ in times), min(cpu for _, cpu in times)) for name, times in found.items()}


def _read(pieces: list[bytes], vw: bool) -> None:
    for _ in BlockReader("x", vw, bits=18 * vw).blocks(pieces, lend=True):
        pass


def from_text(X: csr_matrix, y: np.ndarray) -> None:
    """Text into blocks, in this process."""
    lines = as_text(X, y)
    for kind, form in (("svmlight", "{} {}\n"), ("Vowpal Wabbit", "{} | {}\n")):
        text, vw = "".join(form.format(*line) for line in lines).encode(), kind != "svmlight"
        pieces = [text[k : k + (1 << 20)] for k in range(0, len(text), 1 << 20)]
        seconds = best(partial(_read, pieces, vw), 9)
        tell(f"parsing {kind} text", f"{len(text) / seconds / 1e6:.0f} MB/s", f"{seconds / X.nnz * 1e9:.1f} ns a feature; ≥ 500 MB/s")


def data_sets(X: csr_matrix, y: np.ndarray) -> None:
    """svmlight text as a data set, which every command but nherd-train reads, and Φ: compiled, as NumPy twins, and others'."""
    text, x = "".join(f"{label} {pairs}\n" for label, pairs in as_text(X[:5000], y[:5000])).encode(), np.linspace(-9.0, 9.0, 200_000)
    kernels, found = fast.loops_in_use(), {}
    for side in dict.fromkeys((kernels, "python")):
        fast.use_loops(side)
        found[side] = best(lambda: svmlight.parse_svmlight(io.BytesIO(text), where="x")), best(lambda: normal_cdf(x))
    fast.use_loops(kernels)
    (reading, phi), (slow_reading, slow_phi) = found[kernels], found["python"]
    tell("svmlight text into a data set", f"{len(text) / reading / 1e6:.0f} MB/s", "≥ 200")
    tell("  time of the NumPy twin over it", f"{slow_reading / reading:.1f} ×")
    try:
        from sklearn.datasets import load_svmlight_file

        tell("  time of scikit-learn over it", f"{best(lambda: load_svmlight_file(io.BytesIO(text))) / reading:.1f} ×", "> 1")
    except ImportError:
        pass
    tell("Φ", f"{phi / len(x) * 1e9:.1f} ns", f"the twin {slow_phi / phi:.1f} ×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    options = parser.parse_args()
    print(f"kernels: {fast.loops_in_use()}, NumPy {np.__version__}, load {os.getloadavg()[0]:.1f}")
    large_table()
    full_covariance()
    if (options.data / "newsgroups20_bow.h5").exists():
        X, y, split = newsgroups(options.data)
        in_memory(X, y)
        data_sets(X, y)
        errors(options.data, X, y, split)
        from_text(X, y)


if __name__ == "__main__":
    main()
