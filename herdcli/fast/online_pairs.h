/* Rows of features with products of theirs among them: a loop of _online.pyx. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const int64_t *left_pointer, *right_pointer;
    const int32_t *left_index, *right_index;
    const double *left_value, *right_value;
    int64_t own; /* both are the same: each pair comes once */
} online_side;

typedef struct { double value; int64_t index; } online_entry;

enum { ONLINE_DIGIT = 11, ONLINE_FEW = 24 };

/* Entries in rising order of their index, equal ones in the order they came: by insertion, or digit by digit from the last.  `bits` of an
 * index, `spare` room for as many.  Returns where they are. */
static online_entry *online_sorted(online_entry *entries, online_entry *spare, int64_t count, int bits)
{
    static const uint32_t last = (1u << ONLINE_DIGIT) - 1;
    if (count <= ONLINE_FEW) {
        for (int64_t i = 1; i < count; i++) {
            const online_entry one = entries[i];
            int64_t at = i;
            for (; at > 0 && entries[at - 1].index > one.index; at--)
                entries[at] = entries[at - 1];
            entries[at] = one;
        }
        return entries;
    }
    for (int shift = 0; shift < bits; shift += ONLINE_DIGIT) {
        uint32_t begin[1 << ONLINE_DIGIT] = {0}, before = 0;
        online_entry *const from = entries;
        for (int64_t i = 0; i < count; i++)
            begin[(uint32_t)(from[i].index >> shift) & last]++;
        for (uint32_t digit = 0; digit <= last; digit++) {
            const uint32_t here = begin[digit];
            begin[digit] = before;
            before += here;
        }
        for (int64_t i = 0; i < count; i++)
            spare[begin[(uint32_t)(from[i].index >> shift) & last]++] = from[i];
        entries = spare;
        spare = from;
    }
    return entries;
}

/* Rows first … last − 1 with their products, columns in rising order, entries of one column added up in their order; how many entries there
 * are.  `room` holds twice as many as the longest row. */
static int64_t online_products(const int64_t *pointer, const int32_t *index, const double *value, const online_side *sides, int64_t count,
                               uint32_t mask, int64_t first, int64_t last, int64_t most, online_entry *room, int64_t *out_pointer,
                               int32_t *out_index, double *out_value)
{
    int64_t made = 0;
    int bits = 1;
    while (((uint64_t)mask + 1) >> bits)
        bits++;
    out_pointer[0] = 0;
    for (int64_t row = first; row < last; row++) {
        online_entry *found = room;
        int64_t n = 0;
        for (int64_t i = pointer[row]; i < pointer[row + 1]; i++)
            room[n++] = (online_entry){value[i], index[i]};
        for (int64_t k = 0; k < count; k++) {
            const online_side *const side = sides + k;
            for (int64_t i = side->left_pointer[row]; i < side->left_pointer[row + 1]; i++) {
                const uint32_t hash = 16777619u * (uint32_t)(side->left_index[i] - 1);
                const double factor = side->left_value[i];
                for (int64_t j = side->own ? i : side->right_pointer[row]; j < side->right_pointer[row + 1]; j++)
                    room[n++] = (online_entry){factor * side->right_value[j], (int64_t)((hash ^ (uint32_t)(side->right_index[j] - 1)) & mask) + 1};
            }
        }
        found = online_sorted(room, room + most, n, bits);
        for (int64_t i = 0; i < n; made++) {
            double total = 0.0;
            const int64_t at = found[i].index;
            for (; i < n && found[i].index == at; i++)
                total += found[i].value;
            out_index[made] = (int32_t)at;
            out_value[made] = total;
        }
        out_pointer[row - first + 1] = made;
    }
    return made;
}
