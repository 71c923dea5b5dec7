/* Runs of LiBai's default trainer: what they write, how they are resumed, and their pieces
 * exchanged. */
#include "train/mock.h"

#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>

#include <tilth/base/vec.h>
#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/train/libai/default_trainer.h>

/* --- runs ------------------------------------------------------------------------------------- */

static tl_status open_run(tl_default_trainer **t, tl_config *c, tl_default_trainer_args args)
{
    args.registry = all;
    args.config = value_of(c);
    return tl_default_trainer_new(t, &args);
}

/* A whole run; its results are the caller's. */
static tl_logs *run_with(const char *words, tl_default_trainer_args args)
{
    tl_config *c = config_of(mock, words);
    tl_default_trainer *t;
    tl_logs *results;
    assert_ok(tl_config_finish(c));
    assert_ok(open_run(&t, c, args));
    assert_ok(tl_default_trainer_train(t));
    assert_ok(tl_logs_new(&results));
    assert_ok(tl_logs_merge(results, t->last_eval_results));
    tl_default_trainer_free(&t);
    tl_config_free(&c);
    return results;
}

static void run(const char *words, tl_default_trainer_args args)
{
    tl_logs *results = run_with(words, args);
    tl_logs_free(&results);
}

static void assert_same_file(const char *a, const char *b)
{
    char *one, *two;
    size_t sizes[2];
    assert_ok(tl_file_read(&one, &sizes[0], a, 1 << 20));
    assert_ok(tl_file_read(&two, &sizes[1], b, 1 << 20));
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(one, two, sizes[0]);
    tl_free(one);
    tl_free(two);
}

/* The iterations of metrics.json, with spaces between them; all of its lines are JSON. */
static void assert_iterations(const char *path, const char *wanted)
{
    char *text = toy_read(path);
    tl_str found = TL_STR_INIT;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_error_t error;
        json_t *json = json_loads(line, 0, &error);
        assert_non_null(json);
        tl_str_addf(&found, "%s%d", found.length ? " " : "",
                    (int)json_integer_value(json_object_get(json, "iteration")));
        json_decref(json);
    }
    assert_string_equal(tl_str_text(&found), wanted);
    tl_str_deinit(&found);
    tl_free(text);
}

static json_t *last_line(const char *path, int from_end)
{
    char *text = toy_read(path), *lines[64];
    int count = 0;
    json_error_t error;
    for (char *line = strtok(text, "\n"); line && count < 64; line = strtok(NULL, "\n"))
        lines[count++] = line;
    assert_true(count > from_end);
    json_t *json = json_loads(lines[count - 1 - from_end], 0, &error);
    assert_non_null(json);
    tl_free(text);
    return json;
}

static void test_run_writes_what_libai_writes(void **state)
{
    (void)state;
    tl_logs *results = run_with("tilth.peak_tflops=1", (tl_default_trainer_args){0});
    assert_true(tl_logs_number_or(results, "mse", -1) >= 0);
    tl_logs_free(&results);
    // At 4, 8 and the end; at 5 and 10, after which an evaluation found the best so far.
    assert_files("out/ckpt*",
                 "out/ckpt-10.safetensors out/ckpt-12.safetensors out/ckpt-4.safetensors "
                 "out/ckpt-5.safetensors out/ckpt-8.safetensors");
    assert_files("out/model_*",
                 "out/model_best.json out/model_best.safetensors out/model_final.safetensors");
    assert_file("out/last_checkpoint", "ckpt-12");
    assert_same_file("out/model_final.safetensors", "out/ckpt-12.safetensors");
    // Lines at each third step; results of evaluations at 4 and 9, and after the end.
    assert_iterations("out/metrics.json", "2 4 5 8 9 11 12");
    json_t *end = last_line("out/metrics.json", 0), *step = last_line("out/metrics.json", 1);
    static const char *const keys[] = {
        "data_time", "eta_seconds", "grad_norm",           "iteration",
        "lr",        "time",        "total_loss",          "train/mse",
        "data_wait", "mfu",         "examples_per_second", "memory_bytes"};
    for (int64_t i = 0; i < TL_COUNT(keys); i++)
        assert_true(json_is_number(json_object_get(step, keys[i])));
    assert_null(json_object_get(step, "loss"));
    assert_true(json_is_number(json_object_get(end, "mse")));
    assert_true(json_is_number(json_object_get(end, "validation_loss")));
    json_decref(end);
    json_decref(step);
    assert_int_equal(toy_count("iteration: 11/12  consumed_samples: 120  total_loss: "), 1);
    assert_int_equal(toy_count(" s/iter  data_time: "), 4);
    assert_int_equal(toy_count("  total_throughput: "), 4);
    assert_int_equal(toy_count("  lr: "), 4);
    assert_int_equal(toy_count("copypaste: mse="), 3);
    assert_int_equal(toy_count("Overall training speed: 10 iterations"), 1);
}

