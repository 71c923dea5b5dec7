/* Image classification with random changes, mixtures and several labels: what is read and written
 * back, what comes out of the pipeline, losses and metrics. needs: threads */
#include "zoo/zoo_lab.h"

#include <tilth/io/tensorflow/example.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <tilth/ops/create.h>

#include "zoo/vision/image_view.h"

/* --- configuration ---------------------------------------------------------------------------- */

static const tl_value *train_data_of(const char *yaml)
{
    tl_config *c;
    tl_str text = TL_STR_INIT;
    const tl_value *v;
    assert_ok(lab_parse(&c, "image_classification", yaml));
    assert_ok(tl_yaml_write(&text, tl_config_desc(c), tl_config_value(c)));
    assert_ok(tl_yaml_parse(&v, lab_arena, tl_str_text(&text), text.length, "written"));
    tl_str_deinit(&text);
    tl_config_free(&c);
    v = tl_value_get(tl_value_get(v, "task"), "train_data");
    assert_non_null(v);
    return v;
}

/* 9 and 9.0 are the same. */
static bool agree(const tl_value *a, const tl_value *b)
{
    double x, y;
    if (!a || !b || a->kind != b->kind) return false;
    if (a->kind == TL_VALUE_SCALAR)
        return tl_value_double(a, &x) && tl_value_double(b, &y) ? x == y : tl_value_equal(a, b);
    if (a->count != b->count) return false;
    for (int64_t i = 0; i < a->count; i++)
        if (a->kind == TL_VALUE_LIST ? !agree(a->items[i], b->items[i])
                                     : !agree(tl_value_get(a, b->pairs[i].key), b->pairs[i].value))
            return false;
    return true;
}

/* Model Garden's files have the same keys with the same values. */
static void compare(const char *yaml, const char *file)
{
    const tl_value *theirs, *ours = train_data_of(yaml);
    assert_ok(tl_yaml_read(&theirs, lab_arena, file));
    theirs = tl_value_get(tl_value_get(theirs, "task"), "train_data");
    assert_int_equal(ours->count, theirs->count);
    for (int64_t i = 0; i < theirs->count; i++)
        if (!agree(tl_value_get(ours, theirs->pairs[i].key), theirs->pairs[i].value))
            fail_msg("%s: '%s' differs", file, theirs->pairs[i].key);
}

#define IMAGENET "global_batch_size: 4096, input_path: 'imagenet-2012-tfrecord/train*'"

static void test_what_is_written_back(void **state)
{
    (void)state;
    compare("task: {train_data: {" IMAGENET ", aug_type: {type: randaug, randaug: {magnitude: 9, "
            "exclude_ops: [Cutout]}}, mixup_and_cutmix: {}}}",
            TEST_DATA "/data/configs/deit_imagenet_pretrain.yaml");
    compare("task: {train_data: {" IMAGENET ", aug_type: {type: randaug}}}",
            TEST_DATA "/data/configs/resnet_rs_imagenet.yaml");
    compare("task: {train_data: {" IMAGENET ", aug_type: null, random_erasing: null}}",
            TEST_DATA "/data/configs/resnet_imagenet.yaml");
    const tl_value *d =
        train_data_of("task: {train_data: {aug_type: {type: autoaug}, random_erasing: {}}}");
    const tl_value *type = tl_value_get(d, "aug_type"),
                   *erasing = tl_value_get(d, "random_erasing");
    double x;
    assert_int_equal(type->count, 2); // the other branch is left out
    assert_string_equal(tl_value_get(tl_value_get(type, "autoaug"), "augmentation_name")->text,
                        "v0");
    assert_true(tl_value_double(tl_value_get(tl_value_get(type, "autoaug"), "translate_const"), &x)
                && x == 250);
    assert_int_equal(erasing->count, 4);
    d = tl_value_get(train_data_of("task: {train_data: {decoder: {type: label_map_decoder}}}"),
                     "decoder");
    assert_int_equal(tl_value_get(d, "label_map_decoder")->count, 3);
    assert_true(tl_value_double(tl_value_get(erasing, "max_area"), &x) && x == 1.0 / 3);
}

