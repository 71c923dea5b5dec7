/* Training steps on a GPU in bfloat16 (weights float32), against the best of PyTorch's ways (eager,
 * compiled, CUDA graphs) and JAX on the same GPU in the same run (bench/peers/gpu.py). A case that
 * fails is told and left out. Behind each row: peak memory, clocks and power, where the time of a
 * step goes beside the budget for it, and how long it takes from the start of a process to the
 * first step and how much memory, with caches of kernels and choices and without, beside a process
 * of PyTorch's that compiles. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/sys/graph/program.h>
#include <tilth/tilth.h>

#include "bench.h"
#include "photos.h"
#include "step_work.h"
#include "training.h"

enum { NAME = 64, LINE = 512, STEPS = 4 };

/* --- what is measured ------------------------------------------------------------------------- */

static void run_steps(void *payload)
{
    for (int i = 0; i < STEPS; i++) step_work_run(payload);
}

/* At the end of a sample, as the peers do it. */
static void wait_for_steps(void *payload)
{
    const step_work *w = payload;
    if (tl_engine_wait(w->engine) == TL_OK) return;
    fprintf(stderr, "%s\n", tl_error_message());
    abort();
}

static void run_training(void *payload)
{
    training *t = payload;
    training_run(t);
    if (tl_engine_wait(tl_strategy_engine(t->strategy)) == TL_OK) return;
    fprintf(stderr, "%s\n", tl_error_message());
    abort();
}

/* --- where the time goes ---------------------------------------------------------------------- */

typedef enum kind { PRODUCTS, ATTENTION, CONVOLUTIONS, NESTS, UPDATES, KINDS } kind;
static const char *const kind_names[] = {"products", "attention", "convolutions",
                                         "nests, norms, losses", "updates"};

/* Milliseconds of a step: rates of the libraries as measured on an H200, and bytes by what a copy
 * has there. */
static const struct budget {
    const char *name;
    double ms[KINDS];
    double one_kernel; /* in place of these */
} budgets[] = {
    {"gpt2-124M", .ms = {[PRODUCTS] = 74.4, [ATTENTION] = 19.1, [NESTS] = 9.3, [UPDATES] = 1.6}},
    {"bert-base", .ms = {[PRODUCTS] = 27.2, [ATTENTION] = 9.8, [NESTS] = 4.0, [UPDATES] = 1.2}},
    {"resnet50", .ms = {[CONVOLUTIONS] = 25.9, [NESTS] = 12.5, [UPDATES] = 0.3}},
    {"resnet18", .ms = {[CONVOLUTIONS] = 0.6, [NESTS] = 0.3, [UPDATES] = 0.1}},
    {"mlp", .one_kernel = 0.015},
};

static kind kind_of(const char *op)
{
    static const struct {
        const char *begin;
        kind kind;
    } known[] = {{"matmul", PRODUCTS},        {"linear", PRODUCTS}, {"attend", ATTENTION},
                 {"convolve", CONVOLUTIONS},  {"update", UPDATES},  {"pack", UPDATES},
                 {"finite_and_norm", UPDATES}};
    for (int i = 0; i < (int)TL_COUNT(known); i++)
        if (strncmp(op, known[i].begin, strlen(known[i].begin)) == 0) return known[i].kind;
    return NESTS;
}

/* Sums of the rows of a report: "us, %, GFLOP/s, GB/s, op". */
static void add_up(double ms[KINDS], const char *report)
{
    char op[NAME];
    double us;
    for (const char *line = report; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "%lf %*f %*f %*f %63s", &us, op) == 2) ms[kind_of(op)] += us * 1e-3;
    }
}

/* Calls are timed one by one; what is left of a step are gaps, or less than nothing where some of
 * them run side by side. */
