"""Figures as a person reads them, and as a program does."""

from __future__ import annotations

import json

import pytest

from herdcli.cli.eval.explain import metric_explanation_text
from herdcli.cli.eval.terminal_table import terminal_text
from herdcli.errors import BadUsage
from herdcli.evaluation.table import value_with_error

RBM = {
    "file": "m.h5", "kind": "rbm", "log_likelihood": -17.1234567, "log_likelihood_se": 0.2612, "log_likelihood_low": -17.6,
    "log_likelihood_high": -16.61,
    "log_z_method": "annealed", "effective_chains": 84.54, "independent": -25.24124, "gain_se": 0.156, "gaussian": None,
    "pseudo_likelihood": -20.847078, "error": None, "verdict": "ok",
}  # fmt: skip
CLASSIFIER = {
    "file": "c.h5", "kind": "classifier", "rows": 357, "judged_on": "test", "error": 0.0448179, "error_majority": 0.899159,
    "error_centroid": 0.095238,
    "auc": 0.997986, "verdict": "worse than majority; one class",
}  # fmt: skip
MIXTURE = {
    "file": "x.h5", "kind": "mixture", "components": 3, "log_likelihood": -4.170023, "log_likelihood_baseline": -4.483467,
    "log_likelihood_gaussian": -4.483467, "log_likelihood_independent": -5.084227, "gain": 0.313443, "gain_se": 0.185012, "bic": 699.12638,
    "verdict": "learned nothing",
}  # fmt: skip
BELIEFS = {
    "file": "b.h5", "kind": "beliefs", "variables": 25, "log_z": 23.394154408, "log_z_mean_field": 21.3263, "log_z_lower": 23.0,
    "log_z_upper": 24.5,
    "converged": 1, "residual": 0.0, "verdict": "ok",
}  # fmt: skip


def test_an_rbm_is_shown_upright():
    assert terminal_text([RBM], 90) == (
        "m.h5: rbm\n"
        "\n"
        "verdict  ok\n"
        "\n"
        "likelihood\n"
        "  log-likelihood     -17.12 ± 0.26  (95 % -17.6 to -16.61; independent columns -25.241,\n"
        "                                     gain 8.12 ± 0.16)\n"
        "  pseudo-likelihood  -20.847\n"
        "\n"
        "log Z\n"
        "  log Z method       annealed\n"
        "  effective chains   84.54\n"
    )


def test_a_classifier_is_shown_with_advice_and_simple_classifiers():
    assert terminal_text([CLASSIFIER], 90).splitlines()[:8] == [
        "c.h5: classifier",
        "",
        "verdict  worse than majority; one class",
        "         check that the labels belong to the rows, or use another --learning-rate, --C or",
        "         --epochs; scale the columns, shuffle the rows, or change --C",
        "",
        "prediction",
        "  error      0.044818  (majority 0.89916; nearest centroid 0.095238)",
    ]


def test_the_baseline_of_a_mixture_is_named_once():
    lines = terminal_text([MIXTURE], 120).splitlines()
    assert lines[6] == "  log-likelihood  -4.17  (one Gaussian -4.4835, gain 0.31 ± 0.19; independent columns -5.0842)"
    assert "gain" not in "".join(lines[7:])


def test_bounds_stand_beside_log_z():
    assert "  log Z      23.394  (bounds 23 to 24.5; mean field 21.326)\n" in terminal_text([BELIEFS], 90)


def test_convergence_is_yes_or_no():
    assert "\n  converged  yes\n" in terminal_text([BELIEFS], 90)
    rows = [BELIEFS | {"file": "a.h5", "converged": 0}, BELIEFS, BELIEFS | {"converged": None}]
    shown = [line.split() for line in terminal_text(rows, 200).splitlines()[1:]]
    assert [line[shown[0].index("converged")] for line in shown[1:]] == ["no", "yes", "–"]


