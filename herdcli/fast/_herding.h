/* Inner loops of herding on packed bits.  All arithmetic is integer, so every code path, vector
   width and thread count gives the same bits.

   Rows of units are packed 64 to a word, first unit in the lowest bit: bit 1 is the unit's high
   value (+1), bit 0 its low value (-1 for spins, 0 for binary units).

   Products of bits with integers go through tables of subset sums ("four Russians"): the sums over
   each 4 visible units, for all 16 values of their bits and LANES hidden units side by side, are
   made once and then looked up for every row: one vector addition for 4 x LANES products.

   simd.h compiles a loop for several instruction sets. */

#ifndef HERD_HERDING_KERNELS_H
#define HERD_HERDING_KERNELS_H

#include "simd.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the packed kernels read words as little-endian bytes; the NumPy loops serve this machine"
#endif

#define LANES 32  /* hidden units side by side */
#define GROUPS 16 /* groups of 4 visible units in a word */
#define ROW_BLOCK 128
#define WORD_TABLE (GROUPS * 16 * LANES) /* entries of one word's table */

/* 32 bytes: one AVX2 register, two of SSE2 or NEON; wider ones gain 20 % with AVX-512 and lose threefold with AVX2. */
typedef int16_t short_lanes __attribute__((vector_size(32), may_alias));
typedef int32_t int_lanes __attribute__((vector_size(32), may_alias));

/* Lane of the table where hidden unit k of a block stands: units 0..15 on even lanes, 16..31 on odd
   ones, so that splitting 32-bit pairs puts the sums back in order. */
HERD_INLINE int lane_of(int k) { return k < LANES / 2 ? 2 * k : 2 * (k - LANES / 2) + 1; }

/* Copy 64 visible x LANES hidden weights into `block`, zero beyond the matrix.  Returns whether
   every sum over a subset of 32 consecutive visible units fits 16 bits. */
static int load_block(const int32_t *weights, int visible, int hidden, int first_visible, int first_hidden, int32_t *block)
{
    int rows = visible - first_visible < 64 ? visible - first_visible : 64;
    int units = hidden - first_hidden < LANES ? hidden - first_hidden : LANES;
    int fits = 1;
    memset(block, 0, 64 * LANES * sizeof(int32_t));
    for (int j = 0; j < rows; j++)
        memcpy(block + j * LANES, weights + (int64_t)(first_visible + j) * hidden + first_hidden, units * sizeof(int32_t));
    for (int half = 0; half < 2; half++) {
        int32_t positive[LANES] = {0}, negative[LANES] = {0};
        for (int j = 32 * half; j < 32 * half + 32; j++)
            for (int k = 0; k < LANES; k++) {
                int32_t weight = block[j * LANES + k];
                positive[k] += weight > 0 ? weight : 0;
                negative[k] += weight < 0 ? weight : 0;
            }
        for (int k = 0; k < LANES; k++)
            fits &= positive[k] <= INT16_MAX && negative[k] >= INT16_MIN;
    }
    return fits;
}

/* Subset sums of each 4 units: entry n adds the unit of n's lowest bit to entry n & (n - 1). */
HERD_LOOP(void, narrow_table, (const int32_t *block, int16_t *table), (block, table))
{
    for (int group = 0; group < GROUPS; group++, table += 16 * LANES) {
        int16_t unit[4][LANES];
        for (int j = 0; j < 4; j++)
            for (int k = 0; k < LANES; k++)
                unit[j][lane_of(k)] = (int16_t)block[(4 * group + j) * LANES + k];
        memset(table, 0, LANES * sizeof(int16_t));
        for (int n = 1; n < 16; n++)
            for (int k = 0; k < LANES; k++)
                table[n * LANES + k] = table[(n & (n - 1)) * LANES + k] + unit[__builtin_ctz(n)][k];
    }
}

HERD_LOOP(void, wide_table, (const int32_t *block, int32_t *table), (block, table))
{
    for (int group = 0; group < GROUPS; group++, table += 16 * LANES) {
        memset(table, 0, LANES * sizeof(int32_t));
        for (int n = 1; n < 16; n++)
            for (int k = 0; k < LANES; k++)
                table[n * LANES + k] = table[(n & (n - 1)) * LANES + k] + block[(4 * group + __builtin_ctz(n)) * LANES + k];
    }
}

/* sums[row, :] += table sums of one word of each row; 16-bit sums over 32 units, then 32-bit. */
HERD_LOOP(void, narrow_sums,
          (const uint64_t *bits, int64_t stride, int rows, const int16_t *table, int32_t *sums),
          (bits, stride, rows, table, sums))
{
    for (int row = 0; row < rows; row++) {
        uint64_t word = bits[row * stride];
        int_lanes *sum = (int_lanes *)(sums + row * LANES);
        int_lanes even_a = sum[0], even_b = sum[1], odd_a = sum[2], odd_b = sum[3];
        for (int half = 0; half < 2; half++) {
            const short_lanes *entry = (const short_lanes *)(table + half * (WORD_TABLE / 2));
            uint32_t part = (uint32_t)(word >> (32 * half));
            short_lanes a = entry[2 * (part & 15)], b = entry[2 * (part & 15) + 1];
#pragma GCC unroll 7
            for (int group = 1; group < 8; group++) {
                const short_lanes *found = entry + 2 * (16 * group + ((part >> (4 * group)) & 15));
                a += found[0];
                b += found[1];
            }
            even_a += ((int_lanes)a << 16) >> 16;
            even_b += ((int_lanes)b << 16) >> 16;
            odd_a += (int_lanes)a >> 16;
            odd_b += (int_lanes)b >> 16;
        }
        sum[0] = even_a;
        sum[1] = even_b;
        sum[2] = odd_a;
        sum[3] = odd_b;
    }
}

HERD_LOOP(void, wide_sums,
          (const uint64_t *bits, int64_t stride, int rows, const int32_t *table, int32_t *sums),
          (bits, stride, rows, table, sums))
{
    for (int row = 0; row < rows; row++) {
        uint64_t word = bits[row * stride];
        int_lanes *sum = (int_lanes *)(sums + row * LANES);
        int_lanes a = sum[0], b = sum[1], c = sum[2], d = sum[3];
        const int_lanes *entry = (const int_lanes *)table;
#pragma GCC unroll 16
        for (int group = 0; group < GROUPS; group++) {
            const int_lanes *found = entry + 4 * (16 * group + ((word >> (4 * group)) & 15));
            a += found[0];
            b += found[1];
            c += found[2];
            d += found[3];
        }
        sum[0] = a;
        sum[1] = b;
        sum[2] = c;
        sum[3] = d;
    }
}

/* From subset sums to activations a = scale * sum + offset; the energy falls by |a| (spins) or max(a, 0) (binary).
   Four |a| < 2^28 share a 32-bit lane. */
HERD_LOOP(void, finish_block,
          (const int32_t *sums, int rows, int spin, const int32_t *offset, int64_t *energy),
          (sums, rows, spin, offset, energy))
{
    const int32_t keep = spin ? -1 : 0;
    for (int row = 0; row < rows; row++) {
        const int_lanes *sum = (const int_lanes *)(sums + row * LANES);
        int_lanes part = {0};
        for (int lane = 0; lane < LANES / 8; lane++) {
            int_lanes a = sum[lane] + (sum[lane] & keep) + ((const int_lanes *)offset)[lane];
            int_lanes negative = a >> 31;
            part += spin ? (a ^ negative) - negative : a & ~negative;
        }
        int64_t total = 0;
        for (int k = 0; k < 8; k++)
            total += part[k];
        energy[row] -= total;
    }
}

