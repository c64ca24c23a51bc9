/* Online learning of linear classifiers: the loops of _online.pyx.
 *
 * table[row][0][class] is the mean and table[row][1][class] the variance of a weight: both in one cache line.  Row 0 is
 * the bias.  Sums run in an order that the NumPy twin repeats: the results are the same bits.
 */
#include <math.h>
#include "simd.h"

#if defined(__GNUC__)
#define ONLINE_FETCH(address, level) __builtin_prefetch(address, 0, level)
#else
#define ONLINE_FETCH(address, level) ((void)(address))
#endif

enum { NHERD, AROW, CW, SCW1, SCW2, PA, PA1, PA2, PERCEPTRON, SOP };
enum { EXACT, PROJECT, DROP };
enum { SQUARED_HINGE, LOG, SQUARED };

typedef struct { double alpha, gamma, shrink, curvature; } online_step;
typedef struct { int rule, form, loss, always; double C, phi; } online_rule;

/* Root of α = C / (1 + exp(m + αv)) in [0, C]: Newton, halving the bracket where it leaves it. */
static double online_log_step(double m, double v, double C)
{
    double low = 0.0, high = C, alpha = 0.5 * C;
    for (int turn = 0; turn < 60; turn++) {
        const double z = m + alpha * v;
        double p, f, next;
        if (z > 0.0) {
            const double e = exp(-z);
            p = e / (1.0 + e);
        } else {
            p = 1.0 / (1.0 + exp(z));
        }
        /* ½ (μ − μ_i)'Σ⁻¹(μ − μ_i) + C log(1 + e^−m') is least where α = C p, p = 1/(1 + e^m'),
           m' = m + αv the margin after it; f has slope 1 + C v p (1 − p) ≥ 1. */
        f = alpha - C * p;
        if (f > 0.0)
            high = alpha;
        else
            low = alpha;
        next = alpha - f / (1.0 + C * v * (p * (1.0 - p)));
        if (!(next >= low && next <= high))
            next = 0.5 * (low + high);
        if (fabs(next - alpha) <= 1e-15 * C)
            return next;
        alpha = next;
    }
    return alpha;
}

static online_step online_confidence_step(const online_rule *rule, double m, double v, double C)
{
    online_step step = {0.0, 0.0, 0.0, 0.0};
    const double phi = rule->phi, phi2 = phi * phi;
    if (rule->rule == SCW2) {
        /* The constraint m + αv + α/2C = φ√u, u the new variance x'Σ'x: see numpy_online.py for both roots. */
        const double n = v + 1.0 / (2.0 * C);
        const double root = sqrt(phi2 * m * m * v * v + 4.0 * n * v * (n + v * phi2));
        step.alpha = (phi * root - (2.0 * m * n + phi2 * m * v)) / (2.0 * (n * n + n * v * phi2));
    } else {
        const double psi = 1.0 + phi2 / 2.0, xi = 1.0 + phi2;
        step.alpha = (sqrt(m * m * phi2 * phi2 / 4.0 + v * phi2 * xi) - m * psi) / (v * xi);
        if (rule->rule == SCW1 && step.alpha > C)
            step.alpha = C;
    }
    if (!(step.alpha > 0.0)) {
        step.alpha = 0.0;
        return step;
    }
    {
        const double avp = step.alpha * v * phi, root_u = 2.0 * v / (sqrt(avp * avp + 4.0 * v) + avp);
        step.gamma = step.alpha * phi / root_u;
        step.shrink = step.alpha * phi / (root_u + avp);
    }
    return step;
}

