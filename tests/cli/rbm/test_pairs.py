"""`herd fit-rbm --pairs` and `herd eval --gallery`: what they make, what they take over, what they refuse."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli import artifacts
from herdcli.cli.main import main

QUICK = ("--hidden", "6", "--epochs", "4", "--batch-size", "10")


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """faces.h5: 5 persons with 6 images of 3 × 4, two of each with glasses; pixel 0 is always black."""
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 6)
    X = np.clip(random.random((5, 12))[y] + 0.1 * random.normal(size=(30, 12)), 0, 1) * 255
    X[:, 0] = 0
    with h5py.File(tmp_path / "faces.h5", "w") as file:
        file["X"] = X.astype(np.uint8)
        file["X"].attrs.update({"image_shape": [3, 4], "value_range": [0, 255]})
        file["y"] = y
        file["split"] = np.tile(np.array([0, 0, 0, 1, 2, 2], dtype=np.uint8), 5)
        file["glasses"] = np.tile(np.array([0, 0, 1, 0, 0, 1], dtype=np.uint8), 5)
        file["class_names"] = np.array(["ann", "bob", "cyd", "dee", "eve"], dtype=h5py.string_dtype())
    return tmp_path / "faces.h5"


@pytest.fixture
def herd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """herd(*arguments) is exit code, stdout and stderr, folder names left out."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err.replace(f"{tmp_path}/", "")

    return run


@pytest.fixture
def model(faces: Path, herd: Callable[..., tuple[int, str, str]], tmp_path: Path) -> Path:
    """pairs.h5: a quick model of faces.h5."""
    assert herd("fit-rbm", "--pairs", faces, *QUICK, "-o", tmp_path / "pairs.h5")[0] == 0
    return tmp_path / "pairs.h5"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter="\t"))


def test_pairs_have_the_defaults_of_the_thesis_and_say_so_in_the_record(model):
    made = artifacts.load(str(model))
    settings = made.value.settings
    assert (settings.visible_units, settings.hidden_units, settings.mean_field, settings.momentum) == (
        "rate:10",
        "rate:100",
        "visible",
        0.95,
    )
    assert (settings.hidden, settings.epochs, settings.batch_size) == (6, 4, 10)
    parameters = made.history[-1]["parameters"]
    assert (parameters["learning_rate"], parameters["hidden_units"]) == (settings.learning_rate, "rate:100")
    assert made.value.pairs == 5 * 3 * 2
    assert made.value.split.tolist() == [0, 0, 0, 1, 2, 2] * 5
    assert not made.value.W1[0].any()
    assert made.value.W1[1:].all()


def test_typed_options_take_their_place(faces, herd, tmp_path):
    herd("fit-rbm", "--pairs", faces, *QUICK, "--units", "binary", "--momentum", 0.5, "--threshold", 0.6, "-q", "-o", tmp_path / "b.h5")
    made = artifacts.load(str(tmp_path / "b.h5")).value
    assert (made.settings.visible_units, made.settings.hidden_units, made.settings.momentum) == ("binary", "binary", 0.5)
    assert made.threshold == 0.6


def test_an_interrupted_fit_goes_on_to_the_same_bytes(model, faces, herd, tmp_path):
    from herdcli import iterate
    from herdcli.errors import Interrupted

    arguments = ("fit-rbm", "--pairs", faces, *QUICK, "--checkpoint", tmp_path / "c.h5", "--every", 2, "-q", "-o", tmp_path / "again.h5")

    def stopping(step, state, *, checkpoint, until, **rest):
        done = run(step, state, until=lambda state: state.step == 5, checkpoint=checkpoint, **rest)
        assert not until(done)
        checkpoint(done)
        raise Interrupted(15)

    run = iterate.run_steps
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iterate, "run_steps", stopping)
        assert herd(*arguments)[0] == 75
    assert herd(*arguments, "--resume")[0] == 0
    assert (tmp_path / "again.h5").read_bytes() == model.read_bytes()
    assert not (tmp_path / "c.h5").exists()


