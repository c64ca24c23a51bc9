"""Emissions, starts of chains, factors and densities: each part against its formula or numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from herdcli.algorithm import run_algorithm
from herdcli.em import hmm_artifacts
from herdcli.em.driver import EMSettings, run_em
from herdcli.em.factor import factor_analysis
from herdcli.em.mixture import gaussian_densities
from herdcli.em.sequence import emissions, gaussian_emissions, hmm, hmm_fitting, sequences
from herdcli.em.sequence import forward_backward as chains
from herdcli.em.sequence.particle_filter import (
    DiscreteChainModel,
    LinearGaussianModel,
    bootstrap_filter,
    estimate_state_probabilities,
    smooth_particles,
    systematic_resampling,
)
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import ArrayRows, RowBlocks, row_moments
from herdcli.rng import Stream, generator


def gaussian(X, covariance="full", mixtures=2, floor=None):
    source = RowBlocks(ArrayRows(X))
    return gaussian_emissions.GaussianEmission.from_moments(row_moments(source), source, covariance, mixtures, floor)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
def test_a_start_deals_the_rows_of_each_state_to_its_components(covariance):
    """Two states of two heaps each, so far apart that k-means++ takes one row of each; a third state without rows."""
    random = np.random.default_rng(0)
    state, heap = np.repeat([0, 0, 1, 1], 8), np.repeat(np.arange(4), 8)
    X = np.array([[0.0, 0], [100, 0], [0, 300], [200, 200]])[heap] + random.normal(size=(32, 2))
    w = random.uniform(0.5, 2.0, 32)
    family = gaussian(X, covariance, floor=0.0)
    p = family.start(X, w, state, 3, np.random.default_rng(1))
    assert sorted(tuple(np.round(m, -1).tolist()) for m in p["mean"][:2].reshape(4, 2)) == [(0, 0), (0, 300), (100, 0), (200, 200)]
    S = np.array([np.cov(X[heap == h].T, aweights=w[heap == h], ddof=0) for h in range(4)])
    mass = np.array([w[heap == h].sum() for h in range(4)]) + 1
    shared = np.einsum("h,hij->ij", mass - 1, S) / w.sum()
    for k in (0, 1):
        for m in (0, 1):
            h = int(np.square(p["mean"][k, m] - [X[heap == h].mean(axis=0) for h in range(4)]).sum(axis=1).argmin())
            assert h // 2 == k
            np.testing.assert_allclose(p["mean"][k, m], np.average(X[heap == h], axis=0, weights=w[heap == h]), rtol=1e-9)
            assert p["mixing"][k, m] == pytest.approx(mass[h] / mass[2 * k : 2 * k + 2].sum())
            tied = np.average([*S, shared, shared], axis=0, weights=[*mass, 1, 1])
            expected = {"full": S[h], "diagonal": np.diag(np.diag(S[h])), "tied": tied}[covariance]
            np.testing.assert_allclose(p["covariance"][k, m], expected, atol=1e-8)
    np.testing.assert_allclose(p["mean"][2], np.repeat(X.mean(axis=0)[None], 2, axis=0), rtol=1e-9)
    assert p["mixing"][2].tolist() == [0.5, 0.5]
    one = gaussian(X, mixtures=1).start(X, w, state, 2, np.random.default_rng(1))
    np.testing.assert_allclose(one["mean"][:, 0], [np.average(X[state == k], axis=0, weights=w[state == k]) for k in (0, 1)])


def test_gaussians_of_states_are_counted_floored_and_drawn_by_their_shares():
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1, 2, 3]
    for covariance, of_covariances in (("full", 6 * 6), ("tied", 6), ("diagonal", 6 * 3), ("spherical", 6)):
        assert gaussian(X, covariance).parameter_count(3) == 6 * 3 + of_covariances + 3
        assert (
            gaussian(X, covariance, mixtures=1).parameter_count(3) == 9 + {"full": 18, "tied": 6, "diagonal": 9, "spherical": 3}[covariance]
        )
    assert gaussian(X).floor == pytest.approx(1e-6 * X.var(axis=0).mean())
    assert gaussian(np.full((4, 2), 3.0)).floor == pytest.approx(1e-12 * 10)
    assert (gaussian(X).name, gaussian(X, mixtures=1).name) == ("gmm", "gaussian")
    for wrong in ({"covariance": "round"}, {"mixtures": 0}):
        with pytest.raises(BadUsage, match="unknown covariance"):
            gaussian(X, **wrong)
    p = {"mixing": np.array([[0.25, 0.75], [1.0, 0.0]]), "mean": np.array([[[0.0], [100.0]], [[500.0], [900.0]]])}
    p["covariance"] = np.array([[[[1.0]], [[4.0]]], [[[9.0]], [[1.0]]]])
    state = np.repeat([0, 1], 20_000)
    found = gaussian(X[:, :1]).sample_rows(p, state, np.random.default_rng(0))[:, 0]
    low, high, other = found[:20_000][found[:20_000] < 50], found[:20_000][found[:20_000] > 50], found[20_000:]
    assert len(high) / 20_000 == pytest.approx(0.75, abs=0.015)
    for part, mean, deviation in ((low, 0, 1), (high, 100, 2), (other, 500, 3)):
        assert (part.mean(), part.std()) == (pytest.approx(mean, abs=0.1), pytest.approx(deviation, rel=0.04))


def test_symbols_are_shared_out_and_counted():
    """Counts of each state's rows plus 1/2V; a missing value is no symbol; gaps between the symbols are none either."""
    X = np.array([[2.0, 7], [2, 4], [5, np.nan], [7, 7], [7, 7]])
    family = emissions.Categorical.from_table(X, 0.0, None)
    assert family.symbols.tolist() == [2, 4, 5, 7]
    assert family.symbol_indices(X).tolist() == [[0, 3], [0, 1], [2, 4], [3, 3], [3, 3]]
    w, state = np.array([1.0, 2, 1, 1, 3]), np.array([0, 0, 1, 1, 0])
    table = family.start(X, w, state, 2, np.random.default_rng(0))["table"]
    counts = np.array([[[3, 0, 0, 3], [0, 2, 0, 4]], [[0, 0, 1, 1], [0, 0, 0, 1]]]) + 1 / 8
    np.testing.assert_allclose(table, counts / counts.sum(axis=2, keepdims=True))
    chance = family.start(X, w, np.full(5, -1), 3, np.random.default_rng(4))["table"]
    shares = np.random.default_rng(4).dirichlet(np.ones(3), size=(2, 4)).transpose(2, 0, 1)
    every = shares * np.array([[3, 0, 1, 4], [0, 2, 0, 5]]) + 1 / 8
    np.testing.assert_allclose(chance, every / every.sum(axis=2, keepdims=True))
    for row in ([3.0, 7], [8, 7], [1, 7], [2.5, 7]):
        with pytest.raises(DataError, match=f"has the symbol {row[0]:g}, which the model does not know"):
            family.symbol_indices(np.array([row]))
    close = emissions.Categorical(np.array([3, 4, 5]), 1)
    assert close.symbol_indices(np.array([[3.0], [5.0], [np.nan]])).tolist() == [[0], [2], [3]]
    for value in (2.0, 6.0, 3.5):
        with pytest.raises(DataError, match=f"has the symbol {value:g}, which the model does not know"):
            close.symbol_indices(np.array([[value]]))
    assert emissions._format_symbols(np.arange(8)) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert emissions._format_symbols(np.arange(9)) == "0, 1, 2, 3, 4, 5, 6, 7 … 8"
    drawn = family.sample_rows(
        {"table": np.array([[[0.5, 0, 0, 0.5], [0, 0.2, 0.8, 0]]])}, np.zeros(20_000, dtype=int), np.random.default_rng(0)
    )
    assert np.mean(drawn[:, 0] == 2) == pytest.approx(0.5, abs=0.015)
    assert np.mean(drawn[:, 1] == 5) == pytest.approx(0.8, abs=0.015)
    assert set(drawn[:, 0]) == {2, 7}
    many = np.arange(float(emissions.MOST_SYMBOLS + 1))[:, None]
    assert len(emissions.Categorical.from_table(many[1:], None, None).symbols) == emissions.MOST_SYMBOLS
    with pytest.raises(DataError, match="different symbols"):
        emissions.Categorical.from_table(many, None, None)


