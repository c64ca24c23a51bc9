# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Harmoniums of many visible units of which few are on, compiled: the twin of numpy_wide.py, which documents it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

include "simd.pxi"


cdef extern from "_wide.h" nogil:
    ctypedef struct herd_lagging:
        const float *W
        const float *V
        const int32_t *lag
        const float *P
        const float *QH
        const float *bias
        const float *mean
        Py_ssize_t K
        Py_ssize_t T
    void herd_current_rows(
        const float *W, const float *V, const int64_t *rows, Py_ssize_t count, Py_ssize_t K, const int32_t *lag,
        const float *P, const float *Q, const float *mean, float *W_out, float *V_out,
    ) noexcept
    void herd_row_extents(const float *x, Py_ssize_t rows, Py_ssize_t K, float low, float high, float *lengths, float *reaches) noexcept
    void herd_shown_product(
        const float *W, const float *V, const int32_t *lag, const float *P, const float *Q, const float *mean, Py_ssize_t K,
        const int32_t *starts, const int32_t *units, const float *values, Py_ssize_t rows, float *out,
    ) noexcept
    int32_t herd_by_unit(
        const int32_t *units, Py_ssize_t count, Py_ssize_t D, int32_t *room, int32_t *order, int64_t *distinct, int32_t *heads,
    ) noexcept
    void herd_slacks(
        const int32_t *lag, const float *far, const float *size, const float *change, const float *mean, const float *bias, Py_ssize_t D, float *out,
    ) noexcept
    ctypedef struct herd_motion:
        const int64_t *units
        const int32_t *heads
        const int32_t *entry_rows
        const float *entry_values
        const float *h
        const float *signs
        const float *lam "lambda"
        const float *gamma
        const uint8_t *constant
        float rate
        float momentum
        float decay
        float low
        float high
        Py_ssize_t count
    uint32_t herd_move_units(
        const herd_motion *g, float *W, float *V, const int32_t *lag, const float *P, const float *Q, const float *mean, Py_ssize_t K,
        float *G, float *own, float *dots, float *follows, float *size, float *change, float *reach,
    ) noexcept
    void herd_fill_words(uint64_t seed, uint64_t *out, Py_ssize_t count) noexcept
    int32_t herd_list_below(
        const float *natural, const float *bias, const uint16_t *words, Py_ssize_t rows, Py_ssize_t units, int32_t *starts, int32_t *listed,
    ) noexcept
    void herd_natural_at(
        const herd_lagging *g, const float *H, const int32_t *starts, const int32_t *listed, Py_ssize_t rows, float *out,
    ) noexcept
    void herd_guide(const double *sums, Py_ssize_t count, int32_t *guide) noexcept
    int64_t herd_draw_words(
        const herd_lagging *g, const float *H, const float *slack, const float *reach, const float *upper, const double *sums,
        const int32_t *guide, Py_ssize_t units, const int64_t *lengths, const uint64_t *seeds, Py_ssize_t rows, int32_t *drawn,
    ) noexcept


def current_rows(
    const float[:, ::1] W, const float[:, ::1] V, const int64_t[::1] rows, const int32_t[::1] lag, const float[:, ::1] P,
    const float[:, :, ::1] Q, const float[::1] mean, float[:, ::1] W_out, float[:, ::1] V_out,
):
    """The rows as they are now."""
    cdef Py_ssize_t D = W.shape[0], K = W.shape[1], count = rows.shape[0]
    _tables(W, V, lag, P, Q, mean)
    _within(rows, D)
    _check(W_out.shape[0], count)
    _check(W_out.shape[1], K)
    _check(V_out.shape[0], count)
    _check(V_out.shape[1], K)
    with nogil:
        if count and K:
            herd_current_rows(&W[0, 0], &V[0, 0], &rows[0], count, K, &lag[0], &P[0, 0], &Q[0, 0, 0], &mean[0], &W_out[0, 0], &V_out[0, 0])


