"""The verdict of `herd eval`, and the warning of the same words at the end of training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

ARCHIVE = Path(__file__).resolve().parents[2] / "data"

# a training command, every finding of its verdict, and the findings that the command tells in words of its own
FITS = [
    ("fit-rbm --hidden 8 --epochs 8", "ok", {}),
    (
        "fit-rbm --hidden 8 --epochs 3 --learning-rate 5 --units spin",
        "worse than independent; dead units",
        {},
    ),
    ("fit-rbm --hidden 8 --epochs 1 --learning-rate 1e-6", "learned nothing", {}),
    ("fit-rbm --hidden 8 --epochs 2 --visible-units gaussian", "worse than one Gaussian; dead units", {}),
    ("fit-rbm --layers 6,4 --epochs 1 --learning-rate 1e-6", "learned nothing", {}),
    ("fit-rbm --pairs --hidden 8 --epochs 1 --learning-rate 1e-9", "learned nothing", {}),
    (
        "nherd-train --label-noise 0.95",
        "worse than majority; worse than nearest centroid; worse than a linear model; misleading probabilities",
        {},
    ),
    ("regress --l2 0.1", "ok", {}),
    ("regress --l2 1e9", "learned nothing; worse than nearest centroid; worse than a linear model", {}),
    ("regress --l2 0.01 --iterations 2", "not converged", {"not converged": "not converged after 2 steps"}),
    ("kernel-herd -m 20", "ok", {}),
    ("kernel-herd -m 20 --bandwidth 0.01", "kernel too narrow", {}),
    ("kernel-herd -m 20 --bandwidth 1e6", "kernel too wide", {}),
    ("kernel-herd -m 20 --embedding nystrom:200", "ok", {}),
    ("kernel-herd -m 20 --embedding fourier:60", "embedding too coarse", {}),
    ("em --model kmeans --components 1", "learned nothing", {}),
    (
        "em --components 10 --iterations 2 --shrinkage 0",
        "learned nothing; overfits; variance at floor; not converged",
        {"variance at floor": "raised to the floor", "not converged": "not converged after 2 iterations"},
    ),
    ("herd --hidden 8 --iterations 3", "not converged", {}),
    (
        "ica --components 20 --iterations 1",
        "worse than whitening; not converged",
        {"not converged": "not converged after 1 iteration"},
    ),
    ("ica --components 60 --split .08,.1,.1", "overfits; too few rows", {}),
    ("fit-mrf", "ok", {}),
    ("fit-mrf --smoothing 0", "impossible rows", {}),
    ("fit-mrf --structure independent --smoothing 1", "learned nothing", {}),
    (
        "fit-mrf --smoothing 0 --tolerance 1e-300 --iterations 2",
        "impossible rows; not converged",
        {"not converged": "did not converge in 2 iterations"},
    ),
]


@pytest.mark.parametrize(("line", "verdict", "told"), FITS, ids=[line for line, *_ in FITS])
def test_eval_and_training_say_the_same(herd, digits, tmp_path, line, verdict, told):
    """`eval` lists every finding, the loss against the baseline first; training says what it has not told in words of its own."""
    command, *options = line.split()
    learned = herd(command, digits, *options, "-o", "m.h5")
    assert learned.code == 0, learned.err
    assert herd("eval", "m.h5", "-o", "t.tsv", "--chains", "20").code == 0
    head, row = (text.split("\t") for text in (tmp_path / "t.tsv").read_text().splitlines())
    assert dict(zip(head, row, strict=True))["verdict"] == verdict
    for words in told.values():
        assert words in learned.err
    new = [finding for finding in verdict.split("; ") if finding not in told and finding != "ok"]
    said = f"warning: verdict: {'; '.join(new)}"
    assert (said in learned.err) == bool(new), learned.err
    assert learned.err.count("verdict: ") == bool(new), learned.err


def test_marginals_below_the_bound_of_mean_field_are_told(herd, tmp_path):
    """Mean field that began between the two states of a strong magnet stays there; all its mass on one of them is better."""
    pairs = [(0, 1), (1, 2), (0, 2)]
    tables = "\n".join("4 2980 1 1 2980" for _ in pairs)
    (tmp_path / "loop.uai").write_text("MARKOV\n3\n2 2 2\n3\n" + "".join(f"2 {i} {j}\n" for i, j in pairs) + tables + "\n")
    ended = herd("ups-infer", "loop.uai", "--algorithm", "mean-field", "-o", "b.h5")
    assert ended.code == 0, ended.err
    row = herd("eval", "b.h5", "-o", "t.json")
    assert row.code == 0
    (found,) = json.loads((tmp_path / "t.json").read_text())
    assert found["log_z"] < found["log_z_mean_field"]
    assert found["verdict"] == "below mean field"
    assert "warning: verdict: below mean field" in ended.err


@pytest.mark.parametrize("covariance", ["full", "tied", "spherical"])
def test_a_state_that_sits_on_one_value_is_told_and_a_constant_column_is_not(herd, tmp_path, covariance):
    """Two states, of which one shows the same value in every row; where they share a covariance, each shows one value."""
    random = np.random.default_rng(1)
    still = np.arange(300) // 10 % 2 == 0
    noise = np.where(still, 0.0, random.normal(size=300)) * (covariance == "full")
    rows = {"stuck": np.where(still, 0.0, 9.0) + noise, "free": np.where(still, -5, 5) + random.normal(size=300), "one": np.full(300, 2.0)}
    spread = random.normal(size=(300, 1))
    for name, columns in (("stuck", ("stuck", "one")), ("free", ("free", "one"))):
        X = np.stack([rows[each] for each in columns], axis=1)
        if (covariance, name) == ("spherical", "free"):
            X = X + spread
        np.savetxt(tmp_path / f"{name}.csv", X, delimiter=",", header=",".join(columns), comments="")
        line = ("em", f"{name}.csv", "--model", "hmm", "--components", "2", "--covariance", covariance, "-o", "m.h5")
        ended = herd(*line)
        assert ended.code == 0, ended.err
        row = herd("eval", "m.h5", "--format", "json")
        assert json.loads(row.out)[0]["verdict"] == ("variance at floor" if name == "stuck" else "ok"), (name, row.out)
        assert ("to the floor" in ended.err) == (name == "stuck")
        assert "verdict" not in ended.err  # it is said once


def test_one_component_that_the_criterion_chose_is_no_fault(herd, tmp_path):
    """One Gaussian is then both the model and its baseline."""
    np.savetxt(tmp_path / "normal.csv", np.random.default_rng(0).standard_normal((300, 3)), delimiter=",", header="a,b,c", comments="")
    ended = herd("em", "normal.csv", "-o", "m.h5")
    assert (ended.code, "1 component (best of 3 tried)" in ended.err, "verdict" in ended.err) == (0, True, False), ended.err
    assert herd("eval", "m.h5").out.decode().split()[-1] == "ok"


@pytest.mark.parametrize(
    "name", ["samples-1", "beliefs-1", "network-1", "regression-1", "classifier-1", "herding-1", "ica-2", "rbm-2", "hmm-1"]
)
def test_json_has_true_types(herd, tmp_path, name):
    """Counts are whole numbers, truths are true or false, measurements keep all their digits."""
    assert herd("eval", str(ARCHIVE / f"{name}.h5"), "-o", "t.json").code == 0
    (row,) = json.loads((tmp_path / "t.json").read_text())
    counts = {"atoms", "groups", "variables", "factors", "iterations", "rows", "components", "states", "filters", "dimensions", "pairs"}
    counts |= {"scaling_updates", "propagation_updates", "temperatures", "floors", "gallery", "probes"}
    for column, item in row.items():
        if item is not None and column in counts:
            assert type(item) is int, column
        if item is not None and column == "converged":
            assert type(item) is bool
