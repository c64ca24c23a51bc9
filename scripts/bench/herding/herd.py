"""How fast one protocol iteration of herding is, beside plain float32 NumPy and the machine's own matrix products.

    OPENBLAS_NUM_THREADS=1 python scripts bench/herding/herd

An iteration of the classification protocol (Welling 2009, sec. 10) is a herding step on 700 x 256 rows of one class
with 500 hidden units and the standardised energies of 4,000 held-out rows; with the 700 training rows, whose energies
the step has anyway, that is 4,700 rows.  The weights are those of a run after 300 iterations.  Contenders take turns
on one thread; medians of wall seconds.  Rows are USPS digits, $HERD_DATA/usps_all.h5, if they are there, else random bits.

herd           `dynamics.step` of one iteration: row pass, energies, block ascent to the fixpoint, exact integer update,
               norms, guard, traces, packed pseudo-sample.
NumPy float32  the same step written straightforwardly: rows of +-1 in float32, X @ W + c, sign, abs, sum, X.T @ Z,
               ascent by matrix-vector products.  No traces, no guard, inexact after some steps.
sgemm          numpy.matmul into arrays that are there, for the products alone: X W of 4,700 rows, X'Z of 700.

Measured on one core of an AMD EPYC (Zen 4, AVX-512; sgemm 97-107 GFLOP/s), medians in milliseconds: herd 5.6, NumPy 23,
sgemm of the two products alone 14.3; so 250 GFLOP/s as these products are counted.  The parts, and what they were chosen from:

    energies of 4,000 rows   3.6   subset-sum tables, looked up 4 visible units at a time, 32-bit sums.  16-bit sums where
                                   they fit (small weights): 2.6; without AVX2: 4.9; sgemm without |.|, sum and sign: 10.6.
                                   64-byte vectors: a fifth faster with AVX-512, three times slower with AVX2: not taken.
    row pass of 700          0.75  the same, signs packed on the way.
    statistics and update    0.27  X'Z by popcount of 512-bit words 0.24; by bit counts within bytes 0.44 (AVX2), 1.0 (SSE2);
                                   by the scalar popcnt instruction 0.87; sgemm alone 1.7.
    ascent of one state      0.07  32-bit integers, fields following the units that change.  64 bits: 0.12; NumPy 0.3.

Exit code 1 if herd is not 3 times as fast as NumPy.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from shared.real_data import FOLDER

from herdcli import fast
from herdcli.herding import dynamics
from herdcli.herding import problem as sizes
from herdcli.herding.binary_features import pack_bits, pack_rows

BAR = 3.0


def rows_of(arguments: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, str]:
    """Training rows of one class (n, D) and held-out rows (q, D) as truth values, and what they are."""
    path = FOLDER / "usps_all.h5"
    if path.exists() and (arguments.rows, arguments.queries, arguments.visible) == (700, 4000, 256):
        import h5py

        with h5py.File(path) as file:
            on, y = file["X"][:] >= 51, file["y"][:] % 10
        training = np.flatnonzero(y == 4)[:700]
        rest = np.setdiff1d(np.arange(len(on)), training)
        return on[training], on[np.random.default_rng(0).permutation(rest)[:4000]], "USPS digits"
    draws = np.random.default_rng(0)
    return (
        draws.random((arguments.rows, arguments.visible)) < 0.4,
        draws.random((arguments.queries, arguments.visible)) < 0.4,
        "random bits",
    )


def herd_contender(
    training: np.ndarray, held: np.ndarray, arguments: argparse.Namespace
) -> tuple[Callable[[], None], dynamics.HiddenRunState]:
    """One iteration a call; and the run, warmed up."""
    settings = dynamics.HiddenHerdingSettings(hidden=arguments.hidden, iterations=100_000, burn_in=0, keep=0)
    packed_rows = pack_rows(training, "spin")
    state = dynamics.HiddenHerding(dynamics.HiddenHerdingProblem((packed_rows,), settings)).init()
    warm = dynamics.HiddenHerdingProblem((packed_rows,), settings)
    while state.iteration < 300:
        state = dynamics.HiddenHerding(warm).step(state)
    problem = dynamics.HiddenHerdingProblem((packed_rows,), settings, pack_bits(held))
    state.runs[0].energy = np.zeros(len(held))
    sizes.BLOCK_WORK = 1.0  # one iteration a step

    def once() -> None:
        dynamics.HiddenHerding(problem).step(state)

    return once, state.runs[0]


def numpy_contender(training: np.ndarray, held: np.ndarray, run: dynamics.HiddenRunState) -> Callable[[], None]:
    """The same iteration on float32 matrices, from the same weights."""
    X, Q = (np.where(on, np.float32(1), np.float32(-1)) for on in (training, held))
    n = len(X)
    W, b, c = ((part / n).astype(np.float32) for part in (run.M, run.b, run.c))
    mean, total = X.mean(axis=0), np.zeros(len(Q), dtype=np.float32)
    state = {"W": W, "b": b, "c": c, "x": run.x.astype(np.float32)}

    def sign(field: np.ndarray) -> np.ndarray:
        return np.where(field >= 0, np.float32(1), np.float32(-1))

    def once() -> None:
        W, b, c, x = state["W"], state["b"], state["c"], state["x"]
        field = X @ W + c
        Z = sign(field)
        energy = -(X @ b + np.abs(field).sum(axis=1))
        queried = -(Q @ b + np.abs(Q @ W + c).sum(axis=1))
        total[...] += (queried - energy.mean()) / energy.std()
        while True:
            z = sign(c + x @ W)
            new = sign(b + W @ z)
            if np.array_equal(new, x):
                break
            x = new
        state["W"], state["b"], state["x"] = W + X.T @ Z / n - np.outer(x, z), b + mean - x, x

    return once


def products(training: np.ndarray, held: np.ndarray, hidden: int) -> tuple[Callable[[], None], float]:
    """The products an iteration cannot do without, by sgemm, and their floating-point operations."""
    rows = np.concatenate([training, held]).astype(np.float32)
    n, D = training.shape
    W, Z = np.ones((D, hidden), dtype=np.float32), np.ones((n, hidden), dtype=np.float32)
    activations, statistic = np.empty((len(rows), hidden), dtype=np.float32), np.empty((D, hidden), dtype=np.float32)
    columns = rows[:n].T

    def once() -> None:
        np.matmul(rows, W, out=activations)
        np.matmul(columns, Z, out=statistic)

    return once, 2.0 * hidden * D * (len(rows) + n)


def parts(training: np.ndarray, held: np.ndarray, run: dynamics.HiddenRunState, repeats: int) -> list[tuple[str, float]]:
    """Milliseconds of the compiled loops one by one."""
    rows, queries = pack_rows(training, "spin"), pack_bits(held)
    D, K = run.M.shape
    scratch = fast.herding_scratch(queries.shape[1], D, K)
    energy, queried = np.empty(rows.count, dtype=np.int64), np.empty(len(held), dtype=np.int64)
    signs = np.zeros((-(-rows.count // 64), -(-K // 32) * 32), dtype=np.uint64)
    M, sample, sums = run.M.copy(), np.zeros_like(run.M), [np.zeros(size, dtype=np.int64) for size in (K, K, D)]
    x, z = run.x.copy(), run.z.copy()

    def ascend() -> None:
        x[...] = rows.row(0, "spin")
        fast.ascend(run.M, run.b, run.c, x, z, True, True, 0, scratch)

    timed: list[tuple[str, Callable[[], object]]] = [
        (f"energies of {len(held)} rows", lambda: fast.hidden_pass(queries, run.M, run.b, run.c, True, queried, None, scratch)),
        (f"row pass of {rows.count}", lambda: fast.hidden_pass(rows.rows, run.M, run.b, run.c, True, energy, signs, scratch)),
        ("statistics and update", lambda: fast.herding_update(M, sample, rows.columns, signs, rows.count, True, 1, x, z, *sums)),
        ("ascent of one state", ascend),
    ]
    return [(name, 1e3 * statistics.median(seconds(function) for _ in range(repeats))) for name, function in timed]


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description="Benchmark of one protocol iteration of herding.")
    for name, default in (("rows", 700), ("queries", 4000), ("visible", 256), ("hidden", 500), ("repeats", 25)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    training, held, what = rows_of(arguments)
    herd, run = herd_contender(training, held, arguments)
    plain = numpy_contender(training, held, run)
    blas, operations = products(training, held, arguments.hidden)
    contenders = {"herd": herd, "NumPy float32": plain, "sgemm": blas}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(arguments.repeats + 2):
        for name, once in contenders.items():
            elapsed = seconds(once)
            if turn >= 2:
                times[name].append(elapsed)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    print(
        f"{what}: {len(training)} rows, {len(held)} queries, {training.shape[1]} x {arguments.hidden} units, {fast.loops_in_use()} kernels"
    )
    for name, median in medians.items():
        print(f"{name:14s} {1e3 * median:8.2f} ms   {operations / median / 1e9:7.1f} GFLOP/s of the two products")
    for name, milliseconds in parts(training, held, run, arguments.repeats):
        print(f"  {name:24s} {milliseconds:8.3f} ms")
    ratio = medians["NumPy float32"] / medians["herd"]
    print(f"herd is {ratio:.1f} times as fast as NumPy (bar {BAR:g})")
    return 0 if ratio >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
