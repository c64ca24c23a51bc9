"""herd data: the data sets that ship inside the package."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files

import click

from herdcli.cli.frame.options import output_options, stage
from herdcli.cli.frame.session import Session

SHIPPED = ("digits",)


@click.command("data")
@click.argument("name", type=click.Choice(SHIPPED))
@stage(output_options)
def command(session: Session, name: str) -> None:
    """Write a data set that ships with herd: a sealed HDF5 artifact.

    \b
      herd data digits -o digits.h5
      herd data digits | herd info

    digits: 1,797 handwritten digits of 8×8 pixels (UCI Optical Recognition, CC BY 4.0) with a
    stratified split 60/20/20.
    """
    from herdcli.artifacts import publish

    with as_file(files("herdcli.data") / f"{name}.h5") as shipped, publish(session.output, clobber=session.clobber) as target:
        shutil.copyfile(shipped, target)
