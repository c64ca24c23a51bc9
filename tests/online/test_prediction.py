"""Confidences, their scale, and merging."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.online.example_blocks import block_from_rows
from herdcli.online.learners import state_conversion
from herdcli.online.learners.full_covariance import widen_covariances
from herdcli.online.learners.model_merging import merge_models
from herdcli.online.model import Classifier, HeldoutScores, KernelMachine, Progress, RunningTotals, Settings
from herdcli.online.normal_distribution import log_normal_cdf, normal_cdf, normal_quantile
from herdcli.online.predictions.prediction import (
    _golden_section,
    calibrate_confidence,
    class_probabilities,
    fit_confidence_link,
    fit_confidence_scale,
    make_scorer,
    predict_classes,
    standard_margins,
)
from herdcli.online.predictions.score_calibration import calibrate_on_all


def model(mean: np.ndarray, variance: np.ndarray | None = None, covariance: np.ndarray | None = None, **more) -> Classifier:
    """A classifier of given weights."""
    empty = Progress(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
    classes = ["0", "1"] if len(mean) == 1 else [str(z) for z in range(len(mean))]
    values = {"settings": Settings(), "running": RunningTotals(examples=5, squares=2.0)} | more
    return Classifier(classes, progress=empty, mean=mean, variance=variance, covariance=covariance, **values)


def test_normal_distribution_agrees_with_scipy():
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-40, 8, 500), [-1e3, -1e6]])
    assert np.allclose(normal_cdf(x), special.ndtr(x), rtol=1e-12, atol=1e-300)
    assert np.allclose(log_normal_cdf(x), special.log_ndtr(x), rtol=1e-9, atol=1e-15)
    assert np.allclose(log_normal_cdf(x[x < -30]), special.log_ndtr(x[x < -30]), rtol=1e-9)  # where all are far
    assert normal_quantile(0.9) == pytest.approx(special.ndtri(0.9), rel=1e-14)


def test_a_scale_is_recovered_from_labels_it_made():
    random = np.random.default_rng(0)
    score, variance = random.standard_normal((20_000, 1)) * 2, random.uniform(0, 2, (20_000, 1))
    p = class_probabilities(score, variance, 1.7)[:, 1]
    y = (random.random(len(p)) < p).astype(np.int64)
    assert fit_confidence_scale(score, variance, y) == pytest.approx(1.7, rel=0.05)


def test_the_scale_is_the_root_of_the_smoothed_likelihood_s_slope():
    """Of n examples each counts (1 − s) for its class and s/2 for either, s = 1/(n + 2)."""
    score, y = np.array([[1.0], [2.0], [-0.5], [0.7], [-1.5]]), np.array([1, 1, 1, 0, 0])
    variance = np.array([[0.5], [2.0], [0.1], [0.3], [1.0]])
    margin, s = score[:, 0] / np.sqrt(1 + variance[:, 0]), 1 / 7

    def likelihood(g):
        up = np.log(normal_cdf(g * margin))
        down = np.log(normal_cdf(-g * margin))
        return ((1 - s) * np.where(y == 1, up, down) + s * (up + down) / 2).sum()

    g = fit_confidence_scale(score, variance, y)
    assert (likelihood(g * 1.001) - likelihood(g * 0.999)) / (0.002 * g) == pytest.approx(0, abs=1e-4)
    assert likelihood(g) > max(likelihood(0.9 * g), likelihood(1.1 * g))
    base = model(np.zeros((1, 2)), np.ones((1, 2)), holdout=HeldoutScores(score, variance, y, np.array([1, 2, 2, 1, 2], dtype=np.uint8)))
    whole = calibrate_on_all(base)
    assert (whole.scale, whole.holdout.split.tolist()) == (pytest.approx(g), [1] * 5)
    assert calibrate_confidence(replace(base, holdout=None)).scale == 1.0
    nobody = replace(base.holdout, split=np.full(5, 2, dtype=np.uint8))
    assert calibrate_confidence(replace(base, holdout=nobody)).scale == 1.0
    assert fit_confidence_scale(np.zeros((3, 1)), np.ones((3, 1)), np.array([0, 1, 1])) > 0


@pytest.mark.parametrize("at", [0.0, -3.7, 4.9])
def test_golden_section_finds_the_one_valley(at):
    assert _golden_section(lambda x: (x - at) ** 2, -5.0, 5.0) == pytest.approx(at, abs=2e-6)
    seen = []
    _golden_section(lambda x: seen.append(x) or abs(x), 0.0, 1.0, tolerance=0.3)
    assert seen[:3] == pytest.approx([0.381966, 0.618034, 0.236068], abs=1e-6)
    assert len(seen) == 5  # 0.618^k ≤ 0.3 at k = 3


def test_the_scale_stays_finite_when_nothing_is_wrong():
    score = np.array([[3.0], [-2.0], [1.5]])
    assert 0 < fit_confidence_scale(score, np.ones_like(score), np.array([1, 0, 1])) < 100


def test_probabilities_sum_to_one_and_follow_the_scores():
    random = np.random.default_rng(1)
    for classes in (1, 5):
        score, variance = random.standard_normal((50, classes)), random.uniform(0.1, 1, (50, classes))
        p = class_probabilities(score, variance, 1.3)
        assert np.allclose(p.sum(axis=1), 1.0)
        assert np.array_equal(p.argmax(axis=1), predict_classes(score))
    margin = standard_margins(np.array([[1.0, 3.0, 0.0]]), np.zeros((1, 3)))
    assert margin.tolist() == [[-2.0, 2.0, -3.0]]


@pytest.mark.parametrize("link", ["normal", "logistic"])
@pytest.mark.parametrize("classes", [2, 5])
def test_the_link_that_made_the_labels_is_found_with_its_scale(link, classes):
    random = np.random.default_rng(8)
    score = 3 * random.standard_normal((40_000, 1 if classes == 2 else classes))
    variance = random.random(score.shape)
    p = class_probabilities(score, variance, 0.8, link)
    assert np.allclose(p.sum(axis=1), 1)
    y = (random.random((len(p), 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    scale, found = fit_confidence_link(score, variance, y)
    assert found == link
    assert scale == pytest.approx(0.8, rel=0.03)


def test_a_softmax_whose_temperature_differs_from_row_to_row_is_found():
    random = np.random.default_rng(0)
    score, variance = 3.0 * random.standard_normal((20_000, 5)), random.exponential(4.0, (20_000, 5))
    logits = 1.3 * score / np.sqrt(1.0 + variance.mean(axis=1))[:, None]
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (random.random(20_000)[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
    scale, link = fit_confidence_link(score, variance, y)
    assert link == "softmax"
    assert scale == pytest.approx(1.3, rel=0.03)
    assert class_probabilities(score, variance, 1.3, link) == pytest.approx(p)
    assert fit_confidence_link(score[:, :1], variance[:, :1], (y > 2).astype(int))[1] != "softmax"


def test_calibration_uses_its_own_rows_alone():
    score = np.concatenate([np.linspace(-2, 2, 40), [9.0] * 5])[:, None]
    y, split = (score[:, 0] > 0.3).astype(np.int64), np.repeat([1, 2], [40, 5]).astype(np.uint8)
    base = model(np.zeros((1, 2)), np.ones((1, 2)), holdout=HeldoutScores(score, np.ones_like(score), y, split))
    other = replace(base, holdout=HeldoutScores(score, np.ones_like(score), np.where(split == 2, 0, y), split))
    assert calibrate_confidence(base).scale == calibrate_confidence(other).scale != 1.0


def shards(full: bool) -> list[Classifier]:
    random = np.random.default_rng(2)
    made = []
    for _ in range(3):
        factor = random.standard_normal((4, 6))
        sigma = np.linalg.inv(np.eye(4) + (factor @ factor.T if full else np.diag((factor**2).sum(axis=1))))
        mean = random.standard_normal((1, 4))
        made.append(model(mean, None, sigma[None]) if full else model(mean, np.diag(sigma)[None].copy()))
    return made


def precision(shard: Classifier) -> np.ndarray:
    return np.linalg.inv(shard.covariance[0] if shard.covariance is not None else np.diag(shard.variance[0]))


@pytest.mark.parametrize("full", [True, False])
def test_merging_by_precision_is_the_product_of_posteriors_over_the_prior(full):
    parts = shards(full)
    made = merge_models(parts, "precision")
    total = np.eye(4) + sum(precision(part) - np.eye(4) for part in parts)
    pulled = sum(precision(part) @ part.mean[0] for part in parts)
    assert np.allclose(precision(made), total)
    assert np.allclose(made.mean[0], np.linalg.solve(total, pulled))
    assert made.running.examples == 15


@pytest.mark.parametrize("full", [True, False])
def test_merging_by_evidence_keeps_a_mean_that_all_share(full):
    parts = [replace(part, mean=np.array([[1.0, -2.0, 0.5, 3.0]])) for part in shards(full)]
    assert np.allclose(merge_models(parts, "evidence").mean, parts[0].mean)
    assert np.allclose(merge_models(parts, "mean").mean, parts[0].mean)
    assert np.abs(merge_models(parts, "precision").mean).max() > 3.0


def test_a_model_that_learned_nothing_changes_no_merge():
    parts = shards(False)
    idle = model(np.zeros((1, 4)), np.ones((1, 4)))
    for rule in ("precision", "evidence"):
        assert np.allclose(merge_models([parts[0], idle], rule).mean, parts[0].mean)
        assert np.allclose(merge_models([parts[0], idle], rule).variance, parts[0].variance)


def test_streams_of_different_width_are_merged():
    narrow, wide = (
        model(np.ones((1, 2)), np.full((1, 2), 0.5), text="svmlight"),
        model(np.ones((1, 5)), np.full((1, 5), 0.5), text="svmlight"),
    )
    made = merge_models([narrow, wide], "precision")
    assert made.columns == 5
    assert np.allclose(made.variance[0], [1 / 3, 1 / 3, 0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "b"]}, "model 2 has classes a, b, but model 1 has 0, 1"),
        ({"bits": 18}, r"model 2 hashes into 2\^18 columns, but model 1 into 2\^0"),
        ({"settings": Settings(bias=True)}, "model 2 differs from model 1 in --bias"),
        ({"mean": np.zeros((1, 3)), "variance": np.ones((1, 3))}, "model 2 has 3 features, but model 1 has 4"),
        ({"zero_based": True}, "model 2 counts features from 0, but model 1 from 1"),
        ({"settings": Settings(normalize=True)}, "model 2 differs from model 1 in --normalize"),
        ({"settings": Settings(scaling="online")}, "model 2 differs from model 1 in --scale"),
        ({"text": "vw"}, r"model 2 hashes into 2\^0 columns, but model 1 into 2\^0"),
    ],
)
def test_models_that_do_not_match_are_refused(change, message):
    parts = shards(False)
    with pytest.raises(DataError, match=message):
        merge_models([parts[0], replace(parts[1], **change)], "precision")


def test_models_of_other_columns_are_refused_where_both_have_names():
    parts = [replace(part, feature_names=names) for part, names in zip(shards(False), (list("abcd"), list("abdx"), None), strict=True)]
    with pytest.raises(DataError, match="model 2 has different column names from model 1"):
        merge_models(parts[:2], "mean")
    assert merge_models([parts[0], parts[2]], "mean").columns == 4


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("rule", ["precision", "mean"])
def test_models_with_their_columns_in_another_order_are_merged_by_name(full, rule):
    """The merged model is that of the same columns in one order, to the bit, and every array over features is put into order."""
    order = [2, 0, 3, 1]
    first, second, _ = (replace(part, feature_names=list("abcd")) for part in shards(full))
    axes = {"mean": 1, "variance": 1, "covariance": None, "seen": 0, "size": 0}
    moved = {"feature_names": [second.feature_names[place] for place in order]}
    for name, axis in axes.items():
        values = getattr(second, name)
        if values is not None:
            moved[name] = values[:, order][:, :, order] if axis is None else np.take(values, order, axis=axis)
    expected, found = merge_models([first, second], rule), merge_models([first, replace(second, **moved)], rule)
    for name in axes:
        assert (getattr(found, name) is None) == (getattr(expected, name) is None)
        if getattr(found, name) is not None:
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.feature_names == list("abcd")


@pytest.mark.parametrize("groups", [1, 2])
def test_full_covariances_of_streams_of_different_width_are_merged(groups):
    """Evidence of two shards, one of which never met the third feature: precisions add up over the prior's, blocks of zeros between."""
    random = np.random.default_rng(4)
    parts, precisions, means = [], [], []
    for width in (2, 3):
        factor = random.standard_normal((groups * width, 9))
        own = np.eye(groups * width) + factor @ factor.T
        mean = random.standard_normal((groups, width))
        parts.append(model(mean, None, np.linalg.inv(own)[None], text="svmlight"))
        at = [g * 3 + k for g in range(groups) for k in range(width)]
        wide = np.eye(groups * 3)
        wide[np.ix_(at, at)] = own
        precisions.append(wide)
        means.append(np.pad(mean, ((0, 0), (0, 3 - width))).ravel())
    total = sum(P - np.eye(groups * 3) for P in precisions)
    for rule, mean in (
        ("precision", np.linalg.solve(np.eye(groups * 3) + total, sum(P @ m for P, m in zip(precisions, means, strict=True)))),
        ("evidence", np.linalg.solve(total, sum((P - np.eye(groups * 3)) @ m for P, m in zip(precisions, means, strict=True)))),
        ("mean", np.mean(means, axis=0)),
    ):
        found = merge_models(parts, rule)
        np.testing.assert_allclose(found.mean.ravel(), mean, rtol=1e-7)
        expected = np.mean([np.linalg.inv(P) for P in precisions], axis=0) if rule == "mean" else np.linalg.inv(np.eye(groups * 3) + total)
        np.testing.assert_allclose(found.covariance[0], expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("rule", ["precision", "evidence"])
def test_covariances_without_an_inverse_are_not_merged(rule):
    parts = [model(np.ones((1, 2)), None, covariance, text="svmlight") for covariance in (np.eye(2)[None], np.zeros((1, 2, 2)))]
    with pytest.raises(DataError, match="/covariance of a model has no inverse"):
        merge_models(parts, rule)


def test_kernel_models_are_not_merged():
    machine = KernelMachine(np.zeros(1), np.zeros((1, 1)), np.zeros((1, 2)))
    part = replace(shards(False)[0], mean=None, variance=None, machines=[machine])
    with pytest.raises(BadUsage, match="kernel models cannot be merged"):
        merge_models([part, part], "mean")


def test_first_order_models_are_averaged_by_every_rule():
    parts = [model(np.array([[k, 2.0]]), np.ones((1, 2)), settings=Settings(algorithm="pa")) for k in (1.0, 5.0)]
    for rule in ("precision", "evidence", "mean"):
        assert merge_models(parts, rule).mean.tolist() == [[3.0, 2.0]]


@pytest.mark.parametrize("size", [1e-12, 1e-5, 1.0, 1e6])
def test_the_scale_does_not_depend_on_the_size_of_scores(size):
    random = np.random.default_rng(3)
    score = random.standard_normal((500, 1))
    y = (random.random(500) < normal_cdf(2 * score[:, 0])).astype(np.int64)
    found = fit_confidence_scale(size * score, np.zeros((500, 1)), y)
    assert found * size == pytest.approx(fit_confidence_scale(score, np.zeros((500, 1)), y), rel=1e-4)


def test_merging_by_evidence_weighs_means_by_what_little_each_shard_learned():
    """E_k = 1/s_k − 1 below 1 in all: Σ_k E_k μ_k / Σ_k E_k by hand, not the plain mean."""
    parts = [model(np.array([[1.0, 2.0]]), np.array([[0.8, 0.5]])), model(np.array([[4.0, -1.0]]), np.array([[0.9, 0.8]]))]
    by_hand = [(1.0 / 4 + 4.0 / 9) / (1 / 4 + 1 / 9), (2.0 * 1 - 1.0 / 4) / (1 + 1 / 4)]
    assert np.allclose(merge_models(parts, "evidence").mean, [by_hand])


def test_weights_that_no_shard_has_evidence_of_are_averaged():
    means, variance = [np.array([[k, 10.0 * k], [-k, 3.0], [0.0, k]]) for k in (1.0, 5.0)], np.array([[1.0, 0.5], [1.0, 1.0], [0.5, 1.0]])
    found = merge_models([model(mean, variance) for mean in means], "evidence").mean
    np.testing.assert_allclose(found, [[3.0, 30.0], [-3.0, 3.0], [0.0, 3.0]])


def test_margins_are_counted_against_the_best_other_class_with_both_variances():
    score, variance = np.array([[1.0, 4.0, 2.5], [3.0, -1.0, 3.5]]), np.array([[0.5, 2.0, 0.25], [1.5, 1.0, 3.0]])
    expected = np.empty((2, 3))
    for n, k in np.ndindex(2, 3):
        rival = max((other for other in range(3) if other != k), key=lambda other: score[n, other])
        expected[n, k] = (score[n, k] - score[n, rival]) / np.sqrt(1 + variance[n, k] + variance[n, rival])
    np.testing.assert_allclose(standard_margins(score, variance), expected, rtol=1e-14)
    one = standard_margins(np.array([[3.0]]), np.array([[8.0]]))
    np.testing.assert_allclose(one, [[-1.0, 1.0]])


@pytest.mark.parametrize("groups", [1, 3])
def test_covariances_are_widened_by_independent_features_of_variance_one(groups):
    random = np.random.default_rng(0)
    sigma = random.normal(size=(2, groups * 2, groups * 2))
    found = widen_covariances(sigma, 3, 2, 4)
    assert found.shape == (2, groups * 4, groups * 4)
    kept = [group * 4 + k for group in range(groups) for k in (0, 1)]
    new = [k for k in range(groups * 4) if k not in kept]
    np.testing.assert_array_equal(found[:, kept][:, :, kept], sigma)
    np.testing.assert_array_equal(found[:, new][:, :, new], np.tile(np.eye(len(new)), (2, 1, 1)))
    assert not found[:, kept][:, :, new].any()
    assert not found[:, new][:, :, kept].any()


def test_counts_of_merged_streams_add_up_and_their_scales_have_a_geometric_mean():
    first = RunningTotals(examples=5, squares=2.0, seen=6, wrong=3, loss=1.5, updates=4, refused=1, skipped=2)
    other = RunningTotals(examples=7, squares=0.5, seen=9, wrong=1, loss=0.25, updates=2, refused=3, skipped=5)
    parts = [
        model(np.ones((1, 2)), np.full((1, 2), 0.5), running=running, scale=scale, seen=np.array(seen), size=np.array(size))
        for running, scale, seen, size in ((first, 2.0, [1, 2], [0.5, 1.0]), (other, 8.0, [10, 20], [2.0, 4.0]))
    ]
    found = merge_models(parts, "mean")
    assert found.running == RunningTotals(examples=12, squares=2.5, seen=15, wrong=4, loss=1.75, updates=6, refused=4, skipped=7)
    assert found.scale == pytest.approx(4.0)
    assert (found.seen.tolist(), found.size.tolist()) == ([11, 22], [2.5, 5.0])
    assert (len(found.progress.examples), found.race, found.holdout) == (0, None, None)


@pytest.mark.parametrize("bias", [False, True])
def test_scores_of_features_over_their_mean_sizes(bias):
    """x seen/size of what the model met, the bias included, the sign of what it never met, and variance 1 of what it has no weight for."""
    mean, variance = np.array([[0.5, 2.0, -1.0]]), np.array([[0.1, 0.2, 0.3]])
    seen, size = np.array([4.0, 2.0, 0.0]), np.array([8.0, 1.0, 0.0])
    own = model(mean, variance, settings=Settings(scaling="online", bias=bias), seen=seen, size=size)
    row = np.array([[3.0, -5.0, 7.0]])
    if bias:
        values = np.array([[1.0 * 4 / 8, 3.0 * 2 / 1, -1.0, 1.0]])  # the first weight is the bias'
    else:
        values = np.array([[3.0 * 4 / 8, -5.0 * 2 / 1, 1.0]])
    weights, spread = np.array([*mean[0], 0.0]), np.array([*variance[0], 1.0])
    width = values.shape[1]
    score, found = make_scorer(own)(block_from_rows(row, np.zeros(1, dtype=int), slice(0, 1)))
    assert score[0] == pytest.approx(values[0] @ weights[:width])
    assert found[0] == pytest.approx(values[0] ** 2 @ spread[:width])


@pytest.mark.parametrize("groups", [1, 3])
def test_a_covariance_without_bias_gets_an_independent_one_of_variance_1_in_front_of_each_class(groups):
    random = np.random.default_rng(1)
    sigma = random.normal(size=(1, groups * 2, groups * 2))
    wide = state_conversion._with_bias_row(model(np.zeros((groups, 2)), None, sigma, settings=Settings(covariance="full")))
    own = [3 * group + k for group in range(groups) for k in (1, 2)]
    expected = np.eye(groups * 3)[None].copy()
    expected[np.ix_([0], own, own)] = sigma
    np.testing.assert_array_equal(wide, expected)
