"""Held-out examples, which are evaluated in every pass and not learned: results of each pass, and early stopping."""

from __future__ import annotations

import numpy as np

from herdcli.online.learner_state import LearnerState
from herdcli.online.model import PassResults
from herdcli.schema import Array

WEIGHTS = ("table", "mean", "sigma", "sizes", "stack", "weights")


def begin_pass(state: LearnerState, early_stop: int) -> None:
    """Begin a new pass: keep the best weights so far, and end learning if `early_stop` passes have brought no improvement."""
    if early_stop and state.passes is not None:
        best = best_pass(state)
        last = state.passes.shape[1] - 1
        if best == last:
            state.best = _weight_arrays(state)
        if last - best >= early_stop:
            state.done = True
            return
    column = np.zeros((3, 1))
    state.passes = column if state.passes is None else np.concatenate([state.passes, column], axis=1)


def add_errors_and_losses(state: LearnerState, wrong: Array, loss: Array) -> None:
    """Add to the totals the errors and losses (n,) of examples of this pass, which are computed before the examples may be learned."""
    assert state.passes is not None
    state.passes[:, -1] += len(loss), wrong.sum(), loss.sum()


def best_pass(state: LearnerState) -> int:
    """Return the pass with the fewest mistakes, then the lowest loss, then the first."""
    assert state.passes is not None
    _, wrong, loss = state.passes
    return int(np.lexsort((np.arange(len(loss)), loss, wrong))[0])


def _weight_arrays(state: LearnerState) -> list[Array]:
    return [each.copy() for name in WEIGHTS if (each := getattr(state, name)) is not None]


def restore_best_weights(state: LearnerState) -> None:
    """Restore the weights of the best pass if a later one was worse."""
    if not state.best or state.passes is None or best_pass(state) == state.passes.shape[1] - 1:
        return
    kept = iter(state.best)
    for name in WEIGHTS:
        if getattr(state, name) is not None:
            setattr(state, name, next(kept))


def pass_records(state: LearnerState) -> PassResults | None:
    """Return the passes in the artifact's form; None if nothing was held out."""
    if state.passes is None or not state.passes[0].any():
        return None
    examples, wrong, loss = state.passes
    count = np.maximum(examples, 1.0)
    return PassResults(examples.astype(np.int64), wrong / count, loss / count)
