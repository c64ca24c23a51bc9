"""Rows that harmoniums cannot learn from, or can learn nothing of, and imported models judged by rows without validation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Run = Callable[..., Any]
SPLIT = (np.arange(60) % 3).astype(np.uint8)
ZERO = np.zeros((60, 5), dtype=np.int64)


def table(told: Any) -> dict[str, str]:
    return dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))


@pytest.mark.parametrize(
    ("arrays", "options", "said"),
    [
        ({"X": ZERO}, ("--visible-units", "words"), "in.npz: /X: row 0 has no words\n"),
        ({"X": np.eye(60, 5, dtype=np.int64)}, ("--visible-units", "words"), "in.npz: /X: row 5 has no words\n"),
        (
            {"X": np.eye(60, 5, dtype=np.int64), "y": np.zeros(60, dtype=np.int64)},
            ("--labels", "hybrid"),
            "in.npz: has only one label, 0, but classes need at least two\n",
        ),
        (
            {"X": np.eye(60, 5, dtype=np.int64), "y": np.zeros(60, dtype=np.int64)},
            ("--per-class",),
            "in.npz: has only one label, 0, but classes need at least two\n",
        ),
        (
            {"X": np.eye(60, 5, dtype=np.int64)},
            ("--labels", "hybrid"),
            "in.npz: there are no labels, which --labels needs\nhint: name the column of labels: --label COLUMN\n",
        ),
    ],
    ids=["no words at all", "a row without words", "one label", "one class", "no labels"],
)
def test_rows_that_cannot_be_learned_are_refused(
    run: Run, tmp_path: Path, arrays: dict[str, Any], options: tuple[str, ...], said: str
) -> None:
    np.savez(tmp_path / "in.npz", **arrays, split=SPLIT)
    told = run("fit-rbm", "in.npz", "--hidden", "2", "--epochs", "1", *options, "-o", "m.h5")
    assert (told.code, told.err) == (65, f"herd fit-rbm: {said}")
    assert not (tmp_path / "m.h5").exists()


def test_rows_of_zeros_alone_are_learned_as_such(run: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", X=ZERO, split=SPLIT)
    told = run("fit-rbm", "in.npz", "--hidden", "2", "--epochs", "2", "--track-likelihood", "-o", "m.h5")
    assert told.code == 0
    assert told.err.splitlines()[0] == "fit-rbm: warning: 5 of 5 columns are constant in all training rows: their weights stay 0"
    row = table(run("eval", "m.h5"))
    assert row["verdict"] == "learned nothing; dead units"
    assert float(row["log_likelihood"]) == pytest.approx(float(row["independent"]), abs=5e-2)
    assert float(row["log_likelihood_tracked"]) == pytest.approx(float(row["log_likelihood"]), abs=1e-3)


def test_columns_that_single_precision_rounds_are_told(run: Run, tmp_path: Path) -> None:
    """Times in seconds, of an hour: their float32 neighbours are two minutes apart."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    X[:, 1] += 100
    X[:, 2] = 1.7e9 + np.arange(60) * 60.0
    np.savez(tmp_path / "in.npz", X=X, split=SPLIT)
    told = run("fit-rbm", "in.npz", "--visible-units", "gaussian", "--standardize", "--hidden", "2", "--epochs", "1", "-o", "m.h5")
    assert told.code == 0
    said = "x2: the values are large and vary little, so single precision loses digits: subtract the means first"
    assert told.err.splitlines()[0] == f"fit-rbm: warning: {said}"


def test_an_imported_model_is_annealed_from_the_rows_given(run: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    np.savez(tmp_path / "w.npz", W=random.normal(0, 0.3, (12, 11)), b=np.zeros(12), c=np.zeros(11))
    np.savez(tmp_path / "in.npz", X=random.integers(0, 2, (60, 12)), split=np.full(60, 2, dtype=np.uint8))
    assert run("convert", "w.npz", "--to", "rbm", "-o", "m.h5").code == 0
    exact, annealed = (table(run("eval", "m.h5", "--data", "in.npz", "--likelihood", how)) for how in ("exact", "ais"))
    assert (exact["log_z_method"], annealed["log_z_method"]) == ("exact", "annealed")
    assert float(annealed["log_likelihood_low"]) <= float(exact["log_likelihood"]) <= float(annealed["log_likelihood_high"])
