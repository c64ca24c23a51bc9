/* svmlight and Vowpal Wabbit text into CSR rows: the loops of _online.pyx that learning from a stream begins with. */
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "simd.h"
#if defined(HERD_X86)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { FINE, BAD_LABEL, BAD_PAIR, ZERO_INDEX, FALLING_INDEX, BAD_VALUE, NOT_FINITE, LARGE_INDEX, NO_LABEL, BAD_WEIGHT, NO_BAR };

static const double ONLINE_TEN[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static inline int online_is_end(char c) { return (c == ' ') | (c == '\n') | (c == '\t') | (c == '\r'); }

/* Whether a token is `name`, which is in lower case, in any case. */
static int online_spells(const char *at, const char *end, const char *name)
{
    for (; at < end && *name; at++, name++)
        if ((*at | 0x20) != *name)
            return 0;
    return at == end && !*name;
}

/* A number from `at` to the next blank or `stop` character; 0 if it is one, else BAD_VALUE, or NOT_FINITE with its value. */
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
    *out = online_spells(c, end, "nan") ? NAN : c > at && *at == '-' ? -INFINITY : INFINITY;
    return isnan(*out) || online_spells(c, end, "inf") || online_spells(c, end, "infinity") ? NOT_FINITE : BAD_VALUE;
}

/* The last step of a hash of so many bytes. */
static inline uint32_t online_murmur_end(uint32_t h, size_t length)
{
    h ^= (uint32_t)length;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
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
    return online_murmur_end(h, length);
}

/* What a call found: bytes and lines used up, and where it stopped if the text is not what it should be. */
typedef struct { int64_t used, lines, code, column, token, length, rows, entries; } online_report;

typedef struct {
    double *label, *weight, *value;
    int32_t *index;
    int64_t *pointer;
    uint32_t mask;     /* table size − 1 where features are hashed, else 0 */
    int first;         /* the lowest index the text may have: 0 or 1 */
    int loose;         /* 1 where indices come in any order, and NaN and infinity are numbers */
    const char *text;  /* its first byte */
    int32_t *slots;    /* of rows with hashed features: slot → entry, to add up entries of one index */
    int64_t slot_mask, cleared;
} online_output;

/* The code of a number that a row may hold all the same. */
static int online_allowed(const online_output *out, int code) { return out->loose && code == NOT_FINITE ? FINE : code; }

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

/* Put entries of a hashed row, or add them to the row's entries of the same index. */
HERD_INLINE void online_put_all(online_output *out, int64_t begin, int64_t *entries, const uint32_t *hash, const double *value, int count)
{
    int32_t *restrict const slots = out->slots, *restrict const index = out->index;
    double *restrict const values = out->value;
    const uint64_t last = (uint64_t)out->slot_mask;
    int64_t n = *entries;
    for (int k = 0; k < count; k++) {
        const int32_t at = (int32_t)(hash[k] & out->mask) + 1;
        uint64_t slot = ((uint32_t)at * 2654435769u) & last;
        for (;; slot = (slot + 1) & last) {
            const int64_t place = slots[slot];
            if ((uint64_t)(place - begin) >= (uint64_t)(n - begin)) { /* of an earlier row, or of none */
                slots[slot] = (int32_t)n;
                index[n] = at;
                values[n++] = value[k];
                break;
            }
            if (index[place] == at) {
                values[place] += value[k];
                break;
            }
        }
    }
    *entries = n;
}

static void online_put_hashed(online_output *out, int64_t begin, int64_t *entries, uint32_t hash, double value)
{
    online_put_all(out, begin, entries, &hash, &value, 1);
}

#if defined(__SSE2__) && defined(__GNUC__)
/* A bit for each of 64 bytes that is no digit. */
static inline uint64_t online_strange(const char *at)
{
    const __m128i zero = _mm_set1_epi8('0'), nine = _mm_set1_epi8(9);
    uint64_t digits = 0;
    for (int k = 0; k < 4; k++) {
        const __m128i less = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(at + 16 * k)), zero);
        digits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(less, nine), less)) << 16 * k;
    }
    return ~digits;
}

/* 1 to 8 digits from `at` on as the upper bytes of a word, zeros before them; 8 bytes are read. */
static inline uint64_t online_word(const char *at, int64_t count)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return (word ^ 0x3030303030303030u) << (-8 * count & 63);
}

