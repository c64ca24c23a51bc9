/* Gibbs sampling of two-state units and the update of their weights: the loops of _gibbs.pyx.
 *
 * Every operation is one float32 rounding in the order of numpy_gibbs.py; compiled with
 * -ffp-contract=off and without fast-math, both give the same bits whatever the vector width.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define HERD_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HERD_CLONES
#endif
#if defined(__GNUC__)
#define HERD_INLINE static inline __attribute__((always_inline))
#else
#define HERD_INLINE static inline
#endif

/* x within ±87; NaN stays NaN.  In a loop of its own: together with what follows gcc makes branches of it. */
HERD_INLINE float herd_clamp(float x)
{
    x = x < -87.0f ? -87.0f : x;
    return x > 87.0f ? 87.0f : x;
}

/* 1 / (1 + e^-x) for |x| <= 87; the constants and the argument reduction are explained in numpy_gibbs.py. */
HERD_INLINE float herd_logistic(float x)
{
    const float y = -x;
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
    return 1.0f / (power * scale + 1.0f);
}

HERD_CLONES static void herd_logistic_each(float *restrict x, ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count; i++)
        x[i] = herd_clamp(x[i]);
    for (ptrdiff_t i = 0; i < count; i++)
        x[i] = herd_logistic(x[i]);
}

HERD_CLONES static void herd_means_row(float *restrict natural, const float *restrict bias, ptrdiff_t units, float gain, float offset, float slope)
{
    for (ptrdiff_t j = 0; j < units; j++)
        natural[j] = herd_clamp((natural[j] + bias[j]) * gain);
    for (ptrdiff_t j = 0; j < units; j++)
        natural[j] = herd_logistic(natural[j]) * slope + offset;
}

/* `states` holds the words as float32 in between, so that one vector width serves the second loop. */
HERD_CLONES static void herd_sample_row(float *restrict natural, const float *restrict bias, ptrdiff_t units, float gain, float offset, float slope,
                                        const uint16_t *restrict words, float low, float high, float *restrict states)
{
    const float dither = (float)words[units] * 0x1p-16f;
    for (ptrdiff_t j = 0; j < units; j++) {
        natural[j] = herd_clamp((natural[j] + bias[j]) * gain);
        states[j] = (float)words[j];
    }
    for (ptrdiff_t j = 0; j < units; j++) {
        const float p = herd_logistic(natural[j]);
        states[j] = states[j] < p * 65536.0f - dither ? high : low;
        natural[j] = p * slope + offset;
    }
}

/* The largest |weight| as a bit pattern: ordered like the numbers, inf and NaN above them, and a reduction that vectorises. */
HERD_CLONES static uint32_t herd_momentum(float *restrict weights, float *restrict velocity, const float *restrict gradient, ptrdiff_t count, float rate,
                                          float momentum, float decay)
{
    uint32_t largest = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        const float v = velocity[i] * momentum + rate * (gradient[i] - decay * weights[i]);
        const float w = weights[i] + v;
        uint32_t bits;
        velocity[i] = v;
        weights[i] = w;
        memcpy(&bits, &w, sizeof bits);
        bits &= 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* Sparse times dense: columns are done in panels of four vectors, whose sums stay in registers and whose rows stay near. */
#define HERD_PANEL 64
typedef float herd_vector __attribute__((vector_size(64))); /* GCC and Clang, on every machine */
#define herd_load(from) (*(const herd_unaligned *)(from))
typedef float herd_unaligned __attribute__((vector_size(64), aligned(4), may_alias));

/* out[i, :columns] += the rows of the panel listed for i, each times its coefficient, one after the other. */
HERD_CLONES static void herd_add_panel(float *restrict out, ptrdiff_t width, ptrdiff_t rows, ptrdiff_t columns, const float *restrict panel,
                                       const int32_t *restrict starts, const int32_t *restrict listed, const float *restrict coefficients)
{
    float sums[HERD_PANEL] = {0};
    for (ptrdiff_t i = 0; i < rows; i++) {
        herd_vector s0, s1, s2, s3;
        if (starts[i] == starts[i + 1])
            continue;
        memcpy(sums, out + i * width, columns * sizeof(float));
        s0 = herd_load(sums), s1 = herd_load(sums + 16), s2 = herd_load(sums + 32), s3 = herd_load(sums + 48);
        for (int32_t k = starts[i]; k < starts[i + 1]; k++) {
            const float *row = panel + (ptrdiff_t)listed[k] * HERD_PANEL;
            const float c = coefficients[k];
            s0 = s0 + c * herd_load(row);
            s1 = s1 + c * herd_load(row + 16);
            s2 = s2 + c * herd_load(row + 32);
            s3 = s3 + c * herd_load(row + 48);
        }
        memcpy(sums, &s0, sizeof s0);
        memcpy(sums + 16, &s1, sizeof s1);
        memcpy(sums + 32, &s2, sizeof s2);
        memcpy(sums + 48, &s3, sizeof s3);
        memcpy(out + i * width, sums, columns * sizeof(float));
    }
}

/* Words of scratch that herd_add_sparse_product needs. */
static ptrdiff_t herd_sparse_scratch(ptrdiff_t rows, ptrdiff_t inner) { return rows + 1 + 2 * rows * inner + HERD_PANEL * inner + 16; }

/* out (rows, width) += sparse (rows, inner) dense (inner, width); the entries of sparse are `down` and `along` floats apart. */
static void herd_add_sparse_product(const float *sparse, ptrdiff_t down, ptrdiff_t along, const float *dense, float *out, ptrdiff_t rows, ptrdiff_t inner,
                                    ptrdiff_t width, int32_t *scratch)
{
    int32_t *starts = scratch, *listed = starts + rows + 1, count = 0;
    float *coefficients = (float *)(listed + rows * inner), *panel = coefficients + rows * inner;
    panel += (16 - ((uintptr_t)panel / sizeof(float)) % 16) % 16; /* 64-byte boundary */
    for (ptrdiff_t i = 0; i < rows; i++) {
        starts[i] = count;
        for (ptrdiff_t j = 0; j < inner; j++) {
            const float value = sparse[i * down + j * along];
            listed[count] = (int32_t)j;
            coefficients[count] = value;
            count += value != 0.0f;
        }
    }
    starts[rows] = count;
    for (ptrdiff_t first = 0; first < width; first += HERD_PANEL) {
        const ptrdiff_t columns = width - first < HERD_PANEL ? width - first : HERD_PANEL;
        for (ptrdiff_t j = 0; j < inner; j++) {
            memcpy(panel + j * HERD_PANEL, dense + j * width + first, columns * sizeof(float));
            memset(panel + j * HERD_PANEL + columns, 0, (HERD_PANEL - columns) * sizeof(float));
        }
        herd_add_panel(out + first, width, rows, columns, panel, starts, listed, coefficients);
    }
}
