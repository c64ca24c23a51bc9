"""herd ups-infer: options of inference in Markov networks; the algorithms are in herdcli.markov."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from herdcli.cli.inference import algorithm_options, observed, warn_of_ignored
from herdcli.cli.network_input import check_text_output, load_network, network_format_option, output_format, write_text
from herdcli.cli.options import checkpoint_options, input_argument, output_options, seed_option, stage
from herdcli.cli.session import Session
from herdcli.errors import NotConverged

if TYPE_CHECKING:
    from herdcli.markov.network import Network

FORMATS = ("hdf5", "mar", "pr")


@click.command("ups-infer")
@input_argument
@click.option("--format", type=click.Choice(FORMATS), default=None, help="Write this.  [default: by the suffix of -o, else hdf5]")
@stage(algorithm_options, network_format_option, seed_option, checkpoint_options, output_options)
def command(session: Session, source: str, format: str | None, input_format: str | None, **options: Any) -> None:
    """Infer marginals and log Z of a Markov network, exactly or by minimising its Bethe free energy.

    \b
      herd network grid --sigma-w 5 | herd ups-infer --algorithm ups -o marginals.h5
      herd network grid --sigma-w 2 | herd ups-infer --algorithm junction-tree -o exact.h5
      herd network grid --sigma-w 2 | herd ups-infer --observe x0=0.2,0.8 --algorithm enumerate --format mar

    NETWORK is UAI, libDAI .fg or BIF text, or a `network` artifact.  --evidence holds variables at a state,
    --observe fixes their marginals (generalised inference), --likelihood multiplies a factor in.
    """
    from herdcli.markov import algorithms, beliefs

    form = output_format(session, format, FORMATS)
    check_text_output(session, "beliefs", form)
    loaded = load_network(session, source, input_format)
    full: Network = loaded.value
    network, evidence = observed(session, full, options)
    warn_of_ignored(session, options)
    settings = algorithms.Settings(**{each.name: options[each.name] for each in fields(algorithms.Settings) if each.name in options})
    method = algorithms.method(network, settings)
    if method.note:
        session.console.note(method.note)
    state = session.iterate(method.step, method.init, steps=method.steps, until=method.done, label=settings.algorithm)
    size, what = method.bytes_needed(state)
    session.require_memory(size, what)
    if settings.algorithm == "junction-tree":
        session.console.note(what.rstrip(","))
    found = method.result(state)
    made = beliefs.assemble(full, evidence, found.nodes, found.cliques, algorithm=settings.algorithm, **found.attributes)
    summary = f"{full.count} variables, {settings.algorithm}, log Z {made.log_z:.10g}"
    if not made.converged:
        _not_converged(session, made, options["on_nonconvergence"])
    if form == "hdf5":
        session.save(made, summary, history=loaded)
    else:
        from herdcli.markov import results

        text = results.write_mar(made.marginals()) if form == "mar" else results.write_pr(made.log_z)
        write_text(session, text, summary, form)


def _not_converged(session: Session, made: Any, wanted: str) -> None:
    message = f"{made.algorithm} did not converge in {made.iterations} iterations: the residual is {made.residual:.3g}"
    hint = "ups converges on every network: --algorithm ups" if made.algorithm != "ups" else "raise --iterations"
    if wanted == "error":
        raise NotConverged(message, hint=hint)
    session.console.warn(f"{message}; {hint}")
