# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Products with CSR rows for several vectors at a time, compiled: the twin of `numpy_csr.py`.  The loops are in _csr.h."""

from libc.stdint cimport int32_t

include "simd.pxi"


cdef extern from "_csr.h" nogil:
    ctypedef struct csr_rows:
        const int32_t *starts
        const int32_t *columns
        const double *values
    void csr_product(const csr_rows *Z, ptrdiff_t rows, const double *v, ptrdiff_t K, double *out) noexcept
    void csr_add_transposed(const csr_rows *Z, ptrdiff_t rows, const double *values, ptrdiff_t K, double *out) noexcept
    void csr_curve(const double *curve, const double *weight, ptrdiff_t rows, ptrdiff_t K, double *u) noexcept


cdef _check(const int32_t[::1] starts, const int32_t[::1] columns, const double[::1] values, ptrdiff_t p, ptrdiff_t K):
    cdef ptrdiff_t rows = starts.shape[0] - 1, k
    cdef int32_t low = 0, high = -1, descents = 0
    if rows < 0 or columns.shape[0] != values.shape[0]:
        raise ValueError("arrays of different shapes")
    if K != 1 and (K == 0 or K % 4):
        raise ValueError(f"{K} vectors, expected 1 or a multiple of 4")
    with nogil:
        for k in range(rows):
            descents += starts[k + 1] < starts[k]
        for k in range(columns.shape[0]):
            low = min(low, columns[k])
            high = max(high, columns[k])
    if descents or starts[0] < 0 or starts[rows] > columns.shape[0]:
        raise IndexError("the rows are not parts of the entries")
    if low < 0 or high >= p:
        raise IndexError(f"column {low if low < 0 else high} of {p}")


cdef csr_rows _rows(const int32_t[::1] starts, const int32_t[::1] columns, const double[::1] values):
    cdef csr_rows Z
    Z.starts = &starts[0]
    Z.columns = &columns[0] if columns.shape[0] else NULL
    Z.values = &values[0] if values.shape[0] else NULL
    return Z


def csr_products(const int32_t[::1] starts, const int32_t[::1] columns, const double[::1] values, const double[:, ::1] v, double[:, ::1] out):
    """Write Z v (m, K) for v (p, K) to `out`.  See the twin."""
    cdef ptrdiff_t rows = starts.shape[0] - 1
    _check(starts, columns, values, v.shape[0], v.shape[1])
    if out.shape[0] != rows or out.shape[1] != v.shape[1]:
        raise ValueError("arrays of different shapes")
    cdef csr_rows Z = _rows(starts, columns, values)
    if rows and v.shape[0]:
        with nogil:
            csr_product(&Z, rows, &v[0, 0], v.shape[1], &out[0, 0])


def add_transposed_products(
    const int32_t[::1] starts, const int32_t[::1] columns, const double[::1] values, const double[:, ::1] u, double[:, ::1] out
):
    """Add Z' u (p, K) for u (m, K) to `out`, which must be 0 for the bits of the compiled loop.  See the twin."""
    cdef ptrdiff_t rows = starts.shape[0] - 1
    _check(starts, columns, values, out.shape[0], out.shape[1])
    if u.shape[0] != rows or u.shape[1] != out.shape[1]:
        raise ValueError("arrays of different shapes")
    cdef csr_rows Z = _rows(starts, columns, values)
    if rows and out.shape[0]:
        with nogil:
            csr_add_transposed(&Z, rows, &u[0, 0], u.shape[1], &out[0, 0])


def add_curvature_products(
    const int32_t[::1] starts, const int32_t[::1] columns, const double[::1] values, const double[:, ::1] curve, const double[::1] weight,
    const double[:, ::1] v, double[:, ::1] scratch, double[:, ::1] out,
):
    """Add Σ_n w_n z_n ⊗ C_n v'z_n (p, K) to `out`, which must be 0 for the bits of the compiled loop.  See the twin."""
    cdef ptrdiff_t rows = starts.shape[0] - 1, K = v.shape[1]
    _check(starts, columns, values, v.shape[0], K)
    if not rows == curve.shape[0] == weight.shape[0] == scratch.shape[0] or not K == curve.shape[1] == out.shape[1] == scratch.shape[1]:
        raise ValueError("arrays of different shapes")
    if out.shape[0] != v.shape[0]:
        raise ValueError("arrays of different shapes")
    cdef csr_rows Z = _rows(starts, columns, values)
    if rows and v.shape[0]:
        with nogil:
            csr_product(&Z, rows, &v[0, 0], K, &scratch[0, 0])
            csr_curve(&curve[0, 0], &weight[0], rows, K, &scratch[0, 0])
            csr_add_transposed(&Z, rows, &scratch[0, 0], K, &out[0, 0])
