"""Dual coordinate ascent with stored multipliers of rows, in NumPy: the twin of `_dual.pyx`, the same numbers bit for bit.

For each row, PA-II takes the step α that minimises ½ |w − w_i|² + C ξ², ξ = max(0, 1 − m).  If α is stored, a later pass replaces the
row's earlier step by the optimal one given the steps of all other rows: α ← max(0, α + (1 − m − α/2C)/(|x|² + 1/2C)).  This is coordinate
ascent in the dual of min ½ |w|² + C Σ ξ².  The passes therefore converge to the weights of a support vector machine with squared hinge
loss.  Source: Hsieh, Chang, Lin, Keerthi & Sundararajan, "A dual coordinate descent method for large-scale linear SVM" (ICML 2008); its
first pass is PA-II of Crammer et al. (2006).

With `rivals`, each wrong class has a multiplier; its direction e_y⊗x − e_z⊗x has |·|² = 2|x|².
Source of these constraints: Weston & Watkins, "Support vector machines for multi-class pattern recognition" (ESANN 1999).
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array


def check(
    weights: Array,
    pointer: Array,
    index: Array,
    value: Array,
    label: Array,
    weight: Array | None,
    place: Array,
    multipliers: Array,
    score: Array,
    squares: Array,
) -> None:
    """Raise ValueError unless CSR rows, their labels, places and arrays for scores fit the weights (D, C) and each other."""
    ends, rows, classes = np.asarray(pointer), len(label), weights.shape[1]
    fits = len(ends) == rows + 1 and all(len(each) == rows for each in (place, score, squares, *([] if weight is None else [weight])))
    fits &= np.shape(score)[1] == np.shape(multipliers)[1] == classes
    if not (fits and ends[0] >= 0 and ends[-1] <= len(index) == len(value) and (ends[1:] >= ends[:-1]).all()):
        raise ValueError("the arrays of the examples do not fit each other")
    if rows and not 0 <= np.min(place) <= np.max(place) < len(multipliers):
        raise ValueError("an example has no multipliers")
    if rows and not 0 <= np.min(label) <= np.max(label) < max(classes, 2):
        raise ValueError("a label of the examples is outside the classes")
    if len(index) and not 0 <= np.min(index) <= np.max(index) < len(weights):
        raise ValueError("an index of an example is outside its table")


def learn_dual(
    weights: Array,
    pointer: Array,
    index: Array,
    value: Array,
    label: Array,
    weight: Array | None,
    place: Array,
    C: float,
    rivals: bool,
    multipliers: Array,
    running: Array,
    score: Array,
    squares: Array,
) -> int:
    """Learn CSR rows one after the other, with a coordinate step for each of their multipliers; return the number of rows with a change.

    weights (D, C) and multipliers (N, C)  changed in place; row i has multipliers[place[i]].   label  (n,) int32, 1 or 0 for one column.
    C  is multiplied by the weight of a row; a row of weight 0 is only scored.   rivals  constraints against each other class, instead of
    one-vs-rest.   score (n, C), squares (n,): w·x before the row is learned, and |x|².   running  [examples, Σ|x|²], updated.
    """
    check(weights, pointer, index, value, label, weight, place, multipliers, score, squares)
    classes, bounds, updates = weights.shape[1], pointer.tolist(), 0
    for row, y in enumerate(label.tolist()):
        at, x = index[bounds[row] : bounds[row + 1]], value[bounds[row] : bounds[row + 1]]
        score[row], xx = 0.0, 0.0
        if len(at):
            score[row] = np.cumsum(weights[at] * x[:, None], axis=0)[-1]
            xx = float((x * x).cumsum()[-1])
        squares[row] = xx
        if (weight is not None and weight[row] == 0.0) or not xx > 0.0:
            continue
        running[0] += 1.0
        running[1] += xx
        slack = 1.0 / (2.0 * C * (1.0 if weight is None else float(weight[row])))
        alpha, own = multipliers[place[row]], score[row].tolist()
        move, changed = [0.0] * classes, False
        for z in range(classes):
            if classes > 1 and rivals:
                if z == y:
                    continue
                following = _dual_coordinate_step(float(alpha[z]), own[y] - own[z], 2.0 * xx, slack)
                delta = following - float(alpha[z])
                move[y] += delta
                move[z] -= delta
                own[y] += delta * xx
                own[z] -= delta * xx
            else:
                sign = 1.0 if (y > 0 if classes == 1 else z == y) else -1.0
                following = _dual_coordinate_step(float(alpha[z]), sign * own[z], xx, slack)
                delta = following - float(alpha[z])
                move[z] = sign * delta
            changed |= delta != 0.0
            alpha[z] = following
        if changed:
            weights[at] += np.array(move) * x[:, None]
        updates += changed
    return updates


def _dual_coordinate_step(alpha: float, m: float, squares: float, slack: float) -> float:
    following = alpha + (1.0 - m - alpha * slack) / (squares + slack)
    return following if following > 0.0 else 0.0
