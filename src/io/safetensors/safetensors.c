#include "io/safetensors/impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/vec.h>

#include "core/inner/element.h"
#include "core/inner/state.h"
#include "io/json/members.h"

const tli_st_type_row tli_st_types[TLI_ST_TYPE_COUNT] = {
#define TYPE_ROW(name, bits, dtype) {#name, bits, (int)(dtype)},
    TLI_ST_TYPES(TYPE_ROW)
#undef TYPE_ROW
};

tli_st_type tli_st_type_of(tl_dtype dtype)
{
    int type = 0;
    while (tli_st_types[type].dtype != (int)dtype) type++;
    return (tli_st_type)type;
}

static const tli_st_type_row *type_named(const char *name)
{
    for (int i = 0; i < TLI_ST_TYPE_COUNT; i++)
        if (strcmp(tli_st_types[i].name, name) == 0) return &tli_st_types[i];
    return NULL;
}

/* --- one entry of the header ------------------------------------------------------------------ */

#define FAIL_ENTRY(f, name, ...)                                                                   \
    tl_error_note(TL_FAIL(TL_EINVAL, __VA_ARGS__), "'%s': entry '%s'", (f)->path, (name))

static tl_status read_shape(tl_safetensors *f, tl_safetensors_entry *e, const json_t *shape)
{
    if (!json_is_array(shape))
        return FAIL_ENTRY(f, e->name, "it has no \"shape\", a list of numbers");
    size_t rank = json_array_size(shape);
    int64_t *dims = tl_arena_array(f->arena, (int64_t)rank, sizeof *dims);
    if (!dims) return TL_ENOMEM;
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return FAIL_ENTRY(f, e->name, "dimension %zu of its shape is no number from 0 on", i);
        dims[i] = json_integer_value(dim);
    }
    e->rank = (int)rank; // a header has fewer bytes than an int can count
    e->dims = dims;
    return TL_OK;
}

// Elements, and whether a tensor may have this shape.
static tl_status count_elements(const tl_safetensors *f, const tl_safetensors_entry *e,
                                int64_t *count, bool *acceptable)
{
    int64_t bytes = 8; // as tl_shape_check counts
    *count = 1;
    *acceptable = e->rank <= TL_MAX_RANK;
    for (int i = 0; i < e->rank; i++) {
        if (__builtin_mul_overflow(*count, e->dims[i], count))
            return FAIL_ENTRY(f, e->name, "its shape has too many elements");
        if (__builtin_mul_overflow(bytes, e->dims[i] > 0 ? e->dims[i] : 1, &bytes))
            *acceptable = false;
    }
    return TL_OK;
}

static tl_status read_offsets(tl_safetensors *f, tl_safetensors_entry *e, const json_t *offsets)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return FAIL_ENTRY(f, e->name, "it has no \"data_offsets\", a list of two numbers");
    json_int_t from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || to < from || (uint64_t)to > f->bytes)
        return FAIL_ENTRY(f, e->name,
                          "its data_offsets [%" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT
                          "] do not lie in the file's %zu bytes of data",
                          from, to, f->bytes);
    e->data = f->data + from;
    e->bytes = (size_t)(to - from);
    return TL_OK;
}

static tl_status fail_size(const tl_safetensors *f, const tl_safetensors_entry *e, int64_t bits)
{
    tl_str spec = TL_STR_INIT;
    tl_status st;
    tl_safetensors_spec(&spec, e);
    if (bits % 8 != 0)
        st = FAIL_ENTRY(f, e->name, "%s does not fill whole bytes", tl_str_text(&spec));
    else
        st = FAIL_ENTRY(f, e->name,
                        "%s needs %" PRId64 " bytes of data, and data_offsets give it %zu",
                        tl_str_text(&spec), bits / 8, e->bytes);
    tl_str_deinit(&spec);
    return st;
}

