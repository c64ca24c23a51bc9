"""`fit-rbm --hidden auto`: the same bytes however it is run, what is told, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from herdcli import artifacts

AUTO = ("fit-rbm", "small.h5", "--hidden", "auto", "--epochs", "3", "--learning-rate", ".02", "--batch-size", "5")


def test_the_best_size_is_told_kept_and_the_fit_of_that_size(herd: Callable, small: Path, tmp_path: Path) -> None:
    ended = herd(*AUTO, "-o", "auto.h5", "-v")
    assert ended.code == 0, ended.err
    found = artifacts.load(str(tmp_path / "auto.h5")).value
    tried = found.sizes
    assert tried.hidden[:3] == [4, 8, 16]
    best = int(np.argmax(tried.judged))
    assert found.W.shape[2] == tried.hidden[best]
    assert f"fit-rbm: --hidden auto: {tried.hidden[best]} hidden units, {tried.judged[best]:.2f} nats per validation row" in ended.err
    figures = ", ".join(f"{hidden}: {value:.2f}" for hidden, value in zip(tried.hidden, tried.judged, strict=True))
    assert f"fit-rbm: tried {figures}\n" in ended.err
    assert f"fit-rbm: 4 hidden: {tried.log_likelihood[0]:.2f} nats (log Z exact)\n" in ended.err
    assert f"{tried.hidden[best]} hidden, 3 epochs" in ended.err
    assert herd(*AUTO, "--hidden", str(tried.hidden[best]), "-o", "alone.h5").code == 0
    alone = artifacts.load(str(tmp_path / "alone.h5")).value
    for name in ("W", "b", "c", "training_energy"):
        np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
    shown = json.loads(herd("info", "--format", "json", "auto.h5").out)[0]
    assert shown["content"]["sizes/judged"] == tried.judged
    assert shown["history"][-1]["parameters"]["hidden"] == "auto"


def test_the_same_bytes_on_threads_and_when_resumed(herd: Callable, small: Path, tmp_path: Path) -> None:
    more = ("--patience", "2", "--per-class")
    assert herd(*AUTO, *more, "-o", "one.h5", "-j", "1").code == 0
    assert herd(*AUTO, *more, "-o", "two.h5", "-j", "2").code == 0
    assert herd(*AUTO, *more, "--checkpoint", "c.state", "--every", "23", "-o", "/dev/full").code == 74  # the last state stays
    resumed = herd(*AUTO, *more, "--checkpoint", "c.state", "--resume", "-o", "three.h5")
    assert resumed.code == 0, resumed.err
    assert "resuming from step" in resumed.err
    one = (tmp_path / "one.h5").read_bytes()
    assert one == (tmp_path / "two.h5").read_bytes() == (tmp_path / "three.h5").read_bytes()


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (
            ("--hidden", "some"),
            2,
            "Invalid value for '--hidden': 'some' is neither a number of units nor 'auto'\nhint: try 'herd fit-rbm --help'\n",
        ),
        (
            ("--shard", "1/2", "--per-class"),
            2,
            "herd fit-rbm: --hidden auto cannot be used with --shard, because it fits models of several sizes one after the other\n"
            "hint: leave out --shard, or give --hidden a number\n",
        ),
        (
            ("--layers", "4,4"),
            2,
            "herd fit-rbm: --hidden auto and --layers exclude each other\n"
            "hint: use --hidden auto with a single rbm, or with one for each class\n",
        ),
        (
            ("--recurrent",),
            2,
            "herd fit-rbm: --hidden auto and --recurrent exclude each other\n"
            "hint: use --hidden auto with a single rbm, or with one for each class\n",
        ),
        (
            ("--continue", "m.h5"),
            2,
            "herd fit-rbm: --hidden auto and --continue exclude each other\nhint: the model decides: leave out --hidden\n",
        ),
        (
            ("--split", ".8,0,.2"),
            65,
            "herd fit-rbm: small.h5: the split has no validation rows\nhint: hold out some rows: --split .6,.2,.2\n",
        ),
    ],
)
def test_what_cannot_be_chosen_for_is_refused(herd: Callable, small: Path, options: tuple[str, ...], code: int, says: str) -> None:
    ended = herd(*AUTO, *options, "-o", "m2.h5")
    assert (ended.code, ended.out) == (code, b"")
    assert ended.err.endswith(says)
