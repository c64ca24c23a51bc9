"""herd network: the options for generated networks and network formats; the work is in herdcli.markov."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.options.common_options import (
    NETWORK_FORMATS,
    command_with_request,
    csv_output_options,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.network.request import DESCRIPTION_FORMATS, Request
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("network", cls=Command)
@click.argument("structure", type=click.Choice(["grid", "tree", "random", "convert", "describe", "from-hmm", "unroll"]))
@click.argument("source", metavar="[INPUT]", default="-", required=False)
@command_with_request(Request, csv_output_options)
def command(session: Session, request: Request) -> None:
    """Generate, convert or describe graphical models, or build one from an HMM or a template.

    \b
      herd network grid --grid-rows 10 --grid-columns 10 --sigma-w 2 | herd ups-infer --algorithm junction-tree
      herd network convert alarm.bif.gz -o alarm.uai
      herd network describe alarm.bif.gz -o alarm.csv
      herd network unroll weather.bif --steps 20 -o weather20.bif
      herd network from-hmm nights.em.h5 --observations night.csv | herd ups-infer --algorithm junction-tree

    grid, tree and random draw a Boltzmann machine with that graph.  convert changes the format of INPUT.  describe
    writes the parents, children, Markov blankets and ancestors of its variables, the moral graph and bounds on the
    treewidth, as JSON or as a table.  from-hmm turns an HMM from herd em and observed rows into a network.  unroll
    repeats a template, a network of two time slices: its variables are called X_0 in the first slice and X_t in
    the second (or X_0 and X_1, or X0 and Xt).

    Formats: HDF5 (the artifact), UAI (.uai) and libDAI factor graphs (.fg); for Bayesian networks also BIF (.bif),
    XMLBIF (.xmlbif, .bifxml, .xml), Hugin (.net) and GeNIe (.xdsl, .dsl).  Names that a format cannot hold are written
    to NAME.names.json, which is read together with the network.
    """
    from herdcli.cli.frame.rows import network_files
    from herdcli.cli.frame.rows.network_files import load_network
    from herdcli.cli.network import describe
    from herdcli.cli.network.inputs import read_or_generate_network

    described = request.structure == "describe"
    form = network_files.output_format(session, request.format or ("json" if described and session.output == "-" else None),
                                  DESCRIPTION_FORMATS if described else NETWORK_FORMATS)  # fmt: skip
    if (form in DESCRIPTION_FORMATS) != described:
        able = ", ".join(DESCRIPTION_FORMATS if described else NETWORK_FORMATS)
        raise BadUsage(f"herd network {request.structure} cannot write {form}", hint=f"use --format {able}")
    if request.structure == "convert" and request.format is None and session.output.lower().endswith((".csv", ".parquet")):
        hint = shlex.join(["herd", "convert", request.source, "-o", session.output])
        raise BadUsage("herd network convert writes networks, not tables", where=session.output, hint=hint)
    network_files.check_output(session, "dataset" if described else "network", form)
    if described:
        describe.write_description(session, load_network(session, request.source, request.input_format), form, request.seed)
        return
    network, history = read_or_generate_network(session, request)
    observed = len(network.stored_marginals())
    summary = f"{network.listed_count} variables, {network.factor_count - network.auxiliary} factors" + (
        f", {observed} observed marginals" if observed else ""
    )
    if observed and form != "hdf5":
        session.console.warn(f"{form} cannot hold observed marginals: they are left out (HDF5 keeps them)")
    network_files.write_network(session, network, summary, form, history)
