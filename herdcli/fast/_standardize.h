/* Features of a stream about their running means: the loop of _standardize.pyx.
 *
 * scales[FIELDS f + …] of feature f; its twin numpy_standardize.py says what stands there.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { SEEN, SIZE, LOCATION, DEVIATION, CENTRED, FIELDS };

typedef struct {
    int32_t *list; /* features that are centred, in rising order */
    int32_t *mark; /* of each feature: the row that had it last, counted from 1 */
    int64_t count; /* of the list */
} standardize_centred;

static int standardize_order(const void *a, const void *b)
{
    const int32_t one = *(const int32_t *)a, two = *(const int32_t *)b;
    return (one > two) - (one < two);
}

/* A value about its feature's mean: 0 where they differ by rounding alone. */
static inline double standardize_about(double x, double mean)
{
    const double d = x - mean;
    return fabs(d) > 1e-12 * fabs(mean) ? d : 0.0;
}

/* Over the mean deviation: the first row of all has none, since its value is the mean. */
static inline double standardize_scaled(const double *at, double d)
{
    const double rows = at[CENTRED] > 2.0 ? at[CENTRED] - 1.0 : 1.0;
    return at[DEVIATION] > 0.0 ? d * rows / at[DEVIATION] : 0.0;
}

/* The t-th value of a centred feature, which moves its mean and deviation. */
static inline double standardize_next(double *at, double x, double t)
{
    double d;
    at[LOCATION] += (x - at[LOCATION]) / t;
    d = standardize_about(x, at[LOCATION]);
    at[CENTRED] += 1.0;
    at[DEVIATION] += fabs(d);
    return standardize_scaled(at, d);
}

static inline double standardize_by_size(const double *at, double x)
{
    return at[SIZE] > 0.0 ? x * at[SEEN] / at[SIZE] : (double)((x > 0.0) - (x < 0.0));
}

/* Rows from `row` on, until the room of `capacity` entries might not hold the next one.  Returns the row that comes next. */
static int64_t standardize_rows(double *restrict scales, standardize_centred *centred, const int64_t *pointer, const int32_t *restrict index,
                                const double *restrict x, const uint8_t *frozen, int64_t row, int64_t rows, int64_t capacity,
                                int64_t *restrict out_pointer, int32_t *restrict out_index, double *restrict out)
{
    int64_t used = out_pointer[row];
    for (; row < rows; row++) {
        const int still = frozen && frozen[row];
        const double t = scales[SEEN] + (still ? 0.0 : 1.0);
        const int64_t begin = pointer[row], end = pointer[row + 1];
        int64_t joined = 0, left = 0;
        if (used + (end - begin) + centred->count > capacity)
            return row;
        for (int64_t i = begin; i < end; i++) {
            const int32_t f = index[i];
            double *const at = scales + (ptrdiff_t)f * FIELDS;
            double value;
            if (still) {
                value = at[CENTRED] > 0.0 ? standardize_scaled(at, standardize_about(x[i], at[LOCATION])) : standardize_by_size(at, x[i]);
            } else {
                at[SEEN] += x[i] != 0.0 ? 1.0 : 0.0;
                at[SIZE] += fabs(x[i]);
                if (at[CENTRED] > 0.0) {
                    value = standardize_next(at, x[i], t);
                } else {
                    at[LOCATION] += x[i];
                    if (f > 0 && 4.0 * at[SEEN] > 3.0 * t) {
                        const double d = standardize_about(x[i], at[LOCATION] / t);
                        at[LOCATION] /= t;
                        at[CENTRED] = 1.0;
                        at[DEVIATION] = fabs(d);
                        value = standardize_scaled(at, d);
                        centred->list[centred->count + joined++] = f;
                    } else {
                        value = standardize_by_size(at, x[i]);
                    }
                }
            }
            if (at[CENTRED] > 0.0)
                centred->mark[f] = (int32_t)row + 1;
            out_index[used] = f;
            out[used++] = value;
        }
        for (int64_t k = 0; k < centred->count; k++) {
            const int32_t f = centred->list[k];
            double *const at = scales + (ptrdiff_t)f * FIELDS;
            if (centred->mark[f] != (int32_t)row + 1) {
                if (!still && 8.0 * at[SEEN] < 5.0 * t) {
                    at[LOCATION] *= t - 1.0;
                    at[DEVIATION] = at[CENTRED] = 0.0;
                    continue;
                }
                out_index[used] = f;
                out[used++] = still ? standardize_scaled(at, standardize_about(0.0, at[LOCATION])) : standardize_next(at, 0.0, t);
            }
            centred->list[left++] = f;
        }
        for (int64_t k = 0; k < joined; k++)
            centred->list[left + k] = centred->list[centred->count + k];
        centred->count = left + joined;
        if (joined)
            qsort(centred->list, (size_t)centred->count, sizeof(int32_t), standardize_order);
        out_pointer[row + 1] = used;
    }
    return rows;
}
