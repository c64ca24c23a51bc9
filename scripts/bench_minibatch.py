"""How much quicker one model learns on two threads, and what the blocks cost on one.

    OPENBLAS_NUM_THREADS=1 python scripts/bench_minibatch.py [--visible 784] [--hidden 500] [--batches 20,100,200,500] [--algorithm cd]

Random bits of the density of MNIST, one model: wall milliseconds of an update on one and on two threads in turns, the least of nine
rounds of 20 updates each, and the processes that waited for a processor meanwhile, on which wall times depend.  The parameters are
compared byte by byte.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from herdcli.rbm import learning

ROUNDS, UPDATES = 9, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--visible", type=int, default=784)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--batches", default="20,100,200,500")
    parser.add_argument("--algorithm", default="cd")
    arguments = parser.parse_args()
    X = (np.random.default_rng(0).random((5000, arguments.visible)) < 0.13).astype(np.int8)
    print("batch\tone thread\ttwo threads\tratio\tload")
    with ThreadPoolExecutor(2) as pool:
        for batch in map(int, arguments.batches.split(",")):
            settings = learning.Settings(arguments.hidden, arguments.algorithm, epochs=1000, batch_size=batch, centering=True)
            runs = []
            for each in (map, pool.map):
                algorithm = learning.Learning(learning.Problem([X], settings), each)
                runs.append((algorithm, algorithm.init()))
            least = [float("inf")] * 2
            for _ in range(ROUNDS):
                for place, (algorithm, state) in enumerate(runs):
                    start = time.perf_counter()
                    for _ in range(UPDATES):
                        algorithm.step(state)
                    least[place] = min(least[place], (time.perf_counter() - start) / UPDATES * 1000)
            assert np.array_equal(runs[0][1].W, runs[1][1].W)
            print(f"{batch}\t{least[0]:.2f}\t{least[1]:.2f}\t{least[0] / least[1]:.2f}\t{os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
