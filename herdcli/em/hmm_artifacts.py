"""The artifact of a hidden Markov model, of kind `hmm`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.artifacts import RestartOutcomes
from herdcli.em.driver import ObjectiveHistory, Parameters
from herdcli.em.mixture.gmm import COVARIANCES
from herdcli.em.sequence import forward_backward
from herdcli.em.sequence.emissions import Categorical, EmissionFamily, MeanEmission, PreparedEmission
from herdcli.em.sequence.forward_backward import HiddenChain
from herdcli.em.sequence.gaussian_emissions import GaussianEmission
from herdcli.em.sequence.sequences import SequenceBlock, SequenceBlocks, Sequences
from herdcli.em.variance_floors import are_positive_definite, require_consistent_moments
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import ArrayRows, RowBlocks, RowMoments, Sums, sum_statistics
from herdcli.records import dataclass, former_class_getattr
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array, require_offsets

FAMILIES = {"gaussian": "mean", "gmm": "mean", "categorical": "table", "poisson": "rate", "bernoulli": "probability"}
TOGETHER = {"mean": ("mixing", "mean", "covariance"), "table": ("table", "symbols")}  # parameters that must be present together
WANTS = ("smoothed", "filtered", "predicted", "viterbi")
SURE = 1e-9  # tolerance of the sum of probabilities


@dataclass(frozen=True, kw_only=True)
class Emissions:
    """Parameters of the emission distributions; only those of the model's family are present."""

    mixing: Array | None = array("K M", "shares of a state's Gaussians", kind="f", dtype="f8", optional=True)
    mean: Array | None = array("K M D", "means of a state's Gaussians", kind="f", dtype="f8", optional=True)
    covariance: Array | None = array("K M D D", "their covariances", kind="f", dtype="f8", optional=True)
    table: Array | None = array("K D V", "probability of each symbol in each column", kind="f", dtype="f8", optional=True)
    symbols: Array | None = array("V", "the symbols, whole numbers", kind="i", dtype="i8", optional=True)
    rate: Array | None = array("K D", "mean counts", kind="f", dtype="f8", optional=True)
    probability: Array | None = array("K D", "probabilities of a 1", kind="f", dtype="f8", optional=True)

    def require_only_family(self, emission: str, where: str) -> None:
        """Raise DataError unless exactly the parameters of this family are present."""
        needed = TOGETHER.get(FAMILIES[emission], (FAMILIES[emission],))
        for declared in fields(self):
            there, wanted = getattr(self, declared.name) is not None, declared.name in needed
            if there != wanted:
                what = f"has no '{declared.name}'" if wanted else f"has '{declared.name}'"
                raise DataError(f"/{where} {what}, which --emission {emission} {'needs' if wanted else 'does not have'}")

    @property
    def parameters(self) -> Parameters:
        """The parameters that are present, without the symbols."""
        names = ("mixing", "mean", "covariance", "table", "rate", "probability")
        return {name: item for name in names if (item := getattr(self, name)) is not None}


@dataclass(frozen=True, kw_only=True)
class HeldoutSequences:
    """The held-out sequences (split 2), with their rows one after another."""

    X: Array = array("h D", "rows, NaN where a value is missing", kind="f", dtype="f8")
    offsets: Array = array("s", "where each sequence begins, and the number of rows", kind="i", dtype="i8")
    y: Array | None = array("h", "labels, −1 where unknown", kind="i", dtype="i8", optional=True)
    names: list[str] | None = None
    later: bool = False  # whether these are pieces that begin after the beginning of their sequences

    def validate(self) -> None:
        """Raise DataError unless the offsets match the rows and no sequence is empty."""
        require_offsets("held/offsets", self.offsets, len(self.X), "held/X")
        if (np.diff(self.offsets.astype(np.int64)) < 1).any():
            raise DataError("/held/offsets has a sequence without rows")

    @property
    def sequences(self) -> Sequences:
        """The held-out rows as `Sequences`."""
        return Sequences(self.X, np.arange(len(self.X)), self.offsets, None, self.names, self.later)


