"""`fit-rbm --draw-missing`: training rows with missing values."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli import artifacts


@pytest.fixture
def torn(tmp_path):
    """torn.npz: 300 rows of four columns that mostly agree, a fifth of the entries missing; split .6, .2, .2."""
    random = np.random.default_rng(0)
    on = random.integers(0, 2, 300)
    X = np.where(random.random((300, 4)) < 0.95, on[:, None], 1 - on[:, None]).astype(float)
    X[random.random(X.shape) < 0.2] = np.nan
    np.savez(tmp_path / "torn.npz", X=X, y=on, split=np.repeat([0, 1, 2], [180, 60, 60]).astype(np.uint8))
    return X


def test_rows_with_gaps_are_learned_from_and_held_out_ones_left_out(herd, torn, tmp_path) -> None:
    told = herd("fit-rbm", "torn.npz", "--hidden", "3", "--epochs", "30", "--draw-missing", "-o", "m.h5")
    assert told.code == 0, told.err
    gaps = np.isnan(torn).any(axis=1)
    said = told.err.splitlines()
    assert said[:2] == [
        f"fit-rbm: {gaps[:180].sum()} of 180 training rows have missing values",
        f"fit-rbm: {gaps[180:].sum()} held-out rows with missing values are left out",
    ]
    model = artifacts.load(str(tmp_path / "m.h5")).value
    assert len(model.holdout.X) == (~gaps[180:]).sum()
    assert model.training_energy is None
    row = dict(zip(*(line.split("\t") for line in herd("eval", "m.h5").out.decode().splitlines()), strict=True))
    assert float(row["log_likelihood"]) > float(row["independent"]) + 0.3
    assert "free_energy_gap" not in row


def test_rows_with_gaps_and_labels_are_learned_together(herd, torn) -> None:
    asked = ("--labels", "generative", "--hidden", "3", "--epochs", "30", "--draw-missing")
    told = herd("fit-rbm", "torn.npz", *asked, "-o", "m.h5")
    assert told.code == 0, told.err
    row = dict(zip(*(line.split("\t") for line in herd("eval", "m.h5").out.decode().splitlines()), strict=True))
    assert float(row["log_likelihood"]) > float(row["independent"]) + 0.3
    assert float(row["error"]) < 0.1


def test_the_same_bytes_on_two_threads(herd, torn, tmp_path) -> None:
    for threads in ("1", "2"):
        asked = ("--hidden", "3", "--epochs", "2", "--batch-size", "all", "--draw-missing", "-j", threads)
        assert herd("fit-rbm", "torn.npz", *asked, "-o", f"{threads}.h5").code == 0
    assert (tmp_path / "1.h5").read_bytes() == (tmp_path / "2.h5").read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--labels", "hybrid"),
            "--draw-missing and --labels hybrid exclude each other: entries are drawn by the likelihood of rows\n"
            "hint: use --labels generative",
        ),
        (("--missing", "drop"), "--draw-missing and --missing exclude each other\nhint: leave one of them out"),
        (("--layers", "3,3"), "--layers and --draw-missing exclude each other"),
        (
            ("--units", "softmax:2"),
            "missing values can be sampled only for units with one column, not for softmax:2 units\nhint: use --missing drop or mean",
        ),
        (
            ("--algorithm", "pseudo-likelihood"),
            "missing values cannot be sampled with --algorithm pseudo-likelihood, --learn-variances or --average-scores\n"
            "hint: use --missing drop or mean",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_needs_whole_rows_is_refused(herd, torn, options, said) -> None:
    told = herd("fit-rbm", "torn.npz", "--hidden", "4", *options, "--draw-missing", "-o", "m.h5")
    assert told.code == 2
    assert told.err.removeprefix("herd fit-rbm: ").strip() == said


def test_whole_rows_are_told(herd, small) -> None:
    told = herd("fit-rbm", "small.h5", "--hidden", "3", "--epochs", "1", "--draw-missing", "-o", "m.h5")
    assert told.code == 0
    assert "fit-rbm: warning: --draw-missing has no effect: no value is missing\n" in told.err


def test_a_column_without_values_is_refused(herd, torn, tmp_path) -> None:
    X = torn.copy()
    X[:, 2] = np.nan
    np.savez(tmp_path / "empty.npz", X=X)
    told = herd("fit-rbm", "empty.npz", "--hidden", "3", "--draw-missing", "-o", "m.h5")
    assert (told.code, told.err) == (
        65,
        "herd fit-rbm: empty.npz: all values of column 2 of /X are missing\nhint: leave the column out with --drop\n",
    )
