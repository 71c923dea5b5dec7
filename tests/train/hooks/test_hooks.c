/* LiBai's hooks: at which iterations they do what, and what a resumed run finds.
 * runs: fake device */
#include "train/toy.h"

#include <jansson.h>
#include <sys/stat.h>

#include <tilth/ops/elementwise.h>
#include <tilth/train/hooks/hooks.h>

#define SGD                                                                                        \
    "optimizer: {type: sgd}\n"                                                                     \
    "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"

static tl_hook *hook_of(const tl_hook_class *cls, int64_t period, const void *config)
{
    tl_hook *h;
    assert_ok(tl_hook_new(&h, cls, &(tl_hook_args){.period = period, .config = config}));
    return h;
}

/* "2=0.5 5=1 ": the iterations and values of a scalar. */
static void assert_history(const toy *y, const char *name, const char *wanted)
{
    const tl_history *h;
    tl_str text = TL_STR_INIT;
    assert_ok(tl_event_storage_history(&h, tl_controller_storage(y->c), name));
    for (int64_t i = 0; h && i < tl_history_count(h); i++)
        tl_str_addf(&text, "%lld=%g ", (long long)tl_history_iteration(h, i),
                    tl_history_value(h, i));
    assert_string_equal(tl_str_text(&text), wanted);
    tl_str_deinit(&text);
}

/* --- time ------------------------------------------------------------------------------------- */

static void steps_are_timed(void **state)
{
    toy *y = *state;
    tl_hook *h = hook_of(&tl_iteration_timer_hook, 0, NULL);
    const tl_history *times;
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){.steps_per_loop = 4});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_ok(tl_event_storage_history(&times, tl_controller_storage(y->c), "time"));
    assert_int_equal(tl_history_count(times), 8);
    assert_int_equal(tl_history_iteration(times, 0), 2); // the third
    for (int i = 0; i < 8; i++)
        assert_true(tl_history_value(times, i) >= 0 && tl_history_value(times, i) < 1);
    assert_int_equal(toy_count("Overall training speed: 8 iterations in 0:00:00 (0.0"), 1);
    assert_int_equal(toy_count("Total training time: 0:00:00 (0:00:00 on hooks)"), 1);
    tl_event_latest last;
    assert_ok(tl_event_storage_latest(&last, tl_controller_storage(y->c), "time"));
    assert_true(last.smooth);
    toy_close(y);
    tl_hook_free(&h);
    tl_iteration_timer_config config = {.warmup = -1};
    h = hook_of(&tl_iteration_timer_hook, 0, &config);
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 2, true));
    assert_int_equal(toy_count("Overall training speed: 2 iterations"), 1);
    toy_close(y);
    tl_hook_free(&h);
}

/* --- learning rate ---------------------------------------------------------------------------- */

#define STEPWISE                                                                                   \
    "optimizer: {type: sgd}\n"                                                                     \
    "learning_rate: {type: stepwise, stepwise: {boundaries: [2, 4], values: [0.5, 0.25, "          \
    "0.125]}}\n"

static void the_rate_that_was_used(void **state)
{
    toy *y = *state;
    tl_hook *h = hook_of(&tl_lr_scheduler_hook, 0, NULL);
    double before = 0, after;
    toy_open(y, STEPWISE, NULL);
    assert_ok(tl_tensor_set_doubles(toy_weight(y->t), (double[]){0, 0, 0}, 3));
    toy_control(y, &h, 1, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 7, true));
    assert_history(y, "lr", "0=0.5 1=0.5 2=0.5 3=0.25 4=0.25 5=0.125 6=0.125 ");
    after = toy_first_weight(y->t);
    assert_near(before - after, 3 * 0.5 + 2 * 0.25 + 2 * 0.125, 0); // what the weights say
    tl_event_latest last;
    assert_ok(tl_event_storage_latest(&last, tl_controller_storage(y->c), "lr"));
    assert_false(last.smooth);
    toy_close(y);
    tl_hook_free(&h);
    tl_lr_scheduler_config config = {.every = 3};
    h = hook_of(&tl_lr_scheduler_hook, 0, &config);
    toy_open(y, STEPWISE, NULL);
    toy_control(y, &h, 1, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 7, true));
    assert_history(y, "lr", "2=0.5 5=0.125 6=0.125 "); // and at the last step
    toy_close(y);
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){0});
    assert_fails(tl_controller_train(y->c, 7, true), TL_EINVAL, "the trainer has none");
    toy_close(y);
    tl_hook_free(&h);
}

