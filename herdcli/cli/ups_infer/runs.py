"""The runs of `herd ups-infer`: one, or one per start, divided among shards; the algorithms are in herdcli.markov."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from herdcli.cli.frame.history.request import settings_from_request
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.run import shards
from herdcli.cli.ups_infer import queries, result_tables
from herdcli.cli.ups_infer.inputs import read_clamp_sets, read_regions
from herdcli.cli.ups_infer.request import AUTO
from herdcli.errors import BadUsage, DataError, NotConverged
from herdcli.markov.algorithms.table import EXACT, NO_LOG_Z, SAMPLED, TABLE, algorithms_reading_option

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.ups_infer.request import Request
    from herdcli.iterate import HasStep
    from herdcli.markov.bethe.starts import BeliefsShard
    from herdcli.markov.exact.elimination import OrderSearch
    from herdcli.markov.method import InferenceMethod, InferenceResult, InferenceSettings
    from herdcli.markov.model.beliefs import Beliefs
    from herdcli.markov.model.network import Network


def infer_network(session: Session, loaded: Artifact, network_and_evidence: tuple[Network, dict[int, int]], request: Request) -> None:
    """Infer the marginals of the network given its evidence, and save `beliefs`, marginals as text, or a shard."""
    from herdcli.markov.method import InferenceSettings

    asked = settings_from_request(
        InferenceSettings,
        request,
        clamp_sets=read_clamp_sets(session, loaded.value, request.clamp),
        region_scopes=read_regions(session, loaded.value, request.regions),
    )
    if queries.output_format(session, request.query_kind, request.format, request.evidence_rows) == "pr" and asked.algorithm in NO_LOG_Z:
        raise BadUsage(f"{asked.algorithm} computes no log Z, but --format pr writes only log Z", hint="use --format mar")
    try:
        made = _infer_shard(session, loaded.value, network_and_evidence, asked, request.restarts, request.output_marginals)
        shards.save_units_or_shard(session, made, "starts", save_all_units, loaded, request)
    except DataError as error:  # the error is in the network, not in the evidence, which was read last
        error.where = error.where or loaded.name
        raise


def _infer_shard(
    session: Session,
    full: Network,
    network_and_evidence: tuple[Network, dict[int, int]],
    settings: InferenceSettings,
    restarts: int,
    output_marginals: str,
) -> BeliefsShard:
    """Return the results of this run's starts."""
    from herdcli.markov.bethe.starts import BeliefsShard
    from herdcli.markov.model import beliefs

    network, evidence = network_and_evidence
    restarts = restarts if settings.algorithm in algorithms_reading_option("restarts") else 0
    if not restarts:
        shards.refuse_shards(session, "use --restarts, which makes several starts, or --evidence-rows, whose rows are divided into blocks")
    units = shards.unit_numbers_of_run(session, restarts + 1, "starts")
    inferred = _run_starts(session, network, settings, units) if restarts else [_infer_with_settings(session, network, settings)]
    nodes_only = output_marginals == "nodes"
    parts = [
        beliefs.assemble_beliefs(
            full, evidence, found.nodes, [] if nodes_only else found.cliques, algorithm=name, **found.attributes | checked
        )
        for (found, name), checked in zip(
            inferred, _check_results(session, network, settings.seed, settings.algorithm, inferred), strict=True
        )
    ]
    return BeliefsShard(place=session.place, units=restarts + 1, parts=parts)


def _check_results(
    session: Session, network: Network, seed: int, algorithm: str, inferred: Sequence[tuple[InferenceResult, str]]
) -> list[dict[str, object]]:
    """Return bounds, the estimated error and the warnings of each result, as attributes of `Beliefs`."""
    from herdcli.artifacts import memory_budget
    from herdcli.markov.mean.mean_field_bound import compute_mean_field_bound
    from herdcli.markov.query import reliability

    if not inferred:  # a shard without a start
        return []
    bound = compute_mean_field_bound(network)
    baseline = {"log_z_mean_field": None if inferred[0][1] in NO_LOG_Z else bound}
    if inferred[0][1] in EXACT:
        return [dict(baseline)] * len(inferred)
    limit = session.max_memory or memory_budget.default_memory_limit()

    def checked(result: InferenceResult, name: str) -> dict[str, object]:
        # Each result is checked with its own iterations, so that shards of several starts report the same as a single run.
        iterations = int(result.attributes.get("iterations", 1))
        known = reliability.compute_reference(network, iterations, bound, answer=result, seed=seed, limit=limit)
        return reliability.assess_answer(result, name, known, confirmed=algorithm == AUTO).attributes() | baseline

    return [checked(found, name) for found, name in inferred]


