"""The choice between compiled loops and their twins: what is named, what is imported, and when."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from herdcli import fast
from herdcli.errors import BadUsage


@pytest.mark.parametrize("topic", fast.TWINS)
def test_every_function_of_a_twin_is_named(topic):
    """The table of twins is the one list of names: what it has is in both, and what a compiled module has the table has."""
    named = set(fast.TWINS[topic].split())
    twin = import_module(f"herdcli.fast.numpy_{topic}")
    assert all(callable(getattr(twin, name)) and callable(getattr(fast, name)) for name in named)
    if fast.loops_in_use() == "cython":
        compiled = import_module(f"herdcli.fast._{topic}")
        defined = {name for name, value in vars(compiled).items() if getattr(value, "__module__", "") == compiled.__name__}
        assert {name for name in defined if name[0] != "_"} - {"instruction_set", "instruction_sets", "use_instruction_set"} == named


def test_switching_switches_every_function():
    before = fast.loops_in_use()
    try:
        fast.use_loops("python")
        assert fast.murmur3.__module__ == "herdcli.fast.numpy_online_text"
        if before == "cython":
            fast.use_loops("cython")
            assert fast.murmur3 is import_module("herdcli.fast._online").murmur3
    finally:
        fast.use_loops(before)


def test_only_what_is_used_is_imported(tmp_path):
    script = "import sys; from herdcli import fast; fast.murmur3; print(*[m for m in sys.modules if m.startswith('herdcli.fast.')])"
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.split()
    assert found
    assert all(name.split(".")[-1].lstrip("_").removeprefix("numpy_").startswith("online") for name in found)


@pytest.mark.parametrize("name", ["sse2", pytest.param("avx2", marks=pytest.mark.slow)])
def test_loops_of_every_instruction_set_have_the_twins_bits(name, tmp_path):
    """The tests of twins once more: what a machine without the wider registers computes."""
    if fast.loops_in_use() != "cython":
        pytest.skip("the NumPy loops are in use")
    if name not in pytest.importorskip("herdcli.fast._chain").instruction_sets()[1:]:
        pytest.skip(f"{name} is not a narrower set of this machine")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-k",
        "twin or bits or herding",
        Path(__file__).parent,
    ]
    environment = os.environ | {"HERD_SIMD": name, "HERD_KERNELS": "cython"}
    ended = subprocess.run([*command, f"--ignore={__file__}"], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:]
    assert " passed" in ended.stdout


def test_an_instruction_set_is_taken_by_every_loop(monkeypatch):
    if fast.loops_in_use() != "cython":
        pytest.skip("the NumPy loops are in use")
    monkeypatch.setenv("HERD_SIMD", "avx2+fma")  # which few loops have
    for topic in fast.TWINS:
        module = import_module(f"herdcli.fast._{topic}")
        if hasattr(module, "use_instruction_set"):
            before = module.instruction_set()
            if "avx2" not in module.instruction_sets():
                pytest.skip("this machine has no AVX2")
            try:
                assert fast._load_compiled_loops(topic).instruction_set() == ("avx2+fma" if topic == "embedding" else "avx2")
            finally:
                module.use_instruction_set(before)
        else:
            assert topic in ("clusters", "families", "flips", "junction", "markov", "orders", "standardize")


def test_unknown_loops_are_refused():
    with pytest.raises(BadUsage, match="unknown kernels 'fortran', expected cython or python"):
        fast.use_loops("fortran")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fast.nothing
