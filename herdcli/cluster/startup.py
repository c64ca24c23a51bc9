"""Clusters that are started for one run, and existing ones: the address of a scheduler, and the supervision of its workers.

local        worker processes on this machine, which are restarted when one ends; with settings of Dask also a scheduler in this process
slurm, …     jobs submitted through dask_jobqueue
running      an existing scheduler, whose workers are not changed
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

from herdcli.cluster.cluster_spec import ClusterOptions
from herdcli.cluster.local_workers import start_local_workers
from herdcli.errors import BadUsage, HerdError, Unavailable
from herdcli.records import dataclass
from herdcli.scratch import scratch_folder

if TYPE_CHECKING:
    from distributed.security import Security

    from herdcli.cluster.cluster_spec import ClusterAddress

SECURITY = {"tls_ca_file": "tls_ca_file", "tls_cert": "tls_client_cert", "tls_key": "tls_client_key"}
OWN = (*SECURITY, "wait")  # keys with the same meaning for every kind of cluster; `wait`: seconds to wait for workers
WAIT = {"local": 60.0, "running": 30.0}  # kind of cluster -> default seconds to wait for workers; other kinds are queues
QUEUED = 600.0
SUBMIT = {"slurm": "sbatch", "pbs": "qsub", "sge": "qsub", "lsf": "bsub"}
UNWATCHED = {  # Dask's hundred checks of a worker per second take a tenth of its time from short tasks
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
}
MEMORY = 4_000_000_000  # bytes for a job without --max-memory
INSTALL = "pip install 'herdcli[dask]'"


@dataclass(frozen=True)
class WorkerSize:
    """The resources of a worker.  memory  in bytes, None if it was not given;  threads  the number of threads that it computes with."""

    threads: int
    memory: int | None


@dataclass
class Cluster:
    """A scheduler.  keep  restarts workers that ended and returns the number of those that were restarted."""

    address: Any  # an address as text, or a Dask object that clients connect to
    security: Security | None = None
    keep: Callable[[], int] = field(default=lambda: 0)
    why: Callable[[], str] = field(default=lambda: "")  # the last log line of a worker that ended
    dashboard: str | None = None
    client: Any = None  # the client, if it is not Dask's


@contextlib.contextmanager
def start_cluster(options: ClusterOptions, size: WorkerSize) -> Iterator[Cluster]:
    """Start or find the requested cluster; the parts that this process started are stopped at the end of the body."""
    worker_timeout_seconds(options)
    if options.where.kind == "local" and not _has_dask_settings(options):
        with scratch_folder("herd-cluster-") as folder, start_local_workers(options.where.count or 1, size.memory or 0, folder) as workers:
            yield Cluster(None, keep=workers.start_missing, why=partial(_last_log_line, folder), client=workers.client)
        return
    with _require_dask(), wrap_start_errors(options.where):
        import distributed  # noqa: F401
    _silence_logs()
    start = {"local": _start_local, "running": _connect_to_scheduler, "kubernetes": _start_kubernetes}.get(options.where.kind, _start_queue)
    security = _tls_settings(options)
    with contextlib.ExitStack() as held, scratch_folder("herd-cluster-") as folder:
        held.enter_context(_temporary_dask_settings(folder))
        with _require_dask(), wrap_start_errors(options.where):
            made = held.enter_context(start(options, size, security, folder))
        yield made


def _has_dask_settings(options: ClusterOptions) -> bool:
    """Return whether there are settings other than the seconds to wait: workers on this machine need Dask only for these."""
    return any(key != "wait" for key, _ in options.options)


def _temporary_dask_settings(folder: str) -> contextlib.AbstractContextManager[Any]:
    """Put Dask's temporary files in a folder that is removed at the end of the run; turn off self-monitoring of scheduler and client."""
    import dask

    watched = {"distributed.admin.tick.interval": "1s", "distributed.worker.profile.enabled": False}
    made: contextlib.AbstractContextManager[Any] = dask.config.set({"temporary-directory": folder} | watched)
    return made


def last_setting_value(options: ClusterOptions, name: str) -> str | None:
    """Return the last value of a setting."""
    return next((value for key, value in reversed(options.options) if key == name), None)


def worker_timeout_seconds(options: ClusterOptions) -> float:
    """Return the seconds to wait for workers."""
    text = last_setting_value(options, "wait")
    try:
        return float(text) if text is not None else WAIT.get(options.where.kind, QUEUED)
    except ValueError:
        raise BadUsage(
            f"--cluster-option wait={text} is not a number of seconds", hint="write a number of seconds: --cluster-option wait=60"
        ) from None


@contextlib.contextmanager
def _require_dask() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        missing = (error.name or "dask").partition(".")[0]
        hint = "pip install dask-kubernetes" if missing == "dask_kubernetes" else INSTALL
        raise BadUsage(f"--cluster needs {missing}, which is not installed", hint=hint) from error


