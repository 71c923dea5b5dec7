#include <inttypes.h>
#include <string.h>

#include "tool/ckpt.h"

void tli_ckpt_json_value(tl_str *out, const tl_state_entry *e)
{
    tli_json j = {.out = out};
    switch (e->kind) {
    case TL_STATE_INT: tli_json_int(&j, NULL, e->i); break;
    case TL_STATE_DOUBLE: tli_json_number(&j, NULL, e->d); break;
    case TL_STATE_BOOL: tli_json_bool(&j, NULL, e->b); break;
    case TL_STATE_TEXT: tli_json_text(&j, NULL, e->text); break;
    case TL_STATE_WORDS: // as hexadecimal texts: not all readers of JSON have 64 bits
        tli_json_begin(&j, NULL, '[');
        for (int64_t i = 0; i < e->count; i++) {
            char word[24];
            snprintf(word, sizeof word, "%016" PRIx64, e->words[i]);
            tli_json_text(&j, NULL, word);
        }
        tli_json_end(&j, ']');
        break;
    default: tli_json_text(&j, NULL, NULL);
    }
}

static void add_format(tli_json *j, const tli_ckpt *k)
{
    int version = k->c ? tl_checkpoint_version(k->c) : 0;
    char crc[16];
    tli_json_text(j, "format", k->b ? "tensorbundle" : version ? "checkpoint" : "safetensors");
    if (k->b) tli_json_int(j, "data_files", tl_tensorbundle_shards(k->b));
    if (!version) return;
    snprintf(crc, sizeof crc, "%08" PRIx32, tl_checkpoint_crc(k->c));
    tli_json_int(j, "version", version);
    tli_json_text(j, "checksum", crc);
    tli_json_text(j, "numerics", tl_checkpoint_numerics(k->c));
}

static void add_notes(tli_json *j, const tl_safetensors *f)
{
    tli_json_begin(j, "notes", '{');
    for (int64_t i = 0; i < tl_safetensors_note_count(f); i++) {
        const tl_safetensors_note *note = tl_safetensors_note_at(f, i);
        if (strncmp(note->key, "tilth.", 6) != 0) tli_json_text(j, note->key, note->value);
    }
    tli_json_end(j, '}');
}

static void add_tensor(tli_json *j, const tl_safetensors_entry *e)
{
    tli_json_text(j, "dtype", e->readable ? tl_dtype_name(e->dtype) : e->type);
    tli_json_begin(j, "shape", '[');
    for (int i = 0; i < e->rank; i++) tli_json_int(j, NULL, e->dims[i]);
    tli_json_end(j, ']');
}

static void add_stats(tli_json *j, const tl_safetensors_entry *e)
{
    tli_ckpt_stats s = tli_ckpt_measure(e);
    if (s.finite) {
        tli_json_number(j, "least", s.least);
        tli_json_number(j, "mean", s.mean);
        tli_json_number(j, "greatest", s.greatest);
    }
    tli_json_int(j, "not_finite", s.strange);
}

static void add_row(tli_json *outer, const tli_ckpt_row *row, bool stats)
{
    tli_json inner = tli_json_row(outer), *j = &inner;
    tli_json_begin(j, NULL, '{');
    tli_json_text(j, "path", row->path);
    tli_json_text(j, "kind", row->kind);
    if (row->tensor) add_tensor(j, row->entry);
    else tli_json_raw(j, "value", row->value);
    tli_json_int(j, "bytes", (int64_t)row->entry->bytes);
    if (row->same_as) tli_json_text(j, "same_as", row->same_as);
    else if (stats && row->tensor && row->entry->readable
             && (row->entry->data || row->entry->pieces))
        add_stats(j, row->entry);
    tli_json_end(j, '}');
}

void tli_ckpt_add_json(tli_json *j, const tli_ckpt *k, bool stats)
{
    tli_json_begin(j, NULL, '{');
    tli_json_text(j, "file", k->file);
    add_format(j, k);
    if (k->c) add_notes(j, tl_checkpoint_file(k->c));
    tli_json_begin(j, "entries", '[');
    for (int64_t i = 0; i < k->count; i++) add_row(j, &k->rows[i], stats);
    tli_json_end(j, ']');
    tli_json_end(j, '}');
}
