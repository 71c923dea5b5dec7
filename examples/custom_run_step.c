/* Counterpart of MyEagerTrainer (LiBai, Training: Modify train_step in Trainer): a trainer that
 * keeps what the model gave in the step before, and puts how much it changed into the event
 * storage.
 *
 *     $ example_custom_run_step digits.yaml run
 *
 * LiBai's run_step is the method train_step here. In eager mode the step runs operation by
 * operation, so every step's tensors are its own; in graph mode they are outputs of one program,
 * which writes them again and again: who keeps those copies them. */
#include "digits.h"

typedef struct my_eager_trainer {
    tl_libai_trainer base;
    tl_tensor *previous_output; /* NULL before the first step */
} my_eager_trainer;

static tl_status put_change(const tl_tensor *before, const tl_tensor *now)
{
    double was, is;
    TL_TRY(tl_tensor_item(before, &was));
    TL_TRY(tl_tensor_item(now, &is));
    return tl_event_storage_put(tl_event_storage_current(), "loss_change", is - was);
}

static tl_status run_step(tl_trainer *t)
{
    my_eager_trainer *u = (my_eager_trainer *)t;
    TL_TRY(tl_eager_trainer.train_step(t)); // data, model, gradients, update: super().run_step()
    const tl_tensor *loss = tl_tensors_peek(t->outputs, "total_loss"); // of all that was logged
    if (u->previous_output) TL_TRY(put_change(u->previous_output, loss));
    tl_tensor_free(&u->previous_output);
    return tl_tensor_keep(&u->previous_output, loss);
}

static void dispose(tl_trainer *t)
{
    tl_tensor_free(&((my_eager_trainer *)t)->previous_output);
}

static const tl_trainer_class my_eager = {
    .cls =
        TL_CLASS(tl_trainer_class, "MyEagerTrainer", &tl_eager_trainer.cls, my_eager_trainer, NULL),
    .train_step = run_step,
    .dispose = dispose,
};

/* --- main: the default trainer takes the class for its eager mode ----------------------------- */

static tl_status report(const tl_default_trainer *t)
{
    const tl_history *changes;
    double loss;
    tl_event_storage *storage = tl_controller_storage(t->controller);
    TL_TRY(tl_event_storage_history(&changes, storage, "loss_change"));
    TL_TRY(tl_tensor_item(((const my_eager_trainer *)t->trainer)->previous_output, &loss));
    long long count = changes ? tl_history_count(changes) : 0;
    printf("%lld changes, last loss %.4f\n", count, loss);
    return TL_OK;
}

int main(int argc, char **argv)
{
    tl_registry *registry = NULL;
    tl_config *config = NULL;
    tl_default_trainer *t = NULL;
    tl_str output = TL_STR_INIT;
    tl_status st;
    tl_str_addf(&output, "train.output_dir=%s", argc > 2 ? argv[2] : "output");
    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(st, tl_registry_add(registry, &digits_module));
    TL_TRY_DONE(st, tl_libai_begin(&config, registry, argc > 1 ? argv[1] : "digits.yaml"));
    const tl_word words[] = {{"graph.enabled=false", "main"},
                             {tl_str_text(&output), "command line"}};
    TL_TRY_DONE(st, tl_libai_words(config, words, TL_COUNT(words)));
    TL_TRY_DONE(st, tl_config_finish(config));
    TL_TRY_DONE(
        st, tl_default_trainer_new(&t, &(tl_default_trainer_args){.registry = registry,
                                                                  .config = tl_config_value(config),
                                                                  .eager = &my_eager}));
    TL_TRY_DONE(st, tl_default_trainer_train(t));
    st = report(t);
done:
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    tl_default_trainer_free(&t);
    tl_config_free(&config);
    tl_registry_free(&registry);
    tl_str_deinit(&output);
    return tl_exit_code(st);
}
