"""Move modules into packages, and everything that names them along: python scripts dev/move_modules [MAP]

The map (default docs/moves.tsv) has a line for each module: its old dotted path, a tab, the new one.  Files move with `git mv`, a new
package gets an `__init__.py` from a line `package`, its dotted path and its docstring.  Imports, dotted paths in strings and texts, and
paths of files follow.  A module keeps its last name or gets a new one; where the name that an import binds would change, the import keeps
the old one by `as`.  Lines whose module has moved already are applied to texts alone, so that a branch can catch up.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {".py", ".md", ".toml", ".mk", ".yml", ".yaml", ".pyx", ".pxi", ".h", ".sh", ".in", ".cfg", ".txt", ".pyi", ""}
KEPT = ("CHANGELOG.md", "docs/names.tsv", "docs/moves.tsv", "results/", "tests/data/", "scripts/dev/move_modules.py")


def read_map(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Old dotted path -> new one, and dotted path of a new package -> its docstring."""
    moves, packages = {}, {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            old, new, *rest = line.split("\t")
            if old == "package":
                packages[new] = rest[0]
            else:
                moves[old] = new
    return moves, packages


def file_of(module: str) -> Path:
    """The file of a module."""
    return ROOT / (module.replace(".", "/") + ".py")


def move_files(moves: dict[str, str], packages: dict[str, str]) -> None:
    """Make the packages and move the files."""
    for package, docstring in packages.items():
        start = ROOT / package.replace(".", "/") / "__init__.py"
        start.parent.mkdir(parents=True, exist_ok=True)
        if package.startswith("herdcli") and not start.exists():
            start.write_text(f'"""{docstring}"""\n')
    for old, new in moves.items():
        if file_of(old).exists():
            file_of(new).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "mv", str(file_of(old)), str(file_of(new))], cwd=ROOT, check=True)


def split_imports(text: str, moves: dict[str, str]) -> str:
    """`from package import module` with the module's new package."""
    lines = text.split("\n")
    for node in sorted(ast.walk(ast.parse(text)), key=lambda each: getattr(each, "lineno", 0), reverse=True):
        if not isinstance(node, ast.ImportFrom) or node.level or not any(f"{node.module}.{each.name}" in moves for each in node.names):
            continue
        homes: dict[str, list[str]] = {}
        for each in node.names:
            new = moves.get(f"{node.module}.{each.name}", f"{node.module}.{each.name}")
            home, _, name = new.rpartition(".")
            bound = each.asname or each.name
            homes.setdefault(home, []).append(name if name == bound else f"{name} as {bound}")
        indent = " " * node.col_offset
        comment = re.search(r"\)?(\s+#.*)$", lines[node.end_lineno - 1])
        tail = comment.group(1) if comment else ""
        lines[node.lineno - 1 : node.end_lineno] = [
            f"{indent}from {home} import {', '.join(names)}{tail}" for home, names in sorted(homes.items())
        ]
    return "\n".join(lines)


def replace_paths(text: str, moves: dict[str, str]) -> str:
    """Dotted paths and paths of files."""

    def dotted(match: re.Match[str]) -> str:
        parts = match.group().split(".")
        for cut in range(len(parts), 1, -1):
            if new := moves.get(".".join(parts[:cut])):
                return ".".join([new, *parts[cut:]])
        return match.group()

    def slashed(match: re.Match[str]) -> str:
        new = moves.get(match.group(1).replace("/", "."))
        return new.replace(".", "/") + ".py" if new else match.group()

    text = re.sub(r"\b(?:herdcli|tests|scripts)(?:\.\w+)+", dotted, text)
    return re.sub(r"\b((?:herdcli|tests|scripts)(?:/\w+)+)\.py\b", slashed, text)


def main() -> None:
    """Move what the map says."""
    moves, packages = read_map(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "moves.tsv")
    move_files(moves, packages)
    subprocess.run(["git", "add", "-A", "herdcli", "tests", "scripts"], cwd=ROOT, check=True)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in listed:
        path = ROOT / name
        if path.suffix not in TEXTS or name.startswith(KEPT) or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        changed = replace_paths(split_imports(text, moves) if path.suffix in {".py", ".pyi"} else text, moves)
        if changed != text:
            path.write_text(changed, encoding="utf-8")


if __name__ == "__main__":
    main()
