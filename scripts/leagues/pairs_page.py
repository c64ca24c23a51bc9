"""The part of results/league.md that is read from league-sides.csv: where herd is behind, then every number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean, stdev

from shared.figure_pipeline import Row

Values = dict[str, list[float]]  # of each draw, by contender


def values(rows: list[Row], key: str) -> Values:
    """Contender -> a number of each draw, in the order of the draws."""
    found: Values = {}
    for row in sorted(rows, key=lambda row: int(row["draw"])):
        found.setdefault(row["contender"], []).append(float(row[key]))
    return found


def spread(numbers: list[float]) -> float:
    """The standard error of a mean, 0 of one number."""
    return stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else 0.0


def finished(found: Values) -> Values:
    """Those that have a number in every draw."""
    return {name: numbers for name, numbers in found.items() if all(map(math.isfinite, numbers))}


def shown(number: float, asked: str) -> str:
    """A quality, time or memory."""
    return f"{number:.2%}" if "error" in asked and "squared" not in asked else f"{number:.6g}"


def standing(own: str, rows: list[Row]) -> Iterator[tuple[str, bool, str]]:
    """What is compared, whether the best rival is ahead, and a line, of one of herd's commands on one set."""
    asked, whole = rows[0]["asked"], finished(values(rows, "quality"))
    for kind, key in (("quality", "quality"), ("time", "seconds"), ("memory", "mb")):
        found = finished(values(rows, key))
        rivals = {name: numbers for name, numbers in found.items() if name in whole and not name.startswith("herd ")}
        if own not in found or not rivals:
            continue
        best = min(rivals, key=lambda name: fmean(rivals[name]))
        behind = fmean(found[own]) > fmean(rivals[best])
        if kind == "quality":
            apart = [a - b for a, b in zip(found[own], rivals[best], strict=True)]
            sure = "" if len(apart) == 1 else ", beyond" if abs(fmean(apart)) > 2 * spread(apart) else ", within"
            sure += " twice the standard error" if sure else ""
            pair = f"{shown(fmean(found[own]), asked)} against {best} {shown(fmean(rivals[best]), asked)}{sure}"
        else:
            unit = {"time": "s", "memory": "MB"}[kind]
            pair = f"{fmean(found[own]):.3g} {unit} against {best} {fmean(rivals[best]):.3g} {unit}"
        yield kind, behind, f"`{own}`, {rows[0]['set']}, {asked if kind == 'quality' else kind}: {pair}"


def groups(table: list[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Task, set and the rows of the draws in which every contender has run."""
    for task, name in dict.fromkeys((row["task"], row["set"]) for row in table):
        own = [row for row in table if (row["task"], row["set"]) == (task, name)]
        contenders = {row["contender"] for row in own}
        whole = {row["draw"] for row in own if {other["contender"] for other in own if other["draw"] == row["draw"]} == contenders}
        if whole:
            yield task, name, [row for row in own if row["draw"] in whole]


def first(table: list[Row]) -> list[str]:
    """Where herd is behind: in quality, then in time, then in memory."""
    lines: dict[str, list[tuple[bool, str]]] = {"quality": [], "time": [], "memory": []}
    for _, _, rows in groups(table):
        for own in dict.fromkeys(row["contender"] for row in rows if row["contender"].startswith("herd ")):
            for kind, behind, line in standing(own, rows):
                lines[kind].append((behind, line))
    made = [""]
    for kind, found in lines.items():
        lost = [line for behind, line in found if behind]
        made += [f"In {kind} behind the best rival in {len(lost)} of {len(found)}:", "", *(f"- {line}" for line in lost), ""]
    return made[:-1]


def whole(table: list[Row]) -> list[str]:
    """A table of each task and set."""
    made: list[str] = []
    for task, name, rows in groups(table):
        asked, draws = rows[0]["asked"], len({row["draw"] for row in rows})
        made += [
            "",
            f"### {task}, {name}, {draws} draws",
            "",
            f"| {asked} | ± | seconds | MB | contender | |",
            "|---:|---:|---:|---:|---|---|",
        ]
        quality, seconds, memory = (values(rows, key) for key in ("quality", "seconds", "mb"))
        order = sorted(quality, key=lambda each: (not all(map(math.isfinite, quality[each])), fmean(quality[each])))
        for each in order:
            row = next(row for row in rows if row["contender"] == each)
            told = ", ".join(text for text in (f"{row['package']} {row['version']}", row["settings"]) if text)
            failed = sum(not math.isfinite(number) for number in quality[each])
            if failed:
                made.append(f"| | | | | {each} | failed in {failed} of {draws} draws; {told} |")
                continue
            cells = (shown(fmean(quality[each]), asked), shown(spread(quality[each]), asked))
            made.append(f"| {cells[0]} | {cells[1]} | {fmean(seconds[each]):.2f} | {fmean(memory[each]):.0f} | {each} | {told} |")
    return made
