"""Learning with a full covariance: symmetric rank-one updates through BLAS, float64, for both kernels."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from herdcli import fast
from herdcli.fast.numpy_online import Rule, Step
from herdcli.schema import Array

MIRRORED = 256  # rows of a covariance that are mirrored at a time


def step_aggressiveness(rule: Rule, running: Array, squares: float, weight: float) -> float:
    """Return the C of an example: given, or ¼ over the running mean of |x|².

    running  [examples, sum of |x|²], updated.
    """
    running[0] += 1.0
    running[1] += squares
    if rule[4] > 0.0:
        return rule[4] * weight
    # C has the unit of 1/(x'Σx), and γ = 2C + C²v is quadratic in it: Cv = ¼ at Σ = I for an example of mean size, so its variance
    # shrinks by (1 + ¼)² and not to almost 0.
    return float(0.25 * running[0] / running[1] * weight) if running[1] > 0.0 else 0.0


def learn_with_full_covariance(
    mean: Array,
    sigma: Array,
    X: Array,
    label: Array,
    weight: Array | None,
    rule: Rule,
    top: bool,
    running: Array,
    score: Array,
    variance: Array,
    target: Array | None = None,
) -> int:
    """Learn dense rows X (n, D) one after another and return the number of rows that changed something.

    mean (C, D), changed.  sigma (C, D, D) of each class against the rest (C = 1: two classes), or (1, C·D, C·D) for the
    difference to the best other class.  Only its lower triangle (upper in C order) is kept up to date until `complete_both_triangles`.
    label (n,) class indices.  score, variance (n, C) before the row is learned.  weight (n,): a row of 0 is evaluated and changes nothing.
    target (n,): numbers in place of labels (C = 1).
    """
    from scipy.linalg import blas

    classes, updates = len(mean), 0
    # a C-ordered symmetric matrix, transposed, is the Fortran-ordered one that BLAS updates in place
    columns = [part.T for part in sigma]
    for row, x in enumerate(X):
        y = int(label[row])
        score[row] = mean @ x
        if weight is not None and weight[row] == 0.0:
            variance[row] = _score_variances(blas, columns, x, classes)
            continue
        C = step_aggressiveness(rule, running, float(x @ x), 1.0 if weight is None else float(weight[row]))
        if top:
            updates += _learn_against_best_other(blas, mean, columns[0], x, y, rule, C, score[row], variance[row])
            continue
        changed = False
        for z in range(classes):
            g = blas.dsymv(1.0, columns[z], x, lower=1)
            sign = (1.0 if y == 1 or target is not None else -1.0) if classes == 1 else (1.0 if y == z else -1.0)
            variance[row, z] = v = float(x @ g)
            step = fast.solve_step(rule, 0.0 if target is not None else sign * float(score[row, z]), v, C)
            if target is not None:
                step = (step[0] * (float(target[row]) - float(score[row, z])), *step[1:])
            changed |= _rank_one_update(blas, mean[z], columns[z], g, sign, step)
        updates += changed
    return updates


def _score_variances(blas: ModuleType, columns: list[Array], x: Array, classes: int) -> list[float]:
    """Return x'Σx for each class, from its own covariance or its block of the joint one."""
    width = len(x)
    if len(columns) == classes:
        return [float(x @ blas.dsymv(1.0, column, x, lower=1)) for column in columns]
    blocks = [slice(z * width, (z + 1) * width) for z in range(classes)]
    return [float(x @ blas.dsymv(1.0, columns[0][block, block], x, lower=1)) for block in blocks]


def _rank_one_update(blas: ModuleType, mean: Array, column: Array, g: Array, sign: float, step: Step) -> bool:
    """Update μ += α y g, Σ −= shrink g g'."""
    alpha, _, shrink, _ = step
    if alpha != 0.0:
        mean += (alpha * sign) * g
    # g is Σx before the update, so the order of the two updates does not matter.  g g' is symmetric, so one triangle is sufficient.
    if shrink > 0.0:
        blas.dsyr(-shrink, g, lower=1, a=column, overwrite_a=1)
    return alpha != 0.0 or shrink > 0.0


def _learn_against_best_other(
    blas: ModuleType, mean: Array, column: Array, x: Array, y: int, rule: Rule, C: float, score: Array, variance: Array
) -> bool:
    """Learn one row by the difference vector e_y⊗x − e_rival⊗x, with the best other class as rival."""
    classes, width = mean.shape
    others = score.copy()
    others[y] = -np.inf
    rival = int(others.argmax())
    delta = np.zeros(classes * width)
    delta[y * width : (y + 1) * width] = x
    delta[rival * width : (rival + 1) * width] = -x
    # A mistake is a negative difference of scores: μ·δ with δ = e_y⊗x − e_rival⊗x is the margin m, and δ replaces y x.
    g = blas.dsymv(1.0, column, delta, lower=1)
    for z in range(classes):
        block = column[z * width : (z + 1) * width, z * width : (z + 1) * width]
        variance[z] = x @ blas.dsymv(1.0, block, x, lower=1)
    step = fast.solve_step(rule, float(score[y] - score[rival]), float(delta @ g), C)
    return _rank_one_update(blas, mean.reshape(-1), column, g, 1.0, step)


def complete_both_triangles(sigma: Array) -> Array:
    """Complete both triangles from the one that `learn_with_full_covariance` keeps: sigma (M, D, D), changed in place and returned."""
    for part in sigma:
        for start in range(0, len(part), MIRRORED):  # the part below the diagonal, some rows at a time
            rows = slice(start, start + MIRRORED)
            part[rows, :start] = part[:start, rows].T
            square = part[rows, rows]
            square[...] = np.triu(square) + np.triu(square, 1).T
    return sigma


def widen_covariances(sigma: Array, classes: int, old: int, new: int) -> Array:
    """Return covariances enlarged for more features; the new ones have variance 1 and no covariance.

    sigma  (M, D', D') with D' = old, or classes·old for the joint covariance of all weights.
    """
    together = sigma.shape[1] != old
    groups = classes if together else 1
    out = np.zeros((len(sigma), groups * new, groups * new))
    for part in out:
        np.fill_diagonal(part, 1.0)
    for a in range(groups):
        for b in range(groups):
            block = sigma[:, a * old : (a + 1) * old, b * old : (b + 1) * old]
            out[:, a * new : a * new + old, b * new : b * new + old] = block
    return out


def write_full_scores(mean: Array, sigma: Array, X: Array, score: Array, variance: Array) -> None:
    """Write scores μ_z·x and variances x'Σ_z x of dense rows, (n, C) each, into the given arrays."""
    classes, width = mean.shape
    np.matmul(X, mean.T, out=score)
    for z in range(classes):
        together = sigma.shape[1] != width
        part = slice(z * width, (z + 1) * width) if together else slice(0, width)
        block = sigma[0 if together else z, part, part]
        # Var(w·x) = x'Σx for weights w ~ N(μ, Σ).
        variance[:, z] = np.einsum("nd,nd->n", X @ block, X)
