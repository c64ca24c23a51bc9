# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Kalman filter and smoother, compiled: the twin of `numpy_kalman.py`, which documents it.  The loops are in _kalman.h."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

import numpy as np

include "simd.pxi"


cdef extern from "_kalman.h" nogil:
    ctypedef struct Filter:
        const double *tt
        const double *at
        const double *q
        const double *start
        const double *first
        const double *z
        const double *drift
        const int64_t *offsets
        const int64_t *pattern
        double *node
        double *covariance
        double *factor
        double *whiten
        double *gain
        double *pivots
        double *predicted
        double *filtered
        double *quadratic
        double *work
        int64_t *edge_node
        int64_t *edge_pattern
        int64_t *edge_next
        int64_t *edge
        int64_t *slots
        int64_t sequences, room, mask, nodes, edges
        int (*look)() except -1 nogil

    ctypedef struct Smoother:
        const double *a
        const double *at
        const double *q
        const double *node
        const double *covariance
        const double *factor
        const double *drift
        const double *filtered
        const int64_t *offsets
        const int64_t *edge_next
        const int64_t *edge
        double *back
        double *rest
        double *after
        double *lagged
        double *smoothed
        double *work
        int64_t *pair_edge
        int64_t *pair_after
        int64_t *pair_result
        int64_t *which
        int64_t *pair
        int64_t *slots
        int64_t sequences, room, mask, edges, found, pairs
        int (*look)() except -1 nogil

    int k_filter_of(Py_ssize_t n, Filter *f) except -1
    int k_smooth_of(Py_ssize_t n, Smoother *f) except -1


cdef int look_at_signals() except -1 nogil:
    """Raise what the handler of a signal raises."""
    with gil:
        PyErr_CheckSignals()
    return 0


cdef _same(Py_ssize_t K, tuple matrices):
    for matrix in matrices:
        if tuple(matrix.shape)[matrix.ndim - 2 :] != (K, K):
            raise ValueError("arrays of different shapes")


def kalman_filter(const double[:, :, ::1] TT, const double[:, ::1] AT, const double[:, ::1] Q, const double[::1] start,
                  const double[:, ::1] first, const int64_t[::1] offsets, const int64_t[::1] pattern, const double[:, ::1] z,
                  const double[:, ::1] drift, double[:, :, ::1] node, int64_t[::1] edge_node, int64_t[::1] edge_pattern,
                  int64_t[::1] edge_next, double[:, :, ::1] covariance, double[:, :, ::1] factor, double[:, :, ::1] whiten,
                  double[:, :, ::1] gain, double[:, ::1] pivots, int64_t[::1] edge, double[:, ::1] predicted,
                  double[:, ::1] filtered, double[::1] quadratic, int64_t[:, ::1] slots):
    """Filter sequences of N rows in all.  See the twin."""
    cdef Py_ssize_t K = Q.shape[0], rows = z.shape[0]
    _same(K, (TT, AT, Q, first, node, covariance, factor, whiten, gain))
    if start.shape[0] != K or z.shape[1] != K or drift.shape[1] != K or predicted.shape[1] != K or filtered.shape[1] != K or pivots.shape[1] != K:
        raise ValueError("arrays of different shapes")
    if not rows or drift.shape[0] != rows or pattern.shape[0] != rows or edge.shape[0] != rows or quadratic.shape[0] != rows:
        raise ValueError("arrays of different shapes")
    if predicted.shape[0] != rows or filtered.shape[0] != rows or offsets[offsets.shape[0] - 1] != rows:
        raise ValueError("arrays of different shapes")
    cdef double[::1] work = np.empty(5 * K * K + 4 * K)
    cdef Filter f
    f.tt, f.at, f.q, f.start, f.first = &TT[0, 0, 0], &AT[0, 0], &Q[0, 0], &start[0], &first[0, 0]
    f.z, f.drift, f.offsets, f.pattern = &z[0, 0], &drift[0, 0], &offsets[0], &pattern[0]
    f.node, f.covariance, f.factor, f.whiten = &node[0, 0, 0], &covariance[0, 0, 0], &factor[0, 0, 0], &whiten[0, 0, 0]
    f.gain, f.pivots, f.predicted, f.filtered = &gain[0, 0, 0], &pivots[0, 0], &predicted[0, 0], &filtered[0, 0]
    f.quadratic, f.work, f.edge_node, f.edge_pattern = &quadratic[0], &work[0], &edge_node[0], &edge_pattern[0]
    f.edge_next, f.edge, f.slots = &edge_next[0], &edge[0], &slots[0, 0]
    f.sequences, f.room, f.mask, f.nodes, f.edges = offsets.shape[0] - 1, edge_node.shape[0], slots.shape[1] - 1, 0, 0
    f.look = look_at_signals
    cdef int done
    with nogil:
        done = k_filter_of(K, &f)
    return (int(f.nodes), int(f.edges)) if done else (-1, -1)


