"""nherd-train, merge, apply and eval of classifiers as processes: streams, errors, and nothing lost of an existing model."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from herdcli.artifacts import load, save
from herdcli.cli.frame.rows import labelled_examples

WIDE = "stdin: a table up to index 2000000000 would take 32 GB, more than the 1 GB allowed"


def svm(count: int = 400, seed: int = 0, first: int = 0) -> bytes:
    """Sparse two-class text of 30 features that a line separates but for noise."""
    random = np.random.default_rng(seed)
    truth, lines = random.standard_normal(30), []
    for _ in range(first + count):
        index = np.sort(random.choice(30, 6, replace=False))
        value = np.round(random.standard_normal(6), 3)
        label = 1 if truth[index] @ value + 0.3 * random.standard_normal() > 0 else -1
        lines.append(f"{label:+d} " + " ".join(f"{i + 1}:{v!r}" for i, v in zip(index.tolist(), value.tolist(), strict=True)) + "\n")
    return "".join(lines[first:]).encode()


def wide(random: np.random.Generator, count: int) -> bytes:
    """Two-class text of 300 dense features, of which one direction says half of what there is to know."""
    X = random.standard_normal((count, 300))
    y = np.where(X @ np.sin(np.arange(300)) / 12 + random.standard_normal(count) > 0, 1, -1)
    rows = [" ".join(f"{k + 1}:{x:.3f}" for k, x in enumerate(row)) for row in X]
    return "".join(f"{label} {row}\n" for label, row in zip(y, rows, strict=True)).encode()


def vw(text: bytes) -> bytes:
    """The same as Vowpal Wabbit text with named features."""
    rows = [line.split() for line in text.decode().splitlines()]
    return "".join(f"{int(row[0])} |f " + " ".join("x" + pair for pair in row[1:]) + "\n" for row in rows).encode()


@pytest.fixture
def text(tmp_path):
    """train.svm and test.svm in tmp_path."""
    (tmp_path / "train.svm").write_bytes(svm())
    (tmp_path / "test.svm").write_bytes(svm(200, first=400))
    return tmp_path / "train.svm"


@pytest.fixture(scope="module")
def old_model(run_plain, tmp_path_factory):
    """The bytes of a model of svmlight text."""
    folder = tmp_path_factory.mktemp("old")
    (folder / "x.svm").write_bytes(svm(20))
    return run_plain(folder, "nherd-train", "-q", "x.svm")


def weights(path) -> tuple[np.ndarray, np.ndarray]:
    model = load(str(path)).value
    return model.mean, model.variance


def same_weights(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(weights(a), weights(b), strict=True))


def test_train_evaluate_and_apply(herd, text, tmp_path):
    trained = herd("nherd-train", "train.svm", "-o", "m.h5")
    assert trained.code == 0
    assert "       256 examples: error 0." in trained.err
    assert "nherd-train: 400 examples, " in trained.err
    judged = herd("eval", "m.h5", "--data", "test.svm", "--format", "json", "--require", "error<0.2", "-q")
    assert judged.code == 0, judged.err
    (row,) = json.loads(judged.out)
    assert (row["rows"], row["judged_on"]) == (200, "test")
    assert row["auc"] > 0.85
    applied = herd("apply", "m.h5", "test.svm", "-o", "p.csv")
    assert applied.code == 0, applied.err
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "-1,1,predicted_y"
    predicted = np.array([line.split(",")[-1].strip('"') for line in lines[1:]])
    truth = np.array([str(int(line.split()[0])) for line in (tmp_path / "test.svm").read_text().splitlines()])
    assert np.mean(predicted != truth) == pytest.approx(row["error"])


def test_ways_in_give_the_same_model(herd, shell, text, tmp_path):
    (tmp_path / "train.svm.gz").write_bytes(gzip.compress(text.read_bytes()))
    assert herd("nherd-train", "train.svm", "-o", "a.h5", "--passes", "2").code == 0
    for number, line in enumerate(("gunzip -c train.svm.gz |", "cat train.svm.gz |", "< train.svm")):
        done = shell(f"{line} herd nherd-train -q --passes 2 -o b{number}.h5")
        assert done.code == 0, done.err
        assert same_weights(tmp_path / "a.h5", tmp_path / f"b{number}.h5")
    assert herd("convert", "train.svm", "-o", "train.h5").code == 0
    assert herd("nherd-train", "-q", "train.h5", "--split", "1,0,0", "--passes", "2", "-o", "c.h5").code == 0
    assert same_weights(tmp_path / "a.h5", tmp_path / "c.h5")


def test_zstandard_is_unwrapped(herd, text, tmp_path):
    pa = pytest.importorskip("pyarrow")
    (tmp_path / "train.svm.zst").write_bytes(pa.compress(text.read_bytes(), codec="zstd", asbytes=True))
    assert herd("nherd-train", "-q", "train.svm.zst", "-o", "a.h5").code == 0
    assert herd("nherd-train", "-q", "train.svm", "-o", "b.h5").code == 0
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_rows_keep_their_parts_when_a_classifier_is_applied(herd, tmp_path):
    assert herd("data", "digits", "-o", "d.h5").code == 0
    split = np.random.default_rng(0).integers(0, 3, 1797).astype(np.uint8)
    given = load(str(tmp_path / "d.h5")).value
    save(str(tmp_path / "d.h5"), replace(given, split=split), [])
    assert herd("nherd-train", "-q", "d.h5", "--normalize", "l2", "-o", "m.h5").code == 0
    assert herd("apply", "-q", "m.h5", "d.h5", "-o", "p.h5").code == 0
    made = load(str(tmp_path / "p.h5")).value
    assert np.array_equal(made.split, split)
    assert np.mean(made.y[split == 2] == given.y[split == 2]) > 0.85
    assert herd("nherd-train", "-q", "-", "-o", "t.h5", stdin=svm(50)).code == 0
    assert herd("apply", "-q", "t.h5", "-", "-o", "q.h5", stdin=svm(50)).code == 0
    assert load(str(tmp_path / "q.h5")).value.split is None


def test_vowpal_wabbit_text_and_its_names(herd, text, tmp_path):
    (tmp_path / "train.vw").write_bytes(vw(text.read_bytes()))
    assert herd("nherd-train", "-q", "train.vw", "--bits", "12", "--inverse-map", "--no-bias", "-o", "v.h5").code == 0
    assert herd("nherd-train", "-q", "train.svm", "--no-bias", "-o", "s.h5").code == 0
    named, plain = load(str(tmp_path / "v.h5")).value, load(str(tmp_path / "s.h5")).value
    place = dict(zip(named.hash_names, named.hash_index.tolist(), strict=True))
    ours = [named.mean[0, place[f"f^x{i + 1}"]] for i in range(30)]
    assert named.columns == 1 << 12
    assert np.allclose(ours, plain.mean[0], rtol=1e-9)
    unlabelled = b"".join(line[line.index(b"|") :] + b"\n" for line in vw(svm(20, first=400)).splitlines())
    applied = herd("apply", "v.h5", "-", "-o", "p.csv", stdin=unlabelled)
    assert applied.code == 0, applied.err
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 21


def test_continue_goes_on_where_the_model_stands(herd, text, tmp_path):
    lines = text.read_bytes().splitlines(keepends=True)
    assert herd("nherd-train", "-q", "--C", "0.5", "-o", "m.h5", stdin=b"".join(lines[:150])).code == 0
    assert herd("nherd-train", "-q", "--continue", "m.h5", "-o", "m.h5", stdin=b"".join(lines[150:])).code == 0
    assert herd("nherd-train", "-q", "--C", "0.5", "train.svm", "-o", "whole.h5").code == 0
    assert same_weights(tmp_path / "m.h5", tmp_path / "whole.h5")
    parts, whole = (load(str(tmp_path / name)).value for name in ("m.h5", "whole.h5"))
    assert parts.running == whole.running
    assert np.array_equal(parts.progress.error, whole.progress.error)


def test_shards_are_merged(herd, text, tmp_path):
    lines = text.read_bytes().splitlines(keepends=True)
    for name, part in (("a.h5", lines[::2]), ("b.h5", lines[1::2])):
        assert herd("nherd-train", "-q", "-o", name, stdin=b"".join(part)).code == 0
    for rule in ("precision", "evidence", "mean"):
        merged = herd("merge", "-q", "a.h5", "b.h5", "--combine", rule, "--calibration-data", "test.svm", "-o", f"{rule}.h5")
        assert merged.code == 0, merged.err
        judged = herd("eval", "-q", f"{rule}.h5", "--data", "test.svm", "--require", "error<0.2")
        assert judged.code == 0, judged.err
    assert herd("merge", "a.h5").code == 2


def test_comparisons(herd, text, tmp_path):
    for name in ("nherd", "arow"):
        assert herd("nherd-train", "-q", "train.svm", "--algorithm", name, "-o", f"{name}.h5").code == 0
    both = ("nherd.h5", "arow.h5", "--data", "test.svm", "--format", "json")
    (pair,) = json.loads(herd("eval", "--mcnemar", *both).out)
    assert pair["rows"] == 200
    assert 0 < pair["p"] <= 1
    counts = json.loads(herd("eval", "--confusion", *both).out)
    assert sum(row["-1"] + row["1"] for row in counts if row["file"] == "nherd.h5") == 200
    (edge,) = json.loads(herd("eval", "--tournament", *both).out)
    assert edge["tasks"] == 1
    assert {edge["top"], edge["bottom"]} == {"nherd project", "arow project"}


def test_a_data_set_brings_its_classes(herd, digits):
    trained = herd("nherd-train", "digits.h5", "--normalize", "l2", "--shuffle", "--passes", "3", "-o", "d.h5")
    assert trained.code == 0, trained.err
    judged = herd("eval", "d.h5", "--require", "error<0.1")
    assert judged.code == 0, judged.err
    pair = herd("nherd-train", "-q", "digits.h5", "--only", "3,8", "--covariance", "full", "--normalize", "l2", "--shuffle", "-o", "p.h5")
    assert pair.code == 0, pair.err
    assert herd("eval", "p.h5", "--require", "error<0.08").code == 0
    kernel = ("--kernel", "gaussian", "--width", "0.5", "--budget", "60", "--normalize", "l2", "--shuffle")
    refused = herd("nherd-train", "digits.h5", "--positive", "0,2,4,6,8", *kernel, "-o", "k.h5")
    assert refused.code == 0
    assert "warning: the budget of 60 support vectors is used up, so" in refused.err


def test_strained_C_is_warned_of(herd, text):
    assert "variances shrink to almost 0 at once" in herd("nherd-train", "train.svm", "--C", "100", "--scale", "none", "-o", "m.h5").err


def test_a_C_that_won_the_race_is_not_warned_of(herd, tmp_path):
    (tmp_path / "sets.vw").write_text("1,3 | a b c\n2 | b d\n | a\n1 | a c\n3,2 | d\n" * 400)
    done = herd("nherd-train", "sets.vw", "--task", "multilabel", "-o", "m.h5")
    assert "nherd with C = 22.8" in done.err
    assert "warning" not in done.err


@pytest.mark.parametrize(
    ("stdin", "arguments", "code", "message"),
    [
        (b"1 1:1\n-1 2:x\n", (), 65, "stdin: line 2, column 4: '2:x' does not have a number as its value"),
        (b"1 1:1\n1 2:1\n", (), 65, "stdin: every example has label 1; a classifier needs at least two classes"),
        (b"1 1:1\n-1 2:1\n3 1:1\n", ("--classes", "-1,1"), 65, "stdin: label 3 is not one of the classes -1, 1"),
        (b"1 1:1\n-1 0:1\n", (), 65, "stdin: line 2, column 4: '0:1' has index 0, and svmlight counts from 1"),
        (b"1 3:1\n-1 3:1 2:1\n", (), 65, "stdin: line 2, column 8: '2:1' does not have a larger index than the one before"),
        (b"1 1:nan\n-1 2:1\n", (), 65, "stdin: line 1, column 3: '1:nan' is not finite"),
        (b"", (), 66, "stdin: nothing arrived on stdin: did the command before the pipe fail?"),
        (b"1 1:1\n-1 2:1\n", ("--C", "0"), 2, "Invalid value for '--C': 0 is not above 0"),
        (b"1 1:1\n-1 2:1\n", ("--C", "-3"), 2, "Invalid value for '--C': -3 is not above 0"),
        (b"1 1:1\n-1 2000000000:1\n", ("--max-memory", "1G"), 65, WIDE),
        (b"1 1:1\n-1 2:1\n", ("--algorithm", "cw", "--form", "exact"), 2, "--form exact does not work with --algorithm cw"),
        (b"1 |a b\n-1 |a c\n", ("--continue", "old.h5"), 65, "stdin: is vw text, but the model was learned from svmlight text"),
        (b"1 1:1\n-1 2:1\n", ("--continue", "old.h5", "--bits", "10"), 65, "old.h5: hashes into 2^0 columns, but --bits asks for 2^10"),
        (b"1 1:1\n0 2:1\n", ("--continue", "old.h5"), 65, "stdin: label 0 is not one of the classes -1, 1"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_loses_nothing(herd, old_model, tmp_path, stdin, arguments, code, message):
    before = old_model
    (tmp_path / "old.h5").write_bytes(before)
    ended = herd("nherd-train", "-q", *arguments, "-o", "old.h5", stdin=stdin)
    assert ended.err.splitlines()[0] == f"herd nherd-train: {message}"
    assert ended.code == code
    assert len(ended.err.splitlines()) <= 2
    assert (tmp_path / "old.h5").read_bytes() == before


def test_a_model_of_another_dimension_is_refused(herd, tmp_path, write):
    random = np.random.default_rng(0)
    for name, width in (("a.h5", 3), ("b.h5", 4)):
        write(tmp_path / name, {"X": random.standard_normal((40, width)), "y": np.arange(40) % 2})
    assert herd("nherd-train", "-q", "a.h5", "-o", "m.h5").code == 0
    for arguments in (("nherd-train", "-q", "--continue", "m.h5", "b.h5", "-o", "n.h5"), ("apply", "m.h5", "b.h5", "-o", "p.csv")):
        ended = herd(*arguments)
        assert ended.code == 65
        assert "/X has 4 columns, but the model has 3 features" in ended.err
        assert not (tmp_path / arguments[-1]).exists()


def test_bad_lines_are_tolerated_and_counted(herd, tmp_path):
    bad = b"1 1:1\nnonsense\n-1 2:1\n1 x:1\n"
    ended = herd("nherd-train", "--skip-bad", "2", "-o", "m.h5", stdin=bad)
    assert ended.code == 0
    assert "2 lines skipped" in ended.err
    assert load(str(tmp_path / "m.h5")).value.running.skipped == 2


def test_interrupted_by_checkpoint_and_resumed(herd, text, tmp_path):
    """A checkpoint left by a run that stopped at a wrong line is taken up when the line has been mended."""
    big = svm(5000, seed=3) * 6  # more than one piece of text
    (tmp_path / "big.svm").write_bytes(big + b"oops\n")
    options = ("--checkpoint", "c.h5", "--every", "1")
    assert herd("nherd-train", "-q", "big.svm", *options, "-o", "m.h5").code == 65
    assert (tmp_path / "c.h5").exists()
    (tmp_path / "big.svm").write_bytes(big)
    resumed = herd("nherd-train", "big.svm", *options, "--resume", "-o", "m.h5")
    assert resumed.code == 0, resumed.err
    assert "resuming from step 2" in resumed.err
    assert herd("nherd-train", "-q", "big.svm", "-o", "whole.h5").code == 0
    assert (tmp_path / "m.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


@pytest.mark.parametrize("piece", [1, 3, 8, 64, 4096])
@pytest.mark.parametrize("text", [b"", b"a", b"a\n", b"\n\nab\n" * 9, b"x" * 500 + b"\nyz", svm(20)], ids=len)
def test_lines_are_read_into_one_buffer_whatever_their_length(piece, text, monkeypatch):
    monkeypatch.setattr(labelled_examples, "PIECE", piece)
    read, lines = [], []
    for fresh, whole in labelled_examples._read_whole_lines(io.BytesIO(text), 1 << 30, "text"):
        read.append(bytes(fresh))
        lines.append(bytes(whole))
    assert b"".join(read) == b"".join(lines) == text
    assert all(not part or part.endswith(b"\n") for part in lines[:-1])


def test_a_model_of_the_first_version_still_loads(herd, tmp_path):
    archived = Path(__file__).resolve().parents[2] / "data" / "classifier-1.h5"
    judged = herd("eval", archived, "--format", "json")
    assert judged.code == 0, judged.err
    assert json.loads(judged.out)[0]["judged_on"] == "calibration"
    assert herd("nherd-train", "-q", "--continue", archived, "-o", "m.h5", stdin=svm(20)).code == 0
    assert load(str(tmp_path / "m.h5")).value.running.examples == 220


def test_verify_prints_how_far_the_closed_forms_are(herd):
    ended = herd("nherd-train", "--verify")
    assert ended.code == 0, ended.err
    assert len(ended.out.splitlines()) == 7


def test_memory_stays_constant_over_a_long_stream(tmp_path, herd_command, herd_environment):
    """The largest resident size of the process hardly grows when the stream is eight times as long."""
    import subprocess
    import sys

    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.argv[1], 'nherd-train', '-q', '-o', 'm.h5', sys.argv[2]], check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    text, sizes = svm(5000), []
    for times in (5, 40):
        (tmp_path / "x.svm").write_bytes(text * times)
        command = [sys.executable, "-c", script, str(herd_command), "x.svm"]
        done = subprocess.run(command, cwd=tmp_path, env=herd_environment(), capture_output=True, check=True)
        sizes.append(int(done.stdout))
    assert sizes[1] < sizes[0] + 8_000


def test_a_dry_run_tries_some_rows_in_several_steps(run, tmp_path):
    X, y = np.random.default_rng(0).standard_normal((950, 3)), np.arange(950) % 2
    np.savez(tmp_path / "x.npz", X=X, y=y)
    done = run("nherd-train", "x.npz", "--split", "1,0,0", "--dry-run")
    assert done.out.startswith("learning: 10 steps, about ")


NUMBERS = b"".join(b"%d 1:%d\n" % (k, k % 7) for k in range(2000))


@pytest.mark.parametrize(
    ("stdin", "arguments", "code", "message"),
    [
        (b"0.37 1:1\n-1.5 2:1\n2.25 1:3\n", (), 65, "stdin: label -1.5 is not a whole number, so it cannot be a class"),
        (NUMBERS, (), 65, "stdin: 2000 different labels exceed the 1000 allowed"),
        (NUMBERS, ("--max-classes", "1999"), 65, "stdin: 2000 different labels exceed the 1999 allowed"),
        (NUMBERS[: NUMBERS.index(b"31 1")] * 2 + b"99 1:1\n", ("--classes", ",".join(map(str, range(31)))), 65,
         "stdin: label 99 is not one of the classes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … (31 in all)"),
        (svm(50), ("--C", "1e200"), 1, "the scores are no longer finite"),
    ],
)  # fmt: skip
def test_what_cannot_be_learned_is_refused_in_one_line(herd, tmp_path, stdin, arguments, code, message):
    ended = herd("nherd-train", "-q", *arguments, "-o", "m.h5", stdin=stdin)
    assert ended.err.splitlines()[0] == f"herd nherd-train: {message}"
    assert ended.code == code
    assert len(ended.err) < 300
    assert not (tmp_path / "m.h5").exists()


def test_numbers_of_a_data_set_are_no_classes(herd, tmp_path, write):
    random = np.random.default_rng(0)
    X = random.standard_normal((1100, 3))
    write(tmp_path / "real.h5", {"X": X, "y": random.standard_normal(1100)})
    write(tmp_path / "many.h5", {"X": X, "y": np.arange(1100)})
    real, many = (herd("nherd-train", "-q", name, "-o", "m.h5") for name in ("real.h5", "many.h5"))
    assert real.code == many.code == 65
    assert (
        real.err.splitlines()[0]
        == "herd nherd-train: real.h5: /y has the value 0.390777 in row 0, but labels must be whole numbers or text"
    )
    assert many.err.splitlines()[0] == "herd nherd-train: many.h5: 1100 different labels exceed the 1000 allowed"
    write(tmp_path / "forty.h5", {"X": X[:40], "y": np.arange(40)})
    forty = herd("nherd-train", "-q", "forty.h5", "--max-classes", "39", "-o", "m.h5")
    assert forty.err.splitlines()[0] == "herd nherd-train: forty.h5: 40 different labels exceed the 39 allowed"
    assert herd("nherd-train", "-q", "forty.h5", "--max-classes", "40", "-o", "m.h5").code == 0


def test_shards_with_different_learners_are_merged_by_calibrated_scores(herd, text, tmp_path):
    for name, options in (("nherd", ("--algorithm", "nherd")), ("pa", ("--algorithm", "pa")), ("zero", ("--zero-based",))):
        assert herd("nherd-train", "-q", "train.svm", *options, "-o", f"{name}.h5").code == 0
    mixed = herd("merge", "nherd.h5", "pa.h5", "-o", "x.h5")
    assert (mixed.code, mixed.err.splitlines()[0]) == (
        0,
        "merge: the models have different learners (nherd, pa), "
        "so herd averages their calibrated scores instead of merging their weights by precision",
    )
    assert herd("merge", "-q", "nherd.h5", "pa.h5", "-o", "y.h5").code == 0
    assert (tmp_path / "x.h5").read_bytes() == (tmp_path / "y.h5").read_bytes()
    shifted = herd("merge", "-q", "nherd.h5", "zero.h5", "-o", "x.h5")
    assert (shifted.code, shifted.err.splitlines()[0]) == (65, "herd merge: zero.h5: model 2 counts features from 0, but model 1 from 1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: {"classes": [str(k) for k in range(500)]}, "has weights for 1 scores, but its 500 classes need 500"),
        (lambda m: {"variance": np.full_like(m.variance, np.nan)}, "dataset 'variance' has values that are not finite"),
        (lambda m: {"variance": -m.variance}, "dataset 'variance' has values below 0"),
        (lambda m: {"mean": np.full_like(m.mean, np.inf)}, "dataset 'mean' has values that are not finite"),
        (lambda m: {"holdout": replace(m.holdout, y=m.holdout.y + 7)}, "dataset 'holdout/y' has labels outside 0…1"),
        (lambda m: {"holdout": replace(m.holdout, score=np.zeros((len(m.holdout.y), 3)), variance=np.zeros((len(m.holdout.y), 3)))},
         "holdout has 3 scores for each example, but 2 classes need 1"),
        (lambda m: {"bits": 12}, "has 30 features, but hashing with 'bits' 12 gives 4096"),
        (lambda m: {"settings": replace(m.settings, algorithm="x")}, "settings/algorithm is 'x', expected nherd, arow"),
        (lambda m: {"scale": float("nan")}, "the scale of its probabilities is nan"),
    ],
)  # fmt: skip
def test_a_crafted_classifier_is_refused_wherever_it_is_read(herd, text, tmp_path, monkeypatch, change, message):
    assert herd("nherd-train", "-q", "--no-bias", "--scale", "none", "train.svm", "-o", "m.h5").code == 0
    model = load(str(tmp_path / "m.h5"))
    monkeypatch.setattr("herdcli.schema.check_arrays", lambda value, **more: None)
    monkeypatch.setattr(type(model.value), "validate", lambda self: None)
    save(str(tmp_path / "bad.h5"), replace(model.value, **change(model.value)), [])
    for line in (
        ("check", "bad.h5"),
        ("eval", "bad.h5"),
        ("apply", "bad.h5", "test.svm", "-o", "p.csv"),
        ("nherd-train", "--continue", "bad.h5", "train.svm", "-o", "n.h5"),
    ):
        ended = herd(*line)
        assert ended.code == 65, line
        assert ended.err.startswith(f"herd {line[0]}: bad.h5: {message}"), ended.err


def test_weights_do_not_depend_on_the_units_of_features(herd, tmp_path, write):
    """Features in other units, by powers of two so that nothing is rounded: the same scores, by each form and after going on."""
    random = np.random.default_rng(0)
    X, units = random.standard_normal((300, 5)), 2.0 ** np.array([0, 10, -8, 3, -20])
    y = (X @ random.standard_normal(5) + 1.0 > 0).astype(np.int64)
    for name, rows in (("a", X), ("b", X * units)):
        write(tmp_path / f"{name}.h5", {"X": rows, "y": y})
        for number, options in enumerate(((), ("--covariance", "full", "--C", "0.5"))):
            made = f"{name}{number}.h5"
            assert herd("nherd-train", "-q", f"{name}.h5", "--split", "1,0,0", *options, "-o", made).code == 0
            assert herd("nherd-train", "-q", "--continue", made, f"{name}.h5", "--split", "1,0,0", "-o", made).code == 0
            assert herd("apply", "-q", made, f"{name}.h5", "-o", f"p{made}").code == 0
        assert herd("merge", "-q", f"{name}0.h5", f"{name}0.h5", "-o", f"m{name}.h5").code == 0
    for first, second in (("pa0.h5", "pb0.h5"), ("pa1.h5", "pb1.h5")):
        p, q = (load(str(tmp_path / name)).value.X for name in (first, second))
        assert np.array_equal(p, q)
    model, merged = (load(str(tmp_path / name)).value for name in ("b0.h5", "mb.h5"))
    assert np.allclose(model.size[1:] / model.seen[1:], np.abs(X * units).mean(axis=0), rtol=1e-12)
    assert np.array_equal(merged.seen, 2 * model.seen)
    assert np.array_equal(merged.size, 2 * model.size)


def test_examples_of_importance_0_are_judged_and_not_learned(herd, tmp_path):
    """The model is that of the other lines alone; the lines themselves are among those judged."""
    lines = vw(svm(300)).splitlines(keepends=True)
    silent = [line.replace(b" |", b" 0 |") if k % 3 == 0 else line for k, line in enumerate(lines)]
    assert herd("nherd-train", "-q", "--C", "1", "-o", "a.h5", stdin=b"".join(silent)).code == 0
    assert herd("nherd-train", "-q", "--C", "1", "-o", "b.h5", stdin=b"".join(lines[k] for k in range(300) if k % 3)).code == 0
    assert same_weights(tmp_path / "a.h5", tmp_path / "b.h5")
    first, second = (load(str(tmp_path / name)).value for name in ("a.h5", "b.h5"))
    assert np.array_equal(first.size, second.size)
    assert (first.running.seen, first.running.examples, second.running.seen) == (300, 200, 200)


@pytest.mark.parametrize("source", ["train.svm", "-"])
def test_several_passes_calibrate_on_what_only_the_last_has_learned(herd, text, tmp_path, source):
    """Every twentieth example is judged in each pass before anything has learned it; what it was judged by last calibrates."""
    ended = herd("nherd-train", source, "--passes", "3", "--C", "1", "-o", "m.h5", stdin=text.read_bytes())
    model = load(str(tmp_path / "m.h5")).value
    assert (model.settings.holdout, model.settings.until_last) == (20, True)
    assert model.passes.examples.tolist() == [20, 20, 20]
    assert len(model.holdout.y) == 20
    assert model.running.examples == 380 + 380 + 400
    assert [line.split(":")[1].strip() for line in ended.err.splitlines() if "held-out" in line][2].startswith("pass  3, 20 held-out")
    lines = text.read_bytes().splitlines(keepends=True)
    learned = b"".join(line for k, line in enumerate(lines) if k % 20 != 19)
    assert herd("nherd-train", "-q", "--passes", "2", "--holdout", "0", "--C", "1", "-o", "a.h5", stdin=learned).code == 0
    assert herd("nherd-train", "-q", "--continue", "a.h5", "--holdout", "0", "-o", "b.h5", stdin=text.read_bytes()).code == 0
    assert same_weights(tmp_path / "m.h5", tmp_path / "b.h5")
    scored = load(str(tmp_path / "b.h5")).value.holdout.score[-400:][19::20]
    assert np.array_equal(model.holdout.score, scored)


def test_held_out_examples_end_learning_with_the_weights_of_the_best_pass(herd, tmp_path):
    """Rows that are learned by heart: the weights are those of a run of as many passes as the best."""
    noisy = wide(np.random.default_rng(4), 300)
    ended = herd("nherd-train", "--passes", "40", "--early-stop", "2", "--holdout", "5", "--C", "3", "-o", "m.h5", stdin=noisy)
    model = load(str(tmp_path / "m.h5")).value
    passes = len(model.passes.error)
    best = int(np.lexsort((np.arange(passes), model.passes.loss, model.passes.error))[0]) + 1
    assert passes == best + 2 < 40
    assert f"the weights of pass {best} are kept, which had the lowest held-out error" in ended.err
    again = herd("nherd-train", "-q", "--passes", best, "--holdout", "5", "--C", "3", "-o", "n.h5", stdin=noisy)
    assert again.code == 0
    assert same_weights(tmp_path / "m.h5", tmp_path / "n.h5")
    assert load(str(tmp_path / "n.h5")).value.passes.error.tolist() == model.passes.error[:best].tolist()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--holdout", "1"), "--holdout 1 leaves no example to learn"),
        (("--early-stop", "2", "--holdout", "0"), "--early-stop needs held-out examples"),
        (("--early-stop", "2", "--kernel", "linear"), "--early-stop keeps weights, but a kernel model has none"),
        (("--parts", "2", "--holdout", "5"), "--parts learns from all examples of each part, so it cannot hold any out"),
    ],
)
def test_examples_that_cannot_be_held_out(herd, text, options, says):
    ended = herd("nherd-train", "train.svm", *options, "-o", "out.h5")
    assert (ended.code, ended.err.splitlines()[0]) == (2, f"herd nherd-train: {says}")


def test_passes_calibrate_better_by_what_they_have_not_learned(herd, tmp_path):
    """Wide noisy rows that five passes learn by heart: the log-loss of new rows is below that of scores of rows learned before."""
    random = np.random.default_rng(3)
    train = wide(random, 700)
    (tmp_path / "test.svm").write_bytes(wide(random, 1000))
    found = []
    for options in ((), ("--holdout", "0")):
        assert herd("nherd-train", "-q", "--passes", "5", "--C", "1", *options, "-o", "m.h5", stdin=train).code == 0
        judged = herd("eval", "m.h5", "--data", "test.svm", "--format", "json")
        found.append(json.loads(judged.out)[0])
    assert found[0]["log_loss"] < 0.9 * found[1]["log_loss"]
    assert found[0]["calibration_error"] < 0.5 * found[1]["calibration_error"]


def test_query_ids_are_named_when_they_are_passed_over(herd, text, tmp_path):
    lines = text.read_bytes().splitlines(keepends=True)
    grouped = b"".join(line.replace(b" ", b" qid:%d " % (k // 10), 1) for k, line in enumerate(lines))
    ended = herd("nherd-train", "-q", "-o", "a.h5", stdin=grouped)
    assert ended.code == 0
    told = herd("nherd-train", "-o", "a.h5", stdin=grouped).err
    assert "the qid fields are ignored: herd does not learn rankings, so each line is an example of its own" in told
    plain = herd("nherd-train", "-o", "b.h5", stdin=b"".join(lines))
    assert "qid" not in plain.err
    assert same_weights(tmp_path / "a.h5", tmp_path / "b.h5")


def test_forms_of_several_classes_race(herd, tmp_path, digits):
    ended = herd("nherd-train", "digits.h5", "--passes", "1", "-o", "m.h5")
    model = load(str(tmp_path / "m.h5")).value
    assert sorted(set(model.race.multiclass)) == ["one-vs-rest", "top-1"]
    assert len(model.race.C) == 32
    form = model.settings.multiclass
    own = np.flatnonzero((np.array(model.race.multiclass) == form) & (model.race.examples == model.race.examples.max()))
    best = int(own[np.lexsort((model.race.loss[own], model.race.error[own]))[0]])
    assert (model.settings.algorithm, model.settings.C) == (model.race.algorithm[best], model.race.C[best])
    assert f"{model.race.algorithm[best]} {form} with C" in ended.err
    assert herd("nherd-train", "-q", "digits.h5", "--multiclass", "top-1", "-o", "n.h5").code == 0
    named = load(str(tmp_path / "n.h5")).value
    assert (named.settings.multiclass, named.race.multiclass, len(named.race.C)) == ("top-1", None, 16)


def test_the_race_is_told_and_kept(herd, text, tmp_path):
    raced = herd("nherd-train", "train.svm", "-o", "m.h5")
    model = load(str(tmp_path / "m.h5")).value
    table = model.race
    assert sorted(set(table.algorithm)) == ["arow", "nherd"]
    assert len(table.C) == 16
    best = int(np.lexsort((table.loss, table.error))[0])
    assert (model.settings.algorithm, model.settings.C) == (table.algorithm[best], table.C[best])
    said = f"--C auto: {table.algorithm[best]} with C = {table.C[best]:.4g}, progressive error {table.error[best]:.4f} over 400 examples"
    assert f"{said}, the lowest of 16 learners" in raced.err
    named = ("--algorithm", table.algorithm[best], "--C", repr(float(table.C[best])))
    assert herd("nherd-train", "-q", "train.svm", *named, "-o", "n.h5").code == 0
    assert same_weights(tmp_path / "m.h5", tmp_path / "n.h5")
    assert load(str(tmp_path / "n.h5")).value.running.wrong == round(table.error[best] * 400)
    assert herd("nherd-train", "-q", "train.svm", "--C", "running", "-o", "r.h5").code == 0
    assert load(str(tmp_path / "r.h5")).value.race is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("train.svm", "--parts", "2"), "--parts divides the rows of a data set, but text is learned as it arrives"),
        (("rows.h5", "--parts", "2", "--kernel", "gaussian"), "--parts merges weights, but kernel models share none"),
        (
            ("rows.h5", "--parts", "2", "--continue", "model.h5"),
            "--parts learns each part from the start, so it does not work with --continue",
        ),
        (("rows.h5", "--parts", "999"), "--parts 999 is more than the 24 training rows"),
        (
            ("rows.h5", "--parts", "2", "--rounds", "3", "--shard", "1/2"),
            "--rounds needs all parts in each round, but a shard has only some",
        ),
    ],
)
def test_parts_that_cannot_be(herd, text, tmp_path, options, says):
    import h5py

    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
    assert herd("nherd-train", "rows.h5", "-q", "-o", "model.h5").code == 0
    ended = herd("nherd-train", *options, "-o", "out.h5")
    assert (ended.code, says in ended.err) == (2, True), ended.err
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.slow
def test_rows_of_a_large_file_stay_in_it(herd, tmp_path):
    """Without --shuffle; the same rows from an archive are learned in memory, to the same weights."""
    import h5py

    random = np.random.default_rng(0)
    X, y = random.standard_normal((86_000, 100)), random.integers(0, 3, 86_000)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(4096, 100))
        file["y"] = y
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    for name in ("rows.h5", "rows.npz"):
        ended = herd("nherd-train", name, "--C", "1", "-q", "-o", f"{name}.model.h5")
        assert ended.code == 0, ended.err
    one, other = (load(str(tmp_path / f"{name}.model.h5")).value for name in ("rows.h5", "rows.npz"))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.holdout.score, other.holdout.score)
    for part in (1, 2, 3):
        assert herd("nherd-train", "rows.h5", "--C", "1", "--parts", "3", "--shard", f"{part}/3", "-q", "-o", f"{part}.h5").code == 0
    assert herd("merge", "1.h5", "2.h5", "3.h5", "-q", "-o", "merged.h5").code == 0
    assert herd("nherd-train", "rows.h5", "--C", "1", "--parts", "3", "-q", "-o", "whole.h5").code == 0
    assert (tmp_path / "merged.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()
    assert load(str(tmp_path / "whole.h5")).value.holdout.y.shape == one.holdout.y.shape
    for name in ("rows.h5", "rows.npz"):
        assert herd("nherd-train", name, "--C", "1", "--parts", "3", "--rounds", "2", "-q", "-o", f"{name}.model.h5").code == 0
    one, other = (load(str(tmp_path / f"{name}.model.h5")).value for name in ("rows.h5", "rows.npz"))
    np.testing.assert_array_equal(one.mean, other.mean)