def test_artifacts_of_one_kind_are_a_table_folded_to_the_width():
    other = RBM | {"file": "n.h5", "log_likelihood": -19.5, "verdict": "dead units"}
    assert terminal_text([RBM, other], 60) == (
        "rbm\n"
        "file  verdict     log_likelihood  log_likelihood_se\n"
        "m.h5  ok                  -17.12             0.2612\n"
        "n.h5  dead units           -19.5             0.2612\n"
        "\n"
        "file  independent  log_likelihood_low  log_likelihood_high\n"
        "m.h5       -25.24               -17.6               -16.61\n"
        "n.h5       -25.24               -17.6               -16.61\n"
        "\n"
        "file  gain_se  pseudo_likelihood  log_z_method\n"
        "m.h5    0.156             -20.85  annealed\n"
        "n.h5    0.156             -20.85  annealed\n"
        "\n"
        "file  effective_chains\n"
        "m.h5             84.54\n"
        "n.h5             84.54\n"
    )


def test_kinds_are_shown_one_after_the_other():
    text = terminal_text([RBM, BELIEFS], 100)
    assert text == terminal_text([RBM], 100) + "\n" + terminal_text([BELIEFS], 100)


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (-17.1234, 0.2612, "-17.12 ± 0.26"),
        (-173.431, 50.21, "-173 ± 50"),
        (-18.2751199, 0.00070087, "-18.275 ± 0.0007"),
        (1234.5, 321.0, "1234 ± 321"),
        (-7.0, 0.0, "-7"),
        (-20.8470784, None, "-20.847"),
        ("annealed", None, "annealed"),
        (None, 0.1, ""),
    ],
)
def test_a_figure_has_the_digits_of_its_error(value, error, shown):
    assert value_with_error(value, error) == shown


def test_explain_says_what_a_figure_is(herd):
    ended = herd("eval", "--explain", "log-likelihood-bound")
    assert (ended.code, ended.out.decode()) == (
        0,
        "log_likelihood_bound\n"
        "  lower bound of the mean log-likelihood of a test row\n"
        "  formula    (1/n) Σ E_q log p(x, h) + H(q), q the recognition weights\n"
        "  source     Hinton, Osindero & Teh (2006), A Fast Learning Algorithm for Deep Belief Nets\n"
        "  baselines  independent, log_likelihood_first\n"
        "  error      log_likelihood_bound_se\n",
    )
    assert metric_explanation_text("log Z").startswith("log_z\n")


def test_explain_names_the_nearest_figures():
    with pytest.raises(BadUsage, match="--explain: there is no metric 'eror'") as caught:
        metric_explanation_text("eror")
    assert str(caught.value.hint).startswith("did you mean error")
    with pytest.raises(BadUsage, match=r"there is no metric 'q{9}'") as caught:
        metric_explanation_text("q" * 9)
    assert caught.value.hint == "metrics are the columns of herd eval --format csv"


@pytest.fixture
def two_kinds(herd):
    assert herd("network", "grid", "--grid-rows", "2", "--grid-columns", "2", "-o", "n.h5").code == 0
    assert herd("ups-infer", "n.h5", "-o", "b.h5", "--algorithm", "junction-tree").code == 0


def test_a_pipe_gets_one_kind_without_empty_columns_and_several_in_long_form(herd, two_kinds):
    head, row = (line.split("\t") for line in herd("eval", "n.h5").out.decode().splitlines())
    assert head == ["file", "kind", "variables", "factors", "log_z", "log_z_mean_field", "verdict"]
    assert "" not in row
    lines = [line.split("\t") for line in herd("eval", "n.h5", "b.h5").out.decode().splitlines()]
    assert lines[0] == ["file", "kind", "figure", "value"]
    assert lines[1] == ["n.h5", "network", "variables", "4"]
    assert lines[-1] == ["b.h5", "beliefs", "verdict", "ok"]
    assert {len(line) for line in lines} == {4}
    assert herd("eval", "n.h5", "b.h5", "--format", "csv").out.decode().splitlines()[1] == "n.h5,network,variables,4"


def test_json_has_the_columns_of_each_kind_alone(herd, two_kinds):
    network, beliefs = json.loads(herd("eval", "n.h5", "b.h5", "--format", "json").out)
    assert "factors" in network
    assert "factors" not in beliefs
    assert beliefs["log_z_error"] is None


def test_markdown_has_a_table_for_each_kind(herd, two_kinds):
    text = herd("eval", "n.h5", "b.h5", "--format", "markdown").out.decode()
    assert [part.count("\n") for part in text.split("\n\n")] == [2, 3]
