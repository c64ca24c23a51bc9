"""A page for a reader of each paper: its figures in order, the commands that draw them, what came out, what does not hold and why.

`check_results --write` makes results/NAME.md of every `[page.NAME]` of expected.toml: its title and introduction, then the figures of the
papers that name it, each with what the publication shows (`shows`), its pictures and the claims about it, and last the claims in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from shared.figure_pipeline import Row

HEADER = "<!-- made by scripts/papers/check_results.py --write from scripts/papers/expected.toml and the tables; edit those -->"
ANSWERS = {"reproduced": "Holds", "partly": "Holds in part", "not": "Does not hold here", "not run": "Not run"}

Here = Callable[[Row], str]  # what came out of a claim, in words


def pages(expected: Row, here: Here) -> dict[str, str]:
    """The text of each page by the name of its file."""
    return {f"{name}.md": _page(name, page, expected, here) for name, page in expected.get("page", {}).items()}


def counts(claims: list[Row]) -> str:
    """How many claims have each answer, in words."""
    found = {words: sum(claim["verdict"] == verdict for claim in claims) for verdict, words in ANSWERS.items()}
    return ", ".join(f"{words.lower()}: {count}" for words, count in found.items() if count)


def _page(name: str, page: Row, expected: Row, here: Here) -> str:
    papers = [paper for paper in expected["paper"] if paper.get("page") == name]
    claims = [claim for paper in papers for claim in paper.get("claim", [])]
    lines = [HEADER, "", f"# {page['title']}", "", page["intro"].strip()]
    if claims:
        lines += ["", f"{len(claims)} claims were judged. {counts(claims)[0].upper()}{counts(claims)[1:]}."]
    for paper in papers:
        level = "##" if len(papers) == 1 else "###"
        if len(papers) > 1:
            lines += ["", f"## {paper['title']}"]
        lines += _paper(paper, level, here)
        if paper.get("outro"):
            lines += ["", paper["outro"]]
    return "\n".join(lines) + "\n"


def _paper(paper: Row, level: str, here: Here) -> Iterator[str]:
    left = list(paper.get("claim", []))
    for figure in paper.get("figure", []):
        if "words" in figure["name"]:
            continue
        own = [claim for claim in left if _parts(claim["figure"])[0] in _parts(figure["name"])]
        left = [claim for claim in left if claim not in own]
        pictures = [file for file in figure.get("files", []) if file.endswith(".png")]
        if pictures or own:
            yield from ("", f"{level} {_heading(figure['name'])}")
            if "shows" in figure:
                yield from ("", figure["shows"])
            files = [f"[{file}]({file})" for file in figure["files"] if not file.endswith(".png")]
            where = f", and the numbers are in {_and(files)}" if files else ""
            yield from ("", f"Make it with `make results/{figure['files'][0]}` ({figure['run']}){where}.")
            for picture in pictures:
                yield from ("", f"![{figure['name']}: {Path(picture).stem}]({picture})")
            yield from _claims(own, here)
    if left:
        yield from ("", f"{level} Claims in words")
        for figure in paper.get("figure", []):
            if "words" in figure["name"]:
                files = _and([f"[{file}]({file})" for file in figure["files"]])
                makes = _and([f"`make results/{file}`" for file in figure["files"]])
                sections = figure["name"].partition(":")[0].partition(" ")[2]
                yield from ("", f"Sections {sections}: {files}, made with {makes} ({figure['run']}).")
        yield from _claims(left, here, places=True)


def _claims(claims: list[Row], here: Here, *, places: bool = False) -> Iterator[str]:
    if claims:
        yield ""
    for claim in claims:
        words = f"{claim['figure']}: {claim['claim']}" if places else claim["claim"]
        printed = f" (in the publication's words: {claim['printed']})" if claim.get("printed", "").startswith("“") else ""
        yield f"* **{ANSWERS[claim['verdict']]}.** {words[0].upper()}{words[1:]}{printed}."
        found = here(claim)
        yield f"  {'' if found[0].isupper() else 'Here: '}{found}."


def _heading(name: str) -> str:
    """`fig. 3.5, 3.6` → `Figures 3.5, 3.6`."""
    plural = "s" if ", " in name else ""
    return name.replace("fig.", f"Figure{plural}").replace("sec.", f"Section{plural}")


def _parts(figures: str) -> list[str]:
    """`fig. 3.5, 3.6` → ["fig. 3.5", "fig. 3.6"]; of `fig. 2, sec. 9` both."""
    kind, found = "", []
    for part in figures.partition(":")[0].split(", "):
        named = re.match(r"(fig\.|sec\.|prop\.|eq\.|ch\.)\s*(.*)", part)
        kind, number = (named[1], named[2]) if named else (kind, part)
        found.append(f"{kind} {number}".strip())
    return found


def _and(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
