"""herd convert: a data set in another format."""

from __future__ import annotations

import click

from herdcli.cli.options import input_argument, input_format_option, output_options, stage
from herdcli.cli.session import Session

FORMATS = ["hdf5", "parquet", "csv", "npz", "svmlight"]


@click.command("convert")
@input_argument
@click.option("--format", type=click.Choice(FORMATS), default=None, help="Write this.  [default: by the suffix of -o, else hdf5]")
@click.option("--label", default=None, metavar="COLUMN", help="The column of a table that holds the labels.  [default: y]")
@stage(input_format_option, output_options)
def command(session: Session, source: str, format: str | None, input_format: str | None, label: str | None) -> None:
    """Change a data set's format.

    \b
      herd data digits | herd convert - -o digits.parquet
      herd convert digits.parquet --format csv > digits.csv

    HDF5 and Parquet outputs are sealed artifacts and keep the record of where they come from; CSV,
    NPZ and svmlight are exports.
    """
    session.check_output("dataset", format)
    data = session.load(source, "data", kinds={"dataset"}, input_format=input_format, label=label)
    rows, columns = data.value.X.shape
    session.save(data.value, f"{rows} rows × {columns} columns", history=data, format=format)
