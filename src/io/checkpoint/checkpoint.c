#include "io/inner/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/vec.h>

#include "core/inner/state.h"
#include "io/json/members.h"
#include "io/inner/json_text.h"

/* Every checkpoint begins with its checksum, eight digits that count as '0' in what they sum up. It
 * stands at a fixed place so that nothing has to be believed before it is checked. */
#define CRC_NOTE "tilth.crc32c"
#define FORMAT_NOTE "tilth.format"
#define NUMERICS_NOTE "tilth.numerics"
#define ENTRIES_NOTE "tilth.entries"
#define GIVEN_NOTE "tilth.note."
#define CRC_ZEROS "00000000"
static const char opening[] = "{\"__metadata__\":{\"" CRC_NOTE "\":\"";
static const char index_opening[] = "{\"" CRC_NOTE "\":\"";
enum {
    CRC_DIGITS = 8,
    CRC_AT = TLI_ST_PREFIX + sizeof opening - 1,
    INDEX_CRC_AT = sizeof index_opening - 1
};

struct tl_checkpoint {
    tl_safetensors *file;
    tl_state *state; /* tensors described */
    tl_map tensors;  /* by path, to tl_safetensors_entry */
    int version;     /* 0: plain safetensors */
    const char *numerics;
    uint32_t crc;
};

/* --- saving ----------------------------------------------------------------------------------- */

typedef struct drafting {
    tli_st_draft *draft;
    tl_str entries; /* [["kernel","tensor"],["tied","same","kernel"],["step","int"]] */
} drafting;

static tl_status draft_entry(const tl_state_entry *e, void *payload)
{
    drafting *d = payload;
    tl_str_add(&d->entries, d->entries.length ? ",[" : "[[");
    TL_TRY(tli_json_add_string(&d->entries, e->path));
    tl_str_addf(&d->entries, ",\"%s\"", e->same_as ? "same" : tl_state_kind_name(e->kind));
    if (e->same_as) {
        tl_str_addc(&d->entries, ',');
        TL_TRY(tli_json_add_string(&d->entries, e->same_as));
    }
    tl_str_addc(&d->entries, ']');
    return e->same_as ? TL_OK : tli_st_draft_add(d->draft, e);
}

static tl_status draft_notes(tl_safetensors_note *into, tl_arena *arena,
                             const tl_checkpoint_info *info)
{
    for (int64_t i = 0; i < info->note_count; i++) {
        into[i].key = tl_arena_printf(arena, GIVEN_NOTE "%s", info->notes[i].key);
        into[i].value = info->notes[i].value;
        if (!into[i].key) return TL_ENOMEM;
    }
    return TL_OK;
}

tl_status tli_checkpoint_draft(tli_st_draft *d, const tl_state *s, const tl_checkpoint_info *info)
{
    static const tl_checkpoint_info none;
    drafting how = {d, TL_STR_INIT};
    tl_safetensors_note *notes;
    tl_arena *arena = NULL;
    int64_t count = 0;
    char version[16];
    tl_status st;
    if (!info) info = &none;
    snprintf(version, sizeof version, "%d", TL_CHECKPOINT_VERSION);
    TL_TRY_DONE(st, tl_arena_new(&arena));
    if (!(notes = tl_arena_array(arena, 4 + info->note_count, sizeof *notes))) {
        st = TL_ENOMEM;
        goto done;
    }
    TL_TRY_DONE(st, tl_state_walk(s, draft_entry, &how));
    tl_str_add(&how.entries, how.entries.length ? "]" : "[]");
    TL_TRY_DONE(st, tl_str_status(&how.entries));
    notes[count++] = (tl_safetensors_note){CRC_NOTE, CRC_ZEROS};
    notes[count++] = (tl_safetensors_note){FORMAT_NOTE, version};
    if (info->numerics) notes[count++] = (tl_safetensors_note){NUMERICS_NOTE, info->numerics};
    notes[count++] = (tl_safetensors_note){ENTRIES_NOTE, tl_str_text(&how.entries)};
    TL_TRY_DONE(st, draft_notes(notes + count, arena, info));
    st = tli_st_draft_finish(d, notes, count + info->note_count);
done:
    tl_arena_free(&arena);
    tl_str_deinit(&how.entries);
    return st;
}

