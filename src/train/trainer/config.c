#include <tilth/train/experiment.h>

#include <inttypes.h>

#include <tilth/core/lanes.h>

static const char *const comparisons[] = {
    [TL_METRIC_HIGHER] = "higher",
    [TL_METRIC_LOWER] = "lower",
    NULL,
};
static const char *const recomputations[] = {
    [TL_RECOMPUTE_NONE] = "none",
    [TL_RECOMPUTE_SELECTIVE] = "selective",
    [TL_RECOMPUTE_FULL] = "full",
    NULL,
};

static const tl_field trainer_fields[] = {
    TL_F_STRUCT(tl_trainer_config, optimizer_config, &tl_optimization_config_desc,
                .help = "optimizer, learning rate, warm-up and weight averaging"),
    TL_F(tl_trainer_config, train_tf_function, .b = true,
         .help = "train with the step as one program; false runs it operation by operation"),
    TL_F(tl_trainer_config, train_tf_while_loop, .b = true,
         .help = "keep the loop over steps off the host; where it runs changes no result"),
    TL_F(tl_trainer_config, eval_tf_function, .b = true,
         .help = "evaluate with the step as one program; false runs it operation by operation"),
    TL_F(tl_trainer_config, eval_tf_while_loop,
         .help = "keep the loop over evaluation steps off the host; changes no result"),
    TL_F(tl_trainer_config, allow_tpu_summary, .flags = TL_FIELD_LATER,
         .help = "summaries from inside a program on TPUs; elsewhere they need no permission"),
    TL_F(tl_trainer_config, steps_per_loop, .i = 1000, TL_AT_LEAST(1),
         .help = "steps between two reports of training metrics"),
    TL_F(tl_trainer_config, summary_interval, .i = 1000, TL_AT_LEAST(1),
         .help = "steps between two summaries from inside the step; a multiple of steps_per_loop"),
    TL_F(tl_trainer_config, checkpoint_interval, .i = 1000, TL_AT_LEAST(1),
         .help = "steps between two checkpoints"),
    TL_F(tl_trainer_config, max_to_keep, .set = true, .i = 5, TL_AT_LEAST(1),
         .help = "newest checkpoints that are kept; null keeps all"),
    TL_F(tl_trainer_config, continuous_eval_timeout, .set = true, .i = 3600, TL_AT_LEAST(0),
         .help = "seconds that continuous_eval waits for the next checkpoint; null waits for ever"),
    TL_F(tl_trainer_config, train_steps, TL_AT_LEAST(0), .help = "step at which training ends"),
    TL_F(tl_trainer_config, validation_steps, .i = -1, TL_AT_LEAST(-1),
         .help = "steps of an evaluation; -1 for all examples"),
    TL_F(tl_trainer_config, validation_interval, .i = 1000, TL_AT_LEAST(0),
         .help = "training steps between two evaluations; 0 for one at the end"),
    TL_F(tl_trainer_config, best_checkpoint_export_subdir, .flags = TL_FIELD_INSIDE,
         .help = "folder in the model's folder for the best checkpoint; empty keeps none"),
    TL_F(tl_trainer_config, best_checkpoint_eval_metric,
         .help = "metric that says which checkpoint is best; a|b for b in a"),
    TL_F(tl_trainer_config, best_checkpoint_metric_comp, .names = comparisons,
         .help = "whether a higher or a lower metric is better"),
    TL_F(tl_trainer_config, loss_upper_bound, .d = 1e6,
         .help = "a training loss above this, or one that is not a number, counts as blown up"),
    TL_F(tl_trainer_config, recovery_begin_steps, TL_AT_LEAST(0),
         .help = "step from which loss_upper_bound holds"),
    TL_F(tl_trainer_config, recovery_max_trials,
         .help = "how often to go back to the last checkpoint when the loss has blown up, before "
                 "giving up; negative never looks"),
    TL_F(tl_trainer_config, validation_summary_subdir, .s = "validation", .flags = TL_FIELD_INSIDE,
         .help = "folder in the model's folder for summaries of evaluations"),
    TL_F(
        tl_trainer_config, preemption_on_demand_checkpoint, .b = true,
        .help =
            "save a checkpoint when the system asks the process to end; false ends it without one"),
    TL_F_END,
};
/* An evaluation of nothing has no metrics, and would end the run when it comes. */
static tl_status check_trainer(const void *value)
{
    const tl_trainer_config *t = value;
    if (t->validation_steps != 0) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "validation_steps: must be at least 1, or -1 for all examples, found 0");
}
const tl_desc tl_trainer_config_desc = {
    .name = "trainer",
    .help = "how long and how often: steps, intervals, checkpoints, optimizer",
    .size = sizeof(tl_trainer_config),
    .fields = trainer_fields,
    .check = check_trainer,
};

