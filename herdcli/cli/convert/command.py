"""herd convert: a data set in another format; its images normalised, its rows split or cut into pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.convert.request import Request
from herdcli.cli.frame.options.common_options import cleaning_options, input_argument, output_options, stage, weights_option
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run.shards import row_shard_option

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("convert", cls=Command)
@input_argument
@stage(Request, weights_option, cleaning_options, row_shard_option, output_options)
def command(session: Session, request: Request) -> None:
    """Change a data set's format; normalise its images, cut pictures and signals into pieces, draw its split.

    \b
      herd data digits | herd convert - -o digits.parquet
      herd convert digits.parquet --format csv > digits.csv
      herd data digits | herd convert --patches 4 --count 1000 --log -o patches.h5
      herd convert weights.safetensors --to rbm -o model.h5
      herd data digits | herd fit-rbm --hidden 20 --epochs 2 | herd convert -o model.onnx
      herd data digits | herd convert --subsample 2 --mask ellipse --equalize --split .5,0,.5 -o small.h5

    --patches cuts squares from pictures, --segments stretches from signals, both at random places drawn with
    the seed; labels and splits are kept.  --hold-out makes a split that tests some labels under a condition
    they were not trained in.  --to rbm, dbn or classifier reads weights learned by another program, for
    herd eval --data.  HDF5 and Parquet outputs are sealed artifacts that record where they come from; CSV,
    NPZ, svmlight and netCDF (ArviZ, also of samples and herding) are plain exports.

    Rows that go as they are from a large HDF5 or Parquet file into HDF5, Parquet or CSV are never in memory together.

    INPUT may be a model: rbm, dbn and ica become .safetensors, these, classifiers and regressions .onnx, and
    classifiers of hashed text .vw, Vowpal Wabbit's readable weights.
    """
    from herdcli.artifacts.formats import format_detection
    from herdcli.cli.convert.datasets import convert
    from herdcli.cli.convert.model_weights import OF_WEIGHTS, export_model, import_model, warn_of_ignored_options

    form = request.format or format_detection.output_format_from_suffix(session.output)
    if request.to != "dataset":
        import_model(session, request)
    elif form in format_detection.OF_MODELS:
        export_model(session, request, form)
    else:
        warn_of_ignored_options(session, OF_WEIGHTS, "without --to rbm or dbn")
        convert(session, request)