HERD_LOOP(void, sign_block,
          (const int32_t *sums, int rows, int spin, const int32_t *offset, uint64_t *signs),
          (sums, rows, spin, offset, signs))
{
    for (int k = 0; k < LANES; k++)
        signs[k] = 0;
    for (int row = 0; row < rows; row++) {
        const int32_t *sum = sums + row * LANES;
        uint64_t bit = (uint64_t)1 << row;
        for (int k = 0; k < LANES; k++)
            signs[k] |= sum[k] + (spin ? sum[k] : 0) + offset[k] >= 0 ? bit : 0;
    }
}

/* energy[row] -= b.x of the row, by tables of 256 subset sums per byte. */
static void visible_energy(const uint64_t *bits, int64_t rows, int words, const int64_t *bias, int visible, int spin,
                           int64_t *table, int64_t *energy)
{
    int64_t base = 0;
    for (int byte = 0; byte < 8 * words; byte++) {
        int64_t *entry = table + 256 * byte;
        entry[0] = 0;
        for (int n = 1; n < 256; n++) {
            int j = 8 * byte + __builtin_ctz(n);
            entry[n] = entry[n & (n - 1)] + (j < visible ? bias[j] * (1 + spin) : 0);
        }
    }
    if (spin)
        for (int j = 0; j < visible; j++)
            base -= bias[j];
    for (int64_t row = 0; row < rows; row++) {
        int64_t total = base;
        for (int word = 0; word < words; word++) {
            uint64_t value = bits[row * words + word];
            for (int byte = 0; byte < 8; byte++, value >>= 8)
                total += table[256 * (8 * word + byte) + (value & 255)];
        }
        energy[row] = -total;
    }
}

/* Bytes of scratch `hidden_pass` needs, 64-byte aligned: tables, sums, a block of weights, a flag per word. */
static int64_t hidden_scratch(int words)
{
    return (int64_t)words * WORD_TABLE * sizeof(int32_t) + (ROW_BLOCK + 64) * LANES * sizeof(int32_t) + words;
}

/* energy[row] = -(b.x + sum_k |a_k|), or max(a_k, 0) for binary units, with a = c + M'x; and, unless signs is
   NULL, signs[row / 64, k] holds in bit row % 64 whether a_k >= 0, in
   rows of `stride` words, a multiple of LANES.  The sums of |weights| at every unit must be below 2^28. */
static void hidden_pass(const uint64_t *bits, int64_t rows, int words, const int32_t *weights, const int64_t *visible_bias,
                        const int64_t *hidden_bias, int visible, int hidden, int spin, int64_t *energy, uint64_t *signs,
                        int64_t stride, char *scratch)
{
    int64_t table_bytes = WORD_TABLE * sizeof(int32_t);
    int32_t *sums = (int32_t *)(scratch + words * table_bytes);
    int32_t *block = sums + ROW_BLOCK * LANES;
    char *narrow = (char *)(block + 64 * LANES);
    visible_energy(bits, rows, words, visible_bias, visible, spin, (int64_t *)scratch, energy);
    for (int first = 0; first < hidden; first += LANES) {
        int units = hidden - first < LANES ? hidden - first : LANES;
        int32_t offset[LANES] __attribute__((aligned(32)));
        for (int k = 0; k < LANES; k++)
            offset[k] = k < units ? (int32_t)hidden_bias[first + k] : spin ? 0 : -1;
        for (int word = 0; word < words; word++) {
            char *table = scratch + word * table_bytes;
            narrow[word] = (char)load_block(weights, visible, hidden, 64 * word, first, block);
            if (narrow[word])
                narrow_table(block, (int16_t *)table);
            else
                wide_table(block, (int32_t *)table);
            if (spin)
                for (int j = 0; j < 64; j++)
                    for (int k = 0; k < LANES; k++)
                        offset[k] -= block[j * LANES + k];
        }
        for (int64_t start = 0; start < rows; start += ROW_BLOCK) {
            int count = rows - start < ROW_BLOCK ? (int)(rows - start) : ROW_BLOCK;
            memset(sums, 0, count * LANES * sizeof(int32_t));
            for (int word = 0; word < words; word++) {
                const char *table = scratch + word * table_bytes;
                if (narrow[word])
                    narrow_sums(bits + start * words + word, words, count, (const int16_t *)table, sums);
                else
                    wide_sums(bits + start * words + word, words, count, (const int32_t *)table, sums);
            }
            finish_block(sums, count, spin, offset, energy + start);
            for (int part = 0; signs && part < count; part += 64) {
                uint64_t column[LANES];
                sign_block(sums + part * LANES, count - part < 64 ? count - part : 64, spin, offset, column);
                memset(column + units, 0, (LANES - units) * sizeof(uint64_t));
                memcpy(signs + (start + part) / 64 * stride + first, column, sizeof(column));
            }
        }
    }
}

