/* What a detector has found, told and drawn. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/data/draw.h>
#include <tilth/io/image/image.h>
#include <tilth/io/image/png.h>

#include "tool/confusion.h"
#include "tool/predict.h"

/* One object of an answer. */
typedef struct object {
    double score, box[4];
    int64_t class_number;
} object;

/* The next one from `*at` on that is told; false: there is none. */
static bool next_object(object *out, const tli_asking *a, const tl_prediction *found, int64_t *at)
{
    for (; *at + TL_OBJECT_NUMBERS <= found->count; *at += TL_OBJECT_NUMBERS) {
        const float *v = found->values + *at;
        const double score = (double)v[TL_OBJECT_SCORE];
        if (!(score > 0 && score >= a->flags->score)) continue;
        *out = (object){.score = score, .class_number = (int64_t)v[TL_OBJECT_CLASS]};
        for (int i = 0; i < 4; i++) out->box[i] = (double)v[TL_OBJECT_BOX + i];
        *at += TL_OBJECT_NUMBERS;
        return true;
    }
    return false;
}

enum { NAME = 256 };

/* Names begin with class 1: 0 is the background. */
static const char *name_of(char room[NAME], const tli_asking *a, int64_t class_number)
{
    const tl_strings names = tl_predictor_form(a->p).names;
    if (class_number >= 1 && class_number <= names.count)
        snprintf(room, NAME, "%s", names.items[class_number - 1]);
    else snprintf(room, NAME, "%" PRId64, class_number);
    return room;
}

void tli_objects_plainly(tl_str *out, const tli_asking *a, const char *file,
                         const tl_prediction *found)
{
    object o;
    char name[NAME];
    int64_t told = 0;
    tl_str_addf(out, "%s:", file);
    for (int64_t at = 0; next_object(&o, a, found, &at); told++)
        tl_str_addf(out, "%s %s %.3f [%.0f, %.0f, %.0f, %.0f]", told ? "," : "",
                    name_of(name, a, o.class_number), o.score, o.box[0], o.box[1], o.box[2],
                    o.box[3]);
    tl_str_add(out, told ? "\n" : " nothing\n");
}

void tli_objects_head(tl_str *out)
{
    tl_str_add(out, "file,class,score,ymin,xmin,ymax,xmax\n");
}

void tli_objects_rows(tl_str *out, const tli_asking *a, const char *file,
                      const tl_prediction *found)
{
    object o;
    char name[NAME];
    for (int64_t at = 0; next_object(&o, a, found, &at);) {
        tli_csv_add(out, file);
        tl_str_addc(out, ',');
        tli_csv_add(out, name_of(name, a, o.class_number));
        tl_str_addf(out, ",%.7g,%.7g,%.7g,%.7g,%.7g\n", o.score, o.box[0], o.box[1], o.box[2],
                    o.box[3]);
    }
}

static double rounded(double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.7g", value);
    return tl_strtod(text, NULL);
}

void tli_objects_json(tl_str *out, const tli_asking *a, const char *file,
                      const tl_prediction *found)
{
    tli_json j = {.out = out};
    object o;
    char name[NAME];
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "file", file);
    tli_json_begin(&j, "objects", '[');
    for (int64_t at = 0; next_object(&o, a, found, &at);) {
        tli_json_begin(&j, NULL, '{');
        tli_json_text(&j, "class", name_of(name, a, o.class_number));
        tli_json_int(&j, "class_id", o.class_number);
        tli_json_number(&j, "score", rounded(o.score));
        tli_json_begin(&j, "box", '[');
        for (int i = 0; i < 4; i++) tli_json_number(&j, NULL, rounded(o.box[i]));
        tli_json_end(&j, ']');
        tli_json_end(&j, '}');
    }
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
}

/* --- pictures --------------------------------------------------------------------------------- */

static void draw_all(const tli_asking *a, const tl_pixels *picture, const tl_prediction *found)
{
    object o;
    char name[NAME], text[NAME + 16];
    for (int64_t at = 0; next_object(&o, a, found, &at);) {
        snprintf(text, sizeof text, "%s: %d%%", name_of(name, a, o.class_number),
                 (int)(100 * o.score));
        tl_draw_box(picture, o.box, tl_draw_color(o.class_number), text);
    }
}

/* "photos/cat.jpg" and "all.tfrecord[3]" become "photos_cat.jpg.png", "all.tfrecord_3.png". */
static char *picture_path(tl_arena *arena, const char *folder, const char *file)
{
    while (*file == '/' || *file == '.') file++;
    char *name = tl_arena_printf(arena, "%s/%s", folder, file);
    if (!name) return NULL;
    char *end = name + strlen(name), *begin = name + strlen(folder) + 1;
    if (end > begin && end[-1] == ']') end[-1] = '\0';
    for (char *c = begin; *c; c++)
        if (*c == '/' || *c == '[') *c = '_';
    return tl_arena_printf(arena, "%s.png", name);
}

static tl_status decode(tl_image *out, const tl_query *q)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    const void *data = q->data;
    size_t size = q->size;
    if (q->shape.rank) {
        const int64_t channels = q->shape.rank == 3 ? q->shape.dims[2] : 1;
        TL_TRY(tl_image_resize_memory(out, q->shape.dims[0], q->shape.dims[1], 3));
        for (int64_t i = 0; i < q->shape.dims[0] * q->shape.dims[1] * 3; i++)
            out->pixels[i] =
                ((const uint8_t *)data)[i / 3 * channels + (channels == 3 ? i % 3 : 0)];
        return TL_OK;
    }
    if (!data) {
        TL_TRY(tl_file_map(&file, q->file));
        data = file.data;
        size = file.size;
    }
    tl_status st =
        tl_image_decode(out, data, size, &(tl_image_args){.channels = 3, .orient = !q->of_data});
    tl_file_unmap(&file);
    return st;
}

tl_status tli_objects_draw(const tli_asking *a, const tl_query *query, const tl_prediction *found)
{
    tl_image image = TL_IMAGE_INIT;
    tl_str png = TL_STR_INIT;
    tl_arena *arena = NULL;
    const char *path = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, decode(&image, query));
    const tl_pixels picture = tl_pixels_of(&image);
    draw_all(a, &picture, found);
    path = picture_path(arena, a->flags->pictures, query->file);
    if (!path) st = TL_ENOMEM;
    if (st == TL_OK)
        st = tl_png_encode(&png, &(tl_png_image){image.width, image.height, 3, image.pixels});
    if (st == TL_OK) st = tl_file_write_atomic(path, tl_str_text(&png), png.length);
done:
    tl_str_deinit(&png);
    tl_image_deinit(&image);
    tl_arena_free(&arena);
    return st == TL_OK ? TL_OK : tl_error_note(st, "--pictures: '%s'", query->file);
}