def row_extents(const float[:, ::1] x, float low, float high, float[::1] lengths, float[::1] reaches):
    """The length of each row, and its largest product with numbers from low to high."""
    _check(lengths.shape[0], x.shape[0])
    _check(reaches.shape[0], x.shape[0])
    with nogil:
        if x.shape[0] and x.shape[1]:
            herd_row_extents(&x[0, 0], x.shape[0], x.shape[1], low, high, &lengths[0], &reaches[0])


def lag_slacks(
    const int32_t[::1] lag, const float[:, ::1] far, const float[:, ::1] extents, const float[::1] mean, const float[::1] bias, float[::1] out
):
    """What natural parameters can have moved by for each unit of |h|."""
    cdef Py_ssize_t D = lag.shape[0]
    _check(far.shape[1], 3)
    _lags(lag, far.shape[0])
    _check(extents.shape[0], 3)
    _check(extents.shape[1], D)
    _check(mean.shape[0], D)
    _check(bias.shape[0], D)
    _check(out.shape[0], D)
    with nogil:
        if D:
            herd_slacks(&lag[0], &far[0, 0], &extents[0, 0], &extents[1, 0], &mean[0], &bias[0], D, &out[0])


def shown_product(
    const float[:, ::1] W, const float[:, ::1] V, const int32_t[::1] lag, const float[:, ::1] P, const float[:, :, ::1] Q,
    const float[::1] mean, const int32_t[::1] starts, const int32_t[::1] units, const float[::1] values, float[:, ::1] out,
):
    """Rows of few units times the weights as they are now."""
    cdef Py_ssize_t K = W.shape[1], rows = out.shape[0]
    _tables(W, V, lag, P, Q, mean)
    _check(out.shape[1], K)
    _check(starts.shape[0], rows + 1)
    _check(values.shape[0], units.shape[0])
    _lists(starts, units, W.shape[0])
    with nogil:
        if rows and K:
            herd_shown_product(
                &W[0, 0], &V[0, 0], &lag[0], &P[0, 0], &Q[0, 0, 0], &mean[0], K, &starts[0], &units[0] if units.shape[0] else NULL,
                &values[0] if units.shape[0] else NULL, rows, &out[0, 0],
            )


def by_unit(const int32_t[::1] units, int32_t[::1] room, int32_t[::1] order, int64_t[::1] distinct, int32_t[::1] heads):
    """Entries in the order of their units; how many units there are."""
    cdef Py_ssize_t count = units.shape[0], k
    cdef int32_t found = 0
    _check(order.shape[0], count)
    _check(distinct.shape[0], count)
    _check(heads.shape[0], count + 1)
    for k in range(count):
        if not 0 <= units[k] < room.shape[0]:
            raise ValueError("a unit that is not there")
    with nogil:
        heads[0] = 0
        if count:
            found = herd_by_unit(&units[0], count, room.shape[0], &room[0], &order[0], &distinct[0], &heads[0])
    return found


