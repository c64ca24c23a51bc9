"""Restrictions that the kernel can put on this process: no writing outside a folder, no TCP, no outliving its parent.  Linux only.

On other systems these functions do nothing.  Landlock: https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys

RULESET, RULE, RESTRICT = 444, 445, 446  # system calls, the same numbers on all processors
PATH_BENEATH, VERSION = 1, 1
DEATH_SIGNAL, NO_NEW_PRIVILEGES = 1, 38  # arguments of prctl(2)
WRITE_FILE, REFER, TRUNCATE = 1 << 1, 1 << 13, 1 << 14
MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
TCP = 0b11  # bind and connect


def restrict_writes_to_folder(folder: str) -> bool:
    """Forbid this process and its children to write except in a folder and to /dev/null; return whether the kernel supports it.

    The restriction applies to threads that start later, not to threads that are running.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(RULESET, None, 0, VERSION)
    if version < 1:  # an older kernel, or one without Landlock
        return False
    writing = WRITE_FILE | MAKE_AND_REMOVE | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    attributes = struct.pack("=QQ", writing, TCP)[: 16 if version >= 4 else 8]
    ruleset = libc.syscall(RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        to_null = writing & (WRITE_FILE | TRUNCATE)
        allowed = _allow_access(libc, ruleset, folder, writing) and _allow_access(libc, ruleset, os.devnull, to_null)
        return allowed and libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.syscall(RESTRICT, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow_access(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> bool:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return bool(libc.syscall(RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0) == 0)
    finally:
        os.close(descriptor)


def kill_when_parent_ends() -> None:
    """Have this process killed when its parent ends, for whatever reason."""
    if sys.platform == "linux":
        parent = os.getppid()
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the call
            os.kill(os.getpid(), signal.SIGKILL)
