"""Verdicts: one for every kind that is judged, right on models that are known to be good and bad."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.evaluation import verdicts
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.table import compute_metric_rows
from herdcli.kinds import KINDS, kinds_with
from herdcli.parts import import_by_path

ARCHIVE = Path(__file__).resolve().parent.parent / "data"
NONE = {"dataset"}  # kinds of rows, which nothing is wrong with
OWN = {"hmm", "lds", "rtrbm"}  # kinds whose figures have the verdict already


@pytest.mark.parametrize("kind", kinds_with("metrics"))
def test_every_kind_with_figures_has_a_baseline_and_a_verdict(kind):
    """In the table of kinds, and in the figures of the archived artifact."""
    page = KINDS[kind]
    assert (page.baseline is None) == (kind in NONE)
    if kind in NONE:
        return
    assert KINDS[kind].findings or kind in OWN, "a new kind needs `findings` on its page"
    value = load(str(ARCHIVE / f"{kind}-{page.version}.h5")).value
    (row,) = compute_metric_rows(kind, value, EvaluationSettings(chains=20))
    assert page.baseline in row
    assert row["verdict"], "a verdict on every model"
    assert {*row["verdict"].split("; ")} <= {*KINDS[kind].verdicts, "ok", "diverged", "no test rows"}


def test_there_are_judges_of_known_kinds_alone():
    assert all(callable(import_by_path(kind.findings)) for kind in KINDS.values() if kind.findings)
    assert set(verdicts.ADVICE) <= set(verdicts.KNOWN)
    assert all(kind.advice.keys() <= {*kind.verdicts, *verdicts.ADVICE} for kind in KINDS.values())


def test_losses_are_held_against_their_baseline():
    assert verdicts.loss_finding(-20.0, -25.0, worse="worse") is None
    assert verdicts.loss_finding(-30.0, -25.0, worse="worse") == "worse"
    assert verdicts.loss_finding(-24.9, -25.0, worse="worse") == "learned nothing"
    assert verdicts.loss_finding(-26.0, -25.0, worse="worse", error=1.0) == "learned nothing", "within two standard errors"
    assert verdicts.loss_finding(None, -25.0, worse="worse") is None


@pytest.mark.parametrize(
    ("own", "error", "spread", "found"),
    [
        (-292.0, 0.0, 0.5, None),  # 2.4 ± 0.5 nats of 294 are a gain, though below a hundredth
        (-292.0, 0.0, 1.5, "learned nothing"),
        (-292.0, 1.5, 0.5, "learned nothing"),
        (-294.2, 0.0, 0.01, "learned nothing"),  # less than a thousandth
        (-296.0, 0.0, 0.5, "worse"),
        (-296.0, 0.0, 5.0, "worse"),  # how rows differ is no excuse
    ],
)
def test_a_gain_over_independent_columns_is_held_against_its_error(own, error, spread, found):
    assert verdicts.loss_finding(own, -294.4, worse="worse", error=error, spread=spread) == found


def test_a_loss_and_a_gain_of_real_columns_are_held_against_the_error_over_rows():
    """The scale of densities is that of their columns' units, so that shares of the baseline mean nothing: tolerances are in nats."""
    assert verdicts.loss_finding(-1.95, -2.0, worse="worse", scale=1.0, spread=0.1) == "learned nothing"  # .05 nats on few rows
    assert verdicts.loss_finding(-1.95, -2.0, worse="worse", scale=1.0, spread=0.01) is None
    assert verdicts.loss_finding(-2.15, -2.0, worse="worse", scale=1.0, spread=0.1) == "learned nothing"
    assert verdicts.loss_finding(-2.35, -2.0, worse="worse", scale=1.0, spread=0.1) == "worse"
    for shift in (-60.0, 0.0, 60.0):
        assert verdicts.loss_finding(-1.95 + shift, -2.0 + shift, worse="worse", scale=1.0, spread=0.01) is None


