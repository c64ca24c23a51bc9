"""Exceptions that libraries raise for damaged files, told apart from faults in herd's own code, which must end as internal errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from herdcli.artifacts import process_limits
from herdcli.errors import DataError, HerdError

OWN = "herdcli"
REASON = 200  # maximum number of characters of an exception's text in a message


def is_raised_by(error: BaseException, libraries: tuple[str, ...]) -> bool:
    """Return whether code of one of these packages raised the error, or called what raised it, and not herd's own code."""
    packages = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((package for package in reversed(packages) if package in libraries or package == OWN), OWN) != OWN


def error_reason(error: BaseException, length: int = REASON) -> str:
    """Return the text of an exception on one line, or the name of its type if it has none."""
    return " ".join(str(error).split())[:length] or type(error).__name__


@contextmanager
def convert_library_errors(libraries: tuple[str, ...], describe: Callable[[Exception], DataError]) -> Iterator[None]:
    """Replace an exception that one of these packages raises in the body, of whatever type, by the error that `describe` returns.

    HerdError, errors of memory, and all exceptions that herd's own code raises pass.
    """
    try:
        yield
    except (HerdError, MemoryError):
        raise
    except Exception as error:  # libraries raise exceptions of many types for damaged files; whose code raised it decides
        if process_limits.is_memory_error(error):
            raise MemoryError from error
        if not is_raised_by(error, libraries):
            raise
        raise describe(error) from error
