/* The task `table`: a column of a table, learned from the others. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/desc/yaml.h>
#include <tilth/nn/losses.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/view.h>

#include "zoo/table/table_zoo.h"

#define NUMBERS "numbers"
#define CATEGORIES "categories"
#define LABEL "label"
#define PLACE "place"

typedef struct table_task {
    tl_task base;
    const tl_table_task_config *config;
    const tl_table_schema *schema;
    bool classes;               /* it is classification */
    tli_table_report_of report; /* of evaluations */
} table_task;

bool tli_table_is_named(const tl_data_config *data)
{
    return data && tl_paths_given(data->input_path);
}

tl_table_args tli_table_args_of(const tl_table_data_config *data)
{
    bool tab = strcmp(data->delimiter, "tab") == 0;
    return (tl_table_args){.header = data->header, .delimiter = tab ? '\t' : *data->delimiter};
}

static tl_status start(tl_task *t)
{
    table_task *m = (table_task *)t;
    m->config = (const tl_table_task_config *)t->config;
    m->schema = m->config->schema;
    if (!m->schema && !tli_table_is_named(t->config->train_data))
        return TL_FAIL(
            TL_EINVAL,
            "no table is named: say task.train_data.input_path=FILE.csv, and task.target=COLUMN");
    if (!m->schema)
        return TL_FAIL(TL_EINVAL, "task.schema is null: the experiment 'table' finds it when its "
                                  "configuration is finished (tl_experiment_parse)");
    m->classes = m->schema->kind == TL_TABLE_CLASSIFICATION;
    m->report.schema = m->schema;
    return TL_OK;
}

static tl_status build_model(tl_task *t, tl_model **out)
{
    const table_task *m = (const table_task *)t;
    const tl_data_config *data = t->config->train_data;
    if (!t->config->model.value)
        return TL_FAIL(TL_EINVAL, "task.model is null: there is no model to build");
    return tl_table_model_new(
        out, &(tl_table_model_args){.engine = t->engine,
                                    .config = t->config->model.value,
                                    .schema = m->schema,
                                    .batch_size = data ? data->global_batch_size : 1,
                                    .seed = t->seed,
                                    .dtype = t->dtype,
                                    .registry = t->registry,
                                    .arena = t->arena});
}

/* --- data ------------------------------------------------------------------------------------- */

/* What a section of data is read with. */
typedef struct reading {
    table_task *task;
    tl_table_load_args load;
    bool evaluates;
} reading;

static void free_rows(void *rows)
{
    tl_table_rows_deinit(rows);
    tl_free(rows);
}

static tl_status make_source(tl_source **out, const reading *g, const tl_table_rows *r)
{
    tl_array arrays[4];
    int64_t count = 0;
    if (r->widths.numbers)
        arrays[count++] =
            (tl_array){NUMBERS, TL_F32, TL_SHAPE(r->count, r->widths.numbers), r->numbers};
    if (r->widths.categories)
        arrays[count++] =
            (tl_array){CATEGORIES, TL_I32, TL_SHAPE(r->count, r->widths.categories), r->categories};
    arrays[count++] = g->task->classes
                          ? (tl_array){LABEL, TL_I32, TL_SHAPE(r->count), r->classes}
                          : (tl_array){LABEL, TL_F32, TL_SHAPE(r->count, 1), r->targets};
    if (g->evaluates) arrays[count++] = (tl_array){PLACE, TL_I64, TL_SHAPE(r->count), r->places};
    return tl_source_arrays(out, arrays, count, false);
}

/* For the report, which names the rows. */
static tl_status remember_files(table_task *m, const char *const *paths, int64_t count)
{
    tl_path_list *files = &m->report.files;
    files->items = tl_arena_array(m->base.arena, count, sizeof *files->items);
    if (!files->items) return TL_ENOMEM;
    for (files->count = 0; files->count < count; files->count++)
        if (!(files->items[files->count] = tl_arena_strdup(m->base.arena, paths[files->count])))
            return TL_ENOMEM;
    return TL_OK;
}