def test_probabilities_are_raised_to_the_floor_and_the_others_share_the_rest():
    """Of counts 1, 9, 0, 90 with floor 0.08: 0 and 1 take it, 9 of the rest 0.84 is below it too, and 90 has 0.76."""
    p, count = emissions.raise_to_floor(np.array([[1.0, 9, 0, 90], [25, 25, 25, 25]]), 0.08)
    np.testing.assert_allclose(p, [[0.08, 0.08, 0.08, 0.76], [0.25] * 4])
    assert count == 2  # what was below it by its own share
    p, count = emissions.raise_to_floor(np.array([1.0, 3.0]), 0.25)
    assert (p.tolist(), count) == ([0.25, 0.75], 0)
    with pytest.raises(BadUsage, match=r"4 probabilities cannot all be 0\.25 or more"):
        emissions.raise_to_floor(np.ones(4), 0.25)
    assert np.isnan(emissions.raise_to_floor(np.zeros((1, 2)), 0.1)[0]).all()


def test_starts_of_counts_and_bits_are_nine_tenths_of_the_way_to_each_state():
    X = np.array([[4.0, 0], [2, np.nan], [0, 1], [0, 0]])
    w, state = np.array([1.0, 3, 1, 1]), np.array([0, 0, 1, 1])
    every = np.array([10 / 6, 1 / 3])
    rate = emissions.MeanEmission("poisson", 2).start(X, w, state, 3, np.random.default_rng(0))["rate"]
    own = np.array([[2.5, 0.0], [0.0, 0.5], every])
    np.testing.assert_allclose(rate, 0.9 * own + 0.1 * every)
    bits = emissions.MeanEmission("bernoulli", 1, 0.0).start(np.ones((2, 1)), np.ones(2), np.array([0, 0]), 1, np.random.default_rng(0))
    assert bits["probability"].tolist() == [[1 - 1e-3]]
    none = emissions.MeanEmission("poisson", 1).start(np.zeros((2, 1)), np.ones(2), np.array([0, 0]), 1, np.random.default_rng(0))
    assert none["rate"].tolist() == [[1e-3]]
    family = emissions.MeanEmission("bernoulli", 1, 0.1)
    sums = {"values": np.array([[0.0], [9.5], [5.0], [0.0]]), "there": np.array([[10.0], [10.0], [10.0], [0.0]])}
    found, floors = family.maximise({"probability": np.full((4, 1), 0.3)}, sums)
    assert (found["probability"].ravel().tolist(), floors) == ([0.1, 0.9, 0.5, 0.3], 2)
    for name, floor in (("bernoulli", 0.49), ("poisson", 0.7)):
        assert emissions.MeanEmission.from_table(name, np.ones((2, 1)), floor, None).floor == floor
    with pytest.raises(BadUsage, match=r"probabilities cannot be at least 0\.5 and at most 1 − 0\.5"):
        emissions.MeanEmission.from_table("bernoulli", np.ones((2, 1)), 0.5, None)
    with pytest.raises(DataError, match="column 'b' has -1 in row 1, and counts are whole numbers from 0"):
        emissions.MeanEmission.from_table("poisson", np.array([[1.0, 2], [0, -1]]), None, ["a", "b"])
    with pytest.raises(DataError, match="column 1 has 2 in row 0, and bits are 0 or 1"):
        emissions.MeanEmission.from_table("bernoulli", np.array([[1.0, 2]]), None, None)


