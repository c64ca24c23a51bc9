"""Bounds of log Z that are valid regardless of convergence.

Upper bounds: tree-reweighted propagation, mini-buckets.  Lower bounds: naive mean field, and the value of one probable state, because Z
is a sum of non-negative terms.  If elimination is cheap it gives both, and the other bounds are computed with few iterations.
"""

from __future__ import annotations

import math
from contextlib import suppress

from herdcli.algorithm import run_algorithm
from herdcli.errors import NegativeResult
from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model.network import Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.markov.query import mini_bucket
from herdcli.markov.query.constrained_orders import StagedOrder, find_greedy_order
from herdcli.markov.query.exact_queries import assign_elimination_stages
from herdcli.markov.query.log_tables import eliminate_variables
from herdcli.markov.query.max_product import MaxProduct
from herdcli.records import dataclass

SEARCH = 2  # steps of the search for a probable state
FEW_CELLS = 1 << 20  # an elimination is considered cheap if all its tables together have at most this many cells
BRIEF = 20  # iterations of the other bounds if elimination is cheap


@dataclass(frozen=True)
class LogZBounds:
    """Bounds of log Z: lower bounds `mean_field` and `state`, upper bounds `tree_reweighted` and `mini_bucket`.

    elimination  log Z, if it is cheap to compute.
    """

    mean_field: float | None
    state: float | None
    tree_reweighted: float
    mini_bucket: float
    elimination: float | None = None

    @property
    def lower(self) -> float:
        """The highest lower bound; −∞ if there is none."""
        return max(-math.inf if bound is None else bound for bound in (self.mean_field, self.state, self.elimination))

    @property
    def lower_bound_method(self) -> str:
        """The method of the highest lower bound."""
        if self.lower == self.elimination:
            return "elimination"
        return "mean field" if self.lower == self.mean_field else "a likely state" if self.state is not None else "nothing"

    @property
    def upper(self) -> float:
        """The lowest upper bound."""
        return min(self.tree_reweighted, self.mini_bucket, math.inf if self.elimination is None else self.elimination)

    @property
    def upper_bound_method(self) -> str:
        """The method of the lowest upper bound."""
        if self.upper == self.elimination:
            return "elimination"
        return "mini-buckets" if self.mini_bucket < self.tree_reweighted else "tree-reweighted"

    def columns(self) -> dict[str, float]:
        """Return all bounds by name, NaN for missing ones."""
        found = {
            "lower": self.lower,
            "upper": self.upper,
            "mean_field": self.mean_field,
            "state": self.state,
            "tree_reweighted": self.tree_reweighted,
            "mini_bucket": self.mini_bucket,
            "elimination": self.elimination,
        }
        return {name: math.nan if bound is None else bound for name, bound in found.items()}


def try_quick_elimination(network: Network) -> tuple[StagedOrder, float | None]:
    """Return an elimination order, and log Z if its tables have few cells.  Raises NegativeResult if Z is 0."""
    states = network.cardinality.tolist()
    order = find_greedy_order(moral_graph(network), states, assign_elimination_stages(network), list(range(network.count)), True, math.inf)
    if not order.complete or order.cells > FEW_CELLS:
        return order, None
    return order, eliminate_variables(network, order.order.tolist()).value()


def compute_log_z_bounds(
    network: Network,
    mean_field: float | None,
    tree_reweighted: float,
    cells: int,
    settings: InferenceSettings,
    quick_result: tuple[StagedOrder, float | None] | None = None,
) -> LogZBounds:
    """Return bounds of a network, given those of mean field and tree-reweighted propagation, with mini-buckets of at most `cells`.

    quick_result  the result of `try_quick_elimination`.  Raises NegativeResult if the upper bound shows that Z is 0.
    """
    order, exact = quick_result or try_quick_elimination(network)
    above = (
        mini_bucket.compute_mini_bucket_bound(network, order.order.tolist(), cells=cells).bound
        if len(order.order) == network.count
        else math.inf
    )
    state: float | None = None
    with suppress(NegativeResult):
        state = run_algorithm(MaxProduct(network, settings, SEARCH)).value
    found = LogZBounds(mean_field, state, tree_reweighted, above, exact)
    if found.upper == -math.inf:
        raise NegativeResult(IMPOSSIBLE)
    return found
