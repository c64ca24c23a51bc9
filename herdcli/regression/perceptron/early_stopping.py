"""Early stopping: keep the parameters with the least validation loss, and end a fit when it has not improved for some time."""

from __future__ import annotations

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array, array


@dataclass(kw_only=True)
class BestParameters:
    """The best parameters so far.  Without validation rows they are the last ones."""

    theta: Array = array("q", "parameters", kind="f")
    losses: Array = array("V", "mean loss of the validation rows at each look, the start's first", kind="f")
    loss: float = float("inf")
    looks: int = 0  # number of evaluations since the best parameters were found


@dataclass(frozen=True)
class PerceptronFit:
    """The result of one start.

    loss       mean loss of the validation rows, or without such rows the penalised loss of the training rows.
    trace      penalised mean loss of the training rows, step by step or epoch by epoch.
    losses     mean loss of the validation rows at the same times, if there are any.
    converged  whether it ended at a minimum or by early stopping.
    """

    theta: Array
    loss: float
    trace: Array
    losses: Array
    converged: bool
    restart: int


def record_evaluation(best: BestParameters, theta: Array, loss: float) -> None:
    """Record an evaluation, and keep parameters (q,) with a lower validation loss; NaN: without validation rows the last are kept."""
    if np.isnan(loss) and not len(best.losses):
        best.theta = theta.copy()
        return
    best.losses = np.append(best.losses, loss)
    best.looks += 1
    if loss < best.loss:
        best.theta, best.loss, best.looks = theta.copy(), loss, 0


def is_patience_exhausted(best: BestParameters, patience: int) -> bool:
    """Return whether the last `patience` evaluations found nothing better; patience 0: never."""
    return patience > 0 and best.looks >= patience
