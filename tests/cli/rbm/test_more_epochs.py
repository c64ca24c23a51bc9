"""`fit-rbm --resume` with more epochs than the run was begun with."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli import artifacts

QUIET = ("--hidden", "3", "--learning-rate", ".01", "--rate-decay", "none", "--batch-size", "5", "--seed", "3")
OTHER = "herd fit-rbm: c.state: the checkpoint belongs to a run with other options or inputs\n"


@pytest.fixture
def stopped(herd, small, tmp_path):
    """stopped(*options) runs fit-rbm with a checkpoint whose result cannot be written, so that the checkpoint of its last step stays."""

    def run(*options: str) -> tuple[str, ...]:
        kept = ("--checkpoint", "c.state", "--every", "1")
        assert herd("fit-rbm", "small.h5", *options, *kept, "-o", "/dev/full").code == 74
        return kept

    return run


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--per-class", "--algorithm", "pcd"),
        ("--validate-every", "2"),
        ("--track-likelihood",),
        ("--optimizer", "adam"),
        ("--average", "4"),
    ],
    ids=" ".join,
)
def test_a_constant_rate_ends_where_one_run_of_all_epochs_ends(herd, stopped, tmp_path, more) -> None:
    kept = stopped(*QUIET, *more, "--epochs", "2")
    resumed = herd("fit-rbm", "small.h5", *QUIET, *more, "--epochs", "6", *kept, "--resume", "-o", "more.h5")
    assert resumed.code == 0, resumed.err
    assert "the checkpoint is from a run of 2 epochs; this run continues to epoch 6\n" in resumed.err
    assert herd("fit-rbm", "small.h5", *QUIET, *more, "--epochs", "6", "-o", "whole.h5").code == 0
    whole, longer = (artifacts.load(str(tmp_path / name)).value for name in ("whole.h5", "more.h5"))
    for name in ("W", "b", "c", "epochs"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(longer, name))
    np.testing.assert_array_equal(whole.trace.reconstruction, longer.trace.reconstruction)
    if "--track-likelihood" not in more:
        assert (tmp_path / "whole.h5").read_bytes() == (tmp_path / "more.h5").read_bytes()


def test_a_falling_rate_falls_over_all_epochs(herd, stopped) -> None:
    kept = stopped("--hidden", "3", "--epochs", "2")
    resumed = herd("fit-rbm", "small.h5", "--hidden", "3", "--epochs", "5", *kept, "--resume", "-o", "more.h5")
    assert resumed.code == 0
    assert (
        "the checkpoint is from a run of 2 epochs; this run continues to epoch 5, and the learning rate falls over all of them\n"
        in resumed.err
    )


@pytest.mark.parametrize(
    "other", [("--epochs", "1"), ("--epochs", "4", "--seed", "1"), ("--epochs", "4", "--weight-decay", "0")], ids=" ".join
)
def test_fewer_epochs_and_other_options_are_refused(herd, stopped, other) -> None:
    kept = stopped("--hidden", "3", "--epochs", "2")
    refused = herd("fit-rbm", "small.h5", "--hidden", "3", *other, *kept, "--resume", "-o", "more.h5")
    assert (refused.code, refused.err[: len(OTHER)]) == (2, OTHER)


def test_the_checkpoint_of_another_command_is_refused(herd, stopped) -> None:
    kept = stopped("--layers", "3,2", "--epochs", "1")
    refused = herd("fit-rbm", "small.h5", "--hidden", "3", "--epochs", "4", *kept, "--resume", "-o", "more.h5")
    assert (refused.code, refused.err[: len(OTHER)]) == (2, OTHER)
