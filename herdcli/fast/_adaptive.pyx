# distutils: extra_compile_args = -fno-math-errno
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Rows of minibatches and updates of all parameters, compiled: the twin of `numpy_adaptive.py`.  The loops are in _adaptive.h."""

import numpy as np

from cython cimport floating
from libc.stdint cimport int64_t, uint8_t

from herdcli.fast import numpy_adaptive as _twin

include "simd.pxi"


cdef extern from "_adaptive.h" nogil:
    void herd_adam_float(float *, float *, float *, const float *, Py_ssize_t, float, float, float, float, float, float)
    void herd_adam_double(double *, double *, double *, const double *, Py_ssize_t, double, double, double, double, double, double)
    void herd_momentum_float(float *, float *, const float *, Py_ssize_t, float, float)
    void herd_momentum_double(double *, double *, const double *, Py_ssize_t, double, double)
    void herd_scaled_byte_float(const uint8_t *, Py_ssize_t, const float *, const float *, float *)
    void herd_scaled_byte_double(const uint8_t *, Py_ssize_t, const double *, const double *, double *)
    void herd_scaled_float_float(const float *, Py_ssize_t, const double *, const double *, float *)
    void herd_scaled_float_double(const float *, Py_ssize_t, const double *, const double *, double *)
    void herd_scaled_double_float(const double *, Py_ssize_t, const double *, const double *, float *)
    void herd_scaled_double_double(const double *, Py_ssize_t, const double *, const double *, double *)


def adam_update(theta, first, second, gradient, double rate, double decay, double second_decay, double least):
    """Update m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², θ ← θ − ε m / (√v + least) in place; `gradient` stays as it is.

    See the twin, which overwrites it.
    """
    _twin.require_same_shape(theta, first, second, gradient)
    if theta.dtype == np.float32:
        _adam[float](theta, first, second, gradient, rate, decay, second_decay, least)
    else:
        _adam[double](theta, first, second, gradient, rate, decay, second_decay, least)


cdef _adam(floating[::1] theta, floating[::1] first, floating[::1] second, const floating[::1] gradient, double rate, double decay,
           double second_decay, double least):
    cdef Py_ssize_t count = theta.shape[0]
    if not count:
        return
    with nogil:
        if floating is float:
            herd_adam_float(&theta[0], &first[0], &second[0], &gradient[0], count, <float>rate, <float>decay, <float>(1 - decay),
                            <float>second_decay, <float>(1 - second_decay), <float>least)
        else:
            herd_adam_double(&theta[0], &first[0], &second[0], &gradient[0], count, rate, decay, 1 - decay, second_decay, 1 - second_decay,
                             least)


def momentum_update(theta, velocity, gradient, double rate, double momentum):
    """Update m ← μ m − ε g, θ ← θ + m in place.  See the twin, which overwrites `gradient`; here it stays as it is."""
    _twin.require_same_shape(theta, velocity, gradient)
    if theta.dtype == np.float32:
        _momentum[float](theta, velocity, gradient, rate, momentum)
    else:
        _momentum[double](theta, velocity, gradient, rate, momentum)


cdef _momentum(floating[::1] theta, floating[::1] velocity, const floating[::1] gradient, double rate, double momentum):
    cdef Py_ssize_t count = theta.shape[0]
    if not count:
        return
    with nogil:
        if floating is float:
            herd_momentum_float(&theta[0], &velocity[0], &gradient[0], count, <float>rate, <float>momentum)
        else:
            herd_momentum_double(&theta[0], &velocity[0], &gradient[0], count, rate, momentum)


def scaled_rows(X, const int64_t[::1] chosen, mean, factor, out):
    """Write (x − mean) · factor of chosen rows into out (m, D), of float32 or float64.  See the twin."""
    _twin.require_rows(X, np.asarray(chosen), mean, factor, out)
    if X.dtype == np.uint8:
        if out.dtype == np.float32:
            _scaled_bytes[float](X, chosen, mean, factor, out)
        else:
            _scaled_bytes[double](X, chosen, mean, factor, out)
    elif X.dtype == np.float32:
        if out.dtype == np.float32:
            _scaled_floats[float](X, chosen, mean, factor, out)
        else:
            _scaled_floats[double](X, chosen, mean, factor, out)
    elif out.dtype == np.float32:
        _scaled_doubles[float](X, chosen, mean, factor, out)
    else:
        _scaled_doubles[double](X, chosen, mean, factor, out)


cdef _scaled_bytes(const uint8_t[:, ::1] X, const int64_t[::1] chosen, const floating[::1] mean, const floating[::1] factor,
                   floating[:, ::1] out):
    cdef Py_ssize_t row, count = X.shape[1]
    if not count:
        return
    with nogil:
        for row in range(chosen.shape[0]):
            if floating is float:
                herd_scaled_byte_float(&X[chosen[row], 0], count, &mean[0], &factor[0], &out[row, 0])
            else:
                herd_scaled_byte_double(&X[chosen[row], 0], count, &mean[0], &factor[0], &out[row, 0])


cdef _scaled_floats(const float[:, ::1] X, const int64_t[::1] chosen, const double[::1] mean, const double[::1] factor,
                    floating[:, ::1] out):
    cdef Py_ssize_t row, count = X.shape[1]
    if not count:
        return
    with nogil:
        for row in range(chosen.shape[0]):
            if floating is float:
                herd_scaled_float_float(&X[chosen[row], 0], count, &mean[0], &factor[0], &out[row, 0])
            else:
                herd_scaled_float_double(&X[chosen[row], 0], count, &mean[0], &factor[0], &out[row, 0])


cdef _scaled_doubles(const double[:, ::1] X, const int64_t[::1] chosen, const double[::1] mean, const double[::1] factor,
                     floating[:, ::1] out):
    cdef Py_ssize_t row, count = X.shape[1]
    if not count:
        return
    with nogil:
        for row in range(chosen.shape[0]):
            if floating is float:
                herd_scaled_double_float(&X[chosen[row], 0], count, &mean[0], &factor[0], &out[row, 0])
            else:
                herd_scaled_double_double(&X[chosen[row], 0], count, &mean[0], &factor[0], &out[row, 0])
