"""Kernel learning: the full form in the span of its support vectors, with any kernel in place of x·z.

f(x) = Σ_i α_i k(x_i, x) and v(x) = k(x,x) − k'Bk with k = (k(x_1, x), …).  An update adds a support vector: with
g = (−Bk; 1), α += α_step y g and B += shrink g g' (B padded with a zero row and column).
"""

from __future__ import annotations

import numpy as np

from herdcli import fast
from herdcli.fast.numpy_online import Rule
from herdcli.online.learners.full_covariance import step_aggressiveness
from herdcli.online.model import KernelMachine, Settings
from herdcli.schema import Array


def kernel_matrix(settings: Settings, A: Array, B: Array) -> Array:
    """Return k(a_i, b_j) (m, n) of dense rows."""
    product = A @ B.T
    if settings.kernel == "polynomial":
        return np.asarray((1.0 + product) ** settings.degree)
    if settings.kernel == "gaussian":
        # |a − b|² = |a|² + |b|² − 2 a·b; rounding may make it negative, where the kernel would be above 1.
        distance = np.einsum("nd,nd->n", A, A)[:, None] + np.einsum("nd,nd->n", B, B)[None, :] - 2.0 * product
        return np.asarray(np.exp(np.maximum(distance, 0.0) / (-2.0 * settings.width**2)))
    return product


def machine_capacity(count: int) -> int:
    """Return the capacity of a machine with `count` support vectors.

    The capacity depends on nothing else, so sums over all places of a machine depend on `count` alone too.
    """
    room = 16
    while room <= count:
        room = room * 3 // 2
    return room


class GrowingMachine:
    """A machine whose arrays have capacity for more support vectors; B has its lower triangle, in Fortran order for BLAS."""

    def __init__(self, machine: KernelMachine, width: int) -> None:
        self.count = len(machine.alpha)
        room = machine_capacity(self.count)
        self.alpha, self.B, self.support = np.zeros(room), np.zeros((room, room), order="F"), np.zeros((room, width))
        self.alpha[: self.count] = machine.alpha
        self.B[: self.count, : self.count] = machine.B
        self.support[: self.count, : machine.support.shape[1]] = machine.support

    def without_spare_capacity(self) -> KernelMachine:
        """Return the machine without spare capacity."""
        m = self.count
        lower = np.tril(self.B[:m, :m])
        return KernelMachine(self.alpha[:m].copy(), lower + np.tril(lower, -1).T, self.support[:m].copy())

    def find_support_vector(self, x: Array, k: Array, self_kernel: float) -> int | None:
        """Return the index of x among the support vectors, or None; k and own are its kernel values with them and itself."""
        near = np.flatnonzero(np.abs(k - self_kernel) <= 1e-9 * abs(self_kernel))
        found = near[(self.support[near] == x).all(axis=1)]
        return int(found[0]) if len(found) else None

    def multiply_by_B(self, k: Array) -> Array:
        """Return Bk (m,)."""
        from scipy.linalg import blas

        padded = np.zeros(len(self.alpha))
        padded[: len(k)] = k
        return np.asarray(blas.dsymv(1.0, self.B, padded, lower=1)[: len(k)])

    def add_rank_one_update(self, g: Array, alpha: float, shrink: float) -> None:
        """Update α += alpha g, B += shrink g g'."""
        from scipy.linalg import blas

        self.alpha[: len(g)] += alpha * g
        if shrink > 0.0:
            padded = np.zeros(len(self.alpha))
            padded[: len(g)] = g
            blas.dsyr(shrink, padded, lower=1, a=self.B, overwrite_a=1)

    def add_support_vector(self, x: Array) -> int:
        """Add x as a support vector without effect yet."""
        if self.count == len(self.alpha):
            grown = GrowingMachine(self.without_spare_capacity(), self.support.shape[1])
            self.alpha, self.B, self.support = grown.alpha, grown.B, grown.support
        self.support[self.count] = x
        self.count += 1
        return self.count - 1


def learn_kernel(
    machines: list[GrowingMachine],
    X: Array,
    label: Array,
    weight: Array | None,
    rule: Rule,
    settings: Settings,
    running: Array,
    score: Array,
    variance: Array,
) -> tuple[int, int]:
    """Learn dense rows X (n, D), each class against the rest (one machine: two classes).  Returns (updates, refused).

    score, variance (n, C) before the row is learned.  An update that would need a support vector beyond the budget
    is refused.
    """
    updates = refused = 0
    for row, x in enumerate(X):
        y = int(label[row])
        learns = weight is None or weight[row] != 0.0  # a row of weight 0 is evaluated and changes nothing
        C = step_aggressiveness(rule, running, float(x @ x), 1.0 if weight is None else float(weight[row])) if learns else 0.0
        own = float(kernel_matrix(settings, x[None], x[None])[0, 0])
        changed = False
        for z, machine in enumerate(machines):
            sign = (1.0 if y == 1 else -1.0) if len(machines) == 1 else (1.0 if y == z else -1.0)
            m = machine.count
            k = kernel_matrix(settings, machine.support[:m], x[None])[:, 0]
            Bk = machine.multiply_by_B(k)
            score[row, z], variance[row, z] = machine.alpha[:m] @ k, own - k @ Bk
            if not learns:
                continue
            alpha, _, shrink, _ = fast.solve_step(rule, sign * float(score[row, z]), float(variance[row, z]), C)
            if alpha == 0.0 and shrink == 0.0:
                continue
            at = machine.find_support_vector(x, k, own)
            if at is None and settings.budget and m >= settings.budget:
                refused += 1
                continue
            at = machine.add_support_vector(x) if at is None else at
            # Weights in the span Φ'α, and Σ = I − Φ'BΦ: Σφ(x) = φ(x) − Φ'Bk has the coefficients g = e_at − Bk.  μ += α y Σφ(x) adds α y
            # g to α, and Σ −= shrink Σφφ'Σ adds shrink g g' to B; v = φ'Σφ = k(x, x) − k'Bk.
            g = np.zeros(machine.count)  # e_at − Bk
            g[:m] = -Bk
            g[at] += 1.0
            machine.add_rank_one_update(g, alpha * sign, shrink)
            changed = True
        updates += changed
    return updates, refused


def write_kernel_scores(machines: list[KernelMachine], settings: Settings, X: Array, score: Array, variance: Array) -> None:
    """Write scores and variances of dense rows, (n, C) each, into the given arrays."""
    own = np.array([kernel_matrix(settings, x[None], x[None])[0, 0] for x in X])
    for z, machine in enumerate(machines):
        support = np.zeros((len(machine.support), X.shape[1]))
        support[:, : machine.support.shape[1]] = machine.support
        # f = Σ α_i k(x_i, x) and v = k(x, x) − k'Bk, as in learning.
        k = kernel_matrix(settings, X, support)
        score[:, z] = k @ machine.alpha
        variance[:, z] = own - np.einsum("nm,nm->n", k @ machine.B, k)
