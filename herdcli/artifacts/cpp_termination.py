"""One-line errors in place of an abort when a C++ library terminates the process.

Arrow does not catch every failed allocation.  Such an exception never reaches Python: the C++ runtime calls `std::terminate`, which
prints its own message and aborts.  While a command runs, the runtime calls a function of this module instead (std::set_terminate).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any

LIBRARIES = ("libstdc++.so.6", "libc++.1.dylib")
BAD_ALLOC = "St9bad_alloc"  # the mangled name of std::bad_alloc
NAME_OFFSET = ctypes.sizeof(ctypes.c_void_p)  # offset of the name in a std::type_info, after the pointer to the virtual table

TerminationReporter = Callable[[str | None], int]


@contextlib.contextmanager
def report_termination(report: TerminationReporter) -> Iterator[None]:
    """While the body runs, let `report` end the process when the C++ runtime would abort; without a C++ runtime, do nothing.

    report  gets the mangled name of the exception's type, or None without an exception; it prints a line and returns the exit code.
    """
    runtime = _cxx_runtime()
    if runtime is None:
        yield
        return

    def end() -> None:
        os._exit(report(_exception_type(runtime)))

    handler = ctypes.CFUNCTYPE(None)(end)
    set_terminate = runtime._ZSt13set_terminatePFvvE
    set_terminate.restype = ctypes.c_void_p
    before = set_terminate(handler)
    try:
        yield
    finally:
        set_terminate(ctypes.c_void_p(before))


def _cxx_runtime() -> Any:
    for name in LIBRARIES:
        with contextlib.suppress(OSError, AttributeError):
            found = ctypes.CDLL(name)
            if hasattr(found, "_ZSt13set_terminatePFvvE") and hasattr(found, "__cxa_current_exception_type"):
                return found
    return None


def _exception_type(runtime: Any) -> str | None:
    """Return the mangled type name of the uncaught exception."""
    current = runtime.__cxa_current_exception_type
    current.restype = ctypes.c_void_p
    if (information := current()) is None:
        return None
    name = ctypes.cast(information + NAME_OFFSET, ctypes.POINTER(ctypes.c_char_p))[0]
    return None if name is None else name.decode("ascii", "replace")


def is_out_of_memory(exception_type: str | None) -> bool:
    """Return whether the exception means that memory could not be allocated."""
    return exception_type is not None and BAD_ALLOC in exception_type