/* --- evaluation ------------------------------------------------------------------------------- */

static void evaluations_come_at_their_period(void **state)
{
    toy *y = *state;
    tl_hook *h = hook_of(&tl_eval_hook, 5, NULL);
    for (int i = 0; i < TOY_STEPS; i++) plan.result[i] = i;
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_int_equal(plan.evaluated, 2); // not twice at the end
    assert_history(y, "accuracy", "4=5 10=10 ");
    assert_history(y, "deep/accuracy", "4=-5 10=-10 ");
    tl_event_latest last;
    assert_ok(tl_event_storage_latest(&last, tl_controller_storage(y->c), "accuracy"));
    assert_false(last.smooth);
    // 10 is not the last any more, and 15 is not reached
    assert_ok(tl_controller_train(y->c, 13, true));
    assert_history(y, "accuracy", "4=5 10=10 13=13 ");
    plan.blows_up_at = 15;
    plan.blows_up = 1;
    assert_fails(tl_controller_train(y->c, 15, true), TL_ENAN, "step 15");
    assert_history(y, "accuracy", "4=5 10=10 13=13 "); // a training that failed is not evaluated
    toy_close(y);
    tl_hook_free(&h);
}

static tl_status own_evaluation(tl_controller *c, tl_logs *results, void *payload)
{
    ++*(int *)payload;
    return tl_logs_put(results, "score", -(double)tl_controller_step(c));
}

/* Results of a function reach the hooks that watch evaluations. */
static void evaluations_can_be_functions(void **state)
{
    toy *y = *state;
    int calls = 0;
    tl_eval_config config = {.evaluate = own_evaluation, .payload = &calls, .not_at_end = true};
    tl_early_stopping_config stop = {.metric = "score", .patience = 2};
    tl_hook *hooks[] = {hook_of(&tl_eval_hook, 2, &config),
                        hook_of(&tl_early_stopping_hook, 0, &stop)};
    toy_open(y, NULL, NULL);
    toy_control(y, hooks, 2, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_int_equal(y->t->global_step, 6);
    assert_history(y, "score", "1=-2 3=-4 5=-6 ");
    assert_int_equal(plan.evaluated, 0);
    toy_close(y);
    for (int i = 0; i < 2; i++) tl_hook_free(&hooks[i]);
    config = (tl_eval_config){.evaluate = own_evaluation, .payload = &calls, .only_at_end = true};
    tl_hook *h = hook_of(&tl_eval_hook, 2, &config);
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){0});
    calls = 0;
    assert_ok(tl_controller_train(y->c, 5, true));
    assert_int_equal(calls, 1);
    assert_history(y, "score", "5=-5 ");
    // nothing is left to train, and it is evaluated all the same
    assert_ok(tl_controller_train(y->c, 5, true));
    assert_int_equal(calls, 2);
    toy_close(y);
    tl_hook_free(&h);
}

/* --- writers ---------------------------------------------------------------------------------- */

/* A writer that notes when it was asked to do what. */
typedef struct noting {
    tl_event_writer base;
    tl_str *notes;
} noting;

static tl_status note_init(tl_event_writer *w, const void *args)
{
    ((noting *)w)->notes = (tl_str *)args;
    return TL_OK;
}

static tl_status note_write(tl_event_writer *w, tl_event_storage *s)
{
    tl_str_addf(((noting *)w)->notes, "%lld ", (long long)tl_event_storage_iteration(s));
    return TL_OK;
}

static tl_status note_sync(tl_event_writer *w)
{
    tl_str_add(((noting *)w)->notes, "sync ");
    return TL_OK;
}

static tl_status note_close(tl_event_writer *w)
{
    tl_str_add(((noting *)w)->notes, "close");
    return TL_OK;
}

static const tl_event_writer_class note_class = {
    .cls = TL_CLASS(tl_event_writer_class, "noting", NULL, noting, NULL),
    .init = note_init,
    .write = note_write,
    .sync = note_sync,
    .close = note_close,
};

