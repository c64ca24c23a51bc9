"""The messages that a user sees on stderr: notes, warnings, progress.  stdout is for data and is not used here."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from herdcli.errors import WriteFailed, escape_text

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from herdcli.algorithm import RunProgress

SECONDS_BEFORE_BAR = 2.0
SECONDS_BETWEEN_LINES = 60.0


class Console:
    """The messages of one command.

    startup    seconds that the process took before the command began, if the process runs only this command.
    warned     the warnings so far.
    noted      the lines printed so far; none is printed twice, as when a file is read again with other options.
    verbosity  −1 quiet (errors only), 0 default (notes, warnings, the closing line), 1 details too.
    """

    startup = 0.0

    def __init__(self, command: str, verbosity: int = 0) -> None:
        self.command = command
        self.verbosity = verbosity
        self.started = time.monotonic()
        self.warned: list[str] = []
        self.noted: set[str] = set()

    def elapsed_seconds(self) -> float:
        """Return the seconds since the command began."""
        return time.monotonic() - self.started

    def note(self, message: str) -> None:
        """Print one line that a user should see by default."""
        if self.verbosity >= 0 and message not in self.noted:
            self.noted.add(message)
            self._print(message)

    def warn(self, message: str) -> None:
        """Print and collect one warning, about something that is probably not intended."""
        self.warned.append(message)
        self.note(f"warning: {message}")

    def detail(self, message: str) -> None:
        """Print one line that only -v shows."""
        if self.verbosity >= 1:
            self._print(message)

    def print_error(self, message: str, hint: str | None = None) -> None:
        """Print an error after which the command continues, in the form of an error that ends it; -q does not hide it."""
        self._write(f"herd {self.command}: {escape_text(message)}\n" + (f"hint: {escape_text(hint)}\n" if hint else ""))

    def _print(self, message: str) -> None:
        self._write(f"{self.command}: {escape_text(message)}\n")

    def _write(self, text: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()

    def progress(self, label: str) -> ProgressDisplay:
        """Return a progress display: a context manager whose `show` takes a RunProgress."""
        return ProgressDisplay(self, label)


class ProgressDisplay:
    """A progress bar on a terminal, shown once a run takes more than 2 s; in a log, one line per minute.

    Next to the bar is the main metric (residual, likelihood, error).  If the number of steps is unknown, the bar moves continuously and
    counts the steps.
    """

    def __init__(self, console: Console, label: str) -> None:
        self.console = console
        self.label = label
        self.started = time.monotonic()
        self.next_look = self.started + SECONDS_BEFORE_BAR
        self.bar: RichProgress | None = None
        self.task: TaskID | None = None
        self.terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show(self, progress: RunProgress) -> None:
        """Show the progress of a run, unless the last update was too recent."""
        now = time.monotonic()
        if now < self.next_look or self.console.verbosity < 0:
            return
        if self.terminal:
            self._draw(progress, now)
        elif now - self.started >= SECONDS_BETWEEN_LINES:
            self.next_look = now + SECONDS_BETWEEN_LINES
            self.console.note(f"{self.label}: {self._line(progress, now)}")

    def _line(self, progress: RunProgress, now: float) -> str:
        figure = f", {progress.figure}" if progress.figure else ""
        if progress.bound is None:
            return f"{progress.step} steps in {now - self.started:.0f} s{figure}"
        left = (now - self.started) * (1.0 - progress.done) / max(progress.done, 1e-9)
        return f"{progress.step} of {progress.bound} ({int(100 * progress.done)} %), about {left:.0f} s left{figure}"

    def _draw(self, progress: RunProgress, now: float) -> None:
        self.next_look = now + 0.1
        if self.bar is None:
            elapsed = now - self.started
            if progress.bound is not None and elapsed < SECONDS_BEFORE_BAR * progress.done:
                return
            self._begin(progress)
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=progress.step, figure=progress.figure)

    def _begin(self, progress: RunProgress) -> None:
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        clock = TimeElapsedColumn() if progress.bound is None else TimeRemainingColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), clock, TextColumn("{task.fields[figure]}"))
        self.bar = RichProgress(*columns, console=RichConsole(stderr=True), transient=True)
        self.bar.start()
        self.task = self.bar.add_task(f"{self.console.command}: {self.label}", total=progress.bound, figure=progress.figure)


def printable_name(name: str) -> str:
    """Return a file's name as printable text; bytes that are not UTF-8 become \\xNN."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def write_stdout(text: str) -> None:
    """Write text to stdout, escaped and flushed before the command ends.  Raises WriteFailed if stdout is closed or full."""
    if sys.stdout is None:
        raise WriteFailed("standard output is closed", where="stdout")
    try:
        sys.stdout.write(escape_text(text, keep="\n\t"))
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = None  # the interpreter would flush it again at exit
        raise
    except OSError as error:
        sys.stdout = None
        raise WriteFailed(f"cannot write: {error.strerror}", where="stdout") from error
