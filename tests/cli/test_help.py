"""`herd help COMMAND`, and what is said of options that other programs call otherwise."""

from __future__ import annotations

import pytest


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
    assert (ended.code, ended.err) == (65, f"herd apply: {digits}: is a data set, and the model comes first\nhint: herd apply MODEL DATA\n")
