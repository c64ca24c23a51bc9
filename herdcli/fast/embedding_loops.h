/* The loops of _embedding.h for one precision and instruction set, whose names and constants embedding_types.h gives.
 *
 * V lanes of 64 bytes are PARTS vectors.  Sums over columns have V partial sums, which are added lane by lane at the end.
 * Loops run over STRIP rows and their PARTS vectors together, entry r_ being row r_ / PARTS, vector r_ % PARTS.
 */
#define V ((ptrdiff_t)(64 / sizeof(REAL)))
#define W ((ptrdiff_t)(BYTES / sizeof(REAL)))
#define PARTS (64 / BYTES)

typedef REAL HERD_2(vector) __attribute__((vector_size(BYTES)));
typedef WORD HERD_2(mask) __attribute__((vector_size(BYTES)));
typedef REAL HERD_2(loose) __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias)); /* loads and stores at any address */

#define INLINE static inline __attribute__((always_inline)) TARGET
#define LOAD(p) ((HERD_2(vector))(*(const HERD_2(loose) *)(p)))
#define STORE(p, v) (*(HERD_2(loose) *)(p) = (v))
#define SPLAT(x) ((x) - (HERD_2(vector)){0})
#define EACH _Pragma("GCC unroll 8") for (int r_ = 0; r_ < rows * PARTS; r_++)

/* u[r] <- 2^u[r] = 2^n 2^f, n = round(u), |f| <= 1/2, with `clip` lanes below LOWEST become 0.
 * 2^f = 1 + s E(s) + f O(s), s = f^2: even and odd powers are two short chains of dependent operations. */
INLINE void HERD_2(exponential)(HERD_2(vector) *u, const int rows, const int clip)
{
    HERD_2(vector) shifted[4 * PARTS], f[4 * PARTS], s[4 * PARTS], p[4 * PARTS], q[4 * PARTS];
    EACH shifted[r_] = u[r_] + (REAL)MAGIC;
    EACH f[r_] = u[r_] - (shifted[r_] - (REAL)MAGIC);
    EACH s[r_] = f[r_] * f[r_];
    EACH p[r_] = MULADD(s[r_], SPLAT(EVEN[0]), SPLAT(EVEN[1]));
    EACH q[r_] = MULADD(s[r_], SPLAT(ODD[0]), SPLAT(ODD[1]));
    _Pragma("GCC unroll 8") for (int c_ = 2; c_ < TERMS; c_++)
    {
        EACH p[r_] = MULADD(p[r_], s[r_], SPLAT(EVEN[c_]));
        EACH q[r_] = MULADD(q[r_], s[r_], SPLAT(ODD[c_]));
    }
    EACH p[r_] = MULADD(p[r_], s[r_], SPLAT((REAL)1)) + q[r_] * f[r_];
    EACH
    {
        HERD_2(mask) bits = (HERD_2(mask))p[r_] + ((HERD_2(mask))shifted[r_] << MANTISSA);
        if (clip)
            bits &= (HERD_2(mask))(u[r_] > (REAL)LOWEST);
        u[r_] = (HERD_2(vector))bits;
    }
}

#ifdef EVERY_KIND
INLINE HERD_2(vector) HERD_2(magnitude)(HERD_2(vector) x)
{
    return (HERD_2(vector))((HERD_2(mask))x & (INT64_MAX - (HERD_2(mask)){0}));
}

/* A polynomial in u by its coefficients, highest power first. */
INLINE HERD_2(vector) HERD_2(horner)(HERD_2(vector) u, const double *coefficients, const int count)
{
    HERD_2(vector) found = MULADD(u, SPLAT(coefficients[0]), SPLAT(coefficients[1]));
    _Pragma("GCC unroll 8") for (int c = 2; c < count; c++) found = MULADD(found, u, SPLAT(coefficients[c]));
    return found;
}
#endif

/* What one column adds to (for Bernoulli: multiplies) what the columns before gave. */
INLINE HERD_2(vector) HERD_2(joined)(HERD_2(vector) before, HERD_2(vector) y, HERD_2(vector) x, const int kind, const int first)
{
    if (kind == HERD_PRODUCT)
        return first ? y * x : MULADD(y, x, before);
    const HERD_2(vector) gap = y - x;
#ifdef EVERY_KIND
    if (kind == HERD_LAPLACE)
        return first ? HERD_2(magnitude)(gap) : before + HERD_2(magnitude)(gap);
    if (kind == HERD_UNEQUAL) {
        const HERD_2(vector) one = (HERD_2(vector))((HERD_2(mask))(gap != 0) & (HERD_2(mask))SPLAT((REAL)1));
        return first ? one : before + one;
    }
    if (kind >= HERD_BERNOULLI1) {
        const HERD_2(vector) u = HERD_2(magnitude)(gap);
        const HERD_2(vector) factor = kind == HERD_BERNOULLI1   ? HERD_2(horner)(u, herd_bernoulli1, 3)
                                      : kind == HERD_BERNOULLI2 ? HERD_2(horner)(u, herd_bernoulli2, 5)
                                                                : HERD_2(horner)(u, herd_bernoulli3, 7);
        return first ? factor : before * factor;
    }
#endif
    return first ? gap * gap : MULADD(gap, gap, before);
}

