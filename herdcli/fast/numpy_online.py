"""Online learning of linear classifiers in NumPy: the twin of `_online.pyx`, the same numbers bit for bit.

A table (rows, 2, C) holds the means [:, 0, :] and the variances [:, 1, :] of the weights; row 0 is the bias.  Examples
are CSR rows whose indices are rows of the table, each at most once in an example.  Sums over an example's entries run
in an order fixed by np.cumsum or np.bincount, and every other operation is one rounding in the order written here.

A rule is a tuple (algorithm, form, loss, always, C, φ) of codes and numbers.  C = 0 stands for ¼ divided by the running mean of |x|²,
which is stored in `running` = [examples, sum of |x|²].
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, exp, inf, sqrt

import numpy as np

from herdcli.fast.numpy_online_text import check_ends, count_hashed_words, murmur3, parse_text  # noqa: F401  a part of the same compiled file
from herdcli.schema import Array

NHERD, AROW, CW, SCW1, SCW2, PA, PA1, PA2, PERCEPTRON, SOP = range(10)
EXACT, PROJECT, DROP = range(3)
SQUARED_HINGE, LOG, SQUARED = range(3)

Rule = tuple[int, int, int, int, float, float]
Step = tuple[float, float, float, float]
NOTHING: Step = (0.0, 0.0, 0.0, 0.0)
PRIME = 16777619  # the prime of Fowler, Noll & Vo's hash: the column of a product is (PRIME · h_i) xor h_j

Rows = tuple[Array, Array, Array]  # pointer (n + 1,) int64, index (nnz,) int32 from 1, value (nnz,) float64
Side = tuple[Rows, Rows, bool]  # the two factors, row by row; True: they are the same, and each pair occurs once


def solve_step(rule: Rule, m: float, v: float, C: float) -> Step:
    """Return the step (α, γ, shrink, curvature) for an example of margin m = y μ·x and variance v = x'Σx.

    μ += α y Σx;  the precision grows by γ (`project`), a full covariance decreases by `shrink` g g' with g = Σx, and `exact`
    NHERD divides by (1 + curvature x² s)².
    """
    algorithm, _, loss, always, _, _ = rule
    if not v > 0.0:
        return NOTHING
    if algorithm in (CW, SCW1, SCW2):
        return _confidence_step(rule, m, v, C)
    if algorithm == PERCEPTRON:
        return (1.0 if m <= 0.0 else 0.0, 0.0, 0.0, 0.0)
    if algorithm in (PA, PA1, PA2):
        if m >= 1.0:
            return NOTHING
        # The nearest μ with margin 1 is α = (1 − m)/v away along Σx; slack at the price C ξ bounds the
        # multiplier α by C, at C ξ² makes it 2Cξ, so that m + αv + α/2C = 1 (Crammer et al. 2006).
        alpha = (1.0 - m) / (v + _inverse_or_infinity(2.0 * C)) if algorithm == PA2 else (1.0 - m) / v
        return (min(alpha, C) if algorithm == PA1 else alpha, 0.0, 0.0, 0.0)
    learns = m <= 0.0 if algorithm == SOP else loss != SQUARED_HINGE or m < 1.0
    if not (learns or always):
        return NOTHING
    # μ ← μ + α y Σx with α = max(0, 1 − m)/(v + 1/C) minimises ½ (μ − μ_i)'Σ⁻¹(μ − μ_i) + (C/2) max(0, 1 − y μ·x)²: setting its
    # derivative to 0 gives 1 − m − αv = α/C.  Crammer & Lee (2010), eq. 9, whose text lacks the Σ that Alg. 3 has.
    alpha = 0.0
    if learns:
        alpha = _logistic_loss_step(m, v, C) if loss == LOG else (1.0 - m) / (v + _inverse_or_infinity(C))
    k = 0.25 * C if loss == LOG else C
    # A = (Σ⁻¹ + k xx')⁻¹ Σ⁻¹ herds the weights (eq. 11).  Σ_new = AΣA' has the inverse Σ⁻¹ + (2k + k²v) xx' (eq. 12), and by Woodbury
    # is Σ − Σxx'Σ (k²v + 2k)/(1 + kv)² (eq. 13).  AROW adds k xx' to the inverse (sec. 4.3), so that Σ_new = Σ − Σxx'Σ k/(1 + kv).
    # k is C times the bound on the loss's second derivative (Prop. 2): 1, and ¼ for the logistic loss.
    grown = 1.0 + k * v
    if algorithm == NHERD:
        return (alpha, 2.0 * k + k * k * v, (k * k * v + 2.0 * k) / (grown * grown), k)
    return (alpha, k, k / grown, k)


def _inverse_or_infinity(C: float) -> float:
    """Return 1 / C; infinite if C is 0, as for kernels while all rows are 0."""
    return 1.0 / C if C != 0.0 else inf


def _logistic_loss_step(m: float, v: float, C: float) -> float:
    """Return the root of α = C / (1 + exp(m + αv)) in [0, C], by Newton steps, or by halving the bracket if they leave it."""
    low, high, alpha = 0.0, C, 0.5 * C
    for _ in range(60):
        # Setting the derivative of ½ (μ − μ_i)'Σ⁻¹(μ − μ_i) + C log(1 + e^{−m'}) to 0 with m' = m + αv gives α = C σ(−m'): one
        # root, as the left side rises and the right one falls.  f = α − C p has f' = 1 + C v p (1 − p); e^{−|z|} does not overflow.
        z = m + alpha * v
        if z > 0.0:
            e = exp(-z)
            p = e / (1.0 + e)
        else:
            p = 1.0 / (1.0 + exp(z))
        f = alpha - C * p
        low, high = (low, alpha) if f > 0.0 else (alpha, high)
        following = alpha - f / (1.0 + C * v * (p * (1.0 - p)))
        if not low <= following <= high:
            following = 0.5 * (low + high)
        if abs(following - alpha) <= 1e-15 * C:
            return following
        alpha = following
    return alpha


def _confidence_step(rule: Rule, m: float, v: float, C: float) -> Step:
    algorithm, phi = rule[0], rule[5]
    phi2 = phi * phi
    if algorithm == SCW2:
        # SCW-II squares the slack ξ = φ√u − m': its multiplier is α = 2Cξ, so
        # the constraint reads m + nα = φ√u with n = v + 1/2C instead of v.
        n = v + _inverse_or_infinity(2.0 * C)
        root = sqrt(phi2 * m * m * v * v + 4.0 * n * v * (n + v * phi2))
        alpha = (phi * root - (2.0 * m * n + phi2 * m * v)) / (2.0 * (n * n + n * v * phi2))
    else:
        # Minimising KL(N(μ', Σ')‖N(μ, Σ)) under m' ≥ φ√u, u = x'Σ'x (Crammer, Dredze & Pereira
        # 2008) moves μ by αΣx and adds αφ/√u xx' to Σ⁻¹, so m' = m + αv and 1/u = 1/v + αφ/√u.  At
        # m' = φ√u the second is (m + αv)² + αvφ² (m + αv) − vφ² = 0, whose larger root this is.
        psi, xi = 1.0 + phi2 / 2.0, 1.0 + phi2
        alpha = (sqrt(m * m * phi2 * phi2 / 4.0 + v * phi2 * xi) - m * psi) / (v * xi)
        alpha = min(alpha, C) if algorithm == SCW1 else alpha
    if not alpha > 0.0:
        return NOTHING
    avp = alpha * v * phi
    # √u is the positive root of u + αvφ √u − v = 0, in a form without a difference.  By Woodbury's identity
    # Σ' = Σ − Σxx'Σ g/(1 + gv) with g = αφ/√u, where 1 + gv = (√u + αvφ)/√u.
    root_u = 2.0 * v / (sqrt(avp * avp + 4.0 * v) + avp)
    return (alpha, alpha * phi / root_u, alpha * phi / (root_u + avp), 0.0)


def _aggressiveness(rule: Rule, running: Array | list[float], squares: float, weight: float) -> float:
    running[0] += 1.0
    running[1] += squares
    if rule[4] > 0.0:
        return rule[4] * weight
    return float(0.25 * running[0] / running[1] * weight) if running[1] > 0.0 else 0.0


def _shrunk_variances(rule: Rule, step: Step, s: Array, x: Array) -> Array:
    """Return the new variances: those of Σ_new (drop), the inverse of its inverse's diagonal (project), or those of a diagonal A (exact).

    Exact minimises Σ_r ½ (a_r − 1)² + (k/2) x_r² a_r² s_r, so a_r = 1/(1 + k x_r² s_r), and s_r becomes a_r² s_r.
    Source: Crammer & Lee (2010), eq. 10 and sec. 4.3.
    """
    _, gamma, shrink, curvature = step
    if rule[1] == DROP:
        g = s * x
        return np.asarray(np.maximum(s - (g * g) * shrink, 0.0))
    if rule[0] == NHERD and rule[1] == EXACT:
        grown = 1.0 + curvature * (s * (x * x))
        return np.asarray(s / (grown * grown))
    return np.asarray(s / (1.0 + gamma * (s * (x * x))))


def check_entries(width: int, index: Array, value: Array) -> None:
    """Raise ValueError unless every entry names one of `width` features, with one pass over the indices."""
    at = np.asarray(index)
    if len(at) != len(value) or (len(at) and int(at.view(np.uint32).max()) >= width):
        raise ValueError("an index of an example is outside its table")


def check_examples(
    table: Array,
    pointer: Array,
    index: Array,
    value: Array,
    label: Array | None,
    weight: Array | None,
    score: Array,
    variance: Array,
    target: Array | None = None,
) -> None:
    """Raise ValueError unless CSR rows, their labels and the arrays for their scores fit a table (D, 2, C) and each other."""
    check_entries(table.shape[0], index, value)
    at, rows, classes = np.asarray(pointer), len(score), table.shape[2]
    fits = table.shape[1] == 2 and len(at) == rows + 1 and len(variance) == rows
    fits &= all(each is None or len(each) == rows for each in (weight, target))
    if not (fits and at[0] >= 0 and at[-1] <= len(index) and (at[1:] >= at[:-1]).all()):
        raise ValueError("the arrays of the examples do not fit each other")
    if label is not None:
        classed = np.asarray(label)
        if len(classed) != rows or (rows and not 0 <= classed.min() <= classed.max() < max(classes, 2)):
            raise ValueError("a label of the examples is outside the classes")
    if np.ndim(score) == 2 and not np.shape(score)[1] == np.shape(variance)[1] == classes:
        raise ValueError("the room for scores does not fit the classes")


def check_rows(pointer: Array, index: Array, value: Array) -> None:
    """Raise ValueError unless the pointers of CSR rows fit their entries."""
    if not (len(pointer) and pointer[0] >= 0 and pointer[-1] <= len(index) == len(value) and (pointer[1:] >= pointer[:-1]).all()):
        raise ValueError("the arrays of the examples do not fit each other")


def with_bias(pointer: Array, index: Array, value: Array) -> tuple[Array, Array, Array]:
    """Return the CSR rows with a constant feature in front of each: table row 0, value 1."""
    check_rows(pointer, index, value)
    used, starts = slice(int(pointer[0]), int(pointer[-1])), pointer[:-1] - pointer[0]
    made = np.insert(index[used], starts, 0).astype(np.int32), np.insert(value[used], starts, 1.0)
    return (pointer - pointer[0] + np.arange(len(pointer))).astype(np.int64), *made


def normal_cdf(x: Array, out: Array) -> None:
    """Compute Φ(x) = ½ erfc(−x/√2) of x (n,) into `out` (n,).

    NumPy has no erfc, so it is computed by Python's, which is that of the C library, one number at a time.
    """
    if len(out) != len(x):
        raise ValueError("the arrays do not fit each other")
    out[:] = np.fromiter(map(erfc, (x / -sqrt(2.0)).tolist()), np.float64, len(x))
    out *= 0.5


def rescale(sizes: Array, index: Array, value: Array, out: Array, frozen: Array | None = None) -> None:
    """Divide the entries of examples, one after the other, by the mean size of their feature's values so far, into `out` (nnz,).

    sizes (D, 2), changed: the number of values ≠ 0 of each feature, and the sum of their |x|, this entry included.
    frozen (nnz,) uint8: entries that do not change `sizes`; an entry whose feature has no size yet becomes its sign.
    """
    check_entries(len(sizes), index, value)
    if sizes.shape[1] != 2 or len(out) != len(value) or (frozen is not None and len(frozen) != len(value)):
        raise ValueError("the arrays of an example do not fit each other")
    order = np.argsort(index, kind="stable")  # groups the entries of a feature, in the order of the examples
    at, x = index[order], value[order]
    starts = np.flatnonzero(np.append(True, at[1:] != at[:-1])) if len(at) else np.zeros(0, dtype=np.intp)
    made = np.empty(len(x))
    for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(at)], strict=False):
        feature, part = at[begin], np.abs(x[begin:end])
        if frozen is not None:
            part = np.where(frozen[order[begin:end]], 0.0, part)
        seen = np.cumsum(np.append(sizes[feature, 0], part > 0.0))[1:]
        size = np.cumsum(np.append(sizes[feature, 1], part))[1:]
        sizes[feature] = seen[-1], size[-1]
        made[begin:end] = np.divide(x[begin:end] * seen, size, out=np.sign(x[begin:end]), where=size > 0.0)
    out[order] = made


def learn_binary(
    table: Array,
    pointer: Array,
    index: Array,
    value: Array,
    label: Array,
    weight: Array | None,
    rule: Rule,
    running: Array,
    margin: Array,
    variance: Array,
    target: Array | None = None,
) -> int:
    """Learn CSR rows of two classes (C = 1) one after the other, and return the number of updates.

    table (D, 2, 1), changed.  label (n,) int32, 1 or 0.  margin, variance (n,): y μ·x and x'Σx before the row is learned.
    A row of weight 0 is scored but not learned.  target (n,): numbers in place of labels (y = 1), with squared loss.
    """
    check_examples(table, pointer, index, value, label, weight, margin, variance, target)
    pairs, so_far, updates = table.reshape(-1).view(np.complex128), running.tolist(), 0
    lengths, used = np.diff(pointer), slice(int(pointer[0]), int(pointer[-1]))
    value, places, bounds = value[used], index[used].astype(np.intp), (pointer - pointer[0]).tolist()
    factor = np.repeat(value, 2)
    factor[1::2] *= value
    at = np.arange(len(value)) - np.repeat(pointer[:-1] - pointer[0], lengths)
    a, b, c, d = np.bincount(np.repeat(np.arange(len(lengths)) * 4, lengths) + at % 4, factor[1::2], 4 * len(lengths)).reshape(-1, 4).T
    squares = ((a + b) + (c + d)).tolist()
    lane = np.arange(2 * lengths.max(initial=0)) % 8
    for row, (y, begin, end) in enumerate(zip(label.tolist(), bounds, bounds[1:], strict=False)):
        at, x, sign = places[begin:end], value[begin:end], 1.0 if y or target is not None else -1.0
        # m = y μ·x and v = x'Σx (Crammer & Lee 2010, Fig. 3) in one pass, each in four partial sums whose order is fixed.
        entry = pairs.take(at).view(np.float64)  # mean and variance alternate
        m, v, m1, v1, m2, v2, m3, v3 = np.bincount(lane[: len(entry)], entry * factor[2 * begin : 2 * end], 8).tolist()
        m, v = ((m + m1) + (m2 + m3)) * sign, (v + v1) + (v2 + v3)
        margin[row], variance[row] = m, v
        if weight is not None and weight[row] == 0.0:
            continue
        C = _aggressiveness(rule, so_far, squares[row], 1.0 if weight is None else float(weight[row]))
        if target is None:
            step = solve_step(rule, m, v, C)
        else:
            # ½ (t − w·x)² moves the mean by (t − m)/(v + 1/C) Σx: the step for a margin of 0, times t − m.
            alpha, *others = solve_step(rule, 0.0, v, C)
            step = (alpha * (float(target[row]) - m), *others)
        # μ ← μ + α y Σx (eq. 9) with Σ before its own update, then Σ by eq. 14.
        if step[0] != 0.0 or step[1] > 0.0:
            s = entry[1::2].copy()
            entry[::2] += (step[0] * sign) * (s * x)
            if step[1] > 0.0:
                entry[1::2] = _shrunk_variances(rule, step, s, x)
            pairs[at] = entry.view(np.complex128)
            updates += 1
    running[:] = so_far
    return updates


def learn_multiclass(
    table: Array,
    pointer: Array,
    index: Array,
    value: Array,
    label: Array,
    weight: Array | None,
    rule: Rule,
    top: bool,
    running: Array,
    score: Array,
    variance: Array,
) -> int:
    """Learn CSR rows of C classes: by the difference to the best other class (`top`), or each class against the rest.

    table (D, 2, C), changed.  label (n,) int32 in 0…C−1.  score, variance (n, C) before the row is learned.
    Returns the number of rows that changed something.
    """
    check_examples(table, pointer, index, value, label, weight, score, variance)
    bounds, updates = pointer.tolist(), 0
    for row, y in enumerate(label.tolist()):
        at, x = index[bounds[row] : bounds[row + 1]], value[bounds[row] : bounds[row + 1]]
        s, u, squares = _row_scores(table, at, x)
        score[row], variance[row] = s, u
        if weight is not None and weight[row] == 0.0:
            continue
        C = _aggressiveness(rule, running, squares, 1.0 if weight is None else float(weight[row]))
        changed = False
        for z, sign, step in _class_steps(rule, top, s, u, y, C):
            if step[0] != 0.0 or step[1] > 0.0:
                old = table[at, 1, z]
                table[at, 0, z] += (step[0] * sign) * (old * x)
                if step[1] > 0.0:
                    table[at, 1, z] = _shrunk_variances(rule, step, old, x)
                changed = True
        updates += changed
    return updates


def _class_steps(rule: Rule, top: bool, s: Array, u: Array, y: int, C: float) -> list[tuple[int, float, Step]]:
    """Return (class, sign, step) for each class that may be updated."""
    # One against the rest: y = +1 for the row's class and −1 for every other.
    if not top:
        signs = np.where(np.arange(len(s)) == y, 1.0, -1.0).tolist()
        return [(z, sign, solve_step(rule, sign * float(s[z]), float(u[z]), C)) for z, sign in enumerate(signs)]
    # e_y⊗x − e_z⊗x with the best other class z: m = (μ_y − μ_z)·x, and the variances of both blocks add up to v.
    others = s.copy()
    others[y] = -np.inf
    rival = int(others.argmax())
    step = solve_step(rule, float(s[y] - s[rival]), float(u[y] + u[rival]), C)
    return [(y, 1.0, step), (rival, -1.0, step)]


def _row_scores(table: Array, at: Array, x: Array) -> tuple[Array, Array, float]:
    """Return the scores (C,), variances (C,) and the sum of squares of one row."""
    classes = table.shape[2]
    if not len(at):
        return np.zeros(classes), np.zeros(classes), 0.0
    entry, xx = table[at], x * x
    s = np.cumsum(entry[:, 0] * x[:, None], axis=0)[-1]
    u = np.cumsum(entry[:, 1] * xx[:, None], axis=0)[-1]
    return s, u, float(xx.cumsum()[-1])


def linear_scores(table: Array, pointer: Array, index: Array, value: Array, score: Array, variance: Array) -> None:
    """Write the scores μ_z·x and variances x'Σ_z x of CSR rows into `score` and `variance`, (n, C) each."""
    check_examples(table, pointer, index, value, None, None, score, variance)
    for row in range(len(score)):
        part = slice(int(pointer[row]), int(pointer[row + 1]))
        score[row], variance[row], _ = _row_scores(table, index[part], value[part])


