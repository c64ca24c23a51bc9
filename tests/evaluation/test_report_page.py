"""The page of `herd eval --report`: whole in itself, well-formed, showing any text as it is; pictures that follow the page's colours."""

from __future__ import annotations

import importlib
import re
from html.parser import HTMLParser

import pytest

from herdcli.evaluation.plots import plot_style
from herdcli.evaluation.report import column_descriptions, inline_svg
from herdcli.evaluation.report.report_page import ReportPart, ReportPicture, order_columns, report_page
from herdcli.evaluation.summaries.summary_table import SummaryTable

RECORD = {
    "command": "fit-rbm",
    "version": "1",
    "parameters": {"hidden": 4},
    "inputs": [{"role": "data", "kind": "dataset", "sha256": "ab12"}],
}
VOID = {"meta", "link", "img", "br"}
SVG = """<?xml version="1.0"?><!DOCTYPE svg>
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="460pt" height="288pt" viewBox="0 0 460 288" xmlns="http://www.w3.org/2000/svg">
<metadata>when</metadata><defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
<g id="figure_1"><path d="M 1.23456 7.5" clip-path="url(#p1)" style="stroke: #0072b2"/>
<use xlink:href="#figure_1" style="fill: #1b1b1f"/><text style="font: 10px 'DejaVu Sans'">a</text></g></svg>"""


class Outline(HTMLParser):
    """Checks nesting, and keeps texts and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.idents: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.idents += [value for name, value in attrs if name == "id"]
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action", "data") and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())


def outline(html: str) -> Outline:
    found = Outline()
    found.feed(html)
    assert found.open == []
    return found


def test_the_page_opens_with_a_table_that_compares():
    one = ReportPart(
        "a.h5", "rbm", "00", [{"file": "a.h5", "kind": "rbm", "reconstruction": 0.5, "independent": -3.0, "verdict": "ok"}], [RECORD]
    )
    two = ReportPart("b.h5", "rbm", "11", [{"file": "b.h5", "kind": "rbm", "log_likelihood": -2.5, "missing": None, "verdict": "poor"}], [])
    html = report_page([one, two])
    head = html[html.index("<thead>") : html.index("</thead>")]
    assert re.findall(r"<button type=\"button\">(\w+)", head) == ["artifact", "verdict", "log_likelihood", "independent", "reconstruction"]
    assert 'title="mean log-likelihood of a held-out row; the higher, the better"' in head
    assert "2 artifacts; 1 of 2 verdicts is ok." in html
    assert '<td class="ok">ok</td>' in html
    assert '<td class="ill">poor</td>' in html
    assert '<td class="number" data-value="-2.5">-2.5</td>' in html
    texts = outline(html).texts
    assert {
        "herd fit-rbm",
        "hidden",
        "dataset ab12",
        "No record of how it was made.",
        "mean squared error of rows carried up and down again",
    } <= set(texts)


def test_an_artifact_of_several_rows_has_a_table_of_its_own():
    several = ReportPart("b.h5", "samples", "11", [{"t": 1, "mmd": 0.5}, {"t": 2, "mmd": 0.125}], [])
    assert {"0.125", "figures of b.h5"} <= set(outline(report_page([several])).texts)


def test_nothing_is_fetched_and_the_script_is_always_the_same():
    drawn = report_page([ReportPart("a.h5", "rbm", "00", [{"error": 0.25}], [RECORD], {"filters": ReportPicture(SVG, "weights")})])
    found = outline(drawn)
    assert all(address.startswith(("data:", "#")) for address in found.addresses)
    scripts = [re.findall(r"<script[^>]*>.*?</script>", html, re.DOTALL) for html in (drawn, report_page([]))]
    assert scripts[0] == scripts[1]
    assert len(scripts[0]) == 1
    assert not re.search(r"url\([^#]|@import|fetch\(|import\(|XMLHttp", drawn)


def test_names_cannot_become_markup():
    name = "<script>alert('x')</script>&\"'.h5"
    part = ReportPart(
        name, "rbm", "00", [{"a<b": "<i>"}], [RECORD | {"command": "<u>"}], {"<p>": ReportPicture(SVG, "<i>&")}, ["herd '<i>' -o x"]
    )
    html = report_page([part])
    found = outline(html)
    assert {"i", "u"}.isdisjoint(found.tags)
    assert html.count("<script>") == 1
    assert name in found.texts
    assert {"<i>", "herd '<i>' -o x"} <= set(found.texts)


def test_equal_parts_give_equal_bytes():
    part = ReportPart("a.h5", "rbm", "00", [{"error": 0.25}], [RECORD], {"filters": ReportPicture(SVG, "weights")})
    assert report_page([part]) == report_page([part])


def test_pictures_get_the_colours_of_the_page_and_names_of_their_own():
    pictures = {"filters": ReportPicture(SVG, "weights"), "trace": ReportPicture(SVG, "error")}
    html = report_page([ReportPart(name, "rbm", "00", [], [RECORD], pictures) for name in ("a.h5", "b.h5")])
    found = outline(html)
    assert len(found.idents) == len(set(found.idents))
    assert {"#p0-filters-figure_1", "#p1-trace-figure_1"} <= set(found.addresses)
    drawn = inline_svg.inline_svg(SVG, "p", "what <is> seen")
    assert "stroke: var(--c0)" in drawn
    assert "fill: var(--ink)" in drawn
    assert "url(#p-p1)" in drawn
    assert '<title id="p-title">what &lt;is&gt; seen</title>' in drawn
    assert "metadata" not in drawn
    assert "<style" not in drawn
    assert "font: 11px system-ui" in drawn


def contrast(one: str, other: str) -> float:
    """The ratio of luminances of two colours as WCAG 2.2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("dark", "page_colour"), [(False, "#ffffff"), (True, "#17171c")])