@dataclass(frozen=True, kw_only=True)
class ChainFitFacts:
    """Facts about a fit besides its parameters: training rows, baseline, and the other sizes that were tried.

    Log-likelihoods are in nats per row.  `base` has the emissions of a model with one state for all rows (one Gaussian for gmm).
    """

    rows: int  # number of rows in split 0
    sequences: int
    occupancy: Array = array("K", "mean probabilities of the states over the training rows", kind="f", dtype="f8")
    base: Emissions
    base_mean: Array | None = array("D", "mean of the training rows, of real ones", kind="f", dtype="f8", optional=True)
    base_full: Array | None = array("D D", "their covariance", kind="f", dtype="f8", optional=True)
    base_step: Array | None = array("D", "mean squared differences of neighbouring values", kind="f", dtype="f8", optional=True)
    valid: float | None = None  # log-likelihood of split 1
    missing: int = 0  # number of missing values
    feature_names: list[str] | None = None
    class_names: list[str] | None = None  # names of the labels' classes
    supervised: bool = False  # whether each class is a state, in the order of the labels
    sizes: Array | None = array("S", "numbers of states that were tried", kind="i", dtype="i8", optional=True)
    scores: Array | None = array("S", "the criterion of each, the smallest was kept", kind="f", dtype="f8", optional=True)
    criterion: str | None = None


