/* Steps of training of vision models (RetinaNet, DeepLabV3+, MobileNetV2, ViT-S/16) as the trainer
 * makes them, on one batch over and over, against the best of PyTorch's ways
 * (bench/peers/vision.py) and Model Garden itself (bench/peers/vision_tf.py). TILTH_STEP=report
 * shows a table of the step's kernels. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/log.h>
#include <tilth/base/pool.h>
#include <tilth/tilth.h>

#include "bench.h"
#include "training.h"

enum { NAME = 64, MOST_FIELDS = 4, OBJECTS = 8, CLASSES = 1001, BOX_CLASSES = 91, PIXELS = 21 };

typedef struct model {
    const char *name, *experiment;
    int64_t size, batch;
    const char *yaml;
} model;

#define SGD                                                                                        \
    "trainer:\n"                                                                                   \
    "  optimizer_config:\n"                                                                        \
    "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"                                           \
    "    learning_rate: {type: constant, constant: {learning_rate: 0.001}}\n"
static const model models[] = {
    {"mobilenetv2 224 B16", "image_classification", 224, 16,
     "task:\n"
     "  model: {num_classes: 1001, input_size: [224, 224, 3], backbone: {type: mobilenet}}\n" SGD},
    {"vit-s16 224 B16", "image_classification", 224, 16,
     "task:\n"
     "  model:\n"
     "    num_classes: 1001\n"
     "    input_size: [224, 224, 3]\n"
     "    backbone: {type: vit, vit: {model_name: vit-s16, representation_size: 0}}\n"
     "trainer:\n"
     "  optimizer_config:\n"
     "    optimizer: {type: adamw, adamw: {weight_decay_rate: 0.05}}\n"
     "    learning_rate: {type: constant, constant: {learning_rate: 0.0001}}\n"},
    {"retinanet resnet18-fpn 256 B4", "retinanet", 256, 4,
     "task:\n"
     "  model:\n"
     "    num_classes: 91\n"
     "    input_size: [256, 256, 3]\n"
     "    backbone: {type: resnet, resnet: {model_id: 18}}\n"
     "    norm_activation: {use_sync_bn: false}\n" SGD},
    {"deeplabv3+ mobilenetv2 256 B8", "semantic_segmentation", 256, 8,
     "task:\n"
     "  model:\n"
     "    num_classes: 21\n"
     "    input_size: [256, 256, 3]\n"
     "    backbone: {type: mobilenet, mobilenet: {output_stride: 16}}\n"
     "    decoder: {type: aspp, aspp: {level: 4, dilation_rates: [6, 12, 18]}}\n"
     "    head: {level: 4, feature_fusion: deeplabv3plus}\n"
     "    norm_activation: {use_sync_bn: false}\n"
     "  train_data: {output_size: [256, 256]}\n" SGD},
};

/* --- a batch ---------------------------------------------------------------------------------- */

typedef struct fields {
    tl_array items[MOST_FIELDS];
    int64_t count;
} fields;

static void *add(fields *f, const char *name, tl_dtype dtype, tl_shape shape)
{
    void *data = calloc((size_t)tl_shape_count(&shape), sizeof(float)); // as large as int32
    f->items[f->count++] = (tl_array){name, dtype, shape, data};
    if (!data) abort();
    return data;
}

/* In [0, 1). */
static float share(tl_rng *rng)
{
    return (float)((double)tl_rng_u32(rng) * 0x1p-32);
}

static void add_boxes(fields *f, const model *m, tl_rng *rng)
{
    float *boxes = add(f, "boxes", TL_F32, TL_SHAPE(m->batch, OBJECTS, 4));
    int32_t *classes = add(f, "classes", TL_I32, TL_SHAPE(m->batch, OBJECTS));
    float *info = add(f, "image_info", TL_F32, TL_SHAPE(m->batch, 4, 2));
    for (int64_t i = 0; i < m->batch * OBJECTS; i++) {
        const float side = 16 + (float)tl_rng_below(rng, m->size / 2);
        const float room = (float)m->size - side;
        boxes[4 * i] = share(rng) * room;
        boxes[4 * i + 1] = share(rng) * room;
        boxes[4 * i + 2] = boxes[4 * i] + side;
        boxes[4 * i + 3] = boxes[4 * i + 1] + side;
        classes[i] = (int32_t)(1 + tl_rng_below(rng, BOX_CLASSES - 1));
    }
    for (int64_t i = 0; i < m->batch * 8; i++)
        info[i] = i % 8 < 4 ? (float)m->size : i % 8 < 6 ? 1.0f : 0.0f;
}