def test_recognition_uses_the_parts_that_the_model_was_learned_with(model, faces, herd):
    code, out, _ = herd("eval", model, "--gallery", faces)
    rows = table(out)
    assert code == 0
    assert [row["method"] for row in rows] == ["rbm-pairs", "correlation", "eigenfaces", "fisherfaces", "dppca"]
    assert {(row["set"], row["probes"], row["gallery"]) for row in rows} == {("test", "10", "15")}
    assert all(0 <= float(row["rank_8"]) <= float(row["rank_1"]) <= 1 for row in rows)
    assert float(rows[1]["rank_1"]) < 0.5
    few = table(herd("eval", model, "--gallery", faces, "--gallery-images", 1, "--probes", "valid")[1])
    assert {(row["set"], row["probes"], row["gallery"]) for row in few} == {("valid", "5", "5")}


def test_another_split_at_fitting_is_that_of_recognition(faces, herd, tmp_path):
    herd("fit-rbm", "--pairs", faces, *QUICK, "--split", "4,0,2", "--seed", 3, "-q", "-o", tmp_path / "s.h5")
    assert table(herd("eval", tmp_path / "s.h5", "--gallery", faces)[1])[0]["gallery"] == "20"


def test_other_images_bring_their_own_split_and_it_is_said(model, faces, herd, tmp_path):
    herd("convert", faces, "--split", "2,0,4", "-q", "-o", tmp_path / "other.h5")
    code, out, err = herd("eval", model, "--gallery", tmp_path / "other.h5")
    assert code == 0
    assert table(out)[0]["gallery"] == "10"
    assert err == (
        "eval: other.h5 differs from the training data, so its own split decides which images are gallery and which are probes\n"
    )


def test_conditions_have_rows_of_their_own(faces, herd, tmp_path):
    herd("convert", faces, "--hold-out", "glasses", "-q", "-o", tmp_path / "held.h5")
    herd("fit-rbm", "--pairs", tmp_path / "held.h5", *QUICK, "-q", "-o", tmp_path / "p.h5")
    rows = table(herd("eval", tmp_path / "p.h5", "--gallery", tmp_path / "held.h5")[1])
    assert {row["set"] for row in rows} == {"glasses"}
    by_column = table(herd("eval", tmp_path / "p.h5", "--gallery", tmp_path / "held.h5", "--probe-sets", "glasses")[1])
    assert {row["set"] for row in by_column} == {"0", "1", "all"}


def test_a_model_alone_says_how_it_was_learned(model, herd):
    (row,) = table(herd("eval", model)[1])
    assert (row["kind"], row["pairs"]) == ("rbm-pairs", "30")
    assert 0 < float(row["reconstruction"]) < 1


