"""The options of `herd apply`."""

from __future__ import annotations

from herdcli.cli.apply.values import WANT
from herdcli.cli.frame.history.request import field_recorded_if_given, input_file_field
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    OUTPUT,
    Excludes,
    integer_kind,
    option,
    text_kind,
)
from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd apply`; names and meanings are those of its --help."""

    model: str = input_file_field()
    source: str = input_file_field()
    want: str | None = option(
        WANT,
        group=OUTPUT,
        help="Result to write.  features: hidden means, or filter outputs; states: sampled hidden states; energies; classes: "
        "probabilities of the classes, with the most probable one as y.  ica: rows, reconstructed from filter outputs.  em: clusters (as "
        "y), responsibilities, factor scores, or rows with missing values filled in (completed; also for an rbm).  regress: means; "
        "forecasts (--gls ar1) also use the last earlier row with a known target.  hmm: the most probable states as y (viterbi), "
        "probabilities of the states given all rows (smoothed), the rows so far (filtered) or the rows before (predicted), or N sampled "
        "paths.  lds: the same for its states, with standard deviations, or a forecast of N rows.  rtrbm: hidden means, expected rows "
        "(predicted), or a forecast.  nherd-train --coverage: prediction sets of classes or labels, or intervals (sets).  [default: "
        "classes if there are classes, else features; em: clusters, scores, viterbi or smoothed; regress: means]",
    )
    sequence: str | None = option(
        text_kind(),
        metavar="COLUMN",
        record=field_recorded_if_given(),
        help="hmm, lds, rtrbm, forecasts: column that identifies the sequence of each row.  [default: sequence]",
    )
    particles: int | None = option(
        integer_kind(2),
        metavar="N",
        record=field_recorded_if_given(),
        help="hmm, lds: use a particle filter and smoother with N particles instead of exact recursions.",
    )
    explain: int | None = option(
        integer_kind(1),
        "--explain-row",
        metavar="ROW",
        record=field_recorded_if_given(),
        only=Excludes("want", hint="leave one of them out"),
        help="nherd-train: explain the prediction for one row (the first is 1) by its 20 largest terms weight × value, with standard "
        "deviations, the bias, and the score that all terms add up to.",
    )
    input_format: str | None = shared_options.input_format_option()
    label: str | None = shared_options.label_option()
    value_range: tuple[float, float] | None = shared_options.value_range_option()
    threshold: float | None = shared_options.threshold_option()
    split: str | None = shared_options.split_option()
    seed: int = shared_options.seed_option()
    exact: bool = shared_options.exact_option()
