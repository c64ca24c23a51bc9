"""Disjoint sets (union-find), as trees of parents whose roots represent the sets."""

from __future__ import annotations


def find_root(parent: dict[int, int] | list[int], i: int) -> int:
    """Return the root of i, and shorten the path to it.

    Source: Tarjan & van Leeuwen (1984), path halving.
    """
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i
