"""Where the messages of a junction tree go: into memory, fewer of them at a time, or into a file, whichever the limit leaves."""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session
    from herdcli.markov.exact.elimination import Search
    from herdcli.markov.exact.methods import JunctionTree
    from herdcli.markov.exact.one_pass import OnePass


def fit(session: Session, method: JunctionTree, state: Search) -> tuple[int, str]:
    """Choose the fastest way that --max-memory and the disk leave: its bytes of memory, and what the user is told of it."""
    from herdcli.artifacts import arrays_file, memory
    from herdcli.artifacts.wording import readable

    limit = session.max_memory or memory.default_limit()
    what = method.bytes_needed(state)[1].rstrip(",")
    way = method.fitting(state, limit, arrays_file.room() // 2)
    if way is None:
        return method.least(state, limit, 0)[0], what
    if way.plan is None:
        return way.memory, what
    method.scheduled(way.plan, session.hold(closing(arrays_file.ArraysFile())) if way.file else None)
    if way.file:
        return way.memory, f"{what}: its messages are kept in a file of {readable(way.file)} in $TMPDIR"
    return way.memory, f"{what}: its messages are made twice, to keep {readable(way.memory)} of them at a time"


def for_pass(session: Session, work: OnePass) -> tuple[OnePass, int, str]:
    """One pass with best states, and messages, in a file where --max-memory asks for that: itself, its bytes of memory, and words."""
    from herdcli.artifacts import arrays_file, memory
    from herdcli.artifacts.wording import readable

    limit, room = session.max_memory or memory.default_limit(), arrays_file.room() // 2
    what = f"elimination, 2^{math.log2(max(1, work.cells)):.1f} table cells" + (
        " without those that zeros leave empty" if work.sparse else ""
    )
    ways = work.ways()
    for place, (size, in_file) in enumerate(ways):
        if size <= limit and in_file <= room:
            files = [session.hold(closing(arrays_file.ArraysFile())) if place >= first else None for first in (1, 2)]
            beside = f", with a file of {readable(in_file)} in $TMPDIR" if place else ""
            return work.placed(*files), size, f"{what}, {readable(size)}{beside}"
    size = min(size for size, _ in ways)
    return work, size, f"{what}, {readable(size)}"
