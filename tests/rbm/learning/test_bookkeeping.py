"""What runs say of themselves, when they end, what they refuse at the boundary, and what stands in a state: exact numbers."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from herdcli.algorithm import RunProgress, run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.rbm import feature_transform, model, normalizability
from herdcli.rbm.learning import layerwise_learning, phases, validation
from herdcli.rbm.learning.gradient_step import MEAN_SHARE
from herdcli.rbm.learning.learning_problem import InitialModels, LearningProblem
from herdcli.rbm.learning.minibatch_update import criterion_from_figures
from herdcli.rbm.learning.parallel_fits import RBMLearning, Settings
from herdcli.rbm.likelihood import annealed_importance, enumeration, row_likelihood
from herdcli.rbm.model import RBM, Harmonium
from herdcli.rbm.sampling import gibbs_samples, imputation
from herdcli.rbm.units import unit_family

RANDOM = np.random.default_rng(2)
ROWS = [RANDOM.integers(0, 2, (n, 4)).astype(np.int8) for n in (10, 19)]
PLAIN = {"hidden": 3, "batch_size": 5, "momentum": 0.0, "weight_decay": 0.0}


def of(D: int, K: int, visible: str = "binary", hidden: str = "binary", scale: float = 0.5) -> Harmonium:
    random = np.random.default_rng(0)
    return Harmonium(
        random.normal(0, scale, (D, K)), random.normal(size=D), random.normal(size=K), unit_family(visible), unit_family(hidden)
    )


# learning -----------------------------------------------------------------------------------------


def test_a_run_is_as_long_as_its_longest_model_and_shows_the_worst_error() -> None:
    algorithm = RBMLearning(LearningProblem(ROWS, Settings(epochs=3, **PLAIN)))  # 2 and 4 minibatches an epoch
    assert algorithm.steps == 12
    state, told = algorithm.init(), []
    while not algorithm.done(state):
        told.append(algorithm.progress(state))
        state = algorithm.step(state)
    told.append(algorithm.progress(state))
    assert [(now.step, now.bound) for now in told] == [(step, 12) for step in range(13)]
    for step, now in enumerate(told):
        ended = min(step // 2, 3), step // 4
        error = max(state.trace[epochs - 1, m] for m, epochs in enumerate(ended))
        assert now.figure == (f"error {error:.3g}" if all(ended) else "")
    assert (state.trace > 0).all()


def test_a_run_that_goes_on_has_what_is_left_of_all_epochs() -> None:
    begun = InitialModels(*(np.zeros((2, *shape), np.float32) for shape in ((4, 3), (4,), (3,))), epochs=2)
    problem = LearningProblem(ROWS, Settings(epochs=3, **PLAIN), begun=begun)
    assert RBMLearning(problem).steps == 4
    assert [problem.earlier_run_minibatches(m) for m in range(2)] == [4, 8]
    assert [problem.updates(m) for m in range(2)] == [6, 12]
    state = run_algorithm(RBMLearning(problem))
    assert state.step == 4
    assert (state.trace[:2] == 0).all()
    assert (state.trace[2] > 0).all()
    part = begun.select_models([1])
    assert (part.W.shape, part.epochs, part.state, part.trace) == ((1, 4, 3), 2, None, None)
    kept = model.ResumableState(*(np.arange(2.0).reshape(2, *[1] * width) for width in (2, 1, 1)))
    part = replace(begun, state=kept, trace=np.array([[1.0, 2.0], [3.0, 4.0]])).select_models([1])
    assert part.state.W_velocity.tolist() == [[[1.0]]]
    assert part.state.chain is None
    assert part.trace.tolist() == [[2.0], [4.0]]


def test_progress_shows_the_worst_models_best_look() -> None:
    settings = Settings(epochs=2, validate_every=1, **PLAIN)
    algorithm = RBMLearning(LearningProblem(ROWS, settings, valid=[rows[:3] for rows in ROWS]))
    state = algorithm.init()
    assert algorithm.progress(state).figure == ""
    state = run_algorithm(algorithm)
    best = state.best.figures[..., 0].max(axis=0)
    assert best[0] != best[1]
    assert algorithm.progress(state).figure == f"error {state.trace[1].max():.3g}, valid {best.min():.4g}"


def test_the_figure_to_be_high_is_the_likelihood_where_there_is_one() -> None:
    figures = np.array([[[-3.0, 7.0, 1.0], [np.nan, -5.0, 2.0]]])
    assert criterion_from_figures(figures).tolist() == [[-3.0, -5.0]]


def test_of_equal_looks_the_first_is_best() -> None:
    """A rate of 10^−40 changes nothing, so that every look is the same."""
    settings = Settings(epochs=9, patience=4, learning_rate=1e-40, **PLAIN)
    algorithm = RBMLearning(LearningProblem(ROWS[:1], settings, valid=[ROWS[0][:4]]))
    state = run_algorithm(algorithm)
    assert len(np.unique(state.best.figures[:5, 0, 0])) == 1
    assert np.isnan(state.best.figures[5:]).all()
    assert (state.best.epoch.tolist(), state.best.stopped.tolist(), state.step) == ([1], [5], 10)
    assert np.isnan(state.trace[5:]).all()
    assert np.isfinite(state.trace[:5]).all()


@pytest.mark.parametrize("algorithm", ["cd", "pcd"])
@pytest.mark.parametrize(("visible", "hidden"), [("binary", "binary"), ("rate:4", "rate:2"), ("binary", "spin")])
def test_one_update_towards_sparse_hidden_units(algorithm: str, visible: str, hidden: str) -> None:
    """From h̄ = A'(0) a hundredth of the way to the rows' mean; c falls by rate · cost · excess, W by as much times the rows' mean."""
    high = unit_family(visible).scale
    rows = np.random.default_rng(1).integers(0, high + 1, (20, 4)).astype(np.float32)
    common = {"hidden": 3, "epochs": 1, "batch_size": 0, "learning_rate": 0.2, "bias_rate": 0.3, "momentum": 0.0, "weight_decay": 0.0}
    common |= {"algorithm": algorithm, "visible_units": visible, "hidden_units": hidden}

    def updated(**more: float) -> tuple[object, ...]:
        run = RBMLearning(LearningProblem([rows], Settings(**common, **more)))
        begun = run.init()
        first = Harmonium(*(part[0].astype(float) for part in (begun.W, begun.b, begun.c)), unit_family(visible), unit_family(hidden))
        return first, run.step(begun)

    first, plain = updated()
    _, sparse = updated(sparsity_target=0.2, sparsity_cost=0.5)
    assert plain.hidden_mean is None
    low, top = first.hidden.range
    middle = (low + top) / 2
    mean = middle + MEAN_SHARE * (first.hidden_means(rows).mean(axis=0) - middle)
    np.testing.assert_allclose(sparse.hidden_mean[0], mean, rtol=1e-5, atol=1e-7)
    excess = (mean - low) / (top - low) - 0.2
    np.testing.assert_allclose((plain.c - sparse.c)[0], 0.3 * 0.5 * excess, atol=1e-6)
    np.testing.assert_allclose((plain.W - sparse.W)[0], 0.2 * 0.5 * np.outer(rows.mean(axis=0) / high, excess), atol=1e-6)


