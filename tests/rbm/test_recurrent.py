"""The recurrent temporal RBM beside enumeration, finite differences and the RBM that it is without links."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from recurrent_models import OFFSETS, PAIRS, bouncing, exact_likelihoods, held, laid, model, rows

from herdcli import fast
from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError, Diverged
from herdcli.rbm.learning.gradients import exact_likelihood_gradient
from herdcli.rbm.likelihood.enumeration import exact_log_partition
from herdcli.rbm.likelihood.row_likelihood import log_pseudo_likelihood, row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.recurrent import exact_sums, gradients, likelihood
from herdcli.rbm.recurrent.learning import RecurrentLearning, RecurrentProblem, SequencePieces
from herdcli.rbm.recurrent.model import (
    NAMES,
    Parameters,
    RecurrentModel,
    SequenceHistory,
    StepHarmoniums,
    TimeOrder,
    compute_step_harmoniums,
)
from herdcli.rbm.recurrent.settings import RecurrentSettings, fill_defaults
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.units import unit_family

# The model --------------------------------------------------------------------------------------------------------


def test_rows_of_ragged_sequences_in_the_order_of_time():
    steps = TimeOrder.from_offsets(OFFSETS)
    assert steps.chosen.tolist() == [4, 0, 3, 5, 1, 6, 2, 7, 8]
    assert steps.bounds.tolist() == [0, 3, 5, 7, 8, 9]
    assert steps.ranks.tolist() == [2, 0, 1]
    assert steps.previous_rows.tolist() == [0, 1, 3, 4, 5, 7]
    assert steps.last_rows.tolist() == [8, 6, 2]
    assert steps.to_sequence_order(steps.chosen).tolist() == list(range(9))


def test_states_follow_the_recursion_row_by_row():
    m, v = model("binary", "binary", 3, 4), rows("binary", 9, 3)
    driven = held(v, OFFSETS).step_harmoniums(m)
    for start, end in itertools.pairwise(OFFSETS.tolist()):
        r = None
        for t in range(start, end):
            b = m.p.b + (m.p.b_first if r is None else r @ m.p.V)
            c = m.p.c + (m.p.c_first if r is None else r @ m.p.U)
            r = 1 / (1 + np.exp(-(c + v[t] @ m.p.W)))
            for found, own in ((driven.b, b), (driven.c, c), (driven.r, r)):
                np.testing.assert_allclose(found[t], own, atol=1e-13)


@pytest.mark.parametrize(("visible", "values", "steps"), [("binary", 2, 4), ("rate:2", 3, 2)])
def test_the_probabilities_of_all_sequences_sum_to_one(visible, values, steps):
    m = model(visible, "binary", 2, 3)
    every = [np.array(states, dtype=float).reshape(steps, 2) for states in itertools.product(range(values), repeat=2 * steps)]
    v, offsets = laid(every)
    total = np.add.reduceat(exact_likelihoods(m, v, offsets), offsets[:-1])
    assert np.exp(total).sum() == pytest.approx(1.0, abs=1e-12)


def test_a_step_has_the_joint_distribution_of_its_harmonium():
    """log p(v_t | r_{t−1}) by the sum over all hidden states, and all rows, of e^{b·v + c·h + v'Wh}."""
    m, v = model("binary", "spin", 3, 2), rows("binary", 4, 3)
    driven, p = held(v, np.array([0, 4])).step_harmoniums(m), m.p
    H = np.array(list(itertools.product((-1, 1), repeat=2)), dtype=float)
    V = np.array(list(itertools.product((0, 1), repeat=3)), dtype=float)
    for t in range(4):
        weight = np.exp(V @ driven.b[t][:, None] + H @ driven.c[t] + V @ p.W @ H.T)
        own = weight[(v[t] == V).all(axis=1)].sum() / weight.sum()
        assert exact_likelihoods(m, v, np.array([0, 4]))[t] == pytest.approx(np.log(own), abs=1e-12)


def test_without_links_it_is_an_rbm():
    """Likelihood and gradient."""
    m, v = model("binary", "binary", 4, 3, links=0.0), rows("binary", 9, 4)
    h = Harmonium(m.p.W, m.p.b, m.p.c, m.visible, m.hidden)
    np.testing.assert_allclose(exact_likelihoods(m, v, OFFSETS), row_log_likelihood(h, v, exact_log_partition(h)), atol=1e-12)
    found = gradient(m, v, SequenceHistory.empty(3, 3))
    W, b, c = (part.astype(np.float32) for part in (m.p.W, m.p.b, m.p.c))
    sweeper = GibbsSweeper(W, b, c, m.visible.layer(), m.hidden.layer(), np.random.default_rng())
    own = exact_likelihood_gradient(sweeper, m.visible, m.hidden, v.astype(np.float32))
    for name in ("W", "b", "c"):
        np.testing.assert_allclose(getattr(found, name), getattr(own, name), atol=1e-6)


# The gradient -----------------------------------------------------------------------------------------------------


def gradient(m: RecurrentModel, v: np.ndarray, before: SequenceHistory) -> Parameters:
    steps = TimeOrder.from_offsets(OFFSETS)
    ordered, ranked = v[steps.chosen], before.select(steps.ranks)
    driven = compute_step_harmoniums(m.p, steps, ordered, ranked, m.hidden.mean)
    return gradients.backpropagate_through_time(
        m.p, steps, ordered, ranked, driven, gradients.exact_phase_differences(m, driven, ordered), m.hidden
    )


@pytest.mark.parametrize(("visible", "hidden", "D", "K"), PAIRS)
def test_gradient_through_time_is_that_of_finite_differences(visible, hidden, D, K):
    """Of the exact log-likelihood of ragged sequences, one of which goes on from a state."""
    m, v = model(visible, hidden, D, K), rows(visible, 9, D)
    require_finite_differences(m, v, SequenceHistory(np.random.default_rng(2).random((3, K)), np.array([True, False, True])), NAMES)


@pytest.mark.parametrize("begins", [[False, True, False], [False, False, False]])
def test_first_biases_are_moved_by_the_sequences_that_begin(begins):
    m, v = model("binary", "binary", 3, 4), rows("binary", 9, 3)
    require_finite_differences(m, v, SequenceHistory(np.random.default_rng(2).random((3, 4)), np.array(begins)), ["b_first", "c_first"])


def require_finite_differences(m: RecurrentModel, v: np.ndarray, before: SequenceHistory, names) -> None:
    found = gradient(m, v, before)

    def mean() -> float:
        driven = m.step_harmoniums(v, TimeOrder.from_offsets(OFFSETS), before)
        return float(likelihood.row_log_likelihoods(m, v, driven).mean())

    for name in names:
        own, slopes = getattr(m.p, name), np.zeros_like(getattr(m.p, name))
        for place in np.ndindex(own.shape):
            kept = own[place]
            own[place] = kept + 1e-5
            above = mean()
            own[place] = kept - 1e-5
            slopes[place] = (above - mean()) / 2e-5
            own[place] = kept
        share = before.begins.sum() / 9 if name.endswith("first") else 1.0  # those are means over the sequences that begin
        np.testing.assert_allclose(share * getattr(found, name), slopes, atol=2e-9)


@pytest.mark.parametrize("units", ["binary", "spin", "rate:4", "softmax:3", "gaussian", "poisson"])
def test_slopes_are_those_of_the_means(units):
    random, kind = np.random.default_rng(3), unit_family(units)
    a, change = random.standard_normal((5, 6)), random.standard_normal((5, 6))
    found = (kind.mean(a + 1e-6 * change) - kind.mean(a - 1e-6 * change)) / 2e-6
    np.testing.assert_allclose(kind.mean_change(kind.mean(a), change), found, atol=1e-8)


def test_contrastive_divergence_approaches_the_gradient_as_k_grows():
    """Of 4,000 copies of each row, which the chains begin at."""
    m, v = model("binary", "binary", 3, 2), rows("binary", 9, 3)
    m.p.W[...] *= 3.0
    driven = held(v, OFFSETS).step_harmoniums(m)
    own = exact_sums.step_expectations(m, driven)
    many = StepHarmoniums(*(np.repeat(part, 4000, axis=0).astype(np.float32) for part in (driven.r, driven.b, driven.c)))
    p, V, gaps = m.p.map_arrays(lambda part: part.astype(np.float32)), np.repeat(v, 4000, axis=0).astype(np.float32), []
    for k in (1, 30):
        found = gradients.contrastive_phase_differences(
            p, many, V, (m.visible.layer(), m.hidden.layer()), k, np.random.Generator(np.random.Philox(5))
        )
        gaps.append(np.abs(found.b.reshape(9, 4000, 3).mean(axis=1) - (v - own.visible)).max())
        pairs = V.T @ many.r - (V - found.b).T @ (many.r - found.c)
        np.testing.assert_allclose(found.W / len(V), pairs / len(V), atol=1e-3)
    assert gaps[1] < 0.04 < 0.08 < gaps[0]


# Sums over states -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visible", "hidden", "D", "K"),
    [
        ("binary", "binary", 20, 14),
        ("gaussian", "spin", 5, 14),
        ("binary", "binary", 13, 30),
        ("spin", "rate:3", 9, 8),
        ("gaussian", "rate:3", 3, 7),
        ("softmax:4", "binary", 8, 15),
    ],
)
def test_log_z_of_each_step_is_that_of_its_harmonium(visible, hidden, D, K):
    """On either side, and beyond the states that are in memory at once."""
    m, random = model(visible, hidden, D, K), np.random.default_rng(4)
    driven = StepHarmoniums(random.random((3, K)), random.standard_normal((3, D)), random.standard_normal((3, K)))
    own = [exact_log_partition(Harmonium(m.p.W, driven.b[t], driven.c[t], m.visible, m.hidden)) for t in range(3)]
    np.testing.assert_allclose(exact_sums.log_z_per_step(m, driven), own, rtol=1e-12)


