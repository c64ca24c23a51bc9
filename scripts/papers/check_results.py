"""Compare results/ with what the papers claim: expected.toml holds every claim, how it is read from a table, and its verdict.

    python scripts papers/check_results results                        a line a claim; exit 1 on a miss
    python scripts papers/check_results --quick results/quick          the looser expectations of `make quick`
    python scripts papers/check_results --write                        the pages in results/ anew from expected.toml and the tables

A claim `read`s quantities: {file, where = {column = value}, value = column or columns to add, over = how several rows become one}.
A value in `where` is text, a number, a list of these, or "< X", "> X" with a number or another column.  `holds` are inequalities of
quantities that must hold and `fails` those of the paper that do not hold here, such as "2 * a + 0.1 < b < c"; `ours` are
[value, tolerance].  The verdict follows:

reproduced   everything holds            partly    something fails or, as `lacks` says, is missing
not          something fails             not run   as `lacks` says

Every claim that is not reproduced has a `reason` (general: the paper's claim is not general, data: others than the paper's, runs: too few,
set-up: other than the paper's) and says `why` in one line.  A claim may name the test that holds it (`tested`) instead of a table.
Errors in expected.toml end with exit code 2.
"""

from __future__ import annotations

import argparse
import math
import operator
import re
import statistics
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from papers import paper_pages
from shared.figure_pipeline import Row, read_csv, replace

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = ROOT / "scripts" / "papers" / "expected.toml"
VERDICTS = {"reproduced": "yes", "partly": "partly", "not": "no", "not run": "not run"}
REASONS = {  # why a claim is not reproduced
    "general": "The claim is not general",
    "data": "Other data",
    "runs": "Too few runs",
    "set-up": "Another set-up",
}
OVER: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
    "sum": math.fsum,
    "count": len,
}
KEYS = {
    "expected.toml": {"intro", "page", "paper"},
    "page": {"title", "intro"},
    "paper": {"name", "title", "page", "outro", "claim", "figure"},
    "figure": {"name", "files", "run", "shows"},
    "claim": {
        *("figure", "claim", "printed", "verdict", "here", "file", "read", "holds", "fails", "ours", "lacks", "tested", "quick"),
        *("reason", "why"),
    },
    "quantity": {"file", "where", "value", "over"},
    "quick": {"holds", "fails", "ours"},
}
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Wrong(Exception):
    """A mistake in expected.toml."""


class Miss(Exception):
    """A table that is not there, or does not hold what is looked for."""


class LeftOut(Exception):
    """A table of a stage that was left out because its data sets were not there."""


class PeerMissing(LeftOut):
    """A table without a row of another program, which is not installed here."""


def known(table: Row, kind: str, name: str) -> Row:
    """The table, if all its keys are known."""
    for key in table:
        if key not in KEYS[kind]:
            raise Wrong(f"{name}: unknown key '{key}' (known: {', '.join(sorted(KEYS[kind]))})")
    return table


def load(text: str) -> Row:
    """expected.toml, its keys and verdicts checked."""
    expected = known(tomllib.loads(text), "expected.toml", "expected.toml")
    for name, page in expected.get("page", {}).items():
        known(page, "page", name)
    for paper in expected["paper"]:
        known(paper, "paper", paper["name"])
        if "page" in paper and paper["page"] not in expected.get("page", {}):
            raise Wrong(f"{paper['name']}: there is no page '{paper['page']}' (known: {', '.join(expected.get('page', {}))})")
        for figure in paper.get("figure", []):
            known(figure, "figure", f"{paper['name']}, {figure['name']}")
        for claim in paper.get("claim", []):
            sound(claim, title(paper, claim))
    return expected


def title(paper: Row, claim: Row) -> str:
    """What messages call a claim."""
    return f"{paper['name']}, {claim['figure']}, '{claim['claim']}'"