/* What an example of margin m and variance v does: the mean moves by alpha, the precision grows by gamma. */
static online_step online_solve(const online_rule *rule, double m, double v, double C)
{
    online_step step = {0.0, 0.0, 0.0, 0.0};
    if (!(v > 0.0))
        return step;
    switch (rule->rule) {
    case CW: case SCW1: case SCW2:
        return online_confidence_step(rule, m, v, C);
    case PERCEPTRON:
        step.alpha = m <= 0.0 ? 1.0 : 0.0;
        return step;
    case PA: case PA1: case PA2:
        if (m < 1.0) {
            step.alpha = rule->rule == PA2 ? (1.0 - m) / (v + 1.0 / (2.0 * C)) : (1.0 - m) / v;
            if (rule->rule == PA1 && step.alpha > C)
                step.alpha = C;
        }
        return step;
    }
    {
        const int learns = rule->rule == SOP ? m <= 0.0 : rule->loss != SQUARED_HINGE || m < 1.0;
        if (learns)
            step.alpha = rule->loss == LOG ? online_log_step(m, v, C) : (1.0 - m) / (v + 1.0 / C);
        if (learns || rule->always) {
            /* NHERD adds 2k + k²v times xx' to the inverse covariance, AROW k; `shrink` is what Woodbury takes off Σ along Σx. */
            const double k = rule->loss == LOG ? 0.25 * C : C, grown = 1.0 + k * v;
            step.curvature = k;
            if (rule->rule == NHERD) {
                step.gamma = 2.0 * k + k * k * v;
                step.shrink = (k * k * v + 2.0 * k) / (grown * grown);
            } else {
                step.gamma = k;
                step.shrink = k / grown;
            }
        }
    }
    return step;
}

static double online_aggressiveness(const online_rule *rule, double *running, double squares, double weight)
{
    running[0] += 1.0;
    running[1] += squares;
    return (rule->C > 0.0 ? rule->C : 0.25 * running[0] / running[1]) * weight;
}

static int online_is_herd(const online_rule *rule) { return rule->rule == NHERD && rule->form == EXACT; }

/* New variances of gathered ones: contiguous, so that the divisions are done several at a time. */
HERD_LOOP(void, online_shrink,
          (double *restrict s, const double *restrict x, ptrdiff_t count, int herd, int drop, double curvature, double gamma, double shrink),
          (s, x, count, herd, drop, curvature, gamma, shrink))
{
    if (drop) {
        for (ptrdiff_t i = 0; i < count; i++) {
            const double g = s[i] * x[i], left = s[i] - (g * g) * shrink;
            s[i] = left > 0.0 ? left : 0.0;
        }
    } else if (herd) {
        for (ptrdiff_t i = 0; i < count; i++) {
            const double grown = 1.0 + curvature * (s[i] * (x[i] * x[i]));
            s[i] = s[i] / (grown * grown);
        }
    } else {
        for (ptrdiff_t i = 0; i < count; i++)
            s[i] = s[i] / (1.0 + gamma * (s[i] * (x[i] * x[i])));
    }
}

/* Move one class's weights by ±alpha·s·x and shrink their variances.  `scratch` holds `count` numbers. */
static void online_update(double *table, ptrdiff_t classes, ptrdiff_t class, const int32_t *restrict index, const double *restrict x,
                          ptrdiff_t count, const online_rule *rule, online_step step, double sign, double *restrict scratch)
{
    const double move = step.alpha * sign;
    const int shrinks = step.gamma > 0.0;
    double *const mean = table + class, *const variance = table + classes + class;
    const ptrdiff_t stride = 2 * classes;
    for (ptrdiff_t i = 0; i < count; i++) {
        const ptrdiff_t at = (ptrdiff_t)index[i] * stride;
        scratch[i] = variance[at];
        mean[at] += move * (scratch[i] * x[i]);
    }
    if (!shrinks)
        return;
    online_shrink(scratch, x, count, online_is_herd(rule), rule->form == DROP, step.curvature, step.gamma, step.shrink);
    for (ptrdiff_t i = 0; i < count; i++)
        variance[(ptrdiff_t)index[i] * stride] = scratch[i];
}

/* Sums over a row run in four lanes, entry i in lane i mod 4, which are then added in pairs.  Four weights at a time: those of
 * entries 0 and 2 in one vector, 1 and 3 in another, mean beside variance as they lie in memory. */
