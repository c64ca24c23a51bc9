"""How fast `herd ica` separates and samples, beside picard, NumPy loops and the machine's own matrix products.

    OPENBLAS_NUM_THREADS=1 python scripts bench/tables/ica [PART …]        (picard needs the extra `ica`)

Times are CPU seconds of one thread, least of some repeats, of programs that take turns; rates are quotients within one process.

separate   16 sources × 88,436 samples ($HERD_DATA/music16_long.h5) behind a random mixing, ZCA-whitened.  ml and picard to a largest
           gradient entry of 1e-7 from the same start, with the same density (sech); infomax by its defaults and
           ebm by the schedule below.  The Amari
           distance is Teh's, with 2N, and `optimum` is where the likelihood of that density has its maximum on these rows.
narrow     30 leapfrog steps of 100 chains in 16 dimensions with 16 filters: compiled, and in NumPy with matrix products.
wide       the same in 256 dimensions with 768 filters, energies and acceptances included, over as many matrix products.
optima     where the likelihoods of |u|^β, logistic, sech and Student densities have their maxima on the rows of `separate`.
posteriors ten iterations of --posterior gaussian, 500 patches of 8 × 8 pixels ($HERD_DATA/patches16.h5), 128 atoms: a row's time in
           inverses of a 128 × 128 matrix by LAPACK.
codes      300 updates of sparse coding, 128 atoms, 25,000 patches of 8 × 8 pixels, batches of 100, σ = .1; then SPAMS and scikit-learn
           (bench; spams-bin where it is installed) for twice that time from the same dictionary: their mean over other rows of
           min_s ½|z − As|² + σ²|s|₁ over herd's.
epoch      updates of 100 of 122,880 rows of 256 dimensions, 768 filters, on two workers; all of them from some.

Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import h5py
import numpy as np
from scipy.optimize import minimize
from shared.real_data import FOLDER

from herdcli.algorithm import run_algorithm
from herdcli.ica import (
    defaults,
    external_libraries,
    hmc,
    maximum_likelihood,
    sparse_coding,
    stochastic_learning,
    variational_sparse_coding,
    whitening,
)
from herdcli.ica.energy import LinearExperts
from herdcli.ica.experts import EXPERTS
from herdcli.ica.filters.amari_distance import amari_distance
from herdcli.ica.problem import LearningProblem
from herdcli.rows import mixing_matrices

SLOW = ((0.05, 1000), (0.025, 1000), (0.01, 2000), (0.005, 3000), (0.002, 3000))  # 10,000 updates
AS_IT_COMES = {"rates": defaults.SQUARE_INFOMAX, "average": defaults.AVERAGED, "batch_size": defaults.ROWS}
SEEDS = 3
NOISE = 0.1  # of sparse coding
Row = tuple[str, float, float | None, str]


def seconds(function: Callable[[], object], repeats: int) -> float:
    """Least CPU seconds of some calls."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def fitted(problem: LearningProblem) -> tuple[np.ndarray, float]:
    """Filters of a whole fit, and its CPU seconds."""
    start = time.process_time()
    return run_algorithm(stochastic_learning.StochasticGradient(problem)).J, time.process_time() - start


def likeliest(Z: np.ndarray, density: str, gamma: float = 1.0) -> np.ndarray:
    """Filters of `ml`."""
    return run_algorithm(maximum_likelihood.MaximumLikelihood(maximum_likelihood.MaximumLikelihoodProblem(Z, density, gamma))).J


def sharpest(Z: np.ndarray, J: np.ndarray, beta: float = 1.0) -> np.ndarray:
    """Filters at the optimum of E(u) = |u|^β, as the limit of (u² + smoothing)^(β/2); β = 1 is the Laplace density."""

    def loss(entries: np.ndarray, smoothing: float) -> tuple[float, np.ndarray]:
        filters = entries.reshape(J.shape)
        u = filters @ columns
        squares = u * u + smoothing
        energies = squares ** (0.5 * beta)
        value = float(energies.mean(axis=1).sum() - np.linalg.slogdet(filters)[1])
        return value, ((beta * u * energies / squares) @ columns.T / len(Z) - np.linalg.inv(filters).T).ravel()

    columns = np.ascontiguousarray(Z.T)
    for smoothing in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        options = {"maxiter": 300, "maxfun": 400, "ftol": 1e-12}
        J = minimize(loss, J.ravel(), (smoothing,), "L-BFGS-B", jac=True, options=options).x.reshape(J.shape)
    return J


