"""The check that decides whether a checkpoint or the program is at fault if a resumed run fails.

A run has exactly one state after each number of steps.  So the state of a checkpoint is checked by repeating the run from its start.  If
this reaches the same state, or fails as well, the checkpoint is not at fault.
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
SECONDS = 60.0  # time limit of the check; a run that needs longer to reach its checkpoint is not repeated


def is_state_of_run(algorithm: Algorithm[S, R], read: Callable[[], S | None]) -> bool:
    """Whether a checkpoint holds a state that the algorithm reaches from its start.

    False if the check takes too long or is not possible, for example with rows from a stream that is closed.
    """
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
    )  # both ways, so that a missing part on either side counts
