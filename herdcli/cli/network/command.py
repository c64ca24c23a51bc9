"""herd network: options of generated networks and of their formats; the work is in herdcli.markov."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.helping import Command
from herdcli.cli.frame.options import (
    NETWORK_FORMATS,
    format_option,
    missing_rows_option,
    network_format_option,
    output_options,
    seed_option,
    stage,
)
from herdcli.cli.network.request import DESCRIPTION_FORMATS, Request
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session


@click.command("network", cls=Command)
@click.argument("structure", type=click.Choice(["grid", "tree", "random", "convert", "describe", "from-hmm", "unroll"]))
@click.argument("source", metavar="[INPUT]", default="-", required=False)
@click.option("--rows", type=click.IntRange(1), default=5, show_default=True, help="Rows of a grid.")
@click.option("--columns", type=click.IntRange(1), default=5, show_default=True, help="Columns of a grid.")
@click.option("--nodes", type=click.IntRange(1), default=25, show_default=True, help="Variables of a tree or random graph.")
@click.option("--degree", type=click.FloatRange(0), default=4.0, show_default=True, help="Mean number of neighbours in a random graph.")
@click.option("--sigma-w", type=click.FloatRange(0), default=1.0, show_default=True, help="Standard deviation of the weights.")
@click.option(
    "--sigma-b", type=click.FloatRange(0), default=1.0, show_default=True, help="Standard deviation of the biases around −½ Σ weights."
)
@click.option(
    "--observe", type=click.Choice(["border", "leaves"]), default=None, help="Give marginals for the border of a grid, or for leaves."
)
@click.option(
    "--sigma-alpha", type=click.FloatRange(0), default=1.0, show_default=True, help="Observed marginals are 1/(1+e^α), α ~ N(0, σ²)."
)
@click.option(
    "--evidence", default=None, metavar="FILE", help="The rows that the states of from-hmm emitted; a column 'sequence' divides them."
)
@click.option("--steps", type=click.IntRange(1), default=10, show_default=True, help="Slices of unroll.")
@format_option((*NETWORK_FORMATS, *DESCRIPTION_FORMATS))
@stage(Request, network_format_option, missing_rows_option, seed_option, output_options)
def command(session: Session, request: Request) -> None:
    """Make a Boltzmann machine on a grid, tree or random graph, convert or describe a network, or make one of an HMM or a template.

    \b
      herd network grid --rows 10 --columns 10 --sigma-w 2 | herd ups-infer --algorithm junction-tree
      herd network convert alarm.bif.gz -o alarm.uai
      herd network describe alarm.bif.gz -o alarm.csv
      herd network unroll weather.bif --steps 20 -o weather20.bif
      herd network from-hmm nights.em.h5 --evidence night.csv | herd ups-infer --algorithm junction-tree

    INPUT is the network of convert and describe, the hmm of from-hmm, or the template of unroll: a network of two slices, whose variables
    are called X_0 in the first and X_t in the present one (X_0 and X_1, or X0 and Xt, are taken too).  describe writes parents, children,
    Markov blankets, ancestors, the moral graph and bounds on treewidth, as JSON or as a table.

    Formats: UAI (.uai), libDAI factor graphs (.fg), the artifact (HDF5); of Bayesian networks also BIF (.bif), XMLBIF (.xmlbif, .bifxml,
    .xml), Hugin (.net) and GeNIe (.xdsl, .dsl).  Names that a format cannot hold go into NAME.names.json beside it, which is read with
    it again.
    """
    from herdcli.cli.frame import networks
    from herdcli.cli.frame.networks import load_network
    from herdcli.cli.network import describe
    from herdcli.cli.network.inputs import made

    described = request.structure == "describe"
    form = networks.output_format(session, request.format or ("json" if described and session.output == "-" else None),
                                  DESCRIPTION_FORMATS if described else NETWORK_FORMATS)  # fmt: skip
    if (form in DESCRIPTION_FORMATS) != described:
        able = ", ".join(DESCRIPTION_FORMATS if described else NETWORK_FORMATS)
        raise BadUsage(f"herd network {request.structure} writes no {form}", hint=f"--format {able}")
    networks.check(session, "dataset" if described else "network", form)
    request.warn_of_ignored(session)
    if described:
        describe.describe(session, load_network(session, request.source, request.input_format, request.missing_rows), form, request.seed)
        return
    network, history = made(session, request)
    observed = len(network.observations())
    summary = f"{network.count} variables, {network.factor_count} factors" + (f", {observed} observed marginals" if observed else "")
    if observed and form != "hdf5":
        session.console.warn(f"{form} cannot hold observed marginals: they are left out (HDF5 keeps them)")
    networks.write_network(session, network, summary, form, history)