def save_all_units(session: Session, whole: BeliefsShard, history: HistorySource, request: Request) -> None:
    """Save the best of all starts."""
    from herdcli.markov.bethe.starts import select_best_start

    made, form = whole.parts[0], queries.output_format(session, request.query_kind, request.format, request.evidence_rows)
    if len(whole.parts) > 1:
        made = select_best_start(whole.parts)
        told = "" if made.fixed_point_energy is None else " ".join(f"{energy:.8g}" for energy in made.fixed_point_energy)
        session.console.note(f"{len(whole.parts)} starts; free energies of the distinct fixed points found: {told or '(none converged)'}")
    summary = f"{len(made.node_offset) - 1} variables, {made.algorithm}" + ("" if made.converged else ", not converged")
    summary += "" if made.algorithm in NO_LOG_Z else f", log Z {made.log_z:.10g}"
    if not made.converged:
        _warn_of_nonconvergence(session, made, request.on_nonconvergence)
    for warning in made.warnings or ():
        session.console.warn(warning)
    if made.exact_cells is not None and not made.warnings:
        session.console.note(f"exact inference is affordable here: --algorithm junction-tree needs {made.exact_cells:.3g} table cells")
    if form == "hdf5":
        outputs.write_artifact(session, made, summary, history=history)
    elif form in result_tables.TABLES:
        result_tables.save_table(session, result_tables.marginal_table(made), summary, form, history)
    else:
        from herdcli.markov.formats import results

        text = results.write_mar(made.marginals()) if form == "mar" else results.write_pr(made.log_z)
        outputs.write_text_result(session, text, summary, form)


def _run_starts(session: Session, network: Network, settings: InferenceSettings, units: Sequence[int]) -> list[tuple[InferenceResult, str]]:
    """Return the results of the starts with these numbers, and the algorithm's name."""
    if session.checkpoint and len(units) > 1:
        raise BadUsage(
            "--restarts does not work with --checkpoint",
            hint="run each start as a shard of its own: --shard 1/N, with N = R + 1 for --restarts R",
        )
    return [(run_algorithm(session, network, replace(settings, start=k), k == units[0]), settings.algorithm) for k in units]


def _infer_with_settings(session: Session, network: Network, settings: InferenceSettings) -> tuple[InferenceResult, str]:
    """Return the result of the algorithm, or of the one that `auto` chooses, and its name."""
    if settings.algorithm != AUTO:
        return run_algorithm(session, network, settings), settings.algorithm
    from herdcli.cli.ups_infer import automatic

    return automatic.infer_automatically(session, network, settings, run_algorithm)


def run_algorithm(
    session: Session, network: Network, settings: InferenceSettings, first: bool = True, prepared_method: InferenceMethod | None = None
) -> InferenceResult:
    """Run one algorithm and return its result.  prepared_method  the method, if the choice of the algorithm has already built it."""
    from herdcli.artifacts import memory_budget
    from herdcli.cli.ups_infer import message_storage
    from herdcli.markov import algorithms
    from herdcli.markov.exact.exact_algorithms import JunctionTree

    method = prepared_method or algorithms.make_inference_method(
        network, settings, session.map, session.max_memory or memory_budget.default_memory_limit()
    )
    if method.note and first:
        session.console.note(method.note)

    if not isinstance(method, JunctionTree):
        session.require_memory(*method.bytes_needed(None))

    def ended(state: HasStep) -> None:
        _, what = method.bytes_needed(state)
        told = what.rstrip(",")
        if isinstance(method, JunctionTree):
            size, told = message_storage.choose_message_storage(session, method, cast("OrderSearch", state))
            session.require_memory(size, what)
        if settings.algorithm == "junction-tree":
            session.console.note(told)

    def fitted(tree: JunctionTree, state: OrderSearch) -> int:
        size, told = message_storage.choose_message_storage(session, tree, state)
        session.console.note(told)
        return 0 if tree.chosen is None and size <= tree.limit else size

    def after(state: HasStep) -> tuple[float, int]:
        return algorithms.estimate_remaining_cost(method, state, fitted)

    return session.run(method, label=settings.algorithm, memory=method.words, after=after, ended=ended)


def _warn_of_nonconvergence(session: Session, beliefs: Beliefs, reaction: str) -> None:
    message = f"{beliefs.algorithm} did not converge in {beliefs.iterations} iterations: the residual is {beliefs.residual:.3g}"
    if beliefs.algorithm in SAMPLED:
        message = (
            f"the chains of {beliefs.algorithm} disagree after {beliefs.iterations} sweeps: the largest R̂ is {1 + beliefs.residual:.3g}"
        )
        if beliefs.round_trips is not None and beliefs.residual < 0.05:
            message = (
                f"the chains of {beliefs.algorithm} went through all temperatures only {beliefs.round_trips} times in "
                f"{beliefs.iterations} sweeps"
            )
    hint = TABLE[beliefs.algorithm].hint
    if reaction == "error":
        raise NotConverged(message, hint=hint)
    session.console.warn(f"{message}; {hint}; --on-nonconvergence error exits with code 1")
