"""The one loop under every iterative algorithm: progress, checkpoints, resuming, signals.

An algorithm is `init(...) -> State` and `step(state) -> State`, with `State` a dataclass that holds
everything its future depends on, the number of steps done (`state.step`) and its traces included.
A step owns the arrays of the state it is given.  `run_steps` knows no files: saving is a callable it is
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

from herdcli.errors import Interrupted, Unavailable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
CHECKPOINT_SECONDS = 60.0


class HasStep(Protocol):
    """What `run_steps` needs of a state: how many steps it has behind it."""

    step: int


S = TypeVar("S", bound=HasStep)


asked: dict[int, int] = {}  # thread -> the signal that it is to end by; those of the system come to the main thread alone


def stop_requested() -> bool:
    """Whether this thread was asked to end: a step that waits for something can end early then."""
    return threading.get_ident() in asked


def handle_interrupt(number: int, frame: FrameType | None) -> None:
    """The handler of a process of herd's own: end at once.

    Python drops what is raised in a callback of its garbage collector or in `__del__`; so the signal is remembered, and ends the next step.
    """
    asked.setdefault(threading.get_ident(), number)
    raise Interrupted(number)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals end what the body does: of the main thread, whose process is herd's own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, handle_interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        asked.pop(threading.get_ident(), None)
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Hold a signal until the step is done.  A second one stops at once where it is a person's Ctrl-C; schedulers repeat theirs.

    In a host program's process that is Ctrl-C, where the host handles it as Python does; all other signals are the host's.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own, ours = threading.get_ident(), (handle_interrupt, signal.default_int_handler)

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and own in asked:
            raise Interrupted(number)
        asked.setdefault(own, number)

    previous = {number: signal.signal(number, note) for number in SIGNALS if signal.getsignal(number) in ours}
    try:
        yield
    finally:
        asked.pop(own, None)
        for number, handler in previous.items():
            signal.signal(number, handler)


def _never(state: HasStep) -> bool:
    return False


def run_steps(
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
    Raises Interrupted after a signal, once the running step is done and the checkpoint is saved.  A step that raises Unavailable has
    not touched its state, which is saved too.
    """
    last_saved = time.monotonic()
    ended = until or _never
    with _deferred_signals():
        while (steps is None or state.step < steps) and not ended(state):
            try:
                state = step(state)
            except Unavailable:
                if checkpoint:
                    checkpoint(state)
                raise
            if watch:
                watch(state)
            if stop_requested():
                if checkpoint:
                    checkpoint(state)
                raise Interrupted(asked[threading.get_ident()], step=state.step)
            if checkpoint and (steps is None or state.step < steps):
                due = state.step % every == 0 if every else time.monotonic() - last_saved >= CHECKPOINT_SECONDS
                if due:
                    checkpoint(state)
                    last_saved = time.monotonic()
    return state
