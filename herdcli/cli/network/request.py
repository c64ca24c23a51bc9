"""The options of `herd network`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.history.request import field_recorded_if_changed, input_file_field
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    Condition,
    OneOf,
    choice_kind,
    integer_kind,
    number_kind,
    option,
    text_kind,
)
from herdcli.records import dataclass

if TYPE_CHECKING:
    pass

DESCRIPTION_FORMATS = ("json", "csv", "parquet")
DRAWN = OneOf("structure", "grid", "tree", "random", positional=True)
SEEDED = OneOf("structure", "grid", "tree", "random", "describe", positional=True)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd network`; names and meanings are those of its --help."""

    structure: str
    source: str = input_file_field()
    rows: int = option(
        integer_kind(1), "--grid-rows", default=5, only=OneOf("structure", "grid", positional=True), help="Number of rows of a grid."
    )
    columns: int = option(
        integer_kind(1), "--grid-columns", default=5, only=OneOf("structure", "grid", positional=True), help="Number of columns of a grid."
    )
    nodes: int = option(
        integer_kind(1),
        default=25,
        only=OneOf("structure", "tree", "random", positional=True),
        help="Number of variables of a tree or random graph.",
    )
    degree: float = option(
        number_kind(0),
        "--mean-degree",
        default=4.0,
        only=OneOf("structure", "random", positional=True),
        help="Mean number of neighbours in a random graph.",
    )
    sigma_w: float = option(number_kind(0), default=1.0, only=DRAWN, help="Standard deviation of the weights.")
    sigma_b: float = option(number_kind(0), default=1.0, only=DRAWN, help="Standard deviation of the biases around −½ Σ weights.")
    observe: str | None = option(
        choice_kind("border", "leaves"),
        "--draw-observed",
        group=INPUT,
        only=DRAWN,
        help="Also draw observed marginals, for the border variables of a grid or for leaves.",
    )
    sigma_alpha: float = option(
        number_kind(0),
        default=1.0,
        only=(DRAWN, Condition("observe", why="without --draw-observed")),
        help="With --draw-observed: standard deviation σ of α in the observed marginals 1/(1+e^α), α ~ N(0, σ²).",
    )
    evidence: str | None = option(
        text_kind(),
        "--observations",
        metavar="FILE",
        group=INPUT,
        record=field_recorded_if_changed(None, lambda value: "file"),
        only=OneOf("structure", "from-hmm", positional=True),
        help="With from-hmm: the observed rows; a column 'sequence' tells sequences apart.",
    )
    steps: int = option(
        integer_kind(1),
        default=10,
        group=LEARNING,
        record=field_recorded_if_changed(10),
        only=OneOf("structure", "unroll", positional=True),
        help="With unroll: number of slices (time steps) of the result.",
    )
    format: str | None = shared_options.output_format_option(*shared_options.NETWORK_FORMATS, *DESCRIPTION_FORMATS)
    input_format: str | None = shared_options.network_format_option()
    missing_rows: str = shared_options.missing_rows_option()
    seed: int = shared_options.seed_option(only=SEEDED)
