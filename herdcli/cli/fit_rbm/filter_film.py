"""`herd fit-rbm --plot filters FILE.gif`: the weights of hidden units while they are learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.output.animations import write_animations
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.fit_rbm.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.rbm.learning.learning_state import LearningState
    from herdcli.rbm.learning.parallel_fits import RBMLearning
    from herdcli.schema import Array

MOST_UNITS = 100  # hidden units whose weights are drawn


class FilterAnimation:
    """The weights at evenly spaced updates of a run, for a moving picture."""

    def __init__(self, session: Session, request: Request, algorithm: RBMLearning, image_shape: Array | None) -> None:
        """Watch the run of an algorithm.  Raises BadUsage for rows that are no images."""
        from herdcli.evaluation.plots.animations import FRAMES

        if image_shape is None:
            raise BadUsage(
                "--plot filters needs rows that are images",
                hint="leave out --plot filters, or try: herd data digits | herd fit-rbm --plot filters filters.gif",
            )
        self._session, self._plots, self._shape = session, request.plots, image_shape
        self._steps = algorithm.steps
        self._every = max(1, -(-self._steps // FRAMES))
        self._frames: list[Array] = []
        self._captions: list[str] = []
        session.observers.append(self.add)

    def add(self, state: LearningState) -> None:
        """Keep the weights of a state if its update is one of those that are drawn."""
        if state.step % self._every and state.step != self._steps:
            return
        pixels = int(np.prod(self._shape))
        weights = np.concatenate([W[:pixels].T for W in state.W])[:MOST_UNITS]
        self._frames.append(np.array(weights.reshape(-1, *map(int, self._shape)), dtype=np.float64))
        self._captions.append(f"update {state.step} of {self._steps}")

    def write(self) -> None:
        """Write the moving picture, unless a resumed run had no update left."""
        from herdcli.evaluation.plots.animations import Panel

        self._session.observers.remove(self.add)
        if self._frames:
            panel = Panel(f"weights of {len(self._frames[0])} hidden units", self._frames, signed=True)
            write_animations(self._session, self._plots, [panel], self._captions)
