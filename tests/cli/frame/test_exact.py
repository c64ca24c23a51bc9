"""--exact: one digest whatever the loops and threads, nothing of NumPy's or the C library's transcendental functions, refusals by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from herdcli import artifacts
from herdcli.cli.main import main
from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.rules.rule_table import TABLE

Run = Callable[..., Any]
UFUNCS = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "logaddexp", "power", "hypot", "matmul", "vdot", "dot")
LAPACK = ("solve", "inv", "eigh", "svd", "cholesky", "norm", "slogdet", "qr", "lstsq")
LIBM = ("exp", "log", "log1p", "pow", "tanh")  # log2 of numbers of states is compared with limits that are whole numbers


def herd(*arguments: str) -> int:
    """The exit code of a command in this process."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of bits and of real numbers, and exact models of the first: a small one, a wide one and one of classes."""
    made = tmp_path_factory.mktemp("exact")
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    bits = (random.random((60, 9)) < np.where(y[:, None] == 1, 0.3, 0.7)).astype(int)
    names = ",".join(f"x{j}" for j in range(9))
    np.savetxt(made / "bits.csv", np.c_[bits, y], delimiter=",", header=f"{names},y", comments="", fmt="%d")
    np.savetxt(made / "real.csv", random.normal(size=(50, 3)), delimiter=",", header="a,b,c", comments="")
    np.savetxt(made / "one.csv", random.normal(size=(30, 1)), delimiter=",", header="a", comments="")
    for name, options in {"m.h5": ("--hidden", "4"), "wide.h5": ("--hidden", "30"), "classes.h5": ("--per-class", "--hidden", "3")}.items():
        assert herd("fit-rbm", f"{made}/bits.csv", "--label", "y", *options, "--epochs", "2", "--exact", "-q", "-o", f"{made}/{name}") == 0
    return made


@pytest.fixture
def models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder, to work in."""
    monkeypatch.chdir(folder)
    return folder


LINES = {
    "fit-rbm": "fit-rbm bits.csv --hidden 4 --epochs 2",
    "fit-rbm, persistent": "fit-rbm bits.csv --hidden 4 --epochs 2 --algorithm pcd --validate-every 1",
    "fit-rbm, exact gradient": "fit-rbm bits.csv --hidden 4 --epochs 1 --algorithm exact",
    "fit-rbm, pseudo-likelihood": "fit-rbm bits.csv --hidden 4 --epochs 1 --algorithm pseudo-likelihood",
    "fit-rbm, Gaussian visible units": "fit-rbm real.csv --visible-units gaussian --standardize --hidden 4 --epochs 1",
    "fit-rbm, Gaussian units": "fit-rbm real.csv --units gaussian --standardize --hidden 4 --epochs 2 --validate-every 1",
    "fit-rbm, spins": "fit-rbm bits.csv --units spin --hidden 4 --epochs 1 --validate-every 1",
    "fit-rbm, softmax": "fit-rbm bits.csv --hidden-units softmax:3 --hidden 6 --epochs 1 --validate-every 1",
    "eval": "eval m.h5",
    "eval, annealed": "eval wide.h5 --temperatures 60",
    "eval, ais": "eval wide.h5 --likelihood ais --temperatures 30 --reverse --unit bits",
    "eval, classes": "eval classes.h5",
    "apply": "apply m.h5 bits.csv",
    "apply, energies": "apply m.h5 bits.csv --want energies",
    "apply, states": "apply m.h5 bits.csv --want states",
    "apply, classes": "apply classes.h5 bits.csv",
    **{f"kernel-herd, {rule}": f"kernel-herd real.csv -m 5 --rule {rule}" for rule in TABLE if rule not in ("step", "sobol")},
    "kernel-herd, sobol": "kernel-herd one.csv -m 5 --rule sobol",
    "kernel-herd, swaps": "kernel-herd real.csv -m 5 --refine 2 --atom-weights simplex",
    "kernel-herd, affine": "kernel-herd real.csv -m 5 --atom-weights affine --scale std",
    "kernel-herd, free": "kernel-herd real.csv -m 5 --atom-weights free --kernel matern32",
    "kernel-herd, sum": "kernel-herd real.csv -m 5 --kernel laplace*0.5+polynomial:3,1",
    "kernel-herd, features": "kernel-herd real.csv -m 5 --kernel features:x+xx",
}


def digest(line: str, *more: str) -> str:
    """What a line writes, by its seal, or by its figures without a name of a file."""
    out = "out.json" if line.startswith("eval") else "out.h5"
    Path(out).unlink(missing_ok=True)
    assert herd(*line.split(), *more, "-q", "-o", out) == 0
    return Path(out).read_text() if out == "out.json" else artifacts.load(out).sha256


def forbidden(name: str) -> Callable[..., Any]:
    def used(*values: object, **more: object) -> None:
        raise AssertionError(f"{name} was called")

    return used


@pytest.mark.parametrize("name", LINES)
def test_nothing_is_asked_of_other_libraries(name: str, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`@` cannot be caught so: tests/test_architecture.py looks for it."""
    import scipy.linalg

    for module, names in ((np, UFUNCS), (np.linalg, LAPACK), (math, LIBM), (scipy.linalg, ("solve_triangular", "cho_factor"))):
        for each in names:
            monkeypatch.setattr(module, each, forbidden(f"{module.__name__}.{each}"))
    one = digest(LINES[name], "--exact", "--threads", "1") if "apply" not in name else digest(LINES[name], "--exact")
    assert not exact_arithmetic.is_exact()
    if "apply" not in name:
        assert digest(LINES[name], "--exact", "--threads", "3") == one


