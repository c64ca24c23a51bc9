"""--cluster on real Dask schedulers and workers: the bytes of one run, whoever is killed; what a cluster can be wrong with, in a line."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import dask_cluster
import numpy as np
import pytest
from dask_cluster import children, disturbed, herd, kill

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("distributed", reason="dask.distributed is not installed: herdcli[dask]")
pytestmark = pytest.mark.cluster

FIT = ["fit-rbm", "digits.h5", "--per-class", "--epochs", "5", "-j", "1"]
BROKEN = {"DASK_DISTRIBUTED__WORKER__PRELOAD": '["herdcli.there_is_none"]'}
LONG = ["fit-rbm", "digits.h5", "--per-class", "--epochs", "600", "-j", "1"]
RUNS = {
    "models": FIT,
    "runs": ["herd", "digits.h5", "--per-class", "--hidden", "20", "--iterations", "60"],
    "groups": ["kernel-herd", "digits.h5", "--by", "y", "-m", "5"],
    "starts": ["ups-infer", "grid.h5", "--algorithm", "bp", "--restarts", "6"],
    "blocks of rows": ["ups-infer", "grid.h5", "--evidence-rows", "evidence.csv"],
    "sums of blocks": ["regress", "numbers.csv", "--one-pass"],
    "moments of blocks": ["ica", "numbers.csv", "--one-pass"],
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and what LONG makes of them in one run."""
    folder = tmp_path_factory.mktemp("dask")
    shutil.copy(ROOT / "data" / "digits.h5", folder)
    assert herd(folder, "network", "grid", "-o", "grid.h5").code == 0
    (folder / "evidence.csv").write_text("x0,x3\n0,1\n1,-1\n1,1\n")
    (folder / "numbers.csv").write_text("a,b,y\n" + "".join(f"{n % 17},{n % 5},{n % 7}\n" for n in range(9000)))
    assert herd(folder, *LONG, "-o", "long.h5").code == 0
    return folder


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dask_cluster.Dask]:
    with dask_cluster.running(tmp_path_factory.mktemp("scheduler")) as made:
        yield made


@pytest.mark.parametrize("name", ["models", *(pytest.param(name, marks=pytest.mark.slow) for name in list(RUNS)[1:])])
def test_units_of_workers_make_the_bytes_of_one_run(here, dask, name):
    assert herd(here, *RUNS[name], "-o", "one.h5").code == 0
    done = herd(here, *RUNS[name], "-o", "dealt.h5", "--cluster", dask.address)
    assert done.code == 0, done.err
    assert (here / "dealt.h5").read_bytes() == (here / "one.h5").read_bytes()


