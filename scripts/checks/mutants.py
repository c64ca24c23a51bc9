"""Do the tests bite?  Changes one operator, constant or comparison of the topics at a time and runs the nearest tests.

    python scripts checks/mutants --count 400 --seed 0
    python scripts checks/mutants --only em/gmm.py --count 40      # of one file or folder of herdcli
    python scripts checks/mutants --minutes 10                     # as many as that allows
    python scripts checks/mutants --by-hand                        # the faults of tests/mutants.toml

Everything happens in a copy of the sources, and each mutant in a process forked from one that has imported the libraries: the changed
module is compiled in memory, so no file is ever altered.  First every test (but the slow ones and the manual's examples) is run once
without a mutant, and which functions of the topics it calls is noted; `build/mutants.json` keeps that, for the test files that stay as
they are.  A mutant's nearest tests are those that call its function, or for what stands outside of functions, that call any function of
its class or module: first those of its topic, then all, the quickest first, for --seconds of their usual time.  A mutant is killed when
one of them fails that passes without it, or does not end (twenty times their usual time and 20 seconds more).  A survivor is one of these
tests, so the share is a lower bound for the whole suite.

Not changed, since no result shows it:
  - annotations, texts, and what is said in `raise` statements and warnings (whether they are reached is decided elsewhere);
  - numbers that stand for a name in capitals at the head of a module: sizes of blocks, tolerances, limits, each with its meaning beside
    it; and numbers of at most 10⁻⁶ anywhere, with what they multiply, which are guards of divisions and tolerances;
  - estimates of memory (functions named `memory`, `bytes`, `…_bytes`, `bytes_…`, `memory_…`), which tests/cli/limits/test_memory.py holds
    to a factor only; functions named `block`, names `block` and `size` of the larger of two numbers, and max(1, LIMIT // …): how much is
    done at one time;
  - defaults of the fields of a class, which stand for what a caller leaves out: the commands, which leave out nothing but what has no
    option, have their own, and old artifacts theirs, which their archive in tests/data holds;
  - arguments `maxsize`, `stacklevel`, `chunksize`; protocols, which only say what others have;
  - the −1 of a `reshape`, for which NumPy takes any negative number;
  - herdcli/fast (compiled loops and NumPy twins, which are held to each other bit by bit).
An operator takes the place of another, a whole number is made one more, a fraction halved, and a comparison moved by its boundary (< and
<=), or, where it has a fraction or a limit with a name in it, turned round: what is measured does not stand at a boundary.

Survivors that come to the same as the original are explained one by one in tests/mutants.toml: they count neither way, and an explanation
whose mutant is killed is told of.  Every other survivor is printed, and counts.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import fnmatch
import hashlib
import importlib.machinery
import importlib.util
import itertools
import json
import math
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2]
RECORD = Path("build", "mutants.json")
EXPLAINED = Path("tests", "mutants.toml")
TOPICS = ("rbm", "herding", "quadrature", "markov", "online", "ica", "numerics", "em", "regression")
LIBRARIES = (
    "numpy.testing",
    "scipy.special",
    "scipy.optimize",
    "scipy.stats",
    "scipy.integrate",
    "h5py",
    "pyarrow.feather",
    "click.testing",
)
LIBRARIES += (
    "hypothesis",
    "rich.progress",
    "rich.table",
    "threadpoolctl",
    "matplotlib.figure",
    "scipy.linalg",
    "scipy.sparse",
    "scipy.spatial",
)
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Pow: "*"}
COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
REVERSED = {ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "=="}
ESTIMATES = ("block", "bytes", "memory", "*_bytes", "bytes_*", "memory_*")
UNSEEN = ("maxsize", "stacklevel", "chunksize")
GUARD = 1e-6
MEMORY = 8 << 30  # bytes that a mutant may ask for
SOUND: set[str] = set()  # tests that have passed without a mutant in this run
UNSOUND: set[str] = set()  # tests that have failed without one
BROKEN = (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED, 70)
PYTEST = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "--hypothesis-seed=0", "--tb=no", "--no-header")


@dataclass(frozen=True)
class Mutant:
    """What stands at the bytes begin … end of a file, within a function ("" outside of all), and what is to stand there."""

    path: str
    function: str
    line: int
    begin: int
    end: int
    old: str
    new: str
    text: str = ""  # the line it is on
    column: int = 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.function or 'module'}: {self.old}  →  {self.new}"


def changed(node: ast.AST) -> str | None:
    """The expression to take a node's place, or None if it is not of a kind that is changed."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return f"(({ast.unparse(node.left)}) {OPERATORS[type(node.op)]} ({ast.unparse(node.right)}))"
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        table = REVERSED if on_a_line(node) else COMPARISONS
        return f"(({ast.unparse(node.left)}) {table[type(node.ops[0])]} ({ast.unparse(node.comparators[0])}))"
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return f"({node.value} + 1)"
    if isinstance(node, ast.Constant) and type(node.value) is float and not 0 < abs(node.value) <= GUARD:
        return f"({node.value!r} + 1)" if node.value in (0, 1) else f"({node.value!r} / 2)"
    return None


