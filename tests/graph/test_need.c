/* Tensors that are not all there: parts are brought before they are read, in an order that follows
 * from the program, and dropped when others were read since; the same bits as with all of them. */
#include "graph/graph_test.h"

#include <math.h>

#include <tilth/sys/graph/need.h>

enum { LAYERS = 6, SIDE = 6, SIZE = SIDE * SIDE, COUNT = LAYERS * SIZE, MOST = 64 };

typedef struct weights {
    tl_tensor *all, *one[LAYERS]; /* views */
    float values[COUNT];
    bool there[LAYERS];
    int64_t brought[MOST], brings, most; /* at a time */
    tl_dtype type;                       /* that they are computed in */
} weights;

/* Forward through all layers, and back: the first is read last. */
BODY(there_and_back)
{
    const weights *w = self;
    tl_tensor *t = tl_cast(c, x, w->type);
    for (int i = 0; i < LAYERS; i++)
        t = tl_matmul_with(c, tl_softmax(c, t, -1), tl_cast(c, w->one[i], w->type), false, false);
    for (int i = LAYERS; i-- > 0;)
        t = tl_matmul_with(c, tl_softmax(c, t, -1), tl_cast(c, w->one[i], w->type), false, true);
    tl_tensors_put(c, out, "sum", tl_matmul_with(c, tl_cast(c, t, TL_F32), y, true, false));
}

static void put(const weights *w, int64_t part, bool there)
{
    float values[COUNT];
    assert_ok(tl_tensor_get(w->all, values, sizeof values));
    for (int64_t i = part * SIZE; i < (part + 1) * SIZE; i++)
        values[i] = there ? w->values[i] : NAN;
    tl_lease l; // as if pages came and went: nobody is told of it
    assert_ok(tl_lease_read(&l, w->all));
    memcpy((float *)(uintptr_t)l.data, values, sizeof values);
    tl_lease_drop(&l);
}

static tl_status bring(void *self, int64_t part)
{
    weights *w = self;
    int64_t now = 0;
    assert_true(!w->there[part] && w->brings < MOST);
    w->there[part] = true;
    w->brought[w->brings++] = part;
    put(w, part, true);
    for (int i = 0; i < LAYERS; i++) now += w->there[i];
    if (now > w->most) w->most = now;
    return TL_OK;
}

static void drop(void *self, int64_t part)
{
    weights *w = self;
    assert_true(w->there[part]);
    w->there[part] = false;
    put(w, part, false);
}

static void run(fixture *f, tl_program *p, float out[SIZE])
{
    float x[SIZE];
    tl_mark mark = tl_ctx_begin(f->c);
    tl_tensors in = {0}, got = {0};
    for (int i = 0; i < 4 * SIDE; i++) x[i] = (float)((i * 7) % 11) / 5 - 1;
    for (int i = 0; i < 2; i++) {
        tl_tensor *t = tl_ctx_tensor(f->c, TL_AT_DEVICE, TL_F32, TL_SHAPE(4, SIDE));
        assert_ok(tl_tensor_set(t, x, 4 * SIDE * sizeof *x));
        tl_tensors_put(f->c, &in, i ? "y" : "x", t);
    }
    assert_ok(tl_program_run(p, f->c, &in, &got));
    assert_ok(tl_tensor_get(tl_tensors_peek(&got, "sum"), out, SIZE * sizeof *out));
    tl_ctx_end(f->c, mark);
}

static void open_weights(weights *w, fixture *f, tl_dtype type)
{
    *w = (weights){.type = type};
    assert_ok(tl_tensor_new(&w->all, f->engine, TL_F32, TL_SHAPE(COUNT)));
    for (int i = 0; i < COUNT; i++) w->values[i] = (float)((i * 13) % 29) / 9 - 1.5f;
    assert_ok(tl_tensor_set(w->all, w->values, sizeof w->values));
    for (int i = 0; i < LAYERS; i++)
        assert_ok(tl_tensor_part(&w->one[i], w->all, (int64_t)i * SIZE, TL_SHAPE(SIDE, SIDE)));
}

static void close_weights(weights *w)
{
    for (int i = 0; i < LAYERS; i++) tl_tensor_free(&w->one[i]);
    tl_tensor_free(&w->all);
}

static void check(fixture *f, tl_dtype type)
{
    weights w;
    tl_early_part parts[LAYERS];
    tl_program *p;
    float whole[SIZE], apart[SIZE];
    open_weights(&w, f, type);
    for (int64_t i = 0; i < LAYERS; i++)
        parts[i] = (tl_early_part){w.all, i * SIZE, (i + 1) * SIZE};
    const tl_need need = {parts, LAYERS, .bring = bring, .drop = drop, .self = &w};
    tl_graph *g = captured(f, there_and_back, &w);
    assert_ok(tl_graph_optimize(g, &(tl_optimize){.verify = true}));
    assert_ok(tl_program_new(&p, &g, &(tl_program_args){.name = "layers"}));
    assert_int_equal(tl_program_need_order(p), 0);
    run(f, p, whole);
    for (int again = 0; again < 2; again++) {
        assert_ok(tl_tensor_set(w.all, w.values, sizeof w.values)); // copies are made anew
        for (int i = 0; i < LAYERS; i++) put(&w, i, false);
        w.brings = w.most = 0;
        assert_ok(tl_program_set_need(p, &need));
        const uint64_t order = tl_program_need_order(p);
        assert_true(order != 0);
        run(f, p, apart);
        assert_memory_equal(whole, apart, sizeof whole);
        for (int i = 0; i < LAYERS; i++) assert_false(w.there[i]);
        // one cast makes all copies
        assert_true(w.most < LAYERS + (type != TL_F32) && w.brings >= LAYERS);
        // once forward and once backward; what is read around the turn stays
        if (type == TL_F32) assert_true(w.brings > LAYERS && w.brings < 2 * LAYERS);
        // with copies that show the weights nothing is read any more, and another order is told
        if (type != TL_F32 && w.brings == LAYERS) {
            assert_true(tl_program_need_order(p) != order);
            w.brings = 0;
            run(f, p, apart);
            assert_memory_equal(whole, apart, sizeof whole);
            assert_int_equal(w.brings, 0);
        }
        assert_ok(tl_program_set_need(p, NULL));
        assert_int_equal(tl_program_need_order(p), 0);
    }
    tl_program_free(&p);
    close_weights(&w);
}

static void parts_come_and_go(void **state)
{
    check(*state, TL_F32);
}

static void copies_are_made_of_what_is_brought(void **state)
{
    check(*state, TL_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_are_made_of_what_is_brought, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