static void check_writes(toy *y, int64_t period, int64_t steps, int64_t interval,
                         const char *wanted)
{
    tl_str notes = TL_STR_INIT;
    tl_event_writer *w;
    assert_ok(tl_event_writer_new(&w, &note_class, &notes));
    tl_periodic_writer_config config = {&w, 1};
    tl_hook *h = hook_of(&tl_periodic_writer_hook, period, &config);
    toy_open(y, NULL, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = interval});
    tl_status st = tl_controller_train(y->c, steps, true);
    assert_true(st == TL_OK || st == TL_ENAN);
    assert_string_equal(tl_str_text(&notes), wanted);
    toy_close(y);
    tl_hook_free(&h);
    tl_event_writer_free(&w);
    tl_str_deinit(&notes);
}

static void writers_write_at_their_period(void **state)
{
    toy *y = *state;
    check_writes(y, 3, 10, 0, "2 5 8 9 10 close"); // 10: what came after the last step
    check_writes(y, 5, 10, 0, "4 9 10 close");
    check_writes(y, 20, 2, 0, "1 2 close");
    check_writes(y, 2, 5, 2, "1 sync 3 sync sync 4 5 close"); // with each checkpoint
    plan.blows_up_at = 5;
    plan.blows_up = 1;
    check_writes(y, 3, 10, 0, "2 3 4 close"); // what was done before it failed
    tl_hook *h;
    assert_fails(tl_hook_new(&h, &tl_periodic_writer_hook, NULL), TL_EINVAL, "needs writers");
}

/* All of them in LiBai's order: the evaluation at the end is in metrics.json. */
static void the_last_evaluation_is_written(void **state)
{
    toy *y = *state;
    tl_event_writer *w;
    tl_hooks hooks = {0};
    assert_ok(tl_event_writer_new(&w, &tl_json_writer,
                                  &(tl_json_writer_args){.path = "run/metrics.json"}));
    assert_ok(tl_hooks_add(&hooks, NULL, &tl_lr_scheduler_hook, NULL));
    assert_ok(tl_hooks_add(&hooks, NULL, &tl_eval_hook, &(tl_hook_args){.period = 4}));
    tl_periodic_writer_config config = {&w, 1};
    assert_ok(tl_hooks_add(&hooks, NULL, &tl_periodic_writer_hook,
                           &(tl_hook_args){.period = 4, .config = &config}));
    for (int i = 0; i < TOY_STEPS; i++) plan.result[i] = i;
    toy_open(y, SGD, NULL);
    toy_control(y, hooks.items, hooks.count, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 6, true));
    assert_file("run/metrics.json",
                "{\"accuracy\": 4.0, \"deep/accuracy\": -4.0, \"iteration\": 3, \"lr\": 0.125}\n"
                "{\"iteration\": 5, \"lr\": 0.125}\n"
                "{\"accuracy\": 6.0, \"deep/accuracy\": -6.0, \"iteration\": 6}\n");
    toy_close(y);
    tl_hooks_free(&hooks);
    tl_event_writer_free(&w);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_ino == y.st_ino;
}

static int64_t step_in(const char *path)
{
    tl_state *s;
    tl_state_entry e;
    assert_ok(tl_checkpoint_read(&s, path, NULL));
    assert_true(tl_state_find(&e, s, "global_step"));
    int64_t step = e.i;
    tl_state_free(&s);
    return step;
}

