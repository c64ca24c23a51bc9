"""The `classifier` artifact: a Gaussian over linear classifiers, or over functions of a kernel, and the settings of its learning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, replace
from typing import ClassVar

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics.class_baselines import ClassBaselines
from herdcli.online.learners.algorithm_table import TABLE
from herdcli.online.predictions.coverage import Coverage
from herdcli.online.text.documents import DocumentConversion
from herdcli.online.text.quadratic_features import require_valid_pairs
from herdcli.records import dataclass, former_class_getattr
from herdcli.schema import LARGEST, Array, array

SCALINGS = ("none", "online", "standard")
LINKS = ("normal", "logistic", "softmax")
SCALES = ("seen", "size", "location", "deviation", "centred")  # statistics for scaling features: the first two, or all of them with means

ALGORITHMS = tuple(TABLE)
FORMS = ("exact", "project", "drop")
LOSSES = ("squared-hinge", "log", "squared")


@dataclass(frozen=True)
class Settings1:
    """The settings of learning in version 1 of the artifact.

    C             weight of the loss of an example; 0 means ¼ over the running mean of |x|².
    loss          of nherd and arow; squared-hinge is ½ max(0, 1 − m)².
    confidence    η of cw and scw.   normalize  scale each example to |x| = 1.   bias  a feature that is always 1.
    always_update shrink the covariance also on examples of margin ≥ 1 (nherd, arow).
    label_noise   probability that a training label is replaced by another.
    kernel        none, linear, polynomial or gaussian; width: gaussian exp(−|x−z|²/2 width²); polynomial (1 + x·z)^degree.
    budget        support vectors allowed, 0 = no bound.
    """

    algorithm: str = "nherd"
    covariance: str = "diagonal"
    form: str = "project"
    loss: str = "squared-hinge"
    C: float = 0.0
    confidence: float = 0.9
    multiclass: str = "top-1"
    passes: int = 1
    shuffle: bool = False
    normalize: bool = False
    bias: bool = False
    always_update: bool = False
    label_noise: float = 0.0
    kernel: str = "none"
    width: float = 1.0
    degree: int = 2
    budget: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Settings2(Settings1):
    """The settings of learning in version 2 of the artifact: those of `Settings1` and

    scaling       online: each feature is divided by the mean size |x_i| of its values ≠ 0 seen so far.
    """

    scaling: str = "none"


@dataclass(frozen=True)
class Settings(Settings2):
    """The settings of learning: those of `Settings1` and `Settings2`, and these:

    holdout       one in this many examples is evaluated in each pass and not learned; 0: none.
    until_last    held-out examples are learned in the last pass, after they have been evaluated.
    task          regression: numbers are learned in place of classes, by squared loss; multilabel: any number of labels.
    early_stop    passes without a lower held-out error after which learning ends with the weights of the best pass; 0: never.
    scaling       standard: like online, but features that most rows have are centred at their running means, see `fast.standardize`.
    half_life     (nherd, arow) examples after which the evidence of one counts half, see `forgetting`; 0: it never fades.
    dual          (pa2) each example's multiplier is kept, and solved again in each pass: see `fast.learn_dual`.
    """

    holdout: int = 0
    until_last: bool = False
    early_stop: int = 0
    task: str = "classification"
    dual: bool = False
    half_life: float = 0.0


@dataclass(frozen=True)
class Progress:
    """Progressive validation of the first pass: every example is evaluated before it is learned, with results at powers of two."""

    examples: Array = array("T", "examples seen", kind="i")
    error: Array = array("T", "share of them classified wrongly", kind="f")
    loss: Array = array("T", "mean of ½ max(0, 1 − margin)²", kind="f")


@dataclass(frozen=True)
class HeldoutScores:
    """Scores of examples before (or without) being learned, for the calibration of the confidence and for `eval`."""

    score: Array = array("n C", "μ·x of each class", kind="f")
    variance: Array = array("n C", "x'Σx of each class", kind="f")
    y: Array = array("n", "class of each example, as an index", kind="i")
    split: Array = array("n", "1 calibration, 2 test", kind="u")
    baselines: Array | None = array(
        "n 2", "classes by the nearest centroid and a ridge classifier, −1: not predicted", kind="i", optional=True, low=-1
    )


@dataclass(frozen=True)
class KernelMachine:
    """One two-class machine in the span of its support vectors: f(x) = Σ α k(x_i, x), variance k(x,x) − k'Bk."""

    alpha: Array = array("m", "coefficients", kind="f")
    B: Array = array("m m", "(diag(1/γ) + K)⁻¹", kind="f")
    support: Array = array("m d", "support vectors", kind="f")

    free_axes: ClassVar[dict[str, tuple[int, ...]]] = {"B": (1,), "support": (1,)}  # field -> axes that grow if a run gets further columns