/* Rows live as long as the task, which outlives its datasets. */
static tl_status open_files(void *self, const char *name, const char *const *paths, int64_t count,
                            tl_source **out)
{
    reading *g = self;
    tl_arena *arena = g->task->base.arena;
    tl_table_rows *r = tl_alloc_zero(sizeof *r);
    (void)name;
    if (!r) return TL_FAIL_NOMEM(sizeof *r);
    TL_TRY(tl_arena_defer(arena, free_rows, r));
    g->load.paths = paths;
    g->load.path_count = count;
    TL_TRY(tl_table_rows_load(r, g->task->schema, &g->load));
    if (!r->count)
        return TL_FAIL(TL_EINVAL, "'%s' has no row %s", paths[0],
                       g->load.part == TL_PART_HELD_OUT
                           ? "that is held out for validation: name a table for that, or set "
                             "task.validation_split"
                           : "with a target");
    if (r->missing)
        TL_LOG_INFO("%s: %" PRId64 " rows without a target are left out", paths[0], r->missing);
    if (g->evaluates) TL_TRY(remember_files(g->task, paths, count));
    return make_source(out, g, r);
}

/* Without a table of its own, validation takes the part of the other that training leaves out. */
static tl_status choose_rows(reading *g, const tl_table_data_config **data)
{
    const table_task *m = g->task;
    const tl_data_config *train = m->base.config->train_data,
                         *validation = m->base.config->validation_data;
    bool own = tli_table_is_named(validation);
    g->load.part = own ? TL_PART_ALL : g->evaluates ? TL_PART_HELD_OUT : TL_PART_TRAINING;
    g->load.held_out = m->config->validation_split;
    if (own || !g->evaluates) return TL_OK;
    if (!tli_table_is_named(train))
        return TL_FAIL(TL_EINVAL, "neither train_data nor validation_data names a table");
    const tl_table_data_config *from = (const tl_table_data_config *)train;
    tl_table_data_config *copy = tl_arena_copy(m->base.arena, *data, sizeof *copy);
    if (!copy) return TL_ENOMEM;
    copy->base.input_path = train->input_path;
    copy->header = from->header;
    copy->delimiter = from->delimiter;
    *data = copy;
    return TL_OK;
}

static tl_status build_inputs(tl_task *t, const tl_data_config *config,
                              const tl_input_context *input, tl_dataset **out)
{
    const tl_table_data_config *data = (const tl_table_data_config *)config;
    reading *g = tl_arena_alloc(t->arena, sizeof *g);
    tl_pipeline_args args = {0};
    *out = NULL;
    if (!g) return TL_ENOMEM;
    *g = (reading){.task = (table_task *)t, .evaluates = config != t->config->train_data};
    const char *section = g->evaluates ? "task.validation_data" : "task.train_data";
    TL_TRY(choose_rows(g, &data));
    g->load.table = tli_table_args_of(data);
    const tl_pipeline_reader reader = {
        .pipelines = input->pipelines,
        .pipeline = input->pipeline,
        .replicas = input->replicas,
        .seed = input->seed,
        .open = open_files,
        .open_self = g,
    };
    TL_TRY_NOTE(tl_pipeline_args_read(&args, t->arena, &data->base, &reader), "%s", section);
    return tl_pipeline_new(out, &args);
}

/* --- losses and metrics ----------------------------------------------------------------------- */

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    const table_task *m = (const table_task *)t;
    tl_tensor *y = labels->items[0].tensor, *p = outputs->items[0].tensor;
    if (p && p->dtype != TL_F64) p = tl_cast(c, p, TL_F32);
    tl_tensor *losses =
        m->classes ? tl_sparse_cross_entropy(c, y, p) : tl_mean_squared_error(c, y, p);
    return aux && losses ? tl_add(c, losses, tl_cast(c, aux, losses->dtype)) : losses;
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    const table_task *m = (const table_task *)t;
    if (!m->classes) {
        TL_TRY(tl_metrics_add(NULL, into, &tl_metric_mean_absolute_error, NULL, NULL));
        TL_TRY(tl_metrics_add(NULL, into, &tl_metric_root_mean_squared_error, NULL, NULL));
        return training ? TL_OK : tl_metrics_add(NULL, into, &tl_metric_r2_score, NULL, "r2");
    }
    TL_TRY(tl_metrics_add(NULL, into, &tl_metric_sparse_categorical_accuracy, NULL, "accuracy"));
    if (training || m->schema->class_names.count != 2) return TL_OK;
    return tl_metrics_add(NULL, into, &tl_metric_auc, NULL, "auc"); // of the second of two classes
}

