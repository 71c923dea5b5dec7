#include <tilth/desc/yaml.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include <tilth/desc/class.h>

#include "desc/config/apply.h"
#include "desc/yaml/out.h"

/* A writer gives events to libyaml's emitter, which is the sibling of the one that wrote Model
 * Garden's files: it breaks lines and quotes strings the same way. */
typedef struct writer {
    yaml_emitter_t emitter;
    tl_str *out;
    tl_arena *scratch;
    tl_status status; /* the first failure; later events do nothing */
    bool sorted;      /* free-form maps too are written in the order of their keys */
    bool saved;       /* blank rows have their default */
    tl_str *keys;     /* for tli_yaml_write_keys, or NULL */
    tl_str path;      /* of what is being written */
    int lists;        /* that it lies in: there nothing has a line of its own */
} writer;

static int append(void *payload, unsigned char *bytes, size_t size)
{
    writer *w = payload;
    tl_str_addn(w->out, (const char *)bytes, size);
    return !w->out->failed;
}

static void emit(writer *w, yaml_event_t *event, int made)
{
    if (w->status != TL_OK) {
        if (made) yaml_event_delete(event);
        return;
    }
    if (made && yaml_emitter_emit(&w->emitter, event)) return;
    bool memory = !made || w->emitter.error == YAML_MEMORY_ERROR || w->out->failed;
    w->status = memory ? TL_FAIL(TL_ENOMEM, "out of memory")
                       : TL_FAIL(TL_EINTERNAL, "YAML emitter: %s", w->emitter.problem);
}

static bool is_utf8(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        int width = *p < 0x80   ? 1
                    : *p < 0xc2 ? 0
                    : *p < 0xe0 ? 2
                    : *p < 0xf0 ? 3
                    : *p < 0xf5 ? 4
                                : 0;
        if (width == 0) return false;
        bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
        bool surrogate = p[0] == 0xed && p[1] > 0x9f, beyond = p[0] == 0xf4 && p[1] > 0x8f;
        if (overlong || surrogate || beyond) return false;
        for (int i = 1; i < width; i++)
            if ((p[i] & 0xc0) != 0x80) return false;
        p += width;
    }
    return true;
}

/* Plain when the text may stand without quotes and would be read back as what it is. */
static void put_text(writer *w, const char *text, bool plain)
{
    if (w->status == TL_OK && !is_utf8(text)) {
        const char *path = tl_str_text(&w->path);
        w->status = TL_FAIL(TL_EINVAL, "%s%sa string that is not UTF-8 cannot be written as YAML",
                            path, *path ? ": " : "");
        return;
    }
    yaml_event_t event;
    emit(w, &event,
         yaml_scalar_event_initialize(
             &event, NULL, NULL, (const yaml_char_t *)text, (int)strlen(text), plain, 1,
             plain ? YAML_ANY_SCALAR_STYLE : YAML_SINGLE_QUOTED_SCALAR_STYLE));
}

/* What a YAML 1.1 reader may see a date, a clock or an odd number in: 2001-01-01, 10:30, 1__0. */
static bool is_number_to_others(const char *text)
{
    if (!*text || !strchr("+-.0123456789", *text)) return false;
    size_t digits = strspn(text, "0123456789");
    const char *unsigned_text = text + (*text == '+' || *text == '-');
    if (strncmp(unsigned_text, "0x", 2) == 0 && unsigned_text[2]) // also beyond 64 bits
        return !unsigned_text[2 + strspn(unsigned_text + 2, "0123456789abcdefABCDEF_")];
    if (digits == 4 && text[4] == '-') return !text[strspn(text, "0123456789:-+.tTzZ \t")];
    return strpbrk(text, "_:") && !text[strspn(text, "+-.0123456789_:xXabcdefABCDEF")];
}

/* A string must not be taken for a number, bool or null by us, nor by a YAML 1.1 reader, which sees
 * more in a plain scalar than we do. */
