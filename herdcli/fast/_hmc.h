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
#define HERD_FILTERS 4 /* whose outputs are summed at one time: their sums wait for nobody */

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
HERD_INLINE float herd_energy_logistic(float u, float gamma)
{
    const float size = u < 0.0f ? -u : u;
    return (size - 2.0f * herd_log(herd_logistic(herd_clamp(size)))) * gamma;
}
HERD_INLINE float herd_energy_secant(float u, float gamma)
{
    const float size = u < 0.0f ? -u : u;
    return ((size - herd_log(herd_logistic(herd_clamp(size + size)))) - 0.6931472f) * gamma;
}

HERD_CLONES static void herd_slope_row(float *restrict u, const float *restrict gamma, ptrdiff_t count, int expert)
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
HERD_CLONES static double herd_energy_row(const float *restrict u, const float *restrict gamma, ptrdiff_t count, int expert)
{
    double sums[HERD_CHAINS] = {0}, total = 0;
    float terms[HERD_CHAINS];
    for (ptrdiff_t start = 0; start < count; start += HERD_CHAINS) {
        const ptrdiff_t left = count - start < HERD_CHAINS ? count - start : HERD_CHAINS;
        if (expert == HERD_STUDENT)
            for (ptrdiff_t i = 0; i < left; i++)
                terms[i] = herd_energy_student(u[start + i], gamma[start + i]);
        else if (expert == HERD_LOGISTIC_EXPERT)
            for (ptrdiff_t i = 0; i < left; i++)
                terms[i] = herd_energy_logistic(u[start + i], gamma[start + i]);
        else
            for (ptrdiff_t i = 0; i < left; i++)
                terms[i] = herd_energy_secant(u[start + i], gamma[start + i]);
        for (ptrdiff_t i = 0; i < left; i++)
            sums[i] += (double)terms[i];
    }
    for (int i = 0; i < HERD_CHAINS; i++)
        total += sums[i];
    return total;
}

/* down[j] (inner dimensions, HERD_CHAINS) = Σ_i γ_i E'(w_i·x) w_ij for the chains of x (inner, HERD_CHAINS). */
HERD_INLINE void herd_block_gradient(const float *restrict x, float *restrict down, const float *restrict W, const float *restrict gamma, ptrdiff_t filters,
                                     ptrdiff_t inner, int expert)
{
    for (ptrdiff_t j = 0; j < inner * HERD_CHAINS; j++)
        down[j] = 0.0f;
    for (ptrdiff_t i = 0; i < filters; i += HERD_FILTERS) {
        float u[HERD_FILTERS][HERD_CHAINS] = {{0}};
        const float *w0 = W + i * inner, *w1 = w0 + inner, *w2 = w1 + inner, *w3 = w2 + inner;
        for (ptrdiff_t j = 0; j < inner; j++) {
            const float *row = x + j * HERD_CHAINS;
            for (int c = 0; c < HERD_CHAINS; c++) {
                u[0][c] = u[0][c] + row[c] * w0[j];
                u[1][c] = u[1][c] + row[c] * w1[j];
                u[2][c] = u[2][c] + row[c] * w2[j];
                u[3][c] = u[3][c] + row[c] * w3[j];
            }
        }
        for (int f = 0; f < HERD_FILTERS; f++) {
            if (expert == HERD_STUDENT) {
                for (int c = 0; c < HERD_CHAINS; c++)
                    u[f][c] = herd_slope_student(u[f][c], gamma[i + f]);
            } else {
                for (int c = 0; c < HERD_CHAINS; c++)
                    u[f][c] = herd_clamp(expert == HERD_SECANT ? u[f][c] + u[f][c] : u[f][c]);
                for (int c = 0; c < HERD_CHAINS; c++)
                    u[f][c] = herd_slope_logistic(u[f][c], gamma[i + f]);
            }
        }
        for (ptrdiff_t j = 0; j < inner; j++) {
            float *row = down + j * HERD_CHAINS;
            for (int c = 0; c < HERD_CHAINS; c++)
                row[c] = (((row[c] + u[0][c] * w0[j]) + u[1][c] * w1[j]) + u[2][c] * w2[j]) + u[3][c] * w3[j];
        }
    }
}

/* `steps` leapfrog steps of HERD_CHAINS chains at x, k (inner, HERD_CHAINS); down is scratch of their size. */
HERD_CLONES static void herd_leapfrog_block(float *restrict x, float *restrict k, float *restrict down, const float *restrict W, const float *restrict gamma,
                                            ptrdiff_t filters, ptrdiff_t inner, int expert, float epsilon, ptrdiff_t steps)
{
    const ptrdiff_t count = inner * HERD_CHAINS;
    const float half = 0.5f * epsilon;
    for (ptrdiff_t t = 0; t <= steps; t++) {
        const float size = t == 0 || t == steps ? half : epsilon;
        herd_block_gradient(x, down, W, gamma, filters, inner, expert);
        for (ptrdiff_t j = 0; j < count; j++)
            k[j] = k[j] - size * down[j];
        if (t < steps)
            for (ptrdiff_t j = 0; j < count; j++)
                x[j] = x[j] + epsilon * k[j];
    }
}
