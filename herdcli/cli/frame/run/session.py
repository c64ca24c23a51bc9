"""One run of one command: its files, threads, checkpoint and record, so that commands only declare options and call methods."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, TypeVar

from herdcli import artifacts, iterate
from herdcli.artifacts import Artifact, cpp_termination, file_locks, memory_budget, process_limits
from herdcli.artifacts.atomic_output import check_destination
from herdcli.artifacts.byte_sources import ByteSource, open_source
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
    describe_column_use,
    model_target_column,
    role_warning,
    with_column_names,
)
from herdcli.artifacts.tables.dataset_preparation import SplitRule
from herdcli.cli.frame.history.request import recorded_options
from herdcli.cli.frame.options.declaration import declarations, option_name_as_typed
from herdcli.cli.frame.options.session_options import SessionOptions
from herdcli.cli.frame.run import dry_run, resume_errors
from herdcli.cli.frame.run.console import Console
from herdcli.dialect import PLAIN, TextDialect, use_dialect
from herdcli.errors import UNRECKONABLE, BadUsage, DataError, HerdError, Interrupted, MemoryLimitExceeded, Unavailable
from herdcli.records import HistoryRecord, dataclass
from herdcli.shards import ShardPlace
from herdcli.spreadsheet_text import use_safe_csv

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from _typeshed import DataclassInstance

    from herdcli.algorithm import Algorithm
    from herdcli.artifacts.load_save import PrepareColumns
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cluster.cluster_spec import ClusterOptions
    from herdcli.schema import Array

S = TypeVar("S", bound=iterate.HasStep)
R = TypeVar("R")
H = TypeVar("H")
OF_NUMBERS = ("regression", "perceptron", "predictor", "tagger")  # kinds whose targets are not labels
SELECTED, EVALUATED = ("data", "evidence"), "artifact "  # inputs for column options; start of roles for --columns and --drop alone
COLUMN_OPTIONS = ("read_columns", "drop_columns", "split_column", "weights_column")
SAVE_HINT = "next time add --checkpoint FILE: the same command with --resume then continues the run"


def _thread_initializer(exact: bool) -> Callable[[], None] | None:
    """Return the function that a worker thread calls first, so that its arithmetic is that of the command."""
    if not exact:
        return None
    from herdcli.numerics import exact_arithmetic

    return partial(exact_arithmetic.set_exact, exact)


@dataclass
class Session:
    """The state that every command shares.  `given` are the options that the user typed; the stage's record comes from `request`."""

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
    cluster: ClusterOptions | None = None  # workers that its units or blocks are distributed to
    dealt: list[object] | None = None  # the results of all units, if workers computed them
    told: list[str] = field(default_factory=list)  # warnings of the workers
    spooled: str | None = None  # the file with the content of stdin, for workers to read
    missing: str | None = None  # the treatment of rows with missing values: drop, mean
    categorical: str | None = None  # text columns as one-hot numbers: auto, none; None: the command has no such option
    layer: str | None = None  # the layer to read from AnnData files
    read_columns: tuple[str, ...] = ()  # names, patterns, ranges and positions of the columns to read
    drop_columns: tuple[str, ...] = ()
    split_column: str | None = None
    weights_column: str | None = None
    rule: SplitRule = field(default_factory=SplitRule)
    roles_by_name: bool = False  # for a history from before column roles were recorded: columns are recognised by their usual names
    dialect: TextDialect = PLAIN  # the notation of text and of the numbers in it
    safe_csv: bool = False  # whether CSV and TSV get an apostrophe before texts that spreadsheets take for formulas
    savable: bool = False  # whether the command has --checkpoint
    trace_file: str | None = None  # gets one JSON line per step
    observers: list[Callable[..., None]] = field(default_factory=list)  # called with the state after each step of a run
    stretch: Artifact | None = None  # some rows of the data, if they are read one range at a time
    recoding: Recoding | None = None  # the encoding of text columns, from the model that was read or learned from the training rows
    rows_left_out: bool = False  # whether rows were left out of the data, so that row numbers differ from those in the file
    column_names: list[str] | None = None  # names of the data's columns, for messages in which topics give only column numbers
    has_model: bool = False  # whether a model was read
    features: frozenset[str] = frozenset()  # the model's columns
    target: str | None = None  # the column that the model predicts
    use: ColumnUse | None = None  # the use of the columns of the data
    _pool: ThreadPoolExecutor | None = None
    _held: ExitStack = field(default_factory=ExitStack)
    _traced: bool = False  # whether a loop of this run has written to the trace file
    _saved: bool = False  # whether there is a checkpoint of this run
    _from: str | None = None  # the checkpoint that the run resumes from
    _last: list[Callable[[], None]] = field(default_factory=list)
    _repeated: Callable[[], bool] = lambda: True  # whether the checkpoint's state is one that the run reaches from its start
    _keep: Callable[[], None] | None = None  # saves the last state of a finished loop, until the command ends

    def __enter__(self) -> Session:
        with ExitStack() as held:
            held.enter_context(cpp_termination.report_termination(self._report_termination))
            held.enter_context(process_limits.limit_memory(self.max_memory, self.threads))
            held.enter_context(dataset_preparation.use_split_rule(self.rule))
            if self.exact:
                from herdcli.numerics import exact_arithmetic

                held.enter_context(exact_arithmetic.exact_arithmetic_enabled())
            held.enter_context(use_dialect(self.dialect))
            held.enter_context(use_safe_csv(self.safe_csv))
            if self.lock is not None:
                held.enter_context(file_locks.hold_lock(self.lock, "another run holds this lock"))
            if self.checkpoint is not None:
                self._lock_checkpoint(self.checkpoint, held)
            self._held = held.pop_all()
        return self

    def _lock_checkpoint(self, path: str, stack: ExitStack) -> None:
        """Lock the checkpoint for the duration of the command, so that no other run uses it."""
        artifacts.check_checkpoint(path)
        busy = "is the checkpoint of a run that is still going"
        stack.enter_context(file_locks.hold_output_lock(path, busy, hint="give another file name to --checkpoint"))

    def _report_termination(self, exception_type: str | None) -> int:
        """Print the line for an exception of a C++ library that reached no Python code, and return the exit code."""
        lost = HerdError(f"a C++ library ended the process ({exception_type or 'without an exception'})", hint="please report it")
        error = process_limits.out_of_memory_error() if cpp_termination.is_out_of_memory(exception_type) else lost
        self.console.print_error(str(error), error.hint)
        return error.exit_code

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, DataError) and error.where is None and self.inputs:
            error.where = list(self.inputs.values())[-1].name  # topics see values and do not know the files
        if isinstance(error, DataError) and self.column_names:
            error.message = with_column_names(error.message, self.column_names)
        if isinstance(error, HerdError) and error.where is not None and not self.rows_left_out and self.missing != "drop":
            from herdcli.artifacts import line_numbers

            error.message = line_numbers.with_line_numbers(error.message, error.where, self.features)
            error.hint = error.hint and line_numbers.with_line_numbers(error.hint, error.where, self.features)
        foreign = None
        refusal = None if error is None else process_limits.memory_error_for(error, [artifact.name for artifact in self.inputs.values()])
        if isinstance(error, Interrupted) and self.checkpoint is not None:
            if self._keep is not None:
                self._keep()
            error.mark_resumable(has_checkpoint=self._saved)
        elif isinstance(error, Unavailable) and self._saved:
            error.hint = "the checkpoint is saved: continue with --resume"
        elif isinstance(error, Interrupted) and self.savable:
            error.hint = SAVE_HINT
        try:
            if self._from is not None and isinstance(error, UNRECKONABLE) and not self._repeated():
                foreign = self._checkpoint_state_error(self._from, error)
            for last in self._last if error is None else ():
                last()
        finally:
            if self._pool:
                self._pool.shutdown(wait=not isinstance(error, Interrupted), cancel_futures=True)
            self._held.close()
        if refusal is not None:
            raise refusal from error
        if foreign is not None:
            raise foreign from error

    def _checkpoint_state_error(self, path: str, error: BaseException) -> DataError:
        """Return the error for a failure after resuming from a checkpoint with a state that the run never reaches.

        Types, shapes and ranges were checked before; a state can pass these checks and still not belong to the run.
        """
        what = " ".join(str(error).split())[:200] or type(error).__name__
        hint = "start again without --resume"
        return DataError(f"holds a state that this run cannot resume from ({what})", where=path, hint=hint)

    def enter_until_command_ends(self, context: AbstractContextManager[H]) -> H:
        """Enter a context that is left when the command ends, with or without an error."""
        return self._held.enter_context(context)

    def on_success(self, callback: Callable[[], None]) -> None:
        """Register a function to call after the command has finished without an error."""
        self._last.append(callback)

    def warn_of_ignored_option(self, option: str, why: str) -> None:
        """Warn that an option the user typed has no effect here."""
        if option in self.given:
            own = option in dict(declarations(type(self.request)))
            typed = option_name_as_typed(type(self.request) if own else SessionOptions, option)
            self.console.warn(f"{typed} has no effect {why}")

    @property
    def exact(self) -> bool:
        """Whether the command uses arithmetic that is the same on every machine."""
        return bool(getattr(self.request, "exact", False))

    @property
    def is_undivided(self) -> bool:
        """Whether at most one of --shard and --cluster divides the run."""
        return self.shard is None or self.cluster is None

    @property
    def place(self) -> ShardPlace:
        """The units of work of this run: all of them without --shard."""
        return self.shard or ShardPlace()

    def require_memory(self, size: int, what: str, hint: str = process_limits.HINT) -> None:
        """Raise MemoryLimitExceeded if the work needs more bytes than --max-memory, by default half of the free memory."""
        limit = self.max_memory or memory_budget.default_memory_limit()
        if size > limit:
            needed, allowed = format_size(size), format_size(limit)
            raise MemoryLimitExceeded(f"{what} would take {needed}, more than the {allowed} allowed", hint=hint)

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
        profiles: bool = False,
        labels: bool = True,
        response: str | None = None,
        check: Callable[[Artifact], None] | None = None,
    ) -> Artifact:
        """Read an input and remember it for the record.

        keep      further columns that it must have.      also  further columns to read if they exist.
        missing   whether the command accepts NaN and empty cells.
        gaps      further columns of numbers that may have missing values, read as NaN.
        training  (n,) bool, the rows that levels and means are learned from; by default the training rows by --split and --seed.
        as_stored whether rows are not used in computations: values of any size, and booleans.
        profiles  whether columns without numbers are summarised instead of reported.
        labels    False: the command does not need the rows' own labels.
        response  as in `ColumnRoles`; by default the request's.
        check     raises an error for an unsuitable input, before any note about it is printed.
        """
        from herdcli.cli.frame.rows.column_cleaning import CleaningOptions

        if role == "data" and self.stretch is not None:
            return self.stretch
        cleaning = CleaningOptions(
            self.console, self.command, self.request, self.recoding, self.missing, self.categorical, able=missing, training=training
        )
        states = self.recoding.levels if self.recoding and self.recoding.codes else {}
        self.refuse_stdin_twice(path)
        path = self._rereadable_path(path)
        if kinds and "dataset" in kinds and row_ranges.is_file_pattern(path):
            truths = [name for name, levels in states.items() if {"true", "false"} & {level.lower() for level in levels}]
            known = partial(row_ranges.open_ranges, input_format=input_format, label=label, labels=labels, as_text=truths)
            found = self._load_joined_files(path, role, keep, partial(known, keep=(*keep, *also), roles=self.column_roles(role, response)))
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
                profiles=profiles,
                as_text=states,
                columns=self.recoding.columns if states and self.recoding else (),
                layer=self.layer,
                labels=labels,
                roles=self.column_roles(role, response),
                prepare=cleaning.prepare(role),
                texts=cleaning.uses_texts,
                account=lambda line, complete: told.append((line, complete)),
            )
        except DataError as error:
            raise cleaning.add_missing_value_hint(error) from error
        if check is not None:
            check(artifact)
        if not told:
            cleaning.report_unused_texts()
        for line, complete in told:
            self._report_table_use(line, complete)
        return self._remember_input(artifact, role, path, as_stored=as_stored)

    def _remember_input(self, artifact: Artifact, role: str, path: str, *, as_stored: bool) -> Artifact:
        """Return the artifact, after storing its recoding, columns and digest for later inputs and the record.

        Raises DataError for values that are too large.
        """
        if artifact.kind != "dataset" or artifact.recoding:
            self.recoding = artifact.recoding.for_model(artifact.value)
        if artifact.kind != "dataset":
            self.remember_features(artifact)
        if isinstance(artifact.value, Dataset) and not as_stored:
            artifact = replace(artifact, value=check_magnitudes(artifact.value, where=artifact.name))
        if isinstance(artifact.value, Dataset) and role in SELECTED:
            self.column_names = artifact.value.feature_names
        if self.spooled == path:
            artifact = replace(artifact, name="stdin")
        self.inputs[role] = replace(artifact, value=None)  # the record needs no rows, so that the command can free them
        self.console.detail(f"{artifact.name}: {artifact.kind}, {format_size(artifact.size)}, sha256 {artifact.sha256[:12]}")
        return artifact

    def column_roles(self, role: str = "data", response: str | None = None) -> ColumnRoles:
        """Return the roles of an input's columns: for the data as the options say, for other inputs by the same names.

        response  as in `ColumnRoles`; by default the request's.
        """
        by_name = self.roles_by_name or self.has_model  # columns outside the model have the roles of their names
        asked = ROLES if by_name else frozenset(getattr(self.request, "roles_recognised_by_name", ROLES))
        response = getattr(self.request, "response", "") if response is None else response
        response = "" if response == "named" and self.roles_by_name else response  # a record from before 'named' had a meaning
        roles = ColumnRoles(asked, features=self.features, target=self.target, response=response)
        if role in SELECTED or role.startswith(EVALUATED):
            roles = replace(roles, columns=self.read_columns, drop=self.drop_columns)
        if role not in SELECTED:
            return roles
        return replace(roles, split=self.split_column, weight=self.weights_column, report=self._report_columns)

    def _report_columns(self, use: ColumnUse) -> None:
        """Remember the use of the columns, and print one note about columns whose names may have had another meaning."""
        if self.use is None and (line := role_warning(use)) is not None:
            self.console.note(line)
        self.use = use

    def remember_features(self, artifact: Artifact) -> None:
        """Remember the columns of a model, which are features whatever their names are."""
        value, self.has_model = artifact.value, True
        holders = [value, getattr(value, "known", None), *getattr(value, "layers", ())[:1]]
        names = [name for each in holders for name in getattr(each, "feature_names", None) or ()]
        if artifact.kind in ("network", "beliefs"):
            names += list(value.names or ())
        self.features |= {str(name) for name in names} | set(artifact.recoding.levels)
        if artifact.kind not in OF_NUMBERS or self.command == "apply":  # an evaluation asks for its columns by name
            self.target = model_target_column(artifact) or self.target

    def forget_features(self) -> None:
        """Read the next input as if no model had been read before."""
        self.has_model, self.features, self.target, self.recoding = False, frozenset(), None, None

    def summary_with_column_use(self, summary: str) -> str:
        """Return a closing line with the use of the columns appended."""
        return summary + describe_column_use(self.use)

    def _report_table_use(self, line: str, complete: bool) -> None:
        """Print, at the end of reading, a line about a table's contents: by default if a part was not used, with -v always."""
        (self.console.detail if complete else self.console.note)(line)

    def report_range_use(self, ranges: row_ranges.RowRanges) -> None:
        """Print the line about a table's contents for rows that are read in parts."""
        if (told := ranges.summary()) is not None:
            self._report_table_use(*told)

    def _load_joined_files(
        self,
        path: str,
        role: str,
        required: Collection[str],
        open_files: Callable[..., AbstractContextManager[row_ranges.RowRanges | None]],
    ) -> Artifact:
        """Return the rows of several files as one data set.

        required  columns that it must have.
        open_files  `row_ranges.open_ranges` with the arguments of this input.
        """
        with open_files(path, note=self.console.note, verified=True) as found:
            if found is None:
                raise DataError(
                    "these files cannot be read as one input", where=path, hint="use Parquet, dense HDF5, or CSV with numbers only"
                )
            columns = found.artifact.value.X.shape[1]
            self.require_memory(8 * found.count * columns, f"{found.count} × {columns} values of several files")
            self.report_range_use(found)
            artifact = replace(found.artifact, value=found.read_all())
        if lacking := sorted(set(required) - {*(artifact.value.columns or ()), "y"}):  # labels may be among the columns in other data sets
            hint = "columns of Parquet and CSV can be named, and datasets of HDF5 beside /X"
            raise BadUsage(f"the files have no extra column '{lacking[0]}'", where=path, hint=hint)
        self.inputs[role] = replace(artifact, value=None)
        self.console.detail(f"{path}: {found.count} rows of {len(found.parts)} files, sha256 {artifact.sha256[:12]}")
        return artifact

    def _match_state_names(self, artifact: Artifact, prepare: PrepareColumns | None) -> Artifact:
        """Return the data of several files with their state numbers replaced by the numbers of the wanted state names."""
        if prepare is None:
            return artifact
        value, known = prepare(artifact.value, [], artifact.name, artifact.recoding)
        return replace(artifact, value=value, recoding=known)

    def open_text_input(self, path: str, *, allow_empty: bool = False) -> AbstractContextManager[ByteSource]:
        """Open an input that is not an artifact, as text; the caller adds it to the inputs after reading.

        allow_empty  whether an empty file is allowed.
        """
        self.refuse_stdin_twice(path)
        return open_source(path, limit=self.max_memory or memory_budget.default_memory_limit(), allow_empty=allow_empty)

    def _rereadable_path(self, path: str) -> str:
        """Return a path; for stdin that workers must read too, the path of a file with its content."""
        if path != "-" or self.cluster is None:
            return path
        from herdcli.cluster.packed_commands import spool_stdin

        self.spooled = spool_stdin()
        self._held.callback(os.unlink, self.spooled)
        return self.spooled

    def refuse_stdin_twice(self, path: str) -> None:
        """Raise BadUsage if - is named as an input a second time."""
        if path == "-" and any(artifact.name == "stdin" for artifact in self.inputs.values()):
            raise BadUsage("stdin can be read only once", hint="name a file instead of one -")

    def record(self, request: DataclassInstance | None = None) -> HistoryRecord:
        """Return the provenance record of this stage: software, command, parameters (of `request`, if it is given), input digests."""
        typed = {"missing": self.missing, "layer": self.layer, "categorical": self.categorical if "categorical" in self.given else None}
        further: dict[str, object] = {name: value for name, value in typed.items() if value is not None}
        further |= {name: value for name in COLUMN_OPTIONS if (value := getattr(self, name))}
        if self.use is not None and not self.use.by_name and not self.roles_by_name:
            further["column_roles"] = "declared"  # absent: roles were recognised by usual names
        label = None if self.use is None else self.use.roles.get("y")
        if label not in (None, "y", getattr(self.request, "label", None)) and str(label).lower() in LABELS:
            further["label_column"] = label  # absent: the option names it, or it is y
        if self.rule.drawn and not self.rule.by_class:
            further["split_rule"] = "rows"  # absent: the split took fractions of every class, and all rows in ica
        further |= self.dialect.record()
        return provenance.make_history_record(
            self.command, recorded_options(self.request if request is None else request) | further, self.inputs
        )

    def forget_checkpoint(self) -> None:
        """Remove the checkpoint of a run that has succeeded."""
        if self.checkpoint:
            self._saved, self._keep = False, None
            try:
                artifacts.remove_checkpoint(self.checkpoint)
            except OSError as error:
                self.console.warn(f"{self.checkpoint}: the run has ended, but its checkpoint cannot be removed ({error.strerror})")

    def map(self, function: Callable[..., R], *iterables: Iterable[object]) -> Iterator[R]:
        """Apply a function like `map`, in order, with the session's worker threads; plain `map` with one thread."""
        if self.threads == 1:
            return map(function, *iterables)
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="herd-worker", initializer=_thread_initializer(self.exact))
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
        """Run an algorithm from its start, or with --resume from the checkpoint, show progress, and return its result.

        memory  a description for the error if the algorithm would take more than --max-memory.
        after   for --dry-run: returns, for a state, the seconds and bytes of the work after the last step.
        ended   called with the last state before the result is computed; it may raise an error.
        part    the name of the checkpoint's part, if the checkpoint does not hold the run's own steps.
        follows  whether another algorithm ran before in the same run.  A checkpoint of another algorithm is left for that one, and the work
                 before it is computed again.
        longer  two functions of the state of a run with fewer steps: they return that run's request, and the state for this run.
        """
        from herdcli.artifacts.sealed import checkpoints
        from herdcli.cli.frame.run import trace_file

        if memory is not None:
            self.require_memory(algorithm.memory(), memory)
        if self.dry_run:
            if self.trace_file is not None:
                check_destination(self.trace_file, clobber=self.clobber, binary=False)
            self._print_plan(algorithm, label, after)
        part = f"{checkpoints.STAGE}{label.replace(' ', '-')}" if follows else part
        suffix = f" {self.shard}" if self.shard else f" {part}" if part else ""
        digest = provenance.record_digest(self.record()) + suffix
        try:
            resumed = self._load_checkpoint_state(algorithm, digest, None if longer is None else self._extended_run(*longer, suffix))
            keeps = bool(self.checkpoint)
        except checkpoints.CheckpointOfOtherStage:
            self._saved, resumed, keeps = True, None, follows  # the first algorithm leaves the checkpoint to the one that follows

        def keep(now: S) -> None:
            artifacts.save_checkpoint(str(self.checkpoint), now, digest)
            self._saved = True

        self._keep = None  # forget the function of an earlier algorithm
        append, self._traced = self._traced or resumed is not None, True
        writer = trace_file.trace_writer(self.trace_file, label, append=append, clobber=self.clobber)
        with self.console.progress(label) as progress, writer as trace:

            def watch(now: S) -> None:
                reached = algorithm.progress(now)
                progress.show(reached)
                trace(reached)
                for observe in self.observers:
                    observe(now)

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

    def _extended_run(self, request_of: Callable[[S], DataclassInstance], grown: Callable[[S], S], suffix: str) -> artifacts.ExtendedRun[S]:
        """Return how to recognise the state of a run with fewer steps and how to extend it."""
        return artifacts.ExtendedRun(lambda saved: provenance.record_digest(self.record(request_of(saved))) + suffix, grown)

    def run_preparation(self, algorithm: Algorithm[S, R], *, label: str) -> R:
        """Run an algorithm that prepares for `run`: with progress and interruptible, but without a checkpoint, and also in a dry run."""
        from herdcli.algorithm import run_algorithm

        with self.console.progress(label) as progress:
            return run_algorithm(algorithm, watch=progress.show)

    def _load_checkpoint_state(self, algorithm: Algorithm[S, R], digest: str, longer: artifacts.ExtendedRun[S] | None = None) -> S | None:
        """Return the state of the checkpoint, or None if there is none to resume from."""
        if not (self.checkpoint and self.resume):
            return None
        from herdcli.algorithm import state_shapes

        read = partial(
            artifacts.load_checkpoint,
            self.checkpoint,
            algorithm.state,
            digest,
            template=partial(state_shapes, algorithm),
            extended_run=longer,
        )
        saved = read()
        if saved is None:
            self.console.note(f"no checkpoint at {self.checkpoint} yet: starting from the beginning")
            return None
        self._saved, self._from, self._repeated = True, self.checkpoint, partial(resume_errors.is_state_of_run, algorithm, read)
        if saved.step < 0:
            raise DataError(f"the checkpoint has the impossible step number {saved.step}", where=self.checkpoint)
        bound = algorithm.progress(saved).bound
        if bound is not None and saved.step > bound:
            raise DataError(f"the checkpoint was saved at step {saved.step}, but this run has only {bound} steps", where=self.checkpoint)
        self.console.note(f"resuming from step {saved.step}" + (f" of {bound}" if bound else ""))
        return saved

    def _print_plan(self, algorithm: Algorithm[S, R], label: str, after: Callable[[S], tuple[float, int]] | None) -> NoReturn:
        """Try some steps, print the predicted cost of the whole run, and end the command; nothing of the trial is kept."""
        trial = dry_run.run_trial_steps(algorithm, after)
        dry_run.print_plan_and_exit(self.console, label, trial.how, trial.steps, trial.more, trial.size)
