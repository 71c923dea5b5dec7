/* Tasks: model, data, losses, metrics and one step of something that is learned, as seen by one
 * replica.
 *
 *     typedef struct my_task { tl_task base; ... } my_task;
 *     static const tl_task_class my_class = {
 *         .cls = TL_CLASS(tl_task_class, "mine", &tl_base_task.cls, my_task, &my_config_desc),
 *         .build_model = my_build_model, .build_inputs = my_build_inputs,
 *         .train_step = my_train_step};
 *
 *     tl_task *t;
 *     TL_TRY(tl_get_task(&t, &(tl_task_args){.registry = r, .config = &experiment->task,
 *                                            .logging_dir = model_dir, .engine = e}));
 *     tl_task_free(&t);
 *
 * Methods are Model Garden's; each can be left out, and is then the base's (tl_base_task). Calling
 * a method of the base from one's own is a plain call: tl_base_task.train_step(t, s).
 *
 * Batches are named tensors. Those called y, label, labels, target or targets, or whose names begin
 * with label_ or target_, are labels; `weight` weighs the examples, `example_name` names them; the
 * rest goes to the model. A batch without labels serves as both. A task whose labels have other
 * names says so in its class:
 *
 *     static const char *const labels[] = {"price", NULL};
 *     static const tl_task_class priced = {
 *         .cls = TL_CLASS(tl_task_class, "priced", &tl_base_task.cls, tl_task, NULL),
 *         .build_model = my_build_model, .labels = labels};
 *
 * and one that needs more than names has a split_batch:
 *
 *     static void my_split_batch(const tl_task *t, const tl_batch *b, tl_batch_parts *out)
 *     {
 *         tl_tensors_put(b->ctx, &out->features, "image", tl_batch_get(b, "photo"));
 *         tl_tensors_put(b->ctx, &out->labels, "price", tl_batch_get(b, "sold_for"));
 *         out->weight = tl_batch_get(b, "trust");
 *     }
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_TASK_H
#define TILTH_TRAIN_TASK_H

#include <tilth/data/dataset.h>
#include <tilth/desc/gin.h>
#include <tilth/train/experiment.h>
#include <tilth/train/run/lacks.h>
#include <tilth/train/run/notes.h>
#include <tilth/train/run/original.h>
#include <tilth/train/trainer/step.h>

TL_BEGIN

typedef struct tl_progressive_policy tl_progressive_policy;

/* First member of every task's struct. Members are for reading. */
struct tl_task {
    const tl_task_class *cls;
    const tl_task_config *config; /* or what derives from it; must outlive the task */
    const char *name;             /* of the config, else of the class */
    const char *logging_dir;      /* "" when there is none */
    tl_engine *engine;
    const tl_registry *registry;
    tl_dtype dtype; /* to compute in */
    uint64_t seed;
    tl_arena *arena;          /* lives as long as the task */
    tl_gin *gin;              /* what is bound; NULL: nothing. In force while its methods run */
    const tl_own_config *own; /* the experiment's section `tilth`; NULL: there is none */
    bool read_own;            /* initial weights were read as it says (initialize.h) */
};

/* Which part of the examples is read: one of `pipelines` readers, each for `replicas /
 * pipelines`. */
typedef struct tl_input_context {
    int64_t pipelines, pipeline, replicas;
    uint64_t seed;
} tl_input_context;

/* One thing that a model is asked about: a file, or its bytes, or an array. */
typedef struct tl_query {
    const char *file; /* (optional) read when there is no data; else it only stands in messages */
    const void *data;
    size_t size;
    /* (optional) of tasks that judge pairs of texts: the second one */
    const void *second;
    size_t second_size;
    /* (optional) of an array of bytes: pixels [height, width] or [height, width, channels] */
    tl_shape shape;
    /* out of a data file, such as a TFRecord: made ready as the run's evaluation does it with its
     * own (exif_orientation); else as a file that people have */
    bool of_data;
} tl_query;

/* Numbers of an object, where answers are objects. */
enum { TL_OBJECT_SCORE, TL_OBJECT_CLASS, TL_OBJECT_BOX, TL_OBJECT_NUMBERS = 6 };

