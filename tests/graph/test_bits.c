/* needs: threads; takes: long
 *
 * Training steps as functions have the same bits with any number of threads, interpreted or
 * compiled, by whichever compiler, from an empty cache or a full one. runs: fake device */
#include "test.h"
#include "engine.h"
#include "graph/trainer.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/graph/function.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/model.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>
#include <tilth/sys/graph/program.h>
#include <unistd.h>

/* --- the model -------------------------------------------------------------------------------- */

typedef struct net {
    tl_model base;
    tl_layer *conv, *batch_norm, *layer_norm, *attention, *up, *head;
} net;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->conv = tl_conv2d(s, "conv", .filters = 16, .kernel = 3, .stride = 2, .padding = TL_SAME);
    n->batch_norm = tl_batch_norm(s, "batch_norm");
    n->layer_norm = tl_layer_norm(s, "layer_norm");
    n->attention = tl_attention(s, "attention", .heads = 2, .dropout = 0.1);
    n->up = tl_dense(s, "up", .units = 16, .activation = TL_ACT_GELU);
    n->head = tl_dense(s, "head", .units = 5, .activation = TL_ACT_MISH);
    return tl_scope_status(s);
}

// By hand, so that much of the step is nests: rows, and columns of all rows, are added up.
static tl_tensor *normalize(tl_ctx *c, tl_tensor *x)
{
    tl_tensor *row = tl_mean(c, tl_square(c, x), TL_AXES(2), true);
    tl_tensor *column = tl_mean(c, tl_sigmoid(c, x), TL_AXES(0, 1), false);
    return tl_mul(c, tl_mul(c, x, tl_rsqrt(c, tl_shift(c, row, 1e-3))), tl_exp(c, column));
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    x = tl_call(c, n->batch_norm, tl_call(c, n->conv, x));
    x = tl_reshape(c, x, TL_SHAPE(8, 144, 16));
    x = tl_add(c, x, tl_call(c, n->attention, tl_call(c, n->layer_norm, x)));
    x = tl_add(c, x, tl_dropout(c, tl_call(c, n->up, normalize(c, x)), 0.2));
    return tl_call(c, n->head, tl_mean(c, x, TL_AXES(1), false));
}

static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

/* --- what is compared ------------------------------------------------------------------------- */

enum { STEPS = 4, MOST_BYTES = 1 << 16 }; // the first one is always interpreted

typedef struct trace {
    size_t size;
    char bytes[MOST_BYTES];
} trace;

static void note(trace *to, const tl_tensor *t)
{
    size_t size = tl_tensor_bytes(t);
    assert_true(to->size + size <= MOST_BYTES);
    assert_ok(tl_tensor_get(t, to->bytes + to->size, size));
    to->size += size;
}

typedef struct way {
    int threads;
    bool interpret;
    const char *compiler, *cache;
} way;

typedef struct seen {
    tl_program_stats stats;
    tl_function_stats calls;
} seen;

static void start(trainer *t, tl_engine *engine, tl_ctx *c, tl_dtype dtype)
{
    tl_spec input = {"x", dtype, TL_SHAPE(8, 24, 24, 3)};
    trainer_start(t, engine, c, &net_class, &input, dtype);
}

static void take_step(trainer *t, tl_function *f, tl_ctx *c, int step, tl_dtype dtype, trace *to)
{
    tl_tensors in = {0}, out = {0};
    tl_mark mark = tl_ctx_begin(c);
    tl_ctx_set_draws(c, (tl_draws){.seed = 1, .step = step});
    tl_tensor *x = tl_random_normal(c, TL_F32, TL_SHAPE(8, 24, 24, 3), 0, 1);
    tl_tensors_put(c, &in, "x", tl_cast(c, x, dtype));
    tl_tensors_put(c, &in, "y", tl_random_integers(c, TL_I64, TL_SHAPE(8), 0, 5));
    assert_ok(tl_function_call(f, c, &in, &out));
    for (int64_t i = 0; i < out.count; i++) note(to, out.items[i].tensor);
    for (int64_t i = 0; step == STEPS - 1 && i < tl_model_param_count(t->model); i++)
        note(to, tl_model_param(t->model, i)->tensor);
    tl_ctx_end(c, mark);
}

