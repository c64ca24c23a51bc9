"""A safe XML parser: no entity declarations, no external references, bounded depth and size.

The tree is built with expat.  Element and attribute declarations, as in XMLBIF, are skipped; entity declarations are refused,
so that no text can expand beyond its file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from herdcli.errors import DataError
from herdcli.records import dataclass

DEEPEST, MOST_ELEMENTS = 64, 20_000_000

__all__ = ["XMLElement", "escape", "parse_xml", "quoteattr"]


@dataclass
class XMLElement:
    """An XML element.

    tag, attributes  in lower case, without namespaces.
    children         in order.
    pieces           the parts of text between them.
    """

    tag: str
    attributes: dict[str, str]
    children: list[XMLElement] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text, without blanks at both ends."""
        return "".join(self.pieces).strip()

    def find_children(self, *tags: str) -> Iterator[XMLElement]:
        """Return the children with these names."""
        return (child for child in self.children if child.tag in tags)

    def find_first_child(self, tag: str) -> XMLElement | None:
        """Return the first child with this name."""
        return next(self.find_children(tag), None)


class _TreeBuilder:
    """The handlers of one parse, which build the tree."""

    def __init__(self) -> None:
        self.open: list[XMLElement] = []
        self.root: XMLElement | None = None
        self.count = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.data
        self.parser.EntityDeclHandler = self.reject_entity
        self.parser.ExternalEntityRefHandler = self.reject_external
        self.parser.SkippedEntityHandler = self.reject_external
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if len(self.open) >= DEEPEST or self.count > MOST_ELEMENTS:
            raise DataError(
                f"line {self.parser.CurrentLineNumber}: elements are nested more than {DEEPEST} deep, or there are more than "
                f"{MOST_ELEMENTS} of them"
            )
        made = XMLElement(_strip_namespace(tag), {_strip_namespace(name): value for name, value in attributes.items()})
        if self.open:
            self.open[-1].children.append(made)
        else:
            self.root = made
        self.open.append(made)

    def end(self, tag: str) -> None:
        self.open.pop()

    def data(self, text: str) -> None:
        if self.open:
            self.open[-1].pieces.append(text)

    def reject_entity(self, *declared: object) -> None:
        line = self.parser.CurrentLineNumber
        raise DataError(
            f"line {line}: declares an XML entity, which herd does not read", hint="write the text itself in place of the entity"
        )

    def reject_external(self, *declared: object) -> int:
        line = self.parser.CurrentLineNumber
        raise DataError(f"line {line}: refers to an XML entity that the file does not define", hint="write the text itself in its place")


def parse_xml(text: str) -> XMLElement:
    """Return the root element.  Raises DataError, with the line, for entities and for text that is not well-formed."""
    builder = _TreeBuilder()
    try:
        builder.parser.Parse(text, True)
    except expat.ExpatError as error:
        raise DataError(f"line {error.lineno}: is not well-formed XML: {expat.ErrorString(error.code)}") from None
    assert builder.root is not None
    return builder.root


def _strip_namespace(name: str) -> str:
    return name.rpartition("}")[2].rpartition(":")[2].lower()
