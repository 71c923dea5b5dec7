/* Answers of a trained model to the rows of a file. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/softmax.h>

#include "zoo/table/table_zoo.h"

enum { USUAL_BATCH = 256 };

/* --- a table that was not there in the training ----------------------------------------------- */

static tl_status open_bound(tl_table **out, tl_table_coder *coder, const tl_query *q,
                            const tl_table_args *args)
{
    if (q->data)
        TL_TRY(tl_table_from_memory(out, q->file ? q->file : "query", q->data, q->size, args));
    else TL_TRY(tl_table_open(out, q->file, args));
    tl_status st = tl_table_coder_bind(coder, *out, false);
    if (st != TL_OK) tl_table_free(out);
    return st;
}

tl_status tli_table_open_asked(tl_table **out, tl_table_coder *coder, const tl_task_config *task,
                               const tl_query *q)
{
    const tl_data_config *data = task->train_data ? task->train_data : task->validation_data;
    tl_table_args args =
        data ? tli_table_args_of((const tl_table_data_config *)data) : (tl_table_args){0};
    tl_status st = open_bound(out, coder, q, &(tl_table_args){.header = args.header});
    if (st == TL_OK || st == TL_ENOMEM || !args.delimiter) return st;
    // says more, for people look at the file with the delimiter that it seems to have
    tl_error first;
    tl_error_save(&first);
    tl_status again = open_bound(out, coder, q, &args);
    if (again == TL_OK || again == TL_ENOMEM) return again;
    tl_error_restore(&first);
    return st;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Rows that wait for their answers. Cells are the table's until the next row, so they are
 * copied. */
typedef struct waiting {
    const tl_table_predict_args *args;
    const tl_table_schema *schema;
    tl_table *table;
    tl_table_coder *coder;
    tl_table_widths widths;
    tl_ctx *ctx;
    int64_t count, room, outputs;
    float *numbers, *answers;
    int32_t *categories;
    tl_cell *cells;
    int64_t *lines;
    tl_arena *arena; /* of what stands above */
    tl_arena *texts; /* of the cells */
} waiting;

static tl_status make_room(waiting *w)
{
    int64_t rows = w->room = w->args->batch_size > 0 ? w->args->batch_size : USUAL_BATCH;
    w->outputs = w->schema->kind == TL_TABLE_REGRESSION ? 1 : w->schema->class_names.count;
    w->numbers = tl_arena_array(w->arena, rows * w->widths.numbers + 1, sizeof *w->numbers);
    w->categories =
        tl_arena_array(w->arena, rows * w->widths.categories + 1, sizeof *w->categories);
    w->answers = tl_arena_array(w->arena, rows * w->outputs, sizeof *w->answers);
    w->cells = tl_arena_array(w->arena, rows * w->table->columns, sizeof *w->cells);
    w->lines = tl_arena_array(w->arena, rows, sizeof *w->lines);
    return w->numbers && w->categories && w->answers && w->cells && w->lines ? TL_OK : TL_ENOMEM;
}

static tl_status add_row(waiting *w, const tl_cell *cells)
{
    int64_t columns = w->table->columns, at = w->count++;
    tl_table_coder_row(w->coder, w->table, cells, w->numbers + at * w->widths.numbers,
                       w->categories + at * w->widths.categories);
    w->lines[at] = tl_table_line(w->table);
    for (int64_t i = 0; i < columns; i++) {
        tl_cell *to = &w->cells[at * columns + i];
        *to = cells[i];
        if (!to->is_number
            && !(to->text = tl_arena_strndup(w->texts, cells[i].text, cells[i].length)))
            return TL_ENOMEM;
    }
    return TL_OK;
}

/* Inputs by name, as a batch of the training has them. */
static tl_tensor *ask(waiting *w)
{
    tl_ctx *c = w->ctx;
    tl_tensors in = {0}, out = {0};
    if (w->widths.numbers)
        tl_tensors_put(c, &in, "numbers",
                       tl_from(c, TL_F32, TL_SHAPE(w->count, w->widths.numbers), w->numbers));
    if (w->widths.categories)
        tl_tensors_put(c, &in, "categories",
                       tl_from(c, TL_I32, TL_SHAPE(w->count, w->widths.categories), w->categories));
    tl_call_all(c, w->args->model, &in, &out);
    if (tl_ctx_failed(c)) return NULL;
    tl_tensor *y = tl_cast(c, out.items[0].tensor, TL_F32);
    return w->schema->kind == TL_TABLE_REGRESSION ? y : tl_softmax(c, y, -1);
}

static tl_status tell_row(const waiting *w, int64_t at)
{
    const tl_table_schema *s = w->schema;
    const float *answer = w->answers + at * w->outputs;
    tl_table_answer a = {
        .table = w->table, .cells = w->cells + at * w->table->columns, .line = w->lines[at]};
    if (s->kind == TL_TABLE_REGRESSION) {
        a.value = (double)answer[0] * s->target_stddev + s->target_mean;
    } else {
        a.shares = answer;
        a.classes = w->outputs;
        for (int64_t i = 1; i < w->outputs; i++)
            if (answer[i] > answer[a.class_id]) a.class_id = i;
        a.class_name = s->class_names.items[a.class_id];
    }
    return w->args->row(&a, w->args->payload);
}

static tl_status answer_all(waiting *w)
{
    if (!w->count) return TL_OK;
    tl_mark mark = tl_ctx_begin(w->ctx);
    tl_tensor *y = ask(w);
    tl_status st = tl_ctx_status(w->ctx);
    if (st == TL_OK)
        st = tl_tensor_get(y, w->answers, (size_t)(w->count * w->outputs) * sizeof *w->answers);
    tl_ctx_end(w->ctx, mark);
    for (int64_t i = 0; i < w->count && st == TL_OK; i++) st = tell_row(w, i);
    w->count = 0;
    return st;
}

/* Rows that came before one that cannot be read have their answers. */
static tl_status answer_file(waiting *w)
{
    const tl_cell *cells;
    tl_arena_mark texts = tl_arena_begin(w->texts);
    tl_status st = TL_OK, rest = TL_OK;
    tl_error error;
    for (bool more = true; st == TL_OK && rest == TL_OK && more;) {
        st = tl_table_next(w->table, &cells, &more);
        if (st == TL_OK && more) rest = add_row(w, cells);
        if (rest != TL_OK || (st == TL_OK && more && w->count < w->room)) continue;
        if (st != TL_OK) tl_error_save(&error);
        rest = answer_all(w);
        if (st != TL_OK && rest == TL_OK) tl_error_restore(&error);
        tl_arena_end(w->texts, texts);
        texts = tl_arena_begin(w->texts);
    }
    tl_arena_end(w->texts, texts);
    return rest == TL_OK ? st : rest;
}

static tl_status predict(waiting *w)
{
    TL_TRY(tl_table_coder_new(&w->coder, w->schema));
    TL_TRY(tli_table_open_asked(&w->table, w->coder, &w->args->task->base,
                                &(tl_query){.file = w->args->path}));
    TL_TRY(make_room(w));
    TL_TRY(tl_ctx_new(&w->ctx, w->args->engine));
    if (w->args->begin) TL_TRY(w->args->begin(w->table, w->args->payload));
    return answer_file(w);
}

tl_status tl_table_predict(const tl_table_predict_args *args)
{
    waiting w = {.args = args, .schema = args->task->schema};
    tl_status st;
    if (!w.schema) return TL_FAIL(TL_EINVAL, "the run has no task.schema: it was not trained yet");
    w.widths = tl_table_schema_widths(w.schema);
    TL_TRY_DONE(st, tl_arena_new(&w.arena));
    TL_TRY_DONE(st, tl_arena_new(&w.texts));
    st = predict(&w);
done:
    tl_ctx_free(&w.ctx);
    tl_table_coder_free(&w.coder);
    tl_table_free(&w.table);
    tl_arena_free(&w.texts);
    tl_arena_free(&w.arena);
    return st;
}