def kalman_smoother(const double[:, ::1] A, const double[:, ::1] Q, const int64_t[::1] offsets, const double[:, :, ::1] node,
                    const int64_t[::1] edge_next, const double[:, :, ::1] covariance, const double[:, :, ::1] factor, Py_ssize_t edges,
                    const int64_t[::1] edge, const double[:, ::1] drift, const double[:, ::1] filtered, const double[:, ::1] AT,
                    double[:, :, ::1] back, double[:, :, ::1] rest, double[:, :, ::1] after, int64_t[::1] pair_edge,
                    int64_t[::1] pair_after, int64_t[::1] pair_result, double[:, :, ::1] lagged, int64_t[::1] which,
                    int64_t[::1] pair, double[:, ::1] smoothed, int64_t[:, ::1] slots):
    """Smooth the results of `kalman_filter`.  See the twin."""
    cdef Py_ssize_t K = Q.shape[0], rows = filtered.shape[0]
    _same(K, (A, AT, Q, node, covariance, factor, back, rest, after, lagged))
    if not rows or drift.shape[0] != rows or edge.shape[0] != rows or which.shape[0] != rows or pair.shape[0] != rows:
        raise ValueError("arrays of different shapes")
    if filtered.shape[1] != K or drift.shape[1] != K or smoothed.shape[1] != K or smoothed.shape[0] != rows:
        raise ValueError("arrays of different shapes")
    if offsets[offsets.shape[0] - 1] != rows or back.shape[0] < edges or rest.shape[0] < edges:
        raise ValueError("arrays of different shapes")
    cdef double[::1] work = np.empty(5 * K * K + 4 * K)
    cdef Smoother f
    f.a, f.at, f.q, f.node, f.covariance = &A[0, 0], &AT[0, 0], &Q[0, 0], &node[0, 0, 0], &covariance[0, 0, 0]
    f.factor, f.drift, f.filtered, f.offsets = &factor[0, 0, 0], &drift[0, 0], &filtered[0, 0], &offsets[0]
    f.edge_next, f.edge, f.back, f.rest = &edge_next[0], &edge[0], &back[0, 0, 0], &rest[0, 0, 0]
    f.after, f.lagged, f.smoothed, f.work = &after[0, 0, 0], &lagged[0, 0, 0], &smoothed[0, 0], &work[0]
    f.pair_edge, f.pair_after, f.pair_result = &pair_edge[0], &pair_after[0], &pair_result[0]
    f.which, f.pair, f.slots = &which[0], &pair[0], &slots[0, 0]
    f.sequences, f.room, f.mask, f.edges, f.found, f.pairs = offsets.shape[0] - 1, pair_edge.shape[0], slots.shape[1] - 1, edges, 0, 0
    f.look = look_at_signals
    cdef int done
    with nogil:
        done = k_smooth_of(K, &f)
    return (int(f.found), int(f.pairs)) if done else (-1, -1)
