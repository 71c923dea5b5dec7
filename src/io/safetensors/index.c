/* Several files that an index names, opened as one.
 *
 *     {"metadata": {"total_size": 4096, "a note": "its text"},
 *      "weight_map": {"kernel": "m.00001-of-00002.safetensors"},
 *      "files": {"m.00001-of-00002.safetensors": {"bytes": 2200, "crc32c": "0badcafe"}},
 *      "pieces": {"table": [{"file": "m.00001-of-00002.safetensors", "start": 0, "shape": [512],
 *                            "global_shape": [32, 32]}, ...]}}
 *
 * The first two are Hugging Face's; the others, which its readers pass over, only a checkpoint has.
 * A piece is an entry of its file called "table[0:512]", a row of elements. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/vec.h>

#include "io/json/members.h"
#include "io/safetensors/impl.h"

enum { MOST_FILES = 4096, LONGEST_VALUE = 1 << 16 };

typedef struct file {
    const char *name;
    bool told; /* the index says how it was written */
    int64_t bytes;
    uint32_t crc;
    tl_safetensors *part; /* when it is open */
    bool *taken;          /* by entry of the part: it is a piece of another */
} file;

typedef struct placed {
    const char *name;
    int64_t file;
} placed;

typedef struct piece {
    int64_t file, start, count;
    const tl_safetensors_entry *entry; /* when its file is open */
} piece;

typedef struct divided {
    const char *name;
    int rank;
    const int64_t *dims;
    piece *items;
    int64_t count, capacity;
} divided;

typedef struct reading {
    tl_safetensors *f;
    const tli_st_index_args *args;
    const char *folder;
    struct {
        file *items;
        int64_t count, capacity;
    } files;
    tl_map by_file; /* to the index in files, plus 1 */
    struct {
        placed *items;
        int64_t count, capacity;
    } placed;
    struct {
        divided *items;
        int64_t count, capacity;
    } divided;
    bool told; /* "files" is there: each file must be in it */
} reading;

#define FAIL(r, ...) tl_error_note(TL_FAIL(TL_EINVAL, __VA_ARGS__), "'%s'", (r)->f->path)

bool tli_safetensors_is_index(const char *path)
{
    size_t length = strlen(path), tail = strlen(TL_SAFETENSORS_INDEX);
    return length >= tail && strcmp(path + length - tail, TL_SAFETENSORS_INDEX) == 0;
}

const char *tli_st_piece_name(tl_arena *arena, const char *path, int64_t start, int64_t count)
{
    return tl_arena_printf(arena, "%s[%" PRId64 ":%" PRId64 "]", path, start, start + count);
}

/* --- members of an object --------------------------------------------------------------------- */

/* Calls `fn` for each member of an object, or each element of a list. */
typedef tl_status member_fn(reading *r, const char *key, const tli_json_members *m, void *payload);

static tl_status each(reading *r, tli_json_members m, member_fn *fn, void *payload)
{
    tl_map seen = TL_MAP_INIT;
    tl_status st;
    for (bool more;;) {
        TL_TRY_DONE(st, tli_json_members_next(&m, &more));
        if (!more) break;
        const char *key = m.key ? json_string_value(m.key) : NULL;
        if (key && tl_map_has(&seen, key)) {
            st = TL_FAIL(TL_EINVAL, "duplicate object key near '%.200s'", key);
            goto done;
        }
        if (key) TL_TRY_DONE(st, tl_map_set(&seen, key, NULL));
        TL_TRY_DONE(st, fn(r, key, &m, payload));
    }
done:
    tli_json_members_end(&m);
    tl_map_deinit(&seen);
    return st;
}

static tl_status each_member(reading *r, const char *what, const tli_json_members *m, member_fn *fn,
                             void *payload)
{
    if (tli_json_members_first(m) != '{') return FAIL(r, "\"%s\" is no object", what);
    return each(r, tli_json_members_of(m->value, m->value_size), fn, payload);
}

/* A value that should be small. */
static tl_status small_value(json_t **out, reading *r, const char *what, const tli_json_members *m)
{
    if (m->value_size > LONGEST_VALUE)
        return FAIL(r, "a value of %zu bytes in \"%s\" is longer than the %d that are accepted",
                    m->value_size, what, LONGEST_VALUE);
    return tli_json_members_value(m, out);
}

