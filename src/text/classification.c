/* Rows of texts become records: read in order, some at a time, made side by side, and written in
 * order. */
#include <tilth/text/classification.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/io/tensorflow/tfrecord.h>

/* --- sequences -------------------------------------------------------------------------------- */

enum { SHORTEST = 5, LONGEST = 65536, USUAL = 128 };

tl_status tl_packer_init(tl_packer *p, const tl_tokenizer *tokenizer, int64_t length)
{
    *p = (tl_packer){.tokenizer = tokenizer, .length = length};
    if (length < SHORTEST || length > LONGEST)
        return TL_FAIL(TL_EINVAL, "max_seq_length is %d to %d, not %" PRId64, SHORTEST, LONGEST,
                       length);
    TL_TRY(tl_tokenizer_need(tokenizer, "[CLS]", &p->cls));
    return tl_tokenizer_need(tokenizer, "[SEP]", &p->sep);
}

void tl_packer_deinit(tl_packer *p)
{
    tl_ids_deinit(&p->ids);
    tl_ids_deinit(&p->second);
}

static bool push(tl_packer *p, int32_t id)
{
    return TL_VEC_PUSH(&p->ids, id);
}

tl_status tl_packer_pack(tl_packer *p, tl_bytes first, tl_bytes second)
{
    p->ids.count = p->second.count = 0;
    if (!push(p, p->cls)) return TL_ENOMEM;
    TL_TRY(tl_tokenize(p->tokenizer, &p->ids, first.data ? first.data : "", first.size));
    if (second.size) TL_TRY(tl_tokenize(p->tokenizer, &p->second, second.data, second.size));
    int64_t *a = &p->ids.count, *b = &p->second.count; // [CLS] is one of a
    int64_t most = p->length - (*b ? 2 : 1);
    p->was_cut = *a + *b > most;
    while (*a + *b > most) --*(*a - 1 > *b || !*b ? a : b);
    if (!push(p, p->sep)) return TL_ENOMEM;
    p->first = *a;
    for (int64_t i = 0; i < *b; i++)
        if (!push(p, p->second.items[i])) return TL_ENOMEM;
    return !*b || push(p, p->sep) ? TL_OK : TL_ENOMEM;
}

/* --- classes ---------------------------------------------------------------------------------- */

static bool whole_number(const char *text, long long *out)
{
    char *end;
    size_t digits = strspn(text + (*text == '-'), "0123456789");
    *out = strtoll(text, &end, 10);
    return digits > 0 && digits < 18 && !*end;
}

static int by_number(const void *a, const void *b)
{
    long long x, y;
    const char *s = *(const char *const *)a, *t = *(const char *const *)b;
    (void)whole_number(s, &x), (void)whole_number(t, &y);
    return x != y ? (x > y) - (x < y) : strcmp(s, t);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

tl_status tl_text_classes_sort(tl_strings *out, tl_arena *arena, const tl_map *seen)
{
    int64_t count = tl_map_count(seen);
    const char **items = tl_arena_array(arena, count ? count : 1, sizeof *items);
    *out = (tl_strings){0};
    bool numbers = true;
    long long value;
    if (!items) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        if (!(items[i] = tl_arena_strdup(arena, tl_map_key(seen, i)))) return TL_ENOMEM;
        numbers = numbers && whole_number(items[i], &value);
    }
    qsort(items, (size_t)count, sizeof *items, numbers ? by_number : by_bytes);
    *out = (tl_strings){items, count};
    return TL_OK;
}

static tl_status collect(tl_map *seen, tl_text_rows *rows)
{
    for (;;) {
        tl_text_row row;
        bool more = true;
        TL_TRY(tl_text_rows_next(rows, &row, &more));
        if (!more) return TL_OK;
        if (tl_map_has(seen, row.label)) continue;
        TL_TRY(tl_map_set(seen, row.label, NULL));
        if (tl_map_count(seen) > TL_TEXT_CLASSES)
            return tl_text_rows_refuse_label(
                rows, "there are more than 10000 different labels; is it the right column?");
    }
}

