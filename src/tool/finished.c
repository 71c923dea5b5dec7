#include "tool/finished.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/train/launch.h>

#include "tool/experiment.h"

#define NAME_FILE "experiment.txt"

static const tl_field fields[] = {
    TL_F(tli_finished_flags, model_dir, .flags = TL_FIELD_NULLABLE, .help = "folder of the run"),
    TL_F(tli_finished_flags, checkpoint, .s = "latest",
         .help = "latest, best, or the path of a checkpoint"),
    TL_F(tli_finished_flags, experiment, .flags = TL_FIELD_NULLABLE,
         .help = "which experiment it was, when the folder does not say so"),
    TL_F_END,
};
const tl_desc tli_finished_flags_desc = {.name = "finished", .help = "which run",
                                         .size = sizeof(tli_finished_flags), .fields = fields};

/* --- which experiment it was ------------------------------------------------------------------ */

typedef struct remember {
    tl_hook base;
    const char *path, *text;
} remember;
typedef struct remembered {
    const char *experiment, *model_dir;
} remembered;

static tl_status remember_start(tl_hook *h, const void *config)
{
    remember *r = (remember *)h;
    const remembered *m = config;
    r->path = tl_path_join(h->arena, m->model_dir, NAME_FILE);
    r->text = tl_arena_printf(h->arena, "%s\n", m->experiment);
    return r->path && r->text ? TL_OK : TL_ENOMEM;
}

static tl_status remember_now(tl_hook *h)
{
    const remember *r = (remember *)h;
    return tl_file_write_atomic(r->path, r->text, strlen(r->text));
}

static const tl_hook_class remember_class = {
    .cls = TL_CLASS(tl_hook_class, "experiment_name", NULL, remember, NULL),
    .start = remember_start,
    .before_train = remember_now,
};

tl_status tli_remember_experiment(tl_hook **out, const char *experiment, const char *model_dir)
{
    *out = NULL;
    if (!experiment || !model_dir) return TL_OK;
    return tl_hook_new(out, &remember_class, &(tl_hook_args){.config = &(remembered){experiment, model_dir}});
}

static tl_status recall(const char **out, tli_run *run, const tli_finished_flags *flags)
{
    const char *path = tl_path_join(run->arena, flags->model_dir, NAME_FILE);
    char *text;
    size_t size;
    *out = flags->experiment;
    if (*out) return TL_OK;
    if (!path) return TL_ENOMEM;
    if (!tl_file_exists(path))
        return TL_FAIL(TL_ENOTFOUND, "%s is not there, so --experiment=NAME must say what was trained in "
                                     "that folder", path);
    TL_TRY(tl_file_read(&text, &size, path, 4096));
    *out = tl_arena_strndup(run->arena, text, strcspn(text, "\n"));
    tl_free(text);
    return *out ? TL_OK : TL_ENOMEM;
}

/* --- opening ---------------------------------------------------------------------------------- */

static tl_status read_config(tli_finished *f, tli_run *run, const tli_finished_flags *flags, bool overrides)
{
    const char *files[] = {tl_path_join(run->arena, flags->model_dir, "params.yaml")};
    tl_parse_options parse = TL_PARSE_OPTIONS_INIT;
    if (!files[0]) return TL_ENOMEM;
    if (!tl_file_exists(files[0]))
        return TL_FAIL(TL_ENOTFOUND, "'%s' is no folder of a run: it has no params.yaml", flags->model_dir);
    TL_TRY(recall(&parse.experiment, run, flags));
    parse.config_file = (tl_strings){files, 1};
    if (overrides) {
        TL_TRY(tli_experiment_of(&f->config, run, &parse));
    } else {
        TL_TRY(tl_experiment_begin(&f->config, run->registry, &parse));
        TL_TRY(tl_config_finish(f->config));
    }
    f->params = tl_config_value(f->config);
    return TL_OK;
}

static tl_status find_file(tli_finished *f, tli_run *run, const tli_finished_flags *flags)
{
    const tl_trainer_config *t = f->params->trainer.value;
    const char *path = flags->checkpoint;
    if (strcmp(path, "latest") == 0) {
        path = flags->model_dir;
    } else if (strcmp(path, "best") == 0) {
        if (!t->best_checkpoint_export_subdir || !*t->best_checkpoint_export_subdir)
            return TL_FAIL(TL_EINVAL, "the run keeps no best checkpoint: its "
                                      "trainer.best_checkpoint_export_subdir is empty");
        path = tl_path_join(run->arena, flags->model_dir, t->best_checkpoint_export_subdir);
        if (!path) return TL_ENOMEM;
    }
    return tl_checkpoint_resolve(&f->file, run->arena, path);
}

static tl_status build(tli_finished *f, tli_run *run, bool evaluates)
{
    const tl_experiment_config *e = f->params;
    uint64_t seed = tl_experiment_seed(e);
    TL_TRY(tl_set_mixed_precision_policy(tl_mixed_precision_name(e->runtime.mixed_precision_dtype)));
    TL_TRY(tl_get_distribution_strategy(
        &f->strategy, &(tl_strategy_args){.distribution_strategy = e->runtime.distribution_strategy,
                                          .num_gpus = e->runtime.num_gpus,
                                          .all_reduce_alg = e->runtime.all_reduce_alg,
                                          .tpu_address = e->runtime.tpu, .threads = (int)e->tilth.threads}));
    TL_TRY(tl_get_task(&f->task, &(tl_task_args){.registry = run->registry, .config = &e->task,
                                                 .engine = tl_strategy_engine(f->strategy),
                                                 .seed = seed}));
    return tl_trainer_new(&f->trainer, &(tl_trainer_args){.config = e, .strategy = f->strategy,
                                                          .task = f->task, .evaluate = evaluates,
                                                          .seed = seed});
}

/* What the trainer has must be there; what the file has beside it is that of the training. */
static tl_status restore(tli_finished *f)
{
    tl_state *state = tl_trainer_checkpoint(f->trainer);
    tl_state_report report = {0};
    tl_checkpoint_restore_args args = {.rehearse = true};
    if (!state) return tl_error_code();
    tl_status st = tl_checkpoint_restore(state, f->file, &args, &report);
    bool fits = report.matched && !report.counts[TL_STATE_MISSING] && !report.counts[TL_STATE_DIFFERENT];
    tl_state_report_deinit(&report);
    if (st != TL_OK && (st != TL_EINVAL || !fits)) return st;
    args = (tl_checkpoint_restore_args){.partial = true};
    return tl_checkpoint_restore(state, f->file, &args, NULL);
}

tl_status tli_finished_open(tli_finished *out, tli_run *run, const tli_finished_flags *flags, bool evaluates,
                            bool overrides)
{
    *out = (tli_finished){0};
    if (!flags->model_dir || !*flags->model_dir)
        return TL_FAIL(TL_EINVAL, "no run is named: say --model_dir=FOLDER");
    TL_TRY(read_config(out, run, flags, overrides));
    TL_TRY(find_file(out, run, flags));
    TL_TRY(build(out, run, evaluates));
    TL_TRY(restore(out));
    tl_optimizer *o = out->trainer->optimizer;
    if (evaluates || !o || !tl_optimizer_averages(o) || tl_optimizer_iterations(o) == 0) return TL_OK;
    return tl_optimizer_swap(o);
}

void tli_finished_close(tli_finished *f)
{
    tl_trainer_free(&f->trainer);
    tl_task_free(&f->task);
    tl_strategy_free(&f->strategy);
    tl_config_free(&f->config);
}
