"""What a user sees where a C++ library would abort the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from herdcli.artifacts import cpp_termination

pytestmark = pytest.mark.skipif(cpp_termination._cxx_runtime() is None, reason="no C++ runtime to be found by name")

SCRIPT = """
import ctypes, sys
from herdcli.artifacts.cpp_termination import report_termination, is_out_of_memory, _cxx_runtime

def report(kind):
    print(kind, is_out_of_memory(kind), flush=True)
    return 65 if is_out_of_memory(kind) else 70

runtime = _cxx_runtime()
runtime._Znwm.argtypes = [ctypes.c_size_t]
with report_termination(report):
    if sys.argv[1] == "inside":
        runtime._Znwm(1 << 62)  # operator new, which throws std::bad_alloc
    elif sys.argv[1] == "terminate":
        runtime._ZSt9terminatev()
print("done", flush=True)
if sys.argv[1] == "after":
    runtime._Znwm(1 << 62)
"""


def ended(when: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", SCRIPT, when], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("when", "code", "out"),
    [("inside", 65, "St9bad_alloc True\n"), ("terminate", 70, "None False\n"), ("never", 0, "done\n")],
)
def test_an_abort_becomes_a_report_and_an_exit_code(when, code, out):
    done = ended(when)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, "")


def test_the_handler_of_before_is_back_afterwards():
    done = ended("after")
    assert done.returncode == -6
    assert done.stdout == "done\n"
    assert "bad_alloc" in done.stderr
