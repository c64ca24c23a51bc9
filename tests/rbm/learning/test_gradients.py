"""Gradients against finite differences, closed forms and sampling; what penalties and constraints do to them."""

from __future__ import annotations

import copy
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from herdcli import fast
from herdcli.errors import BadUsage, DataError
from herdcli.rbm.learning import gradients, parallel_fits
from herdcli.rbm.learning.parallel_fits import LearningProblem, LearningState, Settings
from herdcli.rbm.learning.phases import PhaseScratch, contrastive_divergence_phases
from herdcli.rbm.likelihood import enumeration, row_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units import unit_family
from herdcli.rng import Stream, generator

FINITE = ("binary", "spin", "rate:3", "softmax:3")
PAIRS = [pair for pair in itertools.product((*FINITE, "gaussian", "poisson"), repeat=2) if set(pair) & set(FINITE)]
PAIRS.append(("gaussian", "gaussian"))


def sweeper(visible: str, hidden: str, *, scale: float = 0.4, seed: int = 0, shape: tuple[int, int] = (3, 3)) -> GibbsSweeper:
    """A small model in float32."""
    random = np.random.default_rng(seed)
    D, K = shape
    W = random.normal(0, scale, (D, K))
    if visible == hidden == "gaussian":
        W *= 0.6 / np.linalg.norm(W, 2)
    parts = (W, random.normal(0, 0.5, D), random.normal(0, 0.5, K))
    units = unit_family(visible).layer(), unit_family(hidden).layer()
    return GibbsSweeper(*(part.astype(np.float32) for part in parts), *units, generator(seed, Stream.GIBBS))


def harmonium(found: GibbsSweeper, visible: str, hidden: str, change: tuple[str, tuple[int, ...], float] | None = None) -> Harmonium:
    """The model in float64, one parameter changed."""
    parts = {name: getattr(found, name).astype(np.float64) for name in ("W", "b", "c")}
    if change:
        parts[change[0]][change[1]] += change[2]
    return Harmonium(parts["W"], parts["b"], parts["c"], unit_family(visible), unit_family(hidden))


def rows_of(name: str, count: int = 7, columns: int = 3, seed: int = 3) -> np.ndarray:
    """Rows in the values of a family, as learning takes them."""
    units, random = unit_family(name), np.random.default_rng(seed)
    states = units.layer().sample_unbiased_states((count, columns), random)
    return states.astype(np.int8) if name in ("binary", "spin") else states


def slopes(found: GibbsSweeper, visible: str, hidden: str, objective: object) -> dict[str, np.ndarray]:
    """Central differences of objective(model) with respect to every parameter."""
    step, result = 1e-4, {}
    for name in ("W", "b", "c"):
        result[name] = np.zeros(getattr(found, name).shape)
        for index in np.ndindex(result[name].shape):
            above, below = (objective(harmonium(found, visible, hidden, (name, index, sign * step))) for sign in (1, -1))  # type: ignore[operator]
            result[name][index] = (above - below) / (2 * step)
    return result


@pytest.mark.parametrize(("visible", "hidden"), PAIRS)
def test_the_exact_gradient_is_the_slope_of_the_mean_log_likelihood(visible: str, hidden: str) -> None:
    found, v = sweeper(visible, hidden), rows_of(visible)
    sums = gradients.exact_likelihood_gradient(found, unit_family(visible), unit_family(hidden), v)

    def objective(h: Harmonium) -> float:
        return float(row_likelihood.row_log_likelihood(h, v, enumeration.exact_log_partition(h)).mean())

    for name, slope in slopes(found, visible, hidden, objective).items():
        np.testing.assert_allclose(getattr(sums, name), slope, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("visible", "hidden"), [("binary", "spin"), ("softmax:3", "poisson"), ("gaussian", "rate:3")])
