/* `tilth data show` of files of records: features, the first examples, and their images if they
 * have some. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/map.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/image/image.h>

#include "base/inner/clean.h"
#include "tool/data.h"
#include "tool/data_images.h"

/* --- values ----------------------------------------------------------------------------------- */

enum { SHOWN_NUMBERS = 8, SHOWN_TEXT = 60, SHOWN_BYTES = 16, LONGEST_NAME = 256 };

static bool is_text(tl_bytes b)
{
    for (size_t i = 0; i < b.size; i++)
        if ((unsigned char)b.data[i] < 0x20 || (unsigned char)b.data[i] == 0x7f) return false;
    return b.size <= SHOWN_TEXT;
}

static void add_bytes(tl_str *out, tl_bytes b)
{
    tl_image_head head;
    if (tl_image_format_of(b.data, b.size) != TL_FORMAT_UNKNOWN
        && tl_image_look(&head, b.data, b.size) == TL_OK) {
        tl_str_addf(out, "%s %" PRId64 " x %" PRId64 " x %" PRId64 ", %zu bytes",
                    tl_image_format_name(head.format), head.height, head.width, head.channels,
                    b.size);
        return;
    }
    if (is_text(b)) {
        tl_str_addf(out, "'%.*s'", (int)b.size, b.data);
        return;
    }
    tl_str_addf(out, "%zu bytes:", b.size);
    for (size_t i = 0; i < b.size && i < SHOWN_BYTES; i++)
        tl_str_addf(out, " %02x", (unsigned char)b.data[i]);
    if (b.size > SHOWN_BYTES) tl_str_add(out, " ...");
}

// The kind was looked at: what fails here is memory alone.
static tl_status add_values(tl_str *out, tl_arena *arena, const tl_feature *f)
{
    size_t size = f->kind == TL_FEATURE_BYTES ? sizeof(tl_bytes) : sizeof(int64_t);
    void *values = tl_arena_array(arena, f->count ? f->count : 1, size);
    if (!values) return TL_ENOMEM;
    const tl_bytes *bytes = values;
    const float *floats = values;
    const int64_t *ints = values;
    if (f->kind == TL_FEATURE_BYTES) TL_TRY(tl_feature_bytes(f, "", values, f->count));
    if (f->kind == TL_FEATURE_FLOATS) TL_TRY(tl_feature_floats(f, "", values, f->count));
    if (f->kind == TL_FEATURE_INTS) TL_TRY(tl_feature_ints(f, "", values, f->count));
    for (int64_t i = 0; i < f->count && i < SHOWN_NUMBERS; i++) {
        tl_str_add(out, i ? ", " : "");
        if (f->kind == TL_FEATURE_BYTES) add_bytes(out, bytes[i]);
        else if (f->kind == TL_FEATURE_FLOATS) tl_str_addf(out, "%g", (double)floats[i]);
        else tl_str_addf(out, "%" PRId64, ints[i]);
    }
    if (f->count > SHOWN_NUMBERS) tl_str_addf(out, ", ... (%" PRId64 ")", f->count);
    return TL_OK;
}

/* --- record files ----------------------------------------------------------------------------- */

/* What all records together say about a feature. */
typedef struct column {
    const char *name;
    tl_feature_kind kind;
    bool mixed; /* not the same kind everywhere */
    int64_t records, least, most;
    size_t bytes;
} column;

enum { DECODED_AT_A_TIME = 256 };

/* A file of records while it is looked through. */
typedef struct showing {
    tli_run *run;
    const tl_tfrecord_file *file;
    const tli_data_flags *given;
    tl_map columns;                 /* by name */
    tl_map labels;                  /* how often each is there, by its number in words */
    tl_strings names;               /* of the classes, when a list lies beside the file */
    tl_str first;                   /* the first examples */
    int64_t records, wanted, other; /* `other` are no examples */
    size_t least, most;
    tli_image_facts images;
    tli_encoded *waiting; /* images to be decoded, DECODED_AT_A_TIME */
    int64_t waiting_count;
    tl_pool *pool;
    bool json;
} showing;

static tl_status note_feature(showing *s, const tl_feature *f)
{
    char name[LONGEST_NAME];
    snprintf(name, sizeof name, "%.*s",
             (int)(f->name.size < LONGEST_NAME ? f->name.size : LONGEST_NAME), f->name.data);
    column *c = tl_map_get(&s->columns, name);
    if (!c) {
        c = tl_arena_alloc(s->run->arena, sizeof *c);
        char *kept = tl_arena_strdup(s->run->arena, name);
        if (!c || !kept) return TL_ENOMEM;
        *c = (column){.name = kept, .kind = f->kind, .least = f->count};
        TL_TRY(tl_map_set(&s->columns, name, c));
    }
    c->mixed |= c->kind != f->kind;
    c->records++;
    c->least = f->count < c->least ? f->count : c->least;
    c->most = f->count > c->most ? f->count : c->most;
    c->bytes += f->values.size;
    return TL_OK;
}

