/* The task: the student's, but for the loss of a training step. */
#include <tilth/base/log.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/train/run/lacks.h>

#include "train/distill/distill.h"

static tl_task *student_of(const tl_task *t)
{
    return ((const tl_distillation *)t)->student;
}

tl_status tli_distill_check(const tl_task *t, const char *who)
{
    tl_answer_form form = {0};
    tl_task_answer_form(t, &form);
    if (form.classes && !form.several && !form.objects && !form.pixels) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "%s is of the task '%s', which does not tell one class of several: distillation "
                   "compares probabilities of classes",
                   who, t->cls->cls.name);
}

/* Its step is written anew here: forward, the loss of its labels, and that of the teacher. */
static tl_status check_step(const tl_task *student)
{
    const tl_task_class *own = TL_CLASS_METHOD(tl_task_class, student->cls, train_step);
    if (!own || own->train_step == tl_base_task.train_step) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "the student is of the task '%s', whose training step is its own: distillation "
                   "does not know what it does",
                   student->cls->cls.name);
}

/* Whoever asks this task for its data is shown the student's. */
static tl_status show_data(tl_task *t)
{
    tl_distillation_config *shown = tl_arena_copy(t->arena, t->config, sizeof *shown);
    const tl_task_config *of = student_of(t)->config;
    if (!shown) return TL_ENOMEM;
    shown->base.train_data = of->train_data;
    shown->base.validation_data = of->validation_data;
    shown->base.allow_image_summary = of->allow_image_summary;
    shown->base.init_checkpoint = of->init_checkpoint;
    t->config = &shown->base;
    return TL_OK;
}

static tl_status start(tl_task *t)
{
    tl_distillation *d = (tl_distillation *)t;
    const tl_distillation_config *c = (const tl_distillation_config *)t->config;
    if (!c->student.type)
        return TL_FAIL(TL_EINVAL, "task.student: no task is chosen; set task.student.type");
    const tl_object config = {.desc = c->student.desc, .value = c->student.value};
    TL_TRY_NOTE(tl_get_task(&d->student, &(tl_task_args){.registry = t->registry,
                                                         .config = &config,
                                                         .logging_dir = t->logging_dir,
                                                         .engine = t->engine,
                                                         .dtype = t->dtype,
                                                         .seed = t->seed,
                                                         .gin = t->gin}),
                "task.student");
    TL_TRY(tli_distill_check(d->student, "the student"));
    TL_TRY(check_step(d->student));
    return show_data(t);
}

static void dispose(tl_task *t)
{
    tl_distillation *d = (tl_distillation *)t;
    tli_distill_close(d);
    tl_task_free(&d->student);
}

/* --- a step ----------------------------------------------------------------------------------- */

tl_tensor *tl_distillation_loss(tl_ctx *c, tl_tensor *teacher, tl_tensor *student,
                                double temperature)
{
    if (!teacher || !student) return NULL;
    if (!tl_shape_equal(&teacher->shape, &student->shape)) {
        char spec[2][TL_TENSOR_TEXT];
        (void)TL_FAIL(TL_EINVAL,
                      "the teacher answers %s, and the student %s: both must have the "
                      "same classes",
                      tl_tensor_spec(spec[0], teacher), tl_tensor_spec(spec[1], student));
        return tl_ctx_fail(c);
    }
    tl_dtype type = student->dtype == TL_F64 ? TL_F64 : TL_F32;
    tl_tensor *ours = tl_scale(c, tl_cast(c, student, type), 1 / temperature);
    tl_tensor *theirs =
        tl_scale(c, tl_stop_gradient(c, tl_cast(c, teacher, type)), 1 / temperature);
    ours = tl_log_softmax(c, ours, -1);
    theirs = tl_log_softmax(c, theirs, -1);
    return tl_sum(c, tl_mul(c, tl_exp(c, theirs), tl_sub(c, theirs, ours)), TL_AXES(-1), false);
}

/* As in evaluations: nothing of it is moved, and no gradient flows. */
static tl_tensor *ask_teacher(const tl_distillation *d, tl_ctx *c, const tl_tensors *features)
{
    tl_tensors answers = {0};
    bool taping = tl_ctx_set_taping(c, false), training = tl_ctx_set_training(c, false);
    tl_ctx_enter(c, "teacher");
    tl_call_all(c, d->teacher_model, features, &answers);
    tl_ctx_leave(c);
    tl_ctx_set_training(c, training);
    tl_ctx_set_taping(c, taping);
    return answers.count ? answers.items[0].tensor : NULL;
}

