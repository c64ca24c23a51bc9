"""What the site does beyond MkDocs: formulas become MathML while it is built, results and the changelog are pages of it.

`make site` builds it from docs/ into build/site.  Nothing that a page needs is fetched from elsewhere.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
BLOCK, INLINE = (
    re.compile(r"^\$\$\s*(.+?)\s*\$\$$", re.MULTILINE | re.DOTALL),
    re.compile(r"\$(?!\s)([^$\n]+(?:\n(?!\n)[^$\n]+)?)(?<!\s)\$(?!\d)"),
)
PICTURE = re.compile(r"(?<!!)\[([^\]]+\.png)\]\(\1\)")  # a link to a picture of the results, which the site shows
FORMULAS = "theory/"  # pages whose dollars are formulas


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
    """What may scroll sideways can be reached by keyboard."""
    html = html.replace("<table>", '<table tabindex="0">')
    return re.sub(r'<math ([^>]*display="block")', r'<math tabindex="0" \1', html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The theme's search has a name for screen readers."""
    return output.replace('data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"')


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