static tl_status show_feature(showing *s, const tl_feature *f)
{
    tl_str text = TL_STR_INIT, clean = TL_STR_INIT;
    tl_str_addf(&text, "  %.*s: %s ", (int)f->name.size, f->name.data,
                tl_feature_kind_name(f->kind));
    tl_status st = add_values(&text, s->run->arena, f);
    tli_add_clean_word(&clean, tl_str_text(&text));
    tl_str_addf(&s->first, "%s\n", tl_str_text(&clean));
    tl_str_deinit(&text);
    tl_str_deinit(&clean);
    return st;
}

/* --- images of records ------------------------------------------------------------------------ */

static tl_status decode_waiting(showing *s)
{
    int64_t count = s->waiting_count;
    s->waiting_count = 0;
    if (count && !s->pool) TL_TRY(tl_pool_new(&s->pool, 0));
    return tli_image_facts_decode(&s->images, s->waiting, count, s->pool, s->run->arena);
}

static tl_status note_label(showing *s, const tl_feature *label)
{
    char key[32];
    int64_t number;
    if (label->kind != TL_FEATURE_INTS || label->count != 1) return TL_OK;
    TL_TRY(tl_feature_ints(label, "", &number, 1));
    snprintf(key, sizeof key, "%" PRId64, number);
    int64_t *count = tl_map_get(&s->labels, key);
    if (!count) {
        count = tl_arena_alloc(s->run->arena, sizeof *count);
        if (!count) return TL_ENOMEM;
        TL_TRY(tl_map_set(&s->labels, key, count));
    }
    ++*count;
    return TL_OK;
}

// Images are found again by the number of the record, and by the name that it gives them.
static tl_status note_image(showing *s, const tl_tfrecord *r, tl_bytes image,
                            const tl_feature *name)
{
    tl_bytes text = {"", 0};
    tl_arena *arena = s->run->arena;
    if (name->kind == TL_FEATURE_BYTES && name->count == 1)
        TL_TRY(tl_feature_bytes(name, "", &text, 1));
    if (text.size > LONGEST_NAME) text.size = LONGEST_NAME;
    char *whole = text.size ? tl_arena_printf(arena, "record %" PRId64 ", '%.*s'", r->number,
                                              (int)text.size, text.data)
                            : tl_arena_printf(arena, "record %" PRId64, r->number);
    if (!whole) return TL_ENOMEM;
    s->waiting[s->waiting_count++] =
        (tli_encoded){.data = image.data, .size = image.size, .name = whole};
    return s->waiting_count < DECODED_AT_A_TIME ? TL_OK : decode_waiting(s);
}

static tl_status note_example(showing *s, const tl_tfrecord *r)
{
    static const char *const names[] = {"image/encoded", "image/format", "image/class/label",
                                        "image/filename"};
    tl_feature f[4];
    tl_bytes image, format = {"", 0};
    TL_TRY(tl_example_find(f, names, 4, r->data, r->size));
    TL_TRY(note_label(s, &f[2]));
    if (f[0].kind != TL_FEATURE_BYTES || f[0].count != 1) return TL_OK;
    TL_TRY(tl_feature_bytes(&f[0], "", &image, 1));
    if (f[1].kind == TL_FEATURE_BYTES && f[1].count == 1)
        TL_TRY(tl_feature_bytes(&f[1], "", &format, 1));
    if (format.size == 3 && memcmp(format.data, "raw", 3) == 0) return TL_OK; // pixels as they are
    return note_image(s, r, image, &f[3]);
}

static tl_status note_record(showing *s, const tl_tfrecord *r)
{
    bool good = true;
    tl_example_reader in = tl_example_read(r->data, r->size);
    tl_feature f;
    bool show = s->records < s->wanted;
    if (show)
        tl_str_addf(&s->first, "record %" PRId64 " at byte %" PRId64 ":\n", r->number, r->offset);
    for (bool more = true;;) {
        if (tl_example_next(&in, &f, &more) != TL_OK) {
            good = false;
            s->other++;
            if (show) tl_str_addf(&s->first, "  %zu bytes that are no tf.train.Example\n", r->size);
            break;
        }
        if (!more) break;
        TL_TRY(note_feature(s, &f));
        if (show) TL_TRY(show_feature(s, &f));
    }
    s->least = !s->records || r->size < s->least ? r->size : s->least;
    s->most = r->size > s->most ? r->size : s->most;
    s->records++;
    if (!good) return TL_OK;
    if (s->given->pictures && r->number < s->given->examples)
        TL_TRY(tli_data_picture(&s->first, r, tl_tfrecord_path(s->file), s->given));
    return note_example(s, r);
}

