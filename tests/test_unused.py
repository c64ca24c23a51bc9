"""Definitions that nobody uses: their names stand nowhere else."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

USED_BY_NAME = {  # definitions that libraries or tables of names call
    "herdcli.markov.formats": re.compile(r"(read|write)_\w+"),
    "herdcli.cli": re.compile(r"(format|list)_\w+"),  # of click
    "herdcli.quadrature.selection": re.compile(r"_(embedding|rule|swap)"),  # the phases of a selection
    "herdcli.cli.frame.options.declaration": re.compile(r"\w+"),  # what declarations say, for whoever asks
}


def definitions(tree: ast.Module) -> Iterator[str]:
    """Names of classes, functions and methods, and of a module's constants."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_no_definition_is_unused():
    """A name that stands once in herdcli, tests and scripts together is the definition of what nobody uses."""
    written = [path for folder in ("herdcli", "tests", "scripts") for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".pyx"}]
    counts = Counter(word for path in written for word in re.findall(r"\w+", path.read_text(encoding="utf-8")))
    unused = {
        f"{module}: {name}"
        for path in (ROOT / "herdcli").rglob("*.py")
        for module in [".".join(path.relative_to(ROOT).with_suffix("").parts)]
        for name in definitions(ast.parse(path.read_text(encoding="utf-8")))
        if counts[name] == 1 and not name.startswith("__")
        if not any(module.startswith(place) and pattern.fullmatch(name) for place, pattern in USED_BY_NAME.items())
    }
    assert unused == set()
    assert set(definitions(ast.parse("A = 1\nclass B:\n    def c(self): ..."))) == {"A", "B", "c"}
