"""Ways of learning a harmonium from the command line: that they run, are kept in the model, and are refused where they have no meaning."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from herdcli import artifacts

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("--algorithm", "pt", "--replicas", "3"), {"algorithm": "pt", "replicas": 3}),
        (("--algorithm", "tap", "--steps", "2"), {"algorithm": "tap", "steps": 2}),
        (("--optimizer", "adam"), {"optimizer": "adam", "learning_rate": 0.01}),
        (("--optimizer", "natural", "--final-steps", "3", "--rate-decay", "cosine"), {"optimizer": "natural", "final_steps": 3}),
    ],
)
def test_ways_of_learning_are_kept_and_gone_on_with(small: Path, run: Run, options: tuple[str, ...], kept: dict[str, object]) -> None:
    for threads in ("1", "2"):
        ended = run("fit-rbm", small, "--hidden", "3", "--epochs", "4", *options, "--keep-state", "-j", threads, "-o", f"m{threads}.h5")
        assert ended.code == 0, ended.err
    model = artifacts.load("m1.h5").value
    assert {name: getattr(model, name) for name in kept} == kept
    assert np.array_equal(model.W, artifacts.load("m2.h5").value.W)
    ended = run("fit-rbm", small, "--continue", "m1.h5", "--epochs", "2", "-o", "on.h5")
    assert ended.code == 0, ended.err
    further = artifacts.load("on.h5").value
    assert {name: getattr(further, name) for name in kept} == kept
    assert run("eval", "on.h5").code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--replicas", "3"), "warning: --replicas has no effect with --algorithm rpcd"),
        (("--algorithm", "exact", "--final-steps", "3"), "warning: --final-steps has no effect with --algorithm exact"),
    ],
)
def test_options_without_effect_are_told(small: Path, run: Run, options: tuple[str, ...], said: str) -> None:
    ended = run("fit-rbm", small, "--hidden", "3", "--epochs", "1", *options, "-o", "m.h5")
    assert ended.code == 0
    assert f"fit-rbm: {said}\n" in ended.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--optimizer", "natural", "--algorithm", "exact"),
            "--optimizer natural needs sampled states, but --algorithm exact samples none\nhint: use --algorithm pcd",
        ),
        (
            ("--optimizer", "adam", "--non-negative"),
            "--optimizer adam does not work with --l1-decay or --non-negative\nhint: leave out --optimizer",
        ),
        (
            ("--pairs", "--optimizer", "adam"),
            "--pairs and --optimizer exclude each other\nhint: a model of pairs is one model of all labels",
        ),
        (("--pairs", "--algorithm", "pt"), "--pairs and --algorithm pt exclude each other\nhint: use --algorithm pcd"),
        (
            ("--recurrent", "--optimizer", "adam"),
            "--recurrent and --optimizer exclude each other\nhint: leave one of them out",
        ),
        (
            ("--layers", "3,2", "--visible-units", "words"),
            "--layers does not work with words\nhint: use words with a single rbm, or with one for each class",
        ),
        (("--recurrent", "--rate-decay", "cosine"), "unknown rate_decay 'cosine', expected linear or none"),
    ],
)
def test_ways_that_do_not_go_together_are_refused(small: Path, run: Run, options: tuple[str, ...], message: str) -> None:
    ended = run("fit-rbm", small, "--hidden", "3", *options, "-o", "m.h5")
    assert (ended.code, ended.err) == (2, f"herd fit-rbm: {message}\n")
    assert not Path("m.h5").exists()


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Sixty rows of two classes, which their first four columns tell apart."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 60)
    X = (random.random((60, 8)) < np.where(np.arange(8) < 4, np.where(y[:, None] == 1, 0.9, 0.1), 0.5)).astype(np.uint8)
    path = tmp_path / "rows.csv"
    names = ",".join(f"x{j}" for j in range(8))
    path.write_text(f"{names},y\n" + "".join(f"{','.join(map(str, row))},{'ab'[label]}\n" for row, label in zip(X, y, strict=True)))
    return path


def test_rows_with_labels_are_learned_told_apart_sampled_and_judged(labelled: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = run("fit-rbm", labelled, "--labels", "hybrid", "--generative-share", ".2", "--hidden", "4", "--epochs", "150", "-o", "m.h5")
    assert ended.code == 0, ended.err
    model = artifacts.load("m.h5").value
    assert (model.visible_units, model.joint, model.generative_share, model.labels) == ("binary+softmax:2", "hybrid", 0.2, ["a", "b"])
    assert (model.columns, model.W.shape) == (8, (1, 10, 4))
    told = run("eval", "m.h5", "--data", labelled)
    row = dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))
    assert float(row["error"]) < 0.15 < float(row["error_majority"])
    assert -0.4 < float(row["label_log_likelihood"]) < 0
    assert run("apply", "m.h5", labelled, "-o", "p.h5").code == 0
    found = artifacts.load("p.h5").value
    np.testing.assert_allclose(found.X.sum(axis=1), 1)
    assert found.class_names == ["a", "b"]
    assert run("apply", "m.h5", labelled, "--want", "features", "-o", "f.h5").code == 0
    assert artifacts.load("f.h5").value.X.shape == (60, 4)
    assert run("sample", "m.h5", "-m", "30", "--burn-in", "20", "-o", "s.h5").code == 0
    drawn = artifacts.load("s.h5").value
    assert (drawn.X.shape, drawn.class_names, set(np.unique(drawn.X))) == ((30, 8), ["a", "b"], {0, 1})
    assert run("eval", "m.h5", "--plot", "filters", "w.png").code == 0
    assert run("fit-rbm", labelled, "--continue", "m.h5", "--epochs", "1", "-o", "on.h5").code == 0
    assert artifacts.load("on.h5").value.labels == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("fit-rbm", "bare.csv", "--labels", "hybrid"),
            65,
            "bare.csv: there are no labels, which --labels needs\nhint: name the column of labels: --label COLUMN",
        ),
        (("fit-rbm", "one.csv", "--labels", "hybrid"), 65, "one.csv: has only one label, a, but classes need at least two"),
        (
            ("fit-rbm", "unseen.csv", "--labels", "hybrid"),
            65,
            "unseen.csv: class 'c' has no training rows\nhint: put more rows into the training part: --split .8,.1,.1",
        ),
        (
            ("fit-rbm", "rows.csv", "--labels", "hybrid", "--per-class"),
            2,
            "--labels and --per-class exclude each other\nhint: use --labels with a single rbm",
        ),
        (
            ("fit-rbm", "rows.csv", "--labels", "hybrid", "--units", "rate:3", "--range", "0,1"),
            2,
            "--labels works with binary, spin, gaussian and poisson visible units, not with rate:3\nhint: use --visible-units binary",
        ),
        (
            ("fit-rbm", "rows.csv", "--learn-variances"),
            2,
            "--learn-variances needs gaussian visible units, but these are binary\nhint: use --visible-units gaussian",
        ),
        (
            ("apply", "m.h5", "rows.csv", "--want", "completed"),
            2,
            "--want completed is not available for a model that was learned with --labels\nhint: use --want classes or features",
        ),
        (
            ("eval", "m.h5", "--data", "bare.csv"),
            65,
            "bare.csv: there are no labels, which a model of rows with labels needs\nhint: name the column of labels: --label COLUMN",
        ),
        (("eval", "m.h5", "--data", "other.csv"), 65, "other.csv: has class 'c', but the model knows only a, b"),
        (
            ("sample", "m.h5", "--given", "rows.csv"),
            2,
            "--given does not work with a model that was learned with --labels\nhint: predict the labels: herd apply --want classes",
        ),
        pytest.param(
            ("convert", "m.h5", "-o", "m.onnx"),
            65,
            "m.h5: is a joint model of rows and labels, which cannot be written as ONNX",
            marks=pytest.mark.skipif(find_spec("onnx") is None, reason="needs onnx"),
        ),
        (("fit-rbm", "rows.csv", "--below", "m.h5"), 65, "m.h5: is a model of rows with labels, which cannot be a layer"),
    ],
)
def test_what_labels_do_not_go_with_is_refused(
    labelled: Path, run: Run, arguments: tuple[str, ...], code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(labelled.parent)
    lines = labelled.read_text().splitlines()
    Path("bare.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    Path("one.csv").write_text("\n".join(line if line.endswith("y") else line.rpartition(",")[0] + ",a" for line in lines) + "\n")
    Path("unseen.csv").write_text("x,z,y,split\n0,1,a,train\n1,0,b,train\n1,1,c,test\n")
    Path("other.csv").write_text("\n".join([*lines, "0,0,0,0,0,0,0,0,c"]) + "\n")
    if "m.h5" in arguments:
        assert run("fit-rbm", "rows.csv", "--labels", "generative", "--hidden", "2", "--epochs", "1", "-o", "m.h5").code == 0
    ended = run(*arguments, *(("-o", "x.h5") if arguments[0] != "eval" and arguments[0] != "convert" else ()))
    assert (ended.code, ended.err.splitlines()[-len(message.splitlines()) :]) == (code, f"herd {arguments[0]}: {message}".splitlines())


def test_variances_are_kept_as_the_columns_scale(tmp_path: Path, run: Run) -> None:
    random = np.random.default_rng(0)
    rows = np.where(random.random((400, 1)) < 0.5, 5.0, 1.0) + np.array([0.5, 1.0]) * random.normal(size=(400, 2))
    np.savetxt("v.csv", rows, delimiter=",", header="a,b", comments="")
    fit = ("fit-rbm", "v.csv", "--visible-units", "gaussian", "--standardize", "--hidden", "2", "--algorithm", "exact", "--epochs", "60")
    found = {}
    for name, options in (("fixed", ()), ("learned", ("--learn-variances",))):
        ended = run(*fit, *options, "-o", f"{name}.h5")
        assert ended.code == 0, ended.err
        model = artifacts.load(f"{name}.h5").value
        told = run("eval", f"{name}.h5")
        found[name] = float(dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))["log_likelihood"])
    np.testing.assert_allclose(model.column_scale, [0.5, 1.0], rtol=0.2)
    assert model.learn_variances
    assert found["learned"] > found["fixed"] + 0.2
    assert run("sample", "learned.h5", "-m", "500", "--burn-in", "200", "-o", "s.h5").code == 0
    np.testing.assert_allclose(artifacts.load("s.h5").value.X.mean(axis=0), rows.mean(axis=0), atol=0.5)


def test_learned_variances_do_not_depend_on_the_units_of_columns(tmp_path: Path, run: Run) -> None:
    """Units that are powers of two leave the same digits: the same model, whose deviations have these units."""
    random, units = np.random.default_rng(0), np.array([2.0**30, 1.0, 2.0**-30])
    rows = np.where(random.random((200, 1)) < 0.5, 3.0, -3.0) + 0.7 * random.normal(size=(200, 3))
    models, figures = [], []
    for name, X in (("plain", rows), ("units", rows * units)):
        np.savez(f"{name}.npz", X=X)
        ended = run("fit-rbm", f"{name}.npz", "--visible-units", "gaussian", "--learn-variances", "--hidden", "2", "-o", f"{name}.h5")
        assert ended.code == 0, ended.err
        models.append(artifacts.load(f"{name}.h5").value)
        told = run("eval", f"{name}.h5").out.splitlines()
        figures.append(dict(zip(*(line.split("\t") for line in told), strict=True)))
    plain, scaled = models
    np.testing.assert_array_equal(scaled.W, plain.W)
    np.testing.assert_allclose(scaled.column_scale, plain.column_scale * units)
    np.testing.assert_allclose(scaled.column_mean, plain.column_mean * units)
    assert figures[1]["verdict"] == figures[0]["verdict"]
    for name in ("log_likelihood", "independent", "gaussian"):  # a column's density is by the logarithm of its unit lower: here 0 in all
        assert float(figures[1][name]) == pytest.approx(float(figures[0][name]), abs=1e-4)


def test_rows_of_words_are_learned_and_judged_sparse_as_they_are(tmp_path: Path, run: Run) -> None:
    random = np.random.default_rng(0)
    topics = np.array([[0.3, 0.3, 0.3, 0.04, 0.03, 0.03], [0.03, 0.03, 0.04, 0.3, 0.3, 0.3]])
    rows = [random.multinomial(random.integers(5, 20), topics[i % 2]) for i in range(200)]
    Path("w.svm").write_text("".join("0 " + " ".join(f"{j + 1}:{n}" for j, n in enumerate(row) if n) + "\n" for row in rows))
    ended = run("fit-rbm", "w.svm", "--visible-units", "words", "--hidden", "3", "--epochs", "60", "--learning-rate", ".005", "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert "warning" not in ended.err
    model = artifacts.load("m.h5").value
    assert model.visible_units == "words"
    assert hasattr(model.holdout.X, "indptr")
    told = run("eval", "m.h5")
    row = dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))
    assert (row["log_z_method"], row["verdict"]) == ("exact", "ok")
    assert float(row["log_likelihood"]) > float(row["independent"]) + 1
    assert float(row["perplexity"]) < float(row["perplexity_independent"]) < 6.5
    assert run("apply", "m.h5", "w.svm", "-o", "f.h5").code == 0
    ended = run("sample", "m.h5", "-o", "s.h5")
    assert (ended.code, ended.err) == (
        2,
        "herd sample: cannot sample from a model of words: it has no distribution of row lengths\nhint: for its hidden units use: "
        "herd apply --want features\n",
    )


def test_a_row_without_words_is_refused(tmp_path: Path, run: Run) -> None:
    np.savetxt("w.csv", np.array([[1, 2, 0]] * 9 + [[0, 0, 0]]), fmt="%d", delimiter=",", header="a,b,c", comments="")
    ended = run("fit-rbm", "w.csv", "--visible-units", "words", "--hidden", "2", "-o", "m.h5")
    assert (ended.code, ended.err) == (65, "herd fit-rbm: w.csv: /X: line 11 has no words\n")


def test_where_a_likelihood_is_not_reliable_one_that_errs_downwards_is_given(small: Path, run: Run) -> None:
    assert run("fit-rbm", small, "--hidden", "3", "--epochs", "20", "-o", "m.h5").code == 0
    rows = {}
    for name, options in (("exact", ()), ("poor", ("--likelihood", "ais", "--chains", "10", "--temperatures", "50"))):
        told = run("eval", "m.h5", *options)
        rows[name] = dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))
    assert rows["poor"]["log_z_method"] == "not reliable"
    assert "log_likelihood_conservative" not in rows["exact"]
    assert float(rows["poor"]["log_likelihood_conservative"]) < float(rows["exact"]["log_likelihood"]) + 0.2


def test_rows_of_zeros_are_told_and_learn_nothing(run: Run) -> None:
    np.savetxt("z.csv", np.zeros((12, 3)), fmt="%d", delimiter=",", header="a,b,c", comments="")
    ended = run("fit-rbm", "z.csv", "--hidden", "2", "--epochs", "2", "-o", "z.h5")
    assert ended.code == 0
    first, *_, verdict = [line for line in ended.err.splitlines() if "warning" in line]
    assert first == "fit-rbm: warning: 3 of 3 columns are constant in all training rows: their weights stay 0"
    assert verdict.startswith("fit-rbm: warning: verdict: learned nothing")
    assert not artifacts.load("z.h5").value.W.any()


def test_an_imported_model_is_annealed_from_the_rows_that_are_given(run: Run) -> None:
    random = np.random.default_rng(0)
    np.savez("w.npz", W=random.normal(0, 0.2, (5, 3)), b=np.zeros(5), c=np.zeros(3))
    assert run("convert", "w.npz", "--to", "rbm", "-o", "m.h5").code == 0
    np.savetxt("x.csv", random.integers(0, 2, (20, 5)), fmt="%d", delimiter=",", header="a,b,c,d,e", comments="")
    found = {}
    for way in ("exact", "ais"):
        told = run("eval", "m.h5", "--data", "x.csv", "--likelihood", way)
        assert told.code == 0, told.err
        found[way] = dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))
    assert found["ais"]["log_z_method"] == "annealed"
    assert float(found["ais"]["log_likelihood"]) == pytest.approx(float(found["exact"]["log_likelihood"]), abs=0.05)
    bare = run("eval", "m.h5")
    assert dict(zip(*(line.split("\t") for line in bare.out.splitlines()), strict=True))["verdict"] == "no test rows"


@pytest.mark.parametrize(
    ("options", "learned"),
    [
        ((), "rpcd"),
        (("--units", "spin"), "rpcd"),
        (("--per-class",), "rpcd"),
        (("--labels", "generative"), "rpcd"),
        (("--labels", "hybrid"), "cd"),
        (("--hidden-units", "rate:3"), "cd"),
        (("--mean-field", "both"), "cd"),
        (("--hidden", "32"), "rpcd"),
        (("--hidden", "33"), "cd"),
        (("--layers", "3,33"), "cd"),
        (("--visible-units", "binary", "--hidden", "auto"), "cd"),
        (("--algorithm", "pcd"), "pcd"),
    ],
)
def test_the_algorithm_of_auto_is_told(small: Path, run: Run, options: tuple[str, ...], learned: str) -> None:
    ended = run("fit-rbm", small, "--hidden", "3", "--epochs", "1", *options, "--dry-run")
    assert ended.code == 0
    assert ended.out.startswith(f"learning by {learned}: ")


def test_a_layer_on_others_is_learned_as_their_units_ask_for(small: Path, run: Run) -> None:
    for units, learned in (("binary", "rpcd"), ("rate:3", "cd")):
        assert run("fit-rbm", small, "--hidden", "3", "--epochs", "1", "--hidden-units", units, "-o", "one.h5").code == 0
        assert run("fit-rbm", small, "--below", "one.h5", "--hidden", "2", "--epochs", "1", "-o", "two.h5").code == 0
        assert artifacts.load("two.h5").value.layers[1].algorithm == learned
        assert artifacts.load("two.h5").history[-1]["parameters"]["algorithm"] == learned


def test_errors_of_labels_have_a_standard_error_beside_the_commonest_class(run, tmp_path):
    """Labels that nothing predicts: a few rows fewer wrong than the commonest class gets are chance."""
    random = np.random.default_rng(4)
    X, y = random.integers(0, 2, (240, 6)), random.random(240) < 0.45
    lines = [",".join([*map(str, row), "ab"[label]]) for row, label in zip(X.tolist(), y.astype(int).tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("p,q,r,s,t,u,label\n" + "\n".join(lines) + "\n")
    ended = run("fit-rbm", "t.csv", "--labels", "generative", "--hidden", "3", "--split", ".5,0,.5", "--epochs", "200", "-o", "m.h5")
    assert ended.code == 0, ended.err
    (row,) = json.loads(run("eval", "m.h5", "--format", "json").out)
    count, gain = 120, row["error_majority"] - row["error"]
    differ = row["error_gain_se"] ** 2 * (count - 1) + gain**2  # the share of rows that only one of the two gets wrong
    assert differ * count == pytest.approx(round(differ * count), abs=1e-6)
    assert 0 < abs(gain) < 2 * row["error_gain_se"]
    assert "no better than chance" in row["verdict"]


@pytest.mark.parametrize(("hidden", "algorithm", "rate"), [("4", "exact", 0.05), ("13", "rpcd", 0.005), ("100", "rpcd", 0.005)])
def test_variances_of_clusters_far_apart_are_learned_by_default(run, tmp_path, hidden, algorithm, rate):
    """With CD-1 at the rate of other models, deviations shrink and the model ends below independent columns."""
    random = np.random.default_rng(2)
    X = (random.normal(size=(3, 3)) * 6)[random.integers(0, 3, 300)] + random.normal(size=(300, 3))
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header="a,b,c", comments="")
    line = ("fit-rbm", "t.csv", "--visible-units", "gaussian", "--learn-variances", "--hidden", hidden)
    assert run(*line, "-o", "m.h5").code == 0
    model = artifacts.load("m.h5").value
    assert (model.algorithm, model.learning_rate) == (algorithm, rate)
    (row,) = json.loads(run("eval", "m.h5", "--format", "json").out)
    assert row["log_likelihood"] > row["independent"] + 0.3
    assert "worse than independent" not in row["verdict"]


@pytest.mark.parametrize("algorithm", ["cd", "pcd", "rpcd", "fpcd", "pt"])
def test_no_sampled_algorithm_diverges_while_variances_are_learned(run, tmp_path, algorithm):
    """Of few rows of a small table, many hidden units and correlated columns: no fit ends below independent columns."""
    random = np.random.default_rng(7)
    X = random.normal(size=(150, 1)) * [1.0, -0.5, 1.5, 0.7] + 0.3 * random.normal(size=(150, 4)) + 2 * random.integers(0, 2, (150, 1))
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header="a,b,c,d", comments="")
    line = ("fit-rbm", "t.csv", "--visible-units", "gaussian", "--learn-variances", "--hidden", "60", "--algorithm", algorithm)
    ended = run(*line, "-o", "m.h5")
    assert ended.code == 0, ended.err
    (row,) = json.loads(run("eval", "m.h5", "--format", "json").out)
    assert row["log_likelihood"] > row["independent"], row
    if row["log_likelihood"] < row["gaussian"] - 2.1 * row["gaussian_gain_se"]:
        assert row["verdict"].startswith("worse than one Gaussian")


@pytest.mark.parametrize("split", [".5,.2,.3", ".6,0,.4"])
def test_models_of_classes_stand_beside_naive_bayes(run, tmp_path, split):
    """A model that learns nothing is independent columns: it has their error; with folds, they are not calibrated."""
    random = np.random.default_rng(3)
    y = random.integers(0, 2, 400)
    X = (random.random((400, 6)) < np.where(y[:, None] == 1, 0.7, 0.35)).astype(int)
    lines = [",".join([*map(str, row), "ab"[label]]) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("p,q,r,s,t,u,label\n" + "\n".join(lines) + "\n")
    folds = ("--folds", "3") if ",0," in split else ()
    line = ("fit-rbm", "t.csv", "--per-class", "--hidden", "2", "--epochs", "2", "--learning-rate", "1e-9", "--split", split, *folds)
    assert run(*line, "-o", "m.h5").code == 0
    (row,) = json.loads(run("eval", "m.h5", "--format", "json").out)
    model = artifacts.load("m.h5").value
    test = model.holdout.split == 2
    rate = 1.0 / (1.0 + np.exp(-model.base_rates.astype(float)))
    joint = model.holdout.X[test] @ np.log(rate).T + (1 - model.holdout.X[test]) @ np.log1p(-rate).T
    expected = float((joint.argmax(axis=1) != model.holdout.y[test]).mean())
    assert row["error_independent"] == pytest.approx(expected, abs=1e-12 if folds else 0.05)
    assert row["error"] == pytest.approx(row["error_independent"], abs=0.05)
    assert 0.05 < expected < 0.35
    assert "worse than naive Bayes" not in row["verdict"]