def test_ranks_of_many_classes_are_better_than_chance_where_errors_are_too_few_to_tell(monkeypatch):
    """Of 38 rows of 8 classes 63 % are wrong, where the commonest class has 71 %, and areas under the curve are about .8."""
    random = np.random.default_rng(2)
    y = np.repeat(np.arange(8), [11, 6, 5, 4, 4, 3, 3, 2])
    p = random.dirichlet(np.full(8, 2.0), size=38)
    p[np.arange(38), y] += 0.14
    p /= p.sum(axis=1, keepdims=True)
    from herdcli.evaluation.figures import classifier as figures

    monkeypatch.setattr(figures, "class_probabilities", lambda *_: p)
    monkeypatch.setattr(figures, "predict_classes", lambda score: score.argmax(axis=1))
    found = figures.EvaluatedExamples(SimpleNamespace(classes=list("abcdefgh"), scale=1.0, link="normal", coverage=None))
    found.add(p, p, y)
    row = found.metric_columns()
    assert 0.55 < row["error"] < row["error_majority"]
    assert 0.7 < row["auc"] < 0.9
    gain, spread = verdicts._error_gain(found.confusion)
    assert gain < 2 * spread, "the errors alone do not tell"
    assert "no better than chance" not in verdicts.classifier_findings(row, found)


def test_every_finding_is_listed_and_the_loss_comes_first():
    row = {"verdict": "variance at floor; worse than baseline"}
    assert verdicts.verdict_text("hmm", row, None) == "variance at floor; worse than baseline", (
        "kinds that judge themselves put them in order"
    )
    assert verdicts.join_findings([]) == "ok"
    assert verdicts.split_findings("ok") == []
    lost = {"log_likelihood": -9.0, "log_likelihood_baseline": -2.0, "log_likelihood_train": -1.0, "gain_se": 0.5, "floors": 3}
    value = SimpleNamespace(known=None, restarts=None, floors_of_a_column=0)
    assert verdicts.verdict_text("mixture", lost, value) == "worse than baseline; overfits; variance at floor"


def test_what_was_learned_is_said_in_nats():
    row = {"log_likelihood": -99.9, "independent": -100.0, "gain_se": 0.25}
    assert verdicts.verdict_sentence("learned nothing", row, "rbm").startswith(
        "verdict: learned nothing: 0.1 ± 0.25 nats per held-out row more than independent columns (use more --epochs"
    )


def test_a_model_overfits_where_other_rows_gain_less_than_a_third():
    assert verdicts.is_overfitted(-22.0, -10.0, -25.0)
    assert not verdicts.is_overfitted(-12.0, -10.0, -25.0)
    assert not verdicts.is_overfitted(None, -10.0, -25.0)


def judged(monkeypatch, p, y):
    """The verdict on a classifier of two classes that says these probabilities."""
    from herdcli.evaluation.figures import classifier as figures

    monkeypatch.setattr(figures, "class_probabilities", lambda *_: p)
    monkeypatch.setattr(figures, "predict_classes", lambda score: score.argmax(axis=1))
    found = figures.EvaluatedExamples(SimpleNamespace(classes=["0", "1"], scale=1.0, link="normal", coverage=None))
    found.add(p, p, y)
    return verdicts.join_findings(verdicts.classifier_findings(found.metric_columns(), found))


def test_classifiers(monkeypatch):
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 400)
    good = np.clip(np.where(y == 1, 0.9, 0.1) + random.normal(scale=0.05, size=400), 0.01, 0.99)
    both = np.column_stack([1 - good, good])
    assert judged(monkeypatch, both, y) == "ok"
    assert judged(monkeypatch, both[:, ::-1], y) == "worse than majority; misleading probabilities"
    assert judged(monkeypatch, both[random.permutation(400)], y) == "no better than chance; misleading probabilities"
    assert judged(monkeypatch, np.tile([0.6, 0.4], (400, 1)), y) == "worse than majority; one class; misleading probabilities"
    sure = np.where(good > 0.5, 1 - 1e-9, 1e-9)
    wrong = np.where(np.arange(400) % 20 == 0, 1 - sure, sure)
    assert judged(monkeypatch, np.column_stack([1 - wrong, wrong]), y) == "misleading probabilities"


