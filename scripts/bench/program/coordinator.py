"""The coordinator of `--cluster` with imagined workers: seconds of its processor for each round, from 10 to 10,000 workers.

    python scripts bench/program/coordinator [--workers 10 100 1000 10000] [-o results/coordinator.md]

The rounds are those of the program (`herdcli.cluster.distributed_rounds`), and so are the bytes that it sends and reads.  The workers are
imagined: they answer in an order that is drawn at random, and in the last round one task in a hundred is lost together with its worker.
Statistics of 1 MB are asked of four chunks per worker; the answers are small, and made beforehand.
The sums are compared with the number of blocks, so no chunk is lost or counted twice.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from herdcli.cluster import serialization
from herdcli.cluster.block_chunks import compute_chunk_sums
from herdcli.cluster.distributed_rounds import RemoteBlocks
from herdcli.numerics.block_statistics import RowBlock, SquareSums, sum_statistics

CHUNKS_PER_WORKER = 4
BLOCKS_PER_CHUNK = 4
LOST_SHARE = 0.01


@dataclass
class Blocks:
    """A source of blocks of one row."""

    count: int

    def take(self, first: int, last: int) -> Iterator[RowBlock]:
        for number in range(first, min(last, self.count)):
            yield RowBlock(number, np.array([[float(number)]]))


@dataclass(eq=False)
class Task:
    """A task or a stored value: when it ends, and its answer, None if it was lost."""

    when: float
    number: int
    value: Any
    status: str = "finished"

    def __lt__(self, other: Task) -> bool:
        return (self.when, self.number) < (other.when, other.number)


class ImaginedWorkers:
    """Workers that answer in an order drawn at random."""

    wanted: dict[str, str] = {}  # noqa: RUF012  (an attribute of the pool that it stands for)
    shares_values = True
    count_seconds = staticmethod(nullcontext)

    def __init__(self, count: int, seed: int = 0) -> None:
        self.addresses = [f"tcp://10.0.{number // 250}.{number % 250}:40000" for number in range(count)]
        random, tasks = np.random.default_rng(seed), 4 * count * CHUNKS_PER_WORKER
        self.delays, self.draws = iter(random.exponential(size=tasks).tolist()), iter(random.random(tasks).tolist())
        self.tasks, self.now, self.submitted, self.lost_share = list[Task](), 0.0, 0, 0.0
        blocks = [RowBlock(number, np.ones((1, 1))) for number in range(BLOCKS_PER_CHUNK)]
        self.answers = {"sums": serialization.serialize(compute_chunk_sums(blocks, SquareSums(np.zeros(1)), 0))}

    def wait_for_workers(self) -> list[str]:
        return self.addresses

    def store_on_worker(self, value: Any, address: str) -> Task:
        return Task(0.0, 0, value)

    def submit(self, function: Any, rows: Any, asked: Any, skipped: int, wanted: Any, *, workers: list[str], **how: Any) -> Task:
        self.submitted += 1
        task = Task(self.now + next(self.delays), self.submitted, self.answers)
        if next(self.draws) < self.lost_share and len(self.addresses) > 1:
            task.value, task.status = None, "lost"
            self.addresses = [address for address in self.addresses if address != workers[0]]
        heapq.heappush(self.tasks, task)
        return task

    def wait(self) -> Task:
        task = heapq.heappop(self.tasks)
        self.now = task.when
        return task

    def task_result(self, task: Task) -> Any:
        return task.value


def time_rounds(workers: int, megabytes: float = 1.0) -> dict[str, float]:
    """The coordinator's seconds in the first round, in a later one, and in one that loses workers."""
    source, farm = Blocks(workers * CHUNKS_PER_WORKER * BLOCKS_PER_CHUNK), ImaginedWorkers(workers)
    rounds = RemoteBlocks(source, farm, BLOCKS_PER_CHUNK, retries=0)  # type: ignore[arg-type]
    found: dict[str, float] = {"workers": workers, "chunks": workers * CHUNKS_PER_WORKER}
    for number, name in enumerate(("first", "later", "with losses")):
        farm.lost_share = LOST_SHARE if name == "with losses" else 0.0
        statistics = SquareSums(np.full(int(megabytes * 2**17), float(number)))
        began = time.process_time()
        total = sum_statistics(rounds, statistics)["rows"][0]
        found[name] = time.process_time() - began
        if total != source.count:
            raise SystemExit(f"{total:g} blocks were counted of {source.count}")
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", type=int, nargs="*", default=[10, 100, 1000, 10_000])
    options.add_argument("-o", "--output", type=Path)
    given = options.parse_args()
    lines = [
        "| workers | chunks | first round, s | later round, s | round that loses workers, s |",
        "|---|---|---|---|---|",
    ]
    print(*lines, sep="\n", flush=True)
    for workers in given.workers:
        row = time_rounds(workers)
        figures = " | ".join(f"{row[name]:.3f}" for name in ("first", "later", "with losses"))
        lines.append(f"| {workers:,} | {int(row['chunks']):,} | {figures} |")
        print(lines[-1], flush=True)
    if given.output:
        head = """# The coordinator with imagined workers

`python scripts bench/program/coordinator` counts the seconds of the coordinator's processor in rounds of `--cluster`, with statistics of
1 MB and four chunks per worker. The workers are imagined, the rounds are the program's. In the last column one task in a hundred is lost
with its worker.

"""
        given.output.write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
