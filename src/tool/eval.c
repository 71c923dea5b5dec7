#include <inttypes.h>
#include <string.h>

#include <tilth/base/clock.h>
#include <tilth/nn/metrics.h>
#include <tilth/zoo/vision.h>

#include "tool/experiment.h"
#include "tool/finished.h"

typedef struct eval_flags {
    int64_t mistakes;
    tl_strings config_file;
    const char *params_override;
} eval_flags;
static const tl_field eval_fields[] = {
    TL_F(eval_flags, mistakes, .i = 5, TL_AT_LEAST(0),
         .help = "of image classification: how many kinds of mistakes are told, the most frequent first"),
    TL_F(eval_flags, config_file, .help = "YAML files on top of the run's params.yaml"),
    TL_F(eval_flags, params_override, .s = "",
         .help = "on top of them: a YAML file, or key=value pairs"),
    TL_F_END,
};
static const tl_desc eval_flags_desc = {.name = "eval", .help = "flags of `eval`",
                                        .size = sizeof(eval_flags), .fields = eval_fields};

enum { OUTPUT, RUN }; /* structs of flags, by their place in the command's table */

/* --- mistakes --------------------------------------------------------------------------------- */

/* Counts of what was taken for what; NULL for other tasks, and where examples may have several classes, of which none
 * is taken for another. The programs of the trainer are not captured yet, so that a metric more is just one more. */
static tl_status count_mistakes(tl_metric **out, const tl_finished *f)
{
    *out = NULL;
    if (!tl_desc_is(f->params->task.desc, &tl_image_task_config_desc)) return TL_OK;
    const tl_task_config *task = f->params->task.value;
    const tl_image_model_config *model = task->model.value;
    const tl_image_data_config *data = (const tl_image_data_config *)task->train_data;
    if (data && data->is_multilabel) return TL_OK;
    return tl_metrics_add(out, f->trainer->validation_metrics, &tl_metric_confusion_matrix,
                          &(tl_confusion_config){.metric.silent = true, .num_classes = model->num_classes},
                          "counted mistakes");
}

/* The most frequent one that is not told yet, which is taken out of the counts; false: none is left. */
static bool next_mistake(double *counts, int64_t classes, int64_t *label, int64_t *answer, double *times)
{
    int64_t best = -1;
    for (int64_t i = 0; i < classes * classes; i++)
        if (i / classes != i % classes && counts[i] > 0 && (best < 0 || counts[i] > counts[best])) best = i;
    if (best < 0) return false;
    *label = best / classes;
    *answer = best % classes;
    *times = counts[best];
    counts[best] = 0;
    return true;
}

static tl_status tell_mistakes(tli_run *run, const tl_finished *f, tl_metric *counted)
{
    int64_t wanted = ((const eval_flags *)run->given[OUTPUT])->mistakes, label, answer;
    tl_ctx *c = f->trainer->ctx;
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *result = tl_metric_result(counted, c);
    int64_t classes = result ? result->shape.dims[0] : 0;
    double *counts = tl_arena_array(run->arena, classes * classes + 1, sizeof *counts), times;
    tl_status st = tl_ctx_status(c);
    if (st == TL_OK && !counts) st = TL_ENOMEM;
    if (st == TL_OK) st = tl_tensor_get_doubles(result, counts, classes * classes);
    tl_ctx_end(c, mark);
    TL_TRY(st);
    for (int64_t i = 0; i < wanted && next_mistake(counts, classes, &label, &answer, &times); i++) {
        const char *is = tl_finished_class(f, label), *taken_for = tl_finished_class(f, answer);
        if (!is || !taken_for) return TL_ENOMEM;
        tl_str_addf(&run->text, "%s  %.0f of class '%s' taken for '%s'\n", i ? "" : "mistakes, most frequent first:\n",
                    times, is, taken_for);
    }
    return tl_str_status(&run->text);
}

/* --- the command ------------------------------------------------------------------------------ */

static tl_status evaluate(tli_run *run, const tl_finished *f)
{
    const tl_trainer_config *t = f->params->trainer.value;
    tl_metric *counted;
    tl_logs *logs;
    TL_TRY(count_mistakes(&counted, f));
    TL_TRY(tl_logs_new(&logs));
    int64_t begin = tl_clock_ns();
    tl_status st = tl_trainer_evaluate(f->trainer, t->validation_steps, logs);
    if (st == TL_OK) {
        tl_str_addf(&run->text, "%s, step %" PRId64 ", in %.1f s:\n", f->file, f->trainer->global_step,
                    (double)(tl_clock_ns() - begin) * 1e-9);
        st = tli_add_numbers(&run->text, logs, 0, 6, NULL);
    }
    if (st == TL_OK && counted) st = tell_mistakes(run, f, counted);
    tl_logs_free(&logs);
    return st;
}

static tl_status run_eval(tli_run *run)
{
    const eval_flags *flags = run->given[OUTPUT];
    tl_finished_args which = tli_finished_args(run, run->given[RUN]);
    tl_finished f;
    which.evaluates = true;
    which.config_file = flags->config_file;
    which.params_override = flags->params_override;
    TL_TRY(tli_words_of(&which.words, &which.word_count, run));
    tl_status st = tl_finished_open(&f, &which);
    if (st == TL_OK) st = evaluate(run, &f);
    tl_finished_close(&f);
    return st;
}

const tli_command tli_command_eval = {
    .name = "eval",
    .brief = "evaluates a run that was trained before",
    .usage = "--model_dir=FOLDER [--checkpoint=latest|best|PATH] [--config_file=FILE] [--params_override=PAIRS] [WORD...]\n\n"
             "Evaluates the model of a run with its validation data, and tells the metrics, and which classes "
             "are taken for each other. Nothing is written. Words change the configuration, such as "
             "task.validation_data.input_path=FILES:\n"
             TLI_WORDS_HELP,
    .flags = {{"Output", &eval_flags_desc}, {"Run", &tli_finished_flags_desc}},
    .takes_overrides = true,
    .run = run_eval,
};
