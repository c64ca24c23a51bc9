"""How far an approximate answer may be from the right one: bounds of log Z, and marginals from elsewhere.

A second answer is had from the first of these whose work is a small share of the run's:

    exact inference      by enumeration or a junction tree: the error itself
    short chains         tempered Gibbs at the network's own temperature, or, of networks too large for its blocks, one variable at a time:
                         what of the difference their standard errors do not explain; of larger networks those of a part (`network_part`)

log Z lies between mean field and mini-buckets (or what exact inference gives).  Work is counted in table cells, so that the speed of a
machine never changes a verdict.  Source: Dechter & Rish (2003) for mini-buckets; Wainwright & Jordan (2008), sec. 5.3, for mean field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.errors import HerdError, NegativeResult
from herdcli.markov.exact import enumeration, junction_tree
from herdcli.markov.exact.elimination import OrderSearch, empty_search, moral_graph, search_step
from herdcli.markov.method import InferenceResult, InferenceSettings
from herdcli.markov.model.network import Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.markov.query import mini_bucket, network_part
from herdcli.markov.query.log_tables import rounding_error
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

FEW_STATES = 1 << 15  # of all variables together, which are enumerated
SHARE = 0.28  # of the run, which the checks may cost
START = 0.3  # seconds of a run that are not its iterations
CELL = 1e-8  # seconds of a run for each table cell and iteration, at least
VISIT, CLIQUE = 1e-7, 1e-4  # seconds of a junction tree for each cell and each clique, about
BUCKET, BUCKET_CELL = 1e-4, 6e-8  # of mini-buckets for each variable and each cell of theirs
BYTES = 24  # of memory for each cell of a junction tree
COVER, SWEEP = 5e-4, 2e-4  # of chains for each variable before they begin, and for each sweep beside their cells
SWEEPS, BURN_IN = 72, 23  # of short chains
MIXED = 1.1  # the largest R̂ of chains that tell something
TERM, LOOP, PREPARED = 2e-8, 6e-5, 1e-6  # of single-site chains: a term of a chain and sweep, a colour of a sweep, a term before them
FEW_SWEEPS, MANY_SWEEPS, CHAINS = 40, 200, 8  # of single-site chains, an eighth of which is left out
MIXED_SINGLY = 1.5  # their largest R̂; what they have not seen is in their standard errors
UNMIXED = 2.0  # R̂ of chains of a network whose marginals no short run can bear out
SPREAD = 2.0  # how much larger a squared difference may be than the squared standard error of few chains, on the average
TOGETHER = 30  # variables whose mean squared difference is no chance
EXPLAINED = 3.0  # standard errors of short chains that a difference may have by chance
AFFORDABLE = float(1 << 24)  # table cells of a junction tree that takes a second or so
LARGEST = 1 << 19  # table cells of a network, beyond which an order of elimination is not looked for
MOST_VARIABLES = 5000
FEW_VARIABLES = 100  # of which blocks of chains are drawn
PART, PART_CUT, PART_CHAINS = (
    400,
    0.02,
    0.06,
)  # variables of the part that is checked of a larger network; seconds to cut it and of its chains
INACCURATE = 0.05  # of a marginal: an estimated error that makes an answer unreliable


UNCHECKED = "nothing"  # what has borne the marginals out of a network too large for a second answer


@dataclass(frozen=True)
class Chains:
    """Marginals by short chains, their standard errors, and the largest R̂; mixed: do they tell anything?

    variables  whose marginals they are; None: of all.      count  how many variables the chains are of.
    """

    nodes: Sequence[Array]
    standard_error: Sequence[Array]
    rhat: float
    mixed: bool
    variables: Sequence[int] | None = None
    count: int = 0


@dataclass(frozen=True)
class ReferenceAnswer:
    """What is known of a network beside the answer.

    lower, upper  bounds of log Z, None where there is none.  marginals, by  a second answer and the method's name; standard_error  of
    it, where it has any.  exact_cells  table cells of a junction tree, where exact inference is affordable.  rhat  of short chains that
    were too far apart to be a second answer.  variables  whose marginals there are; None: of all.  too_large  for chains.
    """

    lower: float | None = None
    upper: float | None = None
    marginals: Sequence[Array] | None = None
    by: str = ""
    standard_error: Sequence[Array] | None = None
    exact_cells: float | None = None
    rhat: float | None = None
    variables: Sequence[int] | None = None
    too_large: bool = False


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


def compute_reference(
    network: Network,
    iterations: int,
    lower: float | None = None,
    *,
    answer: InferenceResult | None = None,
    exactly: bool = True,
    seed: int = 0,
    limit: float = math.inf,
) -> ReferenceAnswer:
    """Bounds and a second answer, for a share of the work of a run with so many iterations.

    lower  the bound by mean field, where it is known.  answer  the one to check, by which large networks are cut into parts.
    exactly=False leaves exact inference out.  limit  bytes that it may take.
    """
    if network.observations():
        return ReferenceAnswer(lower=lower)
    free = network.cardinality[network.cardinality > 1].astype(np.float64)
    states = float(np.prod(free)) if len(free) < 60 else math.inf
    if exactly and states <= min(FEW_STATES, limit / BYTES):
        return _enumerate(network, lower, states)
    budget = SHARE * (START + CELL * iterations * len(network.table))
    upper = largest_product(network)
    if network.count > MOST_VARIABLES or len(network.table) > LARGEST:
        return _with_chains(ReferenceAnswer(lower, upper), _chains_of_part(network, answer, seed, budget))
    found = _search_order(network, seed)
    affordable = found.cells if found.complete and found.cells <= min(AFFORDABLE, limit / BYTES) else None
    if exactly and affordable is not None and CLIQUE * network.count + VISIT * affordable <= budget:
        return _propagate(network, found.order, lower, affordable)
    # Of large networks chains come first: without them nothing tells of marginals.
    kept = _least_of_chains(network) if network.count > FEW_VARIABLES else 0.0
    kept = min(kept, PART_CUT + PART_CHAINS) if network.count > PART else kept
    if found.complete and (cells := _bucket_cells(network, budget - kept if kept < budget else budget)):
        upper = min(upper, mini_bucket.mini_bucket_bound(network, found.order.tolist(), cells=cells).bound)
        budget -= network.count * (BUCKET + cells * BUCKET_CELL)
    chains = _short_chains(network, seed, budget)
    if chains is None and network.count > PART:
        chains = _chains_of_part(network, answer, seed, budget)
    return _with_chains(ReferenceAnswer(lower, upper, exact_cells=affordable), chains, too_large=network.count > PART)


def _with_chains(reference: ReferenceAnswer, chains: Chains | None, too_large: bool = True) -> ReferenceAnswer:
    """The reference with chains as the second answer, where there are any that have mixed."""
    if chains is None:
        return replace(reference, too_large=too_large)
    if not chains.mixed:
        return replace(reference, rhat=chains.rhat)
    by = "short chains" if chains.variables is None else f"short chains of {chains.count} variables"
    return replace(reference, marginals=chains.nodes, by=by, standard_error=chains.standard_error, variables=chains.variables)


def _chains_of_part(network: Network, answer: InferenceResult | None, seed: int, budget: float) -> Chains | None:
    """Chains of the variables around one that is drawn, those at the edge left out; None where they cost more than this."""
    from herdcli.markov.query.chains import single_site_gibbs

    free = np.flatnonzero(network.cardinality > 1)
    if answer is None or not len(free):
        return None
    start = int(generator(seed, Stream.CHAINS, unit=10).choice(free))
    part = network_part.cut_part(network, answer, start, PART, budget - PART_CHAINS)
    if part is None or not single_site_gibbs.applies(part.network):
        return None
    found = _single_site_chains(part.network, seed, PART_CHAINS)
    if found is None:
        return None
    inner = np.flatnonzero(part.inner).tolist()
    return replace(
        found, nodes=[found.nodes[k] for k in inner], standard_error=[found.standard_error[k] for k in inner],
        variables=part.variables[inner].tolist(), count=len(part.variables),
    )  # fmt: skip


def _search_order(network: Network, seed: int) -> OrderSearch:
    return search_step(network, moral_graph(network), seed, empty_search(network))


def largest_product(network: Network) -> float:
    """log Z is at most the number of states times the largest value of every factor."""
    with np.errstate(divide="ignore"):
        tops = np.log(np.maximum.reduceat(network.table, network.table_offset[:-1])) if network.factor_count else np.zeros(0)
    return float(tops.sum() + np.log(network.cardinality.astype(np.float64)).sum() + rounding_error([tops]))


def _bucket_cells(network: Network, budget: float) -> int:
    """The largest mini-buckets that so many seconds are enough for; 0 where none are."""
    each = budget / network.count - BUCKET
    return next((cells for cells in (4096, 1024, 256, 64) if cells * BUCKET_CELL <= each), 0)


def _enumerate(network: Network, lower: float | None, states: float) -> ReferenceAnswer:
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
    return ReferenceAnswer(lower, log_z, nodes, "exact inference", None, states)


def _propagate(network: Network, order: Array, lower: float | None, cells: float) -> ReferenceAnswer:
    """Exact answers from a junction tree, in logarithms."""
    found = junction_tree.calibrate(network, junction_tree.plan_tree(network, order))
    return ReferenceAnswer(lower, found.log_z, junction_tree.node_marginals(network, found), "exact inference", None, cells)


def _short_chains(network: Network, seed: int, budget: float) -> Chains | None:
    """A short run of chains, if it is cheap."""
    from herdcli.markov.query.chains.tempered_gibbs import TemperedGibbs

    asked = InferenceSettings(algorithm="tempered-gibbs", temperatures=1, sweeps=SWEEPS, burn_in=BURN_IN, seed=seed)
    left = budget - COVER * network.count
    if left < (SWEEPS + BURN_IN) * SWEEP:
        return _single_site_chains(network, seed, budget)
    try:
        made = TemperedGibbs(network, asked)
        if made.steps * (SWEEP + CELL * made.work()) > left:
            return _single_site_chains(network, seed, left)
        found = run_algorithm(made)
    except HerdError:  # chains that find no state to begin at say nothing
        return None
    rhat = 1.0 + float(found.attributes["residual"])
    return Chains(found.nodes, found.attributes["standard_error"], rhat, rhat < MIXED)


def _least_of_chains(network: Network) -> float:
    """Seconds of the shortest single-site chains that tell something, with a few colours."""
    from herdcli.markov.query.chains import single_site_gibbs

    if not single_site_gibbs.applies(network):
        return 0.0
    terms = single_site_gibbs.work(network)
    return PREPARED * terms + FEW_SWEEPS * (4 * LOOP + TERM * CHAINS * terms)


def _single_site_chains(network: Network, seed: int, budget: float) -> Chains | None:
    """The same one variable at a time, for as many sweeps as are cheap."""
    from herdcli.markov.query.chains import single_site_gibbs

    terms = single_site_gibbs.work(network)
    left = budget - PREPARED * terms
    if left < FEW_SWEEPS * TERM * CHAINS * terms or not single_site_gibbs.applies(network):
        return None
    parts = single_site_gibbs.colours(network)
    sweeps = min(MANY_SWEEPS, int(left / (LOOP * len(parts) + TERM * CHAINS * terms)))
    if sweeps < FEW_SWEEPS:
        return None
    burn_in = sweeps // 8
    found = single_site_gibbs.sample(network, parts, chains=CHAINS, sweeps=sweeps - burn_in, burn_in=burn_in, seed=seed)
    return Chains(found.nodes, found.standard_error, found.rhat, found.rhat < MIXED_SINGLY)


def assess_answer(result: InferenceResult, algorithm: str, reference: ReferenceAnswer, *, chosen: bool = False) -> Assessment:
    """What a reference says of an answer; the warnings are those of the run and what the reference adds.

    chosen  other algorithms have borne the answer out already.
    """
    warnings = [result.warning] if result.warning else []
    log_z = result.attributes.get("log_z")
    error = _largest_difference(result.nodes, reference)
    if error is not None and error > INACCURATE:
        warnings.append(f"a marginal is off by about {error:.2g} (by {reference.by}); {_hint(reference)}")
    if log_z is not None and exceeds_bound(log_z, reference.upper) and algorithm != "tree-reweighted":
        warnings.append(f"log Z {log_z:.6g} is above {reference.upper:.6g}, which no log Z can be; {_hint(reference)}")
    sampled = algorithm.endswith("gibbs")  # whose own chains have been compared
    if error is None and reference.rhat is not None and reference.rhat > UNMIXED and not (sampled or chosen):
        warnings.append(
            f"these marginals are not confirmed: short chains disagree with each other (R̂ {reference.rhat:.2g}); {_hint(reference)}"
        )
    unchecked = UNCHECKED if reference.too_large and not (sampled or chosen) else ""
    return Assessment(
        reference.lower, reference.upper, error, reference.by if error is not None else unchecked, reference.exact_cells, warnings
    )


def exceeds_bound(log_z: float, upper: float | None) -> bool:
    """Is log Z above its bound by so much that Z is more than a tenth too large?"""
    return upper is not None and math.isfinite(log_z) and log_z > upper + max(0.1, 1e-9 * abs(upper))


def _hint(reference: ReferenceAnswer) -> str:
    if reference.exact_cells is not None:
        return "use --algorithm junction-tree, which is affordable and exact"
    return "--algorithm auto takes the answer on which several algorithms agree"


def _largest_difference(nodes: Sequence[Array], reference: ReferenceAnswer) -> float | None:
    """The largest difference of any marginal from the reference, less what chance explains.

    Of a reference with standard errors and many variables it is at least the root mean square of all differences beyond chance: many
    that are small tell more together than each by itself.
    """
    if reference.marginals is None:
        return None
    if reference.variables is not None:
        nodes = [nodes[i] for i in reference.variables]
    free = [k for k, p in enumerate(nodes) if len(p) > 1]
    if not free:
        return 0.0
    apart = np.abs(np.concatenate([nodes[k] for k in free]) - np.concatenate([reference.marginals[k] for k in free]))
    if reference.standard_error is None:
        largest = float(apart.max())
    else:
        errors = np.concatenate([reference.standard_error[k] for k in free])
        largest = max(0.0, float((apart - EXPLAINED * errors).max()))
        if len(free) >= TOGETHER:
            largest = max(largest, math.sqrt(max(0.0, float((apart**2 - SPREAD * errors**2).mean()))))
    return largest if math.isfinite(largest) else None
