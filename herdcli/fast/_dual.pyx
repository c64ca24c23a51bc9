# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Dual coordinate ascent, compiled: the twin of `numpy_dual.py`.  The loop is in _dual.h."""

import numpy as np

from libc.stdint cimport int32_t, int64_t

from herdcli.fast import numpy_dual as _twin

include "simd.pxi"


cdef extern from "_dual.h" nogil:
    int64_t dual_rows(double *weights, ptrdiff_t classes, const int64_t *pointer, const int32_t *index, const double *value,
                      const int32_t *label, const double *weight, const int64_t *place, ptrdiff_t rows, double C, int rivals,
                      double *multipliers, double *running, double *score, double *squares, double *move, double *scores)


def learn_dual(double[:, ::1] weights, const int64_t[::1] pointer, const int32_t[::1] index, const double[::1] value,
               const int32_t[::1] label, weight, const int64_t[::1] place, double C, bint rivals, double[:, ::1] multipliers,
               double[::1] running, double[:, ::1] score, double[::1] squares):
    """Learn CSR rows one after the other, with a coordinate step for each of their multipliers; return the number of rows with a change.

    See the twin.
    """
    cdef const double[::1] importance
    cdef const double *importance_at = NULL
    cdef ptrdiff_t rows = label.shape[0]
    cdef int64_t updates
    cdef double[::1] move, scores
    _twin.check(np.asarray(weights), pointer, index, value, label, weight, place, multipliers, score, squares)
    if rows == 0 or value.shape[0] == 0:
        score[:, :] = 0.0
        squares[:] = 0.0
        return 0
    if weight is not None:
        importance = weight
        importance_at = &importance[0]
    move, scores = np.empty(weights.shape[1]), np.empty(weights.shape[1])
    with nogil:
        updates = dual_rows(&weights[0, 0], weights.shape[1], &pointer[0], &index[0], &value[0], &label[0], importance_at, &place[0], rows, C,
                            rivals, &multipliers[0, 0], &running[0], &score[0, 0], &squares[0], &move[0], &scores[0])
    return updates
