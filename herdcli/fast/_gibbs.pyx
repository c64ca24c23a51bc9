# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Gibbs sampling of two-state units and the update of their weights, compiled: the twin of numpy_gibbs.py, which documents it."""

from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memcpy


cdef extern from "_gibbs.h" nogil:
    void herd_logistic_each(float *x, Py_ssize_t count) noexcept
    void herd_means_row(float *natural, const float *bias, Py_ssize_t units, float gain, float offset, float slope) noexcept
    void herd_sample_row(
        float *natural, const float *bias, Py_ssize_t units, float gain, float offset, float slope,
        const uint16_t *words, float low, float high, float *states,
    ) noexcept
    uint32_t herd_momentum(
        float *weights, float *velocity, const float *gradient, Py_ssize_t count, float rate, float momentum, float decay,
    ) noexcept


def logistic(x):
    """1 / (1 + e^{−x}) in place, x float32, C-contiguous, of any shape."""
    cdef float[::1] flat = x.reshape(-1)
    with nogil:
        if flat.shape[0]:
            herd_logistic_each(&flat[0], flat.shape[0])


def two_state_means(float[:, ::1] natural, const float[::1] bias, float gain, float offset, float slope):
    """offset + slope·logistic(gain·(natural + bias)) in place."""
    cdef Py_ssize_t i, units = natural.shape[1]
    _check(bias.shape[0], units)
    with nogil:
        if units:
            for i in range(natural.shape[0]):
                herd_means_row(&natural[i, 0], &bias[0], units, gain, offset, slope)


def two_state_sample(
    float[:, ::1] natural, const float[::1] bias, float gain, float offset, float slope,
    const uint16_t[:, ::1] words, float low, float high, float[:, ::1] states,
):
    """`two_state_means` in place of `natural`, and `states` sampled."""
    cdef Py_ssize_t i, units = natural.shape[1]
    _check(bias.shape[0], units)
    _check(states.shape[0], natural.shape[0])
    _check(states.shape[1], units)
    _check(words.shape[0], natural.shape[0])
    _check(words.shape[1], units + 1)
    with nogil:
        if units:
            for i in range(natural.shape[0]):
                herd_sample_row(&natural[i, 0], &bias[0], units, gain, offset, slope, &words[i, 0], low, high, &states[i, 0])


def momentum_step(weights, velocity, gradient, float rate, float momentum, float decay):
    """velocity ← momentum·velocity + rate·(gradient − decay·weights); weights ← weights + velocity; max |weights|."""
    cdef float[::1] w = weights.reshape(-1), v = velocity.reshape(-1)
    cdef const float[::1] g = gradient.reshape(-1)
    cdef uint32_t bits = 0
    cdef float largest
    _check(v.shape[0], w.shape[0])
    _check(g.shape[0], w.shape[0])
    with nogil:
        if w.shape[0]:
            bits = herd_momentum(&w[0], &v[0], &g[0], w.shape[0], rate, momentum, decay)
    memcpy(&largest, &bits, sizeof(largest))
    return largest


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length {length} where {expected} is expected")
    return 0
