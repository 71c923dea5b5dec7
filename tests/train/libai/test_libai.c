/* LiBai's configuration, and the numbers, schedules and groups that follow from it.
 * runs: fake device */
#include "train/mock.h"
#include "nn/rate.h"

#include <tilth/nn/layers.h>
#include <tilth/nn/schedule.h>
#include <tilth/train/strategy.h>

static tl_status finish_with(const char *yaml, const char *word)
{
    tl_config *c;
    TL_TRY(tl_libai_begin(&c, all, NULL));
    tl_status st = tl_libai_yaml(c, yaml, "test.yaml");
    if (st == TL_OK && word) st = tl_libai_words(c, &(tl_word){word, "words"}, 1);
    if (st == TL_OK) st = tl_config_finish(c);
    tl_config_free(&c);
    return st;
}

/* --- configuration ---------------------------------------------------------------------------- */

static void test_defaults_are_those_of_libai(void **state)
{
    (void)state;
    assert_ok(tl_desc_verify(&tl_libai_config_desc));
    tl_config *c;
    assert_ok(tl_libai_begin(&c, all, NULL));
    const tl_libai_train_config *t = &value_of(c)->train;
    assert_string_equal(t->output_dir, "./output");
    assert_int_equal(t->train_micro_batch_size.value, 32);
    assert_false(t->global_batch_size.set);
    assert_false(t->num_accumulation_steps.set);
    assert_int_equal(t->train_iter, 10000);
    assert_int_equal(t->train_epoch, 0);
    assert_int_equal(t->checkpointer.period, 5000);
    assert_int_equal(t->checkpointer.max_to_keep.value, 100);
    assert_int_equal(t->evaluation.eval_period, 5000);
    assert_int_equal(t->evaluation.eval_iter, 100000);
    assert_string_equal(t->evaluation.eval_metric, "Acc@1");
    assert_int_equal(t->evaluation.eval_mode, TL_LIBAI_MAX);
    assert_int_equal(t->log_period, 20);
    assert_int_equal(t->seed, 1234);
    assert_string_equal(t->scheduler.target, "WarmupCosineLR");
    assert_near(t->scheduler.warmup_factor, 0.001, 0);
    assert_near(t->scheduler.alpha, 0.01, 0);
    const tl_libai_optim_config *o = &value_of(c)->optim;
    assert_string_equal(o->target, "AdamW");
    assert_near(o->lr, 1e-4, 0);
    assert_near(o->weight_decay, 0.01, 0);
    assert_near(o->betas.items[1], 0.999, 0);
    assert_near(o->eps, 1e-8, 0);
    assert_near(o->params.clip_grad_max_norm.value, 1, 0);
    assert_near(o->params.weight_decay_norm.value, 0, 0);
    assert_true(value_of(c)->graph.enabled);
    tl_config_free(&c);
}

static void test_model_and_dataloader_name_a_task(void **state)
{
    (void)state;
    tl_config *c =
        config_of("model: {_target_: zoo.tasks.mock}\n"
                  "dataloader:\n"
                  "  train: {_target_: build_loader, shuffle_buffer_size: 7}\n"
                  "  test: [{shuffle_buffer_size: 8}]\n",
                  "dataloader.test[0].cache=true dataloader.train.block_length=3 optim.lr=0.25");
    assert_ok(tl_config_finish(c));
    const tl_libai_config *v = value_of(c);
    assert_string_equal(v->task.type, "mock");
    const tl_task_config *task = v->task.value;
    assert_int_equal(task->train_data->shuffle_buffer_size, 7);
    assert_int_equal(task->train_data->block_length, 3);
    assert_int_equal(task->validation_data->shuffle_buffer_size, 8);
    assert_true(task->validation_data->cache);
    assert_near(v->optim.lr, 0.25, 0);
    assert_string_equal(tl_config_source(c, "task.mock.train_data.shuffle_buffer_size"),
                        "test.yaml:3:56");
    tl_config_free(&c);

    c = config_of("task: {type: mock, mock: {train_data: {block_length: 2}}}",
                  "model._target_=mock");
    task = value_of(c)->task.value;
    assert_int_equal(task->train_data->block_length, 2);
    tl_config_free(&c);
}

