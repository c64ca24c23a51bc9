"""Neighbouring blocks of rows whose statistics are added where they are."""

from __future__ import annotations

from dataclasses import replace

from herdcli.numerics.blocks import Block, Statistics, Sums, Tree


def chunk_sums(rows: Block, statistics: Statistics, skipped: int, block: int) -> list[tuple[int, Sums]]:
    """The entries of the tree of a chunk's blocks; where some are left out, each block is one.  block  rows of one."""
    tree, singles = Tree(), list[tuple[int, Sums]]()
    for start in range(skipped * block, len(rows.X), block):
        part = slice(start, start + block)
        labels, weight = (None if item is None else item[part] for item in (rows.labels, rows.weight))
        found = statistics(replace(rows, first=rows.first + start, X=rows.X[part], labels=labels, weight=weight))
        if skipped:
            singles.append((1, found))
        else:
            tree.push(found)
    return singles or list(zip(tree.sizes, tree.sums, strict=True))
