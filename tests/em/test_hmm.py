"""Baum–Welch: monotone, equal to closed forms and to hmmlearn, whatever is missing, masked, weighted or known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hidden_markov import enumerated
from scipy.stats import multivariate_normal, poisson

from herdcli.em import driver
from herdcli.em.sequence import hmm, sequences
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.numerics import block_statistics

LENGTHS = [30, 1, 17, 52, 8]
KEY = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
N = sum(LENGTHS)
FAMILIES = ["gaussian", "categorical", "poisson", "bernoulli", "gmm"]


def data(name: str, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    state = np.repeat(np.arange(N // 4 + 1), 4)[:N] % 3
    if name in ("gaussian", "gmm"):
        return np.array([[0, 0], [4, 1], [1, 5.0]])[state] + random.normal(size=(N, 2))
    if name == "categorical":
        return (state[:, None] + (random.random((N, 1)) < 0.3)).astype(float)
    if name == "poisson":
        return random.poisson(np.array([[1, 6], [4, 1], [9, 9]])[state]).astype(float)
    return (random.random((N, 3)) < np.array([[0.9, 0.1, 0.2], [0.2, 0.8, 0.1], [0.1, 0.3, 0.9]])[state]).astype(float)


def model(name: str, X: np.ndarray, K: int = 3, *, key=KEY, weight=None, labels=None, **options) -> hmm.HMM:
    found = sequences.group_rows_into_sequences(X, key, weight)
    asked = {key: options.pop(key) for key in ("covariance", "mixtures", "floor") if key in options}
    family, moments = hmm.emission_family(name, found, mixtures=asked.pop("mixtures", 2), **asked)
    if isinstance(options.get("transitions"), str):
        options["transitions"] = hmm.chain_structure(options["transitions"], K)
    return hmm.prepare_hmm(found, K, family, moments, labels=labels, **options)


def fit(made: hmm.HMM, iterations: int = 12, **settings) -> driver.EMFit:
    chosen = driver.EMSettings(iterations, settings.pop("tolerance", 0.0), patience=iterations + 1, **settings)
    return driver.run_em(driver.EM(made, sequences.SequenceBlocks(made.sequences), chosen))


def density(made: hmm.HMM, p: dict, X: np.ndarray) -> np.ndarray:
    """(m, K) log p(row | state), plainly."""
    found = np.zeros((len(X), made.states))
    for t, row in enumerate(X):
        o = ~np.isnan(row)
        for k in range(made.states):
            if made.emission.name == "categorical":
                found[t, k] = sum(np.log(p["table"][k, d, int(row[d])]) for d in np.flatnonzero(o))
            elif made.emission.name == "poisson":
                found[t, k] = poisson.logpmf(row[o], p["rate"][k, o]).sum()
            elif made.emission.name == "bernoulli":
                found[t, k] = np.log(np.where(row[o] > 0, p["probability"][k, o], 1 - p["probability"][k, o])).sum()
            elif o.any():
                each = [
                    multivariate_normal(m[o], S[np.ix_(o, o)]).pdf(row[o]) for m, S in zip(p["mean"][k], p["covariance"][k], strict=True)
                ]
                found[t, k] = np.log(p["mixing"][k] @ each)
    return found


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("holes", [False, True])
def test_the_ledger_is_monotone_and_the_log_likelihood_that_of_enumeration(name: str, holes: bool) -> None:
    X = data(name)
    if holes:
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
        X[7] = np.nan
    made = model(name, X)
    found = fit(made)
    assert found.ledger.largest_rise < 1e-12
    assert found.ledger.kl.min() > -1e-12
    short = X[: LENGTHS[0]][:7]
    p = found.parameters
    expected = enumerated(p["initial"], p["transition"], density(made, p, short))
    own = replace(made, sequences=sequences.group_rows_into_sequences(short), given=p)
    again = fit(own, 0)
    assert again.log_likelihood * len(short) == pytest.approx(expected.log_likelihood, abs=1e-11)


@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal", "spherical"])
def test_every_covariance_is_monotone(covariance: str) -> None:
    X = data("gaussian")
    X[3, 0] = X[50, 1] = np.nan
    found = fit(model("gaussian", X, covariance=covariance))
    assert found.ledger.largest_rise < 1e-12
    S = found.parameters["covariance"][:, 0]
    if covariance == "tied":
        assert np.ptp(S, axis=0).max() == 0
    if covariance in ("diagonal", "spherical"):
        assert np.abs(S[:, 0, 1]).max() == 0
    if covariance == "spherical":
        assert S[:, 0, 0] == pytest.approx(S[:, 1, 1])


@pytest.mark.parametrize("name", ["gaussian", "categorical", "poisson", "bernoulli"])
def test_one_state_has_a_closed_form(name: str) -> None:
    X = data(name)
    made = model(name, X, 1, floor=0.0)
    p = fit(made, 1).parameters
    assert p["initial"].tolist() == [1.0]
    assert p["transition"].tolist() == [[1.0]]
    if name == "gaussian":
        assert p["mean"][0, 0] == pytest.approx(X.mean(axis=0), abs=1e-12)
        assert p["covariance"][0, 0] == pytest.approx(np.cov(X.T, ddof=0), abs=1e-12)
    elif name == "categorical":
        assert p["table"][0, 0] == pytest.approx(np.bincount(X[:, 0].astype(int)) / N, abs=1e-15)
    else:
        assert p["rate" if name == "poisson" else "probability"][0] == pytest.approx(X.mean(axis=0), abs=1e-15)


def test_the_m_step_is_that_of_the_posterior_by_enumeration() -> None:
    X = data("categorical")[:12]
    made = model("categorical", X, key=np.repeat([0, 1], [7, 5]), floor=0.0)
    p = made.start(0)
    found = fit(replace(made, given=p), 1).parameters
    first, pairs, counts = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 4))
    for part in (X[:7], X[7:]):
        own = enumerated(p["initial"], p["transition"], density(made, p, part))
        first += own.smoothed[0]
        pairs += own.pairs
        np.add.at(counts.T, part[:, 0].astype(int), own.smoothed)
    assert found["initial"] == pytest.approx(first / 2, abs=1e-12)
    assert found["transition"] == pytest.approx(pairs / pairs.sum(axis=1, keepdims=True), abs=1e-12)
    assert found["table"][:, 0] == pytest.approx(counts / counts.sum(axis=1, keepdims=True), abs=1e-12)


def test_a_thousand_sequences_count_as_their_weights() -> None:
    X = data("gaussian")
    weight = np.repeat([2.0, 1.0, 3.0, 1.0, 2.0], LENGTHS)
    once = fit(model("gaussian", X, weight=weight, start=(start := model("gaussian", X).start(0))))
    rows = np.concatenate([np.flatnonzero(s == KEY) for s, w in enumerate([2, 1, 3, 1, 2]) for _ in range(w)])
    key = np.repeat(np.arange(9), [LENGTHS[s] for s, w in enumerate([2, 1, 3, 1, 2]) for _ in range(w)])
    many = fit(model("gaussian", X[rows], key=key, start=start))
    assert once.log_likelihood == pytest.approx(many.log_likelihood, abs=1e-11)
    assert once.parameters["transition"] == pytest.approx(many.parameters["transition"], abs=1e-10)
    assert once.parameters["mean"] == pytest.approx(many.parameters["mean"], abs=1e-10)


@pytest.mark.parametrize("name", ["left-to-right", "left-to-right:1", "banded:1"])
def test_what_a_mask_forbids_stays_zero(name: str) -> None:
    made = model("gaussian", data("gaussian"), 4, transitions=name)
    found = fit(made, 20)
    assert (found.parameters["transition"][~made.structure.allowed] == 0).all()
    assert found.parameters["transition"].sum(axis=1) == pytest.approx(np.ones(4))
    assert found.ledger.largest_rise < 1e-12
    if name != "banded:1":
        assert found.parameters["initial"].tolist() == [1, 0, 0, 0]
        assert made.structure.parameter_count == made.structure.allowed.sum() - 4


def test_a_mask_can_be_given_and_has_to_lead_on() -> None:
    ring = np.roll(np.eye(3), 1, axis=1) + np.eye(3)
    assert (fit(model("poisson", data("poisson"), transitions=hmm.chain_structure("full", 3, ring))).parameters["transition"] == 0)[
        ring == 0
    ].all()
    with pytest.raises(BadUsage, match="each state needs an allowed successor"):
        hmm.chain_structure("full", 2, np.array([[1, 0], [0, 0]]))
    with pytest.raises(DataError, match="the transition matrix is 3 × 3, expected 2 × 2"):
        hmm.chain_structure("full", 2, ring)
    with pytest.raises(BadUsage, match="'round' is not a transition structure"):
        hmm.chain_structure("round", 2)


@pytest.mark.parametrize("name", ["gaussian", "diagonal", "categorical", "poisson"])
def test_log_likelihoods_are_hmmlearn_s_after_every_iteration(name: str) -> None:
    rival = pytest.importorskip("hmmlearn.hmm")
    family = "gaussian" if name == "diagonal" else name
    X = data(family)
    options = {"covariance": "diagonal" if name == "diagonal" else "full"} if family == "gaussian" else {}
    made = model(family, X, floor=0.0, **options)
    p = made.start(0)
    shared = {"n_components": 3, "n_iter": 6, "tol": -1e9, "init_params": "", "implementation": "scaling"}
    if family == "gaussian":
        without = {"min_covar": 0, "covars_prior": 0, "covars_weight": 0, "means_weight": 0}
        other = rival.GaussianHMM(covariance_type="diag" if name == "diagonal" else "full", **without, **shared)
        covariance = p["covariance"][:, 0]
        other.covars_ = np.diagonal(covariance, axis1=1, axis2=2).copy() if name == "diagonal" else covariance
        other.means_ = p["mean"][:, 0]
    elif family == "poisson":
        other = rival.PoissonHMM(**shared)
        other.lambdas_ = p["rate"]
    else:
        other = rival.CategoricalHMM(**shared)
        other.emissionprob_ = p["table"][:, 0]
    other.startprob_, other.transmat_ = p["initial"], p["transition"]
    other.fit(X.astype(int) if family != "gaussian" else X, LENGTHS)
    expected = list(other.monitor_.history)
    found = fit(replace(made, given=p), 5)
    assert len(expected) == 6
    assert found.ledger.log_likelihood[::2] * N == pytest.approx(expected, abs=1e-8)


def test_known_states_are_known() -> None:
    X = data("gaussian")
    labels = np.repeat(np.arange(N // 4 + 1), 4)[:N] % 3
    p = fit(model("gaussian", X, labels=labels, floor=0.0), 1).parameters
    for k in range(3):
        assert p["mean"][k, 0] == pytest.approx(X[labels == k].mean(axis=0), abs=1e-12)
    inner = KEY[1:] == KEY[:-1]
    counts = np.zeros((3, 3))
    np.add.at(counts, (labels[:-1][inner], labels[1:][inner]), 1)
    assert p["transition"] == pytest.approx(counts / counts.sum(axis=1, keepdims=True), abs=1e-12)
    half = np.where(np.arange(N) % 2, labels, -1)
    assert fit(model("gaussian", X, labels=half)).ledger.largest_rise < 1e-12


def test_blocks_and_workers_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(sequences, "BLOCK", 16)
    made = model("gmm", data("gmm"))
    source, chosen = sequences.SequenceBlocks(made.sequences), driver.EMSettings(3, 0.0)
    assert source.count > 2
    with ThreadPoolExecutor(2) as pool:
        a, b = driver.run_em(driver.EM(made, source, chosen)), driver.run_em(driver.EM(made, source, chosen, pool.map))
    assert a.parameters["covariance"].tobytes() == b.parameters["covariance"].tobytes()
    assert a.ledger.free_energy.tobytes() == b.ledger.free_energy.tobytes()


def test_sequences_of_one_step_have_no_transitions() -> None:
    X = data("gaussian")
    found = fit(model("gaussian", X, key=np.arange(N)))
    assert found.ledger.largest_rise < 1e-12
    start = model("gaussian", X).start(0)["transition"]
    assert found.parameters["transition"] == pytest.approx(start)  # nothing was seen of it
    assert fit(model("gaussian", X[:1], 1, key=None)).log_likelihood < np.inf


def test_floors_are_the_likeliest_above_them_and_are_told() -> None:
    from herdcli.em.sequence.emissions import raise_to_floor

    counts = np.array([[8.0, 1.0, 0.0, 1.0]])
    p, floors = raise_to_floor(counts, 0.15)
    assert p == pytest.approx(np.array([[0.55, 0.15, 0.15, 0.15]]))
    assert floors == 3
    X = np.zeros((20, 1))
    X[-1] = 1
    found = fit(model("categorical", X, 2, key=None, floor=0.01), 30)
    assert found.parameters["table"].min() == pytest.approx(0.01)
    assert found.ledger.largest_rise < 1e-12
    assert found.ledger.floors.max() > 0
    with pytest.raises(BadUsage, match=r"2 probabilities cannot all be 0\.5 or more"):
        fit(model("categorical", X, 2, key=None, floor=0.5))


def test_values_that_a_family_cannot_emit_are_named() -> None:
    X = data("gaussian")
    for name, message in (
        ("categorical", "and symbols are whole numbers"),
        ("poisson", "and counts are whole numbers from 0"),
        ("bernoulli", "and bits are 0 or 1"),
    ):
        with pytest.raises(DataError, match=message):
            model(name, X)
    with pytest.raises(DataError, match="column 'wave' has 2 in row 1, and bits"):
        hmm.emission_family("bernoulli", sequences.group_rows_into_sequences(np.array([[1.0], [2.0]])), names=["wave"])


def test_an_impossible_row_is_named_by_sequence_and_step() -> None:
    X = np.array([[0.0], [0.0], [1.0], [0.0]])
    made = model("categorical", X, 2, key=np.array(["a", "a", "b", "b"]), floor=0.0)
    p = {"initial": np.array([1.0, 0.0]), "transition": np.eye(2), "table": np.array([[[1.0, 0.0]], [[0.0, 1.0]]])}
    with pytest.raises(HerdError, match=r"row 2 \(step 0 of sequence b\) is impossible in every state that can be reached"):
        fit(replace(made, given=p))


def test_fewer_rows_than_states_and_labels_without_a_state_are_refused() -> None:
    with pytest.raises(DataError, match="2 rows are too few for 3 states"):
        model("gaussian", np.zeros((2, 1)), key=None)
    with pytest.raises(DataError, match="label 3 is out of range: there are 3 states, 0 to 2"):
        model("gaussian", data("gaussian"), labels=np.full(N, 3))


def test_rows_drawn_of_a_model_have_its_moments() -> None:
    random = np.random.default_rng(0)
    state = np.repeat(np.arange(3), 20_000)
    for name in FAMILIES:
        made = model(name, data(name))
        p = fit(made, 3).parameters
        X = made.emission.sample_rows(p, state, random)
        for k in range(3):
            rows = X[state == k]
            if name == "categorical":
                assert np.bincount(rows[:, 0].astype(int), minlength=4) / 20_000 == pytest.approx(p["table"][k, 0], abs=0.02)
            elif name in ("gaussian", "gmm"):
                assert rows.mean(axis=0) == pytest.approx(p["mixing"][k] @ p["mean"][k], abs=0.08)
            else:
                assert rows.mean(axis=0) == pytest.approx(p["rate" if name == "poisson" else "probability"][k], abs=0.1)


def test_numbers_of_parameters() -> None:
    for name, each in (("gaussian", 5), ("categorical", 3), ("poisson", 2), ("bernoulli", 3), ("gmm", 11)):
        made = model(name, data(name))
        assert hmm.parameter_count(made) == 2 + 6 + 3 * each
    assert block_statistics.BLOCK == sequences.BLOCK
