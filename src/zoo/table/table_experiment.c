/* The experiment `table`: a file is enough. What nobody has set is chosen by the data. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/log.h>
#include <tilth/desc/yaml.h>

#include "zoo/table/table_zoo.h"
#include "zoo/inner/zoo.h"

enum { FEW_ROWS = 1000 }; /* below that it is all about not learning them by heart */

/* --- choices ---------------------------------------------------------------------------------- */

static int64_t clamp(double value, int64_t least, int64_t most)
{
    return value < (double)least ? least : value > (double)most ? most : (int64_t)value;
}

/* The power of two that is nearest to the square root. */
static int64_t batch_for(int64_t rows)
{
    int64_t batch = 16;
    while (batch < 2048 && (double)batch * 1.5 < sqrt((double)rows)) batch *= 2;
    return batch;
}

static int64_t units_for(int64_t rows)
{
    return rows < FEW_ROWS ? 32 : rows < 10000 ? 64 : rows < 100000 ? 128 : 256;
}

static tl_status choose_model(tl_config *c, int64_t rows)
{
    long long units = (long long)units_for(rows);
    TL_TRY(tli_choose(c, "task.model.units", "[%lld,%lld]", units, units));
    return tli_choose(c, "task.model.dropout_rate", "%g", rows < FEW_ROWS ? 0.4 : 0.1);
}

static const tl_experiment_config *params_of(const tl_config *c)
{
    return tl_config_value(c);
}

static tl_status choose_steps(tl_config *c, int64_t rows)
{
    enum { EVALUATIONS = 40 };
    TL_TRY(tli_choose_batch(c, "task.train_data.global_batch_size", batch_for(rows)));
    TL_TRY(tli_choose_batch(c, "task.validation_data.global_batch_size",
                            clamp((double)rows, 16, 1024)));
    const tl_task_config *task = params_of(c)->task.value;
    int64_t batch = task->train_data ? task->train_data->global_batch_size : 1;
    int64_t passes = clamp(4000 / sqrt((double)rows), 10, 200);
    int64_t interval = clamp(
        (double)rows * (double)passes / (double)(batch > 0 ? batch : 1) / EVALUATIONS, 5, 100000);
    TL_TRY(tli_choose(c, "trainer.train_steps", "%" PRId64, interval * EVALUATIONS));
    const tl_trainer_config *trainer = params_of(c)->trainer.value;
    interval = clamp((double)trainer->train_steps / EVALUATIONS, 1, 100000);
    TL_TRY(tli_choose(c, "trainer.validation_interval", "%" PRId64, interval));
    TL_TRY(tli_choose(c, "trainer.steps_per_loop", "%" PRId64, interval));
    TL_TRY(tli_choose(c, "trainer.summary_interval", "%" PRId64, trainer->steps_per_loop));
    return tli_choose(c, "trainer.checkpoint_interval", "%" PRId64, 5 * interval);
}

static bool is_type(const tl_oneof *chosen, const char *type)
{
    return chosen->type && strcmp(chosen->type, type) == 0;
}

/* What the defaults below leave open, as long as nobody has chosen another optimizer, schedule or
 * warm-up. */
static tl_status choose_optimizer(tl_config *c, int64_t rows)
{
#define OPTIMIZATION "trainer.optimizer_config."
    const tl_trainer_config *trainer = params_of(c)->trainer.value;
    const tl_optimization_config *o = &trainer->optimizer_config;
    int64_t steps = trainer->train_steps > 0 ? trainer->train_steps : 1;
    if (is_type(&o->optimizer, "adamw"))
        TL_TRY(tli_choose(c, OPTIMIZATION "optimizer.adamw.weight_decay_rate", "%g",
                          rows < FEW_ROWS ? 0.1 : 0.01));
    if (is_type(&o->learning_rate, "cosine"))
        TL_TRY(tli_choose(c, OPTIMIZATION "learning_rate.cosine.decay_steps", "%" PRId64, steps));
    if (!is_type(&o->warmup, "linear")) return TL_OK;
    return tli_choose(c, OPTIMIZATION "warmup.linear.warmup_steps", "%" PRId64,
                      clamp((double)steps / 20, 1, 10000));
}

/* --- the schema ------------------------------------------------------------------------------- */

static tl_status paths_of(tl_path_list *out, tl_arena *arena, const tl_data_config *data)
{
    if (data->input_path->kind == TL_VALUE_MAP)
        return TL_FAIL(
            TL_EUNSUPPORTED,
            "task.train_data.input_path is a map; tables are named by a path, or a list");
    TL_TRY_NOTE(tl_paths_match(out, arena, data->input_path), "task.train_data.input_path");
    return TL_OK;
}

