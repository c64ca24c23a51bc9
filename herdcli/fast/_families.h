/* Loops of _families.pyx; numpy_families.py documents them. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>

static void herd_count_one(const int32_t *code, int64_t shared, const uint8_t *packed, ptrdiff_t rows, uint32_t *hist)
{
    for (ptrdiff_t r = 0; r < rows; r++)
        hist[packed[r] * shared + code[r]]++;
}

/* Two histograms at a time: additions to one cell after the other wait for each other, those to two tables do not. */
static void herd_count_two(const int32_t *code, int64_t shared, const uint8_t *one, const uint8_t *two, ptrdiff_t rows, uint32_t *left,
                           uint32_t *right)
{
    for (ptrdiff_t r = 0; r < rows; r++) {
        left[one[r] * shared + code[r]]++;
        right[two[r] * shared + code[r]]++;
    }
}

static void herd_weigh_one(const int32_t *code, int64_t shared, const uint8_t *packed, const double *weight, ptrdiff_t rows, double *hist)
{
    for (ptrdiff_t r = 0; r < rows; r++)
        hist[packed[r] * shared + code[r]] += weight[r];
}

/* The table of each wanted member, summed over the others of its group. */
#define HERD_SHARE(NAME, TYPE)                                                                                                              \
    static void NAME(const TYPE *hist, int64_t shared, const int64_t *states, const int64_t *start, ptrdiff_t members, double *out)         \
    {                                                                                                                                       \
        int64_t outer = 1, inner = 1;                                                                                                       \
        for (ptrdiff_t m = 0; m < members; m++)                                                                                             \
            inner *= states[m];                                                                                                             \
        for (ptrdiff_t m = 0; m < members; m++) {                                                                                           \
            inner /= states[m];                                                                                                             \
            if (start[m] >= 0)                                                                                                              \
                for (int64_t o = 0; o < outer; o++)                                                                                         \
                    for (int64_t s = 0; s < states[m]; s++) {                                                                               \
                        const TYPE *from = hist + (o * states[m] + s) * inner * shared;                                                     \
                        double *to = out + start[m] + s * shared;                                                                           \
                        for (int64_t i = 0; i < inner; i++)                                                                                 \
                            for (int64_t c = 0; c < shared; c++)                                                                            \
                                to[c] += from[i * shared + c];                                                                              \
                    }                                                                                                                       \
            outer *= states[m];                                                                                                             \
        }                                                                                                                                   \
    }

HERD_SHARE(herd_share_counts, uint32_t)
HERD_SHARE(herd_share_weights, double)

static ptrdiff_t herd_gather(const double *tables, const int64_t *rows, ptrdiff_t count, ptrdiff_t states, const double *alpha, double *out)
{
    double *at = out;
    for (ptrdiff_t k = 0; k < count; k++)
        for (int64_t row = 0; row < rows[k]; row++, tables += states) {
            double total = 0;
            for (ptrdiff_t s = 0; s < states; s++)
                total += tables[s];
            if (!(total > 0))
                continue;
            *at++ = total + alpha[k] * states;
            for (ptrdiff_t s = 0; s < states; s++)
                if (tables[s] > 0)
                    *at++ = tables[s] + alpha[k];
        }
    return at - out;
}

static void herd_sum_terms(const double *tables, const int64_t *rows, ptrdiff_t count, ptrdiff_t states, const double *values,
                           const double *cell_base, const double *row_base, double *out)
{
    for (ptrdiff_t k = 0; k < count; k++) {
        double of_rows = 0, of_cells = 0;
        for (int64_t row = 0; row < rows[k]; row++, tables += states) {
            double total = 0;
            for (ptrdiff_t s = 0; s < states; s++)
                total += tables[s];
            if (!(total > 0))
                continue;
            of_rows += row_base[k] - *values++;
            for (ptrdiff_t s = 0; s < states; s++)
                if (tables[s] > 0)
                    of_cells += *values++ - cell_base[k];
        }
        out[k] = of_rows + of_cells;
    }
}

typedef struct {
    ptrdiff_t count;
    const uint8_t *edge, *below, *allowed, *required;
    const double *add, *away;
    uint8_t *tabu, *full;
    double needed;
} herd_graph_changes;

/* The gain of a kind of change of i -> j, or -infinity. */
static double herd_gain(const herd_graph_changes *g, int kind, ptrdiff_t i, ptrdiff_t j)
{
    const ptrdiff_t n = g->count, at = i * n + j, back = j * n + i;
    double worth;
    if (kind == 0) {
        if (g->edge[at] || g->below[back] || !g->allowed[at] || g->full[j])
            return -HUGE_VAL;
        worth = g->add[at];
    } else {
        if (!g->edge[at] || g->required[at])
            return -HUGE_VAL;
        worth = g->away[at];
        if (kind == 2) {
            if (!g->allowed[back] || g->full[i])
                return -HUGE_VAL;
            for (ptrdiff_t k = 0; k < n; k++)
                if (g->edge[i * n + k] && g->below[k * n + j])
                    return -HUGE_VAL;
            worth += g->add[back];
        }
    }
    return g->tabu[at] && worth <= g->needed ? -HUGE_VAL : worth;
}

/* The place of the best change: (kind n + i) n + j. */
static ptrdiff_t herd_best_change(const herd_graph_changes *g, double equal, double *gain)
{
    const ptrdiff_t n = g->count;
    double best = -HUGE_VAL;
    for (int kind = 0; kind < 3; kind++)
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t j = 0; j < n; j++) {
                const double worth = herd_gain(g, kind, i, j);
                if (worth > best)
                    best = worth;
            }
    *gain = best;
    for (int kind = 0; kind < 3; kind++)
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t j = 0; j < n; j++)
                if (herd_gain(g, kind, i, j) >= best - equal)
                    return (kind * n + i) * n + j;
    return 0;
}
