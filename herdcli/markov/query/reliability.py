"""Estimates of the error of an approximate answer: bounds of log Z, and marginals by a second method.

The second answer is from the first of these methods whose cost is a small share of the run's:

    exact inference      by enumeration or a junction tree: gives the error itself
    short chains         tempered Gibbs at the network's own temperature or, for networks too large for its blocks, single-site Gibbs: gives
                         the difference beyond their standard errors; for larger networks only for a part (`network_part`)

log Z lies between mean field and mini-buckets (or is exact).  Cost is counted in table cells, so that the speed of a
machine never changes a verdict.  Source: Dechter & Rish (2003) for mini-buckets; Wainwright & Jordan (2008), sec. 5.3, for mean field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.errors import HerdError, NegativeResult
from herdcli.markov.exact import enumeration, junction_tree
from herdcli.markov.exact.elimination import OrderSearch, initial_order_search, moral_graph, try_more_orders
from herdcli.markov.method import InferenceResult, InferenceSettings
from herdcli.markov.model.network import Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.markov.query import mini_bucket, network_part
from herdcli.markov.query.log_tables import rounding_error_bound
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

FEW_STATES = 1 << 15  # networks with at most this many joint states are enumerated
SHARE = 0.28  # share of the run that the checks may cost
START = 0.3  # seconds of a run outside its iterations
CELL = 1e-8  # minimum seconds of a run per table cell and iteration
VISIT, CLIQUE = 1e-7, 1e-4  # approximate seconds of a junction tree per cell and per clique
BUCKET, BUCKET_CELL = 1e-4, 6e-8  # seconds of mini-buckets per variable and per cell
BYTES = 24  # memory per cell of a junction tree
COVER, SWEEP = 5e-4, 2e-4  # seconds of chains per variable before they begin, and per sweep in addition to their cells
SWEEPS, BURN_IN = 72, 23  # numbers of sweeps of short chains
MIXED = 1.1  # the largest R̂ of chains that are usable
TERM, LOOP, PREPARED = 2e-8, 6e-5, 1e-6  # seconds of single-site chains: per term, chain and sweep; per colour and sweep; per term
FEW_SWEEPS, MANY_SWEEPS, CHAINS = 40, 200, 8  # least and largest number of sweeps, and number, of single-site chains; ⅛ is burn-in
MIXED_SINGLY = 1.5  # the largest R̂ of usable single-site chains; their standard errors include unvisited states
UNMIXED = 2.0  # no short run can confirm the marginals of a network whose chains have a larger R̂
SPREAD = 2.0  # the mean of squared differences may be this many times that of squared standard errors by chance
TOGETHER = 30  # the mean squared difference is significant if there are at least this many variables
EXPLAINED = 3.0  # a difference of up to this many standard errors of short chains may be due to chance
AFFORDABLE = float(1 << 24)  # table cells of a junction tree that takes about a second
LARGEST = 1 << 19  # no elimination order is searched for if a network has more table cells than this
MOST_VARIABLES = 5000
FEW_VARIABLES = 100  # chains use blocks if there are at most this many variables
PART, PART_CUT, PART_CHAINS = (
    400,
    0.02,
    0.06,
)  # variables of the part that is checked in a larger network; seconds to cut it and of its chains
INACCURATE = 0.05  # estimated error of a marginal that makes an answer unreliable


UNCHECKED = "nothing"  # name of the check for networks too large for a second answer


@dataclass(frozen=True)
class ChainEstimates:
    """Marginals by short chains, their standard errors, and the largest R̂.

    mixed      True if the chains are usable.
    variables  the variables of the marginals; None for all.
    count      number of variables of the sampled network.
    """

    nodes: Sequence[Array]
    standard_error: Sequence[Array]
    rhat: float
    mixed: bool
    variables: Sequence[int] | None = None
    count: int = 0


@dataclass(frozen=True)
class ReferenceAnswer:
    """Bounds and a second answer for a network.

    lower, upper    bounds of log Z, None if there is none.
    marginals, by   a second answer and the method's name.
    standard_error  of the second answer, if it has any.
    exact_cells     table cells of a junction tree, if exact inference is affordable.
    rhat            R̂ of short chains that had not mixed well enough for a second answer.
    variables       the variables of the marginals; None for all.
    too_large       True if the network is too large for chains.
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
    """The comparison of an answer with a reference.

    marginal_error  the largest significant difference of a marginal; None without a second answer.
    """

    log_z_lower: float | None
    log_z_upper: float | None
    marginal_error: float | None
    marginal_error_by: str
    exact_cells: float | None
    warnings: list[str]

    def attributes(self) -> dict[str, object]:
        """Return the attributes for `Beliefs`."""
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
    lower_bound: float | None = None,
    *,
    answer: InferenceResult | None = None,
    allow_exact: bool = True,
    seed: int = 0,
    limit: float = math.inf,
) -> ReferenceAnswer:
    """Compute bounds and a second answer, at a share of the cost of a run with `iterations` iterations.

    lower_bound    the bound by mean field, if it is known.
    answer   the answer to check; it is needed to cut large networks into parts.
    allow_exact  False leaves out exact inference.
    limit    bytes that exact inference may use.
    """
    if network.stored_marginals():
        return ReferenceAnswer(lower=lower_bound)
    free = network.cardinality[network.cardinality > 1].astype(np.float64)
    states = float(np.prod(free)) if len(free) < 60 else math.inf
    if allow_exact and states <= min(FEW_STATES, limit / BYTES):
        return _enumerate_reference(network, lower_bound, states)
    budget = SHARE * (START + CELL * iterations * len(network.table))
    upper = trivial_log_z_bound(network)
    if network.count > MOST_VARIABLES or len(network.table) > LARGEST:
        return _answer_with_chains(ReferenceAnswer(lower_bound, upper), _run_part_chains(network, answer, seed, budget))
    found = _search_elimination_order(network, seed)
    affordable = found.cells if found.complete and found.cells <= min(AFFORDABLE, limit / BYTES) else None
    if allow_exact and affordable is not None and CLIQUE * network.count + VISIT * affordable <= budget:
        return _propagate_reference(network, found.order, lower_bound, affordable)
    # For large networks chains come first: nothing else checks the marginals.
    kept = _min_chain_seconds(network) if network.count > FEW_VARIABLES else 0.0
    kept = min(kept, PART_CUT + PART_CHAINS) if network.count > PART else kept
    if found.complete and (cells := _affordable_bucket_cells(network, budget - kept if kept < budget else budget)):
        upper = min(upper, mini_bucket.compute_mini_bucket_bound(network, found.order.tolist(), cells=cells).bound)
        budget -= network.count * (BUCKET + cells * BUCKET_CELL)
    chains = _run_short_chains(network, seed, budget)
    if chains is None and network.count > PART:
        chains = _run_part_chains(network, answer, seed, budget)
    return _answer_with_chains(ReferenceAnswer(lower_bound, upper, exact_cells=affordable), chains, too_large=network.count > PART)


