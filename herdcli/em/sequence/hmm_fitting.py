"""Fits of hidden Markov models from sequences and options to an artifact: numbers of states, baseline, and facts about the fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.algorithm import Map
from herdcli.em import driver
from herdcli.em.artifacts import restart_outcomes
from herdcli.em.driver import EM, EMFit, EMSettings, Parameters
from herdcli.em.hmm_artifacts import ChainFitFacts, Emissions, HeldoutSequences, HiddenMarkovModel
from herdcli.em.mixture.component_search import ComponentSearch, SearchResult
from herdcli.em.mixture.gmm import information_criteria
from herdcli.em.sequence import forward_backward, hmm
from herdcli.em.sequence.emissions import Categorical, EmissionFamily
from herdcli.em.sequence.sequences import SequenceBlock, SequenceBlocks, Sequences, step_variance
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import RowMoments, Spreading, Sums, keep_blocks_local, sum_statistics
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True, kw_only=True)
class ChainSequences:
    """The training, validation and test sequences of a fit.

    y  (n,) labels of all rows of the table, −1 where unknown.
    """

    training: Sequences
    valid: Sequences | None = None
    test: Sequences | None = None
    y: Array | None = None
    feature_names: list[str] | None = None
    class_names: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class ChainOptions:
    """The options of a fit.

    sizes  numbers of states to try;  given  initial parameters;  mask  (K, K) allowed transitions.
    """

    sizes: tuple[int, ...]
    emission: str = "gaussian"
    covariance: str = "full"
    mixtures: int = 2
    transitions: str = "full"
    mask: Array | None = None
    criterion: str = "bic"
    floor: float | None = None
    init: str | None = None
    patience: int | None = None  # consecutive sizes that may be worse than the best; None: all sizes are tried
    seed: int = 0
    given: HiddenMarkovModel | None = None
    supervised: bool = False


@dataclass(frozen=True)
class PreparedChainFit:
    """A fit that is ready to run: run `search`, then call `artifact_from_search` on its result."""

    asked: ChainOptions
    rows: ChainSequences
    found: RowMoments
    family: EmissionFamily
    settings: EMSettings
    search: ComponentSearch

    def artifact_from_search(self, search: SearchResult, map: Map = map) -> HiddenMarkovModel:
        """Return the artifact of the result of a search."""
        value = self.artifact_from_fit(search.size, search.fit)
        several, real = len(self.search.sizes) > 1, self.asked.emission in ("gaussian", "gmm")
        known = ChainFitFacts(
            rows=self.rows.training.rows,
            sequences=self.rows.training.count,
            occupancy=state_occupancy(value, self.rows.training, map),
            base=self._single_state_emissions(map),
            base_mean=self.found.mean if real else None,
            base_full=self.found.covariance if real else None,
            base_step=step_variance(self.rows.training, self.found.variance) if real else None,
            missing=self.found.missing,
            feature_names=self.rows.feature_names,
            class_names=self.rows.class_names,
            supervised=self.asked.supervised,
            sizes=np.array(self.search.sizes[: len(search.scores)]) if several else None,
            scores=np.array(search.scores) if several else None,
            criterion=self.asked.criterion if several else None,
        )
        if self.rows.valid is not None:
            known = replace(known, valid=value.log_likelihood(self.rows.valid, map, known.occupancy))
        return replace(value, known=known)

    def _single_state_emissions(self, map: Map) -> Emissions:
        """Return the emissions of the baseline with one state."""
        family = self.family.single_state_family()
        one = hmm.prepare_hmm(self.rows.training, 1, family, self.found)
        fit = driver.run_em(EM(one, SequenceBlocks(self.rows.training), replace(self.settings, restarts=1), map))
        return emissions_from_parameters(fit.parameters, family)

    def artifact_from_fit(self, size: int, fit: EMFit) -> HiddenMarkovModel:
        """Return the artifact of one fit, without further facts about the rows."""
        run = self.search.runs[self.search.sizes.index(size)].model
        assert isinstance(run, hmm.HMM)
        return HiddenMarkovModel(
            emission=self.asked.emission,
            family=self.asked.covariance if self.asked.emission in ("gaussian", "gmm") else None,
            initial=fit.parameters["initial"],
            transition=fit.parameters["transition"],
            allowed=run.structure.allowed,
            first=run.structure.first,
            emissions=emissions_from_parameters(fit.parameters, self.family),
            floor=self.family.floor,
            ledger=fit.ledger,
            restarts=restart_outcomes(fit),
            mass=fit.mass,
            seed=self.asked.seed,
            held=None if self.rows.test is None else _heldout_sequences(self.rows.test, self.rows.y),
        )


def prepare_chain_fit(
    rows: ChainSequences, options: ChainOptions, settings: EMSettings, map: Map = map, spread: Spreading = keep_blocks_local
) -> PreparedChainFit:
    """Return a fit that is ready to run.  Raises BadUsage and DataError if the model cannot be fitted.

    spread  distributes blocks to the processes that compute their passes.
    """
    if options.criterion == "icl":
        raise BadUsage("--criterion icl is for mixtures", hint="use --criterion bic, aic or valid")
    family, found = _emission_family(rows, options.emission, options.covariance, options.mixtures, options.floor, options.given, map)
    labels = rows.y if options.supervised else None
    given, init = _initial_parameters(options, family), options.init or "kmeans++"
    models = tuple(
        hmm.prepare_hmm(
            rows.training,
            size,
            family,
            found,
            transitions=_chain_structure(options.given, options.transitions, options.mask, size),
            init=init,
            seed=options.seed,
            start=given,
            labels=labels,
            labels_in_blocks=True,
        )
        for size in options.sizes
    )
    source = spread(SequenceBlocks(rows.training, labels))
    search = ComponentSearch(options.sizes, tuple(EM(model, source, settings, map) for model in models))
    return _add_size_criterion(PreparedChainFit(options, rows, found, family, settings, search), map)


def _emission_family(
    rows: ChainSequences, emission: str, covariance: str, mixtures: int, floor: float | None, given: HiddenMarkovModel | None, map: Map
) -> tuple[EmissionFamily, RowMoments]:
    family, found = hmm.emission_family(
        emission,
        rows.training,
        covariance=covariance,
        mixtures=mixtures,
        floor=floor,
        names=rows.feature_names,
        map=map,
    )
    if given is not None and isinstance(family, Categorical) and given.emissions.symbols is not None:
        family = replace(family, symbols=given.emissions.symbols)
    return family, found


def _chain_structure(given: HiddenMarkovModel | None, transitions: str, mask: Array | None, size: int) -> hmm.ChainStructure:
    if given is not None and transitions == "full" and mask is None:
        return hmm.ChainStructure(given.first, given.allowed)
    return hmm.chain_structure(transitions, size, mask)


def _initial_parameters(options: ChainOptions, family: EmissionFamily) -> Parameters | None:
    """Return the parameters of an earlier model, without those that the structure forbids."""
    if options.given is None:
        return None
    value = options.given
    if value.emission != options.emission:
        raise DataError(f"the initial model has --emission {value.emission}, not {options.emission}")
    made = _chain_structure(options.given, options.transitions, options.mask, value.states)
    p = dict(value.parameters)
    for name, mask in (("initial", made.first), ("transition", made.allowed)):
        kept = np.where(mask, p[name], 0.0)
        share = kept.sum(axis=-1, keepdims=True)
        divided = np.where(share > 0, kept / np.where(share > 0, share, 1.0), mask / mask.sum(axis=-1, keepdims=True))
        # Probabilities that lose nothing are kept bit for bit: their sum may differ from 1 in the last bit, and a resumed run must not.
        p[name] = np.where((kept == p[name]).all(axis=-1, keepdims=True), p[name], divided)
    if value.states != options.sizes[0] or value.columns != family.columns:
        raise DataError(
            f"the initial model has {value.states} states and {value.columns} columns, expected {options.sizes[0]} and {family.columns}"
        )
    return p


def _add_size_criterion(prepared: PreparedChainFit, map: Map) -> PreparedChainFit:
    """Return the fit with a criterion added if there are several sizes."""
    if len(prepared.search.sizes) == 1:
        return prepared
    valid = prepared.rows.valid
    if prepared.asked.criterion == "valid" and valid is None:
        raise DataError("has no validation sequences, which --criterion valid needs", hint="use --split .6,.2,.2, or --criterion bic")

    def score(size: int, fit: EMFit) -> float:
        value = prepared.artifact_from_fit(size, fit)
        if prepared.asked.criterion == "valid" and valid is not None:
            return -value.log_likelihood(valid, map, state_occupancy(value, prepared.rows.training, map))
        return chain_information_criteria(value)[prepared.asked.criterion]

    return replace(prepared, search=replace(prepared.search, score=score, patience=prepared.asked.patience))


def chain_information_criteria(value: HiddenMarkovModel) -> dict[str, float]:
    """Return AIC and BIC of the training sequences; n is the number of rows."""
    return information_criteria(float(value.ledger.log_likelihood[-1]) * value.mass, value.mass, value.free_parameters)


def emissions_from_parameters(parameters: Parameters, family: EmissionFamily) -> Emissions:
    """Return the emission parameters of a fit as a part of the artifact."""
    own = {name: item for name, item in parameters.items() if name not in hmm.STRUCTURE}
    return Emissions(**own, symbols=family.symbols if isinstance(family, Categorical) else None)


def _heldout_sequences(test: Sequences, y: Array | None) -> HeldoutSequences:
    block = test.as_one_block()
    return HeldoutSequences(
        X=block.X, offsets=test.offsets.astype(np.int64), y=None if y is None else y[block.chosen], names=test.names, later=test.later
    )


def state_occupancy(value: HiddenMarkovModel, sequences: Sequences, map: Map = map) -> Array:
    """Return the mean smoothed probabilities (K,) of the states over the rows of sequences."""
    ready = value.prepare_emission()

    def statistics(block: SequenceBlock) -> Sums:
        found = forward_backward.smooth_states(value.chain, ready.scaled_likelihoods(block.X), block.offsets).smoothed[:, : value.states]
        return {"sum": np.repeat(block.weights, block.lengths) @ found}

    found = sum_statistics(SequenceBlocks(sequences), statistics, map)["sum"]
    return np.asarray(found / found.sum())