static bool reads_as_string(const char *text)
{
    tl_value v = {.kind = TL_VALUE_SCALAR, .text = text};
    double number;
    if (tl_value_scalar(&v) != TL_SCALAR_STRING || tl_value_double(&v, &number)) return false;
    return strcmp(text, "<<") != 0 && strcmp(text, "=") != 0 && !is_number_to_others(text);
}

/* An integer is written as one and a double always shows that it is one. */
static void put_double(writer *w, double value)
{
    char text[40], number[32];
    tl_double_text(number, value);
    if (isnan(value)) snprintf(text, sizeof text, ".nan");
    else if (isinf(value)) snprintf(text, sizeof text, value < 0 ? "-.inf" : ".inf");
    else {
        // 1e-05 would be a string to a YAML 1.1 reader; 1.0e-05 is a number to all.
        const char *e = strchr(number, 'e');
        if (e && !strchr(number, '.'))
            snprintf(text, sizeof text, "%.*s.0%s", (int)(e - number), number, e);
        else snprintf(text, sizeof text, "%s", number);
    }
    put_text(w, text, true);
}

static void put_int(writer *w, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    put_text(w, text, true);
}

static void put_bool(writer *w, bool value)
{
    put_text(w, value ? "true" : "false", true);
}

static void put_string(writer *w, const char *text)
{
    if (text) put_text(w, text, reads_as_string(text));
    else put_text(w, "null", true);
}

static void begin_list(writer *w)
{
    w->lists++;
    yaml_event_t event;
    emit(w, &event,
         yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_FLOW_SEQUENCE_STYLE));
}

static void end_list(writer *w)
{
    w->lists--;
    yaml_event_t event;
    emit(w, &event, yaml_sequence_end_event_initialize(&event));
}

static void begin_map(writer *w)
{
    yaml_event_t event;
    emit(w, &event,
         yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE));
}

static void end_map(writer *w)
{
    yaml_event_t event;
    emit(w, &event, yaml_mapping_end_event_initialize(&event));
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const tl_value_pair *)a)->key, ((const tl_value_pair *)b)->key);
}

static void put_key(writer *w, const char *key, bool is_leaf)
{
    if (w->keys && w->lists == 0)
        tl_str_addf(w->keys, "%c%s\n", is_leaf ? TLI_KEY_LEAF : TLI_KEY_STRUCT,
                    tl_str_text(&w->path));
    put_string(w, key);
}

/* Keys that stand in lines as they are, and so can be found again there. */
static bool has_plain_keys(const tl_value *map)
{
    bool plain = true;
    for (int64_t i = 0; i < map->count; i++) {
        const char *key = map->pairs[i].key;
        size_t length =
            strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
        plain = plain && length && !key[length] && reads_as_string(key);
    }
    return plain;
}

/* A free-form map whose keys have lines of their own. */
static bool has_lines(const tl_value *v)
{
    return v && v->kind == TL_VALUE_MAP && v->count > 0 && has_plain_keys(v);
}

static void put_value(writer *w, const tl_value *v);

static void put_pairs(writer *w, const tl_value *map)
{
    const tl_value_pair *pairs = map->pairs;
    if (w->sorted && map->count > 0) {
        tl_value_pair *sorted =
            tl_arena_copy(w->scratch, pairs, (size_t)map->count * sizeof *pairs);
        if (!sorted) {
            w->status = w->status != TL_OK ? w->status : TL_ENOMEM;
            return;
        }
        qsort(sorted, (size_t)map->count, sizeof *sorted, by_key);
        pairs = sorted;
    }
    tl_str *keys = w->keys;
    if (!has_plain_keys(map)) w->keys = NULL;
    size_t length = w->path.length;
    begin_map(w);
    for (int64_t i = 0; i < map->count; i++) {
        tli_path_name(&w->path, pairs[i].key);
        put_key(w, pairs[i].key, !has_lines(pairs[i].value));
        put_value(w, pairs[i].value);
        tl_str_cut(&w->path, length);
    }
    end_map(w);
    w->keys = keys;
}

