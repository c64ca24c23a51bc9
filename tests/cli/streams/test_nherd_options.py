"""Options of nherd-train without effect, and those that contradict each other, for new models and for one that is continued."""

from __future__ import annotations

import pytest

TEXT = b"".join(b"%d 1:%d 2:%d\n" % (1 if k % 2 else -1, k % 2, k % 5) for k in range(40))
DECIDES = "with --continue: the model decides"


@pytest.fixture
def model(herd):
    """A model in m.h5, learned from TEXT."""
    assert herd("nherd-train", "-q", "--C", "1", "-o", "m.h5", stdin=TEXT).code == 0


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            ("--task", "regression", "--algorithm", "pa"),
            "--task regression learns by squared loss, with --algorithm nherd or arow",
            "leave --algorithm out",
        ),
        (
            ("--task", "regression", "--loss", "squared-hinge"),
            "--task regression learns by squared loss, with --algorithm nherd or arow",
            "leave --loss out",
        ),
        (
            ("--half-life", "5", "--kernel", "linear"),
            "--half-life needs variances that can grow again, but --kernel linear has none",
            "use --algorithm nherd or arow, without --kernel",
        ),
        (
            ("--half-life", "5", "--algorithm", "pa"),
            "--half-life needs variances that can grow again, but --algorithm pa has none",
            "use --algorithm nherd or arow, without --kernel",
        ),
        (
            ("--scale", "standard", "--no-bias"),
            "--scale standard centres the features, so it does not work without a bias",
            "use --scale online, which only divides",
        ),
        (
            ("--kernel", "linear", "--covariance", "diagonal"),
            "--kernel does not work with --covariance diagonal",
            "drop --covariance diagonal",
        ),
        (
            ("--kernel", "linear", "--multiclass", "top-1"),
            "--kernel always learns each class against the rest, not top-1",
            "drop --multiclass top-1",
        ),
        (
            ("--parts", "2", "--kernel", "linear"),
            "--parts merges weights, but kernel models share none",
            "drop --parts or --kernel",
        ),
        (
            ("--cache", "c.bin", "--inverse-map"),
            "--cache stores columns without the names that --inverse-map needs",
            "leave one of them out",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(herd, options, message, hint):
    ended = herd("nherd-train", *options, "-o", "out.h5", stdin=TEXT)
    assert (ended.code, ended.err) == (2, f"herd nherd-train: {message}\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shuffle", "--in-order"), "--shuffle and --in-order contradict each other"),
        (("--holdout", "1"), "--holdout 1 leaves no example to learn"),
        (("--early-stop", "2", "--holdout", "0"), "--early-stop needs held-out examples"),
        (("--parts", "2"), "--parts learns each part from the start, so it does not work with --continue"),
    ],
)
def test_they_are_refused_of_a_continued_model_too(herd, model, options, message):
    ended = herd("nherd-train", "--continue", "m.h5", *options, "-o", "out.h5", stdin=TEXT)
    assert (ended.code, ended.err.splitlines()[0]) == (2, f"herd nherd-train: {message}")


def test_what_the_model_decides_has_no_effect_and_contradicts_nothing(herd, model):
    options = ("--scale", "standard", "--no-bias", "--task", "regression", "--multiclass", "top-1", "--rounds", "2")
    ended = herd("nherd-train", "--continue", "m.h5", *options, "-o", "out.h5", stdin=TEXT)
    assert ended.code == 0, ended.err
    assert [line for line in ended.err.splitlines() if "warning" in line] == [
        f"nherd-train: warning: --task has no effect {DECIDES}",
        f"nherd-train: warning: --multiclass has no effect {DECIDES}",
        "nherd-train: warning: --rounds has no effect without --parts",
        f"nherd-train: warning: --scale has no effect {DECIDES}",
        f"nherd-train: warning: --bias has no effect {DECIDES}",
    ]


def test_bits_of_a_continued_model_are_compared_with_the_model(herd):
    assert herd("nherd-train", "-q", "--C", "1", "--bits", "8", "-o", "h.h5", stdin=TEXT).code == 0
    same = herd("nherd-train", "--continue", "h.h5", "--bits", "8", "-o", "out.h5", stdin=TEXT)
    assert (same.code, "warning" in same.err) == (0, False)
    other = herd("nherd-train", "--continue", "h.h5", "--bits", "9", "-o", "out.h5", stdin=TEXT)
    assert (other.code, other.err) == (65, "herd nherd-train: h.h5: hashes into 2^8 columns, but --bits asks for 2^9\n")


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        (
            ("--algorithm", "cw", "--loss", "log", "--C", "1"),
            ["--loss has no effect with --algorithm cw", "--C has no effect with --algorithm cw"],
        ),
        (("--confidence", ".8"), ["--confidence has no effect with --algorithm nherd"]),
        (("--algorithm", "pa", "--form", "drop"), ["--form has no effect with --algorithm pa, which has no covariance"]),
        (("--covariance", "full", "--form", "drop"), ["--form has no effect with a full covariance"]),
        (
            ("--width", "2", "--degree", "3", "--budget", "5"),
            [
                "--width has no effect without --kernel gaussian",
                "--degree has no effect without --kernel polynomial",
                "--budget has no effect without --kernel",
            ],
        ),
        (("--parts", "1", "--half-life", "none", "--kernel", "none"), []),
    ],
)
def test_options_without_effect_are_named(herd, options, warnings):
    ended = herd("nherd-train", "--holdout", "0", *options, "-o", "out.h5", stdin=TEXT)
    assert ended.code == 0, ended.err
    assert [line.partition("warning: ")[2] for line in ended.err.splitlines() if "has no effect" in line] == warnings