def on_a_line(node: ast.AST) -> bool:
    """Whether a comparison has a fraction or a name in capitals in it: of what is measured, nothing stands at the boundary."""
    fraction = (isinstance(part, ast.Constant) and type(part.value) is float for part in ast.walk(node))
    capitals = (isinstance(part, ast.Name) and part.id.strip("_").isupper() and len(part.id) > 2 for part in ast.walk(node))
    return any(fraction) or any(capitals)


def unchanged(node: ast.AST, function: str, within: str) -> bool:
    """Whether nothing below a node is changed, by the rules above."""
    match node:
        case ast.JoinedStr() | ast.Raise():
            return True
        case ast.BinOp(op=ast.Mult(), left=ast.Constant(value=float(number))):
            return 0 < abs(number) <= GUARD
        case ast.Call(func=ast.Name(id="max"), args=[ast.Constant(value=1), ast.BinOp(op=ast.FloorDiv(), left=ast.Name(id=name))]):
            return name.isupper()
        case ast.Call(func=ast.Attribute(attr="warn") | ast.Name(id="warn")):
            return True
        case ast.keyword(arg=str(name)):
            return name in UNSEEN
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if not function:
            return name.strip("_").isupper()
        case ast.Assign(targets=[ast.Name(id="block" | "size")], value=ast.Call(func=ast.Name(id="max"))):
            return True
        case ast.Assign(targets=[ast.Tuple(elts=names)]) if not function:
            return all(isinstance(each, ast.Name) and each.id.strip("_").isupper() for each in names)
        case ast.AnnAssign():
            return within == "."  # a field
        case ast.ClassDef(bases=[ast.Name(id="Protocol") | ast.Subscript(value=ast.Name(id="Protocol"))]):
            return True
        case ast.FunctionDef(name=name):
            return any(fnmatch.fnmatch(name.strip("_"), estimate) for estimate in ESTIMATES)
    return False


def expressions(node: ast.AST, function: str = "", within: str = "") -> Iterator[tuple[ast.expr, str]]:
    """Every expression below a node that may be changed, with the qualified name of its class or function.

    function  the name so far;  within  what stands between it and the name of a definition inside: "." or ".<locals>."
    """
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or name in ("annotation", "returns") or unchanged(child, function, within):
                continue
            if isinstance(child, ast.expr):
                yield child, function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = "." if isinstance(child, ast.ClassDef) else ".<locals>."
                yield from expressions(child, function + within + child.name, inner)
            else:
                yield from expressions(child, function, within)


def rests(tree: ast.AST) -> set[ast.AST]:
    """The numbers 1 of each −1 in the arguments of a `reshape`."""
    calls = (call for call in ast.walk(tree) if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute))
    arguments = (part for call in calls if call.func.attr == "reshape" for each in call.args for part in ast.walk(each))
    return {part.operand for part in arguments if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub)}