def test_products_of_large_exponentials_become_sums_of_logarithms():
    m = model("binary", "binary", 40, 6)
    m.p.W[...] *= 40.0
    driven = StepHarmoniums(np.zeros((2, 6)), np.full((2, 40), 30.0), np.zeros((2, 6)))
    own = [exact_log_partition(Harmonium(m.p.W, driven.b[t], driven.c[t], m.visible, m.hidden)) for t in range(2)]
    np.testing.assert_allclose(exact_sums.log_z_per_step(m, driven), own, rtol=1e-12)


def test_what_is_too_large_to_be_summed_is_refused():
    m = model("gaussian", "binary", 3, 21)
    driven = StepHarmoniums(np.zeros((1, 21)), np.zeros((1, 3)), np.zeros((1, 21)))
    with pytest.raises(BadUsage, match=r"needs a layer with at most 2\^20 states, but this model has 3 visible and 21 hidden units"):
        exact_sums.log_z_per_step(m, driven)
    with pytest.raises(BadUsage, match=r"at most 2\^16 states, but this model has"):
        exact_sums.step_expectations(m, driven)


@pytest.mark.parametrize(("visible", "hidden", "D", "K"), [pair for pair in PAIRS if unit_family(pair[0]).support is not None])
def test_pseudo_likelihoods_are_those_of_each_step_s_harmonium(visible, hidden, D, K):
    m, v = model(visible, hidden, D, K), rows(visible, 9, D)
    driven = held(v, OFFSETS).step_harmoniums(m)
    own = [log_pseudo_likelihood(Harmonium(m.p.W, driven.b[t], driven.c[t], m.visible, m.hidden), v[t : t + 1])[0] for t in range(9)]
    np.testing.assert_allclose(likelihood.row_pseudo_log_likelihoods(m, v, driven), own, rtol=1e-12)


