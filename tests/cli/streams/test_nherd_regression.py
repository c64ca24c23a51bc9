"""nherd-train --task regression as a process: beside least squares, gone on with, refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli.artifacts import load


def lines(X: np.ndarray, y: np.ndarray) -> bytes:
    """svmlight text."""
    pairs = [" ".join(f"{k + 1}:{x!r}" for k, x in enumerate(row)) for row in X.tolist()]
    return "".join(f"{target!r} {row}\n" for target, row in zip(y.tolist(), pairs, strict=True)).encode()


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    """400 rows of five features in different units, and outcomes about 1000 with noise of 3."""
    random = np.random.default_rng(0)
    X = random.standard_normal((400, 5)) * np.array([1.0, 1e3, 1e-2, 5.0, 40.0])
    return X, 1000.0 + X @ np.array([20.0, -0.01, 900.0, 0.0, 0.2]) + 3.0 * random.standard_normal(400)


PLAIN = ("--task", "regression", "--algorithm", "arow", "--C", "2", "--scale", "none", "--no-bias")


def test_a_full_covariance_is_ridge_regression(herd, tmp_path, rows):
    X = rows[0] / rows[0].std(axis=0)
    y = X @ np.arange(1.0, 6.0) + np.random.default_rng(1).standard_normal(400)
    assert herd("nherd-train", "-q", *PLAIN, "--covariance", "full", "-o", "m.h5", stdin=lines(X, y)).code == 0
    model = load(str(tmp_path / "m.h5")).value
    precision = np.eye(5) + 2.0 * X.T @ X
    assert np.allclose(model.mean[0], np.linalg.solve(precision, 2.0 * X.T @ y), rtol=1e-9)
    assert np.allclose(model.covariance[0], np.linalg.inv(precision), rtol=1e-9, atol=1e-15)
    # each example judged by the ridge regression of those before it
    for k in (1, 57, 399):
        before = np.linalg.solve(np.eye(5) + 2.0 * X[:k].T @ X[:k], 2.0 * X[:k].T @ y[:k])
        assert model.holdout.score[k, 0] == pytest.approx(before @ X[k], rel=1e-9)
    residual = y - model.holdout.score[:, 0]
    assert model.running.loss == pytest.approx(np.sum(residual**2))
    assert model.absolute == pytest.approx(np.sum(np.abs(residual)))
    assert model.scale**2 == pytest.approx(np.mean(residual**2 / (model.holdout.variance[:, 0] + 0.5)))


def test_without_options_it_comes_near_the_noise_in_any_units(herd, tmp_path, rows):
    X, y = rows
    for name, unit in (("a", 1.0), ("b", 2.0**20)):
        (tmp_path / f"{name}.svm").write_bytes(lines(X[:300], y[:300] * unit))
        (tmp_path / f"{name}.test").write_bytes(lines(X[300:], y[300:] * unit))
        made = herd("nherd-train", "--task", "regression", f"{name}.svm", "--passes", "3", "--covariance", "full", "-o", f"{name}.h5")
        assert made.code == 0, made.err
        assert "progressive root mean square" in made.err
    rows_of = [json.loads(herd("eval", f"{n}.h5", "--data", f"{n}.test", "--format", "json").out)[0] for n in "ab"]
    with_bias = np.column_stack([np.ones(400), X])
    best = np.linalg.lstsq(with_bias[:300], y[:300])[0]
    assert rows_of[0]["rmse"] < 1.05 * np.sqrt(np.mean((with_bias[300:] @ best - y[300:]) ** 2))
    assert rows_of[0]["rmse_mean"] == pytest.approx(np.std(y[300:]))
    assert rows_of[0]["verdict"] == "ok"
    assert 0.85 < rows_of[0]["coverage_95"] <= 1.0
    assert rows_of[1]["rmse"] == pytest.approx(2.0**20 * rows_of[0]["rmse"], rel=1e-9)
    applied = herd("apply", "-q", "a.h5", "a.test", "-o", "p.h5")
    assert applied.code == 0, applied.err
    found = load(str(tmp_path / "p.h5")).value
    assert found.feature_names == ["predicted", "deviation"]
    assert np.sqrt(np.mean((found.X[:, 0] - y[300:]) ** 2)) == pytest.approx(rows_of[0]["rmse"])
    assert np.mean(np.abs(found.X[:, 0] - y[300:]) <= 1.959963984540054 * found.X[:, 1]) == pytest.approx(rows_of[0]["coverage_95"])
    assert b"feature 1 " in herd("info", "a.h5", "--top", "2").out


def test_continuing_is_the_model_of_the_whole_stream(herd, tmp_path, rows):
    text = lines(*rows).splitlines(keepends=True)
    assert herd("nherd-train", "-q", *PLAIN[:6], "-o", "whole.h5", stdin=b"".join(text)).code == 0
    assert herd("nherd-train", "-q", *PLAIN[:6], "-o", "half.h5", stdin=b"".join(text[:200])).code == 0
    assert herd("nherd-train", "-q", "--continue", "half.h5", "-o", "both.h5", stdin=b"".join(text[200:])).code == 0
    whole, both = (load(str(tmp_path / name)).value for name in ("whole.h5", "both.h5"))
    for name in ("mean", "variance", "seen", "size", "scale", "absolute"):
        assert np.array_equal(getattr(whole, name), getattr(both, name)), name
    assert whole.running == both.running


def test_unlabelled_lines_and_named_features_are_predicted(herd, tmp_path):
    assert herd("nherd-train", "-q", *PLAIN, "-o", "m.h5", stdin=b"1.5 |a x\n2.5 |a y\n-3 2 |a z:2\n" * 20).code == 0
    assert herd("apply", "-q", "m.h5", "-", "-o", "p.h5", stdin=b"|a x\n|a y\n 'tag |a z:2\n").code == 0
    assert load(str(tmp_path / "p.h5")).value.X[:, 0] == pytest.approx([1.5, 2.5, -3.0], abs=0.1)


def test_unlabelled_lines_of_svmlight_are_predicted_as_others_are(herd, tmp_path, rows):
    X, y = rows
    assert herd("nherd-train", "-q", *PLAIN, "-o", "m.h5", stdin=lines(X, y)).code == 0
    text = lines(X, y)
    bare = b"".join(line.partition(b" ")[2] if k % 2 else line for k, line in enumerate(text.splitlines(keepends=True)))
    for name, rows_of in (("p.h5", text), ("q.h5", bare)):
        assert herd("apply", "-q", "m.h5", "-", "--input-format", "svmlight", "-o", name, stdin=rows_of).code == 0
    assert np.array_equal(*(load(str(tmp_path / name)).value.X for name in ("p.h5", "q.h5")))


@pytest.mark.parametrize(
    ("options", "stdin", "code", "says"),
    [
        (("--algorithm", "pa"), b"0.5 1:1\n", 2, "--task regression learns by squared loss, with --algorithm nherd or arow"),
        (("--loss", "log"), b"0.5 1:1\n", 2, "--task regression learns by squared loss, with --algorithm nherd or arow"),
        (("--kernel", "linear"), b"0.5 1:1\n", 2, "--task regression learns weights for features, so it does not work with --kernel"),
        (("--classes", "1,2"), b"0.5 1:1\n", 2, "--classes is for classes, but --task regression has none"),
        (("--label-noise", ".1"), b"0.5 1:1\n", 2, "--label-noise is for classes, but --task regression has none"),
        ((), b"1e200 1:1\n", 65, "stdin: the target 1e+200 is too large to be squared and summed"),
        ((), b"nan 1:1\n", 65, "stdin: line 1, column 1: 'nan' is not finite"),
    ],
)
def test_what_cannot_be_is_refused(herd, tmp_path, options, stdin, code, says):
    ended = herd("nherd-train", "--task", "regression", "--input-format", "svmlight", *options, "-o", "m.h5", stdin=stdin)
    assert (ended.code, ended.err.splitlines()[0]) == (code, f"herd nherd-train: {says}")
    assert not (tmp_path / "m.h5").exists()


def stored(tmp_path, kind: str, X: np.ndarray, y: np.ndarray, split: np.ndarray) -> tuple[str, ...]:
    """The rows as a data set of some format, and the options that read it."""
    import h5py
    import pyarrow as pa
    from pyarrow import parquet

    columns = {f"u{k}": X[:, k] for k in range(X.shape[1])} | {"split": split}
    if kind == "h5":
        with h5py.File(tmp_path / "t.h5", "w") as file:
            file["X"], file["y"], file["split"] = X, y, split
        return ("t.h5",)
    if kind == "parquet":
        parquet.write_table(pa.table({**columns, "price": y}), tmp_path / "t.parquet")
        return ("t.parquet", "--label", "price")
    if kind == "npz":
        np.savez(tmp_path / "t.npz", X=X, y=y, split=split)
        return ("t.npz",)
    names = [*columns, "Target"]
    rows = [",".join(map(repr, line)) for line in zip(*(column.tolist() for column in columns.values()), y.tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    return ("t.csv",)


@pytest.mark.parametrize("kind", ["h5", "parquet", "npz", "csv"])
def test_numbers_of_a_data_set_are_learned_as_those_of_text(herd, tmp_path, rows, kind):
    X, y = rows
    split = np.repeat([0, 1, 2], [240, 80, 80]).astype(np.uint8)
    args = stored(tmp_path, kind, X, y, split)
    ended = herd("nherd-train", "-q", *PLAIN, *args, "--covariance", "full", "-o", "m.h5")
    assert ended.code == 0, ended.err
    model = load(str(tmp_path / "m.h5")).value
    assert np.allclose(model.mean[0], np.linalg.solve(np.eye(5) + 2.0 * X[:240].T @ X[:240], 2.0 * X[:240].T @ y[:240]), rtol=1e-7)
    assert np.array_equal(np.sort(model.holdout.y), np.sort(y[240:]))
    assert np.allclose(model.holdout.score[:, 0], X[240:] @ model.mean[0])
    # τ by the validation rows alone
    residual = y[240:320] - X[240:320] @ model.mean[0]
    assert model.scale**2 == pytest.approx(np.mean(residual**2 / (model.holdout.variance[:80, 0] + 0.5)))
    row = json.loads(herd("eval", "m.h5", "--format", "json").out)[0]
    assert (row["rows"], row["judged_on"]) == (80, "test")
    assert row["rmse"] == pytest.approx(np.sqrt(np.mean((y[320:] - X[320:] @ model.mean[0]) ** 2)))
    if kind != "parquet":  # --data goes by the usual names of the target
        whole = json.loads(herd("eval", "m.h5", "--data", args[0], "--format", "json").out)[0]
        assert whole["rmse"] == pytest.approx(np.sqrt(np.mean((y - X @ model.mean[0]) ** 2)))
    applied = herd("apply", "-q", "m.h5", args[0], "-o", "p.h5")
    assert applied.code == 0, applied.err
    assert np.allclose(load(str(tmp_path / "p.h5")).value.X[:, 0], X @ model.mean[0])


def test_a_table_without_options_comes_near_least_squares(herd, tmp_path, rows):
    X, y = rows
    args = stored(tmp_path, "csv", X, y, np.repeat([0, 2], [300, 100]))
    assert herd("nherd-train", "-q", "--task", "regression", *args, "--passes", "5", "--coverage", ".9", "-o", "m.h5").code == 0
    row = json.loads(herd("eval", "m.h5", "--format", "json").out)[0]
    with_bias = np.column_stack([np.ones(400), X])
    best = np.linalg.lstsq(with_bias[:300], y[:300])[0]
    assert row["rmse"] < 1.1 * np.sqrt(np.mean((with_bias[300:] @ best - y[300:]) ** 2))
    assert 0.8 < row["coverage"] <= 1.0
    assert herd("apply", "-q", "m.h5", "t.csv", "--want", "sets", "-o", "i.csv").code == 0
    assert herd("nherd-train", "-q", "--continue", "m.h5", "t.csv", "-o", "n.h5").code == 0


def test_columns_that_are_no_numbers_are_refused(herd, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,yes\n2,1,no\n3,1,no\n")
    for args, code, says in (
        ((), 65, "t.csv: column 'y' holds text, but --task regression needs numbers"),
        (("--parts", "2"), 2, "--parts does not work with --task regression"),
        (("--label", "z"), 2, "t.csv: --label z: there is no such column"),
        (("--label", "a", "--positive", "1"), 2, "--positive is for classes, but --task regression has none"),
    ):
        ended = herd("nherd-train", "--task", "regression", "t.csv", *args)
        assert ended.code == code
        assert f"herd nherd-train: {says}" in ended.err.splitlines()
    (tmp_path / "u.csv").write_text("a,b\n1,2\n2,1\n")
    ended = herd("nherd-train", "--task", "regression", "u.csv")
    assert (ended.code, ended.err.splitlines()[0]) == (65, "herd nherd-train: u.csv: there is no target to learn")