static void put_value(writer *w, const tl_value *v)
{
    if (!v) {
        put_text(w, "null", true);
    } else if (v->kind == TL_VALUE_LIST) {
        begin_list(w);
        for (int64_t i = 0; i < v->count; i++) put_value(w, v->items[i]);
        end_list(w);
    } else if (v->kind == TL_VALUE_MAP) {
        put_pairs(w, v);
    } else {
        double d;
        bool b;
        int64_t i;
        tl_scalar type = v->kind == TL_VALUE_SCALAR ? tl_value_scalar(v) : TL_SCALAR_STRING;
        if (type == TL_SCALAR_NULL) put_text(w, "null", true);
        else if (type == TL_SCALAR_BOOL && tl_value_bool(v, &b)) put_bool(w, b);
        else if (type == TL_SCALAR_INT && tl_value_int(v, &i)) put_int(w, i);
        else if (type == TL_SCALAR_DOUBLE && tl_value_double(v, &d)) put_double(w, d);
        else put_string(w, v->text);
    }
}

/* --- described structs ------------------------------------------------------------------------ */

/* Each goes together with `base`, what a reader has in its place before it reads: the same type, or
 * NULL where the reader makes a fresh one. */
static void put_struct(writer *w, const tl_desc *desc, const void *value, const void *base);
static void put_one(writer *w, const tl_field *f, const void *member, const void *base);

static void put_list(writer *w, const tl_field *f, const tl_structs *list, const tl_structs *base)
{
    if (tli_list_is_null(f, list)) {
        put_text(w, "null", true);
        return;
    }
    tl_field element = tli_element_field(f);
    bool merged = base && base->count == list->count; // readers make other lists anew
    begin_list(w);
    size_t length = w->path.length;
    for (int64_t i = 0; i < list->count; i++) {
        size_t offset = (size_t)i * element.size;
        tli_path_index(&w->path, i);
        put_one(w, &element, (const char *)list->items + offset,
                merged ? (const char *)base->items + offset : NULL);
        tl_str_cut(&w->path, length);
    }
    end_list(w);
}

/* The struct of a branch, chosen or not; NULL when nobody has touched it. */
static const void *branch_of(const tl_oneof *o, const char *name, const tl_desc *desc)
{
    for (const tl_oneof_part *p = o ? o->parts : NULL; p; p = p->next)
        if (p->desc == desc && strcmp(p->name, name) == 0) return p->value;
    return NULL;
}

static void put_oneof(writer *w, const tl_oneof *o, const tl_oneof *base)
{
    begin_map(w);
    size_t length = w->path.length;
    // In the order of the keys: "type" against the branch's name.
    bool branch_first = o->type && strcmp(o->type, "type") < 0;
    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == branch_first && o->type) {
            tli_path_name(&w->path, o->type);
            put_key(w, o->type, false);
            if (o->value) put_struct(w, o->desc, o->value, branch_of(base, o->type, o->desc));
            else begin_map(w), end_map(w);
        } else if ((turn == 0) != branch_first) {
            tli_path_name(&w->path, "type");
            put_key(w, "type", true);
            put_string(w, o->type);
        }
        tl_str_cut(&w->path, length);
    }
    end_map(w);
}

static void put_optional(writer *w, const tl_field *f, const void *m, const void *base)
{
    if (f->type == TL_TYPE_BOOL && ((const tl_opt_bool *)m)->set)
        put_bool(w, ((const tl_opt_bool *)m)->value);
    else if (f->type == TL_TYPE_INT && ((const tl_opt_int *)m)->set)
        put_int(w, ((const tl_opt_int *)m)->value);
    else if (f->type == TL_TYPE_DOUBLE && ((const tl_opt_double *)m)->set)
        put_double(w, ((const tl_opt_double *)m)->value);
    else if (f->type == TL_TYPE_STRUCT && *(void *const *)m)
        put_struct(w, f->desc, *(void *const *)m, base ? *(void *const *)base : NULL);
    else put_text(w, "null", true);
}

