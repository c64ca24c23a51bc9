"""The artifact of `herd fit-rbm --recurrent`, with the parts of its data that `eval` needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.rbm.model import to_dataset_values
from herdcli.rbm.recurrent.learning import RecurrentProblem, RecurrentState
from herdcli.rbm.recurrent.likelihood import EvaluationSequences
from herdcli.rbm.recurrent.model import Parameters, RecurrentModel, SequenceHistory, TimeOrder, require_bounded_hidden
from herdcli.rbm.units import unit_family
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix, array, require_image_shape, require_offsets


@dataclass(frozen=True)
class RecurrentLearningCurves:
    """The learning curves."""

    reconstruction: Array = array("E", "mean squared reconstruction error per visible unit in every epoch; NaN after a stop", kind="f")
    validated: Array | None = array("V", "epochs after which held-out sequences were looked at", kind="iu", optional=True)
    valid: Array | None = array("V", "nats per row of those, by the figure that was to be high; NaN after a stop", kind="f", optional=True)


@dataclass(frozen=True)
class StoredHeldoutSequences:
    """The sequences of split 2 in unit values."""

    X: Array = array("n D", "their rows, sequence by sequence", kind="iuf", finite=True)
    offsets: Array = array("o", "where each sequence begins, and the number of rows", kind="iu")
    state: Array = array("s K", "the recurrent state before each sequence, of those that do not begin here", kind="f", finite=True)
    begins: Array = array("s", "whether a sequence begins here: 0 a piece of one, 1 yes", kind="iu", low=0, high=1)

    def validate(self) -> None:
        """Raise DataError unless the offsets match the rows."""
        require_offsets("offsets", self.offsets, len(self.X), "X")
        if len(self.X) and (np.diff(self.offsets.astype(np.int64)) < 1).any():
            raise DataError("/offsets has a sequence without rows")
        if len(self.state) != len(self.offsets) - 1:
            raise DataError(f"/state is for {len(self.state)} sequences, but /offsets for {len(self.offsets) - 1}")


@dataclass(frozen=True, kw_only=True)
class RecurrentRBM:
    """The `rtrbm` artifact: a recurrent temporal RBM.

    Rows are in unit values; for rate units these are counts, not proportions.
    """

    parameters: Parameters
    visible_units: str
    hidden_units: str
    algorithm: str
    links: str
    steps: int
    epochs: int
    batch_size: int  # 0: all pieces
    window: int
    learning_rate: float
    rate_decay: str
    momentum: float
    weight_decay: float
    initial_scale: float
    patience: int = 0
    seed: int
    sequences: int  # number of training sequences
    rows: int  # number of their rows
    best_epoch: int = 0  # epoch whose parameters were kept; 0: the last one
    base_rates: Array = array("D", "natural parameters of independent columns with the training rows' means", kind="f", finite=True)
    base_mean: Array = array("D", "mean of the training rows", kind="f", finite=True)
    base_variance: Array = array("D", "their variances", kind="f", finite=True, low=0)
    trace: RecurrentLearningCurves | None = None
    holdout: StoredHeldoutSequences | None = None
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True, low=1)
    threshold: float | None = None  # grey level, as a fraction of the value range, at which a pixel is on
    value_range: Array | None = array(
        "2", "lowest and highest value of the data before the threshold", kind="fiu", optional=True, finite=True
    )
    column_mean: Array | None = array("D", "what was taken from the columns before learning", kind="f", optional=True, finite=True)
    column_scale: Array | None = array("D", "what the columns were divided by then", kind="f", optional=True, finite=True)
    feature_names: list[str] | None = None

    def validate(self) -> None:
        """Raise DataError unless the parts match each other and held-out rows have values of the visible units."""
        D, K = self.parameters.W.shape
        if not D or not K:
            raise DataError("the model has no weights: /parameters/W is empty")
        require_image_shape(self.image_shape, D)
        for name, columns in (("visible_units", D), ("hidden_units", K)):
            try:
                units = unit_family(getattr(self, name))
                if name == "hidden_units":
                    require_bounded_hidden(units)
            except BadUsage as error:
                raise DataError(error.message.replace("unknown units", f"{name} are")) from error
            if not units.is_valid_width(columns):
                raise DataError(f"{name} are {units.name}, but the number of columns, {columns}, does not fit them")
        for name in ("base_rates", "base_mean", "base_variance", "column_mean", "column_scale"):
            part = getattr(self, name)
            if part is not None and len(part) != D:
                raise DataError(f"/{name} has {len(part)} columns, but the model has {D} visible units")
        if self.column_scale is not None and not (self.column_scale > 0).all():
            raise DataError("/column_scale has values that are not above 0")
        if self.holdout is not None:
            self._validate_rows(self.holdout)

    def _validate_rows(self, heldout: StoredHeldoutSequences) -> None:
        D, K = self.parameters.W.shape
        if heldout.X.shape[1] != D or heldout.state.shape[1] != K:
            raise DataError(
                f"/holdout has {heldout.X.shape[1]} visible and {heldout.state.shape[1]} hidden units, but the model has {D} and {K}"
            )
        try:
            unit_family(self.visible_units).require_rows(heldout.X)
        except DataError as error:
            raise DataError(f"/holdout/X: {error.message}") from error

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        return int(self.parameters.W.shape[0])

    @property
    def hidden(self) -> int:
        """The number of hidden units."""
        return int(self.parameters.W.shape[1])

    @property
    def model(self) -> RecurrentModel:
        """The model in float64."""
        return RecurrentModel(self.parameters.float64(), unit_family(self.visible_units), unit_family(self.hidden_units))

    @property
    def log_scale(self) -> float:
        """The correction, in nats, to subtract from the log-likelihood of a standardised row to get that of the original row."""
        # The model is of x/s: the density of x is that of x/s divided by Π s.
        return 0.0 if self.column_scale is None else float(np.log(self.column_scale, dtype=np.float64).sum())

    def to_original(self, rows: Matrix) -> Array:
        """Convert rows (n, D) in unit values to the values of data sets."""
        return to_dataset_values(rows, unit_family(self.visible_units), self.column_mean, self.column_scale)

    def heldout_sequences(self) -> EvaluationSequences | None:
        """Return the sequences of split 2, all of whose rows count."""
        found = self.holdout
        if found is None or not len(found.X):
            return None
        return EvaluationSequences(
            found.X, found.offsets, np.ones(len(found.X), dtype=bool), SequenceHistory(found.state, found.begins.astype(bool))
        )


def make_stored_sequences(model: RecurrentModel, heldout: EvaluationSequences) -> StoredHeldoutSequences:
    """Return the rows of `heldout` that count, with the recurrent states after the rows before them.

    The rows that count are at the end of their sequences.
    """
    driven = heldout.step_harmoniums(model)
    rows, offsets, state, begins = [], [0], [], []
    for start, end in zip(heldout.offsets[:-1].tolist(), heldout.offsets[1:].tolist(), strict=True):
        own = np.flatnonzero(heldout.counted[start:end])
        if len(own):
            first = start + int(own[0])
            rows.append(heldout.v[first:end])
            offsets.append(offsets[-1] + end - first)
            begins.append(first == start)
            state.append(np.zeros(model.p.c.size) if first == start else driven.r[first - 1])
    return StoredHeldoutSequences(np.concatenate(rows), np.array(offsets), np.array(state), np.array(begins, dtype=np.uint8))


def assemble_recurrent_rbm(problem: RecurrentProblem, state: RecurrentState, test: EvaluationSequences | None, **seen: Any) -> RecurrentRBM:
    """Make the artifact of a run's last state.

    test  sequences for evaluation.  seen  how the rows became unit values.
    """
    settings, rows = problem.settings, problem.rows.astype(np.float64)
    model = RecurrentModel(state.now.float64(), problem.visible, problem.hidden)
    return RecurrentRBM(
        parameters=state.now,
        **{name: getattr(settings, name) for name in vars(settings) if name in RecurrentRBM.__dataclass_fields__ and name != "hidden"},
        sequences=len(problem.offsets) - 1,
        rows=len(rows),
        best_epoch=state.best_epoch,
        base_rates=np.asarray(problem.visible.base_rate_parameters(problem.rows), dtype=np.float64),
        base_mean=rows.mean(axis=0),
        base_variance=rows.var(axis=0),
        trace=_learning_curves(settings.epochs, settings.validate_every, state),
        holdout=None if test is None else make_stored_sequences(model, test),
        **seen,
    )


def _learning_curves(epochs: int, validate_every: int, state: RecurrentState) -> RecurrentLearningCurves:
    if not len(state.figures):
        return RecurrentLearningCurves(state.trace)
    looks = np.minimum(np.arange(1, len(state.figures) + 1) * validate_every, epochs)
    return RecurrentLearningCurves(state.trace, looks, state.figures)


def final_recurrent_states(model: RecurrentModel, v: Array, offsets: Array) -> tuple[Array, Array]:
    """Compute the recurrent states (S, K) after sequences of rows v (n, D) in unit values, and their last rows (S, D)."""
    steps = TimeOrder.from_offsets(offsets)
    driven = model.step_harmoniums(v, steps, SequenceHistory.empty(steps.count, model.p.c.size))
    return driven.r[offsets[1:] - 1], v[offsets[1:] - 1]
