"""The run of `herd nherd-train`: examples in, classifier out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import click
import numpy as np

from herdcli.artifacts.rows.lazy_matrix import LazyMatrix
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows import labelled_examples, responses
from herdcli.cli.frame.rows.column_order import align_dataset
from herdcli.cli.frame.rows.labelled_examples import ClassificationRows, ExampleInput
from herdcli.cli.frame.run.console import Console, write_stdout
from herdcli.cli.frame.run.dry_run import TRIAL_SECONDS
from herdcli.cli.nherd_train import half_life_choice, in_memory
from herdcli.cli.nherd_train.block_cache import CachingReader
from herdcli.cli.nherd_train.row_order import shuffle_if_sorted
from herdcli.errors import BadUsage, DataError, HerdError, NegativeResult
from herdcli.numerics import class_baselines
from herdcli.numerics.block_units import thin_rows
from herdcli.numerics.class_baselines import ClassBaselines
from herdcli.online.block_sources import AFRESH, MemorySource, TextSource, gather_blocks
from herdcli.online.class_labels import LabelEncoder, NumericTargets, look_like_quantities
from herdcli.online.example_blocks import DENSE_ROWS, ExampleBlock, block_from_rows
from herdcli.online.heldout_examples import best_pass
from herdcli.online.learner import OnlineLearner
from herdcli.online.learner_state import BlockSource, LabelledBatch, LearnerState
from herdcli.online.learner_state import HoldoutRule as Held
from herdcli.online.learners import hyperparameter_race
from herdcli.online.model import Classifier, Race, Settings
from herdcli.online.numbers import Predictor
from herdcli.online.predictions import prediction
from herdcli.online.predictions.score_calibration import add_heldout_scores, calibrate_model
from herdcli.online.tags import Tagger
from herdcli.online.text.class_names import ClassNameEncoder
from herdcli.online.text.multilabel_text import LabelSetEncoder, LabelSetReader
from herdcli.online.text.quadratic_features import NAMESPACES, missing_namespaces_message
from herdcli.online.text.text_parser import BlockReader
from herdcli.records import dataclass
from herdcli.splits import TEST, TRAIN, VALID

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.schema import Array

AnyLabels = LabelEncoder | NumericTargets | LabelSetEncoder | ClassNameEncoder
KIND = {"classification": "classifier", "regression": "predictor", "multilabel": "tagger"}  # of artifact that a task makes
STRAINED = 30.0
HELD = 100_000  # validation and test rows whose scores stay with the model
KEPT_WEIGHTS = 1 << 17  # of baselines that stay with the model
STRETCHES = 100  # of rows in a file that baselines are fitted to
TRIAL_ROWS = 100  # of a step of --dry-run, which tries some steps and not all rows


def verify_updates(seed: int) -> None:
    """Print how far the closed forms are from numerical minimisers; NegativeResult if too far."""
    from herdcli.evaluation.table import to_aligned_text
    from herdcli.online.learners import update_verification as check

    rows = check.verification_rows(20, 5, seed)
    write_stdout(to_aligned_text(rows))
    worst = max(float(row[gap] or 0.0) for row in rows for gap in ("mean_gap", "covariance_gap"))
    if not worst <= check.TOLERANCE:
        raise NegativeResult(f"a closed form is {worst:.2g} from the minimiser, more than {check.TOLERANCE:g}")


def base_model(session: Session, request: Request) -> Classifier | None:
    """The model that is gone on with."""
    return session.load(request.model, "model", kinds=set(KIND.values())).value if request.model else None


def learn_stream(session: Session, request: Request, model: Classifier | None) -> None:
    """Learn, and save a `classifier`."""
    task = request.task if model is None else model.settings.task
    outputs.check_artifact(session, KIND[task])
    settings = learning_settings(request, model)
    for option in ("ngrams", "weighting", "keep_case"):
        session.ignored(option, "without --text")
    form, label = request.input_format, request.label
    stays = can_stay_in_file(request, settings)
    with labelled_examples.open_examples(
        session, request.source, role="data", passes=settings.passes, input_format=form, label=label, lazily=stays, task=task
    ) as given:
        try:
            made = _learn_model(session, given, settings, request, model)
        except DataError as error:
            error.where = error.where or given.name
            raise
    save_model(session, made, settings, given.data)


def save_model(session: Session, made: Classifier, settings: Settings, history: Artifact | None) -> None:
    """Save what was learned, and say in the last line what it is."""
    skipped = f", {made.running.skipped} lines skipped" if made.running.skipped else ""
    if made.running.refused:
        session.console.warn(f"the budget of {settings.budget} support vectors refused {made.running.refused} updates")
    summary = f"{made.running.examples} examples, {made.running.updates} updates{_progressive_summary(made)}{skipped}"
    outputs.write_artifact(session, made, summary, history=history)


def _progressive_summary(made: Classifier) -> str:
    """What was found of the examples before they were learned."""
    running = made.running
    if not running.seen:
        return ""
    if isinstance(made, Predictor):
        return f", progressive root mean square {(running.loss / running.seen) ** 0.5:.4g}{_coverage_summary(made)}"
    if isinstance(made, Tagger):
        return f", {made.count} labels, progressive Hamming loss {made.missed / running.seen:.4g}"
    return f", progressive error {running.wrong / running.seen:.4g}{_coverage_summary(made)}"


def _coverage_summary(made: Classifier) -> str:
    """How many of the examples their sets or intervals held, and how large those were."""
    found, numbers = made.coverage, isinstance(made, Predictor)
    if found is None or not found.examples:
        return ""
    size = found.mean_size(numbers=numbers)
    shown = "" if size is None else f", mean width {size:.4g}" if numbers else f", {size:.4g} classes a set"
    return f"; {'intervals' if numbers else 'sets'} hold the truth of {found.reached:.4g} of them ({found.level:g} wanted){shown}"


def can_stay_in_file(request: Request, settings: Settings) -> bool:
    """Whether rows can stay in their file: they are learned by no model that wants its columns in another order."""
    return request.model is None


def learning_settings(request: Request, model: Classifier | None) -> Settings:
    """Settings of the options, or of the model that is continued."""
    return request.settings() if model is None else request.continued(model)


def _learn_model(session: Session, given: ExampleInput, settings: Settings, request: Request, model: Classifier | None) -> Classifier:
    """The classifier of a data set or of text."""
    if given.data is not None:
        return _learn_from_rows(session, task_rows(session, given.data, request, model), settings, request, model, given.name)
    for name in ("only", "positive", "split", "label", "in_order"):
        session.ignored(name, "with text, which is learned as it arrives")
    made = _learn_from_text(session, given, settings, request, model)
    given.finish()
    return made


def task_rows(session: Session, data: Artifact, request: Request, model: Classifier | None) -> ClassificationRows:
    """The task that a data set makes, with columns and classes in the order of the model that is gone on with."""
    if request.pairs and model is None:
        raise DataError(missing_namespaces_message(request.pairs), where=data.name, hint=NAMESPACES)
    if model is not None and not model.bits and not model.text:
        data = align_dataset(session, data, model.feature_names, model.features)
    task = request.task if model is None else model.settings.task
    if task == "regression":
        return responses.numeric_targets(data, label=request.label, split=request.split, seed=request.seed)
    if task == "multilabel":
        names, fixed, label = request.declared(model), model is None, request.label
        return responses.multilabel_targets(
            data, label=label, split=request.split, seed=request.seed, names=names, fixed=fixed, most=request.max_classes
        )
    if model is None and request.classes is None and data.value.y is not None and not data.value.class_names:
        _warn_of_numeric_labels(session, data)
    return labelled_examples.classification_rows(
        data,
        split=request.split,
        seed=request.seed,
        only=request.only,
        positive=request.positive,
        classes=request.classes if model is None else ",".join(model.classes),
        max_classes=request.max_classes,
    )


def _warn_of_numeric_labels(session: Session, data: Artifact) -> None:
    """Say that labels seem to be a quantity."""
    different, rows = np.unique(data.value.y), len(data.value.y)
    if look_like_quantities(different.tolist(), rows):
        session.console.warn(f"the labels are {len(different)} different numbers in {rows} rows: --task regression learns numbers")


def _learn_from_rows(
    session: Session, rows: ClassificationRows, settings: Settings, request: Request, model: Classifier | None, name: str
) -> Classifier:
    columns = rows.X.shape[1]
    if model is not None and (model.bits or model.features != columns):
        had = f"hashes into 2^{model.bits} columns" if model.bits else f"has {model.features} features"
        raise DataError(f"/X has {columns} columns, the model {had}", where=name)
    train = training_mask(session, rows, name)
    rows, settings = shuffle_if_sorted(session, rows, settings, request)
    settings = request.held(settings, validated=bool((rows.split == VALID).any()))
    settings = request.settings_for_columns(settings, columns, session) if model is None else settings
    source = memory_source(session, rows, train, settings)
    covering = request.target_coverage(model)
    learner = ReportingLearner(settings, source, len(rows.names) or 2, columns + 1, rows, model, covering, console=session.console)
    _require_memory(session, learner)
    learner, table = race_hyperparameters(session, learner, request)
    fits = request.in_memory and not session.dry_run and in_memory.fits_in_memory(source)
    learner = learner if fits else choose_full_covariance(session, learner, request)
    drift = half_life_choice.find_half_life(session, learner, request)
    if not fits:
        learner, drift = half_life_choice.first_order(session, learner, request, drift)
    else:
        choice, passes = in_memory.choose_passes(session, learner, source, rows, request)
        if half_life_choice.drift_beats_passes(session, drift, choice):
            learner = replace(learner, settings=choice.settings, source=passes, scales=choice.scales, rows=len(source.label), chosen=True)
            table, drift = choice.table, None
    learner = half_life_choice.learner_with_half_life(session, learner, drift)
    made = session.run(learner, label="learning", ended=learner.report_last_pass)
    names = (model and model.feature_names) or rows.feature_names
    made = replace(made, feature_names=names, race=table, forgetting=None if drift is None else drift.kept)
    return calibrate_model(with_heldout_scores(made, rows))


def training_mask(session: Session, rows: ClassificationRows, name: str) -> Array:
    """Which rows (n,) bool are learned from, with warnings for options of text."""
    for option in ("bits", "zero_based", "skip_bad", "inverse_map", "cache"):
        session.ignored(option, "with a data set")
    train: Array = rows.split == 0
    if not train.any():
        raise DataError("the training part has no rows", where=name, hint="--split .8,.1,.1 draws a new split")
    return train


def memory_source(session: Session, rows: ClassificationRows, chosen: Array, settings: Settings) -> MemorySource:
    """Some of the rows as a source: (n,) bool or their numbers."""
    return MemorySource(
        rows.X.taken(chosen) if isinstance(rows.X, LazyMatrix) else rows.X[chosen],
        rows.y[chosen],
        weight=None if rows.weight is None else rows.weight[chosen],
        passes=settings.passes,
        shuffle=settings.shuffle,
        seed=settings.seed,
        rows=min(TRIAL_ROWS, rows_per_block(settings)) if session.dry_run else rows_per_block(settings),
        holdout=heldout_rule(settings),
    )


def heldout_rule(settings: Settings) -> Held:
    """Which examples are held out, as a source takes it."""
    return Held(settings.holdout, settings.until_last)


@dataclass(frozen=True, kw_only=True)
class ReportingLearner(OnlineLearner):
    """A learner that says its figures at powers of two.  chosen  C has won a race: how strong it is needs no warning."""

    console: Console
    chosen: bool = False

    def step(self, state: LearnerState) -> LearnerState:
        """Learn one block, and say what it has come to."""
        begin, told = state.running[0], state.trace.shape[1]
        passes = _pass_count(state)
        state = super().step(state)
        if begin == 0 and not self.chosen and state.tally[5] > STRAINED and self.settings.algorithm == "nherd":
            strain = f"C·x'Σx reaches {state.tally[5]:.3g} on the first examples"
            self.console.warn(f"{strain}: variances shrink to almost 0 at once; use --C auto, --scale online or --normalize l2")
        for seen, error, loss in state.trace[:, told:].T.tolist():
            self.console.note(f"{int(seen):>10} examples: error {error:.4f}, loss {loss:.4f}")
        if (passes and _pass_count(state) > passes) or state.done:
            self._report_pass(state, passes - 1)
        return state

    def report_last_pass(self, state: LearnerState) -> None:
        """Say what the last pass made of the examples held out, where no step has, and which pass's weights are kept."""
        if self.source.steps is not None and not state.done:
            self._report_pass(state, _pass_count(state) - 1)
        if self.settings.early_stop and state.passes is not None:
            self.console.note(f"the weights are those of pass {best_pass(state) + 1}")

    def _report_pass(self, state: LearnerState, number: int) -> None:
        """Say what a pass made of the examples held out."""
        if state.passes is not None and number >= 0:
            count, wrong, loss = state.passes[:, number].tolist()
            figures = f"error {wrong / count:.4f}, loss {loss / count:.4f}" if count else "none"
            self.console.note(f"    pass {number + 1:>2}, {int(count)} held-out examples: {figures}")


