"""Sums of radial kernels over tiles of rows, in NumPy.

The results have the same bits as those of `_embedding.pyx`: 2^u is computed by the same range reduction and polynomial (relative error
8.2e-16 in float64, 1.7e-7 in float32), and sums are formed in the same order, as several partial sums (lanes) that are then added up.
Points are columns, scaled so that the Gaussian kernel is 2^(−|a − b|²/2).
"""

from __future__ import annotations

import numpy as np

from herdcli.schema import Array

COLUMNS = 512  # columns of a tile that are computed together, so that the values stay in the cache

# The kernels of two points, by number.  With t = |a − b|² (Laplace: |a − b|₁, unequal: the number of columns that differ):
# 2^(a·b), 2^(−t/2), 2^−t, 2^−√t, (1 + s) 2^−√t, (1 + s + s²/3) 2^−√t with s = √t log 2, (1 + t)^−½, (1 + t)^−1, √t, t
# and Π (1 + k(a_j, b_j)) − 1 of the Bernoulli kernels.
KINDS = (
    *("product", "gaussian", "laplace", "matern12", "matern32", "matern52", "inverse-multiquadric", "rational-quadratic"),
    *("distance", "unequal", "bernoulli1", "bernoulli2", "bernoulli3"),
)

EVEN = {
    8: (7.070977711584016e-09, 1.3215451632925122e-06, 0.00015403530424779803, 0.00961812910761866, 0.24022650695910075),
    4: (0.00015453163359779865, 0.009618083015084267, 0.24022650718688965),
}
ODD = {
    8: (1.0205905398548696e-07, 1.5252672924951426e-05, 0.0013333558200794376, 0.05550410866465167, 0.6931471805599462),
    4: (0.0013390863314270973, 0.055503569543361664, 0.6931471824645996),
}
_MAGIC = {8: 6755399441055744.0, 4: 12582912.0}  # 1.5·2^52, 1.5·2^23: adding it rounds to a whole number in the low bits
WORD = {8: (np.int64, 52), 4: (np.int32, 23)}
LOWEST = {8: -1021.0, 4: -125.0}
BERNOULLI = {  # 1 + (−1)^(ν−1) B_2ν(u)/(2ν)!, highest power first
    "bernoulli1": (1 / 2, -1 / 2, 1 + 1 / 12),
    "bernoulli2": (-1 / 24, 2 / 24, -1 / 24, 0.0, 1 + 1 / 720),
    "bernoulli3": (1 / 720, -3 / 720, 5 / 1440, 0.0, -1 / 1440, 0.0, 1 + 1 / 30240),
}


