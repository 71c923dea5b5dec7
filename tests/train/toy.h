/* A trainer whose steps take no time and whose numbers a test writes down beforehand; a folder to
 * stand in; and what was logged. */
#ifndef TILTH_TESTS_TRAIN_TOY_H
#define TILTH_TESTS_TRAIN_TOY_H

#include "test.h"

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/io/tensorflow/event_file.h>
#include <tilth/train/controller/controller.h>

#include "nn/settings.h"
#include "train/trainer/trainer.h"
#include "engine.h"

/* --- a folder --------------------------------------------------------------------------------- */

static char toy_folder[TEMPORARY_PATH];

static inline int toy_remove(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static inline char *toy_read(const char *path)
{
    char *text;
    assert_ok(tl_file_read(&text, NULL, path, 1 << 20));
    return text;
}

static inline void assert_file(const char *path, const char *wanted)
{
    char *text = toy_read(path);
    assert_string_equal(text, wanted);
    tl_free(text);
}

static inline void toy_put(const char *path, const char *text)
{
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

/* The names that match, with spaces between them. */
static inline void assert_files(const char *pattern, const char *wanted)
{
    tl_arena *arena;
    tl_path_list found;
    tl_str names = TL_STR_INIT;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_glob(&found, arena, pattern));
    for (int64_t i = 0; i < found.count; i++)
        tl_str_addf(&names, "%s%s", i ? " " : "", found.items[i]);
    assert_string_equal(tl_str_text(&names), wanted);
    tl_str_deinit(&names);
    tl_arena_free(&arena);
}

/* Numbers in the event files of a folder, in the order of their files: "tag@step=value ". `tag`
 * NULL: all. */
static inline void toy_events(tl_str *out, const char *folder, const char *tag)
{
    tl_arena *arena;
    tl_path_list files;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_glob(&files, arena, tl_arena_printf(arena, "%s/events*", folder)));
    for (int64_t i = 0; i < files.count; i++) {
        tl_event_reader *r;
        tl_event e;
        bool more = true;
        assert_ok(tl_event_reader_open(&r, files.items[i]));
        while (tl_event_reader_next(r, &e, &more) == TL_OK && more)
            for (int64_t k = 0; k < e.count; k++)
                if (!tag || strcmp(e.values[k].tag, tag) == 0)
                    tl_str_addf(out, "%s@%lld=%g ", e.values[k].tag, (long long)e.step,
                                e.values[k].number);
        tl_event_reader_close(&r);
    }
    tl_arena_free(&arena);
}

static inline void assert_told(const char *folder, const char *tag, const char *wanted)
{
    tl_str said = TL_STR_INIT;
    toy_events(&said, folder, tag);
    assert_string_equal(tl_str_text(&said), wanted);
    tl_str_deinit(&said);
}

/* --- what was logged -------------------------------------------------------------------------- */

static tl_str toy_log = TL_STR_INIT;
static int64_t toy_sink;

static inline void toy_hear(const tl_log_record *record, void *payload)
{
    (void)payload;
    tl_str_addf(&toy_log, "%s\n", record->text);
}

static inline int toy_count(const char *text)
{
    int count = 0;
    for (const char *at = tl_str_text(&toy_log); (at = strstr(at, text)); at++) count++;
    return count;
}

/* --- the trainer ------------------------------------------------------------------------------ */

enum { TOY_STEPS = 64 };

/* What happens at each step; filled before it does. */
static struct toy_plan {
    double loss[TOY_STEPS];     /* of a loop that ends at this step */
    double result[TOY_STEPS];   /* "accuracy" of an evaluation at this step */
    int64_t blows_up_at;        /* this step is not finite; 0: none */
    int64_t blows_up;           /* so many times */
    int64_t trained, evaluated; /* how often it did */
    double seen[TOY_STEPS * 4]; /* ids of the batches */
    int64_t seen_count;
} plan;

static inline tl_status toy_layer_build(tl_layer *l, tl_scope *s, const void *config)
{
    (void)l;
    (void)config;
    tl_scope_param(s, "w", &(tl_param_args){.shape = TL_SHAPE(3)});
    return tl_scope_status(s);
}

