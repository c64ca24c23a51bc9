"""One run of one command: its files, threads, checkpoint and record, so that commands only declare and call."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from herdcli import artifacts, iterate
from herdcli.artifacts import Artifact, cpp_termination, file_locks, memory_budget, process_limits
from herdcli.artifacts.atomic_output import check_destination
from herdcli.artifacts.byte_sources import Source, open_source
from herdcli.artifacts.dataset import Dataset, check_magnitudes
from herdcli.artifacts.message_numbers import format_size
from herdcli.artifacts.rows import row_ranges
from herdcli.artifacts.sealed import provenance
from herdcli.artifacts.tables import dataset_preparation
from herdcli.artifacts.tables.column_roles import (
    LABELS,
    ROLES,
    ColumnRoles,
    ColumnUse,
    describe_use,
    model_target,
    role_warning,
    with_column_names,
)
from herdcli.artifacts.tables.dataset_preparation import SplitRule
from herdcli.cli.frame.history.request import recorded_options
from herdcli.cli.frame.options.declaration import declarations, typed_name
from herdcli.cli.frame.options.session_options import SessionOptions
from herdcli.cli.frame.run import dry_run, resume_errors
from herdcli.cli.frame.run.console import Console
from herdcli.dialect import PLAIN, TextDialect, use_dialect
from herdcli.errors import UNRECKONABLE, BadUsage, DataError, HerdError, Interrupted, NoRoom, Unavailable
from herdcli.records import dataclass
from herdcli.shards import ShardPlace

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from _typeshed import DataclassInstance

    from herdcli.algorithm import Algorithm
    from herdcli.artifacts.load_save import Prepare
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cluster.cluster_spec import ClusterOptions
    from herdcli.schema import Array

S = TypeVar("S", bound=iterate.HasStep)
R = TypeVar("R")
H = TypeVar("H")
OF_NUMBERS = ("regression", "perceptron", "predictor", "tagger")  # kinds whose targets are no labels
SELECTED = ("data", "evidence")  # roles of inputs whose columns the options are about
COLUMN_OPTIONS = ("read_columns", "drop_columns", "split_column", "weights_column")
SAVE_HINT = "with --checkpoint FILE the run would have been saved, and the same line with --resume would continue it"


def _initializer(exact: bool) -> Callable[[], None] | None:
    """What a worker does first: its arithmetic is that of the command."""
    if not exact:
        return None
    from herdcli.numerics import exact_arithmetic

    return partial(exact_arithmetic.set_exact, exact)


@dataclass
class Session:
    """What every command shares.  `given` are the options that the user typed; `request` what was asked, whose record is the stage's."""

    command: str
    console: Console
    request: DataclassInstance
    given: set[str]
    output: str
    clobber: bool
    threads: int
    max_memory: int | None
    checkpoint: str | None
    every: int | None
    resume: bool
    dry_run: bool
    inputs: dict[str, Artifact] = field(default_factory=dict)
    lock: str | None = None
    shard: ShardPlace | None = None
    cluster: ClusterOptions | None = None  # workers that its units or blocks are dealt to
    dealt: list[object] | None = None  # what all units made, where workers did them
    told: list[str] = field(default_factory=list)  # warnings of the workers
    spooled: str | None = None  # the file that stdin was put into, for workers to read
    missing: str | None = None  # what to do with rows that have gaps: drop, mean
    categorical: str | None = None  # columns of text as one-hot numbers: auto, none; None: the command has no such option
    layer: str | None = None  # of AnnData files
    read_columns: tuple[str, ...] = ()  # names, patterns, ranges and places of the columns to read
    drop_columns: tuple[str, ...] = ()
    split_column: str | None = None
    weights_column: str | None = None
    rule: SplitRule = field(default_factory=SplitRule)
    roles_by_name: bool = False  # of a history made before roles were asked for: every command recognises them by usual names
    dialect: TextDialect = PLAIN  # how text is written
    savable: bool = False  # has the command --checkpoint?
    trace_file: str | None = None  # a line of JSON for each step
    stretch: Artifact | None = None  # some rows of the data, where they are read a stretch at a time
    recoding: Recoding | None = None  # of the model that was read, or learned from the training rows
    rows_left_out: bool = False  # of the data, so that those that are left have other numbers than in their file
    column_names: list[str] | None = None  # of the data, by which topics' numbers of columns are told
    has_model: bool = False  # whether a model was read
    features: frozenset[str] = frozenset()  # its columns
    target: str | None = None  # the column that it predicts
    use: ColumnUse | None = None  # what became of the columns of the data
    _pool: ThreadPoolExecutor | None = None
    _held: ExitStack = field(default_factory=ExitStack)
    _saved: bool = False  # is there a checkpoint of this run?
    _from: str | None = None  # the checkpoint that it goes on from
    _last: list[Callable[[], None]] = field(default_factory=list)
    _repeated: Callable[[], bool] = lambda: True  # whether the checkpoint holds what its run comes to from its start
    _keep: Callable[[], None] | None = None  # saves the last state of a loop that has ended, until the command has

    def __enter__(self) -> Session:
        with ExitStack() as held:
            held.enter_context(cpp_termination.report_termination(self._report_termination))
            held.enter_context(process_limits.limit_memory(self.max_memory, self.threads))
            held.enter_context(dataset_preparation.use_split_rule(self.rule))
            if self.exact:
                from herdcli.numerics import exact_arithmetic

                held.enter_context(exact_arithmetic.exact_mode())
            held.enter_context(use_dialect(self.dialect))
            if self.lock is not None:
                held.enter_context(file_locks.hold_lock(self.lock, "another run holds this lock"))
            if self.checkpoint is not None:
                self._lock_checkpoint(self.checkpoint, held)
            self._held = held.pop_all()
        return self

    def _lock_checkpoint(self, path: str, stack: ExitStack) -> None:
        """Be the only run with this checkpoint, for the length of the command."""
        artifacts.check_checkpoint(path)
        stack.enter_context(
            file_locks.hold_output_lock(path, "is the checkpoint of a run that is still going", hint="name another file with --checkpoint")
        )

    def _report_termination(self, exception_type: str | None) -> int:
        """Print the line for an exception of a C++ library that reached no Python code, and return the exit code."""
        lost = HerdError(f"a C++ library ended the process ({exception_type or 'without an exception'})", hint="please report it")
        error = process_limits.memory_error() if cpp_termination.is_out_of_memory(exception_type) else lost
        self.console.fault(str(error), error.hint)
        return error.exit_code

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, DataError) and error.where is None and self.inputs:
            error.where = list(self.inputs.values())[-1].name  # topics see values and know no files
        if isinstance(error, DataError) and self.column_names:
            error.message = with_column_names(error.message, self.column_names)
        if isinstance(error, HerdError) and error.where is not None and not self.rows_left_out and self.missing != "drop":
            from herdcli.artifacts import line_numbers

            error.message = line_numbers.with_line_numbers(error.message, error.where)
            error.hint = error.hint and line_numbers.with_line_numbers(error.hint, error.where)
        foreign = None
        refusal = None if error is None else process_limits.memory_error_for(error, [artifact.name for artifact in self.inputs.values()])
        if isinstance(error, Interrupted) and self.checkpoint is not None:
            if self._keep is not None:
                self._keep()
            error.can_resume(begun=self._saved)
        elif isinstance(error, Unavailable) and self._saved:
            error.hint = "what was done is saved: continue with --resume"
        elif isinstance(error, Interrupted) and self.savable:
            error.hint = SAVE_HINT
        try:
            if self._from is not None and isinstance(error, UNRECKONABLE) and not self._repeated():
                foreign = self._checkpoint_state_error(self._from, error)
            for last in self._last if error is None else ():
                last()
        finally:
            if self._pool:
                self._pool.shutdown(cancel_futures=True)
            self._held.close()
        if refusal is not None:
            raise refusal from error
        if foreign is not None:
            raise foreign from error

    def _checkpoint_state_error(self, path: str, error: BaseException) -> DataError:
        """What cannot be reckoned with after a checkpoint was read, where that held a state which its run has never been in.

        Types, shapes and ranges were checked before; a state can have them all and still be none of the run's.
        """
        what = " ".join(str(error).split())[:200] or type(error).__name__
        hint = "start again without --resume"
        return DataError(f"holds a state that this run cannot resume from ({what})", where=path, hint=hint)

    def enter_until_end(self, context: AbstractContextManager[H]) -> H:
        """Enter what is left when the command ends, however that is."""
        return self._held.enter_context(context)

    def on_success(self, last: Callable[[], None]) -> None:
        """Call this when the command has done all else without an error."""
        self._last.append(last)

    def ignored(self, option: str, why: str) -> None:
        """Warn about an option the user typed that does nothing here."""
        if option in self.given:
            own = option in dict(declarations(type(self.request)))
            typed = typed_name(type(self.request) if own else SessionOptions, option)
            self.console.warn(f"{typed} has no effect {why}")

    @property
    def exact(self) -> bool:
        """Whether the command was asked for arithmetic that is the same everywhere."""
        return bool(getattr(self.request, "exact", False))

    @property
    def is_undivided(self) -> bool:
        """Whether at most one of --shard and --cluster divides the run."""
        return self.shard is None or self.cluster is None

    @property
    def place(self) -> ShardPlace:
        """Which units of work are this run's: all without --shard."""
        return self.shard or ShardPlace()

    def require_memory(self, size: int, what: str) -> None:
        """Refuse work that would need more bytes than --max-memory, by default half of what is free."""
        limit = self.max_memory or memory_budget.default_limit()
        if size > limit:
            needed, allowed = format_size(size), format_size(limit)
            raise NoRoom(f"{what} would take {needed}, more than the {allowed} allowed", hint="raise --max-memory if the machine has it")

    def load(
        self,
        path: str,
        role: str,
        *,
        kinds: Collection[str] | None,
        input_format: str | None = None,
        label: str | None = None,
        keep: Collection[str] = (),
        also: Collection[str] = (),
        missing: bool = False,
        gaps: Collection[str] = (),
        training: Callable[[Dataset], Array] | None = None,
        as_stored: bool = False,
        labels: bool = True,
        response: str | None = None,
        check: Callable[[Artifact], None] | None = None,
    ) -> Artifact:
        """Read an input and remember it for the record.

        keep      further columns that it must have.      also  those that come along where they are there.
        missing   NaN and empty cells are values that the command can do without.
        gaps      further columns of numbers that may lack some, NaN then.
        training  (n,) bool, the rows that levels and means are learned from; by default what --split and --seed make training rows.
        as_stored rows are not reckoned with: values of any size, and booleans.
        labels    False: nobody asks for the rows' own labels.
        response  as of `ColumnRoles`; by default the request's.
        check     refuses what was read, before anything is said of it.
        """
        from herdcli.cli.frame.rows.column_cleaning import CleaningOptions

        if role == "data" and self.stretch is not None:
            return self.stretch
        cleaning = CleaningOptions(
            self.console, self.command, self.request, self.recoding, self.missing, self.categorical, able=missing, training=training
        )
        states = self.recoding.levels if self.recoding and self.recoding.codes else {}
        self.refuse_stdin_twice(path)
        path = self._readable_again(path)
        if kinds and "dataset" in kinds and row_ranges.is_file_pattern(path):
            truths = [name for name, levels in states.items() if {"true", "false"} & {level.lower() for level in levels}]
            found = self._together(
                path,
                role,
                keep,
                input_format=input_format,
                label=label,
                keep=(*keep, *also),
                labels=labels,
                as_text=truths,
                roles=self.column_roles(role, response),
            )
            return found if not states else self._match_state_names(found, cleaning.prepare(role))
        told: list[tuple[str, bool]] = []
        try:
            artifact = artifacts.load(
                path,
                kinds=kinds,
                input_format=input_format,
                label=label,
                max_memory=self.max_memory,
                note=self.console.note,
                keep=keep,
                also=also,
                missing=missing,
                gaps=gaps,
                fills=cleaning.fills_missing,
                as_text=states,
                layer=self.layer,
                labels=labels,
                roles=self.column_roles(role, response),
                prepare=cleaning.prepare(role),
                account=lambda line, complete: told.append((line, complete)),
            )
        except DataError as error:
            raise cleaning.add_missing_value_hint(error) from error
        if check is not None:
            check(artifact)
        for line, complete in told:
            self._report_table_use(line, complete)
        return self._remember(artifact, role, path, as_stored=as_stored)

    def _remember(self, artifact: Artifact, role: str, path: str, *, as_stored: bool) -> Artifact:
        """The artifact, with what later inputs and the record need of it remembered.  Raises DataError for values too large."""
        if artifact.kind != "dataset" or artifact.recoding:
            self.recoding = artifact.recoding
        if artifact.kind != "dataset":
            self.remember_features(artifact)
        if isinstance(artifact.value, Dataset) and not as_stored:
            artifact = replace(artifact, value=check_magnitudes(artifact.value, where=artifact.name))
        if isinstance(artifact.value, Dataset) and role in SELECTED:
            self.column_names = artifact.value.feature_names
        if self.spooled == path:
            artifact = replace(artifact, name="stdin")
        self.inputs[role] = replace(artifact, value=None)  # the record needs no rows: let the command free them
        self.console.detail(f"{artifact.name}: {artifact.kind}, {format_size(artifact.size)}, sha256 {artifact.sha256[:12]}")
        return artifact

    def column_roles(self, role: str = "data", response: str | None = None) -> ColumnRoles:
        """How the columns of an input are told apart: of the data as the options say, of others by the same names.

        response  as of `ColumnRoles`; by default the request's.
        """
        by_name = self.roles_by_name or self.has_model  # other columns than those of a model are what they are called
        asked = ROLES if by_name else frozenset(getattr(self.request, "default_roles", ROLES))
        response = getattr(self.request, "response", "") if response is None else response
        response = "" if response == "named" and self.roles_by_name else response  # a record from before it had a meaning
        if role not in SELECTED:
            return ColumnRoles(asked, features=self.features, target=self.target, response=response)
        return ColumnRoles(
            asked,
            self.split_column,
            self.weights_column,
            self.features,
            self.target,
            response,
            self.read_columns,
            self.drop_columns,
            self._report_columns,
        )

    def _report_columns(self, use: ColumnUse) -> None:
        """Remember what became of the columns, and say once which have names that may have meant something else."""
        if self.use is None and (line := role_warning(use)) is not None:
            self.console.note(line)
        self.use = use

    def remember_features(self, artifact: Artifact) -> None:
        """The columns of a model, which are features whatever they are called."""
        value, self.has_model = artifact.value, True
        holders = [value, getattr(value, "known", None), *getattr(value, "layers", ())[:1]]
        names = [name for each in holders for name in getattr(each, "feature_names", None) or ()]
        if artifact.kind in ("network", "beliefs"):
            names += list(value.names or ())
        self.features |= {str(name) for name in names} | set(artifact.recoding.levels)
        if artifact.kind not in OF_NUMBERS or self.command == "apply":  # what is judged asks for its columns by name itself
            self.target = model_target(artifact) or self.target

    def forget_features(self) -> None:
        """Read the next input as if no model had been read before it."""
        self.has_model, self.features, self.target, self.recoding = False, frozenset(), None, None

    def with_columns(self, summary: str) -> str:
        """A closing line with what the columns were used as."""
        return summary + describe_use(self.use)

    def _report_table_use(self, line: str, complete: bool) -> None:
        """Say at the end of reading what a table had, where some of it was not used; under -v always."""
        (self.console.detail if complete else self.console.note)(line)

    def account_for(self, ranges: row_ranges.RowRanges) -> None:
        """The same of rows that are read by parts."""
        if (told := ranges.summary()) is not None:
            self._report_table_use(*told)

    def _together(self, path: str, role: str, required: Collection[str], **asked: Any) -> Artifact:
        """The rows of several files as one data set.  required  columns that it must have;  asked  as of `row_ranges.opened`."""
        with row_ranges.open_ranges(path, note=self.console.note, verified=True, **asked) as found:
            if found is None:
                raise DataError("cannot be read as one input", where=path, hint="use Parquet, dense HDF5, or CSV with numbers only")
            columns = found.artifact.value.X.shape[1]
            self.require_memory(8 * found.count * columns, f"{found.count} × {columns} values of several files")
            self.account_for(found)
            artifact = replace(found.artifact, value=found.whole())
        if lacking := sorted(set(required) - {*(artifact.value.columns or ()), "y"}):  # labels, which others may have among their columns
            hint = "columns of Parquet and CSV can be named, and datasets of HDF5 beside /X"
            raise BadUsage(f"have no extra column '{lacking[0]}'", where=path, hint=hint)
        self.inputs[role] = replace(artifact, value=None)
        self.console.detail(f"{path}: {found.count} rows of {len(found.parts)} files, sha256 {artifact.sha256[:12]}")
        return artifact

    def _match_state_names(self, artifact: Artifact, prepare: Prepare | None) -> Artifact:
        """Several files' places of states as those of the names that are wanted."""
        if prepare is None:
            return artifact
        value, known = prepare(artifact.value, [], artifact.name, artifact.recoding)
        return replace(artifact, value=value, recoding=known)

    def opened(self, path: str, *, empty: bool = False) -> AbstractContextManager[Source]:
        """The bytes of an input that is no artifact, as text; whoever reads them remembers it among the inputs.

        empty  a file without a byte is an input too.
        """
        self.refuse_stdin_twice(path)
        return open_source(path, limit=self.max_memory or memory_budget.default_limit(), empty=empty)

    def _readable_again(self, path: str) -> str:
        """A path; of stdin, where workers must read it too, that of a file with its bytes."""
        if path != "-" or self.cluster is None:
            return path
        from herdcli.cluster.packed_commands import spool_stdin

        self.spooled = spool_stdin()
        self._held.callback(os.unlink, self.spooled)
        return self.spooled

    def refuse_stdin_twice(self, path: str) -> None:
        """Raise BadUsage where an input named - is not the first."""
        if path == "-" and any(artifact.name == "stdin" for artifact in self.inputs.values()):
            raise BadUsage("stdin can be read only once", hint="name a file instead of one -")

    def record(self, request: DataclassInstance | None = None) -> dict[str, Any]:
        """The provenance record of this stage: software, command, parameters (of another request, if one is given), input digests."""
        typed = {"missing": self.missing, "layer": self.layer, "categorical": self.categorical if "categorical" in self.given else None}
        further: dict[str, object] = {name: value for name, value in typed.items() if value is not None}
        further |= {name: value for name in COLUMN_OPTIONS if (value := getattr(self, name))}
        if self.use is not None and not self.use.by_name and not self.roles_by_name:
            further["column_roles"] = "declared"  # absent: roles were recognised by usual names
        label = None if self.use is None else self.use.roles.get("y")
        if label not in (None, "y", getattr(self.request, "label", None)) and str(label).lower() in LABELS:
            further["label_column"] = label  # absent: the option says it, or it is y
        if self.rule.drawn and not self.rule.by_class:
            further["split_rule"] = "rows"  # absent: fractions of every class, and all rows in ica
        further |= self.dialect.record()
        return provenance.stage_record(self.command, recorded_options(self.request if request is None else request) | further, self.inputs)

    def forget_checkpoint(self) -> None:
        """The run has succeeded: its checkpoint goes away."""
        if self.checkpoint:
            self._saved, self._keep = False, None
            try:
                artifacts.remove_checkpoint(self.checkpoint)
            except OSError as error:
                self.console.warn(f"{self.checkpoint}: the checkpoint of this run, which is done, cannot be removed ({error.strerror})")

    def map(self, function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
        """`map` over our own workers, in order; plain `map` with one thread."""
        if self.threads == 1:
            return map(function, *iterables)
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="herd", initializer=_initializer(self.exact))
        return self._pool.map(function, *iterables)

    def run(
        self,
        algorithm: Algorithm[S, R],
        *,
        label: str,
        memory: str | None = None,
        after: Callable[[S], tuple[float, int]] | None = None,
        ended: Callable[[S], None] | None = None,
        part: str | None = None,
        follows: bool = False,
        longer: tuple[Callable[[S], DataclassInstance], Callable[[S], S]] | None = None,
    ) -> R:
        """Run an algorithm from its start, or from the checkpoint under --resume, with progress; return its result.

        memory  what is too large, in the words of a refusal where it would take more than --max-memory.
        after   for --dry-run, from a state: the seconds and bytes of what follows the steps.
        ended   called with the last state before the result is made of it, which it may refuse.
        part    what checkpoints are of, where not of the run's own steps.
        follows  whether the run has come through another algorithm before: a checkpoint of one of them is left to that one, and what came
                before it is computed again.
        longer  takes the state of a run that was asked for fewer steps: the request of that run, and its state in this one.
        """
        from herdcli.artifacts.sealed import checkpoints
        from herdcli.cli.frame.run import trace_file

        if memory is not None:
            self.require_memory(algorithm.memory(), memory)
        if self.dry_run:
            if self.trace_file is not None:
                check_destination(self.trace_file, binary=False)
            self._print_plan(algorithm, label, after)
        part = f"{checkpoints.STAGE}{label.replace(' ', '-')}" if follows else part
        suffix = f" {self.shard}" if self.shard else f" {part}" if part else ""
        digest = provenance.record_digest(self.record()) + suffix
        try:
            resumed = self._resumed(algorithm, digest, None if longer is None else self._shorter_run(*longer, suffix))
            keeps = bool(self.checkpoint)
        except checkpoints.OtherStage:
            self._saved, resumed, keeps = True, None, follows  # the first of them leaves the checkpoint to the one that follows

        def keep(now: S) -> None:
            artifacts.save_checkpoint(str(self.checkpoint), now, digest)
            self._saved = True

        self._keep = None  # of an algorithm before this one
        with self.console.progress(label) as progress, trace_file.trace_writer(self.trace_file, label, again=resumed is not None) as trace:

            def watch(now: S) -> None:
                reached = algorithm.progress(now)
                progress.show(reached)
                trace(reached)

            state = iterate.run_steps(
                algorithm.step,
                algorithm.init() if resumed is None else resumed,
                until=algorithm.done,
                checkpoint=keep if keeps else None,
                every=self.every,
                watch=watch,
            )
        if keeps:
            self._keep = partial(keep, state)
        if ended is not None:
            ended(state)
        return algorithm.result(state)

    def _shorter_run(self, request_of: Callable[[S], DataclassInstance], grown: Callable[[S], S], suffix: str) -> artifacts.ExtendedRun[S]:
        """How the state of a run that was asked for fewer steps is known and gone on with."""
        return artifacts.ExtendedRun(lambda saved: provenance.record_digest(self.record(request_of(saved))) + suffix, grown)

    def run_preparation(self, algorithm: Algorithm[S, R], *, label: str) -> R:
        """Run an algorithm that prepares for the one of `run`: shown and stopped like it, but without checkpoint, and done in a dry run."""
        from herdcli.algorithm import run_algorithm

        with self.console.progress(label) as progress:
            return run_algorithm(algorithm, watch=progress.show)

    def _resumed(self, algorithm: Algorithm[S, R], digest: str, longer: artifacts.ExtendedRun[S] | None = None) -> S | None:
        """The state of the checkpoint, where there is one to go on from."""
        if not (self.checkpoint and self.resume):
            return None
        from herdcli.algorithm import state_shapes

        read = partial(
            artifacts.load_checkpoint, self.checkpoint, algorithm.state, digest, like=partial(state_shapes, algorithm), longer=longer
        )
        saved = read()
        if saved is None:
            self.console.note(f"no checkpoint at {self.checkpoint} yet: starting from the beginning")
            return None
        self._saved, self._from, self._repeated = True, self.checkpoint, partial(resume_errors.is_state_of_run, algorithm, read)
        if saved.step < 0:
            raise DataError(f"is at step {saved.step}", where=self.checkpoint)
        bound = algorithm.progress(saved).bound
        if bound is not None and saved.step > bound:
            raise DataError(f"is at step {saved.step} of {bound}", where=self.checkpoint)
        self.console.note(f"resuming from step {saved.step}" + (f" of {bound}" if bound else ""))
        return saved

    def _print_plan(self, algorithm: Algorithm[S, R], label: str, after: Callable[[S], tuple[float, int]] | None) -> NoReturn:
        """Try some steps, say what the whole would take, and end the command: what was done will be done again."""
        trial = dry_run.try_steps(algorithm, after)
        dry_run.report_plan(self.console, label, trial.how, trial.steps, trial.more, trial.size)
