"""Comparable energies: standardised by those of training rows, averaged along a run, aligned across folds."""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.records import dataclass
from herdcli.schema import Array, array, require_valid_indices


@dataclass(frozen=True)
class Scores:
    """Energies of rows under the model of each class, from which classes are predicted.

    They are free energies of fitted models, or averages of standardised energies along a run.  Rows of split 0 are
    training rows.  An rbm scores them with models that were not fitted to them (cross-fitting), herding with the runs they drove.
    """

    energy: Array = array("n C", "energy of each row under each class's model", kind="f", finite=True)
    y: Array = array("n", "index of the row's class in `classes`", kind="iu")
    split: Array = array("n", "0 train, 1 valid, 2 test", kind="iu", low=0, high=2)
    nearest: Array = array("n", "class of the nearest training row (Manhattan), a baseline", kind="iu")
    majority: int = 0  # the class most frequent among the training rows

    def require_classes(self, count: int, *, runs: int | None = None) -> None:
        """Raise DataError unless there is a column for each of `count` models, or of `runs`, and the classes are valid."""
        runs = count if runs is None else runs
        if self.energy.shape[1] != runs:
            raise DataError(f"/scores/energy has {self.energy.shape[1]} columns, but there are {runs} models")
        require_valid_indices("/scores/y", self.y, count, "one of the models")
        require_valid_indices("/scores/nearest", self.nearest, count, "one of the models", low=-1)
        if not 0 <= self.majority < count:
            raise DataError(f"/scores/majority is {self.majority}, but the {count} models are numbered 0 to {count - 1}")


def standardise_energies(energy: Array, training: Array) -> Array:
    """Return (energy − mean) / sd with mean and population sd of `training` over its first axis, per column.

    energy (n, ...) and training (t, ...), integer or float; returns float64 like energy.  A column that
    is constant over the training rows is only centred.
    """
    centre = training.mean(axis=0, dtype=np.float64)
    spread = training.std(axis=0, dtype=np.float64)
    result: Array = (energy - centre) / np.where(spread > 0.0, spread, 1.0)
    return result


def add_standardised_energies(total: Array, energy: Array, training: Array) -> None:
    """Add energies, standardised by this iteration's training energies, to `total`; divide by the iterations at the end.

    total, energy (n,) or (n, C).  Source: Welling (2009), sec. 10: energies averaged over the second half of the run.
    """
    total += standardise_energies(energy, training)


def align_energies(energy: Array, shared: Array, reference: Array) -> Array:
    """Return energies of one fold's models on the scale of the final models.

    Free energies of two fits differ by an unknown constant, their log Z, which rows that neither fit has seen
    reveal.  energy (n, C) under the fold's models; shared (r, C) energies of such rows under the same models;
    reference (r, C) of the same rows under the final models.  Returns (n, C) float64.
    """
    # −F(v) − log Z is the log-likelihood: a fold's free energies equal those of the final model plus a difference of log Z,
    # which the mean difference over rows that neither has seen estimates.
    result: Array = energy + (reference - shared).mean(axis=0, dtype=np.float64)
    return result
