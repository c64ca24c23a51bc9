"""What a user asks of `herd convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.history.request import as_recorded, input_file, unrecorded, where_given
from herdcli.cli.frame.options import shared_options, unit_options
from herdcli.cli.frame.options.declaration import INPUT, OUTPUT, Excludes, choice, flag, number, option, parsed, repeated, text, whole
from herdcli.kinds import kinds_with
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts.tables.condition_holdout import ConditionHoldout


FORMATS = ("hdf5", "parquet", "csv", "npz", "svmlight", "wav", "netcdf", "safetensors", "onnx", "vw")


def _parse_hold_out(text: str) -> ConditionHoldout:
    from herdcli.artifacts.tables import condition_holdout

    return condition_holdout.parse_holdout(text)


HOLD_OUT = parsed("[NAME:]COLUMN[=VALUE,…]", _parse_hold_out)


def _recorded_mask(text: str | None) -> str | None:
    """An ellipse is recorded as it was typed, the content of a file is among the inputs."""
    return text if text is None or is_ellipse(text) else "file"


def is_ellipse(text: str) -> bool:
    """Whether --mask asks for an ellipse, and not for a file."""
    return text.partition(":")[0] == "ellipse"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd convert`; names and meanings are those of its --help."""

    source: str = input_file()
    input_format: str | None = shared_options.input_format()
    format: str | None = option(
        choice(*FORMATS), group=OUTPUT, record=unrecorded(), help="Write this format.  [default: by the suffix of -o, else hdf5]"
    )
    label: str | None = option(text(), metavar="COLUMN", group=INPUT, help="Column that holds the labels; none: no labels.  [default: y]")
    to: str = option(
        choice("dataset", *kinds_with("imports")),
        default="dataset",
        help="What INPUT becomes; rbm: weights W, b, c, or those of scikit-learn, or weight_matrix, vbias, hbias, from NPZ, HDF5 or "
        "safetensors; dbn: layers.0.W, …; classifier: Vowpal Wabbit's readable model.",
    )
    units: str = unit_options.units()
    visible_units: str | None = unit_options.visible_units()
    hidden_units: str | None = unit_options.hidden_units()
    threshold: float | None = option(
        number(0, 1), group=INPUT, help="--to rbm, dbn: pixels were on from this fraction of the range upwards."
    )
    value_range: tuple[float, float] | None = option(
        shared_options.INTERVAL,
        "--range",
        metavar="LO,HI",
        group=INPUT,
        help="--to rbm, dbn: the range of the data's values.",
    )
    subsample: int | None = option(whole(2), metavar="F", help="Images: take means of F × F pixels.")
    mask: str | None = option(
        text(),
        metavar="FILE|ellipse[:ACROSS,DOWN]",
        record=as_recorded(_recorded_mask),
        help="Images: set pixels outside to the lowest value; FILE has one row, 0 outside.",
    )
    equalize: bool = flag(help="Images: equalise them to their common histogram, inside the mask.")
    transpose: bool = flag(help="Swap rows and columns before anything else.")
    patches: int | None = option(
        whole(1),
        metavar="SIZE",
        only=Excludes("segments", refusal="--patches and --segments cut in different ways", hint="ask for one at a time"),
        help="Cut squares of SIZE pixels from pictures, at random places.",
    )
    segments: int | None = option(
        whole(1),
        metavar="LENGTH",
        help="Cut stretches of LENGTH rows from the columns, at random places (rows are points in time, columns signals).",
    )
    count: int | None = option(whole(1), "-m", "--count", help="How many patches or segments.  [default: 10000]")
    binarize: str | None = option(
        choice("median", "stochastic"),
        record=where_given(),
        help="Zeros and ones. median: 1 from a cut upwards that divides the column's training rows nearest to halves. "
        "stochastic: drawn with the seed, 1 with the probability that the value is as a share of the value range.",
    )
    log: bool = flag(help="Replace every intensity x by log(1 + x).")
    keep: tuple[str, ...] = repeated(
        text(), metavar="COLUMN", group=INPUT, help="Keep another column of an unsealed file.  May be repeated."
    )
    hold_outs: tuple[ConditionHoldout, ...] = repeated(
        HOLD_OUT,
        "--hold-out",
        metavar="[NAME:]COLUMN[=VALUE,…]",
        group=INPUT,
        help="Test some labels on rows with these values, and train on their other rows.  May be repeated.",
    )
    split: str | None = option(
        text(),
        metavar="TRAIN,VALID,TEST",
        group=INPUT,
        help="Draw a new split with the seed: rows per class, as counts or fractions; other rows are left out.",
    )
    seed: int = shared_options.seed()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be read: those to keep, and those that hold out."""
        return tuple(dict.fromkeys([*self.keep, *(one.column for one in self.hold_outs)]))
