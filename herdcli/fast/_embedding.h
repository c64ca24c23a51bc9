/* Sums of radial kernels over tiles of rows: the loops of _embedding.pyx, once for each instruction set.
 *
 * embedding_loops.h is compiled for each set with vectors of that set's width, and 64 bytes are always taken together: 1, 2 or 4
 * vectors.  So sums have the same lanes and every set gives the same bits, but avx2+fma, which rounds a product and a sum once.
 * The choice is by function pointers, which every libc and linker has.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What is computed from the terms of two points: see numpy_embedding.py. */
enum { HERD_PRODUCT, HERD_GAUSSIAN, HERD_LAPLACE, HERD_MATERN1, HERD_MATERN3, HERD_MATERN5, HERD_MULTIQUADRIC, HERD_RATIONAL,
       HERD_DISTANCE, HERD_UNEQUAL, HERD_BERNOULLI1, HERD_BERNOULLI2, HERD_BERNOULLI3, HERD_KINDS };

/* 2^f on |f| <= 1/2: (2^f - 1)/f interpolated at Chebyshev nodes, even and odd powers apart, highest first; 7.1e-16 and
 * 9.5e-8 relative. */
static const double herd_even_double[] = {7.070977711584016e-09, 1.3215451632925122e-06, 0.00015403530424779803, 0.00961812910761866, 0.24022650695910075};
static const double herd_odd_double[] = {1.0205905398548696e-07, 1.5252672924951426e-05, 0.0013333558200794376, 0.05550410866465167, 0.6931471805599462};
static const float herd_even_float[] = {0.00015453163359779865f, 0.009618083015084267f, 0.24022650718688965f};
static const float herd_odd_float[] = {0.0013390863314270973f, 0.055503569543361664f, 0.6931471824645996f};

/* 1 + (-1)^(v-1) B_2v(u) / (2v)! by powers of u, highest first. */
static const double herd_bernoulli1[] = {1.0 / 2, -1.0 / 2, 1.0 + 1.0 / 12};
static const double herd_bernoulli2[] = {-1.0 / 24, 2.0 / 24, -1.0 / 24, 0.0, 1.0 + 1.0 / 720};
static const double herd_bernoulli3[] = {1.0 / 720, -3.0 / 720, 5.0 / 1440, 0.0, -1.0 / 1440, 0.0, 1.0 + 1.0 / 30240};

typedef struct {
    const char *name;
    int fused;
    void (*exp2_double)(double *, ptrdiff_t);
    void (*exp2_float)(float *, ptrdiff_t);
    void (*tile_double)(int, const double *, ptrdiff_t, const double *, ptrdiff_t, const double *, ptrdiff_t, const double *, ptrdiff_t, ptrdiff_t,
                        double *, double *);
    void (*tile_float)(int, const float *, ptrdiff_t, const float *, ptrdiff_t, const float *, ptrdiff_t, const float *, ptrdiff_t, ptrdiff_t,
                       double *, float *);
    void (*finish_double)(const double *, const double *, ptrdiff_t, const double *, ptrdiff_t, double *, double *);
    void (*finish_float)(const float *, const float *, ptrdiff_t, const float *, ptrdiff_t, double *, float *);
    void (*values_double)(int, const double *, const double *, ptrdiff_t, ptrdiff_t, ptrdiff_t, double *);
    void (*values_float)(int, const float *, const float *, ptrdiff_t, ptrdiff_t, ptrdiff_t, float *);
    void (*stein)(int, int, const double *, const double *, const double *, ptrdiff_t, ptrdiff_t, ptrdiff_t, double *);
} herd_loops;

#define HERD_LOOPS(NAME, FUSED, SET)                                                                                                       \
    {NAME, FUSED, herd_exp2_each_double_##SET, herd_exp2_each_float_##SET, herd_tile_double_##SET, herd_tile_float_##SET,                  \
     herd_finish_double_##SET, herd_finish_float_##SET, herd_values_double_##SET, herd_values_float_##SET, herd_stein_double_##SET}

#define HERD_PLAIN(a, b, c) ((a) * (b) + (c))

/* The set every machine of the architecture has. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HERD_X86
#define HERD_BASE "sse2"
#define ROOT(x) ((herd_vector_double_base)_mm_sqrt_pd((__m128d)(x)))
#else
#define HERD_BASE "base"
#define ROOT(x) ((herd_vector_double_base){__builtin_sqrt((x)[0]), __builtin_sqrt((x)[1])})
#endif
#define SET base
#define BYTES 16
#define STRIP 2
#define TARGET
#define MULADD_DOUBLE HERD_PLAIN
#define MULADD_FLOAT HERD_PLAIN
#include "embedding_types.h"

#ifdef HERD_X86
#define ROOT(x) ((herd_vector_double_avx2)_mm256_sqrt_pd((__m256d)(x)))
#define SET avx2
#define BYTES 32
#define STRIP 2
#define TARGET __attribute__((target("avx2")))
#define MULADD_DOUBLE HERD_PLAIN
#define MULADD_FLOAT HERD_PLAIN
#include "embedding_types.h"

#define ROOT(x) ((herd_vector_double_avx2fma)_mm256_sqrt_pd((__m256d)(x)))
#define SET avx2fma
#define BYTES 32
#define STRIP 2
#define TARGET __attribute__((target("avx2,fma")))
#define MULADD_DOUBLE(a, b, c) ((herd_vector_double_avx2fma)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define MULADD_FLOAT(a, b, c) ((herd_vector_float_avx2fma)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "embedding_types.h"

#define ROOT(x) ((herd_vector_double_avx512)_mm512_sqrt_pd((__m512d)(x)))
#define SET avx512
#define BYTES 64
#define STRIP 4
#define TARGET __attribute__((target("avx512f")))
#define MULADD_DOUBLE HERD_PLAIN
#define MULADD_FLOAT HERD_PLAIN
#include "embedding_types.h"
#endif

/* Best first; what rounds differently comes last and is never taken unasked. */
static const herd_loops herd_sets[] = {
#ifdef HERD_X86
    HERD_LOOPS("avx512", 0, avx512),
    HERD_LOOPS("avx2", 0, avx2),
#endif
    HERD_LOOPS(HERD_BASE, 0, base),
#ifdef HERD_X86
    HERD_LOOPS("avx2+fma", 1, avx2fma),
#endif
};
enum { HERD_SETS = sizeof herd_sets / sizeof herd_sets[0] };

static const herd_loops *herd_set = NULL;

/* Does the machine have set `number`? */
static int herd_runs(int number)
{
#ifdef HERD_X86
    const char *name = herd_sets[number].name;
    __builtin_cpu_init();
    if (!strcmp(name, "avx512"))
        return __builtin_cpu_supports("avx512f") != 0;
    if (!strcmp(name, "avx2"))
        return __builtin_cpu_supports("avx2") != 0;
    if (!strcmp(name, "avx2+fma"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return number < HERD_SETS;
}

static const char *herd_name(int number) { return herd_sets[number].name; }

static void herd_take(int number) { herd_set = &herd_sets[number]; }
