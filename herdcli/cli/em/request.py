"""The options of `herd em`."""

from __future__ import annotations

import re
from dataclasses import replace

from herdcli.cli.frame.history.request import (
    field_recorded_as,
    field_recorded_if_changed,
    field_recorded_if_given,
    input_file_field,
    unrecorded_field,
)
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    Condition,
    Excludes,
    OneOf,
    When,
    choice_kind,
    custom_syntax_kind,
    flag,
    integer_kind,
    number_kind,
    option,
    text_kind,
)
from herdcli.em.model_table import TABLE, models_with_value
from herdcli.records import dataclass

SIZES = (1, 10)  # default range of component counts;
WORSE = 2  # the search stops after this number of consecutive counts that are worse than the best
STRUCTURES = ("full", "left-to-right", "banded")  # names of transition structures; any other value names a file
METHODS = ("random", "kmeans++", "pca", "newton")


def _parse_range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise ValueError("is neither a number from 1 nor a range such as 1-10")
    return first, last


def _format_range(sizes: tuple[int, int]) -> str:
    first, last = sizes
    return f"{first}" if first == last else f"{first}-{last}"


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError("is not a list of distinct columns such as a,b")
    return names


RANGE = custom_syntax_kind("n|n-m", _parse_range, _format_range)
NAMES = custom_syntax_kind("columns", _parse_names, ",".join)
KMEANS, HMM, LDS = OneOf("model", "kmeans"), OneOf("model", "hmm"), OneOf("model", "lds")
FACTORS = OneOf("model", *models_with_value("kind", "factors"))
SEQUENCES = OneOf("model", *models_with_value("sequences", True))
WITH_DENSITY = OneOf("model", *models_with_value("density", True))
BAYES = Condition("bayes", why="without --bayes")
CLUSTERS = Condition("has_cluster_count", refusal="--model kmeans needs a number of clusters", hint="use --components 8")
FULL = OneOf("covariance", "full", refusal="--bayes uses full covariances, not {covariance}", hint="leave out --covariance")
BY_BOUND = OneOf(
    "criterion",
    *("bic", "valid"),
    refusal="--bayes chooses a model by its bound or by --criterion valid, not by {criterion}",
    hint="leave out --criterion",
)
MAXIMUM = Excludes("bayes", refusal="--bayes has its own prior, so it does not work with --shrinkage", hint="leave out --shrinkage")
LABELLED = OneOf("model", "gmm", "hmm", refusal="--per-class is for mixtures and hidden Markov models", hint="use --model gmm or hmm")
STATE_PER_CLASS = Excludes("components", refusal="--per-class makes one state for each class", hint="leave out --components")
ROWS = OneOf(
    "model", *models_with_value("sequences", False), refusal="--on-disk works with rows, not with sequences", hint="leave out --on-disk"
)
UNLABELLED = Excludes("per_class", refusal="--on-disk ignores labels, which --per-class needs", hint="leave out --on-disk")
METHOD = Condition("supports_init_method", refusal="--init {init} cannot start --model {model}", hint="use --init random")
ONE_SIZE = Condition(
    "fits_initial_size",
    refusal="--init FILE decides the number of components",
    hint="leave out the range of --components",
)
RANDOM_DIRECTIONS = Condition(
    "starts_from_axes",
    refusal="--solver randomised starts from random directions, not from --init",
    hint="leave out one of them",
)
ONE_START = OneOf("restarts", 1, refusal="--minibatch makes a single run, so it does not work with --starts", hint="leave out one of them")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd em`; names and meanings are those of its --help."""

    source: str = input_file_field()
    input_format: str | None = shared_options.input_format_option()
    model: str = option(
        choice_kind(*TABLE),
        default="gmm",
        only=When(KMEANS, CLUSTERS),
        help="Gaussian mixture, k-means, factor analysis, principal components with noise (ppca) or without (pca), hidden Markov "
        "model, or linear dynamical system.",
    )
    components: tuple[int, int] | None = option(
        RANGE,
        metavar="N|N-M",
        help="Number of components, clusters, factors or states; from a range, --criterion chooses.  "
        "[default: all for pca; required for kmeans; else 1-10, stopping after two worse numbers in a row]",
    )
    criterion: str = option(
        choice_kind("bic", "aic", "icl", "valid"),
        default="bic",
        only=(WITH_DENSITY, When(BAYES, BY_BOUND)),
        help="Criterion that chooses the number of components from a range; valid: the likelihood of the validation rows.",
    )
    covariance: str = option(
        choice_kind("full", "tied", "diagonal", "spherical"),
        default="full",
        only=(OneOf("model", "gmm", "hmm"), When(HMM, OneOf("emission", "gaussian", "gmm")), When(BAYES, FULL)),
        help="With gmm and hmm: form of the covariance matrices; tied: one full matrix for all components.",
    )
    emission: str = option(
        choice_kind("gaussian", "categorical", "poisson", "bernoulli", "gmm"),
        default="gaussian",
        record=field_recorded_if_changed("gaussian"),
        only=HMM,
        help="With hmm: distribution of a row given its state; gmm: a mixture of --mixtures Gaussians.",
    )
    mixtures: int = option(
        integer_kind(1),
        default=2,
        record=field_recorded_if_changed(2),
        only=(HMM, OneOf("emission", "gmm")),
        help="With --emission gmm: number of Gaussians per state.",
    )
    transitions: str = option(
        text_kind(),
        metavar="NAME|FILE",
        default="full",
        record=field_recorded_if_changed("full", lambda value: value if value.partition(":")[0] in STRUCTURES else "file"),
        only=HMM,
        help="With hmm: allowed transitions.  full, left-to-right, left-to-right:W (at most W states ahead), banded:W (at most W in "
        "either direction), or a file with a matrix, in which 0 forbids a transition.",
    )
    sequence: str | None = option(
        text_kind(),
        metavar="COLUMN",
        record=field_recorded_if_given(),
        only=SEQUENCES,
        help="With hmm and lds: column that identifies the sequence of each row.  [default: sequence]",
    )
    controls: tuple[str, ...] | None = option(
        NAMES, metavar="A,B", record=field_recorded_if_given(), only=LDS, help="With lds: input columns that drive the states."
    )
    diagonal: bool = flag(record=field_recorded_if_changed(False), only=LDS, help="With lds: independent observation noise in each column.")
    accelerate: bool | None = flag(
        default=None,
        negative="--no-accelerate",
        record=field_recorded_if_changed(False),
        only=LDS,
        help="With lds: add quasi-Newton steps between EM steps for faster convergence; the likelihood never falls.  [default: yes]",
    )
    bayes: bool = flag(
        record=field_recorded_if_changed(False),
        only=OneOf("model", "gmm"),
        help="With gmm: variational Bayes, in which components that are not needed become empty.  Its bound chooses from a range.",
    )
    concentration: float | None = option(
        number_kind(0, open_low=True),
        record=field_recorded_if_given(),
        only=BAYES,
        help="With --bayes: concentration of the Dirichlet prior on the component weights; smaller values keep fewer components.  "
        "[default: 1 / --components]",
    )
    iterations: int = option(integer_kind(0), default=500, group=LEARNING, help="Maximum number of iterations (M steps) per start.")
    restarts: int = option(integer_kind(1), "--starts", default=1, group=LEARNING, help="Number of starts; the best fit is kept.")
    patience: int = option(
        integer_kind(1), default=3, group=LEARNING, help="Stop after this many iterations in a row that gain less than --tolerance."
    )
    tolerance: float = option(
        number_kind(0), default=1e-6, group=LEARNING, help="Smallest gain per iteration that counts as progress, in nats per row."
    )
    init: str | None = option(
        text_kind(),
        metavar="FILE|METHOD",
        group=LEARNING,
        record=field_recorded_as(lambda value: value if value in (None, *METHODS) else "file"),
        only=(METHOD, ONE_SIZE),
        help="Starting values: random, kmeans++ (centres), pca (principal axes), newton (Newton's method, for fa), or a FILE with a "
        "model to continue from or rows as centres.  [default: newton for fa; pca for pca, ppca and lds; else kmeans++]",
    )
    floor: float | None = option(
        number_kind(0),
        group=LEARNING,
        only=WITH_DENSITY,
        help="Smallest variance that a component may have in any direction (hmm of counts or symbols: smallest rate or probability).  "
        "[default: 1e-6 of the columns' mean variance, but 1e-6 to 1e-2 of the column's own]",
    )
    shrinkage: float | None = option(
        number_kind(0),
        metavar="ROWS",
        group=LEARNING,
        record=field_recorded_if_given(),
        only=(OneOf("model", "gmm"), OneOf("covariance", "full"), MAXIMUM),
        help="With gmm and full covariances: pull each towards their common one, which counts for this many rows; 0: not at all.  "
        "[default: 0, but more below 5 rows per column and component]",
    )
    per_class: bool = flag(
        only=(LABELLED, When(HMM, STATE_PER_CLASS)),
        help="Classify: fit a component (hmm: a state) for each class, or with gmm --components N per class.  Rows without a label "
        "(empty or −1) are assigned by posterior probability.",
    )
    weights: str | None = option(
        text_kind(), metavar="COLUMN", group=INPUT, help="Column with the row weights.  [default: weight, if present]"
    )
    rotation: str = option(
        choice_kind("none", "varimax", "promax"),
        default="none",
        only=FACTORS,
        help="With fa, ppca and pca: rotate the factor loadings, which makes them easier to interpret.",
    )
    solver: str = option(
        choice_kind("auto", "lapack", "randomised"),
        default="auto",
        record=field_recorded_if_changed("auto"),
        only=(OneOf("model", "pca"), When(OneOf("solver", "randomised"), RANDOM_DIRECTIONS)),
        help="With pca: lapack (exact decomposition) or randomised (subspace iteration, faster for few axes of many columns); "
        "auto chooses by size.",
    )
    minibatch: int | None = option(
        integer_kind(1),
        metavar="N",
        group=LEARNING,
        only=(KMEANS, When(KMEANS, ONE_START)),
        help="With kmeans: fit N random batches of 2,048 rows instead of all rows, which is faster for many rows.",
    )
    on_disk: bool = flag(
        group=INPUT,
        record=unrecorded_field(),
        only=(ROWS, UNLABELLED),
        help="Keep the rows of a Parquet or HDF5 file in $TMPDIR instead of memory.  Without a split, all rows are training rows.",
    )
    split: str | None = shared_options.split_option()
    label: str | None = shared_options.label_option()
    seed: int = shared_options.seed_option()

    def resolve_options(self, typed_options: frozenset[str]) -> Request:
        """Enable quasi-Newton steps by default for models that support them; records from before the option existed have none."""
        able = self.model == "lds"
        return replace(self, accelerate=able if self.accelerate is None else self.accelerate and able)

    @property
    def roles_recognised_by_name(self) -> frozenset[str]:
        """The column roles that are recognised by their usual names."""
        from herdcli.artifacts.tables.column_roles import ROLES

        return ROLES if self.per_class else frozenset({"weight"} if self.weights == "weight" else ())

    @property
    def uses_validation_rows(self) -> bool:
        """Whether validation rows have a part in the fit: they choose the number of components."""
        return self.criterion == "valid"

    @property
    def levels_are_states(self) -> bool:
        """Whether a text column is one variable whose states are its levels, rather than one-hot columns."""
        return self.model == "hmm" and self.emission in ("categorical", "bernoulli")

    @property
    def uses_levels_of_all_rows(self) -> bool:
        """Whether the levels of a text column are those of all rows, as for symbols that are whole numbers."""
        return self.levels_are_states

    @property
    def initial_file(self) -> str | None:
        """The initial file, if --init names one."""
        return None if self.init in (None, *METHODS) else self.init

    @property
    def init_method(self) -> str | None:
        """The method that chooses the starting values, if --init names one."""
        return self.init if self.init in METHODS else None

    @property
    def has_cluster_count(self) -> bool:
        """Whether the number of clusters is given, by --components or by the file of --init."""
        return bool(self.components or self.initial_file)

    @property
    def supports_init_method(self) -> bool:
        """Whether the model supports the method of --init."""
        return self.init_method is None or self.init_method in TABLE[self.model].starts

    @property
    def fits_initial_size(self) -> bool:
        """Whether --components is compatible with the size of the model in the file of --init."""
        return not (self.initial_file and self.components) or self.components[0] == self.components[1]

    @property
    def starts_from_axes(self) -> bool:
        """Whether principal components start from their default, the principal axes."""
        return self.init in (None, "pca")