# Learning ---------------------------------------------------------------------------------------------------------


def fit(settings: RecurrentSettings, seed: int = 0, valid: bool = True) -> tuple[RecurrentModel, RecurrentProblem]:
    v, offsets = laid(bouncing(30, 20, 6, seed))
    other = laid(bouncing(8, 20, 6, seed + 100)) if valid else None
    problem = RecurrentProblem(v, offsets, settings, None if other is None else held(*other))
    state = run_algorithm(RecurrentLearning(problem))
    return RecurrentModel(state.now.float64(), problem.visible, problem.hidden), problem


def judged(m: RecurrentModel) -> float:
    return float(exact_likelihoods(m, *laid(bouncing(10, 20, 6, 77))).mean())


@pytest.mark.parametrize("algorithm", ["cd", "exact"])
def test_memory_helps_where_no_row_says_what_comes_next(algorithm):
    """A unit that bounces over six places: rows one by one have at most their entropy, −log 6 = −1.79; links have −(log 12)/20 to reach."""
    settings = RecurrentSettings(hidden=6, learning_rate=0.5, epochs=40, algorithm=algorithm, validate_every=10)
    alone, _ = fit(RecurrentSettings(**vars(settings) | {"links": "none"}))
    linked, _ = fit(settings)
    assert judged(alone) < -np.log(6)
    assert judged(linked) > -np.log(6) + 0.6