/* The numbers that the digits of two words spell, the second in the upper half: digits to pairs, fours, eights. */
static inline uint64_t online_numbers(uint64_t one, uint64_t two)
{
    const __m128i ten = _mm_set1_epi32(10 | 1 << 16), hundred = _mm_set1_epi32(100 | 1 << 16), myriad = _mm_set1_epi32(10000 | 1 << 16);
    const __m128i zero = _mm_setzero_si128(), both = _mm_set_epi64x((int64_t)two, (int64_t)one);
    __m128i v = _mm_packs_epi32(_mm_madd_epi16(_mm_unpacklo_epi8(both, zero), ten), _mm_madd_epi16(_mm_unpackhi_epi8(both, zero), ten));
    v = _mm_madd_epi16(v, hundred);
    v = _mm_madd_epi16(_mm_packs_epi32(v, v), myriad);
    return (uint64_t)_mm_cvtsi128_si64(v);
}

#define ONLINE_NEXT(stop, scan)            \
    do {                                   \
        while (!bits) {                    \
            base += 64;                    \
            if (limit - base < 88)         \
                goto done;                 \
            bits = scan(base);             \
        }                                  \
        stop = base + __builtin_ctzll(bits); \
        bits &= bits - 1;                  \
    } while (0)

/* Pairs index:value of a row from the blank `c` on, as long as they are plain: 8 digits, a colon, perhaps a minus, 8 digits,
 * perhaps a point and 16 digits.  Numbers are found between the bytes that are no digits and worked out without a loop over
 * their digits, and so without branches that cannot be foreseen.  Returns the blank before the first pair that is not plain
 * or not right, or the end of the line; the numbers are those of online_number. */
static const char *online_plain(const char *c, const char *limit, online_output *out, int64_t *entries, int64_t *last)
{
    static const uint64_t ten[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    const int64_t first = out->first, shift = 1 - first, loose = -(int64_t)out->loose; /* `previous` stays -1 where loose is */
    int32_t *const indices = out->index;
    double *const values = out->value;
    int64_t n = *entries, previous = *last;
    const char *base = c + 1;
    uint64_t bits;
    if (limit - base < 88 || *c != ' ')
        return c;
    bits = online_strange(base);
    while (*c == ' ') {
        const char *const token = c + 1, *colon, *stop, *number;
        int64_t index, count, negative = 0;
        uint64_t whole, both;
        double value;
        ONLINE_NEXT(colon, online_strange);
        if (*colon != ':' || (uint64_t)(colon - token - 1) > 7)
            break;
        number = colon + 1;
        ONLINE_NEXT(stop, online_strange);
        if (stop == number && *stop == '-') {
            negative = 1;
            number++;
            ONLINE_NEXT(stop, online_strange);
        }
        count = stop - number;
        if ((uint64_t)(count - 1) > 7)
            break;
        if (*stop == '.') {
            const char *const point = stop;
            whole = count == 1 ? (uint64_t)(*number - '0') : online_numbers(online_word(number, count), 0);
            ONLINE_NEXT(stop, online_strange);
            count = stop - point - 1;
            if ((uint64_t)(count - 1) > 15 || stop - number > 17)
                break;
            if (count > 8) {
                whole = whole * ten[count - 8] + online_numbers(online_word(point + 1, count - 8), 0);
                both = online_numbers(online_word(token, colon - token), online_word(stop - 8, 8));
                whole = whole * ten[8] + (both >> 32);
            } else {
                both = online_numbers(online_word(token, colon - token), online_word(point + 1, count));
                whole = whole * ten[count] + (both >> 32);
            }
            if (whole >= (uint64_t)1 << 53)
                break;
            value = (double)(int64_t)whole / ONLINE_TEN[count];
        } else {
            both = online_numbers(online_word(token, colon - token), online_word(number, count));
            value = (double)(int64_t)(both >> 32);
        }
        index = (int64_t)(uint32_t)both;
        if (!online_is_end(*stop) || index < first || index <= previous)
            break;
        indices[n] = (int32_t)(index + shift);
        values[n++] = negative ? -value : value;
        previous = index | loose;
        c = stop;
    }
done:
    *entries = n;
    *last = previous;
    return c;
}

/* A bit for each of 64 bytes that ends a name or a number: blanks and other control characters, the bar, the colon. */
static inline uint64_t online_ends(const char *at)
{
    const __m128i blank = _mm_set1_epi8(' '), bar = _mm_set1_epi8('|'), colon = _mm_set1_epi8(':');
    uint64_t ends = 0;
    for (int k = 0; k < 4; k++) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(at + 16 * k)), low = _mm_cmpeq_epi8(_mm_max_epu8(v, blank), blank);
        const __m128i end = _mm_or_si128(low, _mm_or_si128(_mm_cmpeq_epi8(v, bar), _mm_cmpeq_epi8(v, colon)));
        ends |= (uint64_t)(uint32_t)_mm_movemask_epi8(end) << 16 * k;
    }
    return ends;
}