static void check_periodic(toy *y, int64_t steps_per_loop, bool background)
{
    tl_hook *h = hook_of(&tl_periodic_checkpointer_hook, 4, NULL);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1,
                (toy_options){
                    .interval = 1000, .steps_per_loop = steps_per_loop, .background = background});
    assert_ok(tl_controller_train(y->c, 10, false));
    assert_files("run/*", "run/checkpoint run/ckpt-10.safetensors run/ckpt-4.safetensors "
                          "run/ckpt-8.safetensors run/last_checkpoint run/model_final.safetensors");
    assert_true(same_file("run/ckpt-10.safetensors", "run/model_final.safetensors"));
    assert_file("run/last_checkpoint", "ckpt-10");
    assert_ok(tl_controller_train(y->c, 13, false)); // the run is made longer
    assert_files("run/*.safetensors",
                 "run/ckpt-10.safetensors run/ckpt-12.safetensors run/ckpt-13.safetensors "
                 "run/ckpt-4.safetensors run/ckpt-8.safetensors run/model_final.safetensors");
    assert_true(same_file("run/ckpt-13.safetensors", "run/model_final.safetensors"));
    assert_file("run/last_checkpoint", "ckpt-13");
    assert_ok(tl_controller_train(y->c, 13, false)); // it has its name already
    assert_files("run/*tmp*", "");
    assert_files("run/.[!.]*", "");
    toy_close(y);
    tl_hook_free(&h);
    assert_int_equal(nftw("run", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void checkpoints_come_at_their_period(void **state)
{
    toy *y = *state;
    check_periodic(y, 100, false);
    check_periodic(y, 4, false);
    check_periodic(y, 1, false);
    check_periodic(y, 3, true);
}

static tl_status look_for_files(tl_controller *c, tl_logs *logs, void *self)
{
    char path[64];
    (void)logs;
    snprintf(path, sizeof path, "run/ckpt-%d.safetensors", (int)tl_controller_step(c));
    tl_str_addf(self, "%s%s ", path, tl_file_exists(path) ? " is there" : " is not there");
    return TL_OK;
}

/* What a loop has summed up is told before the checkpoint, and would be told again after a
 * resume. */
static void loops_end_before_they_are_saved(void **state)
{
    toy *y = *state;
    tl_str notes = TL_STR_INIT;
    tl_callbacks calls = {.after_loop = look_for_files, .self = &notes};
    tl_best_checkpointer_config best = {.metric = "accuracy"};
    tl_hook *hooks[4];
    assert_ok(tl_hook_from_callbacks(&hooks[0], &calls, NULL));
    hooks[1] = hook_of(&tl_periodic_checkpointer_hook, 4, NULL);
    hooks[2] = hook_of(&tl_eval_hook, 3, NULL);
    hooks[3] = hook_of(&tl_best_checkpointer_hook, 3, &best);
    for (int i = 0; i < TOY_STEPS; i++) plan.result[i] = i;
    toy_open(y, SGD, NULL);
    toy_control(y, hooks, 4, (toy_options){.interval = 1000, .steps_per_loop = 4});
    assert_ok(tl_controller_train(y->c, 14, false));
    assert_string_equal(tl_str_text(&notes), "run/ckpt-4.safetensors is not there "
                                             "run/ckpt-8.safetensors is not there "
                                             "run/ckpt-12.safetensors is not there "
                                             "run/ckpt-14.safetensors is not there ");
    assert_files("run/ckpt-*",
                 "run/ckpt-12.safetensors run/ckpt-14.safetensors run/ckpt-3.safetensors "
                 "run/ckpt-4.safetensors run/ckpt-6.safetensors run/ckpt-8.safetensors "
                 "run/ckpt-9.safetensors");
    toy_close(y);
    for (int i = 0; i < 4; i++) tl_hook_free(&hooks[i]);
    tl_str_deinit(&notes);
}

/* Only the newest is kept, and the end of the first run all the same. */
static void the_end_is_not_removed(void **state)
{
    toy *y = *state;
    tl_periodic_checkpointer_config config = {.final = "end"};
    tl_hook *h = hook_of(&tl_periodic_checkpointer_hook, 2, &config);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 1000, .max_to_keep = 1});
    assert_ok(tl_controller_train(y->c, 4, true));
    plan.blows_up_at = 8;
    plan.blows_up = 1;
    assert_fails(tl_controller_train(y->c, 8, true), TL_ENAN, "step 8");
    assert_files("run/*.safetensors", "run/ckpt-6.safetensors run/end.safetensors");
    assert_file("run/last_checkpoint", "ckpt-6");
    assert_int_equal(step_in("run/end.safetensors"), 4);
    toy_close(y);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){0});
    assert_fails(tl_controller_train(y->c, 8, true), TL_ESTATE,
                 "needs a checkpoint manager with an interval");
    toy_close(y);
    tl_hook_free(&h);
}

/* --- the best --------------------------------------------------------------------------------- */

static void train_for_the_best(toy *y, tl_metric_comp comp, int64_t steps, int64_t steps_per_loop)
{
    tl_best_checkpointer_config config = {.metric = "accuracy", .comp = comp};
    tl_hook *hooks[] = {hook_of(&tl_eval_hook, 2, NULL),
                        hook_of(&tl_best_checkpointer_hook, 2, &config)};
    toy_open(y, SGD, NULL);
    toy_control(
        y, hooks, 2,
        (toy_options){.interval = 1000, .max_to_keep = 1, .steps_per_loop = steps_per_loop});
    assert_ok(tl_controller_train(y->c, steps, true));
    toy_close(y);
    for (int i = 0; i < 2; i++) tl_hook_free(&hooks[i]);
}

