"""Metrics of an `rbm` artifact against the functions they are made of and against counting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.algorithm import RunProgress
from herdcli.errors import BadUsage, DataError
from herdcli.evaluation.baselines import energy_classification
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures import rbm
from herdcli.evaluation.metrics import quick_metrics
from herdcli.evaluation.verdicts import verdict_text
from herdcli.numerics.scores import Scores
from herdcli.rbm.likelihood import enumeration, row_likelihood
from herdcli.rbm.likelihood.log_z_estimates import LogZEstimate
from herdcli.rbm.model import RBM, StoredHeldoutRows

SMALL = EvaluationSettings(chains=50, temperatures=200)


def artifact(count: int = 1, *, hidden: int = 4, labels: bool = True, scores: Scores | None = None) -> RBM:
    random = np.random.default_rng(0)
    D, n = 6, 40
    rows = StoredHeldoutRows(
        random.integers(0, 2, (n, D)).astype(np.uint8),
        np.tile([1, 2], n // 2).astype(np.uint8),
        random.integers(0, count, n) if labels else None,
    )
    return RBM(
        W=random.normal(size=(count, D, hidden)).astype(np.float32),
        b=random.normal(size=(count, D)).astype(np.float32),
        c=random.normal(size=(count, hidden)).astype(np.float32),
        visible_units="binary",
        hidden_units="binary",
        algorithm="cd",
        steps=1,
        epochs=1,
        batch_size=1,
        learning_rate=0.1,
        momentum=0.0,
        weight_decay=0.0,
        chains=0,
        seed=0,
        holdout=rows,
        scores=scores,
    )


def class_scores(rows: int = 240, count: int = 3, *, crossed: bool = False) -> Scores:
    """Energies that are lowest for the right class, up to noise and one constant per model."""
    random = np.random.default_rng(1)
    y = np.arange(rows) % count
    energy = random.normal(size=(rows, count)) * 2.0 - 5.0 * np.eye(count)[y] + np.array([100.0, -40.0, 7.0])
    split = np.repeat([0, 1, 2] if crossed else [1, 1, 2], rows // 3).astype(np.uint8)
    return Scores(energy, y, split, random.integers(0, count, rows), 1)


def test_one_model_is_evaluated_on_its_test_rows():
    value = artifact()
    found = rbm.metrics(value, SMALL)
    assert tuple(found) == rbm.COLUMNS
    h, v = value.harmonium(), value.holdout.X[value.holdout.split == 2]
    log_z = enumeration.exact_log_partition(h)
    assert found["log_likelihood"] == pytest.approx((-h.free_energy(v) - log_z).mean())
    assert found["log_likelihood_se"] == 0.0
    assert found["pseudo_likelihood"] == pytest.approx(row_likelihood.log_pseudo_likelihood(h, v).mean())
    assert found["reconstruction"] == pytest.approx(row_likelihood.reconstruction_error(h, v).mean())
    assert found["error"] is found["error_1nn"] is found["error_majority"] is None


def test_each_row_counts_under_the_model_of_its_class():
    value = artifact(3)
    found = rbm.metrics(value, SMALL)
    test = value.holdout.split == 2
    expected = []
    for row, label in zip(value.holdout.X[test], value.holdout.y[test], strict=True):
        h = value.harmonium(label)
        expected.append(-h.free_energy(row[None])[0] - enumeration.exact_log_partition(h))
    assert found["log_likelihood"] == pytest.approx(np.mean(expected))


def test_annealed_likelihood_is_near_the_exact_one_and_says_its_error():
    value = artifact(3)
    exact = rbm.metrics(value, replace(SMALL, likelihood="exact"))
    annealed = rbm.metrics(value, replace(SMALL, likelihood="ais"))
    assert 0 < annealed["log_likelihood_se"] < 0.1
    assert annealed["log_likelihood"] != exact["log_likelihood"]
    assert annealed["log_likelihood"] == pytest.approx(exact["log_likelihood"], abs=4 * annealed["log_likelihood_se"])
    assert annealed["pseudo_likelihood"] == exact["pseudo_likelihood"]


def test_standard_error_combines_models_by_their_rows(monkeypatch):
    value = artifact(2)
    monkeypatch.setattr(rbm, "log_partitions", lambda *_: {"": {0: LogZEstimate(0.0, 3.0), 1: LogZEstimate(0.0, 4.0)}})
    counts = np.bincount(value.holdout.y[value.holdout.split == 2])
    expected = np.hypot(3.0 * counts[0], 4.0 * counts[1]) / counts.sum()
    assert rbm.metrics(value, SMALL)["log_likelihood_se"] == pytest.approx(expected)


def test_annealing_starts_at_the_rows_that_are_judged_where_nothing_else_is_known(monkeypatch):
    value, seen = artifact(), {}
    rows = np.array([[1, 0, 0, 0, 0, 0]] * 6, dtype=np.uint8)
    value = replace(value, base_rates=None, holdout=StoredHeldoutRows(rows, np.full(6, 2)))

    def caught(models, bases, *_):
        seen.update(bases)
        return {"": {0: LogZEstimate(0.0, 0.0)}}

    monkeypatch.setattr(rbm, "log_partitions", caught)
    rbm.metrics(value, SMALL)
    np.testing.assert_allclose(seen[0], np.log([7] + [1 / 7] * 5))


def test_large_models_are_annealed_with_progress_or_refused():
    value = artifact(hidden=26)
    value = replace(value, W=np.zeros((1, 26, 26), np.float32), b=np.zeros((1, 26), np.float32))
    value = replace(value, holdout=StoredHeldoutRows(np.zeros((4, 26), np.uint8), np.array([1, 1, 2, 2])))
    calls = []
    found = rbm.metrics(value, SMALL, progress=calls.append)
    assert RunProgress(20, 20, "β 1.00") in calls  # 200 temperatures, the most allowed
    assert calls[-1] == RunProgress(20, 20, "β 0.00")  # and back from the data
    assert found["log_likelihood"] == pytest.approx(-26 * np.log(2), abs=4 * found["log_likelihood_se"] + 1e-6)
    with pytest.raises(BadUsage, match="at most 25 units"):
        rbm.metrics(value, replace(SMALL, likelihood="exact"))


def test_independent_columns_are_the_baseline():
    value = artifact()
    test, valid = (value.holdout.X[value.holdout.split == part].astype(float) for part in (2, 1))
    p = (valid.sum(axis=0) + 1) / (len(valid) + 2)  # nothing is known of the training rows
    expected = (test * np.log(p) + (1 - test) * np.log(1 - p)).sum(axis=1).mean()
    assert rbm.metrics(value, SMALL)["independent"] == pytest.approx(expected)
    known = replace(value, base_rates=np.zeros((1, 6)))
    found = rbm.metrics(known, SMALL)
    assert found["independent"] == pytest.approx(-6 * np.log(2))
    assert found["log_likelihood"] < found["independent"]  # the weights are noise
    assert (verdict_text("rbm", found, known), found["log_z_method"]) == ("worse than independent", "exact")
    assert found["effective_chains"] is found["temperatures"] is None
    short = quick_metrics.quick_rbm_metrics(known)
    assert (short["log_likelihood"], short["independent"]) == pytest.approx((found["log_likelihood"], found["independent"]))
    good = replace(known, W=np.zeros_like(value.W), b=np.zeros_like(value.b))
    assert verdict_text("rbm", rbm.metrics(good, SMALL), good) == "learned nothing; dead units"  # it is the baseline itself


@pytest.mark.parametrize("count", [1, 2])
def test_the_error_of_what_is_gained_is_that_of_rows_one_by_one(count):
    value = replace(artifact(count), base_rates=np.zeros((count, 6)))
    found, held = rbm.metrics(value, SMALL), value.holdout
    gains = []
    for m in range(count):
        rows, h = held.X[(held.split == 2) & (held.y == m)].astype(float), value.harmonium(m)
        gains.append(row_likelihood.row_log_likelihood(h, rows, enumeration.exact_log_partition(h)) + 6 * np.log(2))
    each = np.concatenate(gains)
    assert found["log_likelihood"] - found["independent"] == pytest.approx(each.mean())
    assert found["gain_se"] == pytest.approx(each.std(ddof=1) / np.sqrt(len(each)))
    assert quick_metrics.quick_rbm_metrics(value)["gain_se"] == pytest.approx(found["gain_se"])


def test_words_that_are_explained_a_little_better_for_sure_are_no_failure():
    """Two topics that differ in few words: the gain is below a hundredth of a row's nats, and many times its error."""
    random, D, n = np.random.default_rng(3), 400, 600
    topic = random.integers(0, 2, n)
    W, b = np.zeros((D, 1)), np.zeros(D)
    W[:8] = 2.0
    p = np.exp(b + topic[:, None] * W[:, 0])
    X = np.array([random.multinomial(100, row / row.sum()) for row in p]).astype(np.uint16)
    c = np.array([-100 * np.log(np.exp(W[:, 0]).mean())])  # half of the rows of 100 words are of either topic
    known = np.log((X.sum(axis=0) + 1.0) / (X.sum() + D))
    value = replace(
        artifact(),
        W=W[None],
        b=b[None],
        c=c[None],
        visible_units="words",
        holdout=StoredHeldoutRows(X, np.full(n, 2, dtype=np.uint8)),
        base_rates=known[None],
    )
    found = rbm.metrics(value, SMALL)
    gain = found["log_likelihood"] - found["independent"]
    assert 5 * found["gain_se"] < gain < 0.01 * -found["independent"]
    assert verdict_text("rbm", found, value) == "ok"
    alone = replace(value, W=np.zeros_like(value.W), b=known[None] + 0.0)
    assert verdict_text("rbm", rbm.metrics(alone, SMALL), alone) == "learned nothing; dead units"
    worse = replace(value, W=-value.W, c=-value.c)
    assert verdict_text("rbm", rbm.metrics(worse, SMALL), worse) == "worse than independent"


