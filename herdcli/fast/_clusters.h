/* The two nearest of many centres, and products of columns.  The inner loops run along the rows and have no branches, so that they are vectorised. */
#include <math.h>
#include <stddef.h>

static void clusters_nearest_two(const double *restrict scores, const double *restrict offsets, ptrdiff_t centres, ptrdiff_t rows,
                                 double *restrict best, double *restrict first, double *restrict second)
{
    for (ptrdiff_t i = 0; i < rows; i++) {
        best[i] = 0.0;
        first[i] = second[i] = INFINITY;
    }
    for (ptrdiff_t k = 0; k < centres; k++) {
        const double *restrict row = scores + k * rows;
        const double offset = offsets[k], place = (double)k;
        for (ptrdiff_t i = 0; i < rows; i++) {
            const double score = row[i] + offset, least = first[i], next = second[i];
            const double larger = score < least ? least : score;
            second[i] = larger < next ? larger : next;
            best[i] = score < least ? place : best[i];
            first[i] = score < least ? score : least;
        }
    }
}

/* Row by row of `found`: columns[i] · columns[j] for i ≤ j. */
static void clusters_pair_products(const double *restrict columns, ptrdiff_t count, ptrdiff_t rows, double *restrict found)
{
    for (ptrdiff_t i = 0; i < count; i++) {
        const double *restrict left = columns + i * rows;
        for (ptrdiff_t j = i; j < count; j++, found += rows) {
            const double *restrict right = columns + j * rows;
            for (ptrdiff_t n = 0; n < rows; n++)
                found[n] = left[n] * right[n];
        }
    }
}
