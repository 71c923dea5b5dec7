#include "io/coco/reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/integer.h>
#include <tilth/base/vec.h>

#include "io/coco/rle.h"

typedef tli_coco_reader reader;

static const double MOST_REAL_ID = 9007199254740992; /* whole numbers up to it are exact */

/* --- values ----------------------------------------------------------------------------------- */

tl_status tli_coco_read_id(int64_t *out, const json_t *v, const char *key)
{
    if (!v) return TL_FAIL(TL_EDATA, "there is no '%s'", key);
    *out = json_integer_value(v);
    if (json_is_integer(v)) return TL_OK;
    // Programs that keep ids in arrays of floats write 7.0.
    double number = json_number_value(v);
    if (!json_is_real(v) || !(fabs(number) < MOST_REAL_ID) || number != trunc(number))
        return TL_FAIL(TL_EDATA, "%s: must be a whole number", key);
    *out = (int64_t)number;
    return TL_OK;
}

static tl_status read_id(int64_t *out, const json_t *entry, const char *key)
{
    return tli_coco_read_id(out, json_object_get(entry, key), key);
}

/* As many numbers as the list has room for. */
static tl_status read_numbers(double *out, const json_t *list, int64_t count, const char *key)
{
    bool good = (int64_t)json_array_size(list) == count;
    for (int64_t i = 0; good && i < count; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        good = json_is_number(v);
        out[i] = json_number_value(v);
    }
    return good ? TL_OK
                : TL_FAIL(TL_EDATA, "%s: must be a list of %" PRId64 " numbers", key, count);
}

/* A side of an image: 0 when it is not there. */
static tl_status read_side(int64_t *out, const json_t *entry, const char *key)
{
    const json_t *v = json_object_get(entry, key);
    *out = 0;
    if (!v || json_is_null(v)) return TL_OK;
    *out = json_integer_value(v);
    if (json_is_integer(v) && *out >= 1 && *out <= TL_RLE_LONGEST) return TL_OK;
    return TL_FAIL(TL_EDATA, "%s: must be a whole number from 1 to %d", key, TL_RLE_LONGEST);
}

static int by_image_id(const void *a, const void *b)
{
    const tl_coco_image *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static const tl_coco_image *find_image(const reader *r, int64_t id)
{
    tl_coco_image key = {.id = id};
    if (!r->image_count) return NULL;
    return bsearch(&key, r->by_id, (size_t)r->image_count, sizeof key, by_image_id);
}

/* --- masks ------------------------------------------------------------------------------------ */

static void drop_parts(reader *r)
{
    for (int64_t i = 0; i < r->parts.count; i++) tl_rle_deinit(&r->parts.items[i]);
    r->parts.count = 0;
}

static tl_status add_polygon(reader *r, const json_t *list, const tl_coco_image *image)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count % 2)
        return TL_FAIL(TL_EDATA, "must be a list of pairs of numbers");
    r->corners.count = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_number(v)) return TL_FAIL(TL_EDATA, "number %zu is none", i);
        if (!TL_VEC_PUSH(&r->corners, json_number_value(v))) return TL_ENOMEM;
    }
    tl_rle part;
    TL_TRY(tli_rle_from_polygon(&part, r->corners.items, (int64_t)count / 2, image->height,
                                image->width, &r->runs));
    if (TL_VEC_PUSH(&r->parts, part)) return TL_OK;
    tl_rle_deinit(&part);
    return TL_ENOMEM;
}

static tl_status read_polygons(tl_rle *out, reader *r, const json_t *list,
                               const tl_coco_image *image)
{
    size_t count = json_array_size(list);
    if (!count) return TL_FAIL(TL_EDATA, "there is no polygon");
    if (!image->height || !image->width)
        return TL_FAIL(TL_EDATA, "polygons need 'height' and 'width' of image %" PRId64, image->id);
    for (size_t i = 0; i < count; i++)
        TL_TRY_NOTE(add_polygon(r, json_array_get(list, i), image), "polygon %zu", i);
    if (count > 1) return tl_rle_merge(out, r->parts.items, r->parts.count, false);
    *out = r->parts.items[0];
    r->parts.count = 0;
    return TL_OK;
}

