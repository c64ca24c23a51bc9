"""The default rate and centring: what they are proportional to, and that the README's example of spins learns something."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from herdcli.algorithm import run_algorithm
from herdcli.artifacts import load
from herdcli.numerics.row_selection import SelectedRows
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.learning.curvature_bound import COMMON, estimate_hidden_input_shift, largest_covariance_eigenvalue, mean_squared_row_sum
from herdcli.rbm.learning.minibatch_statistics import restart_some_chains
from herdcli.rbm.likelihood import enumeration, row_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.settings import Settings, fill_defaults


def chosen(rows: int, **options) -> float:
    return fill_defaults(Settings(**options), rows, rate=True, centering=True).learning_rate


def test_rates_follow_batch_updates_momentum_and_units():
    assert chosen(200, epochs=10) == 0.05  # 100 updates
    assert chosen(16_000, epochs=10) == pytest.approx(0.025)  # 8000
    assert chosen(200, epochs=10, momentum=0.8) == pytest.approx(0.1)
    assert chosen(200, epochs=10, batch_size=80) == pytest.approx(0.1)
    assert chosen(200, epochs=10, visible_units="spin") == pytest.approx(0.05 / 4, rel=0.05)
    assert chosen(200, epochs=10, visible_units="spin", hidden_units="spin") == pytest.approx(0.05 / 16, rel=0.05)
    assert chosen(200, epochs=10, visible_units="gaussian") == Settings().learning_rate


def test_rates_of_words_fall_with_their_number_squared_hidden_units_and_updates():
    def long(moment: float, rows: int = 200, hidden: int = 16, **options) -> float:
        settings = Settings(hidden, epochs=10, visible_units="words", **options)
        return fill_defaults(settings, rows, rate=True, centering=False, largest_eigenvalue=lambda: moment).learning_rate

    assert [long(0.0), long(6250.0), long(62_500.0)] == pytest.approx([1e-4, 1e-4, 1e-5])
    assert [long(62_500.0, hidden=8), long(62_500.0, hidden=160)] == pytest.approx([1e-5, 1e-6])
    assert long(62_500.0, rows=16_000) == pytest.approx(5e-6)
    assert long(62_500.0, momentum=0.8) == pytest.approx(2e-5)
    assert long(62_500.0, optimizer="adam") == 1e-4


def test_the_mean_square_of_the_number_of_words():
    rows = np.array([[1, 2, 0], [0, 0, 5], [0, 0, 0]], np.uint16)
    assert mean_squared_row_sum(rows) == mean_squared_row_sum(csr_matrix(rows)) == pytest.approx((9 + 25) / 3)
    assert mean_squared_row_sum(rows[:0]) == estimate_hidden_input_shift(rows[:0]) == 0.0
    assert estimate_hidden_input_shift(rows) == estimate_hidden_input_shift(csr_matrix(rows)) == pytest.approx(COMMON * (1 + 4 + 25) / 9)
    assert estimate_hidden_input_shift(rows[:, [0, 1]]) == pytest.approx(np.sqrt(9 / 3))


def test_rates_of_tempered_words_fall_with_what_an_update_shifts():
    def tempered(moment: float, rows: int = 200, **options) -> float:
        settings = Settings(16, "pt", epochs=10, visible_units="words", **options)
        return fill_defaults(settings, rows, rate=True, centering=False, largest_eigenvalue=lambda: moment).learning_rate

    assert [tempered(1.0), tempered(5.0), tempered(100.0)] == pytest.approx([0.2, 0.2, 0.01])
    assert [tempered(100.0, rows=16_000), tempered(100.0, momentum=0.8)] == pytest.approx([0.005, 0.02])


def test_rates_of_renewed_chains_fall_with_updates_and_the_largest_moment_and_not_with_batches():
    def renewed(moment: float, rows: int = 200, **options) -> float:
        settings = Settings(algorithm="rpcd", epochs=10, **options)
        return fill_defaults(settings, rows, rate=True, centering=True, largest_eigenvalue=lambda: moment).learning_rate

    assert [renewed(0.0), renewed(5.0), renewed(6.0), renewed(60.0)] == [0.12, 0.12, 0.1, 0.01]
    assert renewed(6.0, 16_000) == pytest.approx(0.05)  # 8000 updates
    assert renewed(6.0, batch_size=100) == renewed(6.0)
    assert renewed(24.0, visible_units="spin") == pytest.approx(0.1 / 4, rel=0.05)
    assert chosen(200, epochs=10, algorithm="rpcd") == 0.12


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix], ids=["dense", "csr"])
def test_the_largest_moment_is_the_largest_eigenvalue_of_the_covariance(kind):
    rng = np.random.default_rng(3)
    rows = (rng.random((900, 1)) + rng.random((900, 12)) > 1).astype(np.int8)
    exact = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[-1]
    chosen = SelectedRows(kind(rows), np.arange(900))
    assert largest_covariance_eigenvalue(chosen) == pytest.approx(exact, rel=1e-4)
    assert largest_covariance_eigenvalue(SelectedRows(kind(rows[:1].repeat(5, axis=0)), np.arange(5))) == 0.0
    assert largest_covariance_eigenvalue(np.concatenate([rows, 1 - rows], axis=1)) == pytest.approx(2 * exact, rel=1e-4)


def test_chains_restart_in_turn_many_at_first_and_one_in_a_hundred_later_and_one_in_ten_of_them_at_fair_states():
    rows = np.eye(30, dtype=np.int8)
    problem = parallel_fits.LearningProblem([rows], Settings(30, "rpcd", epochs=1))
    state = parallel_fits.RBMLearning(problem).init()
    assert problem.chains == 100
    state.W[0], state.c[0] = 200 * np.eye(30), -100.0  # hidden states are what the row is

    def restarted(step: int) -> list[int]:
        state.chain[0] = 1.0
        restart_some_chains(problem, state, 0, np.arange(5, 25), step)
        places = np.flatnonzero((state.chain[0] != 1.0).any(axis=1))
        fair = state.chain[0].sum(axis=1) > 1
        assert np.flatnonzero(fair & (np.arange(100) % 10 != 9)).tolist() == [n for n in range(100) if n not in places and n % 10 != 9]
        at_rows = places[places % 10 != 9]
        assert np.array_equal(state.chain[0, at_rows], rows[5 : 5 + len(at_rows)])
        return places.tolist()

    assert restarted(0) == list(range(20))  # as many as there are rows
    assert restarted(460) == [80, 81, 82, 83, 84, 85, 86, 87]  # 40 in 500 of the hundred
    assert [restarted(step) for step in (10_007, 10_008)] == [[7], [8]]


def test_two_far_clouds_of_rows_keep_their_mass():
    """Chains that restart at rows alone left all of it in either: −94 nats where independent columns have −62."""
    rng = np.random.default_rng(1)
    one = rng.random((2, 100))[0] < 0.5
    cloud = rng.choice(2, 1300, p=[0.3, 0.7])
    rows = (np.where(cloud[:, None] == 0, one, ~one) ^ (rng.random((1300, 100)) < 0.05)).astype(np.int8)
    train, test = rows[:975], rows[975:]
    p = (train.sum(axis=0) + 1) / (len(train) + 2)
    independent = (test @ np.log(p) + (1 - test) @ np.log1p(-p)).mean()
    settings = fill_defaults(
        Settings(16, "rpcd", epochs=40, seed=1),
        975,
        rate=True,
        centering=True,
        decay=True,
        largest_eigenvalue=lambda: largest_covariance_eigenvalue(train),
    )
    problem = parallel_fits.LearningProblem([train], settings)
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    h = Harmonium(*(part[0].astype(np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)
    assert row_likelihood.row_log_likelihood(h, test, enumeration.exact_log_partition(h)).mean() > independent + 20


def test_weight_decay_is_that_of_a_prior_for_few_rows_and_many():
    found = [fill_defaults(Settings(), rows, rate=True, centering=True, decay=True).weight_decay for rows in (9, 4000, 8000, 20_000, 10**7)]
    assert found == [5e-4, 5e-4, 2.5e-4, 1e-4, 1e-4]
    assert fill_defaults(Settings(visible_units="spin"), 9, rate=True, centering=True, decay=True).weight_decay == 5e-4
    assert fill_defaults(Settings(visible_units="gaussian"), 9, rate=True, centering=True, decay=True).weight_decay == 1e-4
    assert fill_defaults(Settings(weight_decay=0.3), 9, rate=True, centering=True).weight_decay == 0.3


def test_only_what_is_asked_for_changes():
    typed = Settings(learning_rate=0.3)
    assert fill_defaults(typed, 9, rate=False, centering=False) == typed
    assert fill_defaults(typed, 9, rate=False, centering=True) == Settings(learning_rate=0.3, centering=True)
    assert not fill_defaults(Settings(visible_units="gaussian"), 9, rate=True, centering=True).centering


@pytest.mark.parametrize(("algorithm", "units"), [("cd", "binary"), ("pcd", "binary"), ("pcd", "spin"), ("rpcd", "binary")])
def test_digits_are_learned_far_better_than_independent_columns(algorithm, units):
    """PCD of spins at the old default ended at −40.99 nats where independent columns have −25.24."""
    digits = load(str(files("herdcli.data") / "digits.h5")).value
    on = (digits.X >= 0.4 * 16).astype(np.int8)
    on = 2 * on - 1 if units == "spin" else on
    settings = Settings(8, algorithm, epochs=10, visible_units=units, hidden_units=units)
    train, test = on[digits.split == 0], on[digits.split == 2]
    problem = parallel_fits.LearningProblem([train], fill_defaults(settings, len(train), rate=True, centering=True))
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    h = Harmonium(*(part[0].astype(np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)
    assert row_likelihood.row_log_likelihood(h, test, enumeration.exact_log_partition(h)).mean() > -22