static void show_parts(const char *name, const char *report, double step_ms)
{
    const struct budget *b = NULL;
    double ms[KINDS] = {0}, rest = step_ms;
    for (int i = 0; i < (int)TL_COUNT(budgets); i++)
        if (strncmp(name, budgets[i].name, strlen(budgets[i].name)) == 0) b = &budgets[i];
    if (b && b->one_kernel > 0) {
        printf("  %-22s %8.4f ms, budget %.3f\n", "a step, in one kernel", step_ms, b->one_kernel);
        return;
    }
    add_up(ms, report);
    for (int i = 0; i < KINDS; i++) {
        rest -= ms[i];
        if (ms[i] > 0 || (b && b->ms[i] > 0)) printf("  %-22s %8.3f ms", kind_names[i], ms[i]);
        if (b && b->ms[i] > 0) printf(", budget %.1f", b->ms[i]);
        if (ms[i] > 0 || (b && b->ms[i] > 0)) puts("");
    }
    printf("  %-22s %8.3f ms\n  %-22s %8.3f ms\n", "gaps", rest, "a step", step_ms);
}

/* Milliseconds of a step, over so many milliseconds at least; `run` may leave work under way. */
static double run_for(double least_ms, bench_fn *run, void *payload, tl_engine *engine)
{
    const int64_t begun = tl_clock_ns();
    int64_t runs = 0;
    do {
        run(payload);
        runs++;
    } while ((double)(tl_clock_ns() - begun) * 1e-6 < least_ms);
    if (tl_engine_wait(engine) != TL_OK) {
        fprintf(stderr, "%s\n", tl_error_message());
        abort();
    }
    return (double)(tl_clock_ns() - begun) * 1e-6 / (double)(runs * STEPS);
}

/* How fast the GPU's clocks are and what it takes from the wall while it does this work. */
static void show_clocks(bench_fn *run, void *payload, tl_engine *engine)
{
    static const char ask[] = "timeout 1.2 nvidia-smi -i 0 -lms 100 --format=csv,noheader,nounits "
                              "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu 2>&1";
    char line[LINE];
    double now[4], sums[4] = {0};
    int lines = 0;
    FILE *told = popen(ask, "r");
    (void)run_for(1000, run, payload, engine);
    while (told && fgets(line, sizeof line, told))
        if (sscanf(line, "%lf, %lf, %lf, %lf", &now[0], &now[1], &now[2], &now[3]) == 4) {
            for (int i = 0; i < 4; i++) sums[i] += now[i];
            lines++;
        }
    if (told) (void)pclose(told);
    if (!lines) puts("  clocks and power: nvidia-smi does not tell");
    else
        printf("  under way: %.0f MHz, memory %.0f MHz, %.0f W, %.0f degrees\n", sums[0] / lines,
               sums[1] / lines, sums[2] / lines, sums[3] / lines);
}

static tl_status tell_memory(const tl_engine *engine, tl_device_memory *out)
{
    tl_device *device = tl_engine_device(engine);
    return device->cls->memory(device, out);
}

static void show(const char *name, tl_program *p, bench_fn *run, void *payload, tl_engine *engine)
{
    tl_memory_stats memory;
    tl_str text = TL_STR_INIT;
    tl_engine_memory(engine, &memory);
    printf("  peak memory of tensors %.2f GB\n", (double)memory.peak * 1e-9);
    show_clocks(run, payload, engine);
    if (!p) return;
    const double step_ms = run_for(100, run, payload, engine);
    tl_program_set_timing(p, true);
    (void)run_for(300, run, payload, engine);
    tl_program_report(p, NULL, &text);
    show_parts(name, tl_str_text(&text), step_ms);
    if (getenv("TILTH_STEP")) puts(tl_str_text(&text));
    tl_str_deinit(&text);
}

static tl_status measure(bench *b, const char *name, bench_fn *run, bench_fn *wait, void *payload,
                         double amount, bench_peer *peer)
{
    const int64_t begun = tl_clock_ns();
    run(payload); // captured, compiled
    if (wait) wait(payload);
    printf("  first steps after %.2f s\n", (double)(tl_clock_ns() - begun) * 1e-9);
    run(payload);
    run(payload);
    return bench_run(b, &(bench_case){.name = name,
                                      .unit = "/s",
                                      .amount = amount,
                                      .ours = run,
                                      .wait = wait,
                                      .payload = payload,
                                      .program = peer,
                                      .peer_name = "best of PyTorch, JAX",
                                      .sample_s = 0.3,
                                      .warm = true, // clocks of a GPU fall, and rise slowly
                                      .rounds = 3});
}

