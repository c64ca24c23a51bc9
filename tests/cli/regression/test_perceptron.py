"""herd regress --hidden from the shell: fits, files, figures beside the linear model, and refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

import herdcli
from herdcli import artifacts
from herdcli.artifacts.sealed import provenance

pytestmark = pytest.mark.filterwarnings("ignore:herd ")
N = 500


@pytest.fixture
def table(tmp_path):
    """A target that no linear model predicts, in the values of every family, with weights and offsets."""
    random = np.random.default_rng(0)
    X = random.normal(size=(N, 3))
    bent = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    columns = {
        "a": X[:, 0],
        "b": X[:, 1],
        "c": X[:, 2],
        "w": random.uniform(0.5, 2, N),
        "lift": 0.1 * random.normal(size=N),
        "number": 500 + 20 * bent + random.normal(size=N),
        "two": (bent > 0) * 1,
        "count": random.poisson(np.exp(1 + 0.5 * bent)),
        "positive": random.gamma(20.0, np.exp(0.5 * bent) / 20),
    }
    np.savetxt(
        tmp_path / "t.csv", np.column_stack(list(columns.values())), delimiter=",", header=",".join(columns), comments="", fmt="%.6g"
    )
    names = np.array(["low", "middle", "high"])[np.clip(bent + 1.5, 0, 2).astype(int)]
    lines = [f"{a:.5f},{b:.5f},{c:.5f},{'rgb'[row % 3]},{name}" for row, ((a, b, c), name) in enumerate(zip(X, names, strict=True))]
    (tmp_path / "classes.csv").write_text("\n".join(["a,b,c,colour,y", *lines]) + "\n")


OTHERS = {"number", "two", "count", "positive"}
FITS = {
    "number": ("gaussian", ()),
    "two": ("bernoulli", ("--activation", "logistic", "--l2", "0.003")),
    "count": ("poisson", ("--weights", "w", "--offset", "lift", "--activation", "softplus", "--l2", "0.001")),
    "positive": ("gamma", ("--l2", "0.001")),
}


@pytest.mark.parametrize("target", FITS)
def test_every_family_is_better_than_a_linear_model_of_bent_means(herd, table, target):
    family, more = FITS[target]
    left = [name for name in (*OTHERS, "w", "lift") if name != target and name not in more]
    line = ("regress", "t.csv", "--target", target, "--family", family, "--drop", ",".join(sorted(left)), "--hidden", "8", *more)
    ended = herd(*line, "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert "parameters: --optimizer trust-region" in ended.err
    ended = herd("eval", "m.h5", "--format", "json")
    (row,) = json.loads(ended.out)
    assert (row["kind"], row["family"], row["hidden"]) == ("perceptron", family, "8")
    assert row["log_likelihood"] - row["log_likelihood_linear"] > 2 * row["linear_gain_se"], row
    assert row["verdict"] == "ok"


def test_figures_are_those_of_the_rows(herd, table, tmp_path):
    """Log-likelihoods, their difference's standard error and the linear model, from the artifact by hand."""
    assert herd("regress", "classes.csv", "--hidden", "6,4", "--l2", "0.01", "-q", "-o", "m.h5").code == 0
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    model = herdcli.load(tmp_path / "m.h5")
    test = model.holdout.split == 2

    def log_p(eta):
        return (eta - np.log(np.exp(eta).sum(axis=1, keepdims=True)))[np.arange(test.sum()), model.holdout.y[test].astype(int)]

    own, linear = log_p(model.holdout.predictor[test]), log_p(model.holdout.linear[test])
    assert np.isclose(row["log_likelihood"], own.mean())
    assert np.isclose(row["log_likelihood_linear"], linear.mean())
    assert np.isclose(row["linear_gain_se"], (own - linear).std(ddof=1) / np.sqrt(test.sum()))
    assert np.isclose(row["error"], (model.holdout.predictor[test].argmax(axis=1) != model.holdout.y[test]).mean())