/* What a file may say of a section, one word may. */
static void test_sections_as_words(void **state)
{
    (void)state;
    tl_config *c =
        config_of("model: {_target_: mock}\ndataloader: {test: {shuffle_buffer_size: 8}}",
                  "dataloader.train={_target_:build_loader,shuffle_buffer_size:7} "
                  "dataloader.test=[{cache:true}] optim={lr:0.25} train.train_iter=3");
    const tl_task_config *task = value_of(c)->task.value;
    assert_int_equal(task->train_data->shuffle_buffer_size, 7);
    assert_int_equal(task->validation_data->shuffle_buffer_size, 8); // merged, as in a file
    assert_true(task->validation_data->cache);
    assert_near(value_of(c)->optim.lr, 0.25, 0);
    tl_config_free(&c);
    c = config_of(
        "train: {train_iter: 3}",
        "model={_target_:a.mock} dataloader={train:{block_length:3},test:{}} ~dataloader.test");
    task = value_of(c)->task.value;
    assert_string_equal(value_of(c)->task.type, "mock");
    assert_int_equal(task->train_data->block_length, 3);
    assert_null(task->validation_data);
    tl_config_free(&c);
    static const tl_word words[] = {{"dataloader.train={block_length:3}", "words"},
                                    {"task={type:mock}", "words"}};
    c = config_of("train: {train_iter: 3}", "");
    assert_ok(tl_libai_words(c, words, TL_COUNT(words)));
    task = value_of(c)->task.value;
    assert_int_equal(task->train_data->block_length, 3);
    tl_config_free(&c);

    assert_fails(finish_with(mock, "dataloader.valid={cache:true}"), TL_ENOTFOUND,
                 "words: dataloader.valid: unknown key (known: dataloader.train, dataloader.test)");
    assert_fails(finish_with(mock, "dataloader={valid:{cache:true}}"), TL_EINVAL,
                 "words: dataloader: unknown key");
    assert_fails(finish_with(mock, "dataloader=3"), TL_EINVAL,
                 "words: dataloader: expected a map with train and test");
    assert_fails(finish_with(mock, "dataloader.test=[]"), TL_EINVAL, "the list is empty");
    assert_fails(finish_with(mock, "dataloader.test=[{},3]"), TL_EINVAL,
                 "expected a map for each test loader");
    assert_fails(finish_with(mock, "dataloader.train={cash:true}"), TL_ENOTFOUND,
                 "words: task.mock.train_data.cash: unknown key, did you mean 'cache'");
    assert_fails(finish_with(mock, "model={units:3}"), TL_EINVAL, "words: task.mock.model: ");
    assert_fails(finish_with(mock, "dataloader.train={cache"), TL_EINVAL,
                 "words: dataloader.train: ");
    assert_fails(finish_with("train: {train_iter: 3}", "dataloader.train={cache:true}"), TL_EINVAL,
                 "none is named");
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    assert_fails(finish_with("train: {train_iter: 5}", NULL), TL_EINVAL, "model._target_");
    assert_fails(finish_with("dataloader: {train: {cache: true}}", NULL), TL_EINVAL,
                 "none is named");
    assert_fails(finish_with("model: {_target_: mok}", NULL), TL_ENOTFOUND, "did you mean 'mock'");
    assert_fails(finish_with(mock, "model.units=3"), TL_EINVAL, "words: task.mock.model: ");
    // LiBai's own recipes had this one, and nobody noticed.
    assert_fails(finish_with(mock, "train.eval_period=1562"), TL_ENOTFOUND, "train.eval_period");
    assert_fails(finish_with("model: {_target_: mock}\ntrain: {log_perod: 3}", NULL), TL_ENOTFOUND,
                 "test.yaml:2:9: train.log_perod: unknown key, did you mean 'log_period'");
    assert_ok(finish_with(mock, "train.zero_optimization.enabled=true"));
    assert_fails(finish_with(mock, "train.zero_optimization.stage=4"), TL_EINVAL, "stage");
    assert_fails(finish_with(mock, "train.dist.tensor_parallel_size=0"), TL_EINVAL,
                 "tensor_parallel_size");
    // with one process it becomes 1
    assert_ok(finish_with(mock, "train.dist.pipeline_parallel_size=2"));
    static const char stages[] =
        "model: {_target_: mock}\n"
        "train: {dist: {pipeline_parallel_size: 2, pipeline_num_layers: 3}}";
    assert_ok(finish_with(stages, "train.dist.custom_pipeline_stage_id=[0,1,1]"));
    assert_fails(finish_with(stages, "train.dist.custom_pipeline_stage_id=[0,1,2]"), TL_EINVAL,
                 "words: train.dist.custom_pipeline_stage_id: layer 2 is given to stage 2");
    assert_fails(finish_with(stages, "train.dist.custom_pipeline_stage_id=[0,1]"), TL_EINVAL,
                 "has 2 numbers");
    assert_fails(finish_with(mock, "train.dist.custom_pipeline_stage_id=[0,0]"), TL_EINVAL,
                 "pipeline_num_layers: must be set");
    assert_fails(finish_with("model: {_target_: mock}\ngraph: {enabled: false}",
                             "train.activation_checkpoint.enabled=true"),
                 TL_EINVAL, "set graph.enabled");
    assert_fails(finish_with(mock, "optim._target_=AdamX"), TL_EINVAL, "did you mean 'AdamW'");
    assert_ok(finish_with(mock, "optim.nesterov=true"));
    assert_fails(finish_with(mock, "optim.amsgrad=true"), TL_EINVAL, "SGD has no such setting");
    assert_fails(finish_with(mock, "train.scheduler.gamma=0.5"), TL_EINVAL,
                 "WarmupCosineLR has no such setting");
    assert_fails(finish_with(mock, "optim.lr=-1"), TL_EINVAL,
                 "words: optim.lr: must be at least 0.0, found -1");
    assert_fails(finish_with(mock, "train.scheduler.alpha=-1"), TL_EINVAL, "train.scheduler.alpha");
    assert_fails(finish_with(mock, "optim.params.clip_grad_max_norm=0"), TL_EINVAL,
                 "words: optim.params.clip_grad_max_norm: must be more than 0, found 0 (null clips "
                 "nothing)");
    assert_fails(finish_with(mock, "train.warmup_ratio=1"), TL_EINVAL, "less than 1");
    assert_fails(finish_with(mock, "dataloader.valid.cache=true"), TL_ENOTFOUND, "dataloader");
    assert_fails(finish_with("model: {_target_: mock}\ndataloader: {test: []}", NULL), TL_EINVAL,
                 "the list is empty");
    assert_fails(
        finish_with(
            "model: {_target_: mock}\noptim: {params: {overrides: {bias: {weight_decay: 1}}}}",
            NULL),
        TL_EINVAL, "weight_decay_bias");
    assert_fails(
        finish_with("model: {_target_: mock}\n"
                    "train: {scheduler: {_target_: WarmupMultiStepLR, milestones: [0.5, 1.0]}}",
                    NULL),
        TL_EINVAL, "shares of train_iter");
}