@pytest.mark.parametrize("count", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_processes_of_this_machine_make_the_bytes_of_one_run(here, count, tmp_path):
    """From stdin too, which is put into a file that workers read."""
    with open(here / "digits.h5", "rb") as stdin:
        words = ["-" if word == "digits.h5" else word for word in FIT]
        done = herd(here, *words, "-o", tmp_path / "dealt.h5", "--cluster", f"local:{count}", stdin=stdin)
    assert done.code == 0, done.err
    assert herd(here, *FIT, "-o", tmp_path / "one.h5").code == 0
    assert (tmp_path / "dealt.h5").read_bytes() == (tmp_path / "one.h5").read_bytes()


def test_killed_workers_cost_nothing_but_time(here, tmp_path):
    """Two workers, at moments drawn afresh, are killed; others are begun, no unit is lost and none counted twice."""
    state, draw = tmp_path / "run.state", random.Random(time.time_ns())
    killed: list[int] = []

    def twice(pid: int) -> None:
        for _ in range(2):
            time.sleep(draw.uniform(0.0, 0.5))
            found = [child for child in children(pid) if child not in killed]
            if found:
                killed.append(draw.choice(found))
                kill(killed[-1])

    done = disturbed(
        here, state.exists, twice, *LONG, "-o", tmp_path / "a.h5", "--cluster", "local:2", "--checkpoint", state, "--every", "1"
    )
    assert done.code == 0, done.err
    assert (tmp_path / "a.h5").read_bytes() == (here / "long.h5").read_bytes()
    assert len(killed) == 2
    assert 1 <= done.err.count("was lost; other workers repeat its work") <= 2  # one that was killed before it had come is not missed


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_ends_the_workers_and_what_is_done_is_saved(here, tmp_path, monkeypatch, number):
    state, begun, scratch = tmp_path / "run.state", list[int](), tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))

    def interrupt(pid: int) -> None:
        begun.extend(children(pid))
        os.kill(pid, number)

    words = [*LONG, "-o", tmp_path / "a.h5", "--cluster", "local:2", "--checkpoint", state, "--every", "1"]
    done = disturbed(here, state.exists, interrupt, *words)
    assert not [name for name in os.listdir(scratch) if name.startswith(("herd-", "dask-"))]
    assert done.code == 75, done.err
    assert "interrupted after step" in done.err
    assert "hint: the checkpoint is saved: continue with --resume" in done.err
    assert len(begun) == 2
    assert not [pid for pid in begun if os.path.exists(f"/proc/{pid}")]
    done = herd(here, *words[:-2], "--resume")
    assert done.code == 0, done.err
    assert "resuming from step" in done.err
    assert (tmp_path / "a.h5").read_bytes() == (here / "long.h5").read_bytes()
    assert not state.exists()


def test_a_run_on_a_scheduler_ends_its_units_there(here, tmp_path, dask):
    """After Ctrl-C the workers are free: the next run does not wait for what this one had given them."""
    state = tmp_path / "run.state"
    endless = ["fit-rbm", "digits.h5", "--per-class", "--epochs", "100000", "-j", "1", "-o", tmp_path / "a.h5", "--cluster", dask.address]
    done = disturbed(here, lambda: busy(dask) == 2, lambda pid: os.kill(pid, signal.SIGINT), *endless, "--checkpoint", state)
    assert done.code == 75, done.err
    assert herd(here, *FIT, "-o", tmp_path / "b.h5", "--cluster", dask.address).code == 0


def busy(dask: dask_cluster.Dask) -> int:
    """How many of a scheduler's workers compute."""
    ticks = [_ticks(process.pid) for process in dask.processes[1:]]
    time.sleep(0.2)
    return sum(_ticks(process.pid) - before >= 5 for process, before in zip(dask.processes[1:], ticks, strict=True))


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_state_of_another_run_is_refused(here, tmp_path):
    state = tmp_path / "run.state"
    words = ["-o", tmp_path / "a.h5", "--cluster", "local:1", "--checkpoint", state, "--every", "1"]
    assert disturbed(here, state.exists, lambda pid: os.kill(pid, signal.SIGTERM), *LONG, *words).code == 75
    done = herd(here, *LONG, "--seed", "2", *words, "--resume")
    assert (done.code, done.err.count("\n")) == (2, 3)
    assert f"herd fit-rbm: {state}: the checkpoint belongs to a run with other options or inputs" in done.err


def test_a_scheduler_that_goes_leaves_what_was_done(here, tmp_path):
    state = tmp_path / "run.state"
    with dask_cluster.running(tmp_path) as made:
        words = [*LONG, "-o", tmp_path / "a.h5", "--checkpoint", state, "--every", "1"]
        done = disturbed(here, state.exists, lambda pid: made.processes[0].kill(), *words, "--cluster", made.address)
    assert done.code == 75, done.err
    assert f"herd fit-rbm: the scheduler of --cluster {made.address} no longer answers" in done.err
    assert "hint: the checkpoint is saved: continue with --resume" in done.err
    assert herd(here, *words[:-2], "--cluster", "local:2", "--resume").code == 0
    assert (tmp_path / "a.h5").read_bytes() == (here / "long.h5").read_bytes()


def test_no_scheduler_at_the_address(here):
    address = "tcp://127.0.0.1:1"
    done = herd(here, *FIT, "-o", "none.h5", "-q", "--cluster", address)
    assert (done.code, done.err) == (75, f"herd fit-rbm: no scheduler answers at {address}\nhint: start one: dask scheduler\n")


