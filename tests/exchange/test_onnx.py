"""ONNX: onnxruntime says of rows what herd says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import herdcli
from herdcli.artifacts import Dataset

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.filterwarnings("ignore:herd ")
RNG = np.random.default_rng(11)
X = RNG.normal(size=(90, 4)) * [1.0, 5.0, 0.2, 1.0] + [0, 3, 0, 0]
Y3 = np.array(["ant", "bee", "cow"])[np.clip((X[:, 0] + 0.3 * X[:, 1]).astype(int), 0, 2)]
Y2 = np.where(X[:, 0] > 0, "yes", "no")
BITS = (X > 0).astype(float)
GREY = Dataset(RNG.integers(0, 17, (60, 6)), value_range=np.array([0, 16]))
ALL = np.zeros(90, dtype=int)


def outputs(path, rows):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(None, {"X": np.asarray(rows, dtype=np.float32)})
    return dict(zip([item.name for item in session.get_outputs()], found, strict=True))


def exported(tmp_path, run, model):
    herdcli.save(tmp_path / "model.h5", model)
    assert run("convert", "model.h5", "-q", "-o", "model.onnx") == (0, "")
    return str(tmp_path / "model.onnx")


CLASSIFIERS = {
    "two classes": (Y2, {}),
    "three classes": (Y3, {}),
    "of length 1": (Y3, {"normalize": "l2"}),
    "as they are, without a constant": (Y2, {"scale": "none", "bias": False}),
    "one against the rest, full": (Y3, {"multiclass": "one-vs-rest", "covariance": "full"}),
    "best rival, full": (Y3, {"covariance": "full"}),
    "two classes, full": (Y2, {"covariance": "full"}),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(tmp_path, run, name):
    y, options = CLASSIFIERS[name]
    split = np.where(np.arange(90) % 3 == 0, 1, 0)  # so that confidences are calibrated
    model = herdcli.nherd_train(np.where(np.abs(X) < 0.1, 0.0, X), y, row_split=split, C=1.0, **options)
    expected = herdcli.apply(model, X)
    found = outputs(exported(tmp_path, run, model), X)
    np.testing.assert_allclose(found["probabilities"], expected.X, atol=2e-5)
    assert list(found["label"]) == [expected.class_names[index] for index in expected.y]


@pytest.mark.parametrize("activation", ["tanh", "relu", "logistic", "softplus"])
@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "softmax", "poisson", "gamma"])
def test_perceptrons(tmp_path, run, family, activation):
    y = {"gaussian": X[:, 0] * X[:, 1], "poisson": np.floor(np.abs(X[:, 1])), "gamma": 0.1 + np.abs(X[:, 0])}.get(family)
    y = (Y3 if family == "softmax" else Y2) if y is None else y
    model = herdcli.regress(X, y, family=family, hidden="5,3", activation=activation, iterations=4, row_split=ALL)
    expected = herdcli.apply(model, X)
    found = outputs(exported(tmp_path, run, model), X)
    size = max(1.0, np.abs(expected.X).max())
    np.testing.assert_allclose(found["probabilities" if model.classes else "mean"] / size, expected.X / size, atol=2e-5)


def test_a_feature_that_was_never_met_counts_by_its_sign(tmp_path, run):
    rows = X.copy()
    rows[:, 3] = 0.0
    model = herdcli.nherd_train(rows, Y2, row_split=ALL, C=1.0)
    found = outputs(exported(tmp_path, run, model), X)
    np.testing.assert_allclose(found["probabilities"], herdcli.apply(model, X).X, atol=1e-5)


LAYERS = {
    "binary": (BITS, {"hidden": 3}),
    "spin": (2 * BITS - 1, {"hidden": 3, "units": "spin"}),
    "grey": (GREY, {"hidden": 3, "threshold": 0.6, "split": (40, 10, 10)}),
    "proportions": (GREY, {"hidden": 3, "visible_units": "rate:16", "hidden_units": "rate:4"}),
    "real": (X, {"hidden": 3, "visible_units": "gaussian", "standardize": True}),
    "groups": (BITS, {"hidden": 6, "hidden_units": "softmax:3"}),
    "counts": (np.abs(X).astype(int), {"hidden": 2, "visible_units": "poisson", "learning_rate": 0.001}),
    "layers": (BITS, {"layers": (4, 2)}),
    "classes": (Dataset(BITS, y=np.arange(90) % 2, split=np.arange(90) % 3), {"hidden": 2, "per_class": True}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_features(tmp_path, run, name):
    rows, options = LAYERS[name]
    model = herdcli.fit_rbm(rows, epochs=2, **options)
    values = np.asarray(getattr(rows, "X", rows), dtype=float)
    found = outputs(exported(tmp_path, run, model), values)["features"]
    np.testing.assert_allclose(found, herdcli.apply(model, rows, want="features").X, atol=2e-5)
    assert found.std() > 1e-6


def test_filters_and_regressions(tmp_path, run):
    ica = herdcli.ica(X, algorithm="ml", row_split=ALL)
    found = outputs(exported(tmp_path, run, ica), X)["features"]
    np.testing.assert_allclose(found, herdcli.apply(ica, X).X, atol=2e-4)
    counts = RNG.poisson(np.exp(0.3 * X[:, 0])).astype(float)
    for family, target in (("gaussian", X @ np.ones(4) + 0.1), ("poisson", counts), ("gamma", counts + 1), ("gamma-shape", counts + 1)):
        model = herdcli.regress(X, target, family=family, row_split=ALL)
        found = outputs(exported(tmp_path, run, model), X)["mean"]
        np.testing.assert_allclose(found, herdcli.apply(model, X).X, rtol=1e-4)
    for labels, options in ((Y2, {"l2": 0.1}), (Y3, {}), (Y3, {"l2": 0.1})):
        model = herdcli.regress(X, labels, row_split=ALL, **options)
        expected, found = herdcli.apply(model, X), outputs(exported(tmp_path, run, model), X)
        np.testing.assert_allclose(found["probabilities"], expected.X, atol=1e-4)
        assert list(found["label"]) == [expected.class_names[index] for index in expected.y]


def test_equal_models_make_equal_bytes(tmp_path, run):
    model = herdcli.fit_rbm(BITS, hidden=2, epochs=1)
    first = Path(exported(tmp_path, run, model)).read_bytes()
    assert first == Path(exported(tmp_path, run, model)).read_bytes()


def test_what_has_no_graph_is_said_in_a_line(tmp_path, run):
    herdcli.save(tmp_path / "kernel.h5", herdcli.nherd_train(X, Y2, kernel="gaussian", covariance="full"))
    (tmp_path / "t.vw").write_text("1 | a b\n-1 | c\n" * 5)
    assert run("nherd-train", "t.vw", "-q", "-o", "hashed.h5")[0] == 0
    herdcli.save(tmp_path / "codes.h5", herdcli.ica(X, algorithm="sparse-coding", rates="0.01x2"))
    herdcli.save(tmp_path / "mixture.h5", herdcli.em(X, components=2))
    cases = {
        "kernel.h5": "a classifier of support vectors cannot be written as onnx\nhint: train it with herd nherd-train on a data set, "
        "with --kernel none\n",
        "hashed.h5": "a classifier of hashed features cannot be written as onnx\nhint: train it with herd nherd-train on a data set, "
        "with --kernel none\n",
        "codes.h5": "a sparse coding model cannot be written as ONNX, because its codes are computed by iteration\nhint: use herd ica "
        "with another --algorithm\n",
    }
    for name, message in cases.items():
        assert run("convert", name, "-q", "-o", "m.onnx") == (2, f"herd convert: {message}")
    kinds = "classifier or dbn or ica or perceptron or rbm or regression"
    assert run("convert", "mixture.h5", "-q", "-o", "m.onnx") == (
        65,
        f"herd convert: mixture.h5: is of kind mixture, but must be of kind {kinds}\n",
    )
    assert run("em", "kernel.h5", "-o", "m.onnx") == (
        2,
        "herd em: m.onnx: only herd convert writes onnx\nhint: write -o FILE.h5, then: herd convert FILE.h5 -o FILE.onnx\n",
    )
    assert not (tmp_path / "m.onnx").exists()


def test_a_pipe_and_python_write_the_same(tmp_path, run):
    model = herdcli.fit_rbm(BITS, hidden=2, epochs=1)
    expected = Path(exported(tmp_path, run, model)).read_bytes()
    herdcli.save(tmp_path / "saved.onnx", model)
    assert (tmp_path / "saved.onnx").read_bytes() == expected
    assert run("convert", "model.h5", "--format", "onnx", "-q", "-o", "piped") == (0, "")
    assert (tmp_path / "piped").read_bytes() == expected


def test_without_the_library_the_line_says_how_to_get_it(tmp_path, run, monkeypatch):
    herdcli.save(tmp_path / "rbm.h5", herdcli.fit_rbm(BITS, hidden=2, epochs=1))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    message = "x.onnx: onnx files need the package onnx\nhint: pip install 'herdcli[onnx]'\n"
    assert run("convert", "rbm.h5", "-o", "x.onnx") == (2, f"herd convert: {message}")


def test_onnx_is_not_read(tmp_path, run):
    exported(tmp_path, run, herdcli.fit_rbm(BITS, hidden=2, epochs=1))
    for line in (("convert", "model.onnx", "-o", "x.h5"), ("convert", "model.onnx", "--to", "rbm", "-o", "x.h5"), ("info", "model.onnx")):
        assert run(*line) == (
            65,
            f"herd {line[0]}: model.onnx: is an ONNX model, which herd writes but does not read\nhint: run it with onnxruntime\n",
        )
