"""The runs of `herd ups-infer`: one, or one from each start, of which a shard does its own; the algorithms are in herdcli.markov."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from herdcli.cli.frame import shards
from herdcli.cli.frame.session import Session
from herdcli.cli.network.files import output_format, write_text
from herdcli.cli.ups_infer.options import AUTO, RESTARTED
from herdcli.errors import BadUsage, NotConverged

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.markov.bethe.starts import BeliefsShard
    from herdcli.markov.method import Result, Settings
    from herdcli.markov.model.network import Network

FORMATS = ("hdf5", "mar", "pr")


def infer(
    session: Session, loaded: Artifact, given: tuple[Network, dict[int, int]], settings: Settings, options: Mapping[str, Any]
) -> None:
    """Infer marginals of the conditioned network given with its evidence, and save `beliefs`, marginals as text, or a shard."""
    from herdcli.markov.bethe.starts import BeliefsShard
    from herdcli.markov.model import beliefs

    network, evidence = given
    restarts = options["restarts"] if settings.algorithm in RESTARTED else 0
    if not restarts:
        shards.refuse(session, "--restarts makes several starts, --evidence-rows blocks of rows")
    units = shards.units(session, restarts + 1, "starts")
    inferred = _starts(session, network, settings, units) if restarts else [_inferred(session, network, settings)]
    parts = [
        beliefs.assemble(loaded.value, evidence, found.nodes, found.cliques, algorithm=name, **found.attributes) for found, name in inferred
    ]
    made = BeliefsShard(place=session.place, units=restarts + 1, parts=parts)
    shards.close(session, made, "starts", finish, loaded, options)


def finish(session: Session, whole: BeliefsShard, history: Artifact, options: Mapping[str, Any]) -> None:
    """Save the best of all starts."""
    from herdcli.markov.bethe.starts import best

    made, form = whole.parts[0], output_format(session, options.get("format"), FORMATS)
    if len(whole.parts) > 1:
        made = best(whole.parts)
        told = "" if made.fixed_point_energy is None else " ".join(f"{energy:.8g}" for energy in made.fixed_point_energy)
        session.console.note(f"{len(whole.parts)} starts: distinct fixed points of free energy {told or '(none converged)'}")
    summary = f"{len(made.node_offset) - 1} variables, {made.algorithm}" + ("" if made.converged else ", not converged")
    summary += "" if made.algorithm == "gibbs" else f", log Z {made.log_z:.10g}"
    if not made.converged:
        _not_converged(session, made, options["on_nonconvergence"])
    if form == "hdf5":
        session.save(made, summary, history=history)
    else:
        from herdcli.markov.formats import results

        text = results.write_mar(made.marginals()) if form == "mar" else results.write_pr(made.log_z)
        write_text(session, text, summary, form)


def _starts(session: Session, network: Network, settings: Settings, units: Sequence[int]) -> list[tuple[Result, str]]:
    """The results of the starts of these numbers, and the algorithm's name."""
    if session.checkpoint and len(units) > 1:
        raise BadUsage("--restarts takes no checkpoint", hint="a shard of one start does: --shard 1/N with N = R + 1 for --restarts R")
    return [(_run(session, network, replace(settings, start=k), k == units[0]), settings.algorithm) for k in units]


def _inferred(session: Session, network: Network, settings: Settings) -> tuple[Result, str]:
    """The result of the algorithm, under `auto` of the first that converges; and its name."""
    from herdcli.artifacts import memory
    from herdcli.markov import algorithms

    tries = [algorithms.Candidate(settings.algorithm, "")]
    if settings.algorithm == AUTO:
        if session.checkpoint:
            raise BadUsage("--algorithm auto takes no checkpoint", hint="name the algorithm")
        tries = algorithms.candidates(network, settings, session.max_memory or memory.default_limit())
    for each in tries:
        if each.why:
            session.console.note(f"auto: {each.name}, {each.why}")
        found = _run(session, network, replace(settings, algorithm=each.name), begun=each.state)
        if found.attributes.get("converged", True):
            break
    return found, each.name


def _run(session: Session, network: Network, settings: Settings, first: bool = True, begun: Any = None) -> Result:
    """One run of one algorithm, from a state that is begun, if there is one."""
    from herdcli.markov import algorithms

    method = algorithms.method(network, settings)
    if method.note and first:
        session.console.note(method.note)
    init = method.init if begun is None else lambda: begun
    state = session.iterate(
        method.step, init, steps=method.steps, until=method.done, label=settings.algorithm, after=partial(algorithms.remaining, method)
    )
    size, what = method.bytes_needed(state)
    session.require_memory(size, what)
    if settings.algorithm == "junction-tree":
        session.console.note(what.rstrip(","))
    found = method.result(state)
    if found.warning:
        session.console.warn(f"{found.warning}; --algorithm bp or ups")
    return found


def _not_converged(session: Session, made: Any, wanted: str) -> None:
    message = f"{made.algorithm} did not converge in {made.iterations} iterations: the residual is {made.residual:.3g}"
    if made.algorithm == "gibbs":
        message = f"the chains of gibbs disagree after {made.iterations} sweeps: the largest R̂ is {1 + made.residual:.3g}"
    hint = "--algorithm ups, whose free energy falls in every iteration"
    if made.algorithm in ("ups", "double-loop"):
        hint = "raise --iterations"
    elif made.algorithm == "gbp":
        hint = "--damping 0.5, or --algorithm double-loop, which converges"
    if wanted == "error":
        raise NotConverged(message, hint=hint)
    session.console.warn(f"{message}; {hint}; --on-nonconvergence error ends with 1")
