"""The options of `herd eval`."""

from __future__ import annotations

from herdcli.cli.eval.values import DIMENSIONS, SIZE
from herdcli.cli.frame.history.request import (
    field_recorded_as,
    field_recorded_as_file,
    field_recorded_if_changed,
    input_file_field,
    output_file_field,
    record_as_file,
    unrecorded_field,
)
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    OUTPUT,
    Condition,
    Excludes,
    choice_kind,
    flag,
    integer_kind,
    option,
    path_kind,
    repeated_option,
    text_kind,
)
from herdcli.cli.frame.rows.target_files import scores_for_record
from herdcli.kinds import plots_by_kind
from herdcli.records import dataclass

TABLES = ("confusion", "mcnemar", "tournament")  # tables for classifiers other than one row per artifact
ONE_TABLE = "{option} and {other} make different tables"
AT_A_TIME = "ask for one at a time"
ONE_ARTIFACT = Condition(
    "has_one_artifact", refusal="{option} draws one artifact, but {artifact_count} are given", hint="run herd eval for each"
)
PLOTTED = Condition("has_plots", why="without --plot")
SEVERAL_CLASSIFIERS = Condition(
    "has_several_artifacts", refusal="{option} compares two classifiers or more", hint="give at least two: herd eval A.h5 B.h5 --mcnemar"
)