def _pass_count(state: LearnerState) -> int:
    """Passes that have begun with examples held out."""
    return 0 if state.passes is None else int(state.passes.shape[1])


def race_hyperparameters(
    session: Session, learner: ReportingLearner, request: Request, name: str = ""
) -> tuple[ReportingLearner, Race | None]:
    """The learner with the algorithm and C that a race over its first examples chose, if there is to be one."""
    if not request.racers:
        return learner, None
    replay = hyperparameter_race.ReplaySource(learner.source, name)
    least_squares = learner.settings.task == "regression" and learner.settings.covariance == "full" and request.algorithm == "auto"
    racers = ("arow",) if least_squares else request.racers
    settings, table = hyperparameter_race.run_race(
        learner.settings, replay.first(hyperparameter_race.EXAMPLES), learner.classes, racers, request.forms
    )
    first, *others = hyperparameter_race.race_messages(settings, table)
    session.console.note(first)
    for line in others:
        session.console.detail(line)
    return replace(learner, settings=settings, source=replay, chosen=True), table


def choose_full_covariance(session: Session, learner: ReportingLearner, request: Request) -> ReportingLearner:
    """The learner with a full covariance where that makes fewer mistakes on the first examples."""
    if (
        not request.races_full_covariance(frozenset(session.given))
        or session.dry_run
        or not isinstance(learner.source, hyperparameter_race.ReplaySource)
    ):
        return learner
    if learner.features > hyperparameter_race.FULL:  # as hashed text has: a covariance is of all columns, however few of them are met
        return learner
    found = hyperparameter_race.with_full_covariance(learner.settings, learner.source.first(hyperparameter_race.EXAMPLES), learner.classes)
    if found is None:
        return learner
    settings, error, diagonal = found
    what = f"arow with a full covariance has an error of {error:.4g} in the second half of the first examples, and {diagonal:.4g} without"
    session.console.note(f"{what}; --covariance diagonal is without")
    return replace(learner, settings=settings)


