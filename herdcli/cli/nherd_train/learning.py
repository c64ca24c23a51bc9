"""The run of `herd nherd-train`: examples in, classifier out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, NoReturn

import click
import numpy as np

from herdcli.cli.frame.columns import by_name
from herdcli.cli.frame.console import write_stdout
from herdcli.cli.frame.session import TRIAL_SECONDS, Session
from herdcli.cli.nherd_train import examples
from herdcli.cli.nherd_train.examples import Examples, Rows
from herdcli.errors import BadUsage, DataError, HerdError, NegativeResult
from herdcli.online import learner, predict, race
from herdcli.online.blocks import Block, from_rows
from herdcli.online.labels import Labels
from herdcli.online.model import BY_CONFIDENCE, FIRST_ORDER, WITH_LOSS, Classifier, Holdout, Race, Settings
from herdcli.online.parse import Reader
from herdcli.online.source import AFRESH, DENSE_ROWS, Memory, Text, gathered

VALID, TEST = 1, 2
WITHOUT_C = ("pa", "perceptron", "cw")
MANY_STEPS = 1 << 62
STRAINED = 30.0
TRIAL_ROWS = 100  # of a step of --dry-run, which tries some steps and not all rows
TAKEN_FROM_MODEL = (
    "algorithm covariance form loss C confidence multiclass normalize scaling bias "
    "always_update kernel width degree budget bits zero_based classes"
)


def verify(session: Session, seed: int) -> None:
    """Print how far the closed forms are from numerical minimisers; NegativeResult if too far."""
    from herdcli.evaluation.table import aligned
    from herdcli.online import verify as check

    rows = check.check(20, 5, seed)
    write_stdout(aligned(rows))
    worst = max(float(row[gap] or 0.0) for row in rows for gap in ("mean_gap", "covariance_gap"))
    if not worst <= check.TOLERANCE:
        raise NegativeResult(f"a closed form is {worst:.2g} from the minimiser, more than {check.TOLERANCE:g}")


def train(session: Session, path: str, options: dict[str, Any]) -> None:
    """Learn and save."""
    session.check_output("classifier")
    model = session.load(options["model"], "model", kinds={"classifier"}).value if options["model"] else None
    settings = _settings(session, options, model)
    passes, form = settings.passes, options["input_format"]
    with examples.opened(session, path, role="data", passes=passes, input_format=form, label=options["label"]) as given:
        try:
            made, history = _learn(session, given, settings, options, model)
        except DataError as error:
            error.where = error.where or given.name
            raise
    skipped = f", {made.running.skipped} lines skipped" if made.running.skipped else ""
    if made.running.refused:
        session.console.warn(f"the budget of {settings.budget} support vectors refused {made.running.refused} updates")
    judged = f", progressive error {made.running.wrong / made.running.seen:.4g}" if made.running.seen else ""
    session.save(made, f"{made.running.examples} examples, {made.running.updates} updates{judged}{skipped}", history=history)


def _settings(session: Session, options: dict[str, Any], model: Classifier | None) -> Settings:
    """Settings of the options, or of the model that is continued, with warnings for options that do nothing."""
    if model is not None:
        for name in TAKEN_FROM_MODEL.split():
            if name == "bits" and options["bits"] not in (None, model.bits):
                raise DataError(f"hashes into 2^{model.bits} columns, --bits asks for 2^{options['bits']}", where=options["model"])
            session.ignored(name, "with --continue: the model decides")
        run = {name: options[name] for name in ("passes", "shuffle", "label_noise", "seed")}
        return replace(model.settings, **run)
    algorithm, kernel = options["algorithm"], options["kernel"]
    if options["form"] == "exact" and algorithm in BY_CONFIDENCE:
        raise BadUsage(f"--form exact has no closed form with --algorithm {algorithm}", hint="its diagonal forms are project and drop")
    if kernel != "none" and (options["covariance"] == "diagonal" and "covariance" in session.given):
        raise BadUsage("--kernel needs the full form", hint="drop --covariance diagonal")
    if kernel != "none" and options["multiclass"] == "top-1" and "multiclass" in session.given:
        raise BadUsage("--kernel learns each class against the rest", hint="drop --multiclass top-1")
    _warn_of_idle_options(session, options)
    chosen = {field.name: options[field.name] for field in fields(Settings) if options.get(field.name) is not None}
    chosen["normalize"] = options["normalize"] == "l2"
    chosen["C"] = 0.0 if isinstance(options["C"], str) else options["C"]
    chosen["algorithm"] = "nherd" if options["algorithm"] == "auto" else options["algorithm"]
    linear = kernel == "none"
    chosen["bias"] = linear if options["bias"] is None else options["bias"]
    chosen["scaling"] = options["scaling"] or ("online" if linear else "none")
    if kernel != "none":
        chosen |= {"covariance": "full", "multiclass": "one-vs-rest"}
    return Settings(**chosen)


def _racers(options: dict[str, Any], model: Classifier | None) -> tuple[str, ...]:
    """The algorithms that race for the best C; none where C is given, or has no meaning."""
    algorithm = options["algorithm"]
    if model is not None or options["C"] != "auto" or options["kernel"] != "none" or algorithm in WITHOUT_C:
        return ()
    return ("nherd", "arow") if algorithm == "auto" else (algorithm,)


def _raced(session: Session, problem: learner.Problem, racers: tuple[str, ...], name: str = "") -> tuple[learner.Problem, Race | None]:
    """The problem with the algorithm and C that a race over its first examples chose, if there is to be one."""
    if not racers:
        return problem, None
    replay = race.Replay(problem.source, name)
    settings, table = race.race(problem.settings, replay.first(race.EXAMPLES), problem.classes, racers)
    first, *others = race.told(settings, table)
    session.console.note(first)
    for line in others:
        session.console.detail(line)
    return replace(problem, settings=settings, source=replay), table


def _warn_of_idle_options(session: Session, options: dict[str, Any]) -> None:
    algorithm = "nherd" if options["algorithm"] == "auto" else options["algorithm"]
    if algorithm not in WITH_LOSS:
        session.ignored("loss", f"with --algorithm {algorithm}")
    if algorithm not in WITH_LOSS | {"sop"}:
        session.ignored("always_update", f"with --algorithm {algorithm}")
    if algorithm not in BY_CONFIDENCE:
        session.ignored("confidence", f"with --algorithm {algorithm}")
    if algorithm in WITHOUT_C:
        session.ignored("C", f"with --algorithm {algorithm}")
    if algorithm in FIRST_ORDER:
        session.ignored("form", f"with --algorithm {algorithm}, which has no covariance")
    elif options["covariance"] == "full" or options["kernel"] != "none":
        session.ignored("form", "with a full covariance")
    if options["kernel"] == "none":
        session.ignored("budget", "without --kernel")
    if options["kernel"] != "gaussian":
        session.ignored("width", "without --kernel gaussian")
    if options["kernel"] != "polynomial":
        session.ignored("degree", "without --kernel polynomial")


def _learn(session: Session, given: Examples, settings: Settings, options: dict[str, Any], model: Classifier | None) -> tuple[Any, Any]:
    """The classifier, and the data set whose history it continues (none for text)."""
    if given.data is not None:
        known = given.data
        if model is not None and not model.bits and not model.text:
            known = by_name(session, known, model.feature_names, model.features)
        rows = examples.classification(
            known,
            **{name: options[name] for name in ("split", "seed", "only", "positive", "max_classes")},
            classes=_classes(options, model),
        )
        return _from_rows(session, rows, settings, model, given.name, _racers(options, model)), given.data
    for name in ("only", "positive", "split", "label"):
        session.ignored(name, "with text, which is learned as it arrives")
    made = _from_text(session, given, settings, options, model)
    given.finish()
    return made, None


def _classes(options: dict[str, Any], model: Classifier | None) -> str | None:
    return options["classes"] if model is None else ",".join(model.classes)


def _from_rows(
    session: Session, rows: Rows, settings: Settings, model: Classifier | None, name: str, racers: tuple[str, ...]
) -> Classifier:
    for option in ("bits", "zero_based", "skip_bad", "inverse_map"):
        session.ignored(option, "with a data set")
    columns = rows.X.shape[1]
    if model is not None and (model.bits or model.features != columns):
        had = f"hashes into 2^{model.bits} columns" if model.bits else f"has {model.features} features"
        raise DataError(f"/X has {columns} columns, the model {had}", where=name)
    train = rows.split == 0
    if not train.any():
        raise DataError("no row is in the training part", where=name, hint="--split .8,.1,.1 draws parts anew")
    if not settings.shuffle and _class_by_class(rows.y[train]):
        session.console.warn("the rows come class by class, which spoils learning in their order: --shuffle mixes them")
    weight = None if rows.weight is None else rows.weight[train]
    source = Memory(
        rows.X[train],
        rows.y[train],
        weight=weight,
        passes=settings.passes,
        shuffle=settings.shuffle,
        seed=settings.seed,
        rows=min(TRIAL_ROWS, _block_rows(settings)) if session.dry_run else _block_rows(settings),
    )
    problem = learner.Problem(settings, source, len(rows.names), columns + 1)
    _require_memory(session, problem, columns)
    problem, table = _raced(session, problem, racers)
    state = _run(session, problem, model, steps=source.steps)
    names = (model and model.feature_names) or rows.feature_names
    made = replace(learner.classifier(problem, state, rows.names), feature_names=names, race=table)
    return _with_holdout(made, rows)


def _class_by_class(y: Any) -> bool:
    """Do the labels change far less often than they would in a mixed order?"""
    changes = np.count_nonzero(np.diff(y))
    return bool(changes * 10 < len(y) * (1 - np.sum((np.bincount(y) / len(y)) ** 2)))


def _block_rows(settings: Settings) -> int:
    return DENSE_ROWS if settings.kernel != "none" or settings.covariance == "full" else 10_000


def _require_memory(session: Session, problem: learner.Problem, columns: int) -> None:
    width = columns * (problem.count if problem.top else 1)
    if problem.settings.kernel == "none" and problem.settings.covariance == "full":
        session.require_memory(8 * width * width * (1 if problem.top else problem.count), f"a full covariance of {width} weights")
    else:
        session.require_memory(16 * columns * problem.count, f"a table of {columns} features")


def _run(session: Session, problem: learner.Problem, model: Classifier | None, *, steps: int | None) -> learner.State:
    """Learn to the end, telling the running figures at powers of two."""

    def step(state: learner.State) -> learner.State:
        begin, told = state.running[0], state.trace.shape[1]
        state = learner.step(problem, state)
        if begin == 0 and state.tally[5] > STRAINED and problem.settings.algorithm == "nherd":
            strain = f"C·x'Σx reaches {state.tally[5]:.3g} on the first examples"
            session.console.warn(f"{strain}: variances collapse at once; use --C auto, --scale online or --normalize l2")
        for examples_seen, error, loss in state.trace[:, told:].T.tolist():
            session.console.note(f"{int(examples_seen):>10} examples: error {error:.4f}, loss {loss:.4f}")
        return state

    def begin() -> learner.State:
        return learner.init(problem, model)

    if steps is not None:
        return session.iterate(step, begin, steps=steps, label="learning")
    return session.iterate(step, begin, steps=MANY_STEPS, label="learning", until=lambda state: state.done)


def _from_text(session: Session, given: Examples, settings: Settings, options: dict[str, Any], model: Classifier | None) -> Classifier:
    reader = _reader(given, options, model)
    declared = model.classes if model is not None else options["classes"].split(",") if options["classes"] else None
    labels = Labels(declared, options["max_classes"])
    rows = _block_rows(settings)
    if settings.shuffle:
        X, y, weight = gathered(reader.blocks(given.pieces()))
        session.require_memory(X.data.nbytes * 2, "the shuffled text")
        y = labels.indices(y, given.name)
        source: Any = Memory(
            X,
            y,
            weight=weight,
            passes=settings.passes,
            shuffle=True,
            seed=settings.seed,
            rows=rows,
            proof=given.proof(),
            where=given.name,
        )
        steps: int | None = source.steps
        classes = len(labels.names)
    else:
        source, steps = Text(given.pieces, reader, labels, passes=settings.passes, rows=rows, proof=given.proof), None
        classes = len(labels.names) if labels.given else _peek(source, labels)
    problem = learner.Problem(settings, _Bounded(session, source, classes), classes, (1 << reader.bits) + 1 if reader.bits else 1)
    _require_memory(session, problem, 1 << reader.bits if reader.bits else 1)
    problem, table = _raced(session, problem, _racers(options, model), given.name)
    if session.dry_run and steps is None:
        _print_plan(problem, given)
    state = _run(session, problem, model, steps=steps)
    if learner.next_batch(problem, state) is not None:  # a finished run that was resumed has read nothing: this reads all
        raise DataError("goes on where the checkpoint's run had ended", where=given.name, hint=AFRESH)
    made = learner.classifier(problem, state, labels.names, skipped=reader.skipped)
    made = replace(made, race=table, bits=reader.bits, text=given.text, zero_based=reader.zero_based)
    if reader.names is not None:
        order = sorted(reader.names)
        index = np.array([slot - 1 + settings.bias for slot in order], dtype=np.int64)
        made = replace(made, hash_index=index, hash_names=[reader.names[slot] for slot in order])
    return predict.calibrated(made)


def _print_plan(problem: learner.Problem, given: Examples) -> NoReturn:
    """Try the first blocks of a stream, say what the whole would take where its length is known, and end the command."""
    started, state = time.monotonic(), learner.init(problem)
    while not state.done and time.monotonic() - started < TRIAL_SECONDS:
        state = learner.step(problem, state)
    seconds = time.monotonic() - started
    rate = f"{state.running[0] / seconds:.3g} examples a second"
    whole = f", about {seconds * problem.settings.passes * given.size / given.used:.3g} s in all" if given.size else ", length unknown"
    write_stdout(f"learning: {rate}{whole}\n")
    raise click.exceptions.Exit(0)


def _reader(given: Examples, options: dict[str, Any], model: Classifier | None) -> Reader:
    vw = given.text == "vw"
    if model is not None and not model.bits and (vw or model.text != given.text):
        learned = f"{model.text} text" if model.text else "a data set"
        raise DataError(f"is {given.text} text, the model was learned from {learned}", where=given.name)
    bits = model.bits if model is not None else options["bits"] or (18 if vw else 0)
    zero_based = model.zero_based if model is not None else options["zero_based"]
    names: dict[int, str] | None = {} if options["inverse_map"] else None
    if options["inverse_map"] and not bits:
        raise BadUsage("--inverse-map needs hashed features", hint="add --bits 18")
    return Reader(given.name, vw, bits=bits, zero_based=zero_based, skip_bad=options["skip_bad"], names=names)


def _peek(source: Text, labels: Labels) -> int:
    """How many classes the first block shows; it is kept for the first step."""
    source.keep_first()
    return len(labels.names)


class _Bounded:
    """A source that refuses an index whose table would not fit into memory."""

    def __init__(self, session: Session, source: Any, classes: int) -> None:
        self.session, self.source = session, source
        self.count = 1 if classes == 2 else classes
        self.widest = 1 << 16

    def block(self, step: int, proof: bytes = b"") -> learner.Batch | None:
        batch: learner.Batch | None = self.source.block(step, proof)
        if batch is not None and batch.block.width > self.widest:
            self.widest = batch.block.width
            try:
                self.session.require_memory(16 * self.count * self.widest, f"a table up to index {self.widest - 1}")
            except HerdError as error:
                error.hint = "--bits 22 hashes features into a table of 2^22"
                raise
        return batch


def _with_holdout(model: Classifier, rows: Rows) -> Classifier:
    """Scores of validation and test rows in the artifact; progressive ones calibrate where there is no validation row."""
    held = np.flatnonzero(np.isin(rows.split, (VALID, TEST)))
    if not len(held):
        return predict.calibrated(model)
    scores = [score(block) for score in [predict.scorer(model)] for block in _blocks(rows, held)]
    part = Holdout(
        np.concatenate([one for one, _ in scores]),
        np.concatenate([two for _, two in scores]),
        rows.y[held],
        rows.split[held].astype(np.uint8),
    )
    if not (part.split == VALID).any() and model.holdout is not None:
        kept = model.holdout
        part = Holdout(*(np.concatenate([getattr(kept, f.name), getattr(part, f.name)]) for f in fields(Holdout)))
    return predict.calibrated(replace(model, holdout=part))


def _blocks(rows: Rows, held: Any) -> Iterator[Block]:
    for start in range(0, len(held), DENSE_ROWS):
        yield from_rows(rows.X, rows.y, held[start : start + DENSE_ROWS])