static tl_status check_size(const tl_safetensors *f, tl_safetensors_entry *e)
{
    const tli_st_type_row *type = type_named(e->type);
    int64_t count, bits;
    bool acceptable;
    TL_TRY(count_elements(f, e, &count, &acceptable));
    if (!type) return TL_OK; // newer than this list: its size cannot be checked
    if (__builtin_mul_overflow(count, type->bits, &bits))
        return FAIL_ENTRY(f, e->name, "its shape has too many elements");
    if (bits % 8 != 0 || (uint64_t)bits / 8 != e->bytes) return fail_size(f, e, bits);
    e->readable = type->dtype >= 0 && acceptable;
    if (e->readable) e->dtype = (tl_dtype)type->dtype;
    return TL_OK;
}

// Lists of thousands of dimensions are no shapes, and would take far more memory than they have
// letters.
enum { LONGEST_ENTRY = 1 << 16 };

static tl_status describe_entry(tl_safetensors *f, tl_safetensors_entry *e, const json_t *json)
{
    if (!json_is_object(json))
        return FAIL_ENTRY(f, e->name, "it is no object with dtype, shape and data_offsets");
    const char *type = json_string_value(json_object_get(json, "dtype"));
    if (!type) return FAIL_ENTRY(f, e->name, "it has no \"dtype\", a text");
    e->type = tl_arena_strdup(f->arena, type);
    if (!e->type) return TL_ENOMEM;
    TL_TRY(read_shape(f, e, json_object_get(json, "shape")));
    TL_TRY(read_offsets(f, e, json_object_get(json, "data_offsets")));
    return check_size(f, e);
}

static tl_status read_entry(tl_safetensors *f, const tli_json_members *m)
{
    tl_safetensors_entry e = {.name = tl_arena_strdup(f->arena, json_string_value(m->key))};
    json_t *json;
    if (!e.name) return TL_ENOMEM;
    if (m->value_size > LONGEST_ENTRY)
        return FAIL_ENTRY(f, e.name,
                          "its description of %zu bytes is longer than the %d that are accepted",
                          m->value_size, LONGEST_ENTRY);
    TL_TRY(tli_json_members_value(m, &json));
    tl_status st = describe_entry(f, &e, json);
    json_decref(json);
    if (st != TL_OK) return st;
    return TL_VEC_PUSH(&f->entries, e) ? TL_OK : TL_ENOMEM;
}

static tl_status add_note(tl_safetensors *f, const tli_json_members *m)
{
    const char *key = json_string_value(m->key);
    json_t *value;
    TL_TRY(tli_json_members_value(m, &value));
    const char *text = json_string_value(value);
    tl_safetensors_note note = {
        .key = tl_arena_strdup(f->arena, key),
        .value = text ? tl_arena_strdup(f->arena, text) : NULL,
    };
    tl_status st = TL_OK;
    if (!text) st = FAIL_ENTRY(f, "__metadata__", "the value of '%s' is no text", key);
    else if (!note.key || !note.value || !TL_VEC_PUSH(&f->notes, note)) st = TL_ENOMEM;
    json_decref(value);
    return st;
}

static tl_status read_notes(tl_safetensors *f, const tli_json_members *notes)
{
    tli_json_members m = tli_json_members_of(notes->value, notes->value_size);
    tl_map seen = TL_MAP_INIT;
    tl_status st;
    if (tli_json_members_first(notes) != '{')
        return FAIL_ENTRY(f, "__metadata__", "it is no object of texts");
    for (bool more;;) {
        TL_TRY_DONE(st, tli_json_members_next(&m, &more));
        if (!more) break;
        const char *key = json_string_value(m.key);
        if (tl_map_has(&seen, key)) st = TL_FAIL(TL_EINVAL, "duplicate object key near '%s'", key);
        if (st == TL_OK) st = add_note(f, &m);
        if (st == TL_OK) st = tl_map_set(&seen, key, NULL);
        if (st != TL_OK) goto done;
    }
done:
    tli_json_members_end(&m);
    tl_map_deinit(&seen);
    return st;
}