@contextlib.contextmanager
def wrap_start_errors(address: ClusterAddress) -> Iterator[None]:
    """Replace any error of a cluster that does not start by a one-line error."""
    try:
        yield
    except (HerdError, ImportError, KeyboardInterrupt, GeneratorExit):
        raise
    except TypeError as error:
        raise BadUsage(
            f"--cluster {address} does not take these settings ({_first_error_line(error)})", hint="check --cluster-option"
        ) from error
    except Exception as error:  # the start of a cluster runs code of Dask, of its plug-ins and of the queue, all with their own exceptions
        raise Unavailable(f"--cluster {address} cannot start ({_first_error_line(error)})") from error


def _first_error_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _silence_logs() -> None:
    """Silence the logs of Dask, which are for its developers; the run reports everything that users need to know."""
    import logging

    for name in ("distributed", "tornado", "asyncio", "bokeh", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio", "bokeh", "dask_jobqueue"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _tls_settings(options: ClusterOptions) -> Security | None:
    """Return the TLS settings of clients, schedulers and workers, if any of the TLS files is given."""
    given = {name: last_setting_value(options, name) for name in SECURITY}
    if not any(given.values()):
        if (options.where.address or "").startswith("tls://"):
            needed = "--cluster-option tls-ca-file=CA.pem --cluster-option tls-cert=CERT.pem --cluster-option tls-key=KEY.pem"
            raise BadUsage(f"--cluster {options.where} needs certificates", hint=needed)
        return None
    from distributed.security import Security

    for name, path in given.items():
        if path is not None and not os.path.isfile(path):
            raise BadUsage(f"--cluster-option {name.replace('_', '-')}={path}: no such file", hint="name a file on this machine")
    certificate, own_key = given["tls_cert"], given["tls_key"]
    roles = {
        f"tls_{role}_{part}": value
        for role in ("client", "scheduler", "worker")
        for part, value in (("cert", certificate), ("key", own_key))
    }
    return Security(tls_ca_file=given["tls_ca_file"], require_encryption=True, **roles)


def settings_as_keywords(options: ClusterOptions) -> dict[str, Any]:
    """Return KEY=VALUE settings as keywords: numbers, true, false and none are converted; a key given twice becomes a list."""
    found: dict[str, Any] = {}
    for key, text in options.options:
        if key in OWN:
            continue
        value = _convert_option_value(text)
        found[key] = value if key not in found else [*(found[key] if isinstance(found[key], list) else [found[key]]), value]
    return found


def _convert_option_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


@contextlib.contextmanager
def _connect_to_scheduler(options: ClusterOptions, size: WorkerSize, security: Security | None, folder: str) -> Iterator[Cluster]:
    if settings_as_keywords(options):
        raise BadUsage(f"--cluster-option {min(settings_as_keywords(options))} has no effect on a scheduler that is already running")
    yield Cluster(options.where.address, security)


@contextlib.contextmanager
def _start_local(options: ClusterOptions, size: WorkerSize, security: Security | None, folder: str) -> Iterator[Cluster]:
    """Start a scheduler in a thread of this process; scheduler and workers listen only on this machine's own address."""
    from distributed import LocalCluster

    unknown = sorted(set(settings_as_keywords(options)) - {"host", "dashboard_address", "scheduler_port"})
    if unknown:
        raise BadUsage(
            f"--cluster-option {unknown[0]} is not a setting of workers on this machine",
            hint="use one of host, dashboard-address, scheduler-port, wait, tls-…",
        )
    wanted = {"n_workers": 0, "processes": True, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", **settings_as_keywords(options)}
    if security is not None:
        wanted |= {"security": security, "protocol": "tls://"}
    with LocalCluster(**wanted) as cluster:
        address, processes = cluster.scheduler_address, dict[int, subprocess.Popen[bytes]]()
        count = options.where.count or 1
        host = str(wanted["host"])

        def keep() -> int:
            ended = [number for number in range(count) if number in processes and processes[number].poll() is not None]
            for number in range(count):
                if number not in processes or number in ended:
                    processes[number] = _start_worker_process(address, host, number, size, folder, options)
            return len(ended)

        keep()
        try:
            yield Cluster(cluster, security, keep, partial(_last_log_line, folder), cluster.dashboard_link if _has_dashboard() else None)
        finally:
            for process in processes.values():
                process.kill()
            for process in processes.values():
                process.wait()


def _last_log_line(folder: str) -> str:
    """Return the last line of the first worker's log."""
    with open(os.path.join(folder, "worker-0.log"), encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    return lines[-1][:200] if lines else "without a word"


def _has_dashboard() -> bool:
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


def _start_worker_process(
    address: str, host: str, number: int, size: WorkerSize, folder: str, options: ClusterOptions
) -> subprocess.Popen[bytes]:
    """Start a worker process on this machine, in a session of its own, so that only the command receives Ctrl-C."""
    words = [address, "--no-nanny", "--nthreads", "1", "--host", host, "--no-dashboard", "--memory-limit", "0", "--death-timeout", "20"]
    words += ["--dashboard-address", f"{host}:0"]  # the HTTP server runs even without a dashboard, and would listen everywhere
    words += ["--local-directory", folder]
    for name in SECURITY if last_setting_value(options, "tls_ca_file") else ():
        words += [f"--{name.replace('_', '-')}", str(last_setting_value(options, name))]
    with open(os.path.join(folder, f"worker-{number}.log"), "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "herdcli.cluster.worker_process", str(size.memory or 0), *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # the files of a worker that is killed are removed with the cluster
            env=UNWATCHED | os.environ | {"TMPDIR": folder},
            start_new_session=True,
        )


def queue_job_options(kind: str, size: WorkerSize) -> dict[str, Any]:
    """Return the resources that a queued job requests: one worker that runs one task at a time, with processors for its threads."""
    memory = size.memory or MEMORY
    asked: dict[str, Any] = {"cores": 1, "processes": 1, "memory": memory, "python": sys.executable}
    megabytes = -(-memory // 1_000_000)
    own: dict[str, dict[str, Any]] = {
        "slurm": {"job_cpu": size.threads},
        "pbs": {"resource_spec": f"select=1:ncpus={size.threads}:mem={megabytes}mb"},
        "sge": {
            "job_extra_directives": [f"-pe smp {size.threads}"] if size.threads > 1 else [],
            "resource_spec": f"h_vmem={megabytes // size.threads}M",
        },
        "lsf": {"ncpus": size.threads, "mem": memory},
    }
    return asked | own[kind]


@contextlib.contextmanager
def _start_queue(options: ClusterOptions, size: WorkerSize, security: Security | None, folder: str) -> Iterator[Cluster]:
    """Start jobs of a queue.  The scheduler is in this process, and other machines must reach it at an address that the user gives."""
    import dask_jobqueue

    kind, wanted = options.where.kind, settings_as_keywords(options)
    if not {"interface", "host"} & set(wanted):
        hint = "name the network: --cluster-option interface=eth0, or host=ADDRESS; use certificates if others share it"
        raise BadUsage(
            f"--cluster {options.where}: its workers must reach this machine, but it accepts no connections from others", hint=hint
        )
    if shutil.which(SUBMIT[kind]) is None:
        raise Unavailable(f"--cluster {options.where}: there is no {SUBMIT[kind]} here", hint="run herd on a machine that submits jobs")
    made = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster"}[kind]
    dashboard = wanted.pop("dashboard_address", "127.0.0.1:0")
    scheduler = {"dashboard_address": dashboard, **({"host": wanted.pop("host")} if "host" in wanted else {})}
    if security is not None:
        wanted |= {"security": security, "protocol": "tls://"}
    lists = {
        key: [value]
        for key, value in wanted.items()
        if key.endswith(("directives", "prologue", "extra_args")) and not isinstance(value, list)
    }
    refused: list[str] = []
    kept = _rejection_recording_class(getattr(dask_jobqueue, made), refused)

    def keep() -> int:
        if refused:
            raise Unavailable(f"--cluster {options.where}: {SUBMIT[kind]} refuses the job ({refused[0]})", hint="check --cluster-option")
        return 0

    cluster = kept(scheduler_options=scheduler, **(queue_job_options(kind, size) | wanted | lists))
    try:
        cluster.scale(jobs=options.where.count)
        yield Cluster(cluster, security, keep, dashboard=cluster.dashboard_link if _has_dashboard() else None)
    finally:
        with contextlib.suppress(Exception):  # jobs that never started
            cluster.close()


def _rejection_recording_class(cluster: Any, refused: list[str]) -> Any:
    """Return a class of clusters that records why a job was rejected; Dask only logs the reason and tries again."""

    class Job(cluster.job_cls):  # type: ignore[misc]
        async def _submit_job(self, script: str) -> Any:
            try:
                return await super()._submit_job(script)
            except Exception as error:  # raised again
                refused.append(_first_error_line(RuntimeError(str(error).rpartition("stderr:")[2] or str(error))))
                raise

    return type(cluster.__name__, (cluster,), {"job_cls": Job})


@contextlib.contextmanager
def _start_kubernetes(options: ClusterOptions, size: WorkerSize, security: Security | None, folder: str) -> Iterator[Cluster]:
    from dask_kubernetes.operator import KubeCluster

    memory = f"{(size.memory or MEMORY) // 1_000_000}M"
    resources = {"requests": {"memory": memory, "cpu": str(size.threads)}, "limits": {"memory": memory}}
    command = ["dask", "worker", "--nthreads", "1"]
    wanted = {
        "name": f"herd-{os.getpid()}",
        "n_workers": options.where.count,
        "resources": resources,
        "worker_command": command,
        **settings_as_keywords(options),
    }
    with KubeCluster(**wanted) as cluster:
        yield Cluster(cluster, security, dashboard=cluster.dashboard_link)
