"""The kind hmm: written, read, checked, archived; its baselines and what it says of pieces that begin later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from herdcli.artifacts.load_save import load, save
from herdcli.em import hmm_artifacts as kinds
from herdcli.em.driver import EMSettings
from herdcli.em.sequence import forward_backward, hmm_fitting, sequences
from herdcli.errors import BadUsage, DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.hmm import metrics
from herdcli.schema import check_arrays

ARCHIVE = Path(__file__).resolve().parents[1] / "data"
LENGTHS = [12, 9, 15, 7, 11, 6]
KEY = np.repeat(np.arange(6), LENGTHS)


def table(name: str = "gaussian") -> np.ndarray:
    random = np.random.default_rng(0)
    state = (np.arange(len(KEY)) // 3) % 2
    if name == "gaussian":
        return np.stack([5.0 * state, 1 - state], axis=1) + random.normal(size=(len(KEY), 2))
    return random.poisson(1 + 6 * state)[:, None].astype(float)


def fitted(
    name: str = "gaussian", X: np.ndarray | None = None, parts: tuple[float, ...] = (4.0, 1.0, 1.0), key=KEY, **asked
) -> kinds.HiddenMarkovModel:
    X = table(name) if X is None else X
    divided = sequences.split_sequences(sequences.group_rows_into_sequences(X, key), None, parts, 0)
    rows = hmm_fitting.ChainSequences(training=divided[0], valid=divided.get(1), test=divided.get(2))
    options = {"sizes": (2,), "emission": name} | asked
    made = hmm_fitting.prepare_chain_fit(rows, hmm_fitting.ChainOptions(**options), EMSettings(8, 0.0, restarts=2))
    state = made.search.init()
    while not made.search.done(state):
        state = made.search.step(state)
    return made.artifact_from_search(made.search.result(state))


@pytest.mark.parametrize("name", ["gaussian", "poisson", "categorical", "gmm"])
def test_what_is_written_is_read(name: str, tmp_path: Path) -> None:
    value, path = fitted(name, table("gaussian" if name == "gmm" else name)), str(tmp_path / "x.h5")
    save(path, value, [])
    found = load(path)
    assert found.kind == "hmm"
    check_arrays(found.value)
    assert found.value.transition.tobytes() == value.transition.tobytes()
    assert found.value.log_likelihood(value.held.sequences) == value.log_likelihood(value.held.sequences)
    assert found.value.free_parameters == value.free_parameters


def test_archived_files_load() -> None:
    found = load(str(ARCHIVE / "hmm-1.h5"))
    assert found.kind == "hmm"
    assert found.value.ledger.largest_rise < 1e-9
    assert len(found.value.restarts.objective) == 2
    assert found.value.infer_states(found.value.held.sequences, "viterbi").max() == 1


def test_values_that_make_no_chain_are_refused() -> None:
    value = fitted()
    for other, message in (
        (replace(value, transition=value.transition * 2), "/transition does not hold probabilities"),
        (replace(value, initial=np.array([1.5, -0.5])), "/initial does not hold probabilities"),
        (replace(value, emission="laplace"), "emission is 'laplace'"),
        (replace(value, emission="poisson"), "/emissions has 'mixing', which --emission poisson does not have"),
        (replace(value, family="round"), "family is 'round'"),
        (replace(value, held=replace(value.held, X=value.held.X[:, :1])), "/held/X has 1 columns, but /emissions has 2"),
        (
            replace(value, known=replace(value.known, occupancy=np.ones(3) / 3)),
            "/known/occupancy must hold one mean probability for each state",
        ),
        (
            replace(value, known=replace(value.known, base_step=np.full(2, np.nan))),
            "/known/base_step must hold finite moments of 2 columns",
        ),
        (
            replace(value, known=replace(value.known, base_full=np.full((2, 2), np.inf))),
            "/known/base_full must hold finite moments of 2 columns",
        ),
        (
            replace(value, emissions=replace(value.emissions, covariance=0.0 * value.emissions.covariance)),
            "/emissions/covariance is not positive definite",
        ),
        (
            replace(value, emissions=replace(value.emissions, mean=value.emissions.mean * np.nan)),
            "/emissions has values that are not finite",
        ),
    ):
        with pytest.raises(DataError, match=message):
            check_arrays(other)


def test_the_baseline_is_one_gaussian_and_the_mixture_forgets_the_order() -> None:
    value = fitted()
    figures = metrics(value, EvaluationSettings())
    held, training = (
        value.held.sequences,
        sequences.split_sequences(sequences.group_rows_into_sequences(table(), KEY), None, (4.0, 1.0, 1.0), 0)[0].as_one_block().X,
    )
    expected = multivariate_normal(training.mean(axis=0), np.cov(training.T, ddof=0)).logpdf(held.as_one_block().X).mean()
    assert value.single_state_densities(held.as_one_block().X).mean() == pytest.approx(expected, abs=1e-9)
    assert figures["log_likelihood_one_state"] == pytest.approx(expected, abs=1e-9)
    densities = np.stack(
        [
            multivariate_normal(m, S).pdf(held.as_one_block().X)
            for m, S in zip(value.emissions.mean[:, 0], value.emissions.covariance[:, 0], strict=True)
        ]
    )
    assert figures["log_likelihood_mixture"] == pytest.approx(np.log(value.known.occupancy @ densities).mean(), abs=1e-12)
    own = forward_backward.row_log_likelihoods(
        value.chain, forward_backward.scale_likelihoods(value.prepare_emission().log_likelihoods(held.as_one_block().X)), held.offsets
    )
    assert own.mean() == pytest.approx(figures["log_likelihood"], abs=1e-12), "rows given those before them add up to sequences"
    best = max(figures[f"log_likelihood_{name}"] for name in ("mixture", "one_state", "gaussian", "independent"))
    assert figures["log_likelihood_baseline"] == best
    assert figures["gain"] == pytest.approx(figures["log_likelihood"] - best, abs=1e-12)


def test_pieces_that_begin_later_begin_in_any_state() -> None:
    value = fitted(key=None, parts=(0.6, 0.2, 0.2))
    assert value.held.later
    assert sorted(value.initial.tolist()) == pytest.approx([0.0, 1.0], abs=1e-6)  # of one sequence
    began = replace(value, initial=value.known.occupancy)
    once = sequences.group_rows_into_sequences(value.held.X)
    assert value.log_likelihood(value.held.sequences) == pytest.approx(began.log_likelihood(once), abs=1e-12)
    assert value.log_likelihood(once) != began.log_likelihood(once)


def test_paths_of_pieces_that_begin_later_are_drawn_from_their_own_posterior() -> None:
    value = fitted(key=None, parts=(0.6, 0.2, 0.2))
    held = replace(value.held.sequences, X=np.full_like(value.held.X, np.nan))  # nothing is seen: the occupancy alone says where they begin
    first = value.sample_state_paths(held, 2000, 1)[held.offsets[:-1]]
    share = value.infer_states(held, "smoothed")[held.offsets[:-1]]
    assert np.bincount(first.astype(int).ravel(), minlength=2) / first.size == pytest.approx(share.mean(axis=0), abs=0.05)


def test_numbers_of_states_are_tried_and_judged() -> None:
    for criterion in ("bic", "aic", "valid"):
        value = fitted(sizes=(1, 2, 3), criterion=criterion)
        assert value.known.sizes.tolist() == [1, 2, 3]
        assert value.states == value.known.sizes[value.known.scores.argmin()]
    assert fitted(sizes=(1, 2, 3)).states == 2
    with pytest.raises(DataError, match="has no validation sequences"):
        fitted(sizes=(1, 2), criterion="valid", parts=(5.0, 0.0, 1.0))


def test_wants_that_there_are_not() -> None:
    with pytest.raises(BadUsage, match="unknown value 'scores' of want"):
        fitted().infer_states(fitted().held.sequences, "scores")


@pytest.mark.parametrize("offsets", [[0, 1000], [1, 6], [0, 4, 2, 6], [0, 3, 3, 6], []])
def test_held_out_sequences_that_are_not_those_of_the_rows_are_refused(offsets):
    kinds.HeldoutSequences(X=np.zeros((6, 1)), offsets=np.array([0, 4, 6])).validate()
    with pytest.raises(DataError, match="held/offsets"):
        kinds.HeldoutSequences(X=np.zeros((6, 1)), offsets=np.array(offsets, dtype=np.int64)).validate()
