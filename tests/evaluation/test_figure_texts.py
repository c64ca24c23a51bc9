"""What is written about figures: each has a meaning, a formula, a source and one type in all kinds."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from herdcli.evaluation.report import column_descriptions, figure_formulas, figure_relations
from herdcli.evaluation.report.own_explanations import own_explanations
from herdcli.kinds import KINDS, kinds_with

# keys of dictionaries in modules of figures that are no figures themselves
INNER = {
    "base",
    "baseline_wrong",
    "classes",
    "codes",
    "columns",
    "counts",
    "deviance",
    "discordant",
    "energies",
    "false",
    "gaps",
    "gain_squares",
    "gains",
    "given",
    "hits",
    "infinite",
    "loss",
    "mass",
    "mixture",
    "null_deviance",
    "one_state",
    "outputs",
    "own",
    "persistence",
    "right",
    "said",
    "scores",
    "second",
    "fourth",
    "square",
    "square_alone",
    "squares",
    "stable",
    "table",
    "wrong",
    "both",
    "areas",
    "kept",
    "baselines",
    "model",
    "all",
    "edge",
    "dppca",
    "eigenfaces",
    "fisherfaces",
}


def written_figures(module: str) -> Iterator[str]:
    """The text keys of dictionaries that the functions of a module of figures make or fill, and its COLUMNS."""
    found = import_module(module)
    yield from getattr(found, "COLUMNS", ())
    for node in ast.walk(ast.parse(inspect.getsource(found))):
        keys = node.keys if isinstance(node, ast.Dict) else []
        if isinstance(node, ast.Assign):
            keys = [target.slice for target in node.targets if isinstance(target, ast.Subscript)]
        yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


MODULES = sorted({str(KINDS[kind].metrics).rpartition(".")[0] for kind in kinds_with("metrics")})


@pytest.mark.parametrize("module", MODULES)
def test_every_figure_has_a_meaning_a_formula_and_a_source(module):
    names = {name for name in written_figures(module) if re.fullmatch(r"[a-z][a-z0-9_]*", name)} - INNER
    assert names
    for name in sorted(names):
        assert column_descriptions.column_description(name), name
        formula, source = figure_formulas.metric_formula(name) or ("", "")
        assert formula, name
        assert source, name


@pytest.mark.parametrize(
    "name",
    [
        "log_likelihood_valid",
        "squared_error_train",
        "squared_error_baseline",
        "log_likelihood_bound_reverse_se",
        "rank_4",
        "precision_at_3",
        "error_1nn",
        "log_likelihood_tracked_se",
    ],
)
def test_families_of_figures_are_explained_by_their_endings(name):
    assert column_descriptions.column_description(name)
    assert figure_formulas.metric_formula(name) is not None


def test_meanings_and_formulas_are_of_the_same_figures():
    described = set(column_descriptions.metrics_with_description())
    assert described == {*figure_formulas.FORMULAS, *own_explanations()}
    assert not set(figure_formulas.FORMULAS) & set(own_explanations())
    assert figure_formulas.metric_formula("nothing") is None


def test_every_relation_is_of_figures_that_are_explained():
    related = {
        name for table in (figure_relations.BASELINES, figure_relations.INTERVALS) for own, more in table.items() for name in (own, *more)
    }
    related |= {name for pair in figure_relations.ERRORS.items() for name in pair}
    related |= {name for section in figure_relations.SECTIONS.values() for name in section}
    assert sorted(name for name in related if not column_descriptions.column_description(name)) == []
    baselines = {name for names in figure_relations.BASELINES.values() for name in names}
    assert baselines == set(figure_relations.LABELS)


def test_a_table_begins_with_the_verdict_and_the_main_figure_with_its_error_and_baseline():
    columns = ["file", "rows", "log_likelihood", "independent", "log_likelihood_se", "strange", "verdict"]
    assert figure_relations.sort_by_interest(columns) == [
        "file",
        "verdict",
        "log_likelihood",
        "log_likelihood_se",
        "independent",
        "rows",
        "strange",
    ]


def test_titles_are_words():
    titles = [column_descriptions.metric_title(name) for name in ("log_likelihood", "log_z_method", "error_1nn", "r2", "weight_norm")]
    assert titles == ["log-likelihood", "log Z method", "error 1-NN", "R²", "weight norm"]


@pytest.mark.parametrize(
    ("kind", "row", "baseline", "text"),
    [
        ("rbm", {"log_likelihood": -17.1234, "independent": -25.2, "log_z_method": "exact"}, "independent",
         "held-out log-likelihood -17.12 (independent columns -25.2)"),
        ("rbm", {"log_likelihood": -17.1234, "independent": -25.2, "log_z_method": "annealed"}, "independent",
         "held-out log-likelihood up to -17.12 (independent columns -25.2)"),
        ("regression", {"log_likelihood": -2.0, "independent": -3.0}, "independent", "held-out log-likelihood -2 (mean response -3)"),
        ("classifier", {"error": 0.05, "error_majority": 0.9}, "error_majority", "held-out error 0.05 (majority 0.9)"),
        ("mixture", {"log_likelihood": -4.0, "log_likelihood_baseline": -5.0, "log_likelihood_gaussian": -5.0}, "log_likelihood_baseline",
         "held-out log-likelihood -4 (one Gaussian -5)"),
        ("herding", {"moment_gap": 0.1, "moment_gap_random": 0.2}, "moment_gap_random", "moment gap 0.1 (independent draws 0.2)"),
        ("classifier", {"error": None, "error_majority": None}, "error_majority", ""),
        ("network", {"log_z": 1.0}, "independent", ""),
    ],
)  # fmt: skip
def test_the_last_line_of_a_fit_has_its_main_figure_beside_the_baseline(kind, row, baseline, text):
    assert figure_relations.heldout_metric_text(kind, row, baseline) == text


def test_the_code_of_a_verdict_is_explained():
    assert figure_formulas.metric_formula("verdict_code") is not None
    assert "verdict_code" in column_descriptions.MEANT