static tl_status stop_at_7(tl_controller *c, void *self)
{
    (void)self;
    if (tl_controller_step(c) == 7) tl_controller_request_stop(c, "enough");
    return TL_OK;
}

static tl_status build_stopping_hooks(tl_default_trainer *t)
{
    tl_hook *h;
    TL_TRY(tl_base_default_trainer.build_hooks(t));
    TL_TRY(tl_hook_from_callbacks(&h, &(tl_callbacks){.after_step = stop_at_7}, NULL));
    if (TL_VEC_PUSH(&t->hooks, h)) return TL_OK;
    tl_hook_free(&h);
    return TL_ENOMEM;
}
static const tl_default_trainer_class stopping = {
    .cls = TL_CLASS(tl_default_trainer_class, "stopping", &tl_base_default_trainer.cls,
                    tl_default_trainer, NULL),
    .build_hooks = build_stopping_hooks,
};

static void test_resumed_run_ends_with_the_same_bits(void **state)
{
    (void)state;
    run("train.output_dir=whole", (tl_default_trainer_args){0});
    run("", (tl_default_trainer_args){.cls = &stopping});
    assert_files("out/model_final*", "");
    assert_file("out/last_checkpoint", "ckpt-7");
    // Resumed twice: the second time there is nothing left to train.
    for (int i = 0; i < 2; i++) {
        run("train.resume=true", (tl_default_trainer_args){0});
        assert_same_file("out/ckpt-12.safetensors", "whole/ckpt-12.safetensors");
        assert_same_file("out/model_final.safetensors", "whole/model_final.safetensors");
        assert_same_file("out/model_best.safetensors", "whole/model_best.safetensors");
        assert_iterations("out/metrics.json", i ? "2 4 5 6 8 9 11 12" : "2 4 5 6 8 9 11 12");
    }
    // More steps than at first: the end was no end.
    run("train.resume=true train.train_iter=16", (tl_default_trainer_args){0});
    assert_file("out/last_checkpoint", "ckpt-16");
    // Nothing to resume is no mistake.
    run("train.resume=true train.output_dir=new", (tl_default_trainer_args){0});
    assert_same_file("new/ckpt-12.safetensors", "whole/ckpt-12.safetensors");
    assert_int_equal(toy_count("holds no checkpoint to resume"), 1);
}

static tl_status fail_to_test(tl_default_trainer *t, tl_logs *results)
{
    if (t->trainer->global_step == 5) return TL_FAIL(TL_EIO, "the power is gone");
    return tl_base_default_trainer.test(t, results);
}
static const tl_default_trainer_class failing = {
    .cls = TL_CLASS(tl_default_trainer_class, "failing", &tl_base_default_trainer.cls,
                    tl_default_trainer, NULL),
    .test = fail_to_test,
};

/* A checkpoint comes before the evaluation of its step, which a new process makes up for. */
static void test_evaluation_that_was_cut_off(void **state)
{
    (void)state;
    const char *words = "train.checkpointer.period=5 train.output_dir=whole";
    run(words, (tl_default_trainer_args){0});
    tl_config *c = config_of(mock, "train.checkpointer.period=5");
    tl_default_trainer *t;
    assert_ok(tl_config_finish(c));
    assert_ok(open_run(&t, c, (tl_default_trainer_args){.cls = &failing}));
    assert_fails(tl_default_trainer_train(t), TL_EIO, "the power is gone");
    tl_default_trainer_free(&t);
    tl_config_free(&c);
    assert_files("out/model_best*", "");
    assert_file("out/last_checkpoint", "ckpt-5");
    run("train.checkpointer.period=5 train.resume=true", (tl_default_trainer_args){0});
    assert_same_file("out/ckpt-12.safetensors", "whole/ckpt-12.safetensors");
    assert_same_file("out/model_best.safetensors", "whole/model_best.safetensors");
    assert_iterations("out/metrics.json", "2 4 5 8 9 11 12");
    assert_int_equal(toy_count("@ 4 steps"), 2); // in both runs step 5 was the first to be the best
}