static tl_status sum_piece(const void *data, size_t bytes, void *payload)
{
    uint32_t *crc = payload;
    *crc = tl_crc32c(*crc, data, bytes);
    return TL_OK;
}

static tl_status write_piece(const void *data, size_t bytes, void *payload)
{
    return tl_file_writer_write(payload, data, bytes);
}

// The data once for the checksum, which stands before them, and once for the file.
static tl_status pass(const tli_st_draft *d, const void *data, tli_st_sink *sink, void *payload)
{
    return data ? sink(data, d->bytes, payload) : tli_st_draft_data(d, sink, payload);
}

tl_status tli_checkpoint_write(const char *path, tli_st_draft *d, const void *data)
{
    tl_file_writer *w = NULL;
    tl_status st;
    char digits[CRC_DIGITS + 1];
    memcpy(d->header.data + CRC_AT, CRC_ZEROS, CRC_DIGITS);
    uint32_t crc = tl_crc32c(0, d->header.data, d->header.length);
    TL_TRY_DONE(st, pass(d, data, sum_piece, &crc));
    snprintf(digits, sizeof digits, "%08" PRIx32, crc);
    memcpy(d->header.data + CRC_AT, digits, CRC_DIGITS);
    TL_TRY_DONE(st, tl_file_writer_begin(&w, path));
    TL_TRY_DONE(st, tl_file_writer_write(w, d->header.data, d->header.length));
    TL_TRY_DONE(st, pass(d, data, write_piece, w));
    st = tl_file_writer_commit(&w);
done:
    tl_file_writer_abort(&w);
    return st;
}

tl_status tl_checkpoint_save(const char *path, const tl_state *s, const tl_checkpoint_info *info)
{
    tli_st_draft d;
    tl_status st;
    TL_TRY_DONE(st, tli_st_draft_init(&d));
    TL_TRY_DONE(st, tli_checkpoint_draft(&d, s, info));
    st = tli_checkpoint_write(path, &d, NULL);
done:
    tli_st_draft_deinit(&d);
    return st == TL_OK ? TL_OK : tl_error_note(st, "the checkpoint '%s' was not saved", path);
}

/* --- an index --------------------------------------------------------------------------------- */

void tli_checkpoint_index_begin(tl_str *out, const tli_st_draft *d)
{
    static const char first[] = "\"" CRC_NOTE "\":\"" CRC_ZEROS "\""; // of the one file
    tl_str_addf(out, "%s" CRC_ZEROS "\",\n\"metadata\":{\"total_size\":%zu", index_opening,
                d->bytes);
    tl_str_addn(out, d->header.data + d->notes_at + sizeof first - 1,
                d->notes_size - (sizeof first - 1));
    tl_str_add(out, "},");
}