static int by_name(const void *a, const void *b)
{
    const column *const *k = a, *const *l = b;
    return strcmp((*k)->name, (*l)->name);
}

static void add_range(tl_str *out, int64_t least, int64_t most)
{
    if (least == most) tl_str_addf(out, "%" PRId64, least);
    else tl_str_addf(out, "%" PRId64 " to %" PRId64, least, most);
}

static const column **sort_columns(const showing *s)
{
    int64_t count = tl_map_count(&s->columns);
    const column **sorted = tl_arena_array(s->run->arena, count ? count : 1, sizeof *sorted);
    for (int64_t i = 0; sorted && i < count; i++) sorted[i] = tl_map_at(&s->columns, i);
    if (sorted) qsort(sorted, (size_t)count, sizeof *sorted, by_name);
    return sorted;
}

static tl_status add_columns(showing *s)
{
    tl_str *out = &s->run->text;
    int64_t count = tl_map_count(&s->columns), width = 0;
    const column **sorted = sort_columns(s);
    if (!sorted) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        int64_t length = (int64_t)strlen(sorted[i]->name);
        width = length > width ? length : width;
    }
    for (int64_t i = 0; i < count; i++) {
        const column *c = sorted[i];
        tl_str_add(out, "  ");
        tli_add_clean_word(out, c->name);
        tl_str_pad(out, ' ', width + 2 - (int64_t)strlen(c->name));
        tl_str_addf(out, "%-7s", c->mixed ? "mixed" : tl_feature_kind_name(c->kind));
        add_range(out, c->least, c->most);
        tl_str_add(out, c->most == 1 ? " value" : " values");
        if (c->records < s->records) tl_str_addf(out, ", in %" PRId64 " records", c->records);
        tl_str_add(out, ", ");
        tli_data_add_size(out, (double)c->bytes);
        tl_str_addc(out, '\n');
    }
    return TL_OK;
}

/* --- classes of records ----------------------------------------------------------------------- */

typedef struct label {
    int64_t number, count;
} label;

