"""A memory limit of the process, enforced by the operating system: unforeseen allocations end in an error line, not in a killed process.

Declared sizes are checked before anything is read, and decompressed bytes while they are read (`memory_budget.require_memory`).  Both
checks know the input, but not what a library does with it.  Behind them is RLIMIT_DATA, which on Linux counts every writable private
page (setrlimit(2)), so that the resident ones can never exceed it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from herdcli.artifacts.message_numbers import format_size
from herdcli.errors import DataError, HerdError

SHARE = (
    250_000_000  # bytes that a process may use in any case: interpreter and libraries take up to 150 MB, and code is loaded as it is used
)
LOADED = 150_000_000  # resident part of SHARE at the start; the process of another program, such as a test, may have more
CODE = 25_000_000  # library pages that are loaded later and are not data
STACK = 9_000_000  # one thread's stack
HINT = "raise --max-memory if the machine has it"
WORDS = (  # messages of libraries that have no exception of their own for it
    *("cannot allocate memory", "memory allocation failed", "bad_alloc", "can't start new thread", "out of memory", "allocation error"),
    *("failed to map segment", "malloc", "unable to allocate"),
)

M_MMAP_THRESHOLD, OF_ITS_OWN = -3, 1 << 17  # of mallopt(3); the block size from which freed blocks return to the system at once

COPIES = 8  # copies of rows in memory while they are checked, converted, joined and used
WARMING = 256  # rows of the square matrices whose product makes BLAS allocate its buffers

_allowed: list[int] = []  # the limit of the current run


@contextlib.contextmanager
def limit_memory(limit: int | None, threads: int = 1) -> Iterator[None]:
    """Limit this process to max(limit, SHARE) bytes of resident memory while the body runs, if the system supports it.

    limit    None: no limit.  Not used in a thread of another program, since the limit applies to the whole process.
    threads  the number of simultaneous threads; each has its own stack and buffers, of which little is resident.
    """
    if limit is None or not _are_limits_supported():
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    pool = os.environ.get("ARROW_DEFAULT_MEMORY_POOL")
    _preload_libraries()
    _warm_up_blas(threads)
    wanted = _process_memory("VmData") + max(limit, SHARE) - min(_process_memory("VmRSS"), LOADED) - CODE + threads * STACK
    soft = min([wanted, *(bound for bound in before if bound != resource.RLIM_INFINITY)])
    hard = before[1]
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    _allowed.append(limit)
    try:
        yield
    finally:
        _allowed.pop()
        resource.setrlimit(resource.RLIMIT_DATA, before)
        if pool is None:
            os.environ.pop("ARROW_DEFAULT_MEMORY_POOL", None)


def _are_limits_supported() -> bool:
    return sys.platform == "linux" and threading.current_thread() is threading.main_thread() and os.path.exists("/proc/self/status")


def _process_memory(name: str) -> int:
    """Return a memory size of this process in bytes, from the kernel's field of this name."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def allocatable_bytes() -> int:
    """Return the bytes that may still be allocated under the limits of run and address space; the largest number without a limit."""
    found = sys.maxsize
    for limit, name, holds in ((resource.RLIMIT_DATA, "VmData", bool(_allowed)), (resource.RLIMIT_AS, "VmSize", sys.platform == "linux")):
        soft, _ = resource.getrlimit(limit)
        if soft != resource.RLIM_INFINITY and holds:
            found = min(found, max(0, soft - _process_memory(name)))
    return found


def bytes_per_block_read() -> int:
    """Return the bytes of rows to read at one time from a file: few enough for COPIES of them to fit."""
    return allocatable_bytes() // COPIES


def _preload_libraries() -> None:
    """Load large libraries before the limit is set, because OpenBLAS repeats its requests for buffers, while it is loaded, without end.

    pyarrow's own allocator reserves a gigabyte at once; the system's allocates only the requested bytes.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    import pyarrow as pa
    import scipy.linalg  # noqa: F401

    pa.set_memory_pool(pa.system_memory_pool())
    _return_freed_blocks()


def _return_freed_blocks() -> None:
    """Make glibc return large blocks to the system when they are freed, instead of keeping them in a heap that cannot shrink."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, OF_ITS_OWN)


def _warm_up_blas(threads: int) -> None:
    """Make BLAS allocate its buffers now, which it keeps; if BLAS could not allocate them later, it would end the process."""
    from scipy.linalg import blas

    gate, square = threading.Barrier(threads), np.ones((WARMING, WARMING))

    def run() -> None:
        for product in (np.matmul, partial(blas.dgemm, 1.0)):
            gate.wait()
            product(square, square)

    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def is_memory_error(error: BaseException | None) -> bool:
    """Return whether an error was caused by a lack of memory; its chain of exceptions counts, herd's own messages do not."""
    seen: set[int] = set()  # an exception that passed through a library's reader may be the context of its own context
    while error is not None and id(error) not in seen:
        if isinstance(error, MemoryError):
            return True
        if not isinstance(error, HerdError) and any(word in str(error).lower() for word in WORDS):
            return True
        seen.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def memory_error_for(error: BaseException, inputs: Sequence[str] = ()) -> DataError | None:
    """Return the error to report for an exception caused by the memory limit, however a library words it; None for other exceptions.

    inputs  names of the inputs; the last one is reported if the exception names no location.
    """
    if not _allowed or not is_memory_error(error) or (isinstance(error, DataError) and (error.hint or "").endswith(HINT)):
        return None
    return out_of_memory_error(where=getattr(error, "where", None) or (inputs[-1] if inputs else None))


def out_of_memory_error(*, where: str | None = None) -> DataError:
    """Return the error for work that ran out of memory."""
    if not _allowed:
        return DataError("does not fit into memory", where=where, hint="use fewer rows, or a machine with more memory")
    return DataError(f"needs more memory than the {format_size(max(_allowed[-1], SHARE))} allowed", where=where, hint=HINT)
