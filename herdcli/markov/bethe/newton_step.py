"""A damped Newton step on the marginals of all hidden variables together, as the starting point of the next UPS iteration.

At the end of a UPS step, the Bethe free energy has zero slope along the marginals of free variables.  Along those of clamped
variables the slope is log b_i − log ψ_i − Σ_k log M_ki.  The step minimises the model with the curvature plus a multiple of
the Fisher metric (Levenberg–Marquardt), by conjugate gradients; if they find negative curvature, the multiple is increased.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.bethe.bethe_hessian import compute_bethe_hessian
from herdcli.markov.model.pairwise import PairwiseNetwork
from herdcli.schema import Array

ACCURACY = 0.01  # relative accuracy of the linear system, in the preconditioner's norm
MOST = 2000  # largest number of iterations of conjugate gradients
LEAST_SHIFT = 1e-3  # least multiple of the metric after negative curvature was found
LARGEST_SHIFT = 1e12


def propose_newton_step(
    graph: PairwiseNetwork,
    beliefs: bethe.PairBeliefs,
    messages: Array,
    observed: Array,
    clamped: Array,
    shift: float,
    accuracy: float,
    max_log_change: float,
) -> tuple[Array, float] | None:
    """Return the marginals of all nodes after the step, and the multiple of the metric that it used; None if there is no step.

    beliefs   beliefs of a finished iteration, computed from `messages`.
    observed  (N,) uint8.
    clamped   nodes, increasing.
    max_log_change     largest change of any log b.
    """
    try:
        second = compute_bethe_hessian(graph, beliefs, observed)
    except np.linalg.LinAlgError:
        return None
    slope = _free_energy_gradient(graph, beliefs, messages, clamped, second.index, second.reference)
    scale = second.metric.diagonal()
    with np.errstate(invalid="ignore"):
        diagonal = second.factors.diagonal() + second.weight * scale
    if not (np.isfinite(slope).all() and np.isfinite(second.factors.data).all() and np.isfinite(scale).all()):
        return None
    while True:
        step = conjugate_gradients(second.matrix(shift), np.abs(diagonal) + shift * scale, -slope, min(ACCURACY, accuracy))
        if step is not None:
            break
        shift = max(4 * shift, LEAST_SHIFT)
        if shift > LARGEST_SHIFT:
            return None
    return _apply_step_to_marginals(graph, beliefs.node, second.index, second.reference, step, max_log_change), shift


def _free_energy_gradient(
    graph: PairwiseNetwork, beliefs: bethe.PairBeliefs, messages: Array, clamped: Array, index: Array, reference: Array
) -> Array:
    """Compute ∂F/∂b over the coordinates."""
    owner = np.repeat(np.arange(graph.nodes), graph.cardinality)
    with np.errstate(divide="ignore", invalid="ignore"):
        # dG_ij = Σ log(b_ij/ψ_ij) db_ij has slope log w_i in b_i, with w_i = b_i/M_ji if i is clamped (5.24).  So ∂F/∂b_i = Σ_j (log b_i −
        # log M_ji) + (1 − n) log b_i − log ψ_i, where n is the number of neighbours of i, and n log b_i cancels.  If i is free,
        # equation 5.5 makes this slope the same for all states of i, and Σ db_i = 0 removes constants.
        value = (
            np.log(beliefs.node) - np.log(graph.potential) - np.bincount(bethe.message_state_positions(graph), np.log(messages), len(owner))
        )
        value -= value[reference[owner]]
    among = np.isin(owner, clamped) & (index >= 0)
    slope = np.zeros(int(index.max(initial=-1)) + 1)
    slope[index[among]] = value[among]
    return slope


def _apply_step_to_marginals(
    graph: PairwiseNetwork, node: Array, index: Array, reference: Array, step: Array, max_log_change: float
) -> Array:
    owner = np.repeat(np.arange(graph.nodes), graph.cardinality)
    inside = index >= 0
    change = np.zeros(len(node))
    change[inside] = step[index[inside]]
    change[reference] = -np.bincount(owner, change, graph.nodes)
    # b e^{Δ/b} = b + Δ to first order, and is positive for any Δ; a plain sum would leave the simplex if the quadratic model reaches too
    # far.
    relative = np.divide(change, node, out=np.zeros_like(node), where=node > 0)
    moved = node * np.exp(np.clip(relative, -max_log_change, max_log_change))
    result: Array = moved / np.bincount(owner, moved, graph.nodes)[owner]
    return result


def conjugate_gradients(matrix: csr_matrix, diagonal: Array, right: Array, accuracy: float) -> Array | None:
    """Solve matrix x = right with a diagonal preconditioner; return None if the matrix is found not to be positive definite.

    Source: Hestenes & Stiefel (1952).
    """
    x, rest = np.zeros_like(right), right.copy()
    scaled = rest / diagonal
    direction, size = scaled.copy(), float(rest @ scaled)
    goal = accuracy * accuracy * size
    for _ in range(MOST):
        if not size > goal:
            break
        image = matrix @ direction
        bend = float(direction @ image)
        if not bend > 0:
            return None
        # Along a direction d the model ½ x'Ax − r'x has its minimum at x + (r'P⁻¹r / d'Ad) d, where r is the residual and P the
        # preconditioner.  The next direction is P⁻¹r, made A-conjugate to d by the ratio of r'P⁻¹r after and before.
        x += (size / bend) * direction
        rest -= (size / bend) * image
        scaled = rest / diagonal
        before, size = size, float(rest @ scaled)
        direction = scaled + (size / before) * direction
    return x
