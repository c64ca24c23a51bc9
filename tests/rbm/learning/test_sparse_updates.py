"""Updates that cost what is on: the same learning as with all weights, exact draws, the same bytes however rows are stored and run."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from herdcli.algorithm import run_algorithm
from herdcli.artifacts.sealed.checkpoints import load_checkpoint, save_checkpoint
from herdcli.rbm import class_models
from herdcli.rbm.learning import learning_problem, parallel_fits, sparse_updates
from herdcli.rbm.learning import learning_state as state_module
from herdcli.rbm.learning.parallel_fits import LearningProblem, Settings


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models count as wide, and weights are brought up to date after few updates."""
    monkeypatch.setattr(learning_problem, "WIDE", 0)
    monkeypatch.setattr(learning_problem, "FEW", 2.0)
    monkeypatch.setattr(sparse_updates, "WINDOW", 5)
    monkeypatch.setattr(sparse_updates, "TOGETHER", 7)


def rows(n: int = 120, D: int = 30, words: bool = False) -> np.ndarray:
    random = np.random.default_rng(4)
    p = np.linspace(0.02, 0.4, D)
    X = random.poisson(p, (n, D)) if words else random.random((n, D)) < p
    X[:, 3] = 0
    X[:, 10] = np.maximum(X[:, 10], X.sum(axis=1) == 0)
    return X.astype(np.float32 if words else np.int8)


def begun(settings: Settings, X: Any, map: Any = map) -> tuple[parallel_fits.RBMLearning, parallel_fits.LearningState]:
    run = parallel_fits.RBMLearning(LearningProblem([parallel_fits.SelectedRows(X, np.arange(X.shape[0]))], settings), map)
    state = run.init()
    assert state.lag is not None
    return run, state