static void refuse(const char *yaml, const char *text)
{
    tl_config *c = NULL;
    tl_status st = lab_parse(&c, "image_classification", yaml);
    if (st == TL_OK || !strstr(tl_error_message(), text))
        fail_msg("%s: %s\n    lacks %s", yaml, tl_error_message(), text);
    assert_null(c);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    refuse("task: {train_data: {aug_type: {type: autoaug, autoaug: {augmentation_name: v7}}}}",
           "known: v0, test");
    refuse("task: {train_data: {aug_type: {type: autoaug, autoaug: {augmentation_name: "
           "detection_v0}}}}",
           "boxes");
    refuse("task: {train_data: {aug_type: {type: ssd_random_crop}}}",
           "unknown type 'ssd_random_crop'");
    refuse("task: {train_data: {aug_type: {type: randaug, randaug: {exclude_ops: [Cut]}}}}",
           "exclude_ops");
    refuse("task: {train_data: {aug_type: {type: randaug, randaug: {exclude_ops: [Grayscale]}}}}",
           "Grayscale");
    refuse("task: {train_data: {aug_type: {type: randaug, randaug: {prob_to_apply: 1.5}}}}",
           "prob_to_apply");
    refuse("task: {train_data: {aug_policy: cutmix}}",
           "aug_policy: expected autoaug or randaug, found 'cutmix'");
    refuse("task: {train_data: {color_jitter: -0.1}}", "color_jitter");
    refuse("task: {train_data: {color_jitter: 1e300}}", "color_jitter");
    refuse("task: {train_data: {aug_type: {type: randaug, randaug: {cutout_const: 1e300}}}}",
           "cutout_const");
    refuse("task: {train_data: {aug_type: {type: autoaug, autoaug: {translate_const: 1e300}}}}",
           "translate_const");
    refuse("task: {train_data: {repeated_augment: 2, sampler: {_target_: CyclicSampler}}}",
           "repeated_augment");
    refuse("task: {validation_data: {is_multilabel: true}}",
           "validation_data.is_multilabel: train_data.is_multi");
    refuse("task: {train_data: {repeated_augment: 0}}", "repeated_augment");
    refuse("task: {train_data: {random_erasing: {min_area: 0.5, max_area: 0.1}}}", "min_area");
    refuse("task: {train_data: {is_multilabel: true, mixup_and_cutmix: {}}}", "mixup_and_cutmix");
}

/* --- batches ---------------------------------------------------------------------------------- */

enum { SIDE = 12, BATCH = 4, CLASSES = 5, MOST = BATCH * SIDE * SIDE * 3 };

typedef struct batch {
    double image[MOST], label[BATCH * CLASSES];
    int64_t labels; /* numbers of an example */
} batch;

typedef struct data {
    lab_run run;
    tl_dataset *set;
    tl_ctx *ctx;
} data;

#define SYNTHETIC(rest)                                                                            \
    "task: {model: {num_classes: 5, input_size: [12, 12, 3]}, train_data: {file_type: synthetic, " \
    "synthetic_examples: "                                                                         \
    "32, global_batch_size: 4, seed: 5" rest "}}"

static void open_data(data *d, const char *yaml, int threads)
{
    lab_begin(&d->run, "image_classification", yaml);
    const tl_task_config *t = d->run.task->config;
    const tl_image_model_config *m = t->model.value;
    tl_status st = tl_image_inputs(
        &d->set, &(tl_image_inputs_args){.data = (const tl_image_data_config *)t->train_data,
                                         .size = m->input_size,
                                         .num_classes = m->num_classes,
                                         .input = {.pipelines = 1, .replicas = 1},
                                         .threads = threads,
                                         .arena = d->run.task->arena});
    if (st != TL_OK) fail_msg("%s: %s", yaml, tl_error_message());
    assert_ok(tl_ctx_new(&d->ctx, d->run.task->engine));
}

