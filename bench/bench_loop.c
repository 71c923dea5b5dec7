/* What the loop around a step costs: the controller with LiBai's hooks, event storage and the data,
 * over the bare compiled step; and for how long a checkpoint that is written in the background
 * holds the training up.
 *
 * The step is that of the experiment `mock`, which takes two microseconds itself. */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/tilth.h>

enum { STEPS = 200000, MEGABYTES = 100, ROUNDS = 9 };

typedef struct run {
    tl_registry *registry;
    tl_config *config;
    tl_strategy *strategy;
    tl_task *task;
    tl_trainer *trainer;
} run;

static tl_status make(run *r)
{
    tl_parse_options o = {
        .experiment = "mock",
        .strict_override = true,
        .params_override =
            "tilth.seed=1,task.train_data.is_training=true,trainer.optimizer_config.optimizer.type="
            "sgd,trainer.optimizer_config.learning_rate.type=constant"};
    TL_TRY(tl_registry_new_builtin(&r->registry));
    TL_TRY(tl_experiment_parse(&r->config, r->registry, &o));
    const tl_experiment_config *e = tl_config_value(r->config);
    TL_TRY(
        tl_get_distribution_strategy(&r->strategy, &(tl_strategy_args){.registry = r->registry}));
    TL_TRY(tl_get_task(&r->task, &(tl_task_args){.registry = r->registry,
                                                 .config = &e->task,
                                                 .engine = tl_strategy_engine(r->strategy)}));
    return tl_create_trainer(&r->trainer, e, r->task, r->strategy, true, false, NULL, NULL, 1);
}

static void unmake(run *r)
{
    tl_trainer_free(&r->trainer);
    tl_task_free(&r->task);
    tl_strategy_free(&r->strategy);
    tl_config_free(&r->config);
    tl_registry_free(&r->registry);
}

static double since_us(int64_t begin, double steps)
{
    return (double)(tl_clock_ns() - begin) * 1e-3 / steps;
}

/* The program alone, on one batch over and over. */
static tl_status bare(run *r, double *us)
{
    tl_trainer *t = r->trainer;
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_tensors in = {0};
    bool more = true;
    tl_status st;
    TL_TRY_DONE(st, tl_dataset_next(t->train_dataset, t->ctx, &in, &more));
    tl_ctx_set_training(t->ctx, true);
    int64_t begin = tl_clock_ns();
    for (int64_t i = 0; i < STEPS; i++) {
        tl_mark step = tl_ctx_begin(t->ctx);
        tl_tensors out = {0};
        TL_TRY_DONE(st, tl_function_call(tl_trainer_train_function(t), t->ctx, &in, &out));
        tl_ctx_end(t->ctx, step);
    }
    *us = since_us(begin, STEPS);
done:
    tl_ctx_set_training(t->ctx, false);
    tl_ctx_end(t->ctx, mark);
    return st;
}

static tl_status around(run *r, tl_hook *const *hooks, int64_t count, double *us)
{
    tl_controller *c;
    TL_TRY(tl_controller_new(&c, &(tl_controller_args){.trainer = r->trainer,
                                                       .steps_per_loop = STEPS,
                                                       .hooks = hooks,
                                                       .hook_count = count,
                                                       .quiet = true}));
    int64_t begin = tl_clock_ns();
    tl_status st = tl_controller_train(c, r->trainer->global_step / STEPS * STEPS + STEPS, false);
    *us = since_us(begin, STEPS);
    tl_controller_free(&c);
    return st;
}

static tl_status loop_rows(run *r)
{
    double least[3] = {1e9, 1e9, 1e9}, us[3];
    tl_hooks hooks = {0};
    tl_status st;
    TL_TRY_DONE(st, tl_hooks_add(&hooks, NULL, &tl_iteration_timer_hook, NULL));
    TL_TRY_DONE(st,
                tl_hooks_add(&hooks, NULL, &tl_lr_scheduler_hook,
                             &(tl_hook_args){.config = &(tl_lr_scheduler_config){.every = 20}}));
    TL_TRY_DONE(st, tl_hooks_add(&hooks, NULL, &tl_periodic_writer_hook,
                                 &(tl_hook_args){.period = 20,
                                                 .config = &(tl_periodic_writer_config){NULL, 0}}));
    TL_TRY_DONE(st, around(r, NULL, 0, &us[0])); // captured, compiled, warm
    for (int i = 0; i < ROUNDS; i++) {
        TL_TRY_DONE(st, bare(r, &us[0]));
        TL_TRY_DONE(st, around(r, NULL, 0, &us[1]));
        TL_TRY_DONE(st, around(r, hooks.items, hooks.count, &us[2]));
        for (int k = 0; k < 3; k++)
            if (us[k] < least[k]) least[k] = us[k];
    }
    printf("bare compiled step                        %6.2f us\n", least[0]);
    printf("controller, data, metrics                 %6.2f us   +%.2f us\n", least[1],
           least[1] - least[0]);
    printf("with timer, rate, storage and writer      %6.2f us   +%.2f us (wanted: below 2)\n",
           least[2], least[2] - least[0]);
done:
    tl_hooks_free(&hooks);
    return st;
}

/* A checkpoint of 100 MB in the background: how long the call takes that the training waits for. */
static tl_status checkpoint_row(tl_engine *engine)
{
    tl_state *state = NULL;
    tl_tensor *t = NULL;
    tl_checkpoint_manager *m = NULL;
    int64_t step = 0;
    double least = 1e9, most = 0;
    char folder[BENCH_FOLDER];
    tl_status st;
    TL_TRY_DONE(st, bench_folder_make(folder));
    TL_TRY_DONE(st, tl_state_new(&state));
    TL_TRY_DONE(st, tl_tensor_new(&t, engine, TL_F32, TL_SHAPE(MEGABYTES * 250000)));
    TL_TRY_DONE(st, tl_state_put(state, "model/w", t));
    TL_TRY_DONE(st, tl_state_bind_int(state, "global_step", &step));
    const tl_checkpoint_manager_args keep = {
        .directory = folder,
        .state = state,
        .step = &step,
        .interval = 1,
        .max_to_keep = {true, 1},
        .background = true,
    };
    TL_TRY_DONE(st, tl_checkpoint_manager_new(&m, &keep));
    for (step = 1; step <= ROUNDS; step++) {
        int64_t begin = tl_clock_ns();
        TL_TRY_DONE(st, tl_checkpoint_manager_save(m, true, NULL));
        double ms = (double)(tl_clock_ns() - begin) * 1e-6;
        TL_TRY_DONE(st, tl_checkpoint_manager_sync(m));
        if (step == 1) continue; // which gets its memory
        if (ms < least) least = ms;
        if (ms > most) most = ms;
    }
    printf("background checkpoint of %d MB blocks  %6.2f to %.2f ms (wanted: below 10)\n",
           MEGABYTES, least, most);
done:
    tl_checkpoint_manager_free(&m);
    tl_state_free(&state);
    tl_tensor_free(&t);
    bench_folder_remove(folder);
    return st;
}

int main(void)
{
    run r = {0};
    tl_log_set_level(TL_LEVEL_WARNING);
    tl_status st = make(&r);
    if (st == TL_OK) st = loop_rows(&r);
    if (st == TL_OK) st = checkpoint_row(tl_strategy_engine(r.strategy));
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    unmake(&r);
    return st == TL_OK ? 0 : 1;
}
