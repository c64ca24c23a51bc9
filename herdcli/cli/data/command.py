"""herd data: the data set in the package, and the data sets of the papers, which are downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.data.request import SHIPPED, Request
from herdcli.cli.frame.options.common_options import command_with_request, csv_output_options
from herdcli.cli.frame.options.help_pages import Command
from herdcli.datasets import registry
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("data", cls=Command)
@click.argument("name", metavar="[NAME]", type=click.Choice((*SHIPPED, *registry.dataset_names())), required=False)
@command_with_request(Request, csv_output_options)
def command(session: Session, request: Request) -> None:
    """Write an example data set: the digits that come with herd, or one of the papers, downloaded once.

    \b
      herd data digits -o digits.h5
      herd data --list
      herd data usps --accept-licence -o usps.h5
      herd data spam | herd nherd-train | herd eval
      herd data --all --accept-licence

    digits: 1,797 handwritten digits of 8×8 pixels (UCI Optical Recognition, CC BY 4.0) with a
    stratified split 60/20/20.

    The other sets are downloaded from their publishers, converted, checked and stored in the folder $HERD_DATA
    (default: in your cache folder); after that, no network is needed.  Downloads need pip install 'herdcli[data]'.
    A set whose licence is not free needs --accept-licence once.

    The published files are stored in $HERD_DATA/sources; files that you put there are used instead of downloads.
    $HERD_DATA_MIRROR lists addresses that are tried first, for converted sets and for published files.
    """
    from herdcli.cli.data import fetching, listing

    if request.where:
        listing.write_dataset_path(session, request.name)
    elif request.list_sets:
        listing.write_dataset_list(session)
    elif request.all_sets:
        fetching.download_paper_datasets(session, accept_licence=request.accept_licence)
    elif request.name is None:
        raise BadUsage("no data set is named", hint="list them: herd data --list")
    elif request.name in SHIPPED:
        fetching.write_shipped_dataset(session, request.name)
    else:
        fetching.write_downloaded_dataset(session, registry.find_dataset(request.name), accept_licence=request.accept_licence)
