"""What a user asks of `herd regress`."""

from __future__ import annotations

from herdcli.cli.frame.history.request import input_file, where_changed, where_given
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    Condition,
    Excludes,
    OneOf,
    When,
    choice,
    flag,
    number,
    option,
    text,
    whole,
)
from herdcli.records import dataclass
from herdcli.regression.family_table import TABLE

FORMS = ("ar1", "variance")  # of the errors' covariance; anything else names a file


def _family(needed: str, option: str = "{option}") -> OneOf:
    """Options that are of one family."""
    refusal = f"{option} is of --family {needed}, not {{family}}"
    return OneOf("family", None, needed, refusal=refusal, hint=f"--family {needed}, or leave it out")


def _weight_kind(kind: str) -> OneOf:
    """Options that say by themselves what weights stand for."""
    refusal = "--weight-kind {weight_kind} does not go with {option}"
    return OneOf("weight_kind", None, kind, refusal=refusal, hint="leave out --weight-kind")


UNWEIGHTED = Excludes("weights", refusal="{option} says how much a row weighs, so that --weights cannot", hint="leave one of them out")
TOGETHER = "{option} and {other} do not go together"
OF_TRIALS, OF_EXPOSURE = (UNWEIGHTED, _weight_kind("trials"), _family("bernoulli")), (_weight_kind("exposure"), _family("poisson"))
KINDS = (
    When(OneOf("weight_kind", "trials"), _family("bernoulli", "--weight-kind {weight_kind}")),
    When(OneOf("weight_kind", "exposure"), _family("poisson", "--weight-kind {weight_kind}")),
)
ONE_PENALTY = Excludes("l1", "l2", refusal="--penalty firth takes no further penalty", hint="leave out --l1 and --l2, or --penalty")
OF_GLS = (
    OneOf("family", None, "gaussian", refusal="--gls is of --family gaussian, not {family}"),
    Excludes("l1", "l2", refusal="--gls takes no penalty", hint="leave out --l1 and --l2, or --gls"),
    Excludes(
        *("weight_kind", "trials", "failures", "exposure"),
        refusal="weights of --gls are precisions",
        hint="leave out --gls, or --weight-kind, --trials, --failures and --exposure",
    ),
)
SQUARES, OTHER_LOSSES = "--one-pass is of least squares", "leave out --trials, --failures, --exposure, --weight-kind and --penalty"
OF_ONE_PASS = (
    OneOf(
        "family",
        *(None, "gaussian"),
        refusal="--one-pass is of --family gaussian, not {family}",
        hint="--cluster WHERE keeps the rows with workers",
    ),
    Excludes("trials", "failures", "exposure", "penalty", refusal=SQUARES, hint=OTHER_LOSSES),
    OneOf("weight_kind", None, "precision", "frequency", refusal=SQUARES, hint=OTHER_LOSSES),
    Excludes("gls", refusal="--one-pass makes sums, and --gls needs the rows", hint="leave one of them out"),
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd regress`; names and meanings are those of its --help."""

    source: str = input_file()
    input_format: str | None = shared_options.input_format()
    target: str | None = option(text(), metavar="COLUMN", group=INPUT, help="Column to predict.  [default: y, or the labels]")
    family: str | None = option(
        choice(*TABLE),
        help="What the target follows.  gamma: its mean is modelled; gamma-shape: its shape, the scale known.  "
        "[default: bernoulli or softmax of classes and of 0 and 1, else gaussian]",
    )
    offset: str | None = option(text(), metavar="COLUMN", group=INPUT, help="Added to the linear predictor, as the log of an exposure.")
    weights: str | None = option(
        text(), metavar="COLUMN", group=INPUT, help="Weights of the rows.  [default: weight, where the data have it]"
    )
    weight_kind: str | None = option(
        choice("precision", "frequency", "trials", "exposure"),
        group=INPUT,
        record=where_given(),
        only=KINDS,
        help="What weights stand for: the precision of a row, how often it occurs, trials whose share of successes is the target, or an "
        "exposure whose rate it is.  0: no row.  [default: precision]",
    )
    trials: str | None = option(
        text(),
        metavar="COLUMN",
        group=INPUT,
        record=where_given(),
        only=(Excludes("failures", "exposure", refusal=TOGETHER, hint="leave out {other}"), *OF_TRIALS),
        help="Trials of each row; the target is their successes, or the share of them.",
    )
    failures: str | None = option(
        text(),
        metavar="COLUMN",
        group=INPUT,
        record=where_given(),
        only=(Excludes("exposure", refusal=TOGETHER, hint="leave out {other}"), *OF_TRIALS),
        help="Failures of each row; the target is the successes.",
    )
    exposure: str | None = option(
        text(),
        metavar="COLUMN",
        group=INPUT,
        record=where_given(),
        only=(UNWEIGHTED, *OF_EXPOSURE),
        help="Exposure of each row; the target is a count of events, or their rate.",
    )
    l2: float = option(number(0), default=0.0, group=LEARNING, help="½ l2 ‖β‖² is added to the mean loss; intercepts are not penalised.")
    penalty: str | None = option(
        choice("firth"),
        group=LEARNING,
        record=where_given(),
        only=ONE_PENALTY,
        help="firth: half the log-determinant of the information (bernoulli, poisson), so that estimates are finite where classes "
        "separate.",
    )
    l1: float = option(number(0), default=0.0, group=LEARNING, help="l1 ‖β‖₁ is added to the mean loss.")
    gamma_scale: float = option(number(0, open_low=True), default=1.0, help="The known scale of gamma-shape.")
    dispersion: str | None = option(
        choice("one", "pearson"),
        record=where_given(),
        help="pearson: multiply errors of bernoulli, poisson and gamma-shape by √(X²/(n − p)), as quasi-Poisson does.  [default: one]",
    )
    gls: str | None = option(
        text(),
        metavar="ar1|ar1:R|variance|variance:A,B|FILE",
        record=where_changed(None, lambda value: value if str(value).partition(":")[0] in FORMS else "file"),
        only=OF_GLS,
        help="Errors of gaussian that are not alike.  ar1: correlation R^|s − t| in time, R fitted or given; variance: its log linear in "
        "the columns, or in A and B; or a file with the covariance of all rows.",
    )
    sequence: str | None = option(
        text(),
        metavar="COLUMN",
        record=where_given(),
        only=Condition("has_time_steps", why="without --gls ar1"),
        help="Which sequence a row of --gls ar1 is of.  [default: sequence]",
    )
    one_pass: bool = flag(
        record=where_changed(False),
        only=OF_ONE_PASS,
        help="gaussian: fit sums of products, which one pass over the rows makes; rows stay in their files, and --shard divides them.",
    )
    iterations: int = option(whole(1), default=100, group=LEARNING, help="Maximum number of steps.")
    split: str | None = option(
        text(),
        metavar="TRAIN,VALID,TEST",
        group=INPUT,
        help="Rows as counts or fractions, drawn with the seed.  [default: the data set's own split, else .6,.2,.2]",
    )
    on_nonconvergence: str = shared_options.on_nonconvergence()
    seed: int = shared_options.seed()

    @property
    def has_time_steps(self) -> bool:
        """Whether errors are correlated in time."""
        return self.gls is not None and self.gls.partition(":")[0] == "ar1"

    @property
    def response(self) -> str:
        """Which column is predicted, as of `ColumnRoles`."""
        return "named" if self.target else "usual"
