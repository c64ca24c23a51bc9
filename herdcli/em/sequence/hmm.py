"""Hidden Markov models by EM (Baum and Welch): the model for `driver.EM`, with blocks of whole sequences.

    E   γ_t(k) and ξ_t(i, j) of every sequence, by forward and backward passes
    M   π_k = Σ_seq γ_0(k) / Σ_seq 1,   A_ij = Σ_t ξ_t(i, j) / Σ_j Σ_t ξ_t(i, j),   emissions from their rows weighted by γ

A transition or initial probability that starts at 0 stays 0, so a mask determines the structure.
Source: Makin, sec. 6.4.2; Rabiner (1989), eq. 40 and 54.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.driver import Parameters
from herdcli.em.mixture import cluster_initialization
from herdcli.em.sequence import forward_backward
from herdcli.em.sequence.emissions import EMISSIONS, Categorical, EmissionFamily, MeanEmission, PreparedEmission, safe_log, weighted_log_sum
from herdcli.em.sequence.gaussian_emissions import GaussianEmission
from herdcli.em.sequence.sequences import SequenceBlock, SequenceBlocks, Sequences
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import SAMPLE_ROWS, ArrayRows, BlockStatistics, RowBlock, RowBlocks, RowMoments, Sums, row_moments
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array

STAY = 0.5  # initial share of staying in a state; the allowed states share the rest equally
STRUCTURE = ("initial", "transition")


@dataclass(frozen=True)
class ChainStructure:
    """The allowed first states (K,) and transitions (K, K), as booleans."""

    first: Array
    allowed: Array
    in_order: bool = False  # whether states follow each other in time

    def __post_init__(self) -> None:
        if not self.first.any() or not self.allowed.any(axis=1).all():
            raise BadUsage("each state needs an allowed successor, and some state must be allowed first", hint="use --transitions full")

    @property
    def parameter_count(self) -> int:
        """The number of free parameters."""
        return int(self.allowed.sum()) - len(self.allowed) + int(self.first.sum()) - 1


def chain_structure(name: str, states: int, mask: Array | None = None) -> ChainStructure:
    """Return the structure of this name for `states` states, or that of a mask (K, K).

    `full`, `left-to-right` (never back, starting in the first state), `left-to-right:W` (at most W ahead), or `banded:W`.
    """
    if mask is not None:
        if mask.shape != (states, states):
            raise DataError(f"the transition matrix is {mask.shape[0]} × {mask.shape[1]}, expected {states} × {states}")
        return ChainStructure(np.ones(states, dtype=bool), mask != 0)
    kind, _, text = name.partition(":")
    ahead = np.arange(states) - np.arange(states)[:, None]
    reach = int(text) if text.isdecimal() else None
    if kind == "left-to-right" and (reach or not text):
        return ChainStructure(np.arange(states) == 0, (ahead >= 0) & (ahead <= (reach or states)), in_order=True)
    if kind == "banded" and reach:
        return ChainStructure(np.ones(states, dtype=bool), np.abs(ahead) <= reach)
    if name != "full":
        raise BadUsage(
            f"'{name}' is not a transition structure", hint="use full, left-to-right, left-to-right:1, banded:2, or a file with a mask"
        )
    return ChainStructure(np.ones(states, dtype=bool), np.ones((states, states), dtype=bool))


@dataclass(frozen=True)
class HMMEStep(BlockStatistics):
    """The E step of a block of sequences; known states of rows come with the block.

    ready  emissions with their parameters.      empty  their statistics of no rows.
    """

    ready: PreparedEmission
    chain: forward_backward.HiddenChain
    empty: Sums

    def __call__(self, block: SequenceBlock) -> Sums:
        """Return first states (K,), pairs (K, K), the statistics of the emissions, mass, and log-likelihood."""
        w, K = block.weights, self.chain.states
        rows = self.ready.scaled_likelihoods(block.X)
        if block.beside is not None:
            rows = clamp_labelled_rows(rows, block.beside, K)
        try:
            # E step: γ and ξ by forward and backward passes over each sequence, scaled row by row so that nothing underflows.
            found = forward_backward.smooth_states(self.chain, rows, block.offsets, w)
        except forward_backward.ImpossibleRow as error:
            raise impossible_row_error(error, block) from None
        gamma = found.smoothed[:, :K]
        sums = {
            "initial": w @ gamma[block.offsets[:-1]],
            "pairs": found.pairs,
            "mass": np.array([block.mass]),
            "log_likelihood": np.array([w @ found.log_likelihood]),
            **{name: item.copy() for name, item in self.empty.items()},
        }
        self.ready.add(block.X, gamma if block.weight is None else gamma * np.repeat(w, block.lengths)[:, None], sums)
        return sums


@dataclass(frozen=True)
class HMM:
    """The hidden Markov model for `driver.EM`, made by `prepare_hmm`.

    Parameters: initial (K,), transition (K, K) and those of the emissions.
    labels  (n,) the known state of each row of the table, −1 where unknown; None: all unknown.
    sent    whether blocks carry their labels.
    """

    structure: ChainStructure
    emission: EmissionFamily
    sequences: Sequences
    found: RowMoments
    init: str
    seed: int
    given: Parameters | None = None
    labels: Array | None = None
    sent: bool = False

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self.structure.first)

    def start(self, restart: int) -> Parameters:
        """Return transitions that favour staying, and emissions of rows assigned to states by label, place in time or nearness."""
        if self.given is not None:
            return {name: item.copy() for name, item in self.given.items()}
        K, random = self.states, generator(self.seed, Stream.EM_START, unit=restart)
        block, place = self._sample(random)
        weight = np.repeat(block.weights, block.lengths)
        state = self._initial_states(block, place, weight, restart, random)
        allowed = self.structure.allowed
        transition = (1 - STAY) * allowed / allowed.sum(axis=1, keepdims=True) + STAY * np.eye(K) * allowed
        first = self.structure.first / self.structure.first.sum()
        return {
            "initial": first,
            "transition": transition / transition.sum(axis=1, keepdims=True),
            **self.emission.start(block.X, weight, state, K, random),
        }

    def _sample(self, random: np.random.Generator) -> tuple[SequenceBlock, Array]:
        """Return sequences with about SAMPLE_ROWS rows, and the relative position of each row in its sequence, in [0, 1)."""
        given = self.sequences
        which = np.arange(given.count)
        if given.rows > SAMPLE_ROWS and given.count > 1:
            order = random.permutation(given.count)
            enough = int(np.searchsorted(np.cumsum(given.lengths[order]), SAMPLE_ROWS)) + 1
            which = np.sort(order[:enough])
        parts = [given.take(int(s), int(s) + 1) for s in which]
        offsets = np.concatenate([[0], np.cumsum([len(part.X) for part in parts])])
        weight = None if given.weight is None else given.weight[which]
        if weight is not None and not weight.any():
            weight = None
        place = np.concatenate([np.arange(len(part.X)) / len(part.X) for part in parts])
        joined = (
            [parts[0].X, parts[0].chosen]
            if len(parts) == 1
            else [np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "chosen")]
        )
        return SequenceBlock(0, joined[0], offsets, weight, joined[1]), place

    def _initial_states(
        self, block: SequenceBlock, relative_position: Array, weight: Array, restart: int, random: np.random.Generator
    ) -> Array:
        """Return the initial states (m,) of rows; all −1 if the emissions are to be initialised at random."""
        K = self.states
        labels = None if self.labels is None else self.labels[block.chosen]
        if self.structure.in_order:
            ends = np.arange(1, K) / K if restart == 0 else np.sort(random.random(K - 1))
            state = np.searchsorted(ends, relative_position, side="right")
        elif isinstance(self.emission, Categorical):
            state = np.full(len(relative_position), -1)
            if labels is not None and (labels >= 0).any():
                return np.where(labels >= 0, labels, random.integers(K, size=len(relative_position)))
        else:
            rows = cluster_initialization.fill_with_means(RowBlock(0, block.X, labels, weight), self.found)
            scale = np.sqrt(np.where(self.found.variance > 0, self.found.variance, 1.0))
            C = cluster_initialization.initial_centres(rows, K, self.init, random, scale) / scale
            state = np.argmin(np.square(C).sum(axis=1) - (rows.X / scale) @ (2.0 * C).T, axis=1)
        return state if labels is None else np.where(labels >= 0, labels, state)

    def expect(self, parameters: Parameters) -> Callable[[SequenceBlock], Sums]:
        """Return the E step, with first states (K,), pairs (K, K), emission statistics, mass and log-likelihood of a block."""
        states = forward_backward.HiddenChain(parameters["initial"], parameters["transition"])
        step, labels = HMMEStep(self.emission.prepare_emission(parameters), states, self.emission.zero_statistics(self.states)), self.labels
        if labels is None or self.sent:
            return step
        return lambda block: step(replace(block, beside=labels[block.chosen]))

    def complete_statistics(self, parameters: Parameters, sums: Sums) -> Sums:
        """Return the statistics with anything else that the emissions need."""
        return self.emission.complete_statistics(parameters, sums)

    def expected_log_likelihood(self, parameters: Parameters, sums: Sums) -> float:
        """Return Σ γ_0 log π + Σ ξ log A + Σ γ log p(row | state)."""
        found = weighted_log_sum(sums["initial"], safe_log(parameters["initial"])) + weighted_log_sum(
            sums["pairs"], safe_log(parameters["transition"])
        )
        return found + self.emission.expected_log_likelihood(parameters, sums)

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Return the relative frequencies of first states and transitions; a state that is never left keeps its row."""
        pairs, first = sums["pairs"], sums["initial"]
        leaving = pairs.sum(axis=1, keepdims=True)
        # Σ_ij ξ_ij log A_ij with Σ_j A_ij = 1 is maximal at A_ij = ξ_ij / Σ_j ξ_ij (the Lagrange multiplier of row i is Σ_j ξ_ij; Rabiner
        # 1989, eq. 40b).  Entries that are 0 have ξ = 0 and stay 0.
        transition = np.divide(pairs, leaving, out=parameters["transition"].copy(), where=leaving > 0)
        emitted, floors = self.emission.maximise(parameters, sums)
        return {"initial": first / first.sum(), "transition": transition, **emitted}, floors

    def penalty(self, parameters: Parameters) -> float:
        """Return 0: this is maximum likelihood."""
        return 0.0

    def memory(self) -> int:
        """Return the bytes of likelihoods and states of the longest block, and of the statistics."""
        longest = int(np.diff(self.sequences.offsets[SequenceBlocks(self.sequences).bounds]).max())
        row = 4 * forward_backward.padded_width(self.states) + self.sequences.columns + self.emission.work_per_row(self.states)
        statistics = sum(item.nbytes for item in self.emission.zero_statistics(self.states).values())
        return 8 * (longest * row + self.emission.work_per_block()) + 3 * statistics

    def initialisation_memory(self) -> int:
        """Return the bytes of the rows that initial emissions are computed from, their scaled copies, and distances."""
        if self.given is not None:
            return 0
        lengths = self.sequences.lengths
        rows = self.sequences.rows if self.sequences.count == 1 else min(self.sequences.rows, SAMPLE_ROWS + int(lengths.max()))
        return 8 * rows * (5 * self.sequences.columns + 4 * self.states + 8)


