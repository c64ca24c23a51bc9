"""Jobs of queues: what the scripts that go to Slurm, PBS, SGE and LSF ask for, and a run on a real Slurm."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import dask_cluster
import pytest
import slurm_cluster

from herdcli.cluster.cluster_spec import ClusterOptions, parse_cluster
from herdcli.cluster.startup import WorkerSize, queue_job_options, start_cluster

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: herdcli[dask]")
HERE = ("interface", "lo")

DIRECTIVES = {
    "slurm": ["#SBATCH -p long", "#SBATCH -n 1", "#SBATCH --cpus-per-task=4", "#SBATCH --mem=2G", "#SBATCH -t 01:30:00"],
    "pbs": ["#PBS -q long", "#PBS -l select=1:ncpus=4:mem=2000mb", "#PBS -l walltime=01:30:00"],
    "sge": ["#$ -q long", "#$ -pe smp 4", "#$ -l h_vmem=500M", "#$ -l h_rt=01:30:00"],
    "lsf": ["#BSUB -q long", "#BSUB -n 4", '#BSUB -R "span[hosts=1]"', "#BSUB -W 01:30:00"],
}


@pytest.mark.parametrize("kind", DIRECTIVES)
def test_scripts_of_jobs_ask_for_what_was_typed(kind):
    """One worker of one task at a time, with the processors of -j and the memory of --max-memory."""
    import dask_jobqueue

    made = {"slurm": "SLURMJob", "pbs": "PBSJob", "sge": "SGEJob", "lsf": "LSFJob"}[kind]
    wanted = queue_job_options(kind, WorkerSize(4, 2_000_000_000)) | {"queue": "long", "walltime": "01:30:00"}
    if kind == "lsf":
        wanted["lsf_units"] = "mb"
    script = getattr(dask_jobqueue.core.sys.modules[f"dask_jobqueue.{kind}"], made)("tcp://10.0.0.1:1", name="herd", **wanted).job_script()
    for line in DIRECTIVES[kind]:
        assert line in script.splitlines(), script
    last = script.splitlines()[-1]
    assert last.startswith(f"{sys.executable} -m distributed.cli.dask_worker tcp://10.0.0.1:1 ")
    assert "--nthreads 1 --memory-limit 1.86GiB" in last


@pytest.mark.cluster
@pytest.mark.skipif(slurm_cluster.missing() is not None, reason=str(slurm_cluster.missing()))
def test_jobs_of_slurm_make_the_bytes_of_one_run(tmp_path_factory, tmp_path, monkeypatch):
    shutil.copy(ROOT / "data" / "digits.h5", tmp_path)
    words = ["fit-rbm", "digits.h5", "--per-class", "--epochs", "20", "-j", "1"]
    assert dask_cluster.herd(tmp_path, *words, "-o", "one.h5").code == 0
    settings = [word for each in ("interface=lo", "walltime=00:05:00", "wait=90") for word in ("--cluster-option", each)]
    with ExitStack() as stack:
        try:
            running = stack.enter_context(slurm_cluster.running(tmp_path_factory.mktemp("slurm")))
        except TimeoutError as error:
            pytest.skip(f"Slurm's daemons do not start on this machine: {error}")
        cluster = ["--cluster", "slurm:2", "--max-memory", "1G", *settings]
        done = dask_cluster.herd(tmp_path, *words, "-o", "dealt.h5", *cluster, env=os.environ | running.environment)
        assert done.code == 0, done.err
        assert running.run("squeue", "-h") == ""
        nowhere = [*cluster, "--cluster-option", "queue=nowhere"]
        done = dask_cluster.herd(tmp_path, *words, "-q", "-o", "none.h5", *nowhere, env=os.environ | running.environment)
        assert (done.code, done.err.count("\n")) == (75, 2), done.err
        assert "herd fit-rbm: --cluster slurm:2: sbatch refuses the job (sbatch: error: invalid partition" in done.err
    assert (tmp_path / "dealt.h5").read_bytes() == (tmp_path / "one.h5").read_bytes()


def test_a_queue_that_is_not_there_is_told(tmp_path, monkeypatch):
    from herdcli.errors import Unavailable

    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(Unavailable, match="--cluster sge:1: there is no qsub here"),
        start_cluster(ClusterOptions(parse_cluster("sge:1"), (HERE,)), WorkerSize(1, None)),
    ):
        pass