static void close_data(data *d)
{
    tl_ctx_free(&d->ctx);
    tl_dataset_free(&d->set);
    lab_end(&d->run);
}

static void next(data *d, batch *out)
{
    bool more = true;
    tl_mark mark = tl_ctx_begin(d->ctx);
    tl_batch b = {.ctx = d->ctx};
    memset(out, 0, sizeof *out);
    assert_ok(tl_dataset_next(d->set, d->ctx, &b.tensors, &more));
    assert_true(more);
    tl_tensor *x = tl_batch_get(&b, "image"), *y = tl_batch_get(&b, "label");
    out->labels = y->shape.rank == 2 ? y->shape.dims[1] : 1;
    assert_ok(tl_tensor_get_doubles(x, out->image, MOST));
    assert_ok(tl_tensor_get_doubles(y, out->label, BATCH * out->labels));
    tl_ctx_end(d->ctx, mark);
}

#define EVERYTHING                                                                                 \
    ", color_jitter: 0.4, three_augment: true, random_erasing: {probability: 0.5}, "               \
    "mixup_and_cutmix: {prob: 0.9}, "                                                              \
    "repeated_augment: 3, aug_type: {type: randaug, randaug: {magnitude_std: 0.5, prob_to_apply: " \
    "0.8}}"

/* Whatever is drawn belongs to the sample or to the batch. */
static void test_a_resumed_pipeline_goes_on(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        SYNTHETIC(EVERYTHING), SYNTHETIC(", cache: true" EVERYTHING),
        SYNTHETIC(", color_jitter: 0.3, aug_type: {type: autoaug, autoaug: {augmentation_name: "
                  "reduced_imagenet}}"),
        SYNTHETIC(", aug_policy: randaug, randaug_magnitude: 7"),
        SYNTHETIC(", aug_policy: autoaug")};
    static batch first[6], again;
    for (int64_t k = 0; k < TL_COUNT(kinds); k++) {
        data a, b, c;
        tl_state *from, *to, *saved;
        open_data(&a, kinds[k], 1);
        open_data(&b, kinds[k], 3);
        for (int i = 0; i < 3; i++) next(&a, &first[i]);
        assert_ok(tl_state_new(&from));
        assert_ok(tl_dataset_state(a.set, from));
        assert_ok(tl_state_clone(&saved, from));
        for (int i = 3; i < 6; i++) next(&a, &first[i]);
        for (int i = 0; i < 6; i++) { // with several threads
            next(&b, &again);
            assert_memory_equal(&again, &first[i], sizeof again);
        }
        open_data(&c, kinds[k], 2);
        assert_ok(tl_state_new(&to));
        assert_ok(tl_dataset_state(c.set, to));
        assert_ok(tl_state_copy(to, saved, NULL, NULL));
        for (int i = 3; i < 6; i++) {
            next(&c, &again);
            assert_memory_equal(&again, &first[i], sizeof again);
        }
        assert_true(memcmp(&first[0], &first[1], sizeof again) != 0);
        tl_state_free(&from);
        tl_state_free(&to);
        tl_state_free(&saved);
        close_data(&a);
        close_data(&b);
        close_data(&c);
    }
}

/* Each change is seen in the images; none of them changes the labels but mixtures. */
static void test_every_change_changes_something(void **state)
{
    (void)state;
    static const char *const changes[] = {SYNTHETIC(", color_jitter: 0.4"),
                                          SYNTHETIC(", three_augment: true"),
                                          SYNTHETIC(", random_erasing: {probability: 1.0}"),
                                          SYNTHETIC(", aug_type: {type: autoaug}"),
                                          SYNTHETIC(", aug_type: {type: randaug}"),
                                          SYNTHETIC(", aug_policy: autoaug"),
                                          SYNTHETIC(", aug_policy: randaug")};
    static batch plain, changed;
    data d;
    open_data(&d, SYNTHETIC(""), 1);
    next(&d, &plain);
    close_data(&d);
    for (int64_t i = 0; i < TL_COUNT(changes); i++) {
        open_data(&d, changes[i], 1);
        next(&d, &changed);
        close_data(&d);
        if (memcmp(plain.image, changed.image, sizeof plain.image) == 0)
            fail_msg("%s changes nothing", changes[i]);
        assert_memory_equal(plain.label, changed.label, sizeof plain.label);
    }
}

