/* Gibbs sampling of two-state units and the update of their weights: the loops of _gibbs.pyx.
 *
 * Every operation is one float32 rounding in the order of numpy_gibbs.py; compiled with
 * -ffp-contract=off and without fast-math, both give the same bits whatever the vector width.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "logistic.h"

HERD_LOOP(void, herd_logistic_each, (float *restrict x, ptrdiff_t count), (x, count))
{
    for (ptrdiff_t i = 0; i < count; i++)
        x[i] = herd_clamp(x[i]);
    for (ptrdiff_t i = 0; i < count; i++)
        x[i] = herd_logistic(x[i]);
}

HERD_LOOP(void, herd_means_row,
          (float *restrict natural, const float *restrict bias, ptrdiff_t units, float gain, float offset, float slope),
          (natural, bias, units, gain, offset, slope))
{
    for (ptrdiff_t j = 0; j < units; j++)
        natural[j] = herd_clamp((natural[j] + bias[j]) * gain);
    for (ptrdiff_t j = 0; j < units; j++)
        natural[j] = herd_logistic(natural[j]) * slope + offset;
}

/* `states` holds the words as float32 in between, so that one vector width serves the second loop. */
HERD_LOOP(void, herd_sample_row,
          (float *restrict natural, const float *restrict bias, ptrdiff_t units, float gain, float offset, float slope, const uint16_t *restrict words, float low, float high, float *restrict states),
          (natural, bias, units, gain, offset, slope, words, low, high, states))
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
HERD_LOOP(uint32_t, herd_momentum,
          (float *restrict weights, float *restrict velocity, const float *restrict gradient, ptrdiff_t count, float rate, float momentum, float decay),
          (weights, velocity, gradient, count, rate, momentum, decay))
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

/* The step of centred models: row by row the gradient of the centred model, what the biases follow, and the momentum step, in one pass.
 * Sums along a row are kept in HERD_LANES lanes, which are added one after the other at its end; see numpy_gibbs.py. */
#define HERD_LANES 16
HERD_INLINE void herd_centred_entries(float *restrict weights, float *restrict velocity, float *restrict gradient, const float *restrict hidden_mean,
                                      const float *restrict above, float *restrict follows, float *restrict lanes, uint32_t *restrict tops, ptrdiff_t count,
                                      float b, float mean, float rate, float momentum, float decay)
{
    for (ptrdiff_t l = 0; l < count; l++) {
        const float g = gradient[l] - (b * hidden_mean[l] + mean * above[l]);
        gradient[l] = g;
        lanes[l] += g * hidden_mean[l];
        follows[l] += mean * g;
        const float v = velocity[l] * momentum + rate * (g - decay * weights[l]), w = weights[l] + v;
        uint32_t bits;
        velocity[l] = v;
        weights[l] = w;
        memcpy(&bits, &w, sizeof bits);
        bits &= 0x7FFFFFFFu;
        tops[l] = bits > tops[l] ? bits : tops[l];
    }
}

HERD_LOOP(uint32_t, herd_centred_momentum,
          (float *restrict weights, float *restrict velocity, float *restrict gradient, ptrdiff_t rows, ptrdiff_t width, float *restrict bias,
           const float *restrict means, const float *restrict hidden_mean, const float *restrict above, float share, float rate, float momentum, float decay, float *restrict follows),
          (weights, velocity, gradient, rows, width, bias, means, hidden_mean, above, share, rate, momentum, decay, follows))
{
    uint32_t tops[HERD_LANES] = {0}, largest = 0;
    for (ptrdiff_t j = 0; j < rows; j++, weights += width, velocity += width, gradient += width) {
        float lanes[HERD_LANES] = {0}, sum = 0.0f;
        const float b = bias[j], mean = means[j];
        ptrdiff_t k = 0;
        for (; k + HERD_LANES <= width; k += HERD_LANES)
            herd_centred_entries(weights + k, velocity + k, gradient + k, hidden_mean + k, above + k, follows + k, lanes, tops, HERD_LANES, b, mean, rate,
                                 momentum, decay);
        herd_centred_entries(weights + k, velocity + k, gradient + k, hidden_mean + k, above + k, follows + k, lanes, tops, width - k, b, mean, rate,
                             momentum, decay);
        for (int l = 0; l < HERD_LANES; l++)
            sum += lanes[l];
        bias[j] = b - share * sum;
    }
    for (int l = 0; l < HERD_LANES; l++)
        largest = tops[l] > largest ? tops[l] : largest;
    return largest;
}

/* out (rows, width) <- running sums of each row of x, one addition after the other.  An addition waits for the last one of its row:
 * several rows in turns wait together. */
