# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Gibbs sampling of two-state units and the update of their weights, compiled: the twin of numpy_gibbs.py, which documents it."""

from libc.stdint cimport int32_t, uint16_t, uint32_t
from libc.string cimport memcpy

include "simd.pxi"


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
    uint32_t herd_centred_momentum(
        float *weights, float *velocity, float *gradient, Py_ssize_t rows, Py_ssize_t width, float *bias, const float *means,
        const float *hidden_mean, const float *above, float share, float rate, float momentum, float decay, float *follows,
    ) noexcept
    void herd_running_sums(const float *x, double *out, Py_ssize_t rows, Py_ssize_t width) noexcept
    Py_ssize_t herd_sparse_scratch(Py_ssize_t rows, Py_ssize_t inner) noexcept
    void herd_add_sparse_product(
        const float *sparse, Py_ssize_t down, Py_ssize_t along, const float *dense, float *out,
        Py_ssize_t rows, Py_ssize_t inner, Py_ssize_t width, int32_t *scratch,
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


def centred_momentum_step(
    float[:, ::1] weights, float[:, ::1] velocity, float[:, ::1] gradient, float[::1] b, const float[::1] visible_mean,
    const float[::1] hidden_mean, const float[::1] c, float share, float rate, float momentum, float decay, float[::1] follows,
):
    """`momentum_step` along the gradient of the centred model; `b` and `follows` are updated; max |weights|."""
    cdef Py_ssize_t rows = weights.shape[0], width = weights.shape[1]
    cdef uint32_t bits = 0
    cdef float largest
    for length, expected in (
        (velocity.shape[0], rows), (velocity.shape[1], width), (gradient.shape[0], rows), (gradient.shape[1], width), (b.shape[0], rows),
        (visible_mean.shape[0], rows), (hidden_mean.shape[0], width), (c.shape[0], width), (follows.shape[0], width),
    ):
        _check(length, expected)
    with nogil:
        if rows and width:
            bits = herd_centred_momentum(
                &weights[0, 0], &velocity[0, 0], &gradient[0, 0], rows, width, &b[0], &visible_mean[0], &hidden_mean[0], &c[0],
                share, rate, momentum, decay, &follows[0],
            )
    memcpy(&largest, &bits, sizeof(largest))
    return largest


def running_sums(const float[:, ::1] x, double[:, ::1] out):
    """out[i, j] ← Σ_{k ≤ j} x[i, k]."""
    _check(out.shape[0], x.shape[0])
    _check(out.shape[1], x.shape[1])
    with nogil:
        if x.shape[0] and x.shape[1]:
            herd_running_sums(&x[0, 0], &out[0, 0], x.shape[0], x.shape[1])


def sparse_scratch(Py_ssize_t rows, Py_ssize_t inner):
    """int32 words of scratch that add_sparse_product needs for a sparse (rows, inner)."""
    return herd_sparse_scratch(rows, inner)


def add_sparse_product(const float[:, :] sparse, const float[:, ::1] dense, float[:, ::1] out, int32_t[::1] scratch):
    """out += sparse @ dense, skipping the zeros of `sparse`."""
    cdef Py_ssize_t rows = sparse.shape[0], inner = sparse.shape[1], width = out.shape[1]
    cdef Py_ssize_t down = sparse.strides[0] // <Py_ssize_t>sizeof(float), along = sparse.strides[1] // <Py_ssize_t>sizeof(float)
    _check(dense.shape[0], inner)
    _check(dense.shape[1], width)
    _check(out.shape[0], rows)
    if scratch.shape[0] < herd_sparse_scratch(rows, inner):
        raise ValueError("too little scratch")
    with nogil:
        if rows and inner and width:
            herd_add_sparse_product(&sparse[0, 0], down, along, &dense[0, 0], &out[0, 0], rows, inner, width, &scratch[0])


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length {length} where {expected} is expected")
    return 0