/* What answers are. */
typedef struct tl_answer_form {
    bool classes; /* a probability of each class; else numbers */
    /* any number of the classes may be right: each has a probability of its own */
    bool several;
    /* above 0: an answer is so many objects in a picture, of each six numbers: score, class, and
     * ymin, xmin, ymax, xmax in its pixels; a score of 0 is none */
    int64_t objects;
    /* above 0: an answer is which of so many classes each pixel of a picture is */
    int64_t pixels;
    /* of the classes, as the task has them; none: numbers, or what the run has noted */
    tl_strings names;
} tl_answer_form;
enum { TL_MOST_PIXEL_CLASSES = 256 };

/* An answer on its way into the terms of its query. */
typedef struct tl_settling {
    float *values;  /* what build_answers has given; of objects, changed in place */
    tl_shape shape; /* of them, without the batch */
    /* of pixels: the class of each, row by row from the top, in the arena */
    const uint8_t *pixels;
    int64_t height, width;
    tl_arena *arena; /* lives as long as the answer */
} tl_settling;

/* What is exported. */
typedef struct tl_export_args {
    const char *format;
    const tl_state *model;
    tl_strings classes; /* names, where they are known */
} tl_export_args;

struct tl_task_class {
    tl_class cls;
    /* (optional) Makes ready what the task has of its own. */
    tl_status (*start)(tl_task *t);
    /* (optional) Gives back what is not in the task's arena, also when `start` failed. */
    void (*dispose)(tl_task *t);

    /* The model. */
    tl_status (*build_model)(tl_task *t, tl_model **out);
    /* Batches of the size of one replica. `data` is the config's train_data or validation_data. */
    tl_status (*build_inputs)(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out);
    /* One loss an example, or their mean; base: the model's own losses, or 0. `aux` may be NULL. */
    tl_tensor *(*build_losses)(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux);
    /* Adds metrics; base: none. */
    tl_status (*build_metrics)(tl_task *t, bool training, tl_metrics *into);
    /* Base: every metric gets the first label and the first output. */
    void (*process_metrics)(tl_task *t, tl_step *s, const tl_tensors *labels,
                            const tl_tensors *outputs);
    /* The same for metrics that a model brings with it; base: process_metrics. */
    void (*process_compiled_metrics)(tl_task *t, tl_step *s, const tl_tensors *labels,
                                     const tl_tensors *outputs);

    /* Base: forward, build_losses, tl_step_minimize, process_metrics. */
    tl_status (*train_step)(tl_task *t, tl_step *s);
    /* Base: inference_step, build_losses, tl_step_report, process_metrics. What is logged beside
     * the loss goes to aggregate_logs. */
    tl_status (*validation_step)(tl_task *t, tl_step *s);
    /* Base: the model's answers to the batch. */
    tl_status (*inference_step)(tl_task *t, tl_step *s, tl_tensors *outputs);

    /* Metrics of the host. Called with what each validation step logged; *state is the task's, NULL
     * at the first. Base: nothing is kept. */
    tl_status (*aggregate_logs)(tl_task *t, void **state, const tl_logs *step);
    /* Results of what was kept; called once at the end, when state is not NULL. */
    tl_status (*reduce_aggregated_logs)(tl_task *t, void *state, int64_t global_step,
                                        tl_logs *into);
    /* Frees the state, also after a failure. Required where aggregate_logs allocates. */
    void (*release_aggregated)(tl_task *t, void *state);

    /* Base: reads init_checkpoint, when it is set. Not called when there is a checkpoint to
     * resume. */
    tl_status (*initialize)(tl_task *t, tl_model *m);
    /* Base: what the config says, with a loss scale when the runtime computes in float16. */
    tl_status (*create_optimizer)(tl_task *t, tl_model *m, const tl_optimization_config *config,
                                  const tl_runtime_config *runtime, tl_optimizer **out);
    /* Which objects the layers of the model are in checkpoints of Model Garden. Base:
     * TL_EUNSUPPORTED. */
    tl_status (*original_names)(tl_task *t, tl_original_names *into);
    /* Notes that a run of it keeps, such as the names of classes. Base: none. */
    tl_status (*notes)(tl_task *t, tl_notes *into);
    /* (optional: by their names, as above) Which of a batch are labels, then NULL. Nothing else is
     * one then. */
    const char *const *labels;

