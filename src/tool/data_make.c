#include "tool/data_make.h"

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/pool.h>

#include "base/inner/clean.h"
#include "base/inner/sha256.h"
#include "tool/data_shards.h"

/* Images that are made at a time: enough that every thread has work while one is slow. */
enum { AT_A_TIME = 64, MOST_NAMED = 20 };

typedef struct made {
    tl_str example;
    char *why; /* NULL: all is well */
} made;

typedef struct making {
    const tli_making *m;
    int64_t first; /* image of slot 0 */
    made slots[AT_A_TIME];
    tli_shards shards;
    int64_t bad;
    tl_str list; /* the first bad ones, a line each */
} making;

static tl_status make_some(int64_t begin, int64_t end, void *payload)
{
    making *all = payload;
    for (int64_t i = begin; i < end; i++) {
        made *slot = &all->slots[i];
        tl_str_cut(&slot->example, 0);
        tl_status st = all->m->make(&slot->example, all->first + i, all->m->payload);
        if (st == TL_ENOMEM) return st;
        if (st == TL_OK) continue;
        slot->why = tl_strdup(tl_error_message());
        if (!slot->why) return TL_FAIL_NOMEM(strlen(tl_error_message()) + 1);
    }
    return TL_OK;
}

static void note_bad(making *all, made *slot)
{
    if (all->bad++ < MOST_NAMED) {
        tl_str_add(&all->list, "\n  ");
        tli_add_clean_word(&all->list, slot->why);
    }
    tl_free(slot->why);
    slot->why = NULL;
}

// Once an image is bad and must not be, the others are only looked at.
static tl_status take(making *all, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        made *slot = &all->slots[i];
        if (slot->why) {
            note_bad(all, slot);
            if (!all->m->given->skip_bad) tli_shards_abort(&all->shards);
        } else if (!all->bad || all->m->given->skip_bad) {
            TL_TRY(tli_shards_write(&all->shards, slot->example.data, slot->example.length));
        }
    }
    return TL_OK;
}

static tl_status finish(making *all)
{
    const tli_making *m = all->m;
    tl_str *out = &m->run->text;
    if (all->bad > MOST_NAMED)
        tl_str_addf(&all->list, "\n  and %" PRId64 " more", all->bad - MOST_NAMED);
    TL_TRY(tl_str_status(&all->list));
    if (all->bad && !m->given->skip_bad)
        return TL_FAIL(TL_EIO,
                       "%" PRId64 " of %" PRId64
                       " images cannot be used; --skip_bad leaves them out:%s",
                       all->bad, m->count, tl_str_text(&all->list));
    TL_TRY(tli_shards_commit(&all->shards));
    if (all->bad)
        tl_str_addf(out, "%" PRId64 " image%s cannot be used and %s left out:%s\n", all->bad,
                    all->bad == 1 ? "" : "s", all->bad == 1 ? "is" : "are",
                    tl_str_text(&all->list));
    return tl_str_status(out);
}

static tl_status make_all(making *all, tl_pool *pool)
{
    TL_TRY(tli_shards_begin(&all->shards));
    for (; all->first < all->m->count; all->first += AT_A_TIME) {
        int64_t left = all->m->count - all->first, count = left < AT_A_TIME ? left : AT_A_TIME;
        TL_TRY(tl_parallel_for(pool, count, 1, make_some, all));
        TL_TRY(take(all, count));
    }
    return finish(all);
}

static tli_shards shards_of(const tli_making *m)
{
    return (tli_shards){.run = m->run, .given = m->given, .ending = ".tfrecord"};
}

tl_status tli_make_check(const tli_making *m)
{
    tli_shards s = shards_of(m);
    return tli_shards_check(&s);
}

tl_status tli_make_records(const tli_making *m)
{
    making *all = tl_alloc_zero(sizeof *all);
    tl_pool *pool = NULL;
    tl_status st;
    if (!all) return TL_FAIL_NOMEM(sizeof *all);
    all->m = m;
    all->shards = shards_of(m);
    TL_TRY_DONE(st, tli_shards_check(&all->shards));
    TL_TRY_DONE(st, tl_pool_new(&pool, 0));
    st = make_all(all, pool);
done:
    tli_shards_abort(&all->shards);
    tl_pool_free(&pool);
    for (int i = 0; i < AT_A_TIME; i++) {
        tl_str_deinit(&all->slots[i].example);
        tl_free(all->slots[i].why);
    }
    tl_str_deinit(&all->list);
    tl_free(all);
    return st;
}

/* --- images ----------------------------------------------------------------------------------- */

static tl_status check(tli_picture_file *p)
{
    tl_image room = TL_IMAGE_INIT;
    TL_TRY(tl_image_look(&p->head, p->file.data, p->file.size));
    tl_status st = tl_image_decode(&room, p->file.data, p->file.size, NULL);
    tl_image_deinit(&room);
    return st;
}

tl_status tli_picture_file_open(tli_picture_file *out, const char *path)
{
    *out = (tli_picture_file){.file = TL_FILE_MAPPING_INIT};
    TL_TRY(tl_file_map(&out->file, path));
    TL_TRY_NOTE(check(out), "'%s'", path);
    return tl_file_mapping_check(&out->file, path);
}

void tli_picture_file_close(tli_picture_file *p)
{
    tl_file_unmap(&p->file);
}

void tli_picture_file_add(tl_example_writer *w, const tli_picture_file *p, const char *name,
                          const char *source_id)
{
    char sum[TLI_SHA256_TEXT];
    tli_sha256_text(sum, p->file.data, p->file.size);
    tl_example_add_bytes(w, "image/encoded", &(tl_bytes){p->file.data, p->file.size}, 1);
    tl_example_add_text(w, "image/format", p->head.format == TL_FORMAT_JPEG ? "jpg" : "png");
    tl_example_add_ints(w, "image/height", &p->head.height, 1);
    tl_example_add_ints(w, "image/width", &p->head.width, 1);
    tl_example_add_text(w, "image/filename", name);
    tl_example_add_text(w, "image/source_id", source_id);
    tl_example_add_text(w, "image/key/sha256", sum);
}