def test_what_is_not_reliable_is_called_so(monkeypatch):
    estimate = LogZEstimate(0.0, 0.5, effective=3.0, temperatures=800, reliable=False)
    monkeypatch.setattr(rbm, "log_partitions", lambda *_: {"": {0: estimate}})
    found = rbm.metrics(artifact(), SMALL)
    assert (found["log_z_method"], verdict_text("rbm", found, artifact()), found["effective_chains"], found["temperatures"]) == (
        "not reliable",
        "not reliable",
        3.0,
        800,
    )
    assert found["log_likelihood_high"] - found["log_likelihood_low"] == pytest.approx(2 * 2.3646 * 0.5)


def test_missing_rows_give_missing_figures():
    assert set(rbm.metrics(replace(artifact(), holdout=None), SMALL).values()) == {None}
    value = artifact()
    only_valid = StoredHeldoutRows(value.holdout.X, np.ones(40, np.uint8), value.holdout.y)
    assert rbm.metrics(replace(value, holdout=only_valid), SMALL)["log_likelihood"] is None
    with pytest.raises(DataError, match="needs the labels of its held-out rows"):
        rbm.metrics(artifact(2, labels=False), SMALL)


@pytest.mark.parametrize("crossed", [False, True])
def test_classification_counts_mistakes_on_test_rows_alone(crossed):
    scores = class_scores(crossed=crossed)
    found = rbm.metrics(artifact(3, scores=scores), SMALL)
    test = scores.split == 2
    predicted = energy_classification.class_probabilities(scores, scores.energy[test], SMALL).argmax(axis=1)
    assert found["error"] == np.mean(predicted != scores.y[test])
    assert found["error"] < 0.15
    assert np.mean(scores.energy[test].argmin(axis=1) != scores.y[test]) > 0.5  # what calibration is for
    assert found["error_1nn"] == np.mean(scores.nearest[test] != scores.y[test])
    assert found["error_majority"] == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.parametrize("calibrate", ["auto", "valid", "cross-fit"])
