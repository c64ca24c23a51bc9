# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Features of a stream about their running means, compiled: the twin of `numpy_standardize.py`.  The loop is in _standardize.h."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t

from herdcli.fast import numpy_standardize as _twin


cdef extern from "_standardize.h" nogil:
    ctypedef struct standardize_centred:
        int32_t *list
        int32_t *mark
        int64_t count
    int64_t standardize_rows(double *scales, standardize_centred *centred, const int64_t *pointer, const int32_t *index, const double *x,
                             const uint8_t *frozen, int64_t row, int64_t rows, int64_t capacity, int64_t *out_pointer, int32_t *out_index,
                             double *out)


def standardize(double[:, ::1] scales, const int64_t[::1] pointer, const int32_t[::1] index, const double[::1] value, frozen=None):
    """Return the rows in the scale in which they are learned next.  See the twin."""
    cdef int64_t rows = pointer.shape[0] - 1, row = 0, capacity
    cdef standardize_centred centred
    cdef const uint8_t[::1] still
    cdef const uint8_t *still_at = NULL
    cdef int32_t[::1] room, marks
    cdef int64_t[::1] out_pointer
    cdef int32_t[::1] out_index
    cdef double[::1] out
    _twin.check(np.asarray(scales), np.asarray(pointer), np.asarray(index), np.asarray(value), frozen)
    pointers = np.zeros(rows + 1, dtype=np.int64)
    if rows == 0 or value.shape[0] == 0 and not (np.asarray(scales)[:, 4] > 0).any():
        return pointers, np.zeros(0, dtype=np.int32), np.zeros(0)
    first = np.flatnonzero(np.asarray(scales)[:, 4] > 0)
    room, marks = np.empty(scales.shape[0], dtype=np.int32), np.zeros(scales.shape[0], dtype=np.int32)
    np.asarray(room)[: len(first)] = first
    centred.list, centred.mark, centred.count = &room[0], &marks[0], len(first)
    if frozen is not None:
        still = frozen
        still_at = &still[0]
    capacity = value.shape[0] + (value.shape[0] >> 2) + len(first) + 1
    indices, values = np.empty(capacity, dtype=np.int32), np.empty(capacity)
    out_pointer = pointers
    while row < rows:
        out_index, out = indices, values
        with nogil:
            row = standardize_rows(&scales[0, 0], &centred, &pointer[0], &index[0] if index.shape[0] else NULL,
                                   &value[0] if value.shape[0] else NULL, still_at, row, rows, capacity, &out_pointer[0], &out_index[0], &out[0])
        if row < rows:
            used = out_pointer[row]
            capacity = 2 * capacity + (pointer[row + 1] - pointer[row]) + centred.count
            indices, values = _larger(indices, used, capacity), _larger(values, used, capacity)
    return pointers, indices[: pointers[rows]], values[: pointers[rows]]


def _larger(array, used, capacity):
    made = np.empty(capacity, dtype=array.dtype)
    made[:used] = array[:used]
    return made