static void test_new_run_moves_the_old_one_aside(void **state)
{
    (void)state;
    run("", (tl_default_trainer_args){0});
    toy_put("out/notes.txt", "mine");
    run("train.train_iter=4 train.evaluation.enabled=false", (tl_default_trainer_args){0});
    assert_files("out/ckpt*", "out/ckpt-4.safetensors");
    assert_files("out/previous-*/ckpt-1*",
                 "out/previous-1/ckpt-10.safetensors out/previous-1/ckpt-12.safetensors");
    assert_files("out/previous-*/metrics.json", "out/previous-1/metrics.json");
    assert_file("out/notes.txt", "mine");
    assert_iterations("out/metrics.json", "2 3");
    run("train.train_iter=4", (tl_default_trainer_args){0});
    assert_files("out/previous-2/ckpt*", "out/previous-2/ckpt-4.safetensors");
}

static tl_status test_only(double *mse, const char *words)
{
    tl_config *c = config_of(mock, words);
    tl_default_trainer *t;
    assert_ok(tl_config_finish(c));
    tl_status st = open_run(&t, c, (tl_default_trainer_args){.eval_only = true});
    if (st == TL_OK) st = tl_default_trainer_test(t, NULL);
    if (st == TL_OK) *mse = tl_logs_number_or(t->last_eval_results, "mse", -1);
    if (st == TL_OK) assert_fails(tl_default_trainer_train(t), TL_ESTATE, "evaluate only");
    tl_default_trainer_free(&t);
    tl_config_free(&c);
    return st;
}

static void test_eval_only(void **state)
{
    (void)state;
    double mse = -1;
    tl_logs *results = run_with("", (tl_default_trainer_args){0});
    double trained = tl_logs_number_or(results, "mse", -1);
    tl_logs_free(&results);
    assert_fails(test_only(&mse, ""), TL_EINVAL, "train.load_weight");
    assert_fails(test_only(&mse, "train.resume=true train.output_dir=none"), TL_ENOTFOUND,
                 "holds no checkpoint");
    assert_ok(test_only(&mse, "train.resume=true"));
    assert_near(mse, trained, 0);
    assert_ok(test_only(&mse, "train.load_weight=out/model_final train.output_dir=elsewhere"));
    assert_near(mse, trained, 0);
    assert_ok(test_only(&mse, "train.load_weight=out/ckpt-4"));
    assert_true(mse > trained);
    assert_files("out/previous-*", "");
}

static void test_load_weight_starts_a_new_run(void **state)
{
    (void)state;
    run("", (tl_default_trainer_args){0});
    tl_config *c = config_of(mock, "train.load_weight=out/ckpt-12 train.output_dir=tuned");
    tl_default_trainer *t;
    assert_ok(tl_config_finish(c));
    assert_ok(open_run(&t, c, (tl_default_trainer_args){0}));
    assert_int_equal(t->trainer->global_step, 0);
    tl_checkpoint *was;
    double then, now;
    assert_ok(tl_checkpoint_open(&was, "out/ckpt-12.safetensors"));
    const tl_safetensors_entry *kernel = tl_checkpoint_find(was, "model/kernel");
    assert_non_null(kernel);
    then = *(const float *)kernel->data;
    assert_ok(tl_tensor_item(tl_model_find(t->trainer->model, "kernel")->tensor, &now));
    assert_near(now, then, 0);
    tl_checkpoint_free(&was);
    tl_default_trainer_free(&t);
    tl_config_free(&c);
}

