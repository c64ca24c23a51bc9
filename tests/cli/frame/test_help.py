"""`herd help COMMAND`, and what is said of options that other programs call otherwise."""

from __future__ import annotations

from importlib import import_module

import pytest

from herdcli.artifacts import load
from herdcli.cli.frame.options.help_pages import ALWAYS, FIRST
from herdcli.cli.frame.options.short_help import format_short_help_page
from herdcli.cli.frame.options.short_texts import SHORT_TEXTS
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
        f"herd apply: {digits}: is a data set, but the first argument must be the model\nhint: change the order: herd apply MODEL DATA\n",
    )


def test_help_fits_a_screen(herd):
    """Forty lines of eighty columns for each command, in groups, the rest under --help-all; no names of the parser's types."""
    for name in COMMANDS:
        lines = _help(herd, name).splitlines()
        assert sum(max(1, -(-len(line) // 80)) for line in lines) <= 40, name
        assert [line for line in lines if len(line) > 80 and " herd " not in line] == [], name
        told = "\n".join(lines)
        if "--help-all" in told:
            told = _help(herd, name, "--help-all")
            assert lines[-1] == f"{_options(told) - _options(chr(10).join(lines))} more options: herd {name} --help-all"
            assert any(f"herd {name} " in line for line in lines[3:12]), "an example"
        for words in ("INTEGER RANGE", "FLOAT RANGE", "18446744073709551615", "<=x", "x>", "TEXT", "See below"):
            assert words not in told
    assert [line for line in _help(herd, "fit-rbm").splitlines() if line.endswith(":") and not line.startswith(" ")] == [
        *("Input:", "Model:", "Learning:", "Long runs:", "Output:"),
    ]


def test_common_options_are_in_the_same_order_in_each_help(herd):
    spellings = (
        "--missing",
        "--label",
        "--split",
        "--seed",
        "-j, --threads",
        "--checkpoint",
        "--resume",
        "--dry-run",
        "-o, --output",
        "-h, --help",
    )
    for name in FIRST:
        lines = _help(herd, name).splitlines()
        places = [next((at for at, line in enumerate(lines) if line.startswith(f"  {each} ")), None) for each in spellings]
        found = [at for at in places if at is not None]
        assert found == sorted(found), name


def test_the_tables_of_the_short_help_name_options():
    for name, words in FIRST.items():
        params = {str(param.name) for param in import_module(COMMANDS[name][0]).command.params}
        assert set(words.split()) <= params, name
        assert {key.partition(".")[2] for key in SHORT_TEXTS if key.startswith(f"{name}.")} <= set(words.split()) | ALWAYS, name
    assert {key.partition(".")[0] for key in SHORT_TEXTS if "." in key} <= set(FIRST)


def test_an_option_without_a_short_text_has_its_first_sentence():
    groups = {
        "Model": [
            ("x.rate", "--rate [first|second|third]", "Rate.  More of it.  [default: first]"),
            ("x.n", "-n N", "Rows to read."),
        ]
    }
    page = format_short_help_page("Usage: herd x [OPTIONS]", "Do it.\n\n\b\n  herd x a\n\nMore.", groups, "2 more", 78)
    assert page.splitlines() == [
        *("Usage: herd x [OPTIONS]", "", "  Do it.", "", "    herd x a", "", "Model:"),
        *("  --rate NAME  Rate: first, second, third  [default: first]", "  -n N         Rows to read", "", "2 more"),
    ]


def _help(herd, name, option="--help"):
    told = herd(name, option).out
    return told.decode() if isinstance(told, bytes) else told


def _options(text: str) -> int:
    lines = text.splitlines()
    first = next(at for at, line in enumerate(lines) if line.endswith(":") and not line.startswith(" "))
    return sum(line.startswith("  -") for line in lines[first:])


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


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("fit-rbm", "d.h5", "--algorithm", "rcpd"), "did you mean --algorithm rpcd?"),
        (("em", "d.h5", "--covariance", "DIAG"), "did you mean --covariance diagonal?"),
        (("convert", "d.h5", "--format", "parket"), "did you mean --format parquet?"),
        (("fit-rbm", "d.h5", "--visible-units", "gausian"), "did you mean --visible-units gaussian?"),
        (("em", "d.h5", "--model", "qqq"), "try 'herd em --help'"),
        (("em", "d.h5", "--iterations", "many"), "try 'herd em --help'"),
    ],
)
def test_a_misspelt_choice_is_answered_with_the_nearest(herd, words, hint):
    ended = herd(*words)
    assert (ended.code, ended.err.splitlines()[1:]) == (2, [f"hint: {hint}"])