#define HERD_ABREAST 8
static void herd_running_sums(const float *x, double *out, ptrdiff_t rows, ptrdiff_t width)
{
    for (ptrdiff_t first = 0; first < rows; first += HERD_ABREAST) {
        const ptrdiff_t count = rows - first < HERD_ABREAST ? rows - first : HERD_ABREAST;
        const float *from = x + first * width;
        double *to = out + first * width, sums[HERD_ABREAST] = {0};
        if (count == HERD_ABREAST) {
            for (ptrdiff_t j = 0; j < width; j++)
                for (int i = 0; i < HERD_ABREAST; i++)
                    to[i * width + j] = sums[i] += from[i * width + j];
            continue;
        }
        for (ptrdiff_t j = 0; j < width; j++)
            for (ptrdiff_t i = 0; i < count; i++)
                to[i * width + j] = sums[i] += from[i * width + j];
    }
}

/* Sparse times dense.  Columns are done in panels: the sums of one stay in registers, its rows stay near. */
#define HERD_PANEL 64
#define HERD_NEAR (1 << 17) /* entries of a matrix that stays near the processor */
#define HERD_READS 8

/* Defines NAME for vectors of BYTES: out[i, skip:columns] += the sum, one after the other, of the rows listed for i times their coefficients.
 * Rows of `panel` are `apart` floats apart: those of a copy near the processor, or of the matrix itself. */