def test_reconstruction_errors_of_counts_are_those_of_their_shares():
    """Without weights every row is expected to be 3 σ(b), before the first update."""
    v, settings = (
        rows("rate:3", 9, 4),
        RecurrentSettings(hidden=2, algorithm="exact", epochs=1, batch_size=0, initial_scale=0.0, visible_units="rate:3"),
    )
    learning = RecurrentLearning(RecurrentProblem(v.astype(np.int8), OFFSETS, settings, None))
    begun = learning.init()
    b = begun.now.b.astype(np.float64)
    expected = np.mean((v / 3 - 1 / (1 + np.exp(-b))) ** 2)
    assert begun.step == 0
    assert learning.step(begun).trace[0] == pytest.approx(expected, rel=1e-5)
    assert begun.step == 1


def plain(problem: RecurrentProblem, algorithm: RecurrentLearning) -> dict[str, np.ndarray]:
    """The same run as a plain program: piece by piece, row by row, sums over all states, slopes by finite differences, float64."""
    settings, visible, hidden = problem.settings, problem.visible, problem.hidden
    state = algorithm.init()
    p = {name: getattr(state.now, name).astype(np.float64) for name in NAMES}
    carried, velocity = state.carried.astype(np.float64), {name: np.zeros_like(part) for name, part in p.items()}
    D, K = p["W"].shape
    H = np.array(list(itertools.product(hidden.support[:, 0], repeat=K)))
    V = np.array(list(itertools.product(visible.support[:, 0], repeat=D)))
    base = np.add.outer(visible.log_base_measure(V) + np.zeros(len(V)), hidden.log_base_measure(H) + np.zeros(len(H)))

    def run(piece: int) -> tuple[float, np.ndarray]:
        """Σ log p(v_t | r_{t−1}) of a piece, and its last state."""
        total, r = 0.0, carried[piece]
        for t in range(problem.pieces.begin[piece], problem.pieces.end[piece]):
            first = problem.pieces.first[piece] and t == problem.pieces.begin[piece]
            b = p["b"] + (p["b_first"] if first else r @ p["V"])
            c = p["c"] + (p["c_first"] if first else r @ p["U"])
            weight = (V @ b)[:, None] + H @ c + V @ p["W"] @ H.T + base
            mine = weight[(problem.rows[t] == V).all(axis=1)]
            total += np.logaddexp.reduce(mine.ravel()) - np.logaddexp.reduce(weight.ravel())
            r = hidden.mean(problem.rows[t] @ p["W"] + c)
        return total, r

    scale = {"v": visible.scale, "h": hidden.scale}
    sides = {"W": "vh", "U": "hh", "V": "vh", "b": "v", "b_first": "v", "c": "h", "c_first": "h"}
    for step in range(algorithm.steps):
        which = problem.batch(step)
        rows = sum(problem.pieces.end[k] - problem.pieces.begin[k] for k in which)
        begins = max(1, sum(problem.pieces.first[k] for k in which))
        slopes = {}
        for name, part in p.items():
            slopes[name] = np.zeros_like(part)
            for place in np.ndindex(part.shape):
                kept, ends = part[place], []
                for move in (1e-5, -1e-5):
                    part[place] = kept + move
                    ends.append(sum(run(k)[0] for k in which))
                part[place] = kept
                slopes[name][place] = (ends[0] - ends[1]) / 2e-5 / (begins if name.endswith("first") else rows)
        for k in which:
            if k + 1 < len(carried) and not problem.pieces.first[k + 1]:
                carried[k + 1] = run(k)[1]
        for name, part in p.items():
            both = np.prod([scale[side] for side in sides[name]])
            decay = settings.weight_decay * both * part if len(name) == 1 and name.isupper() else 0.0
            rate = settings.learning_rate * (1 - step / algorithm.steps) / both
            velocity[name] = settings.momentum * velocity[name] + rate * (slopes[name] - decay)
            part += velocity[name]
    return p


