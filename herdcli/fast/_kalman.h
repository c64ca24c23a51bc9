/* Kalman filter and smoother: the twin of numpy_kalman.py, which documents it.  Small square matrices, row-major, sums in one order.
   Each loop is a function of the number of states that is inlined for the commonest numbers, so that the compiler unrolls it.
   Long loops call `look` after some milliseconds, and end with -1 if it does not return 0. */
#include <math.h>
#include "simd.h"

#define INLINE static inline __attribute__((always_inline))
#define EPS 2.220446049250313e-16

typedef struct {
    const double *tt, *at, *q, *start, *first, *z, *drift;
    const int64_t *offsets, *pattern;
    double *node, *covariance, *factor, *whiten, *gain, *pivots, *predicted, *filtered, *quadratic, *work;
    int64_t *edge_node, *edge_pattern, *edge_next, *edge, *slots;
    int64_t sequences, room, mask, nodes, edges;
    int (*look)(void);
} Filter;

typedef struct {
    const double *a, *at, *q, *node, *covariance, *factor, *drift, *filtered;
    const int64_t *offsets, *edge_next, *edge;
    double *back, *rest, *after, *lagged, *smoothed, *work;
    int64_t *pair_edge, *pair_after, *pair_result, *which, *pair, *slots;
    int64_t sequences, room, mask, edges, found, pairs;
    int (*look)(void);
} Smoother;

/* The steps between two looks at signals, of which each takes at most some matrix products. */
INLINE int64_t k_steps(ptrdiff_t n) { return 1 + 4000000 / ((int64_t)n * n * n); }

INLINE void k_vec(ptrdiff_t n, const double *restrict m, const double *restrict x, double *restrict y)
{
    for (ptrdiff_t i = 0; i < n; i++) y[i] = 0.0;
    for (ptrdiff_t k = 0; k < n; k++)
        for (ptrdiff_t i = 0; i < n; i++) y[i] += m[k * n + i] * x[k];
}

INLINE void k_mul(ptrdiff_t n, const double *restrict a, const double *restrict b, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double *restrict row = out + i * n;
        for (ptrdiff_t j = 0; j < n; j++) row[j] = 0.0;
        for (ptrdiff_t k = 0; k < n; k++)
            for (ptrdiff_t j = 0; j < n; j++) row[j] += a[i * n + k] * b[k * n + j];
    }
}

INLINE void k_tmul(ptrdiff_t n, const double *restrict a, const double *restrict b, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double *restrict row = out + i * n;
        for (ptrdiff_t j = 0; j < n; j++) row[j] = 0.0;
        for (ptrdiff_t k = 0; k < n; k++)
            for (ptrdiff_t j = 0; j < n; j++) row[j] += a[k * n + i] * b[k * n + j];
    }
}

INLINE void k_root(ptrdiff_t n, const double *restrict s, double *restrict r)
{
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++) r[i * n + j] = j < i ? 0.0 : s[i * n + j];
    for (ptrdiff_t j = 0; j < n; j++) {
        double *restrict row = r + j * n;
        if (!(row[j] > (double)n * EPS * s[j * n + j])) {
            for (ptrdiff_t k = j; k < n; k++) row[k] = 0.0;
            continue;
        }
        row[j] = sqrt(row[j]);
        for (ptrdiff_t k = j + 1; k < n; k++) row[k] /= row[j];
        for (ptrdiff_t i = j + 1; i < n; i++)
            for (ptrdiff_t k = i; k < n; k++) r[i * n + k] -= row[i] * row[k];
    }
}

INLINE void k_forward(ptrdiff_t n, const double *restrict r, double *restrict x)
{
    for (ptrdiff_t j = 0; j < n; j++) {
        for (ptrdiff_t k = 0; k < j; k++)
            for (ptrdiff_t i = 0; i < n; i++) x[j * n + i] -= r[k * n + j] * x[k * n + i];
        const double pivot = r[j * n + j];
        for (ptrdiff_t i = 0; i < n; i++) x[j * n + i] = pivot > 0.0 ? x[j * n + i] / pivot : 0.0;
    }
}

INLINE void k_backward(ptrdiff_t n, const double *restrict r, double *restrict x)
{
    for (ptrdiff_t j = n - 1; j >= 0; j--) {
        for (ptrdiff_t k = j + 1; k < n; k++)
            for (ptrdiff_t i = 0; i < n; i++) x[j * n + i] -= r[j * n + k] * x[k * n + i];
        const double pivot = r[j * n + j];
        for (ptrdiff_t i = 0; i < n; i++) x[j * n + i] = pivot > 0.0 ? x[j * n + i] / pivot : 0.0;
    }
}

INLINE void k_unit(ptrdiff_t n, double *restrict x)
{
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++) x[i * n + j] = i == j ? 1.0 : 0.0;
}

INLINE void k_mirror(ptrdiff_t n, double *restrict s)
{
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < i; j++) s[i * n + j] = s[j * n + i];
}

INLINE uint64_t k_mix(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdULL;
    return h ^ (h >> 29);
}