static inline tl_tensor *toy_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    (void)l;
    (void)c;
    return x;
}
static const tl_layer_class toy_layer = {
    .cls = TL_CLASS(tl_layer_class, "toy", NULL, tl_layer, NULL),
    .build = toy_layer_build,
    .forward = toy_forward,
};

static inline tl_tensor *toy_weight(const tl_trainer *t)
{
    return tl_model_find(t->model, "w")->tensor;
}

static inline double toy_first_weight(const tl_trainer *t)
{
    double w[3];
    assert_ok(tl_tensor_get_doubles(toy_weight(t), w, 3));
    return w[0];
}

static inline tl_status toy_see_batch(tl_trainer *t)
{
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_tensors batch = {0};
    bool more = true;
    double id = -1;
    tl_status st = tl_dataset_next(t->train_dataset, t->ctx, &batch, &more);
    if (st == TL_OK) st = tl_tensor_item(tl_tensors_peek(&batch, "id"), &id);
    if (plan.seen_count < TOY_STEPS * 4) plan.seen[plan.seen_count++] = id;
    tl_ctx_end(t->ctx, mark);
    return st;
}

/* An update with gradients of 1. */
static inline tl_status toy_update(tl_trainer *t)
{
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_tensor *grads[8] = {0}, *made[8] = {0};
    tl_status st = TL_OK;
    for (int64_t b = 0; b < tl_model_block_count(t->model) && st == TL_OK; b++) {
        const tl_block *block = tl_model_block(t->model, b);
        double ones[512]; // devices may lay parameters far apart
        for (int i = 0; i < 512; i++) ones[i] = 1;
        assert_true(tl_tensor_count(block->values) <= 512);
        st = tl_tensor_new(&made[b], t->engine, block->dtype, block->values->shape);
        if (st == TL_OK) st = tl_tensor_set_doubles(made[b], ones, tl_tensor_count(made[b]));
        grads[b] = made[b];
    }
    if (st == TL_OK) {
        tl_optimizer_apply(t->optimizer, t->ctx, grads, NULL);
        st = tl_ctx_status(t->ctx);
    }
    tl_ctx_end(t->ctx, mark);
    for (int i = 0; i < 8; i++) tl_tensor_free(&made[i]);
    return st;
}

static inline tl_status toy_train_step(tl_trainer *t)
{
    if (t->train_dataset) TL_TRY(toy_see_batch(t));
    if (t->parts->train) {
        tl_mark mark = tl_ctx_begin(t->ctx);
        tl_tensors in = {0}, out = {0};
        tl_status st = tl_function_call(t->parts->train, t->ctx, &in, &out);
        tl_ctx_end(t->ctx, mark);
        TL_TRY(st);
    }
    if (plan.blows_up > 0 && plan.blows_up_at == t->global_step + 1) {
        plan.blows_up--;
        return TL_FAIL(TL_ENAN, "step %d: numbers are not finite", (int)plan.blows_up_at);
    }
    plan.trained++;
    if (t->optimizer) TL_TRY(toy_update(t));
    t->global_step++;
    return TL_OK;
}

static inline tl_status toy_loop_end(tl_trainer *t, tl_logs *logs)
{
    return tl_logs_put(logs, "training_loss", plan.loss[t->global_step % TOY_STEPS]);
}

static inline tl_status toy_evaluate(tl_trainer *t, int64_t steps, tl_logs *logs)
{
    tl_logs *inner;
    (void)steps;
    plan.evaluated++;
    TL_TRY(tl_logs_put(logs, "accuracy", plan.result[t->global_step % TOY_STEPS]));
    TL_TRY(tl_logs_sub(&inner, logs, "deep"));
    return tl_logs_put(inner, "accuracy", -plan.result[t->global_step % TOY_STEPS]);
}

static const tl_trainer_class toy_trainer = {
    .cls = TL_CLASS(tl_trainer_class, "toy", &tl_base_trainer.cls, tl_trainer, NULL),
    .train_step = toy_train_step,
    .train_loop_end = toy_loop_end,
    .evaluate = toy_evaluate,
};