/* --- tilth: ----------------------------------------------------------------------------------- */

static const tl_field early_stopping_fields[] = {
    TL_F(tl_early_stopping_config, metric, .s = "validation_loss",
         .help = "metric of the evaluations to watch; a|b for b in a"),
    TL_F(tl_early_stopping_config, comp, .names = comparisons, .i = TL_METRIC_LOWER,
         .help = "whether a higher or a lower metric is better"),
    TL_F(tl_early_stopping_config, patience, .i = 1, TL_AT_LEAST(1),
         .help = "evaluations without a better metric after which training ends"),
    TL_F(tl_early_stopping_config, min_delta, TL_AT_LEAST(0),
         .help = "smaller differences do not count as better"),
    TL_F_END,
};
const tl_desc tl_early_stopping_config_desc = {
    .name = "early_stopping",
    .help = "end when a metric stops getting better",
    .size = sizeof(tl_early_stopping_config),
    .fields = early_stopping_fields,
};

static const tl_field unfreeze_fields[] = {
    TL_F(tl_unfreeze_config, step, TL_AT_LEAST(0), .help = "the first step that trains them"),
    TL_F(tl_unfreeze_config, patterns,
         .help = "regular expressions of the paths of weights that are trained from then on"),
    TL_F_END,
};
const tl_desc tl_unfreeze_config_desc = {
    .name = "unfreeze",
    .help = "what is trained from a step on",
    .size = sizeof(tl_unfreeze_config),
    .fields = unfreeze_fields,
};

static const char *const transports[] = {
    [TL_TRANSPORT_AUTO] = "auto", [TL_TRANSPORT_SHM] = "shm", [TL_TRANSPORT_MPI] = "mpi", NULL};

/* Left out of params.yaml while untouched, so that Model Garden can read it. */
#define OWN_FLAGS .flags = TL_FIELD_QUIET