static tl_status read_counts(tl_rle *out, reader *r, const json_t *list, int64_t height,
                             int64_t width)
{
    r->counts.count = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v))
            return TL_FAIL(TL_EDATA, "counts: number %zu must be a whole one", i);
        if (!TL_VEC_PUSH(&r->counts, json_integer_value(v))) return TL_ENOMEM;
    }
    return tl_rle_from_counts(out, r->counts.items, r->counts.count, height, width);
}

static tl_status read_runs(tl_rle *out, reader *r, const json_t *object, const tl_coco_image *image)
{
    const json_t *counts = json_object_get(object, "counts");
    double size[2];
    TL_TRY(read_numbers(size, json_object_get(object, "size"), 2, "size"));
    bool whole = true;
    for (int i = 0; i < 2; i++)
        whole &= size[i] >= 1 && size[i] <= TL_RLE_LONGEST && size[i] == (double)(int64_t)size[i];
    if (!whole)
        return TL_FAIL(TL_EDATA, "size: must be two whole numbers from 1 to %d", TL_RLE_LONGEST);
    int64_t height = (int64_t)size[0], width = (int64_t)size[1];
    if (image->height && image->width && (height != image->height || width != image->width))
        return TL_FAIL(TL_EDATA,
                       "size: the mask has %" PRId64 " x %" PRId64 " pixels, but image %" PRId64
                       " has %" PRId64 " x %" PRId64,
                       height, width, image->id, image->height, image->width);
    if (json_is_string(counts))
        return tl_rle_from_text(out, json_string_value(counts), json_string_length(counts), height,
                                width);
    if (json_is_array(counts)) return read_counts(out, r, counts, height, width);
    return TL_FAIL(TL_EDATA, "counts: must be a text, or a list of numbers");
}

static tl_status read_mask(tl_rle *out, reader *r, const json_t *v, const tl_coco_image *image)
{
    tl_status st;
    if (json_is_array(v)) st = read_polygons(out, r, v, image);
    else if (json_is_object(v)) st = read_runs(out, r, v, image);
    else st = TL_FAIL(TL_EDATA, "must be a list of polygons, or an object with size and counts");
    drop_parts(r);
    return st == TL_OK ? TL_OK : tl_error_note(st, "segmentation");
}

/* The box as a mask, where the results have boxes only. */
static tl_status mask_of_box(tl_rle *out, reader *r, const double box[4],
                             const tl_coco_image *image)
{
    double x = box[0], y = box[1], right = x + box[2], bottom = y + box[3];
    if (!image->height || !image->width)
        return TL_FAIL(TL_EDATA,
                       "there is no 'segmentation', and the box as a mask needs 'height' and "
                       "'width' of image %" PRId64,
                       image->id);
    TL_TRY_NOTE(tli_rle_from_polygon(out, (double[]){x, y, x, bottom, right, bottom, right, y}, 4,
                                     image->height, image->width, &r->runs),
                "bbox");
    return TL_OK;
}

/* --- entries ---------------------------------------------------------------------------------- */

static tl_status read_image(reader *r, const json_t *entry)
{
    const json_t *name = json_object_get(entry, "file_name");
    tl_coco_image image = {.file_name = json_string_value(name)};
    TL_TRY(read_id(&image.id, entry, "id"));
    TL_TRY(read_side(&image.height, entry, "height"));
    TL_TRY(read_side(&image.width, entry, "width"));
    if (name && !image.file_name) return TL_FAIL(TL_EDATA, "file_name: must be a text");
    return tl_coco_add_image(r->set, &image);
}

static tl_status read_category(reader *r, const json_t *entry)
{
    const json_t *name = json_object_get(entry, "name");
    int64_t id;
    TL_TRY(read_id(&id, entry, "id"));
    if (name && !json_is_string(name)) return TL_FAIL(TL_EDATA, "name: must be a text");
    return tl_coco_add_category(r->set, id, json_string_value(name));
}

