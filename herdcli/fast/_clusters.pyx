# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The two nearest of many centres, and products of columns, compiled: the twin of `numpy_clusters.py`.  The loops are in _clusters.h."""

from libc.stdint cimport int64_t, uint8_t

include "simd.pxi"


cdef extern from "_clusters.h" nogil:
    void clusters_nearest_two(const double *scores, const double *offsets, ptrdiff_t centres, ptrdiff_t rows, double *best, double *first,
                              double *second)
    void clusters_nearest_two_single(const float *scores, const float *offsets, ptrdiff_t centres, ptrdiff_t rows, float *best, float *first,
                                     float *second)
    double clusters_add_rows(const double *rows, const int64_t *nearest, const double *weights, ptrdiff_t n, ptrdiff_t D, double *count,
                             double *total)
    int CLUSTERS_ROWS
    double clusters_block_cost(const float *block, ptrdiff_t D, const float *candidate, float own, const float *norms, const float *limits,
                               const double *weights, float margin, uint8_t *closer)
    void clusters_pair_products(const double *columns, ptrdiff_t count, ptrdiff_t rows, double *found)

ctypedef fused real:
    float
    double


def nearest_two(const real[:, ::1] scores, const real[::1] offsets, real[::1] best, real[::1] first, real[::1] second):
    """For scores (K, m) plus offsets (K,), find the least and second least value of each column and the index of the least.

    See the twin.
    """
    if scores.shape[0] != offsets.shape[0] or not scores.shape[1] == best.shape[0] == first.shape[0] == second.shape[0]:
        raise ValueError("arrays of different shapes")
    if best.shape[0] and offsets.shape[0]:
        with nogil:
            if real is float:
                clusters_nearest_two_single(
                    &scores[0, 0], &offsets[0], offsets.shape[0], best.shape[0], &best[0], &first[0], &second[0]
                )
            else:
                clusters_nearest_two(&scores[0, 0], &offsets[0], offsets.shape[0], best.shape[0], &best[0], &first[0], &second[0])


def add_cluster_rows(const double[:, ::1] rows, const int64_t[::1] nearest, const double[::1] weights, double[::1] count, double[:, ::1] total):
    """Add the weight w of each row z of cluster k to count[k], and w z to total[k], row after row.  See the twin."""
    cdef ptrdiff_t n = rows.shape[0], i
    cdef double squares = 0.0
    if not n == nearest.shape[0] == weights.shape[0] or count.shape[0] != total.shape[0] or rows.shape[1] != total.shape[1]:
        raise ValueError("arrays of different shapes")
    for i in range(n):
        if not 0 <= nearest[i] < count.shape[0]:
            raise IndexError(f"cluster {nearest[i]} of {count.shape[0]}")
    if n and rows.shape[1]:
        with nogil:
            squares = clusters_add_rows(&rows[0, 0], &nearest[0], &weights[0], n, rows.shape[1], &count[0], &total[0, 0])
    return squares


def candidate_costs(
    const float[:, :, ::1] blocks, const float[:, ::1] candidates, const float[::1] own, const float[:, ::1] norms,
    const float[:, ::1] limits, const double[:, ::1] weights, float margin, uint8_t[:, :, ::1] closer, double[::1] costs,
):
    """Add to costs (T,) the sums of weights times min(|x − candidate|², limit) over rows x, from float32 distances.  See the twin."""
    cdef ptrdiff_t count = blocks.shape[0], D = blocks.shape[1], T = candidates.shape[0], b, t
    if blocks.shape[2] != CLUSTERS_ROWS or candidates.shape[1] != D or not T == own.shape[0] == closer.shape[0] == costs.shape[0]:
        raise ValueError("arrays of different shapes")
    for rows, width in (
        (norms.shape[0], norms.shape[1]), (limits.shape[0], limits.shape[1]), (weights.shape[0], weights.shape[1]),
        (closer.shape[1], closer.shape[2]),
    ):
        if rows != count or width != CLUSTERS_ROWS:
            raise ValueError("arrays of different shapes")
    if D:
        with nogil:
            for b in range(count):
                for t in range(T):
                    costs[t] += clusters_block_cost(
                        &blocks[b, 0, 0], D, &candidates[t, 0], own[t], &norms[b, 0], &limits[b, 0], &weights[b, 0], margin,
                        &closer[t, b, 0],
                    )


def pair_products(const double[:, ::1] columns, double[:, ::1] found):
    """Write the products of columns (D, m) for pairs i ≤ j into found (D (D + 1)/2, m), one row per pair.  See the twin."""
    cdef ptrdiff_t count = columns.shape[0], rows = columns.shape[1]
    if found.shape[0] != count * (count + 1) // 2 or found.shape[1] != rows:
        raise ValueError("arrays of different shapes")
    if count and rows:
        with nogil:
            clusters_pair_products(&columns[0, 0], count, rows, &found[0, 0])