/* In evaluation nothing is random. */
static void test_evaluation_is_not_changed(void **state)
{
    (void)state;
    static batch plain, changed;
    data d;
    open_data(&d, SYNTHETIC(", is_training: false"), 1);
    next(&d, &plain);
    close_data(&d);
    open_data(&d, SYNTHETIC(", is_training: false" EVERYTHING), 1);
    next(&d, &changed);
    close_data(&d);
    assert_memory_equal(&plain, &changed, sizeof plain);
}

static void test_mixtures_have_soft_labels(void **state)
{
    (void)state;
    static batch plain, mixed;
    data d, e;
    open_data(&d, SYNTHETIC(""), 1);
    open_data(&e, SYNTHETIC(", mixup_and_cutmix: {cutmix_alpha: 0.0, label_smoothing: 0.1}"), 1);
    for (int k = 0; k < 5; k++) {
        next(&d, &plain);
        next(&e, &mixed);
        assert_int_equal(plain.labels, 1);
        assert_int_equal(mixed.labels, CLASSES);
        for (int i = 0; i < BATCH; i++) {
            int one = (int)plain.label[i], other = (int)plain.label[BATCH - 1 - i];
            const double *row = mixed.label + i * CLASSES, *x = plain.image + i * MOST / BATCH;
            const double *y = plain.image + (BATCH - 1 - i) * MOST / BATCH,
                         *z = mixed.image + i * MOST / BATCH;
            double share = (row[one] - 0.02) / 0.9;
            for (int c = 0; c < CLASSES; c++)
                if (one != other)
                    assert_near(row[c],
                                0.02
                                    + 0.9
                                          * (c == one     ? share
                                             : c == other ? 1 - share
                                                          : 0),
                                1e-5);
            for (int v = 0; v < MOST / BATCH && one != other; v++)
                assert_near(z[v], share * x[v] + (1 - share) * y[v], 1e-4);
        }
    }
    close_data(&d);
    close_data(&e);
}

/* Three readers of the same 32 examples: each comes about three times as often. */
static void test_examples_come_again(void **state)
{
    (void)state;
    static batch b;
    data d;
    int64_t again = 0;
    static double seen[32][MOST / BATCH];
    int64_t count = 0;
    open_data(&d, SYNTHETIC(", aug_crop: false, aug_rand_hflip: false, repeated_augment: 3"), 1);
    for (int k = 0; k < 8; k++) { // one pass without it: no example comes twice
        next(&d, &b);
        for (int i = 0; i < BATCH; i++) {
            const double *x = b.image + i * MOST / BATCH;
            bool known = false;
            for (int64_t s = 0; s < count; s++) known |= memcmp(seen[s], x, sizeof seen[s]) == 0;
            if (known) again++;
            else memcpy(seen[count++], x, sizeof seen[0]);
        }
    }
    assert_true(again >= 3 && count >= 12);
    close_data(&d);
}

static void test_channels_that_cannot_be_changed(void **state)
{
    (void)state;
    lab_run r;
    tl_dataset *d = NULL;
    lab_begin(&r, "image_classification",
              "task: {model: {num_classes: 5, input_size: [8, 8, 4]}, train_data: {file_type: "
              "synthetic, global_batch_size: 4, three_augment: true}}");
    assert_fails(tl_task_build_inputs(r.task, r.task->config->train_data,
                                      &(tl_input_context){.pipelines = 1, .replicas = 1}, &d),
                 TL_EINVAL, "4 channels");
    lab_end(&r);
}