static void tell(tl_step *s, const char *name, tl_tensor *value)
{
    tl_metric *metric = s->metrics ? tl_metrics_find(s->metrics, name) : NULL;
    if (metric && value) tl_metric_update_value(metric, s->ctx, value, tl_step_parts(s)->weight);
}

static tl_status train_step(tl_task *t, tl_step *s)
{
    const tl_distillation *d = (const tl_distillation *)t;
    const tl_distillation_config *k = (const tl_distillation_config *)t->config;
    tl_ctx *c = s->ctx;
    const tl_batch_parts *in = tl_step_parts(s);
    tl_tensors outputs = {0};
    TL_TRY(tl_ctx_status(c));
    tl_step_forward_all(s, &in->features, &outputs);
    TL_TRY(tl_ctx_status(c));
    tl_tensor *answers = ask_teacher(d, c, &in->features);
    TL_TRY_NOTE(tl_ctx_status(c),
                "task.teacher: '%s' cannot take the student's batches, which must be made ready as "
                "it knows them",
                k->teacher);
    tl_tensor *hard = tl_task_build_losses(d->student, c, &in->labels, &outputs, NULL);
    tl_tensor *soft = tl_distillation_loss(c, answers, outputs.items[0].tensor, k->temperature);
    TL_TRY(tl_ctx_status(c));
    tl_tensor *losses = tl_scale(c, tl_cast(c, soft, hard->dtype),
                                 k->soft_weight * k->temperature * k->temperature);
    tl_step_minimize(s, tl_add(c, tl_scale(c, hard, k->hard_weight), losses), in->weight);
    TL_TRY(tl_ctx_status(c));
    tl_task_process_metrics(d->student, s, &in->labels, &outputs);
    bool taping = tl_ctx_set_taping(c, false);
    tell(s, "hard_loss", hard);
    tell(s, "soft_loss", soft);
    tl_ctx_set_taping(c, taping);
    return tl_ctx_status(c);
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    TL_TRY(tl_task_build_metrics(student_of(t), training, into));
    if (!training) return TL_OK;
    TL_TRY(tl_metrics_add(NULL, into, &tl_metric_mean, NULL, "hard_loss"));
    return tl_metrics_add(NULL, into, &tl_metric_mean, NULL, "soft_loss");
}

/* Some models take what has another size than they have learned from, and answer worse. */
static void compare_inputs(const tl_distillation *d, const tl_model *student)
{
    int64_t count, own;
    const tl_spec *theirs = tl_model_inputs(d->teacher_model, &count);
    const tl_spec *ours = tl_model_inputs(student, &own);
    for (int64_t i = 0; i < count && i < own; i++) {
        tl_shape a = theirs[i].shape, b = ours[i].shape;
        char text[2][TL_SHAPE_TEXT];
        if (a.rank) a.dims[0] = b.rank ? b.dims[0] : 1; // batches may have any size
        if (!tl_shape_equal(&a, &b))
            TL_LOG_WARNING("the teacher has learned from '%s' of %s, and is given %s by the "
                           "student's data",
                           theirs[i].name, tl_shape_text(text[0], &a), tl_shape_text(text[1], &b));
    }
}

/* Once there is an optimizer there is a training. */
static tl_status create_optimizer(tl_task *t, tl_model *m, const tl_optimization_config *config,
                                  const tl_runtime_config *runtime, tl_optimizer **out)
{
    *out = NULL;
    TL_TRY(tli_distill_open((tl_distillation *)t));
    compare_inputs((const tl_distillation *)t, m);
    return tl_task_create_optimizer(student_of(t), m, config, runtime, out);
}

/* A run that goes on is compared by it. */
static tl_status notes(tl_task *t, tl_notes *into)
{
    const tl_distillation *d = (const tl_distillation *)t;
    char text[64];
    TL_TRY(tl_task_notes(d->student, into));
    if (!d->teacher_model) return TL_OK;
    snprintf(text, sizeof text, "weights: crc32c %08x\n", (unsigned)d->teacher_sum);
    return tl_notes_put(into, "teacher", "teacher.txt", text);
}

