"""Atomic output: a file appears complete or not at all, whatever the destination is.

A file is written next to its destination, in `.NAME.herd-tmp` (locked; a file left by a killed run is
used again), synced, and renamed to its destination.  Standard output, devices and FIFOs receive a copy of a
finished temporary file, so that a failing command writes nothing into a pipe.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import os
import re
import select
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from herdcli.artifacts import file_locks
from herdcli.errors import BadUsage, CannotCreate, HerdError, WriteFailed

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
REFUSED = {errno.EBADF, errno.EMFILE, errno.ENFILE, errno.EPERM, errno.EACCES, errno.EROFS, errno.ENODEV, errno.ESTALE}
PIPE_BYTES = 1 << 20
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_OWN = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_ANOTHERS = re.compile(r"/proc/\d+/fd/\d+")


def check_destination(path: str, *, clobber: bool = True, binary: bool = True) -> None:
    """Raise the errors that `atomic_file` would raise at the end: for use before the work.

    It checks for a terminal (for binary output), a closed stdout, a missing or unwritable folder, a folder as
    target, and no-clobber.
    """
    if path == "-":
        _check_stdout(binary)
        return
    target = _resolve_links(path)
    if not _is_stream(target):
        _check_target(target, path, clobber)


@contextlib.contextmanager
def atomic_file(path: str, *, clobber: bool = True, binary: bool = True) -> Iterator[Path]:
    """Yield the path of a temporary file that becomes `path` if the body succeeds and is removed if it fails.

    "-" is stdout; an existing destination that is not a regular file is written like stdout.  binary: refuse a terminal.
    Raises CannotCreate (73), WriteFailed (74), Locked (75), BadUsage (2) for a terminal; lets
    BrokenPipeError through.
    """
    target = path if path == "-" else _resolve_links(path)
    shown = "stdout" if path == "-" else path
    if path == "-":
        _check_stdout(binary)
    if path == "-" or _is_stream(target):
        with _convert_write_errors(shown), scratch_file() as temporary:
            yield temporary
            _copy_to_stream(temporary, target)
        return
    _check_target(target, path, clobber)
    temporary, descriptor = _lock_temporary(target, path)
    try:
        with _convert_write_errors(shown):
            yield temporary
            _commit(temporary, descriptor, target, path, clobber)
    except BaseException:  # raised again
        if file_locks.is_lock_current(temporary, descriptor):
            temporary.unlink()
        raise
    finally:
        _close_quietly(descriptor)


@contextlib.contextmanager
def scratch_file(*, named: bool = False) -> Iterator[Path]:
    """Yield an empty file in $TMPDIR, which is removed when the body ends.

    If the system supports files without names, it also vanishes when the process is killed.
    named  the file needs a name: HDF5 cannot read a file without one.
    """
    if not named and (nameless := _open_unnamed_descriptor()) is not None:
        try:
            yield Path(f"/proc/self/fd/{nameless}")
        finally:
            os.close(nameless)
        return
    try:
        descriptor, name = tempfile.mkstemp(prefix="herd-")
    except OSError as error:
        hint = "set TMPDIR to a folder with enough space"
        raise WriteFailed(
            f"cannot create a temporary file for the output ({_error_reason(error)})",
            where=os.environ.get("TMPDIR", "TMPDIR"),
            hint=hint,
        ) from error
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _open_unnamed_descriptor() -> int | None:
    """Return a descriptor of a file without a name, or None if the system does not support them."""
    if not hasattr(os, "O_TMPFILE") or not os.path.exists("/proc/self/fd"):
        return None
    try:
        return os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _check_stdout(binary: bool) -> None:
    if sys.stdout is None or sys.stdout.closed:
        raise WriteFailed("standard output is closed", where="stdout", hint="write to a file: -o FILE")
    if binary and sys.stdout.isatty():
        hint = "name a file with -o FILE, redirect with > FILE, or pipe into another command: | herd eval"
        raise BadUsage("the output is binary and stdout is a terminal", where="stdout", hint=hint)


def _resolve_links(path: str) -> str:
    """Return the path with symbolic links resolved, except the names of open descriptors."""
    seen: set[str] = set()
    while os.path.islink(path) and not _is_descriptor_path(path):
        if path in seen:
            raise CannotCreate("is a symbolic link that leads to itself", where=path)
        seen.add(path)
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return path


def descriptor_number(path: str) -> int | None:
    """Return N for /dev/fd/N, /proc/self/fd/N, /dev/stdin and the like; None for other paths."""
    normal = os.path.normpath(path)
    match = _OWN.fullmatch(normal)
    return int(match[1]) if match else _STANDARD.get(normal)


def _is_descriptor_path(path: str) -> bool:
    return descriptor_number(path) is not None or bool(_ANOTHERS.fullmatch(os.path.normpath(path)))


def _is_stream(target: str) -> bool:
    """Return whether the target is something that a rename would destroy: a device, a FIFO, an open descriptor.

    Links must be resolved, except the names of open descriptors.
    """
    if _is_descriptor_path(target):
        return True
    try:
        mode = os.stat(target).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def goes_to_stream(path: str) -> bool:
    """Return whether an output goes to stdout, a device, a FIFO or an open descriptor, so that no file can lie next to it."""
    return path == "-" or _is_stream(_resolve_links(path))


def _check_target(target: str, path: str, clobber: bool) -> None:
    folder = os.path.dirname(target) or "."
    if "\0" in path or not path:
        raise CannotCreate("is not a valid file name", where=repr(path))
    if os.path.isdir(target):
        raise CannotCreate("is a directory", where=path, hint="give the name of a file in it")
    if not os.path.isdir(folder):
        raise CannotCreate(f"the folder {folder} does not exist", where=path, hint=f"mkdir -p {shlex.quote(folder)}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CannotCreate(f"the folder {folder} cannot be written to", where=path, hint="choose another folder, or change its permissions")
    if not clobber and os.path.exists(target):
        raise _exists_error(path)


def _exists_error(path: str) -> CannotCreate:
    return CannotCreate("exists already, and --no-clobber is set", where=path, hint="remove it, choose another name, or drop --no-clobber")


def _lock_temporary(target: str, path: str) -> tuple[Path, int]:
    """Open `.NAME.herd-tmp` next to the target, lock it and empty it."""
    temporary = file_locks.lock_path(target, "herd-tmp")
    hint = "wait for it, or choose another name"
    descriptor = file_locks.acquire_lock(temporary, "another run is writing this file", where=path, hint=hint)
    if not _is_own_file(descriptor):  # a link to another file: that file must not be written
        os.close(descriptor)
        descriptor, name = tempfile.mkstemp(prefix=f"{temporary.name[:200]}.", dir=temporary.parent)
        return Path(name), descriptor
    try:
        with _convert_write_errors(path):
            os.ftruncate(descriptor, 0)
    except BaseException:  # raised again
        temporary.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return temporary, descriptor


def _is_own_file(descriptor: int) -> bool:
    """Return whether an open file belongs to this user and has only one name."""
    found = os.fstat(descriptor)
    return found.st_nlink == 1 and found.st_uid == os.geteuid()


def _commit(temporary: Path, descriptor: int, target: str, path: str, clobber: bool) -> None:
    """Sync the finished file, set its mode, rename it, and sync the folder.  The mode is that of the file which is replaced."""
    try:
        os.fchmod(descriptor, _output_permissions(target))
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):  # file systems without modes: FAT, CIFS
            raise
    os.fsync(descriptor)
    if clobber:
        os.replace(temporary, target)
    else:
        _link_if_absent(temporary, target, path)
    folder = os.open(os.path.dirname(target) or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system whose folders cannot be synced
            raise
    finally:
        _close_quietly(folder)


def _output_permissions(target: str) -> int:
    """Return the permissions of the file that is replaced, or those that the umask gives to a new file."""
    with contextlib.suppress(OSError):
        return stat.S_IMODE(os.stat(target).st_mode) & 0o777
    umask = os.umask(0o077)
    os.umask(umask)
    return 0o666 & ~umask


def _close_quietly(descriptor: int) -> None:
    """Close a descriptor whose file has been synced or removed; errors are ignored because they do not matter."""
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _link_if_absent(temporary: Path, target: str, path: str) -> None:
    """Rename the file only if the target does not exist: creating a hard link never replaces a file."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise _exists_error(path) from None
    except OSError:  # a file system without hard links
        if os.path.exists(target):
            raise _exists_error(path) from None
        os.replace(temporary, target)
        return
    os.unlink(temporary)


