"""Learning of a stream in parts, each from the start, and merging; for a fixed number of parts the result is the same for any workers.

The parts are consecutive ranges of the rows, or of one shuffled order of them, and share one choice of settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, RunProgress
from herdcli.online import learner
from herdcli.online.learner_state import LearnerState
from herdcli.online.learners.model_merging import merge_models
from herdcli.online.learners.state_conversion import classifier_from_state
from herdcli.online.model import Classifier, RaceResults
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, Matrix, array, require_valid_indices
from herdcli.shards import Shard


@dataclass(frozen=True)
class EvaluationRows:
    """Rows that evaluate the merged model, and the race that chose its settings."""

    X: Matrix = array("h d", "rows, dense or CSR", kind="fiub", sparse=True)
    y: Array = array("h", "class of each row, as an index", kind="i")
    split: Array = array("h", "1 calibration, 2 test", kind="iu")
    race: RaceResults | None = None


@dataclass(frozen=True, kw_only=True)
class ClassifierShard(Shard):
    """The classifiers of some of the parts."""

    parts: list[Classifier]
    rest: EvaluationRows | None = None

    def validate(self) -> None:
        """Raise DataError for an invalid shard, or for held-out rows of classes that its classifiers do not have."""
        super().validate()
        if self.rest is not None and self.parts:
            require_valid_indices("rest/y", self.rest.y, len(self.parts[0].classes), "classes")


@dataclass
class PartsState:
    """The classifiers of the finished parts, and the state of the current one."""

    step: int
    done: list[Classifier] = field(default_factory=list)
    inner: LearnerState | None = None
    grows: ClassVar[tuple[str, ...]] = ("done", "inner")


@dataclass(frozen=True)
class PartLearning(FixedLengthAlgorithm[PartsState]):
    """The learners of the parts, one after another, as an algorithm; their sources know their number of blocks."""

    learners: Sequence[learner.OnlineLearner]
    state = PartsState  # the type of its states

    @property
    def steps(self) -> int:
        """The number of blocks of all parts."""
        return sum(each.source.steps or 0 for each in self.learners)

    def init(self) -> PartsState:
        """Return a state with nothing learned."""
        return PartsState(0)

    def step(self, state: PartsState) -> PartsState:
        """Learn one block."""
        own = self.learners[len(state.done)]
        state.inner = own.step(own.init() if state.inner is None else state.inner)
        state.step += 1
        if own.done(state.inner):
            names = [str(k) for k in range(own.classes)] if own.labels is None else list(own.labels.names)
            state.done = [*state.done, classifier_from_state(own.settings, own.columns, state.inner, names, part=True)]
            state.inner = None
        return state

    def memory(self) -> int:
        """Return the bytes of the classifiers and of one learner."""
        return self.learners[0].memory() * (1 + len(self.learners)) if self.learners else 0

    def progress(self, state: PartsState) -> RunProgress:
        """Return the number of steps, and the progressive error of the current part."""
        figure = "" if state.inner is None else self.learners[len(state.done)].progress(state.inner).figure
        return RunProgress(state.step, self.steps, f"part {len(state.done) + 1} of {len(self.learners)} {figure}".rstrip())

    def result(self, state: PartsState) -> list[Classifier]:
        """Return the classifiers."""
        return state.done


def partition_rows(count: int, parts: int, seed: int, *, shuffle: bool) -> list[Array]:
    """Return the rows (n_p,) of each part, out of `count` rows in their order or in a random one from the seed."""
    order = generator(seed, Stream.SHUFFLE, unit=1).permutation(count) if shuffle else np.arange(count)
    return np.array_split(order, parts)


def merge_parts(parts: Sequence[Classifier], heldout: EvaluationRows | None) -> Classifier:
    """Return the classifier of all parts: their evidence adds up, and the prior counts once."""
    made = merge_models(parts, "precision")
    return replace(made, race=None if heldout is None else heldout.race)
