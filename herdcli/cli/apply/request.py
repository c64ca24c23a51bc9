"""What a user asks of `herd apply`."""

from __future__ import annotations

from herdcli.cli.apply.values import WANT
from herdcli.cli.frame.history.request import input_file, where_given
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    OUTPUT,
    option,
    text,
    whole,
)
from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd apply`; names and meanings are those of its --help."""

    model: str = input_file()
    source: str = input_file()
    want: str | None = option(
        WANT,
        group=OUTPUT,
        help="features: hidden means or filter outputs; states: hidden states, drawn once; energies; classes: their probabilities, and the "
        "likeliest as y.  ica: rows, made from filter outputs.  em: clusters as y, responsibilities, factor scores, or rows with "
        "their gaps filled (completed; of an rbm too, by expectations).  regress: means; of rows in time (--gls ar1) forecasts by the "
        "last row before whose target is known.  hmm: the likeliest states as y (viterbi), probabilities of states given all rows "
        "(smoothed), the rows up to each (filtered) or those before it (predicted), or N drawn paths.  lds: the same of its states, "
        "with standard deviations, or a forecast of N rows.  rtrbm: hidden means, the rows expected (predicted), a forecast.  "
        "nherd-train --coverage: which classes are in the set of each row, or intervals, multilabel: which labels (sets).  [default: "
        "classes or else features; em: clusters, scores, viterbi or smoothed; regress: means]",
    )
    sequence: str | None = option(
        text(),
        metavar="COLUMN",
        record=where_given(),
        help="hmm, lds, rtrbm, forecasts: column that says which sequence a row belongs to.  [default: sequence]",
    )
    particles: int | None = option(
        whole(2), metavar="N", record=where_given(), help="hmm, lds: use a particle filter and smoother with N particles."
    )
    explain: int | None = option(
        whole(1),
        metavar="ROW",
        record=where_given(),
        help="nherd-train: what the prediction of one row (the first is 1) is made of: its 20 largest terms weight × value by name, "
        "their standard deviations, the bias, and the score they add up to.",
    )
    input_format: str | None = shared_options.input_format()
    label: str | None = shared_options.label()
    value_range: tuple[float, float] | None = shared_options.value_range()
    threshold: float | None = shared_options.threshold()
    split: str | None = shared_options.split()
    seed: int = shared_options.seed()
    exact: bool = shared_options.exact()
