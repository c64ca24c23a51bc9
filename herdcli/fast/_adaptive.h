/* Scaled rows of minibatches, and updates of all parameters of a model in one pass: the loops of _adaptive.pyx.
 *
 * They are compiled with -fno-math-errno: a square root that sets no errno vectorises.
 */
#ifndef HERD_ADAPTIVE_H
#define HERD_ADAPTIVE_H
#include <math.h>

#include "simd.h"

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

/* (x − mean) · factor of one row, in the type REAL. */
#define HERD_SCALED_ROW(NAME, SOURCE, REAL, OUT)                                                                                           \
    HERD_LOOP(void, NAME,                                                                                                                  \
              (const SOURCE *restrict x, ptrdiff_t count, const REAL *restrict mean, const REAL *restrict factor, OUT *restrict out),      \
              (x, count, mean, factor, out))                                                                                               \
    {                                                                                                                                      \
        for (ptrdiff_t i = 0; i < count; i++)                                                                                              \
            out[i] = (OUT)(((REAL)x[i] - mean[i]) * factor[i]);                                                                            \
    }

HERD_SCALED_ROW(herd_scaled_byte_float, uint8_t, float, float)
HERD_SCALED_ROW(herd_scaled_byte_double, uint8_t, double, double)
HERD_SCALED_ROW(herd_scaled_float_float, float, double, float)
HERD_SCALED_ROW(herd_scaled_float_double, float, double, double)
HERD_SCALED_ROW(herd_scaled_double_float, double, double, float)
HERD_SCALED_ROW(herd_scaled_double_double, double, double, double)
#endif