def test_errors_of_reconstruction_are_those_of_proportions() -> None:
    """(v/n − E[v | E[h | v]]/n)², the mean of rows and units, over the minibatches of an epoch."""
    rows = np.random.default_rng(0).integers(0, 5, (20, 3)).astype(np.float32)
    settings = Settings(epochs=1, algorithm="exact", visible_units="rate:4", learning_rate=1e-12, **PLAIN)
    algorithm = RBMLearning(LearningProblem([rows], settings))
    begun = algorithm.init()
    h = Harmonium(*(part[0].astype(float) for part in (begun.W, begun.b, begun.c)), unit_family("rate:4"), unit_family("binary"))
    expected = ((rows - h.visible_means(h.hidden_means(rows))) ** 2).mean() / 16
    assert run_algorithm(algorithm).trace[0, 0] == pytest.approx(expected, rel=1e-5)


def test_rates_fall_in_a_line_to_the_last_update() -> None:
    """A row that every chain equals in the mean: exact learning's gradient is the rows' mean less the model's."""
    moved = {}
    for decay in ("linear", "none"):
        settings = Settings(
            epochs=4, algorithm="exact", learning_rate=1e-3, bias_rate=1e-3, rate_decay=decay, **(PLAIN | {"batch_size": 0})
        )
        algorithm = RBMLearning(LearningProblem(ROWS[:1], settings))
        state, steps = algorithm.init(), []
        while not algorithm.done(state):
            state = algorithm.step(state)
            steps.append(state.W_velocity[0].copy())
        moved[decay] = steps
    for step in range(4):
        np.testing.assert_allclose(moved["linear"][step], (1 - step / 4) * moved["none"][step], rtol=0.01, atol=1e-9)


