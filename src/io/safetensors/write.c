#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "io/inner/json_text.h"
#include "io/safetensors/impl.h"

/* --- drafts ----------------------------------------------------------------------------------- */

tl_status tli_st_draft_init(tli_st_draft *d)
{
    *d = (tli_st_draft){.header = TL_STR_INIT};
    return tl_arena_new(&d->arena);
}

void tli_st_draft_deinit(tli_st_draft *d)
{
    TL_VEC_FREE(&d->items);
    tl_str_deinit(&d->header);
    tl_arena_free(&d->arena);
}

static tl_status set_value(tli_st_draft *d, tli_st_item *item, tli_st_type type, const void *value,
                           size_t bytes)
{
    item->type = type;
    item->bytes = bytes;
    item->data = tl_arena_copy(d->arena, value, bytes);
    return item->data ? TL_OK : TL_ENOMEM;
}

static tl_status set_tensor(tli_st_item *item, const tl_tensor *t)
{
    char spec[TL_TENSOR_TEXT];
    if (!t->storage)
        return TL_FAIL(TL_ESTATE,
                       "'%s' is described as %s and has no elements that could be written",
                       item->name, tl_tensor_spec(spec, t));
    item->type = tli_st_type_of(t->dtype);
    item->shape = t->shape;
    item->tensor = t;
    item->bytes = tl_tensor_bytes(t);
    return TL_OK;
}

static tl_status set_item(tli_st_draft *d, tli_st_item *item, const tl_state_entry *e)
{
    unsigned char truth = e->b;
    switch (e->kind) {
    case TL_STATE_INT: return set_value(d, item, TLI_ST_I64, &e->i, sizeof e->i);
    case TL_STATE_DOUBLE: return set_value(d, item, TLI_ST_F64, &e->d, sizeof e->d);
    case TL_STATE_BOOL: return set_value(d, item, TLI_ST_BOOL, &truth, 1);
    case TL_STATE_TEXT:
        item->shape = tl_shape_of(1, &(int64_t){(int64_t)strlen(e->text)});
        return set_value(d, item, TLI_ST_U8, e->text, strlen(e->text));
    case TL_STATE_WORDS:
        item->shape = tl_shape_of(1, &e->count);
        return set_value(d, item, TLI_ST_U64, e->words, (size_t)e->count * sizeof *e->words);
    case TL_STATE_TENSOR: return set_tensor(item, e->tensor);
    case TL_STATE_STATE: break;
    }
    return TL_FAIL(TL_EINTERNAL, "'%s' has no value", item->name);
}

tl_status tli_st_draft_add(tli_st_draft *d, const tl_state_entry *e)
{
    tli_st_item item = {.name = tl_arena_strdup(d->arena, e->path)};
    if (!item.name) return TL_ENOMEM;
    if (strcmp(item.name, "__metadata__") == 0)
        return TL_FAIL(
            TL_EINVAL,
            "no entry of a safetensors file can be called '__metadata__': its notes are");
    TL_TRY(set_item(d, &item, e));
    return TL_VEC_PUSH(&d->items, item) ? TL_OK : TL_ENOMEM;
}

static int by_type_and_name(const void *a, const void *b)
{
    const tli_st_item *x = a, *y = b;
    if (x->type != y->type) return x->type > y->type ? -1 : 1;
    return strcmp(x->name, y->name);
}

static tl_status add_notes(tl_str *out, const tl_safetensors_note *notes, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (i) tl_str_addc(out, ',');
        TL_TRY(tli_json_add_string(out, notes[i].key));
        tl_str_addc(out, ':');
        TL_TRY_NOTE(tli_json_add_string(out, notes[i].value), "the note '%s'", notes[i].key);
    }
    return TL_OK;
}

static tl_status add_item(tl_str *out, const tli_st_item *item)
{
    TL_TRY(tli_json_add_string(out, item->name));
    tl_str_addf(out, ":{\"dtype\":\"%s\",\"shape\":[", tli_st_types[item->type].name);
    for (int i = 0; i < item->shape.rank; i++)
        tl_str_addf(out, "%s%" PRId64, i ? "," : "", item->shape.dims[i]);
    tl_str_addf(out, "],\"data_offsets\":[%zu,%zu]}", item->begin, item->begin + item->bytes);
    return TL_OK;
}

