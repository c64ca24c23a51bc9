"""Do the tests bite?  Changes one operator, constant or comparison of the topics at a time and runs the nearest tests.

    python scripts/mutants.py --count 60 --seed 0
    python scripts/mutants.py --minutes 10 --jobs 2      # as many of the 60 as that allows

Everything happens in copies, so the source is never altered, however the script ends.  The tests must pass in a copy before anything
is changed there.  A mutant is killed when a test fails.  One whose tests do not end in --seconds is killed too where the unchanged
tests took less than a tenth of that (it loops without end); where they are slow by themselves it is counted apart.

The nearest tests of herdcli/TOPIC/…/NAME.py are tests/TOPIC/test_NAME.py where that is, the tests of other topics that import it, then
all of tests/TOPIC but the slow ones; tests of commands are not run, so the share is a lower bound for the whole suite.  Not changed:
annotations, texts, and herdcli/fast (compiled loops and NumPy twins, which are held to each other bit by bit).  A printed survivor is
to be tested or explained.
"""

from __future__ import annotations

import argparse
import ast
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

SOURCE = Path(__file__).resolve().parent.parent
TOPICS = ("rbm", "herding", "quadrature", "markov", "online", "ica", "numerics", "em", "regression")
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Pow: "*"}
COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
QUICK = 10.0  # tests that take less than this part of the limit without a mutant do not run over it by chance


@dataclass(frozen=True)
class Mutant:
    """What stands at the bytes begin … end of a file, and what is to stand there."""

    path: Path
    line: int
    begin: int
    end: int
    old: str
    new: str


