/* The two nearest of many centres, and products of columns.  The inner loops run along the rows and have no branches, so that they are vectorised. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "simd.h"

#define CLUSTERS_LANES 8

#define CLUSTERS_NEAREST_TWO_BODY(REAL)                                                                                                    \
        for (ptrdiff_t i = 0; i < rows; i++) {                                                                                             \
            best[i] = 0;                                                                                                                   \
            first[i] = second[i] = INFINITY;                                                                                               \
        }                                                                                                                                  \
        for (ptrdiff_t k = 0; k < centres; k++) {                                                                                          \
            const REAL *restrict row = scores + k * rows;                                                                                  \
            const REAL offset = offsets[k], place = (REAL)k;                                                                               \
            for (ptrdiff_t i = 0; i < rows; i++) {                                                                                         \
                const REAL score = row[i] + offset, least = first[i], next = second[i];                                                    \
                const REAL larger = score < least ? least : score;                                                                         \
                second[i] = larger < next ? larger : next;                                                                                 \
                best[i] = score < least ? place : best[i];                                                                                 \
                first[i] = score < least ? score : least;                                                                                  \
            }                                                                                                                              \
        }

HERD_LOOP(void, clusters_nearest_two, (const double *restrict scores, const double *restrict offsets, ptrdiff_t centres, ptrdiff_t rows, double *restrict best, double *restrict first, double *restrict second),
          (scores, offsets, centres, rows, best, first, second))
{
    CLUSTERS_NEAREST_TWO_BODY(double)
}

HERD_LOOP(void, clusters_nearest_two_single, (const float *restrict scores, const float *restrict offsets, ptrdiff_t centres, ptrdiff_t rows, float *restrict best, float *restrict first, float *restrict second),
          (scores, offsets, centres, rows, best, first, second))
{
    CLUSTERS_NEAREST_TWO_BODY(float)
}

/* Of a block of CLUSTERS_ROWS rows, one behind the other in each column: distances from a candidate, whether they are below the limits
 * plus the margins, and the sum of weights times the lower of distance and limit. */
#define CLUSTERS_ROWS 32
HERD_LOOP(double, clusters_block_cost, (const float *restrict block, ptrdiff_t D, const float *restrict candidate, float own, const float *restrict norms, const float *restrict limits, const double *restrict weights, float margin, uint8_t *restrict closer),
          (block, D, candidate, own, norms, limits, weights, margin, closer))
{
    float sums[CLUSTERS_ROWS] = {0};
    double lanes[CLUSTERS_LANES] = {0}, total = 0.0;
    for (ptrdiff_t d = 0; d < D; d++) {
        const float c = candidate[d];
        for (int i = 0; i < CLUSTERS_ROWS; i++)
            sums[i] += c * block[d * CLUSTERS_ROWS + i];
    }
    for (int i = 0; i < CLUSTERS_ROWS; i++) {
        const float both = norms[i] + own, distance = both - 2.0f * sums[i];
        closer[i] = distance < limits[i] + margin * both;
        sums[i] = distance < limits[i] ? distance : limits[i];
    }
    for (int first = 0; first < CLUSTERS_ROWS; first += CLUSTERS_LANES)
        for (int l = 0; l < CLUSTERS_LANES; l++)
            lanes[l] += (double)sums[first + l] * weights[first + l];
    for (int l = 0; l < CLUSTERS_LANES; l++)
        total += lanes[l];
    return total;
}

/* count[k] += w and total[k] += w z for each row z of cluster k, row after row.  Returns the sum of w |z|², each |z|² in lanes. */
HERD_LOOP(double, clusters_add_rows, (const double *restrict rows, const int64_t *restrict nearest, const double *restrict weights, ptrdiff_t n, ptrdiff_t D, double *restrict count, double *restrict total),
          (rows, nearest, weights, n, D, count, total))
{
    double squares = 0.0;
    for (ptrdiff_t i = 0; i < n; i++, rows += D) {
        double *restrict own = total + nearest[i] * D, lanes[CLUSTERS_LANES] = {0}, square = 0.0;
        const double w = weights[i];
        ptrdiff_t d = 0;
        for (; d + CLUSTERS_LANES <= D; d += CLUSTERS_LANES)
            for (int l = 0; l < CLUSTERS_LANES; l++) {
                own[d + l] += w * rows[d + l];
                lanes[l] += rows[d + l] * rows[d + l];
            }
        for (int l = 0; d < D; d++, l++) {
            own[d] += w * rows[d];
            lanes[l] += rows[d] * rows[d];
        }
        for (int l = 0; l < CLUSTERS_LANES; l++)
            square += lanes[l];
        count[nearest[i]] += w;
        squares += w * square;
    }
    return squares;
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
