# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Sums of Gaussian kernels over tiles of rows, compiled: the twin of numpy_embedding.py, which documents it."""

ctypedef fused real:
    double
    float


cdef extern from "_embedding.h" nogil:
    void herd_exp2_each_double(double *x, Py_ssize_t count) noexcept
    void herd_exp2_each_float(float *x, Py_ssize_t count) noexcept
    void herd_tile_double(
        const double *a, Py_ssize_t lda, const double *wa, Py_ssize_t na, const double *b, Py_ssize_t ldb, const double *wb, Py_ssize_t nb,
        Py_ssize_t d, int differences, double *rows, double *columns,
    ) noexcept
    void herd_tile_float(
        const float *a, Py_ssize_t lda, const float *wa, Py_ssize_t na, const float *b, Py_ssize_t ldb, const float *wb, Py_ssize_t nb,
        Py_ssize_t d, int differences, double *rows, float *columns,
    ) noexcept
    void herd_finish_double(
        const double *u, const double *wa, Py_ssize_t na, const double *wb, Py_ssize_t nb, double *rows, double *columns,
    ) noexcept
    void herd_finish_float(
        const float *u, const float *wa, Py_ssize_t na, const float *wb, Py_ssize_t nb, double *rows, float *columns,
    ) noexcept
    void herd_values_double(const double *a, const double *b, Py_ssize_t ldb, Py_ssize_t nb, Py_ssize_t d, double *out) noexcept
    void herd_values_float(const float *a, const float *b, Py_ssize_t ldb, Py_ssize_t nb, Py_ssize_t d, float *out) noexcept


def exp2_each(real[::1] x):
    """x ← 2^x in place."""
    _lanes(x.shape[0])
    with nogil:
        if x.shape[0]:
            if real is double:
                herd_exp2_each_double(&x[0], x.shape[0])
            else:
                herd_exp2_each_float(&x[0], x.shape[0])


def gaussian_tile(
    const real[:, :] a, const real[::1] wa, const real[:, :] b, const real[::1] wb, bint differences, double[::1] rows, real[::1] columns,
):
    """Sums of 2^(a_i·b_j), or of 2^(−|a_i − b_j|²/2), over columns and over rows."""
    cdef Py_ssize_t d = a.shape[0], na = a.shape[1], nb = b.shape[1]
    cdef Py_ssize_t lda = a.strides[0] // <Py_ssize_t>sizeof(real), ldb = b.strides[0] // <Py_ssize_t>sizeof(real)
    cdef real *down = NULL
    _lanes(nb)
    _check(b.shape[0], d)
    _check(wa.shape[0], na)
    _check(rows.shape[0], na)
    _check(wb.shape[0], nb)
    _check(a.strides[1], sizeof(real))
    _check(b.strides[1], sizeof(real))
    if columns is not None and nb:
        _check(columns.shape[0], nb)
        down = &columns[0]
    with nogil:
        if na and nb and d:
            if real is double:
                herd_tile_double(&a[0, 0], lda, &wa[0], na, &b[0, 0], ldb, &wb[0], nb, d, differences, &rows[0], down)
            else:
                herd_tile_float(&a[0, 0], lda, &wa[0], na, &b[0, 0], ldb, &wb[0], nb, d, differences, &rows[0], down)


def gaussian_finish(const real[:, ::1] products, const real[::1] wa, const real[::1] wb, double[::1] rows, real[::1] columns):
    """`gaussian_tile` of products a·b that BLAS made; both sums."""
    cdef Py_ssize_t na = products.shape[0], nb = products.shape[1]
    _lanes(nb)
    _check(wa.shape[0], na)
    _check(rows.shape[0], na)
    _check(wb.shape[0], nb)
    _check(columns.shape[0], nb)
    with nogil:
        if na and nb:
            if real is double:
                herd_finish_double(&products[0, 0], &wa[0], na, &wb[0], nb, &rows[0], &columns[0])
            else:
                herd_finish_float(&products[0, 0], &wa[0], na, &wb[0], nb, &rows[0], &columns[0])


def gaussian_values(const real[::1] a, const real[:, :] b, real[::1] out):
    """2^(−|a − b_j|²/2) for every column j of b."""
    cdef Py_ssize_t d = b.shape[0], nb = b.shape[1], ldb = b.strides[0] // <Py_ssize_t>sizeof(real)
    _lanes(nb)
    _check(a.shape[0], d)
    _check(out.shape[0], nb)
    _check(b.strides[1], sizeof(real))
    with nogil:
        if nb and d:
            if real is double:
                herd_values_double(&a[0], &b[0, 0], ldb, nb, d, &out[0])
            else:
                herd_values_float(&a[0], &b[0, 0], ldb, nb, d, &out[0])


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length or stride {length} where {expected} is expected")
    return 0


cdef int _lanes(Py_ssize_t length) except -1:
    if length % 16:
        raise ValueError(f"a length of {length} is no multiple of 16")
    return 0
