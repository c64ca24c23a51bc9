"""Where the blocks of an iterated command are: here, or with the workers of --cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.numerics.block_statistics import BlockSource


def place_blocks(session: Session, source: BlockSource, *, passing: bool = False) -> BlockSource:
    """The blocks of a source with the workers of --cluster, where there are any, until the command ends.

    passing  they are others in each round, and workers keep none.
    """
    if session.cluster is None or session.dry_run:
        return source
    from herdcli.cli.frame.run import cluster_run

    return cluster_run.distribute_blocks(session, session.cluster, source, passing=passing)