/* --- numbers ---------------------------------------------------------------------------------- */

static tl_opt_int given(int64_t n)
{
    return (tl_opt_int){n > 0, n};
}

static void test_sizes_of_one_process_are_one(void **state)
{
    (void)state;
    static const int64_t stages[] = {0, 1};
    tl_libai_train_config t = {.dist = {.data_parallel_size = 8,
                                        .tensor_parallel_size = 2,
                                        .pipeline_parallel_size = 2,
                                        .pipeline_num_layers = {true, 2},
                                        .custom_pipeline_stage_id = {stages, 2}},
                               .zero_optimization = {.enabled = true, .stage = 2}};
    tl_libai_train_config one = t, many = t;
    assert_ok(tl_libai_resolve_dist(&one, 1));
    assert_int_equal(one.dist.tensor_parallel_size, 1);
    assert_int_equal(one.dist.pipeline_parallel_size, 1);
    assert_int_equal(one.dist.data_parallel_size, 1);
    assert_null(one.dist.custom_pipeline_stage_id.items); // there is no second stage
    assert_false(one.zero_optimization.enabled);          // nor a second process
    assert_ok(tl_libai_resolve_dist(&many, 12));
    assert_int_equal(many.dist.tensor_parallel_size, 2);
    assert_int_equal(many.dist.pipeline_parallel_size, 2);
    assert_int_equal(many.dist.data_parallel_size, 3);
    assert_ptr_equal(many.dist.custom_pipeline_stage_id.items, stages);
    assert_true(many.zero_optimization.enabled && many.zero_optimization.stage == 2);
    assert_fails(tl_libai_resolve_dist(&t, 7), TL_EINVAL,
                 "dist: tensor_parallel_size: 2 does not divide");
}