/* What an object is in, and where; `boxed` when it says so itself. */
static tl_status read_place(tl_coco_object *o, reader *r, const json_t *entry, bool *boxed)
{
    const json_t *box = json_object_get(entry, "bbox"), *mask = NULL;
    TL_TRY(read_id(&o->image, entry, "image_id"));
    TL_TRY(read_id(&o->category, entry, "category_id"));
    const tl_coco_image *image = find_image(r, o->image);
    if (!image)
        return TL_FAIL(TL_EDATA, "image_id: there is no image %" PRId64 "%s", o->image,
                       r->results ? " in the annotations" : " in 'images'");
    *boxed = json_array_size(box) > 0 || (box && !json_is_array(box));
    if (r->masks || !*boxed) mask = json_object_get(entry, "segmentation");
    if (!*boxed && !(r->results && mask)) return TL_FAIL(TL_EDATA, "there is no 'bbox'");
    if (r->masks && !r->results && !mask) return TL_FAIL(TL_EDATA, "there is no 'segmentation'");
    if (*boxed) TL_TRY(read_numbers(o->box, box, 4, "bbox"));
    if (mask) TL_TRY(read_mask(&o->mask, r, mask, image));
    else if (r->masks) TL_TRY(mask_of_box(&o->mask, r, o->box, image));
    if (!*boxed) tl_rle_box(o->box, &o->mask);
    return TL_OK;
}

static tl_status read_flag(bool *out, const json_t *entry, const char *key)
{
    const json_t *v = json_object_get(entry, key);
    *out = json_is_true(v) || json_integer_value(v) == 1;
    if (!v || json_is_boolean(v) || *out || (json_is_integer(v) && !json_integer_value(v)))
        return TL_OK;
    return TL_FAIL(TL_EDATA, "%s: must be 0 or 1", key);
}

static tl_status read_number(double *out, const json_t *entry, const char *key)
{
    const json_t *v = json_object_get(entry, key);
    if (!v) return TL_FAIL(TL_EDATA, "there is no '%s'", key);
    if (!json_is_number(v)) return TL_FAIL(TL_EDATA, "%s: must be a number", key);
    *out = json_number_value(v);
    return TL_OK;
}

static tl_status fill_object(tl_coco_object *o, reader *r, const json_t *entry)
{
    bool boxed = false;
    TL_TRY(read_place(o, r, entry, &boxed));
    double of_box = o->box[2] * o->box[3];
    double of_mask = o->mask.counts ? (double)tl_rle_area(&o->mask) : of_box;
    if (r->results) {
        o->area = boxed ? of_box : of_mask;
        return read_number(&o->score, entry, "score");
    }
    o->area = of_mask;
    TL_TRY(read_flag(&o->crowd, entry, "iscrowd"));
    return json_object_get(entry, "area") ? read_number(&o->area, entry, "area") : TL_OK;
}

tl_status tli_coco_read_object(tl_coco_object *out, reader *r, const json_t *entry)
{
    *out = (tl_coco_object){0};
    tl_status st = fill_object(out, r, entry);
    // Without `masks` it was only needed for its box.
    if (st != TL_OK || !r->masks) tl_rle_deinit(&out->mask);
    return st;
}

static tl_status read_object(reader *r, const json_t *entry)
{
    tl_coco_object o;
    TL_TRY(tli_coco_read_object(&o, r, entry));
    return tl_coco_add_object(r->set, &o);
}

/* --- lists ------------------------------------------------------------------------------------ */

tl_status tli_coco_each(reader *r, const char *list, const tli_coco_place *where,
                        tli_coco_entry_fn *read)
{
    tli_json_members m = tli_json_list_members_of(where->text, where->end);
    tl_status st;
    m.at = where->begin;
    for (int64_t i = 0;; i++) {
        bool more;
        st = tli_json_members_next(&m, &more);
        if (st != TL_OK && *list) st = tl_error_note(st, "%s", list);
        if (st != TL_OK || !more) break;
        st = read(r, &m, i);
        if (st != TL_OK) {
            st = tl_error_note(st, "%s[%" PRId64 "]", list, i);
            break;
        }
    }
    tli_json_members_end(&m);
    return st;
}

