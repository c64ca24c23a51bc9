"""How much of one model's minibatch several threads can share, and what two threads make of it.

    OPENBLAS_NUM_THREADS=1 python scripts bench/rbm/minibatch [--visible 784] [--hidden 500] [--batches 20,100,200,500] [--algorithm cd]

Random bits of the density of MNIST, one model, centred.  `one` and `two` are wall milliseconds of an update on one and on two threads in
turns, the least of nine rounds of 20 updates, which depend on what else the machine does (`load`).  `CPU` does not: processor
milliseconds of an update on one thread, and `bound` is what two threads can make of them, from the processor time of every block of
rows and slice of weights (taken in order by whichever thread is free) and of what is between them.  The parameters of both are
compared byte by byte.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from herdcli.rbm.learning import parallel_fits

ROUNDS, UPDATES = 9, 20


class Account:
    """A `map` in this thread that notes the processor time of its tasks: in all, and on the busier of two threads."""

    def __init__(self) -> None:
        self.tasks = self.longest = 0.0

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        ends, found = [0.0, 0.0], []
        for item in items:
            start = time.thread_time()
            found.append(work(item))
            spent = time.thread_time() - start
            self.tasks += spent
            ends[ends.index(min(ends))] += spent
        self.longest += max(ends)
        return found


def accounted(algorithm: parallel_fits.RBMLearning, state: parallel_fits.LearningState, account: Account) -> tuple[float, float]:
    """Processor milliseconds of an update, and of the longer way through it on two threads."""
    account.tasks = account.longest = 0.0
    start = time.thread_time()
    for _ in range(UPDATES):
        algorithm.step(state)
    spent = time.thread_time() - start
    return spent / UPDATES * 1000, (spent - account.tasks + account.longest) / UPDATES * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--visible", type=int, default=784)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--batches", default="20,100,200,500")
    parser.add_argument("--algorithm", default="cd")
    arguments = parser.parse_args()
    X = (np.random.default_rng(0).random((5000, arguments.visible)) < 0.13).astype(np.int8)
    print("batch\tone\ttwo\tratio\tload\tCPU\tbound")
    with ThreadPoolExecutor(2) as pool:
        for batch in map(int, arguments.batches.split(",")):
            settings = parallel_fits.Settings(arguments.hidden, arguments.algorithm, epochs=1000, batch_size=batch, centering=True)
            account, runs = Account(), []
            for each in (map, pool.map, account):
                algorithm = parallel_fits.RBMLearning(parallel_fits.LearningProblem([X], settings), each)
                runs.append((algorithm, algorithm.init()))
            least, ways = [float("inf")] * 2, []
            for _ in range(ROUNDS):
                for place, (algorithm, state) in enumerate(runs[:2]):
                    start = time.perf_counter()
                    for _ in range(UPDATES):
                        algorithm.step(state)
                    least[place] = min(least[place], (time.perf_counter() - start) / UPDATES * 1000)
                ways.append(accounted(*runs[2], account))
            assert np.array_equal(runs[0][1].W, runs[1][1].W)
            (cpu, longest), load = min(ways), os.getloadavg()[0]
            print(
                f"{batch}\t{least[0]:.2f}\t{least[1]:.2f}\t{least[0] / least[1]:.2f}\t{load:.1f}\t{cpu:.2f}\t{cpu / longest:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