def _answer_with_chains(reference: ReferenceAnswer, chains: ChainEstimates | None, too_large: bool = True) -> ReferenceAnswer:
    """Return the reference with the chains as the second answer, if there are any that have mixed."""
    if chains is None:
        return replace(reference, too_large=too_large)
    if not chains.mixed:
        return replace(reference, rhat=chains.rhat)
    by = "short chains" if chains.variables is None else f"short chains of {chains.count} variables"
    return replace(reference, marginals=chains.nodes, by=by, standard_error=chains.standard_error, variables=chains.variables)


def _run_part_chains(network: Network, answer: InferenceResult | None, seed: int, budget: float) -> ChainEstimates | None:
    """Run chains on the variables around a random one, and leave out those at the boundary; return None if they exceed the budget."""
    from herdcli.markov.query.chains import single_site_gibbs

    free = np.flatnonzero(network.cardinality > 1)
    if answer is None or not len(free):
        return None
    start = int(generator(seed, Stream.CHAINS, unit=10).choice(free))
    part = network_part.extract_part(network, answer, start, PART, budget - PART_CHAINS)
    if part is None or not single_site_gibbs.can_sample_single_sites(part.network):
        return None
    found = _run_single_site_chains(part.network, seed, PART_CHAINS)
    if found is None:
        return None
    inner = np.flatnonzero(part.inner).tolist()
    return replace(
        found, nodes=[found.nodes[k] for k in inner], standard_error=[found.standard_error[k] for k in inner],
        variables=part.variables[inner].tolist(), count=len(part.variables),
    )  # fmt: skip


def _search_elimination_order(network: Network, seed: int) -> OrderSearch:
    return try_more_orders(network, moral_graph(network), seed, initial_order_search(network))


def trivial_log_z_bound(network: Network) -> float:
    """Return an upper bound of log Z: the number of states times the largest value of every factor."""
    with np.errstate(divide="ignore"):
        tops = np.maximum.reduceat(network.table, network.table_offset[:-1]) if network.factor_count else np.zeros(0)
        np.log(tops, out=tops)
    return float(tops.sum() + np.log(network.cardinality.astype(np.float64)).sum() + rounding_error_bound([tops]))


def _affordable_bucket_cells(network: Network, budget: float) -> int:
    """Return the largest mini-bucket size that `budget` seconds allow; 0 if there is none."""
    each = budget / network.count - BUCKET
    return next((cells for cells in (4096, 1024, 256, 64) if cells * BUCKET_CELL <= each), 0)


def _enumerate_reference(network: Network, lower: float | None, states: float) -> ReferenceAnswer:
    """Compute exact answers from the joint table."""
    logs = enumeration.compute_log_joint(network)
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


