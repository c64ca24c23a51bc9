"""The league of kernel compression: five sets, 30 to 1,000 atoms, `herd kernel-herd` and what other packages choose.

    python scripts leagues/kernel FOLDER                                  # some minutes; what is there already is not run again
    python scripts leagues/kernel FOLDER --rows 1000 --counts 30,100

Every contender takes the same rows (at most --rows of each set, drawn from one seed) and the same Gaussian kernel, whose length is the
median distance; MMD² to all of the rows is computed here, from index and weights alone.  Times are CPU seconds on one thread, from rows
to atoms; memory is what the process grew by at most.  coreax' compilation is timed too.  goodpoints halves a number of rows that is count
times a power of two, so it is given the most rows of that form.  Packages that are not installed are named in the table:
pip install goodpoints coreax stein-thinning scikit-learn kmedoids.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
from shared.figure_pipeline import herd, pyplot, read_csv, replace, write_csv
from shared.real_data import path
from shared.script_paths import script

SETS = ("digits", "usps", "mnist", "a9a", "posterior")
COUNTS = (30, 100, 316, 1000)
Chosen = tuple[str, np.ndarray, np.ndarray | None]  # label, rows, weights (None: equal)
CHAMPIONS = ("herd --refine 10 --weights simplex", "herd --rule min-norm-point")
EVEN = (
    "herd --refine 10",
    "herd (herding)",
    "herd --rule kernel-thinning",
    "coreax herding",
    "goodpoints kernel thinning",
)  # equal weights
SIGNED = ("herd --refine 10 --weights free", "herd --rule rpcholesky", "coreax RPCholesky, SBQ weights")  # weights of any sign and sum


# The sets


def posterior(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, 7) draws of a random-walk Metropolis chain from the posterior of a logistic regression of made data, and their scores."""
    random = np.random.default_rng(1953)
    A = np.c_[np.ones(300), random.standard_normal((300, 6)) @ (np.eye(6) + 0.5 * random.standard_normal((6, 6)))]
    y = random.random(300) < 1 / (1 + np.exp(-A @ random.standard_normal(7)))

    def score(w: np.ndarray) -> np.ndarray:
        return A.T @ (y - 1 / (1 + np.exp(-A @ w))) - w / 25.0  # prior N(0, 5² I)

    def log_density(w: np.ndarray) -> float:
        eta = A @ w
        return float(y @ eta - np.logaddexp(0, eta).sum() - w @ w / 50.0)

    w = np.zeros(7)
    for _ in range(30):  # Newton's method to the mode, whose curvature scales the steps (Roberts & Rosenthal 2001)
        p = 1 / (1 + np.exp(-A @ w))
        curvature = A.T @ (A * (p * (1 - p))[:, None]) + np.eye(7) / 25.0
        w = w + np.linalg.solve(curvature, score(w))
    step = 2.38 / np.sqrt(7) * np.linalg.cholesky(np.linalg.inv(curvature))
    draws, now = np.empty((rows, 7)), log_density(w)
    for i in range(-1000, 5 * rows):
        new = w + step @ random.standard_normal(7)
        proposed = log_density(new)
        if np.log(random.random()) < proposed - now:
            w, now = new, proposed
        if i >= 0 and i % 5 == 4:
            draws[i // 5] = w
    return draws, np.array([score(w) for w in draws])


def svmlight(file: Path, columns: int) -> np.ndarray:
    """(n, columns) values of svmlight text without its labels."""
    lines = file.read_text(encoding="ascii").splitlines()
    X = np.zeros((len(lines), columns))
    for i, line in enumerate(lines):
        for field in line.split()[1:]:
            j, _, value = field.partition(":")
            X[i, int(j) - 1] = float(value)
    return X


def loaded(name: str, folder: Path, rows: int) -> dict[str, np.ndarray]:
    """X (n, d), the median distance, μ (n,), ‖μ‖² and of the posterior the scores; kept in the folder."""
    kept = folder / f"{name}-{rows}.npz"
    if not kept.exists():
        import h5py

        from herdcli.quadrature.kernels.kernel_parsing import median_distance

        scores = np.zeros((0, 0))
        if name == "posterior":
            X, scores = posterior(rows)
        elif name == "a9a":
            X = svmlight(path("a9a"), 123)
        else:
            if name == "digits":
                herd("data", "digits", "-q", "-o", folder / "digits.h5")
            with h5py.File(folder / "digits.h5" if name == "digits" else path({"usps": "usps_all.h5", "mnist": "mnist.h5"}[name])) as file:
                X = file["X"][:].astype(np.float64)
        if len(X) > rows:
            X = X[np.sort(np.random.default_rng(0).choice(len(X), rows, replace=False))]
        scale = median_distance(X, "euclidean", 0)
        mean = np.concatenate([gaussian(X[i : i + 500], X, scale).mean(axis=1) for i in range(0, len(X), 500)])
        np.savez(folder / ".part.npz", X=X, scale=scale, mean=mean, norm=mean.mean(), scores=scores)
        (folder / ".part.npz").replace(kept)
    with np.load(kept) as file:
        return {key: file[key] for key in file.files}


def gaussian(X: np.ndarray, Y: np.ndarray, scale: float) -> np.ndarray:
    """(n, m) values exp(−|x − y|²/2ℓ²)."""
    squares = (X * X).sum(axis=1)[:, None] + (Y * Y).sum(axis=1) - 2 * X @ Y.T
    return np.asarray(np.exp(-0.5 * np.maximum(squares, 0) / scale**2))


def mmd_squared(made: dict[str, np.ndarray], index: np.ndarray, weights: np.ndarray | None) -> float:
    w = np.full(len(index), 1 / len(index)) if weights is None else weights
    atoms = made["X"][index]
    return float(w @ gaussian(atoms, atoms, float(made["scale"])) @ w - 2 * w @ made["mean"][index] + made["norm"])


# The contenders.  Each takes the set and a number of atoms, and gives one or more choices made in one go.


def of_herd(rule: str, refine: int = 0, kinds: tuple[str, ...] = ("rule",)) -> Callable[[dict[str, np.ndarray], int], list[Chosen]]:
    """`herd kernel-herd` without its files: atoms of one rule, and their weights of some kinds."""
    from herdcli.algorithm import run_algorithm
    from herdcli.quadrature import selection, selection_problem
    from herdcli.quadrature.kernels.kernel_functions import GaussianKernel
    from herdcli.quadrature.result_assembly import assemble_samples
    from herdcli.quadrature.rules import sequential_rules
    from herdcli.quadrature.targets import RowTarget

    def run(made: dict[str, np.ndarray], count: int) -> list[Chosen]:
        X, found = made["X"], []
        group = selection_problem.SelectionGroup(RowTarget(X, np.full(len(X), 1 / len(X))), None, count)
        problem = selection_problem.SelectionProblem(
            GaussianKernel(float(made["scale"])), (group,), selection_problem.SelectionSettings(sequential_rules.RuleSettings(rule), refine)
        )
        state = run_algorithm(selection.AtomSelection(problem))
        for kind in kinds:
            value = assemble_samples(problem, state, [None], kind=kind, projected=False, scale=np.ones(X.shape[1]), keep_state=False)
            words = "" if rule == "herding" else f" --rule {rule}"
            words += (f" --refine {refine}" if refine else "") + (f" --weights {kind}" if kind != "rule" else "")
            found.append((f"herd{words or ' (herding)'}", value.index, value.weight))
        return found

    return run


def of_goodpoints() -> Callable[[dict[str, np.ndarray], int], list[Chosen]]:
    """Kernel thinning of count 2^g rows, as many as there are."""
    from goodpoints import kt

    def run(made: dict[str, np.ndarray], count: int) -> list[Chosen]:
        halvings = int(np.log2(len(made["X"]) / count))
        rows = np.random.default_rng(0).permutation(len(made["X"]))[: count << halvings]
        K = gaussian(made["X"][rows], made["X"][rows], float(made["scale"]))
        return [("goodpoints kernel thinning", rows[kt.thin_K(K, K, halvings, seed=0)], None)]

    return run


def of_compresspp() -> Callable[[dict[str, np.ndarray], int], list[Chosen]]:
    """Compress++, whose number of atoms is the root of the largest power of 4 among the rows, whatever is asked for."""
    from goodpoints.compress import compresspp_kt

    def run(made: dict[str, np.ndarray], count: int) -> list[Chosen]:
        X = made["X"][np.random.default_rng(0).permutation(len(made["X"]))]
        index = compresspp_kt(X, b"gaussian", np.array([2.0 * float(made["scale"]) ** 2]), g=4, seed=0)
        return [("goodpoints Compress++", np.random.default_rng(0).permutation(len(X))[index], None)]

    return run


def of_that_size() -> Callable[[dict[str, np.ndarray], int], list[Chosen]]:
    """`herd` with as many atoms as goodpoints' Compress++."""
    run = of_herd("min-norm-point")
    return lambda made, count: run(made, 1 << int(np.log2(len(made["X"]))) // 2)


def of_coreax(solver: str) -> Callable[[dict[str, np.ndarray], int], list[Chosen]]:
    """Kernel herding, or pivots of RPCholesky with the weights of Bayesian quadrature."""
    import jax
    from coreax import Data, SquaredExponentialKernel, solvers
    from coreax.weights import SBQWeightsOptimiser

    jax.config.update("jax_enable_x64", True)

    def run(made: dict[str, np.ndarray], count: int) -> list[Chosen]:
        kernel, data = SquaredExponentialKernel(length_scale=float(made["scale"])), Data(jax.numpy.asarray(made["X"]))
        if solver == "herding":
            coreset, _ = solvers.KernelHerding(coreset_size=count, kernel=kernel, block_size=1000).reduce(data)
            return [("coreax herding", np.asarray(coreset.unweighted_indices), None)]
        coreset, _ = solvers.RPCholesky(coreset_size=count, random_key=jax.random.key(0), kernel=kernel).reduce(data)
        weights = np.asarray(SBQWeightsOptimiser(kernel).solve(data, coreset.points))
        return [("coreax RPCholesky, SBQ weights", np.asarray(coreset.unweighted_indices), weights)]

    return run


def of_kmeans() -> Callable[[dict[str, np.ndarray], int], list[Chosen]]:
    """The row nearest to each centre of k-means, with its cluster's share of the rows."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import pairwise_distances_argmin

    def run(made: dict[str, np.ndarray], count: int) -> list[Chosen]:
        found = KMeans(count, n_init=1, random_state=0).fit(made["X"])
        index = pairwise_distances_argmin(found.cluster_centers_, made["X"])
        return [("scikit-learn k-means, nearest rows", index, np.bincount(found.labels_, minlength=count) / len(made["X"]))]

    return run


def of_kmedoids() -> Callable[[dict[str, np.ndarray], int], list[Chosen]]:
    """FasterPAM on Euclidean distances, with each medoid's share of the rows."""
    import kmedoids

    def run(made: dict[str, np.ndarray], count: int) -> list[Chosen]:
        X = made["X"]
        squares = (X * X).sum(axis=1)
        distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0)).astype(np.float32)
        found = kmedoids.fasterpam(distances, count, random_state=0, n_cpu=1)
        return [("kmedoids FasterPAM", found.medoids.astype(int), np.bincount(found.labels, minlength=count) / len(X))]

    return run


