/* Updates of all parameters of a model, each in one pass: the loops of _adaptive.pyx. */
#ifndef HERD_ADAPTIVE_H
#define HERD_ADAPTIVE_H
#include <math.h>

#include "simd.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-math-errno") /* a square root that sets no errno vectorises */
#endif

#define HERD_ADAM(NAME, REAL, ROOT)                                                                                                        \
    HERD_LOOP(void, NAME,                                                                                                                  \
              (REAL *restrict theta, REAL *restrict first, REAL *restrict second, const REAL *restrict gradient, ptrdiff_t count,          \
               REAL rate, REAL decay, REAL share, REAL second_decay, REAL second_share, REAL least),                                       \
              (theta, first, second, gradient, count, rate, decay, share, second_decay, second_share, least))                             \
    {                                                                                                                                      \
        for (ptrdiff_t i = 0; i < count; i++) {                                                                                            \
            const REAL g = gradient[i];                                                                                                    \
            const REAL m = first[i] * decay + share * g;                                                                                   \
            const REAL v = second[i] * second_decay + g * g * second_share;                                                                \
            first[i] = m;                                                                                                                  \
            second[i] = v;                                                                                                                 \
            theta[i] -= m / (ROOT(v) + least) * rate;                                                                                      \
        }                                                                                                                                  \
    }

#define HERD_MOMENTUM_UPDATE(NAME, REAL)                                                                                                   \
    HERD_LOOP(void, NAME,                                                                                                                  \
              (REAL *restrict theta, REAL *restrict velocity, const REAL *restrict gradient, ptrdiff_t count, REAL rate, REAL momentum),   \
              (theta, velocity, gradient, count, rate, momentum))                                                                          \
    {                                                                                                                                      \
        for (ptrdiff_t i = 0; i < count; i++) {                                                                                            \
            const REAL v = velocity[i] * momentum - gradient[i] * rate;                                                                    \
            velocity[i] = v;                                                                                                               \
            theta[i] += v;                                                                                                                 \
        }                                                                                                                                  \
    }

HERD_ADAM(herd_adam_float, float, sqrtf)
HERD_ADAM(herd_adam_double, double, sqrt)
HERD_MOMENTUM_UPDATE(herd_momentum_float, float)
HERD_MOMENTUM_UPDATE(herd_momentum_double, double)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif
