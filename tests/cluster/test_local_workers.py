"""Worker processes of this machine: what they compute arrives, and every task of a worker that ends is accounted for."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from herdcli.cluster import serialization, worker_tasks
from herdcli.cluster.cluster_spec import ClusterOptions, parse_cluster
from herdcli.cluster.distributed_rounds import distribute_blocks
from herdcli.cluster.local_workers import LocalWorkers, start_local_workers
from herdcli.cluster.startup import Cluster
from herdcli.cluster.worker_pool import WorkerPool
from herdcli.numerics.block_statistics import ArrayRows, CentredSums, RowBlocks, SquareSums, sum_statistics

ROWS = np.random.default_rng(3).normal(size=(60_000, 4))


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[LocalWorkers]:
    with start_local_workers(2, 0, str(tmp_path)) as made:
        until = time.monotonic() + 60
        while len(made.client.scheduler_info()["workers"]) < 2:
            assert time.monotonic() < until
            time.sleep(0.01)
        yield made


def pool(workers: LocalWorkers) -> tuple[WorkerPool, list[str]]:
    notes: list[str] = []
    cluster = Cluster(None, keep=workers.start_missing, client=workers.client)
    made = WorkerPool(ClusterOptions(parse_cluster("local:2")), cluster, workers.client, notes.append, notes.append)
    made.await_workers()
    return made, notes


def test_results_and_errors_of_tasks(workers):
    addresses = list(workers.client.scheduler_info()["workers"])
    assert addresses == [f"process {process.pid}" for process in workers.processes.values()]
    answers = workers.client.run(worker_tasks.result_environment)
    assert list(answers.values()) == [worker_tasks.result_environment()] * 2
    failed = workers.client.submit(worker_tasks.run_block_sums, 1)
    with pytest.raises(RuntimeError, match=r"TypeError: .*missing 3 required positional arguments"):
        failed.result()
    assert failed.status == "error"


def test_rounds_make_the_sums_of_one_process_and_large_statistics_are_sent_once(workers, monkeypatch):
    """Each worker computes several chunks."""
    monkeypatch.setattr("herdcli.cluster.local_workers.LARGE", 100)
    wide = np.random.default_rng(4).normal(size=(20_000, 40))
    sent = []
    original = type(next(iter(workers.client._workers))).send
    monkeypatch.setattr(
        "herdcli.cluster.local_workers.WorkerConnection.send", lambda self, message: (sent.append(message), original(self, message))
    )
    source = RowBlocks(ArrayRows(wide))
    statistics = SquareSums(np.ones(wide.shape[1]))
    made, _ = pool(workers)
    found = sum_statistics(distribute_blocks(source, made, 0), statistics)
    expected = sum_statistics(source, statistics)
    assert all(found[name].tobytes() == item.tobytes() for name, item in expected.items())
    tasks = [message["arguments"][1] for message in sent if message.get("function") == "run_block_sums"]
    assert [("value" in each, "again" in each) for each in tasks].count((True, False)) == 2
    assert len(tasks) == 5


@pytest.mark.parametrize("when", ["between rounds", "in a round"])
def test_a_worker_that_ends_is_replaced_and_no_row_is_lost(workers, when):
    made, notes = pool(workers)
    source = RowBlocks(ArrayRows(ROWS))
    remote = distribute_blocks(source, made, 3)
    statistics = CentredSums(np.zeros(4))
    expected = sum_statistics(source, statistics)
    sum_statistics(remote, statistics)
    victim = workers.processes[0]
    if when == "in a round":
        os.kill(victim.pid, signal.SIGSTOP)  # the tasks of the next round are sent to it, and it begins none
        remote._request_chunks(CentredSums(np.ones(4)), 0)
    victim.kill()
    victim.wait()
    found = sum_statistics(remote, CentredSums(np.ones(4)))
    assert found["rows"].tolist() == expected["rows"].tolist()
    assert all(found[name].tobytes() == item.tobytes() for name, item in sum_statistics(source, CentredSums(np.ones(4))).items())
    made.check_cluster()
    assert f"the worker process {victim.pid} was lost; other workers repeat its work" in notes


def test_a_task_whose_workers_end_again_and_again_is_an_error(workers, monkeypatch):
    monkeypatch.setattr("herdcli.cluster.local_workers.DEATHS", 1)
    for process in workers.processes.values():
        os.kill(process.pid, signal.SIGSTOP)  # they receive tasks and begin none
    task = workers.client.submit(worker_tasks.result_environment)
    for connection in workers.client._workers:
        until = time.monotonic() + 60
        while not connection.tasks:
            assert time.monotonic() < until
            time.sleep(0.01)
        connection.process.kill()
    with pytest.raises(RuntimeError, match="the workers that computed it have ended"):
        task.result()
    assert task.status == "error"


def test_a_worker_ends_with_the_command(tmp_path):
    program = (
        "import os, time\n"
        "from herdcli.cluster.local_workers import start_local_workers\n"
        f"with start_local_workers(1, 0, {str(tmp_path)!r}) as made:\n"
        "    while not made.client.scheduler_info()['workers']: time.sleep(.01)\n"
        "    print(made.processes[0].pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    pid, until = int(done.stdout), time.monotonic() + 30
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < until
        time.sleep(0.01)


def test_bytes_come_back():
    content = hashlib.sha256(b"a").digest() * 3
    assert serialization.deserialize(serialization.serialize({"made": content, "none": b""})) == {"made": content, "none": b""}
