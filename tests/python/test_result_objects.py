"""What functions return: the dataclass of an artifact with methods for the next step, printed on one screen."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import herdcli as herd
from herdcli import results
from herdcli.artifacts import load
from herdcli.artifacts.sealed.artifact_comparison import largest_difference
from herdcli.errors import BadUsage
from herdcli.evaluation.summaries import whole_tables
from herdcli.kinds import KINDS
from herdcli.regression.model import GeneralisedLinear

pytestmark = pytest.mark.filterwarnings("ignore:herd ")

ARCHIVE = sorted(path for path in (Path(__file__).parents[1] / "data").glob("*-[0-9].h5") if "shard" not in path.name)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X @ [1.0, -2.0] + 0.1 * RNG.normal(size=60)


@pytest.fixture(scope="module")
def linear():
    return herd.regress(X, Y, feature_names=["size", "rooms"])


def pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301


def test_a_result_is_the_dataclass_of_its_artifact(linear, tmp_path):
    assert isinstance(linear, GeneralisedLinear)
    assert isinstance(linear, herd.Result)
    assert (linear.kind, [stage["command"] for stage in linear.history]) == ("regression", ["regress"])
    linear.save(tmp_path / "fit.h5")
    assert largest_difference(load(str(tmp_path / "fit.h5")).value, linear)[0] == 0.0
    edited = linear.replace(target="price")
    assert (edited.target, edited.history, dataclasses.replace(linear, target="price").target) == ("price", [], "price")


def test_predictions_scores_and_tables_of_a_regression(linear):
    beta = np.array([row["estimate"] for row in linear.table()])
    np.testing.assert_allclose(linear.predict(X), np.column_stack([X, np.ones(60)]) @ beta, rtol=1e-9)
    residual, spread = Y - linear.predict(X), Y - Y.mean()
    assert linear.score(X, Y) == pytest.approx(1 - (residual @ residual) / (spread @ spread), abs=5e-3)
    table = linear.to_arrow()
    assert table["term"].to_pylist() == ["size", "rooms", "intercept"]
    np.testing.assert_allclose(table["estimate"].to_numpy(), beta)
    assert "file" not in linear.evaluate()
    with pytest.raises(BadUsage, match=r"^this regression predicts a number, not classes\nhint: call predict\(X\)$"):
        linear.predict_proba(X)


def test_classes_clusters_features_and_samples():
    names = np.where(X[:, 0] > 0, "dog", "cat")
    fit = herd.regress(X, names, l2=0.1)
    probable = fit.predict_proba(X)
    np.testing.assert_allclose(probable.sum(axis=1), 1.0)
    assert fit.predict(X).tolist() == np.array(["cat", "dog"])[probable.argmax(axis=1)].tolist()
    assert fit.score(X, names) == np.mean(fit.predict(X) == names)
    mixture = herd.em(X, components=2)
    assert mixture.predict(X).tolist() == mixture.predict_proba(X).argmax(axis=1).tolist()
    assert mixture.score() == mixture.evaluate()["log_likelihood"]
    rows = mixture.sample(5, seed=3)
    assert (rows.X.shape, rows) == ((5, 2), herd.sample(mixture, count=5, seed=3))
    rbm = herd.fit_rbm((X > 0).astype(float), hidden=3, epochs=1)
    assert rbm.transform((X > 0).astype(float)).shape == (60, 3)
    assert not hasattr(rbm, "predict")
    assert not hasattr(mixture, "transform")


@pytest.mark.parametrize("path", ARCHIVE, ids=lambda path: path.stem)
def test_every_kind_prints_on_one_screen_and_survives_a_pickle(path):
    value = herd.load(path)
    text = repr(value)
    assert len(text.splitlines()) <= results.MOST_LINES
    assert max(map(len, text.splitlines())) <= 160
    assert text.startswith(type(value).__qualname__)
    for twin in (pickled(value), copy.deepcopy(value), copy.copy(value)):
        assert type(twin) is type(value)
        assert largest_difference(twin, value)[0] == 0.0
        assert twin.history == value.history
    assert str(value.summary()) == repr(value.summary())
    assert largest_difference(load(str(path)).value, value)[0] == 0.0


@pytest.mark.parametrize("name", [name for name in KINDS if not name.endswith("-shard")])
def test_a_kind_has_the_methods_that_it_can_use(name):
    kind = KINDS[name]
    made = results.result_class(kind.dataclass_of_version(kind.version))
    assert hasattr(made, "sample") == (kind.sample is not None)
    assert (hasattr(made, "predict") or hasattr(made, "transform")) == (kind.apply is not None)
    assert hasattr(made, "plot") == bool(kind.plots)
    assert hasattr(made, "evaluate") == (kind.metrics is not None)
    assert all(each.__doc__ for each in map(made.__dict__.get, made.__dict__) if callable(each) and each.__doc__ is not None)


def test_the_summary_of_samples_is_a_field_and_a_method():
    value = herd.kernel_herd(X, count=4)
    assert value.summary.mmd.shape == (1,)
    assert "atoms" in value.summary()
    again = pickled(value)
    assert again == value
    assert str(again.summary()) == str(value.summary())
    assert value.to_arrow().column_names == ["row", "weight", "mmd", "x0", "x1"]
    assert value != herd.kernel_herd(X, count=3)


def test_tables_have_all_rows_and_names_of_states():
    network = herd.network("grid", grid_rows=12, grid_columns=12)
    table = herd.ups_infer(network, algorithm="mean-field", on_nonconvergence="warn").to_arrow()
    assert (table.num_rows, table.column_names) == (288, ["variable", "state", "probability"])
    data = herd.convert({"colour": ["red", "blue", "red"], "y": ["a", "b", "a"], "n": [1.0, 2.0, 3.0]}, categorical="none")
    assert data.to_arrow().to_pydict()["y"] == ["a", "b", "a"]
    assert data.to_arrow().to_pydict()["n"] == [1.0, 2.0, 3.0]
    binary = (X > 0).astype(float)
    units = herd.fit_rbm(binary, hidden=2, epochs=1).to_arrow()
    assert (units.num_rows, units.column_names) == (2, ["unit", "bias", "x0", "x1"])
    deep = herd.fit_rbm(binary, layers="2,3", epochs=1)
    table = deep.to_arrow()
    assert (table.num_rows, table.column_names) == (2 * 3 + 3 * 3, ["layer", "unit", "input", "weight"])
    assert table["input"].to_pylist()[:3] == ["(bias)", "x0", "x1"]
    assert table["weight"].to_pylist()[7] == deep.layers[1].W[0, 0, 0]
    with pytest.raises(BadUsage, match=r"^artifacts of kind rbm-shard have no table of rows$"):
        whole_tables.main_table_columns("rbm-shard", deep, {})


def test_frames_go_back_into_functions(linear):
    pytest.importorskip("pandas")
    data = herd.convert(X, (X[:, 0] > 0).astype(int), feature_names=["size", "rooms"], row_split=np.repeat([0, 1, 2], 20))
    frame = data.to_pandas()
    assert list(frame.columns) == ["size", "rooms", "y", "split"]
    again = herd.convert(frame)
    assert largest_difference(again.X, data.X)[0] == 0.0
    assert (again.split.tolist(), again.y.tolist()) == (data.split.tolist(), data.y.tolist())
    assert linear.to_pandas().set_index("term").loc["size", "estimate"] == linear.coefficients[0, 0]


def test_plots_are_figures(linear, tmp_path):
    pytest.importorskip("matplotlib")
    figure = linear.plot("residuals", tmp_path / "residuals.png")
    assert figure.axes
    assert (tmp_path / "residuals.png").read_bytes()[:4] == b"\x89PNG"
    assert linear.plots() == list(KINDS["regression"].plots)
    with pytest.raises(BadUsage, match=r"^there is no plot 'residual' for artifacts of kind 'regression'\nhint: did you mean residuals\?"):
        linear.plot("residual")
    with pytest.raises(BadUsage, match=r"a plot needs the suffix \.png, \.pdf or \.svg\nhint: "):
        linear.plot("residuals", tmp_path / "residuals.jpg")


def test_networks_and_weights_that_herd_wrote_are_read(tmp_path):
    network = herd.network("grid", grid_rows=2, grid_columns=2)
    for name in ("net.h5", "net.uai", "net.fg"):
        network.save(tmp_path / name)
        assert herd.load(tmp_path / name).count == 4, name
    (tmp_path / "net.uai.gz").write_bytes(gzip.compress((tmp_path / "net.uai").read_bytes()))
    assert herd.load(tmp_path / "net.uai.gz").count == 4
    herd.save(tmp_path / "rows.csv", X)
    np.testing.assert_allclose(herd.load(str(tmp_path / "rows.csv")).X, X)
    pytest.importorskip("safetensors")
    rbm = herd.fit_rbm((X > 0).astype(float), hidden=3, epochs=1)
    herd.save(tmp_path / "rbm.safetensors", rbm)
    assert largest_difference(herd.load(tmp_path / "rbm.safetensors").W, rbm.W)[0] == 0.0


def test_figures_are_those_of_eval(linear, tmp_path):
    assert linear.evaluate() == {name: item for name, item in herd.eval(linear)[0].items() if name != "file"}
    assert json.loads(json.dumps(linear.evaluate()))["verdict"] == "ok"
