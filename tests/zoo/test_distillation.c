/* Distillation: the loss and its gradient by their formulas, a teacher that stays as it is,
 * students that learn from it, runs that are resumed, what is refused. */
#include "zoo/zoo_lab.h"

#include <math.h>

#include <tilth/ops/create.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/reduce.h>
#include <tilth/train/distill/distillation.h>

/* --- the loss --------------------------------------------------------------------------------- */

enum { EXAMPLES = 3, CLASSES = 4 };

static void softmax(double *out, const double *logits, double temperature)
{
    double sum = 0;
    for (int k = 0; k < CLASSES; k++) sum += out[k] = exp(logits[k] / temperature);
    for (int k = 0; k < CLASSES; k++) out[k] /= sum;
}

/* sum p log(p / q), whose gradient by the student's logits is (q - p) / T; the teacher has none. */
static void test_the_formula(void **state)
{
    (void)state;
    const double teacher[EXAMPLES][CLASSES] = {{3, 1, 0, -2}, {0, 0, 0, 0}, {-50, 40, 1, 2}};
    const double student[EXAMPLES][CLASSES] = {{1, 2, 0.5, 0}, {1, -1, 2, 0}, {0, 30, 4, 100}};
    const double temperatures[] = {1, 4, 20};
    tl_engine *e;
    assert_ok(test_engine_new(&e, NULL, 1));
    for (int t = 0; t < 3; t++) {
        const double T = temperatures[t];
        double found[EXAMPLES], gradient[EXAMPLES][CLASSES], none[EXAMPLES * CLASSES];
        tl_ctx *c;
        assert_ok(tl_ctx_new(&c, e));
        tl_ctx_set_taping(c, true);
        tl_tensor *by[] = {tl_from_doubles(c, TL_F64, TL_SHAPE(EXAMPLES, CLASSES), &student[0][0]),
                           tl_from_doubles(c, TL_F64, TL_SHAPE(EXAMPLES, CLASSES), &teacher[0][0])};
        tl_tensor *grads[2];
        for (int i = 0; i < 2; i++) assert_ok(tl_watch(by[i]));
        tl_tensor *losses = tl_distillation_loss(c, by[1], by[0], T);
        assert_ok(tl_tensor_get_doubles(losses, found, EXAMPLES));
        assert_ok(tl_gradient(c, tl_sum(c, losses, TL_ALL, false), by, 2, grads));
        assert_ok(tl_tensor_get_doubles(grads[0], &gradient[0][0], EXAMPLES * CLASSES));
        assert_ok(tl_tensor_get_doubles(grads[1], none, EXAMPLES * CLASSES));
        for (int i = 0; i < EXAMPLES; i++) {
            double p[CLASSES], q[CLASSES], wanted = 0;
            softmax(p, teacher[i], T);
            softmax(q, student[i], T);
            for (int k = 0; k < CLASSES; k++)
                if (p[k] > 0) wanted += p[k] * log(p[k] / q[k]);
            assert_near(found[i], wanted, 1e-12 * fmax(1, wanted));
            for (int k = 0; k < CLASSES; k++) {
                assert_near(gradient[i][k], (q[k] - p[k]) / T, 1e-12);
                assert_near(none[i * CLASSES + k], 0, 0);
            }
        }
        tl_ctx_free(&c);
    }
    tl_engine_free(&e);
}

/* --- runs ------------------------------------------------------------------------------------- */

static const char quick[] = "runtime: {distribution_strategy: one_device}\n"
                            "tilth: {seed: 3, threads: 1}\n";

static tl_status launch_as(tl_logs *logs, const char *experiment, const char *folder,
                           const char *first, const char *second)
{
    tl_config *c;
    const tl_parse_options options = {.experiment = experiment, .strict_override = true};
    TL_TRY(tl_experiment_begin(&c, lab_registry, &options));
    assert_ok(tl_config_yaml(c, quick, "quick"));
    tl_status st = tl_config_yaml(c, first, "first");
    if (st == TL_OK) st = tl_config_yaml(c, second ? second : "{}", "second");
    if (st == TL_OK) st = tl_experiment_finish(c, lab_registry, experiment);
    if (st == TL_OK)
        st = tl_launch(
            logs, &(tl_launch_args){
                      .registry = lab_registry,
                      .config = c,
                      .run = &(tl_run_args){.quiet = true, .experiment = experiment},
                      .flags = &(tl_train_flags){.mode = "train_and_eval", .model_dir = folder}});
    tl_config_free(&c);
    return st;
}

