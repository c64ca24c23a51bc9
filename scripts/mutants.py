"""Do the tests bite?  Changes one operator, constant or comparison of the topics at a time and runs the nearest tests.

    python scripts/mutants.py --count 60 --seed 0

A mutant is killed when a test fails or takes longer than --seconds.  Everything happens in a copy; the printed survivors are to be
tested or explained.  The nearest tests of herdcli/TOPIC/…/NAME.py are tests/TOPIC/test_NAME.py where that is, then all of tests/TOPIC.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
TOPICS = ("rbm", "herding", "quadrature", "markov", "online", "ica", "numerics", "em")
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Pow: "*"}
COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}


def mutations(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, what stood there, the whole expression that takes its place) of each change that can be made to an expression of one line."""
    tree, lines = ast.parse(source), source.encode().splitlines()
    annotations = {id(part) for node in ast.walk(tree) for name in ("annotation", "returns") for part in _walk(getattr(node, name, None))}
    for node in ast.walk(tree):
        if id(node) in annotations or getattr(node, "lineno", 0) != getattr(node, "end_lineno", 1):
            continue
        if not isinstance(node, ast.expr):
            continue
        old = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not isinstance(node.left, ast.JoinedStr):
            yield node.lineno, old, f"(({ast.unparse(node.left)}) {OPERATORS[type(node.op)]} ({ast.unparse(node.right)}))"
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            yield node.lineno, old, f"(({ast.unparse(node.left)}) {COMPARISONS[type(node.ops[0])]} ({ast.unparse(node.comparators[0])}))"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node.lineno, old, f"({node.value!r} + 1)" if node.value in (0, 1) else f"({node.value!r} / 2)"


def _walk(node: ast.AST | None) -> Iterator[ast.AST]:
    return ast.walk(node) if node is not None else iter(())


def candidates() -> list[tuple[Path, int, str, str]]:
    """Every mutation of the topics: file, line, old text, new text; those whose text is on its line once."""
    found = []
    for topic in TOPICS:
        for path in sorted((SOURCE / "herdcli" / topic).rglob("*.py")):
            source = path.read_text()
            lines = source.splitlines()
            found += [(path.relative_to(SOURCE), *each) for each in mutations(source) if lines[each[0] - 1].count(each[1]) == 1]
    return found


def nearest(path: Path) -> list[list[str]]:
    """Test files to run for a source file, the nearest first."""
    folder = Path("tests", path.parts[1])
    own = folder / f"test_{path.stem}.py"
    return ([[str(own)]] if (SOURCE / own).exists() else []) + [[str(folder)]]


def killed(copy: Path, path: Path, seconds: float) -> bool:
    """Does one of the nearest tests fail, or not end in time?"""
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    for tests in nearest(path):
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
        try:
            if subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=seconds, check=False).returncode:
                return True
        except subprocess.TimeoutExpired:
            return True
    return False


def main() -> None:
    """Print each survivor as it is found, and the share killed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=60, help="mutants to make")
    parser.add_argument("--seed", type=int, default=0, help="which of all mutants they are")
    parser.add_argument("--seconds", type=float, default=300.0, help="for one run of tests")
    given = parser.parse_args()
    found = candidates()
    chosen = random.Random(given.seed).sample(found, min(given.count, len(found)))
    survived, sound = 0, list[list[str]]()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("herdcli", "tests", "data"):
            shutil.copytree(SOURCE / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(SOURCE / "pyproject.toml", copy)
        for number, (path, line, old, new) in enumerate(chosen, 1):
            if nearest(path)[0] not in sound and killed(copy, path, given.seconds):
                raise SystemExit(f"the tests of {path} fail without a mutant")
            sound.append(nearest(path)[0])
            whole = (copy / path).read_text()
            lines = whole.splitlines(keepends=True)
            lines[line - 1] = lines[line - 1].replace(old, new)
            (copy / path).write_text("".join(lines))
            if not killed(copy, path, given.seconds):
                survived += 1
                print(f"survived: {path}:{line}: {old}  →  {new}")
            (copy / path).write_text(whole)
            print(f"{number - survived} of {number} killed", flush=True)


if __name__ == "__main__":
    main()
