"""Exact generalised inference on a junction tree: the distribution closest to a network among all with the observed marginals.

A sweep walks around the tree of cliques depth first.  At the first visit of a clique the marginals of its observed variables
are set, by multiplying the clique's table by target/marginal, and each step to the next clique passes the
change on (UPS-JT): 2|S| propagations and one scaling for each observed variable, each of which uses exact marginals.  The
products of the scalings v_i are e^λ, where λ are the multipliers: Q = P Π v_i(x_i), and so KL(Q‖P) = Σ_i Σ_x ô_i(x) log v_i(x).
Source: Teh (2003), 5.16 and algorithm 6.1; Jiroušek & Přeučil (1995).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from herdcli import fast
from herdcli.algorithm import HasStateShapes
from herdcli.errors import NegativeResult
from herdcli.markov.exact import cliques, junction_tree
from herdcli.markov.exact.cliques import CliqueGraph, ScalingLayout
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.beliefs import make_convergence_attributes
from herdcli.markov.model.network import Factor, Network, build_network
from herdcli.records import dataclass
from herdcli.schema import Array

HOPELESS = 1 << 60  # bytes that are reported if no tree was found


@dataclass
class ObservedTreeState:
    """Clique tables, values of observed variables and separators (see numpy_junction), one residual per sweep, and counts of updates."""

    tables: Array
    values: Array
    residual: Array
    counts: Array
    step: int


class ObservedTree(ToTolerance[ObservedTreeState, InferenceSettings], HasStateShapes[ObservedTreeState]):
    """The algorithm `junction-tree` with observed marginals: each step is a sweep over all of them."""

    state = ObservedTreeState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings, self.steps = network, settings, settings.iterations
        self.observed = network.stored_marginals()
        self.scopes = [(i,) for i in self.observed]
        self.found = cliques.search_elimination_orders(network, settings.seed, settings.orders)
        self.graph: CliqueGraph | None = None
        if self.found.complete:
            self.plan = junction_tree.build_clique_tree(network, self.found.order)
            self.graph, self.kept = cliques.junction_tree_from_order(self.plan)
        least = "" if self.found.complete else "at least "
        cells = math.log2(max(1.0, self.found.cells))
        self.words = f"the junction tree, treewidth {least}{self.found.width} and 2^{cells:.1f} table cells,"

    def memory(self) -> int:
        """Return the bytes of the cliques' tables in both forms, and of the maps between them."""
        if self.graph is None:
            return HOPELESS
        return self.graph.bytes_needed(self.network.cardinality, self.scopes) + self.plan.bytes_needed(self.network)

    def bytes_needed(self, state: ObservedTreeState | None) -> tuple[int, str]:
        """Return the bytes of the last propagation, with a description."""
        return self.memory(), str(self.words)

    @cached_property
    def layout(self) -> ScalingLayout:
        """Observed variables and separators in flat arrays."""
        assert self.graph is not None
        targets = list(self.observed.values())
        return cliques.build_scaling_layout(self.graph.cliques, self.graph.inner(), self.network.cardinality, self.scopes, targets)

    @cached_property
    def sweep_program(self) -> Array:
        """The rows of a sweep."""
        assert self.graph is not None
        return np.array(cliques.build_scaling_schedule(self.graph, self.layout), dtype=np.int32).reshape(-1, 2)

    def state_template(self) -> ObservedTreeState:
        """Return a state with uniform cliques."""
        return ObservedTreeState(self.layout.uniform_tables(), self.layout.uniform_values(), np.empty(0), np.zeros(2, dtype=np.int64), 0)

    def init(self) -> ObservedTreeState:
        """Return P, as the marginals of its cliques."""
        tables, values = cliques.initial_scaling_tables(self.network, self.plan, self.kept, self.layout)
        return ObservedTreeState(tables, values, np.empty(0), np.zeros(2, dtype=np.int64), 0)

    def step(self, state: ObservedTreeState) -> ObservedTreeState:
        """Do one sweep over the observed marginals."""
        made = self.layout
        far, _, bad = fast.clique_updates(self.sweep_program, state.tables, state.values, made.target, made.links, 1.0, made.scratch)
        if bad >= 0:
            name = self.network.name(self.scopes[int(self.sweep_program[bad, 0])][0])
            raise NegativeResult(f"the observed marginal of {name} gives a positive probability to a state that the network excludes")
        scalings = int(np.count_nonzero(self.sweep_program[:, 1] < 0))
        counts = state.counts + np.array([scalings, len(self.sweep_program) - scalings])
        return ObservedTreeState(state.tables, state.values, np.append(state.residual, far), counts, state.step + 1)

    def result(self, state: ObservedTreeState) -> InferenceResult:
        """Return the marginals of P Π v_i by one more propagation, −min Σ Q log(Q/Π f), the divergence from P and the multipliers."""
        scalings = [state.values[self.layout.scope_cells(a)] for a in range(len(self.scopes))]
        extra: list[Factor] = list(zip(self.scopes, scalings, strict=True))
        tilted = build_network(self.network.cardinality, [*self.network.factors(), *extra])
        found = junction_tree.calibrate(tilted, junction_tree.build_clique_tree(tilted, self.found.order))
        pairs = list(zip(scalings, self.observed.values(), strict=True))
        divergence = float(sum((p[p > 0] * np.log(v[p > 0])).sum() for v, p in pairs))
        # found.log_z is that of Π f Π v.  With Q = Π f Π v / Z' the sum Σ Q log(Q/Π f) is Σ ô log v − log Z'.  This equals minus log Z of P
        # plus the divergence, because Z'/Z is the mean of Π v under P, which is 1 once all marginals are right.
        energy = divergence - found.log_z
        multiplier = [np.zeros(states) for states in self.network.cardinality.tolist()]
        with np.errstate(divide="ignore"):
            for (i,), v in extra:
                multiplier[i] = np.log(v)
        nans = np.full(len(state.residual), np.nan)
        attributes = make_convergence_attributes(
            energy, self.meets_criterion(state), state.step, state.residual, nans,
            scaling_updates=int(state.counts[0]),
            propagation_updates=int(state.counts[1]),
            divergence=divergence,
            multiplier=multiplier,
        )  # fmt: skip
        kept = junction_tree.factor_marginals(tilted, found)[: sum(1 for scope, _ in self.network.factors() if scope)]
        return InferenceResult(junction_tree.node_marginals(tilted, found), kept, attributes)
