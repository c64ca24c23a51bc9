/* Energies of filter outputs and leapfrog steps along them: the loops of _hmc.pyx.
 *
 * Every operation is one rounding in the order of numpy_hmc.py; compiled with -ffp-contract=off and
 * without fast-math, both give the same bits whatever the vector width.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "logistic.h"

enum { HERD_STUDENT, HERD_LOGISTIC_EXPERT, HERD_SECANT };

#define HERD_CHAINS 16 /* that go side by side, one in each place of a vector */
#define HERD_FILTERS 8 /* whose outputs are summed at one time: their sums wait for nobody */
typedef float herd_lanes __attribute__((vector_size(4 * HERD_CHAINS), aligned(4), may_alias));

/* log y of a normal y > 0; inf and NaN give NaN.  See numpy_hmc.py. */
HERD_INLINE float herd_log(float y)
{
    uint32_t bits;
    float m, e, s, t;
    memcpy(&bits, &y, sizeof bits);
    bits -= 0x3F3504F3u;
    e = (float)((int32_t)bits >> 23);
    bits = (bits & 0x007FFFFFu) + 0x3F3504F3u;
    memcpy(&m, &bits, sizeof m);
    s = (m - 1.0f) / (m + 1.0f);
    t = s * s;
    return (e * 0.693359375f + (e * -2.12194440e-4f + s * (2.0f + t * (0.66666667f + t * (0.4f + t * (0.2857143f + t * 0.22222222f)))))) + (y - y);
}

HERD_INLINE float herd_slope_student(float u, float gamma) { return (gamma * (u + u)) / (1.0f + u * u); }
HERD_INLINE float herd_slope_logistic(float u, float gamma) { return (herd_logistic(u) * 2.0f - 1.0f) * gamma; }
HERD_INLINE float herd_energy_student(float u, float gamma) { return herd_log(1.0f + u * u) * gamma; }
/* size = |u|, near = the logistic function's argument within its limits. */
HERD_INLINE float herd_energy_logistic(float size, float near, float gamma) { return (size - 2.0f * herd_log(herd_logistic(near))) * gamma; }
HERD_INLINE float herd_energy_secant(float size, float near, float gamma) { return ((size - herd_log(herd_logistic(near))) - 0.6931472f) * gamma; }

HERD_LOOP(void, herd_slope_row, (float *restrict u, const float *restrict gamma, ptrdiff_t count, int expert), (u, gamma, count, expert))
{
    if (expert == HERD_STUDENT) {
        for (ptrdiff_t i = 0; i < count; i++)
            u[i] = herd_slope_student(u[i], gamma[i]);
        return;
    }
    for (ptrdiff_t i = 0; i < count; i++)
        u[i] = herd_clamp(expert == HERD_SECANT ? u[i] + u[i] : u[i]);
    for (ptrdiff_t i = 0; i < count; i++)
        u[i] = herd_slope_logistic(u[i], gamma[i]);
}

/* Terms are summed in HERD_CHAINS places, then these one after the other. */
HERD_LOOP(double, herd_energy_row,
          (const float *restrict u, const float *restrict gamma, ptrdiff_t count, int expert),
          (u, gamma, count, expert))
{
    double sums[HERD_CHAINS] = {0}, total = 0;
    float terms[HERD_CHAINS];
    for (ptrdiff_t start = 0; start < count; start += HERD_CHAINS) {
        const ptrdiff_t left = count - start < HERD_CHAINS ? count - start : HERD_CHAINS;
        if (expert == HERD_STUDENT) {
            for (ptrdiff_t i = 0; i < left; i++)
                terms[i] = herd_energy_student(u[start + i], gamma[start + i]);
        } else {
            float sizes[HERD_CHAINS], near[HERD_CHAINS];
            for (ptrdiff_t i = 0; i < left; i++) {
                sizes[i] = u[start + i] < 0.0f ? -u[start + i] : u[start + i];
                near[i] = herd_clamp(expert == HERD_SECANT ? sizes[i] + sizes[i] : sizes[i]);
            }
            if (expert == HERD_LOGISTIC_EXPERT)
                for (ptrdiff_t i = 0; i < left; i++)
                    terms[i] = herd_energy_logistic(sizes[i], near[i], gamma[start + i]);
            else
                for (ptrdiff_t i = 0; i < left; i++)
                    terms[i] = herd_energy_secant(sizes[i], near[i], gamma[start + i]);
        }
        for (ptrdiff_t i = 0; i < left; i++)
            sums[i] += (double)terms[i];
    }
    for (int i = 0; i < HERD_CHAINS; i++)
        total += sums[i];
    return total;
}

/* `steps` leapfrog steps of HERD_CHAINS chains: u, p, a, b are (filters, HERD_CHAINS), a and b 0 before.  See numpy_hmc.py. */
HERD_LOOP(void, herd_leapfrog_block,
          (float *restrict u, const float *restrict p, float *restrict a, float *restrict b, const float *restrict gram, const float *restrict gamma, ptrdiff_t filters, int expert, float epsilon, ptrdiff_t steps),
          (u, p, a, b, gram, gamma, filters, expert, epsilon, steps))
{
    const float half = 0.5f * epsilon;
    for (ptrdiff_t t = 0; t <= steps; t++) {
        /* Momentum half steps at both ends, whole ones between (Teh 2003,
           eq. 4.40): a = Σ s_r g_r, and a drift adds ε (W k − W W'a) to u. */
        const float size = t == 0 || t == steps ? half : epsilon;
        for (ptrdiff_t i = 0; i < filters; i++) {
            const float *x = u + i * HERD_CHAINS;
            herd_lanes slope, *sum = (herd_lanes *)(a + i * HERD_CHAINS);
            if (expert == HERD_STUDENT) { /* as herd_slope_student; gcc leaves the loop over it as it is */
                const herd_lanes v = *(const herd_lanes *)x;
                slope = (gamma[i] * (v + v)) / (1.0f + v * v);
            } else {
                float *place = (float *)&slope;
                for (int c = 0; c < HERD_CHAINS; c++)
                    place[c] = herd_clamp(expert == HERD_SECANT ? x[c] + x[c] : x[c]);
                for (int c = 0; c < HERD_CHAINS; c++)
                    place[c] = herd_slope_logistic(place[c], gamma[i]);
            }
            *sum = *sum + size * slope;
        }
        if (t == steps)
            break;
        for (ptrdiff_t i = 0; i < filters * HERD_CHAINS; i++)
            b[i] = b[i] + a[i];
        for (ptrdiff_t i = 0; i < filters; i += HERD_FILTERS) {
            const float *rows = gram + i * filters;
            herd_lanes sums[HERD_FILTERS];
            for (int f = 0; f < HERD_FILTERS; f++)
                sums[f] = (herd_lanes){0};
            for (ptrdiff_t j = 0; j < filters; j++) {
                const herd_lanes row = *(const herd_lanes *)(a + j * HERD_CHAINS);
                for (int f = 0; f < HERD_FILTERS; f++)
                    sums[f] = sums[f] + row * rows[f * filters + j];
            }
            for (int f = 0; f < HERD_FILTERS; f++) {
                herd_lanes *place = (herd_lanes *)(u + (i + f) * HERD_CHAINS);
                *place = *place + epsilon * (*(const herd_lanes *)(p + (i + f) * HERD_CHAINS) - sums[f]);
            }
        }
    }
}
