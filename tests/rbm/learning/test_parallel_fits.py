"""CD and persistent CD against exact gradients, against a plain float64 program, and against themselves."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from herdcli import fast
from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError, Diverged
from herdcli.rbm.learning import minibatch_statistics, minibatch_update, parallel_fits, phases
from herdcli.rbm.learning.learning_problem import SPARE
from herdcli.rbm.learning.minibatch_statistics import BatchStatistics
from herdcli.rbm.learning.parallel_fits import LearningProblem, LearningState, Settings
from herdcli.rbm.likelihood import enumeration, row_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family
from herdcli.rbm.units.two_state import uniform_uint16
from herdcli.rng import Stream, generator

PARTS = ("W", "b", "c", "W_velocity", "b_velocity", "c_velocity", "trace", "chain")
MIXES = list(itertools.product(("binary", "spin"), repeat=2))


@pytest.fixture(params=["python", "cython"])
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test with the NumPy loops and with the compiled ones."""
    before = fast.loops_in_use()
    if request.param == "cython":
        pytest.importorskip("herdcli.fast._gibbs", reason="the compiled loops are not built")
    fast.use_loops(request.param)
    yield request.param
    fast.use_loops(before)


def rows(n: int, D: int, *, units: str = "binary", seed: int = 0) -> np.ndarray:
    """Noisy copies of four patterns."""
    random = np.random.default_rng([seed, n, D])
    patterns = random.random((4, D)) < 0.5
    on = patterns[random.integers(0, 4, n)] ^ (random.random((n, D)) < 0.1)
    return on.astype(np.uint8) if units == "binary" else np.where(on, 1, -1).astype(np.int8)


def fit(problem: LearningProblem, state: LearningState | None = None, *, until: int | None = None, **options: object) -> LearningState:
    state = parallel_fits.RBMLearning(problem).init() if state is None else state
    while state.step < (parallel_fits.RBMLearning(problem).steps if until is None else until):
        state = parallel_fits.RBMLearning(problem, **options).step(state)  # type: ignore[arg-type]
    return state


def assert_same(one: LearningState, two: LearningState) -> None:
    assert one.step == two.step
    for part in PARTS:
        first, second = getattr(one, part), getattr(two, part)
        assert (first is None and second is None) or np.array_equal(first, second), part


def multiply_by_entries(monkeypatch: pytest.MonkeyPatch, always: bool) -> None:
    """Have contrastive divergence take every product it can by its left side's entries, or none."""
    monkeypatch.setattr(phases, "WORTH", 0 if always else np.inf)
    monkeypatch.setattr(phases, "SPARSE", 1.0)


# exact gradients ---------------------------------------------------------------------------------


def exact_gradient(h: Harmonium, v: np.ndarray) -> np.ndarray:
    """d/dW of the mean log-likelihood of rows v (n, D): both expectations summed, the model's over all states."""
    states = np.array(list(itertools.product(h.visible.states, repeat=len(h.b))), dtype=np.float64)
    p = np.exp(-h.free_energy(states))
    p /= p.sum()
    v = v.astype(np.float64)
    return v.T @ h.hidden_means(v) / len(v) - (states * p[:, None]).T @ h.hidden_means(states)


def strong_model(problem: LearningProblem) -> tuple[LearningState, Harmonium]:
    """A state whose chains mix slowly enough that CD-1 is clearly biased."""
    state, random = parallel_fits.RBMLearning(problem).init(), np.random.default_rng(7)
    state.W[0] = random.normal(0, 1.0, state.W[0].shape)
    state.b[0], state.c[0] = random.normal(0, 0.5, state.b[0].shape), random.normal(0, 0.5, state.c[0].shape)
    settings = problem.settings
    parts = (state.W[0].astype(np.float64), state.b[0].astype(np.float64), state.c[0].astype(np.float64))
    return state, Harmonium(*parts, unit_family(settings.visible_units), unit_family(settings.hidden_units))


