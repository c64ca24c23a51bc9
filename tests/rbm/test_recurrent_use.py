"""What a recurrent temporal RBM expects, draws and keeps on disk, beside enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from recurrent_models import OFFSETS, bouncing, exact_likelihoods, held, laid, model, rows

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures import recurrent as evaluation
from herdcli.rbm.recurrent import exact_sums, likelihood
from herdcli.rbm.recurrent.artifacts import assemble_recurrent_rbm, final_recurrent_states, make_stored_sequences
from herdcli.rbm.recurrent.gibbs_chains import SequenceSampling
from herdcli.rbm.recurrent.learning import RecurrentLearning, RecurrentProblem
from herdcli.rbm.recurrent.likelihood import EvaluationSequences
from herdcli.rbm.recurrent.model import SequenceHistory, StepHarmoniums
from herdcli.rbm.recurrent.settings import RecurrentSettings


def test_expected_rows_are_those_of_all_states_and_chains_come_near_them():
    m, v = model("binary", "binary", 3, 4), rows("binary", 9, 3)
    given = held(v, OFFSETS)
    driven = given.step_harmoniums(m)
    found = likelihood.expected_next_rows(m, given, driven, np.arange(9), 0)
    V = np.array(list(itertools.product((0, 1), repeat=3)), dtype=float)
    for t in range(9):
        weight = np.exp(
            m.unnormalised_log_probability(V, StepHarmoniums(*(np.tile(part[t], (8, 1)) for part in (driven.r, driven.b, driven.c))))
        )
        np.testing.assert_allclose(found[t], weight @ V / weight.sum(), atol=1e-12)
    drawn = likelihood.estimate_expected_rows(m, driven, v, 0)
    assert np.abs(drawn - found).max() < 0.1
    assert np.abs(drawn - found).mean() < 0.03


@pytest.mark.parametrize("of", [np.arange(9), np.array([1, 2, 5])])
def test_rows_under_links_that_say_the_same_at_every_step(of):
    m, v = model("binary", "binary", 3, 4), rows("binary", 9, 3)
    given = held(v, OFFSETS)
    driven = given.step_harmoniums(m)
    asked = evaluation.LikelihoodEstimate(0.0, 0.0, of, True)
    found = evaluation.log_likelihood_without_links(m, given, driven, asked, EvaluationSettings(), map)
    b, c = driven.b.copy(), driven.c.copy()
    later = [1, 2, 5, 6, 7, 8]
    b[later], c[later] = b[later].mean(axis=0), c[later].mean(axis=0)
    V, H = (np.array(list(itertools.product((0, 1), repeat=n)), dtype=float) for n in (3, 4))

    def log_p(t):
        joint = np.exp((V @ b[t])[:, None] + V @ m.p.W @ H.T + H @ c[t])
        return np.log(joint[(v[t] == V).all(axis=1)].sum() / joint.sum())

    assert found == pytest.approx(np.mean([log_p(t) for t in of]), abs=1e-12)


def test_links_that_say_nothing_make_no_difference():
    m, v = model("binary", "binary", 3, 4, links=0.0), rows("binary", 9, 3)
    driven, whole = held(v, OFFSETS).step_harmoniums(m), evaluation.LikelihoodEstimate(0.0, 0.0, np.arange(9), True)
    found = evaluation.log_likelihood_without_links(m, held(v, OFFSETS), driven, whole, EvaluationSettings(), map)
    assert found == pytest.approx(exact_likelihoods(m, v, OFFSETS).mean(), abs=1e-12)
    alone = held(v, np.arange(10))  # no row has one before it
    assert evaluation.log_likelihood_without_links(m, alone, alone.step_harmoniums(m), whole, EvaluationSettings(), map) == whole.mean


def test_new_sequences_have_the_probabilities_of_the_model():
    """All sequences of two rows of two units: counts of 20,000 drawn ones beside their probabilities."""
    m = model("binary", "binary", 2, 3, links=1.5)
    X = run_algorithm(SequenceSampling(m, 20_000, 2, 30, seed=1)).reshape(-1, 4)
    every = np.array(list(itertools.product((0, 1), repeat=4)), dtype=float)
    log_p = exact_likelihoods(m, every.reshape(-1, 2), np.arange(0, 33, 2)).reshape(-1, 2).sum(axis=1)
    counts = (X[:, None] == every).all(axis=2).sum(axis=0)
    expected = 20_000 * np.exp(log_p)
    assert (np.square(counts - expected) / expected).sum() < 37.7  # the 0.1 % point of χ² with 15 degrees of freedom


def test_sequences_that_go_on_begin_in_the_state_they_are_given():
    m, v = model("binary", "binary", 3, 4, links=2.0), rows("binary", 9, 3)
    state, last = final_recurrent_states(m, v, OFFSETS)
    X = run_algorithm(
        SequenceSampling(m, 6000, 1, 30, seed=1, state_before=np.repeat(state, 2000, axis=0), row_before=np.repeat(last, 2000, axis=0))
    )
    own = exact_sums.step_expectations(m, StepHarmoniums(state, m.p.b + state @ m.p.V, m.p.c + state @ m.p.U)).visible
    np.testing.assert_allclose(X.reshape(3, 2000, 3).mean(axis=1), own, atol=0.05)


def test_chains_of_rows_to_come_begin_at_the_row_before():
    """Two modes that one sweep does not leave: all units on, or all off."""
    m = model("binary", "binary", 4, 4, links=0.0)
    m.p.W[...], m.p.b[...], m.p.c[...] = 30.0, -60.0, -60.0
    last = np.repeat([[1.0] * 4, [0.0] * 4], 10, axis=0)
    X = run_algorithm(SequenceSampling(m, 20, 3, 1, state_before=np.zeros((20, 4)), row_before=last))
    assert (last[:, None] == X).all()


def test_means_are_drawn_in_place_of_states():
    X = run_algorithm(SequenceSampling(model("binary", "binary", 3, 4), 5, 4, 3, means=True))
    assert ((X > 0) & (X < 1)).all()


def test_the_row_before_each():
    assert held(np.zeros((9, 1)), OFFSETS).previous_row.tolist() == [-1, 0, 1, -1, -1, 4, 5, 6, 7]


def test_real_rows_of_many_states_are_looked_at_by_their_expectations():
    m, v = model("gaussian", "binary", 3, 13, links=0.1), rows("gaussian", 9, 3)
    given = held(v, OFFSETS)
    own = exact_sums.step_expectations(m, given.step_harmoniums(m)).visible
    assert likelihood.validation_criterion(m, given, 0) == pytest.approx(-np.square(v - own).mean(), rel=0.2)


def test_pieces_held_out_begin_in_the_state_that_the_rows_before_lead_to():
    m, v = model("binary", "binary", 3, 4), rows("binary", 9, 3)
    counted = np.array([0, 1, 1, 1, 0, 0, 0, 1, 1], dtype=bool)
    kept = make_stored_sequences(m, EvaluationSequences(v, OFFSETS, counted))
    assert kept.offsets.tolist() == [0, 2, 3, 5]
    assert kept.begins.tolist() == [0, 1, 0]
    apart = EvaluationSequences(kept.X, kept.offsets, np.ones(5, dtype=bool), SequenceHistory(kept.state, kept.begins.astype(bool)))
    found = likelihood.row_log_likelihoods(m, kept.X, apart.step_harmoniums(m))
    np.testing.assert_allclose(found, exact_likelihoods(m, v, OFFSETS)[counted], atol=1e-12)


def artifact(**settings: object):
    v, offsets = laid(bouncing(6, 10, 4))
    problem = RecurrentProblem(v, offsets, RecurrentSettings(hidden=3, epochs=2, **settings))
    return assemble_recurrent_rbm(problem, run_algorithm(RecurrentLearning(problem)), held(*laid(bouncing(3, 10, 4, 5))))


def test_parts_that_do_not_belong_together_are_refused():
    from dataclasses import replace

    value = artifact()
    value.validate()
    assert value.trace is not None
    assert value.trace.valid is None
    held_rows = value.holdout
    assert held_rows is not None
    wrong = {
        "hidden_units are": replace(value, hidden_units="many"),
        "need a bounded range": replace(value, hidden_units="gaussian"),
        "but the number of columns, 3, does not fit them": replace(value, hidden_units="softmax:2"),
        "base_mean has 1 columns, but the model has 4": replace(value, base_mean=np.zeros(1)),
        "column_scale has values that are not above 0": replace(value, column_scale=np.zeros(4)),
        "holdout has 3 visible and 3 hidden units, but the model has 4": replace(value, holdout=replace(held_rows, X=held_rows.X[:, :3])),
        "holdout/X: there are values other than 0 and 1": replace(value, holdout=replace(held_rows, X=held_rows.X + 2)),
    }
    for said, each in wrong.items():
        with pytest.raises(DataError, match=said):
            each.validate()
    with pytest.raises(DataError, match="a sequence without rows"):
        replace(held_rows, offsets=np.array([0, 0, 10, 30])).validate()
    with pytest.raises(DataError, match="/state is for 2 sequences, but /offsets for 3"):
        replace(held_rows, state=held_rows.state[:2]).validate()
