"""Units of columns: times powers of two they give the same model in other units, and −log of the units more a row, above the floors."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.em import variance_floors
from herdcli.em.artifacts import factor_artifact, mixture_artifact
from herdcli.em.driver import EM, EMSettings, run_em
from herdcli.em.factor import factor_analysis
from herdcli.em.fitting import FitOptions, FitRows, baseline_log_density, prepare_fit
from herdcli.em.mixture import gmm, variational_mixture
from herdcli.em.sequence import hmm
from herdcli.em.sequence.sequences import SequenceBlocks, group_rows_into_sequences
from herdcli.numerics.block_statistics import ArrayRows, RowBlocks

DIGITS = Path(__file__).resolve().parents[2] / "data" / "digits.h5"
UNITS = np.array([2.0**20, 1.0, 2.0**-24])  # variances from 10¹² to 10⁻¹⁴
JACOBIAN = -float(np.log(UNITS).sum())


def rows(n=400):
    """Three clusters in three columns."""
    random = np.random.default_rng(3)
    centres = np.array([[0, 0, 0], [6, 0, 4], [0, 6, -4]])
    return centres[np.arange(n) % 3] + random.normal(size=(n, 3)) * [1.0, 0.5, 0.5]


def in_units(X):
    return X, X * UNITS


@pytest.mark.parametrize("family", ["full", "tied", "diagonal"])
@pytest.mark.parametrize("gaps", [False, True])
def test_mixtures_in_other_units_are_the_same(family, gaps):
    X = rows()
    if gaps:
        X[::7, 2], X[::5, 0] = np.nan, np.nan
    found = []
    for Y in in_units(X):
        source = RowBlocks(ArrayRows(Y))
        model = gmm.prepare_gmm(source, 3, covariance=family)
        fit = run_em(EM(model, source, EMSettings(60, 1e-9, 3)))
        value = mixture_artifact(fit, model.covariance, model.floor, 0)
        value.validate()
        found.append((value, value.responsibilities(Y), fit))
    (one, (r, density), fit), (other, (r_, density_), fit_) = found
    np.testing.assert_allclose(r_, r, atol=1e-9)
    known = np.where(np.isnan(X), 0.0, -np.log(UNITS)).sum(axis=1)
    np.testing.assert_allclose(density_, density + known, atol=1e-8)
    np.testing.assert_allclose(other.mean, one.mean * UNITS, rtol=1e-7)
    assert fit_.ledger.free_energy[-1] == pytest.approx(fit.ledger.free_energy[-1] - known.mean(), abs=1e-9)
    assert fit_.ledger.floors.tolist() == fit.ledger.floors.tolist()


@pytest.mark.parametrize("family", ["full", "tied", "diagonal"])
def test_floors_stay_within_two_shares_of_a_columns_variance_in_any_unit(family):
    """Rows in two places and a column that is another one: its variance in a component is 0, and the floor takes its place."""
    X = rows()
    X[:, 2] = np.where(X[:, 0] > 3, 1.0, -1.0)
    for units, share in ((np.ones(3), 1e-6 * X.var(axis=0).mean() / X[:, 2].var()), (UNITS, 1e-2), (1 / UNITS, 1e-6)):
        Y = X * units
        source = RowBlocks(ArrayRows(Y))
        model = gmm.prepare_gmm(source, 3, covariance=family)
        fit = run_em(EM(model, source, EMSettings(40, 1e-9, 3)))
        assert fit.ledger.floors[-2:].max() > 0
        assert variance_floors.are_positive_definite(fit.parameters["covariance"])
        covariance = fit.parameters["covariance"]
        assert np.linalg.eigvalsh(covariance / np.outer(model.scale, model.scale)).min() == pytest.approx(model.floor, rel=1e-6)
        narrowest = 1.0 / np.linalg.inv(covariance)[:, 2, 2].max()  # variance of the column given the others
        assert narrowest == pytest.approx(share * Y[:, 2].var(), rel=1e-3)


def test_rare_columns_cost_held_out_rows_hundreds_of_nats():
    """Digits have pixels that are on in one row of a thousand: with a millionth of their own variance a row held out costs 10^5 nats."""
    with h5py.File(DIGITS) as file:
        X = file["X"][:].astype(float)
    source = RowBlocks(ArrayRows(X[:1000]))
    model = gmm.prepare_gmm(source, 5, covariance="diagonal")
    fit = run_em(EM(model, source, EMSettings(60, 1e-6, 3)))
    held = mixture_artifact(fit, model.covariance, model.floor, 0).responsibilities(X[1000:])[1].mean()
    assert -3000 < held < -100


@pytest.mark.parametrize("init", ["newton", "random"])
def test_factors_in_other_units_are_the_same(init):
    random = np.random.default_rng(5)
    X = random.normal(size=(300, 2)) @ random.normal(size=(2, 6)) + 0.4 * random.normal(size=(300, 6))
    units = np.array([2.0**22, 1.0, 2.0**-22, 4.0, 0.5, 1.0])
    found = []
    for Y in (X, X * units):
        model, source = factor_analysis.prepare_factors("fa", RowBlocks(ArrayRows(Y)), 2, init=init)
        fit = run_em(EM(model, source, EMSettings(400, 1e-9, 3)))
        found.append((factor_artifact(fit, "fa", model.floor, 0), Y))
    (one, X), (other, Y) = found
    np.testing.assert_allclose(other.densities(Y), one.densities(X) - np.log(units).sum(), atol=1e-6)
    np.testing.assert_allclose(other.noise, one.noise * units**2, rtol=1e-5)
    np.testing.assert_allclose(other.loading @ other.loading.T, one.loading @ one.loading.T * np.outer(units, units), rtol=1e-5, atol=0)


def test_ppca_whose_noise_is_one_for_all_keeps_one_floor():
    X = rows() * [1.0, 1.0, 1e-6]
    model, _ = factor_analysis.prepare_factors("ppca", RowBlocks(ArrayRows(X)), 1)
    assert model.noise_floors.tolist() == [pytest.approx(1e-6 * X.var(axis=0).mean())] * 3
    assert factor_analysis.prepare_factors("fa", RowBlocks(ArrayRows(X)), 1)[0].noise_floors == pytest.approx(1e-6 * X.var(axis=0))


@pytest.mark.parametrize("covariance", ["full", "diagonal", "tied"])
def test_hidden_markov_models_in_other_units_are_the_same(covariance):
    X, found = rows(300), []
    for Y in in_units(X):
        sequences = group_rows_into_sequences(Y, np.repeat(np.arange(5), 60), None)
        family, moments = hmm.emission_family("gaussian", sequences, covariance=covariance, mixtures=1)
        model = hmm.prepare_hmm(sequences, 3, family, moments)
        fit = run_em(EM(model, SequenceBlocks(sequences), EMSettings(30, 1e-9, 3)))
        found.append((fit.ledger.log_likelihood[-1], fit.parameters["transition"], fit.ledger.floors.tolist()))
    assert found[1][0] == pytest.approx(found[0][0] + JACOBIAN, abs=1e-8)
    np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-8)
    assert found[0][2] == found[1][2]


def test_the_baseline_of_factors_is_not_raised_to_another_columns_floor():
    """One Gaussian a column, whose variance is the column's own."""
    X = rows() * UNITS
    made = prepare_fit(FitRows(training=ArrayRows(X)), FitOptions(model="fa", sizes=(1,)), EMSettings(5, 1e-9, 3))
    value = made.artifact_from_search(run_algorithm(made.search))
    expected = -0.5 * (np.log(2 * np.pi * X.var(axis=0)) + np.square(X - X.mean(axis=0)) / X.var(axis=0)).sum(axis=1)
    np.testing.assert_allclose(baseline_log_density(value)(X), expected, atol=1e-8)