def test_pictures(model, faces, herd, tmp_path):
    names = ("filters", "trace", "errors", "nearest")
    wanted = [part for name in names for part in ("--plot", name, tmp_path / f"{name}.png")]
    assert herd("eval", model, "--gallery", faces, *wanted)[0] == 0
    assert all((tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in names)


def edited(faces: Path, tmp_path: Path, **changes: np.ndarray | None) -> Path:
    """edited.h5: faces.h5 with some datasets replaced or left out."""
    with h5py.File(faces) as old, h5py.File(tmp_path / "edited.h5", "w") as new:
        for name in old:
            if changes.get(name, True) is not None:
                new[name] = changes.get(name, old[name][()])
        new["X"].attrs.update({"image_shape": [3, 4], "value_range": [0, 255]})
    return tmp_path / "edited.h5"


@pytest.mark.parametrize(
    ("changes", "options", "code", "says"),
    [
        ({"split": np.array([0, 1, 2, 2, 2, 2] * 5)}, (), 65, "edited.h5: person 'ann' has one training image, but pairs need two"),
        ({"split": np.array([2] * 30)}, (), 65, "edited.h5: there are no training rows"),
        ({"y": None, "class_names": None}, (), 65, "edited.h5: there are no labels, which --pairs needs"),
        ({"X": np.full((30, 12), 7.0)}, (), 65, "edited.h5: all training images are the same: no pixel varies"),
        ({}, ("--range", "0,100"), 65, "edited.h5: /X has values from 0 to 255, outside the value range 0 to 100"),
        ({}, ("--per-class",), 2, "--pairs and --per-class exclude each other"),
        ({}, ("--layers", "4,3"), 2, "--pairs and --layers exclude each other"),
        ({}, ("--average-scores", "2"), 2, "--pairs and --average-scores exclude each other"),
        ({}, ("--learning-rate", "1e9"), 1, "the model diverged in epoch 1: parameters are above 1000 or not finite"),
    ],
)
def test_what_cannot_be_learned_is_refused(faces, herd, tmp_path, changes, options, code, says):
    found = herd("fit-rbm", "--pairs", edited(faces, tmp_path, **changes), *QUICK, *options, "-q", "-o", tmp_path / "no.h5")
    assert (found[0], found[2].splitlines()[0]) == (code, f"herd fit-rbm: {says}")
    assert not (tmp_path / "no.h5").exists()


def test_what_is_not_as_it_is_usually_meant_is_said(faces, herd, tmp_path):
    err = herd("fit-rbm", "--pairs", faces, "--hidden", 40, "--epochs", 1, "--batch-size", 50, "-o", tmp_path / "w.h5")[2]
    assert [line for line in err.splitlines() if " → " not in line and "verdict: " not in line] == [
        "fit-rbm: faces.h5: these parts of the file are not used: /glasses",
        "fit-rbm: warning: 1 of 12 pixels are constant in all training images: their weights stay 0",
        "fit-rbm: warning: there are 40 hidden units, but only 22 pixels of a pair vary: try a smaller --hidden",
        "fit-rbm: warning: there are 30 pairs, fewer than the 50 of --batch-size",
    ]


@pytest.mark.parametrize(
    ("changes", "options", "code", "says"),
    [
        ({"X": np.zeros((30, 9))}, (), 65, "edited.h5: /X has 9 columns, but the model has 12 pixels"),
        ({"y": None, "class_names": None}, (), 65, "edited.h5: there are no labels, which --gallery needs"),
        ({"split": np.array([0] * 30)}, (), 65, "edited.h5: there are no test rows"),
        ({"split": np.array([0] * 24 + [2] * 6)}, (), 65, "edited.h5: person eve has probe images but no image in the gallery"),
        ({}, ("--probe-sets", "hat"), 2, "edited.h5: has no extra column 'hat'"),
        (
            {},
            ("--drop-first", "20"),
            65,
            "edited.h5: the training images span 11 directions, so none is left when the first 20 are dropped",
        ),
        ({}, ("--dimensions", "1,2,3"), 2, "Invalid value for '--dimensions': '1,2,3' is not four numbers EIGEN,FISHER,WITHIN,BETWEEN"),
    ],
)
def test_what_cannot_be_recognised_is_refused(model, faces, herd, tmp_path, changes, options, code, says):
    path = edited(faces, tmp_path, **changes)
    if "X" in changes:
        with h5py.File(path, "a") as file:
            del file["X"].attrs["image_shape"]
    found = herd("eval", model, "--gallery", path, *options, "-q")
    assert found[0] == code
    assert found[2].startswith(f"herd eval: {says}")


def test_options_without_effect_are_named(model, faces, herd):
    assert "warning: --probes has no effect without --gallery" in herd("eval", model, "--probes", "valid")[2]
    herd("fit-rbm", faces, "--hidden", 3, "--epochs", 1, "-q", "-o", model.with_name("one.h5"))
    assert "warning: --gallery has no effect on kind 'rbm'" in herd("eval", model.with_name("one.h5"), "--gallery", faces)[2]
