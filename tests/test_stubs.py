"""The types of the Python functions are those of the commands' options, and a user's type checker sees them."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import herdcli as herd
from herdcli.cli.ica.values import ALGORITHMS
from herdcli.engine import command_function

ROOT = Path(__file__).resolve().parent.parent
USER = """\
import numpy as np

import herdcli as herd

X = np.zeros((10, 3))
rbm = herd.fit_rbm(X, hidden=10, epochs=2, per_class=False)
rows = herd.eval(rbm, likelihood="exact")
reveal_type(rows)
herd.ica(X, algorithm="fastica", seed=1)
herd.fit_rbm(X, hiden=10)
herd.ica(X, algorithm="fastika")
herd.herd(X, iterations="many")
herd.apply(rbm, X, wants="states")
reveal_type(rbm)
reveal_type(rbm.score(X))
reveal_type(herd.load("model.h5").evaluate())
fit: herd.Result = herd.regress(X.tolist(), [1.0] * 10, evidence={"a": 1})
fit.predict(X).round(2), fit.plot("residuals", path="plot.png"), fit.coefficients, fit.summary().upper()
fit.sample("ten")
herd.ups_infer("alarm.bif", evidence={"a": "yes"}, iterations=100)
herd.ups_infer()
"""


def test_the_stubs_are_what_the_options_say():
    done = subprocess.run([sys.executable, ROOT / "scripts", "dev/make_stubs", "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_type_checker_finds_a_users_slips(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), "user.py"]
    package = Path(herd.__file__).resolve().parent.parent  # which mypy does not find by itself in an editable installation
    paths = {} if package.name == "site-packages" else {"MYPYPATH": str(package)}
    found = subprocess.run(command, cwd=tmp_path, env=os.environ | paths, capture_output=True, text=True, check=False).stdout
    messages = [line for line in found.splitlines() if "error:" in line or "Revealed" in line]
    assert [line.split(":")[1] for line in messages] == ["8", "10", "11", "12", "13", "14", "15", "16", "17", "19", "21"], found
    assert 'Revealed type is "list[dict[str, Any]]"' in messages[0]
    assert 'Unexpected keyword argument "hiden" for "fit_rbm"; did you mean "hidden"?' in messages[1]
    assert "incompatible type \"Literal['fastika']\"" in messages[2]
    assert 'Argument "iterations" to "herd" has incompatible type "str"; expected "int"' in messages[3]
    revealed = [line.partition('Revealed type is "')[2].rstrip('"') for line in messages[5:8]]
    assert revealed == ["herdcli.Result", "float", "dict[str, Any]"], revealed
    assert 'Unexpected keyword argument "evidence" for "regress"' in messages[8]
    assert 'Argument 1 to "sample" of "Result" has incompatible type "str"; expected "int"' in messages[9]
    assert 'Missing positional argument "network" in call to "ups_infer"' in messages[10]


def test_signatures_have_types_and_defaults():
    parameters = inspect.signature(herd.ica).parameters
    assert parameters["algorithm"].annotation == f"Literal[{', '.join(map(repr, ALGORITHMS))}]"
    assert (parameters["algorithm"].default, parameters["momentum"].default, parameters["filters"].default) == ("ml", 0.9, None)
    assert (parameters["one_pass"].annotation, parameters["one_pass"].default) == ("bool", False)
    assert "  momentum: Share of each update that carries over to the next." in command_function("ica").__doc__


def test_completion_sees_the_functions():
    assert {"fit_rbm", "ups_infer", "load"} <= set(dir(herd))
