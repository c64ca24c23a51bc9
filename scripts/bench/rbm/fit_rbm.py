"""How fast an epoch of CD-1 is, beside scikit-learn, PyTorch and the machine's own matrix products.

    OPENBLAS_NUM_THREADS=1 python scripts bench/rbm/fit_rbm        (needs the extra `bench`)

Every contender does one epoch over the same binary rows on one thread.  They take turns, after one
epoch each that does not count, and the medians of their CPU seconds are compared.  The rows are the
USPS digits, $HERD_DATA/usps_all.h5 with pixels of 51 and more on, if they are there, else random bits.

herd           `learning_settings.step` from uint8 rows with the default rate, momentum and decay: shuffle, CD-1,
               falling rate, reconstruction trace and divergence check included.  Epochs 2, 3, … of 50.
scikit-learn   `BernoulliRBM.fit`, two epochs halved, on float32 and on float64 rows.  Persistent
               chains, no momentum, no decay, no trace: as many products and as many samples.
PyTorch        herd's update without trace and check: fused addmm_ for statistics and momentum, in
               place, no autograd, float32 rows; sampling by `rand <` or by `bernoulli_`, the faster counts.
five products  the five matrix products of the textbook update and nothing else, V W, H W', V W, V'H, V'H
               of a minibatch, by numpy.matmul into arrays that are there: the same BLAS, the same process.

GFLOP/s counts five products for everybody.  herd does less where the rows are sparse (under 40 % ones)
and where the chain shows mostly what the rows had (under 40 % of the units changed): there a product
costs what its non-zero entries cost.  Random bits have nothing to be learned, almost half of the
units change, and herd multiplies densely: its worst case.

Seen on an AMD EPYC (family 25, AVX-512), one thread, numpy 2.4.6, scikit-learn 1.9.1, torch 2.13.0, times of
others over herd's:                    USPS (132 ms)    random bits (176 ms)    bar
    scikit-learn float32                    2.31               1.68             1.6
    scikit-learn float64                    3.96               2.83             2.8
    PyTorch                                 1.66               1.19             1.3
    five products                           1.13               0.83             0.75

Exit code 1 if a bar is missed.

    HERD_DATA=DIR python scripts bench/rbm/fit_rbm --words        (bags of words: r8_bow.h5, words that are there or not)

CSR rows      7,674 × 12,683, 200 hidden units, batches of 20 and of 100: binary units (centred) and replicated softmax.
dense rows    the same as int8 or float32; herd looks for what is on in each row of a minibatch.
all weights   CSR rows, but every update moves all weights (`minibatch`, `descent`), as of models that are not wide; zeros are skipped.
all dense     the same with all five products dense.

Seen on the same machine, beside others' work, least CPU ms an update as CSR rows, with all weights and all dense (`--updates 15 --repeats
5`): binary 3.2, 6.6 and 11.8, at 100 rows 9.4, 16.2 and 31.7; replicated softmax 1.7, 5.8 and 9.6, at 100 rows 5.0, 17.6 and 32.9.  The one
product of hidden states with all weights, which binary units are drawn by, is 1.4 and 4.8 of these.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from shared.real_data import FOLDER

from herdcli import fast
from herdcli.rbm.learning import parallel_fits

DENSITY = 0.35  # of the pixels that are on in USPS


def rows_of(arguments: argparse.Namespace) -> tuple[np.ndarray, str]:
    """Binary rows (n, D) uint8 and what they are."""
    path = FOLDER / "usps_all.h5"
    if path.exists() and (arguments.rows, arguments.visible) == (11000, 256):
        import h5py

        with h5py.File(path) as file:
            return (file["X"][:] >= 51).astype(np.uint8), "USPS digits"
    generator = np.random.default_rng(0)
    return (generator.random((arguments.rows, arguments.visible)) < DENSITY).astype(np.uint8), "random bits"


def herd_epoch(X: np.ndarray, arguments: argparse.Namespace) -> Callable[[], float]:
    """Seconds of the next epoch of a fit by herd with its default rate, momentum and weight decay."""
    settings = parallel_fits.Settings(hidden=arguments.hidden, batch_size=arguments.batch, epochs=max(50, arguments.repeats + 1))
    problem = parallel_fits.LearningProblem([X], settings)
    state = parallel_fits.RBMLearning(problem).init()

    def epoch() -> float:
        start = time.process_time()
        for _ in range(problem.batches(0)):
            parallel_fits.RBMLearning(problem).step(state)
        return time.process_time() - start

    return epoch


def sklearn_epoch(X: np.ndarray, arguments: argparse.Namespace, dtype: type) -> Callable[[], float]:
    """Seconds of one epoch of scikit-learn's BernoulliRBM on rows of `dtype`."""
    from sklearn.neural_network import BernoulliRBM

    rows = X.astype(dtype)

    def epoch() -> float:
        model = BernoulliRBM(arguments.hidden, learning_rate=0.05, batch_size=arguments.batch, n_iter=2, random_state=0)
        start = time.process_time()
        model.fit(rows)
        return (time.process_time() - start) / 2

    return epoch