/* The hash of a token after which four bytes more may be read: no loop over the bytes that are left of it. */
static inline uint32_t online_murmur_short(const char *text, size_t length, uint32_t seed)
{
    uint32_t h = seed, k;
    size_t left = length;
    for (; left >= 4; left -= 4, text += 4) {
        memcpy(&k, text, 4);
        k *= 0xcc9e2d51u;
        k = (k << 15 | k >> 17) * 0x1b873593u;
        h ^= k;
        h = (h << 13 | h >> 19) * 5 + 0xe6546b64u;
    }
    memcpy(&k, text, 4);
    k &= ((uint32_t)1 << 8 * left) - 1; /* of no bytes that are left 0, which changes nothing below */
    k *= 0xcc9e2d51u;
    return online_murmur_end(h ^ (k << 15 | k >> 17) * 0x1b873593u, length);
}

/* A number that is plain: perhaps a minus, at most 8 digits, perhaps a point and at most 8 more, 16 bytes in all.  0 for any other,
 * which may be a number too.  16 bytes are read. */
static inline int online_plain_number(const char *at, const char *stop, double *out)
{
    const int negative = *at == '-';
    const __m128i less = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(at += negative)), _mm_set1_epi8('0'));
    const int64_t length = stop - at;
    uint32_t strange;
    int64_t before, after;
    uint64_t both;
    if ((uint64_t)(length - 1) > 15)
        return 0;
    strange = ~(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(less, _mm_set1_epi8(9)), less)) & (((uint32_t)1 << length) - 1);
    before = strange ? __builtin_ctz(strange) : length;
    after = strange ? length - before - 1 : 0;
    if ((uint64_t)(before - 1) > 7 || after > 8 || (strange && (at[before] != '.' || !after || strange & (strange - 1))))
        return 0;
    both = online_numbers(online_word(at, before), after ? online_word(at + before + 1, after) : 0);
    both = (both & 0xffffffffu) * (uint64_t)ONLINE_TEN[after] + (both >> 32); /* all digits, without the point */
    if (both >= (uint64_t)1 << 53)
        return 0;
    *out = (double)(int64_t)both / ONLINE_TEN[after];
    *out = negative ? -*out : *out;
    return 1;
}

/* Features of a namespace from the blank `c` on, as long as they are plain: a name, perhaps a colon and a plain number.  What ends them
 * is found 64 bytes at a time.  Returns the blank before the first that is not plain, or the end of the namespace. */
static const char *online_plain_features(const char *c, const char *end, const char *limit, online_output *out, int64_t begin,
                                         int64_t *entries, uint32_t seed, double scale)
{
    const char *base = c + 1;
    uint64_t bits;
    if (limit - base < 88)
        return c;
    bits = online_ends(base);
    while (c < end && online_is_end(*c)) {
        const char *const token = c + 1, *name, *stop;
        double value = 1.0;
        ONLINE_NEXT(name, online_ends);
        stop = name;
        if (name == token || name > end) {
            if (name != token || !online_is_end(*name))
                break;
            c = name;
            continue;
        }
        if (*name == ':') {
            ONLINE_NEXT(stop, online_ends);
            if (stop > end || !online_plain_number(name + 1, stop, &value))
                break;
        }
        if (!online_is_end(*stop) && *stop != '|')
            break;
        online_put_hashed(out, begin, entries, online_murmur_short(token, (size_t)(name - token), seed), value * scale);
        c = stop;
    }
done:
    return c;
}
#else
static const char *online_plain_features(const char *c, const char *end, const char *limit, online_output *out, int64_t begin,
                                         int64_t *entries, uint32_t seed, double scale)
{
    (void)end, (void)limit, (void)out, (void)begin, (void)entries, (void)seed, (void)scale;
    return c;
}

static const char *online_plain(const char *c, const char *limit, online_output *out, int64_t *entries, int64_t *last)
{
    (void)limit, (void)out, (void)entries, (void)last;
    return c;
}
#endif

#if defined(HERD_X86)
/* Features side by side: where names and numbers end is found for 32 features at once, then their bytes are copied into words, one row of words
 * for each kind, and these are masked, hashed, spelled out and divided four or eight at a time, without branches. */
#define ONLINE_WIDE __attribute__((target("avx2,popcnt,bmi")))
static int online_wide(void) { return herd_set_used() >= HERD_AVX2_SET && __builtin_cpu_supports("bmi"); }
enum { ONLINE_BATCH = 32, ONLINE_MARKS = 2 * ONLINE_BATCH };