def sound(claim: Row, name: str) -> None:
    """Raise Wrong unless the claim says how it is judged, and its verdict agrees with that."""
    known(claim, "claim", name)
    known(claim.get("quick", {}), "quick", name)
    for quantity in claim.get("read", {}).values():
        known(quantity, "quantity", name)
        if quantity.get("over", "mean") not in OVER:
            raise Wrong(f"{name}: unknown over '{quantity['over']}' (known: {', '.join(OVER)})")
    verdict, holds, fails, lacks = (claim.get(key) for key in ("verdict", "holds", "fails", "lacks"))
    if verdict not in VERDICTS:
        raise Wrong(f"{name}: unknown verdict '{verdict}' (known: {', '.join(VERDICTS)})")
    agrees = {
        "reproduced": bool(holds or claim.get("tested")) and not fails and not lacks,
        "partly": bool(holds or claim.get("tested")) and bool(fails or lacks),
        "not": bool(fails),
        "not run": bool(lacks) and not (holds or fails),
    }
    if not agrees[verdict]:
        raise Wrong(f"{name}: the verdict '{verdict}' does not follow from holds, fails, lacks and tested")
    if verdict == "reproduced" and not {"reason", "why"}.isdisjoint(claim):
        raise Wrong(f"{name}: reason and why are for claims that are not reproduced")
    if verdict != "reproduced" and (claim.get("reason") not in REASONS or not claim.get("why")):
        raise Wrong(f"{name}: needs why, and a reason ({', '.join(REASONS)})")


def number(text: str) -> float | None:
    """The number that a text is, if it is one."""
    try:
        return float(text)
    except ValueError:
        return None


def matches(row: Row, column: str, wanted: Any) -> bool:
    """Whether a row has this value, one of these values, or one below or above another."""
    if isinstance(wanted, list):
        return any(matches(row, column, one) for one in wanted)
    if isinstance(wanted, str) and (found := re.fullmatch(r"([<>]=?) *(\S+)", wanted)):
        bound = row[found[2]] if found[2] in row else found[2]
        return OPERATORS[found[1]](float(row[column]), float(bound))
    return bool(number(row[column]) == wanted if isinstance(wanted, int | float) else row[column] == wanted)


def quantity(spec: Row, file: str | None, folder: Path) -> float:
    """One number out of a table.  Raises Miss if it is not there."""
    path = folder / spec.get("file", file)
    if not path.exists():
        left_out = {row["file"]: row["reason"] for row in read_csv(folder / "left-out.csv")}
        name = str(path.relative_to(folder))
        if name in left_out:
            raise LeftOut(f"{name}: {left_out[name]}")
        raise Miss(f"{path} is missing: make {path}")
    rows, where, added = read_csv(path), spec.get("where", {}), spec.get("value", [])
    columns = [added] if isinstance(added, str) else added
    for column in (*where, *columns):
        if rows and column not in rows[0]:
            raise Miss(f"{path} has no column '{column}'")
    told = " and ".join(f"{column} = {wanted}" for column, wanted in where.items()) or "anything"
    chosen = [row for row in rows if all(matches(row, column, wanted) for column, wanted in where.items())]
    if spec.get("over") == "count":
        return float(len(chosen))
    peer = where.get("contender", "herd")
    if peer != "herd" and all(row["contender"] != peer for row in rows):
        raise PeerMissing(f"{path.name}: {peer} did not take part; install it for this comparison")
    if not chosen:
        raise Miss(f"{path} has no row with {told}")
    if "over" not in spec and len(chosen) > 1:
        raise Miss(f"{path} has {len(chosen)} rows with {told}")
    found = [[number(row[column]) for column in columns] for row in chosen]
    if any(None in values for values in found):
        raise Miss(f"{path} has rows without a number in '{' + '.join(columns)}' where {told}")
    return float(OVER[spec.get("over", "mean")]([sum(filter(None, values)) for values in found]))


