"""Harmoniums of pairs of images of the same person: two visible blocks with separate weights, and one hidden layer.

A model of pairs is a harmonium of the rows (v¹, v²), so `RBMLearning` learns it.  Only the rows are special: each is joined from
two rows of one matrix when a minibatch needs it.  Each pair occurs in both orders.
Source: Teh (2003), sec. 3.5.3 and fig. 3.8.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics.row_selection import SelectedRows
from herdcli.rbm.learning.parallel_fits import LearningProblem, LearningState, RBMLearning
from herdcli.rbm.model import Harmonium
from herdcli.rbm.normalizability import project_to_normalisable
from herdcli.rbm.settings import Settings
from herdcli.rbm.units import unit_family
from herdcli.records import dataclass
from herdcli.schema import Array, array, require_image_shape

ITERATIONS = 2000  # minibatches, which is how we read the "iterations" of the thesis
DEFAULTS = Settings(
    hidden=100,
    batch_size=100,
    learning_rate=0.0025,
    bias_rate=0.005,
    rate_decay="none",
    momentum=0.95,
    weight_decay=0.0,
    mean_field="visible",
    visible_units="rate:10",
    hidden_units="rate:100",
)


@dataclass(frozen=True)
class PairRows(SelectedRows):
    """Rows (n, 2D) that each join two rows of a matrix (N, D): base[index[:, 0]], base[index[:, 1]]."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the joined rows, (n, 2D)."""
        return len(self.index), 2 * self.base.shape[1]

    def read_stored_rows(self, chosen: Array | slice) -> Array:
        """Return some of the rows, (m, 2 D)."""
        index = self.index[chosen]
        rows: Array = self.base[index].reshape(len(index), self.shape[1])
        return rows


@dataclass(frozen=True, kw_only=True)
class PairRBM:
    """The `rbm-pairs` artifact: one model, and the rows of its data set that it was learned from.

    Images are in unit values; for rate units these are counts, not proportions.
    """

    W1: Array = array("D K", "weights of the first image", kind="f", finite=True)
    W2: Array = array("D K", "weights of the second image", kind="f", finite=True)
    b1: Array = array("D", "biases of the first image's pixels", kind="f", finite=True)
    b2: Array = array("D", "biases of the second image's pixels", kind="f", finite=True)
    c: Array = array("K", "hidden biases", kind="f", finite=True)
    settings: Settings
    pairs: int  # number of ordered pairs in the training data
    trace: Array = array("E", "mean squared reconstruction error per visible unit, by epoch", kind="f")
    split: Array = array("n", "part of each row of the data set: 0 train, 1 valid, 2 test, 3 none", kind="iu", low=0, high=3)
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True, low=1)
    threshold: float | None = None  # grey level, as a fraction of the value range, at which a two-state pixel is on
    value_range: Array | None = array("2", "lowest and highest value of the data", kind="fiu", optional=True, finite=True)
    feature_names: list[str] | None = None  # names of the columns; columns of other rows are matched by them
    spread: float | None = None  # mean squared deviation of varying pixels from their means: a baseline for trace

    def validate(self) -> None:
        """Raise DataError unless there are pixels, and the families are known."""
        if self.W1.size == 0:
            raise DataError("the model has no weights: /W1 is empty")
        require_image_shape(self.image_shape, len(self.b1))
        for name in (self.settings.visible_units, self.settings.hidden_units):
            try:
                unit_family(name)
            except BadUsage as error:
                raise DataError(error.message) from error

    def harmonium(self) -> Harmonium:
        """Return the model of rows (v¹, v²) in float64."""
        W, b = (np.concatenate(parts).astype(np.float64) for parts in ((self.W1, self.W2), (self.b1, self.b2)))
        return Harmonium(W, b, self.c.astype(np.float64), unit_family(self.settings.visible_units), unit_family(self.settings.hidden_units))


def same_person_pairs(persons: Array, rows: Array, names: list[str]) -> Array:
    """Return all ordered pairs (m, 2) of different rows of one person, among `rows` of a data set.

    persons (n,) are indices into names.

    Raises DataError for a person with only one row.
    """
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for person in np.unique(persons[rows]):
        own = rows[persons[rows] == person]
        if len(own) == 1:
            hint = "leave out people with one image, or put more images into the training part with --split"
            raise DataError(f"person '{names[person]}' has one training image, but pairs need two", hint=hint)
        first, second = np.nonzero(~np.eye(len(own), dtype=bool))
        pairs.append(np.stack([own[first], own[second]], axis=1))
    return np.concatenate(pairs)


