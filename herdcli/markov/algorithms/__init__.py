"""Construction of the inference algorithm for a network, and the exact algorithm that `auto` uses; the algorithms are listed in `table`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.markov.algorithms.table import TABLE, algorithms_using_marginals
from herdcli.parts import import_class_with_methods
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.algorithm import Map
    from herdcli.markov.exact.elimination import OrderSearch
    from herdcli.markov.exact.exact_algorithms import EliminationOrderAlgorithm, JunctionTree
    from herdcli.markov.method import InferenceMethod, InferenceSettings, MethodState
    from herdcli.markov.model.network import Network

WIDE = 1 << 27  # `auto` considers a frontier if the junction tree needs more bytes than this


def estimate_remaining_cost(
    method: InferenceMethod, state: MethodState, choose_storage: Callable[[JunctionTree, OrderSearch], int] | None = None
) -> tuple[float, int]:
    """Return the seconds and bytes of `result`, as far as they are known, from the state that a plan has reached.

    choose_storage  chooses where a junction tree stores its messages, and returns the bytes of that choice (0: all are in memory).
    """
    from herdcli.markov.exact.exact_algorithms import EliminationOrderAlgorithm, JunctionTree

    if isinstance(method, JunctionTree):
        found = run_algorithm(EliminationOrderAlgorithm(method), state)
        seconds, size = method.estimate_cost(found)
        return seconds, (choose_storage(method, found) if choose_storage else 0) or size
    return 0.0, method.bytes_needed(state)[0]


def make_inference_method(network: Network, settings: InferenceSettings, map: Map = map, limit: float = math.inf) -> InferenceMethod:
    """Construct the algorithm that the settings name.

    map    like the built-in `map`, perhaps over workers, for algorithms that run in parallel.
    limit  bytes that a junction tree may use.

    Raises BadUsage if the algorithm cannot use observed marginals.
    """
    entry = TABLE.get(settings.algorithm)
    if entry is None:
        raise BadUsage(f"unknown algorithm '{settings.algorithm}'", hint=f"use one of {', '.join(TABLE)}")
    if network.stored_marginals() and entry.observed == "refused":
        others = ", ".join(sorted(algorithms_using_marginals("used") + algorithms_using_marginals("needed")))
        raise BadUsage(
            f"--algorithm {settings.algorithm} does not work with observed marginals",
            hint=f"use --ignore-observed, or --algorithm with one of {others}",
        )
    if entry.observed == "needed" and not network.stored_marginals():
        raise BadUsage(
            f"--algorithm {settings.algorithm} needs observed marginals", hint="give one, as in --observe x0=0.2,0.8, or use --algorithm bp"
        )
    if settings.algorithm == "bp" and (found := _make_lattice_propagation(network, settings, map)) is not None:
        return found
    if settings.algorithm == "junction-tree" and network.stored_marginals():
        from herdcli.markov.exact.observed_marginals import ObservedTree

        return ObservedTree(network, settings)
    if settings.algorithm in ("gbp", "double-loop") and not network.table.all():
        from herdcli.markov.model import possible_states

        possible_states.find_possible_states(network)  # raises an error if a variable has no possible state; messages would vanish
    form, _, size = settings.regions.partition(":")
    if settings.algorithm in ("gbp", "double-loop") and form == "cliques":
        return _make_junction_tree_regions(network, settings, int(size))
    general = entry.general and not settings.linear_response and not is_boltzmann_machine(network)
    from herdcli.markov.method import InferenceMethod

    kind = import_class_with_methods(entry.general if general else entry.path, InferenceMethod)
    made: InferenceMethod = kind(network, settings, map, limit) if settings.algorithm == "junction-tree" else kind(network, settings)
    return made


def _make_junction_tree_regions(network: Network, settings: InferenceSettings, max_variables: int) -> InferenceMethod:
    """Construct gbp or the double loop over parts of a junction tree, from one run of min-fill."""
    from herdcli.markov.bethe.double_loop import DoubleLoop
    from herdcli.markov.exact import elimination
    from herdcli.markov.model.graphs import region_graphs

    return DoubleLoop(
        network, settings, region_graphs.mini_bucket_regions(network, elimination.min_fill_order(network, settings.seed), max_variables)
    )


def is_boltzmann_machine(network: Network) -> bool:
    """Return True if, given the evidence, the network has only binary variables and positive factors over at most pairs."""
    from herdcli.markov.model.boltzmann import to_boltzmann_machine

    try:
        to_boltzmann_machine(network, "")
    except BadUsage:
        return False
    return True


def _make_lattice_propagation(network: Network, settings: InferenceSettings, map: Map) -> InferenceMethod | None:
    """Return bp in the ratio domain if the user requests it, or if no schedule is chosen and the ratio domain is worthwhile; else None."""
    from herdcli.markov.bethe import lattice_bp

    asked = settings.schedule == "checkerboard"
    if asked and settings.linear_response:
        raise BadUsage("--linear-response does not work with --schedule checkerboard", hint="use --schedule residual")
    open_to = (
        not settings.linear_response
        and settings.start == 0
        and settings.schedule == "auto"
        and settings.damping == 0
        and not settings.damping_schedule
        and network.shape is not None
        and network.count >= lattice_bp.WORTH_IT
    )
    if not (asked or open_to):
        return None
    found = lattice_bp.find_binary_lattice(network)
    if isinstance(found, lattice_bp.BinaryLattice):
        return lattice_bp.LatticePropagation(network, settings, found, map)
    if asked:
        raise BadUsage(f"--schedule checkerboard {found}", hint="use --schedule residual")
    return None


def _choose_frontier_over_tree(network: Network, settings: InferenceSettings, tree_bytes: int, max_bytes: int) -> tuple[str, str] | None:
    """Return the frontier sweep with a reason, if a lattice's junction tree would take `tree_bytes` bytes and that is much."""
    import numpy as np

    from herdcli.markov.exact import frontier
    from herdcli.markov.model.graphs import lattice_detection

    cells = None if tree_bytes <= WIDE else lattice_detection.find_lattice_layout(network)
    if cells is None:
        return None
    across = np.log2(network.cardinality[cells]).sum(axis=int(cells.shape[1] <= cells.shape[0])).max()  # of a row along the shorter side
    if across > math.log2(min(max_bytes, tree_bytes)) or isinstance(frontier.find_swept_lattice(network), str):
        return None
    needed, _ = frontier.Frontier(network, settings).bytes_needed(None)
    return (
        ("frontier", f"which is exact and sweeps over the lattice in 2^{math.log2(needed):.0f} bytes")
        if needed <= min(max_bytes, tree_bytes)
        else None
    )