def test_a_scheduler_without_workers(here, tmp_path):
    with dask_cluster.running(tmp_path, workers=0) as made:
        done = herd(here, *FIT, "-o", "none.h5", "-q", "--cluster", made.address, "--cluster-option", "wait=0.5")
    assert (done.code, done.err) == (75, f"herd fit-rbm: --cluster {made.address} has no workers\nhint: start some: dask worker ADDRESS\n")


def test_workers_that_do_not_begin_are_told(here, monkeypatch):
    """Their last words are in the line; nobody waits for a minute."""
    done = herd(here, *FIT, "-o", "none.h5", "-q", "--cluster", "local:1", "--cluster-option", "host=127.0.0.1", env=os.environ | BROKEN)
    assert (done.code, done.err.count("\n")) == (75, 1), done.err
    assert "herd fit-rbm: --cluster local:1: its workers end right after the start (" in done.err


def test_workers_of_another_version_or_processor_are_named(here, tmp_path):
    other = tmp_path / "other.py"
    other.write_text("import herdcli\nherdcli.__version__ = '0.0.9'\n")
    with dask_cluster.running(tmp_path, workers=0) as made:
        first = made.worker("--preload", str(other))
        done = herd(here, *FIT, "-o", "none.h5", "-q", "--cluster", made.address)
        assert done.code == 2
        assert "differs from this machine: herd 0.0.9, here 0.1.0\nhint: install the same versions on all machines\n" in done.err
        first.kill()
        first.wait()
        made.worker(OPENBLAS_CORETYPE="Nehalem")
        done = herd(here, *FIT, "-o", "none.h5", "-q", "--cluster", made.address)
        assert done.code == 2
        assert "differs from this machine: BLAS" in done.err
        assert "hint: allow it with --mixed, compute the same bytes with --exact" in done.err
        assert herd(here, *FIT, "-o", "mixed.h5", "-q", "--cluster", made.address, "--mixed").code == 0


def test_workers_that_do_not_see_the_input_are_sent_it(here, tmp_path, dask):
    """/proc/self/fd/N is a file to the process that opened it, and nothing to others."""
    with open(here / "digits.h5", "rb") as held:
        words = [f"/proc/self/fd/{held.fileno()}" if word == "digits.h5" else word for word in FIT]
        done = herd(here, *words, "-o", tmp_path / "a.h5", "--cluster", dask.address, pass_fds=[held.fileno()])
    assert done.code == 0, done.err
    assert "so the input files are sent to the workers" in done.err
    assert herd(here, *FIT, "-o", tmp_path / "b.h5").code == 0
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_an_input_that_changes_is_told(here, tmp_path):
    shutil.copy(here / "digits.h5", tmp_path)
    state = tmp_path / "run.state"

    def change(pid: int) -> None:
        subprocess.run(
            [str(dask_cluster.HERD), "convert", here / "digits.h5", "--keep-column", "y", "-q", "-o", tmp_path / "digits.h5"], check=True
        )

    done = disturbed(tmp_path, state.exists, change, *LONG, "-o", "a.h5", "--cluster", "local:2", "--checkpoint", state, "--every", "1")
    assert done.code == 65, done.err
    assert "the file changed during the run" in done.err


def test_a_disk_that_is_full_on_a_node_leaves_what_was_done(here, tmp_path):
    """A worker whose files may have no more than 64 kB: units fail there, are tried again, and the run can go on elsewhere."""
    state = tmp_path / "run.state"
    words = ["fit-rbm", "digits.h5", "--per-class", "--epochs", "1", "-o", tmp_path / "a.h5", "-q", "--checkpoint", state]
    with dask_cluster.running(tmp_path, workers=0) as made:
        worker = made.worker()
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        done = herd(here, *words, "--hidden", "400", "--cluster", made.address, "--retries", "1")
    assert (done.code, done.err.count("\n")) == (75, 2), done.err
    assert "failed 2 times: on a worker, " in done.err
    assert "File too large" in done.err
    done = herd(here, *words, "--hidden", "400", "--resume")
    told = f"herd fit-rbm: {state}: the checkpoint belongs to a run with --cluster, but this is a run without it\n"
    assert (done.code, done.err) == (2, f"{told}hint: continue with the command that began the run, or start again without --resume\n")


