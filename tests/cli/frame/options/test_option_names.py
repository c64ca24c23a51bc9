"""A name of an option means the same in every command, and names of version 0.1 still work, with advice."""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module

import click
import pytest

from herdcli.cli.frame.options.former_names import FORMER_NAMES, replace_former_names
from herdcli.cli.main import COMMANDS

# Options that take values of several forms, each with what it means in all commands that have it.
SEVERAL_FORMS = {
    "--algorithm": "how the model is fitted, or the answer computed",
    "--batch-size": "rows per update",
    "--components": "how many components, of principal axes or of a mixture",
    "--covariance": "form of the covariance matrices",
    "--data": "rows to evaluate on",
    "--distribution": "what atoms stand for",
    "--evidence": "observed states",
    "--explain": "what a figure is",
    "--features": "features of a fully visible model",
    "--format": "format of the output",
    "--hidden": "number of hidden units, of one layer or of several",
    "--init": "where the iteration starts",
    "--initial-scale": "size of the initial weights",
    "--input-format": "format of the input",
    "--kernel": "kernel that compares points",
    "--label": "column with the labels; kernel-herd: with a kernel on it",
    "--mask": "pixels that count",
    "--model": "which model is fitted",
    "--optimizer": "update rule",
    "--regions": "regions of a cluster variation method",
    "--scale": "what columns are divided by",
    "--solver": "which library solves it",
    "--report": "page of an evaluation",
}
NUMBERS = {"integer range": "N", "float range": "X", "integer": "N", "float": "X"}


def option_forms() -> dict[str, dict[str, str]]:
    """Option -> command -> form of its values: `flag`, the names to choose from, a metavar, or a type."""
    forms: dict[str, dict[str, str]] = defaultdict(dict)
    for name, (module, _) in COMMANDS.items():
        for param in import_module(module).command.params:
            if isinstance(param, click.Option) and not param.hidden:
                kind = "|".join(map(str, param.type.choices)) if isinstance(param.type, click.Choice) else param.metavar
                form = "flag" if param.is_flag else kind or NUMBERS.get(param.type.name, param.type.name)
                forms.update({text: forms[text] | {name: form} for text in param.opts if text.startswith("--")})
    return forms


def test_a_name_has_one_form_of_values_or_stands_in_the_table():
    unlike = {name: used for name, used in option_forms().items() if len(set(used.values())) > 1 and name not in SEVERAL_FORMS}
    assert unlike == {}


def test_former_names_are_gone_and_present_names_exist():
    forms = option_forms()
    for command, names in FORMER_NAMES.items():
        assert [old for old in names if command in forms.get(old, {})] == []
        assert [new for new in names.values() if command not in forms.get(new, {})] == []


@pytest.mark.parametrize(
    ("command", "words", "present", "advice"),
    [
        ("ica", ["--steps", "2"], ["--proposals", "2"], ["--steps is called --proposals now"]),
        ("ica", ["--steps=2", "--steps=3"], ["--proposals=2", "--proposals=3"], ["--steps is called --proposals now"]),
        ("network", ["unroll", "--steps", "2"], ["unroll", "--steps", "2"], []),
        ("herd", ["--", "--keep", "2"], ["--", "--keep", "2"], []),
    ],
)
def test_words_of_a_command_line(command, words, present, advice):
    assert replace_former_names(command, words) == (present, advice)


def test_a_former_name_gives_the_same_bytes_and_a_line_of_advice(herd, tmp_path):
    line = ["fit-rbm", "digits.h5", "--hidden", 4, "--epochs", 1, "--algorithm", "cd"]
    (tmp_path / "digits.h5").write_bytes(herd("data", "digits", "-o", "-").out)
    new, old = herd(*line, "--gibbs-steps", 2, "-o", "new.h5"), herd(*line, "--steps", 2, "-o", "old.h5")
    assert (new.code, old.code) == (0, 0)
    assert set(old.err.splitlines()) - set(new.err.splitlines()) >= {"fit-rbm: warning: --steps is called --gibbs-steps now"}
    assert (tmp_path / "new.h5").read_bytes() == (tmp_path / "old.h5").read_bytes()


def test_python_takes_former_names_with_a_warning():
    import numpy as np

    import herdcli

    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.warns(UserWarning, match=r"herd ica: --steps is called --proposals now"):
        herdcli.ica(X, algorithm="ebm", rate_schedule="0.01x2", steps=2)
