"""`herd sample` of mixtures and factors, and mixtures as targets of `herd kernel-herd`."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from herdcli import artifacts

Run = Callable[..., Any]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    own = np.arange(60) % 3 // 2
    X = random.normal(size=(60, 2)) + 6 * own[:, None]
    path = tmp_path / "rows.csv"
    path.write_text("u,v,y\n" + "".join(f"{a:.3f},{b:.3f},{'nw'[own[k]]}\n" for k, (a, b) in enumerate(X)))
    return path


def test_rows_of_a_mixture_carry_their_class(rows: Path, run: Run) -> None:
    assert run("em", rows, "--per-class", "-q", "-o", "m.h5").code == 0
    told = run("sample", "m.h5", "-m", "40", "--thin", "3", "--burn-in", "9", "-o", "drawn.csv")
    assert told.code == 0, told.err
    assert "sample: 40 rows × 2 columns with their classes, " in told.err
    assert "warning: --burn-in has no effect with a mixture model, whose rows are drawn at once\n" in told.err
    with open(rows.parent / "drawn.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["u", "v", "y"]
    assert {(float(row["u"]) > 3, row["y"]) for row in found} == {(False, "n"), (True, "w")}


def test_factors_are_drawn_from_and_principal_components_are_not(rows: Path, run: Run) -> None:
    assert run("em", rows, "--model", "ppca", "--components", "1", "--label", "y", "-q", "-o", "f.h5").code == 0
    told = run("sample", "f.h5", "-m", "1", "-o", "drawn.csv")
    assert "sample: 1 row × 2 columns, " in told.err
    assert run("em", rows, "--model", "pca", "--label", "y", "-q", "-o", "p.h5").code == 0
    refused = run("sample", "p.h5", "-o", "no.csv")
    hint = "hint: fit probabilistic PCA, which has the same axes: herd em --model ppca\n"
    assert (refused.code, refused.err) == (2, f"herd sample: cannot sample from pca: it is not a distribution\n{hint}")


def test_a_mixture_is_a_target_like_a_table_of_it(rows: Path, run: Run) -> None:
    assert run("em", rows, "--components", "2", "--label", "y", "-q", "-o", "m.h5").code == 0
    m = artifacts.load(str(rows.parent / "m.h5"), kinds={"mixture"}).value
    names = ["weight", "mean1", "mean2", "cov11", "cov12", "cov21", "cov22"]
    table = np.column_stack([m.weight, m.mean, m.covariance.reshape(2, 4)])
    np.savetxt(rows.parent / "table.csv", table, "%.17g", ",", header=",".join(names), comments="")
    line = ("kernel-herd", "-m", "4", "--kernel", "gaussian:1", "--candidates", "sample:50", "-q", "-o")
    for target in ("m.h5", "table.csv"):
        told = run(*line, f"{target}.atoms.csv", "--distribution", f"mixture:{target}")
        assert told.code == 0, told.err
    both = [np.loadtxt(rows.parent / f"{target}.atoms.csv", delimiter=",", skiprows=1) for target in ("m.h5", "table.csv")]
    np.testing.assert_allclose(*both, rtol=1e-12)
    assert abs(m.weight[0] - 0.5) > 0.1  # a column 'weight' of a table is that of its components
    assert run("em", rows, "--bayes", "--components", "2", "--label", "y", "-q", "-o", "b.h5").code == 0
    refused = run(*line, "no.csv", "--target", "mixture:b.h5")
    assert refused.code == 2
    assert "b.h5 is a variational Bayes model, a mixture of Student distributions" in refused.err