def default_epochs(pairs: int, batch_size: int) -> int:
    """Return the number of epochs over the pairs that have `ITERATIONS` minibatches."""
    return -(-ITERATIONS // -(-pairs // (batch_size or pairs)))


def make_pair_problem(X: Array, pairs: Array, settings: Settings) -> tuple[LearningProblem, Array]:
    """Make the learning problem of images X (n, D) and pairs (m, 2), and the mask (D,) bool of the pixels that vary and take part.

    Raises DataError if no pixel varies among the images of the pairs, and BadUsage if several columns are one unit.
    """
    if unit_family(settings.visible_units).group > 1:
        raise BadUsage(f"--pairs needs visible units with one column for each pixel, but {settings.visible_units} units have more")
    used = np.unique(pairs)
    seen = X[used]
    varies = np.asarray((seen != seen[0]).any(axis=0)) if len(seen) else np.zeros(X.shape[1], dtype=bool)
    if not varies.any():
        raise DataError("all training images are the same: no pixel varies")
    base = X if varies.all() and len(used) == len(X) else np.ascontiguousarray(seen[:, varies])
    index = pairs if base is X else np.searchsorted(used, pairs)
    return LearningProblem([PairRows(base, index)], settings), varies


@dataclass(frozen=True)
class PairLearning(RBMLearning):
    """The algorithm that learns a model of pairs: `RBMLearning` with the update of `_apply_centred_step`."""

    def step(self, state: LearningState) -> LearningState:
        """Run one minibatch; `state` is updated in place."""
        before = [part[0].copy() for part in (state.W, state.b_velocity, state.c_velocity)]
        return _apply_centred_step(self.problem, before, super().step(state))


def _apply_centred_step(problem: LearningProblem, before: list[Array], state: LearningState) -> LearningState:
    """Replace the plain step, which led from W and from the velocities `before` of the biases to `state`, with the step of centred units.

    Weights learn from v − μ and h − λ, so mean inputs are left to the biases.
    The inputs of thousands of pixels that are grey on average add up.  With the plain update and the rates of the thesis all hidden units
    turn off within ten updates and stay off.  With μ the mean image and λ = A'(0), hidden units half on, the weights' gradient becomes
    G_W − G_b λ' − μ G_c'.  The effect of a change Δ of W at the means is compensated: b ← b − Δλ, c ← c − Δ'μ.  G_b and G_c are those of
    the biases' own updates.
    Source: Cho, Raiko & Ilin (2011), sec. 3; Montavon & Mueller (2012).
    """
    settings, mean, half = problem.settings, problem.visible_mean(0), problem.hidden.mean(np.zeros(state.c.shape[1])).astype(np.float32)
    share = np.float32(settings.learning_rate / (settings.bias_rate or settings.learning_rate))
    bias, hidden = (
        share / np.float32(units.scale) * (velocity[0] - np.float32(settings.momentum) * earlier)
        for units, velocity, earlier in ((problem.hidden, state.b_velocity, before[1]), (problem.visible, state.c_velocity, before[2]))
    )
    W, velocity = state.W[0], state.W_velocity[0]
    velocity -= np.outer(bias, half)
    velocity -= np.outer(mean, hidden)
    np.add(before[0], velocity, out=W)
    if settings.non_negative:
        np.maximum(W, 0.0, out=W)
    project_to_normalisable(problem.visible, problem.hidden, W)
    change = W - before[0]
    state.b[0] -= change @ half
    state.c[0] -= mean @ change
    return state


def assemble_pair_rbm(problem: LearningProblem, state: LearningState, varies: Array, X: Array, pairs: Array, split: Array) -> PairRBM:
    """Make the artifact of a finished fit on pairs (n, 2) of rows X.

    Pixels that do not vary (D,) get weights 0 and the bias of their value.
    """
    D, wide = len(varies), int(varies.sum())
    W = np.zeros((2, D, state.c.shape[1]), dtype=np.float32)
    W[:, varies] = state.W[0].reshape(2, wide, -1)
    b = np.empty((2, D), dtype=np.float32)
    b[:, ~varies] = problem.visible.base_rate_parameters(X[pairs[:, 0]][:, ~varies])
    b[:, varies] = state.b[0].reshape(2, wide)
    return PairRBM(
        W1=W[0],
        W2=W[1],
        b1=b[0],
        b2=b[1],
        c=state.c[0],
        settings=problem.settings,
        pairs=len(pairs),
        trace=state.trace[:, 0],
        split=split,
        spread=_mean_pixel_variance(problem),
    )


def _mean_pixel_variance(problem: LearningProblem) -> float:
    """Compute the mean squared deviation of the varying pixels of all pairs from their means, in proportions."""
    rows = problem.rows[0]
    assert isinstance(rows, PairRows)
    share = np.bincount(rows.index.ravel(), minlength=len(rows.base)) / rows.index.size
    mean = share @ rows.base
    return float((share @ np.square(rows.base - mean)).mean() / problem.visible.scale**2)
