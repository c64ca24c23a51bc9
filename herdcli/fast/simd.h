/* One loop for several instruction sets: HERD_LOOP compiles its body for each, and calls the version of the set in use.
 *
 * The set is chosen when a module is loaded, or by HERD_SIMD through simd.pxi; a switch instead of the linker's help, which musl and
 * macOS do not have.  Compiled with -ffp-contract=off and without fast-math, all versions give the same bits.
 */
#ifndef HERD_SIMD_H
#define HERD_SIMD_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define HERD_INLINE static inline __attribute__((always_inline))
#else
#define HERD_INLINE static inline
#endif

enum { HERD_BASE_SET, HERD_AVX2_SET, HERD_AVX512_SET, HERD_SETS };
static int herd_set = HERD_BASE_SET; /* in use */

#if defined(__x86_64__) && defined(__GNUC__)
#define HERD_X86
#define HERD_AVX2 __attribute__((target("avx2,popcnt")))
#define HERD_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt")))
static const char *const herd_set_names[] = {"sse2", "avx2", "avx512"};

/* Does the machine have set `number`? */
static int herd_runs(int number)
{
    __builtin_cpu_init();
    if (number == HERD_AVX512_SET)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    return number == HERD_BASE_SET || (number == HERD_AVX2_SET && __builtin_cpu_supports("avx2"));
}

/* HERD_LOOP(double, name, (double *x, int n), (x, n)) { ... } */
#define HERD_LOOP(RESULT, NAME, PARAMETERS, ARGUMENTS)                                                                                     \
    HERD_INLINE RESULT NAME##_body PARAMETERS;                                                                                             \
    HERD_AVX512 static RESULT NAME##_avx512 PARAMETERS { return NAME##_body ARGUMENTS; }                                                   \
    HERD_AVX2 static RESULT NAME##_avx2 PARAMETERS { return NAME##_body ARGUMENTS; }                                                       \
    static RESULT NAME##_base PARAMETERS { return NAME##_body ARGUMENTS; }                                                                 \
    static RESULT NAME PARAMETERS                                                                                                          \
    {                                                                                                                                      \
        if (herd_set == HERD_AVX512_SET)                                                                                                   \
            return NAME##_avx512 ARGUMENTS;                                                                                                \
        return herd_set == HERD_AVX2_SET ? NAME##_avx2 ARGUMENTS : NAME##_base ARGUMENTS;                                                  \
    }                                                                                                                                      \
    HERD_INLINE RESULT NAME##_body PARAMETERS

/* The same for a body in vectors of 32 bytes, which gains nothing of wider ones. */
#define HERD_LOOP_32(RESULT, NAME, PARAMETERS, ARGUMENTS)                                                                                  \
    HERD_INLINE RESULT NAME##_body PARAMETERS;                                                                                             \
    HERD_AVX2 static RESULT NAME##_avx2 PARAMETERS { return NAME##_body ARGUMENTS; }                                                       \
    static RESULT NAME##_base PARAMETERS { return NAME##_body ARGUMENTS; }                                                                 \
    static RESULT NAME PARAMETERS { return herd_set >= HERD_AVX2_SET ? NAME##_avx2 ARGUMENTS : NAME##_base ARGUMENTS; }                    \
    HERD_INLINE RESULT NAME##_body PARAMETERS
#else
static const char *const herd_set_names[] = {"base", "avx2", "avx512"};
static int herd_runs(int number) { return number == HERD_BASE_SET; }
#define HERD_LOOP(RESULT, NAME, PARAMETERS, ARGUMENTS) static RESULT NAME PARAMETERS
#define HERD_LOOP_32(RESULT, NAME, PARAMETERS, ARGUMENTS) static RESULT NAME PARAMETERS
#endif

static const char *herd_set_name(int number) { return herd_set_names[number]; }
static void herd_take_set(int number) { herd_set = number; }
static int herd_set_used(void) { return herd_set; }
#endif
