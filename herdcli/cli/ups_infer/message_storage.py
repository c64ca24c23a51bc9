"""The storage of a junction tree's messages: in memory, partly recomputed, or in a file, depending on the memory limit."""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.exact.collect_pass import EliminationPassPlan
    from herdcli.markov.exact.elimination import OrderSearch
    from herdcli.markov.exact.exact_algorithms import JunctionTree


def choose_message_storage(session: Session, method: JunctionTree, state: OrderSearch) -> tuple[int, str]:
    """Choose the fastest storage that --max-memory and the disk allow, and return its bytes of memory and a message."""
    from herdcli.artifacts import memory_budget
    from herdcli.artifacts.message_numbers import format_size
    from herdcli.artifacts.rows import arrays_file

    limit = session.max_memory or memory_budget.default_memory_limit()
    what = method.bytes_needed(state)[1].rstrip(",")
    way = method.find_fitting_schedule(state, limit, arrays_file.free_disk_bytes() // 2)
    if way is None:
        return method.smallest_memory_need(state, limit, 0)[0], what
    if way.plan is None:
        return way.memory, what
    method.set_schedule(way.plan, session.enter_until_command_ends(closing(arrays_file.ArraysFile())) if way.file else None)
    if way.file:
        return way.memory, f"{what}: its messages are kept in a file of {format_size(way.file)} in $TMPDIR"
    return way.memory, f"{what}: its messages are computed twice, to keep {format_size(way.memory)} of them at a time"


def choose_pass_storage(session: Session, work: EliminationPassPlan) -> tuple[EliminationPassPlan, int, str]:
    """Choose where a pass stores best states and messages: in memory, or in files if they exceed --max-memory.

    Return the pass, its bytes of memory, and a message.
    """
    from herdcli.artifacts import memory_budget
    from herdcli.artifacts.message_numbers import format_size
    from herdcli.artifacts.rows import arrays_file

    limit, room = session.max_memory or memory_budget.default_memory_limit(), arrays_file.free_disk_bytes() // 2
    what = f"elimination, 2^{math.log2(max(1, work.cells)):.1f} table cells" + (
        " without those that zeros leave empty" if work.has_sparse_messages else ""
    )
    ways = work.storage_plans()
    for place, (size, in_file) in enumerate(ways):
        if size <= limit and in_file <= room:
            files = [session.enter_until_command_ends(closing(arrays_file.ArraysFile())) if place >= first else None for first in (1, 2)]
            beside = f", with a file of {format_size(in_file)} in $TMPDIR" if place else ""
            return work.with_message_stores(*files), size, f"{what}, {format_size(size)}{beside}"
    size = min(size for size, _ in ways)
    return work, size, f"{what}, {format_size(size)}"
