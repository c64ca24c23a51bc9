"""How far an approximate answer may be from the right one: bounds of log Z, and marginals from elsewhere.

A second answer is had from the first of these whose work is a small share of the run's:

    exact inference      by enumeration or a junction tree: the error itself
    short chains         tempered Gibbs at the network's own temperature: what of the difference their standard errors do not explain

log Z lies between mean field and mini-buckets (or what exact inference gives).  Work is counted in table cells, so that the speed of a
machine never changes a verdict.  Source: Dechter & Rish (2003) for mini-buckets; Wainwright & Jordan (2008), sec. 5.3, for mean field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from herdcli.algorithm import solve
from herdcli.errors import HerdError, NegativeResult
from herdcli.markov.exact import enumeration, junction_tree
from herdcli.markov.exact.elimination import Search, begin, moral_graph, step
from herdcli.markov.method import Result, Settings
from herdcli.markov.model.network import Network
from herdcli.markov.model.support import IMPOSSIBLE
from herdcli.markov.query import mini_bucket
from herdcli.markov.query.tables import rounding
from herdcli.records import dataclass
from herdcli.schema import Array

FEW_STATES = 1 << 15  # of all variables together, which are enumerated
SHARE = 0.25  # of the run, which the checks may cost
START = 0.3  # seconds of a run that are not its iterations
CELL = 1e-8  # seconds of a run for each table cell and iteration, at least
VISIT, CLIQUE = 1e-7, 1e-4  # seconds of a junction tree for each cell and each clique, about
BUCKET, BUCKET_CELL = 1e-4, 6e-8  # of mini-buckets for each variable and each cell of theirs
BYTES = 24  # of memory for each cell of a junction tree
COVER, SWEEP = 5e-4, 2e-4  # of chains for each variable before they begin, and for each sweep beside their cells
SWEEPS, BURN_IN = 72, 23  # of short chains
MIXED = 1.1  # the largest R̂ of chains that tell something
EXPLAINED = 3.0  # standard errors of short chains that a difference may have by chance
AFFORDABLE = float(1 << 24)  # table cells of a junction tree that takes a second or so
LARGEST = 1 << 19  # table cells of a network, beyond which an order of elimination is not looked for
MOST_VARIABLES = 5000
INACCURATE = 0.05  # of a marginal: an estimated error that makes an answer unreliable
EXACT = ("junction-tree", "frontier", "enumerate")  # algorithms that need no check


@dataclass(frozen=True)
class Reference:
    """What is known of a network beside the answer.

    lower, upper  bounds of log Z, None where there is none.  marginals, by  a second answer and the method's name; standard_error  of
    it, where it has any.  exact_cells  table cells of a junction tree, where exact inference is affordable.
    """

    lower: float | None = None
    upper: float | None = None
    marginals: Sequence[Array] | None = None
    by: str = ""
    standard_error: Sequence[Array] | None = None
    exact_cells: float | None = None


@dataclass(frozen=True)
class Assessment:
    """A reference beside an answer.

    marginal_error  the largest difference of a marginal, as far as it is no chance; None where there is no second answer.
    """

    log_z_lower: float | None
    log_z_upper: float | None
    marginal_error: float | None
    marginal_error_by: str
    exact_cells: float | None
    warnings: list[str]

    def attributes(self) -> dict[str, Any]:
        """The attributes of `Beliefs`."""
        return {
            "log_z_lower": self.log_z_lower,
            "log_z_upper": self.log_z_upper,
            "estimated_error": self.marginal_error,
            "estimated_by": self.marginal_error_by or None,
            "exact_cells": self.exact_cells,
            "warnings": self.warnings or None,
        }


def reference(
    network: Network, iterations: int, lower: float | None = None, *, exactly: bool = True, seed: int = 0, limit: float = math.inf
) -> Reference:
    """Bounds and a second answer, for a share of the work of a run with so many iterations.

    lower  the bound by mean field, where it is known.  exactly=False leaves exact inference out.  limit  bytes that it may take.
    """
    if network.observations():
        return Reference(lower=lower)
    free = network.cardinality[network.cardinality > 1].astype(np.float64)
    states = float(np.prod(free)) if len(free) < 60 else math.inf
    if exactly and states <= min(FEW_STATES, limit / BYTES):
        return _enumerated(network, lower, states)
    budget = SHARE * (START + CELL * iterations * len(network.table))
    upper = largest_product(network)
    if network.count > MOST_VARIABLES or len(network.table) > LARGEST:
        return Reference(lower, upper)
    found = _order(network, seed)
    affordable = found.cells if found.complete and found.cells <= min(AFFORDABLE, limit / BYTES) else None
    if exactly and affordable is not None and CLIQUE * network.count + VISIT * affordable <= budget:
        return _propagated(network, found.order, lower, affordable)
    if found.complete and (cells := _bucket_cells(network, budget)):
        upper = min(upper, mini_bucket.bound(network, found.order.tolist(), cells=cells).bound)
        budget -= network.count * (BUCKET + cells * BUCKET_CELL)
    chains = _short_chains(network, seed, budget)
    if chains is None:
        return Reference(lower, upper, exact_cells=affordable)
    return Reference(lower, upper, chains.nodes, "short chains", chains.attributes["standard_error"], affordable)


def _order(network: Network, seed: int) -> Search:
    return step(network, moral_graph(network), seed, begin(network))


def largest_product(network: Network) -> float:
    """log Z is at most the number of states times the largest value of every factor."""
    with np.errstate(divide="ignore"):
        tops = np.log(np.maximum.reduceat(network.table, network.table_offset[:-1])) if network.factor_count else np.zeros(0)
    return float(tops.sum() + np.log(network.cardinality.astype(np.float64)).sum() + rounding([tops]))


def _bucket_cells(network: Network, budget: float) -> int:
    """The largest mini-buckets that so many seconds are enough for; 0 where none are."""
    each = budget / network.count - BUCKET
    return next((cells for cells in (4096, 1024, 256, 64) if cells * BUCKET_CELL <= each), 0)


def _enumerated(network: Network, lower: float | None, states: float) -> Reference:
    """Exact answers from the joint table."""
    logs = enumeration.log_joint(network)
    top = float(logs.max())
    if top == -math.inf:
        raise NegativeResult(IMPOSSIBLE)
    p = np.exp(logs - top)
    total = float(p.sum())
    rest = p / total
    nodes = []
    for count in network.cardinality.tolist():
        if count == 1:
            nodes.append(np.ones(1))
            continue
        nodes.append(rest.reshape(count, -1).sum(axis=1))
        rest = rest.sum(axis=0)
    log_z = top + math.log(total)
    return Reference(lower, log_z, nodes, "exact inference", None, states)


def _propagated(network: Network, order: Array, lower: float | None, cells: float) -> Reference:
    """Exact answers from a junction tree, in logarithms."""
    found = junction_tree.calibrate(network, junction_tree.plan(network, order))
    return Reference(lower, found.log_z, junction_tree.node_marginals(network, found), "exact inference", None, cells)


def _short_chains(network: Network, seed: int, budget: float) -> Result | None:
    """A short run of chains, if it is cheap and has mixed."""
    from herdcli.markov.query.tempered_gibbs import TemperedGibbs

    asked = Settings(algorithm="tempered-gibbs", temperatures=1, sweeps=SWEEPS, burn_in=BURN_IN, seed=seed)
    left = budget - COVER * network.count
    if left < (SWEEPS + BURN_IN) * SWEEP:
        return None
    try:
        made = TemperedGibbs(network, asked)
        if made.steps * (SWEEP + CELL * made.work()) > left:
            return None
        found = solve(made)
    except HerdError:  # chains that find no state to begin at say nothing
        return None
    return found if found.attributes["residual"] < MIXED - 1 else None


def assess(found: Result, algorithm: str, known: Reference) -> Assessment:
    """What a reference says of an answer; the warnings are those of the run and what the reference adds."""
    warnings = [found.warning] if found.warning else []
    log_z = found.attributes.get("log_z")
    error = _largest_difference(found.nodes, known)
    if error is not None and error > INACCURATE:
        warnings.append(f"a marginal is off by about {error:.2g} (by {known.by}); {_advice(known)}")
    if log_z is not None and exceeds(log_z, known.upper) and algorithm != "tree-reweighted":
        warnings.append(f"log Z {log_z:.6g} is above {known.upper:.6g}, which no log Z can be; {_advice(known)}")
    return Assessment(known.lower, known.upper, error, known.by if error is not None else "", known.exact_cells, warnings)


def exceeds(log_z: float, upper: float | None) -> bool:
    """Is log Z above its bound by so much that Z is more than a tenth too large?"""
    return upper is not None and math.isfinite(log_z) and log_z > upper + max(0.1, 1e-9 * abs(upper))


def _advice(known: Reference) -> str:
    if known.exact_cells is not None:
        return "--algorithm junction-tree is affordable and exact"
    return "--algorithm auto takes what several algorithms bear out"


def _largest_difference(nodes: Sequence[Array], known: Reference) -> float | None:
    """The largest difference of any marginal from the reference, less what chance explains."""
    if known.marginals is None:
        return None
    largest = 0.0
    for k, (p, q) in enumerate(zip(nodes, known.marginals, strict=True)):
        if len(p) < 2:
            continue
        apart = np.abs(p - q)
        if known.standard_error is not None:
            apart = apart - EXPLAINED * known.standard_error[k]
        largest = max(largest, float(apart.max()))
    return largest if math.isfinite(largest) else None