@dataclass(frozen=True)
class RunningTotals:
    """The state that learning continues from, besides the weights, and the totals of progressive validation."""

    examples: int = 0  # number of examples in all passes
    squares: float = 0.0  # sum of |x|²
    seen: int = 0  # examples evaluated progressively
    wrong: int = 0
    loss: float = 0.0
    updates: int = 0
    refused: int = 0  # updates refused because of the budget
    skipped: int = 0  # lines of text that were not valid examples


@dataclass(frozen=True)
class RaceResults:
    """The learners of a race over the first examples; the one with the lowest progressive loss was chosen."""

    algorithm: list[str]
    C: Array = array("K", "weight of an example", kind="f")
    examples: Array = array("K", "examples until the learner was dropped, or the race was over", kind="i")
    error: Array = array("K", "share of them classified wrongly before they were learned", kind="f")
    loss: Array = array("K", "mean of ½ max(0, 1 − margin)² before they were learned", kind="f")
    multiclass: list[str] | None = None


@dataclass(frozen=True)
class ForgettingComparison:
    """Learners with fading evidence compared with one that forgets nothing, over the first examples of a stream that drifts."""

    half_life: Array = array("K", "examples after which evidence counts half", kind="f")
    C: Array = array("K", "weight of an example", kind="f")
    error: Array = array("K", "share of the second half that was wrong before it was learned; of numbers the mean square", kind="f")
    examples: Array = array("T", "where windows of the examples end", kind="i")
    fading: Array = array("T", "the same in each window, of the best of them", kind="f")
    still: Array = array("T", "the same of the learner that forgets nothing", kind="f")


@dataclass(frozen=True)
class PassResults:
    """The results of each pass on the held-out examples, which are evaluated in their turn."""

    examples: Array = array("P", "held-out examples", kind="i")
    error: Array = array("P", "share of them classified wrongly", kind="f")
    loss: Array = array("P", "mean of ½ max(0, 1 − margin)²", kind="f")


@dataclass(frozen=True)
class Classifier1:
    """Version 1 of the `classifier` artifact, without scaling of features."""

    classes: list[str]
    settings: Settings1
    running: RunningTotals
    progress: Progress
    mean: Array | None = array("C d", "means of the weights", kind="f", optional=True)
    variance: Array | None = array("C d", "variances, diagonal covariance", kind="f", optional=True)
    covariance: Array | None = array("M D D", "full covariance: of each class, or of all weights together (top-1)", kind="f", optional=True)
    machines: list[KernelMachine] = field(default_factory=list)
    holdout: HeldoutScores | None = None
    scale: float = 1.0  # g of the confidence F(g m / √(1 + v)), with F = Φ
    bits: int = 0  # features are hashed into 2^bits columns
    text: str = ""  # format of the text it was learned from, svmlight or vw
    zero_based: bool = False  # whether indices in the text begin at 0
    hash_index: Array | None = array("h", "columns whose feature names are known", kind="i", optional=True)
    hash_names: list[str] | None = None
    feature_names: list[str] | None = None

    @property
    def count(self) -> int:
        """The number of scores: 1 for two classes, else the number of classes."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    @property
    def columns(self) -> int:
        """The number of features, with the bias."""
        if self.mean is not None:
            return int(self.mean.shape[1])
        return max((int(machine.support.shape[1]) for machine in self.machines), default=0)

    @property
    def features(self) -> int:
        """The number of values in a row of data: a kernel's support vectors always have a column for the bias."""
        return self.columns - (1 if self.machines else int(self.settings.bias))

    def upgrade(self) -> Classifier:
        """Return the same model in the current version."""
        return Classifier(**{**vars(self), "settings": Settings(**vars(self.settings))})

    def validate(self) -> None:
        """Raise DataError as the current version does."""
        self.upgrade().validate()


@dataclass(frozen=True)
class Classifier2(Classifier1):
    """Version 2 of the `classifier` artifact: its confidence is Φ, and no examples are held out."""

    settings: Settings2
    seen: Array | None = array("d", "values ≠ 0 that each feature had", kind="f", optional=True)
    size: Array | None = array("d", "sum of their sizes |x_i|", kind="f", optional=True)
    race: RaceResults | None = None


