"""nherd-train --coverage and apply --want sets as processes: told, stored, gone on with, judged, refused."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.online.predictions.coverage import RATE


def text(rows: int, seed: int, *, numbers: bool = False) -> bytes:
    """svmlight lines of three Gaussian classes, or of numbers with noise of 1."""
    random = np.random.default_rng(seed)
    y = random.integers(3, size=rows)
    X = random.standard_normal((rows, 4))
    X[np.arange(rows), y] += 2.0
    target = X @ np.array([1.0, 2.0, 0.0, -1.0]) + random.standard_normal(rows) if numbers else y
    pairs = [" ".join(f"{k + 1}:{x:.4f}" for k, x in enumerate(row)) for row in X.tolist()]
    return "".join(f"{label} {row}\n" for label, row in zip(target.tolist(), pairs, strict=True)).encode()


QUICK = ("--algorithm", "arow", "--C", "1")


@pytest.fixture
def trained(herd, tmp_path):
    """m.h5 of 3,000 lines at 0.9, and 2,000 others in test.svm."""
    (tmp_path / "train.svm").write_bytes(text(3_000, 0))
    (tmp_path / "test.svm").write_bytes(text(2_000, 1))
    made = herd("nherd-train", *QUICK, "--coverage", "0.9", "train.svm", "-o", "m.h5")
    assert made.code == 0, made.err
    return made


def test_sets_are_told_stored_and_given_to_new_rows(herd, tmp_path, trained):
    found = load(str(tmp_path / "m.h5")).value.coverage
    shown = f"{found.mean_size(numbers=False):.4g} classes a set"
    said = f"sets contain the true value for {found.share_covered:.4g} of them (goal: 0.9), {shown}"
    assert said in trained.err
    assert abs(found.share_covered - 0.9) <= (0.9 + RATE) / (RATE * 3_000)
    made = herd("apply", "m.h5", "test.svm", "--want", "sets", "-o", "sets.csv")
    assert made.code == 0, made.err
    said = "sets contain the true value in 90 % of the rows if these have the same distribution as the 2000 rows that calibrated the model"
    assert said in made.err
    rows = list(csv.DictReader(io.StringIO((tmp_path / "sets.csv").read_text())))
    y = [line.split(b" ")[0].decode() for line in (tmp_path / "test.svm").read_bytes().splitlines()]
    assert {row[name] for row in rows for name in "012"} == {"0", "1"}
    covered = np.mean([row[label] == "1" for row, label in zip(rows, y, strict=True)])
    assert abs(covered - 0.9) < 4 * np.sqrt(0.09 * (1 / 2_002 + 1 / 2_000))
    row = json.loads(herd("eval", "m.h5", "--data", "test.svm", "--format", "json").out)[0]
    assert row["coverage"] == pytest.approx(covered)
    assert row["set_size"] == pytest.approx(np.mean([sum(row[name] == "1" for name in "012") for row in rows]))
    assert row["progressive_coverage"] == found.share_covered
    alone = json.loads(herd("eval", "m.h5", "--format", "json").out)[0]
    assert (alone["judged_on"], alone["coverage"]) == ("calibration", None)


def test_going_on_ends_where_one_run_would(herd, tmp_path, trained):
    lines = (tmp_path / "train.svm").read_bytes().splitlines(keepends=True)
    first = herd("nherd-train", *QUICK, "--coverage", "0.9", "-o", "a.h5", stdin=b"".join(lines[:1_234]))
    second = herd("nherd-train", "--continue", "a.h5", "--coverage", "0.5", "-o", "b.h5", stdin=b"".join(lines[1_234:]))
    assert (first.code, second.code) == (0, 0), second.err
    assert "--coverage has no effect with --continue: the model decides" in second.err
    whole, parts = (load(str(tmp_path / name)).value.coverage for name in ("m.h5", "b.h5"))
    assert np.array_equal(whole.recent, parts.recent)
    assert (whole.alpha, whole.covered, whole.size, whole.threshold) == (parts.alpha, parts.covered, parts.size, parts.threshold)


def test_numbers_have_intervals(herd, tmp_path):
    (tmp_path / "test.svm").write_bytes(text(2_000, 1, numbers=True))
    made = herd("nherd-train", *QUICK, "--task", "regression", "--coverage", "0.8", "-o", "m.h5", stdin=text(3_000, 0, numbers=True))
    assert made.code == 0, made.err
    assert "; intervals contain the true value for 0." in made.err
    assert ", mean width " in made.err
    made = herd("apply", "m.h5", "test.svm", "--want", "sets", "-o", "i.csv")
    assert made.code == 0, made.err
    rows = np.array(
        [[float(row[n]) for n in ("predicted", "lower", "upper")] for row in csv.DictReader(io.StringIO((tmp_path / "i.csv").read_text()))]
    )
    y = np.array([float(line.split(b" ")[0]) for line in (tmp_path / "test.svm").read_bytes().splitlines()])
    assert np.allclose(rows[:, 0] - rows[:, 1], rows[:, 2] - rows[:, 0])
    covered = np.mean((rows[:, 1] <= y) & (y <= rows[:, 2]))
    assert abs(covered - 0.8) < 4 * np.sqrt(0.16 * (1 / 2_002 + 1 / 2_000))
    row = json.loads(herd("eval", "m.h5", "--data", "test.svm", "--format", "json").out)[0]
    assert row["coverage"] == pytest.approx(covered)
    assert row["width"] == pytest.approx(rows[0, 2] - rows[0, 1], rel=1e-9)


@pytest.mark.parametrize("level", ["0", "1", "1.5", "nan"])
def test_a_coverage_that_is_no_share_is_refused(herd, level):
    ended = herd("nherd-train", "--coverage", level, stdin=text(20, 0))
    assert ended.code == 2
    assert ended.err.splitlines()[0] == f"herd nherd-train: Invalid value for '--coverage': {float(level):g} is not between 0 and 1"


def test_what_cannot_have_sets_is_refused_in_a_line(herd, tmp_path, trained):
    def refused(*words, **more):
        ended = herd(*words, **more)
        return ended.code, *ended.err.splitlines()[:2]

    assert herd("nherd-train", "-q", *QUICK, "train.svm", "-o", "plain.h5").code == 0
    assert refused("apply", "plain.h5", "test.svm", "--want", "sets") == (
        2,
        "herd apply: plain.h5: --want sets needs a model learned with --coverage",
        "hint: train the model again: herd nherd-train --coverage 0.9",
    )
    assert refused("apply", "m.h5", "test.svm", "--want", "features") == (
        2,
        "herd apply: --want features does not work with a classifier",
        "hint: use --want classes or sets, or leave it out",
    )
    assert herd("data", "digits", "-o", "d.h5").code == herd("em", "d.h5", "--components", "2", "-o", "em.h5").code == 0
    assert refused("apply", "em.h5", "d.h5", "--want", "sets")[:2] == (
        2,
        "herd apply: --want sets is for models made by herd nherd-train --coverage, not for a mixture",
    )
    assert refused("nherd-train", "d.h5", "--coverage", "0.9", "--parts", "2", "--split", ".8,0,.2") == (
        2,
        "herd nherd-train: --coverage with --parts needs validation rows for the calibration, but there are none",
        "hint: hold out some rows: --split .6,.2,.2",
    )
    few = herd("nherd-train", "-q", *QUICK, "--task", "regression", "--coverage", "0.99", "-o", "few.h5", stdin=text(50, 0, numbers=True))
    assert few.code == 0, few.err
    assert refused("apply", "-q", "few.h5", "test.svm", "--want", "sets") == (
        65,
        "herd apply: few.h5: has 50 calibration scores, too few for intervals with this coverage",
        "hint: learn from more examples, or choose a lower --coverage",
    )


def test_sets_of_too_few_examples_hold_every_class(herd, tmp_path):
    assert herd("nherd-train", "-q", *QUICK, "--coverage", "0.99", "-o", "m.h5", stdin=text(60, 0)).code == 0
    made = herd("apply", "m.h5", "--want", "sets", stdin=text(5, 1))
    assert made.code == 0, made.err
    assert "5 rows × 3 classes, 3 in a set" in made.err
    assert herd("check", "m.h5").code == 0


def test_sets_of_a_merged_model_are_calibrated_by_examples_that_no_shard_has_learned(herd, tmp_path, trained):
    (tmp_path / "other.svm").write_bytes(text(1_000, 2))
    (tmp_path / "held.svm").write_bytes(text(500, 3))
    assert herd("nherd-train", "-q", *QUICK, "--multiclass", "top-1", "--coverage", "0.9", "other.svm", "-o", "n.h5").code == 0
    assert herd("merge", "-q", "m.h5", "n.h5", "-o", "both.h5").code == 0
    one, two, both = (load(str(tmp_path / f"{name}.h5")).value.coverage for name in ("m", "n", "both"))
    assert (both.examples, both.covered, both.size) == (4_000, one.covered + two.covered, one.size + two.size)
    assert (both.level, both.calibrated, both.threshold) == (0.9, 0, np.inf)
    refused = herd("apply", "both.h5", "test.svm", "--want", "sets")
    assert (refused.code, refused.err.splitlines()[0]) == (65, "herd apply: both.h5: has no calibration scores, which prediction sets need")
    assert herd("merge", "-q", "m.h5", "n.h5", "--calibration-data", "held.svm", "-o", "c.h5").code == 0
    found = load(str(tmp_path / "c.h5")).value
    row = json.loads(herd("eval", "c.h5", "--data", "test.svm", "--format", "json").out)[0]
    assert found.coverage.calibrated == 500
    assert abs(row["coverage"] - 0.9) < 4 * np.sqrt(0.09 * (1 / 502 + 1 / 2_000))
    assert herd("nherd-train", "-q", "--continue", "c.h5", "other.svm", "-o", "d.h5").code == 0
    for options, says in (
        (("--coverage", "0.8"), "was learned with --coverage 0.8, but model 1 with --coverage 0.9"),
        ((), "without --coverage"),
    ):
        assert herd("nherd-train", "-q", *QUICK, "--multiclass", "top-1", *options, "other.svm", "-o", "o.h5").code == 0
        ended = herd("merge", "m.h5", "o.h5")
        assert ended.code == 65
        assert says in ended.err.splitlines()[0]


@pytest.mark.parametrize("options", [(), ("--rounds", "2")], ids=["parts", "rounds"])
def test_sets_of_parts_are_calibrated_by_validation_rows(herd, tmp_path, options):
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 4_000)
    X = random.standard_normal((4_000, 4))
    X[np.arange(4_000), y] += 2.0
    np.savez(tmp_path / "t.npz", X=X, y=y)
    line = ("nherd-train", "-q", *QUICK, "t.npz", "--parts", "3", "--coverage", "0.9", *options)
    assert herd(*line, "-o", "m.h5").code == 0
    found = load(str(tmp_path / "m.h5")).value
    valid = found.holdout.split == 1
    assert found.coverage.calibrated == valid.sum()
    assert abs(valid.sum() - 800) < 3
    row = json.loads(herd("eval", "m.h5", "--format", "json").out)[0]
    assert abs(row["coverage"] - 0.9) < 4 * np.sqrt(0.09 * (2 / 800))
    if options:
        assert row["progressive_coverage"] is None  # a round's parts begin where others have been
        return
    assert found.coverage.examples == (found.running.examples)
    assert abs(row["progressive_coverage"] - 0.9) < 0.05
    for part in (1, 2):
        assert herd(*line, "--shard", f"{part}/2", "-o", f"{part}.h5").code == 0
    assert herd("merge", "-q", "2.h5", "1.h5", "-o", "whole.h5").code == 0
    assert (tmp_path / "whole.h5").read_bytes() == (tmp_path / "m.h5").read_bytes()