def candidates(folder: Path, only: str = "") -> list[Mutant]:
    """Every mutant of the topics.  only  parts of paths, with commas between them."""
    found, parts = [], only.split(",")
    for path in sorted(each for topic in TOPICS for each in (folder / "herdcli" / topic).rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if not any(part in name for part in parts):
            continue
        source = path.read_bytes()
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        tree = ast.parse(source)
        rest = rests(tree)
        for node, function in expressions(tree):
            new = None if node in rest else changed(node)
            if new is not None and node.end_lineno is not None and node.end_col_offset is not None:
                begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
                text = source[starts[node.lineno - 1] : starts[node.lineno]].decode().strip()
                found.append(Mutant(name, function, node.lineno, begin, end, ast.unparse(node), new, text, node.col_offset + 1))
    return found


def by_hand(folder: Path) -> list[Mutant]:
    """The faults of `by_hand` in tests/mutants.toml."""
    found = []
    for fault in tomllib.loads((folder / EXPLAINED).read_text())["by_hand"]:
        source = (folder / fault["path"]).read_bytes()
        begin, old = source.find(fault["old"].encode()), fault["old"].encode()
        if source.count(old) != 1:
            raise SystemExit(f"mutants: {fault['path']} has {source.count(old)} times: {fault['old']}")
        line = source.count(b"\n", 0, begin) + 1
        spans = [(node.lineno, function) for node, function in expressions(ast.parse(source)) if node.lineno <= line]
        found.append(Mutant(fault["path"], max(spans)[1], line, begin, begin + len(old), fault["fault"], fault["new"]))
    return found


@dataclass(eq=False)
class Recorder:
    """A plug-in of pytest: the seconds of CPU of each test that passes, and the functions of the topics it calls."""

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, set[str]] = field(default_factory=dict)
    shared: dict[str, set[str]] = field(default_factory=dict)  # what is called to collect a file, or to set up a fixture
    now: set[str] = field(default_factory=set)

    def trace(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call of a function of the topics; its lines are not followed."""
        code = frame.f_code
        _, package, rest = code.co_filename.rpartition("/herdcli/")
        if package and rest.startswith(TOPICS):
            self.now.add(f"herdcli/{rest}:{code.co_qualname.partition('.<locals>.<')[0]}")

    def kept(self, name: str) -> Generator[None, Any, Any]:
        """Note apart what is called now, and count it among what is going on besides."""
        outer, self.now = self.now, set()
        try:
            return (yield)
        finally:
            self.shared.setdefault(name, set()).update(self.now)
            self.now |= outer

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        return (yield from self.kept(collector.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
        return (yield from self.kept(fixturedef.argname))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Function, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        self.now, begun = set(), sum(os.multiply()[:4])
        found = yield
        self.seconds.setdefault(item.nodeid, sum(os.multiply()[:4]) - begun)
        shared = (self.shared.get(name, set()) for name in (item.nodeid.partition("::")[0], *item.fixturenames))
        self.calls[item.nodeid] = self.now.union(*shared)
        return found

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.seconds[report.nodeid] = math.inf


class Here:
    """Stands in for the server of tests/support/forked.py: `herd` is forked from the process of the test, whose modules are changed."""

    recorder: Recorder | None = None

    def __init__(self, environment: dict[str, str]) -> None:
        self.told = Path(tempfile.mkdtemp()) / "calls.json"

    def run(self, arguments: list[str], *, folder: Path, environment: dict[str, str], streams: tuple[int, ...], seconds: float) -> int:
        """The exit code of `herd ARGUMENTS`, negative for a signal; what it calls is recorded."""
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            leave, own = os._exit, [os.dup(stream) for stream in streams]
            for descriptor in set(range(3, max(own))) - set(own):
                with contextlib.suppress(OSError):
                    os.close(descriptor)  # the other ends of the pipes

            def tell(code: int) -> None:
                if self.recorder is not None:
                    self.told.write_text(json.dumps(list(self.recorder.now)))
                leave(code)

            os._exit = tell  # type: ignore[assignment]
            forked = importlib.import_module("forked")
            forked._become_herd((arguments, str(folder), environment), own)
        code = waited(child, seconds)
        if code is None:
            raise TimeoutError
        if self.recorder is not None and self.told.exists():
            self.recorder.now.update(json.loads(self.told.read_text()))
        return code

    def close(self) -> None:
        shutil.rmtree(self.told.parent)


def waited(child: int, seconds: float) -> int | None:
    """The exit code of a child that leads a group of processes, None if it does not end in time; then the group is killed."""
    end, pause = time.monotonic() + seconds, 0.002
    try:
        while time.monotonic() < end:
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            time.sleep(pause)
            pause = min(0.25, 1.2 * pause)
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def fork(work: Callable[[], int], seconds: float = math.inf, memory: int = 0) -> int | None:
    """The exit code of work done in a process of its own without output, None if it does not end in time."""
    child = os.fork()
    if not child:
        code = 70
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            if memory:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            code = work()
        finally:
            os._exit(code)
    return waited(child, seconds)


def digests(folder: Path) -> dict[str, str]:
    """Of each test file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("tests/**/test_*.py"))
    }


def record(files: list[str], to: Path) -> int:
    """Run test files once; what each test calls, and its seconds, are written as JSON."""
    recorder = Here.recorder = Recorder()
    threading.settrace(recorder.trace)
    sys.settrace(recorder.trace)
    try:
        pytest.main([*PYTEST, "--maxfail=1000000", "-m", "not slow and not cluster and not examples", *files], plugins=[recorder])
    finally:
        sys.settrace(None)
    found = {test: [seconds, sorted(recorder.calls[test])] for test, seconds in recorder.seconds.items() if seconds < math.inf}
    to.write_text(json.dumps(found))
    return 0


