"""Lengths of codes: guessing games, bits back, and figures in bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from herdcli.em.artifacts import FactorModel, Mixture, RestartOutcomes
from herdcli.em.driver import ObjectiveHistory
from herdcli.evaluation.metrics import code_lengths
from herdcli.evaluation.metrics.bit_units import BITS, convert_unit

P, U = np.array([1 / 2, 1 / 4, 1 / 8, 1 / 8]), np.full(4, 1 / 4)
LEDGER = ObjectiveHistory(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64))
COMMON = {
    "floor": 0.0,
    "ledger": LEDGER,
    "restarts": RestartOutcomes(np.zeros(1), np.ones(1, dtype=np.int64), np.ones(1, dtype=bool)),
    "mass": 1.0,
}
COMMON["seed"] = 0


def test_guessing_games_take_the_books_numbers_of_questions():
    """Letters A to D by one question each less, A = 1, B = 01, C = 001, D = 000, or by two questions always."""
    assert code_lengths.entropy(P) * BITS == pytest.approx(1.75, abs=1e-15)
    assert code_lengths.cross_entropy(P, U) * BITS == pytest.approx(2.0, abs=1e-15)
    assert code_lengths.entropy(U) * BITS == pytest.approx(2.0, abs=1e-15)
    assert code_lengths.cross_entropy(U, P) * BITS == pytest.approx(2.25, abs=1e-15)
    assert code_lengths.kl_divergence(U, P) * BITS == pytest.approx(0.25, abs=1e-15)
    lengths = np.array([len(word) for word in ("1", "01", "001", "000")])
    assert P @ lengths == 1.75
    assert U @ lengths == 2.25
    assert code_lengths.cross_entropy(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == math.inf
    assert code_lengths.entropy(np.array([1.0, 0.0])) == 0


def mixture():
    return Mixture(
        family="full",
        weight=np.array([0.3, 0.7]),
        mean=np.array([[-1.0], [2.0]]),
        covariance=np.array([[[0.5]], [[1.5]]]),
        **COMMON,
    )


def lengths(value, X):
    own, sums = code_lengths.densities_and_sums(value, X)
    return code_lengths.code_length_columns(value, sums | {"rows": np.array([len(X)]), "own": np.array([own.sum()])})


def test_bits_back_is_the_free_energy_and_hard_codes_overpay():
    value, X = mixture(), np.random.default_rng(0).normal(size=(50, 1)) * 2
    found = lengths(value, X)
    evidence = -float(value.densities(X).mean())
    assert found["code_length"] - found["bits_back"] == pytest.approx(evidence, abs=1e-15)
    r, _ = value.responsibilities(X)
    assert found["code_length_hard"] - evidence == pytest.approx(-np.log(r.max(axis=1)).mean(), abs=1e-14)
    assert found["code_length"] > found["code_length_hard"] > evidence
    # the same from the joint density written out
    normal = [np.exp(-0.5 * (X[:, 0] - m) ** 2 / v) / np.sqrt(2 * np.pi * v) for m, v in ((-1.0, 0.5), (2.0, 1.5))]
    joint = np.stack([0.3 * normal[0], 0.7 * normal[1]], axis=1)
    assert found["code_length"] == pytest.approx(-(r * np.log(joint)).sum(axis=1).mean(), abs=1e-13)


def test_the_refund_of_a_factor_is_the_entropy_of_its_posterior():
    value = FactorModel(model="fa", loading=np.array([[1.0], [0.5]]), mean=np.zeros(2), noise=np.array([0.4, 0.2]), **COMMON)
    x = np.array([[0.7, -0.3]])
    found = lengths(value, x)

    def joint(z):
        rest = x[0] - value.loading[:, 0] * z
        return math.exp(-0.5 * (z * z + (rest**2 / value.noise).sum())) / math.sqrt((2 * math.pi) ** 3 * 0.4 * 0.2)

    evidence = quad(joint, -12, 12)[0]
    entropy = -quad(lambda z: joint(z) / evidence * math.log(joint(z) / evidence) if joint(z) > 0 else 0.0, -12, 12)[0]
    assert found["bits_back"] == pytest.approx(entropy, abs=1e-9)
    assert found["code_length"] - found["bits_back"] == pytest.approx(-math.log(evidence), abs=1e-9)


def test_nats_become_bits_and_nothing_else_does():
    row = {"log_likelihood_train": math.log(2), "bic": 3.0, "rise": math.log(4), "verdict": "log_likelihood", "components": 2}
    found = convert_unit(row, "bits")
    assert (found["log_likelihood_train"], found["bic"], found["rise"], found["components"]) == pytest.approx((1.0, 3.0, 2.0, 2))
    assert convert_unit(row | {"squared_error": 1.0}, "bits") == row | {"squared_error": 1.0}
    assert convert_unit(row, "nats") == row
