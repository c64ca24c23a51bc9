/* Products, exponentials and logarithms whose bits no library and no processor decides: the loops of _exact.pyx.
 *
 * Sums are taken one term after the other in blocks of HERD_DEPTH, and the blocks' sums one after the other; the polynomials are those of
 * numpy_exact.py.  Compiled with -ffp-contract=off and without fast-math, every instruction set gives the same bits.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "logistic.h"

#define HERD_DEPTH 256 /* terms of a block: a part of the result's definition */
#define HERD_STRIP 128 /* bytes of a row of a packed panel, the same for all instruction sets */
#define HERD_MAGIC 6755399441055744.0 /* 1.5 * 2^52: adding it rounds to a whole number, which then stands in the low bits */
#define HERD_LN2_HIGH 0.693147180559663
#define HERD_LN2_LOW 2.8235290563031577e-13

HERD_INLINE uint64_t herd_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

HERD_INLINE double herd_number(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x = n log 2 + high - low, |high - low| <= log(2) / 2, and 2^n as the product of two powers, each of which float64 holds. */
typedef struct {
    double high, low, first, second, inverse; /* inverse: 1 / second */
    double tail; /* e^r - 1 - r, r = high - low */
} herd_parts;

HERD_INLINE herd_parts herd_reduced(double x)
{
    herd_parts found;
    double y = x < -746.0 ? -746.0 : x;
    y = y > 711.0 ? 711.0 : y;
    const double shifted = y * 1.4426950408889634 + HERD_MAGIC;
    const double n = shifted - HERD_MAGIC;
    const double half = n * 0.5 + HERD_MAGIC;
    const uint64_t whole = herd_bits(shifted) - herd_bits(HERD_MAGIC), part = herd_bits(half) - herd_bits(HERD_MAGIC);
    found.high = y - n * HERD_LN2_HIGH;
    found.low = n * HERD_LN2_LOW;
    found.first = herd_number((part + 1023) << 52);
    found.second = herd_number((whole - part + 1023) << 52);
    found.inverse = herd_number((part - whole + 1023) << 52);
    const double r = found.high - found.low;
    double p = r * 2.510038549551032e-08 + 2.7620088445409746e-07;
    p = p * r + 2.7557268459997064e-06;
    p = p * r + 2.4801521295954376e-05;
    p = p * r + 0.00019841269863053618;
    p = p * r + 0.0013888888917213717;
    p = p * r + 0.008333333333330062;
    p = p * r + 0.04166666666662413;
    p = p * r + 0.16666666666666669;
    p = p * r + 0.5;
    found.tail = (r * r) * p;
    return found;
}

HERD_LOOP(void, herd_exp_each, (double *restrict x, ptrdiff_t count), (x, count))
{
    for (ptrdiff_t i = 0; i < count; i++) {
        const herd_parts p = herd_reduced(x[i]);
        const double sum = p.high + 1.0, rest = p.high - (sum - 1.0);
        const double found = ((sum + (rest + (p.tail - p.low))) * p.first) * p.second;
        x[i] = x[i] != x[i] ? x[i] : found;
    }
}

HERD_LOOP(void, herd_expm1_each, (double *restrict x, ptrdiff_t count), (x, count))
{
    for (ptrdiff_t i = 0; i < count; i++) {
        const herd_parts p = herd_reduced(x[i]);
        const double q = (p.high - p.low) + p.tail;
        const double found = (q * p.first + (p.first - p.inverse)) * p.second;
        x[i] = x[i] != x[i] ? x[i] : found;
    }
}

/* log(u (1 + rest)), rest at most a unit of rounding. */
HERD_INLINE double herd_logarithm(double u, double rest)
{
    const double y = u < 0x1p-1022 ? u * 0x1p54 : u;
    const double less = u < 0x1p-1022 ? 1077.0 : 1023.0;
    const uint64_t bits = herd_bits(y), exponent = (bits + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu)) >> 52;
    const double k = (herd_number(exponent | 0x4330000000000000u) - 0x1p52) - less;
    const double f = herd_number(bits - ((exponent - 1023) << 52)) - 1.0;
    const double s = f / (f + 2.0), z = s * s, h = (f * 0.5) * f;
    double p = z * 0.14616585424888623 + 0.15331710618210773;
    p = p * z + 0.18182889455674947;
    p = p * z + 0.22222211130259878;
    p = p * z + 0.2857142862600327;
    p = p * z + 0.39999999999899444;
    p = p * z + 0.6666666666666667;
    const double low = s * (z * p + h) + (k * HERD_LN2_LOW + rest);
    double found = k * HERD_LN2_HIGH - ((h - low) - f);
    found = u == 0.0 ? -__builtin_inf() : found;
    found = u < 0.0 ? __builtin_nan("") : found;
    return u > 1.7976931348623157e308 || u != u ? u : found;
}

