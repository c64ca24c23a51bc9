"""How much faster propagation on a lattice is with two threads, and what memory and arithmetic allow on the same machine.

    python scripts bench/networks/thread_speed [--rounds 10] [-o results/thread-speed.md]

Three kinds of work alternate on one thread and on two: propagation on a 1000×1000 lattice; a copy of an array that no cache holds, as
in STREAM; and arithmetic on an array that the first cache holds.  The speed-up of the copy is what memory allows, and that of the
arithmetic what the processors allow.  A time is what the thread with most work spends on its processor, so that other programs matter
little; the least of all rounds counts.
"""

from __future__ import annotations

import argparse
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from herdcli import iterate
from herdcli.markov import algorithms
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks

BYTES = 1 << 28  # of the array that is copied
SMALL, REPEATS = 2048, 20_000  # values in the first cache, and operations on them
PAGE = """<!-- made by scripts/bench/networks/thread_speed.py -->

# Two threads of propagation

Least of {rounds} alternating rounds; the time is that of the thread with most work.

| work | one thread | two threads | times as fast |
|---|---|---|---|
{lines}
"""


def longest_way(given: network.Network, threads: int) -> float:
    """Seconds of the processor from the first message to the marginals: of what threads share, of the one that has most to do.

    On a busy machine threads wait for each other, and wall clock says nothing of them.
    """
    shared = 0.0
    with ThreadPoolExecutor(threads) as pool:

        def watched(function: Callable[..., object], *values: Iterable[object]) -> list[object]:
            nonlocal shared
            found, seconds = _shared_seconds(pool, function, *values)
            shared += seconds
            return found

        method = algorithms.make_inference_method(given, InferenceSettings(algorithm="bp", output_marginals="nodes"), watched)
        started, shared = time.thread_time(), 0.0
        method.result(iterate.run_steps(method.step, method.init(), until=method.done))
        return time.thread_time() - started + shared


def _shared_seconds(pool: ThreadPoolExecutor, function: Callable[..., object], *values: Iterable[object]) -> tuple[list[object], float]:
    """Results of a function that threads share, and the processor seconds of the thread with most work."""

    def timed(*value: object) -> tuple[object, int, float]:
        started = time.thread_time()
        return function(*value), threading.get_ident(), time.thread_time() - started

    made, spent = list(pool.map(timed, *values)), Counter[int]()
    for _, thread, seconds in made:
        spent[thread] += seconds
    return [found for found, _, _ in made], max(spent.values())


def copy_seconds(threads: int) -> float:
    """Processor seconds of the thread with most work while threads copy an array in equal parts."""
    source, target = np.ones(BYTES // 8), np.full(BYTES // 8, 2.0)  # both in memory before the clock starts
    cuts = np.linspace(0, len(source), threads + 1).astype(int)
    parts = [slice(a, b) for a, b in itertools.pairwise(cuts)]
    with ThreadPoolExecutor(threads) as pool:
        return _shared_seconds(pool, lambda part: np.copyto(target[part], source[part]), parts)[1]


def arithmetic_seconds(threads: int) -> float:
    """Processor seconds of the thread with most work while threads compute on values in the first cache."""

    def work(count: int) -> None:
        x = np.linspace(0.1, 1.0, SMALL)
        for _ in range(count):
            np.sqrt(x, out=x)

    with ThreadPoolExecutor(threads) as pool:
        return _shared_seconds(pool, work, [REPEATS // threads] * threads)[1]


def main() -> None:
    """Measure in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, default=None)
    options = parser.parse_args()
    given = random_networks.generate_random_network("grid", rows=1000, columns=1000, sigma_w=1.0, sigma_b=1.0)
    works: dict[str, Callable[[int], float]] = {
        "propagation on a 1000×1000 lattice": lambda threads: longest_way(given, threads),
        f"copy of {BYTES >> 20} MB": copy_seconds,
        "arithmetic in the first cache": arithmetic_seconds,
    }
    least = {(name, threads): float("inf") for name in works for threads in (1, 2)}
    for _ in range(options.rounds):
        for (name, threads), before in least.items():
            least[name, threads] = min(before, works[name](threads))
    lines = []
    for name in works:
        one, two = least[name, 1], least[name, 2]
        lines.append(f"| {name} | {one * 1e3:.0f} ms | {two * 1e3:.0f} ms | {one / two:.2f} |")
    page = PAGE.format(rounds=options.rounds, lines="\n".join(lines))
    print(page)
    if options.output:
        options.output.write_text(page)


if __name__ == "__main__":
    main()
