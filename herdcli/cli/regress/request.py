"""The options of `herd regress`."""

from __future__ import annotations

from dataclasses import replace

from herdcli.cli.frame.history.request import field_recorded_if_changed, field_recorded_if_given, input_file_field
from herdcli.cli.frame.options import common_options, shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    Condition,
    Excludes,
    OneOf,
    When,
    choice_kind,
    flag,
    integer_kind,
    number_kind,
    option,
    text_kind,
)
from herdcli.records import dataclass
from herdcli.regression.family_table import TABLE
from herdcli.regression.perceptron.choices import ACTIVATIONS, OPTIMIZERS

FORMS = ("ar1", "variance")  # forms of the errors' covariance; any other value names a file


def _family_condition(needed: str, option: str = "{option}") -> OneOf:
    """Return the condition for options that need one family."""
    refusal = f"{option} works only with --family {needed}, not {{family}}"
    return OneOf("family", None, needed, refusal=refusal, hint=f"use --family {needed}, or leave it out")


def _weight_kind_condition(kind: str) -> OneOf:
    """Return the condition for options that already define the meaning of the weights."""
    refusal = "--weight-kind {weight_kind} does not work with {option}"
    return OneOf("weight_kind", None, kind, refusal=refusal, hint="leave out --weight-kind")