static void the_best_is_kept(void **state)
{
    toy *y = *state;
    for (int loop = 1; loop <= 4; loop++) {
        memcpy(plan.result, (double[]){0, 0, NAN, 0, 3, 0, 2, 0, 5, 0, 5, 0, 4},
               13 * sizeof(double));
        train_for_the_best(y, TL_METRIC_HIGHER, 6, loop);
        assert_int_equal(step_in("run/model_best.safetensors"), 4);
        assert_file("run/model_best.json", "{\n    \"metric\": \"accuracy\",\n    \"value\": 3.0,\n"
                                           "    \"iteration\": 3\n}");
        train_for_the_best(y, TL_METRIC_HIGHER, 12, loop); // a new process knows of it
        assert_int_equal(step_in("run/model_best.safetensors"), 8);
        assert_files("run/ckpt-*", "run/ckpt-12.safetensors");
        plan.result[14] = 4.5; // better than the last, not than the best
        train_for_the_best(y, TL_METRIC_HIGHER, 14, loop);
        assert_int_equal(step_in("run/model_best.safetensors"), 8);
        plan.result[15] = 6; // at the very end
        train_for_the_best(y, TL_METRIC_HIGHER, 15, loop);
        assert_int_equal(step_in("run/model_best.safetensors"), 15);
        assert_int_equal(nftw("run", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
    assert_int_equal(toy_count("Saved first model at 3.00000 @ 3 steps"), 4);
    assert_int_equal(toy_count("Saved best model as latest eval score for accuracy is 5.00000, "
                               "better than last best score 3.00000 @ iteration 3."),
                     4);
    assert_true(toy_count("Not saving as latest eval score") >= 4);
}

static void the_best_may_be_low_or_unknown(void **state)
{
    toy *y = *state;
    memcpy(plan.result, (double[]){0, 0, 3, 0, 1, 0, 2}, 7 * sizeof(double));
    train_for_the_best(y, TL_METRIC_LOWER, 6, 100);
    assert_int_equal(step_in("run/model_best.safetensors"), 4);
    assert_ok(tl_file_remove("run/model_best.safetensors")); // who is not there is not the best
    plan.result[8] = 9;
    train_for_the_best(y, TL_METRIC_LOWER, 8, 100);
    assert_int_equal(step_in("run/model_best.safetensors"), 8);
    tl_best_checkpointer_config config = {.metric = "Acc@1"};
    tl_hook *h = hook_of(&tl_best_checkpointer_hook, 2, &config);
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){.interval = 1000});
    assert_ok(tl_controller_train(y->c, 11, true));
    assert_int_equal(toy_count("has no 'Acc@1'"), 1); // the file is of another metric
    assert_int_equal(toy_count("there is no metric 'Acc@1' yet"), 2);
    toy_close(y);
    tl_hook_free(&h);
    assert_fails(tl_hook_new(&h, &tl_best_checkpointer_hook, NULL), TL_EINVAL, "needs a metric");
}

/* --- kernels and memory ----------------------------------------------------------------------- */

static tl_status square(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_trainer *t = self;
    (void)in;
    tl_tensors_put(c, out, "y", tl_mul(c, toy_weight(t), toy_weight(t)));
    return tl_ctx_status(c);
}

static void kernels_are_timed(void **state)
{
    toy *y = *state;
    tl_profiler_config config = {.dir = "run/profile", .first = 4, .steps = 3};
    tl_hook *h = hook_of(&tl_profiler_hook, 0, &config);
    toy_open(y, SGD, NULL);
    assert_ok(tl_function_new(&y->t->parts->train, &(tl_function_args){.engine = y->t->engine,
                                                                       .body = square,
                                                                       .self = y->t,
                                                                       .interpret = true}));
    toy_control(y, &h, 1, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_files("run/profile/*",
                 "run/profile/profiler-report-iter5.txt run/profile/profiler-trace-iter5.json");
    char *text = toy_read("run/profile/profiler-trace-iter5.json");
    json_t *trace = json_loads(text, 0, NULL);
    assert_non_null(trace);
    assert_true(json_array_size(json_object_get(trace, "traceEvents")) > 0);
    json_decref(trace);
    tl_free(text);
    text = toy_read("run/profile/profiler-report-iter5.txt");
    assert_non_null(strstr(text, "kernels"));
    assert_non_null(strstr(text, " ms")); // of runs that were timed
    tl_free(text);
    toy_close(y);
    tl_hook_free(&h);
    h = hook_of(&tl_profiler_hook, 0, &config);
    toy_open(y, SGD, NULL); // eager
    toy_control(y, &h, 1, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 10, true));
    assert_int_equal(toy_count("the training runs eagerly"), 1);
    toy_close(y);
    tl_hook_free(&h);
    assert_fails(tl_hook_new(&h, &tl_profiler_hook, NULL), TL_EINVAL, "needs a folder");
}

/* The training ends before the last step that was to be timed. */
static void a_short_profile_is_written(void **state)
{
    toy *y = *state;
    tl_profiler_config config = {.dir = "profile", .first = 1, .steps = 100};
    tl_hook *h = hook_of(&tl_profiler_hook, 0, &config);
    toy_open(y, SGD, NULL);
    assert_ok(tl_function_new(&y->t->parts->train, &(tl_function_args){.engine = y->t->engine,
                                                                       .body = square,
                                                                       .self = y->t,
                                                                       .interpret = true}));
    toy_control(y, &h, 1, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 4, true));
    assert_files("profile/*",
                 "profile/profiler-report-iter3.txt profile/profiler-trace-iter3.json");
    toy_close(y);
    tl_hook_free(&h);
}

