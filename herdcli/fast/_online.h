/* Online learning of linear classifiers, and the text they learn from: the loops of _online.pyx.
 *
 * table[row][0][class] is the mean and table[row][1][class] the variance of a weight: both in one cache line.  Row 0 is
 * the bias.  Sums run in an order that the NumPy twin repeats: the results are the same bits.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define ONLINE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ONLINE_CLONES
#endif
#if defined(__GNUC__)
#define ONLINE_FETCH(address) __builtin_prefetch(address)
#else
#define ONLINE_FETCH(address) ((void)(address))
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
ONLINE_CLONES static void online_shrink(double *restrict s, const double *restrict x, ptrdiff_t count, int herd, int drop, double curvature,
                                        double gamma, double shrink)
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

static void online_fetch(const double *table, ptrdiff_t stride, const int64_t *pointer, const int32_t *index, ptrdiff_t row, ptrdiff_t rows)
{
    if (row + 1 < rows)
        for (int64_t i = pointer[row + 1]; i < pointer[row + 2]; i++)
            ONLINE_FETCH(table + (ptrdiff_t)index[i] * stride);
}

/* Sums over a row run in four lanes, entry i in lane i mod 4, which are then added in pairs.  The mean's and the variance's
 * sum of a lane share a vector, as mean and variance share a cache line. */
typedef double online_pair __attribute__((vector_size(16), aligned(8)));

static inline void online_add(const online_pair *table, int32_t at, double x, double xx, online_pair *sum)
{
    const online_pair factor = {x, xx};
    *sum += table[at] * factor;
}

/* The same for two classes and `project`: mean and variance of a weight are read and written together. */
static void online_update_pairs(online_pair *table, const int32_t *restrict index, const double *restrict x, ptrdiff_t count, double move,
                                double gamma)
{
    for (ptrdiff_t i = 0; i < count; i++) {
        const online_pair old = table[index[i]];
        const online_pair moved = {old[0] + move * (old[1] * x[i]), old[1] / (1.0 + gamma * (old[1] * (x[i] * x[i])))};
        table[index[i]] = moved;
    }
}

/* Two classes.  y is +1 or −1; margin[row] = y·μ·x and variance[row] = x'Σx before the example is learned. */
static int64_t online_binary(double *table, const int64_t *pointer, const int32_t *index, const double *value, const int32_t *label,
                             const double *weight, ptrdiff_t rows, const online_rule *rule, double *running, int fetch, double *margin,
                             double *variance, double *scratch)
{
    int64_t updates = 0;
    for (ptrdiff_t row = 0; row < rows; row++) {
        const int64_t begin = pointer[row], count = pointer[row + 1] - begin;
        const int32_t *restrict at = index + begin;
        const double *restrict x = value + begin;
        const double sign = label[row] ? 1.0 : -1.0;
        double m, v, squares, C;
        const online_pair *entry = (const online_pair *)table;
        online_pair sums[4] = {{0.0}}, low = {0.0}, high = {0.0};
        online_step step;
        if (fetch)
            online_fetch(table, 2, pointer, index, row, rows);
        for (int64_t i = 0; i + 4 <= count; i += 4) {
            online_pair first, second;
            memcpy(&first, x + i, sizeof first);
            memcpy(&second, x + i + 2, sizeof second);
            const online_pair first2 = first * first, second2 = second * second;
            online_add(entry, at[i], first[0], first2[0], &sums[0]);
            online_add(entry, at[i + 1], first[1], first2[1], &sums[1]);
            online_add(entry, at[i + 2], second[0], second2[0], &sums[2]);
            online_add(entry, at[i + 3], second[1], second2[1], &sums[3]);
            low += first2;
            high += second2;
        }
        for (int64_t i = count & ~(int64_t)3; i < count; i++) {
            const double xx = x[i] * x[i];
            online_add(entry, at[i], x[i], xx, &sums[i & 3]);
            if (i & 2)
                high[i & 1] += xx;
            else
                low[i & 1] += xx;
        }
        sums[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        m = sums[0][0] * sign;
        v = sums[0][1];
        squares = (low[0] + low[1]) + (high[0] + high[1]);
        margin[row] = m;
        variance[row] = v;
        C = online_aggressiveness(rule, running, squares, weight ? weight[row] : 1.0);
        step = online_solve(rule, m, v, C);
        if (step.alpha != 0.0 || step.gamma > 0.0) {
            if (step.gamma > 0.0 && rule->form != DROP && !online_is_herd(rule))
                online_update_pairs((online_pair *)table, at, x, count, step.alpha * sign, step.gamma);
            else
                online_update(table, 1, 0, at, x, count, rule, step, sign, scratch);
            updates++;
        }
    }
    return updates;
}

/* Scores and variances of all classes; returns the sum of squares of the row. */
ONLINE_CLONES static double online_scores(const double *restrict table, ptrdiff_t classes, const int32_t *restrict index,
                                          const double *restrict x, ptrdiff_t count, double *restrict score, double *restrict variance)
{
    double squares = 0.0;
    memset(score, 0, sizeof(double) * (size_t)classes);
    memset(variance, 0, sizeof(double) * (size_t)classes);
    for (ptrdiff_t i = 0; i < count; i++) {
        const double *entry = table + (ptrdiff_t)index[i] * 2 * classes;
        const double xi = x[i], xx = xi * xi;
        for (ptrdiff_t z = 0; z < classes; z++)
            score[z] += entry[z] * xi;
        for (ptrdiff_t z = 0; z < classes; z++)
            variance[z] += entry[classes + z] * xx;
        squares += xx;
    }
    return squares;
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
        const double C = online_aggressiveness(rule, running, squares, weight ? weight[row] : 1.0);
        int changed = 0;
        if (top) {
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
            for (ptrdiff_t z = 0; z < classes; z++) {
                const double sign = z == y ? 1.0 : -1.0;
                const online_step step = online_solve(rule, sign * s[z], u[z], C);
                if (step.alpha != 0.0 || step.gamma > 0.0) {
                    online_update(table, classes, z, at, x, count, rule, step, sign, scratch);
                    changed = 1;
                }
            }
        }
        updates += changed;
    }
    return updates;
}

