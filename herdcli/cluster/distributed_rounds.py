"""Iterations over rows on a cluster: workers keep blocks of rows, and each round sends parameters and adds statistics in a fixed tree.

A chunk is 2^k neighbouring blocks, kept by one worker.  The worker adds their statistics in tree order and sends one entry of it.
If a worker is lost, this process sends the rows of its chunks to another worker.  So no round loses a block or counts it twice.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from dataclasses import field, fields
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cluster import serialization, worker_tasks
from herdcli.cluster.worker_pool import WorkerPool, require_same_environment
from herdcli.cluster.worker_tasks import Reply
from herdcli.errors import HerdError, Unavailable
from herdcli.numerics.block_statistics import Block, BlockSource, BlockStatistics, RemoteSource, Sums
from herdcli.records import dataclass

if TYPE_CHECKING:
    from distributed import Future

CHUNK = 64  # most blocks in a chunk
ROOM = 1 << 27  # most bytes in a chunk, unless one block is larger: its blocks are put together here and sent as one
SHARED = 1 << 16  # statistics of this many bytes are not sent separately for each block
EACH = 4  # least chunks per worker, if there are enough blocks: then few chunks remain at the end of a round
FAST, EACH_FAST = 1 << 24, 2  # the same for chunks of at most FAST bytes, which take less time than Dask needs for more of them


@dataclass
class RemoteBlocks(RemoteSource):
    """The blocks of a source on the workers of a cluster, as a `numerics.block_statistics.RemoteSource`."""

    source: BlockSource
    farm: WorkerPool
    size: int  # number of blocks in a chunk
    retries: int
    kept: dict[int, Future] = field(default_factory=dict)  # chunk -> its rows on a worker
    owner: dict[int, str] = field(default_factory=dict)  # chunk -> the address of its worker
    round: str = ""  # the digest of the requested statistics
    out: dict[Future, tuple[int, str]] = field(default_factory=dict)  # task -> chunk, round
    found: dict[int, list[tuple[int, Sums]]] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)  # chunks of this round that are being computed, or whose sums are not yet returned
    failures: Counter[int] = field(default_factory=Counter)
    statistics: BlockStatistics | None = None  # the requested statistics, and as bytes
    asked: bytes = b""
    shared: Future | None = None  # a copy of `asked` on a worker, from which the other workers fetch it
    here: list[str] = field(default_factory=list)  # the workers in `least_loaded`
    least_loaded: list[tuple[int, str]] = field(default_factory=list)  # a heap of numbers of chunks and the workers that keep them

    @property
    def count(self) -> int:
        """The number of blocks."""
        return self.source.count

    def take(self, first: int, last: int) -> Block:
        """Return the blocks first … last − 1 in this process."""
        return self.source.take(first, last)

    def sums(self, statistics: BlockStatistics, first: int) -> list[tuple[int, Sums]]:
        """Return the entries of the tree for the rest of the chunk that contains block `first`."""
        chunk = first // self.size
        with self.farm.count_seconds():
            if chunk not in self.begun or not has_same_fields(statistics, self.statistics):
                self._request_chunks(statistics, first)
            while chunk not in self.found:
                self._receive_result(self.farm.wait(), first)
        self.begun.discard(chunk)
        return self.found.pop(chunk)

    def _request_chunks(self, statistics: BlockStatistics, first: int) -> None:
        """Request the statistics of the chunks from block `first` on, once per round: to pack and hash them for each chunk is slow."""
        asked = serialization.serialize(statistics)
        digest = hashlib.sha256(asked).hexdigest()
        if digest != self.round:
            self.round, self.asked = digest, asked
            self._drop_pending()
        self.statistics = statistics
        for chunk in range(first // self.size, -(-self.count // self.size)):
            if chunk not in self.begun:
                self.begun.add(chunk)
                self._submit_chunk(chunk, max(0, first - chunk * self.size))

    def _drop_pending(self) -> None:
        """Drop the pending tasks of the previous round, for instance after a step that was too long."""
        self.found.clear()
        self.out.clear()
        self.begun.clear()
        self.shared = None

    def _submit_chunk(self, chunk: int, skipped: int) -> None:
        rows = self._place_on_worker(chunk)
        asked, own = self._statistics_request(chunk), [self.owner[chunk]]
        future = self.farm.submit(
            worker_tasks.run_block_sums, rows, asked, skipped, self.farm.wanted, workers=own, allow_other_workers=True
        )
        self.out[future] = chunk, self.round

    def _statistics_request(self, chunk: int) -> Future | bytes:
        """Return the statistics as bytes; if they are large and workers are connected to one another, return a copy on a worker.

        The copy is sent once per round, and again if it is lost.
        Workers fetch the copy from one another, so that this process does not send it with every block.
        """
        if len(self.asked) < SHARED or not self.farm.shares_values:
            return self.asked
        if self.shared is None or self.shared.status != "finished":
            self.shared = self.farm.store_on_worker(self.asked, self.owner[chunk])
        return self.asked if self.shared is None else self.shared

    def _place_on_worker(self, chunk: int) -> Future | bytes:
        """Return the rows of a chunk on a worker; if no worker has them, send them to the worker with the fewest chunks."""
        held = self.kept.get(chunk)
        if held is not None and held.status == "finished":
            return held
        first = chunk * self.size
        rows = serialization.serialize(list(self.source.take(first, min(first + self.size, self.count))))
        self.kept.pop(chunk, None)
        held = None
        while held is None:
            self.owner[chunk] = self._choose_worker()
            held = self.farm.store_on_worker(rows, self.owner[chunk])
        self.kept[chunk] = held
        return held

    def _choose_worker(self) -> str:
        """Return the worker with the fewest chunks."""
        here = self.farm.wait_for_workers()
        if here is not self.here:  # the list is a new one whenever the workers may have changed
            load = Counter(self.owner[chunk] for chunk in self.kept)
            self.here, self.least_loaded = here, [(load[address], address) for address in here]
            heapq.heapify(self.least_loaded)
        chunks, address = self.least_loaded[0]
        heapq.heapreplace(self.least_loaded, (chunks + 1, address))
        return address

    def _receive_result(self, future: Future, first: int) -> None:
        """Store the result of a task; request the chunk again if its worker was lost."""
        known = self.out.pop(future, None) if future is not None else None
        if known is None:
            return
        chunk, asked = known
        if asked != self.round:
            return
        reply = self.farm.task_result(future)
        if reply is not None and "sums" in reply:
            self.found[chunk] = [(size, sums) for size, sums in serialization.deserialize(reply["sums"])]
            return
        if reply is None:
            self.kept.pop(chunk, None)  # the rows may be lost together with the answer
            self.shared = None
            reply = {"failed": "the workers that computed it have ended"} if future.status == "error" else None
        if reply is not None:
            self._raise_unless_retried(chunk, reply)
        self._submit_chunk(chunk, max(0, first - chunk * self.size))

    def _raise_unless_retried(self, chunk: int, reply: Reply) -> None:
        """Raise the error of a task, unless the task may be retried."""
        if "differs" in reply:
            require_same_environment("that came last", reply["differs"])
        if "singular" in reply:
            raise np.linalg.LinAlgError(reply["singular"])
        if "error" in reply:
            raise make_reported_error(reply)
        self.failures[chunk] += 1
        if self.failures[chunk] > self.retries:
            raise Unavailable(f"block {chunk * self.size} failed too often: {reply['failed']}", hint="allow more attempts: --retries N")


@dataclass
class TransientBlocks(RemoteBlocks):
    """Blocks that exist for one round only: each is sent with its request, and no worker keeps them."""

    def _place_on_worker(self, chunk: int) -> Future | bytes:
        """Return the rows of a block as bytes; blocks go to the workers in turn."""
        here = self.farm.wait_for_workers()
        if here is not self.here:
            self.here, self.least_loaded = here, [(0, address) for address in sorted(here)]
        self.owner[chunk] = self.least_loaded[chunk % len(here)][1]
        return serialization.serialize(list(self.source.take(chunk, chunk + 1)))


def has_same_fields(one: BlockStatistics, other: BlockStatistics | None) -> bool:
    """Return whether two statistics hold the same objects, without looking at entries of arrays."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    pairs = ((getattr(one, each.name), getattr(other, each.name)) for each in fields(one))  # type: ignore[arg-type]
    return all(left is right or (isinstance(left, (int, float, str)) and left == right) for left, right in pairs)


def make_reported_error(reply: Reply) -> HerdError:
    """Return the error that a worker reported, as if it had been raised here."""
    from herdcli import errors

    made: HerdError = getattr(errors, reply["error"], HerdError)(reply["message"], where=reply["where"], hint=reply["hint"])
    return made


def choose_chunk_size(blocks: int, workers: int, block_bytes: int) -> int:
    """Return the number of blocks in a chunk, for blocks of `block_bytes` bytes: a power of two that leaves some chunks for every
    worker."""
    size = CHUNK
    while size > 1 and (blocks < size * workers * (EACH if size * block_bytes > FAST else EACH_FAST) or size * block_bytes > ROOM):
        size //= 2
    return size


def distribute_blocks(source: BlockSource, pool: WorkerPool, retries: int, *, transient: bool = False) -> RemoteBlocks:
    """Return the blocks of a source for use on workers, which keep them after the first request.

    transient  the blocks are different in each round.
    """
    if transient:
        return TransientBlocks(source, pool, 1, retries)
    block = len(serialization.serialize(list(source.take(0, 1))))
    return RemoteBlocks(source, pool, choose_chunk_size(source.count, len(pool.workers()), block), retries)