static void test_fast_dev_run(void **state)
{
    (void)state;
    tl_config *c = config_of(mock, "train.evaluation.eval_after_n_epoch=3 train.train_epoch=5");
    assert_ok(tl_config_finish(c));
    tl_default_trainer *t;
    assert_ok(open_run(&t, c, (tl_default_trainer_args){.fast_dev_run = true}));
    assert_int_equal(t->max_iter, 20);
    assert_ok(tl_default_trainer_train(t));
    tl_default_trainer_free(&t);
    tl_config_free(&c);
    assert_iterations("out/metrics.json", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20");
    assert_int_equal(toy_count("copypaste: mse="), 2);
}

/* --- other pieces ----------------------------------------------------------------------------- */

typedef struct my_trainer {
    tl_libai_trainer base;
    double sum;
    int64_t steps;
} my_trainer;
static tl_status my_run_step(tl_trainer *t)
{
    my_trainer *m = (my_trainer *)t;
    double loss;
    TL_TRY(tl_eager_trainer.train_step(t));
    TL_TRY(tl_tensor_item(tl_tensors_peek(t->outputs, "total_loss"), &loss));
    m->sum += loss;
    m->steps++;
    return TL_OK;
}
static const tl_trainer_class my_eager = {
    .cls = TL_CLASS(tl_trainer_class, "my_eager", &tl_eager_trainer.cls, my_trainer, NULL),
    .train_step = my_run_step,
};
static const tl_trainer_class my_graph = {
    .cls = TL_CLASS(tl_trainer_class, "my_graph", &tl_graph_trainer.cls, my_trainer, NULL),
    .train_step = my_run_step,
};

typedef struct my_default {
    tl_default_trainer base;
    int64_t seen, began, ended;
} my_default;
static tl_status see_begin(tl_controller *c, void *self)
{
    ((my_default *)self)->began = tl_controller_step(c);
    return TL_OK;
}
static tl_status see_step(tl_controller *c, void *self)
{
    assert_ptr_equal(tl_event_storage_current(), tl_controller_storage(c));
    ((my_default *)self)->seen++;
    return TL_OK;
}
static tl_status see_end(tl_controller *c, void *self)
{
    ((my_default *)self)->ended = tl_controller_step(c);
    return TL_OK;
}
/* The list that LiBai's documentation shows, written out. */
static tl_status build_my_hooks(tl_default_trainer *t)
{
    tl_hook *h;
    TL_TRY(tl_hooks_add(&t->hooks, NULL, &tl_iteration_timer_hook, NULL));
    TL_TRY(tl_hooks_add(&t->hooks, NULL, &tl_lr_scheduler_hook, NULL));
    TL_TRY(tl_hooks_add(&t->hooks, NULL, &tl_periodic_checkpointer_hook,
                        &(tl_hook_args){.period = 6}));
    TL_TRY(tl_hook_from_callbacks(
        &h,
        &(tl_callbacks){
            .before_train = see_begin, .after_step = see_step, .after_train = see_end, .self = t},
        &(tl_hook_args){.period = 4}));
    return TL_VEC_PUSH(&t->hooks, h) ? TL_OK : TL_ENOMEM;
}
static tl_status count_examples(tl_default_trainer *t, int64_t *out)
{
    (void)t;
    *out = 100;
    return TL_OK;
}
static const tl_default_trainer_class my_class = {
    .cls = TL_CLASS(tl_default_trainer_class, "my", &tl_base_default_trainer.cls, my_default, NULL),
    .build_hooks = build_my_hooks,
    .train_examples = count_examples,
};

static double mean_loss(const char *words, int64_t *seen)
{
    tl_config *c = config_of(mock, words);
    tl_default_trainer *t;
    assert_ok(tl_config_finish(c));
    assert_ok(open_run(
        &t, c,
        (tl_default_trainer_args){.cls = &my_class, .eager = &my_eager, .graph = &my_graph}));
    assert_ok(tl_default_trainer_train(t));
    const my_default *d = (const my_default *)t;
    const my_trainer *m = (const my_trainer *)t->trainer;
    assert_int_equal(m->steps, t->max_iter);
    assert_int_equal(d->began, 0);
    assert_int_equal(d->ended, t->max_iter);
    *seen = d->seen;
    double mean = m->sum / (double)m->steps;
    assert_int_equal(tl_event_storage_samples(tl_controller_storage(t->controller)),
                     t->max_iter * t->global_batch_size);
    tl_default_trainer_free(&t);
    tl_config_free(&c);
    return mean;
}

static void test_pieces_are_overridden_alone(void **state)
{
    (void)state;
    int64_t seen;
    double graph = mean_loss("", &seen);
    assert_int_equal(seen, 3);
    assert_files("out/metrics.json", ""); // no writer was among the hooks
    assert_files("out/ckpt*",
                 "out/ckpt-12.safetensors out/ckpt-6.safetensors"); // the hook alone says when
    assert_near(mean_loss("graph.enabled=false", &seen), graph, 1e-6);
    // Two epochs of 100 examples are 20 steps of 10.
    mean_loss("train.train_epoch=2", &seen);
    assert_int_equal(seen, 5);
}

/* Batches that are accumulated are one step: the loss told is that of all of them. */
static void test_accumulation(void **state)
{
    (void)state;
    int64_t seen;
    double at_once = mean_loss("train.train_micro_batch_size=20", &seen);
    double in_two = mean_loss("train.train_micro_batch_size=10 train.global_batch_size=20", &seen);
    double eager = mean_loss(
        "train.train_micro_batch_size=10 train.num_accumulation_steps=2 graph.enabled=false",
        &seen);
    assert_near(in_two, at_once, 1e-6);
    assert_near(eager, at_once, 1e-6);
    assert_int_equal(seen, 3); // steps are updates
}

static void test_epochs_are_as_long_as_the_data(void **state)
{
    (void)state;
    tl_config *c = config_of(mock, "train.train_epoch=2"); // of 100 examples
    tl_default_trainer *t;
    assert_ok(tl_config_finish(c));
    assert_ok(open_run(&t, c, (tl_default_trainer_args){0}));
    assert_int_equal(t->max_iter, 20);
    tl_default_trainer_free(&t);
    tl_config_free(&c);
    c = config_of(mock, "train.train_epoch=1 tilth.train_examples=200"); // or as it is told
    assert_ok(tl_config_finish(c));
    assert_ok(open_run(&t, c, (tl_default_trainer_args){0}));
    assert_int_equal(t->max_iter, 20);
    assert_int_equal(t->config->train.scheduler.warmup_iter.value, 5);
    tl_default_trainer_free(&t);
    tl_config_free(&c);
}

/* --- loaders and processes -------------------------------------------------------------------- */

static const char *const sampled = "model: {_target_: image_classification, num_classes: 3, "
                                   "input_size: [8, 8, 1], backbone: {type: mlp}}\n"
                                   "dataloader:\n"
                                   "  train: {file_type: synthetic, synthetic_examples: 50, "
                                   "sampler: {_target_: CyclicSampler, shuffle: true}}\n"
                                   "  test: [{file_type: synthetic, synthetic_examples: 20, "
                                   "sampler: {_target_: SingleRoundSampler}}]\n"
                                   "optim: {_target_: SGD, lr: 0.1}\n"
                                   "tilth: {jit: false, threads: 1}\n"
                                   "train:\n"
                                   "  output_dir: out\n"
                                   "  train_micro_batch_size: 8\n"
                                   "  test_micro_batch_size: 8\n"
                                   "  train_iter: 12\n"
                                   "  checkpointer: {period: 100}\n"
                                   "  evaluation: {eval_period: 6, eval_metric: accuracy}\n";

/* Trains, and says where the data stands then. */
static void run_sampled(const char *words, const tl_default_trainer_class *cls, const char *wanted)
{
    tl_config *c = config_of(sampled, words);
    tl_default_trainer *t;
    tl_str told = TL_STR_INIT;
    assert_ok(tl_config_finish(c));
    assert_ok(open_run(&t, c, (tl_default_trainer_args){.cls = cls}));
    assert_ok(tl_default_trainer_train(t));
    assert_ok(tl_dataset_tell(t->trainer->train_dataset, &told));
    assert_string_equal(tl_str_text(&told), wanted);
    tl_str_deinit(&told);
    tl_default_trainer_free(&t);
    tl_config_free(&c);
}

/* Six batches of 8 are an epoch of 50 examples; the sampler goes on where the checkpoint left
 * it. */
static void test_loaders_take_samplers(void **state)
{
    (void)state;
    run_sampled("train.output_dir=whole", NULL, "epoch 1, record 48, consumed_samples 96");
    run_sampled("", &stopping, "epoch 1, record 8, consumed_samples 56");
    run_sampled("train.resume=true", NULL, "epoch 1, record 48, consumed_samples 96");
    assert_same_file("out/ckpt-12.safetensors", "whole/ckpt-12.safetensors");
    run_sampled("train.output_dir=late dataloader.train.sampler.consumed_samples=48", NULL,
                "epoch 2, record 48, consumed_samples 144");
    // An epoch of training is all of the data, and so 7 steps.
    run_sampled("train.output_dir=epoch train.train_iter=0 train.train_epoch=1", NULL,
                "epoch 1, record 8, consumed_samples 56");
}

static void test_one_process_has_all_of_the_model(void **state)
{
    (void)state;
    tl_config *c =
        config_of(mock, "train.dist.tensor_parallel_size=4 train.dist.data_parallel_size=2 "
                        "train.dist.pipeline_num_layers=12 train.dist.pipeline_parallel_size=2");
    tl_default_trainer *t;
    assert_ok(tl_config_finish(c));
    assert_ok(open_run(&t, c, (tl_default_trainer_args){0}));
    assert_int_equal(t->config->train.dist.tensor_parallel_size, 1);
    assert_int_equal(t->config->train.dist.pipeline_parallel_size, 1);
    assert_int_equal(t->config->train.dist.data_parallel_size, 1);
    assert_int_equal(t->global_batch_size, 10);
    assert_int_equal(toy_count("with 1 process it becomes 1"), 3);
    tl_default_trainer_free(&t);
    tl_config_free(&c);
}

static void test_half_precision_and_recomputation(void **state)
{
    (void)state;
    run("train.amp.enabled=true train.activation_checkpoint.enabled=true",
        (tl_default_trainer_args){0});
    tl_checkpoint *k;
    assert_ok(tl_checkpoint_open(&k, "out/ckpt-12.safetensors"));
    tl_state_entry scale;
    assert_true(tl_state_find(&scale, tl_checkpoint_state(k), "optimizer/loss_scale/scale"));
    tl_checkpoint_free(&k);
}

/* --- a task of one's own ---------------------------------------------------------------------- */

/* Data that ends unless it trains, and a dictionary of losses. */
static tl_status finite_inputs(tl_task *t, const tl_data_config *data,
                               const tl_input_context *input, tl_dataset **out)
{
    float x[70];
    (void)t;
    for (int i = 0; i < 70; i++) x[i] = (float)i / 70;
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(70, 1), x},
                               {"y", TL_F32, TL_SHAPE(70, 1), x}};
    return tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                         .count = 2,
                                                         .copy = true,
                                                         .seed = input->seed,
                                                         .repeat = data->is_training.value,
                                                         .batch_size = data->global_batch_size});
}

