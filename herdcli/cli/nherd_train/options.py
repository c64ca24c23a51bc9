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
        help="Gaussian herding (nherd), or another of its family; auto: nherd or arow, by --C auto.",
    ),
    _choice_option(
        "--task",
        ["classification", "regression", "multilabel"],
        "regression: learn numbers by squared loss, with nherd or arow; multilabel: rows have any number of labels, as in 1,3,7 | a b.",
    ),
    _choice_option(
        "--covariance",
        ["diagonal", "full"],
        "Covariance of the weights; full takes d² numbers, and is the default for numbers of data sets with up to 300 columns.",
    ),
    _choice_option("--form", ["project", "exact", "drop"], "How a diagonal covariance is kept diagonal."),
    _choice_option("--loss", ["squared-hinge", "log", "squared"], "Loss of nherd and arow; squared-hinge is ½ max(0, 1 − m)²."),
    click.option(
        "--C",
        "C",
        metavar="X|auto|running",
        type=_Number("X|auto|running", _parse_c),
        default="auto",
        show_default=True,
        help="Weight of an example.  auto: eight values compete on the first 10 000 examples, and the one with the lowest "
        "progressive error is kept; running: ¼ divided by the running mean of |x|².",
    ),
    click.option(
        "--half-life",
        metavar="N|auto|none",
        type=_Number("N|auto|none", _parse_half_life),
        default="auto",
        show_default=True,
        help="Let evidence fade to half in N examples, for streams that drift (nherd, arow); auto: where that makes fewer mistakes on the "
        "first 10 000 examples.",
    ),
    click.option(
        "--confidence", type=click.FloatRange(0.5, 1, min_open=True, max_open=True), default=0.9, show_default=True, help="η of cw and scw."
    ),
    _choice_option(
        "--multiclass",
        ["auto", "top-1", "one-vs-rest"],
        "More than two classes: against the best rival, or each against the rest; auto: by --C auto, else top-1.",
    ),
    click.option(
        "--passes",
        type=click.IntRange(1),
        default=None,
        help="Number of passes over the examples.  [default: 1; over rows of a data set that fit into memory, until the error of held-out "
        "rows stops falling]",
    ),
    click.option(
        "--holdout",
        type=click.IntRange(0),
        default=None,
        metavar="N",
        help="Judge every N-th example in each pass and never learn it; 0: learn all.  [default: 0; of several passes without "
        "validation rows only the last learns every 20th]",
    ),
    click.option(
        "--early-stop",
        type=click.IntRange(1),
        default=None,
        metavar="K",
        help="End after K passes without a lower error of held-out examples, with the best pass's weights (--holdout 10 if not given).",
    ),
    click.option(
        "--coverage",
        type=float,
        callback=_parse_share,
        default=None,
        metavar="P",
        help="Give each example a set of classes, or an interval, that holds the truth for a share P of them in the long run "
        "(adaptive conformal prediction), and have herd apply --want sets give them to new rows.",
    ),
    click.option(
        "--shuffle",
        is_flag=True,
        help="Shuffle the examples before each pass; text is then kept in memory.  "
        "Rows of a data set that are sorted by class are shuffled anyway.",
    ),
    click.option("--in-order", is_flag=True, help="Learn the rows of a data set in its order, even where that is sorted by class."),
    click.option(
        "--parts",
        type=click.IntRange(1, 1 << 20),
        default=1,
        show_default=True,
        metavar="P",
        help="Learn a data set in P parts, merged by precision; --shard and --cluster deal them out.",
    ),
    click.option(
        "--rounds", type=click.IntRange(1), default=1, show_default=True, metavar="R", help="Rounds of --parts, each from their merge."
    ),
    click.option("--normalize", type=click.Choice(["l2"]), default=None, help="Scale each example to length 1."),
    click.option(
        "--scale",
        "scaling",
        type=click.Choice(["standard", "online", "none"]),
        default=None,
        help="online: divide each feature by the mean size of its values ≠ 0 so far; standard: and take those that most examples have "
        "about their running means.  [default: standard; without bias online; with --kernel none]",
    ),
    click.option("--bias/--no-bias", default=None, help="Add a feature that is always 1.  [default: yes, with --kernel no]"),
    click.option("--always-update", is_flag=True, help="Shrink the covariance also where the margin is 1 or more (nherd, arow, sop)."),
    click.option(
        "--label-noise",
        type=click.FloatRange(0, 1),
        default=0.0,
        show_default=True,
        help="Share of training labels to replace by wrong ones.",
    ),
    _choice_option("--kernel", ["none", "linear", "polynomial", "gaussian"], "Learn with a kernel (full covariance only)."),
    click.option("--width", type=POSITIVE, default=1.0, show_default=True, help="Gaussian kernel: exp(−|x−z|²/2 width²)."),
    click.option("--degree", type=click.IntRange(1), default=2, show_default=True, help="Polynomial kernel: (1 + x·z)^degree."),
    click.option(
        "--budget", type=click.IntRange(1), default=None, help="Maximum number of support vectors; further updates are refused and counted."
    ),
    click.option(
        "--bits", type=click.IntRange(1, 30), default=None, help="Hash features into 2^bits columns.  [default: 18 for vw, else not]"
    ),
    click.option(
        "--cache",
        metavar="FILE",
        default=None,
        help="Keep the parsed text in FILE: later passes, and runs on the same text, need not parse it again.",
    ),
    click.option(
        "--interactions",
        multiple=True,
        metavar="AB,…",
        callback=_parse_pairs,
        help="Multiply the features of namespaces that begin with A by those of namespaces with B (vw); :: for all pairs.",
    ),
    click.option(
        "--text",
        metavar="COLUMN",
        default=None,
        help="Learn the documents in a column of CSV, Parquet or JSON lines; of a folder with a folder of .txt files for each class, all.",
    ),
    click.option(
        "--ngrams", type=click.IntRange(1, 5), default=1, show_default=True, metavar="N", help="Longest n-gram of words (--text)."
    ),
    _choice_option("--weighting", ["tf-idf", "counts"], "Weights of words (--text)."),
    click.option("--keep-case", is_flag=True, help="Tell upper from lower case in words (--text)."),
    click.option("--inverse-map", is_flag=True, help="Keep the first feature name of each hashed column (slower)."),
    click.option("--zero-based", is_flag=True, help="Indices of svmlight text begin at 0."),
    click.option("--skip-bad", type=click.IntRange(0), default=0, metavar="N", help="Skip up to N malformed lines of text."),
    click.option("--classes", metavar="A,B,…", default=None, help="All possible labels; of two, the last is the positive one."),
    click.option(
        "--max-classes",
        type=click.IntRange(2),
        default=1000,
        show_default=True,
        metavar="N",
        help="Refuse more different labels than this.",
    ),
    click.option("--only", metavar="A,B,…", default=None, help="Use only the rows of these classes (data sets; * and ? match)."),
    click.option("--positive", metavar="A,B,…", default=None, help="Two classes: these against the rest (data sets; * and ? match)."),
    click.option(
        "--split",
        metavar="TRAIN,VALID,TEST",
        default=None,
        help="Fractions of the rows, or counts of each class.  [default: the data set's own, else .6,.2,.2]",
    ),
    click.option(
        "--label",
        default=None,
        metavar="COLUMN",
        help="Column that holds the labels (multilabel: lists such as 1,3,7, or columns of 0 and 1: A,B,… or topic_*).  [default: y]",
    ),
    click.option(
        "--input-format",
        type=click.Choice(["hdf5", "parquet", "csv", "npz", "svmlight", "vw"]),
        default=None,
        help="Read the input as this format.  [default: detected]",
    ),
    click.option("--continue", "model", metavar="MODEL", default=None, help="Continue training this classifier."),
    click.option("--verify", is_flag=True, help="Minimise the objective numerically, print how far the closed forms are, and stop."),
)


def learner_options(command: Callable[..., object]) -> Callable[..., object]:
    """All of them, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
