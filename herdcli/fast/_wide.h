/* Harmoniums of many visible units of which few are on: the loops of _wide.pyx, explained in numpy_wide.py.
 *
 * Every operation is one rounding in the order of numpy_wide.py; compiled with -ffp-contract=off both give the same bits.
 */
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include "logistic.h"

#define HERD_LANES 32
#define HERD_AHEAD 16
#define HERD_LISTED 64

typedef struct { /* weights as they were, and what becomes of them */
    const float *W, *V;       /* (D, K) */
    const int32_t *lag;       /* (D,) where in the tables */
    const float *P;           /* (T, 4) */
    const float *QH;          /* (n, T) */
    const float *bias, *mean; /* (D,) */
    ptrdiff_t K, T;
} herd_lagging;

/* Lanes added up in halves. */
HERD_INLINE float herd_fold(float *s)
{
    for (int half = HERD_LANES / 2; half > 0; half /= 2)
        for (int t = 0; t < half; t++)
            s[t] = s[t] + s[t + half];
    return s[0];
}

HERD_INLINE float herd_dot(const float *restrict w, const float *restrict h, ptrdiff_t K)
{
    float s[HERD_LANES] = {0};
    ptrdiff_t k = 0;
    for (; k + HERD_LANES <= K; k += HERD_LANES)
        for (int t = 0; t < HERD_LANES; t++)
            s[t] += w[k + t] * h[k + t];
    for (int t = 0; k + t < K; t++)
        s[t] += w[k + t] * h[k + t];
    return herd_fold(s);
}

/* e^y; what is above 0 counts as 0, and what is below -87 as that. */
HERD_INLINE float herd_share(float y)
{
    y = y < -87.0f ? -87.0f : y;
    return herd_exp(y > 0.0f ? 0.0f : y);
}

HERD_INLINE uint64_t herd_mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Two rows that will be read. */
HERD_INLINE void herd_fetch(const float *w, const float *v, ptrdiff_t K)
{
#if defined(__GNUC__)
    for (ptrdiff_t k = 0; k < K; k += 16) {
        __builtin_prefetch(w + k);
        __builtin_prefetch(v + k);
    }
#endif
}

/* |x|, and the largest x.h of low <= h <= high. */
HERD_INLINE void herd_extents(const float *restrict x, ptrdiff_t K, float low, float high, float *length, float *reach)
{
    float s[HERD_LANES] = {0}, l[HERD_LANES] = {0};
    ptrdiff_t k = 0;
    for (; k + HERD_LANES <= K; k += HERD_LANES)
        for (int t = 0; t < HERD_LANES; t++) {
            const float y = x[k + t], a = low * y, b = high * y;
            s[t] += y * y;
            l[t] += a > b ? a : b;
        }
    for (int t = 0; k + t < K; t++) {
        const float y = x[k + t], a = low * y, b = high * y;
        s[t] += y * y;
        l[t] += a > b ? a : b;
    }
    *length = sqrtf(herd_fold(s));
    *reach = herd_fold(l);
}

HERD_LOOP(void, herd_current_rows,
          (const float *restrict W, const float *restrict V, const int64_t *restrict rows, ptrdiff_t count, ptrdiff_t K, const int32_t *restrict lag,
           const float *restrict P, const float *restrict Q, const float *restrict mean, float *restrict W_out, float *restrict V_out),
          (W, V, rows, count, K, lag, P, Q, mean, W_out, V_out))
{
    for (ptrdiff_t r = 0; r < count; r++) {
        const ptrdiff_t i = rows[r], s = lag[i];
        const float p0 = P[4 * s], p1 = P[4 * s + 1], p2 = P[4 * s + 2], p3 = P[4 * s + 3], m = mean[i];
        const float *w = W + i * K, *v = V + i * K, *q = Q + 2 * s * K;
        for (ptrdiff_t k = 0; k < K; k++) {
            W_out[r * K + k] = (p0 * w[k] + p1 * v[k]) - m * q[k];
            V_out[r * K + k] = (p2 * w[k] + p3 * v[k]) - m * q[K + k];
        }
    }
}