def check_sides(rows: Rows, sides: Sequence[Side], first: int, last: int) -> None:
    """Raise ValueError unless rows first to last − 1 and their entries exist, in the rows and on all sides."""
    for pointer, index, value in [rows, *(side for left, right, _ in sides for side in (left, right))]:
        at = np.asarray(pointer)
        fits = 0 <= first <= last < len(at) and at[0] >= 0 and at[-1] <= len(index) == len(value) and (at[1:] >= at[:-1]).all()
        if not fits or (len(index) and int(np.asarray(index).min()) < 1):
            raise ValueError("the arrays of the examples do not fit each other")


def with_products(rows: Rows, sides: Sequence[Side], mask: int, first: int, last: int) -> Rows:
    """Return rows first to last − 1 with the products of `sides`, columns in ascending order; entries of a column are added in order.

    mask  2^bits − 1: a product of h_i and h_j, indices minus 1, has index ((PRIME · h_i xor h_j) and mask) + 1.
    """
    check_sides(rows, sides, first, last)
    pointer, index, value = rows
    low, high = pointer[[first, last]].tolist()
    found = [(np.repeat(np.arange(last - first), np.diff(pointer[first : last + 1])), index[low:high], value[low:high])]
    found += [_pair_products(left, right, own, mask, first, last) for left, right, own in sides]
    row, index, value = (np.concatenate(part) for part in zip(*found, strict=True))
    key = row * np.int64(mask + 2) + index
    key, order = ordered(key, (last - first) * (mask + 2))
    new = np.diff(key, prepend=-1) != 0
    total = np.bincount(np.cumsum(new) - 1, weights=value[order])  # adds one entry after the other
    row, index = np.divmod(key[new], mask + 2)
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=last - first))]).astype(np.int64)
    return ends, index.astype(np.int32), total.astype(np.float64)


