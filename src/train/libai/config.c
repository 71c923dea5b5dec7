#include <tilth/train/libai/libai.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/comm/layout.h>
#include <tilth/core/lanes.h>

#include "train/libai/libai.h"

/* What LiBai has, and only several devices or its engine can use. */
#define LATER(T, member, ...) TL_F(T, member, .flags = TL_FIELD_LATER, .help = __VA_ARGS__)
#define UNREAD(T, member, ...) TL_F(T, member, .flags = TL_FIELD_UNREAD, .help = __VA_ARGS__)
#define DESC(label, ...)                                                                           \
    const tl_desc tl_libai_##label##_config_desc = {.name = #label,                                \
                                                    .size = sizeof(tl_libai_##label##_config),     \
                                                    .fields = label##_fields,                      \
                                                    .help = __VA_ARGS__}

/* --- train ------------------------------------------------------------------------------------ */

static const tl_field switch_fields[] = {
    TL_F(tl_libai_switch, enabled, .help = "whether it is used"),
    TL_F_END,
};
static const tl_desc switch_desc = {
    .name = "switch",
    .help = "on or off",
    .size = sizeof(tl_libai_switch),
    .fields = switch_fields,
};
static const tl_field later_switch_fields[] = {
    LATER(tl_libai_switch, enabled, "whether it is used"),
    TL_F_END,
};
static const tl_desc later_switch_desc = {
    .name = "switch",
    .help = "on or off",
    .size = sizeof(tl_libai_switch),
    .fields = later_switch_fields,
};

static const tl_field zero_fields[] = {
    TL_F(tl_libai_zero_config, enabled,
         .help = "share the optimizer's state between processes, as tilth.zero does; one process "
                 "has all of it"),
    TL_F(tl_libai_zero_config, stage, .i = 1, TL_RANGE(1, 3),
         .help = "what is shared: 1, 2 or 3, the values of tilth.zero"),
    TL_F_END,
};
static DESC(zero, "sharing of the optimizer's state");

static const tl_field checkpointer_fields[] = {
    TL_F(tl_libai_checkpointer_config, period, .i = 5000, TL_AT_LEAST(1),
         .help = "steps between two checkpoints"),
    TL_F(tl_libai_checkpointer_config, max_to_keep, .set = true, .i = 100, TL_AT_LEAST(1),
         .help = "newest checkpoints that are kept; null keeps all"),
    TL_F(tl_libai_checkpointer_config, save_model_after_n_epoch, TL_AT_LEAST(0),
         .help = "epochs between two checkpoints, in place of period; null or 0: period"),
    TL_F_END,
};
static DESC(checkpointer, "when checkpoints are saved");

static const char *const modes[] = {[TL_LIBAI_MAX] = "max", [TL_LIBAI_MIN] = "min", NULL};
static const tl_field evaluation_fields[] = {
    TL_F(tl_libai_evaluation_config, enabled, .b = true, .help = "evaluate while it trains"),
    TL_F(tl_libai_evaluation_config, evaluator, .accept = TL_ACCEPT_MAP, .flags = TL_FIELD_NULLABLE,
         .help = "what is told beside the task's own metrics: ClsEvaluator, with topk, tells Acc@1 "
                 "and so on, in percent; a program may build others in C"),
    TL_F(tl_libai_evaluation_config, eval_period, .i = 5000,
         .help = "steps between two evaluations; 0 for one at the end"),
    TL_F(tl_libai_evaluation_config, eval_after_n_epoch, TL_AT_LEAST(0),
         .help = "epochs between two evaluations, in place of eval_period; null or 0: eval_period"),
    TL_F(tl_libai_evaluation_config, eval_iter, .i = 100000, TL_AT_LEAST(1),
         .help = "batches of an evaluation, at most"),
    TL_F(tl_libai_evaluation_config, eval_metric, .s = "Acc@1",
         .help = "metric of the evaluations that says which checkpoint is model_best"),
    TL_F(tl_libai_evaluation_config, eval_mode, .names = modes,
         .help = "whether the greatest or the least is best: max or min"),
    TL_F_END,
};
static DESC(evaluation, "when the model is evaluated");

