"""The restricted Boltzmann machine: energies, conditionals, and the artifact of a fit.

E(v, h) = −(b·v + c·h + v'W h);  F(v) = −b·v − log h(v) − Σ_k A_k(c_k + (v'W)_k), so that p(v) ∝ e^{−F(v)}, with the
families' base measures h and log-partitions A of `units`.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import as_dense
from herdcli.numerics.scores import Scores
from herdcli.rbm.likelihood.gaussian_moments import GaussianMoments
from herdcli.rbm.units import unit_family
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass, former_class_getattr
from herdcli.schema import Array, Matrix, array, is_sparse, require_image_shape, require_valid_indices


@dataclass(frozen=True)
class Harmonium:
    """One harmonium in float64: W (D, K), b (D,), c (K,), and the families of its two layers."""

    W: Array
    b: Array
    c: Array
    visible: UnitFamily
    hidden: UnitFamily

    def free_energy(self, v: Matrix) -> Array:
        """Compute F(v) in nats for rows v (n, D), dense or CSR; returns (n,) float64."""
        v = v if is_sparse(v) else np.asarray(v, dtype=np.float64)
        # Σ_h e^{b·v + c·h + v'Wh} (base of h) = e^{b·v} Π_k e^{A(c_k + W_k·v)}, since hidden units are not connected.  F is −log of it and
        # of the base measure of v.
        result: Array = -exact_arithmetic.matrix_product(v, self.b) - self.hidden.log_partition(
            exact_arithmetic.matrix_product(v, self.W) + self.c
        ).sum(axis=-1)
        return result - self.visible.row_log_base_measure(v)

    def hidden_means(self, v: Matrix) -> Array:
        """Compute E[h | v] (n, K) for rows v (n, D), dense or CSR."""
        return self.hidden.mean(exact_arithmetic.matrix_product(v if is_sparse(v) else np.asarray(v, dtype=np.float64), self.W) + self.c)

    def visible_means(self, h: Array) -> Array:
        """Compute E[v | h] (n, D) for rows h (n, K)."""
        return self.visible.mean(exact_arithmetic.matrix_product(np.asarray(h, dtype=np.float64), self.W.T) + self.b)

    def transpose(self) -> Harmonium:
        """Return the same joint distribution with the roles of the two layers exchanged."""
        return Harmonium(self.W.T, self.c, self.b, self.hidden, self.visible)


@dataclass(frozen=True)
class StoredHeldoutRows:
    """Held-out rows in unit values that are stored for evaluation; split 1 valid, 2 test."""

    X: Matrix = array("n D", "rows in the visible units' values", kind="iuf", sparse=True)
    split: Array = array("n", "1 valid, 2 test", kind="iu", low=0, high=2)
    y: Array | None = array("n", "index of the row's class in `classes`", kind="iu", optional=True)


@dataclass(frozen=True)
class ExternalHeldoutRows:
    """Held-out rows that are too many to be stored: they stay in the data set that the model was fitted to, and are identified by a digest.

    sha256  `heldout_rows.heldout_digest` of the rows.  parts  the split as it was requested; None: that of the data set, or the
    default.
    """

    sha256: str
    valid: int
    test: int
    seed: int
    parts: str | None = None
    label: str | None = None  # the column that was named as the label
    on_disk: bool = False  # whether rows were read in blocks
    by_class: bool = True  # whether fractions were taken of every class, as in earlier versions


@dataclass(frozen=True)
class LearningCurves:
    """The learning curves, with one entry per epoch and model."""

    reconstruction: Array = array("E C", "mean squared reconstruction error per visible unit; NaN after a stop", kind="f")
    validated: Array | None = array("V", "epochs after which validation rows were looked at", kind="iu", optional=True)
    log_likelihood: Array | None = array("V C", "of validation rows, exact or annealed, nats per row", kind="f", optional=True)
    pseudo_likelihood: Array | None = array("V C", "the same", kind="f", optional=True)
    free_energy_gap: Array | None = array("V C", "of validation rows above training rows, nats", kind="f", optional=True)
    error: Array | None = array("V", "share of validation rows with a wrong predicted class or label", kind="f", optional=True)
    tracked_log_z: Array | None = array("E C", "log Z as it was kept along the updates, nats", kind="f", optional=True)
    tracked_se: Array | None = array("E C", "its standard error", kind="f", optional=True)
    tracked_training: Array | None = array(
        "E C", "log-likelihood by it of at most 500 training rows, nats per row", kind="f", optional=True
    )
    tracked_validation: Array | None = array("E C", "the same of validation rows; NaN without any", kind="f", optional=True)


@dataclass(frozen=True)
class HiddenSizeResults:
    """The numbers of hidden units that were tried, and figures of each model on held-out rows, in nats per row."""

    hidden: list[int]
    log_likelihood: list[float]  # log-likelihood of validation rows; for models that predict labels, log p(y | v)
    judged: list[float]  # the criterion, a cautious log_likelihood: the highest is chosen, of equal ones the smallest size
    training: list[float]  # log-likelihood of training rows
    log_z: list[str]  # method of log Z: exact, annealed, not reliable, labels or diverged

    def validate(self) -> None:
        """Raise DataError unless there is one figure of each number."""
        lengths = {len(part) for part in vars(self).values()}
        if len(lengths) > 1 or not self.hidden:
            raise DataError("/sizes is empty, or its arrays have different lengths")

    @property
    def best(self) -> int:
        """The number of hidden units that was chosen."""
        return max(range(len(self.hidden)), key=lambda number: (self.judged[number], -number))


@dataclass(frozen=True)
class ResumableState:
    """The state that learning continues from, in addition to the parameters."""

    W_velocity: Array = array("C D K", "last update of W", kind="f", finite=True)
    b_velocity: Array = array("C D", "last update of b", kind="f", finite=True)
    c_velocity: Array = array("C K", "last update of c", kind="f", finite=True)
    chain: Array | None = array("C m K", "hidden states of persistent chains", kind="f", optional=True, finite=True)
    hidden_mean: Array | None = array("C K", "running means of hidden units", kind="f", optional=True, finite=True)
    W_fast: Array | None = array("C D K", "what fast weights add to W in the chains", kind="f", optional=True, finite=True)
    b_fast: Array | None = array("C D", "the same of b", kind="f", optional=True, finite=True)
    c_fast: Array | None = array("C K", "the same of c", kind="f", optional=True, finite=True)
    W_square: Array | None = array("C D K", "adam: mean square gradient; natural: diagonal of the Fisher matrix", kind="f", optional=True)
    b_square: Array | None = array("C D", "the same of b", kind="f", optional=True)
    c_square: Array | None = array("C K", "the same of c", kind="f", optional=True)
    betas: Array | None = array("C R", "pt: inverse temperatures from 1 to 0", kind="f", optional=True, low=0, high=1)
    rejected: Array | None = array("C r", "pt: running share of refused exchanges of neighbours", kind="f", optional=True, low=0, high=1)
    track_values: Array | None = array("C P n D", "rows that carry log Z along, in populations", kind="f", optional=True, finite=True)
    track_log_weights: Array | None = array("C P n", "their log weights since the last resampling", kind="f", optional=True)
    track_log_means: Array | None = array("C P", "log of the mean weights until then, and of Z where they began", kind="f", optional=True)
    track_lost: Array | None = array("C", "nats that steps too long to be relied on add to the error of log Z", kind="f", optional=True)


@dataclass(frozen=True, kw_only=True)
class RBM1:
    """The `rbm` artifact as version 1 wrote it: two-state units, CD or PCD."""

    W: Array = array("C D K", "pair weights", kind="f", finite=True)
    b: Array = array("C D", "visible biases", kind="f", finite=True)
    c: Array = array("C K", "hidden biases", kind="f", finite=True)
    visible_units: str
    hidden_units: str
    algorithm: str
    steps: int
    epochs: int
    batch_size: int  # 0: all rows
    learning_rate: float
    rate_decay: str = "linear"
    momentum: float
    weight_decay: float
    chains: int  # 0: as many as the batch
    seed: int
    average_scores: int = 0  # updates over which the scores were averaged; 0: scores of the final models
    trace: LearningCurves | None = None
    holdout: StoredHeldoutRows | None = None
    scores: Scores | None = None
    classes: list[str] | None = None
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True, low=1)
    threshold: float | None = None  # grey level, as a fraction of the value range, at which a pixel is on
    value_range: Array | None = array(
        "2", "lowest and highest value of the data before the threshold", kind="fiu", optional=True, finite=True
    )

    def upgrade(self) -> RBM:
        """Return the same model in the present version of the artifact."""
        return RBM(**vars(self))

    def validate(self) -> None:
        """Raise DataError under the same conditions as the present version."""
        self.upgrade().validate()


@dataclass(frozen=True, kw_only=True)
class RBM(RBM1):
    """The `rbm` artifact: C models (one, or one per class) with the parts of their data that `eval` needs.

    Rows are in unit values; for rate units these are counts, not proportions.
    """

    bias_rate: float = 0.0  # learning rate of the biases; 0: the same as the weights'
    l1_decay: float = 0.0
    initial_scale: float = 0.01
    mean_field: str = "none"
    centering: bool = False
    non_negative: bool = False
    sparsity_target: float = 0.0  # 0: none
    sparsity_cost: float = 0.1
    fast_rate: float = 0.0  # learning rate of the fast weights; 0: the ordinary learning rate
    fast_decay: float = 0.95
    column_mean: Array | None = array("D", "what was taken from the columns before learning", kind="f", optional=True, finite=True)
    column_scale: Array | None = array("D", "what the columns were divided by then", kind="f", optional=True, finite=True)
    training_energy: Array | None = array("C", "mean free energy of each model's training rows", kind="f", optional=True, finite=True)
    feature_names: list[str] | None = None  # names of the columns; columns of other rows are matched by them
    validate_every: int = 0  # epochs between two evaluations on validation rows
    patience: int = 0
    track_likelihood: bool = False
    average: int = 0  # number of final updates over which the parameters were averaged
    best_epoch: Array | None = array("C", "with patience: the epoch whose model was kept", kind="iu", optional=True)
    final_steps: int = 0  # sweeps per update at the end of learning, which change evenly from `steps` to this; 0: constant
    replicas: int = 0  # number of temperatures of parallel tempering; 0: ten
    optimizer: str = "momentum"
    joint: str = "none"  # generative, discriminative or hybrid: rows have their label as the last visible unit
    generative_share: float = 0.01  # the weight of log p(v, y) in hybrid learning
    learn_variances: bool = False  # column_scale was learned
    labels: list[str] | None = None  # names of the columns of the last visible unit
    kept: ResumableState | None = None
    sizes: HiddenSizeResults | None = None  # the search that chose the number of hidden units
    elsewhere: ExternalHeldoutRows | None = None  # used instead of `holdout`
    tracked_log_z: Array | None = array("C", "log Z of the models as it was kept along the updates, nats", kind="f", optional=True)
    tracked_se: Array | None = array("C", "its standard error", kind="f", optional=True)
    base_rates: Array | None = array(
        "C D", "natural parameters of independent columns with the training rows' means", kind="f", optional=True
    )
    gaussian: GaussianMoments | None = None  # for real columns: mean and covariance of the training rows, for a Gaussian baseline

    def validate(self) -> None:
        """Raise DataError unless parameters are finite and the rows and scores match these models."""
        if self.W.size == 0:
            raise DataError("the model has no weights: /W is empty")
        for name in ("visible_units", "hidden_units"):
            try:
                units = unit_family(getattr(self, name))
            except BadUsage as error:
                raise DataError(error.message.replace("unknown units", f"{name} are")) from error
            columns = self.W.shape[1 if name == "visible_units" else 2]
            if not units.is_valid_width(columns):
                raise DataError(f"{name} are {units.name}, but the number of columns, {columns}, does not fit them")
        require_image_shape(self.image_shape, self.columns)
        if self.gaussian is not None and self.gaussian.mean.shape[1] != self.columns:
            raise DataError(f"/gaussian/mean has {self.gaussian.mean.shape[1]} columns, but the model has {self.columns}")
        if self.column_scale is not None and not (self.column_scale > 0).all():
            raise DataError("/column_scale has values that are not above 0")
        known = self.W.shape[1] - self.columns
        if known != (0 if self.labels is None else len(self.labels)):
            raise DataError(f"/labels has {len(self.labels or ())} names, but the label has {known} values")
        if self.classes is not None and len(self.classes) != self.count:
            raise DataError(f"/classes has {len(self.classes)} names, but there are {self.count} models")
        if self.holdout is not None:
            self._validate_rows(self.holdout)
        if self.scores is not None:
            self.scores.require_classes(self.count)

    def _validate_rows(self, rows: StoredHeldoutRows) -> None:
        if rows.X.shape[1] != self.W.shape[1]:
            raise DataError(f"/holdout/X has {rows.X.shape[1]} columns, but the models have {self.W.shape[1]} visible units")
        try:
            unit_family(self.visible_units).require_rows(rows.X)
        except DataError as error:
            raise DataError(f"/holdout/X: {error.message}") from error
        if rows.y is not None:
            require_valid_indices("/holdout/y", rows.y, self.count, "one of the models")

    @property
    def count(self) -> int:
        """The number of models, C."""
        return len(self.W)

    def to_original(self, rows: Matrix) -> Array:
        """Convert rows (n, D) in unit values to values of data sets: counts of rate units to proportions, columns to their own scale."""
        return to_dataset_values(rows[..., : self.columns], unit_family(self.visible_units), self.column_mean, self.column_scale)

    @property
    def columns(self) -> int:
        """The number of columns of a row without its label."""
        units = unit_family(self.visible_units)
        return int(self.W.shape[1]) - (units.labels.group if units.labels is not None else 0)

    def harmonium(self, index: int = 0) -> Harmonium:
        """Return model `index` in float64."""
        W, b, c = (np.asarray(part[index], dtype=np.float64) for part in (self.W, self.b, self.c))
        return Harmonium(W, b, c, unit_family(self.visible_units), unit_family(self.hidden_units))

    def harmoniums(self) -> list[Harmonium]:
        """Return all models in float64."""
        return [self.harmonium(index) for index in range(self.count)]


def to_dataset_values(rows: Matrix, units: UnitFamily, mean: Array | None, scale: Array | None) -> Array:
    """Convert rows (n, D) in unit values to the values of data sets.

    Counts of rate units become proportions.  Columns that were centred and scaled get back their mean and scale, (D,) each.
    """
    values: Array = as_dense(rows) / np.float32(units.scale)
    return values if mean is None or scale is None else values * scale + mean


def rbm_from_weights(W: Array, b: Array, c: Array, visible_units: str, hidden_units: str) -> RBM:
    """Make the artifact from weights (D, K) and biases (D,), (K,) that another program learned."""
    nothing = {"steps": 0, "epochs": 0, "batch_size": 0, "learning_rate": 0.0, "momentum": 0.0, "weight_decay": 0.0, "chains": 0, "seed": 0}
    units = {"visible_units": visible_units, "hidden_units": hidden_units}
    return RBM(W=W[None], b=b[None], c=c[None], algorithm="imported", **units, **nothing)  # type: ignore[arg-type]


__getattr__ = former_class_getattr(__name__, Trace="LearningCurves", Rows="StoredHeldoutRows")  # names in pickles of version 0.1
