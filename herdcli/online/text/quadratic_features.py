"""Quadratic features: products of the features of two namespaces, in the same columns as in Vowpal Wabbit.

A pair is named by the first letters of its namespaces, "ab".  Within one namespace, "aa", every pair of features occurs once, including
each feature with itself, and "::" means all pairs of all namespaces.  With h the hash of a feature, the product x_i x_j has the column
(16777619 · h_i) xor h_j, modulo the size of the table: the step of Fowler, Noll & Vo's hash, from h_i with h_j.  The low bits of
that depend only on the low bits of both, so that hashes that are already reduced give the same column.
Source: Vowpal Wabbit's wiki, "Feature interactions"; the order i before j of one namespace is that of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np

from herdcli import fast
from herdcli.errors import DataError
from herdcli.fast.numpy_online import PRIME, Rows, places
from herdcli.online.example_blocks import ExampleBlock

ALL = "::"
NAMESPACES = "use Vowpal Wabbit text, which has namespaces: label |user age:3 |page sport"
ENTRIES = 1 << 17  # entries of an expanded block; more only if one example has more
_PAIR = re.compile(r"[!-9;-{}~]{2}")  # printable characters except the colon and the bar
_BEGINNING = re.compile(rb"\|([^|\s:]?)")


def parse_namespace_pairs(text: str) -> list[str]:
    """Return the pairs of "ab,cd" in order, each once in either order of its letters.  Raises ValueError with an invalid one."""
    found: dict[tuple[str, ...], str] = {}
    for name in filter(None, text.split(",")):
        pair = ALL if name == ":" else name
        if pair != ALL and not _PAIR.fullmatch(pair):
            raise ValueError(name)
        found.setdefault(tuple(sorted(pair)), pair)
    if not found:
        raise ValueError(text)
    return [ALL] if ALL in found.values() else list(found.values())


def require_valid_pairs(pairs: Sequence[str] | None, vw: bool, bits: int) -> None:
    """Raise DataError unless pairs, if any, are well formed and belong to hashed Vowpal Wabbit text."""
    if pairs is None:
        return
    try:
        good = parse_namespace_pairs(",".join(pairs)) == list(pairs) and vw and bits > 0
    except ValueError:
        good = False
    if not good:
        raise DataError(f"interactions '{','.join(pairs)}' are not pairs of namespaces of hashed Vowpal Wabbit text")


def missing_namespaces_message(pairs: Sequence[str]) -> str:
    """Return the message for rows without namespaces."""
    return f"has no namespaces, and --interactions {','.join(pairs)} multiplies the features of two"


def pairs_as_bytes(pairs: Sequence[str], text: bytes) -> list[tuple[bytes, bytes]]:
    """Return the pairs as letters; a namespace without a name is " "."""
    if list(pairs) != [ALL]:
        return [(pair[:1].encode(), pair[1:].encode()) for pair in pairs]
    letters = sorted({letter or b" " for letter in _BEGINNING.findall(text)})
    return list(combinations_with_replacement(letters, 2))


def keep_namespace(text: bytes, letter: bytes) -> bytes:
    """Return the lines without the contents of namespaces that do not begin with this letter."""
    kept = rb"[ \t:]" if letter == b" " else re.escape(letter)
    return re.sub(rb"\|(?!" + kept + rb")[^|\n]*", b"|", text)


def expand_pairs(
    block: ExampleBlock, sides: Sequence[tuple[ExampleBlock, ExampleBlock]], mask: int, names: dict[int, str] | None = None
) -> Iterator[ExampleBlock]:
    """Yield the block with the products of `sides`, in parts of bounded size.

    sides  pairs of blocks of the same rows (the same block twice: its own pairs).
    mask  2^bits − 1.   names  receives "name*name" for each new column, if given.  Entries of one column are added up.
    """
    count = np.diff(block.pointer)
    for left, right in sides:
        one, two = np.diff(left.pointer), np.diff(right.pointer)
        count = count + (one * (one + 1) // 2 if left is right else one * two)
    ends = np.cumsum(count)
    first = 0
    while first < block.rows:
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + ENTRIES, side="right")))
        yield _expand_rows(block, sides, mask, names, first, last)
        first = last


def _expand_rows(
    block: ExampleBlock, sides: Sequence[tuple[ExampleBlock, ExampleBlock]], mask: int, names: dict[int, str] | None, first: int, last: int
) -> ExampleBlock:
    """Return rows first … last − 1, expanded."""
    rows = [(_row_arrays(left), _row_arrays(right), left is right) for left, right in sides]
    if names is not None:
        for left, right, own in rows:
            _name_products(left, right, own, mask, names, first, last)
    pointer, index, value = fast.with_products(_row_arrays(block), rows, mask, first, last)
    weight = None if block.weight is None else block.weight[first:last]
    return ExampleBlock(pointer, index, value, block.label[first:last], weight)


def _row_arrays(block: ExampleBlock) -> Rows:
    return block.pointer, block.index, block.value


def _name_products(left: Rows, right: Rows, is_same_side: bool, mask: int, names: dict[int, str], first: int, last: int) -> None:
    """Name each new column of two sides after its factors."""
    _, i, j = places(left, right, is_same_side, first, last)
    one, two = left[1][i].astype(np.int64), right[1][j].astype(np.int64)
    index = ((PRIME * (one - 1) ^ two - 1) & mask) + 1
    for at, a, b in zip(index.tolist(), one.tolist(), two.tolist(), strict=True):
        names.setdefault(at, f"{names[a]}*{names[b]}")
