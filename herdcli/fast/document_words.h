/* Words of documents as counts of hashed columns: a loop of _online.pyx. */
#include "online_text.h"

typedef struct {
    uint8_t *known;            /* of each column, whether its first word was reported; NULL if words are not reported */
    int32_t *column;           /* columns of the words reported, with their first bytes and lengths */
    int64_t *start, *length;
    int64_t count;
} online_words;

/* Rows of word counts: document k ends before byte ends[k] of the text, and its words are divided by blanks. */
static void online_count_words(const char *text, const int64_t *ends, int64_t documents, online_output *out, online_words *words)
{
    const double one = 1.0;
    int64_t entries = 0, at = 0;
    out->pointer[0] = 0;
    for (int64_t k = 0; k < documents; k++) {
        const int64_t begin = entries, end = ends[k];
        online_clear_slots(out, end - at);
        while (at < end) {
            const int64_t start = at;
            uint32_t hash;
            while (at < end && text[at] != ' ')
                at++;
            if (at > start) {
                hash = online_murmur(text + start, (size_t)(at - start), 0);
                online_put_all(out, begin, &entries, &hash, &one, 1);
                if (words->known && !words->known[hash & out->mask]) {
                    words->known[hash & out->mask] = 1;
                    words->column[words->count] = (int32_t)(hash & out->mask);
                    words->start[words->count] = start;
                    words->length[words->count++] = at - start;
                }
            }
            at += at < end;
        }
        out->pointer[k + 1] = entries;
    }
}
