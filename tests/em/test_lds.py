"""EM of linear dynamical systems: what holds in exact arithmetic, and what it finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from linear_dynamics import draw, fitted, system

from herdcli.em.sequence.kalman import filter_sequences
from herdcli.em.sequence.lds import LDS, apply_variance_floor, parameter_count, variance_floor_and_scale
from herdcli.em.sequence.lds_initialization import window_moments
from herdcli.em.sequence.sequences import SequenceBlocks, group_rows_into_sequences
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import sum_statistics


def sequences(states, columns, count, steps, controls=0, seed=0):
    """Rows, keys, controls and parameters of sequences drawn."""
    p, random = system(states, columns, controls, seed), np.random.default_rng(seed)
    U = random.standard_normal((count * steps, controls)) if controls else None
    Y = np.concatenate([draw(p, steps, random, None if U is None else U[s * steps : (s + 1) * steps]) for s in range(count)])
    return Y, np.repeat(np.arange(count), steps), U, p


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize(("missing", "controls"), [(0.0, 0), (0.3, 0), (0.0, 2), (0.3, 1)])
def test_the_likelihood_never_falls(diagonal, missing, controls):
    Y, key, U, _ = sequences(2, 3, 8, 6, controls)
    Y[np.random.default_rng(1).random(Y.shape) < missing] = np.nan
    found = fitted(Y, key, 2, U=U, diagonal=diagonal, iterations=30)
    assert found.ledger.largest_rise < 1e-9
    assert np.diff(found.ledger.log_likelihood[::2]).min() > -1e-12
    np.testing.assert_allclose(found.ledger.free_energy, found.ledger.kl - found.ledger.log_likelihood, rtol=0, atol=1e-12)
    if diagonal:
        assert (found.parameters["noise"] == np.diag(np.diag(found.parameters["noise"]))).all()


class Longer(LDS):
    """With the normaliser T of Q, which counts a step that no sequence has."""

    def maximise(self, parameters, sums):
        after, low = super().maximise(parameters, sums)
        sequences, steps = sums["counts"]
        return after | {"process": after["process"] * steps / (steps + sequences)}, low


def test_with_the_wrong_normaliser_of_q_the_likelihood_falls():
    """Source: the margin note of Makin, sec. 6.4.4."""
    Y, key, _, _ = sequences(2, 3, 40, 4)
    right, wrong = (fitted(Y, key, 2, iterations=60, model=model) for model in (LDS, Longer))
    assert right.ledger.largest_rise < 1e-9
    assert wrong.ledger.largest_rise > 1e-4
    assert np.diff(wrong.ledger.log_likelihood[::2]).min() * 4 < -1e-3
    assert right.log_likelihood > wrong.log_likelihood


def test_it_is_at_least_as_likely_as_the_truth():
    Y, key, U, p = sequences(2, 4, 100, 8, controls=1)
    truth = filter_sequences(p, Y, np.arange(101) * 8, U).log_likelihood.mean()
    found = fitted(Y, key, 2, U=U, iterations=60)
    assert found.log_likelihood > truth
    assert found.log_likelihood < truth + 0.1
    ours, theirs = (np.sort_complex(np.linalg.eigvals(q["transition"])) for q in (found.parameters, p))
    np.testing.assert_allclose(ours, theirs, atol=0.2)  # the basis of the states is free, the eigenvalues are not
    response = [q["loading"] @ q["control"] for q in (found.parameters, p)]
    np.testing.assert_allclose(response[0], response[1], rtol=0.1)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_slopes_of_the_expected_likelihood_are_those_of_the_likelihood(missing):
    """Fisher's identity, d E log p(x, y) = d log p(y) at the parameters of the E step, by finite differences in every parameter."""
    Y, key, U, p = sequences(2, 3, 4, 6, controls=1)
    Y[np.random.default_rng(1).random(Y.shape) < missing] = np.nan
    source = SequenceBlocks(group_rows_into_sequences(Y, key))
    begun = window_moments(source, 2, U)
    model = LDS(2, False, *variance_floor_and_scale(begun.variance, None), begun, U, 0, True)
    sums = sum_statistics(source, model.expect(p))
    random, offsets = np.random.default_rng(0), np.arange(5) * 6
    for name, value in p.items():
        d = random.standard_normal(value.shape)
        d = 1e-5 * (d + d.T if name in ("process", "noise", "start_covariance") else d)
        ways = [p | {name: value + d}, p | {name: value - d}]
        ours, theirs = (
            (model.expected_log_likelihood(q, sums) for q in ways),
            (filter_sequences(q, Y, offsets, U).log_likelihood.sum() for q in ways),
        )
        rise = np.subtract(*ours)
        assert abs(rise) > 1e-7, name
        assert rise == pytest.approx(np.subtract(*theirs), rel=1e-5, abs=1e-9), name


