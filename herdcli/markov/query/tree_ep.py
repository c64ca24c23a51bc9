"""Tree-structured expectation propagation: a distribution over a tree, in which moments approximate every factor off the tree.

    q(x) ∝ Π_{a on the tree} f_a(x) Π_{a off it} g_a(x),        g_a = Π_{edges on the path between the variables of a} r_e(x_e)

An update of factor a divides q by g_a, multiplies it by f_a, and gives q the marginals of this distribution for all edges on the path.
It is exact if the paths of the factors off the tree share no edge, so on trees and on one loop.  Source: Minka & Qi (2003), sec. 3.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from herdcli.errors import Diverged, NegativeResult
from herdcli.markov.exact import elimination, junction_tree
from herdcli.markov.exact.junction_tree import JunctionTreeLayout
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.beliefs import make_convergence_attributes
from herdcli.markov.model.network import Factor, Network, build_network
from herdcli.markov.model.restricted_states import restrict_to_possible_states
from herdcli.markov.model.stacked_tables import merge_equal_scopes
from herdcli.markov.query import spanning_forest
from herdcli.markov.query.spanning_forest import ForestMarginals, SpanningForest
from herdcli.records import dataclass
from herdcli.schema import Array

FORBIDDEN = -80.0  # log of the factor in g_a for cells that f_a forbids: it is divided out again, which zero cannot be
LINK = 2000  # cells that are processed in the time of one link's array operations
EMPTY = "tree-ep failed: its moments exclude every state"
HINT = "use --damping 0.5, or --algorithm double-loop, which converges; --algorithm junction-tree shows whether the evidence is impossible"


@dataclass(frozen=True)
class OffTreeFactor:
    """A factor off the tree.

    links     (i, j) from the root outwards.
    approach  the path to it from the factor before.
    at        the start of each link's table in the flat sites, and the end.
    tree      junction tree on the factor's part of the tree, if the factor has three variables or more.
    """

    scope: tuple[int, ...]
    logs: Array
    links: list[tuple[int, int]]
    approach: list[int]
    at: list[int]
    tree: JunctionTreeLayout | None


@dataclass(frozen=True)
class TiltedMarginals:
    """Marginals of a site's links and of its scope under the tilted distribution, q with f_a in place of g_a.

    log_share  the log of the sum of this distribution relative to that of q.
    """

    pairs: list[Array]
    scope: Array
    log_share: float


@dataclass
class TreeEPState:
    """log r_e of all sites (flat), and one residual and free energy per iteration."""

    site: Array
    residual: Array
    free_energy: Array
    step: int


class TreeEP(ToTolerance[TreeEPState, InferenceSettings]):
    """The algorithm `tree-ep`: each step updates every factor off the tree once."""

    state = TreeEPState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings, self.steps = network, settings, settings.iterations
        self.inner = restrict_to_possible_states(network)
        small = self.inner.network
        factors = merge_equal_scopes(small.factors())
        self.forest = spanning_forest.maximum_spanning_forest(small, factors)
        self.states = small.cardinality.tolist()
        parent = self.forest.parent
        self.singles = [np.zeros(count) for count in self.states]
        self.pairs = [np.zeros((self.states[p] if p >= 0 else 1, count)) for p, count in zip(parent, self.states, strict=True)]
        off: list[Factor] = []
        for scope, logs in factors:
            if len(scope) == 1:
                self.singles[scope[0]] = logs
            elif len(scope) == 2 and parent[scope[1]] == scope[0]:
                self.pairs[scope[1]] = logs
            elif len(scope) == 2 and parent[scope[0]] == scope[1]:
                self.pairs[scope[0]] = logs.T
            else:
                off.append((scope, logs))
        self.sites = self._off_tree_factors(off)
        self.note = f"tree-ep approximates {len(self.sites)} factors, which are not on its tree" if self.sites else ""

    def _off_tree_factors(self, off: list[Factor]) -> list[OffTreeFactor]:
        """Return the factors off the tree in the order of a walk around it."""
        place = {i: k for k, i in enumerate(self.forest.order)}
        made: list[OffTreeFactor] = []
        before: list[int] = []
        begin = 0
        for scope, logs in sorted(off, key=lambda factor: sorted(place[i] for i in factor[0])):
            links = _edges_joining_scope(self.forest, scope)
            tree = self._site_junction_tree(scope, links) if len(scope) > 2 else None
            sizes = [self.states[i] * self.states[j] for i, j in links]
            at = [begin, *(begin + np.cumsum(sizes)).tolist()]
            ways = [self.forest.path_between(i, scope[0]) for i in before if self._in_same_tree(i, scope[0])]
            made.append(OffTreeFactor(scope, logs, links, min(ways, key=len, default=[scope[0]]), at, tree))
            before, begin = [scope[0], *(j for _, j in links)], at[-1]
        return made

    def _in_same_tree(self, i: int, j: int) -> bool:
        """Return True if two variables are in one tree."""
        return self._tree_root(i) == self._tree_root(j)

    def _tree_root(self, i: int) -> int:
        while self.forest.parent[i] >= 0:
            i = self.forest.parent[i]
        return i

    def _site_junction_tree(self, scope: tuple[int, ...], links: list[tuple[int, int]]) -> JunctionTreeLayout:
        """Return a junction tree of some links and one factor over some of their variables."""
        small = self._site_network(scope, links, [np.zeros((self.states[i], self.states[j])) for i, j in links], np.zeros([1] * len(scope)))
        return junction_tree.build_clique_tree(small, np.array(elimination.min_fill_order(small, self.settings.seed)))

    def _site_network(self, scope: tuple[int, ...], links: list[tuple[int, int]], tables: list[Array], logs: Array) -> Network:
        """Return the network of the links' tables and of one factor (as logarithms), with variables numbered in the order of the links."""
        number = {i: k for k, i in enumerate([scope[0], *(j for _, j in links)])}
        states = [self.states[i] for i in number]
        factors = [((number[i], number[j]), table) for (i, j), table in zip(links, tables, strict=True)]
        whole = np.broadcast_to(logs, [self.states[i] for i in scope])
        top = float(whole.max())
        return build_network(states, [*factors, (tuple(number[i] for i in scope), np.exp(whole - top))])

    def work_per_step(self) -> float:
        """The cost of a step in table cells: those of all links, and the overhead of NumPy for each."""
        return float(sum(LINK * len(each.links) + each.at[-1] - each.at[0] for each in self.sites))

    @property
    def size(self) -> int:
        """The number of entries of all sites."""
        return self.sites[-1].at[-1] if self.sites else 0

    def init(self) -> TreeEPState:
        """Return sites with uniform messages."""
        return TreeEPState(np.zeros(self.size), np.empty(0), np.empty(0), 0)

    def _calibrate_with_sites(self, site: Array) -> tuple[ForestMarginals, float]:
        """Compute q, and the log of its sum."""
        pairs = [table.copy() for table in self.pairs]
        for each in self.sites:
            for k, (i, j) in enumerate(each.links):
                table = site[each.at[k] : each.at[k + 1]].reshape(self.states[i], self.states[j])
                e = self.forest.edge_between(i, j)
                pairs[e] += table if e == j else table.T
        return spanning_forest.calibrate_forest(self.forest, self.singles, pairs)

    def step(self, state: TreeEPState) -> TreeEPState:
        """Update every factor off the tree once; the residual is the largest change of a marginal."""
        q, _ = self._calibrate_with_sites(state.site)
        largest = max((self._update_off_tree_factor(state.site, q, each) for each in self.sites), default=0.0)
        energy = -self._calibrate_with_sites(state.site)[1] - self.inner.constant
        return TreeEPState(state.site, np.append(state.residual, largest), np.append(state.free_energy, energy), state.step + 1)

    def _update_off_tree_factor(self, sites: Array, q: ForestMarginals, factor: OffTreeFactor) -> float:
        """Give q the moments with f_a in place of g_a; return the largest change."""
        # Cavity q/g_a on the path's edges, then the marginals of the tilted distribution f_a q/g_a (Minka & Qi 2003, sec. 3).
        shares = self._cavity_tables(sites, q, factor)
        found = self._tilted_marginals(factor, shares)
        kept, largest = self.settings.damping, 0.0
        for k, (share, new) in enumerate(zip(shares, found.pairs, strict=True)):
            # q = Π_e q(j | i) q(root) over links i → j from the root outwards, and q without g_a is Π_e shares.  So r_e is the new q(j | i)
            # divided by the share; the first link also has the root's marginal and the scale: Σ q f_a/g_a is then 1.
            given = new if k == 0 else spanning_forest.safe_divide(new, np.broadcast_to(new.sum(axis=1, keepdims=True), new.shape))
            logs = np.full(share.shape, FORBIDDEN)
            np.log(given, out=logs, where=given > 0)
            some = ~np.isneginf(share)
            np.subtract(logs, share, out=logs, where=some & (given > 0))
            logs += found.log_share if k == 0 else 0.0
            here = slice(factor.at[k], factor.at[k + 1])
            old = sites[here]
            sites[here] = np.where(some.ravel(), (1 - kept) * logs.ravel() + kept * old, old)
            # The residual is the change of q's pair marginals by this update.
            i, j = factor.links[k]
            e = self.forest.edge_between(i, j)
            now = q.pair[e] if e == j else q.pair[e].T
            largest = max(largest, float(np.abs(new - now).max()))
        # Without damping q now has the tilted marginals on the path; with damping its sites are a mixture, and marginals are computed anew.
        self._update_link_marginals(sites, q, factor, shares, found.pairs if kept == 0 else None)
        return largest

    def _cavity_tables(self, sites: Array, q: ForestMarginals, factor: OffTreeFactor) -> list[Array]:
        """Walk to a site, and return log tables of its links (from the root outwards) whose product is q without g_a."""
        for i, j in zip(factor.approach[:-1], factor.approach[1:], strict=True):
            spanning_forest.pass_message(self.forest, q, i, j)
        shares = []
        for k, (i, j) in enumerate(factor.links):
            spanning_forest.pass_message(self.forest, q, i, j)
            e = self.forest.edge_between(i, j)
            table = q.pair[e] if e == j else q.pair[e].T
            given = table if k == 0 else spanning_forest.safe_divide(table, np.broadcast_to(q.node[i][:, None], table.shape))
            logs = np.full(table.shape, -np.inf)
            np.log(given, out=logs, where=given > 0)
            shares.append(logs - sites[factor.at[k] : factor.at[k + 1]].reshape(table.shape))
        return shares

    def _tilted_marginals(self, factor: OffTreeFactor, shares: list[Array]) -> TiltedMarginals:
        """Compute the marginals of Π shares times f_a.  Raises Diverged if all states are excluded."""
        tops = [float(share.max()) for share in shares]
        if not np.isfinite(tops).all():
            raise Diverged(EMPTY, hint=HINT)
        tables = [np.exp(share - top) for share, top in zip(shares, tops, strict=True)]
        top = float(factor.logs.max())
        scale = top + sum(tops)
        pairs, scope, log_sum = (
            self._tilted_by_junction_tree(factor, tables) if factor.tree else _path_marginals(tables, np.exp(factor.logs - top))
        )
        return TiltedMarginals(pairs, scope, log_sum + scale)

    def _tilted_by_junction_tree(self, factor: OffTreeFactor, tables: list[Array]) -> tuple[list[Array], Array, float]:
        assert factor.tree is not None
        small = self._site_network(factor.scope, factor.links, tables, factor.logs)
        try:
            found = junction_tree.calibrate(small, factor.tree)
        except NegativeResult as error:
            raise Diverged(EMPTY, hint=HINT) from error
        every = [p for _, p in junction_tree.factor_marginals(small, found)]
        return every[:-1], every[-1], found.log_z

    def _update_link_marginals(
        self, sites: Array, q: ForestMarginals, factor: OffTreeFactor, shares: list[Array], pairs: list[Array] | None
    ) -> None:
        """Update q for the current site: its links have the given marginals, or (None) those computed from the site."""
        if pairs is None:
            tables = [share + sites[factor.at[k] : factor.at[k + 1]].reshape(share.shape) for k, share in enumerate(shares)]
            flat = OffTreeFactor(factor.scope, np.zeros(factor.logs.shape), factor.links, factor.approach, factor.at, factor.tree)
            pairs = self._tilted_marginals(flat, tables).pairs
        q.node[factor.scope[0]] = pairs[0].sum(axis=1)
        for (i, j), p in zip(factor.links, pairs, strict=True):
            e = self.forest.edge_between(i, j)
            q.node[j] = p.sum(axis=0)
            q.pair[e] = p if e == j else p.T
            q.told[e] = [q.node[i], q.node[j]] if e == j else [q.node[j], q.node[i]]

    def bytes_needed(self, state: TreeEPState) -> tuple[int, str]:
        """Return the bytes of the sites, and their purpose in words."""
        return 24 * 8 * self.size, "the moments of tree-ep"

    def result(self, state: TreeEPState) -> InferenceResult:
        """Return the marginals of q, of the tree's edges, and of each factor off it within its own tilted distribution; log Z of q."""
        q, log_z = self._calibrate_with_sites(state.site)
        spread = self.inner.expand_marginals(q.node, self.network.cardinality)
        cliques: list[Factor] = [((p, i), q.pair[i]) for i, p in enumerate(self.forest.parent) if p >= 0]
        for each in self.sites:
            cliques.append((each.scope, self._tilted_marginals(each, self._cavity_tables(state.site, q, each)).scope))
        whole = [(scope, self.inner.expand_table(scope, p, self.network.cardinality)) for scope, p in cliques]
        energy = -log_z - self.inner.constant
        return InferenceResult(
            spread, whole, make_convergence_attributes(energy, self.meets_criterion(state), state.step, state.residual, state.free_energy)
        )