static tl_status find_schema(tl_table_schema *schema, tl_table_findings *found, tl_config *c)
{
    const tl_table_task_config *task = params_of(c)->task.value;
    const tl_table_data_config *data = (const tl_table_data_config *)task->base.train_data;
    bool own = tli_table_is_named(task->base.validation_data);
    tl_path_list paths;
    // it is read before all is checked
    TL_TRY_NOTE(tl_desc_check(&tl_table_data_config_desc, data), "task.train_data");
    TL_TRY(paths_of(&paths, tl_config_arena(c), &data->base));
    return tl_table_schema_find(schema, found,
                                &(tl_table_find_args){.paths = paths.items,
                                                      .path_count = paths.count,
                                                      .table = tli_table_args_of(data),
                                                      .target = task->target,
                                                      .kind = task->kind,
                                                      .ignore = task->ignore,
                                                      .categories = task->categories,
                                                      .max_categories = task->max_categories,
                                                      .held_out = own ? 0 : task->validation_split,
                                                      .arena = tl_config_arena(c)});
}

static tl_status put_schema(tl_config *c, const tl_table_schema *schema)
{
    tl_str text = TL_STR_INIT, whole = TL_STR_INIT;
    tl_status st;
    TL_TRY_DONE(st, tl_yaml_write(&text, &tl_table_schema_desc, schema));
    tl_str_add(&whole, "task:\n  schema:\n");
    for (const char *p = tl_str_text(&text); *p;) {
        const char *end = strchr(p, '\n');
        size_t length = end ? (size_t)(end - p) + 1 : strlen(p);
        tl_str_add(&whole, "    ");
        tl_str_addn(&whole, p, length);
        p += length;
    }
    TL_TRY_DONE(st, tl_str_status(&text));
    TL_TRY_DONE(st, tl_str_status(&whole));
    st = tl_config_yaml(c, tl_str_text(&whole), TLI_THE_DATA);
done:
    tl_str_deinit(&text);
    tl_str_deinit(&whole);
    return st;
}

/* --- completing ------------------------------------------------------------------------------- */

/* A run that goes on has all of it in its params.yaml: the table is not looked at again. */
static tl_status complete(tl_config *c)
{
    const tl_table_task_config *task = params_of(c)->task.value;
    tl_table_schema schema;
    tl_table_findings found;
    if (!tli_table_is_named(task->base.train_data)) return TL_OK; // what needs it will say so
    if (task->schema && tl_config_is_given(c, "trainer.train_steps")) return TL_OK;
    TL_TRY(find_schema(&schema, &found, c));
    if (!task->schema) {
        TL_LOG_INFO("%s", found.report);
        if (found.warnings) TL_LOG_WARNING("%s", found.warnings);
        TL_TRY(put_schema(c, &schema));
        TL_TRY(tli_choose(c, "task.train_data.header", "%s",
                          found.has_header ? "first_line" : "none"));
        TL_TRY(tli_choose(c, "task.validation_data.header", "%s",
                          found.has_header ? "first_line" : "none"));
    }
    int64_t rows = found.rows - found.held_out;
    TL_TRY(choose_model(c, rows));
    TL_TRY(choose_steps(c, rows));
    return choose_optimizer(c, rows);
}

const tl_experiment_class tli_table_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "table",
            .help = "your table: say task.train_data.input_path=FILE.csv and task.target=COLUMN, "
                    "the rest is chosen by what is in it"},
    .task = &tl_table_task_config_desc,
    .restrictions = TLI_DATA_RESTRICTIONS,
    .complete = complete,
    .defaults = "runtime: {distribution_strategy: one_device}\n"
                "task:\n"
                "  train_data: {is_training: true}\n"
                "  validation_data: {is_training: false, drop_remainder: false}\n"
                "trainer:\n"
                "  best_checkpoint_export_subdir: best\n"
                "  best_checkpoint_eval_metric: validation_loss\n"
                "  best_checkpoint_metric_comp: lower\n"
                "  optimizer_config:\n"
                "    optimizer: {type: adamw, adamw: {exclude_from_weight_decay: [bias, norm]}}\n"
                "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.003}}\n"
                "    warmup: {type: linear}\n"
                "tilth:\n"
                "  early_stopping: {metric: validation_loss, comp: lower, patience: 10}\n",
};
