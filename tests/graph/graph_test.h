/* What the tests of graphs share: an engine and a context a test, and graphs of small functions of
 * two inputs, "x" and "y", float32[4, 6]. */
#ifndef TILTH_TESTS_GRAPH_GRAPH_TEST_H
#define TILTH_TESTS_GRAPH_GRAPH_TEST_H

#include "test.h"
#include "engine.h"

#include <tilth/base/alloc.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/graph/function.h>
#include <tilth/ops/activation.h>
#include <tilth/sys/ops/apply.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/pack.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>
#include <tilth/sys/graph/graph.h>

typedef struct fixture {
    tl_engine *engine;
    tl_ctx *c;
    tl_mark mark;
} fixture;

static inline int setup(void **state)
{
    static fixture f;
    assert_ok(test_engine_new(&f.engine, NULL, 2));
    assert_ok(tl_ctx_new(&f.c, f.engine));
    f.mark = tl_ctx_begin(f.c);
    *state = &f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    tl_memory_stats stats;
    tl_ctx_end(f->c, f->mark);
    tl_ctx_free(&f->c);
    tl_engine_memory(f->engine, &stats);
    assert_int_equal(stats.used, 0);
    tl_engine_free(&f->engine);
    return 0;
}

/* BODY(name) { ... } is a function of c, x, y and self that puts its results into out. */
#define BODY(name)                                                                                 \
    static void name##_ops(void *self, tl_ctx *c, tl_tensor *x, tl_tensor *y, tl_tensors *out);    \
    static tl_status name(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)            \
    {                                                                                              \
        name##_ops(self, c, tl_tensors_get(c, in, "x"), tl_tensors_get(c, in, "y"), out);          \
        return tl_ctx_status(c);                                                                   \
    }                                                                                              \
    static void name##_ops(void *self, tl_ctx *c, tl_tensor *x, tl_tensor *y, tl_tensors *out)
#define UNUSED_BODY_ARGS (void)self, (void)c, (void)x, (void)y, (void)out

static inline tl_graph *captured(fixture *f, tl_graph_fn *body, void *self)
{
    static const tl_spec inputs[] = {{"x", TL_F32, {.rank = 2, .dims = {4, 6}}},
                                     {"y", TL_F32, {.rank = 2, .dims = {4, 6}}}};
    tl_graph *g;
    assert_ok(tl_graph_capture(&g, &(tl_capture){.engine = f->engine,
                                                 .body = body,
                                                 .self = self,
                                                 .inputs = inputs,
                                                 .input_count = TL_COUNT(inputs),
                                                 .training = true}));
    return g;
}

/* Runs one pass alone and gives how much it changed. */
static inline void note_changes(const tl_graph *g, const tl_pass *pass, int64_t changes,
                                void *payload)
{
    (void)g;
    if (pass) *(int64_t *)payload += changes;
}

static inline int64_t run_pass(tl_graph *g, const char *name)
{
    const char *skip[16];
    int64_t changes = 0;
    int count = 0;
    bool found = false;
    for (const tl_pass *pass = tl_graph_passes; pass->name; pass++) {
        if (strcmp(pass->name, name) == 0) found = true;
        else skip[count++] = pass->name;
    }
    skip[count] = NULL;
    assert_true(found);
    assert_ok(tl_graph_optimize(
        g,
        &(tl_optimize){.skip = skip, .verify = true, .watch = note_changes, .payload = &changes}));
    return changes;
}

static inline void expect_text(const tl_graph *g, const char *wanted)
{
    tl_str text = TL_STR_INIT;
    tl_graph_text(g, &text);
    assert_ok(tl_str_status(&text));
    const char *body = tl_str_text(&text);
    const char *head = "@x  float32[4, 6]\n@y  float32[4, 6]\n"; // the same for all
    assert_memory_equal(body, head, strlen(head));
    if (strcmp(body + strlen(head), wanted) != 0)
        fail_msg("the graph is\n%s\nand should be\n%s", body + strlen(head), wanted);
    tl_str_deinit(&text);
}

static inline int64_t count_ops(const tl_graph *g, const char *name)
{
    int64_t count = 0;
    for (const tl_node *n = tl_graph_first(g); n; n = n->after)
        count += strcmp(n->op->name, name) == 0;
    return count;
}

#endif
