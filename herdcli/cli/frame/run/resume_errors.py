"""Whose fault it is that a resumed run fails: a checkpoint's, or the program's.

A run has one state after each number of steps.  So the state of a checkpoint is checked by the run itself, from its start: where that comes
to the same state, or fails as well, the checkpoint is innocent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from herdcli.artifacts.sealed import artifact_comparison
from herdcli.errors import UNRECKONABLE, HerdError
from herdcli.iterate import HasStep

if TYPE_CHECKING:
    from herdcli.algorithm import Algorithm

S = TypeVar("S", bound=HasStep)
R = TypeVar("R")
SECONDS = 60.0  # of the check; a run that takes longer to its checkpoint is not repeated


def is_state_of_run(algorithm: Algorithm[S, R], read: Callable[[], S | None]) -> bool:
    """Whether a checkpoint holds a state that the algorithm comes to from its start; False where that takes too long or cannot be told,
    as of rows in a stream that is closed."""
    end = time.monotonic() + SECONDS
    try:
        saved = read()
        if saved is None:
            return True
        state = algorithm.init()
        while state.step < saved.step and not algorithm.done(state):
            if time.monotonic() > end:
                return False
            state = algorithm.step(state)
    except UNRECKONABLE:
        return True
    except (HerdError, OSError):
        return False
    return all(
        artifact_comparison.largest_difference(*pair)[0] == 0.0 for pair in ((state, saved), (saved, state))
    )  # a gap counts on either side