typedef double online_pair __attribute__((vector_size(16), aligned(8)));
typedef double online_four __attribute__((vector_size(32), aligned(8)));
#define ONLINE_JOIN(low, high) __builtin_shufflevector(low, high, 0, 1, 2, 3)
#define ONLINE_LOW(both) __builtin_shufflevector(both, both, 0, 1)
#define ONLINE_HIGH(both) __builtin_shufflevector(both, both, 2, 3)
#define ONLINE_EVEN(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define ONLINE_ODD(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)

/* What is fetched before it is used: values and indices, which lie in order; and weights of a table beyond the cache, two entries
 * or, where fewer than NEAR are on their way, four for each four that are worked on, so that memory is never idle. */
enum { STREAM = 256, NEAR = 64, FAR = 256, AHEAD = 32 };

static inline int64_t online_fetch(const online_pair *table, const int32_t *at, int64_t i, int64_t fetched, int64_t left)
{
    if (fetched + 4 > left || fetched > i + FAR)
        return fetched;
    ONLINE_FETCH(table + at[fetched], 1);
    ONLINE_FETCH(table + at[fetched + 1], 1);
    if (fetched > i + NEAR)
        return fetched + 2;
    ONLINE_FETCH(table + at[fetched + 2], 1);
    ONLINE_FETCH(table + at[fetched + 3], 1);
    return fetched + 4;
}

/* μ·x in sums[0], x'Σx in sums[1] and |x|² in sums[2] of a row. */
HERD_LOOP_32(int64_t, online_sums,
          (const online_pair *table, const int32_t *restrict at, const double *restrict x, int64_t count, int64_t fetched, int64_t left, double *sums),
          (table, at, x, count, fetched, left, sums))
{
    online_four even = {0.0}, odd = {0.0}, squares = {0.0};
    online_pair lanes[4], total;
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        online_four x4, xx;
        ONLINE_FETCH(x + i + STREAM, 3);
        if (!(i & 4))
            ONLINE_FETCH(at + i + 2 * STREAM, 3);
        fetched = online_fetch(table, at, i, fetched, left);
        memcpy(&x4, x + i, sizeof x4);
        xx = x4 * x4;
        even += ONLINE_JOIN(table[at[i]], table[at[i + 2]]) * ONLINE_EVEN(x4, xx);
        odd += ONLINE_JOIN(table[at[i + 1]], table[at[i + 3]]) * ONLINE_ODD(x4, xx);
        squares += xx;
    }
    lanes[0] = ONLINE_LOW(even), lanes[1] = ONLINE_LOW(odd), lanes[2] = ONLINE_HIGH(even), lanes[3] = ONLINE_HIGH(odd);
    for (; i < count; i++) {
        const double xx = x[i] * x[i];
        lanes[i & 3] += table[at[i]] * (online_pair){x[i], xx};
        squares[i & 3] += xx;
    }
    total = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    sums[0] = total[0];
    sums[1] = total[1];
    sums[2] = (squares[0] + squares[1]) + (squares[2] + squares[3]);
    return fetched;
}

/* Means and variances of a row's weights after an update with `project`. */
HERD_LOOP_32(int64_t, online_project,
          (online_pair *table, const int32_t *restrict at, const double *restrict x, int64_t count, double move, double gamma, int64_t fetched, int64_t left),
          (table, at, x, count, move, gamma, fetched, left))
{
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        fetched = online_fetch(table, at, count + i, fetched, left);
        const online_four even = ONLINE_JOIN(table[at[i]], table[at[i + 2]]), odd = ONLINE_JOIN(table[at[i + 1]], table[at[i + 3]]);
        const online_four mean = ONLINE_EVEN(even, odd), s = ONLINE_ODD(even, odd);
        online_four x4, moved, shrunk, first, second;
        memcpy(&x4, x + i, sizeof x4);
        moved = mean + move * (s * x4);
        shrunk = s / (1.0 + gamma * (s * (x4 * x4)));
        first = ONLINE_EVEN(moved, shrunk);
        second = ONLINE_ODD(moved, shrunk);
        table[at[i]] = ONLINE_LOW(first);
        table[at[i + 1]] = ONLINE_LOW(second);
        table[at[i + 2]] = ONLINE_HIGH(first);
        table[at[i + 3]] = ONLINE_HIGH(second);
    }
    for (; i < count; i++) {
        const online_pair old = table[at[i]];
        table[at[i]] = (online_pair){old[0] + move * (old[1] * x[i]), old[1] / (1.0 + gamma * (old[1] * (x[i] * x[i])))};
    }
    return fetched;
}