static void put_object(writer *w, const tl_object *o, const tl_object *base)
{
    if (o->value)
        put_struct(w, o->desc, o->value, base && base->desc == o->desc ? base->value : NULL);
    else put_text(w, "null", true);
}

static void put_one(writer *w, const tl_field *f, const void *m, const void *base)
{
    if (f->arity == TL_LIST) {
        put_list(w, f, m, base);
        return;
    }
    if (f->arity == TL_OPTIONAL) {
        put_optional(w, f, m, base);
        return;
    }
    switch (f->type) {
    case TL_TYPE_BOOL: put_bool(w, *(const bool *)m); break;
    case TL_TYPE_INT: put_int(w, *(const int64_t *)m); break;
    case TL_TYPE_DOUBLE: put_double(w, *(const double *)m); break;
    case TL_TYPE_STRING: put_string(w, *(const char *const *)m); break;
    case TL_TYPE_ENUM: {
        const char *name = f->names[*(const int *)m];
        put_string(w, strcmp(name, "null") == 0 ? NULL : name);
        break;
    }
    case TL_TYPE_STRUCT: put_struct(w, f->desc, m, base); break;
    case TL_TYPE_OBJECT: put_object(w, m, base); break;
    case TL_TYPE_ONEOF:
        if (((const tl_oneof *)m)->type || !(f->flags & TL_FIELD_NULLABLE)) put_oneof(w, m, base);
        else put_text(w, "null", true);
        break;
    case TL_TYPE_VALUE: put_value(w, *(const tl_value *const *)m); break;
    case TL_TYPE_REF: {
        const tl_ref *ref = m;
        tl_str text = TL_STR_INIT;
        if (ref->target)
            tl_str_addf(&text, "@%s%s%s", ref->scope ? ref->scope : "",
                        ref->scope && *ref->scope ? "/" : "", ref->target->name);
        if (w->status == TL_OK) w->status = tl_str_status(&text);
        put_string(w, ref->target ? tl_str_text(&text) : NULL);
        tl_str_deinit(&text);
        break;
    }
    case TL_TYPE_NONE: break;
    }
}

/* Quiet rows are left out while a reader has their value without them. */
static bool is_omitted(writer *w, const tl_desc *desc, const tl_field *f, const void *value,
                       const void *base)
{
    bool omit = false;
    if (f->flags & TL_FIELD_UNSAVED) return !(f->flags & TL_FIELD_BLANK);
    if (f->flags & TL_FIELD_QUIET) w->status = tl_field_is_default(&omit, desc, f, value);
    return omit && (!base || tli_field_equal(f, value, base));
}

/* The struct that has the row's value. */
static const void *holder_of(writer *w, const tl_desc *desc, const tl_field *f, const void *value)
{
    void *fresh;
    if (!w->saved || !(f->flags & TL_FIELD_BLANK)) return value;
    w->status = tl_desc_new(&fresh, w->scratch, desc);
    return w->status == TL_OK ? fresh : value;
}

static void put_struct(writer *w, const tl_desc *desc, const void *value, const void *base)
{
    int64_t count = 0;
    const tl_field **fields = tl_desc_sorted(w->scratch, desc, &count);
    if (!fields) {
        w->status = w->status != TL_OK ? w->status : TL_ENOMEM;
        return;
    }
    begin_map(w);
    size_t length = w->path.length;
    for (int64_t i = 0; i < count && w->status == TL_OK; i++) {
        if (is_omitted(w, desc, fields[i], value, base) || w->status != TL_OK) continue;
        tli_path_name(&w->path, fields[i]->name);
        const tl_type type = fields[i]->type;
        const void *member = tl_field_at(fields[i], holder_of(w, desc, fields[i], value));
        bool is_struct =
            fields[i]->arity != TL_LIST
            && (type == TL_TYPE_STRUCT || type == TL_TYPE_OBJECT || type == TL_TYPE_ONEOF);
        bool is_map = type == TL_TYPE_VALUE && has_lines(*(const tl_value *const *)member);
        put_key(w, fields[i]->name, !is_struct && !is_map);
        put_one(w, fields[i], member, base ? tl_field_at(fields[i], base) : NULL);
        tl_str_cut(&w->path, length);
    }
    end_map(w);
}

