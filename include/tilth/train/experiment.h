/* Experiments: what is trained, how, and on what, as one configuration.
 *
 *     tl_registry *r = NULL;
 *     tl_config *c = NULL;
 *     tl_parse_options o = {.experiment = "mock", .strict_override = true,
 *                           .params_override = "trainer.train_steps=5"};
 *     TL_TRY_DONE(st, tl_registry_new_builtin(&r));
 *     TL_TRY_DONE(st, tl_experiment_parse(&c, r, &o));
 *     const tl_experiment_config *e = tl_config_value(c);
 *     const tl_trainer_config *t = e->trainer.value;
 *     TL_TRY_DONE(st, tl_serialize_config(c, "out/run1"));     // out/run1/params.yaml
 * done:
 *     tl_config_free(&c);
 *     tl_registry_free(&r);
 *
 * Fields, names and defaults are those of Model Garden's ExperimentConfig and what is in it, so
 * that its YAML files can be used here and, while the section `tilth` is untouched, ours there.
 *
 * Thread word: immutable. */
#ifndef TILTH_TRAIN_EXPERIMENT_H
#define TILTH_TRAIN_EXPERIMENT_H

#include <tilth/data/config.h>
#include <tilth/desc/config.h>
#include <tilth/graph/function.h>
#include <tilth/nn/optimization.h>

TL_BEGIN

/* --- runtime ---------------------------------------------------------------------------------- */

typedef enum tl_mixed_precision {
    TL_PRECISION_UNSET, /* null: float32 */
    TL_PRECISION_FLOAT32,
    TL_PRECISION_FLOAT16,
    TL_PRECISION_BFLOAT16,
    TL_PRECISION_MIXED_FLOAT16, /* what the policies of Keras are called; the same as those above */
    TL_PRECISION_MIXED_BFLOAT16
} tl_mixed_precision;

typedef struct tl_runtime_config {
    const char *distribution_strategy; /* off, one_device, mirrored, ..., in any case */
    bool enable_xla;
    const char *gpu_thread_mode; /* or NULL */
    tl_opt_int dataset_num_private_threads;
    int64_t per_gpu_thread_count;
    const char *tpu; /* or NULL */
    int64_t num_gpus;
    const char *worker_hosts; /* or NULL */
    int64_t task_index;
    const char *all_reduce_alg; /* or NULL */
    int64_t num_packs;
    tl_mixed_precision mixed_precision_dtype;
    const tl_value *loss_scale; /* "dynamic", a number, or NULL */
    bool run_eagerly;
    bool batchnorm_spatial_persistent;
    tl_opt_bool tpu_enable_xla_dynamic_padder;
    int64_t num_cores_per_replica, default_shard_dim;
    bool use_tpu_mp_strategy;
} tl_runtime_config;

/* --- trainer ---------------------------------------------------------------------------------- */

typedef enum tl_metric_comp {
    TL_METRIC_HIGHER, /* is better */
    TL_METRIC_LOWER
} tl_metric_comp;

/* Steps are optimizer updates, and all numbers of steps count from the start of the training. */
typedef struct tl_trainer_config {
    tl_optimization_config optimizer_config;
    bool train_tf_while_loop, train_tf_function;
    bool eval_tf_function, eval_tf_while_loop;
    bool allow_tpu_summary;
    int64_t steps_per_loop, summary_interval, checkpoint_interval;
    tl_opt_int max_to_keep;             /* null: all */
    tl_opt_int continuous_eval_timeout; /* seconds; null: for ever */
    int64_t train_steps;
    int64_t validation_steps; /* -1: all examples */
    int64_t validation_interval;
    const char *best_checkpoint_export_subdir; /* "": none is kept */
    const char *best_checkpoint_eval_metric;
    tl_metric_comp best_checkpoint_metric_comp;
    double loss_upper_bound;
    int64_t recovery_begin_steps, recovery_max_trials;
    const char *validation_summary_subdir;
    bool preemption_on_demand_checkpoint;
} tl_trainer_config;

