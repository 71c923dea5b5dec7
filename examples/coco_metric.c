/* Counterpart of a subclass of COCOEvaluator (Model Garden, Customize metrics: Python-based
 * metrics): the twelve numbers of COCO, and one more, the share of detections above a score that
 * are wrong at an overlap of one half. A task feeds it as host_metric.c shows.
 *
 *     $ example_coco_metric
 *     AP: 0.725, AP50: 0.75, ... ARl: -1, wrong: 0.333333 */
#include <stdio.h>

#include <tilth/tilth.h>

typedef struct wrong_config {
    tl_coco_evaluator_config base;
    double score; /* detections below it are left out */
} wrong_config;
static const tl_field wrong_fields[] = {
    TL_F(wrong_config, score, .d = 0.5, TL_RANGE(0, 1), .help = "detections below are left out"),
    TL_F_END,
};
static const tl_desc wrong_desc = {
    .name = "wrong",
    .help = "COCO's numbers, and the share of wrong detections",
    .size = sizeof(wrong_config),
    .base = &tl_coco_evaluator_desc,
    .fields = wrong_fields,
};

/* Whether a detection overlaps an object of its class by a half. */
static bool is_right(const tl_coco_object *d, const tl_coco_set *truths)
{
    for (int64_t i = 0; i < truths->objects.count; i++) {
        const tl_coco_object *o = &truths->objects.items[i];
        if (o->image != d->image || o->category != d->category) continue;
        double width =
            fmin(o->box[0] + o->box[2], d->box[0] + d->box[2]) - fmax(o->box[0], d->box[0]);
        double height =
            fmin(o->box[1] + o->box[3], d->box[1] + d->box[3]) - fmax(o->box[1], d->box[1]);
        double common = fmax(width, 0) * fmax(height, 0);
        if (common >= 0.5 * (o->box[2] * o->box[3] + d->box[2] * d->box[3] - common)) return true;
    }
    return false;
}

static tl_status result(tl_evaluator *e, tl_logs *into)
{
    const tl_coco_evaluator *coco = (const tl_coco_evaluator *)e;
    const wrong_config *config = e->config;
    double all = 0, wrong = 0;
    TL_TRY(tl_coco_evaluator_class.result(e, into)); // super().result()
    for (int64_t i = 0; i < coco->found->objects.count; i++) {
        const tl_coco_object *d = &coco->found->objects.items[i];
        if (d->score < config->score) continue;
        all++;
        wrong += !is_right(d, coco->truths);
    }
    return tl_logs_put(into, "wrong", all > 0 ? wrong / all : 0);
}

/* What is left out here (build, update, reset, dispose) is inherited. */
static const tl_evaluator_class wrong_class = {
    .cls = TL_CLASS(tl_evaluator_class, "wrong", &tl_coco_evaluator_class.cls, tl_coco_evaluator,
                    &wrong_desc, .help = "COCO's numbers, and the share of wrong detections"),
    .result = result,
};

/* One image of 60 x 80 pixels, which the network has seen at twice the size. */
static tl_status see_batch(tl_evaluator *e, tl_ctx *c)
{
    tl_tensors truth = {0}, found = {0};
    tl_tensor *id = tl_from_doubles(c, TL_I64, TL_SHAPE(1), (double[]){17});
    tl_tensors_put(c, &truth, "source_id", id);
    tl_tensors_put(c, &truth, "height", tl_from_doubles(c, TL_I32, TL_SHAPE(1), (double[]){60}));
    tl_tensors_put(c, &truth, "width", tl_from_doubles(c, TL_I32, TL_SHAPE(1), (double[]){80}));
    tl_tensors_put(c, &truth, "num_detections", tl_full(c, TL_I32, TL_SHAPE(1), 2));
    tl_tensors_put(
        c, &truth, "boxes",
        tl_from_doubles(c, TL_F32, TL_SHAPE(1, 2, 4), (double[]){10, 10, 30, 30, 20, 40, 50, 70}));
    tl_tensors_put(c, &truth, "classes",
                   tl_from_doubles(c, TL_I32, TL_SHAPE(1, 2), (double[]){1, 2}));

    tl_tensors_put(c, &found, "source_id", id);
    tl_tensors_put(c, &found, "num_detections", tl_full(c, TL_I32, TL_SHAPE(1), 3));
    tl_tensors_put(c, &found, "detection_boxes",
                   tl_from_doubles(c, TL_F32, TL_SHAPE(1, 3, 4),
                                   (double[]){20, 20, 60, 60, 40, 86, 100, 140, 0, 0, 20, 20}));
    tl_tensors_put(c, &found, "detection_classes",
                   tl_from_doubles(c, TL_I32, TL_SHAPE(1, 3), (double[]){1, 2, 2}));
    tl_tensors_put(c, &found, "detection_scores",
                   tl_from_doubles(c, TL_F32, TL_SHAPE(1, 3), (double[]){0.9, 0.8, 0.95}));
    tl_tensors_put(
        c, &found, "image_info",
        tl_from_doubles(c, TL_F32, TL_SHAPE(1, 4, 2), (double[]){60, 80, 120, 160, 2, 2, 0, 0}));
    TL_TRY(tl_ctx_status(c));
    return tl_evaluator_update(e, &truth, &found);
}

int main(void)
{
    tl_registry *registry = NULL;
    tl_engine *engine = NULL;
    tl_ctx *c = NULL;
    tl_evaluator *e = NULL;
    tl_logs *logs = NULL;
    tl_str text = TL_STR_INIT;
    tl_status st;
    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(st, tl_engine_open(&engine, registry, "cpu", 0));
    TL_TRY_DONE(st, tl_ctx_new(&c, engine));
    TL_TRY_DONE(st, tl_logs_new(&logs));
    TL_TRY_DONE(st, tl_evaluator_new(&e, &wrong_class, NULL, NULL));
    TL_TRY_DONE(st, see_batch(e, c));
    TL_TRY_DONE(st, tl_evaluator_tell(e, logs));
    TL_TRY_DONE(st, tl_logs_text(&text, logs));
    printf("%s\n", tl_str_text(&text));
done:
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    tl_str_deinit(&text);
    tl_evaluator_free(&e);
    tl_logs_free(&logs);
    tl_ctx_free(&c);
    tl_engine_free(&engine);
    tl_registry_free(&registry);
    return tl_exit_code(st);
}