    /* Predictions (builtin/predictor.h): what the model says to queries that come one by one,
     * without labels. These are called by several threads at a time. Base: TL_EUNSUPPORTED;
     * the first output as float32; numbers. */
    /* Makes an example of a query, whose data is there: `inputs` are its places in a batch for
     * tl_model_inputs, one for each, in their types and shapes. */
    tl_status (*prepare_query)(const tl_task *t, const tl_query *q, void *const *inputs);
    /* The answers: float32 [batch, count]; of pixels, what settle_answer makes them of. */
    tl_tensor *(*build_answers)(const tl_task *t, tl_ctx *c, const tl_tensors *outputs);
    void (*answer_form)(const tl_task *t, tl_answer_form *out);
    /* (optional) Brings an answer that is objects or pixels into the terms of its query, whose data
     * is there: the picture as it was. */
    tl_status (*settle_answer)(const tl_task *t, const tl_query *q, tl_settling *answer);
    /* Takes the names of classes that a run has noted, when it is opened again. Base: nothing. */
    tl_status (*set_classes)(tl_task *t, tl_strings names);
    /* Adds files for others who use the weights, such as how inputs are made (`tilth export`).
     * Base: none. */
    tl_status (*export_files)(tl_task *t, tl_notes *into);
    /* The weights in a form of others, by its name ("hf": Hugging Face): `weights` gets them under
     * the names that they have there, `files` what lies beside them. `args->model` has them by
     * their paths. Base: TL_EUNSUPPORTED. */
    tl_status (*export_weights)(tl_task *t, const tl_export_args *args, tl_state *weights,
                                tl_notes *files);
    /* (optional) Adds the settings of `config`, which is the task's, without which a run cannot
     * begin; called before anything is built. */
    tl_status (*lacks)(const tl_task_config *config, bool trains, bool evaluates, tl_lacks *into);
    /* What of a batch goes to the model, what its answers are compared with, and how much each
     * example counts. It may call ops; a failure is the context's. Examples that only fill up a
     * batch weigh 0 in the field `weight` (tl_batch_weight), which a task that weighs in its own
     * way multiplies by. Base: by names, as above. */
    void (*split_batch)(const tl_task *t, const tl_batch *batch, tl_batch_parts *out);
    /* Shapes of what prepare_query makes: `inputs` are the model's, and are changed where queries
     * are seen at another size. Base: nothing. */
    tl_status (*query_inputs)(const tl_task *t, tl_spec *inputs, int64_t count);
    /* From now on evaluations write what they find in pictures to this file, as COCO's results.
     * Base: TL_EUNSUPPORTED. */
    tl_status (*write_objects)(tl_task *t, const char *path);
    /* (optional) The stages of a progressive training (progressive.h). */
    const tl_progressive_policy *policy;
};
TL_API extern const tl_task_class tl_base_task;

typedef struct tl_task_args {
    const tl_registry *registry; /* knows the task's class, must outlive the task */
    const tl_object *config;     /* the section `task` of an experiment, must outlive the task */
    const char *name; /* (optional: that of the config, else of the class) must outlive it too */
    const char *logging_dir; /* (optional: none) */
    tl_engine *engine;
    /* (optional: TL_F32) to compute in; strategy.h knows the policies */
    tl_dtype dtype;
    uint64_t seed;
    /* (optional: tl_gin_current) must outlive the task and its models */
    tl_gin *gin;
    const tl_own_config *own; /* (optional: none) must outlive the task */
} tl_task_args;
/* The task whose config this is. */
TL_API TL_NODISCARD tl_status tl_get_task(tl_task **out, const tl_task_args *args);
/* The same for a class that is not registered. */
TL_API TL_NODISCARD tl_status tl_task_new(tl_task **out, const tl_task_class *cls,
                                          const tl_task_args *args);
/* NULL is fine. */
TL_API void tl_task_free(tl_task **t);

