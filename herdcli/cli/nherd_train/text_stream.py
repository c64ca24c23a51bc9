"""Learning from svmlight and Vowpal Wabbit text as it arrives."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import click
import numpy as np

from herdcli.cli.frame.run.console import write_stdout
from herdcli.cli.frame.run.dry_run import TRIAL_SECONDS
from herdcli.cli.nherd_train.block_cache import CachingReader
from herdcli.cli.nherd_train.learner_choice import choose_learner
from herdcli.cli.nherd_train.reporting_learner import ReportingLearner
from herdcli.cli.nherd_train.row_sources import heldout_rule, require_memory, rows_per_block
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.numerics.freed_memory import release_freed_memory
from herdcli.online.block_sources import AFRESH, MemorySource, TextSource, gather_blocks
from herdcli.online.class_labels import LabelEncoder, NumericTargets
from herdcli.online.learner import OnlineLearner
from herdcli.online.predictions.score_calibration import calibrate_model
from herdcli.online.text.class_names import ClassNameEncoder
from herdcli.online.text.multilabel_text import LabelSetEncoder, LabelSetReader
from herdcli.online.text.quadratic_features import NAMESPACES, missing_namespaces_message
from herdcli.online.text.text_parser import BlockReader

if TYPE_CHECKING:
    from herdcli.cli.frame.rows.labelled_examples import ExampleInput
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.nherd_train.request import Request
    from herdcli.online.learner_state import BlockSource, LabelledBatch, LearnerState
    from herdcli.online.model import Classifier, Settings

AnyLabels = LabelEncoder | NumericTargets | LabelSetEncoder | ClassNameEncoder


def learn_from_text(
    session: Session, example_input: ExampleInput, settings: Settings, request: Request, model: Classifier | None
) -> Classifier:
    """Return the model learned from the examples in text."""
    reader = _text_reader(example_input, request, model)
    settings = request.settings_with_heldout_rule(settings, validated=False)
    labels = _label_parser(settings.task, request, model, named=example_input.named)
    source, classes = _text_source(
        session, example_input, _block_reader(session, example_input, reader, labels, request.cache), labels, settings
    )
    columns = (1 << reader.bits) + 1 if reader.bits else 1
    bounded, covering = _BoundedSource(session, source, classes), request.target_coverage(model)
    learner = ReportingLearner(
        settings, bounded, classes, columns, labels, model, covering, bits=reader.bits, centroids=True, console=session.console
    )
    require_memory(session, learner)
    chosen = choose_learner(session, learner, request, example_input.name)
    learner = chosen.learner
    if session.dry_run and source.steps is None:
        _print_plan(learner, example_input)

    def require_end(state: LearnerState) -> None:
        learner.report_last_pass(state)
        release_freed_memory()  # of blocks of text; the model's weights are copies of the learner's
        if settings.early_stop:
            return
        # If the run had already finished before it was resumed, nothing has been read yet; next_batch then reads the whole input.
        if learner.next_batch(state) is not None:
            raise DataError("has more lines now than when the checkpoint was saved", where=example_input.name, hint=AFRESH)

    fitted = chosen.with_comparison_record(session.run(learner, label="learning", ended=require_end))
    if reader.groups:
        session.console.warn("the qid fields are ignored: herd does not learn rankings, so each line is an example of its own")
    return calibrate_model(_with_reader_options(fitted, reader, example_input.text))


def _block_reader(
    session: Session, example_input: ExampleInput, reader: BlockReader, labels: AnyLabels, cache: str | None
) -> BlockReader | CachingReader:
    """Return the reader adapted to the kind of labels, with a cache if --cache is given."""
    if cache is None:
        return LabelSetReader.from_reader(reader, labels) if isinstance(labels, (LabelSetEncoder, ClassNameEncoder)) else reader
    if isinstance(labels, LabelSetEncoder):
        raise BadUsage("--cache stores one label for each line, but --task multilabel has sets of labels", hint="leave --cache out")
    if isinstance(labels, ClassNameEncoder):
        raise BadUsage("--cache stores labels as numbers, but these are names", hint="leave --cache out")
    return CachingReader(cache, reader, example_input.proof, session.console)


def _with_reader_options(model: Classifier, reader: BlockReader, text: str) -> Classifier:
    """Return the model with the options of its reader, so that other text is read in the same way."""
    model = replace(
        model,
        running=replace(model.running, skipped=reader.skipped),
        bits=reader.bits,
        text=text,
        zero_based=reader.zero_based,
        interactions=None if reader.interactions is None else list(reader.interactions),
    )
    if reader.names is None:
        return model
    order = sorted(reader.names)
    index = np.array([slot - 1 + model.settings.bias for slot in order], dtype=np.int64)
    return replace(model, hash_index=index, hash_names=[reader.names[slot] for slot in order])


def _label_parser(task: str, request: Request, model: Classifier | None, *, named: bool) -> AnyLabels:
    """Return the object that converts the labels of text to numbers."""
    if task == "multilabel":
        declared = request.declared_class_names(model)
        return LabelSetEncoder(declared or (), fixed=declared is not None and model is None, most=request.max_classes)
    if task == "regression":
        return NumericTargets()
    return (ClassNameEncoder if named else LabelEncoder)(request.declared_class_names(model), most=request.max_classes)


def _text_source(
    session: Session, example_input: ExampleInput, reader: BlockReader | CachingReader, labels: AnyLabels, settings: Settings
) -> tuple[BlockSource, int]:
    """Return a source of text as it arrives, or of all text in memory for shuffling, and the number of classes."""
    rows = rows_per_block(settings.kernel, settings.covariance)
    if not settings.shuffle:
        proof = reader.proof if isinstance(reader, CachingReader) else example_input.proof
        text = TextSource(
            example_input.pieces,
            reader,
            labels,
            passes=settings.passes,
            rows=rows,
            proof=proof,
            holdout=heldout_rule(settings.holdout, settings.until_last),
        )
        if not labels.given or isinstance(labels, LabelSetEncoder):
            text.buffer_first_block()  # the first block shows the classes
        return text, _initial_class_count(labels)
    found = list(reader.blocks(example_input.pieces()))
    X, y, weight = gather_blocks(replace(block, label=labels.encode_labels(block.label, example_input.name)) for block in found)
    session.require_memory(X.data.nbytes * 2, "the shuffled text")
    digest, name = example_input.proof(), example_input.name
    passes, seed, held = settings.passes, settings.seed, heldout_rule(settings.holdout, settings.until_last)
    kept = MemorySource(X, y, weight=weight, passes=passes, shuffle=True, seed=seed, rows=rows, proof=digest, where=name, holdout=held)
    return kept, _initial_class_count(labels)


def _initial_class_count(labels: AnyLabels) -> int:
    """Return the number of classes at the start; for numeric targets the number for which there is a single score."""
    return len(labels.names) if isinstance(labels, LabelSetEncoder) else len(labels.names) or 2


def _print_plan(learner: OnlineLearner, example_input: ExampleInput) -> NoReturn:
    """Try the first blocks of a stream, print the rate and, if its length is known, the total time, and end the command."""
    # The number of steps of a stream is not known, but often its number of bytes is.  Errors of this trial are not printed.
    started, state = time.monotonic(), learner.init()
    while not state.done and time.monotonic() - started < TRIAL_SECONDS:
        state = OnlineLearner.step(learner, state)
    seconds = time.monotonic() - started
    rate = f"{state.running[0] / seconds:.3g} examples a second"
    whole = (
        f", about {seconds * learner.settings.passes * example_input.size / example_input.used:.3g} s in all"
        if example_input.size
        else ", length unknown"
    )
    write_stdout(f"learning: {rate}{whole}\n")
    raise click.exceptions.Exit(0)


def _text_reader(example_input: ExampleInput, request: Request, model: Classifier | None) -> BlockReader:
    vw = example_input.text == "vw"
    if model is not None and not model.bits and (vw or model.text != example_input.text):
        learned = f"{model.text} text" if model.text else "a data set"
        raise DataError(f"is {example_input.text} text, but the model was learned from {learned}", where=example_input.name)
    bits = request.hash_bits(example_input.text, model)
    if request.inverse_map and not bits:
        raise BadUsage("--inverse-map needs hashed features", hint="add --bits 18")
    zero_based = model.zero_based if model is not None else request.zero_based
    names: dict[int, str] | None = {} if request.inverse_map else None
    pairs = model.interactions if model is not None else request.namespace_pairs
    if pairs and not vw:
        raise DataError(missing_namespaces_message(pairs), where=example_input.name, hint=NAMESPACES)
    skip = request.skip_bad
    return BlockReader(example_input.name, vw, bits=bits, zero_based=zero_based, skip_bad=skip, names=names, interactions=pairs)


class _BoundedSource:
    """A source that raises an error for an index whose weight table would not fit into memory."""

    def __init__(self, session: Session, source: BlockSource, classes: int) -> None:
        self.session, self.source = session, source
        self.steps = source.steps
        self.count = 1 if classes == 2 else classes
        self.widest = 1 << 16

    def block(self, step: int, expected_digest: bytes = b"") -> LabelledBatch | None:
        batch = self.source.block(step, expected_digest)
        if batch is not None and batch.block.width > self.widest:
            self.widest = batch.block.width
            try:
                self.session.require_memory(16 * self.count * self.widest, f"a table up to index {self.widest - 1}")
            except HerdError as error:
                error.hint = "use --bits 22, which hashes features into a table of 2^22"
                raise
        return batch
