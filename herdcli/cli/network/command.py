"""herd network: options of generated networks and of their formats; the work is in herdcli.markov."""

from __future__ import annotations

from typing import Any

import click

from herdcli.cli.frame.options import output_options, seed_option, stage
from herdcli.cli.frame.session import Session
from herdcli.cli.network.files import FORMATS, check_text_output, load_network, network_format_option, output_format, write_network

USED_BY = {"rows": ("grid",), "columns": ("grid",), "nodes": ("tree", "random"), "degree": ("random",)}
MADE = ("sigma_w", "sigma_b", "observe", "sigma_alpha", "seed")


@click.command("network")
@click.argument("structure", type=click.Choice(["grid", "tree", "random", "convert"]))
@click.argument("source", metavar="[NETWORK]", default="-", required=False)
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
@click.option("--format", type=click.Choice(FORMATS), default=None, help="Write this.  [default: by the suffix of -o, else hdf5]")
@stage(network_format_option, seed_option, output_options)
def command(session: Session, structure: str, source: str, format: str | None, input_format: str | None, **options: Any) -> None:
    """Make a Boltzmann machine on a grid, tree or random graph, or convert a network to another format.

    \b
      herd network grid --rows 10 --columns 10 --sigma-w 2 | herd ups-infer --algorithm junction-tree
      herd network convert alarm.bif.gz -o alarm.uai

    Formats: UAI (.uai), libDAI factor graphs (.fg), Bayesian networks (.bif), and the artifact (HDF5).
    """
    form = output_format(session, format, FORMATS)
    check_text_output(session, "network", form)
    if structure == "convert":
        for option in (*USED_BY, *MADE):
            session.ignored(option, "with convert")
        found = load_network(session, source, input_format)
        made, history = found.value, found
    else:
        from herdcli.markov.model import generate

        for option, users in USED_BY.items():
            if structure not in users:
                session.ignored(option, f"with {structure}")
        if options["observe"] is None:
            session.ignored("sigma_alpha", "without --observe")
        made, history = generate.make(structure, **options), None
    observed = len(made.observations())
    summary = f"{made.count} variables, {made.factor_count} factors" + (f", {observed} observed marginals" if observed else "")
    if observed and form != "hdf5":
        session.console.warn(f"{form} holds no observed marginals: they are left out (HDF5 keeps them)")
    write_network(session, made, summary, form, history)
