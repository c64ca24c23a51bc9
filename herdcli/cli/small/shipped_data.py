"""herd data: the data sets that ship inside the package."""

from __future__ import annotations

import shutil
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.common_options import output_options, stage
from herdcli.cli.frame.help_pages import Command
from herdcli.cli.frame.request import unrecorded
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session

SHIPPED = ("digits",)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd data`."""

    name: str = unrecorded()


@click.command("data", cls=Command)
@click.argument("name", type=click.Choice(SHIPPED))
@stage(Request, output_options)
def command(session: Session, request: Request) -> None:
    """Write a data set that ships with herd: a sealed HDF5 artifact.

    \b
      herd data digits -o digits.h5
      herd data digits | herd info

    digits: 1,797 handwritten digits of 8×8 pixels (UCI Optical Recognition, CC BY 4.0) with a
    stratified split 60/20/20.
    """
    from herdcli.artifacts.load_save import output_format
    from herdcli.cli.frame import outputs

    outputs.check_artifact(session, "dataset")
    with as_file(files("herdcli.data") / f"{request.name}.h5") as shipped:
        if output_format(session.output, None, "dataset") == "hdf5":
            outputs.write_side_file(session, session.output, partial(_copy_dataset, shipped))
            return
        found = session.load(str(shipped), "data", kinds={"dataset"})
        outputs.write_artifact(session, found.value, f"{len(found.value.X)} rows", history=outputs.RestoredHistory(found))


def _copy_dataset(shipped: Path, target: Path) -> None:
    shutil.copyfile(shipped, target)
