/* Texts become documents: lines are cut into pieces side by side, and put together in order. */
#include "text/documents.h"

#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/vec.h>

#include "text/lines.h"

/* A part is what one thread cuts at a time; parts are put together when there are PARTS of them. */
enum { PART_BYTES = 1 << 18, PARTS = 64, NARROW_IDS = 1 << 16 };

tl_status tl_documents_new(tl_documents **out, const tl_tokenizer *tokenizer, tl_pool *pool)
{
    tl_documents *d = *out = tl_alloc_zero(sizeof *d);
    if (!d) return TL_FAIL_NOMEM(sizeof *d);
    d->tokenizer = tokenizer;
    d->pool = pool;
    d->is_wide = tl_tokenizer_count(tokenizer) > NARROW_IDS;
    return TL_OK;
}

void tl_documents_free(tl_documents **documents)
{
    tl_documents *d = *documents;
    *documents = NULL;
    if (!d) return;
    tl_free(d->narrow);
    tl_free(d->wide);
    TL_VEC_FREE(&d->sentences);
    TL_VEC_FREE(&d->documents);
    tl_free(d);
}

tl_documents_size tl_documents_measure(const tl_documents *d)
{
    return (tl_documents_size){d->documents.count, d->sentences.count, d->pieces};
}

void tli_documents_copy(const tl_documents *d, int64_t from, int64_t count, int32_t *out)
{
    TL_ASSERT(from >= 0 && count >= 0 && from + count <= d->pieces);
    if (d->is_wide) memcpy(out, d->wide + from, (size_t)count * sizeof *out);
    else
        for (int64_t i = 0; i < count; i++) out[i] = d->narrow[from + i];
}

/* --- one part --------------------------------------------------------------------------------- */

enum { NEW_DOCUMENT = 0 }; // in place of a sentence's count of pieces, which is never 0

typedef struct part {
    const char *text;
    size_t size;
    tl_ids ids;
    tli_offsets counts; // pieces of each sentence, or NEW_DOCUMENT
} part;

static tl_status cut_line(part *p, const tl_documents *d, tl_str *clean, const char *line,
                          size_t size)
{
    int64_t before = p->ids.count;
    TL_TRY(tli_line_clean(clean, &line, &size));
    if (tli_line_is_blank(line, size))
        return TL_VEC_PUSH(&p->counts, NEW_DOCUMENT) ? TL_OK : TL_ENOMEM;
    TL_TRY(tl_tokenize(d->tokenizer, &p->ids, line, size));
    int64_t count = p->ids.count - before;
    return !count || TL_VEC_PUSH(&p->counts, count) ? TL_OK : TL_ENOMEM;
}

static tl_status cut_part(part *p, const tl_documents *d)
{
    tl_str clean = TL_STR_INIT;
    tl_status st = TL_OK;
    p->ids.count = p->counts.count = 0;
    for (const char *at = p->text, *end = at + p->size; at < end && st == TL_OK;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);
        st = cut_line(p, d, &clean, at, size);
        at += size + (stop != NULL);
    }
    tl_str_deinit(&clean);
    return st;
}

typedef struct wave {
    const tl_documents *documents;
    part parts[PARTS];
    int64_t count;
} wave;

static tl_status cut_parts(int64_t begin, int64_t end, void *payload)
{
    wave *w = payload;
    for (int64_t i = begin; i < end; i++) TL_TRY(cut_part(&w->parts[i], w->documents));
    return TL_OK;
}

/* Takes the next parts of a text, which end where lines end. */
static void divide(wave *w, const char **at, const char *end)
{
    for (w->count = 0; w->count < PARTS && *at < end; w->count++) {
        const char *stop = end - *at > PART_BYTES
                               ? memchr(*at + PART_BYTES, '\n', (size_t)(end - *at - PART_BYTES))
                               : NULL;
        stop = stop ? stop + 1 : end;
        w->parts[w->count].text = *at;
        w->parts[w->count].size = (size_t)(stop - *at);
        *at = stop;
    }
}

/* --- putting together ------------------------------------------------------------------------- */

static tl_status add_ids(tl_documents *d, const tl_ids *ids)
{
    size_t width = d->is_wide ? sizeof *d->wide : sizeof *d->narrow;
    void **items = d->is_wide ? (void **)&d->wide : (void **)&d->narrow;
    while (d->room - d->pieces < ids->count) {
        int64_t room = d->room ? d->room * 2 : 1 << 16;
        void *grown = tl_realloc(*items, (size_t)room * width);
        if (!grown) return TL_FAIL_NOMEM((size_t)room * width);
        *items = grown;
        d->room = room;
    }
    if (d->is_wide) memcpy(d->wide + d->pieces, ids->items, (size_t)ids->count * width);
    else
        for (int64_t i = 0; i < ids->count; i++) d->narrow[d->pieces + i] = (uint16_t)ids->items[i];
    d->pieces += ids->count;
    return TL_OK;
}

static tl_status add_part(tl_documents *d, const part *p)
{
    int64_t at = d->pieces;
    for (int64_t i = 0; i < p->counts.count; i++) {
        if (p->counts.items[i] == NEW_DOCUMENT) {
            d->open = false;
            continue;
        }
        if (!d->open && !TL_VEC_PUSH(&d->documents, d->sentences.count)) return TL_ENOMEM;
        if (!TL_VEC_PUSH(&d->sentences, at)) return TL_ENOMEM;
        d->open = true;
        at += p->counts.items[i];
    }
    return p->ids.count ? add_ids(d, &p->ids) : TL_OK;
}

tl_status tl_documents_add_text(tl_documents *d, const char *text, size_t size)
{
    wave *w = tl_alloc_zero(sizeof *w);
    tl_status st = TL_OK;
    if (!w) return TL_FAIL_NOMEM(sizeof *w);
    w->documents = d;
    for (const char *at = text, *end = text + size; at < end && st == TL_OK;) {
        divide(w, &at, end);
        st = tl_parallel_for(d->pool, w->count, 1, cut_parts, w);
        for (int64_t i = 0; i < w->count && st == TL_OK; i++) st = add_part(d, &w->parts[i]);
    }
    for (int64_t i = 0; i < PARTS; i++) {
        tl_ids_deinit(&w->parts[i].ids);
        TL_VEC_FREE(&w->parts[i].counts);
    }
    tl_free(w);
    return st;
}

tl_status tl_documents_add_file(tl_documents *d, const char *path)
{
    tl_file_mapping file;
    TL_TRY(tl_file_map(&file, path));
    tl_status st = tl_documents_add_text(d, file.data, file.size);
    if (st == TL_OK) st = tl_file_mapping_check(&file, path);
    else st = tl_error_note(st, "'%s'", path);
    tl_file_unmap(&file);
    return st;
}