/* --- from the start --------------------------------------------------------------------------- */

static const char resnet_name[] = "resnet50";

/* One step of a model. */
static tl_status first_of_model(const step_model *m, tl_engine **engine, step_work *w)
{
    *w = (step_work){.backend = &tl_backend_cuda};
    TL_TRY(step_work_make(w, m, TL_BF16, false));
    *engine = w->engine;
    step_work_run(w);
    return TL_OK;
}

static tl_status first_of_training(tl_engine **engine, training *t)
{
    *t = (training){.steps = 1};
    TL_TRY(training_make_resnet50(t));
    *engine = tl_strategy_engine(t->strategy);
    training_run(t);
    return TL_OK;
}

/* What such a process says of the memory that it takes, beside what every process does; the peer's
 * says the same. */
#define MEMORY "memory of the GPU: %lf GB"

/* In a process of its own: one step, and what the process then has of the GPU's memory beside the
 * context, which is there since `free` bytes were. */
static tl_status run_first_step(const char *name, int64_t free)
{
    step_work w = {0};
    training t = {0};
    tl_engine *engine = NULL;
    tl_device_memory now;
    tl_status st = TL_FAIL(TL_EINVAL, "there is no model '%s'", name);
    for (int64_t i = 0; i < gpu_model_count; i++)
        if (strcmp(gpu_models[i].name, name) == 0) st = first_of_model(&gpu_models[i], &engine, &w);
    if (strcmp(name, resnet_name) == 0) st = first_of_training(&engine, &t);
    if (st == TL_OK) st = tl_engine_wait(engine);
    if (st == TL_OK) st = tell_memory(engine, &now);
    if (st == TL_OK) printf(MEMORY "\n", (double)(free - now.free) * 1e-9);
    step_work_unmake(&w);
    training_deinit(&t);
    return st;
}

static int run_first(const char *name)
{
    tl_engine *engine = NULL;
    tl_device_memory before;
    tl_status st = tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_cuda});
    if (st == TL_OK) st = tell_memory(engine, &before);
    tl_engine_free(&engine);
    if (st == TL_OK) st = run_first_step(name, before.free);
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    return st == TL_OK ? 0 : 1;
}

/* What a row is measured with. */
typedef struct sides {
    bench *b;
    bench_peer *peer;
    const char *program, *python; /* ours, and the peer's; NULL where there is none */
} sides;

/* What a process takes. */
typedef struct process_cost {
    double seconds, gigabytes;
} process_cost;

static process_cost cost_of(const char *command)
{
    const int64_t begun = tl_clock_ns();
    process_cost cost = {0};
    char line[LINE];
    fflush(stdout);
    FILE *told = popen(command, "r");
    while (told && fgets(line, sizeof line, told))
        if (sscanf(line, MEMORY, &cost.gigabytes) != 1) fputs(line, stdout);
    if (!told || pclose(told) != 0) puts("  (it failed)");
    cost.seconds = (double)(tl_clock_ns() - begun) * 1e-9;
    return cost;
}

/* What it takes to make a first step in a process, with an empty cache and with what it has left
 * there; and in one of the peer's, which compiles as well. */
static tl_status show_start(const sides *s, const char *name, const char *row)
{
    char folder[BENCH_FOLDER], ours[BENCH_FOLDER + 512], theirs[2 * BENCH_FOLDER + 512];
    TL_TRY(bench_folder_make(folder));
    snprintf(ours, sizeof ours, "TILTH_CACHE_DIR='%s' TILTH_BENCH_FIRST='%s' '%s'", folder, name,
             s->program);
    snprintf(theirs, sizeof theirs,
             "TORCHINDUCTOR_CACHE_DIR='%s/peer' TRITON_CACHE_DIR='%s/peer' '%s' "
             "bench/peers/gpu.py '%s'",
             folder, folder, s->python ? s->python : "", row);
    for (int warm = 0; warm < 2; warm++) {
        const char *caches = warm ? "warm" : "cold";
        const process_cost took = cost_of(ours);
        const process_cost peer = s->python ? cost_of(theirs) : (process_cost){0};
        printf("  from the start to the first step, caches %s: %.2f s", caches, took.seconds);
        if (s->python)
            printf(", PyTorch compiled %.2f s  x%.1f", peer.seconds, peer.seconds / took.seconds);
        printf("\n  memory of this process beside the context: %.2f GB", took.gigabytes);
        if (s->python)
            printf(", PyTorch compiled %.2f GB  x%.2f", peer.gigabytes,
                   peer.gigabytes > 0 ? took.gigabytes / peer.gigabytes : 0);
        puts("");
    }
    bench_folder_remove(folder);
    return TL_OK;
}

