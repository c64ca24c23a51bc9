"""Softmax units with different numbers of columns: against enumeration of all states of both layers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.rbm.learning import gradients
from herdcli.rbm.likelihood import enumeration, row_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.normalizability import require_normalisable_families
from herdcli.rbm.sampling.gibbs import GibbsSweeper
from herdcli.rbm.sampling.gibbs_samples import SamplingProblem
from herdcli.rbm.sampling.imputation import impute_rows, require_complete_units
from herdcli.rbm.sampling.independent_sampling import IndependentSampling, plan_enumerations
from herdcli.rbm.units import unit_family
from herdcli.rng import Stream, generator

SIZES = (3, 2, 4)
STARTS = (0, 3, 5)
ROWS = np.array(
    [np.concatenate([np.eye(k)[i] for k, i in zip(SIZES, state, strict=True)]) for state in itertools.product(*map(range, SIZES))]
)
HIDDEN = {"binary": [0.0, 1.0], "spin": [-1.0, 1.0]}


def model(hidden: str = "binary", K: int = 3) -> Harmonium:
    random = np.random.default_rng(0)
    D = sum(SIZES)
    return Harmonium(
        random.normal(0, 0.9, (D, K)), random.normal(0, 0.7, D), random.normal(0, 0.5, K), unit_family("softmax:3,2,4"), unit_family(hidden)
    )


def joint(h: Harmonium, hidden: str) -> tuple[np.ndarray, np.ndarray]:
    """All hidden states (S, K), and the log weights (24, S) of every visible row with each of them."""
    states = np.array(list(itertools.product(HIDDEN[hidden], repeat=h.W.shape[1])))
    return states, ROWS @ h.W @ states.T + (ROWS @ h.b)[:, None] + states @ h.c


@pytest.mark.parametrize("hidden", sorted(HIDDEN))
def test_log_z_and_likelihoods_are_sums_over_all_states(hidden: str) -> None:
    h = model(hidden)
    _, weights = joint(h, hidden)
    log_z = logsumexp(weights)
    assert enumeration.exact_log_partition(h) == pytest.approx(log_z, abs=1e-12)
    assert enumeration.exact_log_partition(h.transpose()) == pytest.approx(log_z, abs=1e-12)
    found = row_likelihood.row_log_likelihood(h, ROWS, log_z)
    np.testing.assert_allclose(found, logsumexp(weights, axis=1) - log_z, atol=1e-12)
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("block", [1, 40, 400])
def test_enumeration_in_blocks_is_the_whole_sum(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    h = model()
    log_z = enumeration.exact_log_partition(h.transpose())
    for name, size in (("BLOCK", block), ("NEAR", max(1, block // 20))):
        monkeypatch.setattr(enumeration, name, size)
    assert enumeration.exact_log_partition(h.transpose()) == pytest.approx(log_z, abs=1e-12)
    wide = Harmonium(h.W, h.b, h.c, h.visible, unit_family("gaussian"))
    monkeypatch.setattr("herdcli.rbm.likelihood.gaussian_enumeration.NEAR", 4)
    # With Gaussian hidden units the hidden sum is closed: log Z = log Σ_v e^{b·v + |c + W'v|²/2}.
    expected = logsumexp(ROWS @ h.b + 0.5 * np.square(ROWS @ h.W + h.c).sum(axis=1))
    assert enumeration.exact_log_partition(wide) == pytest.approx(expected, abs=1e-12)


def test_pseudo_likelihood_is_the_product_of_conditionals() -> None:
    h = model()
    _, weights = joint(h, "binary")
    p = np.exp(logsumexp(weights, axis=1) - logsumexp(weights)).reshape(SIZES)
    expected = sum(np.log(p / p.sum(axis=axis, keepdims=True)) for axis in range(3)).ravel()
    np.testing.assert_allclose(row_likelihood.log_pseudo_likelihood(h, ROWS), expected, atol=1e-12)


def test_pseudo_likelihood_gradient_is_its_derivative() -> None:
    h = model(K=2)
    rows = ROWS[[0, 5, 9, 17]]
    W, b, c = (np.ascontiguousarray(part, dtype=np.float32) for part in (h.W, h.b, h.c))
    sweeper = GibbsSweeper(W, b, c, h.visible.layer(), h.hidden.layer(), generator(0, Stream.SAMPLE))
    found = gradients.pseudo_likelihood_gradient(sweeper, h.visible, h.hidden, rows.astype(np.float32))
    step, base = 1e-5, [part.astype(np.float64) for part in (W, b, c)]
    for place, part in ((0, found.W), (1, found.b), (2, found.c)):
        for index in list(np.ndindex(base[place].shape))[:9]:
            values = []
            for sign in (1, -1):
                moved = [part.copy() for part in base]
                moved[place][index] += sign * step
                values.append(row_likelihood.log_pseudo_likelihood(Harmonium(*moved, h.visible, h.hidden), rows).mean())
            assert part[index] == pytest.approx((values[0] - values[1]) / (2 * step), abs=2e-5)


def test_independent_samples_have_the_models_probabilities() -> None:
    h = model()
    _, weights = joint(h, "binary")
    p = np.exp(logsumexp(weights, axis=1) - logsumexp(weights))
    problem = SamplingProblem(models=(h,), count=20_000, seed=3)
    parts = plan_enumerations(problem)
    assert parts is not None
    rows = run_algorithm(IndependentSampling(problem, parts)).rows[0]
    h.visible.require_valid_block(rows)
    shares = (rows @ ROWS.T == 3).mean(axis=0)
    assert np.abs(shares - p).max() < 4 * np.sqrt(0.25 / 20_000)


def test_free_units_are_drawn_given_the_others() -> None:
    h = model()
    _, weights = joint(h, "binary")
    p = np.exp(logsumexp(weights, axis=1) - logsumexp(weights)).reshape(SIZES)
    given = np.tile(ROWS[7], (8_000, 1)).astype(np.float32)
    level = int(ROWS[7, 3:5].argmax())
    given[:, [*range(3), *range(5, 9)]] = np.nan
    problem = SamplingProblem(models=(h,), given=given, count=len(given), seed=1)
    parts = plan_enumerations(problem)
    assert parts is not None
    rows = run_algorithm(IndependentSampling(problem, parts)).rows[0]
    np.testing.assert_array_equal(rows[:, 3:5], np.tile(ROWS[7, 3:5], (8_000, 1)))
    expected = p[:, level] / p[:, level].sum()
    found = np.einsum("ni,nj->ij", rows[:, :3], rows[:, 5:]) / len(rows)
    assert np.abs(found - expected).max() < 4 * np.sqrt(0.25 / 8_000)


def test_imputed_entries_are_conditional_means() -> None:
    h = model()
    _, weights = joint(h, "binary")
    p = np.exp(logsumexp(weights, axis=1) - logsumexp(weights)).reshape(SIZES)
    known = np.ones((1, 9), dtype=bool)
    known[0, 5:] = False
    row = ROWS[[13]]
    i, j = int(row[0, :3].argmax()), int(row[0, 3:5].argmax())
    np.testing.assert_allclose(impute_rows(h, row, known)[0, 5:], p[i, j] / p[i, j].sum(), atol=1e-12)
    known[0, 5] = True
    with pytest.raises(
        DataError, match="row 0 has values in only some of the columns 5 to 8, which are one unit and must be missing together"
    ):
        require_complete_units(h, known)


def test_sweeps_leave_the_models_own_distribution_in_place() -> None:
    h = model()
    _, weights = joint(h, "binary")
    p = np.exp(logsumexp(weights, axis=1) - logsumexp(weights))
    random = np.random.default_rng(0)
    rows = ROWS[random.choice(len(p), size=40_000, p=p)].astype(np.float32)
    W, b, c = (np.ascontiguousarray(part, dtype=np.float32) for part in (h.W, h.b, h.c))
    sweeper = GibbsSweeper(W, b, c, h.visible.layer(), h.hidden.layer(), generator(0, Stream.SAMPLE))
    hidden, natural, means, drawn = (np.empty((len(rows), size), dtype=np.float32) for size in (3, 3, 9, 9))
    sweeper.update_hidden(rows, natural, hidden)
    sweeper.update_visible(hidden, means, drawn)
    np.testing.assert_allclose(means, h.visible_means(hidden), atol=1e-5)
    assert np.abs((drawn @ ROWS.T == 3).mean(axis=0) - p).max() < 4 * np.sqrt(0.25 / 40_000)


def test_equal_sizes_are_the_units_of_one_size() -> None:
    one, other = unit_family("softmax:3"), unit_family("softmax:3,3")
    natural = np.random.default_rng(0).normal(size=(5, 6))
    for name in ("log_partition", "mean", "round_to_states"):
        np.testing.assert_allclose(getattr(other, name)(natural), getattr(one, name)(natural), atol=1e-14)
    np.testing.assert_allclose(
        other.mean_change(one.mean(natural), natural[::-1]), one.mean_change(one.mean(natural), natural[::-1]), atol=1e-14
    )
    rows = one.round_to_states(natural)
    np.testing.assert_allclose(other.base_rate_parameters(rows), one.base_rate_parameters(rows), atol=1e-14)


def test_rows_and_names_that_do_not_fit_are_refused() -> None:
    units = unit_family("softmax:3,2,4")
    assert units.is_valid_width(9)
    assert not units.is_valid_width(18)
    with pytest.raises(DataError, match="there are 8 columns, but softmax:3,2,4 units need 9 in total"):
        units.require_valid_block(np.eye(8))
    with pytest.raises(DataError, match="columns 3 to 4 of row 1 sum to 2"):
        units.require_valid_block(np.vstack([ROWS[0], ROWS[0] + np.eye(9)[4]]))
    with pytest.raises(BadUsage, match="softmax:K needs a number of states K from 2 to 1000, not 1"):
        unit_family("softmax:3,1")
    for name in ("softmax:3,", "softmax:,3", "softmax:3,x", "softmax:03,2"):
        with pytest.raises(BadUsage, match="unknown units"):
            unit_family(name)
    with pytest.raises(BadUsage, match="softmax:3,2 units are possible only in the visible layer"):
        require_normalisable_families(unit_family("binary"), unit_family("softmax:3,2"))
