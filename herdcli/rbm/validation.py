"""Figures of rows held out while a model learns: what learning is stopped by, and what its trace shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli.algorithm import solve
from herdcli.numerics import real
from herdcli.numerics.rows import dense, stored
from herdcli.rbm import annealing, transform
from herdcli.rbm.enumeration import log_partition_exact, states_of
from herdcli.rbm.labels import classes_of, log_posterior
from herdcli.rbm.likelihood import log_likelihood, pseudo_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.proper import fault
from herdcli.schema import Array

FIGURES = ("log_likelihood", "pseudo_likelihood", "free_energy_gap")
STATES = 13  # log2 of the states up to which log Z is summed
CHAINS, TEMPERATURES = 50, 200  # of annealing, from the same random numbers each time, so that its error changes little
MOST, FEW = 1000, 100  # rows of the likelihood and of the pseudo-likelihood
TRACKED = 500  # rows whose likelihood is noted where log Z is kept along


def figures(h: Harmonium, held: Any, trained: Any, log_z: float) -> Array:
    """The FIGURES (3,) of held-out rows (n, D) in nats a row: log-likelihood, pseudo-likelihood, free energy above the training rows'.

    trained  rows that the model learns from.  log_z  of `log_partition`.  NaN where there is no such figure.
    """
    rows = spread(held, MOST)
    gap = transform.energies([h], rows).mean() - transform.energies([h], spread(trained, MOST)).mean()
    pseudo = np.nan if h.visible.support is None else pseudo_likelihood(h, h.visible.discrete_rows(spread(held, FEW))).mean()
    own = np.nan if np.isnan(log_z) else log_likelihood(h, h.visible.discrete_rows(rows), log_z).mean()
    return np.array([own, pseudo, gap])


def log_partition(h: Harmonium, base: Array, seed: int, known: float | None) -> float:
    """log Z while a model learns, NaN where it has none: summed, else as it was kept along the updates, else annealed from `base` (D,)."""
    if fault(h.visible, h.hidden, h.W):
        return float("nan")
    if min(states_of(h.visible, h.W.shape[0]), states_of(h.hidden, h.W.shape[1])) <= STATES:
        return log_partition_exact(h)
    if known is not None:
        return known
    (estimate,) = solve(annealing.Annealing(annealing.Problem((h,), (base,), CHAINS, TEMPERATURES, seed)))
    return estimate.log_partition


def told_wrongly(h: Harmonium, held: Any) -> float:
    """Of a model of rows with labels: the share of at most MOST rows (n, D + C) whose most probable label is not theirs."""
    rows = np.asarray(spread(held, MOST))
    C = classes_of(h)
    return float((log_posterior(h, rows[:, :-C]).argmax(axis=1) != rows[:, -C:].argmax(axis=1)).mean())


def densities(h: Harmonium, rows: Any, log_z: float) -> Array:
    """log p(v) (n,) float32 of rows (n, D) of whatever class."""
    found: Array = log_likelihood(h, h.visible.discrete_rows(rows), log_z).astype(np.float32)
    return found


def mean_log_weight(h: Harmonium, rows: Any, log_scale: Array | None = None) -> float:
    """The mean of log p(v) + log Z over at most TRACKED rows (n, D), evenly spread; divided by e^{log_scale} (D,) before."""
    chosen = spread(rows, TRACKED)
    if log_scale is not None:
        # Learned is the density of z = v e^{−s}; that of v is it over Π e^s.
        chosen = np.asarray(dense(chosen), dtype=np.float64) * real.exp(-log_scale.astype(np.float64))
    lost = 0.0 if log_scale is None else float(log_scale.sum(dtype=np.float64))
    return float(log_likelihood(h, h.visible.discrete_rows(chosen), 0.0).mean()) - lost


def spread(rows: Any, most: int) -> Any:
    """At most so many rows, evenly spread, as they are stored."""
    every = -(-rows.shape[0] // most)
    return stored(rows, slice(None, None, every))
