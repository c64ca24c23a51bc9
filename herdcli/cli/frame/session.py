"""One run of one command: its files, threads, checkpoint and record, so that commands only declare and call."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from herdcli import artifacts, iterate
from herdcli.artifacts import Artifact, locks, memory, provenance
from herdcli.artifacts.wording import readable
from herdcli.cli.frame.console import Console, write_stdout
from herdcli.errors import BadUsage, DataError, Interrupted
from herdcli.shards import Place

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

S = TypeVar("S", bound=iterate.Steppable)
TRIAL_SECONDS = 0.5  # of steps tried for a --dry-run's estimate


@dataclass
class Session:
    """What every command shares.  `parameters` are the options that can change the result; `given` those the user typed."""

    command: str
    console: Console
    parameters: dict[str, Any]
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
    shard: Place | None = None
    restores: bool = False  # the history of what is saved is that of the input: no stage of its own
    _pool: ThreadPoolExecutor | None = None
    _held: ExitStack = field(default_factory=ExitStack)
    _saved: bool = False  # is there a checkpoint of this run?

    def __enter__(self) -> Session:
        with ExitStack() as held:
            if self.lock is not None:
                held.enter_context(locks.held(self.lock, "another run holds this lock"))
            if self.checkpoint is not None:
                self._own_checkpoint(self.checkpoint, held)
            self._held = held.pop_all()
        for option in ("every", "resume") if self.checkpoint is None else ():
            self.ignored(option, "without --checkpoint")
        return self

    def _own_checkpoint(self, path: str, held: ExitStack) -> None:
        """Be the only run with this checkpoint, for the length of the command."""
        if self.output != "-" and os.path.realpath(self.output) == os.path.realpath(path):
            raise BadUsage("is named by both -o and --checkpoint", where=self.output, hint="give the checkpoint a name of its own")
        artifacts.check_checkpoint(path)
        held.enter_context(
            locks.owned(path, "is the checkpoint of another run that is going on", hint="name another file with --checkpoint")
        )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, DataError) and error.where is None and self.inputs:
            error.where = list(self.inputs.values())[-1].name  # topics see values and know no files
        if isinstance(error, Interrupted) and self._saved:
            error.can_resume()
        if self._pool:
            self._pool.shutdown(cancel_futures=True)
        self._held.close()

    def ignored(self, option: str, why: str) -> None:
        """Warn about an option the user typed that does nothing here."""
        if option in self.given:
            self.console.warn(f"--{option.replace('_', '-')} has no effect {why}")

    @property
    def place(self) -> Place:
        """Which units of work are this run's: all without --shard."""
        return self.shard or Place()

    def check_output(self, kind: str, format: str | None = None) -> None:
        """Refuse an output that cannot be made, before any work is done."""
        if self.shard is not None:
            kind = f"{kind}-shard"
        if not self.dry_run:
            artifacts.check_output(self.output, kind, format=format, clobber=self.clobber)

    def require_memory(self, size: int, what: str) -> None:
        """Refuse work that would need more bytes than --max-memory, by default half of what is free."""
        limit = self.max_memory or memory.default_limit()
        if size > limit:
            needed, allowed = readable(size), readable(limit)
            raise DataError(f"{what} would take {needed}, more than the {allowed} allowed", hint="raise --max-memory if the machine has it")

    def load(
        self,
        path: str,
        role: str,
        *,
        kinds: Collection[str] | None,
        input_format: str | None = None,
        label: str | None = None,
        keep: Collection[str] = (),
    ) -> Artifact:
        """Read an input and remember it for the record."""
        if path == "-" and any(artifact.name == "stdin" for artifact in self.inputs.values()):
            raise BadUsage("stdin can be read only once", hint="name a file in the place of one -")
        note = self.console.note
        limit = self.max_memory
        artifact = artifacts.load(path, kinds=kinds, input_format=input_format, label=label, max_memory=limit, note=note, keep=keep)
        self.inputs[role] = replace(artifact, value=None)  # the record needs no rows: let the command free them
        self.console.detail(f"{artifact.name}: {artifact.kind}, {readable(artifact.size)}, sha256 {artifact.sha256[:12]}")
        return artifact

    def record(self) -> dict[str, Any]:
        """The provenance record of this stage: software, command, parameters, input digests."""
        return provenance.record(self.command, self.parameters, self.inputs)

    def save(self, value: Any, summary: str, *, history: Artifact | None = None, format: str | None = None) -> None:
        """Write the one artifact, say so in the closing line, and drop the checkpoint."""
        earlier = [] if history is None else list(history.history)
        records = earlier if self.restores else [*earlier, self.record()]
        written = artifacts.save(self.output, value, records, format=format, clobber=self.clobber)
        self.console.note(f"{summary}, {self.console.elapsed():.1f} s → {written.kind} {readable(written.size)}")
        if self.checkpoint:
            self._saved = False
            artifacts.remove_checkpoint(self.checkpoint)

    def map(self, function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
        """`map` over our own workers, in order; plain `map` with one thread."""
        if self.threads == 1:
            return map(function, *iterables)
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="herd")
        return self._pool.map(function, *iterables)

    def iterate(
        self,
        step: Callable[[S], S],
        init: Callable[[], S],
        *,
        steps: int,
        label: str,
        until: Callable[[S], bool] | None = None,
        after: Callable[[S], tuple[float, int]] | None = None,
    ) -> S:
        """Run an algorithm from its start, or from the checkpoint under --resume, with progress.

        until  says when a stream of unknown length has ended; `steps` is then a bound, and there is no bar.
        after  for --dry-run, from a state: the seconds and bytes of what follows the steps.
        """
        if self.dry_run:
            self._print_plan(step, init(), steps, label, after)
        path, digest = self.checkpoint, provenance.digest(self.record())
        digest += f" {self.shard}" if self.shard else ""
        state = init()
        if path and self.resume:
            saved = artifacts.load_checkpoint(path, type(state), digest, like=state)
            if saved is None:
                self.console.note(f"no checkpoint at {path} yet: starting afresh")
            else:
                state, self._saved = saved, True
                if not 0 <= state.step <= steps:
                    raise DataError(f"is at step {state.step} of {steps}", where=path)
                step = _fitting(step, state, path)
                self.console.note(f"going on from step {state.step}" + ("" if until else f" of {steps}"))

        def keep(now: S) -> None:
            artifacts.save_checkpoint(str(path), now, digest)
            self._saved = True

        with self.console.progress(label) as progress:
            shown = None if until else progress
            return iterate.run(step, state, steps=steps, until=until, checkpoint=keep if path else None, every=self.every, progress=shown)

    def _print_plan(
        self, step: Callable[[S], S], state: S, steps: int, label: str, after: Callable[[S], tuple[float, int]] | None
    ) -> NoReturn:
        """Try the first steps, say what the whole would take, and end the command."""
        started, first = time.monotonic(), state.step
        while state.step < steps and time.monotonic() - started < TRIAL_SECONDS:
            state = step(state)
        seconds = (time.monotonic() - started) * (steps - first) / max(1, state.step - first)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        more, size = after(state) if after else (0.0, 0)
        seconds, peak = seconds + more, peak + size
        write_stdout(f"{label}: {steps} step{'' if steps == 1 else 's'}, about {seconds:.3g} s and {readable(peak)} of memory\n")
        raise click.exceptions.Exit(0)


def _fitting(step: Callable[[S], S], resumed: S, path: str) -> Callable[[S], S]:
    """`step`, whose first call tells whether what a checkpoint holds, in the right types and shapes, can be gone on from."""

    def guarded(state: S) -> S:
        if state is not resumed:
            return step(state)
        try:
            return step(state)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise DataError(
                f"holds no state that this run can go on from ({error})", where=path, hint="start afresh without --resume"
            ) from error

    return guarded
