"""What a cluster can be wrong with, told in a line, with a stand-in for Dask's client: nothing of Dask is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import CancelledError

import numpy as np
import pytest

from herdcli.cluster import distributed_rounds, packed_commands, serialization, worker_pool, worker_tasks
from herdcli.cluster.cluster_spec import ClusterAddress, ClusterOptions
from herdcli.cluster.distributed_rounds import distribute_blocks
from herdcli.cluster.startup import Cluster
from herdcli.cluster.worker_pool import WorkerPool, require_same_environment
from herdcli.errors import BadUsage, DataError, HerdError, NoInput, Unavailable
from herdcli.numerics.block_statistics import ArrayRows, CentredSums, RowBlocks, SquareSums, sum_statistics


class Future:
    """A task that ended at once, or what was scattered."""

    def __init__(self, value: object, status: str = "finished") -> None:
        self.value, self.status = value, status

    def result(self) -> object:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    def add_done_callback(self, done) -> None:
        done(self)


class Client:
    """Workers at some addresses, of which every task runs here; `answers` in the place of what they would have said."""

    status = "running"

    def __init__(self, *addresses: str, answers=(), scattered=()) -> None:
        self.addresses, self.answers, self.scattered, self.given = list(addresses), list(answers), list(scattered), 0
        self.sent: list[object] = []
        self.told = 0  # bytes that went with tasks

    def scheduler_info(self, n_workers: int) -> dict[str, object]:
        return {"workers": dict.fromkeys(self.addresses)}

    def scatter(self, value: object, **how: object) -> Future:
        if self.scattered:
            raise self.scattered.pop(0)
        self.sent.append(value)
        return Future(value)

    def submit(self, function, *values: object, **how: object) -> Future:
        self.given += 1
        self.told += sum(len(value) for value in values if isinstance(value, bytes))
        if self.answers:
            answer = self.answers.pop(0)
            return Future(answer, "error" if answer is None else "finished")
        return Future(function(*(value.value if isinstance(value, Future) else value for value in values)))

    def run(self, function, *values: object, on_error: str) -> dict[str, object]:
        return {address: function(*values) for address in self.addresses}


def farm(client: Client, where: ClusterAddress = ClusterAddress("slurm", 4), **settings: str) -> tuple[WorkerPool, list[str]]:  # noqa: B008
    told: list[str] = []
    return WorkerPool(ClusterOptions(where, tuple(settings.items())), Cluster(None), client, told.append, told.append), told


def ended(error: HerdError) -> tuple[int, str, str | None]:
    return error.exit_code, error.message, error.hint


def test_a_cluster_smaller_than_asked_is_told_and_used():
    made, told = farm(Client("tcp://a:1"), wait="0.1")
    made.await_workers()
    assert told == ["only 1 of the 4 workers of --cluster slurm:4 started; the run continues with them"]
    assert made.known == {"tcp://a:1"}


def test_a_queue_from_which_nobody_comes():
    made, _ = farm(Client(), wait="0.1")
    with pytest.raises(Unavailable) as error:
        made.await_workers()
    hint = "if its jobs wait in the queue: --cluster-option wait=SECONDS"
    assert ended(error.value) == (75, "--cluster slurm:4 has no workers", hint)


@pytest.mark.parametrize("what", ["herd", "NumPy", "SciPy"])
def test_workers_of_another_version_are_named(what, monkeypatch):
    made, _ = farm(Client("tcp://a:1"))
    other = worker_tasks.result_environment() | {what: "0.0.9"}
    monkeypatch.setattr(worker_tasks, "result_environment", lambda: other)
    wanted = worker_tasks.result_environment() | {what: "1.2.3"}
    monkeypatch.setattr(WorkerPool, "wanted", property(lambda self: wanted))
    with pytest.raises(BadUsage) as error:
        made.require_same_environments()
    message = f"the worker tcp://a:1 differs from this machine: {what} 0.0.9, here 1.2.3"
    assert ended(error.value) == (2, message, "install the same versions on all machines")


def test_a_worker_of_another_processor_has_three_ways_out():
    with pytest.raises(BadUsage) as error:
        require_same_environment("tcp://a:1", {"BLAS": ["Nehalem", "Zen"]})
    hint = "allow it with --mixed, compute the same bytes with --exact, or set OPENBLAS_CORETYPE to one kernel"
    assert ended(error.value) == (2, "the worker tcp://a:1 differs from this machine: BLAS Nehalem, here Zen", hint)


def test_what_workers_do_not_see_and_cannot_be_sent(tmp_path, monkeypatch):
    (tmp_path / "rows.h5").write_bytes(b"twelve bytes")
    words, hint = packed_commands.PackedCommand(["fit-rbm"]), "put it on a disk that all workers share, or give a file"
    words.add(str(tmp_path), None)
    with pytest.raises(NoInput) as error:
        words.send_files(farm(Client())[0])
    assert ended(error.value) == (66, "is a folder that some workers cannot read", hint)
    words = packed_commands.PackedCommand(["fit-rbm"])
    words.add(str(tmp_path / "rows.h5"), None)
    monkeypatch.setattr(packed_commands, "MOST_SENT", 11)
    with pytest.raises(NoInput) as error:
        words.send_files(farm(Client())[0])
    assert ended(error.value) == (
        66,
        "is too large to send to the workers, and some of them cannot read it",
        "put it on a disk that all workers share",
    )
    assert error.value.where == str(tmp_path / "rows.h5")


def test_an_input_that_changed_is_not_sent(tmp_path):
    path = tmp_path / "rows.h5"
    path.write_bytes(b"as it was")
    words = packed_commands.PackedCommand(["fit-rbm"])
    words.add(str(path), None)
    path.write_bytes(b"another!!")
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError) as error:
        words.send_files(farm(Client())[0])
    assert ended(error.value) == (65, "the file changed during the run", "run it again")


X = np.random.default_rng(0).normal(size=(4096 * 5 + 7, 2))
SOURCE, STATISTICS = RowBlocks(ArrayRows(X)), CentredSums(np.zeros(2))


def test_rounds_go_on_where_workers_were_lost():
    """Of some tasks nothing came: they are asked for again, and the sums are those of one process."""
    answers = [None, {"failed": "OSError: disk full"}, CancelledError("already forgotten"), OSError("connection reset")]
    client = Client("tcp://a:1", "tcp://b:1", answers=answers, scattered=[OSError("closed"), CancelledError()])
    made, _ = farm(client)
    assert serialization.serialize(sum_statistics(distribute_blocks(SOURCE, made, 3), STATISTICS)) == serialization.serialize(
        sum_statistics(SOURCE, STATISTICS)
    )
    assert client.given == SOURCE.count + 4


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_large_statistics_leave_once_a_round(lost, monkeypatch):
    """A copy goes to one worker, whom the others have it from; where that was lost, another one goes."""
    statistics = SquareSums(np.zeros(2))
    monkeypatch.setattr(distributed_rounds, "SHARED", len(serialization.serialize(statistics)))
    client = Client("tcp://a:1", "tcp://b:1", answers=[None] if lost else [])
    made, _ = farm(client)
    there = distribute_blocks(SOURCE, made, 3)
    assert serialization.serialize(sum_statistics(there, statistics)) == serialization.serialize(sum_statistics(SOURCE, statistics))
    asked = serialization.serialize(statistics)
    assert client.told == 0
    assert client.sent.count(asked) == 1 + lost
    assert client.given == SOURCE.count + lost
    sum_statistics(there, SquareSums(np.ones(2)))  # the next round
    assert client.sent.count(serialization.serialize(SquareSums(np.ones(2)))) == 1


def test_rounds_wait_for_workers_that_are_begun_anew():
    client = Client()
    made, _ = farm(client, wait="60")

    def keep() -> int:
        client.addresses = ["tcp://c:1"]
        return 1

    made.made = Cluster(None, keep=keep)
    assert serialization.serialize(sum_statistics(distribute_blocks(SOURCE, made, 0), STATISTICS)) == serialization.serialize(
        sum_statistics(SOURCE, STATISTICS)
    )


def test_a_block_of_which_workers_die_again_and_again_ends_the_run():
    with pytest.raises(Unavailable) as error:
        sum_statistics(distribute_blocks(SOURCE, farm(Client("tcp://a:1", answers=[None] * 60))[0], 2), STATISTICS)
    assert ended(error.value)[0::2] == (75, "allow more attempts: --retries N")
    assert error.value.message.endswith("failed too often: the workers that computed it have ended")


def test_a_block_that_fails_again_and_again_ends_the_run():
    client = Client("tcp://a:1", answers=[{"failed": "OSError: disk full"}] * 60)
    with pytest.raises(Unavailable) as error:
        sum_statistics(distribute_blocks(SOURCE, farm(client)[0], 2), STATISTICS)
    assert ended(error.value)[0::2] == (75, "allow more attempts: --retries N")
    assert error.value.message.endswith("failed too often: OSError: disk full")


def test_rounds_without_workers_end():
    with pytest.raises(Unavailable) as error:
        sum_statistics(distribute_blocks(SOURCE, farm(Client(), wait="0.1")[0], 2), STATISTICS)
    assert ended(error.value)[:2] == (75, "--cluster slurm:4 has no workers left")


def test_what_is_wrong_with_rows_is_told_as_if_it_had_been_here():
    answer = {"error": "DataError", "message": "row 7 is impossible", "hint": "a --floor", "where": None}
    with pytest.raises(DataError) as error:
        sum_statistics(distribute_blocks(SOURCE, farm(Client("tcp://a:1", answers=[answer]))[0], 2), STATISTICS)
    assert ended(error.value) == (65, "row 7 is impossible", "a --floor")


@pytest.mark.parametrize(
    ("distributed", "message"),
    [
        (3.0, "the workers took 0.5 s to start and 3.0 s for 3.4 s of work; without --cluster this run is faster"),
        (2.5, None),
    ],
)
def test_it_is_reported_that_one_process_is_faster(distributed, message):
    """One process needs the seconds of the tasks, one after another; its own work is the same with and without workers."""
    said = []
    worker_pool._report_if_one_process_is_faster(said.append, 0.5, distributed, 3.4)
    assert said == ([] if message is None else [message])


def test_seconds_of_tasks_and_of_their_distribution_are_counted():
    made, _ = farm(Client("tcp://a:1", "tcp://b:1"))
    source = RowBlocks(ArrayRows(np.random.default_rng(1).normal(size=(40_000, 30))))
    sum_statistics(distribute_blocks(source, made, 0), CentredSums(np.zeros(30)))
    assert 0 < made.task_seconds < made.distributed_seconds  # tasks of the stand-in for a client run while it is asked


@pytest.mark.parametrize(
    ("blocks", "workers", "block_bytes", "expected"),
    [(25, 2, 1_600_000, 4), (25, 2, 10_000_000, 2), (1000, 2, 1_600_000, 64), (1000, 2, 10_000_000, 8), (3, 2, 1_000, 1)],
)
def test_small_chunks_are_fewer(blocks, workers, block_bytes, expected):
    assert distributed_rounds.choose_chunk_size(blocks, workers, block_bytes) == expected


def test_the_blas_of_scipy_is_reported_without_its_modules():
    program = "from herdcli.cluster.worker_tasks import result_environment; print(result_environment())"
    short, long = (
        subprocess.run([sys.executable, "-c", each], capture_output=True, text=True, check=True).stdout
        for each in (program, "import scipy.linalg; " + program)
    )
    assert short == long
    assert "openblas" in short or "scipy.libs" not in os.listdir(os.path.dirname(os.path.dirname(np.__file__)))
