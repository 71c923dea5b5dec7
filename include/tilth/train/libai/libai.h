/* LiBai's configuration: its sections, names and defaults, as one described struct.
 *
 *     # vit.yaml
 *     model: {_target_: image_classification, backbone: {...}}   # a registered task and its model
 *     dataloader:
 *       train: {input_path: 'train*.tfrecord'}                   # the task's train_data
 *       test: [{input_path: 'test*.tfrecord'}]                   # its validation_data
 *     optim: {_target_: AdamW, lr: 1e-3, weight_decay: 0.05}
 *     train:
 *       output_dir: ./output
 *       train_micro_batch_size: 64
 *       train_epoch: 300
 *       scheduler: {_target_: WarmupCosineLR, alpha: 0.01}
 *
 *     tl_config *c;
 *     TL_TRY(tl_libai_begin(&c, registry, "vit.yaml"));
 *     TL_TRY(tl_libai_words(c, &(tl_word){"optim.lr=2e-3", "command line"}, 1));
 *     TL_TRY(tl_config_finish(c));
 *     const tl_libai_config *config = tl_config_value(c);
 *
 * Model, data, losses and metrics belong to a task here, so a task is what is chosen. `model` and
 * `dataloader` are LiBai's spelling of it; what is written down says the same as
 *
 *     task: {type: NAME, NAME: {model: {...}, train_data: {...}, validation_data: {...}}}
 *
 * which is also how a file may say it, and where the other keys of the task are. Of a dotted
 * `_target_` the last part counts. There is one test loader. Batch sizes, seeds and is_training of
 * the data are filled in from `train`.
 *
 * A file may also be Python, as LiBai's are (desc/python.h), and then name LiBai's own models,
 * which classes of the kind `libai_model` translate:
 *
 *     # vit.py
 *     from libai.config import LazyCall, get_config
 *     from libai.models import VisionTransformer
 *     train = get_config("common/train.py").train
 *     optim = get_config("common/optim.py").optim
 *     dataloader = get_config("common/data/imagenet.py").dataloader
 *     dataloader.train.dataset[0].root = "imagenet"
 *     model = LazyCall(VisionTransformer)(img_size=224, embed_dim=384, num_heads=6)
 *     train.train_epoch = 300
 *
 * A step is one update of the optimizer everywhere, with and without a graph: all periods,
 * train_iter and warmup_iter count updates, also under gradient accumulation.
 *
 * Ownership: that of the config. Thread word: immutable. */
#ifndef TILTH_TRAIN_LIBAI_H
#define TILTH_TRAIN_LIBAI_H

#include <tilth/nn/optimizer.h>
#include <tilth/train/experiment.h>

TL_BEGIN

/* --- train ------------------------------------------------------------------------------------ */

typedef struct tl_libai_switch {
    bool enabled;
} tl_libai_switch;

typedef struct tl_libai_zero_config {
    bool enabled;
    int64_t stage;
} tl_libai_zero_config;

typedef struct tl_libai_checkpointer_config {
    int64_t period;
    tl_opt_int max_to_keep; /* null: all */
    tl_opt_int save_model_after_n_epoch;
} tl_libai_checkpointer_config;

typedef enum tl_libai_mode { TL_LIBAI_MAX, TL_LIBAI_MIN } tl_libai_mode;

typedef struct tl_libai_evaluation_config {
    bool enabled;
    const tl_value *evaluator; /* NULL: the task's metrics */
    int64_t eval_period;       /* 0 or less: at the end only */
    tl_opt_int eval_after_n_epoch;
    int64_t eval_iter; /* batches of an evaluation, at most */
    const char *eval_metric;
    tl_libai_mode eval_mode;
} tl_libai_evaluation_config;

typedef enum tl_libai_warmup { TL_LIBAI_LINEAR, TL_LIBAI_CONSTANT } tl_libai_warmup;

/* What a scheduler does not have must be null; `alpha`, which has a default, is read by
 * WarmupCosineLR alone. */
typedef struct tl_libai_scheduler_config {
    const char *target; /* `_target_`: WarmupCosineLR, ... */
    double warmup_factor;
    tl_libai_warmup warmup_method;
    tl_opt_int warmup_iter; /* null, or warmup_ratio is not 0: from warmup_ratio */
    tl_opt_int max_iter;    /* null: train_iter */
    double alpha;
    tl_opt_double eta_min; /* WarmupCosineAnnealingLR; null: 0 */
    tl_opt_int step_size;  /* WarmupStepLR */
    tl_doubles milestones; /* WarmupMultiStepLR: shares of train_iter, from 0 to less than 1 */
    tl_opt_double gamma;   /* those two (null: 0.1) and WarmupExponentialLR */
    tl_opt_double end_learning_rate; /* WarmupPolynomialLR; null: 1e-4 */
    tl_opt_double power;             /* null: 1 */
    tl_opt_bool cycle;
} tl_libai_scheduler_config;

/* How several processes share the model out (comm/layout.h). As yet they are copies of it, of which
 * there are as many as lanes: tl_libai_resolve_dist makes that of the sizes. */
