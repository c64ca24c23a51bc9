# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Forward and backward passes along chains of states, compiled: the twin of `numpy_chain.py`, which documents it.

A signal whose handler raises ends a call within about 1e8 additions and multiplications, with outputs that are not complete.
"""

from cpython.exc cimport PyErr_CheckSignals

import numpy as np

include "simd.pxi"


cdef extern from "_chain.h" nogil:
    enum: HERD_STATES
    int herd_chain_forward(const double *b, Py_ssize_t first, Py_ssize_t last, Py_ssize_t states, Py_ssize_t width, const double *initial,
                      const double *transition, double *alpha, double *scale, double *room) noexcept
    double herd_chain_backward(double *b, Py_ssize_t first, Py_ssize_t last, Py_ssize_t steps, Py_ssize_t states, Py_ssize_t width,
                       const double *backwards, const double *alpha, const double *scale, double weight, double *pairs,
                       double *room) noexcept
    void herd_chain_viterbi(const double *logs, Py_ssize_t first, Py_ssize_t last, Py_ssize_t states, Py_ssize_t width,
                       const double *initial, const double *transition, int *back, double *room) noexcept
    double herd_chain_trace(Py_ssize_t steps, Py_ssize_t states, Py_ssize_t width, const int *back, long *out, const double *room) noexcept
    void herd_chain_path(const double *alpha, Py_ssize_t first, Py_ssize_t last, Py_ssize_t steps, Py_ssize_t states, Py_ssize_t width,
                    const double *backwards, const double *uniform, long *out, double *room) noexcept


cdef Py_ssize_t PRODUCTS = 1 << 24  # products of states between two looks at signals: some milliseconds


cdef struct Looks:
    Py_ssize_t stretch  # steps between two looks at signals
    Py_ssize_t left  # of them until the next look


cdef Looks start_looks(Py_ssize_t states, Py_ssize_t width) noexcept nogil:
    """Return the number of steps between two looks at signals."""
    cdef Looks looks
    looks.stretch = looks.left = max(PRODUCTS // (states * width), 1)
    return looks


cdef Py_ssize_t next_steps(Looks *looks, Py_ssize_t most) except -1 nogil:
    """Return the length of the next stretch, after a look at signals if one is due.  Raises what a signal's handler raises."""
    cdef Py_ssize_t steps
    if looks.left == 0:
        looks.left = looks.stretch
        with gil:
            PyErr_CheckSignals()
    steps = min(looks.left, most)
    looks.left -= steps
    return steps


def chain_forward(const double[:, ::1] b, const long[::1] offsets, int states, const double[::1] initial, const double[:, ::1] transition,
            double[:, ::1] alpha, double[::1] scale, unsigned char[::1] lost):
    """Compute the filtered states alpha_t(j) ∝ b_t(j) Σ_i alpha_{t−1}(i) p(j | i) and their normalising sums.  See the twin."""
    cdef Py_ssize_t s, at, steps, first, last, count = offsets.shape[0] - 1, width = b.shape[1]
    cdef double[::1] room = np.empty(width)
    cdef Looks looks
    _check_chains(offsets, b.shape[0], states, width)
    _check(alpha.shape[0], b.shape[0])
    _check(alpha.shape[1], width)
    _check(scale.shape[0], b.shape[0])
    _check(lost.shape[0], count)
    _check_matrix(transition, states, width)
    _check(initial.shape[0], width)
    with nogil:
        looks = start_looks(states, width)
        for s in range(count):
            at, steps, first, lost[s] = offsets[s], offsets[s + 1] - offsets[s], 0, 0
            while first < steps:
                last = first + next_steps(&looks, steps - first)
                lost[s] |= herd_chain_forward(
                    &b[at, 0], first, last, states, width, &initial[0], &transition[0, 0], &alpha[at, 0], &scale[at], &room[0]
                )
                first = last


