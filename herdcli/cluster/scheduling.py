"""Scheduling of units of work on the workers of a cluster, as an algorithm; each step waits for one shard.

Every shard is the command itself under --shard, so that the workers' results and the input of `herd merge` are the same bytes.  The
state holds each finished shard once, no matter which worker computed it and how often it was started.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.cluster import worker_tasks
from herdcli.cluster.distributed_rounds import make_reported_error
from herdcli.cluster.packed_commands import PackedCommand
from herdcli.cluster.worker_pool import WorkerPool, require_same_environment
from herdcli.errors import Unavailable
from herdcli.iterate import is_stop_requested
from herdcli.records import dataclass
from herdcli.schema import Array

if TYPE_CHECKING:
    from distributed import Future

LEAST, EACH = 32, 4  # shards of a run with many units, at least, and shards per worker if there are many workers: a lost shard costs little
AT_ONCE = 3  # shards assigned to a worker, which computes one at a time


@dataclass
class SchedulingState:
    """The finished shards, in the order of their arrival: their numbers from 0 and their bytes."""

    step: int
    count: int  # number of all shards
    number: list[int] = field(default_factory=list)
    made: list[Array] = field(default_factory=list)  # uint8


@dataclass(frozen=True)
class ShardScheduling:
    """`count` shards on the workers of a cluster; a resumed run keeps the number of shards that it started with."""

    count: int
    farm: WorkerPool
    program: str  # the group of commands, as module:name
    words: PackedCommand
    retries: int
    out: dict[Future, int] = field(default_factory=dict)  # tasks and the shards that they compute
    failures: dict[int, int] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)
    state = SchedulingState  # the type of its states

    def init(self) -> SchedulingState:
        """Return the state in which no shard is finished."""
        return SchedulingState(0, self.count)

    like = init

    def memory(self) -> int:
        """Return the memory for the shards, whose size is not known in advance."""
        return 0

    def done(self, state: SchedulingState) -> bool:
        """Return whether all shards are finished."""
        return state.step >= state.count

    def step(self, state: SchedulingState) -> SchedulingState:
        """Wait until a shard is finished."""
        with self.farm.count_seconds():
            return self._await_shard(state)

    def _await_shard(self, state: SchedulingState) -> SchedulingState:
        self._assign_shards(state)
        while not is_stop_requested():
            future = self.farm.wait()
            if future is None:
                self._assign_shards(state)
                continue
            number = self.out.pop(future, None)
            if number is not None and (made := self._receive_shard(future, number)) is not None:
                return SchedulingState(state.step + 1, state.count, [*state.number, number], [*state.made, made])
            self._assign_shards(state)
        return state

    def _assign_shards(self, state: SchedulingState) -> None:
        """Submit shards that are neither finished nor running, a few for each worker."""
        if not self.farm.is_connected:
            return
        room = AT_ONCE * max(1, len(self.farm.workers())) - len(self.out)
        taken = {*state.number, *self.out.values()}
        for number in [number for number in range(state.count) if number not in taken][: max(0, room)]:
            self._submit_shard(number, state.count)

    def _submit_shard(self, number: int, count: int) -> None:
        place = f"{number + 1}/{count}"
        sent = self.words.files_on_workers(self.farm)
        future = self.farm.submit(worker_tasks.run_shard, self.farm.run, self.program, self.words.words, place, self.farm.wanted, sent)
        self.out[future] = number

    def _receive_shard(self, future: Future, number: int) -> Array | None:
        """Return the bytes of a shard, or None if it has to be computed again.  Raises errors that another attempt cannot fix."""
        if future.status == "error":
            self._reschedule_shard(number, "the workers that computed it have ended")
            return None
        reply = self.farm.task_result(future)
        if reply is None:  # or the only holder of a file that was sent is lost
            return None
        if "made" in reply:
            self.warned.extend(reply["warned"])
            return np.frombuffer(reply["made"], dtype=np.uint8)
        if "differs" in reply:
            require_same_environment("that came last", reply["differs"])
        if "unseen" in reply:
            self.words.send_files(self.farm)
            return None
        if "error" in reply:
            raise make_reported_error(reply)
        self._reschedule_shard(number, reply.get("failed", "its worker was stopped"))
        return None

    def _reschedule_shard(self, number: int, why: str) -> None:
        """Let a shard be computed again.  Raises Unavailable if it failed too often."""
        self.failures[number] = self.failures.get(number, 0) + 1
        if self.failures[number] > self.retries:
            times = f"{self.failures[number]} times" if self.retries else "once"
            raise Unavailable(f"shard {number + 1} failed {times}: {why}", hint="allow more attempts: --retries N")
        self.farm.note(f"shard {number + 1} is repeated: {why}")

    def progress(self, state: SchedulingState) -> RunProgress:
        """Return the number of finished shards."""
        return RunProgress(state.step, state.count, f"{len(self.farm.workers())} workers")

    def result(self, state: SchedulingState) -> list[bytes]:
        """Return the bytes of all shards in order."""
        order = np.argsort(state.number)
        return [state.made[place].tobytes() for place in order]


def choose_shard_count(units: int, workers: int) -> int:
    """Return the number of shards of a run: one per unit, or fewer if there are many units, because each shard repeats the preparation."""
    return min(units, max(LEAST, EACH * workers))
