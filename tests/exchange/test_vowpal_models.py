"""Vowpal Wabbit's readable model: its weights score as it does, and herd's score the same in it."""

from __future__ import annotations

import numpy as np
import pytest

import herdcli
from herdcli.errors import BadUsage
from herdcli.exchange import vowpal_models
from herdcli.online.predictions.prediction import make_scorer
from herdcli.online.text.text_parser import BlockReader

ONE = "hint: train it without --oaa and other reductions: herd reads one weight for each feature or pair of features\n"
HEAD = "Version 9.11.9\nId \nMin label:-1\nMax label:1\nbits:10\nlda:0\n0 ngram:\n0 skip:\noptions:{}\n:0\n"


def text(tmp_path, rows=200):
    rng = np.random.default_rng(3)
    lines = []
    for _ in range(rows):
        a, b = rng.normal(size=2)
        lines.append(f"{1 if a > 2 * b else -1} |f a:{a:.4f} 7:{b:.4f} |g word d:{rng.random():.3f}")
    (tmp_path / "t.vw").write_text("\n".join(lines) + "\n")
    return lines


def scores(model, path):
    reader = BlockReader("t", True, bits=model.bits, interactions=model.interactions)
    return np.concatenate([make_scorer(model)(block)[0][:, 0] for block in reader.blocks([path.read_bytes()])])


@pytest.fixture
def vw():
    return pytest.importorskip("vowpalwabbit").Workspace


@pytest.mark.parametrize("further", ["", " --save_resume", " -q fg", " --interactions fg --interactions ff"])
def test_its_weights_score_as_it_does(tmp_path, run, vw, further):
    lines = text(tmp_path)
    theirs = vw(f"--quiet --hash all -b 10 --loss_function logistic --readable_model {tmp_path / 'r.txt'}{further}")
    for line in lines:
        theirs.learn(line)
    expected = [theirs.predict(line.partition(" ")[2]) for line in lines]
    theirs.finish()
    code, err = run("convert", "r.txt", "--to", "classifier", "-o", "c.h5")
    assert code == 0
    assert "its probabilities are not calibrated" in err
    assert "whole numbers" not in err
    model = herdcli.load(tmp_path / "c.h5")
    np.testing.assert_allclose(scores(model, tmp_path / "t.vw"), expected, rtol=1e-4, atol=1e-5)
    assert run("apply", "c.h5", "t.vw", "-q", "-o", "p.csv") == (0, "")
    assert run("eval", "c.h5", "--data", "t.vw", "-q", "--require", "error<0.1", "-o", "f.tsv")[0] == 0


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"scale": "none"}, {"interactions": "fg"}])
def test_herd_s_weights_score_in_it_as_in_herd(tmp_path, run, vw, options):
    lines = text(tmp_path)
    model = herdcli.nherd_train(tmp_path / "t.vw", bits=12, C=1.0, **options)
    herdcli.save(tmp_path / "c.h5", model)
    assert run("convert", "c.h5", "-q", "-o", "m.vw") == (0, "")
    further = " --noconstant" if options == {"bias": False} else " -q fg" if "interactions" in options else ""
    theirs = vw(f"--quiet --hash all -b 12 --loss_function logistic{further}")
    for line in (tmp_path / "m.vw").read_text().partition("\n:0\n")[2].splitlines():
        index, weight = line.split(":")
        theirs.set_weight(int(index), 0, float(weight))
    expected = np.array([theirs.predict(line.partition(" ")[2]) for line in lines])
    theirs.finish()
    ours = scores(model, tmp_path / "t.vw")
    assert np.abs(ours).max() < 50  # where its predictions are cut off
    np.testing.assert_allclose(expected, ours, rtol=1e-4, atol=1e-5)
    assert run("convert", "m.vw", "--to", "classifier", "-q", "-o", "again.h5") == (0, "")
    np.testing.assert_allclose(scores(herdcli.load(tmp_path / "again.h5"), tmp_path / "t.vw"), ours, rtol=1e-12, atol=1e-12)