static const char *const warmups[] = {
    [TL_LIBAI_LINEAR] = "linear",
    [TL_LIBAI_CONSTANT] = "constant",
    NULL,
};
static const tl_field scheduler_fields[] = {
    TL_F_AS(tl_libai_scheduler_config, target, "_target_", .s = "WarmupCosineLR",
            .help = "WarmupCosineLR, WarmupCosineAnnealingLR, WarmupStepLR, WarmupMultiStepLR, "
                    "WarmupExponentialLR or WarmupPolynomialLR"),
    TL_F(tl_libai_scheduler_config, warmup_factor, .d = 0.001, TL_RANGE(0, 1),
         .help = "share of the learning rate with which the warm-up starts"),
    TL_F(tl_libai_scheduler_config, warmup_method, .names = warmups,
         .help = "linear: a line to what the schedule gives at warmup_iter; constant: "
                 "warmup_factor until then"),
    TL_F(tl_libai_scheduler_config, warmup_iter, TL_AT_LEAST(0),
         .help = "steps of the warm-up, unless warmup_ratio gives them; null for none"),
    TL_F(tl_libai_scheduler_config, max_iter, TL_AT_LEAST(1),
         .help = "steps of the schedule; null: train_iter"),
    TL_F(tl_libai_scheduler_config, alpha, .d = 0.01, TL_AT_LEAST(0),
         .help = "share of the learning rate that is left at the end (WarmupCosineLR)"),
    TL_F(tl_libai_scheduler_config, eta_min, TL_AT_LEAST(0),
         .help = "least learning rate (WarmupCosineAnnealingLR); null: 0"),
    TL_F(tl_libai_scheduler_config, step_size, TL_AT_LEAST(1),
         .help = "steps between two falls (WarmupStepLR)"),
    TL_F(tl_libai_scheduler_config, milestones, .flags = TL_FIELD_NULLABLE,
         .help =
             "when it falls, as shares of train_iter from 0 to less than 1 (WarmupMultiStepLR)"),
    TL_F(tl_libai_scheduler_config, gamma, TL_AT_LEAST(0),
         .help = "factor of each fall (null: 0.1), or of each step (WarmupExponentialLR)"),
    TL_F(tl_libai_scheduler_config, end_learning_rate, TL_AT_LEAST(0),
         .help = "learning rate at the end (WarmupPolynomialLR); null: 1e-4"),
    TL_F(tl_libai_scheduler_config, power,
         .help = "1 for a straight line (WarmupPolynomialLR); null: 1"),
    TL_F(tl_libai_scheduler_config, cycle,
         .help = "begin anew when it is over (WarmupPolynomialLR)"),
    TL_F_END,
};
DESC(scheduler, "the learning rate as a function of the steps done",
     .check = tli_libai_check_scheduler);

static const tl_field dist_fields[] = {
    TL_F(tl_libai_dist_config, data_parallel_size, .i = 1, TL_AT_LEAST(1),
         .help = "copies of the model; there are as many as tilth.lanes says, or as processes"),
    TL_F(tl_libai_dist_config, tensor_parallel_size, .i = 1, TL_AT_LEAST(1),
         .help = "processes that share a layer; several cannot yet, and one is 1"),
    TL_F(tl_libai_dist_config, pipeline_parallel_size, .i = 1, TL_AT_LEAST(1),
         .help = "stages that the layers are divided among; several processes cannot yet, and one "
                 "is 1"),
    TL_F(tl_libai_dist_config, pipeline_num_layers, TL_AT_LEAST(1),
         .help = "layers to be divided; needed with several stages"),
    TL_F(tl_libai_dist_config, custom_pipeline_stage_id, .flags = TL_FIELD_NULLABLE,
         .help = "the stage of each layer, from 0; null divides them evenly"),
    TL_F(tl_libai_dist_config, device_type, .flags = TL_FIELD_UNREAD | TL_FIELD_NULLABLE,
         .help = "training runs on the processors of this machine"),
    TL_F_END,
};
/* What an assignment says must fit what it is written beside; the rest depends on how many
 * processes there are. */
