/* Inner loops of herding on packed bits.  All arithmetic is integer, so every code path, vector
   width and thread count gives the same bits.

   Rows of units are packed 64 to a word, first unit in the lowest bit: bit 1 is the unit's high
   value (+1), bit 0 its low value (-1 for spins, 0 for binary units).

   Products of bits with integers go through tables of subset sums ("four Russians"): the sums over
   each 4 visible units, for all 16 values of their bits and LANES hidden units side by side, are
   made once and then looked up for every row: one vector addition for 4 x LANES products.

   target_clones compiles a loop for several instruction sets and picks one when the module is
   loaded; where the compiler or the C library cannot, the portable loop remains. */

#ifndef HERD_HERDING_KERNELS_H
#define HERD_HERDING_KERNELS_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the packed kernels read words as little-endian bytes; the NumPy loops serve this machine"
#endif

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define HERD_SUMS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define HERD_POPCOUNT __attribute__((target_clones("avx512vpopcntdq", "popcnt", "default")))
#else
#define HERD_SUMS
#define HERD_POPCOUNT
#endif
#define HERD_INLINE static inline __attribute__((always_inline))

#define LANES 32  /* hidden units side by side */
#define GROUPS 16 /* groups of 4 visible units in a word */
#define ROW_BLOCK 128
#define WORD_TABLE (GROUPS * 16 * LANES) /* entries of one word's table */

typedef int16_t narrow_lanes __attribute__((vector_size(2 * LANES), may_alias));
typedef int32_t half_lanes __attribute__((vector_size(2 * LANES), may_alias));

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
HERD_SUMS static void narrow_table(const int32_t *block, int16_t *table)
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

HERD_SUMS static void wide_table(const int32_t *block, int32_t *table)
{
    for (int group = 0; group < GROUPS; group++, table += 16 * LANES) {
        memset(table, 0, LANES * sizeof(int32_t));
        for (int n = 1; n < 16; n++)
            for (int k = 0; k < LANES; k++)
                table[n * LANES + k] = table[(n & (n - 1)) * LANES + k] + block[(4 * group + __builtin_ctz(n)) * LANES + k];
    }
}

/* sums[row, :] += table sums of one word of each row; 16-bit sums over 32 units, then 32-bit. */
HERD_SUMS static void narrow_sums(const uint64_t *bits, int64_t stride, int rows, const int16_t *table, int32_t *sums)
{
    for (int row = 0; row < rows; row++) {
        uint64_t word = bits[row * stride];
        half_lanes *low = (half_lanes *)(sums + row * LANES), *high = low + 1;
        half_lanes even = *low, odd = *high;
        for (int half = 0; half < 2; half++) {
            const narrow_lanes *entry = (const narrow_lanes *)(table + half * (WORD_TABLE / 2));
            uint32_t part = (uint32_t)(word >> (32 * half));
            narrow_lanes sum = entry[part & 15];
#pragma GCC unroll 7
            for (int group = 1; group < 8; group++)
                sum += entry[16 * group + ((part >> (4 * group)) & 15)];
            half_lanes pair = (half_lanes)sum;
            even += (pair << 16) >> 16;
            odd += pair >> 16;
        }
        *low = even;
        *high = odd;
    }
}

HERD_SUMS static void wide_sums(const uint64_t *bits, int64_t stride, int rows, const int32_t *table, int32_t *sums)
{
    for (int row = 0; row < rows; row++) {
        uint64_t word = bits[row * stride];
        half_lanes *low = (half_lanes *)(sums + row * LANES), *high = low + 1;
        half_lanes first = *low, second = *high;
        const half_lanes *entry = (const half_lanes *)table;
#pragma GCC unroll 16
        for (int group = 0; group < GROUPS; group++) {
            int64_t place = 2 * (16 * group + ((word >> (4 * group)) & 15));
            first += entry[place];
            second += entry[place + 1];
        }
        *low = first;
        *high = second;
    }
}

/* From subset sums to activations a = scale * sum + offset; the energy falls by |a| (spins) or
   max(a, 0) (binary); the bit of a row in signs[k] is a >= 0. */
HERD_SUMS static void finish_block(const int32_t *sums, int rows, int spin, const int32_t *offset, int64_t *energy)
{
    for (int row = 0; row < rows; row++) {
        const int32_t *sum = sums + row * LANES;
        int32_t total = 0;
        if (spin)
            for (int k = 0; k < LANES; k++) {
                int32_t a = 2 * sum[k] + offset[k];
                total += a < 0 ? -a : a;
            }
        else
            for (int k = 0; k < LANES; k++) {
                int32_t a = sum[k] + offset[k];
                total += a < 0 ? 0 : a;
            }
        energy[row] -= total;
    }
}

HERD_SUMS static void sign_block(const int32_t *sums, int rows, int spin, const int32_t *offset, uint64_t *signs)
{
    for (int k = 0; k < LANES; k++)
        signs[k] = 0;
    for (int row = 0; row < rows; row++) {
        const int32_t *sum = sums + row * LANES;
        uint64_t bit = (uint64_t)1 << row;
        for (int k = 0; k < LANES; k++)
            signs[k] |= (sum[k] << spin) + offset[k] >= 0 ? bit : 0;
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

/* Bytes of scratch `hidden_pass` needs, 64-byte aligned. */
static int64_t hidden_scratch(int words)
{
    return (int64_t)words * WORD_TABLE * sizeof(int32_t) + ROW_BLOCK * LANES * sizeof(int32_t) + 64 * LANES * sizeof(int32_t);
}

static void hidden_pass(const uint64_t *bits, int64_t rows, int words, const int32_t *weights, const int64_t *visible_bias,
                        const int64_t *hidden_bias, int visible, int hidden, int spin, int64_t *energy, uint64_t *signs,
                        char *scratch)
{
    char *tables = scratch;
    int32_t *sums = (int32_t *)(scratch + (int64_t)words * WORD_TABLE * sizeof(int32_t));
    int32_t *block = sums + ROW_BLOCK * LANES;
    visible_energy(bits, rows, words, visible_bias, visible, spin, (int64_t *)tables, energy);
    for (int first = 0; first < hidden; first += LANES) {
        int units = hidden - first < LANES ? hidden - first : LANES;
        int32_t offset[LANES] = {0};
        unsigned char narrow[4096];
        for (int k = 0; k < units; k++)
            offset[k] = (int32_t)hidden_bias[first + k];
        for (int word = 0; word < words; word++) {
            char *table = tables + (int64_t)word * WORD_TABLE * sizeof(int32_t);
            narrow[word] = (unsigned char)load_block(weights, visible, hidden, 64 * word, first, block);
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
                const char *table = tables + (int64_t)word * WORD_TABLE * sizeof(int32_t);
                if (narrow[word])
                    narrow_sums(bits + start * words + word, words, count, (const int16_t *)table, sums);
                else
                    wide_sums(bits + start * words + word, words, count, (const int32_t *)table, sums);
            }
            finish_block(sums, count, spin, offset, energy + start);
            if (signs)
                for (int part = 0; part < count; part += 64) {
                    uint64_t column[LANES];
                    sign_block(sums + part * LANES, count - part < 64 ? count - part : 64, spin, offset, column);
                    memcpy(signs + (start + part) / 64 * hidden + first, column, units * sizeof(uint64_t));
                }
        }
    }
}
#endif
