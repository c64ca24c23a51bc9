# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Updates of all parameters of a model, compiled: the twin of `numpy_adaptive.py`.  The loops are in _adaptive.h."""

import numpy as np

from cython cimport floating

from herdcli.fast import numpy_adaptive as _twin

include "simd.pxi"


cdef extern from "_adaptive.h" nogil:
    void herd_adam_float(float *, float *, float *, const float *, Py_ssize_t, float, float, float, float, float, float)
    void herd_adam_double(double *, double *, double *, const double *, Py_ssize_t, double, double, double, double, double, double)
    void herd_momentum_float(float *, float *, const float *, Py_ssize_t, float, float)
    void herd_momentum_double(double *, double *, const double *, Py_ssize_t, double, double)


def adam_update(theta, first, second, gradient, double rate, double decay, double second_decay, double least):
    """See the twin; `gradient` stays as it is."""
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
    """See the twin; `gradient` stays as it is."""
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
