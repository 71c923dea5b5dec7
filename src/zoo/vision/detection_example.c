#include "zoo/vision/detection_example.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/io/image/image.h>
#include <tilth/io/table.h>
#include <tilth/io/tensorflow/example.h>

#include "zoo/vision/image_inputs.h"
#include "zoo/vision/picture.h"

#define ENCODED "image/encoded"
#define OBJECT "image/object/"

/* Features of a record; attributes follow. */
enum {
    PICTURE,
    SOURCE_ID,
    YMIN,
    XMIN,
    YMAX,
    XMAX,
    LABEL,
    TEXT,
    AREA,
    CROWD,
    MASK,
    FILENAME,
    FEATURES
};
static const char *const feature_names[] = {
    [PICTURE] = ENCODED,
    [SOURCE_ID] = "image/source_id",
    [YMIN] = OBJECT "bbox/ymin",
    [XMIN] = OBJECT "bbox/xmin",
    [YMAX] = OBJECT "bbox/ymax",
    [XMAX] = OBJECT "bbox/xmax",
    [LABEL] = OBJECT "class/label",
    [TEXT] = OBJECT "class/text",
    [AREA] = OBJECT "area",
    [CROWD] = OBJECT "is_crowd",
    [MASK] = OBJECT "mask",
    [FILENAME] = TLI_IMAGE_FILENAME,
};
enum { MOST_FEATURES = FEATURES + TLI_DETECTION_ATTRIBUTES };

/* A record on its way. */
typedef struct record {
    const tli_detection_decoder *decoder;
    tl_sample *s;
    tl_feature found[MOST_FEATURES];
    int64_t count; /* objects */
} record;

/* --- names of classes ------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    const tli_class_name *x = a, *y = b;
    size_t n = x->length < y->length ? x->length : y->length;
    int order = n ? memcmp(x->name, y->name, n) : 0;
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

static tl_status read_number(int32_t *out, const tl_table *t, const tl_cell *c)
{
    double number;
    if (tl_cell_number(&number, t, c) && number >= 0 && number <= INT32_MAX
        && number == floor(number)) {
        *out = (int32_t)number;
        return TL_OK;
    }
    return TL_FAIL(TL_EDATA,
                   "'%s', line %" PRId64 ": expected NUMBER,NAME, with a class from 0 on, found "
                   "'%.*s'",
                   t->name, tl_table_line(t), c->length > 80 ? 80 : (int)c->length, c->text);
}

static tl_status read_names(tli_detection_decoder *d, tl_table *t, tl_arena *arena)
{
    tli_class_name *names = NULL;
    int64_t room = 0;
    for (;; d->class_count++) {
        const tl_cell *cells;
        bool more = true;
        TL_TRY(tl_table_next(t, &cells, &more));
        if (!more) break;
        if (d->class_count == room) {
            int64_t larger = room ? 2 * room : 128;
            tli_class_name *moved = tl_arena_array(arena, larger, sizeof *moved);
            if (!moved) return TL_ENOMEM;
            if (room) memcpy(moved, names, (size_t)room * sizeof *moved);
            names = moved;
            room = larger;
        }
        tli_class_name *n = &names[d->class_count];
        TL_TRY(read_number(&n->number, t, &cells[0]));
        n->name = tl_arena_strndup(arena, cells[1].text, cells[1].length);
        n->length = cells[1].length;
        if (!n->name) return TL_ENOMEM;
    }
    if (names) qsort(names, (size_t)d->class_count, sizeof *names, compare_names);
    for (int64_t i = 1; i < d->class_count; i++)
        if (compare_names(&names[i - 1], &names[i]) == 0)
            return TL_FAIL(TL_EDATA, "'%s': the class '%s' is there twice", t->name, names[i].name);
    d->classes = names;
    return TL_OK;
}

static tl_status open_label_map(tli_detection_decoder *d, const char *path, tl_arena *arena)
{
    tl_table *t;
    if (!*path)
        return TL_FAIL(TL_EINVAL, "decoder.label_map_decoder.label_map: it is empty; name a CSV "
                                  "file with lines NUMBER,NAME");
    TL_TRY(tl_table_open(&t, path, &(tl_table_args){.header = TL_HEADER_NO, .delimiter = ','}));
    tl_status st =
        t->columns == 2
            ? read_names(d, t, arena)
            : TL_FAIL(TL_EDATA, "'%s' has %" PRId64 " columns; expected lines NUMBER,NAME", path,
                      t->columns);
    tl_table_free(&t);
    return st;
}

/* --- opening ---------------------------------------------------------------------------------- */

