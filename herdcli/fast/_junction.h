/* Sums of a clique's cells into a scope's, and back: the loops of _junction.pyx. */
#include <stddef.h>
#include <stdint.h>

static void herd_project(const double *restrict table, const int32_t *restrict cell, ptrdiff_t cells, double *restrict out, ptrdiff_t n)
{
    for (ptrdiff_t j = 0; j < n; j++)
        out[j] = 0;
    for (ptrdiff_t i = 0; i < cells; i++)
        out[cell[i]] += table[i];
    double total = 0;
    for (ptrdiff_t j = 0; j < n; j++)
        total = j ? total + out[j] : out[j];
    if (total > 0)
        for (ptrdiff_t j = 0; j < n; j++)
            out[j] /= total;
}

static void herd_spread(double *restrict table, const int32_t *restrict cell, ptrdiff_t cells, const double *restrict ratio)
{
    for (ptrdiff_t i = 0; i < cells; i++)
        table[i] *= ratio[cell[i]];
}