def changed(node: ast.AST) -> str | None:
    """The expression to take a node's place, or None if it is not of a kind that is changed."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return f"(({ast.unparse(node.left)}) {OPERATORS[type(node.op)]} ({ast.unparse(node.right)}))"
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        return f"(({ast.unparse(node.left)}) {COMPARISONS[type(node.ops[0])]} ({ast.unparse(node.comparators[0])}))"
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return f"({node.value} + 1)"
    if isinstance(node, ast.Constant) and type(node.value) is float:
        return f"({node.value!r} + 1)" if node.value in (0, 1) else f"({node.value!r} / 2)"
    return None


def expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Every expression below a node except annotations and what stands in a text."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns") and not isinstance(child, ast.JoinedStr):
                if isinstance(child, ast.expr):
                    yield child
                yield from expressions(child)


def candidates() -> list[Mutant]:
    """Every mutant of the topics."""
    found = []
    for topic in TOPICS:
        for path in sorted((SOURCE / "herdcli" / topic).rglob("*.py")):
            source = path.read_bytes()
            starts = [0]
            for line in source.splitlines(keepends=True):
                starts.append(starts[-1] + len(line))
            for node in expressions(ast.parse(source)):
                new = changed(node)
                if new is not None and node.end_lineno is not None and node.end_col_offset is not None:
                    begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
                    found.append(Mutant(path.relative_to(SOURCE), node.lineno, begin, end, source[begin:end].decode(), new))
    return found


def nearest(path: Path) -> list[Path]:
    """Test files to run for a source file, the nearest first."""
    topic, stem = path.parts[1], path.stem
    folder = Path("tests", topic)
    own = folder / f"test_{stem}.py"
    module = ".".join(path.with_suffix("").parts)
    names = re.compile(rf"{re.escape(module)}\b|from {re.escape(module.rpartition('.')[0])} import .*\b{stem}\b")
    others = [each.relative_to(SOURCE) for each in sorted((SOURCE / "tests").glob("*/test_*.py")) if names.search(each.read_text())]
    far = [each for each in others if each.parts[1] not in (topic, "cli")]
    return ([own] if (SOURCE / own).exists() else []) + far + [folder]


@dataclass
class Copy:
    """A copy of the package and its tests; `usual` are the seconds that tests take there without a mutant."""

    folder: Path
    seconds: float
    usual: dict[Path, float] = field(default_factory=dict)
    running: subprocess.Popen[bytes] | None = None
    stopped: bool = False

    def fill(self) -> None:
        """Copy what the tests need, and see that Python imports the copy and not an installation."""
        for name in ("herdcli", "tests", "data", "docs", "scripts"):
            shutil.copytree(SOURCE / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile", "setup.py"):
            shutil.copy(SOURCE / name, self.folder)
        told = subprocess.check_output([sys.executable, "-c", "import herdcli; print(herdcli.__file__)"], cwd="/", env=self.environment)
        if not Path(told.decode().strip()).is_relative_to(self.folder.resolve()):
            raise SystemExit(f"mutants: the tests would import {told.decode().strip()}, not the copy in {self.folder}")

    @property
    def environment(self) -> dict[str, str]:
        """The copy is found before any installation; no compiled Python is kept, since a change within a second would not renew it."""
        return os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}

    def run(self, tests: Path, seconds: float | None) -> int | None:
        """The exit code of pytest, None if it did not end in time; its children end with it."""
        if self.stopped:
            return -1
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-n", "0", str(tests)]
        where = {"cwd": self.folder, "env": self.environment}
        self.running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, **where)
        try:
            return self.running.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.stop()

    def stop(self) -> None:
        """End the tests that run, and what they have started."""
        if self.running is not None and self.running.poll() is None:
            os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait()

    def measure(self, path: Path) -> None:
        """Run the tests of a file once without a mutant: they must pass."""
        for tests in nearest(path):
            if tests not in self.usual:
                begun = time.monotonic()
                if self.run(tests, None) != 0:
                    raise SystemExit(f"mutants: {tests} fails without a mutant")
                self.usual[tests] = time.monotonic() - begun

    def verdict(self, mutant: Mutant) -> str:
        """'killed', 'survived', or 'too slow' to tell."""
        self.measure(mutant.path)
        whole = (self.folder / mutant.path).read_bytes()
        try:
            (self.folder / mutant.path).write_bytes(whole[: mutant.begin] + mutant.new.encode() + whole[mutant.end :])
            for tests in nearest(mutant.path):
                code = self.run(tests, self.seconds)
                if code is None and self.usual[tests] * QUICK > self.seconds:
                    return "too slow"
                if code != 0:
                    return "killed"
            return "survived"
        finally:
            (self.folder / mutant.path).write_bytes(whole)


def share(counts: Counter[str]) -> str:
    """The share killed with its standard error √(p (1 − p) / n), that of a simple random sample of n mutants."""
    n = counts["killed"] + counts["survived"]
    apart = f"; {counts['too slow']} too slow to tell" if counts["too slow"] else ""
    if not n:
        return f"none judged{apart}"
    p = counts["killed"] / n
    return f"{counts['killed']} of {n} killed, {100 * p:.1f} ± {100 * math.sqrt(p * (1 - p) / n):.1f} %{apart}"


def main() -> None:
    """Print each survivor as it is found, and the share killed, in all and by topic."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=60, help="mutants to make")
    parser.add_argument("--seed", type=int, default=0, help="which of all mutants they are")
    parser.add_argument("--seconds", type=float, default=300.0, help="for one run of tests")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no mutant after these")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begun, found = time.monotonic(), candidates()
    chosen = random.Random(given.seed).sample(found, min(given.count, len(found)))
    print(f"{len(chosen)} of {len(found)} mutants", flush=True)
    counts: dict[str, Counter[str]] = {topic: Counter() for topic in ("all", *TOPICS)}
    idle: SimpleQueue[Copy] = SimpleQueue()
    copies = []

    def judge(mutant: Mutant) -> None:
        if time.monotonic() - begun > 60 * given.minutes:
            return
        copy = idle.get()
        try:
            verdict = copy.verdict(mutant)
        finally:
            idle.put(copy)
        for group in ("all", mutant.path.parts[1]):
            counts[group][verdict] += 1
        if verdict != "killed":
            print(f"{verdict}: {mutant.path}:{mutant.line}: {' '.join(mutant.old.split())}  →  {mutant.new}", flush=True)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        try:
            for job in range(given.jobs):
                copies.append(Copy(Path(folder, str(job)), given.seconds))
                copies[-1].fill()
                idle.put(copies[-1])
            for _ in pool.map(judge, chosen):
                pass
        except BaseException as error:  # Ctrl-C and SIGTERM too: no more mutants, and the copies go with their folder
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.stopped = True
                copy.stop()
            if not isinstance(error, KeyboardInterrupt):
                raise
            print("interrupted")
    for topic, count in counts.items():
        print(f"{topic}: {share(count)}")


if __name__ == "__main__":
    main()