@dataclass(frozen=True)
class ExactCandidate:
    """One algorithm that `auto` tries.

    why     the reason, in words.
    method  the method, if the choice has constructed it and done its steps.
    """

    name: str
    why: str
    method: InferenceMethod | None = None


@dataclass(frozen=True)
class ExactInfeasible:
    """The reason why there is no exact answer."""

    why: str


def choose_exact_algorithm(
    network: Network,
    settings: InferenceSettings,
    max_bytes: int,
    run: Callable[[EliminationOrderAlgorithm], OrderSearch] = run_algorithm,
    *,
    file_bytes: int = 0,
    map: Map = map,
) -> ExactCandidate | ExactInfeasible:
    """Return the exact algorithm that `auto` uses, if one fits into `max_bytes` bytes.

    run   runs the search for an elimination order.
    file_bytes  bytes of a file that messages may be stored in.
    map   like the built-in `map`, perhaps over workers.
    """
    if network.stored_marginals():
        made = make_inference_method(network, replace(settings, algorithm="junction-tree"))
        if made.memory() <= max_bytes:
            return ExactCandidate("junction-tree", "which is exact and fits into the allowed memory", made)
        return ExactInfeasible(f"because {str(made.words).rstrip(',')} would take 2^{math.log2(made.memory()):.0f} bytes")
    from herdcli.markov.exact.exact_algorithms import EliminationOrderAlgorithm, JunctionTree

    exact = JunctionTree(network, replace(settings, algorithm="junction-tree"), map, max_bytes)
    state = run(EliminationOrderAlgorithm(exact))
    size, what = exact.bytes_needed(state)
    if size <= min(max_bytes, WIDE):
        return ExactCandidate("junction-tree", "which is exact and fits into the allowed memory", exact.continue_from_orders(state))
    size, fits = exact.smallest_memory_need(state, max_bytes, file_bytes)
    if (swept := _choose_frontier_over_tree(network, settings, size, max_bytes)) is not None:
        return ExactCandidate(*swept)
    if fits:
        return ExactCandidate("junction-tree", "which is exact and fits into the allowed memory", exact.continue_from_orders(state))
    return ExactInfeasible(f"because {what.rstrip(',')} would take 2^{math.log2(size):.0f} bytes")