/* --- what the index says ---------------------------------------------------------------------- */

static tl_status check_name(const reading *r, const char *where, const char *name)
{
    static const char suffix[] = ".safetensors";
    const size_t length = name ? strlen(name) : 0, tail = sizeof suffix - 1;
    if (!length) return FAIL(r, "%s: expected names of files behind the names of weights", where);
    if (!tl_path_stays_inside(name) || strchr(name, '/'))
        return FAIL(r, "%s: '%.200s' is not the name of a file beside it", where, name);
    if (length > tail && strcmp(name + length - tail, suffix) == 0) return TL_OK;
    return tl_error_note(
        TL_FAIL(TL_EUNSUPPORTED, "%s: '%.200s' is no file of safetensors", where, name), "'%s'",
        r->f->path);
}

/* The number of a file, which is new when it was not named before. */
static tl_status find_file(int64_t *out, reading *r, const char *where, const char *name)
{
    TL_TRY(check_name(r, where, name));
    *out = (int64_t)(intptr_t)tl_map_get(&r->by_file, name) - 1;
    if (*out >= 0) return TL_OK;
    if (r->files.count == MOST_FILES)
        return TL_FAIL(TL_ELIMIT, "'%s' names more than %d files", r->f->path, MOST_FILES);
    file next = {.name = tl_arena_strdup(r->f->arena, name)};
    if (!next.name || !TL_VEC_PUSH(&r->files, next)) return TL_ENOMEM;
    *out = r->files.count - 1;
    return tl_map_set(&r->by_file, name, (void *)(intptr_t)r->files.count);
}

static tl_status read_note(reading *r, const char *key, const tli_json_members *m, void *payload)
{
    json_t *value;
    (void)payload;
    if (tli_json_members_first(m) != '"') return TL_OK; // sizes and the like
    TL_TRY(tli_json_members_value(m, &value));
    tl_safetensors_note note = {tl_arena_strdup(r->f->arena, key),
                                tl_arena_strdup(r->f->arena, json_string_value(value))};
    json_decref(value);
    return note.key && note.value && TL_VEC_PUSH(&r->f->notes, note) ? TL_OK : TL_ENOMEM;
}

static tl_status read_place(reading *r, const char *key, const tli_json_members *m, void *payload)
{
    json_t *value;
    placed p = {.name = tl_arena_strdup(r->f->arena, key)};
    (void)payload;
    if (!p.name) return TL_ENOMEM;
    TL_TRY(small_value(&value, r, "weight_map", m));
    tl_status st = find_file(&p.file, r, "weight_map", json_string_value(value));
    json_decref(value);
    TL_TRY(st);
    return TL_VEC_PUSH(&r->placed, p) ? TL_OK : TL_ENOMEM;
}

static tl_status read_file(reading *r, const char *key, const tli_json_members *m, void *payload)
{
    json_t *value;
    int64_t index;
    char *end = NULL;
    (void)payload;
    TL_TRY(find_file(&index, r, "files", key));
    TL_TRY(small_value(&value, r, "files", m));
    file *f = &r->files.items[index];
    const json_t *bytes = json_object_get(value, "bytes");
    const char *crc = json_string_value(json_object_get(value, "crc32c"));
    f->told = json_is_integer(bytes) && json_integer_value(bytes) >= 0 && crc
              && strspn(crc, "0123456789abcdef") == 8 && !crc[8];
    if (f->told) f->bytes = json_integer_value(bytes);
    if (f->told) f->crc = (uint32_t)strtoul(crc, &end, 16);
    json_decref(value);
    return f->told ? TL_OK
                   : FAIL(r, "files: '%.200s' has no \"bytes\" and \"crc32c\" of 8 digits", key);
}

/* Reads a list of numbers from 0 on into the arena; NULL dims: it is none. */
static tl_status read_numbers(int *rank, const int64_t **dims, reading *r, const json_t *list)
{
    const size_t count = json_array_size(list);
    int64_t *numbers = tl_arena_array(r->f->arena, (int64_t)count + 1, sizeof *numbers);
    *dims = NULL;
    *rank = (int)count;
    if (!numbers) return TL_ENOMEM;
    if (!json_is_array(list)) return TL_OK;
    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_array_get(list, i);
        if (!json_is_integer(number) || json_integer_value(number) < 0) return TL_OK;
        numbers[i] = json_integer_value(number);
    }
    *dims = numbers;
    return TL_OK;
}