@dataclass(frozen=True, kw_only=True)
class HiddenMarkovModel:
    """A hidden Markov model: initial probabilities, transitions A_ij = p(next = j | now = i) with rows that sum to 1, and emissions."""

    emission: str  # gaussian, categorical, poisson, bernoulli or gmm
    family: str | None = None  # family of the covariances: full, tied, diagonal or spherical
    initial: Array = array("K", "probabilities of the first states", kind="f", dtype="f8")
    transition: Array = array("K K", "p(next | now), a row for each state now", kind="f", dtype="f8")
    allowed: Array = array("K K", "transitions that were let be", kind="b")
    first: Array = array("K", "first states that were let be", kind="b")
    emissions: Emissions
    floor: float  # least variance, probability or rate
    ledger: ObjectiveHistory
    restarts: RestartOutcomes
    mass: float  # Σ of the weights of the training rows
    seed: int
    held: HeldoutSequences | None = None
    known: ChainFitFacts | None = None

    def validate(self) -> None:
        """Raise DataError unless probabilities are valid and the emissions are those of the family."""
        if self.emission not in FAMILIES:
            raise DataError(f"emission is '{self.emission}', expected one of {', '.join(FAMILIES)}")
        self.emissions.require_only_family(self.emission, "emissions")
        if self.known is not None:
            self.known.base.require_only_family(self.emission, "known/base")
        for name, rows in (("initial", self.initial[None]), ("transition", self.transition), *self._probability_arrays()):
            if not np.isfinite(rows).all() or (rows < 0).any() or np.abs(rows.sum(axis=-1) - 1.0).max() > SURE:
                raise DataError(f"/{name} does not hold probabilities, which are at least 0 and sum to 1")
        if not all(np.isfinite(item).all() for item in self.emissions.parameters.values()):
            raise DataError("/emissions has values that are not finite")
        S = self.emissions.covariance
        if S is not None and self.family not in COVARIANCES:
            raise DataError(f"family is '{self.family}', expected one of {', '.join(COVARIANCES)}")
        if S is not None and (S.shape[-1] != S.shape[-2] or not are_positive_definite(S)):
            raise DataError("/emissions/covariance is not positive definite")
        if len(self.initial) != len(next(iter(self.emissions.parameters.values()))):
            raise DataError("/emissions has a different number of states from /initial")
        if self.held is not None and self.held.X.shape[1] != self.columns:
            raise DataError(f"/held/X has {self.held.X.shape[1]} columns, but /emissions has {self.columns}")
        if self.known is not None:
            self._require_consistent_facts(self.known)

    def _require_consistent_facts(self, known: ChainFitFacts) -> None:
        """Raise DataError unless the facts about the training rows have the states and columns of the model."""
        if len(known.occupancy) != self.states or not (np.isfinite(known.occupancy).all() and (known.occupancy >= 0).all()):
            raise DataError("/known/occupancy must hold one mean probability for each state")
        require_consistent_moments(known, self.columns)

    def _probability_arrays(self) -> list[tuple[str, Array]]:
        return [(f"emissions/{name}", p) for name in ("mixing", "table") if (p := getattr(self.emissions, name)) is not None]

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self.initial)

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        if self.emissions.table is not None:
            return int(self.emissions.table.shape[1])
        return int(getattr(self.emissions, FAMILIES[self.emission]).shape[-1])

    @property
    def parameters(self) -> Parameters:
        """The parameters that EM fitted."""
        return {"initial": self.initial, "transition": self.transition, **self.emissions.parameters}

    @property
    def chain(self) -> HiddenChain:
        """The chain of the hidden states, without emissions."""
        return HiddenChain(self.initial, self.transition)

    @property
    def emission_family(self) -> EmissionFamily:
        """The family of the emissions."""
        return emission_from_artifact(self.emission, self.family, self.emissions, self.floor)

    @property
    def free_parameters(self) -> int:
        """The number of fitted parameters."""
        states = int(self.allowed.sum()) - self.states + int(self.first.sum()) - 1
        return states + self.emission_family.parameter_count(self.states)

    @property
    def has_floored_variances(self) -> bool:
        """Whether the last M step raised variances of varying columns; constant columns are at their floor in every state."""
        mean, base = self.emissions.mean, None if self.known is None else self.known.base.covariance
        if mean is None:
            return False
        # In the baseline the variance of a constant column is the floor itself.
        own = np.empty(0) if base is None else np.diagonal(base, axis1=-2, axis2=-1)
        flat = int((np.abs(own - self.floor) <= SURE * self.floor).sum())
        once = {"spherical": 0, "tied": 1}.get(str(self.family), mean.shape[0] * mean.shape[1])
        return bool(int(self.ledger.floors[-2:].max(initial=0)) > flat * once)

    def prepare_emission(self) -> PreparedEmission:
        """Return the emissions, prepared for computing densities of rows."""
        return self.emission_family.prepare_emission(self.emissions.parameters)

    def log_likelihood(self, sequences: Sequences, map: Map = map, occupancy: Array | None = None) -> float:
        """Return the weighted mean log-likelihood of sequences, in nats per row.  Raises DataError for an impossible row.

        Pieces that begin after the start of their sequences begin in a state drawn from the occupancy (K,), by default that in training.
        """
        return mean_log_likelihood(self.prepare_emission(), self.chain_for_sequences(sequences, occupancy), sequences, map)

    def chain_for_sequences(self, sequences: Sequences, occupancy: Array | None = None) -> HiddenChain:
        """Return the chain of hidden states with the initial probabilities for these sequences.

        For pieces that begin after the beginning of their sequences these are the occupancies.
        """
        known = self.known.occupancy if self.known is not None else occupancy
        return HiddenChain(known, self.transition) if sequences.later and known is not None else self.chain

    def single_state_densities(self, X: Array) -> Array:
        """Return the log densities (m,) of rows (m, D) under the baseline with one state for all rows."""
        assert self.known is not None
        base = self.known.base
        one = emission_from_artifact("gaussian" if self.emission == "gmm" else self.emission, self.family, base, self.floor)
        return np.asarray(one.prepare_emission(base.parameters).log_likelihoods(X)[:, 0])

    def infer_states(self, sequences: Sequences, want: str, map: Map = map) -> Array:
        """Return state probabilities (m, K) or most probable states (m,) for each row, in the order of the sequences.

        want  `filtered`, `smoothed` or `predicted` for probabilities, `viterbi` for the most probable paths.
        """
        if want not in WANTS:
            raise BadUsage(f"unknown value '{want}' of want, expected {', '.join(WANTS)}")
        return self._map_sequence_blocks(
            sequences, lambda block, logs: _state_outputs(self.chain_for_sequences(sequences), logs, block.offsets, want), map
        )

    def sample_state_paths(self, sequences: Sequences, count: int, seed: int, map: Map = map) -> Array:
        """Return state paths sampled from their posterior (m, count), one per column."""
        states = self.chain_for_sequences(sequences)

        def drawn(block: SequenceBlock, logs: Array) -> Array:
            alpha = _filtered_probabilities(states, logs, block.offsets)
            found = [
                np.concatenate([generator(seed, Stream.PATHS, unit=block.first + s, step=n).random(T) for s, T in enumerate(block.lengths)])
                for n in range(count)
            ]
            return np.stack([forward_backward.sample_paths(states, alpha, block.offsets, uniform) for uniform in found], axis=1)

        return self._map_sequence_blocks(sequences, drawn, map)

    def _map_sequence_blocks(self, sequences: Sequences, function: Callable[[SequenceBlock, Array], Array], map: Map) -> Array:
        ready, source = self.prepare_emission(), SequenceBlocks(sequences)

        def one(block: SequenceBlock) -> Array:
            try:
                return function(block, ready.log_likelihoods(block.X))
            except forward_backward.ImpossibleRow as error:
                raise impossible_row_error(error, block, sequences) from None

        return np.concatenate(list(map(one, source.take(0, source.count))))

    def sample_sequences(self, lengths: Array, seed: int) -> tuple[Array, Array]:
        """Sample new sequences of these lengths; return their rows (m, D) and states (m,).

        Sequence s depends on the seed and on s only.
        """
        ends, first = np.cumsum(self.transition, axis=1), np.cumsum(self.initial)
        rows, paths = [], []
        for s, length in enumerate(lengths.tolist()):
            random = generator(seed, Stream.SEQUENCES, unit=s)
            u, path = random.random(length), np.empty(length, dtype=np.int64)
            for t in range(length):
                edges = first if t == 0 else ends[path[t - 1]]
                path[t] = min(int(np.searchsorted(edges, u[t] * edges[-1], side="right")), self.states - 1)
            paths.append(path)
            rows.append(self.emission_family.sample_rows(self.emissions.parameters, path, random))
        return np.concatenate(rows), np.concatenate(paths)