static tl_status check_dist(const void *value)
{
    const tl_libai_dist_config *d = value;
    if (!d->custom_pipeline_stage_id.items) return TL_OK;
    if (!d->pipeline_num_layers.set)
        return TL_FAIL(TL_EINVAL, "pipeline_num_layers: must be set where custom_pipeline_stage_id "
                                  "is, it is null");
    return tl_layout_check_stages(d->custom_pipeline_stage_id.items,
                                  d->custom_pipeline_stage_id.count, d->pipeline_num_layers.value,
                                  d->pipeline_parallel_size);
}
static DESC(dist, "several processes", .check = check_dist);

static const tl_field train_fields[] = {
    TL_F(tl_libai_train_config, output_dir, .s = "./output", .flags = TL_FIELD_PATH,
         .help = "folder for checkpoints, metrics, event files, log.txt and config.yaml"),
    TL_F(tl_libai_train_config, train_micro_batch_size, .set = true, .i = 32, TL_AT_LEAST(1),
         .help = "examples that are computed at once; null: from the other two"),
    TL_F(tl_libai_train_config, global_batch_size, TL_AT_LEAST(1),
         .help = "examples of a step; null: from the other two"),
    TL_F(tl_libai_train_config, num_accumulation_steps, TL_AT_LEAST(1),
         .help = "batches whose gradients make one step; null: from the other two, or 1"),
    TL_F(tl_libai_train_config, train_iter, .i = 10000, TL_AT_LEAST(0),
         .help = "steps to train, at least: train_epoch may make it more"),
    TL_F(tl_libai_train_config, train_epoch, TL_AT_LEAST(0),
         .help = "passes over the data to train; train_iter is what counts when it is more"),
    UNREAD(tl_libai_train_config, consumed_train_samples,
           "the position in the data is in checkpoints"),
    UNREAD(tl_libai_train_config, consumed_valid_samples, "evaluations begin at the first example"),
    UNREAD(tl_libai_train_config, train_samples, "train_iter and train_epoch say how long"),
    TL_F(tl_libai_train_config, warmup_ratio,
         .help = "share of train_iter that is warm-up; 0: warmup_iter of "
                 "the scheduler"),
    UNREAD(tl_libai_train_config, start_iter, "where a run goes on is in its checkpoint"),
    TL_F(tl_libai_train_config, resume,
         .help = "go on with the run in output_dir, if there is one"),
    TL_F_STRUCT(tl_libai_train_config, amp, &switch_desc,
                .help = "compute in float16 with a scaled loss, weights staying float32"),
    TL_F_STRUCT(tl_libai_train_config, activation_checkpoint, &switch_desc,
                .help = "compute again in the backward pass what is cheap, instead of keeping it"),
    TL_F(tl_libai_train_config, nccl_fusion_threshold_mb, .i = 16, TL_AT_LEAST(0),
         .help = "megabytes of gradients that travel between processes at a time, at most; 0: 25. "
                 "Results do not depend on it"),
    TL_F(tl_libai_train_config, nccl_fusion_max_ops, .i = 24, TL_AT_LEAST(0),
         .help = "parameters whose gradients travel together, at most; 0: any number. Results do "
                 "not depend on it"),
    TL_F_STRUCT(tl_libai_train_config, zero_optimization, &tl_libai_zero_config_desc,
                .help = "sharing of the optimizer's state between processes"),
    TL_F_STRUCT(tl_libai_train_config, checkpointer, &tl_libai_checkpointer_config_desc,
                .help = "when checkpoints are saved"),
    TL_F(tl_libai_train_config, test_micro_batch_size, .i = 32, TL_AT_LEAST(1),
         .help = "examples of a batch in evaluations"),
    TL_F_STRUCT(tl_libai_train_config, evaluation, &tl_libai_evaluation_config_desc,
                .help = "when the model is evaluated"),
    TL_F(tl_libai_train_config, load_weight, .flags = TL_FIELD_PATH,
         .help = "checkpoint, folder of checkpoints or weights, from which a new run starts"),
    TL_F(tl_libai_train_config, log_period, .i = 20, TL_AT_LEAST(1),
         .help = "steps between two lines"),
    TL_F_STRUCT(tl_libai_train_config, scheduler, &tl_libai_scheduler_config_desc,
                .help = "the learning rate as a function of the steps done"),
    TL_F_STRUCT(tl_libai_train_config, dist, &tl_libai_dist_config_desc,
                .help = "several processes"),
    UNREAD(tl_libai_train_config, input_placement_device, "batches are where they are computed",
           .s = "cuda"),
    UNREAD(tl_libai_train_config, rdma_enabled, "how machines talk to each other", .b = true),
    TL_F(tl_libai_train_config, seed, .i = 1234, .help = "seed of weights, dropout and data"),
    TL_F_END,
};
static tl_status check_train(const void *value)
{
    const tl_libai_train_config *t = value;
    if (!(t->warmup_ratio >= 0 && t->warmup_ratio < 1))
        return TL_FAIL(TL_EINVAL, "warmup_ratio: must be 0 or more and less than 1, found %g",
                       t->warmup_ratio);
    if (!*t->output_dir) return TL_FAIL(TL_EINVAL, "output_dir: must be set, it is empty");
    return TL_OK;
}
DESC(train, "how long, how often, and where to", .check = check_train);