@pytest.mark.parametrize(("visible", "hidden"), [("binary", "binary"), ("rate:2", "rate:3"), ("spin", "binary")])
def test_learning_follows_a_plain_program(visible, hidden):
    """Batches of pieces, states handed on, rates that fall, momentum, decay, proportions of counts."""
    v, offsets = rows(visible, 11, 2, seed=6), np.array([0, 3, 9, 11])
    units = {"visible_units": visible, "hidden_units": hidden}
    settings = RecurrentSettings(
        hidden=2, algorithm="exact", epochs=3, batch_size=2, window=4, learning_rate=0.3, weight_decay=0.05, seed=3, **units
    )
    problem = RecurrentProblem(v, offsets, settings)
    algorithm = RecurrentLearning(problem)
    assert len(problem.pieces) == 4
    found = run_algorithm(algorithm).now
    for name, part in plain(problem, algorithm).items():
        np.testing.assert_allclose(getattr(found, name), part, atol=2e-5, err_msg=name)


def test_a_run_begins_at_base_rates_and_small_weights():
    v = rows("rate:4", 600, 30)
    problem = RecurrentProblem(
        v, np.array([0, 600]), RecurrentSettings(hidden=40, visible_units="rate:4", hidden_units="rate:9", initial_scale=0.6)
    )
    now = RecurrentLearning(problem).init().now
    np.testing.assert_allclose(now.b, problem.visible.base_rate_parameters(v), rtol=1e-6)
    assert [float(part.std()) for part in (now.W, now.U, now.V)] == pytest.approx([0.1] * 3, rel=0.1)  # 0.6/√(4 · 9)
    assert not any(getattr(now, name).any() for name in ("c", "b_first", "c_first"))


def test_the_trace_is_the_error_of_proportions():
    v = rows("rate:4", 12, 3)
    settings = RecurrentSettings(hidden=2, visible_units="rate:4", algorithm="exact", epochs=1, batch_size=0)
    problem = RecurrentProblem(v, np.array([0, 5, 12]), settings)
    algorithm = RecurrentLearning(problem)
    m = RecurrentModel(algorithm.init().now.float64(), problem.visible, problem.hidden)
    driven = held(v, problem.offsets).step_harmoniums(m)
    shown = m.visible.mean(driven.r @ m.p.W.T + driven.b)
    assert run_algorithm(algorithm).trace[0] == pytest.approx(np.square((v - shown) / 4).mean(), rel=1e-5)