HERD_LOOP(void, herd_log_each, (double *restrict x, ptrdiff_t count), (x, count))
{
    for (ptrdiff_t i = 0; i < count; i++)
        x[i] = herd_logarithm(x[i], 0.0);
}

HERD_LOOP(void, herd_log1p_each, (double *restrict x, ptrdiff_t count), (x, count))
{
    for (ptrdiff_t i = 0; i < count; i++) {
        const double u = x[i] + 1.0, back = u - 1.0;
        const double rest = (1.0 - (u - back)) + (x[i] - back);
        x[i] = herd_logarithm(u, rest / u);
    }
}

/* Products.  A panel holds up to HERD_DEPTH rows of b, HERD_STRIP bytes of each, zeros where b has no more columns. */
typedef struct {
    ptrdiff_t rows, columns, depth; /* out (rows, columns) = a (rows, depth) b (depth, columns) */
    ptrdiff_t a_down, a_along, b_down, b_along, out_down, out_along; /* in numbers */
} herd_shape;

#define HERD_DEFINE_STRIP(NAME, REAL, BYTES, ROWS, TARGET)                                                                                 \
    typedef REAL NAME##_vector __attribute__((vector_size(BYTES), may_alias));                                                             \
    static inline __attribute__((always_inline)) TARGET void NAME##_rows(const int rows, const REAL *a, ptrdiff_t down, ptrdiff_t along,   \
                                                                         const REAL *panel, ptrdiff_t depth, REAL *sums)                   \
    {                                                                                                                                      \
        enum { VECTORS = HERD_STRIP / BYTES };                                                                                             \
        NAME##_vector s[ROWS * VECTORS];                                                                                                   \
        _Pragma("GCC unroll 16") for (int v = 0; v < rows * VECTORS; v++) s[v] = (NAME##_vector){0};                                       \
        for (ptrdiff_t k = 0; k < depth; k++) {                                                                                            \
            const NAME##_vector *b = (const NAME##_vector *)((const char *)panel + k * HERD_STRIP);                                        \
            _Pragma("GCC unroll 16") for (int v = 0; v < rows * VECTORS; v++)                                                              \
                s[v] = s[v] + a[(v / VECTORS) * down + k * along] * b[v % VECTORS];                                                        \
        }                                                                                                                                  \
        _Pragma("GCC unroll 16") for (int v = 0; v < rows * VECTORS; v++) ((NAME##_vector *)sums)[v] = s[v];                               \
    }                                                                                                                                      \
    TARGET static void NAME(const herd_shape *shape, const REAL *a, const REAL *panel, ptrdiff_t depth, ptrdiff_t columns, REAL *out,      \
                            int first)                                                                                                     \
    {                                                                                                                                      \
        enum { LANES = HERD_STRIP / sizeof(REAL) };                                                                                        \
        REAL sums[ROWS * LANES] __attribute__((aligned(64)));                                                                              \
        for (ptrdiff_t i = 0; i < shape->rows;) {                                                                                          \
            const int full = shape->rows - i >= ROWS;                                                                                      \
            const REAL *row = a + i * shape->a_down;                                                                                       \
            if (full)                                                                                                                      \
                NAME##_rows(ROWS, row, shape->a_down, shape->a_along, panel, depth, sums);                                                 \
            else                                                                                                                           \
                NAME##_rows(1, row, shape->a_down, shape->a_along, panel, depth, sums);                                                    \
            for (int r = 0; r < (full ? ROWS : 1); r++, i++) {                                                                             \
                REAL *place = out + i * shape->out_down;                                                                                   \
                for (ptrdiff_t j = 0; j < columns; j++) {                                                                                  \
                    REAL *entry = place + j * shape->out_along;                                                                            \
                    *entry = first ? sums[r * LANES + j] : *entry + sums[r * LANES + j];                                                   \
                }                                                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

/* out = a b, panel after panel. */
#define HERD_DEFINE_PRODUCT(NAME, REAL)                                                                                                    \
    static void NAME##_panel(const herd_shape *shape, const REAL *b, ptrdiff_t depth, ptrdiff_t columns, REAL *restrict panel)             \
    {                                                                                                                                      \
        enum { LANES = HERD_STRIP / sizeof(REAL) };                                                                                        \
        if (columns < LANES)                                                                                                               \
            memset(panel, 0, (size_t)depth * HERD_STRIP);                                                                                  \
        if (shape->b_along == 1) {                                                                                                         \
            for (ptrdiff_t k = 0; k < depth; k++)                                                                                          \
                memcpy(panel + k * LANES, b + k * shape->b_down, (size_t)columns * sizeof(REAL));                                          \
            return;                                                                                                                        \
        }                                                                                                                                  \
        for (ptrdiff_t k = 0; k < depth; k += 16)                                                                                          \
            for (ptrdiff_t j = 0; j < columns; j++)                                                                                        \
                for (ptrdiff_t l = k; l < (k + 16 < depth ? k + 16 : depth); l++)                                                          \
                    panel[l * LANES + j] = b[l * shape->b_down + j * shape->b_along];                                                      \
    }                                                                                                                                      \
    static void NAME(const herd_shape *shape, const REAL *a, const REAL *b, REAL *out, NAME##_strip *strip)                                \
    {                                                                                                                                      \
        enum { LANES = HERD_STRIP / sizeof(REAL) };                                                                                        \
        REAL panel[HERD_DEPTH * LANES] __attribute__((aligned(64)));                                                                       \
        for (ptrdiff_t k = 0; k < shape->depth; k += HERD_DEPTH)                                                                           \
            for (ptrdiff_t j = 0; j < shape->columns; j += LANES) {                                                                        \
                const ptrdiff_t depth = shape->depth - k < HERD_DEPTH ? shape->depth - k : HERD_DEPTH;                                     \
                const ptrdiff_t columns = shape->columns - j < LANES ? shape->columns - j : LANES;                                         \
                NAME##_panel(shape, b + k * shape->b_down + j * shape->b_along, depth, columns, panel);                                    \
                strip(shape, a + k * shape->a_along, panel, depth, columns, out + j * shape->out_along, k == 0);                           \
            }                                                                                                                              \
    }

typedef void herd_product_double_strip(const herd_shape *, const double *, const double *, ptrdiff_t, ptrdiff_t, double *, int);
typedef void herd_product_float_strip(const herd_shape *, const float *, const float *, ptrdiff_t, ptrdiff_t, float *, int);
HERD_DEFINE_PRODUCT(herd_product_double, double)
HERD_DEFINE_PRODUCT(herd_product_float, float)

HERD_DEFINE_STRIP(herd_double_16, double, 16, 1, )
HERD_DEFINE_STRIP(herd_float_16, float, 16, 1, )
#ifdef HERD_X86
HERD_DEFINE_STRIP(herd_double_32, double, 32, 2, HERD_AVX2)
HERD_DEFINE_STRIP(herd_float_32, float, 32, 2, HERD_AVX2)
HERD_DEFINE_STRIP(herd_double_64, double, 64, 8, HERD_AVX512)
HERD_DEFINE_STRIP(herd_float_64, float, 64, 8, HERD_AVX512)
#endif

static herd_product_double_strip *const herd_strips_double[] = {
#ifdef HERD_X86
    herd_double_16, herd_double_32, herd_double_64
#else
    herd_double_16
#endif
};
static herd_product_float_strip *const herd_strips_float[] = {
#ifdef HERD_X86
    herd_float_16, herd_float_32, herd_float_64
#else
    herd_float_16
#endif
};

/* The same with the operands' roles exchanged: out' = b' a', whose entries are the same sums. */
static herd_shape herd_turned(const herd_shape *s)
{
    const herd_shape turned = {s->columns, s->rows, s->depth, s->b_along, s->b_down, s->a_along, s->a_down, s->out_along, s->out_down};
    return turned;
}

/* What a product costs whose right operand is packed, by terms: multiplications with those of lanes that stay empty, packing, storing. */
static double herd_cost(const herd_shape *s, ptrdiff_t lanes)
{
    const double terms = (double)(s->depth < HERD_DEPTH ? s->depth : HERD_DEPTH), rows = (double)s->rows, columns = (double)s->columns;
    const double stored = s->out_along == 1 ? 0.0 : rows * columns * 16.0 / terms;
    return rows * (double)((s->columns + lanes - 1) / lanes * lanes) + columns * (s->b_along == 1 ? 2.0 : 6.0) + stored;
}

static void herd_multiply_double(const herd_shape *shape, const double *a, const double *b, double *out)
{
    const herd_shape turned = herd_turned(shape);
    if (herd_cost(&turned, HERD_STRIP / 8) < herd_cost(shape, HERD_STRIP / 8))
        herd_product_double(&turned, b, a, out, herd_strips_double[herd_set]);
    else
        herd_product_double(shape, a, b, out, herd_strips_double[herd_set]);
}

static void herd_multiply_float(const herd_shape *shape, const float *a, const float *b, float *out)
{
    const herd_shape turned = herd_turned(shape);
    if (herd_cost(&turned, HERD_STRIP / 4) < herd_cost(shape, HERD_STRIP / 4))
        herd_product_float(&turned, b, a, out, herd_strips_float[herd_set]);
    else
        herd_product_float(shape, a, b, out, herd_strips_float[herd_set]);
}