def sources() -> np.ndarray:
    """The recordings, a column each."""
    with h5py.File(FOLDER / "music16_long.h5") as file:
        S: np.ndarray = file["X"][:]
    return S


def recordings() -> tuple[np.ndarray, np.ndarray]:
    """Whitened rows of the mixed recordings, and forward @ mixing."""
    S = sources()
    A = mixing_matrices.random_mixing_matrix(16, seed=0)
    X = mixing_matrices.mix_sources(S, A)
    fit = whitening.fit_whitening(X, method="zca")
    return fit.apply(X), fit.forward @ A


def optima() -> list[Row]:
    """Amari distances where the likelihoods of densities have their maxima, and of sources that are whitened and no more."""
    Z, product = recordings()
    start = likeliest(Z, "student")
    rows: list[Row] = [
        (f"|u|^{beta:g}", amari_distance(sharpest(Z, start, beta) @ product), None, "") for beta in (1.2, 1.0, 0.9, 0.8, 0.7)
    ]
    cases = [("logistic", 1.0), ("laplace-smooth", 1.0), *(("student", gamma) for gamma in (0.6, 0.75, 1.0, 1.5, 2.0))]
    for name, A in (
        ("sources", np.eye(16)),
        ("instamix", mixing_matrices.instamix_matrix(16, 0.5)),
        ("random mixing", mixing_matrices.random_mixing_matrix(16, seed=0)),
    ):
        whitened = whitening.fit_whitening(mixing_matrices.mix_sources(sources(), A), method="zca").forward @ A
        rows += [(f"{name}, whitened by ZCA", amari_distance(whitened), None, "")]
    return rows + [(f"{name}, γ = {gamma:g}", amari_distance(likeliest(Z, name, gamma) @ product), None, "") for name, gamma in cases]


def separate() -> list[Row]:
    """ml beside picard, infomax and ebm."""
    Z, product = recordings()
    own, choosing = seconds(lambda: likeliest(Z, "laplace-smooth"), 3), seconds(lambda: likeliest(Z, "auto"), 3)
    optimum = amari_distance(likeliest(Z, "laplace-smooth") @ product)
    rows: list[Row] = [("ml, s", own, None, f"Amari {optimum:.4f}")]
    rows += [("ml that chooses densities, s", choosing, None, f"Amari {amari_distance(likeliest(Z, 'auto') @ product):.4f}")]
    if external_libraries.is_library_installed("picard"):
        found: list[np.ndarray] = []
        other = seconds(
            lambda: found.append(external_libraries.run_picard(Z, np.eye(16), tolerance=1e-7, iterations=500, extended=False)[0]), 3
        )
        theirs = amari_distance(found[-1] @ product)
        rows += [("ml over picard, time", own / other, 1.0, f"picard {other:.3f} s, Amari {theirs:.4f}")]
        rows += [("|Amari − picard's|, %", 100 * abs(optimum / theirs - 1), 2.0, "")]
    for name, density, kind, changes, bars in (
        ("infomax", "auto", np.float64, AS_IT_COMES, (2.6, 0.5)),
        (
            "ebm",
            "student",
            np.float32,
            {"rates": SLOW, "average": 3000, "leapfrog": 12, "proposals": 2, "batch_size": 160, "acceptance": 0.75},
            (3.0, 4.0),
        ),
    ):
        distances, times = [], []
        for seed in range(SEEDS):
            settings = stochastic_learning.LearningSettings(algorithm=name, expert="student", density=density, seed=seed, **changes)
            J, took = fitted(LearningProblem(Z.astype(kind), settings, product))
            distances.append(amari_distance(J @ product))
            times.append(took)
        note = f"{density}, {SEEDS} seeds: {', '.join(f'{one:.2f}' for one in distances)}"
        best = sharpest(Z, likeliest(Z, "student")) if density == "auto" else likeliest(Z, density)
        note += f"; optimum {amari_distance(best @ product):.2f}"
        rows += [(f"{name}, Amari", float(np.mean(distances)), bars[0], note), (f"{name}, s", min(times), bars[1], "")]
    return rows