@dataclass(frozen=True)
class Classifier(Classifier2):
    """A classifier over d features (d + 1 with a bias, which is then column 0).

    Two classes have one row (C = 1), positive for classes[1].  Only one of the three variances is present.  With
    --scale online weights multiply x_i · seen_i / size_i, with --scale standard and centred features
    (x_i − location_i) · (centred_i − 1) / deviation_i.
    """

    settings: Settings
    link: str = "normal"  # F of the confidence: normal (Φ) or logistic; for several classes also softmax
    passes: PassResults | None = None
    interactions: list[str] | None = None  # pairs of namespaces whose features are multiplied, by their first letters
    coverage: Coverage | None = None
    location: Array | None = array("d", "mean of each feature while it is centred, else the sum of its values", kind="f", optional=True)
    deviation: Array | None = array("d", "sum of |x_i − location_i| while it is centred", kind="f", optional=True)
    centred: Array | None = array("d", "examples since it is centred, 0 if it is not", kind="f", optional=True)
    forgetting: ForgettingComparison | None = None
    documents: DocumentConversion | None = None  # how documents become rows, if it was learned from documents
    column: Array | None = array("d", "column of each weight, where hashed ones without evidence are left out", kind="i", optional=True)
    baselines: ClassBaselines | None = None  # fitted to the same training rows
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True, low=1)

    @property
    def columns(self) -> int:
        """The number of features, with the bias."""
        return super().columns if self.column is None else (1 << self.hash_bits) + self.settings.bias

    @property
    def hash_bits(self) -> int:
        """The bits of the hash of features, of text or of the words of documents; 0 if features are not hashed."""
        return self.bits if self.documents is None else self.documents.bits

    @property
    def scales(self) -> Array | None:
        """The statistics for scaling features, (d, 2) or, with means, (d, 5), in the form of the loops; None without scaling."""
        if self.seen is None or self.size is None:
            return None
        parts = [self.seen, self.size, self.location, self.deviation, self.centred]
        return np.stack([part for part in parts if part is not None], axis=1)

    def with_scales(self, scales: Array | None) -> Classifier:
        """Return the model with these scales in place of its own."""
        if scales is None:
            return self
        columns = {name: np.ascontiguousarray(column) for name, column in zip(SCALES, scales.T, strict=False)}
        return replace(self, **columns)  # type: ignore[arg-type]

    @property
    def factors(self) -> tuple[Array, Array] | None:
        """The pair (location, factor), (d,) each: weights multiply (x − location) · factor; unseen features have factor 0."""
        scales = self.scales
        if scales is None:
            return None
        met = scales[:, 1] > 0
        factor = np.where(met, scales[:, 0] / np.where(met, scales[:, 1], 1.0), 0.0)
        if scales.shape[1] == 2:
            return np.zeros(len(factor)), factor
        centred, spread = scales[:, 4] > 0, scales[:, 3] > 0
        own = np.where(spread, np.maximum(scales[:, 4] - 1.0, 1.0) / np.where(spread, scales[:, 3], 1.0), 0.0)
        return np.where(centred, scales[:, 2], 0.0), np.where(centred, own, factor)

    def upgrade(self) -> Classifier:
        """Return the model itself."""
        return self

    @property
    def expanded_bytes(self) -> int:
        """The bytes that `with_all_columns` needs; 0 if it has nothing to do."""
        return 0 if self.column is None or self.mean is None else 8 * self.columns * (2 * len(self.mean) + len(SCALES))

    def condense(self) -> Classifier:
        """Return the model as files store it: with hashed features only the columns that have evidence, if these are less than half."""
        if not self.hash_bits or self.mean is None or self.variance is None:
            return self
        used = (self.mean != 0.0).any(axis=0) | (self.variance != 1.0).any(axis=0)
        for name in SCALES:
            if (values := getattr(self, name)) is not None:
                used |= values != 0.0
        column = np.flatnonzero(used) if self.column is None else self.column[used]
        if 2 * len(column) >= self.columns:
            return self.with_all_columns()
        if used.all():
            return self
        return self._with_columns(column, lambda values, fill: values[..., used])

    def with_all_columns(self) -> Classifier:
        """Return the model with all its columns: those left out have mean 0, variance 1 and no sizes."""
        if self.column is None:
            return self

        def spread(values: Array, fill: float) -> Array:
            made = np.full((*values.shape[:-1], self.columns), fill) if fill else np.zeros((*values.shape[:-1], self.columns))
            made[..., self.column] = values
            return made

        return self._with_columns(None, spread)

    def _with_columns(self, column: Array | None, take: Callable[[Array, float], Array]) -> Classifier:
        """Return the model with these columns.

        take  (values (…, d), value of a column without evidence) -> values of the columns.
        """
        parts = {name: values for name in ("mean", *SCALES) if (values := getattr(self, name)) is not None}
        made = {name: np.ascontiguousarray(take(values, 0.0)) for name, values in parts.items()}
        assert self.variance is not None
        return replace(self, **made, variance=np.ascontiguousarray(take(self.variance, 1.0)), column=column)  # type: ignore[arg-type]

    def validate(self) -> None:
        """Raise DataError unless the arrays fit the classes and each other, and all numbers are valid."""
        if len(self.classes) < 2:
            raise DataError(f"has {len(self.classes)} classes; a classifier needs two or more")
        if len(set(self.classes)) < len(self.classes):
            raise DataError("has two classes with the same name")
        require_settings(self.settings, "classification")
        if self.machines:
            _require_valid_machines(self)
        else:
            require_weights(self)
        require_features(self)
        require_valid_pairs(self.interactions, self.text == "vw", self.bits)
        if self.documents is not None:
            self.documents.validate()
            if self.features != 1 << self.documents.bits:
                raise DataError(
                    f"has weights for {self.features} features, but its documents need 2^{self.documents.bits}",
                    hint="fit the model again with herd nherd-train --text",
                )
        if self.holdout is not None:
            _require_holdout(self.holdout, self.count, len(self.classes))
        if self.baselines is not None:
            self.baselines.require_shape(len(self.classes), self.features)
        if self.link not in LINKS:
            raise DataError(f"the link that turns scores into probabilities is '{self.link}', expected {', '.join(LINKS)}")
        if self.link == "softmax" and self.count == 1:
            raise DataError("the link that turns scores into probabilities is 'softmax', but two classes need 'logistic'")
        if not 0 < self.scale < np.inf:
            raise DataError(f"the scale of its probabilities is {self.scale}, but must be finite and above 0")
        counts = [getattr(self.running, declared.name) for declared in fields(self.running)]
        if not all(0 <= number < np.inf for number in counts):
            raise DataError("the stored running error and loss must be finite and not negative")
        for name in ("error", "loss"):
            require_finite_above(getattr(self.progress, name), f"progress/{name}")


