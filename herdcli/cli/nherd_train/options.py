"""Options of `herd nherd-train`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.options.common_options import Parsed
from herdcli.online.learners.algorithm_table import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdcli.cli.frame.options.common_options import Decorator

POSITIVE = click.FloatRange(0, min_open=True)


def _parse_c(text: str) -> float | str:
    """A number above 0, or `auto` or `running`."""
    if text in ("auto", "running"):
        return text
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is neither a number nor 'auto' or 'running'") from None
    if not 0 < number < float("inf"):
        raise ValueError(f"{text} is not above 0")
    return number


def _parse_half_life(text: str) -> float | str:
    """A number of examples of 1 or more, `auto`, or 0 for `none`."""
    if text in ("auto", "none", "0"):
        return text if text == "auto" else 0.0
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is neither a number of examples nor 'auto' or 'none'") from None
    if not 1 <= number < float("inf"):
        raise ValueError(f"{text} is not 1 or more")
    return number


class _Number(Parsed):
    """A number or a word; what is wrong is said in full by the function that reads it."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        try:
            return self.parse(value) if isinstance(value, str) else value
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None


def _parse_pairs(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> str:
    """Pairs of namespaces, in the form that a request has them."""
    from herdcli.online.text.quadratic_features import parse_pairs

    try:
        return ",".join(parse_pairs(",".join(texts))) if texts else ""
    except ValueError as error:
        text = f"'{error}' is not a pair: the first letters of two namespaces, as ab, or :: for all pairs"
        raise click.BadParameter(text, ctx, param) from None


def _parse_share(ctx: click.Context, param: click.Parameter, share: float | None) -> float | None:
    """A number between 0 and 1, which none that is not one passes for."""
    if share is not None and not 0 < share < 1:
        raise click.BadParameter(f"{share:g} is not between 0 and 1", ctx, param)
    return share


ALGORITHMS = click.Choice(["auto", *TABLE])


def _choice_option(name: str, values: list[str], help: str) -> Decorator:
    return click.option(name, type=click.Choice(values), default=values[0], show_default=True, help=help)


OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--algorithm",
        type=ALGORITHMS,
        default="auto",
        show_default=True,
        help="Learner.  auto: the one with the fewest mistakes on the first examples, usually nherd (Gaussian herding) or arow; others: "
        "cw, scw1, scw2 (confidence-weighted, soft I, II), pa, pa1, pa2 (passive-aggressive), perceptron, sop (second-order perceptron).",
    ),
    _choice_option(
        "--task",
        ["classification", "regression", "multilabel"],
        "What to predict: one class per row, a number (regression, by squared loss, with nherd or arow), or any number of labels per row "
        "(multilabel, such as 1,3,7 | a b).",
    ),
    _choice_option(
        "--covariance",
        ["diagonal", "full"],
        "Covariance of the weights: a variance for each weight, or full, which suits few, correlated columns and stores d² numbers "
        "for d columns.  --task regression uses full for data sets with up to 300 columns.",
    ),
    _choice_option(
        "--form",
        ["project", "exact", "drop"],
        "Update of a diagonal covariance: keep the diagonal of the full update's inverse covariance (project) or of its covariance (drop), "
        "or solve for the best diagonal (exact).  Change it only to compare with the paper.",
    ),
    _choice_option(
        "--loss",
        ["squared-hinge", "log", "squared"],
        "Loss that nherd and arow minimise; squared-hinge is ½ max(0, 1 − m)², where m is the margin.",
    ),
    click.option(
        "--C",
        "C",
        metavar="X|auto|running",
        type=_Number("X|auto|running", _parse_c),
        default="auto",
        show_default=True,
        help="Weight of one example against all earlier ones; small values suit noisy labels.  auto: try eight values on the first 10 000 "
        "examples and keep the one with the fewest mistakes; running: ¼ divided by the running mean of |x|², without trials.",
    ),
    click.option(
        "--half-life",
        metavar="N|auto|none",
        type=_Number("N|auto|none", _parse_half_life),
        default="auto",
        show_default=True,
        help="For streams that drift: after N examples, an example counts half (nherd, arow).  auto: forget only if that makes fewer "
        "mistakes on the first 10 000 examples; none: never forget.",
    ),
    click.option(
        "--confidence",
        type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
        default=0.9,
        show_default=True,
        help="Probability with which an updated classifier must be right about the example (cw; a goal for scw1 and scw2).",
    ),
    _choice_option(
        "--multiclass",
        ["auto", "top-1", "one-vs-rest"],
        "Update with more than two classes: the true class against its best rival (top-1), or each class against the rest.  auto: the "
        "better of the two if --C auto compares learners, else top-1.",
    ),
    click.option(
        "--passes",
        type=click.IntRange(1),
        default=None,
        help="Number of passes over the examples.  [default: 1; for data sets that fit into memory, until the error on held-out rows stops "
        "falling]",
    ),
    click.option(
        "--holdout",
        type=click.IntRange(0),
        default=None,
        metavar="N",
        help="Hold out every N-th example: predict it in each pass, but never learn it; 0: hold out none.  [default: 0; with several "
        "--passes and no validation rows, every 20th until the last pass]",
    ),
    click.option(
        "--early-stop",
        type=click.IntRange(1),
        default=None,
        metavar="K",
        help="Stop after K passes without a lower error on the held-out examples, and keep the weights of the best pass.  Without "
        "--holdout, every 10th example is held out.",
    ),
    click.option(
        "--coverage",
        type=float,
        callback=_parse_share,
        default=None,
        metavar="P",
        help="Prediction sets (for --task regression, intervals) that contain the truth for a share P of the examples in the long run, by "
        "adaptive conformal prediction; herd apply --want sets writes them for new rows.",
    ),
    click.option(
        "--shuffle",
        is_flag=True,
        help="Shuffle the examples before each pass; text is then kept in memory.  "
        "A data set sorted by class is always shuffled, except with --in-order.",
    ),
    click.option("--in-order", is_flag=True, help="Keep the order of a data set's rows, even if they are sorted by class."),
    click.option(
        "--parts",
        type=click.IntRange(1, 1 << 20),
        default=1,
        show_default=True,
        metavar="P",
        help="Train on P parts of a data set independently and merge the classifiers, weighted by what each has learned; use it to "
        "distribute the training with --shard or --cluster.",
    ),
    click.option(
        "--rounds",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        metavar="R",
        help="Repeat the training of --parts R times, each time starting from the merged classifier.",
    ),
    click.option("--normalize", type=click.Choice(["l2"]), default=None, help="Scale each example to Euclidean length 1 (l2)."),
    click.option(
        "--scale",
        "scaling",
        type=click.Choice(["standard", "online", "none"]),
        default=None,
        help="Scaling of features.  online: divide each by the mean size of its nonzero values so far; standard: also subtract the running "
        "mean of features that are nonzero in most examples.  [default: standard; --no-bias: online; --kernel: none]",
    ),
    click.option(
        "--bias/--no-bias", default=None, help="Add an intercept: a feature that is always 1.  [default: --bias; with --kernel: --no-bias]"
    ),
    click.option(
        "--always-update",
        is_flag=True,
        help="Reduce the variances on every example, also on those that leave the weights unchanged (nherd, arow, sop).",
    ),
    click.option(
        "--label-noise",
        type=click.FloatRange(0, 1),
        default=0.0,
        show_default=True,
        help="Share of training labels to replace by random wrong ones, for experiments.",
    ),
    _choice_option(
        "--kernel",
        ["none", "linear", "polynomial", "gaussian"],
        "Kernel of a nonlinear classifier (full covariance only); none: a linear one.",
    ),
    click.option("--width", type=POSITIVE, default=1.0, show_default=True, help="Width of --kernel gaussian, exp(−|x−z|²/2 width²)."),
    click.option("--degree", type=click.IntRange(1), default=2, show_default=True, help="Degree of --kernel polynomial, (1 + x·z)^degree."),
    click.option(
        "--budget",
        type=click.IntRange(1),
        default=None,
        help="Maximum number of support vectors of a --kernel; later updates are skipped and counted.",
    ),
    click.option(
        "--bits",
        type=click.IntRange(1, 30),
        default=None,
        help="Hash features into 2^N columns, for feature names or very many features.  [default: 18 for Vowpal Wabbit text and --text; "
        "otherwise no hashing]",
    ),
    click.option(
        "--cache",
        metavar="FILE",
        default=None,
        help="Store the parsed text in FILE, so that later passes and later runs on the same text skip the parsing.",
    ),
    click.option(
        "--interactions",
        multiple=True,
        metavar="AB,…",
        callback=_parse_pairs,
        help="Add products of features of Vowpal Wabbit text: ab multiplies each feature of namespaces that begin with a by each of those "
        "that begin with b; :: stands for all pairs.",
    ),
    click.option(
        "--text",
        metavar="COLUMN",
        default=None,
        help="Train on the documents in this column of a CSV, Parquet or JSON Lines file.  If INPUT is a folder with one folder of .txt "
        "files per class, --text is not needed.",
    ),
    click.option(
        "--ngrams",
        type=click.IntRange(1, 5),
        default=1,
        show_default=True,
        metavar="N",
        help="Longest n-gram of words; 2 adds pairs of neighbours (--text).",
    ),
    _choice_option("--weighting", ["tf-idf", "counts"], "Weights of words: tf-idf, where rare words count more, or plain counts (--text)."),
    click.option("--keep-case", is_flag=True, help="Distinguish upper and lower case in words (--text)."),
    click.option("--inverse-map", is_flag=True, help="Store a feature name for each hashed column, so that reports can show it (slower)."),
    click.option("--zero-based", is_flag=True, help="Read svmlight indices as starting at 0 instead of 1."),
    click.option("--skip-bad", type=click.IntRange(0), default=0, metavar="N", help="Skip up to N malformed lines of text."),
    click.option(
        "--classes", metavar="A,B,…", default=None, help="All labels that can occur; if there are two, the last is the positive class."
    ),
    click.option(
        "--max-classes",
        type=click.IntRange(2),
        default=1000,
        show_default=True,
        metavar="N",
        help="Stop with an error if there are more than N different labels.",
    ),
    click.option("--only", metavar="A,B,…", default=None, help="Use only the rows of these classes (data sets; * and ? are wildcards)."),
    click.option(
        "--positive", metavar="A,B,…", default=None, help="Learn two classes: these against all others (data sets; * and ? are wildcards)."
    ),
    click.option(
        "--split",
        metavar="TRAIN,VALID,TEST",
        default=None,
        help="Training, validation and test rows, as fractions or as counts per class.  [default: the data set's own split, else .6,.2,.2]",
    ),
    click.option(
        "--label",
        default=None,
        metavar="COLUMN",
        help="Column with the labels.  --task multilabel: a column of lists such as 1,3,7, or columns of 0 and 1 such as a,b,c or topic_*."
        "  [default: y, label, class or target]",
    ),
    click.option(
        "--input-format",
        type=click.Choice(["hdf5", "parquet", "csv", "npz", "svmlight", "vw"]),
        default=None,
        help="Read the input as this format.  [default: detected]",
    ),
    click.option("--continue", "model", metavar="MODEL", default=None, help="Continue to train this classifier, with its settings."),
    click.option(
        "--verify",
        is_flag=True,
        help="Check the update formulas instead of training: compare them with a numerical minimiser on random examples, and stop.",
    ),
)


def learner_options(command: Callable[..., object]) -> Callable[..., object]:
    """All of them, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
