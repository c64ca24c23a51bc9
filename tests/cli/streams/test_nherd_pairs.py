"""nherd-train --interactions: what products can learn, that a model keeps them, and rows without namespaces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.artifacts.load_save import save


def parity(count: int, seed: int = 0) -> bytes:
    """A label that two namespaces say together and neither alone."""
    bits = np.random.default_rng(seed).integers(0, 2, (count, 2))
    return "".join(f"{1 if a == b else -1} |age a{a} |bag b{b}\n" for a, b in bits.tolist()).encode()


@pytest.fixture(scope="module")
def model(run_plain, tmp_path_factory) -> bytes:
    """The bytes of a model of the products."""
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "x.vw").write_bytes(parity(400))
    return run_plain(folder, "nherd-train", "-q", "x.vw", "--bits", "10", "--interactions", "ab")


def test_products_learn_what_features_alone_cannot(herd, tmp_path, model):
    (tmp_path / "m.h5").write_bytes(model)
    (tmp_path / "x.vw").write_bytes(parity(400))
    (tmp_path / "test.vw").write_bytes(parity(200, 1))
    assert herd("nherd-train", "-q", "x.vw", "--bits", "10", "-o", "plain.h5").code == 0
    kept, plain = (load(str(tmp_path / name)).value for name in ("m.h5", "plain.h5"))
    assert kept.interactions == ["ab"]
    assert plain.interactions is None
    assert kept.running.wrong < 0.05 * 400 < 0.2 * 400 < plain.running.wrong
    assert herd("apply", "m.h5", "test.vw", "-o", "p.csv").code == 0
    lines = (tmp_path / "p.csv").read_text().splitlines()
    at = lines[0].split(",").index("predicted_y")
    labels = [line.split()[0] for line in parity(200, 1).decode().splitlines()]
    assert [line.split(",")[at].strip('"') for line in lines[1:]] == labels
    assert herd("eval", "m.h5", "--data", "test.vw").code == 0


def test_learning_goes_on_as_if_it_had_not_stopped(herd, tmp_path, model):
    (tmp_path / "m.h5").write_bytes(model)
    more, options = parity(300, 2), ("--algorithm", "nherd", "--C", "1", "--bits", "10", "-q")
    (tmp_path / "a.vw").write_bytes(parity(400))
    (tmp_path / "b.vw").write_bytes(more)
    (tmp_path / "ab.vw").write_bytes(parity(400) + more)
    assert herd("nherd-train", "ab.vw", *options, "--interactions", "aa", "--interactions", "ab", "-o", "whole.h5").code == 0
    assert herd("nherd-train", "a.vw", *options, "--interactions", "aa,ab", "-o", "half.h5").code == 0
    assert herd("nherd-train", "-q", "b.vw", "--continue", "half.h5", "-o", "both.h5").code == 0
    whole, both = (load(str(tmp_path / name)).value for name in ("whole.h5", "both.h5"))
    assert both.interactions == ["aa", "ab"]
    assert np.array_equal(whole.mean, both.mean)
    assert np.array_equal(whole.variance, both.variance)
    ended = herd("nherd-train", "b.vw", "--continue", "half.h5", "--interactions", "bb", "-o", "n.h5")
    assert "--interactions has no effect with --continue: the model decides" in ended.err


def test_models_of_the_same_products_merge_and_no_others(herd, tmp_path, model):
    (tmp_path / "m.h5").write_bytes(model)
    assert herd("merge", "-q", "m.h5", "m.h5", "-o", "two.h5").code == 0
    assert load(str(tmp_path / "two.h5")).value.interactions == ["ab"]
    artifact = load(str(tmp_path / "m.h5"))
    save(str(tmp_path / "none.h5"), replace(artifact.value, interactions=None), artifact.history)
    ended = herd("merge", "-q", "m.h5", "none.h5", "-o", "n.h5")
    assert ended.code == 65
    assert "model 2 differs from model 1 in --interactions: none, not ab" in ended.err


@pytest.mark.parametrize("command", ["nherd-train", "apply", "continue"])
def test_svmlight_text_has_no_namespaces(herd, tmp_path, model, command):
    (tmp_path / "m.h5").write_bytes(model)
    (tmp_path / "x.svm").write_bytes(b"1 1:1\n-1 2:1\n")
    arguments = {
        "nherd-train": ("nherd-train", "-q", "x.svm", "--interactions", "ab", "--bits", "10", "-o", "n.h5"),
        "apply": ("apply", "-q", "m.h5", "x.svm", "-o", "n.csv"),
        "continue": ("nherd-train", "-q", "x.svm", "--continue", "m.h5", "-o", "n.h5"),
    }[command]
    ended = herd(*arguments)
    assert ended.code == 65
    assert "x.svm: has no namespaces, and --interactions ab multiplies the features of two" in ended.err
    assert "use Vowpal Wabbit text, which has namespaces" in ended.err


@pytest.mark.parametrize("more", [(), ("--parts", "2")])
def test_a_data_set_has_no_namespaces(herd, tmp_path, write, more):
    write(tmp_path / "d.h5", {"X": np.random.default_rng(0).standard_normal((40, 3)), "y": np.arange(40) % 2})
    ended = herd("nherd-train", "-q", "d.h5", "--interactions", "ab,cd", *more, "-o", "n.h5")
    assert ended.code == 65
    assert "d.h5: has no namespaces, and --interactions ab,cd multiplies the features of two" in ended.err


@pytest.mark.parametrize("text", ["abc", "a"])
def test_three_letters_are_no_pair(herd, text):
    ended = herd("nherd-train", "-", "--interactions", text, stdin=parity(4))
    assert ended.code == 2
    assert f"'{text}' is not a pair: the first letters of two namespaces, as ab, or :: for all pairs" in ended.err


def test_namespaces_that_no_line_has_multiply_nothing(herd, tmp_path):
    (tmp_path / "x.vw").write_bytes(parity(200))
    for name, pairs in (("plain.h5", ()), ("unknown.h5", ("--interactions", "zq,az"))):
        assert herd("nherd-train", "-q", "x.vw", "--bits", "10", "--C", "1", *pairs, "-o", name).code == 0
    plain, unknown = (load(str(tmp_path / name)).value for name in ("plain.h5", "unknown.h5"))
    assert unknown.interactions == ["zq", "az"]
    # entries of a row are added up in another order
    assert np.allclose(plain.mean, unknown.mean, rtol=1e-12, atol=0)
    assert np.allclose(plain.variance, unknown.variance, rtol=1e-12, atol=0)


def test_new_rows_may_have_namespaces_that_the_model_never_met(herd, tmp_path, model):
    (tmp_path / "m.h5").write_bytes(model)
    assert herd("apply", "-q", "m.h5", "-", "-o", "p.csv", stdin=b"|age a1 |bag b1\n|age a1 |bag b1 |zoo lion\n|zoo\n").code == 0
    one, two, three = (tmp_path / "p.csv").read_text().splitlines()[1:]
    p = [float(line.split(",")[0]) for line in (one, two, three)]
    assert p[0] < 0.2  # equal bits: class 1
    assert abs(p[1] - p[0]) < abs(p[2] - p[0])  # a word never met has mean 0
