"""Text whose lines have any number of labels: `1,3,7 | a b` of Vowpal Wabbit, `1,3 4:1 5:2` of svmlight; labels are optional."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from herdcli.errors import DataError
from herdcli.online.class_labels import MOST, format_label
from herdcli.online.example_blocks import ExampleBlock
from herdcli.online.tags import add_label_columns
from herdcli.online.text.text_parser import BlockReader, TextBytes
from herdcli.schema import Array

# The text before an example: in Vowpal Wabbit everything up to the bar, where labels begin with neither ' (a tag) nor |; in svmlight the
# first word, unless it is a pair.
HEADS = {
    True: re.compile(rb"(?m)^[ \t]*([^\s'|][^\s|]*)?(?=[^|\n]*\|)"),
    False: re.compile(rb"(?m)^(?=[ \t]*[^\s#])[ \t]*([^\s:#]+(?=\s|\Z))?"),
}
HINT = "separate labels with commas only: 1,3,7"


class LabelSetEncoder:
    """An encoder of label names, with all names so far in order of occurrence.

    names  known beforehand.   fixed  others are refused.   most  labels allowed.   ignored  others are skipped.
    """

    given = True  # the first block does not determine the labels

    def __init__(self, names: Sequence[str] = (), *, fixed: bool = False, most: int = MOST, ignored: bool = False) -> None:
        self.names = list(names)
        self.fixed, self.most, self.ignored = fixed, most, ignored
        self._place = {name: place for place, name in enumerate(self.names)}

    def encode_labels(self, labels: Array, where: str) -> Array:
        """Return a matrix (n, C) of the labels of examples, for all labels known so far."""
        return add_label_columns(labels, len(self.names))

    def name_indices(self, texts: Iterable[str], where: str) -> list[int]:
        """Return the indices of names.  Raises DataError for one too many, or one that is not allowed."""
        if self.ignored:
            return [self._place[name] for name in texts if name in self._place]
        return [self._place[name] if name in self._place else self._add_name(name, where) for name in texts]

    def _add_name(self, name: str, where: str) -> int:
        if self.fixed:
            raise DataError(
                f"label {name} was not declared with --classes", where=where, hint="name all labels in --classes, or leave out --classes"
            )
        if len(self.names) == self.most:
            raise DataError(f"there are more than {self.most} different labels", where=where, hint="allow more: --max-classes N")
        self._place[name] = len(self.names)
        self.names.append(name)
        return self._place[name]

    def labels_from_indices(self, sets: Sequence[Sequence[int]]) -> Array:
        """Return a matrix (n, C) of the labels of examples, from the indices of each."""
        out = np.zeros((len(sets), len(self.names)), dtype=np.uint8)
        for row, places in enumerate(sets):
            out[row, places] = 1
        return out


def parse_labels(text: str) -> list[str]:
    """Return the labels of a word such as 1,3,7, with numbers in normal form.  Raises ValueError for a label without a name."""
    found = text.split(",")
    if not all(found):
        raise ValueError(text)
    return [_normalise_label(name) for name in found]


def _normalise_label(name: str) -> str:
    try:
        return format_label(float(name))
    except (ValueError, OverflowError):
        return name


class LabelNameEncoder(Protocol):
    """An encoder for the names of a line's labels: `LabelSetEncoder`, or `class_names.ClassNameEncoder`."""

    def name_indices(self, texts: Iterable[str], where: str) -> list[int]:
        """Return the numbers of names."""
        ...

    def labels_from_indices(self, sets: Sequence[Sequence[int]]) -> Array:
        """Return the labels (n, …) of lines, from the numbers of each."""
        ...


class LabelSetReader(BlockReader):
    """A reader of lines with any number of labels; its blocks have labels (n, C), 1 or 0, for those known so far.

    The parser of plain lines reads the number of each line in place of its labels, by which they are found again.
    """

    labels: LabelNameEncoder
    _shifted: tuple[bytes, bytes, int] = (b"", b"", 0)  # the last text, in its parsed form, and the number of lines before it

    @classmethod
    def from_reader(cls, reader: BlockReader, labels: LabelNameEncoder) -> LabelSetReader:
        """Return a reader of the same text."""
        options = ("where", "vw", "bits", "zero_based", "skip_bad", "names", "interactions")
        made = cls(**{name: getattr(reader, name) for name in options})
        made.labels = labels
        return made

    def read(self, text: TextBytes, *, lend: bool = False) -> Iterator[ExampleBlock]:
        """Yield the blocks of the next whole lines, with their sets of labels."""
        original, begin = bytes(text), self.lines
        sets: list[list[int]] = []

        def numbered(match: re.Match[bytes]) -> bytes:
            number = len(sets)
            sets.append(self._labels(match, original, begin))
            return b"%d" % number + (b"" if match[1] else b" ")

        plain = HEADS[self.vw].sub(numbered, original)
        self._shifted = (original, plain, begin)
        for block in super().read(plain):
            yield replace(block, label=self.labels.labels_from_indices([sets[int(number)] for number in block.label.tolist()]))

    def _labels(self, match: re.Match[bytes], text: bytes, begin: int) -> list[int]:
        if not match[1]:
            return []
        word = match[1].decode("utf-8", "replace")
        line = begin + text.count(b"\n", 0, match.start(1)) + 1 if word[0] == "," or word[-1] == "," or ",," in word else 0
        try:
            found = parse_labels(word)
        except ValueError:
            raise DataError(f"{word[:40]!r} is not a list of labels", where=f"{self.where}: line {line}", hint=HINT) from None
        return sorted(set(self.labels.name_indices(found, self.where)))

    def _handle_wrong_line(self, code: int, column: int, token: bytes) -> None:
        """Handle a wrong line, with the column converted to that in the original text."""
        original, plain, begin = self._shifted
        own, seen = (each.split(b"\n")[self.lines - begin - 1] for each in (original, plain))
        super()._handle_wrong_line(code, max(1, column - len(seen) + len(own)), token)