def _state_outputs(states: HiddenChain, logs: Array, offsets: Array, want: str) -> Array:
    if want == "viterbi":
        return forward_backward.viterbi_paths(states, logs, offsets)[0]
    if want == "smoothed":
        return forward_backward.smooth_states(states, forward_backward.scale_likelihoods(logs), offsets).smoothed[:, : states.states]
    alpha = _filtered_probabilities(states, logs, offsets)
    return alpha[:, : states.states] if want == "filtered" else forward_backward.predict_states(states, alpha, offsets)


def _filtered_probabilities(states: HiddenChain, logs: Array, offsets: Array) -> Array:
    """Return filtered probabilities (m, width).  Raises ImpossibleRow, which names the row."""
    alpha, found = forward_backward.filter_states(states, forward_backward.scale_likelihoods(logs), offsets)
    if np.isneginf(found).any():
        forward_backward.smooth_states(states, forward_backward.scale_likelihoods(logs), offsets)
    return alpha


def emission_from_artifact(name: str, family: str | None, emissions: Emissions, floor: float) -> EmissionFamily:
    """Return the emission family that has these parameters."""
    if emissions.table is not None and emissions.symbols is not None:
        there = (emissions.table > floor).any(axis=0)  # (D, V): a symbol that no row has in a column is at the floor in all states
        seen = tuple(int(count) for count in there.sum(axis=1))
        return Categorical(emissions.symbols, int(emissions.table.shape[1]), floor, seen=seen)
    if emissions.mean is None or emissions.mixing is None or emissions.covariance is None:
        own: Any = emissions.rate if name == "poisson" else emissions.probability
        return MeanEmission(name, int(own.shape[1]), floor)
    K, M, D = emissions.mean.shape
    mean, covariance = emissions.mean.reshape(K * M, D), emissions.covariance.reshape(K * M, D, D)
    centre = mean.mean(axis=0)
    spread = covariance.mean(axis=0) + (mean - centre).T @ (mean - centre) / len(mean)
    found = RowMoments(0, 0.0, centre, spread, 0)
    return GaussianEmission(family or "full", M, floor, np.ones(D), found, RowBlocks(ArrayRows(mean)))


def impossible_row_error(error: forward_backward.ImpossibleRow, block: SequenceBlock, sequences: Sequences) -> DataError:
    """Return the DataError for an impossible row of a block, located by its row in the table and in its sequence."""
    from herdcli.em.sequence.hmm import impossible_row_error

    return impossible_row_error(error, block)


def mean_log_likelihood(ready: PreparedEmission, states: HiddenChain, sequences: Sequences, map: Map) -> float:
    """Return the mean log-likelihood, in nats per row."""

    def statistics(block: SequenceBlock) -> Sums:
        logs = ready.log_likelihoods(block.X)
        _, found = forward_backward.filter_states(states, forward_backward.scale_likelihoods(logs), block.offsets)
        if np.isneginf(found).any():
            try:
                forward_backward.smooth_states(states, forward_backward.scale_likelihoods(logs), block.offsets)
            except forward_backward.ImpossibleRow as error:
                raise impossible_row_error(error, block, sequences) from None
        return {"sum": np.array([block.weights @ found, block.mass])}

    value = sum_statistics(SequenceBlocks(sequences), statistics, map)["sum"]
    return float(value[0] / value[1])


__getattr__ = former_class_getattr(__name__, MarkovChain="HiddenMarkovModel", KnownChain="ChainFitFacts")  # names in pickles of version 0.1