/* u[r] <- k(a_r, b_j) for `rows` rows a_r and the V columns from b on; a product leaves 2^(a_r.b_j). */
INLINE void HERD_2(kernel)(HERD_2(vector) *u, const int rows, const int kind, const REAL *a, ptrdiff_t lda, const REAL *b, ptrdiff_t ldb,
                           ptrdiff_t d)
{
    EACH u[r_] = HERD_2(joined)(SPLAT((REAL)0), LOAD(b + r_ % PARTS * W), SPLAT(a[r_ / PARTS]), kind, 1);
    for (ptrdiff_t k = 1; k < d; k++)
        EACH u[r_] = HERD_2(joined)(u[r_], LOAD(b + k * ldb + r_ % PARTS * W), SPLAT(a[k * lda + r_ / PARTS]), kind, 0);
    if (kind == HERD_PRODUCT)
        HERD_2(exponential)(u, rows, 0);
    if (kind == HERD_GAUSSIAN) {
        EACH u[r_] *= (REAL)-0.5;
        HERD_2(exponential)(u, rows, 1);
    }
#ifdef EVERY_KIND
    if (kind == HERD_MATERN1 || kind == HERD_MATERN3 || kind == HERD_MATERN5 || kind == HERD_DISTANCE)
        EACH u[r_] = ROOT(u[r_]);
    if (kind == HERD_LAPLACE || kind == HERD_MATERN1) {
        EACH u[r_] = -u[r_];
        HERD_2(exponential)(u, rows, 1);
    }
    if (kind == HERD_MATERN3 || kind == HERD_MATERN5) { /* s = u log 2: 2^-u (1 + s), 2^-u (1 + s (1 + s/3)) */
        HERD_2(vector) s[4 * PARTS];
        EACH s[r_] = u[r_] * 0.6931471805599453;
        if (kind == HERD_MATERN3)
            EACH s[r_] = s[r_] + 1.0;
        else
            EACH s[r_] = MULADD(s[r_], MULADD(s[r_], SPLAT(1.0 / 3.0), SPLAT(1.0)), SPLAT(1.0));
        EACH u[r_] = -u[r_];
        HERD_2(exponential)(u, rows, 1);
        EACH u[r_] *= s[r_];
    }
    if (kind == HERD_MULTIQUADRIC)
        EACH u[r_] = 1.0 / ROOT((u[r_] + 1.0));
    if (kind == HERD_RATIONAL)
        EACH u[r_] = 1.0 / (u[r_] + 1.0);
    if (kind >= HERD_BERNOULLI1)
        EACH u[r_] = u[r_] - 1.0;
#endif
}

/* The lanes of a row's PARTS partial sums, added in their order. */
INLINE double HERD_2(total)(const HERD_2(vector) *sum)
{
    double found = 0;
    for (int part = 0; part < PARTS; part++)
        for (int l = 0; l < W; l++)
            found += (double)sum[part][l];
    return found;
}

/* Rows i .. i+rows of a tile: their sums over all columns, and with `both` their part of the columns' sums. */
INLINE void HERD_2(strip)(const int rows, const int kind, const int both, ptrdiff_t i, const REAL *a, ptrdiff_t lda, const REAL *wa, const REAL *b,
                          ptrdiff_t ldb, const REAL *wb, ptrdiff_t nb, ptrdiff_t d, double *down, REAL *across)
{
    HERD_2(vector) sum[4 * PARTS], u[4 * PARTS];
    EACH sum[r_] = SPLAT((REAL)0);
    for (ptrdiff_t j = 0; j < nb; j += V) {
        HERD_2(kernel)(u, rows, kind, a + i, lda, b + j, ldb, d);
        EACH sum[r_] = MULADD(u[r_], LOAD(wb + j + r_ % PARTS * W), sum[r_]);
        if (both)
            for (int part = 0; part < PARTS; part++) {
                REAL *place = across + j + part * W;
                HERD_2(vector) c = LOAD(place);
                for (int r = 0; r < rows; r++)
                    c = MULADD(u[r * PARTS + part], SPLAT(wa[i + r]), c);
                STORE(place, c);
            }
    }
    for (int r = 0; r < rows; r++)
        down[i + r] = HERD_2(total)(sum + r * PARTS);
}