static tl_status open_attributes(tli_detection_decoder *d, tl_strings names, tl_ints sizes,
                                 tl_arena *arena)
{
    if (names.count > TLI_DETECTION_ATTRIBUTES)
        return TL_FAIL(TL_ELIMIT, "attribute_names: there are %" PRId64 ", and at most %d can be",
                       names.count, TLI_DETECTION_ATTRIBUTES);
    if (sizes.count && sizes.count != names.count)
        return TL_FAIL(TL_EINVAL,
                       "the model has %" PRId64 " attributes, and decoder.attribute_names %" PRId64,
                       sizes.count, names.count);
    for (int64_t i = 0; i < names.count; i++) {
        d->attributes[i] = tl_arena_printf(arena, OBJECT "attribute/%s", names.items[i]);
        d->fields[i] = tl_arena_printf(arena, "attribute/%s", names.items[i]);
        d->sizes[i] = sizes.count ? sizes.items[i] : 1;
        if (!d->attributes[i] || !d->fields[i]) return TL_ENOMEM;
        for (int64_t k = 0; k < i; k++)
            if (strcmp(names.items[i], names.items[k]) == 0)
                return TL_FAIL(TL_EINVAL, "attribute_names: '%s' is there twice", names.items[i]);
    }
    d->attribute_count = names.count;
    return TL_OK;
}

tl_status tli_detection_decoder_open(tli_detection_decoder *out, const tl_oneof *config,
                                     tl_ints sizes, tl_arena *arena)
{
    *out = (tli_detection_decoder){0};
    if (config->type && strcmp(config->type, "label_map_decoder") == 0) {
        const tl_label_map_decoder *m = config->value;
        if (!m) return open_label_map(out, "", arena);
        out->regenerate_source_id = m->regenerate_source_id;
        out->mask_threshold = m->mask_binarize_threshold;
        out->named = true;
        TL_TRY(open_attributes(out, (tl_strings){0}, sizes, arena));
        return open_label_map(out, m->label_map, arena);
    }
    const tl_simple_decoder *d = config->value;
    if (!d) return open_attributes(out, (tl_strings){0}, sizes, arena);
    out->regenerate_source_id = d->regenerate_source_id;
    out->mask_threshold = d->mask_binarize_threshold;
    return open_attributes(out, d->attribute_names, sizes, arena);
}

/* --- reading ---------------------------------------------------------------------------------- */

static tl_status wrong_count(const char *name, int64_t have, int64_t want)
{
    return TL_FAIL(TL_EINVAL,
                   "'%s' has %" PRId64 " values, and '" OBJECT "bbox/ymin' says that there are "
                   "%" PRId64 " objects",
                   name, have, want);
}

static tl_status check_finite(const char *name, int64_t i, float value)
{
    if (isfinite(value)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "'%s' of object %" PRId64 " is not a finite number", name, i);
}

static tl_status read_boxes(record *r)
{
    r->count = r->found[YMIN].count;
    float *out = tl_sample_add(r->s, TLI_DETECTION_BOXES, TL_F32, TL_SHAPE(r->count, 4));
    float *side = tl_sample_scratch(r->s, (size_t)r->count * sizeof *side);
    if (!out || !side) return tl_error_code();
    for (int k = 0; k < 4; k++) {
        const char *name = feature_names[YMIN + k];
        const tl_feature *f = &r->found[YMIN + k];
        if (f->count != r->count) return wrong_count(name, f->count, r->count);
        if (r->count) TL_TRY(tl_feature_floats(f, name, side, r->count));
        for (int64_t i = 0; i < r->count; i++) {
            TL_TRY(check_finite(name, i, side[i]));
            out[4 * i + k] = side[i];
        }
    }
    return TL_OK;
}

/* Model Garden's number of what the file does not name. */
static int32_t find_class(const tli_detection_decoder *d, const tl_bytes *text)
{
    const tli_class_name key = {text->data, text->size, 0};
    const tli_class_name *found = d->class_count ? bsearch(&key, d->classes, (size_t)d->class_count,
                                                           sizeof key, compare_names)
                                                 : NULL;
    return found ? found->number : -1;
}

static tl_status read_named_classes(record *r, int32_t *out)
{
    tl_bytes *texts = tl_sample_scratch(r->s, (size_t)r->count * sizeof *texts);
    if (!texts) return tl_error_code();
    TL_TRY(tl_feature_bytes(&r->found[TEXT], feature_names[TEXT], texts, r->count));
    for (int64_t i = 0; i < r->count; i++) out[i] = find_class(r->decoder, &texts[i]);
    return TL_OK;
}

