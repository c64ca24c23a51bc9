"""The table of kinds: no page without an archived file, figures or the reason for none, a line in the format document, and known plots."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from herdcli.cli.eval.command import command as eval_command
from herdcli.kinds import KINDS, plots_by_kind
from herdcli.parts import import_by_path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("metrics", "judge", "announce", "comparison", "apply", "sample", "imports", "finish", "request")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_every_version_of_a_kind_has_an_archived_file(kind):
    archived = [f"{kind.name}-{version + 1}.h5" for version in range(kind.version)]
    assert [name for name in archived if not (ROOT / "tests" / "data" / name).exists()] == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_kind_has_figures_and_plots_or_says_why_not(kind):
    assert (kind.metrics and kind.plots) or kind.plain, f"{kind.name} has neither figures and plots nor a reason"
    assert not (kind.metrics and kind.plots and kind.plain), f"{kind.name} gives a reason for what it has"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_kind_stands_in_the_format_document(kind):
    assert f"\n## {kind.name}, version {kind.version}\n" in (ROOT / "docs" / "format.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_what_a_page_names_is_there(kind):
    paths = [path for page in PAGES if (path := getattr(kind, page))] + list(kind.plots.values())
    assert all(callable(import_by_path(path)) for path in (*paths, *kind.versions))
    for path in (path for path in (kind.judge, kind.apply, kind.sample) if path):
        assert len(inspect.signature(import_by_path(path)).parameters) == 3


def told(shown, kind):
    """What the help says of the plots of one kind."""
    (plots,) = (plots for part in shown.split("  ") for kinds, colon, plots in [part.partition(":")] if colon and kind in kinds.split(", "))
    return plots


def test_every_plot_is_in_the_help_of_eval():
    (shown,) = (param.help for param in eval_command.params if param.name == "plots")
    missing = [name for kind in KINDS.values() for name in kind.plots if name not in told(shown, kind.name)]
    assert missing == []
    assert shown.endswith(plots_by_kind())


def test_kinds_are_judged_by_options_of_eval():
    known = {param.name for param in eval_command.params}
    for kind in KINDS.values():
        assert set(kind.judged_by) <= known
        assert bool(kind.judged_by) == (kind.judge is not None)


def test_the_name_of_a_kind_stands_on_its_page():
    """What is done with harmoniums is declared in the table and not asked by name; a model of herding and a topic are called so too."""
    naming = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "herdcli").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value == "rbm"
    ]
    assert set(naming) <= {"herdcli/kinds.py", "herdcli/herding/__init__.py", "herdcli/evaluation/selftest.py"}