def rows_per_block(settings: Settings) -> int:
    """Rows of a learner's block."""
    return DENSE_ROWS if settings.kernel != "none" or settings.covariance == "full" else 10_000


def _require_memory(session: Session, learner: OnlineLearner) -> None:
    """Refuse a learner whose weights would not fit, before anything is raced on."""
    what = f"a full covariance of {learner.wide} weights" if learner.wide else f"a table of {learner.features} features"
    session.require_memory(learner.memory(), what)


def _learn_from_text(session: Session, given: ExampleInput, settings: Settings, request: Request, model: Classifier | None) -> Classifier:
    reader = _text_reader(given, request, model)
    settings = request.held(settings, validated=False)
    labels = _label_parser(settings.task, request, model, named=given.named)
    kept: BlockReader | CachingReader = (
        LabelSetReader.of(reader, labels) if isinstance(labels, (LabelSetEncoder, ClassNameEncoder)) else reader
    )
    if request.cache is not None:
        if isinstance(labels, LabelSetEncoder):
            raise BadUsage("--cache stores one label for each line, but --task multilabel has sets of labels", hint="leave --cache out")
        if isinstance(labels, ClassNameEncoder):
            raise BadUsage("--cache stores labels as numbers, but these are names", hint="leave --cache out")
        kept = CachingReader(request.cache, reader, given.proof, session.console)
    source, classes = _text_source(session, given, kept, labels, settings)
    columns = (1 << reader.bits) + 1 if reader.bits else 1
    bounded, covering = _BoundedSource(session, source, classes), request.target_coverage(model)
    learner = ReportingLearner(settings, bounded, classes, columns, labels, model, covering, bits=reader.bits, console=session.console)
    _require_memory(session, learner)
    learner, table = race_hyperparameters(session, learner, request, given.name)
    learner = choose_full_covariance(session, learner, request)
    drift = half_life_choice.find_half_life(session, learner, request)
    learner, drift = half_life_choice.first_order(session, learner, request, drift)
    learner = half_life_choice.learner_with_half_life(session, learner, drift)
    if session.dry_run and source.steps is None:
        _print_plan(learner, given)

    def require_end(state: LearnerState) -> None:
        learner.report_last_pass(state)
        if settings.early_stop:
            return
        if learner.next_batch(state) is not None:  # a finished run that was resumed has read nothing: this reads all
            raise DataError("has more lines than when the run of the checkpoint ended", where=given.name, hint=AFRESH)

    made = session.run(learner, label="learning", ended=require_end)
    if reader.groups:
        session.console.warn("qid: is ignored because herd does not learn rankings; each line is learned by itself")
    running = replace(made.running, skipped=reader.skipped)
    made = replace(made, forgetting=None if drift is None else drift.kept)
    made = replace(made, running=running, race=table, bits=reader.bits, text=given.text, zero_based=reader.zero_based)
    made = replace(made, interactions=None if reader.interactions is None else list(reader.interactions))
    if reader.names is not None:
        order = sorted(reader.names)
        index = np.array([slot - 1 + settings.bias for slot in order], dtype=np.int64)
        made = replace(made, hash_index=index, hash_names=[reader.names[slot] for slot in order])
    return calibrate_model(made)


