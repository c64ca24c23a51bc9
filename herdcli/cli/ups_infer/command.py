"""herd ups-infer: options of inference in Markov networks; the algorithms are in herdcli.markov."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import click

from herdcli.cli.frame import shards
from herdcli.cli.frame.options import checkpoint_options, input_argument, output_options, seed_option, stage
from herdcli.cli.frame.session import Session
from herdcli.cli.network.files import check_text_output, load_network, network_format_option, output_format
from herdcli.cli.ups_infer import starts
from herdcli.cli.ups_infer.options import (
    algorithm_options,
    clamp_sets,
    evidence_options,
    gibbs_options,
    iteration_options,
    observed,
    warn_of_ignored,
)
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.markov.model.network import Network


@click.command("ups-infer")
@input_argument
@click.option("--format", type=click.Choice(starts.FORMATS), default=None, help="Write this.  [default: by the suffix of -o, else hdf5]")
@stage(
    algorithm_options,
    iteration_options,
    gibbs_options,
    evidence_options,
    network_format_option,
    seed_option,
    shards.shard_option,
    checkpoint_options,
    output_options,
)
def command(session: Session, source: str, format: str | None, input_format: str | None, **options: Any) -> None:
    """Infer marginals and log Z of a Markov network, exactly or by minimising its Bethe free energy.

    \b
      herd network grid --sigma-w 2 | herd ups-infer --algorithm ups -o marginals.h5
      herd network grid --sigma-w 2 | herd ups-infer -o exact.h5
      herd network grid --sigma-w 2 | herd ups-infer --observe x0=0.2,0.8 --algorithm ups --format mar

    NETWORK is UAI, libDAI .fg or BIF text, or a `network` artifact.  --evidence holds variables at a state,
    --observe fixes their marginals (generalised inference), --likelihood multiplies a factor in.  --evidence-rows
    takes a table of evidence and writes a table of marginals.
    """
    from herdcli.markov.method import Settings

    form = output_format(session, format, starts.FORMATS)
    check_text_output(session, "dataset" if options["evidence_rows"] else "beliefs", form)
    loaded = load_network(session, source, input_format)
    full: Network = loaded.value
    network, evidence = observed(session, full, options)
    warn_of_ignored(session, options)
    if options["evidence_rows"]:
        from herdcli.cli.ups_infer.evidence_rows import infer_rows

        infer_rows(session, loaded, network, options)
        return
    settings = Settings(**{each.name: options[each.name] for each in fields(Settings) if options.get(each.name) is not None})
    settings = replace(settings, clamp_sets=clamp_sets(session, full, options["clamp"]))
    if form == "pr" and settings.algorithm == "gibbs":
        raise BadUsage("gibbs has no log Z, which is all that pr holds", hint="--format mar")
    try:
        starts.infer(session, loaded, (network, evidence), settings, options | {"format": form})
    except DataError as error:  # of the network, not of the evidence that was read last
        error.where = error.where or loaded.name
        raise
