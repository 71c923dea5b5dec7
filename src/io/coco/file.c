#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/vec.h>

#include "io/coco/reader.h"

/* Of one object: an edge or two across the widest image. */
enum { FREE_RUNS = 1 << 18 };

/* Where an annotation stands. */
typedef struct entry {
    int64_t image;  /* index of the set's list; -1: it is not there */
    int64_t number; /* of the annotation, in the file */
    size_t at, size;
} entry;

/* An image of the set, found by its id. */
typedef struct known {
    int64_t id, index;
} known;

struct tl_coco_file {
    char *path;
    tl_file_mapping text;
    tli_coco_reader reader; /* images by id, for who reads objects */
    known *known;
    struct {
        entry *items; /* by image, and of each in the order of the file */
        int64_t count, capacity;
    } entries;
};

static int by_known_id(const void *a, const void *b)
{
    const known *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_image(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static tl_status note_images(tl_coco_file *f)
{
    const tl_coco_set *set = f->reader.set;
    size_t bytes = (size_t)set->images.count * sizeof *f->known;
    if (!bytes) return TL_OK;
    f->known = tl_alloc(bytes);
    if (!f->known) return TL_FAIL_NOMEM(bytes);
    for (int64_t i = 0; i < set->images.count; i++)
        f->known[i] = (known){set->images.items[i].id, i};
    qsort(f->known, (size_t)set->images.count, sizeof *f->known, by_known_id);
    return TL_OK;
}

static int64_t find_image(const tl_coco_file *f, int64_t id)
{
    const known key = {.id = id}, *found = NULL;
    if (f->known)
        found =
            bsearch(&key, f->known, (size_t)f->reader.set->images.count, sizeof key, by_known_id);
    return found ? found->index : -1;
}

/* The image of an annotation, without a look at its polygons. */
static tl_status read_image_id(int64_t *out, const tli_json_members *annotation)
{
    tli_json_members m = tli_json_members_of(
        annotation->text, (size_t)(annotation->value - annotation->text) + annotation->value_size);
    json_t *value = NULL;
    tl_status st;
    m.at = (size_t)(annotation->value - annotation->text);
    for (bool more = true; !value;) {
        TL_TRY_DONE(st, tli_json_members_next(&m, &more));
        if (!more) break;
        if (strcmp(json_string_value(m.key), "image_id") == 0)
            TL_TRY_DONE(st, tli_json_members_value(&m, &value));
    }
    st = tli_coco_read_id(out, value, "image_id");
done:
    json_decref(value);
    tli_json_members_end(&m);
    return st;
}

static tl_status note_entry(tli_coco_reader *r, const tli_json_members *m, int64_t index)
{
    tl_coco_file *f = (tl_coco_file *)((char *)r - offsetof(tl_coco_file, reader));
    entry e = {.number = index, .at = (size_t)(m->value - m->text), .size = m->value_size};
    int64_t id;
    TL_TRY(read_image_id(&id, m));
    e.image = find_image(f, id);
    return TL_VEC_PUSH(&f->entries, e) ? TL_OK : TL_ENOMEM;
}

static tl_status read_file(tl_coco_file *f)
{
    tli_coco_place lists[TLI_COCO_LISTS] = {{0}};
    TL_TRY(tl_coco_set_new(&f->reader.set));
    TL_TRY(tli_coco_read_head(&f->reader, lists, f->text.data, f->text.size));
    TL_TRY(note_images(f));
    TL_TRY(tli_coco_each(&f->reader, "annotations", &lists[TLI_COCO_ANNOTATIONS], note_entry));
    if (f->entries.count)
        qsort(f->entries.items, (size_t)f->entries.count, sizeof *f->entries.items, by_image);
    return TL_OK;
}

tl_status tl_coco_open(tl_coco_file **out, const char *path)
{
    tl_coco_file *f = *out = tl_alloc_zero(sizeof **out);
    if (!f) return TL_FAIL_NOMEM(sizeof *f);
    f->path = tl_strdup(path);
    tl_status st = f->path ? tl_file_map(&f->text, path) : TL_FAIL_NOMEM(strlen(path) + 1);
    if (st == TL_OK) {
        st = read_file(f);
        tl_status whole = tl_file_mapping_check(&f->text, path);
        if (whole != TL_OK) st = whole;
        else if (st != TL_OK) st = tli_coco_note(st, path);
    }
    if (st != TL_OK) tl_coco_close(out);
    return st;
}

void tl_coco_close(tl_coco_file **file)
{
    tl_coco_file *f = *file;
    if (!f) return;
    TL_VEC_FREE(&f->entries);
    tl_free(f->known);
    tli_coco_reader_deinit(&f->reader);
    tl_coco_set_free(&f->reader.set);
    tl_file_unmap(&f->text);
    tl_free(f->path);
    tl_free(f);
    *file = NULL;
}

const tl_coco_set *tl_coco_file_set(const tl_coco_file *f)
{
    return f->reader.set;
}

/* The first entry of this image, or of a later one. */
static int64_t first_of(const tl_coco_file *f, int64_t image)
{
    int64_t low = 0, high = f->entries.count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (f->entries.items[middle].image < image) low = middle + 1;
        else high = middle;
    }
    return low;
}

int64_t tl_coco_file_count(const tl_coco_file *f, int64_t image)
{
    return first_of(f, image + 1) - first_of(f, image);
}

static tl_status read_at(tl_coco_object *out, const tl_coco_file *f, const entry *e, bool masks)
{
    tli_json_members m = {
        .text = f->text.data, .value = f->text.data + e->at, .value_size = e->size};
    // What this object needs room for is its own: others are read at the same time.
    tli_coco_reader r = {.name = f->path,
                         .masks = masks,
                         .runs = tli_coco_runs(FREE_RUNS, e->size),
                         .by_id = f->reader.by_id,
                         .image_count = f->reader.image_count};
    json_t *value;
    TL_TRY(tli_json_members_value(&m, &value));
    tl_status st = json_is_object(value) ? tli_coco_read_object(out, &r, value)
                                         : TL_FAIL(TL_EDATA, "must be an object");
    if (st == TL_OK) st = tli_coco_check_object(out);
    if (st != TL_OK) tl_rle_deinit(&out->mask);
    json_decref(value);
    r.by_id = NULL;
    tli_coco_reader_deinit(&r);
    return st;
}

tl_status tl_coco_file_object(tl_coco_object *out, const tl_coco_file *f, int64_t image,
                              int64_t index, bool masks)
{
    TL_ASSERT(index >= 0 && index < tl_coco_file_count(f, image));
    const entry *e = &f->entries.items[first_of(f, image) + index];
    *out = (tl_coco_object){0};
    tl_status st = read_at(out, f, e, masks), whole = tl_file_mapping_check(&f->text, f->path);
    if (whole != TL_OK) {
        tl_rle_deinit(&out->mask);
        return whole;
    }
    if (st == TL_OK) return TL_OK;
    return tli_coco_note(tl_error_note(st, "annotations[%" PRId64 "]", e->number), f->path);
}
