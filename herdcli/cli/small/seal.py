"""herd seal: seal a file again after it was edited on purpose."""

from __future__ import annotations

import click

from herdcli.cli.frame.options import stage
from herdcli.cli.frame.session import Session


@click.command("seal")
@click.argument("sources", metavar="FILE...", nargs=-1, required=True)
@stage()
def command(session: Session, sources: tuple[str, ...]) -> None:
    """Seal files that were edited on purpose, in place and whole or not at all.

    \b
      herd data digits -o digits.h5
      herd seal digits.h5

    Only the header line changes.  An HDF5 file without a herd header is a data set that needs no
    seal; `herd convert data.h5 -o sealed.h5` makes an artifact of it.
    """
    from herdcli.artifacts import seal

    for path in sources:
        seal.reseal(path)
        session.console.detail(f"{path}: sealed")
