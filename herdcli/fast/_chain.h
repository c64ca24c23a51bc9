/* Forward and backward passes along chains of states: the loops of _chain.pyx.
 *
 * States come in eights, the places beyond the last one hold zeros.  Sums over states are taken one by one in order, states side by
 * side; compiled with -ffp-contract=off and without fast-math, both twins give the same bits whatever the vector width.
 *
 * Each loop does the steps first <= t < last of one chain, so that a caller can look at signals between stretches of a long chain.  The
 * pointers are those of the whole chain, and room keeps what the next stretch needs.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "logistic.h"

#define HERD_STATES 8
#define HERD_TINY 1e-290 /* below it a number counts as 0: no subnormal numbers, which are slow */
typedef double herd_eight __attribute__((vector_size(8 * HERD_STATES), aligned(8), may_alias));
typedef int64_t herd_eight_whole __attribute__((vector_size(8 * HERD_STATES), aligned(8), may_alias));

#define HERD_AT(pointer) (*(herd_eight *)(pointer))
#define HERD_CONST_AT(pointer) (*(const herd_eight *)(pointer))

/* sum_j row[j], one after the other. */
HERD_INLINE double herd_total(const double *row, ptrdiff_t states)
{
    double sum = 0;
    for (ptrdiff_t j = 0; j < states; j++)
        sum = sum + row[j];
    return sum;
}

/* out[j] = sum_i row[i] matrix[i, j] */
HERD_INLINE void herd_advance(const double *restrict row, const double *restrict matrix, ptrdiff_t states, ptrdiff_t width, double *restrict out)
{
    for (ptrdiff_t j = 0; j < width; j += HERD_STATES) {
        herd_eight sum = {0};
        for (ptrdiff_t i = 0; i < states; i++)
            sum = sum + row[i] * HERD_CONST_AT(matrix + i * width + j);
        HERD_AT(out + j) = sum;
    }
}

/* row[j] = before[j] * b[j], those below TINY as 0; whether one was lost that way. */
HERD_INLINE int herd_weigh(const double *before, const double *b, ptrdiff_t width, double *row)
{
    int64_t lost = 0;
    for (ptrdiff_t start = 0; start < width; start += HERD_STATES)
        for (int k = 0; k < HERD_STATES; k++) {
            const double p = before[start + k], q = b[start + k], product = p * q;
            row[start + k] = product >= HERD_TINY ? product : 0.0;
            lost |= (p > 0) & (q > 0) & !(product >= HERD_TINY);
        }
    return lost != 0;
}

/* Filtered states of a stretch, its scales, and whether a small number was lost.  room  width. */
HERD_LOOP(int, herd_chain_forward,
          (const double *restrict b, ptrdiff_t first, ptrdiff_t last, ptrdiff_t states, ptrdiff_t width, const double *restrict initial, const double *restrict transition, double *restrict alpha, double *restrict scale, double *restrict room),
          (b, first, last, states, width, initial, transition, alpha, scale, room))
{
    int lost = 0;
    for (ptrdiff_t t = first; t < last; t++) {
        double *row = alpha + t * width;
        if (t == 0)
            memcpy(room, initial, width * sizeof(double));
        else
            herd_advance(row - width, transition, states, width, room);
        lost |= herd_weigh(room, b + t * width, width, row);
        const double c = herd_total(row, states);
        scale[t] = c;
        const double inverse = c > 0 ? 1.0 / c : 0.0;
        for (ptrdiff_t j = 0; j < width; j += HERD_STATES)
            HERD_AT(row + j) = HERD_AT(row + j) * inverse;
    }
    return lost;
}

/* Smoothed states in the place of b; pairs += weight times sum_t alpha_{t-1}(i) w_t(j), w_t = b_t beta_t / scale_t.
 *
 * Stretches go from the last of the chain's `steps` to the first.  The largest beta of the stretch is returned.
 * room  width * (states + 2). */
