/* Examples of pre-training as records: made side by side, some at a time, and written in order. */
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "text/documents.h"

/* --- one example ------------------------------------------------------------------------------ */

/* Numbers as they are written, padded with zeros. */
typedef struct padded {
    int64_t *ints;
    float *floats;
} padded;

static void add_padded(tl_example_writer *w, const char *name, padded *room, const int32_t *values,
                       int64_t count, int64_t length)
{
    for (int64_t i = 0; i < count; i++) room->ints[i] = values[i];
    memset(room->ints + count, 0, (size_t)(length - count) * sizeof *room->ints);
    tl_example_add_ints(w, name, room->ints, length);
}

/* 1 from `begin` to `end`. */
static void add_ones(tl_example_writer *w, const char *name, padded *room, int64_t begin,
                     int64_t end, int64_t length)
{
    for (int64_t i = 0; i < length; i++) room->ints[i] = i >= begin && i < end;
    tl_example_add_ints(w, name, room->ints, length);
}

static void add_weights(tl_example_writer *w, padded *room, int64_t count, int64_t length)
{
    for (int64_t i = 0; i < length; i++) room->floats[i] = i < count ? 1.0f : 0.0f;
    tl_example_add_floats(w, "masked_lm_weights", room->floats, length);
}

static tl_status encode(tl_str *out, const tl_pretraining_config *c,
                        const tl_pretraining_example *e, bool v2_names, padded *room)
{
    const int64_t length = c->max_seq_length, most = c->base.max_predictions_per_seq;
    const int64_t label = e->is_random;
    tl_example_writer w = tl_example_begin(out);
    add_padded(&w, v2_names ? "input_word_ids" : "input_ids", room, e->ids, e->count, length);
    add_ones(&w, v2_names ? "input_type_ids" : "segment_ids", room, e->first, e->count, length);
    add_ones(&w, "input_mask", room, 0, e->count, length);
    add_padded(&w, "masked_lm_positions", room, e->positions, e->masked, most);
    add_padded(&w, "masked_lm_ids", room, e->labels, e->masked, most);
    add_weights(&w, room, e->masked, most);
    tl_example_add_ints(&w, "next_sentence_labels", &label, 1);
    return tl_example_end(&w);
}

static tl_status padded_init(padded *room, const tl_pretraining_config *c)
{
    int64_t longest = c->max_seq_length;
    if (longest < c->base.max_predictions_per_seq) longest = c->base.max_predictions_per_seq;
    size_t each = sizeof *room->ints + sizeof *room->floats;
    room->ints = tl_alloc((size_t)longest * each);
    if (!room->ints) return TL_FAIL_NOMEM((size_t)longest * each);
    room->floats = (float *)(room->ints + longest);
    return TL_OK;
}

tl_status tl_pretraining_encode(tl_str *out, const tl_pretraining_config *c,
                                const tl_pretraining_example *e, bool v2_names)
{
    padded room;
    if (e->count > c->max_seq_length || e->masked > c->base.max_predictions_per_seq)
        return TL_FAIL(TL_EINVAL, "the example is longer than max_seq_length or "
                                  "max_predictions_per_seq says");
    TL_TRY(padded_init(&room, c));
    tl_status st = encode(out, c, e, v2_names, &room);
    tl_free(room.ints);
    return st;
}

/* --- files ------------------------------------------------------------------------------------ */

enum { PORTION = 64, PORTIONS = 64 }; // examples that one thread makes, and portions at a time

typedef struct portion {
    tl_str bytes;
    size_t ends[PORTION]; // of each example in them
} portion;

typedef struct writing {
    const tl_pretraining *p;
    const tl_pretraining_files *how;
    tl_tfrecord_writer **files;
    int64_t file_count;
    portion *portions;
    int64_t from, count; // examples that are in the portions
} writing;

static tl_status fill_portion(writing *w, int64_t begin, int64_t end,
                              tl_pretraining_example *example, padded *room)
{
    portion *to = &w->portions[begin / PORTION];
    tl_str_cut(&to->bytes, 0);
    for (int64_t i = begin; i < end; i++) {
        TL_TRY(tl_pretraining_get(w->p, w->from + i, example));
        TL_TRY(encode(&to->bytes, tl_pretraining_config_of(w->p), example, w->how->v2_names, room));
        to->ends[i - begin] = to->bytes.length;
    }
    return TL_OK;
}

static tl_status make_portion(int64_t begin, int64_t end, void *payload)
{
    writing *w = payload;
    tl_pretraining_example example = TL_PRETRAINING_EXAMPLE_INIT;
    padded room;
    TL_TRY(padded_init(&room, tl_pretraining_config_of(w->p)));
    tl_status st = fill_portion(w, begin, end, &example, &room);
    tl_pretraining_example_deinit(&example);
    tl_free(room.ints);
    return st;
}

/* Examples of the portions that belong into one file. */
static tl_status write_file(writing *w, int64_t file)
{
    int64_t first = (file - w->from % w->file_count + w->file_count) % w->file_count;
    for (int64_t i = first; i < w->count; i += w->file_count) {
        const portion *of = &w->portions[i / PORTION];
        int64_t at = i % PORTION;
        size_t begin = at ? of->ends[at - 1] : 0;
        TL_TRY(tl_tfrecord_write(w->files[file], of->bytes.data + begin, of->ends[at] - begin));
    }
    return TL_OK;
}

static tl_status write_files(int64_t begin, int64_t end, void *payload)
{
    for (int64_t i = begin; i < end; i++) TL_TRY(write_file(payload, i));
    return TL_OK;
}

static tl_status write_examples(writing *w, tl_pool *pool)
{
    int64_t all = tl_pretraining_count(w->p);
    for (; w->from < all; w->from += w->count) {
        w->count = all - w->from < PORTION * PORTIONS ? all - w->from : PORTION * PORTIONS;
        TL_TRY(tl_parallel_for(pool, w->count, PORTION, make_portion, w));
        TL_TRY(tl_parallel_for(pool, w->file_count, 1, write_files, w));
    }
    return TL_OK;
}

static tl_status write_all(writing *w, const char *const *paths)
{
    tl_pool *pool = tli_pretraining_pool(w->p);
    for (int64_t i = 0; i < w->file_count; i++)
        TL_TRY(tl_tfrecord_writer_begin(&w->files[i], paths[i],
                                        &(tl_tfrecord_writer_args){.gzip = w->how->gzip}));
    TL_TRY(write_examples(w, pool));
    for (int64_t i = 0; i < w->file_count; i++) TL_TRY(tl_tfrecord_writer_commit(&w->files[i]));
    return TL_OK;
}

tl_status tl_pretraining_write(const tl_pretraining *p, const char *const *paths,
                               int64_t path_count, const tl_pretraining_files *how)
{
    static const tl_pretraining_files usual;
    size_t size = (size_t)path_count * sizeof(tl_tfrecord_writer *);
    writing w = {.p = p, .how = how ? how : &usual, .file_count = path_count};
    tl_status st;
    w.files = tl_alloc_zero(size);
    w.portions = tl_alloc_zero(PORTIONS * sizeof *w.portions);
    if (!w.files || !w.portions) st = TL_FAIL_NOMEM(size);
    else st = path_count ? write_all(&w, paths) : TL_FAIL(TL_EINVAL, "there is no file to write");
    for (int64_t i = 0; w.files && i < path_count; i++) tl_tfrecord_writer_abort(&w.files[i]);
    for (int64_t i = 0; w.portions && i < PORTIONS; i++) tl_str_deinit(&w.portions[i].bytes);
    tl_free(w.files);
    tl_free(w.portions);
    return st;
}
