"""Likelihoods that err downwards: rows annealed back, against exact values."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.rbm.likelihood import enumeration
from herdcli.rbm.likelihood.annealed_importance import conservative_likelihood_correction, likelihood_lower_bounds
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family


def model(visible: str, hidden: str, scale: float) -> Harmonium:
    random = np.random.default_rng(0)
    parts = random.normal(0, scale, (6, 4)), random.normal(0, 0.5, 6), random.normal(0, 0.5, 4)
    return Harmonium(*parts, unit_family(visible), unit_family(hidden))


@pytest.mark.parametrize(("visible", "hidden"), [("binary", "binary"), ("spin", "binary"), ("rate:3", "spin"), ("gaussian", "binary")])
def test_slow_annealing_comes_near_the_exact_likelihood_from_below(visible, hidden):
    h, random = model(visible, hidden, 0.6), np.random.default_rng(1)
    rows = np.rint(random.random((200, 6)) * 3) if visible == "rate:3" else random.normal(size=(200, 6))
    rows = np.where(rows > 0, 1.0, 0.0 if visible == "binary" else -1.0) if visible in ("binary", "spin") else rows
    exact = row_log_likelihood(h, rows, enumeration.exact_log_partition(h)).mean()
    gaps = []
    for temperatures in (20, 400):
        found = likelihood_lower_bounds(h, rows, np.zeros(6), temperatures, 0)
        gaps.append(exact - found.mean())
        assert gaps[-1] > -4 * found.std() / np.sqrt(200)
    assert abs(gaps[1]) < 0.08 + abs(gaps[0]) / 4


def test_modes_that_chains_miss_cost_likelihood_and_never_add_any():
    """Two modes a long way apart, of which one has nearly all the mass: quick annealing splits its chains between both."""
    W = np.full((12, 4), 3.0)
    h = Harmonium(W, -W.sum(axis=1) / 2 + 0.3, -W.sum(axis=0) / 2, unit_family("binary"), unit_family("binary"))
    rows = np.ones((100, 12))
    exact = row_log_likelihood(h, rows, enumeration.exact_log_partition(h)).mean()
    found = likelihood_lower_bounds(h, rows, np.zeros(12), 200, 0).mean()
    assert exact > -0.3
    assert -3.0 < found < exact


def test_a_mode_that_chains_miss_and_the_estimate_knows_raises_no_likelihood():
    """Rows in a small mode near the base, and nearly all mass in one that no chain gets to: the fault was a bound above the likelihood."""
    h = Harmonium(np.full((40, 12), 1.5), np.full(40, -8.0), np.full(12, -32.0), unit_family("binary"), unit_family("binary"))
    rows = (np.random.default_rng(0).random((200, 40)) < 0.01).astype(np.float64)
    log_z, base = enumeration.exact_log_partition(h), h.visible.base_rate_parameters(rows)
    exact = row_log_likelihood(h, rows, log_z).mean()
    assert likelihood_lower_bounds(h, rows[:50], base, 200, 0).mean() > exact + 5
    assert conservative_likelihood_correction(h, rows, log_z, base, 200, 0) == 0.0
    # too little mass: chains that know but the small mode say so
    assert conservative_likelihood_correction(h, rows, log_z - 20.0, base, 200, 0) < -3


def test_rows_annealed_back_are_compared_with_themselves():
    """All the same, whichever rows they are: of a hundred out of rows that differ a lot the plain mean would be off by nats."""
    h = model("binary", "binary", 2.0)
    rows = np.random.default_rng(1).integers(0, 2, (1000, 6)).astype(np.float64)
    log_z = enumeration.exact_log_partition(h)
    assert -0.2 < conservative_likelihood_correction(h, rows, log_z, np.zeros(6), 2000, 0) <= 0.0
    assert conservative_likelihood_correction(h, rows, log_z - 3.0, np.zeros(6), 2000, 0) == pytest.approx(-3.0, abs=0.2)
