"""Learning from blocks: against the closed forms, resumed, continued, with a full covariance and in a kernel's space."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from herdcli import algorithm, fast
from herdcli.errors import DataError
from herdcli.online import learner
from herdcli.online.block_sources import MemorySource
from herdcli.online.learners import kernel_learner, state_conversion
from herdcli.online.learners.reference_updates import diagonal_update, full_update
from herdcli.online.model import Classifier, Settings
from herdcli.online.predictions.prediction import make_scorer, predict_classes


@pytest.fixture(params=["python", "cython"])
def kernels(request):
    """Both kernels, where the compiled ones are built."""
    before = fast.loops_in_use()
    if request.param == "cython" and before == "python":
        pytest.skip("the compiled loops are not built")
    fast.use_loops(request.param)
    yield request.param
    fast.use_loops(before)


def blobs(classes: int = 2, count: int = 300, width: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes around random centres."""
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, count)
    return random.standard_normal((classes, width))[y] + 0.7 * random.standard_normal((count, width)), y


def task(settings: Settings, X: np.ndarray, y: np.ndarray, model: Classifier | None = None, rows: int = 64) -> learner.OnlineLearner:
    source = MemorySource(X, y, passes=settings.passes, shuffle=settings.shuffle, seed=settings.seed, rows=rows)
    return learner.OnlineLearner(settings, source, int(y.max()) + 1, X.shape[1] + 1, model=model)


def fit(settings: Settings, X: np.ndarray, y: np.ndarray, model: Classifier | None = None, rows: int = 64) -> Classifier:
    return algorithm.run_algorithm(task(settings, X, y, model, rows))


def same(a: Classifier, b: Classifier) -> bool:
    """Are weights, counts and held-out scores of two models the same bits?"""
    pairs = [(getattr(a, name), getattr(b, name)) for name in ("mean", "variance", "covariance")]
    weights = all((p is None and q is None) or np.array_equal(p, q) for p, q in pairs)
    machines = all(np.array_equal(p.alpha, q.alpha) and np.array_equal(p.B, q.B) for p, q in zip(a.machines, b.machines, strict=True))
    figures = np.array_equal(a.progress.error, b.progress.error) and np.array_equal(a.progress.examples, b.progress.examples)
    sizes = [(a.seen, b.seen), (a.size, b.size)]
    scaled = all((p is None and q is None) or np.array_equal(p, q) for p, q in sizes)
    held = np.array_equal(a.holdout.score, b.holdout.score) and np.array_equal(a.holdout.variance, b.holdout.variance)
    return weights and machines and figures and scaled and held and a.running == b.running


@pytest.mark.parametrize("algorithm", ["nherd", "arow", "cw", "scw1", "pa2", "sop"])
@pytest.mark.parametrize("form", ["project", "drop"])
def test_blocks_repeat_the_closed_form(kernels, algorithm, form):
    X, y = blobs()
    settings = Settings(algorithm=algorithm, form=form, C=0.5)
    mu, s = np.zeros(8), np.ones(8)
    for x, label in zip(X, np.where(y > 0, 1.0, -1.0), strict=True):
        mu, s = diagonal_update(mu, s, x, label, settings)
    model = fit(settings, X, y)
    assert np.allclose(model.mean[0], mu, rtol=1e-9, atol=1e-12)
    assert np.allclose(model.variance[0], s, rtol=1e-9)