def _copy_to_stream(source: Path, target: str) -> None:
    """Copy a finished file into stdout, a descriptor, a device or a FIFO."""
    descriptor = _stdout_descriptor() if target == "-" else descriptor_number(target)
    with open(source, "rb") as finished:
        if target == "-" and descriptor is None:
            shutil.copyfileobj(finished, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        elif descriptor is not None:
            copy_to_descriptor(finished, descriptor)
        else:
            with open(target, "wb", buffering=0) as device:
                copy_to_descriptor(finished, device.fileno())


def _stdout_descriptor() -> int | None:
    """Return the descriptor of sys.stdout after flushing it, or None for a stream in memory."""
    sys.stdout.flush()
    try:
        return sys.stdout.fileno()
    except (OSError, ValueError):
        return None


def copy_to_descriptor(source: BinaryIO, descriptor: int) -> None:
    """Copy an open file to a descriptor, inside the kernel if possible, else through a buffer."""
    enlarge_pipe(descriptor)
    size, sent = os.fstat(source.fileno()).st_size, 0
    while sent < size:
        try:
            count = os.sendfile(descriptor, source.fileno(), sent, min(size - sent, 1 << 30))
            if count == 0:
                raise OSError(errno.EIO, "the temporary file shrank while it was copied")
        except BlockingIOError:
            select.select([], [descriptor], [])
            continue
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOPNOTSUPP):
                raise
            count = _write_piece(descriptor, os.pread(source.fileno(), 1 << 18, sent))
        sent += count


