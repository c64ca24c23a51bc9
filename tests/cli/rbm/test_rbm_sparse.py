"""Sparse rows through fit-rbm, eval and apply: the same figures as dense ones, and CSR in the artifact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from herdcli import artifacts

COUNTS = np.random.default_rng(0).poisson(0.15, (60, 30)).astype(np.uint16)
LABELS = (COUNTS[:, 0] > 0).astype(np.int32)


def write(path: Path, sparse: bool) -> str:
    """The counts as a data set, dense or as CSR."""
    with h5py.File(path, "w") as file:
        if sparse:
            X, group = csr_matrix(COUNTS), file.create_group("X")
            group.attrs["format"], group.attrs["shape"] = "csr", COUNTS.shape
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(X, part)
        else:
            file["X"] = COUNTS
        file["y"] = LABELS
    return str(path)


def figures(told: list[Any]) -> list[float]:
    """All numbers of the tables of eval."""
    cells = [cell for each in told[:2] for line in each.out.splitlines()[1:] for cell in line.split("\t")]
    return [float(cell) for cell in cells if cell.lstrip("-").replace(".", "", 1).replace("e-", "", 1).isdigit()]


@pytest.mark.parametrize(
    "options",
    [("--range", "0,9", "--threshold", ".1"), ("--visible-units", "poisson"), ("--range", "0,9", "--threshold", ".1", "--per-class")],
    ids=["binary", "poisson", "classes"],
)
def test_sparse_rows_learn_what_dense_rows_learn(tmp_path: Path, run: Callable[..., Any], options: tuple[str, ...]) -> None:
    made, told, energies = [], [], []
    for name, sparse in (("sparse", True), ("dense", False)):
        source = write(tmp_path / f"{name}.h5", sparse)
        made.append(str(tmp_path / f"{name}.rbm.h5"))
        assert run("fit-rbm", source, "--hidden", "4", "--epochs", "5", *options, "-o", made[-1]).code == 0
        shown = str(tmp_path / f"{name}.features.h5")
        told.append(
            [
                run("eval", made[-1]),
                run("eval", made[-1], "--data", source),
                run("apply", made[-1], source, "--want", "energies", "-o", shown),
            ]
        )
        energies.append(artifacts.load(shown).value.X)
    np.testing.assert_allclose(*energies, rtol=1e-12)
    models = [artifacts.load(path).value for path in made]
    for name in ("W", "b", "c"):
        np.testing.assert_array_equal(getattr(models[0], name), getattr(models[1], name))
    assert hasattr(models[0].holdout.X, "indptr")
    np.testing.assert_array_equal(models[0].holdout.X.toarray(), models[1].holdout.X)
    for one, other in zip(*told, strict=True):
        assert one.code == other.code == 0
    for one, other in zip(*(figures(each) for each in told), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_counts_are_on_above_zero_which_is_said(tmp_path: Path, run: Callable[..., Any]) -> None:
    told = run("fit-rbm", write(tmp_path / "words.h5", True), "--hidden", "2", "--epochs", "1", "-o", str(tmp_path / "m.h5"))
    assert told.code == 0
    assert "fit-rbm: counts above 0 are read as 1 (--threshold)\n" in told.err
    held = artifacts.load(str(tmp_path / "m.h5")).value.holdout
    assert set(np.unique(held.X.toarray())) <= {0, 1}
