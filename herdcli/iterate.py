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
from dataclasses import field
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from herdcli.errors import Interrupted, Unavailable
from herdcli.records import dataclass

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
CHECKPOINT_SECONDS = 60.0
STEP_SECONDS = 1.0  # how long a signal waits for the end of a step that can be saved
LONG_STEP = 0.5  # seconds; the state after such a step is saved at once, so that a signal in the next one loses nothing
SAVING_SHARE = 0.05  # these additional checkpoints take at most this fraction of the running time


class HasStep(Protocol):
    """The attribute that `run_steps` needs from a state: the number of steps done."""

    step: int


S = TypeVar("S", bound=HasStep)


asked: dict[int, int] = {}  # thread -> the signal that is to end it; signals of the system reach only the main thread


def is_stop_requested() -> bool:
    """Return whether this thread was asked to stop; a step that is waiting can then end early."""
    return threading.get_ident() in asked


def handle_interrupt(number: int, frame: FrameType | None) -> None:
    """Handle a signal in a process of herd's own: end at once.

    Python drops exceptions raised in `__del__` or in a garbage collector's callback.  So the signal is recorded and ends the next step.
    """
    asked.setdefault(threading.get_ident(), number)
    raise Interrupted(number)


@contextmanager
def allow_interrupts(afterwards: Callable[[int, FrameType | None], None] | None = None) -> Iterator[None]:
    """Let signals end the body, in the main thread of a process that herd owns.

    `afterwards` handles the signals that follow in a process that ends after the body; without it the handlers of before come back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()  # a run under nohup
    previous = {number: signal.signal(number, handle_interrupt) for number in SIGNALS if number not in ignored}
    try:
        yield
    finally:
        asked.pop(threading.get_ident(), None)
        for number, handler in previous.items():
            signal.signal(number, afterwards or handler)


@dataclass
class _InterruptibleLoop:
    """What the handler of signals has to know about the loop."""

    saves: bool
    in_step: bool = False


@contextmanager
def _defer_signals(loop: _InterruptibleLoop) -> Iterator[None]:
    """Let signals end the loop: between steps, or in a long step.

    Without checkpoints a signal ends the running step at once.  With them it waits `STEP_SECONDS` for the end of the step, so that its
    result can be saved.  A second Ctrl-C stops at once; other repeated signals, as job schedulers send them, are ignored.
    In the process of a host program only Ctrl-C is handled here, and only if the host uses Python's own handler for it.  The host keeps
    all other signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own, ours = threading.get_ident(), (handle_interrupt, signal.default_int_handler)
    previous: dict[int, Any] = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) in ours}

    def note(number: int, frame: FrameType | None) -> None:
        repeated = own in asked
        first = asked.setdefault(own, number)
        if (repeated and number == signal.SIGINT) or (loop.in_step and not loop.saves):
            raise Interrupted(first)
        if loop.in_step and not repeated and handle_interrupt in previous.values():
            previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, end_step)
            signal.setitimer(signal.ITIMER_REAL, STEP_SECONDS)

    def end_step(number: int, frame: FrameType | None) -> None:
        if loop.in_step:
            raise Interrupted(asked[own])

    for number in previous:
        signal.signal(number, note)
    try:
        yield
    finally:
        asked.pop(own, None)
        if signal.SIGALRM in previous:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in previous.items():
            signal.signal(number, handler)


@dataclass
class _CheckpointSaver(Generic[S]):
    """When the states of a loop are saved: each `every` steps, or each 60 s without it, and after long steps."""

    checkpoint: Callable[[S], None]
    every: int | None
    last: float = field(default_factory=lambda: time.monotonic())
    cost: float = 0.0  # seconds of the last checkpoint

    def save(self, state: S) -> None:
        """Save a state, and measure how long that takes."""
        began = time.monotonic()
        self.checkpoint(state)
        self.last = time.monotonic()
        self.cost = self.last - began

    def save_if_due(self, state: S, seconds: float) -> None:
        """Save the state after a step that took `seconds`, if a checkpoint is due."""
        since = time.monotonic() - self.last
        due = state.step % self.every == 0 if self.every else since >= CHECKPOINT_SECONDS
        if due or (seconds > LONG_STEP and self.cost <= SAVING_SHARE * since):
            self.save(state)


def _never_done(state: HasStep) -> bool:
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

    checkpoint  called with the state between steps: each `every` steps, or each 60 s without it, and after a step of more than 0.5 s.
    watch       called with the state after each step.
    Raises Interrupted after a signal.  Without a checkpoint it ends the running step at once.  With one, the step is finished and saved,
    unless it takes more than a second from then on.  A step that raises Unavailable has not changed its state, so that state is saved too.
    """
    saving = _CheckpointSaver(checkpoint, every) if checkpoint else None
    loop = _InterruptibleLoop(saves=saving is not None)
    ended = until or _never_done
    with _defer_signals(loop):
        while (steps is None or state.step < steps) and not ended(state):
            began, done = time.monotonic(), state.step
            try:
                loop.in_step = True
                state = step(state)
            except Unavailable:
                loop.in_step = False
                if saving:
                    saving.save(state)
                raise
            except Interrupted as error:
                raise Interrupted(error.exit_code - 128, step=done or None) from error
            loop.in_step = False
            if watch:
                watch(state)
            if is_stop_requested():
                if saving:
                    saving.save(state)
                raise Interrupted(asked[threading.get_ident()], step=state.step)
            if saving and (steps is None or state.step < steps):
                saving.save_if_due(state, time.monotonic() - began)
    return state