/* Configurations that were made in C and never read. */
static void test_policies_that_were_not_read(void **state)
{
    (void)state;
    static const tl_autoaug wrong = {.augmentation_name = "v9"};
    static const tl_oneof chosen[] = {{.type = "autoaug"},
                                      {.type = "randaug"},
                                      {.type = "mixup"},
                                      {.type = "autoaug", .value = (void *)(uintptr_t)&wrong}};
    lab_run r;
    lab_begin(&r, "image_classification", SYNTHETIC(""));
    const tl_image_model_config *m = r.task->config->model.value;
    for (int64_t i = 0; i < TL_COUNT(chosen); i++) {
        tl_image_data_config d = *(const tl_image_data_config *)r.task->config->train_data;
        tl_dataset *set = NULL;
        d.aug_type = chosen[i];
        tl_status st =
            tl_image_inputs(&set, &(tl_image_inputs_args){.data = &d,
                                                          .size = m->input_size,
                                                          .num_classes = 5,
                                                          .input = {.pipelines = 1, .replicas = 1},
                                                          .arena = r.task->arena});
        assert_int_equal(st, i < 2 ? TL_OK : TL_EINVAL);
        if (i >= 2) assert_non_null(strstr(tl_error_message(), i == 2 ? "'mixup'" : "'v9'"));
        tl_dataset_free(&set);
    }
    lab_end(&r);
}

static void test_inputs_without_memory(void **state)
{
    (void)state;
    data d;
    static batch b;
    const char *yaml = SYNTHETIC(EVERYTHING ", prefetch_buffer_size: 1");
    open_data(&d, yaml, 1);
    next(&d, &b);
    close_data(&d);
    lab_begin(&d.run, "image_classification", yaml);
    const tl_task_config *t = d.run.task->config;
    const tl_image_model_config *m = t->model.value;
    bool done = false;
    for (int64_t nth = 1; !done && nth < 4000; nth++) {
        tl_dataset *set = NULL;
        tl_ctx *c = NULL;
        tl_tensors tensors = {0};
        bool more = true;
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_image_inputs(
            &set, &(tl_image_inputs_args){.data = (const tl_image_data_config *)t->train_data,
                                          .size = m->input_size,
                                          .num_classes = m->num_classes,
                                          .input = {.pipelines = 1, .replicas = 1},
                                          .threads = 1,
                                          .arena = d.run.task->arena});
        if (st == TL_OK) st = tl_ctx_new(&c, d.run.task->engine);
        if (st == TL_OK) st = tl_dataset_next(set, c, &tensors, &more);
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK && st != TL_ENOMEM)
            fail_msg("allocation %lld: %s", (long long)nth, tl_error_message());
        done = st == TL_OK && nth > 20;
        tl_ctx_free(&c);
        tl_dataset_free(&set);
    }
    assert_true(done);
    lab_end(&d.run);
}

/* --- one image -------------------------------------------------------------------------------- */

/* Bytes are cut, not rounded, before a policy sees them; without one nothing is. */
static void test_fractions_are_cut_off(void **state)
{
    (void)state;
    const uint8_t pixels[4] = {10, 11, 10, 11};
    float out[2];
    const tl_autoaug test = {.augmentation_name = "test", .cutout_const = 0, .translate_const = 0};
    tli_view v = {.height = 1, .width = 2, .channels = 1, .stddev = {1}, .training = true};
    tl_shape shape = TL_SHAPE(2, 2);
    tl_rng rng;
    tl_rng_init(&rng, 1);
    v.resize = 0;
    v.height = 1, v.width = 1;
    assert_ok(tli_view_pixels(out, &v, &shape, pixels, &rng));
    assert_near(out[0], 10.5, 1e-6);
    v.autoaug = &test;
    assert_ok(tli_view_pixels(out, &v, &shape, pixels, &rng));
    assert_near(out[0], 10, 0);
}

/* --- several labels --------------------------------------------------------------------------- */

