"""log Z beside gaussian units by products of matrices: against the sum over states one by one, and for sizes that only they reach."""

from __future__ import annotations

import time

import numpy as np
import pytest

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.likelihood import enumeration, gaussian_enumeration
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family


def model(D, K, hidden="binary", scale=1.0, seed=0):
    draw = np.random.default_rng(seed)
    W, b, c = draw.normal(size=(D, K)) * scale / np.sqrt(D), draw.normal(size=D), draw.normal(size=K) * scale
    return Harmonium(W, b, c, unit_family("gaussian"), unit_family(hidden))


def one_by_one(h):
    return float(exact_arithmetic.log_sum_exp(np.array([block.log_weight for block in enumeration.iterate_hidden_states(h)]).ravel()))


@pytest.mark.parametrize("near", [2, 8, 256])
@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
@pytest.mark.parametrize(("hidden", "K"), [("binary", 1), ("binary", 2), ("binary", 11), ("spin", 9), ("softmax:3", 12), ("rate:2", 6)])
def test_the_sum_is_that_over_states_one_by_one(monkeypatch, hidden, K, scale, near):
    monkeypatch.setattr(gaussian_enumeration, "NEAR", near)
    monkeypatch.setattr(gaussian_enumeration, "TOGETHER", 7)
    h = model(5, K, hidden, scale)
    assert enumeration.exact_log_partition(h) == pytest.approx(one_by_one(h), rel=1e-12, abs=1e-10)
    with exact_arithmetic.exact_arithmetic_enabled():
        assert enumeration.exact_log_partition(h) == pytest.approx(one_by_one(h), rel=1e-12, abs=1e-10)


def test_terms_that_exponentials_would_lose_are_summed_by_logarithms(monkeypatch):
    """Two units that hinder each other strongly, in different near parts, where the far part asks for both."""
    W = np.array([[40.0, -40.0, 0.0], [0.0, 0.0, 1.0]])
    h = Harmonium(W, np.zeros(2), np.zeros(3), unit_family("gaussian"), unit_family("binary"))
    monkeypatch.setattr(gaussian_enumeration, "NEAR", 2)
    called = []
    slow = gaussian_enumeration.GaussianVisibleSums._sum_by_logarithms
    monkeypatch.setattr(
        gaussian_enumeration.GaussianVisibleSums, "_sum_by_logarithms", lambda self, *sides: called.append(1) or slow(self, *sides)
    )
    assert enumeration.exact_log_partition(h) == pytest.approx(one_by_one(h), rel=1e-12)
    monkeypatch.setattr(gaussian_enumeration, "SMALL", 2.0)
    assert enumeration.exact_log_partition(h) == pytest.approx(one_by_one(h), rel=1e-12)
    assert called


def test_independent_parts_of_thirty_units_are_their_sum():
    """2^30 states, beside the sums of 2^15 states of each part."""
    parts = [model(13, 15, seed=1), model(13, 15, seed=2)]
    W = np.zeros((26, 30))
    W[:13, :15], W[13:, 15:] = (part.W for part in parts)
    order, columns = np.random.default_rng(3).permutation(30), np.random.default_rng(4).permutation(26)
    b, c = (np.concatenate([getattr(part, name) for part in parts]) for name in "bc")
    h = Harmonium(W[columns][:, order], b[columns], c[order], unit_family("gaussian"), unit_family("binary"))
    assert enumeration.is_enumerable(h)
    begun = time.process_time()
    found = enumeration.exact_log_partition(h)
    assert time.process_time() - begun < 10
    assert found == pytest.approx(sum(map(one_by_one, parts)), rel=1e-12)


def test_a_layer_of_too_many_states_is_not_summed():
    assert enumeration.is_enumerable(model(4, 37))
    assert not enumeration.is_enumerable(model(4, 38))
