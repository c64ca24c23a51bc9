"""Figures of validation rows during learning: the stopping criterion, and the curves of the trace."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import as_dense, select_rows
from herdcli.rbm import feature_transform
from herdcli.rbm.classification_rbm import label_count, label_log_posterior
from herdcli.rbm.likelihood import annealed_importance
from herdcli.rbm.likelihood.enumeration import exact_log_partition, log2_state_count
from herdcli.rbm.likelihood.row_likelihood import log_pseudo_likelihood, row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.normalizability import divergence_reason
from herdcli.schema import Array, Matrix

FIGURES = ("log_likelihood", "pseudo_likelihood", "free_energy_gap")
STATES = 13  # log Z is summed over all states if there are at most 2^STATES
CHAINS, TEMPERATURES = 50, 200  # chains and temperatures of annealing; the same random numbers each time keep its error nearly the same
MOST, FEW = 1000, 100  # rows of the likelihood and of the pseudo-likelihood
TRACKED = 500  # rows whose likelihood is recorded if log Z is tracked


def validation_figures(h: Harmonium, heldout: Matrix, training_rows: Matrix, log_z: float) -> Array:
    """Compute the FIGURES (3,) of held-out rows (n, D) in nats per row.

    They are log-likelihood, pseudo-likelihood, and free energy minus that of the training rows.

    training_rows  rows that the model learns from.  log_z  of `validation_log_partition`.  A figure that does not exist is NaN.
    """
    rows = select_evenly_spaced(heldout, MOST)
    gap = (
        feature_transform.free_energies_by_model([h], rows).mean()
        - feature_transform.free_energies_by_model([h], select_evenly_spaced(training_rows, MOST)).mean()
    )
    pseudo = (
        np.nan
        if not h.visible.has_finite_values
        else log_pseudo_likelihood(h, h.visible.round_rows_to_states(select_evenly_spaced(heldout, FEW))).mean()
    )
    own = np.nan if np.isnan(log_z) else row_log_likelihood(h, h.visible.round_rows_to_states(rows), log_z).mean()
    return np.array([own, pseudo, gap])


def validation_log_partition(h: Harmonium, base: Array, seed: int, tracked_log_z: float | None) -> float:
    """Return log Z during learning: summed, else as tracked along the updates, else annealed from `base` (D,); NaN if it does not exist."""
    if divergence_reason(h.visible, h.hidden, h.W):
        return float("nan")
    if min(log2_state_count(h.visible, h.W.shape[0]), log2_state_count(h.hidden, h.W.shape[1])) <= STATES:
        return exact_log_partition(h)
    if tracked_log_z is not None:
        return tracked_log_z
    (estimate,) = run_algorithm(
        annealed_importance.AnnealedImportanceSampling(annealed_importance.AnnealingProblem((h,), (base,), CHAINS, TEMPERATURES, seed))
    )
    return estimate.log_partition


def label_error_rate(h: Harmonium, heldout: Matrix) -> float:
    """Compute the share of at most MOST rows (n, D + C) whose most probable label is wrong, for a model of rows with labels."""
    rows = np.asarray(select_evenly_spaced(heldout, MOST))
    C = label_count(h)
    return float((label_log_posterior(h, rows[:, :-C]).argmax(axis=1) != rows[:, -C:].argmax(axis=1)).mean())


def row_log_densities(h: Harmonium, rows: Matrix, log_z: float) -> Array:
    """Compute log p(v) (n,) float32 of rows (n, D) of any class."""
    found: Array = row_log_likelihood(h, h.visible.round_rows_to_states(rows), log_z).astype(np.float32)
    return found


def mean_unnormalised_log_density(h: Harmonium, rows: Matrix, log_scale: Array | None = None) -> float:
    """Compute the mean of log p(v) + log Z over at most TRACKED rows (n, D), evenly spread, divided first by e^{log_scale} (D,)."""
    chosen = select_evenly_spaced(rows, TRACKED)
    if log_scale is not None:
        # The model is of z = v e^{−s}; the density of v is that of z divided by Π e^s.
        chosen = np.asarray(as_dense(chosen), dtype=np.float64) * exact_arithmetic.exp(-log_scale.astype(np.float64))
    lost = 0.0 if log_scale is None else float(log_scale.sum(dtype=np.float64))
    return float(row_log_likelihood(h, h.visible.round_rows_to_states(chosen), 0.0).mean()) - lost


def select_evenly_spaced(rows: Matrix, limit: int) -> Matrix:
    """Return at most `limit` of the rows, evenly spread, as they are stored."""
    every = -(-rows.shape[0] // limit)
    return select_rows(rows, slice(None, None, every))