def chains(n: int, D: int, M: int) -> tuple[LinearExperts, np.ndarray, np.ndarray]:
    """A Student model with unit filters, and positions and momenta of n chains."""
    random = np.random.default_rng(0)
    J = random.standard_normal((M, D))
    J /= np.sqrt((J**2).sum(axis=1, keepdims=True))
    z, k = random.standard_normal((2, n, D)).astype(np.float32)
    return LinearExperts(J.astype(np.float32), np.ones(M, np.float32), EXPERTS["student"]), z, k


def narrow() -> list[Row]:
    """Compiled leapfrog steps over NumPy's."""
    energy, z, k = chains(100, 16, 16)
    J = energy.J

    def loop() -> None:
        x, p, e = z.copy(), k.copy(), np.float32(0.05)
        for step in range(31):
            u = x @ J.T
            p -= (e if 0 < step < 30 else e / 2) * ((2 * u / (1 + u * u)) @ J)
            if step < 30:
                x += e * p

    plain = own = float("inf")
    for _ in range(300):
        plain = min(plain, seconds(loop, 1))
        own = min(own, seconds(lambda: energy.leapfrog_trajectory(z, k, 0.05, 30), 2))
    return [("NumPy over compiled, 16 × 16", plain / own, -5.0, f"{1e6 * own:.0f} µs beside {1e6 * plain:.0f} µs")]


def wide() -> list[Row]:
    """The negative phase over the same number of matrix products."""
    n, D, M = 100, 256, 768
    energy, z, k = chains(n, D, M)
    uniform = np.random.default_rng(1).random(n)
    u, down = np.empty((n, M), np.float32), np.empty((n, D), np.float32)

    def products() -> None:
        for _ in range(31):
            np.matmul(z, energy.J.T, out=u)
            np.matmul(u, energy.J, out=down)
        np.matmul(z, energy.J.T, out=u)
        np.matmul(z, energy.J.T, out=u)

    own, bare = float("inf"), float("inf")
    for _ in range(15):
        bare = min(bare, seconds(products, 1))
        own = min(own, seconds(lambda: hmc.run_hmc_proposal(energy, z, energy.energy(z), k, uniform, 0.02, 30), 1))
    rate = 64 * 2 * n * D * M / bare / 1e9
    return [("HMC, % of sgemm, 256 × 768", 100 * bare / own, -85.0, f"{1e3 * own:.1f} ms; sgemm {rate:.0f} GFLOP/s")]


def epoch(updates: int = 24) -> list[Row]:
    """CPU seconds of an epoch on two workers, from some updates: by the clock about half of it, where both cores are free."""
    Z = np.random.default_rng(2).laplace(size=(12_288, 256)).astype(np.float32)
    settings = stochastic_learning.LearningSettings(
        algorithm="ebm", filters=768, expert="student", rates=((0.01, 1228),), gamma_rate=1.0, weight_decay=1e-4, initial_scale=0.0
    )
    problem = LearningProblem(Z, settings)
    state = stochastic_learning.StochasticGradient(problem).init()
    with ThreadPoolExecutor(2) as pool:
        state = stochastic_learning.StochasticGradient(problem, pool.map).step(state)
        best, spent = float("inf"), float("inf")
        for _ in range(updates):
            start, used = time.perf_counter(), time.process_time()
            state = stochastic_learning.StochasticGradient(problem, pool.map).step(state)
            best, spent = min(best, time.perf_counter() - start), min(spent, time.process_time() - used)
    return [("epoch of 122,880 rows, CPU s", 1229 * spent, 60.0, f"of two workers together; {1229 * best:.0f} s by the clock")]


def posteriors(rows: int = 500, iterations: int = 10) -> list[Row]:
    """Sparse coding by EM of natural patches, beside one inverse a row."""
    with h5py.File(FOLDER / "patches16.h5") as file:
        X = file["X"][: 20 * rows : 20].reshape(-1, 16, 16)[:, :8, :8].reshape(-1, 64).astype(float)
    algorithm = variational_sparse_coding.VariationalCoding(
        variational_sparse_coding.VariationalCodingProblem(
            whitening.fit_whitening(X, method="zca").apply(X), 128, noise=0.3, iterations=iterations
        )
    )
    spent = seconds(lambda: run_algorithm(algorithm), 1) / rows / iterations
    P = np.stack([64.0 * np.eye(128) + np.eye(128)[::-1]] * 8)
    bare = seconds(lambda: np.linalg.inv(P), 20) / len(P)
    return [("inverses a row and iteration", spent / bare, None, f"{1e3 * spent:.2f} ms, an inverse {1e3 * bare:.3f} ms")]