def test_tls(here, tmp_path):
    """Scheduler, workers and client of one authority; without its certificates nobody gets in."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    pem = tmp_path / "all.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    subprocess.run([*request, "-keyout", tmp_path / "key.pem", "-out", pem], check=True, capture_output=True)
    files = {"tls-ca-file": pem, "tls-cert": pem, "tls-key": tmp_path / "key.pem"}
    ours = [word for name, path in files.items() for word in ("--cluster-option", f"{name}={path}")]
    theirs = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    with dask_cluster.running(tmp_path, workers=1, tls=theirs) as made:
        done = herd(here, *FIT, "-o", tmp_path / "a.h5", "--cluster", made.address, *ours)
        assert done.code == 0, done.err
        done = herd(here, *FIT, "-o", tmp_path / "b.h5", "--cluster", made.address)
        assert done.code == 2
        assert "needs certificates" in done.err
    done = herd(here, *FIT, "-o", tmp_path / "c.h5", "--cluster", "local:1", *ours)
    assert done.code == 0, done.err


ROUNDS = ["em", "rows.npy", "--components", "5", "--iterations", "12", "--tolerance", "0"]


@pytest.fixture(scope="module")
def rows(here: Path) -> Path:
    """Rows of three clusters, and the mixture that one process makes of them."""
    draw = np.random.default_rng(0)
    np.save(here / "rows.npy", draw.normal(size=(60_000, 4)) + 3.0 * draw.integers(0, 3, 60_000)[:, None])
    assert herd(here, *ROUNDS, "-o", "mixture.h5").code == 0
    return here


@pytest.mark.parametrize("count", [1, 2])
def test_rounds_on_workers_make_the_bytes_of_one_process(rows, tmp_path, count):
    done = herd(rows, *ROUNDS, "-o", tmp_path / "a.h5", "--cluster", f"local:{count}")
    assert done.code == 0, done.err
    assert (tmp_path / "a.h5").read_bytes() == (rows / "mixture.h5").read_bytes()


def test_a_worker_killed_in_a_round_takes_nothing_with_it(rows, tmp_path):
    state, draw = tmp_path / "run.state", random.Random(time.time_ns())

    def strike(pid: int) -> None:
        for _ in range(2):
            time.sleep(draw.uniform(0.0, 0.5))
            if found := children(pid):
                kill(draw.choice(found))

    words = [*ROUNDS, "-o", tmp_path / "a.h5", "--cluster", "local:2", "--checkpoint", state, "--every", "1"]
    done = disturbed(rows, state.exists, strike, *words)
    assert done.code == 0, done.err
    assert (tmp_path / "a.h5").read_bytes() == (rows / "mixture.h5").read_bytes()


def test_a_checkpoint_of_a_round_goes_on_anywhere(rows, tmp_path):
    """Begun on workers and stopped in the middle of a pass, ended in one process."""
    state = tmp_path / "run.state"
    words = [*ROUNDS, "-o", tmp_path / "a.h5", "--checkpoint", state, "--every", "1"]
    done = disturbed(rows, state.exists, lambda pid: os.kill(pid, signal.SIGTERM), *words, "--cluster", "local:2")
    assert done.code == 75, done.err
    done = herd(rows, *words, "--resume")
    assert done.code == 0, done.err
    assert "resuming from step" in done.err
    assert (tmp_path / "a.h5").read_bytes() == (rows / "mixture.h5").read_bytes()


IN_ROUNDS = {  # of the commands that test_distributed_rounds.py runs without workers
    "states with controls": ["em", "series.csv", "--model", "lds", "--components", "1", "--controls", "c", "--sequence", "s"],
    "independent components": ["ica", "rows.npy"],
}


@pytest.mark.parametrize("name", IN_ROUNDS)
def test_rounds_of_other_kinds_make_the_bytes_of_one_process(rows, dask, tmp_path, name):
    draw = np.random.default_rng(1)
    table = np.column_stack([draw.normal(size=(9000, 3)).round(3), np.arange(9000) // 50])
    np.savetxt(rows / "series.csv", table, delimiter=",", header="a,b,c,s", comments="", fmt="%.7g")
    words = [*IN_ROUNDS[name], "--iterations", "10"]
    assert herd(rows, *words, "-o", tmp_path / "one.h5").code == 0
    done = herd(rows, *words, "-o", tmp_path / "dealt.h5", "--cluster", dask.address)
    assert done.code == 0, done.err
    assert (tmp_path / "dealt.h5").read_bytes() == (tmp_path / "one.h5").read_bytes()


def test_steps_of_a_regression_on_workers_make_the_bytes_of_one_process(rows, tmp_path):
    X = np.load(rows / "rows.npy")
    np.savez(rows / "rows.npz", X=X[:, :3], y=(X[:, 3] > X[:, 0]).astype(np.int64))
    words = ["regress", "rows.npz", "--l1", "0.001"]
    assert herd(rows, *words, "-o", tmp_path / "a.h5").code == 0
    done = herd(rows, *words, "-o", tmp_path / "b.h5", "--cluster", "local:2")
    assert done.code == 0, done.err
    assert (tmp_path / "b.h5").read_bytes() == (tmp_path / "a.h5").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("run", "answer", "workers"), [(LONG, "long.h5", 2), (ROUNDS, "mixture.h5", 2), (ROUNDS, "mixture.h5", 1)])
def test_thirty_kills(rows, tmp_path, run, answer, workers):
    """At any of thirty moments: the same bytes, no unit lost, none counted twice."""
    draw, state, killed = random.Random(time.time_ns()), tmp_path / "run.state", list[int]()

    def often(pid: int) -> None:
        for _ in range(3):
            time.sleep(draw.uniform(0.0, 1.2))
            found = [child for child in children(pid) if child not in killed]
            if found:
                killed.append(draw.choice(found))
                kill(killed[-1])

    words = [*run, "-o", tmp_path / "a.h5", "--cluster", f"local:{workers}", "--checkpoint", state, "--every", "1", "--retries", "20"]
    while len(killed) < 30:
        done = disturbed(rows, state.exists, often, *words)
        assert done.code == 0, done.err
        assert (tmp_path / "a.h5").read_bytes() == (rows / answer).read_bytes()
        (tmp_path / "a.h5").unlink()


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="/proc")
def test_workers_on_this_machine_listen_to_it_alone(tmp_path: Path) -> None:
    """Their HTTP server too, which is there without a dashboard."""
    from distributed import LocalCluster

    from herdcli.cluster.cluster_spec import ClusterOptions, parse_cluster
    from herdcli.cluster.startup import WorkerSize, _start_worker_process

    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
        worker = _start_worker_process(
            cluster.scheduler_address, "127.0.0.1", 0, WorkerSize(1, None), str(tmp_path), ClusterOptions(parse_cluster("local:1"))
        )
        try:
            end = time.monotonic() + 60
            while len(found := _listening(worker.pid)) < 2 and time.monotonic() < end:
                time.sleep(0.1)
            time.sleep(0.5)
            assert len(found := _listening(worker.pid)) >= 2
            assert set(found) == {"127.0.0.1"}
        finally:
            worker.kill()
            worker.wait()


def _listening(process: int) -> list[str]:
    """The addresses that a process listens on."""
    own = {os.readlink(path) for path in Path(f"/proc/{process}/fd").iterdir() if path.is_symlink()}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                address = words[1].partition(":")[0]
                found.append(".".join(str(byte) for byte in reversed(bytes.fromhex(address))) if table == "tcp" else address)
    return found
