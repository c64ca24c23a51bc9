"""Missing entries given the others, against the joint distribution summed state by state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling import gibbs_samples, imputation
from herdcli.rbm.units import unit_family

VALUES = {"binary": (0.0, 1.0), "spin": (-1.0, 1.0), "rate:3": (0.0, 1.0, 2.0, 3.0)}


def model(visible: str, hidden: str, D: int = 4, K: int = 3) -> Harmonium:
    random = np.random.default_rng(5)
    return Harmonium(
        random.normal(0, 0.8, (D, K)), random.normal(0, 0.5, D), random.normal(0, 0.5, K), unit_family(visible), unit_family(hidden)
    )


def by_enumeration(h: Harmonium, row: np.ndarray, known: np.ndarray) -> np.ndarray:
    """E[v | known entries], from the free energies of all rows that agree with them."""
    states = np.array(list(itertools.product(VALUES[h.visible.name], repeat=len(row))))
    states = states[(states[:, known] == row[known]).all(axis=1)]
    p = np.exp(-h.free_energy(states))
    return p @ states / p.sum()


@pytest.mark.parametrize("visible", VALUES)
@pytest.mark.parametrize("hidden", ["binary", "spin", "rate:2"])
def test_expectations_are_those_of_the_joint(visible: str, hidden: str) -> None:
    h, random = model(visible, hidden), np.random.default_rng(0)
    rows = random.choice(VALUES[visible], (6, 4))
    known = random.random((6, 4)) < 0.5
    known[0], known[1] = True, False
    found = imputation.impute_rows(h, np.where(known, rows, np.nan), known)
    expected = [by_enumeration(h, *pair) for pair in zip(rows, known, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_chains_come_near_the_expectations(monkeypatch: pytest.MonkeyPatch) -> None:
    h, random = model("binary", "binary", 6, 4), np.random.default_rng(1)
    rows = random.integers(0, 2, (8, 6)).astype(float)
    known = random.random((8, 6)) < 0.4
    exact = imputation.impute_rows(h, rows, known)
    monkeypatch.setattr(imputation, "STATES", 0)
    found = imputation.impute_rows(h, rows, known)
    np.testing.assert_array_equal(found[known], rows[known])
    assert np.abs(found - exact)[~known].max() < 0.05
    assert (found != exact)[~known].any()


def test_gaussian_columns_given_others_are_regressed() -> None:
    h = model("gaussian", "gaussian", 3, 2)
    h = Harmonium(h.W * 0.4, h.b, h.c, h.visible, h.hidden)
    precision = np.eye(3) - h.W @ h.W.T
    mean = np.linalg.solve(precision, h.b + h.W @ h.c)
    row, known = np.array([[0.7, np.nan, -0.2]]), np.array([[True, False, True]])
    expected = mean[1] - precision[1, [0, 2]] @ (row[0, [0, 2]] - mean[[0, 2]]) / precision[1, 1]
    assert imputation.impute_rows(h, row, known)[0, 1] == pytest.approx(expected, abs=0.1)


def test_drawn_rows_have_the_conditional_distribution() -> None:
    h, count = model("binary", "spin"), 20_000
    row = np.array([1.0, np.nan, 0.0, np.nan], dtype=np.float32)
    problem = gibbs_samples.SamplingProblem((h,), count, burn_in=50, given=np.tile(row, (count, 1)))
    (drawn,) = run_algorithm(gibbs_samples.BlockGibbsSampling(problem)).rows
    known = ~np.isnan(row)
    assert (drawn[:, known] == row[known]).all()
    states = np.array([[1.0, a, 0.0, b] for a in (0, 1) for b in (0, 1)])
    p = np.exp(-h.free_energy(states))
    p /= p.sum()
    seen = np.array([(drawn == state).all(axis=1).mean() for state in states])
    assert (np.abs(seen - p) < 6 * np.sqrt(p * (1 - p) / count)).all()


def test_half_a_unit_cannot_be_known() -> None:
    h = model("softmax:2", "binary")
    with pytest.raises(
        DataError, match="row 0 has values in only some of the columns 2 to 3, which are one unit and must be missing together"
    ):
        imputation.impute_rows(h, np.ones((1, 4)), np.array([[True, True, True, False]]))
    with pytest.raises(BadUsage, match="there are 2 rows to complete, but 5 chains; each row needs one chain"):
        gibbs_samples.SamplingProblem((h,), 5, given=np.zeros((2, 4)))