/* Integers, each within 32 bits. */
static tl_status read_ints(record *r, int feature, int32_t *out)
{
    const char *name = feature_names[feature];
    int64_t *values = tl_sample_scratch(r->s, (size_t)r->count * sizeof *values);
    if (!values) return tl_error_code();
    TL_TRY(tl_feature_ints(&r->found[feature], name, values, r->count));
    for (int64_t i = 0; i < r->count; i++) {
        out[i] = (int32_t)values[i];
        if (out[i] != values[i])
            return TL_FAIL(TL_EINVAL, "'%s' of object %" PRId64 " is %" PRId64, name, i, values[i]);
    }
    return TL_OK;
}

static tl_status read_classes(record *r)
{
    int feature = r->decoder->named ? TEXT : LABEL;
    int64_t have = r->found[feature].count;
    int32_t *out = tl_sample_add(r->s, TLI_DETECTION_CLASSES, TL_I32, TL_SHAPE(r->count));
    if (!out) return tl_error_code();
    if (have != r->count) return wrong_count(feature_names[feature], have, r->count);
    if (!have) return TL_OK;
    return feature == TEXT ? read_named_classes(r, out) : read_ints(r, LABEL, out);
}

static tl_status read_attributes(record *r)
{
    const tli_detection_decoder *d = r->decoder;
    for (int64_t a = 0; a < d->attribute_count; a++) {
        const tl_feature *f = &r->found[FEATURES + a];
        int64_t wanted = r->count * d->sizes[a];
        float *out = tl_sample_add(r->s, d->fields[a], TL_F32, TL_SHAPE(r->count, d->sizes[a]));
        int64_t *values = tl_sample_scratch(r->s, (size_t)wanted * sizeof *values);
        if (!out || !values) return tl_error_code();
        if (f->count != wanted)
            return TL_FAIL(TL_EINVAL,
                           "'%s' has %" PRId64 " values; expected %" PRId64 " for each of %" PRId64
                           " objects",
                           d->attributes[a], f->count, d->sizes[a], r->count);
        if (!wanted) continue;
        TL_TRY(tl_feature_ints(f, d->attributes[a], values, wanted));
        for (int64_t i = 0; i < wanted; i++) out[i] = (float)values[i];
    }
    return TL_OK;
}

/* Lists that may be missing as a whole. */
static tl_status read_crowds(record *r)
{
    int64_t have = r->found[CROWD].count;
    int32_t *out = tl_sample_add(r->s, TLI_TRUTH_CROWDS, TL_I32, TL_SHAPE(have));
    if (!out) return tl_error_code();
    if (have && have != r->count) return wrong_count(feature_names[CROWD], have, r->count);
    if (have) TL_TRY(read_ints(r, CROWD, out));
    for (int64_t i = 0; i < have; i++) out[i] = out[i] != 0;
    return TL_OK;
}

static tl_status read_areas(record *r)
{
    int64_t have = r->found[AREA].count;
    float *out = tl_sample_add(r->s, TLI_TRUTH_AREAS, TL_F32, TL_SHAPE(have));
    if (!out) return tl_error_code();
    if (have && have != r->count) return wrong_count(feature_names[AREA], have, r->count);
    if (have) TL_TRY(tl_feature_floats(&r->found[AREA], feature_names[AREA], out, have));
    for (int64_t i = 0; i < have; i++) TL_TRY(check_finite(feature_names[AREA], i, out[i]));
    return TL_OK;
}

/* --- ids -------------------------------------------------------------------------------------- */

static tl_status parse_id(int64_t *out, const tl_bytes *text)
{
    char digits[24], *end;
    size_t n = text->size;
    if (n > 0 && n < sizeof digits) {
        memcpy(digits, text->data, n);
        digits[n] = '\0';
        bool plain = strspn(digits + (digits[0] == '-'), "0123456789") == n - (digits[0] == '-');
        *out = strtoll(digits, &end, 10);
        if (plain && end == digits + n && n - (digits[0] == '-') > 0 && n < 20) return TL_OK;
    }
    return TL_FAIL(TL_EINVAL,
                   "'image/source_id' is '%.*s', and not a whole number: set "
                   "decoder.simple_decoder.regenerate_source_id for numbers made of the pictures",
                   n > 80 ? 80 : (int)n, text->data);
}

static tl_status read_source_id(record *r, const tl_bytes *picture)
{
    const tl_feature *f = &r->found[SOURCE_ID];
    tl_bytes text = {0};
    int64_t *out = tl_sample_add(r->s, TLI_TRUTH_SOURCE_ID, TL_I64, TL_SCALAR);
    if (!out) return tl_error_code();
    if (!r->decoder->regenerate_source_id) {
        if (f->kind == TL_FEATURE_NONE)
            return TL_FAIL(TL_ENOTFOUND,
                           "the example has no 'image/source_id': set "
                           "decoder.simple_decoder.regenerate_source_id for numbers made of the "
                           "pictures");
        TL_TRY(tl_feature_bytes(f, feature_names[SOURCE_ID], &text, 1));
        if (text.size) return parse_id(out, &text);
    }
    *out = tl_source_id_of(picture->data, picture->size);
    return TL_OK;
}