def test_weights_of_sequences_are_repetitions():
    Y, key, _, _ = sequences(2, 3, 6, 5)
    weight = np.repeat([2.0, 1.0, 0.0, 1.0, 3.0, 1.0], 5)
    heavy = fitted(Y, key, 2, weight=weight, iterations=15)
    copies = [(Y[key == s], f"{s} {copy}") for s in range(6) for copy in range(int(weight[5 * s]))]
    again = fitted(np.concatenate([rows for rows, _ in copies]), np.repeat([name for _, name in copies], 5), 2, iterations=15)
    assert heavy.mass == again.mass
    assert heavy.log_likelihood == pytest.approx(again.log_likelihood, abs=1e-9)


def test_one_sequence_is_sure_of_its_first_state_and_sequences_of_one_step_the_dynamics():
    Y, key, _, _ = sequences(2, 3, 1, 60)
    one = fitted(Y, None, 2, iterations=20)
    assert np.linalg.eigvalsh(one.parameters["start_covariance"]).max() < 0.5
    assert one.ledger.largest_rise < 1e-9
    Y, key, _, _ = sequences(2, 4, 50, 1)
    steps = fitted(Y, key, 2, diagonal=True, iterations=50)
    assert (steps.parameters["transition"] == 0).all()
    assert steps.ledger.largest_rise < 1e-9
    fitted(Y[:1], None, 1, iterations=5)  # a single row


def test_constant_and_collinear_columns_are_floored_and_told():
    Y, key, _, _ = sequences(2, 3, 10, 12)
    odd = np.column_stack([Y, np.full(len(Y), 3.0), Y[:, 0] + 2 * Y[:, 1]])
    for diagonal in (False, True):
        found = fitted(odd, key, 2, diagonal=diagonal, iterations=60)
        assert found.ledger.floors[-2] >= 1
        assert found.ledger.largest_rise < 1e-9
        assert np.isfinite(found.log_likelihood)
    Y[:, 1] = np.nan
    with pytest.raises(DataError, match="column 1 has only missing values"):
        fitted(Y, key, 2, iterations=1)


def test_collinear_and_far_controls_are_no_harm():
    Y, key, U, _ = sequences(2, 3, 10, 12, controls=1)
    both = np.column_stack([U, 2 * U, np.zeros(len(U))])
    alone, twice = (fitted(Y, key, 2, U=given, iterations=20) for given in (U, both))
    assert twice.ledger.largest_rise < 1e-9
    assert twice.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-3)


def test_scales_of_columns_do_not_matter():
    Y, key, _, _ = sequences(2, 3, 10, 12)
    size = np.array([1e-6, 1.0, 1e7])
    here, there = fitted(Y, key, 2, iterations=15), fitted(1e4 * size + Y * size, key, 2, iterations=15)
    assert there.log_likelihood + np.log(size).sum() == pytest.approx(here.log_likelihood, abs=1e-6)


def test_the_floor_is_the_best_covariance_above_it():
    random = np.random.default_rng(0)
    S = np.diag([1e-9, 1.0, 2.0])
    S = (turn := np.linalg.qr(random.standard_normal((3, 3)))[0]) @ S @ turn.T
    found, low = apply_variance_floor(S, 1e-3, np.ones(3), diagonal=False)
    assert low == 1
    np.testing.assert_allclose(np.linalg.eigvalsh(found), [1e-3, 1.0, 2.0], rtol=1e-9)

    def value(Q):
        return -np.linalg.slogdet(Q)[1] - np.trace(np.linalg.solve(Q, S))

    for _ in range(50):
        G = 0.1 * random.standard_normal((3, 3))
        assert value(found + G @ G.T) <= value(found) + 1e-12


def test_free_parameters_of_a_scalar_system():
    """y alone, one state: an ARMA(1, 1) with a mean has 4, and a first state of its own 1 or 2 more."""
    assert parameter_count(1, 1, 0, diagonal=False, several=False) == 5
    assert parameter_count(1, 1, 0, diagonal=True, several=True) == 6
    assert parameter_count(2, 3, 1, diagonal=False, several=True) == 4 + 2 + 2 + 3 + 6 + 3 + 6 + 2 + 3 - 6


def test_neither_threads_nor_the_order_of_blocks_change_a_bit():
    from concurrent.futures import ThreadPoolExecutor

    from herdcli.em.driver import EM, EMSettings, run_em

    Y, key, _, _ = sequences(2, 2, 17, 300)
    source = SequenceBlocks(group_rows_into_sequences(Y, key))
    assert source.count == 2
    found = []
    with ThreadPoolExecutor(2) as pool:
        for mapped in (map, pool.map):
            begun = window_moments(source, 2, None, mapped)
            model = LDS(2, False, *variance_floor_and_scale(begun.variance, None), begun, None, 0, True)
            found.append(run_em(EM(model, source, EMSettings(iterations=2), mapped)).parameters)
    assert all(found[0][name].tobytes() == found[1][name].tobytes() for name in found[0])


def test_restarts_differ_and_the_best_is_kept():
    Y, key, _, _ = sequences(2, 3, 10, 12)
    found = fitted(Y, key, 2, iterations=10, restarts=3)
    assert len(set(found.objectives)) == 3
    assert found.objectives[found.best] == found.objectives.max()
    assert replace(found).log_likelihood == pytest.approx(found.objectives.max())