/* --- whole rows ------------------------------------------------------------------------------- */

static tl_status run_model(const sides *s, const step_model *m)
{
    char name[STEP_NAME];
    step_work w = {.backend = &tl_backend_cuda};
    step_work_name(name, m, TL_BF16);
    if (!bench_wants(s->b, name)) return TL_OK;
    tl_status st = step_work_make(&w, m, TL_BF16, false);
    if (st == TL_OK) st = measure(s->b, name, run_steps, wait_for_steps, &w, STEPS, s->peer);
    if (st == TL_OK) show(name, tl_function_program(w.step), run_steps, &w, w.engine);
    step_work_unmake(&w);
    return st == TL_OK ? show_start(s, m->name, name) : st;
}

static tl_status run_resnet(const sides *s)
{
    static const char name[] = "resnet50 B256 bf16";
    training t = {.steps = STEPS};
    if (!bench_wants(s->b, name)) return TL_OK;
    tl_status st = training_make_resnet50(&t);
    if (st == TL_OK) st = measure(s->b, name, run_training, NULL, &t, STEPS, s->peer);
    if (st == TL_OK)
        show(name, tl_function_program(tl_trainer_train_function(t.trainer)), run_training, &t,
             tl_strategy_engine(t.strategy));
    training_deinit(&t);
    return st == TL_OK ? show_start(s, resnet_name, name) : st;
}

/* --- from files ------------------------------------------------------------------------------- */

typedef struct feed {
    training t;
    tl_dataset *data;
    tl_ctx *c;
} feed;

/* The pipeline alone: nothing is computed. */
static void run_pipeline(void *payload)
{
    feed *f = payload;
    for (int i = 0; i < STEPS; i++) {
        const tl_mark mark = tl_ctx_begin(f->c);
        tl_tensors batch = {0};
        bool more = true;
        if (tl_dataset_next(f->data, f->c, &batch, &more) != TL_OK || !more) {
            fprintf(stderr, "%s\n", tl_error_message());
            abort();
        }
        tl_ctx_end(f->c, mark);
    }
}

static tl_status measure_files(bench *b, const char *name, bench_fn *run, void *payload)
{
    run(payload);
    run(payload);
    return bench_run(b, &(bench_case){.name = name,
                                      .unit = "/s",
                                      .amount = STEPS * TRAINING_IMAGES,
                                      .ours = run,
                                      .payload = payload,
                                      .sample_s = 0.5,
                                      .rounds = 3});
}

/* The step alone, with images that lie on the device. */
static tl_status run_step(bench *b, const char *name, const char *changes)
{
    training t = {.steps = STEPS};
    if (!bench_wants(b, name)) return TL_OK;
    tl_status st = training_make(&t, &(training_args){.experiment = "resnet_imagenet",
                                                      .changes = changes,
                                                      .batch_size = TRAINING_IMAGES,
                                                      .half = true,
                                                      .make = training_make_images});
    if (st == TL_OK) st = measure_files(b, name, run_training, &t);
    training_deinit(&t);
    return st;
}

static double rate_of(const bench *b, const char *name)
{
    for (int64_t i = 0; i < b->rows.count; i++)
        if (strcmp(b->rows.items[i].name, name) == 0) return b->rows.items[i].ours;
    return 0;
}

/* names: of the pipeline, the step, and both together. */
static void show_slower(const bench *b, const char *const names[3])
{
    const double pipeline = rate_of(b, names[0]), step = rate_of(b, names[1]),
                 both = rate_of(b, names[2]), slower = pipeline < step ? pipeline : step;
    if (slower > 0 && both > 0)
        printf("  both together make %.3f of what the %s alone makes, the slower one (0.95 "
               "wanted)\n",
               both / slower, pipeline < step ? "pipeline" : "step");
}

