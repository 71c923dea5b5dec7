#include "io/coco/reader.h"

#include <inttypes.h>
#include <math.h>

#include <tilth/base/vec.h>

/* Products of two such numbers, and sums of a few, are finite and far from their end. */
static const double MOST_NUMBER = 1e100;

tl_status tl_coco_set_new(tl_coco_set **out)
{
    *out = tl_alloc_zero(sizeof **out);
    if (!*out) return TL_FAIL_NOMEM(sizeof **out);
    tl_status st = tl_arena_new(&(*out)->arena);
    if (st != TL_OK) tl_coco_set_free(out);
    else (*out)->empty = tl_arena_begin((*out)->arena);
    return st;
}

static void drop_objects(tl_coco_set *set)
{
    for (int64_t i = 0; i < set->objects.count; i++) tl_rle_deinit(&set->objects.items[i].mask);
    set->objects.count = 0;
}

void tl_coco_clear(tl_coco_set *set)
{
    drop_objects(set);
    set->images.count = set->categories.count = 0;
    tl_arena_end(set->arena, set->empty);
    set->empty = tl_arena_begin(set->arena);
}

void tl_coco_set_free(tl_coco_set **set)
{
    tl_coco_set *s = *set;
    if (!s) return;
    drop_objects(s);
    TL_VEC_FREE(&s->objects);
    TL_VEC_FREE(&s->categories);
    TL_VEC_FREE(&s->images);
    tl_arena_free(&s->arena);
    tl_free(s);
    *set = NULL;
}

tl_status tl_coco_add_image(tl_coco_set *set, const tl_coco_image *image)
{
    tl_coco_image kept = *image;
    if (kept.file_name) kept.file_name = tl_arena_strdup(set->arena, kept.file_name);
    if (image->file_name && !kept.file_name) return TL_ENOMEM;
    return TL_VEC_PUSH(&set->images, kept) ? TL_OK : TL_ENOMEM;
}

tl_status tl_coco_add_category(tl_coco_set *set, int64_t id, const char *name)
{
    tl_coco_category c = {.id = id};
    c.name = name ? tl_arena_strdup(set->arena, name) : tl_arena_printf(set->arena, "%" PRId64, id);
    return c.name && TL_VEC_PUSH(&set->categories, c) ? TL_OK : TL_ENOMEM;
}

tl_status tli_coco_check_object(const tl_coco_object *o)
{
    for (int i = 0; i < 4; i++)
        if (!(fabs(o->box[i]) <= MOST_NUMBER))
            return TL_FAIL(TL_EINVAL, "number %d of the box is %g", i, o->box[i]);
    if (!(fabs(o->area) <= MOST_NUMBER * MOST_NUMBER))
        return TL_FAIL(TL_EINVAL, "the area is %g", o->area);
    if (!isfinite(o->score)) return TL_FAIL(TL_EINVAL, "the score is %g", o->score);
    return TL_OK;
}

tl_status tl_coco_add_object(tl_coco_set *set, tl_coco_object *object)
{
    tl_status st = tli_coco_check_object(object);
    if (st == TL_OK && !TL_VEC_PUSH(&set->objects, *object)) st = TL_ENOMEM;
    if (st != TL_OK) tl_rle_deinit(&object->mask);
    object->mask = (tl_rle)TL_RLE_INIT;
    return st;
}