def test_predictions_features_and_rows_of_eval(herd, table, tmp_path):
    assert herd("regress", "classes.csv", "--hidden", "6,4", "-q", "-o", "m.h5").code == 0
    assert herd("apply", "m.h5", "classes.csv", "-q", "-o", "p.h5").code == 0
    assert herd("apply", "m.h5", "classes.csv", "--want", "features", "-q", "-o", "f.h5").code == 0
    model, made, features = (artifacts.load(str(tmp_path / name)).value for name in ("m.h5", "p.h5", "f.h5"))
    assert made.feature_names == model.classes
    assert np.allclose(made.X.sum(axis=1), 1)
    assert np.array_equal(made.y, made.X.argmax(axis=1))
    assert features.feature_names == [f"h1_{k}" for k in range(1, 7)] + [f"h2_{k}" for k in range(1, 5)]
    first, second = features.X[:, :6], features.X[:, 6:]
    assert np.allclose(second, np.tanh(first @ model.layers[1].W.T + model.layers[1].b))
    eta = second @ model.layers[2].W.T + model.layers[2].b
    assert np.allclose(made.X, np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True))
    ended = herd("eval", "m.h5", "--data", "classes.csv", "--format", "json")
    (row,) = json.loads(ended.out)
    assert row["rows"] == N
    ended = herd("apply", "m.h5", "classes.csv", "--want", "forecasts", "-o", "x.h5")
    assert ended.code == 2


def test_noise_has_a_verdict_beside_the_linear_model(herd, tmp_path):
    """Many units, no penalty and no early stopping on few rows of noise about a line."""
    random = np.random.default_rng(3)
    X = random.normal(size=(150, 6))
    y = X @ np.ones(6) + random.normal(size=150)
    np.savetxt(tmp_path / "t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,d,e,f,y", comments="")
    ended = herd("regress", "t.csv", "--hidden", "30", "--l2", "0", "--patience", "0", "--iterations", "60", "-o", "m.h5")
    assert ended.code == 0
    assert "worse than a linear model" in ended.err
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    assert row["log_likelihood"] + row["linear_gain_se"] < row["log_likelihood_linear"]
    assert "worse than a linear model" in row["verdict"]


@pytest.mark.parametrize("optimizer", ["trust-region", "adam"])
def test_threads_and_reruns_give_the_same_bytes(herd, table, tmp_path, optimizer):
    line = ("regress", "classes.csv", "--hidden", "5", "--optimizer", optimizer, "--starts", "2", "-q")
    assert herd(*line, "--threads", "1", "-o", "one.h5").code == 0
    assert herd(*line, "--threads", "2", "-o", "two.h5").code == 0
    one, two = (artifacts.load(str(tmp_path / name)).value for name in ("one.h5", "two.h5"))
    assert one == two
    ended = herd("check", "--rerun", "one.h5", "--input", "classes.csv")
    assert ended.code == 0
    assert b"reproduced" in ended.out


def test_single_precision_by_momentum(herd, table, tmp_path):
    line = ("regress", "classes.csv", "--hidden", "5", "--optimizer", "sgd", "--momentum", "0.8", "--batch-size", "8", "--epochs", "30")
    for dtype in ("float32", "float64"):
        assert herd(*line, "--dtype", dtype, "-q", "-o", f"{dtype}.h5").code == 0
    single, double = (artifacts.load(str(tmp_path / f"float{bits}.h5")).value for bits in (32, 64))
    assert single.layers[0].W.dtype == np.float64
    assert 0 < np.abs(single.layers[0].W - double.layers[0].W).max() < 1e-2
    assert single.optimizer == "sgd"


