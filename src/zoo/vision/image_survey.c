#include "zoo/vision/image_survey.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/integer.h>
#include <tilth/data/pipeline.h>
#include <tilth/io/idx.h>

#include "core/inner/element.h"
#include "zoo/vision/image_inputs.h"

enum {
    MOST_CLASSES = 1 << 20,
    COUNTED = 200000, /* records whose classes are counted; of more, these stand for all */
    SIDE = 64         /* pixels of the shorter side that are enough for means */
};

/* --- what kind of data ------------------------------------------------------------------------ */

static bool is_pair(const tl_path_list *paths)
{
    tl_idx images = {0}, labels = {0};
    if (paths->count != 2) return false;
    bool pair = tl_idx_open(&images, paths->items[0]) == TL_OK;
    bool both = pair && tl_idx_open(&labels, paths->items[1]) == TL_OK;
    bool fit = both && images.shape.rank >= 3 && labels.shape.rank == 1;
    if (both) tl_idx_close(&labels);
    if (pair) tl_idx_close(&images);
    tl_error_clear();
    return fit;
}

tl_status tli_survey_file_type(tl_image_files *out, tl_arena *arena, const tl_value *path)
{
    tl_path_list paths;
    TL_TRY(tl_paths_match(&paths, arena, path));
    *out = paths.count == 1 && tl_dir_exists(paths.items[0]) ? TL_IMAGES_FOLDER
           : is_pair(&paths)                                 ? TL_IMAGES_IDX
                                                             : TL_IMAGES_TFRECORD;
    return TL_OK;
}

/* --- one image -------------------------------------------------------------------------------- */

/* Sums over what was seen so far. */
typedef struct sums {
    int64_t sides[TLI_SURVEY_LOOKS]; /* shorter ones */
    /* every image counts as one, whatever its size */
    double sum[3], squares[3], grey, grey_squares, pixels;
    bool in_color, several_sizes;
    int64_t channels; /* of pixels that are no files */
} sums;

static void look_at_pixels(tli_survey *s, sums *t, const tl_pixels *p, int64_t height,
                           int64_t width)
{
    double sum[3] = {0}, squares[3] = {0}, grey = 0, grey_squares = 0,
           n = (double)(p->height * p->width);
    int64_t colored = 0;
    for (int64_t y = 0; y < p->height; y++) {
        const uint8_t *row = (const uint8_t *)p->data + y * p->stride;
        for (int64_t x = 0; x < p->width; x++, row += p->channels) {
            double c[3] = {row[0], row[p->channels > 2], row[p->channels > 2 ? 2 : 0]};
            double g = 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2];
            for (int k = 0; k < 3; k++) sum[k] += c[k], squares[k] += c[k] * c[k];
            grey += g;
            grey_squares += g * g;
            colored += fabs(c[0] - c[1]) > 12 || fabs(c[1] - c[2]) > 12;
        }
    }
    for (int k = 0; k < 3; k++) t->sum[k] += sum[k] / n, t->squares[k] += squares[k] / n;
    t->grey += grey / n;
    t->grey_squares += grey_squares / n;
    t->in_color |= (double)colored > 0.002 * n;
    t->several_sizes |= s->looked && (height != s->height || width != s->width);
    s->height = height;
    s->width = width;
    t->sides[s->looked++] = height < width ? height : width;
}

static tl_status look_at_file(tli_survey *s, sums *t, const tl_image_data_config *d, bool folder,
                              const void *data, size_t size)
{
    tl_image image = TL_IMAGE_INIT;
    tl_image_head head;
    tl_image_args args = {.channels = 3, .dct = TL_JPEG_FAST, .shrink = 1};
    args.orient = d->exif_orientation.set ? d->exif_orientation.value : folder;
    TL_TRY(tl_image_look(&head, data, size));
    if (args.orient) tl_image_upright(&head);
    int64_t shorter = head.height < head.width ? head.height : head.width;
    while (args.shrink < 8 && shorter / (2 * args.shrink) >= SIDE) args.shrink *= 2;
    tl_status st = tl_image_decode(&image, data, size, &args);
    if (st == TL_OK) {
        tl_pixels pixels = tl_pixels_of(&image);
        look_at_pixels(s, t, &pixels, head.height, head.width);
    }
    tl_image_deinit(&image);
    return st;
}

/* Bytes of a file, or pixels. Those that cannot be seen are counted. */
static tl_status look_at_field(tli_survey *s, sums *t, const tl_image_data_config *d, bool folder,
                               const tl_sample_field *f)
{
    tl_status st = TL_OK;
    if (s->looked == TLI_SURVEY_LOOKS) return TL_OK;
    if (f->dtype != TL_U8 || f->shape.rank < 1 || f->shape.rank > 3)
        return TL_FAIL(TL_EINVAL, "'%s' is no image", f->name);
    if (f->shape.rank == 1) {
        st = look_at_file(s, t, d, folder, f->data, (size_t)f->shape.dims[0]);
    } else {
        int64_t channels = f->shape.rank == 3 ? f->shape.dims[2] : 1;
        tl_pixels pixels = tl_pixels_new(TL_U8, f->shape.dims[0], f->shape.dims[1], channels,
                                         (void *)(uintptr_t)f->data);
        look_at_pixels(s, t, &pixels, f->shape.dims[0], f->shape.dims[1]);
        t->channels = channels;
    }
    if (st == TL_OK || st == TL_ENOMEM) return st;
    tl_error_clear();
    s->bad++;
    return TL_OK;
}

