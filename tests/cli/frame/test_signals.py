"""Stopped runs: SIGTERM, SIGINT, SIGUSR1 and SIGKILL, with a checkpoint and without, and what --resume makes of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from herdcli import iterate
from herdcli.errors import Interrupted

FIT = ["fit-rbm", "digits.h5", "--hidden", "40", "--epochs", "40"]  # 2 160 steps
SAVING = ["--checkpoint", "state.h5", "--every", "25"]
WAIT = 60.0


@pytest.fixture
def start(start_process, digits):
    """start(*options) begins the fit; returns the running process."""
    return lambda *options, **streams: start_process(*FIT, *options, **streams)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, run_plain, digits_bytes) -> bytes:
    """The artifact of the fit when nothing stops it."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    (folder / "digits.h5").write_bytes(digits_bytes)
    return run_plain(folder, *FIT)


def wait_for(path: Path, running: subprocess.Popen) -> None:
    """Until the file is there."""
    until = time.monotonic() + WAIT
    while not path.exists():
        assert running.poll() is None, "the run ended before it saved a checkpoint"
        assert time.monotonic() < until
        time.sleep(0.002)


def stop(running: subprocess.Popen, number: int) -> tuple[int, bytes, str]:
    """Send the signal; the exit code, stdout and stderr."""
    running.send_signal(number)
    out, err = running.communicate(timeout=WAIT)
    return running.returncode, out, err.decode()


@dataclass
class Counter:
    """A state of nothing but its step."""

    step: int


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP], ids=lambda number: number.name)
def test_signal_with_checkpoint_then_resume(start, tmp_path, scratch, uninterrupted, number):
    running = start(*SAVING, "-o", "out.h5")
    wait_for(tmp_path / "state.h5", running)
    code, out, err = stop(running, number)
    assert (code, out) == (75, b"")
    message, hint = err.splitlines()[-2:]
    assert re.fullmatch(r"herd fit-rbm: interrupted after step \d+", message)
    assert hint == "hint: the checkpoint is saved: continue with --resume"
    assert names(tmp_path) == {"digits.h5", "state.h5"}
    assert list(scratch.iterdir()) == []

    resumed = start(*SAVING, "--resume", "-o", "out.h5")
    _, err = resumed.communicate(timeout=WAIT)
    assert resumed.returncode == 0
    assert b"resuming from step" in err
    assert (tmp_path / "out.h5").read_bytes() == uninterrupted
    assert names(tmp_path) == {"digits.h5", "out.h5"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_signal_without_checkpoint(start, tmp_path, scratch, number):
    running = start("-v", "-o", "out.h5", "--epochs", "4000")
    assert b"digits.h5" in running.stderr.readline()
    time.sleep(0.3)
    code, out, err = stop(running, number)
    assert (code, out) == (128 + number, b"")
    told, hint = err.splitlines()[-2:]
    assert re.fullmatch(r"herd fit-rbm: interrupted( after step \d+)?", told)
    assert hint == "hint: next time add --checkpoint FILE: the same command with --resume then continues the run"
    assert names(tmp_path) == {"digits.h5"}
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.15, 0.3])
def test_killed_run_resumes_to_the_same_bytes(start, tmp_path, uninterrupted, delay):
    running = start(*SAVING, "-o", "out.h5")
    wait_for(tmp_path / "state.h5", running)
    time.sleep(delay)
    stop(running, signal.SIGKILL)
    resumed = start(*SAVING, "--resume", "-o", "out.h5")
    resumed.communicate(timeout=WAIT)
    assert resumed.returncode == 0
    assert (tmp_path / "out.h5").read_bytes() == uninterrupted
    assert names(tmp_path) == {"digits.h5", "out.h5"}


def test_resumed_again_and_again(start, tmp_path, uninterrupted):
    for _ in range(4):
        running = start("--checkpoint", "state.h5", "--every", "100", "--resume", "-o", "out.h5")
        wait_for(tmp_path / "state.h5", running)
        time.sleep(0.2)
        if running.poll() is None:
            stop(running, signal.SIGUSR1)
    last = start("--checkpoint", "state.h5", "--resume", "-o", "out.h5")
    last.communicate(timeout=WAIT)
    assert last.returncode == 0
    assert (tmp_path / "out.h5").read_bytes() == uninterrupted
    assert names(tmp_path) == {"digits.h5", "out.h5"}


def test_resume_without_a_checkpoint_starts_afresh_and_says_so(herd, small, quick):
    ended = herd(*quick("small.h5", "--checkpoint", "state.h5", "--resume", "-o", "out.h5"))
    assert ended.code == 0
    assert "fit-rbm: no checkpoint at state.h5 yet: starting from the beginning\n" in ended.err


def test_resume_with_other_options_or_data_is_refused(start, tmp_path):
    running = start(*SAVING, "-o", "out.h5")
    wait_for(tmp_path / "state.h5", running)
    stop(running, signal.SIGTERM)
    other = start(*SAVING, "--resume", "--seed", "1", "-o", "out.h5")
    _, err = other.communicate(timeout=WAIT)
    assert other.returncode == 2
    message, hint = err.decode().splitlines()[-2:]
    assert message.startswith("herd fit-rbm: state.h5: the checkpoint belongs to a run with other options or inputs")
    assert hint.startswith("hint: ")
    assert names(tmp_path) == {"digits.h5", "state.h5"}