typedef struct {
    uint64_t name[2][ONLINE_BATCH];   /* hashed: the first 16 bytes from its beginning on; else the last 8 before its end */
    uint64_t first[ONLINE_BATCH];     /* the first 8 bytes of the number */
    uint64_t last[2][ONLINE_BATCH];   /* the last 8 bytes of it, and the 8 before those */
    uint8_t mark[2][ONLINE_BATCH];    /* what the name and the number end with */
    double value[ONLINE_BATCH];
    uint32_t code[ONLINE_BATCH];      /* hash of the name, or the number that it spells */
    uint32_t room[8], marks[ONLINE_MARKS + 72]; /* where names and numbers end, by turns; room[7] is where the blank before them is */
} online_batch;

/* Where blanks and other control characters, bars and colons are from `base` on, up to the line's end or ONLINE_MARKS of them; how many. */
ONLINE_WIDE static inline int online_find_marks(const char *base, const char *limit, uint32_t from, volatile uint32_t *marks)
{
    const __m256i blank = _mm256_set1_epi8(' '), bar = _mm256_set1_epi8('|'), colon = _mm256_set1_epi8(':'), line = _mm256_set1_epi8('\n');
    int found = 0;
    for (; found < ONLINE_MARKS && limit - base >= 88; base += 64, from += 64) {
        uint64_t bits = 0, lines = 0;
        int count;
        for (int half = 0; half < 2; half++) {
            const __m256i v = _mm256_loadu_si256((const __m256i *)(base + 32 * half)), low = _mm256_cmpeq_epi8(_mm256_max_epu8(v, blank), blank);
            const __m256i mark = _mm256_or_si256(low, _mm256_or_si256(_mm256_cmpeq_epi8(v, bar), _mm256_cmpeq_epi8(v, colon)));
            bits |= (uint64_t)(uint32_t)_mm256_movemask_epi8(mark) << 32 * half;
            lines |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, line)) << 32 * half;
        }
        bits &= lines ^ (lines - 1); /* nothing behind the first end of a line; all of them where none ends */
        count = __builtin_popcountll(bits);
        for (int done = 0; done < count; done += 8)
            for (int k = 0; k < 8; k++, bits = _blsr_u64(bits)) /* volatile: put together in vectors first they take twice as long */
                marks[found + done + k] = from + (uint32_t)_tzcnt_u64(bits);
        found += count;
        if (lines)
            break;
    }
    return found;
}

/* Copy the bytes of features into words: those with numbers have two marks each, those without one. */
HERD_INLINE void online_lay_out(online_batch *w, const char *c, int count, int numbers, int hashed)
{
    for (int k = 0; k < count; k++) {
        const char *const name = c + w->marks[numbers ? 2 * k : k], *const stop = numbers ? c + w->marks[2 * k + 1] : name;
        if (hashed) {
            const char *const begin = c + w->marks[(numbers ? 2 * k : k) - 1] + 1;
            memcpy(w->name[0] + k, begin, 8);
            memcpy(w->name[1] + k, begin + 8, 8);
        } else
            memcpy(w->name[0] + k, name - 8, 8);
        w->mark[1][k] = (uint8_t)*stop;
        if (!numbers)
            continue;
        w->mark[0][k] = (uint8_t)*name;
        memcpy(w->first + k, name + 1, 8);
        memcpy(w->last[0] + k, stop - 8, 8);
        memcpy(w->last[1] + k, stop - 16, 8);
    }
}

/* A bit for each feature whose name and number end with what they should. */
ONLINE_WIDE static inline uint32_t online_well_marked(const online_batch *w, int numbers, int vw, uint32_t *bars)
{
    const __m256i stop = _mm256_load_si256((const __m256i *)w->mark[1]), name = _mm256_load_si256((const __m256i *)w->mark[0]);
    const __m256i bar = _mm256_cmpeq_epi8(stop, _mm256_set1_epi8('|')), colon = _mm256_cmpeq_epi8(name, _mm256_set1_epi8(':'));
    const __m256i one = _mm256_or_si256(_mm256_cmpeq_epi8(stop, _mm256_set1_epi8(' ')), _mm256_cmpeq_epi8(stop, _mm256_set1_epi8('\n')));
    const __m256i two = _mm256_or_si256(_mm256_cmpeq_epi8(stop, _mm256_set1_epi8('\t')), _mm256_cmpeq_epi8(stop, _mm256_set1_epi8('\r')));
    *bars = vw ? (uint32_t)_mm256_movemask_epi8(bar) : 0;
    return ((uint32_t)_mm256_movemask_epi8(_mm256_or_si256(one, two)) | *bars) & (numbers ? (uint32_t)_mm256_movemask_epi8(colon) : ~(uint32_t)0);
}

