"""Words and tokens of a text with their positions, for parsers that report the position of an error."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from herdcli.errors import DataError
from herdcli.schema import Array

T = TypeVar("T")
ROUNDED = 0.01  # largest deviation from 1 of the sum of a row of a conditional distribution in a file
LARGEST = 2**63 - 1  # largest integer that is read from a file
ZEROS = frozenset(("0", "0.0", "0.", "0.000000"))


TOO_SMALL = "'{}' is too small for float64 and would become 0, which means an impossible state"
SCALED = "write 0 if the state is impossible, or multiply all values of the factor by a power of ten"


def find_first_underflow(words: Sequence[str], values: Array) -> int | None:
    """Return the position of the first number that underflows to 0 in float64."""
    for place in np.flatnonzero(values == 0).tolist():
        word = words[place]
        if word not in ZEROS and re.search(r"[1-9]", word.lower().partition("e")[0]):
            return int(place)
    return None


_PLAIN = re.compile(r"[+-]?[0-9]{1,400}")


class WordStream:
    """The blank-separated words of a text; text after `#` or `//` at the beginning of a word is a comment."""

    def __init__(self, text: str) -> None:
        self.text = re.sub(r"(?m)(^|(?<=\s))(#|//).*$", "", text)
        self.words = self.text.split()
        self.at = 0

    @property
    def remaining_words(self) -> int:
        """The number of remaining words."""
        return len(self.words) - self.at

    def next(self, description: str) -> str:
        """Return the next word.  Raises DataError, with the end of the text, if there is none."""
        if not self.remaining_words:
            raise DataError(
                f"the file ends at {self.describe_position(len(self.words) - 1)}, where {description} is expected",
                hint="check whether the file is complete",
            )
        self.at += 1
        return self.words[self.at - 1]

    def read_integer(self, description: str, low: int = 0) -> int:
        """Return the next word as an integer from `low` upwards."""
        return int(self.read_integers(1, description, low)[0])

    def read_integers(self, count: int, description: str, low: int = 0) -> list[int]:
        """Return the next words as integers from `low` upwards."""
        values = self._take_words(count, description, _parse_integer, "an integer")
        for k, value in enumerate(values):
            if abs(value) > LARGEST:
                raise DataError(f"{self.describe_position(self.at - count + k)}: {description} is {value}, but must be at most {LARGEST}")
            if value < low:
                raise DataError(f"{self.describe_position(self.at - count + k)}: {description} is {value}, but must be {low} or more")
        return values

    def read_numbers(self, count: int, description: str) -> Array:
        """Return the next words as float64."""
        values = np.array(self._take_words(count, description, _parse_number, "a number"), dtype=np.float64)
        first = self.at - count
        if (lost := find_first_underflow(self.words[first : self.at], values)) is not None:
            raise DataError(f"{self.describe_position(first + lost)}: {TOO_SMALL.format(self.words[first + lost][:40])}", hint=SCALED)
        return values

    def _take_words(self, count: int, description: str, convert: Callable[[str], T], expected: str) -> list[T]:
        words = self.words[self.at : self.at + count]
        if len(words) < count:
            self.at = len(self.words)
            self.next(description)
        try:
            values = [convert(word) for word in words]
        except ValueError:
            bad = next(k for k, word in enumerate(words) if not _is_convertible(word, convert))
            raise DataError(f"{self.describe_position(self.at + bad)}: {description} must be {expected}, not '{words[bad][:40]}'") from None
        self.at += count
        return values

    def describe_position(self, word: int) -> str:
        """Return the line and token of a word, counted from 1."""
        seen = 0
        for number, line in enumerate(self.text.split("\n"), 1):
            here = len(line.split())
            if seen + here > word:
                return f"line {number}, token {word - seen + 1}"
            seen += here
        return "line 1"

    def require_end(self) -> None:
        """Raise DataError if words are left over."""
        if self.remaining_words:
            raise DataError(
                f"{self.describe_position(self.at)}: the network is complete, but the file continues with '{self.words[self.at][:40]}'"
            )


def _parse_integer(word: str) -> int:
    """Parse ASCII digits with a sign: Python also accepts 1_0 and digits of other scripts, which no other program does."""
    if not _PLAIN.fullmatch(word):
        raise ValueError(word)
    return int(word)


def _parse_number(word: str) -> float:
    """Parse a decimal number of ASCII characters."""
    if "_" in word or not word.isascii():
        raise ValueError(word)
    return float(word)


def parse_numbers(words: Sequence[str], description: str) -> Array:
    """Return words as float64.  Raises DataError for other words, and for numbers that underflow in float64."""
    try:
        values = np.array(list(map(_parse_number, words)), dtype=np.float64)
    except ValueError:
        bad = next(word for word in words if not _is_convertible(word, _parse_number))
        raise DataError(f"{description} has '{bad[:40]}', which is not a number") from None
    if (lost := find_first_underflow(words, values)) is not None:
        raise DataError(f"{description}: {TOO_SMALL.format(words[lost][:40])}")
    return values


class TokenStream:
    """The tokens of a text without its comments; positions are only computed for errors.

    comment  a pattern that matches quoted text as its first group, or a comment.
    """

    def __init__(self, text: str, token: re.Pattern[str], comment: re.Pattern[str]) -> None:
        self.token = token
        self.text = comment.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
        self.tokens: list[str] = token.findall(self.text)
        self.at = 0

    def peek(self) -> str:
        """Return the next token without consuming it, "" at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self, description: str) -> str:
        """Consume and return the next token.  Raises DataError at the end."""
        if self.at == len(self.tokens):
            raise self.make_truncation_error(description)
        self.at += 1
        return self.tokens[self.at - 1]

    def expect_token(self, token: str) -> None:
        """Consume this token.  Raises DataError for another one."""
        if (found := self.next(f"'{token}'")) != token:
            raise self.make_error(f"'{found[:40]}' where '{token}' is expected")

    def read_tokens_until(self, end: str) -> list[str]:
        """Return the tokens before the next `end`, and consume them with it."""
        try:
            closing = self.tokens.index(end, self.at)
        except ValueError:
            self.at = len(self.tokens)
            raise self.make_truncation_error(f"'{end}'") from None
        found = self.tokens[self.at : closing]
        self.at = closing + 1
        return found

    @staticmethod
    def without_quotes(token: str) -> str:
        """Return a token without its quotes."""
        return re.sub(r"\\(.)", r"\1", token[1:-1]) if len(token) > 1 and token[0] == token[-1] == '"' else token

    def make_truncation_error(self, description: str) -> DataError:
        """Return the DataError for a text that ends too soon."""
        lines = self.text.rstrip().count("\n") + 1
        return DataError(f"the file ends at line {lines}, where {description} is expected", hint="check whether the file is complete")

    def make_error(self, message: str) -> DataError:
        """Return a DataError about the last token."""
        return DataError(f"line {self.line()}: {message}")

    def line(self) -> int:
        """The line of the last token."""
        found = next(itertools.islice(self.token.finditer(self.text), max(0, self.at - 1), None))
        return self.text.count("\n", 0, found.start()) + 1

    @contextmanager
    def add_line_to_errors(self) -> Iterator[None]:
        """Add the line of the last token to errors that are raised inside."""
        try:
            yield
        except DataError as error:
            if not error.message.startswith(("line ", "the file ends at line")):
                error.message = f"line {self.line()}: {error.message}"
            raise


def _is_convertible(word: str, convert: Callable[[str], T]) -> bool:
    try:
        convert(word)
    except ValueError:
        return False
    return True