/* count[k] = number of ones of x ^ signs over the words, LANES columns side by side.  Without a vector
   popcount: bit pairs, nibbles, bytes within each word; bytes are added up over 31 words at most. */
HERD_INLINE void count_differences(const uint64_t *bits, const uint64_t *signs, int words, int64_t stride, int hardware, uint64_t *count)
{
    const uint64_t pairs = 0x5555555555555555, nibbles = 0x3333333333333333, bytes = 0x0f0f0f0f0f0f0f0f, shorts = 0x00ff00ff00ff00ff;
    for (int k = 0; k < LANES; k++)
        count[k] = 0;
    for (int start = 0; start < words; start += 31) {
        int stop = start + 31 < words ? start + 31 : words;
        uint64_t sum[LANES] = {0};
        for (int word = start; word < stop; word++)
            for (int k = 0; k < LANES; k++) {
                uint64_t v = bits[word] ^ signs[word * stride + k];
                if (hardware)
                    sum[k] += (uint64_t)__builtin_popcountll(v);
                else {
                    v -= (v >> 1) & pairs;
                    v = (v & nibbles) + ((v >> 2) & nibbles);
                    sum[k] += (v + (v >> 4)) & bytes;
                }
            }
        for (int k = 0; k < LANES; k++) {
            uint64_t v = sum[k];
            if (!hardware) {
                v = (v & shorts) + ((v >> 8) & shorts);
                v += v >> 16;
                v = (v + (v >> 32)) & 0xffff;
            }
            count[k] += v;
        }
    }
}

/* One row of one block of weights: M += step (statistic - n x z), sample += x z; adds up |M| and M^2. */
HERD_INLINE void update_weights(int32_t *weight, int32_t *sample, int units, int32_t n, int32_t step, int32_t x, const int32_t *z,
                                const int32_t *statistic, int32_t *column, int64_t *row, int64_t *norm)
{
    int32_t total = 0;
    int64_t squares = 0;
    for (int k = 0; k < units; k++) {
        int32_t product = x * z[k];
        int32_t value = weight[k] + step * (statistic[k] - n * product);
        int32_t size = value < 0 ? -value : value;
        weight[k] = value;
        sample[k] += product;
        total += size;
        column[k] += size;
        squares += (int64_t)size * size;
    }
    *row += total;
    *norm += squares;
}

/* Weights under one herding update: M += step (X'Z - n x z'), sample += x z'.  X'Z comes from the packed columns of
   X and the packed signs, whose rows are padded with zeros to `stride` words, a multiple of LANES.  Also
   hidden_sum[k] = sum_n z_nk, column[k] = sum_j |M_jk|, row[j] = sum_k |M_jk|; returns sum M^2. */