/* --- optim ------------------------------------------------------------------------------------ */

static const char *const clips[] = {
    [TL_LIBAI_CLIP_GLOBAL] = "global",
    [TL_LIBAI_CLIP_GROUP] = "group",
    [TL_LIBAI_CLIP_PARAM] = "param",
    NULL,
};
static const tl_field params_fields[] = {
    TL_F_AS(tl_libai_params_config, target, "_target_", .s = "get_default_optimizer_params",
            .flags = TL_FIELD_UNREAD, .help = "the rules are those of the keys beside it"),
    TL_F(tl_libai_params_config, clip_grad_max_norm, .set = true, .d = 1, TL_AT_LEAST(0),
         .help = "largest norm of gradients; null for any"),
    TL_F(tl_libai_params_config, clip_grad_norm_type, .d = 2, TL_AT_LEAST(1),
         .help = "of that norm: 1 or more, .inf for the greatest magnitude; other than 2 with "
                 "clip_grad_mode group "
                 "alone"),
    TL_F(tl_libai_params_config, clip_grad_mode, .names = clips,
         .help = "whose norm: global (all gradients together), group (each group's, as in LiBai) "
                 "or param (each "
                 "parameter's)"),
    TL_F(tl_libai_params_config, weight_decay_norm, .set = true, .d = 0, TL_AT_LEAST(0),
         .help = "weight decay of layers that normalize; null: weight_decay"),
    TL_F(tl_libai_params_config, weight_decay_bias, .set = true, .d = 0, TL_AT_LEAST(0),
         .help = "weight decay of parameters called bias; null: weight_decay"),
    TL_F(tl_libai_params_config, overrides, .accept = TL_ACCEPT_MAP, .flags = TL_FIELD_NULLABLE,
         .help = "lr and weight_decay of parameters by the last part of their paths: {pos_embed: "
                 "{weight_decay: 0}}"),
    TL_F_END,
};
static DESC(params, "which parameters are updated differently", .check = tli_libai_check_params);

