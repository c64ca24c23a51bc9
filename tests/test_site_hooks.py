"""scripts/dev/site_hooks.py: the first use of a term on a page leads to the glossary."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = """# Glossary

| term | meaning | in the code |
|---|---|---|
| Annealed importance sampling (AIS) | An estimate. | `a` |
| Artifact | What a command writes. | `b` |
| AROW, NHERD | Classifiers. | `c` |
| State | Everyday. | `d` |

| not | but |
|---|---|
| `law` | distribution |
"""
TERMS = {
    "Annealed importance sampling": "term-annealed-importance-sampling-ais",
    "AIS": "term-annealed-importance-sampling-ais",
    "Artifact": "term-artifact",
    "AROW": "term-arow-nherd",
    "NHERD": "term-arow-nherd",
}


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "scripts" / "dev" / "site_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_names_and_abbreviations_of_an_entry_are_terms(hooks):
    assert hooks.glossary_terms(GLOSSARY) == TERMS


@pytest.mark.parametrize(
    ("html", "linked"),
    [
        ("<p>An artifact, and artifacts.</p>", '<p>An <a href="g.html#term-artifact">artifact</a>, and artifacts.</p>'),
        ("<p>Artifacts &amp; more</p>", '<p><a href="g.html#term-artifact">Artifacts</a> &amp; more</p>'),
        (
            "<p>annealed\nimportance sampling, or AIS</p>",
            '<p><a href="g.html#term-annealed-importance-sampling-ais">annealed\nimportance sampling</a>, or AIS</p>',
        ),
        ("<p>nherd, non-artifact, artifactory, ais</p>", None),  # a name of capitals alone, and whole words
        ('<h2 id="x">Artifact</h2><p>The artifact.</p>', None),  # the page says itself what it is
        ("<p>An <em>artifact</em> is a file.  The artifact.</p>", None),
        ('<p><code>artifact</code> <a href="b">artifact</a></p><pre>artifact</pre>', None),
        ('<img src="a.png" alt="artifact"/><!-- artifact --><br>&#8211;', None),  # written as it is read
    ],
)
def test_the_first_use_of_a_term_is_a_link(hooks, html, linked):
    assert hooks.link_terms(html, TERMS, "g.html") == (html if linked is None else linked)


def test_each_entry_of_the_glossary_has_an_anchor_of_its_own(hooks):
    terms = hooks.glossary_terms((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    assert terms["MMD"] == "term-mmd"
    assert terms["UPS"] == terms["Unified propagation and scaling"]
    assert "Rule" not in terms
    assert len(set(terms.values())) > 40