def of_stein() -> Callable[[dict[str, np.ndarray], int], list[Chosen]]:
    """Stein thinning, which knows the posterior's scores and stands for the posterior, not for the rows."""
    from stein_thinning.thinning import thin

    return lambda made, count: [("stein-thinning", np.asarray(thin(made["X"], made["scores"], count)), None)]


MAKERS: dict[str, tuple[str, Callable[[], Callable[[dict[str, np.ndarray], int], list[Chosen]]]]] = {
    "herding": ("", lambda: of_herd("herding")),
    "refined": ("", lambda: of_herd("herding", 10, ("rule", "simplex", "free"))),
    "nearest": ("", lambda: of_herd("min-norm-point")),
    **{
        rule: ("", lambda rule=rule: of_herd(rule))  # type: ignore[misc]
        for rule in ("kernel-thinning", "compress++", "rpcholesky", "support-points", "facility-location", "random")
    },
    "goodpoints": ("goodpoints", of_goodpoints),
    "compresspp": ("goodpoints", of_compresspp),
    "that-size": ("", of_that_size),
    "coreax-herding": ("coreax", lambda: of_coreax("herding")),
    "coreax-rpcholesky": ("coreax", lambda: of_coreax("rpcholesky")),
    "k-means": ("scikit-learn", of_kmeans),
    "k-medoids": ("kmedoids", of_kmedoids),
    "stein": ("stein-thinning", of_stein),
}


