"""Signals: those that Python drops, and those of a program that uses herd as a library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from herdcli import iterate
from herdcli.errors import Interrupted

DROPPED = """
import os, signal
from dataclasses import dataclass
from types import SimpleNamespace
from herdcli import iterate
from herdcli.errors import Interrupted

@dataclass
class State:
    step: int

class Closing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)  # the handler raises here, where Python prints the exception and goes on

with iterate.allow_interrupts():
    Closing()
    print("went on", flush=True)
    try:
        iterate.run_steps(lambda state: State(state.step + 1), State(0), steps=100)
    except Interrupted as error:
        print(error, error.exit_code)
print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, iterate.is_stop_requested())
"""

LIBRARY = """
import os, signal, sys, threading, time
import numpy as np
import herdcli as herd

def host(number, frame):
    print("host", flush=True)
    sys.exit(7)

signal.signal(signal.SIGTERM, host)
X = np.random.default_rng(0).integers(0, 2, (200, 20)).astype(np.uint8)
herd.fit_rbm(X, hidden=2, epochs=1)  # everything is imported
threading.Timer(1.0, lambda: os.kill(os.getpid(), int(sys.argv[1]))).start()
try:
    herd.fit_rbm(X, hidden=2, epochs=1_000_000)
except Exception as error:
    print("an ordinary exception", type(error).__name__)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""


def ended(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", "-c", script, *arguments], capture_output=True, text=True, timeout=120, check=False)


def test_a_signal_whose_exception_python_drops_ends_the_next_step():
    done = ended(DROPPED)
    assert done.stdout == "went on\ninterrupted after step 1 143\nTrue False\n"
    assert "Exception ignored in" in done.stderr


@pytest.mark.parametrize(("number", "code", "out"), [(2, 0, "KeyboardInterrupt\n"), (15, 7, "host\n")])
def test_signals_of_a_host_program_are_its_own(number, code, out):
    done = ended(LIBRARY, str(number))
    assert (done.returncode, done.stdout) == (code, out), done.stderr


@dataclass
class Counter:
    """A state of nothing but its step."""

    step: int


def waiting_step(at: int, number: int, before: float = 0.0):
    """A step function whose step number `at` is interrupted by a signal and would take a minute; the earlier ones take `before` seconds."""

    def step(state: Counter) -> Counter:
        if state.step == at:
            threading.Timer(0.05, os.kill, [os.getpid(), number]).start()
            time.sleep(60)
        time.sleep(before)
        return Counter(state.step + 1)

    return step


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1], ids=lambda number: number.name)
def test_a_signal_ends_a_long_step_at_once_if_there_is_no_checkpoint(number):
    began = time.monotonic()
    with iterate.allow_interrupts(), pytest.raises(Interrupted, match=r"^interrupted after step 2$") as caught:
        iterate.run_steps(waiting_step(2, number), Counter(0), steps=5)
    assert caught.value.exit_code == 128 + number
    assert time.monotonic() - began < 5
    assert not iterate.is_stop_requested()


def test_a_step_that_can_be_saved_is_waited_for_a_second_only(monkeypatch):
    """The alarm that ends the step is no signal of the user's: its handler and its timer are gone afterwards."""
    monkeypatch.setattr(iterate, "STEP_SECONDS", 0.2)
    saved, handler, began = [], signal.getsignal(signal.SIGALRM), time.monotonic()
    with iterate.allow_interrupts(), pytest.raises(Interrupted, match=r"^interrupted after step 2$") as caught:
        iterate.run_steps(waiting_step(2, signal.SIGTERM), Counter(0), steps=5, checkpoint=saved.append)
    assert 0.2 <= time.monotonic() - began < 5
    assert (caught.value.exit_code, saved) == (143, [])
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (handler, (0.0, 0.0))


def test_the_state_before_a_long_step_is_saved(monkeypatch):
    monkeypatch.setattr(iterate, "STEP_SECONDS", 0.1)
    monkeypatch.setattr(iterate, "LONG_STEP", 0.02)
    saved = []
    with iterate.allow_interrupts(), pytest.raises(Interrupted):
        iterate.run_steps(waiting_step(2, signal.SIGTERM, before=0.03), Counter(0), steps=5, checkpoint=saved.append, every=100)
    assert saved == [Counter(1), Counter(2)]


def test_saving_after_long_steps_takes_a_twentieth_of_the_time_at_most(monkeypatch):
    now, saved = [0.0], []
    monkeypatch.setattr(iterate, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def save(state: Counter) -> None:
        saved.append(state.step)
        now[0] += 0.5

    def step(state: Counter) -> Counter:
        now[0] += 1.0
        return Counter(state.step + 1)

    iterate.run_steps(step, Counter(0), steps=30, checkpoint=save)
    assert saved == [1, 11, 21]


def test_a_signal_before_the_first_checkpoint_says_so():
    first, later = Interrupted(15), Interrupted(15, step=3)
    for error in (first, later):
        error.mark_resumable(has_checkpoint=False)
    assert (first.hint, later.hint) == ("no step was done yet: run it again", "no checkpoint was saved yet: run it again")
    assert (first.exit_code, later.exit_code) == (75, 75)


WAITING = """
import os, signal, sys, threading, time
from herdcli.cli import main
from herdcli.cli.frame.run.session import Session

def work(*given):
    session = Session.__new__(Session)
    session.threads, session.request, session._pool = 2, None, None
    for _ in session.map(time.sleep, [60, 60]):
        pass

main._run_command_line = work
threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGTERM]).start()
main.main()
"""


def test_the_process_ends_although_a_worker_thread_computes():
    began = time.monotonic()
    done = ended(WAITING)
    assert (done.returncode, done.stderr) == (143, "herd: interrupted\n")
    assert time.monotonic() - began < 50
