"""Where the messages of a junction tree go: into memory, fewer of them at a time, or into a file, whichever the limit leaves."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session
    from herdcli.markov.exact.elimination import Search
    from herdcli.markov.exact.methods import JunctionTree


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
