"""Columns are matched by name: rows whose columns stand in another order give every command the same result."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from herdcli.artifacts import load

NAMES = ["red", "green", "blue", "grey"]
ORDER = [2, 0, 3, 1]
LEARN = {
    "rbm": ("fit-rbm", "--label", "y", "--hidden", "3", "--epochs", "2", "--threshold", "0.5", "--range", "-9,9"),
    "rbm of classes": ("fit-rbm", "--per-class", "--hidden", "3", "--epochs", "2", "--visible-units", "gaussian", "--standardize"),
    "dbn": ("fit-rbm", "--layers", "3,2", "--epochs", "2", "--threshold", "0.5", "--range", "-9,9"),
    "classifier": ("nherd-train",),
    "full": ("nherd-train", "--covariance", "full", "--bias"),
    "kernel": ("nherd-train", "--kernel", "gaussian"),
    "ica": ("ica", "--label", "y", "--components", "2", "--split", ".8,0,.2"),
}

SOME = ("rbm", "kernel", "ica")  # one for each way that rows reach a model


def table(path, names=NAMES, order=None, count=60, seed=0, **more):
    """Two classes of rows whose columns differ in mean and spread, with a header unless names is None."""
    random = np.random.default_rng(seed)
    y = np.arange(count) % 2
    X = np.round(random.standard_normal((count, 4)) * [1, 2, 0.5, 1] + np.outer(y, [2, -1, 0, 1]), 3)
    columns = dict(zip(NAMES, X.T.tolist(), strict=True))
    places = order or list(range(4))
    rows = [[NAMES[i] for i in places] if names is NAMES else [names[i] for i in places]] if names else []
    values = [columns[NAMES[i]] for i in places]
    cells = [*values, *(more[name] for name in more)]
    head = [",".join([*rows[0], *more, "y"])] if rows else []
    body = [",".join([*(repr(column[row]) for column in cells), "ab"[y[row]] if names else str(y[row])]) for row in range(count)]
    path.write_text("\n".join([*head, *body]) + "\n")
    return path


@pytest.fixture
def files(tmp_path):
    """train.csv, and new.csv twice: as learned, and permuted."""
    table(tmp_path / "train.csv")
    table(tmp_path / "new.csv", seed=1)
    table(tmp_path / "permuted.csv", order=ORDER, seed=1)
    return tmp_path


def rows(path):
    return np.asarray(load(str(path)).value.X)


@pytest.mark.parametrize("kind", LEARN)
def test_apply_and_eval_match_columns_by_name(run, files, kind):
    command, *options = LEARN[kind]
    assert run(command, "-q", "train.csv", *options, "-o", "model.h5").code == 0
    for name in ("new", "permuted"):
        done = run("apply", "-q", "model.h5", f"{name}.csv", "-o", f"{name}.h5")
        assert done.code == 0, done.err
    assert np.array_equal(rows(files / "new.h5"), rows(files / "permuted.h5"))
    told = [run("eval", "-q", "model.h5", "--data", f"{name}.csv", "--format", "csv").out for name in ("new", "permuted")]
    assert told[0] == told[1]
    assert "model.h5" in told[0]


@pytest.mark.parametrize("kind", SOME)
def test_missing_columns_are_refused_by_name(run, files, kind):
    command, *options = LEARN[kind]
    run(command, "-q", "train.csv", *options, "-o", "model.h5")
    table(files / "other.csv", names=["red", "green", "azure", "violet"])
    for line in (("apply", "model.h5", "other.csv"), ("eval", "model.h5", "--data", "other.csv")):
        done = run(*line, "-q")
        assert done.code == 65
        assert "other.csv: lacks 2 columns (blue, grey) that the model needs; it has azure, violet, unknown to the model" in done.err


@pytest.mark.parametrize("kind", SOME)
def test_columns_beyond_the_model_are_told_and_left_out(run, files, kind):
    command, *options = LEARN[kind]
    run(command, "-q", "train.csv", *options, "-o", "model.h5")
    table(files / "more.csv", order=ORDER, seed=1, age=list(range(60)))
    done = run("apply", "model.h5", "more.csv", "-o", "more.h5")
    assert done.code == 0
    assert "more.csv: left out age because the model does not know them" in done.err
    run("apply", "-q", "model.h5", "new.csv", "-o", "new.h5")
    assert np.array_equal(rows(files / "new.h5"), rows(files / "more.h5"))


@pytest.mark.parametrize("kind", SOME)
def test_columns_without_names_go_by_place(run, files, kind):
    command, *options = LEARN[kind]
    run(command, "-q", "train.csv", *options, "-o", "model.h5")
    table(files / "bare.csv", names=None, seed=1)
    lines = (files / "bare.csv").read_text().splitlines()
    (files / "bare.csv").write_text("\n".join(line.rsplit(",", 1)[0] for line in lines) + "\n")
    for name in ("new", "bare"):
        done = run("apply", "-q", "model.h5", f"{name}.csv", "-o", f"{name}.h5")
        assert done.code == 0, done.err
    assert np.array_equal(rows(files / "new.h5"), rows(files / "bare.h5"))


@pytest.mark.parametrize(("learned", "order"), [("x", ORDER), ("f", None)])
def test_counted_columns_are_matched_too(run, tmp_path, learned, order):
    """x0, x1, … are names once the other side has them in another order."""
    names = [f"{learned}{index}" for index in range(4)]
    table(tmp_path / "train.csv", names=names, order=order)
    table(tmp_path / "new.csv", names=names, order=order, seed=1)
    table(tmp_path / "permuted.csv", names=names, order=[3, 1, 0, 2], seed=1)
    run("nherd-train", "-q", "train.csv", "-o", "model.h5")
    for name in ("new", "permuted"):
        assert run("apply", "-q", "model.h5", f"{name}.csv", "-o", f"{name}.h5").code == 0
    assert np.array_equal(rows(tmp_path / "new.h5"), rows(tmp_path / "permuted.h5"))


def test_sparse_columns_are_matched(run, files):
    run("nherd-train", "-q", "train.csv", "-o", "model.h5")
    dense = load(str(files / "permuted.csv")).value.X
    found = csr_matrix(dense)
    with h5py.File(files / "sparse.h5", "w") as file:
        group = file.create_group("X")
        group.attrs["format"], group.attrs["shape"] = "csr", found.shape
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(found, part)
        file["feature_names"] = [NAMES[i] for i in ORDER]
    for name in ("new.csv", "sparse.h5"):
        assert run("apply", "-q", "model.h5", name, "-o", f"{name}.out.h5").code == 0
    assert np.allclose(rows(files / "new.csv.out.h5"), rows(files / "sparse.h5.out.h5"), atol=1e-12)


def test_continue_matches_columns(run, files):
    run("nherd-train", "-q", "train.csv", "-o", "model.h5")
    for name in ("new", "permuted"):
        assert run("nherd-train", "-q", f"{name}.csv", "--continue", "model.h5", "-o", f"{name}.h5").code == 0
    one, two = (load(str(files / f"{name}.h5")).value for name in ("new", "permuted"))
    assert np.array_equal(one.mean, two.mean)
    assert one.feature_names == two.feature_names == NAMES


def test_below_matches_columns(run, files):
    run("fit-rbm", "-q", "train.csv", *LEARN["rbm"][1:], "-o", "below.h5")
    for name in ("new", "permuted"):
        done = run("fit-rbm", "-q", f"{name}.csv", "--below", "below.h5", "--hidden", "2", "--epochs", "2", "-o", f"{name}.h5")
        assert done.code == 0, done.err
    one, two = (load(str(files / f"{name}.h5")).value.layers for name in ("new", "permuted"))
    assert np.array_equal(one[1].W, two[1].W)
    assert np.array_equal(one[0].holdout.X, two[0].holdout.X)


def test_merge_matches_columns_and_refuses_others(run, files):
    """A model that learned from the same columns in another order is merged as one in the same order."""
    for name in ("train", "permuted", "fewer"):
        if name == "fewer":
            lines = (files / "train.csv").read_text().splitlines()
            titles = lines[0].split(",")
            (files / "fewer.csv").write_text(
                "\n".join([",".join(f"{title}_" if title != "y" else title for title in titles), *lines[1:]]) + "\n"
            )
        assert run("nherd-train", "-q", f"{name}.csv", "--algorithm", "nherd", "--C", "1", "-o", f"{name}.h5").code == 0
    (files / "same.h5").write_bytes((files / "train.h5").read_bytes())
    for other in ("permuted", "same"):
        done = run("merge", "-q", "train.h5", f"{other}.h5", "-o", f"both-{other}.h5")
        assert done.code == 0, done.err
    ours, theirs = (load(str(files / f"both-{other}.h5")).value for other in ("permuted", "same"))
    assert ours.feature_names == theirs.feature_names
    assert ours.mean.shape == theirs.mean.shape
    done = run("merge", "-q", "train.h5", "fewer.h5", "-o", "c.h5")
    assert done.code == 65
    assert "model 2 has different column names from model 1" in done.err


def test_pairs_match_columns(run, files):
    done = run("fit-rbm", "--pairs", "-q", "train.csv", "--visible-units", "gaussian", "--hidden", "3", "--epochs", "1", "-o", "model.h5")
    assert done.code == 0, done.err
    told = [run("eval", "-q", "model.h5", "--gallery", f"{name}.csv", "--format", "csv").out for name in ("new", "permuted")]
    assert told[0] == told[1]
    assert "rank" in told[0]


def test_herding_keeps_the_names(run, files):
    done = run("herd", "-q", "train.csv", "--label", "y", "--iterations", "5", "--range", "-9,9", "--threshold", "0.5", "-o", "model.h5")
    assert done.code == 0, done.err
    assert load(str(files / "model.h5")).value.feature_names == NAMES


def test_sampled_rows_have_the_names(run, files):
    run("fit-rbm", "-q", "train.csv", *LEARN["rbm"][1:], "-o", "model.h5")
    run("sample", "-q", "model.h5", "-m", "3", "--burn-in", "2", "-o", "drawn.csv")
    assert (files / "drawn.csv").read_text().splitlines()[0] == ",".join(NAMES)


def test_samples_match_columns(run, files):
    assert run("kernel-herd", "-q", "train.csv", "--drop", "y", "-m", "5", "-o", "five.h5").code == 0
    told = [run("eval", "-q", "five.h5", "--data", f"{name}.csv", "--format", "csv").out for name in ("new", "permuted")]
    assert told[0] == told[1]
    assert "five.h5" in told[0]
    table(files / "again.csv", order=ORDER)
    for name in ("train", "again"):
        done = run("kernel-herd", "-q", f"{name}.csv", "--drop", "y", "-m", "8", "--extend", "five.h5", "-o", f"{name}.h5")
        assert done.code == 0, done.err
    one, two = (load(str(files / f"{name}.h5")).value for name in ("train", "again"))
    assert np.array_equal(one.x, two.x)
    assert one.feature_names == two.feature_names == NAMES


def test_candidates_match_columns(run, files):
    for name in ("new", "permuted"):
        assert run("kernel-herd", "-q", "train.csv", "-m", "5", "--candidates", f"{name}.csv", "-o", f"{name}.h5").code == 0
    assert np.array_equal(*(load(str(files / f"{name}.h5")).value.x for name in ("new", "permuted")))


def test_networks_match_variables(run, files):
    """The base of a fit and the reference of an evaluation, learned from columns in another order."""
    options = ("--label", "y", "--values", "two", "--range", "-9,9", "--threshold", "0.5", "--split", "1,0,0")
    run("fit-mrf", "-q", "new.csv", *options, "-o", "new.h5")
    run("fit-mrf", "-q", "permuted.csv", *options, "-o", "permuted.h5")
    told = [run("eval", "-q", "new.h5", "--reference", f"{name}.h5", "--format", "json").out for name in ("new", "permuted")]
    found = [json.loads(text)[0] for text in told]
    assert abs(found[1]["joint_l1"]) < 1e-9
    assert found[0]["joint_l1"] == 0
    models = []
    for base in ("new", "permuted"):
        done = run("fit-mrf", "-q", "train.csv", *options, "--structure", "independent", "--base", f"{base}.h5", "-o", f"on-{base}.h5")
        assert done.code == 0, done.err
        models.append(load(str(files / f"on-{base}.h5")).value)
    assert json.loads(run("eval", "-q", "on-new.h5", "--reference", "on-permuted.h5", "--format", "json").out)[0]["joint_l1"] < 1e-9
    for name in ("new", "permuted"):
        assert run("ups-infer", "-q", f"{name}.h5", "-o", f"{name}.beliefs.h5").code == 0
    told = json.loads(run("eval", "-q", "new.beliefs.h5", "--reference", "permuted.beliefs.h5", "--format", "json").out)
    assert told[0]["marginal_error_max"] < 1e-9


@pytest.mark.parametrize("line", [("-o", "rep.html"), ("--report", "report.pdf")])
def test_eval_refuses_suffixes_it_does_not_write(run, files, line):
    run("nherd-train", "-q", "train.csv", "-o", "model.h5")
    done = run("eval", "-q", "model.h5", *line)
    assert done.code == 2
    assert not (files / line[1]).exists()


def test_converged_is_a_truth_in_json(run, files):
    run("network", "grid", "--grid-rows", "2", "--grid-columns", "2", "-q", "-o", "n.h5")
    run("ups-infer", "-q", "n.h5", "-o", "b.h5")
    assert json.loads(run("eval", "-q", "b.h5", "--format", "json").out)[0]["converged"] is True
