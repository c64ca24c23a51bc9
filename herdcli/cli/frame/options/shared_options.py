"""Options that several requests declare with the same meaning, each in one place.

class Request:
    label: str | None = shared_options.label()
    seed: int = shared_options.seed()
"""

from __future__ import annotations

import csv
import re

import click

from herdcli.cli.frame.history.request import field_recorded_if_changed, unrecorded_field
from herdcli.cli.frame.options.declaration import (
    FILE_PATH,
    INPUT,
    LEARNING,
    MODEL,
    OUTPUT,
    Condition,
    Excludes,
    ValueKind,
    choice_kind,
    custom_syntax_kind,
    flag,
    format_number,
    integer_kind,
    number_kind,
    option,
    text_kind,
)

TABLE_FORMATS = ("hdf5", "parquet", "csv", "npz", "npy", "svmlight", "arrow", "excel", "idx", "json", "matlab", "wav")
NETWORK_FORMATS = ("hdf5", "uai", "fg", "bif", "xmlbif", "net", "xdsl", "dsl")
EXACT = (
    "Make the output identical, byte for byte, on every x86-64 processor and with any BLAS library.  "
    "Takes up to 1.7 times the CPU time; options that do not support it are refused."
)
WITHOUT_EXACT = "leave out --exact; results may then differ in the last digits between machines"
PLOT = ValueKind[tuple[str, str]](click.Tuple([str, FILE_PATH]))  # the name of a plot, and its file


def _parse_interval(text: str) -> tuple[float, float]:
    low, comma, high = text.partition(",")
    try:
        limits = float(low), float(high)
    except ValueError:
        raise ValueError("is not of the form LO,HI") from None
    if not (comma and limits[0] < limits[1]):
        raise ValueError("must be two numbers LO,HI, the smaller one first")
    return limits


def _parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", text.strip())
    if not match:
        raise ValueError("is not a size such as 500M or 2G")
    number, unit, binary = match.groups()
    size = int(float(number) * (1024 if binary else 1000) ** " kMGT".index(unit or " "))
    if size == 0:
        raise ValueError("must be above 0")
    return size


def _format_size(size: int) -> str:
    unit, factor = next((unit, 1000**power) for power, unit in ((4, "T"), (3, "G"), (2, "M"), (1, "k"), (0, "")) if not size % 1000**power)
    return f"{size // factor}{unit}"


def _parse_columns(text: str) -> tuple[str, ...]:
    try:
        names = tuple(cell.strip() for cell in next(csv.reader([text], skipinitialspace=True), []) if cell.strip())
    except csv.Error as error:  # a line end outside of quotes, or a name longer than csv takes
        raise ValueError(f"is not a list of names ({error}); put names with line ends in double quotes") from None
    if not names:
        raise ValueError("names no column")
    return names


def _format_columns(names: tuple[str, ...]) -> str:
    return ",".join('"{}"'.format(name.replace('"', '""')) if any(mark in name for mark in ',"\n\r') else name for name in names)


def _parse_sizes(text: str) -> tuple[int, ...]:
    sizes = text.split(",")
    if not all(size.isdecimal() and int(size) for size in sizes):
        raise ValueError("is not a list of numbers of hidden units, such as 500,250")
    return tuple(map(int, sizes))


