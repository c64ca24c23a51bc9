"""CD-1, PCD-1 and CD-5 of one model of the size of MNIST's, plain and centred, beside PyTorch and the products alone.

    OPENBLAS_NUM_THREADS=1 HERD_DATA=DIR python scripts bench/rbm/rbm_torch        (needs torch)

784 visible and 500 hidden binary units, batches of 100, one thread.  The rows are those of mnist.h5 with pixels of 128 and more on, if
it is there, else random bits of that density.  Everyone does the same number of updates in turns; the medians of CPU seconds are compared,
so that other programs count as little as they can.

PyTorch   the same update in float32: fused addmm_ for statistics and momentum, in place, no autograd; sampling by `rand <` or by
          `bernoulli_`, the faster counts.
products  the matrix products of the textbook update and nothing else, by numpy.matmul into arrays that are there: what is left of 100 % is
          sampling, passes over the weights and all else.  herd skips zeros of rows, and of what a chain changes, so that it can be above.

Bars: PyTorch ≥ 1.6 × (CD-1), 1.5 × (PCD-1), 1.6 × (CD-5) of herd's time, centred ≤ 1.1 × plain.  Exit code 1 if one is missed.
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

from herdcli.rbm.learning import parallel_fits

D, K, BATCH, ROWS, DENSITY = 784, 500, 100, 10_000, 0.13
WAYS = {"CD-1": ("cd", 1, 1.6), "PCD-1": ("pcd", 1, 1.5), "CD-5": ("cd", 5, 1.6)}
Turn = Callable[[int], None]  # so many updates


def rows() -> tuple[np.ndarray, str]:
    """Binary rows (n, D) int8 and what they are."""
    if (FOLDER / "mnist.h5").exists():
        import h5py

        with h5py.File(FOLDER / "mnist.h5") as file:
            return (file["X"][:ROWS] >= 128).astype(np.int8), "MNIST"
    return (np.random.default_rng(0).random((ROWS, D)) < DENSITY).astype(np.int8), "random bits"


def of_herd(X: np.ndarray, algorithm: str, steps: int, *, centred: bool) -> Turn:
    """Updates by herd."""
    run = parallel_fits.RBMLearning(
        parallel_fits.LearningProblem([X], parallel_fits.Settings(K, algorithm, steps, epochs=500, batch_size=BATCH, centering=centred))
    )
    state = run.init()

    def turn(updates: int) -> None:
        for _ in range(updates):
            run.step(state)

    return turn


def of_torch(X: np.ndarray, algorithm: str, steps: int, sampler: str) -> Turn:
    """The same updates in PyTorch."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data, rate, momentum, decay = torch.from_numpy(X.astype(np.float32)), 0.05, 0.9, 1e-4
    W, b, c = 0.01 * torch.randn(D, K), torch.zeros(D), torch.zeros(K)
    moved = torch.zeros(D, K), torch.zeros(D), torch.zeros(K)
    chain = torch.bernoulli(torch.full((BATCH, K), 0.5))

    def sample(p: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(p).bernoulli_(p) if sampler == "bernoulli" else (torch.rand_like(p) < p).float()

    def update(v: torch.Tensor) -> None:
        nonlocal chain
        h = torch.addmm(c, v, W).sigmoid_()
        states = sample(h) if algorithm == "cd" else chain
        for sweep in range(steps):
            fantasy = sample(torch.addmm(b, states, W.T).sigmoid_())
            last = torch.addmm(c, fantasy, W).sigmoid_()
            if sweep < steps - 1 or algorithm == "pcd":
                states = sample(last)
        chain = states
        scale = rate / len(v)
        moved[0].mul_(momentum).addmm_(v.T, h, alpha=scale).addmm_(fantasy.T, last, alpha=-scale).add_(W, alpha=-rate * decay)
        moved[1].mul_(momentum).add_((v - fantasy).sum(0), alpha=scale)
        moved[2].mul_(momentum).add_((h - last).sum(0), alpha=scale)
        W.add_(moved[0]), b.add_(moved[1]), c.add_(moved[2])

    def turn(updates: int) -> None:
        with torch.inference_mode():
            order = torch.randperm(len(data))
            for number in range(updates):
                first = number * BATCH % (len(data) - BATCH + 1)
                update(data[order[first : first + BATCH]])

    return turn


def of_products(steps: int) -> Turn:
    """The products of as many updates: two a sweep, one of the rows, two of the statistics."""
    random = np.random.default_rng(0)
    v, h, W = (random.random(shape, dtype=np.float32) for shape in ((BATCH, D), (BATCH, K), (D, K)))
    up, down, pairs = np.empty((BATCH, K), np.float32), np.empty((BATCH, D), np.float32), np.empty((D, K), np.float32)

    def turn(updates: int) -> None:
        for _ in range(updates):
            np.matmul(v, W, out=up)
            for _ in range(steps):
                np.matmul(h, W.T, out=down)
                np.matmul(v, W, out=up)
            np.matmul(v.T, h, out=pairs)
            np.matmul(v.T, h, out=pairs)

    return turn


def measured(turns: dict[str, Turn], updates: int, repeats: int) -> dict[str, float]:
    """Median CPU milliseconds an update, the contenders in turns; the first turn of each does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(repeats + 1):
        for name, turn in turns.items():
            start = time.process_time()
            turn(updates)
            if number:
                seconds[name].append(1e3 * (time.process_time() - start) / updates)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--updates", type=int, default=50, metavar="N", help="Updates of a turn.  [default: 50]")
    parser.add_argument("--repeats", type=int, default=7, metavar="N", help="Turns that count.  [default: 7]")
    asked = parser.parse_args()
    X, what = rows()
    print(f"{what}, {D} × {K}, batches of {BATCH}, CPU ms an update")
    print(*("way", "herd", "centred", "PyTorch", "products", "PyTorch/herd", "centred/plain", "products/herd"), sep="\t")
    good = True
    for name, (algorithm, steps, bar) in WAYS.items():
        turns = {way: of_herd(X, algorithm, steps, centred=way == "centred") for way in ("herd", "centred")}
        turns["products"] = of_products(steps)
        try:
            turns |= {sampler: of_torch(X, algorithm, steps, sampler) for sampler in ("rand", "bernoulli")}
        except ImportError:
            print("torch is not installed", file=sys.stderr)
        found = measured(turns, asked.updates, asked.repeats)
        own, torch = found["herd"], min(found.get("rand", float("nan")), found.get("bernoulli", float("nan")))
        ratios = torch / own, found["centred"] / own, found["products"] / own
        shown = [f"{own:.2f}", f"{found['centred']:.2f}", f"{torch:.2f}", f"{found['products']:.2f}", *(f"{ratio:.2f}" for ratio in ratios)]
        print("\t".join([name, *shown]), flush=True)
        good &= ratios[0] >= bar and ratios[1] <= 1.1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
