"""The race of --C auto: learners of several C and algorithms over the first examples; the one with the lowest progressive error is used.

The examples are parsed, normalised and scaled once for all learners.  Their features are renumbered by the round in which they first
occur, so that a learner's table is no larger than its examples need.  After 1,000 examples the best five remain, after 4,000 the best two.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics.freed_memory import release_freed_memory
from herdcli.online import learner
from herdcli.online.block_sources import require_same_input
from herdcli.online.example_blocks import FIRST, BlockBuilder, ExampleBlock, join_blocks, prepare_block, rescale_and_update_sizes
from herdcli.online.learner_state import BlockSource, LabelledBatch, LearnerState
from herdcli.online.model import RaceResults, Settings
from herdcli.online.tags import add_label_columns
from herdcli.records import dataclass
from herdcli.schema import Array

EXAMPLES = 10_000
ROUNDS = ((1_000, 5), (4_000, 2), (EXAMPLES, 1))  # numbers of examples, and of the learners that remain after them
FULL, FULL_CLASSES, FULL_ROWS = 150, 10, 200  # most columns and classes for a full covariance, and number of examples before one is tried
BESIDE = {"perceptron": (0,), "pa1": (-3, -1, 1)}  # other learners tried against the winner, and powers of 4 of their C
TRIED = 1_000  # number of examples on which these are compared, before the best learns all first examples
SURE = 3.0  # standard errors of the paired difference
CHUNK = 1 << 16  # entries that are renumbered at one time
POWERS = range(-2, 6)  # powers of 4, divided by the mean of |x|²
WAITING = 4_000_000  # bytes of weights that learners keep between two rounds; the others learn their examples again


class ReplaySource:
    """A source whose first batches are kept by `read_first_batches`, so that the run can learn these batches after a race has used them."""

    def __init__(self, source: BlockSource, where: str = "") -> None:
        self.source, self.where = source, where
        self._kept: list[LabelledBatch] = []
        self._given = 0  # the last step that was requested

    @property
    def steps(self) -> int | None:
        """The total number of blocks."""
        return self.source.steps

    def read_first_batches(self, rows: int) -> list[LabelledBatch]:
        """Return the first batches with `rows` examples of the first pass, or all of it; must be called before learning."""
        while sum(batch.block.rows for batch in self._kept) < rows:
            batch = self.source.block(len(self._kept))
            if batch is None or not batch.first_pass:
                break
            self._kept.append(replace(batch, block=_to_single_precision(batch.block).copy_arrays()))
        return list(self._kept)

    def block(self, step: int, expected_digest: bytes = b"") -> LabelledBatch | None:
        """Return the block of a step."""
        if self._given <= step < len(self._kept):
            require_same_input(expected_digest, self._kept[step - 1].proof if step else b"", self.where)
            for number in range(self._given, step):  # these are learned by now: only their digests are kept
                self._kept[number] = replace(self._kept[number], block=self._kept[number].block.part(0, 0).copy_arrays())
            self._given = step
            return replace(self._kept[step], block=_to_double_precision(self._kept[step].block))
        self._kept = []
        return self.source.block(step, expected_digest)


def _to_single_precision(block: ExampleBlock) -> ExampleBlock:
    """Return the block with values in half or single precision if that is exact, as for counts."""
    for precision in (np.float16, np.float32):
        with np.errstate(over="ignore"):
            value = block.value.astype(precision)
        if np.array_equal(value, block.value):
            return replace(block, value=value)
    return block


def _to_double_precision(block: ExampleBlock) -> ExampleBlock:
    return replace(block, value=block.value.astype(np.float64, copy=False))


@dataclass(frozen=True)
class _RacerResult:
    """The results of a learner so far; ordered by error, then loss.  late: the error of the second half alone."""

    error: float
    loss: float
    examples: int
    late: float


def run_race(
    settings: Settings, batches: Sequence[LabelledBatch], classes: int, algorithms: Sequence[str], forms: Sequence[str] = ()
) -> tuple[Settings, RaceResults]:
    """Return the settings with the algorithm and C of the winner, and the results of all learners.

    Raises DataError without an example.
    settings  the settings of the run that follows; learners in the race have the diagonal form.
    forms     multiclass forms, top-1 or one-vs-rest, that also race; () for that of the settings.
    """
    whole = first_examples(settings, batches, classes)
    several = forms if classes > 2 and forms else (settings.multiclass,)
    heats = [_race_one_form(replace(settings, multiclass=form), whole, classes, algorithms) for form in several]
    # One-vs-rest learns faster at first, with an update for every class: forms are compared with each other once both have a winner.
    best = min(heats, key=lambda heat: (heat[2].late, heat[2].error, heat[2].loss))[0]
    if len(several) == 1:
        return best, heats[0][1]
    tables = [table for _, table, _ in heats]
    names = [form for form, table in zip(several, tables, strict=True) for _ in table.algorithm]
    arrays = {name: np.concatenate([getattr(table, name) for table in tables]) for name in ("C", "examples", "error", "loss")}
    return best, RaceResults(algorithm=[name for table in tables for name in table.algorithm], multiclass=names, **arrays)


def _race_one_form(
    settings: Settings, whole: ExampleBlock, classes: int, algorithms: Sequence[str]
) -> tuple[Settings, RaceResults, _RacerResult]:
    """Return the settings with the algorithm and C of the winner among those of one form, all of them, and the winner's results."""
    squares = float(np.sum(whole.value**2)) / whole.rows
    unit = 1.0 / squares if squares > 0 else 1.0
    # Examples twice as long need a quarter of C (x → kx with C → C/k² gives the same predictions), so the grid is in units of 1/mean |x|².
    entries = [(algorithm, unit * 4.0**power) for algorithm, power in itertools.product(algorithms, POWERS)]
    judged: list[_RacerResult] = [_RacerResult(1.0, np.inf, 0, 1.0)] * len(entries)
    running, waiting, begin = list(range(len(entries))), dict[int, RacingLearner](), 0
    for end, stay in ROUNDS:
        kept, best = dict[int, RacingLearner](), list[int]()
        release_freed_memory()  # that of smaller tables, in which the tables of this round have no place
        for number in running:
            algorithm, C = entries[number]
            racer, learned = waiting.pop(number, None), begin
            if racer is None:
                racer, learned = RacingLearner.from_settings(replace(settings, algorithm=algorithm, C=C), whole, classes), 0
            judged[number] = racer.learn_more(whole.part(learned, end))
            best = sorted([*best, number], key=lambda number: (judged[number].error, judged[number].loss, number))[:stay]
            kept = _limit_by_bytes(
                {place: kept.get(place, racer) for place in best if place in kept or place == number}, WAITING if stay > 1 else 0
            )
            del racer
        running, waiting, begin = best, kept, end
        if whole.rows <= end:
            break
    algorithm, C = entries[running[0]]
    table = RaceResults(
        algorithm=[name for name, _ in entries],
        C=np.array([C for _, C in entries]),
        examples=np.array([each.examples for each in judged]),
        error=np.array([each.error for each in judged]),
        loss=np.array([each.loss for each in judged]),
    )
    return replace(settings, algorithm=algorithm, C=C), table, judged[running[0]]


