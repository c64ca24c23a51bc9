"""Iterated work on rows: workers keep blocks of them, and each round sends parameters and adds statistics in the fixed tree.

A chunk is 2^k neighbouring blocks, which one worker keeps; it adds their statistics as the tree does, and sends one entry of it.  What a
worker kept and took with it is sent to another from the rows here, so that rounds lose and count nothing twice.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import field
from typing import Any

import numpy as np

from herdcli.cluster import serialization, worker_tasks
from herdcli.cluster.worker_pool import WorkerPool, refuse_differences
from herdcli.errors import HerdError, Unavailable
from herdcli.numerics.block_statistics import BlockSource, RemoteSource, Statistics, Sums
from herdcli.records import dataclass

CHUNK = 64  # blocks at most
ROOM = 1 << 27  # bytes of a chunk at most, where a block is not more: they are put together here, and travel as one
SHARED = 1 << 16  # bytes of statistics from which on blocks are not sent them one by one
EACH = 4  # chunks of a worker at least, where there are as many blocks: so the last ones to come in are few


@dataclass
class RemoteBlocks(RemoteSource):
    """The blocks of a source on the workers of a farm, as a `numerics.block_statistics.RemoteSource`."""

    source: BlockSource
    farm: WorkerPool
    size: int  # blocks of a chunk
    retries: int
    kept: dict[int, Any] = field(default_factory=dict)  # chunk -> its rows, with a worker
    owner: dict[int, str] = field(default_factory=dict)
    round: str = ""  # the digest of the statistics that are asked for
    out: dict[Any, tuple[int, str]] = field(default_factory=dict)  # task -> chunk, round
    found: dict[int, list[tuple[int, Sums]]] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)  # chunks that are under way in this round, or found and not yet taken
    failures: Counter[int] = field(default_factory=Counter)
    asked: bytes = b""
    shared: Any = None  # the same with a worker, whom others have it from

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return self.source.count

    def take(self, first: int, last: int) -> Any:
        """Blocks first … last − 1, for whoever needs rows here."""
        return self.source.take(first, last)

    def sums(self, statistics: Statistics, first: int) -> list[tuple[int, Sums]]:
        """The entries of the tree of the rest of the chunk that `first` is in."""
        asked = serialization.serialize(statistics)
        digest = hashlib.sha256(asked).hexdigest()
        if digest != self.round:
            self.round, self.asked = digest, asked
            self._drop_pending()
        wanted = range(first // self.size, -(-self.count // self.size))
        for chunk in wanted:
            if chunk not in self.begun:
                self.begun.add(chunk)
                self._submit(chunk, max(0, first - chunk * self.size))
        while wanted[0] not in self.found:
            self._receive_result(self.farm.wait(), first)
        self.begun.discard(wanted[0])
        return self.found.pop(wanted[0])

    def _drop_pending(self) -> None:
        """Give up what was asked in the round before and has not come in, as where a step was too long."""
        self.found.clear()
        self.out.clear()
        self.begun.clear()
        self.shared = None

    def _submit(self, chunk: int, skipped: int) -> None:
        rows = self._with_a_worker(chunk)
        asked, own = self._statistics_request(chunk), [self.owner[chunk]]
        future = self.farm.submit(worker_tasks.block_sums, rows, asked, skipped, self.farm.wanted, workers=own, allow_other_workers=True)
        self.out[future] = chunk, self.round

    def _statistics_request(self, chunk: int) -> Any:
        """The statistics as bytes; where those are many, a copy that leaves this process once a round, and again where it was lost.

        Workers have it from one another, so that it need not come from here with every block.
        """
        if len(self.asked) < SHARED:
            return self.asked
        if self.shared is None or self.shared.status != "finished":
            self.shared = self.farm.kept(self.asked, self.owner[chunk])
        return self.asked if self.shared is None else self.shared

    def _with_a_worker(self, chunk: int) -> Any:
        """The rows of a chunk, with the worker that has the fewest where nobody has them."""
        held = self.kept.get(chunk)
        if held is not None and held.status == "finished":
            return held
        first = chunk * self.size
        rows = serialization.serialize(list(self.source.take(first, min(first + self.size, self.count))))
        held = None
        while held is None:
            load = Counter(self.owner[other] for other in self.kept if other != chunk)
            self.owner[chunk] = min(self.farm.some(), key=lambda address: (load[address], address))
            held = self.farm.kept(rows, self.owner[chunk])
        self.kept[chunk] = held
        return held

    def _receive_result(self, future: Any, first: int) -> None:
        """What a task found; its chunk is asked for again where a worker was lost."""
        known = self.out.pop(future, None) if future is not None else None
        if known is None:
            return
        chunk, asked = known
        if asked != self.round:
            return
        reply = self.farm.answer(future)
        if reply is not None and "sums" in reply:
            self.found[chunk] = [(size, sums) for size, sums in serialization.deserialize(reply["sums"])]
            return
        if reply is None:
            self.kept.pop(chunk, None)  # it may have gone with the answer
            self.shared = None
            reply = {"failed": "the workers that had it ended"} if future.status == "error" else None
        if reply is not None:
            self._raise_failure(chunk, reply)
        self._submit(chunk, max(0, first - chunk * self.size))

    def _raise_failure(self, chunk: int, reply: dict[str, Any]) -> None:
        """Raise what went wrong, unless it may be tried again."""
        if "differs" in reply:
            refuse_differences("that came last", reply["differs"])
        if "singular" in reply:
            raise np.linalg.LinAlgError(reply["singular"])
        if "error" in reply:
            raise error_from_reply(reply)
        self.failures[chunk] += 1
        if self.failures[chunk] > self.retries:
            raise Unavailable(f"block {chunk * self.size} failed too often: {reply['failed']}", hint="--retries N tries more often")


@dataclass
class TransientBlocks(RemoteBlocks):
    """Blocks that are of one round alone: they go out with what is asked of them, each by itself, and no worker keeps them."""

    def _with_a_worker(self, chunk: int) -> Any:
        """The rows of a block, as bytes, for one worker after another."""
        here = sorted(self.farm.some())
        self.owner[chunk] = here[chunk % len(here)]
        return serialization.serialize(list(self.source.take(chunk, chunk + 1)))


def error_from_reply(reply: dict[str, Any]) -> HerdError:
    """What a worker ended with, as if it had been here."""
    from herdcli import errors

    made: HerdError = getattr(errors, reply["error"], HerdError)(reply["message"], where=reply["where"], hint=reply["hint"])
    return made


def chunk_size(blocks: int, workers: int, bytes: int) -> int:
    """Blocks, of so many bytes each, of a chunk: a power of two, of which every worker gets some."""
    size = CHUNK
    while size > 1 and (blocks < size * workers * EACH or size * bytes > ROOM):
        size //= 2
    return size


def distribute_blocks(source: BlockSource, pool: WorkerPool, retries: int, *, passing: bool = False) -> RemoteBlocks:
    """The blocks of a source, to be kept by workers once they are asked for; passing: its blocks are others in each round."""
    if passing:
        return TransientBlocks(source, pool, 1, retries)
    block = len(serialization.serialize(list(source.take(0, 1))))
    return RemoteBlocks(source, pool, chunk_size(source.count, len(pool.workers()), block), retries)