static void write_records(const char *path)
{
    static const int64_t labels[4][3] = {{1, 3, 3}, {0}, {4, 0, 2}, {0}};
    static const int64_t counts[4] = {3, 1, 3, 0};
    tl_tfrecord_writer *w;
    uint8_t pixels[SIDE * SIDE * 3] = {0};
    assert_ok(tl_tfrecord_writer_begin(&w, path, NULL));
    for (int i = 0; i < 4; i++) {
        tl_str png = TL_STR_INIT, example = TL_STR_INIT;
        assert_ok(tl_png_encode(&png, &(tl_png_image){SIDE, SIDE, 3, pixels}));
        tl_example_writer e = tl_example_begin(&example);
        tl_example_add_bytes(&e, "image/encoded", &(tl_bytes){tl_str_text(&png), png.length}, 1);
        if (counts[i]) tl_example_add_ints(&e, "image/class/label", labels[i], counts[i]);
        assert_ok(tl_example_end(&e));
        assert_ok(tl_tfrecord_write(w, tl_str_text(&example), example.length));
        tl_str_deinit(&example);
        tl_str_deinit(&png);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
}

#define SEVERAL(rest)                                                                              \
    "task: {model: {num_classes: 5, input_size: [12, 12, 3]}, train_data: {input_path: "           \
    "some.tfrecord, "                                                                              \
    "global_batch_size: 4, is_multilabel: true, shuffle_buffer_size: 0" rest "}}"

static void test_labels_of_several_classes(void **state)
{
    (void)state;
    static const double wanted[BATCH * CLASSES] = {0, 1, 0, 1, 0, 1, 0, 0, 0, 0,
                                                   1, 0, 1, 0, 1, 0, 0, 0, 0, 0};
    static batch b;
    data d;
    write_records("some.tfrecord");
    open_data(&d, SEVERAL(""), 1);
    next(&d, &b);
    assert_int_equal(b.labels, CLASSES);
    for (int i = 0; i < BATCH * CLASSES; i++) assert_near(b.label[i], wanted[i], 0);
    close_data(&d);
    // Who expects one class is told what to set.
    open_data(&d,
              "task: {model: {num_classes: 5, input_size: [12, 12, 3]}, train_data: {input_path: "
              "some.tfrecord, global_batch_size: 4, shuffle_buffer_size: 0}}",
              1);
    tl_tensors some = {0};
    bool more;
    assert_int_equal(tl_dataset_next(d.set, d.ctx, &some, &more), TL_EINVAL);
    assert_non_null(strstr(tl_error_message(), "set task.train_data.is_multilabel"));
    close_data(&d);
    // A source of single labels gives vectors with one 1.
    open_data(&d, SYNTHETIC(", is_multilabel: true"), 1);
    next(&d, &b);
    for (int i = 0; i < BATCH; i++) {
        double sum = 0;
        for (int k = 0; k < CLASSES; k++) sum += b.label[i * CLASSES + k];
        assert_near(sum, 1, 0);
    }
    close_data(&d);
}

static double binary(double target, double x)
{
    return -target * log(1 / (1 + exp(-x))) - (1 - target) * log(1 / (1 + exp(x)));
}

/* The mean over classes times their number, labels nearer to a half when they are smoothed. */
static void test_losses_of_several_classes(void **state)
{
    (void)state;
    static const double logits[2][3] = {{1, 2, -1}, {0.5, -0.5, 0}},
                        targets[2][3] = {{0, 1, 1}, {0, 0, 0}};
    static const double smoothings[] = {0, 0.2};
    static const char *const yamls[] = {
        "task: {model: {num_classes: 3}, train_data: {is_multilabel: true}}",
        "task: {model: {num_classes: 3}, train_data: {is_multilabel: true}, losses: "
        "{label_smoothing: 0.2, one_hot: false, use_binary_cross_entropy: true}}",
    };
    for (int k = 0; k < 2; k++) {
        lab_run r;
        tl_ctx *c;
        double found[2];
        tl_tensors labels = {0}, outputs = {0};
        lab_begin(&r, "image_classification", yamls[k]);
        assert_ok(tl_ctx_new(&c, r.task->engine));
        tl_tensors_put(c, &labels, "label",
                       tl_from_doubles(c, TL_F32, TL_SHAPE(2, 3), &targets[0][0]));
        tl_tensors_put(c, &outputs, "y", tl_from_doubles(c, TL_F32, TL_SHAPE(2, 3), &logits[0][0]));
        tl_tensor *losses = tl_task_build_losses(r.task, c, &labels, &outputs, NULL);
        assert_ok(tl_ctx_status(c));
        assert_ok(tl_tensor_get_doubles(losses, found, 2));
        for (int e = 0; e < 2; e++) {
            double wanted = 0;
            for (int i = 0; i < 3; i++)
                wanted +=
                    binary(targets[e][i] * (1 - smoothings[k]) + smoothings[k] / 2, logits[e][i]);
            assert_near(found[e], wanted, 1e-5);
        }
        tl_ctx_free(&c);
        lab_end(&r);
    }
}

static double value_of(const tl_logs *logs, const char *name)
{
    tl_logs_entry e;
    double x;
    if (!tl_logs_find(&e, logs, name)) fail_msg("there is no '%s'", name);
    assert_ok(tl_tensor_item(e.tensor, &x));
    return x;
}

/* Two steps and an evaluation; mixtures too. */
static void test_they_train(void **state)
{
    (void)state;
    static const char *const experiments[] = {
        "task: {model: {num_classes: 5, input_size: [12, 12, 3], backbone: {type: mlp}}, "
        "allow_image_summary: true, train_data: {file_type: synthetic, global_batch_size: 8, "
        "is_multilabel: true}, validation_data: {file_type: synthetic, global_batch_size: 8, "
        "synthetic_examples: 20}}\n"
        "trainer: {train_steps: 4, optimizer_config: {optimizer: {type: sgd}, learning_rate: "
        "{type: constant, constant: {learning_rate: 0.1}}}}",
        "task: {model: {num_classes: 5, input_size: [12, 12, 3], backbone: {type: mlp}}, losses: "
        "{one_hot: false, soft_labels: true}, train_data: {file_type: synthetic, "
        "global_batch_size: 8, mixup_and_cutmix: {}}, validation_data: {file_type: synthetic, "
        "global_batch_size: 8, synthetic_examples: 20}}\n"
        "trainer: {train_steps: 4, optimizer_config: {optimizer: {type: sgd}, learning_rate: "
        "{type: constant, constant: {learning_rate: 0.1}}}}",
    };
    for (int k = 0; k < 2; k++) {
        lab_run r;
        lab_train(&r, "image_classification", experiments[k]);
        assert_ok(tl_trainer_train(r.trainer, 4, r.logs));
        assert_true(isfinite(value_of(r.logs, "training_loss")));
        assert_ok(tl_trainer_evaluate(r.trainer, -1, r.logs));
        assert_true(isfinite(value_of(r.logs, "validation_loss")));
        if (k == 1) {
            double accuracy = value_of(r.logs, "accuracy");
            assert_true(accuracy >= 0 && accuracy <= 1);
        } else {
            double all = value_of(r.logs, "globalPR-AUC"), mean = value_of(r.logs, "meanPR-AUC");
            assert_true(all > 0 && all <= 1 && mean > 0 && mean <= 1);
        }
        lab_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_what_is_written_back),        LAB_TEST(test_what_is_refused),
        LAB_TEST(test_a_resumed_pipeline_goes_on),  LAB_TEST(test_every_change_changes_something),
        LAB_TEST(test_evaluation_is_not_changed),   LAB_TEST(test_mixtures_have_soft_labels),
        LAB_TEST(test_examples_come_again),         LAB_TEST(test_channels_that_cannot_be_changed),
        LAB_TEST(test_policies_that_were_not_read), LAB_TEST(test_inputs_without_memory),
        LAB_TEST(test_fractions_are_cut_off),       LAB_TEST(test_labels_of_several_classes),
        LAB_TEST(test_losses_of_several_classes),   LAB_TEST(test_they_train),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