/* The number of a matrix among `count` ones, by its bits; it is added if it is new, and `room` if there is none. */
static int64_t k_number(ptrdiff_t size, const double *matrix, double *table, int64_t *count, int64_t room, int64_t *slots, int64_t mask)
{
    uint64_t hash = 0;
    for (ptrdiff_t i = 0; i < size; i++) {
        uint64_t bits;
        memcpy(&bits, matrix + i, sizeof bits);
        hash = k_mix(hash + bits);
    }
    int64_t at = (int64_t)(hash & (uint64_t)mask);
    while (slots[at] >= 0) {
        if (!memcmp(table + slots[at] * size, matrix, (size_t)size * sizeof(double))) return slots[at];
        at = (at + 1) & mask;
    }
    if (*count >= room) return room;
    memcpy(table + *count * size, matrix, (size_t)size * sizeof(double));
    slots[at] = *count;
    return (*count)++;
}

/* Where the pair (a, b) is among the pairs, or where its number is to be put. */
INLINE int64_t *k_place(int64_t a, int64_t b, const int64_t *first, const int64_t *second, int64_t *slots, int64_t mask)
{
    int64_t at = (int64_t)(k_mix((uint64_t)a * 0x9e3779b97f4a7c15ULL + (uint64_t)b) & (uint64_t)mask);
    while (slots[at] >= 0 && !(first[slots[at]] == a && second[slots[at]] == b)) at = (at + 1) & mask;
    return slots + at;
}

INLINE int k_edge(ptrdiff_t n, Filter *f, int64_t at, int64_t which, int64_t place)
{
    const ptrdiff_t size = n * n;
    double *r = f->work, *ft = r + size, *t = ft + size, *h = t + size, *g = h + size;
    double *w = f->whiten + place * size, *u = f->factor + place * size;
    /* S = I + F F' = H'H and P⁺ = r'(I + F'F)⁻¹ r = U'U, with F' = r T'; the
       gain is P T'S⁻¹ = r'F'H⁻¹ H⁻ᵀ, whose last factor whitens the surprise. */
    k_root(n, f->node + at * size, r);
    k_mul(n, r, f->tt + which * size, ft);
    k_tmul(n, ft, ft, t);
    for (ptrdiff_t i = 0; i < n; i++) t[i * n + i] += 1.0;
    k_root(n, t, h);
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++) t[i * n + j] = ft[j * n + i];
    double *m = f->gain + place * size; /* scratch until the gain is known */
    k_tmul(n, t, t, m);
    for (ptrdiff_t i = 0; i < n; i++) m[i * n + i] += 1.0;
    k_root(n, m, g);
    k_unit(n, w);
    k_backward(n, h, w);
    memcpy(u, r, (size_t)size * sizeof(double));
    k_forward(n, g, u);
    k_tmul(n, u, u, f->covariance + place * size);
    k_mul(n, ft, w, t);
    k_tmul(n, t, r, f->gain + place * size);
    for (ptrdiff_t i = 0; i < n; i++) f->pivots[place * n + i] = g[i * n + i];
    k_mul(n, u, f->at, t);
    k_tmul(n, t, t, h);
    for (ptrdiff_t i = 0; i < size; i++) h[i] += f->q[i];
    f->edge_node[place] = at;
    f->edge_pattern[place] = which;
    f->edge_next[place] = k_number(size, h, f->node, &f->nodes, f->room, f->slots, f->mask);
    return f->edge_next[place] < f->room;
}

INLINE int k_filter(ptrdiff_t n, Filter *f)
{
    const ptrdiff_t size = n * n;
    double *mean = f->work + 5 * size, *e = mean + n, *v = e + n, *step = v + n;
    int64_t *pairs = f->slots + f->mask + 1;
    memset(f->slots, 0xff, (size_t)(2 * (f->mask + 1)) * sizeof(int64_t));
    k_number(size, f->first, f->node, &f->nodes, f->room, f->slots, f->mask);
    int64_t left = k_steps(n);
    for (int64_t s = 0; s < f->sequences; s++) {
        int64_t at = 0;
        memcpy(mean, f->start, (size_t)n * sizeof(double));
        for (int64_t t = f->offsets[s]; t < f->offsets[s + 1]; t++) {
            if (--left == 0) {
                if (f->look()) return -1;
                left = k_steps(n);
            }
            int64_t *place = k_place(at, f->pattern[t], f->edge_node, f->edge_pattern, pairs, f->mask);
            if (*place < 0) {
                if (f->edges >= f->room || !k_edge(n, f, at, f->pattern[t], f->edges)) return 0;
                *place = f->edges++;
            }
            const int64_t own = *place;
            double *filtered = f->filtered + t * n;
            f->edge[t] = own;
            memcpy(f->predicted + t * n, mean, (size_t)n * sizeof(double));
            k_vec(n, f->tt + f->pattern[t] * size, mean, step);
            for (ptrdiff_t i = 0; i < n; i++) e[i] = f->z[t * n + i] - step[i];
            k_vec(n, f->whiten + own * size, e, v);
            k_vec(n, f->gain + own * size, v, step);
            double total = 0.0;
            for (ptrdiff_t i = 0; i < n; i++) total += v[i] * v[i];
            f->quadratic[t] = total;
            for (ptrdiff_t i = 0; i < n; i++) filtered[i] = mean[i] + step[i];
            k_vec(n, f->at, filtered, step);
            for (ptrdiff_t i = 0; i < n; i++) mean[i] = step[i] + f->drift[t * n + i];
            at = f->edge_next[own];
        }
    }
    return 1;
}