static tl_status finite_step(tl_task *t, tl_step *s)
{
    tl_ctx *c = s->ctx;
    tl_tensors dict = {0};
    (void)t;
    tl_tensor *y = tl_step_forward(s, tl_batch_get(s->batch, "x"));
    tl_tensor *error =
        tl_mean(c, tl_square(c, tl_sub(c, tl_batch_get(s->batch, "y"), y)), TL_AXES(1), false);
    tl_tensors_put(c, &dict, "near_loss", error);
    tl_tensors_put(c, &dict, "far_loss", tl_affine(c, error, 3, 0.5));
    tl_tensors_put(c, &dict, "share", tl_affine(c, error, 0, 0.25));
    tl_step_minimize_dict(s, &dict, NULL);
    return tl_ctx_status(c);
}

static const tl_field no_fields[] = {TL_F_END};
static const tl_desc finite_desc = {
    .name = "finite_task",
    .help = "for tests",
    .size = sizeof(tl_task_config),
    .fields = no_fields,
    .base = &tl_task_config_desc,
};
static tl_task_class finite_task;

static void test_loss_dictionary_and_epochs(void **state)
{
    (void)state;
    const tl_class *mocked;
    assert_ok(tl_registry_find(&mocked, all, &tl_kind_task, "mock"));
    finite_task =
        (tl_task_class){.cls = *mocked, .build_inputs = finite_inputs, .train_step = finite_step};
    finite_task.cls.name = "finite";
    finite_task.cls.base = mocked;
    finite_task.cls.config = &finite_desc;
    static const tl_entry entries[] = {{&tl_kind_task, &finite_task.cls}};
    static const tl_module module = {TL_MODULE_HEAD("finite"), entries, 1};
    assert_ok(tl_registry_add(all, &module));
    // 3 epochs of 70 examples are 21 steps of 10.
    run("model._target_=finite train.train_epoch=3 train.evaluation.enabled=false "
        "train.checkpointer.save_model_after_n_epoch=1",
        (tl_default_trainer_args){0});
    assert_files("out/ckpt-*",
                 "out/ckpt-14.safetensors out/ckpt-21.safetensors out/ckpt-7.safetensors");
    json_t *step = last_line("out/metrics.json", 0);
    double near = json_number_value(json_object_get(step, "near_loss"));
    double far = json_number_value(json_object_get(step, "far_loss"));
    assert_true(near > 0);
    assert_near(far, 3 * near + 0.5, 1e-5);
    assert_near(json_number_value(json_object_get(step, "total_loss")), near + far, 1e-5);
    assert_near(json_number_value(json_object_get(step, "share")), 0.25, 0);
    json_decref(step);
}