@pytest.mark.parametrize(
    "settings", [{"centering": True}, {"centering": True, "bias_rate": 0.02, "hidden_units": "spin"}, {"visible_units": "words"}]
)
def test_learning_is_that_of_all_weights(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    """Against the update of every weight in float64, chains being given: momentum, decay, centring, biases, constant columns."""
    words, spin = "visible_units" in settings, settings.get("hidden_units") == "spin"
    X = rows(words=words)
    shown = rows(240, words=words)[120:]
    n, K, rate, momentum, decay = 10, 4, 0.3 if not words else 0.02, 0.9, 0.01
    given = Settings(K, epochs=3, batch_size=n, learning_rate=rate, momentum=momentum, weight_decay=decay, **settings)
    chains: dict[str, Any] = {}

    def down(
        own: sparse_updates.LaggingModel, states: np.ndarray, data: sparse_updates.ActiveUnitList, step: int, sweep: int, map: Any, lag: Any
    ) -> sparse_updates.ActiveUnitList:
        del own, states, data, sweep, map, lag
        chains["rows"] = shown[step : step + n]
        return sparse_updates._list_active_units(chains["rows"], np.arange(n))

    monkeypatch.setattr(sparse_updates, "_sample_visible", down)
    run, state = begun(given, sparse.csr_array(X))
    W, b, c = (part[0].astype(np.float64) for part in (state.W, state.b, state.c))
    moved = [np.zeros_like(part) for part in (W, b, c)]
    mean, above, updates = X.mean(axis=0), state.hidden_mean[0].astype(np.float64) if settings.get("centering") else 0, run.steps
    constant = run.problem.constant_columns(0)
    for step in range(updates):
        epoch, batch = divmod(step, 12)
        order = run.problem.order(0, epoch)[batch * 10 : batch * 10 + 10]
        state = run.step(state)
        v, chain = X[order].astype(np.float64), chains["rows"].astype(np.float64)
        h, other = ((np.tanh if spin else expit)(x @ W + c) for x in (v, chain))
        G, Gb, Gc = (v.T @ h - chain.T @ other) / n, (v - chain).mean(axis=0), (h - other).mean(axis=0)
        left = rate * (1 - step / updates)
        left_b = settings.get("bias_rate", rate) * (1 - step / updates)
        if settings.get("centering"):
            above = above + 0.01 * (h.mean(axis=0) - above)
            G -= np.outer(Gb, above) + np.outer(mean, Gc)
            G[constant] = 0
            Gb, Gc = Gb - left / left_b * G @ above, Gc - left / left_b * mean @ G
        G[constant] = 0
        for number, (part, gradient, r, lost) in enumerate(((W, G, left, decay), (b, Gb, left_b, 0), (c, Gc * (not words), left_b, 0))):
            moved[number] = momentum * moved[number] + r * (gradient - lost * part)
            part += moved[number]
    assert constant.any()
    assert np.abs(W).max() > 0.05
    for found, expected in zip((state.W, state.b, state.c, state.W_velocity), (W, b, c, moved[0]), strict=True):
        np.testing.assert_allclose(found[0], expected, rtol=1e-3, atol=2e-5)


def lagging(words: bool = False, scale: float = 1.0, updates: int = 3) -> sparse_updates.LaggingModel:
    """A model whose weights lag after some updates."""
    settings = Settings(4, epochs=9, batch_size=10, learning_rate=0.01 if words else 0.2, initial_scale=scale, centering=not words)
    run, state = begun(replace(settings, visible_units="words" if words else "binary"), rows(words=words))
    for _ in range(updates):
        run.step(state)
    own = sparse_updates.LaggingModel(run.problem, state, 0, state.lag)
    assert np.unique(own.lag).size > 1
    return own


def current(own: sparse_updates.LaggingModel) -> np.ndarray:
    W, V = np.empty_like(own.W), np.empty_like(own.V)
    sparse_updates.fast.current_rows(own.W, own.V, np.arange(len(own.W)), own.lag, own.P, own.Q, own.mean, W, V)
    return W


def dense_rows(shown: sparse_updates.ActiveUnitList, D: int) -> np.ndarray:
    found = np.zeros((len(shown.starts) - 1, D))
    np.add.at(found, (np.repeat(np.arange(len(found)), np.diff(shown.starts)), shown.units), shown.values)
    return found


def test_two_state_units_are_drawn_by_their_probabilities() -> None:
    own, n = lagging(), 8
    h = np.random.default_rng(0).integers(0, 2, (n, 4)).astype(np.float32)
    p = expit(own.b + h @ current(own).T)
    total, draws = np.zeros_like(p), 4000
    for seed in range(draws):
        total += dense_rows(sparse_updates._sample_two_state_visible(own, h, np.random.Generator(np.random.Philox(seed))), p.shape[1])
    off = (total - draws * p) / np.sqrt(draws * p * (1 - p) + 1e-9)
    assert np.abs(off).max() < 4.5
    assert np.square(off).mean() == pytest.approx(1, abs=0.35)


@pytest.mark.parametrize("tries", [1.0, np.inf], ids=["one table", "a table for each row"])
def test_words_are_drawn_by_their_shares(tries: float) -> None:
    """Also where hidden states are those that a word's bound is reached at."""
    own, length = lagging(words=True), 30000
    lag = state_module.LaggedWeights(
        own.lag[None], np.array([own.now]), own.P[None], own.Q[None], own.extents[None], np.array([tries / length])
    )
    W = current(own)
    h = np.stack([W[np.argmax(np.abs(W[:, k]))] > 0 for k in range(3)]).astype(np.float32)
    data = sparse_updates.ActiveUnitList(np.arange(4), np.zeros(3, np.int32), np.full(3, length, np.float32))
    x = own.b + h @ W.T.astype(np.float64)
    shares = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    counts = dense_rows(sparse_updates._sample_visible(own, h, data, 0, 0, map, lag), len(own.b))
    assert (counts.sum(axis=1) == length).all()
    assert ((np.square(counts - length * shares) / (length * shares)).sum(axis=1) < 58.3).all()  # χ² of 29 degrees of freedom, p = .001
    upper = own.b + own.extents[2] + own.slack * own.hidden_norms(h).max()
    expected = np.exp(upper.astype(np.float64)).sum() * np.exp(-np.log(np.exp(x).sum(axis=1))).mean()
    assert lag.tries[0] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("words", [False, True])
def test_storage_threads_and_breaks_change_no_byte(words: bool, tmp_path: Path) -> None:
    X = rows(300, words=words)
    settings = Settings(4, epochs=2, batch_size=128, learning_rate=0.01, steps=2, visible_units="words" if words else "binary")
    run, state = begun(settings, sparse.csr_array(X))
    expected = run_algorithm(run, copy.deepcopy(state))
    with ThreadPoolExecutor(2) as pool:
        others = [run_algorithm(begun(settings, X)[0]), run_algorithm(begun(settings, sparse.csr_array(X), pool.map)[0])]
    run.step(state)
    save_checkpoint(str(tmp_path / "c.h5"), state, "d")
    others.append(run_algorithm(run, load_checkpoint(str(tmp_path / "c.h5"), run.state, "d", template=run.state_template)))
    assert np.isfinite(expected.trace).all()
    assert (expected.trace > 0).all()
    for other in others:
        for name in ("W", "b", "c", "W_velocity", "trace"):
            np.testing.assert_array_equal(getattr(other, name), getattr(expected, name))


@pytest.mark.parametrize("words", [False, True])
def test_a_run_that_goes_on_is_one_long_run(words: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_updates, "WORTH", 0.01)  # one table for a minibatch, but for the first
    X = rows(words=words)
    units = {"visible_units": "words"} if words else {"centering": True}
    settings = Settings(4, epochs=4, batch_size=10, learning_rate=0.02, rate_decay="none", **units)
    expected = run_algorithm(begun(settings, X)[0])
    half = run_algorithm(begun(replace(settings, epochs=2), X)[0])
    kept = learning_problem.InitialModels(half.W, half.b, half.c, 2, class_models._resumable_state(half, 0), half.trace)
    found = run_algorithm(parallel_fits.RBMLearning(replace(begun(settings, X)[0].problem, begun=kept)))
    for name in ("W", "b", "c", "W_velocity", "trace"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_what_needs_all_weights_has_them() -> None:
    X = rows()
    for more in (
        {"algorithm": "pcd"},
        {"l1_decay": 0.1},
        {"average": 3},
        {"optimizer": "adam"},
        {"hidden_units": "binary", "mean_field": "both"},
    ):
        assert not LearningProblem([X], Settings(4, **more)).uses_sparse_updates
    assert LearningProblem([X], Settings(4)).uses_sparse_updates


def test_models_of_few_weights_or_full_rows_are_learned_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert not LearningProblem([rows()], Settings(4)).uses_sparse_updates
    wide_rows = np.zeros((40, 3000), np.int8)
    wide_rows[np.arange(40), np.arange(40)] = 1
    assert LearningProblem([wide_rows], Settings(400)).uses_sparse_updates
    assert not LearningProblem([1 - wide_rows], Settings(400)).uses_sparse_updates
    assert not LearningProblem([wide_rows], Settings(300)).uses_sparse_updates
