"""Neighbouring blocks whose statistics are added where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herdcli.numerics.block_statistics import Statistics, Sums, SumTree


def chunk_sums(blocks: Sequence[Any], statistics: Statistics, skipped: int) -> list[tuple[int, Sums]]:
    """The entries of the tree of a chunk's blocks; where the first few are left out, each of the others is one."""
    tree = SumTree()
    if skipped:
        return [(1, statistics(block)) for block in blocks[skipped:]]
    for block in blocks:
        tree.push(statistics(block))
    return list(zip(tree.sizes, tree.sums, strict=True))
