"""Running one stage of a history again in a process of its own, with limits on time, memory and disk, and without writing elsewhere.

A history is untrusted: anyone may have written it.  The stage runs in a new process in a scratch folder, which is its working directory and
its TMPDIR; stdin is empty.  Its options have passed through `recorded_options`.  On Linux the kernel also refuses every write outside that
folder.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

import herdcli
from herdcli import dialect, errors
from herdcli.cli.frame.run.console import Console
from herdcli.errors import BadUsage, DataError, HerdError, NoInput
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.history.history_stages import Stage

BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
LOOK = 0.05  # initial seconds between two checks of the process


@dataclass(frozen=True)
class RerunLimits:
    """The limits for making all stages of a file again: total seconds, until `end` of time.monotonic, and bytes of memory and files."""

    seconds: float
    end: float
    memory: int
    disk: int
    threads: int


@dataclass(frozen=True)
class RerunJob:
    """The job for the new process.  stage: its number, version, command, parameters, and the role, kind and digest of each input."""

    stage: tuple[int, str, str, dict[str, object], list[tuple[str, str, str]]]
    placed: dict[str, str]
    target: str
    shard: str | None
    where: str
    memory: int
    threads: int
    disk: int
    folder: str


def rerun_stage(
    stage: Stage, files_by_role: Mapping[str, str], folder: Path, target: Path, shard: str | None, where: str, bounds: RerunLimits
) -> None:
    """Run a stage again and write its result to `target`, in the folder.

    files_by_role  the file of each input by its role.
    Raises DataError if the history cannot be followed or exceeds the limits, and RuntimeError for an internal error of herd.
    """
    own = folder / f"stage-{stage.number}"
    own.mkdir()
    seen = {role: _stage_input_name(role, path, own) for role, path in files_by_role.items()}
    inputs = [(each.role, each.kind, each.sha256) for each in stage.inputs]
    described = (stage.number, stage.version, stage.command, dict(stage.parameters), inputs)
    job = RerunJob(described, seen, str(target), shard, where, bounds.memory, bounds.threads, bounds.disk, str(folder))
    question = folder / f"{own.name}.json"
    question.write_text(json.dumps(vars(job)), encoding="utf-8")
    code = _run_with_limits(own, question, bounds, f"{stage} cannot be made again", where)
    _raise_process_error(_job_result_path(question), code, stage, where)
    if not target.exists():
        raise DataError(f"{stage} writes no artifact", where=where)


def _stage_input_name(role: str, path: str, job_folder: Path) -> str:
    """Return the name of an input in the stage; a name without a folder stays the same, since reports show the names of their artifacts."""
    if role.startswith("artifact ") and os.path.basename(path) == path and not os.path.lexists(job_folder / path):
        os.symlink(os.path.abspath(path), job_folder / path)
        return path
    return os.path.abspath(path)


def _job_result_path(job_file: Path) -> Path:
    return job_file.with_suffix(".answer")


def _start_process(job_folder: Path, job_file: Path) -> subprocess.Popen[bytes]:
    """Start a new process that runs a job, with its own folder as working directory and TMPDIR."""
    package = str(Path(herdcli.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    environment = os.environ | dict.fromkeys(BLAS_VARIABLES, "1") | {"PYTHONPATH": path, "TMPDIR": str(job_folder), "PYTHONSAFEPATH": "1"}
    with job_file.with_suffix(".messages").open("wb") as messages:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "herdcli.cli.frame.history.sandboxed_rerun", str(job_file)],
            cwd=job_folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=messages,
            start_new_session=True,
        )


def _run_with_limits(job_folder: Path, job_file: Path, bounds: RerunLimits, what: str, where: str) -> int:
    """Run a job to its end and return its exit code.  Raises DataError if it takes too much time or disk."""
    process = _start_process(job_folder, job_file)
    pause = LOOK
    try:
        while True:
            try:
                return process.wait(pause)
            except subprocess.TimeoutExpired:
                pause = min(1.0, 1.5 * pause)
            if time.monotonic() > bounds.end:
                raise DataError(f"{what}: it takes more than the {bounds.seconds:g} s allowed", where=where, hint="raise --max-time")
            if _disk_usage(job_file.parent, process.pid) > bounds.disk:
                raise DataError(f"{what}: it writes more than the {bounds.disk / 1e9:g} GB allowed", where=where, hint="raise --max-disk")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _disk_usage(folder: Path, process: int) -> int:
    """Return the bytes used by the files of a folder and by the deleted files that a process has open."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # removed meanwhile
            total += path.lstat().st_blocks * 512
    with suppress(OSError):
        for path in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                found = path.stat()
                total += found.st_blocks * 512 if stat.S_ISREG(found.st_mode) and found.st_nlink == 0 else 0
    return total


