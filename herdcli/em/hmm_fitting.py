"""From sequences and what is asked of them to an artifact: numbers of states that are tried, the baseline, and what is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.em import chain, driver, hmm
from herdcli.em.artifacts import restarts
from herdcli.em.driver import EM, Fit, Parameters, Settings
from herdcli.em.emissions import Categorical, Emission
from herdcli.em.gmm import criteria
from herdcli.em.hmm_artifacts import Emissions, Held, KnownChain, MarkovChain
from herdcli.em.search import Found, Search
from herdcli.em.sequences import SequenceBlock, SequenceBlocks, Sequences, step_variance
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.blocks import Map, Moments, Spreading, Sums, here, total
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True, kw_only=True)
class ChainRows:
    """Sequences to learn from, to choose by and to judge by.  y  (n,) labels of all rows of the table, −1 where unknown."""

    training: Sequences
    valid: Sequences | None = None
    test: Sequences | None = None
    y: Array | None = None
    feature_names: list[str] | None = None
    class_names: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class AskedChain:
    """Which model is wanted.  sizes  numbers of states to try; given  parameters to start from; mask  (K, K) transitions let be."""

    sizes: tuple[int, ...]
    emission: str = "gaussian"
    covariance: str = "full"
    mixtures: int = 2
    transitions: str = "full"
    mask: Array | None = None
    criterion: str = "bic"
    floor: float | None = None
    init: str | None = None
    patience: int | None = None  # sizes in a row that may be worse than the best; None: all are tried
    seed: int = 0
    given: MarkovChain | None = None
    supervised: bool = False


@dataclass(frozen=True)
class ChainFitting:
    """Sequences and what is wanted of them, ready to be run: `search`, then `finished`."""

    asked: AskedChain
    rows: ChainRows
    found: Moments
    family: Emission
    settings: Settings
    search: Search

    def finished(self, found: Found, map: Map = map) -> MarkovChain:
        """The artifact of what a search found."""
        value = self.made(found.size, found.fit)
        several, real = len(self.search.sizes) > 1, self.asked.emission in ("gaussian", "gmm")
        known = KnownChain(
            rows=self.rows.training.rows,
            sequences=self.rows.training.count,
            occupancy=occupancy(value, self.rows.training, map),
            base=self._base(map),
            base_mean=self.found.mean if real else None,
            base_full=self.found.covariance if real else None,
            base_step=step_variance(self.rows.training, self.found.variance) if real else None,
            missing=self.found.missing,
            feature_names=self.rows.feature_names,
            class_names=self.rows.class_names,
            supervised=self.asked.supervised,
            sizes=np.array(self.search.sizes[: len(found.scores)]) if several else None,
            scores=np.array(found.scores) if several else None,
            criterion=self.asked.criterion if several else None,
        )
        if self.rows.valid is not None:
            known = replace(known, valid=value.log_likelihood(self.rows.valid, map, known.occupancy))
        return replace(value, known=known)

    def _base(self, map: Map) -> Emissions:
        """The emissions of one state."""
        family = self.family.single()
        one = hmm.hmm(self.rows.training, 1, family, self.found)
        fit = driver.run(EM(one, SequenceBlocks(self.rows.training), replace(self.settings, restarts=1), map))
        return emissions(fit.parameters, family)

    def made(self, size: int, fit: Fit) -> MarkovChain:
        """The artifact of one fit, without what is known beside it."""
        run = self.search.runs[self.search.sizes.index(size)].model
        assert isinstance(run, hmm.HMM)
        return MarkovChain(
            emission=self.asked.emission,
            family=self.asked.covariance if self.asked.emission in ("gaussian", "gmm") else None,
            initial=fit.parameters["initial"],
            transition=fit.parameters["transition"],
            allowed=run.structure.allowed,
            first=run.structure.first,
            emissions=emissions(fit.parameters, self.family),
            floor=self.family.floor,
            ledger=fit.ledger,
            restarts=restarts(fit),
            mass=fit.mass,
            seed=self.asked.seed,
            held=None if self.rows.test is None else _held(self.rows.test, self.rows.y),
        )


def fitting(rows: ChainRows, asked: AskedChain, settings: Settings, map: Map = map, spread: Spreading = here) -> ChainFitting:
    """What there is to run.  spread  puts blocks where their passes are.  Raises BadUsage and DataError for what cannot be learned."""
    if asked.criterion == "icl":
        raise BadUsage("--criterion icl is for mixtures", hint="--criterion bic, aic or valid")
    family, found = _family(rows, asked, map)
    labels = rows.y if asked.supervised else None
    given, init = _given(asked, family), asked.init or "kmeans++"
    models = tuple(
        hmm.hmm(
            rows.training,
            size,
            family,
            found,
            transitions=_structure(asked, size),
            init=init,
            seed=asked.seed,
            given=given,
            labels=labels,
            sent=True,
        )
        for size in asked.sizes
    )
    source = spread(SequenceBlocks(rows.training, labels))
    search = Search(asked.sizes, tuple(EM(model, source, settings, map) for model in models))
    return _scored(ChainFitting(asked, rows, found, family, settings, search), map)


def _family(rows: ChainRows, asked: AskedChain, map: Map) -> tuple[Emission, Moments]:
    family, found = hmm.emission(
        asked.emission,
        rows.training,
        covariance=asked.covariance,
        mixtures=asked.mixtures,
        floor=asked.floor,
        names=rows.feature_names,
        map=map,
    )
    if asked.given is not None and isinstance(family, Categorical) and asked.given.emissions.symbols is not None:
        family = replace(family, symbols=asked.given.emissions.symbols)
    return family, found


def _structure(asked: AskedChain, size: int) -> hmm.Structure:
    if asked.given is not None and asked.transitions == "full" and asked.mask is None:
        return hmm.Structure(asked.given.first, asked.given.allowed)
    return hmm.structure(asked.transitions, size, asked.mask)


def _given(asked: AskedChain, family: Emission) -> Parameters | None:
    """Parameters of an earlier model, of which nothing that the structure forbids is left."""
    if asked.given is None:
        return None
    value = asked.given
    if value.emission != asked.emission:
        raise DataError(f"the start is of --emission {value.emission}, not {asked.emission}")
    made = _structure(asked, value.states)
    p = dict(value.parameters)
    for name, mask in (("initial", made.first), ("transition", made.allowed)):
        kept = np.where(mask, p[name], 0.0)
        share = kept.sum(axis=-1, keepdims=True)
        divided = np.where(share > 0, kept / np.where(share > 0, share, 1.0), mask / mask.sum(axis=-1, keepdims=True))
        # Shares that lose nothing are kept to the bit: their sum may differ from 1 in the last one, and a run that goes on must not.
        p[name] = np.where((kept == p[name]).all(axis=-1, keepdims=True), p[name], divided)
    if value.states != asked.sizes[0] or value.columns != family.columns:
        raise DataError(f"the start has {value.states} states and {value.columns} columns, expected {asked.sizes[0]} and {family.columns}")
    return p


def _scored(made: ChainFitting, map: Map) -> ChainFitting:
    """With a criterion where there is a choice."""
    if len(made.search.sizes) == 1:
        return made
    valid = made.rows.valid
    if made.asked.criterion == "valid" and valid is None:
        raise DataError("has no sequences in split 1, which --criterion valid needs", hint="--split .6,.2,.2, or --criterion bic")

    def score(size: int, fit: Fit) -> float:
        value = made.made(size, fit)
        if made.asked.criterion == "valid" and valid is not None:
            return -value.log_likelihood(valid, map, occupancy(value, made.rows.training, map))
        return chain_criteria(value)[made.asked.criterion]

    return replace(made, search=replace(made.search, score=score, patience=made.asked.patience))


def chain_criteria(value: MarkovChain) -> dict[str, float]:
    """AIC and BIC of the sequences learned from; n is the number of rows."""
    return criteria(float(value.ledger.log_likelihood[-1]) * value.mass, value.mass, value.free_parameters)


def emissions(parameters: Parameters, family: Emission) -> Emissions:
    """Parameters of EM as a part of the artifact."""
    own = {name: item for name, item in parameters.items() if name not in hmm.STRUCTURE}
    return Emissions(**own, symbols=family.symbols if isinstance(family, Categorical) else None)


def _held(test: Sequences, y: Array | None) -> Held:
    block = test.whole()
    return Held(
        X=block.X, offsets=test.offsets.astype(np.int64), y=None if y is None else y[block.chosen], names=test.names, later=test.later
    )


def occupancy(value: MarkovChain, sequences: Sequences, map: Map = map) -> Array:
    """(K,) mean smoothed probabilities of the states over the rows of sequences."""
    ready = value.ready()

    def statistics(block: SequenceBlock) -> Sums:
        found = chain.smoothed(value.chain, ready.emitted(block.X), block.offsets).smoothed[:, : value.states]
        return {"sum": np.repeat(block.weights, block.lengths) @ found}

    found = total(SequenceBlocks(sequences), statistics, map)["sum"]
    return np.asarray(found / found.sum())