/* --- an evaluator ----------------------------------------------------------------------------- */

typedef struct counting {
    tl_evaluator base;
    int64_t batches, predictions;
} counting;
static tl_status counting_update(tl_evaluator *e, const tl_tensors *groundtruths,
                                 const tl_tensors *predictions)
{
    (void)groundtruths;
    ((counting *)e)->batches++;
    ((counting *)e)->predictions += tl_tensors_peek(predictions, "counter") != NULL;
    return TL_OK;
}
static tl_status counting_result(tl_evaluator *e, tl_logs *into)
{
    TL_TRY(tl_logs_put(into, "predictions", (double)((counting *)e)->predictions));
    return tl_logs_put(into, "batches", (double)((counting *)e)->batches);
}
static void counting_reset(tl_evaluator *e)
{
    ((counting *)e)->batches = ((counting *)e)->predictions = 0;
}
static const tl_evaluator_class counting_class = {
    .cls = TL_CLASS(tl_evaluator_class, "counting", NULL, counting, NULL),
    .update = counting_update,
    .result = counting_result,
    .reset = counting_reset,
};
static tl_status build_counting(tl_default_trainer *t, tl_evaluator **out)
{
    (void)t;
    return tl_evaluator_new(out, &counting_class, NULL, NULL);
}
static tl_status double_test(tl_default_trainer *t, tl_logs *results)
{
    TL_TRY(tl_base_default_trainer.test(t, results));
    return tl_logs_put(results, "twice", 2 * tl_logs_number_or(results, "batches", -1));
}
static const tl_default_trainer_class evaluating = {
    .cls = TL_CLASS(tl_default_trainer_class, "evaluating", &tl_base_default_trainer.cls,
                    tl_default_trainer, NULL),
    .build_evaluator = build_counting,
    .test = double_test,
};

