"""Worker processes of this machine, which talk to the command through pipes; no other process can reach them, and they need no Dask.

`LocalClient` has the methods of Dask's `Client` that `WorkerPool` uses.  A message is its length in 8 bytes and a value of `serialization`.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import IO, Any

from herdcli.cluster import serialization
from herdcli.records import dataclass

LENGTH = struct.Struct("<q")
LARGE = 1 << 16  # an argument of this many bytes is not sent to a worker twice in succession
DEATHS = 3  # workers that may end while they compute a task that any worker can take; one more is an error of the task


def write_message(stream: IO[bytes], value: object) -> None:
    """Write a value and its length.  Raises OSError if the other process has ended."""
    content = serialization.serialize(value)
    stream.write(LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def read_message(stream: IO[bytes]) -> Any:
    """Return the next value; raises EOFError if the other process has ended."""
    head = stream.read(LENGTH.size)
    content = stream.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
    if not content:
        raise EOFError
    return serialization.deserialize(content, copy=False)


class LocalFuture:
    """The result of a task, or a value that a worker keeps (`worker`, `number`) or that is sent with each task (`value`).

    status  pending, finished, error (the task failed, or its workers ended) or lost (a worker ended that had not begun the task).
    """

    def __init__(self, number: int, request: dict[str, Any] | None = None, pinned: bool = False) -> None:
        self.number, self.request, self.pinned = number, request, pinned
        self.status, self.value, self.deaths = "pending", None, 0
        self.worker: WorkerConnection | None = None
        self._callbacks: list[Callable[[Any], object]] = []
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call a function with this future when the task has ended."""
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def set_result(self, status: str, value: Any = None) -> None:
        """Store the result of the task."""
        with self._lock:
            self.status, self.value, self.request = status, value, None
            self._ended.set()
        for callback in self._callbacks:
            callback(self)

    def result(self) -> Any:
        """Return the result, once there is one.  Raises CancelledError if it was lost, RuntimeError if the task failed."""
        self._ended.wait()
        if self.status == "lost":
            raise CancelledError
        if self.status == "error":
            raise RuntimeError(self.value or "the workers that computed it have ended")
        return self.value


class WorkerConnection:
    """A worker process with its pipes, and the tasks that were sent to it, in order."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.address = process, f"process {process.pid}"
        self.connected = self.ended = False
        self.tasks: deque[LocalFuture] = deque()
        self.receiver: threading.Thread | None = None
        self._last_large: dict[int, bytes] = {}  # position of an argument -> the last large value that was sent there
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message.  Raises OSError if the worker has ended."""
        stream = self.process.stdin
        assert stream is not None
        with self._sending:
            write_message(stream, message)

    def send_task(self, task: LocalFuture) -> None:
        """Send a task; a large argument that equals the previous one of its position is sent as a reference to it."""
        request = task.request or {}
        arguments = [self._describe_argument(place, value) for place, value in enumerate(request["arguments"])]
        self.tasks.append(task)
        self.send({"function": request["function"], "arguments": arguments})

    def _describe_argument(self, place: int, value: Any) -> dict[str, Any]:
        if isinstance(value, LocalFuture):
            return {"stored": value.number} if value.worker is not None else {"value": value.value}
        if isinstance(value, dict):
            return {"value": {name: item.value if isinstance(item, LocalFuture) else item for name, item in value.items()}}
        if not isinstance(value, bytes) or len(value) < LARGE:
            return {"value": value}
        if self._last_large.get(place) is value:
            return {"again": True}
        self._last_large[place] = value
        return {"value": value, "large": True}