def test_the_penalty_of_one_row_is_the_default(herd, table, tmp_path):
    for name, more in (("default", ()), ("none", ("--l2", "0"))):
        assert herd("regress", "classes.csv", "--hidden", "4", "--iterations", "3", *more, "-q", "-o", f"{name}.h5").code == 0
    default, none = (herdcli.load(tmp_path / f"{name}.h5") for name in ("default", "none"))
    assert (default.l2, none.l2) == (1 / default.rows, 0.0)
    assert provenance.recorded_text_option(artifacts.load(str(tmp_path / "default.h5")).history, "regress", "l2") is None
    assert herd("regress", "classes.csv", "-q", "-o", "linear.h5").code == 0
    assert herdcli.load(tmp_path / "linear.h5").l2 == 0.0


def test_sparse_and_whole_numbers_give_the_fits_of_dense_ones(tmp_path):
    random = np.random.default_rng(0)
    X = random.poisson(0.3, size=(300, 12)).astype(np.uint8)
    y = np.array(["few", "many"])[(X[:, 0] + X[:, 1] * X[:, 2] > 0) * 1]
    options = {"hidden": "5", "optimizer": "adam", "epochs": 4, "dtype": "float64"}
    models = [herdcli.regress(rows, y, **options) for rows in (X.astype(float), X, csr_array(X.astype(float)))]
    for other in models[1:]:
        assert np.allclose(other.layers[0].W, models[0].layers[0].W, rtol=1e-9, atol=1e-12)
        assert np.allclose(other.holdout.predictor, models[0].holdout.predictor, rtol=1e-9, atol=1e-12)
        assert np.allclose(other.holdout.linear, models[0].holdout.linear, rtol=1e-6, atol=1e-8)
    dense, sparse = (herdcli.apply(models[0], rows).X for rows in (X.astype(float), csr_array(X.astype(float))))
    assert np.allclose(dense, sparse, rtol=1e-12)
    dense, sparse = (herdcli.apply(models[0], rows, want="features").X for rows in (X.astype(float), csr_array(X.astype(float))))
    assert np.allclose(dense, sparse, rtol=1e-12)


def test_validation_rows_never_prefer_the_linear_model(herd, tmp_path):
    """A line with noise about it: where the random start is worse on the validation rows, one from the linear model follows."""
    random = np.random.default_rng(4)
    X = random.normal(size=(150, 6))
    y = X @ np.ones(6) + random.normal(size=150)
    model = herdcli.regress(X, y, hidden="30", family="gaussian")
    valid = model.holdout.split == 1
    squares = [np.square(eta[valid, 0] - model.holdout.y[valid]).mean() for eta in (model.holdout.predictor, model.holdout.linear)]
    assert squares[0] <= squares[1] * 1.001


def test_checkpoint_dry_run_trace_and_memory(herd, table, tmp_path):
    line = ("regress", "classes.csv", "--hidden", "5")
    ended = herd(*line, "--dry-run", "-o", "m.h5")
    assert ended.code == 0
    assert not (tmp_path / "m.h5").exists()
    ended = herd(*line, "--trace", "t.jsonl", "-q", "--checkpoint", "state", "--every", "1", "-o", "m.h5")
    assert (ended.code, ended.err) == (0, "")
    assert "loss" in (tmp_path / "t.jsonl").read_text() or "objective" in (tmp_path / "t.jsonl").read_text()
    ended = herd("regress", "classes.csv", "--hidden", "4000,4000", "--max-memory", "200M", "-o", "m.h5")
    assert ended.code != 0
    assert "a perceptron of" in ended.err


REFUSED = {
    "--gls ar1": (2, "--hidden and --gls exclude each other"),
    "--l1 0.1": (2, "--hidden does not work with --l1"),
    "--penalty firth": (2, "--hidden does not work with --penalty"),
    "--one-pass": (2, "--hidden and --one-pass exclude each other"),
    "--dispersion one": (2, "--dispersion concerns standard errors, which --hidden does not compute"),
    "--optimizer trust-region --dtype float32": (2, "--dtype float32 works only with minibatches, not with --optimizer trust-region"),
}


