"""Local search around a candidate: the minimum of ⟨g − μ, Φ(x)⟩ in an interval or box around it."""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.quadrature.rules.candidate_space import CandidateSpace
from herdcli.records import dataclass
from herdcli.schema import Array

PROBES = 17  # probes per column and round
ROUNDS = 9  # each round shrinks the bracket by (PROBES − 1)/2: to 1e-8 of the spacing in total
ROUNDING = 2.0**-50  # rounding error of a value, relative to the largest k(x, x)
SWEEPS = 3  # passes over the columns, if there are several


@dataclass(frozen=True)
class SearchBox:
    """The box (low, high (d,)) of the search, and the spacing (d,) of candidates, which limits its distance."""

    low: Array
    high: Array
    spacing: Array


def polish_atom(
    search_box: SearchBox, space: CandidateSpace, atoms: Array, weights: Array, embedding_factor: float, start: Array
) -> Array | None:
    """Return the best point near `start` (d,) for f(x) = Σ_u w_u k(x_u, x) − pull·μ(x), None if no point is better than it."""

    def objective(points: Array) -> Array:
        found = -embedding_factor * space.mean(points)
        return found + exact_arithmetic.matrix_product(space.kernel.matrix(points, atoms), weights) if len(atoms) else found

    point, value = start.astype(float), float(objective(start[None])[0])
    first = value
    # Coordinate descent: each search keeps the best point so far, so the value never rises.
    for _ in range(SWEEPS if len(start) > 1 else 1):
        for j in range(len(start)):
            point, value = _search_column(search_box, objective, point, value, j)
    return point if value < first - ROUNDING * space.scale else None


def _search_column(search_box: SearchBox, objective: object, point: Array, value: float, j: int) -> tuple[Array, float]:
    """Find the best point along column j by shrinking a bracket around the best of evenly spaced probes."""
    reach = float(search_box.spacing[j])
    for _ in range(ROUNDS):
        probes = np.repeat(point[None], PROBES, axis=0)
        probes[:, j] = np.clip(np.linspace(point[j] - reach, point[j] + reach, PROBES), search_box.low[j], search_box.high[j])
        values = objective(probes)  # type: ignore[operator]
        best = int(np.argmin(values))
        if values[best] < value:
            point, value = probes[best], float(values[best])
        # The next bracket reaches from the best probe to its two neighbours.
        reach *= 2.0 / (PROBES - 1)
    return point, value