def clamp_labelled_rows(rows: forward_backward.ScaledLikelihoods, labels: Array, states: int) -> forward_backward.ScaledLikelihoods:
    """Return likelihoods in which rows with a known state (labels ≥ 0) have only that state."""
    known = np.flatnonzero(labels >= 0)
    # A known state is a likelihood of 0 for all others: the passes then condition on it.
    kept = rows.b[known, labels[known]]
    rows.b[known] = 0.0
    rows.b[known, labels[known]] = kept

    def logs(places: Array) -> Array:
        found, own = rows.logs(places), labels[places]
        return np.where((own[:, None] < 0) | (own[:, None] == np.arange(states)), found, -np.inf)

    return forward_backward.ScaledLikelihoods(rows.b, rows.shift, logs)


def impossible_row_error(error: forward_backward.ImpossibleRow, block: SequenceBlock) -> DataError:
    """Return the DataError for an impossible row of a block, located by its row in the table and in its sequence."""
    s = int(np.searchsorted(block.offsets, error.row, side="right")) - 1
    name = f" of sequence {block.names[s]}" if block.names else ""
    message = f"row {block.chosen[error.row]} (step {error.row - block.offsets[s]}{name}) is impossible in every state that can be reached"
    return DataError(message, hint="use a --floor above 0, or --transitions full, so that no row is impossible")