/* Layers are asked for where there are several stages, and not where there could be. */
static void test_layers_of_the_stages_there_are(void **state)
{
    (void)state;
    tl_libai_train_config t = {
        .dist = {.data_parallel_size = 1, .tensor_parallel_size = 1, .pipeline_parallel_size = 4}};
    for (int layers = 0; layers < 4; layers++) { // 0: not said
        tl_libai_train_config one = t, four = t;
        one.dist.pipeline_num_layers = four.dist.pipeline_num_layers =
            (tl_opt_int){layers > 0, layers};
        assert_ok(tl_libai_resolve_dist(&one, 1));
        assert_int_equal(one.dist.pipeline_parallel_size, 1);
        assert_fails(tl_libai_resolve_dist(&four, 4), TL_EINVAL,
                     layers ? "dist.pipeline_num_layers: must be at least pipeline_parallel_size, 4"
                            : "dist.pipeline_num_layers: must be set");
    }
    t.dist.pipeline_num_layers = (tl_opt_int){true, 4};
    assert_ok(tl_libai_resolve_dist(&t, 4));
    assert_int_equal(t.dist.pipeline_parallel_size, 4);
}

static void test_batch_sizes(void **state)
{
    (void)state;
    static const struct {
        int64_t micro, global, accumulation, replicas; /* 0: null */
        int64_t wanted[3];                             /* global 0: refused */
    } rows[] = {
        {2, 0, 4, 8, {2, 64, 4}},
        {3, 100, 0, 8, {0, 0, 0}},
        {2, 64, 0, 8, {2, 64, 4}},
        {2, 64, 4, 8, {2, 64, 4}},
        {2, 64, 2, 8, {0, 0, 0}},
        {4, 0, 0, 2, {4, 8, 1}},
        {0, 64, 0, 8, {8, 64, 1}},
        {0, 64, 2, 8, {4, 64, 2}},
        {0, 60, 8, 8, {0, 0, 0}},
        {0, 0, 4, 8, {0, 0, 0}},
        {INT64_MAX / 2, 0, 4, 8, {0, 0, 0}},
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        tl_libai_train_config t = {
            .train_micro_batch_size = given(rows[i].micro),
            .global_batch_size = given(rows[i].global),
            .num_accumulation_steps = given(rows[i].accumulation),
        };
        tl_status st = tl_libai_resolve_batch(&t, rows[i].replicas);
        assert_int_equal(st, rows[i].wanted[1] ? TL_OK : TL_EINVAL);
        if (st != TL_OK) continue;
        assert_int_equal(t.train_micro_batch_size.value, rows[i].wanted[0]);
        assert_int_equal(t.global_batch_size.value, rows[i].wanted[1]);
        assert_int_equal(t.num_accumulation_steps.value, rows[i].wanted[2]);
    }
}