static seen train(const way *w, tl_dtype dtype, trace *to)
{
    tl_engine *engine;
    tl_ctx *c;
    tl_function *f;
    trainer t;
    seen result;
    assert_int_equal(setenv("TILTH_CC", w->compiler ? w->compiler : "cc", 1), 0);
    if (w->cache) assert_int_equal(setenv("TILTH_CACHE_DIR", w->cache, 1), 0);
    assert_ok(test_engine_new(&engine, NULL, w->threads));
    assert_ok(tl_ctx_new(&c, engine));
    start(&t, engine, c, dtype);
    assert_ok(tl_function_new(&f, &(tl_function_args){.engine = engine,
                                                      .name = "step",
                                                      .body = train_step,
                                                      .self = &t,
                                                      .interpret = w->interpret}));
    tl_ctx_set_training(c, true);
    to->size = 0;
    for (int step = 0; step < STEPS; step++) take_step(&t, f, c, step, dtype, to);
    note(to, t.m);
    note(to, t.v);
    tl_program_measure(tl_function_program(f), &result.stats);
    tl_function_measure(f, &result.calls);
    assert_int_equal(result.calls.captures, 1);
    assert_true(result.stats.nests >= 5);
    tl_function_free(&f);
    tl_model_free(&t.model);
    tl_ctx_free(&c);
    tl_engine_free(&engine);
    return result;
}

static trace wanted, got;

static seen expect_same(const way *w, tl_dtype dtype)
{
    seen result = train(w, dtype, &got);
    assert_int_equal(got.size, wanted.size);
    for (size_t i = 0; i < wanted.size; i++)
        if (got.bytes[i] != wanted.bytes[i])
            fail_msg("%s, %d threads, %s: byte %zu of %zu differs", tl_dtype_name(dtype),
                     w->threads, w->interpret ? "interpreted" : w->compiler, i, wanted.size);
    return result;
}

/* --- folders ---------------------------------------------------------------------------------- */

static const char *new_folder(void)
{
    static char path[TEMPORARY_PATH];
    temporary(path, "tilth_test_bits");
    assert_non_null(mkdtemp(path));
    return path;
}

static void remove_folder(const char *path)
{
    assert_int_equal(remove_tree(path), 0);
}

static bool is_installed(const char *compiler)
{
    char command[64];
    snprintf(command, sizeof command, "command -v %s >/dev/null", compiler);
    int status = system(command);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* --- tests ------------------------------------------------------------------------------------ */

static const tl_dtype types[] = {TL_F32, TL_BF16};
static const int thread_counts[] = {1, 2, 7};

static void threads_do_not_matter(void **state)
{
    (void)state;
    for (size_t d = 0; d < TL_COUNT(types); d++) {
        train(&(way){.threads = 1, .interpret = true}, types[d], &wanted);
        for (size_t i = 1; i < TL_COUNT(thread_counts); i++)
            if (test_takes((int64_t)(d + i), 2))
                expect_same(&(way){.threads = thread_counts[i], .interpret = true}, types[d]);
    }
}

// The first of them finds an empty cache.
static void check_compiler(const char *compiler, int64_t number)
{
    const char *cache = new_folder();
    for (size_t d = 0; d < TL_COUNT(types); d++) {
        if (!test_takes(number + (int64_t)d, 2)) continue;
        train(&(way){.threads = 1, .interpret = true}, types[d], &wanted);
        for (size_t i = 0; i < TL_COUNT(thread_counts); i++) {
            if (i && !test_takes((int64_t)(d + i), 2)) continue;
            way w = {.threads = thread_counts[i], .compiler = compiler, .cache = cache};
            seen s = expect_same(&w, types[d]);
            assert_int_equal(s.stats.compiled, s.stats.nests);
            assert_true(i ? s.stats.compile_s == 0 : s.stats.compile_s > 0);
        }
    }
    remove_folder(cache);
}

static void compilers_do_not_matter(void **state)
{
    static const char *const compilers[] = {"gcc", "clang"};
    int checked = 0;
    (void)state;
    for (size_t i = 0; i < TL_COUNT(compilers); i++) {
        if (!is_installed(compilers[i])) {
            print_message("%s is not installed\n", compilers[i]);
            continue;
        }
        check_compiler(compilers[i], (int64_t)i);
        checked++;
    }
    if (!checked) skip();
}

typedef struct heard {
    int64_t warnings;
    char text[512];
} heard;

static void hear(const tl_log_record *record, void *payload)
{
    heard *h = payload;
    h->warnings++;
    snprintf(h->text, sizeof h->text, "%s", record->text);
}

static void without_a_compiler_all_is_interpreted(void **state)
{
    heard h = {0};
    int64_t sink;
    const char *cache = new_folder();
    (void)state;
    assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_WARNING, hear, NULL, &h}));
    for (size_t d = 0; d < TL_COUNT(types); d++) {
        way w = {.threads = 2, .compiler = "/nonexistent", .cache = cache};
        train(&(way){.threads = 1, .interpret = true}, types[d], &wanted);
        seen s = expect_same(&w, types[d]);
        assert_int_equal(s.stats.compiled, 0);
    }
    assert_true(tl_log_sink_remove(sink));
    assert_int_equal(h.warnings, 1); // for both, and for all of their calls
    assert_non_null(strstr(h.text, "step is interpreted, not compiled: "));
    assert_non_null(strstr(h.text, "/nonexistent"));
    remove_folder(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(compilers_do_not_matter),
        cmocka_unit_test(without_a_compiler_all_is_interpreted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
