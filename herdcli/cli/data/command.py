"""herd data: the data set that ships inside the package, and those of the papers, which are downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.data.request import SHIPPED, Request
from herdcli.cli.frame.options.common_options import output_options, stage
from herdcli.cli.frame.options.help_pages import Command
from herdcli.datasets import registry
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("data", cls=Command)
@click.argument("name", metavar="[NAME]", type=click.Choice((*SHIPPED, *registry.names())), required=False)
@stage(Request, output_options)
def command(session: Session, request: Request) -> None:
    """Write a data set: the digits that ship with herd, or a set of the papers, downloaded once.

    \b
      herd data digits -o digits.h5
      herd data --list
      herd data usps --accept-licence -o usps.h5
      herd data spam | herd nherd-train | herd eval
      herd data --all --accept-licence

    digits: 1,797 handwritten digits of 8×8 pixels (UCI Optical Recognition, CC BY 4.0) with a
    stratified split 60/20/20.

    The other sets are downloaded from where they are published, converted, checked and kept in the
    folder HERD_DATA, by default the user's cache folder. Sets that are there need no network. A set
    whose licence is not free asks for --accept-licence once. HERD_DATA_MIRROR names addresses that
    are tried first, for finished sets and for published files. Downloads need the extra: pip install
    'herdcli[data]'. Published files are kept in HERD_DATA/sources; a file put there by hand is used.
    """
    from herdcli.cli.data import fetching, listing

    if request.where:
        listing.write_place(session, request.name)
    elif request.list_sets:
        listing.write_list(session)
    elif request.all_sets:
        fetching.fetch_all(session, accept_licence=request.accept_licence)
    elif request.name is None:
        raise BadUsage("no data set is named", hint="herd data --list shows them")
    elif request.name in SHIPPED:
        fetching.write_shipped(session, request.name)
    else:
        fetching.write_downloaded(session, registry.entry(request.name), accept_licence=request.accept_licence)
