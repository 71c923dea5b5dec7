#include <string.h>

#include "tool/ckpt.h"

/* A bundle's entry in the form that rows have; its bytes are checked. Those of strings and the like
 * that are in pieces cannot be put together: no data. */
static tl_status entry_of(tl_safetensors_entry *out, tl_arena *arena, const tl_tensorbundle *b,
                          const tl_tensorbundle_entry *e)
{
    *out = (tl_safetensors_entry){.name = e->name,
                                  .type = e->type,
                                  .readable = e->readable,
                                  .dtype = e->dtype,
                                  .rank = e->rank,
                                  .dims = e->dims,
                                  .bytes = e->bytes};
    if (!e->pieces) {
        TL_TRY(tl_tensorbundle_borrow(&out->data, b, e));
        if (!out->data) out->data = ""; // of an empty file
        return TL_OK;
    }
    void *whole = tl_arena_alloc(arena, e->bytes);
    if (!whole) return TL_ENOMEM;
    out->data = whole;
    tl_status st = tl_tensorbundle_copy(whole, b, e);
    if (st != TL_EUNSUPPORTED) return st;
    tl_error_clear();
    out->data = NULL;
    return TL_OK;
}

/* Strings are shown as texts, rows of uint64 as words, and, where rows are not compared, counters
 * as numbers. */
static tl_status read_value(tl_state_entry *out, bool *is_value, tl_safetensors_entry *entry,
                            tl_arena *arena, const tl_tensorbundle *b,
                            const tl_tensorbundle_entry *e, bool alike)
{
    *is_value = false;
    if (!alike && e->rank == 0 && strcmp(e->type, "int64") == 0) {
        *out = (tl_state_entry){.kind = TL_STATE_INT};
        memcpy(&out->i, entry->data, sizeof out->i); // files are not aligned
        *is_value = true;
    } else if (e->is_string && e->rank == 0 && !e->pieces) {
        const tl_tensorbundle_string *s;
        TL_TRY(tl_tensorbundle_strings(&s, NULL, arena, b, e));
        const char *text = tl_arena_strndup(arena, s->data, s->size);
        if (!text) return TL_ENOMEM;
        *out = (tl_state_entry){.kind = TL_STATE_TEXT, .text = text};
        entry->data = s->data;
        entry->bytes = s->size;
        *is_value = true;
    } else if (strcmp(e->type, "uint64") == 0 && e->rank == 1) {
        uint64_t *words = tl_arena_copy(arena, entry->data, entry->bytes);
        if (!words) return TL_ENOMEM;
        *out = (tl_state_entry){.kind = TL_STATE_WORDS, .words = words, .count = e->dims[0]};
        *is_value = true;
    }
    return TL_OK;
}

tl_status tli_ckpt_add_bundle(tli_ckpt *k, tl_arena *arena, bool alike)
{
    int64_t count = tl_tensorbundle_count(k->b);
    tl_safetensors_entry *entries = tl_arena_array(arena, count, sizeof *entries);
    k->rows = tl_arena_array(arena, count, sizeof *k->rows);
    if (!entries || !k->rows) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        const tl_tensorbundle_entry *e = tl_tensorbundle_at(k->b, i);
        const tl_tensorbundle_names *names = &tl_tensorbundle_plain_names;
        const char *path = e->name;
        bool graph = strcmp(e->name, TL_TENSORBUNDLE_GRAPH) == 0, is_value = false;
        tl_state_entry value;
        if (graph && alike) continue;
        if (alike) TL_TRY(names->to_state(&path, arena, e->name, names->payload));
        TL_TRY(entry_of(&entries[i], arena, k->b, e));
        if (!graph) TL_TRY(read_value(&value, &is_value, &entries[i], arena, k->b, e, alike));
        TL_TRY(tli_ckpt_add_row(k, arena, path, is_value ? &value : NULL, &entries[i]));
    }
    return TL_OK;
}
