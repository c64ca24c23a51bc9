"""Figures of validation rows during learning: the stopping criterion, and the curves of the trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import as_dense, select_rows
from herdcli.rbm import feature_transform
from herdcli.rbm.classification_rbm import label_count, log_posterior
from herdcli.rbm.likelihood import annealed_importance
from herdcli.rbm.likelihood.enumeration import log2_states, log_partition_exact
from herdcli.rbm.likelihood.row_likelihood import log_likelihood, pseudo_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.normalizability import divergence_reason
from herdcli.schema import Array

FIGURES = ("log_likelihood", "pseudo_likelihood", "free_energy_gap")
STATES = 13  # log2 of the number of states up to which log Z is summed
CHAINS, TEMPERATURES = 50, 200  # of annealing, with the same random numbers each time, so that its error changes little
MOST, FEW = 1000, 100  # rows of the likelihood and of the pseudo-likelihood
TRACKED = 500  # rows whose likelihood is recorded if log Z is tracked


def validation_figures(h: Harmonium, held: Any, trained: Any, log_z: float) -> Array:
    """Compute the FIGURES (3,) of held-out rows (n, D) in nats per row.

    They are log-likelihood, pseudo-likelihood, and free energy minus that of the training rows.

    trained  rows that the model learns from.  log_z  of `validation_log_partition`.  A figure that does not exist is NaN.
    """
    rows = spread_evenly(held, MOST)
    gap = feature_transform.free_energies([h], rows).mean() - feature_transform.free_energies([h], spread_evenly(trained, MOST)).mean()
    pseudo = np.nan if h.visible.support is None else pseudo_likelihood(h, h.visible.discrete_rows(spread_evenly(held, FEW))).mean()
    own = np.nan if np.isnan(log_z) else log_likelihood(h, h.visible.discrete_rows(rows), log_z).mean()
    return np.array([own, pseudo, gap])


def validation_log_partition(h: Harmonium, base: Array, seed: int, known: float | None) -> float:
    """Return log Z during learning: summed, else as tracked along the updates, else annealed from `base` (D,); NaN if it does not exist."""
    if divergence_reason(h.visible, h.hidden, h.W):
        return float("nan")
    if min(log2_states(h.visible, h.W.shape[0]), log2_states(h.hidden, h.W.shape[1])) <= STATES:
        return log_partition_exact(h)
    if known is not None:
        return known
    (estimate,) = run_algorithm(
        annealed_importance.Annealing(annealed_importance.AnnealingProblem((h,), (base,), CHAINS, TEMPERATURES, seed))
    )
    return estimate.log_partition


def label_error(h: Harmonium, held: Any) -> float:
    """Compute the share of at most MOST rows (n, D + C) whose most probable label is wrong, for a model of rows with labels."""
    rows = np.asarray(spread_evenly(held, MOST))
    C = label_count(h)
    return float((log_posterior(h, rows[:, :-C]).argmax(axis=1) != rows[:, -C:].argmax(axis=1)).mean())


def row_densities(h: Harmonium, rows: Any, log_z: float) -> Array:
    """Compute log p(v) (n,) float32 of rows (n, D) of any class."""
    found: Array = log_likelihood(h, h.visible.discrete_rows(rows), log_z).astype(np.float32)
    return found


def mean_log_weight(h: Harmonium, rows: Any, log_scale: Array | None = None) -> float:
    """Compute the mean of log p(v) + log Z over at most TRACKED rows (n, D), evenly spread, divided first by e^{log_scale} (D,)."""
    chosen = spread_evenly(rows, TRACKED)
    if log_scale is not None:
        # The model is of z = v e^{−s}; the density of v is that of z divided by Π e^s.
        chosen = np.asarray(as_dense(chosen), dtype=np.float64) * exact_arithmetic.exp(-log_scale.astype(np.float64))
    lost = 0.0 if log_scale is None else float(log_scale.sum(dtype=np.float64))
    return float(log_likelihood(h, h.visible.discrete_rows(chosen), 0.0).mean()) - lost


def spread_evenly(rows: Any, most: int) -> Any:
    """Return at most `most` of the rows, evenly spread, as they are stored."""
    every = -(-rows.shape[0] // most)
    return select_rows(rows, slice(None, None, every))
