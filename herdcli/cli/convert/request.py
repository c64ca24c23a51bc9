"""The options of `herd convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.history.request import field_recorded_as, field_recorded_if_given, input_file_field, unrecorded_field
from herdcli.cli.frame.options import shared_options, unit_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    OUTPUT,
    Excludes,
    choice_kind,
    custom_syntax_kind,
    flag,
    integer_kind,
    number_kind,
    option,
    repeated_option,
    text_kind,
)
from herdcli.kinds import KINDS, kinds_with
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts.tables.condition_holdout import ConditionHoldout


FORMATS = ("hdf5", "parquet", "csv", "npz", "svmlight", "wav", "netcdf", "safetensors", "onnx", "vw")


def _parse_hold_out(text: str) -> ConditionHoldout:
    from herdcli.artifacts.tables import condition_holdout

    return condition_holdout.parse_holdout(text)


HOLD_OUT = custom_syntax_kind("[NAME:]COLUMN[=VALUE,…]", _parse_hold_out)


def _mask_for_record(text: str | None) -> str | None:
    """Return the record of --mask: an ellipse as typed, or `file`, since the file's content is among the inputs."""
    return text if text is None or is_ellipse(text) else "file"


def is_ellipse(text: str) -> bool:
    """Whether --mask names an ellipse instead of a file."""
    return text.partition(":")[0] == "ellipse"


def _exported_kinds() -> str:
    """Return, for each format of models, the kinds of artifacts that can be written in it, in words."""
    formats = [form for form in FORMATS if form in ("safetensors", "onnx", "vw")]
    return "; ".join(f"{form} of {', '.join(sorted(name for name in KINDS if form in KINDS[name].exports))}" for form in formats)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd convert`; names and meanings are those of its --help."""

    source: str = input_file_field()
    input_format: str | None = shared_options.input_format_option()
    format: str | None = option(
        choice_kind(*FORMATS),
        group=OUTPUT,
        record=unrecorded_field(),
        help=f"Format of the output.  Models: {_exported_kinds()}.  [default: by the suffix of -o, else hdf5]",
    )
    label: str | None = option(
        text_kind(),
        metavar="COLUMN",
        group=INPUT,
        help="Column with the labels, or none to use no labels.  [default: y, label, class or target]",
    )
    to: str = option(
        choice_kind("dataset", *kinds_with("imports")),
        default="dataset",
        help="Kind of the result.  rbm and dbn import weights from NPZ, HDF5 or safetensors, named W, b, c (or as in scikit-learn, or "
        "weight_matrix, vbias, hbias; dbn: layers.0.W, …); classifier imports Vowpal Wabbit's readable model.",
    )
    units: str = unit_options.units_option()
    visible_units: str | None = unit_options.visible_units_option()
    hidden_units: str | None = unit_options.hidden_units_option()
    threshold: float | None = option(
        number_kind(0, 1), group=INPUT, help="With --to rbm or dbn: fraction of the range at or above which pixels were on in training."
    )
    value_range: tuple[float, float] | None = option(
        shared_options.INTERVAL,
        "--range",
        metavar="LO,HI",
        group=INPUT,
        help="With --to rbm or dbn: lowest and highest value of the training data, such as 0,255.",
    )
    subsample: int | None = option(integer_kind(2), metavar="F", help="Images: shrink by averaging squares of F × F pixels.")
    mask: str | None = option(
        text_kind(),
        metavar="FILE|ellipse[:ACROSS,DOWN]",
        record=field_recorded_as(_mask_for_record),
        help="Images: set pixels outside the mask to the lowest value; FILE has one row, with 0 outside.",
    )
    equalize: bool = flag(help="Images: give all images their common histogram of grey values, inside the mask.")
    transpose: bool = flag(help="Swap rows and columns before anything else.")
    patches: int | None = option(
        integer_kind(1),
        metavar="SIZE",
        only=Excludes("segments", refusal="--patches and --segments exclude each other", hint="ask for one at a time"),
        help="Images: cut out squares of SIZE × SIZE pixels at random positions.",
    )
    segments: int | None = option(
        integer_kind(1),
        metavar="LENGTH",
        help="Signals: cut out segments of LENGTH rows at random positions (rows are points in time, columns are signals).",
    )
    count: int | None = option(integer_kind(1), "-m", "--count", help="Number of patches or segments.  [default: 10000]")
    binarize: str | None = option(
        choice_kind("median", "stochastic"),
        record=field_recorded_if_given(),
        help="Make values 0 or 1.  median: split each column at the median of its training rows; stochastic: 1 with a probability "
        "equal to the value as a fraction of the value range, drawn by --seed.",
    )
    log: bool = flag(help="Replace each value x by log(1 + x), for intensities.")
    keep: tuple[str, ...] = repeated_option(
        text_kind(),
        "--keep-column",
        metavar="COLUMN",
        group=INPUT,
        help="Keep this column too, from a file that herd did not write.  May be repeated.",
    )
    hold_outs: tuple[ConditionHoldout, ...] = repeated_option(
        HOLD_OUT,
        "--hold-out",
        metavar="[NAME:]COLUMN[=VALUE,…]",
        group=INPUT,
        help="For some of the labels, make rows with these values test rows and the other rows training rows.  May be repeated.",
    )
    split: str | None = option(
        text_kind(),
        metavar="TRAIN,VALID,TEST",
        group=INPUT,
        help="Draw a new split by --seed: counts or fractions of the rows of each class; the remaining rows are left out.",
    )
    seed: int = shared_options.seed_option()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be read: those of --keep-column and those of --hold-out."""
        return tuple(dict.fromkeys([*self.keep, *(one.column for one in self.hold_outs)]))