/* What words of 8 digits spell. */
ONLINE_WIDE static inline __m256i online_spelled(__m256i digits)
{
    const __m256i pairs = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(10 | 1 << 8));
    const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(100 | 1 << 16));
    return _mm256_add_epi64(_mm256_mul_epu32(fours, _mm256_set1_epi64x(10000)), _mm256_srli_epi64(fours, 32));
}

ONLINE_WIDE static inline __m256d online_as_double(__m256i whole)
{
    const __m256i magic = _mm256_set1_epi64x(0x4330000000000000); /* 2^52, whose last bits are then those of the number */
    return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(whole, magic)), _mm256_castsi256_pd(magic));
}

/* The last n ≤ 8 of 8 characters as digits, zeros before them: a shift of 64 or more leaves nothing. */
ONLINE_WIDE static inline __m256i online_last(__m256i bytes, __m256i n)
{
    const __m256i left = _mm256_sub_epi64(_mm256_set1_epi64x(64), _mm256_slli_epi64(n, 3));
    return _mm256_and_si256(_mm256_xor_si256(bytes, _mm256_set1_epi8('0')), _mm256_sllv_epi64(_mm256_set1_epi64x(-1), left));
}

/* Where |x| < 2^31 in words of 64 bits: is x > y? */
#define ONLINE_ABOVE(x, y) _mm256_cmpgt_epi64(x, y)

/* The numbers of four features of the lengths given, times `scale`: perhaps a minus, 1 to 8 digits, perhaps a point and digits, 15 digits in
 * all at most.  Returns words that are not 0 where it is another. */
ONLINE_WIDE static inline __m256i online_four_numbers(online_batch *w, int k, __m256i length, double scale)
{
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi64x(1), eight = _mm256_set1_epi64x(8);
    __m256i first = _mm256_load_si256((const __m256i *)(w->first + k)), strange, point, before, after, pointed, large, whole, low, high = zero;
    const __m256i minus = _mm256_and_si256(_mm256_cmpeq_epi64(_mm256_and_si256(first, _mm256_set1_epi64x(255)), _mm256_set1_epi64x('-')), one);
    __m256d fraction, power, value;
    first = _mm256_srlv_epi64(first, _mm256_slli_epi64(minus, 3));
    length = _mm256_sub_epi64(length, minus);
    /* The bytes below the first point, a one for each, add up to how many digits there are before it: 8 if there is none. */
    point = _mm256_cmpeq_epi8(first, _mm256_set1_epi8('.'));
    point = _mm256_andnot_si256(point, _mm256_sub_epi64(point, one));
    point = _mm256_sad_epu8(_mm256_and_si256(point, _mm256_set1_epi8(1)), zero);
    pointed = _mm256_and_si256(ONLINE_ABOVE(length, point), one);
    before = _mm256_blendv_epi8(length, point, ONLINE_ABOVE(length, point));
    after = _mm256_sub_epi64(_mm256_sub_epi64(length, before), pointed);
    large = ONLINE_ABOVE(after, eight);
    whole = _mm256_sllv_epi64(_mm256_xor_si256(first, _mm256_set1_epi8('0')), _mm256_sub_epi64(_mm256_set1_epi64x(64), _mm256_slli_epi64(before, 3)));
    low = online_last(_mm256_load_si256((const __m256i *)(w->last[0] + k)), _mm256_blendv_epi8(after, eight, large));
    if (!_mm256_testz_si256(large, large))
        high = online_last(_mm256_load_si256((const __m256i *)(w->last[1] + k)), _mm256_and_si256(large, _mm256_sub_epi64(after, eight)));
    strange = _mm256_subs_epu8(_mm256_max_epu8(_mm256_max_epu8(whole, low), high), _mm256_set1_epi8(9));
    /* No digit before the point, none behind it, more than 15 of them, or no point and no end within 8 bytes. */
    strange = _mm256_or_si256(strange, _mm256_or_si256(_mm256_cmpeq_epi64(before, zero), ONLINE_ABOVE(pointed, after)));
    strange = _mm256_or_si256(strange, _mm256_or_si256(ONLINE_ABOVE(length, _mm256_set1_epi64x(16)), ONLINE_ABOVE(_mm256_add_epi64(before, _mm256_or_si256(minus, pointed)), eight)));
    after = _mm256_and_si256(after, _mm256_set1_epi64x(15));
    power = _mm256_i64gather_pd(ONLINE_TEN, after, 8);
    fraction = online_as_double(online_spelled(low));
    if (!_mm256_testz_si256(large, large))
        fraction = _mm256_add_pd(_mm256_mul_pd(online_as_double(online_spelled(high)), _mm256_set1_pd(1e8)), fraction);
    /* Of 15 digits all of this is exact but the quotient. */
    value = _mm256_div_pd(_mm256_add_pd(_mm256_mul_pd(online_as_double(online_spelled(whole)), power), fraction), power);
    value = _mm256_xor_pd(value, _mm256_castsi256_pd(_mm256_slli_epi64(minus, 63)));
    _mm256_store_pd(w->value + k, _mm256_mul_pd(value, _mm256_set1_pd(scale)));
    return strange;
}

