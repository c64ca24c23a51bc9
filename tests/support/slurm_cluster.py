"""A Slurm of several nodes on this machine: munge, slurmctld and a slurmd for each node, on loopback, ended with the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "squeue", "srun")
NODES = ("n1", "n2", "n3")
CONFIGURATION = """
ClusterName=herd
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=20
MinJobAge=3600
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why there can be no such Slurm here; None where it can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} are not installed (Debian: slurm-wlm, munge)"
    return None if os.geteuid() == 0 else "its daemons are started by root"


@dataclass(frozen=True)
class Slurm:
    """A running cluster; its commands find it through `environment`."""

    folder: Path
    environment: dict[str, str]
    daemons: dict[str, subprocess.Popen[bytes]]

    def run(self, *command: object) -> str:
        """The stdout of a command of Slurm, which must succeed."""
        line = [str(each) for each in command]
        ended = subprocess.run(line, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, f"{line}: {ended.stderr}"
        return ended.stdout.strip()

    def state(self, job: str) -> str:
        """RUNNING, COMPLETED, … of a job."""
        return self.run("scontrol", "show", "job", "-o", job).split("JobState=")[1].split()[0]

    def wait(self, job: str, *states: str, seconds: float = 120.0) -> str:
        """Until a job is in one of these states; which it is."""
        until = time.monotonic() + seconds
        while (now := self.state(job)) not in states:
            assert time.monotonic() < until, f"job {job} is {now} after {seconds:g} s\n{self.logs()}"
            time.sleep(0.2)
        return now

    def logs(self) -> str:
        """The ends of the daemons' logs, for a failure."""
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in sorted(self.folder.glob("*.log")))

    def start(self, name: str, *command: str) -> None:
        """Start a daemon that stays in the foreground."""
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(command, env=self.environment, stdout=out, stderr=out, start_new_session=True)

    def start_node(self, node: str) -> None:
        """Start the slurmd of a node, or start it again."""
        self.start(node, shutil.which("slurmd") or "slurmd", "-D", "-f", str(self.folder / "slurm.conf"), "-N", node)


@contextmanager
def running(folder: Path) -> Iterator[Slurm]:
    """Three nodes of two processors each; their daemons and all jobs end with the block.  Raises TimeoutError where they do not start."""
    for name in ("state", *NODES):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    host, port = socket.gethostname().split(".")[0], _free_ports(1 + len(NODES))
    nodes = "\n".join(
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port + 1 + i} CPUs=2 RealMemory=2000" for i, node in enumerate(NODES)
    )
    text = CONFIGURATION.format(host=host, port=port, folder=folder, user="root", nodes=nodes)
    (folder / "slurm.conf").write_text(text)
    slurm = Slurm(folder, os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}, {})
    with ExitStack() as stack:
        stack.callback(_end, slurm)
        sockets = [f"--{name}={folder}/munge.{name.split('-')[0]}" for name in ("pid-file", "log-file", "seed-file")]
        slurm.start("munged", "munged", "--foreground", "--force", f"--socket={folder}/munge.sock", f"--key-file={key}", *sockets)
        _until(lambda: (folder / "munge.sock").exists(), slurm)
        slurm.start("slurmctld", "slurmctld", "-D", "-c", "-f", str(folder / "slurm.conf"))
        for node in NODES:
            slurm.start_node(node)
        _until(lambda: _idle(slurm) == len(NODES), slurm)
        yield slurm


def _idle(slurm: Slurm) -> int:
    found = subprocess.run(
        ["sinfo", "-h", "-N", "-o", "%T"], env=slurm.environment, capture_output=True, text=True, timeout=60, check=False
    )
    return found.stdout.split().count("idle")


def _until(true: Callable[[], bool], slurm: Slurm, seconds: float = 60.0) -> None:
    """Raise TimeoutError, with what the daemons said, where it does not come true."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(slurm.logs())
        time.sleep(0.1)


def _end(slurm: Slurm) -> None:
    """End the jobs, then the daemons, last munge; what a slurmd leaves behind is killed with its group."""
    subprocess.run(["scancel", "--user=root", "--signal=KILL"], env=slurm.environment, capture_output=True, timeout=60, check=False)
    for name in (*NODES, "slurmctld", "munged"):
        daemon = slurm.daemons.get(name)
        if daemon is not None and daemon.poll() is None:
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _free_ports(count: int) -> int:
    """The first of so many neighbouring ports of loopback that nobody listens at."""
    for port in range(20000, 60000, 100):
        with ExitStack() as stack:
            try:
                for each in range(port, port + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", each))
            except OSError:
                continue
            return port
    raise OSError("no free ports")