@pytest.mark.parametrize(("visible", "hidden"), MIXES)
def test_cd_approaches_the_exact_gradient_as_k_grows(kernels: str, visible: str, hidden: str) -> None:
    n = 30_000
    data = rows(n, 4, units=visible)
    distance = {}
    for k in (1, 40):
        settings = Settings(3, steps=k, epochs=1, batch_size=0, learning_rate=1, momentum=0, weight_decay=0)
        problem = LearningProblem([data], replace(settings, visible_units=visible, hidden_units=hidden))
        state, model = strong_model(problem)
        state = parallel_fits.RBMLearning(problem).step(state)
        distance[k] = np.abs(state.W_velocity[0] - exact_gradient(model, data)).max()
    deviation = 0.5 if visible == hidden == "binary" else 1.0  # at most, of a product of two units
    noise = deviation * np.sqrt(2 / n)
    assert distance[40] < 5 * noise < distance[1]


def test_persistent_chains_reach_the_exact_gradient_over_steps(kernels: str) -> None:
    """With a rate too small to move the model, one sweep a step: the statistics become the model's own."""
    n, T = 20_000, 50
    settings = Settings(3, algorithm="pcd", chains=n, epochs=T, batch_size=0, learning_rate=1e-9, momentum=0, weight_decay=0)
    problem = LearningProblem([rows(500, 4)], settings)
    state, model = strong_model(problem)
    exact = exact_gradient(model, problem.rows[0])
    state = parallel_fits.RBMLearning(problem).step(state)
    at_first = np.abs(state.W_velocity[0] / 1e-9 - exact).max()
    state = fit(problem, state)
    at_last = np.abs(state.W_velocity[0] / (1e-9 / T) - exact).max()
    assert at_last < 4 / np.sqrt(n) < at_first


def test_learning_raises_the_exact_likelihood(kernels: str) -> None:
    data = rows(400, 10)
    for algorithm in ("cd", "pcd"):
        problem = LearningProblem([data], Settings(6, algorithm=algorithm, epochs=30))
        scores = []
        for state in (parallel_fits.RBMLearning(problem).init(), fit(problem)):
            parts = (np.asarray(part[0], dtype=np.float64) for part in (state.W, state.b, state.c))
            model = Harmonium(*parts, unit_family("binary"), unit_family("binary"))
            scores.append(row_likelihood.row_log_likelihood(model, data, enumeration.exact_log_partition(model)).mean())
        assert scores[1] > scores[0] + 1


# a plain program ----------------------------------------------------------------------------------


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