/* Two classes, or a number for each example where `target` is given.  y is +1 or −1, and 1 for numbers; margin[row] = y·μ·x and
 * variance[row] = x'Σx before the example is learned.  An example of weight 0 is judged and changes nothing. */
static int64_t online_binary(double *table, const int64_t *pointer, const int32_t *index, const double *value, const int32_t *label,
                             const double *weight, const double *target, ptrdiff_t rows, const online_rule *rule, double *running, int fetch,
                             double *margin, double *variance, double *scratch)
{
    const int64_t entries = fetch ? pointer[rows] : 0;
    int64_t updates = 0, fetched = 0;
    for (ptrdiff_t row = 0; row < rows; row++) {
        const int64_t begin = pointer[row], count = pointer[row + 1] - begin;
        const int32_t *restrict at = index + begin;
        const double *restrict x = value + begin;
        const double sign = target || label[row] ? 1.0 : -1.0;
        double sums[3], C;
        online_step step;
        fetched = online_sums((const online_pair *)table, at, x, count, fetched, entries - begin, sums);
        margin[row] = sums[0] * sign;
        variance[row] = sums[1];
        if (weight && weight[row] == 0.0) {
            fetched = fetched > count ? fetched - count : 0;
            continue;
        }
        C = online_aggressiveness(rule, running, sums[2], weight ? weight[row] : 1.0);
        step = online_solve(rule, target ? 0.0 : margin[row], sums[1], C);
        if (target) /* ½ (t − w·x)² moves the mean by (t − m)/(v + 1/C) Σx: what a margin of 0 does, t − m times */
            step.alpha *= target[row] - margin[row];
        if (step.alpha != 0.0 || step.gamma > 0.0) {
            if (step.gamma > 0.0 && rule->form != DROP && !online_is_herd(rule))
                fetched = online_project((online_pair *)table, at, x, count, step.alpha * sign, step.gamma, fetched, entries - begin);
            else
                online_update(table, 1, 0, at, x, count, rule, step, sign, scratch);
            updates++;
        }
        fetched = fetched > count ? fetched - count : 0;
    }
    return updates;
}

/* Scores and variances of 4·FOURS classes from `class` on, whose sums stay in registers while the entries of a row go by. */
#define ONLINE_CLASSES(FOURS)                                                                                                              \
    {                                                                                                                                      \
        online_four s[FOURS], u[FOURS];                                                                                                    \
        memset(s, 0, sizeof s);                                                                                                            \
        memset(u, 0, sizeof u);                                                                                                            \
        for (ptrdiff_t i = 0; i < count; i++) {                                                                                            \
            const online_four *mean = (const online_four *)(table + (ptrdiff_t)index[i] * 2 * classes + class);                            \
            const online_four *spread = (const online_four *)((const double *)mean + classes);                                             \
            const double xi = x[i], xx = xi * xi;                                                                                          \
            const double *ahead = table + (ptrdiff_t)index[i + CLASSES_AHEAD < count ? i + CLASSES_AHEAD : i] * 2 * classes + class;       \
            for (int k = 0; k < FOURS; k += 2) {                                                                                           \
                ONLINE_FETCH(ahead + 4 * k, 3);                                                                                            \
                ONLINE_FETCH(ahead + classes + 4 * k, 3);                                                                                  \
            }                                                                                                                              \
            for (int k = 0; k < FOURS; k++) {                                                                                              \
                s[k] += mean[k] * xi;                                                                                                      \
                u[k] += spread[k] * xx;                                                                                                    \
            }                                                                                                                              \
        }                                                                                                                                  \
        memcpy(score + class, s, sizeof s);                                                                                                \
        memcpy(variance + class, u, sizeof u);                                                                                             \
        class += 4 * FOURS;                                                                                                                \
    }

