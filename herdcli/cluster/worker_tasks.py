"""The functions that run on a worker: they are found by import path, and take and return plain values and the bytes of artifacts.

A unit is the command itself under --shard, in the worker's process.  Its result is the bytes of its shard, or an error as text:
exceptions are not sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from herdcli import iterate
from herdcli.scratch import scratch_folder

Reply = dict[str, Any]
File = dict[str, Any]  # path, size, sha256, name (as it was typed), and the text before it in its word
Word = str | File  # a word of a command; a file stands for its name
_running: dict[str, set[int]] = {}  # run -> the threads that work for it
_stopped: set[str] = set()
_guard = threading.Lock()


@cache
def result_environment() -> dict[str, str]:
    """Return the parts of the environment that affect the results of this process: versions, and the BLAS kernels."""
    import numpy as np
    import scipy
    from threadpoolctl import threadpool_info, threadpool_limits

    from herdcli import __version__

    _load_scipy_blas()
    threadpool_limits(1, user_api="blas")  # permanently: sums must not depend on the number of cores
    libraries = {
        f"{each['internal_api']} {each['version']} {each.get('architecture')}" for each in threadpool_info() if each["user_api"] == "blas"
    }
    return {"herd": __version__, "NumPy": np.__version__, "SciPy": scipy.__version__, "BLAS": ", ".join(sorted(libraries))}


def _load_scipy_blas() -> None:
    """Load SciPy's BLAS, which is reported too: the library beside SciPy, as in its wheels, else with `scipy.linalg`, which is slower."""
    import ctypes

    import scipy

    found = sorted(Path(scipy.__file__).parent.parent.glob("scipy.libs/*openblas*"))
    try:
        for path in found:
            ctypes.CDLL(str(path))
    except OSError:  # it needs another library, which scipy.linalg finds
        found = []
    if not found:
        import scipy.linalg


def file_visibility(files: list[File]) -> list[bool]:
    """Return for each file whether this process sees it with the same bytes."""
    return [_has_same_bytes(each) for each in files]


def _has_same_bytes(file: File) -> bool:
    try:
        status = os.stat(file["path"])
    except OSError:
        return False
    if os.path.isdir(file["path"]):
        return file["sha256"] is None
    return bool(status.st_size == file["size"]) and file_digest(file["path"], status.st_mtime_ns, status.st_ino) == file["sha256"]


@cache
def file_digest(path: str, modification_time: int, inode: int) -> str | None:
    """Return the SHA-256 of a file's bytes in hex, or None if it cannot be read.  changed, inode: part of the cache key."""
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def stop_run_units(run: str) -> None:
    """Stop the units of a run after their current step, and start no more of them."""
    with _guard:
        _stopped.add(run)
        iterate.asked.update(dict.fromkeys(_running.get(run, ()), int(signal.SIGTERM)))


def run_shard(
    run: str, program: str, words: list[Word], shard: str, required_environment: dict[str, str], file_contents: dict[str, bytes]
) -> Reply:
    """Run one shard of a command.

    program               the location of the group of commands, as module:name.
    words                 the command and its arguments; files are dictionaries.
    shard                 the number of the shard, as I/N.
    required_environment  the environment that this process must have.
    file_contents                  the bytes of files by their digests.
    """
    differing = environment_differences(required_environment)
    if differing:
        return {"differs": differing}
    with _count_run_thread(run), scratch_folder("herd-unit-", _scratch_folder()) as folder:
        try:
            command, *placed = [
                word if isinstance(word, str) else _resolve_file_argument(word, file_contents, Path(folder)) for word in words
            ]
        except FileNotFoundError:
            return {"unseen": True}
        return _run_command(program, [command, "--shard", shard, *placed], words, Path(folder))


def _scratch_folder() -> str | None:
    """Return a folder for temporary files: the worker's own folder, which Dask removes if the worker cannot; elsewhere the usual one."""
    try:
        from distributed import get_worker

        return str(get_worker().local_directory)
    except (ImportError, ValueError):
        return None


def run_block_sums(rows: bytes, statistics: bytes, skipped: int, required_environment: dict[str, str]) -> Reply:
    """Return the statistics of a chunk's blocks, all but the first `skipped`, as entries of the summation tree.

    Arguments and results are encoded by `serialization`.
    """
    import numpy as np

    from herdcli.cluster import serialization
    from herdcli.cluster.block_chunks import compute_chunk_sums
    from herdcli.errors import HerdError

    differing = environment_differences(required_environment)
    if differing:
        return {"differs": differing}
    began = time.monotonic()
    try:
        sums = compute_chunk_sums(serialization.deserialize(rows, copy=False), serialization.deserialize(statistics), skipped)
        return {"sums": serialization.serialize(sums), "seconds": time.monotonic() - began}
    except HerdError as error:
        return {"error": type(error).__name__, "message": error.message, "hint": error.hint, "where": error.where}
    except np.linalg.LinAlgError as error:
        return {"singular": str(error)}
    except Exception as error:  # may be a fault of this worker alone; the run gives the unit to others before it ends
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]}


def environment_differences(required: dict[str, str]) -> dict[str, list[str]]:
    """Return the differences between the environment of this process and the required one, as [own, required]."""
    ours = result_environment()
    return {name: [ours[name], value] for name, value in required.items() if ours[name] != value}


def _resolve_file_argument(file: File, sent: dict[str, bytes], folder: Path) -> str:
    """Return the path of a file argument in this process.  Raises FileNotFoundError if the file cannot be found."""
    content = sent.get(str(file["sha256"]))
    if content is None:
        if not _has_same_bytes(file):
            raise FileNotFoundError(file["path"])
        return f"{file['before']}{file['path']}"
    target = folder / file["sha256"][:16] / os.path.basename(file["path"])
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(content)
    return f"{file['before']}{target}"


def _run_command(program: str, arguments: list[str], words: list[Word], folder: Path) -> Reply:
    """Return the bytes of the artifact that a command makes and its warnings, or its error."""
    import click

    from herdcli.errors import CannotCreate, HerdError, Interrupted, WriteFailed

    module, _, name = program.partition(":")
    cli, warned = getattr(import_module(module), name), list[str]()
    try:
        output, began = folder / "made.h5", time.monotonic()
        cli.main([*arguments[:1], "--quiet", "-o", str(output), *arguments[1:]], prog_name="herd", standalone_mode=False, obj=warned)
        return {"made": output.read_bytes(), "warned": warned, "seconds": time.monotonic() - began}
    except Interrupted:
        return {"stopped": True}
    except (CannotCreate, WriteFailed) as error:  # the fault of this machine's disk; another machine may have space
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
    except Exception as error:  # may be a fault of this worker alone; the run gives the unit to others before it ends
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]}


def _original_name(location: str | None, words: list[Word], folder: Path) -> str | None:
    """Return a location with the file name that the user typed."""
    for word in words if location is not None else ():
        if isinstance(word, dict):
            here = folder / str(word["sha256"])[:16] / os.path.basename(word["path"])
            location = location.replace(str(here), word["name"]).replace(word["path"], word["name"])  # type: ignore[union-attr]
    return location


@contextlib.contextmanager
def _count_run_thread(run: str) -> Iterator[None]:
    """Count this thread among those that work for a run, while the body runs."""
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
    """Describe the values of a worker and those of this process as text."""
    return "; ".join(f"{name} {theirs}, here {ours}" for name, (theirs, ours) in differing.items())


def make_task_name(*parts: object) -> str:
    """Return the name of a task."""
    return "herd-" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