def held_out(A: np.ndarray, Z: np.ndarray) -> float:
    """Mean over rows of min_s ½|z − As|² + σ²γ|s|₁, columns of A of length 1."""
    model = sparse_coding.SparseCodingModel(A / np.sqrt((A**2).sum(axis=0)), "laplace", 1.0, NOISE, "map")
    mean = model.infer_sources(Z).mean
    return float((0.5 * np.square(Z - mean @ model.A.T).sum(axis=1) + NOISE**2 * np.abs(mean).sum(axis=1)).mean())


def codes(updates: int = 300) -> list[Row]:
    """Sparse coding of natural patches, 128 atoms of 64 dimensions, and what rivals reach in twice the time."""
    with h5py.File(FOLDER / "patches16.h5") as file:
        X = file["X"][:120_000:4].reshape(-1, 16, 16)[:, :8, :8].reshape(-1, 64).astype(float)
    Z = whitening.fit_whitening(X, method="zca").apply(X)
    train, test = Z[:25_000], Z[25_000:25_500]
    schedule = ((0.1, updates * 2 // 3), (0.05, updates - updates * 2 // 3))
    task = sparse_coding.SparseCodingProblem(
        LearningProblem(train, stochastic_learning.LearningSettings(filters=128, expert="laplace", rates=schedule)),
        NOISE,
    )
    begun = sparse_coding.DictionaryLearning(task).init().A.copy()
    found: list[np.ndarray] = []
    own = seconds(lambda: found.append(run_algorithm(sparse_coding.DictionaryLearning(task)).more["dictionary"]), 1)
    reached = held_out(found[0], test)
    rows: list[Row] = [
        (f"{updates} updates of 128 × 64, s", own, None, f"objective {reached:.4f}, at the start {held_out(begun, test):.4f}")
    ]
    for name, rival in (("SPAMS", spams_dictionary), ("scikit-learn", sklearn_dictionary)):
        if importlib.util.find_spec({"SPAMS": "spams", "scikit-learn": "sklearn"}[name]):
            A, took = rival(train, begun, 2.0 * own)
            rows.append((f"{name}, its objective over herd's", held_out(A, test) / reached, -1.0, f"after {took:.1f} s"))
    return rows


def spams_dictionary(Z: np.ndarray, begun: np.ndarray, limit: float) -> tuple[np.ndarray, float]:
    """The online dictionary learning of Mairal et al. (2009) in SPAMS, for at least so many seconds."""
    import spams

    options = {"lambda1": NOISE**2, "mode": 2, "batchsize": 100, "numThreads": 1, "verbose": False}
    made: list[np.ndarray] = []

    def run(iterations: int) -> None:
        made.append(spams.trainDL(np.asfortranarray(Z.T), D=np.asfortranarray(begun), K=128, iter=iterations, **options))

    took = seconds(lambda: run(math.ceil(20 * limit / seconds(lambda: run(20), 1))), 1)
    return np.asarray(made[-1]), took


def sklearn_dictionary(Z: np.ndarray, begun: np.ndarray, limit: float) -> tuple[np.ndarray, float]:
    """The same in scikit-learn, by coordinate descent, which is faster there than LARS."""
    from sklearn.decomposition import MiniBatchDictionaryLearning

    start, batch = time.process_time(), 0
    model = MiniBatchDictionaryLearning(128, alpha=NOISE**2, batch_size=100, fit_algorithm="cd", dict_init=begun.T.copy(), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coordinate descents that were cut short
        while time.process_time() - start < limit:
            model.partial_fit(Z[batch * 100 % len(Z) : batch * 100 % len(Z) + 100])
            batch += 1
    return np.asarray(model.components_.T), time.process_time() - start


PARTS = {part.__name__: part for part in (separate, narrow, wide, posteriors, codes, epoch, optima)}


def main() -> int:
    """Print a line for each figure; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    missed = 0
    for part in parser.parse_args().parts or PARTS:
        for name, figure, bar, note in PARTS[part]():
            ok = bar is None or (figure >= -bar if bar < 0 else figure <= bar)
            missed += not ok
            told = "" if bar is None else f"{'at least' if bar < 0 else 'at most'} {abs(bar):g}{'' if ok else ': MISSED'}"
            print(f"{name:32} {figure:10.3f}   {told:20} {note}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