/* --- the whole header ------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const tl_safetensors_entry *x = *(const tl_safetensors_entry *const *)a;
    const tl_safetensors_entry *y = *(const tl_safetensors_entry *const *)b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; // empty ones first
    return strcmp(x->name, y->name);
}

// The data follow one another from the first byte to the last.
static tl_status check_coverage(const tl_safetensors *f)
{
    tl_status st = TL_OK;
    size_t bytes = (size_t)f->entries.count * sizeof(void *);
    const tl_safetensors_entry **sorted = tl_alloc(bytes);
    if (!sorted) return TL_FAIL_NOMEM(bytes);
    for (int64_t i = 0; i < f->entries.count; i++) sorted[i] = &f->entries.items[i];
    if (f->entries.count) qsort(sorted, (size_t)f->entries.count, sizeof *sorted, by_place);
    const char *at = f->data;
    for (int64_t i = 0; i < f->entries.count && st == TL_OK; i++) {
        const tl_safetensors_entry *e = sorted[i];
        const char *begin = e->data;
        if (begin < at)
            st = FAIL_ENTRY(f, e->name, "its data overlap those of '%s'", sorted[i - 1]->name);
        else if (begin > at)
            st = FAIL_ENTRY(f, e->name, "%zu bytes before its data belong to nothing",
                            (size_t)(begin - at));
        at = begin + e->bytes;
    }
    if (st == TL_OK && at != f->data + f->bytes)
        st = TL_FAIL(TL_EINVAL, "'%s': %zu bytes at its end belong to no entry", f->path,
                     (size_t)(f->data + f->bytes - at));
    tl_free(sorted);
    return st;
}

static tl_status find_header(tl_safetensors *f, size_t *size)
{
    const tl_file_mapping *m = &f->mapping;
    uint64_t length = 0;
    if (m->size < TLI_ST_PREFIX)
        return TL_FAIL(TL_EINVAL, "'%s' is no safetensors file: it has %zu bytes only", f->path,
                       m->size);
    for (int i = TLI_ST_PREFIX - 1; i >= 0; i--) length = length << 8 | (unsigned char)m->data[i];
    if (length > TLI_ST_LONGEST_HEADER)
        return TL_FAIL(TL_ELIMIT,
                       "'%s' is no safetensors file: a header of %" PRIu64
                       " bytes is longer than the %" PRIu64 " that are accepted",
                       f->path, length, TLI_ST_LONGEST_HEADER);
    if (length > m->size - TLI_ST_PREFIX)
        return TL_FAIL(TL_EINVAL,
                       "'%s' is cut short, or no safetensors file: its header should have %" PRIu64
                       " bytes, and %zu are there",
                       f->path, length, m->size - TLI_ST_PREFIX);
    if (length == 0 || m->data[TLI_ST_PREFIX] != '{')
        return TL_FAIL(TL_EINVAL, "'%s' is no safetensors file: its header does not begin with '{'",
                       f->path);
    *size = (size_t)length;
    f->data = m->data + TLI_ST_PREFIX + *size;
    f->bytes = m->size - TLI_ST_PREFIX - *size;
    return TL_OK;
}

static tl_status read_members(tl_safetensors *f, tli_json_members *m)
{
    bool noted = false;
    for (bool more;;) {
        TL_TRY(tli_json_members_next(m, &more));
        if (!more) return TL_OK;
        bool notes = strcmp(json_string_value(m->key), "__metadata__") == 0;
        if (notes && noted) return TL_FAIL(TL_EINVAL, "duplicate object key near '__metadata__'");
        noted |= notes;
        TL_TRY(notes ? read_notes(f, m) : read_entry(f, m));
    }
}

static tl_status index_names(tl_safetensors *f)
{
    for (int64_t i = 0; i < f->entries.count; i++) {
        tl_safetensors_entry *e = &f->entries.items[i];
        if (tl_map_has(&f->by_name, e->name))
            return TL_FAIL(TL_EINVAL, "duplicate object key near '%s'", e->name);
        TL_TRY(tl_map_set(&f->by_name, e->name, e));
    }
    return TL_OK;
}

// From a copy: the file may change while it is read.
static tl_status read_header(tl_safetensors *f)
{
    size_t size = 0;
    TL_TRY(find_header(f, &size));
    char *header = tl_alloc(size);
    if (!header) return TL_FAIL_NOMEM(size);
    memcpy(header, f->mapping.data + TLI_ST_PREFIX, size);
    tli_json_members m = tli_json_members_of(header, size);
    tl_status st = read_members(f, &m);
    if (st == TL_OK) st = index_names(f);
    if (st != TL_OK && st != TL_ENOMEM && !strstr(tl_error_message(), f->path))
        tl_error_note(st, "'%s': its header is no acceptable JSON", f->path);
    tli_json_members_end(&m);
    tl_free(header);
    return st == TL_OK ? check_coverage(f) : st;
}

tl_status tli_safetensors_open(tl_safetensors **out, const char *path, tl_file_mapping *mapping)
{
    tl_status st;
    tl_safetensors *f = tl_alloc_zero(sizeof *f);
    *out = NULL;
    if (!f) {
        tl_file_unmap(mapping);
        return TL_FAIL_NOMEM(sizeof *f);
    }
    f->mapping = *mapping;
    *mapping = (tl_file_mapping)TL_FILE_MAPPING_INIT;
    f->path = tl_strdup(path);
    st = f->path ? tl_arena_new(&f->arena) : TL_FAIL_NOMEM(strlen(path) + 1);
    if (st == TL_OK) st = read_header(f);
    if (st == TL_OK) *out = f;
    else tl_safetensors_free(&f);
    return st;
}

tl_status tl_safetensors_open(tl_safetensors **out, const char *path)
{
    tl_file_mapping mapping;
    char *text;
    size_t size;
    *out = NULL;
    if (tli_safetensors_is_index(path)) {
        TL_TRY(tl_file_read(&text, &size, path, TLI_ST_LONGEST_HEADER));
        tl_status st = tli_safetensors_open_index(out, path, text, size, NULL);
        tl_free(text);
        return st;
    }
    TL_TRY(tl_file_map(&mapping, path));
    return tli_safetensors_open(out, path, &mapping);
}

void tl_safetensors_free(tl_safetensors **f)
{
    if (!*f) return;
    for (int64_t i = 0; i < (*f)->parts.count; i++) tl_safetensors_free(&(*f)->parts.items[i]);
    TL_VEC_FREE(&(*f)->parts);
    tl_map_deinit(&(*f)->by_name);
    TL_VEC_FREE(&(*f)->entries);
    TL_VEC_FREE(&(*f)->notes);
    tl_arena_free(&(*f)->arena);
    tl_file_unmap(&(*f)->mapping);
    tl_free((*f)->path);
    tl_free(*f);
    *f = NULL;
}

/* --- looking ---------------------------------------------------------------------------------- */