#define CASE(kind, both)                                                                                                                   \
    do {                                                                                                                                   \
        ptrdiff_t i = 0;                                                                                                                   \
        for (; i + STRIP <= na; i += STRIP)                                                                                                \
            HERD_2(strip)(STRIP, kind, both, i, a, lda, wa, b, ldb, wb, nb, d, down, across);                                              \
        for (; i < na; i++)                                                                                                                \
            HERD_2(strip)(1, kind, both, i, a, lda, wa, b, ldb, wb, nb, d, down, across);                                                  \
    } while (0)

/* `across` NULL: only the sums of the rows. */
#define ONE_OR_BOTH(kind)                                                                                                                  \
    if (across)                                                                                                                            \
        CASE(kind, 1);                                                                                                                     \
    else                                                                                                                                   \
        CASE(kind, 0);                                                                                                                     \
    break

TARGET static void HERD_2(tile)(int kind, const REAL *a, ptrdiff_t lda, const REAL *wa, ptrdiff_t na, const REAL *b, ptrdiff_t ldb, const REAL *wb,
                                ptrdiff_t nb, ptrdiff_t d, double *down, REAL *across)
{
    switch (kind) {
    case HERD_PRODUCT: ONE_OR_BOTH(HERD_PRODUCT);
    case HERD_GAUSSIAN: ONE_OR_BOTH(HERD_GAUSSIAN);
#ifdef EVERY_KIND
    case HERD_LAPLACE: ONE_OR_BOTH(HERD_LAPLACE);
    case HERD_MATERN1: ONE_OR_BOTH(HERD_MATERN1);
    case HERD_MATERN3: ONE_OR_BOTH(HERD_MATERN3);
    case HERD_MATERN5: ONE_OR_BOTH(HERD_MATERN5);
    case HERD_MULTIQUADRIC: ONE_OR_BOTH(HERD_MULTIQUADRIC);
    case HERD_RATIONAL: ONE_OR_BOTH(HERD_RATIONAL);
    case HERD_DISTANCE: ONE_OR_BOTH(HERD_DISTANCE);
    case HERD_UNEQUAL: ONE_OR_BOTH(HERD_UNEQUAL);
    case HERD_BERNOULLI1: ONE_OR_BOTH(HERD_BERNOULLI1);
    case HERD_BERNOULLI2: ONE_OR_BOTH(HERD_BERNOULLI2);
    case HERD_BERNOULLI3: ONE_OR_BOTH(HERD_BERNOULLI3);
#endif
    }
}

/* k(a, b_j) of one row against nb columns, nb a multiple of V. */
#define VALUES(kind)                                                                                                                       \
    for (ptrdiff_t j = 0; j < nb; j += V) {                                                                                                \
        HERD_2(vector) u[4 * PARTS];                                                                                                       \
        const int rows = 1;                                                                                                                \
        HERD_2(kernel)(u, 1, kind, a, 1, b + j, ldb, d);                                                                                   \
        EACH STORE(out + j + r_ * W, u[r_]);                                                                                               \
    }                                                                                                                                      \
    break

TARGET static void HERD_2(values)(int kind, const REAL *a, const REAL *b, ptrdiff_t ldb, ptrdiff_t nb, ptrdiff_t d, REAL *out)
{
    switch (kind) {
    case HERD_GAUSSIAN: VALUES(HERD_GAUSSIAN);
#ifdef EVERY_KIND
    case HERD_LAPLACE: VALUES(HERD_LAPLACE);
    case HERD_MATERN1: VALUES(HERD_MATERN1);
    case HERD_MATERN3: VALUES(HERD_MATERN3);
    case HERD_MATERN5: VALUES(HERD_MATERN5);
    case HERD_MULTIQUADRIC: VALUES(HERD_MULTIQUADRIC);
    case HERD_RATIONAL: VALUES(HERD_RATIONAL);
    case HERD_DISTANCE: VALUES(HERD_DISTANCE);
    case HERD_UNEQUAL: VALUES(HERD_UNEQUAL);
    case HERD_BERNOULLI1: VALUES(HERD_BERNOULLI1);
    case HERD_BERNOULLI2: VALUES(HERD_BERNOULLI2);
    case HERD_BERNOULLI3: VALUES(HERD_BERNOULLI3);
#endif
    }
}

#ifdef EVERY_KIND
/* Stein's kernel of one row against nb others: see stein_values in numpy_embedding.py.  b holds d rows of points, d of scores, then what
 * each has of itself. */