def recorded(folder: Path) -> dict[str, tuple[float, set[str]]]:
    """Seconds of each test and what it calls: as kept where the file has not changed, else by running it."""
    kept = json.loads((SOURCE / RECORD).read_text()) if (SOURCE / RECORD).exists() else {}
    now = digests(folder)
    tests = {file: of["tests"] for file, of in kept.items() if of["digest"] == now.get(file)}
    missing = [file for file in now if file not in tests]
    for part, files in itertools.groupby(missing, lambda file: Path(file).parent):
        those = list(files)
        print(f"running the tests of {len(those)} files of {part} without a mutant", flush=True)
        if fork(partial(record, those, folder / "record.json")) != 0:
            raise SystemExit("mutants: the tests do not run")
        tests |= {file: {} for file in those}
        for test, of in json.loads((folder / "record.json").read_text()).items():
            tests[test.partition("::")[0]][test] = of
        (SOURCE / RECORD).parent.mkdir(exist_ok=True)
        (SOURCE / RECORD).write_text(json.dumps({file: {"digest": now[file], "tests": of} for file, of in tests.items()}))
    return {test: (seconds, set(calls)) for of in tests.values() for test, (seconds, calls) in of.items()}


def nearest(mutant: Mutant, tests: dict[str, tuple[float, set[str]]], seconds: float) -> list[list[str]]:
    """Tests to run for a mutant, those of its topic before others; of each group the quickest, for `seconds` in all."""
    function = f"{mutant.path}:{mutant.function}"
    inside = {call.removeprefix(function + ".") for _, calls in tests.values() for call in calls if call.startswith(function + ".")}
    of_class = any(not name.startswith("<locals>") for name in inside)  # whose body is run where its module is first imported, by any test
    where = [(function,), (function + ".",), (mutant.path + ":",)][1 if of_class else 0 if mutant.function else 2 :]
    for names in where:
        exact = names == (function,)
        reached = [test for test, (_, calls) in tests.items() if (function in calls if exact else any(c.startswith(names) for c in calls))]
        if reached:
            break
    folder = "/".join(("tests", *mutant.path.split("/")[1:2], ""))
    groups: list[list[str]] = [[], []]
    for test in sorted(reached, key=lambda test: (not test.startswith(folder), tests[test][0])):
        seconds -= tests[test][0]
        if seconds >= 0 or not any(groups):
            groups[not test.startswith(folder)].append(test)
    return [group for group in groups if group]


class Changed(importlib.machinery.SourceFileLoader):
    """Loads one module from a changed source, and finds no other."""

    def __init__(self, mutant: Mutant, folder: Path) -> None:
        module = mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        super().__init__(module, str(folder / mutant.path))
        whole = (folder / mutant.path).read_bytes()
        self.source = whole[: mutant.begin] + mutant.new.encode() + whole[mutant.end :]

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None


def judge(mutant: Mutant, tests: dict[str, tuple[float, set[str]]], seconds: float, folder: Path, until: float = math.inf) -> str:
    """'killed', 'survived', 'unreached' by any test, or 'left' when the time is up."""
    if time.monotonic() > until:
        return "left"
    groups = nearest(mutant, tests, seconds)
    for group in groups:
        while sound := [test for test in group if test not in UNSOUND]:
            code = run(sound, 20 + 20 * sum(tests[test][0] for test in sound), folder, mutant)
            if code in BROKEN:
                raise RuntimeError(f"the tests of {mutant} could not be run")
            if code == 0:
                break
            if passes(last_of(folder) or sound[0], tests, folder):
                return "killed"
    return "survived" if groups else "unreached"


def run(group: list[str], limit: float, folder: Path, mutant: Mutant | None = None) -> int | None:
    """The exit code of pytest for some tests, None where they do not end."""

    def work() -> int:
        if mutant is not None:
            sys.meta_path.insert(0, Changed(mutant, folder))
        return int(pytest.main([*PYTEST, *group], plugins=[Ordered(group, told(folder, os.getppid()))]))

    told(folder, os.getpid()).unlink(missing_ok=True)
    return fork(work, limit, MEMORY)


def told(folder: Path, judge: int) -> Path:
    """Where the tests that a process runs for its judge write which of them is running."""
    return folder / f"running-{judge}"


def last_of(folder: Path) -> str:
    """The test that ran last, "" for none."""
    path = told(folder, os.getpid())
    return path.read_text() if path.exists() else ""


