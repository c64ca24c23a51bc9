"""`herd sample` of harmoniums: independent rows where a layer can be weighed, chains where they are asked for, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from herdcli import artifacts
from herdcli.rbm.model import rbm_from_weights

Run = Callable[..., Any]
FAR = 30.0  # standard deviations between two clouds, of which the far one has 80 % of the rows


@pytest.fixture
def clouds(tmp_path: Path, run: Run) -> Path:
    """m.h5, a model of two clouds; wide.h5, one of two opposite clouds of bits whose layers both have too many states."""
    W = np.array([[FAR], [0.0]])
    artifacts.save("m.h5", rbm_from_weights(W, np.zeros(2), np.array([np.log(4.0) - FAR**2 / 2]), "gaussian", "binary"), [])
    artifacts.save("wide.h5", rbm_from_weights(np.full((40, 30), 1.0), np.zeros(40), np.zeros(30), "spin", "spin"), [])
    return tmp_path


def test_clouds_have_their_shares_and_the_history_says_how(clouds: Path, run: Run) -> None:
    ended = run("sample", "m.h5", "-m", "1000", "-o", "s.h5")
    assert ended.code == 0
    assert ended.err.startswith("sample: 1000 rows × 2 columns, independent, ")
    found = artifacts.load("s.h5")
    assert (found.value.X[:, 0] > FAR / 2).mean() == pytest.approx(0.8, abs=0.06)
    assert found.history[-1]["parameters"]["burn_in"] is None
    assert run("sample", "m.h5", "-m", "1000", "-j", "2", "-q", "-o", "two.h5").code == 0
    assert Path("s.h5").read_bytes() == Path("two.h5").read_bytes()


@pytest.mark.parametrize("asked", [("--burn-in", "100"), ("--chains", "50", "--burn-in", "100"), ("--chains", "90")])
def test_chains_that_disagree_are_told(clouds: Path, run: Run, asked: tuple[str, ...]) -> None:
    ended = run("sample", "m.h5", *asked, "-o", "s.h5")
    says = "the chains disagree (R̂ above 100), so shares of modes may be wrong; without --burn-in and --chains, rows are independent"
    assert (ended.code, ended.err.splitlines()[0]) == (0, f"sample: warning: {says}")
    sweeps = 100 if "--burn-in" in asked else 1000
    assert ended.err.splitlines()[-1].startswith(f"sample: 100 rows × 2 columns, chains of {sweeps} sweeps, ")


def test_where_there_are_too_many_states_chains_are_run_and_judged(clouds: Path, run: Run) -> None:
    ended = run("sample", "wide.h5", "-o", "s.h5")
    says = "sample: warning: the chains disagree (R̂ above 100), so shares of modes may be wrong; a longer --burn-in may help"
    assert (ended.code, ended.err.splitlines()[0]) == (0, says)
    assert artifacts.load("s.h5").history[-1]["parameters"]["burn_in"] == 1000


def test_gaps_of_rows_are_drawn_from_both_clouds(clouds: Path, run: Run) -> None:
    Path("torn.csv").write_text("a,b\n,0.5\n")
    assert run("sample", "m.h5", "--given", "torn.csv", "-m", "1000", "-q", "-o", "s.h5").code == 0
    X = artifacts.load("s.h5").value.X
    assert (X[:, 0] > FAR / 2).mean() == pytest.approx(0.8, abs=0.06)
    assert (X[:, 1] == 0.5).all()
