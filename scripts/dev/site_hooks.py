"""What the site does beyond MkDocs: formulas become MathML while it is built, results and the changelog are pages of it, and the first
use of a term of the glossary on a page is a link to its entry.

`make site` builds it from docs/ into build/site.  Nothing that a page needs is fetched from elsewhere.
"""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
BLOCK, INLINE = (
    re.compile(r"^\$\$\s*(.+?)\s*\$\$$", re.MULTILINE | re.DOTALL),
    re.compile(r"\$(?!\s)([^$\n]+(?:\n(?!\n)[^$\n]+)?)(?<!\s)\$(?!\d)"),
)
PICTURE = re.compile(r"(?<!!)\[([^\]]+\.png)\]\(\1\)")  # a link to a picture of the results, which the site shows
FORMULAS = "theory/"  # pages whose dollars are formulas
GLOSSARY = "glossary.md"
EVERYDAY = {"Algorithm", "Kind", "Rule", "Separation", "State"}  # terms whose names are also used in their everyday meaning: not linked
DEFINING = {"h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "dfn"}  # a page that has a term in one of these says what it is
VERBATIM = {"a", "code", "pre", "th", "math", "script", "style", "svg", "button", *DEFINING}  # in these nothing is linked


def on_config(config: Any) -> Any:
    """A page for each command under Reference."""
    pages = [{f"herd {path.stem}": f"commands/{path.name}"} for path in sorted((ROOT / "docs" / "commands").glob("[a-z]*.md"))]
    for section in config.nav:
        for part in next(iter(section.values())):
            if isinstance(part, dict) and "Commands" in part:
                part["Commands"] = [{"All of them": "commands/README.md"}, *pages]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Results with their pictures and the changelog, which live beside docs/."""
    from mkdocs.structure.files import File

    extra = [path for path in sorted((ROOT / "results").rglob("*")) if path.suffix in (".md", ".png", ".csv", ".tsv")]
    extra = [path for path in extra if not {"quick", "work"} & set(path.relative_to(ROOT).parts)]
    for path in (*extra, ROOT / "CHANGELOG.md"):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links that lead out of docs/ to where their targets are in the site, and formulas."""
    source = page.file.src_uri
    parts = FENCE.split(markdown)
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(r"\]\(([^)\s]+)\)", lambda found: f"]({_target(found[1], source, files)})", parts[index])
        if source.startswith("results/"):
            parts[index] = PICTURE.sub(r"[![\1](\1){ width=260 loading=lazy }](\1)", parts[index])
        if source.startswith(FORMULAS):
            parts[index] = INLINE.sub(
                lambda found: _formula(found[1], False), BLOCK.sub(lambda found: _formula(found[1], True), parts[index])
            )
    return "".join(parts)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """What may scroll sideways can be reached by keyboard; terms of the glossary are links, and have places there to lead to."""
    source = page.file.src_uri
    if source == GLOSSARY:
        html = re.sub(r"<tr>\s*<td>([^<]+)</td>", lambda found: f'<tr>\n<td id="{_anchor(found[1])}">{found[1]}</td>', html)
    elif not source.startswith("results/") and source != "CHANGELOG.md":
        glossary = posixpath.relpath(files.get_file_from_path(GLOSSARY).url, posixpath.dirname(page.url) or ".")
        html = link_terms(html, glossary_terms((ROOT / "docs" / GLOSSARY).read_text(encoding="utf-8")), glossary)
    html = html.replace("<table>", '<table tabindex="0">')
    return re.sub(r'<math ([^>]*display="block")', r'<math tabindex="0" \1', html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The theme's search has a name for screen readers."""
    return output.replace('data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"')


def glossary_terms(markdown: str) -> dict[str, str]:
    """The names under which a page may use each term of the glossary's first table, with the anchor of its entry."""
    terms: dict[str, str] = {}
    for line in markdown.splitlines():
        entry = line.strip("| ").split(" | ")[0].strip()
        if not line.startswith("| ") or entry in ("term", "not") or entry in EVERYDAY or "`" in entry:
            continue
        base, _, other = entry.rstrip(")").partition(" (")
        terms |= {name: _anchor(entry) for name in (*base.split(", "), other) if name}
    return terms


def link_terms(html: str, terms: dict[str, str], glossary: str) -> str:
    """The page with the first use of each term as a link to `glossary`, but for terms that the page itself defines.

    html   the content of a page
    terms  names and anchors, as `glossary_terms` finds them; names of one entry have one anchor
    """
    defining, linker = _Defined(terms), _Linker(terms, glossary)
    defining.feed(html)
    linker.linked |= defining.found
    linker.feed(html)
    linker.close()
    return "".join(linker.parts)


class _Terms(HTMLParser):
    """Finds terms in the text of a page.  A name of capitals is found as it is, another also with a small or capital first letter."""

    def __init__(self, terms: dict[str, str]) -> None:
        super().__init__(convert_charrefs=False)
        self.terms = {name.lower(): anchor for name, anchor in terms.items()}
        names = sorted(terms, key=len, reverse=True)
        self.pattern = re.compile(rf"(?<![\w-])({'|'.join(map(_name_pattern, names))})(e?s)?(?![\w-])")
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VERBATIM:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            self.open.remove(tag)

    def anchor(self, name: str) -> str:
        return self.terms[" ".join(name.lower().split())]


class _Defined(_Terms):
    """The anchors of the terms that stand in headings or are emphasised."""

    def __init__(self, terms: dict[str, str]) -> None:
        super().__init__(terms)
        self.found: set[str] = set()

    def handle_data(self, data: str) -> None:
        if DEFINING & set(self.open) and not {"pre", "code"} & set(self.open):
            self.found |= {self.anchor(found[1]) for found in self.pattern.finditer(data)}


class _Linker(_Terms):
    """Writes a page as it is read, with the first use of each term as a link."""

    def __init__(self, terms: dict[str, str], glossary: str) -> None:
        super().__init__(terms)
        self.glossary, self.linked, self.parts = glossary, set[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        self.parts.append(self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.parts.append(data if self.open else self.pattern.sub(self._link, data))

    def handle_entityref(self, name: str) -> None:
        self.parts.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.parts.append(f"&#{name};")

    def handle_comment(self, data: str) -> None:
        self.parts.append(f"<!--{data}-->")

    def _link(self, found: re.Match[str]) -> str:
        anchor = self.anchor(found[1])
        if anchor in self.linked:
            return found[0]
        self.linked.add(anchor)
        return f'<a href="{self.glossary}#{anchor}">{found[0]}</a>'


def _name_pattern(name: str) -> str:
    words = r"\s+".join(map(re.escape, name.split()))
    return words if name[1:2].isupper() else f"[{name[0].lower()}{name[0].upper()}]{words[1:]}"


def _anchor(entry: str) -> str:
    return "term-" + re.sub(r"\W+", "-", entry.lower()).strip("-")


def _target(target: str, source: str, files: Any) -> str:
    """A link of the repository as one of the site: results/ and docs/ are one tree there."""
    path, mark, anchor = target.partition("#")
    if not path or "://" in path or path.startswith("mailto:"):
        return target
    beside = source.startswith("results/") or source == "CHANGELOG.md"
    real = posixpath.normpath(posixpath.join(posixpath.dirname(source if beside else f"docs/{source}"), path))
    inside = real.removeprefix("docs/")
    if files.get_file_from_path(inside) is None:
        return target  # which the strict build complains of
    return posixpath.relpath(inside, posixpath.dirname(source) or ".") + mark + anchor


def _formula(latex: str, block: bool) -> str:
    from latex2mathml.converter import convert

    latex = re.sub(r"(?<=[\w}])\s+\\(log|max|min|sup)\b", r"\\,\\\1", " ".join(latex.split()))  # MathML puts no space before these
    made: str = convert(latex, display="block" if block else "inline")
    if unknown := re.search(r"\\[A-Za-z]+", re.sub(r"<[^>]*>", "", made)):
        raise ValueError(f"{unknown[0]} in ${latex}$ is not known to latex2mathml")
    return made if block else f"<span>{made}</span>"  # which Markdown takes for a part of the line wherever it stands
