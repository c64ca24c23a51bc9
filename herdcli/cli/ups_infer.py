"""herd ups-infer: options of inference in Markov networks; the algorithms are in herdcli.markov."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from herdcli.cli.network_input import check_text_output, load_network, load_text, network_format_option, output_format, write_text
from herdcli.cli.options import checkpoint_options, input_argument, output_options, seed_option, stage
from herdcli.cli.session import Session
from herdcli.errors import BadUsage, DataError, NotConverged

if TYPE_CHECKING:
    from herdcli.markov.network import Network

ALGORITHMS = ["junction-tree", "enumerate"]
FORMATS = ("hdf5", "mar", "pr")


@click.command("ups-infer")
@input_argument
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default="junction-tree", show_default=True, help="How marginals are had.")
@click.option("--evidence", metavar="FILE", default=None, help="States of some variables: UAI evidence, or one `name=state` a line.")
@click.option("--observe", multiple=True, metavar="X=P,P…", help="Fix a marginal, as x3=0.2,0.8.  May be repeated.")
@click.option("--likelihood", multiple=True, metavar="X=L,L…", help="Weigh the states of a variable (soft evidence), as x3=1,4.")
@click.option("--ignore-observed", is_flag=True, help="Leave out the observed marginals stored with the network.")
@click.option("--tolerance", type=click.FloatRange(0, min_open=True), default=1e-9, show_default=True, help="Residual to reach.")
@click.option("--iterations", type=click.IntRange(1), default=1000, show_default=True, help="Most iterations.")
@click.option("--orders", type=click.IntRange(1), default=8, show_default=True, help="Elimination orders tried by junction-tree.")
@click.option(
    "--on-nonconvergence", type=click.Choice(["warn", "error"]), default="warn", show_default=True, help="What to do at the last iteration."
)
@click.option("--format", type=click.Choice(FORMATS), default=None, help="Write this.  [default: by the suffix of -o, else hdf5]")
@stage(network_format_option, seed_option, checkpoint_options, output_options)
def command(session: Session, source: str, format: str | None, input_format: str | None, **options: Any) -> None:
    """Infer marginals and log Z of a Markov network.

    \b
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
    network, evidence = _observed(session, full, options)
    settings = algorithms.Settings(**{each.name: options[each.name] for each in fields(algorithms.Settings) if each.name in options})
    _warn_of_ignored(session, settings.algorithm)
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


def _observed(session: Session, full: Network, options: dict[str, Any]) -> tuple[Network, dict[int, int]]:
    """The network under evidence, observed marginals and likelihoods, and the evidence."""
    from herdcli.markov import network, results

    evidence: dict[int, int] = {}
    if options["evidence"]:
        evidence = load_text(session, options["evidence"], "evidence", lambda text: results.read_evidence(text, full))
    stored = {} if options["ignore_observed"] else full.observations()
    given = dict(_assignments(full, options["observe"], "--observe"))
    for i, p in given.items():
        network.check_marginal(full, i, p)
    if both := sorted(evidence.keys() & (stored | given).keys()):
        raise BadUsage(f"{full.name(both[0])} has evidence and an observed marginal", hint="--ignore-observed leaves the stored ones out")
    weighed = network.weigh(full, dict(_assignments(full, options["likelihood"], "--likelihood")))
    return network.condition(network.observe(weighed, stored | given), evidence), evidence


def _assignments(network: Network, texts: tuple[str, ...], option: str) -> Any:
    """(variable, values) of texts like x3=0.2,0.8."""
    import numpy as np

    from herdcli.markov import results

    for text in texts:
        name, equals, values = text.partition("=")
        try:
            numbers = np.array([float(value) for value in values.split(",")])
        except ValueError:
            raise BadUsage(f"{option} '{text}' is not of the form NAME=NUMBER,NUMBER…") from None
        i = results.variable(network, name.strip())
        if len(numbers) != network.cardinality[i] or not equals:
            raise DataError(f"{option} '{text}' has {len(numbers)} values, {network.name(i)} has {network.cardinality[i]} states")
        yield i, numbers


def _warn_of_ignored(session: Session, algorithm: str) -> None:
    if algorithm != "junction-tree":
        session.ignored("orders", f"with --algorithm {algorithm}")
    else:
        for option in ("tolerance", "iterations", "on_nonconvergence"):
            session.ignored(option, "with --algorithm junction-tree")


def _not_converged(session: Session, made: Any, wanted: str) -> None:
    message = f"{made.algorithm} did not converge in {made.iterations} iterations: the residual is {made.residual:.3g}"
    hint = "ups converges on every network: --algorithm ups" if made.algorithm != "ups" else "raise --iterations"
    if wanted == "error":
        raise NotConverged(message, hint=hint)
    session.console.warn(f"{message}; {hint}")