# settings and problems ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        *((name, 1, 0) for name in ("hidden", "steps", "epochs")),
        *((name, 0, -1) for name in ("chains", "batch_size", "average_scores", "validate_every", "patience", "average")),
        *((name, 0.0, -0.1) for name in ("weight_decay", "bias_rate", "l1_decay", "initial_scale", "sparsity_cost", "fast_rate")),
        ("learning_rate", 1e-9, 0.0),
        ("momentum", 0.0, -0.1),
        ("momentum", 0.99, 1.0),
        ("fast_decay", 0.0, -0.1),
        ("fast_decay", 0.99, 1.0),
        ("sparsity_target", 0.99, 1.0),
        ("sparsity_target", 0.0, -0.1),
    ],
)
def test_settings_at_their_boundaries(name: str, accepted: float, refused: float) -> None:
    assert getattr(Settings(**{name: accepted}), name) == accepted
    with pytest.raises(BadUsage, match=name):
        Settings(**{name: refused})


def test_minibatches_looks_and_chains_by_hand() -> None:
    settings = Settings(epochs=7, batch_size=5)
    assert [settings.batches(rows) for rows in (4, 5, 6, 10, 11)] == [1, 1, 2, 2, 3]
    assert (settings.updates(11), Settings(batch_size=0, epochs=7).updates(11)) == (21, 7)
    assert [
        (each.epochs_per_evaluation, each.evaluation_count)
        for each in (settings, Settings(epochs=7, patience=2), Settings(epochs=7, validate_every=3))
    ] == [
        (0, 0),
        (1, 7),
        (3, 3),
    ]
    assert [Settings(algorithm=name).has_persistent_chains for name in ("cd", "pcd", "fpcd", "exact")] == [False, True, True, False]
    for chains, batch, most, expected in ((0, 5, 0, 5), (0, 0, 0, 19), (0, 100, 0, 19), (8, 5, 0, 8), (0, 0, 40, 40), (0, 30, 40, 30)):
        assert LearningProblem(ROWS, Settings(chains=chains, batch_size=batch), most=most).chains == expected
    scratch = LearningProblem(ROWS, Settings(hidden=3, batch_size=7)).scratch()  # 10 rows in 2 minibatches, 19 in 3
    assert (scratch.v.shape, scratch.h.shape, scratch.pairs.shape) == ((14, 4), (14, 3), (4, 3))
    persistent = LearningProblem(ROWS, Settings(hidden=3, batch_size=7, chains=9, algorithm="pcd")).scratch()
    assert persistent.hidden.shape == (9, 3)


def test_every_model_has_its_own_order_which_parts_keep() -> None:
    problem = LearningProblem(ROWS, Settings(batch_size=5))
    part = problem.select_models([1])
    assert (part.global_number(0), part.most, part.chains) == (1, 19, 5)
    np.testing.assert_array_equal(part.order(0, 3), problem.order(1, 3))
    np.testing.assert_array_equal(np.sort(problem.order(1, 0)), np.arange(19))
    assert not np.array_equal(problem.order(1, 0), problem.order(1, 1))
    np.testing.assert_array_equal(problem.constant_columns(0), (ROWS[0] == ROWS[0][0]).all(axis=0))
    np.testing.assert_allclose(problem.visible_mean(1), ROWS[1].mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rows": [np.zeros((2, 3), np.int8), np.zeros((2, 4), np.int8)]}, r"the array has the shape \(2, 4\), but must have \(n, 3\)"),
        ({"rows": [np.zeros((2, 0), np.int8)]}, r"the array has the shape \(2, 0\), but must have \(n, 0\)"),
        ({"rows": [np.zeros(3, np.int8)]}, r"the array has the shape \(3,\), but must have \(n, 3\)"),
        ({"rows": [np.full((2, 3), 2, np.int8)]}, "values other than 0 and 1"),
        (
            {"begun": InitialModels(np.zeros((2, 5, 3)), np.zeros((2, 5)), np.zeros((2, 3)))},
            "the rows have 4 columns, but the model has 5 visible units",
        ),
    ],
)
def test_rows_that_do_not_belong_together_are_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(DataError, match=says):
        LearningProblem(**({"rows": ROWS, "settings": Settings(hidden=3)} | given))