def exp2_each(x: Array) -> None:
    """Compute x ← 2^x in place, x (n,) float64 or float32, n a multiple of 16.  Below 2^−1021 (2^−125) the result is 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        _exp2_in_place(x, clip=True)


def gaussian_tile(a: Array, wa: Array, b: Array, wb: Array, differences: bool, rows: Array, columns: Array | None) -> None:
    """Compute the sums of `kernel_tile` for the Gaussian kernel 2^(−|a_i − b_j|²/2).

    Without `sums_by_differences` it uses the cheaper 2^(a_i·b_j), which weights 2^(−|a|²/2) complete if no |a|² exceeds the exponent's
    range.
    """
    kernel_tile(1 if differences else 0, a, wa, b, wb, rows, columns)


def kernel_tile(kind: int, a: Array, wa: Array, b: Array, wb: Array, rows: Array, columns: Array | None) -> None:
    """Compute the sums of k_ij: rows_i = Σ_j k_ij wb_j and, unless `columns` is None, columns_j += Σ_i wa_i k_ij.

    kind  a number of KINDS; for float32 only the first two.
    a (d, na), b (d, nb)   points as columns, nb a multiple of 16, float64 or float32.
    wa (na), wb (nb)       weights.      rows (na) float64, overwritten.      columns (nb) of the points' type, added to.
    """
    lanes = np.zeros((len(rows), 64 // b.itemsize), b.dtype)
    for start in range(0, b.shape[1], COLUMNS):
        part = slice(start, start + COLUMNS)
        values = _kernel_matrix(KINDS[kind], a, b[:, part])
        lanes = _sum_by_lane(lanes, values, wb[part])
        if columns is not None:
            _add_weighted_rows(values, wa, columns[part])
    rows[:] = _sum_lanes(lanes)


def gaussian_finish(products: Array, wa: Array, wb: Array, rows: Array, columns: Array) -> None:
    """Compute both sums of `gaussian_tile` from given products a_i·b_j (na, nb), C-contiguous."""
    lanes = np.zeros((len(rows), 64 // products.itemsize), products.dtype)
    for start in range(0, products.shape[1], COLUMNS):
        part = slice(start, start + COLUMNS)
        values = products[:, part].copy()
        _exp2_in_place(values, clip=False)
        lanes = _sum_by_lane(lanes, values, wb[part])
        _add_weighted_rows(values, wa, columns[part])
    rows[:] = _sum_lanes(lanes)


def gaussian_values(a: Array, b: Array, out: Array) -> None:
    """Compute out_j = 2^(−|a − b_j|²/2).  a (d,), b (d, n) points as columns, out (n,), n a multiple of 16."""
    kernel_values(1, a, b, out)


def kernel_values(kind: int, a: Array, b: Array, out: Array) -> None:
    """Compute out_j = k(a, b_j).  kind  a number of KINDS above 0, a (d,), b (d, n) points as columns, out (n,), n a multiple of 16."""
    out[:] = _kernel_matrix(KINDS[kind], a[:, None], b)[0]


def stein_values(gaussian: bool, metric: bool, a: Array, own: Array, b: Array, out: Array) -> None:
    """Compute out_j = k_p(x, x_j), the Stein kernel of one row with n others; `quadrature/stein_kernels.py` has the formulas.

    a (5, d)   of the one row, all C-contiguous: u, R's, s, v, R'v, where u = R'x and v = R u.
    own (4,)   of the one row: |u|², s·v, then |v|² or, without `metric`, the factor of |u − u'|² that gives |v − v'|², then tr Λ.
    b (2d + 2 or 3, n)   of the others, as columns: their u, their s, |u|², s·v and with `metric` |v|²; n a multiple of 16.
    """
    d = a.shape[1]
    for start in range(0, b.shape[1], COLUMNS):
        part = b[:, start : start + COLUMNS]
        points, scores, theirs = part[:d], part[d : 2 * d], part[2 * d :]
        q = _positive_part(theirs[0] + own[0] - 2.0 * _sequential_dot((a[0],), (points,)))
        c = theirs[1] + own[1] - _sequential_dot((a[1], a[3]), (points, scores))
        s = _sequential_dot((a[2],), (scores,))
        v = _positive_part(theirs[2] + own[2] - 2.0 * _sequential_dot((a[4],), (points,))) if metric else q * own[2]
        if gaussian:
            u = q * -0.7213475204444817  # log2(e)/2
            _exp2_in_place(u, clip=True)
            found = u * (c + own[3] - v + s)
        else:  # (1 + q)^(−5/2) and the rest by one root h = (1 + q)^(−½): −3v h⁵ + (τ + c) h³ + (s·s') h
            h = 1.0 / np.sqrt(q + 1.0)
            square = h * h
            found = h * (s + square * (c + own[3] - 3.0 * v * square))
        out[start : start + COLUMNS] = found


def _sequential_dot(rows: tuple[Array, ...], columns: tuple[Array, ...]) -> Array:
    """Return Σ rows·columns, (n,), added one after the other."""
    total = np.zeros(columns[0].shape[1])
    for row, block in zip(rows, columns, strict=True):
        for x, y in zip(row, block, strict=True):
            total += y * x
    return total


def _positive_part(x: Array) -> Array:
    return np.where(x > 0.0, x, 0.0)


def _exp2_in_place(u: Array, *, clip: bool) -> None:
    """Compute u ← 2^u = 2^n 2^f in place, n = round(u), |f| ≤ ½, 2^f = 1 + s E(s) + f O(s), s = f²."""
    size, kind = u.itemsize, u.dtype.type
    word, mantissa = WORD[size]
    shifted = u + kind(_MAGIC[size])
    f = u - (shifted - kind(_MAGIC[size]))
    s = f * f
    even, odd = _horner(s, EVEN[size]), _horner(s, ODD[size])
    even *= s
    even += kind(1)
    odd *= f
    even += odd
    # 2^f is multiplied by 2^n by adding n to the bits of its exponent.  The low bits of `shifted` hold n; the shift drops all higher bits.
    bits = shifted.view(word)
    bits <<= mantissa
    bits += even.view(word)
    if clip:
        bits *= u > LOWEST[size]
    u[...] = bits.view(u.dtype)


def _horner(u: Array, coefficients: tuple[float, ...]) -> Array:
    kind = u.dtype.type
    found = u * kind(coefficients[0])
    found += kind(coefficients[1])
    for coefficient in coefficients[2:]:
        found *= u
        found += kind(coefficient)
    return np.asarray(found)


def _kernel_matrix(kind: str, a: Array, b: Array) -> Array:
    """Return the kernel values (na, nb) of points as columns."""
    u = _column_term(kind, b[0], a[0, :, None])
    for x, y in zip(a[1:], b[1:], strict=True):
        if kind in BERNOULLI:
            u *= _column_term(kind, y, x[:, None])
        else:
            u += _column_term(kind, y, x[:, None])
    return _kernel_from_terms(kind, u)


def _column_term(kind: str, y: Array, x: Array) -> Array:
    """Return the term (na, nb) of one column."""
    if kind == "product":
        return np.asarray(y * x)
    gap = y - x
    if kind in BERNOULLI:
        return _horner(np.abs(gap, out=gap), BERNOULLI[kind])
    if kind == "laplace":
        return np.asarray(np.abs(gap, out=gap))
    if kind == "unequal":
        return np.asarray((gap != 0).astype(gap.dtype))
    gap *= gap
    return np.asarray(gap)


def _kernel_from_terms(kind: str, u: Array) -> Array:
    """Return the kernel (na, nb) from the sum or product of the terms."""
    factor = None
    if kind in BERNOULLI:
        u -= 1.0
        return u
    if kind == "gaussian":
        u *= u.dtype.type(-0.5)
    if kind.startswith("matern") or kind == "distance":
        np.sqrt(u, out=u)
    if kind in ("matern32", "matern52"):
        s = u * 0.6931471805599453
        factor = s + 1.0 if kind == "matern32" else s * (s * (1.0 / 3.0) + 1.0) + 1.0
    if kind == "laplace" or kind.startswith("matern"):
        np.negative(u, out=u)
    if kind in ("inverse-multiquadric", "rational-quadratic"):
        u += 1.0
        return np.asarray(1.0 / (np.sqrt(u, out=u) if kind == "inverse-multiquadric" else u))
    if kind not in ("distance", "unequal"):
        _exp2_in_place(u, clip=kind != "product")
    return u if factor is None else np.asarray(u * factor)


def _sum_by_lane(lanes: Array, values: Array, weights: Array) -> Array:
    """Return the sums (na, V) of values·weights over the columns of each lane, added one after the other."""
    weighted = (values * weights).reshape(len(values), -1, lanes.shape[1])
    for block in range(weighted.shape[1]):
        lanes = lanes + weighted[:, block]
    return lanes


def _add_weighted_rows(values: Array, weights: Array, columns: Array) -> None:
    """Compute columns += Σ_i weights_i values_i, one row after the other."""
    for weight, row in zip(weights, values, strict=True):
        columns += row * weight


def _sum_lanes(lanes: Array) -> Array:
    """Return the sums (na,) float64 of partial sums `lanes` (na, L) of na points, added one after the other."""
    total = np.zeros(len(lanes))
    for lane in lanes.T:
        total += lane
    return total