static void test_evaluators_and_tests_of_ones_own(void **state)
{
    (void)state;
    tl_logs *results = run_with("", (tl_default_trainer_args){.cls = &evaluating});
    assert_near(tl_logs_number_or(results, "batches", -1), 4, 0);
    assert_near(tl_logs_number_or(results, "predictions", -1), 4, 0);
    assert_near(tl_logs_number_or(results, "twice", -1), 8, 0);
    tl_logs_free(&results);
    json_t *end = last_line("out/metrics.json", 0);
    assert_near(json_number_value(json_object_get(end, "twice")), 8, 0);
    json_decref(end);
}

/* --- train_net -------------------------------------------------------------------------------- */

static pid_t start_net(char *const *more)
{
    char *argv[16] = {"tilth", "train_net", "--config-file", "mock.yaml", "--log_dir=logs"};
    int argc = 5;
    while (*more) argv[argc++] = *more++;
    pid_t child = fork();
    if (child == 0) {
        execv(TILTH_PROGRAM, argv);
        _exit(99);
    }
    return child;
}

static int finish_net(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int train_net(char *const *more)
{
    return finish_net(start_net(more));
}
#define TRAIN_NET(...) train_net((char *const[]){__VA_ARGS__, NULL})

static void test_command(void **state)
{
    (void)state;
    toy_put("mock.yaml", mock);
    assert_int_equal(TRAIN_NET("--fast-dev-run", "optim.lr=0.25"), 0);
    assert_iterations("out/metrics.json", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20");
    char *config = toy_read("out/config.yaml"); // as it was used
    assert_non_null(strstr(config, "train_iter: 20\n"));
    assert_non_null(strstr(config, "lr: 0.25\n"));
    assert_non_null(strstr(config, "global_batch_size: 10\n"));
    tl_free(config);
    char *log = toy_read("out/log.txt");
    assert_non_null(strstr(log, "iteration: 19/20  consumed_samples: 200"));
    tl_free(log);
    assert_int_equal(TRAIN_NET("--resume", "--eval-only"), 0);
    assert_int_equal(TRAIN_NET("--eval-only"), 2);
    assert_int_equal(TRAIN_NET("train.no_such_key=1"), 2);
    assert_int_equal(TRAIN_NET("--config-file=" TEST_DATA "/../examples/mock.yaml",
                               "tilth.jit=false", "tilth.threads=1", "--train.output_dir=shipped"),
                     0);
    assert_files(
        "shipped/ckpt*",
        "shipped/ckpt-100.safetensors shipped/ckpt-150.safetensors shipped/ckpt-200.safetensors");
    // What was written down gives the same run.
    assert_int_equal(TRAIN_NET("--config-file=out/config.yaml", "--train.output_dir=again"), 0);
    assert_same_file("again/ckpt-20.safetensors", "out/ckpt-20.safetensors");
}

static void test_signal_saves_and_ends(void **state)
{
    (void)state;
    toy_put("mock.yaml", mock);
    pid_t child = start_net((char *const[]){"train.train_iter=1000000000", "train.log_period=1",
                                            "train.evaluation.enabled=false", NULL});
    for (int i = 0; i < 6000 && !tl_file_exists("out/last_checkpoint"); i++) usleep(10000);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(finish_net(child), 3);
    char *last = toy_read("out/last_checkpoint");
    int64_t step;
    assert_ok(tl_libai_next_iter(&step, last));
    assert_true(step > 0);
    tl_free(last);
    assert_files("out/model_final*", "");
}

/* --- memory ----------------------------------------------------------------------------------- */

static void test_no_memory_leaks_nothing(void **state)
{
    (void)state;
    tl_config *c = config_of(mock, "train.log_period=1 train.train_iter=2");
    assert_ok(tl_config_finish(c));
    int64_t failed = 0, before = tl_alloc_calls();
    tl_default_trainer *t = NULL;
    assert_ok(open_run(&t, c, (tl_default_trainer_args){0}));
    tl_default_trainer_free(&t);
    int64_t calls = tl_alloc_calls() - before;
    for (int64_t nth = 1; nth <= calls; nth += 1 + nth / 20) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = open_run(&t, c, (tl_default_trainer_args){0});
        tl_alloc_fail_at(0, 0);
        // Messages and caches do without; everything else says so.
        assert_true(st == TL_OK || st == TL_ENOMEM);
        failed += st != TL_OK;
        tl_default_trainer_free(&t);
    }
    assert_true(failed > 40);
    tl_config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBAI_TEST(test_run_writes_what_libai_writes),
        LIBAI_TEST(test_resumed_run_ends_with_the_same_bits),
        LIBAI_TEST(test_evaluation_that_was_cut_off),
        LIBAI_TEST(test_new_run_moves_the_old_one_aside),
        LIBAI_TEST(test_eval_only),
        LIBAI_TEST(test_load_weight_starts_a_new_run),
        LIBAI_TEST(test_fast_dev_run),
        LIBAI_TEST(test_pieces_are_overridden_alone),
        LIBAI_TEST(test_accumulation),
        LIBAI_TEST(test_epochs_are_as_long_as_the_data),
        LIBAI_TEST(test_loaders_take_samplers),
        LIBAI_TEST(test_one_process_has_all_of_the_model),
        LIBAI_TEST(test_half_precision_and_recomputation),
        LIBAI_TEST(test_loss_dictionary_and_epochs),
        LIBAI_TEST(test_evaluators_and_tests_of_ones_own),
        LIBAI_TEST(test_command),
        LIBAI_TEST(test_signal_saves_and_ends),
        LIBAI_TEST(test_no_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