def test_the_option_stands_in_the_history_where_it_was_given(models: Path) -> None:
    assert herd("fit-rbm", "bits.csv", "--hidden", "4", "--epochs", "1", "-q", "-o", "plain.h5") == 0
    assert "exact" not in artifacts.load("plain.h5").history[-1]["parameters"]
    assert artifacts.load("m.h5").history[-1]["parameters"]["exact"] is True


def test_what_was_made_exactly_is_made_again_exactly(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert herd("check", "--rerun", "m.h5", "--input", "bits.csv") == 0
    assert capsys.readouterr().out == "m.h5: reproduced: same bytes\n"


def test_a_run_that_was_stopped_goes_on_exactly(models: Path) -> None:
    whole = digest("fit-rbm bits.csv --hidden 4 --epochs 3 --exact", "--checkpoint", "c.h5", "--every", "1")
    assert digest("fit-rbm bits.csv --hidden 4 --epochs 3 --exact") == whole


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("fit-rbm bits.csv --units poisson", "--exact does not work with poisson units", "units: binary, spin, gaussian, softmax:K"),
        ("fit-rbm bits.csv --hidden-units rate:4", "--exact does not work with rate:4 units", "units: binary, spin, gaussian, softmax:K"),
        ("fit-rbm bits.csv --layers 4,2", "--exact does not work with --layers", ""),
        ("fit-rbm real.csv --recurrent --visible-units gaussian", "--exact does not work with --recurrent", ""),
        ("fit-rbm bits.csv --pairs --label y", "--exact does not work with --pairs", ""),
        ("kernel-herd real.csv -m 3 --kernel rational-quadratic:1,2", "--exact does not work with --kernel rational-quadratic:1,2", ""),
        ("kernel-herd real.csv -m 3 --trace-projected", "--exact does not work with --trace-projected", ""),
        ("kernel-herd -m 3 --distribution uniform --candidates grid:64", "--exact does not work with --distribution", ""),
        ("eval m.h5 --plot filters f.png", "--exact does not work with --plot", ""),
        ("eval m.h5 --report f.html", "--exact does not work with --report", ""),
    ],
)
def test_what_cannot_be_exact_is_refused(line: str, said: str, hint: str, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert herd(*line.split(), "--exact", "-o", "never.h5") == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2].endswith(f": {said}")
    assert lines[-1] == f"hint: {hint or 'leave out --exact; results may then differ in the last digits between machines'}"
    assert not Path("never.h5").exists()


@pytest.mark.parametrize("command", ["eval", "apply"])
def test_models_of_other_kinds_are_refused(command: str, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert herd(*["em", "real.csv", "--components", "2", "--iterations", "2", "-q", "-o", "em.h5"]) == 0
    assert herd(command, "em.h5", *(["real.csv"] if command == "apply" else []), "--exact", "-o", "never.h5") == 2
    assert "em.h5: --exact works with models of kind rbm, not mixture" in capsys.readouterr().err
