"""docs/coverage.md from docs/coverage.toml, and what is wrong with it: `python scripts dev/make_coverage [--check]`."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE, PAGE, EXPECTED = ROOT / "docs" / "coverage.toml", ROOT / "docs" / "coverage.md", ROOT / "scripts" / "papers" / "expected.toml"
KEYS = {"ref", "what", "command", "tests", "judged", "reason"}
NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?:[–-](\d+(?:\.\d+)?))?")


def numbers(text: str) -> set[str]:
    """`2.3–2.5` as {2.3, 2.4, 2.5}, `9–11` as {9, 10, 11}; several, separated by commas."""
    found: set[str] = set()
    for first, last in NUMBER.findall(text):
        chapter, _, start = first.rpartition(".")
        end = (last or first).rpartition(".")[2]
        found |= {f"{chapter}.{n}" if chapter else str(n) for n in range(int(start), int(end) + 1)}
    return found


def equations(ref: str) -> set[str]:
    """The equations among `eq. 2.1, 2.2, fig. 3.1, alg. 2.1`."""
    found: set[str] = set()
    for part in re.findall(r"eq\. ([\d.,–\- ]+)", ref):
        found |= numbers(part)
    return found


def tests() -> dict[str, set[str]]:
    """Test functions by file, the path under tests/."""
    folder = ROOT / "tests"
    return {
        str(path.relative_to(folder)): set(re.findall(r"^\s*def (test_\w+)", path.read_text(), re.MULTILINE))
        for path in folder.rglob("test_*.py")
    }


def unknown(command: str) -> list[str]:
    """Commands, options and choices that the manual does not have, scripts that are not there."""
    found = []
    for part in re.sub(r"\([^)]*\)|'[^']*'", "", command).split(";"):
        words = part.split()
        if words[0] != "herd":  # a script, or a module that no command uses yet
            found += [] if (ROOT / words[0]).exists() else [words[0]]
            continue
        manual = ROOT / "docs" / "commands" / f"{words[1]}.md"
        text = manual.read_text() if manual.exists() else ""
        choices = [choice for word in words[2:] for choice in ([word] if word.startswith("--") else word.split("|"))]
        found += [f"{words[1]} {word}" for word in choices if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)]
        found += [] if text else [words[1]]
    return found


def wrong() -> list[str]:
    """What is missing or not there, in one line each."""
    table, there, found = tomllib.loads(TABLE.read_text()), tests(), []
    judged = {
        paper["name"]: {claim["figure"] for claim in paper.get("claim", ())} for paper in tomllib.loads(EXPECTED.read_text())["paper"]
    }
    for document in table["document"]:
        name, seen = document["name"], set()
        for row in document["rows"]:
            where = f"{name}, {row['ref']}"
            seen |= equations(row["ref"])
            found += [f"{where}: unknown key {key}" for key in set(row) - KEYS]
            answered = row.get("command") and (row.get("tests") or row.get("judged"))
            if bool(answered) == bool(row.get("reason")):
                found.append(f"{where}: needs a command with a test or a verdict, or else a reason")
            found += [f"{where}: the manual has no {name}" for name in unknown(row.get("command", ""))] if "command" in row else []
            for test in row.get("tests", ()):
                file, _, function = test.partition("::")
                if file not in there or (function and function not in there[file]):
                    found.append(f"{where}: there is no test {test}")
            if "judged" in row and row["judged"] not in judged.get(name, ()):
                found.append(f"{where}: expected.toml says nothing of {row['judged']}")
        rows = {row.get("judged") or row["ref"] for row in document["rows"]}
        found += [f"{name}: no row for the claims of {figure}" for figure in sorted(judged.get(name, set()) - rows)]
        missing = numbers(document.get("numbered", "")) - seen
        if missing:
            found.append(f"{name}: no row for equation {', '.join(sorted(missing))}")
    return found


def page() -> str:
    """The page."""
    table = tomllib.loads(TABLE.read_text())
    pages = {paper["name"]: paper.get("page", "README") for paper in tomllib.loads(EXPECTED.read_text())["paper"]}
    lines = [table["intro"].strip(), ""]
    for document in table["document"]:
        rows = document["rows"]
        done = sum("reason" not in row for row in rows)
        lines += [f"## {document['title']}", "", f"{done} of {len(rows)} rows have a command.", ""]
        lines += ["| where | what | command | held by |", "|---|---|---|---|"]
        for row in rows:
            held = [f"`{test}`" for test in row.get("tests", ())]
            held += [f"[{row['judged']}](../results/{pages[document['name']]}.md)"] if "judged" in row else []
            command = f"`{row['command']}`".replace("|", "\\|") if "command" in row else "—"
            lines.append(f"| {row['ref']} | {row['what']} | {command} | {'<br>'.join(held) or row['reason']} |")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Write the page; with --check say what is wrong and whether it is stale."""
    found = wrong()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text() != page():
            found.append("docs/coverage.md is stale: python scripts dev/make_coverage")
    else:
        PAGE.write_text(page())
    print("\n".join(found), file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