def chain(X, K, name="gaussian", transitions="full", key=None, weight=None, **options):
    found = sequences.group_rows_into_sequences(X, key, weight)
    family, known = hmm.emission_family(name, found)
    return hmm.prepare_hmm(found, K, family, known, transitions=hmm.chain_structure(transitions, K), **options)


def test_chains_begin_with_transitions_that_like_to_stay():
    X = np.concatenate([np.zeros(10), 100 + np.zeros(10), 200 + np.zeros(10)])[:, None] + 0.1 * np.arange(30.0)[:, None]
    p = chain(X, 3).start(0)
    stay, K = hmm.STAY, 3
    np.testing.assert_allclose(p["transition"], (1 - stay) / K + stay * np.eye(3))
    np.testing.assert_allclose(p["initial"], 1 / 3)
    assert sorted(np.round(p["mean"].ravel(), -1).tolist()) == [0, 100, 200]
    ahead = chain(X, 3, transitions="left-to-right:1")
    p = ahead.start(0)
    expected = np.array([[stay + (1 - stay) / 2, (1 - stay) / 2, 0], [0, stay + (1 - stay) / 2, (1 - stay) / 2], [0, 0, 1]])
    np.testing.assert_allclose(p["transition"], expected)
    assert p["initial"].tolist() == [1, 0, 0]
    np.testing.assert_allclose(p["mean"].ravel(), [X[:10].mean(), X[10:20].mean(), X[20:].mean()])  # thirds of the sequence
    assert (ahead.start(1)["mean"] != p["mean"]).any()
    labels = np.where(np.arange(30) < 3, 2, -1)
    p = chain(X, 3, transitions="left-to-right", labels=labels).start(0)
    np.testing.assert_allclose(p["mean"].ravel(), [X[3:10].mean(), X[10:20].mean(), np.r_[X[:3].ravel(), X[20:].ravel()].mean()])
    assert (p["transition"][0] > 0).all()


