"""`herd nherd-train` of Vowpal Wabbit and svmlight text whose labels are names."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.artifacts import load

NAMES = ["crude", "earn", "acq"]


def lines(form: str, names=NAMES, count: int = 300, seed: int = 1) -> bytes:
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        k, x = int(random.integers(0, len(names))), random.normal(size=4)
        x[k] += 3
        if form == "vw":
            made.append(f"{names[k]} |f " + " ".join(f"w{j}:{value:.3f}" for j, value in enumerate(x)))
        else:
            made.append(f"{names[k]} " + " ".join(f"{j + 1}:{value:.3f}" for j, value in enumerate(x)))
    return ("\n".join(made) + "\n").encode()


@pytest.mark.parametrize("form", ["vw", "svm"])
def test_names_are_classes(herd, tmp_path, form):
    (tmp_path / f"d.{form}").write_bytes(lines(form))
    (tmp_path / f"t.{form}").write_bytes(lines(form, seed=2))
    assert herd("nherd-train", "-q", f"d.{form}", "-o", "m.h5").code == 0
    model = load(str(tmp_path / "m.h5")).value
    assert model.classes == sorted(NAMES)
    assert herd("eval", "m.h5", "--data", f"t.{form}", "--require", "error<0.1").code == 0
    assert herd("apply", "m.h5", f"t.{form}", "-o", "p.h5").code == 0
    made = load(str(tmp_path / "p.h5")).value
    truth = [line.split()[0].decode() for line in lines(form, seed=2).splitlines()]
    assert np.mean([made.class_names[k] == name for k, name in zip(made.y, truth, strict=True)]) > 0.9


def test_names_give_the_weights_that_numbers_give(herd, tmp_path):
    text = lines("vw", ["a", "b"])
    numbers = text.replace(b"\na ", b"\n-1 ").replace(b"\nb ", b"\n1 ")
    numbers = (b"-1" if numbers[:1] == b"a" else b"1") + numbers[1:]
    found = []
    for content in (text, numbers):
        assert herd("nherd-train", "-q", "-o", "m.h5", stdin=content).code == 0
        found.append(load(str(tmp_path / "m.h5")).value)
    assert found[0].classes == ["a", "b"]
    assert np.array_equal(found[0].mean, found[1].mean)


def test_a_model_of_names_is_gone_on_with(herd, tmp_path):
    assert herd("nherd-train", "-q", "-o", "a.h5", stdin=lines("vw")).code == 0
    assert herd("nherd-train", "-q", "--continue", "a.h5", "-o", "b.h5", stdin=lines("vw", NAMES[:2], seed=3)).code == 0
    assert load(str(tmp_path / "b.h5")).value.classes == sorted(NAMES)
    unknown = herd("nherd-train", "-q", "--continue", "a.h5", "-o", "b.h5", stdin=lines("vw", ["tea", *NAMES], seed=3))
    assert unknown.code == 65
    assert "label tea is not one of the classes (acq, crude, earn)" in unknown.err


@pytest.mark.parametrize(
    ("stdin", "options", "code", "says"),
    [
        (b"a | x\na | y\n", (), 65, "stdin: all of the first examples have the label a"),
        (b"a | x\n| y\nb | z\n", (), 65, "stdin: a line has no label"),
        (b"a | x\nb | y\n", ("--classes", "a,c"), 65, "stdin: label b is not one of the classes (a, c)"),
        (b"a | x\nb | y\n", ("--max-classes", "2", "--cache", "c"), 2, "--cache stores labels as numbers, but these are names"),
    ],
)
def test_labels_that_are_no_classes_are_refused(herd, stdin, options, code, says):
    refused = herd("nherd-train", *options, "-o", "m.h5", stdin=stdin)
    assert (refused.code, refused.err.splitlines()[0]) == (code, f"herd nherd-train: {says}")
