"""The record of how a network was learned: its targets, the end of the run, and the rows kept for evaluation."""

from __future__ import annotations

from itertools import pairwise

from herdcli.records import dataclass, former_class_getattr
from herdcli.schema import Array, array


@dataclass(frozen=True)
class FitRecord:
    """The record of a fit, which a learned `network` contains.

    scope, target   the clusters whose marginals were given, and those marginals, flat as in a network.
    residual_trace  one entry per iteration; `residual` is the last.  For most algorithms it is the largest difference between a
                    marginal of the model and the given one before the iteration's scaling.
    log_likelihood  mean over the training rows, in nats; NaN if log Z could not be computed.
    rows            number of training rows, 0 if the fit used none.
    """

    scope: Array = array("S", "variables of all clusters", kind="iu")
    scope_offset: Array = array("A", "where each cluster's variables begin, and the end", kind="iu")
    target: Array = array("T", "given marginals of all clusters, last variable fastest", kind="f")
    target_offset: Array = array("A", "where each cluster's marginal begins, and the end", kind="iu")
    residual_trace: Array = array("t", "residual of each iteration", kind="f")
    holdout: Array | None = array("n N", "states of rows that were not learned from", kind="iu", optional=True)
    holdout_split: Array | None = array("n", "1 valid, 2 test", kind="iu", optional=True)
    algorithm: str = ""
    converged: bool = True
    iterations: int = 0
    residual: float = 0.0
    scaling_updates: int = 0
    propagation_updates: int = 0
    log_likelihood: float = float("nan")
    rows: int = 0
    smoothing: float = 0.0

    def targets(self, cardinality: Array) -> list[tuple[tuple[int, ...], Array]]:
        """Return the scope and the given marginal of each cluster."""
        ends, cells, scope = self.scope_offset.tolist(), self.target_offset.tolist(), self.scope.tolist()
        found: list[tuple[tuple[int, ...], Array]] = []
        for (first, last), (low, high) in zip(pairwise(ends), pairwise(cells), strict=True):
            variables = tuple(scope[first:last])
            found.append((variables, self.target[low:high].reshape([int(cardinality[i]) for i in variables])))
        return found


__getattr__ = former_class_getattr(__name__, Fit="FitRecord")  # names in pickles of version 0.1