def passes(test: str, tests: dict[str, tuple[float, set[str]]], folder: Path) -> bool:
    """Whether a test that has failed with a mutant passes without one; run once in all, and left out from then on where it does not."""
    if test not in SOUND and run([test], 60 + 60 * tests[test][0], folder) != 0:
        print(f"left out, since it fails without a mutant: {test}", flush=True)
        UNSOUND.add(test)
        return False
    SOUND.add(test)
    return True


@dataclass(eq=False)
class Ordered:
    """A plug-in of pytest: the tests in the order they are asked for, and which of them is running."""

    tests: list[str]
    now: Path

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        place = {test: at for at, test in enumerate(self.tests)}
        items.sort(key=lambda item: place[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.now.write_text(nodeid)


def explanations(folder: Path) -> list[dict[str, str]]:
    """Of mutants that come to the same as the original: `path`, `function`, `old`, `new`, `text` of its line, `column`, and `why`."""
    return list(tomllib.loads((folder / EXPLAINED).read_text()).get("equivalent", []))


def explained(mutant: Mutant, why: list[dict[str, str]]) -> dict[str, str] | None:
    """The explanation of a mutant, if there is one."""
    names = ("path", "function", "old", "new", "text", "column")
    return next((each for each in why if all(fnmatch.fnmatchcase(str(getattr(mutant, name)), each.get(name, "*")) for name in names)), None)


def share(counts: Counter[str]) -> str:
    """The share killed with its standard error √(p (1 − p) / n), that of a simple random sample of n mutants."""
    n = counts["killed"] + counts["survived"] + counts["unreached"]
    if not n:
        return "none judged"
    p = counts["killed"] / n
    told = f"{counts['killed']} of {n} killed, {100 * p:.1f} ± {100 * math.sqrt(p * (1 - p) / n):.1f} %"
    return told + (f"; {counts['explained']} more are explained in {EXPLAINED}" if counts["explained"] else "")


def copied(folder: Path) -> None:
    """Copy what the tests need and import from there what mutants share: the libraries, pytest, and the loops."""
    for name in ("herdcli", "tests", "data", "docs", "scripts", "results"):
        shutil.copytree(SOURCE / name, folder / name)
    for path in [each for each in SOURCE.iterdir() if each.is_file()]:
        shutil.copy2(path, folder)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    os.environ |= {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for library in LIBRARIES:
        importlib.import_module(library)
    fast = importlib.import_module("herdcli.fast")
    sys.path.append(str(folder / "tests" / "support"))
    importlib.import_module("forked").Forker = Here  # type: ignore[attr-defined]
    if not Path(str(fast.__file__)).is_relative_to(folder):
        raise SystemExit(f"mutants: the tests would import {fast.__file__}, not the copy in {folder}")


def main() -> None:
    """Print each survivor as it is found, and the share killed, in all and by topic."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=400, help="mutants to make")
    parser.add_argument("--seed", type=int, default=0, help="which of all mutants they are")
    parser.add_argument("--only", default="", metavar="PART,…", help="mutants of files whose path has one of these parts")
    parser.add_argument("--seconds", type=float, default=10.0, help="usual time of the tests that are run for one mutant")
    parser.add_argument("--by-hand", action="store_true", help="the faults of tests/mutants.toml instead")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no mutant after these")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        copied(folder)
        found, tests, why = candidates(folder, given.only), recorded(folder), explanations(folder)
        chosen = by_hand(folder) if given.by_hand else random.Random(given.seed).sample(found, min(given.count, len(found)))
        print(f"{len(chosen)} of {len(found)} mutants, {len(tests)} tests", flush=True)
        counts: dict[str, Counter[str]] = {topic: Counter() for topic in ("all", *TOPICS)}
        begun = time.monotonic()
        with multiprocessing.get_context("fork").Pool(given.jobs) as pool, contextlib.suppress(KeyboardInterrupt):
            work = partial(judge, tests=tests, seconds=given.seconds, folder=folder, until=begun + 60 * given.minutes)
            for mutant, verdict in zip(chosen, pool.imap(work, chosen), strict=True):
                told = verdict
                if explained(mutant, why):
                    told = "explained, but killed" if verdict == "killed" else "explained"
                if told not in ("killed", "left"):
                    print(f"{told}: {mutant}", flush=True)
                for group in ("all", mutant.path.split("/")[1]):
                    counts[group][verdict if verdict in ("killed", "left") else told] += 1
        for topic, count in counts.items():
            print(f"{topic}: {share(count)}")
        print(f"{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