/* --- all of them ------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double deviation(double mean, double squares)
{
    double variance = squares - mean * mean;
    return variance > 1 ? sqrt(variance) : 1;
}

static tl_status sum_up(tli_survey *s, sums *t)
{
    if (!s->looked) return TL_FAIL(TL_EDATA, "none of %" PRId64 " images could be decoded", s->bad);
    double n = (double)s->looked;
    qsort(t->sides, (size_t)s->looked, sizeof *t->sides, by_number);
    s->small = t->sides[s->looked / 10];
    s->middle = t->sides[s->looked / 2];
    s->one_size = !t->several_sizes;
    s->channels = t->channels ? t->channels : t->in_color ? 3 : 1;
    for (int k = 0; k < 3; k++) {
        s->mean[k] = (s->channels == 3 ? t->sum[k] : t->grey) / n;
        s->stddev[k] =
            deviation(s->mean[k], (s->channels == 3 ? t->squares[k] : t->grey_squares) / n);
    }
    return TL_OK;
}

/* Counts of classes, as many as come. */
typedef struct tally {
    tl_arena *arena;
    int64_t *counts;
    int64_t room, classes, total;
} tally;

static tl_status count_one(tally *t, int64_t label)
{
    if (label < 0 || label >= MOST_CLASSES)
        return TL_FAIL(TL_EINVAL,
                       "an example has the class %" PRId64 "; classes are numbered from 0 on",
                       label);
    if (label >= t->room) {
        int64_t room = label + 1 > 2 * t->room ? label + 1 : 2 * t->room;
        int64_t *counts = tl_arena_array(t->arena, room, sizeof *counts);
        if (!counts) return TL_ENOMEM;
        memset(counts, 0, (size_t)room * sizeof *counts);
        if (t->room) memcpy(counts, t->counts, (size_t)t->room * sizeof *counts);
        t->counts = counts;
        t->room = room;
    }
    t->counts[label]++;
    t->total++;
    if (label >= t->classes) t->classes = label + 1;
    return TL_OK;
}

/* The classes that have names, or those that were met. */
static tl_status number_classes(tli_survey *s, tally *t)
{
    if (s->classes.count && t->classes > s->classes.count)
        return TL_FAIL(TL_EINVAL,
                       "an example has the class %" PRId64 ", and there are names for %" PRId64
                       " classes",
                       t->classes - 1, s->classes.count);
    s->class_count = s->classes.count ? s->classes.count : t->classes;
    int64_t *counts = tl_arena_array(t->arena, s->class_count, sizeof *counts);
    if (!counts) return TL_ENOMEM;
    for (int64_t i = 0; i < s->class_count; i++) counts[i] = i < t->room ? t->counts[i] : 0;
    s->counts = counts;
    return TL_OK;
}

/* --- folders ---------------------------------------------------------------------------------- */

static tl_status survey_folder(tli_survey *s, sums *t, tl_arena *arena,
                               const tl_image_data_config *d, const char *path)
{
    tl_image_folder f;
    TL_TRY(tl_image_folder_list(&f, arena,
                                &(tl_image_folder_args){.path = path, .classes = s->classes}));
    s->classes = (tl_strings){f.classes, f.class_count};
    s->class_count = f.class_count;
    s->counts = f.counts;
    s->count = f.count;
    int64_t looks = f.count < TLI_SURVEY_LOOKS ? f.count : TLI_SURVEY_LOOKS;
    for (int64_t i = 0; i < looks; i++) {
        tl_file_mapping file;
        tl_status st = tl_file_map(&file, f.files[i * f.count / looks].path);
        if (st == TL_ENOMEM) return st;
        if (st != TL_OK) {
            tl_error_clear();
            s->bad++;
            continue;
        }
        tl_sample_field bytes = {
            .name = "image",
            .dtype = TL_U8,
            .shape = TL_SHAPE((int64_t)file.size),
            .data = file.data,
        };
        st = look_at_field(s, t, d, true, &bytes);
        tl_file_unmap(&file);
        TL_TRY(st);
    }
    return TL_OK;
}

/* --- records ---------------------------------------------------------------------------------- */

typedef struct records {
    const tl_image_data_config *data;
    tl_source *source;
    tl_sample *sample;
    tl_example_features features;
    const char *image, *label;
    int64_t every, place; /* one of so many is decoded; number of this one */
    tally counts;
} records;

