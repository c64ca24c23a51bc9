"""Why loopy iterative scaling in the order of Teh (2003), sec. 6.6, does not end on the models of fig. 6.6 here, and in another does.

    python scripts claims/scaling FOLDER [--quick]           (makes claims-scaling.csv)

stability  The two-state models of fig. 6.6 with pairs as cliques, where the answer is known: log p_ij/(p_i p_j).  Belief propagation at
           that answer has the given marginals as a fixed point; with log odds for messages its Jacobian there has the entry
           p(x_i = 1 | x_j = 1) − p(x_i = 1 | x_j = 0) for what i tells j after having heard from a third.  Damping makes each
           eigenvalue e into 1 − a + a e, which stays above 1 with a real e above 1, whatever the damping.
orders     Both orders from the usual start: propagation that settles before each scaling, both damped, and clusters that are scaled
           before each damped propagation; the share of the models that ended within so many sweeps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from claims.claim_rows import told, write
from papers.fig_mrf import structure
from shared.figure_pipeline import Row
from shared.real_data import path

from herdcli import artifacts, fast
from herdcli.markov.learning.learners import LearningSettings
from herdcli.markov.learning.loopy_scaling import INNER_SWEEPS, LoopyScaling
from herdcli.markov.model.constraints import LearningProblem, StateRows, make_clusters
from herdcli.schema import Array

SEEDS = (9, 10, 4, 11, 1, 3, 5, 14)  # two models of each of the sizes 7 to 10, as in mrf-fig6.6.csv


def problem(seed: int) -> LearningProblem:
    """The pairs of one model of fig. 6.6 with their marginals."""
    x = np.asarray(artifacts.load(str(path("eights8x8.h5"))).value.X).astype(np.int64)
    scopes = [tuple(int(word[1:]) for word in line.split()) for line in structure(seed)["edges"].splitlines()]
    rows, cardinality = StateRows(x, np.full(len(x), 1 / len(x))), np.full(x.shape[1], 2)
    return LearningProblem(cardinality, make_clusters(rows, cardinality, scopes, 1.0), rows=rows)


def jacobian(given: LearningProblem) -> Array:
    """(2E, 2E) of what is told along each edge both ways, by what was heard."""
    ways = [(cluster.scope, cluster.target) for cluster in given.clusters if len(cluster.scope) == 2]
    ways += [(scope[::-1], p.T) for scope, p in ways]
    slope = [p[1, 1] / p[:, 1].sum() - p[1, 0] / p[:, 0].sum() for _, p in ways]
    found = np.zeros((len(ways), len(ways)))
    for a, ((i, j), _) in enumerate(ways):
        for b, ((k, heard), _) in enumerate(ways):
            if heard == i and k != j:
                found[a, b] = slope[a]
    return found


def stability(quick: bool) -> Iterator[Row]:
    """The largest real eigenvalue of each model."""
    largest = []
    for seed in SEEDS[: 2 if quick else None]:
        eigenvalues = np.linalg.eigvals(jacobian(problem(seed)))
        largest.append(float(eigenvalues.real[np.abs(eigenvalues.imag) < 1e-9].max()))
    yield told("stability", "models of fig. 6.6, pairs", "least of the largest real eigenvalues", min(largest))
    yield told("stability", "models of fig. 6.6, pairs", "largest real eigenvalue", largest)


def orders(quick: bool) -> Iterator[Row]:
    """Damping of .7, cliques of 2 and 4."""
    for size in (2, 4):
        for damping in (0.7,):
            first, second, sweeps = [], [], []
            for seed in SEEDS[: 2 if quick else None]:
                made = LoopyScaling(
                    problem(seed), LearningSettings("loopy-is", tolerance=1e-4, iterations=3000, max_clique=size, damping=damping)
                )
                first.append(settled(made, 1 - damping, 20 if quick else 30))
                state = made.init()
                while not made.done(state):
                    state = made.step(state)
                second.append(made.meets_criterion(state))
                sweeps.append(state.step)
            place = f"cliques of {size}, damping {damping:g}"
            yield told("orders", place, "ended: propagation settled first", np.mean(first))
            yield told("orders", place, "ended: clusters scaled first", np.mean(second))
            yield told("orders", place, "sweeps, clusters scaled first", sweeps)


def settled(made: LoopyScaling, keep: float, sweeps: int) -> bool:
    """Whether the thesis' order ends: each cluster is scaled once, damped, after damped propagations until nothing changes."""
    state, furthest = made.init(), 1.0
    for _ in range(sweeps):
        furthest, bad = fast.settle_and_scale(
            made.order, *made.propagation_sends, state.tables, state.values, made.layout.target, made.layout.links, (keep, keep),
            max(1e-6, min(1e-4, 0.01 * furthest)), INNER_SWEEPS, state.pending, state.counts, made.layout.scratch,
        )  # fmt: skip
        if bad >= 0 or not np.isfinite(furthest):
            return False
        if furthest <= made.settings.tolerance:
            return True
    return False


CLAIMS = {"stability": stability, "orders": orders}

if __name__ == "__main__":
    write("claims-scaling", CLAIMS)