def test_states_and_components_without_rows_keep_what_they_have_and_those_with_few_do_not():
    X = np.random.default_rng(0).normal(size=(9, 2))
    model = chain(X, 3)
    p = model.start(0)
    sums = model.complete_statistics(
        p,
        {
            "initial": np.array([0.25, 0.25, 0.0]),
            "pairs": np.array([[0.1, 0.3, 0.1], [0, 0, 0], [1, 2, 1.0]]),
            **model.emission.zero_statistics(3),
        },
    )
    sums["packed"][0, [0, 3, 5]] = 0.5, 1.0, 2.0
    after, floors = model.maximise(p, sums)
    np.testing.assert_allclose(after["transition"], [[0.2, 0.6, 0.2], p["transition"][1], [0.25, 0.5, 0.25]])
    assert (after["initial"].tolist(), floors) == ([0.5, 0.5, 0.0], 0)
    np.testing.assert_allclose(after["mean"][:, 0], [X.mean(axis=0), *p["mean"][1:, 0]])
    np.testing.assert_allclose(after["covariance"][0, 0], np.diag([2.0, 4.0]))
    family = gaussian(X)
    p = {"mixing": np.array([[0.3, 0.7], [0.9, 0.1]]), "mean": np.zeros((2, 2, 2)), "covariance": np.tile(np.eye(2), (2, 2, 1, 1))}
    packed = np.zeros((4, 6))
    packed[0, [0, 3, 5]], packed[1, [0, 3, 5]] = (0.1, 0.2, 0.3), (0.3, 0.6, 0.6)
    after, _ = family.maximise(p, family.complete_statistics(p, {"packed": packed}))
    np.testing.assert_allclose(after["mixing"], [[0.25, 0.75], [0.9, 0.1]])
    assert chains._normalise_logs(np.array([[-np.inf, -np.inf], [0.0, -np.inf]])).tolist() == [[0.0, 0.0], [1.0, 0.0]]