/* resnet_imagenet on JPEG records, in images: what the processors make ready, what the GPU takes,
 * and what comes of both, which should be the slower one. */
static tl_status run_files(bench *b)
{
    enum { PHOTOS = 1024 };
    static const char *const names[] = {"resnet50 B256 bf16 images from JPEG, pipeline",
                                        "resnet50 B256 bf16 images from JPEG, step",
                                        "resnet50 B256 bf16 images from JPEG, trained"};
    char folder[BENCH_FOLDER], changes[BENCH_FOLDER + 256];
    feed f = {.t = {.steps = STEPS}};
    tl_input_context input = {.pipelines = 1, .replicas = 1, .seed = 1};
    bool wanted = false;
    for (int i = 0; i < (int)TL_COUNT(names); i++) wanted |= bench_wants(b, names[i]);
    if (!wanted) return TL_OK;
    TL_TRY(bench_folder_make(folder));
    tl_status st;
    TL_TRY_DONE(st, photos_write(folder, PHOTOS, TRAINING_CLASSES - 1));
    snprintf(changes, sizeof changes,
             "task:\n"
             "  model: {norm_activation: {use_sync_bn: false}}\n"
             "  train_data: {input_path: '%s/photos-*', shuffle_buffer_size: %d}\n",
             folder, PHOTOS);
    TL_TRY_DONE(st, run_step(b, names[1], changes));
    TL_TRY_DONE(st, training_make(&f.t, &(training_args){.experiment = "resnet_imagenet",
                                                         .changes = changes,
                                                         .batch_size = TRAINING_IMAGES,
                                                         .half = true}));
    TL_TRY_DONE(st, tl_task_build_inputs(f.t.task, f.t.task->config->train_data, &input, &f.data));
    TL_TRY_DONE(st, tl_ctx_new(&f.c, tl_strategy_engine(f.t.strategy)));
    if (bench_wants(b, names[0])) TL_TRY_DONE(st, measure_files(b, names[0], run_pipeline, &f));
    tl_dataset_free(&f.data); // its threads would be in the way
    if (bench_wants(b, names[2])) st = measure_files(b, names[2], run_training, &f.t);
    show_slower(b, names);
done:
    tl_ctx_free(&f.c);
    tl_dataset_free(&f.data);
    training_deinit(&f.t);
    bench_folder_remove(folder);
    return st;
}

/* A case that fails leaves the others. */
static void told(tl_status st, const char *name)
{
    if (st == TL_OK) return;
    printf("  %s: %s\n", name, tl_error_message());
    tl_error_clear();
}

int main(int argc, char **argv)
{
    const char *python = getenv("TILTH_BENCH_PYTHON");
    const char *const words[] = {python ? python : ".venv-torch/bin/python", "bench/peers/gpu.py",
                                 NULL};
    bench_peer peer = BENCH_PEER_INIT;
    tl_gpu gpu;
    bench b;
    tl_status st;
    setenv("TILTH_DEVICE", "cuda", 1);
    tl_log_set_level(TL_LEVEL_WARNING);
    if (getenv("TILTH_BENCH_FIRST")) return run_first(getenv("TILTH_BENCH_FIRST"));
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    TL_TRY_DONE(st, tl_gpu_at(&gpu, 0));
    printf("%s, compute capability %d.%d, %d processors\n", gpu.name, gpu.major, gpu.minor,
           gpu.processors);
    sides s = {.b = &b, .peer = &peer, .program = argv[0]};
    if (!getenv("TILTH_BENCH_ALONE")) {
        s.python = words[0];
        TL_TRY_DONE(st, bench_peer_start(&peer, words));
    }
    for (int64_t i = 0; i < gpu_model_count; i++)
        told(run_model(&s, &gpu_models[i]), gpu_models[i].name);
    told(run_resnet(&s), resnet_name);
    told(run_files(&b), "resnet50 from JPEG");
done:
    bench_peer_stop(&peer);
    return bench_end(&b, st);
}