def chain_backward(double[:, ::1] b, const long[::1] offsets, int states, const double[:, ::1] backwards, const double[:, ::1] alpha,
             const double[::1] scale, const double[::1] weight, double[:, ::1] pairs, double[::1] high):
    """Replace b by the smoothed states, and sum pairs of consecutive states over time, without the factor of the transition.

    See the twin.
    """
    cdef Py_ssize_t s, at, steps, first, last, count = offsets.shape[0] - 1, width = b.shape[1]
    cdef double[::1] room = np.empty(width * (states + 2))
    cdef double largest
    cdef Looks looks
    _check_chains(offsets, b.shape[0], states, width)
    _check(alpha.shape[0], b.shape[0])
    _check(alpha.shape[1], width)
    _check(scale.shape[0], b.shape[0])
    _check(weight.shape[0], count)
    _check(high.shape[0], count)
    _check_matrix(backwards, states, width)
    _check_matrix(pairs, states, width)
    with nogil:
        looks = start_looks(states, width)
        for s in range(count):
            at, steps, high[s] = offsets[s], offsets[s + 1] - offsets[s], 1.0
            last = steps
            while last > 0:
                first = last - next_steps(&looks, last)
                largest = herd_chain_backward(
                    &b[at, 0], first, last, steps, states, width, &backwards[0, 0], &alpha[at, 0], &scale[at], weight[s], &pairs[0, 0],
                    &room[0],
                )
                if largest > high[s]:
                    high[s] = largest
                last = first


def chain_viterbi(const double[:, ::1] logs, const long[::1] offsets, int states, const double[::1] initial, const double[:, ::1] transition,
            long[::1] out, double[::1] value):
    """Find the most probable path of every chain; among equal paths, the one with the lowest states, compared from the end.

    See the twin.
    """
    cdef Py_ssize_t s, at, steps, first, last, longest = 0, count = offsets.shape[0] - 1, width = logs.shape[1]
    cdef Looks looks
    _check_chains(offsets, logs.shape[0], states, width)
    for s in range(count):
        longest = max(longest, offsets[s + 1] - offsets[s])
    cdef double[::1] room = np.empty(2 * width)
    cdef int[::1] back = np.empty(max(longest, 1) * width, dtype=np.int32)
    _check(out.shape[0], logs.shape[0])
    _check(value.shape[0], count)
    _check_matrix(transition, states, width)
    _check(initial.shape[0], width)
    with nogil:
        looks = start_looks(states, width)
        for s in range(count):
            at, steps, first = offsets[s], offsets[s + 1] - offsets[s], 0
            while first < steps:
                last = first + next_steps(&looks, steps - first)
                herd_chain_viterbi(&logs[at, 0], first, last, states, width, &initial[0], &transition[0, 0], &back[0], &room[0])
                first = last
            value[s] = herd_chain_trace(steps, states, width, &back[0], &out[at], &room[0])


def chain_paths(const double[:, ::1] alpha, const long[::1] offsets, int states, const double[:, ::1] backwards, const double[::1] uniform,
          long[::1] out):
    """Sample a path of every chain from its posterior: the last state by alpha, each earlier one by alpha_t(i) p(next | i).

    See the twin.
    """
    cdef Py_ssize_t s, at, steps, first, last, count = offsets.shape[0] - 1, width = alpha.shape[1]
    cdef double[::1] room = np.empty(width)
    cdef Looks looks
    _check_chains(offsets, alpha.shape[0], states, width)
    _check(uniform.shape[0], alpha.shape[0])
    _check(out.shape[0], alpha.shape[0])
    _check_matrix(backwards, states, width)
    with nogil:
        looks = start_looks(states, width)
        for s in range(count):
            at, steps = offsets[s], offsets[s + 1] - offsets[s]
            last = steps
            while last > 0:
                first = last - next_steps(&looks, last)
                herd_chain_path(
                    &alpha[at, 0], first, last, steps, states, width, &backwards[0, 0], &uniform[at], &out[at], &room[0]
                )
                last = first


cdef int _check_chains(const long[::1] offsets, Py_ssize_t rows, Py_ssize_t states, Py_ssize_t width) except -1:
    cdef Py_ssize_t s
    if states < 1 or states > width or width % HERD_STATES:
        raise ValueError("states do not come in eights")
    if offsets.shape[0] < 1 or offsets[0] != 0 or offsets[offsets.shape[0] - 1] != rows:
        raise ValueError("the sequences are not those of the rows")
    for s in range(offsets.shape[0] - 1):
        if offsets[s + 1] <= offsets[s]:
            raise ValueError("a sequence is empty")
    return 0


cdef int _check_matrix(const double[:, ::1] matrix, Py_ssize_t states, Py_ssize_t width) except -1:
    _check(matrix.shape[0], states)
    _check(matrix.shape[1], width)
    return 0


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length {length} where {expected} is expected")
    return 0