def torch_epoch(X: np.ndarray, arguments: argparse.Namespace, sampler: str) -> Callable[[], float]:
    """Seconds of one epoch of the same update in PyTorch."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = torch.from_numpy(X.astype(np.float32))
    n, D = rows.shape
    K, batch = arguments.hidden, arguments.batch
    rate, momentum, decay = 0.05, 0.9, 1e-4
    W, b, c = 0.01 * torch.randn(D, K), torch.zeros(D), torch.zeros(K)
    W_velocity, b_velocity, c_velocity = torch.zeros(D, K), torch.zeros(D), torch.zeros(K)

    def sample(p: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(p).bernoulli_(p) if sampler == "bernoulli" else (torch.rand_like(p) < p).float()

    def update(v: torch.Tensor, rate: float) -> None:
        h = torch.addmm(c, v, W).sigmoid_()
        fantasy = sample(torch.addmm(b, sample(h), W.T).sigmoid_())
        last = torch.addmm(c, fantasy, W).sigmoid_()
        scale = rate / len(v)
        W_velocity.mul_(momentum).addmm_(v.T, h, alpha=scale).addmm_(fantasy.T, last, alpha=-scale).add_(W, alpha=-rate * decay)
        b_velocity.mul_(momentum).add_((v - fantasy).sum(0), alpha=scale)
        c_velocity.mul_(momentum).add_((h - last).sum(0), alpha=scale)
        W.add_(W_velocity), b.add_(b_velocity), c.add_(c_velocity)

    def epoch() -> float:
        start = time.process_time()
        with torch.inference_mode():
            order = torch.randperm(n)
            for number, first in enumerate(range(0, n, batch)):
                update(rows[order[first : first + batch]], rate * (1 - 1e-6 * number))
        return time.process_time() - start

    return epoch


def words(arguments: argparse.Namespace) -> int:
    """Print what an epoch over bags of words takes as CSR, as dense rows, and with dense products; each in its turn."""
    from herdcli import artifacts

    X = artifacts.load(str(FOLDER / "r8_bow.h5")).value.X
    counts, there = X.astype(np.float32), X.astype(np.int8)
    there.data[...] = 1
    for batch in (20, 100):
        print(f"binary units, batches of {batch}")
        in_turns(there, parallel_fits.Settings(hidden=200, epochs=50, batch_size=batch, centering=True), arguments)
        print(f"replicated softmax, batches of {batch}")
        in_turns(counts, parallel_fits.Settings(200, epochs=50, batch_size=batch, visible_units="words", learning_rate=1e-4), arguments)
    return 0


def in_turns(X: Any, settings: parallel_fits.Settings, arguments: argparse.Namespace) -> None:
    """The three ways of one model, and the one product that no way does without: hidden states times all weights.

    What is on among the visible units is drawn by it, so that dense products in the place of sparse ones cost at most so much more.
    """
    from herdcli.numerics.row_selection import SelectedRows
    from herdcli.rbm.learning import learning_problem, phases

    worth, wide = phases.WORTH, learning_problem.WIDE
    seconds: dict[str, list[float]] = {}
    runs = {}
    for name, rows in (("CSR rows", X), ("dense rows", X.toarray()), ("all weights", X), ("all dense", X.toarray())):
        learning_problem.WIDE = 2**62 if name.startswith("all") else wide
        run = parallel_fits.RBMLearning(parallel_fits.LearningProblem([SelectedRows(rows, np.arange(X.shape[0]))], settings))
        runs[name] = run, run.init()
    learning_problem.WIDE = wide
    for run, state in runs.values():
        for _ in range(arguments.begun):
            run.step(state)
    states, W = np.ones((settings.batch_size, settings.hidden), np.float32), runs["CSR rows"][1].W[0]
    natural = np.empty((settings.batch_size, X.shape[1]), np.float32)
    for turn in range(arguments.repeats + 1):
        start = time.process_time()
        for _ in range(arguments.updates):
            np.matmul(states, W.T, out=natural)
        if turn:
            seconds.setdefault("one product", []).append((time.process_time() - start) / arguments.updates)
        for name, (run, state) in runs.items():
            phases.WORTH = 2**62 if name == "all dense" else worth
            start = time.process_time()
            for _ in range(arguments.updates):
                run.step(state)
            if turn:
                seconds.setdefault(name, []).append((time.process_time() - start) / arguments.updates)
    least = {name: min(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        told = f"{name:<12} {1e3 * statistics.median(values):6.1f} ms an update (least {1e3 * least[name]:.1f})"
        ratio = statistics.median(values) / statistics.median(seconds["CSR rows"])
        print(f"{told}, {ratio:.2f} times CSR rows (least {least[name] / least['CSR rows']:.2f})")
    phases.WORTH = worth


def product_epoch(X: np.ndarray, arguments: argparse.Namespace) -> Callable[[], float]:
    """Seconds of the five products of each minibatch of one epoch."""
    (n, D), K, batch = X.shape, arguments.hidden, arguments.batch
    generator = np.random.default_rng(0)
    v, h, W = (generator.random(shape, dtype=np.float32) for shape in ((batch, D), (batch, K), (D, K)))
    up, down, pairs = np.empty((batch, K), np.float32), np.empty((batch, D), np.float32), np.empty((D, K), np.float32)

    def epoch() -> float:
        start = time.process_time()
        for _ in range(-(-n // batch)):
            np.matmul(v, W, out=up)
            np.matmul(h, W.T, out=down)
            np.matmul(v, W, out=up)
            np.matmul(v.T, h, out=pairs)
            np.matmul(v.T, h, out=pairs)
        return time.process_time() - start

    return epoch


def measure(contenders: dict[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each epoch, the contenders taking turns; one epoch of each before that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, epoch in contenders.items():
            spent = epoch()
            if turn:
                seconds[name].append(spent)
    return seconds


def report(seconds: dict[str, list[float]], flops: float, bars: argparse.Namespace) -> bool:
    """Print the table and the verdicts; True if no bar is missed."""
    median = {name: statistics.median(values) for name, values in seconds.items()}
    own = median["herd"]
    print(f"{'contender':<28} {'median ms':>10} {'min ms':>9} {'max ms':>9} {'GFLOP/s':>9} {'time / herd':>12}")
    for name, values in seconds.items():
        row = f"{name:<28} {1e3 * median[name]:>10.1f} {1e3 * min(values):>9.1f} {1e3 * max(values):>9.1f}"
        print(f"{row} {flops / median[name] / 1e9:>9.1f} {median[name] / own:>12.2f}")
    torch_names = [name for name in median if name.startswith("PyTorch")]
    ratios = {"scikit-learn float32": bars.sklearn32, "scikit-learn float64": bars.sklearn64, "five products": bars.sums_by_products}
    if torch_names:
        ratios[min(torch_names, key=lambda name: median[name])] = bars.torch
    fine = True
    print()
    for name, bar in ratios.items():
        if name in median:
            reached = median[name] / own
            fine &= reached >= bar
            print(f"{name:<28} {reached:5.2f}  bar {bar:4.2f}  {'met' if reached >= bar else 'MISSED'}")
        else:
            print(f"{name:<28} not installed")
    return fine


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("rows", 11000), ("visible", 256), ("hidden", 500), ("batch", 100), ("repeats", 9)):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"[default: {default}]")
    for name, bar in (("sklearn32", 1.6), ("sklearn64", 2.8), ("torch", 1.3), ("products", 0.75)):
        parser.add_argument(f"--{name}", type=float, default=bar, metavar="RATIO", help=f"the bar  [default: {bar}]")
    parser.add_argument("--words", action="store_true", help="Bags of words, sparse and dense.")
    parser.add_argument("--begun", type=int, default=0, metavar="N", help="Updates before the first turn with --words.  [default: 0]")
    parser.add_argument("--updates", type=int, default=50, metavar="N", help="Updates of a turn with --words.  [default: 50]")
    arguments = parser.parse_args()
    if arguments.words:
        return words(arguments)
    from threadpoolctl import threadpool_info, threadpool_limits

    X, what = rows_of(arguments)
    contenders = {"herd": herd_epoch(X, arguments), "five products": product_epoch(X, arguments)}
    versions = [f"numpy {np.__version__}"]
    try:
        import sklearn

        versions.append(f"scikit-learn {sklearn.__version__}")
        contenders["scikit-learn float32"] = sklearn_epoch(X, arguments, np.float32)
        contenders["scikit-learn float64"] = sklearn_epoch(X, arguments, np.float64)
    except ImportError:
        pass
    try:
        import torch

        versions.append(f"torch {torch.__version__}")
        for sampler in ("rand", "bernoulli"):
            contenders[f"PyTorch ({sampler})"] = torch_epoch(X, arguments, sampler)
    except ImportError:
        pass
    print(
        f"{what}, {X.shape[0]}x{X.shape[1]}, {arguments.hidden} hidden, batch {arguments.batch}, CD-1, one thread, {fast.loops_in_use()} "
        f"loops"
    )
    with threadpool_limits(1):
        used = sorted({f"{info['internal_api']} {info['version']} {info.get('architecture', '')}".strip() for info in threadpool_info()})
        print(", ".join(versions) + "; " + ", ".join(used) + "\n")
        seconds = measure(contenders, arguments.repeats)
    flops = 5 * 2.0 * X.shape[0] * X.shape[1] * arguments.hidden
    return 0 if report(seconds, flops, arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
