"""The table of what was tortured: a row for each part, printed and kept in results/torture.md."""

from __future__ import annotations

import functools
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "results" / "torture.md"
BEGIN, END = "<!-- torture: begin -->", "<!-- torture: end -->"
HEAD = "| part | counted | number | commands run | refused | finished | lost or changed | crashed | tracebacks | seconds |"
RULE = "|---|---|---|---|---|---|---|---|---|---|"
COUNTED = {
    "mutants": "changed files",
    "parsers": "broken texts",
    "faults": "failed calls",
    "kills": "signals",
    "races": "pairs",
    "structures": "changed files",
    "histories": "changed histories",
    "foreign": "files of other formats",
}
LOST, CRASHED, TRACEBACKS = ("wrong",), ("crashed", "hung"), ("traceback", "warned")


def faults(verdicts: Counter[str]) -> int:
    """How many of the verdicts must not be."""
    return sum(verdicts[name] for name in (*LOST, *CRASHED, *TRACEBACKS))


def row(part: str, trials: int, verdicts: Counter[str], seconds: float) -> str:
    """A part's row."""
    bad = [sum(verdicts[name] for name in names) for names in (LOST, CRASHED, TRACEBACKS)]
    number = {"faults": verdicts.total(), "kills": verdicts["stopped"]}.get(part, trials)
    figures = [number, verdicts.total(), verdicts["refused"], verdicts["ran"], *bad, round(seconds)]
    return f"| {part} | {COUNTED[part]} | " + " | ".join(f"{figure:,}".replace(",", " ") for figure in figures) + " |"


def text(rows: dict[str, str]) -> str:
    """The table of some rows."""
    return "\n".join([HEAD, RULE, *(rows[part] for part in COUNTED if part in rows)]) + "\n"


def written() -> dict[str, str]:
    """The rows that the page has."""
    between = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in between.splitlines() if line.startswith("| ") and line != HEAD]
    return {line.split("|")[1].strip(): line for line in lines}


def write(rows: dict[str, str]) -> None:
    """Put rows into the page; those of other parts stay."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{text(written() | rows)}\n{END}{after}", encoding="utf-8")


def record(path: Path, part: str, numbers: tuple[int, int, int], counts: tuple[int, Counter[str], float], findings: list[str]) -> None:
    """Append what a slice of a part has done: its seed, its first number and how many at most; trials, verdicts, seconds; findings."""
    line = {
        "part": part,
        "numbers": numbers,
        "trials": counts[0],
        "verdicts": counts[1],
        "seconds": round(counts[2], 1),
        "commit": commit(),
        "findings": findings,
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


@functools.cache
def commit() -> str:
    """The commit that is tried, with + where files differ from it; "unknown" outside of a repository."""

    def answer(*words: str) -> str:
        told = subprocess.run(["git", "-C", str(PAGE.parent), *words], capture_output=True, text=True, check=False)
        return told.stdout.strip() if told.returncode == 0 else "unknown"

    return answer("rev-parse", "--short=8", "HEAD") + ("+" if answer("status", "--porcelain", "--untracked-files=no") else "")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def following(path: Path, part: str, seed: int, first: int) -> int:
    """The number after the last trial of a part with a seed that is recorded, at least `first`."""
    taken = [each["numbers"] for each in _lines(path) if each["part"] == part and each["numbers"][0] == seed]
    return max([first, *(start + count for _, start, count in taken)])


def by_commit(path: Path) -> list[str]:
    """A line for each part and commit, in the order of the record: trials, and how many of their commands are findings."""
    counts: dict[tuple[str, str], list[int]] = {}
    for each in _lines(path):
        count = counts.setdefault((each["part"], each.get("commit", "unknown")), [0, 0])
        count[0] += each["trials"]
        count[1] += faults(Counter(each["verdicts"]))
    return [f"{part}: {trials} trials on {where}, {found} findings" for (part, where), (trials, found) in counts.items()]


def recorded(path: Path) -> dict[str, tuple[int, Counter[str], float]]:
    """Trials, verdicts and seconds of each part, over all slices.  Raises ValueError where two slices of a part share a trial."""
    found: dict[str, tuple[int, Counter[str], float]] = {}
    ranges: list[tuple[str, int, range]] = []
    for each in _lines(path):
        part, (seed, first, count) = each["part"], each["numbers"]
        numbers = range(first, first + count)
        for other, its_seed, taken in ranges:
            if (other, its_seed) == (part, seed) and max(taken.start, first) < min(taken.stop, numbers.stop):
                raise ValueError(f"{path}: two slices of {part} have seed {seed} and trials from {max(taken.start, first)} on")
        ranges.append((part, seed, numbers))
        trials, verdicts, seconds = found.get(part, (0, Counter[str](), 0.0))
        found[part] = trials + each["trials"], verdicts + Counter(each["verdicts"]), seconds + each["seconds"]
    return found
