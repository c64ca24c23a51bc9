/* Dual coordinate ascent over rows whose multipliers are kept: the loop of _dual.pyx; its twin numpy_dual.py says what is solved.
 *
 * weights[classes * feature + class].  Sums run over a row's entries one after the other, as the twin's do.
 */
#include "simd.h"

/* Scores of all classes; returns the sum of squares of the row. */
HERD_LOOP(double, dual_scores,
          (const double *restrict weights, ptrdiff_t classes, const int32_t *restrict index, const double *restrict x, ptrdiff_t count, double *restrict score),
          (weights, classes, index, x, count, score))
{
    double squares = 0.0;
    if (classes == 1) {
        double total = 0.0;
        for (ptrdiff_t i = 0; i < count; i++) {
            total += weights[index[i]] * x[i];
            squares += x[i] * x[i];
        }
        score[0] = total;
        return squares;
    }
    for (ptrdiff_t z = 0; z < classes; z++)
        score[z] = 0.0;
    for (ptrdiff_t i = 0; i < count; i++) {
        const double *entry = weights + (ptrdiff_t)index[i] * classes;
        const double xi = x[i];
        for (ptrdiff_t z = 0; z < classes; z++)
            score[z] += entry[z] * xi;
        squares += xi * xi;
    }
    return squares;
}

/* weights += move x' */
HERD_LOOP(void, dual_move,
          (double *restrict weights, ptrdiff_t classes, const int32_t *restrict index, const double *restrict x, ptrdiff_t count, const double *restrict move),
          (weights, classes, index, x, count, move))
{
    for (ptrdiff_t i = 0; i < count; i++) {
        double *entry = weights + (ptrdiff_t)index[i] * classes;
        const double xi = x[i];
        for (ptrdiff_t z = 0; z < classes; z++)
            entry[z] += move[z] * xi;
    }
}

/* The multiplier α ≥ 0 of the margin m of a direction with |direction|² = squares, after its coordinate step. */
static inline double dual_step(double alpha, double m, double squares, double slack)
{
    const double next = alpha + (1.0 - m - alpha * slack) / (squares + slack);
    return next > 0.0 ? next : 0.0;
}

static int64_t dual_rows(double *weights, ptrdiff_t classes, const int64_t *pointer, const int32_t *index, const double *value,
                         const int32_t *label, const double *weight, const int64_t *place, ptrdiff_t rows, double C, int rivals,
                         double *multipliers, double *running, double *score, double *squares, double *move, double *scores)
{
    int64_t updates = 0;
    for (ptrdiff_t row = 0; row < rows; row++) {
        const int64_t begin = pointer[row], count = pointer[row + 1] - begin;
        const ptrdiff_t y = label[row];
        double *const s = score + row * classes, *const alpha = multipliers + place[row] * classes;
        const double xx = dual_scores(weights, classes, index + begin, value + begin, count, s);
        double slack;
        int changed = 0;
        squares[row] = xx;
        if ((weight && weight[row] == 0.0) || !(xx > 0.0))
            continue;
        running[0] += 1.0;
        running[1] += xx;
        slack = 1.0 / (2.0 * C * (weight ? weight[row] : 1.0));
        for (ptrdiff_t z = 0; z < classes; z++) {
            move[z] = 0.0;
            scores[z] = s[z];
        }
        for (ptrdiff_t z = 0; z < classes; z++) {
            double next, delta;
            if (classes > 1 && rivals) {
                if (z == y)
                    continue;
                next = dual_step(alpha[z], scores[y] - scores[z], 2.0 * xx, slack);
                delta = next - alpha[z];
                move[y] += delta;
                move[z] -= delta;
                scores[y] += delta * xx;
                scores[z] -= delta * xx;
            } else {
                const double sign = (classes == 1 ? y > 0 : z == y) ? 1.0 : -1.0;
                next = dual_step(alpha[z], sign * s[z], xx, slack);
                delta = next - alpha[z];
                move[z] = sign * delta;
            }
            changed |= delta != 0.0;
            alpha[z] = next;
        }
        if (changed)
            dual_move(weights, classes, index + begin, value + begin, count, move);
        updates += changed;
    }
    return updates;
}