def test_layers_of_half_a_unit_are_refused() -> None:
    with pytest.raises(DataError, match="there are 4 columns, but softmax:3 units need a multiple of 3"):
        LearningProblem([np.eye(4, dtype=np.float32)], Settings(visible_units="softmax:3"))
    with pytest.raises(BadUsage, match="--hidden 3 must be a multiple of 2, the number of columns of one softmax:2 unit"):
        LearningProblem(ROWS, Settings(hidden=3, hidden_units="softmax:2"))
    assert LearningProblem(ROWS, Settings(hidden=4, hidden_units="softmax:2")).hidden.group == 2


# models -------------------------------------------------------------------------------------------


def test_what_another_program_learned_has_no_settings() -> None:
    W, b, c = RANDOM.random((4, 3)), RANDOM.random(4), RANDOM.random(3)
    found = model.rbm_from_weights(W, b, c, "spin", "rate:2")
    found.validate()
    for name, part in (("W", W), ("b", b), ("c", c)):
        np.testing.assert_array_equal(getattr(found, name)[0], part)
    assert (found.visible_units, found.hidden_units, found.algorithm) == ("spin", "rate:2", "imported")
    zero = ("steps", "epochs", "batch_size", "learning_rate", "momentum", "weight_decay", "chains", "seed")
    assert {getattr(found, name) for name in zero} == {0}
    assert all(getattr(found, each.name) is None for each in fields(RBM) if each.name in ("trace", "holdout", "scores", "classes", "kept"))


@pytest.mark.parametrize(
    ("visible", "hidden", "wrong"),
    [("softmax:2", "softmax:3", None), ("softmax:3", "binary", "visible_units"), ("binary", "softmax:2", "hidden_units")],
)
def test_units_of_several_columns_fit_into_their_layer(visible: str, hidden: str, wrong: str | None) -> None:
    found = model.rbm_from_weights(np.zeros((4, 3)), np.zeros(4), np.zeros(3), visible, hidden)
    if wrong is None:
        found.validate()
    else:
        with pytest.raises(
            DataError, match=f"{wrong} are softmax:., but the number of columns, {4 if wrong[0] == 'v' else 3}, does not fit them"
        ):
            found.validate()
    with pytest.raises(DataError, match="/column_scale has values that are not above 0"):
        replace(
            model.rbm_from_weights(np.zeros((2, 1)), np.zeros(2), np.zeros(1), "binary", "binary"), column_scale=np.array([1.0, 0.0])
        ).validate()


def test_rows_are_restored_to_what_data_show() -> None:
    found = model.rbm_from_weights(np.zeros((2, 1)), np.zeros(2), np.zeros(1), "rate:4", "binary")
    np.testing.assert_array_equal(found.to_original(np.array([[4, 1]])), [[1.0, 0.25]])
    placed = replace(found, column_mean=np.array([1.0, 2.0]), column_scale=np.array([2.0, 3.0]))
    np.testing.assert_array_equal(placed.to_original(np.array([[4, 2]])), [[3.0, 3.5]])