/* LiBai's eager mode makes 468752 and 31256 of it with 8 accumulated batches; here a step is an
 * update, always. */
static void test_epochs_become_steps(void **state)
{
    (void)state;
    for (int64_t accumulation = 1; accumulation <= 8; accumulation *= 8) {
        tl_libai_train_config t = {
            .train_iter = 10000,
            .train_epoch = 300,
            .warmup_ratio = 20.0 / 300,
            .global_batch_size = {true, 256},
            .num_accumulation_steps = {true, accumulation},
            .evaluation = {.enabled = true, .eval_period = 5000, .eval_after_n_epoch = {true, 2}},
            .checkpointer = {.period = 5000, .save_model_after_n_epoch = {true, 3}},
        };
        assert_true(tl_libai_counts_epochs(&t));
        assert_ok(tl_libai_auto_scale(&t, 50000));
        assert_int_equal(t.train_iter, 58594);
        assert_int_equal(t.scheduler.warmup_iter.value, 3907);
        assert_int_equal(t.evaluation.eval_period, 195 * 2);
        assert_int_equal(t.checkpointer.period, 195 * 3);
        tl_libai_train_config again = t; // what is written down is scaled already
        assert_ok(tl_libai_auto_scale(&again, 50000));
        assert_int_equal(again.train_iter, t.train_iter);
        assert_int_equal(again.scheduler.warmup_iter.value, 3907);
    }
    tl_libai_train_config t = {.train_iter = 10000,
                               .train_epoch = 1,
                               .global_batch_size = {true, 256},
                               .evaluation.eval_period = 7,
                               .checkpointer.period = 9,
                               .scheduler.warmup_iter = {true, 11}};
    assert_ok(tl_libai_auto_scale(&t, 50000));
    assert_int_equal(t.train_iter, 10000); // the floor
    assert_int_equal(t.scheduler.warmup_iter.value, 11);
    assert_int_equal(t.evaluation.eval_period, 7);
    assert_fails(tl_libai_auto_scale(&t, 0), TL_EINVAL, "tilth.train_examples");
    t.train_epoch = INT64_MAX / 2;
    assert_fails(tl_libai_auto_scale(&t, 50000), TL_EINVAL, "64 bits");
    tl_libai_fast_dev_run(&t);
    assert_int_equal(t.train_iter, 20);
    assert_int_equal(t.evaluation.eval_period, 10);
    assert_int_equal(t.log_period, 1);
    assert_false(tl_libai_counts_epochs(&t));
}

static void test_names_of_checkpoints(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t next; /* -1: none */
    } rows[] = {{"model_0004999", 5000},
                {"ckpt-5000", 5000},
                {"ckpt-5000.safetensors", 5000},
                {"model_final", -1},
                {"model_best", -1},
                {"ckpt-", -1},
                {"ckpt--5", -1},
                {"", -1},
                {"ckpt-99999999999999999999", -1},
                {"ckpt-5x", -1},
                {"model_0", 1}};
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        int64_t next = -1;
        tl_status st = tl_libai_next_iter(&next, rows[i].name);
        if (rows[i].next < 0) assert_int_equal(st, TL_EINVAL);
        else assert_int_equal(next, rows[i].next);
    }
}

/* --- schedules -------------------------------------------------------------------------------- */