const char *tl_safetensors_path(const tl_safetensors *f)
{
    return f->path;
}

int64_t tl_safetensors_file_count(const tl_safetensors *f)
{
    return f->parts.count;
}

int64_t tl_safetensors_count(const tl_safetensors *f)
{
    return f->entries.count;
}

const tl_safetensors_entry *tl_safetensors_at(const tl_safetensors *f, int64_t index)
{
    TL_ASSERT(index >= 0 && index < f->entries.count);
    return &f->entries.items[index];
}

const tl_safetensors_entry *tl_safetensors_find(const tl_safetensors *f, const char *name)
{
    return tl_map_get(&f->by_name, name);
}

void tl_safetensors_bytes(void *to, const tl_safetensors_entry *e, size_t begin, size_t bytes)
{
    TL_ASSERT(bytes <= e->bytes && begin <= e->bytes - bytes);
    if (!bytes) return;
    if (e->data) {
        memcpy(to, (const char *)e->data + begin, bytes);
        return;
    }
    const size_t size = tl_dtype_size(e->dtype);
    int64_t low = 0, high = e->piece_count - 1; // the piece that has the byte at `begin`
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if ((size_t)e->pieces[middle].start * size <= begin) low = middle;
        else high = middle - 1;
    }
    for (char *at = to; bytes; low++) {
        const tl_safetensors_piece *p = &e->pieces[low];
        size_t skip = begin - (size_t)p->start * size, left = (size_t)p->count * size - skip;
        size_t now = left < bytes ? left : bytes;
        memcpy(at, (const char *)p->data + skip, now);
        at += now, begin += now, bytes -= now;
    }
}

void tl_safetensors_spec(tl_str *out, const tl_safetensors_entry *e)
{
    tl_str_addf(out, "%s[", e->type);
    for (int i = 0; i < e->rank; i++) tl_str_addf(out, "%s%" PRId64, i ? ", " : "", e->dims[i]);
    tl_str_addc(out, ']');
}