def test_held_out_sequences_are_looked_at_after_the_last_epoch_too():
    v, offsets = laid(bouncing(3, 8, 4))
    found = run_algorithm(
        RecurrentLearning(RecurrentProblem(v, offsets, RecurrentSettings(hidden=2, epochs=7, validate_every=3), held(v, offsets)))
    )
    assert found.figures.shape == (3,)
    assert np.isfinite(found.figures).all()
    assert found.best_epoch == (3, 6, 7)[int(np.argmax(found.figures))]


def test_patience_counts_looks():
    v, offsets = laid(bouncing(5, 12, 4))
    random = np.random.default_rng(0).integers(0, 2, (12, 4)).astype(np.int8)
    settings = RecurrentSettings(hidden=4, epochs=60, learning_rate=1.0, patience=2, validate_every=3)
    found = run_algorithm(RecurrentLearning(RecurrentProblem(v, offsets, settings, held(random, np.array([0, 12])))))
    assert found.stopped == found.best_epoch + 6


def test_means_of_real_columns_may_be_large():
    v = (5000 + np.random.default_rng(0).standard_normal((40, 2))).astype(np.float32)
    now = run_algorithm(
        RecurrentLearning(
            RecurrentProblem(v, np.array([0, 40]), RecurrentSettings(hidden=2, epochs=2, learning_rate=1e-4, visible_units="gaussian"))
        )
    ).now
    np.testing.assert_allclose(now.b, 5000, atol=5)


def test_columns_of_one_value_have_no_weights():
    v, offsets = laid(bouncing(5, 12, 4))
    v[:, 2] = 1
    now = run_algorithm(RecurrentLearning(RecurrentProblem(v, offsets, RecurrentSettings(hidden=2, epochs=2)))).now
    assert not now.W[2].any()
    assert not now.V[:, 2].any()
    assert now.W[[0, 1, 3]].all()


def test_links_that_are_not_asked_for_stay_zero():
    hidden, _ = fit(RecurrentSettings(hidden=3, epochs=2, links="hidden"))
    none, _ = fit(RecurrentSettings(hidden=3, epochs=2, links="none"))
    assert not hidden.p.V.any()
    assert hidden.p.U.any()
    assert not any(getattr(none.p, name).any() for name in ("U", "V", "b_first", "c_first"))


def test_both_kernels_learn_the_same_bytes():
    before, found = fast.loops_in_use(), []
    try:
        for name in ("cython", "python"):
            if name == "cython" and before != "cython":
                pytest.skip("the compiled loops are not there")
            fast.use_loops(name)
            found.append(fit(RecurrentSettings(hidden=3, epochs=2))[0].p)
    finally:
        fast.use_loops(before)
    assert all((getattr(found[0], name) == getattr(found[1], name)).all() for name in NAMES)


def test_a_long_sequence_is_learned_in_pieces_that_hand_their_states_on():
    pieces = SequencePieces.from_offsets(np.array([0, 7, 9, 19]), 4)
    assert pieces.begin.tolist() == [0, 3, 7, 9, 12, 15]
    assert pieces.end.tolist() == [3, 7, 9, 12, 15, 19]
    assert pieces.first.tolist() == [True, False, True, True, False, False]
    chosen, offsets = pieces.rows(np.array([4, 0]))
    assert chosen.tolist() == [12, 13, 14, 0, 1, 2]
    assert offsets.tolist() == [0, 3, 6]

    v, offsets = laid(bouncing(3, 19, 6))
    problem = RecurrentProblem(v, offsets, RecurrentSettings(hidden=3, window=5, batch_size=2, learning_rate=1e-9))
    algorithm = RecurrentLearning(problem)
    state = algorithm.init()
    first = state.carried.copy()
    states = held(v, offsets).step_harmoniums(RecurrentModel(state.now.float64(), problem.visible, problem.hidden)).r
    later = ~problem.pieces.first
    np.testing.assert_allclose(first[later], states[problem.pieces.begin[later] - 1], atol=1e-6)
    for _ in range(problem.batches):
        state = algorithm.step(state)
    np.testing.assert_allclose(state.carried, first, atol=1e-6)  # nothing was learned: an epoch hands on what was there
    assert not state.carried[problem.pieces.first].any()