typedef struct tl_libai_dist_config {
    int64_t data_parallel_size, tensor_parallel_size, pipeline_parallel_size;
    tl_opt_int pipeline_num_layers;
    tl_ints custom_pipeline_stage_id; /* may be null */
    const char *device_type;          /* or NULL */
} tl_libai_dist_config;

typedef struct tl_libai_train_config {
    const char *output_dir;
    tl_opt_int train_micro_batch_size, global_batch_size, num_accumulation_steps;
    int64_t train_iter, train_epoch;
    int64_t consumed_train_samples, consumed_valid_samples;
    tl_opt_int train_samples;
    double warmup_ratio;
    int64_t start_iter;
    bool resume;
    tl_libai_switch amp, activation_checkpoint;
    int64_t nccl_fusion_threshold_mb, nccl_fusion_max_ops;
    tl_libai_zero_config zero_optimization;
    tl_libai_checkpointer_config checkpointer;
    int64_t test_micro_batch_size;
    tl_libai_evaluation_config evaluation;
    const char *load_weight; /* "": none */
    int64_t log_period;
    tl_libai_scheduler_config scheduler;
    tl_libai_dist_config dist;
    const char *input_placement_device;
    bool rdma_enabled;
    int64_t seed;
} tl_libai_train_config;

/* --- optim ------------------------------------------------------------------------------------ */

typedef enum tl_libai_clip {
    TL_LIBAI_CLIP_GLOBAL, /* all gradients together */
    TL_LIBAI_CLIP_GROUP,  /* those of each group, as LiBai does it */
    TL_LIBAI_CLIP_PARAM   /* each parameter's */
} tl_libai_clip;

/* Which parameters are updated differently. */
typedef struct tl_libai_params_config {
    const char *target;               /* `_target_`: nothing reads it */
    tl_opt_double clip_grad_max_norm; /* null: any */
    double clip_grad_norm_type;
    tl_libai_clip clip_grad_mode;
    tl_opt_double weight_decay_norm; /* of layers that normalize; null: weight_decay */
    tl_opt_double weight_decay_bias; /* of what is called bias; null: weight_decay */
    const tl_value
        *overrides; /* {name: {lr: x, weight_decay: y}}, by the last part of a path; or NULL */
} tl_libai_params_config;

/* What an optimizer does not have must be null. */
typedef struct tl_libai_optim_config {
    const char *target; /* `_target_`: AdamW, Adam, SGD or LAMB */
    double lr, weight_decay;
    tl_doubles betas;
    double eps;
    bool do_bias_correction;
    tl_opt_bool amsgrad;
    tl_opt_double momentum;
    tl_opt_bool nesterov;
    tl_libai_params_config params;
} tl_libai_optim_config;

/* --- graph, and what is Tilth's own ----------------------------------------------------------- */

typedef struct tl_libai_auto_parallel_config {
    bool enabled, enable_auto_parallel_ignore_user_sbp_config, trunk_algo, sbp_collector;
} tl_libai_auto_parallel_config;

typedef struct tl_libai_graph_config {
    bool enabled; /* the step as one program; false: operation by operation */
    int64_t debug;
    tl_libai_auto_parallel_config auto_parallel;
    const tl_value *train_graph, *eval_graph; /* nothing reads them */
    tl_libai_switch global_mode;
} tl_libai_graph_config;

typedef struct tl_libai_own_config {
    const char *device; /* as in tl_strategy_args; NULL: none is named */
    int64_t threads;    /* 0: one for each processor */
    int64_t lanes;      /* copies of the model, whoever carries them */
    bool jit;
    tl_opt_int train_examples;   /* of one epoch, where the data does not know */
    bool survive_write_failures; /* as in tl_controller_args */
    double checkpoint_minutes;   /* as in tl_checkpoint_manager_args; 0: none by time */
    int64_t checkpoint_shards;   /* its files */
    double peak_tflops;          /* of the machine, for mfu; 0: is not known */
    const char *notify;          /* NULL: nobody is told; as in tl_metrics_file_config */
} tl_libai_own_config;

/* A test loader behind the first. */
typedef struct tl_libai_test_config {
    const char *name;     /* its results are told below it */
    const tl_value *data; /* as validation_data of the task */
} tl_libai_test_config;

typedef struct tl_libai_config {
    tl_oneof task;    /* of tl_kind_task */
    tl_structs tests; /* of tl_libai_test_config; mostly none */
    tl_libai_train_config train;
    tl_libai_optim_config optim;
    tl_libai_graph_config graph;
    tl_libai_own_config tilth;
} tl_libai_config;

extern TL_API const tl_desc tl_libai_config_desc, tl_libai_train_config_desc,
    tl_libai_scheduler_config_desc, tl_libai_optim_config_desc, tl_libai_graph_config_desc;

/* --- reading ---------------------------------------------------------------------------------- */

/* The defaults, changed by a file; `path` NULL or "": the defaults alone. Open for more. The file
 * is YAML, or Python when its name ends with ".py". */
TL_API TL_NODISCARD tl_status tl_libai_begin(tl_config **out, const tl_registry *registry,
                                             const char *path);