def test_what_it_cannot_say_is_refused(tmp_path, run):
    text(tmp_path)
    (tmp_path / "three.vw").write_text("".join(f"{k} | f{k}\n" for k in (1, 2, 3)) * 4)
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    for name, model, message in (
        ("classes", herdcli.nherd_train(tmp_path / "three.vw", C=1.0), "has 3 classes, but Vowpal Wabbit's readable model holds two"),
        ("rows", herdcli.nherd_train(X, y, C=1.0), "was not learned from Vowpal Wabbit text, whose features the readable model needs"),
        (
            "length",
            herdcli.nherd_train(tmp_path / "t.vw", C=1.0, normalize="l2"),
            "scales examples to length 1, which Vowpal Wabbit's readable model cannot express",
        ),
        (
            "kernel",
            herdcli.nherd_train(X, y, kernel="gaussian", covariance="full"),
            "has support vectors, but Vowpal Wabbit's readable model holds weights",
        ),
    ):
        herdcli.save(tmp_path / f"{name}.h5", model)
        hint = "hint: train such a model: herd nherd-train TEXT.vw\n"
        assert run("convert", f"{name}.h5", "-q", "-o", "m.vw") == (2, f"herd convert: {message}\n{hint}")
    assert not (tmp_path / "m.vw").exists()
    with pytest.raises(BadUsage):
        vowpal_models.write_model(tmp_path / "m.vw", herdcli.nherd_train(X, y, C=1.0))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            HEAD.format(" --oaa 3") + "5:1\n",
            "was learned with --oaa 3\nhint: train it without --oaa and other reductions: herd reads one weight for each feature or "
            "pair of features\n",
        ),
        (HEAD.format("") + "5:abc\n", "line 11 has no number as its weight\n"),
        (HEAD.format("") + "1024:1\n", "line 11 has the index 1024, but there are only 2^10 weights\n"),
        (HEAD.format("") + "5:inf\n", "line 11 has a weight that is not finite\n"),
        (HEAD.format("") + "5:1\n7;2\n", "line 12 is not index:weight\n"),
        (HEAD.format("").replace("bits:10", "bits:99"), "line 5 must give a number of bits from 1 to 30\n"),
        (HEAD.format("").replace("bits:10", "bits:¹"), "line 5 must give a number of bits from 1 to 30\n"),
        (HEAD.format("").replace("bits:10", "bits:" + "1" * 5000), "line 5 must give a number of bits from 1 to 30\n"),
        (HEAD.format("").partition(":0")[0][:60], "ends before its weights\nhint: write the file again: vw --readable_model FILE\n"),
        ("1 | a b\n", "ends before its weights\nhint: write the file again: vw --readable_model FILE\n"),
    ],
)
def test_what_is_wrong_with_a_readable_model(tmp_path, run, content, message):
    (tmp_path / "m.txt").write_text(content)
    assert run("convert", "m.txt", "--to", "classifier", "-o", "c.h5") == (65, f"herd convert: m.txt: {message}")


def test_bits_that_no_memory_holds_are_refused(tmp_path, run):
    (tmp_path / "m.txt").write_text(HEAD.format("").replace("bits:10", "bits:30") + "5:1\n")
    code, err = run("convert", "m.txt", "--to", "classifier", "--max-memory", "1G", "-o", "c.h5")
    assert code == 65
    assert "2^30 weights" in err


def test_names_that_are_numbers_are_spoken_of(tmp_path, run):
    """Without --hash all Vowpal Wabbit does not hash them."""
    (tmp_path / "m.txt").write_text(HEAD.format("") + "5:1\n")
    code, err = run("convert", "m.txt", "--to", "classifier", "-o", "c.h5")
    told = (
        "convert: this model was trained without --hash all, so herd looks up wrong weights for features whose names are whole numbers; "
        "train it again with --hash all"
    )
    assert (code, err.splitlines()[0]) == (0, told)


def test_a_readable_model_is_no_data_set(tmp_path, run):
    (tmp_path / "m.txt").write_text(HEAD.format("") + "5:1\n")
    message = "is a model of Vowpal Wabbit, not a data set\nhint: convert it: herd convert FILE --to classifier\n"
    assert run("nherd-train", "m.txt", "-o", "c.h5") == (65, f"herd nherd-train: m.txt: {message}")
    assert run("convert", "m.txt", "-o", "c.h5") == (65, f"herd convert: m.txt: {message}")
