# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Products, exponentials and logarithms of the same bits on every processor, compiled: the twin of numpy_exact.py, which documents them."""

ctypedef fused real:
    double
    float


cdef extern from "_exact.h" nogil:
    ctypedef struct herd_shape:
        Py_ssize_t rows, columns, depth, a_down, a_along, b_down, b_along, out_down, out_along
    void herd_exp_each(double *x, Py_ssize_t count) noexcept
    void herd_expm1_each(double *x, Py_ssize_t count) noexcept
    void herd_log_each(double *x, Py_ssize_t count) noexcept
    void herd_log1p_each(double *x, Py_ssize_t count) noexcept
    void herd_multiply_double(const herd_shape *shape, const double *a, const double *b, double *out) noexcept
    void herd_multiply_float(const herd_shape *shape, const float *a, const float *b, float *out) noexcept


include "simd.pxi"


def exact_exp(double[::1] x):
    """x ← e^x in place."""
    with nogil:
        if x.shape[0]:
            herd_exp_each(&x[0], x.shape[0])


def exact_expm1(double[::1] x):
    """x ← e^x − 1 in place."""
    with nogil:
        if x.shape[0]:
            herd_expm1_each(&x[0], x.shape[0])


def exact_log(double[::1] x):
    """x ← log x in place."""
    with nogil:
        if x.shape[0]:
            herd_log_each(&x[0], x.shape[0])


def exact_log1p(double[::1] x):
    """x ← log(1 + x) in place."""
    with nogil:
        if x.shape[0]:
            herd_log1p_each(&x[0], x.shape[0])


def exact_product(const real[:, :] a, const real[:, :] b, real[:, :] out):
    """out ← a b."""
    cdef Py_ssize_t size = sizeof(real)
    cdef herd_shape shape
    shape.rows, shape.columns, shape.depth = a.shape[0], b.shape[1], a.shape[1]
    _check(b.shape[0], shape.depth)
    _check(out.shape[0], shape.rows)
    _check(out.shape[1], shape.columns)
    for stride in (a.strides[0], a.strides[1], b.strides[0], b.strides[1], out.strides[0], out.strides[1]):
        _check(stride % size, 0)
    shape.a_down, shape.a_along = a.strides[0] // size, a.strides[1] // size
    shape.b_down, shape.b_along = b.strides[0] // size, b.strides[1] // size
    shape.out_down, shape.out_along = out.strides[0] // size, out.strides[1] // size
    if not (shape.rows and shape.columns):
        return
    if not shape.depth:
        out[:, :] = 0
        return
    with nogil:
        if real is double:
            herd_multiply_double(&shape, &a[0, 0], &b[0, 0], &out[0, 0])
        else:
            herd_multiply_float(&shape, &a[0, 0], &b[0, 0], &out[0, 0])


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length or stride {length} where {expected} is expected")
    return 0