HERD_LOOP(void, herd_row_extents, (const float *x, ptrdiff_t rows, ptrdiff_t K, float low, float high, float *lengths, float *reaches),
          (x, rows, K, low, high, lengths, reaches))
{
    for (ptrdiff_t i = 0; i < rows; i++)
        herd_extents(x + i * K, K, low, high, lengths + i, reaches + i);
}

/* out[n] <- sum of value times the weights as they are now, entry after entry. */
HERD_LOOP(void, herd_shown_product,
          (const float *restrict W, const float *restrict V, const int32_t *restrict lag, const float *restrict P, const float *restrict Q,
           const float *restrict mean, ptrdiff_t K, const int32_t *restrict starts, const int32_t *restrict units, const float *restrict values,
           ptrdiff_t rows, float *restrict out),
          (W, V, lag, P, Q, mean, K, starts, units, values, rows, out))
{
    const int32_t last = starts[rows];
    for (ptrdiff_t n = 0; n < rows; n++) {
        float *restrict o = out + n * K;
        for (ptrdiff_t k = 0; k < K; k++)
            o[k] = 0.0f;
        for (int32_t e = starts[n]; e < starts[n + 1]; e++) {
            const ptrdiff_t i = units[e], s = lag[i];
            const float p0 = P[4 * s], p1 = P[4 * s + 1], m = mean[i], x = values[e];
            const float *w = W + i * K, *v = V + i * K, *q = Q + 2 * s * K;
            if (e + 2 < last)
                herd_fetch(W + (ptrdiff_t)units[e + 2] * K, V + (ptrdiff_t)units[e + 2] * K, K);
            for (ptrdiff_t k = 0; k < K; k++)
                o[k] += x * ((p0 * w[k] + p1 * v[k]) - m * q[k]);
        }
    }
}

/* Entries in the order of their units: a stable counting sort; how many units there are. */
static int32_t herd_by_unit(const int32_t *units, ptrdiff_t count, ptrdiff_t D, int32_t *room, int32_t *order, int64_t *distinct, int32_t *heads)
{
    int32_t found = 0, total = 0;
    memset(room, 0, D * sizeof(int32_t));
    for (ptrdiff_t e = 0; e < count; e++)
        room[units[e]]++;
    for (ptrdiff_t i = 0; i < D; i++)
        if (room[i]) {
            const int32_t more = room[i];
            distinct[found] = i;
            heads[found++] = total;
            room[i] = total;
            total += more;
        }
    heads[found] = total;
    for (ptrdiff_t e = 0; e < count; e++)
        order[room[units[e]]++] = (int32_t)e;
    return found;
}

/* What each unit's natural parameter can have moved by for each unit of |h|. */
static void herd_slacks(const int32_t *lag, const float *far, const float *size, const float *change, const float *mean, const float *bias, ptrdiff_t D,
                        float *out)
{
    for (ptrdiff_t i = 0; i < D; i++) {
        const float *f = far + 3 * (ptrdiff_t)lag[i];
        out[i] = ((f[0] * size[i] + f[1] * change[i]) + f[2] * mean[i]) + 1e-6f * (1.0f + fabsf(bias[i]));
    }
}

typedef struct {
    const int64_t *units; /* (r,) */
    const int32_t *heads, *entry_rows;
    const float *entry_values, *h, *signs, *lambda, *gamma;
    const uint8_t *constant;
    float rate, momentum, decay, low, high;
    ptrdiff_t count;
} herd_motion;