def _label_parser(task: str, request: Request, model: Classifier | None, *, named: bool) -> AnyLabels:
    """What the labels of text are turned into."""
    if task == "multilabel":
        declared = request.declared(model)
        return LabelSetEncoder(declared or (), fixed=declared is not None and model is None, most=request.max_classes)
    if task == "regression":
        return NumericTargets()
    return (ClassNameEncoder if named else LabelEncoder)(request.declared(model), most=request.max_classes)


def _text_source(
    session: Session, given: ExampleInput, reader: BlockReader | CachingReader, labels: AnyLabels, settings: Settings
) -> tuple[BlockSource, int]:
    """Text as it arrives, or all of it to be shuffled; and how many classes it has."""
    rows = rows_per_block(settings)
    if not settings.shuffle:
        proof = reader.proof if isinstance(reader, CachingReader) else given.proof
        text = TextSource(given.pieces, reader, labels, passes=settings.passes, rows=rows, proof=proof, holdout=heldout_rule(settings))
        if not labels.given or isinstance(labels, LabelSetEncoder):
            text.keep_first()  # it shows the classes
        return text, _initial_class_count(labels)
    found = list(reader.blocks(given.pieces()))
    X, y, weight = gather_blocks(replace(block, label=labels.indices(block.label, given.name)) for block in found)
    session.require_memory(X.data.nbytes * 2, "the shuffled text")
    digest, name = given.proof(), given.name
    passes, seed, held = settings.passes, settings.seed, heldout_rule(settings)
    kept = MemorySource(X, y, weight=weight, passes=passes, shuffle=True, seed=seed, rows=rows, proof=digest, where=name, holdout=held)
    return kept, _initial_class_count(labels)