def require_finite_above(values: Array, name: str, lowest: float = -np.inf) -> None:
    """Raise DataError unless all values are finite and none is below `lowest`."""
    if not np.isfinite(values).all():
        raise DataError(f"dataset '{name}' has values that are not finite", hint="a smaller --C, or --normalize l2")
    if values.size and values.min() < lowest:
        raise DataError(f"dataset '{name}' has values below {lowest:g}")


def require_settings(settings: Settings, task: str) -> None:
    """Raise DataError unless all settings are known and within their ranges, and those of a task."""
    known = {
        "algorithm": ALGORITHMS,
        "form": FORMS,
        "loss": LOSSES,
        "covariance": ("diagonal", "full"),
        "multiclass": ("top-1", "one-vs-rest"),
        "kernel": ("none", "linear", "polynomial", "gaussian"),
        "scaling": SCALINGS,
        "task": (task,),
    }
    for name, values in known.items():
        if getattr(settings, name) not in values:
            raise DataError(f"settings/{name} is '{getattr(settings, name)}', expected {', '.join(values)}")
    if not 0 <= settings.C < np.inf or not 0.5 < settings.confidence < 1 or not 1.0 / LARGEST < settings.width < LARGEST:
        raise DataError("settings: C, confidence or width is outside its range")
    if settings.holdout < 0 or settings.holdout == 1 or settings.early_stop < 0:
        raise DataError("settings: holdout or early_stop is outside its range")
    if not 0 <= settings.half_life < np.inf:
        raise DataError("settings: half_life is outside its range")
    if settings.passes < 1 or settings.degree < 1 or settings.budget < 0 or not 0 <= settings.label_noise <= 1:
        raise DataError("settings: passes, degree, budget or label_noise is outside its range")


def require_weights(model: Classifier) -> None:
    """Raise DataError unless means, variances and classes are consistent."""
    if model.mean is None or (model.variance is None) == (model.covariance is None):
        raise DataError("needs 'mean' and either 'variance' or 'covariance'")
    if len(model.mean) != model.count:
        raise DataError(f"has weights for {len(model.mean)} scores, but its {len(model.classes)} classes need {model.count}")
    if model.columns < 1:
        raise DataError("has no features")
    require_finite_above(model.mean, "mean")
    if model.variance is not None:
        require_finite_above(model.variance, "variance", 0.0)
    if model.covariance is not None:
        groups, width = model.covariance.shape[:2]
        if (groups, width) not in ((model.count, model.columns), (1, model.count * model.columns)):
            raise DataError(f"dataset 'covariance' is {groups} × {width} × {width}, weights are {model.count} × {model.columns}")
        require_finite_above(model.covariance, "covariance")
        own = np.diagonal(model.covariance, axis1=1, axis2=2)
        require_finite_above(own, "diagonal of covariance", 0.0)
        for part, deviation in zip(model.covariance, np.sqrt(own), strict=True):
            if (np.abs(part) > np.outer(deviation, deviation) + 1e-6 * deviation.max() ** 2).any():  # Cauchy–Schwarz, up to rounding
                raise DataError(
                    "dataset 'covariance' is not a covariance matrix: some covariances are too large for the variances on the diagonal"
                )