HERD_LOOP(double, herd_chain_backward,
          (double *restrict b, ptrdiff_t first, ptrdiff_t last, ptrdiff_t steps, ptrdiff_t states, ptrdiff_t width, const double *restrict backwards, const double *restrict alpha, const double *restrict scale, double weight, double *restrict pairs, double *restrict room),
          (b, first, last, steps, states, width, backwards, alpha, scale, weight, pairs, room))
{
    double *beta = room, *w = room + width, *own = room + 2 * width;
    double high = 1.0;
    double top[HERD_STATES] = {0};
    if (last == steps) {
        for (ptrdiff_t j = 0; j < width; j++)
            beta[j] = j < states ? 1.0 : 0.0;
        memset(own, 0, states * width * sizeof(double));
    }
    for (ptrdiff_t t = last - 1; t >= first; t--) {
        double *row = b + t * width;
        const double *here = alpha + t * width, *before = here - width;
        if (t > 0) {
            const double inverse = scale[t] > 0 ? 1.0 / scale[t] : 0.0;
            for (ptrdiff_t j = 0; j < width; j += HERD_STATES)
                HERD_AT(w + j) = HERD_AT(beta + j) * inverse;
            herd_weigh(w, row, width, w);
        }
        for (ptrdiff_t j = 0; j < width; j += HERD_STATES)
            HERD_AT(row + j) = HERD_CONST_AT(here + j) * HERD_AT(beta + j);
        if (t == 0)
            break;
        for (ptrdiff_t j = 0; j < width; j += HERD_STATES) {
            const herd_eight ahead = HERD_AT(w + j);
            for (ptrdiff_t i = 0; i < states; i++)
                HERD_AT(own + i * width + j) = HERD_AT(own + i * width + j) + before[i] * ahead;
        }
        herd_advance(w, backwards, states, width, beta);
        for (ptrdiff_t j = 0; j < width; j += HERD_STATES)
            for (int k = 0; k < HERD_STATES; k++)
                top[k] = beta[j + k] > top[k] ? beta[j + k] : top[k];
    }
    for (ptrdiff_t i = 0; i < states * width && first == 0 && weight > 0; i++)
        pairs[i] = pairs[i] + weight * own[i];
    for (int k = 0; k < HERD_STATES; k++)
        high = top[k] > high ? top[k] : high;
    return high;
}

/* The likeliest states before each state of a stretch.  logs, transition and initial are logarithms.
 *
 * room  2 * width: the values at step t are at (t % 2) * width.      back  steps * width. */
HERD_LOOP(void, herd_chain_viterbi,
          (const double *restrict logs, ptrdiff_t first, ptrdiff_t last, ptrdiff_t states, ptrdiff_t width, const double *restrict initial, const double *restrict transition, int32_t *restrict back, double *restrict room),
          (logs, first, last, states, width, initial, transition, back, room))
{
    for (ptrdiff_t t = first; t < last; t++) {
        const double *now = room + (t + 1) % 2 * width;
        double *next = room + t % 2 * width;
        if (t == 0) {
            for (ptrdiff_t j = 0; j < width; j++)
                next[j] = initial[j] + logs[j];
            continue;
        }
        for (ptrdiff_t j = 0; j < width; j += HERD_STATES) {
            herd_eight best = now[0] + HERD_CONST_AT(transition + j);
            herd_eight_whole place = {0};
            for (ptrdiff_t i = 1; i < states; i++) {
                const herd_eight through = now[i] + HERD_CONST_AT(transition + i * width + j);
                const herd_eight_whole better = through > best, here = (herd_eight_whole){0} + (int64_t)i;
                best = (herd_eight)(((herd_eight_whole)through & better) | ((herd_eight_whole)best & ~better));
                place = (here & better) | (place & ~better);
            }
            HERD_AT(next + j) = best + HERD_CONST_AT(logs + t * width + j);
            for (int k = 0; k < HERD_STATES; k++)
                back[t * width + j + k] = (int32_t)place[k];
        }
    }
}

/* The likeliest path after all stretches: out[t]; its log probability. */
static double herd_chain_trace(ptrdiff_t steps, ptrdiff_t states, ptrdiff_t width, const int32_t *back, int64_t *out, const double *room)
{
    const double *now = room + (steps - 1) % 2 * width;
    int64_t state = 0;
    for (ptrdiff_t j = 1; j < states; j++)
        state = now[j] > now[state] ? j : state;
    const double value = now[state];
    for (ptrdiff_t t = steps - 1; t >= 0; t--) {
        out[t] = state;
        if (t > 0)
            state = back[t * width + state];
    }
    return value;
}

/* The first place at which the running sum of row exceeds u times its total; the last one above 0 if rounding left none. */
HERD_INLINE int64_t herd_pick(const double *row, ptrdiff_t states, double u)
{
    const double wanted = u * herd_total(row, states);
    double sum = 0;
    int64_t last = 0;
    for (ptrdiff_t j = 0; j < states; j++) {
        sum = sum + row[j];
        if (row[j] > 0) {
            last = j;
            if (sum > wanted)
                break;
        }
    }
    return last;
}

/* A path from its posterior, last state and last stretch first: out[t] by uniform[t].  room  width. */
HERD_LOOP(void, herd_chain_path,
          (const double *restrict alpha, ptrdiff_t first, ptrdiff_t last, ptrdiff_t steps, ptrdiff_t states, ptrdiff_t width, const double *restrict backwards, const double *restrict uniform, int64_t *restrict out, double *restrict room),
          (alpha, first, last, steps, states, width, backwards, uniform, out, room))
{
    for (ptrdiff_t t = last - 1; t >= first; t--) {
        const double *row = alpha + t * width;
        if (t < steps - 1) {
            const double *towards = backwards + out[t + 1] * width;
            for (ptrdiff_t j = 0; j < width; j += HERD_STATES)
                HERD_AT(room + j) = HERD_CONST_AT(row + j) * HERD_CONST_AT(towards + j);
            row = room;
        }
        out[t] = herd_pick(row, states, uniform[t]);
    }
}