def move_units(
    float[:, ::1] W, float[:, ::1] V, const int32_t[::1] lag, const float[:, ::1] P, const float[:, :, ::1] Q, const float[::1] mean,
    const int64_t[::1] units, const int32_t[::1] heads, const int32_t[::1] rows, const float[::1] values, const float[:, ::1] h,
    const float[::1] signs, const float[::1] above, const float[::1] gradient, const uint8_t[::1] constant, float rate, float momentum,
    float decay, float low, float high, float[:, ::1] extents, float[::1] own, float[::1] dots, float[::1] follows, float[::1] room,
):
    """The step of units that get a gradient; the largest weight of them."""
    cdef Py_ssize_t D = W.shape[0], K = W.shape[1], count = units.shape[0], k
    cdef herd_motion g
    cdef uint32_t bits = 0
    cdef float largest
    _tables(W, V, lag, P, Q, mean)
    _within(units, D)
    _check(heads.shape[0], count + 1)
    _check(values.shape[0], rows.shape[0])
    _check(h.shape[1], K)
    _check(signs.shape[0], h.shape[0])
    _check(above.shape[0], K)
    _check(gradient.shape[0], K)
    _check(follows.shape[0], K)
    _check(room.shape[0], K)
    _check(constant.shape[0], D)
    _check(extents.shape[0], 3)
    _check(extents.shape[1], D)
    _check(own.shape[0], count)
    _check(dots.shape[0], count)
    if heads[0] != 0 or heads[count] != rows.shape[0]:
        raise ValueError("heads are not those of the entries")
    for k in range(count):
        if heads[k] > heads[k + 1]:
            raise ValueError("heads fall")
    for k in range(rows.shape[0]):
        if not 0 <= rows[k] < h.shape[0]:
            raise ValueError("a row that is not there")
    if count and K:
        g.units, g.heads, g.h, g.signs, g.lam, g.gamma, g.constant = &units[0], &heads[0], &h[0, 0], &signs[0], &above[0], &gradient[0], &constant[0]
        g.entry_rows = &rows[0] if rows.shape[0] else NULL
        g.entry_values = &values[0] if rows.shape[0] else NULL
        g.rate, g.momentum, g.decay, g.low, g.high, g.count = rate, momentum, decay, low, high, count
        with nogil:
            bits = herd_move_units(
                &g, &W[0, 0], &V[0, 0], &lag[0], &P[0, 0], &Q[0, 0, 0], &mean[0], K, &room[0], &own[0], &dots[0], &follows[0],
                &extents[0, 0], &extents[1, 0], &extents[2, 0],
            )
    memcpy(&largest, &bits, sizeof(largest))
    return largest


def fill_words(uint64_t seed, uint64_t[::1] out):
    """Numbers of a stream."""
    with nogil:
        if out.shape[0]:
            herd_fill_words(seed, &out[0], out.shape[0])


def list_below(const float[:, ::1] natural, const float[::1] bias, const uint16_t[:, ::1] words, int32_t[::1] starts, int32_t[::1] listed):
    """List the units whose word may be below 2^16 logistic(natural + bias)."""
    cdef Py_ssize_t rows = natural.shape[0], units = natural.shape[1]
    cdef int32_t count = 0
    _check(bias.shape[0], units)
    _check(words.shape[0], rows)
    _check(words.shape[1], units + 1)
    _check(starts.shape[0], rows + 1)
    if listed.shape[0] < rows * units:
        raise ValueError("too little room")
    with nogil:
        starts[0] = 0
        if rows and units:
            count = herd_list_below(&natural[0, 0], &bias[0], &words[0, 0], rows, units, &starts[0], &listed[0])
    return count


cdef herd_lagging _lagging(
    const float[:, ::1] W, const float[:, ::1] V, const int32_t[::1] lag, const float[:, ::1] P, const float[:, ::1] QH,
    const float[::1] bias, const float[::1] mean, const float[:, ::1] H,
) except *:
    cdef herd_lagging g
    cdef Py_ssize_t D = W.shape[0], K = W.shape[1]
    _check(V.shape[0], D)
    _check(V.shape[1], K)
    _check(lag.shape[0], D)
    _check(P.shape[1], 4)
    _check(QH.shape[0], H.shape[0])
    _check(QH.shape[1], P.shape[0])
    _check(bias.shape[0], D)
    _check(mean.shape[0], D)
    _check(H.shape[1], K)
    if not (D and K and H.shape[0] and P.shape[0]):
        raise ValueError("nothing to draw")
    _lags(lag, P.shape[0])
    g.W, g.V, g.lag, g.P, g.QH, g.bias, g.mean = &W[0, 0], &V[0, 0], &lag[0], &P[0, 0], &QH[0, 0], &bias[0], &mean[0]
    g.K, g.T = K, P.shape[0]
    return g