def _require_valid_machines(model: Classifier) -> None:
    if model.settings.kernel == "none" or model.mean is not None:
        raise DataError("has both support vectors and weights of features")
    if len(model.machines) != model.count:
        raise DataError(f"has support vectors for {len(model.machines)} scores, but its {len(model.classes)} classes need {model.count}")
    machine: KernelMachine
    for number, machine in enumerate(model.machines):
        for name in ("alpha", "B", "support"):
            require_finite_above(getattr(machine, name), f"machines/{number}/{name}")


def require_features(model: Classifier) -> None:
    """Raise DataError unless names, hashing and sizes of features fit the weights."""
    inputs = model.features
    if not 0 <= model.bits <= 30:
        raise DataError(f"'bits' is {model.bits}, but must be 0 to 30")
    if model.bits and not model.machines and model.columns != (1 << model.bits) + model.settings.bias:
        raise DataError(f"has {inputs} features, but hashing with 'bits' {model.bits} gives {1 << model.bits}")
    if model.column is not None:
        _require_columns(model, model.column)
    if model.text not in ("", "svmlight", "vw"):
        raise DataError(f"text is '{model.text}', expected svmlight or vw")
    if model.feature_names is not None and not model.machines and len(model.feature_names) != inputs:
        raise DataError(f"has {len(model.feature_names)} feature names for {inputs} features")
    if (model.hash_index is None) != (model.hash_names is None) or len(model.hash_names or ()) != (
        0 if model.hash_index is None else len(model.hash_index)
    ):
        raise DataError("datasets 'hash_index' and 'hash_names' must both exist and have the same length")
    if model.hash_index is not None and model.hash_index.size and not 0 <= model.hash_index.min() <= model.hash_index.max() < model.columns:
        raise DataError("dataset 'hash_index' names columns that do not exist")
    scaled, centred = model.settings.scaling != "none", model.settings.scaling == "standard"
    for needed, names in ((scaled, ("seen", "size")), (centred, ("location", "deviation", "centred"))):
        for name in names:
            if (getattr(model, name) is None) == needed:
                fault = "is missing, but is needed" if needed else "must not exist"
                raise DataError(f"dataset '{name}' {fault} if settings/scaling is '{model.settings.scaling}'")
    for name in SCALES:
        if (values := getattr(model, name)) is not None:
            weights = model.columns if model.column is None else len(model.column)
            if len(values) != weights:
                raise DataError(f"dataset '{name}' has {len(values)} entries, but there are {weights} features")
            require_finite_above(values, name, -np.inf if name == "location" else 0.0)


def _require_columns(model: Classifier, column: Array) -> None:
    if not model.hash_bits or model.machines or model.variance is None:
        raise DataError("has the dataset 'column', but only hashed features with variances need it")
    if len(column) and not (column[0] >= 0 and column[-1] < model.columns and (np.diff(column) > 0).all()):
        raise DataError(f"dataset 'column' must be increasing numbers below {model.columns}")


def _require_holdout(heldout: HeldoutScores, count: int, classes: int) -> None:
    if heldout.score.shape[1] != count:
        raise DataError(f"holdout has {heldout.score.shape[1]} scores for each example, but {classes} classes need {count}")
    require_finite_above(heldout.score, "holdout/score")
    require_finite_above(heldout.variance, "holdout/variance", 0.0)
    if heldout.baselines is not None and heldout.baselines.size and heldout.baselines.max() >= classes:
        raise DataError(f"dataset 'holdout/baselines' has classes outside 0…{classes - 1}")
    if heldout.y.size and not 0 <= heldout.y.min() <= heldout.y.max() < classes:
        raise DataError(f"dataset 'holdout/y' has labels outside 0…{classes - 1}")
    if not np.isin(heldout.split, (1, 2)).all():
        raise DataError("dataset 'holdout/split' has parts other than 1 and 2")


__getattr__ = former_class_getattr(
    __name__, Running="RunningTotals", Holdout="HeldoutScores", Race="RaceResults"
)  # names in pickles of version 0.1
