"""File locks that end with the process that holds them (flock); on file systems without locks, nothing is locked."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from herdcli.errors import CannotCreate, Locked


def lock_path(target: str, suffix: str) -> Path:
    """Return the hidden file `.NAME.suffix` in the target's folder; a very long NAME is cut."""
    folder, name = os.path.split(target)
    stem = name if len(os.fsencode(name)) <= 240 else os.fsencode(name)[:200].decode("utf-8", "ignore")
    return Path(folder or ".", f".{stem}.{suffix}")


def acquire_lock(file: Path, message: str, *, where: str, hint: str | None = None) -> int:
    """Return an open, locked descriptor of `file`, which is created if needed.

    where  the name shown in errors.  Raises Locked (75) with the message while another process holds it, CannotCreate (73).
    """
    while True:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            reason = "is a symbolic link" if error.errno == errno.ELOOP else f"cannot be created ({error.strerror or error})"
            raise CannotCreate(reason, where=where) from error
        try:
            _lock_descriptor(descriptor, message, where, hint)
            if is_lock_current(file, descriptor):
                return descriptor
        except BaseException:  # raised again
            os.close(descriptor)
            raise
        os.close(descriptor)


def is_lock_current(file: Path, descriptor: int) -> bool:
    """Return whether the locked file still has this name.  (A previous run may have renamed or removed it.)"""
    try:
        return os.path.samestat(os.stat(file, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def hold_lock(path: str, message: str, *, hint: str | None = None) -> Iterator[None]:
    """Hold the lock file at `path`; the file is not removed, as with flock(1)."""
    descriptor = acquire_lock(Path(path), message, where=path, hint=hint)
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold_output_lock(path: str, message: str, *, hint: str | None = None) -> Iterator[None]:
    """Hold a lock file next to `path`, so that only one run writes `path` repeatedly; the lock file is removed at the end."""
    file = lock_path(path, "herd-lock")
    descriptor = acquire_lock(file, message, where=path, hint=hint)
    try:
        yield
    finally:
        if is_lock_current(file, descriptor):
            with contextlib.suppress(OSError):  # without a lock the file is harmless
                file.unlink()
        os.close(descriptor)


def _lock_descriptor(descriptor: int, message: str, where: str, hint: str | None) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Locked(message, where=where, hint=hint) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
