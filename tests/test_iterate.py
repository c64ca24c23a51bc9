"""Signals: those that Python drops, and those of a program that uses herd as a library."""

from __future__ import annotations

import subprocess
import sys

import pytest

DROPPED = """
import os, signal
from dataclasses import dataclass
from herdcli import iterate
from herdcli.errors import Interrupted

@dataclass
class State:
    step: int

class Closing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)  # the handler raises here, where Python prints the exception and goes on

with iterate.interruptible():
    Closing()
    print("went on", flush=True)
    try:
        iterate.run_steps(lambda state: State(state.step + 1), State(0), steps=100)
    except Interrupted as error:
        print(error, error.exit_code)
print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, iterate.stop_requested())
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
