"""herd seal: renews the seal of a file that was edited on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.history.request import input_file_field
from herdcli.cli.frame.options.common_options import command_with_request
from herdcli.cli.frame.options.help_pages import Command
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd seal`."""

    sources: tuple[str, ...] = input_file_field()


@click.command("seal", cls=Command)
@click.argument("sources", metavar="FILE...", nargs=-1, required=True)
@command_with_request(Request)
def command(session: Session, request: Request) -> None:
    """Renew the seals of files that you edited on purpose, in place.

    \b
      herd data digits -o digits.h5
      herd seal digits.h5

    The seal is a digest of the contents, which herd checks when it reads a file.  Only the header line changes; if sealing
    fails, the file stays as it was.  An HDF5 file without a herd header is a data set that needs no seal;
    herd convert data.h5 -o sealed.h5 turns it into an artifact.
    """
    from herdcli.artifacts.sealed import sealing

    if "-" in request.sources:
        raise BadUsage(
            "stdin cannot be sealed, because the checksum is written into the file",
            hint="name a file: herd seal FILE; ./- is a file that is called -",
        )
    for path in request.sources:
        sealing.write_new_seal(path)
        session.console.detail(f"{path}: sealed")
