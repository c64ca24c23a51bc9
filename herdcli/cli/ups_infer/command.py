"""herd ups-infer: options of inference in Markov networks; the algorithms are in herdcli.markov."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.options.common_options import (
    checkpoint_options,
    format_option,
    input_argument,
    missing_rows_option,
    network_format_option,
    output_options,
    seed_option,
    stage,
    threads_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run import shards
from herdcli.cli.ups_infer.options import (
    algorithm_options,
    auto_options,
    evidence_options,
    gibbs_options,
    iteration_options,
    result_options,
)
from herdcli.cli.ups_infer.query_options import query_options
from herdcli.cli.ups_infer.request import FORMATS, Request

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("ups-infer", cls=Command)
@input_argument
@format_option(FORMATS)
@stage(
    Request,
    algorithm_options,
    auto_options,
    iteration_options,
    gibbs_options,
    query_options,
    evidence_options,
    result_options,
    network_format_option,
    missing_rows_option,
    seed_option,
    threads_option,
    shards.shard_option,
    checkpoint_options,
    output_options,
)
def command(session: Session, request: Request) -> None:
    """Infer marginals and log Z of a Markov network, exactly or by minimising its Bethe free energy.

    \b
      herd network grid --sigma-w 2 | herd ups-infer --algorithm ups -o marginals.h5
      herd network grid --sigma-w 2 | herd ups-infer -o exact.h5
      herd network grid --sigma-w 2 | herd ups-infer --observe x0=0.2,0.8 --algorithm ups --format mar

    NETWORK is UAI, libDAI .fg, BIF, XMLBIF, Hugin .net or GeNIe .xdsl text, or a `network` artifact.  --evidence fixes the states of
    variables, --observe their marginals (generalised inference), --likelihood multiplies a factor in.  --evidence-rows takes
    a table of evidence and writes a table of marginals; with --slices its rows are the slices of a template.  --query asks for
    likeliest states, joint tables, bounds on log Z or sensitivities instead of marginals.
    """
    from herdcli.cli.frame.rows.network_files import load_network
    from herdcli.cli.ups_infer import evidence_rows, inputs, queries, runs, template_slices

    form = queries.output_format(session, request)
    loaded = load_network(session, request.source, request.input_format, request.missing_rows)
    if request.slices:
        template_slices.infer_slices(session, loaded, request)
        return
    network, evidence = inputs.condition_network(session, loaded.value, request)
    request.warn_of_ignored(session, bool(network.observations()))
    with inputs.name_impossible_evidence(loaded.value, evidence):
        if queries.is_other_query(request):
            queries.answer_query(session, loaded, (network, evidence), request, form)
        elif request.evidence_rows:
            evidence_rows.infer_rows(session, loaded, (network, evidence), request)
        else:
            runs.infer_network(session, loaded, (network, evidence), request)