/* The rates of steps, for a base rate and a scheduler. */
static void assert_rates(double lr, int64_t max_iter, const char *scheduler, const int64_t *steps,
                         const double *wanted, int64_t count)
{
    char yaml[400];
    snprintf(yaml, sizeof yaml,
             "model: {_target_: mock}\noptim: {lr: %g}\ntrain: {train_iter: %d, scheduler: %s}\n",
             lr, (int)max_iter, scheduler);
    tl_config *c = config_of(yaml, "");
    tl_optimization_config o = {0};
    assert_ok(tl_config_finish(c));
    assert_ok(tl_libai_schedule(&o, tl_config_arena(c), value_of(c)));
    for (int64_t i = 0; i < count; i++) {
        double rate;
        assert_ok(schedule_rate(&rate, &o, steps[i]));
        assert_near(rate, wanted[i], 1e-6 * wanted[i]);
    }
    tl_config_free(&c);
}
#define RATES(lr, max_iter, scheduler, steps, ...)                                                 \
    assert_rates(lr, max_iter, scheduler, steps, (const double[]){__VA_ARGS__},                    \
                 TL_COUNT(((const double[]){__VA_ARGS__})))

static void test_learning_rates(void **state)
{
    (void)state;
    static const int64_t cosine[] = {0, 1, 5, 9, 10, 11, 50, 99, 100, 1000};
    RATES(1e-4, 100, "{warmup_iter: 10}", cosine, 1e-7, 9.847730e-06, 4.883865e-05, 8.782957e-05,
          9.757730e-05, 9.707360e-05, 5.05e-05, 1.024425e-06, 1e-6, 1e-6);
    static const int64_t falls[] = {0, 1, 2, 3, 4, 5, 9, 10, 14, 15, 19, 20, 30};
    RATES(5, 40,
          "{_target_: libai.scheduler.WarmupMultiStepLR, warmup_iter: 5, milestones: [0.25, 0.375, "
          "0.5]}",
          falls, .005, 1.004, 2.003, 3.002, 4.001, 5, 5, .5, .5, .05, .05, .005, .005);
    static const int64_t first[] = {0, 1, 2, 3, 4, 5, 6};
    RATES(5, 20, "{_target_: WarmupExponentialLR, warmup_iter: 5, gamma: 0.1}", first, .005, .00401,
          .00302, .00203, .00104, 5e-5, 5e-6);
    static const int64_t steps[] = {0, 1, 2, 3, 4, 5, 7};
    RATES(2, 20, "{_target_: WarmupStepLR, step_size: 2, gamma: 0.5}", steps, 2, 2, 1, 1, .5, .5,
          .25);
    RATES(1, 10, "{_target_: WarmupPolynomialLR, end_learning_rate: 0.5}", steps, 1, .95, .9, .85,
          .8, .75, .65);
    RATES(1, 4,
          "{_target_: WarmupCosineAnnealingLR, warmup_iter: 2, warmup_method: constant, eta_min: "
          "0.5}",
          steps, .001, .001, .75, .5 + .25 * (1 - sqrt(0.5)), .5, .5 + .25 * (1 - sqrt(0.5)),
          .5 + .25 * (1 + sqrt(0.5)));
}

/* --- groups ----------------------------------------------------------------------------------- */

static void test_groups_expand_and_merge(void **state)
{
    (void)state;
    static const char *const paths[] = {"p1", "p2", "p3", "p4", "p5", "a.b/p1"};
    // The norm stands for LiBai's momentum.
    static const tl_group_config rules[] = {
        {.pattern = "^p[1-4]$", .rate = {true, 1}, .weight_decay = {true, 3}},
        {.pattern = "^p[235]$", .rate = {true, 2}, .clip_norm = {true, 2}},
        {.pattern = "^p1$", .weight_decay = {true, 4}},
    };
    tl_arena *arena;
    tl_param_groups g;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_param_groups_of(&g, arena, paths, 6, rules, 3));
    assert_int_equal(g.count, 4);
    static const int64_t of[] = {0, 1, 1, 2, 3, -1};
    assert_memory_equal(g.of, of, sizeof of);
    static const double rate[] = {1, 2, 1, 2}, decay[] = {4, 3, 3, -1}, norm[] = {-1, 2, -1, 2};
    for (int64_t i = 0; i < g.count; i++) {
        assert_near(g.groups[i].rate.value, rate[i], 0);
        assert_int_equal(g.groups[i].weight_decay.set, decay[i] >= 0);
        if (decay[i] >= 0) assert_near(g.groups[i].weight_decay.value, decay[i], 0);
        assert_int_equal(g.groups[i].clip_norm.set, norm[i] >= 0);
    }
    assert_string_equal(g.groups[1].pattern, "^(p2|p3)$");
    assert_string_equal(g.groups[1].group, "group_1");
    assert_ok(tl_param_groups_of(&g, arena, paths, 6, &(tl_group_config){.pattern = "a"}, 1));
    assert_string_equal(g.groups[0].pattern, "^(a\\.b/p1)$");
    assert_fails(tl_param_groups_of(&g, arena, paths, 6, &(tl_group_config){.pattern = "("}, 1),
                 TL_EINVAL, "regular");
    tl_arena_free(&arena);
}

