/* Counterpart of CustomSummaryManager (Model Garden, Customize writing summary data): a summary
 * manager that implements the whole interface, flush(), summary_writer() and write_summaries(), and
 * writes images too.
 *
 *     $ example_custom_summary_manager run && tensorboard --logdir run
 *
 * The picture comes the original's way (digits.c): validation_step logs it, aggregate_logs keeps
 * it, reduce_aggregated_logs puts it into the logs of the evaluation, and those reach the manager.
 * Who wants images and nothing else has them already: tl_summary_manager_images. */
#include "digits.h"

/* --- the summary manager ---------------------------------------------------------------------- */

typedef struct custom_manager {
    tl_summary_manager base;
    tl_map writers; /* event files by their folder below base.dir */
} custom_manager;

static tl_status summary_writer(tl_event_file **out, tl_summary_manager *m,
                                const char *relative_path)
{
    tl_map *writers = &((custom_manager *)m)->writers;
    *out = tl_map_get(writers, relative_path);
    if (*out || !m->dir) return TL_OK; // off: a NULL file takes everything and writes nothing
    tl_str folder = TL_STR_INIT;
    tl_str_addf(&folder, "%s/%s", m->dir, relative_path);
    tl_status st = tl_str_status(&folder);
    if (st == TL_OK)
        st = tl_event_file_open(
            out, &(tl_event_file_args){.folder = tl_str_text(&folder), .keep_to = m->keep_to});
    if (st == TL_OK) st = tl_map_set(writers, relative_path, *out);
    if (st != TL_OK) tl_event_file_close(out);
    tl_str_deinit(&folder);
    return st;
}

/* The original's summary_fn: what becomes of one entry. */
static tl_status write_entry(tl_summary_manager *m, tl_event_file *f, int64_t step,
                             const tl_logs_entry *e)
{
    double number;
    if (e->kind == TL_LOGS_IMAGE)
        return tl_event_file_image(f, step, e->name, e->tensor, m->max_outputs);
    if (e->kind != TL_LOGS_NUMBER) return TL_OK;
    TL_TRY(tl_logs_entry_number(&number, e));
    return tl_event_file_scalar(f, step, e->name, number);
}

static tl_status write_below(tl_summary_manager *m, const tl_logs *logs, const char *relative_path)
{
    tl_event_file *f;
    tl_status st = tl_summary_manager_writer(&f, m, relative_path);
    for (int64_t i = 0; i < tl_logs_count(logs) && st == TL_OK; i++) {
        tl_logs_entry e;
        tl_logs_at(&e, logs, i);
        if (e.kind != TL_LOGS_LOGS) {
            st = write_entry(m, f, *m->step, &e);
            continue;
        }
        tl_str below = TL_STR_INIT; // logs within logs: a folder, and curves of its own
        tl_str_addf(&below, "%s%s%s", relative_path, *relative_path ? "/" : "", e.name);
        st = tl_str_status(&below);
        if (st == TL_OK) st = write_below(m, e.logs, tl_str_text(&below));
        tl_str_deinit(&below);
    }
    return st;
}

static tl_status write_summaries(tl_summary_manager *m, const tl_logs *logs)
{
    return m->dir ? write_below(m, logs, "") : TL_OK;
}

static tl_status flush(tl_summary_manager *m)
{
    const tl_map *writers = &((custom_manager *)m)->writers;
    for (int64_t i = 0; i < tl_map_count(writers); i++)
        TL_TRY(tl_event_file_flush(tl_map_at(writers, i)));
    return TL_OK;
}

static void dispose(tl_summary_manager *m)
{
    tl_map *writers = &((custom_manager *)m)->writers;
    for (int64_t i = 0; i < tl_map_count(writers); i++) {
        tl_event_file *f = tl_map_at(writers, i);
        tl_event_file_close(&f);
    }
    tl_map_deinit(writers);
}

static const tl_summary_manager_class custom_manager_class = {
    .cls = TL_CLASS(tl_summary_manager_class, "custom", NULL, custom_manager, NULL),
    .flush = flush,
    .summary_writer = summary_writer,
    .write_summaries = write_summaries,
    .write_entry = write_entry,
    .dispose = dispose,
};

/* --- main: run_experiment gets the class, and makes the manager where evaluations are told ---- */

int main(int argc, char **argv)
{
    tl_train_flags flags = {.mode = "train_and_eval", .model_dir = argc > 1 ? argv[1] : "run"};
    tl_parse_options options = TL_PARSE_OPTIONS_INIT;
    tl_registry *registry = NULL;
    tl_config *config = NULL;
    tl_status st;
    options.experiment = "example/digits";
    options.params_override = "task.allow_image_summary=true";
    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(st, tl_registry_add(registry, &digits_module));
    TL_TRY_DONE(st, tl_experiment_parse(&config, registry, &options));
    tl_run_args run = {.eval_summary_cls = &custom_manager_class};
    st = tl_launch(NULL, &(tl_launch_args){
                             .registry = registry, .config = config, .flags = &flags, .run = &run});
done:
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    tl_config_free(&config);
    tl_registry_free(&registry);
    return tl_exit_code(st);
}
