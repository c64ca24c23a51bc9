"""Learning of rows in memory: learners pass over them until the error of held-out rows stops falling, and the best is chosen.

All rows are standardised by statistics of all of them.  Candidates are the winner of the race for C, and pa2 with kept
multipliers, with several C and, for several classes, in both multiclass forms.  Each learns all rows but those of one fold, and is
evaluated on the fold after 1, 2, 4, … passes.  The candidate and number of passes with the lowest error over all folds are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from herdcli.online import learner
from herdcli.online.example_blocks import (
    ExampleBlock,
    apply_scales,
    block_from_rows,
    mask_examples,
    prepare_block,
    rescale_and_update_sizes,
)
from herdcli.online.learner_state import LearnerState
from herdcli.online.model import RaceResults, Settings
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, Matrix

ROWS, ENTRIES = 100_000, 5_000_000  # largest numbers of rows and entries that are passed over repeatedly
WEIGHTS_OF_LOSS = (1.0, 0.1, 0.01, 0.001)  # values of C for pa2, whose features have size 1
MOST_PASSES, WORK = 64, 300_000_000  # largest numbers of passes, and of entries times classes that a learner of a fold processes
PATIENCE = 2  # a learner is dropped after this many doublings of the passes without a lower error
FOLDS = ((2_000, 5), (10_000, 3))  # largest number of rows, and their number of folds; with more rows one fifth is held out
FOLD = 2  # unit of the random numbers that assign rows to folds; passes of a fold are its steps


@dataclass(frozen=True)
class PassChoice:
    """The chosen learner for rows in memory.

    table  errors of all candidates on held-out rows, the learners are in `learners`, and `best` is the index of the chosen one.
    folds  number of folds.
    """

    settings: Settings
    scales: Array | None
    table: RaceResults
    learners: list[Settings]
    best: int
    folds: int
    classes: int


def prepare_and_scale_rows(
    scaling: str, normalize: bool, bias: bool, X: Matrix, label: Array, weight: Array | None
) -> tuple[ExampleBlock, Array | None]:
    """Return the rows in the learner's form, and the scales (D, 5) from all of them; None if features are not scaled."""
    block = prepare_block(block_from_rows(X, label, slice(None), weight), normalize=normalize, bias=bias)
    if scaling == "none":
        return block, None
    scales = np.zeros((X.shape[1] + 1, 5))
    rescale_and_update_sizes(block, scales)
    return apply_scales(block, scales), scales


