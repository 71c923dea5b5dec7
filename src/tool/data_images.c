#include "tool/data_images.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "base/inner/clean.h"

void tli_image_facts_deinit(tli_image_facts *f)
{
    TL_VEC_FREE(&f->heights);
    TL_VEC_FREE(&f->widths);
    TL_VEC_FREE(&f->bad);
}

tl_status tli_image_facts_add(tli_image_facts *f, const tl_image_head *head)
{
    tl_image_head upright = *head;
    f->turned += head->orientation != 1;
    tl_image_upright(&upright);
    f->channels[head->channels]++;
    bool there = TL_VEC_PUSH(&f->heights, upright.height) && TL_VEC_PUSH(&f->widths, upright.width);
    return there ? TL_OK : TL_ENOMEM;
}

tl_status tli_image_facts_of(tli_image_facts *f, const tl_image_folder *folder)
{
    for (int64_t i = 0; i < folder->count; i++) {
        const tl_image_file *file = &folder->files[i];
        tl_image_head head = {.height = file->height,
                              .width = file->width,
                              .channels = file->channels,
                              .orientation = 1};
        TL_TRY(tli_image_facts_add(f, &head));
        f->turned += file->turned;
    }
    for (int64_t i = 0; i < folder->bad_count; i++)
        if (!TL_VEC_PUSH(&f->bad, folder->bad[i])) return TL_ENOMEM;
    return TL_OK;
}

/* --- telling ---------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

typedef struct range {
    int64_t least, median, most;
} range;

static range range_of(tli_sides *s)
{
    if (!s->count) return (range){0};
    qsort(s->items, (size_t)s->count, sizeof *s->items, by_size);
    return (range){s->items[0], s->items[(s->count - 1) / 2], s->items[s->count - 1]};
}

static void tell_range(tl_str *out, range r)
{
    if (r.least == r.most) tl_str_addf(out, "%" PRId64, r.least);
    else
        tl_str_addf(out, "%" PRId64 " to %" PRId64 " (median %" PRId64 ")", r.least, r.most,
                    r.median);
}

void tli_image_facts_tell(tl_str *out, tli_image_facts *f)
{
    int64_t good = f->heights.count;
    const char *between = "";
    if (!good && !f->bad.count) return;
    if (good) {
        tl_str_add(out, "images are ");
        tell_range(out, range_of(&f->heights));
        tl_str_add(out, " pixels high and ");
        tell_range(out, range_of(&f->widths));
        tl_str_add(out, " wide; ");
    }
    for (int i = 4; i >= 1; i--) {
        if (!f->channels[i]) continue;
        tl_str_addf(out, "%s%" PRId64 " ha%s %d channel%s", between, f->channels[i],
                    f->channels[i] == 1 ? "s" : "ve", i, i == 1 ? "" : "s");
        between = ", ";
    }
    if (good) tl_str_addc(out, '\n');
    if (f->turned)
        tl_str_addf(out, "%" PRId64 " %s turned by EXIF\n", f->turned,
                    f->turned == 1 ? "is" : "are");
    if (f->bad.count) tl_str_addf(out, "%" PRId64 " CORRUPT\n", f->bad.count);
}

static void json_range(tli_json *j, const char *key, tli_sides *s)
{
    range r = range_of(s);
    tli_json_begin(j, key, '{');
    tli_json_int(j, "min", r.least);
    tli_json_int(j, "median", r.median);
    tli_json_int(j, "max", r.most);
    tli_json_end(j, '}');
}

void tli_image_facts_json(tli_json *j, tli_image_facts *f)
{
    if (f->heights.count) {
        json_range(j, "height", &f->heights);
        json_range(j, "width", &f->widths);
    }
    tli_json_begin(j, "channels", '{');
    for (int i = 1; i <= 4; i++) {
        const char key[] = {(char)('0' + i), '\0'};
        if (f->channels[i]) tli_json_int(j, key, f->channels[i]);
    }
    tli_json_end(j, '}');
    tli_json_int(j, "turned", f->turned);
    tli_json_begin(j, "corrupt", '[');
    for (int64_t i = 0; i < f->bad.count; i++) {
        tli_json_begin(j, NULL, '{');
        tli_json_text(j, "file", f->bad.items[i].path);
        tli_json_text(j, "why", f->bad.items[i].why);
        tli_json_end(j, '}');
    }
    tli_json_end(j, ']');
}

tl_status tli_image_facts_fail(const tli_image_facts *f, const char *path)
{
    enum { MOST = 20 };
    tl_str list = TL_STR_INIT;
    for (int64_t i = 0; i < f->bad.count && i < MOST; i++) {
        tl_str_add(&list, "\n  ");
        tli_add_clean_word(&list, f->bad.items[i].path);
        tl_str_add(&list, ": ");
        tli_add_clean_word(&list, f->bad.items[i].why);
    }
    if (f->bad.count > MOST) tl_str_addf(&list, "\n  and %" PRId64 " more", f->bad.count - MOST);
    tl_status st = TL_FAIL(TL_EIO, "'%s': %" PRId64 " of %" PRId64 " images cannot be read:%s",
                           path, f->bad.count, f->heights.count + f->bad.count, tl_str_text(&list));
    tl_str_deinit(&list);
    return st;
}

/* --- decoding --------------------------------------------------------------------------------- */

static tl_status decode_one(tli_encoded *e, tl_image *room)
{
    TL_TRY(tl_image_look(&e->head, e->data, e->size));
    return tl_image_decode(room, e->data, e->size, NULL);
}

static tl_status decode_some(int64_t begin, int64_t end, void *payload)
{
    tli_encoded *images = payload;
    tl_image room = TL_IMAGE_INIT;
    tl_status st = TL_OK;
    for (int64_t i = begin; i < end && st != TL_ENOMEM; i++) {
        st = decode_one(&images[i], &room);
        if (st == TL_OK || st == TL_ENOMEM) continue;
        size_t size = strlen(tl_error_message()) + 1;
        images[i].why = tl_alloc(size);
        if (images[i].why) memcpy(images[i].why, tl_error_message(), size);
        else st = TL_FAIL_NOMEM(size);
    }
    tl_image_deinit(&room);
    return st == TL_ENOMEM ? st : TL_OK;
}

static tl_status add_bad(tli_image_facts *f, const tli_encoded *e, tl_arena *arena)
{
    const char *why = tl_arena_strdup(arena, e->why);
    return why && TL_VEC_PUSH(&f->bad, (tl_bad_image){e->name, why}) ? TL_OK : TL_ENOMEM;
}

tl_status tli_image_facts_decode(tli_image_facts *f, tli_encoded *images, int64_t count,
                                 tl_pool *pool, tl_arena *arena)
{
    enum { GRAIN = 8 };
    tl_status st = tl_parallel_for(pool, count, GRAIN, decode_some, images);
    for (int64_t i = 0; i < count; i++) {
        if (st == TL_OK)
            st = images[i].why ? add_bad(f, &images[i], arena)
                               : tli_image_facts_add(f, &images[i].head);
        tl_free(images[i].why);
        images[i].why = NULL;
    }
    return st;
}
