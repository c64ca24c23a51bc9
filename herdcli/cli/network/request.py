"""The options of `herd network`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.history.request import input_file, where_changed
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    Condition,
    OneOf,
    choice,
    number,
    option,
    text,
    whole,
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
    source: str = input_file()
    rows: int = option(
        whole(1), "--grid-rows", default=5, only=OneOf("structure", "grid", positional=True), help="Number of rows of a grid."
    )
    columns: int = option(
        whole(1), "--grid-columns", default=5, only=OneOf("structure", "grid", positional=True), help="Number of columns of a grid."
    )
    nodes: int = option(
        whole(1),
        default=25,
        only=OneOf("structure", "tree", "random", positional=True),
        help="Number of variables of a tree or random graph.",
    )
    degree: float = option(
        number(0),
        "--mean-degree",
        default=4.0,
        only=OneOf("structure", "random", positional=True),
        help="Mean number of neighbours in a random graph.",
    )
    sigma_w: float = option(number(0), default=1.0, only=DRAWN, help="Standard deviation of the weights.")
    sigma_b: float = option(number(0), default=1.0, only=DRAWN, help="Standard deviation of the biases around −½ Σ weights.")
    observe: str | None = option(
        choice("border", "leaves"),
        "--draw-observed",
        group=INPUT,
        only=DRAWN,
        help="Also draw observed marginals, for the border variables of a grid or for leaves.",
    )
    sigma_alpha: float = option(
        number(0),
        default=1.0,
        only=(DRAWN, Condition("observe", why="without --draw-observed")),
        help="With --draw-observed: standard deviation σ of α in the observed marginals 1/(1+e^α), α ~ N(0, σ²).",
    )
    evidence: str | None = option(
        text(),
        "--observations",
        metavar="FILE",
        group=INPUT,
        record=where_changed(None, lambda value: "file"),
        only=OneOf("structure", "from-hmm", positional=True),
        help="With from-hmm: the observed rows; a column 'sequence' tells sequences apart.",
    )
    steps: int = option(
        whole(1),
        default=10,
        group=LEARNING,
        record=where_changed(10),
        only=OneOf("structure", "unroll", positional=True),
        help="With unroll: number of slices (time steps) of the result.",
    )
    format: str | None = shared_options.output_format(*shared_options.NETWORK_FORMATS, *DESCRIPTION_FORMATS)
    input_format: str | None = shared_options.network_format()
    missing_rows: str = shared_options.missing_rows()
    seed: int = shared_options.seed(only=SEEDED)
