"""The one table of inference algorithms, and which of them takes a network."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from herdcli.algorithm import solve
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.markov.exact.elimination import Search
    from herdcli.markov.exact.methods import JunctionTree, Orders
    from herdcli.markov.method import Map, Method, Settings
    from herdcli.markov.model.network import Network

# name -> module.class: a Method made of (network, settings); in the order of --help
ALGORITHMS: dict[str, str] = {
    "junction-tree": "herdcli.markov.exact.methods.JunctionTree",
    "frontier": "herdcli.markov.exact.frontier.Frontier",
    "enumerate": "herdcli.markov.exact.methods.Enumerate",
    "bp": "herdcli.markov.bethe.propagation.BeliefPropagation",
    "ups": "herdcli.markov.bethe.ups.UPS",
    "ups-t": "herdcli.markov.bethe.ups.UPS",
    "double-loop": "herdcli.markov.bethe.double_loop.DoubleLoop",
    "gbp": "herdcli.markov.bethe.double_loop.DoubleLoop",
    "loopy-is": "herdcli.markov.bethe.propagation.BeliefPropagation",
    "is-bp": "herdcli.markov.bethe.scaling.ScalingByPropagation",
    "gis-bp": "herdcli.markov.bethe.scaling.ScalingByPropagation",
    "mean-field": "herdcli.markov.mean.mean_field.MeanField",
    "structured-mean-field": "herdcli.markov.mean.structured.StructuredMeanField",
    "tap": "herdcli.markov.mean.mean_field.MeanField",
    "belief-optimization": "herdcli.markov.bethe.belief_optimization.BeliefOptimization",
    "tree-reweighted": "herdcli.markov.query.tree_reweighted.TreeReweighted",
    "tree-ep": "herdcli.markov.query.tree_ep.TreeEP",
    "loop-corrected": "herdcli.markov.bethe.loop_corrected.LoopCorrected",
    "gibbs": "herdcli.markov.mean.gibbs.Gibbs",
    "tempered-gibbs": "herdcli.markov.query.tempered_gibbs.TemperedGibbs",
}
ANY_NETWORK = {  # what the same name runs where the network is no Boltzmann machine
    "gibbs": "herdcli.markov.query.blocked_gibbs.BlockedGibbs",
    "mean-field": "herdcli.markov.mean.any_states.AnyMeanField",
}
NO_LOG_Z = {"gibbs", "tempered-gibbs", "loop-corrected"}
TAKES_OBSERVED = {"junction-tree", "enumerate", "ups", "ups-t", "loopy-is", "is-bp", "gis-bp", "mean-field", "tap"}
WIDE = 1 << 27  # bytes of a junction tree from which `auto` looks for a frontier
NEEDS_OBSERVED = {"loopy-is", "is-bp", "gis-bp"}


def remaining(method: Method, state: Any, fit: Callable[[JunctionTree, Search], int] | None = None) -> tuple[float, int]:
    """Seconds and bytes of `result`, as far as they are known, from a state that a plan has reached.

    fit  chooses how a junction tree keeps its messages, and says what that takes (0: all are in memory).
    """
    from herdcli.markov.exact.methods import JunctionTree, Orders

    if isinstance(method, JunctionTree):
        found = solve(Orders(method), state)
        seconds, size = method.remaining(found)
        return seconds, (fit(method, found) if fit else 0) or size
    return 0.0, method.bytes_needed(state)[0]


def method(network: Network, settings: Settings, map: Map = map) -> Method:
    """The algorithm that the settings name; `map` has the workers of those that share work.

    Raises BadUsage if it cannot use what is observed.
    """
    if network.observations() and settings.algorithm not in TAKES_OBSERVED:
        able = ", ".join(sorted(TAKES_OBSERVED))
        raise BadUsage(f"--algorithm {settings.algorithm} takes no observed marginals", hint=f"those that do: {able}; or --ignore-observed")
    if settings.algorithm in NEEDS_OBSERVED and not network.observations():
        raise BadUsage(f"--algorithm {settings.algorithm} needs observed marginals", hint="--observe x0=0.2,0.8; or --algorithm bp")
    if settings.algorithm == "bp" and (found := _as_lattice(network, settings, map)) is not None:
        return found
    if settings.algorithm == "junction-tree" and network.observations():
        from herdcli.markov.exact.observed import ObservedTree

        return ObservedTree(network, settings)
    if settings.algorithm in ("gbp", "double-loop") and not network.table.all():
        from herdcli.markov.model import support

        support.domains(network)  # which refuses what leaves a variable no state: messages would vanish
    kind, _, size = settings.regions.partition(":")
    if settings.algorithm in ("gbp", "double-loop") and kind == "cliques":
        return _over_cliques(network, settings, int(size))
    path = ALGORITHMS[settings.algorithm]
    if settings.algorithm in ANY_NETWORK and not settings.linear_response and not is_boltzmann(network):
        path = ANY_NETWORK[settings.algorithm]
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    made: Method = kind(network, settings, map) if settings.algorithm == "junction-tree" else kind(network, settings)
    return made


def _over_cliques(network: Network, settings: Settings, most: int) -> Method:
    """gbp or the double loop over parts of a junction tree, that of one run of min-fill."""
    from herdcli.markov.bethe.double_loop import DoubleLoop
    from herdcli.markov.exact import elimination
    from herdcli.markov.model import regions

    return DoubleLoop(network, settings, regions.cliques(network, elimination.fill_order(network, settings.seed), most))


def is_boltzmann(network: Network) -> bool:
    """Has it two-state variables and positive factors of pairs alone, as far as evidence leaves any?"""
    from herdcli.markov.model.boltzmann import boltzmann

    try:
        boltzmann(network, "")
    except BadUsage:
        return False
    return True


def _as_lattice(network: Network, settings: Settings, map: Map) -> Method | None:
    """bp in the ratio domain, where that is asked for, or left open and worth it."""
    from herdcli.markov.bethe import lattice

    asked = settings.schedule == "checkerboard"
    if asked and settings.linear_response:
        raise BadUsage("--schedule checkerboard gives no linear response", hint="--schedule residual")
    open_to = (
        not settings.linear_response
        and settings.start == 0
        and settings.schedule == "auto"
        and settings.damping == 0
        and not settings.damping_schedule
        and network.shape is not None
        and network.count >= lattice.WORTH_IT
    )
    if not (asked or open_to):
        return None
    found = lattice.find(network)
    if isinstance(found, lattice.Lattice):
        return lattice.LatticePropagation(network, settings, found, map)
    if asked:
        raise BadUsage(f"--schedule checkerboard {found}", hint="--schedule residual")
    return None


def _sweepable(network: Network, settings: Settings, size: int, limit: int) -> tuple[str, str] | None:
    """The frontier sweep, where a lattice's junction tree would take `size` bytes and that is much."""
    import numpy as np

    from herdcli.markov.exact import frontier
    from herdcli.markov.model import grids

    cells = None if size <= WIDE else grids.place(network)
    if cells is None:
        return None
    across = np.log2(network.cardinality[cells]).sum(axis=int(cells.shape[1] <= cells.shape[0])).max()  # of a row along the shorter side
    if across > math.log2(min(limit, size)) or isinstance(frontier.find(network), str):
        return None
    needed, _ = frontier.Frontier(network, settings).bytes_needed(None)
    return ("frontier", f"which sweeps over the lattice in 2^{math.log2(needed):.0f} bytes") if needed <= min(limit, size) else None