static int by_number(const void *a, const void *b)
{
    const label *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static tl_status sort_labels(const showing *s, label **out)
{
    int64_t count = tl_map_count(&s->labels);
    *out = tl_arena_array(s->run->arena, count ? count : 1, sizeof **out);
    if (!*out) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        (*out)[i] = (label){strtoll(tl_map_key(&s->labels, i), NULL, 10),
                            *(const int64_t *)tl_map_at(&s->labels, i)};
    qsort(*out, (size_t)count, sizeof **out, by_number);
    return TL_OK;
}

static const char *name_of(const showing *s, int64_t number)
{
    return number >= 0 && number < s->names.count ? s->names.items[number] : NULL;
}

static tl_status add_labels(showing *s)
{
    enum { MOST = 30 };
    tl_str *out = &s->run->text;
    int64_t count = tl_map_count(&s->labels);
    label *sorted;
    TL_TRY(sort_labels(s, &sorted));
    if (count) tl_str_addf(out, "%" PRId64 " classes\n", count);
    for (int64_t i = 0; i < count && i < MOST; i++) {
        const char *name = name_of(s, sorted[i].number);
        tl_str_addf(out, "  %" PRId64 "%s", sorted[i].number, name ? "  " : "");
        if (name) tli_add_clean_word(out, name);
        tl_str_addf(out, ", %" PRId64 " record%s\n", sorted[i].count,
                    sorted[i].count == 1 ? "" : "s");
    }
    if (count > MOST) tl_str_addf(out, "  and %" PRId64 " more\n", count - MOST);
    return TL_OK;
}

/* --- told ------------------------------------------------------------------------------------- */

static tl_status report_text(showing *s, bool intact)
{
    tl_str *out = &s->run->text;
    tli_add_clean_word(out, tl_tfrecord_path(s->file));
    tl_str_addf(out, ": TFRecord%s, %" PRId64 " records",
                tl_tfrecord_is_packed(s->file) ? ", compressed" : "", s->records);
    tl_str_add(out, ", ");
    tli_data_add_size(out, (double)tl_tfrecord_size(s->file));
    tl_str_add(out, !intact      ? ", DAMAGED behind them\n"
                    : s->records ? ", all checksums are right\n"
                                 : ", EMPTY\n");
    if (s->records) {
        tl_str_add(out, "records have ");
        add_range(out, (int64_t)s->least, (int64_t)s->most);
        tl_str_add(out, " bytes");
        if (s->other) tl_str_addf(out, "; %" PRId64 " are no tf.train.Example", s->other);
        tl_str_addc(out, '\n');
    }
    TL_TRY(add_columns(s));
    TL_TRY(add_labels(s));
    tli_image_facts_tell(out, &s->images);
    tl_str_add(out, tl_str_text(&s->first));
    return tl_str_status(out);
}

static void json_columns(tli_json *j, const column *const *sorted, int64_t count)
{
    tli_json_begin(j, "features", '[');
    for (int64_t i = 0; i < count; i++) {
        const column *c = sorted[i];
        tli_json_begin(j, NULL, '{');
        tli_json_text(j, "name", c->name);
        tli_json_text(j, "type", c->mixed ? "mixed" : tl_feature_kind_name(c->kind));
        tli_json_int(j, "records", c->records);
        tli_json_int(j, "min", c->least);
        tli_json_int(j, "max", c->most);
        tli_json_int(j, "bytes", (int64_t)c->bytes);
        tli_json_end(j, '}');
    }
    tli_json_end(j, ']');
}

static tl_status report_json(showing *s, bool intact)
{
    tli_json j = {.out = &s->run->text};
    const column **columns = sort_columns(s);
    label *labels;
    if (!columns) return TL_ENOMEM;
    TL_TRY(sort_labels(s, &labels));
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "file", tl_tfrecord_path(s->file));
    tli_json_text(&j, "kind", "tfrecord");
    tli_json_int(&j, "count", s->records);
    tli_json_int(&j, "bytes", (int64_t)tl_tfrecord_size(s->file));
    tli_json_bool(&j, "compressed", tl_tfrecord_is_packed(s->file));
    tli_json_bool(&j, "damaged", !intact);
    json_columns(&j, columns, tl_map_count(&s->columns));
    tli_json_begin(&j, "classes", '[');
    for (int64_t i = 0; i < tl_map_count(&s->labels); i++)
        tli_data_json_class(&j, labels[i].number, name_of(s, labels[i].number), labels[i].count);
    tli_json_end(&j, ']');
    tli_image_facts_json(&j, &s->images);
    tli_json_end(&j, '}');
    tl_str_addc(&s->run->text, '\n');
    return tl_str_status(&s->run->text);
}

static tl_status report(showing *s, bool intact)
{
    TL_TRY(decode_waiting(s));
    return s->json ? report_json(s, intact) : report_text(s, intact);
}

// What was read before the damage is shown all the same.
static tl_status report_damage(showing *s)
{
    tl_error why;
    tl_error_save(&why);
    TL_TRY(report(s, false));
    tl_error_restore(&why);
    return tli_tool_damaged();
}

static tl_status begin(showing *s)
{
    const char *path = tl_tfrecord_path(s->file);
    s->waiting = tl_arena_array(s->run->arena, DECODED_AT_A_TIME, sizeof *s->waiting);
    if (!s->waiting) return TL_ENOMEM;
    return tl_class_list_beside(&s->names, s->run->arena, &path, 1);
}

static tl_status look_through(showing *s)
{
    tl_tfrecord_cursor at = {.file = s->file};
    tl_tfrecord r;
    TL_TRY(begin(s));
    for (bool more = true;;) {
        tl_status st = tl_tfrecord_next(&at, &r, &more);
        if (st != TL_OK) return report_damage(s);
        if (!more) break;
        TL_TRY(note_record(s, &r));
    }
    TL_TRY(report(s, true));
    return s->images.bad.count ? tli_image_facts_fail(&s->images, tl_tfrecord_path(s->file))
                               : TL_OK;
}

tl_status tli_data_show_records(tli_run *run, const tl_tfrecord_file *f,
                                const tli_data_flags *given)
{
    showing s = {.run = run,
                 .file = f,
                 .given = given,
                 .wanted = given->json ? 0 : given->examples,
                 .json = given->json};
    tl_status st = look_through(&s);
    tl_pool_free(&s.pool);
    tli_image_facts_deinit(&s.images);
    tl_map_deinit(&s.columns);
    tl_map_deinit(&s.labels);
    tl_str_deinit(&s.first);
    return st;
}