def test_a_run_that_goes_on_from_a_state_ends_in_the_same_bytes():
    v, offsets = laid(bouncing(5, 12, 4))
    algorithm = RecurrentLearning(
        RecurrentProblem(v, offsets, RecurrentSettings(hidden=2, epochs=4, window=5), held(*laid(bouncing(2, 12, 4, 9))))
    )
    whole = run_algorithm(algorithm)
    state = algorithm.init()
    for _ in range(algorithm.steps // 2):
        state = algorithm.step(state)
    rest = run_algorithm(RecurrentLearning(algorithm.problem), state)
    assert all((getattr(whole.now, name) == getattr(rest.now, name)).all() for name in NAMES)
    assert (whole.figures == rest.figures).all()


def test_the_best_epoch_is_kept_and_patience_ends_a_run():
    v, offsets = laid(bouncing(5, 12, 4))
    random = np.random.default_rng(0).integers(0, 2, (12, 4)).astype(np.int8)  # nothing like what is learned from
    settings = RecurrentSettings(hidden=4, epochs=60, learning_rate=1.0, patience=3)
    state = run_algorithm(RecurrentLearning(RecurrentProblem(v, offsets, settings, held(random, np.array([0, 12])))))
    assert 0 < state.stopped < 60
    assert state.best_epoch == state.stopped - 3
    assert np.nanargmax(state.figures) + 1 == state.best_epoch
    assert np.isnan(state.trace[state.stopped :]).all()
    assert all((getattr(state.now, name) == getattr(state.best, name)).all() for name in NAMES)


def test_a_rate_that_is_too_high_is_told():
    v, offsets = laid([10 * np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)])
    with pytest.raises(Diverged, match=r"diverged in epoch \d+: parameters are above 1000"):
        run_algorithm(
            RecurrentLearning(
                RecurrentProblem(v, offsets, RecurrentSettings(hidden=3, learning_rate=50.0, visible_units="gaussian", window=5))
            )
        )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"hidden_units": "gaussian"}, "recurrent hidden units need a bounded range, but gaussian units have none"),
        ({"hidden_units": "poisson"}, "need a bounded range"),
        ({"hidden": 3, "hidden_units": "softmax:2"}, "must be a multiple of 2, the number of columns of one"),
        ({"window": 1}, "window must be at least 2"),
        ({"links": "all"}, "expected both, hidden or none"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"initial_scale": -1.0}, "initial_scale must be at least 0"),
    ],
)
def test_settings_that_make_no_sense(wrong, said):
    with pytest.raises(BadUsage, match=said):
        RecurrentSettings(**wrong)


def test_rates_suit_the_units_and_looks_the_epochs():
    assert fill_defaults(RecurrentSettings(), ()).learning_rate == 0.2
    assert fill_defaults(RecurrentSettings(visible_units="spin", hidden_units="spin"), ()).learning_rate == 0.2 / 16
    assert fill_defaults(RecurrentSettings(visible_units="gaussian"), ()).learning_rate == 0.05
    assert fill_defaults(RecurrentSettings(learning_rate=0.3), {"learning_rate"}).learning_rate == 0.3
    assert fill_defaults(RecurrentSettings(epochs=50), ()).validate_every == 3
    assert fill_defaults(RecurrentSettings(epochs=50, patience=2), ()).validate_every == 1


def test_values_that_no_unit_takes():
    with pytest.raises(DataError, match="values other than 0 and 1"):
        RecurrentProblem(np.array([[2.0]]), np.array([0, 1]), RecurrentSettings())
    with pytest.raises(BadUsage, match="--algorithm exact needs a layer"):
        RecurrentProblem(np.zeros((4, 30)), np.array([0, 4]), RecurrentSettings(hidden=20, algorithm="exact"))