static const double usual_betas[] = {0.9, 0.999};
static const tl_field optim_fields[] = {
    TL_F_AS(tl_libai_optim_config, target, "_target_", .s = "AdamW",
            .help = "AdamW, Adam, SGD or LAMB"),
    TL_F(tl_libai_optim_config, lr, .d = 1e-4, TL_AT_LEAST(0),
         .help = "learning rate; the scheduler makes less of it"),
    TL_F(tl_libai_optim_config, weight_decay, .d = 0.01, TL_AT_LEAST(0),
         .help = "weight decay; 0 for none"),
    TL_F(tl_libai_optim_config, betas, .items = usual_betas, .count = 2, TL_RANGE(0, 1),
         .help = "decays of the averages of gradients and of their squares"),
    TL_F(tl_libai_optim_config, eps, .d = 1e-8, TL_AT_LEAST(0),
         .help = "keeps divisions away from 0"),
    LATER(tl_libai_optim_config, do_bias_correction, "correct averages for their beginning at 0",
          .b = true),
    TL_F(tl_libai_optim_config, amsgrad,
         .help = "divide by the largest average of squares so far (AdamW, Adam); null: false"),
    TL_F(tl_libai_optim_config, momentum, TL_RANGE(0, 1),
         .help = "share of the last update that is kept (SGD); null: 0"),
    TL_F(tl_libai_optim_config, nesterov,
         .help = "look ahead along the momentum (SGD); null: false"),
    TL_F_STRUCT(tl_libai_optim_config, params, &tl_libai_params_config_desc,
                .help = "which parameters are updated differently"),
    TL_F_END,
};
DESC(optim, "how gradients change the weights", .check = tli_libai_check_optim);

/* --- graph ------------------------------------------------------------------------------------ */

static const tl_field auto_parallel_fields[] = {
    LATER(tl_libai_auto_parallel_config, enabled, "let the library divide the model among devices"),
    UNREAD(tl_libai_auto_parallel_config, enable_auto_parallel_ignore_user_sbp_config,
           "how it divides"),
    UNREAD(tl_libai_auto_parallel_config, trunk_algo, "how it divides", .b = true),
    UNREAD(tl_libai_auto_parallel_config, sbp_collector, "how it divides"),
    TL_F_END,
};
static DESC(auto_parallel, "models that the library divides");

#define GRAPH_ROW(member)                                                                          \
    TL_F(tl_libai_graph_config, member, .accept = TL_ACCEPT_MAP,                                   \
         .flags = TL_FIELD_UNREAD | TL_FIELD_NULLABLE, .help = "the step is captured as it is")
static const tl_field graph_fields[] = {
    TL_F(tl_libai_graph_config, enabled, .b = true,
         .help = "run the step as one program; false runs it operation by operation"),
    LATER(tl_libai_graph_config, debug, "tell of the program; `tilth explain` does", .i = -1),
    TL_F_STRUCT(tl_libai_graph_config, auto_parallel, &tl_libai_auto_parallel_config_desc,
                .help = "models that the library divides"),
    GRAPH_ROW(train_graph),
    GRAPH_ROW(eval_graph),
    TL_F_STRUCT(tl_libai_graph_config, global_mode, &later_switch_desc,
                .help = "tensors that are on several devices"),
    TL_F_END,
};
DESC(graph, "whether the step is one program");

/* --- the whole -------------------------------------------------------------------------------- */

