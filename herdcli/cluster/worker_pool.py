"""The workers of a run, seen from the command: it counts them, checks that they agree, sends them tasks and notices lost ones."""

from __future__ import annotations

import contextlib
import queue
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import field
from typing import TYPE_CHECKING, Any

from herdcli.cluster import worker_tasks
from herdcli.cluster.startup import Cluster, WorkerSize, start_cluster, worker_timeout_seconds, wrap_start_errors
from herdcli.errors import BadUsage, Unavailable
from herdcli.records import dataclass

if TYPE_CHECKING:
    from distributed import Client, Future

    from herdcli.cluster.cluster_spec import ClusterOptions

Say = Callable[[str], None]
LOOK = 0.25  # seconds between checks of the state
GONE = 5.0  # seconds without a scheduler until the run gives up
FALSE_STARTS = 2  # failed starts of each worker until it is given up
LOST = (OSError, CancelledError)  # raised by Dask if a worker or the scheduler is lost during a call
EXACT = ("herd", "NumPy", "SciPy")  # versions that must be equal if the order of every sum is fixed


@dataclass
class WorkerPool:
    """A client of the cluster.  exact  sums do not depend on BLAS;  known  addresses of the workers that have connected."""

    asked: ClusterOptions
    made: Cluster
    client: Client
    note: Say
    warn: Say
    exact: bool = False
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    done: queue.SimpleQueue[Future] = field(default_factory=queue.SimpleQueue)
    known: set[str] = field(default_factory=set)
    gone_since: float | None = None
    tries: int = 0
    listed: list[str] = field(default_factory=list)  # the workers connected at the time `looked`
    looked: float = -LOOK
    distributed_seconds: float = 0.0  # in which this process distributed tasks and waited for them
    task_seconds: float = 0.0  # that the finished tasks took

    @property
    def shares_values(self) -> bool:
        """Whether workers fetch stored values from one another; those of this machine are only connected to this process."""
        return self.made.client is None

    @property
    def wanted(self) -> dict[str, str]:
        """The parts of the environment that a worker must share with this process."""
        own = worker_tasks.result_environment()
        same = self.asked.mixed or self.exact
        return {name: value for name, value in own.items() if name in EXACT or not same}

    def submit(self, function: Callable[..., object], *values: object, **how: object) -> Future:
        """Submit a task and return its future, which is put into `done` when the task has ended."""
        self.tries += 1
        future = self.client.submit(function, *values, key=worker_tasks.make_task_name(self.run, self.tries), pure=False, **how)
        future.add_done_callback(self.done.put)
        return future

    @contextlib.contextmanager
    def count_seconds(self) -> Iterator[None]:
        """Add the time that the body takes to the time in which tasks are distributed."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.distributed_seconds += time.monotonic() - began

    def wait(self) -> Future | None:
        """Return the next task that has ended, or None if none ended for a moment.

        Raises Unavailable if the scheduler or the workers are lost.
        """
        try:
            return self.done.get(timeout=LOOK)
        except queue.Empty:
            self.check_cluster()
            return None

    def task_result(self, future: Future) -> Any:
        """Return the result of a task, or None if it was lost together with its worker or the scheduler."""
        with contextlib.suppress(*LOST):
            if future.status == "finished":
                reply = future.result()
                self.task_seconds += reply.get("seconds", 0.0)
                return reply
        self.check_cluster()
        return None

    def store_on_worker(self, value: bytes, address: str) -> Future | None:
        """Return a value that is stored on a worker, or None if the worker was lost meanwhile."""
        with contextlib.suppress(*LOST):
            return self.client.scatter(value, workers=[address], hash=False, direct=True)
        time.sleep(LOOK)  # the scheduler has not noticed the loss yet
        self.check_cluster()
        return None

    def check_cluster(self) -> None:
        """Restart workers that ended, report lost ones, and check that the scheduler is running."""
        self.made.keep()
        if self.is_connected:
            self.gone_since = None
            here = set(self.workers())
            for address in sorted(self.known - here):
                self.note(f"the worker {address} was lost; other workers repeat its work")
            self.known = here
            return
        self.gone_since = self.gone_since or time.monotonic()
        if time.monotonic() - self.gone_since > GONE or self.client.status == "closed":
            raise self._unavailable_error()

    def _unavailable_error(self) -> Unavailable:
        hint = "start the run again; --checkpoint FILE saves the progress"
        return Unavailable(f"the scheduler of --cluster {self.asked.where} no longer answers", hint=hint)

    @property
    def is_connected(self) -> bool:
        """Whether the scheduler is connected."""
        return bool(self.client.status == "running")

    def ask_all_workers(self, function: Callable[..., object], *values: object) -> dict[str, Any]:
        """Return the answer of each worker; workers that are lost meanwhile answer None."""
        try:
            found: dict[str, Any] = self.client.run(function, *values, on_error="return")
        except LOST as error:
            raise self._unavailable_error() from error
        return {name: None if isinstance(answer, LOST) else answer for name, answer in found.items()}

    def workers(self) -> list[str]:
        """Return the addresses of the workers connected at most `LOOK` seconds ago, the same list until herd looks again.

        While the scheduler does not answer, these are the last known workers.
        """
        if time.monotonic() - self.looked >= LOOK:
            self.listed, self.looked = self._connected_workers(), time.monotonic()
        return self.listed

    def _connected_workers(self) -> list[str]:
        try:
            return list(self.client.scheduler_info(n_workers=-1).get("workers", ()))
        except LOST:
            return list(self.known)

    def wait_for_workers(self) -> list[str]:
        """Return the addresses of workers as soon as there are any.  Raises Unavailable if none has connected for too long."""
        end = time.monotonic() + worker_timeout_seconds(self.asked)
        while not (here := self.workers()):
            if time.monotonic() > end:
                raise Unavailable(f"--cluster {self.asked.where} has no workers left")
            time.sleep(LOOK)
            self.check_cluster()
        return here

    def await_workers(self) -> None:
        """Wait for all requested workers, or until there are some and no more connect.  Raises Unavailable if none connects."""
        wanted = self.asked.where.count or 1
        end, ended = time.monotonic() + worker_timeout_seconds(self.asked), 0
        while (here := len(self._connected_workers())) < wanted:
            if time.monotonic() > end:
                break
            ended += self.made.keep()
            if ended > FALSE_STARTS * wanted and not here:
                raise Unavailable(f"--cluster {self.asked.where}: its workers end right after the start ({self.made.why()})")
            time.sleep(0.05)
        self.looked = -LOOK
        self.known = set(self.workers())
        if not here:
            hint = (
                "if its jobs wait in the queue: --cluster-option wait=SECONDS"
                if self.asked.where.count
                else "start some: dask worker ADDRESS"
            )
            raise Unavailable(f"--cluster {self.asked.where} has no workers", hint=hint)
        if here < wanted:
            self.warn(f"only {here} of the {wanted} workers of --cluster {self.asked.where} started; the run continues with them")

    def require_same_environments(self) -> None:
        """Raise BadUsage if the environment of a worker differs from that of this process."""
        for address, answer in self.ask_all_workers(worker_tasks.result_environment).items():
            if isinstance(answer, BaseException):
                hint = "install this version of herd on that machine"
                raise BadUsage(f"the worker {address} cannot run herd ({' '.join(str(answer).split())[:150]})", hint=hint)
            if answer is not None:
                require_same_environment(
                    address, {name: [answer[name], value] for name, value in self.wanted.items() if answer[name] != value}
                )

    def stop_and_disconnect(self) -> None:
        """Stop the workers' tasks for this run, and close the connection."""
        with contextlib.suppress(Exception):  # the run is over, and the cluster may be gone
            if self.is_connected and self.asked.where.kind == "running":
                self.client.run(worker_tasks.stop_run_units, self.run)


