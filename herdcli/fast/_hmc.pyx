# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Energies of filter outputs and leapfrog steps along them, compiled: the twin of numpy_hmc.py, which documents it."""


cdef extern from "_hmc.h" nogil:
    enum: HERD_CHAINS, HERD_FILTERS
    void herd_slope_row(float *u, const float *gamma, Py_ssize_t count, int expert) noexcept
    double herd_energy_row(const float *u, const float *gamma, Py_ssize_t count, int expert) noexcept
    void herd_leapfrog_block(
        float *x, float *k, float *down, const float *W, const float *gamma, Py_ssize_t filters, Py_ssize_t inner, int expert,
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


def leapfrog_scratch(Py_ssize_t inner):
    """float32 numbers of scratch that leapfrog needs in `inner` dimensions."""
    return 3 * inner * HERD_CHAINS


def leapfrog(float[:, ::1] x, float[:, ::1] k, const float[:, ::1] W, const float[::1] gamma, int expert, float epsilon, Py_ssize_t steps, float[::1] scratch):
    """`steps` leapfrog steps of the chains x, k in place."""
    cdef Py_ssize_t n = x.shape[0], inner = x.shape[1], filters = W.shape[0], b, start, left, c, j, place
    cdef float *block
    _check(k.shape[0], n)
    _check(k.shape[1], inner)
    _check(W.shape[1], inner)
    _check(gamma.shape[0], filters)
    if filters % HERD_FILTERS or scratch.shape[0] < 3 * inner * HERD_CHAINS or inner < 1:
        raise ValueError("too little scratch, or filters that do not come in fours")
    block = &scratch[0]
    with nogil:
        for b in range((n + HERD_CHAINS - 1) // HERD_CHAINS):
            start = b * HERD_CHAINS
            left = min(n - start, <Py_ssize_t>HERD_CHAINS)
            for j in range(inner):
                for c in range(HERD_CHAINS):
                    place = j * HERD_CHAINS + c
                    block[place] = x[start + c, j] if c < left else 0
                    block[place + inner * HERD_CHAINS] = k[start + c, j] if c < left else 0
            herd_leapfrog_block(
                block, block + inner * HERD_CHAINS, block + 2 * inner * HERD_CHAINS, &W[0, 0] if filters else NULL,
                &gamma[0] if filters else NULL, filters, inner, expert, epsilon, steps,
            )
            for j in range(inner):
                for c in range(left):
                    place = j * HERD_CHAINS + c
                    x[start + c, j] = block[place]
                    k[start + c, j] = block[place + inner * HERD_CHAINS]


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length {length} where {expected} is expected")
    return 0