typedef tl_status read_parsed(reader *r, const json_t *entry);

/* One entry at a time, so that memory does not hold the file as a tree. */
static tl_status read_entry(reader *r, const tli_json_members *m, read_parsed *read)
{
    json_t *entry;
    TL_TRY(tli_json_members_value(m, &entry));
    tl_status st = json_is_object(entry) ? read(r, entry) : TL_FAIL(TL_EDATA, "must be an object");
    json_decref(entry);
    return st;
}

static tl_status image_entry(reader *r, const tli_json_members *m, int64_t index)
{
    (void)index;
    return read_entry(r, m, read_image);
}

static tl_status category_entry(reader *r, const tli_json_members *m, int64_t index)
{
    (void)index;
    return read_entry(r, m, read_category);
}

static tl_status object_entry(reader *r, const tli_json_members *m, int64_t index)
{
    (void)index;
    return read_entry(r, m, read_object);
}

static tl_status sort_images(reader *r, const tl_coco_set *set)
{
    size_t bytes = (size_t)set->images.count * sizeof *r->by_id;
    r->image_count = set->images.count;
    if (!r->image_count) return TL_OK;
    r->by_id = tl_alloc(bytes);
    if (!r->by_id) return TL_FAIL_NOMEM(bytes);
    memcpy(r->by_id, set->images.items, bytes);
    qsort(r->by_id, (size_t)r->image_count, sizeof *r->by_id, by_image_id);
    return TL_OK;
}

static tl_status refuse_twice(const reader *r)
{
    const tl_coco_set *set = r->set;
    for (int64_t i = 1; i < r->image_count; i++)
        if (r->by_id[i].id == r->by_id[i - 1].id)
            return TL_FAIL(TL_EDATA, "images: two have the id %" PRId64, r->by_id[i].id);
    return set->categories.count ? TL_OK : TL_FAIL(TL_EDATA, "categories: there are none");
}

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static tl_status refuse_categories_twice(reader *r)
{
    r->counts.count = 0;
    for (int64_t i = 0; i < r->set->categories.count; i++)
        if (!TL_VEC_PUSH(&r->counts, r->set->categories.items[i].id)) return TL_ENOMEM;
    qsort(r->counts.items, (size_t)r->counts.count, sizeof *r->counts.items, by_id);
    for (int64_t i = 1; i < r->counts.count; i++)
        if (r->counts.items[i] == r->counts.items[i - 1])
            return TL_FAIL(TL_EDATA, "categories: two have the id %" PRId64, r->counts.items[i]);
    return TL_OK;
}

static const char *const list_names[TLI_COCO_LISTS] = {"images", "categories", "annotations"};

/* Where the lists are: annotations may stand before the images that they need. */
static tl_status find_lists(tli_coco_place found[TLI_COCO_LISTS], const char *text, size_t size)
{
    tli_json_members m = tli_json_members_of(text, size);
    tl_status st;
    for (bool more = true; (st = tli_json_members_next(&m, &more)) == TL_OK && more;) {
        for (int i = 0; i < TLI_COCO_LISTS; i++) {
            if (strcmp(json_string_value(m.key), list_names[i]) != 0) continue;
            if (found[i].text) st = TL_FAIL(TL_EDATA, "'%s' is there twice", list_names[i]);
            found[i] = (tli_coco_place){text, (size_t)(m.value - text), m.at};
        }
        if (st != TL_OK) break;
    }
    tli_json_members_end(&m);
    for (int i = 0; st == TL_OK && i < TLI_COCO_LISTS; i++)
        if (!found[i].text)
            st = TL_FAIL(TL_EDATA, "there is no '%s': a COCO annotation file has a list of them",
                         list_names[i]);
    return st;
}