tl_status tl_text_classes_find(tl_strings *out, tl_arena *arena, const char *path,
                               const tl_text_rows_args *columns)
{
    tl_text_rows *rows;
    tl_map seen = TL_MAP_INIT;
    *out = (tl_strings){0};
    if (!columns->label)
        return TL_FAIL(TL_EINVAL, "'%s': the column of the labels is not given", path);
    TL_TRY(tl_text_rows_open(&rows, path, columns));
    tl_status st = collect(&seen, rows);
    if (st == TL_OK) st = tl_text_classes_sort(out, arena, &seen);
    tl_text_rows_free(&rows);
    tl_map_deinit(&seen);
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

enum { GRAIN = 32, BATCH = 1024 }; // rows that one thread makes, and rows at a time

/* A row that waits: where its texts stand among those of the batch, and then its record among the
 * portion's. */
typedef struct waiting {
    size_t first, first_size, second_size;
    size_t end; // of its record
    double label;
} waiting;

typedef struct writing {
    const tl_classification_args *args;
    tl_text_rows *rows;
    tl_map classes; // to one more than their number
    tl_tfrecord_writer *file;
    tl_str texts; // of the batch
    waiting batch[BATCH];
    tl_str records[BATCH / GRAIN];
    int64_t cut[BATCH / GRAIN];
    int64_t count, done;
    int64_t length;
} writing;

static tl_status refuse_class(const writing *w, const char *label)
{
    const tl_strings *c = &w->args->classes;
    tl_str why = TL_STR_INIT;
    const char *near = tl_nearest(label, c->items, c->count);
    tl_str_addf(&why, "'%.80s' is none of the %" PRId64 " classes", label, c->count);
    if (near) tl_str_addf(&why, "; did you mean '%.80s'?", near);
    for (int64_t i = 0; !near && i < c->count && i < 10; i++)
        tl_str_addf(&why, "%s%.40s", i ? ", " : ": ", c->items[i]);
    tl_status st = tl_text_rows_refuse_label(w->rows, tl_str_text(&why));
    tl_str_deinit(&why);
    return st;
}

static tl_status read_label(const writing *w, const char *label, double *out)
{
    *out = 0;
    if (!label) return TL_OK;
    if (!w->args->is_regression) {
        uintptr_t found = (uintptr_t)tl_map_get(&w->classes, label);
        *out = (double)found - 1;
        return found ? TL_OK : refuse_class(w, label);
    }
    char *end;
    *out = tl_strtod(label, &end);
    if (end != label && !*end && isfinite(*out)) return TL_OK;
    return tl_text_rows_refuse_label(w->rows, "the label of a regression is a number");
}

static tl_status read_batch(writing *w)
{
    tl_str_cut(&w->texts, 0);
    for (w->count = 0; w->count < BATCH; w->count++) {
        tl_text_row row;
        bool more = true;
        TL_TRY(tl_text_rows_next(w->rows, &row, &more));
        if (!more) break;
        waiting *to = &w->batch[w->count];
        *to = (waiting){w->texts.length, row.first.size, row.second.size, 0, 0};
        TL_TRY(read_label(w, row.label, &to->label));
        tl_str_addn(&w->texts, row.first.size ? row.first.data : "", row.first.size);
        tl_str_addn(&w->texts, row.second.size ? row.second.data : "", row.second.size);
    }
    return tl_str_status(&w->texts);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void add_sequence(tl_example_writer *e, const tl_packer *p, int64_t *room)
{
    for (int64_t i = 0; i < p->length; i++) room[i] = i < p->ids.count ? p->ids.items[i] : 0;
    tl_example_add_ints(e, "input_ids", room, p->length);
    for (int64_t i = 0; i < p->length; i++) room[i] = i < p->ids.count;
    tl_example_add_ints(e, "input_mask", room, p->length);
    for (int64_t i = 0; i < p->length; i++) room[i] = i >= p->first && i < p->ids.count;
    tl_example_add_ints(e, "segment_ids", room, p->length);
}

static tl_status add_record(const writing *w, tl_str *out, const tl_packer *p, double label,
                            int64_t number, int64_t *room)
{
    const float value = (float)label;
    const int64_t place = (int64_t)label, one = 1;
    tl_example_writer e = tl_example_begin(out);
    add_sequence(&e, p, room);
    if (w->args->is_regression) tl_example_add_floats(&e, "label_ids", &value, 1);
    else tl_example_add_ints(&e, "label_ids", &place, 1);
    tl_example_add_ints(&e, "is_real_example", &one, 1);
    tl_example_add_ints(&e, "example_id", &number, 1);
    return tl_example_end(&e);
}

static tl_status make_rows(writing *w, tl_packer *p, int64_t *room, int64_t begin, int64_t end)
{
    tl_str *out = &w->records[begin / GRAIN];
    tl_str_cut(out, 0);
    for (int64_t i = begin; i < end; i++) {
        waiting *row = &w->batch[i];
        const char *text = tl_str_text(&w->texts) + row->first;
        TL_TRY(tl_packer_pack(p, (tl_bytes){text, row->first_size},
                              (tl_bytes){text + row->first_size, row->second_size}));
        w->cut[begin / GRAIN] += p->was_cut;
        TL_TRY(add_record(w, out, p, row->label, w->done + i, room));
        row->end = out->length;
    }
    return TL_OK;
}

static tl_status make_some(int64_t begin, int64_t end, void *payload)
{
    writing *w = payload;
    tl_packer p;
    int64_t *room = tl_alloc((size_t)w->length * sizeof *room);
    tl_status st = room ? tl_packer_init(&p, w->args->tokenizer, w->length)
                        : TL_FAIL_NOMEM((size_t)w->length * sizeof *room);
    if (st == TL_OK) {
        st = make_rows(w, &p, room, begin, end);
        tl_packer_deinit(&p);
    }
    tl_free(room);
    return st;
}

static tl_status write_batch(writing *w)
{
    TL_TRY(tl_parallel_for(w->args->pool, w->count, GRAIN, make_some, w));
    for (int64_t i = 0; i < w->count; i++) {
        size_t begin = i % GRAIN ? w->batch[i - 1].end : 0;
        TL_TRY(tl_tfrecord_write(w->file, w->records[i / GRAIN].data + begin,
                                 w->batch[i].end - begin));
    }
    w->done += w->count;
    return TL_OK;
}

static tl_status write_rows(writing *w, const char *to, const char *from)
{
    const tl_classification_args *a = w->args;
    for (int64_t i = 0; i < a->classes.count; i++)
        TL_TRY(tl_map_set(&w->classes, a->classes.items[i], (void *)(uintptr_t)(i + 1)));
    TL_TRY(tl_text_rows_open(&w->rows, from, &a->columns));
    TL_TRY(tl_tfrecord_writer_begin(&w->file, to, &(tl_tfrecord_writer_args){.gzip = a->gzip}));
    do {
        TL_TRY(read_batch(w));
        TL_TRY_NOTE(write_batch(w), "'%s'", from);
    } while (w->count == BATCH);
    if (!w->done) return TL_FAIL(TL_EDATA, "'%s' has no rows", from);
    return tl_tfrecord_writer_commit(&w->file);
}

tl_status tl_classification_write(const char *to, const char *from,
                                  const tl_classification_args *args,
                                  tl_classification_result *result)
{
    *result = (tl_classification_result){0};
    if (!args->is_regression && args->columns.label && !args->classes.count)
        return TL_FAIL(TL_EINVAL, "'%s': there are no classes; tl_text_classes_find finds them",
                       from);
    writing *w = tl_alloc_zero(sizeof *w);
    if (!w) return TL_FAIL_NOMEM(sizeof *w);
    w->args = args;
    w->length = args->max_seq_length ? args->max_seq_length : USUAL;
    tl_status st = write_rows(w, to, from);
    result->rows = w->done;
    if (w->rows) result->skipped = tl_text_rows_skipped(w->rows);
    for (int64_t i = 0; i < BATCH / GRAIN; i++) {
        result->cut += w->cut[i];
        tl_str_deinit(&w->records[i]);
    }
    tl_tfrecord_writer_abort(&w->file);
    tl_text_rows_free(&w->rows);
    tl_map_deinit(&w->classes);
    tl_str_deinit(&w->texts);
    tl_free(w);
    return st;
}
