/* Rows that a trained model is asked about one by one (builtin/predictor.h): a text with a head and
 * a row. */
#include <tilth/base/alloc.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/softmax.h>

#include "zoo/table/table_zoo.h"

static const tl_table_schema *schema_of(const tl_task *t)
{
    return ((const tl_table_task_config *)t->config)->schema;
}

/* One query has one answer. */
static tl_status code_one_row(const tl_table_coder *coder, tl_table *table, float *numbers,
                              int32_t *categories)
{
    bool more = true;
    const tl_cell *cells;
    TL_TRY(tl_table_next(table, &cells, &more));
    if (!more)
        return TL_FAIL(TL_EINVAL,
                       "there is no row: expected the names of the columns, and a line of values");
    tl_table_coder_row(coder, table, cells, numbers, categories);
    TL_TRY(tl_table_next(table, &cells, &more));
    return more ? TL_FAIL(TL_EINVAL,
                          "there is more than one row: ask about each in a query of its own")
                : TL_OK;
}

tl_status tli_table_prepare_query(const tl_task *t, const tl_query *q, void *const *inputs)
{
    const tl_table_schema *schema = schema_of(t);
    tl_table_widths widths = tl_table_schema_widths(schema);
    float *numbers = widths.numbers ? inputs[0] : NULL;
    int32_t *categories = widths.categories ? inputs[widths.numbers ? 1 : 0] : NULL;
    tl_table *table = NULL;
    tl_table_coder *coder = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_table_coder_new(&coder, schema));
    TL_TRY_DONE(st, tli_table_open_asked(&table, coder, t->config, q));
    st = code_one_row(coder, table, numbers, categories);
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