def side(text: str, values: dict[str, float]) -> float:
    """The value of "2 * a - 0.1": sums of quantities, numbers, and numbers times quantities."""
    total = 0.0
    for sign, term in re.findall(r"([+-]?) *([^+-]+)", text.strip()):
        product = 1.0
        for factor in term.split("*"):
            name = factor.strip()
            value = values[name] if name in values else number(name)
            if value is None:
                raise Wrong(f"'{name}' in '{text.strip()}' is no quantity (known: {', '.join(values)})")
            product *= value
        total += -product if sign == "-" else product
    return total


def inequality(text: str, values: dict[str, float]) -> tuple[bool, str]:
    """Whether "a < b < c" is true, and its numbers."""
    parts = re.split(r"(<=|>=|<|>)", text)
    if len(parts) < 3:
        raise Wrong(f"'{text}' is no inequality")
    numbers = [side(part, values) for part in parts[::2]]
    holds = all(OPERATORS[sign](a, b) for sign, a, b in zip(parts[1::2], numbers, numbers[1:], strict=False))
    return holds, "".join(f" {item} " if item in OPERATORS else item for item in interleaved(numbers, parts[1::2]))


def interleaved(numbers: list[float], signs: list[str]) -> Iterator[str]:
    for at, value in enumerate(numbers):
        yield f"{value:.4g}"
        yield from signs[at : at + 1]


def judge(claim: Row, folder: Path, quick: bool) -> tuple[dict[str, float], list[str]]:
    """The quantities of a claim and its misses."""
    wanted = claim.get("quick", {}) if quick else claim
    values: dict[str, float] = {}
    misses: list[str] = []
    used = set(re.findall(r"[A-Za-z_]\w*", " ".join([*wanted.get("holds", []), *wanted.get("fails", [])]))) | set(wanted.get("ours", {}))
    for name, spec in claim.get("read", {}).items():
        if quick and name not in used:
            continue
        try:
            values[name] = quantity(spec, claim.get("file"), folder)
        except Miss as miss:
            misses.append(str(miss))
    if misses:
        return values, list(dict.fromkeys(misses))
    for text in wanted.get("holds", []):
        holds, told = inequality(text, values)
        if not holds:
            misses.append(f"{text} does not hold: {told}")
    for text in wanted.get("fails", []):
        holds, told = inequality(text, values)
        if holds:
            misses.append(f"{text} holds now ({told}), so the verdict '{claim['verdict']}' is out of date")
    for name, (value, tolerance) in wanted.get("ours", {}).items():
        if abs(values[name] - value) > tolerance:
            misses.append(f"{name} is {values[name]:.4g}, not {value:g} ± {tolerance:g}")
    if not quick and (tested := claim.get("tested")):
        file, _, test = tested.partition("::")
        if not (ROOT / file).exists() or f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8"):
            misses.append(f"there is no test {tested}")
    return values, misses


def here(claim: Row, values: dict[str, float]) -> str:
    """What came out here in words, with the numbers of the tables."""
    try:
        text = re.sub(r"(?<=\d)%", " %", claim.get("here", "").format(**values))
    except KeyError as name:
        raise Wrong(f"{name} in '{claim['here']}' is no quantity (known: {', '.join(values)})") from None
    found = "; ".join(part for part in (text, claim.get("lacks", "")) if part)
    return f"{found}. *{REASONS[claim['reason']]}:* {claim['why']}" if "why" in claim else found


def readme(expected: Row, folder: Path) -> str:
    """results/README.md: how many claims of each paper hold, with links to the papers' pages, and the claims of papers without a page."""
    lines = [paper_pages.HEADER, "", expected["intro"]]
    if expected.get("page"):
        lines += ["", "| read this page if you know | claims | |", "|---|---|---|"]
        for name, page in expected["page"].items():
            claims = [claim for paper in expected["paper"] if paper.get("page") == name for claim in paper.get("claim", [])]
            lines.append(f"| [{page['title']}]({name}.md) | {len(claims)} | {paper_pages.counts(claims)} |")
    for paper in expected["paper"]:
        if "page" not in paper:
            lines += ["", f"## {paper['title']}", *tables(paper, folder)]
    return "\n".join(lines) + "\n"