def choose_passes(
    settings: Settings, X: Matrix, label: Array, weight: Array | None, classes: int, learners: Sequence[Settings] | None = None
) -> PassChoice:
    """Return the settings, with passes, that have the lowest error on held-out rows, and the scales of the features.

    X (n, d) dense or CSR, label (n,) indices, weight (n,)?.   settings  of the winner of a race, in its diagonal form.
    learners  the candidates; None: the winner and pa2 with several C.
    """
    block, scales = prepare_and_scale_rows(settings.scaling, settings.normalize, settings.bias, X, label, weight)
    order = generator(settings.seed, Stream.SHUFFLE, unit=FOLD).permutation(block.rows)
    count = next((folds for rows, folds in FOLDS if block.rows <= rows), 1)
    folds = np.array_split(order, count) if count > 1 else [order[: block.rows // 5]]
    entries = list(learners or _candidate_learners(settings, classes))
    most = min(MOST_PASSES, max(4, WORK // max(1, len(block.value) * (classes if classes > 2 else 1))))
    found = [_best_passes(entry, block, folds, classes, most) for entry in entries]
    best = min(range(len(found)), key=lambda k: (found[k][1], found[k][2], k))
    held = sum(map(len, folds))
    table = RaceResults(
        algorithm=[entry.algorithm for entry in entries],
        C=np.array([entry.C for entry in entries]),
        examples=np.full(len(entries), held),
        error=np.array([error for _, error, _ in found]),
        loss=np.array([loss for _, _, loss in found]),
        multiclass=[entry.multiclass for entry in entries],
    )
    learners = [replace(entry, passes=passes, shuffle=True) for entry, (passes, _, _) in zip(entries, found, strict=True)]
    return PassChoice(learners[best], scales, table, learners, best, count, classes)


def _candidate_learners(settings: Settings, classes: int) -> list[Settings]:
    forms = ("top-1", "one-vs-rest") if classes > 2 else (settings.multiclass,)
    kept = replace(settings, algorithm="pa2", dual=True, loss="squared-hinge", form="project", always_update=False)
    return [settings] + [replace(kept, C=C, multiclass=form) for form in forms for C in WEIGHTS_OF_LOSS]


def _best_passes(
    settings: Settings, block: ExampleBlock, folds: Sequence[Array], classes: int, max_passes: int
) -> tuple[int, float, float]:
    """Return the number of passes with the fewest mistakes on held-out rows, their share, and the mean loss."""
    under_way = [_FoldLearner.from_settings(settings, block, held, number, classes) for number, held in enumerate(folds)]
    best, passes, waited = (1, np.inf, np.inf), 0, 0
    for target in (1 << k for k in range(max_passes.bit_length())):
        for fold in under_way:
            for turn in range(passes, target):
                fold.learn(turn)
        passes = target
        errors, losses = zip(*(fold.heldout_errors_and_losses() for fold in under_way), strict=True)
        error, loss = float(np.mean(np.concatenate(errors))), float(np.mean(np.concatenate(losses)))
        loss = loss if np.isfinite(loss) else float(np.finfo(float).max)
        waited = 0 if (error, loss) < best[1:] else waited + 1
        if not waited:
            best = (passes, error, loss)
        if waited == PATIENCE:
            break
    return best


@dataclass
class _FoldLearner:
    """A learner of all rows but those of a fold."""

    learner: learner.OnlineLearner
    state: LearnerState
    rows: Array
    block: ExampleBlock
    held: ExampleBlock
    number: int

    @staticmethod
    def from_settings(settings: Settings, block: ExampleBlock, heldout: Array, number: int, classes: int) -> _FoldLearner:
        """Return a learner that has learned nothing yet."""
        alone = replace(settings, scaling="none", normalize=False, bias=False, label_noise=0.0)
        one = learner.OnlineLearner(alone, learner.EmptySource(), classes, block.width, rows=block.rows)
        others = np.setdiff1d(np.arange(block.rows), heldout)
        judged = select_rows(block, np.sort(heldout))
        return _FoldLearner(one, one.init(), others, block, mask_examples(judged, np.ones(judged.rows, dtype=bool)), number)

    def learn(self, pass_number: int) -> None:
        """Make one more pass, in its own order."""
        random = generator(self.learner.settings.seed, Stream.SHUFFLE, unit=FOLD + 1 + self.number, step=pass_number)
        with np.errstate(all="ignore"):
            learner.learn_block(self.learner, self.state, select_rows(self.block, random.permutation(self.rows)))

    def heldout_errors_and_losses(self) -> tuple[Array, Array]:
        """Return errors and losses (h,) of the held-out rows."""
        with np.errstate(all="ignore"):
            score, _ = learner.learn_block(self.learner, self.state, self.held)
            return learner.progressive_errors_and_losses(self.learner.settings.task, score, self.held.label)


def select_rows(block: ExampleBlock, rows: Array) -> ExampleBlock:
    """Return some rows of a block, in this order, with their indices in it."""
    lengths = np.diff(block.pointer)[rows]
    pointer = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.arange(pointer[-1]) + np.repeat(block.pointer[rows] - pointer[:-1], lengths)
    weight = None if block.weight is None else block.weight[rows]
    return ExampleBlock(pointer, block.index[entries], block.value[entries], block.label[rows], weight, rows.astype(np.int64))


def choice_messages(choice: PassChoice) -> Iterator[str]:
    """Yield messages about a choice: the winner, and the results of the others."""
    table, held = choice.table, int(choice.table.examples[0])
    folds = f"{choice.folds} folds" if choice.folds > 1 else f"{held} rows"
    names = [learner_name(settings.multiclass, settings.algorithm, settings.dual, choice.classes) for settings in choice.learners]
    lowest = f", the lowest of {len(names)} learners" if len(names) > 1 else ""
    yield (
        f"rows in memory: {names[choice.best]} with C = {choice.settings.C:.4g} and {choice.settings.passes} passes, "
        f"held-out error {table.error[choice.best]:.4f} ({folds}){lowest}"
    )
    for k, (name, settings) in enumerate(zip(names, choice.learners, strict=True)):
        yield f"  {name} C = {settings.C:<10.4g} {settings.passes:>3} passes: error {table.error[k]:.4f}, loss {table.loss[k]:.4f}"


def learner_name(multiclass: str, algorithm: str, dual: bool, classes: int) -> str:
    """Return the name of a learner: its algorithm and, for several classes, its form."""
    form = "against each other class" if dual and multiclass == "top-1" else multiclass
    return f"{algorithm} {form}" if classes > 2 else algorithm
