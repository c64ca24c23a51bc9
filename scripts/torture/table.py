"""The table of what was tortured: a row for each part, printed and kept in docs/reliability.md."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
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


def record(path: Path, part: str, numbers: tuple[int, int, int], counts: tuple[int, Counter[str], float]) -> None:
    """Append what a slice of a part has done: its seed, its first number and how many at most; trials, verdicts, seconds."""
    line = {"part": part, "numbers": numbers, "trials": counts[0], "verdicts": counts[1], "seconds": round(counts[2], 1)}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def recorded(path: Path) -> dict[str, tuple[int, Counter[str], float]]:
    """Trials, verdicts and seconds of each part, over all slices.  Raises ValueError where two slices of a part share a trial."""
    found: dict[str, tuple[int, Counter[str], float]] = {}
    ranges: list[tuple[str, int, range]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        each = json.loads(line)
        part, (seed, first, count) = each["part"], each["numbers"]
        numbers = range(first, first + count)
        for other, its_seed, taken in ranges:
            if (other, its_seed) == (part, seed) and max(taken.start, first) < min(taken.stop, numbers.stop):
                raise ValueError(f"{path}: two slices of {part} have seed {seed} and trials from {max(taken.start, first)} on")
        ranges.append((part, seed, numbers))
        trials, verdicts, seconds = found.get(part, (0, Counter[str](), 0.0))
        found[part] = trials + each["trials"], verdicts + Counter(each["verdicts"]), seconds + each["seconds"]
    return found
