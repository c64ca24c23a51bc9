"""The command `herd ups-infer`: options for inference in Markov networks; the algorithms are in herdcli.markov."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.options.common_options import (
    checkpoint_options,
    command_with_request,
    csv_output_options,
    input_argument,
    threads_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run import shards
from herdcli.cli.ups_infer.request import QUESTIONS, RESUMED, Request

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("ups-infer", cls=Command)
@input_argument
@command_with_request(
    Request,
    threads_option,
    shards.shard_option.with_conditions(shard=QUESTIONS),
    checkpoint_options.with_conditions(checkpoint=RESUMED),
    csv_output_options,
)
def command(session: Session, request: Request) -> None:
    """Compute marginals, log Z or most probable states of a Markov or Bayesian network, exactly or approximately.

    \b
      herd network grid --sigma-w 2 | herd ups-infer --algorithm ups -o marginals.h5
      herd network grid --sigma-w 2 | herd ups-infer -o exact.h5
      herd network grid --sigma-w 2 | herd ups-infer --algorithm bp --format mar

    INPUT is a network: UAI, libDAI .fg, BIF, XMLBIF, Hugin .net or GeNIe .xdsl text, or an artifact.  The result holds the
    marginals of variables and cliques, and log Z; in a Bayesian network this is the log probability of the evidence.

    What is known: --evidence fixes states, --observe fixes marginals (generalised inference), and --soft-evidence
    multiplies states by weights.  --evidence-rows reads a table with many cases of evidence and writes a table of
    marginals; with --slices, its rows are the time slices of a dynamic Bayesian network.

    --query asks for something other than marginals: most probable states, joint tables, bounds on log Z, or sensitivities.
    """
    from herdcli.cli.frame.rows.network_files import load_network
    from herdcli.cli.ups_infer import evidence_rows, inputs, queries, runs, template_slices

    form = queries.output_format(session, request.query_kind, request.format, request.evidence_rows)
    loaded = load_network(session, request.source, request.input_format)
    if request.slices:
        template_slices.infer_slices(session, loaded, request)
        return
    network, evidence = inputs.condition_network(session, loaded.value, request)
    request.warn_of_exact_tree(session, bool(network.stored_marginals()))
    with inputs.add_evidence_to_hint(loaded.value, evidence):
        if not request.asks_marginals:
            queries.answer_query(session, loaded, (network, evidence), request, form)
        elif request.evidence_rows:
            evidence_rows.infer_rows(session, loaded, (network, evidence), request)
        else:
            runs.infer_network(session, loaded, (network, evidence), request)