def resident(name: str, *, forget: bool = False) -> float:
    """MB of this process now (VmRSS) or at most since the peak was forgotten (VmHWM); NaN where there is no /proc."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    if forget:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024


def one(folder: Path, name: str, maker: str, rows: int, counts: list[int]) -> None:
    """All runs of one contender on one set, in this process, into the folder."""
    made = loaded(name, folder, rows)
    try:
        run = MAKERS[maker][1]()
    except ImportError:
        replace(folder / f"{name}-{maker}.json", json.dumps({"missing": MAKERS[maker][0]}))
        return
    run({key: value[:64] if value.ndim else value for key, value in made.items()}, 8)  # imports that wait for their first use
    found: list[dict[str, Any]] = []
    for count in counts[:1] if maker in ("compresspp", "that-size") else counts:
        before, started = resident("VmRSS", forget=True), time.process_time()
        choices = run(made, count)
        seconds, memory = time.process_time() - started, resident("VmHWM") - before
        for label, index, weights in choices:
            figures = {"mmd2": max(0.0, mmd_squared(made, index, weights)), "seconds": seconds, "memory_mb": memory}
            found.append({"set": name, "rows": len(made["X"]), "atoms": len(index), "method": label, **figures})
    replace(folder / f"{name}-{maker}.json", json.dumps(found))


# The league


def table(folder: Path, sets: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """What was found, and the packages that are missing."""
    found: list[dict[str, Any]] = []
    missing = set()
    for name in sets:
        for maker in MAKERS:
            file = folder / f"{name}-{maker}.json"
            if not file.exists():
                continue
            kept = json.loads(file.read_text(encoding="utf-8"))
            if isinstance(kept, dict):
                missing.add(kept["missing"])
            else:
                found += kept
    return found, sorted(missing)


def contests(found: list[dict[str, Any]]) -> Iterator[tuple[str, int, dict[str, Any], dict[str, Any]]]:
    """(set, atoms, our better champion, the best of all others with non-negative weights) of every set and number of atoms."""
    for name, count in dict.fromkeys((row["set"], row["atoms"]) for row in found):
        here = [row for row in found if (row["set"], row["atoms"]) == (name, count)]
        ours = [row for row in here if row["method"] in CHAMPIONS]
        others = [row for row in here if row["method"] not in (*CHAMPIONS, *SIGNED) and "--refine" not in row["method"]]
        if ours and others:
            yield name, count, min(ours, key=lambda row: row["mmd2"]), min(others, key=lambda row: row["mmd2"])


def firsts(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each contest: the better champion's MMD², the best other's, and their ratio."""
    rows = []
    for name, count, ours, other in contests(found):
        ends = {"champion": ours["method"], "mmd2": ours["mmd2"], "other": other["method"], "other_mmd2": other["mmd2"]}
        rows.append({"set": name, "atoms": count, **ends, "ratio": ours["mmd2"] / other["mmd2"]})
    return rows