/* Errors of numbers are told in the units of the table. */
static void process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                            const tl_tensors *outputs)
{
    const table_task *m = (const table_task *)t;
    tl_ctx *c = s->ctx;
    tl_tensor *y = labels->items[0].tensor, *p = outputs->items[0].tensor,
              *weight = tl_step_parts(s)->weight;
    if (tl_ctx_failed(c)) return;
    bool taping = tl_ctx_set_taping(c, false);
    if (!m->classes) {
        y = tl_scale(c, tl_cast(c, y, TL_F64), m->schema->target_stddev);
        p = tl_scale(c, tl_cast(c, p, TL_F64), m->schema->target_stddev);
    } else {
        p = tl_cast(c, p, TL_F32);
    }
    for (int64_t i = 0; i < tl_metrics_count(s->metrics); i++) {
        tl_metric *metric = tl_metrics_at(s->metrics, i);
        if (TL_CLASS_METHOD(tl_metric_class, metric->cls, of_values)) continue; // somebody else's
        bool area = metric->cls == &tl_metric_auc;
        tl_tensor *answers = area ? tl_take(c, tl_softmax(c, p, -1), -1, 1) : p;
        tl_metric_update(metric, c, y, answers, weight);
    }
    tl_ctx_set_taping(c, taping);
}

/* --- what an evaluation tells ----------------------------------------------------------------- */

static tl_status validation_step(tl_task *t, tl_step *s)
{
    const table_task *m = (const table_task *)t;
    tl_tensors labels = tl_step_parts(s)->labels, outputs = {0};
    TL_TRY(tl_ctx_status(s->ctx));
    TL_TRY(tl_task_inference_step(t, s, &outputs));
    tl_tensor *losses = tl_task_build_losses(t, s->ctx, &labels, &outputs, tl_step_aux_losses(s));
    tl_step_report(s, losses, tl_step_parts(s)->weight);
    tl_task_process_metrics(t, s, &labels, &outputs);
    return tli_table_report_step(s, labels.items[0].tensor, outputs.items[0].tensor, m->classes);
}

static tl_status aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    return tli_table_report_keep(state, &((table_task *)t)->report, step);
}

static tl_status reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step, tl_logs *into)
{
    (void)global_step;
    return tli_table_report_tell(state, &((table_task *)t)->report, into);
}

static void release_aggregated(tl_task *t, void *state)
{
    (void)t;
    tli_table_report_free(state);
}

static tl_status show_example(const tl_task *t, const tl_batch *batch, int64_t row,
                              tl_example_view *out)
{
    const tl_task_config *c = t->config;
    const tl_table_args args = tli_table_args_of(
        (const tl_table_data_config *)(c->validation_data ? c->validation_data : c->train_data));
    return tli_table_show(&((const table_task *)t)->report, &args, batch, row, out);
}

/* --- what a run keeps ------------------------------------------------------------------------- */

static tl_status notes(tl_task *t, tl_notes *into)
{
    tl_str text = TL_STR_INIT;
    tl_status st = tl_yaml_write(&text, &tl_table_schema_desc, ((table_task *)t)->schema);
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK) st = tl_notes_put(into, "schema", "schema.yaml", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

/* All else is chosen by what is in the table. */
static tl_status lacks(const tl_task_config *config, bool trains, bool evaluates, tl_lacks *into)
{
    (void)trains;
    (void)evaluates;
    if (((const tl_table_task_config *)config)->schema || tli_table_is_named(config->train_data))
        return TL_OK;
    return tl_lacks_add(into, "task.train_data.input_path",
                        "where the table lies: a CSV, TSV or npy file", "FILE.csv");
}

const tl_task_class tl_table_task = {
    .cls = {.class_size = sizeof(tl_task_class),
            .name = "table",
            .base = &tl_base_task.cls,
            .size = sizeof(table_task),
            .config = &tl_table_task_config_desc,
            .help = "learns a column of a table from the others"},
    .start = start,
    .build_model = build_model,
    .build_inputs = build_inputs,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
    .process_metrics = process_metrics,
    .validation_step = validation_step,
    .aggregate_logs = aggregate_logs,
    .lacks = lacks,
    .reduce_aggregated_logs = reduce_aggregated_logs,
    .release_aggregated = release_aggregated,
    .notes = notes,
    .prepare_query = tli_table_prepare_query,
    .build_answers = tli_table_build_answers,
    .answer_form = tli_table_answer_form,
    .export_files = notes,
    .show_example = show_example,
};

/* gin: TableModel.units = [8] */
static const tl_class table_model = {
    .class_size = sizeof(tl_class),
    .name = "table_model",
    .config = &tl_table_model_config_desc,
    .help = "dense layers over the columns of a table",
};

static const tl_entry entries[] = {
    {&tl_kind_model, &table_model},
    {&tl_kind_task, &tl_table_task.cls},
    {&tl_kind_experiment, &tli_table_experiment.cls},
};
const tl_module tl_table_module = {TL_MODULE_HEAD("table"), entries, TL_COUNT(entries)};