def test_second_signal_stops_at_once(start, tmp_path):
    running = start("--batch-size", "all", "--epochs", "1000000", "--hidden", "2000", "-o", "out.h5")
    time.sleep(2)
    running.send_signal(signal.SIGTERM)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=WAIT)
    assert running.returncode in {130, 143}
    assert names(tmp_path) == {"digits.h5"}


def test_another_run_cannot_take_the_checkpoint(start, tmp_path):
    running = start(*SAVING, "--epochs", "4000", "-o", "out.h5")
    wait_for(tmp_path / "state.h5", running)
    second = start("--checkpoint", "state.h5", "-o", "second.h5")
    _, err = second.communicate(timeout=WAIT)
    message = b"herd fit-rbm: state.h5: is the checkpoint of a run that is still going\nhint: give another file name to --checkpoint\n"
    assert (second.returncode, err) == (75, message)
    stop(running, signal.SIGTERM)
    assert names(tmp_path) == {"digits.h5", "state.h5"}


def test_lock_is_held_for_the_run_and_stays_as_a_file(start, tmp_path, herd, quick):
    running = start("-v", "--epochs", "4000", "--lock", "nightly.lock", "-o", "out.h5")
    wait_for(tmp_path / "nightly.lock", running)
    assert b"digits.h5" in running.stderr.readline()
    second = herd("info", "digits.h5")
    assert second.code == 0
    second = herd(*quick("digits.h5", "--lock", "nightly.lock", "-o", "second.h5"))
    assert (second.code, second.err) == (75, "herd fit-rbm: nightly.lock: another run holds this lock\n")
    stop(running, signal.SIGTERM)
    assert herd(*quick("digits.h5", "--lock", "nightly.lock", "-o", "second.h5")).code == 0
    assert names(tmp_path) == {"digits.h5", "nightly.lock", "second.h5"}


def test_signal_while_the_result_is_written_leaves_a_checkpoint_to_go_on_from(start, tmp_path, uninterrupted):
    os.mkfifo(tmp_path / "out.h5")  # nobody reads: the finished run waits there
    running = start(*SAVING, "-o", "out.h5")
    wait_for(tmp_path / "state.h5", running)
    time.sleep(3)
    code, _, err = stop(running, signal.SIGTERM)
    assert code == 75
    assert err.splitlines()[-1] == "hint: the checkpoint is saved: continue with --resume"
    (tmp_path / "out.h5").unlink()
    resumed = start(*SAVING, "--resume", "-o", "out.h5")
    resumed.communicate(timeout=WAIT)
    assert (tmp_path / "out.h5").read_bytes() == uninterrupted


def test_signal_after_the_last_step_saves_it(start, tmp_path, uninterrupted):
    """The loop has ended within the minute after which a checkpoint is due: its last state is saved upon the signal."""
    ours, theirs = socket.socketpair()  # which holds less than what is written; a pipe may hold large pages
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        running = start("--checkpoint", "state.h5", stdout=theirs.fileno())
        assert ours.recv(1) == b"h"  # and nobody reads on
        assert not (tmp_path / "state.h5").exists()
        code, _, err = stop(running, signal.SIGTERM)
    assert (code, err.splitlines()[-1]) == (75, "hint: the checkpoint is saved: continue with --resume")
    resumed = start("--checkpoint", "state.h5", "--resume", "-o", "out.h5")
    _, err = resumed.communicate(timeout=WAIT)
    assert b"resuming from step 2160 of 2160" in err
    assert (tmp_path / "out.h5").read_bytes() == uninterrupted


def test_signal_while_rows_are_read_says_that_nothing_was_done(start_process, tmp_path):
    """With --checkpoint it ends with 75, upon which schedulers have a job queued again."""
    os.mkfifo(tmp_path / "rows.h5")
    running = start_process("fit-rbm", "rows.h5", "--checkpoint", "state.h5", "-o", "out.h5")
    with open(tmp_path / "rows.h5", "wb"):  # opened by both sides: it waits for the first byte
        time.sleep(0.1)
        code, out, err = stop(running, signal.SIGTERM)
    assert (code, out) == (75, b"")
    assert err == "herd fit-rbm: interrupted\nhint: no step was done yet: run it again\n"
    assert names(tmp_path) == {"rows.h5"}


def test_a_scheduler_may_repeat_its_signal(tmp_path):
    """Slurm's srun passes on the SIGTERM that the task has had already; only a person's second Ctrl-C stops at once."""
    saved = []

    def step(state: Counter) -> Counter:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        return Counter(state.step + 1)

    with iterate.allow_interrupts(), pytest.raises(Interrupted) as caught:
        iterate.run_steps(step, Counter(0), steps=5, checkpoint=saved.append)
    assert (str(caught.value), saved) == ("interrupted after step 1", [Counter(1)])


def test_signal_while_the_process_ends_gives_its_code(tmp_path):
    program = (
        "import os, signal\n"
        "from herdcli.cli import main\n"
        "report = main._report_error\n"
        "def report_late(*message):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return report(*message)\n"
        "main._report_error = report_late\n"
        "main.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "fit-rbm", "missing.h5"], cwd=tmp_path, capture_output=True, timeout=WAIT, check=False
    )
    assert (ended.returncode, ended.stderr) == (130, b"")


@pytest.mark.parametrize("ignored", [False, True])
def test_sighup_ends_a_run_except_under_nohup(ignored):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        with contextlib.nullcontext() if ignored else pytest.raises(Interrupted), iterate.allow_interrupts():
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGHUP, before)
