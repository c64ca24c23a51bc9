"""Convex–concave minimisation of the Bethe or Kikuchi free energy, and generalised belief propagation, on a region graph.

Inner regions β with counting numbers c_β < 0 make the free energy concave in parts.  An iteration of `double-loop` replaces their terms
c_β Σ b_β log b_β by the tangent at the last beliefs and minimises the convex rest, with counting numbers c̃ = max(c, 0), under agreement
of all regions; so the free energy cannot increase.  The inner loop visits one inner region after the other and maximises the dual over
its multipliers λ_αβ, which has the closed form

    (n_β + c̃_β) log b_β = Σ_α (log Σ b_α − λ_αβ) − (c_β − c̃_β) log b_β^last,        n_β the number of outer regions α ⊃ β.

`gbp` is the same update with c̃ = c and no tangent, once per iteration.  It may not converge; if it does, its fixed point is
stationary.  Source: Yuille (2002); Heskes, Albers & Kappen (2003), sec. 4.  Tables are logarithms.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from herdcli.errors import Diverged
from herdcli.markov.bethe import starts
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.beliefs import make_convergence_attributes
from herdcli.markov.model.graphs import region_graphs
from herdcli.markov.model.graphs.region_graphs import RegionGraph
from herdcli.markov.model.network import Factor, Network
from herdcli.records import dataclass
from herdcli.schema import Array

INNER_SWEEPS = 1000
LOOSEST = 1e-5  # largest disagreement of regions at which an inner loop may end
INNER_SHARE = 0.1  # an inner loop ends when regions disagree by at most (INNER_SHARE · residual)², if this is less than LOOSEST


@dataclass(frozen=True)
class RegionPairs:
    """Pairs (α, β) of one class and shape: tables[group][rows], with `state` the state of β in each of α's cells."""

    group: int
    rows: Array
    slots: Array
    state: Array
    sums: Array  # (cells, k) zeros and ones


@dataclass(frozen=True)
class RegionClass:
    """Inner regions with k states that share no outer region, so that they can be updated together; pairs are sorted by region."""

    inner: Array
    first: Array  # (B,) the first pair of each region
    owner: Array  # (P,) the inner region of each pair, numbered within the class
    parts: list[RegionPairs]
    pairs: slice  # position of their multipliers
    beliefs: slice  # position of log b_β
    states: int


@dataclass
class DoubleLoopState:
    """Log tables of outer regions (flat), multipliers of pairs, log b_β (all flat), and one residual and free energy per step."""

    tables: Array
    multiplier: Array
    inner: Array
    residual: Array
    free_energy: Array
    updates: int
    step: int