def _raise_process_error(path: Path, code: int, stage: Stage, where: str) -> None:
    """Raise the error that ended the process."""
    what = f"{stage} cannot be made again"
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        raise DataError(f"{what}: its process was ended by {name}", where=where, hint="raise --max-memory, --max-time or --max-disk")
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RuntimeError(f"{what}: its process ended with {code} and without an answer") from None
    if "internal" in answer:
        raise RuntimeError(f"{what}: {answer['internal']}\n{answer['traceback']}")
    if "error" in answer:
        kind, message, place, hint = (answer[name] for name in ("error", "message", "where", "hint"))
        found: type[HerdError] = getattr(errors, kind)
        if os.strerror(errno.EFBIG) in message:
            found, hint = DataError, "raise --max-disk"
        if issubclass(found, NoInput) and place == "stdin":
            message, place, hint = "it reads an input that is not in its history", None, None
        if issubclass(found, (BadUsage, NoInput)):
            found = DataError  # the request came from the history, not from the user
        if not message.startswith(str(stage)):
            message = f"{what}: {message if place in (None, where) else f'{place}: {message}'}"
        raise found(message, where=where, hint=hint)


def main() -> None:
    """Run the job of a file in the new process and write the answer next to the file."""
    question = Path(sys.argv[1])
    job = RerunJob(**json.loads(question.read_text(encoding="utf-8")))
    _restrict_process(job)
    answer: dict[str, object] = {}
    try:
        _run_stage(job)
    except HerdError as error:
        kind = next(each.__name__ for each in type(error).__mro__ if hasattr(errors, each.__name__))
        answer = {
            "error": kind,
            "message": error.message,
            "where": error.where,
            "hint": error.hint,
            "said": error.message.startswith("stage "),
        }
    except MemoryError:
        answer = {"error": "DataError", "message": "not enough memory", "where": None, "hint": "raise --max-memory"}
    except Exception as error:  # sent to the parent, which raises it again as an internal error
        answer = {"internal": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    _job_result_path(question).write_text(json.dumps(answer), encoding="utf-8")


def _restrict_process(job: RerunJob) -> None:
    """Restrict this process to writing in its folder, and limit the size of each file."""
    import resource

    from herdcli.sandbox import kill_when_parent_ends, restrict_writes_to_folder

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(job.disk, hard) if hard != resource.RLIM_INFINITY else job.disk, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    kill_when_parent_ends()
    restrict_writes_to_folder(job.folder)


def _run_stage(job: RerunJob) -> None:
    """Run one stage and write its result to `target`."""
    from herdcli.artifacts.tables.dataset_preparation import SplitRule
    from herdcli.cli.frame.history.history_stages import Stage, StageInput, stage_request
    from herdcli.cli.frame.history.recorded_options import OF_SESSION
    from herdcli.cli.frame.run.session import Session
    from herdcli.shards import parse_shard

    number, version, name, parameters, inputs = job.stage
    stage = Stage(number, version, name, parameters, tuple(StageInput(*each) for each in inputs))
    command, request, own = stage_request(stage, job.placed, job.where, str(Path.cwd()))
    defaults = {option.name: option.default for option in command.params}
    nested = Session(
        command=stage.command,
        console=Console(stage.command, -1),
        request=request,
        given=set(own),
        output=job.target,
        clobber=True,
        threads=job.threads,
        max_memory=job.memory,
        checkpoint=None,
        every=None,
        resume=False,
        dry_run=False,
        shard=None if job.shard is None else parse_shard(job.shard),
        rule=SplitRule(by_class="split_rule" not in parameters),
        roles_by_name="column_roles" not in parameters,
        dialect=dialect.dialect_from_history(parameters, where=job.where),
        **{name: value for name in OF_SESSION if (value := own.get(name, defaults.get(name))) is not None},  # type: ignore[arg-type]
    )
    with click.Context(command, info_name=stage.command), nested:
        vars(command.callback)["__wrapped__"](nested, request)


if __name__ == "__main__":
    main()