def natural_at(W, V, lag, P, QH, bias, mean, const float[:, ::1] H, const int32_t[::1] starts, const int32_t[::1] listed, float[::1] out):
    """Natural parameters of the units listed for each row."""
    cdef herd_lagging g = _lagging(W, V, lag, P, QH, bias, mean, H)
    cdef Py_ssize_t rows = H.shape[0], count = listed.shape[0]
    _check(starts.shape[0], rows + 1)
    _check(out.shape[0], count)
    _lists(starts, listed, len(W))
    with nogil:
        if count:
            herd_natural_at(&g, &H[0, 0], &starts[0], &listed[0], rows, &out[0])


def guide_table(const double[::1] sums, int32_t[::1] guide):
    """Where to look for a share of the last sum: guide[g] is the first place whose sum is above g/D of it."""
    _check(guide.shape[0], sums.shape[0])
    with nogil:
        if sums.shape[0]:
            herd_guide(&sums[0], sums.shape[0], &guide[0])


def draw_words(
    W, V, lag, P, QH, bias, mean, const float[:, ::1] H, const float[::1] slack, const float[::1] reach, const float[::1] upper,
    const double[::1] sums, const int32_t[::1] guide, const int64_t[::1] lengths, const uint64_t[::1] seeds, int32_t[::1] drawn,
):
    """Draw each row's words by rejection; how many were tried."""
    cdef herd_lagging g = _lagging(W, V, lag, P, QH, bias, mean, H)
    cdef Py_ssize_t rows = H.shape[0], units = len(W), k
    cdef int64_t tries = 0, total = 0
    _check(slack.shape[0], units)
    _check(upper.shape[0], units)
    _check(sums.shape[0], units)
    _check(guide.shape[0], units)
    _check(reach.shape[0], rows)
    _check(lengths.shape[0], rows)
    _check(seeds.shape[0], rows)
    for k in range(rows):
        if lengths[k] < 0:
            raise ValueError("fewer words than none")
        total += lengths[k]
    _check(drawn.shape[0], total)
    for k in range(units):
        if not 0 <= guide[k] < units:
            raise ValueError("a guide to nowhere")
    with nogil:
        if total:
            tries = herd_draw_words(
                &g, &H[0, 0], &slack[0], &reach[0], &upper[0], &sums[0], &guide[0], units, &lengths[0], &seeds[0], rows, &drawn[0]
            )
    return tries


cdef int _tables(
    const float[:, ::1] W, const float[:, ::1] V, const int32_t[::1] lag, const float[:, ::1] P, const float[:, :, ::1] Q, const float[::1] mean,
) except -1:
    cdef Py_ssize_t D = W.shape[0], K = W.shape[1]
    _check(V.shape[0], D)
    _check(V.shape[1], K)
    _check(lag.shape[0], D)
    _check(mean.shape[0], D)
    _check(P.shape[1], 4)
    _check(Q.shape[0], P.shape[0])
    _check(Q.shape[1], 2)
    _check(Q.shape[2], K)
    _lags(lag, P.shape[0])
    return 0


cdef int _lists(const int32_t[::1] starts, const int32_t[::1] units, Py_ssize_t D) except -1:
    cdef Py_ssize_t k, rows = starts.shape[0] - 1
    if starts[0] != 0 or starts[rows] != units.shape[0]:
        raise ValueError("starts are not those of the list")
    for k in range(rows):
        if starts[k] > starts[k + 1]:
            raise ValueError("starts fall")
    for k in range(units.shape[0]):
        if not 0 <= units[k] < D:
            raise ValueError("a unit that is not there")
    return 0


cdef int _within(const int64_t[::1] rows, Py_ssize_t D) except -1:
    cdef Py_ssize_t k
    for k in range(rows.shape[0]):
        if not 0 <= rows[k] < D:
            raise ValueError("a row that is not there")
    return 0


cdef int _lags(const int32_t[::1] lag, Py_ssize_t T) except -1:
    cdef Py_ssize_t k
    for k in range(lag.shape[0]):
        if not 0 <= lag[k] < T:
            raise ValueError("a lag beyond the tables")
    return 0


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length {length} where {expected} is expected")
    return 0
