"""The choice between compiled loops and their twins: what is named, what is imported, and when."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from herdcli import fast
from herdcli.errors import BadUsage


@pytest.mark.parametrize("topic", fast.TWINS)
def test_every_function_of_a_twin_is_named(topic):
    named = fast.TWINS[topic].split()
    assert sorted(import_module(f"herdcli.fast.numpy_{topic}").__all__) == sorted(named)
    assert set(named) <= set(fast.__all__)


def test_switching_switches_every_function():
    before = fast.kernels()
    try:
        fast.use("python")
        assert fast.murmur3.__module__ == "herdcli.fast.numpy_online_text"
        if before == "cython":
            fast.use("cython")
            assert fast.murmur3 is import_module("herdcli.fast._online").murmur3
    finally:
        fast.use(before)


def test_only_what_is_used_is_imported(tmp_path):
    script = "import sys; from herdcli import fast; fast.murmur3; print(*[m for m in sys.modules if m.startswith('herdcli.fast.')])"
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.split()
    assert found
    assert all(name.split(".")[-1].lstrip("_").removeprefix("numpy_").startswith("online") for name in found)


def test_unknown_loops_are_refused():
    with pytest.raises(BadUsage, match="unknown kernels 'fortran', expected cython or python"):
        fast.use("fortran")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fast.nothing