tl_status tli_coco_read_head(reader *r, tli_coco_place lists[TLI_COCO_LISTS], const char *text,
                             size_t size)
{
    TL_TRY(find_lists(lists, text, size));
    TL_TRY(tli_coco_each(r, list_names[TLI_COCO_IMAGES], &lists[TLI_COCO_IMAGES], image_entry));
    TL_TRY(tli_coco_each(r, list_names[TLI_COCO_CATEGORIES], &lists[TLI_COCO_CATEGORIES],
                         category_entry));
    TL_TRY(sort_images(r, r->set));
    TL_TRY(refuse_twice(r));
    return refuse_categories_twice(r);
}

static tl_status read_annotations(reader *r, const char *text, size_t size)
{
    tli_coco_place lists[TLI_COCO_LISTS] = {{0}};
    TL_TRY(tli_coco_read_head(r, lists, text, size));
    return tli_coco_each(r, list_names[TLI_COCO_ANNOTATIONS], &lists[TLI_COCO_ANNOTATIONS],
                         object_entry);
}

static tl_status read_results(reader *r, const tl_coco_set *truths, const char *text, size_t size)
{
    TL_TRY(sort_images(r, truths));
    return tli_coco_each(r, "", &(tli_coco_place){text, 0, size}, object_entry);
}

void tli_coco_reader_deinit(reader *r)
{
    TL_VEC_FREE(&r->corners);
    TL_VEC_FREE(&r->counts);
    TL_VEC_FREE(&r->parts);
    tl_free(r->by_id);
    r->by_id = NULL;
}

int64_t tli_coco_runs(int64_t unconditional, size_t size)
{
    int64_t more =
        size < TL_COCO_MOST_RUNS ? (int64_t)size * TL_COCO_RUNS_PER_BYTE : TL_COCO_MOST_RUNS;
    return tl_min_i64(unconditional + more, TL_COCO_MOST_RUNS);
}

tl_status tli_coco_note(tl_status st, const char *name)
{
    return tl_error_note(st == TL_EINVAL ? TL_EDATA : st, "'%s'", name);
}

static tl_status parse(tl_coco_set **out, reader *r, const tl_coco_set *truths, const char *text,
                       size_t size)
{
    *out = NULL;
    TL_TRY(tl_coco_set_new(&r->set));
    r->runs = tli_coco_runs(TL_COCO_FREE_RUNS, size);
    tl_status st =
        r->results ? read_results(r, truths, text, size) : read_annotations(r, text, size);
    tli_coco_reader_deinit(r);
    if (st != TL_OK) {
        tl_coco_set_free(&r->set);
        return tli_coco_note(st, r->name);
    }
    *out = r->set;
    return TL_OK;
}

tl_status tl_coco_parse(tl_coco_set **out, const char *name, const char *text, size_t size,
                        bool masks)
{
    return parse(out, &(reader){.name = name, .masks = masks}, NULL, text, size);
}

tl_status tl_coco_parse_results(tl_coco_set **out, const char *name, const char *text, size_t size,
                                const tl_coco_set *truths, bool masks)
{
    return parse(out, &(reader){.name = name, .masks = masks, .results = true}, truths, text, size);
}

static tl_status read_file(tl_coco_set **out, reader *r, const tl_coco_set *truths)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    *out = NULL;
    TL_TRY(tl_file_map(&file, r->name));
    tl_status st = parse(out, r, truths, file.data, file.size), whole;
    if ((whole = tl_file_mapping_check(&file, r->name)) != TL_OK) st = whole;
    tl_file_unmap(&file);
    if (st != TL_OK) tl_coco_set_free(out);
    return st;
}

tl_status tl_coco_read(tl_coco_set **out, const char *path, bool masks)
{
    return read_file(out, &(reader){.name = path, .masks = masks}, NULL);
}

tl_status tl_coco_read_results(tl_coco_set **out, const char *path, const tl_coco_set *truths,
                               bool masks)
{
    return read_file(out, &(reader){.name = path, .masks = masks, .results = true}, truths);
}
