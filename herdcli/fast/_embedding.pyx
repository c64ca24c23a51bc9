# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Sums of radial kernels over tiles of rows, compiled: the twin of numpy_embedding.py, which documents it."""

ctypedef fused real:
    double
    float


cdef extern from "_embedding.h" nogil:
    ctypedef struct herd_loops:
        const char *name
        int fused
        void (*exp2_double)(double *x, Py_ssize_t count) noexcept nogil
        void (*exp2_float)(float *x, Py_ssize_t count) noexcept nogil
        void (*tile_double)(
            int kind, const double *a, Py_ssize_t lda, const double *wa, Py_ssize_t na, const double *b, Py_ssize_t ldb, const double *wb,
            Py_ssize_t nb, Py_ssize_t d, double *rows, double *columns,
        ) noexcept nogil
        void (*tile_float)(
            int kind, const float *a, Py_ssize_t lda, const float *wa, Py_ssize_t na, const float *b, Py_ssize_t ldb, const float *wb,
            Py_ssize_t nb, Py_ssize_t d, double *rows, float *columns,
        ) noexcept nogil
        void (*finish_double)(
            const double *u, const double *wa, Py_ssize_t na, const double *wb, Py_ssize_t nb, double *rows, double *columns,
        ) noexcept nogil
        void (*finish_float)(
            const float *u, const float *wa, Py_ssize_t na, const float *wb, Py_ssize_t nb, double *rows, float *columns,
        ) noexcept nogil
        void (*values_double)(int kind, const double *a, const double *b, Py_ssize_t ldb, Py_ssize_t nb, Py_ssize_t d, double *out) noexcept nogil
        void (*values_float)(int kind, const float *a, const float *b, Py_ssize_t ldb, Py_ssize_t nb, Py_ssize_t d, float *out) noexcept nogil
        void (*stein)(
            int gaussian, int metric, const double *a, const double *own, const double *b, Py_ssize_t ldb, Py_ssize_t nb, Py_ssize_t d,
            double *out,
        ) noexcept nogil
    const herd_loops *herd_set
    int herd_runs(int number)
    const char *herd_name(int number)
    void herd_take(int number)
    int HERD_SETS, HERD_KINDS, HERD_PRODUCT, HERD_GAUSSIAN


def instruction_sets():
    """Instruction sets that this machine runs, the one taken by itself first."""
    return [herd_name(i).decode() for i in range(HERD_SETS) if herd_runs(i)]


def instruction_set():
    """The instruction set in use."""
    return herd_set.name.decode()


def use_instruction_set(str name):
    """Take an instruction set.  Raises ValueError if the machine does not have it."""
    for i in range(HERD_SETS):
        if herd_name(i).decode() == name and herd_runs(i):
            herd_take(i)
            return
    raise ValueError(f"this machine runs {', '.join(instruction_sets())}, not {name}")


use_instruction_set(instruction_sets()[0])


def exp2_each(real[::1] x):
    """x ← 2^x in place."""
    _lanes(x.shape[0])
    with nogil:
        if x.shape[0]:
            if real is double:
                herd_set.exp2_double(&x[0], x.shape[0])
            else:
                herd_set.exp2_float(&x[0], x.shape[0])


def kernel_tile(
    int kind, const real[:, :] a, const real[::1] wa, const real[:, :] b, const real[::1] wb, double[::1] rows, real[::1] columns,
):
    """Sums of k(a_i, b_j) over columns and over rows."""
    cdef Py_ssize_t d = a.shape[0], na = a.shape[1], nb = b.shape[1]
    cdef Py_ssize_t lda = a.strides[0] // <Py_ssize_t>sizeof(real), ldb = b.strides[0] // <Py_ssize_t>sizeof(real)
    cdef real *down = NULL
    _lanes(nb)
    _kind(kind, real is float)
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
                herd_set.tile_double(kind, &a[0, 0], lda, &wa[0], na, &b[0, 0], ldb, &wb[0], nb, d, &rows[0], down)
            else:
                herd_set.tile_float(kind, &a[0, 0], lda, &wa[0], na, &b[0, 0], ldb, &wb[0], nb, d, &rows[0], down)


def gaussian_tile(
    const real[:, :] a, const real[::1] wa, const real[:, :] b, const real[::1] wb, bint differences, double[::1] rows, real[::1] columns,
):
    """Sums of 2^(a_i·b_j), or of 2^(−|a_i − b_j|²/2), over columns and over rows."""
    kernel_tile(HERD_GAUSSIAN if differences else HERD_PRODUCT, a, wa, b, wb, rows, columns)


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
                herd_set.finish_double(&products[0, 0], &wa[0], na, &wb[0], nb, &rows[0], &columns[0])
            else:
                herd_set.finish_float(&products[0, 0], &wa[0], na, &wb[0], nb, &rows[0], &columns[0])


def kernel_values(int kind, const real[::1] a, const real[:, :] b, real[::1] out):
    """k(a, b_j) for every column j of b."""
    cdef Py_ssize_t d = b.shape[0], nb = b.shape[1], ldb = b.strides[0] // <Py_ssize_t>sizeof(real)
    _lanes(nb)
    _kind(kind, real is float)
    _check(a.shape[0], d)
    _check(out.shape[0], nb)
    _check(b.strides[1], sizeof(real))
    if kind == HERD_PRODUCT:
        raise ValueError("products are no kernel values")
    with nogil:
        if nb and d:
            if real is double:
                herd_set.values_double(kind, &a[0], &b[0, 0], ldb, nb, d, &out[0])
            else:
                herd_set.values_float(kind, &a[0], &b[0, 0], ldb, nb, d, &out[0])


def gaussian_values(const real[::1] a, const real[:, :] b, real[::1] out):
    """2^(−|a − b_j|²/2) for every column j of b."""
    kernel_values(HERD_GAUSSIAN, a, b, out)


def stein_values(bint gaussian, bint metric, const double[:, ::1] a, const double[::1] own, const double[:, :] b, double[::1] out):
    """Stein's kernel of one row against the columns of b."""
    cdef Py_ssize_t d = a.shape[1], nb = b.shape[1], ldb = b.strides[0] // <Py_ssize_t>sizeof(double)
    _lanes(nb)
    _check(a.shape[0], 5)
    _check(own.shape[0], 4)
    _check(b.shape[0], 2 * d + (3 if metric else 2))
    _check(b.strides[1], sizeof(double))
    _check(out.shape[0], nb)
    with nogil:
        if nb and d:
            herd_set.stein(gaussian, metric, &a[0, 0], &own[0], &b[0, 0], ldb, nb, d, &out[0])


cdef int _kind(int kind, bint single) except -1:
    if not 0 <= kind < (HERD_GAUSSIAN + 1 if single else HERD_KINDS):
        raise ValueError(f"{kind} is no kernel of this precision")
    return 0


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length or stride {length} where {expected} is expected")
    return 0


cdef int _lanes(Py_ssize_t length) except -1:
    if length % 16:
        raise ValueError(f"a length of {length} is no multiple of 16")
    return 0