def page(found: list[dict[str, Any]], missing: list[str]) -> str:
    """The league as Markdown: where herd loses, then everything."""
    lost = [c for c in contests(found) if c[2]["mmd2"] > c[3]["mmd2"]]
    lines = ["<!-- made by scripts/leagues/kernel.py -->", "", "# The league of kernel compression", "", "## Where herd is not first", ""]
    lines += [f"* {name}, {m} atoms: {o['method']} {o['mmd2']:.3g}, {u['method']} {u['mmd2']:.3g}" for name, m, u, o in lost]
    total = len(list(contests(found)))
    lines += ["" if lost else None, f"Of weights that are not negative: {'nowhere' if not lost else f'{len(lost)} contests'} of {total}."]  # type: ignore[list-item]
    lines += [
        "",
        *beside(found, EVEN, "Of equal weights:"),
        "",
        *beside(found, SIGNED, "Of weights of any sign and sum:"),
        "",
        *slower(found),
        "",
        "## Everything",
        "",
    ]
    lines += [
        "MMD² to all rows, Gaussian kernel of the median distance; CPU seconds on one thread; memory in MB that the process grew by.",
        "",
    ]
    if missing:
        lines += [f"Not installed, and so not in the table: {', '.join(missing)}.", ""]
    for name in dict.fromkeys(row["set"] for row in found):
        here = [row for row in found if row["set"] == name]
        counts = [m for m in dict.fromkeys(row["atoms"] for row in here) if sum(row["atoms"] == m for row in here) > 3]
        lines += [f"### {name}, {here[0]['rows']:,} rows", "", "| method |" + "".join(f" {m:,} |" for m in counts) + " seconds | MB |"]
        lines += ["|---|" + "---:|" * (len(counts) + 2)]
        for method in dict.fromkeys(row["method"] for row in here):
            runs = {row["atoms"]: row for row in here if row["method"] == method}
            cells = [f"{runs[m]['mmd2']:.2e}" if m in runs else "" for m in counts]
            other = ", ".join(f"{m} atoms: {row['mmd2']:.2e}" for m, row in runs.items() if m not in counts)
            last = runs[max(runs)]
            label = f"{method} ({other})" if other else method
            peak = max(row["memory_mb"] for row in runs.values())
            lines.append(f"| {label} | {' | '.join(cells)} | {last['seconds']:.1f} | {peak:.0f} |")
        lines.append("")
    lines += ["Seconds are those of the largest number of atoms."]
    return "\n".join(line for line in lines if line is not None) + "\n"


