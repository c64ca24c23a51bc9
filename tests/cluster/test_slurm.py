"""docs/examples/slurm_array.sh on a real Slurm: array and merge, warning before the time limit, scancel, a node that dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import slurm_cluster

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = (ROOT / "docs" / "examples" / "slurm_array.sh").read_text(encoding="utf-8")
HERD = Path(sys.executable).parent / "herd"

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(slurm_cluster.missing() is not None, reason=str(slurm_cluster.missing()))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm_cluster.Slurm]:
    with ExitStack() as stack:
        try:
            started = stack.enter_context(slurm_cluster.running(tmp_path_factory.mktemp("slurm")))
        except TimeoutError as error:
            pytest.skip(f"Slurm's daemons do not start on this machine: {error}")
        yield started


@pytest.fixture
def submit(cluster: slurm_cluster.Slurm, tmp_path: Path) -> Callable[..., str]:
    """submit(*options, epochs=E) hands the manual's script to Slurm, of two processors and 1 GB a task; the number of the job."""
    shutil.copy(ROOT / "data" / "digits.h5", tmp_path / "digits.h5")

    def run(*options: str, epochs: int = 5, arguments: tuple[str, ...] = ()) -> str:
        text = SCRIPT.replace("--cpus-per-task=4", "--cpus-per-task=2").replace("--mem=4G", "--mem=1G")
        (tmp_path / "job.sh").write_text(text.replace("--epochs 5", f"--epochs {epochs}"))
        path = f"{HERD.parent}:{os.environ['PATH']}"
        return cluster.run("sbatch", "--parsable", "-D", tmp_path, f"--export=ALL,PATH={path}", *options, tmp_path / "job.sh", *arguments)

    return run


def whole(tmp_path: Path, epochs: int) -> bytes:
    """What one run without Slurm makes."""
    command = [HERD, "fit-rbm", "digits.h5", "--per-class", "--epochs", str(epochs), "-q"]
    return subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, check=True).stdout


def said(tmp_path: Path) -> str:
    """What the tasks wrote."""
    return "\n".join(path.read_text() for path in sorted(tmp_path.glob("slurm-*.out")))


def begun(tmp_path: Path, cluster: slurm_cluster.Slurm, name: str) -> None:
    """Until a task has saved its first checkpoint."""
    until = time.monotonic() + 150
    while not (tmp_path / "classes" / name).exists():
        assert time.monotonic() < until, said(tmp_path) + cluster.logs()
        time.sleep(0.1)


def test_array_and_merge_give_the_bytes_of_one_run(cluster, submit, tmp_path):
    array = submit("--array=1-4")
    merge = submit(f"--dependency=afterok:{array}", "--kill-on-invalid-dep=yes", arguments=("merge",))
    assert cluster.wait(merge, "COMPLETED", "FAILED", "CANCELLED") == "COMPLETED", said(tmp_path)
    assert (tmp_path / "classes" / "whole.h5").read_bytes() == whole(tmp_path, 5)


def test_a_failed_task_takes_the_merge_with_it(cluster, submit, tmp_path):
    (tmp_path / "digits.h5").write_bytes(b"no rows")
    array = submit("--array=1-2")
    merge = submit(f"--dependency=afterok:{array}", "--kill-on-invalid-dep=yes", arguments=("merge",))
    assert cluster.wait(merge, "COMPLETED", "FAILED", "CANCELLED") == "CANCELLED"
    assert "digits.h5: " in said(tmp_path)


QUEUED_AGAIN = pytest.mark.slow  # Slurm lets two minutes pass before it starts a task again


@pytest.mark.parametrize("how", ["scancel", pytest.param("warning", marks=QUEUED_AGAIN), pytest.param("node", marks=QUEUED_AGAIN)])
def test_what_is_stopped_goes_on_to_the_same_bytes(cluster, submit, tmp_path, how):
    """The task has a checkpoint when it ends, and a task that takes its place makes what one run makes."""
    epochs = 800
    environment = f"--export=ALL,SHARDS=1,PATH={HERD.parent}:{os.environ['PATH']}"
    job = submit("--array=1", environment, epochs=epochs)
    task = f"{job}_1"
    cluster.wait(task, "RUNNING")
    time.sleep(4)
    if how == "warning":
        cluster.run("scancel", "--signal=USR1", task)
        begun(tmp_path, cluster, "shard-1.state")
    elif how == "scancel":
        cluster.run("scancel", task)
        cluster.wait(task, "CANCELLED")
        begun(tmp_path, cluster, "shard-1.state")
        assert "interrupted after step" in said(tmp_path)
        assert "hint: the checkpoint is saved: continue with --resume" in said(tmp_path)
        task = submit("--array=1", environment, epochs=epochs) + "_1"
    else:
        node = cluster.run("squeue", "-h", "-j", job, "-o", "%N")
        daemon = cluster.daemons[node]
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        subprocess.run(["pkill", "-KILL", "-f", f"{tmp_path}|slurmstepd: .{job}"], check=False)
        cluster.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        cluster.start_node(node)
        cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert cluster.wait(task, "COMPLETED", "FAILED", "NODE_FAIL", seconds=240) == "COMPLETED", said(tmp_path) + cluster.logs()
    merge = submit(arguments=("merge",))
    assert cluster.wait(merge, "COMPLETED", "FAILED", "CANCELLED") == "COMPLETED", said(tmp_path)
    assert (tmp_path / "classes" / "whole.h5").read_bytes() == whole(tmp_path, epochs)