#define HERD_DEFINE_ADD_PANEL(NAME, BYTES, TARGET)                                                                                     \
    typedef float NAME##_vector __attribute__((vector_size(BYTES), aligned(4), may_alias));                                            \
    TARGET static void NAME(float *restrict out, ptrdiff_t width, ptrdiff_t rows, ptrdiff_t skip, ptrdiff_t columns, const float *restrict panel,      \
                            ptrdiff_t apart, const int32_t *restrict starts, const int32_t *restrict listed, const float *restrict coefficients)        \
    {                                                                                                                                  \
        enum { LANES = BYTES / 4, COUNT = HERD_PANEL / LANES };                                                                        \
        float sums[HERD_PANEL];                                                                                                        \
        for (ptrdiff_t i = 0; i < rows; i++) {                                                                                         \
            if (starts[i] == starts[i + 1])                                                                                            \
                continue;                                                                                                              \
            NAME##_vector s[COUNT];                                                                                                    \
            for (int t = 0; t < COUNT; t++)                                                                                            \
                s[t] = (NAME##_vector){0};                                                                                             \
            for (int32_t k = starts[i]; k < starts[i + 1]; k++) {                                                                      \
                const float *row = panel + (ptrdiff_t)listed[k] * apart;                                                               \
                const float c = coefficients[k];                                                                                       \
                for (int t = 0; t < COUNT; t++)                                                                                        \
                    s[t] = s[t] + c * *(const NAME##_vector *)(row + t * LANES);                                                       \
            }                                                                                                                          \
            for (int t = 0; t < COUNT; t++)                                                                                            \
                *(NAME##_vector *)(sums + t * LANES) = s[t];                                                                           \
            for (ptrdiff_t j = skip; j < columns; j++)                                                                                 \
                out[i * width + j] += sums[j];                                                                                         \
        }                                                                                                                              \
    }

typedef void herd_add_panel(float *restrict, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t, const float *restrict, ptrdiff_t, const int32_t *restrict, const int32_t *restrict,
                            const float *restrict);

HERD_DEFINE_ADD_PANEL(herd_add_panel_16, 16, )
#ifdef HERD_X86
HERD_DEFINE_ADD_PANEL(herd_add_panel_32, 32, HERD_AVX2)
HERD_DEFINE_ADD_PANEL(herd_add_panel_64, 64, HERD_AVX512)
static herd_add_panel *const herd_add_panels[] = {herd_add_panel_16, herd_add_panel_32, herd_add_panel_64};
#else
static herd_add_panel *const herd_add_panels[] = {herd_add_panel_16};
#endif

/* Words of scratch that herd_add_sparse_product needs. */
static ptrdiff_t herd_sparse_scratch(ptrdiff_t rows, ptrdiff_t inner) { return rows + 1 + 2 * rows * inner + HERD_PANEL * inner + 16; }

/* Is any of HERD_RUN floats not 0?  -0 may count. */
#define HERD_RUN 16
#define HERD_FEW 16
static inline int herd_any(const float *x)
{
    uint32_t bits[HERD_RUN], any = 0;
    memcpy(bits, x, sizeof bits);
    for (int t = 0; t < HERD_RUN; t++)
        any |= bits[t];
    return any != 0;
}

/* The entries of a matrix that are not 0, row by row: columns in `listed`, values in `coefficients`, those of row i from starts[i] on. */
static int32_t herd_list_rows(const float *sparse, ptrdiff_t down, ptrdiff_t rows, ptrdiff_t inner, int32_t *starts, int32_t *listed, float *coefficients)
{
    int32_t count = 0;
    for (ptrdiff_t i = 0; i < rows; i++) {
        const float *row = sparse + i * down;
        starts[i] = count;
        for (ptrdiff_t first = 0; first < inner; first += HERD_RUN) {
            const ptrdiff_t end = first + HERD_RUN < inner ? first + HERD_RUN : inner;
            if (end - first == HERD_RUN && !herd_any(row + first))
                continue;
            for (ptrdiff_t j = first; j < end; j++) {
                listed[count] = (int32_t)j;
                count += row[j] != 0.0f;
            }
        }
        for (int32_t k = starts[i]; k < count; k++)
            coefficients[k] = row[listed[k]];
    }
    starts[rows] = count;
    return count;
}

/* The same of any matrix, entries of a row `along` floats apart. */
static int32_t herd_list_each(const float *sparse, ptrdiff_t down, ptrdiff_t along, ptrdiff_t rows, ptrdiff_t inner, int32_t *starts, int32_t *listed,
                              float *coefficients)
{
    int32_t count = 0;
    for (ptrdiff_t i = 0; i < rows; i++) {
        const float *row = sparse + i * down;
        starts[i] = count;
        for (ptrdiff_t j = 0; j < inner; j++) {
            listed[count] = (int32_t)j;
            count += row[j * along] != 0.0f;
        }
        for (int32_t k = starts[i]; k < count; k++)
            coefficients[k] = row[listed[k] * along];
    }
    starts[rows] = count;
    return count;
}

/* The same of a matrix whose columns lie in memory one after the other, `along` floats apart: it is read as it lies, and listed by rows. */
static int32_t herd_list_columns(const float *sparse, ptrdiff_t along, ptrdiff_t rows, ptrdiff_t inner, int32_t *starts, int32_t *listed, float *coefficients)
{
    memset(starts, 0, (rows + 1) * sizeof(int32_t));
    for (ptrdiff_t j = 0; j < inner; j++)
        for (ptrdiff_t i = 0; i < rows; i++)
            starts[i + 1] += sparse[j * along + i] != 0.0f;
    for (ptrdiff_t i = 0; i < rows; i++)
        starts[i + 1] += starts[i];
    const int32_t count = starts[rows];
    if ((ptrdiff_t)count * HERD_FEW > rows * inner) /* so many that a guess which are 0 is often wrong */
        return herd_list_each(sparse, 1, along, rows, inner, starts, listed, coefficients);
    for (ptrdiff_t j = 0; j < inner; j++) {
        const float *column = sparse + j * along;
        for (ptrdiff_t first = 0; first < rows; first += HERD_RUN) {
            const ptrdiff_t end = first + HERD_RUN < rows ? first + HERD_RUN : rows;
            if (end - first == HERD_RUN && !herd_any(column + first))
                continue;
            for (ptrdiff_t i = first; i < end; i++)
                if (column[i] != 0.0f) {
                    listed[starts[i]] = (int32_t)j;
                    coefficients[starts[i]++] = column[i];
                }
        }
    }
    for (ptrdiff_t i = rows; i > 0; i--) /* each start has moved to the next one */
        starts[i] = starts[i - 1];
    starts[0] = 0;
    return count;
}

/* out (rows, width) += sparse (rows, inner) dense (inner, width); the entries of sparse are `down` and `along` floats apart. */
static void herd_add_sparse_product(const float *sparse, ptrdiff_t down, ptrdiff_t along, const float *dense, float *out, ptrdiff_t rows, ptrdiff_t inner,
                                    ptrdiff_t width, int32_t *scratch)
{
    herd_add_panel *const add_panel = herd_add_panels[herd_set];
    int32_t *starts = scratch, *listed = starts + rows + 1, count = 0;
    float *coefficients = (float *)(listed + rows * inner), *panel = coefficients + rows * inner;
    panel += (16 - ((uintptr_t)panel / sizeof(float)) % 16) % 16; /* 64-byte boundary */
    if (along == 1)
        count = herd_list_rows(sparse, down, rows, inner, starts, listed, coefficients);
    else if (down == 1)
        count = herd_list_columns(sparse, along, rows, inner, starts, listed, coefficients);
    else
        count = herd_list_each(sparse, down, along, rows, inner, starts, listed, coefficients);
    /* A copy of the panel pays where its rows are read often, or far away: not where fewer rows are read than it has, nor in a small matrix. */
    const int near = count < inner || (inner * width <= HERD_NEAR && count < HERD_READS * inner);
    for (ptrdiff_t first = 0; first < width; first += HERD_PANEL) {
        const ptrdiff_t columns = width - first < HERD_PANEL ? width - first : HERD_PANEL;
        if (near && width >= HERD_PANEL) { /* the last panel begins earlier, at columns that were done before */
            const ptrdiff_t from = width - HERD_PANEL < first ? width - HERD_PANEL : first;
            add_panel(out + from, width, rows, first - from, HERD_PANEL, dense + from, width, starts, listed, coefficients);
            continue;
        }
        if (columns < HERD_PANEL)
            memset(panel, 0, inner * HERD_PANEL * sizeof(float));
        for (ptrdiff_t j = 0; j < inner; j++)
            memcpy(panel + j * HERD_PANEL, dense + j * width + first, columns * sizeof(float));
        add_panel(out + first, width, rows, 0, columns, panel, HERD_PANEL, starts, listed, coefficients);
    }
}
