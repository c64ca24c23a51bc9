"""`herd ups-infer --query`: queries other than marginals; the answers are computed in herdcli.markov.query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.history.request import settings_from_request
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows import network_files
from herdcli.cli.ups_infer import independence_queries, result_tables
from herdcli.cli.ups_infer.request import AUTO, FORMATS
from herdcli.errors import BadUsage, DataError, MemoryLimitExceeded
from herdcli.markov.query.query_parsing import parse_query

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.ups_infer.request import Request
    from herdcli.markov.exact.collect_pass import EliminationPassPlan
    from herdcli.markov.model.network import Network
    from herdcli.markov.query.constrained_orders import StagedOrder, StagedOrderSearch
    from herdcli.markov.query.exact_queries import MostProbableStates
    from herdcli.markov.query.max_product import MaxProduct, MaxProductState
    from herdcli.markov.query.query_parsing import Query
    from herdcli.markov.query.sensitivity import ParameterSensitivity
    from herdcli.schema import Array

ANSWERS = {  # the output formats of each query
    "marginals": ("hdf5", "mar", "pr", *result_tables.TABLES),
    "log-z": ("pr", *result_tables.TABLES),
    "bounds": ("hdf5", *result_tables.TABLES),
    "mpe": ("hdf5", "map", *result_tables.TABLES),
    "mmap": ("hdf5", "map", *result_tables.TABLES),
    "joint": ("hdf5", *result_tables.TABLES),
    "sensitivity": result_tables.TABLES,
    "dsep": result_tables.TABLES,
    "independent": result_tables.TABLES,
}
MOST_CELLS = 1 << 24  # limit on the cells of all tables, for the mean-field bound
FEW_CELLS = 1 << 24  # cells up to which elimination is so fast that nothing else is tried
MANY_TIMES = 8  # branch and bound comes first if elimination needs more than this many times the cells of an unconstrained order
BRANCHING, MILLION = 10, 1_000_000  # branch and bound may visit BRANCHING · MILLION cells per unit of --effort

PATIENCE = 10  # max-product steps without better states before branch and bound starts
MOST_SEARCHED = 10_000  # maximum number of variables for a search for most probable states with mini-buckets
MOST_BUCKETS = 1 << 30  # maximum bytes of these mini-buckets
SECONDS, NUMBERS = 25e-9, 2.4  # maximum seconds and bytes of this search per unit of effort


def output_format(session: Session, query_kind: str, format: str | None, evidence_rows: str | None) -> str:
    """Return the format of -o, checked before any work: from --format or the suffix, else the first format that fits the answer."""
    kind = query_kind
    able = ANSWERS[kind]
    form = network_files.output_format(session, format, FORMATS)
    if form == "hdf5" and format is None and form not in able and session.output == "-":
        form = able[0]
    if form not in able:
        other = "; without --query the artifact has log_z beside the marginals" if (kind, form) == ("log-z", "hdf5") else ""
        raise BadUsage(f"--query {kind} cannot be written as {form}", hint=f"use --format {', '.join(able)}{other}")
    if evidence_rows and kind == "marginals" and form not in ("hdf5", *result_tables.TABLES):
        raise BadUsage(f"marginals of --evidence-rows cannot be written as {form}", hint="use --format hdf5, csv, parquet")
    if form in result_tables.TABLES:
        outputs.check_artifact_output(session, "dataset", None if session.shard is not None else form)
    else:
        network_files.check_output(session, "dataset" if evidence_rows else "beliefs", form)
    return form


def answer_query(
    session: Session, loaded: Artifact, network_and_evidence: tuple[Network, dict[int, int]], request: Request, form: str
) -> None:
    """Answer a query about the network given its evidence, and save the result."""
    kind = request.query_kind
    if network_and_evidence[0].stored_marginals():
        raise BadUsage(f"--query {kind} does not work with observed marginals", hint="use --ignore-observed")
    try:
        ANSWERERS[kind](session, loaded, network_and_evidence, request, form)
    except DataError as error:
        error.where = error.where or loaded.name
        raise


def _query_variables(full: Network, query: Query, evidence: dict[int, int]) -> list[int]:
    """Return the variables that a query names.  Raises BadUsage for a repeated variable, or one that the evidence fixes."""
    from herdcli.markov.formats.evidence import find_variable

    found = [find_variable(full, name) for name in query.names]
    for k, i in enumerate(found):
        if i in found[:k]:
            raise BadUsage(f"--query {query.kind} names {full.name(i)} twice")
        if i in evidence and query.kind != "joint":
            raise BadUsage(f"--query {query.kind} names {full.name(i)}, which the evidence already fixes")
    return found


def _memory_limit(session: Session) -> int:
    from herdcli.artifacts import memory_budget

    return session.max_memory or memory_budget.default_memory_limit()


def _plan_elimination(
    session: Session, network: Network, orders: int, seed: int, *, maximised: Sequence[int] = (), kept: Sequence[int] = ()
) -> tuple[EliminationPassPlan | None, int, str]:
    """Return a pass by the best elimination order, if there is one, its bytes, and a message."""
    return _plan_by_order(
        session, *_search_order(session, network, orders, seed, maximised=maximised, kept=kept), maximised=maximised, kept=kept
    )


def _search_order(
    session: Session, network: Network, orders: int, seed: int, *, maximised: Sequence[int] = (), kept: Sequence[int] = ()
) -> tuple[StagedOrderSearch, StagedOrder]:
    """Return the search for an elimination order, and the best order found."""
    from herdcli.markov.query import exact_queries

    search = exact_queries.make_order_search(network, orders, seed, maximised=maximised, remaining_variables=kept)
    return search, session.run_preparation(search, label="orders")


def _plan_by_order(
    session: Session, orders: StagedOrderSearch, search: StagedOrder, *, maximised: Sequence[int] = (), kept: Sequence[int] = ()
) -> tuple[EliminationPassPlan | None, int, str]:
    """Return a pass, its bytes and a message, as `_plan_elimination` does, for an order that is already known."""
    from herdcli.cli.ups_infer import message_storage
    from herdcli.markov.exact.collect_pass import EliminationPassPlan

    if not search.complete:
        return None, 1 << 60, f"elimination, 2^{math.log2(max(1.0, search.cells)):.1f} table cells"
    return message_storage.choose_pass_storage(
        session, EliminationPassPlan(orders.trimmed, search.order.tolist(), maximised, kept, _memory_limit(session))
    )


def _require_elimination(session: Session, plan: tuple[EliminationPassPlan | None, int, str]) -> EliminationPassPlan:
    """Return the pass, and print a note about it.  Raises DataError if it does not fit into the allowed memory."""
    work, size, what = plan
    session.require_memory(size, f"{what.rpartition(', ')[0] if work else what},")
    assert work is not None
    session.console.note(f"auto: {what}")
    return work


def answer_most_probable_states(
    session: Session, loaded: Artifact, network_and_evidence: tuple[Network, dict[int, int]], request: Request, form: str
) -> None:
    """Answer mpe and mmap: exactly if elimination fits into memory, else by a search, with an upper bound."""
    from herdcli.markov.formats import results

    network, evidence = network_and_evidence
    asked = parse_query(request.query)
    names = (
        _query_variables(loaded.value, asked, evidence)
        if asked.kind == "mmap"
        else [i for i in range(loaded.value.listed_count) if i not in evidence]
    )
    whole = asked.kind == "mpe" and not loaded.value.auxiliary  # auxiliary variables are summed out
    if asked.kind == "mpe" and not whole and request.solver == "toulbar2":
        raise BadUsage("--solver toulbar2 cannot sum out the parts of a large noisy-max", hint="leave --solver out")
    found = _find_most_probable_states(session, network, names, request, whole=whole)
    if whole and found.exact:
        _note_ties(session, network, found, evidence, request.orders, request.seed)
    short = f"log value {found.value:.10g}" + ("" if found.exact else f", at most {found.bound:.10g}")
    if not found.exact:
        share = f"the log value of its answer is {found.value:.8g}, and the optimum is at most {found.bound:.8g}"
        more = "" if found.algorithm == "max-product" else "; --effort may close the gap"
        why = "the --time limit was reached" if found.algorithm == "toulbar2" else f"elimination needs more than --max-memory{more}"
        session.console.warn(f"{found.algorithm} is approximate here: {share}; {why}")
    states = dict(sorted((found.states | (evidence if asked.kind == "mpe" else {})).items())) if asked.kind == "mpe" else found.states
    summary = f"{len(states)} states, {found.algorithm}, {short}"
    if form == "map":
        outputs.write_text_result(session, results.write_states(states, asked.kind == "mpe"), summary, form)
    elif form in result_tables.TABLES:
        names_of = [loaded.value.name(i) for i in states]
        made = result_tables.dataset_from_columns(
            {"state": np.array(list(states.values()))}, {result_tables.VARIABLE: names_of} | _state_names(loaded.value, states)
        )
        result_tables.save_table(session, made, summary, form, loaded)
    else:
        _save_states_as_beliefs(session, loaded, network_and_evidence, found, summary, request.orders, request.seed)


def _note_ties(
    session: Session, network: Network, best_states: MostProbableStates, evidence: dict[int, int], orders: int, seed: int
) -> None:
    """Print a note if other states are equally probable; this is checked only if elimination is fast."""
    from herdcli.markov.query import exact_queries

    every = range(network.count)
    _, staged = _search_order(session, network, orders, seed, maximised=every)
    if not staged.complete or staged.cells > FEW_CELLS:
        return
    states = {i: 0 if i in evidence else best_states.states[i] for i in every}
    others = exact_queries.find_tied_states(network, staged.order.tolist(), replace(best_states, states=states))
    if others is not None:
        differing = [i for i in every if others[i] != states[i]]
        few = ", ".join(f"{network.name(i)}={network.state_name(i, others[i])}" for i in differing[:5]) + (
            " …" if len(differing) > 5 else ""
        )
        session.console.note(f"the most probable states are not unique: {few} has the same probability")


def _state_names(network: Network, states: dict[int, int]) -> dict[str, list[str]]:
    if network.states is None:
        return {}
    first = np.concatenate(([0], np.cumsum(network.cardinality)))
    return {"state_name": [network.states[int(first[i]) + x] for i, x in states.items()]}


def _state_name_columns(network: Network, variables: Sequence[int], rows: Array) -> dict[str, list[str]]:
    """Return rows of states (variables, n) by their names, as one column per variable."""
    first, names = np.concatenate(([0], np.cumsum(network.cardinality))), network.states or []
    return {network.name(i): [names[int(first[i]) + x] for x in row] for i, row in zip(variables, rows.tolist(), strict=True)}


def _find_most_probable_states(
    session: Session, network: Network, variables: list[int], request: Request, *, whole: bool
) -> MostProbableStates:
    """Return the most probable states of some variables, or of all."""
    from herdcli.markov.query import exact_queries

    if whole and request.solver == "toulbar2":
        from herdcli.markov.query import toulbar2

        return toulbar2.solve_most_probable(network, request.time)
    every = range(network.count) if whole else variables
    search, staged = _search_order(session, network, request.orders, request.seed, maximised=every)
    least = None
    if not whole and request.algorithm == AUTO:
        least = _branch_and_bound(
            session, network, variables, request.orders, request.seed, request.effort, staged.cells if staged.complete else math.inf
        )
    if least is not None and least.exact:
        return least
    found = _plan_by_order(session, search, staged, maximised=every)
    if request.algorithm != "max-product" and (found[1] <= _memory_limit(session) or request.algorithm == "junction-tree"):
        work = _require_elimination(session, found)
        best = session.run(
            exact_queries.MostProbableStatesAlgorithm(work, session.map),
            label="elimination",
            follows=least is not None,
            after=lambda _: work.estimate_cost(),
        )
        return replace(best, states={i: best.states[i] for i in variables})
    return (
        _approximate_most_probable_states(session, network, request)
        if whole
        else _coordinate_ascent(session, network, variables, request, least)
    )


def _branch_and_bound(
    session: Session, network: Network, variables: list[int], orders: int, seed: int, effort: float, cells: float
) -> MostProbableStates | None:
    """Search for the marginal MAP by branch and bound, if constrained elimination needs many more table cells than an unconstrained order.

    cells  the table cells of elimination that sums before it maximises.

    Return None if the search is not used.  A value of −∞ means that more --effort may find states.
    """
    from herdcli.markov.query.exact_queries import MostProbableStates
    from herdcli.markov.query.marginal_map_search import BranchAndBound

    if cells <= FEW_CELLS:
        return None
    _, free = _search_order(session, network, orders, seed)
    if not free.complete or cells <= MANY_TIMES * free.cells:
        return None
    search = BranchAndBound(network, variables, free.order.tolist(), BRANCHING * effort * MILLION, session.map)
    if search.memory() > _memory_limit(session):
        return None
    if not search.is_worthwhile():
        return MostProbableStates({}, -math.inf, math.inf, False, "branch-and-bound")
    session.console.note("auto: branch and bound, because exact elimination needs much larger tables")
    return session.run(search, label="branch and bound")


def _approximate_most_probable_states(session: Session, network: Network, request: Request) -> MostProbableStates:
    from herdcli.markov.method import InferenceSettings
    from herdcli.markov.query.best_states import BestFirstSearch
    from herdcli.markov.query.exact_queries import MostProbableStates
    from herdcli.markov.query.max_product import MaxProduct

    if request.algorithm == AUTO:
        session.console.note("auto: max-product, because the tables of elimination exceed --max-memory")
    searched = request.algorithm == AUTO and network.count <= MOST_SEARCHED
    work = MaxProduct(network, settings_from_request(InferenceSettings, request), request.search_steps, PATIENCE if searched else None)
    room, effort = min(_memory_limit(session), MOST_BUCKETS), request.effort * MILLION
    told = (SECONDS * effort, min(room, int(NUMBERS * effort))) if searched else (0.0, 0)
    ended: list[MaxProductState] = []
    found = session.run(work, label="max-product", after=lambda _: told, ended=ended.append)
    if found.exact or not searched:
        return found
    (state,) = ended
    if (fixed := _eliminate_remaining(session, work, state, request.orders, request.seed, request.effort)) is not None:
        return replace(fixed, iterations=found.iterations)
    search = BestFirstSearch(work.inner.network, work.order.tolist(), work.reparametrised_tables(state), state.states, effort, room)
    session.console.note(
        f"auto: branch and bound with mini-buckets of 2^{math.log2(search.cells):.0f} cells, because max-product leaves a gap between "
        "its bounds"
    )
    x, value, upper = session.run(search, label="branch and bound", follows=True)
    constant = work.inner.constant
    bound = max(value + constant, min(found.bound, upper + constant))
    exact = bound - value - constant <= 1e-9 * (1 + abs(bound))
    states = work.inner.original_states(dict(enumerate(x.tolist())))
    return MostProbableStates(states, value + constant, bound, exact, "branch-and-bound", found.iterations)


def _eliminate_remaining(
    session: Session, work: MaxProduct, state: MaxProductState, orders: int, seed: int, effort: float
) -> MostProbableStates | None:
    """Return the most probable states by elimination of the variables that the bound of max-product leaves open, if that fits."""
    from herdcli.markov.model.restricted_states import restrict_to_states
    from herdcli.markov.query import exact_queries

    if work.search.value(state.states) == -math.inf:
        return None
    left = restrict_to_states(work.inner.network, work.possibly_better_states(state))
    every = range(left.network.count)
    search, staged = _search_order(session, left.network, orders, seed, maximised=every)
    found = _plan_by_order(session, search, staged, maximised=every)
    if found[0] is None or found[1] > _memory_limit(session) or staged.cells > effort * MILLION:
        return None
    free, before = (int((network.cardinality > 1).sum()) for network in (left.network, work.inner.network))
    session.console.note(f"auto: elimination of {free} of {before} variables; max-product determined the others")
    best = session.run(exact_queries.MostProbableStatesAlgorithm(found[0], session.map), label="elimination", follows=True)
    value = best.value + left.constant + work.inner.constant
    return replace(
        best,
        states=work.inner.original_states(left.original_states(best.states)),
        value=value,
        bound=value,
        exact=True,
        algorithm="reduced-cost-fixing",
    )


def _coordinate_ascent(
    session: Session, network: Network, variables: list[int], request: Request, best_so_far: MostProbableStates | None
) -> MostProbableStates:
    """Return an approximate marginal MAP by coordinate ascent.

    It starts from the best states of branch and bound if there are any, else from the most probable states of all variables.
    """
    from herdcli.algorithm import run_algorithm
    from herdcli.markov.method import InferenceSettings
    from herdcli.markov.query import marginal_map
    from herdcli.markov.query.max_product import MaxProduct

    try:
        session.require_memory(marginal_map.elimination_bytes(network, variables), "eliminating the variables that are summed out")
    except MemoryLimitExceeded as error:
        if best_so_far is not None and best_so_far.value > -math.inf:
            session.console.note("auto: the best answer of branch and bound, because coordinate ascent exceeds --max-memory")
            return best_so_far
        if best_so_far is not None:
            error.hint = "raise --effort: branch and bound needs less memory, but found no states within this effort"
        raise
    if best_so_far is not None and best_so_far.value > -math.inf:
        begin = best_so_far
    else:
        begin = run_algorithm(MaxProduct(network, settings_from_request(InferenceSettings, request), min(10, request.search_steps)))
    climb = marginal_map.CoordinateAscent(network, variables, [begin.states[i] for i in variables])
    session.console.note("auto: coordinate ascent, because exact elimination exceeds --max-memory")
    best = session.run(climb, label="ascent", follows=best_so_far is not None)
    bound = best.bound if best_so_far is None else max(best.value, min(best.bound, best_so_far.bound))
    return replace(best, bound=bound, exact=bound - best.value <= 1e-9 * (1 + abs(bound)))


def _save_states_as_beliefs(
    session: Session,
    loaded: Artifact,
    network_and_evidence: tuple[Network, dict[int, int]],
    best_states: MostProbableStates,
    summary: str,
    orders: int,
    seed: int,
) -> None:
    """Save the states as `beliefs`: marginals given the states, and the log of their value as log Z."""
    from herdcli.markov.model import beliefs
    from herdcli.markov.model.network import condition_network
    from herdcli.markov.query.exact_queries import compute_all_marginals

    network, evidence = network_and_evidence
    every = evidence | best_states.states
    assignment = np.full(network.count, -1, dtype=np.int64)
    assignment[list(every)] = list(every.values())
    held = condition_network(network, best_states.states)
    nodes = compute_all_marginals(held, orders, seed)
    made = beliefs.assemble_beliefs(
        loaded.value, every, nodes, [], algorithm=best_states.algorithm, log_z=best_states.value, free_energy=-best_states.value,
        iterations=best_states.iterations, assignment=assignment, log_value_upper=best_states.bound,
    )  # fmt: skip
    outputs.write_artifact(session, made, summary, history=loaded)


def answer_joint_table(
    session: Session, loaded: Artifact, network_and_evidence: tuple[Network, dict[int, int]], request: Request, form: str
) -> None:
    """Write the joint table of some variables, one row per combination of their states."""
    from herdcli.markov.model.beliefs import assemble_beliefs
    from herdcli.markov.model.network import build_network
    from herdcli.markov.query import exact_queries

    network, evidence = network_and_evidence
    names = _query_variables(loaded.value, parse_query(request.query), evidence)
    free = [i for i in names if i not in evidence]
    work = _require_elimination(session, _plan_elimination(session, network, request.orders, request.seed, kept=free))
    p, log_z = session.run(
        exact_queries.JointMarginalAlgorithm(work, session.map), label="elimination", after=lambda _: work.estimate_cost()
    )
    p = p.reshape([int(network.cardinality[i]) for i in names])  # variables with evidence have a single state
    titles = [loaded.value.name(i) for i in names]
    summary = f"{p.size} states of {', '.join(titles)}, log Z {log_z:.10g}"
    if form in result_tables.TABLES:
        cells = np.indices(p.shape).reshape(len(names), -1)
        for row, i in zip(cells, names, strict=True):
            row += evidence.get(i, 0)
        words = {} if loaded.value.states is None else _state_name_columns(loaded.value, names, cells)
        numbers: dict[str, Array] = {} if words else dict(zip(titles, cells, strict=True))
        result_tables.save_table(
            session, result_tables.dataset_from_columns(numbers | {"probability": p.ravel()}, words), summary, form, loaded, titles
        )
        return
    axes = range(len(names))
    nodes = [p.sum(axis=tuple(k for k in axes if k != axis)) for axis in axes]
    small = build_network(p.shape, [(tuple(axes), p)], names=titles)
    made = assemble_beliefs(small, {}, nodes, [(tuple(axes), p)], algorithm="elimination", log_z=log_z, free_energy=-log_z)
    outputs.write_artifact(session, made, summary, history=loaded)


def answer_log_z(
    session: Session, loaded: Artifact, network_and_evidence: tuple[Network, dict[int, int]], request: Request, form: str
) -> None:
    """Compute log Z by elimination, which needs half the work because it computes no marginals."""
    from herdcli.markov.formats import results
    from herdcli.markov.query import exact_queries

    network, _ = network_and_evidence
    try:
        work = _require_elimination(session, _plan_elimination(session, network, request.orders, request.seed))
    except DataError as error:
        error.hint = "--query bounds encloses log Z; --format pr without --query approximates it"
        raise
    value = session.run(exact_queries.LogPartitionAlgorithm(work, session.map), label="elimination", after=lambda _: work.estimate_cost())
    summary = f"{loaded.value.listed_count} variables, log Z {value:.10g}"
    if form == "pr":
        outputs.write_text_result(session, results.write_pr(value), summary, form)
    else:
        made = result_tables.dataset_from_columns({"log_z": np.array([value]), "log10_z": np.array([value / math.log(10)])})
        result_tables.save_table(session, made, summary, form, loaded)


def answer_bounds(
    session: Session, loaded: Artifact, network_and_evidence: tuple[Network, dict[int, int]], request: Request, form: str
) -> None:
    """Compute bounds on log Z: tree-reweighted propagation and mini-buckets above, mean field and a probable state below."""
    from herdcli.markov.mean.mean_field_bound import compute_mean_field_bound
    from herdcli.markov.method import InferenceSettings
    from herdcli.markov.model.beliefs import assemble_beliefs
    from herdcli.markov.query import log_z_bounds as enclosing
    from herdcli.markov.query.tree_reweighted import TreeReweighted

    network, evidence = network_and_evidence
    asked = replace(settings_from_request(InferenceSettings, request), algorithm="tree-reweighted")
    known = enclosing.try_quick_elimination(network)
    if known[1] is not None:
        asked = replace(asked, iterations=min(asked.iterations, enclosing.BRIEF))
    found = session.run(TreeReweighted(network, asked), label="tree-reweighted")
    above, below = float(found.attributes["log_z"]), compute_mean_field_bound(network, MOST_CELLS)
    told = enclosing.compute_log_z_bounds(network, below, above, request.bucket_cells, asked, known)
    summary = f"log Z from {told.lower:.8g} ({told.lower_bound_method}) to {told.upper:.8g} ({told.upper_bound_method})"
    if form in result_tables.TABLES:
        numbers: dict[str, Array] = {name: np.array([value]) for name, value in told.columns().items()}
        result_tables.save_table(session, result_tables.dataset_from_columns(numbers), summary, form, loaded)
        return
    attributes = found.attributes | {"log_z_lower": told.lower, "log_z_upper": told.upper, "log_z_mean_field": told.mean_field}
    made = assemble_beliefs(loaded.value, evidence, found.nodes, found.cliques, algorithm="tree-reweighted", **attributes)
    outputs.write_artifact(session, made, summary, history=loaded)


def answer_sensitivity(
    session: Session, loaded: Artifact, network_and_evidence: tuple[Network, dict[int, int]], request: Request, form: str
) -> None:
    """Write one row per cell of every factor: the derivative of P(A = STATE) with respect to it."""
    from herdcli.markov.exact import cliques, junction_tree
    from herdcli.markov.formats.evidence import find_state
    from herdcli.markov.model.network import ConditionedNetwork
    from herdcli.markov.query.sensitivity import compute_parameter_sensitivity as slopes
    from herdcli.markov.query.sensitivity import extend_to_all_cells

    network, evidence = network_and_evidence
    asked = parse_query(request.query)
    (variable,) = _query_variables(loaded.value, asked, evidence)
    state = find_state(loaded.value, variable, asked.state)
    search = cliques.search_elimination_orders(network, request.seed, request.orders)
    size = junction_tree.build_clique_tree(network, search.order).bytes_needed(network) if search.complete else 1 << 60
    session.require_memory(size, "the junction tree")
    found = slopes(network, search.order.tolist(), variable, state)
    if isinstance(network, ConditionedNetwork) and network.before is not None:
        found = extend_to_all_cells(found, network.before, evidence)
    whole = network.before if isinstance(network, ConditionedNetwork) and network.before is not None else network
    words = result_tables.describe_factor_cells(loaded.value, whole)
    found, words = _drop_noisy_max_cells(session, loaded.value, found, words)
    steepest = int(np.abs(found.derivative).argmax())
    where = result_tables.factor_cell_label(words, steepest)
    summary = f"P({loaded.value.name(variable)} = {asked.state}) = {found.probability:.8g}, steepest in {where}"
    numbers = {"factor": found.factor, "cell": found.cell, "value": found.value, "derivative": found.derivative}
    result_tables.save_table(session, result_tables.dataset_from_columns(numbers, words), summary, form, loaded, list(words))


def _drop_noisy_max_cells(
    session: Session, full: Network, sensitivity: ParameterSensitivity, words: dict[str, list[str]]
) -> tuple[ParameterSensitivity, dict[str, list[str]]]:
    """Leave out the cells of factors with auxiliary variables: they are not parameters of the user's noisy-max tables."""
    if not full.auxiliary:
        return sensitivity, words
    dividing = [a for a in range(full.factor_count) if max(full.factor_scope(a)) >= full.listed_count]
    kept = np.flatnonzero(~np.isin(sensitivity.factor, dividing))
    ends = {full.name(scope[-1]) for scope in map(full.factor_scope, dividing) if scope[-1] < full.listed_count}
    session.console.note(f"left out the parameters of the large noisy-max of {', '.join(sorted(ends))}")
    numbers = {name: getattr(sensitivity, name)[kept] for name in ("factor", "cell", "value", "derivative")}
    return replace(sensitivity, **numbers), {name: [column[k] for k in kept.tolist()] for name, column in words.items()}


ANSWERERS = {
    "log-z": answer_log_z,
    "bounds": answer_bounds,
    "mpe": answer_most_probable_states,
    "mmap": answer_most_probable_states,
    "joint": answer_joint_table,
    "sensitivity": answer_sensitivity,
    "dsep": independence_queries.answer_separation,
    "independent": independence_queries.answer_separation,
}