def test_features_of_several_models_stand_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    W, b, c = RANDOM.normal(size=(2, 4, 3)), np.zeros((2, 4)), RANDOM.normal(size=(2, 3))
    found = replace(model.rbm_from_weights(W[0], b[0], c[0], "binary", "rate:5"), W=W, b=b, c=c)
    rows = ROWS[1].astype(float)
    expected = np.hstack([1 / (1 + np.exp(-(rows @ W[m] + c[m]))) for m in range(2)])
    np.testing.assert_allclose(feature_transform.hidden_unit_means(found, ROWS[1]), expected, atol=1e-6)
    monkeypatch.setattr(row_likelihood, "BLOCK", 1)
    monkeypatch.setattr(row_likelihood, "WIDEST", 35)  # blocks of 5 rows of 7 numbers
    np.testing.assert_allclose(feature_transform.hidden_unit_means(found, ROWS[1]), expected, atol=1e-6)
    np.testing.assert_array_equal(feature_transform.hidden_mean_range(found), [0.0, 1.0])
    np.testing.assert_array_equal(feature_transform.hidden_mean_range(replace(found, hidden_units="spin")), [-1.0, 1.0])
    assert feature_transform.hidden_mean_range(replace(found, hidden_units="poisson")) is None


def test_blocks_of_rows_by_hand() -> None:
    for width, size in ((0, 1 << 17), (1, 1 << 17), (1000, 131), (4097, 32), (1 << 17, 32), (1 << 18, 16), (1 << 22, 1), (1 << 30, 1)):
        first = next(row_likelihood.row_blocks(1 << 20, width))
        assert (first.start, first.stop) == (0, size)
    assert list(row_likelihood.row_blocks(70, 4097)) == [slice(0, 32), slice(32, 64), slice(64, 70)]
    assert list(row_likelihood.row_blocks(0, 3)) == []


# likelihoods and conditionals ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(13, 14), (14, 13)])
def test_small_layers_are_summed_for_a_look(shape: tuple[int, int]) -> None:
    h, rows = of(*shape), np.random.default_rng(0).integers(0, 2, (5, shape[0]))
    found = validation.validation_figures(h, rows, rows[:2], validation.validation_log_partition(h, np.zeros(shape[0]), 0, None))
    assert found[0] == pytest.approx(row_likelihood.row_log_likelihood(h, rows, enumeration.exact_log_partition(h)).mean(), abs=1e-10)
    assert found[1] == pytest.approx(row_likelihood.log_pseudo_likelihood(h, rows).mean(), abs=1e-10)
    assert found[2] == pytest.approx(h.free_energy(rows).mean() - h.free_energy(rows[:2]).mean(), abs=1e-10)


def test_a_model_without_figures_has_none() -> None:
    h = replace(of(3, 2, "gaussian", "gaussian"), W=np.eye(3, 2) * 2)
    found = validation.validation_figures(
        h, np.ones((4, 3)), np.zeros((2, 3)), validation.validation_log_partition(h, np.zeros(3), 0, None)
    )
    assert np.isnan(found[:2]).all()
    assert found[2] == pytest.approx(h.free_energy(np.ones((1, 3)))[0] - h.free_energy(np.zeros((1, 3)))[0])


def test_looks_are_at_evenly_spread_rows() -> None:
    for count, most, expected in ((10, 3, [0, 4, 8]), (9, 3, [0, 3, 6]), (3, 3, [0, 1, 2]), (2, 3, [0, 1])):
        assert validation.select_evenly_spaced(np.arange(count)[:, None], most)[:, 0].tolist() == expected


def test_expectations_where_exponentials_are_no_floats() -> None:
    """One hidden unit, certainly on with e^800 to e^0: the missing entry is that of its mean-field input."""
    h = Harmonium(np.array([[1.5], [-0.5]]), np.array([0.25, 0.0]), np.array([800.0]), unit_family("binary"), unit_family("binary"))
    found = imputation.impute_rows(h, np.array([[np.nan, 1.0]]), np.array([[False, True]]))
    np.testing.assert_allclose(found, [[1 / (1 + np.exp(-1.75)), 1.0]])
    off = replace(h, c=np.array([-800.0]))
    np.testing.assert_allclose(
        imputation.impute_rows(off, np.array([[np.nan, 1.0]]), np.array([[False, True]]))[0, 0], 1 / (1 + np.exp(-0.25))
    )