static bool same_dims(const divided *d, int rank, const int64_t *dims)
{
    return d->rank == rank && memcmp(d->dims, dims, (size_t)rank * sizeof *dims) == 0;
}

static tl_status read_piece_of(divided *d, reading *r, const json_t *value)
{
    const json_t *start = json_object_get(value, "start");
    const int64_t *shape, *dims;
    int rank, whole;
    piece p = {0};
    TL_TRY(find_file(&p.file, r, "pieces", json_string_value(json_object_get(value, "file"))));
    TL_TRY(read_numbers(&rank, &shape, r, json_object_get(value, "shape")));
    TL_TRY(read_numbers(&whole, &dims, r, json_object_get(value, "global_shape")));
    if (!json_is_integer(start) || json_integer_value(start) < 0 || !shape || rank != 1
        || shape[0] < 1 || !dims || whole > TL_MAX_RANK)
        return FAIL(r,
                    "pieces: one of '%.200s' has no \"start\" (a number from 0 on), \"shape\" (a "
                    "list of one number from 1 on) and \"global_shape\"",
                    d->name);
    p.start = json_integer_value(start);
    p.count = shape[0];
    if (!d->dims) d->rank = whole;
    if (!d->dims) d->dims = dims;
    if (!same_dims(d, whole, dims))
        return FAIL(r, "pieces: those of '%.200s' do not agree on its global_shape", d->name);
    return TL_VEC_PUSH(d, p) ? TL_OK : TL_ENOMEM;
}

static tl_status read_piece(reading *r, const char *key, const tli_json_members *m, void *payload)
{
    json_t *value;
    (void)key;
    TL_TRY(small_value(&value, r, "pieces", m));
    tl_status st = read_piece_of(payload, r, value);
    json_decref(value);
    return st;
}

static tl_status read_divided(reading *r, const char *key, const tli_json_members *m, void *payload)
{
    divided d = {.name = tl_arena_strdup(r->f->arena, key)};
    (void)payload;
    if (!d.name) return TL_ENOMEM;
    if (tli_json_members_first(m) != '[')
        return FAIL(r, "pieces: those of '%.200s' are no list", key);
    if (!TL_VEC_PUSH(&r->divided, d)) return TL_ENOMEM;
    divided *last = &r->divided.items[r->divided.count - 1];
    TL_TRY(each(r, tli_json_list_members_of(m->value, m->value_size), read_piece, last));
    return last->count ? TL_OK : FAIL(r, "pieces: '%.200s' has none", key);
}

static tl_status read_member(reading *r, const char *key, const tli_json_members *m, void *payload)
{
    bool *mapped = payload;
    if (strcmp(key, "metadata") == 0) return each_member(r, key, m, read_note, NULL);
    if (strcmp(key, "pieces") == 0) return each_member(r, key, m, read_divided, NULL);
    if (strcmp(key, "weight_map") == 0 && tli_json_members_first(m) == '{') {
        *mapped = true;
        return each_member(r, key, m, read_place, NULL);
    }
    if (strcmp(key, "files") != 0) return TL_OK;
    r->told = true;
    return each_member(r, key, m, read_file, NULL);
}

static tl_status read_text(reading *r, const char *text, size_t size)
{
    bool mapped = false;
    tl_status st = each(r, tli_json_members_of(text, size), read_member, &mapped);
    if (st == TL_EINVAL && !strstr(tl_error_message(), r->f->path))
        tl_error_note(st, "'%s' is no acceptable index", r->f->path);
    TL_TRY(st);
    if (!mapped) return FAIL(r, "expected an object with a \"weight_map\"");
    for (int64_t i = 0; r->told && i < r->files.count; i++)
        if (!r->files.items[i].told)
            return FAIL(r, "'%.200s' is not among its \"files\"", r->files.items[i].name);
    return TL_OK;
}

/* --- the files -------------------------------------------------------------------------------- */

