/* The loops of _embedding.h for one precision: REAL, WORD (signed integer of its size), V (lanes) and the constants
 * HERD_2(name) are given by the file that includes this one twice.
 *
 * GNU vectors of 64 bytes keep V lanes whatever the machine's width, and the sums over columns have V partial sums:
 * AVX-512, AVX2, SSE2 and NEON give the same bits.  Compiled with -ffp-contract=off.
 */

typedef REAL HERD_2(vector) __attribute__((vector_size(64)));
typedef WORD HERD_2(mask) __attribute__((vector_size(64)));
typedef REAL HERD_2(loose) __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias)); /* loads and stores at any address */

#define HERD_LOAD(p) (*(const HERD_2(loose) *)(p))
#define HERD_STORE(p, v) (*(HERD_2(loose) *)(p) = (v))

#define HERD_EACH(ROWS) _Pragma("GCC unroll 8") for (int r_ = 0; r_ < (ROWS); r_++)

/* u[r] <- 2^u[r] = 2^n 2^f, n = round(u), |f| <= 1/2, with `clip` lanes below LOWEST become 0.
 * 2^f = 1 + s E(s) + f O(s), s = f^2: even and odd powers are two short chains of dependent operations. */
#define HERD_EXP2(u, ROWS, clip)                                                                                               \
    do {                                                                                                                       \
        HERD_2(vector) shifted_[ROWS], f_[ROWS], s_[ROWS], p_[ROWS], q_[ROWS];                                                 \
        HERD_EACH(ROWS) shifted_[r_] = (u)[r_] + MAGIC;                                                                        \
        HERD_EACH(ROWS) f_[r_] = (u)[r_] - (shifted_[r_] - MAGIC);                                                             \
        HERD_EACH(ROWS) s_[r_] = f_[r_] * f_[r_];                                                                              \
        HERD_EACH(ROWS) p_[r_] = s_[r_] * EVEN[0] + EVEN[1];                                                                   \
        HERD_EACH(ROWS) q_[r_] = s_[r_] * ODD[0] + ODD[1];                                                                     \
        _Pragma("GCC unroll 8") for (int c_ = 2; c_ < TERMS; c_++)                                                             \
        {                                                                                                                      \
            HERD_EACH(ROWS) p_[r_] = p_[r_] * s_[r_] + EVEN[c_];                                                               \
            HERD_EACH(ROWS) q_[r_] = q_[r_] * s_[r_] + ODD[c_];                                                                \
        }                                                                                                                      \
        HERD_EACH(ROWS) p_[r_] = (p_[r_] * s_[r_] + (REAL)1) + q_[r_] * f_[r_];                                                \
        HERD_EACH(ROWS)                                                                                                        \
        {                                                                                                                      \
            HERD_2(mask) bits_ = (HERD_2(mask))p_[r_] + ((HERD_2(mask))shifted_[r_] << MANTISSA);                  \
            if (clip)                                                                                                          \
                bits_ &= (HERD_2(mask))((u)[r_] > LOWEST);                                                                     \
            (u)[r_] = (HERD_2(vector))bits_;                                                                                   \
        }                                                                                                                      \
    } while (0)

/* The terms of one column k: a_rk b_k, or with `differences` the squares (b_k - a_rk)^2. */
#define HERD_TERM(y, x, differences) ((differences) ? ((y) - (x)) * ((y) - (x)) : (y) * (x))

/* u[r] <- a_r.b for ROWS rows a_r against V columns b, or with `differences` -|a_r - b|^2 / 2. */
#define HERD_EXPONENTS(u, ROWS, a, lda, b, ldb, d, differences)                                                                \
    do {                                                                                                                       \
        HERD_EACH(ROWS) (u)[r_] = HERD_TERM(HERD_LOAD(b), (a)[r_], differences);    \
        for (ptrdiff_t k_ = 1; k_ < (d); k_++) {                                                                               \
            const HERD_2(vector) y_ = HERD_LOAD((b) + k_ * (ldb));                                                             \
            HERD_EACH(ROWS) (u)[r_] += HERD_TERM(y_, (a)[k_ * (lda) + r_], differences); \
        }                                                                                                                      \
        if (differences)                                                                                                       \
            HERD_EACH(ROWS) (u)[r_] *= (REAL)-0.5;                                  \
    } while (0)

