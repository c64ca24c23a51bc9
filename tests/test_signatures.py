"""What signatures say: types that can be checked, and the options that a function uses."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("cli", "rbm", "markov", "em", "online", "regression", "quadrature", "ica", "herding")
MOST_UNTYPED = 45  # signatures with Any; it may only fall
LARGEST_SHARE = 0.6  # of the functions that options of `herd kernel-herd` reach: those that read less than half of what they are handed


def _untyped_signatures(source: str) -> Iterator[str]:
    """Yield the functions whose parameters or result have Any in their types."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own = node.args
            arguments = [*own.posonlyargs, *own.args, *own.kwonlyargs, *filter(None, (own.vararg, own.kwarg))]
            types = [each for each in (*(argument.annotation for argument in arguments), node.returns) if each is not None]
            if any(re.search(r"\bAny\b", ast.unparse(each)) for each in types):
                yield node.name


def test_any_in_a_signature_is_found():
    source = "def first(x: Any): ...\ndef second(x: int) -> 'list[Any]': ...\ndef third(**x: Any): ...\ndef fourth(x: Anything): ..."
    assert list(_untyped_signatures(source)) == ["first", "second", "third"]


def test_few_signatures_of_commands_and_topics_have_any():
    paths = [path for part in PARTS for path in sorted((ROOT / "herdcli" / part).rglob("*.py"))]
    found = [f"{path.relative_to(ROOT)}: {name}" for path in paths for name in _untyped_signatures(path.read_text(encoding="utf-8"))]
    assert len(found) <= MOST_UNTYPED, "\n".join(found)


@pytest.mark.slow
def test_functions_read_a_share_of_the_options_they_are_handed():
    command = [sys.executable, "scripts", "checks/settings_use", "--only", "kernel-herd"]
    table = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300).stdout
    reached, few = next(re.findall(r"\d+", line) for line in table.splitlines() if line.startswith("| all |"))[0::2][:2]
    assert int(few) <= LARGEST_SHARE * int(reached)
