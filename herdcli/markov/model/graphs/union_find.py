"""Which things have been joined, as trees of parents whose roots stand for them all."""

from __future__ import annotations


def find_root(parent: dict[int, int] | list[int], i: int) -> int:
    """The root of i; the ways that were gone become shorter.

    Source: Tarjan & van Leeuwen (1984), path halving.
    """
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i