static const tl_field own_fields[] = {
    TL_F(tl_libai_own_config, device, .flags = TL_FIELD_NULLABLE | TL_FIELD_UNSAVED,
         .help = "what to compute on, as `tilth devices` lists it: cpu, cuda, cuda:1; null is what "
                 "TILTH_DEVICE says, else cpu. It is not kept with the run"),
    TL_F(tl_libai_own_config, threads, TL_AT_LEAST(0), .flags = TL_FIELD_QUIET,
         .help = "threads to compute with; 0 for one on each processor"),
    TL_F(tl_libai_own_config, lanes, .i = 1, TL_RANGE(1, TL_LANES_MAX), .flags = TL_FIELD_QUIET,
         .help =
             "copies of the model, each with its part of every batch: what data_parallel_size "
             "comes to. A new run that does not say has as many as processes; results depend on "
             "lanes, and not on processes"),
    TL_F(tl_libai_own_config, jit, .b = true, .flags = TL_FIELD_QUIET,
         .help = "compile fused kernels with the system's compiler; false interprets them, with "
                 "the same results"),
    TL_F(tl_libai_own_config, train_examples, TL_AT_LEAST(1), .flags = TL_FIELD_QUIET,
         .help = "examples of an epoch; null asks the data, which may not know the number"),
    TL_F(tl_libai_own_config, peak_tflops, TL_AT_LEAST(0), .flags = TL_FIELD_QUIET,
         .help = "what the machine can do at most, in 10^12 operations a second, of which `mfu` is "
                 "the share; 0 leaves that out"),
    TL_F(tl_libai_own_config, survive_write_failures, .flags = TL_FIELD_QUIET,
         .help =
             "train on when a checkpoint or a line of metrics cannot be written (a full disk), and "
             "try again at the next one; false ends the run. The last checkpoint must be written"),
    TL_F(tl_libai_own_config, notify, .flags = TL_FIELD_NULLABLE | TL_FIELD_UNSAVED,
         .help = "shell command that gets each event of metrics.jsonl, a line of JSON, on its "
                 "standard input; it is not kept with the run, nor taken from the folder of one"),
    TL_F(tl_libai_own_config, checkpoint_minutes, TL_AT_LEAST(0), .flags = TL_FIELD_QUIET,
         .help = "save a checkpoint also when so many minutes have passed since the last one; only "
                 "the newest of these is kept, until the next checkpoint. 0 saves none by time"),
    TL_F(tl_libai_own_config, checkpoint_shards, .i = 1, TL_RANGE(1, 1024), .flags = TL_FIELD_QUIET,
         .help = "files that a checkpoint is divided into, with an index that names them; 1 writes "
                 "one file"),
    TL_F_END,
};
static const tl_desc own_desc = {
    .name = "tilth",
    .help = "what LiBai does not have",
    .size = sizeof(tl_libai_own_config),
    .fields = own_fields,
};

static const tl_field test_fields[] = {
    TL_F(tl_libai_test_config, name, .help = "its results are told below this name"),
    TL_F(tl_libai_test_config, data, .accept = TL_ACCEPT_MAP, .flags = TL_FIELD_NULLABLE,
         .help = "the keys of validation_data of the task"),
    TL_F_END,
};
static const tl_desc test_desc = {
    .name = "test",
    .help = "a test loader",
    .size = sizeof(tl_libai_test_config),
    .fields = test_fields,
};

static const tl_field config_fields[] = {
    TL_F(tl_libai_config, task, .kind = &tl_kind_task,
         .help = "what is learned: model, data, losses and metrics; LiBai's `model` and "
                 "`dataloader` say it too"),
    TL_F(tl_libai_config, tests, .desc = &test_desc, .flags = TL_FIELD_QUIET,
         .help = "what is evaluated beside validation_data of the task: the second and later test "
                 "loaders of `dataloader`"),
    TL_F_STRUCT(tl_libai_config, train, &tl_libai_train_config_desc,
                .help = "how long, how often, and where to"),
    TL_F_STRUCT(tl_libai_config, optim, &tl_libai_optim_config_desc,
                .help = "how gradients change the weights"),
    TL_F_STRUCT(tl_libai_config, graph, &tl_libai_graph_config_desc,
                .help = "whether the step is one program"),
    TL_F_STRUCT(tl_libai_config, tilth, &own_desc, .flags = TL_FIELD_QUIET,
                .help = "what LiBai does not have"),
    TL_F_END,
};
static tl_status check_config(const void *value)
{
    const tl_libai_config *c = value;
    tl_libai_train_config train = c->train;
    TL_TRY_NOTE(tl_libai_resolve_batch(&train, c->tilth.lanes), "train");
    if (c->train.activation_checkpoint.enabled && !c->graph.enabled)
        return TL_FAIL(TL_EINVAL, "train.activation_checkpoint.enabled: only a program can compute "
                                  "again; set graph.enabled, or leave it off");
    if (c->task.type) return TL_OK;
    return TL_FAIL(
        TL_EINVAL,
        "task: nothing says what is learned: set model._target_ (or task.type) to the name of "
        "a task; the command `list tasks` shows the names");
}
const tl_desc tl_libai_config_desc = {
    .name = "libai",
    .help = "task, training, optimizer and graph in LiBai's words",
    .size = sizeof(tl_libai_config),
    .fields = config_fields,
    .check = check_config,
};