/* --- documents -------------------------------------------------------------------------------- */

enum { WIDTH = 80, UNLIMITED = -1 };

static tl_status write_begin(writer *w, tl_str *out, int width)
{
    TL_TRY(tl_arena_new(&w->scratch));
    if (!yaml_emitter_initialize(&w->emitter)) {
        tl_arena_free(&w->scratch);
        return TL_FAIL_NOMEM(sizeof w->emitter);
    }
    w->out = out;
    yaml_emitter_set_output(&w->emitter, append, w);
    yaml_emitter_set_unicode(&w->emitter, 1);
    yaml_emitter_set_width(&w->emitter, width);
    yaml_event_t event;
    emit(w, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
    emit(w, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
    return TL_OK;
}

static tl_status write_end(writer *w)
{
    yaml_event_t event;
    emit(w, &event, yaml_document_end_event_initialize(&event, 1));
    emit(w, &event, yaml_stream_end_event_initialize(&event));
    yaml_emitter_delete(&w->emitter);
    tl_arena_free(&w->scratch);
    if (w->status == TL_OK) w->status = tl_str_status(&w->path);
    tl_str_deinit(&w->path);
    return w->status;
}

tl_status tli_yaml_write_keys(tl_str *out, tl_str *keys, const tl_desc *desc, const void *value,
                              const void *base)
{
    writer w = {.keys = keys, .sorted = true};
    TL_TRY(write_begin(&w, out, WIDTH));
    put_struct(&w, desc, value, base);
    return write_end(&w);
}

tl_status tli_yaml_write_saved(tl_str *out, const tl_desc *desc, const void *value,
                               const void *base)
{
    writer w = {.saved = true, .sorted = true};
    TL_TRY(write_begin(&w, out, WIDTH));
    put_struct(&w, desc, value, base);
    return write_end(&w);
}

tl_status tl_yaml_write(tl_str *out, const tl_desc *desc, const void *value)
{
    return tli_yaml_write_keys(out, NULL, desc, value, NULL);
}

tl_status tl_yaml_write_value(tl_str *out, const tl_value *value)
{
    writer w = {0};
    TL_TRY(write_begin(&w, out, WIDTH));
    put_value(&w, value);
    return write_end(&w);
}

tl_status tli_field_text(tl_str *out, const tl_field *field, const void *value)
{
    writer w = {0};
    tl_str text = TL_STR_INIT;
    tl_status st = write_begin(&w, &text, UNLIMITED);
    if (st == TL_OK) {
        begin_list(&w); // flow style, on one line
        put_one(&w, field, tl_field_at(field, value), NULL);
        end_list(&w);
        st = write_end(&w);
    }
    if (st == TL_OK && text.length >= 3) // without the brackets and the newline
        tl_str_addn(out, text.data + 1, text.length - 3);
    tl_str_deinit(&text);
    return st;
}

tl_status tl_field_default_text(tl_str *out, const tl_desc *desc, const tl_field *field)
{
    if (field->type == TL_TYPE_STRUCT && field->arity == TL_ONE) return TL_OK; // its fields say it
    tl_arena *scratch;
    TL_TRY(tl_arena_new(&scratch));
    void *fresh;
    tl_status st = tl_desc_new(&fresh, scratch, desc);
    if (st == TL_OK) st = tli_field_text(out, field, fresh);
    tl_arena_free(&scratch);
    return st;
}
