"""Loop-corrected propagation: cavity distributions of Markov blankets, made consistent between variables.

    Q_i(x_i, x_∂i) ∝ ζ_i(x_∂i) Π_{I ∋ i} f_I(x_I) φ_{i,I}(x_{I∖i})

ζ_i is the distribution of the blanket ∂i in the network without i, by propagation with the blanket fixed at each of its states.  The
corrections φ make Q_i and Q_j agree about every factor that they share.  Without them, and with a ζ_i that is a product, the algorithm is
propagation.  Exact on trees and on one loop.  Source: Montanari & Rizzo (2005); Mooij & Kappen (2007), sec. 2, with factors of any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from herdcli import fast
from herdcli.errors import BadUsage, NegativeResult
from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.bethe.loopy_propagation import forward_backward_order
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model import possible_states
from herdcli.markov.model.beliefs import make_convergence_attributes
from herdcli.markov.model.network import Factor, Network, build_network, condition_network
from herdcli.markov.model.pairwise import reduce_to_pairwise
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.markov.model.restricted_states import restrict_to_possible_states
from herdcli.markov.model.stacked_tables import merge_equal_scopes
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_STATES = 1 << 12  # largest number of joint states of a Markov blanket; each of them takes one run of propagation
SWEEPS = 500  # largest number of sweeps of one such run


@dataclass
class LoopCorrectedState:
    """log ζ of all variables and log φ of all pairs (i, I), flat, and one residual per iteration.

    unsettled  number of blankets for which propagation did not converge.
    """

    cavity: Array
    correction: Array
    residual: Array
    unsettled: int
    step: int


@dataclass(frozen=True)
class MarkovBlanket:
    """A variable, its blanket, the factors over it as tables of (i, ∂i), and the positions of its values in the flat arrays.

    axes  of each factor's other variables in (i, ∂i).
    """

    scope: tuple[int, ...]
    shape: tuple[int, ...]
    factors: list[int]
    tables: list[Array]
    axes: list[tuple[int, ...]]
    cavity: slice
    corrections: list[slice]

    def reshape_to_blanket(self, table: Array, k: int) -> Array:
        """Reshape a table over the other variables of the k-th factor to all axes."""
        return table.reshape([n if axis in self.axes[k] else 1 for axis, n in enumerate(self.shape)])


class LoopCorrected(ToTolerance[LoopCorrectedState, InferenceSettings]):
    """The algorithm `loop-corrected`: each step computes one variable's ζ; after the last of these each step updates all corrections."""

    state = LoopCorrectedState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        self.network, self.settings = network, settings
        reduce_to_pairwise(
            network
        )  # raises Diverged for tables that span more than float64, because propagation would lose their smallest values
        self.inner = restrict_to_possible_states(network)
        self.factors = merge_equal_scopes(self.inner.network.factors())
        self.around = self._markov_blankets()
        self.steps = len(self.around) + settings.iterations
        runs = sum(around.cavity.stop - around.cavity.start for around in self.around)
        self.note = f"loop-corrected begins with {runs} runs of propagation, one for each state of each Markov blanket"

    def _markov_blankets(self) -> list[MarkovBlanket]:
        """Return the Markov blanket of each variable.  Raises BadUsage if a blanket has too many states."""
        small = self.inner.network
        states = small.cardinality.tolist()
        owners: list[list[int]] = [[] for _ in states]
        for a, (scope, _) in enumerate(self.factors):
            for i in scope:
                owners[i].append(a)
        made: list[MarkovBlanket] = []
        cavity = correction = 0
        for i, mine in enumerate(owners):
            scope = (i, *sorted({j for a in mine for j in self.factors[a][0]} - {i}))
            size = math.prod(states[j] for j in scope[1:])
            if size > MOST_STATES:
                what = f"that of {self.network.name(i)} has 2^{math.log2(size):.0f}"
                told = f"--algorithm loop-corrected enumerates the states of each Markov blanket, at most {MOST_STATES}: {what}"
                raise BadUsage(told, hint="use --algorithm tree-ep, or gbp --regions plaquettes --damping 0.5")
            shape = tuple(states[j] for j in scope)
            tables, axes, spans = [], [], []
            for a in mine:
                members, logs = self.factors[a]
                whole = logs.transpose([members.index(j) for j in scope if j in members])
                tables.append(whole.reshape([n if j in members else 1 for j, n in zip(scope, shape, strict=True)]))
                axes.append(tuple(axis for axis, j in enumerate(scope) if j in members and axis))
                length = math.prod(shape[axis] for axis in axes[-1])
                spans.append(slice(correction, correction + length))
                correction += length
            made.append(MarkovBlanket(scope, shape, mine, tables, axes, slice(cavity, cavity + size), spans))
            cavity += size
        return made

    def init(self) -> LoopCorrectedState:
        """Return uniform cavities and corrections."""
        last = self.around[-1]
        size = max((part.stop for around in self.around for part in around.corrections), default=0)
        return LoopCorrectedState(np.zeros(last.cavity.stop), np.zeros(size), np.empty(0), 0, 0)

    def step(self, state: LoopCorrectedState) -> LoopCorrectedState:
        """Compute the distribution of one blanket; once all are known, update all corrections."""
        if state.step < len(self.around):
            around = self.around[state.step]
            state.cavity[around.cavity], settled = self._log_z_by_states(around)
            if self._log_blanket_distribution(state, around).max() == -np.inf:
                raise NegativeResult(IMPOSSIBLE)
            return replace(state, unsettled=state.unsettled + (not settled), step=state.step + 1)
        largest = max(
            (self._match_factor_marginals(state, around, k) for around in self.around for k in range(len(around.factors))), default=0.0
        )
        return replace(state, residual=np.append(state.residual, largest), step=state.step + 1)

    def _log_z_by_states(self, markov_blanket: MarkovBlanket) -> tuple[Array, bool]:
        """Compute log Z by propagation without a variable, for each state of its blanket; return also whether all runs converged."""
        blanket, small = markov_blanket.scope[1:], self.inner.network
        if not blanket:
            return np.zeros(1), True
        left = [(scope, np.exp(logs - logs.max())) for a, (scope, logs) in enumerate(self.factors) if a not in set(markov_blanket.factors)]
        rest = build_network(small.cardinality, left)
        graph = reduce_to_pairwise(rest)
        order, scratch = forward_backward_order(graph), graph.scratch()
        whole, sweeps = np.array([0, len(order)], dtype=np.int64), np.zeros(1, dtype=np.int64)
        fixed, target = graph.flatten_fixed_marginals({})
        inner, settled = 0.1 * self.settings.tolerance, True
        found = np.full(math.prod(markov_blanket.shape[1:]), -np.inf)
        # ζ_i(x_∂i) ∝ Z of the network without i, with the blanket held at x_∂i: the Bethe approximation of log Z for each joint state.
        for cell, states in enumerate(np.ndindex(*markov_blanket.shape[1:])):
            held = replace(graph, potential=_condition_potential(graph.potential, graph.node_offset, blanket, states))
            if not _has_possible_states(held.potential, graph.node_offset, blanket):
                continue
            messages = graph.uniform_messages()
            far, bad = fast.settle(order, whole, messages, held.arrays, fixed, target, inner, SWEEPS, sweeps, scratch)
            with np.errstate(invalid="ignore"):
                energy = bethe.bethe_free_energy(held, bethe.compute_beliefs(held, messages, fixed, target)) if bad < 0 else np.nan
            if np.isfinite(energy):
                found[cell] = -energy
                settled = settled and far <= inner
            elif _is_arc_consistent(rest, dict(zip(blanket, states, strict=True))):  # messages vanish, but zeros alone allow the states
                found[cell], settled = np.nan, False
        # States whose messages vanished numerically get the mean of the others: neither favoured nor excluded.
        known = found[np.isfinite(found)]
        if not len(known) and np.isneginf(found).all():
            raise NegativeResult(IMPOSSIBLE)
        found[np.isnan(found)] = known.mean() if len(known) else 0.0
        return found - found.max(), settled

    def _log_cavity_terms(self, state: LoopCorrectedState, markov_blanket: MarkovBlanket) -> Iterator[Array]:
        """Yield log ζ and every log φ of a variable, with all axes."""
        yield state.cavity[markov_blanket.cavity].reshape(1, *markov_blanket.shape[1:])
        for k, part in enumerate(markov_blanket.corrections):
            yield markov_blanket.reshape_to_blanket(state.correction[part], k)

    def _log_blanket_distribution(
        self, state: LoopCorrectedState, markov_blanket: MarkovBlanket, excluded_factor: int | None = None
    ) -> Array:
        """Return log Q_i, or the same without one factor; not normalised."""
        total = np.zeros(markov_blanket.shape)
        for term in self._log_cavity_terms(state, markov_blanket):
            total = total + term
        for k, table in enumerate(markov_blanket.tables):
            if k != excluded_factor:
                total = total + table
        return total

    def _match_factor_marginals(self, state: LoopCorrectedState, markov_blanket: MarkovBlanket, k: int) -> float:
        """Update φ_{i,I} to agree with the other variables of factor I; return how far they were apart."""
        i, a = markov_blanket.scope[0], markov_blanket.factors[k]
        members = self.factors[a][0]
        others = [j for j in members if j != i]
        if not others:
            return 0.0
        # Q_i and Q_j without f_I both approximate the network's distribution without f_I, summed over all variables except I ∖ i (Mooij &
        # Kappen 2007, sec. 2.3).  φ_{i,I} becomes the geometric mean of the marginals from all j ∈ I ∖ i, divided by the marginal from Q_i
        # without φ_{i,I}.
        said = np.mean(
            [self._conditional_log_marginal(state, self.around[j], self.around[j].factors.index(a), set(others)) for j in others], axis=0
        )
        mine = self._conditional_log_marginal(state, markov_blanket, k, set(others))
        part = markov_blanket.corrections[k]
        old = state.correction[part].reshape(mine.shape)
        with np.errstate(invalid="ignore"):
            new = np.where(np.isneginf(said) | np.isneginf(mine), old, old + said - mine)
            apart = float(np.abs(np.exp(said) - np.exp(mine)).max())
        kept = self.settings.damping
        # Damping in logarithms; a constant of φ has no effect on Q_i, which is normalised, so the largest value is set to 0.
        made = (1 - kept) * new + kept * old
        state.correction[part] = (made - made.max()).ravel()
        return apart

    def _conditional_log_marginal(self, state: LoopCorrectedState, markov_blanket: MarkovBlanket, k: int, others: set[int]) -> Array:
        """Return the log of the marginal over some variables, in increasing order, of Q_i without its k-th factor."""
        logs = self._log_blanket_distribution(state, markov_blanket, k)
        kept = [axis for axis, j in enumerate(markov_blanket.scope) if j in others]
        found = _log_sum_exp(logs, tuple(axis for axis in range(len(markov_blanket.scope)) if axis not in kept))
        found = found.transpose(sorted(range(len(kept)), key=lambda axis: markov_blanket.scope[kept[axis]]))
        total = float(_log_sum_exp(found, tuple(range(found.ndim))))
        if total == -np.inf:
            raise NegativeResult(IMPOSSIBLE)
        return found - total

    def meets_criterion(self, state: LoopCorrectedState) -> bool:
        """Return True if the variables agree about their factors."""
        return state.step > len(self.around) and super().meets_criterion(state)

    def bytes_needed(self, state: LoopCorrectedState) -> tuple[int, str]:
        """Return the bytes of the beliefs, and their purpose in words."""
        return 8 * sum(math.prod(around.shape) for around in self.around), "the beliefs of Markov blankets"

    def memory(self) -> int:
        """Return the bytes of log ζ and log φ."""
        last = self.around[-1]
        return 16 * int(last.cavity.stop + sum(part.stop - part.start for around in self.around for part in around.corrections))

    def result(self, state: LoopCorrectedState) -> InferenceResult:
        """Return the marginals of each Q_i, and of each factor from that of its first variable.  There is no log Z."""
        nodes, beliefs = [], []
        for around in self.around:
            logs = self._log_blanket_distribution(state, around)
            beliefs.append(np.exp(logs - _log_sum_exp(logs, tuple(range(logs.ndim)))))
            nodes.append(beliefs[-1].sum(axis=tuple(range(1, logs.ndim))))
        cliques: list[Factor] = []
        for members, _ in self.factors:
            if len(members) > 1:
                around = self.around[members[0]]
                p = beliefs[members[0]].sum(axis=tuple(axis for axis, j in enumerate(around.scope) if j not in members))
                cliques.append((members, self.inner.expand_table(members, p, self.network.cardinality)))
        told = make_convergence_attributes(
            np.nan, self.meets_criterion(state), state.step, state.residual, np.full(len(state.residual), np.nan)
        )
        warning = (
            f"propagation did not converge on {state.unsettled} of {len(self.around)} Markov blankets; --algorithm tree-ep may be more "
            "accurate"
            if state.unsettled
            else ""
        )
        return InferenceResult(self.inner.expand_marginals(nodes, self.network.cardinality), cliques, told | {"log_z": np.nan}, warning)


def _condition_potential(potential: Array, offset: Array, blanket: tuple[int, ...], states: tuple[int, ...]) -> Array:
    """Return potentials with some nodes fixed at one state each."""
    made = potential.copy()
    for i, x in zip(blanket, states, strict=True):
        made[offset[i] : offset[i + 1]] = 0.0
        made[offset[i] + x] = potential[offset[i] + x]
    return made


def _is_arc_consistent(network: Network, states: dict[int, int]) -> bool:
    """Return True if arc consistency leaves the other variables a state in addition to these."""
    try:
        possible_states.find_possible_states(condition_network(network, states))
    except NegativeResult:
        return False
    return True


def _has_possible_states(potential: Array, offset: Array, blanket: tuple[int, ...]) -> bool:
    """Return True if each of these nodes has a possible state."""
    return all(potential[offset[i] : offset[i + 1]].any() for i in blanket)


def _log_sum_exp(logs: Array, axes: tuple[int, ...]) -> Array:
    """Compute log Σ exp over some axes; −∞ if every entry is −∞."""
    made: Array = np.logaddexp.reduce(logs, axis=axes)
    return made
