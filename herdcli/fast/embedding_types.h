/* embedding_loops.h for both precisions of one instruction set: SET, BYTES (of a vector), STRIP (rows at once), TARGET, MULADD_*, ROOT. */
#define HERD_JOIN4(a, b, c, d) a##b##_##c##_##d
#define HERD_NAME(name, type, set) HERD_JOIN4(herd_, name, type, set)

#define REAL double
#define WORD int64_t
#define MULADD MULADD_DOUBLE
#define HERD_2(name) HERD_NAME(name, double, SET)
#define MAGIC 6755399441055744.0 /* 1.5 * 2^52: adding it rounds to an integer, which then stands in the low bits */
#define MANTISSA 52
#define LOWEST -1021.0
#define EVEN herd_even_double
#define ODD herd_odd_double
#define TERMS 5
#define EVERY_KIND
#include "embedding_loops.h"
#undef EVERY_KIND
#undef REAL
#undef WORD
#undef MULADD
#undef HERD_2
#undef MAGIC
#undef MANTISSA
#undef LOWEST
#undef EVEN
#undef ODD
#undef TERMS

#define REAL float
#define WORD int32_t
#define MULADD MULADD_FLOAT
#define HERD_2(name) HERD_NAME(name, float, SET)
#define MAGIC 12582912.0f /* 1.5 * 2^23 */
#define MANTISSA 23
#define LOWEST -125.0f
#define EVEN herd_even_float
#define ODD herd_odd_float
#define TERMS 3
#include "embedding_loops.h"
#undef REAL
#undef WORD
#undef MULADD
#undef HERD_2
#undef MAGIC
#undef MANTISSA
#undef LOWEST
#undef EVEN
#undef ODD
#undef TERMS

#undef SET
#undef BYTES
#undef STRIP
#undef TARGET
#undef MULADD_DOUBLE
#undef MULADD_FLOAT
#undef ROOT