def _limit_by_bytes(racers: dict[int, RacingLearner], max_bytes: int) -> dict[int, RacingLearner]:
    """Return the first of these learners whose weights together take at most `max_bytes` bytes."""
    sizes = itertools.accumulate(racer.bytes for racer in racers.values())
    return {number: racer for (number, racer), size in zip(racers.items(), sizes, strict=True) if size <= max_bytes}


def better_full_covariance_learner(
    settings: Settings, batches: Sequence[LabelledBatch], classes: int
) -> tuple[Settings, float, float] | None:
    """Return AROW with a full covariance if it made significantly fewer mistakes than the winner in the second half.

    The result has its error there and the winner's.  None if it did not, or with too many columns or classes for it.
    """
    if classes > FULL_CLASSES or count_features(settings, batches) > FULL:
        return None
    whole = first_examples(settings, batches, classes)
    if whole.rows < FULL_ROWS:
        return None
    full = replace(settings, algorithm="arow", covariance="full", multiclass="one-vs-rest" if classes > 2 else settings.multiclass)
    racers = [RacingLearner.from_settings(each, whole, classes, each.covariance) for each in (settings, full)]
    for racer in racers:
        racer.learn_more(whole)
    diagonal, own = (racer.errors[whole.rows // 2 :] for racer in racers)
    apart = diagonal - own
    if not apart.mean() > SURE * apart.std() / len(apart) ** 0.5:
        return None
    return full, float(own.mean()), float(diagonal.mean())


@dataclass(frozen=True)
class BetterLearner:
    """A learner that was significantly better than the winner of a race.

    errors  (n/2,) in the second half of the first examples.
    """

    settings: Settings
    errors: Array
    error_of_winner: float


def better_first_order_learner(
    settings: Settings, batches: Sequence[LabelledBatch], classes: int, forms: Sequence[str] = ()
) -> BetterLearner | None:
    """Return PA-I or the perceptron if it made significantly fewer mistakes than the winner in the second half of examples.

    settings  of the winner.   forms  multiclass forms to try; () for that of the settings.
    Source: Crammer et al., "Online passive-aggressive algorithms", JMLR 7 (2006); Rosenblatt (1958).
    """
    few = first_examples(settings, batches, classes, TRIED)
    squares = float(np.sum(few.value**2)) / few.rows
    unit = 1.0 / squares if squares > 0 else 1.0
    entries = [
        replace(settings, algorithm=name, C=unit * 4.0**power, multiclass=form)
        for form in (forms if classes > 2 and forms else (settings.multiclass,))
        for name, powers in BESIDE.items()
        for power in powers
    ]
    late = [_progressive_mistakes(entry, few, classes)[few.rows // 2 :] for entry in (settings, *entries)]
    best = min(range(len(entries)), key=lambda k: float(late[k + 1].mean()))
    if not late[best + 1].mean() < late[0].mean():
        return None
    whole = few if few.rows < TRIED else first_examples(settings, batches, classes)
    own, others = (_progressive_mistakes(entry, whole, classes)[whole.rows // 2 :] for entry in (entries[best], settings))
    apart = others - own
    if not apart.mean() > SURE * apart.std() / len(apart) ** 0.5:
        return None
    return BetterLearner(entries[best], own, float(others.mean()))


def _progressive_mistakes(settings: Settings, whole: ExampleBlock, classes: int) -> Array:
    """Return whether each example was wrong before it was learned, (n,)."""
    racer = RacingLearner.from_settings(settings, whole, classes)
    racer.learn_more(whole)
    return racer.errors


def winner_index(settings: Settings, table: RaceResults) -> int:
    """Return the index of the race's entry that the settings come from."""
    own, forms = (settings.algorithm, settings.C, settings.multiclass), table.multiclass or [settings.multiclass] * len(table.C)
    return next(k for k, entry in enumerate(zip(table.algorithm, table.C.tolist(), forms, strict=True)) if entry == own)


def count_features(settings: Settings, batches: Sequence[LabelledBatch]) -> int:
    """Return the number of features of the first examples, with the bias: the width of `first_examples`, without computing it."""
    return int(_used_feature_mask(settings.bias, [block for block, _ in _first_blocks(batches, EXAMPLES)]).sum())


def _first_blocks(batches: Sequence[LabelledBatch], count: int) -> list[tuple[ExampleBlock, LabelledBatch]]:
    """Return the first `count` examples, block by block, and their batches."""
    starts = itertools.accumulate((batch.block.rows for batch in batches), initial=0)
    return [(batch.block.part(0, count - start), batch) for batch, start in zip(batches, starts, strict=False) if start < count]


def _used_feature_mask(bias: bool, blocks: Sequence[ExampleBlock]) -> Array:
    """Return a mask (D,) bool of the features that occur in the examples."""
    used = np.zeros(max((block.width for block in blocks), default=1), dtype=bool)
    used[0] = bias
    for block in blocks:
        used[block.index] = True
    return used


def first_examples(settings: Settings, batches: Sequence[LabelledBatch], classes: int, count: int | None = None) -> ExampleBlock:
    """Return the first examples (count: their number) as one block in the learners' form, with features numbered without gaps."""
    first = _first_blocks(batches, EXAMPLES if count is None else count)
    if not first:
        raise DataError("the file has no lines of data", hint="check whether the command that wrote the text was interrupted")
    used = _used_feature_mask(settings.bias, [block for block, _ in first])
    place = np.cumsum(used, dtype=np.int32) - np.int32(1)
    scales = np.zeros((int(used.sum()), {"none": 0, "online": 2, "standard": 5}[settings.scaling]))
    made, waiting = BlockBuilder(2 * sum(len(block.index) + block.rows for block, _ in first)), list[ExampleBlock]()
    for number, (block, batch) in enumerate(first):
        label = (
            learner.add_label_noise(batch.block.label, classes, settings, batch.number)[: block.rows]
            if settings.label_noise > 0
            else block.label
        )
        label = add_label_columns(label, classes) if settings.task == "multilabel" else label
        block = prepare_block(replace(_to_double_precision(block), label=label), normalize=settings.normalize, bias=settings.bias)
        waiting.append(replace(block, index=place[block.index]))
        # The first examples of a stream are scaled by the mean of FIRST, which a small first block does not have.
        if sum(each.rows for each in waiting) >= FIRST or number + 1 == len(first):
            joint = waiting[0] if len(waiting) == 1 else join_blocks(waiting)
            made.add(rescale_and_update_sizes(joint, scales) if scales.size else joint)
            waiting = []
    whole = made.build_block()
    _renumber_features(whole, [end for end, _ in ROUNDS])
    return whole


def _renumber_features(block: ExampleBlock, ends: Sequence[int]) -> None:
    """Number the features of a block without gaps, those of the examples before the first of the ends first."""
    place, count = np.full(block.width, -1, dtype=np.int32), 0
    for begin, end in itertools.pairwise((0, *ends)):
        new = np.zeros(len(place), dtype=bool)
        new[block.index[block.pointer[min(begin, block.rows)] : block.pointer[min(end, block.rows)]]] = True
        new &= place < 0
        found = int(new.sum())
        place[new] = np.arange(count, count + found, dtype=np.int32)
        count += found
    for start in range(0, len(block.index), CHUNK):  # in place, a part at a time: the examples take most of the memory
        part = slice(start, start + CHUNK)
        block.index[part] = place[block.index[part]]


@dataclass
class RacingLearner:
    """A learner in a race, with the errors and losses of examples before it learned them."""

    learner: learner.OnlineLearner
    state: LearnerState
    errors: Array
    losses: Array

    @staticmethod
    def from_settings(settings: Settings, whole: ExampleBlock, classes: int, covariance: str = "diagonal") -> RacingLearner:
        """Return a learner that has learned nothing; with a full covariance it has capacity for all features."""
        alone = replace(settings, covariance=covariance, kernel="none", scaling="none", normalize=False)
        one = learner.OnlineLearner(alone, learner.EmptySource(), classes, whole.width if covariance == "full" else 1, spare=0)
        return RacingLearner(one, one.init(), np.zeros(0), np.zeros(0))

    @property
    def bytes(self) -> int:
        """The bytes of its weights."""
        return sum(weights.nbytes for weights in (self.state.table, self.state.stack) if weights is not None)

    def learn_more(self, block: ExampleBlock) -> _RacerResult:
        """Learn one more block; return the share of mistakes and the mean loss so far."""
        with np.errstate(all="ignore"):
            score, _ = learner.learn_block(self.learner, self.state, block)
            errors, losses = learner.progressive_errors_and_losses(self.learner.settings.task, score, block.label)
            self.errors, self.losses = np.concatenate([self.errors, errors]), np.concatenate([self.losses, losses])
            late = self.errors[len(self.errors) // 2 :]
            error, loss, late_error = (float(np.mean(each)) for each in (self.errors, self.losses, late))
        most = float(np.finfo(float).max)
        loss = loss if np.isfinite(loss) else most
        if self.learner.settings.task == "regression":
            error = float(np.sqrt(loss))  # the root mean square, which is minimised
        return _RacerResult(error, loss, len(self.errors), late_error)


def race_messages(settings: Settings, table: RaceResults) -> list[str]:
    """Return messages about a race: the winner, and the results of the others."""
    best = winner_index(settings, table)
    forms = [""] * len(table.C) if table.multiclass is None else [f" {form}" for form in table.multiclass]
    lines = [
        f"--C auto: {settings.algorithm}{forms[best]} with C = {settings.C:.4g}, progressive error {table.error[best]:.4f} "
        f"over {table.examples[best]} examples, the lowest of {len(table.algorithm)} learners"
    ]
    columns: tuple[Array, ...] = (table.C, table.examples, table.error, table.loss)
    for name, form, C, examples, error, loss in zip(table.algorithm, forms, *columns, strict=True):
        lines.append(f"  {name}{form} C = {C:<10.4g} {examples:>6} examples: error {error:.4f}, loss {loss:.4f}")
    return lines