static tl_status map_beside(tl_file_mapping *out, const char *name, void *payload)
{
    const reading *r = payload;
    const char *path = tl_path_join(r->f->arena, r->folder, name);
    return path ? tl_file_map(out, path) : TL_ENOMEM;
}

static tl_status check_file(const reading *r, const file *f, const tl_file_mapping *m)
{
    if (f->told && m->size != (size_t)f->bytes)
        return TL_FAIL(TL_EINVAL,
                       "'%s' is damaged: its file '%s' has %zu bytes, and was written with "
                       "%" PRId64,
                       r->f->path, f->name, m->size, f->bytes);
    const uint32_t crc = f->told && r->args->verify ? tl_crc32c(0, m->data, m->size) : f->crc;
    if (crc == f->crc) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "'%s' is damaged: the checksum of its file '%s' is %08" PRIx32
                   ", and it was written with %08" PRIx32,
                   r->f->path, f->name, crc, f->crc);
}

static tl_status open_file(reading *r, file *f)
{
    tl_file_mapping m;
    const char *path = tl_path_join(r->f->arena, r->folder, f->name);
    if (!path) return TL_ENOMEM;
    tl_status st =
        r->args->map ? r->args->map(&m, f->name, r->args->payload) : map_beside(&m, f->name, r);
    if (st != TL_OK) {
        if (r->args->damaged) *r->args->damaged = st == TL_ENOTFOUND;
        return tl_error_note(st, "'%s' lacks a file that it names", r->f->path);
    }
    st = check_file(r, f, &m);
    if (st != TL_OK) {
        if (r->args->damaged) *r->args->damaged = true;
        tl_file_unmap(&m);
        return st;
    }
    TL_TRY_NOTE(tli_safetensors_open(&f->part, path, &m), "'%s'", r->f->path);
    if (!TL_VEC_PUSH(&r->f->parts, f->part)) {
        tl_safetensors_free(&f->part);
        return TL_ENOMEM;
    }
    f->taken = tl_arena_array(r->f->arena, f->part->entries.count + 1, sizeof *f->taken);
    return f->taken ? TL_OK : TL_ENOMEM;
}

/* --- entries ---------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Takes the entry of a piece out of those of its file. */
static tl_status take_piece(reading *r, const divided *d, piece *p)
{
    file *f = &r->files.items[p->file];
    const char *name = tli_st_piece_name(r->f->arena, d->name, p->start, p->count);
    if (!name) return TL_ENOMEM;
    p->entry = tl_safetensors_find(f->part, name);
    if (!p->entry)
        return FAIL(r, "pieces: '%.200s' is said to lie in '%s', and does not", name, f->name);
    if (!p->entry->readable || p->entry->rank != 1 || p->entry->dims[0] != p->count)
        return FAIL(r, "pieces: '%.200s' in '%s' has not the shape of that piece", name, f->name);
    f->taken[p->entry - f->part->entries.items] = true;
    return TL_OK;
}

/* From the first element to the last, each once. */
static tl_status check_pieces(reading *r, const divided *d, int64_t *count)
{
    int64_t at = 0;
    *count = 1;
    for (int i = 0; i < d->rank; i++)
        if (__builtin_mul_overflow(*count, d->dims[i], count))
            return FAIL(r, "pieces: '%.200s' has too many elements", d->name);
    for (int64_t i = 0; i < d->count; i++) {
        const piece *p = &d->items[i];
        if (p->start < at)
            return FAIL(r, "pieces: two of '%.200s' overlap at element %" PRId64, d->name,
                        p->start);
        if (p->start > at || p->count > *count - p->start)
            return FAIL(r, "pieces: those of '%.200s' %s %" PRId64, d->name,
                        p->start > at ? "lack element" : "reach beyond element",
                        p->start > at ? at : *count - 1);
        at = p->start + p->count;
        if (strcmp(p->entry->type, d->items[0].entry->type) != 0)
            return FAIL(r, "pieces: those of '%.200s' are of several types", d->name);
    }
    return at == *count ? TL_OK
                        : FAIL(r, "pieces: those of '%.200s' lack element %" PRId64, d->name, at);
}