/* --- task ------------------------------------------------------------------------------------- */

typedef struct tl_differential_privacy_config {
    double clipping_norm, noise_multiplier;
} tl_differential_privacy_config;

/* Each task derives from it and refines `model`, and `train_data` and `validation_data` where its
 * examples need more than tl_data_config has:
 *     static const tl_field my_task_fields[] = {
 *         TL_F_OPTIONAL_AS(my_task_config, base.train_data, "train_data", &my_data_desc,
 *                          .set = true, .help = "photos and what they were sold for"),
 *         TL_F_END}; */
typedef struct tl_task_config {
    const char *init_checkpoint;                  /* "" or NULL: none */
    tl_object model;                              /* of no description in the base: null */
    tl_data_config *train_data, *validation_data; /* or NULL */
    const char *name;                             /* or NULL */
    tl_differential_privacy_config *differential_privacy_config; /* or NULL */
    bool allow_image_summary;
} tl_task_config;

/* One of several tasks (multitask.h). */
typedef struct tl_task_routine {
    const char *task_name;
    tl_object task_config; /* tl_task_config or what derives from it */
    tl_opt_int eval_steps;
    tl_opt_double task_weight; /* null: 1 */
} tl_task_routine;

/* --- what is Tilth's own ---------------------------------------------------------------------- */

typedef struct tl_early_stopping_config {
    const char *metric;
    tl_metric_comp comp;
    int64_t patience;
    double min_delta;
} tl_early_stopping_config;

/* What is trained from a step on. */
typedef struct tl_unfreeze_config {
    int64_t step;
    tl_strings patterns;
} tl_unfreeze_config;

typedef enum tl_transport { TL_TRANSPORT_AUTO, TL_TRANSPORT_SHM, TL_TRANSPORT_MPI } tl_transport;

typedef struct tl_own_config {
    tl_opt_int seed;
    const char *device; /* as in tl_strategy_args; NULL: none is named */
    int64_t threads;    /* 0: one for each processor */
    bool jit;
    int64_t gradient_accumulation;
    int64_t lanes;     /* as in tl_strategy_args */
    int64_t processes; /* that carry them */
    tl_transport comm; /* of tl_world_args, as the next */
    double peer_timeout_s;
    double bucket_mb; /* of tl_strategy_args */
    int64_t zero;     /* what processes share out; 0: nothing */
    tl_recompute recompute;
    tl_early_stopping_config *early_stopping; /* or NULL */
    bool survive_write_failures;              /* as in tl_controller_args */
    bool schedule_to_end;
    const char *notify;                 /* NULL: nobody is told; as in tl_metrics_file_config */
    double checkpoint_minutes;          /* as in tl_checkpoint_manager_args; 0: none by time */
    int64_t checkpoint_shards;          /* files of tl_checkpoint_manager_args */
    bool gradient_noise_scale;          /* tl_noise_scale_hook */
    tl_structs unfreeze;                /* of tl_unfreeze_config; empty: everything is trained */
    double layer_decay;                 /* 1: all layers have the same rate */
    tl_strings init_resize, init_leave; /* as initialize.h says */
} tl_own_config;

/* --- the whole -------------------------------------------------------------------------------- */

typedef struct tl_experiment_config {
    tl_object task;    /* tl_task_config or what derives from it */
    tl_object trainer; /* tl_trainer_config or what derives from it */
    tl_runtime_config runtime;
    tl_own_config tilth;
    /* of tl_task_routine: what is evaluated in place of the task itself; empty: that */
    tl_structs eval_tasks;
} tl_experiment_config;

extern TL_API const tl_desc tl_runtime_config_desc, tl_trainer_config_desc, tl_task_config_desc,
    tl_differential_privacy_config_desc, tl_early_stopping_config_desc, tl_unfreeze_config_desc,
    tl_own_config_desc, tl_task_routine_desc, tl_experiment_config_desc;

