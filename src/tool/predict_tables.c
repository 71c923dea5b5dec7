#include <inttypes.h>

#include <tilth/zoo/table.h>

#include "tool/confusion.h"
#include "tool/predict.h"

/* The likeliest classes, best first; of equal ones the lower number. */
static int64_t choose(tl_answer *top, int64_t most, const tl_table_answer *row, tl_strings names)
{
    int64_t count = 0;
    for (int64_t i = 0; i < row->classes; i++) {
        int64_t at = count;
        while (at > 0 && (double)row->shares[i] > top[at - 1].probability) at--;
        if (at == most) continue;
        if (count < most) count++;
        for (int64_t k = count - 1; k > at; k--) top[k] = top[k - 1];
        top[at] = (tl_answer){i, names.items[i], row->shares[i]};
    }
    return count;
}

static tl_status add_row(tli_asking *a, const tl_table_answer *row)
{
    const tl_table_task_config *task = tl_predictor_finished(a->p)->params->task.value;
    float value = (float)row->value;
    tl_prediction p = {.values = row->shares ? row->shares : &value, .count = row->shares ? row->classes : 1};
    int64_t most = a->flags->top < p.count ? a->flags->top : p.count;
    tl_answer *top = tl_arena_array(a->names, most, sizeof *top);
    char *name = tl_arena_printf(a->names, "%s:%" PRId64, row->table->name, row->line);
    if (!top || !name) return TL_ENOMEM;
    if (row->shares) p.top_count = choose(top, most, row, task->schema->class_names);
    p.top = top;
    tli_ask_tell(a, name, &p);
    return TL_OK;
}

/* --- as a table: the rows of the file, with the answers behind them ---------------------------- */

static tl_status add_head(tli_asking *a, const tl_table *t, const tl_table_schema *schema)
{
    if (a->begun && t->columns == a->columns) return TL_OK;
    if (a->begun)
        return TL_FAIL(TL_EINVAL, "'%s' has %" PRId64 " columns, and the file before it %" PRId64 ": they do not make one "
                                  "table; ask for them one by one", t->name, t->columns, a->columns);
    for (int64_t i = 0; i < t->columns; i++) {
        tli_csv_add(&a->text, t->names[i]);
        tl_str_addc(&a->text, ',');
    }
    char *name = tl_arena_printf(a->names, "predicted %s", schema->target);
    if (!name) return TL_ENOMEM;
    tli_csv_add(&a->text, name);
    tl_str_add(&a->text, schema->kind == TL_TABLE_CLASSIFICATION ? ",probability\n" : "\n");
    a->columns = t->columns;
    a->begun = true;
    return TL_OK;
}

static tl_status add_cells(tli_asking *a, const tl_table_answer *row)
{
    const tl_table_task_config *task = tl_predictor_finished(a->p)->params->task.value;
    TL_TRY(add_head(a, row->table, task->schema));
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
    tl_status st = tl_table_predict(&(tl_table_predict_args){.model = f->trainer->model, .task = f->params->task.value,
                                                             .engine = tl_strategy_engine(f->strategy), .path = path,
                                                             .row = tell_row, .payload = a});
    tl_status rest = tli_ask_flush(a); // what came before something that cannot be read is told
    return st == TL_OK ? rest : st;
}