enum { CLASSES_AHEAD = 6 };

/* Scores and variances of all classes; returns the sum of squares of the row.  Each sum runs over the entries in their order. */
HERD_LOOP_32(double, online_scores,
          (const double *restrict table, ptrdiff_t classes, const int32_t *restrict index, const double *restrict x, ptrdiff_t count, double *restrict score, double *restrict variance),
          (table, classes, index, x, count, score, variance))
{
    double squares = 0.0;
    ptrdiff_t class = 0;
    while (class + 20 <= classes)
        ONLINE_CLASSES(5)
    if (class + 12 <= classes)
        ONLINE_CLASSES(3)
    if (class + 8 <= classes)
        ONLINE_CLASSES(2)
    if (class + 4 <= classes)
        ONLINE_CLASSES(1)
    for (; class < classes; class++) {
        double s = 0.0, u = 0.0;
        for (ptrdiff_t i = 0; i < count; i++) {
            const double *entry = table + (ptrdiff_t)index[i] * 2 * classes + class;
            s += entry[0] * x[i];
            u += entry[classes] * (x[i] * x[i]);
        }
        score[class] = s;
        variance[class] = u;
    }
    for (ptrdiff_t i = 0; i < count; i++)
        squares += x[i] * x[i];
    return squares;
}

/* Entries over the mean size of their feature's values: sizes[2 i] counts those ≠ 0 so far, sizes[2 i + 1] adds up their |x|.
 * Entries whose `frozen` is not 0 add nothing, and one of a feature that has no size yet is its sign. */
static void online_rescale(double *restrict sizes, const int32_t *restrict index, const double *restrict x, const uint8_t *restrict frozen,
                           int64_t count, double *restrict out)
{
    for (int64_t i = 0; i < count; i++) {
        double *const at = sizes + 2 * (ptrdiff_t)index[i];
        const double size = fabs(x[i]);
        ONLINE_FETCH(sizes + 2 * (ptrdiff_t)index[i + AHEAD < count ? i + AHEAD : i], 3);
        if (frozen && frozen[i]) {
            out[i] = at[1] > 0.0 ? x[i] * at[0] / at[1] : (double)((x[i] > 0.0) - (x[i] < 0.0));
            continue;
        }
        at[0] += size > 0.0 ? 1.0 : 0.0;
        at[1] += size;
        out[i] = at[1] > 0.0 ? x[i] * at[0] / at[1] : 0.0;
    }
}

/* Rows with a constant feature in front: table row 0, value 1. */
static void online_with_bias(const int64_t *pointer, const int32_t *restrict index, const double *restrict x, ptrdiff_t rows, int64_t *out_pointer,
                             int32_t *restrict out_index, double *restrict out)
{
    int64_t at = 0;
    for (ptrdiff_t row = 0; row < rows; row++) {
        const int64_t begin = pointer[row], count = pointer[row + 1] - begin;
        out_pointer[row] = at;
        out_index[at] = 0;
        out[at++] = 1.0;
        if (count) { /* rows without any entry at all have no arrays to copy from */
            memcpy(out_index + at, index + begin, sizeof(int32_t) * (size_t)count);
            memcpy(out + at, x + begin, sizeof(double) * (size_t)count);
        }
        at += count;
    }
    out_pointer[rows] = at;
}

/* Φ(x) = ½ erfc(−x/√2), by the erfc of the C library, which is also Python's. */
static void online_normal_cdf(const double *restrict x, ptrdiff_t count, double *restrict out)
{
    for (ptrdiff_t i = 0; i < count; i++)
        out[i] = 0.5 * erfc(x[i] / -1.4142135623730951);
}

