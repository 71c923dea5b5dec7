/* Counterpart of InfoHook and tools/my_train_net.py (LiBai, Training: Customize Hooks in Trainer):
 * a hook of one's own, and a DefaultTrainer that builds its list of hooks with it.
 *
 *     $ example_info_hook --config-file=digits.yaml train.output_dir=run train.train_iter=500
 *
 * What the hooks share is the controller: its step, trainer, event storage, checkpoints. */
#include <inttypes.h>

#include "digits.h"

/* --- the hook --------------------------------------------------------------------------------- */

static tl_status before_train(tl_hook *h)
{
    TL_LOG_INFO("start training at %" PRId64, tl_controller_step(h->controller));
    return TL_OK;
}

static tl_status after_train(tl_hook *h)
{
    TL_LOG_INFO("end training at %" PRId64, tl_controller_step(h->controller));
    return TL_OK;
}

/* Called at its period: the loop does not even stop at the other steps. */
static tl_status after_step(tl_hook *h)
{
    TL_LOG_INFO("iteration %" PRId64 "!", tl_controller_step(h->controller));
    return TL_OK;
}

static const tl_hook_class info_hook = {
    .cls = TL_CLASS(tl_hook_class, "info", NULL, tl_hook, NULL),
    .before_train = before_train,
    .after_train = after_train,
    .after_step = after_step,
};

/* --- the trainer: super().build_hooks() would do; written out, to show the order -------------- */

static tl_status build_hooks(tl_default_trainer *t)
{
    const tl_libai_train_config *train = &t->config->train;
    tl_hooks *hooks = &t->hooks;
    TL_TRY(tl_hooks_add(hooks, NULL, &tl_iteration_timer_hook, NULL));
    TL_TRY(tl_hooks_add(hooks, NULL, &tl_lr_scheduler_hook, NULL));
    TL_TRY(tl_hooks_add(hooks, NULL, &tl_periodic_checkpointer_hook,
                        &(tl_hook_args){.period = train->checkpointer.period}));
    TL_TRY(tl_hooks_add(hooks, NULL, &info_hook, &(tl_hook_args){.period = 100}));
    // Writers come last, and write what the others put.
    TL_TRY(tl_base_default_trainer.build_writers(t));
    tl_periodic_writer_config writers = {t->writers.items, t->writers.count};
    return tl_hooks_add(hooks, NULL, &tl_periodic_writer_hook,
                        &(tl_hook_args){.period = train->log_period, .config = &writers});
}

static const tl_default_trainer_class my_trainer = {
    .cls = TL_CLASS(tl_default_trainer_class, "MyTrainer", &tl_base_default_trainer.cls,
                    tl_default_trainer, NULL),
    .build_hooks = build_hooks,
};

/* --- my_train_net ----------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    tl_train_net_flags args; // --config-file, --resume, --eval-only, --fast-dev-run
    tl_flags *flags = NULL;
    tl_registry *registry = NULL;
    tl_config *config = NULL;
    tl_strings words;
    tl_status st;
    TL_TRY_DONE(st, tl_flags_new(&flags, "my_train_net", "--config-file=FILE [key=value...]"));
    TL_TRY_DONE(st, tl_flags_define(flags, "Run", &tl_train_net_flags_desc, &args));
    TL_TRY_DONE(st, tl_flags_parse(&words, flags, argc, argv));
    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(st, tl_registry_add(registry, &digits_module));
    TL_TRY_DONE(st, tl_libai_begin(&config, registry, args.config_file));
    for (int64_t i = 0; i < words.count; i++)
        TL_TRY_DONE(st, tl_libai_words(config, &(tl_word){words.items[i], "command line"}, 1));
    tl_default_trainer_args trainer = {.cls = &my_trainer};
    st = tl_train_net(
        NULL, &(tl_train_net_args){
                  .registry = registry, .config = config, .flags = &args, .trainer = &trainer});
done:
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    tl_config_free(&config);
    tl_registry_free(&registry);
    tl_flags_free(&flags);
    return tl_exit_code(st);
}
