"""herd ups-infer: options of inference in Markov networks; the algorithms are in herdcli.markov."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import click

from herdcli.cli.inference import (
    AUTO,
    RESTARTED,
    algorithm_options,
    clamp_sets,
    evidence_options,
    gibbs_options,
    iteration_options,
    observed,
    warn_of_ignored,
)
from herdcli.cli.network_input import check_text_output, load_network, network_format_option, output_format, write_text
from herdcli.cli.options import checkpoint_options, input_argument, output_options, seed_option, stage
from herdcli.cli.session import Session
from herdcli.errors import BadUsage, NotConverged

if TYPE_CHECKING:
    from herdcli.markov.algorithms import Result, Settings
    from herdcli.markov.network import Network

FORMATS = ("hdf5", "mar", "pr")


@click.command("ups-infer")
@input_argument
@click.option("--format", type=click.Choice(FORMATS), default=None, help="Write this.  [default: by the suffix of -o, else hdf5]")
@stage(
    algorithm_options,
    iteration_options,
    gibbs_options,
    evidence_options,
    network_format_option,
    seed_option,
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
    from herdcli.markov import algorithms, beliefs

    form = output_format(session, format, FORMATS)
    check_text_output(session, "dataset" if options["evidence_rows"] else "beliefs", form)
    loaded = load_network(session, source, input_format)
    full: Network = loaded.value
    network, evidence = observed(session, full, options)
    warn_of_ignored(session, options)
    if options["evidence_rows"]:
        from herdcli.cli.evidence_rows import infer_rows

        infer_rows(session, loaded, network, options)
        return
    settings = algorithms.Settings(**{each.name: options[each.name] for each in fields(algorithms.Settings) if each.name in options})
    settings = replace(settings, clamp_sets=clamp_sets(session, full, options["clamp"]))
    if form == "pr" and settings.algorithm == "gibbs":
        raise BadUsage("gibbs has no log Z, which is all that pr holds", hint="--format mar")
    found, chosen = _inferred(session, network, settings, options["restarts"] if settings.algorithm in RESTARTED else 0)
    made = beliefs.assemble(full, evidence, found.nodes, found.cliques, algorithm=chosen, **found.attributes)
    summary = f"{full.count} variables, {chosen}" + ("" if chosen == "gibbs" else f", log Z {made.log_z:.10g}")
    if not made.converged:
        _not_converged(session, made, options["on_nonconvergence"])
    if form == "hdf5":
        session.save(made, summary, history=loaded)
    else:
        from herdcli.markov import results

        text = results.write_mar(made.marginals()) if form == "mar" else results.write_pr(made.log_z)
        write_text(session, text, summary, form)


def _inferred(session: Session, network: Network, settings: Settings, restarts: int) -> tuple[Result, str]:
    """The result of the algorithm, the best of all starts, or under `auto` of the first that converges; and its name."""
    from herdcli.artifacts import memory
    from herdcli.markov import algorithms, starts

    if restarts:
        if session.checkpoint:
            raise BadUsage("--restarts takes no checkpoint", hint="leave out --checkpoint, or run it for each --seed")
        runs = [_run(session, network, replace(settings, start=k), k == 0) for k in range(restarts + 1)]
        best = starts.best(runs)
        told = " ".join(f"{energy:.8g}" for energy in best.attributes["fixed_point_energy"])
        session.console.note(f"{restarts + 1} starts: distinct fixed points of free energy {told or '(none converged)'}")
        return best, settings.algorithm

    tries = [(settings.algorithm, "")]
    if settings.algorithm == AUTO:
        if session.checkpoint:
            raise BadUsage("--algorithm auto takes no checkpoint", hint="name the algorithm")
        tries = algorithms.candidates(network, settings, session.max_memory or memory.default_limit())
    for name, why in tries:
        if why:
            session.console.note(f"auto: {name}, {why}")
        found = _run(session, network, replace(settings, algorithm=name))
        if found.attributes.get("converged", True):
            break
    return found, name


def _run(session: Session, network: Network, settings: Settings, first: bool = True) -> Result:
    """One run of one algorithm."""
    from herdcli.markov import algorithms

    method = algorithms.method(network, settings)
    if method.note and first:
        session.console.note(method.note)
    state = session.iterate(method.step, method.init, steps=method.steps, until=method.done, label=settings.algorithm)
    size, what = method.bytes_needed(state)
    session.require_memory(size, what)
    if settings.algorithm == "junction-tree":
        session.console.note(what.rstrip(","))
    return method.result(state)


def _not_converged(session: Session, made: Any, wanted: str) -> None:
    message = f"{made.algorithm} did not converge in {made.iterations} iterations: the residual is {made.residual:.3g}"
    if made.algorithm == "gibbs":
        message = f"the chains of gibbs disagree after {made.iterations} sweeps: the largest R̂ is {1 + made.residual:.3g}"
    hint = "ups converges on every network: --algorithm ups"
    if made.algorithm in ("ups", "double-loop"):
        hint = "raise --iterations"
    elif made.algorithm == "gbp":
        hint = "--damping 0.5, or --algorithm double-loop, which converges"
    if wanted == "error":
        raise NotConverged(message, hint=hint)
    session.console.warn(f"{message}; {hint}")