/* Move the weights of all classes at once, entry by entry, with `project`: what online_update does class by class, in the same bits. */
HERD_LOOP(void, online_project_classes,
          (double *restrict table, ptrdiff_t classes, const int32_t *restrict index, const double *restrict x, ptrdiff_t count, const double *restrict move, const double *restrict gamma),
          (table, classes, index, x, count, move, gamma))
{
    for (ptrdiff_t i = 0; i < count; i++) {
        double *restrict mean = table + (ptrdiff_t)index[i] * 2 * classes;
        double *restrict spread = mean + classes;
        const double xi = x[i], xx = xi * xi;
        for (ptrdiff_t z = 0; z < classes; z++) {
            const double s = spread[z];
            mean[z] += move[z] * (s * xi);
            spread[z] = s / (1.0 + gamma[z] * (s * xx));
        }
    }
}

enum { MANY_MOVE = 6 }; /* classes, from which on they are moved at once */

/* Each class against the rest; `scratch` holds two numbers for each class and one for each entry.  Returns whether any class moved. */
static int online_against_rest(double *table, ptrdiff_t classes, const int32_t *at, const double *x, ptrdiff_t count, const online_rule *rule,
                               ptrdiff_t y, double C, const double *s, const double *u, double *scratch)
{
    double *const move = scratch, *const gamma = scratch + classes, *const rest = scratch + 2 * classes;
    const int plain = rule->form != DROP && !online_is_herd(rule);
    int moved = 0;
    for (ptrdiff_t z = 0; z < classes; z++) {
        const double sign = z == y ? 1.0 : -1.0;
        const online_step step = online_solve(rule, sign * s[z], u[z], C);
        const int moves = step.alpha != 0.0 || step.gamma > 0.0;
        move[z] = step.alpha * sign;
        gamma[z] = step.gamma > 0.0 ? step.gamma : 0.0;
        moved += moves;
        if (moves && !plain)
            online_update(table, classes, z, at, x, count, rule, step, sign, rest);
    }
    if (plain && moved >= MANY_MOVE) {
        online_project_classes(table, classes, at, x, count, move, gamma);
    } else if (plain) {
        for (ptrdiff_t z = 0; z < classes; z++) {
            const online_step step = {move[z], gamma[z], 0.0, 0.0};
            if (step.alpha != 0.0 || step.gamma > 0.0)
                online_update(table, classes, z, at, x, count, rule, step, 1.0, rest);
        }
    }
    return moved > 0;
}

static int64_t online_multiclass(double *table, ptrdiff_t classes, const int64_t *pointer, const int32_t *index, const double *value,
                                 const int32_t *label, const double *weight, ptrdiff_t rows, const online_rule *rule, int top,
                                 double *running, double *score, double *variance, double *scratch)
{
    int64_t updates = 0;
    for (ptrdiff_t row = 0; row < rows; row++) {
        const int64_t begin = pointer[row], count = pointer[row + 1] - begin;
        const int32_t *at = index + begin;
        const double *x = value + begin;
        double *s = score + row * classes, *u = variance + row * classes;
        const ptrdiff_t y = label[row];
        const double squares = online_scores(table, classes, at, x, count, s, u);
        if (weight && weight[row] == 0.0)
            continue;
        const double C = online_aggressiveness(rule, running, squares, weight ? weight[row] : 1.0);
        int changed = 0;
        if (top) {
            /* The example e_y⊗x − e_rival⊗x has margin (μ_y − μ_rival)·x and
               variance u_y + u_rival: the blocks of a diagonal Σ add up. */
            ptrdiff_t rival = y == 0 ? 1 : 0;
            for (ptrdiff_t z = 0; z < classes; z++)
                if (z != y && s[z] > s[rival])
                    rival = z;
            const online_step step = online_solve(rule, s[y] - s[rival], u[y] + u[rival], C);
            if (step.alpha != 0.0 || step.gamma > 0.0) {
                online_update(table, classes, y, at, x, count, rule, step, 1.0, scratch);
                online_update(table, classes, rival, at, x, count, rule, step, -1.0, scratch);
                changed = 1;
            }
        } else {
            changed = online_against_rest(table, classes, at, x, count, rule, y, C, s, u, scratch);
        }
        updates += changed;
    }
    return updates;
}