@pytest.mark.parametrize(("temperatures", "told"), [(1, "0.00 1.00"), (15, "0.00 0.67 1.00"), (20, "0.00 0.50 1.00")])
def test_annealing_tells_its_temperature_to_the_last_step(temperatures: int, told: str) -> None:
    algorithm = annealed_importance.AnnealedImportanceSampling(
        annealed_importance.AnnealingProblem((of(4, 2),), (np.zeros(4),), chains=2, temperatures=temperatures)
    )
    seen: list[str] = []
    run_algorithm(algorithm, watch=lambda now: seen.append(now.figure))
    assert seen == [f"β {beta}" for beta in told.split()][-len(seen) :]
    assert seen[-1] == "β 1.00"


def test_weights_at_the_edge_of_what_is_normalisable() -> None:
    gauss, poisson = unit_family("gaussian"), unit_family("poisson")
    assert normalizability.divergence_reason(poisson, poisson, np.zeros((2, 2))) is None
    assert (
        normalizability.divergence_reason(gauss, gauss, np.eye(2))
        == "the largest singular value of the weights is 1, but gaussian layers need a value below 1"
    )
    assert normalizability.divergence_reason(gauss, gauss, 0.9999 * np.eye(2)) is None
    assert normalizability.divergence_reason(gauss, poisson, np.zeros((2, 2))) is None
    assert normalizability.divergence_reason(gauss, poisson, np.eye(2)) == "gaussian and poisson layers need weights of 0"
    held = Harmonium(np.diag([0.999, 0.1]), np.zeros(2), np.zeros(2), gauss, gauss)
    assert normalizability.is_barely_normalisable(held)
    assert not normalizability.is_barely_normalisable(replace(held, W=np.diag([0.9989, 0.1])))
    assert not normalizability.is_barely_normalisable(replace(held, visible=unit_family("binary")))


# annealing, samples and stacks --------------------------------------------------------------------


@pytest.mark.parametrize("known", [None, (np.ones((1, 3)),)])
def test_temperatures_of_annealing_by_hand(known: tuple[np.ndarray, ...] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealed_importance, "LONG", 1)
    h = of(3, 2)
    algorithm = annealed_importance.AnnealedImportanceSampling(
        annealed_importance.AnnealingProblem((h,), (np.zeros(3),), chains=2, temperatures=25, known=known)
    )
    assert algorithm.steps == 3
    there = [np.arange(11) / 25, np.arange(10, 21) / 25, np.arange(20, 26) / 25]
    for step, betas in enumerate(there):
        np.testing.assert_allclose(algorithm._step_temperatures(step), 1 - betas if known else betas, atol=1e-15)
    state, told = algorithm.init(), []
    while not algorithm.done(state):
        told.append(algorithm.progress(state))
        state = algorithm.step(state)
    figures = ("1.00", "0.60", "0.20") if known else ("0.00", "0.40", "0.80")
    assert told == [RunProgress(step, 3, f"β {figure}") for step, figure in enumerate(figures)]
    least = annealed_importance.AnnealedImportanceSampling(
        annealed_importance.AnnealingProblem((h,), (np.zeros(3),), chains=2, temperatures=1)
    )
    assert np.isfinite(run_algorithm(least)[0].log_partition)


def test_the_way_back_begins_at_rows_spread_over_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealed_importance, "LONG", 0)
    rows = np.arange(30.0).reshape(10, 3) / 10 + 0.01
    problem = annealed_importance.AnnealingProblem((of(3, 2, "rate:3"),), (np.zeros(3),), chains=4, known=(rows,))
    np.testing.assert_array_equal(annealed_importance.AnnealedImportanceSampling(problem).init().values[0], np.rint(rows[[0, 3, 6, 9]]))


def test_rows_given_in_part_are_held_fast() -> None:
    h = of(4, 3, scale=2.0)
    given = np.array([[1.0, np.nan, 0.0, np.nan], [np.nan, np.nan, np.nan, 1.0]] * 3)
    problem = gibbs_samples.SamplingProblem((h,), 6, burn_in=4, given=given)
    (rows,) = run_algorithm(gibbs_samples.BlockGibbsSampling(problem)).rows
    known = ~np.isnan(given)
    np.testing.assert_array_equal(rows[known], given[known])
    (means,) = run_algorithm(gibbs_samples.BlockGibbsSampling(replace(problem, means=True))).rows
    np.testing.assert_array_equal(means[known], given[known])
    assert ((means[~known] > 0) & (means[~known] < 1)).all()
    with pytest.raises(BadUsage, match="there are 6 rows to complete, but 3 chains; each row needs one chain"):
        replace(problem, chains=3)


