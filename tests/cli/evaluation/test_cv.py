"""herd cv: the folds are those of --split K/N, the table has their means, and bad command lines are one line."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.tables.dataset_preparation import assign_splits
from herdcli.errors import BadUsage, DataError
from herdcli.evaluation.fold_summary import comparison, fold_means_and_errors
from herdcli.splits import TEST, TRAIN, VALID

HERD = Path(sys.executable).with_name("herd")


@pytest.mark.parametrize(("rows", "folds"), [(23, 5), (10, 2), (7, 7)])
def test_each_row_is_tested_once_and_validates_once(rows, folds):
    data = Dataset(np.zeros((rows, 1)))
    splits = np.array([assign_splits(data, f"{number}/{folds}", 3) for number in range(1, folds + 1)])
    assert ((splits == TEST).sum(axis=0) == 1).all()
    assert ((splits == VALID).sum(axis=0) == (folds > 2)).all()
    assert ((splits == TRAIN).sum(axis=0) == folds - 1 - (folds > 2)).all()
    sizes = (splits == TEST).sum(axis=1)
    assert sizes.max() - sizes.min() <= 1
    assert (np.roll(splits == TEST, -1, axis=0) == (splits == VALID)).all() or folds == 2


@pytest.mark.parametrize(("rows", "folds"), [(23, 5), (10, 2)])
def test_folds_without_validation_rows_have_the_same_test_rows(rows, folds):
    data = Dataset(np.zeros((rows, 1)))
    for number in range(1, folds + 1):
        alone, validated = (assign_splits(data, f"{number}/{folds}{end}", 3) for end in (",no-valid", ""))
        assert ((alone == TEST) == (validated == TEST)).all()
        assert ((alone == TRAIN) == (alone != TEST)).all()


def test_folds_do_not_depend_on_labels_and_skip_rows_of_weight_0():
    plain, labelled = Dataset(np.zeros((30, 1))), Dataset(np.zeros((30, 1)), y=np.arange(30) % 3)
    np.testing.assert_array_equal(assign_splits(plain, "1/5", 0), assign_splits(labelled, "1/5", 0))
    weighted = Dataset(np.zeros((30, 1)), weight=np.repeat([0.0, 1.0], 15))
    counts = np.bincount(assign_splits(weighted, "1/5", 0), minlength=4)
    assert counts.tolist() == [9, 3, 3, 15]


@pytest.mark.parametrize("spec", ["0/5", "6/5", "1/1"])
def test_a_fold_that_does_not_exist(spec):
    with pytest.raises(BadUsage, match=f"'{spec}' is not a fold"):
        assign_splits(Dataset(np.zeros((9, 1))), spec, 0)


def test_more_folds_than_rows():
    with pytest.raises(DataError, match=r"asks for 5 folds, but there are only 4 rows"):
        assign_splits(Dataset(np.zeros((4, 1))), "2/5", 0)


def test_means_and_standard_errors():
    rows = [{"fold": k, "kind": "x", "error": value, "log_likelihood_se": 1.0, "verdict": "ok"} for k, value in enumerate((1.0, 2.0, 6.0))]
    assert fold_means_and_errors(rows) == ({"error": 3.0}, {"error": pytest.approx(math.sqrt(7 / 3))})


def test_the_comparison_of_means_takes_the_differences_of_the_folds():
    rows = [{"error": error, "error_majority": error + gain} for error, gain in ((0.1, 0.02), (0.5, 0.03), (0.9, 0.025))]
    assert comparison(rows, "error", "error_majority") == "better than"
    assert (
        comparison(
            [{"log_likelihood": row["error"], "independent": row["error_majority"]} for row in rows], "log_likelihood", "independent"
        )
        == "worse than"
    )
    rows[0]["error_majority"] = 0.0
    assert comparison(rows, "error", "error_majority") == "no clear difference from"
    assert comparison(rows, "bic", "error") == ""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(60, 4))
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="a,b,c,d", comments="")
    return tmp_path


def test_the_table_is_that_of_the_folds_one_by_one(herd, folder):
    words = ("t.csv", "--model", "pca", "--components", 2)
    table = json.loads(herd("cv", "--folds", 3, "-j", 2, "--format", "json", "em", *words).out)
    assert [row["fold"] for row in table] == [1, 2, 3, "mean", "standard error"]
    errors = []
    for number in (1, 2, 3):
        assert herd("em", *words, "--split", f"{number}/3,no-valid", "-q", "-o", "m.h5").code == 0
        (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
        errors.append(row["squared_error"])
    assert [row["squared_error"] for row in table[:3]] == errors
    assert table[3]["squared_error"] == pytest.approx(np.mean(errors), rel=1e-15)
    assert table[4]["squared_error"] == pytest.approx(np.std(errors, ddof=1) / math.sqrt(3), rel=1e-15)


@pytest.mark.parametrize(
    ("more", "rows", "parts"), [((), 40, "2 of them)"), (("--hidden", 2, "--iterations", 3), 20, "1 of them, 1 is for validation)")]
)
def test_a_fit_without_use_for_validation_rows_trains_on_all_other_folds(herd, folder, more, rows, parts):
    words = ("t.csv", "--target", "d", *more)
    ended = herd("cv", "--folds", 3, "--format", "json", "regress", *words)
    assert ended.err.splitlines()[-1].startswith(f"cv: regress, 3 folds (each fit trains on {parts}, log-likelihood ")
    assert ", rmse 0." in ended.err.splitlines()[-1]
    split = "2/3" if more else "2/3,no-valid"
    assert herd("regress", *words, "--split", split, "-q", "-o", "m.h5").code == 0
    assert load(str(folder / "m.h5")).value.rows == rows
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    assert json.loads(ended.out)[1]["rmse"] == row["rmse"]


def test_the_last_line_has_the_error_and_the_verdict_of_the_means(herd, tmp_path):
    x = np.arange(60) % 7
    np.savetxt(tmp_path / "t.csv", np.column_stack([x, x > 2]), fmt="%d", delimiter=",", header="x,y", comments="")
    last = herd("cv", "--folds", 3, "regress", "t.csv", "--l2", 0.01).err.splitlines()[-1]
    assert "(better than mean response -0.7" in last
    assert ", error 0 (better than majority 0." in last


def test_rows_from_stdin_a_file_for_the_table_and_a_requirement(herd, folder):
    words = ("--folds", 2, "--require", "squared_error<0", "-o", "t.tsv", "em", "--model", "pca", "--components", 2)
    ended = herd("cv", *words, stdin=(folder / "t.csv").read_bytes())
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("herd cv: squared_error is ")
    lines = (folder / "t.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["fold", "1", "2", "mean", "standard error"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ("eval", "t.csv"),
            2,
            "herd cv cannot cross-validate the command 'eval'\nhint: use one of fit-rbm, herd, nherd-train, fit-mrf, ica, em, regress\n",
        ),
        (("em", "t.csv", "--split", "1/2"), 2, "--split is not allowed in herd cv em\nhint: leave it out\n"),
        (("em", "t.csv", "-o", "x"), 2, "--output is not allowed in herd cv em\nhint: herd cv -o FILE em …\n"),
        (("em", "--folds", "3", "t.csv"), 2, "--folds is an option of herd cv, so it comes before em\nhint: herd cv --folds … em …\n"),
        (("-o", "t.csv", "em", "t.csv"), 2, "t.csv: -o would overwrite this input\nhint: name another file: -o FILE\n"),
        (("-o", "./t.csv", "regress", "t.csv", "--target", "a"), 2, "./t.csv: -o would overwrite the input t.csv\n"),
        (("fit-mrf", "t.csv", "--path", "p.csv"), 2, "--path is not allowed in herd cv fit-mrf\nhint: leave it out\n"),
        (("-o", "no/such/folder.tsv", "em", "t.csv"), 73, "no/such/folder.tsv: "),
        (("em", "none.csv"), 66, "fold 1: em: none.csv: there is no such file\n"),
        (("em", "t.csv", "--components", "0"), 2, "fold 1: em: Invalid value for '--components'"),
    ],
)
def test_bad_command_lines_are_one_line(herd, folder, words, code, message):
    ended = herd("cv", *words)
    assert ended.code == code
    assert ended.err.startswith(f"herd cv: {message}")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are looked up in /proc")
def test_a_signal_ends_the_fits_too(folder):
    line = [HERD, "cv", "em", "t.csv", "--components", "5", "--iterations", "100000000", "--tolerance", "0", "--starts", "100000"]
    began = time.monotonic()
    process = subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "HERD_THREADS": "2"})
    fits: set[str] = set()
    while len(fits) < 2 and time.monotonic() - began < 60:
        fits = {child for task in Path(f"/proc/{process.pid}/task").iterdir() for child in (task / "children").read_text().split()}
        time.sleep(0.05)
    process.terminate()
    _, messages = process.communicate(timeout=60)
    assert (process.returncode, messages.decode().splitlines()[-1].startswith("herd cv: interrupted")) == (143, True)
    assert len(fits) == 2
    assert not any(Path(f"/proc/{fit}").exists() for fit in fits)