/* --- all together ----------------------------------------------------------------------------- */

typedef struct toy {
    tl_strategy *strategy;
    tl_trainer *t;
    tl_checkpoint_manager *manager;
    tl_controller *c;
} toy;

static inline int toy_setup(void **state)
{
    static toy given;
    given = (toy){0};
    plan = (struct toy_plan){0};
    *state = &given;
    temporary(toy_folder, "tilth-test-train");
    open_registry(state);
    assert_ok(tl_get_distribution_strategy(&given.strategy,
                                           &(tl_strategy_args){.registry = test_registry(),
                                                               .distribution_strategy = "off",
                                                               .threads = 1}));
    assert_ok(tl_log_sink_add(&toy_sink, &(tl_log_sink){TL_LEVEL_DEBUG, toy_hear, NULL, NULL}));
    return mkdtemp(toy_folder) && chdir(toy_folder) == 0 ? 0 : -1;
}

/* `rates`: optimizer, learning rate and averages as YAML; NULL: the trainer has no model. */
static inline void toy_open(toy *y, const char *rates, tl_dataset *data)
{
    tl_trainer_args args = {.cls = &toy_trainer,
                            .strategy = y->strategy,
                            .train = true,
                            .evaluate = true,
                            .train_dataset = data};
    if (rates) {
        tl_engine *engine = tl_strategy_engine(y->strategy);
        tl_spec input = {"x", TL_F32, TL_SHAPE(1)};
        tl_config *s = settings_of(rates);
        assert_ok(tl_model_new(&args.model, &(tl_model_args){.engine = engine,
                                                             .cls = &toy_layer,
                                                             .inputs = &input,
                                                             .input_count = 1}));
        assert_ok(
            tl_optimizer_new(&args.optimizer, &(tl_optimizer_args){.engine = engine,
                                                                   .model = args.model,
                                                                   .config = tl_config_value(s),
                                                                   .registry = registry}));
        tl_config_free(&s);
    }
    assert_ok(tl_trainer_new(&y->t, &args));
}

typedef struct toy_options {
    int64_t steps_per_loop, interval, max_to_keep; /* 0: 100; no manager; all */
    bool background;
} toy_options;

static inline tl_status toy_try_control(toy *y, tl_hook *const *hooks, int64_t count, toy_options o)
{
    if (o.interval)
        assert_ok(tl_checkpoint_manager_new(
            &y->manager,
            &(tl_checkpoint_manager_args){.directory = "run",
                                          .state = tl_trainer_checkpoint(y->t),
                                          .step = &y->t->global_step,
                                          .interval = o.interval,
                                          .max_to_keep = {o.max_to_keep > 0, o.max_to_keep},
                                          .background = o.background}));
    return tl_controller_new(
        &y->c, &(tl_controller_args){.trainer = y->t,
                                     .evaluator = y->t,
                                     .steps_per_loop = o.steps_per_loop ? o.steps_per_loop : 100,
                                     .checkpoint_manager = y->manager,
                                     .hooks = hooks,
                                     .hook_count = count,
                                     .quiet = true});
}

static inline void toy_control(toy *y, tl_hook *const *hooks, int64_t count, toy_options o)
{
    assert_ok(toy_try_control(y, hooks, count, o));
}

/* The process ends: all but the files is gone. */
static inline void toy_close(toy *y)
{
    tl_controller_free(&y->c);
    tl_checkpoint_manager_free(&y->manager);
    tl_trainer_free(&y->t);
}

static inline int toy_teardown(void **state)
{
    toy *y = *state;
    tl_alloc_fail_at(0, 0);
    toy_close(y);
    tl_strategy_free(&y->strategy);
    close_registry(state);
    tl_log_sink_remove(toy_sink);
    tl_str_deinit(&toy_log);
    return chdir("/") == 0 && nftw(toy_folder, toy_remove, 8, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

#define TOY_TEST(f) cmocka_unit_test_setup_teardown(f, toy_setup, toy_teardown)

#endif