def ordered(key: Array, above: int) -> tuple[Array, Array]:
    """Return the keys (n,), which are below `above`, in ascending order, and their former positions; equal keys keep their order."""
    bits = len(key).bit_length()
    if above << bits >= 1 << 63:
        order = np.argsort(key, kind="stable")
        return key[order], order
    both = np.sort(key << bits | np.arange(len(key)))  # all are different, so a plain sort suffices, without carrying positions along
    return both >> bits, both & ((1 << bits) - 1)


def _pair_products(left: Rows, right: Rows, own: bool, mask: int, first: int, last: int) -> Rows:
    """Return the rows, columns and values of the products of two sides."""
    row, i, j = places(left, right, own, first, last)
    one, two = left[1][i].astype(np.int64) - 1, right[1][j].astype(np.int64) - 1
    return row, ((PRIME * one ^ two) & mask) + 1, left[2][i] * right[2][j]


def places(left: Rows, right: Rows, own: bool, first: int, last: int) -> tuple[Array, Array, Array]:
    """Return the row of each product, counted from `first`, and the positions of its two factors."""
    low, high = left[0][[first, last]].tolist()
    of = np.repeat(np.arange(first, last), np.diff(left[0][first : last + 1]))
    i = np.arange(low, high)
    begin = i if own else right[0][of]
    times = right[0][of + 1] - begin
    j = np.arange(times.sum()) + np.repeat(begin - (np.cumsum(times) - times), times)
    return np.repeat(of - first, times), np.repeat(i, times), j