#define ONLINE_TURN(x, n) _mm256_or_si256(_mm256_slli_epi32(x, n), _mm256_srli_epi32(x, 32 - (n)))

/* Hashes with four bytes more of names that have so many, or with what is left of them; a name that has ended goes on with zeros, which
 * change nothing. */
ONLINE_WIDE static inline __m256i online_round(__m256i h, __m256i k, __m256i length, int end)
{
    __m256i mixed = _mm256_mullo_epi32(k, _mm256_set1_epi32((int)0xcc9e2d51u)), turned, whole;
    mixed = _mm256_xor_si256(h, _mm256_mullo_epi32(ONLINE_TURN(mixed, 15), _mm256_set1_epi32(0x1b873593)));
    turned = ONLINE_TURN(mixed, 13);
    whole = _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(turned, 2), turned), _mm256_set1_epi32((int)0xe6546b64u));
    return _mm256_blendv_epi8(mixed, whole, _mm256_cmpgt_epi32(length, _mm256_set1_epi32(end - 1)));
}

/* The first n bytes of the second half of two words by turns, or of the first: what is shifted by 64 or more is gone. */
ONLINE_WIDE static inline __m256i online_first(const uint64_t *bytes, __m256i n)
{
    const __m256i left = _mm256_sub_epi64(_mm256_set1_epi64x(64), _mm256_slli_epi64(n, 3)), zero = _mm256_setzero_si256();
    const __m256i kept = _mm256_srlv_epi64(_mm256_set1_epi64x(-1), _mm256_blendv_epi8(left, zero, ONLINE_ABOVE(zero, left)));
    return _mm256_and_si256(_mm256_load_si256((const __m256i *)bytes), kept);
}

/* Hash the names of eight features, of the lengths given: four, and four.  */
ONLINE_WIDE static inline void online_eight_hashes(online_batch *w, int k, __m256i one, __m256i two, uint32_t seed, int large)
{
    const __m256i length = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(one), _mm256_castsi256_ps(two), 0x88));
    const __m256i eight = _mm256_set1_epi64x(8);
    __m256i h = _mm256_set1_epi32((int)seed);
    for (int half = 0; half <= large; half++) {
        const __m256 a = _mm256_castsi256_ps(online_first(w->name[half] + k, one)), b = _mm256_castsi256_ps(online_first(w->name[half] + k + 4, two));
        h = online_round(h, _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)), length, 8 * half + 4);
        h = online_round(h, _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), length, 8 * half + 8);
        one = _mm256_sub_epi64(one, eight), two = _mm256_sub_epi64(two, eight);
    }
    h = _mm256_xor_si256(h, length);
    h = _mm256_mullo_epi32(_mm256_xor_si256(h, _mm256_srli_epi32(h, 16)), _mm256_set1_epi32((int)0x85ebca6bu));
    h = _mm256_mullo_epi32(_mm256_xor_si256(h, _mm256_srli_epi32(h, 13)), _mm256_set1_epi32((int)0xc2b2ae35u));
    h = _mm256_xor_si256(h, _mm256_srli_epi32(h, 16));
    _mm256_store_si256((__m256i *)(w->code + k), _mm256_permute4x64_epi64(h, 0xd8)); /* their order is 0 1 4 5 2 3 6 7 */
}

/* Lengths of the names and numbers of four features, from where they end. */
ONLINE_WIDE static inline __m256i online_lengths(const online_batch *w, int k, int numbers, __m256i *number)
{
    const __m256i one = _mm256_set1_epi64x(1);
    const uint32_t *const at = w->marks + (numbers ? 2 * k : k);
    __m256i between;
    if (!numbers) {
        const __m128i own = _mm_loadu_si128((const __m128i *)at), other = _mm_loadu_si128((const __m128i *)(at - 1));
        return _mm256_sub_epi64(_mm256_cvtepu32_epi64(_mm_sub_epi32(own, other)), one);
    }
    between = _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)at), _mm256_loadu_si256((const __m256i *)(at - 1)));
    *number = _mm256_sub_epi64(_mm256_srli_epi64(between, 32), one);
    return _mm256_sub_epi64(_mm256_and_si256(between, _mm256_set1_epi64x(0xffffffff)), one);
}

