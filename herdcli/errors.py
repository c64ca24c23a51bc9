"""Everything that can go wrong by a user's hand, each with the exit code that scripts see.

An error is raised where its cause is known and becomes one line on stderr at the one boundary,
`herdcli.cli.main.main`:  `herd COMMAND: WHERE: MESSAGE`, then `hint: HINT` when there is one.
"""

from __future__ import annotations

import re

# controls of terminals, line ends of Unicode and controls of its writing direction, half characters
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
UNRECKONABLE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)  # raised by values that fit nothing
NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escape_text(text: str, keep: str = "") -> str:
    """Text that a terminal shows and does not obey: what steers it, escape sequences among that, as \\n, \\t or \\uNNNN.

    keep  characters to leave, as the line ends of a table.
    """
    return UNPRINTABLE.sub(lambda found: found[0] if found[0] in keep else NAMED.get(found[0], f"\\u{ord(found[0]):04x}"), text)


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: other bytes of a command line are half characters in Python, as escapes of JSON can be."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


class HerdError(Exception):
    """Base of all expected failures.

    message  what is wrong, without the file's name.  where  file and place inside it, "digits.h5".
    hint     what to do instead, one line.
    """

    exit_code = 70

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        return escape_text(f"{self.where}: {self.message}" if self.where else self.message)  # one line, whatever a file's name holds


class IncompletePart(HerdError):
    """A unit family, rule or algorithm of the program lacks something that it has to have: a fault of the program, not of its user."""


class NegativeResult(HerdError):
    """The computation ran and its answer is "no": a bar missed, a self-test failed."""

    exit_code = 1


class NotConverged(NegativeResult):
    """An iteration ended without reaching its tolerance, and the user asked for that to be an error."""


class Diverged(NegativeResult):
    """Parameters left the finite range."""


class BadUsage(HerdError):
    """Options that contradict each other or cannot apply to this input."""

    exit_code = 2


class DataError(HerdError):
    """The input was read and cannot be accepted: damaged, wrong kind, wrong values."""

    exit_code = 65


class NoRoom(DataError):
    """More memory is needed than is allowed; what else there is to try may need less."""


class NoInput(HerdError):
    """The input cannot be read at all: missing, a directory, an empty pipe."""

    exit_code = 66


class CannotCreate(HerdError):
    """The output may not or cannot be created."""

    exit_code = 73


class WriteFailed(HerdError):
    """The output was begun and could not be finished: disk full, closed stdout."""

    exit_code = 74


class Locked(HerdError):
    """Another run holds the file."""

    exit_code = 75


class Unreachable(HerdError):
    """A file cannot be downloaded: no network, or no address has it."""

    exit_code = 69


class Unavailable(HerdError):
    """What the work needs is not to be had now, as the workers of a cluster."""

    exit_code = 75


class Interrupted(HerdError):
    """A signal ended the run.  With a checkpoint saved the run can go on: 75; else 128 + signal."""

    def __init__(self, signal_number: int, *, step: int | None = None) -> None:
        super().__init__("interrupted" if step is None else f"interrupted after step {step}")
        self.exit_code = 128 + signal_number

    def can_resume(self, *, begun: bool = True) -> None:
        """Say that a checkpoint of the run is there, or that nothing was done before the signal."""
        self.exit_code = 75
        self.hint = "the checkpoint is saved: continue with --resume" if begun else "no step was done yet: run it again"