@pytest.mark.parametrize("kind", ["hmm", "lds"])
def test_verdicts_on_models_in_time_say_what_helps(kind):
    assert all(verdicts.verdict_sentence(wrong, {}, kind).startswith(f"verdict: {wrong} (") for wrong in KINDS[kind].verdicts)


def test_each_part_of_a_verdict_has_its_advice():
    assert verdicts.verdict_sentence("worse than persistence; unstable", {}, "lds") == (
        "verdict: worse than persistence; unstable (use more --components: columns that no state follows are predicted by their means; "
        "forecasts grow without bound: use fewer --components, more rows, or differences of the rows)"
    )
    repeated = verdicts.finding_advice("worse than random; not converged", "herding")
    assert repeated == "use more --iterations, or --variant safe"
    assert verdicts.finding_advice("overfits; not converged; inconsistent marginals") == (
        "use fewer --components, more rows, more --iterations, or --algorithm ups"
    )
    assert verdicts.finding_advice("worse than baseline; variance at floor; too few rows") == (
        "use fewer --components, more --starts, other columns, or more rows; "
        "a component covers only a few rows: use fewer --components or another --covariance"
    )
    assert verdicts.verdict_sentence("diverged; odd", {}) == "verdict: diverged; odd (use a lower --learning-rate, or scale the columns)"


@pytest.mark.parametrize(
    ("error", "finding"),
    [(0.10, None), (0.62, None), (0.67, "no better than chance"), (0.73, "no better than chance"), (0.78, "worse than majority")],
)
def test_errors_of_models_of_classes_are_held_to_their_standard_error(error, finding):
    """The commonest class is wrong in 70 % of the rows; differences of up to 2 × .03 are chance, in either direction."""
    assert verdicts._majority_finding({"error": error, "error_majority": 0.7, "error_gain_se": 0.03}) == finding
    assert verdicts._majority_finding({"error": error, "error_majority": 0.7}) == ("worse than majority" if error > 0.7 else None)


def test_the_standard_error_of_errors_is_of_the_same_rows():
    from herdcli.evaluation.baselines.energy_classification import classification_errors
    from herdcli.evaluation.evaluation_settings import EvaluationSettings
    from herdcli.numerics.scores import Scores

    random, n = np.random.default_rng(0), 400
    y = random.integers(0, 2, n)
    energy = np.column_stack([y, 1 - y]) * 1.5 + random.normal(size=(n, 2))
    split = np.repeat(np.array([1, 2], dtype=np.uint8), n // 2)
    found = classification_errors(Scores(energy=energy, y=y, split=split, nearest=y, majority=1), EvaluationSettings())
    test, b = split == 2, n // 2
    wrong = found["error"] * b  # rows that the model gets wrong, and of these those of class 1
    assert 0.05 < found["error"] < 0.3
    # gains are 1, 0 and −1: the variance of their mean, over rows that one of both alone gets right
    zero = int((y[test] == 0).sum())
    gain = (zero - wrong) / b
    least, most = (np.sqrt((zero - 2 * wrong) / b - gain**2) if zero > 2 * wrong else 0.0), np.sqrt((zero + wrong) / b - gain**2)
    assert least <= found["error_gain_se"] * np.sqrt(b - 1) <= most


@pytest.mark.parametrize(
    ("error", "spread", "finding"), [(0.10, 0.01, None), (0.13, 0.02, None), (0.15, 0.02, "worse than naive Bayes"), (0.104, 0.0, None)]
)
def test_models_of_classes_are_held_to_independent_columns_for_each(error, spread, finding):
    row = {"error": error, "error_independent": 0.1, "error_independent_gain_se": spread}
    assert verdicts._naive_bayes_finding(row) == finding
    assert verdicts._naive_bayes_finding({"error": error}) is None
