"""The `classifier` artifact: a Gaussian over linear classifiers, or over functions of a kernel, and how it was learned."""

from __future__ import annotations

from dataclasses import dataclass, field

from herdcli.schema import Array, array

SCALINGS = ("none", "online")

ALGORITHMS = ("nherd", "arow", "cw", "scw1", "scw2", "pa", "pa1", "pa2", "perceptron", "sop")
FORMS = ("exact", "project", "drop")
LOSSES = ("squared-hinge", "log", "squared")
FIRST_ORDER = frozenset({"pa", "pa1", "pa2", "perceptron"})
BY_CONFIDENCE = frozenset({"cw", "scw1", "scw2"})
WITH_LOSS = frozenset({"nherd", "arow"})


@dataclass(frozen=True)
class Settings1:
    """How a classifier is learned, as version 1 of the artifact has it.

    C             weight of the loss of an example; 0 stands for ¼ over the running mean of |x|².
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
class Settings(Settings1):
    """How a classifier is learned: what `Settings1` says, and

    scaling       online: each feature is divided by the mean size |x_i| of its values ≠ 0 seen so far.
    """

    scaling: str = "none"


@dataclass(frozen=True)
class Progress:
    """Progressive validation of the first pass: every example is judged before it is learned, figures at powers of two."""

    examples: Array = array("T", "examples seen", kind="i")
    error: Array = array("T", "share of them classified wrongly", kind="f")
    loss: Array = array("T", "mean of ½ max(0, 1 − margin)²", kind="f")


@dataclass(frozen=True)
class Holdout:
    """Scores of examples before (or without) being learned, which calibrate the confidence and serve `eval`."""

    score: Array = array("n C", "μ·x of each class", kind="f")
    variance: Array = array("n C", "x'Σx of each class", kind="f")
    y: Array = array("n", "class of each example, as an index", kind="i")
    split: Array = array("n", "1 calibration, 2 test", kind="u")


@dataclass(frozen=True)
class Machine:
    """One two-class machine in the span of its support vectors: f(x) = Σ α k(x_i, x), variance k(x,x) − k'Bk."""

    alpha: Array = array("m", "coefficients", kind="f")
    B: Array = array("m m", "(diag(1/γ) + K)⁻¹", kind="f")
    support: Array = array("m d", "support vectors", kind="f")


@dataclass(frozen=True)
class Running:
    """What learning goes on from besides the weights, and what the running figures are made of."""

    examples: int = 0  # of all passes
    squares: float = 0.0  # sum of |x|²
    seen: int = 0  # judged progressively
    wrong: int = 0
    loss: float = 0.0
    updates: int = 0
    refused: int = 0  # updates beyond the budget
    skipped: int = 0  # lines of text that were no examples


@dataclass(frozen=True)
class Race:
    """Learners that went side by side over the first examples; the one of the lowest progressive loss was chosen."""

    algorithm: list[str]
    C: Array = array("K", "weight of an example", kind="f")
    examples: Array = array("K", "examples until the learner was dropped, or the race was over", kind="i")
    error: Array = array("K", "share of them classified wrongly before they were learned", kind="f")
    loss: Array = array("K", "mean of ½ max(0, 1 − margin)² before they were learned", kind="f")


@dataclass(frozen=True)
class Classifier1:
    """The `classifier` artifact as version 1 wrote it: features as they are."""

    classes: list[str]
    settings: Settings1
    running: Running
    progress: Progress
    mean: Array | None = array("C d", "means of the weights", kind="f", optional=True)
    variance: Array | None = array("C d", "variances, diagonal covariance", kind="f", optional=True)
    covariance: Array | None = array("M D D", "full covariance: of each class, or of all weights together (top-1)", kind="f", optional=True)
    machines: list[Machine] = field(default_factory=list)
    holdout: Holdout | None = None
    scale: float = 1.0  # g of the confidence Φ(g m / √(1 + v))
    bits: int = 0  # features are hashed into 2^bits columns
    text: str = ""  # svmlight or vw, where it was learned from text
    zero_based: bool = False  # indices of the text begin at 0
    hash_index: Array | None = array("h", "columns whose feature names are known", kind="i", optional=True)
    hash_names: list[str] | None = None
    feature_names: list[str] | None = None

    @property
    def count(self) -> int:
        """Rows of scores: 1 for two classes, else their number."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    @property
    def columns(self) -> int:
        """Features, the bias included."""
        if self.mean is not None:
            return int(self.mean.shape[1])
        return max((int(machine.support.shape[1]) for machine in self.machines), default=0)

    @property
    def features(self) -> int:
        """Numbers in a row of data: a kernel's support vectors always keep a column for the bias."""
        return self.columns - (1 if self.machines else int(self.settings.bias))

    def upgrade(self) -> Classifier:
        """The same model as the present version has it."""
        return Classifier(**{**vars(self), "settings": Settings(**vars(self.settings))})

    def validate(self) -> None:
        """Raise DataError as the present version does."""
        self.upgrade().validate()


@dataclass(frozen=True)
class Classifier(Classifier1):
    """A classifier over d features (d + 1 with a bias, which is then column 0).

    Two classes have one row (C = 1), positive for classes[1].  Of the three variances one is present.  With
    --scale online weights are of x_i · seen_i / size_i.
    """

    settings: Settings
    seen: Array | None = array("d", "values ≠ 0 that each feature had", kind="f", optional=True)
    size: Array | None = array("d", "sum of their sizes |x_i|", kind="f", optional=True)
    race: Race | None = None

    def validate(self) -> None:
        """Raise DataError unless the arrays fit the classes and each other, and all numbers are possible."""
        from herdcli.online.validate import validate

        validate(self)
