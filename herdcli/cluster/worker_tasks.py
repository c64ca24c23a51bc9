"""What runs on a worker: functions that are found by import path, which take and give plain values and the bytes of artifacts.

A unit is the command itself under --shard, in the worker's process; what came of it is the bytes of its shard, or what went wrong, as
words: exceptions are not sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from herdcli import iterate
from herdcli.scratch import scratch_folder

Reply = dict[str, Any]
File = dict[str, Any]  # path, size, sha256, name, as it was typed, and what stands before it in its word
_running: dict[str, set[int]] = {}  # threads that work for a run
_stopped: set[str] = set()
_guard = threading.Lock()


@cache
def environment() -> dict[str, str]:
    """What decides the bytes that this process makes: versions, and the kernels of BLAS."""
    import numpy as np
    import scipy.linalg  # loads its BLAS, which is told of too
    from threadpoolctl import threadpool_info, threadpool_limits

    from herdcli import __version__

    threadpool_limits(1, user_api="blas")  # for good: sums must not depend on the machine's cores
    libraries = {
        f"{each['internal_api']} {each['version']} {each.get('architecture')}" for each in threadpool_info() if each["user_api"] == "blas"
    }
    return {"herd": __version__, "NumPy": np.__version__, "SciPy": scipy.__version__, "BLAS": ", ".join(sorted(libraries))}


def visible_files(files: list[File]) -> list[bool]:
    """Whether this process sees each file, with the same bytes."""
    return [_sees(each) for each in files]


def _sees(file: File) -> bool:
    try:
        status = os.stat(file["path"])
    except OSError:
        return False
    if os.path.isdir(file["path"]):
        return file["sha256"] is None
    return bool(status.st_size == file["size"]) and file_digest(file["path"], status.st_mtime_ns, status.st_ino) == file["sha256"]


@cache
def file_digest(path: str, changed: int, inode: int) -> str | None:
    """SHA-256 in hex of a file's bytes, None of what cannot be read.  changed, inode: another file has others."""
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def stop_units(run: str) -> None:
    """End the units of a run after the step that they are in, and begin no more of them."""
    with _guard:
        _stopped.add(run)
        iterate.asked.update(dict.fromkeys(_running.get(run, ()), int(signal.SIGTERM)))


def run_shard(run: str, program: str, words: list[Any], place: str, wanted: dict[str, str], sent: dict[str, bytes]) -> Reply:
    """One shard of a command.

    program where the group of commands is, as module:name.
    words   the command and its arguments; files among them as dictionaries.    place  I/N.
    wanted  the census that this process must have.             sent   bytes of files by their digest.
    """
    differing = environment_differences(wanted)
    if differing:
        return {"differs": differing}
    with _count_thread(run), scratch_folder("herd-unit-", _scratch_folder()) as folder:
        try:
            command, *placed = [word if isinstance(word, str) else _place_file(word, sent, Path(folder)) for word in words]
        except FileNotFoundError:
            return {"unseen": True}
        return _run_command(program, [command, "--shard", place, *placed], words, Path(folder))


def _scratch_folder() -> str | None:
    """Where this worker may put files: its own folder, which Dask removes where the worker cannot; elsewhere the usual one."""
    try:
        from distributed import get_worker

        return str(get_worker().local_directory)
    except (ImportError, ValueError):
        return None


def block_sums(rows: bytes, statistics: bytes, skipped: int, wanted: dict[str, str]) -> Reply:
    """Statistics of the blocks of a chunk, all but the first few, as entries of their tree; both come, and they go, as `wire` has them."""
    import numpy as np

    from herdcli.cluster import serialization
    from herdcli.cluster.block_chunks import chunk_sums
    from herdcli.errors import HerdError

    differing = environment_differences(wanted)
    if differing:
        return {"differs": differing}
    try:
        return {
            "sums": serialization.serialize(
                chunk_sums(serialization.deserialize(rows, own=False), serialization.deserialize(statistics), skipped)
            )
        }
    except HerdError as error:
        return {"error": type(error).__name__, "message": error.message, "hint": error.hint, "where": error.where}
    except np.linalg.LinAlgError as error:
        return {"singular": str(error)}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]}


def environment_differences(wanted: dict[str, str]) -> dict[str, list[str]]:
    """What this process has otherwise than it should: its own, and what is wanted."""
    ours = environment()
    return {name: [ours[name], value] for name, value in wanted.items() if ours[name] != value}


def _place_file(file: File, sent: dict[str, bytes], folder: Path) -> str:
    """Where a file of the arguments is for this process; raises FileNotFoundError where it is nowhere."""
    content = sent.get(str(file["sha256"]))
    if content is None:
        if not _sees(file):
            raise FileNotFoundError(file["path"])
        return f"{file['before']}{file['path']}"
    target = folder / file["sha256"][:16] / os.path.basename(file["path"])
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(content)
    return f"{file['before']}{target}"


def _run_command(program: str, arguments: list[str], words: list[Any], folder: Path) -> Reply:
    """The bytes of the artifact that a command makes and what it warned of, or what went wrong."""
    import click

    from herdcli.errors import CannotCreate, HerdError, Interrupted, WriteFailed

    module, _, name = program.partition(":")
    cli, warned = getattr(import_module(module), name), list[str]()
    try:
        output = folder / "made.h5"
        cli.main([*arguments[:1], "--quiet", "-o", str(output), *arguments[1:]], prog_name="herd", standalone_mode=False, obj=warned)
        return {"made": output.read_bytes(), "warned": warned}
    except Interrupted:
        return {"stopped": True}
    except (CannotCreate, WriteFailed) as error:  # of this machine's disk; another one may have room
        return {"failed": f"on a worker, {error}"}
    except HerdError as error:
        return {
            "error": type(error).__name__,
            "message": error.message,
            "hint": error.hint,
            "where": _original_name(error.where, words, folder),
        }
    except click.ClickException as error:
        return {"error": "BadUsage", "message": error.format_message(), "hint": None, "where": None}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]}


def _original_name(where: str | None, words: list[Any], folder: Path) -> str | None:
    """A place as the user knows it, who typed the file's name."""
    for word in words if where is not None else ():
        if isinstance(word, dict):
            here = folder / str(word["sha256"])[:16] / os.path.basename(word["path"])
            where = where.replace(str(here), word["name"]).replace(word["path"], word["name"])  # type: ignore[union-attr]
    return where


@contextlib.contextmanager
def _count_thread(run: str) -> Iterator[None]:
    """This thread among those that work for a run."""
    own = threading.get_ident()
    with _guard:
        _running.setdefault(run, set()).add(own)
        if run in _stopped:
            iterate.asked[own] = int(signal.SIGTERM)
    try:
        yield
    finally:
        with _guard:
            _running[run].discard(own)
            iterate.asked.pop(own, None)


def describe_differences(differing: dict[str, list[str]]) -> str:
    """What a worker has, and what this process has."""
    return "; ".join(f"{name} {theirs}, here {ours}" for name, (theirs, ours) in differing.items())


def task_key(*parts: object) -> str:
    """The name of a task."""
    return "herd-" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