static void memory_is_told(void **state)
{
    toy *y = *state;
    tl_memory_stats_config config = {.max_runs = 2};
    tl_hook *h = hook_of(&tl_memory_stats_hook, 2, &config);
    tl_event_latest last;
    tl_memory_stats stats;
    toy_open(y, SGD, NULL);
    toy_control(y, &h, 1, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 9, true));
    assert_ok(tl_event_storage_latest(&last, tl_controller_storage(y->c), "memory_bytes"));
    tl_engine_memory(y->t->engine, &stats);
    assert_int_equal(last.iteration, 7);
    assert_near(last.value, (double)stats.peak, 0);
    assert_true(last.value >= 12); // the weights are there
    assert_int_equal(toy_count("memory of tensors after iteration"), 2);
    toy_close(y);
    tl_hook_free(&h);
}

/* --- no memory -------------------------------------------------------------------------------- */

static tl_status add_all(tl_hooks *hooks, tl_event_writer **w)
{
    tl_best_checkpointer_config best = {.metric = "accuracy"};
    tl_early_stopping_config stop = {.metric = "deep|accuracy", .patience = 100};
    tl_recovery_config recovery = {.loss_upper_bound = 1, .recovery_max_trials = 3};
    tl_profiler_config profiler = {.dir = "run/profile", .first = 2, .steps = 1};
    TL_TRY(tl_event_writer_new(w, &tl_json_writer,
                               &(tl_json_writer_args){.path = "run/metrics.json"}));
    tl_periodic_writer_config writers = {w, 1};
    const struct {
        const tl_hook_class *cls;
        const void *config;
    } all[] = {
        {&tl_recovery_hook, &recovery},
        {&tl_early_stopping_hook, &stop},
        {&tl_iteration_timer_hook, NULL},
        {&tl_lr_scheduler_hook, NULL},
        {&tl_periodic_checkpointer_hook, NULL},
        {&tl_eval_hook, NULL},
        {&tl_best_checkpointer_hook, &best},
        {&tl_memory_stats_hook, NULL},
        {&tl_throughput_hook, NULL},
        {&tl_profiler_hook, &profiler},
        {&tl_periodic_writer_hook, &writers},
    };
    for (size_t i = 0; i < TL_COUNT(all); i++)
        TL_TRY(tl_hooks_add(hooks, NULL, all[i].cls,
                            &(tl_hook_args){.period = 2, .config = all[i].config}));
    return TL_OK;
}

/* Each way ends with a message and with nothing left behind; steps that were done are done. */
static double last_of(toy *y, const char *name)
{
    const tl_history *h;
    assert_ok(tl_event_storage_history(&h, tl_controller_storage(y->c), name));
    return h ? tl_history_latest(h) : -1;
}

