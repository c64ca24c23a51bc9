"""Artifacts and checkpoints that anybody could have edited and sealed again: refused in one line, never a crash, never believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from herdcli.artifacts.sealed import seal_header


def edited(source: Path, target: Path, name: str, value: Any) -> Path:
    """A copy of an artifact with one dataset or attribute in the place of another, sealed again."""
    target.write_bytes(source.read_bytes())
    with h5py.File(target, "r+") as file:
        group, _, last = name.rpartition("/")
        parent = file[group or "/"]
        if last in parent.attrs:
            parent.attrs[last] = value
        else:
            if last in parent:
                del parent[last]
            parent[last] = value
        kind = str(file.attrs["kind"])
    seal_header.write_seal(target, kind)
    return target


@pytest.fixture(scope="module")
def digits() -> bytes:
    """Forty rows of 0 and 1, two classes."""
    rows = np.random.default_rng(0).integers(0, 2, (40, 6))
    lines = ["a,b,c,d,e,f,label,split"] + [
        ",".join(map(str, row)) + f",{i % 2},{'train' if i < 30 else 'test'}" for i, row in enumerate(rows)
    ]
    return "\n".join(lines).encode()


@pytest.fixture
def halted(herd: Callable[..., Any], tmp_path: Path, digits: bytes) -> tuple[Path, tuple[str, ...]]:
    """A checkpoint of `herd herd` that was stopped by a full disk, and the line that goes on from it."""
    (tmp_path / "rows.csv").write_bytes(digits)
    line = ("herd", "rows.csv", "--hidden", "5", "--iterations", "2000", "--burn-in", "10", "--checkpoint", "run.ck", "--every", "1")
    assert herd(*line, "-o", "/dev/full").code == 74
    assert herd(*line, "-o", "whole.h5").code == 0
    assert herd(*line, "-o", "/dev/full").code == 74
    return tmp_path / "run.ck", (*line, "--resume", "-o", "resumed.h5")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("runs/0/x", np.ones(2, dtype=np.int8)),
        ("runs/0/M", np.zeros((3, 2), dtype=np.int32)),
        ("runs/0/z", np.full(5, 7, dtype=np.int8)),
        ("runs/0/weight_norm", np.zeros(3)),
        ("runs/0/states", np.zeros((5, 1), dtype=np.uint8)),
        ("step", np.int64(-4)),
        ("iteration", np.int64(5000)),
    ],
)
def test_a_crafted_checkpoint_is_refused(herd: Callable[..., Any], halted: Any, name: str, value: Any) -> None:
    checkpoint, line = halted
    edited(checkpoint, checkpoint.with_name("evil.ck"), name, value)
    checkpoint.with_name("evil.ck").replace(checkpoint)
    ended = herd(*line)
    assert ended.code == 65, ended.err
    assert "run.ck" in ended.err


ROLES = ("--label", "label", "--split-column", "split")
ARTIFACTS: dict[str, tuple[str, ...]] = {
    "herding": ("herd", "rows.csv", "--hidden", "3", "--iterations", "30", "--burn-in", "10"),
    "rbm": ("fit-rbm", "rows.csv", "--hidden", "3", "--epochs", "1", "--per-class"),
    "samples": ("kernel-herd", "rows.csv", "-m", "4"),
    "network": ("network", "grid", "--grid-rows", "3", "--grid-columns", "3", "--draw-observed", "border"),
    "beliefs": ("ups-infer", "network.h5", "--algorithm", "ups"),
    "ica": ("ica", "rows.csv", "--algorithm", "ml", *ROLES),
    "mixture": ("em", "rows.csv", "--components", "1"),
    "regression": ("regress", "rows.csv", "--family", "bernoulli", "--l2", "0.1"),
}


@pytest.mark.parametrize(
    ("kind", "name", "value", "told"),
    [
        ("herding", "states", np.zeros((1, 3, 9), dtype=np.uint8), "/states"),
        ("herding", "n", np.zeros(1, dtype=np.int64), "/n"),
        ("rbm", "W", np.full((2, 6, 3), np.nan), "/W has values that are not finite"),
        ("rbm", "scores/y", np.full(10, 10**6), "/scores/y must hold 0 … 1"),
        ("rbm", "image_shape", np.array([2**40, 2**40]), "image_shape"),
        ("samples", "weight", np.full(4, np.nan), "/weight has values that are not finite"),
        ("network", "observed", np.full(8, 99), "/observed must hold 0 … 8"),
        ("network", "shape", np.array([2**40, 2**40]), "shape is 1099511627776×1099511627776"),
        ("beliefs", "node", np.full(18, 7.0), "/node has 7.0, but the allowed values are 0 … 1"),
        ("ica", "whitening/mean", np.full(6, np.nan), "/whitening/mean has values that are not finite"),
        ("ica", "J", np.full((6, 6), np.inf), "/J has values that are not finite"),
        ("ica", "gamma", np.full(6, -1e300), "/gamma has -1e+300, but the allowed values are 0 … 1e+100"),
        ("mixture", "mass", np.float64(-3.0), "/mass is -3, but it is the weight of all training rows and must be above 0"),
        ("mixture", "known/holdout_y", np.zeros(3, dtype=np.int64), "/known/holdout_y needs one label for each row of /holdout"),
        ("mixture", "known/base_mean", np.zeros(8), "base_"),
        ("regression", "holdout/predictor", np.zeros((10, 0)), "/holdout/predictor has 0 columns, but the model has 1 predictors"),
        ("regression", "holdout/split", np.full(10, 9), "/holdout/split has 9, but the allowed values are 1 … 2"),
    ],
)
def test_crafted_artifacts_are_refused(
    herd: Callable[..., Any], tmp_path: Path, digits: bytes, kind: str, name: str, value: Any, told: str
) -> None:
    (tmp_path / "rows.csv").write_bytes(digits)
    for needed in ("network", kind) if kind == "beliefs" else (kind,):
        made = herd(*ARTIFACTS[needed], "-o", f"{needed}.h5")
        assert made.code == 0, made.err
    edited(tmp_path / f"{kind}.h5", tmp_path / "evil.h5", name, value)
    assert herd("check", "--seal-only", "evil.h5").code == 0  # the seal says whole, no more
    good = herd("check", f"{kind}.h5")
    assert (good.code, good.out, good.err) == (0, b"", "")
    for command in ("info", "eval", "check"):
        ended = herd(command, "evil.h5")
        assert (ended.code, "evil.h5" in ended.err) == (65, True), ended.err
        assert told in ended.err


@pytest.mark.parametrize(
    "text",
    [
        '[{"command":"herd","parameters":{"seed":1e999}}]',
        '[{"command":7}]',
        '[{"command":"herd","parameters":[]}]',
        '[{"command":"herd","inputs":{"role":"data"}}]',
        '[{"command":"herd","inputs":[{"role":7}]}]',
        '{"command":"herd"}',
        "[" * 100_000,
    ],
    ids=range(7),
)
def test_a_history_that_nobody_wrote_is_refused(herd: Callable[..., Any], tmp_path: Path, text: str) -> None:
    assert herd("data", "digits", "-o", "digits.h5").code == 0
    edited(tmp_path / "digits.h5", tmp_path / "evil.h5", "provenance", text[:60_000])
    for line in (("check", "evil.h5"), ("info", "evil.h5"), ("convert", "evil.h5", "-o", "out.parquet")):
        ended = herd(*line)
        assert (ended.code, "evil.h5: the provenance is not a JSON list of records" in ended.err) == (65, True), ended.err


def made_long(herd: Callable[..., Any], tmp_path: Path, digits: bytes, line: tuple[str, ...]) -> tuple[str, ...]:
    """The line that goes on from a checkpoint run.ck that a full disk left."""
    (tmp_path / "rows.csv").write_bytes(digits)
    whole = (*line, "--checkpoint", "run.ck", "--every", "1")
    assert herd(*whole, "-o", "/dev/full").code == 74
    return (*whole, "--resume", "-o", "resumed.h5")


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (("kernel-herd", "rows.csv", "-m", "4"), "done", np.zeros(3)),
        (("fit-rbm", "rows.csv", "--hidden", "3", "--epochs", "2", "--label", "label"), "step", np.int64(-(2**63))),
        (("fit-rbm", "rows.csv", "--layers", "4,3", "--epochs", "1", "--label", "label"), "finished", np.zeros(2)),
        (
            ("ica", "rows.csv", "--algorithm", "sparse-coding", "--filters", "6", "--rate-schedule", "0.1x3", *ROLES),
            "step",
            np.int64(2**31 - 1),
        ),
        (("em", "rows.csv", "--model", "kmeans", "--components", "2"), "best", None),
        (("herd", "rows.csv", "--hidden", "3", "--iterations", "300", "--burn-in", "9"), "iteration", np.int64(0)),
    ],
)
def test_a_state_that_no_run_was_in_is_refused(
    herd: Callable[..., Any], tmp_path: Path, digits: bytes, line: tuple[str, ...], name: str, value: Any
) -> None:
    resume = made_long(herd, tmp_path, digits, line)
    with h5py.File(tmp_path / "run.ck", "r+") as file:
        if value is None or name not in file.attrs:
            del file[name]
        if value is not None:
            (file.attrs if np.ndim(value) == 0 else file)[name] = value
    seal_header.write_seal(tmp_path / "run.ck", "checkpoint")
    ended = herd(*resume)
    assert (ended.code, "run.ck" in ended.err) == (65, True), ended.err


STEPS = "sequence,u,v,push\n" + "".join(
    f"{n // 10},{u:.4f},{v:.4f},{n % 3}\n" for n, (u, v) in enumerate(np.cumsum(np.random.default_rng(4).normal(size=(60, 2)), axis=0))
)


def without(source: Path, name: str) -> None:
    """The artifact without one dataset, sealed again."""
    with h5py.File(source, "r+") as file:
        del file[name]
        kind = str(file.attrs["kind"])
    seal_header.write_seal(source, kind)


@pytest.mark.parametrize("name", ["emissions/covariance", "emissions/mixing", "known/base/covariance", "known/base/mean"])
def test_a_chain_has_all_parameters_of_its_emissions(herd: Callable[..., Any], tmp_path: Path, name: str) -> None:
    (tmp_path / "steps.csv").write_text(STEPS)
    assert herd("em", "steps.csv", "--model", "hmm", "--components", "2", "--iterations", "2", "-q", "-o", "m.h5").code == 0
    without(tmp_path / "m.h5", name)
    group, _, last = name.rpartition("/")
    told = f"m.h5: /{group} has no '{last}', which --emission gaussian needs"
    for line in (("check", "m.h5"), ("eval", "m.h5"), ("apply", "m.h5", "steps.csv", "-o", "a.h5")):
        ended = herd(*line)
        assert (ended.code, told in ended.err) == (65, True), ended.err


@pytest.mark.parametrize("name", ["control", "known/holdout_controls"])
def test_what_is_known_of_controls_is_of_as_many_as_there_are(herd: Callable[..., Any], tmp_path: Path, name: str) -> None:
    (tmp_path / "steps.csv").write_text(STEPS)
    line = ("em", "steps.csv", "--model", "lds", "--components", "1", "--iterations", "2", "--controls", "push", "--split", "4,0,2")
    assert herd(*line, "-q", "-o", "m.h5").code == 0
    assert herd("check", "m.h5").code == 0
    without(tmp_path / "m.h5", name)
    for asked in (("check", "m.h5"), ("eval", "m.h5")):
        ended = herd(*asked)
        assert (ended.code, "m.h5: /known/" in ended.err and "controls, but /control has" in ended.err) == (65, True), ended.err


@pytest.mark.parametrize(
    ("name", "told"), [("parts/0", "parts cannot be read (member 0 is missing)"), ("parts/0/energy", "has parts that do not fit together")]
)
def test_shards_that_make_no_whole(herd: Callable[..., Any], tmp_path: Path, digits: bytes, name: str, told: str) -> None:
    (tmp_path / "rows.csv").write_bytes(digits)
    line = ("fit-rbm", "rows.csv", "--label", "label", "--hidden", "3", "--epochs", "1", "--per-class", "-q")
    for index in (1, 2):
        assert herd(*line, "--shard", f"{index}/2", "-o", f"{index}.h5").code == 0
    without(tmp_path / "1.h5", name)
    ended = herd("merge", "1.h5", "2.h5", "-o", "out.h5")
    assert (ended.code, told in ended.err) == (65, True), ended.err


@pytest.mark.parametrize(
    ("line", "name", "told"),
    [
        (("nherd-train", "rows.csv", "--label", "label", "--kernel", "gaussian", "--passes", "2"), "machines", "/machines has 0 parts"),
        (("ups-infer", "grid.h5", "--algorithm", "gis-bp"), "potential", "holds a state that this run cannot resume from"),
    ],
)
def test_a_state_that_lacks_what_every_run_has_is_refused(
    herd: Callable[..., Any], tmp_path: Path, digits: bytes, line: tuple[str, ...], name: str, told: str
) -> None:
    assert herd("network", "grid", "--grid-rows", "3", "--grid-columns", "3", "--draw-observed", "border", "-o", "grid.h5").code == 0
    resume = made_long(herd, tmp_path, digits, line)
    without(tmp_path / "run.ck", name)
    ended = herd(*resume)
    assert (ended.code, f"run.ck: {told}" in ended.err) == (65, True), ended.err


def test_beliefs_without_a_trace_have_an_empty_one(herd: Callable[..., Any], tmp_path: Path) -> None:
    assert herd("network", "grid", "--grid-rows", "2", "--grid-columns", "2", "-o", "grid.h5").code == 0
    assert herd("ups-infer", "grid.h5", "--algorithm", "bp", "-q", "-o", "b.h5").code == 0
    without(tmp_path / "b.h5", "trace")
    assert herd("eval", "b.h5").code == 0


def test_rows_held_out_of_a_regression_are_of_a_part_that_is(herd: Callable[..., Any], tmp_path: Path, digits: bytes) -> None:
    (tmp_path / "rows.csv").write_bytes(digits)
    assert herd("regress", "rows.csv", "--target", "b", "-q", "-o", "m.h5").code == 0
    with h5py.File(tmp_path / "m.h5") as file:
        split = file["holdout/split"][()]
    edited(tmp_path / "m.h5", tmp_path / "evil.h5", "holdout/split", np.zeros_like(split))
    for line in (("check", "evil.h5"), ("eval", "evil.h5")):
        ended = herd(*line)
        assert (ended.code, "evil.h5: /holdout/split has 0, but the allowed values are 1 … 2" in ended.err) == (65, True), ended.err


@pytest.mark.parametrize("record", [{}, {"command": "em"}, {"command": "em", "parameters": {"sequence": 7}, "inputs": []}])
def test_a_history_that_says_nothing_of_use_is_passed_over(herd: Callable[..., Any], tmp_path: Path, record: dict[str, object]) -> None:
    (tmp_path / "steps.csv").write_text(STEPS)
    assert herd("em", "steps.csv", "--model", "hmm", "--components", "2", "--iterations", "2", "-q", "-o", "m.h5").code == 0
    with h5py.File(tmp_path / "m.h5", "r+") as file:
        file.attrs["provenance"] = json.dumps([record])
    seal_header.write_seal(tmp_path / "m.h5", "hmm")
    ended = herd("eval", "m.h5", "--data", "steps.csv")
    assert "internal error" not in ended.err
    assert ended.code in (0, 65), ended.err