static tl_status make_batch(tl_dataset **out, const model *m)
{
    fields f = {.count = 0};
    tl_rng rng;
    tl_rng_init(&rng, 1);
    const int64_t pixels = m->batch * m->size * m->size;
    float *image = add(&f, "image", TL_F32, TL_SHAPE(m->batch, m->size, m->size, 3));
    for (int64_t i = 0; i < 3 * pixels; i++) image[i] = share(&rng) * 4 - 2;
    if (strcmp(m->experiment, "retinanet") == 0) {
        add_boxes(&f, m, &rng);
    } else if (strcmp(m->experiment, "semantic_segmentation") == 0) {
        float *masks = add(&f, "masks", TL_F32, TL_SHAPE(m->batch, m->size, m->size, 1));
        for (int64_t i = 0; i < pixels; i++) masks[i] = (float)tl_rng_below(&rng, PIXELS);
        float *info = add(&f, "image_info", TL_F32, TL_SHAPE(m->batch, 4, 2));
        for (int64_t i = 0; i < m->batch * 8; i++) info[i] = 1;
    } else {
        int32_t *labels = add(&f, "label", TL_I32, TL_SHAPE(m->batch));
        for (int64_t i = 0; i < m->batch; i++) labels[i] = (int32_t)tl_rng_below(&rng, CLASSES);
    }
    tl_status st = tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = f.items,
                                                                 .count = f.count,
                                                                 .copy = true,
                                                                 .repeat = true,
                                                                 .batch_size = m->batch});
    for (int64_t i = 0; i < f.count; i++) free((void *)(uintptr_t)f.items[i].data);
    return st;
}

/* --- training --------------------------------------------------------------------------------- */

static tl_status make(training *t, const model *m, bool half)
{
    tl_dataset *data;
    TL_TRY(make_batch(&data, m));
    return training_make(t, &(training_args){.experiment = m->experiment,
                                             .changes = m->yaml,
                                             .batch_size = m->batch,
                                             .half = half,
                                             .data = data});
}

typedef struct peers {
    bench_peer torch, original;
} peers;

/* Started when the first of its rows is wanted: importing them takes long. */
static tl_status start_peer(bench_peer *p, const bench *b, const char *row, const char *python,
                            const char *script)
{
    char threads[16];
    if (p->process || !bench_wants(b, row)) return TL_OK;
    snprintf(threads, sizeof threads, "%d", tl_pool_default_threads());
    return bench_peer_start(p, (const char *const[]){python, script, threads, NULL});
}

static tl_status run_cases(bench *b, training *t, const bench_case *cases, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        bench_case c = cases[i];
        c.unit = "ms";
        c.ours = training_run;
        c.payload = t;
        c.rest_s = 0.01;
        c.sample_s = 0.1;
        c.rounds = 5;
        TL_TRY(bench_run(b, &c));
    }
    return TL_OK;
}

static tl_status run_model(bench *b, peers *p, const model *m, bool half)
{
    char name[NAME], beside[NAME + 32];
    training t = {.steps = 1};
    snprintf(name, sizeof name, "%s %s", m->name, half ? "bf16" : "f32");
    snprintf(beside, sizeof beside, "%s, beside Model Garden", name);
    if (!bench_wants(b, name) && !bench_wants(b, beside)) return TL_OK;
    const bench_case cases[] = {
        {.name = name, .program = &p->torch, .peer_name = "best of PyTorch"},
        {.name = beside, .program = &p->original, .peer_name = "Model Garden"},
    };
    TL_TRY(start_peer(&p->torch, b, name, ".venv-torch/bin/python", "bench/peers/vision.py"));
    TL_TRY(start_peer(&p->original, b, beside, ".venv-tf/bin/python", "bench/peers/vision_tf.py"));
    tl_status st = make(&t, m, half);
    for (int i = 0; st == TL_OK && i < 2; i++) training_run(&t); // captured, compiled, warm
    if (st == TL_OK) st = run_cases(b, &t, cases, TL_COUNT(cases));
    if (st == TL_OK) training_show(&t);
    training_deinit(&t);
    return st;
}

int main(int argc, char **argv)
{
    bench b;
    peers p = {.torch = BENCH_PEER_INIT, .original = BENCH_PEER_INIT};
    tl_status st;
    tl_log_set_level(TL_LEVEL_WARNING);
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    for (int i = 0; i < TL_COUNT(models); i++)
        for (int half = 0; half < 2; half++) TL_TRY_DONE(st, run_model(&b, &p, &models[i], half));
done:
    bench_peer_stop(&p.torch);
    bench_peer_stop(&p.original);
    return bench_end(&b, st);
}
