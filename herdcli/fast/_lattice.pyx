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
    cdef Py_ssize_t rows = bias.shape[1] - 2
    return max(lattice_rows(messages, weight, bias, check, colour, 0, rows) for colour in (0, 1))


def lattice_rows(
    double[:, :, :, ::1] messages, const double[:, :, :, ::1] weight, const double[:, :, ::1] bias, bint check, Py_ssize_t colour,
    Py_ssize_t low, Py_ssize_t high,
):
    """The same for the cells of one colour in the rows from `low`, an even number, to below `high`."""
    cdef double largest = 0, change
    cdef Py_ssize_t rows = bias.shape[1] - 2, n = bias.shape[2] - 2, p = colour, o, y, shift, side
    for side in range(3):
        if messages.shape[side + 1] != bias.shape[side] or weight.shape[side + 1] != bias.shape[side]:
            raise ValueError("arrays of different shapes")
    if messages.shape[0] != 4 or weight.shape[0] != 4 or bias.shape[0] != 2 or rows < 1 or n < 1:
        raise ValueError("no lattice")
    if not (0 <= low <= high <= rows and p in (0, 1) and low % 2 == 0):
        raise ValueError("no rows of the lattice")
    with nogil:
        o = 1 - p
        for y in range(1 + low, high + 1):
            shift = (y - 1 + p) & 1
            if check:
                change = herd_lattice_check(
                    &bias[p, y, 1], &weight[0, p, y, 1], &weight[1, p, y, 1], &weight[2, p, y, 1], &weight[3, p, y, 1],
                    &messages[0, p, y, 1], &messages[1, p, y, 1], &messages[2, p, y, 1], &messages[3, p, y, 1],
                    &messages[1, o, y, shift], &messages[0, o, y, 1 + shift], &messages[3, o, y - 1, 1], &messages[2, o, y + 1, 1], n,
                )
                if change > largest:
                    largest = change
            else:
                herd_lattice_row(
                    &bias[p, y, 1], &weight[0, p, y, 1], &weight[1, p, y, 1], &weight[2, p, y, 1], &weight[3, p, y, 1],
                    &messages[0, p, y, 1], &messages[1, p, y, 1], &messages[2, p, y, 1], &messages[3, p, y, 1],
                    &messages[1, o, y, shift], &messages[0, o, y, 1 + shift], &messages[3, o, y - 1, 1], &messages[2, o, y + 1, 1], n,
                )
    return largest