HERD_INLINE int64_t update_loop(int32_t *weights, int32_t *sample, const uint64_t *columns, const uint64_t *signs, int64_t stride,
                                int64_t n, int words, int visible, int hidden, int spin, int32_t step, const int8_t *x,
                                const int8_t *z, int64_t *hidden_sum, int64_t *column, int64_t *row, int hardware)
{
    static const uint64_t zeros[1] = {0};
    int64_t norm = 0;
    memset(row, 0, visible * sizeof(int64_t));
    for (int first = 0; first < hidden; first += LANES) {
        int units = hidden - first < LANES ? hidden - first : LANES;
        int32_t state[LANES] = {0}, size[LANES] = {0};
        int64_t ones[LANES] = {0};
        for (int word = 0; word < words; word++) {
            uint64_t count[LANES];
            count_differences(zeros, signs + word * stride + first, 1, stride, hardware, count);
            for (int k = 0; k < LANES; k++)
                ones[k] += (int64_t)count[k];
        }
        for (int k = 0; k < units; k++) {
            hidden_sum[first + k] = spin ? 2 * ones[k] - n : ones[k];
            state[k] = z[first + k];
        }
        for (int j = 0; j < visible; j++) {
            const uint64_t *bits = columns + (int64_t)j * words;
            int32_t *weight = weights + (int64_t)j * hidden + first, *seen = sample + (int64_t)j * hidden + first;
            uint64_t count[LANES];
            int32_t statistic[LANES], mine = 0;
            count_differences(bits, signs + first, words, stride, hardware, count);
            for (int word = 0; !spin && word < words; word++)
                mine += __builtin_popcountll(bits[word]);
            /* 2 |x & z| = |x| + |z| - |x ^ z| */
            for (int k = 0; k < LANES; k++)
                statistic[k] = spin ? (int32_t)n - 2 * (int32_t)count[k] : (mine + (int32_t)ones[k] - (int32_t)count[k]) / 2;
            if (units == LANES)
                update_weights(weight, seen, LANES, (int32_t)n, step, x[j], state, statistic, size, row + j, &norm);
            else
                update_weights(weight, seen, units, (int32_t)n, step, x[j], state, statistic, size, row + j, &norm);
        }
        for (int k = 0; k < units; k++)
            column[first + k] = size[k];
    }
    return norm;
}

#define UPDATE_PARAMETERS                                                                                                      \
    int32_t *weights, int32_t *sample, const uint64_t *columns, const uint64_t *signs, int64_t stride, int64_t n, int words,       \
        int visible, int hidden, int spin, int32_t step, const int8_t *x, const int8_t *z, int64_t *hidden_sum, int64_t *column,   \
        int64_t *row
#define UPDATE_ARGUMENTS \
    weights, sample, columns, signs, stride, n, words, visible, hidden, spin, step, x, z, hidden_sum, column, row

HERD_LOOP(int64_t, update_portable, (UPDATE_PARAMETERS), (UPDATE_ARGUMENTS)) { return update_loop(UPDATE_ARGUMENTS, 0); }
#ifdef HERD_X86
#define VPOPCNT "avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq"
__attribute__((target(VPOPCNT))) static int64_t update_vpopcnt(UPDATE_PARAMETERS) { return update_loop(UPDATE_ARGUMENTS, 1); }
#endif

static int64_t update_pass(UPDATE_PARAMETERS)
{
#ifdef HERD_X86
    if (herd_set == HERD_AVX512_SET && __builtin_cpu_supports("avx512vpopcntdq"))
        return update_vpopcnt(UPDATE_ARGUMENTS);
#endif
    return update_portable(UPDATE_ARGUMENTS);
}

/* Block coordinate ascent on one state from x: z = sign(c + M'x), x = sign(b + M z), sign(0) the high value, until x
   stays.  With flip, a fixpoint with b.x + c.z < 0 turns over, which gains, and the ascent goes on.  Fields follow
   changed units when these are few: sums of integers come out the same.  Returns the sweeps; limit 0 is none. */
