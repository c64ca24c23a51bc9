"""Sums of the statistics of neighbouring blocks, computed where the blocks are stored."""

from __future__ import annotations

from collections.abc import Sequence

from herdcli.numerics.block_statistics import Block, BlockStatistics, Sums, SumTree


def compute_chunk_sums(blocks: Sequence[Block], statistics: BlockStatistics, skipped: int) -> list[tuple[int, Sums]]:
    """Return the entries of the summation tree for the blocks of a chunk.

    If the first `skipped` blocks are left out, every other block is an entry of its own.
    """
    tree = SumTree()
    if skipped:
        return [(1, statistics(block)) for block in blocks[skipped:]]
    for block in blocks:
        tree.add_block_sums(statistics(block))
    return list(zip(tree.sizes, tree.sums, strict=True))
