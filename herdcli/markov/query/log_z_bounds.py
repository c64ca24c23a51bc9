"""Numbers that enclose log Z, each from what holds whatever has converged.

Above: tree-reweighted propagation, mini-buckets.  Below: naive mean field, and the value of one likely state, as Z is a sum of
terms none of which is negative.  Where elimination takes no time worth saving it gives both, and the others are worked out briefly.
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
from herdcli.markov.query.constrained_orders import StagedOrder, greedy_order
from herdcli.markov.query.exact_queries import elimination_stages
from herdcli.markov.query.log_tables import eliminate_variables
from herdcli.markov.query.max_product import MaxProduct
from herdcli.records import dataclass

SEARCH = 2  # steps of the search for a likely state
FEW_CELLS = 1 << 20  # of all tables of elimination that takes no time worth saving
BRIEF = 20  # iterations of the other bounds beside it


@dataclass(frozen=True)
class LogZBounds:
    """log Z is at least the larger of `mean_field` and `state`, at most the smaller of `tree_reweighted` and `mini_bucket`.

    elimination  log Z itself, where that is quick.
    """

    mean_field: float | None
    state: float | None
    tree_reweighted: float
    mini_bucket: float
    elimination: float | None = None

    @property
    def lower(self) -> float:
        """The highest lower bound; −∞ where there is none."""
        return max(-math.inf if bound is None else bound for bound in (self.mean_field, self.state, self.elimination))

    @property
    def lower_bound_method(self) -> str:
        """What it comes from."""
        if self.lower == self.elimination:
            return "elimination"
        return "mean field" if self.lower == self.mean_field else "a likely state" if self.state is not None else "nothing"

    @property
    def upper(self) -> float:
        """The lowest upper bound."""
        return min(self.tree_reweighted, self.mini_bucket, math.inf if self.elimination is None else self.elimination)

    @property
    def upper_bound_method(self) -> str:
        """What it comes from."""
        if self.upper == self.elimination:
            return "elimination"
        return "mini-buckets" if self.mini_bucket < self.tree_reweighted else "tree-reweighted"

    def columns(self) -> dict[str, float]:
        """All of them by name, NaN for what there is not."""
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


def quick_elimination(network: Network) -> tuple[StagedOrder, float | None]:
    """An order of elimination, and log Z by it where its tables have few cells.  Raises NegativeResult where Z is 0."""
    states = network.cardinality.tolist()
    order = greedy_order(moral_graph(network), states, elimination_stages(network), list(range(network.count)), True, math.inf)
    if not order.complete or order.cells > FEW_CELLS:
        return order, None
    return order, eliminate_variables(network, order.order.tolist()).value()


def bound_log_z(
    network: Network,
    mean_field: float | None,
    tree_reweighted: float,
    cells: int,
    settings: InferenceSettings,
    known: tuple[StagedOrder, float | None] | None = None,
) -> LogZBounds:
    """The bounds of a network, with those of mean field and tree-reweighted propagation known; mini-buckets of at most `cells`.

    known  what `quick_elimination` gave.  Raises NegativeResult where the upper bound shows that Z is 0.
    """
    order, exact = known or quick_elimination(network)
    above = (
        mini_bucket.mini_bucket_bound(network, order.order.tolist(), cells=cells).bound if len(order.order) == network.count else math.inf
    )
    state: float | None = None
    with suppress(NegativeResult):
        state = run_algorithm(MaxProduct(network, settings, SEARCH)).value
    found = LogZBounds(mean_field, state, tree_reweighted, above, exact)
    if found.upper == -math.inf:
        raise NegativeResult(IMPOSSIBLE)
    return found