/* What reading finds wrong is the data, not the configuration. */
static tl_status read_failed(tl_status st)
{
    tl_error found;
    if (st != TL_EINVAL) return st;
    tl_error_save(&found);
    return TL_FAIL(TL_EDATA, "%s", found.text);
}

static tl_status take_record(records *r, tli_survey *s, sums *t, const tl_record_at *at)
{
    const tl_sample_field *f;
    int64_t label = -1;
    tl_sample_reset(r->sample);
    TL_TRY(r->source->cls->read(r->source, at, r->sample));
    if (r->sample->record) {
        TL_TRY(tl_example_decode(&r->features, r->sample));
        TL_TRY(tli_image_shape_raw(r->image, r->sample));
    }
    TL_TRY(tl_sample_get(r->sample, r->label, &f));
    if (tl_shape_count(&f->shape) == 1) label = (int64_t)tli_element_get(f->dtype, f->data, 0);
    TL_TRY(count_one(&r->counts, label));
    if (r->place++ % r->every) return TL_OK;
    TL_TRY(tl_sample_get(r->sample, r->image, &f));
    return look_at_field(s, t, r->data, false, f);
}

static tl_status take_part(records *r, tli_survey *s, sums *t, int64_t part)
{
    int64_t length = 0;
    tl_record_at next = {.part = part};
    if (!r->source->cls->step) TL_TRY(r->source->cls->length(r->source, part, &length));
    for (bool more = true; r->counts.total < COUNTED;) {
        tl_record_at at = next;
        if (r->source->cls->step) {
            TL_TRY(r->source->cls->step(r->source, &next, &more));
            if (!more) break;
        } else if (next.number++ >= length) {
            break;
        }
        tl_status st = take_record(r, s, t, &at);
        if (st != TL_OK)
            return tl_error_note(
                st, "record %" PRId64 " of '%s'", at.number,
                r->source->cls->part_name ? r->source->cls->part_name(r->source, part) : "");
    }
    return TL_OK;
}

static tl_status survey_records(tli_survey *s, sums *t, records *r)
{
    TL_TRY(read_failed(tl_source_count(r->source, &s->count)));
    if (!s->count) return TL_FAIL(TL_EDATA, "there are no examples");
    int64_t seen = s->count < COUNTED ? s->count : COUNTED;
    r->every = tl_div_up(seen, TLI_SURVEY_LOOKS);
    TL_TRY(tl_sample_new(&r->sample));
    tl_status st = TL_OK;
    for (int64_t i = 0; i < r->source->parts && st == TL_OK; i++)
        st = read_failed(take_part(r, s, t, i));
    if (st == TL_OK) st = number_classes(s, &r->counts);
    tl_sample_free(&r->sample);
    return st;
}

static tl_status survey_files(tli_survey *s, sums *t, tl_arena *arena,
                              const tl_image_data_config *d, tl_image_files type,
                              const tl_path_list *paths)
{
    const tl_feature_spec features[] = {
        {.spec = {d->image_field_key, TL_U8, TL_SHAPE(-1)}},
        {.spec = {d->label_field_key, TL_I64, TL_SHAPE(-1)}},
        {.spec = {TLI_IMAGE_FORMAT, TL_U8, TL_SHAPE(-1)}, .optional = true},
    };
    records r = {.data = d,
                 .features = {features, TL_COUNT(features)},
                 .image = d->image_field_key,
                 .label = d->label_field_key,
                 .counts = {.arena = arena}};
    if (type == TL_IMAGES_IDX) {
        r.image = "image";
        r.label = "label";
        if (paths->count != 2)
            return TL_FAIL(TL_EINVAL,
                           "%" PRId64 " files are named; file_type idx needs two: images, labels",
                           paths->count);
        const tl_idx_field pair[] = {{r.image, paths->items[0]}, {r.label, paths->items[1]}};
        TL_TRY(read_failed(tl_source_idx(&r.source, pair, 2)));
    } else {
        if (!s->classes.count)
            TL_TRY(tl_class_list_beside(&s->classes, arena, paths->items, paths->count));
        TL_TRY(read_failed(tl_source_tfrecords(&r.source, paths->items, paths->count, NULL)));
    }
    tl_status st = survey_records(s, t, &r);
    tl_source_free(&r.source);
    return st;
}

tl_status tli_survey_take(tli_survey *out, tl_arena *arena, const tl_image_data_config *data,
                          tl_image_files file_type, const tl_value *path, tl_strings names)
{
    sums t = {0};
    tl_path_list paths;
    *out = (tli_survey){.classes = names};
    TL_TRY(tl_paths_match(&paths, arena, path));
    if (file_type != TL_IMAGES_FOLDER)
        TL_TRY(survey_files(out, &t, arena, data, file_type, &paths));
    else if (paths.count == 1) TL_TRY(survey_folder(out, &t, arena, data, paths.items[0]));
    else return TL_FAIL(TL_EINVAL, "%" PRId64 " folders are named; one is expected", paths.count);
    return sum_up(out, &t);
}