def _write_piece(descriptor: int, piece: bytes) -> int:
    try:
        return os.write(descriptor, piece)
    except BlockingIOError:
        select.select([], [descriptor], [])
        return 0


def enlarge_pipe(descriptor: int) -> None:
    """Set the buffer of a pipe to a megabyte: fewer switches between the two processes."""
    with contextlib.suppress(OSError, AttributeError):
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


@contextlib.contextmanager
def _convert_write_errors(shown_name: str) -> Iterator[None]:
    """Convert a full disk and similar errors to WriteFailed; libhdf5 reports the error number only in its message."""
    try:
        yield
    except (HerdError, BrokenPipeError):
        raise
    except (OSError, RuntimeError) as error:
        number = error.errno if isinstance(error, OSError) else None
        buried = re.search(r"errno = (\d+)", str(error))
        number = int(buried[1]) if number is None and buried else number
        number = errno.EIO if str(error) == "error closing file" else number  # the only message of Arrow
        if number in FULL or number in REFUSED:
            raise WriteFailed(f"writing failed ({os.strerror(number or 0)})", where=shown_name, hint=_disk_space_hint(number)) from error
        raise


def _disk_space_hint(number: int | None) -> str | None:
    return (
        "free some disk space, or write elsewhere; TMPDIR sets the folder for temporary files"
        if number in (errno.ENOSPC, errno.EDQUOT)
        else None
    )


def _error_reason(error: OSError) -> str:
    return error.strerror or str(error)


def compress_file(path: Path, compression: str) -> None:
    """Compress a file in place; equal bytes give equal compressed bytes."""
    packed = path.with_name(f"{path.name}.packed")
    try:
        with open(path, "rb") as source, open(packed, "wb") as out:
            if compression == "gzip":
                with gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=0) as stream:
                    shutil.copyfileobj(source, stream, 1 << 20)
            else:
                import pyarrow as pa

                with pa.CompressedOutputStream(pa.PythonFile(out, mode="w"), "zstd") as stream:
                    while piece := source.read(1 << 20):
                        stream.write(piece)
        with open(packed, "rb") as source, open(path, "r+b") as out:
            out.truncate(0)
            shutil.copyfileobj(source, out, 1 << 20)
    finally:
        packed.unlink(missing_ok=True)
