/* `tilth data coco`: images and the objects that a COCO file lists become the records of Model
 * Garden's create_coco_tf_record. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <tilth/base/file.h>
#include <tilth/io/coco/annotations.h>

#include "tool/data_make.h"
#include "tool/data_objects.h"

typedef struct coco {
    const char *folder;
    const tl_coco_file *file;
    bool masks;
    tl_coco_category *categories; /* by id */
    /* annotations that are left out: of no size, and of boxes that reach beyond the image */
    _Atomic int64_t empty, outside;
} coco;

/* What one image adds to these counts, once its record is made. */
typedef struct counts {
    int64_t empty, outside;
} counts;

static int by_id(const void *a, const void *b)
{
    const tl_coco_category *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static tl_status sort_categories(coco *c, tl_arena *arena)
{
    const tl_coco_set *set = tl_coco_file_set(c->file);
    size_t count = (size_t)set->categories.count;
    c->categories = tl_arena_copy(arena, set->categories.items, count * sizeof *c->categories);
    if (!c->categories) return TL_ENOMEM;
    qsort(c->categories, count, sizeof *c->categories, by_id);
    return TL_OK;
}

static const char *category_name(const coco *c, int64_t id)
{
    const tl_coco_category key = {.id = id};
    const tl_coco_category *found =
        bsearch(&key, c->categories, (size_t)tl_coco_file_set(c->file)->categories.count,
                sizeof key, by_id);
    return found ? found->name : NULL;
}

// As the original has it: a box that begins before the image is kept.
static bool is_left_out(const tl_coco_object *o, const tl_image_head *head, counts *n)
{
    bool empty = o->box[2] <= 0 || o->box[3] <= 0;
    bool outside =
        o->box[0] + o->box[2] > (double)head->width || o->box[1] + o->box[3] > (double)head->height;
    n->empty += empty;
    n->outside += !empty && outside;
    return empty || outside;
}

static tl_status add_object(tli_objects *all, const coco *c, int64_t image, int64_t index,
                            const tl_image_head *head, counts *n)
{
    tl_coco_object o;
    tl_status st = tl_coco_file_object(&o, c->file, image, index, c->masks);
    if (st != TL_OK && c->masks) {
        // Of an annotation that is left out the mask does not matter.
        tl_error why;
        tl_coco_object boxed;
        tl_error_save(&why);
        if (tl_coco_file_object(&boxed, c->file, image, index, false) == TL_OK
            && is_left_out(&boxed, head, n))
            return TL_OK;
        tl_error_restore(&why);
    }
    TL_TRY(st);
    if (!is_left_out(&o, head, n)) {
        const char *name = category_name(c, o.category);
        tli_object made = {.box = {o.box[0], o.box[1], o.box[0] + o.box[2], o.box[1] + o.box[3]},
                           .label = o.category,
                           .name = name,
                           .crowd = o.crowd,
                           .area = o.area};
        st = name ? tli_objects_add(all, &made, c->masks ? &o.mask : NULL)
                  : TL_FAIL(TL_EDATA,
                            "category_id: there is no category %" PRId64 " in 'categories'",
                            o.category);
    }
    tl_rle_deinit(&o.mask);
    return st;
}

static tl_status check_size(const tl_coco_image *said, const tl_image_head *head)
{
    bool high = !said->height || said->height == head->height;
    bool wide = !said->width || said->width == head->width;
    if (high && wide) return TL_OK;
    return TL_FAIL(TL_EDATA,
                   "the image has %" PRId64 " x %" PRId64
                   " pixels, but the annotations say %" PRId64 " x %" PRId64,
                   head->height, head->width, said->height, said->width);
}

static tl_status write_example(tl_str *example, coco *c, int64_t index, const tli_picture_file *p)
{
    const tl_coco_image *image = &tl_coco_file_set(c->file)->images.items[index];
    const tl_image_head *head = &p->head;
    tli_objects objects = {0};
    counts n = {0};
    char id[32];
    tl_status st;
    TL_TRY_DONE(st, check_size(image, head));
    for (int64_t k = 0; k < tl_coco_file_count(c->file, index); k++)
        TL_TRY_DONE(st, add_object(&objects, c, index, k, head, &n));
    tl_example_writer w = tl_example_begin(example);
    snprintf(id, sizeof id, "%" PRId64, image->id);
    tli_picture_file_add(&w, p, image->file_name, id);
    TL_TRY_DONE(st, tli_objects_write(&w, &objects, head->height, head->width, c->masks));
    st = tl_example_end(&w);
    c->empty += n.empty;
    c->outside += n.outside;
done:
    tli_objects_deinit(&objects);
    return st;
}

static tl_status find_image(tl_str *path, const coco *c, const tl_coco_image *image)
{
    if (!image->file_name)
        return TL_FAIL(TL_EDATA, "image %" PRId64 " has no 'file_name'", image->id);
    if (!tl_path_stays_inside(image->file_name))
        return TL_FAIL(TL_EDATA, "'%s', of image %" PRId64 ", leads out of '%s'", image->file_name,
                       image->id, c->folder);
    tl_str_addf(path, "%s/%s", c->folder, image->file_name);
    return tl_str_status(path);
}

static tl_status make(tl_str *example, int64_t index, void *payload)
{
    coco *c = payload;
    tl_str path = TL_STR_INIT;
    tli_picture_file p = {.file = TL_FILE_MAPPING_INIT};
    tl_status st;
    TL_TRY_DONE(st, find_image(&path, c, &tl_coco_file_set(c->file)->images.items[index]));
    TL_TRY_DONE(st, tli_picture_file_open(&p, tl_str_text(&path)));
    st = write_example(example, c, index, &p);
    if (st == TL_OK) st = tl_file_mapping_check(&p.file, tl_str_text(&path));
    else st = tl_error_note(st, "'%s'", tl_str_text(&path));
done:
    tli_picture_file_close(&p);
    tl_str_deinit(&path);
    return st;
}

static tl_status tell(tli_run *run, const coco *c)
{
    int64_t strays = tl_coco_file_count(c->file, -1);
    const struct {
        int64_t count;
        const char *why;
    } reasons[] = {{c->empty, "width or height is not above 0"},
                   {c->outside, "the box reaches beyond the image"},
                   {strays, "the image is not in 'images'"}};
    int64_t all = c->empty + c->outside + strays;
    if (all) tl_str_addf(&run->text, "%" PRId64 " annotations are left out:\n", all);
    for (size_t i = 0; i < TL_COUNT(reasons); i++)
        if (reasons[i].count)
            tl_str_addf(&run->text, "  %" PRId64 ": %s\n", reasons[i].count, reasons[i].why);
    return tl_str_status(&run->text);
}

tl_status tli_data_coco(tli_run *run, const void *flags)
{
    const tli_data_flags *given = flags;
    tl_coco_file *file;
    if (run->words.count != 3)
        return TL_FAIL(TL_EINVAL,
                       "`coco` needs a folder of images and an annotation file: `coco IMAGES "
                       "ANNOTATIONS.json`");
    coco c = {.folder = run->words.items[1], .masks = given->masks};
    tli_making m = {.run = run, .given = given, .make = make, .payload = &c};
    if (!tl_dir_exists(c.folder))
        return TL_FAIL(TL_ENOTFOUND, "'%s' is no folder of images", c.folder);
    TL_TRY(tli_make_check(&m));
    TL_TRY(tl_coco_open(&file, run->words.items[2]));
    c.file = file;
    m.count = tl_coco_file_set(file)->images.count;
    tl_status st = sort_categories(&c, run->arena);
    if (st == TL_OK) st = tli_make_records(&m);
    if (st == TL_OK) st = tell(run, &c);
    tl_coco_close(&file);
    return st;
}
