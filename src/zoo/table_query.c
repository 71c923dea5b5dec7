/* Rows that a trained model is asked about one by one (builtin/predictor.h): a text with a head and a row. */
#include <tilth/base/alloc.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/softmax.h>

#include "zoo/table_zoo.h"

static const tl_table_schema *schema_of(const tl_task *t)
{
    return ((const tl_table_task_config *)t->config)->schema;
}

static tl_status one_row(tl_table *table, const tl_cell **cells)
{
    bool more = true;
    TL_TRY(tl_table_next(table, cells, &more));
    return more ? TL_OK : TL_FAIL(TL_EINVAL, "there is no row: expected the names of the columns, and a line of values");
}

tl_status tli_table_prepare_query(const tl_task *t, const tl_query *q, void *const *inputs)
{
    const tl_table_schema *schema = schema_of(t);
    const tl_task_config *task = t->config;
    const tl_data_config *data = task->train_data ? task->train_data : task->validation_data;
    tl_table_widths widths = tl_table_schema_widths(schema);
    tl_table_args args = {.header = data ? ((const tl_table_data_config *)data)->header : TL_HEADER_AUTO};
    float *numbers = widths.numbers ? inputs[0] : NULL;
    int32_t *categories = widths.categories ? inputs[widths.numbers ? 1 : 0] : NULL;
    tl_table *table = NULL;
    tl_table_coder *coder = NULL;
    const tl_cell *cells;
    tl_status st;
    TL_TRY_DONE(st, tl_table_from_memory(&table, q->file ? q->file : "query", q->data, q->size, &args));
    TL_TRY_DONE(st, tl_table_coder_new(&coder, schema));
    TL_TRY_DONE(st, tl_table_coder_bind(coder, table, false));
    TL_TRY_DONE(st, one_row(table, &cells));
    tl_table_coder_row(coder, table, cells, numbers, categories);
done:
    tl_table_coder_free(&coder);
    tl_table_free(&table);
    return st;
}

tl_tensor *tli_table_build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs)
{
    const tl_table_schema *s = schema_of(t);
    tl_tensor *y = tl_cast(c, outputs->items[0].tensor, TL_F32);
    if (s->kind == TL_TABLE_CLASSIFICATION) return tl_softmax(c, y, -1);
    return tl_affine(c, y, s->target_stddev, s->target_mean);
}

void tli_table_answer_form(const tl_task *t, tl_answer_form *out)
{
    const tl_table_schema *s = schema_of(t);
    *out = (tl_answer_form){.classes = s->kind == TL_TABLE_CLASSIFICATION, .names = s->class_names};
}