typedef struct net {
    tl_model base;
    tl_layer *dense, *norm;
} net;
static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    (void)config;
    ((net *)m)->dense = tl_dense(s, "dense", .units = 4);
    ((net *)m)->norm = tl_scope_layer(s, "norm", &tl_layer_layer_norm, NULL);
    return tl_scope_status(s);
}
static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    return tl_call(c, ((net *)m)->norm, tl_call(c, ((net *)m)->dense, x));
}
static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

static void test_groups_of_a_model(void **state)
{
    (void)state;
    tl_config *c = config_of("model: {_target_: mock}\n"
                             "optim: {lr: 0.5, params: {overrides: {kernel: {lr: 0.25}}}}\n",
                             "");
    tl_strategy *s;
    tl_model *m;
    tl_group_config *rules;
    tl_param_groups g;
    int64_t count;
    tl_spec x = {"x", TL_F32, TL_SHAPE(2, 3)};
    assert_ok(tl_get_distribution_strategy(
        &s, &(tl_strategy_args){.registry = all, .distribution_strategy = "off", .threads = 1}));
    assert_ok(tl_model_new(&m, &(tl_model_args){.engine = tl_strategy_engine(s),
                                                .cls = &net_class,
                                                .inputs = &x,
                                                .input_count = 1}));
    assert_ok(tl_config_finish(c));
    assert_ok(tl_libai_param_rules(&rules, &count, tl_config_arena(c), &value_of(c)->optim, m));
    const char *paths[8];
    for (int64_t i = 0; i < tl_model_param_count(m); i++) paths[i] = tl_model_param(m, i)->path;
    assert_ok(
        tl_param_groups_of(&g, tl_config_arena(c), paths, tl_model_param_count(m), rules, count));
    assert_int_equal(g.count,
                     2); // the kernel at half the rate; the bias and all of the norm without decay
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        bool kernel = strcmp(paths[i], "dense/kernel") == 0;
        const tl_group_config *mine = &g.groups[g.of[i]];
        assert_int_equal(mine->rate.set, kernel);
        assert_int_equal(mine->weight_decay.set, !kernel);
        if (kernel) assert_near(mine->rate.value, 0.5, 0);
        else assert_near(mine->weight_decay.value, 0, 0);
    }
    assert_ok(tl_model_group(m, g.groups, g.count));
    assert_int_equal(tl_model_block_count(m), 2);
    tl_model_free(&m);
    tl_strategy_free(&s);
    tl_config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBAI_TEST(test_defaults_are_those_of_libai),
        LIBAI_TEST(test_model_and_dataloader_name_a_task),
        LIBAI_TEST(test_sections_as_words),
        LIBAI_TEST(test_what_is_wrong_is_said),
        LIBAI_TEST(test_sizes_of_one_process_are_one),
        LIBAI_TEST(test_layers_of_the_stages_there_are),
        LIBAI_TEST(test_batch_sizes),
        LIBAI_TEST(test_epochs_become_steps),
        LIBAI_TEST(test_names_of_checkpoints),
        LIBAI_TEST(test_learning_rates),
        LIBAI_TEST(test_groups_expand_and_merge),
        LIBAI_TEST(test_groups_of_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
