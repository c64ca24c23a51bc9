"""The options of `herd nherd-train`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from herdcli.cli.frame.history.request import (
    field_recorded_as_file,
    field_recorded_if_changed,
    field_recorded_if_given,
    input_file_field,
    output_file_field,
    settings_from_request,
    unrecorded_field,
)
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    Condition,
    Excludes,
    OneOf,
    choice_kind,
    flag,
    integer_kind,
    number_kind,
    option,
    repeated_option,
    text_kind,
)
from herdcli.cli.nherd_train.conditions import (
    CACHED,
    COVARIANCES,
    COVERAGES,
    EARLY_STOPS,
    FORMS,
    HALF_LIVES,
    IN_PARTS,
    KERNELS,
    LOSSES,
    MULTICLASS,
    NEW,
    OF_CLASSES,
    OF_ONE_CLASS,
    PARTS,
    SCALINGS,
    TASKS,
    learner_setting_condition,
)
from herdcli.cli.nherd_train.values import HALF_LIFE, PAIRS, SHARE, C
from herdcli.errors import DataError
from herdcli.online.learners.algorithm_table import TABLE, learners_using_setting
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.online.model import Classifier, Settings

TEXT = text_kind()
HELD, STOPS = 20, 10  # every N-th example is held out: HELD for several passes without validation rows, STOPS for --early-stop
FEW = 300  # maximum number of columns for which regression on a data set uses a full covariance
STANDARDIZED = "standardized"  # the defaults with which a record was made
VW_BITS = 18  # named features are hashed into 2^18 columns by default


def _is_namespace_pairs_text(value: object) -> bool:
    """Return whether a recorded value lists pairs of namespaces in the form in which this command writes them."""
    from herdcli.online.text.quadratic_features import parse_namespace_pairs

    try:
        return isinstance(value, str) and value == (",".join(parse_namespace_pairs(value)) if value else "")
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd nherd-train`; names and meanings are those of its --help."""

    source: str = input_file_field()
    algorithm: str = option(
        choice_kind("auto", *TABLE),
        default="auto",
        group=LEARNING,
        only=NEW,
        help="Learner.  auto: the one with the fewest mistakes on the first examples, usually nherd (Gaussian herding) or arow; others: "
        "cw, scw1, scw2 (confidence-weighted, soft I, II), pa, pa1, pa2 (passive-aggressive), perceptron, sop (second-order perceptron).",
    )
    task: str = option(
        choice_kind("classification", "regression", "multilabel"),
        default="classification",
        record=field_recorded_if_changed("classification"),
        only=(NEW, TASKS),
        help="What to predict: one class per row, a number (regression, by squared loss, with nherd or arow), or any number of labels per "
        "row (multilabel, such as 1,3,7 | a b).",
    )
    covariance: str = option(
        choice_kind("diagonal", "full"),
        default="diagonal",
        only=COVARIANCES,
        help="Covariance of the weights: a variance for each weight, or full, which suits few, correlated columns and stores d² numbers "
        "for d columns.  --task regression uses full for data sets with up to 300 columns.",
    )
    form: str = option(
        choice_kind("project", "exact", "drop"),
        default="project",
        only=FORMS,
        help="Update of a diagonal covariance: keep the diagonal of the full update's inverse covariance (project) or of its covariance "
        "(drop), or solve for the best diagonal (exact).  Change it only to compare with the paper.",
    )
    loss: str = option(
        choice_kind("squared-hinge", "log", "squared"),
        default="squared-hinge",
        only=LOSSES,
        help="Loss that nherd and arow minimise; squared-hinge is ½ max(0, 1 − m)², where m is the margin.",
    )
    C: float | Literal["auto", "running"] = option(
        C,
        "--C",
        default="auto",
        metavar="X|auto|running",
        only=(NEW, learner_setting_condition("C")),
        help="Weight of one example against all earlier ones; small values suit noisy labels.  auto: try eight values on the first 10 000 "
        "examples and keep the one with the fewest mistakes; running: ¼ divided by the running mean of |x|², without trials.",
    )
    half_life: float | Literal["auto"] = option(
        HALF_LIFE,
        default="auto",
        metavar="N|auto|none",
        record=field_recorded_if_changed("auto"),
        only=HALF_LIVES,
        help="For streams that drift: after N examples, an example counts half (nherd, arow).  auto: forget only if that makes fewer "
        "mistakes on the first 10 000 examples; none: never forget.",
    )
    confidence: float = option(
        number_kind(0.5, 1, open_low=True, open_high=True),
        default=0.9,
        only=(NEW, learner_setting_condition("confidence")),
        help="Probability with which an updated classifier must be right about the example (cw; a goal for scw1 and scw2).",
    )
    multiclass: str = option(
        choice_kind("auto", "top-1", "one-vs-rest"),
        default="auto",
        only=MULTICLASS,
        help="With more than two classes, update the true class against the strongest other (top-1), or each against the rest.  auto: the "
        "better of the two if --C auto compares learners, else top-1.",
    )
    passes: int | None = option(
        integer_kind(1),
        group=LEARNING,
        help="Number of passes over the examples.  [default: 1; for data sets that fit into memory, until the error on held-out rows stops "
        "falling]",
    )
    holdout: int | None = option(
        integer_kind(0),
        metavar="N",
        group=LEARNING,
        record=field_recorded_if_given(),
        only=Condition(
            "learns_examples", refusal="--holdout 1 leaves no example to learn", hint="--holdout 10 holds out every tenth example"
        ),
        help="Hold out every N-th example: predict it in each pass, but never learn it; 0: hold out none.  [default: 0; with several "
        "--passes and no validation rows, every 20th until the last pass]",
    )
    early_stop: int | None = option(
        integer_kind(1),
        metavar="K",
        group=LEARNING,
        record=field_recorded_if_given(),
        only=EARLY_STOPS,
        help="Stop after K passes without a lower error on the held-out examples, and keep the weights of the best pass.  Without "
        "--holdout, every 10th example is held out.",
    )
    coverage: float | None = option(
        SHARE,
        metavar="P",
        record=field_recorded_if_given(),
        only=COVERAGES,
        help="Prediction sets (for --task regression, intervals) that contain the truth for a share P of the examples in the long run, by "
        "adaptive conformal prediction; herd apply --want sets writes them for new rows.",
    )
    shuffle: bool = flag(
        group=LEARNING,
        only=Excludes("in_order", refusal="--shuffle and --in-order contradict each other", hint="leave one of them out"),
        help="Shuffle the examples before each pass; text is then kept in memory.  "
        "A data set sorted by class is always shuffled, except with --in-order.",
    )
    in_order: bool = flag(
        record=field_recorded_if_changed(False), help="Keep the order of a data set's rows, even if they are sorted by class."
    )
    parts: int = option(
        integer_kind(1, 1 << 20),
        default=1,
        metavar="P",
        record=field_recorded_if_changed(1),
        only=PARTS,
        help="Train on P parts of a data set independently and merge the classifiers, weighted by what each has learned; use it to "
        "distribute the training with --shard or --cluster.",
    )
    rounds: int = option(
        integer_kind(1),
        default=1,
        metavar="R",
        record=field_recorded_if_changed(1),
        only=IN_PARTS,
        help="Repeat the training of --parts R times, each time starting from the merged classifier.",
    )
    normalize: str | None = option(choice_kind("l2"), only=NEW, help="Scale each example to Euclidean length 1 (l2).")
    scaling: str | None = option(
        choice_kind("standard", "online", "none"),
        "--scale",
        only=SCALINGS,
        help="Scaling of features.  online: divide each by the mean size of its nonzero values so far; standard: also subtract the running "
        "mean of features that are nonzero in most examples.  [default: standard; --no-bias: online; --kernel: none]",
    )
    bias: bool | None = flag(
        default=None,
        negative="--no-bias",
        only=NEW,
        help="Add an intercept: a feature that is always 1.  [default: --bias; with --kernel: --no-bias]",
    )
    always_update: bool = flag(
        group=LEARNING,
        only=(NEW, learner_setting_condition("always_update")),
        help="Reduce the variances on every example, also on those that leave the weights unchanged (nherd, arow, sop).",
    )
    label_noise: float = option(
        number_kind(0, 1),
        default=0.0,
        only=OF_ONE_CLASS,
        help="Share of training labels to replace by random wrong ones, for experiments.",
    )
    kernel: str = option(
        choice_kind("none", "linear", "polynomial", "gaussian"),
        default="none",
        only=KERNELS,
        help="Kernel of a nonlinear classifier (full covariance only); none: a linear one.",
    )
    width: float = option(
        number_kind(0, open_low=True),
        default=1.0,
        only=(NEW, OneOf("kernel", "gaussian", why="without --kernel gaussian")),
        help="Width of --kernel gaussian, exp(−|x−z|²/2 width²).",
    )
    degree: int = option(
        integer_kind(1),
        default=2,
        only=(NEW, OneOf("kernel", "polynomial", why="without --kernel polynomial")),
        help="Degree of --kernel polynomial, (1 + x·z)^degree.",
    )
    budget: int | None = option(
        integer_kind(1),
        only=(NEW, OneOf("kernel", "linear", "polynomial", "gaussian", why="without --kernel")),
        help="Maximum number of support vectors of a --kernel; later updates are skipped and counted.",
    )
    bits: int | None = option(
        integer_kind(1, 30),
        help="Hash features into 2^N columns, for feature names or very many features.  [default: 18 for Vowpal Wabbit text and --text; "
        "otherwise no hashing]",
    )
    cache: str | None = option(
        TEXT,
        metavar="FILE",
        record=output_file_field(),
        only=CACHED,
        help="Store the parsed text in FILE, so that later passes and later runs on the same text skip the parsing.",
    )
    interactions: str | tuple[str, ...] = repeated_option(  # several texts as typed, a single one once resolved and recorded
        PAIRS,
        metavar="AB,…",
        record=field_recorded_if_changed("", allowed=_is_namespace_pairs_text),
        only=NEW,
        help="Add products of features of Vowpal Wabbit text: ab multiplies each feature of namespaces that begin with a by each of those "
        "that begin with b; :: stands for all pairs.",
    )
    text: str | None = option(
        TEXT,
        metavar="COLUMN",
        record=field_recorded_if_given(),
        help="Train on the documents in this column of a CSV, Parquet or JSON Lines file.  If INPUT is a folder with one folder of .txt "
        "files per class, --text is not needed.",
    )
    ngrams: int = option(
        integer_kind(1, 5),
        default=1,
        metavar="N",
        record=field_recorded_if_changed(1),
        help="Longest n-gram of words; 2 adds pairs of neighbours (--text).",
    )
    weighting: str = option(
        choice_kind("tf-idf", "counts"),
        default="tf-idf",
        record=field_recorded_if_changed("tf-idf"),
        help="Weights of words: tf-idf, where rare words count more, or plain counts (--text).",
    )
    keep_case: bool = flag(record=field_recorded_if_changed(False), help="Distinguish upper and lower case in words (--text).")
    inverse_map: bool = flag(help="Store a feature name for each hashed column, so that reports can show it (slower).")
    zero_based: bool = flag(group=INPUT, only=NEW, help="Read svmlight indices as starting at 0 instead of 1.")
    skip_bad: int = option(integer_kind(0), default=0, shown=False, metavar="N", group=INPUT, help="Skip up to N malformed lines of text.")
    classes: str | None = option(
        TEXT,
        metavar="A,B,…",
        group=INPUT,
        only=(NEW, OF_CLASSES),
        help="All labels that can occur; if there are two, the last is the positive class.",
    )
    max_classes: int = option(
        integer_kind(2),
        default=1000,
        metavar="N",
        group=INPUT,
        only=OF_CLASSES,
        help="Stop with an error if there are more than N different labels.",
    )
    only: str | None = option(
        TEXT,
        metavar="A,B,…",
        group=INPUT,
        only=OF_ONE_CLASS,
        help="Use only the rows of these classes (data sets; * and ? are wildcards).",
    )
    positive: str | None = option(
        TEXT,
        metavar="A,B,…",
        group=INPUT,
        only=OF_ONE_CLASS,
        help="Learn two classes: these against all others (data sets; * and ? are wildcards).",
    )
    split: str | None = option(
        TEXT,
        metavar="TRAIN,VALID,TEST",
        group=INPUT,
        help="Training, validation and test rows, as fractions or as counts per class.  [default: the data set's own split, else .6,.2,.2]",
    )
    label: str | None = option(
        TEXT,
        metavar="COLUMN",
        group=INPUT,
        help="Column with the labels.  --task multilabel: a column of lists such as 1,3,7, or columns of 0 and 1 such as a,b,c or topic_*."
        "  [default: y, label, class or target]",
    )
    input_format: str | None = option(
        choice_kind("hdf5", "parquet", "csv", "npz", "svmlight", "vw"),
        group=INPUT,
        record=unrecorded_field(),
        help="Read the input as this format.  [default: detected]",
    )
    model: str | None = option(
        TEXT,
        "--continue",
        metavar="MODEL",
        record=field_recorded_as_file(updated=True),
        help="Continue to train this classifier, with its settings.",
    )
    verify: bool = flag(
        help="Check the update formulas instead of training: compare them with a numerical minimiser on random examples, and stop."
    )
    seed: int = shared_options.seed_option()
    # None: a record from before features were standardized
    defaults: str | None = field_recorded_if_given(lambda value: value == STANDARDIZED)

    def resolve_options(self, typed_options: frozenset[str]) -> Request:
        """Return the request with today's defaults, which older records lack, and all pairs of namespaces joined in one text.

        Records from before features were standardised keep their own defaults.
        """
        pairs = PAIRS.parse(",".join(self.interactions)) if self.interactions else ""
        return replace(self, defaults=STANDARDIZED, interactions=pairs)

    @property
    def is_new(self) -> bool:
        """Whether no model is continued."""
        return self.model is None

    @property
    def is_diagonal(self) -> bool:
        """Whether the covariance is diagonal."""
        return self.covariance == "diagonal" and self.is_linear

    @property
    def has_half_life(self) -> bool:
        """Whether a half-life for the evidence is set."""
        return self.half_life not in ("auto", 0.0)

    @property
    def can_center(self) -> bool:
        """Whether there is a bias, without which features cannot be centred."""
        return self.is_linear and self.has_bias

    @property
    def learns_examples(self) -> bool:
        """Whether some examples are learned, not all held out."""
        return self.holdout != 1

    @property
    def can_hold_out(self) -> bool:
        """Whether --holdout 0 has not switched off held-out examples."""
        return self.holdout != 0

    @property
    def has_parts(self) -> bool:
        """Whether the rows are learned in several parts."""
        return self.parts > 1

    @property
    def has_cache_file(self) -> bool:
        """Whether parsed text is stored in a file that can be read again."""
        return self.cache != "-"

    @property
    def first_algorithm(self) -> str:
        """The algorithm at the start, before a race may choose another."""
        return "nherd" if self.algorithm == "auto" else self.algorithm

    @property
    def has_bias(self) -> bool:
        """Whether a constant feature 1 is added."""
        return self.is_linear if self.bias is None else self.bias

    @property
    def _default_scaling(self) -> str:
        if self.defaults and self.has_bias:
            return "standard"
        return "online" if self.is_linear else "none"

    @property
    def chooses_passes_in_memory(self) -> bool:
        """Whether passes over rows in memory continue until held-out error stops falling: true if no option asks for something else."""
        free = (
            self.passes is None
            and self.has_bias
            and self.C == "auto"
            and self.algorithm == "auto"
            and self.multiclass == "auto"
            and self.is_linear
        )
        plain = self.covariance == "diagonal" and self.form == "project" and self.loss == "squared-hinge" and not self.always_update
        stream = (
            self.model
            or self.half_life != "auto"
            or self.parts > 1
            or self.in_order
            or self.coverage is not None
            or self.holdout
            or self.early_stop
        )
        return (
            free and plain and not stream and self.task == "classification" and not self.label_noise and self.scaling in (None, "standard")
        )

    def races_full_covariance(self, typed_options: frozenset[str]) -> bool:
        """Return whether a full covariance competes with the winner: for classes in one stream, unless an option asks for another form."""
        free = "covariance" not in typed_options and self.algorithm == "auto" and self.multiclass == "auto" and self.form == "project"
        plain = self.loss == "squared-hinge" and not self.always_update and self.half_life in ("auto", 0.0) and self.parts == 1
        return bool(free and plain and self.racing_algorithms and self.task == "classification" and self.defaults)

    @property
    def compares_half_lives(self) -> bool:
        """Whether learners that forget are compared with the winner of the race."""
        return bool(
            self.half_life == "auto"
            and self.racing_algorithms
            and self.task != "multilabel"
            and self.parts == 1
            and not self.shuffle
            and self.defaults
        )

    @property
    def namespace_pairs(self) -> list[str] | None:
        """The pairs of namespaces whose features are multiplied, as a model stores them."""
        texts = (self.interactions,) if isinstance(self.interactions, str) else self.interactions
        return ",".join(texts).split(",") if any(texts) else None

    @property
    def is_linear(self) -> bool:
        """Whether weights of features are learned, not a kernel function."""
        return self.kernel == "none"

    @property
    def racing_algorithms(self) -> tuple[str, ...]:
        """The algorithms that compete for the best C; none if C is given, has no effect, or the model decides."""
        if self.model or self.C != "auto" or not self.is_linear or self.first_algorithm not in learners_using_setting("C"):
            return ()
        return ("nherd", "arow") if self.algorithm == "auto" else (self.algorithm,)

    @property
    def racing_multiclass_forms(self) -> tuple[str, ...]:
        """The multiclass forms that compete too; () if one is given or the covariance or task decides."""
        return (
            ("top-1", "one-vs-rest")
            if self.multiclass == "auto" and self.covariance == "diagonal" and self.task == "classification"
            else ()
        )

    def settings_with_heldout_rule(self, settings: Settings, *, validated: bool) -> Settings:
        """Return the settings with a rule for held-out examples: as given, else for several passes without validation rows."""
        if self.holdout is not None or self.early_stop:
            every = STOPS if self.holdout is None else self.holdout
            return replace(settings, holdout=every, until_last=False, early_stop=self.early_stop or 0)
        several = settings.passes > 1 and not validated and self.parts == 1
        return replace(settings, holdout=HELD if several else 0, until_last=several, early_stop=0)

    def settings_for_columns(self, settings: Settings, columns: int, session: Session) -> Settings:
        """Return the settings for rows with this number of columns.

        Regression on few columns uses a full covariance, which is recursive least squares.
        """
        if settings.task != "regression" or columns > FEW or "covariance" in session.given:
            return settings
        session.console.detail(f"{columns} columns: with a full covariance")
        return replace(settings, covariance="full", algorithm="arow" if self.algorithm == "auto" else settings.algorithm)

    def target_coverage(self, model: Classifier | None) -> float:
        """Return the coverage of prediction sets: that of the continued model or of --coverage; 0 without prediction sets."""
        if model is not None:
            return 0.0 if model.coverage is None else model.coverage.level
        return self.coverage or 0.0

    def declared_class_names(self, model: Classifier | None) -> list[str] | None:
        """Return the names of all possible classes if they are known in advance, else None."""
        if model is not None:
            return model.classes
        return self.classes.split(",") if self.classes else None

    def hash_bits(self, text: str, model: Classifier | None) -> int:
        """Return the number of bits such that text features are hashed into 2^bits columns; 0 without hashing."""
        return model.bits if model is not None else self.bits or (VW_BITS if text == "vw" else 0)

    def settings(self) -> Settings:
        """Return the settings of a new classifier."""
        from herdcli.online.model import Settings

        in_kernel = {} if self.is_linear else {"covariance": "full"}
        return settings_from_request(
            Settings,
            self,
            **in_kernel,
            algorithm=self.first_algorithm,
            multiclass="one-vs-rest" if not self.is_linear else "top-1" if self.multiclass == "auto" else self.multiclass,
            holdout=0,
            early_stop=0,
            loss="squared" if self.task == "regression" else self.loss,
            normalize=self.normalize == "l2",
            C=0.0 if isinstance(self.C, str) else self.C,
            passes=self.passes or 1,
            half_life=0.0 if self.half_life == "auto" else self.half_life,
            bias=self.has_bias,
            scaling=self.scaling or self._default_scaling,
        )

    def settings_to_continue(self, model: Classifier) -> Settings:
        """Return the settings of the continued model, with those of this run for passes, order, noise and seed.

        Raises DataError for other --bits.
        """
        if self.bits not in (None, model.bits):
            raise DataError(f"hashes into 2^{model.bits} columns, but --bits asks for 2^{self.bits}", where=self.model)
        return replace(
            model.settings, dual=False, passes=self.passes or 1, shuffle=self.shuffle, label_noise=self.label_noise, seed=self.seed
        )
