# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Herding on packed bits, compiled: the twin of `numpy_herding.py`.  The loops are in _herding.h."""

import numpy as np

from herdcli.fast import numpy_herding

from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

include "simd.pxi"


cdef extern from "_herding.h" nogil:
    int64_t c_hidden_scratch "hidden_scratch"(int words)
    void c_hidden_pass "hidden_pass"(const uint64_t *bits, int64_t rows, int words, const int32_t *weights, const int64_t *visible_bias,
                                     const int64_t *hidden_bias, int visible, int hidden, int spin, int64_t *energy, uint64_t *signs,
                                     int64_t stride, char *scratch)
    int64_t c_update_pass "update_pass"(int32_t *weights, int32_t *sample, const uint64_t *columns, const uint64_t *signs, int64_t stride, int64_t n,
                                        int words, int visible, int hidden, int spin, int32_t step, const int8_t *x, const int8_t *z,
                                        int64_t *hidden_sum, int64_t *column, int64_t *row)
    int64_t c_ascend_narrow "ascend_narrow"(const int32_t *weights, const int64_t *b, const int64_t *c, int visible, int hidden,
                                            int8_t *x, int8_t *z, int low, int flip, int64_t limit, int32_t *scratch)
    int64_t c_ascend_wide "ascend_wide"(const int64_t *weights, const int64_t *b, const int64_t *c, int visible, int hidden,
                                        int8_t *x, int8_t *z, int low, int flip, int64_t limit, int64_t *scratch)


def herding_scratch(int words, int visible, int hidden):
    """Working memory of one thread for the other functions."""
    size = max(c_hidden_scratch(words), 8 * (4 * hidden + visible))
    raw = np.empty(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def hidden_pass(rows, weights, b, c, bint spin, energy, signs, scratch):
    """Compute the energies of rows with their hidden units at the optimal values, and those values.

    See the twin, which also takes weights of 64 bits: there BLAS in float64 is the fast way.
    """
    if weights.dtype == np.int32:
        _hidden_pass(rows, weights, b, c, spin, energy, signs, scratch)
    else:
        numpy_herding.hidden_pass(rows, weights, b, c, spin, energy, signs, scratch)


cdef _hidden_pass(const uint64_t[:, ::1] rows, const int32_t[:, ::1] weights, const int64_t[::1] b, const int64_t[::1] c, bint spin,
                  int64_t[::1] energy, signs, unsigned char[::1] scratch):
    cdef uint64_t[:, ::1] out
    cdef uint64_t *sign_words = NULL
    cdef int64_t count = rows.shape[0], stride = 0
    cdef int words = <int>rows.shape[1], visible = <int>weights.shape[0], hidden = <int>weights.shape[1]
    _check(words, (visible + 63) // 64)
    _check(b.shape[0], visible)
    _check(c.shape[0], hidden)
    _check(energy.shape[0], count)
    _room(scratch, max(c_hidden_scratch(words), 8 * (4 * hidden + visible)), visible, hidden)
    if count == 0:
        return
    if signs is not None:
        out = signs
        _check(out.shape[0], (count + 63) // 64)
        _check(out.shape[1], (hidden + 31) // 32 * 32)
        sign_words = &out[0, 0]
        stride = out.shape[1]
    with nogil:
        c_hidden_pass(&rows[0, 0], count, words, &weights[0, 0], &b[0], &c[0], visible, hidden, spin, &energy[0], sign_words, stride,
                      <char *>&scratch[0])


def herding_update(int32_t[:, ::1] weights, int32_t[:, ::1] sample, const uint64_t[:, ::1] columns, const uint64_t[:, ::1] signs, int64_t n,
                   bint spin, int32_t step, const int8_t[::1] x, const int8_t[::1] z, int64_t[::1] hidden_sum, int64_t[::1] column_size,
                   int64_t[::1] row_size):
    """Update M ← M + step·(X'Z − n x z') and sample ← sample + x z' in place, and return ΣM² of the new weights.  See the twin."""
    cdef int64_t norm
    cdef int words = <int>columns.shape[1], visible = <int>weights.shape[0], hidden = <int>weights.shape[1]
    _check(sample.shape[0], visible)
    _check(sample.shape[1], hidden)
    _check(columns.shape[0], visible)
    _check(words, (n + 63) // 64)
    _check(signs.shape[0], words)
    _check(signs.shape[1], (hidden + 31) // 32 * 32)
    _check(x.shape[0], visible)
    _check(z.shape[0], hidden)
    _check(hidden_sum.shape[0], hidden)
    _check(column_size.shape[0], hidden)
    _check(row_size.shape[0], visible)
    if n < 1 or visible < 1 or hidden < 1:
        raise ValueError("there is nothing to update")
    with nogil:
        norm = c_update_pass(&weights[0, 0], &sample[0, 0], &columns[0, 0], &signs[0, 0], signs.shape[1], n, words, visible, hidden, spin, step,
                             &x[0], &z[0], &hidden_sum[0], &column_size[0], &row_size[0])
    return norm


def ascend(weights, const int64_t[::1] b, const int64_t[::1] c, int8_t[::1] x, int8_t[::1] z, bint spin, bint flip, int64_t limit,
           unsigned char[::1] scratch):
    """Maximise b·x + c·z + x'Mz by block coordinate ascent in place, from x to a fixed point: z = sign(c + M'x), x = sign(b + Mz).

    See the twin.
    """
    cdef const int32_t[:, ::1] narrow
    cdef const int64_t[:, ::1] wide
    cdef int64_t sweeps
    cdef int visible = <int>b.shape[0], hidden = <int>c.shape[0], low = -1 if spin else 0
    _check(weights.shape[0], visible)
    _check(weights.shape[1], hidden)
    _check(x.shape[0], visible)
    _check(z.shape[0], hidden)
    _room(scratch, 8 * (4 * hidden + visible), visible, hidden)
    if weights.dtype == np.int32:
        narrow = weights
        with nogil:
            sweeps = c_ascend_narrow(&narrow[0, 0], &b[0], &c[0], visible, hidden, &x[0], &z[0], low, flip, limit, <int32_t *>&scratch[0])
    else:
        wide = weights
        with nogil:
            sweeps = c_ascend_wide(&wide[0, 0], &b[0], &c[0], visible, hidden, &x[0], &z[0], low, flip, limit, <int64_t *>&scratch[0])
    return sweeps


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length {length} where {expected} is expected")
    return 0


cdef int _room(unsigned char[::1] scratch, int64_t size, int visible, int hidden) except -1:
    if visible < 1 or hidden < 1 or scratch.shape[0] < size:
        raise ValueError("too little scratch, or no units")
    return 0
