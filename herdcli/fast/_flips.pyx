# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""States of whole clusters of variables exchanged for their images under a permutation, compiled: the twin of numpy_flips.py, which documents it."""

from libc.stdint cimport int64_t


cdef extern from * nogil:
    r"""
#include <stddef.h>
#include <stdint.h>

static int64_t herd_flips_root(int64_t *parent, int64_t k)
{
    while (parent[k] != k) {
        parent[k] = parent[parent[k]];
        k = parent[k];
    }
    return k;
}

/* One chain: x, bonds and coins are a column of arrays of `chains` columns. */
static void herd_flip_clusters(const int64_t *ends, const int64_t *tables, ptrdiff_t pairs, const double *logs, const int64_t *first,
                               ptrdiff_t count, const double *single, const int64_t *image, double power, int64_t *x, const double *bonds,
                               const double *coins, ptrdiff_t chains, int64_t *parent, double *gain)
{
    const double half = 0.5 * power;
    for (ptrdiff_t i = 0; i < count; i++) {
        const int64_t here = first[i] + x[chains * i];
        gain[i] = power * (single[first[i] + image[here]] - single[here]);
        parent[i] = i;
    }
    for (ptrdiff_t k = 0; k < pairs; k++) {
        const int64_t i = ends[2 * k], j = ends[2 * k + 1], width = tables[2 * k + 1];
        const int64_t a = x[chains * i], b = x[chains * j], a2 = image[first[i] + a], b2 = image[first[j] + b];
        const double *table = logs + tables[2 * k];
        const double stay = table[a * width + b], left = table[a2 * width + b], right = table[a * width + b2], both = table[a2 * width + b2];
        gain[i] += half * (left + both - stay - right);
        gain[j] += half * (right + both - stay - left);
        if (a != a2 && b != b2 && bonds[chains * k] < half * (stay + both - left - right)) {
            const int64_t one = herd_flips_root(parent, i), two = herd_flips_root(parent, j);
            parent[one > two ? one : two] = one > two ? two : one;
        }
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        const int64_t root = herd_flips_root(parent, i);
        if (root != i)
            gain[root] += gain[i];
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        const int64_t root = herd_flips_root(parent, i);
        if (coins[chains * root] < gain[root])
            x[chains * i] = image[first[i] + x[chains * i]];
    }
}
"""
    void herd_flip_clusters(
        const int64_t *ends, const int64_t *tables, Py_ssize_t pairs, const double *logs, const int64_t *first, Py_ssize_t count,
        const double *single, const int64_t *image, double power, int64_t *x, const double *bonds, const double *coins, Py_ssize_t chains,
        int64_t *parent, double *gain,
    ) noexcept


def flip_clusters(
    const int64_t[:, ::1] ends, const int64_t[:, ::1] tables, const double[::1] logs, const int64_t[::1] first, const double[::1] single,
    const int64_t[::1] image, double power, int64_t[:, ::1] x, const double[:, ::1] bonds, const double[:, ::1] coins, int64_t[::1] parent,
    double[::1] gain,
):
    """Flip clusters of x (N, chains) in place, each chain separately: a step that leaves exp(power · (Σ logs + Σ single)) invariant.

    See the twin.
    """
    cdef Py_ssize_t count = first.shape[0] - 1, pairs = ends.shape[0], chains = x.shape[1], c
    if not count == x.shape[0] == coins.shape[0] == parent.shape[0] == gain.shape[0] or not chains == bonds.shape[1] == coins.shape[1]:
        raise ValueError("arrays of different shapes")
    if not pairs == tables.shape[0] == bonds.shape[0] or ends.shape[1] != 2 or tables.shape[1] != 2 or single.shape[0] != image.shape[0]:
        raise ValueError("arrays of different shapes")
    if count < 1 or chains < 1:
        return
    with nogil:
        for c in range(chains):
            herd_flip_clusters(&ends[0, 0] if pairs else NULL, &tables[0, 0] if pairs else NULL, pairs, &logs[0] if logs.shape[0] else NULL,
                               &first[0], count, &single[0], &image[0], power, &x[0, c], &bonds[0, c] if pairs else NULL, &coins[0, c],
                               chains, &parent[0], &gain[0])
