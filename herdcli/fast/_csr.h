/* Products with CSR rows for several vectors at a time, whose entries lie side by side.  The inner loops run along the vectors. */
#include <stddef.h>
#include <stdint.h>
#include "simd.h"

#define CSR_MOST 16 /* vectors whose sums stay in registers */

typedef struct {
    const int32_t *starts, *columns;
    const double *values;
} csr_rows;

#if defined(__GNUC__)
typedef double csr_four __attribute__((vector_size(32), aligned(8), may_alias));
typedef double csr_eight __attribute__((vector_size(64), aligned(8), may_alias));
#define CSR_ADD_SCALED(LANES, TO, VALUE, FROM) *(TO) += (VALUE) * *(FROM)
#else
typedef struct {
    double lane[4];
} csr_four;
typedef struct {
    double lane[8];
} csr_eight;
#define CSR_ADD_SCALED(LANES, TO, VALUE, FROM)                                                                                             \
    for (int l = 0; l < LANES; l++)                                                                                                        \
        (TO)->lane[l] += (VALUE) * (FROM)->lane[l]
#endif

/* Sums of one row for 1, 4, 8, 12 or 16 vectors, a constant. */
HERD_INLINE void csr_add_row(const csr_rows *Z, ptrdiff_t row, const double *v, ptrdiff_t K, const int count, double *found)
{
    const int32_t *restrict columns = Z->columns, end = Z->starts[row + 1];
    const double *restrict values = Z->values;
    csr_eight eights[2];
    csr_four four;
    double sum = 0.0;
    memset(eights, 0, sizeof eights);
    memset(&four, 0, sizeof four);
    for (int32_t e = Z->starts[row]; e < end; e++) {
        const double *from = v + columns[e] * K;
        if (count == 1)
            sum += values[e] * from[0];
        for (int k = 0; k < count / 8; k++)
            CSR_ADD_SCALED(8, eights + k, values[e], (const csr_eight *)from + k);
        if (count % 8 == 4)
            CSR_ADD_SCALED(4, &four, values[e], (const csr_four *)(from + count - 4));
    }
    if (count == 1)
        found[0] = sum;
    memcpy(found, eights, (size_t)(count / 8) * sizeof *eights);
    if (count % 8 == 4)
        memcpy(found + count - 4, &four, sizeof four);
}

HERD_INLINE void csr_spread_row(const csr_rows *Z, ptrdiff_t row, const double *u, ptrdiff_t K, const int count, double *restrict out)
{
    const int32_t *restrict columns = Z->columns, end = Z->starts[row + 1];
    const double *restrict values = Z->values;
    const double single = u[0];
    csr_eight eights[2];
    csr_four four;
    memcpy(eights, u, (size_t)(count / 8) * sizeof *eights);
    if (count % 8 == 4)
        memcpy(&four, u + count - 4, sizeof four);
    for (int32_t e = Z->starts[row]; e < end; e++) {
        double *to = out + columns[e] * K;
        if (count == 1)
            to[0] += values[e] * single;
        for (int k = 0; k < count / 8; k++)
            CSR_ADD_SCALED(8, (csr_eight *)to + k, values[e], eights + k);
        if (count % 8 == 4)
            CSR_ADD_SCALED(4, (csr_four *)(to + count - 4), values[e], &four);
    }
}

#define CSR_FOR_EACH_GROUP(CALL)                                                                                                           \
    for (ptrdiff_t first = 0; first < K; first += CSR_MOST)                                                                                \
        switch (K - first < CSR_MOST ? K - first : CSR_MOST) {                                                                             \
        case 1: CALL(1); break;                                                                                                            \
        case 4: CALL(4); break;                                                                                                            \
        case 8: CALL(8); break;                                                                                                            \
        case 12: CALL(12); break;                                                                                                          \
        default: CALL(16);                                                                                                                 \
        }

#define CSR_ADD(COUNT) csr_add_row(Z, row, v + first, K, COUNT, found + first)
#define CSR_SPREAD(COUNT) csr_spread_row(Z, row, u + first, K, COUNT, out + first)

HERD_LOOP(void, csr_product, (const csr_rows *Z, ptrdiff_t rows, const double *v, ptrdiff_t K, double *out), (Z, rows, v, K, out))
{
    for (ptrdiff_t row = 0; row < rows; row++) {
        double *found = out + row * K;
        CSR_FOR_EACH_GROUP(CSR_ADD)
    }
}

HERD_LOOP(void, csr_add_transposed, (const csr_rows *Z, ptrdiff_t rows, const double *values, ptrdiff_t K, double *out), (Z, rows, values, K, out))
{
    for (ptrdiff_t row = 0; row < rows; row++) {
        const double *u = values + row * K;
        CSR_FOR_EACH_GROUP(CSR_SPREAD)
    }
}

/* u (rows, K) becomes w (curve u - curve (curve'u)), or w curve u for one vector. */
HERD_LOOP(void, csr_curve, (const double *restrict curve, const double *restrict weight, ptrdiff_t rows, ptrdiff_t K, double *restrict u), (curve, weight, rows, K, u))
{
    if (K == 1) {
        for (ptrdiff_t row = 0; row < rows; row++)
            u[row] = u[row] * curve[row] * weight[row];
        return;
    }
    for (ptrdiff_t row = 0; row < rows; row++, curve += K, u += K) {
        double total = 0.0;
        for (ptrdiff_t k = 0; k < K; k += 4)
            for (int lane = 0; lane < 4; lane++)
                u[k + lane] *= curve[k + lane];
        for (ptrdiff_t k = 0; k < K; k++)
            total += u[k];
        for (ptrdiff_t k = 0; k < K; k += 4)
            for (int lane = 0; lane < 4; lane++)
                u[k + lane] = (u[k + lane] - curve[k + lane] * total) * weight[row];
    }
}