def test_moments_add_up_over_blocks_of_states(visible: str, hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    h = harmonium(sweeper(visible, hidden, shape=(6, 4)), visible, hidden)
    whole = gradients.model_moments(h)
    monkeypatch.setattr(enumeration, "BLOCK", 40)
    parts = gradients.model_moments(h)
    for name in ("pairs", "visible", "hidden"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-12)


@pytest.mark.parametrize(("visible", "hidden"), [pair for pair in PAIRS if pair[0] in FINITE])
def test_the_gradient_of_pseudo_likelihood_is_its_slope(visible: str, hidden: str) -> None:
    found, v = sweeper(visible, hidden), rows_of(visible)
    sums = gradients.pseudo_likelihood_gradient(found, unit_family(visible), unit_family(hidden), v)

    def objective(h: Harmonium) -> float:
        return float(row_likelihood.log_pseudo_likelihood(h, v).mean())

    for name, slope in slopes(found, visible, hidden, objective).items():
        np.testing.assert_allclose(getattr(sums, name), slope, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("visible", "hidden"), [("binary", "binary"), ("rate:3", "spin"), ("softmax:3", "rate:2")])
def test_the_bias_of_cd_vanishes_with_its_sweeps(visible: str, hidden: str) -> None:
    """The mean of CD-k over 24 000 rows: far from the likelihood's gradient for k = 1, within the noise of it for k = 30."""
    found = sweeper(visible, hidden, scale=1.5 if visible == hidden else 0.9)
    v = np.tile(rows_of(visible, 6), (4000, 1))
    exact = gradients.exact_likelihood_gradient(found, unit_family(visible), unit_family(hidden), v.astype(np.float32)).W
    distance = {}
    for k in (1, 4, 30):
        scratch = PhaseScratch.allocate(len(v), 3, 3)
        block = contrastive_divergence_phases(found, v, k, len(v), scratch)
        distance[k] = np.abs(block.pair_statistics(scratch) - exact).max()
    noise = 5 * unit_family(visible).scale * unit_family(hidden).scale / np.sqrt(len(v))
    assert distance[1] > 1.3 * noise
    assert distance[4] < 0.7 * distance[1]
    assert distance[30] < noise


@pytest.mark.parametrize("kind", ["visible", "both"])
def test_mean_field_chains_are_means(kind: str) -> None:
    found, v = sweeper("rate:3", "rate:2", scale=0.8), rows_of("rate:3", 50)
    scratch = PhaseScratch.allocate(50, 3, 3)
    block = contrastive_divergence_phases(found, v, 2, 50, scratch, kind)
    h = harmonium(found, "rate:3", "rate:2")
    if kind == "both":
        step = h.visible_means(h.hidden_means(v.astype(np.float64)))
        np.testing.assert_allclose(block.v[50:], h.visible_means(h.hidden_means(step)), atol=1e-5)
        assert block.error == pytest.approx(np.square(step - v).sum(), rel=1e-5)
    fantasy = block.v[50:].astype(np.float64)
    assert (np.abs(fantasy - np.rint(fantasy)) > 1e-3).any()
    np.testing.assert_allclose(block.h[50:], -h.hidden_means(fantasy) / 50, atol=1e-5)


def test_centering_is_the_gradient_of_the_centred_model() -> None:
    """With W fixed in E = −(v − μ)'W(h − λ) − β·v − γ·h:  b = β − Wλ, c = γ − W'μ."""
    random = np.random.default_rng(0)
    v, h, fv, fh = random.random((9, 4)), random.random((9, 3)), random.random((11, 4)), random.random((11, 3))
    mu, lam = v.mean(axis=0).astype(np.float32), h.mean(axis=0).astype(np.float32)
    sums = gradients.GradientStatistics(
        (v.T @ h / 9 - fv.T @ fh / 11).astype(np.float32),
        (v.mean(axis=0) - fv.mean(axis=0)).astype(np.float32),
        (h.mean(axis=0) - fh.mean(axis=0)).astype(np.float32),
        0.0,
        h.mean(axis=0).astype(np.float32),
    )
    W = (v - mu).T @ (h - lam) / 9 - (fv - mu).T @ (fh - lam) / 11
    expected = (W, sums.b - W @ lam, sums.c - W.T @ mu)
    sums.c -= gradients.uncentre_gradient(sums.W, sums.b, sums.c.copy(), mu, lam)
    for mine, theirs in zip((sums.W, sums.b, sums.c), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


# learning -----------------------------------------------------------------------------------------


def fit(problem: LearningProblem, state: LearningState | None = None, *, until: int | None = None, **options: object) -> LearningState:
    state = parallel_fits.RBMLearning(problem).init() if state is None else state
    while state.step < (parallel_fits.RBMLearning(problem).steps if until is None else until):
        state = parallel_fits.RBMLearning(problem, **options).step(state)  # type: ignore[arg-type]
    return state


@pytest.mark.parametrize("bias_rate", [0.0, 0.002])
def test_centred_biases_take_back_what_new_weights_add_at_the_means(bias_rate: float) -> None:
    rows = np.random.default_rng(0).integers(0, 11, (40, 12)).astype(np.float32)
    options = {"hidden": 5, "visible_units": "rate:10", "hidden_units": "rate:100", "momentum": 0.0, "learning_rate": 0.01}
    before, plain, centred = (
        fit(LearningProblem([rows], Settings(**options, bias_rate=bias_rate, centering=centering)), until=until)  # type: ignore[arg-type]
        for centering, until in ((True, 0), (False, 1), (True, 1))
    )
    problem = LearningProblem([rows], Settings(**options, bias_rate=bias_rate))  # type: ignore[arg-type]
    moved, mu, lam = centred.W[0] - before.W[0], problem.visible_mean(0), centred.hidden_mean[0]
    np.testing.assert_allclose(centred.b[0] + moved @ lam, plain.b[0], atol=1e-5)
    np.testing.assert_allclose(centred.c[0] + mu @ moved, plain.c[0], atol=1e-5)
    assert np.abs(centred.b[0] - plain.b[0]).max() > 1e-4


def of_state(problem: LearningProblem, state: LearningState) -> Harmonium:
    return Harmonium(*(part[0].astype(np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)


def correlated(name: str, count: int = 200) -> np.ndarray:
    """Rows of 6 columns (4 softmax columns of two units, and so on) with one common cause."""
    random = np.random.default_rng(5)
    cause = random.integers(0, 2, (count, 1))
    on = np.where(random.random((count, 6)) < 0.15, 1 - cause, cause)
    if name == "spin":
        return (2 * on - 1).astype(np.int8)
    if name == "binary":
        return on.astype(np.int8)
    if name.startswith("rate"):
        return (on * unit_family(name).scale * 0.8 + 0.1).astype(np.float32)
    if name == "softmax:2":
        return np.stack([on[:, :3], 1 - on[:, :3]], axis=2).reshape(count, 6).astype(np.float32)
    return (on * 3).astype(np.float32) if name == "poisson" else (2.0 * on - 1 + random.normal(size=on.shape)).astype(np.float32)


ALGORITHMS = ("cd", "pcd", "fpcd", "pseudo-likelihood", "exact")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("visible", "hidden"), [("binary", "spin"), ("rate:4", "binary"), ("softmax:2", "rate:2"), ("gaussian", "binary")])
def test_every_algorithm_finds_the_common_cause(visible: str, hidden: str, algorithm: str) -> None:
    if visible == "gaussian" and algorithm == "pseudo-likelihood":
        with pytest.raises(BadUsage, match="finitely many values"):
            Settings(visible_units=visible, algorithm=algorithm)
        return
    v = correlated(visible)
    scales = unit_family(visible).scale * unit_family(hidden).scale
    rate = 0.02 * scales * {"gaussian": 0.3, "softmax:2": 5.0}.get(visible, 1.0)
    settings = Settings(2, algorithm, epochs=60, learning_rate=rate, visible_units=visible, hidden_units=hidden, batch_size=40)
    problem = LearningProblem([v], settings)
    first = parallel_fits.RBMLearning(problem).init()
    before, after = (of_state(problem, state) for state in (copy.deepcopy(first), fit(problem, first)))
    values = unit_family(visible).round_to_states(v)
    fits = [row_likelihood.row_log_likelihood(h, values, enumeration.exact_log_partition(h)).mean() for h in (before, after)]
    assert fits[1] > fits[0] + (0.15 if visible == "softmax:2" else 0.5)  # nats; three units, not six


def test_gaussian_layers_learn_probabilistic_pca() -> None:
    """The exact gradient ends at the closed form with σ² = 1: I + Σ (λ_i − 1) u_i u_i' over the leading eigenvalues above 1."""
    random = np.random.default_rng(2)
    v = (random.normal(size=(400, 2)) @ random.normal(0, 0.8, (2, 5)) + random.normal(size=(400, 5))).astype(np.float32)
    v -= v.mean(axis=0)
    settings = Settings(
        2,
        "exact",
        epochs=1500,
        batch_size=0,
        learning_rate=0.01,
        momentum=0.5,
        weight_decay=0.0,
        visible_units="gaussian",
        hidden_units="gaussian",
    )
    problem = LearningProblem([v], settings)
    h = of_state(problem, fit(problem))
    values, vectors = np.linalg.eigh(np.cov(v.T, bias=True))
    leading = vectors[:, -2:]
    expected = np.eye(5) + (leading * (values[-2:] - 1)) @ leading.T
    np.testing.assert_allclose(np.linalg.inv(np.eye(5) - h.W @ h.W.T), expected, atol=0.02)


def test_rates_are_those_of_proportions() -> None:
    """With W and b in counts, one step moves W by ε times the gradient of proportions, count/n of both layers."""
    v = rows_of("rate:4", 30)
    settings = Settings(3, "exact", epochs=1, batch_size=0, learning_rate=0.1, bias_rate=0.3, momentum=0.0, weight_decay=0.0)
    settings = Settings(**vars(settings) | {"visible_units": "rate:4", "hidden_units": "rate:5"})
    problem = LearningProblem([v], settings)
    state = parallel_fits.RBMLearning(problem).init()
    found = GibbsSweeper(
        state.W[0].copy(), state.b[0].copy(), state.c[0].copy(), *(unit_family(n).layer() for n in ("rate:4", "rate:5")), None
    )  # type: ignore[arg-type]
    sums = gradients.exact_likelihood_gradient(found, unit_family("rate:4"), unit_family("rate:5"), v)
    parallel_fits.RBMLearning(problem).step(state)
    np.testing.assert_allclose(state.W_velocity[0], 0.1 * sums.W / 20, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(state.b_velocity[0], 0.3 * sums.b / 4, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(state.c_velocity[0], 0.3 * sums.c / 5, rtol=1e-5, atol=1e-8)


def test_first_weights_of_replicas_are_small() -> None:
    problem = LearningProblem([rows_of("rate:10", 5, 200)], Settings(100, visible_units="rate:10", hidden_units="rate:100", epochs=1))
    assert parallel_fits.RBMLearning(problem).init().W.std() == pytest.approx(0.01 / np.sqrt(1000), rel=0.05)


def test_fast_weights_decay_and_follow_the_gradient() -> None:
    settings = Settings(
        3, "fpcd", epochs=2, batch_size=20, fast_rate=0.2, fast_decay=0.5, momentum=0.0, weight_decay=0.0, rate_decay="none"
    )
    problem = LearningProblem([correlated("binary")], settings)
    state = parallel_fits.RBMLearning(problem).init()
    fast_weights = np.zeros_like(state.W)
    for _ in range(5):
        before = state.W.copy()
        parallel_fits.RBMLearning(problem).step(state)
        fast_weights = 0.5 * fast_weights + 0.2 * (state.W - before) / settings.learning_rate
        np.testing.assert_allclose(state.W_fast, fast_weights, atol=1e-5)
    assert np.abs(fast_weights).max() > 0.01
    plain = LearningProblem([correlated("binary")], Settings(**vars(settings) | {"algorithm": "pcd"}))
    assert not np.array_equal(fit(problem, until=10).W, fit(plain, until=10).W)


def test_constraints_hold_after_every_step() -> None:
    v = correlated("poisson")
    for settings, holds in (
        (Settings(4, non_negative=True, visible_units="poisson", epochs=3), lambda W: (W >= 0).all()),
        (Settings(4, visible_units="poisson", hidden_units="poisson", epochs=3, learning_rate=0.01), lambda W: (W <= 0).all()),
        (
            Settings(4, visible_units="gaussian", hidden_units="gaussian", epochs=3, learning_rate=0.1, momentum=0.0),
            lambda W: np.linalg.norm(W, 2) < 1,
        ),
    ):
        problem = LearningProblem([v], settings)
        algorithm = parallel_fits.RBMLearning(problem)
        state = algorithm.init()
        while not algorithm.done(state):
            algorithm.step(state)
            assert holds(state.W[0])


@pytest.mark.parametrize(("units", "value"), [("rate:4", 2.0), ("binary", 1.0)])
def test_columns_of_one_value_keep_weights_of_0(units: str, value: float) -> None:
    v = np.hstack([correlated(units), np.full((200, 1), value, np.float32)])
    problem = LearningProblem([v], Settings(4, visible_units=units, epochs=5))
    assert problem.constant_columns(0).tolist() == [False] * 6 + [True]
    state = fit(problem)
    assert (state.W[0, 6] == 0).all()
    assert np.abs(state.W[0, :6]).min() > 0
    assert unit_family(units).mean(state.b[0, 6:].astype(np.float64))[0] == pytest.approx(value, abs=0.2)


def test_sparsity_draws_hidden_units_to_the_target_and_l1_shrinks_weights() -> None:
    v = correlated("binary")

    def learned(**options: object) -> Harmonium:
        problem = LearningProblem([v], Settings(8, epochs=40, **options))  # type: ignore[arg-type]
        return of_state(problem, fit(problem))

    plain, sparse, lean = learned(), learned(sparsity_target=0.05, sparsity_cost=1.0), learned(l1_decay=0.02)
    means = [h.hidden_means(v).mean() for h in (plain, sparse)]
    assert abs(means[1] - 0.05) < 0.1 < abs(means[0] - 0.05)
    assert np.abs(lean.W).sum() < 0.7 * np.abs(plain.W).sum()


VARIANTS = [
    {"algorithm": "fpcd", "chains": 7},
    {"algorithm": "pseudo-likelihood", "l1_decay": 0.01},
    {"algorithm": "cd", "mean_field": "visible", "centering": True, "visible_units": "rate:4", "hidden_units": "rate:3"},
    {"algorithm": "pcd", "sparsity_target": 0.2, "visible_units": "gaussian"},
    {"algorithm": "cd", "non_negative": True, "visible_units": "softmax:2", "hidden_units": "poisson"},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=range(len(VARIANTS)))
def test_variants_resume_and_run_on_threads_and_kernels_to_the_same_bits(variant: dict[str, object]) -> None:
    settings = Settings(**{"hidden": 4, "epochs": 3, "batch_size": 30, "learning_rate": 0.02} | variant)  # type: ignore[arg-type]
    v = correlated(settings.visible_units)
    problem = LearningProblem([v, v[:90], v[50:]], settings)
    whole = fit(problem)
    with ThreadPoolExecutor(3) as pool:
        others = [fit(problem, copy.deepcopy(fit(problem, until=cut))) for cut in (1, 8)] + [fit(problem, map=pool.map)]
    before = fast.loops_in_use()
    try:
        for name in {"python", before}:
            fast.use_loops(name)
            others.append(fit(problem))
    finally:
        fast.use_loops(before)
    for other in others:
        for name in ("W", "b", "c", "chain", "W_fast", "hidden_mean", "trace"):
            np.testing.assert_array_equal(getattr(whole, name), getattr(other, name))


def test_weights_to_start_with() -> None:
    random = np.random.default_rng(0)
    start = random.normal(size=(6, 2)).astype(np.float32), np.ones(6, np.float32), np.zeros(2, np.float32)
    state = parallel_fits.RBMLearning(LearningProblem([correlated("binary")], Settings(2), start=start)).init()
    np.testing.assert_array_equal(state.W[0], start[0])
    np.testing.assert_array_equal(state.b[0], start[1])
    with pytest.raises(DataError, match=r"the initial weights have the shape \(6, 2\), but must have \(6, 3\)"):
        LearningProblem([correlated("binary")], Settings(3), start=start)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"mean_field": "all"}, "unknown mean_field 'all', expected none, visible or both"),
        ({"l1_decay": -1.0}, "l1_decay must be at least 0, not -1"),
        ({"bias_rate": float("inf")}, "bias_rate must be at least 0, not inf"),
        ({"fast_decay": 1.0}, "fast_decay must be from 0 to below 1, not 1"),
        ({"sparsity_target": 1.5}, "sparsity_target must be below 1, not 1.5"),
        (
            {"sparsity_target": 0.1, "hidden_units": "poisson"},
            "a sparsity target needs hidden units with a bounded range, but these are poisson",
        ),
        (
            {"visible_units": "gaussian", "hidden_units": "poisson"},
            "gaussian visible with poisson hidden units have no normalisable distribution",
        ),
    ],
)
def test_settings_out_of_range_are_refused(bad: dict[str, object], says: str) -> None:
    with pytest.raises(BadUsage) as caught:
        Settings(**bad)  # type: ignore[arg-type]
    assert caught.value.message.startswith(says)


@pytest.mark.parametrize(("visible", "scale"), [("binary", 1.0), ("rate:4", 4.0)])
def test_one_update_with_penalties_differs_from_one_without_by_their_slopes(visible: str, scale: float) -> None:
    """l1 takes rate · cost · sign W, and weight decay rate · cost · W, for proportions of the units' range."""
    v = rows_of(visible, 30, 5)
    v[:, 4] = v[0, 4]  # a column that does not vary has no weights

    def updated(**options: object) -> np.ndarray:
        problem = LearningProblem([v], Settings(6, epochs=1, batch_size=0, learning_rate=0.3, visible_units=visible, **options))  # type: ignore[arg-type]
        algorithm = parallel_fits.RBMLearning(problem)
        begun = algorithm.init()
        first.append(begun.W[0].astype(np.float64))
        return algorithm.step(begun).W[0].astype(np.float64)

    first: list[np.ndarray] = []
    plain, lean, small = updated(weight_decay=0.0), updated(weight_decay=0.0, l1_decay=0.02), updated(weight_decay=0.02)
    assert np.isfinite(lean).all()
    assert (plain[4] == 0).all()
    np.testing.assert_allclose(plain - lean, 0.3 * 0.02 * np.sign(first[0]), atol=2e-7)
    np.testing.assert_allclose(plain - small, 0.3 * 0.02 * first[0], atol=2e-7)