/* --- kinds ------------------------------------------------------------------------------------ */

/* A task: model, data, losses, metrics, one step (task.h). Its config is its own alone, and names
 * it. */
typedef struct tl_task_class tl_task_class;

/* A named experiment: which task and trainer, and what differs from their defaults. One that has a
 * base class starts from all that the base gives. */
typedef struct tl_experiment_class {
    tl_class cls;
    const tl_desc *task;    /* required: the config of a registered task */
    const tl_desc *trainer; /* optional: tl_trainer_config_desc */
    const char *defaults;   /* optional: YAML text, applied after `fill` */
    /* Optional: changes the defaults; what it adds comes from the arena. */
    tl_status (*fill)(tl_experiment_config *experiment, tl_arena *arena);
    /* Optional: "task.train_data.is_training != None", ..., NULL. */
    const char *const *restrictions;
    /* Optional: looks at the data, and fills in what nobody has said (tl_config_is_given), by
     * tl_config_word; called once all sources were read. A base's comes first. */
    tl_status (*complete)(tl_config *config);
    /* Optional: the experiment is a name alone, which is refused with this: what lacks, and what is
     * there in its place. */
    const char *lacks;
} tl_experiment_class;

extern TL_API const tl_kind tl_kind_task, tl_kind_experiment;
/* What tasks have in their section `model`, for gin: a class is a name and a config, and the row
 * `model` of the task names this kind. */
extern TL_API const tl_kind tl_kind_model;

/* --- putting one together --------------------------------------------------------------------- */

/* What the command line says about an experiment. The description makes flags of it. */
typedef struct tl_parse_options {
    const char *experiment; /* or NULL */
    tl_strings config_file;
    const char *params_override; /* NULL or "": nothing */
    const char *tpu;             /* NULL or "": nothing */
    const char *tf_data_service; /* NULL or "": nothing */
    bool strict_override;        /* unknown keys fail; else they are skipped with a warning */
} tl_parse_options;
extern TL_API const tl_desc tl_parse_options_desc;
/* What the table's defaults say; begin with it in C. */
#define TL_PARSE_OPTIONS_INIT TL_INIT(NULL, {NULL, 0}, NULL, NULL, NULL, true)

/* The configuration of an experiment, open for further sources (config.h). Later ones win: the
 * experiment's own defaults, the files in their order, --tpu, --tf_data_service, --params_override.
 * `registry` must outlive the config. *out is NULL after a failure. */
TL_API TL_NODISCARD tl_status tl_experiment_begin(tl_config **out, const tl_registry *registry,
                                                  const tl_parse_options *options);
/* Completes what an experiment leaves to its data, puts in what gin binds (tl_gin_current),
 * stretches the learning rate where tilth.schedule_to_end says so, and finishes. `experiment` is
 * the name it began with. */
TL_API TL_NODISCARD tl_status tl_experiment_finish(tl_config *config, const tl_registry *registry,
                                                   const char *experiment);
/* Whether an experiment completes itself by its data: a run of it that goes on takes its
 * params.yaml as the first of its files, since the data may have changed. */
TL_API bool tl_experiment_completes(const tl_registry *registry, const char *experiment);
/* Begun and finished. */
TL_API TL_NODISCARD tl_status tl_experiment_parse(tl_config **out, const tl_registry *registry,
                                                  const tl_parse_options *options);

/* Writes params.yaml into the folder, which is made when it is not there. */
TL_API TL_NODISCARD tl_status tl_serialize_config(const tl_config *config, const char *model_dir);

/* The class of the task that has exactly this description as its config. */
TL_API TL_NODISCARD tl_status tl_get_task_class(const tl_task_class **out,
                                                const tl_registry *registry, const tl_object *task);

TL_END

#endif
