"""The learning problem: the rows of each model, their minibatches, and figures of the rows that are computed beforehand."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics.row_selection import SelectedRows, column_sums, iterate_row_slices
from herdcli.numerics.streamed_rows import ShuffledOrder, StreamedRows
from herdcli.rbm.learning.phases import PhaseScratch
from herdcli.rbm.model import ResumableState
from herdcli.rbm.settings import RENEWED, REPLICAS, Settings
from herdcli.rbm.units import unit_family
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, Matrix

BLOCK = 512  # rows that are converted to float32 at a time
SHARED = 100  # a minibatch of at least this many rows is split into several blocks, for several threads
WIDE = 1 << 20  # an update may process only the active units if there are at least this many weights
FEW = 0.25  # largest share of columns active anywhere in a minibatch for such updates
SPARE = 8  # extra rows of working arrays beyond a block's, because each shared block has its own section
MOST_COMPARED = 1 << 22  # entries of rows whose columns are compared


@dataclass(frozen=True)
class ColumnStatistics:
    """Figures of the columns of a model's rows (n, D): their means (D,) float32, and whether they are constant, (D,) bool."""

    mean: Array
    constant: Array


@dataclass(frozen=True)
class InitialModels:
    """M models that learning continues from.

    epochs  completed epochs.  Shuffling, rates and sampling continue as in one run of all epochs.  0: all of these start again.
    state   momentum, chains and means; None: these start again.
    """

    W: Array
    b: Array
    c: Array
    epochs: int = 0
    state: ResumableState | None = None
    trace: Array | None = None  # (epochs, M)
    tracked: Array | None = None  # (epochs, M, 4) `likelihood_tracking.FIGURES`

    def select_models(self, units: Sequence[int]) -> InitialModels:
        """Return some of the models."""
        chosen, trace = list(units), None if self.trace is None else self.trace[:, list(units)]
        known: dict[str, Any] = {} if self.state is None else vars(self.state)
        own: dict[str, Any] = {name: None if part is None else part[chosen] for name, part in known.items()}
        state = ResumableState(**own) if known else None
        tracked = None if self.tracked is None else self.tracked[:, chosen]
        return InitialModels(self.W[chosen], self.b[chosen], self.c[chosen], self.epochs, state, trace, tracked)


