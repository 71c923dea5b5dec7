#include <inttypes.h>
#include <string.h>

#include <tilth/zoo/table.h>

#include "builtin/inner/answers.h"
#include "tool/confusion.h"
#include "tool/predict.h"

static tl_status add_row(tli_asking *a, const tl_table_answer *row)
{
    const tl_table_task_config *task = tl_predictor_finished(a->p)->params->task.value;
    float value = (float)row->value;
    tl_prediction p = {.values = row->shares ? row->shares : &value,
                       .count = row->shares ? row->classes : 1};
    tl_answer *top =
        tli_answers_best(a->names, &p.top_count, a->flags->top, row->shares, row->classes);
    char *name = tl_arena_printf(a->names, "%s:%" PRId64, row->table->name, row->line);
    if (!top || !name) return TL_ENOMEM;
    for (int64_t i = 0; i < p.top_count; i++)
        top[i].name = task->schema->class_names.items[top[i].class_id];
    p.top = top;
    tli_ask_tell(a, &(tli_telling){.asking = a, .file = name, .answer = &p});
    return TL_OK;
}

/* --- as a table: the rows of the file, with the answers behind them --------------------------- */

/* Rows of several files make one table when their columns are the same. */
static tl_status check_names(const tli_asking *a, const tl_table *t)
{
    if (t->columns != a->columns.count)
        return TL_FAIL(TL_EINVAL,
                       "'%s' has %" PRId64 " columns, and the file before it %" PRId64
                       ": they do not make one table; ask for them one by one",
                       t->name, t->columns, a->columns.count);
    for (int64_t i = 0; i < t->columns; i++)
        if (strcmp(t->names[i], a->columns.items[i]) != 0)
            return TL_FAIL(TL_EINVAL,
                           "column %" PRId64
                           " of '%s' is called '%s', and that of the file before it '%s': they do "
                           "not make one table; ask for them one by one",
                           i + 1, t->name, t->names[i], a->columns.items[i]);
    return TL_OK;
}

static tl_status add_head(tli_asking *a, const tl_table *t, const tl_table_schema *schema)
{
    if (a->begun) return check_names(a, t);
    const char **names = tl_arena_array(a->run->arena, t->columns, sizeof *names);
    if (!names) return TL_ENOMEM;
    for (int64_t i = 0; i < t->columns; i++) {
        if (!(names[i] = tl_arena_strdup(a->run->arena, t->names[i]))) return TL_ENOMEM;
        tli_csv_add(&a->text, names[i]);
        tl_str_addc(&a->text, ',');
    }
    char *name = tl_arena_printf(a->run->arena, "predicted %s", schema->target);
    if (!name) return TL_ENOMEM;
    tli_csv_add(&a->text, name);
    tl_str_add(&a->text, schema->kind == TL_TABLE_CLASSIFICATION ? ",probability\n" : "\n");
    a->columns = (tl_strings){names, t->columns};
    a->begun = true;
    return TL_OK;
}

static tl_status begin_table(const tl_table *t, void *payload)
{
    tli_asking *a = payload;
    const tl_table_task_config *task = tl_predictor_finished(a->p)->params->task.value;
    return a->flags->csv ? add_head(a, t, task->schema) : TL_OK;
}

static tl_status add_cells(tli_asking *a, const tl_table_answer *row)
{
    for (int64_t i = 0; i < row->table->columns; i++) {
        tl_str cell = TL_STR_INIT;
        tl_cell_write(&cell, &row->cells[i]);
        tl_status st = tl_str_status(&cell);
        if (st == TL_OK) tli_csv_add(&a->text, tl_str_text(&cell));
        tl_str_deinit(&cell);
        TL_TRY(st);
        tl_str_addc(&a->text, ',');
    }
    if (row->shares) {
        tli_csv_add(&a->text, row->class_name);
        tl_str_addf(&a->text, ",%.7g\n", (double)row->shares[row->class_id]);
    } else {
        tl_str_addf(&a->text, "%.9g\n", row->value);
    }
    a->told++;
    return TL_OK;
}

static tl_status tell_row(const tl_table_answer *row, void *payload)
{
    tli_asking *a = payload;
    tl_arena_mark mark = tl_arena_begin(a->names);
    tl_status st = a->flags->csv ? add_cells(a, row) : add_row(a, row);
    tl_arena_end(a->names, mark);
    return st != TL_OK || a->text.length < TLI_TOLD_AT_ONCE ? st : tli_ask_flush(a);
}

tl_status tli_ask_table(tli_asking *a, const char *path)
{
    const tl_finished *f = tl_predictor_finished(a->p);
    tl_status st =
        tl_table_predict(&(tl_table_predict_args){.model = f->trainer->model,
                                                  .task = f->params->task.value,
                                                  .engine = tl_strategy_engine(f->strategy),
                                                  .path = path,
                                                  .begin = begin_table,
                                                  .row = tell_row,
                                                  .payload = a});
    tl_status rest = tli_ask_flush(a); // what came before something that cannot be read is told
    return st == TL_OK ? rest : st;
}