/* The step of some units; the largest |w| as bits. */
HERD_LOOP(uint32_t, herd_move_units,
          (const herd_motion *restrict g, float *restrict W, float *restrict V, const int32_t *restrict lag, const float *restrict P, const float *restrict Q,
           const float *restrict mean, ptrdiff_t K, float *restrict G, float *restrict own, float *restrict dots, float *restrict follows,
           float *restrict size, float *restrict change, float *restrict reach),
          (g, W, V, lag, P, Q, mean, K, G, own, dots, follows, size, change, reach))
{
    uint32_t largest = 0;
    const float rate = g->rate, momentum = g->momentum, decay = g->decay, low = g->low, high = g->high;
    const float *restrict lambda = g->lambda, *restrict gamma = g->gamma;
    for (ptrdiff_t r = 0; r < g->count; r++) {
        const ptrdiff_t i = g->units[r], s = lag[i];
        const float p0 = P[4 * s], p1 = P[4 * s + 1], p2 = P[4 * s + 2], p3 = P[4 * s + 3], m = mean[i];
        const float *restrict q = Q + 2 * s * K;
        float *restrict w = W + i * K, *restrict v = V + i * K;
        float sum = 0.0f;
        if (r + 1 < g->count)
            herd_fetch(W + g->units[r + 1] * K, V + g->units[r + 1] * K, K);
        for (ptrdiff_t k = 0; k < K; k++)
            G[k] = 0.0f;
        for (int32_t e = g->heads[r]; e < g->heads[r + 1]; e++) {
            const float x = g->entry_values[e];
            const float *restrict h = g->h + (ptrdiff_t)g->entry_rows[e] * K;
            sum += x * g->signs[g->entry_rows[e]];
            for (ptrdiff_t k = 0; k < K; k++)
                G[k] += x * h[k];
        }
        own[r] = sum;
        if (g->constant[i])
            for (ptrdiff_t k = 0; k < K; k++)
                G[k] = 0.0f;
        else
            for (ptrdiff_t k = 0; k < K; k++)
                G[k] = (G[k] - sum * lambda[k]) - m * gamma[k];
        dots[r] = herd_dot(G, lambda, K);
        for (ptrdiff_t k = 0; k < K; k++)
            follows[k] += m * G[k];
        for (ptrdiff_t k = 0; k < K; k++) {
            const float a = (p0 * w[k] + p1 * v[k]) - m * q[k], b = (p2 * w[k] + p3 * v[k]) - m * q[K + k];
            const float c = b * momentum + rate * (G[k] - decay * a), d = a + c;
            uint32_t bits;
            v[k] = c;
            w[k] = d;
            memcpy(&bits, &d, sizeof bits);
            bits &= 0x7FFFFFFFu;
            largest = bits > largest ? bits : largest;
        }
        herd_extents(w, K, low, high, size + i, reach + i);
        herd_extents(v, K, low, high, change + i, &sum);
    }
    return largest;
}

