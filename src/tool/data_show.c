#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/map.h>
#include <tilth/io/example.h>
#include <tilth/io/image.h>

#include "core/element.h"
#include "tool/ckpt.h"
#include "tool/data.h"

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
        if (f->kind == TL_FEATURE_BYTES)
            add_bytes(out, bytes[i]);
        else if (f->kind == TL_FEATURE_FLOATS)
            tl_str_addf(out, "%g", (double)floats[i]);
        else
            tl_str_addf(out, "%" PRId64, ints[i]);
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

/* A file of records while it is looked through. */
typedef struct showing {
    tli_run *run;
    const tl_tfrecord_file *file;
    tl_map columns;                 /* by name */
    tl_str first;                   /* the first examples */
    int64_t records, wanted, other; /* `other` are no examples */
    size_t least, most;
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
    tli_ckpt_add_clean(&clean, tl_str_text(&text));
    tl_str_addf(&s->first, "%s\n", tl_str_text(&clean));
    tl_str_deinit(&text);
    tl_str_deinit(&clean);
    return st;
}

static tl_status note_record(showing *s, const tl_tfrecord *r)
{
    tl_example_reader in = tl_example_read(r->data, r->size);
    tl_feature f;
    bool show = s->records < s->wanted;
    if (show)
        tl_str_addf(&s->first, "record %" PRId64 " at byte %" PRId64 ":\n", r->number, r->offset);
    for (bool more = true;;) {
        if (tl_example_next(&in, &f, &more) != TL_OK) {
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
    return TL_OK;
}

static int by_name(const void *a, const void *b)
{
    const column *const *k = a, *const *l = b;
    return strcmp((*k)->name, (*l)->name);
}

static void add_range(tl_str *out, int64_t least, int64_t most)
{
    if (least == most)
        tl_str_addf(out, "%" PRId64, least);
    else
        tl_str_addf(out, "%" PRId64 " to %" PRId64, least, most);
}

static tl_status add_columns(showing *s)
{
    tl_str *out = &s->run->text;
    int64_t count = tl_map_count(&s->columns), width = 0;
    const column **sorted = tl_arena_array(s->run->arena, count ? count : 1, sizeof *sorted);
    if (!sorted) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        sorted[i] = tl_map_at(&s->columns, i);
        int64_t length = (int64_t)strlen(sorted[i]->name);
        width = length > width ? length : width;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, by_name);
    for (int64_t i = 0; i < count; i++) {
        const column *c = sorted[i];
        tl_str_add(out, "  ");
        tli_ckpt_add_clean(out, c->name);
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

static tl_status report(showing *s, bool intact)
{
    tl_str *out = &s->run->text;
    tli_ckpt_add_clean(out, tl_tfrecord_path(s->file));
    tl_str_addf(out, ": TFRecord%s, %" PRId64 " records",
                tl_tfrecord_is_packed(s->file) ? ", compressed" : "", s->records);
    tl_str_add(out, ", ");
    tli_data_add_size(out, (double)tl_tfrecord_size(s->file));
    tl_str_add(out, intact ? ", all checksums are right\n" : ", DAMAGED behind them\n");
    if (s->records) {
        tl_str_add(out, "records have ");
        add_range(out, (int64_t)s->least, (int64_t)s->most);
        tl_str_add(out, " bytes");
        if (s->other) tl_str_addf(out, "; %" PRId64 " are no tf.train.Example", s->other);
        tl_str_addc(out, '\n');
    }
    TL_TRY(add_columns(s));
    tl_str_add(out, tl_str_text(&s->first));
    return tl_str_status(out);
}

// What was read before the damage is shown all the same.
static tl_status report_damage(showing *s)
{
    tl_error why;
    tl_error_save(&why);
    TL_TRY(report(s, false));
    tl_error_restore(&why);
    return tli_data_damaged();
}

static tl_status show_records(tli_run *run, const tl_tfrecord_file *f, int64_t examples)
{
    showing s = {.run = run, .file = f, .wanted = examples};
    tl_tfrecord_cursor at = {.file = f};
    tl_tfrecord r;
    tl_status st;
    for (bool more = true;;) {
        st = tl_tfrecord_next(&at, &r, &more);
        if (st != TL_OK || !more) break;
        TL_TRY_DONE(st, note_record(&s, &r));
    }
    st = st == TL_OK ? report(&s, true) : report_damage(&s);
done:
    tl_map_deinit(&s.columns);
    tl_str_deinit(&s.first);
    return st;
}

/* --- idx files -------------------------------------------------------------------------------- */

static void add_statistics(tl_str *out, const tl_idx *x)
{
    int64_t count = tl_shape_count(&x->shape);
    double least = 0, greatest = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double v = tli_element_get(x->dtype, x->data, i);
        least = i == 0 || v < least ? v : least;
        greatest = i == 0 || v > greatest ? v : greatest;
        sum += v;
    }
    if (count)
        tl_str_addf(out, "least %g, mean %g, greatest %g\n", least, sum / (double)count, greatest);
}

// Labels: how many of each.
static void add_classes(tl_str *out, const tl_idx *x)
{
    int64_t counts[256] = {0}, others = 0;
    for (int64_t i = 0; i < x->shape.dims[0]; i++) {
        double v = tli_element_get(x->dtype, x->data, i);
        if (v >= 0 && v < 256)
            counts[(int)v]++;
        else
            others++;
    }
    for (int i = 0; i < 256; i++)
        if (counts[i]) tl_str_addf(out, "  %d: %" PRId64 " times\n", i, counts[i]);
    if (others) tl_str_addf(out, "  others: %" PRId64 " times\n", others);
}

// An image in letters, dark to bright; two rows of pixels become one of letters, for letters are
// tall.
static void draw(tl_str *out, const uint8_t *pixels, int64_t height, int64_t width)
{
    static const char shades[] = " .:-=+*#%@";
    for (int64_t y = 0; y < height; y += 2) {
        tl_str_add(out, "  ");
        for (int64_t x = 0; x < width; x++) {
            int upper = pixels[y * width + x],
                lower = y + 1 < height ? pixels[(y + 1) * width + x] : upper;
            tl_str_addc(out, shades[(upper + lower) * 10 / 511]);
        }
        tl_str_addc(out, '\n');
    }
}

static tl_status show_array(tli_run *run, const char *path, const tl_idx *x, int64_t examples)
{
    enum { WIDEST = 76 };
    tl_str *out = &run->text;
    char shape[TL_SHAPE_TEXT];
    int64_t items = x->shape.dims[0];
    tli_ckpt_add_clean(out, path);
    tl_str_addf(out, ": idx%s, %s %s, ", x->packed ? ", compressed" : "",
                tl_dtype_name(x->dtype), tl_shape_text(shape, &x->shape));
    tli_data_add_size(out, (double)x->item_size * (double)items);
    tl_str_addc(out, '\n');
    add_statistics(out, x);
    if (x->shape.rank == 1 && tl_dtype_classify(x->dtype) == TL_CLASS_INT) add_classes(out, x);
    bool drawn = x->shape.rank == 3 && x->dtype == TL_U8 && x->shape.dims[2] <= WIDEST;
    for (int64_t i = 0; drawn && i < items && i < examples; i++) {
        tl_str_addf(out, "item %" PRId64 ":\n", i);
        draw(out, tl_idx_item(x, i), x->shape.dims[1], x->shape.dims[2]);
    }
    return tl_str_status(out);
}

/* --- folders ---------------------------------------------------------------------------------- */

static tl_status show_image(tli_run *run, const tl_image_folder *f, int64_t i)
{
    tl_file_mapping file;
    tl_image_head head;
    const tl_image_file *image = &f->files[i];
    TL_TRY(tl_file_map(&file, image->path));
    tl_status st = tl_image_look(&head, file.data, file.size);
    if (st == TL_OK) tli_ckpt_add_clean(&run->text, image->path);
    if (st == TL_OK)
        tl_str_addf(&run->text,
                    ": class %" PRId64 ", %s %" PRId64 " x %" PRId64 " x %" PRId64 ", %zu bytes\n",
                    image->label, tl_image_format_name(head.format), head.height,
                    head.width, head.channels, file.size);
    tl_file_unmap(&file);
    if (st == TL_EINVAL) st = tli_data_damaged();
    return st == TL_OK ? st : tl_error_note(st, "'%s'", image->path);
}

static tl_status show_folder(tli_run *run, const char *path, const tl_image_folder *f,
                             int64_t examples)
{
    int64_t *counts = tl_arena_array(run->arena, f->class_count, sizeof *counts);
    double bytes = 0;
    if (!counts) return TL_ENOMEM;
    for (int64_t i = 0; i < f->count; i++) {
        tl_file_info info;
        TL_TRY(tl_file_stat(&info, f->files[i].path));
        bytes += (double)info.size;
        counts[f->files[i].label]++;
    }
    tli_ckpt_add_clean(&run->text, path);
    tl_str_addf(&run->text, ": folder of images, %" PRId64 " classes, %" PRId64 " images, ", f->class_count, f->count);
    tli_data_add_size(&run->text, bytes);
    tl_str_addc(&run->text, '\n');
    for (int64_t i = 0; i < f->class_count; i++) {
        tl_str_addf(&run->text, "  %" PRId64 "  ", i);
        tli_ckpt_add_clean(&run->text, f->classes[i]);
        tl_str_addf(&run->text, ", %" PRId64 " image%s\n", counts[i], counts[i] == 1 ? "" : "s");
    }
    for (int64_t i = 0; i < f->count && i < examples; i++) TL_TRY(show_image(run, f, i));
    return TL_OK;
}

/* --- any -------------------------------------------------------------------------------------- */

static tl_status show(tli_run *run, const char *word, int64_t examples)
{
    tli_data_input in;
    tl_status st = tli_data_open(&in, run->arena, word);
    if (st == TL_OK && in.kind == TLI_DATA_TFRECORD)
        st = show_records(run, in.records, examples);
    else if (st == TL_OK && in.kind == TLI_DATA_IDX)
        st = show_array(run, word, &in.array, examples);
    else if (st == TL_OK)
        st = show_folder(run, word, &in.folder, examples);
    tli_data_close(&in);
    return st;
}

// One file after the other; what cannot be shown is told at the end.
static tl_status show_all(tli_run *run, int64_t examples, tl_status *first, tl_str *failures)
{
    for (int64_t i = 1; i < run->words.count; i++) {
        tl_status st = show(run, run->words.items[i], examples);
        if (st == TL_ENOMEM) return st;
        if (st != TL_OK) tl_str_addf(failures, "%s%s", *first ? "\n" : "", tl_error_message());
        if (st != TL_OK && *first == TL_OK) *first = st;
        if (i + 1 == run->words.count && *first == TL_OK) return TL_OK; // the rest is written as ever
        if (i + 1 < run->words.count && run->text.length) tl_str_addc(&run->text, '\n');
        TL_TRY(tli_write_out(run->tool, &run->text));
        tl_str_cut(&run->text, 0);
    }
    return TL_OK;
}

tl_status tli_data_show(tli_run *run, const void *flags)
{
    const tli_data_flags *given = flags;
    tl_str failures = TL_STR_INIT;
    tl_status first = TL_OK, st = show_all(run, given->examples, &first, &failures);
    if (st == TL_OK) st = tl_str_status(&failures);
    if (st == TL_OK && first != TL_OK) st = TL_FAIL(first, "%s", tl_str_text(&failures));
    tl_str_deinit(&failures);
    return st;
}
