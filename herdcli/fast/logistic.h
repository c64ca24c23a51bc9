/* What the loops over float32 share: the exponential and the logistic function of numpy_gibbs.py. */
#ifndef HERD_LOGISTIC_H
#define HERD_LOGISTIC_H
#include "simd.h"

/* x within ±87; NaN stays NaN.  In a loop of its own: together with what follows gcc makes branches of it. */
HERD_INLINE float herd_clamp(float x)
{
    x = x < -87.0f ? -87.0f : x;
    return x > 87.0f ? 87.0f : x;
}

/* e^y for |y| <= 87; the constants and the argument reduction are explained in numpy_gibbs.py. */
HERD_INLINE float herd_exp(float y)
{
    const float shifted = y * 1.4426950408889634f + 12582912.0f;
    const float n = shifted - 12582912.0f;
    const float r = (y - n * 0.693359375f) - n * -2.12194440e-4f;
    float power, scale;
    uint32_t bits;
    power = r * 0.0013836835278198123f;
    power = (power + 0.008374824188649654f) * r;
    power = (power + 0.04166822507977486f) * r;
    power = (power + 0.16666419804096222f) * r;
    power = (power + 0.49999991059303284f) * r;
    power = (power + 1.0f) * r;
    power = power + 1.0f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3F800000u; /* 2^n */
    memcpy(&scale, &bits, sizeof scale);
    return power * scale;
}

/* 1 / (1 + e^-x) for |x| <= 87. */
HERD_INLINE float herd_logistic(float x)
{
    return 1.0f / (herd_exp(-x) + 1.0f);
}

#endif