def beside(found: list[dict[str, Any]], methods: tuple[str, ...], heading: str) -> list[str]:
    """Where one of the methods is ahead of the first of them, which is herd's."""
    ours, theirs, wins = methods[0], methods[1:], []
    for name, count in dict.fromkeys((row["set"], row["atoms"]) for row in found if row["method"] == ours):
        here = {row["method"]: row["mmd2"] for row in found if (row["set"], row["atoms"]) == (name, count)}
        better = [f"{name}, {count} atoms: {m} {here[m]:.3g}, {ours} {here[ours]:.3g}" for m in theirs if here.get(m, np.inf) < here[ours]]
        wins += [f"* {line}" for line in better]
    return [heading + ("" if wins else " nowhere."), *([""] if wins else []), *wins]


def slower(found: list[dict[str, Any]]) -> list[str]:
    """What takes less time than the champions, at the largest number of atoms of each set."""
    lines = []
    for name in dict.fromkeys(row["set"] for row in found):
        most = max(row["atoms"] for row in found if row["set"] == name)
        here = {row["method"]: row["seconds"] for row in found if (row["set"], row["atoms"]) == (name, most)}
        ours = min(here[m] for m in CHAMPIONS if m in here)
        faster = sorted(m for m, seconds in here.items() if not m.startswith("herd") and seconds < ours)
        lines += [f"* {name}: {', '.join(f'{m} {here[m]:.1f} s' for m in faster)}; the faster champion {ours:.1f} s"] if faster else []
    return ["Of other packages these take less time for the most atoms than the faster of the two champions:", "", *lines]


