# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Ratio messages on a binary lattice, compiled: the twin of numpy_lattice.py, which documents it."""

include "simd.pxi"


cdef extern from "_lattice.h" nogil:
    void herd_lattice_row(
        const double *b, const double *el, const double *er, const double *eu, const double *ed, const double *l, const double *r,
        const double *u, const double *d, double *to_left, double *to_right, double *to_up, double *to_down, Py_ssize_t n,
    ) noexcept
    double herd_lattice_check(
        const double *b, const double *el, const double *er, const double *eu, const double *ed, const double *l, const double *r,
        const double *u, const double *d, double *to_left, double *to_right, double *to_up, double *to_down, Py_ssize_t n,
    ) noexcept


def lattice_sweep(double[:, :, :, ::1] messages, const double[:, :, :, ::1] weight, const double[:, :, ::1] bias, bint check):
    """All messages out of the cells of colour 0, then of colour 1; with `check` the largest change, else 0."""
    return lattice_tile(messages, weight, bias, check, 1, 0, bias.shape[1] - 2, 0, 0)


def lattice_tile(
    double[:, :, :, ::1] messages, const double[:, :, :, ::1] weight, const double[:, :, ::1] bias, bint check, Py_ssize_t sweeps,
    Py_ssize_t low, Py_ssize_t high, Py_ssize_t lower, Py_ssize_t upper,
):
    """Several sweeps over some rows: colour s & 1 at stage s, in the rows from low + s lower to below high + s upper."""
    cdef double largest = 0, change
    cdef Py_ssize_t rows = bias.shape[1] - 2, n = bias.shape[2] - 2, stages = 2 * sweeps, front, side, r, s
    for side in range(3):
        if messages.shape[side + 1] != bias.shape[side] or weight.shape[side + 1] != bias.shape[side]:
            raise ValueError("arrays of different shapes")
    if messages.shape[0] != 4 or weight.shape[0] != 4 or bias.shape[0] != 2 or rows < 1 or n < 1:
        raise ValueError("no lattice")
    if sweeps < 1 or not (-1 <= lower <= 1 and -1 <= upper <= 1):
        raise ValueError("no tile")
    for r in (low, low + (stages - 1) * lower, high, high + (stages - 1) * upper):
        if not 0 <= r <= rows:
            raise ValueError("no rows of the lattice")
    with nogil:
        # A stage is one row behind the one before it, so that what both touch is still near.
        for front in range(low, high + 2 * stages):
            for s in range(stages):
                r = front - s
                if low + s * lower <= r < high + s * upper:
                    change = _row(messages, weight, bias, check and s >= stages - 2, s & 1, r + 1, n)
                    if change > largest:
                        largest = change
    return largest


cdef double _row(
    double[:, :, :, ::1] messages, const double[:, :, :, ::1] weight, const double[:, :, ::1] bias, bint check, Py_ssize_t p, Py_ssize_t y,
    Py_ssize_t n,
) noexcept nogil:
    """All messages out of the cells of one colour in a row; with `check` the largest change, else 0."""
    cdef Py_ssize_t o = 1 - p, shift = (y - 1 + p) & 1
    if check:
        return herd_lattice_check(
            &bias[p, y, 1], &weight[0, p, y, 1], &weight[1, p, y, 1], &weight[2, p, y, 1], &weight[3, p, y, 1],
            &messages[0, p, y, 1], &messages[1, p, y, 1], &messages[2, p, y, 1], &messages[3, p, y, 1],
            &messages[1, o, y, shift], &messages[0, o, y, 1 + shift], &messages[3, o, y - 1, 1], &messages[2, o, y + 1, 1], n,
        )
    herd_lattice_row(
        &bias[p, y, 1], &weight[0, p, y, 1], &weight[1, p, y, 1], &weight[2, p, y, 1], &weight[3, p, y, 1],
        &messages[0, p, y, 1], &messages[1, p, y, 1], &messages[2, p, y, 1], &messages[3, p, y, 1],
        &messages[1, o, y, shift], &messages[0, o, y, 1 + shift], &messages[3, o, y - 1, 1], &messages[2, o, y + 1, 1], n,
    )
    return 0