#define DEFINE_ASCENT(NAME, NUMBER)                                                                                         \
    HERD_LOOP(int64_t, NAME,                                                                                                \
              (const NUMBER *weights, const int64_t *b, const int64_t *c, int visible, int hidden,                          \
               int8_t *x, int8_t *z, int low, int flip, int64_t limit, NUMBER *scratch),                                    \
              (weights, b, c, visible, hidden, x, z, low, flip, limit, scratch))                                            \
    {                                                                                                                       \
        NUMBER *above = scratch, *below = above + hidden, *used = below + visible, *negative = used + hidden;               \
        NUMBER *change = negative + hidden;                                                                                 \
        int64_t sweeps = 0;                                                                                                 \
        for (int k = 0; k < hidden; k++)                                                                                    \
            above[k] = (NUMBER)c[k];                                                                                        \
        for (int j = 0; j < visible; j++)                                                                                   \
            for (int k = 0; k < hidden; k++)                                                                                \
                above[k] += x[j] * weights[(int64_t)j * hidden + k];                                                        \
        for (;;) {                                                                                                          \
            int hidden_changes = 0, visible_changes = 0;                                                                    \
            for (int k = 0; k < hidden; k++) {                                                                              \
                int8_t value = above[k] >= 0 ? 1 : (int8_t)low;                                                             \
                change[k] = (NUMBER)(value - z[k]);                                                                         \
                hidden_changes += value != z[k];                                                                            \
                z[k] = value;                                                                                               \
                used[k] = value ? -1 : 0;                                                                                   \
                negative[k] = value < 0 ? -1 : 0;                                                                           \
            }                                                                                                               \
            if (sweeps == 0 || hidden_changes * 8 > hidden)                                                                 \
                for (int j = 0; j < visible; j++) {                                                                         \
                    const NUMBER *weight = weights + (int64_t)j * hidden;                                                   \
                    NUMBER field = 0;                                                                                       \
                    for (int k = 0; k < hidden; k++)                                                                        \
                        field += ((weight[k] & used[k]) ^ negative[k]) - negative[k];                                       \
                    below[j] = field + (NUMBER)b[j];                                                                        \
                }                                                                                                           \
            else                                                                                                            \
                for (int k = 0; k < hidden; k++)                                                                            \
                    if (change[k])                                                                                          \
                        for (int j = 0; j < visible; j++)                                                                   \
                            below[j] += change[k] * weights[(int64_t)j * hidden + k];                                       \
            sweeps++;                                                                                                       \
            for (int j = 0; j < visible; j++) {                                                                             \
                int8_t value = below[j] >= 0 ? 1 : (int8_t)low;                                                             \
                NUMBER step = (NUMBER)(value - x[j]);                                                                       \
                if (!step)                                                                                                  \
                    continue;                                                                                               \
                visible_changes++;                                                                                          \
                x[j] = value;                                                                                               \
                for (int k = 0; k < hidden; k++)                                                                            \
                    above[k] += step * weights[(int64_t)j * hidden + k];                                                    \
            }                                                                                                               \
            if (sweeps == limit)                                                                                            \
                return sweeps;                                                                                              \
            if (!visible_changes) {                                                                                         \
                int64_t odd_part = 0;                                                                                       \
                for (int j = 0; flip && j < visible; j++)                                                                   \
                    odd_part += b[j] * x[j];                                                                                \
                for (int k = 0; flip && k < hidden; k++)                                                                    \
                    odd_part += c[k] * z[k];                                                                                \
                if (odd_part >= 0)                                                                                          \
                    return sweeps;                                                                                          \
                for (int j = 0; j < visible; j++) {                                                                         \
                    x[j] = (int8_t)-x[j];                                                                                   \
                    below[j] = 2 * (NUMBER)b[j] - below[j];                                                                 \
                }                                                                                                           \
                for (int k = 0; k < hidden; k++) {                                                                          \
                    z[k] = (int8_t)-z[k];                                                                                   \
                    above[k] = 2 * (NUMBER)c[k] - above[k];                                                                 \
                }                                                                                                           \
            }                                                                                                               \
        }                                                                                                                   \
    }

DEFINE_ASCENT(ascend_narrow, int32_t)
DEFINE_ASCENT(ascend_wide, int64_t)
#endif