def test_layers_cost_as_their_weights() -> None:
    rows = RANDOM.integers(0, 2, (12, 6)).astype(np.int8)
    problem = layerwise_learning.StackingProblem(rows, (4, 3), Settings(epochs=2, batch_size=5))  # 24 and 12 weights, 6 updates each
    algorithm = layerwise_learning.LayerwiseLearning(problem)
    assert algorithm.steps == 12
    state, told, inside = algorithm.init(), [], []
    while not algorithm.done(state):
        told.append(algorithm.progress(state))
        inside.append(algorithm._layer_learning(state.finished).progress(state.current).figure)
        state = algorithm.step(state)
    told.append(algorithm.progress(state))
    inside.append(algorithm._layer_learning(state.finished).progress(state.current).figure)
    shares = np.concatenate([np.arange(7) * 24 / 6, 24 + np.arange(1, 7) * 12 / 6]) / 36
    np.testing.assert_allclose([now.share for now in told], shares, atol=1e-12)
    layers = ["layer 1 of 2"] * 6 + ["layer 2 of 2"] * 7
    assert [now.figure for now in told] == [f"{layer}, {figure}" if figure else layer for layer, figure in zip(layers, inside, strict=True)]
    assert any(inside)
    assert [(now.step, now.bound) for now in told] == [(step, 12) for step in range(13)]
    lower, upper = algorithm.result(state)
    assert (lower.W.shape, upper.W.shape, lower.trace.reconstruction.shape) == ((1, 6, 4), (1, 4, 3), (2, 1))


def test_what_a_resumed_run_is_read_into_has_the_shapes_of_its_start() -> None:
    rows = RANDOM.integers(0, 2, (12, 6)).astype(np.int8)
    stacked = layerwise_learning.LayerwiseLearning(layerwise_learning.StackingProblem(rows, (4, 3), Settings(epochs=2, batch_size=5)))
    learning = RBMLearning(LearningProblem(ROWS, Settings(epochs=2, algorithm="fpcd", **PLAIN)))
    sampled = gibbs_samples.BlockGibbsSampling(gibbs_samples.SamplingProblem((of(3, 2),), 7, chains=3, burn_in=2))
    assert (stacked.state_template().step, stacked.init().step, stacked.state_template().finished) == (0, 0, [])
    for like, begun in (
        (stacked.state_template().current, stacked.init().current),
        (learning.state_template(), learning.init()),
        (sampled.state_template(), sampled.init()),
    ):
        for name, part in vars(begun).items():
            if isinstance(part, np.ndarray):
                assert (getattr(like, name).shape, getattr(like, name).dtype) == (part.shape, part.dtype)
    assert not sampled.state_template().rows.any()
    assert stacked.memory() == stacked._layer_learning([]).memory() > 0


# products of sparse matrices ----------------------------------------------------------------------


def test_matrices_of_few_entries_are_multiplied_by_their_entries() -> None:
    assert (phases.SPARSE, phases.WORTH) == (0.4, 2**20)
    matrix = np.zeros((5, 4), dtype=np.float32)
    matrix.flat[:8] = 1.0
    assert phases.has_few_nonzeros(matrix)  # 8 of 20
    matrix.flat[8] = 1.0
    assert not phases.has_few_nonzeros(matrix)
    scratch = phases.PhaseScratch.allocate(5, 4, 3)
    assert [part.shape for part in list(vars(scratch).values())[:7]] == [(10, 4), (10, 3), (5, 3), (5, 4), (5, 3), (5, 4), (4, 3)]
    right, out = np.arange(12, dtype=np.float32).reshape(4, 3), np.full((5, 3), 7.0, dtype=np.float32)
    for sparse in (True, False):
        phases.multiply_into(matrix, right, out, sparse, scratch)
        np.testing.assert_array_equal(out, matrix @ right)
    assert phases.squared_distance_in_place(np.array([[1.0, 2.0]]), np.array([[0.0, 4.0]])) == 5.0
