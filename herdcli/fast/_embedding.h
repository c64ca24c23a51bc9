/* Sums of Gaussian kernels over tiles of rows: the loops of _embedding.pyx, in float64 and in float32. */
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define HERD_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HERD_CLONES
#endif

/* 2^f on |f| <= 1/2: (2^f - 1)/f interpolated at Chebyshev nodes, even and odd powers apart, highest first; 7.1e-16 and
 * 9.5e-8 relative. */
static const double herd_even_double[] = {7.070977711584016e-09, 1.3215451632925122e-06, 0.00015403530424779803, 0.00961812910761866, 0.24022650695910075};
static const double herd_odd_double[] = {1.0205905398548696e-07, 1.5252672924951426e-05, 0.0013333558200794376, 0.05550410866465167, 0.6931471805599462};
static const float herd_even_float[] = {0.00015453163359779865f, 0.009618083015084267f, 0.24022650718688965f};
static const float herd_odd_float[] = {0.0013390863314270973f, 0.055503569543361664f, 0.6931471824645996f};

#define REAL double
#define WORD int64_t
#define V 8
#define HERD_2(name) name##_double
#define MAGIC 6755399441055744.0 /* 1.5 * 2^52: adding it rounds to an integer, which then stands in the low bits */
#define MANTISSA 52
#define LOWEST -1021.0
#define EVEN herd_even_double
#define ODD herd_odd_double
#define TERMS 5
#include "embedding_loops.h"
#undef REAL
#undef WORD
#undef V
#undef HERD_2
#undef MAGIC
#undef MANTISSA
#undef LOWEST
#undef EVEN
#undef ODD
#undef TERMS

#define REAL float
#define WORD int32_t
#define V 16
#define HERD_2(name) name##_float
#define MAGIC 12582912.0f /* 1.5 * 2^23 */
#define MANTISSA 23
#define LOWEST -125.0f
#define EVEN herd_even_float
#define ODD herd_odd_float
#define TERMS 3
#include "embedding_loops.h"
