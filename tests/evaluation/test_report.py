"""The page of `herd eval --report`: whole in itself, well-formed, and showing any text as it is."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from herdcli.evaluation.report import Part, page

RECORD = {
    "command": "fit-rbm",
    "version": "1",
    "parameters": {"hidden": 4},
    "inputs": [{"role": "data", "kind": "dataset", "sha256": "ab12"}],
}
VOID = {"meta", "link", "img", "br"}


class Outline(HTMLParser):
    """Checks nesting, and keeps texts and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.addresses: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action", "data") and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())


def outline(html: str) -> Outline:
    found = Outline()
    found.feed(html)
    assert found.open == []
    return found


def test_one_row_is_a_list_of_figures_and_several_a_table():
    one = Part("a.h5", "rbm", "00", [{"file": "a.h5", "kind": "rbm", "error": 0.25, "missing": None}], [RECORD])
    several = Part("b.h5", "samples", "11", [{"atoms": 1, "mmd": 0.5}, {"atoms": 2, "mmd": 0.125}], [])
    found = outline(page([one, several]))
    assert {"error", "0.25", "atoms", "0.125", "herd fit-rbm", "hidden", "dataset ab12", "No record of how it was made."} <= set(
        found.texts
    )
    assert "missing" not in found.texts


def test_nothing_is_fetched_and_no_script_is_there():
    found = outline(page([Part("a.h5", "rbm", "00", [{"error": 0.25}], [RECORD], {"filters": b"\x89PNG"})]))
    assert all(address.startswith(("data:", "#")) for address in found.addresses)
    assert "script" not in found.tags
    assert not re.search(r"url\(|@import", page([]))


def test_names_cannot_become_markup():
    name = "<script>alert('x')</script>&\"'.h5"
    found = outline(page([Part(name, "rbm", "00", [{"a<b": "<i>"}], [RECORD | {"command": "<b>"}], {"<p>": b""})]))
    assert {"script", "i", "b"}.isdisjoint(found.tags)
    assert name in found.texts
    assert "<i>" in found.texts


def test_equal_parts_give_equal_bytes():
    part = Part("a.h5", "rbm", "00", [{"error": 0.25}], [RECORD], {"filters": b"\x89PNG"})
    assert page([part]) == page([part])