def _edges_joining_scope(forest: SpanningForest, scope: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the edges between the variables of a scope, from the first of them outwards."""
    made: list[tuple[int, int]] = []
    seen = {scope[0]}
    for end in scope[1:]:
        way = forest.path_between(scope[0], end)
        for i, j in pairwise(way):
            if j not in seen:
                seen.add(j)
                made.append((i, j))
    return made


def _path_marginals(tables: list[Array], factor: Array) -> tuple[list[Array], Array, float]:
    """Return the marginals of neighbours on a path and of its ends, whose joint table is multiplied by `factor`, and the log of the sum.

    Given both ends, the rest is a chain: left[t] (first end, variable t) and right[t] (variable t, first end) are
    sums over the variables between, and P(t, t + 1) ∝ table · Σ_first left · right.
    """
    log_sum = 0.0
    left = [np.eye(len(tables[0]))]
    for table in tables:
        made = left[-1] @ table
        top = float(made.max())
        if top <= 0:
            raise Diverged(EMPTY, hint=HINT)
        left.append(made / top)
        log_sum += float(np.log(top))
    right = [factor.T]
    for table in reversed(tables[1:]):
        made = table @ right[-1]
        right.append(made / max(float(made.max()), 1e-300))
    ends = left[-1] * factor
    total = float(ends.sum())
    if total <= 0:
        raise Diverged(EMPTY, hint=HINT)
    pairs = []
    for before, table, after in zip(left[:-1], tables, reversed(right), strict=True):
        p = table * (after @ before).T
        pairs.append(p / p.sum())
    return pairs, ends / total, log_sum + float(np.log(total))