@dataclass(frozen=True)
class LearningProblem:
    """The rows (n_m, D) of each of M models in unit values, int8 for two-state units and float32 for others, and the settings.

    scored  rows (n, D) whose energies under every model are averaged over its last updates.
    start   initial weights (D, K) and biases (D,), (K,) of every model, instead of random ones.
    units   the models' numbers, which determine their random numbers; None: 0 … M−1.
    most    rows of the largest of all models, if these are only some of them; 0: of these.
    valid   validation rows of each model, which are evaluated during learning.
    told    rows (n, D) of all classes, which models of classes classify at each evaluation.
    begun   models that learning continues from.
    known   mask of the known entries of the rows, (n_m, D) bool; None: all.
    Raises DataError unless every model has rows, all of one width, with values of the visible units.
    """

    rows: Sequence[Array | SelectedRows | StreamedRows]
    settings: Settings
    scored: Array | None = None
    start: tuple[Array, Array, Array] | None = None
    units: Sequence[int] | None = None
    most: int = 0
    valid: Sequence[SelectedRows | StreamedRows] | None = None
    told: SelectedRows | None = None
    begun: InitialModels | None = None
    known: Sequence[Array | SelectedRows] | None = None
    _orders: dict[int, tuple[int, Array | ShuffledOrder]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _columns: dict[int, ColumnStatistics] = field(default_factory=dict, init=False, repr=False, compare=False)
    _bases: dict[int, Array] = field(default_factory=dict, init=False, repr=False, compare=False)
    _scratch: threading.local = field(default_factory=threading.local, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        visible = self.visible
        if not self.rows:
            raise DataError("there are no rows to learn from")
        for index, selected in enumerate(self.rows):
            where, shape = f"rows of model {index}", selected.shape
            if len(shape) != 2 or shape[1] != self.rows[0].shape[1] or shape[1] == 0:
                raise DataError(f"the array has the shape {shape}, but must have (n, {self.rows[0].shape[-1]})", where=where)
            if shape[0] == 0:
                raise DataError("there are no rows", where=where)
            try:
                visible.require_rows(selected)
            except DataError as error:
                raise DataError(error.message, where=where) from error
        if self.settings.hidden % self.hidden.group:
            raise BadUsage(
                f"--hidden {self.settings.hidden} must be a multiple of {self.hidden.group}, the number of columns of one "
                f"{self.hidden.name} unit"
            )
        if self.start is not None and self.start[0].shape != (self.rows[0].shape[1], self.settings.hidden):
            raise DataError(
                f"the initial weights have the shape {self.start[0].shape}, but must have {(self.rows[0].shape[1], self.settings.hidden)}"
            )
        if self.settings.epochs_per_evaluation and self.valid is None:
            raise BadUsage("validation during learning needs validation rows, but there are none")
        for index, held in enumerate(self.valid or ()):
            if not len(held):
                raise DataError("there are no validation rows", where=f"model {index}", hint="hold out some rows: --split .6,.2,.2")
        if self.known is not None:
            self.settings.require_missing_values_support()
        if self.begun is not None and self.begun.W.shape[1:] != (self.rows[0].shape[1], self.settings.hidden):
            raise DataError(f"the rows have {self.rows[0].shape[1]} columns, but the model has {self.begun.W.shape[1]} visible units")
        if self.scored is not None and not 0 < self.settings.average_scores <= min(map(self.updates, range(len(self.rows)))):
            raise BadUsage(f"--average-scores must be from 1 to the number of updates, not {self.settings.average_scores}")

    def select_models(self, units: Sequence[int]) -> LearningProblem:
        """Return the problem of some of the models, which learn exactly as among all."""
        return replace(
            self,
            rows=[self.rows[m] for m in units],
            units=[self.global_number(m) for m in units],
            most=self.most or max(map(len, self.rows)),
            valid=None if self.valid is None else [self.valid[m] for m in units],
            begun=None if self.begun is None else self.begun.select_models(units),
            known=None if self.known is None else [self.known[m] for m in units],
        )

    def global_number(self, model: int) -> int:
        """Return the number of a model among all models, including those of other shards."""
        return model if self.units is None else self.units[model]

    @property
    def visible(self) -> UnitFamily:
        """The family of the visible units."""
        return unit_family(self.settings.visible_units)

    @property
    def hidden(self) -> UnitFamily:
        """The family of the hidden units."""
        return unit_family(self.settings.hidden_units)

    def visible_mean(self, model: int) -> Array:
        """Return the mean of a model's rows, (D,) float32."""
        return self._column_statistics(model).mean

    def constant_columns(self, model: int) -> Array:
        """Return the visible columns (D,) bool whose weights stay 0 in a model because they are constant in its rows."""
        return self._column_statistics(model).constant

    def base_rate_parameters_float32(self, model: int) -> Array:
        """Return the natural parameters of independent columns with the means of a model's rows, (D,) float32."""
        found: Array = self.base_rate_parameters(model).astype(np.float32)
        return found

    def base_rate_parameters(self, model: int) -> Array:
        """Return these natural parameters of independent columns, (D,) float64."""
        if model not in self._bases:
            self._bases[model] = self.visible.base_rate_parameters(self.rows[model])
        return self._bases[model]

    def _column_statistics(self, model: int) -> ColumnStatistics:
        """Compute the figures of the columns of a model's rows in one pass over them."""
        if model not in self._columns:
            rows = self.rows[model]
            first, constant = rows[:1][0], np.ones(rows.shape[1], dtype=bool)
            for block in iterate_row_slices(rows):
                constant &= (rows[block] == first).all(axis=0)
            mean = column_sums(rows) / len(rows)
            self._columns[model] = ColumnStatistics(mean.astype(np.float32), constant)
        return self._columns[model]

    @property
    def uses_sparse_updates(self) -> bool:
        """Whether the models are so large, and their rows so sparse, that `sparse_updates` is used."""
        settings, D = self.settings, int(self.rows[0].shape[1])
        plain = settings.algorithm == "cd" and settings.mean_field == "none" and settings.optimizer == "momentum" and self.known is None
        other = (settings.l1_decay, settings.non_negative, settings.sparsity_target, settings.average, settings.average_scores)
        if not plain or any(other) or D * settings.hidden < WIDE:
            return False
        if not (self.visible.multinomial or (self.visible.two_state and self.visible.states == (0, 1))):
            return False
        shares = (np.minimum(self.visible_mean(m), 1.0) for m in range(len(self.rows)))
        batch = max(-(-len(rows) // self.batches(m)) for m, rows in enumerate(self.rows))
        return all(float((1.0 - (1.0 - share.astype(np.float64)) ** batch).mean()) < FEW for share in shares)

    def batches(self, model: int) -> int:
        """Return the number of minibatches in an epoch of one model."""
        return self.settings.batches(len(self.rows[model]))

    def earlier_run_minibatches(self, model: int) -> int:
        """Return the number of minibatches of a model that an earlier run has completed."""
        return 0 if self.begun is None else self.begun.epochs * self.batches(model)

    def updates(self, model: int) -> int:
        """Return the total number of minibatches of one model."""
        return self.settings.updates(len(self.rows[model]))

    @property
    def chains(self) -> int:
        """The number of persistent chains per model.

        It is the setting if given, else the size of the largest minibatch, plus shorter ones for words; for rpcd at least RENEWED.
        """
        most = self.most or max(map(len, self.rows))
        least = RENEWED if self.settings.algorithm == "rpcd" else 0
        rows = min(self.settings.batch_size or most, most)
        shorter = (self.settings.replicas or REPLICAS) if self.settings.tempers_lengths else 0
        return self.settings.chains or max(rows + shorter, least)

    def order(self, model: int, epoch: int) -> Array | ShuffledOrder:
        """Return the order of a model's rows in one epoch, (n,).  It is a function of (seed, model, epoch) and cached while it is used."""
        held, order = self._orders.get(model, (-1, None))
        if held != epoch or order is None:
            rows, draws = (
                self.rows[model],
                partial(generator, self.settings.seed, Stream.SHUFFLE, unit=self.global_number(model), step=epoch),
            )
            order = (
                rows.draw_shuffled_order(lambda part: draws(part=part))
                if isinstance(rows, StreamedRows)
                else draws().permutation(len(rows))
            )
            self._orders[model] = (epoch, order)
        return order

    def scratch(self) -> PhaseScratch:
        """The working arrays of this thread."""
        if not hasattr(self._scratch, "arrays"):
            batch = max(-(-len(rows) // self.batches(m)) for m, rows in enumerate(self.rows))
            most = max(batch, self.chains) if self.settings.has_persistent_chains else batch
            self._scratch.arrays = PhaseScratch.allocate(
                min(BLOCK, most) + SPARE * (most >= SHARED), self.rows[0].shape[1], self.settings.hidden
            )
        arrays: PhaseScratch = self._scratch.arrays
        return arrays


def find_equal_columns(rows: Matrix) -> list[tuple[int, int]]:
    """Return pairs (i, j), i < j, of columns that vary and are equal in all rows (n, D); each column is at most once second.

    Sparse rows and more than MOST_COMPARED entries are not compared.
    """
    if len(rows) < 2 or len(rows) * rows.shape[1] > MOST_COMPARED or hasattr(rows[:1], "indptr"):
        return []
    seen: dict[bytes, int] = {}
    found: list[tuple[int, int]] = []
    for j, column in enumerate(np.ascontiguousarray(np.asarray(rows[:]).T)):
        first = seen.setdefault(column.tobytes(), j)
        if first != j and (column != column[0]).any():
            found.append((first, j))
    return found
