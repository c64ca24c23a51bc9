"""Likelihoods that err downwards: rows annealed back, against exact values."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.rbm import enumeration
from herdcli.rbm.annealing import conservative
from herdcli.rbm.likelihood import log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import family


def model(visible: str, hidden: str, scale: float) -> Harmonium:
    random = np.random.default_rng(0)
    parts = random.normal(0, scale, (6, 4)), random.normal(0, 0.5, 6), random.normal(0, 0.5, 4)
    return Harmonium(*parts, family(visible), family(hidden))


@pytest.mark.parametrize(("visible", "hidden"), [("binary", "binary"), ("spin", "binary"), ("rate:3", "spin"), ("gaussian", "binary")])
def test_slow_annealing_comes_near_the_exact_likelihood_from_below(visible, hidden):
    h, random = model(visible, hidden, 0.6), np.random.default_rng(1)
    rows = np.rint(random.random((200, 6)) * 3) if visible == "rate:3" else random.normal(size=(200, 6))
    rows = np.where(rows > 0, 1.0, 0.0 if visible == "binary" else -1.0) if visible in ("binary", "spin") else rows
    exact = log_likelihood(h, rows, enumeration.log_partition_exact(h)).mean()
    gaps = []
    for temperatures in (20, 400):
        found = conservative(h, rows, np.zeros(6), temperatures, 0)
        gaps.append(exact - found.mean())
        assert gaps[-1] > -4 * found.std() / np.sqrt(200)
    assert abs(gaps[1]) < 0.08 + abs(gaps[0]) / 4


def test_modes_that_chains_miss_cost_likelihood_and_never_add_any():
    """Two modes a long way apart, of which one has nearly all the mass: quick annealing splits its chains between both."""
    W = np.full((12, 4), 3.0)
    h = Harmonium(W, -W.sum(axis=1) / 2 + 0.3, -W.sum(axis=0) / 2, family("binary"), family("binary"))
    rows = np.ones((100, 12))
    exact = log_likelihood(h, rows, enumeration.log_partition_exact(h)).mean()
    found = conservative(h, rows, np.zeros(12), 200, 0).mean()
    assert exact > -0.3
    assert -3.0 < found < exact