def emission_family(
    name: str,
    sequences: Sequences,
    *,
    covariance: str = "full",
    mixtures: int = 1,
    floor: float | None = None,
    names: list[str] | None = None,
    map: Map = map,
) -> tuple[EmissionFamily, RowMoments]:
    """Return an emission family for the rows of sequences, and their moments.  names  of the columns, for messages."""
    if name not in EMISSIONS:
        raise BadUsage(f"unknown emission '{name}', expected {', '.join(EMISSIONS)}")
    weight = None if sequences.weight is None else np.repeat(sequences.weight, sequences.lengths)
    rows = RowBlocks(ArrayRows(sequences.X, None, weight, sequences.chosen))
    found = row_moments(rows, map)
    if name == "categorical":
        return Categorical.from_table(sequences.X, floor, names), found
    if name in ("poisson", "bernoulli"):
        return MeanEmission.from_table(name, sequences.X, floor, names), found
    return GaussianEmission.from_moments(found, rows, covariance, mixtures if name == "gmm" else 1, floor), found


def prepare_hmm(
    sequences: Sequences,
    states: int,
    family: EmissionFamily,
    moments: RowMoments,
    *,
    transitions: ChainStructure | None = None,
    init: str = "kmeans++",
    seed: int = 0,
    start: Parameters | None = None,
    labels: Array | None = None,
    labels_in_blocks: bool = False,
) -> HMM:
    """Return a hidden Markov model with `states` states.  Raises DataError for fewer rows than states or labels beyond them."""
    if sequences.rows < states:
        raise DataError(f"{sequences.rows} rows are too few for {states} states", hint=f"use --components {sequences.rows} or fewer")
    if labels is not None and labels.max(initial=-1) >= states:
        raise DataError(
            f"label {labels.max()} is out of range: there are {states} states, 0 to {states - 1}",
            hint=f"use --components {labels.max() + 1}",
        )
    made = HMM(transitions or chain_structure("full", states), family, sequences, moments, init, seed, start, labels, labels_in_blocks)
    if start is not None and len(start["initial"]) != states:
        raise DataError(f"the initial model has {len(start['initial'])} states, expected {states}")
    return made


def parameter_count(model: HMM) -> int:
    """Return the number of free parameters: initial probabilities, transitions and emissions."""
    return model.structure.parameter_count + model.emission.parameter_count(model.states)