/* --- what is the student's -------------------------------------------------------------------- */

static tl_status build_model(tl_task *t, tl_model **out)
{
    return tl_task_build_model(student_of(t), out);
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    return tl_task_build_inputs(student_of(t), data, input, out);
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    return tl_task_build_losses(student_of(t), c, labels, outputs, aux);
}

static void process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                            const tl_tensors *outputs)
{
    tl_task_process_metrics(student_of(t), s, labels, outputs);
}

static void process_compiled_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                                     const tl_tensors *outputs)
{
    tl_task_process_compiled_metrics(student_of(t), s, labels, outputs);
}

static tl_status validation_step(tl_task *t, tl_step *s)
{
    return tl_task_validation_step(student_of(t), s);
}

static tl_status inference_step(tl_task *t, tl_step *s, tl_tensors *outputs)
{
    return tl_task_inference_step(student_of(t), s, outputs);
}

static tl_status aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    return tl_task_aggregate_logs(student_of(t), state, step);
}

static tl_status reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step, tl_logs *into)
{
    return tl_task_reduce_aggregated_logs(student_of(t), state, global_step, into);
}

static void release_aggregated(tl_task *t, void *state)
{
    tl_task_release_aggregated(student_of(t), state);
}

static tl_status initialize(tl_task *t, tl_model *m)
{
    return tl_task_initialize(student_of(t), m);
}

static tl_status original_names(tl_task *t, tl_original_names *into)
{
    return tl_task_original_names(student_of(t), into);
}

static tl_status prepare_query(const tl_task *t, const tl_query *q, void *const *inputs)
{
    return tl_task_prepare_query(student_of(t), q, inputs);
}

static tl_tensor *build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs)
{
    return tl_task_build_answers(student_of(t), c, outputs);
}

static void answer_form(const tl_task *t, tl_answer_form *out)
{
    tl_task_answer_form(student_of(t), out);
}

static tl_status set_classes(tl_task *t, tl_strings names)
{
    return tl_task_set_classes(student_of(t), names);
}

static tl_status export_files(tl_task *t, tl_notes *into)
{
    return tl_task_export_files(student_of(t), into);
}

static tl_status export_weights(tl_task *t, const tl_export_args *args, tl_state *weights,
                                tl_notes *files)
{
    return tl_task_export_weights(student_of(t), args, weights, files);
}

static void split_batch(const tl_task *t, const tl_batch *batch, tl_batch_parts *out)
{
    tl_task_split_batch(student_of(t), batch, out);
}

static tl_status query_inputs(const tl_task *t, tl_spec *inputs, int64_t count)
{
    return tl_task_query_inputs(student_of(t), inputs, count);
}

static tl_status lacks(const tl_task_config *config, bool trains, bool evaluates, tl_lacks *into)
{
    const tl_distillation_config *c = (const tl_distillation_config *)config;
    (void)evaluates;
    if (!c->student.type)
        TL_TRY(tl_lacks_add(into, "task.student.type", "which task is learned",
                            "image_classification"));
    if (!trains || *c->teacher) return TL_OK;
    return tl_lacks_add(into, "task.teacher", "the run whose answers are learned", "runs/teacher");
}

const tl_task_class tl_distillation_task = {
    .cls = TL_CLASS(tl_task_class, "distillation", &tl_base_task.cls, tl_distillation,
                    &tl_distillation_config_desc,
                    .help = "learns from the answers of a trained model, beside labels"),
    .start = start,
    .dispose = dispose,
    .build_model = build_model,
    .build_inputs = build_inputs,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
    .process_metrics = process_metrics,
    .process_compiled_metrics = process_compiled_metrics,
    .train_step = train_step,
    .validation_step = validation_step,
    .inference_step = inference_step,
    .aggregate_logs = aggregate_logs,
    .reduce_aggregated_logs = reduce_aggregated_logs,
    .release_aggregated = release_aggregated,
    .initialize = initialize,
    .create_optimizer = create_optimizer,
    .original_names = original_names,
    .notes = notes,
    .prepare_query = prepare_query,
    .build_answers = build_answers,
    .answer_form = answer_form,
    .set_classes = set_classes,
    .export_files = export_files,
    .export_weights = export_weights,
    .lacks = lacks,
    .split_batch = split_batch,
    .query_inputs = query_inputs,
};
