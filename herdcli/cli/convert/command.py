"""herd convert: data sets in other formats, with images normalised and rows split or cut into pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.convert.request import Request
from herdcli.cli.frame.options.common_options import (
    cleaning_options,
    command_with_request,
    csv_output_options,
    input_argument,
    weights_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run.shards import row_shard_option

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("convert", cls=Command)
@input_argument
@command_with_request(Request, weights_option, cleaning_options, row_shard_option, csv_output_options)
def command(session: Session, request: Request) -> None:
    """Convert data sets and models between formats, and preprocess images, signals and splits.

    \b
      herd data digits | herd convert - -o digits.parquet
      herd convert digits.parquet --format csv > digits.csv
      herd data digits | herd convert --patches 4 --count 1000 --log -o patches.h5
      herd convert weights.safetensors --to rbm -o model.h5
      herd data digits | herd fit-rbm --hidden 20 --epochs 2 | herd convert -o model.onnx
      herd data digits | herd convert --subsample 2 --mask ellipse --equalize --split .5,0,.5 -o small.h5

    HDF5 and Parquet outputs are sealed artifacts, which record their history.  CSV, NPZ, svmlight and netCDF
    are plain exports; netCDF, for ArviZ, also takes the artifacts of kernel-herd and herd.  Large HDF5 and Parquet
    files are copied to HDF5, Parquet or CSV block by block if their rows do not change.  CSV has names and labels
    unchanged: a spreadsheet takes those that begin with =, +, - or @ for formulas.

    --patches and --segments cut pieces from images and signals, and keep labels and splits.  --hold-out makes a
    split that tests some labels under a condition that they were not trained in.

    Other artifacts: -o TABLE.csv or TABLE.parquet writes the main table: coefficients, components, weights, probabilities or atoms.

    Models: --to rbm, dbn or classifier imports weights of another program.  As INPUT, an rbm, dbn, ica or perceptron
    can be written as .safetensors or .onnx, a classifier or regression as .onnx, and a classifier of hashed text as
    .vw, Vowpal Wabbit's readable weights.
    """
    from herdcli.artifacts.formats import format_detection
    from herdcli.cli.convert.datasets import convert_dataset
    from herdcli.cli.convert.model_weights import OF_WEIGHTS, export_model, import_model, warn_of_ignored_options

    form = request.format or format_detection.output_format_from_suffix(session.output)
    if request.to != "dataset":
        import_model(session, request)
    elif form in format_detection.OF_MODELS:
        export_model(session, request.source, form)
    else:
        warn_of_ignored_options(session, OF_WEIGHTS, "without --to rbm or dbn")
        convert_dataset(session, request)