/* Batches of two examples with five tokens each. */
static void speed_is_told(void **state)
{
    toy *y = *state;
    tl_iteration_timer_config timed = {.warmup = -1};
    tl_throughput_config speed = {.window = 4, .peak_flops = 1e30};
    tl_hook *hooks[2] = {hook_of(&tl_iteration_timer_hook, 0, &timed),
                         hook_of(&tl_throughput_hook, 2, &speed)};
    tl_tensor *tokens;
    toy_open(y,
             "optimizer: {type: sgd}\nlearning_rate: {type: constant, constant: {learning_rate: "
             "0.125}}\n",
             NULL);
    assert_ok(tl_tensor_new(&tokens, y->t->engine, TL_I32, TL_SHAPE(2, 5)));
    tl_named field = {"tokens", tokens};
    y->t->parts->in = (tl_tensors){.items = &field, .count = 1};
    toy_control(y, hooks, 2, (toy_options){0});
    assert_ok(tl_controller_train(y->c, 5, true));
    assert_near(last_of(y, "tokens_per_second") / last_of(y, "examples_per_second"), 5, 1e-9);
    const tl_history *times, *speeds;
    assert_ok(tl_event_storage_history(&times, tl_controller_storage(y->c), "time"));
    assert_ok(
        tl_event_storage_history(&speeds, tl_controller_storage(y->c), "examples_per_second"));
    assert_int_equal(tl_history_count(speeds), 2); // at its period
    double four = 0;
    for (int i = 0; i < 4; i++) four += tl_history_value(times, i) / 4;
    assert_near(last_of(y, "examples_per_second") * four, 2, 1e-9);
    assert_true(last_of(y, "memory_bytes") > 0);
    assert_true(last_of(y, "mfu") == -1);       // the toy computes nothing
    assert_true(last_of(y, "data_wait") == -1); // and waits for nothing
    y->t->parts->in = (tl_tensors){0};
    tl_tensor_free(&tokens);
    toy_close(y);
    for (int i = 0; i < 2; i++) tl_hook_free(&hooks[i]);
    speed.peak_flops = -1;
    assert_fails(tl_hook_new(&hooks[0], &tl_throughput_hook, &(tl_hook_args){.config = &speed}),
                 TL_EINVAL, "peak_flops is -1");
}

static void without_memory(void **state)
{
    toy *y = *state;
    bool through = false;
    plan.loss[3] = 2; // goes back once
    for (int64_t nth = 1; !through; nth += 1 + nth / 16) {
        tl_hooks hooks = {0};
        tl_event_writer *w = NULL;
        for (int i = 0; i < TOY_STEPS; i++) plan.result[i] = i;
        toy_open(y, SGD, NULL);
        assert_ok(tl_function_new(&y->t->parts->train, &(tl_function_args){.engine = y->t->engine,
                                                                           .body = square,
                                                                           .self = y->t,
                                                                           .interpret = true}));
        int64_t before = tl_alloc_calls();
        tl_alloc_fail_at(nth, 1);
        tl_status st = add_all(&hooks, &w);
        tl_alloc_fail_at(0, 0);
        through = tl_alloc_calls() - before < nth;
        if (st == TL_OK) {
            st = toy_try_control(y, hooks.items, hooks.count,
                                 (toy_options){.interval = 2, .steps_per_loop = 3});
            before = tl_alloc_calls();
            tl_alloc_fail_at(nth, 1);
            if (st == TL_OK) st = tl_controller_train(y->c, 5, true);
            tl_alloc_fail_at(0, 0);
            through = tl_alloc_calls() - before < nth;
        }
        assert_true(st == TL_OK || st == TL_ENOMEM || st == TL_ENAN);
        if (through) assert_int_equal(st, TL_ENAN); // the loss never becomes less
        toy_close(y);
        tl_hooks_free(&hooks);
        tl_event_writer_free(&w);
        if (tl_dir_exists("run"))
            assert_int_equal(nftw("run", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(steps_are_timed),
        TOY_TEST(the_rate_that_was_used),
        TOY_TEST(evaluations_come_at_their_period),
        TOY_TEST(evaluations_can_be_functions),
        TOY_TEST(writers_write_at_their_period),
        TOY_TEST(the_last_evaluation_is_written),
        TOY_TEST(checkpoints_come_at_their_period),
        TOY_TEST(loops_end_before_they_are_saved),
        TOY_TEST(the_end_is_not_removed),
        TOY_TEST(the_best_is_kept),
        TOY_TEST(the_best_may_be_low_or_unknown),
        TOY_TEST(kernels_are_timed),
        TOY_TEST(a_short_profile_is_written),
        TOY_TEST(memory_is_told),
        TOY_TEST(speed_is_told),
        TOY_TEST(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