@pytest.mark.parametrize("options", REFUSED)
def test_refusals(herd, table, options):
    code, message = REFUSED[options]
    ended = herd("regress", "classes.csv", "--hidden", "4", *options.split(), "-o", "m.h5")
    assert ended.code == code
    assert message in ended.err


def test_options_without_effect_and_outputs_without_sense(herd, table):
    ended = herd("regress", "classes.csv", "--epochs", "3", "--l2", "1", "-o", "m.h5")
    assert "--epochs has no effect without --hidden" in ended.err
    ended = herd("regress", "classes.csv", "--hidden", "3", "--epochs", "3", "--iterations", "3", "-o", "m.h5")
    assert "--epochs has no effect with --optimizer trust-region" in ended.err
    ended = herd("regress", "classes.csv", "--hidden", "3", "-o", "m.csv")
    assert (ended.code, "a perceptron (--hidden) has no table of coefficients to write" in ended.err) == (2, True)
    ended = herd("regress", "classes.csv", "--hidden", "3,x", "-o", "m.h5")
    assert (ended.code, "is not a list of numbers of hidden units" in ended.err) == (2, True)
    wild = ("--hidden", "3", "--activation", "relu", "--optimizer", "sgd", "--learning-rate", "1e9")
    ended = herd("regress", "t.csv", "--target", "number", *wild, "-o", "m.h5")
    assert ended.code != 0
    assert "the loss is not finite" in ended.err
    ended = herd(
        "regress", "classes.csv", "--hidden", "3", "--patience", "0", "--iterations", "2", "--on-nonconvergence", "error", "-o", "m.h5"
    )
    assert ended.code != 0
    assert "not converged after 2 steps" in ended.err


@pytest.mark.parametrize("hidden", [(), ("--hidden", "3")])
def test_targets_and_offsets_without_squares_are_refused(herd, tmp_path, hidden):
    x = np.random.default_rng(0).normal(size=(40, 3))
    for name, column, what in (("y", 2, "the target 'y'"), ("o", 1, "the offset")):
        rows = x.copy()
        rows[7, column] = -2e300
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="a,o,y", comments="")
        ended = herd("regress", f"{name}.csv", "--offset", "o", *hidden, "-o", "m.h5")
        assert ended.code == 65
        assert f"{what} has the value -2e+300, but absolute values above 1e+100 are too large for sums of squares" in ended.err
        assert "overflow" not in ended.err


def test_a_rate_that_is_too_large_is_named_without_warnings_of_arithmetic(herd, tmp_path):
    rows = np.random.default_rng(0).normal(size=(100, 3))
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="a,b,y", comments="")
    line = ("regress", "t.csv", "--hidden", "3", "--activation", "relu", "--optimizer")
    ended = herd(*line, "sgd", "--learning-rate", "1e5", "-o", "m.h5")
    assert ended.code in (0, 1)
    assert "the loss is not finite" in ended.err
    assert "a lower --learning-rate" in ended.err
    assert "encountered" not in ended.err
    ended = herd(*line, "adam", "--learning-rate", "1e300", "-o", "m.h5")
    assert (ended.code, "the loss is not finite" in ended.err, "encountered" in ended.err) == (1, True, False)


def test_plots(herd, table, tmp_path):
    pytest.importorskip("matplotlib")
    assert herd("regress", "classes.csv", "--hidden", "5", "-q", "-o", "m.h5").code == 0
    for name in ("filters", "trace", "calibration", "residuals"):
        assert herd("eval", "m.h5", "--plot", name, f"{name}.svg", "-q").code == 0
        assert (tmp_path / f"{name}.svg").stat().st_size > 1000


def test_the_function_of_python(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    model = herdcli.regress(X, X[:, 0] * X[:, 1], hidden="6", family="gaussian")
    made = herdcli.apply(model, X)
    assert np.corrcoef(made.X[:, 0], X[:, 0] * X[:, 1])[0, 1] > 0.95