static tl_status write_length(tl_str *header)
{
    uint64_t length = header->length - TLI_ST_PREFIX;
    if (length > TLI_ST_LONGEST_HEADER)
        return TL_FAIL(TL_ELIMIT,
                       "the names and notes need a header of %" PRIu64
                       " bytes; a safetensors file has at most %" PRIu64,
                       length, TLI_ST_LONGEST_HEADER);
    for (int i = 0; i < TLI_ST_PREFIX; i++) header->data[i] = (char)(length >> 8 * i & 0xff);
    return TL_OK;
}

tl_status tli_st_draft_finish(tli_st_draft *d, const tl_safetensors_note *notes, int64_t count)
{
    tl_str *header = &d->header;
    if (d->items.count)
        qsort(d->items.items, (size_t)d->items.count, sizeof *d->items.items, by_type_and_name);
    tl_str_cut(header, 0);
    tl_str_pad(header, ' ', TLI_ST_PREFIX);
    tl_str_addc(header, '{');
    if (count) tl_str_add(header, "\"__metadata__\":{");
    d->notes_at = header->length;
    TL_TRY(add_notes(header, notes, count));
    d->notes_size = header->length - d->notes_at;
    if (count) tl_str_addc(header, '}');
    d->bytes = 0;
    for (int64_t i = 0; i < d->items.count; i++) {
        tli_st_item *item = &d->items.items[i];
        item->begin = d->bytes;
        d->bytes += item->bytes;
        if (i || count) tl_str_addc(header, ',');
        TL_TRY(add_item(header, item));
    }
    tl_str_addc(header, '}');
    tl_str_pad(header, ' ', (int64_t)(-header->length % 8));
    TL_TRY(tl_str_status(header));
    return write_length(header);
}

static tl_status sink_pieces(const tli_st_item *item, tli_st_sink *sink, void *payload)
{
    const size_t size = (size_t)tli_st_types[item->type].bits / 8;
    for (int64_t i = 0; i < item->piece_count; i++)
        TL_TRY(sink(item->pieces[i].data, (size_t)item->pieces[i].count * size, payload));
    return TL_OK;
}

tl_status tli_st_draft_data(const tli_st_draft *d, tli_st_sink *sink, void *payload)
{
    for (int64_t i = 0; i < d->items.count; i++) {
        const tli_st_item *item = &d->items.items[i];
        if (!item->tensor) {
            TL_TRY(item->pieces ? sink_pieces(item, sink, payload)
                                : sink(item->data, item->bytes, payload));
            continue;
        }
        tl_lease l;
        TL_TRY_NOTE(tl_lease_read(&l, item->tensor), "'%s'", item->name);
        tl_status st = sink((const char *)l.data + item->skip, item->bytes, payload);
        tl_lease_drop(&l);
        TL_TRY(st);
    }
    return TL_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static tl_status add_entry(const tl_state_entry *e, void *payload)
{
    return tli_st_draft_add(payload, e);
}

static tl_status write_piece(const void *data, size_t bytes, void *payload)
{
    return tl_file_writer_write(payload, data, bytes);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const tl_safetensors_note *)a)->key, ((const tl_safetensors_note *)b)->key);
}

static tl_status finish_sorted(tli_st_draft *d, const tl_safetensors_note *notes, int64_t count)
{
    tl_safetensors_note *sorted = NULL;
    if (count) {
        sorted = tl_arena_copy(d->arena, notes, (size_t)count * sizeof *notes);
        if (!sorted) return TL_ENOMEM;
        qsort(sorted, (size_t)count, sizeof *sorted, by_key);
    }
    for (int64_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1].key, sorted[i].key) == 0)
            return TL_FAIL(TL_EINVAL, "the note '%s' is given twice", sorted[i].key);
    return tli_st_draft_finish(d, sorted, count);
}

tl_status tl_safetensors_write(const char *path, const tl_state *s,
                               const tl_safetensors_note *notes, int64_t note_count)
{
    tli_st_draft d;
    tl_file_writer *w = NULL;
    tl_status st;
    TL_TRY_DONE(st, tli_st_draft_init(&d));
    TL_TRY_DONE(st, tl_state_walk(s, add_entry, &d));
    TL_TRY_DONE(st, finish_sorted(&d, notes, note_count));
    TL_TRY_DONE(st, tl_file_writer_begin(&w, path));
    TL_TRY_DONE(st, tl_file_writer_write(w, d.header.data, d.header.length));
    TL_TRY_DONE(st, tli_st_draft_data(&d, write_piece, w));
    st = tl_file_writer_commit(&w);
done:
    tl_file_writer_abort(&w);
    tli_st_draft_deinit(&d);
    return st == TL_OK ? TL_OK : tl_error_note(st, "'%s' was not written", path);
}