int64_t tl_safetensors_note_count(const tl_safetensors *f)
{
    return f->notes.count;
}

const tl_safetensors_note *tl_safetensors_note_at(const tl_safetensors *f, int64_t index)
{
    TL_ASSERT(index >= 0 && index < f->notes.count);
    return &f->notes.items[index];
}

const char *tl_safetensors_note_get(const tl_safetensors *f, const char *key)
{
    for (int64_t i = 0; i < f->notes.count; i++)
        if (strcmp(f->notes.items[i].key, key) == 0) return f->notes.items[i].value;
    return NULL;
}

/* --- reading elements ------------------------------------------------------------------------- */

tl_shape tli_safetensors_shape(const tl_safetensors_entry *e)
{
    return tl_shape_of(e->rank, e->dims);
}

static tl_status fail_unreadable(const tl_safetensors *f, const tl_safetensors_entry *e)
{
    tl_str spec = TL_STR_INIT;
    tl_safetensors_spec(&spec, e);
    const tli_st_type_row *type = type_named(e->type);
    const char *why = type && type->dtype >= 0 ? "of such a shape" : "of that type";
    tl_status st =
        TL_FAIL(TL_EUNSUPPORTED, "'%s': entry '%s' is %s, and tensors %s are not supported",
                f->path, e->name, tl_str_text(&spec), why);
    tl_str_deinit(&spec);
    return st;
}

static tl_status check_some_bools(const tl_safetensors *f, const tl_safetensors_entry *e,
                                  const void *data, size_t bytes, size_t begin)
{
    const unsigned char *truths = data;
    for (size_t i = 0; i < bytes; i++)
        if (truths[i] > 1)
            return FAIL_ENTRY(f, e->name, "element %zu of type BOOL is %d, neither 0 nor 1",
                              begin + i, truths[i]);
    return TL_OK;
}

static tl_status check_bools(const tl_safetensors *f, const tl_safetensors_entry *e,
                             const void *data)
{
    if (e->dtype != TL_BOOL) return TL_OK;
    if (data || !e->pieces) return check_some_bools(f, e, data, e->bytes, 0);
    for (int64_t i = 0; i < e->piece_count; i++)
        TL_TRY(check_some_bools(f, e, e->pieces[i].data, (size_t)e->pieces[i].count,
                                (size_t)e->pieces[i].start));
    return TL_OK;
}

// The file's elements may lie anywhere, those that are converted must not.
static void convert(tl_dtype to, char *out, const tl_safetensors_entry *e, int64_t count)
{
    enum { CHUNK = 512 };
    double aligned[CHUNK];
    size_t size = tl_dtype_size(e->dtype);
    for (int64_t done = 0; done < count; done += CHUNK) {
        int64_t now = count - done < CHUNK ? count - done : CHUNK;
        tl_safetensors_bytes(aligned, e, (size_t)done * size, (size_t)now * size);
        for (int64_t i = 0; i < now; i++)
            tli_element_set(to, out, done + i, tli_element_get(e->dtype, aligned, i));
    }
}

static bool lies_in(const tl_safetensors *f, const tl_safetensors_entry *e)
{
    const char *at = e->data;
    return !at || (at >= f->mapping.data && at <= f->mapping.data + f->mapping.size);
}

// No zeros for what was cut meanwhile.
static tl_status check_mappings(const tl_safetensors *f, const tl_safetensors_entry *e)
{
    if (!f->parts.count) return tl_file_mapping_check(&f->mapping, f->path);
    for (int64_t i = 0; i < f->parts.count; i++)
        if (lies_in(f->parts.items[i], e)) TL_TRY(check_mappings(f->parts.items[i], e));
    return TL_OK;
}

static bool fits(const tl_tensor *to, const tl_safetensors_entry *e, bool cast)
{
    tl_shape shape = tli_safetensors_shape(e);
    if (!tl_shape_equal(&to->shape, &shape)) return false;
    return to->dtype == e->dtype
           || (cast && tl_dtype_is_float(to->dtype) && tl_dtype_is_float(e->dtype));
}