class LocalClient:
    """The tasks of a command and the connections to its workers."""

    status = "running"

    def __init__(self) -> None:
        self._workers: list[WorkerConnection] = []
        self._waiting: deque[LocalFuture] = deque()  # tasks for any worker
        self._number = 0
        self._lock = threading.RLock()

    def connect(self, process: subprocess.Popen[bytes]) -> None:
        """Listen to a worker process that was just started."""
        worker = WorkerConnection(process)
        with self._lock:
            self._workers.append(worker)
        worker.receiver = threading.Thread(target=self._receive, args=(worker,), daemon=True)
        worker.receiver.start()

    def _receive(self, worker: WorkerConnection) -> None:
        """Receive the replies of a worker until it ends; its first message says that it is ready."""
        stream = worker.process.stdout
        assert stream is not None
        try:
            read_message(stream)
            worker.connected = True
            self._assign_tasks()
            while True:
                reply = read_message(stream)
                task = worker.tasks.popleft()
                task.set_result("error" if "raised" in reply else "finished", reply.get("raised", reply.get("result")))
                self._assign_tasks()
        except (EOFError, OSError):
            self._drop_worker(worker)

    def _drop_worker(self, worker: WorkerConnection) -> None:
        """Report the tasks of a worker that ended: the one that it computed as failed, unless others may try it, and the rest as lost."""
        with self._lock:
            worker.connected, worker.ended = False, True
            tasks = list(worker.tasks)
            worker.tasks.clear()
            for place, task in enumerate(tasks):
                task.deaths += place == 0
                if not task.pinned and task.deaths <= DEATHS:
                    self._waiting.appendleft(task)
                else:
                    task.set_result("lost" if place else "error")
        self._assign_tasks()

    def _assign_tasks(self) -> None:
        """Send waiting tasks to workers without any."""
        with self._lock:
            for worker in self._workers:
                if self._waiting and worker.connected and not worker.tasks:
                    self._send_task(worker, self._waiting.popleft())

    def _send_task(self, worker: WorkerConnection, task: LocalFuture) -> None:
        with suppress(OSError):  # the thread that receives its replies finds that the worker has ended, and its tasks
            worker.send_task(task)

    def submit(self, function: Callable[..., object], *values: Any, workers: list[str] | None = None, **_: object) -> LocalFuture:
        """Submit a function of `worker_tasks`; a worker in `workers` computes it, without them any worker."""
        with self._lock:
            task = LocalFuture(self._next_number(), {"function": function.__name__, "arguments": values}, workers is not None)
            worker = None if workers is None else self._connection(workers[0])
            if workers is None:
                self._waiting.append(task)
                self._assign_tasks()
            elif worker is not None:
                self._send_task(worker, task)
        if workers is not None and worker is None:
            task.set_result("lost")
        return task

    def scatter(self, value: bytes, workers: list[str] | None = None, **_: object) -> LocalFuture:
        """Store bytes on a worker; without `workers` they are sent with each task.  Raises OSError if the worker has ended."""
        with self._lock:
            stored = LocalFuture(self._next_number())
            if workers is not None:
                stored.worker = self._connection(workers[0])
                if stored.worker is None:
                    raise OSError(f"{workers[0]} has ended")
                stored.worker.send({"store": stored.number, "value": value})
                value = b""
        stored.set_result("finished", value)
        return stored

    def run(self, function: Callable[..., object], *values: Any, on_error: str = "return") -> dict[str, Any]:
        """Return the answer of each worker, or the exception in place of it."""
        tasks = {address: self.submit(function, *values, workers=[address]) for address in self.scheduler_info()["workers"]}
        answers: dict[str, Any] = {}
        for address, task in tasks.items():
            try:
                answers[address] = task.result()
            except (CancelledError, RuntimeError) as error:
                answers[address] = error
        return answers

    def scheduler_info(self, n_workers: int = -1) -> dict[str, Any]:
        """Return the addresses of the workers that are ready, under "workers"."""
        with self._lock:
            return {"workers": {worker.address: {} for worker in self._workers if worker.connected}}

    def close(self, timeout: float = 0) -> None:
        """End all workers."""
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.wait()
            if worker.receiver is not None:
                worker.receiver.join()

    def _connection(self, address: str) -> WorkerConnection | None:
        return next((worker for worker in self._workers if worker.address == address and worker.connected), None)

    def _next_number(self) -> int:
        self._number += 1
        return self._number


@dataclass
class LocalWorkers:
    """`count` worker processes, restarted when they end."""

    client: LocalClient
    count: int
    memory: int  # bytes of each, 0: no limit
    folder: str
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_missing(self) -> int:
        """Start the workers that are not running; return how many of them had run before."""
        ended = [number for number, process in self.processes.items() if process.poll() is not None]
        for number in range(self.count):
            if number not in self.processes or number in ended:
                self.processes[number] = self._start_process(number)
                self.client.connect(self.processes[number])
        return len(ended)

    def _start_process(self, number: int) -> subprocess.Popen[bytes]:
        """Start a worker in a session of its own, so that only the command receives Ctrl-C."""
        with open(os.path.join(self.folder, f"worker-{number}.log"), "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "herdcli.cluster.worker_process", str(self.memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {"TMPDIR": self.folder},  # the files of a worker that is killed are removed with the folder
                start_new_session=True,
            )


@contextmanager
def start_local_workers(count: int, memory: int, folder: str) -> Iterator[LocalWorkers]:
    """Start worker processes, which end with the body."""
    workers = LocalWorkers(LocalClient(), count, memory, folder)
    try:
        workers.start_missing()
        yield workers
    finally:
        workers.client.close()


def serve_pipes(source: IO[bytes], target: IO[bytes]) -> None:
    """Compute the tasks that arrive at `source`, one at a time, and write their results to `target`; end with the command.

    A second thread computes, so that the process notices at once when the command has ended.
    """
    requests: deque[dict[str, Any]] = deque()
    arrived = threading.Semaphore(0)
    threading.Thread(target=_compute_tasks, args=(requests, arrived, target), daemon=True).start()
    try:
        write_message(target, "ready")
        while True:
            requests.append(read_message(source))
            arrived.release()
    except (EOFError, OSError):
        os._exit(0)


def _compute_tasks(requests: deque[dict[str, Any]], arrived: threading.Semaphore, target: IO[bytes]) -> None:
    from herdcli.cluster import worker_tasks

    stored: dict[int, bytes] = {}
    large: dict[int, bytes] = {}
    while True:
        arrived.acquire()
        request = requests.popleft()
        if "store" in request:
            stored[request["store"]] = request["value"]
            continue
        values = []
        for place, argument in enumerate(request["arguments"]):
            if "large" in argument:
                large[place] = argument["value"]
            values.append(
                stored[argument["stored"]] if "stored" in argument else large[place] if "again" in argument else argument["value"]
            )
        try:
            reply = {"result": getattr(worker_tasks, request["function"])(*values)}
        except Exception as error:  # sent to the command, which decides what to do
            reply = {"raised": f"{type(error).__name__}: {error}"}
        try:
            write_message(target, reply)
        except OSError:
            os._exit(0)