class Plain:
    """The docstring of `learning_settings`, one model, float64, no blocks, no sparse products, nothing in place."""

    def __init__(self, problem: LearningProblem, state: LearningState) -> None:
        self.settings, self.rows, self.chains = problem.settings, problem.rows[0], problem.chains
        self.theta = [getattr(state, part)[0].astype(np.float64) for part in "Wbc"]
        self.velocity = [np.zeros_like(part) for part in self.theta]
        self.chain = None if state.chain is None else state.chain[0].astype(np.float64)
        self.error = np.zeros(self.settings.epochs)

    def conditional(self, natural: np.ndarray, units: str, draws: np.random.Generator | None) -> tuple[np.ndarray, np.ndarray]:
        low, high = unit_family(units).states
        p = logistic((high - low) * natural)
        states = np.zeros_like(p)
        if draws is not None:
            words = uniform_uint16(draws, len(p), p.shape[1] + 1).astype(np.float64)
            states = np.where(words[:, :-1] + words[:, -1:] / 2**16 < 2**16 * p, high, low)
        return low + (high - low) * p, states

    def step(self, t: int) -> None:
        settings, (W, b, c) = self.settings, self.theta
        n = len(self.rows)
        batches = -(-n // (settings.batch_size or n))
        epoch, batch = divmod(t, batches)
        order = generator(settings.seed, Stream.SHUFFLE, unit=0, step=epoch).permutation(n)
        v = self.rows[order[batch * n // batches : (batch + 1) * n // batches]].astype(np.float64)
        draws = generator(settings.seed, Stream.GIBBS, unit=0, step=t)
        cd = settings.algorithm == "cd"
        h_mean, h = self.conditional(v @ W + c, settings.hidden_units, draws if cd or batch == 0 else None)
        if not cd and batch == 0:
            self.error[epoch] = ((v - self.conditional(h @ W.T + b, settings.visible_units, None)[0]) ** 2).mean()
        if not cd:
            h = self.chain
        for sweep in range(settings.steps):
            v_mean, fantasy = self.conditional(h @ W.T + b, settings.visible_units, draws)
            if cd and sweep == 0:
                self.error[epoch] += ((v - v_mean) ** 2).sum() / self.rows.size
            last = cd and sweep == settings.steps - 1
            fantasy_mean, h = self.conditional(fantasy @ W + c, settings.hidden_units, None if last else draws)
        if not cd:
            self.chain = h
        gradient = [
            v.T @ h_mean / len(v) - fantasy.T @ fantasy_mean / len(fantasy) - settings.weight_decay * W,
            v.mean(axis=0) - fantasy.mean(axis=0),
            h_mean.mean(axis=0) - fantasy_mean.mean(axis=0),
        ]
        rate = settings.learning_rate * (1 - t / (settings.epochs * batches))
        self.velocity = [settings.momentum * old + rate * new for old, new in zip(self.velocity, gradient, strict=True)]
        self.theta = [old + change for old, change in zip(self.theta, self.velocity, strict=True)]


CASES = [
    Settings(7, epochs=4, batch_size=10),
    Settings(7, epochs=4, batch_size=10, momentum=0.5, weight_decay=0.1, learning_rate=0.3, seed=2**64 - 1),
    Settings(7, epochs=3, batch_size=16, steps=3, visible_units="spin"),
    Settings(5, epochs=3, batch_size=0, hidden_units="spin"),
    Settings(5, epochs=3, batch_size=13, visible_units="spin", hidden_units="spin", steps=2),
    Settings(7, epochs=4, batch_size=10, algorithm="pcd"),
    Settings(7, epochs=4, batch_size=10, algorithm="pcd", chains=3, steps=2, hidden_units="spin"),
    Settings(7, epochs=4, batch_size=0, algorithm="pcd", chains=90),
]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("settings", CASES, ids=range(len(CASES)))
def test_learning_follows_a_plain_program(kernels: str, settings: Settings, sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    multiply_by_entries(monkeypatch, sparse)
    problem = LearningProblem([rows(47, 12, units=settings.visible_units)], settings)
    state = parallel_fits.RBMLearning(problem).init()
    plain = Plain(problem, copy.deepcopy(state))
    for t in range(parallel_fits.RBMLearning(problem).steps):
        parallel_fits.RBMLearning(problem).step(state)
        plain.step(t)
        for mine, theirs in zip((state.W, state.b, state.c), plain.theta, strict=True):
            np.testing.assert_allclose(mine[0], theirs, rtol=0, atol=2e-5)
    np.testing.assert_allclose(state.trace[:, 0], plain.error, rtol=1e-4)
    if plain.chain is not None:
        assert state.chain is not None
        assert np.array_equal(state.chain[0], plain.chain)


@pytest.mark.parametrize("algorithm", ["cd", "pcd"])
def test_statistics_add_up_over_blocks_of_rows(kernels: str, algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without weights the conditionals do not depend on what is sampled before, so blocks may only change the samples."""
    settings = Settings(4, algorithm=algorithm, chains=70 * (algorithm == "pcd"), epochs=1, batch_size=0, momentum=0, learning_rate=1)
    updates = []
    for block in (1000, 32):
        monkeypatch.setattr("herdcli.rbm.learning.minibatch_statistics.BLOCK", block)
        problem = LearningProblem([rows(100, 6)], settings)
        state = parallel_fits.RBMLearning(problem).init()
        state.W[:], state.c[:], state.b[:] = 0, 0.5, [-100, 100, -100, 100, -100, 100]
        parallel_fits.RBMLearning(problem).step(state)
        updates.append(state)
    for part in ("W_velocity", "b_velocity", "c_velocity", "trace"):
        np.testing.assert_allclose(getattr(updates[0], part), getattr(updates[1], part), rtol=1e-5, atol=1e-6)
    assert np.abs(updates[0].W_velocity).max() > 0.1


def test_only_matrices_with_few_entries_are_multiplied_by_their_entries(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense and noisy rows at first differ in more than SPARSE of their units from what the chain shows; later in fewer."""
    monkeypatch.setattr(phases, "WORTH", 0)
    shares: list[float] = []
    product = fast.add_sparse_product

    def spy(sparse: np.ndarray, *others: np.ndarray) -> None:
        shares.append(np.count_nonzero(sparse) / sparse.size)
        product(sparse, *others)

    monkeypatch.setattr(fast, "add_sparse_product", spy)
    problem = LearningProblem([rows(300, 40)], Settings(30, epochs=20, batch_size=99))
    parallel_fits.RBMLearning(problem).step(state := parallel_fits.RBMLearning(problem).init())
    assert shares == []
    fit(problem, state)
    assert len(shares) > 0
    assert max(shares) <= phases.SPARSE


# against itself -----------------------------------------------------------------------------------

SEVERAL = [rows(60, 9, seed=1), rows(17, 9, seed=2), rows(33, 9, seed=3)]


@pytest.mark.parametrize("settings", [Settings(8, epochs=5, batch_size=10, steps=2), Settings(8, epochs=5, batch_size=10, algorithm="pcd")])
def test_twins_learn_the_same_bits(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("herdcli.fast._gibbs", reason="the compiled loops are not built")
    before = fast.loops_in_use()
    for sparse in (True, False):
        multiply_by_entries(monkeypatch, sparse)
        results = []
        for name in ("python", "cython"):
            fast.use_loops(name)
            results.append(fit(LearningProblem(SEVERAL, settings)))
        fast.use_loops(before)
        assert_same(*results)


@pytest.mark.parametrize("algorithm", ["cd", "pcd"])
def test_threads_and_order_of_the_models_change_nothing(kernels: str, algorithm: str) -> None:
    settings = Settings(8, epochs=5, batch_size=10, algorithm=algorithm)
    alone = fit(LearningProblem(SEVERAL, settings))
    with ThreadPoolExecutor(3) as pool:
        assert_same(alone, fit(LearningProblem(SEVERAL, settings), map=pool.map))
    assert_same(alone, fit(LearningProblem(SEVERAL, settings), map=lambda work, models: [work(model) for model in reversed(models)]))


@pytest.mark.parametrize("algorithm", ["cd", "pcd"])
@pytest.mark.parametrize("cut", [1, 5, 6, 7, 13])
def test_a_resumed_fit_ends_where_an_uninterrupted_one_ends(kernels: str, algorithm: str, cut: int) -> None:
    settings = Settings(8, epochs=4, batch_size=10, algorithm=algorithm, steps=2)
    saved = copy.deepcopy(fit(LearningProblem(SEVERAL, settings), until=cut))
    assert saved.step == cut < parallel_fits.RBMLearning(LearningProblem(SEVERAL, settings)).steps
    assert_same(fit(LearningProblem(SEVERAL, settings)), fit(LearningProblem(SEVERAL, settings), saved))


def test_a_model_does_not_depend_on_its_neighbours_and_rests_when_it_is_done(kernels: str) -> None:
    settings = Settings(8, epochs=4, batch_size=10)
    together, other = fit(LearningProblem(SEVERAL, settings)), fit(LearningProblem([SEVERAL[0][:5], SEVERAL[1]], settings))
    assert np.array_equal(together.W[1], other.W[1])
    problem = LearningProblem(SEVERAL, settings)
    assert [problem.batches(m) for m in range(3)] == [6, 2, 4]
    assert parallel_fits.RBMLearning(problem).steps == 24
    state = fit(problem, until=8)
    assert np.array_equal(state.W[1], together.W[1])
    assert not np.array_equal(state.W[2], together.W[2])


@pytest.mark.parametrize("algorithm", ["cd", "pcd", "rpcd", "fpcd"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("batch", "chains"), [(100, 0), (130, 210), (0, 40)])
def test_threads_share_the_blocks_of_one_model_and_change_nothing(
    kernels: str, algorithm: str, sparse: bool, batch: int, chains: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    multiply_by_entries(monkeypatch, sparse)
    options = {"centering": True, "l1_decay": 1e-3, "sparsity_target": 0.2, "chains": 0 if algorithm == "cd" else chains}
    problem = LearningProblem([rows(620, 9)], Settings(8, algorithm, epochs=2, batch_size=batch, **options))  # type: ignore[arg-type]
    alone = fit(problem)
    with ThreadPoolExecutor(3) as pool:
        assert_same(alone, fit(problem, map=pool.map))
    assert_same(alone, fit(problem, map=lambda work, items: reversed([work(item) for item in reversed(items)])))


@pytest.mark.parametrize(("rows_", "chains"), [(99, 99), (100, 100), (7, 131), (512, 20), (1200, 700), (1, 513)])
def test_blocks_take_every_row_and_chain_once_in_places_of_their_own(rows_: int, chains: int) -> None:
    groups = minibatch_statistics.split_minibatch(rows_, chains)
    parts = [part for group in groups for part in group]
    assert [part.number for part in parts] == list(range(len(parts)))
    for name, total in (("rows", rows_), ("chains", chains)):
        taken = [i for part in parts for i in range(getattr(part, name).start, getattr(part, name).stop)]
        assert taken == list(range(total))
    for group in groups:
        for part in group:
            n, m = part.rows.stop - part.rows.start, part.chains.stop - part.chains.start
            assert (part.both.stop - part.both.start, part.once.stop - part.once.start) == (n + m, max(n, m))
        ends = [(part.both.stop, part.once.stop) for part in group]
        assert [(part.both.start, part.once.start) for part in group] == [(0, 0), *ends[:-1]]
        assert ends[-1][0] <= 2 * minibatch_statistics.BLOCK
        assert ends[-1][1] <= minibatch_statistics.BLOCK + SPARE
    assert (len(parts) > 1) == (max(rows_, chains) >= 100)


def test_the_seed_decides(kernels: str) -> None:
    first, second = (fit(LearningProblem([SEVERAL[0]], Settings(8, epochs=1, seed=seed))) for seed in (1, 2))
    assert not np.array_equal(first.W, second.W)


def test_minibatches_are_a_partition_of_every_epoch_in_nearly_equal_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = LearningProblem([rows(47, 3)], Settings(2, epochs=2, batch_size=10))
    seen: list[np.ndarray] = []
    original = minibatch_update.batch_statistics

    def spy(problem: LearningProblem, state: LearningState, m: int, order: np.ndarray, step: int, **options: Any) -> BatchStatistics:
        seen.append(order.copy())
        return original(problem, state, m, order, step, **options)

    monkeypatch.setattr(minibatch_update, "batch_statistics", spy)
    fit(problem)
    assert [len(part) for part in seen] == [9, 9, 10, 9, 10] * 2
    epochs = np.concatenate(seen[:5]), np.concatenate(seen[5:])
    assert all(sorted(epoch) == list(range(47)) for epoch in epochs)
    assert not np.array_equal(*epochs)


@pytest.mark.parametrize("units", ["binary", "spin"])
def test_first_visible_means_are_the_datas_with_a_row_of_each_value(units: str) -> None:
    data = rows(98, 5, units=units)
    data[:, 0] = data.max()
    state = parallel_fits.RBMLearning(LearningProblem([data], Settings(3, visible_units=units))).init()
    expected = (data.sum(axis=0, dtype=np.int64) + sum(unit_family(units).states)) / 100
    np.testing.assert_allclose(unit_family(units).mean(state.b[0].astype(np.float64)), expected, atol=1e-6)
    assert np.isfinite(state.b).all()


def test_first_weights_are_normal_with_deviation_one_in_a_hundred() -> None:
    state = parallel_fits.RBMLearning(LearningProblem([rows(10, 50), rows(10, 50)], Settings(200))).init()
    assert state.W.std() == pytest.approx(0.01, rel=0.05)
    assert abs(state.W.mean()) < 5 * 0.01 / np.sqrt(state.W.size)
    assert not np.array_equal(state.W[0], state.W[1])


def test_chains_are_as_many_as_asked_for_or_as_the_batch() -> None:
    def chains(**options: object) -> tuple[int, ...]:
        state = parallel_fits.RBMLearning(LearningProblem(SEVERAL, Settings(8, **options))).init()  # type: ignore[arg-type]
        return () if state.chain is None else state.chain.shape

    assert chains(algorithm="pcd", chains=7, batch_size=10) == (3, 7, 8)
    assert chains(algorithm="pcd", batch_size=10) == (3, 10, 8)
    assert chains(algorithm="pcd", batch_size=0) == (3, 60, 8)
    assert chains(algorithm="cd", batch_size=10) == ()


# what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["cd", "pcd"])
def test_divergence_names_model_epoch_and_remedy(kernels: str, algorithm: str) -> None:
    problem = LearningProblem(SEVERAL, Settings(8, epochs=20, learning_rate=1e5, algorithm=algorithm))
    with pytest.raises(Diverged, match=r"model 0 diverged in epoch \d+") as caught:
        fit(problem)
    assert caught.value.hint == "lower --learning-rate (it is 100000)"


def test_parameters_that_are_not_finite_are_divergence(kernels: str) -> None:
    problem = LearningProblem([SEVERAL[0]], Settings(8))
    state = parallel_fits.RBMLearning(problem).init()
    state.W_velocity[0, 0, 0] = np.nan
    with pytest.raises(Diverged, match="the model diverged in epoch 1"):
        parallel_fits.RBMLearning(problem).step(state)


@pytest.mark.parametrize(
    "bad",
    [
        {"hidden": 0},
        {"algorithm": "sgd"},
        {"steps": 0},
        {"chains": -1},
        {"epochs": 0},
        {"batch_size": -1},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"momentum": 1.0},
        {"weight_decay": -1.0},
        {"visible_units": "gauss"},
        {"hidden_units": "gauss"},
    ],
)
def test_settings_out_of_range_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadUsage, match=next(iter(bad)) if "units" not in next(iter(bad)) else "gauss"):
        Settings(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "there are no rows to learn from"),
        ([np.zeros((0, 4), np.uint8)], "there are no rows"),
        ([np.zeros(4, np.uint8)], "shape"),
        ([np.zeros((3, 4), np.uint8), np.zeros((3, 5), np.uint8)], "shape"),
        ([np.full((3, 4), 2, np.uint8)], "values other than 0 and 1"),
        ([np.full((3, 4), -1, np.int8)], "values other than 0 and 1"),
    ],
)
def test_rows_that_cannot_be_learned_are_refused(bad: list[np.ndarray], message: str) -> None:
    with pytest.raises(DataError, match=message):
        LearningProblem(bad, Settings(2))


def test_a_zero_is_not_a_spin() -> None:
    with pytest.raises(DataError, match="values other than -1 and 1"):
        LearningProblem([np.array([[-1, 0, 1]], dtype=np.int8)], Settings(2, visible_units="spin"))


@pytest.mark.parametrize("algorithm", ["pcd", "pt"])
@pytest.mark.parametrize("chains", [30, 150])
def test_persistent_chains_learn_the_same_from_sparse_products(monkeypatch: pytest.MonkeyPatch, algorithm: str, chains: int) -> None:
    """Sparse rows and what chains show cost their entries; dense products are the same numbers but for their rounding."""
    X = (np.random.default_rng(2).random((240, 20)) < 0.15).astype(np.int8)
    settings = Settings(hidden=9, algorithm=algorithm, chains=chains, epochs=2, batch_size=120, learning_rate=0.01, initial_scale=0.001)
    monkeypatch.setattr(phases, "WORTH", 0)
    seen = []
    real = phases.BlockPhases.add
    monkeypatch.setattr(phases.BlockPhases, "add", lambda self, *rest, **named: (seen.append(self.sparse), real(self, *rest, **named))[1])
    sparse = run_algorithm(parallel_fits.RBMLearning(LearningProblem([X], settings)))
    assert any(seen)
    monkeypatch.setattr(phases, "WORTH", 2**62)
    dense = run_algorithm(parallel_fits.RBMLearning(LearningProblem([X], settings)))
    np.testing.assert_allclose(sparse.W, dense.W, rtol=0, atol=1e-5)
    np.testing.assert_allclose(sparse.b, dense.b, rtol=0, atol=1e-5)