@pytest.mark.parametrize("algorithm", ["nherd", "arow", "scw2"])
def test_full_covariance_repeats_the_closed_form(algorithm):
    X, y = blobs()
    settings = Settings(algorithm=algorithm, covariance="full", C=0.5)
    mu, sigma = np.zeros(8), np.eye(8)
    for x, label in zip(X, np.where(y > 0, 1.0, -1.0), strict=True):
        mu, sigma = full_update(mu, sigma, x, label, settings)
    model = fit(settings, X, y)
    assert np.allclose(model.mean[0], mu, rtol=1e-8, atol=1e-10)
    assert np.allclose(model.covariance[0], sigma, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("scaling", ["none", "online"])
def test_a_bias_is_a_feature_that_is_always_one(kernels, covariance, scaling):
    """Of examples of length 1 besides; over mean sizes so far a feature that is always 1 stays 1."""
    X, y = blobs()
    seen = np.column_stack([np.ones(len(X)), X / np.linalg.norm(X, axis=1, keepdims=True)])
    if scaling == "online":
        seen *= np.arange(1, len(X) + 1)[:, None] / np.cumsum(np.abs(seen), axis=0)
    settings = Settings(C=0.5, covariance=covariance, bias=True, normalize=True, scaling=scaling)
    update, s = (diagonal_update, np.ones(9)) if covariance == "diagonal" else (full_update, np.eye(9))
    mu = np.zeros(9)
    for x, label in zip(seen, np.where(y > 0, 1.0, -1.0), strict=True):
        mu, s = update(mu, s, x, label, settings)
    for columns in (1, 9):
        model = algorithm.run_algorithm(learner.OnlineLearner(settings, MemorySource(X, y, rows=64), 2, columns))
        assert np.allclose(model.mean[0], mu, rtol=1e-7, atol=1e-10)
        assert np.allclose((model.variance if covariance == "diagonal" else model.covariance)[0], s, rtol=1e-7, atol=1e-10)


def test_auto_C_is_a_quarter_of_the_running_mean_of_squares(kernels):
    X, y = blobs()
    mu, s, total = np.zeros(8), np.ones(8), 0.0
    for n, (x, label) in enumerate(zip(X, np.where(y > 0, 1.0, -1.0), strict=True), start=1):
        total += x @ x
        mu, s = diagonal_update(mu, s, x, label, Settings(C=0.25 * n / total))
    assert np.allclose(fit(Settings(), X, y).mean[0], mu, rtol=1e-9)


def test_top_one_moves_two_classes_by_the_difference_vector(kernels):
    X, y = blobs(classes=4)
    model = fit(Settings(C=0.3), X, y)
    mu, s = np.zeros((4, 8)), np.ones((4, 8))
    for x, label in zip(X, y, strict=True):
        score = mu @ x
        rival = int(np.where(np.arange(4) == label, -np.inf, score).argmax())
        delta, pair = np.concatenate([x, -x]), [label, rival]
        mean, variance = diagonal_update(mu[pair].ravel(), s[pair].ravel(), delta, 1.0, Settings(C=0.3))
        mu[pair], s[pair] = mean.reshape(2, 8), variance.reshape(2, 8)
    assert np.allclose(model.mean, mu, rtol=1e-9, atol=1e-12)
    assert np.allclose(model.variance, s, rtol=1e-9)


def test_full_top_one_keeps_one_covariance_of_all_weights():
    X, y = blobs(classes=3, width=4)
    model = fit(Settings(C=0.3, covariance="full"), X, y)
    mu, sigma, scores, variances = np.zeros(12), np.eye(12), [], []
    for x, label in zip(X, y, strict=True):
        score = mu.reshape(3, 4) @ x
        scores.append(score)
        variances.append([x @ sigma[4 * z : 4 * z + 4, 4 * z : 4 * z + 4] @ x for z in range(3)])
        rival = int(np.where(np.arange(3) == label, -np.inf, score).argmax())
        delta = np.zeros((3, 4))
        delta[label], delta[rival] = x, -x
        mu, sigma = full_update(mu, sigma, delta.ravel(), 1.0, Settings(C=0.3))
    assert np.allclose(model.holdout.score, scores, rtol=1e-7, atol=1e-10)
    assert np.allclose(model.holdout.variance, variances, rtol=1e-7, atol=1e-10)
    assert model.covariance.shape == (1, 12, 12)
    assert np.allclose(model.mean.ravel(), mu, rtol=1e-8, atol=1e-10)
    assert np.allclose(model.covariance[0], sigma, rtol=1e-7, atol=1e-10)


CASES = [
    Settings(passes=2, shuffle=True, label_noise=0.2, bias=True, normalize=True, seed=3),
    Settings(algorithm="arow", covariance="full", passes=2, bias=True),
    Settings(algorithm="scw1", multiclass="one-vs-rest"),
    Settings(kernel="gaussian", covariance="full", multiclass="one-vs-rest", width=2.0, budget=60),
]
WITHOUT_BIAS = [
    Settings(algorithm="arow", covariance="full"),
    Settings(covariance="full", multiclass="one-vs-rest", scaling="online"),
    Settings(scaling="online"),
    Settings(scaling="online", bias=True),
]


@pytest.mark.parametrize("settings", CASES, ids=lambda s: f"{s.algorithm}-{s.covariance}-{s.kernel}")
def test_resumed_equals_uninterrupted(settings, tmp_path):
    from herdcli.artifacts import load_checkpoint, save_checkpoint

    X, y = blobs(classes=3)
    run = task(settings, X, y)
    assert run.progress(run.init()).bound == settings.passes * run.source.blocks_per_pass
    state = run.init()
    for k in range(run.source.steps):
        if k == 3:
            save_checkpoint(str(tmp_path / "c.h5"), state, "digest")
            state = load_checkpoint(str(tmp_path / "c.h5"), run.state, "digest")
            run = task(settings, X, y)
        state = run.step(state)
    assert run.progress(state).figure == f"error {state.tally[1] / state.tally[0]:.4f}"
    assert same(run.result(state), fit(settings, X, y))


@pytest.mark.parametrize("settings", [*(replace(case, passes=1, shuffle=False, label_noise=0.0) for case in CASES), *WITHOUT_BIAS], ids=str)
def test_a_continued_model_is_the_model_of_the_whole_stream(settings):
    X, y = blobs(classes=3)
    first = fit(settings, X[:128], y[:128])
    assert same(fit(settings, X[128:], y[128:], first), fit(settings, X, y))


@pytest.mark.parametrize("bias", [True, False])
def test_sizes_of_features_are_kept_with_support_vectors_of_their_width(bias):
    """All 300 examples were seen with each of the 8 features, whose sums of sizes are those of the rows."""
    X, y = blobs()
    model = fit(Settings(kernel="linear", scaling="online", bias=bias, budget=20), X, y)
    model.validate()
    features = slice(int(bias), int(bias) + 8)
    assert model.seen[features].tolist() == [300.0] * 8
    np.testing.assert_allclose(model.size[features], np.abs(X).sum(axis=0))


def test_kernel_form_of_a_linear_kernel_is_the_primal_full_form():
    X, y = blobs(count=120)
    for name in ("nherd", "arow", "cw"):
        full = fit(Settings(algorithm=name, covariance="full", C=0.4, passes=2), X, y)
        dual = fit(Settings(algorithm=name, kernel="linear", C=0.4, passes=2), X, y)
        block = MemorySource(X, y).block(0).block
        for ours, theirs in zip(make_scorer(dual)(block), make_scorer(full)(block), strict=True):
            assert np.allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_a_budget_refuses_and_counts_updates():
    X, y = blobs(count=200)
    model = fit(Settings(kernel="gaussian", budget=20), X, y)
    assert len(model.machines[0].alpha) == 20
    assert model.running.refused > 0
    assert model.running.updates >= 20


def test_a_gaussian_kernel_learns_what_no_line_can():
    random = np.random.default_rng(4)
    X = random.uniform(-1, 1, (400, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)
    errors = {
        kernel: np.mean(
            predict_classes(
                make_scorer(fit(Settings(kernel=kernel, width=0.4), X[:300], y[:300]))(MemorySource(X[300:], y[300:]).block(0).block)[0]
            )
            != y[300:]
        )
        for kernel in ("linear", "gaussian")
    }
    assert errors["gaussian"] < 0.12
    assert errors["linear"] > 0.3


def test_sparse_and_dense_rows_give_the_same_model(kernels):
    X, y = blobs()
    X[np.abs(X) < 0.8] = 0.0
    assert same(fit(Settings(), X, y), fit(Settings(), csr_matrix(X), y))


@pytest.mark.parametrize("settings", [Settings(), Settings(covariance="full"), Settings(kernel="linear")], ids=str)
def test_block_size_does_not_matter(settings):
    X, y = blobs()
    assert same(fit(settings, X, y, rows=300), fit(settings, X, y, rows=7))


def test_label_noise_has_its_rate_and_never_keeps_the_label():
    settings = Settings(label_noise=0.3, seed=2)
    label = np.random.default_rng(1).integers(0, 5, 20_000).astype(np.int32)
    found = learner.add_label_noise(label, 5, settings, 0)
    assert np.mean(found != label) == pytest.approx(0.3, abs=0.02)
    assert np.bincount(found, minlength=5).min() > 3500
    assert np.array_equal(found, learner.add_label_noise(label, 5, settings, 0))
    assert not np.array_equal(found, learner.add_label_noise(label, 5, settings, 1))


def test_progressive_error_is_told_at_powers_of_two(kernels):
    X, y = blobs(count=300)
    model = fit(Settings(C=0.5), X, y)
    assert model.progress.examples.tolist() == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    mu, s, wrong, losses = np.zeros(8), np.ones(8), [], []
    for x, label in zip(X, np.where(y > 0, 1.0, -1.0), strict=True):
        wrong.append(label * (mu @ x) <= 0)
        losses.append(0.5 * max(0.0, 1.0 - label * (mu @ x)) ** 2)
        mu, s = diagonal_update(mu, s, x, label, Settings(C=0.5))
    assert np.allclose(model.progress.error, [np.mean(wrong[:n]) for n in model.progress.examples])
    assert np.allclose(model.progress.loss, [np.mean(losses[:n]) for n in model.progress.examples])
    assert (model.running.wrong, model.running.seen) == (sum(wrong), 300)
    assert model.running.loss == pytest.approx(sum(losses))


def test_covariance_stays_positive_definite_where_C_is_far_too_large():
    X, y = blobs(width=30, count=400)
    model = fit(Settings(covariance="full", C=1e4), X / np.linalg.norm(X, axis=1, keepdims=True), y)
    assert np.linalg.eigvalsh(model.covariance[0])[0] > 0


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_a_weight_multiplies_C(kernels, covariance):
    X, y = blobs()
    weight = np.random.default_rng(3).uniform(0.2, 3.0, len(y))
    settings = Settings(C=0.4, covariance=covariance)
    mu, s = np.zeros(8), np.ones(8) if covariance == "diagonal" else np.eye(8)
    for x, label, w in zip(X, np.where(y > 0, 1.0, -1.0), weight, strict=True):
        mu, s = (diagonal_update if covariance == "diagonal" else full_update)(mu, s, x, label, replace(settings, C=0.4 * w))
    model = algorithm.run_algorithm(learner.OnlineLearner(settings, MemorySource(X, y, weight=weight, rows=64), 2, 9))
    assert np.allclose(model.mean[0], mu, rtol=1e-7, atol=1e-10)
    assert np.allclose((model.variance if covariance == "diagonal" else model.covariance)[0], s, rtol=1e-7, atol=1e-10)


def test_C_times_the_largest_variance_of_the_first_hundred_examples_is_kept():
    X, y = blobs()
    X[100:] *= 50
    for C in (0.0, 0.3):
        run = task(Settings(C=C), X, y, rows=150)
        state = run.step(run.init())
        used = C or 0.25 * 150 / np.sum(X[:150] ** 2)
        assert state.tally[5] == pytest.approx(used * state.variance[:100].max())
        assert run.step(state).tally[5] == state.tally[5]
        assert state.variance[:100].max() < state.variance.max()


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(multiclass="one-vs-rest", bias=True),
        Settings(covariance="full"),
        Settings(covariance="full", multiclass="one-vs-rest", bias=True),
        Settings(scaling="online", bias=True),
    ],
    ids=str,
)
def test_a_stream_whose_features_come_one_after_the_other_has_the_model_of_one_that_is_told_of_them(settings):
    X, y = blobs(classes=3, width=12)
    X[np.arange(len(X))[:, None] // 20 < np.arange(12)] = 0.0  # feature k from row 20 k on
    rows = csr_matrix(X)
    told = fit(settings, rows, y, rows=7)
    found = algorithm.run_algorithm(learner.OnlineLearner(settings, MemorySource(rows, y, rows=7), 3))
    assert found.columns == 12 + settings.bias
    for name in ("mean", "variance", "covariance", "seen", "size"):
        ours, theirs = getattr(found, name), getattr(told, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or np.allclose(ours, theirs, rtol=1e-12, atol=1e-14), name
    assert np.allclose(found.holdout.score, told.holdout.score, rtol=1e-9, atol=1e-12)
    assert np.allclose(found.holdout.variance, told.holdout.variance, rtol=1e-9, atol=1e-12)


def test_a_polynomial_kernel_is_the_full_form_on_its_monomials():
    """(1 + x·z)² = φ(x)·φ(z) with φ = (1, √2 x_i, x_i², √2 x_i x_j); a row that comes again is the same support vector."""
    X, y = blobs(count=60, width=3)
    i, j = np.triu_indices(3, 1)
    monomials = np.column_stack([np.ones(len(X)), np.sqrt(2) * X, X**2, np.sqrt(2) * X[:, i] * X[:, j]])
    dual = fit(Settings(kernel="polynomial", degree=2, C=0.4, passes=2), X, y)
    primal = fit(Settings(covariance="full", C=0.4, passes=2), monomials, y)
    ours, theirs = make_scorer(dual)(MemorySource(X, y).block(0).block), make_scorer(primal)(MemorySource(monomials, y).block(0).block)
    for a, b in zip(ours, theirs, strict=True):
        assert np.allclose(a, b, rtol=1e-6, atol=1e-8)
    support = dual.machines[0].support
    assert len(np.unique(support, axis=0)) == len(support) <= 60
    assert dual.running.updates == primal.running.updates


def test_kernels_are_their_formulas_and_room_grows_by_half():
    A, B = np.random.default_rng(0).standard_normal((2, 4, 3))
    apart = np.square(A[:, None] - B).sum(axis=2)
    for settings, expected in (
        (Settings(kernel="gaussian", width=0.7), np.exp(-apart / (2 * 0.7**2))),
        (Settings(kernel="polynomial", degree=3), (1 + A @ B.T) ** 3),
        (Settings(kernel="linear"), A @ B.T),
    ):
        np.testing.assert_allclose(kernel_learner.kernel_matrix(settings, A, B), expected, rtol=1e-12)
    assert [kernel_learner.machine_capacity(count) for count in (0, 15, 16, 23, 24, 36)] == [16, 16, 24, 24, 36, 54]
    machine = kernel_learner.GrowingMachine(learner.KernelMachine(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 3))), 3)
    assert [machine.add_support_vector(x) for x in A] == [0, 1, 2, 3]
    for x in (A[2], A[2] + 1e-3, B[0]):
        values = kernel_learner.kernel_matrix(Settings(kernel="linear"), machine.support[:4], x[None])[:, 0]
        assert machine.find_support_vector(x, values, float(x @ x)) == (2 if x is A[2] or (x == A[2]).all() else None)