/* The methods, as the task's class has them. */
TL_API TL_NODISCARD tl_status tl_task_build_model(tl_task *t, tl_model **out);
TL_API TL_NODISCARD tl_status tl_task_build_inputs(tl_task *t, const tl_data_config *data,
                                                   const tl_input_context *input, tl_dataset **out);
TL_API tl_tensor *tl_task_build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                                       const tl_tensors *outputs, tl_tensor *aux);
TL_API TL_NODISCARD tl_status tl_task_build_metrics(tl_task *t, bool training, tl_metrics *into);
TL_API void tl_task_process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                                    const tl_tensors *outputs);
TL_API void tl_task_process_compiled_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                                             const tl_tensors *outputs);
TL_API TL_NODISCARD tl_status tl_task_train_step(tl_task *t, tl_step *s);
TL_API TL_NODISCARD tl_status tl_task_validation_step(tl_task *t, tl_step *s);
TL_API TL_NODISCARD tl_status tl_task_inference_step(tl_task *t, tl_step *s, tl_tensors *outputs);
TL_API TL_NODISCARD tl_status tl_task_aggregate_logs(tl_task *t, void **state, const tl_logs *step);
/* Whether that does anything: then the logs of all processes are brought to one. */
TL_API bool tl_task_aggregates(const tl_task *t);
TL_API TL_NODISCARD tl_status tl_task_reduce_aggregated_logs(tl_task *t, void *state,
                                                             int64_t global_step, tl_logs *into);
TL_API void tl_task_release_aggregated(tl_task *t, void *state);
TL_API TL_NODISCARD tl_status tl_task_initialize(tl_task *t, tl_model *m);
TL_API TL_NODISCARD tl_status tl_task_create_optimizer(tl_task *t, tl_model *m,
                                                       const tl_optimization_config *config,
                                                       const tl_runtime_config *runtime,
                                                       tl_optimizer **out);
/* What the base's create_optimizer does, with groups of parameters that are updated in other ways:
 * for methods that have some. */
TL_API TL_NODISCARD tl_status tl_task_create_grouped_optimizer(tl_task *t, tl_model *m,
                                                               const tl_optimization_config *config,
                                                               const tl_runtime_config *runtime,
                                                               const tl_group_config *groups,
                                                               int64_t count, tl_optimizer **out);
TL_API TL_NODISCARD tl_status tl_task_original_names(tl_task *t, tl_original_names *into);
TL_API TL_NODISCARD tl_status tl_task_notes(tl_task *t, tl_notes *into);
TL_API TL_NODISCARD tl_status tl_task_prepare_query(const tl_task *t, const tl_query *q,
                                                    void *const *inputs);
TL_API tl_tensor *tl_task_build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs);
TL_API void tl_task_answer_form(const tl_task *t, tl_answer_form *out);
TL_API TL_NODISCARD tl_status tl_task_settle_answer(const tl_task *t, const tl_query *q,
                                                    tl_settling *answer);
TL_API TL_NODISCARD tl_status tl_task_query_inputs(const tl_task *t, tl_spec *inputs,
                                                   int64_t count);
TL_API TL_NODISCARD tl_status tl_task_set_classes(tl_task *t, tl_strings names);
TL_API TL_NODISCARD tl_status tl_task_export_files(tl_task *t, tl_notes *into);
TL_API TL_NODISCARD tl_status tl_task_export_weights(tl_task *t, const tl_export_args *args,
                                                     tl_state *weights, tl_notes *files);
TL_API TL_NODISCARD tl_status tl_task_write_objects(tl_task *t, const char *path);
/* Whether it can be asked: its class has prepare_query. */
TL_API bool tl_task_takes_queries(const tl_task *t);

/* As the task's class does it; `out` is empty before. In a step: tl_step_parts. */
TL_API void tl_task_split_batch(const tl_task *t, const tl_batch *batch, tl_batch_parts *out);
/* What of a batch, or of what steps have logged, are features and labels: by the names that labels
 * usually have, or by those that the task's class gives them. */
TL_API void tl_batch_split(const tl_batch *batch, tl_tensors *features, tl_tensors *labels);
TL_API void tl_task_split(const tl_task *t, const tl_batch *batch, tl_tensors *features,
                          tl_tensors *labels);

TL_END

#endif
