"""The loop under every iterative algorithm: progress, checkpoints, resuming, signals.

An algorithm is `init(...) -> State` and `step(state) -> State`.  `State` is a dataclass that holds everything its future depends on,
including its traces and the number of steps done (`state.step`).
A step owns the arrays of the state that it gets.  `run_steps` does not access files: the caller passes a callable that saves,
and a resumed run starts from the saved state.
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
    """The attribute that `run_steps` needs from a state: the number of steps done."""

    step: int


S = TypeVar("S", bound=HasStep)


asked: dict[int, int] = {}  # thread -> the signal that is to end it; signals of the system reach only the main thread


def stop_requested() -> bool:
    """Return whether this thread was asked to stop; a step that is waiting can then end early."""
    return threading.get_ident() in asked


def handle_interrupt(number: int, frame: FrameType | None) -> None:
    """Handle a signal in a process of herd's own: end at once.

    Python drops exceptions raised in `__del__` or in a garbage collector's callback.  So the signal is recorded and ends the next step.
    """
    asked.setdefault(threading.get_ident(), number)
    raise Interrupted(number)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals end the body, in the main thread of a process that herd owns."""
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
    """Defer a signal until the step is done.

    A second Ctrl-C stops at once; other repeated signals, as job schedulers send them, are ignored.
    In the process of a host program only Ctrl-C is deferred, and only if the host uses Python's own handler for it.  The host keeps all
    other signals.
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
    """Repeat `step` until `state.step == steps` or `until(state)`, and return the last state.

    checkpoint  called with the state between steps: each `every` steps, or each 60 s without it.
    watch       called with the state after each step.
    Raises Interrupted after a signal, once the running step is done and the checkpoint is saved.  A step that raises Unavailable has
    not changed its state, so that state is saved too.
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