def test_test_rows_are_never_fitted(calibrate):
    scores = class_scores(crossed=True)
    shuffled = scores.y.copy()
    test = scores.split == 2
    shuffled[test] = np.roll(shuffled[test], 1)
    settings = replace(SMALL, calibrate=calibrate)
    energy = np.random.default_rng(0).normal(size=(5, 3))
    spoiled = replace(scores, y=shuffled, energy=np.where(test[:, None], 1e6, scores.energy))
    np.testing.assert_array_equal(
        energy_classification.class_probabilities(scores, energy, settings),
        energy_classification.class_probabilities(spoiled, energy, settings),
    )


def test_calibration_chooses_its_rows():
    scores = class_scores(crossed=True)
    sizes = {
        name: len(energy_classification.calibrate_energies(scores, replace(SMALL, calibrate=name)).reference)
        for name in ("auto", "valid", "cross-fit")
    }
    assert sizes == {"auto": 160, "valid": 80, "cross-fit": 160}
    assert len(energy_classification.calibrate_energies(class_scores(), SMALL).reference) == 160
    assert energy_classification.calibrate_energies(scores, replace(SMALL, mlr_penalty=0.0)).fit.penalty == 0.0


def test_calibration_without_rows_says_what_to_do():
    with pytest.raises(BadUsage, match="--calibrate cross-fit needs energies of training rows") as caught:
        energy_classification.calibrate_energies(class_scores(), replace(SMALL, calibrate="cross-fit"))
    assert "--folds" in caught.value.hint
    scores = class_scores()
    with pytest.raises(BadUsage, match="needs validation rows, but there are none"):
        energy_classification.calibrate_energies(replace(scores, split=np.full_like(scores.split, 2)), SMALL)


def test_probabilities_sum_to_one():
    scores = class_scores()
    np.testing.assert_allclose(energy_classification.class_probabilities(scores, scores.energy, SMALL).sum(axis=1), 1)