INLINE int k_ready(ptrdiff_t n, Smoother *f)
{
    const ptrdiff_t size = n * n;
    double *r = f->work, *t = r + size, *d = t + size, *b = d + size;
    int64_t left = k_steps(n);
    for (int64_t place = 0; place < f->edges; place++) {
        if (--left == 0) {
            if (f->look()) return -1;
            left = k_steps(n);
        }
        const double *u = f->factor + place * size;
        double *x = f->back + place * size, *rest = f->rest + place * size;
        /* J' = (next P)⁻¹ A P⁺ by the root of next P; rest = (I − JA) P⁺
           (I − JA)' + J Q J' is P⁺ − J (next P) J' without a difference. */
        k_root(n, f->node + f->edge_next[place] * size, r);
        k_mul(n, u, f->at, t);
        k_tmul(n, t, u, x);
        k_forward(n, r, x);
        k_backward(n, r, x);
        k_tmul(n, f->a, x, t);
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t j = 0; j < n; j++) d[i * n + j] = (i == j ? 1.0 : 0.0) - t[i * n + j];
        k_mul(n, f->covariance + place * size, d, t);
        k_tmul(n, d, t, b);
        k_mul(n, f->q, x, t);
        k_tmul(n, x, t, rest);
        for (ptrdiff_t i = 0; i < size; i++) rest[i] = b[i] + rest[i];
        k_mirror(n, rest);
    }
    return 0;
}

INLINE int k_smooth(ptrdiff_t n, Smoother *f)
{
    const ptrdiff_t size = n * n;
    double *s = f->work, *e = s + size, *step = e + n;
    int64_t *pairs = f->slots + f->mask + 1;
    memset(f->slots, 0xff, (size_t)(2 * (f->mask + 1)) * sizeof(int64_t));
    if (k_ready(n, f)) return -1;
    int64_t left = k_steps(n);
    for (int64_t sequence = 0; sequence < f->sequences; sequence++) {
        const int64_t last = f->offsets[sequence + 1] - 1;
        memcpy(f->smoothed + last * n, f->filtered + last * n, (size_t)n * sizeof(double));
        f->pair[last] = -1;
        int64_t now = k_number(size, f->covariance + f->edge[last] * size, f->after, &f->found, f->room, f->slots, f->mask);
        if (now >= f->room) return 0;
        f->which[last] = now;
        for (int64_t t = last - 1; t >= f->offsets[sequence]; t--) {
            if (--left == 0) {
                if (f->look()) return -1;
                left = k_steps(n);
            }
            const int64_t own = f->edge[t];
            const double *back = f->back + own * size;
            int64_t *place = k_place(own, now, f->pair_edge, f->pair_after, pairs, f->mask);
            if (*place < 0) {
                const int64_t fresh = f->pairs;
                if (fresh >= f->room) return 0;
                double *lagged = f->lagged + fresh * size;
                k_mul(n, f->after + now * size, back, lagged);
                k_tmul(n, back, lagged, s);
                for (ptrdiff_t i = 0; i < size; i++) s[i] += f->rest[own * size + i];
                k_mirror(n, s);
                f->pair_edge[fresh] = own;
                f->pair_after[fresh] = now;
                f->pair_result[fresh] = k_number(size, s, f->after, &f->found, f->room, f->slots, f->mask);
                if (f->pair_result[fresh] >= f->room) return 0;
                *place = fresh;
                f->pairs++;
            }
            now = f->pair_result[*place];
            f->which[t] = now;
            f->pair[t] = *place;
            k_vec(n, f->at, f->filtered + t * n, step);
            for (ptrdiff_t i = 0; i < n; i++) e[i] = f->smoothed[(t + 1) * n + i] - (step[i] + f->drift[t * n + i]);
            k_vec(n, back, e, step);
            for (ptrdiff_t i = 0; i < n; i++) f->smoothed[t * n + i] = f->filtered[t * n + i] + step[i];
        }
    }
    return 1;
}

/* Wider registers where there are any: the same sums, element by element, so the same bits. */
#define OF(name, type) \
    HERD_LOOP_32(int, name##_of, (ptrdiff_t n, type *f), (n, f)) \
    { \
        switch (n) { \
        case 1: return name(1, f); \
        case 2: return name(2, f); \
        case 3: return name(3, f); \
        case 4: return name(4, f); \
        case 6: return name(6, f); \
        case 8: return name(8, f); \
        case 12: return name(12, f); \
        case 16: return name(16, f); \
        default: return name(n, f); \
        } \
    }

OF(k_filter, Filter)
OF(k_smooth, Smoother)