/* The stripes of vision/local, of which the student has few. */
#define STUDENT_DATA(count)                                                                        \
    "file_type: synthetic, synthetic_examples: " count ", global_batch_size: 32, aug_crop: false," \
    " aug_rand_hflip: false, mean: [128], stddev: [64], center_crop_fraction: 1.0"
#define STUDENT(teacher_)                                                                          \
    "task:\n"                                                                                      \
    "  teacher: " teacher_ "\n"                                                                    \
    "  student:\n"                                                                                 \
    "    type: image_classification\n"                                                             \
    "    image_classification:\n"                                                                  \
    "      model: {num_classes: 4, input_size: [16, 16, 1], backbone: {type: cnn, cnn: {filters: " \
    "[4, 8], units: [16]}}}\n"                                                                     \
    "      evaluation: {top_k: 2}\n"                                                               \
    "      train_data: {" STUDENT_DATA(                                                            \
        "128") ", is_training: true}\n"                                                            \
               "      validation_data: {" STUDENT_DATA(                                            \
                   "512") ", is_training: false}\n"                                                \
                          "trainer:\n"                                                             \
                          "  steps_per_loop: 5\n"                                                  \
                          "  summary_interval: 10\n"                                               \
                          "  checkpoint_interval: 10\n"                                            \
                          "  train_steps: 20\n"                                                    \
                          "  validation_interval: 20\n"                                            \
                          "  optimizer_config: {optimizer: {type: adam}, learning_rate: {type: "   \
                          "constant, constant: "                                                   \
                          "{learning_rate: 0.003}}}\n"

static void train_teacher(const char *folder, const char *yaml)
{
    assert_ok(launch_as(NULL, "vision/local", folder, yaml ? yaml : "{}", NULL));
}

static char *bytes_of_file(const char *path, size_t *size)
{
    char *data;
    assert_ok(tl_file_read(&data, size, path, 1 << 26));
    return data;
}

/* The student of a good teacher is better than one that has its labels alone; nothing of the
 * teacher's is written; a run that was interrupted ends with the same bytes. */
static void test_students_learn(void **state)
{
    (void)state;
    tl_logs *taught, *alone;
    size_t before, after;
    train_teacher("teacher", "task: {train_data: {synthetic_examples: 4096}}\n"
                             "trainer: {train_steps: 600, checkpoint_interval: 600, "
                             "validation_interval: 600, optimizer_config: {learning_rate: "
                             "{cosine: {decay_steps: 600}}}}\n");
    char *was = bytes_of_file("teacher/ckpt-600.safetensors", &before);
    assert_ok(tl_logs_new(&taught));
    assert_ok(tl_logs_new(&alone));
    // Long enough for few examples to be learned by heart: of other seeds the taught one is 0.05 to
    // 0.12 better.
    const char *longer = "trainer: {train_steps: 600, validation_interval: 600, "
                         "checkpoint_interval: 600}\n";
    assert_ok(launch_as(taught, "distillation", "taught", STUDENT("teacher"), longer));
    assert_ok(launch_as(
        alone, "distillation", "alone", STUDENT("teacher"),
        tl_arena_printf(lab_arena, "%stask: {soft_weight: 0, hard_weight: 1}\n", longer)));
    double with = tl_logs_number_or(taught, "accuracy", 0),
           without = tl_logs_number_or(alone, "accuracy", 0);
    if (!(with > without + 0.03)) fail_msg("taught %g, alone %g", with, without);
    assert_true(tl_logs_number_or(taught, "validation_loss", 9)
                < tl_logs_number_or(alone, "validation_loss", 0)); // softer, too
    char *is = bytes_of_file("teacher/ckpt-600.safetensors", &after);
    assert_int_equal(before, after);
    assert_memory_equal(was, is, before);
    tl_free(was);
    tl_free(is);
    tl_logs_free(&taught);
    tl_logs_free(&alone);

    assert_ok(launch_as(NULL, "distillation", "a", STUDENT("teacher"), NULL));
    assert_ok(
        launch_as(NULL, "distillation", "b", STUDENT("teacher"), "trainer: {train_steps: 13}\n"));
    assert_ok(launch_as(NULL, "distillation", "b", STUDENT("teacher"), NULL));
    assert_same_file("a/ckpt-20.safetensors", "b/ckpt-20.safetensors");

    // Another teacher in its place is noticed.
    train_teacher("other", "trainer: {train_steps: 50, checkpoint_interval: 50}\n");
    assert_fails(
        launch_as(NULL, "distillation", "b", STUDENT("other"), "trainer: {train_steps: 30}\n"),
        TL_EINVAL, "teacher.txt");
    // The best checkpoint of a run is one of those that can teach.
    assert_ok(launch_as(NULL, "distillation", "c", STUDENT("teacher"),
                        "task: {teacher_checkpoint: best}\n"));
}

