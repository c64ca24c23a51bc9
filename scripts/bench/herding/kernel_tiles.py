"""How fast the compiled tiles of kernels are under each instruction set, as ratios measured in one process.

    python scripts bench/herding/kernel_tiles                                    # every kernel, d = 10
    python scripts bench/herding/kernel_tiles --columns 2 10 50 100 --kernels gaussian:3 laplace:3

For each kernel and number of columns the mean embedding of --rows uniform rows at themselves, under every instruction set in turn,
--repeats times; the least CPU time of each counts.  A row of the table has nanoseconds per pair of rows under the best set, the speed of
each set beside SSE2's, and two fractions of limits measured in the same process with the best set:

    exp    the time of as many 2^x on data in the first cache (kernels that take one exponential per pair)
    limit  that, and the time of the products of rows by BLAS (dgemm)

`gaussian32:ℓ` is the Gaussian kernel in float32 (--precision float32).  2^x alone takes one row at a time and waits for its own
results, which tiles of several rows do not: they may take less time than the limit.

Measured on one thread of an AMD EPYC (AVX-512), busy with other work, d = 10, 4096 rows:

                              ns    avx512      avx2      sse2  avx2+fma     exp   limit
    gaussian                0.98      3.00      1.68      1.00      1.63    109%    210%
    gaussian32              0.39      3.26      1.74      1.00      1.61    188%    313%
    laplace                 1.13      3.31      1.83      1.00      1.83     99%    182%
    matern12                1.39      3.30      1.84      1.00      2.13     78%    150%
    matern32                1.42      3.33      1.79      1.00      2.09     76%    146%
    matern52                1.43      3.27      1.82      1.00      2.12     75%    141%
    inverse-multiquadric    0.73      3.94      2.19      1.00      2.34
    rational-quadratic      0.66      3.08      1.92      1.00      2.37
    energy                  0.66      3.51      1.85      1.00      2.07
    hamming                 1.16      2.62      1.58      1.00      1.63
    bernoulli1, 2, 3   1.47-2.37 3.33-4.02 1.76-1.99      1.00 2.08-3.16

The Gaussian kernel of 20,000 rows in 2, 10, 50 and 100 columns (--rows 20000): 310, 229, 109 and 103 % of the limit; of 8,000 with
OPENBLAS_CORETYPE=Haswell, whose products have AVX2 alone, 282, 232, 99 and 86 %, and the loops by AVX2 take 1.99, 1.99, 1.15 and 1.08
times as long as by AVX-512.

So avx2+fma gains nothing over avx2 for the Gaussian (0.97) and Laplace's kernel, 7 to 23 % for other radial ones
but Hamming's (3 %), and 18 to 64 % for Bernoulli's.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from herdcli.fast import _embedding
from herdcli.quadrature.kernels import kernel_sums
from herdcli.quadrature.kernels.kernel_parsing import parse_kernel

KERNELS = [f"{name}:3" for name in ("gaussian", "gaussian32", "laplace", "matern12", "matern32", "matern52")] + [
    "inverse-multiquadric:3",
    "rational-quadratic:3",
    "energy",
    "hamming",
    *(f"bernoulli:{order}" for order in (1, 2, 3)),
]
EXPONENTIAL = ("gaussian", "laplace", "matern")


def seconds(run: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    started = time.process_time()
    run()
    return time.process_time() - started


def embedder(name: str, X: np.ndarray) -> Callable[[], object]:
    """The mean embedding of rows under a kernel."""
    precision = "float32" if name.startswith("gaussian32") else "float64"
    kernel = parse_kernel(name.replace("gaussian32", "gaussian"))
    problem = kernel_sums.make_embedding_problem(kernel, X, X, np.full(len(X), 1.0 / len(X)), precision=precision)

    def run() -> None:
        state = kernel_sums.initial_state(problem)
        for _ in range(kernel_sums.total_steps(problem)):
            state = kernel_sums.embedding_step(problem, state)

    return run


def exponentials(pairs: int, dtype: type) -> Callable[[], object]:
    """As many 2^x, 1024 at a time."""
    values = np.empty(1024, dtype=dtype)

    def run() -> None:
        for _ in range(pairs // len(values)):
            values.fill(-1.5)
            _embedding.exp2_each(values)

    return run


def products(X: np.ndarray, dtype: type) -> Callable[[], object]:
    """Half the products of rows, in blocks of 256 × 2048."""
    rows = X.astype(dtype)
    columns = np.ascontiguousarray(rows.T)
    out = np.empty((256, 2048), dtype=dtype)

    def run() -> None:
        for start in range(0, len(rows), 256):
            for left in range(start // 2048 * 2048, len(rows), 2048):
                if rows[start : start + 256].shape[0] == 256 and columns[:, left : left + 2048].shape[1] == 2048:
                    np.dot(rows[start : start + 256], columns[:, left : left + 2048], out=out)

    return run


def measure(name: str, X: np.ndarray, sets: Sequence[str], repeats: int) -> str:
    """One row of the table."""
    run = embedder(name, X)
    dtype = np.float32 if name.startswith("gaussian32") else np.float64
    pairs = len(X) ** 2 // 2
    exp, gemm = exponentials(pairs, dtype), products(X, dtype)
    least = dict.fromkeys((*sets, "exp", "gemm"), float("inf"))
    for _ in range(repeats):
        for each in sets:
            _embedding.use_instruction_set(each)
            least[each] = min(least[each], seconds(run))
        _embedding.use_instruction_set(sets[0])
        least["exp"], least["gemm"] = min(least["exp"], seconds(exp)), min(least["gemm"], seconds(gemm))
    best = least[sets[0]]
    base = least.get("sse2") or least[sets[-1]]
    speeds = "".join(f"{base / least[each]:>10.2f}" for each in sets)
    bounds = [least["exp"] / best, (least["exp"] + least["gemm"]) / best] if name.startswith(EXPONENTIAL) else []
    return f"{name:<26}{X.shape[1]:>4}{best / pairs * 1e9:>8.2f}{speeds}" + "".join(f"{bound:>8.0%}" for bound in bounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, nargs="+", default=[10])
    parser.add_argument("--kernels", nargs="+", default=KERNELS)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    sets = _embedding.instruction_sets()
    print(f"{'kernel':<26}{'d':>4}{'ns':>8}" + "".join(f"{each:>10}" for each in sets) + f"{'exp':>8}{'limit':>8}")
    for name in arguments.kernels:
        for d in arguments.columns:
            X = np.random.default_rng(0).random((arguments.rows, d))
            print(measure(name, X, sets, arguments.repeats), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