def require_same_environment(address: str, differing: dict[str, list[str]]) -> None:
    """Raise BadUsage if anything differs."""
    if not differing:
        return
    hint = "install the same versions on all machines"
    if set(differing) == {"BLAS"}:
        hint = "allow it with --mixed, compute the same bytes with --exact, or set OPENBLAS_CORETYPE to one kernel"
    raise BadUsage(f"the worker {address} differs from this machine: {worker_tasks.describe_differences(differing)}", hint=hint)


@contextlib.contextmanager
def start_worker_pool(options: ClusterOptions, size: WorkerSize, *, report: Say, warn: Say, exact: bool = False) -> Iterator[WorkerPool]:
    """Return the requested workers, after checking that they agree.

    report, warn  receive messages for the user;  exact  as in `WorkerPool`.
    """
    began = time.monotonic()
    with start_cluster(options, size) as made:
        client = made.client or _connect_client(options, made)
        farm = WorkerPool(options, made, client, report, warn, exact)
        try:
            farm.await_workers()
            farm.require_same_environments()
            if made.dashboard:
                report(f"the workers' dashboard is at {made.dashboard}")
            ready = time.monotonic()
            yield farm
            if options.where.kind == "local":
                _report_if_one_process_is_faster(report, ready - began, farm.distributed_seconds, farm.task_seconds)
        finally:
            farm.stop_and_disconnect()
            with contextlib.suppress(Exception):  # the run is over, and the cluster may be gone
                client.close(timeout=2)


def _connect_client(options: ClusterOptions, cluster: Cluster) -> Client:
    """Return Dask's client of a scheduler.  Raises Unavailable if none answers."""
    from distributed import Client

    try:
        with wrap_start_errors(options.where):
            return Client(cluster.address, security=cluster.security, timeout=5, set_as_default=False, heartbeat_interval=1000)
    except Unavailable as error:
        if options.where.address is None:
            raise
        raise Unavailable(f"no scheduler answers at {options.where}", hint="start one: dask scheduler") from error


def _report_if_one_process_is_faster(report: Say, start: float, distributed: float, tasks: float) -> None:
    """Report that workers of this machine took longer than one process would.

    start        seconds until the workers were ready.
    distributed  seconds in which this process distributed tasks and waited for them.
    tasks        seconds that all tasks took together, which is what one process needs for them.
    """
    if start + distributed > tasks:
        spent = f"the workers took {start:.1f} s to start and {distributed:.1f} s for {tasks:.1f} s of work"
        report(f"{spent}; without --cluster this run is faster")