def test_a_start_from_a_model_keeps_nothing_that_the_structure_forbids():
    family, _ = hmm.emission_family("gaussian", sequences.group_rows_into_sequences(np.random.default_rng(0).normal(size=(9, 2))))
    p = {"initial": np.array([0.0, 0.25, 0.75]), "transition": np.array([[0.0, 1, 0], [0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])}
    given = SimpleNamespace(emission="gaussian", states=3, columns=2, parameters=p)
    asked = hmm_fitting.ChainOptions(sizes=(3,), transitions="left-to-right", given=given)
    found = hmm_fitting._initial_parameters(asked, family)
    np.testing.assert_allclose(found["initial"], [1, 0, 0])  # nothing was left: every first state that may be
    np.testing.assert_allclose(found["transition"], [[0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]])
    banded = hmm_fitting._initial_parameters(replace(asked, transitions="banded:1"), family)
    np.testing.assert_allclose(banded["transition"], [[0, 1, 0], [0.5, 0.25, 0.25], [0, 2 / 9, 7 / 9]])
    for changes, message in (
        (
            {"states": 2, "parameters": {"initial": np.ones(2) / 2, "transition": np.eye(2)}},
            "the initial model has 2 states and 2 columns, expected 3",
        ),
        ({"columns": 4}, "the initial model has 3 states and 4 columns, expected 3 and 2"),
        ({"emission": "poisson"}, "the initial model has --emission poisson, not gaussian"),
    ):
        with pytest.raises(DataError, match=message):
            hmm_fitting._initial_parameters(replace(asked, given=SimpleNamespace(**vars(given) | changes)), family)


def test_structures_of_transitions_and_their_numbers():
    assert hmm.chain_structure("full", 3).parameter_count == 9 - 3 + 2
    assert hmm.chain_structure("left-to-right", 3).allowed.astype(int).tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    assert hmm.chain_structure("left-to-right:1", 4).parameter_count == 7 - 4 + 0
    banded = hmm.chain_structure("banded:1", 4)
    assert (banded.allowed.sum(), banded.parameter_count, banded.first.all()) == (10, 10 - 4 + 3, True)
    assert hmm.chain_structure("banded:2", 4).allowed.sum() == 14
    for wrong in ("banded", "banded:0", "left-to-right:0", "left-to-right:x", "ring"):
        with pytest.raises(BadUsage, match="is not a transition structure"):
            hmm.chain_structure(wrong, 3)
    with pytest.raises(DataError, match="the transition matrix is 2 × 3, expected 3 × 3"):
        hmm.chain_structure("full", 3, np.ones((2, 3)))
    with pytest.raises(BadUsage, match="each state needs an allowed successor"):
        hmm.chain_structure("full", 2, np.array([[1, 1], [0, 0]]))
    X = np.zeros((2, 1))
    with pytest.raises(DataError, match="2 rows are too few for 3 states"):
        chain(X, 3)
    with pytest.raises(DataError, match="label 2 is out of range: there are 2 states, 0 to 1"):
        chain(X, 2, labels=np.array([2, -1]))
    with pytest.raises(DataError, match="the initial model has 3 states, expected 2"):
        chain(X, 2, start={"initial": np.ones(3)})
    made = chain(np.random.default_rng(0).normal(size=(9, 2)), 2)
    assert hmm.parameter_count(made) == 4 - 2 + 1 + 2 * 2 + 2 * 3


def test_a_start_looks_at_enough_whole_sequences_and_no_more(monkeypatch):
    monkeypatch.setattr(hmm, "SAMPLE_ROWS", 10)
    key = np.repeat(np.arange(8), 4)
    made = chain(np.arange(32.0)[:, None], 2, key=key, weight=np.where(key < 6, 1.0, 0.0))
    block, place = made._sample(np.random.default_rng(3))
    order = np.random.default_rng(3).permutation(8)
    assert (block.chosen[::4] // 4).tolist() == sorted(order[:3].tolist())  # three of four rows are ten or more
    assert place.tolist() == [0, 0.25, 0.5, 0.75] * 3
    assert block.offsets.tolist() == [0, 4, 8, 12]
    assert block.X[:, 0].tolist() == block.chosen.tolist()
    small = chain(np.arange(10.0)[:, None], 2, key=np.repeat([0, 1], 5))
    assert len(small._sample(np.random.default_rng(3))[0].X) == 10


def test_bounds_of_chains_by_criteria_and_their_baseline():
    """BIC and AIC of each number of states, from the ledger's formula; the occupancy is a mean of smoothed probabilities."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2)) + 4 * (np.arange(60) // 5 % 2)[:, None]
    whole = sequences.group_rows_into_sequences(X, np.repeat(np.arange(6), 10))
    parts = sequences.split_sequences(whole, None, (4.0, 1.0, 1.0), 0)
    rows = hmm_fitting.ChainSequences(training=parts[0], valid=parts[1], test=parts[2])
    for criterion in ("bic", "aic", "valid"):
        ready = hmm_fitting.prepare_chain_fit(rows, hmm_fitting.ChainOptions(sizes=(1, 2), criterion=criterion), EMSettings(4, 0.0))
        scores = []
        for K, algorithm in zip((1, 2), ready.search.runs, strict=True):
            value = ready.artifact_from_fit(K, run_em(algorithm))
            likelihood, p = 40 * value.log_likelihood(parts[0]), K * K - K + K - 1 + 5 * K
            assert value.free_parameters == p
            each = {"bic": p * np.log(40) - 2 * likelihood, "aic": 2 * p - 2 * likelihood, "valid": -value.log_likelihood(parts[1])}
            scores.append(each[criterion])
        state = ready.search.init()
        while not ready.search.done(state):
            state = ready.search.step(state)
        found = ready.artifact_from_search(ready.search.result(state))
        np.testing.assert_allclose(found.known.scores, scores, rtol=1e-9)
        assert found.known.criterion == criterion
        np.testing.assert_allclose(found.known.occupancy, found.infer_states(parts[0], "smoothed").mean(axis=0))
        assert found.known.valid == pytest.approx(found.log_likelihood(parts[1]))
        assert (found.known.rows, found.known.sequences, found.known.missing) == (40, 4, 0)
    alone = hmm_fitting.prepare_chain_fit(rows, hmm_fitting.ChainOptions(sizes=(2,)), EMSettings(1, 0.0))
    known = alone.artifact_from_search(run_algorithm(alone.search)).known
    assert (known.sizes, known.scores, known.criterion) == (None, None, None)


def test_factors_begin_with_principal_axes_or_draws_of_their_variance():
    X = np.random.default_rng(0).normal(size=(80, 4)) @ np.diag([4.0, 2, 1, 0.5])
    source = RowBlocks(ArrayRows(X))
    S = np.cov(X.T, ddof=0)
    values, vectors = np.linalg.eigh(S)
    noise = values[:2].mean()
    model, _ = factor_analysis.prepare_factors("fa", source, 2)
    assert model.floor == pytest.approx(1e-6 * np.diag(S).mean())
    p = model.start(0)
    largest = vectors[:, ::-1][:, :2] * np.sqrt(values[::-1][:2] - noise)
    np.testing.assert_allclose(np.abs(p["loading"]), np.abs(largest), atol=1e-9)
    np.testing.assert_allclose(p["noise"], np.maximum(np.diag(S) - np.square(largest).sum(axis=1), 0.1 * np.diag(S)))
    np.testing.assert_allclose(p["mean"], X.mean(axis=0))
    drawn = generator(0, Stream.EM_START, unit=1).standard_normal((4, 2))
    p = model.start(1)
    np.testing.assert_allclose(p["loading"], drawn * np.sqrt(np.diag(S))[:, None] / 2)
    np.testing.assert_allclose(p["noise"], 0.5 * np.diag(S))
    plain, _ = factor_analysis.prepare_factors("ppca", source, 2)
    np.testing.assert_allclose(plain.start(0)["noise"], noise)
    np.testing.assert_allclose(plain.start(1)["noise"], 0.5 * np.diag(S).mean())
    np.testing.assert_allclose(factor_analysis.prepare_factors("pca", source, 4)[0].start(1)["noise"], 0.0)
    high, _ = factor_analysis.prepare_factors("ppca", source, 2, floor=100.0)
    assert high.start(0)["noise"].tolist() == [100.0] * 4
    assert (factor_analysis.prepare_factors("fa", RowBlocks(ArrayRows(np.ones((4, 3)))), 1)[0].floor, model.factors) == (2e-12, 2)
    for name, count, most in (("fa", 4, 3), ("fa", 0, 3), ("pca", 5, 4)):
        with pytest.raises(BadUsage, match=f"{name} cannot learn {count} factors from 4 columns"):
            factor_analysis.prepare_factors(name, source, count)
        assert factor_analysis.prepare_factors(name, source, most)[0].factors == most
    assert [factor_analysis.parameter_count(name, 5, 3) for name in ("fa", "ppca")] == [5 + 15 - 3 + 5, 5 + 15 - 3 + 1]
    for name, low in (("pca", 0), ("ppca", 1), ("fa", 4)):
        one, _ = factor_analysis.prepare_factors(name, source, 1, floor=100.0)
        q = one.start(0)
        (block,) = factor_analysis.MomentsBlock(one.found).take(0, 1)
        after, floors = one.maximise(q, one.complete_statistics(q, one.expect(q)(block)))
        assert (floors, set(after["noise"].tolist())) == (low, {0.0 if name == "pca" else 100.0})
    singular = np.array([[1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(factor_analysis.solve_or_least_squares(singular, np.array([2.0, 2.0])), [1.0, 1.0])


def test_gaussians_far_from_the_centre_are_narrow_and_wide_rows_are_whitened():
    """|P| (spread + |m|²) against 10⁵ D; columns beyond 24 and 4 K, or beyond 200."""
    roots, mean = np.sqrt(np.array([[[100.0]], [[100.0]]])), np.array([[0.0], [30.0]])
    for spread, narrow in ((99.0, [False, False]), (101.0, [False, True]), (1001.0, [True, True])):
        made = gaussian_densities.prepare_gaussians(np.zeros(2), mean, roots, np.zeros(1), spread, diagonal=False)
        assert made.narrow.tolist() == narrow
        X = np.array([[0.1], [30.05]])
        expected = [multivariate_normal(m, 0.01).logpdf(X) for m in mean]
        np.testing.assert_allclose(made.log_joint(made.features(X), X), expected, rtol=1e-9)
        np.testing.assert_allclose(made.reference, np.where(np.array(narrow)[:, None], mean, 0.0))
    assert [
        gaussian_densities.is_whitening_faster(*size) for size in ((24, 1), (25, 1), (25, 7), (28, 7), (29, 7), (200, 99), (201, 99))
    ] == [*(False, True, False, False, True, False, True)]


def test_particles_of_a_chain_without_smoothing_are_the_filter_of_the_default_unit():
    model = DiscreteChainModel(np.array([0.3, 0.7]), np.array([[0.8, 0.2], [0.4, 0.6]]), np.log([[0.5, 0.1], [0.2, 0.9], [0.3, 0.3]]))
    found, cloud = estimate_state_probabilities(model, 50, 4, smooth=False)
    again = bootstrap_filter(model, 50, 4, 0)
    assert (cloud.particles == again.particles).all()
    assert cloud.log_likelihood == bootstrap_filter(model, 50, 4).log_likelihood
    assert cloud.log_likelihood != bootstrap_filter(model, 50, 4, 1).log_likelihood
    np.testing.assert_allclose(found[:, 1], [w @ x for w, x in zip(again.weight, again.particles, strict=True)])
    np.testing.assert_allclose(cloud.effective, [1 / (w @ w) for w in again.weight])
    smoothed = smooth_particles(model, again)
    for t in (1, 0):
        x, after = again.particles[t], again.particles[t + 1]
        joint = again.weight[t][:, None] * model.move[x[:, None], after]
        expected = (joint / joint.sum(axis=0)) @ smoothed.weight[t + 1]
        np.testing.assert_allclose(smoothed.weight[t], expected / expected.sum())
    np.testing.assert_allclose(smoothed.effective, 1 / np.square(smoothed.weight).sum(axis=1))
    assert systematic_resampling(np.array([0.2, 0.3, 0.5]), 0.5).tolist() == [0, 2, 2]  # at 1/6, 3/6 (an edge belongs to the next) and 5/6
    assert systematic_resampling(np.array([0.5, 0.5]), 0.0).tolist() == [0, 1]


def test_steps_of_linear_particles_are_densities_and_draws_of_the_system(monkeypatch):
    from linear_dynamics import system

    p = system(2, 3, 1)
    U, Y = np.array([[0.5], [-1.0]]), np.array([[0.1, np.nan, 0.4], [np.nan] * 3])
    model = LinearGaussianModel(p, Y, U)
    x, after = np.random.default_rng(0).normal(size=(2, 4, 2))
    mean = x @ p["transition"].T + p["drift"] + U[1] @ p["control"].T
    expected = [[multivariate_normal(m, p["process"]).logpdf(b) for b in after] for m in mean]
    np.testing.assert_allclose(model.transition_log_probabilities(x, after, 1), expected, rtol=1e-9)
    seen = [0, 2]
    rows = x @ p["loading"][seen].T + p["mean"][seen]
    R = p["noise"][np.ix_(seen, seen)]
    np.testing.assert_allclose(
        model.emission_log_likelihoods(x, 0), [multivariate_normal(m, R).logpdf(Y[0, seen]) for m in rows], rtol=1e-9
    )
    assert model.emission_log_likelihoods(x, 1).tolist() == [0.0] * 4
    drawn = model.sample_next_states(x, 1, np.random.default_rng(5))
    np.testing.assert_allclose(drawn, mean + np.random.default_rng(5).standard_normal((4, 2)) @ np.linalg.cholesky(p["process"]).T)
    first = model.sample_first_states(3, np.random.default_rng(5))
    z = np.random.default_rng(5).standard_normal((3, 2))
    np.testing.assert_allclose(first, p["start_mean"] + z @ np.linalg.cholesky(p["start_covariance"]).T)
    cloud = bootstrap_filter(model, 30, 0)
    whole = smooth_particles(model, cloud).weight
    monkeypatch.setattr("herdcli.em.sequence.particle_filter.SLAB", 90)
    np.testing.assert_allclose(smooth_particles(model, cloud).weight, whole, rtol=1e-12)


def test_symbols_that_other_columns_have_are_no_parameters():
    """Nor are they reported as raised to the floor: a column of two symbols beside one of four has one free share a state."""
    X = np.array([[0, 10], [1, 20], [0, 30], [1, 40]], dtype=float)
    family = emissions.Categorical.from_table(X, None, None)
    assert family.symbols.tolist() == [0, 1, 10, 20, 30, 40]
    assert family.parameter_count(3) == 3 * (1 + 3)
    sums = family.zero_statistics(3)
    start = family.start(X, np.ones(4), np.array([0, 1, 2, 0]), 3, np.random.default_rng(0))
    family.prepare_emission(start).add(X, np.full((4, 3), 1 / 3), sums)
    table, floors = family.maximise(start, sums)
    assert floors == 0
    learned = hmm_artifacts.emission_from_artifact(
        "categorical", None, hmm_artifacts.Emissions(symbols=family.symbols, **table), family.floor
    )
    assert learned.parameter_count(3) == 3 * (1 + 3)
