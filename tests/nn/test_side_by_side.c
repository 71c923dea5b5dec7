/* needs: threads
 *
 * Two threads with a context each differentiate one model at the same time: they share its
 * parameters, and nothing that they note about them. */
#include "nn/lab.h"

#include <pthread.h>

enum { THREADS = 2, ROUNDS = 20, MOST_BLOCKS = 4, TIME = 6, SIZE = 8 };

static void transformer_build(probe *p, tl_scope *s)
{
    p->part[0] = tl_layer_norm(s, "norm");
    p->part[1] = tl_dense(s, "qkv", .units = 3 * SIZE);
    p->part[2] = tl_dense(s, "up", .units = 2 * SIZE, .activation = TL_ACT_GELU);
    p->part[3] = tl_dense(s, "down", .units = SIZE);
}

// The first layer is called twice, so that its parameters' gradients are sums.
static tl_tensor *transformer_forward(probe *p, tl_ctx *ctx, tl_tensor *x)
{
    tl_tensor *part[3], *qkv = tl_call(ctx, p->part[1], tl_call(ctx, p->part[0], x));
    qkv = tl_reshape(ctx, qkv, TL_SHAPE(-1, TIME, 3, 2, SIZE / 2));
    for (int i = 0; i < 3; i++) part[i] = tl_take(ctx, qkv, 2, i);
    tl_tensor *seen = tl_attend(ctx, part[0], part[1], part[2]);
    x = tl_add(ctx, x, tl_reshape(ctx, seen, TL_SHAPE(-1, TIME, SIZE)));
    tl_tensor *hidden =
        tl_dropout(ctx, tl_call(ctx, p->part[2], tl_call(ctx, p->part[0], x)), 0.25);
    return tl_add(ctx, x, tl_call(ctx, p->part[3], hidden));
}
static const recipe transformer = {transformer_build, transformer_forward};

/* What one thread does, and finds. */
typedef struct worker {
    pthread_t thread;
    tl_model *model;
    const tl_tensor *x;
    tl_ctx *ctx;
    tl_status status;
    bool captures; /* records instead, which differentiates as well */
    double *gradients[MOST_BLOCKS];
} worker;

static tl_status differentiate(worker *w)
{
    tl_tensor *grads[MOST_BLOCKS];
    tl_ctx_set_taping(w->ctx, true);
    tl_ctx_set_training(w->ctx, true);
    tl_ctx_set_capturing(w->ctx, w->captures);
    tl_ctx_set_draws(w->ctx, (tl_draws){.seed = 3});
    tl_tensor *y = tl_call(w->ctx, w->model, (tl_tensor *)w->x);
    tl_tensor *loss = tl_mean(w->ctx, tl_square(w->ctx, y), TL_ALL, false);
    TL_TRY(tl_model_gradients(w->ctx, w->model, loss, grads));
    for (int64_t b = 0; b < tl_model_block_count(w->model) && !w->captures; b++)
        TL_TRY(tl_tensor_get_doubles(grads[b], w->gradients[b], tl_tensor_count(grads[b])));
    return tl_ctx_status(w->ctx);
}

static void *work(void *payload)
{
    worker *w = payload;
    for (int i = 0; i < ROUNDS && w->status == TL_OK; i++) {
        tl_mark mark = tl_ctx_begin(w->ctx);
        w->status = differentiate(w);
        tl_ctx_end(w->ctx, mark);
    }
    return NULL;
}

static void begin(worker *w, tl_model *m, const tl_tensor *x)
{
    *w = (worker){.model = m, .x = x};
    assert_true(tl_model_block_count(m) <= MOST_BLOCKS);
    assert_ok(tl_ctx_new(&w->ctx, engine));
    for (int64_t b = 0; b < tl_model_block_count(m); b++) {
        w->gradients[b] =
            calloc((size_t)tl_tensor_count(tl_model_block(m, b)->values), sizeof(double));
        assert_non_null(w->gradients[b]);
    }
}

static void end(worker *w)
{
    tl_ctx_free(&w->ctx);
    for (int b = 0; b < MOST_BLOCKS; b++) free(w->gradients[b]);
}

static void expect_alike(const worker *a, const worker *b)
{
    for (int64_t i = 0; i < tl_model_block_count(a->model); i++) {
        size_t count = (size_t)tl_tensor_count(tl_model_block(a->model, i)->values);
        assert_memory_equal(a->gradients[i], b->gradients[i], count * sizeof(double));
    }
}

static void one_model_is_differentiated_in_two_contexts(void **state)
{
    (void)state;
    worker alone, beside[THREADS];
    tl_model *m = make_model(&transformer, TL_F32, TL_F32, TL_SHAPE(2, TIME, SIZE));
    tl_tensor *x = numbers(TL_F32, TL_SHAPE(2, TIME, SIZE));
    begin(&alone, m, x);
    work(&alone);
    assert_ok(alone.status);
    for (int capturing = 0; capturing < 2; capturing++) { // the second time one of them captures
        for (int i = 0; i < THREADS; i++) {
            begin(&beside[i], m, x);
            beside[i].captures = capturing && i;
        }
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&beside[i].thread, NULL, work, &beside[i]), 0);
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(beside[i].thread, NULL), 0);
        for (int i = 0; i < THREADS; i++) {
            assert_ok(beside[i].status);
            if (!beside[i].captures) expect_alike(&alone, &beside[i]);
            end(&beside[i]);
        }
    }
    end(&alone);
    tl_model_free(&m);
}

// Only what belongs to others is looked up by its address; all else by its id.
static void ids_tell_contexts_apart(void **state)
{
    (void)state;
    tl_ctx *other;
    assert_ok(tl_ctx_new(&other, engine));
    tl_tensor *a = numbers(TL_F32, TL_SHAPE(3)), *b = tl_zeros(other, TL_F32, TL_SHAPE(3));
    tl_tensor *next = tl_zeros(c, TL_F32, TL_SHAPE(3)), *kept;
    assert_true(a->id && b->id && a->id != b->id && next->id > a->id);
    assert_ok(tl_tensor_keep(&kept, a));
    assert_int_equal(kept->id, 0);

    // Of another context, of this one, of none; one of them twice.
    tl_tensor *by[] = {b, next, kept, b}, *grads[TL_COUNT(by)];
    for (size_t i = 0; i < TL_COUNT(by); i++) assert_ok(tl_watch(by[i]));
    tl_ctx_set_taping(c, true);
    tl_tensor *sum =
        tl_add(c, tl_scale(c, b, 2), tl_add(c, tl_scale(c, next, 3), tl_scale(c, kept, 4)));
    assert_ok(tl_gradient(c, tl_sum(c, sum, TL_ALL, false), by, TL_COUNT(by), grads));
    assert_near(at(grads[0], 1), 2, 0);
    assert_near(at(grads[1], 1), 3, 0);
    assert_near(at(grads[2], 1), 4, 0);
    assert_ptr_equal(grads[3], grads[0]);
    tl_tensor_free(&kept);
    tl_ctx_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(one_model_is_differentiated_in_two_contexts),
        LAB_TEST(ids_tell_contexts_apart),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
