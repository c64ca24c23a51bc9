# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The two nearest of many centres, and products of columns, compiled: the twin of `numpy_clusters.py`.  The loops are in _clusters.h."""

cdef extern from "_clusters.h" nogil:
    void clusters_nearest_two(const double *scores, const double *offsets, ptrdiff_t centres, ptrdiff_t rows, double *best, double *first,
                              double *second)
    void clusters_pair_products(const double *columns, ptrdiff_t count, ptrdiff_t rows, double *found)


def nearest_two(const double[:, ::1] scores, const double[::1] offsets, double[::1] best, double[::1] first, double[::1] second):
    """See the twin."""
    if scores.shape[0] != offsets.shape[0] or not scores.shape[1] == best.shape[0] == first.shape[0] == second.shape[0]:
        raise ValueError("arrays of different shapes")
    if best.shape[0] and offsets.shape[0]:
        with nogil:
            clusters_nearest_two(&scores[0, 0], &offsets[0], offsets.shape[0], best.shape[0], &best[0], &first[0], &second[0])


def pair_products(const double[:, ::1] columns, double[:, ::1] found):
    """See the twin."""
    cdef ptrdiff_t count = columns.shape[0], rows = columns.shape[1]
    if found.shape[0] != count * (count + 1) // 2 or found.shape[1] != rows:
        raise ValueError("arrays of different shapes")
    if count and rows:
        with nogil:
            clusters_pair_products(&columns[0, 0], count, rows, &found[0, 0])
