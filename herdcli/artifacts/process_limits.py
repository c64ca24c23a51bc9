"""A bound on what the process may take, held by the operating system: what nobody foresaw ends with a line instead of a killed process.

Declared sizes are checked before anything is read, decompressed bytes while they are (`memory_budget.require_memory`); both know the input
and not what a
library does with it. Under them stands RLIMIT_DATA, which on Linux counts every private page that can be written to (setrlimit(2)), so
that what is resident of them can never be more.
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
    250_000_000  # what a process may have in any case: interpreter and libraries take up to 150 MB of it, and code comes in as it is used
)
LOADED = 150_000_000  # of that, what is resident when this begins; another program's process, as a test's, may have more
CODE = 25_000_000  # pages of libraries that are read in later, which are no data
STACK = 9_000_000  # of a thread
HINT = "raise --max-memory if the machine has it"
WORDS = (  # of libraries that have no exception of their own for it
    *("cannot allocate memory", "memory allocation failed", "bad_alloc", "can't start new thread", "out of memory", "allocation error"),
    *("failed to map segment", "malloc", "unable to allocate"),
)

M_MMAP_THRESHOLD, OF_ITS_OWN = -3, 1 << 17  # of mallopt(3); bytes of a block that goes back to the system as soon as it is freed

COPIES = 8  # of rows that are read, as they are checked, converted, joined and reckoned with
WARMING = 256  # rows of the squares whose product takes the buffers

_allowed: list[int] = []  # the bound of the run that is going on


@contextlib.contextmanager
def limit_memory(limit: int | None, threads: int = 1) -> Iterator[None]:
    """Keep this process to max(limit, SHARE) bytes of resident memory while the body runs, where the system can.

    limit    None: no bound.  Not in a thread of another program: the bound is the whole process's.
    threads  that will work at a time, each with a stack and buffers of its own, of which little is resident.
    """
    if limit is None or not _limits_supported():
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


def _limits_supported() -> bool:
    return sys.platform == "linux" and threading.current_thread() is threading.main_thread() and os.path.exists("/proc/self/status")


def _process_memory(name: str) -> int:
    """Bytes that the kernel tells of this process under a name."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def available_bytes() -> int:
    """Bytes that may still be taken, of those that the run and its address space are allowed; the largest number without a bound."""
    found = sys.maxsize
    for limit, name, holds in ((resource.RLIMIT_DATA, "VmData", bool(_allowed)), (resource.RLIMIT_AS, "VmSize", sys.platform == "linux")):
        soft, _ = resource.getrlimit(limit)
        if soft != resource.RLIM_INFINITY and holds:
            found = min(found, max(0, soft - _process_memory(name)))
    return found


def read_block_bytes() -> int:
    """Bytes of rows to read at one time where rows stay in their file: so few that COPIES of them fit."""
    return available_bytes() // COPIES


def _preload_libraries() -> None:
    """Load what is large before there is a bound: OpenBLAS, as it is loaded, asks for its buffers until it gets them.

    pyarrow's own allocator reserves a gigabyte at once; the system's takes what is asked for.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    import pyarrow as pa
    import scipy.linalg  # noqa: F401

    pa.set_memory_pool(pa.system_memory_pool())
    _return_freed_blocks()


def _return_freed_blocks() -> None:
    """Have glibc give large blocks back when they are freed, instead of more and more of them to a heap that cannot shrink."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, OF_ITS_OWN)


def _warm_up_blas(threads: int) -> None:
    """Have BLAS take its buffers, which it keeps: where it cannot get them later it ends the process."""
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
    """Was there no memory to be had?  What an exception was made of counts, a line of herd's own does not."""
    seen: set[int] = set()  # an exception that passed through a reader of a library may be its own context's context
    while error is not None and id(error) not in seen:
        if isinstance(error, MemoryError):
            return True
        if not isinstance(error, HerdError) and any(word in str(error).lower() for word in WORDS):
            return True
        seen.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def memory_error_for(error: BaseException, inputs: Sequence[str] = ()) -> DataError | None:
    """What to say instead of an exception that the bound has brought about, however a library has worded it; None for others.

    inputs  names of what was read; where the exception has no place, the last of them is it.
    """
    if not _allowed or not is_memory_error(error) or (isinstance(error, DataError) and (error.hint or "").endswith(HINT)):
        return None
    return memory_error(where=getattr(error, "where", None) or (inputs[-1] if inputs else None))


def memory_error(*, where: str | None = None) -> DataError:
    """The line for work that memory did not suffice for."""
    if not _allowed:
        return DataError("does not fit into memory", where=where, hint="use fewer rows, or a machine with more memory")
    return DataError(f"takes more memory than the {format_size(max(_allowed[-1], SHARE))} allowed", where=where, hint=HINT)