class DoubleLoop(ToTolerance[DoubleLoopState, InferenceSettings]):
    """The algorithms `double-loop` and `gbp`."""

    state = DoubleLoopState

    def __init__(self, network: Network, settings: InferenceSettings, region_graph: RegionGraph | None = None) -> None:
        self.network, self.settings, self.steps = network, settings, settings.iterations
        self.regions = region_graph or _choose_regions(network, settings.region_scopes, settings.regions)
        logs, self.constant = region_graphs.assign_region_tables(network, self.regions)
        self.shapes = sorted({table.shape for table in logs})
        groups = {shape: k for k, shape in enumerate(self.shapes)}
        self.place: list[tuple[int, int]] = []
        sizes = [0] * len(self.shapes)
        for table in logs:
            group = groups[table.shape]
            self.place.append((group, sizes[group]))
            sizes[group] += 1
        cells = [n * math.prod(s) for n, s in zip(sizes, self.shapes, strict=True)]
        self.offsets = list(itertools.accumulate(cells, initial=0))
        self.potential = np.empty(self.offsets[-1])
        for (group, row), table in zip(self.place, logs, strict=True):
            self.outer_table_views(self.potential)[group][row] = table.ravel()
        self.count = np.array(self.regions.count, dtype=np.float64)
        self.several = np.array([len(parents) for parents in self.regions.parents], dtype=np.float64)
        self.kept = self.count if settings.algorithm == "gbp" else np.maximum(self.count, 0.0)
        self.classes = self._partition_inner_regions()
        self.shares = {each.beliefs.start: self._tangent_shares(each) for each in self.classes}
        largest = max(map(len, self.regions.outer), default=0)
        self.note = f"{len(self.regions.outer)} outer regions of at most {largest} variables, {len(self.regions.inner)} inner ones"

    def outer_table_views(self, flat: Array) -> list[Array]:
        """Return views of flat tables, with one row for each outer region of that shape."""
        parts = [flat[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]
        return [part.reshape(-1, int(np.prod(shape))) for part, shape in zip(parts, self.shapes, strict=True)]

    def _partition_inner_regions(self) -> list[RegionClass]:
        """Partition the inner regions greedily into classes without a common outer region, larger ones first."""
        taken: list[tuple[int, set[int]]] = []
        members: list[list[int]] = []
        for b, scope in enumerate(self.regions.inner):
            k, parents = int(np.prod(self.network.cardinality[list(scope)])), set(self.regions.parents[b])
            at = next((c for c, (states, used) in enumerate(taken) if states == k and used.isdisjoint(parents)), len(taken))
            if at == len(taken):
                taken.append((k, set()))
                members.append([])
            taken[at][1].update(parents)
            members[at].append(b)
        made: list[RegionClass] = []
        pairs = beliefs = 0
        for (k, _), inner in zip(taken, members, strict=True):
            lengths = [len(self.regions.parents[b]) for b in inner]
            size = sum(lengths)
            owner = np.repeat(np.arange(len(inner)), lengths)
            first = np.cumsum([0, *lengths[:-1]])
            spans = slice(pairs, pairs + size * k), slice(beliefs, beliefs + len(inner) * k)
            made.append(RegionClass(np.array(inner), first, owner, self._make_region_pairs(inner), *spans, k))
            pairs, beliefs = spans[0].stop, spans[1].stop
        return made

    def _make_region_pairs(self, inner: list[int]) -> list[RegionPairs]:
        alike: dict[tuple[int, tuple[int, ...]], list[tuple[int, int]]] = {}
        slot = 0
        for b in inner:
            for a in self.regions.parents[b]:
                group, row = self.place[a]
                axes = tuple(self.regions.outer[a].index(i) for i in self.regions.inner[b])
                alike.setdefault((group, axes), []).append((row, slot))
                slot += 1
        parts = []
        for (group, axes), found in sorted(alike.items()):
            shape = self.shapes[group]
            at = np.unravel_index(np.arange(int(np.prod(shape))), shape)
            state = np.ravel_multi_index([at[axis] for axis in axes], [shape[axis] for axis in axes])
            sums = (state[:, None] == np.arange(state.max() + 1)).astype(np.float64)
            rows, slots = np.array(found).T
            parts.append(RegionPairs(group, rows, slots, state, sums))
        return parts

    def _tangent_shares(self, region_class: RegionClass) -> tuple[Array | None, Array]:
        """Return the tangent's share of the counting numbers of a class, and the divisors of beliefs, (inner regions, 1).

        The first is None if all shares are 0.
        """
        tangent = (self.count - self.kept)[region_class.inner][:, None]
        return tangent if tangent.any() else None, (self.several + self.kept)[region_class.inner][:, None]

    def init(self) -> DoubleLoopState:
        """Return the potentials of each region, and inner beliefs that are uniform, or random."""
        pairs = self.classes[-1].pairs.stop if self.classes else 0
        sizes = np.concatenate([np.full(len(each.inner), each.states) for each in self.classes] or [np.empty(0, dtype=np.int64)])
        inner = np.log(starts.make_initial_marginals(self.settings, sizes))
        return DoubleLoopState(self.potential.copy(), np.zeros(pairs), inner, np.empty(0), np.empty(0), 0, 0)

    def step(self, state: DoubleLoopState) -> DoubleLoopState:
        """Compute one tangent and minimise the bound; under `gbp` do one round of updates."""
        last, single = state.inner.copy(), self.settings.algorithm == "gbp"
        before = float(state.residual[-1]) if len(state.residual) else 1.0
        # If beliefs disagree by ε, the error of F is of first order in ε, while F is above its minimum by about the square of the residual.
        # If ε is smaller than this square, the error does not hide the decrease of F.
        inner = max(0.1 * self.settings.tolerance, min(LOOSEST, (INNER_SHARE * before) ** 2))
        for _ in range(1 if single else INNER_SWEEPS):
            gap = max((self._update_region_class(state, each, last) for each in self.classes), default=0.0)
            state.updates += sum(len(each.owner) for each in self.classes)
            if gap <= inner:
                break
        # Stationary if the tangent point does not move and regions agree.
        change = float(np.abs(np.exp(state.inner) - np.exp(last)).max(initial=0.0))
        state.residual = np.append(state.residual, max(change, gap))
        state.free_energy = np.append(state.free_energy, self.free_energy(state))
        state.step += 1
        return state

    def _update_region_class(self, state: DoubleLoopState, region_class: RegionClass, last: Array) -> float:
        """Update the inner regions of a class and make their outer regions agree; return the largest disagreement before the update."""
        log_tables, k = self.outer_table_views(state.tables), region_class.states
        multiplier = state.multiplier[region_class.pairs].reshape(-1, k)
        tangent, share = self.shares[region_class.beliefs.start]
        marginal = np.empty((len(region_class.owner), k))
        with np.errstate(divide="ignore", invalid="ignore"):
            for part in region_class.parts:
                # log Σ b_α: the marginals of all outer regions α ⊃ β over β's states, normalised in the log domain.
                rows = log_tables[part.group][part.rows]
                top = rows.max(axis=1, keepdims=True)
                sums = np.exp(rows - top) @ part.sums
                marginal[part.slots] = np.log(sums / sums.sum(axis=1, keepdims=True))
            gone = marginal == -np.inf
            closed = bool(gone.any())
            without = np.where(gone, -np.inf, marginal - multiplier) if closed else marginal - multiplier
            total = np.add.reduceat(without, region_class.first, axis=0)
            if tangent is not None:
                total -= np.where(tangent == 0, 0.0, tangent * last[region_class.beliefs].reshape(-1, k))
            # b_α ∝ ψ_α Π_β e^{λ_αβ}, so new multipliers λ' make the marginals of all α equal if log b_β = (log Σ b_α − λ_αβ) + λ'_αβ.  The
            # derivative in b_β is 0 if c̃ log b_β + (c − c̃) log b_β^last = −Σ_α λ'_αβ.  Summing the first over α and inserting the second
            # gives the closed form.
            beliefs = _normalise_logs(total / share)
            # New multipliers make all outer regions of β agree with it.
            wanted = beliefs[region_class.owner]
            # λ' − λ = log b_β − log Σ b_α, which is also the change of log b_α.  A state that b_α excludes has −∞ on both sides and does
            # not change.
            change = np.where(gone, 0.0, wanted - marginal) if closed else wanted - marginal
        # All states of b_β are −∞: the normalisation of the closed form is −∞ − (−∞).
        if np.isnan(beliefs).any():
            if self.settings.algorithm == "gbp":
                raise Diverged(
                    "gbp failed: the beliefs of a region became zero for all states",
                    hint="use --damping 0.5, or --algorithm double-loop, which always converges",
                )
            # Contradictory zeros, or numbers that exceed the range of float64; only an exact algorithm can distinguish the two.
            hint = "use --algorithm junction-tree: zeros of the factors contradict each other, or their values differ too much in size"
            raise Diverged("double-loop failed: the beliefs of a region became zero for all states", hint=hint)
        # λ_αβ and log b_α change by the same amount, so b_α ∝ ψ_α Π_β e^{λ_αβ} holds without a new product.  Damping is geometric.
        kept = 1 - self.settings.damping if self.settings.algorithm == "gbp" else 1.0
        multiplier += np.where(change == -np.inf, 0.0, kept * change) if change.min(initial=0.0) == -np.inf else kept * change
        for part in region_class.parts:
            log_tables[part.group][part.rows] += kept * change[part.slots][:, part.state]
        state.inner[region_class.beliefs] = beliefs.ravel()
        return float(np.abs(np.exp(wanted) - np.exp(marginal)).max())

    def free_energy(self, state: DoubleLoopState) -> float:
        """Compute Σ_α Σ b_α log(b_α/ψ_α) + Σ_β c_β Σ b_β log b_β."""
        total = -self.constant
        for rows, potential in zip(self.outer_table_views(state.tables), self.outer_table_views(self.potential), strict=True):
            logs = _normalise_logs(rows)
            p = np.exp(logs)
            with np.errstate(invalid="ignore"):
                total += float(np.sum(np.where(p > 0, p * (logs - potential), 0.0)))
        for each in self.classes:
            logs = state.inner[each.beliefs].reshape(-1, each.states)
            with np.errstate(invalid="ignore"):
                entropy = np.where(np.isneginf(logs), 0.0, np.exp(logs) * logs).sum(axis=1)
            total += float(self.count[each.inner] @ entropy)
        return total

    def bytes_needed(self, state: DoubleLoopState) -> tuple[int, str]:
        """Return the bytes of the beliefs, and their purpose in words."""
        return 4 * self.potential.nbytes, "the beliefs of the regions"

    def result(self, state: DoubleLoopState) -> InferenceResult:
        """Return marginals of variables, of factors, and the Kikuchi log Z."""
        beliefs = [np.exp(_normalise_logs(rows)) for rows in self.outer_table_views(state.tables)]
        tables = [beliefs[group][row].reshape(self.shapes[group]) for group, row in self.place]
        cliques: list[Factor] = list(zip(self.regions.outer, tables, strict=True))
        nodes: dict[int, Array] = {}
        for scope, p in cliques:
            for axis, i in enumerate(scope):
                if i not in nodes:
                    nodes[i] = p.sum(axis=tuple(k for k in range(p.ndim) if k != axis))
        energy = self.free_energy(state)
        done = self.meets_criterion(state)
        attributes = make_convergence_attributes(energy, done, state.step, state.residual, state.free_energy, scaling_updates=state.updates)
        marginals = [nodes.get(i, np.ones(1)) for i in range(self.network.count)]
        return InferenceResult(marginals, [clique for clique in cliques if len(clique[0]) > 1], attributes)


def _choose_regions(network: Network, region_scopes: list[list[int]] | None, regions: str) -> RegionGraph:
    """Return the regions that the settings name; `auto` is `edges`."""
    if region_scopes is not None:
        return region_graphs.regions_from_scopes(network, region_scopes)
    return region_graphs.make_region_graph(network, "edges" if regions == "auto" else regions)


def _normalise_logs(logs: Array) -> Array:
    """Normalise rows of logarithms so that their exponentials sum to one."""
    top = logs.max(axis=1, keepdims=True)
    result: Array = logs - top - np.log(np.exp(logs - top).sum(axis=1, keepdims=True))
    return result