INLINE void HERD_2(stein_columns)(const int gaussian, const int metric, const double *a, const double *own, const double *b, ptrdiff_t ldb,
                                  ptrdiff_t nb, ptrdiff_t d, double *out)
{
    const int rows = 1;
    const double *points = a, *down = a + d, *scores = a + 2 * d, *up = a + 3 * d, *twice = a + 4 * d;
    for (ptrdiff_t j = 0; j < nb; j += V) {
        HERD_2(vector) q[PARTS], c[PARTS], s[PARTS], v[PARTS];
        EACH q[r_] = c[r_] = s[r_] = v[r_] = SPLAT(0.0);
        for (ptrdiff_t k = 0; k < d; k++)
            EACH
            {
                const HERD_2(vector) x = LOAD(b + k * ldb + j + r_ * W);
                q[r_] = MULADD(x, SPLAT(points[k]), q[r_]);
                c[r_] = MULADD(x, SPLAT(down[k]), c[r_]);
                if (metric)
                    v[r_] = MULADD(x, SPLAT(twice[k]), v[r_]);
            }
        for (ptrdiff_t k = 0; k < d; k++)
            EACH
            {
                const HERD_2(vector) x = LOAD(b + (d + k) * ldb + j + r_ * W);
                s[r_] = MULADD(x, SPLAT(scores[k]), s[r_]);
                c[r_] = MULADD(x, SPLAT(up[k]), c[r_]);
            }
        const double *theirs = b + 2 * d * ldb + j;
        EACH
        {
            q[r_] = (LOAD(theirs + r_ * W) + own[0]) - 2.0 * q[r_];
            q[r_] = (HERD_2(vector))((HERD_2(mask))(q[r_] > 0.0) & (HERD_2(mask))q[r_]);
            c[r_] = (LOAD(theirs + ldb + r_ * W) + own[1]) - c[r_];
            if (metric) {
                v[r_] = (LOAD(theirs + 2 * ldb + r_ * W) + own[2]) - 2.0 * v[r_];
                v[r_] = (HERD_2(vector))((HERD_2(mask))(v[r_] > 0.0) & (HERD_2(mask))v[r_]);
            } else
                v[r_] = q[r_] * own[2];
        }
        if (gaussian) {
            EACH q[r_] *= -0.7213475204444817; /* log2(e) / 2 */
            HERD_2(exponential)(q, 1, 1);
            EACH STORE(out + j + r_ * W, q[r_] * (((c[r_] + own[3]) - v[r_]) + s[r_]));
        } else
            EACH
            {
                const HERD_2(vector) h = 1.0 / ROOT((q[r_] + 1.0)), square = h * h;
                STORE(out + j + r_ * W, h * (s[r_] + square * ((c[r_] + own[3]) - 3.0 * v[r_] * square)));
            }
    }
}

TARGET static void HERD_2(stein)(int gaussian, int metric, const double *a, const double *own, const double *b, ptrdiff_t ldb, ptrdiff_t nb,
                                   ptrdiff_t d, double *out)
{
    if (gaussian)
        metric ? HERD_2(stein_columns)(1, 1, a, own, b, ldb, nb, d, out) : HERD_2(stein_columns)(1, 0, a, own, b, ldb, nb, d, out);
    else
        metric ? HERD_2(stein_columns)(0, 1, a, own, b, ldb, nb, d, out) : HERD_2(stein_columns)(0, 0, a, own, b, ldb, nb, d, out);
}
#endif

/* x (count) <- 2^x; count is a multiple of V. */
TARGET static void HERD_2(exp2_each)(REAL *x, ptrdiff_t count)
{
    const int rows = 1;
    for (ptrdiff_t i = 0; i < count; i += V) {
        HERD_2(vector) u[PARTS];
        EACH u[r_] = LOAD(x + i + r_ * W);
        HERD_2(exponential)(u, 1, 1);
        EACH STORE(x + i + r_ * W, u[r_]);
    }
}

/* The sums of a tile of products where these stand in `u` (na, nb), as BLAS made them. */
TARGET static void HERD_2(finish)(const REAL *u, const REAL *wa, ptrdiff_t na, const REAL *wb, ptrdiff_t nb, double *down, REAL *across)
{
    const int rows = 1;
    for (ptrdiff_t i = 0; i < na; i++) {
        HERD_2(vector) sum[PARTS], v[PARTS];
        EACH sum[r_] = SPLAT((REAL)0);
        for (ptrdiff_t j = 0; j < nb; j += V) {
            EACH v[r_] = LOAD(u + i * nb + j + r_ * W);
            HERD_2(exponential)(v, 1, 0);
            EACH sum[r_] = MULADD(v[r_], LOAD(wb + j + r_ * W), sum[r_]);
            EACH STORE(across + j + r_ * W, MULADD(v[r_], SPLAT(wa[i]), LOAD(across + j + r_ * W)));
        }
        down[i] = HERD_2(total)(sum);
    }
}

#undef V
#undef W
#undef PARTS
#undef INLINE
#undef LOAD
#undef STORE
#undef SPLAT
#undef EACH
#undef CASE
#undef ONE_OR_BOTH
#undef VALUES
