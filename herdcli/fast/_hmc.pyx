# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Energies of filter outputs and leapfrog steps along them, compiled: the twin of numpy_hmc.py, which documents it."""

include "simd.pxi"


cdef extern from "_hmc.h" nogil:
    enum: HERD_CHAINS, HERD_FILTERS
    void herd_slope_row(float *u, const float *gamma, Py_ssize_t count, int expert) noexcept
    double herd_energy_row(const float *u, const float *gamma, Py_ssize_t count, int expert) noexcept
    void herd_leapfrog_block(
        float *u, const float *p, float *a, float *b, const float *gram, const float *gamma, Py_ssize_t filters, int expert,
        float epsilon, Py_ssize_t steps,
    ) noexcept


def expert_slope(float[:, ::1] u, const float[::1] gamma, int expert):
    """u ← γ E'(u) in place."""
    cdef Py_ssize_t i, count = u.shape[1]
    _check(gamma.shape[0], count)
    with nogil:
        if count:
            for i in range(u.shape[0]):
                herd_slope_row(&u[i, 0], &gamma[0], count, expert)


def expert_energy(const float[:, ::1] u, const float[::1] gamma, int expert, double[::1] out):
    """out ← Σ_i γ_i E(u_i) of each row."""
    cdef Py_ssize_t i, count = u.shape[1]
    _check(gamma.shape[0], count)
    _check(out.shape[0], u.shape[0])
    with nogil:
        for i in range(u.shape[0]):
            out[i] = herd_energy_row(&u[i, 0], &gamma[0], count, expert) if count else 0.0


def leapfrog_scratch(Py_ssize_t filters):
    """float32 numbers of scratch that leapfrog needs for so many filters."""
    return 4 * filters * HERD_CHAINS


def leapfrog(
    const float[:, ::1] u, const float[:, ::1] p, const float[:, ::1] gram, const float[::1] gamma, int expert, float epsilon,
    Py_ssize_t steps, float[:, ::1] a, float[:, ::1] b, float[::1] scratch,
):
    """`steps` leapfrog steps in the outputs; a and b get the sums of slopes."""
    cdef Py_ssize_t n = u.shape[0], filters = gram.shape[0], block, start, left, c, i, place, size = filters * HERD_CHAINS
    cdef float *room
    _check(p.shape[0], n)
    _check(a.shape[0], n)
    _check(b.shape[0], n)
    _check(p.shape[1], filters)
    _check(a.shape[1], filters)
    _check(b.shape[1], filters)
    _check(u.shape[1], filters)
    _check(gram.shape[1], filters)
    _check(gamma.shape[0], filters)
    if filters % HERD_FILTERS or scratch.shape[0] < 4 * size or filters < 1:
        raise ValueError("too little scratch, or filters that do not come in eights")
    room = &scratch[0]
    with nogil:
        for block in range((n + HERD_CHAINS - 1) // HERD_CHAINS):
            start = block * HERD_CHAINS
            left = min(n - start, <Py_ssize_t>HERD_CHAINS)
            for i in range(filters):
                for c in range(HERD_CHAINS):
                    place = i * HERD_CHAINS + c
                    room[place] = u[start + c, i] if c < left else 0
                    room[place + size] = p[start + c, i] if c < left else 0
                    room[place + 2 * size] = 0
                    room[place + 3 * size] = 0
            herd_leapfrog_block(
                room, room + size, room + 2 * size, room + 3 * size, &gram[0, 0], &gamma[0], filters, expert, epsilon, steps
            )
            for i in range(filters):
                for c in range(left):
                    place = i * HERD_CHAINS + c
                    a[start + c, i] = room[place + 2 * size]
                    b[start + c, i] = room[place + 3 * size]


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length {length} where {expected} is expected")
    return 0