def _target_for_record(text: str | None) -> str | None:
    from herdcli.cli.frame.rows.target_files import target_for_record

    return None if text is None else target_for_record(text)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd eval`; names and meanings are those of its --help."""

    sources: tuple[str, ...] = input_file_field()
    format: str | None = option(
        choice_kind("tsv", "aligned", "json", "csv", "markdown", "latex"),
        group=OUTPUT,
        record=unrecorded_field(),
        help="Format of the table.  [default: aligned on a terminal, else tsv]",
    )
    explain: str | None = option(
        text_kind(),
        metavar="FIGURE",
        group=OUTPUT,
        record=unrecorded_field(),
        help="Print what this figure is, with formula and source, and evaluate nothing.",
    )
    requirements: tuple[str, ...] = repeated_option(
        text_kind(),
        "--require",
        metavar="COLUMN<NUMBER",
        group=OUTPUT,
        help="Exit with 1 if a row does not meet this condition, such as error<0.05.  May be repeated.",
    )
    unit: str = option(choice_kind("nats", "bits"), default="nats", help="Unit of log-likelihoods and code lengths.")
    calibrate: str = option(
        choice_kind("auto", "valid", "cross-fit"),
        default="auto",
        help="Rows that calibrate the class energies of models with --per-class; cross-fit needs fit-rbm --folds.",
    )
    mlr_penalty: float | str = option(
        shared_options.PENALTY,
        default="auto",
        help="L2 penalty of the logistic regression that calibrates class energies; auto: by 5-fold cross-validation.",
    )
    likelihood: str = option(
        choice_kind("auto", "exact", "ais", "none"),
        default="auto",
        help="How log Z of an RBM is computed.  auto: exact up to 25 two-state units in the smaller layer (37 if the other is gaussian), "
        "else annealed importance sampling (AIS) until successive runs agree; ais: one such run; none: only classification errors.",
    )
    chains: int = option(
        integer_kind(2), default=100, help="Number of annealed importance sampling (AIS) chains; more give a smaller error."
    )
    temperatures: int | None = option(
        integer_kind(1),
        help="Number of annealing temperatures; with --likelihood auto, their maximum.  [default: 1000 for ais, 5000 for auto]",
    )
    reverse: bool = flag(help="Also anneal in reverse, from the model: a second estimate of log Z, which errs in the other direction.")
    plots: tuple[tuple[str, str], ...] = repeated_option(
        shared_options.PLOT,
        "--plot",
        metavar="NAME FILE",
        group=OUTPUT,
        record=output_file_field(),
        only=(ONE_ARTIFACT, Condition("has_row_per_artifact", why="with --{comparison_table}")),
        help="Draw this plot of the artifact into FILE (.png, .pdf, .svg); all: every plot, name.svg becoming name-PLOT.svg.  "
        + plots_by_kind(),
    )
    cmap: str | None = option(
        text_kind(),
        metavar="NAME",
        group=OUTPUT,
        record=field_recorded_if_changed(None),
        only=PLOTTED,
        help="Plots: matplotlib's colour map of this name for all numbers, such as magma.  [default: that of the plot]",
    )
    size: str | None = option(
        SIZE,
        metavar="WIDTH[xHEIGHT]",
        group=OUTPUT,
        record=field_recorded_if_changed(None),
        only=PLOTTED,
        help="Plots: width, or width and height, in inches.  [default: that of the plot]",
    )
    dpi: int | None = option(
        integer_kind(10, 2400),
        group=OUTPUT,
        record=field_recorded_if_changed(None),
        only=PLOTTED,
        help="Plots: dots per inch of .png.  [default: 150]",
    )
    title: str | None = option(
        text_kind(),
        metavar="TITLE",
        group=OUTPUT,
        record=field_recorded_if_changed(None),
        only=PLOTTED,
        help="Plots: title, or '' for none.  [default: that of the plot]",
    )
    report: str | None = option(
        path_kind(),
        metavar="FILE.html",
        group=OUTPUT,
        record=output_file_field(record_as_file),
        help="Also write an HTML page with the numbers, the plots and the history of each artifact, for sharing.",
    )
    keep_going: bool = flag(help="Skip artifacts that cannot be evaluated, with a warning, instead of stopping.")
    confusion: bool = flag(
        only=Excludes("mcnemar", "tournament", refusal=ONE_TABLE, hint=AT_A_TIME),
        help="Classifiers: print the confusion matrix, true by predicted classes.",
    )
    mcnemar: bool = flag(
        only=(Excludes("tournament", refusal=ONE_TABLE, hint=AT_A_TIME), SEVERAL_CLASSIFIERS),
        help="Classifiers: compare each pair by McNemar's test on the same rows.",
    )
    tournament: bool = flag(help="Classifiers of several tasks, or a report of them: count how often each algorithm beats each other one.")
    reference: str | None = option(
        text_kind(),
        metavar="FILE",
        group=INPUT,
        record=field_recorded_as_file(),
        help="Correct answer to compare with: marginals (.MAR text or beliefs) for beliefs, a network for networks.",
    )
    data: str | None = option(
        text_kind(),
        metavar="FILE",
        group=INPUT,
        record=field_recorded_as_file(),
        help="Evaluate on these rows instead of the held-out rows that the artifact refers to.",
    )
    target: str | None = option(
        text_kind(),
        "--distribution",
        metavar="NAME[:…]",
        group=INPUT,
        record=field_recorded_as(_target_for_record),
        help="Samples: compare with this distribution (see herd kernel-herd).",
    )
    trace: bool = flag("--curve", help="Samples: one row for each of several numbers of atoms, evenly spaced on a log scale.")
    kernel: str | None = option(
        text_kind(), metavar="NAME", help="Samples: kernel that defines the error.  [default: the one they were chosen with]"
    )
    scores: str | None = option(
        text_kind(),
        metavar="FILE|PREFIX",
        record=field_recorded_if_changed(None, scores_for_record),
        help="Samples: compare with the distribution that has these gradients of the log density, by a Stein kernel; a file, or columns "
        "with this prefix.",
    )
    mixing: str | None = option(
        text_kind(),
        metavar="FILE",
        group=INPUT,
        record=field_recorded_as_file(),
        help="ica: data set whose rows are those of the known mixing matrix A (x = A s).",
    )
    true_sources: str | None = option(
        text_kind(),
        metavar="FILE",
        group=INPUT,
        record=field_recorded_as_file(),
        help="ica: data set with the true sources of each row of --data.",
    )
    gallery: str | None = option(
        text_kind(),
        metavar="DATA",
        group=INPUT,
        record=field_recorded_as_file(),
        help="rbm-pairs: match the test rows of DATA to its training rows, and report rank-n error rates.",
    )
    probes: str = option(choice_kind("test", "valid"), default="test", group=INPUT, help="With --gallery: rows to recognise.")
    probe_sets: str | None = option(
        text_kind(),
        metavar="COLUMN",
        group=INPUT,
        help="With --gallery: report error rates for each value of this column.  [default: probe_set, if present]",
    )
    gallery_images: int | None = option(
        integer_kind(1), group=INPUT, help="With --gallery: number of training images per person.  [default: all]"
    )
    drop_first: int = option(integer_kind(0), default=0, help="With --gallery: number of leading eigenfaces to leave out.")
    dimensions: tuple[int, ...] = option(
        DIMENSIONS,
        default=(199, 200, 10, 30),
        metavar="E,F,W,B",
        help="With --gallery: dimensions of eigenfaces, fisherfaces, and δppca within and between persons; fewer if the data have fewer.",
    )
    missing_rows: str = shared_options.missing_rows_option()
    seed: int = shared_options.seed_option()
    exact: bool = shared_options.exact_option(only=shared_options.excludes_exact("plots", "report", *TABLES))

    @property
    def paths(self) -> tuple[str, ...]:
        """The artifacts: the named ones, else stdin."""
        return self.sources or ("-",)

    @property
    def artifact_count(self) -> int:
        """The number of artifacts."""
        return len(self.paths)

    @property
    def has_one_artifact(self) -> bool:
        """Whether exactly one artifact is evaluated."""
        return self.artifact_count == 1

    @property
    def has_plots(self) -> bool:
        """Whether plots are drawn."""
        return bool(self.plots)

    @property
    def has_several_artifacts(self) -> bool:
        """Whether there are several artifacts to compare."""
        return self.artifact_count > 1

    @property
    def has_row_per_artifact(self) -> bool:
        """Whether the table has one row per artifact."""
        return self.comparison_table is None

    @property
    def comparison_table(self) -> str | None:
        """The requested table of classifiers, or None."""
        return next((name for name in TABLES if getattr(self, name)), None)
