"""Numbers that enclose log Z, each from what holds whatever has converged.

Above: tree-reweighted propagation, mini-buckets.  Below: naive mean field, and the value of one likely state, as Z is a sum of
terms none of which is negative.
"""

from __future__ import annotations

import math
from contextlib import suppress

from herdcli.algorithm import solve
from herdcli.errors import NegativeResult
from herdcli.markov.exact.elimination import moral_graph
from herdcli.markov.method import Settings
from herdcli.markov.model.network import Network
from herdcli.markov.model.support import IMPOSSIBLE
from herdcli.markov.query import mini_bucket
from herdcli.markov.query.exact import stages
from herdcli.markov.query.max_product import MaxProduct
from herdcli.markov.query.orders import greedy
from herdcli.records import dataclass

SEARCH = 2  # steps of the search for a likely state


@dataclass(frozen=True)
class Bounds:
    """log Z is at least the larger of `mean_field` and `state`, at most the smaller of `tree_reweighted` and `mini_bucket`."""

    mean_field: float | None
    state: float | None
    tree_reweighted: float
    mini_bucket: float

    @property
    def lower(self) -> float:
        """The highest lower bound; −∞ where there is none."""
        return max(-math.inf if bound is None else bound for bound in (self.mean_field, self.state))

    @property
    def lower_by(self) -> str:
        """What it comes from."""
        return "mean field" if self.lower == self.mean_field else "a likely state" if self.state is not None else "nothing"

    @property
    def upper(self) -> float:
        """The lowest upper bound."""
        return min(self.tree_reweighted, self.mini_bucket)

    @property
    def upper_by(self) -> str:
        """What it comes from."""
        return "mini-buckets" if self.mini_bucket < self.tree_reweighted else "tree-reweighted"

    def columns(self) -> dict[str, float]:
        """All of them by name, NaN for what there is not."""
        found = {"mean_field": self.mean_field, "state": self.state}
        below = {name: math.nan if bound is None else bound for name, bound in found.items()}
        return (
            {"lower": self.lower, "upper": self.upper} | below | {"tree_reweighted": self.tree_reweighted, "mini_bucket": self.mini_bucket}
        )


def enclose(network: Network, mean_field: float | None, tree_reweighted: float, cells: int, settings: Settings) -> Bounds:
    """The bounds of a network, with those of mean field and tree-reweighted propagation known; mini-buckets of at most `cells`.

    Raises NegativeResult where the upper one shows that Z is 0.
    """
    states = network.cardinality.tolist()
    order = greedy(moral_graph(network), states, stages(network), list(range(network.count)), True, math.inf).order
    above = mini_bucket.bound(network, order.tolist(), cells=cells).bound if len(order) == network.count else math.inf
    state: float | None = None
    with suppress(NegativeResult):
        state = solve(MaxProduct(network, settings, SEARCH)).value
    found = Bounds(mean_field, state, tree_reweighted, above)
    if found.upper == -math.inf:
        raise NegativeResult(IMPOSSIBLE)
    return found