/* Text ------------------------------------------------------------------------------------------------------- */

enum { FINE, BAD_LABEL, BAD_PAIR, ZERO_INDEX, FALLING_INDEX, BAD_VALUE, NOT_FINITE, LARGE_INDEX, NO_LABEL, BAD_WEIGHT, NO_BAR };

static const double ONLINE_TEN[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static int online_is_end(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* A number from `at` to the next blank or `stop` character; 0 if it is one, else BAD_VALUE or NOT_FINITE. */
static int online_number(const char *at, const char *end, double *out)
{
    const char *c = at;
    uint64_t digits = 0;
    int count = 0, exponent = 0, seen = 0, negative = 0;
    if (c < end && (*c == '-' || *c == '+'))
        negative = *c++ == '-';
    for (; c < end && *c >= '0' && *c <= '9'; c++, seen = 1)
        if (digits || *c != '0') {
            digits = digits * 10 + (uint64_t)(*c - '0');
            count++;
        }
    if (c < end && *c == '.')
        for (c++; c < end && *c >= '0' && *c <= '9'; c++, seen = 1) {
            exponent--;
            if (digits || *c != '0') {
                digits = digits * 10 + (uint64_t)(*c - '0');
                count++;
            }
        }
    if (seen && c < end && (*c == 'e' || *c == 'E')) {
        int sign = 1, power = 0, some = 0;
        c++;
        if (c < end && (*c == '-' || *c == '+'))
            sign = *c++ == '-' ? -1 : 1;
        for (; c < end && *c >= '0' && *c <= '9'; c++, some = 1)
            power = power < 100000 ? power * 10 + (*c - '0') : power;
        seen = some;
        exponent += sign * power;
    }
    if (seen && c == end && count <= 15 && exponent >= -22 && exponent <= 22) { /* both factors are exact: one rounding */
        const double exact = (double)digits;
        *out = exponent < 0 ? exact / ONLINE_TEN[-exponent] : exact * ONLINE_TEN[exponent];
        *out = negative ? -*out : *out;
        return FINE;
    }
    if (seen && c == end && end - at < 400) {
        char copy[400];
        memcpy(copy, at, (size_t)(end - at));
        copy[end - at] = 0;
        *out = strtod(copy, NULL);
        return isfinite(*out) ? FINE : NOT_FINITE;
    }
    c = at + (at < end && (*at == '-' || *at == '+'));
    if ((end - c == 3 && (!strncmp(c, "nan", 3) || !strncmp(c, "NaN", 3) || !strncmp(c, "NAN", 3) || !strncmp(c, "inf", 3) || !strncmp(c, "Inf", 3)))
        || (end - c == 8 && !strncmp(c, "infinity", 8)))
        return NOT_FINITE;
    return BAD_VALUE;
}

static uint32_t online_murmur(const char *text, size_t length, uint32_t seed)
{
    uint32_t h = seed, k;
    size_t i = 0;
    for (; i + 4 <= length; i += 4) {
        memcpy(&k, text + i, 4);
        k *= 0xcc9e2d51u;
        k = (k << 15 | k >> 17) * 0x1b873593u;
        h ^= k;
        h = (h << 13 | h >> 19) * 5 + 0xe6546b64u;
    }
    k = 0;
    for (size_t left = length - i; left > 0; left--)
        k = k << 8 | (unsigned char)text[i + left - 1];
    if (length > i) {
        k *= 0xcc9e2d51u;
        h ^= (k << 15 | k >> 17) * 0x1b873593u;
    }
    h ^= (uint32_t)length;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

/* What a call found: bytes and lines used up, and where it stopped if the text is not what it should be. */
typedef struct { int64_t used, lines, code, column, token, length, rows, entries; } online_report;

typedef struct {
    double *label, *weight, *value;
    int32_t *index;
    int64_t *pointer;
    uint32_t mask;     /* table size − 1 where features are hashed, else 0 */
    int first;         /* the lowest index the text may have: 0 or 1 */
    int32_t *slots;    /* of rows with hashed features: slot → entry, to add up entries of one index */
    int64_t slot_mask, cleared;
} online_output;

static int online_fail(online_report *report, const char *line, const char *token, const char *end, int code)
{
    report->code = code;
    report->column = token - line + 1;
    report->token = token - line;
    report->length = end - token;
    return code;
}

/* Slots for a row of so many bytes: more than it can have entries.  Entries of earlier rows in them count as none. */
static void online_clear_slots(online_output *out, int64_t bytes)
{
    int64_t slots = 16;
    if (!out->mask)
        return;
    while (slots < bytes)
        slots *= 2;
    out->slot_mask = slots - 1;
    for (; out->cleared < slots; out->cleared++)
        out->slots[out->cleared] = -1;
}

/* Put an entry of a hashed row, or add it to the row's entry of the same index. */
static void online_put_hashed(online_output *out, int64_t begin, int64_t *count, int32_t index, double value)
{
    uint64_t slot = ((uint32_t)index * 2654435769u) & (uint64_t)out->slot_mask;
    for (;; slot = (slot + 1) & (uint64_t)out->slot_mask) {
        const int32_t at = out->slots[slot];
        if (at < begin || at >= *count) {
            out->slots[slot] = (int32_t)*count;
            out->index[*count] = index;
            out->value[(*count)++] = value;
            return;
        }
        if (out->index[at] == index) {
            out->value[at] += value;
            return;
        }
    }
}

static int online_svmlight_line(const char *line, const char *end, online_output *out, online_report *report)
{
    const char *c = line, *token;
    int64_t count = report->entries, last = -1;
    const int64_t begin = count;
    int code;
    token = memchr(line, '#', (size_t)(end - line));
    end = token ? token : end;
    online_clear_slots(out, end - line);
    while (c < end && online_is_end(*c))
        c++;
    if (c == end)
        return FINE;
    for (token = c; c < end && !online_is_end(*c); c++)
        ;
    if ((code = online_number(token, c, &out->label[report->rows])))
        return online_fail(report, line, token, c, code == NOT_FINITE ? NOT_FINITE : BAD_LABEL);
    for (;;) {
        int64_t index = 0;
        const char *digits;
        double value;
        while (c < end && online_is_end(*c))
            c++;
        if (c == end)
            break;
        token = digits = c;
        for (; c < end && *c >= '0' && *c <= '9'; c++)
            index = index < ((int64_t)1 << 31) ? index * 10 + (*c - '0') : index;
        if (c == digits || c == end || *c != ':' || (index >= ((int64_t)1 << 31) && !out->mask)) {
            const char *stop = c;
            while (stop < end && !online_is_end(*stop))
                stop++;
            if (stop - token > 4 && !strncmp(token, "qid:", 4)) {
                c = stop;
                continue;
            }
            return online_fail(report, line, token, stop, index >= ((int64_t)1 << 31) ? LARGE_INDEX : BAD_PAIR);
        }
        digits = c++;
        {
            const char *number = c, *point = NULL; /* digits, perhaps a point: both numbers of the quotient are exact */
            uint64_t whole = 0;
            const char *stop = end - c < 17 ? end : c + 17;
            for (; c < stop && (unsigned)(*c - '0') < 10; c++)
                whole = whole * 10 + (uint64_t)(*c - '0');
            if (c < stop && *c == '.' && c > number)
                for (point = ++c; c < stop && (unsigned)(*c - '0') < 10; c++)
                    whole = whole * 10 + (uint64_t)(*c - '0');
            if (c > number && (c == end || online_is_end(*c)) && whole < (uint64_t)1 << 53) {
                value = point ? (double)whole / ONLINE_TEN[c - point] : (double)whole;
            } else {
                while (c < end && !online_is_end(*c))
                    c++;
                if ((code = online_number(number, c, &value)))
                    return online_fail(report, line, token, c, code);
            }
        }
        if (out->mask) {
            online_put_hashed(out, begin, &count, (int32_t)(online_murmur(token, (size_t)(digits - token), 0) & out->mask) + 1, value);
            continue;
        }
        if (index < out->first)
            return online_fail(report, line, token, c, ZERO_INDEX);
        if (index <= last)
            return online_fail(report, line, token, c, FALLING_INDEX);
        if (index > 2147483645)
            return online_fail(report, line, token, c, LARGE_INDEX);
        last = index;
        out->index[count] = (int32_t)(index + 1 - out->first);
        out->value[count++] = value;
    }
    report->entries = count;
    out->weight[report->rows] = 1.0;
    out->pointer[++report->rows] = count;
    return FINE;
}

/* The part of a Vowpal Wabbit line before the first bar: label, importance, tag. */
static int online_vw_head(const char *line, const char *bar, online_output *out, online_report *report)
{
    const char *c = line;
    double found[3] = {NAN, 1.0, 0.0};
    int numbers = 0;
    while (c < bar) {
        const char *token;
        int code;
        while (c < bar && online_is_end(*c))
            c++;
        for (token = c; c < bar && !online_is_end(*c); c++)
            ;
        if (c == token || *token == '\'' || (c == bar && numbers > 0)) /* a tag begins with ' or touches the bar */
            continue;
        if (numbers == 3)
            return online_fail(report, line, token, c, BAD_LABEL);
        if ((code = online_number(token, c, &found[numbers++]))) {
            if (numbers == 1 && c == bar) {
                found[0] = NAN;
                continue;
            }
            return online_fail(report, line, token, c, code == NOT_FINITE ? NOT_FINITE : numbers == 1 ? BAD_LABEL : BAD_WEIGHT);
        }
    }
    if (isnan(found[0]))
        return online_fail(report, line, line, bar, NO_LABEL);
    if (!(found[1] > 0.0))
        return online_fail(report, line, line, bar, BAD_WEIGHT);
    out->label[report->rows] = found[0];
    out->weight[report->rows] = found[1];
    return FINE;
}

static int online_vw_line(const char *line, const char *end, online_output *out, online_report *report)
{
    const char *c = line, *bar;
    int64_t count = report->entries;
    const int64_t begin = count;
    int code;
    while (end > line && online_is_end(end[-1]))
        end--;
    while (c < end && online_is_end(*c))
        c++;
    if (c == end)
        return FINE;
    online_clear_slots(out, end - c);
    bar = memchr(c, '|', (size_t)(end - c));
    if (!bar)
        return online_fail(report, line, c, end, NO_BAR);
    if ((code = online_vw_head(line, bar, out, report)))
        return code;
    for (c = bar; c < end;) {
        const char *token = ++c, *colon;
        uint32_t seed = 0;
        double scale = 1.0;
        for (; c < end && !online_is_end(*c) && *c != '|'; c++)
            ;
        colon = memchr(token, ':', (size_t)(c - token));
        if (colon && (code = online_number(colon + 1, c, &scale)))
            return online_fail(report, line, token, c, code);
        if ((colon ? colon : c) > token)
            seed = online_murmur(token, (size_t)((colon ? colon : c) - token), 0);
        while (c < end && *c != '|') {
            double value = 1.0;
            if (online_is_end(*c)) {
                c++;
                continue;
            }
            colon = NULL;
            for (token = c; c < end && !online_is_end(*c) && *c != '|'; c++)
                if (*c == ':' && !colon)
                    colon = c;
            if (colon && (code = online_number(colon + 1, c, &value)))
                return online_fail(report, line, token, c, code);
            online_put_hashed(out, begin, &count,
                              (int32_t)(online_murmur(token, (size_t)((colon ? colon : c) - token), seed) & out->mask) + 1, value * scale);
        }
    }
    report->entries = count;
    out->pointer[++report->rows] = count;
    return FINE;
}

/* Whole lines of text into rows, up to the end or the first line that is wrong. */
static void online_parse(const char *text, int64_t size, int vw, online_output *out, online_report *report)
{
    out->pointer[0] = 0;
    while (report->used < size) {
        const char *line = text + report->used, *end = memchr(line, '\n', (size_t)(size - report->used));
        int code;
        if (!end)
            end = text + size;
        code = vw ? online_vw_line(line, end, out, report) : online_svmlight_line(line, end, out, report);
        if (code) {
            report->token += report->used;
            report->lines++;
            report->used = (end - text) + (end < text + size);
            return;
        }
        report->lines++;
        report->used = (end - text) + (end < text + size);
    }
}