/* Work out the features that are laid out; a bit for each that is not what it should be. */
ONLINE_WIDE HERD_INLINE uint32_t online_work_out(online_batch *w, int count, int numbers, int hashed, uint32_t seed, double scale)
{
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi64x(1), most = _mm256_set1_epi64x(hashed ? 16 : 8);
    uint32_t fine = 0;
    for (int k = 0; k < count; k += 8) {
        __m256i length[2], number = zero;
        for (int half = 0; half < 2; half++) {
            const int at = k + 4 * half;
            __m256i strange;
            length[half] = online_lengths(w, at, numbers, &number);
            strange = _mm256_or_si256(ONLINE_ABOVE(one, length[half]), ONLINE_ABOVE(length[half], most));
            if (numbers)
                strange = _mm256_or_si256(strange, online_four_numbers(w, at, number, scale));
            else
                _mm256_store_pd(w->value + at, _mm256_set1_pd(scale));
            if (!hashed) {
                const __m256i digits = online_last(_mm256_load_si256((const __m256i *)(w->name[0] + at)), length[half]);
                const __m256i index = _mm256_permutevar8x32_epi32(online_spelled(digits), _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0));
                strange = _mm256_or_si256(strange, _mm256_subs_epu8(digits, _mm256_set1_epi8(9)));
                _mm_store_si128((__m128i *)(w->code + at), _mm256_castsi256_si128(index));
            }
            fine |= (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(strange, zero))) << at;
        }
        if (hashed) {
            const __m256i large = _mm256_or_si256(ONLINE_ABOVE(length[0], _mm256_set1_epi64x(8)), ONLINE_ABOVE(length[1], _mm256_set1_epi64x(8)));
            online_eight_hashes(w, k, length[0], length[1], seed, !_mm256_testz_si256(large, large));
        }
    }
    return ~fine;
}

/* Features from the blank `c` on that are plain: a name of up to 16 bytes (svmlight: of up to 8 digits), and perhaps (svmlight: always) a colon
 * and a number.  Returns the blank before the first that is not, or the end of the namespace or line; the numbers are those of
 * online_number.  `last` is the index before, of rows without hashing. */
ONLINE_WIDE HERD_INLINE const char *online_side_by_side(const char *c, const char *limit, int vw, int hashed, online_output *out, int64_t begin,
                                                      int64_t *entries, int64_t *last, uint32_t seed, double scale)
{
    _Alignas(32) online_batch w;
    const int64_t shift = 1 - out->first, loose = -(int64_t)out->loose; /* `last` stays -1 where loose is */
    if (c - out->text < 16)
        return c;
    w.room[7] = 0;
    for (;;) {
        while (c + 1 < limit && *c != '\n' && online_is_end(*c) && online_is_end(c[1]))
            c++;
        if (limit - c < 89 || *c == '\n' || !online_is_end(*c))
            return c;
        const int found = online_find_marks(c + 1, limit, 1, w.marks), numbers = found && c[w.marks[0]] == ':';
        int count = numbers ? found / 2 : found, good;
        uint32_t strange, bars;
        count = count < ONLINE_BATCH ? count : ONLINE_BATCH;
        if (!count || !(numbers || vw))
            return c;
        if (numbers) {
            online_lay_out(&w, c, count, 1, hashed);
            strange = online_work_out(&w, count, 1, hashed, seed, scale);
        } else {
            online_lay_out(&w, c, count, 0, 1);
            strange = online_work_out(&w, count, 0, 1, seed, scale);
        }
        strange |= ~online_well_marked(&w, numbers, vw, &bars);
        if (bars) /* the namespace ends there */
            count = count < __builtin_ctz(bars) + 1 ? count : __builtin_ctz(bars) + 1;
        good = strange && count > __builtin_ctz(strange) ? __builtin_ctz(strange) : count;
        if (hashed)
            online_put_all(out, begin, entries, w.code, w.value, good);
        else {
            int64_t n = *entries, previous = *last;
            for (int k = 0; k < good; k++) {
                const int64_t index = w.code[k];
                if (index < out->first || index <= previous) {
                    good = k;
                    break;
                }
                previous = index | loose;
                out->index[n] = (int32_t)(index + shift);
                out->value[n++] = w.value[k];
            }
            *entries = n;
            *last = previous;
        }
        if (!good)
            return c;
        c += w.marks[numbers ? 2 * good - 1 : good - 1];
        if (good < count && good < ONLINE_BATCH / 4)
            return c;
    }
}

ONLINE_WIDE static const char *online_plain_pairs(const char *c, const char *limit, online_output *out, int64_t *entries, int64_t *last)
{
    return online_side_by_side(c, limit, 0, 0, out, 0, entries, last, 0, 1.0);
}