/* Rows i .. i+ROWS of a tile: their sums over all columns, and their part of the columns' sums. */
#define HERD_STRIP(ROWS, symmetric, differences)                                                                               \
    do {                                                                                                                       \
        HERD_2(vector) sum_[ROWS], u_[ROWS];                                                                                   \
        for (int r = 0; r < (ROWS); r++)                                                                                       \
            sum_[r] = (HERD_2(vector)){0};                                                                                     \
        for (ptrdiff_t j = 0; j < nb; j += V) {                                                                                \
            HERD_EXPONENTS(u_, ROWS, a + i, lda, b + j, ldb, d, differences);                                                  \
            const HERD_2(vector) w_ = HERD_LOAD(wb + j);                                                                       \
            HERD_EXP2(u_, ROWS, differences);                                                                                  \
            HERD_EACH(ROWS) sum_[r_] += u_[r_] * w_;                                                                           \
            if (symmetric) {                                                                                                   \
                HERD_2(vector) c_ = HERD_LOAD(columns + j);                                                                    \
                HERD_EACH(ROWS) c_ += u_[r_] * wa[i + r_];                                                                     \
                HERD_STORE(columns + j, c_);                                                                                   \
            }                                                                                                                  \
        }                                                                                                                      \
        for (int r = 0; r < (ROWS); r++) {                                                                                     \
            double total = 0;                                                                                                  \
            for (int l = 0; l < V; l++)                                                                                        \
                total += (double)sum_[r][l];                                                                                   \
            rows[i + r] = total;                                                                                               \
        }                                                                                                                      \
    } while (0)

#define HERD_TILE(symmetric, differences)                                                                                      \
    do {                                                                                                                       \
        ptrdiff_t i = 0;                                                                                                       \
        for (; i + 4 <= na; i += 4)                                                                                            \
            HERD_STRIP(4, symmetric, differences);                                                                             \
        for (; i < na; i++)                                                                                                    \
            HERD_STRIP(1, symmetric, differences);                                                                             \
    } while (0)

/* x (count) <- 2^x; count is a multiple of V. */
HERD_CLONES static void HERD_2(herd_exp2_each)(REAL *x, ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count; i += V) {
        HERD_2(vector) u[1] = {HERD_LOAD(x + i)};
        HERD_EXP2(u, 1, 1);
        HERD_STORE(x + i, u[0]);
    }
}

/* `columns` NULL: only the sums of the rows. */
HERD_CLONES static void HERD_2(herd_tile)(const REAL *a, ptrdiff_t lda, const REAL *wa, ptrdiff_t na, const REAL *b, ptrdiff_t ldb, const REAL *wb,
                                          ptrdiff_t nb, ptrdiff_t d, int differences, double *rows, REAL *columns)
{
    if (columns && differences)
        HERD_TILE(1, 1);
    else if (columns)
        HERD_TILE(1, 0);
    else if (differences)
        HERD_TILE(0, 1);
    else
        HERD_TILE(0, 0);
}

/* The sums of herd_tile where the products a.b stand in `u` (na, nb), as BLAS made them. */
HERD_CLONES static void HERD_2(herd_finish)(const REAL *u, const REAL *wa, ptrdiff_t na, const REAL *wb, ptrdiff_t nb, double *rows, REAL *columns)
{
    for (ptrdiff_t i = 0; i < na; i++) {
        HERD_2(vector) sum = {0};
        for (ptrdiff_t j = 0; j < nb; j += V) {
            HERD_2(vector) v[1] = {HERD_LOAD(u + i * nb + j)};
            HERD_EXP2(v, 1, 0);
            sum += v[0] * HERD_LOAD(wb + j);
            HERD_STORE(columns + j, HERD_LOAD(columns + j) + v[0] * wa[i]);
        }
        double total = 0;
        for (int l = 0; l < V; l++)
            total += (double)sum[l];
        rows[i] = total;
    }
}

/* 2^(-|a - b_j|^2 / 2) of one row against nb columns, nb a multiple of V. */
HERD_CLONES static void HERD_2(herd_values)(const REAL *a, const REAL *b, ptrdiff_t ldb, ptrdiff_t nb, ptrdiff_t d, REAL *out)
{
    for (ptrdiff_t j = 0; j < nb; j += V) {
        HERD_2(vector) u[1];
        HERD_EXPONENTS(u, 1, a, 1, b + j, ldb, d, 1);
        HERD_EXP2(u, 1, 1);
        HERD_STORE(out + j, u[0]);
    }
}

#undef HERD_LOAD
#undef HERD_STORE
#undef HERD_EACH
#undef HERD_EXP2
#undef HERD_TERM
#undef HERD_EXPONENTS
#undef HERD_STRIP
#undef HERD_TILE
