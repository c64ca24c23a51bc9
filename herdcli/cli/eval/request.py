"""What a user asks of `herd eval`."""

from __future__ import annotations

from herdcli.cli.eval.values import DIMENSIONS, PLOT
from herdcli.cli.frame.history.request import as_file, as_recorded, input_file, output_file, record_as_file, unrecorded, where_changed
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    OUTPUT,
    choice,
    flag,
    option,
    path,
    repeated,
    text,
    whole,
)
from herdcli.cli.frame.rows.target_files import recorded_scores
from herdcli.errors import BadUsage
from herdcli.kinds import plots_by_kind
from herdcli.records import dataclass

TABLES = ("confusion", "mcnemar", "tournament")  # of classifiers: other tables than one row per artifact


def _recorded_target(text: str | None) -> str | None:
    from herdcli.cli.frame.rows.target_files import recorded_target

    return None if text is None else recorded_target(text)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd eval`; names and meanings are those of its --help."""

    sources: tuple[str, ...] = input_file()
    format: str | None = option(
        choice("tsv", "aligned", "json", "csv", "markdown", "latex"),
        group=OUTPUT,
        record=unrecorded(),
        help="How the table is written.  [default: aligned on a terminal, tsv in a pipe]",
    )
    requirements: tuple[str, ...] = repeated(
        text(),
        "--require",
        metavar="COLUMN<NUMBER",
        group=OUTPUT,
        help="A requirement such as error<0.05; exit 1 if a row fails it.  May be repeated.",
    )
    unit: str = option(choice("nats", "bits"), default="nats", help="Unit of log-likelihoods and code lengths.")
    calibrate: str = option(
        choice("auto", "valid", "cross-fit"),
        default="auto",
        help="Rows that class energies are calibrated on; cross-fit needs fit-rbm --folds.",
    )
    mlr_penalty: float | str = option(
        shared_options.PENALTY,
        default="auto",
        help="L2 penalty of the logistic regression on class energies; auto: 5-fold cross-validation.",
    )
    likelihood: str = option(
        choice("auto", "exact", "ais", "none"),
        default="auto",
        help="How log Z is computed; auto: exact up to 25 two-state units in the smaller layer, 37 beside gaussian ones, else annealed "
        "until successive runs agree; ais: annealed once; none: the errors of models of classes without any likelihood.",
    )
    chains: int = option(whole(2), default=100, help="Annealed chains.")
    temperatures: int | None = option(
        whole(1), help="Temperatures of ais; otherwise the most that annealing may take.  [default: 1000; 5000]"
    )
    reverse: bool = flag(help="Also anneal back from the model: a second estimate, which errs in the other direction.")
    plots: tuple[tuple[str, str], ...] = repeated(
        PLOT,
        "--plot",
        metavar="NAME FILE",
        group=OUTPUT,
        record=output_file(),
        help="Draw this picture of the artifact into FILE (.png, .pdf, .svg); all: every one, name.svg as name-PLOT.svg.  "
        + plots_by_kind(),
    )
    report: str | None = option(
        path(),
        metavar="FILE.html",
        group=OUTPUT,
        record=output_file(record_as_file),
        help="Also write one self-contained page: figures, pictures, and how each artifact was made.",
    )
    keep_going: bool = flag(help="Skip artifacts that cannot be evaluated, with a warning.")
    confusion: bool = flag(help="Classifiers: true classes against predicted ones.")
    mcnemar: bool = flag(help="Pairs of classifiers: McNemar's test.")
    tournament: bool = flag(help="Classifiers of many tasks, or a report of them: who wins how often.")
    reference: str | None = option(
        text(),
        metavar="FILE",
        group=INPUT,
        record=as_file(),
        help="Judge beliefs by these marginals (.MAR text or beliefs), a network by this network.",
    )
    data: str | None = option(
        text(), metavar="FILE", group=INPUT, record=as_file(), help="Judge models, classifiers, samples and filters on these rows."
    )
    target: str | None = option(
        text(),
        metavar="NAME[:…]",
        group=INPUT,
        record=as_recorded(_recorded_target),
        help="Samples: compare with this closed form (see kernel-herd).",
    )
    trace: bool = flag(help="Samples: one row for each of log-spaced numbers of atoms.")
    kernel: str | None = option(text(), metavar="NAME", help="Samples: judge with this kernel.  [default: their own]")
    scores: str | None = option(
        text(),
        metavar="FILE|PREFIX",
        record=where_changed(None, recorded_scores),
        help="Samples: compare with the law of these scores ∇ log p.",
    )
    mixing: str | None = option(
        text(), metavar="FILE", group=INPUT, record=as_file(), help="ica: the known mixing A of x = A s, as rows of a data set."
    )
    true_sources: str | None = option(
        text(), metavar="FILE", group=INPUT, record=as_file(), help="ica: the sources that --data was mixed from, row by row."
    )
    gallery: str | None = option(
        text(),
        metavar="DATA",
        group=INPUT,
        record=as_file(),
        help="Pairs: rank-n error rates when test rows of DATA are looked for among its training rows.",
    )
    probes: str = option(choice("test", "valid"), default="test", group=INPUT, help="Gallery: rows to recognise.")
    probe_sets: str | None = option(
        text(), metavar="COLUMN", group=INPUT, help="Gallery: error rates for each value of this column.  [default: probe_set, if there]"
    )
    gallery_images: int | None = option(whole(1), group=INPUT, help="Gallery: images per person.  [default: all]")
    drop_first: int = option(whole(0), default=0, help="Gallery: leading eigenfaces left out.")
    dimensions: tuple[int, ...] = option(
        DIMENSIONS,
        default=(199, 200, 10, 30),
        metavar="E,F,W,B",
        help="Gallery: sizes of eigenfaces, fisherfaces and the two models of δppca, fewer where the data forbid.",
    )
    seed: int = shared_options.seed()
    exact: bool = shared_options.exact()

    @property
    def paths(self) -> tuple[str, ...]:
        """The artifacts: as named, else stdin."""
        return self.sources or ("-",)

    @property
    def table(self) -> str | None:
        """Which table of classifiers is asked for, if one is.  Raises BadUsage for several."""
        chosen = [name for name in TABLES if getattr(self, name)]
        if len(chosen) > 1:
            raise BadUsage(f"--{chosen[0]} and --{chosen[1]} make different tables", hint="ask for one at a time")
        return chosen[0] if chosen else None