def test_what_has_a_variance_below_zero_is_not_definite():
    assert variance_floors.are_positive_definite(np.diag([1e12, 1e-12]))
    assert not variance_floors.are_positive_definite(np.diag([1e12, 0.0]))
    assert not variance_floors.are_positive_definite(np.array([[1e12, 1.0], [1.0, 1e-12]]))  # a correlation of 1
    assert not variance_floors.are_positive_definite(np.stack([np.eye(2), np.array([[1.0, 2.0], [2.0, 1.0]])]))


def test_columns_that_do_not_vary_have_the_floor_of_the_mean_variance_of_those_that_do():
    least, scale = variance_floors.floor_and_column_scales(np.array([4.0, 0.0, 8.0]), np.zeros(3), None)
    assert least * scale**2 == pytest.approx([6e-6, 6e-6, 8e-6])
    assert variance_floors.floor_and_column_scales(np.array([4.0, 8.0]), np.zeros(2), None)[0] == least, (
        "a constant column changes no floor of others"
    )
    assert variance_floors.floor_and_column_scales(np.zeros(2), np.array([0.0, 3.0]), None) == (
        pytest.approx(1e-11),
        pytest.approx([1.0, 1.0]),
    )
    assert variance_floors.floor_and_column_scales(np.array([4.0, 1.0]), np.zeros(2), 0.5)[1].tolist() == [1.0, 1.0]


def test_constant_columns_take_no_rows_from_small_components_by_bayes():
    """Three columns of one value hardly change the weights; without noise in them the larger component took all rows."""
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(size=(450, 1)), 4.0 + random.normal(size=(50, 1))])
    weights = []
    for Y in (X, np.concatenate([X, np.ones((500, 3))], axis=1)):
        source = RowBlocks(ArrayRows(Y))
        fit = run_em(EM(variational_mixture.make_variational_gmm(gmm.prepare_gmm(source, 2)), source, EMSettings(500, 1e-10, 3)))
        assert np.diff(fit.ledger.free_energy).max() <= 1e-9
        weights.append(fit.parameters["weight"])
    np.testing.assert_allclose(weights[1], weights[0], atol=0.01)
