#include <tilth/io/coco/annotations.h>

#include <inttypes.h>

#include <tilth/base/file.h>

#include "io/inner/json_text.h"

/* A file while it is written: one entry at a time. */
typedef struct writing {
    tl_file_writer *file;
    tl_str text;         /* of what goes to the file next */
    bool results, masks; /* of results: they have masks, and no boxes */
} writing;

static tl_status put(writing *w)
{
    TL_TRY(tl_str_status(&w->text));
    TL_TRY(tl_file_writer_write(w->file, tl_str_text(&w->text), w->text.length));
    tl_str_cut(&w->text, 0);
    return TL_OK;
}

static tl_status put_mask(tli_json *j, const tl_rle *mask)
{
    tl_str counts = TL_STR_INIT;
    tl_status st = tl_rle_to_text(&counts, mask);
    tli_json_begin(j, "segmentation", '{');
    tli_json_begin(j, "size", '[');
    tli_json_int(j, NULL, mask->height);
    tli_json_int(j, NULL, mask->width);
    tli_json_end(j, ']');
    tli_json_text(j, "counts", tl_str_text(&counts));
    tli_json_end(j, '}');
    tl_str_deinit(&counts);
    return st;
}

static void put_box(tli_json *j, const double box[4])
{
    tli_json_begin(j, "bbox", '[');
    for (int i = 0; i < 4; i++) tli_json_number(j, NULL, box[i]);
    tli_json_end(j, ']');
}

static tl_status put_object(writing *w, const tl_coco_object *o, int64_t id)
{
    tli_json j = {.out = &w->text};
    if (w->masks && !o->mask.counts)
        return TL_FAIL(TL_EINVAL, "an object of image %" PRId64 " has no mask", o->image);
    tli_json_begin(&j, NULL, '{');
    tli_json_int(&j, "image_id", o->image);
    tli_json_int(&j, "category_id", o->category);
    if (!w->masks) put_box(&j, o->box);
    if (w->results) {
        tli_json_number(&j, "score", o->score);
    } else {
        tli_json_number(&j, "area", o->area);
        tli_json_int(&j, "iscrowd", o->crowd);
        tli_json_int(&j, "id", id);
    }
    if (w->results ? w->masks : o->mask.counts != NULL) TL_TRY(put_mask(&j, &o->mask));
    tli_json_end(&j, '}');
    return put(w);
}

static tl_status put_objects(writing *w, const tl_coco_set *set)
{
    for (int64_t i = 0; i < set->objects.count; i++) {
        if (i) tl_str_add(&w->text, ",\n");
        TL_TRY(put_object(w, &set->objects.items[i], i + 1));
    }
    return TL_OK;
}

static void put_image(tl_str *out, const tl_coco_image *image)
{
    tli_json j = {.out = out};
    tli_json_begin(&j, NULL, '{');
    tli_json_int(&j, "id", image->id);
    if (image->height) tli_json_int(&j, "height", image->height);
    if (image->width) tli_json_int(&j, "width", image->width);
    if (image->file_name) tli_json_text(&j, "file_name", image->file_name);
    tli_json_end(&j, '}');
}

static void put_category(tl_str *out, const tl_coco_category *category)
{
    tli_json j = {.out = out};
    tli_json_begin(&j, NULL, '{');
    tli_json_int(&j, "id", category->id);
    tli_json_text(&j, "name", category->name);
    tli_json_end(&j, '}');
}

static tl_status put_all(writing *w, const tl_coco_set *set)
{
    tl_str_add(&w->text, "{\"images\": [");
    for (int64_t i = 0; i < set->images.count; i++) {
        tl_str_add(&w->text, i ? ",\n" : "");
        put_image(&w->text, &set->images.items[i]);
        TL_TRY(put(w));
    }
    tl_str_add(&w->text, "],\n\"categories\": [");
    for (int64_t i = 0; i < set->categories.count; i++) {
        tl_str_add(&w->text, i ? ",\n" : "");
        put_category(&w->text, &set->categories.items[i]);
        TL_TRY(put(w));
    }
    tl_str_add(&w->text, "],\n\"annotations\": [");
    TL_TRY(put_objects(w, set));
    tl_str_add(&w->text, "]}\n");
    return put(w);
}

static tl_status put_results(writing *w, const tl_coco_set *found)
{
    tl_str_add(&w->text, "[");
    TL_TRY(put_objects(w, found));
    tl_str_add(&w->text, "]\n");
    return put(w);
}

static tl_status write_file(writing *w, const char *path, const tl_coco_set *set)
{
    TL_TRY(tl_file_writer_begin(&w->file, path));
    tl_status st = w->results ? put_results(w, set) : put_all(w, set);
    if (st == TL_OK) st = tl_file_writer_commit(&w->file);
    tl_file_writer_abort(&w->file);
    tl_str_deinit(&w->text);
    return st;
}

tl_status tl_coco_write(const char *path, const tl_coco_set *set)
{
    return write_file(&(writing){.text = TL_STR_INIT}, path, set);
}

tl_status tl_coco_write_results(const char *path, const tl_coco_set *found, bool masks)
{
    return write_file(&(writing){.text = TL_STR_INIT, .results = true, .masks = masks}, path,
                      found);
}