void tli_checkpoint_index_end(tl_str *text)
{
    char digits[CRC_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08" PRIx32, tl_crc32c(0, text->data, text->length));
    memcpy(text->data + INDEX_CRC_AT, digits, CRC_DIGITS);
}

/* --- as one file ------------------------------------------------------------------------------ */

static tl_status redraft_entry(tli_st_draft *d, const tl_safetensors *f,
                               const tl_safetensors_entry *e)
{
    int type = 0;
    while (type < TLI_ST_TYPE_COUNT && strcmp(tli_st_types[type].name, e->type) != 0) type++;
    if (type == TLI_ST_TYPE_COUNT || e->rank > TL_MAX_RANK)
        return TL_FAIL(TL_EUNSUPPORTED, "'%s': entry '%s' is of a type or shape that is not known",
                       tl_safetensors_path(f), e->name);
    const tli_st_item item = {.name = e->name,
                              .type = (tli_st_type)type,
                              .shape = tl_shape_of(e->rank, e->dims),
                              .data = e->data,
                              .pieces = e->pieces,
                              .piece_count = e->piece_count,
                              .bytes = e->bytes};
    return TL_VEC_PUSH(&d->items, item) ? TL_OK : TL_ENOMEM;
}

tl_status tli_checkpoint_redraft(tli_st_draft *d, const tl_safetensors *f)
{
    const int64_t count = tl_safetensors_note_count(f);
    tl_safetensors_note *notes = tl_arena_array(d->arena, count + 1, sizeof *notes);
    int64_t kept = 0;
    if (!notes) return TL_ENOMEM;
    notes[kept++] = (tl_safetensors_note){CRC_NOTE, CRC_ZEROS};
    for (int64_t i = 0; i < count; i++) {
        const tl_safetensors_note *note = tl_safetensors_note_at(f, i);
        if (strcmp(note->key, CRC_NOTE) != 0) notes[kept++] = *note;
    }
    for (int64_t i = 0; i < tl_safetensors_count(f); i++)
        TL_TRY(redraft_entry(d, f, tl_safetensors_at(f, i)));
    return tli_st_draft_finish(d, notes, kept);
}

tl_status tl_checkpoint_merge(const char *to, const char *from)
{
    tl_checkpoint *c = NULL;
    tli_st_draft d;
    tl_status st;
    TL_TRY_DONE(st, tli_st_draft_init(&d));
    TL_TRY_DONE(st, tl_checkpoint_open(&c, from));
    TL_TRY_DONE(st, tli_checkpoint_redraft(&d, c->file));
    st = tli_checkpoint_write(to, &d, NULL);
    if (st != TL_OK) tl_error_note(st, "'%s' was not written", to);
done:
    tli_st_draft_deinit(&d);
    tl_checkpoint_free(&c);
    return st;
}

/* --- the entries of a file -------------------------------------------------------------------- */

#define FAIL_ENTRY(f, path, ...)                                                                   \
    tl_error_note(TL_FAIL(TL_EINVAL, __VA_ARGS__), "'%s': entry '%s'", tl_safetensors_path(f),     \
                  (path))

// A scalar lies in the file as a tensor of one type: of so many bytes, or (0) a row of elements.
static tl_status check_scalar(const tl_safetensors *f, const tl_safetensors_entry *e,
                              const char *kind, tli_st_type type, size_t bytes)
{
    if (strcmp(e->type, tli_st_types[type].name) == 0 && e->rank == (bytes ? 0 : 1)) return TL_OK;
    tl_str spec = TL_STR_INIT;
    tl_safetensors_spec(&spec, e);
    tl_status st = FAIL_ENTRY(f, e->name, "%s is no %s", tl_str_text(&spec), kind);
    tl_str_deinit(&spec);
    return st;
}

static tl_status put_text(tl_state *s, const tl_safetensors *f, const tl_safetensors_entry *e)
{
    TL_TRY(check_scalar(f, e, "text", TLI_ST_U8, 0));
    if (e->bytes && memchr(e->data, '\0', e->bytes))
        return FAIL_ENTRY(f, e->name, "a text has a NUL in it");
    char *text = tl_alloc(e->bytes + 1);
    if (!text) return TL_FAIL_NOMEM(e->bytes + 1);
    if (e->bytes) memcpy(text, e->data, e->bytes);
    text[e->bytes] = '\0';
    tl_status st = tl_state_put_text(s, e->name, text);
    tl_free(text);
    return st;
}

static tl_status put_words(tl_state *s, const tl_safetensors *f, const tl_safetensors_entry *e)
{
    TL_TRY(check_scalar(f, e, "words", TLI_ST_U64, 0));
    uint64_t *words = tl_alloc(e->bytes);
    if (!words) return TL_FAIL_NOMEM(e->bytes);
    if (e->bytes) memcpy(words, e->data, e->bytes);
    tl_status st = tl_state_put_words(s, e->name, words, e->dims[0]);
    tl_free(words);
    return st;
}

static tl_status put_scalar(tl_state *s, const tl_safetensors *f, const tl_safetensors_entry *e,
                            const char *kind)
{
    int64_t i;
    double d;
    if (strcmp(kind, "int") == 0) {
        TL_TRY(check_scalar(f, e, kind, TLI_ST_I64, sizeof i));
        memcpy(&i, e->data, sizeof i);
        return tl_state_put_int(s, e->name, i);
    }
    if (strcmp(kind, "double") == 0) {
        TL_TRY(check_scalar(f, e, kind, TLI_ST_F64, sizeof d));
        memcpy(&d, e->data, sizeof d);
        return tl_state_put_double(s, e->name, d);
    }
    if (strcmp(kind, "bool") == 0) {
        TL_TRY(check_scalar(f, e, kind, TLI_ST_BOOL, 1));
        return tl_state_put_bool(s, e->name, *(const char *)e->data != 0);
    }
    if (strcmp(kind, "text") == 0) return put_text(s, f, e);
    if (strcmp(kind, "words") == 0) return put_words(s, f, e);
    return FAIL_ENTRY(f, e->name, "the kind '%s' is not known", kind);
}

static tl_status put_alias(tl_state *s, tl_map *tensors, const tl_safetensors *f, const char *path,
                           const char *target, bool elements)
{
    tl_state_entry first;
    if (!target || !tl_state_find(&first, s, target) || first.kind != TL_STATE_TENSOR)
        return FAIL_ENTRY(f, path, "it is the same as '%s', which is no tensor before it",
                          target ? target : "");
    if (elements) TL_TRY(tl_state_put(s, path, first.tensor));
    else TL_TRY(tl_state_describe(s, path, first.tensor->dtype, first.tensor->shape));
    return tensors ? tl_map_set(tensors, path, tl_map_get(tensors, target)) : TL_OK;
}

static tl_status put_entry(tl_state *s, tl_map *tensors, const tl_safetensors *f, const json_t *row,
                           tl_engine *engine)
{
    const char *path = json_string_value(json_array_get(row, 0));
    const char *kind = json_string_value(json_array_get(row, 1));
    if (!path || !kind)
        return TL_FAIL(TL_EINVAL, "'%s': its note '" ENTRIES_NOTE "' is no list of paths and kinds",
                       tl_safetensors_path(f));
    if (strcmp(kind, "same") == 0)
        return put_alias(s, tensors, f, path, json_string_value(json_array_get(row, 2)),
                         engine != NULL);
    const tl_safetensors_entry *e = tl_safetensors_find(f, path);
    if (!e) return FAIL_ENTRY(f, path, "it is listed, and not there");
    if (strcmp(kind, "tensor") != 0)
        return e->pieces ? FAIL_ENTRY(f, path, "it is no tensor, and in pieces")
                         : put_scalar(s, f, e, kind);
    TL_TRY(tli_safetensors_put(s, f, e, engine));
    return tensors ? tl_map_set(tensors, path, (void *)(uintptr_t)e) : TL_OK;
}

// Two paths and a kind; lists that are longer would take far more memory than they have letters.
enum { LONGEST_ROW = 1 << 16 };

static tl_status put_listed(tl_state *s, tl_map *tensors, const tl_safetensors *f, const char *list,
                            tl_engine *engine)
{
    tli_json_members m = tli_json_list_members_of(list, strlen(list));
    int64_t stored = 0;
    tl_status st;
    tli_state_distrust(s);
    for (bool more;;) {
        json_t *row;
        TL_TRY_DONE(st, tli_json_members_next(&m, &more));
        if (!more) break;
        if (m.value_size > LONGEST_ROW) {
            st = TL_FAIL(TL_ELIMIT,
                         "a row of %zu bytes in its note '" ENTRIES_NOTE
                         "' is longer than the %d that are accepted",
                         m.value_size, LONGEST_ROW);
            goto done;
        }
        TL_TRY_DONE(st, tli_json_members_value(&m, &row));
        st = put_entry(s, tensors, f, row, engine);
        stored += json_array_size(row) == 2;
        json_decref(row);
        if (st != TL_OK) goto done;
    }
    if (stored != tl_safetensors_count(f))
        st = TL_FAIL(TL_EINVAL, "it has %" PRId64 " entries and lists %" PRId64,
                     tl_safetensors_count(f), stored);
done:
    tli_json_members_end(&m);
    return st;
}

// All entries as a state; `tensors` may be NULL.
static tl_status put_entries(tl_state *s, tl_map *tensors, const tl_safetensors *f,
                             tl_engine *engine)
{
    const char *list = tl_safetensors_note_get(f, ENTRIES_NOTE), *path = tl_safetensors_path(f);
    if (!list || *list != '[')
        return TL_FAIL(TL_EINVAL, "'%s': its note '" ENTRIES_NOTE "' is no list", path);
    tl_status st = put_listed(s, tensors, f, list, engine);
    if (st != TL_OK && st != TL_ENOMEM && !strstr(tl_error_message(), path))
        tl_error_note(st, "'%s'", path);
    return st;
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool begins_as_checkpoint(const tl_file_mapping *m)
{
    return m->size >= CRC_AT + CRC_DIGITS
           && memcmp(m->data + TLI_ST_PREFIX, opening, sizeof opening - 1) == 0;
}

static bool begins_as_index(const char *text, size_t size)
{
    return size >= INDEX_CRC_AT + CRC_DIGITS
           && memcmp(text, index_opening, sizeof index_opening - 1) == 0;
}

// Digits in the one spelling that is written, so that no other bytes are the same number.
static tl_status check_crc(uint32_t *crc, const char *path, const char *data, size_t size,
                           size_t at)
{
    char digits[CRC_DIGITS + 1];
    *crc = tl_crc32c(0, data, at);
    *crc = tl_crc32c(*crc, CRC_ZEROS, CRC_DIGITS);
    *crc = tl_crc32c(*crc, data + at + CRC_DIGITS, size - at - CRC_DIGITS);
    snprintf(digits, sizeof digits, "%08" PRIx32, *crc);
    if (memcmp(digits, data + at, CRC_DIGITS) == 0) return TL_OK;
    return TL_FAIL(
        TL_EINVAL,
        "'%s' is damaged: the checksum of its %zu bytes is %s, and it was written with %.8s", path,
        size, digits, data + at);
}

static tl_status put_weights(tl_checkpoint *c)
{
    c->version = 0;
    TL_TRY(tl_safetensors_load(&c->state, c->file, NULL));
    for (int64_t i = 0; i < tl_safetensors_count(c->file); i++) {
        const tl_safetensors_entry *e = tl_safetensors_at(c->file, i);
        if (e->readable) TL_TRY(tl_map_set(&c->tensors, e->name, (void *)(uintptr_t)e));
    }
    return TL_OK;
}

static tl_status read_checkpoint(tl_checkpoint *c, bool weights)
{
    const char *path = tl_safetensors_path(c->file),
               *version = tl_safetensors_note_get(c->file, FORMAT_NOTE);
    c->version = version ? atoi(version) : 0;
    c->numerics = tl_safetensors_note_get(c->file, NUMERICS_NOTE);
    if (c->version < 1)
        return TL_FAIL(TL_EINVAL,
                       "'%s' is no acceptable checkpoint: its note '" FORMAT_NOTE
                       "' is '%s', no version",
                       path, version ? version : "");
    if (c->version > TL_CHECKPOINT_VERSION && weights) return put_weights(c);
    if (c->version > TL_CHECKPOINT_VERSION)
        return TL_FAIL(
            TL_EUNSUPPORTED,
            "'%s' has version %d of the form of checkpoints, and this program knows them "
            "up to %d; use a newer one, or read its tensors as weights",
            path, c->version, TL_CHECKPOINT_VERSION);
    TL_TRY(tl_state_new(&c->state));
    return put_entries(c->state, &c->tensors, c->file, NULL);
}

static tl_status read_other(tl_checkpoint *c, bool weights, bool *damaged)
{
    const char *path = tl_safetensors_path(c->file);
    size_t stem;
    if (weights) return put_weights(c);
    bool ours = tl_safetensors_note_get(c->file, CRC_NOTE) != NULL;
    *damaged = true;
    if (tli_checkpoint_is_piece(path, &stem))
        return TL_FAIL(TL_EINVAL,
                       "'%s' is no checkpoint, but one of several files of one: name "
                       "'%.*s" TL_SAFETENSORS_INDEX "'",
                       path, (int)stem, path);
    return TL_FAIL(
        TL_EINVAL,
        "'%s' is no checkpoint but a safetensors file %s: its tensors can be read as weights, and "
        "nothing can be resumed from it",
        path, ours ? "that another program rewrote" : "without the notes of one");
}

// One file.
static tl_status open_file(tl_checkpoint *c, const char *path, bool *ours, bool *damaged)
{
    tl_file_mapping mapping;
    TL_TRY(tl_file_map(&mapping, path));
    *ours = begins_as_checkpoint(&mapping);
    tl_status st = *ours ? check_crc(&c->crc, path, mapping.data, mapping.size, CRC_AT) : TL_OK;
    if (st != TL_OK) {
        *damaged = true;
        tl_file_unmap(&mapping);
        return st;
    }
    st = tli_safetensors_open(&c->file, path, &mapping);
    if (st != TL_OK) *damaged = !*ours && st != TL_ENOMEM; // with its checksum right it is intact
    return st;
}

// Several that an index names.
static tl_status open_index(tl_checkpoint *c, const char *path, bool *ours, bool *damaged)
{
    const tli_st_index_args args = {.verify = true, .damaged = damaged};
    char *text;
    size_t size;
    TL_TRY(tl_file_read(&text, &size, path, TLI_ST_LONGEST_HEADER));
    *ours = begins_as_index(text, size);
    tl_status st = *ours ? check_crc(&c->crc, path, text, size, INDEX_CRC_AT) : TL_OK;
    *damaged = st != TL_OK;
    if (st == TL_OK) st = tli_safetensors_open_index(&c->file, path, text, size, &args);
    if (st != TL_OK && !*ours) *damaged = st != TL_ENOMEM;
    if (*damaged && st == TL_ENOTFOUND) st = TL_EINVAL; // the checkpoint is there, not all of it
    tl_free(text);
    return st;
}

tl_status tli_checkpoint_open(tl_checkpoint **out, const char *path, bool weights, bool *damaged)
{
    bool ours = false;
    *out = NULL;
    *damaged = false;
    tl_checkpoint *c = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    tl_status st = tli_safetensors_is_index(path) ? open_index(c, path, &ours, damaged)
                                                  : open_file(c, path, &ours, damaged);
    if (st == TL_OK) st = ours ? read_checkpoint(c, weights) : read_other(c, weights, damaged);
    if (st == TL_OK) *out = c;
    else tl_checkpoint_free(&c);
    return st;
}

tl_status tl_checkpoint_open(tl_checkpoint **out, const char *path)
{
    bool damaged;
    return tli_checkpoint_open(out, path, false, &damaged);
}

void tl_checkpoint_free(tl_checkpoint **c)
{
    if (!*c) return;
    tl_map_deinit(&(*c)->tensors);
    tl_state_free(&(*c)->state);
    tl_safetensors_free(&(*c)->file);
    tl_free(*c);
    *c = NULL;
}

const tl_state *tl_checkpoint_state(const tl_checkpoint *c)
{
    return c->state;
}

const tl_safetensors_entry *tl_checkpoint_find(const tl_checkpoint *c, const char *path)
{
    return tl_map_get(&c->tensors, path);
}

const tl_safetensors *tl_checkpoint_file(const tl_checkpoint *c)
{
    return c->file;
}

int tl_checkpoint_version(const tl_checkpoint *c)
{
    return c->version;
}

const char *tl_checkpoint_note(const tl_checkpoint *c, const char *name)
{
    for (int64_t i = 0; i < tl_safetensors_note_count(c->file); i++) {
        const tl_safetensors_note *note = tl_safetensors_note_at(c->file, i);
        if (strncmp(note->key, GIVEN_NOTE, sizeof GIVEN_NOTE - 1) == 0
            && strcmp(note->key + sizeof GIVEN_NOTE - 1, name) == 0)
            return note->value;
    }
    return NULL;
}

const char *tl_checkpoint_numerics(const tl_checkpoint *c)
{
    return c->numerics;
}

uint32_t tl_checkpoint_crc(const tl_checkpoint *c)
{
    return c->crc;
}

tl_status tl_checkpoint_read(tl_state **out, const char *path, tl_engine *engine)
{
    tl_checkpoint *c;
    tl_state *s = NULL;
    tl_status st;
    *out = NULL;
    TL_TRY(tl_checkpoint_open(&c, path));
    TL_TRY_DONE(st, tl_state_new(&s));
    TL_TRY_DONE(st, put_entries(s, NULL, c->file, engine));
    *out = s;
    s = NULL;
done:
    tl_state_free(&s);
    tl_checkpoint_free(&c);
    return st;
}