static tl_status add_divided(reading *r, divided *d)
{
    int64_t count = 0;
    tl_safetensors_piece *pieces = tl_arena_array(r->f->arena, d->count, sizeof *pieces);
    if (!pieces) return TL_ENOMEM;
    for (int64_t i = 0; i < d->count; i++) TL_TRY(take_piece(r, d, &d->items[i]));
    qsort(d->items, (size_t)d->count, sizeof *d->items, by_start);
    TL_TRY(check_pieces(r, d, &count));
    const tl_safetensors_entry *first = d->items[0].entry;
    for (int64_t i = 0; i < d->count; i++)
        pieces[i] =
            (tl_safetensors_piece){d->items[i].start, d->items[i].count, d->items[i].entry->data};
    const tl_shape shape = tl_shape_of(d->rank, d->dims);
    TL_TRY_NOTE(tl_shape_check(&shape, "its shape"), "'%s': pieces: '%.200s'", r->f->path, d->name);
    tl_safetensors_entry whole = {.name = d->name,
                                  .type = first->type,
                                  .readable = true,
                                  .dtype = first->dtype,
                                  .rank = d->rank,
                                  .dims = d->dims,
                                  .bytes = (size_t)count * tl_dtype_size(first->dtype),
                                  .pieces = pieces,
                                  .piece_count = d->count};
    return TL_VEC_PUSH(&r->f->entries, whole) ? TL_OK : TL_ENOMEM;
}

static tl_status add_whole(reading *r, const file *f)
{
    for (int64_t i = 0; i < f->part->entries.count; i++)
        if (!f->taken[i] && !TL_VEC_PUSH(&r->f->entries, f->part->entries.items[i]))
            return TL_ENOMEM;
    return TL_OK;
}

static tl_status name_entries(reading *r)
{
    tl_safetensors *f = r->f;
    for (int64_t i = 0; i < f->entries.count; i++) {
        tl_safetensors_entry *e = &f->entries.items[i];
        if (tl_map_has(&f->by_name, e->name))
            return FAIL(r, "it has '%.200s' twice in its files", e->name);
        TL_TRY(tl_map_set(&f->by_name, e->name, e));
    }
    for (int64_t i = 0; i < r->placed.count; i++) {
        const placed *p = &r->placed.items[i];
        const file *in = &r->files.items[p->file];
        const tl_safetensors_entry *e = tl_safetensors_find(in->part, p->name);
        if (!e || in->taken[e - in->part->entries.items])
            return FAIL(r, "'%.200s' is said to lie in '%.200s', and does not", p->name, in->name);
    }
    return TL_OK;
}

static tl_status read_all(reading *r, const char *text, size_t size)
{
    TL_TRY(read_text(r, text, size));
    for (int64_t i = 0; i < r->files.count; i++) TL_TRY(open_file(r, &r->files.items[i]));
    for (int64_t i = 0; i < r->divided.count; i++) TL_TRY(add_divided(r, &r->divided.items[i]));
    for (int64_t i = 0; i < r->files.count; i++) TL_TRY(add_whole(r, &r->files.items[i]));
    return name_entries(r);
}

tl_status tli_safetensors_open_index(tl_safetensors **out, const char *path, const char *text,
                                     size_t size, const tli_st_index_args *args)
{
    static const tli_st_index_args plain;
    reading r = {.f = tl_alloc_zero(sizeof *r.f), .args = args ? args : &plain};
    tl_status st;
    *out = NULL;
    if (!r.f) return TL_FAIL_NOMEM(sizeof *r.f);
    r.f->path = tl_strdup(path);
    TL_TRY_DONE(st, r.f->path ? tl_arena_new(&r.f->arena) : TL_FAIL_NOMEM(strlen(path) + 1));
    r.folder = tl_path_dirname(r.f->arena, path);
    TL_TRY_DONE(st, r.folder ? read_all(&r, text, size) : TL_ENOMEM);
    *out = r.f;
    r.f = NULL;
done:
    tl_safetensors_free(&r.f);
    for (int64_t i = 0; i < r.divided.count; i++) TL_VEC_FREE(&r.divided.items[i]);
    TL_VEC_FREE(&r.divided);
    TL_VEC_FREE(&r.placed);
    TL_VEC_FREE(&r.files);
    tl_map_deinit(&r.by_file);
    return st;
}
