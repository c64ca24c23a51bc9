"""What herd writes, recorded before a change that should not alter it and compared after it.

    python scripts checks/golden_outputs record FOLDER
    python scripts checks/golden_outputs compare FOLDER
    python scripts checks/golden_outputs compare FOLDER --parts help,choices --only 'herd em' --aspects arrays

The parts (--parts; all of them when it is not given):

    help       --help and --help-all of every command, and the messages for an unknown option
    choices    a small run of each command, alone and with every choice of every option and every flag that it has
    numbers    the same runs with every numeric option at another value than its default, and below the least value allowed
    python     the functions of `import herdcli` and the estimators
    shards     runs dealt out by --shard, each shard, and what `herd merge` makes of them
    resume     runs killed at their second checkpoint, and resumed
    cluster    runs under --cluster local:2
    histories  archived artifacts, by `herd check --rerun`
    pages      the shell blocks of README, guide and cookbook, in order

Each run is recorded in five aspects that are compared apart, so that one renamed option does not hide a changed number:

    exit       the exit code
    arrays     a digest of each array and attribute of each file written, and of files that are no artifacts
    histories  the history of each artifact, and what else says how it was made
    messages   stderr, without times
    stdout     the lines of stdout

`record` writes a JSON file for each part into FOLDER; `compare` makes the parts that are there and tells what differs, with exit code 1.
Digests of floating-point results hold on one machine with one set of libraries and one kind of loops.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from checks import golden_runs as runs  # noqa: E402
from forked import Forker, Shim, first  # noqa: E402

TIMES = re.compile(r"\b[\d.e+-]+ (?:s|ms|[kMG]?B)\b|about [\d.,]+|herd-traceback-\w+|^python: .*$|127\.0\.0\.1:\d+", re.MULTILINE)
HISTORY = {"provenance", "configuration", "generated-by"}  # attributes that say how a file was made
ASPECTS = ("exit", "arrays", "histories", "messages", "stdout")
LONGEST = 40_000  # characters of stdout that are kept as they are

Outcome = dict[str, Any]


def digest(content: bytes) -> str:
    """The first 64 bits of SHA-256, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()[:16]


def environment() -> dict[str, str]:
    """This interpreter's herd first, one thread, no colours, lines as wide as a terminal's."""
    own = {"NO_COLOR": "1", "HERD_THREADS": "1", "COLUMNS": "110"}
    return first(Path(sys.executable).parent, dict(os.environ)) | own


# A file in aspects ---------------------------------------------------------------------------------------------


