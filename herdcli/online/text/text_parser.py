"""Streaming parser of svmlight and Vowpal Wabbit text: whole lines become blocks of examples, in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

import numpy as np

from herdcli import fast
from herdcli.errors import DataError
from herdcli.online.example_blocks import ExampleBlock, join_blocks
from herdcli.online.text import quadratic_features
from herdcli.records import dataclass

TextBytes = bytes | memoryview
LINE_END = ord("\n")

# Patterns of lines without a label: in Vowpal Wabbit's format (True) they begin with the bar or a tag before it, else with the first pair.
UNLABELLED = {True: re.compile(rb"(?m)^[ \t]*('[^ \t|\n]*[ \t]*)?(?=\|)"), False: re.compile(rb"(?m)^[ \t]*((?:qid:\S+[ \t]+)?)(?=\d+:)")}
EXPECTED = {
    1: ("{token} where a label was expected", "a line is: label index:value index:value …"),
    2: (
        "{token} where index:value was expected",
        "a whole number, a colon and a number, without blanks",
    ),
    3: ("{token} has index 0, and svmlight counts from 1", "--zero-based reads indices from 0"),
    4: ("{token} does not have a larger index than the one before", "svmlight wants increasing indices; --bits 18 takes them in any order"),
    5: ("{token} does not have a number as its value", None),
    6: ("{token} is not finite", "leave the feature out, or fill it in"),
    7: ("{token} has an index above 2147483645", "--bits 22 hashes indices into a table of 2^22"),
    8: ("has no label", "a line is: label | feature feature:value …"),
    9: ("{token} is not an importance of 0 or more", "a line is: label importance | feature …"),
    10: ("has no bar |", "a line of Vowpal Wabbit is: label | feature feature:value …"),
}


@dataclass
class BlockReader:
    """A reader that converts pieces of text to blocks.

    bits        features are hashed into 2^bits columns; 0: the indices of svmlight are the columns.
    skip_bad    wrong lines tolerated, counted in `skipped`.   names  filled with the first feature name of each column, if given.
    """

    where: str
    vw: bool
    bits: int = 0
    zero_based: bool = False
    skip_bad: int = 0
    names: dict[int, str] | None = None
    interactions: Sequence[str] | None = None  # pairs of namespaces whose features are multiplied, see `quadratic_features`
    unlabelled: bool = False  # whether lines without a label are accepted, with label 0
    skipped: int = 0
    lines: int = 0
    groups: bool = False  # whether the first text has qid:, which is ignored
    _room: tuple[np.ndarray, ...] = field(default=(), repr=False)

    def blocks(self, pieces: Iterable[TextBytes], *, lend: bool = False) -> Iterator[ExampleBlock]:
        """Yield a block for each piece of whole lines.  Raises DataError at a wrong line, with number, column and expected text.

        lend  for callers that need a block only until the next: its arrays are not copied, and are reused.
        """
        self.begin()
        for text in regroup_whole_lines(pieces):
            yield from self.read(text, lend=lend)

    def begin(self) -> None:
        """Reset the reader to the first line."""
        self.lines = self.skipped = 0

    def read(self, text: TextBytes, *, lend: bool = False) -> Iterator[ExampleBlock]:
        """Yield the block of the next whole lines, or its parts when products are expanded; lend: see `blocks`."""
        if self.interactions:
            yield from self._parts(text, False)
            return
        found = list(self._parts(text, lend))
        if found:
            yield found[0] if len(found) == 1 else join_blocks(found)

    def _parts(self, text: TextBytes, lend: bool) -> Iterator[ExampleBlock]:
        """Yield the rows of a text, divided at its wrong lines."""
        if self.unlabelled:
            text = UNLABELLED[self.vw].sub(rb"0 \1", bytes(text))
        if not self.vw and not self.lines:
            self.groups = b" qid:" in bytes(text)
        while text:
            label, weight, pointer, index, value = self._scratch_arrays(text)
            mask = (1 << self.bits) - 1 if self.bits else 0
            report = fast.parse_text(text, self.vw, mask, 0 if self.zero_based else 1, label, weight, pointer, index, value, self.names)
            rows, used, lines, code, column, token, length = report
            self.lines += lines
            if rows:
                end = int(pointer[rows])
                weights = weight[:rows] if self.vw and (weight[:rows] != 1.0).any() else None
                part = ExampleBlock(pointer[: rows + 1], index[:end], value[:end], label[:rows], weights)
                part = part if lend and used == len(text) else part.copy_arrays()
                read = bytes(text[: token - column + 1 if code else used]) if self.interactions else b""
                yield from self._expand_products(part, read) if self.interactions else [part]
            if code:
                self._handle_wrong_line(code, column, bytes(text[token : token + length]))
            text = text[used:]

    def _expand_products(self, block: ExampleBlock, text: bytes) -> Iterator[ExampleBlock]:
        """Yield the rows of a text without wrong lines, with the products of their namespaces' features."""
        wanted = quadratic_features.pairs_as_bytes(self.interactions or (), text)
        mask, alone = (1 << self.bits) - 1, {}
        for letter in {letter for pair in wanted for letter in pair}:
            own = quadratic_features.keep_namespace(text, letter)
            label, weight, pointer, index, value = self._scratch_arrays(own)
            rows = fast.parse_text(own, True, mask, 1, label, weight, pointer, index, value, None)[0]
            end = int(pointer[rows])
            alone[letter] = ExampleBlock(pointer[: rows + 1], index[:end], value[:end], label[:rows]).copy_arrays()
        yield from quadratic_features.expand_pairs(block, [(alone[one], alone[two]) for one, two in wanted], mask, self.names)

    def _scratch_arrays(self, text: TextBytes) -> tuple[np.ndarray, ...]:
        """Return arrays with capacity for the rows of a text, reused for the next one."""
        rows = int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == LINE_END)) + 1
        entries = len(text) // 2 + 2  # an entry takes at least two bytes
        # Large arrays use memory in pages of 2 MB, so the arrays with one entry per row are no longer than necessary.
        if not self._room or len(self._room[0]) < rows:
            self._room = (np.empty(2 * rows), np.empty(2 * rows), np.empty(2 * rows + 1, np.int64), *self._room[3:])
        if len(self._room) < 5 or len(self._room[3]) < entries:
            self._room = (*self._room[:3], np.empty(entries, np.int32), np.empty(entries))
        return self._room

    def _handle_wrong_line(self, code: int, column: int, token: bytes) -> None:
        self.skipped += 1
        if self.skipped <= self.skip_bad:
            return
        words, hint = EXPECTED[code]
        text = words.format(token=repr(token[:40].decode("utf-8", "replace")))
        where = f"{self.where}: line {self.lines}, column {column}"
        if self.skip_bad:
            raise DataError(
                f"{text}; this is bad line number {self.skipped}, but --skip-bad allows only {self.skip_bad}", where=where, hint=hint
            )
        raise DataError(text, where=where, hint=hint)


def regroup_whole_lines(pieces: Iterable[TextBytes]) -> Iterator[TextBytes]:
    """Yield the same text in pieces that end with a line; a piece that already does is not copied."""
    rest: list[bytes] = []
    for piece in pieces:
        if not rest and piece[-1:] == b"\n":
            yield piece
            continue
        text = bytes(piece)
        cut = text.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, memoryview(text)[:cut]])
            rest = [text[cut:]] if cut < len(text) else []
        else:
            rest.append(text)
    last = b"".join(rest)
    if last.strip():
        yield last