ONLINE_WIDE static const char *online_plain_names(const char *c, const char *limit, online_output *out, int64_t begin, int64_t *entries,
                                                uint32_t seed, double scale)
{
    int64_t last = -1;
    return online_side_by_side(c, limit, 1, 1, out, begin, entries, &last, seed, scale);
}
#endif

/* The pairs of a row of svmlight text from the blank `c` on that are plain. */
static inline const char *online_pairs(const char *c, const char *limit, online_output *out, int64_t *entries, int64_t *last)
{
#if defined(HERD_X86)
    if (online_wide())
        c = online_plain_pairs(c, limit, out, entries, last);
#endif
    return *c == '\n' ? c : online_plain(c, limit, out, entries, last);
}

/* The features of a namespace from the blank `c` on that are plain. */
static inline const char *online_features(const char *c, const char *end, const char *limit, online_output *out, int64_t begin, int64_t *entries,
                                          uint32_t seed, double scale)
{
#if defined(HERD_X86)
    if (online_wide())
        c = online_plain_names(c, limit, out, begin, entries, seed, scale);
#endif
    return c < end && *c != '|' ? online_plain_features(c, end, limit, out, begin, entries, seed, scale) : c;
}

static int online_svmlight_line(const char *line, const char *end, const char *limit, online_output *out, online_report *report)
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
    if ((code = online_allowed(out, online_number(token, c, &out->label[report->rows]))))
        return online_fail(report, line, token, c, code == NOT_FINITE ? NOT_FINITE : BAD_LABEL);
    for (;;) {
        int64_t index = 0;
        const char *digits;
        double value;
        if (c < end && !out->mask)
            c = online_pairs(c, limit, out, &count, &last);
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
                if ((code = online_allowed(out, online_number(number, c, &value))))
                    return online_fail(report, line, token, c, code);
            }
        }
        if (out->mask) {
            online_put_hashed(out, begin, &count, online_murmur(token, (size_t)(digits - token), 0), value);
            continue;
        }
        if (index < out->first)
            return online_fail(report, line, token, c, ZERO_INDEX);
        if (index <= last)
            return online_fail(report, line, token, c, FALLING_INDEX);
        if (index > 2147483645 + (out->loose != 0))
            return online_fail(report, line, token, c, LARGE_INDEX);
        last = out->loose ? -1 : index;
        out->index[count] = (int32_t)(index + 1 - out->first);
        out->value[count++] = value;
    }
    report->entries = count;
    out->weight[report->rows] = 1.0;
    out->pointer[++report->rows] = count;
    return FINE;
}

/* A line of svmlight text whose pairs are all plain: its end is not looked for beforehand.  NULL for any other line. */
static const char *online_plain_line(const char *line, const char *limit, online_output *out, online_report *report)
{
    const char *c = line;
    int64_t count = report->entries, last = -1;
    while (c < limit && !online_is_end(*c))
        c++;
    if (out->mask || c == limit || online_number(line, c, &out->label[report->rows]))
        return NULL;
    c = online_pairs(c, limit, out, &count, &last);
    if (*c != '\n')
        return NULL;
    report->entries = count;
    out->weight[report->rows] = 1.0;
    out->pointer[++report->rows] = count;
    return c;
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
    if (!(found[1] >= 0.0))
        return online_fail(report, line, line, bar, BAD_WEIGHT);
    out->label[report->rows] = found[0];
    out->weight[report->rows] = found[1];
    return FINE;
}

static int online_vw_line(const char *line, const char *end, const char *limit, online_output *out, online_report *report)
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
                c = online_features(c, end, limit, out, begin, &count, seed, scale);
                c += c < end && online_is_end(*c);
                continue;
            }
            colon = NULL;
            for (token = c; c < end && !online_is_end(*c) && *c != '|'; c++)
                if (*c == ':' && !colon)
                    colon = c;
            if (colon && (code = online_number(colon + 1, c, &value)))
                return online_fail(report, line, token, c, code);
            online_put_hashed(out, begin, &count,
                              online_murmur(token, (size_t)((colon ? colon : c) - token), seed), value * scale);
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
    out->text = text;
    while (report->used < size) {
        const char *line = text + report->used, *end = vw ? NULL : online_plain_line(line, text + size, out, report);
        int code = FINE;
        if (!end) {
            end = memchr(line, '\n', (size_t)(size - report->used));
            end = end ? end : text + size;
            code = vw ? online_vw_line(line, end, text + size, out, report) : online_svmlight_line(line, end, text + size, out, report);
        }
        if (code)
            report->token += report->used;
        report->lines++;
        report->used = (end - text) + (end < text + size);
        if (code)
            return;
    }
}