static const tl_field own_fields[] = {
    TL_F(tl_own_config, seed, OWN_FLAGS,
         .help = "seed of weights, dropout and data; null draws one and keeps it in checkpoints"),
    TL_F(tl_own_config, device, .flags = TL_FIELD_NULLABLE | TL_FIELD_UNSAVED,
         .help = "what to compute on, as `tilth devices` lists it: cpu, cuda, cuda:1; null is what "
                 "TILTH_DEVICE says, else what num_gpus says. It is not kept with the run"),
    TL_F(tl_own_config, threads, TL_AT_LEAST(0), OWN_FLAGS,
         .help = "threads to compute with; 0 for one on each processor"),
    TL_F(tl_own_config, jit, .b = true, OWN_FLAGS,
         .help = "compile fused kernels with the system's compiler; false interprets them, with "
                 "the same results"),
    TL_F(tl_own_config, gradient_accumulation, .i = 1, TL_AT_LEAST(1), OWN_FLAGS,
         .help = "batches whose gradients make one step"),
    TL_F(tl_own_config, lanes, .i = 1, TL_RANGE(1, TL_LANES_MAX), OWN_FLAGS,
         .help = "parts of each batch that are computed for themselves, as replicas do it: with "
                 "batch statistics and random numbers of their own. What a run computes depends on "
                 "its lanes, and not on how many processes carry them"),
    TL_F(tl_own_config, processes, .i = 1, TL_RANGE(1, TL_LANES_MAX), .flags = TL_FIELD_UNSAVED,
         .help = "processes that carry the lanes; `train` starts so many of this machine"),
    TL_F(tl_own_config, comm, .names = transports, .flags = TL_FIELD_UNSAVED,
         .help =
             "how processes exchange: auto, shm (memory that those of one machine share) or mpi; "
             "auto takes mpi where they are on several machines, or what TILTH_COMM says"),
    TL_F(tl_own_config, peer_timeout_s, .d = 120, TL_AT_LEAST(1), .flags = TL_FIELD_UNSAVED,
         .help = "seconds after which a process that others wait for counts as hanging, and ends "
                 "the run; five times that while it compiles, reads or writes"),
    TL_F(tl_own_config, bucket_mb, .d = 25, TL_AT_LEAST(0.0625), .flags = TL_FIELD_UNSAVED,
         .help = "megabytes of gradients, at most, that processes exchange at a time, the last "
                 "layers' first, while they compute the others; results do not depend on it"),
    TL_F(tl_own_config, zero, TL_RANGE(0, 3), .flags = TL_FIELD_UNSAVED,
         .help = "what processes share out instead of each having and updating all of it: 1 the "
                 "optimizer's state, 2 gradients too, 3 weights too; 0 nothing. Results do not "
                 "depend on it"),
    TL_F(tl_own_config, recompute, .names = recomputations, OWN_FLAGS,
         .help = "what the backward pass computes again instead of keeping it: none, selective "
                 "(cheap results) or full (all but what stretches of layers hand on; about half as "
                 "many operations more, for the least memory)"),
    TL_F_OPTIONAL(tl_own_config, early_stopping, &tl_early_stopping_config_desc, OWN_FLAGS,
                  .help = "end when a metric stops getting better; null trains to the end"),
    TL_F(tl_own_config, survive_write_failures, OWN_FLAGS,
         .help = "train on when a checkpoint or summary cannot be written (a full disk), and try "
                 "again at the next one; false ends the run. The last checkpoint must be written"),
    TL_F(tl_own_config, schedule_to_end, OWN_FLAGS,
         .help = "give the learning rate the length of the training: decay_steps of cosine and "
                 "polynomial (without cycle), total_decay_steps of power_linear and total_steps of "
                 "stable_decay become train_steps less offset. Warm-ups stay"),
    TL_F(tl_own_config, notify, .flags = TL_FIELD_NULLABLE | TL_FIELD_UNSAVED,
         .help = "shell command that gets each event of metrics.jsonl, a line of JSON, on its "
                 "standard input; it is not kept with the run, nor taken from the folder of one"),
    TL_F(tl_own_config, checkpoint_minutes, TL_AT_LEAST(0), OWN_FLAGS,
         .help = "save a checkpoint also when so many minutes have passed since the last one; only "
                 "the newest of these is kept, until the next checkpoint. 0 saves none by time"),
    TL_F(tl_own_config, checkpoint_shards, .i = 1, TL_RANGE(1, 1024), OWN_FLAGS,
         .help = "files that a checkpoint of the run is divided into, with an index that names "
                 "them; 1 writes one file. `tilth ckpt merge` makes one of them again, and the "
                 "best checkpoint is always one"),
    TL_F(tl_own_config, gradient_noise_scale, OWN_FLAGS,
         .help = "tell the batch size, in examples (or tokens, where these have losses), beyond "
                 "which larger batches save few steps; "
                 "estimated from the batches of gradient_accumulation, of which there must be "
                 "several"),
    TL_F(tl_own_config, unfreeze, .desc = &tl_unfreeze_config_desc, OWN_FLAGS,
         .help =
             "train more and more of the model: what matches patterns is trained from a step "
             "on, and until then has no gradients, slots that stay as they are, and batch norms "
             "that keep their statistics. What matches none is not trained"),
    TL_F(tl_own_config, layer_decay, .d = 1, OWN_FLAGS,
         .help = "factor of the learning rate from each layer of a transformer to the one below "
                 "it; what stands behind the layers has the whole rate"),
    TL_F(tl_own_config, init_resize, OWN_FLAGS,
         .help = "regular expressions of weights that task.init_checkpoint may have with another "
                 "size along one axis (words, classes): what both have is taken, the rest is new"),
    TL_F(tl_own_config, init_leave, OWN_FLAGS,
         .help = "regular expressions of weights that are not taken from task.init_checkpoint"),
    TL_F_END,
};

static tl_status check_unfreeze(const tl_own_config *own)
{
    const tl_unfreeze_config *all = own->unfreeze.items;
    for (int64_t i = 0; i < own->unfreeze.count; i++) {
        if (!all[i].patterns.count)
            return TL_FAIL(TL_EINVAL, "unfreeze: entry %" PRId64 " has no patterns", i);
        if (i ? all[i].step > all[i - 1].step : all[i].step == 0) continue;
        return TL_FAIL(TL_EINVAL,
                       "unfreeze: the first step must be 0, and each one greater than that before "
                       "it: entry %" PRId64 " has %" PRId64,
                       i, all[i].step);
    }
    return TL_OK;
}

static tl_status check_own(const void *value)
{
    const tl_own_config *own = value;
    TL_TRY(check_unfreeze(own));
    if (!(own->layer_decay > 0 && own->layer_decay <= 1))
        return TL_FAIL(TL_EINVAL, "layer_decay: must be above 0 and at most 1, found %g",
                       own->layer_decay);
    if (!own->gradient_noise_scale || own->gradient_accumulation > 1 || own->lanes > 1)
        return TL_OK;
    return TL_FAIL(TL_EINVAL, "gradient_noise_scale: it compares the gradients of the batches of a "
                              "step: set gradient_accumulation, or lanes, to 2 or more");
}

const tl_desc tl_own_config_desc = {
    .name = "tilth",
    .help = "what Model Garden does not have",
    .size = sizeof(tl_own_config),
    .fields = own_fields,
    .check = check_own,
};