tl_status tli_safetensors_check(const tl_tensor *to, const tl_safetensors *f,
                                const tl_safetensors_entry *e, bool cast)
{
    if (!e->readable) return fail_unreadable(f, e);
    if (!fits(to, e, cast)) {
        tl_str found = TL_STR_INIT;
        char wanted[TL_TENSOR_TEXT];
        tl_safetensors_spec(&found, e);
        tl_status st = FAIL_ENTRY(f, e->name, "it is %s and does not fit into %s",
                                  tl_str_text(&found), tl_tensor_spec(wanted, to));
        tl_str_deinit(&found);
        return st;
    }
    return check_bools(f, e, e->data);
}

tl_status tli_safetensors_copy(tl_tensor *to, const tl_safetensors *f,
                               const tl_safetensors_entry *e, bool cast)
{
    TL_TRY(tli_safetensors_check(to, f, e, cast));
    tl_lease l;
    TL_TRY_NOTE(tl_lease_discard(&l, to), "'%s': entry '%s'", f->path, e->name);
    if (to->dtype != e->dtype) convert(to->dtype, l.data, e, tl_tensor_count(to));
    else tl_safetensors_bytes(l.data, e, 0, e->bytes);
    // the file may have changed since
    tl_status st = to->dtype == e->dtype ? check_bools(f, e, l.data) : TL_OK;
    if (st == TL_OK) st = tl_lease_end(&l);
    tl_lease_drop(&l);
    TL_TRY(st);
    return check_mappings(f, e);
}

tl_status tl_safetensors_get(tl_tensor *to, const tl_safetensors *f, const char *name)
{
    const tl_safetensors_entry *e = tl_safetensors_find(f, name);
    if (e) return tli_safetensors_copy(to, f, e, false);
    size_t bytes = (size_t)f->entries.count * sizeof(char *);
    const char **names = tl_alloc(bytes);
    if (!names) return TL_FAIL_NOMEM(bytes);
    for (int64_t i = 0; i < f->entries.count; i++) names[i] = f->entries.items[i].name;
    const char *near = tl_nearest(name, names, f->entries.count);
    tl_status st = TL_FAIL(TL_ENOTFOUND, "'%s' has no entry '%s'%s%s%s", f->path, name,
                           near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    tl_free(names);
    return st;
}

tl_status tli_safetensors_put(tl_state *to, const tl_safetensors *f, const tl_safetensors_entry *e,
                              tl_engine *engine)
{
    tl_tensor *t = NULL;
    tl_status st;
    if (!e->readable) return fail_unreadable(f, e);
    if (!engine) {
        TL_TRY_NOTE(tl_state_describe(to, e->name, e->dtype, tli_safetensors_shape(e)), "'%s'",
                    f->path);
        return TL_OK;
    }
    TL_TRY_DONE(st, tl_tensor_new(&t, engine, e->dtype, tli_safetensors_shape(e)));
    TL_TRY_DONE(st, tli_safetensors_copy(t, f, e, false));
    st = tl_state_put(to, e->name, t);
    if (st != TL_OK) tl_error_note(st, "'%s'", f->path);
done:
    tl_tensor_free(&t); // the state keeps it
    return st;
}

tl_status tl_safetensors_load(tl_state **out, const tl_safetensors *f, tl_engine *engine)
{
    tl_state *s;
    *out = NULL;
    TL_TRY(tl_state_new(&s));
    tli_state_distrust(s);
    tl_status st = TL_OK;
    for (int64_t i = 0; i < f->entries.count && st == TL_OK; i++) {
        const tl_safetensors_entry *e = &f->entries.items[i];
        if (e->readable || engine) st = tli_safetensors_put(s, f, e, engine);
    }
    if (st == TL_OK) *out = s;
    else tl_state_free(&s);
    return st;
}

tl_status tl_safetensors_read(tl_state **out, const char *path, tl_engine *engine)
{
    tl_safetensors *f;
    *out = NULL;
    TL_TRY(tl_safetensors_open(&f, path));
    tl_status st = tl_safetensors_load(out, f, engine);
    tl_safetensors_free(&f);
    return st;
}