COLOURS = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#7f7f7f")  # Okabe & Ito
DRAWN = {
    "herd (herding)": (0, "o", "-"),
    "herd --refine 10 --weights simplex": (6, "s", "-"),
    "herd --rule min-norm-point": (5, "^", "-"),
    "herd --rule kernel-thinning": (2, "v", "-"),
    "herd --rule rpcholesky": (3, "D", "-"),
    "herd --rule support-points": (7, "P", "-"),
    "herd --rule facility-location": (1, "X", "-"),
    "goodpoints kernel thinning": (2, "v", ":"),
    "coreax RPCholesky, SBQ weights": (3, "D", ":"),
    "scikit-learn k-means, nearest rows": (8, "<", ":"),
    "kmedoids FasterPAM": (8, ">", ":"),
    "stein-thinning": (0, "x", ":"),
}


def figure(rows: list[dict[str, Any]], target: Path) -> None:
    """MMD² by the number of atoms, a panel for each set."""
    plt = pyplot()
    picture, axes = plt.subplots(2, 3, figsize=(11, 6.5))
    for axis, name in zip(axes.ravel(), SETS, strict=False):
        for method, (colour, marker, line) in DRAWN.items():
            runs = sorted((int(row["atoms"]), float(row["mmd2"])) for row in rows if (row["set"], row["method"]) == (name, method))
            if runs:
                axis.loglog(*zip(*runs, strict=True), color=COLOURS[colour], marker=marker, linestyle=line, markersize=4, linewidth=1.2)
        axis.set_title(name)
        axis.set_xlabel("atoms")
        axis.set_ylabel("MMD²")
        axis.grid(alpha=0.3)
    handles = [plt.Line2D([], [], color=COLOURS[c], marker=m, linestyle=s, markersize=4, label=name) for name, (c, m, s) in DRAWN.items()]
    axes.ravel()[-1].axis("off")
    axes.ravel()[-1].legend(handles=handles, loc="center", fontsize=8, frameon=False)
    picture.tight_layout()
    picture.savefig(target, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--one", nargs=2, metavar=("SET", "MAKER"))
    arguments = parser.parse_args()
    counts, sets = [int(m) for m in arguments.counts.split(",")], arguments.sets.split(",")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.one:
        one(arguments.folder, *arguments.one, arguments.rows, counts)
        return 0
    asked = ["--rows", str(arguments.rows), "--counts", arguments.counts]
    for name in sets:
        loaded(name, arguments.folder, arguments.rows)
        for maker in MAKERS:
            file = arguments.folder / f"{name}-{maker}.json"
            if not file.exists() and (maker != "stein" or name == "posterior"):
                command = [sys.executable, *script("leagues/kernel"), str(arguments.folder), *asked, "--one", name, maker]
                if subprocess.run(command, check=False).returncode:
                    print(f"{name}, {maker}: failed", file=sys.stderr)
    found, missing = table(arguments.folder, sets)
    write_csv(arguments.folder / "league-kernel.csv", found)
    write_csv(arguments.folder / "league-kernel-first.csv", firsts(found))
    replace(arguments.folder / "league-kernel.md", page(found, missing))
    figure(read_csv(arguments.folder / "league-kernel.csv"), arguments.folder / "league-kernel.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
