/* Suppression of boxes, against torchvision (bench/peers/boxes.py), and the labels of anchors.
 * Boxes and scores are drawn alike on both sides; the numbers differ. Names are those of the
 * peer's cases. */
#include "bench.h"

#include <stdlib.h>
#include <tilth/nn/detection.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/random.h>
#include <tilth/ops/view.h>
#include <tilth/sys/cpu/cpu.h>

typedef struct work {
    tl_ctx *c;
    tl_tensor *boxes, *scores, *anchors, *classes;
    int64_t count;
} work;

static void suppress(void *payload)
{
    work *w = payload;
    tl_mark mark = tl_ctx_begin(w->c);
    tl_kept k = tl_box_suppress(w->c, w->boxes, w->scores, .rule = TL_SUPPRESS_ABOVE,
                                .overlap = 0.5, .keep = w->count);
    if (!k.index) abort();
    tl_ctx_end(w->c, mark);
}

static void label(void *payload)
{
    work *w = payload;
    tl_mark mark = tl_ctx_begin(w->c);
    tl_matches m =
        tl_box_match(w->c, w->anchors, w->boxes, .unmatched = 0.5, .matched = 0.5, .force = true);
    if (!m.index) abort();
    tl_ctx_end(w->c, mark);
}

static void label_all(void *payload)
{
    work *w = payload;
    tl_mark mark = tl_ctx_begin(w->c);
    tl_anchor_labels l = tl_label_anchors(w->c, w->anchors, w->boxes, w->classes,
                                          .match_threshold = 0.5, .unmatched_threshold = 0.5);
    if (!l.box_targets) abort();
    tl_ctx_end(w->c, mark);
}

// Corners anywhere in an image of 640 x 640, sides from 10 to 110 pixels.
static tl_tensor *draw_boxes(tl_ctx *c, tl_shape corners)
{
    tl_tensor *low = tl_random_uniform(c, TL_F32, corners, 0, 640);
    tl_tensor *high = tl_add(c, low, tl_random_uniform(c, TL_F32, corners, 10, 110));
    return tl_concat(c, (tl_tensor *[]){low, high}, 2, -1);
}

static tl_status suppression_rows(bench *b, tl_ctx *c, bench_peer *torch)
{
    static const int64_t counts[] = {1000, 5000};
    for (int i = 0; i < 2; i++) {
        char name[64];
        tl_mark mark = tl_ctx_begin(c);
        work w = {.c = c, .count = counts[i]};
        w.boxes = draw_boxes(c, TL_SHAPE(1, counts[i], 1, 2));
        w.scores = tl_random_uniform(c, TL_F32, TL_SHAPE(1, counts[i], 1), 0.1, 1);
        TL_TRY(tl_ctx_status(c));
        snprintf(name, sizeof name, "nms %d", (int)counts[i]);
        TL_TRY(bench_run(b, &(bench_case){.name = name,
                                          .unit = "us",
                                          .ours = suppress,
                                          .program = torch,
                                          .peer_name = "torchvision",
                                          .payload = &w}));
        tl_ctx_end(c, mark);
    }
    return TL_OK;
}

static tl_status label_rows(bench *b, tl_ctx *c)
{
    static const double aspects[] = {0.5, 1, 2};
    const tl_anchor_config config = {3, {aspects, 3}, 4};
    const tl_anchor_grid grid = {.min_level = 3, .max_level = 7, .height = 640, .width = 640};
    work w = {.c = c, .anchors = tl_anchors(c, &config, &grid)};
    w.boxes = draw_boxes(c, TL_SHAPE(8, 100, 2));
    w.classes = tl_random_integers(c, TL_I32, TL_SHAPE(8, 100), 1, 91);
    TL_TRY(tl_ctx_status(c));
    TL_TRY(bench_run(b, &(bench_case){.name = "match 8 x 76725 anchors, 100 boxes",
                                      .unit = "ms",
                                      .ours = label,
                                      .payload = &w}));
    return bench_run(
        b, &(bench_case){.name = "labels of them", .unit = "ms", .ours = label_all, .payload = &w});
}

int main(int argc, char **argv)
{
    bench b;
    tl_engine *engine = NULL;
    tl_ctx *c = NULL;
    bench_peer torch = BENCH_PEER_INIT;
    char threads[16];
    tl_status st;
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    TL_TRY_DONE(st, tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_cpu}));
    TL_TRY_DONE(st, tl_ctx_new(&c, engine));
    snprintf(threads, sizeof threads, "%d", tl_pool_threads(tl_engine_threads(engine)));
    const char *const command[] = {".venv-torch/bin/python", "bench/peers/boxes.py", threads, NULL};
    TL_TRY_DONE(st, bench_peer_start(&torch, command));
    TL_TRY_DONE(st, suppression_rows(&b, c, &torch));
    TL_TRY_DONE(st, label_rows(&b, c));
done:
    bench_peer_stop(&torch);
    tl_ctx_free(&c);
    tl_engine_free(&engine);
    return bench_end(&b, st);
}
