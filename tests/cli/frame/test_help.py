"""`herd help COMMAND`, and what is said of options that other programs call otherwise."""

from __future__ import annotations

import pytest

from herdcli.artifacts import load
from herdcli.cli.main import COMMANDS


def test_help_of_a_command_is_its_help_option(herd):
    ended = herd("help", "sample")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == herd("sample", "--help").out
    assert herd("help").out == herd("--help").out
    unknown = herd("help", "sampel")
    assert (unknown.code, unknown.err) == (2, "herd: no command 'sampel'; did you mean 'herd sample'?\nhint: try 'herd --help'\n")


@pytest.mark.parametrize(
    ("command", "typed", "meant"),
    [
        ("fit-rbm", "--lr", "--learning-rate"),
        ("fit-rbm", "--n-hidden", "--hidden"),
        ("fit-rbm", "--n-components", "--hidden"),
        ("ica", "--n-components", "--components"),
        ("kernel-herd", "--k", "--count"),
        ("sample", "--random-state", "--seed"),
    ],
)
def test_other_names_of_options_are_known(herd, command, typed, meant):
    ended = herd(command, typed, "3")
    assert ended.code == 2
    assert ended.err == f"herd {command}: No such option '{typed}'. Did you mean '{meant}'?\nhint: try 'herd {command} --help'\n"


def test_data_before_the_model_are_told(herd, model, digits):
    ended = herd("apply", digits, "model.h5", "-o", "out.h5")
    assert (ended.code, ended.err) == (
        65,
        f"herd apply: {digits}: is a data set, but the first argument must be the model\nhint: herd apply MODEL DATA\n",
    )


def test_help_of_many_options_fits_a_screen(herd):
    """Sixty lines of eighty columns, in groups, the rest under --help-all; no names of the parser's types."""
    lines = _help(herd, "fit-rbm").splitlines()
    assert len(lines) <= 60
    for heading in ("Input:", "Model:", "Learning:", "Long runs:", "Output:"):
        assert heading in lines
    whole = _help(herd, "fit-rbm", "--help-all")
    assert lines[-1] == f"{_options(whole) - _options(chr(10).join(lines))} more options: herd fit-rbm --help-all"
    for name in COMMANDS:
        told = _help(herd, name)
        told = _help(herd, name, "--help-all") if "--help-all" in told else told
        assert "INTEGER RANGE" not in told
        assert "FLOAT RANGE" not in told
        assert "18446744073709551615" not in told
        assert "<=x" not in told
        assert "x>" not in told
        assert "TEXT" not in told
        assert "See below" not in told


def _help(herd, name, option="--help"):
    told = herd(name, option).out
    return told.decode() if isinstance(told, bytes) else told


def _options(text: str) -> int:
    return sum(line.startswith("  -") for line in text.splitlines())


def test_commands_that_learn_nothing_have_no_heading_of_learning(herd):
    for name in ("convert", "eval", "apply", "check", "sample", "merge"):
        told = _help(herd, name, "--help-all") if "--help-all" in _help(herd, name) else _help(herd, name)
        assert "Learning:" not in told
        assert "Model:" not in told


OLD = (
    "is had", "are had", "nothing but errors", "now and then", "waits for nobody", "wait for nobody", "leave the numbers", "that is said",
    "who were not there", "stands for itself", "upon this", "in the place of", "a model that is there", "as it is there", "anew", "so many",
    "goes on from", "go on from", "told by", "one a line", "is told", "are told", " is no ", " are no ",
)  # fmt: skip


def test_help_is_in_plain_english(herd):
    """The phrases that a native speaker stumbled over are gone, and do not come back."""
    for name in COMMANDS:
        told = _help(herd, name)
        told = " ".join((_help(herd, name, "--help-all") if "--help-all" in told else told).split())
        assert [phrase for phrase in OLD if phrase in told] == [], name


def test_choices_are_taken_in_any_case(herd, tmp_path):
    assert herd("data", "digits", "-o", "d.h5").code == 0
    ended = herd("fit-rbm", "d.h5", "--algorithm", "PCD", "--hidden", "2", "--epochs", "1", "-o", "m.h5")
    assert ended.code == 0
    assert load(str(tmp_path / "m.h5")).history[-1]["parameters"]["algorithm"] == "pcd"