/* A student of a student: what distillation has made is a run as any other. */
static void test_students_become_teachers(void **state)
{
    (void)state;
    const char *few = "trainer: {train_steps: 5, checkpoint_interval: 5, validation_interval: 5}\n";
    train_teacher("teacher", "trainer: {train_steps: 50, checkpoint_interval: 50}\n");
    assert_ok(launch_as(NULL, "distillation", "first", STUDENT("teacher"), few));
    assert_ok(launch_as(NULL, "distillation", "second", STUDENT("first"), few));
}

/* --- a step ----------------------------------------------------------------------------------- */

/* Weights of the teacher and its running statistics stay as they are, and the optimizer knows those
 * of the student alone. */
static void test_the_teacher_stays(void **state)
{
    (void)state;
    lab_run r;
    train_teacher("teacher",
                  "task: {model: {add_head_batch_norm: true}}\n"
                  "trainer: {train_steps: 50, checkpoint_interval: 50, validation_interval: 50}\n");
    lab_train(&r, "distillation", STUDENT("teacher"));
    const tl_distillation *d = (const tl_distillation *)r.task;
    const tl_model *m = d->teacher_model;
    assert_non_null(m);
    assert_int_equal(tl_model_measure(m).trainable, 0);
    static double before[64][8192], now[8192];
    assert_true(tl_model_param_count(m) <= 64);
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_tensor *t = tl_model_param(m, i)->tensor;
        assert_true(tl_tensor_count(t) <= 8192);
        assert_ok(tl_tensor_get_doubles(t, before[i], tl_tensor_count(t)));
    }
    assert_ok(tl_trainer_train(r.trainer, 5, r.logs));
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_tensor *t = tl_model_param(m, i)->tensor;
        assert_ok(tl_tensor_get_doubles(t, now, tl_tensor_count(t)));
        assert_memory_equal(now, before[i], (size_t)tl_tensor_count(t) * sizeof *now);
    }
    // 0.1 of the one and 16 * 0.9 of the other are what was minimized.
    double hard = tl_logs_number_or(r.logs, "hard_loss", -1),
           soft = tl_logs_number_or(r.logs, "soft_loss", -1),
           all = tl_logs_number_or(r.logs, "training_loss", -1);
    assert_true(hard > 0 && soft > 0);
    assert_near(all, 0.1 * hard + 0.9 * 16 * soft, 1e-4 * all);
    lab_end(&r);
}

static void refuse(const char *first, const char *second, const char *text)
{
    tl_status st = launch_as(NULL, "distillation", "refused", first, second);
    if (st == TL_OK || !strstr(tl_error_message(), text))
        fail_msg("%s: %s\n    lacks %s", second ? second : first, tl_error_message(), text);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    refuse("{}", NULL, "task.student");
    refuse(STUDENT("nowhere"), NULL, "task.teacher: nowhere");
    refuse(STUDENT("''"), NULL, "task.teacher");
    refuse(STUDENT("x"), "task: {train_data: {global_batch_size: 3}}",
           "set student.image_classification.train_data");
    refuse(STUDENT("x"), "task: {temperature: 0}", "temperature");
    refuse(STUDENT("x"), "task: {hard_weight: 0, soft_weight: 0}", "nothing is learned");
    refuse(STUDENT("x"), "task: {student: {type: retinanet}}",
           "does not tell one class of several");
    train_teacher("teacher", "trainer: {train_steps: 5, checkpoint_interval: 5}\n");
    refuse(STUDENT("teacher"), "task: {student: {image_classification: {model: {num_classes: 3}}}}",
           "both must have the same classes");
    refuse(STUDENT("teacher"),
           "task: {student: {image_classification: {class_names: [a, b, c, d]}}}",
           "class 0 is 'horizontal', and 'a' for the student");
    refuse(STUDENT("teacher"), "task: {teacher_checkpoint: ckpt-7}", "ckpt-7");
    refuse(STUDENT("teacher"),
           "task: {student: {image_classification: {model: {input_size: [8, 8, 1]}}}}",
           "'teacher' cannot take the student's batches");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_the_formula),
        LAB_TEST(test_students_learn),
        LAB_TEST(test_students_become_teachers),
        LAB_TEST(test_the_teacher_stays),
        LAB_TEST(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