@pytest.mark.parametrize(
    ("settings", "classes", "wide"),
    [
        (Settings(covariance="full"), 2, 8),
        (Settings(covariance="full"), 3, 24),
        (Settings(covariance="full", multiclass="one-vs-rest"), 3, 8),
        (Settings(covariance="full", kernel="linear"), 3, 0),
        (Settings(), 3, 0),
    ],
)
def test_how_many_weights_one_full_covariance_is_of(settings, classes, wide):
    made = learner.OnlineLearner(settings, MemorySource(np.zeros((2, 8)), np.zeros(2)), classes, 9)
    assert (made.full_covariance_size, made.features, made.count) == (wide, 8, 1 if classes == 2 else 3)
    assert made.uses_best_rival == (classes == 3 and settings.multiclass == "top-1")
    assert replace(made, columns=1).features == 1


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "settings", [Settings(), Settings(covariance="full"), Settings(covariance="full", multiclass="one-vs-rest")], ids=str
)
def test_features_that_a_model_never_met_have_mean_nought_and_variance_one(settings, bias):
    X, y = blobs(classes=3, width=4)
    model = fit(replace(settings, bias=bias), X, y)
    wide = np.column_stack([X[:5], np.arange(5.0)[:, None] * [3.0, -0.5]])
    known, more = (make_scorer(model)(MemorySource(rows, y[:5]).block(0).block) for rows in (X[:5], wide))
    np.testing.assert_allclose(more[0], known[0], rtol=1e-12)
    np.testing.assert_allclose(more[1], known[1] + np.square(wide[:, 4:]).sum(axis=1)[:, None], rtol=1e-12)


