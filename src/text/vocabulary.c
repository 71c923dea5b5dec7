#include "text/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "text/utf8.h"

/* --- making ----------------------------------------------------------------------------------- */

static tl_status make_room(tli_vocabulary *v, int64_t count)
{
    int64_t wanted = v->capacity ? v->capacity : 64;
    while (wanted < count) wanted *= 2;
    if (wanted > v->capacity) {
        int64_t *grown = tl_realloc(v->places, (size_t)wanted * sizeof *grown);
        if (!grown) return TL_FAIL_NOMEM((size_t)wanted * sizeof *grown);
        v->places = grown;
        v->capacity = wanted;
    }
    while (v->count < count) v->places[v->count++] = -1;
    return TL_OK;
}

tl_status tli_vocabulary_add(tli_vocabulary *v, int64_t id, const char *piece, size_t size)
{
    if (id < 0 || id >= TLI_MOST_PIECES)
        return TL_FAIL(TL_ELIMIT, "piece number %" PRId64 ": numbers are from 0 to %" PRId64, id,
                       TLI_MOST_PIECES - 1);
    if (id >= v->count) TL_TRY(make_room(v, id + 1));
    if (v->places[id] >= 0)
        return TL_FAIL(TL_EEXISTS, "'%.80s' and '%.*s' have the same number %" PRId64,
                       v->text.data + v->places[id], size < 80 ? (int)size : 80, piece, id);
    v->places[id] = (int64_t)v->text.length;
    tl_str_addn(&v->text, piece, size);
    tl_str_addc(&v->text, '\0');
    return tl_str_status(&v->text);
}

static int compare(const char *a, size_t a_size, const char *b, size_t b_size)
{
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int by_text(const void *a, const void *b)
{
    const tli_piece *p = a, *q = b;
    int order = compare(p->text, p->size, q->text, q->size);
    return order ? order : (p->id > q->id) - (p->id < q->id);
}

tl_status tli_vocabulary_finish(tli_vocabulary *v)
{
    int64_t kept = 0;
    v->sorted = tl_alloc((size_t)v->count * sizeof *v->sorted);
    if (!v->sorted) return TL_FAIL_NOMEM((size_t)v->count * sizeof *v->sorted);
    for (int64_t i = 0; i < v->count; i++) {
        const char *text = tli_vocabulary_piece(v, i);
        if (text)
            v->sorted[v->sorted_count++] = (tli_piece){text, (uint32_t)strlen(text), (int32_t)i};
    }
    qsort(v->sorted, (size_t)v->sorted_count, sizeof *v->sorted, by_text);
    for (int64_t i = 0; i < v->sorted_count; i++) {
        tli_piece p = v->sorted[i];
        if (kept && v->sorted[kept - 1].size == p.size
            && memcmp(v->sorted[kept - 1].text, p.text, p.size) == 0)
            kept--; // the later line has the word
        v->sorted[kept++] = p;
    }
    v->sorted_count = kept;
    return TL_OK;
}

void tli_vocabulary_deinit(tli_vocabulary *v)
{
    tl_str_deinit(&v->text);
    tl_free(v->places);
    tl_free(v->sorted);
    *v = (tli_vocabulary){0};
}

/* --- asking ----------------------------------------------------------------------------------- */

const char *tli_vocabulary_piece(const tli_vocabulary *v, int64_t id)
{
    return id < 0 || id >= v->count || v->places[id] < 0 ? NULL : v->text.data + v->places[id];
}

/* The first that is not before the text. */
static int64_t lower_bound(const tli_vocabulary *v, const char *text, size_t size)
{
    int64_t low = 0, high = v->sorted_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        const tli_piece *p = &v->sorted[middle];
        if (compare(p->text, p->size, text, size) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

const tli_piece *tli_vocabulary_find(const tli_vocabulary *v, const char *piece, size_t size)
{
    int64_t at = lower_bound(v, piece, size);
    const tli_piece *p = v->sorted + at;
    return at < v->sorted_count && p->size == size && memcmp(p->text, piece, size) == 0 ? p : NULL;
}

void tli_vocabulary_range(const tli_vocabulary *v, const char *prefix, int64_t *from, int64_t *to)
{
    size_t size = strlen(prefix);
    *from = lower_bound(v, prefix, size);
    if (*from < v->sorted_count && v->sorted[*from].size == size
        && memcmp(v->sorted[*from].text, prefix, size) == 0)
        (*from)++;
    for (*to = *from; *to < v->sorted_count; (*to)++)
        if (v->sorted[*to].size <= size || memcmp(v->sorted[*to].text, prefix, size) != 0) break;
}

/* --- vocab.txt -------------------------------------------------------------------------------- */

/* Python strips both ends of a line, tokenizers the right one; TensorFlow keeps all but returns. */
static void strip(const char **begin, const char **end, tli_unicode library)
{
    uint32_t c;
    if (library == TLI_UNICODE_TF_TEXT) {
        while (*end > *begin && (*end)[-1] == '\r') --*end;
        return;
    }
    while (*end > *begin) {
        const char *last = *end - 1;
        while (last > *begin && ((uint8_t)*last & 0xc0) == 0x80) last--;
        if (!tli_utf8_decode(&c, last, *end) || !(tli_unicode_flags(library, c) & TLI_SPACE)) break;
        *end = last;
    }
    while (library == TLI_UNICODE_PYTHON && *begin < *end) {
        int length = tli_utf8_decode(&c, *begin, *end);
        if (!length || !(tli_unicode_flags(library, c) & TLI_SPACE)) break;
        *begin += length;
    }
}

static tl_status check_line(const char *begin, const char *end)
{
    uint32_t c;
    for (const char *p = begin; p < end;) {
        int length = tli_utf8_decode(&c, p, end);
        if (!length)
            return TL_FAIL(TL_EINVAL, "byte %d (%#04x) is no UTF-8", (int)(p - begin) + 1,
                           (uint8_t)*p);
        if (!c) return TL_FAIL(TL_EINVAL, "a byte of zero: this is no list of pieces");
        p += length;
    }
    return TL_OK;
}

tl_status tli_vocabulary_read(tli_vocabulary *out, const char *name, const char *data, size_t size,
                              tli_unicode library)
{
    const char *end = data + size;
    if (size > TLI_MOST_VOCABULARY_BYTES)
        return TL_FAIL(TL_ELIMIT, "'%s' has %zu bytes; a vocabulary has at most %zu", name, size,
                       TLI_MOST_VOCABULARY_BYTES);
    for (int64_t line = 0; data < end; line++) {
        const char *newline = memchr(data, '\n', (size_t)(end - data));
        const char *from = data, *to = newline ? newline : end;
        data = newline ? newline + 1 : end;
        strip(&from, &to, library);
        TL_TRY_NOTE(check_line(from, to), "'%s', line %" PRId64, name, line + 1);
        TL_TRY_NOTE(tli_vocabulary_add(out, line, from, (size_t)(to - from)), "'%s', line %" PRId64,
                    name, line + 1);
    }
    return tli_vocabulary_finish(out);
}
