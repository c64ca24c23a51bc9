"""The rows that each model learns from, with one model per class.

With folds, every class also gets F models that each leave one fold of its training rows out; a
training row is then scored by models that did not learn from it, so that it can be used for calibration.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics.row_selection import SelectedRows
from herdcli.numerics.streamed_rows import StreamedRows
from herdcli.rbm.learning.folds import assign_stratified_folds
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, is_sparse
from herdcli.splits import TEST, TRAIN, VALID


@dataclass(frozen=True)
class ClassGroups:
    """Rows X (n, D) in unit values, dense or CSR, with class y (n,) in 0…C−1, split (n,), and fold (n,) of training rows, −1 elsewhere."""

    X: Matrix
    y: Array
    split: Array
    fold: Array
    names: list[str]
    folds: int
    _parts: dict[int, StreamedRows] = field(default_factory=dict, init=False, repr=False, compare=False)

    def split_rows(self, number: int) -> StreamedRows:
        """Return the rows of one part of the split, if they are not in memory; all callers share the parts that were read."""
        if number not in self._parts:
            self._parts[number] = StreamedRows(self.X, self.split, number)
        return self._parts[number]

    @property
    def is_streamed(self) -> bool:
        """Whether the rows are not in memory; there is only one model then."""
        return not isinstance(self.X, np.ndarray) and not is_sparse(self.X)

    def training_rows(self) -> list[SelectedRows | StreamedRows]:
        """Return the rows of each model: C class models, then for each fold the C models that leave it out."""
        if self.is_streamed:
            return [self.split_rows(TRAIN)]
        training = self.split == TRAIN
        inside = [training, *(training & (self.fold != fold) for fold in range(self.folds))]
        chosen = [np.flatnonzero(part & (self.y == label)) for part in inside for label in range(len(self.names))]
        return [SelectedRows(self.X, rows.astype(np.int32) if len(self.y) <= 2**31 else rows) for rows in chosen]

    @property
    def heldout_indices(self) -> Array:
        """The indices (n_held,) of the validation and test rows, in the order (n,) of the rows."""
        return np.flatnonzero(np.isin(self.split, (VALID, TEST)))

    def validation_rows(self) -> list[SelectedRows | StreamedRows]:
        """Return the validation rows of each model, in the order of `training_rows`.  Raises DataError for a class without any."""
        if self.is_streamed and (self.split == VALID).any():
            return [self.split_rows(VALID)]
        chosen = (np.flatnonzero((self.split == VALID) & (self.y == label)) for label in range(len(self.names)))
        own: list[SelectedRows | StreamedRows] = [SelectedRows(self.X, rows) for rows in chosen]
        for name, rows in zip(self.names, own, strict=True):
            if not len(rows):
                owner = f"class '{name}'" if len(self.names) > 1 else "the split"
                raise DataError(f"{owner} has no validation rows", hint="hold out some rows: --split .6,.2,.2")
        return own * (self.folds + 1)

    def evenly_spaced_validation_rows(self, limit: int) -> SelectedRows | None:
        """Return at most this number of validation rows of all classes, evenly spread; None if there is one class."""
        if self.is_streamed or len(self.names) < 2:
            return None
        return SelectedRows(self.X, select_evenly_spaced(self.validation_indices, limit))

    @property
    def validation_indices(self) -> Array:
        """The indices (n_valid,) of the validation rows, in the order (n,) of the rows."""
        return np.flatnonzero(self.split == VALID)


def select_evenly_spaced(indices: Array, limit: int) -> Array:
    """Return at most `limit` of the indices (n,), evenly spread."""
    return indices[:: max(1, -(-len(indices) // limit))]


def largest_class_size(y: Array, split: Array) -> int:
    """Return the number of training rows of the largest class, at least 1, among rows of classes y (n,)."""
    if y.strides == (0,):  # one class
        return max(1, int(np.count_nonzero(split == TRAIN)))
    return max(1, int(np.bincount(y[split == TRAIN], minlength=1).max()))


def assign_class_folds(X: Matrix, y: Array, split: Array, names: list[str], *, folds: int, seed: int) -> ClassGroups:
    """Assign training rows of X (n, D), of classes y (n,), to folds with all classes evenly spread; fold (n,) is −1 elsewhere.

    Raises DataError for a class with too few training rows.
    """
    if y.strides == (0,) and not folds and (split == TRAIN).any():  # one class, possibly of very many rows
        return ClassGroups(X, y, split, np.broadcast_to(np.int64(-1), len(y)), names, 0)
    training = np.flatnonzero(split == TRAIN)
    for name, count in zip(names, np.bincount(y[training], minlength=len(names)), strict=True):
        if count < max(1, folds):
            need = "no training rows" if count == 0 else f"{count} training rows, fewer than {folds} folds"
            owner = f"class '{name}'" if len(names) > 1 else "the split"
            raise DataError(f"{owner} has {need}", hint="put more rows into the training part: --split .8,.1,.1")
    fold = np.full(len(y), -1, dtype=np.int64)
    if folds:
        fold[training] = assign_stratified_folds(y[training], folds, seed)
    return ClassGroups(X, y, split, fold, names, folds)