/* --- pictures and masks ----------------------------------------------------------------------- */

static tl_status decode_mask(uint8_t *out, const tl_bytes *file, const tl_image_head *head,
                             const tl_opt_double *threshold)
{
    tl_image mask = TL_IMAGE_INIT;
    double least = threshold->set ? threshold->value : 0;
    tl_status st = tl_image_decode(&mask, file->data, file->size, &(tl_image_args){.channels = 1});
    if (st == TL_OK && (mask.height != head->height || mask.width != head->width))
        st = TL_FAIL(TL_EINVAL,
                     "it has %" PRId64 " x %" PRId64 " pixels, and the picture %" PRId64
                     " x %" PRId64,
                     mask.height, mask.width, head->height, head->width);
    for (int64_t i = 0; st == TL_OK && i < mask.height * mask.width; i++)
        out[i] = mask.pixels[i] > least;
    tl_image_deinit(&mask);
    return st;
}

static tl_status read_masks(record *r, const tl_image_head *head)
{
    const tl_feature *f = &r->found[MASK];
    int64_t pixels = head->height * head->width;
    if (f->count != r->count) return wrong_count(feature_names[MASK], f->count, r->count);
    uint8_t *out =
        tl_sample_add(r->s, TLI_TRUTH_MASKS, TL_U8, TL_SHAPE(r->count, head->height, head->width));
    tl_bytes *files = tl_sample_scratch(r->s, (size_t)r->count * sizeof *files);
    if (!out || !files) return tl_error_code();
    if (r->count) TL_TRY(tl_feature_bytes(f, feature_names[MASK], files, r->count));
    for (int64_t i = 0; i < r->count; i++)
        TL_TRY_NOTE(decode_mask(out + i * pixels, &files[i], head, &r->decoder->mask_threshold),
                    "'%s' of object %" PRId64, feature_names[MASK], i);
    return TL_OK;
}

/* For people, where it is there. */
static tl_status read_filename(record *r)
{
    const tl_feature *f = &r->found[FILENAME];
    tl_bytes text = {0};
    if (f->kind == TL_FEATURE_BYTES && f->count == 1)
        TL_TRY(tl_feature_bytes(f, TLI_IMAGE_FILENAME, &text, 1));
    return tl_sample_show(r->s, TLI_IMAGE_FILENAME, TL_U8, TL_SHAPE((int64_t)text.size), text.data);
}

static tl_status read_picture(record *r)
{
    const tli_detection_decoder *d = r->decoder;
    const tl_feature *f = &r->found[PICTURE];
    tl_bytes file;
    tl_image_head head;
    if (f->kind == TL_FEATURE_NONE)
        return TL_FAIL(TL_ENOTFOUND, "the example has no feature '" ENCODED "'");
    TL_TRY(tl_feature_bytes(f, ENCODED, &file, 1));
    TL_TRY_NOTE(tl_image_look(&head, file.data, file.size), "'" ENCODED "'");
    if (d->truth) TL_TRY(read_source_id(r, &file));
    if (d->masks) TL_TRY(read_masks(r, &head));
    TL_TRY(
        tl_sample_show(r->s, TLI_DETECTION_IMAGE, TL_U8, TL_SHAPE((int64_t)file.size), file.data));
    return d->keep_pixels ? tli_picture_decode(r->s, TLI_DETECTION_IMAGE, 3) : TL_OK;
}

tl_status tli_detection_decode(void *self, tl_sample *s)
{
    const tli_detection_decoder *d = self;
    const char *names[MOST_FEATURES];
    record r = {.decoder = d, .s = s};
    if (!s->record) return TL_OK; // made up
    memcpy(names, feature_names, sizeof feature_names);
    for (int64_t i = 0; i < d->attribute_count; i++) names[FEATURES + i] = d->attributes[i];
    TL_TRY(
        tl_example_find(r.found, names, FEATURES + d->attribute_count, s->record, s->record_size));
    TL_TRY(read_boxes(&r));
    TL_TRY(read_classes(&r));
    TL_TRY(read_attributes(&r));
    TL_TRY(read_crowds(&r));
    if (d->truth) TL_TRY(read_areas(&r));
    if (d->filenames) TL_TRY(read_filename(&r));
    return read_picture(&r);
}
