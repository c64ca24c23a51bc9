"""Where linear dynamical systems begin, and what a fit hands over: regressions, pieces of sequences and draws against plain formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from linear_dynamics import dense, draw, system

from herdcli.algorithm import run_algorithm
from herdcli.em.driver import EMSettings, run_em
from herdcli.em.lds_artifacts import one_step_predictions
from herdcli.em.sequence import lds_fitting, lds_initialization
from herdcli.em.sequence.kalman import MissingPatterns, collapse_rows, filter_sequences
from herdcli.em.sequence.lds import apply_variance_floor, regress_missing_on_observed, regression_coefficients, variance_floor_and_scale
from herdcli.em.sequence.sequences import SequenceBlocks, Sequences, group_rows_into_sequences
from herdcli.errors import BadUsage, DataError
from herdcli.rng import Stream, generator

LENGTHS = np.array([7, 5, 9])
WEIGHT = np.array([1.0, 2.0, 0.5])


def table(columns, seed=0, gaps=False):
    """Rows of three sequences, their key, controls and weights."""
    random = np.random.default_rng(seed)
    p = system(2, columns, 1, seed)
    U = random.standard_normal((21, 1))
    Y = np.concatenate([draw(p, n, random, U[end - n : end]) for n, end in zip(LENGTHS, np.cumsum(LENGTHS), strict=True)])
    if gaps:
        Y[random.random(Y.shape) < 0.15] = np.nan
    return Y, np.repeat(np.arange(3), LENGTHS), U, np.repeat(WEIGHT, LENGTHS)


def windows(Z, half):
    """Each row with its neighbours, the nearer first and of two the one before; 0 beyond the ends of its sequence."""
    found, ends = [], np.cumsum(LENGTHS)
    for t in range(len(Z)):
        s = int(np.searchsorted(ends, t, side="right"))
        begin, end = ends[s] - LENGTHS[s], ends[s]
        places = [t] + [t + step for distance in range(1, half + 1) for step in (-distance, distance)]
        found.append(np.concatenate([Z[at] if begin <= at < end else np.zeros(Z.shape[1]) for at in places]))
    return np.array(found)


@pytest.mark.parametrize(("columns", "states", "half"), [(2, 2, 1), (1, 3, 4), (4, 1, 0), (3, 2, 1)])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("controlled", [False, True])
def test_a_start_is_regressions_on_principal_axes_of_windows(columns, states, half, diagonal, controlled):
    Y, key, U, weight = table(columns, gaps=columns == 3)
    U = U if controlled else None
    source = SequenceBlocks(group_rows_into_sequences(Y, key, weight))
    found = lds_initialization.window_moments(source, states, U)
    there = ~np.isnan(Y)
    centre = np.array([np.average(y[ok], weights=weight[ok]) for y, ok in zip(Y.T, there.T, strict=True)])
    variance = np.array([np.average((y[ok] - m) ** 2, weights=weight[ok]) for y, ok, m in zip(Y.T, there.T, centre, strict=True)])
    np.testing.assert_allclose(found.centre, centre, rtol=1e-9)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-9)
    assert (found.half, found.rows, found.mass) == (half, 21, pytest.approx(weight.sum()))
    assert (found.missing, found.longest, found.lengths.tolist()) == (int((~there).sum()), 21, LENGTHS.tolist())
    if columns != 3:
        np.testing.assert_allclose(found.covariance, np.cov(Y.T, aweights=weight, ddof=0).reshape(columns, columns), atol=1e-9)
    scale = np.sqrt(variance)
    V = windows(np.where(there, (Y - centre) / scale, 0.0), half)
    values, vectors = np.linalg.eigh((V * weight[:, None]).T @ V / weight.sum())
    axes = vectors[:, ::-1] / np.sqrt(values[::-1])
    p = lds_initialization.initial_parameters(found, states, 0, 0, diagonal=diagonal)
    X = V @ axes[:, :states]
    regressed_on = scale[:, None] * regression(one(X), V[:, :columns], weight)[:, :-1]
    X = X * np.sign((p["loading"] * regressed_on).sum(axis=0))  # axes have either sign
    G = regression(one(X), V[:, :columns], weight)
    np.testing.assert_allclose(p["loading"], scale[:, None] * G[:, :-1], atol=1e-5)
    np.testing.assert_allclose(p["mean"], centre + scale * G[:, -1], atol=1e-5)
    e = V[:, :columns] - one(X) @ G.T
    rest, own = (e * weight[:, None]).T @ e / weight.sum(), (V[:, :columns] ** 2 * weight[:, None]).sum(axis=0) / weight.sum()
    noise = np.maximum(np.diag(rest), 0.1 * own)
    left = np.diag(rest) > 1e-3 * noise
    deviation = np.sqrt(np.where(left, np.diag(rest), 1.0))
    correlation = np.where(left[:, None] & left, 0.9 * rest / np.outer(deviation, deviation), 0.0)
    np.fill_diagonal(correlation, 1.0)
    R = np.diag(noise) if diagonal else correlation * np.sqrt(np.outer(noise, noise))
    np.testing.assert_allclose(p["noise"], R * np.outer(scale, scale), atol=1e-4)
    now = np.setdiff1d(np.arange(21), np.cumsum(LENGTHS) - 1)
    F = regression(np.column_stack([X[now], *([] if U is None else [U[now]]), np.ones(len(now))]), X[now + 1], weight[now])
    A = F[:, :states] * min(1.0, 0.999 / np.abs(np.linalg.eigvals(F[:, :states])).max())
    np.testing.assert_allclose(p["transition"], A, atol=1e-4)
    np.testing.assert_allclose(p["control"], F[:, states:-1], atol=1e-4)
    np.testing.assert_allclose(p["drift"], F[:, -1], atol=1e-4)
    values, vectors = np.linalg.eigh(np.eye(states) - A @ A.T)
    np.testing.assert_allclose(p["process"], (vectors * np.maximum(values, 0.01)) @ vectors.T, atol=1e-4)
    assert (p["start_mean"] == 0).all()
    assert (p["start_covariance"] == np.eye(states)).all()


def one(X):
    return np.column_stack([X, np.ones(len(X))])


def regression(X, Y, weight):
    root = np.sqrt(weight)[:, None]
    return np.linalg.lstsq(X * root, Y * root, rcond=None)[0].T


def test_a_random_start_turns_the_axes_towards_the_leading_ones():
    """Directions G √λ of the whitened axes, orthonormal: states have covariance I over the rows."""
    Y, key, _, weight = table(2)
    found = lds_initialization.window_moments(SequenceBlocks(group_rows_into_sequences(Y, key, weight)), 1, None)
    p = lds_initialization.initial_parameters(found, 1, 3, 1, diagonal=True)
    scale = np.sqrt(found.variance)
    V = windows((Y - found.centre) / scale, found.half)
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh((V * weight[:, None]).T @ V / weight.sum()))
    drawn = generator(3, Stream.EM_START, unit=1).standard_normal((len(values), 1))
    X = V @ (vectors / np.sqrt(values))
    spans = []
    for signs in (np.array(s) for s in np.ndindex(*(2,) * len(values))):  # eigenvectors have either sign
        turn = np.linalg.qr(drawn * np.sqrt(values)[:, None])[0]
        spans.append(regression(one((X * (1 - 2 * signs)) @ turn), V[:, :2], weight)[:, :-1] * scale[:, None])
    assert min(np.abs(np.abs(G) - np.abs(p["loading"])).max() for G in spans) < 1e-5
    assert not np.allclose(p["loading"], lds_initialization.initial_parameters(found, 1, 3, 2, diagonal=True)["loading"])


def fit(key, parts, *, controls=False, columns=3, gaps=False, iterations=3, sizes=(2,), **asked):
    """An artifact of training, validation and test parts of the table, with the fitting it came of."""
    Y, own, U, _ = table(columns, gaps=gaps)
    whole = group_rows_into_sequences(Y, own if key else None)
    at = {part: Sequences(whole.X, rows, offsets, None, None, later) for part, (rows, offsets, later) in parts.items()}
    rows = lds_fitting.DynamicsSequences(
        whole=whole, training=at["training"], valid=at.get("valid"), test=at.get("test"), controls=U if controls else None
    )
    ready = lds_fitting.prepare_dynamics_fit(rows, lds_fitting.DynamicsOptions(sizes=sizes, **asked), EMSettings(iterations, 0.0))
    return ready, ready.artifact_from_search(run_algorithm(ready.search)), Y, U


CUT = {
    "training": (np.arange(9), np.array([0, 9]), False),
    "valid": (np.arange(9, 14), np.array([0, 5]), True),
    "test": (np.arange(14, 21), np.array([0, 7]), True),
}


@pytest.mark.parametrize("controls", [False, True])
def test_pieces_of_a_sequence_go_on_where_the_rows_before_them_left_its_state(controls):
    """log p(piece | rows before) = log p(rows up to its end) − log p(rows before), of one dense Gaussian."""
    ready, value, Y, U = fit(False, CUT, controls=controls)
    p, U = value.parameters, U if controls else None

    def evidence(end):
        return dense(p, Y[:end], U)[0]

    assert value.known.valid == pytest.approx((evidence(14) - evidence(9)) / 5, rel=1e-9)
    blind = Y[:15].copy()
    blind[14] = np.nan
    _, mean, covariance = dense(p, blind, U)
    np.testing.assert_allclose(value.known.holdout_start_mean, mean[14:], atol=1e-9)
    np.testing.assert_allclose(value.known.holdout_start_covariance[0], covariance[-2:, -2:], atol=1e-9)
    np.testing.assert_array_equal(value.holdout, Y[14:])
    assert value.holdout_offsets.tolist() == [0, 7]
    assert (value.known.rows, value.known.sequences, value.mass) == (9, 1, 9.0)
    np.testing.assert_allclose(value.known.base_mean, Y[:9].mean(axis=0))
    np.testing.assert_allclose(value.known.base_variance, Y[:9].var(axis=0))
    if controls:
        np.testing.assert_allclose(value.known.control_mean, U[:9].mean(axis=0))
        np.testing.assert_array_equal(value.known.holdout_controls, U[14:])
    ((own, rows, given),) = value.heldout_sequences()
    assert (own["start_mean"] == value.known.holdout_start_mean[0]).all()
    assert (rows == Y[14:]).all()
    assert (given is None) == (not controls)
    assert ready.log_likelihood_per_row(value, ready.rows.test) == pytest.approx((evidence(21) - evidence(14)) / 7, rel=1e-9)


WHOLE = {
    "training": (np.r_[0:7, 12:21], np.array([0, 7, 16]), False),
    "valid": (np.arange(7, 12), np.array([0, 5]), False),
    "test": (np.arange(7, 12), np.array([0, 5]), False),
}


def test_whole_sequences_begin_afresh_and_criteria_count_their_parameters():
    ready, value, Y, U = fit(True, WHOLE, controls=True)
    assert value.known.valid == pytest.approx(dense(value.parameters, Y[7:12], U[7:12])[0] / 5, rel=1e-9)
    assert (value.known.holdout_start_mean, value.known.sequences) == (None, 2)
    assert (value.known.sizes, value.known.scores, value.known.criterion) == (None, None, None)
    likelihood = dense(value.parameters, Y[:7], U[:7])[0] + dense(value.parameters, Y[12:], U[12:])[0]
    p = 4 + 2 + 2 + 3 + 6 + 3 + 6 + 2 + 3 - 6
    assert value.free_parameters == p
    told = lds_fitting.lds_information_criteria(value)
    assert told["aic"] == pytest.approx(2 * p - 2 * likelihood)
    assert told["bic"] == pytest.approx(p * np.log(16) - 2 * likelihood)
    for criterion in ("bic", "aic", "valid"):
        several, best, _, _ = fit(True, WHOLE, controls=True, sizes=(1, 2), criterion=criterion)
        expected = []
        for K, algorithm in zip((1, 2), several.search.runs, strict=True):
            q = several.artifact_from_fit(run_em(algorithm)).parameters
            likelihood = dense(q, Y[:7], U[:7])[0] + dense(q, Y[12:], U[12:])[0]
            p = K * K + 2 * K + K * (K + 1) // 2 + 4 * K + 9 + K * (K + 1) // 2 - K * K - K
            each = {"bic": p * np.log(16) - 2 * likelihood, "aic": 2 * p - 2 * likelihood}
            expected.append(each.get(criterion, -dense(q, Y[7:12], U[7:12])[0] / 5))
        np.testing.assert_allclose(best.known.scores, expected)
        assert (best.known.sizes.tolist(), best.known.criterion) == ([1, 2], criterion)
    assert ready.found.rows == 16


def test_units_of_controls_do_not_matter_and_a_model_goes_on_from_itself(monkeypatch):
    _, value, Y, U = fit(True, WHOLE, controls=True, diagonal=True)
    again = fit(True, WHOLE, controls=True, diagonal=True, given=value.parameters, iterations=0)[1]
    for name in ("transition", "control", "drift", "loading", "noise"):
        np.testing.assert_allclose(getattr(again, name), getattr(value, name), rtol=1e-9, atol=1e-12)
    whole = group_rows_into_sequences(Y, np.repeat(np.arange(3), LENGTHS))
    part = {name: Sequences(whole.X, rows, offsets, None, None, later) for name, (rows, offsets, later) in WHOLE.items()}
    rows = lds_fitting.DynamicsSequences(whole=whole, training=part["training"], controls=7.0 + 100 * U)
    ready = lds_fitting.prepare_dynamics_fit(rows, lds_fitting.DynamicsOptions(sizes=(2,), diagonal=True), EMSettings(3, 0.0))
    other = ready.artifact_from_search(run_algorithm(ready.search))
    np.testing.assert_allclose(100 * other.control, value.control, rtol=1e-6)
    np.testing.assert_allclose(other.drift + 7.0 * other.control[:, 0], value.drift, rtol=1e-6)
    assert other.known.valid is None
    constant = replace(rows, controls=np.full((21, 1), 3.0))
    assert lds_fitting.prepare_dynamics_fit(constant, lds_fitting.DynamicsOptions(sizes=(1,)), EMSettings()).scale.tolist() == [1.0]


def test_values_that_make_no_linear_dynamics_are_refused():
    _, value, _, _ = fit(True, WHOLE, controls=True)
    value.validate()
    for name in ("process", "noise", "start_covariance"):
        S = getattr(value, name)
        values, vectors = np.linalg.eigh(S)
        for least in (0.0, -1e-3):
            values[0] = least
            flat = (vectors * values) @ vectors.T - (0.0 if least else 1e-15 * np.eye(len(S)))
            with pytest.raises(DataError, match=f"/{name} is not positive definite"):
                replace(value, **{name: flat}).validate()
    with pytest.raises(DataError, match="/loading has values that are not finite"):
        replace(value, loading=value.loading * np.nan).validate()
    with pytest.raises(DataError, match="holdout_offsets"):
        replace(value, holdout_offsets=np.array([0, 99])).validate()


def test_what_cannot_be_learned_is_refused():
    with pytest.raises(BadUsage, match="--criterion icl is for mixtures"):
        fit(True, WHOLE, criterion="icl")
    with pytest.raises(BadUsage, match=r"--init kmeans\+\+ works only with clusters"):
        fit(True, WHOLE, init="kmeans++")
    with pytest.raises(DataError, match="16 rows are too few for 25 states"):
        fit(True, WHOLE, sizes=(25,))
    with pytest.raises(DataError, match="has no validation rows, which --criterion valid needs"):
        fit(True, {"training": WHOLE["training"]}, sizes=(1, 2), criterion="valid")


def test_new_sequences_are_draws_of_the_model_step_by_step():
    _, value, _, _ = fit(True, WHOLE, controls=True)
    p, found = value.parameters, value.sample_sequences(3, 4, 11).reshape(3, 4, 3)
    L, Q, R = (np.linalg.cholesky(p[name]) for name in ("start_covariance", "process", "noise"))
    for s in range(3):
        random = generator(11, Stream.SEQUENCES, unit=s)
        x = p["start_mean"] + L @ random.standard_normal(2)
        noise, moves = random.standard_normal((4, 3)), random.standard_normal((4, 2))
        for t in range(4):
            np.testing.assert_allclose(found[s, t], p["loading"] @ x + p["mean"] + R @ noise[t], rtol=1e-9)
            x = p["transition"] @ x + p["control"] @ value.known.control_mean + p["drift"] + Q @ moves[t]


def test_forecasts_are_what_rows_that_are_all_missing_are_thought_to_be():
    """The next rows of two sequences: means and deviations of dense conditioning on gaps."""
    _, value, Y, _ = fit(True, WHOLE)
    p, Y = value.parameters, Y[:12]
    mean, deviation = value.forecast(Y, np.array([0, 7, 12]), None, 3)
    for s, (begin, end) in enumerate(((0, 7), (7, 12))):
        longer = np.concatenate([Y[begin:end], np.full((3, 3), np.nan)])
        _, x, S = dense(p, longer)
        np.testing.assert_allclose(mean[3 * s : 3 * s + 3], x[-3:] @ p["loading"].T + p["mean"], atol=1e-9)
        for k in range(3):
            at = 2 * (end - begin + k)
            covariance = p["loading"] @ S[at : at + 2, at : at + 2] @ p["loading"].T + p["noise"]
            np.testing.assert_allclose(deviation[3 * s + k], np.sqrt(np.diag(covariance)), atol=1e-9)
    with pytest.raises(BadUsage, match="a forecast of 2 steps needs the controls of as many future rows"):
        fit(True, WHOLE, controls=True)[1].forecast(Y, np.array([0, 12]), np.zeros((12, 1)), 2)
    for want in ("smoothed", "filtered", "predicted"):
        m, d = value.infer_states(Y, np.array([0, 12]), None, want)
        blind = Y.copy()
        blind[{"smoothed": 12, "filtered": 6, "predicted": 5}[want] :] = np.nan
        _, x, S = dense(p, blind)
        np.testing.assert_allclose(m[5], x[5], atol=1e-9)
        np.testing.assert_allclose(d[5], np.sqrt(np.diag(S))[10:12], atol=1e-9)
    found = filter_sequences(p, Y, np.array([0, 12]))
    np.testing.assert_allclose(one_step_predictions(p, found), found.predicted @ p["loading"].T + p["mean"])
    assert value.spectral_radius == pytest.approx(np.abs(np.linalg.eigvals(p["transition"])).max())
    assert (value.controls, value.columns, value.states) == (0, 3, 2)


def test_many_patterns_of_gaps_are_seen_as_few_are(monkeypatch):
    """Rows one pattern at a time, all at once, and in slabs of the limit on numbers: the same z and log density."""
    random = np.random.default_rng(0)
    p, Y = system(2, 4), random.standard_normal((40, 4))
    masks = np.array([[1, 1, 1, 1], [1, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=bool)
    which = random.integers(4, size=40)
    Y = np.where(masks[which], Y, np.nan)
    Sigma = p["loading"] @ np.eye(2) @ p["loading"].T + p["noise"]
    for few, numbers in ((4, 1 << 18), (100, 1 << 18), (4, 33), (100, 33), (100, 1)):
        monkeypatch.setattr("herdcli.em.sequence.kalman.FEW", few)
        monkeypatch.setattr("herdcli.em.sequence.kalman.PATTERNS", numbers)
        seen = collapse_rows(p, Y, MissingPatterns(masks, which))
        for t in range(40):  # ∫ N(z; T x, I) e^log N(x; 0, I) dx = N(y; c, C C' + R) of what is there
            T, o = seen.TT[which[t]].T, masks[which[t]]
            S = T @ T.T + np.eye(2)
            whole = seen.log[t] - 0.5 * (np.linalg.slogdet(S)[1] + seen.z[t] @ np.linalg.solve(S, seen.z[t]))
            e, own = (Y[t] - p["mean"])[o], Sigma[np.ix_(o, o)]
            expected = -0.5 * (o.sum() * np.log(2 * np.pi) + np.linalg.slogdet(own)[1] + e @ np.linalg.solve(own, e))
            assert whole == pytest.approx(expected, abs=1e-10)


def test_parts_of_the_m_step_by_hand():
    values, low = apply_variance_floor(np.diag([0.5, 2e-4, 3.0]), 1e-3, np.array([1.0, 2.0, 1.0]), diagonal=True)
    assert (np.diag(values).tolist(), low) == ([0.5, 0.004, 3.0], 1)
    S = np.diag([4.0, 1e-5])
    values, low = apply_variance_floor(S, 1e-3, np.array([2.0, 0.5]), diagonal=False)  # of 1 and 4e-5 in units of the columns
    np.testing.assert_allclose(values, np.diag([4.0, 1e-3 * 0.25]))
    assert low == 1
    assert apply_variance_floor(S, 1e-9, np.ones(2), diagonal=False) == (S, 0)
    assert apply_variance_floor(np.diag([1e-3, 2.0]), 1e-3, np.ones(2), diagonal=True)[1] == 0
    least, scale = variance_floor_and_scale(np.array([4.0, 0.0]), None)
    assert (least, scale.tolist()) == (1e-6, [2.0, 2.0])
    assert variance_floor_and_scale(np.zeros(2), None)[1].tolist() == [1.0, 1.0]
    assert variance_floor_and_scale(np.array([4.0, 0.0]), 0.1)[1].tolist() == [1.0, 1.0]
    X, y = np.array([[1.0, 2], [1, 3], [1, 5]]), np.array([[1.0], [2], [4]])
    np.testing.assert_allclose(regression_coefficients(X.T @ X, y.T @ X), [[-1.0, 1.0]], atol=1e-9)
    twice = np.column_stack([X[:, 1], X[:, 1], np.zeros(3)])  # the smallest: half of the slope each
    np.testing.assert_allclose(regression_coefficients(twice.T @ twice, y.T @ twice), [[14 / 38, 14 / 38, 0.0]], atol=1e-9)
    R = np.array([[2.0, 0.5, 0.3], [0.5, 1.0, 0.2], [0.3, 0.2, 1.5]])
    expected = np.zeros((3, 3))
    expected[1, [0, 2]] = R[1, [0, 2]] @ np.linalg.inv(R[np.ix_([0, 2], [0, 2])])
    np.testing.assert_allclose(regress_missing_on_observed(R, np.array([True, False, True])), expected, atol=1e-12)
    assert not regress_missing_on_observed(np.diag([1.0, 2.0]), np.array([True, False])).any()