/* Numbers of a stream, 64 bits each. */
HERD_LOOP(void, herd_fill_words, (uint64_t seed, uint64_t *restrict out, ptrdiff_t count), (seed, out, count))
{
    for (ptrdiff_t i = 0; i < count; i++)
        out[i] = herd_mixed(seed + (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u);
}

/* Units whose word may be below 2^16 p, row by row.  The bits of a float, as a whole number, are 2^23 (127 + its logarithm to base 2) or
 * less, and p <= e^x. */
HERD_LOOP(int32_t, herd_list_below,
          (const float *restrict natural, const float *restrict bias, const uint16_t *restrict words, ptrdiff_t rows, ptrdiff_t units,
           int32_t *restrict starts, int32_t *restrict listed),
          (natural, bias, words, rows, units, starts, listed))
{
    int32_t count = 0;
    for (ptrdiff_t i = 0; i < rows; i++) {
        const float *restrict x = natural + i * units;
        const uint16_t *restrict word = words + i * (units + 1);
        starts[i] = count;
        for (ptrdiff_t first = 0; first < units; first += HERD_LISTED) {
            const ptrdiff_t end = first + HERD_LISTED < units ? first + HERD_LISTED : units;
            uint8_t below[HERD_LISTED];
            int32_t any = 0;
            for (ptrdiff_t j = first; j < end; j++) {
                const float number = (float)word[j];
                int32_t bits;
                memcpy(&bits, &number, sizeof bits);
                const int32_t one = (float)bits < (x[j] + bias[j]) * 12102203.0f + 1199570944.0f;
                below[j - first] = (uint8_t)one;
                any |= one;
            }
            if (any)
                for (ptrdiff_t j = first; j < end; j++)
                    if (below[j - first])
                        listed[count++] = (int32_t)j;
        }
    }
    starts[rows] = count;
    return count;
}

HERD_INLINE float herd_rest(const herd_lagging *g, ptrdiff_t n, const float *h, ptrdiff_t i, float stale)
{
    const ptrdiff_t s = g->lag[i];
    const float moved = g->P[4 * s + 1] == 0.0f ? 0.0f : herd_dot(g->V + i * g->K, h, g->K);
    return ((g->P[4 * s] * stale + g->P[4 * s + 1] * moved) - g->mean[i] * g->QH[n * g->T + s]) + g->bias[i];
}

HERD_LOOP(void, herd_natural_at, (const herd_lagging *g, const float *H, const int32_t *starts, const int32_t *listed, ptrdiff_t rows, float *out),
          (g, H, starts, listed, rows, out))
{
    for (ptrdiff_t n = 0; n < rows; n++)
        for (int32_t k = starts[n]; k < starts[n + 1]; k++) {
            if (k + 4 < starts[rows])
                herd_fetch(g->W + (ptrdiff_t)listed[k + 4] * g->K, g->V + (ptrdiff_t)listed[k + 4] * g->K, g->K);
            out[k] = herd_rest(g, n, H + n * g->K, listed[k], herd_dot(g->W + (ptrdiff_t)listed[k] * g->K, H + n * g->K, g->K));
        }
}

static void herd_guide(const double *sums, ptrdiff_t count, int32_t *guide)
{
    const double step = sums[count - 1] / (double)count;
    ptrdiff_t i = 0;
    for (ptrdiff_t g = 0; g < count; g++) {
        while (i < count - 1 && sums[i] <= (double)g * step)
            i++;
        guide[g] = (int32_t)i;
    }
}

/* Words of each row by rejection; how many were tried. */
HERD_LOOP(int64_t, herd_draw_words,
          (const herd_lagging *g, const float *H, const float *slack, const float *reach, const float *upper, const double *sums, const int32_t *guide,
           ptrdiff_t units, const int64_t *lengths, const uint64_t *seeds, ptrdiff_t rows, int32_t *drawn),
          (g, H, slack, reach, upper, sums, guide, units, lengths, seeds, rows, drawn))
{
    const double total = sums[units - 1], inverse = (double)units / total;
    int64_t tries = 0;
    for (ptrdiff_t n = 0; n < rows; n++) {
        const float *h = H + n * g->K;
        int64_t left = lengths[n], number = 0;
        while (left > 0) {
            int32_t places[HERD_AHEAD];
            for (int a = 0; a < HERD_AHEAD; a++) {
                const uint64_t z = herd_mixed(seeds[n] + (uint64_t)(2 * (number + a) + 1) * 0x9E3779B97F4A7C15u);
                const double u = (double)(z >> 11) * 0x1p-53 * total;
                ptrdiff_t cell = (ptrdiff_t)(u * inverse) - 1;
                cell = cell < 0 ? 0 : cell >= units ? units - 1 : cell;
                ptrdiff_t i = guide[cell];
                while (i < units - 1 && sums[i] <= u)
                    i++;
                places[a] = (int32_t)i;
#if defined(__GNUC__)
                for (ptrdiff_t k = 0; k < g->K; k += 16)
                    __builtin_prefetch(g->W + i * g->K + k);
#endif
            }
            for (int a = 0; a < HERD_AHEAD && left > 0; a++, number++) {
                const ptrdiff_t i = places[a];
                const uint64_t z = herd_mixed(seeds[n] + (uint64_t)(2 * number + 2) * 0x9E3779B97F4A7C15u);
                const double u = (double)(z >> 11) * 0x1p-53;
                const float stale = herd_dot(g->W + i * g->K, h, g->K);
                tries++;
                if (u >= (double)herd_share(((stale + g->bias[i]) + slack[i] * reach[n]) - upper[i]))
                    continue;
                if (u < (double)herd_share(herd_rest(g, n, h, i, stale) - upper[i])) {
                    *drawn++ = (int32_t)i;
                    left--;
                }
            }
        }
    }
    return tries;
}