def _parse_penalty(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        penalty = float(text)
    except ValueError:
        penalty = -1.0
    if not 0 <= penalty < float("inf"):
        raise ValueError("is neither 'auto' nor a number of at least 0")
    return penalty


def _format_penalty(penalty: float | str) -> str:
    return penalty if isinstance(penalty, str) else format_number(penalty)


PENALTY = custom_syntax_kind("auto|float", _parse_penalty, _format_penalty)
SIZE = custom_syntax_kind("size", _parse_size, _format_size)  # in bytes, with an optional unit: 500M, 2G, 1.5GiB
SIZES = custom_syntax_kind(
    "n,n,…", _parse_sizes, lambda sizes: ",".join(map(str, sizes))
)  # of the layers of hidden units, the lowest layer first
COLUMNS = custom_syntax_kind("columns", _parse_columns, _format_columns)  # separated by commas; names that contain a comma are quoted
INTERVAL = custom_syntax_kind("lo,hi", _parse_interval, lambda limits: ",".join(map(format_number, limits)))


def input_format_option() -> str | None:
    """Declare --input-format of commands that read tables."""
    return option(
        choice_kind(*TABLE_FORMATS), group=INPUT, record=unrecorded_field(), help="Read the input as this format.  [default: detected]"
    )


def network_format_option() -> str | None:
    """Declare --input-format of commands that read networks."""
    return option(
        choice_kind(*NETWORK_FORMATS), group=INPUT, record=unrecorded_field(), help="Read the network as this format.  [default: detected]"
    )


def missing_rows_option() -> str:
    """Declare --missing-rows of commands that read networks."""
    return option(
        choice_kind("refuse", "uniform"),
        default="refuse",
        record=field_recorded_if_changed("refuse"),
        help="Bayesian networks from bnlearn: refuse tables with rows of NaN (parent states without data), or make these rows uniform.",
    )


def output_format_option(*formats: str) -> str | None:
    """Declare --format of commands that write one of these formats."""
    uai = "; mar, pr and map: text files of the UAI competitions with marginals, log Z and most probable states" if "mar" in formats else ""
    help = f"Format of the result{uai}.  [default: by the suffix of -o, else hdf5]"
    return option(choice_kind(*formats), group=OUTPUT, record=unrecorded_field(), help=help)


def label_option(only: tuple[Condition, ...] | Condition = ()) -> str | None:
    """Declare --label."""
    help = "Column of class labels; none: without labels.  [default: y, label, class or target, if needed]"
    return option(text_kind(), metavar="COLUMN", group=INPUT, only=only, help=help)


def split_option(only: tuple[Condition, ...] | Condition = ()) -> str | None:
    """Declare --split."""
    return option(
        text_kind(),
        metavar="TRAIN,VALID,TEST",
        group=INPUT,
        only=only,
        help="Divide the rows at random: fractions (.6,.2,.2) or rows per class (9,0,3); or 2/5: fold 2 of 5 "
        "(2/5,no-valid: without validation rows).  "
        "[default: the split of the input, else .6,.2,.2]",
    )


def threshold_option(only: tuple[Condition, ...] | Condition = ()) -> float | None:
    """Declare --threshold of commands that binarise values."""
    return option(
        number_kind(0, 1),
        group=INPUT,
        only=only,
        help="Make values binary: 1 from this fraction of --range upwards (0.5: from its middle), else 0.",
    )


def value_range_option(only: tuple[Condition, ...] | Condition = ()) -> tuple[float, float] | None:
    """Declare --range of commands that need the range of the values."""
    return option(INTERVAL, "--range", metavar="LO,HI", group=INPUT, only=only, help="Lowest and highest possible value, such as 0,255.")


def seed_option(only: tuple[Condition, ...] | Condition = ()) -> int:
    """Declare --seed; the seed is stored with the result."""
    return option(integer_kind(0, 2**64 - 1), default=0, group=LEARNING, only=only, help="Seed of the random numbers.")


def exact_option(only: tuple[Condition, ...] | Condition = ()) -> bool:
    """Declare --exact, which makes results identical on every x86-64 processor."""
    return flag(group=MODEL, record=field_recorded_if_changed(False), only=only, help=EXACT)


def excludes_exact(*names: str) -> Condition:
    """Return the condition of --exact that excludes these options."""
    return Excludes(*names, refusal="--exact does not work with {other}", hint=WITHOUT_EXACT)


def iterations_option(only: tuple[Condition, ...] | Condition = ()) -> int:
    """Declare --iterations of algorithms that run until they converge."""
    return option(integer_kind(1), default=1000, group=LEARNING, only=only, help="Maximum number of iterations.")


def nonconvergence_option(only: tuple[Condition, ...] | Condition = ()) -> str:
    """Declare --on-nonconvergence of algorithms that may end without convergence."""
    help = "What to do if the run has not converged after --iterations."
    return option(choice_kind("warn", "error"), default="warn", group=LEARNING, only=only, help=help)
