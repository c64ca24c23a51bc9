/* Ratio messages on a binary lattice: the loop of _lattice.pyx over the cells of one colour in one row. */
#include "simd.h"

#define HERD_LANES 8

/* new <- (1 + e c) / (1 + c); with `check` the largest |new - old| / old of each lane. */
#define HERD_SEND(to, e, c)                                                      \
    do {                                                                         \
        const double new_ = (1 + (e) * (c)) / (1 + (c));                         \
        if (check) {                                                             \
            const double old_ = (to), up_ = new_ - old_, down_ = old_ - new_;    \
            const double change_ = (up_ > down_ ? up_ : down_) / old_;           \
            worst[j] = change_ > worst[j] ? change_ : worst[j];                  \
        }                                                                        \
        (to) = new_;                                                             \
    } while (0)

/* The four messages out of n cells: b is exp(bias), e* exp(weight), l r u d the messages that came in. */
#define HERD_ROW                                                                                       \
    for (ptrdiff_t k = 0; k < n; k += HERD_LANES) {                                                           \
        const ptrdiff_t m = n - k < HERD_LANES ? n - k : HERD_LANES;                                          \
        if (m == HERD_LANES) {                                                                                \
            _Pragma("GCC ivdep") for (ptrdiff_t j = 0; j < HERD_LANES; j++) HERD_CELL                  \
        } else {                                                                                              \
            for (ptrdiff_t j = 0; j < m; j++) HERD_CELL                                                \
        }                                                                                                     \
    }

#define HERD_CELL                                                                                      \
    {                                                                                                         \
        const ptrdiff_t i = k + j;                                                                            \
        const double sideways = b[i] * (u[i] * d[i]), upright = b[i] * (l[i] * r[i]);                         \
        const double cl = sideways * r[i], cr = sideways * l[i], cu = upright * d[i], cd = upright * u[i];    \
        HERD_SEND(to_left[i], el[i], cl);                                                                     \
        HERD_SEND(to_right[i], er[i], cr);                                                                    \
        HERD_SEND(to_up[i], eu[i], cu);                                                                       \
        HERD_SEND(to_down[i], ed[i], cd);                                                                     \
    }

#define HERD_PARAMETERS \
    const double *restrict b, const double *restrict el, const double *restrict er, const double *restrict eu,              \
        const double *restrict ed, const double *restrict l, const double *restrict r, const double *restrict u,            \
        const double *restrict d, double *restrict to_left, double *restrict to_right, double *restrict to_up,              \
        double *restrict to_down, ptrdiff_t n
#define HERD_ARGUMENTS b, el, er, eu, ed, l, r, u, d, to_left, to_right, to_up, to_down, n

HERD_LOOP(void, herd_lattice_row, (HERD_PARAMETERS), (HERD_ARGUMENTS))
{
    enum { check = 0 };
    double worst[HERD_LANES];
    (void)worst;
    HERD_ROW
}

HERD_LOOP(double, herd_lattice_check, (HERD_PARAMETERS), (HERD_ARGUMENTS))
{
    enum { check = 1 };
    double worst[HERD_LANES] = {0}, largest = 0;
    HERD_ROW
    for (int j = 0; j < HERD_LANES; j++)
        largest = worst[j] > largest ? worst[j] : largest;
    return largest;
}
