"""Early stopping: the parameters of the least loss on validation rows are kept, and a fit ends when they have not changed for a while."""

from __future__ import annotations

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array, array


@dataclass(kw_only=True)
class BestParameters:
    """The best so far.  Without validation rows they are the last ones."""

    theta: Array = array("q", "parameters", kind="f")
    losses: Array = array("V", "mean loss of the validation rows at each look, the start's first", kind="f")
    loss: float = float("inf")
    looks: int = 0  # since it was found


@dataclass(frozen=True)
class PerceptronFit:
    """What came of one start.

    loss       mean loss of the validation rows, or without such rows the penalised one of the training rows.
    trace      penalised mean loss of the training rows, step by step or epoch by epoch.
    losses     mean loss of the validation rows at the same times, where there are any.
    converged  whether it ended at a minimum or because validation rows said so.
    """

    theta: Array
    loss: float
    trace: Array
    losses: Array
    converged: bool
    restart: int


def look(best: BestParameters, theta: Array, loss: float) -> None:
    """Keep parameters (q,) of a lower loss on the validation rows; NaN: there are no such rows, so that the last ones are kept."""
    if np.isnan(loss) and not len(best.losses):
        best.theta = theta.copy()
        return
    best.losses = np.append(best.losses, loss)
    best.looks += 1
    if loss < best.loss:
        best.theta, best.loss, best.looks = theta.copy(), loss, 0


def waited(best: BestParameters, patience: int) -> bool:
    """Whether so many looks found nothing better; patience 0: never."""
    return patience > 0 and best.looks >= patience