UNWEIGHTED = Excludes(
    "weights", refusal="{option} sets the weights of the rows, so --weights is not possible", hint="leave one of them out"
)
TOGETHER = "{option} and {other} exclude each other"
OF_TRIALS, OF_EXPOSURE = (
    (UNWEIGHTED, _weight_kind_condition("trials"), _family_condition("bernoulli")),
    (_weight_kind_condition("exposure"), _family_condition("poisson")),
)
KINDS = (
    When(OneOf("weight_kind", "trials"), _family_condition("bernoulli", "--weight-kind {weight_kind}")),
    When(OneOf("weight_kind", "exposure"), _family_condition("poisson", "--weight-kind {weight_kind}")),
)
IN_BLOCKS = Condition(
    "one_pass",
    refusal=f"{{option}}: {common_options.ITERATED}",
    hint=f"{common_options.WORKERS}; --shard works with --family gaussian --one-pass",
)
ONE_PENALTY = Excludes(
    "l1", "l2", refusal="--penalty firth does not work with another penalty", hint="leave out --l1 and --l2, or --penalty"
)
OF_GLS = (
    OneOf("family", None, "gaussian", refusal="--gls works only with --family gaussian, not {family}"),
    Excludes("l1", "l2", refusal="--gls does not work with a penalty", hint="leave out --l1 and --l2, or --gls"),
    Excludes(
        *("weight_kind", "trials", "failures", "exposure"),
        refusal="--gls reads weights as precisions, so it does not work with {other}",
        hint="leave out --gls, or --weight-kind, --trials, --failures and --exposure",
    ),
)
SQUARES, OTHER_LOSSES = "--one-pass works only for least squares", "leave out --trials, --failures, --exposure, --weight-kind and --penalty"
OF_ONE_PASS = (
    OneOf(
        "family",
        *(None, "gaussian"),
        refusal="--one-pass works only with --family gaussian, not {family}",
        hint="use --cluster WHERE, which distributes the rows over workers",
    ),
    Excludes("trials", "failures", "exposure", "penalty", refusal=SQUARES, hint=OTHER_LOSSES),
    OneOf("weight_kind", None, "precision", "frequency", refusal=SQUARES, hint=OTHER_LOSSES),
    Excludes("gls", refusal="--one-pass keeps only sums, but --gls needs the rows", hint="leave one of them out"),
)
OF_HIDDEN = (
    Excludes("gls", "one_pass", refusal="--hidden and {other} exclude each other", hint="leave out one of them"),
    Excludes("l1", "penalty", refusal="--hidden does not work with {other}", hint="use --l2 0.001"),
    Excludes("dispersion", refusal="{other} concerns standard errors, which --hidden does not compute", hint="leave out {other}"),
)
LAYERED = Condition("has_hidden_layers", why="without --hidden")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd regress`; names and meanings are those of its --help."""

    source: str = input_file_field()
    input_format: str | None = shared_options.input_format_option()
    target: str | None = option(text_kind(), metavar="COLUMN", group=INPUT, help="Column to predict.  [default: y, label, class or target]")
    family: str | None = option(
        choice_kind(*TABLE),
        help="Distribution of the target.  gamma models its mean; gamma-shape models its shape, with the scale given by --gamma-scale.  "
        "[default: bernoulli for two classes or 0 and 1, softmax for more classes, else gaussian]",
    )
    offset: str | None = option(
        text_kind(),
        metavar="COLUMN",
        group=INPUT,
        help="Column that is added to the linear predictor with coefficient 1, such as the log of an exposure.",
    )
    weights: str | None = option(
        text_kind(), metavar="COLUMN", group=INPUT, help="Column with the row weights; 0 leaves the row out.  [default: weight, if present]"
    )
    weight_kind: str | None = option(
        choice_kind("precision", "frequency", "trials", "exposure"),
        group=INPUT,
        record=field_recorded_if_given(),
        only=KINDS,
        help="Meaning of --weights: the row's precision (1 / relative variance), the number of equal rows, the number of trials (target: "
        "share of successes), or the exposure (target: events per exposure).  [default: precision]",
    )
    trials: str | None = option(
        text_kind(),
        metavar="COLUMN",
        group=INPUT,
        record=field_recorded_if_given(),
        only=(Excludes("failures", "exposure", refusal=TOGETHER, hint="leave out {other}"), *OF_TRIALS),
        help="bernoulli: column with the number of trials; the target is the number or the share of successes.",
    )
    failures: str | None = option(
        text_kind(),
        metavar="COLUMN",
        group=INPUT,
        record=field_recorded_if_given(),
        only=(Excludes("exposure", refusal=TOGETHER, hint="leave out {other}"), *OF_TRIALS),
        help="bernoulli: column with the number of failures; the target is the number of successes.",
    )
    exposure: str | None = option(
        text_kind(),
        metavar="COLUMN",
        group=INPUT,
        record=field_recorded_if_given(),
        only=(UNWEIGHTED, *OF_EXPOSURE),
        help="poisson: column with the exposure, such as years; the target is the number of events, or their rate.",
    )
    l2: float | None = option(
        number_kind(0),
        group=LEARNING,
        record=field_recorded_if_given(),
        help="Ridge penalty: adds ½ l2 ‖β‖² to the mean loss; intercepts are not penalised.  "
        "[default: 0; with --hidden: 1 / number of training rows]",
    )
    penalty: str | None = option(
        choice_kind("firth"),
        group=LEARNING,
        record=field_recorded_if_given(),
        only=ONE_PENALTY,
        help="firth: Firth's bias-reducing penalty (bernoulli, poisson), which keeps estimates finite for separable classes.  "
        "[default: none]",
    )
    l1: float = option(number_kind(0), default=0.0, group=LEARNING, help="Lasso penalty: adds l1 ‖β‖₁ to the mean loss.")
    gamma_scale: float = option(
        number_kind(0, open_low=True), default=1.0, help="With --family gamma-shape: the known scale of the gamma distribution."
    )
    dispersion: str | None = option(
        choice_kind("one", "pearson"),
        record=field_recorded_if_given(),
        help="pearson: for overdispersed data, scale the standard errors of bernoulli, poisson and gamma-shape by √(X²/(n − p)), X² being "
        "Pearson's statistic (quasi-Poisson).  [default: one]",
    )
    gls: str | None = option(
        text_kind(),
        metavar="ar1|ar1:R|variance|variance:A,B|FILE",
        record=field_recorded_if_changed(None, lambda value: value if str(value).partition(":")[0] in FORMS else "file"),
        only=OF_GLS,
        help="Generalised least squares, for gaussian errors with correlation or unequal variance.  ar1: correlation R^|s − t| between "
        "times s and t, R fitted or given; variance: log variance linear in all columns, or in A and B; FILE: covariance of all rows.",
    )
    sequence: str | None = option(
        text_kind(),
        metavar="COLUMN",
        record=field_recorded_if_given(),
        only=Condition("has_time_steps", why="without --gls ar1"),
        help="With --gls ar1: column that identifies the sequence of each row.  [default: sequence]",
    )
    one_pass: bool = flag(
        record=field_recorded_if_changed(False),
        only=OF_ONE_PASS,
        help="gaussian: read the rows only once and keep sums of products in memory, not rows; for large files, and with --shard.",
    )
    hidden: tuple[int, ...] | None = option(
        shared_options.SIZES,
        metavar="N,N,…",
        record=field_recorded_if_given(),
        only=OF_HIDDEN,
        help="Fit a multilayer perceptron with these numbers of hidden units, from the lowest layer up.",
    )
    activation: str = option(
        choice_kind(*ACTIVATIONS),
        default="tanh",
        record=field_recorded_if_changed("tanh"),
        only=LAYERED,
        help="Nonlinearity of hidden units.",
    )
    optimizer: str | None = option(
        choice_kind(*OPTIMIZERS),
        group=LEARNING,
        record=field_recorded_if_given(),
        only=LAYERED,
        help="With --hidden: all rows in every step, or minibatches by Adam or by gradient descent with momentum.  [default: trust-region "
        "up to 10 million rows × parameters, else adam]",
    )
    iterations: int = option(
        integer_kind(1), default=100, shown=False, group=LEARNING, help="Maximum number of iterations.  [default: 100; with --hidden: 500]"
    )
    epochs: int = option(
        integer_kind(1),
        default=200,
        group=LEARNING,
        record=field_recorded_if_changed(200),
        only=LAYERED,
        help="Passes of minibatches over the training rows.",
    )
    batch_size: int | None = option(
        integer_kind(1),
        group=LEARNING,
        record=field_recorded_if_given(),
        only=LAYERED,
        help="Rows of a minibatch.  [default: a fiftieth of the rows, from 16 to 200]",
    )
    learning_rate: float | None = option(
        number_kind(0, open_low=True),
        group=LEARNING,
        record=field_recorded_if_given(),
        only=LAYERED,
        help="Rate of minibatches.  [default: adam .001, sgd .01]",
    )
    momentum: float = option(
        number_kind(0, 1, open_high=True),
        default=0.9,
        group=LEARNING,
        record=field_recorded_if_changed(0.9),
        only=LAYERED,
        help="Share of the last update that --optimizer sgd keeps.",
    )
    patience: int = option(
        integer_kind(0),
        default=10,
        group=LEARNING,
        record=field_recorded_if_changed(10),
        only=LAYERED,
        help="Stop after N steps or epochs without a lower loss on the validation rows, and keep the best; 0: never.",
    )
    restarts: int = option(
        integer_kind(1),
        "--starts",
        default=1,
        group=LEARNING,
        record=field_recorded_if_changed(1),
        only=LAYERED,
        help="Starts of --hidden, of which the best is kept.",
    )
    dtype: str | None = option(
        choice_kind("float64", "float32"),
        group=LEARNING,
        record=field_recorded_if_given(),
        only=LAYERED,
        help="Precision of minibatches.  [default: float32]",
    )
    split: str | None = option(
        text_kind(),
        metavar="TRAIN,VALID,TEST",
        group=INPUT,
        help="Fractions or numbers of rows, drawn by --seed; or 2/5: fold 2 of 5 (2/5,no-valid: without validation rows).  "
        "[default: the input's own, else .6,.2,.2]",
    )
    on_nonconvergence: str = shared_options.nonconvergence_option()
    seed: int = shared_options.seed_option()

    @property
    def has_time_steps(self) -> bool:
        """Whether errors are correlated in time."""
        return self.gls is not None and self.gls.partition(":")[0] == "ar1"

    def resolve_options(self, typed_options: frozenset[str]) -> Request:
        """Set the defaults of linear models and of perceptrons, whose optimisation needs more steps."""
        if self.hidden is None:
            return replace(self, l2=self.ridge)
        return self if "iterations" in typed_options else replace(self, iterations=500)

    @property
    def ridge(self) -> float:
        """The ridge penalty of a linear model."""
        return self.l2 or 0.0

    @property
    def uses_validation_rows(self) -> bool:
        """Whether validation rows have a part in the fit: they choose the parameters of a perceptron."""
        return self.has_hidden_layers

    @property
    def has_hidden_layers(self) -> bool:
        """Whether the model is a perceptron."""
        return self.hidden is not None

    @property
    def response(self) -> str:
        """The kind of response column, as in `ColumnRoles`."""
        return "named" if self.target else "usual"
