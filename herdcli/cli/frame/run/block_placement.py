"""The placement of the blocks of an iterated command: in this process, or on the workers of --cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.numerics.block_statistics import BlockSource


def place_blocks_on_workers(session: Session, source: BlockSource, *, passing: bool = False) -> BlockSource:
    """Return the blocks of a source, kept by the workers of --cluster until the command ends; without --cluster, the source itself.

    passing  whether each round has other blocks, so that workers keep none.
    """
    if session.cluster is None or session.dry_run:
        return source
    from herdcli.cli.frame.run import cluster_run

    return cluster_run.distribute_blocks(session, session.cluster, source, passing=passing)
