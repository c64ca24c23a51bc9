"""The errors that a user can cause or meet, each with its exit code.

An error is raised where its cause is known and becomes one line on stderr at the one boundary,
`herdcli.cli.main.main`:  `herd COMMAND: WHERE: MESSAGE`, then `hint: HINT` when there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# control characters of terminals, Unicode line ends and bidirectional controls, lone surrogates
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
UNRECKONABLE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)  # raised for values that do not fit
MOST_COLUMNS = 12  # names of columns that an error lists
NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escape_text(text: str, keep: str = "") -> str:
    """Return a text without active control characters: escape sequences and other controls are written as \\n, \\t or \\uNNNN.

    keep  characters that are not escaped, such as the line ends of a table.
    """
    return UNPRINTABLE.sub(lambda found: found[0] if found[0] in keep else NAMED.get(found[0], f"\\u{ord(found[0]):04x}"), text)


def is_unicode(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8; undecodable bytes of a command line and some JSON escapes are lone surrogates."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


class HerdError(Exception):
    """Base of all expected failures.

    message  the problem, without the file's name.  where  file and place inside it, "digits.h5".
    hint     a remedy, one line.  shows_hint: whether the text of the error has it too, for callers in Python, who see nothing else.
    """

    exit_code = 70
    shows_hint = False

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = escape_text(f"{self.where}: {self.message}" if self.where else self.message)  # one line, even if a file name has line ends
        return f"{text}\nhint: {escape_text(self.hint)}" if self.shows_hint and self.hint else text


class IncompletePart(HerdError):
    """A unit family, rule or algorithm of the program lacks a required attribute: a bug in the program, not an error of its user."""


class NegativeResult(HerdError):
    """The computation succeeded and its answer is "no": a threshold was missed or a self-test failed."""

    exit_code = 1


class NotConverged(NegativeResult):
    """An iteration ended without reaching its tolerance, and the user asked for that to be an error."""


class Diverged(NegativeResult):
    """Parameters became infinite or NaN."""


class BadUsage(HerdError):
    """Options that contradict each other or cannot apply to this input."""

    exit_code = 2


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to a mistyped one, or None if none is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.75)), None)


def missing_column_error(option: str, name: str, columns: Iterable[str], where: str | None = None) -> BadUsage:
    """Return the error for an option that names a column which the data lack; the hint has the nearest name, or else the first columns."""
    known = list(columns)
    close = nearest_name(name, known)
    shown = ", ".join(known[:MOST_COLUMNS]) + (" …" if len(known) > MOST_COLUMNS else "")
    hint = f"did you mean {option} {close}?" if close else f"columns: {shown or 'none named'}"
    return BadUsage(f"{option} {name}: there is no such column", where=where, hint=hint)


class DataError(HerdError):
    """The input was read and cannot be accepted: damaged, wrong kind, wrong values."""

    exit_code = 65


class MemoryLimitExceeded(DataError):
    """More memory is needed than is allowed; an alternative method may need less."""


class NoInput(HerdError):
    """The input cannot be read at all: missing, a directory, an empty pipe."""

    exit_code = 66


class CannotCreate(HerdError):
    """The output may not or cannot be created."""

    exit_code = 73


class WriteFailed(HerdError):
    """Writing the output started and could not be completed: disk full, closed stdout."""

    exit_code = 74


class Locked(HerdError):
    """Another run holds the file."""

    exit_code = 75


class Unreachable(HerdError):
    """A file cannot be downloaded: there is no network, or no address has the file."""

    exit_code = 69


class Unavailable(HerdError):
    """A required resource is not available now, such as the workers of a cluster."""

    exit_code = 75


class Interrupted(HerdError):
    """A signal ended the run.  The exit code is 75 if a checkpoint was saved and the run can be resumed, else 128 + signal."""

    def __init__(self, signal_number: int, *, step: int | None = None) -> None:
        super().__init__("interrupted" if step is None else f"interrupted after step {step}")
        self.exit_code = 128 + signal_number
        self._steps = step or 0

    def mark_resumable(self, *, has_checkpoint: bool = True) -> None:
        """Record that a checkpoint exists, or that the signal came before one was saved."""
        self.exit_code = 75
        lost = "no checkpoint was saved yet: run it again" if self._steps else "no step was done yet: run it again"
        self.hint = "the checkpoint is saved: continue with --resume" if has_checkpoint else lost