def test_words_of_pictures_can_be_read_on_the_page(dark, page_colour):
    colours = dict(re.findall(r"(--\w+): (#\w+);", inline_svg.css_variables(dark)))
    assert contrast(colours["--ink"], page_colour) > 7
    assert min(contrast(colours[f"--c{k}"], page_colour) for k in range(len(plot_style.COLOURS))) > 2
    assert contrast(plot_style.GREY, page_colour) > 3


@pytest.mark.parametrize("module", ["rbm", "classifier", "network", "beliefs", "herding", "ica", "recurrent", "lds"])
def test_every_column_is_explained(module):
    found = importlib.import_module(f"herdcli.evaluation.figures.{module}")
    assert [column for column in found.COLUMNS if not column_descriptions.column_description(column)] == []


def test_columns_of_a_family_are_explained_by_their_endings():
    assert column_descriptions.column_description("log_likelihood_valid") == "log_likelihood, on validation rows"
    assert column_descriptions.column_description("rank_4") == "share of probes whose person is not among the 4 most similar images"
    assert column_descriptions.column_description("nothing") == ""


def test_the_verdict_stands_first_and_the_baseline_beside_the_figure():
    assert order_columns("rbm", ["a", "independent", "log_likelihood", "verdict"]) == ["verdict", "log_likelihood", "independent", "a"]


def test_tables_about_the_contents_and_parameters_that_were_given():
    shown = SummaryTable("coefficients", [{"term": "a<b", "estimate": 0.123456789, "note": None}])
    record = {"command": "regress", "version": "1", "parameters": {"family": None, "l2": 0.5}, "inputs": []}
    html = report_page([ReportPart("a.h5", "regression", "00", [{"error": 0.25}], [record], tables=[shown])])
    assert '<td>a&lt;b</td><td class="number">0.12346</td></tr>' in html
    assert "<caption>coefficients</caption>" in html
    assert '<th scope="row">l2</th><td>0.5</td>' in html
    assert "None" not in html