def contents(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """(arrays, history) of a file: digests by name, and attributes that tell how it was made."""
    head = path.open("rb").read(16)
    if head.startswith(b"herd-artifact"):
        return hdf5_contents(path)
    if head.startswith(b"PAR1"):
        return parquet_contents(path)
    return {"": digest(path.read_bytes())}, {}


def hdf5_contents(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """A digest of each data set and attribute below the root, in HDF5's own order of names."""
    import h5py
    import numpy as np

    arrays: dict[str, str] = {}
    history: dict[str, Any] = {}

    def attributes(name: str, item: Any) -> None:
        for key, value in item.attrs.items():
            if key in HISTORY:
                history[f"{name}@{key}"] = parsed(value)
            else:
                arrays[f"{name}@{key}"] = digest(repr(value if isinstance(value, str) else np.asarray(value).tolist()).encode())

    def visit(name: str, item: Any) -> None:
        attributes(name, item)
        if isinstance(item, h5py.Dataset):
            values = item[()]
            raw = repr(values.tolist()).encode() if values.dtype.hasobject else np.ascontiguousarray(values).tobytes()
            arrays[name] = digest(f"{item.dtype} {item.shape} ".encode() + raw)

    with h5py.File(path, "r") as file:
        attributes("", file)
        file.visititems(visit)
    return arrays, history


def parquet_contents(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """A digest of each column of a table; its metadata are history."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(path)
    history = {key.decode(): parsed(value.decode(errors="replace")) for key, value in (table.schema.metadata or {}).items()}
    arrays = {}
    for name in table.column_names:
        sink = pa.BufferOutputStream()
        column = pa.table({"": table.column(name).combine_chunks()})
        with pa.ipc.new_stream(sink, column.schema) as writer:
            writer.write_table(column)
        arrays[name] = digest(sink.getvalue().to_pybytes())
    return arrays, {key: value for key, value in history.items() if "sha256" not in key and key != "ARROW:schema"}


def parsed(value: object) -> object:
    """JSON as what it says, any other text as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else str(value)
    except ValueError:
        return value


def present(folder: Path) -> dict[str, tuple[int, int]]:
    """When and how long: what tells whether a file below a folder was written."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): ((status := path.stat()).st_mtime_ns, status.st_ino) for path in sorted(found)}


def outcome(code: int, out: bytes, err: bytes, folder: Path, before: dict[str, tuple[int, int]] | None = None) -> Outcome:
    """What is compared of one run: its exit code, what it said without times and folders, and the files that are new."""
    messages, stdout = (
        TIMES.sub("…", text.decode(errors="backslashreplace").replace(str(folder), ".").replace(folder.name, "FOLDER"))
        for text in (err, out)
    )
    shown = stdout.splitlines() if len(stdout) <= LONGEST else [digest(stdout.encode())]
    arrays, histories = {}, {}
    for name, when in present(folder).items():
        if (before or {}).get(name) != when:
            arrays[name], made = contents(folder / name)
            if made:
                histories[name] = made
    return {"exit": code, "arrays": arrays, "histories": histories, "messages": messages.splitlines(), "stdout": shown}


def same_bytes(folder: Path, *names: str) -> bool:
    """Whether files are there and hold the same."""
    return all((folder / name).exists() for name in names) and len({(folder / name).read_bytes() for name in names}) == 1


# Runs ----------------------------------------------------------------------------------------------------------


class Runner:
    """Runs of herd on small inputs made once, each in a folder of its own, in processes forked from one that has imported everything."""

    def __init__(self, stack: contextlib.ExitStack, only: str) -> None:
        """only: how the lines begin that are run."""
        self.only, self._stack = only, stack
        self._forker = Forker(environment())
        stack.callback(self._forker.close)
        self.shim = Shim(self.folder(), Path(sys.executable).with_name("herd"), environment())
        stack.callback(self.shim.close)
        self._shared: Path | None = None

    def folder(self) -> Path:
        """A new folder that is removed at the end."""
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory()))

    @property
    def shared(self) -> Path:
        """The inputs."""
        if self._shared is None:
            self._shared = self.folder()
            made = self.bash(f"set -e\n{runs.PREPARATION}", self._shared)
            if made.returncode:
                raise SystemExit(made.stderr.decode())
        return self._shared

    def bash(self, script: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
        """A script in a folder, whose herd is served by a process that has imported everything."""
        command = ["bash", "-uo", "pipefail", "-c", script]
        own = first(self.shim.folder, environment())
        return subprocess.run(command, cwd=folder, env=own, capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=False)

    @contextlib.contextmanager
    def linked(self, inputs: Path | None = None) -> Iterator[Path]:
        """A folder with links to the inputs."""
        with tempfile.TemporaryDirectory() as name:
            for path in (inputs or self.shared).iterdir():
                (Path(name) / path.name).symlink_to(path)
            yield Path(name)

    def herd(self, line: str, folder: Path) -> Outcome:
        """`herd …` in a folder, forked."""
        before, arguments = present(folder), shlex.split(line)[1:]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull) as none:
            streams = (none.fileno(), out.fileno(), err.fileno())
            code = self._forker.run(arguments, folder=folder, environment=environment(), streams=streams, seconds=300)
            for stream in (out, err):
                stream.seek(0)
            return outcome(code, out.read(), err.read(), folder, before)

    def process(self, command: list[str], folder: Path) -> Outcome:
        """Any other program, from its start."""
        before = present(folder)
        done = subprocess.run(
            command, cwd=folder, env=environment(), capture_output=True, stdin=subprocess.DEVNULL, timeout=300, check=False
        )
        return outcome(done.returncode, done.stdout, done.stderr, folder, before)

    def each(self, lines: list[str]) -> dict[str, Outcome]:
        """Every run that begins with what is asked for, each in a folder of its own."""
        found = {}
        for line in lines:
            if line.startswith(self.only):
                with self.linked() as folder:
                    found[line] = self.herd(line.replace("OUT", "out"), folder)
        return found


def help_part(runner: Runner) -> dict[str, Outcome]:
    return runner.each(runs.helps())


def choices_part(runner: Runner) -> dict[str, Outcome]:
    return runner.each([f"{line} {more}".strip() for name, line in runs.BASES.items() for more in ("", *runs.choices(name))])


def numbers_part(runner: Runner) -> dict[str, Outcome]:
    return runner.each([f"{line} {more}" for name, line in runs.BASES.items() for more in runs.numbers(name)])


def python_part(runner: Runner) -> dict[str, Outcome]:
    """One process for all functions; its output is told apart by the names at the head of lines and in those of files."""
    if runner.only and not runner.only.startswith("python"):
        return {}
    with runner.linked() as folder:
        return {"python": runner.process([sys.executable, "-c", runs.PYTHON], folder)}


def shards_part(runner: Runner) -> dict[str, Outcome]:
    """Each run whole, in two shards and merged."""
    found = {}
    for line in (line for line in runs.SHARDED.values() if line.startswith(runner.only)):
        with runner.linked() as folder:
            found[line] = runner.herd(f"{line} -q -o whole.h5", folder)
            for shard in (1, 2):
                found[f"{line} --shard {shard}/2"] = runner.herd(f"{line} --shard {shard}/2 -q -o {shard}.h5", folder)
            found[f"{line} merged"] = runner.herd("herd merge 1.h5 2.h5 -o merged.h5", folder)
            found[f"{line} merged"]["same bytes"] = same_bytes(folder, "whole.h5", "merged.h5")
    return found


def resume_part(runner: Runner) -> dict[str, Outcome]:
    """Each run whole, ended in its second checkpoint by a kill or by a signal that it answers, and resumed."""
    found = {}
    for line in (line for line in runs.RESUMED if line.startswith(runner.only)):
        with runner.linked() as folder:
            found[line] = runner.herd(f"{line} -q -o whole.h5", folder)
            for number in ("SIGKILL", "SIGTERM"):
                kept = f"{line} -q --checkpoint c.state --every 1"
                command = [sys.executable, "-c", runs.KILLED, number, *shlex.split(f"{kept} -o killed.h5")[1:]]
                found[f"{line} {number}"] = runner.process(command, folder)
                found[f"{line} {number} resumed"] = resumed = runner.herd(f"{kept} --resume -o {number}.h5", folder)
                resumed["same bytes"] = same_bytes(folder, "whole.h5", f"{number}.h5")
    return found


def cluster_part(runner: Runner) -> dict[str, Outcome]:
    """Runs whose units or blocks are done by two workers, where Dask is installed."""
    found = {}
    for line in (runs.SHARDED[name] for name in runs.CLUSTERED if runs.SHARDED[name].startswith(runner.only)):
        with runner.linked() as folder:
            herd = str(Path(sys.executable).with_name("herd"))
            command = [herd, *shlex.split(line)[1:], "--cluster", "local:2", "-q", "-o", "out.h5"]
            found[f"{line} --cluster local:2"] = runner.process(command, folder)
    return found


def histories_part(runner: Runner) -> dict[str, Outcome]:
    """`check --rerun` of every archived artifact with all archived inputs."""
    found: dict[str, Outcome] = {}
    for place in sorted(runs.ARCHIVES.glob("herd-*/histories.zip")):
        with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(place) as archive:
            folder = Path(name)
            archive.extractall(folder)
            index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
            inputs = " ".join(f"--input {each}" for each in sorted(archive.namelist()) if each not in {"index.json", *index})
            for each, line in index.items():
                if line.startswith(runner.only):
                    found[f"{line} of {place.parent.name}"] = runner.herd(f"herd check --rerun {each} {inputs}", folder)
    return found


def pages_part(runner: Runner) -> dict[str, Outcome]:
    """The shell blocks of each page, one after another in one folder."""
    found: dict[str, Outcome] = {}
    for page in (page for page in runs.PAGES if page.startswith(runner.only)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for block in runs.blocks(page):
                before = present(folder)
                done = runner.bash(block, folder)
                found[f"{page}: {block}"] = outcome(done.returncode, done.stdout, done.stderr, folder, before)
    return found


PARTS: dict[str, Callable[[Runner], dict[str, Outcome]]] = {
    "help": help_part,
    "choices": choices_part,
    "numbers": numbers_part,
    "python": python_part,
    "shards": shards_part,
    "resume": resume_part,
    "cluster": cluster_part,
    "histories": histories_part,
    "pages": pages_part,
}


# Comparing -----------------------------------------------------------------------------------------------------


def changes(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Lines that tell where two values of JSON differ; lists of texts as a patch tells it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in new or key not in old:
                yield f"{place}{key}: {'is gone' if key not in new else f'is new: {json.dumps(new[key], ensure_ascii=False)}'}"
            else:
                yield from changes(old[key], new[key], f"{place}{key}: ")
    elif isinstance(old, list) and isinstance(new, list) and all(isinstance(each, str) for each in (*old, *new)):
        patch = list(difflib.unified_diff(old, new, lineterm="", n=0))[2:]
        yield from (f"{place}{line}" for line in patch if not line.startswith("@@"))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (ours, theirs) in enumerate(zip(old, new, strict=True), 1):
            yield from changes(ours, theirs, f"{place}{number}: ")
    elif old != new:
        yield f"{place}{json.dumps(old, ensure_ascii=False)} → {json.dumps(new, ensure_ascii=False)}"


def differences(before: dict[str, Outcome], after: dict[str, Outcome], aspects: tuple[str, ...]) -> tuple[list[str], dict[str, int]]:
    """(a paragraph for each run that is not what it was, how many runs differ in each aspect)."""
    paragraphs, counts = [], dict.fromkeys(("runs", *aspects), 0)
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after or name not in before:
            counts["runs"] += 1
            paragraphs.append(f"{name}\n    {'no such run any more' if name not in after else 'a new run'}")
            continue
        lines = []
        for aspect in (*aspects, "same bytes"):
            found = [f"    {aspect}: {line}" for line in changes(before[name].get(aspect), after[name].get(aspect))]
            if found and aspect in counts:
                counts[aspect] += 1
            lines += found
        if lines:
            paragraphs.append("\n".join([name, *lines]))
    return paragraphs, counts


def spent() -> float:
    """Seconds of processor time of this process and of those that it waited for."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def names(choices: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """The type of an option that takes some of these names, separated by commas."""

    def parse(text: str) -> tuple[str, ...]:
        unknown = [name for name in text.split(",") if name not in choices]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {unknown[0]!r} among {', '.join(choices)}")
        return tuple(name for name in choices if name in text.split(","))

    return parse


def done(part: str, runner: Runner, options: argparse.Namespace) -> bool:
    """Record or compare one part; whether it is what it was."""
    file = options.folder / f"{part}.json"
    if options.action == "compare" and not file.exists():
        print(f"{part}: not recorded in {options.folder}", flush=True)
        return True
    began = time.monotonic()
    found = PARTS[part](runner)
    summary = f"{part}: {len(found)} runs in {time.monotonic() - began:.0f} s"
    if options.action == "record":
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
        print(summary, flush=True)
        return True
    before = {name: run for name, run in json.loads(file.read_text(encoding="utf-8")).items() if name.startswith(options.only)}
    paragraphs, counts = differences(before, found, options.aspects)
    told = ", ".join(f"{count} in {aspect}" for aspect, count in counts.items() if count)
    print("\n".join([*paragraphs, f"{summary}; {len(paragraphs)} differ{f': {told}' if told else ''}"]), flush=True)
    return not paragraphs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", type=names(tuple(PARTS)), default=tuple(PARTS), metavar="PART,…", help="only these parts")
    parser.add_argument("--aspects", type=names(ASPECTS), default=ASPECTS, metavar="ASPECT,…", help="compare only these aspects")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only runs that begin so, as 'herd kernel-herd'")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        runner = Runner(stack, options.only)
        differ = [part for part in options.parts if not done(part, runner, options)]
    print(f"{spent():.0f} s of processor time")
    return int(bool(differ))


if __name__ == "__main__":
    raise SystemExit(main())