def _propagate_reference(network: Network, order: Array, lower: float | None, cells: float) -> ReferenceAnswer:
    """Compute exact answers from a junction tree, in logarithms."""
    found = junction_tree.calibrate(network, junction_tree.build_clique_tree(network, order))
    return ReferenceAnswer(lower, found.log_z, junction_tree.node_marginals(network, found), "exact inference", None, cells)


def _run_short_chains(network: Network, seed: int, budget: float) -> ChainEstimates | None:
    """Run short chains, if they are cheap."""
    from herdcli.markov.query.chains.tempered_gibbs import TemperedGibbs

    asked = InferenceSettings(algorithm="tempered-gibbs", temperatures=1, sweeps=SWEEPS, burn_in=BURN_IN, seed=seed)
    left = budget - COVER * network.count
    if left < (SWEEPS + BURN_IN) * SWEEP:
        return _run_single_site_chains(network, seed, budget)
    try:
        made = TemperedGibbs(network, asked)
        if made.steps * (SWEEP + CELL * made.work_per_step()) > left:
            return _run_single_site_chains(network, seed, left)
        found = run_algorithm(made)
    except HerdError:  # chains without a possible initial state give no information
        return None
    rhat = 1.0 + float(found.attributes["residual"])
    return ChainEstimates(found.nodes, found.attributes["standard_error"], rhat, rhat < MIXED)


def _min_chain_seconds(network: Network) -> float:
    """Return the seconds of the shortest usable single-site chains, with a few colours."""
    from herdcli.markov.query.chains import single_site_gibbs

    if not single_site_gibbs.can_sample_single_sites(network):
        return 0.0
    terms = single_site_gibbs.count_terms_per_sweep(network)
    return PREPARED * terms + FEW_SWEEPS * (4 * LOOP + TERM * CHAINS * terms)


def _run_single_site_chains(network: Network, seed: int, budget: float) -> ChainEstimates | None:
    """Run single-site chains, for as many sweeps as the budget allows."""
    from herdcli.markov.query.chains import single_site_gibbs

    terms = single_site_gibbs.count_terms_per_sweep(network)
    left = budget - PREPARED * terms
    if left < FEW_SWEEPS * TERM * CHAINS * terms or not single_site_gibbs.can_sample_single_sites(network):
        return None
    parts = single_site_gibbs.make_colour_classes(network)
    sweeps = min(MANY_SWEEPS, int(left / (LOOP * len(parts) + TERM * CHAINS * terms)))
    if sweeps < FEW_SWEEPS:
        return None
    burn_in = sweeps // 8
    found = single_site_gibbs.estimate_marginals(network, parts, chains=CHAINS, sweeps=sweeps - burn_in, burn_in=burn_in, seed=seed)
    return ChainEstimates(found.nodes, found.standard_error, found.rhat, found.rhat < MIXED_SINGLY)


def assess_answer(result: InferenceResult, algorithm: str, reference: ReferenceAnswer, *, confirmed: bool = False) -> Assessment:
    """Compare an answer with a reference; the warnings are those of the run and of the comparison.

    confirmed  True if other algorithms have already confirmed the answer.
    """
    warnings = [result.warning] if result.warning else []
    log_z = result.attributes.get("log_z")
    error = _largest_difference(result.nodes, reference)
    if error is not None and error > INACCURATE:
        warnings.append(f"a marginal is wrong by about {error:.2g} (by {reference.by}); {_reliability_hint(reference)}")
    if log_z is not None and exceeds_upper_bound(log_z, reference.upper) and algorithm != "tree-reweighted":
        warnings.append(f"log Z {log_z:.6g} is wrong: it is above its upper bound {reference.upper:.6g}; {_reliability_hint(reference)}")
    sampled = algorithm.endswith("gibbs")  # its own chains were compared
    if error is None and reference.rhat is not None and reference.rhat > UNMIXED and not (sampled or confirmed):
        warnings.append(
            f"these marginals are not confirmed: short chains disagree with each other (R̂ {reference.rhat:.2g}); "
            f"{_reliability_hint(reference)}"
        )
    unchecked = UNCHECKED if reference.too_large and not (sampled or confirmed) else ""
    return Assessment(
        reference.lower, reference.upper, error, reference.by if error is not None else unchecked, reference.exact_cells, warnings
    )


def exceeds_upper_bound(log_z: float, upper: float | None) -> bool:
    """Return True if log Z exceeds its bound by so much that Z is more than a tenth too large."""
    return upper is not None and math.isfinite(log_z) and log_z > upper + max(0.1, 1e-9 * abs(upper))


def _reliability_hint(reference: ReferenceAnswer) -> str:
    if reference.exact_cells is not None:
        return "use --algorithm junction-tree, which is affordable and exact"
    return "use --algorithm auto, which compares several algorithms"


def _largest_difference(nodes: Sequence[Array], reference: ReferenceAnswer) -> float | None:
    """Return the largest difference of any marginal from the reference, minus the part that chance explains.

    With standard errors and many variables it is at least the root mean square of all differences beyond chance: many
    small differences are more significant together than each of them.
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
