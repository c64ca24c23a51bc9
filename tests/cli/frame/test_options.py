"""What the command line promises about options agrees with the topics behind it."""

from __future__ import annotations

import re
from dataclasses import fields

import click
import pytest

from herdcli.cli.main import COMMANDS, cli
from herdcli.evaluation import table
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.rbm.learning.parallel_fits import Settings
from herdcli.rbm.units import family_names


def options_of(name: str) -> dict[str, click.Option]:
    command = cli.get_command(click.Context(cli), name)
    return {param.name: param for param in command.params if isinstance(param, click.Option)}


def defaults_agree(name: str, settings: type) -> set[str]:
    """Fields that the command has options for; their defaults must be the settings' own, or None or auto: they follow from the input."""
    options = options_of(name)
    shared = {field.name: field.default for field in fields(settings) if field.name in options and options[field.name].default is not None}
    shared = {name: default for name, default in shared.items() if not options[name].is_flag}
    for field, default in shared.items():
        assert options[field].default in (default, "auto"), field
    return set(shared)


def test_defaults_of_fit_rbm_are_those_of_the_topic():
    tested = defaults_agree("fit-rbm", Settings)
    assert tested >= {"hidden", "algorithm", "steps", "epochs", "batch_size", "momentum", "seed"}


def test_defaults_of_eval_are_those_of_the_evaluation():
    assert defaults_agree("eval", EvaluationSettings) >= {"calibrate", "mlr_penalty", "likelihood", "chains", "seed"}


def test_choices_are_those_of_the_topics():
    for name in ("units", "visible_units", "hidden_units"):
        parse = options_of("fit-rbm")[name].type.parse
        assert [parse(units.replace(":N", ":3").replace(":K", ":3")) for units in family_names()]
    assert all(units in options_of("fit-rbm")["units"].help for units in family_names())
    assert set(options_of("eval")["format"].type.choices) == set(table.FORMATS)
    automatic, *algorithms = options_of("fit-rbm")["algorithm"].type.choices
    assert automatic == "auto"
    for algorithm in algorithms:
        assert Settings(algorithm=algorithm).algorithm == algorithm


@pytest.mark.parametrize("name", COMMANDS)
def test_help_opens_with_an_example_and_every_option_is_explained(name):
    command = cli.get_command(click.Context(cli), name)
    paragraphs = re.split(r"\n\s*\n", command.help.strip())
    assert paragraphs[1].lstrip("\b\n ").startswith("herd "), "the second paragraph is the example"
    unexplained = [option for option, declared in options_of(name).items() if not declared.help]
    assert unexplained == []


@pytest.mark.parametrize("name", COMMANDS)
def test_one_letter_options_mean_the_same_everywhere(name):
    letters = {"-o": "output", "-n": "no_clobber", "-m": "count", "-j": "threads", "-q": "quiet", "-v": "verbose", "-h": "help"}
    short = {flag: option for option, declared in options_of(name).items() for flag in declared.opts if re.fullmatch("-.", flag)}
    assert all(letters.get(flag) == option for flag, option in short.items()), short


@pytest.mark.parametrize("line", ["regress --l2", "em --tolerance", "ica --tolerance", "nherd-train --confidence"])
def test_nan_is_within_no_range(herd, digits, line):
    name, option = line.split()
    ended = herd(name, digits, option, "nan", "-o", "made.h5")
    assert ended.code == 2
    assert ended.err.startswith(f"herd {name}: Invalid value for '{option}': nan is not a number\n")
