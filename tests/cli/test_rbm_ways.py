"""Ways of learning a harmonium from the command line: that they run, are kept in the model, and are refused where they have no meaning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from herdcli import artifacts

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("--algorithm", "pt", "--replicas", "3"), {"algorithm": "pt", "replicas": 3}),
        (("--algorithm", "tap", "--steps", "2"), {"algorithm": "tap", "steps": 2}),
        (("--optimizer", "adam"), {"optimizer": "adam", "learning_rate": 0.01}),
        (("--optimizer", "natural", "--final-steps", "3", "--rate-decay", "cosine"), {"optimizer": "natural", "final_steps": 3}),
    ],
)
def test_ways_of_learning_are_kept_and_gone_on_with(small: Path, run: Run, options: tuple[str, ...], kept: dict[str, object]) -> None:
    for threads in ("1", "2"):
        ended = run("fit-rbm", small, "--hidden", "3", "--epochs", "4", *options, "--keep-state", "-j", threads, "-o", f"m{threads}.h5")
        assert ended.code == 0, ended.err
    model = artifacts.load("m1.h5").value
    assert {name: getattr(model, name) for name in kept} == kept
    assert np.array_equal(model.W, artifacts.load("m2.h5").value.W)
    ended = run("fit-rbm", small, "--continue", "m1.h5", "--epochs", "2", "-o", "on.h5")
    assert ended.code == 0, ended.err
    further = artifacts.load("on.h5").value
    assert {name: getattr(further, name) for name in kept} == kept
    assert run("eval", "on.h5").code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--replicas", "3"), "warning: --replicas has no effect with --algorithm cd"),
        (("--algorithm", "exact", "--final-steps", "3"), "warning: --final-steps has no effect with --algorithm exact"),
    ],
)
def test_options_without_effect_are_told(small: Path, run: Run, options: tuple[str, ...], said: str) -> None:
    ended = run("fit-rbm", small, "--hidden", "3", "--epochs", "1", *options, "-o", "m.h5")
    assert ended.code == 0
    assert f"fit-rbm: {said}\n" in ended.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--optimizer", "natural", "--algorithm", "exact"),
            "natural updates need sampled states, which exact has none of\nhint: --algorithm pcd",
        ),
        (
            ("--optimizer", "adam", "--non-negative"),
            "adam updates know no l1_decay and no non_negative weights\nhint: leave out --optimizer",
        ),
        (
            ("--pairs", "--optimizer", "adam"),
            "--pairs and --optimizer exclude each other\nhint: a model of pairs is one model of all labels",
        ),
        (("--pairs", "--algorithm", "pt"), "--pairs and --algorithm pt exclude each other\nhint: --algorithm pcd"),
        (
            ("--recurrent", "--optimizer", "adam"),
            "--recurrent and --optimizer exclude each other\nhint: --recurrent learns one model of whole sequences",
        ),
        (("--recurrent", "--rate-decay", "cosine"), "unknown rate_decay 'cosine', expected linear or none"),
    ],
)
def test_ways_that_do_not_go_together_are_refused(small: Path, run: Run, options: tuple[str, ...], message: str) -> None:
    ended = run("fit-rbm", small, "--hidden", "3", *options, "-o", "m.h5")
    assert (ended.code, ended.err) == (2, f"herd fit-rbm: {message}\n")
    assert not Path("m.h5").exists()