@pytest.mark.parametrize("settings", [Settings(), Settings(covariance="full"), Settings(bias=True)], ids=str)
def test_features_that_never_occur_have_weights_where_their_number_is_known(settings):
    X, y = blobs()
    model = fit(settings, np.column_stack([X, np.zeros((len(X), 3))]), y)
    assert model.columns == 11 + settings.bias
    assert not model.mean[0, -3:].any()


def test_one_class_is_refused():
    X, y = blobs()
    run = learner.OnlineLearner(Settings(), MemorySource(X, np.zeros(len(y), dtype=int)), 2, labels=SimpleNamespace(names=["no", "yes"]))
    with pytest.raises(DataError, match="every example has label no; a classifier needs at least two classes"):
        algorithm.run_algorithm(run)


def test_always_update_shrinks_on_every_example():
    X, y = blobs()
    lazy, eager = fit(Settings(C=0.5), X, y), fit(Settings(C=0.5, always_update=True), X, y)
    assert eager.running.updates == len(X)
    assert lazy.running.updates < len(X)
    assert (eager.variance < lazy.variance).all()


def test_one_example_of_a_class_is_enough():
    X, y = blobs()
    assert fit(Settings(), X, np.where(np.arange(len(y)) == 7, 1, 0)).running.examples == len(y)


def test_a_table_is_used_up_to_the_last_row_that_was_touched():
    table = np.stack([np.zeros((6, 2)), np.ones((6, 2))], axis=1)
    assert state_conversion._count_used_rows(table) == 2
    table[3, 1, 0] = 0.5
    assert state_conversion._count_used_rows(table) == 4
    table[4, 0, 1] = -1.0
    assert state_conversion._count_used_rows(table) == 5
