"""Weights in safetensors, to and from the library of that name; pickles are refused."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

import herdcli
from herdcli.artifacts.sealed.artifact_comparison import largest_difference

safetensors = pytest.importorskip("safetensors.numpy")

pytestmark = pytest.mark.filterwarnings("ignore:herd ")
RNG = np.random.default_rng(12)
BITS = (RNG.random((60, 5)) > 0.5).astype(float)
ALL = np.zeros(60, dtype=int)
KIND = "is weights in safetensors, not a data set\nhint: convert it: herd convert FILE --to rbm (or --to dbn)\n"


def test_an_rbm_goes_out_and_comes_back(tmp_path, run):
    for units in ("binary", "spin", "rate:4"):
        rows, more = (2 * BITS - 1 if units == "spin" else BITS), ({"range": (0, 1)} if units == "rate:4" else {})
        rbm = herdcli.fit_rbm(rows, hidden=3, epochs=2, units=units, row_split=ALL, **more)
        herdcli.save(tmp_path / "rbm.h5", rbm)
        assert run("convert", "rbm.h5", "-q", "-o", "w.safetensors") == (0, "")
        told = safetensors.load_file(tmp_path / "w.safetensors")
        assert {name: item.shape for name, item in told.items()} == {"W": (5, 3), "b": (5,), "c": (3,)}
        np.testing.assert_array_equal(told["W"], rbm.W[0])
        assert run("convert", "w.safetensors", "--to", "rbm", "-q", "-o", "again.h5") == (0, "")
        again = herdcli.load(tmp_path / "again.h5")
        assert (again.visible_units, again.hidden_units, again.algorithm) == (units, units, "imported")
        for name in ("W", "b", "c"):
            np.testing.assert_array_equal(getattr(again, name), getattr(rbm, name))
        assert run("convert", "w.safetensors", "--to", "rbm", "--units", "binary", "-q", "-o", "typed.h5") == (0, "")
        assert herdcli.load(tmp_path / "typed.h5").visible_units == "binary"


def test_layers_and_filters(tmp_path, run):
    dbn = herdcli.fit_rbm(BITS, layers=(4, 2), epochs=2, row_split=ALL)
    herdcli.save(tmp_path / "dbn.h5", dbn)
    assert run("convert", "dbn.h5", "-q", "-o", "w.safetensors") == (0, "")
    assert run("convert", "w.safetensors", "--to", "dbn", "-q", "-o", "again.h5") == (0, "")
    again = herdcli.load(tmp_path / "again.h5")
    assert largest_difference(herdcli.apply(dbn, BITS), herdcli.apply(again, BITS))[0] < 1e-7
    ica = herdcli.ica(RNG.normal(size=(60, 3)), algorithm="ml", row_split=ALL)
    herdcli.save(tmp_path / "ica.h5", ica)
    assert run("convert", "ica.h5", "-q", "-o", "f.safetensors") == (0, "")
    told = safetensors.load_file(tmp_path / "f.safetensors")
    x = RNG.normal(size=(4, 3))
    np.testing.assert_allclose((x - told["mean"]) @ told["unmixing"].T, herdcli.apply(ica, x).X, atol=1e-12)
    np.testing.assert_allclose(told["unmixing"] @ told["mixing"], np.eye(3), atol=1e-9)


def test_perceptrons_have_the_arrays_of_linear_layers(tmp_path, run):
    X = RNG.normal(size=(60, 3))
    model = herdcli.regress(X, np.array(["no", "yes"])[(X[:, 0] > 0) * 1], hidden="4", iterations=5)
    herdcli.save(tmp_path / "m.h5", model)
    assert run("convert", "m.h5", "-q", "-o", "w.safetensors") == (0, "")
    arrays = safetensors.load_file(tmp_path / "w.safetensors")
    hidden = np.tanh((X - arrays["column_mean"]) * arrays["column_factor"] @ arrays["layers.0.weight"].T + arrays["layers.0.bias"])
    eta = hidden @ arrays["layers.1.weight"].T + arrays["layers.1.bias"]
    assert np.allclose(1 / (1 + np.exp(-eta[:, 0])), herdcli.apply(model, X).X[:, 1])


def test_names_of_other_programs(tmp_path, run):
    W, b, c = RNG.normal(size=(3, 5)), RNG.normal(size=5), RNG.normal(size=3)
    safetensors.save_file({"net.W": W, "net.v_bias": b, "net.h_bias": c}, tmp_path / "torch.safetensors")
    assert run("convert", "torch.safetensors", "--to", "rbm", "-q", "-o", "rbm.h5") == (0, "")
    rbm = herdcli.load(tmp_path / "rbm.h5")
    np.testing.assert_array_equal(rbm.W[0], W.T)
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    herdcli.save(tmp_path / "m.h5", rbm)
    assert run("convert", "m.h5", "-q", "-o", "out.safetensors") == (0, "")
    assert torch.equal(load_file(tmp_path / "out.safetensors")["W"], torch.from_numpy(W.T.copy()))


def test_equal_models_make_equal_bytes(tmp_path, run):
    herdcli.save(tmp_path / "rbm.h5", herdcli.fit_rbm(BITS, hidden=2, epochs=1))
    for name in ("one.safetensors", "two.safetensors"):
        assert run("convert", "rbm.h5", "-q", "-o", name) == (0, "")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()


def written(tmp_path, name, **arrays):
    safetensors.save_file(arrays, tmp_path / name)
    return name


def test_what_is_wrong_with_tensors_is_said_in_a_line(tmp_path, run):
    W, b, c = np.zeros((5, 3)), np.zeros(5), np.zeros(3)
    written(tmp_path, "good.safetensors", W=W, b=b, c=c)
    whole = (tmp_path / "good.safetensors").read_bytes()
    (tmp_path / "short.safetensors").write_bytes(whole[:-20])
    (tmp_path / "head.safetensors").write_bytes(whole[:30])
    bad = json.dumps({"W": {"dtype": "F64", "shape": [1 << 40, 8], "data_offsets": [0, 1 << 46]}}).encode()
    (tmp_path / "bomb.safetensors").write_bytes(len(bad).to_bytes(8, "little") + bad)
    written(tmp_path, "shapes.safetensors", W=np.zeros((5, 4)), b=b, c=c)
    written(tmp_path, "ranks.safetensors", W=np.zeros((2, 5, 3)), b=np.zeros((2, 5)), c=np.zeros((2, 3)))
    written(tmp_path, "linear.safetensors", weight=W, bias=c)
    written(tmp_path, "nan.safetensors", W=W * np.nan, b=b, c=c)
    written(tmp_path, "layers.safetensors", **{"layers.0.W": W, "layers.0.b": b, "layers.0.c": c})
    written(tmp_path, "gap.safetensors", **{"layers.1.W": W, "layers.1.b": b, "layers.1.c": c})
    written(tmp_path, "chain.safetensors", **{f"layers.{n}.{k}": v for n in (0, 1) for k, v in (("W", W), ("b", b), ("c", c))})
    safetensors.save_file({"W": W, "b": b, "c": c}, tmp_path / "units.safetensors", {"visible_units": "x"})
    for name, to, message in (
        ("units", "rbm", "visible_units are 'x', expected one of binary, spin, "),
        ("short", "rbm", "safetensors cannot be read ("),
        ("head", "rbm", "safetensors cannot be read ("),
        ("bomb", "rbm", "safetensors cannot be read ("),
        ("shapes", "rbm", "array W has the shape 5 × 4, but there are 5 visible and 3 hidden biases\n"),
        ("ranks", "rbm", "array W has the shape 2 × 5 × 3, but there are 10 visible and 6 hidden biases\n"),
        ("linear", "rbm", "has no array for the weights (it has bias, weight)\nhint: give the arrays one of these sets of names: "),
        ("nan", "rbm", "/W has values that are not finite\n"),
        ("layers", "rbm", "has several layers, so it is a deep belief network\nhint: use --to dbn\n"),
        (
            "good",
            "dbn",
            "has no layers 0, 1, … (it has W, b, c)\nhint: name the arrays layers.0.W, layers.0.b, layers.0.c, layers.1.W, …\n",
        ),
        ("gap", "dbn", "has no layers 0, 1, … (it has layers.1.W, layers.1.b, layers.1.c)\n"),
        ("chain", "dbn", "/layers/1 has 5 binary visible units, but the layer below has 3 binary hidden units\n"),
    ):
        code, err = run("convert", f"{name}.safetensors", "--to", to, "-q", "-o", "out.h5")
        assert (code, err[: len(message) + len(name) + 30].startswith(f"herd convert: {name}.safetensors: {message}")) == (65, True), err
        assert len(err.splitlines()) <= 2
    code, err = run("convert", "good.safetensors", "--to", "rbm", "--max-memory", "100", "-o", "x.h5")
    assert (code, "needs 368 B of memory, more than the 100 B allowed" in err) == (65, True), err
    assert run("convert", "good.safetensors", "-o", "x.h5") == (65, f"herd convert: good.safetensors: {KIND}")
    assert run("info", "good.safetensors") == (65, f"herd info: good.safetensors: {KIND}")
    assert not (tmp_path / "out.h5").exists()


def test_pickles_of_pytorch_are_never_loaded(tmp_path, run):
    """Both forms of .pt: a zip of a pickle and arrays, and the older plain pickle."""
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02cos\nsystem\n")
    (tmp_path / "old.pt").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
    what = (
        "is a PyTorch file, a pickle that can run code and is never loaded\nhint: convert it in Python: "
        "safetensors.torch.save_file(model.state_dict(), FILE)\n"
    )
    for line in ("convert model.pt --to rbm -o x.h5", "convert model.pt -o x.h5", "fit-rbm model.pt -o x.h5"):
        assert run(*line.split()) == (65, f"herd {line.split()[0]}: model.pt: {what}")
    old = "is a Python pickle, which herd does not read\nhint: write HDF5, NPZ or CSV instead: pickles can run code and are never loaded\n"
    assert run("convert", "old.pt", "--to", "rbm", "-o", "x.h5") == (65, f"herd convert: old.pt: {old}")


def test_without_the_library_the_line_says_how_to_get_it(tmp_path, run, monkeypatch):
    written(tmp_path, "w.safetensors", W=np.zeros((5, 3)), b=np.zeros(5), c=np.zeros(3))
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    hint = "hint: pip install 'herdcli[safetensors]'\n"
    assert run("convert", "w.safetensors", "--to", "rbm", "-o", "x.h5") == (
        2,
        f"herd convert: w.safetensors: safetensors files need the package safetensors\n{hint}",
    )
