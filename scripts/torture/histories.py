"""(g) Artifacts whose history somebody wrote, sealed again: every field of every stage, for all that follows, shows or passes on a history.

Trial i changes the history of file i mod F in one place, in every third trial in two.  Values come from a pool of odd ones, and for options
from what their types take as well.  `check --rerun` has all files of the corpus as inputs, and runs its stages in forked children: the same
code with the same bounds as in a process of its own, without half a second for each start.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np

from herdcli.artifacts.sealed import seal_header
from herdcli.artifacts.sealed.file_digests import accepted_digests
from herdcli.cli.frame.history import rerun, sandboxed_rerun
from herdcli.cli.main import COMMANDS

from . import corpus
from .forked_trials import Outcome
from .structures import REPORT, REPORTED, Watched

Random = np.random.Generator
TWICE = 3  # every how-many-eth trial has two changes
DEEP: Any = json.loads("[" * 200 + "]" * 200)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 1000, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e-320, 1e308, "inf", "-inf", "nan", "",
    "file", "auto",
    "none", "x", "0", "1", "1e999", "a,b", "1/2", "9/2", "all", "train",
    "\x1b[31mred", "a\nb", "\u202e", "\0", "é" * 2000, "x" * 70_000, "-o", "--debug",
    "$(touch victims/text.txt)", "`touch victims/text.txt`", "'; touch victims/text.txt; '", "%s%n", "{0}", "victims/text.txt",
    "victims/secret.h5",
    "victims/secret.h5:/X", "victims/out.h5", "victims/picture.svg", "-", "/dev/stdin", "/dev/fd/0", "/dev/zero", "/proc/self/environ",
    "../victims",
    "~/x", "mixture:victims/secret.h5", "mixture:file", "file:victims/text.txt", "http://127.0.0.1:1/x", "local:2",
    "tcp://127.0.0.1:1", "slurm",
    [], [[]], ["file"], ["victims/secret.h5"], [0], [1, 2], [-1, 0.5], ["a", "b"], [["filters", "victims/picture.svg"]], [None],
    [True], {}, {"a": 1}, DEEP,
    [0] * 5000, ["filters"], [["a", "b"], ["c", "d"]], [1e308, -1e308], "2,3", "0.01x5", "3,1,1", [3, 1, 1], "gaussian:0,1", "nystrom:4",
)  # fmt: skip
OF_SESSION = (
    "output", "clobber", "threads", "max_memory", "checkpoint", "every", "resume", "dry_run", "shard", "cluster", "lock", "trace_file",
    "missing", "layer",
    "categorical", "read_columns", "drop_columns", "split_column", "weights_column", "column_roles", "split_rule", "path", "report",
    "plots", "cache",
    "source", "sources", "models", "data", "input_format", "format", "below", "continue_from", "init", "seed", "encoding", "decimal",
    "thousands", "quiet",
    "debug", "exact", "x" * 3000, "", "\x1b[31m", "a b", "__class__", "self", "session",
)  # fmt: skip
RERUN = "check --rerun EVIL --max-time 60 --max-disk 20M"
PROCESSOR_SECONDS = 2  # for each stage of a rerun, in the place of the time by the clock, which a busy machine stretches
SHOWN = ("info EVIL", "info EVIL --format json", "check EVIL", "eval EVIL -o out2.h5")


def _pick(random: Random, pool: Any) -> Any:
    return pool[int(random.integers(len(pool)))]


def _params(command: str) -> list[click.Parameter]:
    return list(import_module(COMMANDS[command][0]).command.params) if command in COMMANDS else []


def _likely(param: click.Parameter, random: Random) -> Any:
    """A value that the type of an option may take: a choice, the ends of a range and what lies beyond."""
    kind = param.type
    if isinstance(kind, click.Choice):
        return _pick(random, [str(choice) for choice in kind.choices])
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    ends = [end + step for end in (low, high) if end is not None for step in (-1, 0, 1)]
    if ends:
        return _pick(random, ends)
    if getattr(param, "is_flag", False):
        return bool(random.integers(2))
    return _pick(random, (1, 2, 0.5, "a", "1,2", [1, 2]))


def option(stages: list[Any], random: Random, digest: Callable[[], str]) -> str:
    """Another value of an option that the record has."""
    stage = _pick(random, stages)
    names = sorted(stage["parameters"])
    name = _pick(random, names)
    declared = {param.name: param for param in _params(stage["command"])}
    value = _likely(declared[name], random) if name in declared and random.random() < 0.4 else _pick(random, VALUES)
    stage["parameters"][name] = value
    return f"{stage['command']} {name}={value!r}"[:100]


def further(stages: list[Any], random: Random, digest: Callable[[], str]) -> str:
    """An option that the record does not have: of the command, of its request, of the session, or of none."""
    stage = _pick(random, stages)
    request = vars(import_module(COMMANDS[stage["command"]][0]).command.callback)["request"]
    names = [*(str(param.name) for param in _params(stage["command"])), *(each.name for each in fields(request)), *OF_SESSION]
    name, value = _pick(random, names), _pick(random, VALUES)
    stage["parameters"][name] = value
    return f"{stage['command']} further {name[:20]!r}={value!r}"[:100]


def missing(stages: list[Any], random: Random, digest: Callable[[], str]) -> str:
    """Without an option, or without a part of the record."""
    stage = _pick(random, stages)
    if random.random() < 0.3:
        name = _pick(random, sorted(stage))
        del stage[name]
        return f"without {name}"
    name = _pick(random, sorted(stage["parameters"]))
    del stage["parameters"][name]
    return f"{stage['command']} without {name}"


def part(stages: list[Any], random: Random, digest: Callable[[], str]) -> str:
    """Another value of a part of the record: software, version, command, parameters, inputs."""
    stage = _pick(random, stages)
    name = _pick(random, sorted(stage))
    value = _pick(random, VALUES)
    stage[name] = value
    return f"{name}={value!r}"[:100]


def command(stages: list[Any], random: Random, digest: Callable[[], str]) -> str:
    """Another command."""
    stage = _pick(random, stages)
    stage["command"] = _pick(random, (*COMMANDS, "sh", "../fit-rbm", "python", "-c"))
    return f"command {stage['command']}"


def an_input(stages: list[Any], random: Random, digest: Callable[[], str]) -> str:
    """Another role, kind or digest of an input; one more, thousands, none; inputs in another order."""
    stage = _pick(random, stages)
    inputs, choice = stage["inputs"], int(random.integers(6))
    roles = (
        "data",
        "network",
        "weights",
        "model",
        "model 1",
        "artifact 1",
        "artifact ../x",
        "evidence",
        "source",
        "path",
        "init",
        "below",
        "reference",
        "mask",
    )
    if choice == 0 or not inputs:
        inputs.append({"role": _pick(random, roles), "kind": _pick(random, sorted(corpus.OF_KIND)), "sha256": digest()})
        return f"one more input {inputs[-1]['role']}"
    each = _pick(random, inputs)
    if choice == 1:
        each["sha256"] = digest()
        return f"input {each['role']} is another file"
    if choice == 2:
        each["role"] = _pick(random, (*roles, "artifact victims/text.txt", "artifact /dev/stdin", "artifact -o", "\x1b[1m"))
        return f"an input is {each['role']!r}"
    if choice == 3:
        name = _pick(random, ("role", "kind", "sha256"))
        each[name] = _pick(random, VALUES)
        return f"{name} of an input {each[name]!r}"[:100]
    if choice == 4:
        inputs.extend([dict(each)] * 2000)
        return "2,000 inputs"
    inputs.clear()
    return "no inputs"


def order(stages: list[Any], random: Random, digest: Callable[[], str]) -> str:
    """Stages twice, in another order, hundreds of them, fewer, none."""
    choice = int(random.integers(5))
    copy = json.loads(json.dumps(stages))
    if choice == 0:
        stages += copy
    elif choice == 1:
        stages.reverse()
    elif choice == 2:
        stages += copy * 200
    elif choice == 3:
        del stages[: len(stages) // 2 + 1]
    else:
        stages.insert(0, dict(_pick(random, copy), command=_pick(random, list(COMMANDS))))
    return f"stages in another way ({choice})"


def of_another(stages: list[Any], random: Random, digest: Callable[[], str]) -> str:
    """The parameters of one stage in another one."""
    first, second = _pick(random, stages), _pick(random, stages)
    first["parameters"] = dict(second["parameters"])
    return f"parameters of {second['command']} for {first['command']}"


CHANGES = (option, option, option, option, further, further, further, missing, part, command, an_input, an_input, order, of_another)
TEXTS = (
    "",
    "[", "null", "{}", "[1]", "[null]", '[{}]', "[" * 100_000,
    '[{"a":1e999}]', '[{"command":"\\ud800"}]', '[{"command":"eval","parameters":[]}]',
    '[{"parameters":{"a":' + "9" * 5000 + "}}]", '[{"inputs":[{"role":1}]}]', "[{}," * 3 + "{}]", '[{"command":"\\u0000"}]',
    "[" + "{}," * 20_000 + "{}]",
)  # fmt: skip


class Histories:
    """Trial i changes the history of file i mod F."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.histories: dict[Path, list[Any]] = {}
        for path in sorted(folder.glob("*.h5")):
            with h5py.File(path) as file:
                found = json.loads(str(file.attrs.get("provenance", "[]")))
            if found and all(stage["command"] in COMMANDS for stage in found):
                self.histories[path] = found
        inputs = [path for path in sorted(folder.iterdir()) if path.suffix in (".h5", ".csv", ".svm", ".parquet")]
        self.given = {each: path.name for path in inputs for each in accepted_digests(str(path))}
        self.digests = sorted(self.given)

    def __call__(self, number: int, own: Path) -> Iterator[Outcome]:
        watched = Watched(self.folder, own)
        sandboxed_rerun._start_process = started  # type: ignore[assignment]
        rerun.find_files_by_digest = lambda paths: self.given  # the digests of the corpus, which take longer than most trials
        source, turn = list(self.histories)[number % len(self.histories)], number // len(self.histories)
        random = np.random.default_rng([self.seed, zlib.crc32(source.name.encode()), number])
        text, done = self._written(self.histories[source], random, 1 + (turn % TWICE == 0))
        with h5py.File(shutil.copyfile(source, own / "evil.h5"), "r+") as file:
            kind = str(file.attrs["kind"])
            del file.attrs["provenance"]
            file.attrs["provenance"] = text
        seal_header.write_seal(own / "evil.h5", kind)
        others = [*SHOWN, *corpus.READ.get(source.name, ())]
        reported = turn % REPORTED == zlib.crc32(source.name.encode()) % REPORTED
        for line in (RERUN, REPORT if reported else others[turn % len(others)]):
            yield watched.tried(number, f"{source.name}: {done}", line.replace("EVIL", "evil.h5"))
        watched.close()

    def _written(self, history: list[Any], random: Random, count: int) -> tuple[str, str]:
        """A changed history as text, and what was changed."""
        if random.random() < 0.02:
            text = str(_pick(random, TEXTS))
            return text, f"the history is {text[:40]}"
        stages, done = json.loads(json.dumps(history)), []
        for _ in range(count):
            change = _pick(random, CHANGES)
            try:
                done.append(change(stages, random, lambda: str(_pick(random, self.digests))))
            except (AttributeError, KeyError, TypeError, ValueError, IndexError):
                done.append(f"(no {change.__name__})")
        return json.dumps(stages).replace("\\u0000", "\\u0001"), "; ".join(done)


class Forked:
    """A child of this process in the place of a new one: what `sandboxed_rerun` asks of subprocess.Popen."""

    def __init__(self, own: Path, question: Path) -> None:
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.setsid()
                os.chdir(own)
                with question.with_suffix(".messages").open("wb") as messages:
                    for number in (1, 2):
                        os.dup2(messages.fileno(), number)
                tempfile.tempdir = str(own)
                resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                sys.argv = ["remake", str(question)]
                sandboxed_rerun.main()
                code = 0
            finally:
                os._exit(code)

    def poll(self) -> int | None:
        """The exit code of a child that has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def wait(self, timeout: float | None = None) -> int:
        """The exit code once the child has ended.  Raises TimeoutExpired."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("remake", timeout or 0.0)
            time.sleep(0.002)
        return code

    def kill(self) -> None:
        """End the child."""
        os.kill(self.pid, signal.SIGKILL)


def started(own: Path, question: Path) -> Forked:
    """In the place of `sandboxed_rerun._start_process`."""
    return Forked(own, question)