def _initial_class_count(labels: AnyLabels) -> int:
    """How many classes a learner begins with; of numbers as many as have one score."""
    return len(labels.names) if isinstance(labels, LabelSetEncoder) else len(labels.names) or 2


def _print_plan(learner: OnlineLearner, given: ExampleInput) -> NoReturn:
    """Try the first blocks of a stream, say what the whole would take where its length is known, and end the command."""
    # a stream has no bound of steps, but often one of bytes; the figures of this trial are not told
    started, state = time.monotonic(), learner.init()
    while not state.done and time.monotonic() - started < TRIAL_SECONDS:
        state = OnlineLearner.step(learner, state)
    seconds = time.monotonic() - started
    rate = f"{state.running[0] / seconds:.3g} examples a second"
    whole = f", about {seconds * learner.settings.passes * given.size / given.used:.3g} s in all" if given.size else ", length unknown"
    write_stdout(f"learning: {rate}{whole}\n")
    raise click.exceptions.Exit(0)


def _text_reader(given: ExampleInput, request: Request, model: Classifier | None) -> BlockReader:
    vw = given.text == "vw"
    if model is not None and not model.bits and (vw or model.text != given.text):
        learned = f"{model.text} text" if model.text else "a data set"
        raise DataError(f"is {given.text} text, but the model was learned from {learned}", where=given.name)
    bits = request.hash_bits(given.text, model)
    if request.inverse_map and not bits:
        raise BadUsage("--inverse-map needs hashed features", hint="add --bits 18")
    zero_based = model.zero_based if model is not None else request.zero_based
    names: dict[int, str] | None = {} if request.inverse_map else None
    pairs = model.interactions if model is not None else request.pairs
    if pairs and not vw:
        raise DataError(missing_namespaces_message(pairs), where=given.name, hint=NAMESPACES)
    skip = request.skip_bad
    return BlockReader(given.name, vw, bits=bits, zero_based=zero_based, skip_bad=skip, names=names, interactions=pairs)