@dataclass(frozen=True)
class Candidate:
    """One algorithm that `auto` tries: why, and the method itself where the choice has made it and done its steps."""

    name: str
    why: str
    method: Method | None = None


@dataclass(frozen=True)
class TooLarge:
    """Why there is no exact answer."""

    why: str


def exactly(
    network: Network, settings: Settings, limit: int, run: Callable[[Orders], Search] = solve, *, room: int = 0, map: Map = map
) -> Candidate | TooLarge:
    """The exact algorithm that `auto` takes, where one fits `limit` bytes.

    run  runs the search for an elimination order.  room  bytes of a file that messages may be kept in.  map  has the workers.
    """
    if network.observations():
        made = method(network, replace(settings, algorithm="junction-tree"))
        if made.memory() <= limit:
            return Candidate("junction-tree", "which fits the memory allowed", made)
        return TooLarge(f"as {str(made.words).rstrip(',')} would take 2^{math.log2(made.memory()):.0f} bytes")
    from herdcli.markov.exact.methods import JunctionTree, Orders

    exact = JunctionTree(network, replace(settings, algorithm="junction-tree"), map)
    exact.limit = limit
    state = run(Orders(exact))
    size, what = exact.bytes_needed(state)
    if size <= min(limit, WIDE):
        return Candidate("junction-tree", "which fits the memory allowed", exact.searched(state))
    size, fits = exact.least(state, limit, room)
    if (swept := _sweepable(network, settings, size, limit)) is not None:
        return Candidate(*swept)
    if fits:
        return Candidate("junction-tree", "which fits the memory allowed", exact.searched(state))
    return TooLarge(f"as {what.rstrip(',')} would take 2^{math.log2(size):.0f} bytes")