def tables(paper: Row, folder: Path) -> Iterator[str]:
    """The claims and the figures of one paper."""
    if paper.get("claim"):
        yield from ("", "| | claim | the paper | here | |", "|---|---|---|---|---|")
        for claim in paper["claim"]:
            cells = (claim["figure"], claim["claim"], claim.get("printed", ""), judged_words(claim, folder), VERDICTS[claim["verdict"]])
            yield f"| {' | '.join(cells)} |"
    if paper.get("figure"):
        yield from ("", "| figure | files | run here |", "|---|---|---|")
        for figure in paper["figure"]:
            links = ", ".join(f"[{Path(file).name}]({file})" for file in figure.get("files", []))
            yield f"| {figure['name']} | {links} | {figure['run']} |"
    if paper.get("outro"):
        yield from ("", paper["outro"])


def judged_words(claim: Row, folder: Path) -> str:
    """What came out of a claim, read from the tables in the folder."""
    return here(claim, judge(claim, folder, quick=False)[0])


def written_pages(expected: Row, folder: Path) -> dict[str, str]:
    """README.md and the page of each paper, by the names of their files."""
    return {"README.md": readme(expected, folder), **paper_pages.pages(expected, lambda claim: judged_words(claim, folder))}


def report(expected: Row, folder: Path, quick: bool) -> int:
    """Print a line a claim and the misses after it, and at the end the claims whose tables were left out; how many claims missed."""
    missed, verdicts = 0, dict.fromkeys(VERDICTS, 0)
    not_judged: list[str] = []
    for paper in expected["paper"]:
        for claim in paper.get("claim", []):
            if quick and "quick" not in claim:
                continue
            try:
                values, misses = judge(claim, folder, quick)
            except LeftOut as reason:
                if quick or not isinstance(reason, PeerMissing):
                    not_judged.append(f"{title(paper, claim)}: {reason}")
                    continue
                values, misses = {}, [str(reason)]
            verdicts[claim["verdict"]] += 1
            missed += bool(misses)
            numbers = ", ".join(f"{name} {value:.4g}" for name, value in values.items()) or claim.get("tested", claim.get("lacks", ""))
            print(f"{'MISS' if misses else 'ok':5}{claim['verdict']:11} {paper['name']}, {claim['figure']}: {claim['claim']}")
            print(f"{'':17}paper: {claim.get('printed', 'in words')}; here: {numbers}")
            for miss in misses:
                print(f"{title(paper, claim)}: {miss}", file=sys.stderr)
    told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items() if count)
    print(f"{sum(verdicts.values())} claims: {told}; {missed} missed")
    if not_judged:
        print(f"{len(not_judged)} claims not judged, because tables or programs are missing:")
        print(*(f"  {each}" for each in not_judged), sep="\n")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "results")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--expected", type=Path, default=EXPECTED)
    arguments = parser.parse_args()
    folder = arguments.folder
    try:
        expected = load(arguments.expected.read_text(encoding="utf-8"))
        if arguments.write:
            for name, text in written_pages(expected, folder).items():
                replace(folder / name, text)
            return 0
        missed = report(expected, folder, arguments.quick)
        if not arguments.quick and not missed and folder.resolve() == ROOT / "results":
            for name, text in written_pages(expected, folder).items():
                if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text:
                    hint = "python scripts papers/check_results --write"
                    print(f"results/{name} is not what expected.toml and the tables say: {hint}", file=sys.stderr)
                    missed += 1
    except LeftOut as error:
        print(f"the pages in results/ need all tables, and this one was left out: {error}", file=sys.stderr)
        return 1
    except (Wrong, tomllib.TOMLDecodeError, KeyError) as error:
        print(f"{arguments.expected.name}: {error}", file=sys.stderr)
        return 2
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