class _BoundedSource:
    """A source that refuses an index whose table would not fit into memory."""

    def __init__(self, session: Session, source: BlockSource, classes: int) -> None:
        self.session, self.source = session, source
        self.steps = source.steps
        self.count = 1 if classes == 2 else classes
        self.widest = 1 << 16

    def block(self, step: int, proof: bytes = b"") -> LabelledBatch | None:
        batch = self.source.block(step, proof)
        if batch is not None and batch.block.width > self.widest:
            self.widest = batch.block.width
            try:
                self.session.require_memory(16 * self.count * self.widest, f"a table up to index {self.widest - 1}")
            except HerdError as error:
                error.hint = "--bits 22 hashes features into a table of 2^22"
                raise
        return batch


def heldout_sample(rows: ClassificationRows) -> Array:
    """The validation and test rows (h,) that judge a model, evenly spread over more than 100,000."""
    held = np.flatnonzero(np.isin(rows.split, (VALID, TEST)))
    return held if len(held) <= HELD else held[np.arange(HELD) * len(held) // HELD]


def with_heldout_scores(model: Classifier, rows: ClassificationRows) -> Classifier:
    """Baselines of the training rows, and scores of validation and test rows, in the artifact.

    Progressive scores stay, to calibrate, where there is no validation row.
    """
    baselines, held, predictions = fit_baselines(model, rows), heldout_sample(rows), None
    if baselines is not None and baselines.centroid.size <= KEPT_WEIGHTS:
        model = replace(model, baselines=baselines)
    if not len(held):
        return model
    scores = [score(block) for score in [prediction.make_scorer(model)] for block in _heldout_blocks(rows, held)]
    score, variance = (np.concatenate(parts) for parts in zip(*scores, strict=True))
    if baselines is not None:
        parts = [held[start : start + DENSE_ROWS] for start in range(0, len(held), DENSE_ROWS)]
        predictions = np.concatenate([baselines.predictions(rows.X[part]) for part in parts])
    return add_heldout_scores(model, score, variance, rows.y[held], rows.split[held].astype(np.uint8), predictions)


def fit_baselines(model: Classifier, rows: ClassificationRows) -> ClassBaselines | None:
    """The nearest centroid and a ridge classifier of at most 10,000 training rows, evenly spread; of rows in a file, a few stretches."""
    if model.settings.task != "classification" or not (rows.split == TRAIN).any():
        return None
    if isinstance(rows.X, LazyMatrix):
        starts = np.arange(STRETCHES) * len(rows.split) // STRETCHES
        near = np.unique(starts[:, None] + np.arange(class_baselines.MOST_ROWS // STRETCHES))
        chosen = near[(near < len(rows.split)) & (rows.split[np.minimum(near, len(rows.split) - 1)] == TRAIN)]
    else:
        chosen = thin_rows(rows.split == TRAIN, class_baselines.MOST_ROWS)
    weight = None if rows.weight is None else rows.weight[chosen]
    return class_baselines.fit(rows.X[chosen], rows.y[chosen], len(rows.names), weight)


def _heldout_blocks(rows: ClassificationRows, held: Array) -> Iterator[ExampleBlock]:
    for start in range(0, len(held), DENSE_ROWS):
        yield block_from_rows(rows.X, rows.y, held[start : start + DENSE_ROWS])
