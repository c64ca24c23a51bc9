"""The one loop under every iterative algorithm: progress, checkpoints, resuming, signals.

An algorithm is `init(...) -> State` and `step(state) -> State`, with `State` a dataclass that holds
everything its future depends on, the number of steps done (`state.step`) and its traces included.
A step owns the arrays of the state it is given.  `run` knows no files: saving is a callable it is
handed, and a resumed state is simply the state it starts from.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol, TypeVar

from herdcli.errors import Interrupted
from herdcli.records import dataclass

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
CHECKPOINT_SECONDS = 60.0


class Steppable(Protocol):
    """What `run` needs of a state: how many steps it has behind it."""

    step: int


S = TypeVar("S", bound=Steppable)


@dataclass
class _Pending:
    """The signal that arrived, if one did."""

    number: int | None = None


@contextmanager
def _deferred_signals() -> Iterator[_Pending]:
    """Hold a signal until the step is done.  A second one stops at once where it is a person's Ctrl-C; schedulers repeat theirs."""
    pending = _Pending()
    if threading.current_thread() is not threading.main_thread():
        yield pending
        return

    def note(number: int, frame: FrameType | None) -> None:
        if pending.number is None:
            pending.number = number
        elif number == signal.SIGINT:
            raise Interrupted(number)

    previous = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield pending
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _never(state: Steppable) -> bool:
    return False


def run(
    step: Callable[[S], S],
    state: S,
    *,
    steps: int | None = None,
    until: Callable[[S], bool] | None = None,
    checkpoint: Callable[[S], None] | None = None,
    every: int | None = None,
    watch: Callable[[S], None] | None = None,
) -> S:
    """Step until `state.step == steps` or `until(state)`; return the last state.

    checkpoint  called with the state between steps: each `every` steps, or each 60 s without it.
    watch       called with the state after each step.
    Raises Interrupted after a signal, once the running step is done and the checkpoint is saved.
    """
    last_saved = time.monotonic()
    ended = until or _never
    with _deferred_signals() as pending:
        while (steps is None or state.step < steps) and not ended(state):
            state = step(state)
            if watch:
                watch(state)
            if pending.number is not None:
                if checkpoint:
                    checkpoint(state)
                raise Interrupted(pending.number, step=state.step)
            if checkpoint and (steps is None or state.step < steps):
                due = state.step % every == 0 if every else time.monotonic() - last_saved >= CHECKPOINT_SECONDS
                if due:
                    checkpoint(state)
                    last_saved = time.monotonic()
    return state