/* The same, and words as tl_libai_words takes them. Where the file is Python or names one of
 * LiBai's models, words change what the file says, before that is translated: `model.depth=24`,
 * `dataloader.train.dataset[0].root=here`. */
TL_API TL_NODISCARD tl_status tl_libai_open(tl_config **out, const tl_registry *registry,
                                            const char *path, const tl_word *words, int64_t count);
/* The same from a text. `source` names it in messages. */
TL_API TL_NODISCARD tl_status tl_libai_yaml(tl_config *c, const char *text, const char *source);
/* Words as tl_config_words takes them, which may also begin with `model` and `dataloader`. */
TL_API TL_NODISCARD tl_status tl_libai_words(tl_config *c, const tl_word *words, int64_t count);

/* --- models of LiBai -------------------------------------------------------------------------- */

/* What a class is given of a configuration in LiBai's words. */
typedef struct tl_libai_sections {
    const tl_value *model;        /* a map: `_target_`, and the arguments of the model */
    const tl_value *train_loader; /* a map with the key `dataset`, or NULL: there is none */
    const tl_value *test_loader;
    const tl_value *train; /* the section, or NULL */
} tl_libai_sections;

/* A model of LiBai's: cls.name is that of its class in Python, "VisionTransformer". */
typedef struct tl_libai_model_class {
    tl_class cls;
    /* Adds YAML that says the same in the words of this library: `task`, and what else differs.
     * What it does not know it refuses, with its place. Loaders without `dataset` are not its
     * business: they are the task's data already. */
    tl_status (*translate)(tl_str *yaml, const tl_libai_sections *given);
} tl_libai_model_class;
TL_API extern const tl_kind tl_kind_libai_model;

/* --- numbers that follow from others ---------------------------------------------------------- */

/* Makes of the sizes of train.dist what so many lanes allow: no more than there are, and
 * data_parallel_size from the other two; zero_optimization is off for one. Warns of each that
 * changes. TL_EINVAL when they do not
 * divide the lanes, or pipeline_num_layers is less than the stages that there are then. */
TL_API TL_NODISCARD tl_status tl_libai_resolve_dist(tl_libai_train_config *train, int64_t world);
/* Fills in those of train_micro_batch_size, global_batch_size and num_accumulation_steps that are
 * null, for so many copies of the model: global = micro * copies * accumulation. TL_EINVAL when
 * they do not fit. */
TL_API TL_NODISCARD tl_status tl_libai_resolve_batch(tl_libai_train_config *train,
                                                     int64_t replicas);
/* Whether how many examples an epoch has is needed. */
TL_API bool tl_libai_counts_epochs(const tl_libai_train_config *train);
/* train_iter (at least what train_epoch makes), warmup_iter, eval_period and the checkpoint period,
 * from epochs and ratios. Batch sizes are resolved already. `examples` of an epoch, when
 * tl_libai_counts_epochs. */
TL_API TL_NODISCARD tl_status tl_libai_auto_scale(tl_libai_train_config *train, int64_t examples);
/* 20 steps, an evaluation each 10, a line each step. */
TL_API void tl_libai_fast_dev_run(tl_libai_train_config *train);
/* The step with which a run goes on after this checkpoint: 5000 for "ckpt-5000" and, as LiBai
 * counts, for "model_0004999". TL_EINVAL for names without a number. */
TL_API TL_NODISCARD tl_status tl_libai_next_iter(int64_t *out, const char *name);

/* --- optimizers, schedules, groups ------------------------------------------------------------ */

/* learning_rate and warmup of the optimization, from optim.lr and a scaled train.scheduler. What
 * they point at comes from the arena. */
TL_API TL_NODISCARD tl_status tl_libai_schedule(tl_optimization_config *into, tl_arena *arena,
                                                const tl_libai_config *config);
/* Its optimizer. */
TL_API TL_NODISCARD tl_status tl_libai_optimizer(tl_optimization_config *into, tl_arena *arena,
                                                 const tl_libai_optim_config *optim);

/* Parameters with the same settings, together. */
typedef struct tl_param_groups {
    tl_group_config *groups; /* in the order of their first parameters */
    int64_t count;
    const int64_t *of; /* of each parameter its group, -1 when no rule is about it */
} tl_param_groups;
/* Applies rules to paths: what a later rule sets takes the place of what an earlier one did. Then
 * puts parameters of like settings into one group, "group_0", "group_1", ... In the arena. */
TL_API TL_NODISCARD tl_status tl_param_groups_of(tl_param_groups *out, tl_arena *arena,
                                                 const char *const *paths, int64_t count,
                                                 const tl_group_config *rules, int64_t rule_count);
/* The rules of optim.params for a model: layers that normalize, biases, overrides by name,
 * clipping; in the arena. */
TL_API TL_NODISCARD tl_status tl_libai_param_rules(tl_group_config **out, int64_t *count,
                                                   tl_arena *arena,
                                                   const tl_libai_optim_config *optim,
                                                   const tl_model *m);

TL_END

#endif
